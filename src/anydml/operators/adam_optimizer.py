"""DML_OPERATOR_ADAM_OPTIMIZER: a step of the Adam optimiser.

Source: ns-directml-dml_adam_optimizer_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *
from anydml.spelling import snake_case

INPUTS = "InputParametersTensor InputFirstMomentTensor InputSecondMomentTensor GradientTensor"
OUTPUTS = "OutputParametersTensor OutputFirstMomentTensor OutputSecondMomentTensor"
ONE, UINT32 = TensorDesc(DataType.FLOAT32, (1, 1, 1, 1)), DataType.UINT32


def one(value: float) -> NDArray[np.float32]:
    return np.full((1, 1, 1, 1), value, np.float32)


@operator("DML_OPERATOR_ADAM_OPTIMIZER", 136, since=FeatureLevel.FL_3_0, in_place=tuple(INPUTS.split()))
class AdamOptimizer(Desc):
    """Moves parameters X by a step of the Adam optimiser: X' = X - LearningRate * Alpha * M' / (sqrt(V') + Epsilon).

    With the gradient G, M' = Beta1 * M + (1 - Beta1) * G, V' = Beta2 * V + (1 - Beta2) * G^2, and
    Alpha = sqrt(1 - Beta2^T) / (1 - Beta1^T), where T is the number of the step. X' is computed from the exact M' and V', and
    each output is rounded once. The first step is T = 1; for T = 0, Alpha is NaN.
    """

    input_parameters_tensor: TensorDesc = field.input("InputParametersTensor", "The parameters X.")
    input_first_moment_tensor: TensorDesc = field.input("InputFirstMomentTensor", "The first moments M.")
    input_second_moment_tensor: TensorDesc = field.input("InputSecondMomentTensor", "The second moments V.")
    gradient_tensor: TensorDesc = field.input("GradientTensor", "The gradient G of the parameters.")
    training_step_tensor: TensorDesc = field.input("TrainingStepTensor", "The number T of the step, one element.")
    output_parameters_tensor: TensorDesc = field.output("OutputParametersTensor", "The parameters X' after the step.")
    output_first_moment_tensor: TensorDesc = field.output("OutputFirstMomentTensor", "The first moments M' after it.")
    output_second_moment_tensor: TensorDesc = field.output("OutputSecondMomentTensor", "The second moments V' after it.")
    learning_rate: float = field.attribute("LearningRate", field.FLOAT, "The factor of the step.", default=0.001)
    beta1: float = field.attribute("Beta1", field.FLOAT, "The decay rate of M, 0 to 1.", default=0.9)
    beta2: float = field.attribute("Beta2", field.FLOAT, "The decay rate of V, 0 to 1.", default=0.999)
    epsilon: float = field.attribute(
        "Epsilon", field.FLOAT, "A number added to the divisor, so that it is not zero.", default=1e-8
    )

    rows = (
        support("3_0", f"{INPUTS} {OUTPUTS}", (4, 4), FLOATS),
        support("3_0", "TrainingStepTensor", (4, 4), (UINT32,)),
        support("4_0", f"{INPUTS} {OUTPUTS}", (1, 8), FLOATS),
        support("4_0", "TrainingStepTensor", (1, 8), (UINT32,)),
    )
    same = (
        *same("DataType DimensionCount Sizes", f"{INPUTS} {OUTPUTS}"),
        *same("DimensionCount", "InputParametersTensor TrainingStepTensor", name="step"),
    )
    single = single_element("TrainingStepTensor")

    def outputs(d) -> Outputs:
        like = d.input_parameters_tensor.sizes, d.input_parameters_tensor.data_type
        return dict.fromkeys(map(snake_case, OUTPUTS.split()), like)

    def statement(d, x: Tensor, m: Tensor, v: Tensor, g: Tensor, t: Tensor) -> tuple[Nest, Nest, Nest]:
        i = each(x.sizes)
        beta1, beta2, step = lift(d.beta1), lift(d.beta2), t[[0] * len(t.sizes)]
        first, second = beta1 * m[i] + (1 - beta1) * g[i], beta2 * v[i] + (1 - beta2) * g[i] ** 2
        alpha = sqrt(1 - pow(beta2, step)) / (1 - pow(beta1, step))
        after = x[i] - d.learning_rate * alpha * first / (sqrt(second) + d.epsilon)
        return nest(i, after), nest(i, first), nest(i, second)

    examples = (
        Example(
            "The first step",
            dict.fromkeys(map(snake_case, f"{INPUTS} {OUTPUTS}".split()), ONE)
            | dict(training_step_tensor=TensorDesc(UINT32, (1, 1, 1, 1)), learning_rate=0.1, beta1=0.5, beta2=0.75,
            epsilon=0.0),
            dict(
                input_parameters_tensor=one(1), input_first_moment_tensor=one(0), input_second_moment_tensor=one(0),
                gradient_tensor=one(2), training_step_tensor=np.full((1, 1, 1, 1), 1, np.uint32),
            ),
            dict(
                output_parameters_tensor=one(0.9), output_first_moment_tensor=one(1), output_second_moment_tensor=one(1),
            ),
        ),
    )  # fmt: skip
    rejecting = ()
    errata = (
        "The table has FLOAT32 and FLOAT16 for TrainingStepTensor; its text says UINT32.",
        "The page says that the first step is 0; Alpha is 0 / 0 there, which is NaN.",
        "The table still has four dimensions at 4_0; the notes on that level say 1 to 8.",
    )
