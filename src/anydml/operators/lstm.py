"""DML_OPERATOR_LSTM: one layer of long short-term memory.

Source: ns-directml-dml_lstm_operator_desc. Its equations are those of ONNX's LSTM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.feature_level import FeatureLevel
from anydml.operators.activation_sigmoid import ActivationSigmoid
from anydml.operators.activation_tanh import ActivationTanh
from anydml.schema import field
from anydml.schema.constraint import constraint
from anydml.schema.enumerations import RecurrentNetworkDirection
from anydml.schema.expression import (
    Expr,
    Indices,
    Operand,
    Sum,
    Tensor,
    clamp,
    each,
    equal,
    index,
    minimum,
    select,
)
from anydml.schema.operator import Desc, Example, Outputs, defaults, operator, rejects
from anydml.schema.rules import fusable_activation, not_owned, same, sizes_are
from anydml.schema.statement import Nest, activated, nest, stored
from anydml.schema.support import support
from anydml.schema.types import FLOATS
from anydml.tensor import DataType, TensorDesc

FLOAT_INPUTS = "InputTensor WeightTensor RecurrenceTensor BiasTensor HiddenInitTensor CellMemInitTensor PeepholeTensor"
FLOAT_OUTPUTS = "OutputSequenceTensor OutputSingleTensor OutputCellSingleTensor"
FORWARD, BACKWARD, BIDIRECTIONAL = RecurrentNetworkDirection
INPUT, OUTPUT, FORGET, CELL = range(4)  # the order of the gates in weights and biases; peepholes have the first three
HIDDEN = "where hidden is the last of `RecurrenceTensor.Sizes`"


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


def directions(d: Any) -> int:
    return 2 if d.direction == BIDIRECTIONAL else 1


def hidden(d: Any) -> int:
    size: int = d.recurrence_tensor.sizes[3]
    return size


def state_sizes(d: Any, first: int = 1) -> tuple[int, ...]:
    return first, directions(d), d.input_tensor.sizes[2], hidden(d)


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


class Layer(NamedTuple):
    """The equations of an LSTM over its desc and tensors. t: a step, r: a direction, b: a sequence of the batch, j: a unit."""

    d: Any
    x: Tensor
    weight: Tensor
    recurrence: Tensor
    bias: Tensor | None
    hidden_init: Tensor | None
    cell_init: Tensor | None
    lengths: Tensor | None
    peephole: Tensor | None

    @property
    def sizes(self) -> tuple[Any, ...]:
        return self.x.sizes[1], self.recurrence.sizes[1], self.x.sizes[2], self.recurrence.sizes[3]

    def step(self, i: Indices, cells: Tensor, states: Tensor) -> tuple[Expr, Expr]:
        t, r, b, _ = i
        old = select(t > 0, *self.before(cells, self.cell_init, i))
        new_gate = self.gate(INPUT, i, states, old)
        forget = 1 - new_gate if self.d.couple_input_forget else self.gate(FORGET, i, states, old)
        cell = forget * old + new_gate * self.gate(CELL, i, states)
        hidden = self.gate(OUTPUT, i, states, cells[i]) * self.function(2, r, cells[i])
        return self.within(t, b, cell), self.within(t, b, hidden)

    def gate(self, place: int, i: Indices, states: Tensor, cell: Expr | None = None) -> Expr:
        t, r, b, j = i
        at = place * self.sizes[3] + j
        (k,), (u,) = read, fed = each(self.x.sizes[3:], "k"), each(self.sizes[3:], "u")
        total = Sum(read, self.x[0, self.at_step(t, r, b), b, k] * self.weight[0, r, at, k])
        before = self.before(states, self.hidden_init, (t, r, b, u))
        later, first = (Sum(fed, h * self.recurrence[0, r, at, u]) for h in before)
        total += select(t > 0, later, first)
        if self.peephole is not None and cell is not None:
            total += self.peephole[0, 0, r, at] * cell
        if self.bias is not None:
            total += self.bias[0, 0, r, at] + self.bias[0, 0, r, at + 4 * self.sizes[3]]
        clip = self.d.clip_threshold
        return self.function(1 if place == CELL else 0, r, clamp(total, -clip, clip) if self.d.use_clip_threshold else total)

    def before(self, states: Tensor, start: Tensor | None, i: Sequence[Expr]) -> tuple[Expr, Operand]:
        """A state after the step before, and before all steps."""
        t, r, b, j = i
        return states[t - 1, r, b, j], 0 if start is None else start[0, r, b, j]

    def function(self, place: int, r: Expr, x: Expr) -> Expr:
        forward, *backward = (activated(a, x) for a in self.d.activation_descs[place::3])
        return select(equal(r, 0), forward, backward[0]) if backward else forward

    def length(self, b: Expr) -> Any:
        """The steps of a sequence: an index, or a size where all have the same."""
        return self.sizes[0] if self.lengths is None else minimum(index(self.lengths[0, 0, 0, b]), self.sizes[0])

    def within(self, t: Expr, b: Expr, value: Expr) -> Expr:
        """A value of a step where the sequence has that step; 0 beyond."""
        return value if self.lengths is None else select(t < self.length(b), value, 0)

    def at_step(self, t: Expr, r: Expr, b: Expr) -> Expr:
        """The place of a step's input; and the step that a place is reached at."""
        backward = self.length(b) - 1 - t
        chosen: dict[Any, Expr] = {FORWARD: t, BACKWARD: backward, BIDIRECTIONAL: select(equal(r, 0), t, backward)}
        return chosen[self.d.direction]

    def at_end(self, states: Tensor, last: Indices) -> Expr:
        _, r, b, j = last
        value = states[self.length(b) - 1, r, b, j]
        return value if self.lengths is None else select(self.length(b) > 0, value, 0)


