"""Grids: the last two dimensions of a tensor, cut to what fits, with the elements that are read or copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from anydml.pictures.model import Beside, Cell, Grid, Ruler, Rulers, Span, Tone
from anydml.pictures.reads import Reads, Weighted, reads_of
from anydml.schema.statement import Nest

ROWS, COLUMNS = 10, 10  # of a grid at most
COPIED = 196  # elements of an output whose copies are drawn
PICKED = 64  # positions on a ruler

Place = tuple[int, ...]


def short(value: Any) -> str:
    """A number in at most seven characters, as far as it has a short form."""
    if value is None:
        return ""
    if isinstance(value, Fraction):
        if value.denominator == 1:
            value = value.numerator
        elif value.denominator <= 64 and abs(value.numerator) <= 999:
            return f"{value.numerator}/{value.denominator}"
        else:
            value = float(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 10**7 else f"{float(value):.2g}" if abs(value) < 2**1000 else "…"
    return f"{value:.3g}" if isinstance(value, float) else str(value)[:7]


def window(n: int, met: Sequence[int], most: int) -> range:
    """The indices to draw along one dimension: all of them, or `most` around those that are met, which may be outside."""
    low, high = min([0, *met]), max([n - 1, *met])
    if high - low < most:
        return range(low, high + 1)
    first = max(low, min((min(met) if met else 0) - 1, high + 1 - most))
    return range(first, first + most)


def grid(
    title: str,
    sizes: Sequence[int],
    met: Sequence[Place],
    cell: Callable[[Place], Cell],
    lead: Place | None = None,
    framed: tuple[Place, Place] | None = None,
) -> Grid:
    """The slice of a tensor that has most of the places that are met. cell: the cell of a place; framed: a window's corners."""
    if len(sizes) == 0:
        return Grid(title, "", ("",), ("",), ((cell(()),),))
    if lead is None:
        lead = Counter(p[:-2] for p in met).most_common(1)[0][0] if met else (0,) * max(0, len(sizes) - 2)
    here = [p for p in met if p[:-2] == lead]
    height = 1 if len(sizes) == 1 else sizes[-2]
    rows = window(height, [p[-2] if len(p) > 1 else 0 for p in here], ROWS)
    columns = window(sizes[-1], [p[-1] for p in here], COLUMNS)
    cells = tuple(tuple(cell((*lead, *((r,) if len(sizes) > 1 else ()), c)) for c in columns) for r in rows)
    at = ", ".join([*map(str, lead), *[":"] * min(2, len(sizes))])
    dots = (rows.start > 0, rows.stop < height, columns.start > 0, columns.stop < sizes[-1])
    labels = ["" if len(sizes) == 1 else str(r) for r in rows]
    return Grid(
        title,
        f"[{at}] of {' × '.join(map(str, sizes))}",
        _with_dots(labels, dots[0], dots[1]),
        _with_dots(list(map(str, columns)), dots[2], dots[3]),
        _bordered(cells, dots),
        _frame(framed, rows, columns, dots),
    )


def _frame(
    framed: tuple[Place, Place] | None, rows: range, columns: range, dots: tuple[bool, ...]
) -> tuple[int, int, int, int] | None:
    """The part of a window that is drawn; None if nothing of it is."""
    if framed is None:
        return None
    (first, last), ends = framed, []
    for axis, shown, before in ((-2, rows, dots[0]), (-1, columns, dots[2])):
        low, high = (first[axis], last[axis]) if len(first) >= -axis else (0, 0)
        low, high = max(low, shown.start), min(high, shown.stop - 1)
        if low > high:
            return None
        ends += [low - shown.start + before, high - shown.start + before]
    return ends[0], ends[1], ends[2], ends[3]


def _with_dots(labels: list[str], before: bool, after: bool) -> tuple[str, ...]:
    return (*["…"] * before, *labels, *["…"] * after)


