"""The rule: q * AScale * BScale / OutputScale rounded half to even, exactly, in float64.

With p = AScale * BScale, exact in float64, and h a half-integer next to the quotient, one fused multiply-add q * p - h *
OutputScale is exactly zero at the tie, and has the sign of the distance elsewhere. The proof is in
docs/decisions/0005-exact-rounding-in-the-tile.md.
"""

from __future__ import annotations

from anydml.kernels.code.emit import Text, real, splat
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import dot_of

# The record of a row and the offsets of its fields: int32 or float32 and, for the rule, float64. Two fields are stored twice,
# one for each vector of a row: a value that is used once can stay in memory as an operand, and takes no register.
ROW = 64
TERM, A_ZERO_POINT = 0, 4
ESTIMATE, ZERO_POINT = (8, 12), (16, 20)
BIAS = 20  # in the place of the second zero point
ABOUT, A_SCALE, OUTPUT_SCALE, LOW, HIGH = 24, 32, 40, 48, 56
# 2^299: makes every scale, and every product of two, an integer far from the ends of float64's range
SCALED = "0x52A0000000000000"


def fused(target: Target) -> bool:
    """Whether there is a fused multiply-add; without one, LLVM would call a library for it."""
    return "fma" in target.features or target.architecture == "aarch64"


def limits(signed: bool) -> tuple[int, int]:
    return (-128, 127) if signed else (0, 255)


def rule_of_row(text: Text, signed: bool, a_scale: str, output_scale: str, zero_point: str, record: str) -> None:
    """Store the fields of a row's record that the rule reads; float32 scales, int32 zero point."""
    a, y = (text.op(f"fpext float {x} to double") for x in (a_scale, output_scale))
    text.store("double", text.op(f"fdiv double {a}, {y}"), record, ABOUT)
    # scaled to integers; AScale takes the signs of both scales
    negative = text.op(f"fcmp olt double {y}, 0.0")
    for x, field in ((a, A_SCALE), (y, OUTPUT_SCALE)):
        scaled = text.op(f"fmul double {x}, {SCALED}")
        negated = text.op(f"fneg double {scaled}")
        text.store("double", text.op(f"select i1 {negative}, double {negated}, double {scaled}"), record, field)
    for bound, field in zip(limits(signed), (LOW, HIGH), strict=True):
        text.store("double", text.op(f"sitofp i32 {text.op(f'sub i32 {bound}, {zero_point}')} to double"), record, field)


def functions(
    target: Target, signed: bool, *, wide: bool = False, biased: bool = False, bias_at: int | None = None
) -> list[str]:
    """The function `void rule(sums, row record, BScale of the panel's columns, output)`, which decides one row of a tile.

    wide: int64 sums. biased: the record has a bias, which is added to the sums. bias_at: the offset of the columns' biases from
    BScale, if columns have them.
    """
    dot, lanes = dot_of(target), target.vector_bytes // 8
    columns = dot.vectors * target.vector_bytes // 4
    doubles, floats, longs, ints = (f"<{lanes} x {x}>" for x in ("double", "float", "i64", "i32"))
    text = Text()
    about, a, y, low, high = (
        splat(text, text.load("double", "%row", at), doubles) for at in (ABOUT, A_SCALE, OUTPUT_SCALE, LOW, HIGH)
    )
    offset = splat(text, text.op(f"sext i32 {text.load('i32', '%row', ZERO_POINT[0])} to i64"), longs)
    bias = splat(text, text.op(f"sitofp i32 {text.load('i32', '%row', BIAS)} to double"), doubles) if biased else ""
    for at in range(0, columns, lanes):
        whole, size = (longs, 8) if wide else (ints, 4)
        q = text.op(f"sitofp {whole} {text.load(whole, '%sums', size * at)} to {doubles}")
        if biased:
            q = text.op(f"fadd {doubles} {q}, {bias}")
        if bias_at is not None:
            more = text.op(f"sitofp {ints} {text.load(ints, '%scale', bias_at + 4 * at)} to {doubles}")
            q = text.op(f"fadd {doubles} {q}, {more}")
        b = text.op(f"fpext {floats} {text.load(floats, '%scale', 4 * at)} to {doubles}")
        t = text.op(f"fmul {doubles} {text.op(f'fmul {doubles} {q}, {b}')}, {about}")
        h = text.op(f"fadd {doubles} {_floor(text, target, doubles, t)}, splat (double 5.000000e-01)")
        g = text.op(f"fmul {doubles} {h}, {y}")
        p = text.op(f"fmul {doubles} {b}, {a}")
        # e is an integer: a quarter with its sign, or 0, decides between the neighbours
        e = _quarter(text, doubles, _product_less(text, target, doubles, q, p, g))
        r = bounded(text, doubles, "ogt", bounded(text, doubles, "olt", text.op(f"fadd {doubles} {h}, {e}"), high), low)
        r = text.op(f"fadd {doubles} {r}, splat (double {real(1.5 * 2.0**52)})")  # rounds; the result is in the low bits
        n = text.op(f"add {longs} {text.op(f'bitcast {doubles} {r} to {longs}')}, {offset}")
        text.store(f"<{lanes} x i8>", text.op(f"trunc {longs} {n} to <{lanes} x i8>"), "%into", at)
    text.do("ret void")
    head = "define internal void @rule(ptr %sums, ptr %row, ptr %scale, ptr noalias %into) {"
    declarations = [
        f"declare {doubles} @llvm.floor.v{lanes}f64({doubles})",
        f"declare {doubles} @llvm.fma.v{lanes}f64({doubles}, {doubles}, {doubles})",
        f"declare {doubles} @llvm.x86.avx512.mask.range.pd.512({doubles}, {doubles}, i32, {doubles}, i8, i32)",
    ]
    return [*declarations[: 3 if lanes == 8 else 2], head, "entry:", *text.lines, "}"]


