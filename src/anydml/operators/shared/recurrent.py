"""Recurrent networks of one layer: the field meanings, rules, output sizes and shared equations of RNN, GRU and LSTM.

A desc has InputTensor, {1, seq_length, batch_size, input_size}, the weights of all gates one after another, and a Direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anydml.schema.constraint import Constraint
from anydml.schema.enumerations import RecurrentNetworkDirection
from anydml.schema.expression import Sum, Tensor, each, equal, index, minimum, select
from anydml.schema.node import Expr, Operand
from anydml.schema.operator import Outputs
from anydml.schema.rules import sizes_are
from anydml.schema.statement import Nest, activated, nest
from anydml.spelling import snake_case
from anydml.tensor import DataType, TensorDesc

INPUT = "The sequences X, {1, seq_length, batch_size, input_size}."
HIDDEN_INIT = "H before the first step, {1, num_directions, batch_size, hidden_size}; 0 if absent."
SEQUENCE_LENGTHS = "The number of steps of each sequence, {1, 1, 1, batch_size}; if absent, all."
OUTPUT_SEQUENCE = "H' of every step, {seq_length, num_directions, batch_size, hidden_size}."
OUTPUT_SINGLE = "H' of the last step, {1, num_directions, batch_size, hidden_size}."
DIRECTION = "FORWARD, BACKWARD, or BIDIRECTIONAL: forward, then backward."

FORWARD, BACKWARD, BIDIRECTIONAL = RecurrentNetworkDirection
HIDDEN = "where hidden is the last of `RecurrenceTensor.Sizes`"

RECURRENT_ERRATA = (
    "The page's equations are images; the formulas here are those of ONNX.",
    "The page does not say what the outputs beyond a sequence's length are, nor what a length of 0 gives: 0 (our decision, as "
    "in ONNX). A length beyond seq_length counts as seq_length.",
    "The page does not say which activations are legal: those that can be fused (our decision).",
    "The page prints Direction as a pointer; it is a value.",
)


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


def directions(d: Any) -> int:
    return 2 if d.direction == BIDIRECTIONAL else 1


def hidden(d: Any) -> int:
    size: int = d.recurrence_tensor.sizes[3]
    return size


def state_sizes(d: Any, first: int = 1) -> tuple[int, ...]:
    return first, directions(d), d.input_tensor.sizes[2], hidden(d)


def recurrent_outputs(outputs: str) -> Callable[[Any], Outputs]:
    """The `outputs` of an operator with these outputs: OutputSequenceTensor, and tensors of one state."""

    def sizes(d: Any) -> Outputs:
        first = {"OutputSequenceTensor": d.input_tensor.sizes[1]}
        return {snake_case(wire): (state_sizes(d, first.get(wire, 1)), d.input_tensor.data_type) for wire in outputs.split()}

    return sizes


# --- rules ---


def _listed(names: Sequence[str], word: str) -> str:
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _times(count: int) -> str:
    return "hidden" if count == 1 else f"{count} * hidden"


def _row(wire: str, count: int) -> Constraint:
    return sizes_are(
        wire,
        f"`{wire}.Sizes` must be {{1, 1, the directions of `Direction`, {_times(count)}}}, {HIDDEN}.",
        lambda d: (1, 1, directions(d), count * hidden(d)),
    )


def _state(wire: str) -> Constraint:
    return sizes_are(
        wire,
        f"`{wire}.Sizes` must be {{1, the directions of `Direction`, the third of `InputTensor.Sizes`, hidden}}, {HIDDEN}.",
        state_sizes,
    )


def recurrent_rules(
    gates: int, functions: str, *, rows: Mapping[str, int], states: str, outputs: str
) -> tuple[Constraint, ...]:
    """The rules of a recurrent network's sizes, activations and outputs.

    gates: their number in its weights. functions: the names of its activations. rows: tensor -> how many times `hidden`
    elements it has for each direction. states: tensors of one H for each direction and sequence. outputs: all outputs. Names
    are separated by blanks.
    """
    named, wires = functions.split(), outputs.split()
    absent = dict.fromkeys(map(snake_case, wires))

    def right_count(d: Any) -> bool:
        return bool(d.activation_desc_count == len(named) * directions(d))

    def one_more(d: Any) -> Mapping[str, Any]:
        descs = (*d.activation_descs, d.activation_descs[-1])
        return {"activation_desc_count": len(descs), "activation_descs": descs}

    return (
        Constraint("input_sizes", "`InputTensor.Sizes` must begin with 1.", lambda d: d.input_tensor.sizes[0] == 1),
        sizes_are(
            "RecurrenceTensor",
            f"`RecurrenceTensor.Sizes` must be {{1, directions, {_times(gates)}, hidden}}, with 2 directions where `Direction` "
            "is BIDIRECTIONAL, else 1.",
            lambda d: (1, directions(d), gates * hidden(d), hidden(d)),
        ),
        sizes_are(
            "WeightTensor",
            f"`WeightTensor.Sizes` must be {{1, the directions of `Direction`, {_times(gates)}, the last of "
            f"`InputTensor.Sizes`}}, {HIDDEN}.",
            lambda d: (1, directions(d), gates * hidden(d), d.input_tensor.sizes[3]),
        ),
        *(_row(wire, count) for wire, count in rows.items()),
        sizes_are(
            "SequenceLengthsTensor",
            "`SequenceLengthsTensor.Sizes` must be {1, 1, 1, the third of `InputTensor.Sizes`}: a length for each sequence.",
            lambda d: (1, 1, 1, d.input_tensor.sizes[2]),
        ),
        *map(_state, states.split()),
        sizes_are(
            "OutputSequenceTensor",
            "`OutputSequenceTensor.Sizes` must be {the second of `InputTensor.Sizes`, the directions of `Direction`, "
            f"the third of `InputTensor.Sizes`, hidden}}, {HIDDEN}.",
            lambda d: state_sizes(d, d.input_tensor.sizes[1]),
        ),
        Constraint(
            "an_output_present",
            f"One of {_listed([f'`{wire}`' for wire in wires], 'and')} must be there.",
            lambda d: {getattr(d, name) for name in absent} != {None},  # reads all, as the sentence says
            breaks=lambda d: absent,
        ),
        Constraint(
            "activation_count",
            f"`ActivationDescCount` must be {len(named)}, or {2 * len(named)} where `Direction` is BIDIRECTIONAL: "
            f"{_listed(named, 'and')} of each direction.",
            right_count,
            expected=lambda d: {"ActivationDescCount": len(named) * directions(d)},
            breaks=one_more,
        ),
    )


# --- statements ---


class Network:
    """Equations that recurrent networks share, on a desc and its tensors.

    In an index, t is a step, r a direction, b a sequence of the batch and j a unit. functions: the number of activations of
    each direction; gates: the number of gates in its weights.
    """

    functions: int
    gates: int

    def __init__(
        self, d: Any, x: Tensor, weight: Tensor, recurrence: Tensor, bias: Tensor | None, hidden_init: Tensor | None,
        lengths: Tensor | None,
    ) -> None:  # fmt: skip
        self.d, self.x, self.weight, self.recurrence, self.bias = d, x, weight, recurrence, bias
        self.hidden_init, self.lengths = hidden_init, lengths

    @property
    def sizes(self) -> tuple[Any, ...]:
        return self.x.sizes[1], self.recurrence.sizes[1], self.x.sizes[2], self.recurrence.sizes[3]

    def at(self, gate: int, j: Expr) -> Expr:
        """The index of a gate's unit in weights and biases."""
        place: Expr = gate * self.sizes[3] + j
        return place

    def of_input(self, gate: int, i: Sequence[Expr]) -> Expr:
        """X W for a gate."""
        t, r, b, j = i
        (k,) = read = each(self.x.sizes[3:], "k")
        return Sum(read, self.x[0, self.at_step(t, r, b), b, k] * self.weight[0, r, self.at(gate, j), k])

    def of_state(
        self, gate: int, i: Sequence[Expr], states: Tensor, factor: Callable[[tuple[Expr, ...]], Expr] | None = None
    ) -> Expr:
        """H R for a gate, with H of the step before; factor: a factor for each unit of H, by its index."""
        t, r, b, j = i
        (u,) = fed = each(self.sizes[3:], "u")
        before = self.before(states, self.hidden_init, (t, r, b, u))
        if factor is not None:
            before = before[0] * factor((t, r, b, u)), factor((t, r, b, u)) * before[1]
        later, first = (Sum(fed, h * self.recurrence[0, r, self.at(gate, j), u]) for h in before)
        return select(t > 0, later, first)

    def biased(self, x: Expr, gate: int, i: Sequence[Expr], halves: Sequence[int] = (0, 1)) -> Expr:
        """A number plus a gate's biases: Wb, the first half, Rb, the second half, or both."""
        if self.bias is None:
            return x
        _, r, _, j = i
        first, *second = (self.bias[0, 0, r, self.at(gate, j) + half * self.gates * self.sizes[3]] for half in halves)
        return x + (first + second[0] if second else first)

    def before(self, states: Tensor, start: Tensor | None, i: Sequence[Expr]) -> tuple[Expr, Operand]:
        """A state after the previous step, and before the first one."""
        t, r, b, j = i
        return states[t - 1, r, b, j], 0 if start is None else start[0, r, b, j]

    def function(self, place: int, r: Expr, x: Expr) -> Expr:
        """An activation of a direction, by its place among that direction's activations."""
        forward, *backward = (activated(a, x) for a in self.d.activation_descs[place :: self.functions])
        return select(equal(r, 0), forward, backward[0]) if backward else forward

    def length(self, b: Expr) -> Any:
        """The number of steps of a sequence: an index, or a size if all sequences have the same."""
        return self.sizes[0] if self.lengths is None else minimum(index(self.lengths[0, 0, 0, b]), self.sizes[0])

    def within(self, t: Expr, b: Expr, value: Expr) -> Expr:
        """The value at a step if the sequence has that step; 0 beyond its end."""
        return value if self.lengths is None else select(t < self.length(b), value, 0)

    def at_step(self, t: Expr, r: Expr, b: Expr) -> Expr:
        """The position of a step's input; also the step at which a position is reached."""
        backward: Expr = self.length(b) - 1 - t
        direction: RecurrentNetworkDirection = self.d.direction
        return {FORWARD: t, BACKWARD: backward, BIDIRECTIONAL: select(equal(r, 0), t, backward)}[direction]

    def at_every_step(self, states: Tensor) -> Nest:
        """A state at every step of the sequences, stored at the position of the step's input."""
        t, r, b, j = every = each(self.sizes)
        return nest(every, self.within(t, b, states[self.at_step(t, r, b), r, b, j]))

    def at_end(self, states: Tensor) -> Nest:
        """A state after the last step of every sequence; 0 for a sequence without steps."""
        _, r, b, j = last = each((1, *self.sizes[1:]))
        value = states[self.length(b) - 1, r, b, j]
        return nest(last, value if self.lengths is None else select(self.length(b) > 0, value, 0))
