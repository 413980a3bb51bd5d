"""Rows whose elements the first bounds leave undecided, and guards that only they reach."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from agreement import bits
from anydml import DataType, TensorDesc, operators
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.code.values import Body, Kind
from anydml.kernels.elementwise.levels import stored_quickly
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.reduce import emit, softmax
from anydml.kernels.reduce import walk as walks
from anydml.kernels.reduce.walk import RowWalk
from anydml.kernels.reference import evaluated
from anydml.kernels.undecided.state import UndecidedLists

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")


def agrees(operator: str, x: NDArray[np.float32], sizes: tuple[int, ...], **fields: Any) -> None:
    """The result is that of the reference."""
    tensors = {name: TensorDesc(DataType.FLOAT32, n) for name, n in (("input_tensor", x.shape), ("output_tensor", sizes))}
    kind: Any = operators.find(operator)
    desc = kind(**tensors, axes=(1,), **fields)
    compiled = dml.Device(threads=1).compile(desc)
    assert compiled.kernel_name == "reduce:compiled"
    y = np.zeros(sizes, np.float32)
    compiled.bind(input_tensor=x, output_tensor=y).execute()
    assert bits(y).tobytes() == bits(evaluated(desc, {"input_tensor": x})["output_tensor"]).tobytes()


def test_a_call_without_undecided_elements_ends_with_its_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def decided(*_: object) -> None:
        raise AssertionError("the call has stopped")

    monkeypatch.setattr(UndecidedLists, "decide", decided)
    agrees("REDUCE", np.ones((3, 7), np.float32), (3, 1), function="AVERAGE")


def test_elements_whose_bounds_meet_a_boundary_are_undecided_whatever_their_logarithm_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a logarithm that needs no guard, with a bound that is far too wide; all elements go the second way."""
    closely, quickly = softmax.closely, stored_quickly

    def unguarded(x: Number, m: Number, log: Number, *rest: Any) -> Any:
        sure = x.body.constant(Kind("i1", x.wide().kind.lanes), False)
        return closely(x, m, replace(log, guard=sure), *rest)

    monkeypatch.setattr(softmax, "closely", unguarded)
    monkeypatch.setattr(emit, "stored_quickly", lambda *given, **more: (quickly(*given, **more)[0], "-1"))
    monkeypatch.setattr(softmax, "SLACK", 2.0**40)
    x = np.random.default_rng(3).standard_normal((3, 7)).astype(np.float32)
    agrees("ACTIVATION_LOG_SOFTMAX1", x, x.shape)


def test_a_difference_on_a_tie_beside_a_logarithm_of_nearly_0() -> None:
    """2^24 + 1 is halfway between two float32; e^-(2^24) is far below what moves it from there."""
    x = np.array([[1, -(2.0**24)], [3, -(2.0**24)]], np.float32)
    agrees("ACTIVATION_LOG_SOFTMAX1", x, x.shape)


# -2^24 - 1 is a tie. The sum of e^(x - 1) of the others is e^-1024 log 2 times it, but for the parts given
AROUND_THE_LIMIT = {
    2.0**-18: (-692.149169921875, -698.3662109375, -708.442138671875, -718.4149169921875),
    2.0**-22: (-692.149169921875, -698.3679809570312, -709.5095825195312, -719.2357788085938),
    -(2.0**-22): (-692.149169921875, -698.3682250976562, -709.2545166015625, -720.517578125),
    -(2.0**-18): (-692.149169921875, -698.3700561523438, -708.3041381835938, -718.3814697265625),
}


@pytest.mark.parametrize("part", AROUND_THE_LIMIT)
def test_a_tie_beside_which_it_is_close_whether_a_logarithm_counts(part: float, left: list[int]) -> None:
    """It is decided from a part of 2^-20 on, and nearer the limit in Python."""
    x = np.array([[1, -(2.0**24), *AROUND_THE_LIMIT[part]]], np.float32)
    agrees("ACTIVATION_LOG_SOFTMAX1", x, x.shape)
    assert sum(left) == (abs(part) < 2.0**-20)


def test_a_sum_that_is_not_exact_is_undecided_where_it_is_taken_for_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the sum is on a tie, but for the last term."""
    monkeypatch.setattr(walks, "refined", lambda *_: None)
    x = np.array([[1, 1 + 2.0**-23, last, 0] for last in (2.0**-80, -(2.0**-80), 0)], np.float32)
    agrees("REDUCE", x, (3, 1), function="AVERAGE")


def test_a_difference_of_a_number_and_itself_keeps_its_guard() -> None:
    body = Body(targets()[0])
    x = body.constant(Kind("double", 4), 1.0)
    guard = x.compared("ogt", 2.0)
    walk: Any = SimpleNamespace(over={}, body=body, number=lambda _: Number(body, lambda: x, guard=guard))
    found = RowWalk._item(walk, 0, "sub", (0, 0), None)
    assert isinstance(found, Number)
    assert found.guard is guard