def bounded(text: Text, kind: str, comparison: str, value: str, bound: str) -> str:
    """The value if the comparison with the bound holds, else the bound: one instruction."""
    count = kind[1:-1].split(" x ")[0]
    return text.op(
        f"select <{count} x i1> {text.op(f'fcmp {comparison} {kind} {value}, {bound}')}, {kind} {value}, {kind} {bound}"
    )


def _quarter(text: Text, kind: str, value: str) -> str:
    """1/4 with the sign of an integer; 0 for 0."""
    if kind == "<8 x double>":
        arguments = f"{kind} {value}, {kind} splat (double 2.500000e-01), i32 2, {kind} {value}, i8 -1, i32 4"
        return text.op(f"call {kind} @llvm.x86.avx512.mask.range.pd.512({arguments})")
    value = bounded(text, kind, "olt", value, "splat (double 2.500000e-01)")
    return bounded(text, kind, "ogt", value, "splat (double -2.500000e-01)")


def _product_less(text: Text, target: Target, kind: str, q: str, p: str, g: str) -> str:
    """q * p - g with the sign of the exact number, and 0 only if that is 0."""
    count = kind[1:-1].split(" x ")[0]
    if fused(target):
        minus = text.op(f"fneg {kind} {g}")
        return text.op(f"call {kind} @llvm.fma.v{count}f64({kind} {q}, {kind} {p}, {kind} {minus})")

    def halves(x: str) -> tuple[str, str]:  # Veltkamp: two parts of 26 bits
        scaled = text.op(f"fmul {kind} {x}, splat (double {real(2.0**27 + 1)})")
        high = text.op(f"fsub {kind} {scaled}, {text.op(f'fsub {kind} {scaled}, {x}')}")
        return high, text.op(f"fsub {kind} {x}, {high}")

    # Dekker: the product and its rounding error
    (q1, q0), (p1, p0) = halves(q), halves(p)
    product = text.op(f"fmul {kind} {q}, {p}")
    lost = text.op(f"fsub {kind} {text.op(f'fmul {kind} {q1}, {p1}')}, {product}")
    for x, y in ((q1, p0), (q0, p1), (q0, p0)):
        lost = text.op(f"fadd {kind} {lost}, {text.op(f'fmul {kind} {x}, {y}')}")
    return text.op(f"fadd {kind} {text.op(f'fsub {kind} {product}, {g}')}, {lost}")


def _floor(text: Text, target: Target, kind: str, value: str) -> str:
    """The floor of magnitudes up to 2^51."""
    count = kind[1:-1].split(" x ")[0]
    if "sse4.1" in target.features or target.architecture == "aarch64":
        return text.op(f"call {kind} @llvm.floor.v{count}f64({kind} {value})")
    big = f"splat (double {real(1.5 * 2.0**52)})"  # adding it rounds to an integer
    near = text.op(f"fsub {kind} {text.op(f'fadd {kind} {value}, {big}')}, {big}")
    above = text.op(f"fcmp ogt {kind} {near}, {value}")
    one = text.op(f"select <{count} x i1> {above}, {kind} splat (double 1.0), {kind} zeroinitializer")
    return text.op(f"fsub {kind} {near}, {one}")
