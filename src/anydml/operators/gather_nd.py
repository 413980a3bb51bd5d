"""DML_OPERATOR_GATHER_ND1 and its older version DML_OPERATOR_GATHER_ND: subtensors at tuples of indices, which are data.

Sources: ns-directml-dml_gather_nd1_operator_desc, ns-directml-dml_gather_nd_operator_desc.
"""

from __future__ import annotations

from dataclasses import replace

from anydml.operators.gather_elements import levels, out_of_range, wrapped
from anydml.operators.shared.vocabulary import *
from anydml.spelling import snake_case

BOTH, ALL = "InputTensor OutputTensor", "InputTensor IndicesTensor OutputTensor"
COUNTED_INPUT = "How many dimensions of Input count, the last ones; those before have size 1."
COUNTED_INDICES = "How many dimensions of Indices count, the last ones; those before have size 1."
EAGER = defaults(
    input_dimension_count=("as many as the input has", lambda d: d.input_tensor.dimension_count),
    indices_dimension_count=("as many as the indices have", lambda d: d.indices_tensor.dimension_count),
)
ERRATA = (
    "The page lets the rest of Input's sizes begin at DimensionCount less the number of indices in a tuple; by its own example "
    "of sizes they begin behind the dimensions that are indexed.",
    "The page does not say what an index that is out of range does; it is an error and nothing is written (our decision).",
    "The page does not say what the dimensions that do not count may be: 1 (our decision).",
    "The page allows as many indices in a tuple as there are dimensions; they are at most those that count.",
)


