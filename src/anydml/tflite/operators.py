"""Operators of quantised tensors that DirectML lacks and TFLite has, in the vocabulary of operator files.

Each computes with the real numbers that integers stand for, and quantises once, half to even. Kernels are found for them by
their statements, as for DirectML's own.

    real = (integer - zero point) * scale        integer = clamp(round(real / scale) + zero point, Min, Max)
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from anydml import operators
from anydml.feature_level import FeatureLevel
from anydml.operators.convolution import FORWARD, Convolution, channels, flipped, gathered, scattered, smallest
from anydml.operators.convolution_integer import by_channel, of_channel
from anydml.schema import field
from anydml.schema.constraint import Constraint
from anydml.schema.enumerations import ConvolutionDirection, ConvolutionMode
from anydml.schema.expression import (
    Indices,
    Max,
    Mean,
    Sum,
    Tensor,
    absolute,
    both,
    clamp,
    cos,
    each,
    erf,
    exp,
    expm1,
    floor,
    half_to_even,
    index,
    is_nan,
    log,
    maximum,
    over,
    select,
    sin,
    sqrt,
    tanh,
)
from anydml.schema.node import Expr, Operand, number
from anydml.schema.operator import Desc, Example, Outputs, operator
from anydml.schema.rules import same
from anydml.schema.statement import Nest, nest
from anydml.schema.support import support
from anydml.schema.types import FLOATS
from anydml.schema.windows import divisor, pooled_sizes, positions, window_rules
from anydml.tensor import DataType, TensorDesc

OF = "DML_OPERATOR_TFLITE_"
LEVEL = FeatureLevel.FL_1_0
FLOAT32 = (DataType.FLOAT32,)
INTEGERS = (DataType.INT8, DataType.UINT8, DataType.INT16, DataType.INT32, DataType.INT64)
NUMBERS = (*FLOAT32, *INTEGERS)
CORRELATION = ConvolutionMode.CROSS_CORRELATION
ONE, FOUR = TensorDesc("FLOAT32", (1,)), TensorDesc("INT8", (4,))
ZERO = TensorDesc("INT8", (1,))


def single(t: Tensor) -> Expr:
    """The one element of a scale or zero point."""
    return t[[0] * len(t.sizes)]


def real(x: Expr, scale: Tensor | None, zero_point: Tensor | None) -> Expr:
    """The number that an element stands for; the element itself, if its tensor is not quantised."""
    return x if scale is None or zero_point is None else (x - single(zero_point)) * single(scale)


def limits(data_type: DataType) -> tuple[int, int]:
    found = np.iinfo(data_type.dtype)
    return int(found.min), int(found.max)


def stored(x: Operand, scale: Tensor | None, zero_point: Tensor | None, data_type: DataType) -> Expr:
    """A number as an output stores it; NaN, which only a float input has, becomes the lower limit."""
    if scale is None or zero_point is None:
        return number(x)
    quotient = number(x) / single(scale)
    low, high = limits(data_type)
    return select(is_nan(quotient), low, clamp(half_to_even(quotient) + single(zero_point), low, high))


def inherited(cls: type[Desc]) -> tuple[Constraint, ...]:
    """The rules in the body of an operator's class."""
    found = [m if isinstance(m, tuple) else (m,) for m in vars(cls).values()]
    return tuple(rule for members in found for rule in members if isinstance(rule, Constraint))


def data(value: Any, data_type: Any) -> Any:
    return np.array(value, data_type)


