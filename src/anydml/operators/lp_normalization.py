"""DML_OPERATOR_LP_NORMALIZATION: lines divided by their norms.

Source: ns-directml-dml_lp_normalization_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
LINES = TensorDesc(DataType.FLOAT32, (2, 3))
FIELDS: dict[str, Any] = dict(input_tensor=LINES, output_tensor=LINES, axis=1, epsilon=0.0)
DATA = dict(input_tensor=np.array([[1, 2, 2], [3, -4, 0]], np.float32))


@operator("DML_OPERATOR_LP_NORMALIZATION", 75, since=FeatureLevel.FL_1_0)
class LpNormalization(Desc):
    """Divides each line along an axis by its norm: Output = x / (sum of |x|^P + Epsilon)^(1/P).

    A line of zeros is copied unchanged. The quotient is exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The quotients.")
    axis: int = field.attribute("Axis", field.UINT, "The axis along which the lines lie.")
    epsilon: float = field.attribute(
        "Epsilon", field.FLOAT, "A number added to every sum, so that it is not zero.", default=1e-5
    )
    p: int = field.attribute("P", field.UINT, "1: the sum of magnitudes; 2: the length.", default=2)

    eager = defaults(axis=("the last", lambda d: d.input_tensor.dimension_count - 1))

    rows = (support("1_0", BOTH, (4, 4), FLOATS), support("3_1", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)
    axis_in_range = axis_in_range()

    @constraint("`P` must be 1 or 2.", expected=lambda d: {"P": [1, 2]}, breaks=lambda d: {"p": 3})
    def p_one_or_two(d) -> bool:
        return d.p in (1, 2)

    outputs = like("input_tensor")

    def statement(d, x: Tensor) -> Nest:
        i = each(x.sizes)
        k = over(i, x.sizes, [d.axis])
        total = Sum(k, absolute(x[k]) if d.p == 1 else x[k] * x[k])
        norm = total + d.epsilon if d.p == 1 else sqrt(total + d.epsilon)
        return nest(i, select(equal(total, 0), x[i], x[i] / norm))

    examples = (
        Example("By lengths", FIELDS | dict(p=2), DATA, np.array([[1 / 3, 2 / 3, 2 / 3], [0.6, -0.8, 0]], np.float32)),
        Example("By sums of magnitudes", FIELDS | dict(p=1), DATA, np.array([[0.2, 0.4, 0.4], [3 / 7, -4 / 7, 0]], np.float32)),
        Example("Lines of zeros", FIELDS, dict(input_tensor=np.zeros((2, 3), np.float32)), np.zeros((2, 3), np.float32)),
    )
    rejecting = ()
    errata = (
        "The page has no formula. Epsilon stands inside the root, as in other normalisations (our decision).",
        "The page does not say what becomes of a line of zeros: it stays, even at Epsilon 0 (our decision, as ONNX has it).",
        "The page does not say what a sum that Epsilon makes negative gives: NaN for P 2, by the root (our decision).",
    )
