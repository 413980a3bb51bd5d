"""The elements of a group at each level, and the stages that decide those that the first level leaves undecided."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.probe import record_of_ends
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, left_by_first_stage, left_by_second_stage
from anydml.kernels.elementwise import precise, settled
from anydml.kernels.elementwise.formula import TIES, FormulaWalk
from anydml.kernels.elementwise.items import Item, LoadedElement, stored_item
from anydml.kernels.elementwise.key import MapKey
from anydml.kernels.elementwise.line_walk import LineWalk
from anydml.kernels.elementwise.near_zero import lines_within
from anydml.kernels.elementwise.standardised import Standardised, all_set
from anydml.kernels.match.scopes import Scopes
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.floats.rounding import SIXTEEN_BIT, between_ends
from anydml.kernels.numbers.lanes import either
from anydml.kernels.numbers.singles import SINGLES
from anydml.kernels.undecided.lists import UndecidedList

REMAINDERS = ("fmod", "floor_mod")  # functions with finer stages of their own
SCALED = {"stream", "constant", "same", "mul", "add", "sub", "max", "min", "absolute", "neg"}
FINER = Signature("*list count")


def element(body: Body, key: MapKey, streams: Sequence[Value], level: str) -> tuple[Value, Value | None]:
    """The bits that are stored, and the lanes that have to be decided elsewhere."""
    made, undecided = _element(body, key, streams, level)
    if undecided is not None:
        undecided = left_by_second_stage(undecided) if level == "doubled" else left_by_first_stage(undecided)
    return made, undecided


def _element(body: Body, key: MapKey, streams: Sequence[Value], level: str) -> tuple[Value, Value | None]:
    data_type = key.types[-1]
    remains = any(node.op in REMAINDERS for node in key.formula)
    if (level == "doubled" and not remains) or _long_integers(key):
        return precise.stored(body, key.formula, streams, data_type, key.lanes, integral=key.integral)
    walk = FormulaWalk(body, key.formula, streams, data_type, key.lanes, level, key.moves)
    walk.left = []
    if level == TIES:
        walk.lines = lines_within(key.formula)
    item = walk.run()
    if key.moves:
        assert isinstance(item, LoadedElement)
        return item.bits, None
    bits, undecided = stored_item(body, item, data_type, key.lanes, integral=key.integral)
    return bits, either(undecided, *walk.left)


def of_line(body: Body, key: MapKey, streams: Mapping[int, Value]) -> Mapping[int, Item]:
    """The items of a formula's nodes that are the same along a line; streams: the constant ones."""
    kinds = [Kind(f"i{t.element_bits}", key.lanes) for t in key.types[:-1]]
    read = [streams.get(k, body.undefined(kind)) for k, kind in enumerate(kinds)]
    walk = LineWalk(body, key.formula, read, key.types[-1], key.lanes, key.levels[0], key.moves)
    return walk.run_line(streams)


def standardised_element(body: Body, key: MapKey, streams: Sequence[Value], known: Mapping[int, Item]) -> tuple[Value, str]:
    """`element` for a formula with standardised elements, with the undecided lanes as bits. known: the result of `of_line`."""
    walk = LineWalk(body, key.formula, streams, key.types[-1], key.lanes, key.levels[0], key.moves)
    walk.items = Scopes(known, {})
    return stored_quickly(walk, walk.run, key.lanes, integral=key.integral)


def stored_quickly(walk: LineWalk, root: Callable[[], Item], lanes: int, *, integral: bool) -> tuple[Value, str]:
    """The bits that store elements, and those lanes that have to be decided elsewhere, as bits.

    root: gives the item of the last node. If a cheap test decides all standardised elements of a group, no other test runs.
    """
    body, data_type = walk.body, walk.data_type

    def carefully() -> tuple[Value, str]:
        bits, undecided = stored_item(body, root(), data_type, lanes, integral=integral)
        return bits, "0" if undecided is None else lanes_as_bits(left_by_first_stage(undecided))

    x = walk.at_base()
    if x is None:
        return carefully()
    if x.ends is not None and data_type in SIXTEEN_BIT:
        low, high = x.ends(data_type)
        if body.target.probe is None:
            made, same = singles.agreed(walk.clamped(low), walk.clamped(high), data_type)
            return _unless(body, all_set(same & low.compared("ord", high)), made, lambda: _known(walk, x, carefully))
        if not (body.target.careful or body.target.later or walk.clamps or walk.but_zeros):
            ends = [end.converted("fpext", end.kind.of("double")) for end in (low, high)]
            return record_of_ends(ends[0], ends[1], x.number.guard, data_type.element_bits), "0"
    return _known(walk, x, carefully)


