"""Whole models on an OpenCL device beside the CPU device, bit by bit: `python -m benchmarks.opencl_models`.

The demo models, ResNet-18 and MobileNetV2 of floats and of integers, a quantised MobileNetV2, an encoder, networks of LSTM and
GRU, and a decoder with weights of 4 bits; their weights are random. Each is compiled fused and not, and executed twice from
arrays and twice from buffers. Prints, for each, the outputs, how many of them differ, how many steps are not on the device when
inputs and outputs are buffers, and the bytes of indices that this machine looks at; with --times, the time beside the CPU
device's, of products and attention, too. Files of other models may be given: their inputs are random. It needs NumPy, llvmlite,
pyopencl, python-flint, onnx.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

import anydml as dml
from anydml.onnx import Model, load
from anydml.onnx.compare_runtimes import drawn
from benchmarks import decoders
from benchmarks.networks import network
from benchmarks.small_models import Net
from benchmarks.starting_models import mobilenet

ROOT = Path(__file__).parent.parent
Array = NDArray[Any]
Arrays = Mapping[str, Array]


class Found(NamedTuple):
    """A model's comparison. steps: of a call on buffers. elsewhere: those of the processor, and copies to the device.

    judged: the bytes that are copied to this machine, where rules about indices are checked.
    """

    outputs: int
    differ: int
    steps: int
    elsewhere: list[str]
    judged: int


class Case(NamedTuple):
    """A graph with its inputs."""

    title: str
    graph: dml.Graph
    inputs: Arrays


def encoder(layers: int, hidden: int, heads: int, length: int) -> ModelProto:
    """A transformer's encoder: attention of several heads, and GELU."""
    net, wide = Net(), 4 * hidden
    narrow = net.constant(np.array([1, length, heads, hidden // heads]))
    joined = net.constant(np.array([1, length, hidden]))

    def normalised(x: str) -> str:
        return net.node("LayerNormalization", x, net.weights(hidden, scale=1.0), net.weights(hidden))

    def dense(x: str, read: int, written: int) -> str:
        return net.node("Add", net.node("MatMul", x, net.weights(read, written, scale=read**-0.5)), net.weights(written))

    def split(x: str, order: list[int]) -> str:
        return net.node("Transpose", net.node("Reshape", dense(x, hidden, hidden), narrow), perm=order)

    x = "x"
    for _ in range(layers):
        y = normalised(x)
        scores = net.node("MatMul", split(y, [0, 2, 1, 3]), split(y, [0, 2, 3, 1]))
        scores = net.node("Mul", scores, net.constant(np.float32((hidden // heads) ** -0.5)))
        z = net.node("MatMul", net.node("Softmax", scores, axis=-1), split(y, [0, 2, 1, 3]))
        z = net.node("Reshape", net.node("Transpose", z, perm=[0, 2, 1, 3]), joined)
        x = net.node("Add", x, dense(z, hidden, hidden))
        x = net.node("Add", x, dense(net.node("Gelu", dense(normalised(x), hidden, wide)), wide, hidden))
    made = net.model([1, length, hidden], [normalised(x)])
    made.opset_import[0].version = 20
    return made


def recurrent(operator: str, steps: int, width: int, hidden: int) -> ModelProto:
    """Two layers in both directions, and a layer that reads the states of all steps."""
    net, gates = Net(), {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    x, read = "x", width
    for _ in range(2):
        shape = (2, gates * hidden)
        weights = [net.weights(*shape, n, scale=n**-0.5) for n in (read, hidden)]
        more = {"linear_before_reset": 1} if operator == "GRU" else {}
        given = [x, *weights, net.weights(2, 2 * gates * hidden)]
        x = net.node(operator, *given, hidden_size=hidden, direction="bidirectional", **more)
        x = net.node("Reshape", net.node("Transpose", x, perm=[0, 2, 1, 3]), net.constant(np.array([steps, 2, 2 * hidden])))
        read = 2 * hidden
    return net.model([steps, 2, width], [net.node("MatMul", x, net.weights(read, 16, scale=read**-0.5))])


def of_model(title: str, model: Model, inputs: Arrays) -> Case:
    return Case(title, model.graph(**{name: x.shape for name, x in inputs.items()}), inputs)


def of_file(path: Path, sizes: Mapping[str, Any]) -> Case:
    model = load(path)
    return of_model(path.name, model, drawn(model, 1, sizes))


def of_proto(title: str, proto: ModelProto) -> Case:
    model = load(proto)
    return of_model(title, model, drawn(model, 1, {}))


def of_network(name: str, title: str, quantised: bool, size: int, part: int) -> Case:
    made = network(name, quantised=quantised, size=size, part=part)
    return Case(title, made.graph, {"x": made.image})


def of_decoder(sizes: decoders.DecoderSizes, title: str, length: int) -> Case:
    model = load(decoders.decoder(sizes))
    r = np.random.default_rng(0)
    caches = {n: x + r.standard_normal(x.shape, np.float32) for n, x in decoders.caches(sizes, 2).items()}
    given = decoders.inputs(sizes, r.integers(0, sizes.words, (2, length)), 5)
    return of_model(title, model, {**given, **caches})


def cases(size: int, part: int) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Titles, and functions that make the cases. size: of images; part: a divisor of the channels."""
    for path in sorted((ROOT / "examples" / "digits").glob("*.onnx")):
        yield path.name, partial(of_file, path, {"N": 8})
    for name in ("ResNet-18", "MobileNetV2"):
        for quantised in (False, True):
            title = f"{name}{', integers' if quantised else ''}"
            yield title, partial(of_network, name, title, quantised, size, part)
    whole = size == 224
    many = 2 if whole else 1
    yield "encoder", lambda: of_proto("encoder", encoder(6 if whole else 2, 128 * many, 4, 32 * many))
    for operator in ("LSTM", "GRU"):
        yield operator, partial(lambda name: of_proto(name, recurrent(name, 16 * many, 40, 64 * many)), operator)
    sizes = decoders.DecoderSizes(layers=4, hidden=256, heads=4, key_heads=2, wide=512, words=1024, rows=64)
    sizes = sizes if whole else decoders.SMALL
    for length in (1, 7):
        title = f"decoder of 4 bits, {length} token{'s' * (length > 1)}"
        yield title, partial(of_decoder, sizes, title, length)
    if whole:
        yield "MobileNetV2 as exporters quantise it", lambda: of_proto("quantised MobileNetV2", mobilenet())


def compared(case: Case, there: dml.Device, here: dml.Device, ways: Sequence[bool] = (True, False)) -> Found:
    """All executions of a case, and what its call on buffers does elsewhere. ways: fused or not."""
    outputs = {name: np.empty(t.sizes, t.data_type.dtype) for name, t in case.graph.outputs.items()}
    wanted = {name: x.copy() for name, x in outputs.items()}
    inputs = _taken(case)
    case.graph.compile(here).bind(**inputs, **wanted).execute()
    found = Found(0, 0, 0, [], 0)
    for fuse in ways:
        compiled = case.graph.compile(there, fuse=fuse)
        bound = compiled.bind(**inputs, **outputs)
        for _ in range(2):
            for x in outputs.values():
                x.view(np.uint8)[...] = 77
            bound.execute()
            found = _counted(found, outputs, wanted)
        held = {name: there.buffer(x) for name, x in inputs.items()}
        results = {name: there.buffer(x) for name, x in outputs.items()}
        on_buffers = compiled.bind(**held, **results)
        for _ in range(2):
            on_buffers.execute()
            found = _counted(found, {name: b.numpy() for name, b in results.items()}, wanted)
        spent = compiled.profile(times=1, **held, **results)
        elsewhere = [f"{s.nodes}: {s.kernel}" for s in spent if s.kernel.startswith("cpu/") or s.nodes == "copy to the device"]
        judged = sum(s.bytes for s in spent if s.nodes == "copy to the host")
        steps = found.steps + len(spent)
        found = found._replace(steps=steps, elsewhere=[*found.elsewhere, *elsewhere], judged=found.judged + judged)
    return found


def _taken(case: Case) -> dict[str, Array]:
    """The inputs that the graph reads, with truth values as bytes."""
    given = {name: case.inputs[name] for name in case.graph.inputs}
    return {name: x.view(np.uint8) if x.dtype == np.bool_ else x for name, x in given.items()}


def _counted(found: Found, made: Arrays, wanted: Arrays) -> Found:
    differ = sum(int((_bits(made[name]) != _bits(x)).sum()) for name, x in wanted.items())
    return found._replace(outputs=found.outputs + sum(x.size for x in wanted.values()), differ=found.differ + differ)


def _bits(x: Array) -> Array:
    return x.reshape(-1).view(f"u{x.itemsize}")


def timed(case: Case, there: dml.Device, here: dml.Device) -> tuple[float, float]:
    """The least seconds of three calls on buffers of the device, and of three on the CPU device."""
    found = []
    for device in (there, here):
        inputs = _taken(case)
        outputs = {name: np.empty(t.sizes, t.data_type.dtype) for name, t in case.graph.outputs.items()}
        arrays: dict[str, Any] = {**inputs, **outputs}
        if device is there:
            arrays = {name: there.buffer(x) for name, x in arrays.items()}
        run = case.graph.compile(device).bind(**arrays).execute
        run()
        least = float("inf")
        for _ in range(3):
            began = time.perf_counter()
            run()
            least = min(least, time.perf_counter() - began)
        found.append(least)
    return found[0], found[1]


def products(n: int) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Products of floats, of floats whose sums all cancel, and of integers, and attention."""
    r = np.random.default_rng(0)
    a, b = (r.standard_normal((1, 1, n, n), np.float32) for _ in "ab")
    half, x = n // 2, r.integers(0, 256, (1, 1, n, n)).astype(np.uint8)
    pairs = {"a": np.concatenate([a[..., :half]] * 2, -1), "b": np.concatenate([b[..., :half, :], -b[..., :half, :]], -2)}
    heads = dict(zip(("query", "key", "value"), r.standard_normal((3, 1, 256, 512), np.float32), strict=True))
    for title, function, inputs in (
        (f"GEMM of {n} x {n} x {n}", dml.gemm, {"a": a, "b": b}),
        ("the same, whose sums cancel", dml.gemm, pairs),
        (f"integers, {n} x {n} x {n}", dml.matrix_multiply_integer, {"a": x, "b": x}),
        ("attention, 8 heads of 64, 256 keys", partial(dml.multihead_attention, head_count=8, scale=0.125), heads),
    ):
        yield title, partial(_of_function, title, function, inputs)


def _of_function(title: str, function: Callable[..., Any], inputs: Arrays) -> Case:
    graph = dml.graph(lambda **given: function(**given), **{name: dml.TensorDesc.of(x) for name, x in inputs.items()})
    return Case(title, graph, inputs)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("files", nargs="*", type=Path, help="models, instead of the usual ones")
    asked.add_argument("--device", default="opencl", help="its name")
    asked.add_argument("--image", type=int, default=224, help="the size of images")
    asked.add_argument("--part", type=int, default=1, help="a divisor of the channels")
    asked.add_argument("--size", action="append", default=[], metavar="NAME=N", help="a size that files leave open")
    asked.add_argument("--only", default="", help="only models with this in their titles")
    asked.add_argument("--times", action="store_true", help="time them, too")
    arguments = asked.parse_args()
    there, here = (dml.Device(name, feature_level="EXTENDED") for name in (arguments.device, "cpu"))
    sizes = {name: int(n) for name, _, n in (text.partition("=") for text in arguments.size)}
    made = cases(arguments.image, arguments.part)
    if arguments.files:
        made = ((path.name, partial(of_file, path, sizes)) for path in arguments.files)
    elif arguments.times:
        made = iter([*products(1024), *made])
    print(f"{there}\n{'model':38} {'outputs':>9} {'differ':>7} {'steps':>6} {'elsewhere':>9} {'judged':>6}", flush=True)
    outputs = differ = away = 0
    for title, make in made:
        if arguments.only not in title:
            continue
        case = make()
        found = compared(case, there, here)
        line = f"{case.title:38} {found.outputs:9,} {found.differ:7,} {found.steps:6} {len(found.elsewhere):9} {found.judged:6}"
        if arguments.times:
            a, b = timed(case, there, here)
            line += f"  {a * 1e3:9.2f} ms, CPU device {b * 1e3:8.2f} ms"
        print(line, flush=True)
        for text in dict.fromkeys(found.elsewhere):
            print(f"    {text[:150]}")
        outputs, differ, away = outputs + found.outputs, differ + found.differ, away + len(found.elsewhere)
    print(f"{outputs:,} outputs, {differ:,} differ; {away} steps, or copies to the device, are not there")
    return int(differ > 0)


if __name__ == "__main__":
    raise SystemExit(main())
