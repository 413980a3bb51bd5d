"""`compare`: another machine's output against the exact one, and what its differences have in common."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from anydml.schema.check import check
from anydml.devices.binding import Slot
from anydml.devices.device import named
from anydml.errors import BindingError, Fault
from anydml.exact.requantization import Requantize, significands
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.operators.slice import Slice1
from anydml.kernels.cpu.matrix_multiply import aligned
from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc

Arrays = Mapping[str, NDArray[Any]]
Value = int | float | str

WORST = 5  # differences shown
EXAMINED = 4096  # differences whose distance to a tie is computed in fractions: those that an estimate finds farthest
ROWS = 1024  # rows of the output looked at together


@dataclass(frozen=True)
class Difference:
    """One output that differs.

    exact: the real value before it is rounded, wrapped or clamped, zero point added; of a copy, the element it is of.
    distance_to_tie: from the nearest number at which rounding turns, 0 to 0.5; None where nothing is rounded.
    """

    coordinates: tuple[int, ...]
    expected: Value
    actual: Value
    exact: str
    distance_to_tie: float | None = None


@dataclass(frozen=True)
class Comparison:
    """How an output differs from the exact one; `str()` says it in a sentence, `to_dict()` as JSON has it.

    steps: actual - expected -> how many; empty for copies, whose elements are not compared by size. worst: the farthest off,
    for a copy the first. within: no difference lies farther from a tie, those of saturated outputs left out; rounded up.
    saturated_low, saturated_high, ties, wrapped: of all outputs, right or wrong. differing_clamped: how many of the
    differing outputs saturate (or wrap).
    """

    total: int
    differing: int
    steps: Mapping[int, int] = field(default_factory=dict)
    worst: tuple[Difference, ...] = ()
    within: float | None = None
    saturated_low: int = 0
    saturated_high: int = 0
    ties: int = 0
    wrapped: int = 0
    differing_clamped: int = 0

    @property
    def equal(self) -> bool:
        return not self.differing

    def to_dict(self) -> dict[str, Any]:
        members = asdict(self)
        members["steps"] = {str(step): count for step, count in self.steps.items()}
        members["worst"] = [{**asdict(d), "coordinates": list(d.coordinates)} for d in self.worst]
        return {"equal": self.equal, "sentence": str(self), **members}

    def __str__(self) -> str:
        if self.equal:
            return f"all {self.total} are equal{self._census()}"
        one = self.differing == 1
        sentence = f"{self.differing} of {self.total} differ{'s' if one else ''}"
        if not self.steps:
            first = self.worst[0]
            exact = f"{first.exact} = {first.expected}" if first.exact else str(first.expected)
            return f"{sentence}, {'' if one else 'the first '}at {list(first.coordinates)}: {first.actual}, not {exact}"
        sizes = sorted(set(map(abs, self.steps)))
        sentence += f" by {sizes[0]}" + (f" to {sizes[-1]}" if len(sizes) > 1 else "")
        others = self.differing - self.differing_clamped
        if self.differing_clamped:
            which = f"{self.differing_clamped} " if others else "" if one else "all "
            sentence += f", {which}where the exact {'sum wraps' if self.wrapped else 'result saturates'}"
        if others and self.within is not None:
            which = "the others " if self.differing_clamped else "" if one else "all "
            sentence += f", {which}{f'within {_short(self.within)} of' if self.within else 'at'} a tie"
        return sentence

    def _census(self) -> str:
        counts = (
            (self.ties, "tie", "ties"),
            (self.saturated_low, "saturates low", "saturate low"),
            (self.saturated_high, "saturates high", "saturate high"),
            (self.wrapped, "sum wraps", "sums wrap"),
        )
        told = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
        return f" ({', '.join(told)})" if told else ""


def compare(desc: Desc, inputs: Mapping[str, Any], actual: Any) -> Comparison:
    """Compare another implementation's output of a desc with the exact one.

    inputs: arrays by field name in snake_case, as `bind` takes them, owned ones among them. actual: an array of the output's
    data type, of its sizes (whatever its strides) or one-dimensional, laid out as the desc says. DescError where the desc
    breaks a rule; BindingError, also for `actual`; DataError.
    """
    check(desc)
    output = desc.spec.outputs[0].name
    tensors: dict[str, TensorDesc] = {f.name: t for f in desc.spec.tensors if (t := getattr(desc, f.name)) is not None}
    told = tensors.pop(output)
    # here all inputs are bound alike, wherever they lie and without padding, and the expected output is packed
    free = {name: TensorDesc(t.data_type, t.sizes, strides=t.strides) for name, t in tensors.items()}
    operator = named("cpu").compile(replace(desc, **free, **{output: TensorDesc(told.data_type, told.sizes)}))
    expected = np.empty(told.sizes, told.data_type.dtype)
    bound = operator.bind(**inputs, **{output: expected})
    got = _laid_out(actual, told)
    bound.execute()
    slots = (Slot(name, t, 0, writable=False) for name, t in free.items())
    views = {slot.name: cast(NDArray[Any], slot.view(inputs[slot.name])) for slot in slots}  # bind has taken them: no faults
    newest = operator.desc.as_newest()
    if isinstance(newest, QuantizedLinearMatrixMultiply):
        return _tallied(_quantized(views, expected), expected, got)
    if isinstance(newest, MatrixMultiplyInteger):
        return _tallied(_integer(views), expected, got)
    return _copied(newest, expected, got)


def _laid_out(actual: Any, t: TensorDesc) -> NDArray[Any]:
    """The actual output as an array of its desc's sizes."""
    if isinstance(actual, np.ndarray) and actual.dtype == t.data_type.dtype and actual.shape == t.sizes:
        return actual
    view = Slot("actual", t, 0, writable=False).view(actual)
    if isinstance(view, Fault):
        raise BindingError([view])
    return view


