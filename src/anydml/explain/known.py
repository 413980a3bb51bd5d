"""Tables of deviations: the name of each, a noun phrase for sentences, and a function.

Changes of a product's inputs are in `changes`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from anydml.explain import deviations
from anydml.explain.changes import Deviation, Inputs

TERMS = 2**25  # of a product whose sums are followed term by term


def _with_float32_product(requantise: Callable[..., Any]) -> Callable[..., Any]:
    """A requantisation of accumulators whose scale is a product in float32, as in TFLite's fully connected layers."""

    def function(q: Any, a: Any, b: Any, *rest: Any, **fields: Any) -> Any:
        with np.errstate(all="ignore"):
            product = np.nan_to_num(np.asarray(a, np.float32) * np.asarray(b, np.float32))
        return requantise(q, np.where(product != 0, product, np.finfo(np.float32).tiny), np.float32(1), *rest, **fields)

    return function


FIXED_POINT = (  # requantisation in integers
    Deviation(
        "fixed_point_double_rounding",
        "fixed-point requantisation, rounded twice",
        deviations.fixed_point_double_rounding,
        True,
    ),
    Deviation(
        "fixed_point_ties_up", "fixed-point requantisation, rounded twice, half up", deviations.fixed_point_ties_up, True
    ),
    Deviation(
        "fixed_point_single_rounding",
        "fixed-point requantisation, rounded once",
        deviations.fixed_point_single_rounding,
        True,
    ),
    Deviation(
        "fixed_point_16_bits", "fixed-point requantisation by a multiplier of 16 bits", deviations.fixed_point_16_bits, True
    ),
)

REQUANTISATIONS = (  # (accumulators, the three scales, zero point, output_data_type=) -> outputs
    Deviation("float32_requantisation", "float32 requantisation", deviations.float32_requantisation, True),
    Deviation("float32_dequantised_product", "a float32 dequantised product", deviations.float32_dequantised_product, True),
    Deviation("reciprocal_output_scale", "a float32 reciprocal of the output scale", deviations.reciprocal_output_scale, True),
    Deviation(
        "reciprocal_multiplier",
        "a float32 multiplier with the reciprocal of the output scale",
        deviations.reciprocal_multiplier,
        True,
    ),
    Deviation("half_away_from_zero", "rounding half away from zero", deviations.half_away_from_zero, True),
    Deviation("half_up", "rounding half up", deviations.half_up, True),
    Deviation("truncation", "truncation", deviations.truncation, True),
    Deviation("rounding_down", "rounding down", deviations.rounding_down, True),
    Deviation(
        "zero_point_before_rounding",
        "the zero point added before rounding",
        deviations.zero_point_before_rounding,
        True,
    ),
    Deviation("wrapping_output", "results that wrap where they should saturate", deviations.wrapping_output),
    *FIXED_POINT,
    *(row._replace(function=_with_float32_product(row.function)) for row in FIXED_POINT[:3]),
    Deviation(
        "float32_multiplier_in_integers",
        "a float32 multiplier of the accumulators, rounded once, half up",
        deviations.float32_multiplier_in_integers,
        True,
    ),
    Deviation("power_of_two_multiplier", "a shift by the nearest power of two", deviations.power_of_two_multiplier, True),
)

IN_INTEGERS = {  # requantisations of accumulators in int32
    *(row.name for row in FIXED_POINT),
    "float32_multiplier_in_integers",
    "power_of_two_multiplier",
}

ACCUMULATORS = (  # accumulators -> accumulators
    Deviation("int32_wrap", "accumulators that wrap in int32", deviations.int32_wrap),
    Deviation("int32_saturation", "accumulators that saturate in int32", deviations.int32_saturation),
    Deviation("int16_wrap", "accumulators that wrap in int16", deviations.int16_wrap),
    Deviation("int16_saturation", "sums that saturate in int16", deviations.int16_saturation),
)


def _accumulated_in_16_bits(p: Inputs) -> Any:
    """The sums, or None for products with too many terms, or with so few and small ones that no sum leaves 16 bits."""
    a, b = p["a"], p["b"]
    terms = a[..., 0].size * b.shape[-2] * b.shape[-1]
    largest = [max(abs(int(x.min()) - int(z.max())), abs(int(x.max()) - int(z.min()))) for x, z in
               ((a, p["a_zero_point"]), (b, p["b_zero_point"]))]  # fmt: skip
    if terms > TERMS or b.shape[-2] * largest[0] * largest[1] < 2**15:
        return None
    return deviations.int16_accumulation(a, b, p["a_zero_point"], p["b_zero_point"])


PRODUCT_ACCUMULATORS = (  # inputs -> accumulators, or None
    Deviation(
        "pair_saturation",
        "16-bit pair saturation",
        lambda p: deviations.pair_saturation(p["a"], p["b"], p["a_zero_point"], p["b_zero_point"]),
    ),
    Deviation("int16_accumulation", "accumulators that saturate in int16 at each product", _accumulated_in_16_bits),
)

ADDITIONS = (  # (a, scale, zero point, b, scale, zero point, the output's scale and zero point, output_data_type=) -> outputs
    Deviation("fixed_point_addition", "an addition in fixed point, rounded twice", deviations.fixed_point_addition, True),
    Deviation(
        "fixed_point_addition",
        "an addition in fixed point, rounded once",
        partial(deviations.fixed_point_addition, single_rounding=True),
        True,
    ),
)

MEANS = (  # (sums, counts, output_data_type=) -> outputs
    Deviation("mean_of_integers", "a mean of the integers, rounded half away from zero", deviations.mean_of_integers, True),
)

WINDOWS = (  # (input, offsets, sizes, strides, output sizes) -> output, masked where it is not known
    Deviation(
        "step_then_reverse",
        "a copy that steps from the window's first element and then reverses",
        deviations.step_then_reverse,
    ),
    Deviation(
        "reverse_then_step",
        "a copy that reverses the whole input and then steps from the offset",
        deviations.reverse_then_step,
    ),
    Deviation(
        "first_element",
        "a copy that starts at the window's first element and steps backwards",
        deviations.first_element,
    ),
    Deviation("sign_ignored", "a copy that ignores the sign of the stride", deviations.sign_ignored),
    Deviation(
        "maximum_output_sizes",
        "a copy of all that the window meets, packed",
        deviations.maximum_output_sizes,
    ),
)

EXACT = Deviation("exact_requantisation", "the exact result", deviations.exact_requantisation)
