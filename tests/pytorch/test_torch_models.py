"""Tests of modules: loaded, compiled by torch.compile, compared with torch layer by layer, and refused by name."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import anydml.torch
from anydml.errors import BindingError
from anydml.torch import ModelError, comparing
from networks import Encoder, MobileNetV2, Reader, ResNet18, ready
from oracle.numbers import exact as oracle_value
from oracle.numbers import stored

Dynamic = torch.export.Dim.DYNAMIC


def words(batch: int, length: int) -> Tensor:
    return torch.randint(0, 100, (batch, length), generator=torch.Generator().manual_seed(batch))


def images(batch: int, size: int = 32) -> Tensor:
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(batch))


NETWORKS: dict[str, tuple[Callable[[], Any], Callable[[int], Tensor]]] = {
    "ResNet-18": (lambda: ResNet18(8, 10), images),
    "MobileNetV2": (lambda: MobileNetV2(0.25, 10), images),
    "LSTM": (Reader, lambda batch: words(batch, 12)),
    "encoder": (Encoder, lambda batch: words(batch, 16)),
    "torch's encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2),
        lambda batch: torch.randn(batch, 9, 32, generator=torch.Generator().manual_seed(batch)),
    ),
}  # fmt: skip


def in_float64(module: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        made: Tensor = copy.deepcopy(module).double()(x.double() if x.is_floating_point() else x)
    return made


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_run_for_every_batch_and_compiled_to_the_same_bits(name: str) -> None:
    """Its error, against torch in float64, is no larger than twice that of torch in float32."""
    make, inputs = NETWORKS[name]
    module = ready(make())
    model = anydml.torch.load(module, (inputs(2),), dynamic_shapes=({0: Dynamic},))
    compiled = torch.compile(module, backend="anydml")
    for batch in (2, 1):
        x = inputs(batch)
        found, due = model(x), in_float64(module, x)
        with torch.no_grad():
            off, usual = (float((y - due).abs().max()) for y in (found, module(x)))
            if batch == 2:  # each size takes torch.compile another export
                assert torch.equal(compiled(x), found)
        assert off <= max(2 * usual, 1e-7 * float(due.abs().max()))
    torch._dynamo.reset()


def planted(path: str, operator: str) -> Callable[..., Any]:
    """A runtime whose operator is wrong by a thousandth in one module."""

    def call(node: Any, args: Any, kwargs: Any) -> Any:
        made = node.inner.target(*args, **kwargs)
        if node.module != path or not node.operator.startswith(operator):
            return made
        return [x * 1.001 for x in made] if isinstance(made, tuple) else made * 1.001

    return call


FAULTS = {
    "ResNet-18": ("layers.2.1.conv2", "aten.convolution"),
    "MobileNetV2": ("features.7.conv.4", "aten._native_batch_norm"),
    "LSTM": ("lstm", "aten.lstm"),
    "encoder": ("layers.2.attn", "aten.scaled_dot_product_attention"),
    "torch's encoder": ("layers.1.linear2", "aten.linear"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_torch_departs_by_rounding_alone_and_a_planted_fault_is_named_at_its_layer(name: str) -> None:
    make, inputs = NETWORKS[name]
    module, x = ready(make()), inputs(1)
    found = anydml.torch.compare(module, (x,))
    assert {row.verdict for row in found.nodes} == {"equal", "rounding"}
    assert found.first is not None
    assert found.first.line
    path, operator = FAULTS[name]
    assert not found.details
    wrong = anydml.torch.compare(module, (x,), call=planted(path, operator), details=True)
    assert wrong.details.keys() == {row.nodes for row in wrong.nodes if row.own is not None and row.own.differing}
    beyond = [row for row in wrong.nodes if row.verdict == "beyond rounding"]
    assert [row.module for row in beyond] == [path]
    assert wrong.first is beyond[0] is wrong.worst
    assert str(wrong).split("beyond rounding is ")[1].startswith(f"{path}: ")
    after = [row for row in wrong.nodes if row.accumulated is not None and row.accumulated.differing]
    assert wrong.nodes.index(beyond[0]) <= wrong.nodes.index(after[-1])


def test_a_planted_fault_in_recorded_results_of_modules_is_named_at_its_layer() -> None:
    module, x = ready(Encoder(depth=2)), words(1, 8)
    recorded: dict[str, Tensor] = {}
    for name, part in module.named_modules():
        if name:
            part.register_forward_hook(lambda _, __, made, name=name: recorded.__setitem__(name, made.clone()))
    with torch.no_grad():
        module(x)
    for part in module.modules():
        part._forward_hooks.clear()
    assert anydml.torch.compare(module, (x,), actual=recorded).first is not None
    recorded["layers.1.mlp.1"][0, 3, 5] += 0.01
    found = anydml.torch.compare(module, (x,), actual=recorded)
    assert found.first is not None
    assert (found.first.module, found.first.verdict, found.first.beyond) == ("layers.1.mlp.1", "beyond rounding", 1)
    assert found.first.carried is not None
    assert any("were not recorded; nodes around them are judged as one" in note for note in found.notes)


def test_a_program_moves_to_another_device_without_a_word() -> None:
    program = anydml.torch.load(ready(Encoder(depth=1)), (words(1, 8),)).program
    moved = comparing._moved(program, torch.device("meta"))
    assert {x.device.type for x in moved.state_dict.values()} == {"meta"}
    assert {x.device.type for x in program.state_dict.values()} == {"cpu"}


def test_a_half_precision_run_is_judged_against_the_exact_half_precision_network() -> None:
    module = ready(Encoder(depth=1))
    found = anydml.torch.compare(module, (words(2, 8),), dtype=torch.float16)
    assert not [row for row in found.nodes if row.verdict not in ("equal", "rounding", "no bound")]
    last = anydml.torch.compare(module, (words(2, 8),), dtype=torch.float64).nodes[-1]
    assert last.verdict == "not judged"
    assert last.accumulated is not None
    assert 0 <= last.accumulated.away <= 1e-6


def test_a_bfloat16_module_runs_and_is_judged_by_its_exact_results() -> None:
    module, x = nn.Sequential(nn.Linear(37, 11), nn.GELU(), nn.Softmax(-1)).eval().bfloat16(), torch.randn(5, 37).bfloat16()
    model = anydml.torch.load(module, (x,))
    made = model(x)
    assert made.dtype == torch.bfloat16
    linear = anydml.torch.load(module[0], (x,))(x)
    weight, bias = (p.detach().float().numpy().tolist() for p in (module[0].weight, module[0].bias))
    sums = [
        [
            sum((Fraction(a) * Fraction(b) for a, b in zip(row, w, strict=True)), Fraction(t))
            for w, t in zip(weight, bias, strict=True)
        ]
        for row in x.float().tolist()
    ]
    exact = stored([oracle_value(value) for row in sums for value in row], (5, 11), "bfloat16")
    assert linear.view(torch.int16).numpy().tobytes() == exact.tobytes()
    found = anydml.torch.compare(module, (x,))
    assert not [row for row in found.nodes if row.verdict not in ("equal", "rounding", "no bound")]

    def wrong(node: Any, arguments: Any, keywords: Any) -> Any:
        made = node.inner.target(*arguments, **keywords)
        return made * 1.0625 if "gelu" in node.operator else made

    found = anydml.torch.compare(module, (x,), call=wrong)
    assert found.first is not None
    assert (found.first.verdict, found.first.module) == ("beyond rounding", "1")


def test_a_linear_layer_is_the_sum_of_products_rounded_once() -> None:
    module, x = nn.Linear(37, 11).eval(), torch.randn(5, 37) * torch.logspace(-6, 6, 37)
    found = anydml.torch.load(module, (x,))(x).numpy()
    weight, bias = (p.detach().numpy().tolist() for p in (module.weight, module.bias))

    def summed(row: list[float], factors: list[float], term: float) -> Fraction:
        return sum((Fraction(a) * Fraction(b) for a, b in zip(row, factors, strict=True)), Fraction(term))

    due = [[summed(row, w, t) for w, t in zip(weight, bias, strict=True)] for row in x.tolist()]
    exact = stored([oracle_value(value) for row in due for value in row], (5, 11), np.float32)
    np.testing.assert_array_equal(found, exact)


def test_tensors_are_read_where_they_are_and_results_are_new() -> None:
    module = nn.Sequential(nn.Flatten(0, 1), nn.ReLU())
    x = torch.randn(4, 5, 6)
    model = anydml.torch.load(module.eval(), (x,))
    assert np.shares_memory(model.arrays(x)[model.inputs[0].name], x.numpy())
    made = model(x)
    made.fill_(7)
    assert torch.equal(model(x), module(x))
    turned = torch.randn(6, 5, 4).permute(2, 1, 0)
    assert torch.equal(model(turned), module(turned))


class Several(nn.Module):
    def forward(self, x: Tensor, *, flags: dict[str, Tensor]) -> dict[str, Any]:
        larger = x > flags["limit"]
        return {"larger": larger, "count": larger.sum(), "kept": (x, 3), "none": None}


def test_arguments_and_results_may_be_nested_and_truth_values_are_of_torch() -> None:
    module, x, flags = Several().eval(), torch.randn(3, 4), {"limit": torch.tensor(0.25)}
    program = torch.export.export(module, (x,), {"flags": flags})
    found, due = anydml.torch.load(program)(x, flags=flags), module(x, flags=flags)
    assert torch.equal(found["larger"], due["larger"])
    assert found["larger"].dtype == torch.bool
    assert found["count"].item() == due["count"].item()
    assert torch.equal(found["kept"][0], x)
    assert (found["kept"][1], found["none"]) == (3, None)
    with pytest.raises(BindingError, match="the arguments are nested as"):
        anydml.torch.load(program)(x)


def test_sizes_outside_of_the_program_are_refused_by_name() -> None:
    module = nn.Linear(4, 2).eval()
    model = anydml.torch.load(module, (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("n", min=3, max=8)},))
    assert model(torch.randn(8, 4)).shape == (8, 2)
    for sizes in ((9, 4), (2, 4), (3, 5), (4,)):
        with pytest.raises(BindingError, match=r"input: has sizes \(.*\), and the program takes \['.*', 4\]"):
            model(torch.randn(*sizes))


def test_what_cannot_be_read_is_refused_by_name() -> None:
    module, x = nn.Linear(4, 2).eval(), torch.randn(3, 4)
    model = anydml.torch.load(module, (x,))
    refused = {
        "input: requires a gradient, and anydml computes none": torch.randn(3, 4, requires_grad=True),
        "input: has elements of torch.float64, and the program takes torch.float32": x.double(),
        "input: lies on the device meta, whose memory is not read": x.to("meta"),
        "input: is a tensor of layout torch.sparse_coo": x.to_sparse(),
        "input: is list, and must be a tensor": [1.0],
    }
    for message, given in refused.items():
        with pytest.raises(BindingError, match=message if not isinstance(given, list) else "nested"):
            model(given)
    with torch.no_grad():
        assert model(refused["input: requires a gradient, and anydml computes none"]).shape == (3, 2)
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        numbers = nn.Linear(4, 2).eval().to(torch.complex64)
    with pytest.raises(BindingError, match=r"weight: has elements of torch.complex64, which DirectML does not have"):
        anydml.torch.load(numbers, (x.to(torch.complex64),))
    with pytest.raises(BindingError, match="lies on the device meta"):
        anydml.torch.load(nn.Linear(4, 2, device="meta").eval(), (x.to("meta"),))
    with pytest.raises(
        BindingError, match="device: is 'cuda', which torch cannot use" if not torch.cuda.is_available() else "x"
    ):
        anydml.torch.compare(module, (x,), device="cuda" if not torch.cuda.is_available() else "x")
    compiled = torch.compile(module, backend="anydml")
    with pytest.raises(BindingError, match=r"weight.*: requires a gradient, .* call within torch.no_grad\(\)"):
        compiled(x)
    torch._dynamo.reset()


class Dropped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5, training=True)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return x + self.calls


def test_training_is_refused_by_name() -> None:
    x = torch.randn(2, 3, 8, 8)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    with pytest.raises(ModelError, match=r"Sequential and 2 more modules are in training mode; module.eval\(\) ends it"):
        anydml.torch.load(module, (x,))
    module.eval()[1].train()
    with pytest.raises(ModelError, match="1 is in training mode"):
        anydml.torch.load(module, (x,))
    with pytest.raises(ModelError, match=r"aten\.\w*(dropout|rand|bernoulli)\w*\."):
        anydml.torch.load(Dropped().eval(), (x,))
    with pytest.raises(ModelError, match=r"calls \(buffer\): invalid: the module changes it when it runs"):
        anydml.torch.load(Counting().eval(), (x,))


class Sorted(nn.Module):
    """A module with operators that DirectML lacks, and one whose sizes depend on elements."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.lgamma(x.abs() + 1) * 2
        places = torch.nonzero(y > 1)
        return y[places[:, 0], places[:, 1]].exp()


