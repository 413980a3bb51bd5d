"""Everything that an OpenCL device computes beside the CPU device, bit by bit: `python -m tools.opencl_check opencl`.

Lists the devices, runs the self-test, then every operator's examples and generated cases, large maps with hostile data,
rows, nests and products, contractions, graphs, fused and not, and the demo models; at the end, the counts, and what differed.
It needs NumPy, llvmlite, pyopencl, python-flint and onnx. `--only contractions --seconds 3000` compares 10^7 outputs of them.
"""

from __future__ import annotations

import argparse
import inspect
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

import anydml as dml  # noqa: E402
import opencl_contractions  # noqa: E402
from anydml import operators  # noqa: E402
from anydml.cases import drawn  # noqa: E402
from anydml.errors import DataError, Error  # noqa: E402
from anydml.functional.describing import described  # noqa: E402
from anydml.kernels.opencl import platform  # noqa: E402
from anydml.schema.operator import Desc  # noqa: E402

Array = NDArray[Any]
SPECIAL = [0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38]
SPECIAL += [1, -1, 0.5, 2, 88.72284, -103.97, 1e-30, 16777216, 4097, 3]


class Tally:
    """Cases and outputs that were compared, by section and kernel, and the cases that differ or fail."""

    def __init__(self) -> None:
        self.end = 0.0  # of the time for a section
        self.cases: Counter[str] = Counter()
        self.outputs: Counter[str] = Counter()
        self.kernels: dict[str, set[str]] = defaultdict(set)
        self.open: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.warned: Counter[str] = Counter()

    @property
    def late(self) -> bool:
        return time.monotonic() > self.end

    def compare(self, section: str, title: str, work: Callable[[], Iterator[tuple[str, Array, Array]]]) -> None:
        """Compare pairs of arrays by their bits."""
        self.cases[section] += 1
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for name, got, want in work():
                    self.outputs[section] += want.size
                    bits = f"u{want.itemsize}"
                    differ = np.flatnonzero(np.ascontiguousarray(got).view(bits) != np.ascontiguousarray(want).view(bits))
                    if len(differ):
                        k = differ[0]
                        self.wrong.append(
                            f"{section}: {title}: {name}: {len(differ)} of {want.size} differ, "
                            f"at {k}: {got.ravel()[k]!r} for {want.ravel()[k]!r}"
                        )
            for one in caught:
                self.warned[f"{one.category.__name__}: {str(one.message)[:300]}"] += 1
        except Exception as error:  # a driver may raise anything, and the other cases go on
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(last.filename).name}:{last.lineno}"
            self.wrong.append(f"{section}: {title}: {type(error).__name__}: {str(error)[:400]} ({place})")


class Devices(NamedTuple):
    there: dml.Device
    here: dml.Device


