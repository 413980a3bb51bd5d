"""DML_OPERATOR_MAX_UNPOOLING: elements put back where the maxima of pooling were found.

Source: ns-directml-dml_max_unpooling_operator_desc.
"""

from __future__ import annotations

import math

from anydml.operators.gather_elements import out_of_range
from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
UINT32 = DataType.UINT32


@operator("DML_OPERATOR_MAX_UNPOOLING", 92, since=FeatureLevel.FL_2_0)
class MaxUnpooling(Desc):
    """Stores elements at indices, and 0 elsewhere: Output has Input[c] at the row-major position Indices[c].

    An index counts elements of the whole output in row-major order. Of several elements with one index, the last is stored.
    Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements, such as MAX_POOLING's.")
    indices_tensor: TensorDesc = field.input("IndicesTensor", "The place of each in the output, from 0 on.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The tensor to write.")

    eight_bit_floats = BOTH
    rows = (
        support("2_0", BOTH, (4, 4), FLOATS),
        support("2_0", "IndicesTensor", (4, 4), (UINT32,)),
        support("5_0", BOTH, (4, 4), TEN),
        support("5_0", "IndicesTensor", (4, 4), (DataType.UINT64, UINT32)),
    )
    same = same("DataType", BOTH)
    indices_sizes = sizes_are(
        "IndicesTensor", "`IndicesTensor.Sizes` must equal `InputTensor.Sizes`.", lambda d: d.input_tensor.sizes
    )

    @data_rule("an index must be less than the number of elements of the output.", "IndicesTensor")
    def index_in_range(d: Any, indices: NDArray[Any]) -> NDArray[np.bool_]:
        return out_of_range(indices, math.prod(d.output_tensor.sizes))

    def statement(d, x: Tensor, indices: Tensor) -> Nest:
        i = each(d.output_tensor.sizes)
        k = each(x.sizes, "abcd")
        place = number(row_major(i, d.output_tensor.sizes))

        def meets(at: list[Expr]) -> Expr:
            return equal(indices[at], place)

        last = unraveled(first_largest(k, as_number(meets(list(k))), True), x.sizes)
        return move(i, select(meets(last), x[last], 0))

    examples = (
        Example(
            "Two elements of four",
            dict(
                input_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 1, 2)),
                indices_tensor=TensorDesc(UINT32, (1, 1, 1, 2)),
                output_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 2, 2)),
            ),
            dict(input_tensor=np.array([[[[5, 7]]]], np.float32), indices_tensor=np.array([[[[3, 0]]]], np.uint32)),
            np.array([[[[7, 0], [0, 5]]]], np.float32),
        ),
        Example(
            "The last of two for one place",
            dict(
                input_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 1, 2)),
                indices_tensor=TensorDesc(UINT32, (1, 1, 1, 2)),
                output_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 1, 3)),
            ),
            dict(input_tensor=np.array([[[[5, 7]]]], np.float32), indices_tensor=np.array([[[[1, 1]]]], np.uint32)),
            np.array([[[[0, 7, 0]]]], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page says that the operator came with feature level 3_0; the header has it from 2_0 on.",
        "The page does not say which of several elements for one place counts: the last in row-major order (our decision).",
        "The page does not say what an index that is out of range does; it is an error and nothing is written (our decision).",
        "The page has no rule about the sizes of Output, of which none follows.",
    )
