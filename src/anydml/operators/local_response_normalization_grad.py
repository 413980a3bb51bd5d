"""DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION_GRAD: the gradients of LOCAL_RESPONSE_NORMALIZATION.

Source: ns-directml-dml_local_response_normalization_grad_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "InputTensor InputGradientTensor OutputGradientTensor"


@operator("DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION_GRAD", 144, since=FeatureLevel.FL_3_1)
class LocalResponseNormalizationGrad(Desc):
    """Computes the gradient of LOCAL_RESPONSE_NORMALIZATION's input from that of its output, g.

    With s[j] = Bias + (Alpha / LocalSize) * (sum of squares in the window around j), it is
    g[i] / s[i]^Beta - 2 * Alpha * Beta / LocalSize * x[i] * (sum of g[j] * x[j] / s[j]^(Beta + 1)), over all j whose window
    contains i. The result is exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x, {BatchCount, ChannelCount, Height, Width}.")
    input_gradient_tensor: TensorDesc = field.input("InputGradientTensor", "The incoming gradient g.")
    output_gradient_tensor: TensorDesc = field.output("OutputGradientTensor", "The gradient of the elements.")
    cross_channel: bool = field.attribute("CrossChannel", field.BOOL, "Whether the window lies across channels.", default=True)
    local_size: int = field.attribute("LocalSize", field.UINT, "Elements of the window, for each of its dimensions.")
    alpha: float = field.attribute("Alpha", field.FLOAT, "A factor of the sum, divided by LocalSize.", default=1e-4)
    beta: float = field.attribute("Beta", field.FLOAT, "The exponent.", default=0.75)
    bias: float = field.attribute("Bias", field.FLOAT, "A term of the sum.", default=1.0)

    rows = (support("3_1", ALL, (4, 4), FLOATS),)
    same = same("DataType Sizes", ALL)

    @constraint(
        "`LocalSize` must be at least 1.",
        expected=lambda d: {"LocalSize": range(1, 2**32)},
        breaks=lambda d: {"local_size": 0},
    )
    def local_size_not_zero(d) -> bool:
        return d.local_size >= 1

    def outputs(d) -> Outputs:
        return {"output_gradient_tensor": (d.input_tensor.sizes, d.input_tensor.data_type)}

    def statement(d, x: Tensor, g: Tensor) -> Nest:
        i = each(x.sizes)
        before, count = (d.local_size - 1) // 2, 1 if d.cross_channel else 2
        axes = [1] if d.cross_channel else [2, 3]
        share, beta = lift(d.alpha) / d.local_size, lift(d.beta)

        def moved(at: Sequence[Expr], k: Sequence[Expr], sign: int) -> list[Expr]:
            steps = dict(zip(axes, k, strict=True))
            return [
                p if a not in steps else p + steps[a] - before if sign > 0 else p - steps[a] + before for a, p in enumerate(at)
            ]

        def size(at: Sequence[Expr], names: str) -> Expr:
            k = each((d.local_size,) * count, names)
            near = x.skipped(moved(at, k, 1))
            return share * Sum(k, near * near) + d.bias

        k = each((d.local_size,) * count, "uv")
        j = moved(i, k, -1)
        around = Sum(k, g.skipped(j) * x.skipped(j) / pow(size(j, "yz"), beta + 1))
        return nest(i, g[i] / pow(size(i, "st"), beta) - share * beta * 2 * x[i] * around)

    examples = (
        Example(
            "Two channels",
            dict(
                input_tensor=TensorDesc("FLOAT32", (1, 2, 1, 1)), input_gradient_tensor=TensorDesc("FLOAT32", (1, 2, 1, 1)),
                output_gradient_tensor=TensorDesc("FLOAT32", (1, 2, 1, 1)), cross_channel=True, local_size=3, alpha=3.0,
                beta=1.0, bias=1.0,
            ),
            dict(
                input_tensor=np.array([1, 2], np.float32).reshape(1, 2, 1, 1),
                input_gradient_tensor=np.array([1, 0], np.float32).reshape(1, 2, 1, 1),
            ),
            np.array([0.11111111, -0.11111111], np.float32).reshape(1, 2, 1, 1),
        ),
    )  # fmt: skip
    rejecting = ()
    errata = (
        "The page has no formula; this is the derivative of LOCAL_RESPONSE_NORMALIZATION, as it stands there.",
        "The text about LocalSize has the two cases of CrossChannel the wrong way round.",
    )
