"""The second stage of recurrences: sums with the rounding errors of their additions, formulas in twice float64's precision.

It goes through the list of a piece that has stopped, and reads the rows and panels that the first stage has packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import precise
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.numbers.doubled.arithmetic import Precise, all_signed, finite, is_zero
from anydml.kernels.numbers.floats.numbers import SLACK
from anydml.kernels.numbers.functions.pairs import Pair
from anydml.kernels.numbers.lanes import either
from anydml.kernels.recurrence.finer_sums import PARTS, sums
from anydml.kernels.recurrence.key import (
    INPUT,
    NEW,
    NUMBERS,
    OLD,
    SUM,
    Leaf,
    RecurrenceKey,
    lanes,
    needed,
    read_by,
    signature,
)
from anydml.kernels.recurrence.rows import defined
from anydml.kernels.recurrence.stages import FAR, settled, settled_lanes
from anydml.kernels.undecided.lists import UndecidedList

# ways to decide elements: by signs and magnitudes; by the formula of the stage's sums; by that of more precise sums
SETTLED, ROUGH, FINE = "settled", "rough", "fine"
WITHOUT_SIGN = 32  # the first bit for zeros without a sign, in the word that says whether numbers are undecided


def emitted(target: Target, key: RecurrenceKey, number: int) -> str:
    """The kernel for the list of a stage; arguments: `key.signature`. Returns how many elements stay listed."""
    found = needed(key.stages, key.sources, number)
    numbers = [n for n in found if key.sources[n].kind == NUMBERS]
    stages = [key.stages[key.sources[n].number] for n in numbers]
    functions = [sums(target, key, n, "fine") for n in sorted(read_by(key.stages[number]))]
    functions += [sums(target, key, n, "quick") for n in sorted(set[int]().union(*map(read_by, stages)))]
    functions += [_numbers(target, key, n) for n in numbers]
    functions += [_vector(target, key, number, name) for name in (ROUGH, FINE)]
    functions += [_group(target, key, number), settled(target, key, number)]
    body = _listed(target, key, number, found)
    declared = dict.fromkeys([*body.declared, *(line for _, lines in functions for line in lines)])
    return kernel(body, [*declared, *(text for text, _ in functions)])


def _listed(target: Target, key: RecurrenceKey, number: int, needed: list[int]) -> Body:
    """Go through the list once for each of the ways to decide; elements that stay undecided are kept on it."""
    body, size = Body(target), key.data_type.dtype.itemsize
    i64, stage, list_ = Kind("i64"), key.stages[number], UndecidedList(body, 1)
    signature(key).load(body)
    assert stage.state is not None
    position = body.op(f"sub i64 {list_.begun()}, 1")
    t = body.op(f"udiv i64 {position}, {len(key.operations)}")
    history = body.at(f"%history{stage.state}", body.op(f"mul i64 {body.op(f'add i64 {t}, 1')}, %slot"))

    def entry(e: str, carried: list[Value], name: str, together: int, needed: Sequence[int]) -> list[Value]:
        kept, row, group, mask = carried
        slot = list_.slot(e)
        word = body.load("i64", slot)
        b, j = body.op(f"lshr i64 {word}, 32"), body.op(f"and i64 {word}, {(1 << 32) - 1}")
        first = body.op(f"and i64 {j}, {-together}")
        before, fresh, same, other, after = (body.name(x) for x in ("before", "fresh", "same", "other", "after"))
        body.jump(before)
        body.label(before)
        body.branch(body.op(f"icmp eq i64 {b}, {row.name}"), same, fresh)
        body.label(fresh)
        for n in needed:
            if key.sources[n].kind == NUMBERS:
                body.do(f"call void @numbers{n}(ptr %arguments, i64 {t}, i64 {b})")
        body.jump(other)
        body.label(same)
        body.branch(body.op(f"icmp eq i64 {first}, {group.name}"), after, other)
        body.label(other)
        if name != SETTLED:
            vector = body.op(f"and i64 {first}, {-(target.vector_bytes // 8)}")
            beside = body.op(f"icmp eq i64 {body.op(f'and i64 {group.name}, {-(target.vector_bytes // 8)}')}, {vector}")
            there = body.op(f"and i1 {beside}, {body.op(f'icmp eq i64 {b}, {row.name}')}")

            def sums() -> None:
                body.do(f"call void @{name}_sums(ptr %arguments, i64 {t}, i64 {b}, i64 {vector})")

            when(body, body.op(f"xor i1 {there}, true"), sums)
        function = name if name == SETTLED else "group"
        made = body.op(f"call i64 @{function}(ptr %arguments, i64 {t}, i64 {b}, i64 {first})")
        called = body.name("called")
        body.jump(called)
        body.label(called)
        body.jump(after)
        body.label(after)
        found = body.op(f"phi i64 [ {mask.name}, %{same} ], [ {made}, %{called} ]")
        lane = body.op(f"sub i64 {j}, {first}")
        undecided = body.op(f"and i64 {body.op(f'lshr i64 {found}, {lane}')}, 1")
        into = body.at(body.at(history, body.op(f"mul i64 {b}, %row")), body.op(f"mul i64 {j}, {size}"))

        def store() -> None:
            element = Kind(f"i{8 * size}")
            body.stored(body.loaded(element, "%made", body.op(f"mul i64 {lane}, {size}")), into)

        when(body, body.op(f"icmp eq i64 {undecided}, 0"), store)
        list_.kept(slot, kept.name)
        return [kept + Value(body, undecided, i64), Value(body, b, i64), Value(body, first, i64), Value(body, found, i64)]

    none = [body.constant(i64, x) for x in (0, -1, -1, 0)]
    finer = lanes(target, stage.formula, finer=True)
    passes: list[tuple[str, int, list[int]]] = [
        (SETTLED, settled_lanes(target, key, number), []),
        (ROUGH, finer, []),
        (FINE, finer, needed),
    ]
    if target.probe is not None:  # of elements that both ways decide, records are those of the more precise one
        del passes[2 if target.rough else 1]
    for name, many, made in passes:
        _, (kept, *_) = body.loop("0", list_.count(), 1, none, partial(entry, name=name, together=many, needed=made))
        list_.counted(kept.name)
    body.do(f"ret i64 {list_.count()}")
    return body


class _FinerFormula:
    """A stage's formula for a group of units of a sequence, in twice float64's precision."""

    def __init__(self, body: Body, key: RecurrenceKey, number: int, sums: str) -> None:
        self.body, self.key, self.stage, self.name = body, key, key.stages[number], sums
        self.lanes = lanes(body.target, self.stage.formula, finer=True)

    def sums(self, i: str) -> None:
        """Compute the sums of a vector of units."""
        body = self.body
        for leaf in self.stage.leaves:
            if leaf.kind == SUM:
                n, block = leaf.number, body.op(f"mul i64 {leaf.block}, %block{leaf.number}")
                place = body.op(f"add i64 {body.op(f'mul i64 {i}, 8')}, {block}")
                values = f"ptr %arguments, i64 %t, i64 %b, i64 {place}"
                if self.key.sources[n].blocks:
                    values += f", ptr %weights{n}_{leaf.block}, i64 %unit{n}_{leaf.block}, i64 {i}"
                body.do(f"call void @{self.name}{n}({values})")

    def computed(self, i: str) -> Precise:
        streams, known = self._read(i)
        found = precise.PreciseWalk(self.body, self.stage.formula, streams, self.lanes, known, extremes=True).run()
        assert isinstance(found, Precise)
        return found

    def stored(self, i: str) -> tuple[Value, Value | None]:
        streams, known = self._read(i)
        return precise.stored(
            self.body, self.stage.formula, streams, self.key.data_type, self.lanes, integral=False, known=known, extremes=True
        )

    def _read(self, i: str) -> tuple[list[Value], dict[int, Precise]]:
        body, size = self.body, self.key.data_type.dtype.itemsize
        element = Kind(f"i{8 * size}", self.lanes)
        streams: list[Value] = []
        found: dict[int, Precise] = {}
        for k, leaf in enumerate(self.stage.leaves):
            if leaf.kind == SUM:
                found[k] = self._sum(leaf, i)
                streams.append(body.undefined(element))
                continue
            start = f"%kept{leaf.number}"
            if leaf.kind in (OLD, NEW):
                slot = "%t" if leaf.kind == OLD else body.op("add i64 %t, 1")
                start = body.at(f"%history{leaf.number}", body.op(f"mul i64 {slot}, %slot"))
                start = body.at(start, body.op("mul i64 %b, %row"))
            streams.append(body.loaded(element, start, body.op(f"mul i64 {i}, {size}")))
        nodes = enumerate(self.stage.formula)
        return streams, {place: found[x.data[0]] for place, x in nodes if x.op == "stream" and x.data[0] in found}

    def _sum(self, leaf: Leaf, i: str) -> Precise:
        body, n, wide = self.body, leaf.number, Kind("double", self.lanes)
        place = body.op(f"add i64 {body.op(f'mul i64 {i}, 8')}, {body.op(f'mul i64 {leaf.block}, %block{n}')}")
        head, tail, lost = (
            body.loaded(wide, body.at(f"%fine{n}", body.op(f"mul i64 %fine_part{n}, {k}")), place) for k in range(PARTS)
        )
        guard, signed = None, all_signed(head)
        if self.key.sources[n].kind == NUMBERS:
            flags = Value(body, body.load("i64", f"%open{n}", body.op("mul i64 %b, 8")), Kind("i64"))
            guard = body.splat((flags & ((1 << WITHOUT_SIGN) - 1)).compared("ne", 0), self.lanes)
            signed = body.splat(flags.compared("ult", 1 << WITHOUT_SIGN), self.lanes)
        return Precise(Pair(head, tail), lost, guard, signed)


def _numbers(target: Target, key: RecurrenceKey, n: int) -> tuple[str, list[str]]:
    """`void @numbers{n}(arguments, t, b)`: the factors of a source's sums, for a sequence, in three parts.

    The whole sequence is undecided where one of them stays so; zeros whose signs are not known are noted.
    """
    body = Body(target)
    signature(key).load(body)
    formula = _FinerFormula(body, key, key.sources[n].number, "quick")
    vector, together = target.vector_bytes // 8, formula.lanes
    iota = body.constants("i64", range(together))

    def group(i: str, carried: list[Value]) -> list[Value]:
        parts, undecided, without = as_factor(formula.computed(i))
        left = body.splat(Value(body, body.op(f"sub i64 %units, {i}"), Kind("i64")), together)
        there = iota.compared("slt", left)
        undecided = undecided & there
        for k, value in enumerate(parts):
            at = body.at(f"%pairs{n}", body.op(f"mul i64 %pairs_part{n}, {k}"))
            body.stored(value, at, body.op(f"mul i64 {i}, 8"))
        signs = Value(body, lanes_as_bits(without & there), Kind("i64")) << WITHOUT_SIGN
        return [carried[0] | Value(body, lanes_as_bits(undecided), Kind("i64")) | signs]

    def of_vector(i: str, carried: list[Value]) -> list[Value]:
        formula.sums(i)
        return body.loop(i, body.op(f"add i64 {i}, {vector}"), together, carried, group)[1]

    up = body.op(f"and i64 {body.op(f'add i64 %units, {vector - 1}')}, {-vector}")
    _, (undecided,) = body.loop("0", up, vector, [body.constant(Kind("i64"), 0)], of_vector)
    body.stored(undecided, f"%open{n}", body.op("mul i64 %b, 8"))
    body.do("ret void")
    return defined(body, f"void @numbers{n}(ptr %arguments, i64 %t, i64 %b)"), [*body.declared]


def as_factor(x: Precise) -> tuple[list[Value], Value, Value]:
    """A number as a factor of sums, in three parts; where it is undecided; and where it is a zero whose sign is not known."""
    body, size = x.err.body, x.pair.head.magnitude()
    far = ~(size.compared("olt", FAR) & x.err.compared("olt", FAR)) & finite(x.pair.head)
    # so small that its products would underflow in float64: a number below the least one, or 0 itself
    zero = is_zero(x)
    small = size.compared("olt", 1 / FAR) & ~zero
    without = zero if x.signed is None else zero & ~x.signed
    pair = Pair(size.lift(0.0), size.lift(0.0)).where(small, x.pair)
    return [pair.head, pair.tail, body.chosen(small, 2 / FAR + x.err, x.err)], either(x.guard, far) or far, without


def _vector(target: Target, key: RecurrenceKey, number: int, name: str) -> tuple[str, list[str]]:
    """`void @{name}_sums(arguments, t, b, i)`: a vector of each sum in three parts: the stage's, or more precise ones."""
    body = Body(target)
    signature(key).load(body)
    if name == FINE:
        _FinerFormula(body, key, number, name).sums("%i")
    else:
        for leaf in key.stages[number].leaves:
            if leaf.kind == SUM:
                _copied(body, key, leaf)
    body.do("ret void")
    return defined(body, f"void @{name}_sums(ptr %arguments, i64 %t, i64 %b, i64 %i)"), [*body.declared]


