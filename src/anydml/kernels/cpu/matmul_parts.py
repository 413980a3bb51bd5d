"""What goes before the tiles: B in panels, the sums of A's rows, and the records of rows and of columns.

q = sum (a - za)(b' - zb') with b' as the tile reads it and zb' moved along, so with X = K zb' - (sum of b' in the column)

    q = (sum a b') - (sum a) zb' + za X

which is a term for the row plus a term for the column, or, where zero points differ by row or by column, two products.
All sums are taken modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.cpu.jit.emit import Text, arguments, fold, module, real, shuffle, splat, when
from anydml.kernels.cpu.jit.targets import Target
from anydml.kernels.cpu.matmul_dot import dot_of
from anydml.kernels.cpu.matmul_round import (
    A_ZERO_POINT,
    ESTIMATE,
    ROW,
    TERM,
    ZERO_POINT,
    rule_of_row,
    undecided,
)  # fmt: skip
from anydml.kernels.cpu.matmul_tile import column_bytes, panel_columns

BIAS = 128  # between the same byte read as INT8 and as UINT8 with its highest bit flipped
INFINITE = 0x7F800000
FAR = 60  # a factor of the estimate within 2^-60 .. 2^60 makes no float32 overflow or become subnormal on the way


def _define(text: Text, declarations: list[str]) -> str:
    return module([*declarations, "define i64 @kernel(ptr %arguments) {", "entry:", *text.lines, "}"])


def _step(text: Text, base: str, stride: str, i: str) -> str:
    return text.at(base, text.op(f"mul i64 {i}, {stride}"))


def _extend(text: Text, value: str, signed: bool, kind: str = "i8", wide: str = "i32") -> str:
    return text.op(f"{'s' if signed else 'z'}ext {kind} {value} to {wide}")


# --- parameters ---

PARAMETERS = (
    *("m", "a_zero_point", "a_zero_point_step", "rows", "n", "modes", "bound"),
    *("a_scale", "a_scale_step", "y_scale", "y_scale_step", "b_scale", "b_scale_step", "y_zero_point", "y_zero_point_step"),
)
_PARAMETER_POINTERS = {"a_zero_point", "rows", "modes", "a_scale", "y_scale", "b_scale", "y_zero_point"}


def parameters(target: Target, a_signed: bool, output: str) -> str:
    """The records of m rows but for their term, and the modes; status 1 where a scale is zero, infinite or NaN.

    Arguments: PARAMETERS, steps in bytes; bound: the float32 bits of no less than any |q|. output "i32": AZeroPoint alone.
    The modes are the threshold of the estimate, float32, and whether the rule decides everything, int32.
    """
    text = Text()
    arguments(text, PARAMETERS, _PARAMETER_POINTERS)
    if output == "i32":
        fold(text, "0", "%m", 1, [], lambda i, _: _row_zero_point(text, i, a_signed))
        text.do("ret i64 0")
        return _define(text, [])

    def least(x: str, y: str, lanes: int = 1) -> str:
        return _extreme(text, "umin", x, y, lanes)

    def most(x: str, y: str, lanes: int = 1) -> str:
        return _extreme(text, "umax", x, y, lanes)

    def row(i: str, found: list[str]) -> list[str]:
        _row_zero_point(text, i, a_signed)
        record = text.at("%rows", text.op(f"mul i64 {i}, {ROW}"))
        a, y = (text.load("float", _step(text, f"%{x}", f"%{x}_step", i)) for x in ("a_scale", "y_scale"))
        estimate = text.op(f"fdiv float {a}, {y}")
        zero_point = text.load("i8", _step(text, "%y_zero_point", "%y_zero_point_step", i))
        for field in ESTIMATE:
            text.store("float", estimate, record, field)
        zero_point = _extend(text, zero_point, output == "i8")
        for field in ZERO_POINT:
            text.store("i32", zero_point, record, field)
        rule_of_row(text, output == "i8", a, y, zero_point, record)
        low, high, small, large, fraction = found
        for x in (a, y):
            bits = text.op(f"bitcast float {x} to i32")
            magnitude = text.op(f"and i32 {bits}, {0x7FFFFFFF}")
            low, high = least(low, magnitude), most(high, magnitude)
            fraction = text.op(f"or i32 {fraction}, {bits}")
        magnitude = text.op(f"and i32 {text.op(f'bitcast float {estimate} to i32')}, {0x7FFFFFFF}")
        return [low, high, least(small, magnitude), most(large, magnitude), fraction]

    first = [("i32", "-1"), ("i32", "0"), ("i32", "-1"), ("i32", "0"), ("i32", "0")]
    _, (low, high, small, large, fraction) = fold(text, "0", "%m", 1, first, row)

    # BScale: vectors where it is contiguous, one element where all are the same
    lanes = target.vector_bytes // 4
    vector = f"<{lanes} x i32>"

    def across(i: str, found: list[str]) -> list[str]:
        bits = text.load(vector, text.at("%b_scale", text.op(f"mul i64 {i}, 4")))
        magnitude = text.op(f"and {vector} {bits}, splat (i32 {0x7FFFFFFF})")
        return [least(found[0], magnitude, lanes), most(found[1], magnitude, lanes), text.op(f"or {vector} {found[2]}, {bits}")]

    def one(i: str, found: list[str]) -> list[str]:
        bits = text.load("i32", _step(text, "%b_scale", "%b_scale_step", i))
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
    largest = text.op(f"fmul float {text.op(f'fmul float {value(large)}, {value(b_high)}')}, {bound}")
    in_range = text.op(f"and i1 {in_range}, {text.op(f'fcmp ole float {largest}, {real(2.0**30)}')}")
    rule = text.op(f"zext i1 {text.op(f'xor i1 {in_range}, true')} to i32")
    # of powers of two, float32 loses nothing while |q| <= 2^24, nor where more than that saturates: 2^24 2^-15 = 512
    coarse = text.op(f"fcmp oge float {text.op(f'fmul float {value(small)}, {value(b_low)}')}, {real(2.0**-15)}")
    coarse = text.op(f"or i1 {coarse}, {text.op(f'fcmp ole float {bound}, {real(2.0**24)}')}")
    powers = text.op(f"and i1 {coarse}, {text.op(f'icmp eq i32 {fraction}, 0')}")
    text.store("float", text.op(f"select i1 {powers}, float 2.0, float {real(undecided(target))}"), "%modes")
    text.store("i32", rule, "%modes", 4)
    text.do("ret i64 0")
    kinds = [("i32", ""), (vector, f".v{lanes}i32")]
    declarations = [f"declare {t} @llvm.{how}{x if x else '.i32'}({t}, {t})" for t, x in kinds for how in ("umin", "umax")]
    declarations += [f"declare i32 @llvm.vector.reduce.{how}.v{lanes}i32({vector})" for how in ("umin", "umax", "or")]
    return _define(text, declarations)


def _row_zero_point(text: Text, i: str, a_signed: bool) -> list[str]:
    value = text.load("i8", _step(text, "%a_zero_point", "%a_zero_point_step", i))
    text.store("i32", _extend(text, value, a_signed), text.at("%rows", text.op(f"mul i64 {i}, {ROW}")), A_ZERO_POINT)
    return []


def _extreme(text: Text, how: str, x: str, y: str, lanes: int) -> str:
    kind, suffix = ("i32", "i32") if lanes == 1 else (f"<{lanes} x i32>", f"v{lanes}i32")
    return text.op(f"call {kind} @llvm.{how}.{suffix}({kind} {x}, {kind} {y})")


def _early(text: Text) -> None:
    text.do("ret i64 1")
    text.label(text.name("unreachable"))


# --- the sums of A's rows ---

ROW_SUMS = ("a", "a_row", "k", "m", "rows", "b_zero_point")


def row_sums(target: Target, a_signed: bool, b_signed: bool, full: bool) -> str:
    """The term of each of m row records: -(sum of the row), times the B zero point unless `full`. Nothing is read for 0.

    Arguments: ROW_SUMS. k: bytes of a row as the tile reads it, a multiple of 4.
    """
    dot, width = dot_of(target), target.vector_bytes
    packed_signed = dot.b_signed(a_signed, b_signed)
    vector = f"<{width // 4} x i32>"
    text = Text()
    arguments(text, ROW_SUMS, {"a", "rows", "b_zero_point"})
    rest = text.op(f"alloca [{width} x i8], align {width}")
    if full:
        factor = "-1"
    else:
        zero_point = _shifted(text, target, text.load("i8", "%b_zero_point"), a_signed, b_signed)
        factor = text.op(f"sub i32 0, {zero_point}")
        none = text.op(f"icmp eq i32 {factor}, 0")

        def clear() -> None:
            fold(text, "0", "%m", 1, [], lambda i, _: store(i, "0"))
            text.do("ret i64 0")
            text.label(text.name("unreachable"))

    def store(i: str, value: str) -> list[str]:
        text.store("i32", value, text.at("%rows", text.op(f"mul i64 {i}, {ROW}")), TERM)
        return []

    if not full:
        when(text, none, clear)

    ones = f"splat (i32 {dot.ones})"

    def plus(sums: str, x: str) -> str:
        # the operand of different bytes comes second where the first one is read as the same four everywhere
        a, b = (ones, x) if dot.planar else (x, ones)
        return dot.emit(text, sums, a, b, a_signed, packed_signed)

    def row(i: str, _: list[str]) -> list[str]:
        a = _step(text, "%a", "%a_row", i)

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
    return _define(text, declarations)


def _shifted(text: Text, target: Target, byte: str, a_signed: bool, b_signed: bool) -> str:
    """A zero point of B, or a vector of them, as B is packed; i32."""
    shift = shift_of(target, a_signed, b_signed)
    wide = _extend(text, byte, b_signed)
    return text.op(f"add i32 {wide}, {shift}")


def shift_of(target: Target, a_signed: bool, b_signed: bool) -> int:
    """What is added to every element of B when it is packed: the dot product decides what type B has to have."""
    dot = dot_of(target)
    if dot.group == 2 or dot.b_signed(a_signed, b_signed) == b_signed:
        return 0
    return BIAS if b_signed else -BIAS


# --- B in panels ---

ROWS = 32  # of B that pass through all panels before the next ones: a cache line of them is half a panel's
PACK = ("b", "b_row", "k", "panels", "packed", "panel", "sums", "last", "pad")


def pack(target: Target, a_signed: bool, b_signed: bool) -> str:
    """Panels of B, {k, n} with contiguous rows: a vector holds the same few elements of K for each of its columns.

    Arguments: PACK. panel: bytes of a packed panel. sums: int32, for each panel those of its columns of packed B. last:
    the column at which the last panel begins. pad: as many bytes as a panel has columns that stand for the rows of B beyond
    the k-th, 0 once they are packed.
    """
    dot, width = dot_of(target), target.vector_bytes
    columns = panel_columns(target)
    vector = f"<{width // 4} x i32>"
    packed_signed = dot.b_signed(a_signed, b_signed)
    flip = shift_of(target, a_signed, b_signed) != 0
    ones = f"splat (i32 {dot.ones})"
    text = Text()
    arguments(text, PACK, {"b", "packed", "sums", "pad"})

    def group(rows: list[str], into: str, sums: list[str]) -> list[str]:
        loads = [text.load(f"<{columns} x i8>", r) for r in rows]
        parts = [_twos(text, loads, target, b_signed)] if dot.group == 2 else [_fours(text, x, target) for x in _by_four(loads)]
        if flip:
            parts = [[text.op(f"xor {vector} {x}, splat (i32 {0x80808080 - (1 << 32)})") for x in part] for part in parts]
        for part in parts:
            sums = [dot.emit(text, s, ones, x, a_signed, packed_signed) for s, x in zip(sums, part, strict=True)]
        interleaved = parts[0]
        if dot.square:  # a column's eight bytes side by side
            orders = (0, 4, 1, 5), (2, 6, 3, 7)
            interleaved = [shuffle(text, x, y, vector, o) for x, y in zip(*parts, strict=True) for o in orders]
        for n, packed in enumerate(interleaved):
            text.store(vector, packed, into, n * width)
        return sums

    def panel(p: str, begin: str, end: str) -> None:
        inside = text.op(f"icmp ult i64 {text.op(f'add i64 {p}, 1')}, %panels")
        column = text.op(f"select i1 {inside}, i64 {text.op(f'mul i64 {p}, {columns}')}, i64 %last")
        b = text.at("%b", column)
        packed = _step(text, "%packed", "%panel", p)
        totals = text.at("%sums", text.op(f"mul i64 {p}, {columns * 4}"))

        def into(k: str) -> str:
            return text.at(packed, text.op(f"mul i64 {k}, {columns * dot.depth // dot.group}"))

        def whole(k: str, sums: list[str]) -> list[str]:
            rows = [_step(text, b, "%b_row", k)]
            for _ in range(dot.group - 1):
                rows.append(text.at(rows[-1], "%b_row"))
            return group(rows, into(k), sums)

        def partial(k: str, sums: list[str]) -> list[str]:
            rows: list[str] = []
            for r in range(dot.group):
                at = text.op(f"add i64 {k}, {r}")
                there = _step(text, b, "%b_row", at)
                rows.append(text.op(f"select i1 {text.op(f'icmp ult i64 {at}, %k')}, ptr {there}, ptr %pad"))
            return group(rows, into(k), sums)

        sums = [text.load(vector, totals, n * width) for n in range(dot.vectors)]
        k, sums = fold(text, begin, end, dot.group, [(vector, x) for x in sums], whole)
        # once more, where rows are left
        left = text.op(f"select i1 {text.op(f'icmp ult i64 {k}, {end}')}, i64 {text.op(f'add i64 {k}, {dot.group}')}, i64 {k}")
        sums = fold(text, k, left, dot.group, [(vector, x) for x in sums], partial)[1]
        for n, x in enumerate(sums):
            text.store(vector, x, totals, n * width)

    def clear(p: str, _: list[str]) -> list[str]:
        for n in range(dot.vectors):
            text.store(vector, "zeroinitializer", text.at("%sums", text.op(f"mul i64 {p}, {columns * 4}")), n * width)
        return []

    def block(i: str, _: list[str]) -> list[str]:
        begin = text.op(f"mul i64 {i}, {ROWS}")
        end = text.op(f"call i64 @llvm.umin.i64(i64 {text.op(f'add i64 {begin}, {ROWS}')}, i64 %k)")

        def each(p: str, _: list[str]) -> list[str]:
            panel(p, begin, end)
            return []

        fold(text, "0", "%panels", 1, [], each)
        return []

    fold(text, "0", "%panels", 1, [], clear)
    fold(text, "0", text.op(f"udiv i64 {text.op(f'add i64 %k, {ROWS - 1}')}, {ROWS}"), 1, [], block)
    text.do("ret i64 0")
    return _define(text, ["declare i64 @llvm.umin.i64(i64, i64)", *dot.declarations])


def _by_four(rows: list[str]) -> list[list[str]]:
    return [rows[i : i + 4] for i in range(0, len(rows), 4)]


def _fours(text: Text, rows: list[str], target: Target) -> list[str]:
    """Four rows of two vectors' columns, a byte each: a column's four bytes side by side.

    Rows 0 and 2, and rows 1 and 3, share a register; bytes are interleaved within lanes of 16, then words across them.
    """
    width = target.vector_bytes
    half, lanes = width // 2, width // 4
    even, odd = (shuffle(text, rows[i], rows[i + 2], f"<{half} x i8>", range(width)) for i in (0, 1))
    pairs = []
    for low in (0, 8):
        order = [lane + low + i + which * width for lane in range(0, width, 16) for i in range(8) for which in range(2)]
        mixed = shuffle(text, even, odd, f"<{width} x i8>", order)
        pairs.append(text.op(f"bitcast <{width} x i8> {mixed} to <{half} x i16>"))
    vectors = []
    for n in range(2):
        order = []
        for column in range(n * lanes, (n + 1) * lanes):
            at = column // 16 * 8 + column % 8 + (half if column % 16 >= 8 else 0)
            order += [at, at + (half // 2 if width > 16 else half)]
        words = shuffle(text, pairs[0], pairs[1], f"<{half} x i16>", order)
        vectors.append(text.op(f"bitcast <{half} x i16> {words} to <{lanes} x i32>"))
    return vectors


def _twos(text: Text, rows: list[str], target: Target, signed: bool) -> list[str]:
    """Two rows of bytes widened to 16 bits, a vector's columns at a time: side by side, or one row after the other."""
    lanes = target.vector_bytes // 4
    columns = panel_columns(target)
    vectors = []
    for at in range(0, columns, lanes):
        sides = [(at + c, columns + at + c) for c in range(lanes)]
        order = (
            [i for rank in zip(*sides, strict=True) for i in rank] if dot_of(target).planar else [i for c in sides for i in c]
        )
        mixed = shuffle(text, rows[0], rows[1], f"<{columns} x i8>", order)
        wide = _extend(text, mixed, signed, f"<{2 * lanes} x i8>", f"<{2 * lanes} x i16>")
        vectors.append(text.op(f"bitcast <{2 * lanes} x i16> {wide} to <{lanes} x i32>"))
    return vectors


