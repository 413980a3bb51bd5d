"""Elements of the types of floats whose numbers float32 holds, as float32 and back."""

from __future__ import annotations

from anydml.exact.formats import FORMATS, Format
from anydml.kernels.code.values import Value
from anydml.kernels.numbers import halves
from anydml.tensor import EIGHT_BIT_FLOATS, DataType

NARROW = (DataType.FLOAT16, DataType.BFLOAT16, *EIGHT_BIT_FLOATS)  # types of floats of fewer than 32 bits
SINGLES = (DataType.FLOAT32, *NARROW)


def widened(bits: Value, data_type: DataType) -> Value:
    """The numbers of elements' bits as float32, exactly; a NaN stays one."""
    if data_type == DataType.FLOAT32:
        return bits.cast(bits.kind.of("float"))
    if data_type == DataType.FLOAT16:
        return halves.widened(bits)
    if data_type == DataType.BFLOAT16:
        return (bits.converted("zext", bits.kind.of("i32")) << 16).cast(bits.kind.of("float"))
    assert data_type in EIGHT_BIT_FLOATS, data_type
    if data_type == DataType.FLOAT8_E5M2:  # the upper half of FLOAT16
        return halves.widened(bits.converted("zext", bits.kind.of("i16")) << 8)
    return _wide(bits, FORMATS[data_type])


def narrowed(x: Value, data_type: DataType) -> Value:
    """Float64 or float32 as the bits of elements, rounded once, half to even; NaN is quiet and positive but in FLOAT32.

    A NaN of FLOAT32 keeps its sign and payload.
    """
    wide = x.kind.element == "double"
    if data_type == DataType.FLOAT32:
        return (x.converted("fptrunc", x.kind.of("float")) if wide else x).bits()
    if data_type == DataType.FLOAT16:
        return halves.narrowed(halves.odd_single(x) if wide else x)
    if data_type == DataType.BFLOAT16:
        return _brain(_odd_single(x) if wide else x)
    assert data_type in EIGHT_BIT_FLOATS, data_type
    return _byte(halves.odd_single(x) if wide else x, FORMATS[data_type])


def near(x: Value, data_type: DataType) -> tuple[Value, Value]:
    """The bits of numbers less than a place of float32 from x, and the lanes where these may differ, or x is NaN."""
    if data_type == DataType.BFLOAT16:
        raised = x.bits() + 0x8000  # the upper half is rounded, but for numbers beside ties
        found = raised.shifted_right(16, signed=False).converted("trunc", x.kind.of("i16"))
        return found, ((raised + 1) & 0xFFFF).compared("ult", 3) | x.compared("uno", x)
    low, high = (_of_number(x * share, data_type) for share in (1 - 2.0**-24, 1 + 2.0**-23))  # by a place or more
    return high, low.compared("ne", high) | x.compared("uno", x)


def brains_near(x: Value, places: int) -> tuple[Value, Value]:
    """The bits of BFLOAT16 of numbers at most so many places of float32 from x, and the lanes where these may differ."""
    raised = x.bits() + 0x8000
    found = raised.shifted_right(16, signed=False).converted("trunc", x.kind.of("i16"))
    return found, ((raised + places) & 0xFFFF).compared("ult", 2 * places + 1)


def between(low: Value, high: Value, data_type: DataType) -> tuple[Value, Value]:
    """The bits of numbers less than a place of float32 beyond two ends, and the lanes where these may differ, or are NaN."""
    one, two = near(low, data_type), near(high, data_type)
    return two[0], one[0].compared("ne", two[0]) | one[1] | two[1]


def _of_number(x: Value, data_type: DataType) -> Value:
    """`narrowed`, but of NaN any bits."""
    if data_type == DataType.FLOAT16 and x.body.has_halves:
        return x.converted("fptrunc", x.kind.of("half")).bits()
    return narrowed(x, data_type)


def agreed(low: Value, high: Value, data_type: DataType) -> tuple[Value, Value]:
    """The bits of 16 that store a number between two float32, and the lanes where all numbers between them have the same bits.

    The ends themselves do not count, which may be ties; they are not NaN.
    """
    if data_type == DataType.FLOAT16:
        one, two = (_of_number(x, data_type) for x in (low, high))
        return two, one.compared("eq", two)
    one, two = (x.bits() + 0x8000 for x in (low, high))
    return two.shifted_right(16, signed=False).converted("trunc", two.kind.of("i16")), (one ^ two).compared("ult", 1 << 16)


