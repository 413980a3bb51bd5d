"""DML_OPERATOR_TOP_K1 and its older version DML_OPERATOR_TOP_K: the first elements of each line in sorted order.

Sources: ns-directml-dml_top_k1_operator_desc, ns-directml-dml_top_k_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

VALUES, INDEX, ALL = "InputTensor OutputValueTensor", "OutputIndexTensor", "InputTensor OutputValueTensor OutputIndexTensor"
UINT32 = DataType.UINT32
INPUT = TensorDesc(DataType.FLOAT32, (1, 1, 3, 4))
DATA = np.array([[[[0, 1, 10, 11], [3, 2, 9, 8], [4, 5, 6, 7]]]], np.float32)
TIES = np.array([[[[1, 2, 2, 3], [3, 4, 5, 5], [6, 6, 6, 6]]]], np.float32)


def since_2_1(*first: Support) -> tuple[Support, ...]:
    """The rows of both versions from 2_1 on, after those that one has before."""
    return (
        *first,
        support("2_1", VALUES, (4, 4), EIGHT),
        support("2_1", INDEX, (4, 4), (UINT32,)),
        support("3_1", VALUES, (1, 8), EIGHT),
        support("3_1", INDEX, (1, 8), (UINT32,)),
        support("5_0", VALUES, (1, 8), TEN),
        support("5_0", INDEX, (1, 8), (DataType.UINT64, UINT32)),
    )


def selected(sizes: tuple[int, ...], axis: int, k: int) -> tuple[int, ...]:
    """The sizes with K along the axis."""
    if axis >= len(sizes):
        raise ValueError("the axis is not there")
    return (*sizes[:axis], k, *sizes[axis + 1 :])


def size_rules() -> tuple[Constraint, ...]:
    def expected(d: Any) -> dict[str, Any]:
        sizes = selected(d.input_tensor.sizes, d.axis, d.k)
        outputs = {"OutputValueTensor.Sizes": d.output_value_tensor, "OutputIndexTensor.Sizes": d.output_index_tensor}
        return {path: sizes for path, t in outputs.items() if t.sizes != sizes}

    @constraint(
        "`OutputValueTensor.Sizes` and `OutputIndexTensor.Sizes` must be `InputTensor.Sizes` with `K` at `Axis`.",
        expected=expected,
        breaks=lambda d: {"output_index_tensor": TensorDesc(UINT32, d.input_tensor.sizes)},
    )
    def output_sizes(d: Any) -> bool:
        sizes = selected(d.input_tensor.sizes, d.axis, d.k)
        if not len(sizes) == len(d.output_value_tensor.sizes) == len(d.output_index_tensor.sizes):
            raise ValueError("the rule about dimension counts is broken, so that sizes cannot be compared")
        return bool(d.output_value_tensor.sizes == sizes and d.output_index_tensor.sizes == sizes)

    @constraint(
        "`K` must be at least 1 and at most the size that `InputTensor.Sizes` has at `Axis`.",
        expected=lambda d: {"K": range(1, d.input_tensor.sizes[d.axis] + 1)},
    )
    def k_in_range(d: Any) -> bool:
        return bool(1 <= d.k <= d.input_tensor.sizes[d.axis])

    return axis_in_range(), k_in_range, output_sizes


def selection(d: Any) -> Outputs:
    sizes = selected(d.input_tensor.sizes, d.axis, d.k)
    return {"output_value_tensor": (sizes, d.input_tensor.data_type), "output_index_tensor": (sizes, UINT32)}


def case(axis: int, *sizes: int) -> dict[str, Any]:
    """The fields of an example over the twelve elements."""
    return dict(
        input_tensor=INPUT,
        output_value_tensor=TensorDesc(DataType.FLOAT32, sizes),
        output_index_tensor=TensorDesc(UINT32, sizes),
        axis=axis,
        k=sizes[axis],
    )


def made(values: Any, indices: Any) -> dict[str, Any]:
    return dict(output_value_tensor=np.array([[values]], np.float32), output_index_tensor=np.array([[indices]], np.uint32))


BIGGER: dict[str, Any] = dict(k=5, output_value_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 3, 5)),
                               output_index_tensor=TensorDesc(UINT32, (1, 1, 3, 5)))  # fmt: skip


@operator("DML_OPERATOR_TOP_K1", 112, since=FeatureLevel.FL_2_1)
class TopK1(Desc):
    """Selects the K largest or smallest elements of each line along an axis, sorted, and their positions in the line.

    OutputValue has the bits of Input at OutputIndex. Equal elements keep the order of their positions in both directions;
    zeros of both signs are equal, and NaN is larger than +infinity.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The lines.")
    output_value_tensor: TensorDesc = field.output("OutputValueTensor", "The selected elements, in order.")
    output_index_tensor: TensorDesc = field.output("OutputIndexTensor", "The position of each along Axis.")
    axis: int = field.attribute("Axis", field.UINT, "The axis along which the lines lie.")
    k: int = field.attribute("K", field.UINT, "The number of elements selected from a line.")
    axis_direction: AxisDirection = field.attribute(
        "AxisDirection",
        field.AXIS_DIRECTION,
        "INCREASING: the smallest, smallest first; DECREASING: the largest.",
        default=AxisDirection.DECREASING,
    )

    rows = since_2_1()
    same = (*same("DimensionCount", ALL), *same("DataType", VALUES))
    sizes = size_rules()

    outputs = selection

    def statement(d, x: Tensor) -> tuple[Nest, Nest]:
        i = each(d.output_value_tensor.sizes)
        k = over(i, x.sizes, [d.axis])
        at = rank(k, x[k], i[d.axis], decreasing=d.axis_direction == AxisDirection.DECREASING)
        return move(i, x[[*i[: d.axis], at, *i[d.axis + 1 :]]]), nest(i, at)

    examples = (
        Example(
            "Page, example 3: equal elements in increasing order",
            dict(**case(3, 1, 1, 3, 3), axis_direction="INCREASING"),
            dict(input_tensor=TIES),
            made([[1, 2, 2], [3, 4, 5], [6, 6, 6]], [[0, 1, 2], [0, 1, 2], [0, 1, 2]]),
        ),
        Example(
            "Equal elements in decreasing order",
            dict(**case(3, 1, 1, 3, 3), axis_direction="DECREASING"),
            dict(input_tensor=TIES),
            made([[3, 2, 2], [5, 5, 4], [6, 6, 6]], [[3, 1, 2], [2, 3, 1], [0, 1, 2]]),
        ),
    )
    rejecting = (rejects("k_in_range", **BIGGER),)
    errata = (
        "The page asks for K below the size along Axis; the size itself is legal, as in ONNX and as it runs (our decision).",
        "The page does not say where NaN stands: above +infinity (our decision).",
    )


