"""DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION: elements divided by a power of the sum of squares around them.

Source: ns-directml-dml_local_response_normalization_operator_desc.
"""

from __future__ import annotations

from fractions import Fraction

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FOUR, NINE = TensorDesc(DataType.FLOAT32, (1, 4, 1, 1)), TensorDesc(DataType.FLOAT32, (1, 1, 3, 3))
ACROSS: dict[str, Any] = dict(
    input_tensor=FOUR, output_tensor=FOUR, cross_channel=True, local_size=3, alpha=1.0, beta=0.5, bias=1.0
)
WITHIN: dict[str, Any] = dict(
    input_tensor=NINE, output_tensor=NINE, cross_channel=False, local_size=3, alpha=9.0, beta=1.0, bias=1.0
)


@operator("DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION", 74, since=FeatureLevel.FL_1_0)
class LocalResponseNormalization(Desc):
    """Divides by a power of a sum of squares: Output = x / (Bias + (Alpha / LocalSize) * sum of squares)^Beta.

    The sum runs over a window around x: LocalSize channels with CrossChannel, else LocalSize x LocalSize elements of the
    channel. The window around index i begins at i - (LocalSize - 1) / 2, rounded up. Elements outside of the input are left
    out. The result is exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x, {BatchCount, ChannelCount, Height, Width}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The quotients.")
    cross_channel: bool = field.attribute("CrossChannel", field.BOOL, "Whether the window lies across channels.", default=True)
    local_size: int = field.attribute("LocalSize", field.UINT, "Elements of the window, for each of its dimensions.")
    alpha: float = field.attribute("Alpha", field.FLOAT, "A factor of the sum, divided by LocalSize.", default=1e-4)
    beta: float = field.attribute("Beta", field.FLOAT, "The exponent.", default=0.75)
    bias: float = field.attribute("Bias", field.FLOAT, "A term of the sum.", default=1.0)

    rows = (support("1_0", BOTH, (4, 4), FLOATS),)
    same = same("DataType Sizes", BOTH)

    @constraint(
        "`LocalSize` must be at least 1.",
        expected=lambda d: {"LocalSize": range(1, 2**32)},
        breaks=lambda d: {"local_size": 0},
    )
    def local_size_not_zero(d) -> bool:
        return d.local_size >= 1

    outputs = like("input_tensor")

    def statement(d, x: Tensor) -> Nest:
        n, c, h, w = i = each(x.sizes)
        before = (d.local_size - 1) // 2
        k = each((d.local_size,) if d.cross_channel else (d.local_size,) * 2, "uv")
        at = [n, c + k[0] - before, h, w] if d.cross_channel else [n, c, h + k[0] - before, w + k[-1] - before]
        near = x.skipped(at)
        return nest(i, x[i] / pow(lift(d.alpha) / d.local_size * Sum(k, near * near) + d.bias, d.beta))

    examples = (
        Example(
            "Across channels",
            ACROSS,
            dict(input_tensor=np.array([1, 2, 3, 4], np.float32).reshape(1, 4, 1, 1)),
            np.array([0.61237244, 0.84016805, 0.91855865, 1.3093073], np.float32).reshape(1, 4, 1, 1),
        ),
        Example(
            "Within a channel",
            WITHIN,
            dict(input_tensor=np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)),
            np.array(
                [
                    float(Fraction(x, y))
                    for x, y in zip(range(1, 10), (139, 274, 223, 478, 856, 658, 463, 814, 619), strict=True)
                ],
                np.float32,
            ).reshape(1, 1, 3, 3),
        ),
    )
    rejecting = ()
    errata = (
        "The page says that LocalSize holds for width, height and optionally channel, which would be a box; with CrossChannel "
        "the window lies across channels alone, as clients use it (our decision).",
        "The page divides Alpha by LocalSize where the window has two dimensions, too, and not by the number of its elements.",
        "The page does not say where a window of even size lies: one element more comes after (our decision, as in ONNX).",
        "The page does not say what a sum that is negative gives: what IEEE 754's pow makes of it (our decision).",
    )
