"""DML_OPERATOR_GATHER: elements along an axis, at indices that are data.

Source: ns-directml-dml_gather_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
UINT32 = DataType.UINT32


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


def uint32(*sizes: int) -> TensorDesc:
    return TensorDesc(UINT32, sizes)


def six(*sizes: int) -> NDArray[Any]:
    return np.arange(1, 7, dtype=np.float32).reshape(sizes)


@operator("DML_OPERATOR_GATHER", 67, since=FeatureLevel.FL_1_0)
class Gather(Desc):
    """Copies the slices of Input at indices along an axis: NumPy's take(Input, Indices, Axis).

    The output's sizes are Input's, in which the axis is replaced by the last IndexDimensions sizes of Indices, after leading
    sizes of 1 up to the dimension count. A negative index counts from the end.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to copy from.")
    indices_tensor: TensorDesc = field.input("IndicesTensor", "The positions along Axis.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The tensor to copy to.")
    axis: int = field.attribute("Axis", field.UINT, "The axis of Input that the indices count along.")
    index_dimensions: int = field.attribute(
        "IndexDimensions", field.UINT, "How many dimensions of Indices count, the last ones; those before have size 1."
    )

    eager = defaults(
        axis=("0", lambda d: 0),
        index_dimensions=("as many as the indices have", lambda d: d.indices_tensor.dimension_count),
    )

    eight_bit_floats = BOTH
    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("1_0", "IndicesTensor", (4, 4), (UINT32,)),
        support("2_1", BOTH, (4, 4), EIGHT),
        support("3_0", BOTH, (1, 8), EIGHT),
        support("3_0", "IndicesTensor", (1, 8), INDICES),
        support("4_1", BOTH, (1, 8), ELEVEN),
    )
    same = (*same("DataType", BOTH), *same("DimensionCount", "InputTensor IndicesTensor OutputTensor"))
    axis_in_range = axis_in_range()

    @constraint(
        "`IndexDimensions` must be at most `IndicesTensor.DimensionCount`.",
        expected=lambda d: {"IndexDimensions": range(d.indices_tensor.dimension_count + 1)},
        breaks=lambda d: {"index_dimensions": d.indices_tensor.dimension_count + 1},
    )
    def index_dimensions_in_range(d) -> bool:
        return d.index_dimensions <= d.indices_tensor.dimension_count

    @constraint("`IndicesTensor.Sizes` must be 1 before the last dimensions, as many as `IndexDimensions` says.")
    def indices_lead_with_ones(d) -> bool:
        if d.index_dimensions > len(d.indices_tensor.sizes):
            raise ValueError("there are not so many dimensions")
        return all(n == 1 for n in d.indices_tensor.sizes[: len(d.indices_tensor.sizes) - d.index_dimensions])

    @constraint(
        "`OutputTensor.Sizes` must be `InputTensor.Sizes` with those at the end of `IndicesTensor.Sizes`, as many as "
        "`IndexDimensions` says, in the place of `Axis`; leading ones are added or left out.",
        expected=lambda d: {"OutputTensor.Sizes": gathered(d)},
        breaks=lambda d: {"output_tensor": float32(*d.output_tensor.sizes[:-1], d.output_tensor.sizes[-1] + 1)},
    )
    def output_sizes(d) -> bool:
        sizes = gathered(d)
        if len(d.output_tensor.sizes) != len(d.input_tensor.sizes):
            raise ValueError("the rule about dimension counts is broken, so that sizes cannot be compared")
        return d.output_tensor.sizes == sizes

    @data_rule("an index must be at least minus the size of the axis, and less than that size.", "IndicesTensor")
    def index_in_range(d: Any, indices: NDArray[Any]) -> NDArray[np.bool_]:
        size = d.input_tensor.sizes[d.axis]
        beyond: NDArray[np.bool_] = indices >= size
        return beyond | (indices < -size) if indices.dtype.kind == "i" else beyond

    def outputs(d) -> Outputs:
        return {"output_tensor": (gathered(d), d.input_tensor.data_type)}

    def statement(d, x: Tensor, indices: Tensor) -> Nest:
        i = each(d.output_tensor.sizes)
        surplus = d.index_dimensions - 1
        c = (*(lift(0),) * surplus, *i) if surplus >= 0 else i[1:]  # before leading ones were left out or put in front
        last = d.axis + d.index_dimensions
        named = indices[[*(0,) * (len(indices.sizes) - d.index_dimensions), *c[d.axis : last]]]
        at = index(named)
        if indices.data_type in (DataType.INT32, DataType.INT64):
            at = select(at < 0, at + x.sizes[d.axis], at)
        return move(i, x[[*c[: d.axis], at, *c[last:]]])

    examples = (
        Example(
            "Page, example 1: elements of a vector",
            dict(input_tensor=float32(4), indices_tensor=uint32(5), output_tensor=float32(5), axis=0, index_dimensions=1),
            dict(input_tensor=np.arange(11, 15, dtype=np.float32), indices_tensor=np.array([3, 1, 3, 0, 2], np.uint32)),
            np.array([14, 12, 14, 11, 13], np.float32),
        ),
        Example(
            "Page, example 2: rows of a matrix",
            dict(
                input_tensor=float32(3, 2), indices_tensor=uint32(1, 4), output_tensor=float32(4, 2),
                axis=0, index_dimensions=1,
            ),
            dict(input_tensor=six(3, 2), indices_tensor=np.array([[0, 1, 1, 2]], np.uint32)),
            np.array([[1, 2], [3, 4], [3, 4], [5, 6]], np.float32),
        ),
        Example(
            "Page, example 3: columns of a matrix",
            dict(
                input_tensor=float32(3, 2), indices_tensor=uint32(1, 2), output_tensor=float32(3, 2),
                axis=1, index_dimensions=1,
            ),
            dict(input_tensor=six(3, 2), indices_tensor=np.array([[1, 0]], np.uint32)),
            np.array([[2, 1], [4, 3], [6, 5]], np.float32),
        ),
        Example(
            "Page, example 4: columns by a matrix of indices",
            dict(
                input_tensor=float32(1, 3, 3), indices_tensor=uint32(1, 1, 2), output_tensor=float32(3, 1, 2),
                axis=2, index_dimensions=2,
            ),
            dict(
                input_tensor=np.arange(1, 10, dtype=np.float32).reshape(1, 3, 3),
                indices_tensor=np.array([[[0, 2]]], np.uint32),
            ),
            np.array([[[1, 3]], [[4, 6]], [[7, 9]]], np.float32),
        ),
        Example(
            "Page, example 5: rows by a matrix of indices",
            dict(
                input_tensor=float32(1, 3, 2), indices_tensor=uint32(1, 2, 2), output_tensor=float32(2, 2, 2),
                axis=1, index_dimensions=2,
            ),
            dict(input_tensor=six(1, 3, 2), indices_tensor=np.array([[[0, 1], [1, 2]]], np.uint32)),
            np.array([[[1, 2], [3, 4]], [[3, 4], [5, 6]]], np.float32),
        ),
        Example(
            "Negative indices count from the end",
            dict(
                input_tensor=float32(4), indices_tensor=TensorDesc(DataType.INT64, (3,)), output_tensor=float32(3),
                axis=0, index_dimensions=1,
            ),
            dict(input_tensor=np.arange(11, 15, dtype=np.float32), indices_tensor=np.array([-1, -4, 0], np.int64)),
            np.array([14, 11, 11], np.float32),
        ),
    )  # fmt: skip
    rejecting = (
        rejects("indices_lead_with_ones", input_tensor=float32(3, 2), indices_tensor=uint32(2, 4), output_tensor=float32(4, 2)),
    )
    errata = (
        "Example 3 prints IndexDimensions 2, with which its sizes do not agree; it is 1.",
        "Example 4 is titled axis 1 and uses axis 2; example 5 is titled axis 0 and uses axis 1.",
        "The page keeps IndexDimensions below the dimension count; its example 1 needs the count itself, which is legal.",
        "The page says that the type of Indices matches Input; its table has index types.",
        "The page says that results are incorrect where an index is out of range; here it is an error and nothing is "
        "written (our decision).",
        "The page does not say what the dimensions of Indices before the last IndexDimensions may be: 1 (our decision).",
    )


def gathered(d: Any) -> tuple[int, ...]:
    """The sizes of the output; ValueError if no output can have them."""
    count = len(d.input_tensor.sizes)
    if d.axis >= count or not d.index_dimensions <= len(d.indices_tensor.sizes) == count:
        raise ValueError("the axis or the dimensions of the indices are not there")
    taken = d.indices_tensor.sizes[count - d.index_dimensions :]
    sizes = (*d.input_tensor.sizes[: d.axis], *taken, *d.input_tensor.sizes[d.axis + 1 :])
    surplus = len(sizes) - count
    if any(n != 1 for n in sizes[: max(surplus, 0)]):
        return sizes  # too many dimensions: no output has them
    return sizes[surplus:] if surplus >= 0 else (1,) * -surplus + sizes
