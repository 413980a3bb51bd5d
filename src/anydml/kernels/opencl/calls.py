"""Calls of kernels on memory of a device: launches in pieces, lists of undecided elements, and their last decision."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.code import opencl
from anydml.kernels.code.opencl import Argument
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.kernel import DeviceMemory
from anydml.kernels.opencl.platform import GROUP, LONG, UNITS, Opened

WORD, INT = Kind("i64"), Kind("i32")
ROOM = 1 << 17  # most elements on a list
BEFOREHAND = 1 << 12  # elements from which on the second stage is enqueued before it is known whether it has work
STEPS = 8  # entries of a full list that a work item of the second stage decides
RANGE = [Argument("i64", "first"), Argument("i64", "past")]
LISTED = [Argument("ptr", "list"), Argument("ptr", "counts"), Argument("i64", "slot"), Argument("i32", "room")]
KEPT = [Argument("ptr", "kept")]

Arrays = Callable[[str], NDArray[Any]]  # the elements of a tensor, as an array in its layout
Decide = Callable[[NDArray[np.int64], Arrays], NDArray[Any]]  # the elements of a list's entries


class Workspace:
    """The memory that all calls of a bound operator or graph use in turn: two lists, two counts for each call, and scratch.

    A call's counts are the numbers of elements that its first stage and its second one listed.
    """

    def __init__(self, opened: Opened) -> None:
        self.opened, self.words, self.calls = opened, 0, 0
        self._dirty = True  # whether a count may not be 0
        self._made: tuple[Any, Any, Any] | None = None
        self._scratch_bytes, self._scratch = 0, None

    def needs(self, nbytes: int) -> None:
        """Note the scratch that a call uses."""
        self._scratch_bytes = max(self._scratch_bytes, nbytes)

    @property
    def scratch(self) -> Any:
        """Scratch for the call that runs, allocated when all calls have been added."""
        if self._scratch is None:
            self._scratch = self.opened.allocate(self._scratch_bytes)
        return self._scratch

    def part(self, start: int, nbytes: int) -> Any:
        """A part of the scratch. start: a multiple of 4096 bytes."""
        return self.scratch.get_sub_region(start, nbytes)

    def call(self, words: int) -> int:
        """The number of one more call, with lists of so many words."""
        self.words = max(self.words, words)
        self.calls += 1
        return self.calls - 1

    @property
    def memory(self) -> tuple[Any, Any, Any]:
        """The counts and the two lists, allocated when all calls have been added."""
        if self._made is None:
            allocate = self.opened.allocate
            self._made = allocate(8 * self.calls), allocate(8 * self.words), allocate(8 * self.words)
        return self._made

    def clear(self) -> None:
        """Set all counts to 0 before the first call. They are unknown until they are read: the call may be interrupted."""
        if self._dirty and self.calls:
            self.opened.write(self.memory[0], np.zeros(2 * self.calls, np.int32))
        self._dirty = True

    def counts(self) -> NDArray[np.int32]:
        """All counts, a row for each call, after all commands so far."""
        found = np.zeros((self.calls, 2), np.int32)
        self.opened.read(self.memory[0], found)
        self._dirty = bool(found.any())
        return found

    def reset(self, call: int) -> None:
        """Set the counts of a call to 0."""
        self.opened.write(self.memory[0], np.zeros(2, np.int32), 8 * call)


class Layout(NamedTuple):
    """The elements of an output by number: sizes, strides in bytes, and bytes of an element; the last dimension fastest."""

    sizes: Sequence[int]
    strides: Sequence[int]
    itemsize: int

    def offsets(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bytes from the output's start to each element."""
        found = np.zeros(len(numbers), np.int64)
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            numbers, index = np.divmod(numbers, size)
            found += index * stride
        return found


class Stage(NamedTuple):
    """The text of a kernel named "kernel", and the first of its arguments."""

    text: str
    arguments: Sequence[Any]


