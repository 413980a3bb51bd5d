"""Random graphs of functions on arrays, with the results of each call."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml

Array = NDArray[Any]
ONE: tuple[Callable[..., Any], ...] = (
    dml.activation_relu,
    dml.activation_sigmoid,
    dml.activation_gelu,
    dml.element_wise_abs,
    dml.element_wise_exp,
    lambda x: dml.element_wise_clip(x, min=-2.0, max=3.5),
    lambda x: dml.activation_linear(x, 1.25, -0.1),
)
TWO = (dml.element_wise_add, dml.element_wise_subtract, dml.element_wise_multiply, dml.element_wise_max)


class Step(NamedTuple):
    """A call: the function, and the indices of its arguments among all values."""

    function: Callable[..., Any]
    places: tuple[int, ...]


class Net(NamedTuple):
    """Calls on inputs and constants, the arrays of all values, and the indices of the outputs among them."""

    inputs: dict[str, int]
    values: list[Array]
    constants: int
    steps: list[Step]
    outputs: list[int]

    def run(self, **inputs: Any) -> tuple[Any, ...]:
        """The outputs for arrays, or for tensors of a graph."""
        values: list[Any] = [*self.values[: self.constants]]
        for name, place in self.inputs.items():
            values[place] = inputs[name]
        for step in self.steps:
            values.append(step.function(*(values[at] for at in step.places)))
        return tuple(values[at] for at in self.outputs)


def random_net(rng: random.Random) -> Net:
    """Two to nine calls on matrices or images of float32. Values that no call reads are outputs, and sometimes others."""
    data = np.random.default_rng(rng.getrandbits(32))
    images = rng.random() < 0.3
    sizes = (1, 2, rng.choice((4, 5)), 6) if images else (rng.choice((3, 4)), rng.choice((4, 7, 16)))
    values: list[Array] = [data.normal(size=sizes).astype(np.float32) for _ in range(rng.randint(2, 3))]
    count = len(values)
    steps: list[Step] = []
    for _ in range(rng.randint(2, 9)):
        step = _step(rng, values, data)
        values.append(step.function(*(values[at] for at in step.places)))
        steps.append(step)
    read = {at for step in steps for at in step.places}
    inputs = {f"x{k}": k for k in range(count) if k in read and (k == min(read) or rng.random() < 0.7)}
    traced = set(inputs.values())  # the values that depend on inputs; calls of constants alone run while the graph is traced
    for k, step in enumerate(steps):
        if traced & {*step.places}:
            traced.add(count + k)
    made = sorted(traced - {*range(count)})
    outputs = [at for at in made if at not in read] + [at for at in made if at in read and rng.random() < 0.1]
    return Net(inputs, values, count, steps, outputs)


def _step(rng: random.Random, values: list[Array], data: np.random.Generator) -> Step:
    at = rng.randrange(max(0, len(values) - 4), len(values))
    x = values[at]
    if x.dtype != np.float32 or (x.size < 8 and rng.random() < 0.5):
        return Step(lambda x: dml.cast(x, output_data_type="FLOAT32"), (at,)) if x.dtype != np.float32 else Step(ONE[0], (at,))
    alike = [k for k, y in enumerate(values) if y.shape == x.shape and y.dtype == x.dtype]
    kind = rng.random()
    if kind < 0.3:
        return Step(rng.choice(ONE), (at,))
    if kind < 0.6:
        return Step(rng.choice(TWO), (at, rng.choice(alike)))
    return rng.choice(_moves(rng, x, at, alike) + (_images(rng, x, at, data) if x.ndim == 4 else _matrices(x, at, values)))


def _moves(rng: random.Random, x: Array, at: int, alike: list[int]) -> list[Step]:
    axis = rng.randrange(x.ndim)
    offsets = [rng.randrange(n) for n in x.shape]
    windows = [rng.randint(1, n - o) for n, o in zip(x.shape, offsets, strict=True)]
    half = rng.choice(("FLOAT16", "INT32", "UINT8"))
    return [
        Step(lambda x: dml.slice1(x, offsets, windows), (at,)),
        Step(lambda x, y: dml.join([x, y], axis), (at, rng.choice(alike))),
        Step(lambda x: dml.cast(x, output_data_type=half), (at,)),
        Step(lambda x: dml.reduce(x, function="MAX", axes=(axis,)), (at,)),
        Step(lambda x: dml.reduce(x, function="SUM", axes=(axis,)), (at,)),
        Step(lambda x: dml.activation_softmax1(x, axes=(axis,)), (at,)),
        Step(lambda x: dml.element_wise_add(x, 0.75), (at,)),
        Step(dml.element_wise_identity, (at,)),
    ]


def _matrices(x: Array, at: int, values: list[Array]) -> list[Step]:
    found = [k for k, y in enumerate(values) if y.ndim == 2 and y.dtype == x.dtype and y.shape[1] == x.shape[-1]]
    return [Step(lambda x, y: dml.gemm(x, y, trans_b="TRANSPOSE"), (at, k)) for k in found[:2] if x.ndim == 2]


def _images(rng: random.Random, x: Array, at: int, data: np.random.Generator) -> list[Step]:
    filters = data.normal(size=(rng.choice((1, 3)), x.shape[1], 1, 1)).astype(np.float32)
    return [Step(lambda x: dml.convolution(x, filters), (at,))]