FORMULAS: dict[str, Callable[[Expr, float], Operand]] = {
    "IDENTITY": lambda x, alpha: x,
    "ABS": lambda x, alpha: absolute(x),
    "COS": lambda x, alpha: cos(x),
    "ELU": lambda x, alpha: select(x < 0, expm1(x), x),
    "EXP": lambda x, alpha: exp(x),
    "GELU": lambda x, alpha: x * (1 + erf(x / sqrt(2))) / 2,
    "HARD_SWISH": lambda x, alpha: x * clamp(x + 3, 0, 6) / 6,
    "LEAKY_RELU": lambda x, alpha: select(x < 0, x * alpha, x),
    "LOG": lambda x, alpha: log(x),
    "LOGISTIC": lambda x, alpha: select(x < 0, exp(x) / (1 + exp(x)), 1 / (1 + exp(-x))),
    "NEG": lambda x, alpha: -x,
    "RELU": lambda x, alpha: maximum(x, 0),
    "RELU6": lambda x, alpha: clamp(x, 0, 6),
    "RELU_0_TO_1": lambda x, alpha: clamp(x, 0, 1),
    "RELU_N1_TO_1": lambda x, alpha: clamp(x, -1, 1),
    "RSQRT": lambda x, alpha: 1 / sqrt(x),
    "SIN": lambda x, alpha: sin(x),
    "SQRT": lambda x, alpha: sqrt(x),
    "SQUARE": lambda x, alpha: x * x,
    "TANH": lambda x, alpha: tanh(x),
}
"""The functions of one number, by TensorFlow Lite's name; alpha is the parameter of LEAKY_RELU."""
FUNCTIONS = (*FORMULAS,)


