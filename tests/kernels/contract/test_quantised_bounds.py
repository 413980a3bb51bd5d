"""The bound of an estimate of quantised sums of products, beside the quotients as they are stated, in float32 step by step."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from anydml.kernels.contract.quantised.bounds import estimate, of_magnitudes, of_sums
from anydml.kernels.contract.quantised.norms import most_norms, norms
from anydml.kernels.contract.quantised.of_planes import ROUNDINGS
from anydml.kernels.contract.quantised.sums import QuantisedSums
from anydml.tensor import DataType
from every_kernel import SOAK, Ran

INT8 = DataType.INT8
TERMS, CHANNELS, CHANGED = 18, 4, 1.25


class Scales(NamedTuple):
    """Scale and zero point of x, the weights' scale, scale and zero point of the output, and of a tensor that is added."""

    x: tuple[float, int]
    w: float
    y: tuple[float, int]
    other: tuple[float, int] | None = None
    known: bool = True  # the weights are constants
    fused: bool = False


# and the largest ratio of an error to the bound, and of an error of a sum in float64 to its own
CASES = (
    (Scales((0.02, 7), 0.003, (0.04, -3)), 0.0686, 0.0039),
    (Scales((0.02, 7), 0.003, (0.04, -3), fused=True), 0.0798, 0.0039),
    (Scales((0.02, 7), 0.003, (0.04, -3), known=False), 0.0568, 0.002),
    (Scales((0.11, 0), 0.007, (0.2, 0), (0.3, 5)), 0.0857, 0.0032),
    (Scales((0.9, -128), 0.09, (11.0, 127), (0.7, 0), known=False), 0.133, 0.0004),
)


def region(s: Scales, weights: Any, bias: Any) -> QuantisedSums:
    """A region of which only what bounds need is filled in."""
    scales, nothing = np.full(CHANNELS, s.w, np.float32), None
    if s.known:
        *of_weights, lean = norms(weights, scales, 0)
    else:
        of_weights, lean = [*most_norms(INT8, np.zeros(CHANNELS, np.int64), scales, TERMS)], None
    sums: Any = nothing  # is not read
    zeros = np.zeros(CHANNELS, np.int32)
    return QuantisedSums(
        sums, {}, ("x", "weights", "y", None), 0, single(s.x), (scales, zeros), (of_weights[0], of_weights[1]), lean, bias,
        s.other and single(s.other), (-math.inf, math.inf), single(s.y), {},
    )  # fmt: skip


def single(of: tuple[float, int]) -> tuple[float, int]:
    return float(np.float32(of[0])), of[1]


def fraction(x: Any) -> Fraction:
    return Fraction(float(x))


def rounded(x: Fraction) -> Any:
    """The float32 next to a fraction, by way of float64, which its bits fill only by chance."""
    return np.float32(float(x))


