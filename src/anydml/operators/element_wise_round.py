"""DML_OPERATOR_ELEMENT_WISE_ROUND: the nearest integer, or the next one toward zero.

Sources: ns-directml-dml_element_wise_round_operator_desc, ne-directml-dml_rounding_mode.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
NINE = TensorDesc(DataType.FLOAT32, (9,))
HALVES: dict[str, Any] = {"input_tensor": np.array([-2.5, -1.75, -1.5, -1.25, 0, 1.25, 1.5, 1.75, 2.5], np.float32)}
ROUNDINGS = {
    RoundingMode.HALVES_TO_NEAREST_EVEN: half_to_even,
    RoundingMode.TOWARD_ZERO: truncate,
    RoundingMode.TOWARD_INFINITY: half_away,
}


@operator("DML_OPERATOR_ELEMENT_WISE_ROUND", 99, since=FeatureLevel.FL_2_1, in_place=("InputTensor",))
class ElementWiseRound(Desc):
    """Rounds every element to an integer: Output = round(x), in the direction that the mode names.

    HALVES_TO_NEAREST_EVEN and TOWARD_INFINITY take the nearest integer; of a tie, the first takes the even integer, and the
    second the one away from zero. TOWARD_ZERO truncates. Negative numbers that round to 0 give -0.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The integers, as floats.")
    rounding_mode: RoundingMode = field.attribute(
        "RoundingMode", field.ROUNDING_MODE, "The integer that is taken.", default=RoundingMode.HALVES_TO_NEAREST_EVEN
    )

    rows = (support("2_1", BOTH, (4, 4), FLOATS), support("3_0", BOTH, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: ROUNDINGS[d.rounding_mode](x))

    examples = (
        Example(
            "Page: HALVES_TO_NEAREST_EVEN",
            dict(input_tensor=NINE, output_tensor=NINE),
            HALVES,
            np.array([-2, -2, -2, -1, 0, 1, 2, 2, 2], np.float32),
        ),
        Example(
            "Page: TOWARD_ZERO",
            dict(input_tensor=NINE, output_tensor=NINE, rounding_mode="TOWARD_ZERO"),
            HALVES,
            np.array([-2, -1, -1, -1, 0, 1, 1, 1, 2], np.float32),
        ),
        Example(
            "Page: TOWARD_INFINITY",
            dict(input_tensor=NINE, output_tensor=NINE, rounding_mode="TOWARD_INFINITY"),
            HALVES,
            np.array([-3, -2, -2, -1, 0, 1, 2, 2, 3], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The names of the modes mislead: the page's numbers show that TOWARD_INFINITY takes the nearest integer, and only "
        "halves away from zero.",
        "The page does not say which zero comes of -0.3: -0, as in IEEE 754 (our decision).",
    )
