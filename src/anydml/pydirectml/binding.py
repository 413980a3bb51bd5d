"""The functions of the binding, with the names, order and defaults of its arguments.

A docstring names the operator. The operator's page has the rules of sizes and data types. A broken rule raises DescError; an
empty expression, or expressions of two graphs, ValueError. Sizes, strides and paddings are in elements.
Source: Python/src/module.cpp of microsoft/DirectML.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anydml.pydirectml.activations import FusedActivation
from anydml.pydirectml.enumerations import OutputOptions
from anydml.pydirectml.expressions import Expression, GraphBuilder, InputSource, node, result
from anydml.pydirectml.tensors import TensorDesc
from anydml.schema.enumerations import (
    ConvolutionDirection,
    ConvolutionMode,
    InterpolationMode,
    MatrixTransform,
    PaddingMode,
    RecurrentNetworkDirection,
)
from anydml.tensor import DataType, integers

NONE = FusedActivation()
Sizes = Sequence[int]


class Size2D:
    """DML_SIZE_2D."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height


class MaxPoolingOutputs:
    """The outputs of `max_pooling`. indices: an empty expression unless `output_indices` asks for them."""

    def __init__(self, values: Expression, indices: Expression) -> None:
        self.values, self.indices = values, indices


class GRUOutputs:
    """The outputs of `gru`: of every step, and of the last one. Those that `output_options` excludes are empty expressions."""

    def __init__(self, sequence: Expression, single: Expression) -> None:
        self.sequence, self.single = sequence, single


def input_tensor(scope: GraphBuilder, input_index: int, tensor_desc: TensorDesc) -> Expression:
    """An input of the graph, by its index."""
    (index,) = integers([input_index], "input_index")
    return Expression(scope, InputSource(index), tensor_desc)


def per_window(input: Expression, **given: Any) -> dict[str, tuple[int, ...]]:
    """Values for each spatial dimension: by default ones for strides and dilations, zeros for padding."""
    count = len(input.get_output_desc().sizes) - 2
    usual = {"strides": 1, "dilations": 1}
    return {name: tuple(values) or (usual.get(name, 0),) * count for name, values in given.items()}


def asked(sizes: Sizes, data_type: Any) -> dict[str, Any] | None:
    """The sizes and data type of an output if its sizes are given; None if they follow from the inputs."""
    return {"output_tensor": (sizes, DataType(data_type))} if len(sizes) else None


def convolution(
    input: Expression,
    filter: Expression,
    bias: Expression | None = None,
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection = ConvolutionDirection.FORWARD,
    strides: Sizes = (),
    dilations: Sizes = (),
    start_padding: Sizes = (),
    end_padding: Sizes = (),
    output_padding: Sizes = (),
    group_count: int = 1,
    fused_activation: FusedActivation = NONE,
    output_sizes: Sizes = (),
) -> Expression:
    """CONVOLUTION. output_sizes: by default, they follow from the inputs."""
    return result(
        "CONVOLUTION",
        asked(output_sizes, input.get_output_desc().data_type),
        input_tensor=input,
        filter_tensor=filter,
        bias_tensor=bias,
        mode=mode,
        direction=direction,
        **per_window(
            input,
            strides=strides,
            dilations=dilations,
            start_padding=start_padding,
            end_padding=end_padding,
            output_padding=output_padding,
        ),
        group_count=group_count,
        fused_activation=fused_activation.desc,
    )


def up_sample_2d(input: Expression, scale_size: Size2D, interpolation_mode: InterpolationMode) -> Expression:
    """UPSAMPLE_2D."""
    scale = (scale_size.width, scale_size.height)
    return result("UPSAMPLE_2D", input_tensor=input, scale_size=scale, interpolation_mode=interpolation_mode)


def activation_relu(input: Expression) -> Expression:
    """ACTIVATION_RELU."""
    return result("ACTIVATION_RELU", input_tensor=input)


def activation_sigmoid(input: Expression) -> Expression:
    """ACTIVATION_SIGMOID."""
    return result("ACTIVATION_SIGMOID", input_tensor=input)


def activation_identity(input: Expression) -> Expression:
    """ACTIVATION_IDENTITY."""
    return result("ACTIVATION_IDENTITY", input_tensor=input)


def activation_tanh(input: Expression) -> Expression:
    """ACTIVATION_TANH."""
    return result("ACTIVATION_TANH", input_tensor=input)


def activation_linear(input: Expression, alpha: float, beta: float) -> Expression:
    """ACTIVATION_LINEAR: alpha * input + beta."""
    return result("ACTIVATION_LINEAR", input_tensor=input, alpha=alpha, beta=beta)


def activation_soft_max(input: Expression) -> Expression:
    """ACTIVATION_SOFTMAX."""
    return result("ACTIVATION_SOFTMAX", input_tensor=input)


def add(a: Expression, b: Expression, fused_activation: FusedActivation = NONE) -> Expression:
    """ELEMENT_WISE_ADD1."""
    return result("ELEMENT_WISE_ADD1", a_tensor=a, b_tensor=b, fused_activation=fused_activation.desc)


