"""Eager calls of a known kind, which check only addresses and numbers: they have the results of the first call."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml.devices import link, spare
from anydml.functional.describing import described
from anydml.kernels.code import llvm

Array = NDArray[Any]
pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="nothing can be compiled")
SIXTEEN = np.arange(16, dtype=np.float32)


def known(device: dml.Device) -> int:
    return len(device.calls)


def test_a_second_call_of_a_kind_is_made_at_once() -> None:
    device = dml.Device(threads=1)
    first = dml.element_wise_add(SIXTEEN, SIXTEEN, device=device)
    assert known(device) == 1
    again = dml.element_wise_add(SIXTEEN[::-1].copy(), SIXTEEN, device=device)
    assert known(device) == 1
    assert first.tolist() == (2 * SIXTEEN).tolist()  # and has not been overwritten
    assert again.tolist() == [15.0] * 16
    dml.element_wise_add(SIXTEEN[::2], SIXTEEN[:8], device=device)
    dml.element_wise_add(SIXTEEN[:8], SIXTEEN[:8], device=device)
    assert known(device) == 3
    assert dml.element_wise_add(SIXTEEN[1::2], SIXTEEN[:8], device=device).tolist() == [1, 4, 7, 10, 13, 16, 19, 22]


def test_sizes_that_broadcast() -> None:
    device = dml.Device(threads=1)
    for factor in (1, 2):
        row, column = factor * SIXTEEN, factor * SIXTEEN[:3, None]
        assert (dml.element_wise_multiply(row, column, device=device) == row * column).all()
    assert known(device) == 1


def test_what_no_desc_can_express_is_copied_each_time() -> None:
    device = dml.Device(threads=1)
    for factor in (1, 2):
        made = dml.element_wise_add((factor * SIXTEEN)[::-1], factor * SIXTEEN, device=device)
        assert made.tolist() == [factor * 15.0] * 16
        with pytest.raises(dml.BindingError):
            dml.element_wise_add(SIXTEEN, SIXTEEN.astype(">f4" if np.little_endian else "<f4"), device=device)
    assert known(device) == 1  # a refused call is not kept


def test_outputs_that_are_given() -> None:
    device, out = dml.Device(threads=1), np.zeros(16, np.float32)
    for factor in (1, 2, 3):
        assert dml.element_wise_add(factor * SIXTEEN, SIXTEEN, out=out, device=device) is out
        assert out.tolist() == ((factor + 1) * SIXTEEN).tolist()
    assert known(device) == 1
    fixed = out.copy()
    fixed.flags.writeable = False
    with pytest.raises(dml.BindingError, match="is read-only"):
        dml.element_wise_add(SIXTEEN, SIXTEEN, out=fixed, device=device)
    memory = np.arange(24, dtype=np.float32)
    with pytest.raises(dml.BindingError, match="shares memory with"):
        dml.element_wise_add(SIXTEEN, memory[:16], out=memory[4:20], device=device)
    dml.element_wise_add(memory[:16], memory[:16], out=memory[:16], device=device)  # in place
    assert memory.tolist() == [*range(0, 32, 2), *range(16, 24)]
    back = np.zeros(16, np.float32)
    for _ in range(2):
        dml.element_wise_add(SIXTEEN, SIXTEEN, out=back[::-1], device=device)
        assert back.tolist() == (2 * SIXTEEN[::-1]).tolist()
    with pytest.raises(dml.BindingError, match="where the result is"):
        dml.element_wise_add(SIXTEEN, SIXTEEN, out=np.zeros(15, np.float32), device=device)
    assert known(device) == 3


def test_numbers_count_by_their_bits() -> None:
    device = dml.Device(threads=1)
    zeros = np.array([-0.0, 0.0], np.float32)
    for _ in range(2):
        for number in (0.0, -0.0, 1.5, math.nan, math.inf, 1e-45, 0.1):
            made = dml.element_wise_add(zeros, number, device=device)
            assert made.tobytes() == np.add(zeros, np.float32(number)).tobytes(), number
    assert known(device) == 1
    small = np.array([1, 2], np.int8)
    for _ in range(2):
        assert dml.element_wise_add(small, 3, device=device).tolist() == [4, 5]
        with pytest.raises(dml.BindingError, match="does not fit int8"):
            dml.element_wise_add(small, 300, device=device)


def test_truths_are_taken_as_they_are() -> None:
    truths = np.array([True, False, True])
    for _ in range(2):
        assert dml.element_wise_logical_not(truths).tolist() == [0, 1, 0]


def test_attributes_tell_calls_apart() -> None:
    x = np.array([-2, -0.0, 2], np.float32)
    for low in (-1.0, 0.0, -0.0, -1.0):
        assert dml.element_wise_clip(x, None, low, 1.0).tobytes() == np.array([low, max(low, -0.0), 1], np.float32).tobytes()


def test_elements_left_open_are_decided_each_time() -> None:
    device, x = dml.Device(threads=1), np.ldexp(np.arange(4097, 4161, dtype=np.float32), -12)
    for _ in range(3):
        made = dml.element_wise_pow(x, np.full(64, 2, np.float32), device=device)
        assert made.tolist() == np.square(x.astype(np.float64)).astype(np.float32).tolist()
    assert known(device) == 1


X, BYTES = SIXTEEN.reshape(4, 4), np.arange(16, dtype=np.int8).reshape(4, 4)
SQUARE, WIDE = (np.linspace(-1, 1, n * n, dtype=np.float32).reshape(n, n) for n in (32, 128))
IMAGES, FILTERS = (np.linspace(-1, 1, n, dtype=np.float32).reshape(-1, 4, k, k) for n, k in ((2 * 4 * 81, 9), (4 * 4 * 9, 3)))
GRAPH = dml.graph(lambda x: dml.activation_relu(dml.gemm(x, X)), x=dml.TensorDesc("FLOAT32", (4, 4)))
# kernels of one step and of several, with data rules, with several outputs, and NumPy's
CALLS: dict[str, Callable[[], Any]] = {
    "one step": lambda: dml.element_wise_add(SIXTEEN, 2.0),
    "attributes": lambda: dml.mean_variance_normalization1(X, axes=(1,)),
    "two steps": lambda: dml.gemm(X, X, SIXTEEN[:4]),
    "convolution": lambda: dml.convolution(X[None, None], X[None, None, :3, :3]),
    "several outputs": lambda: dml.top_k1(X, k=2, axis=1),
    "scalars": lambda: dml.element_wise_quantize_linear(X, np.float32(0.5), np.int8(0)),
    "a list": lambda: dml.join([X, X], axis=0),
    "lists of results": lambda: dml.split(X, axis=0, output_sizes=[(2, 4), (2, 4)]),
    "pieces": lambda: dml.padding(X, start_padding=(1, 1), end_padding=(1, 1)),
    "a slice": lambda: dml.slice1(X, (0, 0), (2, 2)),
    "a reversed slice": lambda: dml.slice1(X[::-1], (0, 0), (2, 2)),
    "integers": lambda: dml.matrix_multiply_integer(BYTES, BYTES, 1),
    "scales": lambda: dml.quantized_linear_matrix_multiply(BYTES, 0.1, None, BYTES, np.float64(0.1), None, SIXTEEN[1:5], None),
    "scratch of 100 KB": lambda: dml.gemm(SQUARE, SQUARE),
    "scratch of 1 MB": lambda: dml.gemm(WIDE, WIDE),
    "several images": lambda: dml.convolution(IMAGES, FILTERS),
    "a graph": lambda: GRAPH.run({"x": X}).values(),
}
FEW = {"scales": 47, "scalars": 24, "pieces": 24, "lists of results": 18, "a reversed slice": 20}  # calls of Python; 15 else


@pytest.mark.parametrize(("name", "call"), CALLS.items(), ids=CALLS)
def test_a_known_call_takes_few_calls_of_python(name: str, call: Callable[[], Any]) -> None:
    """The result is that of the first call. Formerly, a product took 130 calls, then 60 where scratch was made each time."""
    first, calls = call(), 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    call()
    sys.setprofile(count)
    try:
        again = call()
    finally:
        sys.setprofile(None)
    assert calls <= FEW.get(name, 15)
    for x, y in zip(first, again, strict=True):
        np.testing.assert_array_equal(x, y, strict=True)


def kept_bytes() -> int:
    return sum(calls.nbytes * len(calls) for x in spare._large.values() if (calls := x()) is not None)


def test_scratch_that_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where calls of many kinds together keep too much, the oldest ones make theirs again."""
    device = dml.Device(threads=1)
    monkeypatch.setattr(spare, "KEPT", 1 << 20)
    spare._large.clear()
    sizes = range(40, 60)
    for _ in range(3):
        for n in sizes:
            whole = np.ones((n, n), np.float32)
            assert (dml.gemm(whole, whole, device=device) == n).all()
            assert kept_bytes() <= spare.KEPT
    assert 0 < len(spare._large) < len(sizes)
    assert known(device) == len(sizes)
    before = len(spare._large)
    calls = spare.Spare(spare.SMALL + 1)
    calls.give(link.Tables((), int, (), link.NOTHING, {}, []))
    assert len(spare._large) == before + 1
    del calls
    assert len(spare._large) == before


