"""DML_OPERATOR_ELEMENT_WISE_MODULUS_TRUNCATE: the remainder of a quotient that is truncated.

Source: ns-directml-dml_element_wise_modulus_truncate_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor OutputTensor"
OF_SIX = TensorDesc(DataType.FLOAT32, (6,))
BYTES = TensorDesc(DataType.INT8, (6,))


@operator("DML_OPERATOR_ELEMENT_WISE_MODULUS_TRUNCATE", 101, since=FeatureLevel.FL_2_1, in_place=("ATensor", "BTensor"))
class ElementWiseModulusTruncate(Desc):
    """Computes the remainder of a quotient that is truncated toward zero: Output = A - B * trunc(A / B), as C's fmod.

    The remainder is exact, and has the sign of A even if it is 0. If B is infinite, the result is A; if B is 0, it is NaN, or
    0 for integers.
    """

    a_tensor: TensorDesc = field.input("ATensor", "The dividends.")
    b_tensor: TensorDesc = field.input("BTensor", "The divisors.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The remainders.")

    rows = (
        support("2_1", ALL, (4, 4), EIGHT),
        support("3_0", ALL, (1, 8), EIGHT),
        support("6_0", ALL, (1, 8), TEN),
    )
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    statement = elementwise(lambda d, a, b: fmod(a, b) if d.a_tensor.data_type.is_float else select(equal(b, 0), 0, fmod(a, b)))

    examples = (
        Example(
            "Remainders of all signs, modulo an infinity, modulo 0, and a zero",
            dict(a_tensor=OF_SIX, b_tensor=OF_SIX, output_tensor=OF_SIX),
            dict(a_tensor=np.array([7, -7, 7, -3, 1, -6], np.float32), b_tensor=np.array([3, 3, -3, np.inf, 0, 3], np.float32)),
            np.array([1, -1, 1, -3, np.nan, -0.0], np.float32),
        ),
        Example(
            "Remainders of integers",
            dict(a_tensor=BYTES, b_tensor=BYTES, output_tensor=BYTES),
            dict(a_tensor=np.array([7, -7, 7, -7, 5, -128], np.int8), b_tensor=np.array([3, 3, -3, -3, 0, -1], np.int8)),
            np.array([1, -1, 1, -1, 0, 0], np.int8),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say what modulo 0 is: NaN for floats, 0 for integers (our decision).",
        "The page's formula gives NaN modulo an infinity; the result is that of C's fmod (our decision).",
    )
