"""Machine code, called: every kernel is `i64 kernel(ptr args)`, and a call is a table of kernels with their arguments.

A piece is a sequence of steps that one thread runs in order. A phase is a set of pieces that may run at the same time. If a
kernel returns a status other than 0, the rest of its piece and the later phases are not run, and the call returns the status.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call import pool
from anydml.kernels.call.address import address_of
from anydml.kernels.code import engine
from anydml.kernels.code.emit import Text, arguments, fold, kernel, module, when
from anydml.kernels.code.targets import Target

_ARGUMENTS: tuple[Any, ...] = (ctypes.c_void_p, ctypes.c_int64)


class StepTable(NamedTuple):
    """steps: the address of `length` pairs of addresses, of a kernel and of its arguments. keep: the memory of all of them."""

    steps: int
    length: int
    keep: Any


def table(code: engine.Code, arguments: NDArray[np.int64]) -> list[StepTable]:
    """The phase that calls one kernel with each row of an array; the calls may run at the same time."""
    address, size = address_of(arguments), arguments.strides[0]
    steps = np.array([(code.address, address + i * size) for i in range(len(arguments))], np.int64)
    return [StepTable(address_of(steps) + 16 * i, 1, (code, arguments, steps)) for i in range(len(arguments))]


def _in_order(text: Text, steps: str, count: str) -> str:
    """Call `count` steps, at least one, up to the first whose status is not 0. Returns the last status."""
    before, head, after = (text.name(x) for x in ("before", "step", "after"))
    i, next_ = f"%{text.name('i')}", f"%{text.name('j')}"
    text.jump(before)
    text.label(before)
    text.jump(head)
    text.label(head)
    text.do(f"{i} = phi i64 [ 0, %{before} ], [ {next_}, %{head} ]")
    at = text.at(steps, text.op(f"mul i64 {i}, 16"))
    function, arguments = text.load("ptr", at), text.load("ptr", at, 8)
    status = text.op(f"call i64 {function}(ptr {arguments})")
    text.do(f"{next_} = add i64 {i}, 1")
    more = text.op(f"icmp ult i64 {next_}, {count}")
    text.branch(text.op(f"and i1 {more}, {text.op(f'icmp eq i64 {status}, 0')}"), head, after)
    text.label(after)
    return status


REPEAT = ("times", "count", "steps", "words", "numbers", "deltas")


def repeat(target: Target) -> str:
    """Repeated steps, whose arguments (`words` numbers) advance by `deltas` each time and are restored at the end.

    Arguments: REPEAT; times >= 1. The status is the first that is not 0.
    """
    text = Text()
    arguments(text, REPEAT, {"steps", "numbers", "deltas"})

    def move(factor: str) -> None:
        def one(w: str, _: list[str]) -> list[str]:
            at = text.op(f"mul i64 {w}, 8")
            by = text.op(f"mul i64 {text.load('i64', text.at('%deltas', at))}, {factor}")
            place = text.at("%numbers", at)
            text.store("i64", text.op(f"add i64 {text.load('i64', place)}, {by}"), place)
            return []

        fold(text, "0", "%words", 1, [], one)

    result = text.op("alloca i64, align 8")
    text.do(f"store i64 0, ptr {result}, align 8")

    def round_(i: str, found: list[str]) -> list[str]:
        def go() -> None:
            text.do(f"store i64 {_in_order(text, '%steps', '%count')}, ptr {result}, align 8")
            move("1")

        good = text.op(f"icmp eq i64 {text.op(f'load i64, ptr {result}, align 8')}, 0")
        when(text, good, go)
        return [text.op(f"add i64 {found[0]}, {text.op(f'zext i1 {good} to i64')}")]

    _, (done,) = fold(text, "0", "%times", 1, [("i64", "0")], round_)
    move(text.op(f"sub i64 0, {done}"))
    text.do(f"ret i64 {text.op(f'load i64, ptr {result}, align 8')}")
    return kernel(text)


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
    status = _in_order(text, "%steps", "%count")
    if target.architecture == "x86":
        text.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {found})")
    elif target.architecture == "aarch64":
        text.do(f"call void @llvm.aarch64.set.fpcr(i64 {found})")
    text.do(f"ret i64 {status}")
    return module([*declarations, "define i64 @kernel(ptr %steps, i64 %count) {", "entry:", *text.lines, "}"])


@lru_cache(maxsize=32)
def _function(target: Target, keeps_gil: bool, status: bool) -> Any:
    """The runner as a Python function, made once, since ctypes makes a class for each. status: whether it is returned."""
    code = engine.compiled(runner, target)
    signature = (ctypes.c_int64 if status else None, *_ARGUMENTS)
    function = (ctypes.PYFUNCTYPE if keeps_gil else ctypes.CFUNCTYPE)(*signature)(code.address)
    function.keep = code  # type: ignore[attr-defined]  # ctypes knows only its address
    return function


def prepared(
    phases: Sequence[Sequence[StepTable]],
    target: Target,
    keep: Any,
    *,
    keeps_gil: bool = False,
    interruptible: bool = False,
    threads: int | None = None,
    status: bool = True,
) -> Callable[[], Any]:
    """The call that runs the phases, one after another, and returns the first status that is not 0.

    It is one call of machine code. All pieces of a phase run, even if one of them fails. If several fail, any of their
    statuses may be returned.
    keep: the memory to which the arguments point; it lives as long as the call. keeps_gil: do not release the GIL, for short
    work without phases of several pieces. interruptible: make each phase a call of its own and handle signals between them,
    for long work. threads: the most threads, the caller's included; by default one for each piece of a phase. status: False
    if a single piece cannot fail; the call may then return None.
    """
    if interruptible and len(phases) > 1:
        calls = [prepared([phase], target, keep, keeps_gil=keeps_gil, threads=threads) for phase in phases]
        return lambda: next((status for call in calls if (status := call())), 0)
    if len(phases) == 1 and len(phases[0]) == 1:
        piece = phases[0][0]
        made = partial(_function(target, keeps_gil, status), piece.steps, piece.length)
        made.keep = (piece, keep)  # type: ignore[attr-defined]  # what the numbers are addresses of
        return made
    code = engine.compiled(runner, target)
    shared = [[(piece.steps, piece.length) for piece in phase] for phase in phases]
    return pool.call(shared, code, target, (phases, keep), threads, keeps_gil=keeps_gil)


def parts(
    phases: Sequence[Sequence[StepTable]], target: Target, keep: Any, *, keeps_gil: bool = False
) -> tuple[Callable[[int, int], int], Callable[[], int]]:
    """As `prepared`, a function that runs the phases from its first to before its second argument; and one that returns the
    last phase that was run."""
    shared = [[(piece.steps, piece.length) for piece in phase] for phase in phases]
    return pool.parts(shared, engine.compiled(runner, target), target, (phases, keep), keeps_gil=keeps_gil)


class At(NamedTuple):
    """An address that is known when arrays are bound: some bytes after the start of `base`."""

    base: str
    offset: int = 0

    def __add__(self, offset: Any) -> At:
        return At(self.base, self.offset + int(offset))


class Aligned(NamedTuple):
    """Another kernel for the same arguments, used if the argument number `argument` is a multiple of `boundary`."""

    code: engine.Code
    argument: int
    boundary: int


class Step(NamedTuple):
    """A kernel and its arguments. aligned: a faster kernel for aligned addresses."""

    code: engine.Code
    arguments: tuple[At | int, ...]
    aligned: Aligned | None = None


class Repeat(NamedTuple):
    """Steps that are repeated: as in `first`, then as in `second`, then with the same differences each time."""

    code: engine.Code
    times: int
    first: Sequence[Step | Repeat]
    second: Sequence[Step | Repeat]


Phases = Sequence[Sequence[Sequence[Step | Repeat]]]


class Rounds(NamedTuple):
    """Phases that are repeated `times[i]` times in direction i. Each time the addresses advance as from `phases` to `moved[i]`.

    Without directions they are run once.
    """

    phases: Phases
    times: tuple[int, ...] = ()
    moved: tuple[Phases, ...] = ()


class Sheet:
    """The table of phases, made once. `bind` fills in the addresses.

    moved: the same phases at other addresses. moves: for each of them, the differences of all numbers.
    """

    def __init__(self, phases: Phases, moved: Sequence[Phases] = ()) -> None:
        steps, others = _steps(phases), [_steps(x) for x in moved]
        self._codes: list[engine.Code] = []
        # indices of a code's address and argument, boundary, other code, usual code
        self._aligned: list[tuple[int, int, int, int, int]] = []
        numbers: list[At | int] = [0] * (2 * len(steps))  # the tables of the pieces come first
        moves: list[list[int]] = [[0] * len(numbers) for _ in others]
        for i, (step, *elsewhere) in enumerate(zip(steps, *others, strict=True)):
            numbers[2 * i : 2 * i + 2] = self._place(2 * i, step, elsewhere, numbers, moves)
        self.moves = [np.array(x, np.int64) for x in moves]
        index, which = {"": 1}, [0] * len(numbers)  # 0: no address
        for place, x in enumerate(numbers):
            if type(x) is At:  # faster than isinstance: steps have thousands of numbers
                base, numbers[place] = x
                which[place] = index[base] if base in index else index.setdefault(base, len(index) + 1)
        self._which = np.array(which, np.intp)
        self.bases = [base for base in index if base]
        self._numbers = np.array(numbers, np.int64)
        first = 0
        self._pieces: list[list[tuple[int, int]]] = []
        for phase in phases:
            pieces = []
            for piece in phase:
                pieces.append((16 * first, len(piece)))
                first += len(piece)
            self._pieces.append(pieces)

    def _place(
        self,
        place: int,
        step: Step | Repeat,
        elsewhere: Sequence[Step | Repeat],
        numbers: list[At | int],
        moves: Sequence[list[int]],
    ) -> tuple[int, At]:
        """Append a step's arguments, and their differences to each step in `elsewhere`. Returns the address of its code and of
        its arguments, which belong at `place`."""
        self._codes.append(step.code)

        def add(new: Sequence[At | int], moved: Sequence[Sequence[At | int]] = ()) -> int:
            at = len(numbers)
            numbers.extend(new)
            for i, move in enumerate(moves):
                move.extend(map(_difference, new, moved[i]) if moved else [0] * len(new))
            return at

        if isinstance(step, Step):
            at = add(step.arguments, [other.arguments for other in elsewhere if isinstance(other, Step)])
            if step.aligned is not None:
                code, argument, boundary = step.aligned
                self._codes.append(code)
                self._aligned.append((place, at + argument, boundary, code.address, step.code.address))
            return step.code.address, At("", 8 * at)
        table = add([0] * (2 * len(step.first)))
        arguments = len(numbers)
        deltas: list[int] = []
        others = [other.first for other in elsewhere if isinstance(other, Repeat)]
        for i, (inner, *moved) in enumerate(zip(step.first, *others, step.second, strict=True)):
            inside = table + 2 * i
            numbers[inside : inside + 2] = self._place(inside, inner, moved, numbers, [*moves, deltas])
        at = add(deltas)
        words = (step.times, len(step.first), At("", 8 * table), len(deltas), At("", 8 * arguments), At("", 8 * at))
        return step.code.address, At("", 8 * add(words))

    def bind(self, addresses: Sequence[int]) -> tuple[list[list[StepTable]], NDArray[np.int64]]:
        """The phases with the addresses of `bases`, in order, and all their numbers, to which `moves` may be added."""
        numbers = np.empty_like(self._numbers)
        own = address_of(numbers)
        np.add(self._numbers, np.array((0, own, *addresses), np.int64).take(self._which), out=numbers)
        self.choose(numbers)
        keep = (self._codes, numbers)
        return [[StepTable(own + at, length, keep) for at, length in phase] for phase in self._pieces], numbers

    @property
    def chooses(self) -> bool:
        """Whether steps have another code for aligned addresses."""
        return bool(self._aligned)

    def choose(self, numbers: NDArray[np.int64] | memoryview) -> None:
        """Put the code for aligned addresses, or the usual one, where steps have both."""
        for place, looked_at, boundary, code, usual in self._aligned:
            numbers[place] = usual if numbers[looked_at] % boundary else code

    def uses(self, base: str) -> list[tuple[int, int]]:
        """The indices of the numbers that are addresses relative to a base, with their offsets from it."""
        if base not in self.bases:
            return []
        places = np.flatnonzero(self._which == self.bases.index(base) + 2).tolist()
        return [(place, int(self._numbers[place])) for place in places]


def _steps(phases: Phases) -> list[Step | Repeat]:
    return [step for phase in phases for piece in phase for step in piece]


def _difference(x: At | int, y: At | int) -> int:
    if type(x) is At and type(y) is At:
        assert x.base == y.base
        return y.offset - x.offset
    return int(y) - int(x)  # type: ignore[arg-type]  # both are numbers: they are the same argument
