"""Forks: whatever other threads of the parent do, a child compiles, executes and ends."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import pkgutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import fork_safety
from anydml.devices.compiled import BoundOperator, CompiledOperator
from anydml.kernels.code import engine, llvm
from anydml.kernels.kernel import Arrays, Built
from anydml.lazy import computed_once
from anydml.schema.operator import example_desc
from every_kernel import SOAK

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # forks with other threads running are tested
]
SECONDS = 60  # a child that takes longer hangs

# In a process of its own, so that forks happen during first imports and compilations. Each desc is a new one.
STORM = """
import os, random, signal, sys, threading, time
import numpy as np
import anydml as dml
T, INPUT = dml.TensorDesc, np.arange(1 << 16, dtype=np.uint8).reshape(256, 256) % 251

def one(rng):
    (copy if rng.random() < 0.5 else multiply)(rng)

def multiply(rng):
    m, k, n = (rng.randint(1, 40) for _ in range(3))
    a, b = INPUT[:m, :k], INPUT[100 : 100 + k, :n]
    types = [rng.choice((np.int8, np.uint8)) for _ in range(2)]
    a, b = (np.ascontiguousarray(x).view(t) for x, t in zip((a, b), types))
    out = np.empty((m, n), np.int32)
    desc = dml.MatrixMultiplyInteger(a_tensor=T.of(a), b_tensor=T.of(b), output_tensor=T.of(out))
    dml.Device(threads=2).compile(desc).bind(a_tensor=a, b_tensor=b, output_tensor=out).execute()
    assert (out == a.astype(np.int32) @ b.astype(np.int32)).all()

