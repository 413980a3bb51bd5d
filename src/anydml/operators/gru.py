"""DML_OPERATOR_GRU: one layer of gated recurrent units.

Source: ns-directml-dml_gru_operator_desc. Its equations are those of ONNX's GRU.
"""

from __future__ import annotations

from anydml.operators.activation_sigmoid import ActivationSigmoid
from anydml.operators.activation_tanh import ActivationTanh
from anydml.operators.shared.recurrent import (
    DIRECTION,
    HIDDEN_INIT,
    INPUT,
    OUTPUT_SEQUENCE,
    OUTPUT_SINGLE,
    RECURRENT_ERRATA,
    SEQUENCE_LENGTHS,
    Network,
    float32,
    recurrent_outputs,
    recurrent_rules,
)
from anydml.operators.shared.vocabulary import *

FLOAT_INPUTS = "InputTensor WeightTensor RecurrenceTensor BiasTensor HiddenInitTensor"
FLOAT_OUTPUTS = "OutputSequenceTensor OutputSingleTensor"
UPDATE, RESET, CANDIDATE = range(3)  # the order of the gates in weights and biases
STATE = float32(1, 1, 1, 1)
ACTIVATIONS = (ActivationSigmoid(), ActivationTanh())


def column(*values: float) -> NDArray[Any]:
    return np.array([[[[v] for v in values]]], np.float32)


def example(title: str, sequence: tuple[float, float], **fields: Any) -> Example:
    """Two steps of one sequence with a hidden size of 1."""
    return Example(
        title,
        dict(
            input_tensor=float32(1, 2, 1, 1),
            weight_tensor=float32(1, 1, 3, 1),
            recurrence_tensor=float32(1, 1, 3, 1),
            bias_tensor=float32(1, 1, 1, 6),
            hidden_init_tensor=STATE,
            sequence_lengths_tensor=TensorDesc(DataType.UINT32, (1, 1, 1, 1)),
            output_sequence_tensor=float32(2, 1, 1, 1),
            output_single_tensor=STATE,
            activation_descs=ACTIVATIONS,
            **fields,
        ),
        dict(
            input_tensor=np.array([[[[1]], [[2]]]], np.float32),
            weight_tensor=column(0.1, 0.2, 0.3),
            recurrence_tensor=column(0.4, 0.5, 0.6),
            bias_tensor=np.array([[[[0.01, 0.02, 0.03, 0.04, 0.05, 0.06]]]], np.float32),
            hidden_init_tensor=column(0.5),
            sequence_lengths_tensor=np.array([[[[2]]]], np.uint32),
        ),
        dict(
            output_sequence_tensor=np.array(sequence, np.float32).reshape(2, 1, 1, 1),
            output_single_tensor=column(sequence[-1]),
        ),
    )


class Layer(Network):
    """The equations of a GRU over its desc and tensors, in the order of the page."""

    gates, functions = 3, 2

    def step(self, i: Indices, states: Tensor) -> tuple[Expr]:
        t, _, b, _ = i
        update = self.gate(UPDATE, i, states)
        old = select(t > 0, *self.before(states, self.hidden_init, i))
        candidate = named("Candidate", "trbj", lambda *at: self.function(1, at[1], self.reset(at, states)), i)
        return (self.within(t, b, (1 - update) * candidate + update * old),)

    def gate(self, place: int, i: Any, states: Tensor) -> Expr:
        def element(*at: Expr) -> Expr:
            total = self.biased(self.of_input(place, at) + self.of_state(place, at, states), place, at)
            return self.function(0, at[1], total)

        return named("Reset" if place == RESET else "Update", "trbj", element, i)

    def reset(self, i: Sequence[Expr], states: Tensor) -> Expr:
        """X Wh + Wbh, and what the reset gate leaves of H Rh + Rbh."""
        if not self.d.linear_before_reset:
            kept = self.of_state(CANDIDATE, i, states, lambda at: self.gate(RESET, at, states))
            return self.biased(self.of_input(CANDIDATE, i) + kept, CANDIDATE, i)
        read, fed = self.of_input(CANDIDATE, i), self.of_state(CANDIDATE, i, states)
        return self.biased(read, CANDIDATE, i, [0]) + self.gate(RESET, i, states) * self.biased(fed, CANDIDATE, i, [1])


