"""The estimate of outputs from int32 sums: outputs are stored, and those whose estimate is not certain are also listed."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, fold, kernel, real, shuffle, splat, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body
from anydml.kernels.contract.epilogue.estimates import list_of
from anydml.kernels.contract.epilogue.rule import bounded, fused
from anydml.kernels.undecided.lists import each_bit

ESTIMATE = Signature("*sums *output rows columns first channel channels *table *state low high zero *other factor")
SIDE = 4  # vectors that are computed together
MAGIC = 1.5 * 2.0**23  # adding it rounds to an integer, which is then in the low bits
MAGIC_BITS = 0x4B400000
FACTOR, TERM, LIMIT = 0, 1, 2  # the rows of the table


def estimate(target: Target, by_column: bool, other: str = "") -> str:
    """The kernel that makes bytes of `rows` rows of sums, each with `columns` columns. Arguments: ESTIMATE.

    first: the number of the first element. channel: of the first row; rows have the `channels` channels in turn. table: three
    rows of numbers by channel, as in `bounds.EstimateNumbers`, padded by a whole step of vectors. low, high: float32 limits of
    estimates; zero: an int32 that is added to them. state: of the list. by_column: columns are channels.
    other: "u8" or "i8" if elements of these bytes, times a factor, are added.
    """
    lanes = target.vector_bytes // 4
    step, floats, ints = SIDE * lanes, f"<{lanes} x float>", f"<{lanes} x i32>"
    text = Body(target)
    ESTIMATE.load(text)
    spare = text.op(f"alloca [{step} x i8], align 64")
    noted = list_of(text, "%state")
    low, high, more = (
        splat(text, text.op(f"bitcast i32 {text.op(f'trunc i64 %{name} to i32')} to float"), floats)
        for name in ("low", "high", "factor")
    )
    zero = splat(text, text.op(f"sub i32 {text.op('trunc i64 %zero to i32')}, {MAGIC_BITS}"), ints)
    magic = f"splat (float {real(MAGIC)})"
    width = text.op(f"add i64 %channels, {step}")

    def numbers(at: str) -> list[str]:
        """The addresses of the factor, term and limit of a channel."""
        found = []
        for row in (FACTOR, TERM, LIMIT):
            before = text.op(f"mul i64 {width}, {row}")
            found.append(text.at("%table", text.op(f"mul i64 {text.op(f'add i64 {before}, {at}')}, 4")))
        return found

    def row(r: str, carried: list[str]) -> list[str]:
        (channel,) = carried
        first = text.op(f"mul i64 {r}, %columns")
        splats = [] if by_column else [splat(text, text.load("float", place), floats) for place in numbers(channel)]

        def some(p: str, most: str | None) -> None:
            """Compute a step of vectors; most: the number of elements, if they are fewer."""
            at = text.op(f"add i64 {first}, {p}")
            sums = text.at("%sums", text.op(f"mul i64 {at}, 4"))
            places = numbers(p) if by_column else []
            beside = _beside(text, at, step, most, spare) if other else ""
            found, masks = [], []
            for n in range(SIDE):
                factor, term, limit = splats or [text.load(floats, place, n * target.vector_bytes) for place in places]
                s = text.op(f"sitofp {ints} {text.load(ints, sums, n * target.vector_bytes)} to {floats}")
                v = _multiplied(text, target, s, factor, term)
                if other:
                    bytes_ = text.load(f"<{lanes} x i8>", beside, n * lanes)
                    wide = text.op(f"{'s' if other == 'i8' else 'z'}ext <{lanes} x i8> {bytes_} to {ints}")
                    v = _multiplied(text, target, text.op(f"sitofp {ints} {wide} to {floats}"), more, v)
                v = bounded(text, floats, "olt", bounded(text, floats, "ogt", v, low), high)
                large = text.op(f"fadd {floats} {v}, {magic}")
                d = text.op(f"fsub {floats} {v}, {text.op(f'fsub {floats} {large}, {magic}')}")
                d = text.op(f"call {floats} @llvm.fabs.v{lanes}f32({floats} {d})")
                masks.append(text.op(f"fcmp oge {floats} {d}, {limit}"))
                found.append(text.op(f"add {ints} {text.op(f'bitcast {floats} {large} to {ints}')}, {zero}"))
            bytes_ = _bytes(text, target, found)
            if most is None:
                text.store(f"<{step} x i8>", bytes_, text.at("%output", at))
            else:
                text.store(f"<{step} x i8>", bytes_, spare)
                _copied(text, spare, text.at("%output", at), most, step)
            some_undecided = masks[0]
            for mask in masks[1:]:
                some_undecided = text.op(f"or <{lanes} x i1> {some_undecided}, {mask}")
            bits = text.op(f"bitcast <{lanes} x i1> {some_undecided} to i{lanes}")
            _seldom(text, text.op(f"icmp ne i{lanes} {bits}, 0"), lambda: listed(at, masks, most))

        def listed(at: str, masks: list[str], most: str | None) -> None:
            """List the numbers of the elements whose masks are set."""
            whole = masks
            while len(whole) > 1:
                size = SIDE // len(whole) * lanes
                whole = [
                    shuffle(text, *pair, f"<{size} x i1>", range(2 * size))
                    for pair in zip(whole[::2], whole[1::2], strict=True)
                ]
            bits = text.op(f"bitcast <{step} x i1> {whole[0]} to i{step}")
            bits = bits if step == 64 else text.op(f"zext i{step} {bits} to i64")
            if most is not None:  # fewer than the bits of a word
                beyond = text.op(f"shl i64 1, {most}")
                bits = text.op(f"and i64 {bits}, {text.op(f'sub i64 {beyond}, 1')}")
            first = text.op(f"add i64 {at}, %first")
            each_bit(text, bits, lambda k: noted(text.op(f"add i64 {first}, {k}")))

        def all_of(p: str, _: list[str]) -> list[str]:
            some(p, None)
            return []

        end, _ = fold(text, "0", "%columns", step, [], all_of)
        rest = text.op(f"sub i64 %columns, {end}")
        when(text, text.op(f"icmp ne i64 {rest}, 0"), lambda: some(end, rest))
        following = text.op(f"add i64 {channel}, 1")
        return [text.op(f"select i1 {text.op(f'icmp eq i64 {following}, %channels')}, i64 0, i64 {following}")]

    fold(text, "0", "%rows", 1, [("i64", "%channel")], row)
    text.do("ret i64 0")
    return kernel(
        text,
        [
            f"declare {floats} @llvm.fabs.v{lanes}f32({floats})",
            f"declare {floats} @llvm.fma.v{lanes}f32({floats}, {floats}, {floats})",
            *text.declared,
        ],
    )


def _multiplied(text: Text, target: Target, x: str, y: str, z: str) -> str:
    """x * y + z."""
    lanes = target.vector_bytes // 4
    floats = f"<{lanes} x float>"
    if fused(target):
        return text.op(f"call {floats} @llvm.fma.v{lanes}f32({floats} {x}, {floats} {y}, {floats} {z})")
    return text.op(f"fadd {floats} {text.op(f'fmul {floats} {x}, {y}')}, {z}")


def _beside(text: Text, at: str, step: int, most: str | None, spare: str) -> str:
    """The address of the bytes of `other` for a step: their own, or spare memory with a copy if they are fewer."""
    here = text.at("%other", at)
    if most is None:
        return here
    _copied(text, here, spare, most, step)
    return spare


def _copied(text: Text, from_: str, to: str, count: str, below: int) -> None:
    """Copy `count` bytes; `below`: a power of two above the count, whose halves are copied in turn."""
    at, size = "0", below // 2
    while size:
        kind, rest = f"<{size} x i8>", text.op(f"and i64 {count}, {size}")

        def some(at: str = at, kind: str = kind) -> None:
            text.store(kind, text.load(kind, from_, at), text.at(to, at))

        when(text, text.op(f"icmp ne i64 {rest}, 0"), some)
        at, size = text.op(f"add i64 {at}, {rest}"), size // 2


def _bytes(text: Text, target: Target, vectors: list[str]) -> str:
    """Four vectors of int32, each within a byte, as bytes in order."""
    lanes = target.vector_bytes // 4
    whole = vectors
    kind = f"<{lanes} x i32>"
    if target.architecture == "x86":  # their low bytes are packed, so that nothing saturates
        return _packed(text, target, vectors)
    few = [text.op(f"trunc {kind} {v} to <{lanes} x i8>") for v in whole]
    while len(few) > 1:
        size = SIDE // len(few) * lanes
        few = [shuffle(text, *pair, f"<{size} x i8>", range(2 * size)) for pair in zip(few[::2], few[1::2], strict=True)]
    return few[0]


def _packed(text: Text, target: Target, vectors: list[str]) -> str:
    lanes = target.vector_bytes // 4
    ints, wide = f"<{lanes} x i32>", target.vector_bytes
    name, end = {64: ("avx512", ".512"), 32: ("avx2", ""), 16: ("sse2", ".128")}[wide]
    vectors = [text.op(f"and {ints} {v}, splat (i32 255)") for v in vectors]
    shorts = f"<{wide // 2} x i16>"
    pairs = [
        text.op(f"call {shorts} @llvm.x86.{name}.packssdw{end}({ints} {vectors[i]}, {ints} {vectors[i + 1]})") for i in (0, 2)
    ]
    bytes_ = text.op(f"call <{wide} x i8> @llvm.x86.{name}.packuswb{end}({shorts} {pairs[0]}, {shorts} {pairs[1]})")
    if wide == 16:
        return bytes_
    words = text.op(f"bitcast <{wide} x i8> {bytes_} to {ints}")
    order = [4 * lane + v for v in range(4) for lane in range(wide // 16)]
    return text.op(f"bitcast {ints} {shuffle(text, words, words, ints, order)} to <{wide} x i8>")


def _seldom(text: Text, condition: str, body: Callable[[], None]) -> None:
    yes, after = text.name("yes"), text.name("after")
    text.branch(condition, yes, after, seldom=True)
    text.label(yes)
    body()
    text.jump(after)
    text.label(after)
