"""Sums of places by filters, transposed to lines of each filter and stored: as int32, or as bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anydml.kernels.code.emit import Text, fold, shuffle, splat, when
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.epilogue import estimates, rounding, rule
from anydml.kernels.contract.epilogue.estimates import waits
from anydml.kernels.contract.epilogue.filters import SCALE
from anydml.kernels.contract.epilogue.tally import Tally
from anydml.kernels.contract.tile import TileKey

SLOTS = 16  # places that are transposed together


def _slotted(places: list[tuple[int, int]]) -> tuple[list[int | None], int]:
    """The place in each slot, where a line's places are contiguous, and the slots of a line."""
    lines = places[-1][0] + 1
    each = SLOTS // (4 if lines > 2 else lines)
    found: list[int | None] = [None] * SLOTS
    for at, (line, i) in enumerate(places):
        found[line * each + i] = at
    return found, each


def _masked(text: Text, value: str, kind: str, into: list[str], places: list[tuple[int, int]], each: int) -> None:
    """Store the places of every line from the slots of a vector, and nothing beside them."""
    element = int(kind[7:-1]) // 8
    for line, there in enumerate(into):
        bits = (int((line, slot - line * each) in places) for slot in range(SLOTS))
        mask = ", ".join(f"i1 {bit}" for bit in bits)
        at = text.at(there, -line * each * element)
        suffix = f"v16{kind[6:-1]}"
        text.do(f"call void @llvm.masked.store.{suffix}.p0({kind} {value}, ptr {at}, i32 1, <16 x i1> <{mask}>)")


def stored(text: Text, sums: list[list[str]], places: list[tuple[int, int]], into: list[str]) -> None:
    """Store sums as int32: 16 places by 16 filters are transposed at a time."""
    slots, each = _slotted(places)
    kind, half = "<16 x i32>", SLOTS // 2
    for n in range(2):
        rows = ["poison" if at is None else sums[at][n] for at in slots]
        for _ in range(4):  # each pass moves the highest bit of {slot, lane} to the end
            rows = [
                shuffle(
                    text, rows[i], rows[i + half], kind, [x for lane in range(first, first + half) for x in (lane, lane + 16)]
                )
                for i in range(half)
                for first in (0, half)
            ]
        for value in rows:
            _masked(text, value, kind, into, places, each)
            into = [text.at(x, "%c_row") for x in into]


