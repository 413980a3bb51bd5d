"""LSTM. H and C of each step are rounded and stored before they are used again; nothing else is rounded."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from .activation import Attributes, Inputs, Outputs, Results, activation, clip
from .arithmetic import add, multiply, negative, subtract
from .numbers import ONE, Value, exact, rounded, stored, values
from .sums import Scaled, products, scale


def lstm(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x = inputs["input_tensor"]
    _, sequence, batches, _ = x.shape
    _, directions, _, hidden = inputs["recurrence_tensor"].shape
    lengths = [sequence] * batches
    if (given := inputs.get("sequence_lengths_tensor")) is not None:
        lengths = [min(length, sequence) for length in given.ravel().tolist()]
    every: Any = np.zeros((sequence, directions, batches, hidden), object)
    last: Any = np.zeros((1, directions, batches, hidden), object)
    cell: Any = np.zeros((1, directions, batches, hidden), object)
    every[...] = last[...] = cell[...] = 0.0
    for direction in range(directions):
        backward = attributes["direction"] == "BACKWARD" or direction == 1
        one = Direction(attributes, inputs, direction)
        for batch, length in enumerate(lengths):
            h, c = one.initial(batch)
            for t in range(length)[:: -1 if backward else 1]:
                h, c = one.step(x[0, t, batch], h, c)
                every[t, direction, batch] = h
                last[0, direction, batch], cell[0, direction, batch] = h, c
    named = {"output_sequence_tensor": every, "output_single_tensor": last, "output_cell_single_tensor": cell}
    return {name: stored(named[name].ravel().tolist(), *outputs[name]) for name in outputs}


class Direction:
    """The weights of one direction, and its steps. Gates are in the order i, o, f, c."""

    def __init__(self, attributes: Attributes, inputs: Inputs, direction: int) -> None:
        self.dtype = inputs["input_tensor"].dtype
        self.hidden = inputs["recurrence_tensor"].shape[3]
        self.weight = scale(inputs["weight_tensor"][0, direction])
        self.recurrence = scale(inputs["recurrence_tensor"][0, direction])
        bias, peephole = inputs.get("bias_tensor"), inputs.get("peephole_tensor")
        self.bias = None if bias is None else values(bias[0, 0, direction])
        self.peephole = None if peephole is None else values(peephole[0, 0, direction])
        self.h, self.c = (
            None if (tensor := inputs.get(name)) is None else [values(row) for row in tensor[0, direction]]
            for name in ("hidden_init_tensor", "cell_mem_init_tensor")
        )
        self.f, self.g, self.last = map(activation, attributes["activation_descs"][3 * direction : 3 * direction + 3])
        self.couple = attributes.get("couple_input_forget", False)
        self.clip = exact(attributes["clip_threshold"]) if attributes.get("use_clip_threshold") else None

    def initial(self, batch: int) -> tuple[list[Value], list[Value]]:
        zeros: list[Value] = [0.0] * self.hidden
        return (zeros if self.h is None else self.h[batch]), (zeros if self.c is None else self.c[batch])

    def step(self, x: Any, h: list[Value], c: list[Value]) -> tuple[list[Value], list[Value]]:
        from_x = products(row(scale(x)), self.weight)
        from_h = products(row(scale(stored(h, (self.hidden,), self.dtype))), self.recurrence)
        after = [self.unit(j, from_x, from_h, c[j]) for j in range(self.hidden)]
        return [h for h, _ in after], [c for _, c in after]

    def unit(self, j: int, from_x: list[Value], from_h: list[Value], c: Value) -> tuple[Value, Value]:
        def gate(number: int, peephole: int | None = None, seen: Value = None) -> Value:
            at = number * self.hidden + j
            terms = [from_x[at], from_h[at]]
            if self.peephole is not None and peephole is not None:
                terms.append(multiply(self.peephole[peephole * self.hidden + j], seen))
            if self.bias is not None:
                terms += [self.bias[at], self.bias[at + 4 * self.hidden]]
            total = reduce(add, terms)
            return total if self.clip is None else clip(total, negative(self.clip), self.clip)

        i = self.f(gate(0, 0, c))
        forget = subtract(ONE, i) if self.couple else self.f(gate(2, 2, c))
        after = rounded(add(multiply(forget, c), multiply(i, self.g(gate(3)))), self.dtype)
        o = self.f(gate(1, 1, after))
        return rounded(multiply(o, self.last(after)), self.dtype), after


def row(vector: Scaled) -> Scaled:
    return vector.reshape(1, -1)


OPERATORS = {"LSTM": lstm}
