"""DML_OPERATOR_SCATTER_ELEMENTS, also called DML_OPERATOR_SCATTER: elements replaced at indices along an axis, which are data.

Source: ns-directml-dml_scatter_operator_desc.
"""

from __future__ import annotations

from anydml.operators.gather_elements import levels, out_of_range
from anydml.operators.shared.vocabulary import *

MOVED = "InputTensor UpdatesTensor OutputTensor"
UINT32 = DataType.UINT32
SQUARE, TWO_LINES = TensorDesc(DataType.FLOAT32, (3, 3)), TensorDesc(DataType.FLOAT32, (2, 3))
ERRATA = (
    "The page does not say which of several updates of one element wins: the last in row-major order (our decision, as its "
    "first example has it).",
    "The page does not say what an index that is out of range does; it is an error and nothing is written (our decision).",
)


def names(named: Expr, data_type: DataType, size: Operand, place: Expr) -> Expr:
    """Whether an index, which is data, is in range; a negative one counts from the end."""
    signed = data_type in (DataType.INT32, DataType.INT64)
    return equal(select(named < 0, named + size, named) if signed else named, number(place))


@operator("DML_OPERATOR_SCATTER_ELEMENTS", 94, since=FeatureLevel.FL_2_0, page_name="dml_scatter_operator_desc")
class ScatterElements(Desc):
    """Copies Input and replaces the elements at indices along an axis: Output[.., Indices[.., i, ..], ..] = Updates[.., i, ..].

    A negative index counts from the end. Of several updates of one element, the last counts. Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to copy from.")
    indices_tensor: TensorDesc = field.input("IndicesTensor", "The position along Axis of every update.")
    updates_tensor: TensorDesc = field.input("UpdatesTensor", "The elements to write.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The tensor to copy to.")
    axis: int = field.attribute("Axis", field.UINT, "The axis that the indices count along.")

    eager = defaults(axis=("0", lambda d: 0))

    eight_bit_floats = MOVED
    rows = (
        support("2_0", MOVED, (4, 4), FLOATS),
        support("2_0", "IndicesTensor", (4, 4), (UINT32,)),
        *levels(MOVED),
    )
    same = (*same("DataType", MOVED), *same("DimensionCount", "InputTensor IndicesTensor UpdatesTensor OutputTensor"))
    axis_in_range = axis_in_range()
    output_sizes = sizes_are(
        "OutputTensor", "`OutputTensor.Sizes` must equal `InputTensor.Sizes`.", lambda d: d.input_tensor.sizes
    )
    updates_sizes = sizes_are(
        "UpdatesTensor", "`UpdatesTensor.Sizes` must equal `IndicesTensor.Sizes`.", lambda d: d.indices_tensor.sizes
    )

    @constraint(
        "`IndicesTensor.Sizes` must equal `InputTensor.Sizes` in every dimension but `Axis`.",
        breaks=lambda d: {
            "indices_tensor": TensorDesc(UINT32, (2, 2)),
            "updates_tensor": TensorDesc(DataType.FLOAT32, (2, 2)),
        },
    )
    def indices_equal_off_axis(d) -> bool:
        sizes = d.indices_tensor.sizes
        if len(sizes) != len(d.input_tensor.sizes) or d.axis >= len(sizes):
            raise ValueError("another rule is broken, so that sizes cannot be compared")
        return sizes == (*d.input_tensor.sizes[: d.axis], sizes[d.axis], *d.input_tensor.sizes[d.axis + 1 :])

    @data_rule("an index must be at least minus the size of the axis, and less than that size.", "IndicesTensor")
    def index_in_range(d: Any, indices: NDArray[Any]) -> NDArray[np.bool_]:
        return out_of_range(indices, d.input_tensor.sizes[d.axis])

    outputs = like("input_tensor")

    def statement(d, x: Tensor, indices: Tensor, updates: Tensor) -> Nest:
        i = each(x.sizes)
        k = each((indices.sizes[d.axis],), "k")

        def here(at: Expr) -> list[Expr]:
            return [*i[: d.axis], at, *i[d.axis + 1 :]]

        def meets(at: Expr) -> Expr:
            return names(indices[here(at)], indices.data_type, x.sizes[d.axis], i[d.axis])

        last = first_largest(k, as_number(meets(k[0])), True)
        return move(i, select(meets(last), updates[here(last)], x[i]))

    examples = (
        Example(
            "Page, example 2: along columns",
            dict(
                input_tensor=SQUARE, indices_tensor=TensorDesc(UINT32, (2, 3)), updates_tensor=TWO_LINES, output_tensor=SQUARE,
                axis=0,
            ),
            dict(
                input_tensor=np.zeros((3, 3), np.float32),
                indices_tensor=np.array([[1, 0, 2], [0, 2, 1]], np.uint32),
                updates_tensor=np.array([[10, 11, 12], [20, 21, 22]], np.float32),
            ),
            np.array([[20, 11, 0], [10, 0, 22], [0, 21, 12]], np.float32),
        ),
        Example(
            "Page, example 1: an element that is written twice",
            dict(
                input_tensor=TensorDesc(DataType.FLOAT32, (5,)), indices_tensor=TensorDesc(UINT32, (4,)),
                updates_tensor=TensorDesc(DataType.FLOAT32, (4,)), output_tensor=TensorDesc(DataType.FLOAT32, (5,)), axis=0,
            ),
            dict(
                input_tensor=np.arange(5, dtype=np.float32),
                indices_tensor=np.array([3, 1, 3, 0], np.uint32),
                updates_tensor=np.array([5, 6, 7, 8], np.float32),
            ),
            np.array([8, 6, 2, 7, 4], np.float32),
        ),
    )  # fmt: skip
    rejecting = ()
    errata = (
        "The page says that the operator came with feature level 1_0; the header has it from 2_0 on.",
        "Example 2 prints sizes of two rows for an input of three.",
        "The page calls the operator the inverse of GATHER; it is the counterpart of GATHER_ELEMENTS.",
        *ERRATA,
    )
