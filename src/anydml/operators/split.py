"""DML_OPERATOR_SPLIT: a tensor cut into parts along an axis.

Source: ns-directml-dml_split_operator_desc.
"""

from __future__ import annotations

from itertools import accumulate

from anydml.operators.shared.part_rules import parts
from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensors"
TWELVE = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 6, 2)  # the page's input, 1 to 12


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


@operator("DML_OPERATOR_SPLIT", 62, since=FeatureLevel.FL_1_0)
class Split(Desc):
    """Splits a tensor along an axis: Output[n][.., i, ..] = Input[.., o + i, ..].

    Here o is the sum of the sizes along the axis of the outputs before n. Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to cut.")
    output_count: int | None = field.count("OutputCount", "The number of parts.", default=None)
    output_tensors: tuple[TensorDesc, ...] = field.output(
        "OutputTensors", "The parts, alike in every dimension but Axis.", sized_by="OutputCount"
    )
    axis: int = field.attribute("Axis", field.UINT, "The dimension to cut along.")

    eager = defaults(axis=("0", lambda d: 0))

    eight_bit_floats = BOTH
    rows = (
        support("1_0", BOTH, (4, 4), SIX),
        support("2_1", BOTH, (4, 4), EIGHT),
        support("3_0", BOTH, (1, 8), EIGHT),
        support("4_1", BOTH, (1, 8), ELEVEN),
    )
    same = same("DataType DimensionCount", BOTH)
    axis_in_range = axis_in_range("InputTensor")
    parts = parts("InputTensor", "OutputTensors", "OutputCount")

    def statement(d, x: Tensor) -> list[Nest]:
        made, starts = [], accumulate((t.sizes[d.axis] for t in d.output_tensors), initial=0)
        for t, start in zip(d.output_tensors, starts, strict=False):
            i = each(t.sizes)
            at = (*i[: d.axis], i[d.axis] + start, *i[d.axis + 1 :])
            made.append(move(i, x[at]))
        return made

    examples = (
        Example(
            "Page, example 1: rows, in parts of 2, 1 and 3",
            dict(
                input_tensor=float32(1, 1, 6, 2),
                output_tensors=(float32(1, 1, 2, 2), float32(1, 1, 1, 2), float32(1, 1, 3, 2)),
                axis=2,
            ),
            dict(input_tensor=TWELVE),
            dict(output_tensors=[TWELVE[:, :, :2], TWELVE[:, :, 2:3], TWELVE[:, :, 3:]]),
        ),
        Example(
            "Page, example 2: columns, in parts of 1",
            dict(input_tensor=float32(1, 1, 6, 2), output_tensors=(float32(1, 1, 6, 1),) * 2, axis=3),
            dict(input_tensor=TWELVE),
            dict(output_tensors=[TWELVE[..., :1], TWELVE[..., 1:]]),
        ),
    )
    rejecting = (rejects("output_tensors_counted", output_count=4),)
    errata = ()
