"""`compare`: another machine's output against the exact one, what the differences have in common, and their causes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import Slot
from anydml.errors import BindingError, Fault
from anydml.explain.beyond import judged
from anydml.explain.bounded import Unbounded
from anydml.explain.case import Case
from anydml.explain.causes import causes
from anydml.explain.comparison import MOST_UNITS, Comparison, Difference, Value
from anydml.explain.compiled import compiled
from anydml.explain.quotient import Quotient
from anydml.feature_level import FeatureLevel
from anydml.functional.describing import described
from anydml.kernels.evaluate.evaluator import evaluators
from anydml.kernels.numpy.contract import aligned
from anydml.kernels.reference import elements_of
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.operators.slice import Slice1
from anydml.schema.check import check
from anydml.schema.field import INPUT
from anydml.schema.operator import Desc
from anydml.schema.statement import Nest, stated
from anydml.tensor import DATA_TYPES, TensorDesc, four_bit

Arrays = Mapping[str, NDArray[Any]]

WORST = 5  # differences shown
EXAMINED = 4096  # differences whose distance to a tie is computed in fractions: the farthest by an estimate
SAMPLE = 256  # elements that tell whether rounding may explain all
ROWS = 1024  # rows of the output examined together


@overload
def compare(desc: Desc, /, inputs: Mapping[str, Any], actual: Any, output: str | None = None) -> Comparison: ...


@overload
def compare(function: Callable[..., Any], /, *arguments: Any, actual: Any, **keywords: Any) -> Comparison: ...


def compare(function_or_desc: Any, /, *arguments: Any, **keywords: Any) -> Comparison:
    """Compare another implementation's output with the exact one of a desc and its inputs, or of an eager call.

    `compare(desc, inputs, actual)`: inputs are arrays by field name in snake_case, as `bind` takes them, including owned
    ones. `compare(function, *arguments, actual=output)`: the arguments are those of the eager function. actual: an array of
    the output's data type and sizes, with any strides; with a desc, it may also be one-dimensional, in the desc's layout.
    output: the output's name, if the operator has several. DescError if the desc breaks a rule; BindingError, also for
    `actual`; DataError.
    """
    case = case_of(function_or_desc, *arguments, **keywords)
    return explained(case, differences(case))


def case_of(function_or_desc: Any, /, *arguments: Any, **keywords: Any) -> Case:
    """The case of `compare`'s arguments."""
    if isinstance(function_or_desc, Desc):
        return _case(function_or_desc, *arguments, **keywords)
    if "actual" not in keywords:
        raise TypeError("compare takes the output of an eager function as a keyword: actual=output")
    actual = keywords.pop("actual")
    # the desc of an array with negative strides would be that of its mirror image, and so would be the coordinates
    arguments = tuple(map(_forward, arguments))
    keywords = {name: _forward(value) for name, value in keywords.items()}
    output = keywords.pop("output", None)
    call = described(function_or_desc, *arguments, **keywords)
    desc, inputs, shapes = call.desc, call.inputs, call.shapes
    if output is None and len(shapes) == 1:
        (output,) = shapes
    if output not in shapes and f"{output}_tensor" in shapes:  # the name in the result's tuple
        output = f"{output}_tensor"
    if output in shapes and (shape := getattr(actual, "shape", None)) is not None:
        if tuple(shape) != shapes[output]:
            message = f"actual is {actual.dtype}, shape {tuple(shape)}, where the result has shape {shapes[output]}"
            raise BindingError([Fault("actual", message)])
        if isinstance(actual, np.ndarray):  # with the leading ones that the call adds
            actual = actual.reshape(next(found.desc.sizes for found in desc.tensors() if found.name == output))
    return _case(desc, inputs, actual, output)


def _forward(value: Any) -> Any:
    backwards = isinstance(value, np.ndarray) and any(stride < 0 for stride in value.strides)
    return np.ascontiguousarray(value) if backwards else value


def _case(desc: Desc, inputs: Mapping[str, Any], actual: Any, output: str | None = None) -> Case:
    checked = check(desc, FeatureLevel.EXTENDED)
    if output is None and len(checked.outputs) == 1:
        output = checked.outputs[0]
    if output not in checked.outputs:
        asked_for = "output must name the output that `actual` is" if output is None else f"there is no output {output!r}"
        raise BindingError([Fault("output", f"{asked_for}; {desc.spec.name} has {', '.join(checked.outputs)}")])
    free = _unbound(desc)
    operator = compiled(free)
    tensors = {found.name: found.desc for found in free.tensors()}
    made = {name: _empty(tensors[name]) for name in checked.outputs}
    bound = operator.bind(**inputs, **_as_bound(made))
    got = _laid_out(actual, next(found.desc for found in desc.tensors() if found.name == output))
    bound.execute()
    arrays = elements_of(bound.arrays, tensors)
    views = {name: view for name, view in arrays.items() if name not in made}
    return Case(operator.desc.as_newest(), views, arrays[output], got, output)


