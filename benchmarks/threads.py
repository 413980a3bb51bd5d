"""Two threads beside two independent processes on the same two cores: part `threads` of `make bench`.

What two cores can gain is measured in the same run, by two processes that compute the same on one thread each, with memory of
their own. Windows of one process, of both, and of one call on two threads take turns, and the best of each counts. That needs
an idle machine of at least two cores, since another process slows down two threads more than one; the load is printed first.

Virtual processors are where the host puts them: near each other or, some seconds later, without a common cache. What one thread
of a network writes and the other reads takes several times as long then, and two processes, which read nothing of each other,
lose nothing. So a message from one core to the other and back is timed before and after each case.

Another column says something on a busy machine, too: a call for two threads is run piece by piece on one, by the thread's
clock, and the longest piece of each phase counts. That is what the division of the work allows, without waiting and without the
caches and the memory that two cores share.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any
from unittest.mock import patch

import numpy as np

import anydml as dml
from anydml.kernels.call import pool
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, targets
from benchmarks import networks, small_networks
from benchmarks.map_cases import Array
from benchmarks.network_layers import CLASSES
from benchmarks.small_networks import Layer
from benchmarks.timing import best

CONTRACTIONS, OTHERS = 0.95, 0.9  # the least of what two processes gain
LOSS = 1.05  # the most of a small call's time on one thread that it may take with two
WINDOW, ROUNDS = 0.05, 24  # seconds of a window, and the number of turns
MESSAGES, LOOKS = 2000, 1 << 20  # of one measurement; how often a thread looks for a message before it gives up
Call = Callable[[], object]


def normal(*sizes: int) -> Array:
    return np.random.default_rng(0).standard_normal(sizes).astype(np.float32)


def called(function: Callable[..., Any], threads: int, **inputs: Array) -> Call:
    """The bound call of a graph."""
    graph = dml.graph(function, **{name: dml.TensorDesc.of(x) for name, x in inputs.items()})
    outputs = {name: np.zeros(t.sizes, t.data_type.dtype) for name, t in graph.outputs.items()}
    return graph.compile(dml.Device(threads=threads)).bind(**inputs, **outputs).execute


def gemm(size: int, threads: int) -> Call:
    return called(lambda a, b: dml.gemm(a, b), threads, a=normal(1, 1, size, size), b=normal(1, 1, size, size))


def integers(size: int, threads: int) -> Call:
    a, b = (np.random.default_rng(n).integers(-128, 128, (1, 1, size, size)).astype(np.int8) for n in range(2))
    return called(lambda a, b: dml.matrix_multiply_integer(a, b), threads, a=a, b=b)


def layer(made: Layer, threads: int) -> Call:
    return small_networks.ours(made, normal(1, made.read, made.high, made.wide), np.empty(made.output, np.float32), threads)


def mapped(function: Callable[..., Any], count: int, threads: int) -> Call:
    return called(function, threads, x=normal(1, 1, count // 1024, 1024))


def network(name: str, quantised: bool, threads: int) -> Call:
    made = networks.network(name, quantised=quantised)
    output = np.empty((1, CLASSES, 1, 1), np.float32)
    return made.graph.compile(dml.Device(threads=threads)).bind(x=made.image, output=output).execute


CASES: Mapping[str, tuple[float, Callable[[int], Call]]] = {
    "GEMM, 512 cubed": (CONTRACTIONS, lambda n: gemm(512, n)),
    "GEMM, 1024 cubed": (CONTRACTIONS, lambda n: gemm(1024, n)),
    "integers, 1024 cubed": (CONTRACTIONS, lambda n: integers(1024, n)),
    "1 x 1, 256 to 256, 28 x 28": (CONTRACTIONS, lambda n: layer(Layer(256, 256, 1, 1, 28, 28), n)),
    "3 x 3, 64 to 64, 56 x 56": (CONTRACTIONS, lambda n: layer(Layer(64, 64, 3, 1, 56, 56), n)),
    "3 x 3 / 2, 3 to 32, 224 x 224": (CONTRACTIONS, lambda n: layer(Layer(3, 32, 3, 2, 224, 224), n)),
    "depthwise 3 x 3, 64, 56 x 56": (CONTRACTIONS, lambda n: layer(Layer(64, 64, 3, 1, 56, 56, 64), n)),
    "add, 16 MB": (OTHERS, lambda n: mapped(lambda x: dml.element_wise_add(x, x), 1 << 22, n)),
    "exp, 1 MB": (OTHERS, lambda n: mapped(lambda x: dml.element_wise_exp(x), 1 << 18, n)),
    "GELU, 1 MB": (OTHERS, lambda n: mapped(lambda x: dml.activation_gelu(x), 1 << 18, n)),
    "softmax, 4 MB": (OTHERS, lambda n: mapped(lambda x: dml.activation_softmax(x), 1 << 20, n)),
    "ResNet-18": (OTHERS, lambda n: network("ResNet-18", False, n)),
    "ResNet-18, int8": (OTHERS, lambda n: network("ResNet-18", True, n)),
    "MobileNetV2": (OTHERS, lambda n: network("MobileNetV2", False, n)),
    "MobileNetV2, int8": (OTHERS, lambda n: network("MobileNetV2", True, n)),
}
SMALL: Mapping[str, Callable[[int], Call]] = {
    "GEMM, 32 cubed": lambda n: gemm(32, n),
    "add, 4 KB": lambda n: mapped(lambda x: dml.element_wise_add(x, x), 1 << 10, n),
    "exp, 16 KB": lambda n: mapped(lambda x: dml.element_wise_exp(x), 1 << 12, n),
    "3 x 3, 8 to 8, 14 x 14": lambda n: layer(Layer(8, 8, 3, 1, 14, 14), n),
}


def bounce(target: Target) -> str:
    """`i64 kernel(ptr (word, side, count))`: wait for the word to be 2 i + side, and add 1, for each i below count.

    The status is 1 if a thread waited in vain.
    """
    return f"""define i64 @kernel(ptr %arguments) {{
entry:
  %word = load ptr, ptr %arguments
  %of_side = getelementptr i64, ptr %arguments, i64 1
  %side = load i64, ptr %of_side
  %of_count = getelementptr i64, ptr %arguments, i64 2
  %count = load i64, ptr %of_count
  br label %round
round:
  %i = phi i64 [ 0, %entry ], [ %next, %found ]
  %twice = shl i64 %i, 1
  %awaited = add i64 %twice, %side
  br label %look
look:
  %looks = phi i64 [ 0, %round ], [ %more, %again ]
  %value = load atomic i64, ptr %word acquire, align 8
  %there = icmp eq i64 %value, %awaited
  br i1 %there, label %found, label %again
again:
  %more = add i64 %looks, 1
  %patient = icmp ult i64 %more, {LOOKS}
  br i1 %patient, label %look, label %vain
found:
  %sent = add i64 %awaited, 1
  store atomic i64 %sent, ptr %word release, align 8
  %next = add i64 %i, 1
  %going = icmp ult i64 %next, %count
  br i1 %going, label %round, label %done
vain:
  ret i64 1
done:
  ret i64 0
}}"""


def message() -> float:
    """The least seconds that a message takes from one core to another and back; infinite if none was answered."""
    target, word = targets()[-1], np.zeros(1, np.int64)
    rows = np.array([(word.ctypes.data, side, MESSAGES) for side in range(2)], np.int64)
    run = prepared([table(engine.compiled(bounce, target), rows)], target, (word, rows), threads=2)
    least = float("inf")
    for _ in range(8):
        word[:] = 0
        begun = time.perf_counter()
        if run() == 0:
            least = min(least, (time.perf_counter() - begun) / MESSAGES)
    return least


def counted(call: Call, seconds: float) -> float:
    """Calls per second, over whole calls for at least `seconds`."""
    begun, count = time.perf_counter(), 0
    while True:
        call()
        count += 1
        spent = time.perf_counter() - begun
        if spent >= seconds:
            return count / spent


def alone(name: str, pipe: Connection) -> None:
    """A process that computes a case on one thread: for each message, the seconds of a window, it answers its rate."""
    call = CASES[name][1](1)
    call()
    pipe.send(0.0)
    while (seconds := pipe.recv()) is not None:
        pipe.send(counted(call, seconds))


def measured(name: str, window: float = WINDOW, rounds: int = ROUNDS) -> dict[str, float]:
    """The best rates of one process, of two processes together, and of a call on two threads."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(2):
        here, there = context.Pipe()
        processes.append(context.Process(target=alone, args=(name, there), daemon=True))
        processes[-1].start()
        pipes.append(here)
    try:
        call = CASES[name][1](2)
        call()
        for pipe in pipes:
            pipe.recv()
        found = dict.fromkeys(("one", "processes", "threads"), 0.0)
        for _ in range(rounds):
            for pipe in pipes:
                pipe.send(window)
            found["processes"] = max(found["processes"], sum(pipe.recv() for pipe in pipes))
            pipes[0].send(window)
            found["one"] = max(found["one"], pipes[0].recv())
            found["threads"] = max(found["threads"], counted(call, window))
        for pipe in pipes:
            pipe.send(None)
        return found
    finally:
        for process in processes:
            process.join(10)
            process.kill()


