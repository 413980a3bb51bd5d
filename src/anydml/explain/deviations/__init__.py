"""Well-known deviations from the exact result, as functions: each gives the output of an implementation with that deviation.

`compare` names the deviation that a differing output follows.
"""

from anydml.explain.deviations.quantised import (
    accumulator,
    exact_requantisation,
    float32_dequantised_product,
    float32_requantisation,
    half_away_from_zero,
    half_up,
    int32_saturation,
    int32_wrap,
    pair_saturation,
    reciprocal_multiplier,
    reciprocal_output_scale,
    rounding_down,
    truncation,
    wrapping_output,
    zero_point_before_rounding,
)
from anydml.explain.deviations.window import (
    first_element,
    maximum_output_sizes,
    one_element_off,
    reverse_then_step,
    sign_ignored,
    step_then_reverse,
)

__all__ = [
    "accumulator",
    "exact_requantisation",
    "first_element",
    "float32_dequantised_product",
    "float32_requantisation",
    "half_away_from_zero",
    "half_up",
    "int32_saturation",
    "int32_wrap",
    "maximum_output_sizes",
    "one_element_off",
    "pair_saturation",
    "reciprocal_multiplier",
    "reciprocal_output_scale",
    "reverse_then_step",
    "rounding_down",
    "sign_ignored",
    "step_then_reverse",
    "truncation",
    "wrapping_output",
    "zero_point_before_rounding",
]
