"""Recurrent networks: LSTM, GRU and RNN, a node of DirectML for each layer. States are rounded at each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml import operators
from anydml.functional import functions as dml
from anydml.onnx.errors import NOT_YET, Refused
from anydml.onnx.values import Value, gathered, part, reshape, transpose
from anydml.torch.mapping.common import Mapping
from anydml.torch.mapping.shapes import joined
from anydml.torch.read import Node

# DirectML's gates in order, by their places in torch's: input, output, forget, cell; update, reset, candidate
ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
FUNCTIONS = {"lstm": ("SIGMOID", "TANH", "TANH"), "gru": ("SIGMOID", "TANH")}


def recurrent(name: str, function: str = "") -> Mapping:
    """The mapping of a network of several layers. function: that of an RNN."""
    gates = ORDER[name]
    functions = FUNCTIONS.get(name, (function,))

    def mapping(
        n: Node, x: Value, initial: Any, parameters: Sequence[Value], has_biases: bool, layers: int, dropout: Any, train: bool,
        bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        if train and dropout and layers > 1:
            raise Refused("it drops elements at random, in training mode; module.eval() ends it")
        states = initial if isinstance(initial, (list, tuple)) else [initial]
        count = 2 if bidirectional else 1
        each = 4 if has_biases else 2
        if len(parameters) != layers * count * each:
            raise Refused("it has projections of its states (proj_size)", NOT_YET)
        descs: list[Any] = [operators.find(f"ACTIVATION_{f}") for f in functions * count]
        sequence = transpose(x, (1, 0, 2)) if batch_first else x
        last: list[list[Value]] = [[] for _ in states]
        for layer in range(layers):
            at = layer * count
            own = [parameters[(at + i) * each : (at + i + 1) * each] for i in range(count)]
            given: dict[str, Any] = dict(
                hidden_init=_part(states[0], at, count),
                activation_descs=[desc() for desc in descs],
                direction="BIDIRECTIONAL" if bidirectional else "FORWARD",
            )
            if has_biases:
                given["bias"] = _stacked([_in_order(p, gates) for part in own for p in part[2:]], (1, 1, count, -1))
            if name == "lstm":
                given["cell_mem_init"] = _part(states[1], at, count)
            if name == "gru":
                given["linear_before_reset"] = True
            weights = [_stacked([_in_order(part[i], gates) for part in own], None) for i in (0, 1)]
            made, *singles = getattr(dml, name)(reshape(sequence, (1, *sequence.shape)), *weights, **given)
            for held, single in zip(last, singles, strict=True):
                held.append(reshape(single, single.shape[1:]))
            steps, _, batch, size = made.shape  # {steps, directions, batch, size}
            sequence = reshape(transpose(made, (0, 2, 1, 3)), (steps, batch, count * size))
        results = [joined(held, 0, x.dtype) for held in last]
        return [transpose(sequence, (1, 0, 2)) if batch_first else sequence, *results]

    return mapping


def _part(state: Value, at: int, count: int) -> Value:
    own = part(state, [slice(at, at + count)])
    return reshape(own, (1, *own.shape))


def _in_order(parameter: Value, gates: Sequence[int]) -> Value:
    """The rows of a weight or bias with the gates in DirectML's order."""
    if len(gates) == 1:
        return parameter
    size = parameter.shape[0] // len(gates)
    return gathered(parameter, np.concatenate([np.arange(size, dtype=np.int64) + g * size for g in gates]))


def _stacked(parts: Sequence[Value], sizes: Sequence[int] | None) -> Value:
    """The parameters of all directions: weights as {1, directions, rows, columns}, biases one after another."""
    if sizes is None:
        wide = [reshape(one, (1, 1, *one.shape)) for one in parts]
        return joined(wide, 1, wide[0].dtype)
    whole = joined(parts, 0, parts[0].dtype)
    return reshape(whole, (*sizes[:-1], whole.size // sizes[2]))


TABLE: dict[str, Mapping] = {
    "aten.gru.input": recurrent("gru"),
    "aten.lstm.input": recurrent("lstm"),
    "aten.rnn_relu.input": recurrent("rnn", "RELU"),
    "aten.rnn_tanh.input": recurrent("rnn", "TANH"),
}
