"""DML_OPERATOR_RNN: one layer of a simple recurrent network.

Source: ns-directml-dml_rnn_operator_desc. Its equation is that of ONNX's RNN.
"""

from __future__ import annotations

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
STATE = float32(1, 1, 2, 1)
SEQUENCES = (0.37994897, 0.71629786, 0.90423828, 0, 0.98958176, 0)


def example(title: str, sequence: tuple[float, ...], single: tuple[float, float], **fields: Any) -> Example:
    """Two sequences with a hidden size of 1: one of three steps, one of one."""
    return Example(
        title,
        dict(
            input_tensor=float32(1, 3, 2, 1),
            weight_tensor=float32(1, 1, 1, 1),
            recurrence_tensor=float32(1, 1, 1, 1),
            bias_tensor=float32(1, 1, 1, 2),
            hidden_init_tensor=STATE,
            sequence_lengths_tensor=TensorDesc(DataType.UINT32, (1, 1, 1, 2)),
            output_sequence_tensor=float32(3, 1, 2, 1),
            output_single_tensor=STATE,
            activation_descs=(ActivationTanh(),),
            **fields,
        ),
        dict(
            input_tensor=np.array([1, 2, 3, 4, 5, 6], np.float32).reshape(1, 3, 2, 1),
            weight_tensor=np.array([[[[0.5]]]], np.float32),
            recurrence_tensor=np.array([[[[0.25]]]], np.float32),
            bias_tensor=np.array([[[[0.1, -0.2]]]], np.float32),
            hidden_init_tensor=np.zeros((1, 1, 2, 1), np.float32),
            sequence_lengths_tensor=np.array([[[[3, 1]]]], np.uint32),
        ),
        dict(
            output_sequence_tensor=np.array(sequence, np.float32).reshape(3, 1, 2, 1),
            output_single_tensor=np.array(single, np.float32).reshape(1, 1, 2, 1),
        ),
    )


class Layer(Network):
    """The equation of a simple recurrent network over its desc and tensors, in the order of the page."""

    gates, functions = 1, 1

    def step(self, i: Indices, states: Tensor) -> tuple[Expr]:
        t, r, b, _ = i
        total = self.biased(self.of_input(0, i) + self.of_state(0, i, states), 0, i)
        return (self.within(t, b, self.function(0, r, total)),)


@operator("DML_OPERATOR_RNN", 76, since=FeatureLevel.FL_1_0)
class Rnn(Desc):
    """Computes one layer of a simple recurrent network, step by step: H' = f(X W + H R + Wb + Rb).

    X is the step's input, and H the state before it. Only H' is rounded, once at each step. BACKWARD goes from a sequence's
    end to its start. OutputSequence has every H' at its own step. Elements after the end of a sequence are 0.
    """

    input_tensor: TensorDesc = field.input("InputTensor", INPUT)
    weight_tensor: TensorDesc = field.input("WeightTensor", "The weights W, {1, num_directions, hidden_size, input_size}.")
    recurrence_tensor: TensorDesc = field.input(
        "RecurrenceTensor", "The weights R, {1, num_directions, hidden_size, hidden_size}."
    )
    bias_tensor: TensorDesc | None = field.input(
        "BiasTensor", "Wb, then Rb, {1, 1, num_directions, 2 * hidden_size}; 0 if absent.", default=None
    )
    hidden_init_tensor: TensorDesc | None = field.input("HiddenInitTensor", HIDDEN_INIT, default=None)
    sequence_lengths_tensor: TensorDesc | None = field.input("SequenceLengthsTensor", SEQUENCE_LENGTHS, default=None)
    output_sequence_tensor: TensorDesc | None = field.output("OutputSequenceTensor", OUTPUT_SEQUENCE, default=None)
    output_single_tensor: TensorDesc | None = field.output("OutputSingleTensor", OUTPUT_SINGLE, default=None)
    activation_desc_count: int | None = field.count("ActivationDescCount", "Entries of ActivationDescs.", default=None)
    activation_descs: tuple[Desc, ...] = field.attribute(
        "ActivationDescs", field.OPERATOR, "The function f of each direction.", sized_by="ActivationDescCount"
    )
    direction: RecurrentNetworkDirection = field.attribute(
        "Direction", field.RECURRENT_NETWORK_DIRECTION, DIRECTION, default=RecurrentNetworkDirection.FORWARD
    )

    eager = defaults(activation_descs=("TANH for each direction", lambda d: (ActivationTanh(),) * d.weight_tensor.sizes[1]))

    rows = (
        support("1_0", f"{FLOAT_INPUTS} {FLOAT_OUTPUTS}", (4, 4), FLOATS),
        support("1_0", "SequenceLengthsTensor", (4, 4), (DataType.UINT32,)),
    )
    same = same("DataType", f"{FLOAT_INPUTS} {FLOAT_OUTPUTS}")
    recurrent = recurrent_rules(
        1, "f", rows={"BiasTensor": 2}, states="HiddenInitTensor OutputSingleTensor", outputs=FLOAT_OUTPUTS
    )
    fusable = fusable_activation("ActivationDescs", each=True)
    not_owned = not_owned(f"{FLOAT_INPUTS} SequenceLengthsTensor")

    outputs = recurrent_outputs(FLOAT_OUTPUTS)

    def statement(d, *inputs: Any) -> tuple[Nest, Nest]:
        layer = Layer(d, *inputs)
        (states,) = stored("H", layer.sizes, d.input_tensor.data_type, layer.step)
        return layer.at_every_step(states), layer.at_end(states)

    examples = (
        example("Two sequences, of three steps and of one", SEQUENCES, (0.98958176, 0.71629786)),
        example(
            "From the end to the start", (0.5594786, 0.71629786, 0.92829543, 0, 0.98367488, 0),
            (0.5594786, 0.71629786),
            direction="BACKWARD",
        ),
    )  # fmt: skip
    rejecting = (
        rejects("input_sizes", input_tensor=float32(2, 3, 2, 1)),
        rejects("recurrence_sizes", recurrence_tensor=float32(1, 1, 2, 1)),
        rejects("activation_descs_counted", activation_descs=(ActivationTanh(),) * 2, activation_desc_count=1),
        rejects(
            "activation_descs_without_tensors", activation_descs=(ActivationTanh(input_tensor=STATE, output_tensor=STATE),)
        ),
    )
    errata = (
        *RECURRENT_ERRATA[:3],
        "The text calls RecurrenceTensor optional; it is required.",
        "The page calls f the function of the input gate; there are no gates.",
        "The page does not say that an output must be there (our decision).",
    )
