"""Whole models on OpenCL devices: the commands that run and compare them, their bits, and that they stay on the device."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import ModelProto
from test_onnx_model import info, model_of, node

import anydml as dml
from anydml import UnsupportedError
from anydml.cli.main import commands
from anydml.kernels.code import llvm
from anydml.onnx import compare_runtimes
from every_kernel import SOAK, Ran

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
from benchmarks import opencl_models

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="nothing can be compiled")


@pytest.fixture(scope="module")
def there() -> dml.Device:
    try:
        return dml.Device("opencl")
    except UnsupportedError as error:
        pytest.skip(str(error))


def invoked(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(commands, arguments, standalone_mode=False)
    if found.exception is not None:
        raise found.exception
    return found.return_value, found.output


@pytest.fixture
def file(tmp_path: Path) -> str:
    nodes = [node("Relu", "x", "h"), node("Neg", "h", "y")]
    onnx.save(model_of(nodes, [info("x", [1, 3])], [info("y", [1, 3])]), path := tmp_path / "maps.onnx")
    return str(path)


def test_run_and_compare_take_the_device(there: dml.Device, file: str, tmp_path: Path) -> None:
    made = []
    for device in ("opencl", "cpu"):
        to = tmp_path / device
        status, text = invoked("run", file, "--random", "3", "--device", device, "--output-path", str(to))
        assert (status, text.splitlines()[0]) == (0, "y: float32 (1, 3)")
        made.append(np.load(to / "y.npy").view(np.uint32))
    np.testing.assert_array_equal(*made)
    status, text = invoked("compare", file, "--random", "3", "--against", "opencl:0")
    assert status == 0
    assert "nodes that were judged are exact" in text


def test_compare_names_the_node_that_differs(there: dml.Device, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any difference is an error of the device, though it be within rounding."""
    of_device = compare_runtimes.on_device

    def changed(device: dml.Device) -> compare_runtimes.Run:
        run = of_device(device)

        def other(model: ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
            made = run(model, inputs)
            assert isinstance(made, Mapping)
            return {**made, "y": np.nextafter(made["y"], np.float32(np.inf))}

        return other

    monkeypatch.setattr(compare_runtimes, "on_device", changed)
    status, text = invoked("compare", file, "--random", "3", "--against", "opencl")
    assert status == 1
    assert "the_Neg (Neg): 1 of 3 differs" in text or "the_Neg (Neg): 3 of 3 differ" in text, text


@pytest.mark.parametrize("arguments", [("run", "--device"), ("compare", "--against")])
def test_the_way_to_the_extra_is_said(file: str, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, str]) -> None:
    command, option = arguments
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(UnsupportedError, match=r"needs pyopencl.*pip install 'anydml\[opencl\]'"):
        invoked(command, file, "--random", "3", option, "opencl:none")


CASES = dict(opencl_models.cases(32, 4))


@pytest.mark.parametrize("title", CASES if SOAK > 1 else ["cnn.onnx"])  # drivers compile for minutes
def test_whole_models_stay_on_the_device(title: str, there: dml.Device, ran: Ran) -> None:
    """The CPU's bits, fused and not, from arrays and from buffers; no step of the processor, and no copy between steps."""
    found = opencl_models.compared(CASES[title](), there, dml.Device("cpu"), (True, False) if SOAK > 1 else (True,))
    assert found.differ == 0
    assert found.elsewhere == []
    assert found.judged <= 1024 * title.startswith("decoder")  # bytes of indices, which rules are about
    ran(found.outputs, 80)
