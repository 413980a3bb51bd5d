"""DML_OPERATOR_ACTIVATION_HARDMAX1 and its older version DML_OPERATOR_ACTIVATION_HARDMAX: 1 for the largest element, else 0.

Sources: ns-directml-dml_activation_hardmax1_operator_desc, ns-directml-dml_activation_hardmax_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
CUBE = TensorDesc(DataType.FLOAT32, (2, 2, 2))
ROWS = TensorDesc(DataType.FLOAT32, (1, 1, 2, 3))
PAGE = np.array([[[12, 0], [-101, 11]], [[3, 234], [0, -101]]], np.float32)


def example(axes: tuple[int, ...], *want: Any) -> Example:
    return Example(
        f"Page: over axes {axes}",
        dict(input_tensor=CUBE, output_tensor=CUBE, axes=axes),
        dict(input_tensor=PAGE),
        np.array(want, np.float32),
    )


@operator("DML_OPERATOR_ACTIVATION_HARDMAX1", 160, since=FeatureLevel.FL_5_1)
class ActivationHardmax1(Desc):
    """Marks the largest element over all listed axes together: Output = 1 for the first of the largest, else 0.

    The first is the one with the least row-major position along the axes. NaN is larger than all numbers, and zeros of both
    signs are equal.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The marks, 1 and 0.")
    axis_count: int | None = field.count("AxisCount", "Entries of Axes.", default=None)
    axes: tuple[int, ...] = field.attribute(
        "Axes", field.UINT, "The axes among whose elements one is the largest.", sized_by="AxisCount"
    )

    eager = defaults(axes=("the last", lambda d: (d.input_tensor.dimension_count - 1,)))

    rows = (support("5_1", BOTH, (1, 8), FLOATS),)
    same = same("DataType DimensionCount Sizes", BOTH)
    axis_rules = axis_rules()

    outputs = like("input_tensor")

    def statement(d, x: Tensor) -> Nest:
        i = each(x.sizes)
        k = over(i, x.sizes, d.axes)
        axes = sorted(d.axes)
        place = row_major([i[a] for a in axes], [x.sizes[a] for a in axes])
        return nest(i, select(equal(place, first_largest(k, x[k])), 1, 0))

    examples = (
        example((1,), [[1, 0], [0, 1]], [[1, 1], [0, 0]]),
        example((0,), [[1, 0], [0, 1]], [[0, 1], [1, 0]]),
        example((0, 2), [[0, 0], [0, 1]], [[0, 1], [0, 0]]),
    )
    rejecting = ()
    errata = (
        "The page defines the operator by REDUCE with an axis direction, which REDUCE does not have; the first of the largest "
        "elements is meant.",
        "The page does not forbid an empty list of axes or one that names an axis twice; both are refused (our decision).",
        "The page does not say what becomes of NaN: the first NaN counts as the largest (our decision).",
    )


@operator("DML_OPERATOR_ACTIVATION_HARDMAX", 36, since=FeatureLevel.FL_1_0)
class ActivationHardmax(Desc):
    """Marks the first of the largest elements of the last dimension, as HARDMAX1 does with that axis alone."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements, {1, .., 1, BatchCount, Width}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The marks, 1 and 0.")

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)
    effective_rank = effective_rank_at_most_two()

    outputs = like("input_tensor")

    def as_newest(d) -> ActivationHardmax1:
        last = d.input_tensor.dimension_count - 1
        return ActivationHardmax1(input_tensor=d.input_tensor, output_tensor=d.output_tensor, axes=(last,))

    examples = (
        Example(
            "Two rows; of elements that are equal, the first is marked",
            dict(input_tensor=ROWS, output_tensor=ROWS),
            dict(input_tensor=np.array([[[[-1, 0, 1], [2, 2, 2]]]], np.float32)),
            np.array([[[[0, 0, 1], [1, 0, 0]]]], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
