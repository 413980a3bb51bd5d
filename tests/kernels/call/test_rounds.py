"""Long calls in rounds: signals are handled between rounds, and the bits are those of one call."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from math import prod
from typing import Any

import numpy as np
import pytest

import anydml as dml
from agreement import expected
from anydml import TensorDesc, check
from anydml.devices.compiled import CompiledOperator
from anydml.devices.link import link
from anydml.kernels.call.rounds import in_rounds, shares
from anydml.kernels.irregular import family as irregular
from anydml.kernels.irregular.loops import Loop
from anydml.kernels.irregular.loops import rounds as rounds_of
from anydml.kernels.kernel import Decide, Lowered, Machine
from anydml.kernels.nests import family as nests
from anydml.kernels.order import family as order
from anydml.kernels.problem import problem_of
from anydml.kernels.reduce import family as rows
from anydml.kernels.reduce import tuning as reduce_tuning
from anydml.kernels.windows import family as windows
from anydml.schema.enumerations import ReduceFunction
from every_kernel import run
from tuned import tuned


def test_rounds_go_through_all_units_once() -> None:
    def units_of(first: int, end: int) -> Any:
        return [[(first, end)]]  # instead of steps

    for count in range(1, 40):
        for most in range(1, 12):
            found: list[Any] = [*in_rounds(count, most, units_of)]
            assert len(found) <= 2
            units: list[int] = []
            for rounds in found:
                ((((first, end),),),) = rounds.phases
                for turn in range(rounds.times[0] if rounds.times else 1):
                    ((((moved, _),),),) = rounds.moved[0] if rounds.moved else rounds.phases
                    step = moved - first
                    units += range(first + turn * step, end + turn * step)
            assert units == list(range(count)), (count, most)
            for threads in range(1, 9):
                parts = shares(3, 3 + count, threads)
                assert [u for first, end in parts for u in range(first, end)] == list(range(3, 3 + count))
                assert len(parts) == min(threads, count)


@pytest.mark.parametrize("turns", [(), (7,), (5, 7), (3, 1, 11), (2, 30, 3), (101, 2)])
def test_rounds_of_loops_keep_their_order(turns: tuple[int, ...]) -> None:
    """Units that run twice run in order the second time, so that the last of several updates remains."""
    strides = [int(np.prod(turns[k + 1 :])) for k in range(len(turns))]
    loops = [Loop(n, (s,)) for n, s in zip(turns, strides, strict=True)]
    for most in range(1, 120):
        times, inner = rounds_of(loops, most)
        assert bool(times) == (prod(turns) > most)
        assert prod(loop.turns for loop in inner) < 2 * most
        last = {unit: at for at, unit in enumerate(units([*times, *inner]))}
        assert sorted(last) == sorted(last, key=last.__getitem__) == list(range(prod(turns)))


def units(loops: list[Loop]) -> list[int]:
    found = [0]
    for loop in loops:
        found = [u + i * loop.strides[0] for u in found for i in range(loop.turns)]
    return found


def pooled(operator: Any, x: np.ndarray[Any, Any], **fields: Any) -> Any:
    window = fields.setdefault("window_size", (3, 4))
    sizes = (*x.shape[:2], *(n - k + 1 for n, k in zip(x.shape[2:], window, strict=True)))
    return operator(
        input_tensor=TensorDesc.of(x),
        output_tensor=TensorDesc("FLOAT32", sizes),
        strides=(1, 1),
        start_padding=(0, 0),
        end_padding=(0, 0),
        **fields,
    )


def reduced(operator: Any, axis: int, **fields: Any) -> Any:
    sizes = tuple(1 if d == axis else n for d, n in enumerate(X.shape))
    mapped = operator is dml.ActivationSoftmax1
    t = TensorDesc("UINT32" if fields.get("function") == "ARGMAX" else "FLOAT32", X.shape if mapped else sizes)
    return operator(input_tensor=TensorDesc.of(X), output_tensor=t, axes=(axis,), **fields)


def normalised(channels: int) -> Any:
    image, parameters = TensorDesc.of(X), TensorDesc("FLOAT32", (1, channels, 1, 1))
    return dml.BatchNormalizationTraining(
        input_tensor=image, scale_tensor=parameters, bias_tensor=parameters, output_tensor=image, output_mean_tensor=parameters,
        output_variance_tensor=parameters,
    )  # fmt: skip


def scattered(axis: int) -> Any:
    t, strides = TensorDesc.of(X), (1, 0, 0, 0) if axis == 0 else None
    indices = TensorDesc("UINT32", X.shape, strides=strides)
    return dml.ScatterElements(input_tensor=t, indices_tensor=indices, updates_tensor=t, output_tensor=t, axis=axis)


X = np.random.default_rng(5).standard_normal((3, 5, 9, 11)).astype(np.float32)
INDICES = np.random.default_rng(6).integers(0, 1 << 20, X.shape, np.uint32)
CASES: dict[str, tuple[Any, Callable[[], Any]]] = {
    "largest": (windows, lambda: pooled(dml.MaxPooling, X)),
    "whole images": (windows, lambda: pooled(dml.MaxPooling, X, window_size=(9, 11))),
    "means": (windows, lambda: pooled(dml.AveragePooling, X, include_padding=False)),
    "counted": (nests, lambda: pooled(dml.AveragePooling, X, include_padding=False)),
    "lengths": (windows, lambda: pooled(dml.LpPooling, X, p=2)),
    "sorted": (
        order,
        lambda: dml.TopK(
            input_tensor=TensorDesc.of(X),
            output_value_tensor=TensorDesc("FLOAT32", (3, 5, 9, 4)),
            output_index_tensor=TensorDesc("UINT32", (3, 5, 9, 4)),
            axis=3,
            k=4,
        ),
    ),
    "sums": (rows, lambda: reduced(dml.Reduce, 3, function="SUM")),
    "places": (rows, lambda: reduced(dml.Reduce, 2, function="ARGMAX")),
    "rows across": (rows, lambda: reduced(dml.Reduce, 1, function="SUM")),
    "softmax": (rows, lambda: reduced(dml.ActivationSoftmax1, 3)),
    "rows that are staged": (rows, lambda: reduced(dml.ActivationSoftmax1, 1)),
    "outputs in order": (rows, lambda: normalised(5)),
    "scattered": (irregular, lambda: scattered(3)),
    "scattered rows": (irregular, lambda: scattered(0)),
}
INPUTS = {
    "outputs in order": {"scale_tensor": X[:1, :, :1, :1].copy(), "bias_tensor": X[1:2, :, :1, :1].copy()},
    "scattered": {"indices_tensor": INDICES % 11, "updates_tensor": X[:, :, ::-1].copy()},
    "scattered rows": {
        "indices_tensor": np.broadcast_to(INDICES[:, :1, :1, :1] % 3, X.shape),
        "updates_tensor": X[::-1].copy(),
    },
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_long_calls_are_cut(monkeypatch: pytest.MonkeyPatch, name: str, threads: int) -> None:
    """In rounds of steps, or by kernels that stop; both repeatedly give the bits of one call."""
    family, made = CASES[name]
    desc = made().as_newest()
    inputs = {"input_tensor": X, **INPUTS.get(name, {})}
    wanted = expected(desc, inputs)
    tuning = import_module(f"{family.__package__}.tuning")
    tuned(monkeypatch, tuning, **{limit: 0 for limit in ("alone", "short", "general") if limit in tuning.TUNING._fields})
    for budget in (1, 600):
        tuned(monkeypatch, tuning, budget=budget)
        lowered = family.lower(problem_of(check(desc)), Machine(None, threads))
        assert isinstance(lowered, Lowered)
        parts = sum(prod(rounds.times) for rounds in lowered.rounds)
        stops: list[int] = []
        if lowered.decide is not None:
            lowered = lowered._replace(decide=partial(noting, stops, lowered.decide))
        compiled = CompiledOperator(check(desc), name, link(lowered))
        outputs = {n: np.empty(y.shape, y.dtype) for n, y in wanted.items()}
        for _ in range(2):
            stops.clear()
            run(compiled, inputs, outputs)
            for output, y in wanted.items():
                assert outputs[output].tobytes() == y.tobytes(), output
            assert parts + len(stops) > 1


def noting(stops: list[int], decide: Decide, *args: Any) -> None:
    stops.append(1)
    decide(*args)


def again_and_again(sizes: tuple[int, ...], value: Any = 1, dtype: Any = np.float32) -> Any:
    return np.broadcast_to(np.array(value, dtype), sizes)


def mean(*sizes: int) -> tuple[Any, dict[str, Any]]:
    """The means of rows of equal elements, which take long."""
    x, y = again_and_again(sizes), np.empty((*sizes[:-1], 1), np.float32)
    desc = dml.Reduce(input_tensor=TensorDesc.of(x), output_tensor=TensorDesc.of(y), axes=(1,), function=ReduceFunction.AVERAGE)
    return desc, {"input_tensor": x, "output_tensor": y}


def updated() -> tuple[Any, dict[str, Any]]:
    t, many = TensorDesc("FLOAT32", (5, 3)), (1 << 31, 3)
    made = {"indices_tensor": again_and_again(many, 4, np.uint32), "updates_tensor": again_and_again(many)}
    descs = {name: TensorDesc.of(x) for name, x in made.items()}
    arrays = {"input_tensor": np.zeros((5, 3), np.float32), "output_tensor": np.empty((5, 3), np.float32), **made}
    return dml.ScatterElements(input_tensor=t, output_tensor=t, axis=0, **descs), arrays


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer that sends signals")
@pytest.mark.parametrize(
    ("kernel", "made"),
    [("reduce", lambda: mean(1 << 18, 1 << 20)), ("nests", lambda: mean(1 << 10, 1 << 26)), ("irregular", updated)],
)
def test_a_signal_ends_a_long_call(
    kernel: str, made: Callable[[], tuple[Any, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned(monkeypatch, reduce_tuning, longest=1 << 25)  # so that the longest are nests
    desc, arrays = made()
    compiled = dml.Device().compile(desc)
    assert compiled.kernel_name == f"{kernel}:compiled"
    bound = compiled.bind(**arrays)

    def ended(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ended)
    begun = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            bound.execute()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - begun < 5
