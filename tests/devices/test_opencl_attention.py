"""Attention on OpenCL devices: every stage has the CPU's bits, in one piece and in several, with ordinary and hostile data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anydml as dml
from agreement import bits
from anydml import UnsupportedError
from anydml.kernels.code import llvm
from anydml.kernels.opencl import platform
from anydml.kernels.opencl.attention import calls
from attention_cases import FORMS, MASKS, described, drawn, made
from every_kernel import SOAK, Ran

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")


@pytest.fixture(scope="module", params=["first", "second", "exact"] if SOAK > 1 else ["first"])  # drivers compile slowly
def there(request: pytest.FixtureRequest) -> dml.Device:
    try:
        return dml.Device("opencl", stage=request.param)
    except UnsupportedError as error:
        pytest.skip(str(error))


def compared(there: dml.Device, found: tuple[Any, Any, Any]) -> int:
    """The number of outputs, after a check that two executions have the CPU's bits."""
    inputs, outputs, fields = found
    desc = described(inputs, outputs, fields)
    both = []
    for device in (there, dml.Device("cpu")):
        compiled = device.compile(desc)
        assert device is not there or compiled.kernel_name == "attention:opencl"
        arrays = {name: np.full_like(x, 85) for name, x in outputs.items()}
        bound = compiled.bind(**inputs, **arrays)
        for _ in range(2):
            bound.execute()
        both.append(arrays)
    for name, x in both[0].items():
        np.testing.assert_array_equal(bits(x), bits(both[1][name]), f"{name}, {fields}")
    return sum(x.size for x in outputs.values())


ENDS = [np.full(4096, k, np.uint8) for k in range(251)]  # behind memory: what is read there is not what is written


@pytest.fixture(params=["blocks", "tiles"])
def computing(there: dml.Device, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[dml.Device]:
    """The device, whose products are those of a processor or of a GPU, and whose kernels write nothing behind their memory."""
    opened = platform.opened(there.machine.opencl)
    monkeypatch.setattr(opened, "is_processor", request.param == "blocks")
    allocate, made = opened.allocate, list[tuple[Any, int]]()

    def with_end(nbytes: int) -> Any:
        behind = ENDS[len(made) % len(ENDS)]
        made.append((allocate(nbytes + behind.nbytes), nbytes))
        opened.write(made[-1][0], behind, nbytes)
        return made[-1][0]

    monkeypatch.setattr(opened, "allocate", with_end)
    yield there
    assert made
    for k, (memory, nbytes) in enumerate(made):
        opened.read(memory, found := np.empty_like(ENDS[0]), nbytes)
        assert (found == ENDS[k % len(ENDS)]).all(), f"behind {nbytes} bytes"


def everything(seed: int, **sizes: int) -> tuple[Any, Any, dict[str, Any]]:
    """Attention with a past of some length, a mask, biases and terms, the second time with other sizes by the same kernels."""
    return made(np.random.default_rng(seed), "lengths", "BOOLEAN", bias=True, term=True, present=True, **sizes)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow")
def test_outputs_have_the_bits_of_the_cpu(computing: dml.Device, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel, with ordinary and with hostile data, which reach every stage."""
    there = computing
    many = 70 if there.machine.stage != "exact" else 7  # queries: there Python computes each element, twice
    outputs = compared(there, everything(1, queries=many, keys=90, size=80, value_size=66, heads=1))
    outputs += compared(there, everything(3, queries=4, keys=9, value_size=66))  # no batch is behind the last
    for seed in (2, 4, 6, 7):
        few = everything(seed, batch=1, queries=4, keys=9, value_size=66, heads=1)
        outputs += compared(there, drawn(np.random.default_rng(seed), few))
    with monkeypatch.context() as patched:
        patched.setattr(calls, "SCRATCH", 60_000)  # some queries at a time
        outputs += compared(there, drawn(np.random.default_rng(4), everything(4, queries=50, heads=1)))
    ran(outputs, 10_000 if many == 70 else 2_000)


# in parts, so that a soak goes on where it was stopped
@pytest.mark.parametrize("part", range(7 * (SOAK - 1) or 1))
# each form and mask has a kernel, which drivers compile for seconds; the test above runs one of them in `make test`
@pytest.mark.skipif(SOAK == 1, reason="drivers compile for seconds: in `make soak`")
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow")
def test_every_form_and_mask_has_the_bits_of_the_cpu(part: int, computing: dml.Device, ran: Ran) -> None:
    """Small and larger sizes, but where Python computes all elements, and ordinary and hostile data."""
    outputs, exact = 0, computing.machine.stage == "exact"
    for case in range(10 * part, 10 * part + 10):
        rng = np.random.default_rng([39, case])
        large = case % 3 != 0 and not exact
        most = {"queries": 40, "keys": 90, "size": 70, "value_size": 70} if large else {"queries": 5, "keys": 12}
        sizes: dict[str, Any] = {name: int(rng.integers(1, n)) for name, n in most.items()}
        sizes |= {"heads": int(rng.integers(1, 3)), "groups": int(rng.integers(1, 3)), "batch": int(rng.integers(1, 3))}
        parts = {"bias": case % 3 == 0, "term": case % 4 == 0, "present": case % 2 == 0}
        dtype = np.float16 if case // 35 % 2 else np.float32
        found = made(rng, FORMS[case % 7], MASKS[case % 5], dtype, **sizes, **parts)
        outputs += compared(computing, drawn(rng, found) if case % 6 else found)
    ran(outputs, 1_000)