def test_a_graph_that_is_run_again_gives_new_arrays() -> None:
    made = dml.graph(
        lambda x, y: (dml.element_wise_add(x, y), dml.activation_relu(x)), x=GRAPH.inputs["x"], y=GRAPH.inputs["x"]
    )
    first = made.run({"x": X, "y": X})
    again = made.run({"x": -X, "y": X})
    assert first["output_0"].tolist() == (X + X).tolist()
    assert first["output_1"].tolist() == X.tolist()
    assert not any(again["output_0"].flat)
    assert not any(again["output_1"].flat)
    assert made.run({"x": X.T, "y": X})["output_0"].tolist() == (X + X.T).tolist()
    for wrong in ({"x": X}, {"x": X, "y": X, "z": X}, {"x": X.astype(np.float64), "y": X}, {"x": X[:2], "y": X}):
        with pytest.raises(dml.BindingError):
            made.run(wrong)


def test_a_scale_that_breaks_a_rule_is_refused_each_time_and_writes_nothing() -> None:
    out = np.full((4, 4), 77, np.int8)
    for scale in (1.0, 0.0, 1.0, 0.0, math.nan):
        if scale == 1:
            dml.quantized_linear_matrix_multiply(BYTES, 1.0, None, BYTES, 1.0, None, scale, None, out=out)
            assert out[0].tolist() == [56, 62, 68, 74]
        else:
            out[...] = 77
            with pytest.raises(dml.DataError, match=r"^output_scale is"):
                dml.quantized_linear_matrix_multiply(BYTES, 1.0, None, BYTES, 1.0, None, scale, None, out=out)
            assert (out == 77).all()


