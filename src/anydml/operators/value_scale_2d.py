"""DML_OPERATOR_VALUE_SCALE_2D: images scaled, with a bias for each channel.

Source: ns-directml-dml_value_scale_2d_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
PIXEL = TensorDesc(DataType.FLOAT32, (1, 3, 1, 2))
GREY = TensorDesc(DataType.FLOAT32, (1, 1, 1, 2))
TWO = TensorDesc(DataType.FLOAT32, (1, 2, 1, 2))


@operator("DML_OPERATOR_VALUE_SCALE_2D", 65, since=FeatureLevel.FL_1_0)
class ValueScale2d(Desc):
    """Scales every element and adds a term for each channel: Output[n, c, h, w] = Input[n, c, h, w] * Scale + Bias[c]."""

    input_tensor: TensorDesc = field.input("InputTensor", "The images, {BatchCount, ChannelCount, Height, Width}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    scale: float = field.attribute("Scale", field.FLOAT, "The factor of every element.")
    channel_count: int | None = field.count("ChannelCount", "The channels, 1 or 3: entries of Bias.", default=None)
    bias: tuple[float, ...] = field.attribute("Bias", field.FLOAT, "A term for each channel.", sized_by="ChannelCount")

    rows = (support("1_0", BOTH, (4, 4), FLOATS),)
    same = same("DataType Sizes", BOTH)

    @constraint("`ChannelCount` must be 1 or 3.", expected=lambda d: {"ChannelCount": [1, 3]})
    def channel_count_one_or_three(d) -> bool:
        return d.channel_count in (1, 3)

    @constraint(
        "`ChannelCount` must equal the second of `InputTensor.Sizes`.",
        expected=lambda d: {"ChannelCount": d.input_tensor.sizes[1]},
    )
    def channel_count_matches_sizes(d) -> bool:
        return d.channel_count == d.input_tensor.sizes[1]

    outputs = like("input_tensor")

    def statement(d, x: Tensor) -> Nest:
        i = each(x.sizes)
        return nest(i, x[i] * d.scale + pieces(i[1], range(len(d.bias)), [lift(b) for b in d.bias]))

    examples = (
        Example(
            "Bytes of a pixel's colours to -1 .. 1, with a term of its own for blue",
            dict(input_tensor=PIXEL, output_tensor=PIXEL, scale=2**-7, bias=(-1, -1, -0.5)),
            dict(input_tensor=np.array([[[[0, 128]], [[64, 192]], [[128, 255]]]], np.float32)),
            np.array([[[[-1, 0]], [[-0.5, 0.5]], [[0.5, 1.4921875]]]], np.float32),
        ),
        Example(
            "One channel",
            dict(input_tensor=GREY, output_tensor=GREY, scale=0.5, bias=(1,)),
            dict(input_tensor=np.array([[[[3, -4]]]], np.float32)),
            np.array([[[[2.5, -1]]]], np.float32),
        ),
    )
    rejecting = (
        rejects("bias_counted", bias=(0, 0)),
        rejects("channel_count_one_or_three", input_tensor=TWO, output_tensor=TWO, channel_count=2, bias=(0, 0)),
        rejects("channel_count_matches_sizes", input_tensor=TWO, output_tensor=TWO),
    )
    errata = ("The page describes Bias as one term for each dimension of the input; there is one for each channel.",)
