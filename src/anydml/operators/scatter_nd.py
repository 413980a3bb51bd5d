"""DML_OPERATOR_SCATTER_ND: subtensors replaced at tuples of indices, which are data.

Source: ns-directml-dml_scatter_nd_operator_desc.
"""

from __future__ import annotations

from functools import reduce

from anydml.operators.gather_elements import levels
from anydml.operators.gather_nd import COUNTED_INDICES, COUNTED_INPUT, EAGER, float32, tuple_in_range, tuple_rules, uint32
from anydml.operators.gather_nd import ERRATA as TUPLE_ERRATA
from anydml.operators.scatter_elements import ERRATA, names
from anydml.operators.shared.vocabulary import *

MOVED = "InputTensor UpdatesTensor OutputTensor"


@operator("DML_OPERATOR_SCATTER_ND", 109, since=FeatureLevel.FL_2_1)
class ScatterNd(Desc):
    """Copies Input and replaces the subtensors at tuples of indices: Output[Indices[c], ..] = Updates[c, ..].

    The last dimension of Indices holds tuples of indices in the first of Input's last InputDimensionCount dimensions. A
    negative index counts from the end. Of several updates of one element, the last counts. Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to copy from.")
    indices_tensor: TensorDesc = field.input("IndicesTensor", "The tuples of indices.")
    updates_tensor: TensorDesc = field.input("UpdatesTensor", "The subtensors to write.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The tensor to copy to.")
    input_dimension_count: int = field.attribute("InputDimensionCount", field.UINT, COUNTED_INPUT)
    indices_dimension_count: int = field.attribute("IndicesDimensionCount", field.UINT, COUNTED_INDICES)

    eager = EAGER

    eight_bit_floats = MOVED
    rows = levels(MOVED)
    same = (*same("DataType", MOVED), *same("DimensionCount", "InputTensor IndicesTensor UpdatesTensor OutputTensor"))
    output_sizes = sizes_are(
        "OutputTensor", "`OutputTensor.Sizes` must equal `InputTensor.Sizes`.", lambda d: d.input_tensor.sizes
    )
    tuples = tuple_rules("UpdatesTensor")
    in_range = tuple_in_range()

    outputs = like("input_tensor")

    def statement(d, x: Tensor, indices: Tensor, updates: Tensor) -> Nest:
        i = each(x.sizes)
        named, surplus = indices.sizes[-1], len(x.sizes) - d.input_dimension_count
        lead = len(indices.sizes) - d.indices_dimension_count
        sizes = indices.sizes[lead:-1]
        rest = i[surplus + named :]

        def meets(at: list[Expr]) -> Expr:
            tuples = ((indices[[*(0,) * lead, *at, q]], x.sizes[surplus + q], i[surplus + q]) for q in range(named))
            return reduce(both, [names(index, indices.data_type, size, place) for index, size, place in tuples])

        last: list[Expr] = []
        if sizes:
            k = each(sizes, "klmnopq")
            last = unraveled(first_largest(k, as_number(meets(list(k))), True), sizes)
        ones = len(updates.sizes) - len(sizes) - len(rest)
        return move(i, select(meets(last), updates[[*(0,) * ones, *last, *rest]], x[i]))

    examples = (
        Example(
            "Matrices of a tensor, with dimensions that do not count",
            dict(
                input_tensor=float32(1, 2, 2, 2), indices_tensor=uint32(1, 1, 1, 2), updates_tensor=float32(1, 1, 1, 2),
                output_tensor=float32(1, 2, 2, 2), input_dimension_count=3, indices_dimension_count=2,
            ),
            dict(
                input_tensor=np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2),
                indices_tensor=np.array([[[[1, 0]]]], np.uint32),
                updates_tensor=np.array([[[[8, 9]]]], np.float32),
            ),
            np.array([[[[0, 1], [2, 3]], [[8, 9], [6, 7]]]], np.float32),
        ),
    )  # fmt: skip
    rejecting = (
        rejects("input_leads_with_ones", input_tensor=float32(2, 2, 2, 2), output_tensor=float32(2, 2, 2, 2)),
        rejects("indices_leads_with_ones", indices_tensor=uint32(1, 2, 1, 2)),
        rejects("tuple_fits", indices_tensor=uint32(1, 1, 1, 4)),
    )
    errata = (
        "The page keeps both counts below the dimension count; its example needs that itself, which is legal.",
        "The page prints the indices of its example as FLOAT32; they are UINT32.",
        *TUPLE_ERRATA[:1],
        *TUPLE_ERRATA[2:],
        *ERRATA,
    )