def counting(sizes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The last `count` sizes; ValueError if there are fewer."""
    if not 1 <= count <= len(sizes):
        raise ValueError("there are not so many dimensions")
    return sizes[len(sizes) - count :]


def tuples(d: Any, batched: bool) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """The used sizes of input and indices, and the numbers of batch dimensions and of dimensions that a tuple names."""
    x, j = counting(d.input_tensor.sizes, d.input_dimension_count), counting(d.indices_tensor.sizes, d.indices_dimension_count)
    batches = d.batch_dimension_count if batched else 0
    if batches >= min(len(x), len(j)) or j[-1] > len(x) - batches:
        raise ValueError("a tuple names dimensions that are not there")
    return x, j, batches, j[-1]


def subtensors(d: Any, batched: bool = False) -> tuple[int, ...]:
    """The sizes of an output whose subtensors are named by tuples of indices; ValueError if the tuples are too long."""
    x, j, batches, named = tuples(d, batched)
    sizes = (*j[:-1], *x[batches + named :])
    return (1,) * (len(d.input_tensor.sizes) - len(sizes)) + sizes


def tuple_rules(tensor: str, *, batched: bool = False) -> tuple[Constraint, ...]:
    """The rules of operators with tuples of indices; tensor: which has the sizes that follow from them."""

    def counts(of: str, count: str, name: str) -> tuple[Constraint, Constraint]:
        @constraint(f"`{of}.Sizes` must be 1 before the last dimensions, as many as `{count}` says.")
        def ones(d: Any) -> bool:
            sizes = getattr(d, name).sizes
            return all(n == 1 for n in sizes[: len(sizes) - len(counting(sizes, getattr(d, f"{short}_dimension_count")))])

        short = name.removesuffix("_tensor")
        in_range = Constraint(
            f"{short}_dimension_count_in_range",
            f"`{count}` must be at least 1 and at most `{of}.DimensionCount`.",
            lambda d: 1 <= getattr(d, f"{short}_dimension_count") <= getattr(d, name).dimension_count,
            expected=lambda d: {count: range(1, getattr(d, name).dimension_count + 1)},
            breaks=lambda d: {f"{short}_dimension_count": 0},
        )
        return in_range, replace(ones, name=f"{short}_leads_with_ones")

    batches = " - `BatchDimensionCount`" if batched else ""

    @constraint(f"The last of `IndicesTensor.Sizes` must be at most `InputDimensionCount`{batches}: a tuple names dimensions.")
    def tuple_fits(d: Any) -> bool:
        most = d.input_dimension_count - (d.batch_dimension_count if batched else 0)
        if most < 1:
            raise ValueError("another rule is broken, so that no dimensions can be named")
        return bool(d.indices_tensor.sizes[-1] <= most)

    @constraint(
        "`BatchDimensionCount` must be less than `InputDimensionCount` and `IndicesDimensionCount`.",
        breaks=lambda d: {"batch_dimension_count": 3},
    )
    def batches_less_than_counts(d: Any) -> bool:
        counts = d.input_dimension_count, d.indices_dimension_count
        if min(counts) < 1:
            raise ValueError("no dimensions count")
        return bool(d.batch_dimension_count < min(counts))

    def fit(d: Any) -> bool:
        t, wanted = getattr(d, snake_case(tensor)), subtensors(d, batched)
        if len(t.sizes) != len(d.input_tensor.sizes):
            raise ValueError("a rule about dimension counts is broken, so that sizes cannot be compared")
        return bool(t.sizes == wanted)  # which may have too many dimensions for all tensors

    also = ", `BatchDimensionCount`" if batched else ""
    return (
        *counts("InputTensor", "InputDimensionCount", "input_tensor"),
        *counts("IndicesTensor", "IndicesDimensionCount", "indices_tensor"),
        *((batches_less_than_counts,) if batched else ()),
        tuple_fits,
        replace(
            sizes_are(
                tensor,
                f"`{tensor}.Sizes` must be, after ones, those of `IndicesTensor.Sizes` but the last, and behind the "
                "dimensions that are named those of `InputTensor.Sizes`, as `IndicesDimensionCount`, "
                f"`InputDimensionCount`{also} count them.",
                lambda d: subtensors(d, batched),
            ),
            predicate=fit,
        ),
    )


def tuple_in_range(*, batched: bool = False) -> DataRule:
    @data_rule("an index must be at least minus the size of its dimension, and less than that size.", "IndicesTensor")
    def index_in_range(d: Any, indices: NDArray[Any]) -> NDArray[np.bool_]:
        x, _, batches, named = tuples(d, batched)
        sizes = x[batches : batches + named]
        repeated = indices.shape[-1] < named  # by a stride of 0: one index for all of them
        return out_of_range(indices, min(sizes) if repeated else sizes)

    return index_in_range


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


def uint32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.UINT32, sizes)


def count(*sizes: int) -> NDArray[Any]:
    """0, 1, 2, .. in this order."""
    return np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)


@operator("DML_OPERATOR_GATHER_ND1", 140, since=FeatureLevel.FL_3_0)
class GatherNd1(Desc):
    """Copies the subtensors of Input at tuples of indices: Output[c, ..] = Input[b, Indices[c], ..].

    The last dimension of Indices holds tuples of indices in the dimensions of Input that follow those of batches. b is the
    first BatchDimensionCount indices of c. A negative index counts from the end. Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to copy from.")
    indices_tensor: TensorDesc = field.input("IndicesTensor", "The tuples of indices.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The tensor to copy to.")
    input_dimension_count: int = field.attribute("InputDimensionCount", field.UINT, COUNTED_INPUT)
    indices_dimension_count: int = field.attribute("IndicesDimensionCount", field.UINT, COUNTED_INDICES)
    batch_dimension_count: int = field.attribute(
        "BatchDimensionCount", field.UINT, "How many of the first dimensions that count are batches.", default=0
    )

    eager = EAGER

    eight_bit_floats = "InputTensor OutputTensor"
    rows = (
        support("3_0", BOTH, (1, 8), EIGHT),
        support("3_0", "IndicesTensor", (1, 8), INDICES),
        support("4_1", BOTH, (1, 8), ELEVEN),
    )
    same = (*same("DataType", BOTH), *same("DimensionCount", ALL))

    tuples = tuple_rules("OutputTensor", batched=True)

    @constraint(
        "The sizes that count of `InputTensor.Sizes` and `IndicesTensor.Sizes`, by `InputDimensionCount` and "
        "`IndicesDimensionCount`, must begin with the same, as many as `BatchDimensionCount` says."
    )
    def batches_equal(d) -> bool:
        x, j = (
            counting(d.input_tensor.sizes, d.input_dimension_count),
            counting(d.indices_tensor.sizes, d.indices_dimension_count),
        )
        return x[: d.batch_dimension_count] == j[: d.batch_dimension_count]

    in_range = tuple_in_range(batched=True)

    def outputs(d) -> Outputs:
        return {"output_tensor": (subtensors(d, batched=True), d.input_tensor.data_type)}

    def statement(d, x: Tensor, indices: Tensor) -> Nest:
        i = each(d.output_tensor.sizes)
        count, batches, named = d.indices_dimension_count, d.batch_dimension_count, indices.sizes[-1]
        rest = d.input_dimension_count - batches - named
        c = i[len(i) - rest - count + 1 : len(i) - rest]
        place: list[Operand] = [*(0,) * (len(indices.sizes) - count), *c]
        surplus = len(x.sizes) - d.input_dimension_count
        first = surplus + batches
        at = [wrapped(indices[[*place, q]], indices.data_type, x.sizes[first + q]) for q in range(named)]
        return move(i, x[[*(0,) * surplus, *c[:batches], *at, *i[len(i) - rest :]]])

    examples = (
        Example(
            "Page: tuples for each batch",
            dict(
                input_tensor=float32(1, 3, 2, 2), indices_tensor=uint32(1, 3, 2, 2), output_tensor=float32(1, 1, 3, 2),
                input_dimension_count=3, indices_dimension_count=3, batch_dimension_count=1,
            ),
            dict(
                input_tensor=count(1, 3, 2, 2),
                indices_tensor=np.array([[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]]], np.uint32),
            ),
            np.array([[[[0, 3], [7, 4], [9, 10]]]], np.float32),
        ),
        Example(
            "Rows, from the end",
            dict(
                input_tensor=float32(3, 2), indices_tensor=TensorDesc(DataType.INT64, (2, 1)), output_tensor=float32(2, 2),
                input_dimension_count=2, indices_dimension_count=2,
            ),
            dict(input_tensor=count(3, 2), indices_tensor=np.array([[-1], [0]], np.int64)),
            np.array([[4, 5], [0, 1]], np.float32),
        ),
    )  # fmt: skip
    rejecting = (
        rejects("input_leads_with_ones", input_tensor=float32(2, 3, 2, 2)),
        rejects("indices_leads_with_ones", indices_tensor=uint32(2, 3, 2, 2)),
        rejects("tuple_fits", indices_tensor=uint32(1, 3, 2, 3)),
        rejects("batches_equal", input_tensor=float32(1, 4, 2, 2)),
    )
    errata = ("The page keeps BatchDimensionCount below the tensors' dimension counts; it is below those that count.", *ERRATA)


