"""DML_OPERATOR_ONE_HOT: lines with one value at a given index, and another elsewhere.

Source: ns-directml-dml_one_hot_operator_desc.
"""

from __future__ import annotations

import math

from anydml.operators.shared.vocabulary import *

VALUES = "ValuesTensor OutputTensor"
UINT32, FLOAT32 = DataType.UINT32, DataType.FLOAT32
PAIR = TensorDesc(FLOAT32, (1, 1, 1, 2))
OFF_ON = np.array([[[[0, 1]]]], np.float32)


def one_in_place(d: Any) -> tuple[int, ...]:
    sizes: tuple[int, ...] = d.output_tensor.sizes
    if d.axis >= len(sizes):
        raise ValueError("the axis is not there")
    return (*sizes[: d.axis], 1, *sizes[d.axis + 1 :])


def indices_sizes() -> Constraint:
    return sizes_are("IndicesTensor", "`IndicesTensor.Sizes` must be `OutputTensor.Sizes` with 1 at `Axis`.", one_in_place)


@operator("DML_OPERATOR_ONE_HOT", 95, since=FeatureLevel.FL_2_0)
class OneHot(Desc):
    """Writes the value On at the index of each line along an axis, and the value Off elsewhere in the line.

    Off is the first element of Values, and On the next one along the last dimension with more than one element. A negative
    index counts from the end; an index that is out of range leaves its line without On. Bits are copied unchanged.
    """

    indices_tensor: TensorDesc = field.input("IndicesTensor", "The place in each line; of size 1 along Axis.")
    values_tensor: TensorDesc = field.input("ValuesTensor", "Off and On; further elements do not count.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The lines.")
    axis: int = field.attribute("Axis", field.UINT, "The axis along which the lines lie.")

    eager = defaults(axis=("the last", lambda d: d.indices_tensor.dimension_count - 1))

    eight_bit_floats = VALUES
    rows = (
        support("2_0", VALUES, (4, 4), FLOATS),
        support("2_0", "IndicesTensor", (4, 4), (UINT32,)),
        support("2_1", VALUES, (4, 4), EIGHT),
        support("3_0", VALUES, (1, 8), EIGHT),
        support("3_0", "IndicesTensor", (1, 8), INDICES),
        support("4_1", VALUES, (1, 8), ELEVEN),
    )
    same = (*same("DimensionCount", "IndicesTensor ValuesTensor OutputTensor"), *same("DataType", VALUES))
    axis_in_range = axis_in_range("OutputTensor")
    indices_sizes = indices_sizes()

    @constraint(
        "`ValuesTensor.Sizes` must have two elements at least.",
        breaks=lambda d: {"values_tensor": TensorDesc(FLOAT32, (1, 1, 1, 1))},
    )
    def two_values(d) -> bool:
        return math.prod(d.values_tensor.sizes) >= 2

    def statement(d, indices: Tensor, values: Tensor) -> Nest:
        i = each(d.output_tensor.sizes)
        named, place = indices[[*i[: d.axis], 0, *i[d.axis + 1 :]]], i[d.axis]
        there = equal(named, number(place))
        if indices.data_type in (DataType.INT32, DataType.INT64):
            there = either(there, equal(named, number(place - d.output_tensor.sizes[d.axis])))
        last = max(a for a, n in enumerate(values.sizes) if n > 1)
        off, on = (values[[k if a == last else 0 for a in range(len(values.sizes))]] for k in (0, 1))
        return move(i, select(there, on, off))

    examples = (
        Example(
            "Page, example 1: rows",
            dict(
                indices_tensor=TensorDesc(UINT32, (1, 1, 3, 1)), values_tensor=PAIR,
                output_tensor=TensorDesc(FLOAT32, (1, 1, 3, 4)), axis=3,
            ),
            dict(indices_tensor=np.array([[[[0], [3], [2]]]], np.uint32), values_tensor=OFF_ON),
            np.array([[[[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]]], np.float32),
        ),
        Example(
            "Page, example 2: columns",
            dict(
                indices_tensor=TensorDesc(UINT32, (1, 1, 1, 4)), values_tensor=PAIR,
                output_tensor=TensorDesc(FLOAT32, (1, 1, 3, 4)), axis=2,
            ),
            dict(indices_tensor=np.array([[[[0, 2, 1, 0]]]], np.uint32), values_tensor=OFF_ON),
            np.array([[[[1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]]]], np.float32),
        ),
        Example(
            "Page: three values, of which two count",
            dict(
                indices_tensor=TensorDesc(UINT32, (1, 1, 3, 1)), values_tensor=TensorDesc(FLOAT32, (1, 1, 3, 1)),
                output_tensor=TensorDesc(FLOAT32, (1, 1, 3, 4)), axis=3,
            ),
            dict(
                indices_tensor=np.array([[[[0], [3], [2]]]], np.uint32),
                values_tensor=np.array([[[[4], [2], [9]]]], np.float32),
            ),
            np.array([[[[2, 4, 4, 4], [4, 4, 4, 2], [4, 4, 2, 4]]]], np.float32),
        ),
        Example(
            "Page: indices that are negative, and out of range",
            dict(
                indices_tensor=TensorDesc(DataType.INT32, (1, 1, 3, 1)), values_tensor=PAIR,
                output_tensor=TensorDesc(FLOAT32, (1, 1, 3, 4)), axis=3,
            ),
            dict(indices_tensor=np.array([[[[-3], [100], [3]]]], np.int32), values_tensor=OFF_ON),
            np.array([[[[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]]], np.float32),
        ),
    )  # fmt: skip
    rejecting = ()
    errata = (
        "The page leaves a line without On where the index exceeds the number of elements; it does so where it is that, too.",
        "The page speaks of an OnValue and an OffValue; there is one tensor of both.",
        "The page does not say what an index below minus the size of the axis does: it is out of range (our decision).",
        "The page does not say which of more than two values count: the first two along the last dimension larger than 1.",
    )
