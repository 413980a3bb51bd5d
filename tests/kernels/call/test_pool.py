"""The pool of threads that share the pieces of calls: which threads help and when, many callers, forks, exits."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import anydml as dml
import step_kernels as kernels
from anydml.kernels.call import pool, pool_emit
from anydml.kernels.call.steps import prepared, runner
from anydml.kernels.code import engine
from every_kernel import SOAK
from step_kernels import TARGET, UNUSED, adding, phase, two_processors, words

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture
def many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "processors", lambda: 64)


@two_processors
def test_workers_help_awake_or_asleep() -> None:
    counter = words([0])
    meeting = phase(kernels.meet, words(*[(counter.ctypes.data, 2)] * 2))
    call = prepared([meeting], TARGET, counter)
    helped = dict.fromkeys((0.0, 2e-4, 2e-3), 0)
    for pause in [0.0] * 300 + [2e-4, 2e-3] * 20:
        counter[:] = 0
        time.sleep(pause)
        helped[pause] += call() == 0  # not always: on a busy machine a worker may be late, and the caller does not wait for it
    assert all(helped.values()), helped


@two_processors
def test_a_long_phase_of_one_piece_does_not_send_workers_to_sleep() -> None:
    counters = words([0], [0])
    first, last = (phase(kernels.meet, words(*[(counters[i:].ctypes.data, 2)] * 2)) for i in (0, 1))
    slow = words([0])
    call = prepared([first, phase(kernels.spin, words((slow.ctypes.data, 10**6))), last], TARGET, (counters, slow))
    helped = 0
    for _ in range(20):
        counters[:] = 0
        helped += call() == 0
    assert helped


@two_processors
def test_no_more_threads_than_allowed() -> None:
    counter = words([0])
    call = prepared([phase(kernels.meet, words(*[(counter.ctypes.data, 2)] * 2))], TARGET, counter, threads=1)
    for _ in range(5):
        counter[:] = 0
        adding(words([0]), 2)()  # workers exist, and look for work
        assert call() == 1
    # a worker with another number than those that may help takes no piece
    state = pool._lines(pool_emit.STATE_BYTES)
    piece = phase(kernels.add, words((counter.ctypes.data, 1, 5)))[0]
    table = words((piece.steps, piece.length))
    code = engine.compiled(runner, TARGET)
    state[:4] = 1, table.ctypes.data + 16, 2, code.address
    serve = pool._function(engine.compiled(pool_emit.serve, TARGET))
    claimed = []
    for index in (3, 2, 1, 0):
        counter[:] = 0
        serve(words((state.ctypes.data, 0, 0, index, 100)).ctypes.data)
        claimed.append((counter.item(), *state[[0, pool_emit.DONE // 8, pool_emit.STATUS // 8]].tolist()))
    assert claimed == [(0, 1, 0, 0), (0, 1, 0, 0), (1, 0, 1, 5), (0, 0, 1, 5)]


def test_a_worker_on_its_callers_processor_goes_elsewhere() -> None:
    state = pool._lines(pool_emit.STATE_BYTES)
    where = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 5)
    address = ctypes.cast(where, ctypes.c_void_p).value or 0
    serve = pool._function(engine.compiled(pool_emit.serve, TARGET))
    found = []
    for caller, helpers, asked in ((6, 1, address), (6, 0, address), (5, 1, address), (0, 1, address), (6, 1, 0)):
        state[pool_emit.CALLER // 8], state[pool_emit.HELPERS // 8] = caller, helpers
        found.append(serve(words((state.ctypes.data, 0, asked, 0, 1000)).ctypes.data))
    assert found == [pool_emit.TOGETHER, 0, 0, 0, 0]
    unknown = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: -1)
    state[pool_emit.CALLER // 8], state[pool_emit.HELPERS // 8] = 0, 1
    asked = ctypes.cast(unknown, ctypes.c_void_p).value or 0
    assert serve(words((state.ctypes.data, 0, asked, 0, 1000)).ctypes.data) == 0


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be moved here")
def test_workers_avoid_a_processor_and_keep_what_others_give_them() -> None:
    before = os.sched_getaffinity(0)
    try:
        place, one = pool._Place(), min(before)
        assert place.avoid(one) == (len(before) > 1)
        assert os.sched_getaffinity(0) == (before - {one} or before)
        assert place.avoid(max(before)) == (len(before) > 1)
        assert os.sched_getaffinity(0) == (before - {max(before)} or before)
        os.sched_setaffinity(0, before)
        place = pool._Place()
        os.sched_setaffinity(0, {one})  # as `taskset` does
        assert not place.avoid(one)
        assert os.sched_getaffinity(0) == {one}
        assert place.avoid(one + 1)
        assert os.sched_getaffinity(0) == {one}
    finally:
        os.sched_setaffinity(0, before)


def test_nothing_gives_way_while_the_wait_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another process waited for the processor, a worker once looked for work 4 times and slept between any two calls."""
    ways = 0

    def way() -> int:
        nonlocal ways
        ways += 1
        return 0

    function = ctypes.CFUNCTYPE(ctypes.c_int)(way)
    monkeypatch.setattr(pool, "_way", lambda: ctypes.cast(function, ctypes.c_void_p).value)
    assert pool.spins_in.__wrapped__(pool.WAIT, TARGET) >= 1
    assert ways == 0