def outputs_of(desc: Desc) -> dict[str, Any]:
    """New arrays for the outputs, by field."""
    found: dict[str, Any] = {}
    for t in desc.tensors():
        if t.field in desc.spec.outputs:
            dtype = np.dtype(np.uint8) if t.desc.data_type.element_bits == 4 else t.desc.data_type.dtype
            shape = (t.desc.total,) if t.desc.data_type.element_bits == 4 or t.desc.strides else t.desc.sizes
            shape = (t.desc.total // dtype.itemsize,) if t.desc.strides else shape
            made = np.full(shape, 77, dtype)
            if t.field.sized_by:
                found.setdefault(t.field.name, []).append(made)
            else:
                found[t.field.name] = made
    return found


def flat(arrays: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
    for name, value in arrays.items():
        for k, x in enumerate(value if isinstance(value, list) else [value]):
            yield f"{name}[{k}]", x


def computed(device: dml.Device, desc: Desc, inputs: Mapping[str, Any], tally: Tally | None = None) -> dict[str, Array] | str:
    """The outputs of an operator, or the rule about data that its inputs break."""
    compiled = device.compile(desc)
    outputs = outputs_of(desc)
    owned = {t.field.name for t in desc.tensors() if t.desc.flags}
    given = {k: (list(v) if isinstance(v, (list, tuple)) else v) for k, v in inputs.items() if v is not None}
    if owned:
        compiled.initialize(**{k: v for k, v in given.items() if k in owned})
    bound = compiled.bind(**{k: v for k, v in given.items() if k not in owned}, **outputs)
    try:
        bound.execute()
        bound.execute()
    except DataError as error:
        return str(error)
    if tally is not None:
        tally.kernels[desc.spec.name].add(compiled.kernel_name)
        _, undecided, exact = compiled.counters()
        tally.open["undecided by the first stage"] += undecided
        tally.open["decided on the processor"] += exact
    return dict(flat(outputs))


def equal(devices: Devices, desc: Desc, inputs: Mapping[str, Any], tally: Tally) -> Iterator[tuple[str, Array, Array]]:
    got, want = computed(devices.there, desc, inputs, tally), computed(devices.here, desc, inputs)
    if isinstance(want, str) or isinstance(got, str):
        assert got == want, (got, want)
        return
    for name, x in want.items():
        yield name, got[name], x


def check_examples(devices: Devices, tally: Tally) -> None:
    """Every operator's examples."""
    for operator in operators.every():
        for example in operator.spec.examples:
            if tally.late:
                return
            desc = operator(**example.fields)
            tally.compare(
                "examples", f"{operator.spec.name}, {example.title}", partial(equal, devices, desc, example.inputs, tally)
            )


def check_cases(devices: Devices, tally: Tally, count: int) -> None:
    """Generated cases of every operator, with hard inputs."""
    for operator in operators.every():
        try:
            cases = drawn.cases(operator.spec.name, count, level=dml.FeatureLevel.FL_6_4)
        except ValueError:
            continue
        for case in cases:
            if tally.late:
                return
            try:
                inputs = case.inputs
            except Error:
                continue
            tally.compare("cases", f"{operator.spec.name} {case}", partial(equal, devices, case.desc, inputs, tally))


def hostile(k: int, n: int, dtype: np.dtype[Any], kind: str) -> Array:
    r = np.random.default_rng(7 + k)
    if dtype.kind != "f":
        bits: Array = r.integers(0, 256, n * dtype.itemsize, np.uint8).view(dtype)
        return bits
    if kind == "normal":
        normal: Array = r.standard_normal(n).astype(dtype)
        return normal
    x: Array = r.integers(0, 256, n * dtype.itemsize, np.uint8).view(dtype).copy()
    with np.errstate(over="ignore"):
        x[: n // 2] = (r.standard_normal(n // 2) * 10.0 ** r.uniform(-8, 3, n // 2)).astype(dtype)
        s = np.array(SPECIAL).astype(dtype)
    x[: len(s) ** 2] = np.tile(s, len(s)) if k % 2 == 0 else np.repeat(s, len(s))
    return x


def maps_of(n: int, data_type: str) -> Iterator[Desc]:
    """Maps of one-dimensional tensors, with the usual attributes."""
    for operator in operators.every():
        if not operator.__name__.startswith(("ElementWise", "Activation")):
            continue
        t = dml.TensorDesc(data_type, (n,))
        try:
            desc = operator(**{x: t for x in inspect.signature(operator).parameters if x.endswith("_tensor")})
            dml.check(desc)
        except (Error, TypeError):
            continue
        yield desc


def check_maps(devices: Devices, tally: Tally, n: int) -> None:
    """Large maps, with normal and hostile elements."""
    for data_type in ("FLOAT32", "FLOAT16", "INT32", "UINT8", "INT64"):
        size = n if data_type == "FLOAT32" else n // 4
        for desc in maps_of(size, data_type):
            for kind in ("normal", "hostile") if data_type.startswith("F") else ("hostile",):
                if tally.late:
                    return
                tensors = [t for t in desc.tensors() if t.field not in desc.spec.outputs]
                inputs = {t.name: hostile(k, size, t.desc.data_type.dtype, kind) for k, t in enumerate(tensors)}
                tally.compare(f"maps of {data_type}", f"{desc.spec.name}, {kind}", partial(equal, devices, desc, inputs, tally))


def chain(x: Any, y: Any) -> Any:
    for _ in range(4):
        x = dml.activation_gelu(dml.element_wise_add(x, y))
        y = dml.element_wise_multiply(dml.activation_tanh(y), x)
    return dml.element_wise_subtract(x, y)


def pooled(x: Any, y: Any) -> Any:
    z = dml.max_pooling(dml.activation_relu(dml.element_wise_add(x, y)), window_size=(3, 3))
    z = dml.average_pooling(dml.activation_sigmoid(z), window_size=(2, 2), include_padding=False)
    return dml.activation_elu(z)


def mixed(x: Any, y: Any) -> Any:
    z = dml.activation_softmax1(dml.element_wise_add(x, y), axes=(3,))
    return dml.element_wise_multiply(dml.activation_tanh(z), x)


def product(x: Any, y: Any) -> Any:
    z = dml.activation_relu(dml.gemm(x, y))
    return dml.element_wise_add(dml.activation_gelu(z), x)


def check_graphs(devices: Devices, tally: Tally) -> None:
    """Graphs of kernels there and of calls of the processor, fused and not, from arrays and from buffers."""
    r = np.random.default_rng(3)
    for function in (chain, pooled, mixed, product):
        arrays = {name: r.standard_normal((4, 8, 32, 32)).astype(np.float32) for name in "xy"}
        for fuse in (True, False):
            title = f"{function.__name__}, fuse={fuse}"
            tally.compare("graphs", title, partial(_of_graph, devices, function, arrays, fuse))


def _of_graph(devices: Devices, function: Any, arrays: dict[str, Array], fuse: bool) -> Iterator[tuple[str, Array, Array]]:
    made = dml.graph(function, **{name: dml.TensorDesc.of(x) for name, x in arrays.items()})
    ((name, t),) = made.outputs.items()
    want, got = (np.empty(t.sizes, t.data_type.dtype) for _ in range(2))
    made.compile(devices.here, fuse=fuse).bind(**arrays, **{name: want}).execute()
    there = made.compile(devices.there, fuse=fuse)
    bound = there.bind(**arrays, **{name: got})
    for _ in range(2):
        bound.execute()
        yield "from arrays", got, want
    buffers = {k: devices.there.buffer(x) for k, x in arrays.items()}
    result = devices.there.buffer(np.zeros_like(got))
    bound = there.bind(**buffers, **{name: result})
    for _ in range(2):
        bound.execute()
        yield "from buffers", result.numpy(), want


def check_models(devices: Devices, tally: Tally) -> None:
    """The demo models, from arrays to arrays."""
    for path in sorted((ROOT / "examples" / "digits").glob("*.onnx")):
        tally.compare("models", path.name, partial(_of_model, path, devices))


def _of_model(path: Path, devices: Devices) -> Iterator[tuple[str, Array, Array]]:
    import onnx

    from anydml.onnx import load

    r = np.random.default_rng(5)
    model = load(path)
    inputs: dict[str, Array] = {}
    for name, t in model.inputs.items():
        shape = [n if isinstance(n, int) else 8 for n in t.sizes or ()]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(t.element_type)
        drawn_ = r.standard_normal(shape) if dtype.kind == "f" else r.integers(0, 16, shape)
        inputs[name] = drawn_.astype(dtype)
    got, want = (model.run(inputs, device=device) for device in devices)
    for name, x in want.items():
        yield name, got[name], x


COPY = "kernel void copy(global const float4 *x, global float4 *y) { size_t i = get_global_id(0); y[i] = x[i]; }"


def least(run: Callable[[], object], times: int = 5) -> float:
    """The least seconds of a call, after one that makes it ready."""
    run()
    found = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found)


def bandwidth(opened: platform.Opened, nbytes: int) -> float:
    """Bytes a second that a plain copy reads and writes."""
    x, y = opened.allocate(nbytes), opened.allocate(nbytes)
    kernel = opened.kernel(opened.program(COPY), "copy")
    kernel.set_args(x, y)

    def run() -> None:
        opened.launch(kernel, nbytes // 16, 256)
        opened.queue.finish()

    return 2 * nbytes / least(run)


def timed() -> list[tuple[str, Callable[..., Any], tuple[int, ...], int, str]]:
    """Names, functions, sizes of one part of 2^20 elements, the number of inputs, and the data type."""
    vector, rows, long, images = (1, 1, 1, 1 << 20), (1, 1, 1024, 1024), (1, 1, 64, 16384), (4, 64, 64, 64)
    return [
        ("identity", dml.element_wise_identity, vector, 1, "float32"),
        ("add", dml.element_wise_add, vector, 2, "float32"),
        ("multiply, float16", dml.element_wise_multiply, vector, 2, "float16"),
        ("exp", dml.element_wise_exp, vector, 1, "float32"),
        ("tanh", dml.activation_tanh, vector, 1, "float32"),
        ("GELU", dml.activation_gelu, vector, 1, "float32"),
        ("GELU, float16", dml.activation_gelu, vector, 1, "float16"),
        ("sigmoid", dml.activation_sigmoid, vector, 1, "float32"),
        ("max pooling 3x3", partial(dml.max_pooling, window_size=(3, 3)), images, 1, "float32"),
        ("average pooling 2x2", partial(dml.average_pooling, window_size=(2, 2), include_padding=False), images, 1, "float32"),
        ("softmax of 1024", partial(dml.activation_softmax1, axes=(3,)), rows, 1, "float32"),
        ("softmax of 16384", partial(dml.activation_softmax1, axes=(3,)), long, 1, "float32"),
        ("log-softmax of 1024", partial(dml.activation_log_softmax1, axes=(3,)), rows, 1, "float32"),
        ("normalisation of 1024", _normalised, rows, 1, "float32"),
        ("sum of 1024", partial(dml.reduce, function="SUM", axes=(3,)), rows, 1, "float32"),
        ("sum across 1024", partial(dml.reduce, function="SUM", axes=(2,)), rows, 1, "float32"),
        ("argmax of 1024", partial(dml.reduce, function="ARGMAX", axes=(3,)), rows, 1, "float32"),
    ]


def _normalised(x: Any) -> Any:
    return dml.mean_variance_normalization1(x, None, None, axes=(3,), normalize_variance=True, epsilon=1e-5)


def check_large(devices: Devices, tally: Tally) -> None:
    """The calls that are timed, and sums of products, on normal and on hostile elements."""
    matrices, images = (1, 1, 700, 500), (2, 24, 40, 40)
    more = [
        ("product", _product, matrices, 1, "float32"),
        ("product, float16", _product, matrices, 1, "float16"),
        ("convolution", _convolved, images, 1, "float32"),
    ]
    for title, function, sizes, inputs, dtype in [*timed(), *more]:
        for kind in ("normal", "hostile"):
            if tally.late:
                return
            given = {
                name: hostile(k, prod(sizes), np.dtype(dtype), kind).reshape(sizes) for k, name in enumerate("xy"[:inputs])
            }
            work = partial(_of_graph, devices, _called(function, inputs), given, True)
            tally.compare("rows, nests, products", f"{title}, {kind}", work)


def check_contractions(devices: Devices, tally: Tally, outputs: int) -> None:
    """Contractions of floats and integers until so many outputs are compared."""
    section = "contractions"
    for case in opencl_contractions.cases(39):
        if tally.late or tally.outputs[section] >= outputs:
            return
        made = described(case.function, **case.arguments)
        tally.compare(section, case.title, partial(equal, devices, made.desc, made.inputs, tally))


def _product(x: Any) -> Any:
    return dml.gemm(x, x, trans_b="TRANSPOSE")


def _convolved(x: Any) -> Any:
    return dml.convolution(x, dml.slice1(x, (0, 0, 0, 0), (2, 24, 3, 3)), start_padding=(1, 1), end_padding=(1, 1))


def launching(device: dml.Device) -> str:
    """The time of a graph of 20 small nodes on buffers, and of the bare launches of its kernels."""
    t = dml.TensorDesc("FLOAT32", (1, 1, 8, 8))

    def twenty(x: Any) -> Any:
        for _ in range(20):
            x = dml.element_wise_abs(x)
        return x

    graph = dml.graph(twenty, x=t)
    ((out, _),) = graph.outputs.items()
    bound = graph.compile(device, fuse=False).bind(x=device.buffer(t), **{out: device.buffer(t)})
    whole = least(bound.execute, 300)
    call = graph.compile(device, fuse=False).call.resident(bound.arrays)
    call.execute()
    launches = [one.launch for step in call.steps for one in step.calls]

    def bare() -> None:
        for launch in launches:
            launch()
        call.opened.queue.finish()

    kernels = least(bare, 300)
    return f"a graph of 20 nodes: {whole * 1e6:.0f} us, of which launches and kernels {kernels * 1e6:.0f} us"


def _called(function: Callable[..., Any], inputs: int) -> Callable[..., Any]:
    def one(x: Any) -> Any:
        return function(x)

    def two(x: Any, y: Any) -> Any:
        return function(x, y)

    return one if inputs == 1 else two


def check_times(devices: Devices, tally: Tally, parts: int) -> list[str]:
    """Times of calls on buffers beside a plain copy's bandwidth, and the CPU device's times."""
    opened = platform.opened(devices.there.machine.opencl)
    nbytes = parts << 22
    fastest = bandwidth(opened, nbytes)
    lines = [f"a plain copy of {nbytes >> 20} MiB: {fastest / 1e9:.1f} GB/s", launching(devices.there)]
    r = np.random.default_rng(1)
    for title, function, sizes, inputs, dtype in timed():
        if tally.late:
            break
        try:
            x = r.standard_normal((sizes[0] * parts, *sizes[1:]), np.float32).astype(dtype)
            t = dml.TensorDesc.of(x)
            made = dml.graph(_called(function, inputs), **dict.fromkeys("xy"[:inputs], t))
            ((out, o),) = made.outputs.items()
            names = [*made.inputs]
            there = made.compile(devices.there)
            buffers = {name: devices.there.buffer(x) for name in names}
            result = devices.there.buffer(o)
            seconds = least(there.bind(**buffers, **{out: result}).execute)
            y = np.empty(o.sizes, o.data_type.dtype)
            here = least(made.compile(devices.here).bind(**dict.fromkeys(names, x), **{out: y}).execute, 2)
            equal_ = bool((result.numpy().view(f"u{y.itemsize}") == y.view(f"u{y.itemsize}")).all())
            moved = x.nbytes * inputs + y.nbytes
            kernels = ", ".join(part.kernel_name for part in there.call.parts)
            share = moved / seconds / fastest
            lines.append(
                f"{title:22} {x.size:11,} elements {seconds * 1e3:9.3f} ms, {share:5.0%} of a copy's bandwidth; "
                f"CPU {here * 1e3:9.1f} ms; {'equal' if equal_ else 'DIFFERENT'}; {kernels}"
            )
            if not equal_:
                tally.wrong.append(f"times: {title}: bits differ")
        except Exception as error:  # the others go on
            lines.append(f"{title}: {type(error).__name__}: {error}")
            tally.wrong.append(lines[-1])
    return lines


def summary(tally: Tally) -> None:
    print("\nSUMMARY")
    for section, cases in tally.cases.items():
        print(f"{section}: {cases} cases, {tally.outputs[section]:,} outputs")
    print(f"{sum(tally.outputs.values()):,} outputs in all; {dict(tally.open)}")
    there = {name for name, kernels in tally.kernels.items() if any(k.endswith(":opencl") for k in kernels)}
    never = {name for name in tally.kernels if name not in there}
    print(f"{len(there)} operators have kernels there; {len(never)} run on the processor: {', '.join(sorted(never))}")
    for text, times in tally.warned.most_common(12):
        print(f"warned {times} times: {text}")
    print(f"{len(tally.wrong)} cases differ or fail")
    for line in tally.wrong[:40]:
        print(" ", line[:500])


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("device", nargs="?", default="opencl", help="its name, or all")
    asked.add_argument("--seconds", type=float, default=300.0, help="after which no more cases are begun")
    asked.add_argument("--cases", type=int, default=12, help="generated cases of each operator")
    asked.add_argument("--elements", type=int, default=1_000_000, help="of a large map")
    asked.add_argument("--only", default="graphs,times,models,large,contractions,examples,maps,cases", help="sections")
    asked.add_argument("--contracted", type=int, default=10_000_000, help="outputs of contractions")
    asked.add_argument("--parts", type=int, default=64, help="of 2^20 elements each, in what is timed")
    arguments = asked.parse_args()
    for found in platform.found():
        print(f"opencl:{found.number} {found.title}, {found.driver}: {found.refused or 'has what is needed'}")
    if arguments.device == "all":
        for found in platform.found():
            if found.refused is None:  # in a process of its own: two versions of a driver share symbols
                options = [x for x in sys.argv[1:] if x != "all"]
                name = f"{platform.PREFIX}:{found.number}"
                subprocess.run([sys.executable, "-m", "tools.opencl_check", name, *options], cwd=ROOT, check=True)
    else:
        checked(arguments.device, arguments)


def checked(name: str, arguments: argparse.Namespace) -> None:
    """Run all sections on a device."""
    began = time.monotonic()
    devices = Devices(dml.Device(name), dml.Device("cpu"))
    print(f"{devices.there} passed the self-test, opened in {time.monotonic() - began:.1f} s", flush=True)
    tally, times = Tally(), list[str]()
    sections: dict[str, tuple[float, Callable[[], None]]] = {  # with their shares of the time
        "graphs": (0.1, lambda: check_graphs(devices, tally)),
        "times": (0.3, lambda: times.extend(check_times(devices, tally, arguments.parts))),
        "models": (0.1, lambda: check_models(devices, tally)),
        "large": (0.4, lambda: check_large(devices, tally)),
        "contractions": (0.4, lambda: check_contractions(devices, tally, arguments.contracted)),
        "examples": (0.4, lambda: check_examples(devices, tally)),
        "maps": (0.6, lambda: check_maps(devices, tally, arguments.elements)),
        "cases": (1.0, lambda: check_cases(devices, tally, arguments.cases)),
    }
    end = began + arguments.seconds
    asked = arguments.only.split(",")
    for name, (share, run) in sections.items():
        if name in asked:
            began = time.monotonic()
            tally.end = began + (share if len(asked) > 1 else 1.0) * (end - began)
            run()
            spent, late = time.monotonic() - began, " (the time was over)" if tally.late else ""
            print(f"{name}: {spent:.1f} s{late}, {len(tally.wrong)} wrong so far", flush=True)
    summary(tally)
    print("\n".join(times))
    if tally.wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
