"""Language models: products of weights of 4 bits, a decoder's tokens, and dynamic quantisation, beside onnxruntime, one thread.

The limit of a product is the slower of reading its packed weights and scales, and a loop of multiply-adds of float64 alone.
onnxruntime's level 1 computes in float32; level 4 quantises activations to 8 bits, which `anydml compare` names as a deviation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper, numpy_helper

import anydml as dml
import anydml.onnx
from benchmarks import decoders
from benchmarks.limits import instruction_sets, multiply_adds, reads
from benchmarks.onnx_session import session
from benchmarks.timing import best

Array = NDArray[Any]
SHAPES = [(m, n, k, block) for m in (1, 64, 512) for n, k in ((4096, 4096), (14336, 4096)) for block in (32, 128)]
KINDS = ("11 bits", "zero points")  # scales that round no weight, as those of FLOAT16 are; and zero points other than 8
MOST = 2**36  # multiply-adds of a product
PROMPT = 128


def _ours(nodes: Any, x: Array, n: int, constants: dict[str, Array], device: dml.Device) -> Callable[[], object]:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(op, names, made, **attributes) for op, names, made, attributes in nodes],
        "benchmark",
        [value("a", 1, x.shape)],
        [value("y", 1, (len(x), n))],
        [numpy_helper.from_array(c, name) for name, c in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = anydml.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    return model.bind(a=x, device=device).run


def _peer(nodes: Any, x: Array, n: int, constants: dict[str, Array]) -> dict[str, Callable[[], object]]:
    try:
        found = session(nodes, {"a": x}, {"y": np.empty((len(x), n), np.float32)}, constants)
    except ImportError:
        return {}
    return {} if found is None else {"onnxruntime": found}


def _product(m: int, n: int, k: int, block: int, device: dml.Device, kind: str = "") -> dict[str, Any]:
    """kind: of `KINDS`."""
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 256, (n, k // block, block // 2), np.uint8)
    scales = (rng.random((n, k // block)) * 0.01 + 0.001).astype(np.float32)
    x = rng.standard_normal((m, k)).astype(np.float32)
    if kind == "11 bits":
        scales = scales.astype(np.float16).astype(np.float32)
    constants = {"b": packed, "s": scales}
    if kind == "zero points":
        constants["z"] = rng.integers(0, 256, (n, k // block // 2), np.uint8)

    def nodes(level: int) -> Any:
        what = {"domain": "com.microsoft", "K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": level}
        return [("MatMulNBits", ["a", *constants], ["y"], what)]

    calls = {"ours": _ours(nodes(1), x, n, constants, device), **_peer(nodes(1), x, n, constants)}
    calls |= {f"{name} at 4": call for name, call in _peer(nodes(4), x, n, constants).items()}
    if m > 1:
        w, y = rng.standard_normal((k, n)).astype(np.float32), np.empty((m, n), np.float32)
        a_desc, b_desc, output_desc = map(dml.TensorDesc.of, (x, w, y))
        desc = dml.Gemm(a_tensor=a_desc, b_tensor=b_desc, output_tensor=output_desc)
        calls["gemm"] = device.compile(desc).bind(a_tensor=x, b_tensor=w, output_tensor=y).execute
    adds = multiply_adds()
    if adds is not None:
        calls["adds"] = adds[0]
    nbytes = packed.nbytes + scales.nbytes
    reading = reads(nbytes, instruction_sets()[-1])
    t = best(calls | {f"read {name}": call for name, call in reading.items()}, clock=time.thread_time)
    products = m * n * k
    limits = [min(t[f"read {name}"] for name in reading)] + ([t["adds"] * products / adds[1]] if adds is not None else [])
    row: dict[str, Any] = {
        "product": ", ".join(filter(None, (f"{m} x {k} x {n}, blocks of {block}", kind))),
        "ms": t["ours"] * 1e3,
        "limit ms": max(limits) * 1e3,
    }
    row["of the limit"] = row["limit ms"] / row["ms"]
    row |= {f"x {name}": t[name] / t["ours"] for name in ("onnxruntime", "onnxruntime at 4", "gemm") if name in t}
    return row


def _decoder(device: dml.Device) -> dict[str, Any]:
    """Milliseconds of a token after a prompt, each a step of a decoder of 12 layers."""
    sizes = decoders.DecoderSizes()
    proto, rng = decoders.decoder(sizes), np.random.default_rng(1)
    prompt = rng.integers(0, sizes.words, (1, PROMPT))
    model = anydml.onnx.load(proto)
    one = decoders.Held(model, sizes, prompt[:, :1], device)
    whole = decoders.Held(model, sizes, prompt, device, one.caches)
    calls: dict[str, Callable[[], object]] = {"prompt": lambda: whole.step(0), "token": lambda: one.step(PROMPT)}
    try:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        other = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        first = {**decoders.inputs(sizes, prompt, 0), **decoders.caches(sizes, 1)}
        first["attention_mask"] = first["attention_mask"][:, :PROMPT]
        binding = other.io_binding()
        following = {**decoders.inputs(sizes, prompt[:, :1], PROMPT), **one.caches}
        for name, x in following.items():
            binding.bind_cpu_input(name, x)
        for name in (o.name for o in other.get_outputs()):
            x = one.logits if name == "logits" else one.caches[name.replace("present", "past_key_values")].copy()
            following[name] = x  # which the binding has only the address of
            binding.bind_output(name, "cpu", 0, np.float32, x.shape, x.ctypes.data)
        calls["onnxruntime's prompt"] = lambda: other.run(None, first)
        calls["onnxruntime's token"] = lambda: other.run_with_iobinding(binding)
    except ImportError:
        pass
    t = best(calls, clock=time.thread_time)
    return {name: seconds * 1e3 for name, seconds in t.items()}


def _dynamic(m: int, device: dml.Device) -> dict[str, Any]:
    rng, k = np.random.default_rng(0), 768
    constants: dict[str, Array] = {"w": rng.integers(-127, 128, (k, k)).astype(np.int8), "s": np.array(0.01, np.float32)}
    x = rng.standard_normal((m, k)).astype(np.float32)
    nodes: Any = [("DynamicQuantizeMatMul", ["a", "w", "s"], ["y"], {"domain": "com.microsoft"})]
    t = best({"ours": _ours(nodes, x, k, constants, device), **_peer(nodes, x, k, constants)}, clock=time.thread_time)
    row: dict[str, Any] = {"product": f"{m} x {k} x {k}, dynamically quantised", "ms": t["ours"] * 1e3}
    return row | {f"x {name}": t[name] / t["ours"] for name in t if name != "ours"}


def _shown(rows: list[dict[str, Any]]) -> None:
    heads = list(dict.fromkeys(name for row in rows for name in row))
    print("\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(x if isinstance(x, str) else f"{x:.2f}" for x in (row.get(h, "") for h in heads)) + " |")


def run() -> list[dict[str, Any]]:
    device = dml.Device(threads=1, feature_level="EXTENDED")
    rows = [_product(*shape, device) for shape in SHAPES if shape[0] * shape[1] * shape[2] < MOST]
    rows += [_product(*shape, device, kind) for shape in SHAPES[:2] for kind in KINDS]
    _shown(rows)
    decoded = {"decoder": f"12 layers of 768, prompt of {PROMPT}, ms", **_decoder(device)}
    _shown([decoded])
    dynamic = [_dynamic(m, device) for m in (1, 64)]
    _shown(dynamic)
    return [*rows, decoded, *dynamic]
