"""The rounding of int32 sums to 8-bit outputs: q * AScale * BScale / OutputScale, rounded once, half to even, and saturated.

The estimate t = q * fl(AScale / OutputScale) * BScale in float32 has an error below 2^-14 wherever the output does not
saturate, so that rint(t) is the result unless t is that near to a half-integer. Rows of the tile with such a t are put into a
buffer for the rule (`rule`). docs/decisions/0005-exact-rounding-in-the-tile.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from anydml.kernels.code.emit import Text, along, real, shuffle, splat
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue.rule import ESTIMATE, ROW, ZERO_POINT, bounded, fused, limits


def undecided(target: Target) -> float:
    """The distance from an integer from which on an estimate is left to the rule."""
    return 0.5 - (2.0**-14 if fused(target) else 2.0**-13)


Stored = Callable[[str, str, int | str], None]  # the bytes, their address, and the number of their row, as an int or in code


class Slots(NamedTuple):
    """The stack frame of a tile.

    sums, rows: the buffer for the rule, and the numbers of its rows; always: whether the rule decides everything; redone: the
    count of rows that it decided; tiles: the count of tiles; rounded: a row's bytes.
    """

    sums: str
    rows: str
    always: str
    redone: str
    tiles: str
    rounded: str


def slots(text: Text, target: Target, height: int) -> Slots:
    dot = dot_of(target)
    sums = text.op(f"alloca [{height * dot.vectors * target.vector_bytes} x i8], align {target.vector_bytes}")
    rows, always, redone, tiles = (text.op(f"alloca {x}, align 8") for x in (f"[{height} x i64]", "i64", "i64", "i64"))
    wanted = text.op(f"zext i32 {text.load('i32', '%modes', 4)} to i64")
    text.do(f"store i64 {wanted}, ptr {always}, align 8")
    for count in (redone, tiles):
        text.do(f"store i64 0, ptr {count}, align 8")
    rounded = text.op(f"alloca [{dot.vectors * target.vector_bytes // 4} x i8], align {target.vector_bytes}")
    return Slots(sums, rows, always, redone, tiles, rounded)


def epilogue(
    text: Text,
    target: Target,
    signed: bool,
    sums: list[list[str]],
    slots: Slots,
    row: str,
    column: str,
    c: str,
    c_row: str,
    biased: bool = False,
    row_step: int = ROW,
    stored: Stored | None = None,
) -> None:
    """Round a tile's sums and store them at c. biased: the records of rows have a bias in the place of the second zero point.

    row_step: 0 if all rows share one record. stored: stores the bytes of a row, if this takes more than one store.
    """
    dot, width = dot_of(target), target.vector_bytes
    height, row_bytes = len(sums), dot.vectors * width
    decide, guess, judge, redo, done = (text.name(x) for x in ("decide", "guess", "judge", "redo", "rounded"))

    def keep(m: int, place: str) -> None:
        for n, value in enumerate(sums[m]):
            text.do(f"store <{width // 4} x i32> {value}, ptr {text.at(place, n * width)}, align {width}")

    counted(text, slots)
    always = text.op(f"load i64, ptr {slots.always}, align 8")
    text.branch(text.op(f"icmp eq i64 {always}, 0"), guess, decide)
    text.label(decide)
    for m in range(height):
        keep(m, text.at(slots.sums, m * row_bytes))
        text.do(f"store i64 {m}, ptr {text.at(slots.rows, 8 * m)}, align 8")
    text.jump(redo)

    text.label(guess)
    threshold = splat(text, text.load("float", "%modes"), f"<{width // 4} x float>")
    scales = [text.load(f"<{width // 4} x float>", column, (dot.vectors + n) * width) for n in range(dot.vectors)]
    waiting, before = "0", guess
    for first in range(0, height, 2):
        pair = list(range(first, min(first + 2, height)))
        outputs, distances = [], []
        for m in pair:
            for n, value in enumerate(sums[m]):
                factor = splat(text, text.load("float", row, row_step * m + ESTIMATE[n % 2]), f"<{width // 4} x float>")
                zero_point = splat(
                    text, text.load("i32", row, row_step * m + ZERO_POINT[0 if biased else n % 2]), f"<{width // 4} x i32>"
                )
                rounded, distance = estimated(text, target, value, scales[n], factor)
                outputs.append(text.op(f"add <{width // 4} x i32> {rounded}, {zero_point}"))
                distances.append(distance)
        put(text, target, pack(text, target, signed, outputs), pair, c, c_row, stored)
        near = any_not_below(text, target, largest(text, target, distances), threshold)
        wait, go = text.name("wait"), text.name("go")
        text.branch(near, wait, go)
        text.label(wait)
        for at, m in enumerate(pair):
            slot = text.op(f"add i64 {waiting}, {at}")
            keep(m, text.at(slots.sums, text.op(f"mul i64 {slot}, {row_bytes}")))
            text.do(f"store i64 {m}, ptr {text.at(slots.rows, text.op(f'mul i64 {slot}, 8'))}, align 8")
        more = text.op(f"add i64 {waiting}, {len(pair)}")
        text.jump(go)
        text.label(go)
        now = text.name("waiting")
        text.do(f"%{now} = phi i64 [ {waiting}, %{before} ], [ {more}, %{wait} ]")
        waiting, before = f"%{now}", go
    text.branch(text.op(f"icmp eq i64 {waiting}, 0"), done, judge)

    text.label(judge)
    judged(text, slots, waiting, height)
    text.jump(redo)

    text.label(redo)
    count = text.name("count")
    text.do(f"%{count} = phi i64 [ {height}, %{decide} ], [ {waiting}, %{judge} ]")
    loop = text.name("each")
    text.jump(loop)
    text.label(loop)
    i, j = text.name("i"), text.name("j")
    text.do(f"%{i} = phi i64 [ 0, %{redo} ], [ %{j}, %{loop} ]")
    which = text.op(f"load i64, ptr {text.at(slots.rows, text.op(f'mul i64 %{i}, 8'))}, align 8")
    from_ = text.at(slots.sums, text.op(f"mul i64 %{i}, {row_bytes}"))
    record = text.at(row, text.op(f"mul i64 {which}, {row_step}"))
    into = text.at(c, text.op(f"mul i64 {which}, {c_row}"))
    scale = text.at(column, row_bytes)
    bytes_at = into if stored is None else slots.rounded
    text.do(f"call void @rule(ptr {from_}, ptr {record}, ptr {scale}, ptr {bytes_at})")
    if stored is not None:
        stored(text.load(f"<{row_bytes // 4} x i8>", bytes_at), into, which)
    text.do(f"%{j} = add i64 %{i}, 1")
    text.branch(text.op(f"icmp ult i64 %{j}, %{count}"), loop, done)
    text.label(done)


def counted(text: Text, slots: Slots) -> None:
    """Count one tile."""
    tiles = text.op(f"add i64 {text.op(f'load i64, ptr {slots.tiles}, align 8')}, 1")
    text.do(f"store i64 {tiles}, ptr {slots.tiles}, align 8")


def judged(text: Text, slots: Slots, waiting: str, height: int) -> None:
    """Count the rows in a tile's buffer; if these are half of all rows, the estimate is not tried for the rest of the call."""
    redone = text.op(f"add i64 {text.op(f'load i64, ptr {slots.redone}, align 8')}, {waiting}")
    text.do(f"store i64 {redone}, ptr {slots.redone}, align 8")
    tiles = text.op(f"add i64 {text.op(f'load i64, ptr {slots.tiles}, align 8')}, 8")  # a few tiles are no evidence
    many = text.op(f"icmp ugt i64 {text.op(f'mul i64 {redone}, 2')}, {text.op(f'mul i64 {tiles}, {height}')}")
    always = text.op(f"load i64, ptr {slots.always}, align 8")
    always = text.op(f"or i64 {always}, {text.op(f'zext i1 {many} to i64')}")
    text.do(f"store i64 {always}, ptr {slots.always}, align 8")


