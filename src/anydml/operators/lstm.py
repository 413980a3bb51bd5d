"""DML_OPERATOR_LSTM: one layer of long short-term memory.

Source: ns-directml-dml_lstm_operator_desc. Its equations are those of ONNX's LSTM.
"""

from __future__ import annotations

from functools import partial

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

FLOAT_INPUTS = "InputTensor WeightTensor RecurrenceTensor BiasTensor HiddenInitTensor CellMemInitTensor PeepholeTensor"
FLOAT_OUTPUTS = "OutputSequenceTensor OutputSingleTensor OutputCellSingleTensor"
INPUT_GATE, OUTPUT_GATE, FORGET_GATE, CELL = range(4)  # their order in weights and biases; peepholes have the first three
NAMES = ("InputGate", "OutputGate", "ForgetGate", "CellGate")  # in formulas


def row(*values: float) -> NDArray[Any]:
    return np.array([[[values]]], np.float32)


def column(*values: float) -> NDArray[Any]:
    return np.array([[[[v] for v in values]]], np.float32)


STATE = float32(1, 1, 1, 1)
ACTIVATIONS = (ActivationSigmoid(), ActivationTanh(), ActivationTanh())
FIELDS: dict[str, Any] = dict(
    input_tensor=float32(1, 2, 1, 1),
    weight_tensor=float32(1, 1, 4, 1),
    recurrence_tensor=float32(1, 1, 4, 1),
    bias_tensor=float32(1, 1, 1, 8),
    hidden_init_tensor=STATE,
    cell_mem_init_tensor=STATE,
    sequence_lengths_tensor=TensorDesc(DataType.UINT32, (1, 1, 1, 1)),
    peephole_tensor=float32(1, 1, 1, 3),
    output_sequence_tensor=float32(2, 1, 1, 1),
    output_single_tensor=STATE,
    output_cell_single_tensor=STATE,
    activation_descs=ACTIVATIONS,
    direction="FORWARD",
)


def example(title: str, sequence: tuple[float, float], cell: float, length: int = 2, **fields: Any) -> Example:
    """Two steps of one batch with a hidden size of 1."""
    return Example(
        title,
        FIELDS | fields,
        dict(
            input_tensor=np.array([[[[1]], [[2]]]], np.float32),
            weight_tensor=column(0.1, 0.2, 0.3, 0.4),
            recurrence_tensor=column(0.5, 0.6, 0.7, 0.8),
            bias_tensor=row(0.01, 0.02, 0.03, 0.04, 0, 0, 0, 0),
            hidden_init_tensor=row(0.1),
            cell_mem_init_tensor=row(0.2),
            sequence_lengths_tensor=np.array([[[[length]]]], np.uint32),
            peephole_tensor=row(0.05, 0.06, 0.07),
        ),
        dict(
            output_sequence_tensor=np.array(sequence, np.float32).reshape(2, 1, 1, 1),
            output_single_tensor=row(sequence[length - 1]),
            output_cell_single_tensor=row(cell),
        ),
    )


