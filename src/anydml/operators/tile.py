"""DML_OPERATOR_TILE: a tensor repeated along its dimensions.

Source: ns-directml-dml_tile_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"


@operator("DML_OPERATOR_TILE", 70, since=FeatureLevel.FL_1_0)
class Tile(Desc):
    """Repeats a tensor along each dimension: Output[.., i, ..] = Input[.., i mod Input.Sizes, ..].

    Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to repeat.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The tensor to copy to.")
    repeats_count: int | None = field.count("RepeatsCount", "Entries of Repeats.", default=None)
    repeats: tuple[int, ...] = field.attribute(
        "Repeats", field.UINT, "The number of times the input is repeated, for each dimension.", sized_by="RepeatsCount"
    )

    eight_bit_floats = BOTH
    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_1", BOTH, (4, 4), EIGHT),
        support("3_1", BOTH, (1, 8), EIGHT),
        support("4_1", BOTH, (1, 8), TEN),
    )
    same = same("DataType DimensionCount", BOTH)
    counted = count_is_dimension_count("InputTensor", "RepeatsCount")

    @constraint("`Repeats` must be at least 1.", each="Repeats", breaks=lambda d: {"repeats": (0, *d.repeats[1:])})
    def repeats_not_zero(d, i: int) -> bool:
        return d.repeats[i] >= 1

    @constraint(
        "`OutputTensor.Sizes` must equal `InputTensor.Sizes` times `Repeats`.",
        each=DIMENSION,
        expected=lambda d, i: {f"OutputTensor.Sizes[{i}]": d.input_tensor.sizes[i] * d.repeats[i]},
        breaks=lambda d: {"output_tensor": d.input_tensor},
    )
    def output_sizes(d, i: int) -> bool:
        if d.repeats[i] < 1 or len(d.output_tensor.sizes) != len(d.input_tensor.sizes):
            raise ValueError("another rule is broken, so that no output size follows")
        return d.output_tensor.sizes[i] == d.input_tensor.sizes[i] * d.repeats[i]

    def outputs(d) -> Outputs:
        sizes = tuple(n * repeats for n, repeats in zip(d.input_tensor.sizes, d.repeats, strict=True))
        return {"output_tensor": (sizes, d.input_tensor.data_type)}

    def statement(d, x: Tensor) -> Nest:
        c = each(d.output_tensor.sizes)
        return move(c, x[[i % n if r > 1 else i for i, n, r in zip(c, x.sizes, d.repeats, strict=True)]])

    examples = (
        Example(
            "Page: three times down and across",
            dict(
                input_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 2, 3)),
                output_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 6, 9)),
                repeats=(1, 1, 3, 3),
            ),
            dict(input_tensor=np.arange(1, 7, dtype=np.float32).reshape(1, 1, 2, 3)),
            np.array([[[[1, 2, 3] * 3, [4, 5, 6] * 3] * 3]], np.float32),
        ),
        Example(
            "A vector twice",
            dict(input_tensor=TensorDesc(DataType.INT64, (2,)), output_tensor=TensorDesc(DataType.INT64, (4,)), repeats=(2,)),
            dict(input_tensor=np.array([-1, 2], np.int64)),
            np.array([-1, 2, -1, 2], np.int64),
        ),
    )
    rejecting = (rejects("repeats_counted", repeats=(1, 1, 3)),)
    errata = (
        "The page labels the output of its example InputTensor.",
        "The page has no FLOAT64, which other operators that move elements take from 4_1 on; it is not taken.",
    )
