"""The record of undecided elements: what callers and emitters make of a state, a list and a bitmap."""

from __future__ import annotations

import ctypes
import itertools
import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anydml.kernels.call.address import address_of
from anydml.kernels.call.signature import Signature
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.code.values import Body
from anydml.kernels.undecided.lists import UndecidedList, each_bit
from anydml.kernels.undecided.places import Numbering, in_order
from anydml.kernels.undecided.state import (
    COUNT,
    ENDED,
    PLACE,
    ROW,
    STATE_WORDS,
    UndecidedLists,
    in_phases,
    interleaved,
    state_and_list,
)
from every_kernel import Ran

needs_code = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")


def test_numbers_are_places(ran: Ran) -> None:
    rng, cases = random.Random(1), 0
    for _ in range(60):
        sizes = [rng.randrange(1, 5) for _ in range(rng.randrange(4))]
        start, steps = [rng.randrange(9) for _ in range(3)], [[rng.randrange(-3, 4) for _ in range(3)] for _ in sizes]
        found = Numbering(sizes, steps, start).at(np.arange(int(np.prod(sizes)), dtype=np.int64)).tolist()
        for place, index in zip(found, itertools.product(*map(range, sizes)), strict=True):
            assert place == [s + sum(i * step[d] for i, step in zip(index, steps, strict=True)) for d, s in enumerate(start)]
            cases += 1
    assert in_order((2, 3, 5), (2, 0, 1)).at(np.array([7])).tolist() == [[0, 1, 1]]
    ran(cases, 200)


def lists(starts: list[int], seen: list[Any]) -> UndecidedLists:
    def resolve(k: int, entries: NDArray[np.int64], scratch: object, arrays: object) -> None:
        seen.append((k, entries.tolist()))

    return UndecidedLists(starts, 2, resolve)


def test_lists_are_decided_and_emptied() -> None:
    size, seen = state_and_list(8), list[Any]()
    scratch = np.zeros(4 * size, np.int64)
    scratch[size + ROW], scratch[size + COUNT] = 5, 2
    scratch[size + STATE_WORDS :][:4] = 5, 1, 5, 3
    scratch[2 * size + PLACE] = 7  # it goes on, and has nothing on its list
    scratch[3 * size + ROW] = ENDED
    found = lists([0, size, 2 * size, 3 * size], seen)
    assert found.begun(scratch)
    found.decide(scratch, {})
    assert seen == [(1, [[5, 1], [5, 3]])]
    assert scratch.reshape(4, -1)[:, : COUNT + 1].tolist() == [[ENDED, 0, 0], [5, 0, 0], [0, 7, 0], [ENDED, 0, 0]]


def test_phases_that_have_not_begun_stay_so() -> None:
    seen: list[Any] = []
    scratch = np.zeros(3 * 16, np.int64)
    scratch[16 + COUNT] = 1
    in_phases([lists([0], seen), lists([0], seen).moved(16), lists([32], seen)])(scratch, {})
    assert seen == [(0, [[0, 0]])]
    assert scratch[[ROW, 16 + ROW, 32 + ROW]].tolist() == [ENDED, 0, 0]


def test_a_piece_that_lists_nothing_has_ended_unless_pieces_take_turns() -> None:
    for turns in (False, True):
        scratch = np.zeros(STATE_WORDS + 2, np.int64)
        UndecidedLists([0], 2, lambda *_: None, turns=turns).decide(scratch, {})
        assert scratch[ROW] == (0 if turns else ENDED)


def test_all_lists_of_interleaved_pieces_are_decided() -> None:
    seen: list[Any] = []
    scratch = np.zeros(2 * (STATE_WORDS + 8), np.int64)
    scratch[[COUNT, 16 + COUNT]] = 1
    interleaved([lists([0], seen), lists([16], seen)])(scratch, {})
    assert len(seen) == 2


COUNTING = Signature("*state *list room")


def counting(target: Target) -> str:
    """Count three entries."""
    body = Body(target)
    COUNTING.load(body)
    for number in range(3):
        UndecidedList(body, 1).count_entry("%room", str(7 + number))
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


@needs_code
def test_entries_are_counted_beyond_the_room_of_a_list_and_not_stored_there() -> None:
    target = targets()[-1]
    scratch = np.zeros(STATE_WORDS + 8, np.int64)
    at = address_of(scratch)
    code = engine.compiled(counting, target)
    arguments = np.array([at, at + 8 * STATE_WORDS, 2], np.int64)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(arguments.ctypes.data)
    assert scratch[COUNT] == 3
    assert scratch[STATE_WORDS:].tolist() == [7, 8, 0, 0, 0, 0, 0, 0]


LISTING = Signature("*state *list room bits")


def listing(target: Target) -> str:
    """Append the bits that are set, two words each; then keep every other entry."""
    body = Body(target)
    LISTING.load(body)
    found = UndecidedList(body)
    begun = found.begun()
    each_bit(body, "%bits", lambda bit: found.append(bit, body.op(f"mul i64 {bit}, 10")))
    found.counted(found.sift("0", found.count(), lambda slot: body.op(f"and i64 {body.load('i64', slot)}, 1")))
    found.end(begun)
    return kernel(body, list(body.declared))


@needs_code
@pytest.mark.parametrize("bits", [0, 1, 0b1010_1001, 1 << 63 | 1 << 62, (1 << 64) - 1])
def test_kernels_append_and_keep_entries(bits: int) -> None:
    target = targets()[-1]
    scratch = np.zeros(STATE_WORDS + 2 * 64, np.int64)
    at = address_of(scratch)
    arguments = np.array([[at, at + 8 * STATE_WORDS, 64, np.uint64(bits).astype(np.int64)]], np.int64)
    status = prepared([table(engine.compiled(listing, target), arguments)], target, (scratch, arguments))()
    odd = [n for n in range(1, 64, 2) if bits >> n & 1]
    assert scratch[COUNT] == len(odd)
    assert status == bool(odd)
    assert scratch[ROW] == (ENDED if odd else 0)
    assert scratch[STATE_WORDS:][: 2 * len(odd)].reshape(-1, 2).tolist() == [[n, 10 * n] for n in odd]
