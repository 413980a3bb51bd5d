"""The operators of DirectMLX that the binding lacks, as functions of expressions: DirectMLX's names in snake_case and defaults.

A docstring names the operator. The operator's page has the rules of sizes and data types. A broken rule raises DescError; an
empty expression, or expressions of two graphs, ValueError. Source: Libraries/DirectMLX.h of microsoft/DirectML.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anydml.graphs.desc import ConstantNode
from anydml.pydirectml.activations import FusedActivation
from anydml.pydirectml.binding import NONE, Sizes, asked, per_window
from anydml.pydirectml.expressions import Expression, GraphBuilder, OutputSource, node, result
from anydml.pydirectml.tensors import TensorDesc
from anydml.schema.enumerations import (
    AxisDirection,
    DepthSpaceOrder,
    InterpolationMode,
    IsInfinityMode,
    QuantizationType,
    RandomGeneratorType,
    ReduceFunction,
    RoundingMode,
)
from anydml.schema.kinds import ScaleBias
from anydml.tensor import DataType

Unary = Callable[[Expression], Expression]
Binary = Callable[[Expression, Expression], Expression]
Forms = dict[str, Any]


def _unary(name: str) -> Unary:
    def function(input: Expression) -> Expression:
        return result(name, input_tensor=input)

    function.__doc__ = f"{name}."
    return function


def _scaled(name: str) -> Callable[..., Expression]:
    def function(input: Expression, scale_bias: ScaleBias | None = None) -> Expression:
        return result(name, input_tensor=input, scale_bias=scale_bias)

    function.__doc__ = f"{name}."
    return function


def _binary(name: str) -> Binary:
    def function(a: Expression, b: Expression) -> Expression:
        return result(name, a_tensor=a, b_tensor=b)

    function.__doc__ = f"{name}."
    return function


def _comparison(name: str) -> Callable[..., Expression]:
    def function(a: Expression, b: Expression, output_data_type: Any = DataType.UINT8) -> Expression:
        return result(name, _like(a, output_data_type), a_tensor=a, b_tensor=b)

    function.__doc__ = f"{name}."
    return function


def _like(x: Expression, data_type: Any = None) -> Forms:
    """The sizes and data type of an output with the sizes of an input."""
    t = x.get_output_desc()
    return {"output_tensor": (t.sizes, t.data_type if data_type is None else DataType(data_type))}


identity = _scaled("ELEMENT_WISE_IDENTITY")
abs = _scaled("ELEMENT_WISE_ABS")
acos = _scaled("ELEMENT_WISE_ACOS")
acosh = _scaled("ELEMENT_WISE_ACOSH")
asin = _scaled("ELEMENT_WISE_ASIN")
asinh = _scaled("ELEMENT_WISE_ASINH")
atan = _scaled("ELEMENT_WISE_ATAN")
atanh = _scaled("ELEMENT_WISE_ATANH")
ceil = _scaled("ELEMENT_WISE_CEIL")
cos = _scaled("ELEMENT_WISE_COS")
cosh = _scaled("ELEMENT_WISE_COSH")
erf = _scaled("ELEMENT_WISE_ERF")
exp = _scaled("ELEMENT_WISE_EXP")
floor = _scaled("ELEMENT_WISE_FLOOR")
log = _scaled("ELEMENT_WISE_LOG")
recip = _scaled("ELEMENT_WISE_RECIP")
sin = _scaled("ELEMENT_WISE_SIN")
sinh = _scaled("ELEMENT_WISE_SINH")
sqrt = _scaled("ELEMENT_WISE_SQRT")
tan = _scaled("ELEMENT_WISE_TAN")
tanh = _scaled("ELEMENT_WISE_TANH")

bit_not = _unary("ELEMENT_WISE_BIT_NOT")
logical_not = _unary("ELEMENT_WISE_LOGICAL_NOT")
negate = _unary("ELEMENT_WISE_NEGATE")
sign = _unary("ELEMENT_WISE_SIGN")
activation_gelu = _unary("ACTIVATION_GELU")
activation_hardmax = _unary("ACTIVATION_HARDMAX")
activation_log_softmax = _unary("ACTIVATION_LOG_SOFTMAX")
activation_softsign = _unary("ACTIVATION_SOFTSIGN")

atan_yx = _binary("ELEMENT_WISE_ATAN_YX")
bit_and = _binary("ELEMENT_WISE_BIT_AND")
bit_or = _binary("ELEMENT_WISE_BIT_OR")
bit_shift_left = _binary("ELEMENT_WISE_BIT_SHIFT_LEFT")
bit_shift_right = _binary("ELEMENT_WISE_BIT_SHIFT_RIGHT")
bit_xor = _binary("ELEMENT_WISE_BIT_XOR")
difference_square = _binary("ELEMENT_WISE_DIFFERENCE_SQUARE")
logical_and = _binary("ELEMENT_WISE_LOGICAL_AND")
logical_or = _binary("ELEMENT_WISE_LOGICAL_OR")
logical_xor = _binary("ELEMENT_WISE_LOGICAL_XOR")
max = _binary("ELEMENT_WISE_MAX")
mean = _binary("ELEMENT_WISE_MEAN")
min = _binary("ELEMENT_WISE_MIN")
modulus_floor = _binary("ELEMENT_WISE_MODULUS_FLOOR")
modulus_truncate = _binary("ELEMENT_WISE_MODULUS_TRUNCATE")

equals = _comparison("ELEMENT_WISE_LOGICAL_EQUALS")
greater_than = _comparison("ELEMENT_WISE_LOGICAL_GREATER_THAN")
greater_than_or_equal = _comparison("ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL")
less_than = _comparison("ELEMENT_WISE_LOGICAL_LESS_THAN")
less_than_or_equal = _comparison("ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL")


def constant_data(graph: GraphBuilder, data: Any, desc: TensorDesc) -> Expression:
    """A constant tensor with the bytes of an array or a bytes-like object, which are copied."""
    graph.nodes.append(ConstantNode(data))
    graph.feeds.append([])
    return Expression(graph, OutputSource(len(graph.nodes) - 1, 0), desc)


def clip(input: Expression, min: float, max: float, scale_bias: ScaleBias | None = None) -> Expression:
    """ELEMENT_WISE_CLIP."""
    return result("ELEMENT_WISE_CLIP", input_tensor=input, min=min, max=max, scale_bias=scale_bias)


def clip_grad(input: Expression, input_gradient: Expression, min: float, max: float) -> Expression:
    """ELEMENT_WISE_CLIP_GRAD."""
    return result("ELEMENT_WISE_CLIP_GRAD", input_tensor=input, input_gradient_tensor=input_gradient, min=min, max=max)


def pow(input: Expression, exponent: Expression | float, scale_bias: ScaleBias | None = None) -> Expression:
    """ELEMENT_WISE_POW, or ELEMENT_WISE_CONSTANT_POW if the exponent is a number."""
    if isinstance(exponent, Expression):
        return result("ELEMENT_WISE_POW", input_tensor=input, exponent_tensor=exponent, scale_bias=scale_bias)
    return result("ELEMENT_WISE_CONSTANT_POW", input_tensor=input, exponent=exponent, scale_bias=scale_bias)


def threshold(input: Expression, min: float, scale_bias: ScaleBias | None = None) -> Expression:
    """ELEMENT_WISE_THRESHOLD."""
    return result("ELEMENT_WISE_THRESHOLD", input_tensor=input, min=min, scale_bias=scale_bias)


def quantize_linear(
    input: Expression, scale: Expression, zero_point: Expression, output_data_type: Any = DataType.UINT8
) -> Expression:
    """ELEMENT_WISE_QUANTIZE_LINEAR."""
    return result(
        "ELEMENT_WISE_QUANTIZE_LINEAR",
        _like(input, output_data_type),
        input_tensor=input,
        scale_tensor=scale,
        zero_point_tensor=zero_point,
    )


def dequantize_linear(input: Expression, scale: Expression, zero_point: Expression) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR, to FLOAT32."""
    return result(
        "ELEMENT_WISE_DEQUANTIZE_LINEAR",
        _like(input, DataType.FLOAT32),
        input_tensor=input,
        scale_tensor=scale,
        zero_point_tensor=zero_point,
    )


