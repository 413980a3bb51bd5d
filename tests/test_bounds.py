"""Bounds of ordinary arithmetic: exact results lie in them, float32 at each step does, and what is far off does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import anydml as dml
from anydml import operators
from anydml.explain.bounded import Number, Unbounded, exactly
from anydml.explain.bounds import Range, ranges, unit_of
from anydml.explain.rounding import Rounding
from anydml.schema.operator import Example
from anydml.schema.statement import stated
from every_kernel import SOAK, Ran

Array = npt.NDArray[Any]
F32 = np.float32
MOST = 4096  # elements of an example that is looked at


def of_example(operator: Any, example: Example) -> list[tuple[str, Range, Array]]:
    """The range of each output that an example says, beside what it says."""
    desc = operator(**example.fields).as_newest()
    tensors = {found.name: found.desc for found in desc.tensors()}
    arrays: dict[str, Number] = {}
    for name, given in example.inputs.items():
        parts = {f"{name}[{i}]": x for i, x in enumerate(given)} if isinstance(given, (list, tuple)) else {name: given}
        arrays |= {part: exactly(np.asarray(x)) for part, x in parts.items()}
    if any(t.data_type.element_bits == 4 for t in tensors.values()):
        raise Unbounded("elements of 4 bits")
    found = []
    for name, nest in stated(desc).items():
        said = example.outputs.get(name) if isinstance(example.outputs, dict) else example.outputs
        t = tensors[name]
        if said is None or np.size(said) > MOST:
            continue
        at = np.argwhere(np.ones(t.sizes, bool))
        unit = unit_of([found.data_type for found in tensors.values()])
        found.append((name, ranges(nest, t.data_type, arrays, at, unit), np.asarray(said).reshape(-1)))
    return found


def test_the_results_of_examples_lie_in_their_ranges(ran: Ran) -> None:
    cases = 0
    for operator in operators.every():
        for example in operator.spec.examples:
            try:
                outputs = of_example(operator, example)
            except Unbounded:
                continue
            for name, found, said in outputs:
                exact = said.astype(np.float64)
                judged = np.isfinite(exact) & np.isfinite(found.value)  # what is infinite is compared by bits
                low, high = found.low.astype(np.float64), found.high.astype(np.float64)
                inside = (low <= exact) & (exact <= high)
                assert (inside | ~judged).all(), (operator.spec.name, example.title, name)
                cases += 1
    ran(cases, 200)


def one(call: Callable[..., Any], **inputs: Array) -> tuple[Rounding, Array]:
    """The bounds of a function of eager calls, and its exact result."""
    graph = dml.graph(call, **{name: dml.TensorDesc.of(x) for name, x in inputs.items()})
    return Rounding(graph.desc, inputs), graph(**inputs)


def explained(rounding: Rounding, actual: Array) -> Array:
    found = rounding.explained("output", np.arange(actual.size))
    wide = actual.reshape(-1).astype(np.float64)
    return (found.low.astype(np.float64) <= wide) & (wide <= found.high.astype(np.float64))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True, dtype=F32))


def normalized(x: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True, dtype=F32)
    variance = (centred * centred).mean(axis=-1, keepdims=True, dtype=F32)
    return np.asarray(centred / np.sqrt(variance + F32(1e-5)))


def summed_backwards(a: Array, b: Array) -> Array:
    """A product whose terms are added one by one, from the last, each rounded."""
    total = np.zeros((a.shape[0], b.shape[1]), F32)
    for k in reversed(range(a.shape[1])):
        total = total + a[:, k, None] * b[None, k]
    return total


@pytest.mark.parametrize("seed", range(2 * SOAK))
def test_float32_at_each_step_lies_in_the_ranges_and_a_step_more_does_not(seed: int, ran: Ran) -> None:
    random = np.random.default_rng(seed)
    x = random.standard_normal((16, 40)).astype(F32) * F32(random.choice([0.1, 1, 30]))
    y = random.standard_normal((40, 9)).astype(F32)
    cases: list[tuple[Callable[..., Any], dict[str, Array], Array]] = [
        (lambda a, b: dml.gemm(a, b), {"a": x, "b": y}, summed_backwards(x, y)),
        (lambda a: dml.activation_softmax1(a, axes=[1]), {"a": x}, softmax(x)),
        (lambda a: dml.element_wise_multiply(dml.element_wise_exp(a), 0.1), {"a": x}, np.exp(x) * F32(0.1)),
        (
            lambda a: dml.mean_variance_normalization1(a, None, None, axes=[1], normalize_variance=True, epsilon=1e-5),
            {"a": x},
            normalized(x),
        ),
    ]
    for call, inputs, actual in cases:
        rounding, exact = one(call, **inputs)
        assert actual.dtype == exact.dtype == F32
        assert explained(rounding, exact).all()
        assert explained(rounding, actual).all()
        scale = np.abs(exact).max()
        assert not explained(rounding, exact + F32(1e-3) * scale).any()
    ran(len(cases), 4)


def test_a_rounding_to_integers_is_taken_at_both_ends() -> None:
    """A quotient next to a tie may go to either side, one farther away may not; a graph hands the error on."""
    x = np.array([[2.5, 2.4999998, 2.4, -7.5, 300]], F32)

    def function(x: Array) -> Any:
        return dml.element_wise_quantize_linear(dml.element_wise_multiply(x, 3.0), np.full(1, 3, F32), np.full(1, 7, np.uint8))

    rounding, exact = one(function, x=x)
    found = rounding.explained("output", np.arange(5))
    np.testing.assert_array_equal(exact, [[9, 9, 9, 0, 255]])
    np.testing.assert_array_equal(found.low, [9, 9, 9, 0, 255])
    np.testing.assert_array_equal(found.high, [10, 10, 9, 0, 255])


def test_moves_and_integers_are_exact() -> None:
    a = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    rounding, exact = one(lambda a, b: dml.matrix_multiply_integer(a, b), a=a, b=a.T.copy())
    found = rounding.explained("output", np.arange(exact.size))
    np.testing.assert_array_equal(found.low, found.high)
    np.testing.assert_array_equal(found.low, exact.reshape(-1))


def test_what_has_no_bound_says_so() -> None:
    x = np.arange(12, dtype=F32).reshape(3, 4)
    rounding, _ = one(lambda x: dml.top_k(x, axis=1, k=2).output_value, x=x)
    with pytest.raises(Unbounded):
        rounding.explained("output", np.arange(6))
