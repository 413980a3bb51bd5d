"""The tables of a picture: tensors with sizes and layouts, attributes; entries that broken rules read are marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anydml.errors import Violation, show
from anydml.pictures.model import Cell, Table, Tone
from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc, TensorFlags, packed_strides

TENSORS = 12  # of an array of tensors that are listed
ENTRIES = 16  # of an array that are written out


class Marks:
    """The places that broken rules read: wire path -> the numbers of the messages, counted from 1."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        self._found: dict[str, list[int]] = {}
        for i, violation in enumerate(violations, 1):
            for path in violation.values:
                self._found.setdefault(path, []).append(i)

    def at(self, *paths: str, within: bool = False) -> tuple[int, ...]:
        """The numbers of the messages that read a path, or an entry of it; within: or anything below it."""
        ends = ("[", ".") if within else ("[",)
        these = [n for p, n in self._found.items() if any(p == q or p.startswith(tuple(q + e for e in ends)) for q in paths)]
        return tuple(sorted({n for some in these for n in some}))

    def cell(self, text: str, *paths: str, within: bool = False) -> Cell:
        """An entry, marked with the numbers of its messages."""
        numbers = self.at(*paths, within=within)
        tone: Tone = "fault" if numbers else "plain"
        return Cell(text, tone, order=", ".join(map(str, numbers)))


def tensors(desc: Desc, marks: Marks, arrays: Mapping[str, Any]) -> Table:
    """The tensors: data types, sizes, layouts, bytes, and the range of the values that are known."""
    rows, left = [], 0
    for field, wire, t in _named(desc):
        at = int(wire.partition("[")[2].rstrip("]") or 0)
        if at >= TENSORS:
            left += 1
            continue
        name = wire.partition("[")[0]
        given = arrays.get(field)
        rows.append(
            (
                marks.cell(wire, wire),
                Cell(_role(desc, name)),
                marks.cell(t.data_type.name, f"{wire}.DataType"),
                marks.cell(sizes(t.sizes), f"{wire}.Sizes", f"{wire}.DimensionCount"),
                marks.cell(layout(t), f"{wire}.Strides", f"{wire}.Flags", f"{wire}.GuaranteedBaseOffsetAlignment"),
                marks.cell(_bytes(t), f"{wire}.TotalTensorSizeInBytes"),
                *([Cell(_range(given))] if arrays else []),
            )
        )
    if left:
        rows.append((Cell(f"and {left} more tensors"), *[Cell()] * (5 + bool(arrays))))
    head = ("tensor", "role", "data type", "sizes", "layout", "bytes", *(["values"] if arrays else []))
    return Table("Tensors", head, tuple(rows))


def _named(desc: Desc) -> Iterator[tuple[str, str, TensorDesc]]:
    for name, field, t in desc.tensors():
        yield name, field.wire + name[len(field.name) :], t


def _role(desc: Desc, wire: str) -> str:
    return next(f.role for f in desc.spec.fields if f.wire == wire)


def _bytes(t: TensorDesc) -> str:
    try:
        return f"{t.total:,}"
    except (ValueError, TypeError):  # strides that are not as many as the sizes
        return "?"


def _range(x: Any) -> str:
    if x is None or not x.size:
        return ""
    low, high = x.min(), x.max()
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def sizes(values: Sequence[int]) -> str:
    return " × ".join(map(show, values)) if len(values) <= ENTRIES else f"{len(values)} sizes"


def layout(t: TensorDesc) -> str:
    """The strides in words: packed, broadcast, permuted or with gaps."""
    owned = ", owned" if t.flags & TensorFlags.OWNED_BY_DML else ""
    if t.strides is None:
        return f"packed{owned}"
    given = f"strides {', '.join(map(show, t.strides))}"
    if len(t.strides) != len(t.sizes):
        return given + owned
    if t.strides == packed_strides(t.sizes):
        return f"packed{owned}"
    repeated = [i for i, (n, s) in enumerate(zip(t.sizes, t.strides, strict=True)) if n > 1 and not s]
    rest = [(s, n, i) for i, (n, s) in enumerate(zip(t.sizes, t.strides, strict=True)) if n > 1 and s]
    order = [i for *_, i in sorted(rest, reverse=True)]
    notes = [f"repeated along {', '.join(map(str, repeated))}"] if repeated else []
    if order != sorted(order):
        notes.append(f"in memory by dimensions {', '.join(map(str, order))}")
    step, gaps = 1, False
    for s, n, _ in sorted(rest):
        gaps |= s != step
        step = s * n
    return f"{given}: {', '.join([*notes, *(['with gaps'] if gaps else [])])}{owned}".rstrip(": ")


def attributes(desc: Desc, marks: Marks) -> Table | None:
    """The attributes that are given."""
    rows = []
    for f in desc.spec.attributes:
        value = getattr(desc, f.name)
        if value is None or (f.name in desc.spec.counts and not marks.at(f.wire)):
            continue
        rows.append((marks.cell(f.wire, f.wire, within=True), Cell(_value(value)), Cell(f.meaning.replace("`", ""))))
    return Table("Attributes", ("attribute", "value", "meaning"), tuple(rows)) if rows else None


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        shown = ", ".join(map(_value, value[:ENTRIES]))
        return f"{shown}, and {len(value) - ENTRIES} more" if len(value) > ENTRIES else shown
    return f"{value:.9g}" if isinstance(value, float) else show(value)