def is_nan(input: Expression, output_data_type: Any = DataType.UINT8) -> Expression:
    """ELEMENT_WISE_IS_NAN."""
    return result("ELEMENT_WISE_IS_NAN", _like(input, output_data_type), input_tensor=input)


def is_infinity(
    input: Expression, infinity_mode: IsInfinityMode = IsInfinityMode.EITHER, output_data_type: Any = DataType.UINT8
) -> Expression:
    """ELEMENT_WISE_IS_INFINITY."""
    return result("ELEMENT_WISE_IS_INFINITY", _like(input, output_data_type), input_tensor=input, infinity_mode=infinity_mode)


def bit_count(a: Expression, output_data_type: Any = DataType.UINT8) -> Expression:
    """ELEMENT_WISE_BIT_COUNT."""
    return result("ELEMENT_WISE_BIT_COUNT", _like(a, output_data_type), input_tensor=a)


def round(input: Expression, rounding_mode: RoundingMode = RoundingMode.HALVES_TO_NEAREST_EVEN) -> Expression:
    """ELEMENT_WISE_ROUND."""
    return result("ELEMENT_WISE_ROUND", input_tensor=input, rounding_mode=rounding_mode)


def if_(condition: Expression, a: Expression, b: Expression) -> Expression:
    """ELEMENT_WISE_IF, which DirectMLX calls If."""
    return result("ELEMENT_WISE_IF", condition_tensor=condition, a_tensor=a, b_tensor=b)


