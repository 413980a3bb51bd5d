"""The call of a lowered statement, made from the steps that a family gives as data: its memory, addresses and step table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.devices.slow import InPython, left_undecided
from anydml.devices.spare import Spare
from anydml.kernels.call.address import address_of
from anydml.kernels.call.placing import Placing, placing
from anydml.kernels.call.steps import Sheet, prepared, runner
from anydml.kernels.code import engine
from anydml.kernels.kernel import Arrays, Built, Direct, Execute, Lowered, Placed, Unfit, Views

Settling = Callable[[NDArray[np.int64], Arrays], Callable[[Callable[[], int]], None]]
LINE = 64
LARGE = 1 << 24  # the most bytes of scratch that an eager call keeps for the next one
NOTHING = np.zeros(0, np.int64)


def link(lowered: Lowered, slow: InPython | None = None) -> Built:
    """The call for any arrays. Uncompilable if the code that runs the steps cannot be compiled.

    slow: decides undecided elements in Python, and warns if this takes long.
    """
    slow = slow or left_undecided("A kernel", "it")
    engine.compiled(runner, lowered.target)
    target, scratch, passing = lowered.target, lowered.scratch, lowered.passing
    sheets = [Sheet(rounds.phases, rounds.moved) for rounds in lowered.rounds]
    # a kernel without constants has no such address, rather than 0
    fixed = {} if lowered.constants is None else {"constants": address_of(lowered.constants)}
    fixed |= {name: address_of(array) for name, array in lowered.own.items()}
    single = len(sheets) == 1 and not lowered.rounds[0].times
    cut = len(sheets) > 1 or lowered.interruptible
    status = lowered.fails or lowered.decide is not None

    def worked_in(arrays: Arrays) -> tuple[dict[str, int], NDArray[np.int64], Arrays]:
        """The addresses of the kernel's own memory, the scratch as words, and the arrays with the memory "passing"."""
        own, words = {**fixed}, NOTHING
        if scratch:
            memory, own["scratch"] = _given(arrays.get("scratch"), scratch)
            words = memory[: scratch // 8 * 8].view(np.int64)
        if passing:
            memory, own["passing"] = _given(arrays.get("passing"), passing)
            arrays = {**arrays, "passing": memory}
        return own, words, arrays

    def settling(words: NDArray[np.int64], arrays: Arrays) -> Callable[[Callable[[], int]], None]:
        """A function that takes a call, decides its undecided elements and repeats it, until none are left."""
        assert lowered.decide is not None
        arrays = {**lowered.own, **arrays} if lowered.own else arrays
        return partial(slow.settle, partial(lowered.decide, words, arrays), once=lowered.once)

    def tables() -> Tables:
        own, words, arrays = worked_in({})
        runs, numbers = [], []
        for sheet in sheets:
            phases, found = sheet.bind([own.get(base, 0) for base in sheet.bases])
            keep = (lowered, arrays, words)
            runs.append(prepared(phases, target, keep, keeps_gil=lowered.short, interruptible=cut, status=status))
            numbers.append(memoryview(found.data))
        return Tables(runs[:-1], runs[-1], numbers, words, arrays, [])

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

    brought = sum(array.nbytes for array in lowered.own.values())
    alone = single and not lowered.fails and [len(phase) for phase in lowered.rounds[0].phases] == [1]
    repeated = any(rounds.times for rounds in lowered.rounds)
    tabled = None if repeated else place
    if not lowered.packing:
        direct = None if repeated else partial(_direct, lowered, settling, sheets, tables)
        bare = alone and not (scratch or passing)
        made = Built(bind, scratch, None, brought, judges=lowered.judges, bare=bare, direct=direct)
        return made._replace(rounds=lowered.rounds, passing=passing, place=tabled, counted=slow.counted)
    packing = Sheet([[lowered.packing]])

    def initialize(arrays: Arrays) -> Arrays:
        (memory, packed), (spare, start) = _aligned(lowered.packed), _aligned(lowered.spare)
        phases, _ = packing.bind(_addresses(packing, arrays, {**fixed, "packed": packed, "spare": start}))
        prepared(phases, target, (arrays, memory, spare))()
        return {"packed": memory[packed - address_of(memory) :]}

    kept = lowered.packed + brought, lowered.spare
    made = Built(bind, scratch, initialize, *kept, judges=lowered.judges)
    return made._replace(rounds=lowered.rounds, passing=passing, place=tabled, counted=slow.counted)


class Tables(NamedTuple):
    """The step tables and the scratch of a call. numbers: the words of each table. words: the scratch, as 64-bit words.

    places: for each table, the call that puts the addresses of arrays there.
    """

    before: Sequence[Callable[[], int]]
    last_run: Callable[[], int]
    numbers: Sequence[memoryview]
    words: NDArray[np.int64]
    passing: Arrays
    places: list[Placing]


def _direct(
    lowered: Lowered,
    settling: Settling,
    sheets: Sequence[Sheet],
    make: Callable[[], Tables],
    names: Sequence[str],
    views: Views,
) -> Direct:
    """A call on any arrays with the layouts of its tensors. Its tables and its scratch are made once and used again.

    names: the tensors, in the order in which arrays are given; "" for an array that is no tensor. views: returns the arrays by
    tensor, in the tensors' layouts.
    """
    each = [[(k, places) for k, name in enumerate(names) if name and (places := sheet.uses(name))] for sheet in sheets]
    choosing = [k for k, sheet in enumerate(sheets) if sheet.chooses]
    several, nbytes, decides = len(sheets) > 1, lowered.scratch + lowered.passing, lowered.decide is not None
    keeps, spare = nbytes <= LARGE, Spare(nbytes)

    def prepare(made: Tables, arrays: tuple[NDArray[Any], ...]) -> None:
        for put, table, _ in made.places[:-1]:
            put(arrays, table)
        for k in choosing:
            sheets[k].choose(made.numbers[k])
        for run in made.before:
            if run() and not decides:
                raise Unfit

    def call(arrays: Sequence[NDArray[Any]]) -> None:
        try:
            made: Tables | None = spare.pop()
        except IndexError:
            made = None
        if made is None:
            made = make()
            made.places.extend(map(partial(placing, lowered.target), made.numbers, each))
        _, run, _, words, passing, places = made
        arrays = tuple(arrays)
        put, table, _ = places[-1]
        put(arrays, table)
        if several or choosing:
            prepare(made, arrays)
        if run():  # if an error is raised from here on, the tables and the scratch are not used again
            if not decides:
                raise Unfit
            settling(words, {**views(arrays), **passing})(run)
            words[...] = 0
        if keeps:
            spare.give(made)

    return call


def _decided(run: Callable[[], int], decide: Callable[[Callable[[], int]], None], scratch: NDArray[np.int64]) -> Execute:
    """A call that is repeated after its undecided elements are decided, until none are left."""

    def execute() -> None:
        try:
            if run():
                decide(run)
                scratch[...] = 0
        except BaseException:  # an interrupt may come anywhere; the next call must start from clean state
            scratch[...] = 0
            raise

    return execute


def _in_turn(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()


def _aligned(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """Zeroed memory, and the address in it where `nbytes` bytes begin at a cache line."""
    memory = np.zeros(nbytes + LINE, np.uint8)
    return memory, _line_in(memory)


def _given(memory: NDArray[np.uint8] | None, nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """The `nbytes` bytes that begin at a cache line, in the given memory or in new memory, and their address."""
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
    """A call repeated at each index of `times`, with its addresses advanced by `moves`, until a status is not 0."""
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
