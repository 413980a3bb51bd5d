"""DML_OPERATOR_DEPTH_TO_SPACE1 and its older version DML_OPERATOR_DEPTH_TO_SPACE: channels laid out as blocks of an image.

Sources: ns-directml-dml_depth_to_space1_operator_desc, ns-directml-dml_depth_to_space_operator_desc,
ne-directml-dml_depth_space_order.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
DEPTH_FIRST = DepthSpaceOrder.DEPTH_COLUMN_ROW
ERRATA = (
    "The page does not say that BlockSize is at least 1, and divides what is divided: both are rules here (our decision).",
)
DEEP, WIDE = TensorDesc(DataType.UINT32, (1, 8, 2, 3)), TensorDesc(DataType.UINT32, (1, 2, 4, 6))
DEPTH: NDArray[Any] = np.array([9 * k + np.arange(6).reshape(2, 3) for k in range(8)], np.uint32)[None]
BLOCKS: NDArray[Any] = np.array(
    [
        [[0, 18, 1, 19, 2, 20], [36, 54, 37, 55, 38, 56], [3, 21, 4, 22, 5, 23], [39, 57, 40, 58, 41, 59]],
        [[9, 27, 10, 28, 11, 29], [45, 63, 46, 64, 47, 65], [12, 30, 13, 31, 14, 32], [48, 66, 49, 67, 50, 68]],
    ],
    np.uint32,
)[None]
COLUMNS: NDArray[Any] = np.array(
    [
        [[0, 9, 1, 10, 2, 11], [18, 27, 19, 28, 20, 29], [3, 12, 4, 13, 5, 14], [21, 30, 22, 31, 23, 32]],
        [[36, 45, 37, 46, 38, 47], [54, 63, 55, 64, 56, 65], [39, 48, 40, 49, 41, 50], [57, 66, 58, 67, 59, 68]],
    ],
    np.uint32,
)[None]


def levels(*first: Support) -> tuple[Support, ...]:
    """The rows of both versions from 2_1 on, after those that one has before."""
    return (*first, support("2_1", BOTH, (4, 4), EIGHT), support("5_0", BOTH, (4, 4), ELEVEN))


def at_least_one() -> Constraint:
    return Constraint(
        "block_size_not_zero",
        "`BlockSize` must be at least 1.",
        lambda d: d.block_size >= 1,
        expected=lambda d: {"BlockSize": range(1, 2**32)},
        breaks=lambda d: {"block_size": 0},
    )


def block_rules() -> tuple[Constraint, ...]:
    @constraint(
        "The second of `InputTensor.Sizes` must be a multiple of `BlockSize` squared: the channels are blocks.",
        breaks=lambda d: {"block_size": 3},
    )
    def channels_divisible(d: Any) -> bool:
        return bool(d.input_tensor.sizes[1] % d.block_size**2 == 0)

    return (
        at_least_one(),
        channels_divisible,
        sizes_are(
            "OutputTensor",
            "`OutputTensor.Sizes` must be those of `InputTensor.Sizes`, with fewer channels by `BlockSize` squared, and height "
            "and width times `BlockSize`.",
            space,
        ),
    )


def space(d: Any) -> tuple[int, ...]:
    """The sizes of the output; ValueError where none follow."""
    n, c, h, w = d.input_tensor.sizes
    block = d.block_size
    if block < 1 or c % block**2:
        raise ValueError("the channels are no blocks")
    return n, c // block**2, h * block, w * block


@operator("DML_OPERATOR_DEPTH_TO_SPACE1", 113, since=FeatureLevel.FL_2_1)
class DepthToSpace1(Desc):
    """Rearranges channels to blocks of an image: Output[n, c, h * B + i, w * B + j] = Input[n, k, h, w].

    B is BlockSize, and C the output's number of channels. The channel k is (i * B + j) * C + c in the order DEPTH_COLUMN_ROW,
    and (c * B + i) * B + j in the order COLUMN_ROW_DEPTH. Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount * BlockSize^2, Height, Width}.")
    output_tensor: TensorDesc = field.output(
        "OutputTensor", "{BatchCount, ChannelCount, Height * BlockSize, Width * BlockSize}."
    )
    block_size: int = field.attribute("BlockSize", field.UINT, "Height and width of a block.")
    order: DepthSpaceOrder = field.attribute(
        "Order", field.DEPTH_SPACE_ORDER, "The order of the channels of a block.", default=DEPTH_FIRST
    )

    eight_bit_floats = BOTH
    rows = levels()
    same = same("DataType", BOTH)
    blocks = block_rules()

    def outputs(d) -> Outputs:
        return {"output_tensor": (space(d), d.input_tensor.data_type)}

    def statement(d, x: Tensor) -> Nest:
        n, c, y, z = at = each(d.output_tensor.sizes)
        b = d.block_size
        (h, i), (w, j) = (y // b, y % b), (z // b, z % b)
        k = (i * b + j) * d.output_tensor.sizes[1] + c if d.order == DEPTH_FIRST else (c * b + i) * b + j
        return move(at, x[n, k, h, w])

    examples = (
        Example(
            "Page: DEPTH_COLUMN_ROW",
            dict(input_tensor=DEEP, output_tensor=WIDE, block_size=2, order="DEPTH_COLUMN_ROW"),
            dict(input_tensor=DEPTH),
            BLOCKS,
        ),
        Example(
            "Page: COLUMN_ROW_DEPTH",
            dict(input_tensor=DEEP, output_tensor=WIDE, block_size=2, order="COLUMN_ROW_DEPTH"),
            dict(input_tensor=DEPTH),
            COLUMNS,
        ),
    )
    rejecting = ()
    errata = ("The page refers to SPACE_TO_DEPTH, which refers back.", *ERRATA)


@operator("DML_OPERATOR_DEPTH_TO_SPACE", 69, since=FeatureLevel.FL_1_0)
class DepthToSpace(Desc):
    """Rearranges channels to blocks of an image: Output[n, c, h * B + i, w * B + j] = Input[n, (i * B + j) * C + c, h, w].

    It is DEPTH_TO_SPACE1 in the order DEPTH_COLUMN_ROW.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount * BlockSize^2, Height, Width}.")
    output_tensor: TensorDesc = field.output(
        "OutputTensor", "{BatchCount, ChannelCount, Height * BlockSize, Width * BlockSize}."
    )
    block_size: int = field.attribute("BlockSize", field.UINT, "Height and width of a block.")

    eight_bit_floats = BOTH
    rows = levels(support("1_0", BOTH, (4, 4), FLOATS))
    same = same("DataType", BOTH)
    blocks = block_rules()

    def outputs(d) -> Outputs:
        return {"output_tensor": (space(d), d.input_tensor.data_type)}

    def as_newest(d) -> DepthToSpace1:
        return DepthToSpace1(
            input_tensor=d.input_tensor, output_tensor=d.output_tensor, block_size=d.block_size, order=DEPTH_FIRST
        )

    examples = (
        Example(
            "Page: blocks of 2 x 2",
            dict(input_tensor=DEEP, output_tensor=WIDE, block_size=2),
            dict(input_tensor=DEPTH),
            BLOCKS,
        ),
    )
    rejecting = ()
    errata = ERRATA
