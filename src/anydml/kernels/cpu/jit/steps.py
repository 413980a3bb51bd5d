"""Machine code, called: every kernel is `i64 kernel(ptr args)`, and a call is a table of kernels with their arguments.

A piece is a run of steps that one thread takes in order; a phase is pieces that may run side by side. A kernel that
returns something else than 0 ends the call with that status, before its piece goes on and before the next phase begins.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.cpu.jit import compile as jit
from anydml.kernels.cpu.jit import pool
from anydml.kernels.cpu.jit.emit import Text, module
from anydml.kernels.cpu.jit.targets import Target

_SIGNATURE: tuple[Any, ...] = (ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


class Piece(NamedTuple):
    """steps: the address of `length` pairs of int64, those of a kernel and of its arguments. keep: where they all are."""

    steps: int
    length: int
    keep: Any


def table(code: jit.Code, arguments: NDArray[np.int64]) -> list[Piece]:
    """The phase that calls one kernel with each row of an array, side by side."""
    address, size = arguments.ctypes.data, arguments.strides[0]
    steps = np.array([(code.address, address + i * size) for i in range(len(arguments))], np.int64)
    return [Piece(steps.ctypes.data + 16 * i, 1, (code, arguments, steps)) for i in range(len(arguments))]


def runner(target: Target) -> str:
    """`i64 kernel(ptr steps, i64 count)`: the steps in order, under the default floating-point state."""
    text = Text()
    declarations = []
    if target.architecture == "x86":  # round to nearest even, nothing flushed, no exception unmasked
        declarations = ["declare void @llvm.x86.sse.stmxcsr(ptr)", "declare void @llvm.x86.sse.ldmxcsr(ptr)"]
        found, default = text.op("alloca i32, align 4"), text.op("alloca i32, align 4")
        text.do(f"call void @llvm.x86.sse.stmxcsr(ptr {found})")
        text.do(f"store i32 {0x1F80}, ptr {default}, align 4")
        text.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {default})")
    elif target.architecture == "aarch64":
        declarations = ["declare i64 @llvm.aarch64.get.fpcr()", "declare void @llvm.aarch64.set.fpcr(i64)"]
        found = text.op("call i64 @llvm.aarch64.get.fpcr()")
        text.do("call void @llvm.aarch64.set.fpcr(i64 0)")
    text.jump("step")
    text.label("step")
    text.do("%i = phi i64 [ 0, %entry ], [ %next, %step ]")
    at = text.op("mul i64 %i, 16")
    kernel = text.load("ptr", text.at("%steps", at))
    arguments = text.load("ptr", text.at("%steps", at), 8)
    status = text.op(f"call i64 {kernel}(ptr {arguments})")
    text.do("%next = add i64 %i, 1")
    more = text.op("icmp ult i64 %next, %count")
    good = text.op(f"icmp eq i64 {status}, 0")
    text.branch(text.op(f"and i1 {more}, {good}"), "step", "end")
    text.label("end")
    if target.architecture == "x86":
        text.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {found})")
    elif target.architecture == "aarch64":
        text.do(f"call void @llvm.aarch64.set.fpcr(i64 {found})")
    text.do(f"ret i64 {status}")
    return module([*declarations, "define i64 @kernel(ptr %steps, i64 %count) {", "entry:", *text.lines, "}"])


@lru_cache(maxsize=32)
def _function(target: Target, keeps_gil: bool) -> Any:
    """The runner as a function of Python's; made once, since ctypes makes a class for each."""
    code = jit.compiled(runner, target)
    function = (ctypes.PYFUNCTYPE if keeps_gil else ctypes.CFUNCTYPE)(*_SIGNATURE)(code.address)
    function.keep = code  # type: ignore[attr-defined]
    return function


def prepared(
    phases: Sequence[Sequence[Piece]],
    target: Target,
    keep: Any,
    *,
    keeps_gil: bool = False,
    interruptible: bool = False,
    threads: int | None = None,
) -> Callable[[], int]:
    """The call that runs the phases, one after another, and returns the first status that is not 0.

    It is one call into machine code. All pieces of a phase run, even if one of them fails; where several do, which of
    their statuses is returned is left open.
    keep: what the arguments point to; it lives as long as the call. keeps_gil: for work so short that others can wait, if
    no phase has several pieces. interruptible: for long work; each phase is a call of its own, between which signals are
    handled. threads: at most so many at once, the caller's included; otherwise as many as a phase has pieces.
    """
    if interruptible and len(phases) > 1:
        calls = [prepared([phase], target, keep, keeps_gil=keeps_gil, threads=threads) for phase in phases]
        return lambda: next((status for call in calls if (status := call())), 0)
    if len(phases) == 1 and len(phases[0]) == 1:
        piece = phases[0][0]
        made = partial(_function(target, keeps_gil), piece.steps, piece.length)
        made.keep = (piece, keep)  # type: ignore[attr-defined]
        return made
    code = jit.compiled(runner, target)
    shared = [[(piece.steps, piece.length) for piece in phase] for phase in phases]
    return pool.call(shared, code, target, (phases, keep), threads, keeps_gil=keeps_gil)


def address_of(array: NDArray[Any]) -> int:
    """The address of an array's first element, in half the time of `ctypes.data`."""
    address: int = array.__array_interface__["data"][0]
    return address


class At(NamedTuple):
    """An address that is known when arrays are bound: so many bytes from the start of `base`."""

    base: str
    offset: int = 0

    def __add__(self, offset: Any) -> At:
        return At(self.base, self.offset + int(offset))


class Step(NamedTuple):
    """A kernel and its arguments."""

    code: jit.Code
    arguments: tuple[At | int, ...]


class Sheet:
    """Phases of steps, laid out once; `bind` fills in the addresses."""

    def __init__(self, phases: Sequence[Sequence[Sequence[Step]]]) -> None:
        steps = [step for phase in phases for piece in phase for step in piece]
        self._codes = [step.code for step in steps]
        numbers: list[At | int] = []
        at = 16 * len(steps)
        for step in steps:
            numbers += [step.code.address, At("", at)]
            at += 8 * len(step.arguments)
        numbers += [x for step in steps for x in step.arguments]
        bases = {x.base: None for x in numbers if isinstance(x, At)}
        self.bases = [base for base in bases if base]
        index = {base: i for i, base in enumerate(("", *self.bases), start=1)}  # 0: no address
        self._numbers = np.array([x.offset if isinstance(x, At) else x for x in numbers], np.int64)
        self._which = np.array([index[x.base] if isinstance(x, At) else 0 for x in numbers], np.intp)
        ends = iter(np.cumsum([0, *(len(piece) for phase in phases for piece in phase)]).tolist())
        first = next(ends)
        self._pieces: list[list[tuple[int, int]]] = []
        for phase in phases:
            self._pieces.append([])
            for _ in phase:
                self._pieces[-1].append((16 * first, (end := next(ends)) - first))
                first = end

    def bind(self, addresses: Sequence[int]) -> list[list[Piece]]:
        """The phases with the addresses of `bases`, in order."""
        numbers = np.empty_like(self._numbers)
        own = address_of(numbers)
        np.add(self._numbers, np.array((0, own, *addresses), np.int64).take(self._which), out=numbers)
        keep = (self._codes, numbers)
        return [[Piece(own + at, length, keep) for at, length in phase] for phase in self._pieces]
