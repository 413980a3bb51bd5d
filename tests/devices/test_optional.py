"""Optimisation passes and kernels with unexpected errors: they are skipped with one warning, and results are the same."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml import DataType, OptimizationWarning, PerformanceWarning, TensorDesc, optional
from anydml.devices import graph as graphs
from anydml.devices import slow
from anydml.devices.families import BETWEEN, DEVICES, FUSED, IN_GRAPHS, WEIGHTS
from anydml.kernels.code import llvm
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.kernel import Refused
from every_kernel import Ran
from quantised_graphs import INT8, UINT8, Recipe, make

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="without LLVM, graphs are not optimised")
Array = NDArray[Any]
Outputs = dict[str, Array]
Sample = tuple[dml.GraphDesc, dict[str, Array]]
SOURCE = Path(dml.__file__).parent
REASON = "nobody expected this"
PASSES = {
    *("Regions between bytes are", "Moves that strides can say are", "Maps that are fused are"),
    *("Places that tensors share are", "All that is fused is", "Products of dequantised weights are"),
}
# where optional stages are run; the cache is the last one, and has tests of its own
SITES = {
    "devices/device.py": 1,
    "devices/graph.py": 4,
    "kernels/lower.py": 1,
    "kernels/code/engine.py": 1,
    "kernels/opencl/platform.py": 2,
}


def _network(x: Any) -> Any:
    """Maps, a product, moves and rows."""
    y = dml.activation_relu(dml.element_wise_add(dml.gemm(x, np.eye(8, dtype=np.float32)), 0.5))
    left, right = dml.slice1(y, (0, 0), (6, 4)), dml.slice1(y, (0, 4), (6, 4))
    joined = dml.join([dml.element_wise_sqrt(dml.element_wise_exp(left)), dml.element_wise_multiply(right, 3.0)], 1)
    return dml.activation_softmax1(dml.element_wise_subtract(joined, 0.25), axes=(1,)).transpose((1, 0))


def _between_bytes(pooled: Callable[[Any], Any]) -> Sample:
    def function(x: Any) -> Any:
        floats = dml.element_wise_dequantize_linear(x, np.float32(0.1), np.uint8(3))
        return dml.element_wise_quantize_linear(pooled(floats), np.float32(0.1), np.uint8(3))

    x = np.random.default_rng(1).integers(0, 256, (1, 8, 8, 8), np.uint8)
    return dml.graph(function, x=TensorDesc.of(x)).desc, {"x": x}


def _of_weights() -> Sample:
    rng = np.random.default_rng(4)
    elements, scales = rng.integers(0, 256, (64, 128), np.uint8), rng.random((64, 4)).astype(np.float32)

    def product(x: Any) -> Any:
        weights = dml.dequantize(x.constant(elements), [scales, np.full((64, 4), 128, np.uint8)])
        return dml.gemm(x, weights.transpose(1, 0))

    x = rng.standard_normal((2, 128)).astype(np.float32)
    return dml.graph(product, x=TensorDesc.of(x)).desc, {"x": x}


def _samples() -> dict[str, Sample]:
    x = np.random.default_rng(2).standard_normal((6, 8)).astype(np.float32)
    layer = make(Recipe(INT8, INT8, UINT8, (1, 16, 12, 12), (16, 3, 3), padding=1, clamp="relu"), 3)
    return {
        "maps": (dml.graph(_network, x=TensorDesc.of(x)).desc, {"x": x}),
        "means": _between_bytes(lambda x: dml.average_pooling(x, window_size=(2, 2), strides=(2, 2))),
        "largest": _between_bytes(lambda x: dml.max_pooling(x, window_size=(2, 2), strides=(2, 2))),
        "sums": (layer.desc, layer.inputs),
        "weights": _of_weights(),
    }


SAMPLES = _samples() if llvm.unavailable() is None else {}


def computed(sample: Sample, *, fuse: bool = True) -> Outputs:
    desc, inputs = sample
    compiled: Any = dml.Device("cpu", threads=1).compile(desc, fuse=fuse)
    outputs = {b.name: np.zeros(b.tensor.sizes, b.tensor.data_type.dtype) for b in compiled._checked.outputs}
    compiled.bind(**inputs, **outputs).execute()
    return outputs


def alike(a: Outputs, b: Outputs) -> bool:
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


@contextmanager
def said() -> Iterator[list[str]]:
    """The texts of warnings about optimisations, each shown once, as Python does by default for a line of this file."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        yield told
    assert all(w.category is OptimizationWarning and w.filename == __file__ for w in found), [str(w.message) for w in found]
    told += [str(w.message) for w in found]