def _copied(d: Desc, expected: NDArray[Any], actual: NDArray[Any]) -> Comparison:
    """Bits against bits: -0.0 is not 0.0, and a NaN keeps its payload."""
    bits = f"u{expected.itemsize}"
    at = np.argwhere(expected.view(bits) != np.ascontiguousarray(actual).view(bits))
    worst = []
    for c in map(tuple, at[:WORST].tolist()):
        exact = ""
        if isinstance(d, Slice1):
            along = zip(d.start(), d.input_window_strides, c, strict=True)
            exact = f"input_tensor{[start + stride * i for start, stride, i in along]}"
        worst.append(Difference(c, _value(expected[c]), _value(actual[c]), exact))
    return Comparison(expected.size, len(at), worst=tuple(worst))


def _value(element: Any) -> Value:
    """An element as JSON can hold it; a NaN shows its bits."""
    value: int | float = element.item()
    if math.isnan(value):
        return f"nan ({int(element.view(f'u{element.itemsize}')):#x})"
    return value if math.isfinite(value) else str(value)


@dataclass(frozen=True)
class _Block:
    """Some rows of the output.

    at: their index. counts: of the totals of a Comparison. clamped: which outputs saturate or wrap. distance: an estimate of
    how far each is from a tie. exact: the position of an output in the block -> its real value, and how far from a tie.
    """

    at: tuple[Any, ...]
    counts: Mapping[str, int]
    clamped: NDArray[np.bool_]
    distance: NDArray[np.float64]
    exact: Callable[[int, int], tuple[str, Fraction | None]]


def _tallied(blocks: Iterable[_Block], expected: NDArray[Any], actual: NDArray[Any]) -> Comparison:
    counts: Counter[str] = Counter()
    steps: Counter[int] = Counter()
    worst: list[tuple[int, float, Difference]] = []
    within: Fraction | None = None
    for block in blocks:
        counts.update(block.counts)
        wanted, got = expected[block.at], actual[block.at]
        step = got.astype(np.int64) - wanted
        rows, columns = np.nonzero(step)
        step, distance, clamped = step[rows, columns], block.distance[rows, columns], block.clamped[rows, columns]
        steps.update(dict(zip(*(x.tolist() for x in np.unique(step, return_counts=True)), strict=True)))
        counts["differing_clamped"] += int(np.count_nonzero(clamped))
        for i in np.lexsort((-distance, -np.abs(step)))[:WORST].tolist():
            at = int(rows[i]), int(columns[i])
            exact, tie = block.exact(*at)
            lead, first = block.at[:-1], block.at[-1].start
            near = None if tie is None else float(tie)
            difference = Difference((*lead, first + at[0], at[1]), int(wanted[at]), int(got[at]), exact, near)
            worst.append((abs(int(step[i])), near or 0.0, difference))
        free = np.flatnonzero(~clamped)
        for i in free[np.argsort(-distance[free])][:EXAMINED].tolist():
            _, tie = block.exact(int(rows[i]), int(columns[i]))
            if tie is None:
                break
            within = tie if within is None else max(within, tie)
    worst.sort(key=lambda ranked: (-ranked[0], -ranked[1]))
    return Comparison(
        expected.size,
        steps.total(),
        dict(sorted(steps.items())),
        tuple(difference for _, _, difference in worst[:WORST]),
        None if within is None else float(within),
        **counts,
    )