def activation_celu(input: Expression, alpha: float = 1.0) -> Expression:
    """ACTIVATION_CELU."""
    return result("ACTIVATION_CELU", input_tensor=input, alpha=alpha)


def activation_elu(input: Expression, alpha: float = 1.0) -> Expression:
    """ACTIVATION_ELU."""
    return result("ACTIVATION_ELU", input_tensor=input, alpha=alpha)


def activation_hard_sigmoid(input: Expression, alpha: float = 0.2, beta: float = 0.5) -> Expression:
    """ACTIVATION_HARD_SIGMOID."""
    return result("ACTIVATION_HARD_SIGMOID", input_tensor=input, alpha=alpha, beta=beta)


def activation_leaky_relu(input: Expression, alpha: float = 0.01) -> Expression:
    """ACTIVATION_LEAKY_RELU."""
    return result("ACTIVATION_LEAKY_RELU", input_tensor=input, alpha=alpha)


def activation_parameterized_relu(input: Expression, slope: Expression) -> Expression:
    """ACTIVATION_PARAMETERIZED_RELU."""
    return result("ACTIVATION_PARAMETERIZED_RELU", input_tensor=input, slope_tensor=slope)


def activation_parametric_softplus(input: Expression, alpha: float, beta: float) -> Expression:
    """ACTIVATION_PARAMETRIC_SOFTPLUS."""
    return result("ACTIVATION_PARAMETRIC_SOFTPLUS", input_tensor=input, alpha=alpha, beta=beta)


def activation_scaled_elu(input: Expression, alpha: float = 1.6732632, gamma: float = 1.050701) -> Expression:
    """ACTIVATION_SCALED_ELU."""
    return result("ACTIVATION_SCALED_ELU", input_tensor=input, alpha=alpha, gamma=gamma)


def activation_scaled_tanh(input: Expression, alpha: float = 1.0, beta: float = 0.5) -> Expression:
    """ACTIVATION_SCALED_TANH."""
    return result("ACTIVATION_SCALED_TANH", input_tensor=input, alpha=alpha, beta=beta)


def activation_shrink(input: Expression, bias: float = 0.0, threshold: float = 0.5) -> Expression:
    """ACTIVATION_SHRINK."""
    return result("ACTIVATION_SHRINK", input_tensor=input, bias=bias, threshold=threshold)


def activation_softmax(input: Expression, axes: Sizes | None = None) -> Expression:
    """ACTIVATION_SOFTMAX; with axes, ACTIVATION_SOFTMAX1."""
    if axes is None:
        return result("ACTIVATION_SOFTMAX", input_tensor=input)
    return result("ACTIVATION_SOFTMAX1", input_tensor=input, axes=axes)


def activation_softplus(input: Expression, steepness: float = 1.0) -> Expression:
    """ACTIVATION_SOFTPLUS."""
    return result("ACTIVATION_SOFTPLUS", input_tensor=input, steepness=steepness)


