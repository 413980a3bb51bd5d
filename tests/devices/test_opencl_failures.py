"""OpenCL calls that do not end: interrupts and full memory. And what ANYDML_VERBOSE and `anydml info` say of devices."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml import UnsupportedError, config
from anydml.devices import families
from anydml.kernels.code import llvm
from anydml.kernels.opencl import platform
from anydml.kernels.opencl.calls import Workspace

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
Array = NDArray[Any]
X = np.random.default_rng(0).standard_normal((1, 1, 6, 8), np.float32)


@pytest.fixture(scope="module")
def there() -> dml.Device:
    try:
        return dml.Device("opencl")
    except UnsupportedError as error:
        pytest.skip(str(error))


# Runs each call twice: an interrupt comes while its fourth piece is on the device, then it runs whole, on other inputs.
INTERRUPTED = """
import signal
import numpy as np
import anydml as dml
from anydml.kernels.opencl import calls, platform
from anydml.kernels.opencl.contract import calls as products

calls.UNITS = products.UNITS = 1
waits, wait = 0, platform.Opened.wait

def interrupting(opened):
    global waits
    waits += 1
    if waits == 4:
        signal.raise_signal(signal.SIGINT)
    wait(opened)

platform.Opened.wait = interrupting
device, r = dml.Device("opencl"), np.random.default_rng(0)

def relu(x):
    return dml.activation_relu(x)

def product(x):
    return dml.gemm(x, x)

for function in (relu, product):
    x, other = (r.integers(-8, 8, (1, 1, 300, 300)).astype(np.float32) for _ in range(2))
    made = dml.graph(function, x=dml.TensorDesc.of(x))
    ((name, _),) = made.outputs.items()
    y, waits = np.full_like(x, 7.5), 0
    bound = made.compile(device).bind(x=x, **{name: y})
    try:
        bound.execute()
    except KeyboardInterrupt:
        print(function.__name__, "interrupted,", "untouched," if (y == 7.5).all() else "written,", end=" ")
    x[...] = other
    bound.execute()
    want = np.maximum(other, 0) if function is relu else other @ other  # sums of integers are exact
    print("equal" if (y == want).all() else "different")
"""


def test_an_interrupt_ends_a_call_between_pieces_and_leaves_the_device_usable(there: dml.Device) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    lines = [f"{name} interrupted, untouched, equal" for name in ("relu", "product")]
    assert (done.returncode, done.stdout.splitlines()) == (0, lines), done.stderr


def test_waits_are_put_between_kernels_of_much_work(there: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt waits for what is in the queue, so that a graph of many kernels is waited for on the way."""
    opened = platform.opened(there.machine.opencl)
    waits: list[None] = []
    monkeypatch.setattr(platform.Opened, "wait", lambda _: waits.append(None))
    monkeypatch.setattr(opened, "_most_queued", 100)
    monkeypatch.setattr(opened, "_queued", 0)
    opened.paced(99)
    assert not waits
    opened.paced(1)
    assert len(waits) == 1


def test_counts_of_an_interrupted_call_are_cleared(there: dml.Device) -> None:
    """Else the next call would decide elements of the interrupted one, by its inputs."""
    opened = platform.opened(there.machine.opencl)
    workspace = Workspace(opened)
    workspace.call(8)
    workspace.clear()
    opened.write(workspace.memory[0], np.array([3, 1], np.int32))  # as a kernel does; and nobody reads them
    workspace.clear()
    assert workspace.counts().tolist() == [[0, 0]]


@pytest.mark.parametrize("code", ["MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_RESOURCES", "OUT_OF_HOST_MEMORY"])
def test_a_driver_without_room_is_a_memory_error(code: str, there: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as within:
        within.setattr(platform.cl(), "Buffer", partial(_refusing, code))
        with pytest.raises(MemoryError, match=r"has no room for 192 bytes"):
            there.buffer(X)
    np.testing.assert_array_equal(there.buffer(X).numpy(), X)


def test_memory_that_a_driver_lacks_at_the_first_use_is_a_memory_error(
    there: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    t, y = dml.TensorDesc.of(X), np.full_like(X, 7)
    bound = there.compile(dml.ActivationRelu(input_tensor=t, output_tensor=t)).bind(input_tensor=X, output_tensor=y)
    launched = "MEM_OBJECT_ALLOCATION_FAILURE"
    with monkeypatch.context() as within:
        within.setattr(platform.cl(), "enqueue_nd_range_kernel", partial(_refusing, launched))
        with pytest.raises(MemoryError, match="has no room for 384 bytes"):
            bound.execute()
    assert (y == 7).all()
    buffer = there.buffer(X)
    monkeypatch.setattr(platform.cl(), "enqueue_copy", partial(_refusing, launched))
    with pytest.raises(MemoryError, match="has no room for 192 bytes"):
        buffer.write(X)
    monkeypatch.setattr(platform.cl(), "enqueue_copy", partial(_refusing, "OUT_OF_RESOURCES"))
    with pytest.raises(platform.DeviceLost, match="no array was written"):
        buffer.numpy()


def _refusing(code: str, *_: object, **__: object) -> None:
    use = platform.cl()
    raise type("Refused", (use.MemoryError,), {"code": getattr(use.status_code, code)})(code)


def test_dispatch_lines_have_the_steps_and_the_copies_of_a_call(
    there: dml.Device, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def mixed(x: Any) -> Any:
        return dml.cumulative_product(dml.activation_relu(x), axis=3)

    others = {name: family for name, family in families.OPENCL.items() if name != "scan:opencl"}
    monkeypatch.setattr(families, "OPENCL", others)  # so that products of elements run on the processor
    monkeypatch.setenv("ANYDML_VERBOSE", "dispatch")
    made = dml.graph(mixed, x=dml.TensorDesc.of(X))
    ((name, _),) = made.outputs.items()
    made.compile(there).bind(x=X, **{name: np.empty_like(X)}).execute()
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    compiled, steps, executed = lines
    assert [line["anydml"] for line in lines] == ["compile", "steps", "execute"]
    assert compiled["kernels"] == ["elementwise:opencl", "cpu/scan:compiled"]
    assert executed["operator"] == "DML_GRAPH"
    assert steps["steps"] == [
        {"copy_to": "device", "bytes": X.nbytes},
        {"nodes": "activation_relu", "kernel": "elementwise:opencl"},
        {"copy_to": "host", "bytes": X.nbytes},
        {"nodes": "cumulative_product", "kernel": "cpu/scan:compiled"},
    ]


def test_info_has_the_reason_why_a_device_is_refused(there: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    first = platform.found()[0]
    devices = [first._replace(refused="it has no float64 (cl_khr_fp64)"), first._replace(number=1)]
    monkeypatch.setattr(platform, "found", lambda: devices)
    text = next(line for line in config.text(config.config()).splitlines() if line.startswith("OpenCL "))
    one, two = text.split("; ")
    assert "opencl:0 " in one
    assert one.endswith("refused: it has no float64 (cl_khr_fp64)")
    assert "opencl:1 " in two
    assert two.endswith("tested when it is opened")
