"""The epilogue's parameters, which a tile reads beside A and B: the records of rows and of columns, and modes of rounding.

q = sum (a - za)(b' - zb'), with b' as the tile reads it and zb' shifted in the same way, so with X = K zb' - (sum of b' in the
column)

    q = (sum a b') - (sum a) zb' + za X

which adds a term for the row and a term for the column or, if zero points differ by row or by column, two products. All sums
are taken modulo 2^32.
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, extend, fold, kernel, real, splat, when
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import dot_of, shift_of, shifted
from anydml.kernels.contract.epilogue.rounding import undecided
from anydml.kernels.contract.epilogue.rule import A_ZERO_POINT, BIAS, ESTIMATE, ROW, TERM, ZERO_POINT, rule_of_row
from anydml.kernels.contract.tile import column_bytes, panel_columns

INFINITE = 0x7F800000
FAR = 60  # with factors of the estimate within 2^-60 .. 2^60, no intermediate float32 overflows or becomes subnormal

# --- parameters ---

PARAMETERS = Signature(
    "m *a_zero_point a_zero_point_step *rows n *modes bound *a_scale a_scale_step *y_scale y_scale_step *b_scale b_scale_step"
    " *y_zero_point y_zero_point_step *bias bias_step room"
)
THRESHOLD, RULE, TAKEN = 0, 4, 8


def parameters(target: Target, a_signed: bool, output: str, biased: bool = False, by_column: bool = False) -> str:
    """The kernel for the records of m rows without their terms, and the modes; status 1 if a scale is zero, infinite or NaN.

    Arguments: PARAMETERS, steps in bytes; bound: the float32 bits of an upper bound of all |q|; room: the largest magnitude of
    a bias with which sums still fit int32. output "i32": AZeroPoint alone. The modes are the threshold of the estimate,
    float32; whether the rule decides everything, int32; and a mask, int32, of biases that are part of the term: all of them, or
    none, which leaves them to the rule. by_column: biases are those of the n columns.
    """
    text = Text()
    PARAMETERS.load(text)
    if output == "i32":
        fold(text, "0", "%m", 1, [], lambda i, _: _row_zero_point(text, i, a_signed))
        text.do("ret i64 0")
        return kernel(text)

    def least(x: str, y: str, lanes: int = 1) -> str:
        return _extreme(text, "umin", x, y, lanes)

    def most(x: str, y: str, lanes: int = 1) -> str:
        return _extreme(text, "umax", x, y, lanes)

    def larger_bias(i: str, found: list[str]) -> list[str]:
        bias = text.load("i32", along(text, "%bias", "%bias_step", i))
        negative = text.op(f"icmp slt i32 {bias}, 0")
        magnitude = text.op(f"select i1 {negative}, i32 {text.op(f'sub i32 0, {bias}')}, i32 {bias}")
        return [most(found[0], magnitude)]

    def row(i: str, found: list[str]) -> list[str]:
        _row_zero_point(text, i, a_signed)
        record = text.at("%rows", text.op(f"mul i64 {i}, {ROW}"))
        a, y = (text.load("float", along(text, f"%{x}", f"%{x}_step", i)) for x in ("a_scale", "y_scale"))
        estimate = text.op(f"fdiv float {a}, {y}")
        zero_point = text.load("i8", along(text, "%y_zero_point", "%y_zero_point_step", i))
        for field in ESTIMATE:
            text.store("float", estimate, record, field)
        zero_point = extend(text, zero_point, output == "i8")
        for field in ZERO_POINT[:1] if biased and not by_column else ZERO_POINT:
            text.store("i32", zero_point, record, field)
        rule_of_row(text, output == "i8", a, y, zero_point, record)
        low, high, small, large, fraction, *biases = found
        if biased and not by_column:
            biases = larger_bias(i, biases)
            text.store("i32", text.load("i32", along(text, "%bias", "%bias_step", i)), record, BIAS)
        for x in (a, y):
            bits = text.op(f"bitcast float {x} to i32")
            magnitude = text.op(f"and i32 {bits}, {0x7FFFFFFF}")
            low, high = least(low, magnitude), most(high, magnitude)
            fraction = text.op(f"or i32 {fraction}, {bits}")
        magnitude = text.op(f"and i32 {text.op(f'bitcast float {estimate} to i32')}, {0x7FFFFFFF}")
        return [low, high, least(small, magnitude), most(large, magnitude), fraction, *biases]

    first = [("i32", "-1"), ("i32", "0"), ("i32", "-1"), ("i32", "0"), ("i32", "0"), *([("i32", "0")] if biased else [])]
    _, (low, high, small, large, fraction, *biases) = fold(text, "0", "%m", 1, first, row)

    if biased and by_column:
        _, biases = fold(text, "0", "%n", 1, [("i32", "0")], larger_bias)

    # BScale: read in vectors if contiguous, once if it is the same for all columns
    lanes = target.vector_bytes // 4
    vector = f"<{lanes} x i32>"

    def across(i: str, found: list[str]) -> list[str]:
        bits = text.load(vector, text.at("%b_scale", text.op(f"mul i64 {i}, 4")))
        magnitude = text.op(f"and {vector} {bits}, splat (i32 {0x7FFFFFFF})")
        return [least(found[0], magnitude, lanes), most(found[1], magnitude, lanes), text.op(f"or {vector} {found[2]}, {bits}")]

    def one(i: str, found: list[str]) -> list[str]:
        bits = text.load("i32", along(text, "%b_scale", "%b_scale_step", i))
        magnitude = text.op(f"and i32 {bits}, {0x7FFFFFFF}")
        return [least(found[0], magnitude), most(found[1], magnitude), text.op(f"or i32 {found[2]}, {bits}")]

    contiguous = text.op("icmp eq i64 %b_scale_step, 4")
    same = text.op("icmp eq i64 %b_scale_step, 0")
    by_vector = text.op(f"select i1 {contiguous}, i64 %n, i64 0")
    columns = text.op(f"select i1 {same}, i64 1, i64 %n")
    begin = [(vector, "splat (i32 -1)"), (vector, "zeroinitializer"), (vector, "zeroinitializer")]
    at, united = fold(text, "0", by_vector, lanes, begin, across)
    reduced = [
        text.op(f"call i32 @llvm.vector.reduce.{how}.v{lanes}i32({vector} {x})")
        for how, x in zip(("umin", "umax", "or"), united, strict=True)
    ]
    _, (b_low, b_high, b_fraction) = fold(text, at, columns, 1, [("i32", x) for x in reduced], one)

    low, high = least(low, b_low), most(high, b_high)
    fraction = text.op(f"and i32 {text.op(f'or i32 {fraction}, {b_fraction}')}, {0x7FFFFF}")
    bad = text.op(f"or i1 {text.op(f'icmp eq i32 {low}, 0')}, {text.op(f'icmp uge i32 {high}, {INFINITE}')}")
    when(text, bad, lambda: _early(text))

    def within(low: str, high: str) -> str:
        enough = text.op(f"icmp uge i32 {low}, {127 - FAR << 23}")
        return text.op(f"and i1 {enough}, {text.op(f'icmp ule i32 {high}, {127 + FAR << 23}')}")

    def value(bits: str) -> str:
        return text.op(f"bitcast i32 {bits} to float")

    in_range = text.op(f"and i1 {within(small, large)}, {within(b_low, b_high)}")
    bound = value(text.op("trunc i64 %bound to i32"))
    taken = "true"
    if biased:
        magnitude = text.op(f"zext i32 {biases[0]} to i64")
        taken = text.op(f"icmp sle i64 {magnitude}, %room")
        text.store("i32", text.op(f"sext i1 {taken} to i32"), "%modes", TAKEN)
        bound = text.op(f"fadd float {bound}, {text.op(f'uitofp i64 {magnitude} to float')}")
        bound = text.op(f"fmul float {bound}, {real(1 + 2.0**-20)}")  # more than these three roundings may lose
    largest = text.op(f"fmul float {text.op(f'fmul float {value(large)}, {value(b_high)}')}, {bound}")
    in_range = text.op(f"and i1 {in_range}, {text.op(f'fcmp ole float {largest}, {real(2.0**30)}')}")
    in_range = text.op(f"and i1 {in_range}, {taken}")
    rule = text.op(f"zext i1 {text.op(f'xor i1 {in_range}, true')} to i32")
    # powers of two: float32 is exact while |q| <= 2^24, or larger q saturate anyway: 2^24 2^-15 = 512
    coarse = text.op(f"fcmp oge float {text.op(f'fmul float {value(small)}, {value(b_low)}')}, {real(2.0**-15)}")
    coarse = text.op(f"or i1 {coarse}, {text.op(f'fcmp ole float {bound}, {real(2.0**24)}')}")
    powers = text.op(f"and i1 {coarse}, {text.op(f'icmp eq i32 {fraction}, 0')}")
    text.store("float", text.op(f"select i1 {powers}, float 2.0, float {real(undecided(target))}"), "%modes")
    text.store("i32", "1" if target.later else rule, "%modes", RULE)
    text.do("ret i64 0")
    kinds = [("i32", ""), (vector, f".v{lanes}i32")]
    declarations = [f"declare {t} @llvm.{how}{x if x else '.i32'}({t}, {t})" for t, x in kinds for how in ("umin", "umax")]
    declarations += [f"declare i32 @llvm.vector.reduce.{how}.v{lanes}i32({vector})" for how in ("umin", "umax", "or")]
    return kernel(text, declarations)


def _row_zero_point(text: Text, i: str, a_signed: bool) -> list[str]:
    value = text.load("i8", along(text, "%a_zero_point", "%a_zero_point_step", i))
    text.store("i32", extend(text, value, a_signed), text.at("%rows", text.op(f"mul i64 {i}, {ROW}")), A_ZERO_POINT)
    return []


def _extreme(text: Text, how: str, x: str, y: str, lanes: int) -> str:
    kind, suffix = ("i32", "i32") if lanes == 1 else (f"<{lanes} x i32>", f"v{lanes}i32")
    return text.op(f"call {kind} @llvm.{how}.{suffix}({kind} {x}, {kind} {y})")


def _early(text: Text) -> None:
    text.do("ret i64 1")
    text.label(text.name("unreachable"))


# --- the sums of A's rows ---

ROW_SUMS = Signature("*a a_row k m *rows *b_zero_point *bias bias_step *modes")


def store_term(text: Text, term: str, i: str, mask: str, into: tuple[str, int, int] | None = None) -> None:
    """Store the i-th record's term and its bias. mask: the bits of the bias that are added to the term, "" if there is no bias.

    into: the address of another record than a row's, with the offsets of both fields.
    """
    record, at, bias_at = into or (text.at("%rows", text.op(f"mul i64 {i}, {ROW}")), TERM, BIAS)
    if mask:
        bias = text.load("i32", along(text, "%bias", "%bias_step", i))
        taken = text.op(f"and i32 {bias}, {mask}")
        term = text.op(f"add i32 {term}, {taken}")
        text.store("i32", text.op(f"sub i32 {bias}, {taken}"), record, bias_at)
    text.store("i32", term, record, at)


def row_sums(target: Target, a_signed: bool, b_signed: bool, full: bool, biased: bool = False) -> str:
    """The term of each of m row records: -(sum of the row), times the B zero point unless `full`. For 0, nothing is read.

    biased: times the B zero point in any case, plus the row's bias, unless the modes leave that to the rule. Arguments:
    ROW_SUMS. k: bytes of a row as the tile reads it, a multiple of 4.
    """
    dot, width = dot_of(target), target.vector_bytes
    packed_signed = dot.b_signed(a_signed, b_signed)
    vector = f"<{width // 4} x i32>"
    text = Text()
    ROW_SUMS.load(text)
    rest = text.op(f"alloca [{width} x i8], align {width}")
    full = full and not biased
    mask = text.load("i32", "%modes", TAKEN) if biased else ""
    if full:
        factor = "-1"
    else:
        zero_point = shifted(text, target, text.load("i8", "%b_zero_point"), a_signed, b_signed)
        factor = text.op(f"sub i32 0, {zero_point}")
        none = text.op(f"icmp eq i32 {factor}, 0")

        def clear() -> None:
            fold(text, "0", "%m", 1, [], lambda i, _: store(i, "0"))
            text.do("ret i64 0")
            text.label(text.name("unreachable"))

    def store(i: str, value: str) -> list[str]:
        store_term(text, value, i, mask)
        return []

    if not full:
        when(text, none, clear)

    ones = f"splat (i32 {dot.ones})"

    def plus(sums: str, x: str) -> str:
        # if one operand is read as the same four bytes everywhere, it has to be the first
        a, b = (ones, x) if dot.planar else (x, ones)
        return dot.emit(text, sums, a, b, a_signed, packed_signed)

    def row(i: str, _: list[str]) -> list[str]:
        a = along(text, "%a", "%a_row", i)

        def add(at: str, sums: list[str]) -> list[str]:
            here = text.at(a, at)
            loads = [text.load(vector, here, u * width) for u in range(len(sums))]
            return [plus(s, x) for s, x in zip(sums, loads, strict=True)]

        at, sums = fold(text, "0", "%k", 4 * width, [(vector, "zeroinitializer")] * 4, add)
        both = [text.op(f"add {vector} {sums[j]}, {sums[j + 2]}") for j in range(2)]
        total = text.op(f"add {vector} {both[0]}, {both[1]}")
        at, (total,) = fold(text, at, "%k", width, [(vector, total)], add)
        text.do(f"store {vector} zeroinitializer, ptr {rest}, align {width}")

        def move(j: str, _: list[str]) -> list[str]:
            into = text.at(rest, text.op(f"sub i64 {j}, {at}"))
            text.store("i32", text.load("i32", text.at(a, j)), into)
            return []

        fold(text, at, "%k", 4, [], move)
        total = plus(total, text.load(vector, rest))
        value = text.op(f"call i32 @llvm.vector.reduce.add.v{width // 4}i32({vector} {total})")
        return store(i, text.op(f"mul i32 {value}, {factor}"))

    fold(text, "0", "%m", 1, [], row)
    text.do("ret i64 0")
    declarations = [f"declare i32 @llvm.vector.reduce.add.v{width // 4}i32({vector})", *dot.declarations]
    return kernel(text, declarations)


# --- the records of columns ---

COLUMNS = Signature("panels last *sums *columns k *a_zero_point *b_zero_point *b_scale *bias *modes")


def columns(
    target: Target,
    a_signed: bool,
    b_signed: bool,
    full: bool,
    scale_step: int | None,
    zero_point_step: int,
    bias_step: int | None = None,
) -> str:
    """The kernel for the records of the columns of `panels` panels.

    Arguments: COLUMNS. scale_step, zero_point_step: 0 for one BScale or zero point, else the size of one; None: no scale.
    bias_step: of the columns' biases; then A has one zero point, by which terms are multiplied even if `full`.
    """
    biased = bias_step is not None
    dot, width = dot_of(target), target.vector_bytes
    lanes = width // 4
    vector, floats, bytes_ = f"<{lanes} x i32>", f"<{lanes} x float>", f"<{lanes} x i8>"
    shift = shift_of(target, a_signed, b_signed)
    text = Text()
    COLUMNS.load(text)
    k = splat(text, text.op("trunc i64 %k to i32"), vector)
    multiplied = biased or not full
    a_zero_point = splat(text, extend(text, text.load("i8", "%a_zero_point"), a_signed), vector) if multiplied else ""
    mask = splat(text, text.load("i32", "%modes", TAKEN), vector) if biased else ""
    bias = splat(text, text.load("i32", "%bias"), vector) if bias_step == 0 else ""
    scale = splat(text, text.load("float", "%b_scale"), floats) if scale_step == 0 else ""
    point = ""
    if zero_point_step == 0:
        point = splat(text, shifted(text, target, text.load("i8", "%b_zero_point"), a_signed, b_signed), vector)

    def panel(p: str, _: list[str]) -> list[str]:
        inside = text.op(f"icmp ult i64 {text.op(f'add i64 {p}, 1')}, %panels")
        column = text.op(f"select i1 {inside}, i64 {text.op(f'mul i64 {p}, {panel_columns(target)}')}, i64 %last")
        record = text.at("%columns", text.op(f"mul i64 {p}, {column_bytes(target)}"))
        sums = text.at("%sums", text.op(f"mul i64 {p}, {4 * panel_columns(target)}"))
        for n in range(dot.vectors):
            z = point
            if zero_point_step:
                narrow = text.load(bytes_, text.at("%b_zero_point", column), n * lanes)
                z = text.op(f"add {vector} {extend(text, narrow, b_signed, bytes_, vector)}, splat (i32 {shift})")
            x = text.op(f"sub {vector} {text.op(f'mul {vector} {k}, {z}')}, {text.load(vector, sums, n * width)}")
            if multiplied:
                x = text.op(f"mul {vector} {x}, {a_zero_point}")
            if biased:
                b = bias or text.load(vector, text.at("%bias", text.op(f"mul i64 {column}, 4")), n * width)
                taken = text.op(f"and {vector} {b}, {mask}")
                x = text.op(f"add {vector} {x}, {taken}")
                text.store(vector, text.op(f"sub {vector} {b}, {taken}"), record, (3 * dot.vectors + n) * width)
            text.store(vector, x, record, n * width)
            if scale_step is not None:
                s = scale
                if scale_step:
                    s = text.load(floats, text.at("%b_scale", text.op(f"mul i64 {column}, 4")), n * width)
                text.store(floats, s, record, (dot.vectors + n) * width)
            if full:
                text.store(vector, z, record, (2 * dot.vectors + n) * width)
        return []

    fold(text, "0", "%panels", 1, [], panel)
    text.do("ret i64 0")
    return kernel(text)