def activation_thresholded_relu(input: Expression, alpha: float = 1.0) -> Expression:
    """ACTIVATION_THRESHOLDED_RELU."""
    return result("ACTIVATION_THRESHOLDED_RELU", input_tensor=input, alpha=alpha)


def reduce(input: Expression, function: ReduceFunction, axes: Sizes = (), output_data_type: Any = None) -> Expression:
    """REDUCE, by default over all dimensions. ARGMIN and ARGMAX give UINT32 by default."""
    t = input.get_output_desc()
    along = tuple(axes) or tuple(range(len(t.sizes)))
    forms = None
    if output_data_type is not None:
        sizes = [1 if d in along else n for d, n in enumerate(t.sizes)]
        forms = {"output_tensor": (sizes, DataType(output_data_type))}
    return result("REDUCE", forms, function=function, input_tensor=input, axes=along)


def cast(input: Expression, target_data_type: Any) -> Expression:
    """CAST."""
    return result("CAST", _like(input, target_data_type), input_tensor=input)


def split(input: Expression, axis: int, output_axis_sizes: Sizes) -> list[Expression]:
    """SPLIT."""
    t = input.get_output_desc()
    forms = [((*t.sizes[:axis], n, *t.sizes[axis + 1 :]), t.data_type) for n in output_axis_sizes]
    found: list[Expression] = node("SPLIT", {"output_tensors": forms}, input_tensor=input, axis=axis)["output_tensors"]
    return found


def gather_elements(input: Expression, indices: Expression, axis: int) -> Expression:
    """GATHER_ELEMENTS."""
    return result("GATHER_ELEMENTS", input_tensor=input, indices_tensor=indices, axis=axis)


def gather_nd(
    input: Expression,
    indices: Expression,
    input_dimension_count: int,
    indices_dimension_count: int,
    batch_dimension_count: int,
) -> Expression:
    """GATHER_ND1."""
    return result(
        "GATHER_ND1",
        input_tensor=input,
        indices_tensor=indices,
        input_dimension_count=input_dimension_count,
        indices_dimension_count=indices_dimension_count,
        batch_dimension_count=batch_dimension_count,
    )


def scatter_elements(input: Expression, indices: Expression, updates: Expression, axis: int) -> Expression:
    """SCATTER_ELEMENTS."""
    return result("SCATTER_ELEMENTS", input_tensor=input, indices_tensor=indices, updates_tensor=updates, axis=axis)


def scatter_nd(
    input: Expression, indices: Expression, updates: Expression, input_dimension_count: int, indices_dimension_count: int
) -> Expression:
    """SCATTER_ND."""
    return result(
        "SCATTER_ND",
        input_tensor=input,
        indices_tensor=indices,
        updates_tensor=updates,
        input_dimension_count=input_dimension_count,
        indices_dimension_count=indices_dimension_count,
    )


def space_to_depth(input: Expression, block_size: int, order: DepthSpaceOrder = DepthSpaceOrder.DEPTH_COLUMN_ROW) -> Expression:
    """SPACE_TO_DEPTH1."""
    return result("SPACE_TO_DEPTH1", input_tensor=input, block_size=block_size, order=order)


def depth_to_space(input: Expression, block_size: int, order: DepthSpaceOrder = DepthSpaceOrder.DEPTH_COLUMN_ROW) -> Expression:
    """DEPTH_TO_SPACE1."""
    return result("DEPTH_TO_SPACE1", input_tensor=input, block_size=block_size, order=order)


def tile(input: Expression, repeats: Sizes) -> Expression:
    """TILE."""
    return result("TILE", input_tensor=input, repeats=repeats)


@dataclass
class TopKOutputs:
    """The outputs of `top_k`."""

    value: Expression
    index: Expression


def top_k(input: Expression, axis: int, k: int, axis_direction: AxisDirection) -> TopKOutputs:
    """TOP_K1."""
    return TopKOutputs(*node("TOP_K1", input_tensor=input, axis=axis, k=k, axis_direction=axis_direction).values())


@dataclass
class BatchNormalizationGradOutputs:
    """The outputs of `batch_normalization_grad` and `batch_normalization_training_grad`."""

    gradient: Expression
    scale_gradient: Expression
    bias_gradient: Expression