def test_attributes_that_are_equal_but_not_the_same_are_told_apart() -> None:
    for _ in range(2):
        assert dml.reduce(X, "SUM", axes=(1,)).shape == (4, 1)
        with pytest.raises(dml.BindingError, match="axes"):
            dml.reduce(X, "SUM", axes=(1.0,))  # type: ignore[arg-type]
        with pytest.raises(dml.BindingError, match="alpha takes a number"):
            dml.activation_elu(X, {})  # type: ignore[arg-type]  # which has no hash


def test_threads_do_not_share_a_table() -> None:
    device = dml.Device(threads=1)
    made = dml.graph(lambda x: dml.element_wise_add(x, 1.0), x=dml.TensorDesc("FLOAT32", (16,)))

    def many(k: int) -> bool:
        x = np.full(16, k, np.float32)
        square = np.full((40, 40), k, np.float32)
        return all(
            (dml.element_wise_exp(x - k, device=device) == 1).all()
            and (dml.element_wise_add(x, 1.0, device=device) == k + 1).all()
            and (made.run({"x": x}, device)["output"] == k + 1).all()
            and (dml.gemm(square, square, device=device) == 40 * k * k).all()
            for _ in range(500)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(many, range(4)))


def test_a_call_that_is_described_is_not_executed() -> None:
    dml.activation_relu(SIXTEEN)
    dml.activation_relu(SIXTEEN)
    desc, inputs, _ = described(dml.activation_relu, SIXTEEN)
    assert type(desc).__name__ == "ActivationRelu"
    assert [*inputs] == ["input_tensor"]
    reduced: Any = described(dml.reduce, SIXTEEN, function="MAX").desc
    assert reduced.function.name == "MAX"


def test_elements_left_open_of_sizes_that_broadcast() -> None:
    device, two = dml.Device(threads=1), np.array([2], np.float32)
    ties = np.ldexp(np.arange(4097, 4113, dtype=np.float32), -12).reshape(2, 8)
    for _ in range(3):
        made = dml.element_wise_pow(ties, two, device=device)
        assert made.tolist() == np.square(ties.astype(np.float64)).astype(np.float32).tolist()
    assert known(device) == 1
