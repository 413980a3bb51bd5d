"""The source of Python functions for reductions, and the functions that it calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flint import ctx

from anydml.exact import reals
from anydml.exact.reals import Real
from anydml.kernels.evaluate.block import Block
from anydml.kernels.evaluate.elements import KEPT
from anydml.kernels.evaluate.ends import count
from anydml.kernels.evaluate.namespace import Namespace
from anydml.kernels.evaluate.places import places_of
from anydml.schema.node import Expr, Variable
from anydml.schema.traversal import bound_by, free

_START = {"sum": "None", "product": "ONE", "max": "-INFINITY", "min": "INFINITY",
          "first_largest": "[]", "first_smallest": "[]", "rank": "[]"}  # fmt: skip
_STEP = {
    "sum": "x = {value}\n"
    "if total is None: total = x\n"
    "elif type(x) is fmpq and type(total) is fmpq: total += x\n"
    "else: total, largest = settled(total, x, largest)",
    "product": "total = multiply(total, {value})",
    "max": "total = f_max(total, {value})",
    "min": "total = f_min(total, {value})",
    "first_largest": "total.append(({place}, {value}))",
    "first_smallest": "total.append(({place}, {value}))",
    "rank": "total.append({value})",
}
_END = {
    "sum": "if total is None: total = ZERO",
    "product": "",
    "max": "",
    "min": "",
    "first_largest": "total = first(total, False, {last})",
    "first_smallest": "total = first(total, True, {last})",
    "rank": "total = place(total, {last})",
}


def adds(source: Namespace, name: str, e: Expr, variables: Sequence[Variable], places: Mapping[Expr, int]) -> Iterator[str]:
    """The lines of a function for a sum of integers."""
    yield f"def {name}({', '.join(map(source.variable, variables))}):"
    block = Block(source, places=places)
    if e.args[0].op == "constant" and (counted := count(source, e)) is not None:
        made = block.integer(e.args[0])
        yield from block.taken()
        yield f"    return {made} * {counted}"
        return
    yield "    total = 0"
    yield from block.loops(e)
    value = block.integer(e.args[0])
    yield from block.taken()
    yield f"{'    ' * block.depth}total += {value}"
    yield "    return total"


def _position(source: Namespace, e: Expr) -> str:
    """The text of a term's row-major position among all terms of a reduction, those left out included."""
    first, *others = bound_by(e)
    text = source.variable(first)
    for v in others:
        text = f"({text} * {v.size} + {source.variable(v)})"
    return text


def reduces(source: Namespace, name: str, e: Expr, variables: Sequence[Variable]) -> Iterator[str]:
    """The lines of a function for a reduction of numbers, whose results are cached."""
    arguments = ", ".join(map(source.variable, variables))
    if e.op == "rank":
        variables = sorted(free(e)[e.args[0]] - set(bound_by(e)), key=lambda v: (v.name, id(v)))
    kept = source.results()
    yield f"def {name}({arguments}):"
    yield f"    key = ({''.join(f'{source.variable(v)}, ' for v in variables)}ctx.prec)"
    yield f"    total = {kept}.get(key)"
    yield "    if total is None:"
    yield f"        if len({kept}) > {KEPT}: {kept}.clear()"
    kind = e.data[0] if e.op == "reduce" else e.op
    if kind == "sum" and (places := places_of(e)) is not None:
        yield "        try:"
        yield f"            total = {source.reduction(e, places)}"
        yield "            if total:"  # the sign of a zero depends on those of its terms
        yield f"                {kept}[key] = total = fmpq(total, {source.keep(1 << places[e], ('unit', places[e]))})"
        yield "                return total"
        yield "        except NotFinite: pass"
    yield f"        total = {_START[kind]}"
    if kind == "sum":
        yield "        largest = 0"
    block = Block(source)
    block.depth = 2
    yield from block.loops(e)
    value = block.item(e.args[0])
    yield from block.taken()
    depth = block.depth
    yield from ("    " * depth + line for line in _STEP[kind].format(value=value, place=_position(source, e)).splitlines())
    for line in _END[kind].splitlines():
        yield "        " + line.format(last=e.data[1])
    yield f"        {kept}[key] = total"
    if e.op == "rank":
        place = Block(source)
        made = place.index(e.args[1])
        yield from place.lines
        yield f"    return total[{made}]"
    else:
        yield "    return total"


# --- the functions that they call ---


def settled_sum(total: Real, x: Real, largest: Any) -> tuple[Real, Any]:
    """The sum total + x, and the largest magnitude among the terms, if they are not rational."""
    if ctx.prec <= reals.NEAR or type(total) is float or type(x) is float:
        return reals.add(total, x), largest
    largest = max(largest or reals.magnitude(total), reals.magnitude(x))
    return reals.settled(total + x, largest), largest


def first(terms: Sequence[tuple[int, Real]], smallest: bool, last: bool) -> int:
    """The position of the first NaN, else of the extreme (of the last equal one if `last`). 0 if there are no terms."""
    if not terms:
        return 0
    best, extreme = terms[0]
    for at, key in terms:
        if _goes_before(key, extreme, smallest, last):
            best, extreme = at, key
    return best


def _goes_before(a: Real, b: Real, smallest: bool, last: bool) -> bool:
    if reals.is_nan(b):
        return last and reals.is_nan(a)
    if reals.is_nan(a):
        return True
    better = reals.less(a, b) if smallest else reals.less(b, a)
    return better or (last and reals.equal(a, b))


class _Key:
    """A number that is compared as in sorted rows: NaN is larger than +inf."""

    __slots__ = ("number",)

    def __init__(self, number: Real) -> None:
        self.number = number

    def __lt__(self, other: _Key) -> bool:
        if reals.is_nan(self.number):
            return False
        return reals.is_nan(other.number) or reals.less(self.number, other.number)


def place(keys: Sequence[Real], decreasing: bool) -> list[int]:
    """The positions of a row in sorted order; equal keys keep the order of positions."""
    # a stable sort in reverse keeps equal keys in their order
    return sorted(range(len(keys)), key=lambda at: _Key(keys[at]), reverse=decreasing)
