"""Functions in OpenCL C that store one element of a contraction from its sum, unless the sum's bound leaves it undecided."""

from __future__ import annotations

import math

from anydml.kernels.code import opencl
from anydml.kernels.code.emit import when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, left_by_first_stage
from anydml.kernels.contract.floats.formula import Stored, bounded, rounded, stored, stored_precisely
from anydml.kernels.contract.floats.packed.doubled import lost
from anydml.kernels.contract.floats.second import exactly
from anydml.kernels.contract.floats.second.compensated import plus, result, wide
from anydml.kernels.numbers.doubled.arithmetic import Precise
from anydml.kernels.numbers.functions.pairs import Pair

DOUBLE, BIT = Kind("double"), Kind("i1")
_FIRST = ["double total", "double error", "bool odd"]


class ElementFunctions:
    """The functions for one formula. Each takes a sum, then the addresses of the formula's streams and of the output."""

    def __init__(self, target: Target, formula: Stored) -> None:
        self.target, self.formula = target, formula
        self.pointers = [f"p{k}" for k in range(len(formula.others) + 1)]

    def first(self) -> str:
        """From a sum in float64, its error bound, and whether terms that do not count may have changed a zero or made NaN."""
        body = Body(self.target)
        return self._function("first_element", body, _FIRST, *self._first(body, self._read(body)))

    def first_value(self) -> str:
        """As `first`, from the streams' elements; returns the element instead of storing it: see `either`."""
        body, types = Body(self.target), self.formula.types
        kinds = {k: Kind(f"i{types[k].element_bits}") for k in self.formula.others}
        read = {k: Value(body, f"%{p}", kinds[k]) for k, p in zip(kinds, self.pointers, strict=False)}
        value = either(*self._first(body, read))
        arguments = [opencl.Argument(*_typed(x)) for x in _FIRST]
        arguments += [opencl.Argument(x.kind.element, x.name[1:]) for x in read.values()]
        return opencl.function("first_value", arguments, body, value)

    def _first(self, body: Body, read: dict[int, Value]) -> tuple[Value, Value | None]:
        total, error, odd = _double(body, "total"), _double(body, "error"), Value(body, "%odd", BIT)
        guard = odd & (exactly.signed(self.formula, total, read) | total.compared("uno", total))
        number = bounded(total, error, guard)
        made, undecided = exactly.added(self.formula, number, read, *stored(body, self.formula, read, number, 0))
        return made, None if undecided is None else left_by_first_stage(undecided)

    def pair(self) -> str:
        """From a pair of float64, a multiple of the norms' product that bounds its error, and a common divisor of all terms."""
        body = Body(self.target)
        head, rest, most, factor, low = (_double(body, x) for x in ("head", "rest", "most", "factor", "low"))
        odd = Value(body, "%odd", BIT)
        read = self._read(body)
        values = [head, rest, rest.lift(0.0), lost(most, factor, low)]
        guard = odd & (exactly.signed(self.formula, head, read) | head.compared("uno", head))
        made, undecided = exactly.paired(body, self.formula, values, read, guard)
        given = ["double head", "double rest", "double most", "double factor", "double low", "bool odd"]
        return self._function("pair_element", body, given, made, undecided)

    def sum(self) -> str:
        """From a sum in three float64, and the bound of what it lost."""
        body = Body(self.target)
        values = [_double(body, x) for x in ("head", "left", "rest", "lost")]
        read = self._read(body)
        added = self.formula.added()
        if added is not None:
            values = plus(values, wide(read[added[1]], self.formula.types[added[1]]))
        total, remainder, guard, tail, err = result(values)
        made, undecided = stored(body, self.formula, read, rounded(total, remainder, guard), 0, added=added is not None)
        exact = Precise(Pair(total, tail), err, ~total.magnitude().compared("olt", math.inf))
        second = stored_precisely(body, self.formula, read, exact, 0, added=added is not None)
        if second is not None and undecided is not None:
            made = body.chosen(undecided, second[0], made)
            undecided = undecided if second[1] is None else undecided & second[1]
        given = ["double head", "double left", "double rest", "double lost"]
        return self._function("sum_element", body, given, made, undecided)

    def _read(self, body: Body) -> dict[int, Value]:
        """The bits of the formula's streams beside the sum."""
        types = self.formula.types
        return {
            k: body.loaded(Kind(f"i{types[k].element_bits}"), f"%{p}")
            for k, p in zip(self.formula.others, self.pointers, strict=False)
        }

    def _function(self, name: str, body: Body, given: list[str], made: Value, undecided: Value | None) -> str:
        """A function that stores an element that is decided, and returns whether it is undecided."""
        undecided = body.constant(BIT, False) if undecided is None else undecided
        when(body, (~undecided).name, lambda: body.stored(made, f"%{self.pointers[-1]}"))
        arguments = [opencl.Argument(*_typed(x)) for x in given]
        arguments += [opencl.Argument("ptr", p) for p in self.pointers]
        return opencl.function(name, arguments, body, undecided)


def either(made: Value, undecided: Value | None) -> Value:
    """An element of at most 32 bits, and in bit 32 whether it is undecided. Without branches, so that drivers use vectors."""
    word = Kind("i64")
    if undecided is None:
        return made.converted("zext", word)
    return made.converted("zext", word) | undecided.converted("zext", word) << 32


def _typed(given: str) -> tuple[str, str]:
    kind, name = given.split()
    return "i1" if kind == "bool" else kind, name


def _double(body: Body, name: str) -> Value:
    return Value(body, f"%{name}", DOUBLE)