def _empty(t: TensorDesc) -> NDArray[Any]:
    """A packed array to bind to an output."""
    return np.empty(t.element_bytes, np.uint8) if t.data_type.element_bits == 4 else np.empty(t.sizes, t.data_type.dtype)


def _unbound(desc: Desc) -> Desc:
    """The desc without ownership, alignment and padding of tensors, and with packed outputs."""

    def free(t: TensorDesc, role: str) -> TensorDesc:
        return TensorDesc(t.data_type, t.sizes, strides=t.strides if role == INPUT else None)

    changes: dict[str, Any] = {}
    for f in desc.spec.tensors:
        value = getattr(desc, f.name)
        if value is not None:
            changes[f.name] = tuple(free(t, f.role) for t in value) if f.sized_by else free(value, f.role)
    return replace(desc, **changes)


def _as_bound(arrays: Arrays) -> dict[str, Any]:
    """Arrays by tensor as `bind` takes them: an array of tensors is one list."""
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        field, _, place = name.partition("[")
        if place:
            found.setdefault(field, []).append(array)
        else:
            found[name] = array
    return found


def differences(case: Case) -> Comparison:
    """The comparison of a case, without a search for causes."""
    desc, views, expected, got, output = case
    if isinstance(desc, QuantizedLinearMatrixMultiply):
        return _tallied(_quantized(views, expected), expected, got)
    if isinstance(desc, MatrixMultiplyInteger):
        return _tallied(_integer(views), expected, got)
    nest = stated(desc)[output]
    return _copied(desc, expected, got) if nest.moves else _computed(case, nest)


def _computed(case: Case, nest: Nest) -> Comparison:
    """Compare by steps of the output's type: integers, or units in the last place of floats; NaN equals NaN."""
    _, views, expected, actual, _ = case
    floats = expected.dtype.kind == "f"
    wanted, got = (ordered(x) if floats else x for x in (expected, np.ascontiguousarray(actual)))
    differs = expected.view(f"u{expected.itemsize}") != np.ascontiguousarray(actual).view(f"u{actual.itemsize}")
    if floats:
        differs &= ~(np.isnan(expected) & np.isnan(actual))
    at = np.argwhere(differs)
    step = _differences(got[differs], wanted[differs])
    comparable = ~(np.isnan(expected[differs]) | np.isnan(actual[differs])) if floats else np.ones(len(at), bool)
    kept = {int(s): int(n) for s, n in zip(*np.unique(step[comparable], return_counts=True), strict=True) if s}
    distance = np.where(comparable, np.abs(step.astype(np.float64)), np.inf)
    if floats and max(map(abs, kept), default=0) >= MOST_UNITS:  # then units do not tell how large the errors are
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.abs(actual[differs].astype(np.float64) - expected[differs])
        distance = np.where(np.isnan(away), np.inf, away)
    evaluator = evaluators({"it": nest}, {"it": DATA_TYPES[expected.dtype]}, views)["it"]
    worst = []
    for i in np.argsort(-distance, kind="stable")[:WORST]:
        c = tuple(at[i].tolist())
        exact = evaluator.digits(*c)
        worst.append(
            Difference(c, _value(expected[c]), _value(actual[c]), exact, None, *_errors(expected[c], actual[c], exact))
        )
    return Comparison(expected.size, len(at), kept, tuple(worst), unit=" ULP" if floats else "")


