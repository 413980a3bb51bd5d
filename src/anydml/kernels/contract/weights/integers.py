"""Sums of rows times weights of 4 bits as sums of integers: the elements times digits of the row, by dot products of bytes.

An element q of 4 bits stands for the weight w = (q - z) s + d u: z is the zero point, s the scale, u the last place of s, and
d an integer, at most 8, the error of rounding (q - z) s. So a sum of x w is s times a sum of x (q - z), plus u times a sum of
x d. In each chunk of terms, x is an integer of five digits of 8 bits times a power of two; the sum of x d, smaller by 2^-24,
needs two.

The rest of x, which these digits leave, is measured while they are made: its norm times the column's is the bound of the error
(Cauchy and Schwarz).
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, shuffle
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.packed.tile import BOUND
from anydml.kernels.contract.weights.packing import CENTRE, INEXACT, ROWS, TERMS
from anydml.kernels.contract.weights.vectors import AHEAD, LINE
from anydml.kernels.copy.text import prefetch

DIGITS, HIGH, SHORT = 5, 3, 2  # digits of x; those of the first sum, the others being in the second; those that meet errors
ORDER = (0, 3, 1, 4, 2)  # of digits, so that sums that follow each other do not wait for each other
LANES = 16  # of int32
DIGIT_BYTES = DIGITS * TERMS  # of a word's terms
FACTOR_BYTES = {False: 8 * ROWS, True: 24 * ROWS}  # of a chunk's factors; whether zero points are not all CENTRE
MIDDLE = {False: CENTRE, True: 2 * CENTRE}  # added to errors, which are doubled, so that they are not negative
FACTS = 16  # bytes of facts
ROUNDED_AT = [INEXACT.index(abs(n)) if abs(n) in INEXACT else 128 for n in range(-CENTRE, CENTRE)]  # 128: exact
NUMBERS = 32  # bytes of a chunk's numbers: a power of two and corrections, as float64 and as float32
EVEN = 1 << 31  # added to the first sum in even lanes
RUN = 8  # chunks whose small parts are added in float32
POINT = 38  # bits of the integers: |x| < 2^e becomes an integer below 2^38
ROUND = 1.5 * 2.0**52  # added, it rounds to an integer
SLACK = 1 + 2.0**-10
LEAST = 874  # the biased exponent of the least float32 as float64

# row: of float64; words: vectors of 32 terms; numbers: of chunks; facts: the norm of the rest, the power of two of the sums
# errors, scales: as in `PackedWeights`, as bits of float64
DIGIT_ARGUMENTS = Signature("*row units *digits *numbers *facts errors scales")
SUM_ARGUMENTS = Signature("*digits *numbers *facts *words *factors groups chunks *sums *counter")


def digits(target: Target, span: int, general: bool) -> str:
    """The kernel that makes digits of a row, in chunks of `span` units; arguments: DIGIT_ARGUMENTS."""
    body = Body(target)
    DIGIT_ARGUMENTS.load(body)
    lanes = 8
    wide, whole, one = Kind("double", lanes), Kind("i64", lanes), Kind("double")
    vectors = span * TERMS // lanes

    def exponent(largest: Value) -> Value:
        """The biased exponent of the least power of two above a float32."""
        found = largest.bits().shifted_right(52, signed=False)
        return body.chosen(found.compared("ult", LEAST), found.lift(LEAST), found) + 1

    def power(biased: Value) -> Value:
        """The power of two of a biased exponent; those out of range give numbers that no finite element needs."""
        return ((biased & 0x7FF) << 52).cast(one)

    def largest(values: list[Value]) -> Value:
        found = values[0].magnitude().bits()
        for x in values[1:]:
            found = body.intrinsic("umax", found, x.magnitude().bits())
        return body.call("llvm.vector.reduce.umax.v8i64", Kind("i64"), found).cast(one)

    def read(first: str, count: int) -> list[Value]:
        return [body.loaded(wide, "%row", body.op(f"add i64 {first}, {64 * n}")) for n in range(count)]

    def most(k: str, carried: list[Value]) -> list[Value]:
        (x,) = read(body.op(f"mul i64 {k}, 64"), 1)
        return [body.intrinsic("umax", carried[0], x.magnitude().bits())]

    parts = body.op(f"mul i64 %units, {TERMS // lanes}")
    (seen,) = body.loop("0", parts, 1, [body.constant(whole, 0)], most)[1]
    top = exponent(body.call("llvm.vector.reduce.umax.v8i64", Kind("i64"), seen).cast(one))

    def chunk(c: str, carried: list[Value]) -> list[Value]:
        squares = list(carried)
        xs = read(body.op(f"mul i64 {c}, {64 * vectors}"), vectors)
        e = exponent(largest(xs))
        scale, unit = (body.splat(power(biased), lanes) for biased in (2046 + POINT - e, e - POINT))
        flipped, total, high_total = [], body.constant(whole, 0), body.constant(whole, 0)

        def left(y: Value, high: Value, by: int) -> Value:
            """The digits that are not in `high`, as a part of x."""
            low = (y - (high << by)) + body.constant(wide, ROUND).bits()
            return (low.cast(wide) - ROUND) * unit

        for x in xs:
            scaled = x * scale
            scaled = body.chosen(scaled.magnitude().compared("olt", 2.0**39), scaled, 0.0)  # infinities, whose norm is one
            rounded = scaled + ROUND
            y = rounded.bits() - body.constant(wide, ROUND).bits()
            total = total + y
            flipped.append((y + 0x8080808080) ^ 0x8080808080)
            highest, higher = ((y + bias).shifted_right(by, signed=True) for bias, by in ((0x808080, 24), (0x8080, 16)))
            high_total = high_total + highest
            for k, part in enumerate((x - (rounded - ROUND) * unit, left(y, highest, 24), left(y, higher, 16), x)):
                squares[k] = body.fused(part, part, squares[k])
        at = body.at("%digits", body.op(f"mul i64 {c}, {span * DIGIT_BYTES}"))
        for k in range(span):
            for i in range(DIGITS):
                four = [x.shifted_right(8 * (DIGITS - 1 - i), signed=False) & 255 for x in flipped[4 * k : 4 * k + 4]]
                for n in (0, 1):  # the terms of a byte's low half, then of its high half
                    both = (four[n] | four[n + 2] << 8).converted("trunc", Kind("i16", lanes))
                    body.stored(both, at, (k * DIGITS + i) * TERMS + 16 * n)
        place = body.at("%numbers", body.op(f"mul i64 {c}, {NUMBERS}"))
        relative = power(e - top + 1023)
        summed = body.call("llvm.vector.reduce.add.v8i64", Kind("i64"), total).converted("sitofp", one)
        body.stored(relative * 2.0**16, place)
        halved = summed * -0.5
        body.stored((halved * (0.0 if general else CENTRE) - EVEN * 2.0**16) * relative, place, 8)
        body.stored(halved * relative, place, 24)
        body.stored(relative.converted("fptrunc", Kind("float")), place, 16)
        high_sum = body.call("llvm.vector.reduce.add.v8i64", Kind("i64"), high_total).converted("sitofp", Kind("float"))
        body.stored(high_sum * (-MIDDLE[general] / 4), place, 20)
        return squares

    zero = body.constant(wide, 0.0)
    chunks = body.op(f"udiv i64 %units, {span}")
    squares = body.loop("0", chunks, 1, [zero] * 4, chunk)[1]

    def norm(squares: Value) -> Value:
        total = squares.lane(0)
        for k in range(1, lanes):
            total = total + squares.lane(k)
        return total.root()

    rest, short, low, row = map(norm, squares)
    errors, scales = (Value(body, body.op(f"bitcast i64 %{x} to double"), one) for x in ("errors", "scales"))
    additions = (Value(body, chunks, Kind("i64")).converted("uitofp", one) + 20) * 2.0**-53
    of_singles = (low * 15 + row * (3 * MIDDLE[general] * 2.0**-24)) * scales * ((RUN + 6) * 2.0**-24)
    bound = rest + short * errors + of_singles + row * (scales * 32 + 1) * additions
    body.stored(bound * SLACK + power(top - 64), "%facts")
    body.stored(power(top - POINT), "%facts", 8)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def summed(target: Target, span: int, inexact: bool, general: bool) -> str:
    """The kernel that sums a row times groups of columns; arguments: SUM_ARGUMENTS.

    inexact: whether weights were rounded; general: as in `PackedWeights`.
    """
    body = Body(target)
    SUM_ARGUMENTS.load(body)
    body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
    wide, single, whole = Kind("double", 8), Kind("float", LANES), Kind("i32", LANES)
    octets = Kind("i8", 4 * LANES)
    unit_bytes = ROWS * TERMS // 2
    group_words = body.op(f"mul i64 %chunks, {span * unit_bytes}")
    group_factors = body.op(f"mul i64 %chunks, {FACTOR_BYTES[general]}")
    final = body.loaded(Kind("double"), "%facts", 8)

    def shuffled(x: Value, indices: list[int], other: Value | None = None) -> Value:
        name = shuffle(body, x.name, "poison" if other is None else other.name, x.kind.text, indices)
        return Value(body, name, Kind(x.kind.element, len(indices)))

    def dot(total: Value, unsigned: Value, signed: Value) -> Value:
        return body.call("llvm.x86.avx512.vpdpbusd.512", whole, total, unsigned, signed)

    def looked_up(table: Value, at: Value) -> Value:
        return body.call("llvm.x86.avx512.pshuf.b.512", octets, table, at)

    def one_of_each(x: Value) -> Value:
        """Four lanes, each of them in four lanes that follow each other."""
        return shuffled(x, [k // 4 for k in range(LANES)])

    def errors(factors: str, g: int) -> Value:
        """For each element of 4 bits, twice the error of rounding its weight, in last places of the scale, plus MIDDLE."""
        if general:
            return body.loaded(octets, factors, 8 * ROWS + 64 * g)
        read = one_of_each(body.loaded(Kind("i32", 4), factors, 4 * ROWS + 16 * g)).cast(octets)
        places = body.constants("i8", ROUNDED_AT * 4)
        signs = body.constants("i8", [-1 if k % 16 < CENTRE else 0 for k in range(64)])
        offsets = body.constants("i8", [CENTRE + (k % 16 < CENTRE) for k in range(64)])
        return (looked_up(read, places) ^ signs) + offsets

    def three_sums(words: str, digits_at: str, g: int, table: Value | None) -> tuple[Value, Value, Value]:
        """The sums of elements times high and times low digits, and that of their errors times the highest digits."""
        none = body.constant(whole, 0)
        high, low, error = body.constants("i32", [EVEN >> 16, 0] * (LANES // 2)), none, none
        elements = []  # by unit, and half of its terms
        for k in range(span):
            read = body.loaded(octets, words, k * unit_bytes + 64 * g)
            shifted = read.cast(Kind("i16", 2 * LANES)).shifted_right(4, signed=False).cast(octets)
            elements += [read & 15, shifted & 15]
        rounded = [] if table is None else [looked_up(table, x) for x in elements]
        for i in ORDER:
            if i in (1, 2):
                high = high << 8
            if i == 1:
                error = error << 8
            if i == DIGITS - 1:
                low = low << 8
            for n, x in enumerate(elements):
                sixteen = body.loaded(Kind("i32", 4), digits_at, (n // 2 * DIGITS + i) * TERMS + 16 * (n % 2))
                digit = shuffled(sixteen, [n % 4 for n in range(LANES)]).cast(octets)
                if i < HIGH:
                    high = dot(high, x, digit)
                else:
                    low = dot(low, x, digit)
                if i < SHORT and table is not None:
                    error = dot(error, rounded[n], digit)
        return high, low, error

    def along(words: str, factors: str, chunk: str, carried: list[Value]) -> list[Value]:
        digits_at = body.at("%digits", body.op(f"mul i64 {chunk}, {span * DIGIT_BYTES}"))
        numbers = body.at("%numbers", body.op(f"mul i64 {chunk}, {NUMBERS}"))
        words = body.at(words, body.op(f"mul i64 {chunk}, {span * unit_bytes}"))
        factors = body.at(factors, body.op(f"mul i64 {chunk}, {FACTOR_BYTES[general]}"))
        for line in range(0, span * unit_bytes, LINE):
            prefetch(body, 1, words, AHEAD + line)
        for line in range(0, FACTOR_BYTES[general], LINE):
            prefetch(body, 1, factors, AHEAD + line)
        sums = [three_sums(words, digits_at, g, errors(factors, g) if inexact else None) for g in range(2)]
        power, correction, of_zeros = (body.splat(body.loaded(Kind("double"), numbers, n), 8) for n in (0, 8, 24))
        small, short = (body.splat(body.loaded(Kind("float"), numbers, n), LANES) for n in (16, 20))
        made = []
        for g, (high, low, error) in enumerate(sums):
            total, rest = carried[2 * g : 2 * g + 2]
            four = body.loaded(Kind("float", 4), factors, 16 * g)
            scale, wide_four = one_of_each(four), four.converted("fpext", Kind("double", 4))
            pair = high.cast(Kind("i64", LANES // 2))
            pair = pair.shifted_right(32, signed=True) + (pair & 0xFFFFFFFF)
            added = correction
            if general:
                zeros = body.loaded(Kind("i32", 4), factors, 4 * ROWS + 16 * g) & 255
                eight = shuffled(zeros, [n // 2 for n in range(8)]).converted("sitofp", wide)
                added = body.fused(eight, of_zeros, correction)
            part = body.fused(pair.converted("sitofp", wide), power, added)
            total = body.fused(part, shuffled(wide_four, [n // 2 for n in range(8)]), total)
            small_part = low.converted("sitofp", single) * scale
            if inexact:
                exponent = (scale.bits() & 0x7F800000).cast(single)
                small_part = body.fused(error.converted("sitofp", single) + short, exponent, small_part)
            made += [total, body.fused(small_part, small, rest)]
        return made

    def group(g: str, _: list[Value]) -> list[Value]:
        zero, none = body.constant(wide, 0.0), body.constant(single, 0.0)
        words = body.at("%words", body.op(f"mul i64 {g}, {group_words}"))
        factors = body.at("%factors", body.op(f"mul i64 {g}, {group_factors}"))

        def chunk(c: str, carried: list[Value]) -> list[Value]:
            return along(words, factors, c, carried)

        def run(r: str, totals: list[Value]) -> list[Value]:
            start = body.op(f"mul i64 {r}, {RUN}")
            end = body.intrinsic("umin", Value(body, body.op(f"add i64 {start}, {RUN}"), Kind("i64")), "i64 %chunks")
            last = body.loop(start, end.name, 1, [x for total in totals for x in (total, none)], chunk)[1]
            made = []
            for total, rest in zip(last[::2], last[1::2], strict=True):
                pair = shuffled(rest, list(range(0, LANES, 2))) + shuffled(rest, list(range(1, LANES, 2)))
                made.append(total + pair.converted("fpext", wide))
            return made

        runs = body.op(f"udiv i64 {body.op(f'add i64 %chunks, {RUN - 1}')}, {RUN}")
        for k, total in enumerate(body.loop("0", runs, 1, [zero, zero], run)[1]):
            four = shuffled(total, [0, 2, 4, 6]) + shuffled(total, [1, 3, 5, 7])
            body.stored(four * body.splat(final, 4), body.at("%sums", body.op(f"mul i64 {g}, {8 * ROWS}")), 32 * k)
        return []

    body.loop("0", "%groups", 1, [], group)
    body.stored(body.constant(Kind("double"), 1.0), "%counter", BOUND)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))
