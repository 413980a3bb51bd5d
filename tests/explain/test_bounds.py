"""Bounds of ordinary arithmetic: exact results are within them, results rounded to float32 at each step too, and wrong ones are
not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import anydml as dml
from anydml import operators
from anydml.explain.bounded import Number, Range, Unbounded, exactly
from anydml.explain.bounds import ranges, unit_of
from anydml.explain.rounding import Rounding
from anydml.schema.operator import Example
from anydml.schema.statement import stated
from every_kernel import SOAK, Ran

Array = npt.NDArray[Any]
F32 = np.float32
MOST = 4096  # the most elements of an example that is tested


def of_example(operator: Any, example: Example) -> list[tuple[str, Range, Array]]:
    """The range of each output of an example, with the output."""
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
                judged = np.isfinite(exact) & np.isfinite(found.value)  # infinite results are compared by bits
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
    """A product whose terms are added from the last to the first, with rounding at each step."""
    total = np.zeros((a.shape[0], b.shape[1]), F32)
    for k in reversed(range(a.shape[1])):
        total = total + a[:, k, None] * b[None, k]
    return total


@pytest.mark.parametrize("seed", sorted({*range(2 * SOAK), 22}))  # 22 has subnormal numbers
def test_float32_at_each_step_lies_in_the_ranges_and_a_step_more_does_not(seed: int, ran: Ran) -> None:
    random = np.random.default_rng(seed)
    x = random.standard_normal((16, 40)).astype(F32) * F32(random.choice([0.1, 1, 30]))
    small = np.minimum(x, F32(80))
    y = random.standard_normal((40, 9)).astype(F32)
    cases: list[tuple[Callable[..., Any], dict[str, Array], Array]] = [
        (lambda a, b: dml.gemm(a, b), {"a": x, "b": y}, summed_backwards(x, y)),
        (lambda a: dml.activation_softmax1(a, axes=[1]), {"a": x}, softmax(x)),
        (lambda a: dml.element_wise_multiply(dml.element_wise_exp(a), 0.1), {"a": small}, np.exp(small) * F32(0.1)),
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
    """A quotient close to a tie may be rounded to either side, another one may not; a graph passes the error on."""
    x = np.array([[2.5, 2.4999998, 2.4, -7.5, 300]], F32)

    def function(x: Array) -> Any:
        return dml.element_wise_quantize_linear(dml.element_wise_multiply(x, 3.0), np.full(1, 3, F32), np.full(1, 7, np.uint8))

    rounding, exact = one(function, x=x)
    found = rounding.explained("output", np.arange(5))
    np.testing.assert_array_equal(exact, [[9, 9, 9, 0, 255]])
    np.testing.assert_array_equal(found.low, [9, 9, 9, 0, 255])
    np.testing.assert_array_equal(found.high, [10, 10, 9, 0, 255])


def test_a_quotient_with_a_divisor_of_0_has_one_sign() -> None:
    """A rounded sum divided by a divisor that is known to be 0: the infinity of its sign, and no other number."""
    a, b = np.array([0.1, -0.3], F32), np.array([0.7, -0.9], F32)
    zero = np.zeros(2, F32)
    rounding, exact = one(lambda x, y, z: dml.element_wise_divide(dml.element_wise_add(x, y), z), x=a, y=b, z=zero)
    assert exact.tolist() == [np.inf, -np.inf]
    assert explained(rounding, exact).all()
    assert not explained(rounding, -exact).any()


def test_moves_and_integers_are_exact() -> None:
    a = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    rounding, exact = one(lambda a, b: dml.matrix_multiply_integer(a, b), a=a, b=a.T.copy())
    found = rounding.explained("output", np.arange(exact.size))
    np.testing.assert_array_equal(found.low, found.high)
    np.testing.assert_array_equal(found.low, exact.reshape(-1))


def test_what_has_no_bound_says_so() -> None:
    x = np.arange(12, dtype=np.uint32).reshape(3, 4)
    rounding, _ = one(lambda x: dml.element_wise_bit_not(x), x=x)
    with pytest.raises(Unbounded):
        rounding.explained("output", np.arange(6))


def recurrent(x: Array, w: Array, r: Array, b: Array) -> Array:
    """The states of a recurrent network of one direction, in float32."""
    h, states = np.zeros((x.shape[2], r.shape[-1]), F32), []
    for step in x[0]:
        h = np.tanh(step @ w[0, 0].T + h @ r[0, 0].T + b[0, 0, 0, : h.shape[-1]] + b[0, 0, 0, h.shape[-1] :])
        states.append(h[None])
    return np.stack(states)


def test_a_recurrence_hands_its_errors_on(ran: Ran) -> None:
    """Bounds of its last steps include the errors of the first ones; one wrong weight is still found."""
    rng = np.random.default_rng(2)
    steps, batch, size, hidden = 9, 2, 3, 4
    x, w = (rng.standard_normal(s).astype(F32) for s in ((1, steps, batch, size), (1, 1, hidden, size)))
    r, b = (rng.standard_normal(s).astype(F32) * F32(0.4) for s in ((1, 1, hidden, hidden), (1, 1, 1, 2 * hidden)))

    def call(x: Any, w: Any, r: Any, b: Any) -> Any:
        return dml.rnn(x, w, r, b).output_sequence

    rounding, exact = one(call, x=x, w=w, r=r, b=b)
    assert explained(rounding, exact).all()
    assert explained(rounding, recurrent(x, w, r, b)).all()
    found = rounding.explained("output", np.arange(exact.size))
    width = (found.high.astype(np.float64) - found.low).reshape(steps, -1).max(axis=1)
    assert width[0] < width[-1] < 1e-4
    r[0, 0, 1, 2] += F32(0.01)
    other = explained(rounding, recurrent(x, w, r, b))
    assert other[: batch * hidden].all()  # the first step, before any error is passed on
    assert (~other).sum() > exact.size // 8
    ran(exact.size, steps * batch * hidden)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "DYNAMIC_QUANTIZE_LINEAR", "NONZERO_COORDINATES", "TOP_K1"])
def test_examples_of_states_and_orders_have_ranges(name: str) -> None:
    operator = operators.find(name)
    assert operator is not None
    assert sum(len(of_example(operator, example)) for example in operator.spec.examples) > 1


def test_sorted_rows_and_largest_elements_of_what_is_rounded() -> None:
    x = np.array([[3, 1, 2, np.nextafter(F32(2), F32(3)), -5], [7, 7, 0, 1, 9]], F32)

    def largest(x: Any) -> Any:
        return dml.top_k1(dml.element_wise_multiply(x, F32(0.3)), axis=1, k=3, axis_direction="DECREASING")

    rounding, exact = one(lambda x: largest(x).output_value, x=x)
    one_by_one = -np.sort(-(x * F32(0.3)), axis=1)[:, :3]
    assert explained(rounding, exact).all()
    assert explained(rounding, one_by_one).all()
    assert not explained(rounding, one_by_one * F32(1.001)).any()
    places, exact = one(lambda x: largest(x).output_index, x=x)
    found = places.explained("output", np.arange(6))
    np.testing.assert_array_equal(found.low.reshape(2, 3), [[0, 2, 2], [4, 0, 0]])  # 2 and the next float may be exchanged
    np.testing.assert_array_equal(found.high.reshape(2, 3), [[0, 3, 3], [4, 1, 1]])
    x[1, 4] = 2
    first, exact = one(lambda x: dml.argmax(dml.element_wise_multiply(x, F32(0.3)), axes=[1]), x=x)
    found = first.explained("output", np.arange(2))
    np.testing.assert_array_equal(exact.reshape(-1), [0, 0])
    np.testing.assert_array_equal([found.low, found.high], [[0, 0], [0, 1]])