def _differences(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """The differences of integers; of 64 bits, as Python's."""
    if x.dtype.itemsize < 8:
        return np.asarray(x.astype(np.int64) - y)
    return np.array([a - b for a, b in zip(x.tolist(), y.tolist(), strict=True)], object)


def _errors(expected: Any, actual: Any, exact: str) -> tuple[float | None, float | None, float | None]:
    """The absolute and the relative error of a float, and the error in units in the last place."""
    if expected.dtype.kind != "f" or not (np.isfinite(expected) and np.isfinite(actual)):
        return None, None, None
    try:
        real = Fraction(exact)
    except ValueError:  # such as an interval around 0
        real = Fraction(float(expected))
    away = abs(Fraction(float(actual)) - real)
    units = away / Fraction(float(np.spacing(np.abs(expected))))
    return _float(away), _float(away / abs(real)) if real else None, _float(units)


def _float(x: Fraction) -> float | None:
    try:
        return float(x)
    except OverflowError:
        return None


def ordered(x: NDArray[Any]) -> NDArray[Any]:
    """Floats as integers in the order of the numbers: neighbours differ by 1, and both zeros are 0."""
    bits = x.view(f"i{x.itemsize}")
    lowest = np.iinfo(bits.dtype).min
    return np.where(bits < 0, lowest - bits, bits)


def explained(case: Case, comparison: Comparison) -> Comparison:
    """A comparison with the causes of its differences."""
    if comparison.equal:
        return comparison
    found = replace(comparison, causes=causes(case.desc, case.inputs, case.expected, case.actual))
    if not found.strange:
        return found
    with suppress(Unbounded):
        some = judged(case, sample=SAMPLE)  # of a wrong result, these tell
        beyond, forms = some if some.beyond is not None else judged(case)
        if beyond is None:
            return replace(found, forms=tuple(forms) or ("rounding at each step",))
    return found


def _laid_out(actual: Any, t: TensorDesc) -> NDArray[Any]:
    """The actual output as an array of its desc's sizes; 4-bit elements are int8 or uint8."""
    if isinstance(actual, np.ndarray) and actual.shape == t.sizes:
        if t.data_type == four_bit(actual.dtype):
            return actual.astype(t.data_type.unpacked_dtype)
        if t.data_type == DATA_TYPES.get(actual.dtype):
            return actual
    view = Slot("actual", t, 0, writable=False).view(actual)
    if isinstance(view, Fault):
        raise BindingError([view])
    return elements_of({"actual": view}, {"actual": t})["actual"]


def _copied(d: Desc, expected: NDArray[Any], actual: NDArray[Any]) -> Comparison:
    """Compare bits: -0.0 differs from 0.0, and a NaN must keep its payload."""
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

    at: their index. counts: their part of a Comparison's totals. clamped: which outputs saturate or wrap. distance: an
    estimate of how far each is from a tie. exact: an output's position in the block -> its real value, and its distance
    from a tie.
    """

    at: tuple[Any, ...]
    counts: Mapping[str, int]
    clamped: NDArray[np.bool_]
    distance: NDArray[np.float64]
    exact: Callable[[int, int], tuple[str, Fraction | None]]


def _tallied(blocks: Iterable[_Block], expected: NDArray[Any], actual: NDArray[Any]) -> Comparison:
    counts: Counter[str] = Counter()  # field of a Comparison -> total
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
        **cast(dict[str, Any], counts),
    )


def _sums(views: Arrays) -> Iterator[tuple[tuple[Any, ...], NDArray[np.float64]]]:
    """Indices and sums of (A - AZeroPoint) * (B - BZeroPoint), for some rows of the output at a time.

    float64 is exact here in any order of summation, since every partial sum is an integer below 2^48.
    """
    a, b = views["a_tensor"], views["b_tensor"]
    a_zero_point, b_zero_point = (
        _broadcast(views, "a_zero_point_tensor", a.shape),
        _broadcast(views, "b_zero_point_tensor", b.shape),
    )
    for batch in np.ndindex(*a.shape[:-2]):
        right = b[batch].astype(np.float64) - b_zero_point[batch]
        for row in range(0, a.shape[-2], ROWS):
            at = (*batch, slice(row, row + ROWS))
            yield at, (a[at].astype(np.float64) - a_zero_point[at]) @ right


def _broadcast(views: Arrays, name: str, sizes: tuple[int, ...]) -> NDArray[Any]:
    """A scale or zero point, broadcast; zeros if it is absent."""
    array = views.get(name)
    return np.broadcast_to(np.uint8(0) if array is None else aligned(array, len(sizes)), sizes)


def _integer(views: Arrays) -> Iterator[_Block]:
    for at, q in _sums(views):
        wraps = (q < -(2.0**31)) | (q >= 2.0**31)

        def exact(row: int, column: int, q: NDArray[np.float64] = q) -> tuple[str, None]:
            return str(int(q[row, column])), None

        yield _Block(at, {"wrapped": int(np.count_nonzero(wraps))}, wraps, np.zeros_like(q), exact)


def _quantized(views: Arrays, expected: NDArray[Any]) -> Iterator[_Block]:
    limits = np.iinfo(expected.dtype)
    names = ("a_scale_tensor", "b_scale_tensor", "output_scale_tensor", "output_zero_point_tensor")
    scales_and_zero_point = [_broadcast(views, name, expected.shape) for name in names]
    for at, sums in _sums(views):
        *scales, zero_point = (x[at] for x in scales_and_zero_point)
        quotient = Quotient(sums.astype(np.int64), *scales)
        rounded = quotient.half_even + zero_point
        low, high = rounded < limits.min, rounded > limits.max
        counts = {"saturated_low": low, "saturated_high": high, "ties": quotient.ties}

        def exact(
            row: int,
            column: int,
            quotient: Quotient = quotient,
            zero_point: NDArray[Any] = zero_point,
        ) -> tuple[str, Fraction]:
            real = quotient.exact((row, column))
            return repr(float(real + int(zero_point[row, column]))), abs(real - math.floor(real) - Fraction(1, 2))

        distance = np.abs(quotient.estimate - np.floor(quotient.estimate) - 0.5)
        yield _Block(at, {name: int(np.count_nonzero(x)) for name, x in counts.items()}, low | high, distance, exact)
