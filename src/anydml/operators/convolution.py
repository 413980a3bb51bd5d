"""DML_OPERATOR_CONVOLUTION: convolution and transposed convolution in one to three spatial dimensions.

Source: ns-directml-dml_convolution_operator_desc.
"""

from __future__ import annotations

from functools import reduce

from anydml.operators.activation_relu import ActivationRelu
from anydml.operators.shared.vocabulary import *

ALL = "InputTensor FilterTensor BiasTensor OutputTensor"
FORWARD, BACKWARD = ConvolutionDirection.FORWARD, ConvolutionDirection.BACKWARD
SPATIAL = "`InputTensor.Sizes`, `FilterTensor.Sizes`, `Strides`, `Dilations`, `StartPadding`, `EndPadding` and `OutputPadding`"


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


def extent(d: Any, i: int) -> int:
    """The span of the filter in the input along a spatial dimension: 1 + (K - 1) * dilation."""
    span: int = (d.filter_tensor.sizes[i + 2] - 1) * d.dilations[i]
    return 1 + span


def padded(d: Any, i: int) -> int:
    """The input's size along a spatial dimension, with its padding."""
    size: int = d.input_tensor.sizes[i + 2] + d.start_padding[i] + d.end_padding[i]
    return size


def positions(d: Any, i: int) -> int:
    """The positions of the filter in the padded input along a spatial dimension."""
    steps: int = (padded(d, i) - extent(d, i)) // d.strides[i]
    return 1 + steps


def smallest(d: Any, i: int) -> int:
    """The output's size along a spatial dimension; the smallest one where the direction is backward."""
    inner: int
    if d.direction == FORWARD:
        inner = positions(d, i)
    else:
        padding = d.start_padding[i] + d.end_padding[i]
        inner = (d.input_tensor.sizes[i + 2] - 1) * d.strides[i] + extent(d, i) - padding
    inner += d.output_padding[i]
    return inner


def largest(d: Any, i: int) -> int:
    return smallest(d, i) + (d.strides[i] - 1 if d.direction == BACKWARD else 0)


def gathered(d: Any, o: Sequence[Expr], k: Sequence[Expr]) -> tuple[list[Expr], Expr | None]:
    """Forward: the index in the input of an output's term for a position of the filter, and the condition that it is inside."""
    return window(d, o, k), all_of(before_end(d, o))


def window(d: Any, o: Sequence[Expr], k: Sequence[Expr]) -> list[Expr]:
    """The index in the input of the element that an output multiplies by a position of the filter."""
    every = zip(o, k, d.strides, d.dilations, d.start_padding, strict=True)
    return [p * stride + u * dilation - start for p, u, stride, dilation, start in every]


