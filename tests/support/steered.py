"""Inputs whose exact results lie within 2^-50 of a tie: one small term is moved until they do.

A result y is near a tie of FLOAT32 by 2^-25 of itself at most. A term that makes up for this distance has 24 bits, so what is
left is 2^-50 of y, or nothing. Exact numbers are fractions, others have 300 bits. Nothing of anydml is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import gmpy2
import ml_dtypes
import numpy as np
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray

Array = NDArray[Any]
Rng = np.random.RandomState
CONTEXT = gmpy2.context(precision=220, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max())
CERTAIN = mpq(1, 2**200)  # of a tie: what is nearer, the precision does not tell from it
NEAR = mpq(1, 2**50)
ZERO = -1  # instead of the bits of a result that is 0, of either sign


class Steered(NamedTuple):
    """An operator's fields and inputs, and the places of the output that are near ties, with the bits that they have, or ZERO.

    sizes: of the output. near, ties: how many are within 2^-50 of a tie, and on one.
    """

    operator: str
    kernel: str
    fields: dict[str, Any]
    inputs: dict[str, Array]
    output: str
    sizes: tuple[int, ...]
    at: Any
    bits: Array
    near: int
    ties: int


def exactly(x: Any) -> Any:
    """A float as a fraction."""
    return mpq(float(x))


def fractions(x: Array) -> Array:
    """An array of floats as fractions."""
    return np.array([mpq(v) for v in x.ravel().tolist()], object).reshape(x.shape)


class Aim:
    """Ties that results are moved to. They are counted, and the bits of the results noted, in order."""

    def __init__(self, rng: Rng, dtype: Any = np.float32) -> None:
        self.rng, self.dtype = rng, np.dtype(dtype)
        self.bits: list[int] = []
        self.near = self.ties = 0

    def beside(self, y: Any) -> tuple[Any, Any, Any]:
        """The tie that is nearest to y, and the two numbers of the type that it is between."""
        f = self.dtype.type(float(y))
        exact = mpq(float(f))
        up = y > exact or (y == exact and self.rng.randint(2))
        g = np.nextafter(f, self.dtype.type(np.inf if up else -np.inf))
        return (exact + mpq(float(g))) / 2, *((f, g) if up else (g, f))

    def term(self, distance: Any) -> Any:
        """A term of the type that is nearly a distance."""
        return self.dtype.type(float(distance))

    def note(self, result: Any, tie: Any, low: Any, high: Any) -> None:
        """Note what a result, as it has become, is rounded to."""
        off = result - tie
        share = abs(off / tie)
        if off == 0:
            self.ties += 1
            y = low if int(low.view(f"u{self.dtype.itemsize}")) % 2 == 0 else high
        else:
            assert share > CERTAIN or isinstance(off, type(NEAR))
            y = high if off > 0 else low
        self.near += share <= NEAR
        assert low <= float(result) * (1 + 2.0**-20) or high >= float(result)
        self.bits.append(int(y.view(f"u{self.dtype.itemsize}")) if y else ZERO)

    def made(self, operator: str, kernel: str, fields: dict[str, Any], inputs: dict[str, Array], sizes: Sequence[int],
             at: Any = ..., output: str = "output_tensor") -> Steered:  # fmt: skip
        bits = np.array(self.bits)
        return Steered(operator, kernel, fields, inputs, output, tuple(sizes), at, bits, self.near, self.ties)


def drawn(rng: Rng, *sizes: int) -> Array:
    """Floats of 24 bits and of many sizes in half of the rows, and of 8 bits in the others, whose sums can be moved to ties."""
    x = rng.uniform(0.5, 1, sizes) * np.where(rng.randint(0, 2, sizes), 1, -1)
    short = np.round(x * 256) / 256
    rows = (np.arange(sizes[0]) % 2).reshape(-1, *[1] * (len(sizes) - 1))
    found: Array = np.where(rows, x * 2.0 ** -rng.randint(0, 20, sizes), short).astype(np.float32)
    return found


def dots(rng: Rng, count: int, terms: int, factors: Array, aim: Aim, divisor: int = 1) -> Array:
    """Rows of terms whose sum of products with factors, divided, is near a tie; the last is moved, or the last two."""
    x = drawn(rng, count, terms)
    exact = fractions(x)
    for k, row in enumerate(exact):
        moved = terms - 1 - k % 2 * (terms > 2)
        rest = sum((a * b for a, b in zip(row[:moved], factors[:moved], strict=True)), mpq(0))
        tie, low, high = aim.beside(rest / divisor)
        for at in range(moved, terms):
            x[k, at] = aim.term((tie * divisor - rest) / factors[at])
            if k % 4 == 1 and at == terms - 1:  # what would be a tie is just beside it
                x[k, at] = np.nextafter(x[k, at], x.dtype.type(rng.choice((-1, 1))))
            rest += exactly(x[k, at]) * factors[at]
        aim.note(rest / divisor, tie, low, high)
    return x


ONES = np.array([mpq(1)] * 64, object)


# --- families ---


def gemm(rng: Rng, count: int) -> Steered:
    aim, terms, columns = Aim(rng), 7, 4
    a, b = drawn(rng, count // columns, terms), drawn(rng, terms, columns)
    c = np.zeros((count // columns, columns), np.float32)
    for (i, j), y in np.ndenumerate(fractions(a) @ fractions(b)):
        tie, low, high = aim.beside(y)
        c[i, j] = aim.term(tie - y)
        aim.note(y + mpq(float(c[i, j])), tie, low, high)
    fields = dict(alpha=1.0, beta=1.0)
    return aim.made("GEMM", "contract.floats:compiled", fields, {"a_tensor": a, "b_tensor": b, "c_tensor": c}, c.shape)


def convolution(rng: Rng, count: int) -> Steered:
    aim = Aim(rng)
    f = drawn(rng, 2, 1, 3, 3)[1:]
    f[0, 0, 2, 1:] = 1  # so that some sums can be moved to ties
    w = fractions(f).ravel()
    x = dots(rng, count, 9, w, aim).reshape(count, 1, 3, 3)
    fields = dict(
        mode="CROSS_CORRELATION", direction="FORWARD", strides=(1, 1), dilations=(1, 1), start_padding=(0, 0),
        end_padding=(0, 0), output_padding=(0, 0), group_count=1,
    )  # fmt: skip
    inputs = {"input_tensor": x, "filter_tensor": f}
    return aim.made("CONVOLUTION", "contract.floats:compiled", fields, inputs, (count, 1, 1, 1))


def reduced(function: str, divisor: int) -> Callable[[Rng, int], Steered]:
    def make(rng: Rng, count: int) -> Steered:
        aim = Aim(rng)
        x = dots(rng, count, 9, ONES[:9], aim, divisor)
        fields = dict(function=function, axes=(1,))
        return aim.made("REDUCE", "reduce:compiled", fields, {"input_tensor": x}, (count, 1))

    return make


def lengths(rng: Rng, count: int) -> Steered:
    """Roots of sums of squares."""
    aim = Aim(rng)
    x = drawn(rng, count, 6)
    for k, row in enumerate(fractions(x)):
        rest = sum(v * v for v in row[:-2])
        tie, low, high = aim.beside(gmpy2.sqrt(mpfr(rest)))
        tie, low, high = (tie, low, high) if tie * tie > rest else above(high, aim)
        for at in (-2, -1):  # the first leaves something for the second
            x[k, at] = (
                np.nextafter(aim.term(gmpy2.sqrt(mpfr(tie * tie - rest))), aim.dtype.type(0))
                if at == -2
                else aim.term(gmpy2.sqrt(mpfr(tie * tie - rest)))
            )
            rest += exactly(x[k, at]) ** 2
        aim.note(gmpy2.sqrt(mpfr(rest)), tie, low, high)
    fields = dict(function="L2", axes=(1,))
    return aim.made("REDUCE", "reduce:compiled", fields, {"input_tensor": x}, (count, 1))


def above(low: Any, aim: Aim) -> tuple[Any, Any, Any]:
    """The tie above a number of the type."""
    high = np.nextafter(low, aim.dtype.type(np.inf))
    return (mpq(float(low)) + mpq(float(high))) / 2, low, high


def softmax(rng: Rng, count: int) -> Steered:
    """The first share of each row; two elements far below the others are moved."""
    aim = Aim(rng)
    x = drawn(rng, count, 6)
    for row in x:
        powers = [gmpy2.exp(mpfr(exactly(v))) for v in row[:4]]
        rest = gmpy2.fsum(powers)
        f = np.float32(float(powers[0] / rest))
        g = np.nextafter(f, np.float32(0))
        low, high = (g, f) if powers[0] / rest < exactly(f) else (f, np.nextafter(f, np.float32(1)))
        tie = (exactly(low) + exactly(high)) / 2
        if powers[0] / rest <= tie:  # more terms make it smaller
            low, high = np.nextafter(low, np.float32(0)), low
            tie = (exactly(low) + exactly(high)) / 2
        for k in (4, 5):  # the first leaves something for the second
            wanted = float(gmpy2.log(powers[0] / tie - rest))
            row[k] = np.nextafter(np.float32(wanted), np.float32(-np.inf)) if k == 4 else np.float32(wanted)
            rest += gmpy2.exp(mpfr(exactly(row[k])))
        aim.note(powers[0] / rest, tie, low, high)
    fields = dict(axes=(1,))
    return aim.made("ACTIVATION_SOFTMAX1", "reduce:compiled", fields, {"input_tensor": x}, x.shape, np.s_[:, 0])


def normalised(rng: Rng, count: int) -> Steered:
    aim, width = Aim(rng), 5
    sizes = (count // width, 1, 1, width)
    x, scale, bias = drawn(rng, *sizes), drawn(rng, *sizes), np.zeros(sizes, np.float32)
    epsilon = mpq(1, 1 << 17)
    exact, scales = fractions(x), fractions(scale)
    for k, row in enumerate(exact[:, 0, 0]):
        mean = sum(row) / width
        deviation = gmpy2.sqrt(mpfr(sum((v - mean) ** 2 for v in row) / width + epsilon))
        for j, v in enumerate(row):
            y = (v - mean) / deviation * scales[k, 0, 0, j]
            tie, low, high = aim.beside(y)
            bias[k, 0, 0, j] = aim.term(tie - y)
            aim.note(y + exactly(bias[k, 0, 0, j]), tie, low, high)
    fields = dict(axes=(3,), use_mean=True, use_variance=True, epsilon=2.0**-17)
    inputs = {"input_tensor": x, "scale_tensor": scale, "bias_tensor": bias}
    return aim.made("MEAN_VARIANCE_NORMALIZATION2", "reduce:compiled", fields, inputs, sizes)


def batch_normalised(rng: Rng, count: int) -> Steered:
    aim = Aim(rng)
    x, mean, scale = (drawn(rng, 1, count, 1, 1) for _ in range(3))
    variance, bias = abs(drawn(rng, 1, count, 1, 1)), np.zeros((1, count, 1, 1), np.float32)
    epsilon = mpq(1, 1 << 17)
    for k, (v, m, f, s) in enumerate(zip(*(fractions(t.ravel()) for t in (x, mean, scale, variance)), strict=True)):
        y = (v - m) / gmpy2.sqrt(mpfr(s + epsilon)) * f
        tie, low, high = aim.beside(y)
        bias[0, k] = aim.term(tie - y)
        aim.note(y + exactly(bias[0, k, 0, 0]), tie, low, high)
    inputs = {"input_tensor": x, "mean_tensor": mean, "variance_tensor": variance, "scale_tensor": scale, "bias_tensor": bias}
    fields = dict(spatial=True, epsilon=2.0**-17)
    return aim.made("BATCH_NORMALIZATION", "elementwise:compiled", fields, inputs, x.shape)


def added(rng: Rng, count: int) -> Steered:
    """The tangent of a sum, of which one part is moved."""
    aim = Aim(rng)
    a, b = drawn(rng, count), np.zeros(count, np.float32)
    for k, x in enumerate(fractions(a)):
        tie, low, high = aim.beside(gmpy2.tanh(mpfr(x)))
        b[k] = aim.term(gmpy2.atanh(mpfr(tie)) - x)
        aim.note(gmpy2.tanh(mpfr(x + exactly(b[k]))), tie, low, high)
    fields = dict(fused_activation="ACTIVATION_TANH")
    return aim.made("ELEMENT_WISE_ADD1", "elementwise:compiled", fields, {"a_tensor": a, "b_tensor": b}, (count,))


def attention(rng: Rng, count: int) -> Steered:
    aim, keys, columns = Aim(rng), 4, 8
    batch = count // columns
    q, k, v = drawn(rng, batch, 1, 4), drawn(rng, batch, keys, 4), drawn(rng, batch, keys, columns)
    queries, others = fractions(q), fractions(k)
    for n in range(batch):
        weights = [gmpy2.exp(mpfr(sum(queries[n, 0] * row))) for row in others[n]]
        total = gmpy2.fsum(weights)
        for c in range(columns):
            rest = gmpy2.fsum([w * exactly(x) for w, x in zip(weights[:-1], v[n, :-1, c], strict=True)])
            tie, low, high = aim.beside(rest / total)
            v[n, -1, c] = aim.term((tie * total - rest) / weights[-1])
            aim.note((rest + weights[-1] * exactly(v[n, -1, c])) / total, tie, low, high)
    fields = dict(scale=1.0, mask_filter_value=-1e4, head_count=1, mask_type="NONE")
    inputs = {"query_tensor": q, "key_tensor": k, "value_tensor": v}
    return aim.made("MULTIHEAD_ATTENTION", "attention:compiled", fields, inputs, (batch, 1, columns))


def states(rng: Rng, count: int) -> Steered:
    """Cells of an LSTM: f c + i g, where c is moved."""
    aim, units, width = Aim(rng), 4, 3
    batch = count // units
    x, w = drawn(rng, 1, 1, batch, width), drawn(rng, 1, 1, 4 * units, width)
    cells = np.zeros((1, 1, batch, units), np.float32)
    sums = fractions(x[0, 0]) @ fractions(w[0, 0]).T
    for n in range(batch):
        for j in range(units):
            i, f, g = (mpfr(sums[n, gate * units + j]) for gate in (0, 2, 3))
            y = gmpy2.tanh(g) / (1 + gmpy2.exp(-i))
            forget = 1 / (1 + gmpy2.exp(-f))
            tie, low, high = aim.beside(y)
            cells[0, 0, n, j] = aim.term((tie - y) / forget)
            aim.note(y + forget * exactly(cells[0, 0, n, j]), tie, low, high)
    inputs = {
        "input_tensor": x, "weight_tensor": w, "recurrence_tensor": np.zeros((1, 1, 4 * units, units), np.float32),
        "cell_mem_init_tensor": cells,
    }  # fmt: skip
    fields = dict(
        direction="FORWARD", activation_descs=["ACTIVATION_SIGMOID", "ACTIVATION_TANH", "ACTIVATION_TANH"],
        use_clip_threshold=False, clip_threshold=0.0, couple_input_forget=False,
    )  # fmt: skip
    return aim.made("LSTM", "recurrence:compiled", fields, inputs, (1, 1, batch, units), output="output_cell_single_tensor")


def pooled(rng: Rng, count: int) -> Steered:
    aim = Aim(rng)
    x = dots(rng, count, 6, ONES[:6], aim, 6).reshape(1, count, 2, 3)
    fields = dict(
        strides=(1, 1), window_size=(2, 3), start_padding=(0, 0), end_padding=(0, 0), include_padding=False
    )  # fmt: skip
    return aim.made("AVERAGE_POOLING", "windows:compiled", fields, {"input_tensor": x}, (1, count, 1, 1))


def resampled(rng: Rng, count: int) -> Steered:
    """Between two elements: the second is moved."""
    aim = Aim(rng)
    offset = exactly(np.float32(0.2))
    at = mpq(1, 1) - offset  # (0 + 1/2) / (1/2) - offset of the place in the input
    w = np.array([1 - at, at] if at <= 1 else [mpq(0), mpq(1)], object)
    x = dots(rng, count, 2, w, aim).reshape(1, count, 1, 2)
    fields = dict(
        interpolation_mode="LINEAR", scales=(1.0, 1.0, 1.0, 0.5), input_pixel_offsets=(0.5, 0.5, 0.5, float(np.float32(0.2))),
        output_pixel_offsets=(-0.5,) * 4,
    )  # fmt: skip
    return aim.made("RESAMPLE1", "nests:compiled", fields, {"input_tensor": x}, (1, count, 1, 1))


def running(rng: Rng, count: int) -> Steered:
    aim = Aim(rng)
    x = dots(rng, count, 20, ONES[:20], aim)
    fields = dict(axis=1, axis_direction="INCREASING", has_exclusive_sum=False)
    return aim.made("CUMULATIVE_SUMMATION", "scan:compiled", fields, {"input_tensor": x}, x.shape, np.s_[:, -1])


def halves(rng: Rng, count: int) -> Steered:
    """Sums of FLOAT16, of which four terms are moved, each by what the ones before leave."""
    aim = Aim(rng, np.float16)
    x = drawn(rng, count, 9).astype(np.float16)
    for row in x:
        rest = sum((exactly(v) for v in row[:5]), mpq(0))
        tie, low, high = aim.beside(rest) if rest else above(np.float16(0.5), aim)
        for k in range(5, 9):
            row[k] = aim.term(tie - rest)
            rest += exactly(row[k])
        aim.note(rest, tie, low, high)
    fields = dict(function="SUM", axes=(1,))
    return aim.made("REDUCE", "reduce:compiled", fields, {"input_tensor": x}, (count, 1))


# --- types of few bits, whose terms leave more ---

LAST = 7  # terms that are moved, each by what the ones before leave


def short_dots(aim: Aim, rows: Array, factors: Array, divisor: int = 1) -> None:
    """Move the last terms of rows until the sum of products with factors, divided, is near a tie."""
    count = rows.shape[-1]
    for k, row in enumerate(rows):
        rest = sum((exactly(a) * b for a, b in zip(row[:-LAST], factors[:-LAST], strict=True)), mpq(0))
        tie, low, high = aim.beside(rest / divisor) if rest else above(aim.dtype.type(0.5), aim)
        for at in range(count - LAST, count):
            term = aim.term((tie * divisor - rest) / factors[at])
            if k % 4 == 1 and at == count - 1:  # what would be a tie is just beside it
                term = np.nextafter(term, aim.dtype.type(1))
            row[at] = term
            rest += exactly(row[at]) * factors[at]
        aim.note(rest / divisor, tie, low, high)


def short(make: Callable[[Aim, Array], Steered], dtype: Any) -> Callable[[Rng, int], Steered]:
    """A family with elements of a type of few bits, from rows of 12."""

    def made(rng: Rng, count: int) -> Steered:
        x = rng.uniform(0.5, 1, (count, 12)) * np.where(rng.randint(0, 2, (count, 12)), 1, -1)
        return make(Aim(rng, dtype), x.astype(dtype))

    return made


def short_gemm(aim: Aim, x: Array) -> Steered:
    """Products of rows with a column, whose last elements are small, so that products are fine."""
    b = np.concatenate([x[0, : 12 - LAST], np.full(LAST, 2.0**-10, x.dtype)])
    if x.dtype == np.float16:
        x *= np.float16(2.0**10)
    short_dots(aim, x, fractions(b.astype(np.float64)))
    fields = dict(alpha=1.0, beta=0.0)
    return aim.made("GEMM", "contract.floats:compiled", fields, {"a_tensor": x, "b_tensor": b.reshape(12, 1)}, (len(x), 1))


def short_pooled(aim: Aim, x: Array) -> Steered:
    short_dots(aim, x, np.array([mpq(1)] * 12, object), 12)
    fields = dict(strides=(1, 1), window_size=(3, 4), start_padding=(0, 0), end_padding=(0, 0), include_padding=False)
    inputs = {"input_tensor": x.reshape(1, -1, 3, 4)}
    return aim.made("AVERAGE_POOLING", "windows:compiled", fields, inputs, (1, len(x), 1, 1))


def short_running(aim: Aim, x: Array) -> Steered:
    short_dots(aim, x, np.array([mpq(1)] * 12, object))
    fields = dict(axis=1, axis_direction="INCREASING", has_exclusive_sum=False)
    return aim.made("CUMULATIVE_SUMMATION", "scan:compiled", fields, {"input_tensor": x}, x.shape, np.s_[:, -1])


def short_sum(aim: Aim, x: Array) -> Steered:
    short_dots(aim, x, np.array([mpq(1)] * 12, object))
    return aim.made("REDUCE", "reduce:compiled", dict(function="SUM", axes=(1,)), {"input_tensor": x}, (len(x), 1))


def short_attention(aim: Aim, x: Array) -> Steered:
    """Values of which all but five are moved; rows of elements become values of eight columns."""
    keys, columns = x.shape[1], 8
    batch = len(x) // columns
    q, k = (aim.rng.uniform(-1, 1, (batch, n, 4)).astype(x.dtype) for n in (1, keys))
    v = np.ascontiguousarray(x.reshape(batch, columns, keys).transpose(0, 2, 1))
    queries, others = fractions(q.astype(np.float64)), fractions(k.astype(np.float64))
    for n in range(batch):
        weights = [gmpy2.exp(mpfr(sum(queries[n, 0] * row))) for row in others[n]]
        total = gmpy2.fsum(weights)
        for c in range(columns):
            rest = gmpy2.fsum([w * exactly(y) for w, y in zip(weights[:-LAST], v[n, :-LAST, c], strict=True)])
            tie, low, high = aim.beside(rest / total)
            for at in range(keys - LAST, keys):
                v[n, at, c] = aim.term((tie * total - rest) / weights[at])
                rest += weights[at] * exactly(v[n, at, c])
            aim.note(rest / total, tie, low, high)
    fields = dict(scale=1.0, mask_filter_value=-1e4, head_count=1, mask_type="NONE")
    inputs = {"query_tensor": q, "key_tensor": k, "value_tensor": v}
    return aim.made("MULTIHEAD_ATTENTION", "attention:compiled", fields, inputs, (batch, 1, columns))


FAMILIES: dict[str, Callable[[Rng, int], Steered]] = {
    "GEMM": gemm,
    "convolution": convolution,
    "sum": reduced("SUM", 1),
    "average": reduced("AVERAGE", 9),
    "L2": lengths,
    "softmax": softmax,
    "normalisation": normalised,
    "batch normalisation": batch_normalised,
    "tanh of a sum": added,
    "attention": attention,
    "LSTM": states,
    "pooling": pooled,
    "resampling": resampled,
    "running sum": running,
    "sum of FLOAT16": halves,
    "GEMM of FLOAT16": short(short_gemm, np.float16),
    "pooling of FLOAT16": short(short_pooled, np.float16),
    "GEMM of BFLOAT16": short(short_gemm, ml_dtypes.bfloat16),
    "pooling of BFLOAT16": short(short_pooled, ml_dtypes.bfloat16),
    "attention of BFLOAT16": short(short_attention, ml_dtypes.bfloat16),
    "running sum of BFLOAT16": short(short_running, ml_dtypes.bfloat16),
    "sum of BFLOAT16": short(short_sum, ml_dtypes.bfloat16),
}


def steered(name: str, count: int, seeds: Sequence[int]) -> Iterator[Steered]:
    """Results of a family near ties, so many for each seed."""
    for seed in seeds:
        with gmpy2.context(CONTEXT):
            made = FAMILIES[name](Rng(seed), count)
        yield made
