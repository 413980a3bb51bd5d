"""Statements of attention: rows of values, weighted by the exponentials of what queries and keys come to.

An element is Sum(t, e^(score[t] - top) * value[t]) / Sum(t, e^(score[t] - top)), where top is the largest score, and a score is a
constant times the sum of a query's products with a key, plus a term that is read, and a constant where a mask leaves it out.
Beside it, other outputs may have the keys and the values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anydml.kernels.match.affine import Affine, affine
from anydml.kernels.match.blocks import Cut, blocks, in_blocks
from anydml.schema.expression import Expr, Variable, free, is_integer, make
from anydml.schema.statement import Nest, Statement
from anydml.tensor import DataType

NO_ATTENTION = "the elements are no values weighted by exponentials of scores"


class Element(NamedTuple):
    """An element that is read: of which tensor, and its index in each dimension; variables of one value are left out."""

    name: str
    data_type: DataType
    at: tuple[Affine, ...]


class Source(NamedTuple):
    """An element, and what is added to it."""

    element: Element
    bias: Element | None


class Joined(NamedTuple):
    """Elements by row: those before, then others.

    before: in rows below `length`. after: in `count` rows from there on, by the row less the length. Beyond, it is 0. length: a
    number, or an element, which is cut to 0 .. most.
    """

    before: Source | None
    after: Source | None
    length: int | Element
    most: int
    count: int


class Mask(NamedTuple):
    """The scores that stay as they are; `filter` is added to others.

    truths: an element for each, not 0. below, least: the row is below an element, and not below another one.
    """

    filter: float
    truths: Element | None = None
    below: Element | None = None
    least: Element | None = None


class Seen(NamedTuple):
    """The keys that a query sees: up to the length plus its own number, and below the length plus the count.

    length: a number, or an element, which is cut to 0 .. most.
    """

    length: int | Element
    most: int
    count: int


class Kept(NamedTuple):
    """An output with joined elements. variables: outer ones, that of rows, that of columns; target: its own element."""

    variables: tuple[Variable | None, ...]
    target: Element
    elements: Joined
    moves: bool


class Attention(NamedTuple):
    """The statement in its roles.

    variables: of batches (two), of groups of queries with the same keys, of queries, and of columns, each None if it has one
    value alone. row: the variable of keys; head: that of the products' sums. seen: None where a query sees all keys.
    """

    output: Element
    variables: tuple[Variable | None, ...]
    row: Variable
    head: Variable
    query: Source
    key: Joined
    value: Joined
    scale: float
    term: Element | None
    mask: Mask | None
    seen: Seen | None
    kept: tuple[Kept, ...]


class _Unmatched(Exception):
    """The message is the reason."""


def attention(statement: Statement) -> Attention | str:
    """The attention that a statement is, or why it is none."""
    main = [name for name, n in statement.items() if not n.moves and n.body.op == "div" and n.body.args[0].op == "reduce"]
    if len(main) != 1:
        return NO_ATTENTION
    try:
        kept = tuple(_kept(name, n) for name, n in statement.items() if name != main[0])
        return _Matching(main[0], statement[main[0]]).found(kept)
    except _Unmatched as error:
        return str(error)


def _need(holds: object, reason: str = NO_ATTENTION) -> None:
    if not holds:
        raise _Unmatched(reason)


def _parts(e: Expr, op: str) -> Iterator[Expr]:
    """What an operation joins, such as conditions that all hold."""
    if e.op == op:
        for a in e.args:
            yield from _parts(a, op)
    else:
        yield e


def _alike(a: Expr, b: Expr, same: dict[Variable, Variable]) -> bool:
    """Whether two expressions differ in the names of variables alone; same: those of the first by those of the second."""
    if a.op != b.op or len(a.args) != len(b.args):
        return False
    if a.op == "variable":
        return same.get(a.data, a.data) is b.data
    if a.op == "reduce":
        (kind, mine), (other, theirs) = a.data, b.data
        if kind != other or [v.size for v in mine] != [v.size for v in theirs]:
            return False
        same.update(zip(mine, theirs, strict=True))
    elif a.data != b.data:
        return False
    return all(_alike(x, y, same) for x, y in zip(a.args, b.args, strict=True))


class _Reading:
    """Indices in the variables of an output, cut where they are divided."""

    def __init__(self, name: str, nest: Nest) -> None:
        self.name, self.nest = name, nest
        variables, cut = blocks(nest.variables, nest.body)
        self.cut: Cut = cut or {}
        self.variables = [v for v in variables if v.size > 1]
        self.length: Expr | None = None  # of rows before, where data tell it
        self.shifted = Variable("length", 2)  # which stands for it

    def target(self) -> Element:
        return Element(self.name, DataType.UNKNOWN, self.indices(self.nest.index))

    def indices(self, at: Sequence[Expr]) -> tuple[Affine, ...]:
        found = [affine(self.replaced(in_blocks(e, self.cut))) for e in at]
        _need(all(x is not None for x in found), "an index is not affine")
        return tuple(Affine(x.constant, {v: f for v, f in x.factors.items() if v.size > 1}) for x in found if x is not None)

    def replaced(self, e: Expr) -> Expr:
        if e is self.length:
            return make("variable", (), self.shifted)
        return make(e.op, tuple(map(self.replaced, e.args)), e.data, e.sort) if e.args and e.op != "read" else e

    def element(self, e: Expr) -> Element:
        _need(e.op == "read" and e.data[1] == "inside" and e.data[0].definition is None)
        return Element(e.data[0].name, e.data[0].data_type, self.indices(e.args))

    def source(self, e: Expr) -> Source:
        if e.op == "add":
            return Source(self.element(e.args[0]), self.element(e.args[1]))
        return Source(self.element(e), None)

    def joined(self, e: Expr, rows: int) -> Joined:
        """Elements by row, of which there are so many."""
        ends = None
        if e.op == "select" and e.args[2].op == "constant" and e.args[2].data.value == 0:
            ends, e = e.args[0], e.args[1]
        if e.op != "select":
            _need(ends is None)
            found = self.source(e)
            return Joined(None, found, 0, 0, rows)
        condition, before, after = e.args
        _need(condition.op == "less" and condition.args[0].op == "variable")
        row, bound = condition.args
        length, most = self.length_of(bound)
        end = rows - most
        if ends is not None:
            _need(ends.op == "less" and ends.args[0] is row and end > 0 and self.is_sum(ends.args[1], bound, end))
        else:
            _need(type(length) is int)
        return Joined(self.source(before), self.source(after), length, most, end)

    def length_of(self, bound: Expr) -> tuple[int | Element, int]:
        """A number of rows: as it is, or an element, cut to 0 .. the second one."""
        if is_integer(bound):
            n = int(bound.data.value)
            return n, n
        _need(bound.op == "min" and is_integer(bound.args[0]) and bound.args[1].op == "max")
        most, (low, number) = int(bound.args[0].data.value), bound.args[1].args
        _need(is_integer(low) and low.data.value == 0 and number.op == "index")
        found = self.element(number.args[0])
        _need(found.data_type == DataType.INT32, "lengths are of another type than INT32")
        self.length = bound
        return found, most

    @staticmethod
    def is_sum(e: Expr, x: Expr, n: int) -> bool:
        if n == 0:
            return e is x
        return e.op == "add" and e.args[0] is x and is_integer(e.args[1]) and e.args[1].data.value == n


def _kept(name: str, nest: Nest) -> Kept:
    """An output of joined elements."""
    reading = _Reading(name, nest)
    inner = nest.body.args[1] if nest.body.op == "select" and nest.body.args[2].op == "constant" else nest.body
    if inner.op == "select":
        _need(inner.args[0].op == "less" and inner.args[0].args[0].op == "variable")
        row = inner.args[0].args[0].data
    else:
        row = nest.variables[-2] if len(nest.variables) > 1 else nest.variables[-1]
    found = reading.joined(nest.body, row.size)
    *outer, column = [v for v in (*nest.variables,) if v is not row] or [row]
    outer = [v for v in outer if v.size > 1]
    _need(len(outer) <= 2 and column is not row, "an output has more dimensions than rows of batches and heads do")
    filled = [None] * (2 - len(outer)) + outer
    return Kept((*filled, row, column), reading.target(), found, nest.moves)


class _Matching:
    def __init__(self, name: str, nest: Nest) -> None:
        self.reading = _Reading(name, nest)
        above, below = nest.body.args
        _need(above.op == "reduce" and above.data[0] == "sum" and below.op == "reduce" and below.data[0] == "sum")
        term, self.conditions = above.args[0], list(_parts(above.args[1], "both")) if len(above.args) > 1 else []
        _need(term.op == "mul" and term.args[0].op == "exp" and term.args[0].args[0].op == "sub")
        weight, self.value = term.args
        self.score, top = weight.args[0].args
        _need(len(above.data[1]) == 1 and below.data[1] and len(below.data[1]) == 1 and top.op == "reduce")
        (self.row,) = above.data[1]
        self.above, self.weight, self.below, self.top = above, weight, below, top

    def found(self, kept: tuple[Kept, ...]) -> Attention:
        seen = self._conditions()
        scale, total, term, mask = self._scores()
        (head,) = total.data[1]
        x, y = total.args[0].args
        if self.row in free(x)[x]:
            x, y = y, x
        key, value = (self.reading.joined(e, self.row.size) for e in (y, self.value))
        query = self.reading.source(x)
        sees = self._seen(seen, value) if seen else None
        _need(key[2:] == value[2:], "keys and values are of several lengths")
        element = None if term is None else self.reading.element(term)
        made = Attention(
            self.reading.target(), (), self.row, head, query, key, value, scale, element,
            None if mask is None else self._mask(mask), sees, kept,
        )  # fmt: skip
        return made._replace(variables=self._variables(made, seen))

    def _conditions(self) -> list[Expr]:
        """Which keys are seen; what is not has no weight, and nor has a score that is -inf."""
        seen = []
        for c in self.conditions:
            if c.op == "not" and c.args[0].op == "equal" and c.args[0].args[1].op == "constant":
                number = c.args[0].args[1].data.value
                _need(number == -math.inf and _alike(c.args[0].args[0], self.score, {}))
            else:
                seen.append(c)
        _need(len(seen) == len(self.conditions) - 1, "a score that is -inf has a term")
        for reduction, body, kind in ((self.below, self.weight, "sum"), (self.top, self.score, "max")):
            same = {reduction.data[1][0]: self.row}
            _need(reduction.data[0] == kind and len(reduction.data[1]) == 1 and reduction.data[1][0].size == self.row.size)
            _need(_alike(reduction.args[0], body, same))
            others = list(_parts(reduction.args[1], "both")) if len(reduction.args) > 1 else []
            _need(len(others) == len(seen) and all(_alike(a, b, same) for a, b in zip(others, seen, strict=True)))
        return seen

    def _scores(self) -> tuple[float, Expr, Expr | None, Expr | None]:
        """The factor, the sum of products, what is read beside it, and what a mask adds."""
        total, term, mask, scale = None, None, None, 1.0
        for e in _parts(self.score, "add"):
            if e.op == "mul" and e.args[0].op == "constant" and e.args[1].op == "reduce":
                scale, e = float(e.args[0].data.value), e.args[1]
            if e.op == "reduce":
                _need(total is None)
                total = e
            elif e.op == "select":
                _need(mask is None)
                mask = e
            else:
                _need(term is None)
                term = e
        _need(total is not None)
        assert total is not None
        _need(total.data[0] == "sum" and len(total.data[1]) == 1 and len(total.args) == 1 and total.args[0].op == "mul")
        return scale, total, term, mask

    def _mask(self, e: Expr) -> Mask:
        condition, kept, left_out = e.args
        _need(kept.op == "constant" and kept.data.value == 0 and left_out.op == "constant")
        read, number = self.reading.element, float(left_out.data.value)
        made = None
        if condition.op == "not" and condition.args[0].op == "equal" and condition.args[0].args[1].op == "constant":
            _need(condition.args[0].args[1].data.value == 0)
            made = Mask(number, truths=read(condition.args[0].args[0]))
        else:
            ends = list(_parts(condition, "both"))
            _need(len(ends) <= 2 and all(c.op in ("less", "less_equal") for c in ends))
            below, *least = ends
            _need(below.op == "less" and self._is_row(below.args[0]))
            _need(all(c.op == "less_equal" and self._is_row(c.args[1]) for c in least))
            made = Mask(number, None, read(below.args[1]), read(least[0].args[0]) if least else None)
        elements = [x for x in made[1:] if x is not None]
        _need(all(x.data_type == DataType.INT32 for x in elements), "a mask is of another type than INT32")
        return made

    def _is_row(self, e: Expr) -> bool:
        return e.op == "position" and e.args[0].op == "variable" and e.args[0].data is self.row

    def _seen(self, conditions: Sequence[Expr], value: Joined) -> Seen:
        """Keys up to the length plus the query's number, and below the length plus how many are new."""
        _need(len(conditions) == 2)
        up, below = conditions
        _need(up.op == "less_equal" and below.op == "less" and up.args[0] is below.args[0])
        _need(up.args[0].op == "variable" and up.args[0].data is self.row and up.args[1].op == "add")
        length, query = up.args[1].args
        found, most = self.reading.length_of(length)
        _need(query.op == "variable")
        count = 0 if below.args[1] is length else value.count
        _need(self.reading.is_sum(below.args[1], length, count))
        return Seen(found, most, count)

    def _variables(self, made: Attention, seen: Sequence[Expr]) -> tuple[Variable | None, ...]:
        """The variables in their roles: by what is read with them."""

        def of(*sources: Source | None) -> set[Variable]:
            found = [e for s in sources if s is not None for e in s if e is not None]
            return {v for e in found for x in e.at for v in x.factors}

        keys, values = of(made.key.before, made.key.after), of(made.value.before, made.value.after)
        queries = of(made.query)
        for length in (made.key.length, None if made.seen is None else made.seen.length):
            if isinstance(length, Element):
                keys |= {v for x in length.at for v in x.factors}
        own = set(self.reading.variables)
        column = [v for v in self.reading.variables if v in values and v not in keys and v not in queries]
        outer = [v for v in self.reading.variables if v in keys | values and v not in column]
        rest = [v for v in self.reading.variables if v not in outer and v not in column]
        _need(
            len(column) <= 1 and len(outer) <= 2 and len(rest) <= 2, "there are more than batches, heads, queries and columns"
        )
        _need((keys | values | queries) - own <= {self.row, made.head, self.reading.shifted})
        number = seen[0].args[1].args[1].data if seen else None
        biases = set() if made.query.bias is None else of(Source(made.query.bias, None))
        # a group comes before its queries, which have one bias; those of one head follow one another
        rest.sort(key=lambda v: (v is number, v not in biases, -self.reading.variables.index(v)))
        together = rest and (number is None or rest[-1] is number) and rest[-1] not in biases
        group, query = (rest[:-1], rest[-1]) if together else (rest, None)
        _need(len(group) <= 1 and (number is None or number.size == 1 or query is number))
        first: list[Variable | None] = [*[None] * (2 - len(outer)), *outer]
        return (*first, group[0] if group else None, query, column[0] if column else None)
