"""Models as runtimes of less precision compute them, in NumPy: --precision explains every node, and only in that precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner
from onnx import ModelProto, NodeProto, helper, numpy_helper

from anydml.cli.main import commands
from anydml.onnx import compare
from anydml.onnx.compare_models import cut, named
from anydml.onnx.compare_results import BEYOND, EQUAL, ROUNDING
from anydml.onnx.model import load
from every_kernel import SOAK, Ran

Array = npt.NDArray[Any]
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
Rounding = Callable[[Array], Array]


def to_bits(bits: int, *, cut: bool = False) -> Rounding:
    """Float32 numbers rounded to so many significant bits, or cut."""

    def apply(x: Array) -> Array:
        m, e = np.frexp(x.astype(np.float64))
        whole = np.trunc(m * 2.0**bits) if cut else np.rint(m * 2.0**bits)
        return np.asarray(np.ldexp(whole / 2.0**bits, e).astype(np.float32))

    return apply


def half(x: Array) -> Array:
    return x.astype(np.float16).astype(np.float32)


def summed(a: Array, b: Array, step: Rounding) -> Array:
    """A product of matrices whose products and sums are rounded one by one."""
    total = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), np.float32)
    for k in range(a.shape[-1]):
        total = step(total + step(a[..., :, k : k + 1] * b[..., k : k + 1, :]))
    return total


def convolved(node: NodeProto, reads: list[Array], product: Callable[[Array, Array], Array], step: Rounding) -> Array:
    """A convolution as a product of patches and filters. It has 3 x 3 places and as much padding as keeps the sizes."""
    x, w = reads[:2]
    assert w.shape[2:] == (3, 3)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3)).transpose(0, 2, 3, 1, 4, 5)
    flat = windows.reshape(-1, w[0].size)
    y = product(flat, w.reshape(len(w), -1).T)
    if len(reads) > 2:
        y = step(y + reads[2])
    return np.ascontiguousarray(y.reshape(len(x), *x.shape[2:], len(w)).transpose(0, 3, 1, 2))


class Runtime:
    """A runtime that rounds the factors of products, and what every step gives."""

    def __init__(self, factor: Rounding, step: Rounding | None) -> None:
        self.factor, self.step = factor, step

    def run(self, model: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
        proto = named(model)
        values: dict[str, Any] = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer} | dict(inputs)
        constants = set(values) - set(inputs)
        for node in proto.graph.node:
            values |= self.made(proto, node, values, constants)
        return {x.name: values[x.name] for x in proto.graph.output}

    def made(self, proto: ModelProto, node: NodeProto, values: Mapping[str, Array], constants: set[str]) -> dict[str, Array]:
        reads = [values[name] for name in node.input]
        plain: Rounding = lambda x: np.asarray(x, np.float32)  # noqa: E731
        step = self.step or plain
        if node.op_type in ("MatMul", "Conv"):
            a, b = (self.factor(x) for x in reads[:2])

            def product(a: Array, b: Array) -> Array:
                if self.step is None:
                    return np.asarray((a.astype(np.float32) @ b).astype(np.float32))
                return summed(a, b, step)

            y = product(a, b) if node.op_type == "MatMul" else convolved(node, [a, b, *reads[2:]], product, step)
            return {node.output[0]: y}
        if self.step is None or not all(x.dtype == np.float32 for x in reads[:1]):
            made, given = cut(proto, [node], values, constants, list(node.output))
            return load(made).run(given)
        floats = {name for name in node.input if values[name].dtype == np.float32}
        less = {name: step(values[name]) if name in floats else values[name] for name in node.input}
        made, given = cut(proto, [node], less, constants, list(node.output))
        return {name: step(x) if x.dtype == np.float32 else x for name, x in load(made).run(given).items()}


RUNTIMES = {
    "tf32, cut": ("tf32", Runtime(to_bits(11, cut=True), None)),
    "tf32, rounded": ("tf32", Runtime(to_bits(11), None)),
    "bfloat16 factors": ("bfloat16", Runtime(to_bits(8), None)),
    "bfloat16": ("bfloat16", Runtime(to_bits(8), to_bits(8))),
    "float16 factors": ("float16", Runtime(half, None)),
    "float16": ("float16", Runtime(half, half)),
}


def of(name: str) -> tuple[ModelProto, dict[str, Array]]:
    random = np.random.default_rng(33)
    shape = (1, 8, 8) if name == "encoder" else (1, 1, 8, 8)
    return named(load(DIGITS / f"{name}.onnx").proto), {"image": (random.integers(0, 17, shape) / 16).astype(np.float32)}


@pytest.mark.parametrize(("name", "least"), [("cnn", 2), ("encoder", 5)])
def test_every_node_of_a_less_precise_runtime_is_explained(name: str, least: int, ran: Ran) -> None:
    proto, inputs = of(name)
    count = 0
    some = RUNTIMES if SOAK > 1 or name == "cnn" else {said: RUNTIMES[said] for said in ("tf32, cut", "float16")}
    for said, (precision, runtime) in some.items():
        actual = runtime.run(_whole(proto), inputs)
        if said in ("tf32, cut", "float16"):
            plain = compare(proto, inputs, actual=actual)
            assert sum(row.verdict == BEYOND for row in plain.nodes) >= least, said
        found = compare(proto, inputs, actual=actual, precision=precision)
        assert {row.verdict for row in found.nodes} <= {EQUAL, ROUNDING}, f"{said}: {found}"
        forms = {form for row in found.nodes for form in row.forms}
        expected = {"tf32": "products in TF32"}.get(precision, precision)
        assert any(expected in form for form in forms), (said, forms)
        if said == "bfloat16":
            tf32 = compare(proto, inputs, actual=actual, precision="tf32")
            assert any(row.verdict == BEYOND for row in tf32.nodes), said
        count += len(found.nodes)
    ran(count, len(some) * len(proto.graph.node))


def test_a_fault_stays_a_fault_in_every_precision() -> None:
    proto, inputs = of("cnn")
    actual = RUNTIMES["tf32, cut"][1].run(_whole(proto), inputs)
    last = proto.graph.node[-1].output[0]
    actual[last] = np.roll(actual[last], 1, axis=-1)
    found = compare(proto, inputs, actual=actual, precision="tf32")
    assert [row.name for row in found.nodes if row.verdict == BEYOND] == [proto.graph.node[-1].name]


def test_float32_sums_are_asked_of_a_float16_node() -> None:
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((4, 256), (256, 4)))
    infos = [helper.make_tensor_value_info(name, 10, x.shape) for name, x in (("a", a), ("b", b))]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["y"], "y")], "one", infos, [helper.make_tensor_value_info("y", 10, (4, 4))]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rough = np.zeros((4, 4), np.float16)
    for k in range(256):
        rough = (rough + (a[:, k : k + 1] * b[k]).astype(np.float16)).astype(np.float16)
    fine = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    verdicts = {
        (name, precision): compare(proto, {"a": a, "b": b}, actual={"y": x}, precision=precision).nodes[0].verdict
        for name, x in (("rough", rough), ("fine", fine))
        for precision in (None, "float32")
    }
    assert verdicts[("rough", None)] == ROUNDING
    assert verdicts[("rough", "float32")] == BEYOND
    assert BEYOND not in (verdicts[("fine", None)], verdicts[("fine", "float32")])
    with pytest.raises(ValueError, match="precision is 'half'; it must be one of 'float32', 'tf32', 'bfloat16', 'float16'"):
        compare(proto, {"a": a, "b": b}, actual={"y": fine}, precision="half")


def test_the_command_names_the_precision(tmp_path: Path) -> None:
    proto, inputs = of("cnn")
    np.savez(tmp_path / "actual.npz", **RUNTIMES["tf32, cut"][1].run(_whole(proto), inputs))  # type: ignore[arg-type]
    np.save(tmp_path / "image.npy", inputs["image"])
    given = [str(DIGITS / "cnn.onnx"), "--input", f"image={tmp_path / 'image.npy'}", "--actual", str(tmp_path / "actual.npz")]
    plain = CliRunner().invoke(commands, ["compare", *given], standalone_mode=False)
    assert plain.return_value == 1
    assert "If the runtime is meant to compute in tf32, --precision tf32 counts that as rounding" in plain.output
    found = CliRunner().invoke(commands, ["compare", *given, "--precision", "tf32"], standalone_mode=False)
    assert found.return_value == 0
    assert "nodes are explained by products in TF32" in found.output


def _whole(proto: ModelProto) -> ModelProto:
    """The model with all tensors as outputs."""
    made = ModelProto()
    made.CopyFrom(proto)
    del made.graph.output[:]
    made.graph.output.extend(helper.make_empty_tensor_value_info(n) for node in made.graph.node for n in node.output)
    return made