def estimated(text: Text, target: Target, sums: str, scale: str, factor: str | None = None) -> tuple[str, str]:
    """The estimate rounded to int32, and its signed distance from that.

    factor: None if the scale contains it: then the product of both is rounded, instead of that of the sums with the factor.
    """
    lanes = target.vector_bytes // 4
    floats, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    u = text.op(f"sitofp {ints} {sums} to {floats}")
    if factor is not None:
        u = text.op(f"fmul {floats} {u}, {factor}")
    t = text.op(f"fmul {floats} {u}, {scale}")
    t, rounded = nearest(text, target, t)
    back = text.op(f"sitofp {ints} {rounded} to {floats}")
    if not fused(target):
        return rounded, text.op(f"fsub {floats} {t}, {back}")
    minus = text.op(f"fneg {floats} {back}")  # takes the product before it was rounded
    return rounded, text.op(f"call {floats} @llvm.fma.v{lanes}f32({floats} {u}, {floats} {scale}, {floats} {minus})")


def nearest(text: Text, target: Target, t: str) -> tuple[str, str]:
    """A vector of float32, perhaps clamped on the way, and its rounding to int32."""
    lanes = target.vector_bytes // 4
    floats, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    if target.architecture == "x86":
        arguments = f"{floats} {t}" + (f", {ints} zeroinitializer, i16 -1, i32 4" if lanes == 16 else "")
        rounded = text.op(f"call {ints} @llvm.x86.{_TO_INTS[lanes]}({arguments})")
    else:
        if target.architecture == "aarch64":
            even = text.op(f"call {floats} @llvm.roundeven.v{lanes}f32({floats} {t})")
        else:  # elsewhere, roundeven may be a library's function; adding this rounds to an integer, and clamped values saturate
            big, far = f"splat (float {real(1.5 * 2.0**23)})", real(2.0**21)
            t = bounded(text, floats, "olt", t, f"splat (float {far})")
            t = bounded(text, floats, "ogt", t, f"splat (float {real(-(2.0**21))})")
            even = text.op(f"fsub {floats} {text.op(f'fadd {floats} {t}, {big}')}, {big}")
        rounded = text.op(f"fptosi {floats} {even} to {ints}")
    return t, rounded


