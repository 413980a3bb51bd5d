"""The tensor support tables of the pages, as rows: the dimension counts and data types that a feature level takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from anydml.errors import Violation, show
from anydml.feature_level import FeatureLevel
from anydml.tensor import EIGHT_BIT_FLOATS, DataType, TensorDesc


class Support(NamedTuple):
    """One row: from this level on, until a later row of the same tensor, the tensors take these."""

    level: FeatureLevel
    tensors: tuple[str, ...]
    dimension_counts: range
    data_types: tuple[DataType, ...]


def support(level: FeatureLevel | str, tensors: str, counts: tuple[int, int], data_types: Iterable[DataType]) -> Support:
    """A row for the tensors named in a blank-separated string; `counts`: the smallest and the largest dimension count."""
    level = FeatureLevel.parse(level) if isinstance(level, str) else level
    return Support(level, tuple(tensors.split()), range(counts[0], counts[1] + 1), tuple(data_types))


class Supported(NamedTuple):
    """The dimension counts and data types that one tensor field takes at one level."""

    dimension_counts: range
    data_types: tuple[DataType, ...]


LEVEL_RULES = {  # the rules that follow from an operator's rows, as the documentation states them
    "available": "`FeatureLevel` must be at least the one that the operator came with.",
    "dimension_count_supported": "`FeatureLevel` must take the tensor's dimension count.",
    "data_type_supported": "`FeatureLevel` must take the tensor's data type.",
}

Table = Mapping[FeatureLevel, Mapping[str, Supported]]


def tabulate(rows: Iterable[Support], eight_bit_floats: Collection[str] = ()) -> Table:
    """For every level from the first row's on, what each tensor takes: its newest row at or below the level.

    eight_bit_floats: the tensors that may have 8-bit floats at EXTENDED.
    """
    ordered = sorted(rows, key=lambda row: row.level)
    table: dict[FeatureLevel, Mapping[str, Supported]] = {}
    for level in FeatureLevel:
        if at := {n: Supported(r.dimension_counts, r.data_types) for r in ordered if r.level <= level for n in r.tensors}:
            table[level] = at
    table[FeatureLevel.EXTENDED] = {
        n: s._replace(data_types=(*extended(s.data_types), *(EIGHT_BIT_FLOATS if n in eight_bit_floats else ())))
        for n, s in table[max(table)].items()
    }
    return table


def extended(data_types: tuple[DataType, ...]) -> tuple[DataType, ...]:
    """The data types that `FeatureLevel.EXTENDED` takes where DirectML's newest takes these; 8-bit floats besides."""
    return (*data_types, DataType.BFLOAT16) if DataType.FLOAT16 in data_types else data_types


def unsupported(
    operator: str, table: Table, level: FeatureLevel, wire: str, within: str, tensor: TensorDesc, broken: Collection[str]
) -> list[Violation]:
    """The violations of the level's table by a tensor, which messages call `within`.

    Each names a level that would fit, if there is one. `broken`: the tensor rules that it breaks; if no level takes a value,
    one of them says so.
    """
    here = table[level][wire]
    refusals = []
    for aspect, value, allowed, general in (
        ("DimensionCount", tensor.dimension_count, here.dimension_counts, "dimension_count_in_range"),
        ("DataType", tensor.data_type, here.data_types, "data_type_known"),
    ):
        if value in allowed or general in broken:
            continue
        name = "dimension_count" if aspect == "DimensionCount" else "data_type"
        expected = {f"{within}.{aspect}": allowed if isinstance(allowed, range) else list(allowed)}
        later = [at for at, row in table.items() if value in getattr(row[wire], name + "s") and at > level]
        unit = " dimensions" if name == "dimension_count" else ""
        refusals.append(
            Violation(
                operator,
                f"{name}_supported",
                f"`FeatureLevel` takes {show(expected[f'{within}.{aspect}'])}{unit} here.",
                None,
                {f"{within}.{aspect}": value, "FeatureLevel": level},
                expected | ({"FeatureLevel": min(later)} if later else {}),
            )
        )
    return refusals
