"""DML_OPERATOR_ACTIVATION_SWISH: an element times the sigmoid of itself.

Source: ns-directml-dml_activation_swish_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_SWISH", 167, since=FeatureLevel.FL_6_2)
class ActivationSwish(Desc):
    """Multiplies every element by a sigmoid: Output = x / (1 + e^(-SigmoidInputScale * x)).

    At the infinity where the sigmoid goes to 0, the result is the limit, a zero with the sign of x.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    sigmoid_input_scale: float = field.attribute(
        "SigmoidInputScale", field.FLOAT, "The factor of x in the sigmoid.", default=1.0
    )

    rows = (support("6_2", BOTH, (1, 8), FLOATS),)
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    def swish(d, x: Expr) -> Expr:
        closed = {"low": -0.0} if d.sigmoid_input_scale > 0 else {"high": 0.0} if d.sigmoid_input_scale < 0 else {}
        return at_limits(x, x * (1 / (1 + exp(-(d.sigmoid_input_scale * x)))), **closed)

    statement = elementwise(swish)

    examples = (
        Example(
            "The function at -1, 0 and 2",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([-0.26894143, 0, 1.7615942], np.float32),
        ),
        Example(
            "QuickGelu, whose scale is 1.702",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE, sigmoid_input_scale=1.702),
            dict(input_tensor=np.array([-1, 0, 2], np.float32)),
            np.array([-0.15420423, 0, 1.9356586], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page's formula has no value at the infinity where the sigmoid is 0; it is the limit there (our decision).",
        "The page allows the output to be the input; the header's schema does not, and that holds (our decision).",
    )
