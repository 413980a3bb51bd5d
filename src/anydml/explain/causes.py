"""The causes of differences: the well-known deviations that give the output at hand, and in how many places.

FINDERS has the searches of operators that have one of their own; float outputs of all others have a common search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anydml.explain.causes_of_copies import of_copy
from anydml.explain.causes_of_floats import of_float_convolution, of_float_product, of_floats
from anydml.explain.causes_of_products import of_convolution, of_product
from anydml.explain.causes_of_quantisation import of_quantisation
from anydml.explain.causes_of_sums import of_addition, of_mean
from anydml.explain.comparison import Cause
from anydml.explain.search import Array, Arrays
from anydml.operators.convolution import Convolution
from anydml.operators.convolution_integer import ConvolutionInteger
from anydml.operators.element_wise_quantize_linear import ElementWiseQuantizeLinear
from anydml.operators.element_wise_quantized_linear_add import ElementWiseQuantizedLinearAdd
from anydml.operators.gemm import Gemm
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.quantized_linear_average_pooling import QuantizedLinearAveragePooling
from anydml.operators.quantized_linear_convolution import QuantizedLinearConvolution
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.operators.slice import Slice1
from anydml.schema.operator import Desc


def causes(d: Desc, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    """The causes of differences in one output of an operator's newest desc; none if it has no search."""
    return FINDERS.get(type(d), of_floats)(d, arrays, expected, actual)


FINDERS: Mapping[type[Desc], Callable[[Any, Arrays, Array, Array], tuple[Cause, ...]]] = {
    MatrixMultiplyInteger: of_product,
    QuantizedLinearMatrixMultiply: of_product,
    QuantizedLinearConvolution: of_convolution,
    ConvolutionInteger: of_convolution,
    Convolution: of_float_convolution,
    Gemm: of_float_product,
    ElementWiseQuantizeLinear: of_quantisation,
    ElementWiseQuantizedLinearAdd: of_addition,
    QuantizedLinearAveragePooling: of_mean,
    Slice1: of_copy,
}