def copy(rng):
    step = rng.randint(2, 40)
    x = np.arange(60_000, dtype=rng.choice((np.uint8, np.uint16, np.uint32)))
    x = x[: 45_000 // step * step].reshape(-1, step)
    desc = dml.Slice1(input_tensor=T.of(x), output_tensor=T.of(x), input_window_offsets=(0, 0),
                      input_window_sizes=x.shape, input_window_strides=(1, -1))
    out = np.empty_like(x)
    dml.Device().compile(desc).bind(input_tensor=x, output_tensor=out).execute()
    assert (out == x[:, ::-1]).all()

def work(seed):
    rng = random.Random(seed)
    while not stop:
        one(rng)
        done[seed] += 1
        time.sleep(0.002)

stop, done, hung = [], [0] * 4, []
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
for i in range({count}):
    time.sleep({pause} * (i % 5))
    child = os.fork()
    if child == 0:
        signal.alarm({seconds})  # ends a child that hangs
        try:
            one(random.Random(1000 + i))
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        hung.append((i, status))
        break
stop.append(True)
for thread in threads:
    thread.join()
print(hung, i + 1, min(done) > 0)
"""


def storm(count: int, pause: float) -> str:
    source = STORM.format(count=count, pause=pause, seconds=SECONDS)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", source], capture_output=True, text=True, timeout=10 * SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip() + done.stderr


def test_every_child_ends_while_four_threads_compile_and_execute() -> None:
    count = 24 if SOAK == 1 else 200
    assert storm(count, 0.0005) == f"[] {count} True"


def test_every_child_ends_that_is_forked_while_the_first_desc_is_compiled() -> None:
    """At this time modules are imported."""
    for pause in (0.001, 0.004):
        assert storm(8, pause).startswith("[] 8")


def in_child(call: Callable[[], object]) -> int:
    """The exit status of a child that makes a call: 0 if the call returns, negative if a signal ended the child."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            call()
            status = 0
        finally:
            os._exit(status)
    for _ in range(100 * SECONDS):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Slow:
    """A kernel in which another thread stays for as long as the test needs."""

    def __init__(self) -> None:
        self.entered, self.go_on, self.executed = threading.Event(), threading.Event(), 0
        self.parent = os.getpid()

    def wait(self) -> None:
        self.executed += 1
        if os.getpid() == self.parent:
            self.entered.set()
            assert self.go_on.wait(SECONDS)

    def bind(self, arrays: Arrays) -> Callable[[], object]:
        left = [0]  # like arguments and scratch of a kernel that has not finished

        def execute() -> None:
            assert left == [0]
            left[0] = 1
            self.wait()
            arrays["output_tensor"][...] = 7
            left[0] = 0

        return execute

    def initialize(self, arrays: Arrays) -> Arrays:
        self.wait()
        return {}


def beside(slow: Slow, call: Callable[[], object], then: Callable[[], int]) -> int:
    """The result of `then` while another thread is in `call`."""
    thread = threading.Thread(target=call)
    thread.start()
    try:
        assert slow.entered.wait(SECONDS)
        return then()
    finally:
        slow.go_on.set()
        thread.join()


def identity(flags: str) -> tuple[dml.Checked[Any], np.ndarray[Any, Any]]:
    x = dml.TensorDesc("UINT8", (4,), flags=flags)
    desc = dml.Slice1(
        input_tensor=x,
        output_tensor=dml.TensorDesc("UINT8", (4,)),
        input_window_offsets=(0,),
        input_window_sizes=(4,),
        input_window_strides=(1,),
    )
    return dml.check(desc), np.zeros(4, np.uint8)


def test_a_bound_operator_that_another_thread_executes_at_a_fork() -> None:
    slow = Slow()
    checked, x = identity("NONE")
    output = np.zeros(4, np.uint8)
    ready = BoundOperator(CompiledOperator(checked, "slow", Built(slow.bind)), {"input_tensor": x, "output_tensor": output})

    def child() -> None:
        ready.execute()
        ready.execute()
        assert output.tolist() == [7] * 4

    assert beside(slow, ready.execute, lambda: in_child(child)) == 0
    ready.execute()
    assert slow.executed == 2


def test_an_operator_that_another_thread_initializes_at_a_fork() -> None:
    slow = Slow()
    checked, x = identity("OWNED_BY_DML")
    operator = CompiledOperator(checked, "slow", Built(slow.bind, initialize=slow.initialize))

    def child() -> None:
        operator.initialize(input_tensor=x)
        operator.bind(output_tensor=np.zeros(4, np.uint8)).execute()

    assert beside(slow, lambda: operator.initialize(input_tensor=x), lambda: in_child(child)) == 0
    with pytest.raises(dml.BindingError, match="called before"):
        operator.initialize(input_tensor=x)


def test_of_two_threads_that_initialize_at_once_one_is_told() -> None:
    slow = Slow()
    checked, x = identity("OWNED_BY_DML")
    operator = CompiledOperator(checked, "slow", Built(slow.bind, initialize=slow.initialize))
    told: list[str] = []

    def initialize() -> None:
        try:
            operator.initialize(input_tensor=x)
        except dml.BindingError as error:
            told.append(str(error))

    threads = [threading.Thread(target=initialize) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert slow.entered.wait(SECONDS)
    while slow.executed < 2:
        time.sleep(0.001)
    slow.go_on.set()
    for thread in threads:
        thread.join()
    assert len(told) == 1
    assert "called before" in told[0]


def test_what_guards_libraries_is_held_over_a_fork_and_free_in_both() -> None:
    def free() -> bool:
        found: list[bool] = []

        def try_it() -> None:
            found.append(fork_safety.guard.acquire(timeout=SECONDS))
            fork_safety.guard.release()

        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        return found == [True]

    def child() -> None:
        assert free()
        assert fork_safety.generation() == before + 1

    before = fork_safety.generation()
    assert in_child(child) == 0
    assert free()
    assert fork_safety.generation() == before
    with fork_safety.guard:  # a fork within the guard, as during an import
        assert in_child(fork_safety.guard.acquire) == 0


@pytest.mark.parametrize("cycle", [False, True])
def test_an_engine_is_disposed_of_under_the_guard(cycle: bool) -> None:
    """Its last reference may be dropped in a finalizer, in any thread."""
    if (reason := llvm.unavailable()) is not None:
        pytest.skip(reason)
    disposed: list[bool] = []

    class Engine:
        def __del__(self) -> None:
            disposed.append(fork_safety.guard._is_owned())  # type: ignore[attr-defined]

    code = [engine.Code(Engine(), 1)]
    if cycle:  # objects of a cycle are finalized in any order
        code.append(code)  # type: ignore[arg-type]
    del code
    gc.collect()
    assert disposed == []
    engine.compiled(lambda target: "define i64 @kernel(ptr %arguments) { ret i64 1 }", jit_target())
    assert disposed == [True]


def jit_target() -> Any:
    return importlib.import_module("anydml.kernels.code.targets").targets()[0]


def test_nothing_is_imported_late_outside_of_the_guard() -> None:
    """All modules that compiling and executing import, on both devices and with verbose lines, are imported under the guard."""
    source = """
import sys
import numpy as np
import anydml as dml
from anydml import fork_safety
class Finder:
    def find_spec(self, name, path=None, target=None):
        if not fork_safety.guard._is_owned():
            print(name)
sys.meta_path.insert(0, Finder())
for operator in (dml.MatrixMultiplyInteger, dml.QuantizedLinearMatrixMultiply, dml.Slice1):
    example = operator.spec.examples[0]
    for device in (dml.Device("reference"), dml.Device(), dml.Device(isa="generic")):
        compiled = device.compile(operator(**example.fields))
        compiled.bind(**example.inputs, output_tensor=np.empty_like(example.output)).execute()
x = np.zeros((1 << 11, 1 << 11), np.uint8)
dml.slice1(x, (0, 0), x.shape, (1, -1))
dml.matrix_multiply_integer(x, x[:, :8], np.uint8(0), np.uint8(0))
dml.compare
dml.Device().supports_data_type(dml.DataType.INT8)
"""
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, env={**os.environ, "ANYDML_VERBOSE": "dispatch"}
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_no_property_holds_a_lock_while_it_computes() -> None:
    """`functools.cached_property` does this in Python 3.10 and 3.11."""
    looked_at = found = 0
    for module in pkgutil.walk_packages(dml.__path__, "anydml."):
        if module.name.endswith("__main__"):
            continue
        if module.name == "anydml.torch" and find_spec("torch") is None:
            continue
        for owner in vars(importlib.import_module(module.name)).values():
            if type(owner) is type or issubclass(type(owner), type):
                members = vars(owner).values() if owner.__module__.startswith("anydml.") else ()
                assert not any(isinstance(member, functools.cached_property) for member in members), owner
                found += sum(isinstance(member, computed_once) for member in members)
                looked_at += 1
    assert looked_at > 50
    assert found > 10


def test_a_property_is_computed_once_for_each_instance() -> None:
    class Counted:
        calls = 0

        @computed_once
        def number(self) -> int:
            """Return its value."""
            self.calls += 1
            return self.calls

    one, other = Counted(), Counted()
    assert [one.number, one.number, other.number, one.calls] == [1, 1, 1, 1]
    assert isinstance(Counted.number, computed_once)
    assert Counted.number.__doc__ == "Return its value."
    spec = example_desc(dml.Slice1).spec
    assert spec.tensors is spec.tensors