def rounded(
    text: Text,
    target: Target,
    kind: TileKey,
    sums: list[list[str]],
    places: list[tuple[int, int]],
    into: list[str],
    record: str,
    waiting: rounding.Slots,
) -> None:
    """Store the rounded bytes of a tile; places whose estimate is too near a tie are rounded again, by the rule."""
    width = target.vector_bytes
    floats = f"<{width // 4} x float>"
    threshold = splat(text, text.load("float", "%modes"), floats)
    always = text.op(f"icmp ne i64 {text.op(f'load i64, ptr {waiting.always}, align 8')}, 0")
    factor = splat(text, text.load("float", "%row", rule.ESTIMATE[0]), floats)
    zero_point = text.op(f"trunc i32 {text.load('i32', '%row', rule.ZERO_POINT[0])} to i16")
    zero_points = splat(text, zero_point, f"<{width // 2} x i16>")
    scales = [text.op(f"fmul {floats} {text.load(floats, record, SCALE + 64 * n)}, {factor}") for n in range(2)]
    rounding.counted(text, waiting)
    tally = Tally(text)

    def bytes_of(there: list[int]) -> list[list[str]]:
        outputs: list[list[str]] = []
        for at in there:
            outputs.append([])
            both = []
            for n in range(2):
                value, distance = rounding.estimated(text, target, sums[at][n], scales[n])
                outputs[-1].append(value)
                both.append(distance)
            near = rounding.any_not_below(text, target, rounding.largest(text, target, both), threshold)
            tally.add(text.op(f"or i1 {near}, {always}"), partial(waits, text, target, [(at, sums[at])], waiting))
        return outputs

    _in_fours(text, target, kind, places, into, zero_points, bytes_of)

    def again() -> None:
        def place(i: str, _: list[str]) -> list[str]:
            at = text.load("i64", text.at(waiting.rows, text.op(f"mul i64 {i}, 8")))
            from_ = text.at(waiting.sums, text.op(f"mul i64 {i}, {2 * width}"))
            there = _place(text, into[0], at, places)
            text.do(f"call void @rule(ptr {from_}, ptr %row, ptr {text.at(record, SCALE)}, ptr {waiting.rounded})")

            def one(f: str, state: list[str]) -> list[str]:
                text.store("i8", text.load("i8", text.at(waiting.rounded, f)), state[0])
                return [text.at(state[0], "%c_row")]

            fold(text, "0", str(2 * width // 4), 1, [("ptr", there)], one)
            return []

        fold(text, "0", tally.count, 1, [], place)
        rounding.judged(text, waiting, tally.count, len(places))

    when(text, text.op(f"icmp ne i64 {tally.count}, 0"), again)


def estimated(
    text: Text,
    target: Target,
    kind: TileKey,
    sums: list[list[str]],
    places: list[tuple[int, int]],
    into: list[str],
    numbers: str,
    waiting: estimates.Waiting,
) -> None:
    """Store the bytes of a tile by the numbers of its filters, and list the uncertain outputs."""
    zero_point = text.op(f"trunc i32 {text.load('i32', '%ends', estimates.ZERO)} to i16")
    zero_points = splat(text, zero_point, f"<{target.vector_bytes // 2} x i16>")
    filters = [estimates.of_columns(text, target, numbers, n) for n in range(2)]
    tally = Tally(text)

    def bytes_of(there: list[int]) -> list[list[str]]:
        made = [[estimates.estimated(text, target, sums[at][n], filters[n], kind.clamped) for n in range(2)] for at in there]
        masks = [estimates.uncertain(text, target, [one[n][1] for one in made], filters[n].limit) for n in range(2)]
        rows = [(at, sums[at]) for at in there]
        tally.add(estimates.some(text, target, masks), partial(waits, text, target, rows, waiting))
        return [[value for value, _ in one] for one in made]

    _in_fours(text, target, kind, places, into, zero_points, bytes_of)

    def listed(at: str, sums: str) -> None:
        estimates.list_row(text, sums, numbers, _place(text, into[0], at, places), "%c_row")

    estimates.each_waiting(text, target, waiting, tally.count, listed)


def _in_fours(
    text: Text,
    target: Target,
    kind: TileKey,
    places: list[tuple[int, int]],
    into: list[str],
    zero_points: str,
    bytes_of: Callable[[list[int]], list[list[str]]],
) -> None:
    """Store a tile's bytes, from the sums of four places at a time. bytes_of: for some places, two vectors of each."""
    slots, each = _slotted(places)
    transposed: list[list[str]] = [[], []]
    for group in range(0, SLOTS, 4):
        there = [at for at in slots[group : group + 4] if at is not None]
        outputs = dict(zip(there, bytes_of(there), strict=True)) if there else {}
        chosen = [there[0] if at is None else at for at in slots[group : group + 4] if there]
        for n, of in enumerate(transposed):
            of.append(_four(text, target, kind, [outputs[at][n] for at in chosen], zero_points) if there else "poison")
    _lines(text, transposed, into, places, each)


def _place(text: Text, first: str, at: str, places: list[tuple[int, int]]) -> str:
    """The address of the output of a tile's place, from that of the first one."""
    height = places[-1][1] + 1
    line, x = (text.op(f"{how} i64 {at}, {height}") for how in ("udiv", "urem"))
    return text.at(first, text.op(f"add i64 {text.op(f'mul i64 {line}, %c_line')}, {x}"))


def _four(text: Text, target: Target, kind: TileKey, values: list[str], zero_points: str) -> str:
    """The bytes of four places, contiguous for each filter."""
    width = target.vector_bytes
    bytes_ = f"<{width} x i8>"
    packed = rounding.saturated(text, target, kind.output == "i8", values, zero_points)
    order = [16 * lane + 4 * place + f for lane in range(width // 16) for f in range(4) for place in range(4)]
    return text.op(f"bitcast {bytes_} {shuffle(text, packed, packed, bytes_, order)} to <{width // 4} x i32>")


def _lines(text: Text, transposed: list[list[str]], into: list[str], places: list[tuple[int, int]], each: int) -> None:
    """Store bytes of four places each as lines of every filter."""
    for of in transposed:
        # four bytes of a filter become a lane, and then four lanes hold its sixteen places
        pairs = [_unpacked(text, of[i], of[i + 1], high, 1) for i in (0, 2) for high in (0, 1)]
        fours = [_unpacked(text, pairs[i], pairs[i + 2], high, 2) for i in (0, 1) for high in (0, 1)]
        fours = [text.op(f"bitcast <16 x i32> {x} to <64 x i8>") for x in fours]
        for f in range(16):
            value = shuffle(text, fours[f % 4], fours[f % 4], "<64 x i8>", range(f // 4 * 16, f // 4 * 16 + 16))
            _masked(text, value, "<16 x i8>", into, places, each)
            into = [text.at(x, "%c_row") for x in into]


def _unpacked(text: Text, first: str, second: str, high: int, words: int) -> str:
    """Runs of `words` words, alternating between two vectors, from the lower or upper halves of their lanes of 16 bytes."""
    halves = [range(lane + 2 * high, lane + 2 * high + 2) for lane in range(0, 16, 4)]
    order = []
    for half in halves:
        for i in range(0, 2, words):
            order += [*half[i : i + words], *(x + 16 for x in half[i : i + words])]
    return shuffle(text, first, second, "<16 x i32>", order)