def test_several_callers_at_once() -> None:
    """Some share a call's table, most have their own; all pieces of a call are done when it returns."""
    shared = words([0])
    together = adding(shared, 3, phases=2)
    failures: list[str] = []
    calls = []

    def work(seed: int) -> None:
        rng, counter = random.Random(seed), words([0])
        own = [(n * p, adding(counter, n, phases=p)) for n, p in ((2, 1), (3, 5), (64, 2), (1, 4))]
        for _ in range(2500):
            expected, call = rng.choice(own)
            counter[:] = 0
            if call() or counter.item() != expected:
                failures.append(f"{seed}: {counter.item()} of {expected}")
            together()
            calls.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(calls) == 15000
    assert shared.item() == 6 * len(calls)


@pytest.mark.usefixtures("many_processors")
def test_far_more_threads_than_processors() -> None:
    counter = words([0])
    call = adding(counter, 64, phases=3)
    start = time.perf_counter()
    for _ in range(500):
        call()
    assert counter.item() == 500 * 64 * 3
    assert time.perf_counter() - start < 30  # about one second, if nothing else runs; minutes if threads waited busily
    x = np.arange(1 << 20, dtype=np.uint32).reshape(1024, 1024)
    got = dml.slice1(x, (0, 0), (1024, 1024), (1, -1), device=dml.Device(threads=64))
    np.testing.assert_array_equal(got, x[:, ::-1])


@posix
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forks with other threads running are tested
def test_forks_while_workers_look_for_work_and_other_threads_call() -> None:
    counter, others, stop = words([0]), words([0]), threading.Event()
    call, other = adding(counter, 8, phases=4), adding(others, 8, phases=4)

    def work() -> None:
        while not stop.is_set():
            other()

    thread = threading.Thread(target=work)
    forks = 0
    try:
        for i in range(40):
            if i == 20:
                thread.start()
            call()
            child = os.fork()
            if child == 0:
                counter[:] = 0
                good = [call() for _ in range(50)] == [0] * 50 and counter.item() == 50 * 32
                new = pool.processors() < 2 or "anydml" in [thread.name for thread in threading.enumerate()]
                os._exit(0 if good and new and not pool._state[UNUSED].any() else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            forks += 1
    finally:
        stop.set()
        thread.join()
    assert forks == 40
    assert counter.item() == 40 * 32


EXIT = """
import sys, threading, time
sys.path[:0] = {path!r}
from step_kernels import spinning
call = spinning({times})
call()
if {daemon}:
    threading.Thread(target=lambda: [call() for _ in range(10**9)], daemon=True).start()
    time.sleep({pause})
else:
    call()
"""


@pytest.mark.parametrize("daemon", [False, True])
def test_an_exit_while_workers_look_for_work_or_work(daemon: bool) -> None:
    whole = [(pause, times) for pause in (0.0, 0.01) for times in (1, 3000, 60_000)]
    for pause, times in whole if SOAK > 1 else whole[daemon::2]:
        source = EXIT.format(path=sys.path, times=times, daemon=daemon, pause=pause)
        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
