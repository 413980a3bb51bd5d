"""DML_OPERATOR_JOIN: tensors one after another along an axis.

Source: ns-directml-dml_join_operator_desc.
"""

from __future__ import annotations

from itertools import accumulate

from anydml.operators.shared.part_rules import parts
from anydml.operators.shared.vocabulary import *

BOTH = "InputTensors OutputTensor"


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


def counted(first: int, *sizes: int) -> Any:
    return np.arange(first, first + np.prod(sizes), dtype=np.float32).reshape(sizes)


@operator("DML_OPERATOR_JOIN", 63, since=FeatureLevel.FL_1_0)
class Join(Desc):
    """Concatenates tensors along an axis: Output[.., o + i, ..] = Input[n][.., i, ..].

    Here o is the sum of the sizes along the axis of the inputs before n. Bits are copied unchanged.
    """

    input_count: int | None = field.count("InputCount", "The number of tensors to join.", default=None)
    input_tensors: tuple[TensorDesc, ...] = field.input(
        "InputTensors", "The tensors to join, alike in every dimension but Axis.", sized_by="InputCount"
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The tensors together.")
    axis: int = field.attribute("Axis", field.UINT, "The dimension to join along.")

    eight_bit_floats = BOTH
    rows = (
        support("1_0", BOTH, (4, 4), SIX),
        support("2_1", BOTH, (4, 4), EIGHT),
        support("3_0", BOTH, (4, 5), EIGHT),
        support("3_1", BOTH, (1, 8), EIGHT),
        support("4_1", BOTH, (1, 8), ELEVEN),
    )
    same = same("DataType DimensionCount", BOTH)
    axis_in_range = axis_in_range("OutputTensor")
    parts = parts("OutputTensor", "InputTensors", "InputCount")

    def outputs(d) -> Outputs:
        first = d.input_tensors[0]
        along = sum(t.sizes[d.axis] for t in d.input_tensors)
        return {"output_tensor": ((*first.sizes[: d.axis], along, *first.sizes[d.axis + 1 :]), first.data_type)}

    def statement(d, inputs: list[Tensor]) -> Nest:
        i = each(d.output_tensor.sizes)
        starts = list(accumulate((x.sizes[d.axis] for x in inputs), initial=0))[:-1]
        at = [(*i[: d.axis], i[d.axis] - start, *i[d.axis + 1 :]) for start in starts]
        return move(i, pieces(i[d.axis], starts, [x[a] for x, a in zip(inputs, at, strict=True)]))

    examples = (
        Example(
            "Page, example 1: two tensors of different sizes along the last dimension",
            dict(input_tensors=(float32(1, 1, 2, 3), float32(1, 1, 2, 4)), output_tensor=float32(1, 1, 2, 7), axis=3),
            dict(input_tensors=[counted(1, 1, 1, 2, 3), counted(7, 1, 1, 2, 4)]),
            np.array([[[[1, 2, 3, 7, 8, 9, 10], [4, 5, 6, 11, 12, 13, 14]]]], np.float32),
        ),
        Example(
            "Page, example 2: three tensors along the channels",
            dict(input_tensors=(float32(1, 1, 2, 2),) * 3, output_tensor=float32(1, 3, 2, 2), axis=1),
            dict(input_tensors=[counted(n, 1, 1, 2, 2) for n in (1, 5, 9)]),
            counted(1, 1, 3, 2, 2),
        ),
        Example(
            "Page, example 2: the same along the rows",
            dict(input_tensors=(float32(1, 1, 2, 2),) * 3, output_tensor=float32(1, 1, 6, 2), axis=2),
            dict(input_tensors=[counted(n, 1, 1, 2, 2) for n in (1, 5, 9)]),
            counted(1, 1, 1, 6, 2),
        ),
        Example(
            "Page, example 2: the same along the columns",
            dict(input_tensors=(float32(1, 1, 2, 2),) * 3, output_tensor=float32(1, 1, 2, 6), axis=3),
            dict(input_tensors=[counted(n, 1, 1, 2, 2) for n in (1, 5, 9)]),
            np.array([[[[1, 2, 5, 6, 9, 10], [3, 4, 7, 8, 11, 12]]]], np.float32),
        ),
    )
    rejecting = (rejects("input_tensors_counted", input_count=3),)
    errata = (
        "The page lacks the table of 3_1, from which on 1 to 8 dimensions are taken, as the feature level history says.",
        "The page's first example says that the fourth dimension does not match, where it joins along it.",
    )
