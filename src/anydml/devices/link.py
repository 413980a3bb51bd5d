"""From steps of machine code, which families give as data, to a call: memory, addresses, and the table of the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.devices.slow import InPython, left_open
from anydml.kernels.call.address import address_of
from anydml.kernels.call.steps import Sheet, prepared, runner
from anydml.kernels.code import engine
from anydml.kernels.kernel import Arrays, Built, Execute, Form, Lowered, Placed, Unfit

Settling = Callable[[NDArray[np.int64], Arrays], Callable[[Callable[[], int]], None]]
LINE = 64
KEPT = 1 << 14  # bytes of scratch that are kept for the next call
NOTHING = np.zeros(0, np.int64)


def link(lowered: Lowered, slow: InPython | None = None) -> Built:
    """The call for any arrays. Uncompilable where the code that runs the steps cannot be made. slow: what Python decides."""
    slow = slow or left_open("A kernel", "it")
    engine.compiled(runner, lowered.target)
    target, scratch, passing = lowered.target, lowered.scratch, lowered.passing
    sheets = [Sheet(rounds.phases, rounds.moved) for rounds in lowered.rounds]
    # NumPy's copies have no constants, and no address is 0
    fixed = {} if lowered.constants is None else {"constants": address_of(lowered.constants)}
    single = len(sheets) == 1 and not lowered.rounds[0].times
    cut = len(sheets) > 1 or lowered.interruptible
    status = lowered.fails or lowered.decide is not None

    def worked_in(arrays: Arrays) -> tuple[dict[str, int], NDArray[np.int64], Arrays]:
        """The addresses of our own memory, the scratch, and the arrays with what passes through it."""
        own, words = {**fixed}, NOTHING
        if scratch:
            memory, own["scratch"] = _given(arrays.get("scratch"), scratch)
            words = memory[: scratch // 8 * 8].view(np.int64)
        if passing:
            memory, own["passing"] = _given(arrays.get("passing"), passing)
            arrays = {**arrays, "passing": memory}
        return own, words, arrays

    def settling(words: NDArray[np.int64], arrays: Arrays) -> Callable[[Callable[[], int]], None]:
        """A function that decides what a call left undecided, and runs it again until nothing is left."""
        assert lowered.decide is not None
        return partial(slow.settle, partial(lowered.decide, words, arrays), once=lowered.once)

    def place(arrays: Arrays) -> Placed:
        own, words, arrays = worked_in(arrays)
        every = [sheet.bind(_addresses(sheet, arrays, own))[0] for sheet in sheets]
        decide = None if lowered.decide is None else settling(words, arrays)
        again = sum(map(len, every[:-1]))
        phases = [phase for phases in every for phase in phases]
        return Placed(phases, target, lowered.short, again, decide, words, (lowered, arrays, words))

    def bind(arrays: Arrays) -> Execute:
        own, words, arrays = worked_in(arrays)
        keep = (lowered, arrays, words)
        runs = []
        for sheet, rounds in zip(sheets, lowered.rounds, strict=True):
            phases, numbers = sheet.bind(_addresses(sheet, arrays, own))
            run = prepared(phases, target, keep, keeps_gil=lowered.short, interruptible=cut, status=status)
            runs.append(_again(run, numbers, rounds.times, sheet.moves) if rounds.times else run)
        if lowered.decide is not None:
            *before, run = runs
            decided = _decided(run, settling(words, arrays), words)
            return partial(_in_turn, [*before, decided]) if before else decided
        if single and not lowered.fails:
            return runs[0]

        def execute() -> None:
            for run in runs:
                if run():
                    raise Unfit

        return execute

    alone = single and not lowered.fails and [len(phase) for phase in lowered.rounds[0].phases] == [1]
    tabled = None if any(rounds.times for rounds in lowered.rounds) else place
    if not lowered.packing:
        direct = partial(Direct, lowered, settling, sheets[0], fixed) if alone and sheets[0].fixed else None
        made = Built(bind, scratch, judges=lowered.judges, bare=alone and not (scratch or passing), direct=direct)
        return made._replace(rounds=lowered.rounds, passing=passing, place=tabled, counted=slow.counted)
    packing = Sheet([[lowered.packing]])

    def initialize(arrays: Arrays) -> Arrays:
        (memory, packed), (spare, start) = _aligned(lowered.packed), _aligned(lowered.spare)
        phases, _ = packing.bind(_addresses(packing, arrays, {**fixed, "packed": packed, "spare": start}))
        prepared(phases, target, (arrays, memory, spare))()
        return {"packed": memory[packed - address_of(memory) :]}

    kept = lowered.packed, lowered.spare
    made = Built(bind, scratch, initialize, *kept, judges=lowered.judges)
    return made._replace(rounds=lowered.rounds, passing=passing, place=tabled, counted=slow.counted)


class Direct:
    """A call of one piece on any arrays that lie as its tensors do: its tables and its scratch are kept for the next.

    names: the tensors, in the order in which arrays are given; forms: the shape and type of each, which an array may be
    short of where sizes broadcast.
    """

    def __init__(
        self,
        lowered: Lowered,
        settling: Settling,
        sheet: Sheet,
        fixed: dict[str, int],
        names: Sequence[str],
        forms: Mapping[str, Form],
    ) -> None:
        self._lowered, self._settling, self._sheet, self._fixed = lowered, settling, sheet, fixed
        self._uses = [(k, place, offset) for k, name in enumerate(names) for place, offset in sheet.uses(name)]
        self._names, self._forms = names, forms
        self._kept: list[tuple[Callable[[], int], NDArray[np.int64], NDArray[np.int64] | None]] = []

    def __call__(self, arrays: Sequence[NDArray[Any]]) -> None:
        try:
            made = self._kept.pop()  # no two threads get the same
        except IndexError:
            made = self._made()
        run, numbers, scratch = made
        for k, place, offset in self._uses:
            numbers[place] = address_of(arrays[k]) + offset
        if run() and scratch is not None:
            # what fails in the middle is not kept
            self._settling(scratch, self._tensors(arrays))(run)
            scratch[...] = 0
        if self._lowered.scratch + self._lowered.passing <= KEPT:
            self._kept.append(made)

    def _tensors(self, arrays: Sequence[NDArray[Any]]) -> Arrays:
        """The arrays as the tensors that they stand for."""
        found = {}
        for name, array in zip(self._names, arrays, strict=True):
            if name:
                sizes, dtype = self._forms[name]
                view = array.view(dtype)
                found[name] = view.reshape(sizes) if array.size == prod(sizes) else np.broadcast_to(view, sizes)
        return found

    def _made(self) -> tuple[Callable[[], int], NDArray[np.int64], NDArray[np.int64] | None]:
        lowered, sheet = self._lowered, self._sheet
        own, memory, words = {**self._fixed}, list[NDArray[np.uint8]](), None
        if lowered.scratch:
            scratch, own["scratch"] = _given(None, lowered.scratch)
            memory.append(scratch)
            words = scratch.view(np.int64)
        if lowered.passing:
            passing, own["passing"] = _given(None, lowered.passing)
            memory.append(passing)
        phases, numbers = sheet.bind([own.get(base, 0) for base in sheet.bases])
        open_ = lowered.decide is not None
        run = prepared(phases, lowered.target, (lowered, memory), keeps_gil=lowered.short, status=open_)
        return run, numbers, words if open_ else None


def _decided(run: Callable[[], int], decide: Callable[[Callable[[], int]], None], scratch: NDArray[np.int64]) -> Execute:
    """A call that is taken up again, once what it left open is decided, until nothing is left."""

    def execute() -> None:
        try:
            if run():
                decide(run)
                scratch[...] = 0
        except BaseException:  # an interrupt may come anywhere, and the next call begins anew
            scratch[...] = 0
            raise

    return execute


def _in_turn(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()


def _aligned(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """Zeroed memory, and the address in it from which on there are so many bytes at a cache line's start."""
    memory = np.zeros(nbytes + LINE, np.uint8)
    return memory, _line_in(memory)


def _given(memory: NDArray[np.uint8] | None, nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """So many bytes from a cache line's start on, in memory that is given or taken, and their address."""
    memory, start = _aligned(nbytes) if memory is None else (memory, _line_in(memory))
    return memory[start - address_of(memory) :][:nbytes], start


def _line_in(memory: NDArray[np.uint8]) -> int:
    address = address_of(memory)
    return address + -address % LINE


def _addresses(sheet: Sheet, arrays: Arrays, own: dict[str, int]) -> list[int]:
    return [own[base] if base in own else address_of(arrays[base]) for base in sheet.bases]


def _again(
    run: Callable[[], int], numbers: NDArray[np.int64], times: tuple[int, ...], moves: list[NDArray[np.int64]]
) -> Callable[[], int]:
    """The call in every place that its numbers move to, up to the first status that is not 0."""
    first = numbers.copy()

    def again() -> int:
        for place in np.ndindex(*times):
            np.copyto(numbers, first)
            for i, move in zip(place, moves, strict=True):
                np.add(numbers, i * move, out=numbers)
            if status := run():
                return status
        return 0

    return again