def brains_within(x: Value, share: float) -> tuple[Value, Value]:
    """The bits of BFLOAT16 of numbers within a share, of at most 2^-26, of a float64, and the lanes where these may differ.

    The nearest float32 is less than a place from them: half of one, and a quarter. If some lane is that near to a tie, all are
    rounded by their float64: a tie that is within the share is the nearest float32, others are more than 2^-24 of x from it.
    """
    body, single = x.body, x.converted("fptrunc", x.kind.of("float"))
    raised, lanes = single.bits() + 0x8000, x.kind.lanes
    found = body.chosen(single.compared("uno", single), 0x7FC0, raised.shifted_right(16, signed=False))
    doubt = ((raised + 1) & 0xFFFF).compared("ult", 3)

    def closely() -> list[Value]:
        back = single.converted("fpext", x.kind)
        tie = (single.bits() & 0xFFFF).compared("eq", 0x8000)
        return [_brain(_odd(x, single, back)), tie & (x - back).magnitude().compared("ole", x.magnitude() * share)]

    def known() -> list[Value]:
        return [found.converted("trunc", x.kind.of("i16")), body.constant(doubt.kind, False)]

    some = doubt.name
    if lanes:
        some = body.op(f"icmp ne i{lanes} {body.op(f'bitcast {doubt.kind.text} {some} to i{lanes}')}, 0")
    bits, left = body.either(some, closely, known, seldom=True)
    return bits, left


def _there_and_back(x: Value) -> tuple[Value, Value]:
    """A float64 rounded to float32, and this as float64."""
    single = x.converted("fptrunc", x.kind.of("float"))
    return single, single.converted("fpext", x.kind)


def _odd_single(x: Value) -> Value:
    """Float64 as float32, rounded to odd also among float32's subnormal numbers, which BFLOAT16's are, too."""
    return _odd(x, *_there_and_back(x))


def _odd(x: Value, single: Value, back: Value) -> Value:
    body, raw = x.body, single.bits()
    cut = body.chosen(back.magnitude().compared("ogt", x.magnitude()), raw - 1, raw)
    return body.chosen(back.compared("one", x), cut | 1, cut).cast(single.kind)


def _brain(x: Value) -> Value:
    """A float32 as BFLOAT16's bits (i16): the upper half, rounded half to even; a carry goes into the exponent."""
    body, bits = x.body, x.bits()
    even = bits.shifted_right(16, signed=False) & 1
    found = (bits + 0x7FFF + even).shifted_right(16, signed=False)
    found = body.chosen(x.compared("uno", x), 0x7FC0, found)
    return found.converted("trunc", x.kind.of("i16"))


def _wide(bits: Value, form: Format) -> Value:
    """The numbers of 8-bit floats without infinities (i8) as float32."""
    body, words = bits.body, bits.converted("zext", bits.kind.of("i32"))
    single, fraction = words.kind.of("float"), form.precision - 1
    size = words & 0x7F
    normal = (size << 23 - fraction) + (_normal_exponent(form) + 126 << 23)
    small = size.converted("sitofp", single) * 2.0**form.lowest  # no subnormal float32, which some processors are slow at
    found = body.chosen(size.compared("ult", 1 << fraction), small.bits(), normal) | (words & 0x80) << 24
    nan = words.compared("eq", 0x80) if form.suffix == "FNUZ" else size.compared("eq", 0x7F)
    return body.chosen(nan, 0x7FC00000, found).cast(single)


def _byte(x: Value, form: Format) -> Value:
    """A float32 as the bits of 8-bit floats (i8), rounded half to even; beyond the largest, infinity or NaN."""
    body, raw, size = x.body, x.bits(), x.magnitude()
    places = 24 - form.precision
    # subnormal numbers are multiples of the last place of this power of two
    last = 2.0 ** (form.lowest + 23)
    small = (size + last).bits() - body.constant(raw.kind.of("float"), last).bits()
    even = size.bits().shifted_right(places, signed=False) & 1
    exponent = _normal_exponent(form) + 126
    large = (size.bits() - (exponent << 23) + (1 << places - 1) - 1 + even).shifted_right(places, signed=False)
    found = body.chosen(size.compared("olt", 2.0 ** (form.lowest + form.precision - 1)), small, large)
    signed = found | (raw.shifted_right(24, signed=False) & 0x80)
    if form.suffix == "FNUZ":
        signed = body.chosen(found.compared("eq", 0), found, signed)
    over = found.compared("ugt", form.largest)
    infinity = (raw.shifted_right(24, signed=False) & 0x80) | form.infinity
    signed = body.chosen(over, form.quiet_nan if form.suffix else infinity, signed)
    return body.chosen(x.compared("uno", x), form.quiet_nan, signed).converted("trunc", x.kind.of("i8"))


def _normal_exponent(form: Format) -> int:
    """The exponent of the smallest normal number."""
    return form.lowest + form.precision - 1


__all__ = ["NARROW", "SINGLES", "agreed", "between", "brains_near", "brains_within", "narrowed", "near", "widened"]