def _known(walk: LineWalk, x: Standardised, carefully: Callable[[], tuple[Value, str]]) -> tuple[Value, str]:
    """`stored_quickly` for an element that is computed in float64."""
    body, data_type = walk.body, walk.data_type

    def again() -> tuple[Value, str]:
        walk.doubted()
        return carefully()

    if x.known is not None and data_type in SINGLES and body.target.probe is None:
        single, where = x.known(data_type)
        if walk.but_zeros:  # an infinite element may be one of a line of zeros
            where = where & single.magnitude().compared("olt", math.inf)
        certain, made = all_set(where), singles.narrowed(walk.clamped(single), data_type)
        if (zeros := x.zeros) is not None:  # most groups have none, so that their test comes second
            return _unless(body, certain, made, lambda: _unless(body, all_set(where | zeros(single)), made, again))
    elif not (walk.clamps or walk.but_zeros) and (found := between_ends(x.number, data_type)) is not None:
        made, differ = found
        certain = body.op(f"icmp eq i64 {lanes_as_bits(differ)}, 0")
    else:
        return again()
    return _unless(body, certain, made, again)


def _unless(body: Body, certain: str, made: Value, again: Callable[[], tuple[Value, str]]) -> tuple[Value, str]:
    """Elements that are certain, or those of `again`, with the undecided lanes."""
    doubtful = "true" if body.target.later else body.op(f"xor i1 {certain}, true")

    def otherwise() -> list[Value]:
        bits, rest = again()
        return [bits, Value(body, rest, Kind("i64"))]

    made, left = body.either(doubtful, otherwise, lambda: [made, Value(body, "0", Kind("i64"))], seldom=True)
    return made, left.name


def _long_integers(key: MapKey) -> bool:
    """Whether 64-bit integers are scaled by real numbers: float64 would leave most of the results undecided."""
    long = [t.element_bits == 64 and t.is_integer for t in key.types]
    if key.integral or key.moves or not (any(long[:-1]) and long[-1]):
        return False
    if any(n.op == "constant" and not isinstance(n.data.value, Fraction) for n in key.formula):
        return False
    return {n.op for n in key.formula} <= SCALED and any(n.op in ("mul", "add", "sub") for n in key.formula)


def finer_kernel(target: Target, key: MapKey, level: str) -> str:
    """`finer_stage` as a kernel; arguments: FINER. It returns how many elements are still on the list."""
    stage, declared = finer_stage(target, key, level)
    body = Body(target)
    FINER.load(body)
    body.do(f"ret i64 {body.op(f'call i64 @{level}(ptr %list, i64 %count)')}")
    return kernel(body, [*declared, stage])


def lanes_as_bits(mask: Value) -> str:
    """Lanes as bits of an integer."""
    lanes, body = mask.kind.lanes, mask.body
    bits = body.op(f"bitcast {mask.kind.text} {mask.name} to i{lanes}")
    return bits if lanes == 64 else body.op(f"zext i{lanes} {bits} to i64")


def bits_as_lanes(body: Body, bits: str, lanes: int) -> Value:
    """Bits of an integer of 64 bits as lanes."""
    narrow = bits if lanes == 64 else body.op(f"trunc i64 {bits} to i{lanes}")
    return body.value(f"bitcast i{lanes} {narrow} to <{lanes} x i1>", Kind("i1", lanes))