class Listing(NamedTuple):
    """The elements that a kernel may list.

    width: the words of an entry; the first is an element's number. second: makes the second stage; None if there is none.
    decide: the last decision. layout: of the output. alone: whether the output overwrites an input, so that elements cannot
    be computed again. beforehand: whether the second stage may be enqueued before it is known how many elements there are.
    """

    width: int
    second: Callable[[], Stage | None]
    decide: Decide
    layout: Layout
    alone: bool
    beforehand: bool = True


class Ranged:
    """A kernel that computes numbered elements, each by a group of work items, or by one. Long work is waited for in pieces.

    place: of the two arguments that are the range of numbers, at first the whole one. units: of work for one number.
    """

    def __init__(self, opened: Opened, kernel: Any, place: int, size: int, units: int, group: int = 1) -> None:
        self._opened, self._kernel, self._place, self._group = opened, kernel, place, group
        self._units = max(1, units)
        self._chunk = max(GROUP, UNITS // self._units)
        self._range: tuple[int, int] | None = (0, size)  # of the next launch

    def compute(self, first: int, past: int) -> None:
        """Enqueue the numbers from the first one on."""
        opened, group = self._opened, self._group
        while first < past:
            end = min(past, first + self._chunk)
            if (first, end) != self._range:
                self._range = None  # an interrupt may come between these lines
                self._kernel.set_arg(self._place, np.int64(first))
                self._kernel.set_arg(self._place + 1, np.int64(end))
                self._range = first, end
            began = time.perf_counter()
            opened.launch(self._kernel, (end - first) * group, max(group, GROUP))
            if end == past:
                opened.paced((end - first) * self._units)
            else:
                opened.wait()
                if time.perf_counter() - began < LONG / 4:
                    self._chunk *= 2
            first = end


class Launch(NamedTuple):
    """A kernel of a program, whose last two arguments are a range of numbers. size: the numbers; units: of work for one."""

    program: str
    name: str
    arguments: Sequence[Any]
    size: int
    units: int = 1


class ExactCall:
    """Kernels that run one after another and leave no element undecided.

    begin: makes them, when all memory can be allocated. cleared: the bytes of scratch that are set to 0 before.
    """

    number = -1

    def __init__(self, workspace: Workspace, begin: Callable[[], Sequence[Launch]], cleared: int = 0) -> None:
        self._workspace, self._begin, self._cleared = workspace, begin, cleared
        self._made: list[tuple[Ranged, int]] | None = None

    def launch(self) -> None:
        """Enqueue the kernels. Long work is waited for in pieces."""
        opened = self._workspace.opened
        if self._made is None:
            self._launches = self._begin()  # a kernel's arguments do not keep their memory
            made = []
            for one in self._launches:
                kernel = opened.kernel(opened.program(one.program), one.name)
                kernel.set_args(*one.arguments, np.int64(0), np.int64(one.size))
                made.append((Ranged(opened, kernel, len(one.arguments), one.size, one.units), one.size))
            self._made = made
        if self._cleared:
            opened.clear(self._workspace.scratch, self._cleared)
        for ranged, size in self._made:
            ranged.compute(0, size)

    def is_open(self, counts: object) -> bool:
        return False

    def settle(self, arrays: Arrays) -> tuple[int, int]:
        return 0, 0


class ElementCall:
    """A kernel that computes numbered elements or rows, each in a work item, and what decides the elements that it lists.

    After the first stage's arguments, its kernel gets a range of numbers, and if it lists elements, a list. units: of work for
    one number. group: work items for each number. each: the elements of a number.
    """

    def __init__(
        self,
        opened: Opened,
        workspace: Workspace,
        first: Stage,
        size: int,
        units: int,
        output: DeviceMemory,
        listing: Listing | None = None,
        group: int = 1,
        each: int = 1,
    ) -> None:
        self.opened, self.workspace, self.size, self.output, self.listing = opened, workspace, size, output, listing
        self._first, self._group, self._units = first, group, units
        self._kernel: Ranged | None = None
        self._finer: Any = None
        self._beforehand = False  # whether the second stage is enqueued right behind the first
        self.room = min(size * each, max(ROOM, each))
        self._piece = self.room // each  # numbers whose elements always fit the list
        self.number = -1
        if listing is not None:
            self.number = workspace.call(self.room * listing.width)
            self._beforehand = listing.beforehand and size >= BEFOREHAND
        # in pieces, each of which is decided before the next one begins
        self._stops = listing is not None and listing.alone and size > self._piece

    def launch(self) -> None:
        """Enqueue the kernels. Long work is waited for in pieces."""
        if self._kernel is None:
            self._make()
        if not self._stops:
            self._compute(0, self.size)

    def is_open(self, counts: NDArray[np.int32]) -> bool:
        """Whether elements are still undecided, by the counts of all calls after they have ended."""
        if self._stops:
            return True
        first, second = counts[self.number]
        return bool(second or first > self.room if self._beforehand else first)

    def settle(self, arrays: Arrays) -> tuple[int, int]:
        """Decide all elements that are still undecided, after the call has ended and before another one begins.

        Returns how many elements the first stage left undecided, and how many of them the last decision took.
        """
        if not self._stops:
            first, second = self.workspace.counts()[self.number].tolist()
            if first <= self.room:
                return self._settle(first, second, arrays)
        listed = last = 0
        for begin in range(0, self.size, self._piece):
            self.workspace.reset(self.number)
            self._compute(begin, min(self.size, begin + self._piece))
            first, second = self.workspace.counts()[self.number].tolist()
            one, two = self._settle(first, second, arrays)
            listed, last = listed + one, last + two
        return listed, last

    def _make(self) -> None:
        opened = self.opened
        kernel = opened.kernel(opened.program(opencl.program([self._first.text])), "kernel_")
        arguments = [*self._first.arguments, np.int64(0), np.int64(self.size)]
        if self.listing is not None:
            counts, listed, _ = self.workspace.memory
            arguments += [listed, counts, np.int64(2 * self.number), np.int32(self.room)]
        kernel.set_args(*arguments)
        if self._beforehand:
            self._make_finer()
            self._beforehand = self._finer is not None
        self._kernel = Ranged(opened, kernel, len(self._first.arguments), self.size, self._units, self._group)

    def _make_finer(self) -> None:
        assert self.listing is not None
        if (stage := self.listing.second()) is not None:
            opened = self.opened
            counts, listed, kept = self.workspace.memory
            finer = opened.kernel(opened.program(opencl.program([stage.text])), "kernel_")
            finer.set_args(*stage.arguments, listed, counts, np.int64(2 * self.number), np.int32(self.room), kept)
            self._finer = finer

    def _compute(self, first: int, past: int) -> None:
        assert self._kernel is not None
        self._kernel.compute(first, past)
        if self._beforehand:
            self.opened.launch(self._finer, -(-self.room // STEPS))

    def _settle(self, first: int, second: int, arrays: Arrays) -> tuple[int, int]:
        if not first:
            return 0, 0
        if not self._beforehand:
            if self._finer is None:
                self._make_finer()
            if self._finer is not None:
                items = first * self._group if self._group > 1 else first
                self.opened.launch(self._finer, items, max(self._group, GROUP))
                second = int(self.workspace.counts()[self.number, 1])
        left = second if self._finer is not None else first
        if left:
            listing = self.listing
            assert listing is not None
            entries = np.empty((left, listing.width), np.int64)
            self.opened.read(self.workspace.memory[2 if self._finer is not None else 1], entries)
            offsets = listing.layout.offsets(entries[:, 0])
            store(self.opened, self.output, offsets, listing.decide(entries, arrays), listing.layout.itemsize)
        return first, left


def store(opened: Opened, to: DeviceMemory, offsets: NDArray[np.int64], elements: NDArray[Any], itemsize: int) -> None:
    """Store elements at offsets in bytes."""
    bits = np.ascontiguousarray(elements).view(f"u{itemsize}").astype(np.uint64)
    entries = np.stack([(offsets + to.offset).astype(np.uint64), bits], 1)
    memory = opened.allocate(entries.nbytes)
    opened.write(memory, entries)
    kernel = opened.kernel(opened.program(opencl.program([storing(itemsize)])), "kernel_")
    kernel.set_args(to.data, memory, np.int64(len(entries)))
    opened.launch(kernel, len(entries))


def unbound(arrays: object) -> Any:
    """`Built.bind` of kernels that are bound to a device's memory instead of arrays."""
    raise AssertionError("a device's kernel is bound to its memory")


# --- parts of kernels ---


def number(body: Body) -> Value:
    """The number of the work item's element, `first` plus the item's own; the kernel ends unless it is before `past`."""
    own = body.call("global_id", WORD)
    i = own + Value(body, "%first", WORD)
    body.branch(i.compared("ult", Value(body, "%past", WORD)).name, "inside", "end")
    body.label("inside")
    return i


def index_of(body: Body, i: Value, sizes: Sequence[str], *, narrow: bool) -> list[Value]:
    """The index of a numbered element in every dimension. sizes: of all but the first. narrow: numbers have 32 bits."""
    if not sizes:
        return [i]
    found, left = list[Value](), i.converted("trunc", INT) if narrow else i
    for size in reversed(sizes):
        n = Value(body, size, WORD)
        n = n.converted("trunc", INT) if narrow else n
        rest = body.value(f"udiv {left.kind.text} {left.name}, {n.name}", left.kind)
        found.insert(0, left - rest * n)
        left = rest
    return [x.converted("zext", WORD) for x in (left, *found)]


def note(body: Body, undecided: Value, words: Sequence[Value], memory: str = "%list", stage: int = 0) -> None:
    """Append an entry to a list if an element is undecided."""
    yes, listed, after = (body.name(stem) for stem in ("open", "listed", "after"))
    body.branch(undecided.name, yes, after, seldom=True)
    body.label(yes)
    counts = body.at("%counts", body.op("mul i64 %slot, 4"))
    slot = body.call("atomic_inc", INT, f"ptr {body.at(counts, 4 * stage)}")
    body.branch(slot.compared("ult", Value(body, "%room", INT)).name, listed, after)
    body.label(listed)
    at = _entry(body, memory, slot.converted("zext", WORD), len(words))
    for k, word in enumerate(words):
        body.store("i64", word.name, at, 8 * k)
    body.jump(after)
    body.label(after)


def end(body: Body) -> None:
    """The end of a kernel, to which work items without an element go."""
    body.jump("end")
    body.label("end")
    body.do("ret void")


def each_listed(body: Body, width: int, decide: Callable[[list[Value]], None]) -> None:
    """Code for the words of each entry of the list: a work item takes every so many entries."""
    counts = body.at("%counts", body.op("mul i64 %slot, 4"))
    listed = body.loaded(INT, counts)
    room = Value(body, "%room", INT)
    listed = body.chosen(listed.compared("ult", room), listed, room).converted("zext", WORD)
    first, step = body.call("global_id", WORD), body.call("global_size", WORD)
    left = body.chosen(first.compared("ult", listed), listed - first, 0)
    turns = body.op(f"udiv i64 {(left + step - 1).name}, {step.name}")

    def one(turn: str, carried: list[Value]) -> list[Value]:
        at = _entry(body, "%list", first + Value(body, turn, WORD) * step, width)
        decide([body.loaded(WORD, at, 8 * k) for k in range(width)])
        return carried

    body.loop("0", turns, 1, [], one)
    body.do("ret void")


def _entry(body: Body, memory: str, k: Value, width: int) -> str:
    return body.at(memory, (k * (8 * width)).name)


@lru_cache(maxsize=8)
def storing(itemsize: int) -> str:
    """A kernel that stores elements of so many bytes at offsets in a list."""
    body = Body(opencl.target())
    i = body.call("global_id", WORD)
    body.branch(i.compared("ult", Value(body, "%n", WORD)).name, "inside", "end")
    body.label("inside")
    entry = _entry(body, "%list", i, 2)
    offset, bits = body.loaded(WORD, entry), body.loaded(WORD, entry, 8)
    body.stored(bits.converted("trunc", Kind(f"i{8 * itemsize}")), body.at("%output", offset.name))
    end(body)
    arguments = [Argument("ptr", "output"), Argument("ptr", "list"), Argument("i64", "n")]
    return opencl.kernel("kernel_", arguments, body)