def _batch_gradients(name: str) -> Callable[..., BatchNormalizationGradOutputs]:
    def function(
        input: Expression, input_gradient: Expression, mean: Expression, variance: Expression, scale: Expression, epsilon: float
    ) -> BatchNormalizationGradOutputs:
        found = node(
            name,
            input_tensor=input,
            input_gradient_tensor=input_gradient,
            mean_tensor=mean,
            variance_tensor=variance,
            scale_tensor=scale,
            epsilon=epsilon,
        )
        return BatchNormalizationGradOutputs(*found.values())

    function.__doc__ = f"{name}."
    return function


batch_normalization_grad = _batch_gradients("BATCH_NORMALIZATION_GRAD")
batch_normalization_training_grad = _batch_gradients("BATCH_NORMALIZATION_TRAINING_GRAD")


@dataclass
class BatchNormalizationTrainingOutputs:
    """The outputs of `batch_normalization_training`."""

    output: Expression
    mean: Expression
    variance: Expression


def batch_normalization_training(
    input: Expression,
    scale: Expression,
    bias: Expression,
    fused_add: Expression | None,
    epsilon: float,
    fused_activation: FusedActivation = NONE,
) -> BatchNormalizationTrainingOutputs:
    """BATCH_NORMALIZATION_TRAINING."""
    found = node(
        "BATCH_NORMALIZATION_TRAINING",
        input_tensor=input,
        scale_tensor=scale,
        bias_tensor=bias,
        fused_add_tensor=fused_add,
        epsilon=epsilon,
        fused_activation=fused_activation.desc,
    )
    return BatchNormalizationTrainingOutputs(*found.values())


def one_hot(indices: Expression, values: Expression, output_length: int, axis: int) -> Expression:
    """ONE_HOT."""
    sizes = list(indices.get_output_desc().sizes)
    sizes[axis] = output_length
    forms = asked(sizes, values.get_output_desc().data_type)
    return result("ONE_HOT", forms, indices_tensor=indices, values_tensor=values, axis=axis)


def _sampled(
    sizes: Sizes, divisors: Sizes, scales: Sequence[float], inputs: Sequence[float], outputs: Sequence[float]
) -> dict[str, Any]:
    """Scales and pixel offsets. By default, scales are quotients of sizes in float32, and offsets 0.5 and -0.5."""
    quotients = [float(np.float32(n) / np.float32(m)) for n, m in zip(sizes, divisors, strict=True)]
    count = len(quotients)
    return dict(
        scales=list(scales) or quotients,
        input_pixel_offsets=list(inputs) or [0.5] * count,
        output_pixel_offsets=list(outputs) or [-0.5] * count,
    )


def resample(
    input: Expression,
    output_sizes: Sizes,
    mode: InterpolationMode,
    rounding_direction: AxisDirection = AxisDirection.INCREASING,
    scales: Sequence[float] = (),
    input_pixel_offsets: Sequence[float] = (),
    output_pixel_offsets: Sequence[float] = (),
    antialiased: bool | int = False,
) -> Expression:
    """RESAMPLE3. By default, scales are output sizes divided by input sizes."""
    t = input.get_output_desc()
    return result(
        "RESAMPLE3",
        asked(output_sizes, t.data_type),
        input_tensor=input,
        interpolation_mode=mode,
        rounding_direction=rounding_direction,
        **_sampled(output_sizes, t.sizes, scales, input_pixel_offsets, output_pixel_offsets),
        antialiased=bool(antialiased),
    )


def resample_grad(
    input: Expression,
    output_sizes: Sizes,
    mode: InterpolationMode,
    scales: Sequence[float] = (),
    input_pixel_offsets: Sequence[float] = (),
    output_pixel_offsets: Sequence[float] = (),
) -> Expression:
    """RESAMPLE_GRAD. By default, scales are input sizes divided by output sizes."""
    t = input.get_output_desc()
    return result(
        "RESAMPLE_GRAD",
        {"output_gradient_tensor": (output_sizes, t.data_type)},
        input_gradient_tensor=input,
        interpolation_mode=mode,
        **_sampled(t.sizes, output_sizes, scales, input_pixel_offsets, output_pixel_offsets),
    )