def _bordered(cells: tuple[tuple[Cell, ...], ...], dots: tuple[bool, bool, bool, bool]) -> tuple[tuple[Cell, ...], ...]:
    """The cells with an empty row or column where others are left out."""
    above, below, before, after = dots
    empty = Cell("…", "left")
    rows = [(*[empty] * before, *row, *[empty] * after) for row in cells]
    line = (empty,) * len(rows[0])
    return (*[line] * above, *rows, *[line] * below)


def element(arrays: Mapping[str, Any], name: str, at: Place) -> str:
    """The value of an element, as far as it is known and there."""
    array = arrays.get(name)
    if array is None or len(at) != array.ndim or not all(0 <= i < n for i, n in zip(at, array.shape, strict=True)):
        return ""
    return short(array[at].item())


def read_block(desc: Any, output: str, nest: Nest, at: Place, arrays: Mapping[str, Any]) -> list[Beside | Rulers]:
    """The elements that one output element reads: a grid of each input, with the weights; above two dimensions, rulers too."""
    found = reads_of(nest, at, {name: x for name, x in arrays.items() if x.ndim == _dimensions(desc, name)})
    tensors = {f.name: f.desc for f in desc.tensors()}
    by_tensor: dict[str, list[Weighted]] = {}
    for one in found.elements:
        by_tensor.setdefault(one.read.tensor, []).append(one)
    largest = max((abs(float(w.weight)) for w in found.elements if w.weight is not None and w.weight == w.weight), default=0.0)
    grids, rulers = [], []
    for name, elements in by_tensor.items():
        if name not in tensors:
            continue
        places = {_closed(w.read.at): w for w in elements}
        grids.append(grid(wire(desc, name), tensors[name].sizes, [*places], _reader(places, largest, arrays, name)))
        rulers += _rulers(desc, name, tensors[name].sizes, elements)
    if not grids or not by_tensor.keys() <= tensors.keys():  # internal states have elements of their own: see `flows`
        return []
    own = tensors[output].sizes
    grids.append(
        grid(wire(desc, output), own, [at], lambda p: Cell(element(arrays, output, p), "window" if p == at else "plain"))
    )
    title = f"What {wire(desc, output)}[{', '.join(map(str, at))}] is computed from"
    blocks: list[Beside | Rulers] = [Beside(title, tuple(grids), _said(found, bool(arrays)))]
    if rulers:
        blocks.append(Rulers("Along each dimension", tuple(rulers)))
    return blocks


def _dimensions(desc: Any, name: str) -> int:
    return next((len(f.desc.sizes) for f in desc.tensors() if f.name == name), -1)


def _closed(at: Sequence[int | None]) -> Place:
    return tuple(0 if i is None else i for i in at)


def _reader(places: Mapping[Place, Weighted], largest: float, arrays: Mapping[str, Any], name: str) -> Callable[[Place], Cell]:
    unsure = [w.read.at for w in places.values() if None in w.read.at]

    def cell(at: Place) -> Cell:
        value = element(arrays, name, at)
        found = places.get(at)
        if found is not None and None not in found.read.at:
            if not found.inside:
                return Cell("", "outside", said="outside of the tensor")
            if found.weight is None:
                return Cell(value or "•", "read", said=f"times {found.label}" if found.label else "")
            share = abs(float(found.weight)) / largest if largest else 1.0
            text = short(found.weight)
            said = f"{value} times {text}" if value else f"times {text}"
            tone: Tone = "negative" if found.weight < 0 else "read"
            return Cell(value or text, tone, max(0.25, share), f"×{text}" if value else "", said=said)
        if any(all(i is None or i == j for i, j in zip(given, at, strict=True)) for given in unsure):
            return Cell(value or "?", "read", 0.3, said="perhaps: it depends on data")
        return Cell(value)

    return cell


