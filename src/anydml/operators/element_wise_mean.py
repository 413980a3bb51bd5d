"""DML_OPERATOR_ELEMENT_WISE_MEAN: the mean of two tensors.

Source: ns-directml-dml_element_wise_mean_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))
WHOLE = TensorDesc(DataType.INT32, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_MEAN", 22, since=FeatureLevel.FL_1_0, in_place=("ATensor", "BTensor"))
class ElementWiseMean(Desc):
    """Takes the mean of every two elements: Output = (A + B) / 2.

    The sum is exact and does not overflow. The mean of integers is truncated toward zero.
    """

    a_tensor: TensorDesc = field.input("ATensor", "The elements on the left.")
    b_tensor: TensorDesc = field.input("BTensor", "The elements on the right.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The means.")

    rows = (
        support("1_0", ALL, (4, 4), FLOATS),
        support("2_1", ALL, (4, 4), WORDS),
        support("3_0", ALL, (1, 8), WORDS),
    )
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("a_tensor")

    statement = elementwise(lambda d, a, b: (a + b) / 2)

    examples = (
        Example(
            "Means, one of them of a sum that FLOAT32 does not hold",
            dict(a_tensor=TRIPLE, b_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(a_tensor=np.array([1, -3, 3e38], np.float32), b_tensor=np.array([2, 1, 2e38], np.float32)),
            np.array([1.5, -1, 2.5e38], np.float32),
        ),
        Example(
            "Means of integers are truncated",
            dict(a_tensor=WHOLE, b_tensor=WHOLE, output_tensor=WHOLE),
            dict(a_tensor=np.array([1, -1, 2**31 - 1], np.int32), b_tensor=np.array([2, -2, 2**31 - 1], np.int32)),
            np.array([1, -1, 2**31 - 1], np.int32),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say how the mean of integers is rounded: their exact sum is halved, toward zero (our decision).",
    )