def again(target: Target, key: MapKey) -> tuple[str, list[str]]:
    """`i64 @again(ptr stream, .., ptr made, i64 n)`: n elements computed at the second level, and which it leaves undecided."""

    lanes = min(key.lanes, target.vector_bytes // 4)
    key = key._replace(lanes=lanes)
    return _group_by_group("again", target, key, lambda streams, made: element(made.body, key, streams, key.levels[1]))


def slowly(target: Target, key: MapKey) -> tuple[str, list[str]]:
    """`i64 @slowly(ptr stream, .., ptr made, i64 n)`: n elements computed in float64; no bound leaves any undecided."""
    key = key._replace(lanes=min(key.lanes, target.vector_bytes // 4))
    return _group_by_group("slowly", target, key, lambda streams, made: element(made.body, key, streams, "float64"))


def known(target: Target, key: MapKey) -> tuple[str, list[str]]:
    """`i64 @known(ptr stream, .., ptr made, i64 n)`: those of n elements that are known without being computed, and which."""

    def found(streams: list[Value], made: Value) -> tuple[Value, Value]:
        results, where = settled.settled(key.formula, streams)
        return made.body.chosen(where, results, made), where

    return _group_by_group("known", target, key._replace(lanes=min(key.lanes, target.vector_bytes // 4)), found)


def _group_by_group(
    name: str, target: Target, key: MapKey, made_of: Callable[[list[Value], Value], tuple[Value, Value | None]]
) -> tuple[str, list[str]]:
    """A function that stores new elements and returns some lanes; in the kernel, its constants would take registers."""
    body, lanes = Body(target), key.lanes
    pointers = [f"%p{k}" for k in range(len(key.types))]

    def group(first: str, carried: list[Value]) -> list[Value]:
        places = [
            body.at(p, body.op(f"mul i64 {first}, {t.element_bits // 8}")) for p, t in zip(pointers, key.types, strict=True)
        ]
        *streams, made = (body.loaded(Kind(f"i{t.element_bits}", lanes), at) for at, t in zip(places, key.types, strict=True))
        made, mask = made_of(streams, made)
        body.stored(made, places[-1])
        if mask is None:
            return carried
        moved = body.op(f"shl i64 {lanes_as_bits(mask)}, {first}")
        return [carried[0] | Value(body, moved, Kind("i64"))]

    _, (bits,) = body.loop("0", "%n", lanes, [Value(body, "0", Kind("i64"))], group)
    body.do(f"ret i64 {bits.name}")
    head = f"define internal i64 @{name}({', '.join(f'ptr {p}' for p in pointers)}, i64 %n) noinline {{"
    return "\n".join([head, "entry:", *body.lines, "}"]), [*body.declared]


def called(body: Body, name: str, pointers: Sequence[str], count: int) -> str:
    """The result of a call of `again`, `slowly` or `known`."""
    return body.op(f"call i64 @{name}({', '.join(f'ptr {p}' for p in pointers)}, i64 {count})")


def finer_stage(target: Target, key: MapKey, level: str) -> tuple[str, list[str]]:
    """`i64 @level(ptr list, i64 count)`: decide listed elements, keep the others on the list, and say how many these are."""
    body = Body(target)
    count = len(key.types)
    lanes = min(key.lanes, target.vector_bytes // 4)  # two registers of float64
    list_ = UndecidedList(body, count)
    key = key._replace(lanes=lanes)
    kinds = [Kind(f"i{t.element_bits}", lanes) for t in key.types]
    spares = [body.op(f"alloca {kind.text}, align 64") for kind in kinds]
    spare = spares[-1]
    last = body.op("sub i64 %count, 1")
    zero = Value(body, "0", Kind("i64"))

    def group(e: str, carried: list[Value]) -> list[Value]:
        streams = [body.undefined(kind) for kind in kinds[:-1]]
        for lane in range(lanes):
            at = body.op(f"add i64 {e}, {lane}")
            inside = body.op(f"icmp ult i64 {at}, {last}")
            at = body.op(f"select i1 {inside}, i64 {at}, i64 {last}")
            slot = list_.slot(at)
            for k, kind in enumerate(kinds[:-1]):
                word = body.loaded(Kind("i64"), slot, 8 + 8 * k)
                streams[k] = streams[k].replaced(lane, word.converted("trunc", Kind(kind.element)))
        bits = "0"
        if level in key.levels[1:2]:  # `again` has code for it
            for value, place in zip(streams, spares, strict=False):
                body.stored(value, place)
            bits = called(body, "again", spares, lanes)
        else:
            made, undecided = element(body, key, streams, level)
            body.do(f"store {made.kind.text} {made.name}, ptr {spare}, align 64")
            if undecided is not None:
                bits = lanes_as_bits(undecided)
        left = body.op(f"sub i64 %count, {e}")
        take = body.op(f"select i1 {body.op(f'icmp ult i64 {left}, {lanes}')}, i64 {left}, i64 {lanes}")

        def one(lane: str, kept: list[Value]) -> list[Value]:
            slot = list_.slot(body.op(f"add i64 {e}, {lane}"))
            bit = body.op(f"and i64 {body.op(f'lshr i64 {bits}, {lane}')}, 1")
            address = body.load("ptr", slot)
            size = kinds[-1].bits // 8
            element_ = body.loaded(Kind(kinds[-1].element), body.at(spare, body.op(f"mul i64 {lane}, {size}")))
            when(body, body.op(f"icmp eq i64 {bit}, 0"), lambda: body.stored(element_, address))
            list_.kept(slot, kept[0].name)
            return [kept[0] + Value(body, bit, Kind("i64"))]

        _, kept = body.loop("0", take, 1, carried, one)
        return kept

    up = body.op(f"add i64 %count, {lanes - 1}")
    groups = body.op(f"and i64 {up}, {-lanes}")
    _, (kept,) = body.loop("0", groups, lanes, [zero], group)
    body.do(f"ret i64 {kept.name}")
    text = "\n".join([f"define internal i64 @{level}(ptr %list, i64 %count) {{", "entry:", *body.lines, "}"])
    return text, [*body.declared]
