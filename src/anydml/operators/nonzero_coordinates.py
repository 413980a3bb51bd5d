"""DML_OPERATOR_NONZERO_COORDINATES: the coordinates of elements that are not 0.

Source: ns-directml-dml_nonzero_coordinates_operator_desc.
"""

from __future__ import annotations

import math

from anydml.operators.shared.vocabulary import *

UINT32 = DataType.UINT32


def effective_rank(sizes: tuple[int, ...]) -> int:
    """The dimensions without leading ones."""
    return next((len(sizes) - a for a, n in enumerate(sizes) if n != 1), 0)


@operator("DML_OPERATOR_NONZERO_COORDINATES", 133, since=FeatureLevel.FL_3_0)
class NonzeroCoordinates(Desc):
    """Lists the coordinates of the elements that are not 0, in row-major order, and counts them.

    A row of OutputCoordinates holds an element's coordinates along the last dimensions, as many as there are columns. Rows
    after the last element are 0. Zeros of both signs are 0; NaN is not.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements.")
    output_count_tensor: TensorDesc = field.output("OutputCountTensor", "The number of elements that are not 0.")
    output_coordinates_tensor: TensorDesc = field.output(
        "OutputCoordinatesTensor", "A row for each element of the input: {1, .., elements, coordinates}."
    )

    rows = (
        support("3_0", "InputTensor", (4, 5), EIGHT),
        support("3_0", "OutputCountTensor OutputCoordinatesTensor", (4, 5), (UINT32,)),
        support("4_0", "InputTensor", (1, 8), EIGHT),
        support("4_0", "OutputCountTensor", (1, 8), (UINT32,)),
        support("4_0", "OutputCoordinatesTensor", (2, 8), (UINT32,)),
    )
    single = single_element("OutputCountTensor")

    @constraint(
        "The second last of `OutputCoordinatesTensor.Sizes` must be the product of `InputTensor.Sizes`, a row each.",
        breaks=lambda d: {"output_coordinates_tensor": TensorDesc(UINT32, (1, 1, 3, 3))},
    )
    def rows_for_all(d) -> bool:
        return d.output_coordinates_tensor.sizes[-2] == math.prod(d.input_tensor.sizes)

    @constraint(
        "The last of `OutputCoordinatesTensor.Sizes` must be at most the number of `InputTensor.Sizes`, and at least that "
        "without leading ones.",
        breaks=lambda d: {"output_coordinates_tensor": TensorDesc(UINT32, (1, 1, 4, 1))},
    )
    def columns_fit(d) -> bool:
        sizes = d.input_tensor.sizes
        return effective_rank(sizes) <= d.output_coordinates_tensor.sizes[-1] <= len(sizes)

    @constraint(
        "`OutputCoordinatesTensor.Sizes` must be 1 before the last two.",
        breaks=lambda d: {"output_coordinates_tensor": TensorDesc(UINT32, (1, 2, 4, 3))},
    )
    def coordinates_lead_with_ones(d) -> bool:
        return all(n == 1 for n in d.output_coordinates_tensor.sizes[:-2])

    def outputs(d) -> Outputs:
        sizes = d.input_tensor.sizes
        lead = (1,) * (max(len(sizes), 2) - 2)
        return {
            "output_count_tensor": ((1,) * len(sizes), UINT32),
            "output_coordinates_tensor": ((*lead, math.prod(sizes), len(sizes)), UINT32),
        }

    def statement(d, x: Tensor) -> tuple[Nest, Nest]:
        k = each(x.sizes, "abcdefgh")
        total = Sum(k, as_number(is_true(x[k])))
        i = each(d.output_coordinates_tensor.sizes)
        q = each((math.prod(x.sizes),), "q")
        at = rank(q, as_number(is_true(x[unraveled(q[0], x.sizes)])), i[-2], decreasing=True)
        columns = d.output_coordinates_tensor.sizes[-1]
        coordinate = pieces(i[-1], range(columns), unraveled(at, x.sizes)[len(x.sizes) - columns :])
        counted = nest(each(d.output_count_tensor.sizes), total)
        return counted, nest(i, select(number(i[-2]) < total, number(coordinate), 0))

    examples = (
        Example(
            "A column for each dimension",
            dict(
                input_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 2, 2)),
                output_count_tensor=TensorDesc(UINT32, (1, 1, 1, 1)),
                output_coordinates_tensor=TensorDesc(UINT32, (1, 1, 4, 4)),
            ),
            dict(input_tensor=np.array([[[[0, 1], [np.nan, -0.0]]]], np.float32)),
            dict(
                output_count_tensor=np.array([[[[2]]]], np.uint32),
                output_coordinates_tensor=np.array([[[[0, 0, 0, 1], [0, 0, 1, 0], [0] * 4, [0] * 4]]], np.uint32),
            ),
        ),
        Example(
            "Page: four of eight",
            dict(
                input_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 2, 4)),
                output_count_tensor=TensorDesc(UINT32, (1, 1, 1, 1)),
                output_coordinates_tensor=TensorDesc(UINT32, (1, 1, 8, 3)),
            ),
            dict(input_tensor=np.array([[[[1, 0, 0, 2], [-0.0, 3.5, 0, -5.2]]]], np.float32)),
            dict(
                output_count_tensor=np.array([[[[4]]]], np.uint32),
                output_coordinates_tensor=np.array(
                    [[[[0, 0, 0], [0, 0, 3], [0, 1, 1], [0, 1, 3], *[[0, 0, 0]] * 4]]], np.uint32
                ),
            ),
        ),
    )
    rejecting = ()
    errata = (
        "The page says that at most OutputCount elements are written; it is rows.",
        "The page leaves the rows behind the last element undefined; they are 0 (our decision).",
        "The page does not say whether NaN is 0: it is not (our decision).",
        "The page does not ask for equal dimension counts, and none are asked for.",
    )