# --- A in 16 bits ---

WIDEN = ("a", "a_row", "k", "m", "wide", "wide_row")


def widen(target: Target, a_signed: bool) -> str:
    """m rows of k contiguous bytes as 16-bit integers. Arguments: WIDEN."""
    count = target.vector_bytes // 2
    text = Text()
    arguments(text, WIDEN, {"a", "wide"})

    def row(i: str, _: list[str]) -> list[str]:
        a, wide = _step(text, "%a", "%a_row", i), _step(text, "%wide", "%wide_row", i)

        def move(kind: str, into: str) -> Callable[[str, list[str]], list[str]]:
            def step(at: str, _: list[str]) -> list[str]:
                value = _extend(text, text.load(kind, text.at(a, at)), a_signed, kind, into)
                text.store(into, value, text.at(wide, text.op(f"mul i64 {at}, 2")))
                return []

            return step

        at, _none = fold(text, "0", "%k", count, [], move(f"<{count} x i8>", f"<{count} x i16>"))
        fold(text, at, "%k", 1, [], move("i8", "i16"))
        return []

    fold(text, "0", "%m", 1, [], row)
    text.do("ret i64 0")
    return _define(text, [])


# --- the records of columns ---

COLUMNS = ("panels", "last", "sums", "columns", "k", "a_zero_point", "b_zero_point", "b_scale")