_TO_INTS = {16: "avx512.mask.cvtps2dq.512", 8: "avx.cvt.ps2dq.256", 4: "sse2.cvtps2dq"}


def largest(text: Text, target: Target, distances: list[str]) -> str:
    """The largest magnitude, lane by lane."""
    found = distances[0]
    for x in distances[1:]:
        found = _larger_magnitude(text, target, found, x)
    return found


def _larger_magnitude(text: Text, target: Target, x: str, y: str) -> str:
    lanes = target.vector_bytes // 4
    floats, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    if lanes == 16:
        name = "llvm.x86.avx512.mask.range.ps.512"
        return text.op(f"call {floats} @{name}({floats} {x}, {floats} {y}, i32 11, {floats} {x}, i16 -1, i32 4)")
    # magnitudes compare like the integers of their bits
    bits = [text.op(f"bitcast {floats} {v} to {ints}") for v in (x, y)]
    x, y = (text.op(f"bitcast {ints} {text.op(f'and {ints} {v}, splat (i32 {0x7FFFFFFF})')} to {floats}") for v in bits)
    return text.op(f"select <{lanes} x i1> {text.op(f'fcmp ogt {floats} {x}, {y}')}, {floats} {x}, {floats} {y}")


def any_not_below(text: Text, target: Target, x: str, threshold: str) -> str:
    """Whether some lane is the threshold or more."""
    lanes = target.vector_bytes // 4
    mask = text.op(f"fcmp oge <{lanes} x float> {x}, {threshold}")
    return text.op(f"icmp ne i{lanes} {text.op(f'bitcast <{lanes} x i1> {mask} to i{lanes}')}, 0")


