"""Contractions: statements whose elements are formulas of one sum of products of two tensors' elements.

Matrix products and convolutions are such statements. A transposed convolution with a stride becomes several of them, one for
each remainder of the output's positions modulo the stride.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from anydml.kernels.match import maps
from anydml.kernels.match.affine import Affine, affine_in, below
from anydml.kernels.match.maps import Stream
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.match.structure import conjuncts
from anydml.kernels.match.unmatched import Unmatched, only, pattern
from anydml.schema.expression import Tensor
from anydml.schema.node import INDEX, Expr, Variable, is_integer, lift, make
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import divisions_in, integral, loops_in, with_nodes
from anydml.tensor import DataType

SUM = "(the sum)"  # the stream of a formula that stands for the sum
NO_PRODUCTS = "the elements are not formulas of one sum of products of two elements"


class Factor(NamedTuple):
    """A tensor that every term reads, and its index in each dimension. Terms whose index is outside are left out."""

    name: str
    data_type: DataType
    sizes: tuple[int, ...]
    at: tuple[Affine, ...]


class Contraction(NamedTuple):
    """output[start + the sum of steps * variables] = formula, where the stream SUM is the sum over `terms` of the product.

    variables: those of the output; the indices of streams and factors are affine in them. steps: for each variable, its steps
    in the output's dimensions. The steps of streams are along the variables, too.
    """

    output: str
    variables: tuple[Variable, ...]
    start: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    terms: tuple[Variable, ...]
    factors: tuple[Factor, Factor]
    streams: tuple[Stream, ...]
    formula: NormalForm


class Centred(NamedTuple):
    """Contractions of factors from which zero points are subtracted, and the contractions without them.

    Both zero points are the last streams of each contraction, though not in its formula. zeros: whether each factor has one.
    integral: as in `Map`.
    """

    contractions: list[Contraction]
    zeros: tuple[bool, bool]
    integral: bool


@pattern
def contractions(statement: Statement) -> list[Contraction]:
    """The contractions that compute a statement, each different elements; or the reason why there are none."""
    name, nest = only(statement)
    return list(_ContractionMatching(name, nest, _sum_in(nest)).found())


@pattern
def centred(statement: Statement) -> Centred:
    """The contractions of integers that compute a statement, whose sums are INT32; or the reason why there are none."""
    name, nest = only(statement)
    total = _sum_in(nest)
    term = total.args[0]
    if term.op != "mul":
        raise Unmatched(NO_PRODUCTS)
    factors = [x.args if x.op == "sub" else (x, None) for x in term.args]
    plain = make("mul", tuple(x for x, _ in factors), term.data, term.sort)
    sums = make("reduce", (plain, *total.args[1:]), total.data, total.sort)

    def of(body: Expr) -> list[Contraction]:
        return list(_ContractionMatching(name, Nest(nest.index, body), sums, DataType.INT32).found())

    found = of(with_nodes(nest.body, {total: sums}))
    zeros = [zero for _, zero in factors if zero is not None]
    for zero in zeros:
        if zero.op != "read" or zero.data[1] != "inside":
            raise Unmatched(NO_PRODUCTS)
        for k, other in enumerate(of(make("add", (sums, zero), None, sums.sort))):
            (stream,) = (s for s in other.streams if s.name != SUM)
            found[k] = found[k]._replace(streams=(*found[k].streams, stream))
    return Centred(found, (factors[0][1] is not None, factors[1][1] is not None), integral(nest.body))


def _sum_in(nest: Nest) -> Expr:
    """The only sum of a nest."""
    sums = loops_in(nest.body)
    if nest.moves or len(sums) != 1 or sums[0].op != "reduce" or sums[0].data[0] != "sum":
        raise Unmatched(NO_PRODUCTS)
    return sums[0]


class _ContractionMatching:
    def __init__(self, name: str, nest: Nest, total: Expr, sum_type: DataType = DataType.FLOAT64) -> None:
        self.name, self.nest, self.total, self.sum_type = name, nest, total, sum_type
        term = total.args[0]
        if term.op != "mul" or any(a.op != "read" or a.data[0].definition is not None for a in term.args):
            raise Unmatched(NO_PRODUCTS)
        if any(a.data[1] == "otherwise" for a in term.args):
            raise Unmatched("a factor is not left out where its index is outside of its tensor")
        if term.args[0] is term.args[1]:
            raise Unmatched("both factors are the same element")
        self.reads = term.args
        self.conditions = conjuncts(total)

    def found(self) -> Iterator[Contraction]:
        """A contraction for each combination of remainders that the conditions distinguish."""
        strided: dict[Variable, int] = {}  # variables of the output that are split by remainder
        ends: dict[Variable, int] = {}  # from these values on, there are no terms
        for condition in self.conditions:
            divided, end = _divisible(condition), below(condition)
            if end is not None and end[0] in self.nest.variables and end[2]:
                ends[end[0]] = max(0, min(end[1], ends.get(end[0], end[0].size)))
                continue
            if divided is None:
                raise Unmatched("a condition on the terms is not that a stride divides an index")
            index, divisor = divided
            outer = [v for v in index.factors if v in self.nest.variables]
            if len(outer) != 1 or outer[0] in strided or len(index.factors) > 2:
                raise Unmatched("a stride divides more than one position")
            strided[outer[0]] = divisor
        self.conditions = [c for c in self.conditions if below(c) is None]
        blocks = self._blocks()
        split = {v: list(_parts_of(v, strided.get(v, 1), ends.get(v, v.size))) for v in {**strided, **ends}}
        for parts in product(*split.values()):
            env: dict[Variable, Affine] = {}
            variables: list[Variable] = []
            rest = {v: part[0] for v, part in zip(split, parts, strict=True)}
            for v in self.nest.variables:
                if v in rest:
                    first, count, _ = parts[list(split).index(v)]
                    inner = Variable(v.name, count)
                    env[v] = Affine(first, {inner: strided.get(v, 1)})
                    variables.append(inner)
                elif (size := blocks.get(v, 0)) > 1 and size < v.size:
                    outer_, inner = Variable(v.name, v.size // size), Variable(v.name + "'", size)
                    env[v] = Affine(0, {outer_: size, inner: 1})
                    variables += [outer_, inner]
                else:
                    env[v] = Affine(0, {v: 1})
                    variables.append(v)
            terms = self._terms(env, rest, strided, none=not all(part[2] for part in parts))
            yield self._contraction(env, variables, terms)

    def _terms(
        self, env: dict[Variable, Affine], rest: Mapping[Variable, int], strided: Mapping[Variable, int], *, none: bool
    ) -> list[Variable]:
        """The variables of the terms for given remainders. none: there are no terms."""
        met: dict[Variable, tuple[int, int]] = {}  # a variable's first value that has a term, and the step to the next
        for condition in self.conditions:
            divided = _divisible(condition)
            assert divided is not None
            index, divisor = divided
            known = index.constant
            inner = [(v, f) for v, f in index.factors.items() if v not in rest]
            known += sum(f * rest[v] for v, f in index.factors.items() if v in rest)
            if any(f * strided.get(v, 1) % divisor for v, f in index.factors.items() if v in rest):
                raise Unmatched("a stride divides more than one position")
            if not inner:
                none |= known % divisor != 0
                continue
            ((u, factor),) = inner
            step = divisor // math.gcd(factor, divisor)
            first = next((x for x in range(step) if (known + factor * x) % divisor == 0), None)
            if first is None or first >= u.size:
                none = True
                first = 0
            met[u] = first, step
        terms = []
        for u in self.total.data[1]:
            first, step = met.get(u, (0, 1))
            inner_ = Variable(u.name, 0 if none else -(-(u.size - first) // step))
            env[u] = Affine(first, {inner_: step})
            terms.append(inner_)
        return terms

    def _blocks(self) -> dict[Variable, int]:
        """The variables of the output that are divided in indices, and the divisor of each, which must divide the size."""
        found: dict[Variable, set[int]] = {}
        for e in divisions_in(self.total.args[0]):
            if e.args[0].op == "variable" and is_integer(e.args[1]):
                found.setdefault(e.args[0].data, set()).add(int(e.args[1].data.value))
        for v, sizes in found.items():
            if len(sizes) > 1 or v.size % min(sizes):
                raise Unmatched("an index is divided in several ways")
        return {v: min(sizes) for v, sizes in found.items()}

    def _contraction(self, env: dict[Variable, Affine], variables: list[Variable], terms: list[Variable]) -> Contraction:
        at = [env[v] for v in self.nest.variables]
        steps = tuple(tuple(a.factors.get(v, 0) for a in at) for v in variables)
        factors = tuple(
            Factor(e.data[0].name, e.data[0].data_type, e.data[0].sizes, tuple(_index(i, env) for i in e.args))
            for e in self.reads
        )
        i = [make("variable", (), v) for v in variables]
        body = _replaced(self.nest.body, self.total, Tensor(SUM, [v.size for v in variables], self.sum_type)[i], env)
        found = maps.maps({self.name: Nest(tuple(i), body)})
        if isinstance(found, str):
            raise Unmatched(found)
        return Contraction(
            self.name, tuple(variables), tuple(a.constant for a in at), steps, tuple(terms),
            (factors[0], factors[1]), found[0].streams, found[0].formula,
        )  # fmt: skip


def _parts_of(v: Variable, step: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """The values of a variable by remainder modulo `step`, split at an end: the first, the count, whether they are below it."""
    for first in range(min(step, v.size)):
        for start, stop in ((first, end), (end + (first - end) % step, v.size)):
            if start < stop:
                yield start, -(-(stop - start) // step), stop == end


def _divisible(e: Expr) -> tuple[Affine, int] | None:
    """The index and the divisor of a condition "index % divisor == 0"."""
    if e.op != "equal":
        return None
    x, zero = e.args
    if x.op != "mod" or zero is not lift(0) or not is_integer(x.args[1]):
        return None
    return _index(x.args[0], {}), int(x.args[1].data.value)


def _index(e: Expr, env: Mapping[Variable, Affine]) -> Affine:
    """An index in the variables of `env`. Quotients and remainders must be affine too."""
    return affine_in(e, lambda node: env.get(node.data) if node.op == "variable" else None)


def _replaced(e: Expr, old: Expr, new: Expr, env: Mapping[Variable, Affine]) -> Expr:
    """The expression in other variables, with one node replaced, and without factors of 1."""
    made: dict[Expr, Expr] = {old: new}
    stack = [(e, False)]
    while stack:  # not through the node that is replaced, which has other variables
        node, ready = stack.pop()
        if node in made:
            continue
        if node.op == "variable":
            made[node] = env[node.data].expression()
        elif not node.args:
            made[node] = node
        elif not ready:
            stack.append((node, True))
            stack += [(a, False) for a in node.args]
        else:
            made[node] = _made(node, [made[a] for a in node.args])
    return made[e]


def _made(node: Expr, args: Sequence[Expr]) -> Expr:
    if node.op == "mul" and node.sort != INDEX:
        for x, y in (args, args[::-1]):
            if y.op == "constant" and y.data.value == 1:
                return x
    return make(node.op, tuple(args), node.data, node.sort)
