"""DML_OPERATOR_GEMM: the product of matrices, with factors, an added matrix and a fused activation.

Source: ns-directml-dml_gemm_operator_desc.
"""

from __future__ import annotations

from anydml.operators.activation_relu import ActivationRelu
from anydml.operators.activation_softmax import ActivationSoftmax, ActivationSoftmax1
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.shared.vocabulary import *

ALL = "ATensor BTensor CTensor OutputTensor"
TRANSPOSE = MatrixTransform.TRANSPOSE


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


def left(d: Any) -> tuple[int, int]:
    """M and K, the sizes of the left matrices as they are multiplied."""
    m, k = d.a_tensor.sizes[-2:]
    return (k, m) if d.trans_a == TRANSPOSE else (m, k)


def right(d: Any) -> tuple[int, int]:
    """K and N, the sizes of the right matrices as they are multiplied."""
    k, n = d.b_tensor.sizes[-2:]
    return (n, k) if d.trans_b == TRANSPOSE else (k, n)


LINES: dict[str, Any] = dict(
    a_tensor=float32(3, 1), b_tensor=float32(1, 3), c_tensor=float32(3, 3), output_tensor=float32(3, 3)
)
SQUARE: dict[str, Any] = dict(a_tensor=float32(2, 2), b_tensor=float32(2, 2), output_tensor=float32(2, 2))
FOUR = np.array([[1, 2], [3, 4]], np.float32)


