"""The benchmarks' parts that reach into kernels, which nothing else runs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import named, targets

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import contraction_cases, contractions, limits

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None or not targets(), reason="nothing can be compiled")


def test_the_limit_of_runs_copies_them() -> None:
    """Of 64 rows with 128 bytes each, which lie apart."""
    calls, count = limits.runs(np.zeros((64, 64), np.float32)[:, :32])
    assert count == 64 * 128
    assert len(calls) == len(limits.AHEAD)
    for call in calls.values():
        call()


def test_the_limit_of_multiply_adds_is_nothing_else() -> None:
    made = limits.multiply_adds()
    if made is None:
        pytest.skip("this processor has no fused multiply-add")
    target = named(None)
    assert target is not None
    (loop,) = [b for b in engine.assembly(limits.multiply_add_loop(target), target).split("\n.L") if "cmpq" in b or "b.ne" in b]
    inside = [line.split() for line in loop.splitlines()[1:] if line.startswith("\t")]
    inside = inside[: next(i for i, line in enumerate(inside) if line[0].startswith(("j", "b."))) + 1]
    multiplied = [line for line in inside if line[0].startswith(("vfmadd", "fmla"))]
    assert len(multiplied) == limits.chains(target)
    assert len(inside) <= len(multiplied) + 3  # which count, compare and branch
    assert not any("(" in " ".join(line) for line in inside), "the loop reads memory"
    made[0]()


def test_the_contractions_that_are_timed_are_the_same() -> None:
    a, b = contraction_cases.matrices(9, 20, 30)
    ours = contraction_cases.product(a, b, threads=2)
    contractions._agree({"ours": ours, "NumPy": contraction_cases.numpy_product(a, b)})
    layer = contraction_cases.Layer(4, 6, 3, 7, 2, 2)
    x, f = contraction_cases.layer_data(layer)
    theirs = contraction_cases.onnxruntime_convolution(layer, x, f)
    assert theirs
    contractions._agree({"ours": contraction_cases.convolution(layer, x, f), **theirs})
    wrong = contraction_cases.onnxruntime_convolution(layer, -x, f)
    with pytest.raises(AssertionError):
        contractions._agree({"ours": contraction_cases.convolution(layer, x, f), **wrong})