class Layer(Network):
    """The equations of an LSTM over its desc and tensors, in the order of the page."""

    gates, functions = 4, 3

    def __init__(
        self, d: Any, x: Tensor, weight: Tensor, recurrence: Tensor, bias: Tensor | None, hidden_init: Tensor | None,
        cell_init: Tensor | None, lengths: Tensor | None, peephole: Tensor | None,
    ) -> None:  # fmt: skip
        super().__init__(d, x, weight, recurrence, bias, hidden_init, lengths)
        self.cell_init, self.peephole = cell_init, peephole

    def step(self, i: Indices, cells: Tensor, states: Tensor) -> tuple[Expr, Expr]:
        t, r, b, _ = i
        old = partial(self.old, cells)
        new_gate = self.gate(INPUT_GATE, i, states, old)
        forget = 1 - new_gate if self.d.couple_input_forget else self.gate(FORGET_GATE, i, states, old)
        cell = forget * old(*i) + new_gate * self.gate(CELL, i, states)
        hidden = self.gate(OUTPUT_GATE, i, states, lambda *at: cells[at]) * self.function(2, r, cells[i])
        return self.within(t, b, cell), self.within(t, b, hidden)

    def old(self, cells: Tensor, *i: Expr) -> Expr:
        """C before a step."""
        return select(i[0] > 0, *self.before(cells, self.cell_init, i))

    def gate(self, place: int, i: Indices, states: Tensor, cell: Callable[..., Expr] | None = None) -> Expr:
        def element(*at: Expr) -> Expr:
            _, r, _, j = at
            total = self.of_input(place, at) + self.of_state(place, at, states)
            if self.peephole is not None and cell is not None:
                total += self.peephole[0, 0, r, self.at(place, j)] * cell(*at)
            total = self.biased(total, place, at)
            clip = self.d.clip_threshold
            limited = clamp(total, -clip, clip) if self.d.use_clip_threshold else total
            return self.function(1 if place == CELL else 0, r, limited)

        return named(NAMES[place], "trbj", element, i)


