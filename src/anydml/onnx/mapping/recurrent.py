"""Recurrent networks: LSTM, GRU and RNN, whose gates have the same order in DirectML and ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml import operators
from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, reshape, transpose

DIRECTIONS = {"forward": "FORWARD", "reverse": "BACKWARD", "bidirectional": "BIDIRECTIONAL"}
ACTIVATIONS = {  # ONNX's names, in lower case; DirectML's; ONNX's defaults of alpha and beta
    "affine": ("ACTIVATION_LINEAR", (1.0, 0.0)),
    "elu": ("ACTIVATION_ELU", (1.0,)),
    "hardsigmoid": ("ACTIVATION_HARD_SIGMOID", (0.2, 0.5)),
    "leakyrelu": ("ACTIVATION_LEAKY_RELU", (0.01,)),
    "relu": ("ACTIVATION_RELU", ()),
    "scaledtanh": ("ACTIVATION_SCALED_TANH", (1.0, 1.0)),
    "sigmoid": ("ACTIVATION_SIGMOID", ()),
    "softplus": ("ACTIVATION_SOFTPLUS", ()),
    "softsign": ("ACTIVATION_SOFTSIGN", ()),
    "tanh": ("ACTIVATION_TANH", ()),
    "thresholdedrelu": ("ACTIVATION_THRESHOLDED_RELU", (1.0,)),
}


def activations(n: Node, defaults: Sequence[str], directions: int) -> list[Any]:
    """The descs of a network's functions in each direction. Those with parameters take the next alphas and betas, in order."""
    names = n.get("activations") or [*defaults] * directions
    if len(names) != len(defaults) * directions:
        raise Refused(f"it has {len(names)} activations, and must have {len(defaults) * directions}", INVALID)
    given = {"alpha": iter(n.get("activation_alpha", ())), "beta": iter(n.get("activation_beta", ()))}
    found = []
    for name in names:
        if name.lower() not in ACTIVATIONS:
            raise Refused(f"there is no activation {name!r}", INVALID)
        operator, values = ACTIVATIONS[name.lower()]
        cls: Any = operators.find(operator)
        takes = zip(("alpha", "beta"), values, strict=False)
        attributes = {attribute: next(given[attribute], default) for attribute, default in takes}
        found.append(cls(**attributes, **({"steepness": 1.0} if operator == "ACTIVATION_SOFTPLUS" else {})))
    return found


def recurrent(name: str, gates: int, functions: Sequence[str]) -> Callable[..., Any]:
    """The mapping of an RNN, GRU or LSTM: the operator's name, its number of gates, and its default activations."""

    def mapping(
        n: Node, x: Value, w: Value, r: Value, b: Value = None, lengths: Value = None, hidden: Value = None,
        cell: Value = None, peephole: Value = None,
    ) -> Any:  # fmt: skip
        network = getattr(dml, name, None)
        if network is None:
            raise Refused(name.upper(), NOT_YET)
        direction = n.get("direction", "forward")
        if direction not in DIRECTIONS:
            raise Refused(f"there is no direction {direction!r}", INVALID)
        by_batch = n.get("layout", 0)
        if by_batch:
            x = transpose(x, (1, 0, 2))
            hidden, cell = (None if v is None else transpose(v, (1, 0, 2)) for v in (hidden, cell))
        arguments: dict[str, Any] = dict(
            bias=None if b is None else reshape(b, (1, 1, *b.shape)),
            hidden_init=_four(hidden),
            sequence_lengths=None if lengths is None else reshape(lengths.view(np.uint32), (1, 1, 1, lengths.shape[0])),
            activation_descs=activations(n, functions, w.shape[0]),
            direction=DIRECTIONS[direction],
        )
        if gates == 4:
            arguments |= dict(
                cell_mem_init=_four(cell),
                peephole=None if peephole is None else reshape(peephole, (1, 1, *peephole.shape)),
                couple_input_forget=bool(n.get("input_forget", 0)),
            )
        if gates == 3:
            arguments["linear_before_reset"] = bool(n.get("linear_before_reset", 0))
        if (limit := n.get("clip")) is not None:
            if gates != 4:
                raise Refused(f"it has clip, and DirectML's {name.upper()} does not clip")
            arguments |= dict(clip_threshold=limit, use_clip_threshold=True)
        found = network(_four(x), _four(w), _four(r), **arguments)
        sequence, *last = found
        last = [reshape(v, v.shape[1:]) for v in last]
        if by_batch:
            sequence, last = transpose(sequence, (2, 0, 1, 3)), [transpose(v, (1, 0, 2)) for v in last]
        return [sequence, *last]

    return mapping


def _four(x: Value) -> Value:
    return None if x is None else reshape(x, (1, *x.shape))


def dynamic_quantize_lstm(
    n: Node, x: Value, w: Value, r: Value, b: Value, lengths: Value, hidden: Value, cell: Value, peephole: Value,
    w_scale: Value, w_zero: Value, r_scale: Value, r_zero: Value,
) -> Any:  # fmt: skip
    """onnxruntime's DynamicQuantizeLSTM: LSTM with dequantized weights {directions, inputs, gates}, which are transposed.

    The inputs of the gates are not quantised: the definition does not require it. onnxruntime quantises them at each step.
    """

    def real(v: Value, scale: Value, zero: Value) -> Value:
        by = (v.shape[0], 1, v.shape[2] if scale.ndim == 2 else 1)
        return transpose(dml.element_wise_dequantize_linear(v, reshape(scale, by), reshape(zero, by)), (0, 2, 1))

    mapped = recurrent("lstm", 4, ("Sigmoid", "Tanh", "Tanh"))
    return mapped(n, x, real(w, w_scale, w_zero), real(r, r_scale, r_zero), b, lengths, hidden, cell, peephole)


TABLE: dict[str, Callable[..., Any]] = {
    "com.microsoft.DynamicQuantizeLSTM": dynamic_quantize_lstm,
    "GRU": recurrent("gru", 3, ("Sigmoid", "Tanh")),
    "LSTM": recurrent("lstm", 4, ("Sigmoid", "Tanh", "Tanh")),
    "RNN": recurrent("rnn", 1, ("Tanh",)),
}
