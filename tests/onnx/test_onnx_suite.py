"""ONNX's own tests: everything that is not refused has ONNX's results."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx.backend.test.case.node as nodes
import pytest

from every_kernel import SOAK, Ran

sys.path.append(str(Path(__file__).parents[2] / "tools"))
import onnx_suite

SLOW = ("averagepool", "maxpool", "lppool", "attention", "flexattention", "convtranspose", "resize")  # to be made or to be run
ROUNDED = ("test_attention_4d_causal_fp16_expanded", "test_dft_inverse", "test_dft_inverse_opset19")
"""Tests whose results are less exact than ours: because of sums in FLOAT16, or by 2e-7 from an exact result of 0."""


def checked(cases: list[Any]) -> dict[str, int]:
    """The number of tests with each outcome; none may fail."""
    counts = {onnx_suite.PASSED: 0, onnx_suite.REFUSED: 0}
    for case in cases:
        found = onnx_suite.outcome(case)
        if case.name in ROUNDED:
            continue
        assert found.kind != onnx_suite.FAILED, f"{case.name}: {found.reason}"
        counts[found.kind] += 1
        if found.kind == onnx_suite.REFUSED:
            assert all(r.operator and r.reason for r in found.refusals if r.node), case.name
    return counts


@pytest.mark.filterwarnings("ignore")  # warnings of the tests' own arithmetic
def test_node_suite(ran: Ran) -> None:
    """By default, the tests of a seventh of the operators; in `make soak`, all."""
    if SOAK > 1:
        cases = onnx_suite.cases("node")
    else:
        names = sorted(path.stem for path in Path(nodes.__path__[0]).glob("[a-z]*.py"))
        chosen = [name for name in names if name not in SLOW][3::7]
        with np.errstate(all="ignore"):
            for name in chosen:
                importlib.import_module(f"{nodes.__name__}.{name}")
        modules = {f"test_{name.replace('_', '')}" for name in chosen}
        cases = [
            c for c in nodes._NodeTestCases if any(c.name.replace("_", "").startswith(m.replace("_", "")) for m in modules)
        ]
    counts = checked(cases)
    ran(counts["passed"], 1530 if SOAK > 1 else 100)


@pytest.mark.parametrize(("suite", "least"), [("simple", 7), ("pytorch-operator", 30), ("pytorch-converted", 50)])
def test_other_suites(suite: str, least: int, ran: Ran) -> None:
    """By default, every fourth test of those that PyTorch exported."""
    cases = onnx_suite.cases(suite)
    if SOAK == 1 and suite != "simple":
        cases = cases[1::4]
        least //= 4
    ran(checked(cases)["passed"], least)