@operator("DML_OPERATOR_GRU", 78, since=FeatureLevel.FL_1_0)
class Gru(Desc):
    """Computes one layer of gated recurrent units, step by step: H' = (1 - z) * h + z * H.

    X is the step's input, and H the state before it. The update gate is z = f(X Wz + H Rz + Wbz + Rbz), and the reset gate
    is r = f(X Wr + H Rr + Wbr + Rbr). The candidate is h = g(X Wh + (r * H) Rh + Wbh + Rbh) or, with LinearBeforeReset,
    h = g(X Wh + r * (H Rh + Rbh) + Wbh). Only H' is rounded, once at each step.

    BACKWARD goes from a sequence's end to its start. OutputSequence has every H' at its own step. Elements after the end of
    a sequence are 0.
    """

    input_tensor: TensorDesc = field.input("InputTensor", INPUT)
    weight_tensor: TensorDesc = field.input(
        "WeightTensor", "The weights W of gates z, r, h, {1, num_directions, 3 * hidden_size, input_size}."
    )
    recurrence_tensor: TensorDesc = field.input(
        "RecurrenceTensor", "The weights R of gates z, r, h, {1, num_directions, 3 * hidden_size, hidden_size}."
    )
    bias_tensor: TensorDesc | None = field.input(
        "BiasTensor", "Wb of gates z, r, h, and Rb of them, {1, 1, num_directions, 6 * hidden_size}; 0 if absent.", default=None
    )
    hidden_init_tensor: TensorDesc | None = field.input("HiddenInitTensor", HIDDEN_INIT, default=None)
    sequence_lengths_tensor: TensorDesc | None = field.input("SequenceLengthsTensor", SEQUENCE_LENGTHS, default=None)
    output_sequence_tensor: TensorDesc | None = field.output("OutputSequenceTensor", OUTPUT_SEQUENCE, default=None)
    output_single_tensor: TensorDesc | None = field.output("OutputSingleTensor", OUTPUT_SINGLE, default=None)
    activation_desc_count: int | None = field.count("ActivationDescCount", "Entries of ActivationDescs.", default=None)
    activation_descs: tuple[Desc, ...] = field.attribute(
        "ActivationDescs", field.OPERATOR, "The functions f and g of each direction.", sized_by="ActivationDescCount"
    )
    direction: RecurrentNetworkDirection = field.attribute(
        "Direction", field.RECURRENT_NETWORK_DIRECTION, DIRECTION, default=RecurrentNetworkDirection.FORWARD
    )
    linear_before_reset: bool = field.attribute(
        "LinearBeforeReset", field.BOOL, "Whether r is a factor of H Rh + Rbh, and not of H.", default=False
    )

    eager = defaults(
        activation_descs=(
            "SIGMOID, TANH for each direction",
            lambda d: (ActivationSigmoid(), ActivationTanh()) * d.weight_tensor.sizes[1],
        )
    )

    rows = (
        support("1_0", f"{FLOAT_INPUTS} {FLOAT_OUTPUTS}", (4, 4), FLOATS),
        support("1_0", "SequenceLengthsTensor", (4, 4), (DataType.UINT32,)),
    )
    same = same("DataType", f"{FLOAT_INPUTS} {FLOAT_OUTPUTS}")
    recurrent = recurrent_rules(
        3, "f g", rows={"BiasTensor": 6}, states="HiddenInitTensor OutputSingleTensor", outputs=FLOAT_OUTPUTS
    )
    fusable = fusable_activation("ActivationDescs", each=True)
    not_owned = not_owned(f"{FLOAT_INPUTS} SequenceLengthsTensor")

    outputs = recurrent_outputs(FLOAT_OUTPUTS)

    def statement(d, *inputs: Any) -> tuple[Nest, Nest]:
        layer = Layer(d, *inputs)
        (states,) = stored("H", layer.sizes, d.input_tensor.data_type, layer.step)
        return layer.at_every_step(states), layer.at_end(states)

    examples = (
        example("Two steps", (0.5088114, 0.58859617)),
        example("The reset gate after the product", (0.50199854, 0.58018643), linear_before_reset=True),
    )
    rejecting = (
        rejects("input_sizes", input_tensor=float32(2, 2, 1, 1)),
        rejects("recurrence_sizes", recurrence_tensor=float32(1, 1, 4, 1)),
        rejects("activation_descs_counted", activation_descs=ACTIVATIONS[:1]),
        rejects(
            "activation_descs_without_tensors",
            activation_descs=(ActivationSigmoid(input_tensor=STATE, output_tensor=STATE), ActivationTanh()),
        ),
    )
    errata = (
        *RECURRENT_ERRATA,
        "The page does not say that an output must be there (our decision).",
    )