def fill_value_constant(graph: GraphBuilder, output_sizes: Sizes, value_data_type: Any, value: float) -> Expression:
    """FILL_VALUE_CONSTANT."""
    data_type = DataType(value_data_type)
    forms = asked(output_sizes, data_type)
    return result("FILL_VALUE_CONSTANT", forms, builder=graph, value_data_type=data_type, value=value)


def fill_value_sequence(
    graph: GraphBuilder, output_sizes: Sizes, value_data_type: Any, value_start: float, value_delta: float
) -> Expression:
    """FILL_VALUE_SEQUENCE."""
    return result(
        "FILL_VALUE_SEQUENCE",
        asked(output_sizes, value_data_type),
        builder=graph,
        value_data_type=DataType(value_data_type),
        value_start=value_start,
        value_delta=value_delta,
    )


def cumulative_summation(
    input: Expression, axis: int, axis_direction: AxisDirection, has_exclusive_sum: bool | int
) -> Expression:
    """CUMULATIVE_SUMMATION."""
    return result(
        "CUMULATIVE_SUMMATION",
        input_tensor=input,
        axis=axis,
        axis_direction=axis_direction,
        has_exclusive_sum=bool(has_exclusive_sum),
    )


def cumulative_product(
    input: Expression, axis: int, axis_direction: AxisDirection, has_exclusive_product: bool | int
) -> Expression:
    """CUMULATIVE_PRODUCT."""
    return result(
        "CUMULATIVE_PRODUCT",
        input_tensor=input,
        axis=axis,
        axis_direction=axis_direction,
        has_exclusive_product=bool(has_exclusive_product),
    )


def reverse_subsequences(input: Expression, sequence_lengths: Expression, axis: int) -> Expression:
    """REVERSE_SUBSEQUENCES."""
    return result("REVERSE_SUBSEQUENCES", input_tensor=input, sequence_lengths_tensor=sequence_lengths, axis=axis)


def convolution_integer(
    input: Expression,
    input_zero_point: Expression | None,
    filter: Expression,
    filter_zero_point: Expression | None,
    strides: Sizes = (),
    dilations: Sizes = (),
    start_padding: Sizes = (),
    end_padding: Sizes = (),
    group_count: int = 1,
    output_sizes: Sizes = (),
) -> Expression:
    """CONVOLUTION_INTEGER, to INT32."""
    return result(
        "CONVOLUTION_INTEGER",
        asked(output_sizes, DataType.INT32),
        input_tensor=input,
        input_zero_point_tensor=input_zero_point,
        filter_tensor=filter,
        filter_zero_point_tensor=filter_zero_point,
        **per_window(input, strides=strides, dilations=dilations, start_padding=start_padding, end_padding=end_padding),
        group_count=group_count,
    )