@operator("DML_OPERATOR_LSTM", 77, since=FeatureLevel.FL_1_0)
class Lstm(Desc):
    """Computes one layer of long short-term memory, step by step: C' = F * C + i * c and H' = o * h(C').

    With X the step's input, i = f(X Wi + H Ri + Pi * C + Wbi + Rbi), F likewise, c = g(X Wc + H Rc + Wbc + Rbc), and
    o = f(X Wo + H Ro + Po * C' + Wbo + Rbo). CoupleInputForget makes F = 1 - i. ClipThreshold clips what f and g are
    applied to. H' and C' are rounded at each step, and nothing else is. BACKWARD goes from a sequence's end to its start,
    and every H' stands in OutputSequence at its own step; what lies beyond a sequence's length is 0.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The sequences X, {1, seq_length, batch_size, input_size}.")
    weight_tensor: TensorDesc = field.input(
        "WeightTensor", "The weights W of gates i, o, f, c, {1, num_directions, 4 * hidden_size, input_size}."
    )
    recurrence_tensor: TensorDesc = field.input(
        "RecurrenceTensor", "The weights R of gates i, o, f, c, {1, num_directions, 4 * hidden_size, hidden_size}."
    )
    bias_tensor: TensorDesc | None = field.input(
        "BiasTensor", "Wb of gates i, o, f, c, and Rb of them, {1, 1, num_directions, 8 * hidden_size}.", default=None
    )
    hidden_init_tensor: TensorDesc | None = field.input(
        "HiddenInitTensor", "H before the first step, {1, num_directions, batch_size, hidden_size}; absent, 0.", default=None
    )
    cell_mem_init_tensor: TensorDesc | None = field.input(
        "CellMemInitTensor", "C before the first step, {1, num_directions, batch_size, hidden_size}; absent, 0.", default=None
    )
    sequence_lengths_tensor: TensorDesc | None = field.input(
        "SequenceLengthsTensor", "How many steps each sequence has, {1, 1, 1, batch_size}; absent, all.", default=None
    )
    peephole_tensor: TensorDesc | None = field.input(
        "PeepholeTensor", "The weights P of gates i, o, f, {1, 1, num_directions, 3 * hidden_size}; absent, 0.", default=None
    )
    output_sequence_tensor: TensorDesc | None = field.output(
        "OutputSequenceTensor", "H' of every step, {seq_length, num_directions, batch_size, hidden_size}.", default=None
    )
    output_single_tensor: TensorDesc | None = field.output(
        "OutputSingleTensor", "H' of the last step, {1, num_directions, batch_size, hidden_size}.", default=None
    )
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
        "FORWARD, BACKWARD, or BIDIRECTIONAL: forward, then backward.",
        default=RecurrentNetworkDirection.FORWARD,
    )
    clip_threshold: float = field.attribute("ClipThreshold", field.FLOAT, "The limit of magnitudes.", default=0.0)
    use_clip_threshold: bool = field.attribute("UseClipThreshold", field.BOOL, "Whether it limits.", default=False)
    couple_input_forget: bool = field.attribute("CoupleInputForget", field.BOOL, "Whether F is 1 - i.", default=False)

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

    @constraint("`InputTensor.Sizes` must begin with 1.")
    def input_sizes(d) -> bool:
        return d.input_tensor.sizes[0] == 1

    recurrence_sizes = sizes_are(
        "RecurrenceTensor",
        "`RecurrenceTensor.Sizes` must be {1, directions, 4 * hidden, hidden}, with 2 directions where `Direction` is "
        "BIDIRECTIONAL, else 1.",
        lambda d: (1, directions(d), 4 * hidden(d), hidden(d)),
    )
    weight_sizes = sizes_are(
        "WeightTensor",
        "`WeightTensor.Sizes` must be {1, the directions of `Direction`, 4 * hidden, the last of `InputTensor.Sizes`}, "
        + HIDDEN
        + ".",
        lambda d: (1, directions(d), 4 * hidden(d), d.input_tensor.sizes[3]),
    )
    bias_sizes, peephole_sizes = (
        sizes_are(
            wire,
            f"`{wire}.Sizes` must be {{1, 1, the directions of `Direction`, {count} * hidden}}, {HIDDEN}.",
            lambda d, count=count: (1, 1, directions(d), count * hidden(d)),  # type: ignore[misc]  # d is any desc
        )
        for wire, count in (("BiasTensor", 8), ("PeepholeTensor", 3))
    )
    sequence_lengths_sizes = sizes_are(
        "SequenceLengthsTensor",
        "`SequenceLengthsTensor.Sizes` must be {1, 1, 1, the third of `InputTensor.Sizes`}: a length for each sequence.",
        lambda d: (1, 1, 1, d.input_tensor.sizes[2]),
    )
    hidden_init_sizes, cell_mem_init_sizes, output_single_sizes, output_cell_single_sizes = (
        sizes_are(
            wire,
            f"`{wire}.Sizes` must be {{1, the directions of `Direction`, the third of `InputTensor.Sizes`, hidden}}, {HIDDEN}.",
            state_sizes,
        )
        for wire in ("HiddenInitTensor", "CellMemInitTensor", "OutputSingleTensor", "OutputCellSingleTensor")
    )
    output_sequence_sizes = sizes_are(
        "OutputSequenceTensor",
        "`OutputSequenceTensor.Sizes` must be {the second of `InputTensor.Sizes`, the directions of `Direction`, "
        f"the third of `InputTensor.Sizes`, hidden}}, {HIDDEN}.",
        lambda d: state_sizes(d, d.input_tensor.sizes[1]),
    )

    @constraint(
        "One of `OutputSequenceTensor`, `OutputSingleTensor` and `OutputCellSingleTensor` must be there.",
        breaks=lambda d: dict.fromkeys(("output_sequence_tensor", "output_single_tensor", "output_cell_single_tensor")),
    )
    def an_output_present(d) -> bool:
        present = (d.output_sequence_tensor, d.output_single_tensor, d.output_cell_single_tensor)
        return any(t is not None for t in present)

    @constraint(
        "`ActivationDescCount` must be 3, or 6 where `Direction` is BIDIRECTIONAL: f, g and h of each direction.",
        expected=lambda d: {"ActivationDescCount": 3 * directions(d)},
        breaks=lambda d: {"activation_desc_count": 2, "activation_descs": d.activation_descs[:2]},
    )
    def activation_count(d) -> bool:
        return d.activation_desc_count == 3 * directions(d)

    @constraint("`ClipThreshold` must be at least 0 where `UseClipThreshold` is TRUE.")
    def clip_threshold_not_negative(d) -> bool:
        return not d.use_clip_threshold or d.clip_threshold >= 0

    fusable = fusable_activation("ActivationDescs", each=True)
    not_owned = not_owned(f"{FLOAT_INPUTS} SequenceLengthsTensor")

    def outputs(d) -> Outputs:
        one, data_type = state_sizes(d), d.input_tensor.data_type
        return {
            "output_sequence_tensor": (state_sizes(d, d.input_tensor.sizes[1]), data_type),
            "output_single_tensor": (one, data_type),
            "output_cell_single_tensor": (one, data_type),
        }

    def statement(d, *inputs: Any) -> tuple[Nest, Nest, Nest]:
        layer = Layer(d, *inputs)
        cells, states = stored("C H", layer.sizes, d.input_tensor.data_type, layer.step)
        (t, r, b, j), last = every, _ = each(layer.sizes), each((1, *layer.sizes[1:]))
        sequence = states[layer.at_step(t, r, b), r, b, j]
        return (
            nest(every, layer.within(t, b, sequence)),
            nest(last, layer.at_end(states, last)),
            nest(last, layer.at_end(cells, last)),
        )

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
        "The page's equations are images; those of ONNX stand here.",
        "The page says that the clip applies to the input of activations; h is applied to C' as it is, as in onnxruntime "
        "(our decision).",
        "The page does not say what lies beyond a sequence's length, nor what a length of 0 gives: 0 (our decision, as in "
        "ONNX). A length beyond the longest counts as that.",
        "The page does not say that an output must be there, nor that ClipThreshold is not negative (our decision).",
        "The page does not say which activations are legal: those that can be fused (our decision).",
        "The page prints Direction as a pointer; it is a value.",
    )