def pack(text: Text, target: Target, signed: bool, vectors: list[str]) -> str:
    """Two vectors of int32 of each of one or two rows, saturated to bytes in order; the second half is the second row."""
    width = target.vector_bytes
    lanes = width // 4
    ints, bytes_ = f"<{lanes} x i32>", f"<{width} x i8>"
    v = vectors * (4 // len(vectors))
    if target.architecture != "x86":
        narrow = f"<{lanes} x i8>"
        few = [text.op(f"trunc {ints} {_clamp(text, ints, x, signed)} to {narrow}") for x in v]
        halves = [shuffle(text, few[i], few[i + 1], narrow, range(2 * lanes)) for i in (0, 2)]
        return shuffle(text, halves[0], halves[1], f"<{2 * lanes} x i8>", range(width))
    packed = saturated(text, target, signed, v)
    if width == 16:
        return packed
    # lane i has four bytes of each vector
    order = [4 * lane + v for v in range(4) for lane in range(width // 16)]
    words = text.op(f"bitcast {bytes_} {packed} to {ints}")
    return text.op(f"bitcast {ints} {shuffle(text, words, words, ints, order)} to {bytes_}")


def put(text: Text, target: Target, packed: str, rows: list[int], c: str, c_row: str, stored: Stored | None) -> None:
    """Store the bytes of one or two rows, packed by `pack`, at c. stored: stores a row if this takes more than one store."""
    width = target.vector_bytes
    for at, m in enumerate(rows):
        bytes_ = shuffle(text, packed, packed, f"<{width} x i8>", range(at * width // 2, (at + 1) * width // 2))
        place = along(text, c, c_row, str(m)) if m else c
        if stored is None:
            text.store(f"<{width // 2} x i8>", bytes_, place)
        else:
            stored(bytes_, place, m)


def saturated(text: Text, target: Target, signed: bool, vectors: list[str], added: str | None = None) -> str:
    """Four vectors of int32 as bytes: in each lane of 16 bytes, four of each vector. added: an int16 zero point, in vectors."""
    width = target.vector_bytes
    ints, shorts, bytes_ = f"<{width // 4} x i32>", f"<{width // 2} x i16>", f"<{width} x i8>"
    name, end = {64: ("avx512", ".512"), 32: ("avx2", ""), 16: ("sse2", ".128")}[width]
    low, high = (
        text.op(f"call {shorts} @llvm.x86.{name}.packssdw{end}({ints} {vectors[i]}, {ints} {vectors[i + 1]})") for i in (0, 2)
    )
    if added is not None:  # what saturates int16 also saturates bytes, for every zero point
        low, high = (
            text.op(f"call {shorts} @llvm.sadd.sat.v{width // 2}i16({shorts} {x}, {shorts} {added})") for x in (low, high)
        )
    how = "packsswb" if signed else "packuswb"
    return text.op(f"call {bytes_} @llvm.x86.{name}.{how}{end}({shorts} {low}, {shorts} {high})")


def _clamp(text: Text, kind: str, value: str, signed: bool) -> str:
    low, high = limits(signed)
    suffix = f"v{kind[1:-1].replace(' x ', '')}"
    value = text.op(f"call {kind} @llvm.smax.{suffix}({kind} {value}, {kind} splat (i32 {low}))")
    return text.op(f"call {kind} @llvm.smin.{suffix}({kind} {value}, {kind} splat (i32 {high}))")


def declarations(target: Target) -> list[str]:
    """The declarations of the LLVM intrinsics that the estimate calls."""
    lanes = target.vector_bytes // 4
    floats, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    made = [f"declare {floats} @llvm.fma.v{lanes}f32({floats}, {floats}, {floats})"]
    if target.architecture != "x86":
        made += [f"declare {ints} @llvm.{how}.v{lanes}i32({ints}, {ints})" for how in ("smax", "smin")]
        return [*made, f"declare {floats} @llvm.roundeven.v{lanes}f32({floats})"]
    shorts, bytes_ = f"<{2 * lanes} x i16>", f"<{4 * lanes} x i8>"
    name, end = {16: ("avx512", ".512"), 8: ("avx2", ""), 4: ("sse2", ".128")}[lanes]
    made.append(f"declare {shorts} @llvm.sadd.sat.v{2 * lanes}i16({shorts}, {shorts})")
    made.append(f"declare {ints} @llvm.x86.{_TO_INTS[lanes]}({floats}{f', {ints}, i16, i32' if lanes == 16 else ''})")
    made.append(f"declare {shorts} @llvm.x86.{name}.packssdw{end}({ints}, {ints})")
    made += [f"declare {bytes_} @llvm.x86.{name}.{how}{end}({shorts}, {shorts})" for how in ("packsswb", "packuswb")]
    if lanes == 16:
        made.append(f"declare {floats} @llvm.x86.avx512.mask.range.ps.512({floats}, {floats}, i32, {floats}, i16, i32)")
    return made