@operator("DML_OPERATOR_TOP_K", 71, since=FeatureLevel.FL_1_0)
class TopK(Desc):
    """Selects the K largest elements of each line along an axis, largest first, and their positions in the line.

    It is TOP_K1 in the direction DECREASING.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The lines.")
    output_value_tensor: TensorDesc = field.output("OutputValueTensor", "The selected elements, in order.")
    output_index_tensor: TensorDesc = field.output("OutputIndexTensor", "The position of each along Axis.")
    axis: int = field.attribute("Axis", field.UINT, "The axis along which the lines lie.")
    k: int = field.attribute("K", field.UINT, "The number of elements selected from a line.")

    rows = since_2_1(support("1_0", VALUES, (4, 4), FLOATS), support("1_0", INDEX, (4, 4), (UINT32,)))
    same = (*same("DimensionCount", ALL), *same("DataType", VALUES))
    sizes = size_rules()

    outputs = selection

    def as_newest(d) -> TopK1:
        return TopK1(
            input_tensor=d.input_tensor,
            output_value_tensor=d.output_value_tensor,
            output_index_tensor=d.output_index_tensor,
            axis=d.axis,
            k=d.k,
            axis_direction=AxisDirection.DECREASING,
        )

    examples = (
        Example(
            "Page, example 1: the two largest of each row",
            case(3, 1, 1, 3, 2),
            dict(input_tensor=DATA),
            made([[11, 10], [9, 8], [7, 6]], [[3, 2], [2, 3], [3, 2]]),
        ),
        Example(
            "Page, example 2: the two largest of each column",
            case(2, 1, 1, 2, 4),
            dict(input_tensor=DATA),
            made([[4, 5, 10, 11], [3, 2, 9, 8]], [[2, 2, 0, 0], [1, 1, 1, 1]]),
        ),
    )
    rejecting = (rejects("k_in_range", **BIGGER),)
    errata = (
        "The page says that the operator came with feature level 2_0; the header has it from 1_0 on, and the row of 2_0 is "
        "taken for 1_0.",
        "The page asks for K below the size along Axis; the size itself is legal, as in ONNX and as it runs (our decision).",
        "The page does not say where NaN stands: above +infinity (our decision).",
    )
