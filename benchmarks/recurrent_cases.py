"""Recurrent networks, timed together with onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.rest_cases import Call, Case, floats

STEPS, WIDTH, HIDDEN = 64, 256, 256
SIGMOID, TANH = dml.ActivationSigmoid(), dml.ActivationTanh()
ACTIVATIONS = {"LSTM": (SIGMOID, TANH, TANH), "GRU": (SIGMOID, TANH)}


def _torch(torch: Any, inputs: Sequence[Any], _: Any) -> Call:
    """torch's LSTM, whose gates are in the order i, f, c, o."""
    x, *weights, bias = (tensor[0] for tensor in inputs)
    module = torch.nn.LSTM(WIDTH, HIDDEN).eval()

    def call() -> None:
        with torch.inference_mode():
            module(x)

    with torch.no_grad():
        for own, given in zip(module.parameters(), (*weights, *bias.reshape(2, -1)), strict=True):
            own.copy_(given.reshape(4, HIDDEN, -1)[[0, 2, 3, 1]].reshape(own.shape))
    return call


def cases() -> Iterator[Case]:
    for name, gates in (("LSTM", 4), ("GRU", 3)):
        weights = [floats(1, gates * HIDDEN, n) / np.float32(np.sqrt(n)) for n in (WIDTH, HIDDEN)]
        bias = floats(1, 2 * gates * HIDDEN) / 16
        for batch in (1, 16):
            x = floats(1, STEPS, batch, WIDTH)
            last = np.empty((1, 1, batch, HIDDEN), np.float32)
            outputs = {"output_sequence_tensor": np.empty((STEPS, 1, batch, HIDDEN), np.float32), "output_single_tensor": last}
            if name == "LSTM":
                outputs["output_cell_single_tensor"] = np.empty_like(last)
            sequence, *states = outputs.values()
            yield Case(
                f"{name}, {STEPS} steps of {batch} x {WIDTH}",
                name,
                {
                    "input_tensor": x,
                    "weight_tensor": weights[0][None],
                    "recurrence_tensor": weights[1][None],
                    "bias_tensor": bias[None, None],
                },
                outputs,
                dict(activation_descs=ACTIVATIONS[name], direction="FORWARD"),
                (name, [*weights, bias], {"hidden_size": HIDDEN}),
                _torch if name == "LSTM" else None,  # torch's GRU is a different one
                first=x[0],  # torch's sequence has no leading dimension of 1
                made=[sequence, *(y[0] for y in states)],
            )