def _said(found: Reads, known: bool) -> str:
    """The line below the grids. known: whether they have values beside the weights."""
    inside = [w for w in found.elements if w.inside]
    outside = len(found.elements) - len(inside)
    said = [f"{len(inside)} element{'s are' if len(inside) != 1 else ' is'} read"]
    if not found.whole:
        said = ["the first and last terms of the sums are drawn; there are more between them"]
    if outside:
        said.append(f"{outside} would be outside")
    if any(w.weight is not None for w in inside):
        said.append("after ×: weights" if known else "the numbers in cells are weights")
    return "; ".join(said)


def _rulers(desc: Any, name: str, sizes: Sequence[int], elements: Sequence[Weighted]) -> list[Ruler]:
    if len(sizes) <= 2:
        return []
    made = []
    for d, n in enumerate(sizes):
        at = sorted({i for w in elements if (i := w.read.at[d]) is not None})
        drawn = d >= len(sizes) - 2 and n <= (COLUMNS if d == len(sizes) - 1 else ROWS)
        if drawn or n == 1 or at in ([], list(range(n))):  # seen in the grid; or nothing, or all of it
            continue
        outside = [Span(i, i + 1, "outside", "outside") for i in at if not 0 <= i < n]
        inside = tuple(i for i in at if 0 <= i < n)
        run = inside and inside == tuple(range(inside[0], inside[-1] + 1))
        which = f"{inside[0]} to {inside[-1]}" if run and len(inside) > 2 else ", ".join(map(str, inside[:8]))
        spans = (Span(inside[0], inside[-1] + 1, "window", ""),) if inside else ()
        made.append(Ruler(f"{wire(desc, name)}, dimension {d}", n, (*spans, *outside), inside[:PICKED], said=f"reads {which}"))
    return made


def wire(desc: Any, name: str) -> str:
    """A tensor's wire name without its ending, as formulas have it."""
    field, _, place = name.partition("[")
    found = next((f.wire for f in desc.spec.tensors if f.name == field), field)
    return found.removesuffix("Tensors").removesuffix("Tensor") + (f"[{place}" if place else "")


def copies(desc: Any, output: str, nest: Nest, arrays: Mapping[str, Any]) -> Beside | None:
    """The elements of an output and where they are copied from, numbered in the output's order; None if there are many."""
    sizes = nest.sizes
    total = prod(sizes)
    if not 0 < total <= COPIED:
        return None
    tensors = {f.name: f.desc for f in desc.tensors()}
    source: dict[Place, tuple[str, Place] | None] = {}
    for at in product(*map(range, sizes)):
        found = [w.read for w in reads_of(nest, at, {}).elements if w.inside]
        if len(found) > 1 or any(None in read.at or read.tensor not in tensors for read in found):
            return None
        source[at] = (found[0].tensor, _closed(found[0].at)) if found else None
    order = {at: i for i, at in enumerate(source, 1)}
    uses: dict[tuple[str, Place], list[int]] = {}
    for at, read in source.items():
        if read is not None:
            uses.setdefault(read, []).append(order[at])

    def of_input(name: str) -> Callable[[Place], Cell]:
        def cell(at: Place) -> Cell:
            numbers = uses.get((name, at))
            value = element(arrays, name, at)
            if not numbers:
                return Cell(value)
            more = "…" if len(numbers) > 1 else ""
            return Cell(value, "read", 0.2 + 0.8 * numbers[0] / total, f"{numbers[0]}{more}", start=numbers[0] == 1)

        return cell

    def of_output(at: Place) -> Cell:
        value = element(arrays, output, at)
        if source.get(at) is None:
            return Cell(value, "outside", said="not copied")
        return Cell(value, "read", 0.2 + 0.8 * order[at] / total, str(order[at]), start=order[at] == 1)

    used = [name for name in tensors if any(name == n for n, _ in uses)][:4]
    grids = [grid(wire(desc, name), tensors[name].sizes, [p for n, p in uses if n == name], of_input(name)) for name in used]
    grids.append(grid(wire(desc, output), sizes, [*source], of_output))
    return Beside("Copies, numbered in the order of the output", tuple(grids), "equal numbers and shades are the same element")
