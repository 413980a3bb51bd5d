"""Count how often a decoder's logits change with the batch, with the prompt's parts and with threads: `tools/same_tokens.py`.

One decoder with random weights of 4 bits answers a prompt: alone; with others in a batch; the prompt token by token; on two
threads. A logit counts as changed if any of its bits is. anydml and onnxruntime compute the same model; `--torch` adds a layer
of torch. The last rows are a product whose rows are quantised to 8 bits by one scale for the whole batch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import anydml.onnx
from anydml import Device

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import decoders
from benchmarks.decoders import DecoderSizes

Array = NDArray[Any]
SIZES = DecoderSizes(layers=4, hidden=256, heads=4, key_heads=2, wide=512, words=1024, rows=64)


def session(proto: onnx.ModelProto, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


class Session:
    """An onnxruntime session with the interface of `Model.bind`, for `decoders.generated`."""

    def __init__(self, proto: onnx.ModelProto, sizes: DecoderSizes) -> None:
        self.proto, self.sizes = proto, sizes
        self.sessions: dict[int, Any] = {}

    def bind(self, given: dict[str, Array], device: int) -> Session._Bound:
        if device not in self.sessions:
            self.sessions[device] = session(self.proto, device)
        return self._Bound(self.sessions[device], given, self.sizes.words)

    class _Bound:
        def __init__(self, of: Any, given: dict[str, Array], words: int) -> None:
            self.of, self.given = of, given
            self.names = [o.name for o in of.get_outputs()]
            self.inputs = {i.name for i in of.get_inputs()}
            self.arrays = {"logits": np.empty((*given["input_ids"].shape, words), np.float32)}

        def run(self) -> None:
            given = {n: x for n, x in self.given.items() if n in self.inputs}
            length = given["input_ids"].shape[1]
            if given["attention_mask"].sum() == given["input_ids"].size > len(given["input_ids"]):
                given["attention_mask"] = given["attention_mask"][:, :length]  # onnxruntime knows a prompt by this
            made = self.of.run(self.names, given)
            for name, x in zip(self.names, made, strict=True):
                (self.arrays if name == "logits" else self.given)[name][...] = x


def changes(name: str, run: Callable[[Array, int, Any], decoders.Generated], prompts: Array, one: Any, two: Any) -> None:
    """Print how many logits and tokens of the first prompt differ from those that it has alone, whole, on one thread."""
    length = prompts.shape[1]
    alone = run(prompts[:1], length, one)
    for what, given, at_once, device in (
        ("in a batch of 2", prompts[:2], length, one),
        ("in a batch of 8", prompts[:8], length, one),
        ("prompt token by token", prompts[:1], 1, one),
        ("two threads", prompts[:1], length, two),
    ):
        found = run(given, at_once, device)
        differ = found.logits[:, :1].view(np.uint32) != alone.logits.view(np.uint32)
        tokens = int((found.tokens[0] != alone.tokens[0]).sum())
        print(f"| {name} | {what} | {int(differ.sum()):,} of {differ.size:,} | {tokens} of {alone.tokens.size} |")


def of_rows(name: str, what: str, run: Callable[[Array], Array], x: Array) -> None:
    """Print how many elements of the first row's result differ between the row alone and among all rows."""
    differ = run(x[:1])[0].view(np.uint32) != run(x)[0].view(np.uint32)
    print(f"| {name} | {what} | {int(differ.sum()):,} of {differ.size:,} | |")


def quantised() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.integers(-127, 128, (512, 1024)).astype(np.int8), "w"),
        numpy_helper.from_array(np.array(0.01, np.float32), "s"),
    ]
    node = helper.make_node("DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], domain="com.microsoft")
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", k]) for n, k in (("x", 512), ("y", 1024))]
    graph = helper.make_graph([node], "quantised", tensors[:1], tensors[1:], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _generated(model: Any, count: int, prompts: Array, at_once: int, device: Any) -> decoders.Generated:
    return decoders.generated(model, SIZES, prompts, count, device, at_once)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true", help="a layer of torch, too, which must be installed")
    parser.add_argument("--tokens", type=int, default=32)
    arguments = parser.parse_args()
    proto, rng = decoders.decoder(SIZES), np.random.default_rng(1)
    prompts = rng.integers(0, SIZES.words, (8, 16))
    print("| | the first prompt, alone and | logits that change | tokens |\n| --- | --- | ---: | ---: |")
    devices = Device(threads=1, feature_level="EXTENDED"), Device(threads=2, feature_level="EXTENDED")
    runtimes: list[tuple[str, Any, Any, Any]] = [
        ("anydml", anydml.onnx.load(proto), *devices),
        (f"onnxruntime {onnxruntime.__version__}", Session(proto, SIZES), 1, 2),
    ]
    for name, model, one, two in runtimes:
        changes(name, partial(_generated, model, arguments.tokens), prompts, one, two)
    x = rng.standard_normal((8, 512)).astype(np.float32)
    if arguments.torch:
        import torch

        torch.manual_seed(0)
        layer = torch.nn.Linear(512, 1024)
        of_rows(
            f"torch {torch.__version__}", "a linear layer, 8 rows", lambda x: layer(torch.from_numpy(x)).detach().numpy(), x
        )
    dynamic = quantised()
    exact, other = anydml.onnx.load(dynamic), session(dynamic, 1)
    of_rows("anydml", "quantised by one scale, 8 rows", lambda x: exact.run(x=x)["y"], x)
    of_rows("onnxruntime", "quantised by one scale, 8 rows", lambda x: other.run(None, {"x": x})[0], x)


if __name__ == "__main__":
    main()
