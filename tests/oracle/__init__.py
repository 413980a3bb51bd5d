"""A second definition of the operators, independent of the library.

Nothing of anydml is imported here, nor the packages that anydml computes with, only Python's integers and fractions, and gmpy2,
whose MPFR rounds in a given direction. `compute` returns the outputs of an operator by name; SLICE and the integer matmuls have
functions of their own in `slice_and_matmul`.
"""

from collections.abc import Mapping
from typing import Any

from . import (
    activation,
    attention,
    bitwise,
    contractions,
    convolution,
    cumulative,
    elementwise,
    fill,
    indexed,
    logical,
    lstm,
    moving,
    normalization,
    order,
    pooling,
    quantize,
    random,
    recurrent,
    reduce,
    regions,
    resampling,
    rows,
    two_inputs,
    unary,
)
from .reals import Undecided
from .slice_and_matmul import (
    Tensor,
    accumulate,
    accumulate_bulk,
    bits_of,
    dequantize,
    float32_fraction,
    float32_parts,
    gather,
    is_usable_scale,
    layout,
    matrix_multiply_integer,
    max_copied,
    nested_strides,
    quantize_sums,
    quantized_linear_matrix_multiply,
    quantized_linear_matrix_multiply_bulk,
    round_half_even,
    scatter,
    slice1,
    slice_,
    span,
)

__all__ = [
    "OPERATORS",
    "Tensor",
    "Undecided",
    "accumulate",
    "accumulate_bulk",
    "bits_of",
    "compute",
    "dequantize",
    "float32_fraction",
    "float32_parts",
    "gather",
    "is_usable_scale",
    "layout",
    "matrix_multiply_integer",
    "max_copied",
    "nested_strides",
    "quantize_sums",
    "quantized_linear_matrix_multiply",
    "quantized_linear_matrix_multiply_bulk",
    "round_half_even",
    "scatter",
    "slice1",
    "slice_",
    "span",
]

MODULES = (
    *(
        activation,
        attention,
        bitwise,
        contractions,
        convolution,
        cumulative,
        elementwise,
        fill,
        indexed,
        logical,
        lstm,
        moving,
        normalization,
        order,
        pooling,
        quantize,
        random,
        recurrent,
        reduce,
        regions,
        resampling,
        rows,
    ),
    two_inputs,
    unary,
)
OPERATORS = {name: function for module in MODULES for name, function in module.OPERATORS.items()}


def compute(
    operator: str, attributes: Mapping[str, Any], inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> dict[str, Any]:
    """The outputs of an operator.

    `operator` is the wire name without DML_OPERATOR_. Fields are named in snake_case. Enums are the last part of their wire
    names ("HALVES_TO_NEAREST_EVEN"), operator descs are pairs of a name and its attributes. `outputs` gives sizes and data type
    of each requested tensor, or a list of such pairs; the result has these names and no others.
    """
    results: dict[str, Any] = OPERATORS[operator](attributes, inputs, outputs)
    for name, asked in outputs.items():
        result = results[name]
        pairs = zip(result, asked, strict=True) if isinstance(asked, list) else [(result, asked)]
        for array, (sizes, dtype) in pairs:
            if array.shape != tuple(sizes) or array.dtype != dtype:
                raise ValueError(f"{operator} gives {name} {array.shape} {array.dtype}, not {sizes} {dtype}")
    return {name: results[name] for name in outputs}
