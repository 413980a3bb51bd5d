"""DML_OPERATOR_SPACE_TO_DEPTH1 and its older version DML_OPERATOR_SPACE_TO_DEPTH: blocks of an image laid out as channels.

Sources: ns-directml-dml_space_to_depth1_operator_desc, ns-directml-dml_space_to_depth_operator_desc,
ne-directml-dml_depth_space_order.
"""

from __future__ import annotations

from anydml.operators.depth_to_space import BLOCKS, BOTH, COLUMNS, DEEP, DEPTH, DEPTH_FIRST, ERRATA, WIDE, at_least_one, levels
from anydml.operators.shared.vocabulary import *

INVERSE = (
    "The page gives the output the sizes that the inverse has; they are {BatchCount, ChannelCount * BlockSize^2, "
    "Height / BlockSize, Width / BlockSize}, as its example has them."
)


def block_rules() -> tuple[Constraint, ...]:
    @constraint(
        "The last two of `InputTensor.Sizes` must be multiples of `BlockSize`: the image is made of blocks.",
        breaks=lambda d: {"block_size": 4},
    )
    def space_divisible(d: Any) -> bool:
        return all(n % d.block_size == 0 for n in d.input_tensor.sizes[2:])

    return (
        at_least_one(),
        space_divisible,
        sizes_are(
            "OutputTensor",
            "`OutputTensor.Sizes` must be those of `InputTensor.Sizes`, with more channels by `BlockSize` squared, and height "
            "and width divided by `BlockSize`.",
            depth,
        ),
    )


def depth(d: Any) -> tuple[int, ...]:
    """The sizes of the output; ValueError where none follow."""
    n, c, h, w = d.input_tensor.sizes
    block = d.block_size
    if block < 1 or h % block or w % block:
        raise ValueError("the image is not made of blocks")
    return n, c * block**2, h // block, w // block


@operator("DML_OPERATOR_SPACE_TO_DEPTH1", 114, since=FeatureLevel.FL_2_1)
class SpaceToDepth1(Desc):
    """Rearranges blocks of an image to channels: Output[n, k, h, w] = Input[n, c, h * B + i, w * B + j].

    B is BlockSize, and C the input's number of channels. The channel k is (i * B + j) * C + c in the order DEPTH_COLUMN_ROW,
    and (c * B + i) * B + j in the order COLUMN_ROW_DEPTH. Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, Height * BlockSize, Width * BlockSize}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "{BatchCount, ChannelCount * BlockSize^2, Height, Width}.")
    block_size: int = field.attribute("BlockSize", field.UINT, "Height and width of a block.")
    order: DepthSpaceOrder = field.attribute(
        "Order", field.DEPTH_SPACE_ORDER, "The order of the channels of a block.", default=DEPTH_FIRST
    )

    eight_bit_floats = "InputTensor OutputTensor"
    rows = levels()
    same = same("DataType", BOTH)
    blocks = block_rules()

    def outputs(d) -> Outputs:
        return {"output_tensor": (depth(d), d.input_tensor.data_type)}

    def statement(d, x: Tensor) -> Nest:
        n, k, h, w = at = each(d.output_tensor.sizes)
        b = d.block_size
        if d.order == DEPTH_FIRST:
            place, c = k // x.sizes[1], k % x.sizes[1]
            i, j = place // b, place % b
        else:
            c, i, j = k // b // b, k // b % b, k % b
        return move(at, x[n, c, h * b + i, w * b + j])

    examples = (
        Example(
            "Page: DEPTH_COLUMN_ROW",
            dict(input_tensor=WIDE, output_tensor=DEEP, block_size=2, order="DEPTH_COLUMN_ROW"),
            dict(input_tensor=BLOCKS),
            DEPTH,
        ),
        Example(
            "Page: COLUMN_ROW_DEPTH",
            dict(input_tensor=WIDE, output_tensor=DEEP, block_size=2, order="COLUMN_ROW_DEPTH"),
            dict(input_tensor=COLUMNS),
            DEPTH,
        ),
    )
    rejecting = ()
    errata = (INVERSE, *ERRATA)


@operator("DML_OPERATOR_SPACE_TO_DEPTH", 68, since=FeatureLevel.FL_1_0)
class SpaceToDepth(Desc):
    """Rearranges blocks of an image to channels: Output[n, (i * B + j) * C + c, h, w] = Input[n, c, h * B + i, w * B + j].

    It is SPACE_TO_DEPTH1 in the order DEPTH_COLUMN_ROW.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, Height * BlockSize, Width * BlockSize}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "{BatchCount, ChannelCount * BlockSize^2, Height, Width}.")
    block_size: int = field.attribute("BlockSize", field.UINT, "Height and width of a block.")

    eight_bit_floats = "InputTensor OutputTensor"
    rows = levels(support("1_0", BOTH, (4, 4), FLOATS))
    same = same("DataType", BOTH)
    blocks = block_rules()

    def outputs(d) -> Outputs:
        return {"output_tensor": (depth(d), d.input_tensor.data_type)}

    def as_newest(d) -> SpaceToDepth1:
        return SpaceToDepth1(
            input_tensor=d.input_tensor, output_tensor=d.output_tensor, block_size=d.block_size, order=DEPTH_FIRST
        )

    examples = (
        Example(
            "Page: blocks of 2 x 2",
            dict(input_tensor=WIDE, output_tensor=DEEP, block_size=2),
            dict(input_tensor=BLOCKS),
            DEPTH,
        ),
    )
    rejecting = ()
    errata = (INVERSE, *ERRATA)