def test_what_is_not_mapped_is_named_and_left_to_torch_where_the_caller_says_so() -> None:
    module = Sorted().eval()
    with pytest.raises(ModelError) as found:
        anydml.torch.load(module, (torch.randn(4, 5) * 3,))
    assert "aten.lgamma.default" in str(found.value)
    assert "at test_torch_models.py:" in str(found.value)
    model = anydml.torch.load(module, (torch.randn(4, 5) * 3,), fallback=True)
    for _ in range(3):
        x = torch.randn(4, 5) * 3
        torch.testing.assert_close(model(x), module(x), rtol=1e-6, atol=0)
    options = {"fallback": True}
    torch.testing.assert_close(torch.compile(module, backend="anydml", options=options)(x), module(x), rtol=1e-6, atol=0)
    with pytest.raises(Exception, match="the backend anydml has the option fallback, and not 'other'"):
        torch.compile(nn.ReLU(), backend="anydml", options={"other": 1})(x)
    torch._dynamo.reset()


def test_new_weights_are_seen_by_compiled_modules() -> None:
    module, x = nn.Linear(4, 2).eval(), torch.randn(3, 4)
    compiled = torch.compile(module, backend="anydml")
    with torch.no_grad():
        before = compiled(x)
        module.weight.mul_(2)
        assert not torch.equal(compiled(x), before)
        assert torch.equal(compiled(x), anydml.torch.load(module, (x,))(x))
    torch._dynamo.reset()


def test_a_model_is_a_graph_of_directml_s_operators() -> None:
    module, x = nn.Sequential(nn.Linear(4, 2), nn.ReLU()).eval(), torch.randn(3, 4)
    model = anydml.torch.load(module, (x,))
    graph = model.graph(x)
    assert "gemm(input, constant" in repr(graph)
    (found,) = graph.run({name: np.ascontiguousarray(x.numpy()) for name in graph.inputs}).values()
    np.testing.assert_array_equal(found, model(x).numpy())


def test_neither_package_imports_what_it_does_not_need() -> None:
    code = "import sys, anydml; assert 'torch' not in sys.modules; import anydml.torch; print('onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
