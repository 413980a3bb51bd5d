"""`Device("opencl")`: what it computes has the CPU's bits, also where lists overflow, work is cut and calls are mixed.

Most operators are only translated here; `make soak-opencl` runs them all. Tests that need a driver skip where there is none.
"""

from __future__ import annotations

import doctest
import gc
import os
import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml import UnsupportedError, operators
from anydml.devices import buffers, families
from anydml.devices.families import OPENCL
from anydml.kernels.code import llvm, opencl
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.kernel import Built, Machine
from anydml.kernels.lower import lowerings
from anydml.kernels.opencl import calls, platform, selftest
from anydml.kernels.problem import problem_of
from every_kernel import Ran

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
Array = NDArray[Any]


@pytest.fixture(scope="module")
def there() -> dml.Device:
    try:
        return dml.Device("opencl")
    except UnsupportedError as error:
        pytest.skip(str(error))


def bits(x: Array) -> Array:
    return x.view(f"u{x.itemsize}")


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


# --- without a driver ---


def test_every_operator_is_translated(ran: Ran) -> None:
    """All examples have kernels there, but two for which the CPU has none either; none of these is an operator's first."""
    found, others = Counter[str](), Counter[str]()
    for operator in operators.every():
        for k, example in enumerate(operator.spec.examples):
            checked = dml.check(operator(**example.fields), dml.FeatureLevel.EXTENDED)
            problem = problem_of(replace(checked, desc=checked.desc.as_newest()))
            answers = lowerings(OPENCL, problem, Machine(None, 1, "first", "opencl"))
            family = next((name for name, answer in answers if isinstance(answer, Built)), None)
            if family is not None:
                found[family] += 1
            else:
                assert k > 0, operator.spec.name
                others[operator.spec.name] += 1
    assert others == {"GEMM": 1, "LP_POOLING1": 1}  # a product's softmax, and cube roots of sums
    assert found.keys() == OPENCL.keys() - {"contract.floats:opencl", "contract:opencl"}  # examples have few products
    ran(sum(found.values()), 300)


def test_instructions_without_translation_are_refused() -> None:
    body = Body(opencl.target())
    body.value("shufflevector <2 x i32> poison, <2 x i32> poison, <2 x i32> zeroinitializer", Kind("i32", 2))
    with pytest.raises(Uncompilable, match="has no translation of shufflevector"):
        opencl.kernel("kernel_", [], body)


def test_the_text_keeps_what_drivers_change() -> None:
    """NaN and signs of zeros in extremes, additions of 0, and multiplications that are not fused with additions."""
    body = Body(opencl.target())
    x = Value(body, "%x", Kind("float"))
    body.intrinsic("maximum", x + 0.0, x / 3.0)
    text = opencl.program([opencl.kernel("kernel_", [opencl.Argument("float", "x")], body)])
    assert "FP_CONTRACT OFF" in text
    assert "maximum(" in text.split("kernel void")[1]
    assert "QUOTIENT(" in text.split("kernel void")[1]
    assert "fmax" not in text
    assert "v_x + as_float(0x00000000u)" in text


def test_a_device_without_pyopencl_is_refused_with_the_way_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    platform._opened.cache_clear()
    try:
        with pytest.raises(UnsupportedError, match=r"needs pyopencl.*pip install 'anydml\[opencl\]'"):
            dml.Device("opencl:no such name")
    finally:
        platform._opened.cache_clear()


# --- results ---


CALLS: dict[str, tuple[Callable[..., Any], list[Array], str]] = {
    "float32, second stage": (dml.activation_gelu, [normal(1, 1, 90, 100)], "elementwise"),
    "strided integers": (
        lambda x: dml.slice1(x, (1, 2, 0), (5, 7, 9), (2, -3, 4)),
        [np.arange(720, dtype=np.int16).reshape(8, 10, 9)],
        "elementwise",
    ),
    "windows": (partial(dml.average_pooling, window_size=(3, 2), include_padding=False), [normal(1, 2, 9, 8)], "nests"),
    "softmax": (partial(dml.activation_softmax1, axes=(3,)), [normal(1, 2, 3, 300)], "reduce"),
    "careful sums": (partial(dml.reduce, function="SUM", axes=(3,)), [normal(1, 1, 50, 20) * 1e7], "reduce"),
}


@pytest.mark.parametrize("case", CALLS)
def test_families_have_the_bits_of_the_cpu(case: str, there: dml.Device) -> None:
    function, arrays, family = CALLS[case]
    made = dml.graph(_plain(function, len(arrays)), **{f"x{k}": dml.TensorDesc.of(x) for k, x in enumerate(arrays)})
    ((out, t),) = made.outputs.items()
    got, want = (np.empty(t.sizes, t.data_type.dtype) for _ in range(2))
    compiled = made.compile(there)
    assert [part.kernel_name for part in compiled.call.parts] == [f"{family}:opencl"]
    given = {f"x{k}": x for k, x in enumerate(arrays)}
    compiled.bind(**given, **{out: got}).execute()
    made.compile("cpu").bind(**given, **{out: want}).execute()
    np.testing.assert_array_equal(bits(got), bits(want))


