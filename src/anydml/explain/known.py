"""Tables of deviations: the name of each, a noun phrase for sentences, and a function.

Changes of a product's inputs are in `changes`.
"""

from __future__ import annotations

from anydml.explain import deviations
from anydml.explain.changes import Deviation

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
)

ACCUMULATORS = (  # accumulators -> accumulators
    Deviation("int32_wrap", "accumulators that wrap in int32", deviations.int32_wrap),
    Deviation("int32_saturation", "accumulators that saturate in int32", deviations.int32_saturation),
)


PRODUCT_ACCUMULATORS = (  # inputs -> accumulators
    Deviation(
        "pair_saturation",
        "16-bit pair saturation",
        lambda p: deviations.pair_saturation(p["a"], p["b"], p["a_zero_point"], p["b_zero_point"]),
    ),
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
