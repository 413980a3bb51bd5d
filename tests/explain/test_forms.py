"""Other forms of formulas: what correct runtimes compute by them is explained and named, and mistakes are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import anydml as dml
from anydml.explain.beyond import judged
from anydml.explain.bounded import exactly
from anydml.explain.bounds import ranges
from anydml.explain.compare import case_of
from anydml.explain.forms import FORMS
from anydml.functional.describing import described
from anydml.schema.statement import stated
from anydml.testing import assert_rounding
from every_kernel import SOAK, Ran

Array = npt.NDArray[Any]
F32 = np.float32
EPSILON = 1e-5
CHANNELS = (1, 6, 1, 1)
NORMALISED: dict[str, Any] = {"axes": (2, 3), "normalize_variance": True, "epsilon": EPSILON}
FOLDED, ONE_PASS, BOTH, ABSOLUTE, *OF_INTEGERS = (form.sentence for form in FORMS)


def normal(seed: int, *sizes: int, mean: float = 0, deviation: float = 1) -> Array:
    return (mean + deviation * np.random.default_rng(seed).standard_normal(sizes)).astype(F32)


def batch(seed: int, mean: float = 0) -> dict[str, Array]:
    return {
        "input": normal(seed, 2, 6, 7, 9, mean=mean),
        "mean": normal(seed + 1, *CHANNELS, mean=mean),
        "variance": np.abs(normal(seed + 2, *CHANNELS)) + F32(0.3),
        "scale": normal(seed + 3, *CHANNELS),
        "bias": normal(seed + 4, *CHANNELS),
    }


def folded(a: dict[str, Array], epsilon: float = EPSILON) -> Array:
    scale = a["scale"] / np.sqrt(a["variance"] + F32(epsilon))
    return np.asarray(a["input"] * scale + (a["bias"] - a["mean"] * scale))


def one_pass(x: Array, *, axes: tuple[int, ...] = (2, 3), epsilon: float = EPSILON, unbiased: bool = False) -> Array:
    """The normalised input, with the mean of the squares minus the square of the mean."""
    mean = x.mean(axes, keepdims=True)
    variance = np.maximum((x * x).mean(axes, keepdims=True) - mean * mean, 0)
    count = np.prod([x.shape[a] for a in axes])
    variance = variance * F32(count / (count - 1)) if unbiased else variance
    return np.asarray((x - mean) / np.sqrt(variance + F32(epsilon)))


def forms(actual: Array, function: Any, *arguments: Any, **fields: Any) -> list[str]:
    """The forms that explain what rounding at each step does not; nothing is left over."""
    found = judged(case_of(function, *arguments, **fields, actual=actual))
    assert found.beyond is None
    return list(found.forms)


@pytest.mark.parametrize("seed", range(2 * SOAK))
def test_a_folded_normalisation_is_named(seed: int) -> None:
    a: dict[str, Any] = batch(seed, mean=50)
    assert forms(folded(a), dml.batch_normalization, **a, epsilon=EPSILON) == [FOLDED]
    assert_rounding(folded(a), dml.batch_normalization, **a, epsilon=EPSILON)


@pytest.mark.parametrize("seed", range(2 * SOAK))
def test_a_variance_in_one_pass_is_named(seed: int) -> None:
    x = normal(seed, 2, 6, 7, 9, mean=30, deviation=0.02)
    assert forms(one_pass(x), dml.mean_variance_normalization1, x, **NORMALISED) == [ONE_PASS]
    mean = x.mean((2, 3), keepdims=True)
    variance = np.maximum((x * x).mean((2, 3), keepdims=True) - mean * mean, 0)
    scale = 1 / np.sqrt(variance + F32(EPSILON))
    actual = x * scale - mean * scale
    assert set(forms(actual, dml.mean_variance_normalization1, x, **NORMALISED)) <= {FOLDED, ONE_PASS, BOTH}


def test_sigmoid_and_tanh_with_absolute_errors_are_named() -> None:
    x = np.linspace(-30, 30, 999, dtype=F32)
    assert forms(F32(0.5) + F32(0.5) * np.tanh(F32(0.5) * x), dml.activation_sigmoid, x) == [ABSOLUTE]
    assert forms(2 / (1 + np.exp(-2 * x)) - 1, dml.activation_tanh, x) == [ABSOLUTE]
    with np.errstate(over="ignore"):
        assert forms(1 / (1 + np.exp(np.full(3, 100, F32))), dml.activation_sigmoid, np.full(3, -100, F32)) == [ABSOLUTE]


def test_states_are_judged_by_the_form_of_their_gates(ran: Ran) -> None:
    hidden, steps = 4, 5
    x, w = normal(0, 1, steps, 2, 3), normal(1, 1, 1, hidden, 3) * F32(0.01)
    r = normal(2, 1, 1, hidden, hidden)
    h, states = np.zeros((2, hidden), F32), []
    for step in x[0]:
        total = step @ w[0, 0].T + h @ r[0, 0].T
        h = 2 / (1 + np.exp(-2 * total)) - 1
        states.append(h[None])
    actual = np.stack(states)
    assert forms(actual, dml.rnn, x, w, r, output="output_sequence") == [ABSOLUTE]
    assert judged(case_of(dml.rnn, x, w, r, output="output_sequence", actual=actual * F32(1.0001))).beyond is not None
    ran(actual.size, steps * 2 * hidden)


def test_mistakes_are_beyond_all_forms(ran: Ran) -> None:
    """At ordinary inputs: another epsilon, another axis, an unbiased variance, a scale left out, a sigmoid that is one off."""
    a = batch(7)
    x = normal(3, 2, 6, 7, 9, mean=0.4)
    t = np.linspace(-6, 6, 99, dtype=F32)
    hard = np.clip(F32(0.2) * t + F32(0.5), 0, 1)
    mistakes: list[tuple[Array, Any, dict[str, Any]]] = [
        (folded(a, 1e-4), dml.batch_normalization, {**a, "epsilon": EPSILON}),
        (folded({**a, "scale": np.ones(CHANNELS, F32)}), dml.batch_normalization, {**a, "epsilon": EPSILON}),
        (folded({**a, "mean": -a["mean"]}), dml.batch_normalization, {**a, "epsilon": EPSILON}),
        (one_pass(x, epsilon=1e-4), dml.mean_variance_normalization1, {"input": x, **NORMALISED}),
        (one_pass(x, axes=(1, 2, 3)), dml.mean_variance_normalization1, {"input": x, **NORMALISED}),
        (one_pass(x, unbiased=True), dml.mean_variance_normalization1, {"input": x, **NORMALISED}),
        (hard, dml.activation_sigmoid, {"input": t}),
        (1 / (1 + np.exp(-F32(1.00001) * t)), dml.activation_sigmoid, {"input": t}),
        (np.tanh(t) * F32(1.000002), dml.activation_tanh, {"input": t}),
    ]
    for n, (actual, function, fields) in enumerate(mistakes):
        found = judged(case_of(function, **fields, actual=actual.astype(F32))).beyond
        assert found is not None, n
        assert found.elements > actual.size // 10, n
    ran(len(mistakes), 9)


def test_forms_are_the_same_numbers(ran: Ran) -> None:
    """Exact results lie in the ranges of every form, whose values are those of the statement."""
    x, c = normal(0, 2, 6, 3, 4, mean=0.5), normal(1, *CHANNELS)
    a = batch(2)
    calls: list[tuple[Any, dict[str, Any], set[str]]] = [
        (dml.batch_normalization, {**a, "epsilon": EPSILON}, {"folded"}),
        (dml.mean_variance_normalization1, {"input": x, **NORMALISED}, {"folded", "one_pass", "one_pass_folded"}),
        (
            dml.mean_variance_normalization1,
            {"input": x, "scale": c, "bias": c, **NORMALISED},
            {"folded", "one_pass", "one_pass_folded"},
        ),
        (dml.batch_normalization_training, {"input": x, "scale": c, "bias": c}, {"folded", "one_pass", "one_pass_folded"}),
        (dml.activation_sigmoid, {"input": x}, {"absolute"}),
        (dml.activation_swish, {"input": x}, {"absolute"}),
        (dml.activation_tanh, {"input": x}, {"absolute"}),
        (dml.gemm, {"a": normal(0, 3, 4), "b": normal(1, 4, 5)}, set()),
        (dml.activation_softmax1, {"input": x, "axes": (1,)}, set()),
    ]
    cases = 0
    for function, fields, names in calls:
        made = function(**fields)
        expected = made[0] if isinstance(made, tuple) else made
        call = described(function, **fields)
        desc = call.desc.as_newest()
        output, nest = next(iter(stated(desc).items()))
        tensors = {found.name: found.desc for found in desc.tensors()}
        numbers = {name: exactly(array) for name, array in call.inputs.items()}
        rewritten = {form.name: own for form in FORMS if (own := form.of(nest)) is not None}
        assert set(rewritten) == names, function
        at = np.argwhere(np.ones(tensors[output].sizes, bool))
        plain = ranges(nest, tensors[output].data_type, numbers, at, 2.0**-24)
        for own in rewritten.values():
            found = ranges(own, tensors[output].data_type, numbers, at, 2.0**-24)
            np.testing.assert_allclose(found.value, plain.value, rtol=1e-6, atol=1e-9)
            flat = np.asarray(expected).reshape(-1)
            assert ((found.low <= flat) & (flat <= found.high)).all()
            cases += 1
    ran(cases, 13)


def test_the_message_names_what_explains_the_other_elements() -> None:
    a: dict[str, Any] = batch(1, mean=50)
    actual = folded(a)
    actual[0, 0, 0, 0] += F32(0.1)
    with pytest.raises(
        AssertionError, match=rf"1 of them lies beyond rounding.* Of the others, \d+ are explained by {FOLDED}$"
    ):
        assert_rounding(actual, dml.batch_normalization, **a, epsilon=EPSILON)


def test_sums_of_squares_that_underflow_are_not_negative() -> None:
    """The root of a sum of squares of tiny numbers, each of which float32 rounds to 0."""
    x = np.full((1, 1, 3, 3), 2e-23, F32)
    fields: dict[str, Any] = {"window_size": (3, 3), "p": 2}
    assert forms(np.sqrt((x * x).sum(axis=(2, 3), keepdims=True)), dml.lp_pooling, x, **fields) == []
