"""DML_OPERATOR_GATHER_ELEMENTS: an element for every index along an axis; indices are data.

Source: ns-directml-dml_gather_elements_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
UINT32 = DataType.UINT32
SQUARE = TensorDesc(DataType.FLOAT32, (3, 3))


def levels(moved: str, indices: str = "IndicesTensor") -> tuple[Support, ...]:
    """The rows of operators with indices, from 2_1 on."""
    return (
        support("2_1", moved, (4, 4), EIGHT),
        support("2_1", indices, (4, 4), (UINT32,)),
        support("3_0", moved, (1, 8), EIGHT),
        support("3_0", indices, (1, 8), INDICES),
        support("4_1", moved, (1, 8), ELEVEN),
    )


def out_of_range(indices: NDArray[Any], size: Any) -> NDArray[np.bool_]:
    """A mask of the indices that are out of range, for one axis, or axes that differ along the last dimension."""
    limit = np.asarray(size, np.int64)
    if indices.dtype.kind == "u":
        return np.asarray(indices >= limit.astype(indices.dtype))
    wide = indices.astype(np.int64)
    return np.asarray((wide >= limit) | (wide < -limit))


def wrapped(named: Expr, data_type: DataType, size: Operand) -> Expr:
    """An index that is data; a negative one counts from the end."""
    at = index(named)
    return select(at < 0, at + size, at) if data_type in (DataType.INT32, DataType.INT64) else at


@operator("DML_OPERATOR_GATHER_ELEMENTS", 107, since=FeatureLevel.FL_2_1)
class GatherElements(Desc):
    """Copies the elements at indices along an axis: Output[.., i, ..] = Input[.., Indices[.., i, ..], ..].

    A negative index counts from the end. Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to copy from.")
    indices_tensor: TensorDesc = field.input("IndicesTensor", "The positions along Axis, for every element of the output.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The tensor to copy to.")
    axis: int = field.attribute("Axis", field.UINT, "The axis of Input that the indices count along.")

    eager = defaults(axis=("0", lambda d: 0))

    eight_bit_floats = BOTH
    rows = levels(BOTH)
    same = (*same("DataType", BOTH), *same("DimensionCount", "InputTensor IndicesTensor OutputTensor"))
    output_sizes = sizes_are(
        "OutputTensor", "`OutputTensor.Sizes` must equal `IndicesTensor.Sizes`.", lambda d: d.indices_tensor.sizes
    )
    axis_in_range = axis_in_range()

    @constraint(
        "`IndicesTensor.Sizes` must equal `InputTensor.Sizes` in every dimension but `Axis`.",
        breaks=lambda d: (
            dict.fromkeys(("indices_tensor",), TensorDesc(UINT32, (2, 4)))
            | {"output_tensor": TensorDesc(DataType.FLOAT32, (2, 4))}
        ),
    )
    def indices_equal_off_axis(d) -> bool:
        sizes = d.indices_tensor.sizes
        if len(sizes) != len(d.input_tensor.sizes) or d.axis >= len(sizes):
            raise ValueError("another rule is broken, so that sizes cannot be compared")
        return sizes == (*d.input_tensor.sizes[: d.axis], sizes[d.axis], *d.input_tensor.sizes[d.axis + 1 :])

    @data_rule("an index must be at least minus the size of the axis, and less than that size.", "IndicesTensor")
    def index_in_range(d: Any, indices: NDArray[Any]) -> NDArray[np.bool_]:
        return out_of_range(indices, d.input_tensor.sizes[d.axis])

    def outputs(d) -> Outputs:
        return {"output_tensor": (d.indices_tensor.sizes, d.input_tensor.data_type)}

    def statement(d, x: Tensor, indices: Tensor) -> Nest:
        i = each(d.output_tensor.sizes)
        at = wrapped(indices[i], indices.data_type, x.sizes[d.axis])
        return move(i, x[[*i[: d.axis], at, *i[d.axis + 1 :]]])

    examples = (
        Example(
            "Page: along columns",
            dict(
                input_tensor=SQUARE,
                indices_tensor=TensorDesc(UINT32, (2, 3)),
                output_tensor=TensorDesc(DataType.FLOAT32, (2, 3)),
                axis=0,
            ),
            dict(
                input_tensor=np.arange(1, 10, dtype=np.float32).reshape(3, 3),
                indices_tensor=np.array([[1, 2, 0], [2, 0, 0]], np.uint32),
            ),
            np.array([[4, 8, 3], [7, 2, 3]], np.float32),
        ),
        Example(
            "Along rows, from the end",
            dict(
                input_tensor=SQUARE,
                indices_tensor=TensorDesc(DataType.INT32, (3, 1)),
                output_tensor=TensorDesc(DataType.FLOAT32, (3, 1)),
                axis=1,
            ),
            dict(
                input_tensor=np.arange(1, 10, dtype=np.float32).reshape(3, 3),
                indices_tensor=np.array([[-1], [-3], [1]], np.int32),
            ),
            np.array([[3], [4], [8]], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page prints the output of its example as UINT32; it is FLOAT32.",
        "The page does not say what an index that is out of range does; it is an error and nothing is written (our decision).",
    )
