"""DML_OPERATOR_ACTIVATION_HARD_SWISH: an element times a linear function of it, clamped to 0 and 1.

Source: ns-directml-dml_activation_hard_swish_operator_desc.
"""

from __future__ import annotations

import math

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))


@operator("DML_OPERATOR_ACTIVATION_HARD_SWISH", 168, since=FeatureLevel.FL_6_2)
class ActivationHardSwish(Desc):
    """Multiplies every element by a hard sigmoid: Output = x * max(0, min(Alpha * x + Beta, 1)).

    At the infinity where the sigmoid is 0, the result is the limit, a zero with the sign of x.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    alpha: float = field.attribute("Alpha", field.FLOAT, "The slope of the sigmoid.", default=1 / 6)
    beta: float = field.attribute("Beta", field.FLOAT, "The sigmoid at 0.", default=0.5)

    rows = (support("6_2", BOTH, (1, 8), FLOATS),)
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    def hard_swish(d, x: Expr) -> Expr:
        closed = {"low": -0.0} if d.alpha > 0 else {"high": 0.0} if d.alpha < 0 else {}
        gated = x * maximum(0, minimum(d.alpha * x + d.beta, 1))
        return at_limits(x, gated, **(closed if d.beta < math.inf else {}))

    statement = elementwise(hard_swish)

    examples = (
        Example(
            "With a slope of a quarter, the sigmoid is 0 up to -2 and 1 from 2 on",
            dict(input_tensor=FOUR, output_tensor=FOUR, alpha=0.25),
            dict(input_tensor=np.array([-2, -1, 1, 3], np.float32)),
            np.array([-0.0, -0.25, 0.75, 3], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page's formula has no value at the infinity where the sigmoid is 0; it is the limit there (our decision).",
        "The page allows the output to be the input; the header's schema does not, and that holds (our decision).",
    )
