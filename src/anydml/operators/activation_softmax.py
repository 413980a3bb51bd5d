"""DML_OPERATOR_ACTIVATION_SOFTMAX1 and its older version DML_OPERATOR_ACTIVATION_SOFTMAX: normalised exponentials.

Sources: ns-directml-dml_activation_softmax1_operator_desc, ns-directml-dml_activation_softmax_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FUSED_BY = {"GEMM": FeatureLevel.FL_6_1}
ROWS = TensorDesc(DataType.FLOAT32, (1, 1, 2, 3))
ROWS_DATA = np.array([[[[-1, 0, 1], [2, 2, 2]]]], np.float32)
CUBE = TensorDesc(DataType.FLOAT32, (2, 1, 2))


@operator("DML_OPERATOR_ACTIVATION_SOFTMAX1", 158, since=FeatureLevel.FL_5_1, fusable=True, fused_by=FUSED_BY)
class ActivationSoftmax1(Desc):
    """Divides e^x by the sum of e^x over all listed axes together: Output = exp(x - max) / sum(exp(x - max)).

    The quotient is exact and rounded once. The largest x of the sum, max, only matters for infinities: all results are NaN if
    an element is +infinity or NaN, or if all are -infinity. GEMM takes it as a fused activation from feature level 6_1 on.
    """

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
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
        return nest(i, exp(x[i] - largest) / Sum(k, exp(x[k] - largest)))

    examples = (
        Example(
            "Over the last axis; equal elements share alike",
            dict(input_tensor=ROWS, output_tensor=ROWS, axes=(3,)),
            dict(input_tensor=ROWS_DATA),
            np.array([[[[0.090030573, 0.24472848, 0.66524094], [1 / 3, 1 / 3, 1 / 3]]]], np.float32),
        ),
        Example(
            "Over the first and the last axis together",
            dict(input_tensor=CUBE, output_tensor=CUBE, axes=(0, 2)),
            dict(input_tensor=np.array([[[0, 0]], [[0, -np.inf]]], np.float32)),
            np.array([[[1 / 3, 1 / 3]], [[1 / 3, 0]]], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not forbid an empty list of axes or one that names an axis twice; both are refused (our decision).",
        "The page's formula has no value where e^x or the sum is infinite; it is read with x - max (our decision).",
    )


@operator("DML_OPERATOR_ACTIVATION_SOFTMAX", 48, since=FeatureLevel.FL_1_0, fusable=True, fused_by=FUSED_BY)
class ActivationSoftmax(Desc):
    """Divides e^x by the sum of e^x over the last dimension, as SOFTMAX1 does with that axis alone.

    GEMM takes it as a fused activation from feature level 6_1 on.
    """

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x, {1, .., 1, BatchCount, Width}.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_0", BOTH, (4, 5), FLOATS),
        support("3_0", BOTH, (1, 8), FLOATS),
    )
    same = same("DataType DimensionCount Sizes", BOTH)
    effective_rank = effective_rank_at_most_two()

    outputs = like("input_tensor")

    def as_newest(d) -> ActivationSoftmax1:
        assert d.input_tensor is not None
        last = d.input_tensor.dimension_count - 1
        return ActivationSoftmax1(input_tensor=d.input_tensor, output_tensor=d.output_tensor, axes=(last,))

    examples = (
        Example(
            "Two rows",
            dict(input_tensor=ROWS, output_tensor=ROWS),
            dict(input_tensor=ROWS_DATA),
            np.array([[[[0.090030573, 0.24472848, 0.66524094], [1 / 3, 1 / 3, 1 / 3]]]], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