def pieces(made: Callable[[int], Call], threads: int, turns: int = 25) -> list[list[float]]:
    """The least seconds of each piece of each phase of a call that is made for some threads, one after the other on one."""
    made_ready, real, used = [], pool._call, []

    def noted(phases: Any, runner: Any, *more: Any, **options: Any) -> Any:
        run, job = real(phases, runner, *more, **options)

        def one(*given: Any) -> int:
            used.append((phases, runner))
            return run(*given)

        return one, job

    with patch.object(pool, "_call", noted):
        call = made(threads)
        call()
        used.clear()
        call()
    for phases, runner in used:
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(runner.address)
        made_ready += [[(function, steps, length) for steps, length in phase] for phase in phases]
    least = [[float("inf")] * len(phase) for phase in made_ready]
    for _ in range(turns):
        for times, phase in zip(least, made_ready, strict=True):
            for k, (function, steps, length) in enumerate(phase):
                began = time.thread_time()
                function(steps, length)
                times[k] = min(times[k], time.thread_time() - began)
    return least


def divided(made: Callable[[int], Call]) -> float:
    """The speed of two threads over that of one, if each phase takes as long as its longest piece."""
    return sum(map(sum, pieces(made, 1))) / sum(map(max, pieces(made, 2)))


def run(only: str = "", window: float = WINDOW) -> list[dict[str, Any]]:
    """only: a word of the names of cases."""
    if (os.cpu_count() or 1) < 2:
        print("there is one core: nothing to measure")
        return []
    print(f"load {os.getloadavg()[0]:.1f} at the begin; figures are good below 0.3 or so")
    print(
        f"{'':32} {'gain of two processes':>22} {'of two threads':>16} {'of pieces':>10} {'share (asked)':>14}"
        f"{'message, ns':>14}"
    )
    rows: list[dict[str, Any]] = []
    for name, (asked, made_for) in CASES.items():
        if only not in name:
            continue
        before = message()
        found = measured(name, window)
        after = message()
        gains = found["processes"] / found["one"], found["threads"] / found["one"]
        share = gains[1] / gains[0]
        by_pieces = divided(made_for)
        rows.append(
            {
                "case": name,
                "processes": gains[0],
                "threads": gains[1],
                "pieces": by_pieces,
                "share": share,
                "message_ns": [before * 1e9, after * 1e9],
                "met": share >= asked,
            }
        )
        verdict = "" if share >= asked else "  MISSED"
        print(
            f"{name:32} {gains[0]:22.2f} {gains[1]:16.2f} {by_pieces:10.2f} {share:7.2f} ({asked})"
            f"{f'{before * 1e9:.0f}, {after * 1e9:.0f}':>14}{verdict}",
            flush=True,
        )
    for name, made in SMALL.items():
        if only in name:
            spent = best({"one": made(1), "two": made(2)})
            ratio = spent["two"] / spent["one"]
            rows.append({"case": name, "us": {k: s * 1e6 for k, s in spent.items()}, "met": ratio <= LOSS})
            verdict = "" if ratio <= LOSS else "  MISSED"
            print(f"{name:32} {spent['one'] * 1e6:8.2f} us, {spent['two'] * 1e6:8.2f} with two threads ({LOSS}){verdict}")
    return rows