def _plain(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    def one(x0: Any) -> Any:
        return function(x0)

    assert count == 1
    return one


@pytest.mark.parametrize("stage", ["second", "exact"])
def test_later_stages_have_the_same_bits(stage: str, there: dml.Device) -> None:
    x = normal(1, 1, 5, 9)
    device = dml.Device("opencl", stage=stage)
    np.testing.assert_array_equal(bits(dml.activation_tanh(x, device=device)), bits(dml.activation_tanh(x)))


@pytest.mark.parametrize("in_place", [False, True])
def test_full_lists_are_decided_piece_by_piece(in_place: bool, there: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "ROOM", 7)
    device = dml.Device("opencl", stage="second")
    x = normal(1, 1, 5, 9)
    t = dml.TensorDesc.of(x)
    buffer = device.buffer(x)
    result = buffer if in_place else device.buffer(t)
    compiled = device.compile(dml.ActivationTanh(input_tensor=t, output_tensor=t))
    compiled.bind(input_tensor=buffer, output_tensor=result).execute()
    np.testing.assert_array_equal(bits(result.numpy()), bits(dml.activation_tanh(x)))
    assert compiled.counters().undecided == x.size


def test_long_work_is_cut(there: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(1, 1, 50, 60)
    dml.activation_tanh(x, device=there)  # the self-test of a device comes before its first call, and launches kernels, too
    monkeypatch.setattr(calls, "UNITS", 1)
    launched: list[int] = []
    launch = platform.Opened.launch

    def counted(*arguments: Any) -> None:
        launched.append(arguments[2])
        launch(*arguments)

    monkeypatch.setattr(platform.Opened, "launch", counted)
    np.testing.assert_array_equal(bits(dml.activation_relu(x, device=there)), bits(dml.activation_relu(x)))
    assert len(launched) > 3


# --- memory ---


def chain(x: Any, y: Any) -> Any:
    z = dml.element_wise_add(dml.activation_tanh(x), y)
    z = dml.cumulative_product(z, axis=3)
    return dml.element_wise_multiply(dml.activation_relu(z), x)


@pytest.fixture(scope="module")
def arrays() -> dict[str, Array]:
    return {"x": normal(1, 1, 40, 40), "y": normal(1, 1, 40, 40, seed=1)}


@pytest.mark.parametrize("fuse", [True, False])
def test_graphs_copy_only_what_the_other_side_needs(
    fuse: bool, there: dml.Device, arrays: dict[str, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {name: family for name, family in OPENCL.items() if name != "scan:opencl"}
    monkeypatch.setattr(families, "OPENCL", others)  # so that products of elements run on the processor
    made = dml.graph(chain, **{name: dml.TensorDesc.of(x) for name, x in arrays.items()})
    ((out, t),) = made.outputs.items()
    want = np.empty(t.sizes, np.float32)
    made.compile("cpu").bind(**arrays, **{out: want}).execute()
    compiled = made.compile(there, fuse=fuse)
    got = np.empty_like(want)
    bound = compiled.bind(**arrays, **{out: got})
    for _ in range(2):
        got[...] = 0
        bound.execute()
        np.testing.assert_array_equal(bits(got), bits(want))
    held = {name: there.buffer(x) for name, x in arrays.items()}
    result = there.buffer(t)
    compiled.bind(**held, **{out: result}).execute()
    np.testing.assert_array_equal(bits(result.numpy()), bits(want))
    spent = compiled.profile(times=1, **held, **{out: result})
    copies = [s for s in spent if s.kernel == "copy"]
    assert {s.kernel for s in spent if s.kernel != "copy"} >= {"elementwise:opencl"}
    assert [s.kernel for s in spent if s.kernel.startswith("cpu/")] == ["cpu/scan:compiled"]
    assert [s.nodes for s in copies] == ["copy to the host", "copy to the device"]


def test_buffers_are_bound_only_on_their_device(there: dml.Device) -> None:
    x = normal(1, 1, 2, 2)
    t = dml.TensorDesc.of(x)
    compiled = dml.Device().compile(dml.ActivationRelu(input_tensor=t, output_tensor=t))
    buffer = there.buffer(x)
    with pytest.raises(dml.BindingError, match="takes an array or a bytes-like object, not Buffer"):
        compiled.bind(input_tensor=buffer, output_tensor=np.empty_like(x))
    with pytest.raises(UnsupportedError, match="only an OpenCL device has buffers"):
        dml.Device().buffer(x)
    with pytest.raises(TypeError, match="pickle `numpy"):
        pickle.dumps(buffer)
    with pytest.raises(ValueError, match="shape"):
        buffer.write(x[0])


def test_a_buffer_is_freed_with_its_last_reference(there: dml.Device) -> None:
    x = normal(1, 1, 4, 4)
    buffer = there.buffer(x)
    address = buffer.place.ctypes.data
    assert address in buffers._held
    t = dml.TensorDesc.of(x)
    bound = there.compile(dml.ActivationRelu(input_tensor=t, output_tensor=t)).bind(input_tensor=buffer, output_tensor=x.copy())
    del buffer
    gc.collect()
    assert address in buffers._held, "a bound operator keeps its buffers"
    bound.execute()
    del bound
    gc.collect()
    assert address not in buffers._held


def test_no_room_is_a_memory_error_with_the_size(there: dml.Device) -> None:
    opened = platform.opened(there.machine.opencl)
    with pytest.raises(MemoryError, match=f"{opened.most_bytes + 1} bytes"):
        opened.allocate(opened.most_bytes + 1)


def test_a_lost_device_writes_nothing(there: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = normal(1, 1, 4, 4), np.full((1, 1, 4, 4), 7, np.float32)
    t = dml.TensorDesc.of(x)
    bound = there.compile(dml.ActivationRelu(input_tensor=t, output_tensor=t)).bind(input_tensor=x, output_tensor=y)

    def lost(*_: object) -> None:
        raise platform.cl().RuntimeError("clFinish failed: DEVICE_NOT_AVAILABLE")

    with monkeypatch.context() as within:
        within.setattr(platform.Opened, "read", lost)
        with pytest.raises(platform.DeviceLost, match="is lost, or a command on it failed"):
            bound.execute()
    assert (y == 7).all()
    bound.execute()
    np.testing.assert_array_equal(y, np.maximum(x, 0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_child_of_a_fork_is_told_that_drivers_do_not_work_there(there: dml.Device) -> None:
    """It would wait for threads of the driver that the fork did not copy."""
    x, y = normal(1, 1, 4, 4), np.zeros((1, 1, 4, 4), np.float32)
    t = dml.TensorDesc.of(x)
    bound = there.compile(dml.ActivationRelu(input_tensor=t, output_tensor=t)).bind(input_tensor=x, output_tensor=y)
    bound.execute()
    buffer = there.buffer(x)
    child = os.fork()
    if not child:
        try:
            refused = [_refused(call) for call in (buffer.numpy, bound.execute, platform.found)]
        finally:
            os._exit(0 if all(refused) and (y == np.maximum(x, 0)).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(buffer.numpy(), x)


FORKS = """
import os
import numpy as np
import anydml as dml
from anydml.kernels.opencl import platform

def in_child(call):
    child = os.fork()
    if not child:
        try:
            call()
        except dml.UnsupportedError as error:
            print("refused" if "spawn or forkserver" in str(error) else error, flush=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)

def relu():
    print(dml.activation_relu(np.ones((1, 1, 2, 2), np.float32), device="opencl").sum(), flush=True)

in_child(relu)
platform.found()
in_child(relu)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.usefixtures("there")
def test_a_child_opens_a_device_of_its_own_unless_the_parent_has_listed_them() -> None:
    """Drivers that have listed devices have threads."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], capture_output=True, text=True, timeout=300)
    assert (done.stdout.split(), done.stderr) == (["4.0", "refused"], "")


def _refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except UnsupportedError as error:
        return re.search("had (used|opened an) OpenCL", str(error)) is not None
    return False


def test_devices_are_pickled_by_name(there: dml.Device) -> None:
    assert pickle.loads(pickle.dumps(there)).name == there.name


# --- what is refused ---


@pytest.fixture
def _opened_anew() -> Iterator[None]:
    platform._opened.cache_clear()
    platform._tested.cache_clear()
    yield
    platform._opened.cache_clear()
    platform._tested.cache_clear()


@pytest.mark.usefixtures("there")
def test_unknown_devices_are_named_beside_those_that_there_are() -> None:
    with pytest.raises(UnsupportedError, match="there is no device 'opencl:99'; OpenCL has opencl:0 "):
        dml.Device("opencl:99")


@pytest.mark.usefixtures("there", "_opened_anew")
def test_a_device_is_refused_whose_self_test_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    check = selftest.CHECKS[10]
    monkeypatch.setattr(selftest, "CHECKS", (check._replace(results=[-0.0, *check.results[1:]]),))
    with pytest.raises(UnsupportedError, match=r"is refused: its self-test fails for -0 \+ 0"):
        dml.Device("opencl")


@pytest.mark.usefixtures("there", "_opened_anew")
def test_a_device_is_refused_without_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    without = [one._replace(refused="it has no float64 (cl_khr_fp64)") for one in platform.found()]
    monkeypatch.setattr(platform, "found", lambda: without)
    with pytest.raises(UnsupportedError, match=r"opencl:0 .* is refused: it has no float64 \(cl_khr_fp64\)"):
        dml.Device("opencl:0")


@pytest.mark.usefixtures("there")
def test_the_page_s_example_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "opencl.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert (failed, tried > 8) == (0, True)