@pytest.mark.parametrize(("scales", "record", "of_float64"), CASES)
def test_estimates_are_within_their_bound(scales: Scales, record: float, of_float64: float, ran: Ran) -> None:
    rng = np.random.RandomState(5)
    weights = rng.randint(-127, 128, (CHANNELS, TERMS))
    bias = (rng.uniform(-3, 3, CHANNELS) * scales.y[0]).astype(np.float32)
    made = region(scales, weights, bias)
    found = estimate(made, INT8, scales.other and INT8, INT8, scales.fused)
    assert not isinstance(found, str)
    bounds, lost = 0.5 - found.limit.astype(np.float64), of_sums(made, INT8, TERMS)
    x_scale, w_scale, y_scale = (np.float32(n) for n in (scales.x[0], scales.w, scales.y[0]))
    largest = largest_of_sums = largest_share = 0.0
    cases = 0
    for at in range(400 * SOAK):
        c = at % CHANNELS
        d = np.clip(rng.randint(-20, 21, TERMS) + rng.randint(-100, 101) * (at % 3 == 0), -128, 127) - scales.x[1]
        x, w = x_scale * d.astype(np.float32), w_scale * weights[c].astype(np.float32)
        exact = sum((fraction(a) * fraction(b) for a, b in zip(x, w, strict=True)), fraction(bias[c]))
        in_float64 = float(bias[c])
        for a, b in zip(x.tolist(), w.tolist(), strict=True):
            in_float64 += a * b
        error = abs(fraction(in_float64) - exact)
        largest_of_sums = max(largest_of_sums, float(error / fraction(lost[c])))
        magnitudes = sum((abs(fraction(a) * fraction(b)) for a, b in zip(x, w, strict=True)), abs(fraction(bias[c])))
        largest_share = max(largest_share, float(error / magnitudes / fraction(of_magnitudes(TERMS))))
        total = exact
        o, h = 0, 0.0
        if scales.other is not None:
            o, h = int(rng.randint(-128, 128)), float(found.other)
            total = fraction(rounded(exact)) + fraction(np.float32(scales.other[0]) * np.float32(o - scales.other[1]))
        quotient = np.float32(rounded(total) / y_scale)
        if abs(quotient) > 256:
            continue
        s, factor, term = np.float32(int(d @ weights[c])), found.factor[c], found.term[c]
        v = rounded(fraction(s) * fraction(factor) + fraction(term)) if scales.fused else s * factor + term
        v = np.float32(v + np.float32(np.float32(o) * np.float32(h)))
        largest, cases = max(largest, abs(float(v) - float(quotient)) / bounds[c]), cases + 1
    print(f"the largest error is {largest:.4f} of the bound, and {largest_of_sums:.3g} of that of sums in float64")
    assert largest <= 1
    assert largest_of_sums <= 1
    print(f"the largest error is {largest_share:.3g} of that of magnitudes")
    assert 2.0**-8 < largest_share <= 2.0**-4
    if SOAK == 1:
        assert record / CHANGED <= largest <= record * CHANGED, f"the largest ratio is {largest:.3g}, and was {record}"
        assert of_float64 / CHANGED <= largest_of_sums <= of_float64 * CHANGED, f"{largest_of_sums:.3g} was {of_float64}"
    ran(cases, 100 * SOAK)


def test_the_bound_has_what_dequantising_the_added_tensor_rounds() -> None:
    """A scale that is no power of two is the only difference; its multiples are rounded to float32."""
    weights, bias = np.ones((CHANNELS, TERMS), np.int64), np.zeros(CHANNELS, np.float32)
    even, odd = (float(np.float32(0.25) + np.float32(2.0**-25) * n) for n in (0, 1))
    bounds = []
    for scale in (even, odd):
        found = estimate(region(Scales((0.013, 0), 0.0071, (2.0**-6, 0), (scale, 0)), weights, bias), INT8, INT8, INT8)
        assert not isinstance(found, str)
        bounds.append(0.5 - found.limit.astype(np.float64).max())
    rounded = max(abs(fraction(np.float32(odd) * np.float32(n)) - fraction(odd) * n) for n in range(-128, 128))
    assert float(rounded) * 2**6 == pytest.approx(bounds[1] - bounds[0], rel=2e-3)


def test_the_roundings_of_an_estimate_of_planes_are_a_share_of_its_parts() -> None:
    """Of an exact sum times a factor, plus a bias, and of this plus and minus a bound, in float64."""
    rng, largest = np.random.default_rng(6), 0.0
    for _ in range(2_000):
        x_scale, w_scale = (np.float32(2.0 ** rng.uniform(-12, 0)) for _ in range(2))
        total, factor = int(rng.integers(-(2**40), 2**40)), float(x_scale) * float(w_scale)  # both are exact
        bias = total * factor * float(rng.choice([-1, 1, 0.3])) * rng.uniform(0.5, 2)
        product = total * factor
        exact, bound = total * Fraction(factor) + Fraction(bias), product * 2.0**-9
        for sign in (-1, 1):
            error = abs(Fraction(product + bias + sign * bound) - exact - sign * Fraction(bound))
            largest = max(largest, float(error / Fraction((abs(product) + abs(bias)) * ROUNDINGS)))
    print(f"the largest error is {largest:.3f} of the bound")
    assert 1 / 16 < largest <= 1 / 2
