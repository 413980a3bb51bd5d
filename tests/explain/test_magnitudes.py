"""Elements that compiled sums of magnitudes explain lie in the ranges of the evaluation; precisions and samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import anydml as dml
from anydml.explain import beyond, magnitudes
from anydml.explain.beyond import judged
from anydml.explain.bounded import exactly
from anydml.explain.bounds import ranges
from anydml.explain.case import Case
from anydml.explain.compare import case_of
from anydml.explain.forms import FOLDED
from anydml.explain.magnitudes import batch_normalised, rooms
from anydml.explain.mistakes import narrowed
from anydml.operators.batch_normalization import BatchNormalization
from anydml.schema.statement import stated
from anydml.testing import assert_rounding
from every_kernel import SOAK, Ran

Array = npt.NDArray[Any]
F32 = np.float32
UNIT = 2.0**-24
NORMALISED: dict[str, Any] = {"axes": (1,), "normalize_variance": True, "epsilon": 1e-5}
CASES: list[tuple[str, Any, dict[str, tuple[int, ...]], dict[str, Any]]] = [
    ("gemm", dml.gemm, {"a": (5, 17), "b": (17, 6)}, {}),
    ("gemm, c", dml.gemm, {"a": (17, 5), "b": (6, 17), "c": (5, 6)},
     {"alpha": -0.3, "beta": 2.0, "trans_a": "TRANSPOSE", "trans_b": "TRANSPOSE"}),
    ("convolution", dml.convolution, {"input": (2, 3, 6, 7), "filter": (4, 3, 3, 3), "bias": (1, 4, 1, 1)},
     {"start_padding": (1, 1), "end_padding": (0, 1)}),
    ("backward", dml.convolution, {"input": (1, 3, 5, 5), "filter": (3, 4, 3, 3)},
     {"direction": "BACKWARD", "strides": (2, 2)}),
    ("groups", dml.convolution, {"input": (1, 4, 5, 5), "filter": (4, 2, 2, 2)}, {"group_count": 2, "mode": "CONVOLUTION"}),
    ("normalisation", dml.mean_variance_normalization1, {"input": (7, 33)}, NORMALISED),
    ("normalisation, scale", dml.mean_variance_normalization1,
     {"input": (7, 33), "scale": (1, 33), "bias": (1, 33)}, NORMALISED),
]  # fmt: skip


PER_CHANNEL: dict[str, tuple[int, ...]] = dict.fromkeys(("mean", "variance", "scale", "bias"), (1, 3, 1, 1))
BATCHES: list[tuple[dict[str, tuple[int, ...]], dict[str, Any]]] = [  # some parameters for each element of an image
    ({"input": (2, 3, 4, 5), **PER_CHANNEL}, {"epsilon": 50.0}),
    ({"input": (2, 3, 4, 5), **PER_CHANNEL, "mean": (1, 3, 4, 5), "variance": (1, 3, 4, 5)}, {"epsilon": 50.0}),
]


def drawn(random: np.random.Generator, sizes: tuple[int, ...], kind: str) -> Array:
    x = random.standard_normal(sizes)
    if kind == "cancelling":
        x += 1000.0 * (-1.0) ** np.arange(sizes[-1])
    elif kind == "ranges":
        x *= 2.0 ** random.integers(-12, 12, sizes)
    elif kind == "large mean":
        x += 50
    return x.astype(F32)


def case(function: Any, arrays: dict[str, Array], fields: dict[str, Any]) -> Case:
    return case_of(function, **arrays, **fields, actual=function(**arrays, **fields))


def test_rooms_lie_in_the_ranges(ran: Ran) -> None:
    cases = wide = 0
    for seed in range(2 * SOAK):
        random = np.random.default_rng(seed)
        for name, function, sizes, fields in CASES:
            for kind in ("normal", "cancelling", "ranges", "large mean"):
                c = case(function, {tensor: drawn(random, size, kind) for tensor, size in sizes.items()}, fields)
                nest = stated(c.desc)[c.output]
                at = np.arange(c.expected.size)
                found = rooms(c.desc, nest, c.inputs, UNIT, at)
                assert found is not None
                points = np.argwhere(np.ones(c.expected.shape, bool))
                data_type = c.desc.output_tensor.data_type  # type: ignore[attr-defined]
                inputs = {tensor: exactly(x) for tensor, x in c.inputs.items()}
                low, high = (x.astype(np.float64) for x in ranges(nest, data_type, inputs, points, UNIT)[1:])
                exact = c.expected.reshape(-1).astype(np.float64)
                ulp = np.spacing(np.abs(c.expected.reshape(-1)))  # the ends and the exact result are rounded to float32
                assert (low <= exact - found + ulp).all(), (name, kind, seed)
                assert (exact + found - ulp <= high).all(), (name, kind, seed)
                wide += int(np.count_nonzero(found > 4 * ulp))
                cases += 1
    assert wide > 1_000
    ran(cases, 2 * 4 * len(CASES))


def test_normalised_batches_are_in_the_ranges_of_the_operator_and_of_its_folded_form(
    ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(magnitudes, "PIECE", 30)  # one and a half rows at once
    cases, counts = 0, np.zeros(2, int)
    for seed in range(3 * SOAK):
        random = np.random.default_rng(seed)
        for sizes, fields in BATCHES:
            for kind in ("normal", "cancelling", "ranges", "large mean"):
                c = case(dml.batch_normalization, {n: drawn(random, size, kind) for n, size in sizes.items()}, fields)
                assert isinstance(c.desc, BatchNormalization)
                nest = stated(c.desc)[c.output]
                at = np.flatnonzero(random.random(c.expected.size) < 0.8)
                steps = random.integers(-6, 7, c.expected.shape) * 4 ** random.integers(0, 4, c.expected.shape)
                actual = (c.expected + steps * np.spacing(np.abs(c.expected))).astype(F32)
                masks = batch_normalised(c.desc, c.inputs, UNIT, at, c.expected, actual)
                inputs = {tensor: exactly(x) for tensor, x in c.inputs.items()}
                points = np.stack(np.unravel_index(at, c.expected.shape), axis=-1)
                for n, form in enumerate((nest, FOLDED.of(nest))):
                    assert form is not None
                    found = ranges(form, c.desc.output_tensor.data_type, inputs, points, UNIT)
                    got = actual.reshape(-1)[at]
                    inside = (found.low <= got) & (got <= found.high)
                    assert (inside | ~masks[n]).all(), (kind, seed, n)
                    counts[n] += np.count_nonzero(masks[n])
                assert (masks[1] | ~masks[0]).all()
                cases += 1
    assert counts[0] > 200
    assert counts[1] > counts[0] + 100
    ran(cases, 3 * 4 * len(BATCHES))


def test_what_has_an_activation_or_no_sum_has_no_room() -> None:
    x = np.ones((2, 2), F32)
    for function, fields in ((dml.gemm, {"fused_activation": dml.ActivationRelu()}), (dml.element_wise_add, {})):
        c = case(function, {"a": x, "b": x}, fields)
        assert rooms(c.desc, stated(c.desc)[c.output], c.inputs, UNIT, np.arange(4)) is None


def test_cancelling_sums_are_judged_as_without_magnitudes(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    random = np.random.default_rng(0)
    judgements = 0
    for _, function, sizes, fields in CASES:
        arrays = {tensor: drawn(random, size, "normal") for tensor, size in sizes.items()}
        exact = function(**arrays, **fields)
        away = np.abs(exact).max() * random.standard_normal(exact.shape) * 2.0 ** random.integers(-30, -14, exact.shape)
        c = case_of(function, **arrays, **fields, actual=(exact + away).astype(F32))
        found = []
        for many in (0, 1 << 60):
            monkeypatch.setattr(beyond, "MANY", many)
            found.append(judged(c))
        assert found[0] == found[1]
        assert found[0].beyond is not None
        judgements += 1
    ran(judgements, len(CASES))


# --- precisions ---


def test_less_precise_products_pass_with_their_precision_alone() -> None:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(sizes).astype(F32) for sizes in ((16, 60), (60, 12)))
    halves: Array = np.zeros((16, 12), np.float16)
    for k in range(60):
        halves += a[:, k, None].astype(np.float16) * b[None, k].astype(np.float16)
    brains = np.zeros((16, 12), F32)
    for k in range(60):
        brains = narrowed(brains + narrowed(narrowed(a[:, k, None], 8) * narrowed(b[None, k], 8), 8), 8)
    results = {
        "float32": a @ b,
        "tf32": narrowed(a, 11, cut=True) @ narrowed(b, 11, cut=True),
        "float16": halves.astype(F32),
        "bfloat16": brains,
    }
    for own, actual in results.items():
        assert_rounding(actual, dml.gemm, a, b, precision=own)
        if own != "float32":
            with pytest.raises(AssertionError, match="beyond rounding"):
                assert_rounding(actual, dml.gemm, a, b)
            with pytest.raises(AssertionError, match="beyond rounding"):
                assert_rounding(actual, dml.gemm, a, b, precision="float32")
    short = a[:, 1:] @ b[1:]
    for precision in ("float32", "tf32"):  # errors of sums in 11 bits and fewer may be as large as a term
        with pytest.raises(AssertionError, match="beyond rounding"):
            assert_rounding(short, dml.gemm, a, b, precision=precision)


def test_float16_tensors_may_be_added_up_in_float32() -> None:
    random = np.random.default_rng(2)
    a, b = (random.standard_normal(sizes).astype(np.float16) for sizes in ((8, 300), (300, 5)))
    once = (a.astype(F32) @ b.astype(F32)).astype(np.float16)
    assert_rounding(once, dml.gemm, a, b, precision="float32")
    twice = np.zeros((8, 5), np.float16)
    for k in range(300):
        twice += a[:, k, None] * b[None, k]
    assert_rounding(twice, dml.gemm, a, b)
    with pytest.raises(AssertionError, match="beyond rounding"):
        assert_rounding(twice, dml.gemm, a, b, precision="float32")


def test_a_sample_has_the_largest_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((40, 40)).astype(F32) for _ in "ab")
    wrong = a @ b
    wrong[7, 9] += F32(0.01)
    looked_at = []

    def watched(nest: Any, data_type: Any, inputs: Any, at: Array, unit: float) -> Any:
        looked_at.append(len(at))
        return ranges(nest, data_type, inputs, at, unit)

    monkeypatch.setattr(beyond, "ranges", watched)
    with pytest.raises(AssertionError, match=r"beyond rounding, .*at \[7, 9\]"):
        assert_rounding(wrong, dml.gemm, a, b, sample=4)
    assert sum(looked_at) <= 4


def test_other_precisions_and_samples_are_refused() -> None:
    x = np.ones(2, F32)
    with pytest.raises(ValueError, match="precision is 'half'; it must be one of 'float32', 'tf32', 'bfloat16', 'float16'"):
        assert_rounding(x, dml.element_wise_abs, x, precision="half")
    with pytest.raises(ValueError, match="sample is 0; it must be at least 1"):
        assert_rounding(x, dml.element_wise_abs, x, sample=0)
