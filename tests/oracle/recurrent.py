"""RNN and GRU. H of each step is rounded and stored before it is used again; nothing else is rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any

import numpy as np

from .activation import Attributes, Inputs, Outputs, Results, activation
from .arithmetic import add, multiply, subtract
from .normalization import applied
from .numbers import ONE, Value, rounded, stored, values

Step = Callable[[list[Value], list[Value]], list[Value]]  # from the step's input and the previous H to H


def layer(make: Callable[..., Step], attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x = inputs["input_tensor"]
    _, sequence, batches, _ = x.shape
    _, directions, _, hidden = inputs["recurrence_tensor"].shape
    lengths = [sequence] * batches
    if (given := inputs.get("sequence_lengths_tensor")) is not None:
        lengths = [min(length, sequence) for length in given.ravel().tolist()]
    every: Any = np.zeros((sequence, directions, batches, hidden), object)
    last: Any = np.zeros((1, directions, batches, hidden), object)
    every[...] = last[...] = 0.0
    start = inputs.get("hidden_init_tensor")
    for direction in range(directions):
        backward = attributes["direction"] == "BACKWARD" or direction == 1
        step = make(attributes, inputs, direction)
        for batch, length in enumerate(lengths):
            h: list[Value] = [0.0] * hidden if start is None else values(start[0, direction, batch])
            for t in range(length)[:: -1 if backward else 1]:
                h = [rounded(value, x.dtype) for value in step(values(x[0, t, batch]), h)]
                every[t, direction, batch] = last[0, direction, batch] = h
    named = {"output_sequence_tensor": every, "output_single_tensor": last}
    return {name: stored(named[name].ravel().tolist(), *outputs[name]) for name in outputs}


def dot(a: Iterable[Value], b: Iterable[Value]) -> Value:
    return reduce(add, map(multiply, a, b))


class Weights:
    """The weights of a direction by gate and unit, as functions that return the terms of a gate, without absent inputs."""

    def __init__(self, inputs: Inputs, direction: int, functions: Iterable[Any]) -> None:
        self.hidden = inputs["recurrence_tensor"].shape[3]
        self.weight, self.recurrence = (
            [values(row) for row in inputs[name][0, direction]] for name in ("weight_tensor", "recurrence_tensor")
        )
        bias = inputs.get("bias_tensor")
        self.bias = None if bias is None else values(bias[0, 0, direction])
        self.functions = [partial(applied, activation(desc)) for desc in functions]

    def biases(self, at: int, halves: Iterable[int] = (0, 1)) -> list[Value]:
        """Wb and Rb for a row of the weights."""
        return [] if self.bias is None else [self.bias[at + half * len(self.weight)] for half in halves]

    def gate(self, number: int, j: int, x: list[Value], h: list[Value]) -> Value:
        at = number * self.hidden + j
        return reduce(add, [dot(x, self.weight[at]), dot(h, self.recurrence[at]), *self.biases(at)])


def rnn(attributes: Attributes, inputs: Inputs, direction: int) -> Step:
    one = Weights(inputs, direction, [attributes["activation_descs"][direction]])
    (f,) = one.functions
    return lambda x, h: [f(one.gate(0, j, x, h)) for j in range(one.hidden)]


def gru(attributes: Attributes, inputs: Inputs, direction: int) -> Step:
    one = Weights(inputs, direction, attributes["activation_descs"][2 * direction : 2 * direction + 2])
    f, g = one.functions

    def step(x: list[Value], h: list[Value]) -> list[Value]:
        z, r = ([f(one.gate(number, j, x, h)) for j in range(one.hidden)] for number in range(2))
        left = list(map(multiply, r, h))
        found = []
        for j in range(one.hidden):
            at = 2 * one.hidden + j
            if attributes["linear_before_reset"]:
                fed = reduce(add, [dot(h, one.recurrence[at]), *one.biases(at, [1])])
                terms = [dot(x, one.weight[at]), *one.biases(at, [0]), multiply(r[j], fed)]
            else:
                terms = [dot(x, one.weight[at]), dot(left, one.recurrence[at]), *one.biases(at)]
            candidate = g(reduce(add, terms))
            found.append(add(multiply(subtract(ONE, z[j]), candidate), multiply(z[j], h[j])))
        return found

    return step


OPERATORS = {"RNN": partial(layer, rnn), "GRU": partial(layer, gru)}