def subtract(a: Expression, b: Expression) -> Expression:
    """ELEMENT_WISE_SUBTRACT."""
    return result("ELEMENT_WISE_SUBTRACT", a_tensor=a, b_tensor=b)


def multiply(a: Expression, b: Expression) -> Expression:
    """ELEMENT_WISE_MULTIPLY."""
    return result("ELEMENT_WISE_MULTIPLY", a_tensor=a, b_tensor=b)


def divide(a: Expression, b: Expression) -> Expression:
    """ELEMENT_WISE_DIVIDE."""
    return result("ELEMENT_WISE_DIVIDE", a_tensor=a, b_tensor=b)


def padding(
    input: Expression, padding_mode: PaddingMode, padding_value: float, start_padding: Sizes, end_padding: Sizes
) -> Expression:
    """PADDING."""
    return result(
        "PADDING",
        input_tensor=input,
        padding_mode=padding_mode,
        padding_value=padding_value,
        start_padding=start_padding,
        end_padding=end_padding,
    )


def mean_variance_normalization(
    input: Expression,
    scale: Expression | None = None,
    bias: Expression | None = None,
    axes: Sizes = (),
    normalize_variance: bool | int | None = None,
    epsilon: float | None = None,
    fused_activation: FusedActivation = NONE,
    normalize_mean: bool | int = True,
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION1; without the mean, its version 2. normalize_variance and epsilon are required."""
    if normalize_variance is None or epsilon is None:
        raise TypeError("mean_variance_normalization takes normalize_variance and epsilon")
    fields: dict[str, Any] = dict(input_tensor=input, scale_tensor=scale, bias_tensor=bias, axes=axes, epsilon=epsilon)
    fields |= {"fused_activation": fused_activation.desc}
    if normalize_mean:
        return result("MEAN_VARIANCE_NORMALIZATION1", **fields, normalize_variance=bool(normalize_variance))
    return result("MEAN_VARIANCE_NORMALIZATION2", **fields, use_mean=False, use_variance=bool(normalize_variance))


def slice(input: Expression, input_window_offsets: Sizes, input_window_sizes: Sizes, input_window_strides: Sizes) -> Expression:
    """SLICE1."""
    return result(
        "SLICE1",
        input_tensor=input,
        input_window_offsets=input_window_offsets,
        input_window_sizes=input_window_sizes,
        input_window_strides=input_window_strides,
    )


def value_scale_2d(input: Expression, scale: float, bias: Sequence[float]) -> Expression:
    """VALUE_SCALE_2D: input * scale + the channel's bias."""
    return result("VALUE_SCALE_2D", input_tensor=input, scale=scale, bias=bias)


def batch_normalization(
    input: Expression,
    mean: Expression,
    variance: Expression,
    scale: Expression,
    bias: Expression,
    spatial: bool | int,
    epsilon: float,
    fused_activation: FusedActivation = NONE,
) -> Expression:
    """BATCH_NORMALIZATION."""
    return result(
        "BATCH_NORMALIZATION",
        input_tensor=input,
        mean_tensor=mean,
        variance_tensor=variance,
        scale_tensor=scale,
        bias_tensor=bias,
        spatial=bool(spatial),
        epsilon=epsilon,
        fused_activation=fused_activation.desc,
    )


def local_response_normalization(
    input: Expression, cross_channel: bool | int, local_size: int, alpha: float, beta: float, bias: float
) -> Expression:
    """LOCAL_RESPONSE_NORMALIZATION."""
    return result(
        "LOCAL_RESPONSE_NORMALIZATION",
        input_tensor=input,
        cross_channel=bool(cross_channel),
        local_size=local_size,
        alpha=alpha,
        beta=beta,
        bias=bias,
    )


def gemm(
    a: Expression,
    b: Expression,
    c: Expression | None = None,
    trans_a: MatrixTransform = MatrixTransform.NONE,
    trans_b: MatrixTransform = MatrixTransform.NONE,
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: FusedActivation = NONE,
) -> Expression:
    """GEMM: alpha * a b + beta * c."""
    return result(
        "GEMM",
        a_tensor=a,
        b_tensor=b,
        c_tensor=c,
        trans_a=trans_a,
        trans_b=trans_b,
        alpha=alpha,
        beta=beta,
        fused_activation=fused_activation.desc,
    )


def average_pooling(
    input: Expression,
    strides: Sizes,
    window_sizes: Sizes,
    start_padding: Sizes,
    end_padding: Sizes,
    include_padding: bool | int,
    dilations: Sizes = (),
    output_sizes: Sizes = (),
) -> Expression:
    """AVERAGE_POOLING; with dilations, AVERAGE_POOLING1."""
    fields = dict(strides=strides, window_size=window_sizes, start_padding=start_padding, end_padding=end_padding)
    outputs = asked(output_sizes, input.get_output_desc().data_type)
    if len(dilations):
        return result(
            "AVERAGE_POOLING1",
            outputs,
            input_tensor=input,
            **fields,
            dilations=dilations,
            include_padding=bool(include_padding),
        )
    return result("AVERAGE_POOLING", outputs, input_tensor=input, **fields, include_padding=bool(include_padding))


def max_pooling(
    input: Expression,
    window_sizes: Sizes,
    strides: Sizes = (),
    start_padding: Sizes = (),
    end_padding: Sizes = (),
    dilations: Sizes = (),
    output_indices: bool | int = False,
    output_sizes: Sizes = (),
) -> MaxPoolingOutputs:
    """MAX_POOLING2. Strides are 1 by default. A window larger than the padded input gives one output."""
    t = input.get_output_desc()
    window = per_window(input, strides=strides, start_padding=start_padding, end_padding=end_padding, dilations=dilations)
    steps, first, last, apart = window.values()
    spans = [1 + (size - 1) * d for size, d in zip(window_sizes, apart, strict=False)]
    padded = [n + before + behind for n, before, behind in zip(t.sizes[2:], first, last, strict=False)]
    following = [1 + max(0, n - span) // step for n, span, step in zip(padded, spans, steps, strict=False) if step]
    sizes = tuple(output_sizes) or (*t.sizes[:2], *following)
    outputs = {"output_tensor": (sizes, t.data_type), "output_indices_tensor": None}
    if output_indices:
        outputs["output_indices_tensor"] = (sizes, DataType.UINT32)
    fields: dict[str, Any] = dict(input_tensor=input, window_size=window_sizes, **window)
    found = node("MAX_POOLING2", outputs, **fields)
    return MaxPoolingOutputs(found["output_tensor"], found.get("output_indices_tensor") or Expression())


def reinterpret(input: Expression, new_type: Any, new_size: Sizes, new_strides: Sizes | None) -> Expression:
    """The same bytes with another data type, sizes and strides. This adds no operator to the graph."""
    t = input.get_output_desc()
    desc = TensorDesc(
        new_type, t.flags, new_size, new_strides, t.total_tensor_size_in_bytes, t.guaranteed_base_offset_alignment
    )
    return Expression(input.builder, input.source, desc)


def join(input: Sequence[Expression], axis: int) -> Expression:
    """JOIN."""
    return result("JOIN", input_tensors=list(input), axis=axis)


def gru(
    input: Expression,
    weight: Expression,
    recurrence: Expression,
    bias: Expression | None = None,
    hidden_init: Expression | None = None,
    sequence_lengths: Expression | None = None,
    activation_descs: Sequence[FusedActivation] | None = None,
    direction: RecurrentNetworkDirection | None = None,
    linear_before_reset: bool | int = True,
    output_options: OutputOptions | None = None,
) -> GRUOutputs:
    """GRU. activation_descs, direction and output_options are required."""
    if activation_descs is None or direction is None or output_options is None:
        raise TypeError("gru takes activation_descs, direction and output_options")
    t, hidden = input.get_output_desc(), recurrence.get_output_desc().sizes[3]
    directions = 2 if direction == RecurrentNetworkDirection.BIDIRECTIONAL else 1
    forms = {
        "output_sequence_tensor": ((t.sizes[1], directions, t.sizes[2], hidden), t.data_type),
        "output_single_tensor": ((1, directions, t.sizes[2], hidden), t.data_type),
    }
    left_out = {OutputOptions.Sequence: "output_single_tensor", OutputOptions.Single: "output_sequence_tensor"}
    absent = left_out.get(OutputOptions(output_options))
    found = node(
        "GRU",
        {name: None if name == absent else form for name, form in forms.items()},
        input_tensor=input,
        weight_tensor=weight,
        recurrence_tensor=recurrence,
        bias_tensor=bias,
        hidden_init_tensor=hidden_init,
        sequence_lengths_tensor=sequence_lengths,
        activation_descs=[a.desc for a in activation_descs],
        direction=direction,
        linear_before_reset=bool(linear_before_reset),
    )
    sequence, single = (found.get(name) or Expression() for name in forms)
    return GRUOutputs(sequence, single)


def gather(input: Expression, indices: Expression, axis: int, index_dimensions: int) -> Expression:
    """GATHER."""
    return result("GATHER", input_tensor=input, indices_tensor=indices, axis=axis, index_dimensions=index_dimensions)


__all__ = [
    "GRUOutputs",
    "MaxPoolingOutputs",
    "Size2D",
    "activation_identity",
    "activation_linear",
    "activation_relu",
    "activation_sigmoid",
    "activation_soft_max",
    "activation_tanh",
    "add",
    "average_pooling",
    "batch_normalization",
    "convolution",
    "divide",
    "gather",
    "gemm",
    "gru",
    "input_tensor",
    "join",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "multiply",
    "padding",
    "reinterpret",
    "slice",
    "subtract",
    "up_sample_2d",
    "value_scale_2d",
]
