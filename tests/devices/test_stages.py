"""Elements that begin at a later stage have the same bits: the stored digests.

Otherwise, second stages would be tested with few elements: one in thousands to millions of random ones.
"""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.kernels.code import llvm
from anydml.kernels.evaluate.tally import TALLY
from anydml.schema.enumerations import ReduceFunction
from digest_cases import STORED, cases, result
from every_kernel import SOAK, Ran
from quantised_graphs import INT8, UINT8, Recipe, make

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
PARTS = 16
LATER = ("second", "third", "exact")


@pytest.mark.parametrize("part", range(PARTS))
def test_results_are_the_same_from_a_later_stage_on(part: int, ran: Ran) -> None:
    """A fifth of the cases; stages and instruction sets take turns. In `make soak`, all combinations."""
    stored, count = json.loads(STORED.read_text()), 0
    devices = [
        dml.Device(threads=1, stage="second", feature_level="EXTENDED"),
        dml.Device(threads=1, stage="third", feature_level="EXTENDED"),
        dml.Device(isa="generic", threads=1, stage="exact", feature_level="EXTENDED"),
    ]
    for at, case in enumerate(cases(part, PARTS)):
        for device in devices if SOAK > 1 else devices[(at // 5 + part) % 3 :][: at % 5 == 0]:
            assert result(case, device) == stored[case.name][1], f"{case.name} on {device}"
            count += 1
    ran(count, 10)


T = dml.TensorDesc("FLOAT32", (3, 7, 40))
ROW = dml.TensorDesc("FLOAT32", (3, 7, 1))
KINDS: dict[str, Any] = {
    "elementwise:compiled": dml.ElementWiseExp(input_tensor=T, output_tensor=T),
    "reduce:compiled": dml.Reduce(input_tensor=T, output_tensor=ROW, function=ReduceFunction.SUM, axes=(2,)),
    "contract.floats:compiled": dml.Gemm(
        a_tensor=dml.TensorDesc("FLOAT32", (30, 40)),
        b_tensor=dml.TensorDesc("FLOAT32", (40, 50)),
        output_tensor=dml.TensorDesc("FLOAT32", (30, 50)),
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_elements_begin_there(name: str) -> None:
    """All elements are evaluated exactly; if there is a second stage, only a few are."""
    desc = KINDS[name]
    generator = np.random.default_rng(5)
    inputs = {
        t.name: generator.normal(size=t.desc.sizes).astype(np.float32) for t in desc.tensors() if t.name != "output_tensor"
    }
    size = int(np.prod(desc.output_tensor.sizes))
    decided, results = {}, []
    for stage in ("first", *LATER):
        compiled = dml.Device(threads=1, stage=stage).compile(desc)
        assert compiled.kernel_name == name
        y = np.empty(desc.output_tensor.sizes, np.float32)
        before = TALLY.elements
        compiled.bind(**inputs, output_tensor=y).execute()
        decided[stage] = TALLY.elements - before
        results.append(y.tobytes())
    assert len(set(results)) == 1
    assert decided["first"] <= decided["second"] < size // 4
    assert decided["third"] == 0
    assert decided["exact"] == size


@pytest.mark.parametrize("stage", LATER)
def test_regions_of_graphs_are_the_same(stage: str) -> None:
    case = make(Recipe(UINT8, INT8, UINT8, (1, 3, 9, 9), (3, 3, 3), padding=1, clamp="relu"), 3)
    found = []
    for which in ("first", stage):
        compiled: Any = dml.Device(threads=1, stage=which).compile(case.desc)
        assert [part.kernel_name for part in compiled.call.parts] == ["contract.quantised:compiled"]
        y = np.zeros(case.sizes, case.dtype)
        compiled.bind(**case.inputs, y=y).execute()
        found.append(y.tobytes())
    assert found[0] == found[1]


def test_a_device_says_its_stage_and_keeps_it() -> None:
    device = dml.Device(threads=1, stage="second")
    assert "from the second stage on" in repr(device)
    for other in (copy.copy(device), pickle.loads(pickle.dumps(device))):
        assert repr(other) == repr(device)


@pytest.mark.parametrize("stage", ["fourth", "", None])
def test_there_are_no_others(stage: str) -> None:
    with pytest.raises(dml.UnsupportedError, match="the stages are first, second, third, exact"):
        dml.Device(stage=stage)
