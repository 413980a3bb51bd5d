"""Tiny kernels that show tests which steps of a call run, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from anydml.kernels.call import pool, pool_emit, steps
from anydml.kernels.code import engine
from anydml.kernels.code.emit import Text, module
from anydml.kernels.code.targets import Target, targets

TARGET = targets()[-1]
Words = NDArray[np.int64]
UNUSED = [pool_emit.OWNER // 8, pool_emit.STAYING // 8]  # words of the state that are 0 between calls
two_processors = pytest.mark.skipif(pool.processors() < 2 or not pool_emit.pooled(TARGET), reason="no worker helps here")


def words(*rows: Sequence[int]) -> Words:
    return np.array(rows, np.int64)


def phase(emit: Callable[[Target], str], arguments: Words) -> list[steps.StepTable]:
    return steps.table(engine.compiled(emit, TARGET), arguments)


def _function(text: Text, *declarations: str) -> str:
    return module([*declarations, "define i64 @kernel(ptr %args) {", "entry:", *text.lines, "}"])


def _wait_for(text: Text, counter: str, least: str) -> str:
    """Wait until a counter has at least a value, but not forever; return whether it has."""
    text.jump("wait")
    text.label("wait")
    text.do("%spun = phi i64 [ 0, %entry ], [ %more, %wait ]")
    text.do("%more = add i64 %spun, 1")
    value = text.op(f"load atomic i64, ptr {counter} acquire, align 8")
    there = text.op(f"icmp sge i64 {value}, {least}")
    text.branch(text.op(f"or i1 {there}, {text.op('icmp ugt i64 %more, 200000000')}"), "go", "wait")
    text.label("go")
    return there


def add(target: Target) -> str:
    """(counter, value, status): atomically adds the value to the counter, and returns the status."""
    text = Text()
    text.op(f"atomicrmw add ptr {text.load('ptr', '%args')}, i64 {text.load('i64', '%args', 8)} seq_cst")
    text.do(f"ret i64 {text.load('i64', '%args', 16)}")
    return _function(text)


def within(target: Target) -> str:
    """(counter, least, most): adds 1 to the counter; returns 1 if it was not between the limits, else 0."""
    text = Text()
    before = text.op(f"atomicrmw add ptr {text.load('ptr', '%args')}, i64 1 seq_cst")
    early = text.op(f"icmp slt i64 {before}, {text.load('i64', '%args', 8)}")
    late = text.op(f"icmp sgt i64 {before}, {text.load('i64', '%args', 16)}")
    outside = text.op(f"or i1 {early}, {late}")
    text.do(f"ret i64 {text.op(f'zext i1 {outside} to i64')}")
    return _function(text)


def meet(target: Target) -> str:
    """(counter, threads): waits for this number of calls at the same time, which needs different threads; returns 1 if they do
    not come."""
    text = Text()
    counter, many = text.load("ptr", "%args"), text.load("i64", "%args", 8)
    text.op(f"atomicrmw add ptr {counter}, i64 1 seq_cst")
    there = _wait_for(text, counter, many)
    text.do(f"ret i64 {text.op(f'select i1 {there}, i64 0, i64 1')}")
    return _function(text)


def spin(target: Target) -> str:
    """(counter, times): adds 1 to the counter this many times."""
    text = Text()
    counter, times = text.load("ptr", "%args"), text.load("i64", "%args", 8)
    text.jump("wait")
    text.label("wait")
    text.do("%i = phi i64 [ 0, %entry ], [ %next, %wait ]")
    text.do("%next = add i64 %i, 1")
    text.op(f"atomicrmw add ptr {counter}, i64 1 seq_cst")
    text.branch(text.op(f"icmp ult i64 %next, {times}"), "wait", "end")
    text.label("end")
    text.do("ret i64 0")
    return _function(text)


def spinning(times: int) -> Callable[[], int]:
    """A call in which each of two threads counts this many times."""
    counter = words([0])
    return steps.prepared([phase(spin, words(*[(counter.ctypes.data, times)] * 2))], TARGET, counter)


def adding(counter: Words, pieces: int, phases: int = 1, threads: int | None = None) -> Callable[[], int]:
    """A call that adds 1 to the counter for each piece."""
    rows = words(*[(counter.ctypes.data, 1, 0)] * pieces)
    return steps.prepared([phase(add, rows)] * phases, TARGET, counter, threads=threads)


_MXCSR = ("declare void @llvm.x86.sse.stmxcsr(ptr)", "declare void @llvm.x86.sse.ldmxcsr(ptr)")


def swap_state(target: Target) -> str:
    """(counter, threads, found, new): stores MXCSR and changes it, then waits as `meet` does."""
    text = Text()
    text.do(f"call void @llvm.x86.sse.stmxcsr(ptr {text.at('%args', 16)})")
    text.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {text.at('%args', 24)})")
    counter, many = text.load("ptr", "%args"), text.load("i64", "%args", 8)
    text.op(f"atomicrmw add ptr {counter}, i64 1 seq_cst")
    there = _wait_for(text, counter, many)
    text.do(f"ret i64 {text.op(f'select i1 {there}, i64 0, i64 1')}")
    return _function(text, *_MXCSR)