def failing(
    monkeypatch: pytest.MonkeyPatch, failed: Callable[[str], bool], *, late: bool, error: Exception | None = None
) -> None:
    """Let stages with these names raise before they do anything, or after they have finished."""
    attempted = optional.attempted

    def faulty(stage: str, work: Callable[[], Any], instead: Callable[[str], Any]) -> Any:
        def raising() -> Any:
            if late:
                work()
            raise error or RuntimeError(REASON)

        return attempted(stage, raising if failed(stage) else work, instead)

    monkeypatch.setattr(optional, "attempted", faulty)


@pytest.fixture(scope="module")
def stages() -> dict[str, set[str]]:
    """The stages that each sample runs."""
    found: dict[str, set[str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, sample in SAMPLES.items():
            seen = found.setdefault(name, set())
            failing(patch, lambda stage, seen=seen: bool(seen.add(stage)), late=False)  # type: ignore[misc]
            computed(sample)
            patch.undo()
    return found


def test_the_stages_are_all_that_there_are(stages: dict[str, set[str]]) -> None:
    """Every place in the source, every pass, and every family that takes fused statements or regions."""
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    sites = {name: len(re.findall(r"\battempted\(", text)) for name, text in texts.items() if name != "optional.py"}
    assert {name: count for name, count in sites.items() if count} == SITES
    seen = set().union(*stages.values())
    kernels = {f"The kernels {name} are" for families in (FUSED["cpu"], BETWEEN, WEIGHTS) for name in families}
    assert seen >= PASSES | kernels
    assert not [stage for stage in seen - PASSES if not re.fullmatch(r"The kernels [\w.]+:\w+ are", stage)]


@pytest.mark.parametrize("late", [False, True], ids=["at once", "in the end"])
def test_a_stage_that_fails_is_left_out(
    late: bool, stages: dict[str, set[str]], monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    count = 0
    for name, sample in SAMPLES.items():
        unfused = computed(sample, fuse=False)
        assert alike(computed(sample), unfused)
        for stage in sorted(stages[name]):
            with monkeypatch.context() as patch, said() as told:
                failing(patch, lambda one, stage=stage: one == stage, late=late)  # type: ignore[misc]
                assert alike(computed(sample), unfused), stage
            assert len(told) == 1, (stage, told)
            assert told[0].startswith(f"{stage} left out: RuntimeError: {REASON} (")
            assert "report" in told[0]
            count += 1
    ran(count, 32)


PLACES = ["between_bytes", "with_regions", "products_of_weights", "with_products", "moves", "laid", "fuse", "laid_in_scratch"]
TABLES: list[tuple[Any, str]] = [
    *((BETWEEN, name) for name in BETWEEN),
    *((WEIGHTS, name) for name in WEIGHTS),
    *((FUSED["cpu"], name) for name in FUSED["cpu"]),
    *((IN_GRAPHS["cpu"], name) for name in ("copy:compiled", "elementwise:compiled", "contract.floats:compiled")),
    (IN_GRAPHS["cpu"], "reduce:compiled"),
]


@pytest.mark.parametrize("place", [*PLACES, *range(len(TABLES))], ids=str)
def test_functions_that_raise(place: str | int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finders, the layout and the families, wherever a sample calls them."""

    def raising(*arguments: Any) -> Any:
        raise RuntimeError(REASON)

    unfused = {name: computed(sample, fuse=False) for name, sample in SAMPLES.items()}
    if isinstance(place, str):
        monkeypatch.setattr(graphs, place, raising)
    else:
        table, family = TABLES[place]
        monkeypatch.setitem(cast(dict[str, Any], table), family, lambda: raising)
    some = 0
    for name, sample in SAMPLES.items():
        with said() as told:
            assert alike(computed(sample), unfused[name])
        assert len(told) <= 1
        some += len(told)
    assert some


def test_places_of_their_own_are_apart() -> None:
    """If sharing of scratch fails, tensors in it do not overlap."""
    with pytest.MonkeyPatch.context() as patch, said():

        def apart(*arguments: Any) -> Any:
            raise RuntimeError(REASON)

        patch.setattr(graphs, "laid_in_scratch", apart)
        compiled: Any = dml.Device("cpu").compile(SAMPLES["maps"][0])
        layout = compiled.call.layout
        sizes = {b: compiled._checked.buffers[b].bytes for b in layout.offsets}
    assert len(sizes) > 2
    ends = sorted((at, at + sizes[b]) for b, at in layout.offsets.items())
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
    assert ends[-1][1] <= layout.bytes
    assert all(at % 64 == 0 for at, _ in ends)


@pytest.mark.parametrize(
    "error",
    [dml.DataError("x", (), 0.0, "a rule"), dml.UnsupportedError("not here"), MemoryError("too much"), KeyboardInterrupt()],
)
def test_what_callers_are_told_of_is_raised(error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, lambda stage: stage in PASSES, late=False, error=error)
    with pytest.raises(type(error)):
        computed(SAMPLES["sums"])


def test_the_warning_is_an_error_in_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a stage within another one."""
    failing(monkeypatch, lambda stage: stage == "The kernels reduce:compiled are", late=False)
    with pytest.raises(OptimizationWarning, match=f"reduce:compiled are left out: RuntimeError: {REASON}"):
        computed(SAMPLES["maps"])


# --- operators ---


OPERATORS: list[Callable[[], Any]] = [
    lambda: dml.element_wise_exp(np.linspace(-3, 3, 50, dtype=np.float32)),
    lambda: dml.activation_softmax1(np.linspace(-3, 3, 48, dtype=np.float32).reshape(4, 12), axes=(1,)),
    lambda: dml.gemm(np.eye(5, dtype=np.float32), np.ones((5, 3), np.float32)),
    lambda: dml.slice1(np.arange(60, dtype=np.int32).reshape(6, 10), (1, 2), (4, 5)),
    lambda: dml.max_pooling(np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6), window_size=(2, 2)),
    lambda: dml.cumulative_summation(np.ones((3, 9), np.float32), 1),
    lambda: dml.gather(np.arange(12, dtype=np.float32).reshape(3, 4), np.array([[2, 0]], np.uint32), 0),
    lambda: dml.matrix_multiply_integer(np.ones((4, 6), np.int8), np.ones((6, 5), np.int8)),
]


@pytest.mark.parametrize("late", [False, True], ids=["at once", "in the end"])
def test_every_family_but_the_reference_fails(late: bool, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """One warning for each family that is asked, and the reference's bits."""
    failing(monkeypatch, lambda stage: stage not in PASSES, late=late)
    names = [name for name in DEVICES["cpu"] if name != "reference"]
    for function in OPERATORS:
        with dml.devices.device.usual(dml.Device("reference")):
            wanted = function()
        with said() as told, dml.devices.device.usual(dml.Device("cpu")):
            assert function().tobytes() == wanted.tobytes()
        assert [text.split(" are left out: RuntimeError")[0] for text in told] == [f"The kernels {name}" for name in names]
    ran(len(OPERATORS) * len(names), 100)


@pytest.mark.parametrize("function", OPERATORS)
def test_the_family_that_serves_an_operator_fails(function: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []
    wanted = function()
    make = dml.CompiledOperator.__init__

    def noting(self: Any, checked: Any, name: str, built: Any) -> None:
        chosen.append(name)
        make(self, checked, name, built)

    monkeypatch.setattr(dml.CompiledOperator, "__init__", noting)
    with dml.devices.device.usual(dml.Device("cpu")):
        function()
    failing(monkeypatch, lambda stage: stage == f"The kernels {chosen[0]} are", late=True)
    with said() as told, dml.devices.device.usual(dml.Device("cpu")):
        assert function().tobytes() == wanted.tobytes()
    assert len(told) == 1
    assert chosen[1] != chosen[0]


def test_dispatch_tells_who_refused_regions_and_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def uncompilable(*arguments: Any) -> Any:
        raise Uncompilable("no code for once")

    name = "windows.quantised:compiled"
    monkeypatch.setenv("ANYDML_VERBOSE", "dispatch")
    monkeypatch.setitem(cast(dict[str, Any], BETWEEN), name, lambda: uncompilable)
    computed(SAMPLES["means"])
    (line,) = (line for line in capsys.readouterr().err.splitlines() if '"compile"' in line)
    told = json.loads(line)["refused"]
    nodes = "average_pooling + element_wise_quantize_linear"
    assert {"nodes": nodes, "kernel": name, "reason": "no code for once"} in told
    assert any(one["nodes"] == "average_pooling" and one["kernel"] == "copy:compiled" for one in told)


def test_dispatch_tells_what_passes_left_and_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Any) -> Any:
        y = dml.gemm(dml.slice1(x, (0, 0), (6, 4)), np.eye(4, dtype=np.float32))
        z = dml.element_wise_quantize_linear(dml.activation_tanh(y), np.float32(0.1), np.uint8(3))
        return z, dml.slice1(x, (0, 4), (6, 4)), y

    monkeypatch.setenv("ANYDML_VERBOSE", "dispatch")
    dml.Device("cpu", threads=1).compile(dml.graph(function, x=TensorDesc("FLOAT32", (6, 8))).desc)
    (line,) = (line for line in capsys.readouterr().err.splitlines() if '"compile"' in line)
    told = {(one["pass"], one["nodes"]): one["reason"] for one in json.loads(line)["refused"] if "pass" in one}
    between = "what gemm computes has other readers, or is an output of the graph"
    assert told["Regions between bytes", "element_wise_quantize_linear"] == between
    moves = [reason for (name, _), reason in told.items() if name == "Moves that strides can say"]
    assert any(reason.startswith("what it moves is an output of the graph") for reason in moves)


# --- slow calls ---


def _no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow, "LONG", 0.0)


def test_operators_on_the_reference_say_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _no_time(monkeypatch)
    monkeypatch.setitem(
        cast(dict[str, Any], DEVICES),
        "cpu",
        {"elementwise:compiled": lambda: lambda *_: Refused("not this once"), "reference": DEVICES["cpu"]["reference"]},
    )
    t = TensorDesc("FLOAT32", (3, 4))
    desc, x = dml.ElementWiseExp(input_tensor=t, output_tensor=t), np.ones((3, 4), np.float32)
    compiled = dml.Device("cpu").compile(desc)
    bound = compiled.bind(input_tensor=x, output_tensor=np.zeros_like(x))
    with pytest.warns(PerformanceWarning) as found:
        bound.execute()
    (one,) = found
    assert re.match(r"ElementWiseExp: 12 elements took \d+\.\d s in Python, since no other kernel takes", str(one.message))
    assert str(one.message).endswith("\n    elementwise:compiled: not this once")
    assert one.filename == __file__
    bound.execute()
    compiled.bind(input_tensor=x, output_tensor=np.zeros_like(x)).execute()
    asked_for = dml.Device("reference").compile(desc)
    asked_for.bind(input_tensor=x, output_tensor=np.zeros_like(x)).execute()


def _cancelling() -> tuple[Array, Array]:
    """Factors of very different sizes, most of which cancel, so that machine code cannot decide the products."""
    signs, powers = np.array([1, 1, 1, 1, 1, -1, -1, -1, -1], np.float32), [126, 66, 6, -54, -114, 126, 66, 6, -54]
    row = np.ldexp(signs, powers).astype(np.float32)
    return np.stack([row] * 3), np.ones((9, 30), np.float32)


@pytest.mark.parametrize("how", ["operator", "eager", "graph"])
def test_elements_that_are_left_open_say_so_once(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python decides them, which by default is too fast for a warning."""
    x, w = _cancelling()
    device = dml.Device("cpu", threads=1, stage="exact")  # with other stages, the third one decides them
    if how == "graph":
        compiled = dml.graph(dml.gemm, a=TensorDesc.of(x), b=TensorDesc.of(w)).compile(device)
        call = compiled.bind(a=x, b=w, output=np.zeros((3, 30), np.float32)).execute
    elif how == "operator":
        desc = dml.Gemm(
            a_tensor=TensorDesc.of(x), b_tensor=TensorDesc.of(w), output_tensor=TensorDesc(DataType.FLOAT32, (3, 30))
        )
        call = device.compile(desc).bind(a_tensor=x, b_tensor=w, output_tensor=np.zeros((3, 30), np.float32)).execute
    else:

        def call() -> None:
            dml.gemm(x, w, device=device)

    call()
    _no_time(monkeypatch)
    with pytest.warns(
        PerformanceWarning, match=r"elements took \d+\.\d s in Python, since contract.floats:compiled left"
    ) as found:
        call()
    (one,) = found
    assert one.filename == __file__
    assert int(str(one.message).split(": ")[1].split()[0]) >= 30
    call()
