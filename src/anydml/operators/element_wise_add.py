"""DML_OPERATOR_ELEMENT_WISE_ADD1 and its older version DML_OPERATOR_ELEMENT_WISE_ADD: the sum of two tensors.

Sources: ns-directml-dml_element_wise_add1_operator_desc, ns-directml-dml_element_wise_add_operator_desc.
"""

from __future__ import annotations

from anydml.operators.activation_relu import ActivationRelu
from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor OutputTensor"
PAIR = TensorDesc(DataType.FLOAT32, (2,))


@operator("DML_OPERATOR_ELEMENT_WISE_ADD1", 89, since=FeatureLevel.FL_2_0, in_place=("ATensor", "BTensor"))
class ElementWiseAdd1(Desc):
    """Adds two tensors element by element, and applies a fused activation to the exact sum: Output = f(A + B)."""

    a_tensor: TensorDesc = field.input("ATensor", "The left terms.")
    b_tensor: TensorDesc = field.input("BTensor", "The right terms.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The sums.")
    fused_activation: Desc | None = field.attribute(
        "FusedActivation", field.OPERATOR, "The function f, applied to the exact sum; if absent, none.", default=None
    )

    rows = (support("2_0", ALL, (4, 5), FLOATS), support("3_0", ALL, (1, 8), FLOATS))
    same = same("DataType DimensionCount Sizes", ALL)
    fusable = fusable_activation()

    outputs = like("a_tensor")

    statement = elementwise(lambda d, a, b: activated(d.fused_activation, a + b))

    examples = (
        Example(
            "A sum, and RELU of it",
            dict(a_tensor=PAIR, b_tensor=PAIR, output_tensor=PAIR, fused_activation=ActivationRelu()),
            dict(a_tensor=np.array([1, 2], np.float32), b_tensor=np.array([0.5, -3], np.float32)),
            np.array([1.5, 0], np.float32),
        ),
    )
    rejecting = (
        rejects("fused_activation_without_tensors", fused_activation=ActivationRelu(input_tensor=PAIR, output_tensor=PAIR)),
    )
    errata = (
        "The page restricts the fused activation to float outputs, as if integers were legal; its table has floats alone.",
    )


@operator("DML_OPERATOR_ELEMENT_WISE_ADD", 4, since=FeatureLevel.FL_1_0, in_place=("ATensor", "BTensor"))
class ElementWiseAdd(Desc):
    """Adds two tensors element by element: Output = A + B. Sums of integers wrap modulo 2^bits."""

    a_tensor: TensorDesc = field.input("ATensor", "The left terms.")
    b_tensor: TensorDesc = field.input("BTensor", "The right terms.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The sums.")

    rows = (
        support("1_0", ALL, (4, 5), FLOATS),
        support("2_1", ALL, (4, 5), WORDS),
        support("3_0", ALL, (1, 8), WORDS),
        support("4_1", ALL, (1, 8), (*WORDS, *SIXTY_FOUR)),
        support("5_1", ALL, (1, 8), TEN),
    )
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    def as_newest(d) -> ElementWiseAdd1:
        return ElementWiseAdd1(a_tensor=d.a_tensor, b_tensor=d.b_tensor, output_tensor=d.output_tensor)

    examples = (
        Example(
            "A sum is rounded half to even",
            dict(a_tensor=PAIR, b_tensor=PAIR, output_tensor=PAIR),
            dict(a_tensor=np.array([1, 2**24], np.float32), b_tensor=np.array([2, 1], np.float32)),
            np.array([3, 2**24], np.float32),
        ),
    )
    rejecting = ()
    errata = ()
