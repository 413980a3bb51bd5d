"""From int32 sums to 8-bit outputs: q * AScale * BScale / OutputScale rounded once, half to even, and saturated.

Two ways, both exact; why they are is written in docs/decisions/0005-exact-rounding-in-the-tile.md.
The estimate: t = q * fl(AScale / OutputScale) * BScale in float32 is off by less than 2^-14 wherever the output does not
saturate, so that rint(t) is the result unless t lies that near to a half-integer. Rows of the tile in which it does wait
in a buffer for the rule.
The rule: with p = AScale * BScale, exact in float64, and h a half-integer next to the quotient, one fused multiply-add of
q * p - h * OutputScale is zero exactly at the tie, and has the sign of the distance elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.cpu.jit.emit import Text, real, shuffle, splat
from anydml.kernels.cpu.jit.targets import Target
from anydml.kernels.cpu.matmul_dot import dot_of

# The record of a row and where its fields are: int32 or float32 and, for the rule, float64. Two are there twice, once for
# each vector of a row: a value that is needed once stays in memory as an operand, another takes a register that is not free.
ROW = 64
TERM, A_ZERO_POINT = 0, 4
ESTIMATE, ZERO_POINT = (8, 12), (16, 20)
ABOUT, A_SCALE, OUTPUT_SCALE, LOW, HIGH = 24, 32, 40, 48, 56
SCALED = "0x52A0000000000000"  # 2^299: every scale and product of two becomes an integer, all far from float64's ends


def fused(target: Target) -> bool:
    """Whether there is a fused multiply-add; where there is none, asking LLVM for it would call a library."""
    return "fma" in target.features or target.architecture == "aarch64"


def undecided(target: Target) -> float:
    """An estimate that lies no nearer than this to an integer is left to the rule."""
    return 0.5 - (2.0**-14 if fused(target) else 2.0**-13)


class Slots(NamedTuple):
    """What a tile keeps on the stack: sums that wait for the rule, the rows they are of, and counts of rows."""

    sums: str
    rows: str
    always: str
    redone: str
    tiles: str


def slots(text: Text, target: Target, height: int) -> Slots:
    dot = dot_of(target)
    sums = text.op(f"alloca [{height * dot.vectors * target.vector_bytes} x i8], align {target.vector_bytes}")
    rows, always, redone, tiles = (text.op(f"alloca {x}, align 8") for x in (f"[{height} x i64]", "i64", "i64", "i64"))
    wanted = text.op(f"zext i32 {text.load('i32', '%modes', 4)} to i64")
    text.do(f"store i64 {wanted}, ptr {always}, align 8")
    for count in (redone, tiles):
        text.do(f"store i64 0, ptr {count}, align 8")
    return Slots(sums, rows, always, redone, tiles)


def epilogue(
    text: Text, target: Target, signed: bool, sums: list[list[str]], slots: Slots, row: str, column: str, c: str, c_row: str
) -> None:
    """Round a tile's sums and store them at c."""
    dot, width = dot_of(target), target.vector_bytes
    height, row_bytes = len(sums), dot.vectors * width
    decide, guess, judge, redo, done = (text.name(x) for x in ("decide", "guess", "judge", "redo", "rounded"))

    def keep(m: int, place: str) -> None:
        for n, value in enumerate(sums[m]):
            text.do(f"store <{width // 4} x i32> {value}, ptr {text.at(place, n * width)}, align {width}")

    tiles = text.op(f"add i64 {text.op(f'load i64, ptr {slots.tiles}, align 8')}, 1")
    text.do(f"store i64 {tiles}, ptr {slots.tiles}, align 8")
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
                factor = splat(text, text.load("float", row, ROW * m + ESTIMATE[n % 2]), f"<{width // 4} x float>")
                zero_point = splat(text, text.load("i32", row, ROW * m + ZERO_POINT[n % 2]), f"<{width // 4} x i32>")
                rounded, distance = _guess(text, target, value, factor, scales[n])
                outputs.append(text.op(f"add <{width // 4} x i32> {rounded}, {zero_point}"))
                distances.append(distance)
        packed = _pack(text, target, signed, outputs)
        half = f"<{row_bytes // 4} x i8>"
        for at, m in enumerate(pair):
            bytes_ = shuffle(text, packed, packed, f"<{width} x i8>", range(at * row_bytes // 4, (at + 1) * row_bytes // 4))
            text.store(half, bytes_, c, text.op(f"mul i64 {c_row}, {m}") if m else 0)
        largest = distances[0]
        for x in distances[1:]:
            largest = _larger_magnitude(text, target, largest, x)
        near = _any_not_below(text, target, largest, threshold)
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

    text.label(judge)  # where every other row has to be redone, the estimate is given up for the rest of the call
    redone = text.op(f"add i64 {text.op(f'load i64, ptr {slots.redone}, align 8')}, {waiting}")
    text.do(f"store i64 {redone}, ptr {slots.redone}, align 8")
    rows_done = text.op(f"mul i64 {text.op(f'add i64 {tiles}, 8')}, {height}")  # a few tiles are no evidence
    many = text.op(f"icmp ugt i64 {text.op(f'mul i64 {redone}, 2')}, {rows_done}")
    text.do(f"store i64 {text.op(f'zext i1 {many} to i64')}, ptr {slots.always}, align 8")
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
    record = text.at(row, text.op(f"mul i64 {which}, {ROW}"))
    into = text.at(c, text.op(f"mul i64 {which}, {c_row}"))
    scale = text.at(column, row_bytes)
    text.do(f"call void @rule(ptr {from_}, ptr {record}, ptr {scale}, ptr {into})")
    text.do(f"%{j} = add i64 %{i}, 1")
    text.branch(text.op(f"icmp ult i64 %{j}, %{count}"), loop, done)
    text.label(done)


def _guess(text: Text, target: Target, sums: str, factor: str, scale: str) -> tuple[str, str]:
    """The estimate rounded to int32, and how far it lies from that, with a sign."""
    lanes = target.vector_bytes // 4
    floats, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    u = text.op(f"fmul {floats} {text.op(f'sitofp {ints} {sums} to {floats}')}, {factor}")
    t = text.op(f"fmul {floats} {u}, {scale}")
    if target.architecture == "x86":
        arguments = f"{floats} {t}" + (f", {ints} zeroinitializer, i16 -1, i32 4" if lanes == 16 else "")
        rounded = text.op(f"call {ints} @llvm.x86.{_TO_INTS[lanes]}({arguments})")
    else:
        if target.architecture == "aarch64":
            even = text.op(f"call {floats} @llvm.roundeven.v{lanes}f32({floats} {t})")
        else:  # elsewhere that may be a function of a library; adding this rounds to an integer, and what is cut off saturates
            big, far = f"splat (float {real(1.5 * 2.0**23)})", real(2.0**21)
            t = _less(text, floats, "olt", t, f"splat (float {far})")
            t = _less(text, floats, "ogt", t, f"splat (float {real(-(2.0**21))})")
            even = text.op(f"fsub {floats} {text.op(f'fadd {floats} {t}, {big}')}, {big}")
        rounded = text.op(f"fptosi {floats} {even} to {ints}")
    back = text.op(f"sitofp {ints} {rounded} to {floats}")
    if not fused(target):
        return rounded, text.op(f"fsub {floats} {t}, {back}")
    minus = text.op(f"fneg {floats} {back}")  # and the product before it was rounded
    return rounded, text.op(f"call {floats} @llvm.fma.v{lanes}f32({floats} {u}, {floats} {scale}, {floats} {minus})")


_TO_INTS = {16: "avx512.mask.cvtps2dq.512", 8: "avx.cvt.ps2dq.256", 4: "sse2.cvtps2dq"}


def _larger_magnitude(text: Text, target: Target, x: str, y: str) -> str:
    lanes = target.vector_bytes // 4
    floats, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    if lanes == 16:
        name = "llvm.x86.avx512.mask.range.ps.512"
        return text.op(f"call {floats} @{name}({floats} {x}, {floats} {y}, i32 11, {floats} {x}, i16 -1, i32 4)")
    # magnitudes compare as the integers that their bits are
    bits = [text.op(f"bitcast {floats} {v} to {ints}") for v in (x, y)]
    x, y = (text.op(f"bitcast {ints} {text.op(f'and {ints} {v}, splat (i32 {0x7FFFFFFF})')} to {floats}") for v in bits)
    return text.op(f"select <{lanes} x i1> {text.op(f'fcmp ogt {floats} {x}, {y}')}, {floats} {x}, {floats} {y}")


def _any_not_below(text: Text, target: Target, x: str, threshold: str) -> str:
    lanes = target.vector_bytes // 4
    mask = text.op(f"fcmp oge <{lanes} x float> {x}, {threshold}")
    return text.op(f"icmp ne i{lanes} {text.op(f'bitcast <{lanes} x i1> {mask} to i{lanes}')}, 0")


def _pack(text: Text, target: Target, signed: bool, vectors: list[str]) -> str:
    """Two vectors of int32 of each of one or two rows, saturated to bytes in order; the second half is the second row."""
    width = target.vector_bytes
    lanes = width // 4
    ints, shorts, bytes_ = f"<{lanes} x i32>", f"<{2 * lanes} x i16>", f"<{width} x i8>"
    v = vectors * (4 // len(vectors))
    if target.architecture != "x86":
        narrow = f"<{lanes} x i8>"
        few = [text.op(f"trunc {ints} {_clamp(text, ints, x, signed)} to {narrow}") for x in v]
        halves = [shuffle(text, few[i], few[i + 1], narrow, range(2 * lanes)) for i in (0, 2)]
        return shuffle(text, halves[0], halves[1], f"<{2 * lanes} x i8>", range(width))
    name, end = {64: ("avx512", ".512"), 32: ("avx2", ""), 16: ("sse2", ".128")}[width]
    low, high = (text.op(f"call {shorts} @llvm.x86.{name}.packssdw{end}({ints} {v[i]}, {ints} {v[i + 1]})") for i in (0, 2))
    how = "packsswb" if signed else "packuswb"
    packed = text.op(f"call {bytes_} @llvm.x86.{name}.{how}{end}({shorts} {low}, {shorts} {high})")
    if width == 16:
        return packed
    # lane i holds four bytes of each vector
    order = [4 * lane + v for v in range(4) for lane in range(width // 16)]
    words = text.op(f"bitcast {bytes_} {packed} to {ints}")
    return text.op(f"bitcast {ints} {shuffle(text, words, words, ints, order)} to {bytes_}")


def _limits(signed: bool) -> tuple[int, int]:
    return (-128, 127) if signed else (0, 255)


def _clamp(text: Text, kind: str, value: str, signed: bool) -> str:
    low, high = _limits(signed)
    suffix = f"v{kind[1:-1].replace(' x ', '')}"
    value = text.op(f"call {kind} @llvm.smax.{suffix}({kind} {value}, {kind} splat (i32 {low}))")
    return text.op(f"call {kind} @llvm.smin.{suffix}({kind} {value}, {kind} splat (i32 {high}))")


def _declarations(target: Target) -> list[str]:
    lanes = target.vector_bytes // 4
    made = []
    for n in dict.fromkeys((lanes, lanes // 2)):
        made += [f"declare <{n} x i32> @llvm.{how}.v{n}i32(<{n} x i32>, <{n} x i32>)" for how in ("smax", "smin")]
    doubles = f"<{lanes // 2} x double>"
    made.append(f"declare {doubles} @llvm.floor.v{lanes // 2}f64({doubles})")
    floats, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    for kind, suffix in ((floats, f"v{lanes}f32"), (doubles, f"v{lanes // 2}f64")):
        made.append(f"declare {kind} @llvm.fma.{suffix}({kind}, {kind}, {kind})")
    if target.architecture != "x86":
        return [*made, f"declare {floats} @llvm.roundeven.v{lanes}f32({floats})"]
    shorts, bytes_ = f"<{2 * lanes} x i16>", f"<{4 * lanes} x i8>"
    name, end = {16: ("avx512", ".512"), 8: ("avx2", ""), 4: ("sse2", ".128")}[lanes]
    made.append(f"declare {ints} @llvm.x86.{_TO_INTS[lanes]}({floats}{f', {ints}, i16, i32' if lanes == 16 else ''})")
    made.append(f"declare {shorts} @llvm.x86.{name}.packssdw{end}({ints}, {ints})")
    made += [f"declare {bytes_} @llvm.x86.{name}.{how}{end}({shorts}, {shorts})" for how in ("packsswb", "packuswb")]
    if lanes == 16:
        made.append(f"declare {doubles} @llvm.x86.avx512.mask.range.pd.512({doubles}, {doubles}, i32, {doubles}, i8, i32)")
        made.append(f"declare {floats} @llvm.x86.avx512.mask.range.ps.512({floats}, {floats}, i32, {floats}, i16, i32)")
    return made


def rule_of_row(text: Text, signed: bool, a_scale: str, output_scale: str, zero_point: str, record: str) -> None:
    """The fields of a row's record that the rule reads; float32 scales, int32 zero point."""
    a, y = (text.op(f"fpext float {x} to double") for x in (a_scale, output_scale))
    text.store("double", text.op(f"fdiv double {a}, {y}"), record, ABOUT)
    # scaled to integers; the signs of both scales move to AScale
    negative = text.op(f"fcmp olt double {y}, 0.0")
    for x, field in ((a, A_SCALE), (y, OUTPUT_SCALE)):
        scaled = text.op(f"fmul double {x}, {SCALED}")
        turned = text.op(f"fneg double {scaled}")
        text.store("double", text.op(f"select i1 {negative}, double {turned}, double {scaled}"), record, field)
    for bound, field in zip(_limits(signed), (LOW, HIGH), strict=True):
        text.store("double", text.op(f"sitofp i32 {text.op(f'sub i32 {bound}, {zero_point}')} to double"), record, field)


def functions(target: Target, signed: bool, *, wide: bool = False) -> list[str]:
    """`void rule(sums, row record, BScale of the panel's columns, output)`: one row of a tile by the rule; wide: int64 sums."""
    dot, lanes = dot_of(target), target.vector_bytes // 8
    columns = dot.vectors * target.vector_bytes // 4
    doubles, floats, longs, ints = (f"<{lanes} x {x}>" for x in ("double", "float", "i64", "i32"))
    text = Text()
    about, a, y, low, high = (
        splat(text, text.load("double", "%row", at), doubles) for at in (ABOUT, A_SCALE, OUTPUT_SCALE, LOW, HIGH)
    )
    offset = splat(text, text.op(f"sext i32 {text.load('i32', '%row', ZERO_POINT[0])} to i64"), longs)
    for at in range(0, columns, lanes):
        whole, size = (longs, 8) if wide else (ints, 4)
        q = text.op(f"sitofp {whole} {text.load(whole, '%sums', size * at)} to {doubles}")
        b = text.op(f"fpext {floats} {text.load(floats, '%scale', 4 * at)} to {doubles}")
        t = text.op(f"fmul {doubles} {text.op(f'fmul {doubles} {q}, {b}')}, {about}")
        h = text.op(f"fadd {doubles} {_floor(text, target, doubles, t)}, splat (double 5.000000e-01)")
        g = text.op(f"fmul {doubles} {h}, {y}")
        p = text.op(f"fmul {doubles} {b}, {a}")
        # an integer: a quarter with its sign, or nothing, decides between the neighbours
        e = _quarter(text, doubles, _product_less(text, target, doubles, q, p, g))
        r = _less(text, doubles, "ogt", _less(text, doubles, "olt", text.op(f"fadd {doubles} {h}, {e}"), high), low)
        r = text.op(f"fadd {doubles} {r}, splat (double {real(1.5 * 2.0**52)})")  # rounds, to the low bits
        n = text.op(f"add {longs} {text.op(f'bitcast {doubles} {r} to {longs}')}, {offset}")
        text.store(f"<{lanes} x i8>", text.op(f"trunc {longs} {n} to <{lanes} x i8>"), "%into", at)
    text.do("ret void")
    head = "define internal void @rule(ptr %sums, ptr %row, ptr %scale, ptr noalias %into) {"
    return [*_declarations(target), head, "entry:", *text.lines, "}"]


def _less(text: Text, kind: str, comparison: str, value: str, bound: str) -> str:
    """The value where it compares so with the bound, else the bound: one instruction."""
    count = kind[1:-1].split(" x ")[0]
    return text.op(
        f"select <{count} x i1> {text.op(f'fcmp {comparison} {kind} {value}, {bound}')}, {kind} {value}, {kind} {bound}"
    )


def _quarter(text: Text, kind: str, value: str) -> str:
    """1/4 with the sign of an integer, or 0."""
    if kind == "<8 x double>":
        arguments = f"{kind} {value}, {kind} splat (double 2.500000e-01), i32 2, {kind} {value}, i8 -1, i32 4"
        return text.op(f"call {kind} @llvm.x86.avx512.mask.range.pd.512({arguments})")
    value = _less(text, kind, "olt", value, "splat (double 2.500000e-01)")
    return _less(text, kind, "ogt", value, "splat (double -2.500000e-01)")


def _product_less(text: Text, target: Target, kind: str, q: str, p: str, g: str) -> str:
    """q * p - g with the sign and the zero of the exact number."""
    count = kind[1:-1].split(" x ")[0]
    if fused(target):
        minus = text.op(f"fneg {kind} {g}")
        return text.op(f"call {kind} @llvm.fma.v{count}f64({kind} {q}, {kind} {p}, {kind} {minus})")

    def halves(x: str) -> tuple[str, str]:  # Veltkamp: two parts of 26 bits
        scaled = text.op(f"fmul {kind} {x}, splat (double {real(2.0**27 + 1)})")
        high = text.op(f"fsub {kind} {scaled}, {text.op(f'fsub {kind} {scaled}, {x}')}")
        return high, text.op(f"fsub {kind} {x}, {high}")

    # Dekker: the product and what its rounding lost
    (q1, q0), (p1, p0) = halves(q), halves(p)
    product = text.op(f"fmul {kind} {q}, {p}")
    lost = text.op(f"fsub {kind} {text.op(f'fmul {kind} {q1}, {p1}')}, {product}")
    for x, y in ((q1, p0), (q0, p1), (q0, p0)):
        lost = text.op(f"fadd {kind} {lost}, {text.op(f'fmul {kind} {x}, {y}')}")
    return text.op(f"fadd {kind} {text.op(f'fsub {kind} {product}, {g}')}, {lost}")


def _floor(text: Text, target: Target, kind: str, value: str) -> str:
    """Of magnitudes up to 2^51."""
    count = kind[1:-1].split(" x ")[0]
    if "sse4.1" in target.features or target.architecture == "aarch64":
        return text.op(f"call {kind} @llvm.floor.v{count}f64({kind} {value})")
    big = f"splat (double {real(1.5 * 2.0**52)})"  # adding it rounds to an integer
    near = text.op(f"fsub {kind} {text.op(f'fadd {kind} {value}, {big}')}, {big}")
    above = text.op(f"fcmp ogt {kind} {near}, {value}")
    one = text.op(f"select <{count} x i1> {above}, {kind} splat (double 1.0), {kind} zeroinitializer")
    return text.op(f"fsub {kind} {near}, {one}")
