"""The rounding of int32 sums to bytes by numbers of each channel: sum * factor + term in float32, rounded if that is certain.

An estimate is certain if it is nearer to an integer than the channel's limit. Rows of the tile with uncertain estimates are put
into a buffer, and at the tile's end the places of these outputs are listed, whatever bytes were stored for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, fold, kernel, splat, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue import rounding
from anydml.kernels.contract.epilogue.rounding import Slots, Stored
from anydml.kernels.contract.epilogue.rule import bounded, fused
from anydml.kernels.contract.epilogue.tally import Tally
from anydml.kernels.undecided.lists import UndecidedList, each_bit
from anydml.kernels.undecided.state import OWN, STATE_WORDS

ESTIMATES = Signature("*numbers pitch step origin *ends *open")
BEGUN = Signature("*state list room")
FACTOR, TERM, LIMIT = 0, 1, 2  # the rows of the numbers, `pitch` bytes apart
LOW, HIGH, ZERO = 0, 4, 8  # of the ends: float32 limits of estimates, and what is added to them, int32
# of the state, in bytes: where the list is, how many it has room for, and how many elements the second stage left undecided
LIST, ROOM, LEFT = (8 * word for word in (OWN, OWN + 1, OWN + 2))
STATE = 8 * STATE_WORDS
BY_ROW, BY_COLUMN = "row", "column"


class Waiting(NamedTuple):
    """The stack frame of a tile: the sums of uncertain rows, and the numbers of these rows."""

    sums: str
    rows: str


def waiting(text: Text, target: Target, height: int) -> Waiting:
    """The stack frame of a tile with `height` rows."""
    width = target.vector_bytes
    sums = text.op(f"alloca [{height * dot_of(target).vectors * width} x i8], align {width}")
    return Waiting(sums, text.op(f"alloca [{height} x i64], align 8"))


class Channel(NamedTuple):
    """The factor, term and limit of a vector of outputs."""

    factor: str
    term: str
    limit: str


def of_row(text: Text, target: Target, numbers: str) -> Channel:
    """The numbers of one channel in every lane."""
    floats = f"<{target.vector_bytes // 4} x float>"
    return Channel(*(splat(text, text.load("float", _number(text, numbers, n)), floats) for n in (FACTOR, TERM, LIMIT)))


def of_columns(text: Text, target: Target, numbers: str, n: int) -> Channel:
    """The numbers of the n-th vector of channels."""
    width = target.vector_bytes
    loads = (text.load(f"<{width // 4} x float>", _number(text, numbers, k), n * width) for k in (FACTOR, TERM, LIMIT))
    return Channel(*loads)


def _number(text: Text, numbers: str, row: int) -> str:
    return text.at(numbers, text.op(f"mul i64 %pitch, {row}")) if row else numbers


def estimated(text: Text, target: Target, sums: str, channel: Channel, clamped: bool) -> tuple[str, str]:
    """The estimate rounded to int32, and its signed distance from that. clamped: whether estimates are clamped to `ends`."""
    lanes = target.vector_bytes // 4
    floats, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    s = text.op(f"sitofp {ints} {sums} to {floats}")
    if fused(target):
        v = text.op(f"call {floats} @llvm.fma.v{lanes}f32({floats} {s}, {floats} {channel.factor}, {floats} {channel.term})")
    else:
        v = text.op(f"fadd {floats} {text.op(f'fmul {floats} {s}, {channel.factor}')}, {channel.term}")
    if clamped:
        low, high = (splat(text, text.load("float", "%ends", at), floats) for at in (LOW, HIGH))
        v = bounded(text, floats, "olt", bounded(text, floats, "ogt", v, low), high)
    v, rounded = rounding.nearest(text, target, v)
    return rounded, text.op(f"fsub {floats} {v}, {text.op(f'sitofp {ints} {rounded} to {floats}')}")


def uncertain(text: Text, target: Target, distances: list[str], limit: str) -> str:
    """The lanes in which some distance reaches the limit."""
    lanes = target.vector_bytes // 4
    floats = f"<{lanes} x float>"
    found = rounding.largest(text, target, distances)
    if len(distances) == 1:  # a single distance still has its sign
        found = text.op(f"call {floats} @llvm.fabs.v{lanes}f32({floats} {found})")
    return text.op(f"fcmp oge {floats} {found}, {limit}")


def some(text: Text, target: Target, masks: list[str]) -> str:
    """Whether a lane of some mask is set."""
    lanes = target.vector_bytes // 4
    found = masks[0]
    for mask in masks[1:]:
        found = text.op(f"or <{lanes} x i1> {found}, {mask}")
    return text.op(f"icmp ne i{lanes} {text.op(f'bitcast <{lanes} x i1> {found} to i{lanes}')}, 0")


def waits(text: Text, target: Target, rows: list[tuple[int, list[str]]], slots: Waiting | Slots, count: str) -> str:
    """Put rows, given as numbers and sums, into the buffer after `count` others; the result is their new count."""
    width = target.vector_bytes
    for k, (m, sums) in enumerate(rows):
        slot = text.op(f"add i64 {count}, {k}")
        place = text.at(slots.sums, text.op(f"mul i64 {slot}, {len(sums) * width}"))
        for n, value in enumerate(sums):
            text.store(f"<{width // 4} x i32>", value, place, n * width)
        text.store("i64", str(m), along(text, slots.rows, "8", slot))
    return text.op(f"add i64 {count}, {len(rows)}")


def epilogue(
    text: Text,
    target: Target,
    signed: bool,
    clamped: bool,
    sums: list[list[str]],
    slots: Waiting,
    by: str,
    of: Callable[[int, int], Channel],
    c: str,
    c_row: str,
    listed: Callable[[str, str], None],
    stored: Stored | None = None,
) -> None:
    """Round a tile's sums and store them at c. by: whether channels are rows or columns. of: the numbers of a row's n-th
    vector.

    listed: lists the uncertain outputs of a row, given its number and the address of its sums. stored: stores the bytes of a
    row, if this takes more than one store.
    """
    dot, width = dot_of(target), target.vector_bytes
    ints = f"<{width // 4} x i32>"
    zero = splat(text, text.load("i32", "%ends", ZERO), ints)
    of_vectors = [of(0, n) for n in range(dot.vectors)] if by == BY_COLUMN else []
    waiting = Tally(text)
    for first in range(0, len(sums), 2):
        pair = list(range(first, min(first + 2, len(sums))))
        outputs, distances = [], []
        of_rows = {m: of(m, 0) for m in pair} if by == BY_ROW else {}
        for m in pair:
            channels = [of_rows[m]] * dot.vectors if by == BY_ROW else of_vectors
            made = [estimated(text, target, value, x, clamped) for value, x in zip(sums[m], channels, strict=True)]
            outputs += [text.op(f"add {ints} {rounded}, {zero}") for rounded, _ in made]
            distances.append([d for _, d in made])
        if by == BY_ROW:
            masks = [uncertain(text, target, of_m, of_rows[m].limit) for of_m, m in zip(distances, pair, strict=True)]
        else:
            masks = [uncertain(text, target, [d[n] for d in distances], x.limit) for n, x in enumerate(of_vectors)]
        rounding.put(text, target, rounding.pack(text, target, signed, outputs), pair, c, c_row, stored)
        rows = [(m, sums[m]) for m in pair]
        waiting.add(some(text, target, masks), partial(waits, text, target, rows, slots))
    each_waiting(text, target, slots, waiting.count, listed)


def each_waiting(text: Text, target: Target, slots: Waiting, count: str, listed: Callable[[str, str], None]) -> None:
    """List the uncertain outputs of the rows in the buffer."""

    def all_of() -> None:
        def one(i: str, _: list[str]) -> list[str]:
            m = text.load("i64", along(text, slots.rows, "8", i))
            listed(m, along(text, slots.sums, str(dot_of(target).vectors * target.vector_bytes), i))
            return []

        fold(text, "0", count, 1, [], one)

    when(text, text.op(f"icmp ne i64 {count}, 0"), all_of)


def list_row(text: Text, sums: str, numbers: str, place: str, lane: str | int = 1, inside: str | int = -1) -> None:
    """List the uncertain outputs of a row. place: the address of the first; lane: bytes to the next. inside: a mask of those
    that exist."""
    first = text.op(f"sub i64 {text.op(f'ptrtoint ptr {place} to i64')}, %origin")
    given = f"ptr {sums}, ptr {numbers}, i64 %pitch, i64 {first}, i64 {lane}, i64 {inside}, ptr %ends, ptr %open"
    text.do(f"call void @list({given})")


def functions(target: Target, by: str) -> list[str]:
    """The function `void list(sums, numbers, pitch, first, lane, inside, ends, open)`: lists the uncertain outputs of a row of
    sums."""
    dot, lanes = dot_of(target), target.vector_bytes // 4
    text = Body(target)
    bits = "0"
    for n in range(dot.vectors):
        channel = of_row(text, target, "%numbers") if by == BY_ROW else of_columns(text, target, "%numbers", n)
        sums = text.load(f"<{lanes} x i32>", "%sums", n * target.vector_bytes)
        _, distance = estimated(text, target, sums, channel, True)
        mask = uncertain(text, target, [distance], channel.limit)
        few = text.op(f"zext i{lanes} {text.op(f'bitcast <{lanes} x i1> {mask} to i{lanes}')} to i64")
        bits = text.op(f"or i64 {bits}, {text.op(f'shl i64 {few}, {n * lanes}')}")
    bits = text.op(f"and i64 {bits}, %inside")
    noted = list_of(text, "%open")
    each_bit(text, bits, lambda k: noted(text.op(f"add i64 %first, {text.op(f'mul i64 {k}, %lane')}")))
    text.do("ret void")
    given = "ptr %sums, ptr %numbers, i64 %pitch, i64 %first, i64 %lane, i64 %inside, ptr %ends, ptr %open"
    floats = f"<{lanes} x float>"
    declarations = [f"declare {floats} @llvm.fabs.v{lanes}f32({floats})", *text.declared]
    return [*declarations, f"define internal void @list({given}) {{", "entry:", *text.lines, "}"]


def list_of(body: Body, state: str) -> Callable[[str], None]:
    """A function that puts an output's number on the list of a state, which has room for some and counts all."""
    noted = UndecidedList(body, 1, state, body.load("ptr", state, LIST))
    return partial(noted.count_entry, body.load("i64", state, ROOM))


def estimating(signature: Signature, by: str) -> Signature:
    """The signature of a kernel, with the arguments of estimates if it makes them."""
    return signature + ESTIMATES if by else signature


def begun(target: Target) -> str:
    """The kernel that sets a state with nothing listed. Arguments: the state, the address of the list, and its capacity."""
    text = Body(target)
    BEGUN.load(text)
    UndecidedList(text, 1).counted("0")
    for at, value in ((LIST, "%list"), (ROOM, "%room"), (LEFT, "0")):
        text.store("i64", value, "%state", at)
    text.do("ret i64 0")
    return kernel(text)
