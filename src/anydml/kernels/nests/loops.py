"""Reductions: a few unrolled terms, or loops that carry the reduction's values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Value
from anydml.kernels.nests import items
from anydml.kernels.nests.folds import Fold, NestArgmax, NestSum, RingSum, extreme
from anydml.kernels.nests.items import Index, Item
from anydml.kernels.nests.walk import NestWalk
from anydml.kernels.numbers.known import known_integer
from anydml.kernels.numbers.lanes import Truth, broadcast, chosen, either, in_lanes
from anydml.kernels.numbers.measured import arithmetic, decisions, real
from anydml.kernels.numbers.measured.real import Real


class Form(NamedTuple):
    """The form of a reduction's terms: a sample of a term, its condition, and the lanes of both."""

    term: Item
    condition: Truth
    lanes: int


def reduced(walk: NestWalk, p: int) -> Item:
    """The result of a reduction."""
    op, args, data = walk.nodes[p]
    if op == "terms":
        return _written_out(walk, args, data)
    if op == "first_largest":
        variables, sizes = data
        return _looped(
            walk, p, args, variables, lambda form: NestArgmax(walk.body, form.term, form.condition, form.lanes), sizes
        )
    kind, variables = data
    count = 1 << sum(walk.program.bits[v] for v in variables)

    def fold(form: Form) -> Fold:
        if kind == "sum" and walk.program.ring:
            if form.term.guard is not None or form.condition.guard is not None:
                raise Uncompilable("a sum of integers modulo 2^64 has terms that may be undecided")
            return RingSum(walk.body, form.lanes)
        assert isinstance(form.term, Real)
        if kind == "sum":
            return NestSum(walk.body, form.term, form.condition, form.lanes, count)
        return extreme(kind, walk.body, form.term, form.condition, form.lanes)

    return _looped(walk, p, args, variables, fold, ())


def _written_out(walk: NestWalk, args: Sequence[int], kind: str) -> Item:
    body = walk.body
    terms = [(args[k], walk.truth(args[k + 1])) for k in range(0, len(args), 2)]
    if not terms and kind != "sum":
        return real.special(body, -math.inf if kind == "max" else math.inf)
    if walk.program.ring:
        total = items.whole(body, 0)
        for place, there in terms:
            whole = walk.index(place)
            value = whole.value if there.known else chosen(there.mask, whole.value, body.constant(items.WORD, 0))
            total = items.arithmetic("add", total, Index(value, items.ANY_INDEX, either(whole.guard, there.guard)))
        return total
    neutral = {"sum": -0.0, "max": -math.inf, "min": math.inf}[kind]
    found: Real | None = None
    some = items.truth(body, False)
    for place, there in terms:
        term = masked(walk.real(place), there, neutral)
        some = some.joined("either", there)
        if found is None:
            found = term
        else:
            found = arithmetic.add(found, term) if kind == "sum" else decisions.extreme(found, term, largest=kind == "max")
    if found is None:
        return items.whole(body, 0)
    if kind == "sum" and not some.known:  # an empty sum is +0
        return decisions.select(some, found, real.fraction(body, real.ONE * 0))
    return found


def masked(term: Real, there: Truth, neutral: float) -> Real:
    """A term where its condition holds, else the neutral element."""
    if there.known:
        return term
    other = real.special(term.body, neutral)
    if math.isinf(neutral):
        term = arithmetic.plain(term)
    return decisions.select(there, term, other)


def _looped(
    walk: NestWalk, p: int, args: Sequence[int], variables: Sequence[int], fold_of: Callable[[Form], Fold], sizes: Sequence[int]
) -> Item:
    term, condition = args
    # if a loop begins at a different index in each lane, its variable differs between lanes
    spans = {v: any(ends[0].kind.lanes for ends in walk.ranges.get((p, v), ())) for v in variables}
    fold = fold_of(_form(walk, p, term, condition, variables, spans))
    # the terms of a sum outside of other loops can be divided among work items, by the values of the widest variable
    sharing = walk.sharing
    if sharing is not None and not (isinstance(fold, NestSum | RingSum) and max(walk.bound) < walk.program.dims):
        sharing = None
    divided = max(variables, key=lambda v: walk.program.bits[v]) if sharing is not None else None
    conditions = walk.program.nodes.operands(condition, "both")
    body = walk.body

    def place(at: Sequence[Index]) -> Value:
        found = items.whole(body, 0)
        for x, n in zip(at, sizes, strict=True):
            found = items.arithmetic("add", items.arithmetic("mul", found, items.whole(body, n)), x)
        return found.value

    def level(k: int, at: list[Index], there: Truth, carried: list[Value]) -> list[Value]:
        walk.fill_known(term, condition)
        if k == len(variables):
            item = walk.index(term) if walk.program.ring and not sizes else walk.real(term)
            there = there.joined("both", walk.truth(condition))
            return fold.step(carried, item, there, place(at) if sizes else None)
        v = variables[k]
        start, end, undecided = _range(walk, p, v, conditions, variables[k:])
        carried = fold.guarded_by(carried, undecided)
        first, last = broadcast(start, end)
        count = widest(items.extreme("max", last - first, first.lift(0)), "smax")
        apart = sharing if v == divided else None
        if apart is not None:
            count = apart.turns(count)

        def turn(i: str, values: list[Value]) -> list[Value]:
            at_ = Value(body, i, items.WORD)
            value, step = broadcast(start, at_ if apart is None else apart.at(at_))
            value = value + step
            inside = there
            if spans[v]:
                inside = there.joined("both", Truth(value.compared("slt", last)))
                most = in_lanes(Value(body, body.op(f"sub i64 {walk.sizes[v]}, 1"), items.WORD), value.kind.lanes)
                value = items.extreme("min", value, most)
            index = Index(value, known_integer(0, (1 << walk.program.bits[v]) - 1))
            with walk.scope({v: index}):
                go = _uniform(walk, conditions)
                if go is None:
                    return level(k + 1, [*at, index], inside, values)

                def once(_: str, inner: list[Value]) -> list[Value]:
                    with walk.scope({}):
                        return level(k + 1, [*at, index], inside, inner)

                _, found = body.loop("0", go.converted("zext", items.WORD).name, 1, values, once)
                return found

        return body.loop("0", count.name, 1, carried, turn)[1]

    carried = level(0, [], items.truth(body, True), fold.starts())
    if sharing is not None:
        assert isinstance(fold, NestSum | RingSum)
        carried = sharing.joined(carried, fold.merged)
    return fold.finished(carried)