@operator("DML_OPERATOR_LSTM", 77, since=FeatureLevel.FL_1_0)
class Lstm(Desc):
    """Computes one layer of long short-term memory, step by step: C' = F * C + i * c and H' = o * h(C').

    X is the step's input; H and C are the states before it. The input gate is i = f(X Wi + H Ri + Pi * C + Wbi + Rbi), the
    forget gate is F = f(X Wf + H Rf + Pf * C + Wbf + Rbf) or, with CoupleInputForget, 1 - i. The cell gate is
    c = g(X Wc + H Rc + Wbc + Rbc), and the output gate o = f(X Wo + H Ro + Po * C' + Wbo + Rbo). ClipThreshold clips the
    arguments of f and g. Only H' and C' are rounded, once at each step.

    BACKWARD goes from a sequence's end to its start. OutputSequence has every H' at its own step. Elements after the end of
    a sequence are 0.
    """

    input_tensor: TensorDesc = field.input("InputTensor", INPUT)
    weight_tensor: TensorDesc = field.input(
        "WeightTensor", "The weights W of gates i, o, f, c, {1, num_directions, 4 * hidden_size, input_size}."
    )
    recurrence_tensor: TensorDesc = field.input(
        "RecurrenceTensor", "The weights R of gates i, o, f, c, {1, num_directions, 4 * hidden_size, hidden_size}."
    )
    bias_tensor: TensorDesc | None = field.input(
        "BiasTensor", "Wb of gates i, o, f, c, and Rb of them, {1, 1, num_directions, 8 * hidden_size}.", default=None
    )
    hidden_init_tensor: TensorDesc | None = field.input("HiddenInitTensor", HIDDEN_INIT, default=None)
    cell_mem_init_tensor: TensorDesc | None = field.input(
        "CellMemInitTensor", "C before the first step, {1, num_directions, batch_size, hidden_size}; 0 if absent.", default=None
    )
    sequence_lengths_tensor: TensorDesc | None = field.input("SequenceLengthsTensor", SEQUENCE_LENGTHS, default=None)
    peephole_tensor: TensorDesc | None = field.input(
        "PeepholeTensor", "The weights P of gates i, o, f, {1, 1, num_directions, 3 * hidden_size}; 0 if absent.", default=None
    )
    output_sequence_tensor: TensorDesc | None = field.output("OutputSequenceTensor", OUTPUT_SEQUENCE, default=None)
    output_single_tensor: TensorDesc | None = field.output("OutputSingleTensor", OUTPUT_SINGLE, default=None)
    output_cell_single_tensor: TensorDesc | None = field.output(
        "OutputCellSingleTensor", "C' of the last step, {1, num_directions, batch_size, hidden_size}.", default=None
    )
    activation_desc_count: int | None = field.count("ActivationDescCount", "Entries of ActivationDescs.", default=None)
    activation_descs: tuple[Desc, ...] = field.attribute(
        "ActivationDescs", field.OPERATOR, "The functions f, g, h of each direction.", sized_by="ActivationDescCount"
    )
    direction: RecurrentNetworkDirection = field.attribute(
        "Direction",
        field.RECURRENT_NETWORK_DIRECTION,
        DIRECTION,
        default=RecurrentNetworkDirection.FORWARD,
    )
    clip_threshold: float = field.attribute("ClipThreshold", field.FLOAT, "The largest magnitude.", default=0.0)
    use_clip_threshold: bool = field.attribute(
        "UseClipThreshold", field.BOOL, "Whether ClipThreshold is applied.", default=False
    )
    couple_input_forget: bool = field.attribute(
        "CoupleInputForget", field.BOOL, "Whether the forget gate F is 1 - i.", default=False
    )

    eager = defaults(
        activation_descs=(
            "SIGMOID, TANH, TANH for each direction",
            lambda d: (ActivationSigmoid(), ActivationTanh(), ActivationTanh()) * d.weight_tensor.sizes[1],
        )
    )

    rows = (
        support("1_0", f"{FLOAT_INPUTS} {FLOAT_OUTPUTS}", (4, 4), FLOATS),
        support("1_0", "SequenceLengthsTensor", (4, 4), (DataType.UINT32,)),
    )
    same = same("DataType", f"{FLOAT_INPUTS} {FLOAT_OUTPUTS}")

    recurrent = recurrent_rules(
        4,
        "f g h",
        rows={"BiasTensor": 8, "PeepholeTensor": 3},
        states="HiddenInitTensor CellMemInitTensor OutputSingleTensor OutputCellSingleTensor",
        outputs=FLOAT_OUTPUTS,
    )

    @constraint("`ClipThreshold` must be at least 0 where `UseClipThreshold` is TRUE.")
    def clip_threshold_not_negative(d) -> bool:
        return not d.use_clip_threshold or d.clip_threshold >= 0

    fusable = fusable_activation("ActivationDescs", each=True)
    not_owned = not_owned(f"{FLOAT_INPUTS} SequenceLengthsTensor")

    outputs = recurrent_outputs(FLOAT_OUTPUTS)

    def statement(d, *inputs: Any) -> tuple[Nest, Nest, Nest]:
        layer = Layer(d, *inputs)
        cells, states = stored("C H", layer.sizes, d.input_tensor.data_type, layer.step)
        return layer.at_every_step(states), layer.at_end(states), layer.at_end(cells)

    examples = (
        example("Two steps", (0.20835685, 0.39145183), 0.70732635),
        example("Input and forget gates coupled", (0.19363164, 0.33768794), 0.58789754, couple_input_forget=True),
        example(
            "The clip applies to the gates, and not to C'", (0.20407704, 0.28758928), 0.49987772,
            clip_threshold=0.5, use_clip_threshold=True,
        ),
        example("A sequence of one step: 0 beyond it", (0.20835685, 0), 0.37951285, 1),
    )  # fmt: skip
    rejecting = (
        rejects("input_sizes", input_tensor=float32(2, 2, 1, 1)),
        rejects("recurrence_sizes", recurrence_tensor=float32(1, 1, 5, 1)),
        rejects("activation_descs_counted", activation_descs=ACTIVATIONS[:2]),
        rejects("clip_threshold_not_negative", clip_threshold=-0.5, use_clip_threshold=True),
        rejects("activation_descs_without_tensors",
                activation_descs=(ActivationTanh(input_tensor=STATE, output_tensor=STATE), *ACTIVATIONS[1:])),
    )  # fmt: skip
    errata = (
        *RECURRENT_ERRATA,
        "The page says that the clip applies to the input of activations; h is applied to C' as it is, as in onnxruntime "
        "(our decision).",
        "The page does not say that an output must be there, nor that ClipThreshold is not negative (our decision).",
    )
