"""Statements of attention: sums of rows of values, weighted by the exponentials of scores of queries and keys.

An element is Sum(t, e^(score[t] - top) * value[t]) / Sum(t, e^(score[t] - top)), where top is the largest score. A score is a
constant times the sum of a query's products with a key, plus a term that is read, or a constant where a mask excludes the key.
Other outputs may hold the keys and the values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.match.joined import Joined, JoinedElement, ReadElement, Reading, need
from anydml.kernels.match.structure import conjuncts, equal, operands
from anydml.kernels.match.unmatched import pattern
from anydml.schema.node import Expr, Variable
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import free
from anydml.tensor import DataType

NO_ATTENTION = "the elements are not values weighted by exponentials of scores"


class Mask(NamedTuple):
    """The scores that a mask keeps; `filter` is added to the others.

    truths: the element of the mask is not 0. below, least: the key's index is below one element, and at least another one.
    """

    filter: float
    truths: ReadElement | None = None
    below: ReadElement | None = None
    least: ReadElement | None = None


class VisibleKeys(NamedTuple):
    """The keys that a query sees: up to index length + the query's index, and below length + `later`.

    length: a number, or an element that is clamped to 0 .. most.
    """

    length: int | ReadElement
    most: int
    later: int


class Kept(NamedTuple):
    """An output of joined rows. variables: two outer ones, that of rows, that of columns. target: the output's element."""

    variables: tuple[Variable | None, ...]
    target: ReadElement
    elements: Joined
    moves: bool


class Attention(NamedTuple):
    """The parts of a statement of attention.

    variables: those of batches (two), of groups of queries with the same keys, of queries, and of columns; None for those with
    a single value. row: the variable of keys. head: that of the sums of products. seen: None if a query sees all keys.
    """

    output: ReadElement
    variables: tuple[Variable | None, ...]
    row: Variable
    head: Variable
    query: JoinedElement
    key: Joined
    value: Joined
    scale: float
    term: ReadElement | None
    mask: Mask | None
    seen: VisibleKeys | None
    kept: tuple[Kept, ...]


@pattern
def attention(statement: Statement) -> Attention:
    """The attention that a statement computes, or why it is none."""
    main = [name for name, n in statement.items() if not n.moves and n.body.op == "div" and n.body.args[0].op == "reduce"]
    need(len(main) == 1, NO_ATTENTION)
    kept = tuple(_kept(name, n) for name, n in statement.items() if name != main[0])
    return _AttentionMatching(main[0], statement[main[0]]).found(kept)


def _kept(name: str, nest: Nest) -> Kept:
    """An output of joined elements."""
    reading = Reading(name, nest)
    inner = nest.body.args[1] if nest.body.op == "select" and nest.body.args[2].op == "constant" else nest.body
    if inner.op == "select":
        need(inner.args[0].op == "less" and inner.args[0].args[0].op == "variable")
        row = inner.args[0].args[0].data
    else:
        row = nest.variables[-2] if len(nest.variables) > 1 else nest.variables[-1]
    found = reading.joined(nest.body, row.size)
    *outer, column = [v for v in (*nest.variables,) if v is not row] or [row]
    outer = [v for v in outer if v.size > 1]
    need(len(outer) <= 2 and column is not row, "an output has more dimensions than batches, heads, rows and columns")
    filled = [None] * (2 - len(outer)) + outer
    return Kept((*filled, row, column), reading.target(), found, nest.moves)