@operator("DML_OPERATOR_GEMM", 54, since=FeatureLevel.FL_1_0)
class Gemm(Desc):
    """Multiplies matrices, batch by batch: Output = f(Alpha * A @ B + Beta * C), with a fused activation f.

    A is {.., M, K}, B {.., K, N}, C and Output {.., M, N}; TransA and TransB swap the last two dimensions of A and B before
    they are multiplied. Without C, Beta has no effect. Everything is exact, f included, and rounded once. An Alpha or Beta of
    0 multiplies like any other factor: its product with an infinity is NaN.
    """

    a_tensor: TensorDesc = field.input("ATensor", "The left matrices, {BatchCount, ChannelCount, M, K}; transposed, K, M.")
    b_tensor: TensorDesc = field.input("BTensor", "The right matrices, {BatchCount, ChannelCount, K, N}; transposed, N, K.")
    c_tensor: TensorDesc | None = field.input(
        "CTensor", "A matrix to add, {BatchCount, ChannelCount, M, N}; strides of 0 broadcast.", default=None
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The results, {BatchCount, ChannelCount, M, N}.")
    trans_a: MatrixTransform = field.attribute(
        "TransA", field.MATRIX_TRANSFORM, "Whether A is transposed.", default=MatrixTransform.NONE
    )
    trans_b: MatrixTransform = field.attribute(
        "TransB", field.MATRIX_TRANSFORM, "Whether B is transposed.", default=MatrixTransform.NONE
    )
    alpha: float = field.attribute("Alpha", field.FLOAT, "The factor of the products.", default=1.0)
    beta: float = field.attribute("Beta", field.FLOAT, "The factor of C.", default=1.0)
    fused_activation: Desc | None = field.attribute(
        "FusedActivation", field.OPERATOR, "The function f, applied to the exact sum; if absent, none.", default=None
    )

    rows = (support("1_0", ALL, (4, 4), FLOATS), support("4_0", ALL, (2, 4), FLOATS))
    same = same("DataType DimensionCount", ALL)

    @constraint(
        "`ATensor.Sizes` and `BTensor.Sizes` must have the same K: the last of A and the second last of B, or the other one "
        "of the two where `TransA` or `TransB` is TRANSPOSE."
    )
    def inner_sizes_match(d) -> bool:
        return left(d)[1] == right(d)[0]

    @constraint(
        "`OutputTensor.Sizes` must end with M, the second last of `ATensor.Sizes` (the last where `TransA` is TRANSPOSE), and "
        "N, the last of `BTensor.Sizes` (the second last where `TransB` is TRANSPOSE).",
        expected=lambda d: {"OutputTensor.Sizes": (*d.output_tensor.sizes[:-2], left(d)[0], right(d)[1])},
    )
    def output_sizes_match(d) -> bool:
        return d.output_tensor.sizes[-2:] == (left(d)[0], right(d)[1])

    batch_sizes_match = MatrixMultiplyInteger.batch_sizes_match

    c_sizes = sizes_are(
        "CTensor",
        "`CTensor.Sizes` must equal `OutputTensor.Sizes`; a broadcast has strides of 0.",
        lambda d: d.output_tensor.sizes,
    )
    fusable = fusable_activation()

    @constraint(
        "`FusedActivation`, if it is SOFTMAX1, must have Axes less than `OutputTensor.DimensionCount`.",
        breaks=lambda d: {"fused_activation": ActivationSoftmax1(axes=(d.output_tensor.dimension_count,))},
    )
    def softmax_axis_in_range(d) -> bool:
        f, count = d.fused_activation, d.output_tensor.dimension_count
        return not isinstance(f, ActivationSoftmax1) or all(axis < count for axis in f.axes)

    @constraint("`OutputTensor.Sizes` must be 1 before the last two if `FusedActivation` is SOFTMAX.")
    def softmax_effective_rank_at_most_two(d) -> bool:
        return not isinstance(d.fused_activation, ActivationSoftmax) or all(n == 1 for n in d.output_tensor.sizes[:-2])

    def spread(d) -> dict[str, tuple[int, ...]]:
        given = {name: t for name in ("a_tensor", "b_tensor", "c_tensor") if (t := getattr(d, name)) is not None}
        batch = np.broadcast_shapes(*(t.sizes[:-2] for t in given.values()))
        ends = {**{name: t.sizes[-2:] for name, t in given.items()}, "c_tensor": (left(d)[0], right(d)[1])}
        return {name: (*batch, *ends[name]) for name in given}

    def outputs(d) -> Outputs:
        return {"output_tensor": ((*d.a_tensor.sizes[:-2], left(d)[0], right(d)[1]), d.a_tensor.data_type)}

    def statement(d, a: Tensor, b: Tensor, c: Tensor | None) -> Nest:
        def element(i: Sequence[Operand]) -> Expr:
            *batch, m, n = i
            (k,) = over_k = each(left(d)[1:], "k")
            x = a[[*batch, k, m] if d.trans_a == TRANSPOSE else [*batch, m, k]]
            y = b[[*batch, n, k] if d.trans_b == TRANSPOSE else [*batch, k, n]]
            total = d.alpha * Sum(over_k, x * y)
            return total if c is None else total + d.beta * c[i]

        f, sizes = d.fused_activation, d.output_tensor.sizes
        if isinstance(f, ActivationSoftmax):
            f = ActivationSoftmax1(axes=(len(sizes) - 1,))
        if isinstance(f, ActivationSoftmax1):
            softmax: Any = ActivationSoftmax1.statement  # of a tensor, or of what is read like one
            made: Nest = softmax(f, Computed(sizes, element))
            return made
        i = each(sizes)
        return nest(i, activated(f, element(i)))

    examples = (
        Example(
            "DxDispatch's sample: a column by a row, and 2 added",
            dict(**LINES, alpha=1.0, beta=1.0),
            dict(
                a_tensor=np.array([[1], [2], [3]], np.float32),
                b_tensor=np.array([[4, 5, 6]], np.float32),
                c_tensor=np.full((3, 3), 2, np.float32),
            ),
            np.array([[6, 7, 8], [10, 12, 14], [14, 17, 20]], np.float32),
        ),
        Example(
            "A transposed, a row that is broadcast by a stride of 0, and RELU",
            dict(
                **SQUARE,
                c_tensor=TensorDesc(DataType.FLOAT32, (2, 2), strides=(0, 1)),
                trans_a="TRANSPOSE",
                alpha=0.5,
                beta=-1.0,
                fused_activation=ActivationRelu(),
            ),
            dict(a_tensor=FOUR, b_tensor=FOUR, c_tensor=np.broadcast_to(np.array([6, 4], np.float32), (2, 2))),
            np.array([[0, 3], [1, 6]], np.float32),
        ),
        Example(
            "6e38 is no float32, but the sum is exact; without C, Beta has no part",
            dict(a_tensor=float32(1, 3), b_tensor=float32(1, 3), output_tensor=float32(1, 1), trans_b="TRANSPOSE", beta=3.0),
            dict(a_tensor=np.array([[3e38, 1, -3e38]], np.float32), b_tensor=np.array([[2, 1, 2]], np.float32)),
            np.array([[1]], np.float32),
        ),
        Example(
            "SOFTMAX of sums that are not rounded: 2^24 and 2^24 + ln 3",
            dict(**SQUARE, fused_activation=ActivationSoftmax()),
            dict(
                a_tensor=np.array([[2.0**24, 1], [0, 0]], np.float32),
                b_tensor=np.array([[1, 1], [0.0, 1.0986123]], np.float32),
            ),
            np.array([[0.25, 0.75], [0.5, 0.5]], np.float32),
        ),
    )
    rejecting = (
        rejects("dimension_count_supported", at=FeatureLevel.FL_3_1),
        rejects("inner_sizes_match", trans_a="TRANSPOSE", a_tensor=float32(2, 3)),
        rejects("output_sizes_match", b_tensor=float32(1, 4)),
        rejects("batch_sizes_match", a_tensor=float32(2, 3, 1), b_tensor=float32(1, 1, 3), c_tensor=float32(2, 3, 3),
                output_tensor=float32(2, 3, 3)),
        rejects("softmax_effective_rank_at_most_two", fused_activation=ActivationSoftmax(), a_tensor=float32(2, 3, 1),
                b_tensor=float32(2, 1, 3), c_tensor=float32(2, 3, 3), output_tensor=float32(2, 3, 3)),
        rejects("fused_activation_without_tensors",
                fused_activation=ActivationRelu(input_tensor=float32(1), output_tensor=float32(1))),
    )  # fmt: skip
    errata = (
        "The prose asks for 4 dimensions where the table of 4_0 allows 2 to 4.",
        "SOFTMAX and SOFTMAX1 as fused activations stand in the history of feature levels alone, from 6_1 on; SOFTMAX1's Axes "
        "count the output's dimensions (our decision).",
        "The page does not say what Alpha or Beta of 0 do to infinities and NaN: they multiply as any other (our decision).",
    )
