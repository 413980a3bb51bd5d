"""DML_FEATURE_LEVEL: which operators, data types and dimension counts a device has."""

from __future__ import annotations

import enum


class FeatureLevel(enum.IntEnum):
    """DML_FEATURE_LEVEL with its wire values, `(major << 12) | (minor << 8)`; each level contains the ones before it.

    EXTENDED is this project's, and has data types that DirectML lacks: BFLOAT16 wherever FLOAT16 is taken, and 8-bit
    floats in operators that move elements and in CAST, QUANTIZE and DEQUANTIZE.
    """

    FL_1_0 = 0x1000
    FL_2_0 = 0x2000
    FL_2_1 = 0x2100
    FL_3_0 = 0x3000
    FL_3_1 = 0x3100
    FL_4_0 = 0x4000
    FL_4_1 = 0x4100
    FL_5_0 = 0x5000
    FL_5_1 = 0x5100
    FL_5_2 = 0x5200
    FL_6_0 = 0x6000
    FL_6_1 = 0x6100
    FL_6_2 = 0x6200
    FL_6_3 = 0x6300
    FL_6_4 = 0x6400
    EXTENDED = 0x10000

    def __str__(self) -> str:
        return self.name.removeprefix("FL_")

    @classmethod
    def parse(cls, text: str) -> FeatureLevel:
        """The level written as `6_4`, `6.4`, `FL_6_4` or `DML_FEATURE_LEVEL_6_4`; ValueError for any other text."""
        name = text.strip().upper().replace(".", "_").removeprefix("DML_FEATURE_LEVEL_").removeprefix("FL_")
        try:
            return cls[name if name in cls.__members__ else "FL_" + name]
        except KeyError:
            levels = ", ".join(map(str, cls))
            raise ValueError(f"there is no feature level {text!r}; the levels are {levels}") from None