def scattered(d: Any, o: Sequence[Expr], k: Sequence[Expr]) -> tuple[list[Expr], Expr | None]:
    """Backward: the index of the input element that a position of the filter adds to an output, and the condition that there is
    one."""
    window = zip(o, k, d.dilations, d.start_padding, strict=True)
    strided = list(zip([p + start - u * dilation for p, u, dilation, start in window], d.strides, strict=True))
    met = [equal(q % stride, 0) for q, stride in strided if stride > 1]
    return [q // stride for q, stride in strided], all_of([*before_end(d, o), *met])


def before_end(d: Any, o: Sequence[Expr]) -> list[Expr]:
    """The conditions that an output is not in the OutputPadding."""
    return [p < size - end for p, size, end in zip(o, d.output_tensor.sizes[2:], d.output_padding, strict=True) if end]


def all_of(conditions: list[Expr]) -> Expr | None:
    return reduce(both, conditions) if conditions else None


def channels(d: Any, m: Expr, c: Expr) -> tuple[Expr, tuple[Expr, Expr]]:
    """For output channel m and channel c of its group: the input channel, and the first two indices of the filter."""
    if d.direction == FORWARD:
        return channel(d, m, c, d.output_tensor.sizes[1] // d.group_count), (m, c)
    of_group = d.filter_tensor.sizes[1]
    read = channel(d, m, c, of_group)
    return read, (read, m % of_group if d.group_count > 1 else m)


def channel(d: Any, m: Expr, c: Expr, of_group: Any) -> Expr:
    """The input channel that is channel c in the group of output channel m; a group has `of_group` output channels."""
    return m // of_group * (d.input_tensor.sizes[1] // d.group_count) + c if d.group_count > 1 else c


def flipped(d: Any, k: Sequence[Expr]) -> Sequence[Expr]:
    """The position of the filter, counted from its end in the mode CONVOLUTION."""
    sizes = d.filter_tensor.sizes[2:]
    return k if d.mode == ConvolutionMode.CROSS_CORRELATION else [n - 1 - u for u, n in zip(k, sizes, strict=True)]


def plane(rows: Any) -> NDArray[Any]:
    return np.array([[rows]], np.float32)


def two(size: int, output: int, **others: Any) -> dict[str, Any]:
    """The fields of an example with one channel, two spatial dimensions and a filter of 2 x 2."""
    return (
        dict(
            input_tensor=float32(1, 1, size, size),
            filter_tensor=float32(1, 1, 2, 2),
            output_tensor=float32(1, 1, output, output),
            strides=(1, 1),
            dilations=(1, 1),
            **dict.fromkeys(("start_padding", "end_padding", "output_padding"), (0, 0)),
        )
        | others
    )


NINE, FOUR = plane([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), plane([[1, 2], [3, 4]])
LINE = dict(
    input_tensor=float32(1, 1, 3), filter_tensor=float32(1, 1, 3), output_tensor=float32(1, 1, 6), direction="BACKWARD",
    strides=(2,), dilations=(1,), start_padding=(1,), end_padding=(1,),
)  # fmt: skip


@operator("DML_OPERATOR_CONVOLUTION", 53, since=FeatureLevel.FL_1_0)
class Convolution(Desc):
    """Convolves an input with filters, forward or transposed, in groups, and applies a fused activation to the exact sums.

    FORWARD: Output[n, m, o] = f(sum of Input[n, c, o * Stride + k * Dilation - StartPadding] * Filter[m, c, k] + Bias[m]),
    over the positions k of the filter and the channels c of m's group. BACKWARD adds Input[n, c, i] * Filter[c, m, k] to
    Output[n, m, i * Stride + k * Dilation - StartPadding]. In the mode CONVOLUTION, the filter is flipped along every
    spatial dimension. Elements outside of the input are left out. The last OutputPadding positions of the output have no terms.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, InputChannelCount, [Depth,] [Height,] Width}.")
    filter_tensor: TensorDesc = field.input("FilterTensor", "{FilterBatchCount, FilterChannelCount, .., FilterWidth}.")
    bias_tensor: TensorDesc | None = field.input(
        "BiasTensor", "A number for each output channel, {1, OutputChannelCount, 1, ..}.", default=None
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "{BatchCount, OutputChannelCount, .., OutputWidth}.")
    mode: ConvolutionMode = field.attribute(
        "Mode", field.CONVOLUTION_MODE, "Whether the filter is flipped.", default=ConvolutionMode.CROSS_CORRELATION
    )
    direction: ConvolutionDirection = field.attribute(
        "Direction", field.CONVOLUTION_DIRECTION, "FORWARD, or BACKWARD: transposed.", default=FORWARD
    )
    dimension_count: int | None = field.count(
        "DimensionCount", "The number of spatial dimensions, and of entries of the arrays.", default=None
    )
    strides: tuple[int, ...] = field.attribute(
        "Strides", field.UINT, "Elements from one position of the filter to the next.", sized_by="DimensionCount"
    )
    dilations: tuple[int, ...] = field.attribute(
        "Dilations", field.UINT, "Elements from one element of the filter to the next.", sized_by="DimensionCount"
    )
    start_padding: tuple[int, ...] = field.attribute(
        "StartPadding", field.UINT, "Elements of padding before the input, which add nothing.", sized_by="DimensionCount"
    )
    end_padding: tuple[int, ...] = field.attribute(
        "EndPadding", field.UINT, "Elements of padding after the input, which add nothing.", sized_by="DimensionCount"
    )
    output_padding: tuple[int, ...] = field.attribute(
        "OutputPadding", field.UINT, "Positions at the output's end without terms.", sized_by="DimensionCount"
    )
    group_count: int = field.attribute("GroupCount", field.UINT, "Groups that the channels are divided into.", default=1)
    fused_activation: Desc | None = field.attribute(
        "FusedActivation", field.OPERATOR, "The function f, applied to the exact sum; if absent, none.", default=None
    )

    vectors = dict.fromkeys(("bias_tensor",), 1)
    eager = defaults(
        strides=("ones", lambda d: (1,) * (d.input_tensor.dimension_count - 2)),
        dilations=("ones", lambda d: (1,) * (d.input_tensor.dimension_count - 2)),
        start_padding=("zeros", lambda d: (0,) * (d.input_tensor.dimension_count - 2)),
        end_padding=("zeros", lambda d: (0,) * (d.input_tensor.dimension_count - 2)),
        output_padding=("zeros", lambda d: (0,) * (d.input_tensor.dimension_count - 2)),
    )

    rows = (support("1_0", ALL, (4, 5), FLOATS), support("4_0", ALL, (3, 5), FLOATS))
    same = same("DataType DimensionCount", ALL)

    @constraint(
        "`DimensionCount` must equal `InputTensor.DimensionCount` - 2.",
        expected=lambda d: {"DimensionCount": d.input_tensor.dimension_count - 2},
    )
    def dimension_count_is_spatial(d) -> bool:
        return d.dimension_count == d.input_tensor.dimension_count - 2

    @constraint("`Strides` must be at least 1.", each="Strides")
    def stride_not_zero(d, i: int) -> bool:
        return d.strides[i] >= 1

    @constraint("`Dilations` must be at least 1.", each="Dilations")
    def dilation_not_zero(d, i: int) -> bool:
        return d.dilations[i] >= 1

    @constraint("`GroupCount` must be at least 1.", breaks=lambda d: {"group_count": 0})
    def group_count_not_zero(d) -> bool:
        return d.group_count >= 1

    @constraint(
        "The first of `OutputTensor.Sizes` and the first of `InputTensor.Sizes` must be equal (BatchCount).",
        expected=lambda d: {"OutputTensor.Sizes": (d.input_tensor.sizes[0], *d.output_tensor.sizes[1:])},
    )
    def batch_sizes_match(d) -> bool:
        return d.output_tensor.sizes[0] == d.input_tensor.sizes[0]

    @constraint(
        "`FilterTensor.Sizes` must begin with OutputChannelCount, the second of `OutputTensor.Sizes`, and InputChannelCount, "
        "the second of `InputTensor.Sizes`, divided by `GroupCount`; where `Direction` is BACKWARD, with InputChannelCount and "
        "OutputChannelCount divided by it."
    )
    def channels_match(d) -> bool:
        if d.group_count < 1:
            raise ValueError("there are no groups")
        read, written = d.input_tensor.sizes[1], d.output_tensor.sizes[1]
        outer, inner = (written, read) if d.direction == FORWARD else (read, written)
        return d.filter_tensor.sizes[0] == outer and d.filter_tensor.sizes[1] * d.group_count == inner

    @constraint(
        "`GroupCount` must divide the first of `FilterTensor.Sizes`: every group has as many filters.",
    )
    def group_count_divides(d) -> bool:
        return d.filter_tensor.sizes[0] % d.group_count == 0

    bias_sizes = sizes_are(
        "BiasTensor",
        "`BiasTensor.Sizes` must be the second of `OutputTensor.Sizes` among ones: {1, OutputChannelCount, 1, ..}.",
        lambda d: (1, d.output_tensor.sizes[1], *(1,) * (len(d.output_tensor.sizes) - 2)),
    )

    @constraint(
        "Where `Direction` is FORWARD, the padded input must have room for the filter: the spatial `InputTensor.Sizes` + "
        "`StartPadding` + `EndPadding` are at least 1 + (`FilterTensor.Sizes` - 1) * `Dilations`.",
        each="Strides",
    )
    def filter_fits(d, i: int) -> bool:
        return d.direction != FORWARD or extent(d, i) <= padded(d, i)

    @constraint(
        "The spatial `OutputTensor.Sizes` must be those that follow from `Direction`, " + SPATIAL + "; where the direction is "
        "BACKWARD, they may be larger by up to a stride less 1.",
        each="Strides",
        expected=lambda d, i: {f"OutputTensor.Sizes[{i + 2}]": range(max(smallest(d, i), 1), largest(d, i) + 1)},
    )
    def output_sizes(d, i: int) -> bool:
        if d.dilations[i] < 1 or len(d.output_tensor.sizes) != len(d.input_tensor.sizes):
            raise ValueError("another rule is broken, so that no output size follows")
        if d.direction == FORWARD and not Convolution.filter_fits.predicate(d, i):
            raise ValueError("the filter does not fit, so that no output size follows")
        return smallest(d, i) <= d.output_tensor.sizes[i + 2] <= largest(d, i)

    fusable = fusable_activation()

    def outputs(d) -> Outputs:
        channels = d.filter_tensor.sizes[0] if d.direction == FORWARD else d.filter_tensor.sizes[1] * d.group_count
        spatial = (smallest(d, i) for i in range(len(d.strides)))
        return {"output_tensor": ((d.input_tensor.sizes[0], channels, *spatial), d.input_tensor.data_type)}

    def statement(d, x: Tensor, filters: Tensor, bias: Tensor | None) -> Nest:
        n, m, *o = i = each(d.output_tensor.sizes)
        c, *k = terms = each((x.sizes[1] // d.group_count, *filters.sizes[2:]), "cuvw")
        at, where = gathered(d, o, k) if d.direction == FORWARD else scattered(d, o, k)
        read, weight = channels(d, m, c)
        total = Sum(terms, x.skipped([n, read, *at]) * filters[[*weight, *flipped(d, k)]], where)
        return nest(i, activated(d.fused_activation, total if bias is None else total + bias[[0, m, *[0] * len(o)]]))

    examples = (
        Example(
            "Cross-correlation, the default mode, and RELU of it",
            two(3, 2, bias_tensor=float32(1, 1, 1, 1), fused_activation=ActivationRelu()),
            dict(input_tensor=NINE, filter_tensor=FOUR, bias_tensor=plane([[-47]])),
            plane([[0, 0], [20, 30]]),
        ),
        Example(
            "The mode CONVOLUTION flips the filter",
            two(3, 2, mode="CONVOLUTION"),
            dict(input_tensor=NINE, filter_tensor=FOUR),
            plane([[23, 33], [53, 63]]),
        ),
        Example(
            "Backward: what every element adds to the output",
            two(2, 3, direction="BACKWARD"),
            dict(input_tensor=FOUR, filter_tensor=FOUR),
            plane([[1, 4, 4], [6, 20, 16], [9, 24, 16]]),
        ),
        Example(
            "Backward in the mode CONVOLUTION",
            two(2, 3, direction="BACKWARD", mode="CONVOLUTION"),
            dict(input_tensor=FOUR, filter_tensor=FOUR),
            plane([[4, 11, 6], [14, 30, 14], [6, 11, 4]]),
        ),
        Example(
            "Backward with a stride of 2, into an output larger by 1 than it need be",
            two(2, 5, direction="BACKWARD", strides=(2, 2)),
            dict(input_tensor=FOUR, filter_tensor=FOUR),
            plane([[1, 2, 2, 4, 0], [3, 4, 6, 8, 0], [3, 6, 4, 8, 0], [9, 12, 12, 16, 0], [0, 0, 0, 0, 0]]),
        ),
        Example(
            "A larger output goes on in one dimension ..",
            dict(**LINE, output_padding=(0,)),
            dict(input_tensor=np.array([[[1, 2, 3]]], np.float32), filter_tensor=np.array([[[1, 2, 3]]], np.float32)),
            np.array([[[2, 5, 4, 9, 6, 9]]], np.float32),
        ),
        Example(
            ".. and OutputPadding ends it with nothing",
            dict(**LINE, output_padding=(1,)),
            dict(input_tensor=np.array([[[1, 2, 3]]], np.float32), filter_tensor=np.array([[[1, 2, 3]]], np.float32)),
            np.array([[[2, 5, 4, 9, 6, 0]]], np.float32),
        ),
    )
    rejecting = (
        rejects("dimension_count_is_spatial", dimension_count=1, strides=(1,), dilations=(1,), start_padding=(0,),
                end_padding=(0,), output_padding=(0,)),
        rejects("stride_not_zero", strides=(0, 1)),
        rejects("dilation_not_zero", dilations=(1, 0)),
        rejects("batch_sizes_match", output_tensor=float32(2, 1, 2, 2)),
        rejects("channels_match", input_tensor=float32(1, 2, 3, 3)),
        rejects("group_count_divides", group_count=2, input_tensor=float32(1, 2, 3, 3)),
        rejects("filter_fits", filter_tensor=float32(1, 1, 2, 4), dilations=(1, 1)),
        rejects("output_sizes", output_tensor=float32(1, 1, 2, 3)),
        rejects("fused_activation_without_tensors",
                fused_activation=ActivationRelu(input_tensor=float32(1), output_tensor=float32(1))),
    )  # fmt: skip
    errata = (
        "The page does not print the formula of the output's sizes; DirectML's helper library has the forward one.",
        "A transposed convolution with a stride has no unique output size: up to a stride less 1 more is legal, and computed "
        "as if the output went on (our decision, as clients use it).",
        "OutputPadding of the page is zeros at the end, while output_padding of ONNX makes the output larger; both agree only "
        "where nothing is left to compute. Bias and activation apply to these zeros, too (our decision).",
        "The table of 4_0 has three dimensions, the text only DimensionCount 2 and 3; it is 1 there.",
        "The page says that paddings apply to the filter, too; they apply to the input alone.",
        "The page does not say what groups, strides and dilations are legal: those of at least 1 (our decision).",
    )
