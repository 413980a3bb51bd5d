"""The check of a .tflite file's structure, before anything is read from it.

The accessors of the package `tflite` follow offsets without looking where they lead. Here every table, vector and text that is
read later is checked to lie within the file, so that no accessor reads outside of it or loops over a length that it lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import error as StructError
from struct import unpack_from

from anydml.onnx.errors import ModelError, invalid

IDENTIFIER = b"TFL3"
LONGEST_NAME = 10_000  # bytes


class Tables:
    """A vector of tables of a kind."""

    def __init__(self, of: str) -> None:
        self.of = of


Kind = int | str | Tables | None
"""A field: the bytes of each element of a vector, the kind of a table, a vector of tables, or None for a text."""

FIELDS: Mapping[str, Mapping[int, Kind]] = {
    "Model": {1: Tables("OperatorCode"), 2: Tables("SubGraph"), 3: None, 4: Tables("Buffer"), 7: Tables("SignatureDef")},
    "OperatorCode": {1: None},
    "SubGraph": {0: Tables("Tensor"), 1: 4, 2: 4, 3: Tables("Operator"), 4: None},
    "Tensor": {0: 4, 3: None, 4: "QuantizationParameters", 6: "Options", 7: 4},
    "QuantizationParameters": {2: 4, 3: 8},
    "Operator": {1: 4, 2: 4, 4: "Options", 5: 1, 8: 4, 12: "Options"},
    "Buffer": {0: 1},
    "SignatureDef": {0: Tables("TensorMap"), 1: Tables("TensorMap"), 2: None},
    "TensorMap": {0: None},
    "Options": {},
}
"""By kind of table, the fields with offsets that are read, by their number in the schema. Others are in the table itself."""


def verify(data: bytes) -> None:
    """ModelError unless the file is a FlatBuffer of TensorFlow Lite in which all offsets lead to where they may."""
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise invalid("it is not a .tflite file, whose bytes 4 to 7 are TFL3")
    if len(data) >= 1 << 31:
        raise invalid("it has 2 GiB or more, and a FlatBuffer has less")
    try:
        _Verifier(data).table(unpack_from("<I", data, 0)[0], "Model")
    except StructError:
        raise invalid("an offset in it leads beyond its end") from None


class _Verifier:
    """done: the tables that were checked, by place and kind: a table that others share is checked once."""

    def __init__(self, data: bytes) -> None:
        self.data, self.done = data, set[tuple[int, str]]()

    def fault(self, place: int, what: str) -> ModelError:
        return invalid(f"at byte {place}: {what}")

    def table(self, place: int, kind: str) -> None:
        if (place, kind) in self.done:
            return
        self.done.add((place, kind))
        (back,) = unpack_from("<i", self.data, place)
        slots = place - back
        if slots < 0:
            raise self.fault(place, f"the table {kind} has no list of fields")
        of_slots, size = unpack_from("<HH", self.data, slots)
        if of_slots < 4 or of_slots % 2 or slots + of_slots > len(self.data) or size < 4 or place + size > len(self.data):
            raise self.fault(place, f"the table {kind} ends beyond the file, or its list of fields does")
        for k in range((of_slots - 4) // 2):
            (offset,) = unpack_from("<H", self.data, slots + 4 + 2 * k)
            if offset >= size or 0 < offset < 4:
                raise self.fault(place, f"field {k} of the table {kind} lies outside of it")
        for number, of in FIELDS[kind].items():
            if 4 + 2 * number < of_slots and (offset := unpack_from("<H", self.data, slots + 4 + 2 * number)[0]):
                self.field(place + offset, of)

    def field(self, place: int, of: Kind) -> None:
        (offset,) = unpack_from("<I", self.data, place)
        at = place + offset
        if isinstance(of, str):
            self.table(at, of)
            return
        (length,) = unpack_from("<I", self.data, at)
        each = of if isinstance(of, int) else 1 if of is None else 4
        if length * each > len(self.data) - at - 4:
            raise self.fault(place, "a vector ends beyond the file")
        if of is None and length > LONGEST_NAME:
            raise self.fault(place, f"a name has {length} bytes; {LONGEST_NAME} at most are read")
        if isinstance(of, Tables):
            for k in range(length):
                (offset,) = unpack_from("<I", self.data, at + 4 + 4 * k)
                self.table(at + 4 + 4 * k + offset, of.of)