def _copied(body: Body, key: RecurrenceKey, leaf: Leaf) -> None:
    """A vector of sums as the stage has made it, with its bound."""
    n, source = leaf.number, key.sources[leaf.number]
    wide = Kind("double", body.target.vector_bytes // 8)
    place = body.op(f"add i64 {body.op('mul i64 %i, 8')}, {body.op(f'mul i64 {leaf.block}, %block{n}')}")
    row = "%b"
    if source.kind == INPUT:
        step = body.op("urem i64 %t, %chunk")
        row = body.op(f"add i64 {body.op(f'mul i64 {step}, %sequences')}, %b")
    at = body.op(f"mul i64 {row}, 8")
    bound = body.loaded(Kind("double"), f"%norms{n}", at)
    bound = bound * Value(body, body.op(f"bitcast i64 %factor{n} to double"), Kind("double"))
    if source.kind == NUMBERS:
        bound = bound + body.loaded(Kind("double"), f"%lost{n}", at)
    total = body.loaded(wide, body.at(f"%sums{n}", body.op(f"mul i64 {row}, %sums_row{n}")), place)
    err = body.splat(bound, wide.lanes) * body.loaded(wide, f"%columns{n}", place) * SLACK
    err = body.chosen(finite(total), err, 0.0)
    for k, value in enumerate((total, total.lift(0.0), err)):
        body.stored(value, body.at(f"%fine{n}", body.op(f"mul i64 {k}, %fine_part{n}")), place)


def _group(target: Target, key: RecurrenceKey, number: int) -> tuple[str, list[str]]:
    """`i64 @group(arguments, t, b, i)`:

    the elements of a group whose sums have been computed, and the lanes that stay undecided.
    """
    body = Body(target)
    signature(key).load(body)
    made, undecided = _FinerFormula(body, key, number, FINE).stored("%i")
    body.stored(made, "%made")
    body.do(f"ret i64 {'0' if undecided is None else lanes_as_bits(undecided)}")
    return defined(body, "i64 @group(ptr %arguments, i64 %t, i64 %b, i64 %i)"), [*body.declared]