def columns(target: Target, a_signed: bool, b_signed: bool, full: bool, scale_step: int | None, zero_point_step: int) -> str:
    """The records of the columns of so many panels.

    Arguments: COLUMNS. scale_step, zero_point_step: 0 for one BScale or zero point, else the bytes of one; None: no scale.
    """
    dot, width = dot_of(target), target.vector_bytes
    lanes = width // 4
    vector, floats, bytes_ = f"<{lanes} x i32>", f"<{lanes} x float>", f"<{lanes} x i8>"
    shift = shift_of(target, a_signed, b_signed)
    text = Text()
    arguments(text, COLUMNS, {"sums", "columns", "a_zero_point", "b_zero_point", "b_scale"})
    k = splat(text, text.op("trunc i64 %k to i32"), vector)
    a_zero_point = "" if full else splat(text, _extend(text, text.load("i8", "%a_zero_point"), a_signed), vector)
    scale = splat(text, text.load("float", "%b_scale"), floats) if scale_step == 0 else ""
    point = ""
    if zero_point_step == 0:
        point = splat(text, _shifted(text, target, text.load("i8", "%b_zero_point"), a_signed, b_signed), vector)

    def panel(p: str, _: list[str]) -> list[str]:
        inside = text.op(f"icmp ult i64 {text.op(f'add i64 {p}, 1')}, %panels")
        column = text.op(f"select i1 {inside}, i64 {text.op(f'mul i64 {p}, {panel_columns(target)}')}, i64 %last")
        record = text.at("%columns", text.op(f"mul i64 {p}, {column_bytes(target)}"))
        sums = text.at("%sums", text.op(f"mul i64 {p}, {4 * panel_columns(target)}"))
        for n in range(dot.vectors):
            z = point
            if zero_point_step:
                narrow = text.load(bytes_, text.at("%b_zero_point", column), n * lanes)
                z = text.op(f"add {vector} {_extend(text, narrow, b_signed, bytes_, vector)}, splat (i32 {shift})")
            x = text.op(f"sub {vector} {text.op(f'mul {vector} {k}, {z}')}, {text.load(vector, sums, n * width)}")
            text.store(vector, x if full else text.op(f"mul {vector} {x}, {a_zero_point}"), record, n * width)
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
    return _define(text, [])