@operator(f"{OF}CONVERT", 1001, since=LEVEL)
class TfliteConvert(Desc):
    """Applies a function to the number that each element stands for, and quantises the result.

    Without the input's scale, elements are numbers; without the output's, the result is rounded to the output's type.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements.")
    input_scale_tensor: TensorDesc | None = field.input("InputScaleTensor", "The input's scale.", default=None)
    input_zero_point_tensor: TensorDesc | None = field.input("InputZeroPointTensor", "Its zero point.", default=None)
    output_scale_tensor: TensorDesc | None = field.input("OutputScaleTensor", "The output's scale.", default=None)
    output_zero_point_tensor: TensorDesc | None = field.input("OutputZeroPointTensor", "Its zero point.", default=None)
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    function: int = field.attribute("Function", field.UINT, "The function, by its place in FUNCTIONS.")
    alpha: float = field.attribute("Alpha", field.FLOAT, "Its parameter.")

    rows = (
        support("1_0", "InputTensor OutputTensor InputZeroPointTensor OutputZeroPointTensor", (1, 8), NUMBERS),
        support("1_0", "InputScaleTensor OutputScaleTensor", (1, 8), FLOAT32),
    )
    same = same("DimensionCount Sizes", "InputTensor OutputTensor")

    def outputs(d) -> Outputs:
        quantized = d.output_zero_point_tensor
        return {"output_tensor": (d.input_tensor.sizes, DataType.FLOAT32 if quantized is None else quantized.data_type)}

    def statement(
        d,
        x: Tensor,
        x_scale: Tensor | None,
        x_zero_point: Tensor | None,
        y_scale: Tensor | None,
        y_zero_point: Tensor | None,
    ) -> Nest:
        i = each(x.sizes)
        made = FORMULAS[FUNCTIONS[d.function]](real(x[i], x_scale, x_zero_point), d.alpha)
        return nest(i, stored(made, y_scale, y_zero_point, d.output_tensor.data_type))

    examples = (
        Example(
            "Halves in quarters: what lies outside saturates",
            dict(
                input_tensor=FOUR,
                input_scale_tensor=ONE,
                input_zero_point_tensor=ZERO,
                output_scale_tensor=ONE,
                output_zero_point_tensor=ZERO,
                output_tensor=FOUR,
                function=0,
                alpha=0.0,
            ),
            dict(
                input_tensor=data([0, 1, -3, 100], np.int8),
                input_scale_tensor=data([0.5], np.float32),
                input_zero_point_tensor=data([1], np.int8),
                output_scale_tensor=data([0.25], np.float32),
                output_zero_point_tensor=data([3], np.int8),
            ),
            data([1, 3, -5, 127], np.int8),
        ),
    )
    rejecting = ()
    errata = ()


BINARY: dict[str, type[Desc]] = {}


def binary(name: str, at: int, formula: Callable[[Expr, Expr], Expr], result: list[int]) -> type[Desc]:
    """The operator of a function of two quantised tensors. result: for integers 0 to 3, as tenths, and 2."""

    @operator(f"{OF}{name}", at, since=LEVEL)
    class TfliteBinary(Desc):
        a_tensor: TensorDesc = field.input("ATensor", "The left elements.")
        a_scale_tensor: TensorDesc = field.input("AScaleTensor", "A's scale.")
        a_zero_point_tensor: TensorDesc = field.input("AZeroPointTensor", "A's zero point.")
        b_tensor: TensorDesc = field.input("BTensor", "The right elements.")
        b_scale_tensor: TensorDesc = field.input("BScaleTensor", "B's scale.")
        b_zero_point_tensor: TensorDesc = field.input("BZeroPointTensor", "B's zero point.")
        output_scale_tensor: TensorDesc = field.input("OutputScaleTensor", "The output's scale.")
        output_zero_point_tensor: TensorDesc = field.input("OutputZeroPointTensor", "The output's zero point.")
        output_tensor: TensorDesc = field.output("OutputTensor", "The results.")

        rows = (
            support("1_0", "ATensor BTensor OutputTensor", (1, 8), INTEGERS),
            support("1_0", "AZeroPointTensor BZeroPointTensor OutputZeroPointTensor", (1, 8), INTEGERS),
            support("1_0", "AScaleTensor BScaleTensor OutputScaleTensor", (1, 8), FLOAT32),
        )
        same = same("DimensionCount Sizes", "ATensor BTensor OutputTensor")

        def outputs(d) -> Outputs:
            return {"output_tensor": (d.a_tensor.sizes, d.output_zero_point_tensor.data_type)}

        def statement(
            d,
            a: Tensor,
            a_scale: Tensor,
            a_zero_point: Tensor,
            b: Tensor,
            b_scale: Tensor,
            b_zero_point: Tensor,
            y_scale: Tensor,
            y_zero_point: Tensor,
        ) -> Nest:
            i = each(d.output_tensor.sizes)
            made = formula(real(a[i], a_scale, a_zero_point), real(b[i], b_scale, b_zero_point))
            return nest(i, stored(made, y_scale, y_zero_point, d.output_tensor.data_type))

        examples = (
            Example(
                "Quarters and a half",
                dict(
                    a_tensor=FOUR, a_scale_tensor=ONE, a_zero_point_tensor=ZERO,
                    b_tensor=FOUR, b_scale_tensor=ONE, b_zero_point_tensor=ZERO,
                    output_scale_tensor=ONE, output_zero_point_tensor=ZERO, output_tensor=FOUR,
                ),
                dict(
                    a_tensor=data([0, 1, 2, 3], np.int8), a_scale_tensor=data([0.25], np.float32),
                    a_zero_point_tensor=data([0], np.int8),
                    b_tensor=data([2, 2, 2, 2], np.int8), b_scale_tensor=data([0.5], np.float32),
                    b_zero_point_tensor=data([1], np.int8),
                    output_scale_tensor=data([0.125], np.float32), output_zero_point_tensor=data([0], np.int8),
                ),
                data(result, np.int8),
            ),
        )  # fmt: skip
        rejecting = ()
        errata = ()

    TfliteBinary.__name__ = TfliteBinary.__qualname__ = f"Tflite{name.title().replace('_', '')}"
    BINARY[name] = TfliteBinary
    return TfliteBinary


binary("ADD", 1002, lambda a, b: a + b, [4, 6, 8, 10])
binary("SUB", 1003, lambda a, b: a - b, [-4, -2, 0, 2])
binary("MUL", 1004, lambda a, b: a * b, [0, 1, 2, 3])
binary("DIV", 1005, lambda a, b: a / b, [0, 4, 8, 12])
binary("SQUARED_DIFFERENCE", 1006, lambda a, b: (a - b) * (a - b), [2, 0, 0, 0])
binary("PRELU", 1007, lambda x, slope: select(x < 0, x * slope, x), [0, 2, 4, 6])


@operator(f"{OF}SOFTMAX", 1008, since=LEVEL)
class TfliteSoftmax(Desc):
    """The softmax of Beta times the numbers along the last dimension, or its logarithm."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements.")
    input_scale_tensor: TensorDesc = field.input("InputScaleTensor", "The input's scale.")
    output_scale_tensor: TensorDesc = field.input("OutputScaleTensor", "The output's scale.")
    output_zero_point_tensor: TensorDesc = field.input("OutputZeroPointTensor", "The output's zero point.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    beta: float = field.attribute("Beta", field.FLOAT, "The factor of the numbers.")
    logarithm: bool = field.attribute("Logarithm", field.BOOL, "Whether the logarithm is taken.", default=False)

    rows = (
        support("1_0", "InputTensor OutputTensor OutputZeroPointTensor", (1, 8), INTEGERS),
        support("1_0", "InputScaleTensor OutputScaleTensor", (1, 8), FLOAT32),
    )
    same = same("DimensionCount Sizes", "InputTensor OutputTensor")

    def outputs(d) -> Outputs:
        return {"output_tensor": (d.input_tensor.sizes, d.output_zero_point_tensor.data_type)}

    def statement(d, x: Tensor, x_scale: Tensor, y_scale: Tensor, y_zero_point: Tensor) -> Nest:
        i = each(x.sizes)
        k = over(i, x.sizes, [len(i) - 1])
        largest = Max(k, x[k])

        def scaled(at: Indices) -> Expr:
            return (x[at] - largest) * single(x_scale) * d.beta

        total = Sum(k, exp(scaled(k)))
        made = scaled(i) - log(total) if d.logarithm else exp(scaled(i)) / total
        low, high = limits(d.output_tensor.data_type)
        return nest(i, clamp(half_to_even(made / single(y_scale)) + single(y_zero_point), low, high))

    examples = (
        Example(
            "Equal numbers share alike",
            dict(
                input_tensor=FOUR,
                input_scale_tensor=ONE,
                output_scale_tensor=ONE,
                output_zero_point_tensor=ZERO,
                output_tensor=FOUR,
                beta=1.0,
            ),
            dict(
                input_tensor=data([7, 7, 7, 7], np.int8),
                input_scale_tensor=data([0.5], np.float32),
                output_scale_tensor=data([1 / 256], np.float32),
                output_zero_point_tensor=data([-128], np.int8),
            ),
            data([-64, -64, -64, -64], np.int8),
        ),
    )
    rejecting = ()
    errata = ()


@operator(f"{OF}REDUCE", 1009, since=LEVEL)
class TfliteReduce(Desc):
    """The mean of the numbers along axes, or their sum; the axes keep a size of 1."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements.")
    input_scale_tensor: TensorDesc = field.input("InputScaleTensor", "The input's scale.")
    input_zero_point_tensor: TensorDesc = field.input("InputZeroPointTensor", "The input's zero point.")
    output_scale_tensor: TensorDesc = field.input("OutputScaleTensor", "The output's scale.")
    output_zero_point_tensor: TensorDesc = field.input("OutputZeroPointTensor", "The output's zero point.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    mean: bool = field.attribute("Mean", field.BOOL, "Whether the sum is divided by the number of terms.")
    axis_count: int | None = field.count("AxisCount", "Entries of Axes.", default=None)
    axes: tuple[int, ...] = field.attribute("Axes", field.UINT, "The axes that a sum runs over.", sized_by="AxisCount")

    rows = (
        support("1_0", "InputTensor InputZeroPointTensor OutputTensor OutputZeroPointTensor", (1, 8), INTEGERS),
        support("1_0", "InputScaleTensor OutputScaleTensor", (1, 8), FLOAT32),
    )
    same = same("DimensionCount", "InputTensor OutputTensor")

    def outputs(d) -> Outputs:
        sizes = tuple(1 if a in d.axes else n for a, n in enumerate(d.input_tensor.sizes))
        return {"output_tensor": (sizes, d.output_zero_point_tensor.data_type)}

    def statement(d, x: Tensor, x_scale: Tensor, x_zero_point: Tensor, y_scale: Tensor, y_zero_point: Tensor) -> Nest:
        i = each(d.output_tensor.sizes)
        k = over(i, x.sizes, d.axes)
        total = (Mean if d.mean else Sum)(k, x[k] - single(x_zero_point)) * single(x_scale)
        low, high = limits(d.output_tensor.data_type)
        return nest(i, clamp(half_to_even(total / single(y_scale)) + single(y_zero_point), low, high))

    examples = (
        Example(
            "A mean that is a tie",
            dict(
                input_tensor=FOUR,
                input_scale_tensor=ONE,
                input_zero_point_tensor=ZERO,
                output_scale_tensor=ONE,
                output_zero_point_tensor=ZERO,
                output_tensor=TensorDesc("INT8", (1,)),
                mean=True,
                axes=(0,),
            ),
            dict(
                input_tensor=data([1, 2, 3, 4], np.int8),
                input_scale_tensor=data([0.5], np.float32),
                input_zero_point_tensor=data([0], np.int8),
                output_scale_tensor=data([0.5], np.float32),
                output_zero_point_tensor=data([1], np.int8),
            ),
            data([3], np.int8),
        ),
    )
    rejecting = ()
    errata = ()


@operator(f"{OF}CONVOLUTION", 1010, since=LEVEL)
class TfliteConvolution(Desc):
    """Convolves quantised numbers of 8 or 16 bits forward or, transposed, backward.

    The bias is in units of InputScale * FilterScale. Elements outside of the input add nothing.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, InputChannelCount, Height, Width}.")
    filter_tensor: TensorDesc = field.input("FilterTensor", "In the order of CONVOLUTION.")
    bias_tensor: TensorDesc | None = field.input("BiasTensor", "An integer for each output channel.", default=None)
    input_scale_tensor: TensorDesc = field.input("InputScaleTensor", "The input's scale.")
    input_zero_point_tensor: TensorDesc = field.input("InputZeroPointTensor", "The input's zero point.")
    filter_scale_tensor: TensorDesc = field.input("FilterScaleTensor", "The filter's scale, or one per output channel.")
    output_scale_tensor: TensorDesc = field.input("OutputScaleTensor", "The output's scale.")
    output_zero_point_tensor: TensorDesc = field.input("OutputZeroPointTensor", "The output's zero point.")
    output_tensor: TensorDesc = field.output("OutputTensor", "{BatchCount, OutputChannelCount, Height, Width}.")
    mode: ConvolutionMode = field.attribute("Mode", field.CONVOLUTION_MODE, "CROSS_CORRELATION.", default=CORRELATION)
    direction: ConvolutionDirection = field.attribute("Direction", field.CONVOLUTION_DIRECTION, "As in CONVOLUTION.")
    dimension_count: int | None = field.count("DimensionCount", "Entries of the arrays.", default=None)
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, "As in CONVOLUTION.", sized_by="DimensionCount")
    dilations: tuple[int, ...] = field.attribute("Dilations", field.UINT, "As there.", sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, "As there.", sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, "As there.", sized_by="DimensionCount")
    output_padding: tuple[int, ...] = field.attribute("OutputPadding", field.UINT, "As there.", sized_by="DimensionCount")
    group_count: int = field.attribute("GroupCount", field.UINT, "As there.", default=1)

    rows = (
        support("1_0", "InputTensor FilterTensor BiasTensor OutputTensor", (3, 5), INTEGERS),
        support("1_0", "InputZeroPointTensor OutputZeroPointTensor", (1, 5), INTEGERS),
        support("1_0", "InputScaleTensor FilterScaleTensor OutputScaleTensor", (1, 5), FLOAT32),
    )
    same = same("DimensionCount", "InputTensor FilterTensor BiasTensor OutputTensor")
    rules = tuple(r for r in inherited(Convolution) if not r.name.startswith(("same", "fused")))
    filter_scale_sizes = by_channel("FilterScaleTensor")

    def outputs(d) -> Outputs:
        channels = d.filter_tensor.sizes[0] if d.direction == FORWARD else d.filter_tensor.sizes[1] * d.group_count
        spatial = (smallest(d, i) for i in range(len(d.strides)))
        return {"output_tensor": ((d.input_tensor.sizes[0], channels, *spatial), d.output_zero_point_tensor.data_type)}

    def statement(
        d,
        x: Tensor,
        filters: Tensor,
        bias: Tensor | None,
        x_scale: Tensor,
        x_zero_point: Tensor,
        filter_scale: Tensor,
        y_scale: Tensor,
        y_zero_point: Tensor,
    ) -> Nest:
        n, m, *o = i = each(d.output_tensor.sizes)
        c, *k = terms = each((x.sizes[1] // d.group_count, *filters.sizes[2:]), "cuvw")
        at, where = gathered(d, o, k) if d.direction == FORWARD else scattered(d, o, k)
        read, weight = channels(d, m, c)
        element = x.skipped([n, read, *at]) - single(x_zero_point)
        total = Sum(terms, element * filters[[*weight, *flipped(d, k)]], where)
        if bias is not None:
            total = total + bias[[0, m, *[0] * len(o)]]
        scaled = total * single(x_scale) * of_channel(filter_scale, m) / single(y_scale)
        low, high = limits(d.output_tensor.data_type)
        return nest(i, clamp(half_to_even(scaled) + single(y_zero_point), low, high))

    examples = (
        Example(
            "Elements of 16 bits, transposed with a stride of 2",
            dict(
                input_tensor=TensorDesc("INT16", (1, 1, 1, 2)),
                filter_tensor=TensorDesc("INT8", (1, 1, 1, 3)),
                bias_tensor=TensorDesc("INT64", (1, 1, 1, 1)),
                output_tensor=TensorDesc("INT16", (1, 1, 1, 5)),
                input_scale_tensor=ONE,
                input_zero_point_tensor=TensorDesc("INT16", (1,)),
                filter_scale_tensor=ONE,
                output_scale_tensor=ONE,
                output_zero_point_tensor=TensorDesc("INT16", (1,)),
                direction="BACKWARD",
                strides=(1, 2),
                dilations=(1, 1),
                start_padding=(0, 0),
                end_padding=(0, 0),
                output_padding=(0, 0),
            ),
            dict(
                input_tensor=data([[[[1000, 30000]]]], np.int16),
                filter_tensor=data([[[[1, 2, 3]]]], np.int8),
                bias_tensor=data([[[[4]]]], np.int64),
                input_scale_tensor=data([0.5], np.float32),
                input_zero_point_tensor=data([0], np.int16),
                filter_scale_tensor=data([1], np.float32),
                output_scale_tensor=data([1], np.float32),
                output_zero_point_tensor=data([0], np.int16),
            ),
            data([[[[502, 1002, 16502, 30002, 32767]]]], np.int16),
        ),
    )
    rejecting = ()
    errata = ()


@operator(f"{OF}AVERAGE_POOLING", 1011, since=LEVEL)
class TfliteAveragePooling(Desc):
    """The mean of the numbers in a window that slides, with the input's scale and zero point; padding does not count."""

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, Height, Width}.")
    zero_point_tensor: TensorDesc = field.input("ZeroPointTensor", "The zero point of both tensors.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The means.")
    dimension_count: int | None = field.count("DimensionCount", "Entries of the arrays.", default=None)
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, "Elements between windows.", sized_by="DimensionCount")
    window_size: tuple[int, ...] = field.attribute("WindowSize", field.UINT, "The windows' sizes.", sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, "Before.", sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, "After.", sized_by="DimensionCount")
    include_padding: bool = field.attribute("IncludePadding", field.BOOL, "Whether padding counts.", default=False)

    rows = (
        support("1_0", "InputTensor OutputTensor", (4, 5), INTEGERS),
        support("1_0", "ZeroPointTensor", (1, 5), INTEGERS),
    )
    same = same("DataType DimensionCount", "InputTensor OutputTensor")
    windows = window_rules(dilated=False)

    def outputs(d) -> Outputs:
        return {"output_tensor": (pooled_sizes(d, dilated=False), d.input_tensor.data_type)}

    def statement(d, x: Tensor, zero_point: Tensor) -> Nest:
        n, c, *o = i = each(d.output_tensor.sizes)
        k = each(d.window_size, "uvw")
        at = positions(d, o, k)
        total = Sum(k, x.skipped([n, c, *at]) - single(zero_point))
        return nest(i, half_to_even(total / divisor(d, k, at, x.sizes[2:])) + single(zero_point))

    examples = (
        Example(
            "Ties go to even numbers of steps from the zero point",
            dict(
                input_tensor=TensorDesc("INT16", (1, 1, 1, 3)),
                zero_point_tensor=TensorDesc("INT16", (1,)),
                output_tensor=TensorDesc("INT16", (1, 1, 1, 2)),
                strides=(1, 1),
                window_size=(1, 2),
                start_padding=(0, 0),
                end_padding=(0, 0),
            ),
            dict(input_tensor=data([[[[1, 2, 3]]]], np.int16), zero_point_tensor=data([1], np.int16)),
            data([[[[1, 3]]]], np.int16),
        ),
    )
    rejecting = ()
    errata = ()