def _sums(views: Arrays) -> Iterator[tuple[tuple[Any, ...], NDArray[np.float64]]]:
    """Index and sums of (A - AZeroPoint) * (B - BZeroPoint), some rows of the output at a time.

    float64 is exact here in any order of summation: every partial sum is an integer below 2^48.
    """
    a, b = views["a_tensor"], views["b_tensor"]
    a_zero_point, b_zero_point = _spread(views, "a_zero_point_tensor", a.shape), _spread(views, "b_zero_point_tensor", b.shape)
    for batch in np.ndindex(*a.shape[:-2]):
        right = b[batch].astype(np.float64) - b_zero_point[batch]
        for row in range(0, a.shape[-2], ROWS):
            at = (*batch, slice(row, row + ROWS))
            yield at, (a[at].astype(np.float64) - a_zero_point[at]) @ right


def _spread(views: Arrays, name: str, sizes: tuple[int, ...]) -> NDArray[Any]:
    """A scale or zero point, broadcast; zeros where it is absent."""
    array = views.get(name)
    return np.broadcast_to(np.uint8(0) if array is None else aligned(array, len(sizes)), sizes)


def _integer(views: Arrays) -> Iterator[_Block]:
    for at, q in _sums(views):
        wraps = (q < -(2.0**31)) | (q >= 2.0**31)

        def exact(row: int, column: int, q: NDArray[np.float64] = q) -> tuple[str, None]:
            return str(int(q[row, column])), None

        yield _Block(at, {"wrapped": int(np.count_nonzero(wraps))}, wraps, np.zeros_like(q), exact)


def _quantized(views: Arrays, expected: NDArray[Any]) -> Iterator[_Block]:
    """The real value of an output is q * p / y * 2^e: p and y odd integers from the significands of the scales."""
    limits = np.iinfo(expected.dtype)
    names = ("a_scale_tensor", "b_scale_tensor", "output_scale_tensor", "output_zero_point_tensor")
    scales_and_zero_point = [_spread(views, name, expected.shape) for name in names]
    for at, sums in _sums(views):
        *scales, zero_point = (x[at] for x in scales_and_zero_point)
        (a, a_exponent), (b, b_exponent), (y, y_exponent) = map(significands, scales)
        q, p, y, e = sums.astype(np.int64), a * b * np.sign(y), np.abs(y), a_exponent + b_exponent - y_exponent
        rounded = Requantize(*scales)(sums) + zero_point  # clamped far beyond the limits
        low, high = rounded < limits.min, rounded > limits.max
        # a tie is an odd number of halves: y divides q * p, and the powers of two in q are those that 2^(e + 1) lacks
        halves = (e < 0) & (e > -63) & (q & -q == np.int64(1) << np.clip(-1 - e, 0, 62))
        ties = halves & (q % (y // np.gcd(p, y)) == 0)
        estimate = np.ldexp(sums * p / y, e.astype(np.int32))
        counts = {"saturated_low": low, "saturated_high": high, "ties": ties}

        def exact(
            row: int,
            column: int,
            terms: tuple[NDArray[Any], ...] = (q, p, y, e, zero_point),
        ) -> tuple[str, Fraction]:
            q, p, y, e, zero_point = (int(x[row, column]) for x in terms)
            real = Fraction(q * p, y) * Fraction(2) ** e
            return repr(float(real + zero_point)), abs(real - math.floor(real) - Fraction(1, 2))

        distance = np.abs(estimate - np.floor(estimate) - 0.5)
        yield _Block(at, {name: int(np.count_nonzero(x)) for name, x in counts.items()}, low | high, distance, exact)


def _short(x: float) -> str:
    """Two digits, rounded up: 6.1e-5."""
    two_digits = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(x))
    return f"{float(two_digits):.2g}".replace("e-0", "e-")