class _AttentionMatching:
    def __init__(self, name: str, nest: Nest) -> None:
        self.reading = Reading(name, nest)
        above, below = nest.body.args
        need(above.op == "reduce" and above.data[0] == "sum" and below.op == "reduce" and below.data[0] == "sum")
        term, self.conditions = above.args[0], conjuncts(above)
        need(term.op == "mul" and term.args[0].op == "exp" and term.args[0].args[0].op == "sub")
        weight, self.value = term.args
        self.score, top = weight.args[0].args
        need(len(above.data[1]) == 1 and below.data[1] and len(below.data[1]) == 1 and top.op == "reduce")
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
        need(key[2:] == value[2:], "keys and values differ in length")
        element = None if term is None else self.reading.element(term)
        made = Attention(
            self.reading.target(), (), self.row, head, query, key, value, scale, element,
            None if mask is None else self._mask(mask), sees, kept,
        )  # fmt: skip
        return made._replace(variables=self._variables(made, seen))

    def _conditions(self) -> list[Expr]:
        """The conditions under which a key is seen. Keys that are not seen, and scores of -inf, have no weight."""
        seen = []
        for c in self.conditions:
            if c.op == "not" and c.args[0].op == "equal" and c.args[0].args[1].op == "constant":
                number = c.args[0].args[1].data.value
                need(number == -math.inf and equal(self.score, c.args[0].args[0], {}))
            else:
                seen.append(c)
        need(len(seen) == len(self.conditions) - 1, "scores of -inf are not left out of the sum")
        for reduction, body, kind in ((self.below, self.weight, "sum"), (self.top, self.score, "max")):
            same = {reduction.data[1][0]: self.row}
            need(reduction.data[0] == kind and len(reduction.data[1]) == 1 and reduction.data[1][0].size == self.row.size)
            need(equal(body, reduction.args[0], same))
            others = conjuncts(reduction)
            need(len(others) == len(seen) and all(equal(b, a, same) for a, b in zip(others, seen, strict=True)))
        return seen

    def _scores(self) -> tuple[float, Expr, Expr | None, Expr | None]:
        """A score's factor, its sum of products, the term that is read, and the term that depends on a mask."""
        total, term, mask, scale = None, None, None, 1.0
        for e in operands(self.score, "add"):
            if e.op == "mul" and e.args[0].op == "constant" and e.args[1].op == "reduce":
                scale, e = float(e.args[0].data.value), e.args[1]
            if e.op == "reduce":
                need(total is None)
                total = e
            elif e.op == "select":
                need(mask is None)
                mask = e
            else:
                need(term is None)
                term = e
        need(total is not None)
        assert total is not None
        need(total.data[0] == "sum" and len(total.data[1]) == 1 and len(total.args) == 1 and total.args[0].op == "mul")
        return scale, total, term, mask

    def _mask(self, e: Expr) -> Mask:
        condition, kept, left_out = e.args
        need(kept.op == "constant" and kept.data.value == 0 and left_out.op == "constant")
        read, number = self.reading.element, float(left_out.data.value)
        made = None
        if condition.op == "not" and condition.args[0].op == "equal" and condition.args[0].args[1].op == "constant":
            need(condition.args[0].args[1].data.value == 0)
            made = Mask(number, truths=read(condition.args[0].args[0]))
        else:
            ends = list(operands(condition, "both"))
            need(len(ends) <= 2 and all(c.op in ("less", "less_equal") for c in ends))
            below, *least = ends
            need(below.op == "less" and self._is_row(below.args[0]))
            need(all(c.op == "less_equal" and self._is_row(c.args[1]) for c in least))
            made = Mask(number, None, read(below.args[1]), read(least[0].args[0]) if least else None)
        elements = [x for x in made[1:] if x is not None]
        need(all(x.data_type == DataType.INT32 for x in elements), "a mask has another type than INT32")
        return made

    def _is_row(self, e: Expr) -> bool:
        return e.op == "position" and e.args[0].op == "variable" and e.args[0].data is self.row

    def _seen(self, conditions: Sequence[Expr], value: Joined) -> VisibleKeys:
        """The keys up to index length + the query's index, and below length + the number of new keys."""
        need(len(conditions) == 2)
        up, below = conditions
        need(up.op == "less_equal" and below.op == "less" and up.args[0] is below.args[0])
        need(up.args[0].op == "variable" and up.args[0].data is self.row and up.args[1].op == "add")
        length, query = up.args[1].args
        found, most = self.reading.length_of(length)
        need(query.op == "variable")
        count = 0 if below.args[1] is length else value.later
        need(self.reading.is_sum(below.args[1], length, count))
        return VisibleKeys(found, most, count)

    def _variables(self, made: Attention, seen: Sequence[Expr]) -> tuple[Variable | None, ...]:
        """The variables of batches, groups, queries and columns, told apart by the tensors that they index."""

        def of(*sources: JoinedElement | None) -> set[Variable]:
            found = [e for s in sources if s is not None for e in s if e is not None]
            return {v for e in found for x in e.at for v in x.factors}

        keys, values = of(made.key.before, made.key.after), of(made.value.before, made.value.after)
        queries = of(made.query)
        for length in (made.key.length, None if made.seen is None else made.seen.length):
            if isinstance(length, ReadElement):
                keys |= {v for x in length.at for v in x.factors}
        own = set(self.reading.variables)
        column = [v for v in self.reading.variables if v in values and v not in keys and v not in queries]
        outer = [v for v in self.reading.variables if v in keys | values and v not in column]
        rest = [v for v in self.reading.variables if v not in outer and v not in column]
        fits = len(column) <= 1 and len(outer) <= 2 and len(rest) <= 2
        need(fits, "there are other dimensions than batches, heads, queries and columns")
        need((keys | values | queries) - own <= {self.row, made.head, self.reading.shifted})
        number = seen[0].args[1].args[1].data if seen else None
        biases = set() if made.query.bias is None else of(JoinedElement(made.query.bias, None))
        # a group's variable comes before that of its queries, which share a bias and are contiguous in a head
        rest.sort(key=lambda v: (v is number, v not in biases, -self.reading.variables.index(v)))
        together = rest and (number is None or rest[-1] is number) and rest[-1] not in biases
        group, query = (rest[:-1], rest[-1]) if together else (rest, None)
        need(len(group) <= 1 and (number is None or number.size == 1 or query is number))
        first: list[Variable | None] = [*[None] * (2 - len(outer)), *outer]
        return (*first, group[0] if group else None, query, column[0] if column else None)
