"""Mistakes in operators of floats, computed by NumPy: each is named, with the element that is farthest off and its errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import anydml as dml
from anydml.explain.mistakes import narrowed, quantised
from anydml.testing import assert_rounding
from every_kernel import Ran

Array = npt.NDArray[Any]
F32, F64 = np.float32, np.float64
RANDOM = np.random.default_rng(33)


def normal(*sizes: int) -> Array:
    return RANDOM.standard_normal(sizes).astype(F32)


A, B, C = normal(24, 24), normal(24, 24), normal(24, 24)
X, FILTER, BIAS = normal(2, 4, 8, 8), normal(4, 4, 3, 3), normal(1, 4, 1, 1)
EDGES = {"start_padding": (1, 1), "end_padding": (1, 1)}
NORMALISED: dict[str, Any] = {"axes": (2, 3), "normalize_variance": True, "epsilon": 1e-5}
SMALL = X * F32(0.01)
PARAMETERS = {"mean": normal(1, 4, 1, 1), "variance": np.abs(normal(1, 4, 1, 1)) + F32(0.1), "scale": normal(1, 4, 1, 1)}
BATCH: dict[str, Any] = {"input": X, **PARAMETERS, "bias": BIAS, "epsilon": 1e-5}
T, CUBE = normal(300), normal(5, 6, 6)


def convolved(x: Array, f: Array, bias: Array | None = BIAS) -> Array:
    """A convolution of 3 x 3, with a padding of 1, in float64."""
    n, _, h, w = x.shape
    padded = np.pad(x.astype(F64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    total = np.zeros((n, len(f), h, w)) + (0 if bias is None else bias)
    for i, j in np.ndindex(3, 3):
        total += np.einsum("nchw,mc->nmhw", padded[:, :, i : i + h, j : j + w], f[:, :, i, j].astype(F64))
    return total


def rooted(variance: Array) -> Array:
    return np.asarray(np.sqrt(variance + 1e-5))


def normalised(x: Array, axes: tuple[int, ...] = (2, 3), root: Callable[[Array], Array] = rooted, ddof: int = 0) -> Array:
    wide = x.astype(F64)
    centred: Array = wide - wide.mean(axes, keepdims=True)
    return np.asarray(centred / root(wide.var(axes, keepdims=True, ddof=ddof)))


def batch(**changes: Any) -> Array:
    p = {name: np.asarray(x, F64) for name, x in (BATCH | changes).items()}
    return np.asarray((p["input"] - p["mean"]) / np.sqrt(p["variance"] + p["epsilon"]) * p["scale"] + p["bias"])


def mean_of_windows(x: Array, counted: bool) -> Array:
    h, w = x.shape[2:]
    padded, ones = (np.pad(y, ((0, 0), (0, 0), (1, 1), (1, 1))) for y in (x.astype(F64), np.ones(x.shape)))
    sums, counts = (sum(y[:, :, i : i + h, j : j + w] for i, j in np.ndindex(3, 3)) for y in (padded, ones))
    return np.asarray(sums / (9 if counted else counts))


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x.astype(F64))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def without(x: Array, axis: int, place: int) -> Array:
    changed: Array = x.copy()
    np.moveaxis(changed, axis, 0)[place] = 0
    return changed


def halves(x: Array, y: Array) -> npt.NDArray[np.float16]:
    """A product with every product and every sum rounded to float16."""
    total = np.zeros((len(x), y.shape[1]), np.float16)
    for k in range(x.shape[1]):
        total += x[:, k, None].astype(np.float16) * y[None, k].astype(np.float16)
    return total


PRODUCT: tuple[Any, dict[str, Any]] = (dml.gemm, {"a": A, "b": B})
WITH_C: tuple[Any, dict[str, Any]] = (dml.gemm, {"a": A, "b": B, "c": C})
IMAGE: tuple[Any, dict[str, Any]] = (dml.convolution, {"input": X, "filter": FILTER, "bias": BIAS, **EDGES})
ROWS: tuple[Any, dict[str, Any]] = (dml.mean_variance_normalization1, {"input": X, **NORMALISED})
SMALL_ROWS: tuple[Any, dict[str, Any]] = (dml.mean_variance_normalization1, {"input": SMALL, **NORMALISED})
GELU: tuple[Any, dict[str, Any]] = (dml.activation_gelu, {"input": T})
MEANS: tuple[Any, dict[str, Any]] = (dml.average_pooling, {"input": X, "window_size": (3, 3), **EDGES})
WIDE = {"a": A.astype(F64), "b": B.astype(F64)}
NHWC = np.ascontiguousarray(X).reshape(2, 8, 8, 4).transpose(0, 3, 1, 2)
CASES: dict[str, tuple[str, tuple[Any, dict[str, Any]], Array]] = {
    "A transposed": ("a_transposed", PRODUCT, WIDE["a"].T @ WIDE["b"]),
    "B transposed": ("b_transposed", PRODUCT, WIDE["a"] @ WIDE["b"].T),
    "A and B transposed": ("both_transposed", PRODUCT, WIDE["a"].T @ WIDE["b"].T),
    "A and B swapped": ("inputs_swapped", PRODUCT, WIDE["b"] @ WIDE["a"]),
    "without C": ("no_c", WITH_C, WIDE["a"] @ WIDE["b"]),
    "without the last term": ("missing_term", PRODUCT, WIDE["a"][:, :-1] @ WIDE["b"][:-1]),
    "without the first term": ("missing_term", PRODUCT, WIDE["a"][:, 1:] @ WIDE["b"][1:]),
    "cut to TF32": ("tf32_inputs", PRODUCT, narrowed(A, 11, cut=True).astype(F64) @ narrowed(B, 11, cut=True)),
    "rounded to bfloat16": ("bfloat16_inputs", PRODUCT, narrowed(A, 8).astype(F64) @ narrowed(B, 8)),
    "rounded to float16": ("float16_inputs", PRODUCT, A.astype(np.float16).astype(F64) @ B.astype(np.float16)),
    "arithmetic in float16": ("float16_arithmetic", PRODUCT, halves(A, B)),
    "A quantised to int8 in blocks of 24": ("int8_activations", PRODUCT, quantised(A, 24).astype(F64) @ WIDE["b"]),
    "the filter flipped": ("filter_flipped", IMAGE, convolved(X, FILTER[:, :, ::-1, ::-1])),
    "without the bias": ("no_bias", IMAGE, convolved(X, FILTER, None)),
    "the input, NCHW, read as NHWC": ("channel_order", IMAGE, convolved(NHWC, FILTER)),
    "the input's channels in the reverse order": ("channel_order", IMAGE, convolved(X[:, ::-1], FILTER)),
    "the filter's height and width swapped": ("height_and_width", IMAGE, convolved(X, FILTER.swapaxes(2, 3))),
    "without the last channel": ("missing_term", IMAGE, convolved(X, without(FILTER, 1, -1))),
    "without the first place of the filter's dimension 3": ("missing_term", IMAGE, convolved(X, without(FILTER, 3, 0))),
    "along axes 1, 2, 3 instead of 2, 3": ("wrong_axis", ROWS, normalised(X, (1, 2, 3))),
    "epsilon 0.001 instead of 1e-05": ("epsilon", ROWS, normalised(X, root=lambda v: np.sqrt(v + 1e-3))),
    "epsilon outside of the root": ("epsilon_outside_root", SMALL_ROWS, normalised(SMALL, root=lambda v: np.sqrt(v) + 1e-5)),
    "the unbiased variance": ("unbiased_variance", ROWS, normalised(X, ddof=1)),
    "with epsilon 0.0001 instead of 1e-05": ("epsilon", (dml.batch_normalization, BATCH), batch(epsilon=1e-4)),
    "scale and bias swapped": ("inputs_swapped", (dml.batch_normalization, BATCH), batch(scale=BIAS, bias=PARAMETERS["scale"])),
    "without the scale": ("no_scale", (dml.batch_normalization, BATCH), batch(scale=1)),
    "the tanh approximation of GELU": (
        "tanh_gelu", GELU, T / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (T.astype(F64) + 0.044715 * T.astype(F64) ** 3)))
    ),
    "the sigmoid approximation of GELU": ("sigmoid_gelu", GELU, T / (1 + np.exp(-1.702 * T.astype(F64)))),
    "padding counted": ("padding_counted", MEANS, mean_of_windows(X, True)),
    "along axis 1 instead of 2": ("wrong_axis", (dml.activation_softmax1, {"input": CUBE, "axes": (2,)}), softmax(CUBE, 1)),
    "along axis 2 instead of 1": (
        "wrong_axis", (dml.reduce, {"input": CUBE, "function": "SUM", "axes": (1,)}), CUBE.astype(F64).sum(2).reshape(5, 1, 6)
    ),
    "function AVERAGE": (
        "function", (dml.reduce, {"input": CUBE, "function": "SUM", "axes": (1,)}), CUBE.astype(F64).mean(1, keepdims=True)
    ),
    "alpha 0.5 instead of 1": (
        "alpha", (dml.activation_elu, {"input": T, "alpha": 1.0}), np.where(T > 0, T, 0.5 * np.expm1(T.astype(F64)))
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CASES)
def test_a_mistake_is_named(sentence: str) -> None:
    name, (function, arguments), result = CASES[sentence]
    actual = result.astype(F32)
    found = dml.compare(function, **arguments, actual=actual)
    best = [cause for cause in found.causes if cause.equal == found.causes[0].equal]
    assert name in [cause.name for cause in best], str(found)
    assert any(sentence in cause.sentence for cause in best), str(found)
    assert found.causes[0].equal == found.causes[0].outputs
    assert found.causes[0].near
    assert "Within rounding, it equals" in str(found)
    with pytest.raises(AssertionError, match="beyond rounding"):
        assert_rounding(actual, function, **arguments)


def test_what_rounding_explains_and_what_nothing_explains_has_no_cause() -> None:
    product = A @ B
    assert not dml.compare(dml.gemm, A, B, actual=product).causes
    assert not dml.compare(dml.gemm, A, B, actual=product * F32(1.01)).causes
    noise = normalised(X).astype(F32) + F32(0.01) * normal(*X.shape)
    assert not dml.compare(dml.mean_variance_normalization1, X, **NORMALISED, actual=noise).causes


def test_a_cause_that_explains_most_says_how_many() -> None:
    actual = convolved(X, FILTER, None).astype(F32)
    actual[0, 0, :2] += 1
    found = dml.compare(dml.convolution, X, FILTER, BIAS, **EDGES, actual=actual)
    assert found.causes[0].name == "no_bias"
    assert (found.causes[0].equal, found.causes[0].outputs) == (496, 512)
    assert "in 496 of 512 outputs (496 of the 512 that differ); the exact result in 0" in str(found)


def test_errors_of_floats_are_told_with_a_fraction_of_a_unit() -> None:
    """The exact result is 1/3: float32 is off by a third of a unit, and the next number by two thirds."""
    one, three = np.ones(4, F32), np.full(4, 3, F32)
    exact = dml.element_wise_divide(one, three)
    actual = exact.copy()
    actual[2] = np.nextafter(actual[2], F32(0))
    found = dml.compare(dml.element_wise_divide, one, three, actual=actual)
    assert found.worst[0].ulp == pytest.approx(2 / 3, rel=1e-6)
    assert found.worst[0].absolute == pytest.approx(2 / 3 * 2.0**-25, rel=1e-6)
    assert found.worst[0].relative == pytest.approx(2.0**-24, rel=1e-6)
    assert str(found) == (
        "1 of 4 differs by 1 ULP, at [2] 0.333333313, not 0.333333343 (absolute error 1.99e-08, relative 5.96e-08, 0.667 ULP)"
    )


def test_where_units_mislead_the_absolute_error_stands_alone(ran: Ran) -> None:
    x = np.array([1, 2, 3e-8], F32)
    actual = x.copy()
    actual[2] = -3e-8
    actual[0] += F32(2e-3)
    found = dml.compare(dml.element_wise_multiply, x, np.ones(3, F32), actual=actual)
    assert str(found).startswith(
        "2 of 3 differ by up to 0.002, the farthest at [0] 1.00199997, not 1.0 (absolute error 0.002, "
    )
    assert "e+09" not in str(found)
    nothing = np.zeros(3, F32)
    nothing[1] = np.nan
    sentence = str(dml.compare(dml.element_wise_multiply, x, np.zeros(3, F32), actual=nothing))
    assert sentence == "1 of 3 differs, at [1] nan (0x7fc00000), not 0.0"
    ran(2, 2)


@pytest.mark.parametrize("bits", [8, 11])
def test_numbers_of_fewer_bits_are_rounded_half_to_even_or_cut(bits: int) -> None:
    x = np.concatenate([normal(500), np.array([0, -0.0, np.inf, np.nan, 1 + 2.0**-bits, 1 + 3 * 2.0**-bits], F32)])
    significand, exponent = np.frexp(x[np.isfinite(x)].astype(F64))
    for cut, rounded in ((False, np.rint), (True, np.trunc)):
        due = np.ldexp(rounded(np.ldexp(significand, bits)), exponent - bits)
        got = narrowed(x, bits, cut=cut)
        np.testing.assert_array_equal(got[np.isfinite(x)], due)
        np.testing.assert_array_equal(got[~np.isfinite(x)], x[~np.isfinite(x)])
