"""Elements that are taken without evaluation lie in the ranges of the evaluation; what a row shares is evaluated once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import anydml as dml
from anydml.explain import beyond, bounds, slack
from anydml.explain.bounded import exactly
from anydml.explain.bounds import ranges, unit_of
from anydml.functional.describing import described
from anydml.schema.statement import stated
from anydml.testing import assert_rounding
from every_kernel import SOAK, Ran

Array = npt.NDArray[Any]
F32 = np.float32

NORMALISED = {"axes": (1,), "normalize_variance": True, "epsilon": 1e-5}
CASES: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    ("gemm", dml.gemm, {"a": (5, 17), "b": (17, 6)}, {}),
    ("gemm, c", dml.gemm, {"a": (5, 17), "b": (17, 6), "c": (5, 6)}, {"alpha": 0.3, "beta": -2.0}),
    ("convolution", dml.convolution, {"input": (2, 3, 6, 7), "filter": (4, 3, 3, 3)}, {"start_padding": (1, 1)}),
    ("groups", dml.convolution, {"input": (1, 4, 5, 5), "filter": (4, 2, 2, 2)}, {"group_count": 2, "end_padding": (1, 1)}),
    ("softmax", dml.activation_softmax1, {"input": (7, 33)}, {"axes": (1,)}),
    ("log softmax", dml.activation_log_softmax1, {"input": (7, 33)}, {"axes": (1,)}),
    ("sum", dml.reduce, {"input": (7, 33)}, {"function": "SUM", "axes": (1,)}),
    ("L2", dml.reduce, {"input": (7, 33)}, {"function": "L2", "axes": (1,)}),
    ("product", dml.reduce, {"input": (7, 9)}, {"function": "MULTIPLY", "axes": (1,)}),
    ("maximum", dml.reduce, {"input": (7, 9)}, {"function": "MAX", "axes": (0,)}),
    ("normalisation", dml.mean_variance_normalization1, {"input": (7, 33)}, NORMALISED),
    ("means", dml.average_pooling, {"input": (1, 2, 6, 6)}, {"window_size": (3, 3), "end_padding": (1, 1)}),
    ("tanh", dml.element_wise_tanh, {"input": (50,)}, {}),
    ("sigmoid", dml.activation_sigmoid, {"input": (50,)}, {}),
    ("gelu", dml.activation_gelu, {"input": (50,)}, {}),
    ("divide", dml.element_wise_divide, {"a": (50,), "b": (50,)}, {}),
    ("power", dml.element_wise_constant_pow, {"input": (50,)}, {"exponent": 3.0}),
]


def drawn(random: np.random.Generator, sizes: tuple[int, ...], kind: str, dtype: Any) -> Array:
    x = random.standard_normal(sizes)
    if kind == "cancelling":
        x[..., ::2] = -x[..., 1::2][..., : x[..., ::2].shape[-1]] if x.shape[-1] % 2 == 0 else -np.roll(x, 1, -1)[..., ::2]
    elif kind == "ranges":
        x *= 2.0 ** random.integers(-8, 8, sizes)
    elif kind == "zeros":
        x = np.maximum(x, 0)
    return x.astype(dtype)


def ends(expected: Array, share: float) -> list[Array]:
    """The elements farthest from the exact ones that are taken, upwards and downwards, as far as the type tells."""
    made = []
    with np.errstate(invalid="ignore", over="ignore"):
        wide = expected.astype(np.float64)
        room = np.abs(wide) * share
        for far in (wide + room, wide - room):
            x = far.astype(expected.dtype)
            made.append(np.where(np.abs(x - wide) > room, np.nextafter(x, expected), x))
    return made


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_what_is_taken_lies_in_the_ranges(dtype: Any, ran: Ran) -> None:
    cases = taken = 0
    for seed in range(2 * SOAK):
        random = np.random.default_rng(seed)
        for name, function, sizes, fields in CASES:
            for kind in ("normal", "cancelling", "ranges", "zeros"):
                arrays = {tensor: drawn(random, size, kind, dtype) for tensor, size in sizes.items()}
                expected = np.asarray(function(**arrays, **fields))
                call = described(function, **arrays, **fields)
                ((output, nest),) = stated(call.desc.as_newest()).items()
                tensors = {found.name: found.desc for found in call.desc.as_newest().tensors()}
                unit = unit_of([t.data_type for t in tensors.values()])
                expected = expected.reshape(tensors[output].sizes)
                at = np.argwhere(np.ones(expected.shape, bool))
                inputs = {tensor: exactly(x) for tensor, x in call.inputs.items()}
                found = ranges(nest, tensors[output].data_type, inputs, at, unit)
                low, high = (x.astype(np.float64).reshape(expected.shape) for x in (found.low, found.high))
                share = min((slack.roundings(nest.body) - 1) * unit, slack.MOST) * slack.MARGIN
                for actual in ends(expected, max(share, 0)):
                    near = slack.within(nest.body, unit, expected, actual)
                    wide = actual.astype(np.float64)
                    assert (~near | ((low <= wide) & (wide <= high))).all(), (name, kind, seed)
                    taken += int(np.count_nonzero(near & (actual != expected)))
                    cases += 1
    assert taken > 5_000
    ran(cases, 2 * 2 * 4 * len(CASES))


def test_states_of_recurrences_are_taken_as_their_gates_are(ran: Ran) -> None:
    """Elements of a state, as far off as is taken, lie in the ranges of the evaluation."""
    taken = 0
    for seed in range(2 * SOAK):
        random = np.random.default_rng(seed)
        x, w, r = (random.standard_normal(sizes).astype(F32) for sizes in ((1, 4, 2, 3), (1, 16, 3), (1, 16, 4)))
        exact: Any = dml.lstm(x, w, r)
        call = described(dml.lstm, x, w, r)
        desc = call.desc.as_newest()
        inputs = {tensor: exactly(x) for tensor, x in call.inputs.items()}
        tensors = {found.name: found.desc for found in desc.tensors()}
        for (output, nest), result in zip(stated(desc).items(), exact, strict=False):
            shaped = np.asarray(result).reshape(tensors[output].sizes)
            share = slack._share(nest.body, 2.0**-24)
            assert share > 0
            at = np.argwhere(np.ones(shaped.shape, bool))
            found = ranges(nest, tensors[output].data_type, inputs, at, 2.0**-24)
            low, high = (x.astype(np.float64).reshape(shaped.shape) for x in (found.low, found.high))
            for actual in ends(shaped, share):
                near = slack.within(nest.body, 2.0**-24, shaped, actual)
                assert (~near | ((low <= actual) & (actual <= high))).all(), (seed, output)
                taken += int(np.count_nonzero(near & (actual != shaped)))
    ran(taken, 50)


def test_sums_take_what_their_terms_take() -> None:
    x = np.ones((2, 3), F32)
    calls: list[tuple[str, Any, tuple[Array, ...], dict[str, Any]]] = [
        ("gemm", dml.gemm, (x, np.ones((3, 2), F32)), {}),
        ("relu", dml.activation_relu, (x,), {}),
        ("identity", dml.element_wise_identity, (x,), {}),
        ("image", dml.convolution, (np.ones((1, 8, 5, 5), F32), np.ones((4, 8, 3, 3), F32)), {"start_padding": (1, 1)}),
    ]
    bodies = {
        name: next(iter(stated(described(function, *arrays, **fields).desc.as_newest()).values())).body
        for name, function, arrays, fields in calls
    }
    assert slack.roundings(bodies["gemm"]) >= 3  # two sums and a product
    assert slack.roundings(bodies["relu"]) == 0
    assert slack.roundings(bodies["identity"]) == 0
    assert slack.roundings(bodies["image"]) >= 8  # of each place of the filter, 8 channels are there or none


def test_infinities_nan_and_tiny_numbers_are_evaluated() -> None:
    body = next(iter(stated(described(dml.gemm, np.ones((1, 99), F32), np.ones((99, 5), F32)).desc).values())).body
    expected = np.array([np.inf, np.nan, 1, 1e-44, 1], F32)
    actual = np.array([3e38, 1, np.inf, 2e-44, 1.000001], F32)
    assert slack.within(body, 2.0**-24, expected, actual).tolist() == [False, False, False, False, True]


@pytest.mark.parametrize("name", ["softmax", "log softmax", "normalisation", "gemm"])
def test_what_a_row_shares_is_evaluated_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, sizes, fields = next((f, s, x) for n, f, s, x in CASES if n == name)
    random = np.random.default_rng(4)
    call = described(function, **{tensor: random.standard_normal(size).astype(F32) for tensor, size in sizes.items()}, **fields)
    ((_, nest),) = stated(call.desc.as_newest()).items()
    at = np.argwhere(np.ones(tuple(v.data.size for v in nest.index), bool))[::-1]
    made = []
    for shared in (1, 4, 1 << 30):
        monkeypatch.setattr(bounds, "SHARED", shared)
        made.append(ranges(nest, dml.DataType.FLOAT32, {n: exactly(x) for n, x in call.inputs.items()}, at, 2.0**-24))
    for other in made[1:]:
        for one, same in zip(made[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


def test_large_products_and_rows_evaluate_few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((256, 256)).astype(F32) for _ in "ab")
    evaluated: list[int] = []
    own = ranges

    def counted(*arguments: Any) -> Any:
        evaluated.append(len(arguments[3]))
        return own(*arguments)

    monkeypatch.setattr(beyond, "ranges", counted)
    assert_rounding(a @ b, dml.gemm, a, b)
    assert sum(evaluated) < a.size // 50
    evaluated.clear()
    powers = np.exp(a - a.max(1, keepdims=True))
    assert_rounding(powers / powers.sum(1, keepdims=True), dml.activation_softmax1, a, axes=(1,))
    assert sum(evaluated) < a.size // 50
    with pytest.raises(AssertionError, match="beyond rounding"):
        assert_rounding(a @ b + F32(0.1), dml.gemm, a, b)