def _form(walk: NestWalk, p: int, term: int, condition: int, variables: Sequence[int], spans: Mapping[int, bool]) -> Form:
    """The form of a reduction's terms, found by emitting code for one and dropping it."""
    lanes_of = tuple(sorted((v, walk.bound[v].value.kind.lanes) for v in walk.bound if v in walk.nodes.free[p]))
    key = p, lanes_of, tuple(spans.values())
    if key not in walk.forms:
        with walk.aside():
            made = {}
            for v in variables:
                kind = items.WORD._replace(lanes=walk.lanes if spans[v] else 0)
                made[v] = Index(Value(walk.body, "%none", kind), known_integer(0, (1 << walk.program.bits[v]) - 1))
            with walk.scope(made):
                item, there = walk.item(term), walk.truth(condition)
                if any(spans.values()):
                    mask = walk.body.constant(items.BIT._replace(lanes=walk.lanes), True)
                    there = there.joined("both", Truth(mask))
                if isinstance(item, Index) and not walk.program.ring:
                    item = walk.real(term)
                if isinstance(item, Real) and walk.nodes[p].op == "reduce" and walk.nodes[p].data[0] != "sum":
                    item = arithmetic.plain(item)
                if isinstance(item, (Truth, items.Bits)):
                    raise Uncompilable("a reduction of what is no number")
                lanes = max(item.value.kind.lanes, there.mask.kind.lanes)
        walk.forms[key] = Form(item, there, lanes)
    found = walk.forms[key]
    assert isinstance(found, Form)
    return found


def _uniform(walk: NestWalk, conditions: Sequence[int]) -> Value | None:
    """Whether conditions that are known here and equal in all lanes may hold; None if there are no such conditions."""
    free, variables, newest = walk.nodes.free, frozenset(walk.bound), frozenset(walk.bound.nested[-1])
    found: Value | None = None
    for c in conditions:
        if free[c] <= variables and free[c] & newest and not _differs(walk, c):
            walk.fill_known(c)
            truth = walk.truth(c)
            if truth.known is None and not truth.mask.kind.lanes and (truth.guard is None or not truth.guard.kind.lanes):
                may = truth.mask if truth.guard is None else truth.mask | truth.guard
                found = may if found is None else found & may
    return found


def _differs(walk: NestWalk, p: int) -> bool:
    """Whether a node depends on a variable that differs between lanes."""
    return any(walk.bound[v].value.kind.lanes for v in walk.bound if v in walk.nodes.free[p])


def _range(
    walk: NestWalk, p: int, v: int, conditions: Sequence[int], unknown: Sequence[int]
) -> tuple[Value, Value, Value | None]:
    """The half-open range of a loop's variable, and the lanes in which it is undecided."""
    body = walk.body
    start, end = body.constant(items.WORD, 0), Value(body, walk.sizes[v], items.WORD)
    guards: list[Value | None] = []
    for c in conditions:
        op, args, _ = walk.nodes[c]
        if op != "index_less" or walk.nodes[args[0]] != ("variable", (), v) or walk.nodes.free[args[1]] & set(unknown):
            continue
        walk.fill_known(args[1])
        limit = walk.index(args[1])
        guards.append(limit.guard)
        end = items.extreme("min", *broadcast(end, widest(limit.value, "smax")))
    for first, last in walk.ranges.get((p, v), ()):
        start = items.extreme("max", *broadcast(start, first))
        end = items.extreme("min", *broadcast(end, last))
    return start, end, either(*guards)


def widest(x: Value, how: str) -> Value:
    """The largest ("smax") or smallest ("smin") of all lanes."""
    if not x.kind.lanes:
        return x
    return x.body.call(f"llvm.vector.reduce.{how}.v{x.kind.lanes}i64", items.WORD, x)