def quantized_linear_convolution(
    input: Expression,
    input_scale: Expression,
    input_zero_point: Expression | None,
    filter: Expression,
    filter_scale: Expression,
    filter_zero_point: Expression | None,
    bias: Expression | None,
    output_scale: Expression,
    output_zero_point: Expression | None,
    output_data_type: Any,
    strides: Sizes = (),
    dilations: Sizes = (),
    start_padding: Sizes = (),
    end_padding: Sizes = (),
    group_count: int = 1,
    output_sizes: Sizes = (),
) -> Expression:
    """QUANTIZED_LINEAR_CONVOLUTION, to INT8 or UINT8."""
    window = per_window(input, strides=strides, dilations=dilations, start_padding=start_padding, end_padding=end_padding)
    t, k = input.get_output_desc().sizes, filter.get_output_desc().sizes
    along = zip(t[2:], k[2:], *window.values(), strict=True)
    following = [1 + (n + first + last - 1 - (size - 1) * apart) // (step or 1) for n, size, step, apart, first, last in along]
    return result(
        "QUANTIZED_LINEAR_CONVOLUTION",
        asked(tuple(output_sizes) or (t[0], k[0], *following), output_data_type),
        input_tensor=input,
        input_scale_tensor=input_scale,
        input_zero_point_tensor=input_zero_point,
        filter_tensor=filter,
        filter_scale_tensor=filter_scale,
        filter_zero_point_tensor=filter_zero_point,
        bias_tensor=bias,
        output_scale_tensor=output_scale,
        output_zero_point_tensor=output_zero_point,
        **window,
        group_count=group_count,
    )


@dataclass
class RandomGeneratorOutputs:
    """The outputs of `random_generator`. state: an empty expression unless `output_state` asks for it."""

    values: Expression
    state: Expression


def random_generator(
    input_state: Expression,
    output_sizes: Sizes,
    output_state: bool | int = True,
    type: RandomGeneratorType = RandomGeneratorType.PHILOX_4X32_10,
) -> RandomGeneratorOutputs:
    """RANDOM_GENERATOR."""
    t = input_state.get_output_desc()
    forms: Forms = {
        "output_tensor": (output_sizes, DataType.UINT32),
        "output_state_tensor": (t.sizes, t.data_type) if output_state else None,
    }
    found = node("RANDOM_GENERATOR", forms, input_state_tensor=input_state, type=type)
    return RandomGeneratorOutputs(found["output_tensor"], found.get("output_state_tensor") or Expression())


@dataclass
class NonZeroCoordinatesOutputs:
    """The outputs of `non_zero_coordinates`."""

    count: Expression
    coordinates: Expression


def non_zero_coordinates(input: Expression) -> NonZeroCoordinatesOutputs:
    """NONZERO_COORDINATES: as many rows of coordinates as the input has elements, of which the first `count` are set."""
    sizes = input.get_output_desc().sizes
    forms = {
        "output_count_tensor": ((1,), DataType.UINT32),
        "output_coordinates_tensor": ((math.prod(sizes), len(sizes)), DataType.UINT32),
    }
    return NonZeroCoordinatesOutputs(*node("NONZERO_COORDINATES", forms, input_tensor=input).values())


def slice_grad(
    input_gradient: Expression,
    output_gradient_sizes: Sizes,
    input_window_offsets: Sizes,
    input_window_sizes: Sizes,
    input_window_strides: Sizes,
) -> Expression:
    """SLICE_GRAD."""
    return result(
        "SLICE_GRAD",
        {"output_gradient_tensor": (output_gradient_sizes, input_gradient.get_output_desc().data_type)},
        input_gradient_tensor=input_gradient,
        input_window_offsets=input_window_offsets,
        input_window_sizes=input_window_sizes,
        input_window_strides=input_window_strides,
    )


def roi_align(
    input: Expression,
    roi: Expression,
    batch_indices: Expression,
    reduction_function: ReduceFunction,
    interpolation_mode: InterpolationMode,
    spatial_scale_x: float,
    spatial_scale_y: float,
    input_pixel_offset: float,
    output_pixel_offset: float,
    out_of_bounds_input_value: float,
    minimum_samples_per_output: int,
    maximum_samples_per_output: int,
    align_regions_to_corners: bool | int,
    output_height: int,
    output_width: int,
) -> Expression:
    """ROI_ALIGN1."""
    t, regions = input.get_output_desc(), roi.get_output_desc().sizes
    count = regions[-2] if len(regions) > 1 else 1
    return result(
        "ROI_ALIGN1",
        asked((count, t.sizes[1], output_height, output_width), t.data_type),
        input_tensor=input,
        roi_tensor=roi,
        batch_indices_tensor=batch_indices,
        reduction_function=reduction_function,
        interpolation_mode=interpolation_mode,
        spatial_scale_x=spatial_scale_x,
        spatial_scale_y=spatial_scale_y,
        input_pixel_offset=input_pixel_offset,
        output_pixel_offset=output_pixel_offset,
        out_of_bounds_input_value=out_of_bounds_input_value,
        minimum_samples_per_output=minimum_samples_per_output,
        maximum_samples_per_output=maximum_samples_per_output,
        align_regions_to_corners=bool(align_regions_to_corners),
    )


@dataclass
class RoiAlignGradOutputs:
    """The outputs of `roi_align_grad`. Those that are not asked for are empty expressions."""

    output_gradient: Expression
    output_roi_gradient: Expression


def roi_align_grad(
    input: Expression | None,
    input_gradient: Expression,
    roi: Expression,
    batch_indices: Expression,
    reduction_function: ReduceFunction,
    interpolation_mode: InterpolationMode,
    spatial_scale_x: float,
    spatial_scale_y: float,
    input_pixel_offset: float,
    output_pixel_offset: float,
    minimum_samples_per_output: int,
    maximum_samples_per_output: int,
    align_regions_to_corners: bool | int,
    batch_size: int,
    image_height: int,
    image_width: int,
    compute_output_gradient: bool | int,
    compute_output_roi_gradient: bool | int,
) -> RoiAlignGradOutputs:
    """ROI_ALIGN_GRAD."""
    t, regions = input_gradient.get_output_desc(), roi.get_output_desc()
    image = ((batch_size, t.sizes[1], image_height, image_width), t.data_type)
    forms: Forms = {
        "output_gradient_tensor": image if compute_output_gradient else None,
        "output_roi_gradient_tensor": (regions.sizes, regions.data_type) if compute_output_roi_gradient else None,
    }
    found = node(
        "ROI_ALIGN_GRAD",
        forms,
        input_tensor=input,
        input_gradient_tensor=input_gradient,
        roi_tensor=roi,
        batch_indices_tensor=batch_indices,
        reduction_function=reduction_function,
        interpolation_mode=interpolation_mode,
        spatial_scale_x=spatial_scale_x,
        spatial_scale_y=spatial_scale_y,
        input_pixel_offset=input_pixel_offset,
        output_pixel_offset=output_pixel_offset,
        minimum_samples_per_output=minimum_samples_per_output,
        maximum_samples_per_output=maximum_samples_per_output,
        align_regions_to_corners=bool(align_regions_to_corners),
    )
    return RoiAlignGradOutputs(*(found.get(name) or Expression() for name in forms))


def dequantize(
    input: Expression, quantization_parameters: Sequence[Expression], quantization_type: QuantizationType
) -> Expression:
    """DEQUANTIZE, to the data type of the scale."""
    return result(
        "DEQUANTIZE",
        _like(input, quantization_parameters[0].get_output_desc().data_type),
        input_tensor=input,
        quantization_type=quantization_type,
        quantization_tensors=list(quantization_parameters),
    )


__all__ = [
    "BatchNormalizationGradOutputs",
    "BatchNormalizationTrainingOutputs",
    "NonZeroCoordinatesOutputs",
    "RandomGeneratorOutputs",
    "RoiAlignGradOutputs",
    "TopKOutputs",
    "abs",
    "acos",
    "acosh",
    "activation_celu",
    "activation_elu",
    "activation_gelu",
    "activation_hard_sigmoid",
    "activation_hardmax",
    "activation_leaky_relu",
    "activation_log_softmax",
    "activation_parameterized_relu",
    "activation_parametric_softplus",
    "activation_scaled_elu",
    "activation_scaled_tanh",
    "activation_shrink",
    "activation_softmax",
    "activation_softplus",
    "activation_softsign",
    "activation_thresholded_relu",
    "asin",
    "asinh",
    "atan",
    "atan_yx",
    "atanh",
    "batch_normalization_grad",
    "batch_normalization_training",
    "batch_normalization_training_grad",
    "bit_and",
    "bit_count",
    "bit_not",
    "bit_or",
    "bit_shift_left",
    "bit_shift_right",
    "bit_xor",
    "cast",
    "ceil",
    "clip",
    "clip_grad",
    "constant_data",
    "convolution_integer",
    "cos",
    "cosh",
    "cumulative_product",
    "cumulative_summation",
    "depth_to_space",
    "dequantize",
    "dequantize_linear",
    "difference_square",
    "equals",
    "erf",
    "exp",
    "fill_value_constant",
    "fill_value_sequence",
    "floor",
    "gather_elements",
    "gather_nd",
    "greater_than",
    "greater_than_or_equal",
    "identity",
    "if_",
    "is_infinity",
    "is_nan",
    "less_than",
    "less_than_or_equal",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "max",
    "mean",
    "min",
    "modulus_floor",
    "modulus_truncate",
    "negate",
    "non_zero_coordinates",
    "one_hot",
    "pow",
    "quantize_linear",
    "quantized_linear_convolution",
    "random_generator",
    "recip",
    "reduce",
    "resample",
    "resample_grad",
    "reverse_subsequences",
    "roi_align",
    "roi_align_grad",
    "round",
    "scatter_elements",
    "scatter_nd",
    "sign",
    "sin",
    "sinh",
    "slice_grad",
    "space_to_depth",
    "split",
    "sqrt",
    "tan",
    "tanh",
    "threshold",
    "tile",
    "top_k",
]