@operator("DML_OPERATOR_GATHER_ND", 108, since=FeatureLevel.FL_2_1)
class GatherNd(Desc):
    """Copies the subtensors of Input that tuples of indices name: Output[c, ..] = Input[Indices[c], ..].

    It is GATHER_ND1 without batches.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to copy from.")
    indices_tensor: TensorDesc = field.input("IndicesTensor", "The tuples of indices.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The tensor to copy to.")
    input_dimension_count: int = field.attribute("InputDimensionCount", field.UINT, COUNTED_INPUT)
    indices_dimension_count: int = field.attribute("IndicesDimensionCount", field.UINT, COUNTED_INDICES)

    eager = EAGER

    eight_bit_floats = "InputTensor OutputTensor"
    rows = levels(BOTH)
    same = (*same("DataType", BOTH), *same("DimensionCount", ALL))
    tuples = tuple_rules("OutputTensor")
    in_range = tuple_in_range()

    def outputs(d) -> Outputs:
        return {"output_tensor": (subtensors(d), d.input_tensor.data_type)}

    def as_newest(d) -> GatherNd1:
        return GatherNd1(
            input_tensor=d.input_tensor,
            indices_tensor=d.indices_tensor,
            output_tensor=d.output_tensor,
            input_dimension_count=d.input_dimension_count,
            indices_dimension_count=d.indices_dimension_count,
            batch_dimension_count=0,
        )

    examples = (
        Example(
            "Page: rows of matrices",
            dict(
                input_tensor=float32(1, 2, 2, 2), indices_tensor=uint32(1, 1, 2, 2), output_tensor=float32(1, 1, 2, 2),
                input_dimension_count=3, indices_dimension_count=2,
            ),
            dict(input_tensor=count(1, 2, 2, 2), indices_tensor=np.array([[[[0, 1], [1, 0]]]], np.uint32)),
            np.array([[[[2, 3], [4, 5]]]], np.float32),
        ),
        Example(
            "Page: rows of a matrix",
            dict(
                input_tensor=float32(2, 2), indices_tensor=uint32(2, 1), output_tensor=float32(2, 2),
                input_dimension_count=2, indices_dimension_count=2,
            ),
            dict(input_tensor=count(2, 2), indices_tensor=np.array([[1], [0]], np.uint32)),
            np.array([[2, 3], [0, 1]], np.float32),
        ),
    )  # fmt: skip
    rejecting = (
        rejects("input_leads_with_ones", input_tensor=float32(2, 2, 2, 2)),
        rejects("indices_leads_with_ones", indices_tensor=uint32(1, 2, 2, 2)),
        rejects("tuple_fits", indices_tensor=uint32(1, 1, 2, 4)),
    )
    errata = ERRATA
