"""Tables of steps: order, statuses, barriers, signals, floating-point state, and the code that runs them."""

from __future__ import annotations

import _thread
import ctypes
import random
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

import step_kernels as kernels
from anydml.errors import OptimizationWarning
from anydml.kernels.call import pool, pool_emit
from anydml.kernels.call.steps import StepTable, prepared, runner
from anydml.kernels.code import engine, targets
from anydml.kernels.code.engine import Uncompilable
from step_kernels import TARGET, UNUSED, adding, phase, two_processors, words

DEFAULT, OTHER = 0x1F80, 0x1F80 | 0x8040 | 0x2000  # round to nearest; round down, with subnormal numbers flushed to 0
x86 = pytest.mark.skipif(TARGET.architecture != "x86", reason="MXCSR is a register of x86")


def test_the_steps_of_a_piece_run_in_order_until_one_fails() -> None:
    count = 0
    for length in (1, 2, 5, 9):
        for failing in range(length + 1):
            counter = words([0])
            rows = words(*[(counter.ctypes.data, i, i) for i in range(length)])
            code = engine.compiled(kernels.within, TARGET)
            rows[failing:, 1:] = -2, -1  # from this row on, the counter is above its limit
            steps = words(*[(code.address, row.ctypes.data) for row in rows])
            call = prepared([[StepTable(steps.ctypes.data, length, (code, rows, steps))]], TARGET, counter)
            assert (call(), counter.item()) == ((0, length) if failing == length else (1, failing + 1))
            count += 1
    assert count == 21


def test_phases_are_barriers() -> None:
    rng, count = random.Random(0), 0
    for _ in range(300):
        counter, phases, before = words([0]), [], 0
        for _ in range(rng.randint(1, 8)):
            pieces = rng.choice((1, 1, 2, 3, 4, 17, 100))
            phases.append(phase(kernels.within, words(*[(counter.ctypes.data, before, before + pieces - 1)] * pieces)))
            before += pieces
        call = prepared(phases, TARGET, counter, threads=rng.choice((None, 1, 2)), interruptible=rng.random() < 0.2)
        for _ in range(20):
            counter[:] = 0
            assert call() == 0
            assert counter.item() == before
            count += 1
    assert count == 6000
    assert not pool._state[UNUSED].any()


@pytest.mark.parametrize("threads", [None, 1])
@pytest.mark.parametrize("interruptible", [False, True])
def test_a_status_ends_the_call_after_its_phase(interruptible: bool, threads: int | None) -> None:
    count = 0
    for pieces in (1, 2, 5):
        for failing in range(4):
            for piece in range(pieces):
                counter = words([0])
                rows = [words(*[(counter.ctypes.data, 1, 0)] * pieces) for _ in range(4)]
                rows[failing][piece, 2] = -7 - piece
                phases = [phase(kernels.add, r) for r in rows]
                call = prepared(phases, TARGET, counter, interruptible=interruptible, threads=threads)
                for again in range(1, 30):
                    assert call() == -7 - piece
                    assert counter.item() == again * (failing + 1) * pieces
                count += 1
    assert count == 32
    assert not pool._state[UNUSED].any()


def test_no_phases_and_empty_phases() -> None:
    counter = words([0])
    rows = phase(kernels.add, words((counter.ctypes.data, 1, 0)))
    assert prepared([], TARGET, counter)() == 0
    assert prepared([[]], TARGET, counter)() == 0
    assert prepared([[], rows * 2, [], rows, []], TARGET, counter)() == 0
    assert prepared([rows, rows], TARGET, counter, keeps_gil=True)() == 0
    assert counter.item() == 5


@pytest.mark.usefixtures("interruptible")
def test_an_interruptible_call_honours_a_signal_between_phases() -> None:
    counter = words([0])
    rows = phase(kernels.spin, words(*[(counter.ctypes.data, 200_000)] * 2))
    call = prepared([rows] * 5000, TARGET, counter, interruptible=True)
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    timer.join()
    assert 0 < counter.item() < 5000 * 400_000
    assert counter.item() % 400_000 == 0
    counter[:] = 0
    assert adding(counter, 5)() == 0
    assert counter.item() == 5


@x86
@two_processors
def test_every_thread_works_under_the_default_floating_point_state() -> None:
    counter = words([0])
    rows = words(*[(counter.ctypes.data, 2, 0, OTHER)] * 2)
    call = prepared([phase(kernels.swap_state, rows)], TARGET, counter)  # a caller and a worker are needed at the same time
    own = words((counter.ctypes.data, 0, 0, OTHER))
    swap = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(engine.compiled(kernels.swap_state, TARGET).address)
    count = 0
    for state in (DEFAULT, OTHER) * 20:
        counter[:], rows[:, 2], own[0, 2:] = 0, 0, (0, state)
        swap(own.ctypes.data)
        before = own[0, 2]
        counter[:], own[0, 3] = 0, before
        met = call() == 0
        swap(own.ctypes.data)
        assert [row & 0xFFC0 for row in rows[:, 2].tolist()] == [DEFAULT & 0xFFC0] * 2
        assert own[0, 2] & 0xFFC0 == state & 0xFFC0
        count += met
    assert count  # not always, as above


TRIPLES = {"x86": ("x86_64-pc-linux-gnu", "x86_64-pc-windows-msvc", "x86_64-apple-darwin"),
           "aarch64": ("aarch64-unknown-linux-gnu", "arm64-apple-darwin", "aarch64-pc-windows-msvc"),
           "other": ("riscv64-unknown-linux-gnu", "powerpc64le-unknown-linux-gnu")}  # fmt: skip


def test_no_code_calls_a_symbol() -> None:
    """A call would crash, since code is not linked. An atomic operation is a call if the processor has no instruction for
    it."""
    count = 0
    for target in (targets.X86[0], targets.ARM[0], targets.OTHER[0]):
        emitters = [runner, pool_emit.call, *([pool_emit.serve] if pool_emit.pooled(target) else [])]
        for triple in TRIPLES[target.architecture]:
            for emit in emitters:
                assembly = engine.assembly(emit(target), target, triple)
                called = re.findall(r"^\s+(?:callq?|bl|jmp|b|jal|call)\s+([A-Za-z_$][\w$.@]*)", assembly, re.MULTILINE)
                assert not [name for name in called if not name.startswith((".L", "L", "$"))], (triple, assembly)
                count += 1
    assert count == 22


def test_where_threads_share_nothing_the_caller_does_it_all() -> None:
    counter = words([0])
    rows = phase(kernels.within, words(*[(counter.ctypes.data, i, i) for i in range(9)]))
    other = targets.Target("other", TARGET.name, TARGET.features, TARGET.vector_bytes)
    assert prepared([rows[:4], rows[4:]], other, counter)() == 0
    assert counter.item() == 9


def test_what_cannot_be_compiled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(emit: Callable[..., str], target: targets.Target, *arguments: Any) -> engine.Code:
        raise Uncompilable("the code could not be made executable")

    rows = phase(kernels.add, words(*[(0, 1, 0)] * 2))
    monkeypatch.setattr(engine, "compiled", refuse)
    with pytest.raises(Uncompilable, match="executable"):
        prepared([rows], TARGET, ())


def test_code_that_this_llvm_does_not_take_is_refused() -> None:
    """With a warning, which is an error in other tests."""
    with pytest.warns(OptimizationWarning, match="report"), pytest.raises(Uncompilable, match="does not take the code"):
        engine.compiled(lambda target: "define i64 @kernel(ptr %arguments) { ret i64 %nothing }", TARGET)
