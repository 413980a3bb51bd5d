"""`--runtime torch`: ONNX models that torch runs node by node through onnx2pytorch, and tensors of torch recorded by hooks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from onnx import helper
from torchvision_stub import stub

from anydml.cli.main import commands
from anydml.onnx import compare, load
from anydml.onnx.compare_results import EQUAL, ROUNDING
from anydml.onnx.compare_runtimes import RuntimeFailed, drawn
from anydml.onnx.compare_torch import torch_on
from networks import ResNet18

stub()
pytest.importorskip("onnx2pytorch", reason="it needs Python 3.11")
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
SIZE = 32


@pytest.mark.parametrize("name", ["cnn", "encoder", "cnn-qdq", "cnn-qlinear"])
def test_torch_computes_models_within_rounding(name: str) -> None:
    model = load(DIGITS / f"{name}.onnx")
    found = compare(model.proto, drawn(model, 5, {"N": 3}), torch_on("cpu"))
    assert {row.verdict for row in found.nodes} <= {EQUAL, ROUNDING}, str(found)
    assert len(found.nodes) >= 8


def network() -> tuple[Any, Any]:
    torch.manual_seed(7)
    module = ResNet18(8, 10).eval()
    for m in module.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.running_var.uniform_(0.5, 2)
            m.running_mean.normal_(0, 0.3)
    return module, torch.randn(1, 3, SIZE, SIZE)


def exported(module: Any, image: Any, **options: Any) -> onnx.ModelProto:
    file = io.BytesIO()
    torch.onnx.export(module, (image,), file, dynamo=False, input_names=["image"], output_names=["logits"], **options)
    return onnx.load_from_string(file.getvalue())


@pytest.mark.filterwarnings("ignore")  # of torch's exporter
def test_a_residual_network_by_torch_and_by_recorded_outputs_of_its_modules() -> None:
    module, image = network()
    proto = exported(module, image)
    inputs = {"image": image.numpy()}
    found = compare(proto, inputs, torch_on("cpu"))
    assert {row.verdict for row in found.nodes} <= {EQUAL, ROUNDING}, str(found)

    # as docs/which-node.md has it, with normalisations that the exporter does not fold into convolutions
    whole = exported(module, image, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    tensors: dict[str, Any] = {}
    for name, inner in module.named_modules():
        inner.register_forward_hook(lambda module, given, made, name=name: tensors.update({name: made.detach().cpu()}))
    with torch.no_grad():
        module(image)
    kept = {name or "logits": x.numpy() for name, x in tensors.items()}
    by_module = compare(whole, inputs, actual=kept)
    assert {row.verdict for row in by_module.nodes} <= {EQUAL, ROUNDING}, str(by_module)
    assert len(by_module.nodes) > 20


def test_what_torch_does_not_run_is_named() -> None:
    node = helper.make_node("NoOperator", ["x"], ["y"], "strange")
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    proto = helper.make_model(helper.make_graph([node], "one", [x], [y]), opset_imports=[helper.make_opsetid("", 19)])
    with pytest.raises(RuntimeFailed, match=r"torch does not run strange \(NoOperator\) through onnx2pytorch"):
        torch_on("cpu")(proto, {"x": np.zeros(2, np.float32)})
    with pytest.raises(RuntimeFailed, match="torch has no device nowhere"):
        torch_on("nowhere")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(commands, arguments, standalone_mode=False)


def test_the_commands_run_torch(tmp_path: Path) -> None:
    model, folder = str(DIGITS / "cnn.onnx"), str(tmp_path / "tensors")
    found = run("compare", model, "--runtime", "torch", "--random", "3")
    assert found.return_value == 0, found.output
    assert "None is beyond rounding" in found.output
    assert run("record", model, "--runtime", "torch", "--random", "3", "-o", folder).return_value == 0
    assert run("compare", model, "--inputs", f"{folder}/inputs", "--actual", f"{folder}/actual").return_value == 0
    found = run("compare", model, "--runtime", "torch", "--provider", "nowhere", "--random", "3")
    assert isinstance(found.exception, RuntimeFailed)
