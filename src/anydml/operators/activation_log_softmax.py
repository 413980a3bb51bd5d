"""DML_OPERATOR_ACTIVATION_LOG_SOFTMAX1 and its older version DML_OPERATOR_ACTIVATION_LOG_SOFTMAX: logarithms of SOFTMAX.

Sources: ns-directml-dml_activation_log_softmax1_operator_desc, ns-directml-dml_activation_log_softmax_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
ROWS = TensorDesc(DataType.FLOAT32, (1, 1, 2, 3))
ROWS_DATA = np.array([[[[-1, 0, 1], [2, 2, 2]]]], np.float32)
ROWS_RESULT = np.array([[[[-2.407606, -1.407606, -0.40760598], [-1.0986123, -1.0986123, -1.0986123]]]], np.float32)
CUBE = TensorDesc(DataType.FLOAT32, (2, 1, 2))


@operator("DML_OPERATOR_ACTIVATION_LOG_SOFTMAX1", 159, since=FeatureLevel.FL_5_1)
class ActivationLogSoftmax1(Desc):
    """Takes the logarithm of SOFTMAX over all listed axes together: Output = x - max - ln(sum(exp(x - max))).

    The result is exact and rounded once. The largest x of the sum, max, only matters for infinities: all results are NaN if
    an element is +infinity or NaN, or if all are -infinity.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    axis_count: int | None = field.count("AxisCount", "Entries of Axes.", default=None)
    axes: tuple[int, ...] = field.attribute("Axes", field.UINT, "The axes that a sum runs over.", sized_by="AxisCount")

    eager = defaults(axes=("the last", lambda d: (d.input_tensor.dimension_count - 1,)))

    rows = (support("5_1", BOTH, (1, 8), FLOATS),)
    same = same("DataType DimensionCount Sizes", BOTH)
    axis_rules = axis_rules()

    outputs = like("input_tensor")

    def statement(d, x: Tensor) -> Nest:
        i = each(x.sizes)
        k = over(i, x.sizes, d.axes)
        largest = Max(k, x[k])
        return nest(i, x[i] - largest - log(Sum(k, exp(x[k] - largest))))

    examples = (
        Example(
            "Over the last axis; of three that are equal, each has the logarithm of a third",
            dict(input_tensor=ROWS, output_tensor=ROWS, axes=(3,)),
            dict(input_tensor=ROWS_DATA),
            ROWS_RESULT,
        ),
        Example(
            "Over the first and the last axis together",
            dict(input_tensor=CUBE, output_tensor=CUBE, axes=(0, 2)),
            dict(input_tensor=np.array([[[0, 0]], [[0, 1]]], np.float32)),
            np.array([[[-1.7436684, -1.7436684]], [[-1.7436684, -0.7436684]]], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page's three examples have the results of HARDMAX1.",
        "The page does not forbid an empty list of axes or one that names an axis twice; both are refused (our decision).",
        "The page's formula has no value where e^x or the sum is infinite; it is read with x - max (our decision).",
    )


@operator("DML_OPERATOR_ACTIVATION_LOG_SOFTMAX", 41, since=FeatureLevel.FL_1_0)
class ActivationLogSoftmax(Desc):
    """Takes the logarithm of SOFTMAX over the last dimension, as LOG_SOFTMAX1 does with that axis alone."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x, {1, .., 1, BatchCount, Width}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)
    effective_rank = effective_rank_at_most_two()

    outputs = like("input_tensor")

    def as_newest(d) -> ActivationLogSoftmax1:
        last = d.input_tensor.dimension_count - 1
        return ActivationLogSoftmax1(input_tensor=d.input_tensor, output_tensor=d.output_tensor, axes=(last,))

    examples = (Example("Two rows", dict(input_tensor=ROWS, output_tensor=ROWS), dict(input_tensor=ROWS_DATA), ROWS_RESULT),)
    rejecting = ()
    errata = ("The page's sum has a term too many: its last index is the number of elements.",)