@operator(f"{OF}RESIZE", 1012, since=LEVEL)
class TfliteResize(Desc):
    """Linear interpolation of images {BatchCount, ChannelCount, Height, Width} at exact positions.

    Output o is at o * n / m for n elements of the input and m of the output, with AlignCorners at o * (n - 1) / (m - 1), with
    HalfPixelCentres at (o + 1/2) * n / m - 1/2.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The images.")
    zero_point_tensor: TensorDesc | None = field.input("ZeroPointTensor", "That of both tensors, of integers.", default=None)
    output_tensor: TensorDesc = field.output("OutputTensor", "The resized images.")
    height: int = field.attribute("Height", field.UINT, "The output's height.")
    width: int = field.attribute("Width", field.UINT, "The output's width.")
    align_corners: bool = field.attribute("AlignCorners", field.BOOL, "Whether the corners' centres meet.", default=False)
    half_pixel_centres: bool = field.attribute("HalfPixelCentres", field.BOOL, "Whether pixels have centres.", default=False)

    rows = (
        support("1_0", "InputTensor OutputTensor", (4, 4), (*FLOATS, *INTEGERS)),
        support("1_0", "ZeroPointTensor", (1, 4), INTEGERS),
    )
    same = same("DataType DimensionCount", "InputTensor OutputTensor")

    def outputs(d) -> Outputs:
        return {"output_tensor": ((*d.input_tensor.sizes[:2], d.height, d.width), d.input_tensor.data_type)}

    def statement(d, x: Tensor, zero_point: Tensor | None) -> Nest:
        *lead, y_at, x_at = i = each(d.output_tensor.sizes)
        k = each((2, 2), "uv")
        taps = [_tap(d, o, n, m, u) for o, n, m, u in zip((y_at, x_at), x.sizes[2:], d.output_tensor.sizes[2:], k, strict=True)]
        weight = taps[0][1] * taps[1][1]
        counts = reduce(both, [share > 0 for _, share in taps])
        element = x[[*lead, taps[0][0], taps[1][0]]]
        if zero_point is None:
            return nest(i, Sum(k, element * weight, counts))
        return nest(i, half_to_even(Sum(k, (element - single(zero_point)) * weight, counts)) + single(zero_point))

    examples = (
        Example(
            "Twice as wide",
            dict(
                input_tensor=TensorDesc("INT8", (1, 1, 1, 2)),
                zero_point_tensor=ZERO,
                output_tensor=TensorDesc("INT8", (1, 1, 1, 4)),
                height=1,
                width=4,
            ),
            dict(input_tensor=data([[[[0, 5]]]], np.int8), zero_point_tensor=data([0], np.int8)),
            data([[[[0, 2, 5, 5]]]], np.int8),
        ),
    )
    rejecting = ()
    errata = ()


def _tap(d: Any, o: Expr, n: int, m: int, u: Expr) -> tuple[Expr, Expr]:
    """The index of the element before (u = 0) or after (u = 1) the position of output o, and its weight."""
    step = Fraction(n - 1, m - 1) if d.align_corners and m > 1 else Fraction(n, m)
    place = number(o) * step
    if d.half_pixel_centres:
        place = (number(o) + Fraction(1, 2)) * step - Fraction(1, 2)
    place = maximum(place, 0)
    before = floor(place)
    share = place - before
    return index(clamp(before + u, 0, n - 1)), select(u < 1, 1 - share, share)


@operator(f"{OF}REQUANTIZE", 1013, since=LEVEL)
class TfliteRequantize(Desc):
    """Quantises sums of products of integers of 16 and 8 bits, whose factors of 16 bits were cut into bytes.

    A sum is 256 * High + Low + Bias, in units of InputScale * FilterScale.
    """

    high_tensor: TensorDesc = field.input("HighTensor", "The sums of products of upper bytes.")
    low_tensor: TensorDesc = field.input("LowTensor", "Those of lower bytes.")
    bias_tensor: TensorDesc | None = field.input("BiasTensor", "An integer for each channel.", default=None)
    input_scale_tensor: TensorDesc = field.input("InputScaleTensor", "The input's scale.")
    filter_scale_tensor: TensorDesc = field.input("FilterScaleTensor", "The filter's scale, or one per channel.")
    output_scale_tensor: TensorDesc = field.input("OutputScaleTensor", "The output's scale.")
    output_zero_point_tensor: TensorDesc = field.input("OutputZeroPointTensor", "The output's zero point.")
    output_tensor: TensorDesc = field.output("OutputTensor", "{BatchCount, ChannelCount, ..}.")

    rows = (
        support("1_0", "HighTensor LowTensor BiasTensor", (3, 5), (DataType.INT32,)),
        support("1_0", "OutputTensor OutputZeroPointTensor", (1, 5), INTEGERS),
        support("1_0", "InputScaleTensor FilterScaleTensor OutputScaleTensor", (1, 5), FLOAT32),
    )
    same = same("DimensionCount Sizes", "HighTensor LowTensor OutputTensor")

    def outputs(d) -> Outputs:
        return {"output_tensor": (d.high_tensor.sizes, d.output_zero_point_tensor.data_type)}

    def statement(
        d,
        high: Tensor,
        low: Tensor,
        bias: Tensor | None,
        x_scale: Tensor,
        filter_scale: Tensor,
        y_scale: Tensor,
        y_zero_point: Tensor,
    ) -> Nest:
        _, m, *o = i = each(d.output_tensor.sizes)
        total = high[i] * 256 + low[i]
        if bias is not None:
            total = total + bias[[0, m, *[0] * len(o)]]
        scaled = total * single(x_scale) * of_channel(filter_scale, m) / single(y_scale)
        least, most = limits(d.output_tensor.data_type)
        return nest(i, clamp(half_to_even(scaled) + single(y_zero_point), least, most))

    examples = (
        Example(
            "Two sums, with a bias of 4",
            dict(
                high_tensor=TensorDesc("INT32", (1, 1, 1, 2)),
                low_tensor=TensorDesc("INT32", (1, 1, 1, 2)),
                bias_tensor=TensorDesc("INT32", (1, 1, 1, 1)),
                output_tensor=TensorDesc("INT16", (1, 1, 1, 2)),
                input_scale_tensor=ONE,
                filter_scale_tensor=ONE,
                output_scale_tensor=ONE,
                output_zero_point_tensor=TensorDesc("INT16", (1,)),
            ),
            dict(
                high_tensor=data([[[[3, -200]]]], np.int32),
                low_tensor=data([[[[232, 0]]]], np.int32),
                bias_tensor=data([[[[4]]]], np.int32),
                input_scale_tensor=data([0.5], np.float32),
                filter_scale_tensor=data([1], np.float32),
                output_scale_tensor=data([1], np.float32),
                output_zero_point_tensor=data([0], np.int16),
            ),
            data([[[[502, -25598]]]], np.int16),
        ),
    )
    rejecting = ()
    errata = ()


OPERATORS: tuple[type[Desc], ...] = (
    TfliteConvert,
    TfliteSoftmax,
    TfliteReduce,
    TfliteConvolution,
    TfliteAveragePooling,
    TfliteResize,
    TfliteRequantize,
    *BINARY.values(),
)
for _operator in OPERATORS:
    operators.add(_operator)
