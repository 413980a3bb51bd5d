"""The state and the list of a kernel, as its code uses them, see `state`."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, fold, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.undecided.state import COUNT, ENDED, PLACE, ROW

WORD = Kind("i64")
COUNTERS = Signature("*table count *base")


class UndecidedList:
    """A list whose entries have so many words, and its state."""

    def __init__(self, body: Body, words: int = 2, state: str = "%state", first: str = "%list") -> None:
        """first: the address of the first entry."""
        self.body, self.words, self.state, self.first = body, words, state, first

    def begun(self) -> str:
        """The row at which the call begins."""
        return self.body.load("i64", self.state, 8 * ROW)

    def place(self) -> str:
        """The place in this row."""
        return self.body.load("i64", self.state, 8 * PLACE)

    def count(self) -> str:
        """The number of entries."""
        return self.body.load("i64", self.state, 8 * COUNT)

    def counted(self, count: str) -> None:
        """Let so many entries be on the list."""
        self.body.store("i64", count, self.state, 8 * COUNT)

    def stop(self, row: str, place: str = "0") -> None:
        """Stop. The next call goes on here."""
        body = self.body
        body.store("i64", row, self.state, 8 * ROW)
        body.store("i64", place, self.state, 8 * PLACE)
        body.do("ret i64 1")
        body.label(body.name("never"))

    def is_half_full(self, count: str | None = None) -> str:
        """Whether the list is more than half full, of a kernel with the argument `%room`."""
        half = self.body.op("lshr i64 %room, 1")
        return self.body.op(f"icmp ugt i64 {count or self.count()}, {half}")

    def end(self, begun: str, count: str | None = None) -> None:
        """End a call that began at a row, and return whether anything is on the list."""
        body = self.body
        pending = body.op(f"icmp ne i64 {count or self.count()}, 0")
        # a piece that has nothing left to do must not be begun again
        over = body.op(f"or i1 {pending}, {body.op(f'icmp eq i64 {begun}, {ENDED}')}")
        body.store("i64", body.op(f"select i1 {over}, i64 {ENDED}, i64 0"), self.state, 8 * ROW)
        body.store("i64", "0", self.state, 8 * PLACE)
        body.do(f"ret i64 {body.op(f'zext i1 {pending} to i64')}")

    def append(self, *entry: str, count: str | None = None) -> None:
        """Put an entry on the list, behind so many others."""
        body, count = self.body, count or self.count()
        slot = self.slot(count)
        for k, word in enumerate(entry):
            body.store("i64", word, slot, 8 * k)
        self.counted(body.op(f"add i64 {count}, 1"))

    def count_entry(self, room: str, *entry: str) -> None:
        """Count an entry, and put it on the list if it has room for it."""
        body, count = self.body, self.count()
        when(body, body.op(f"icmp ult i64 {count}, {room}"), lambda: self.append(*entry, count=count))
        self.counted(body.op(f"add i64 {count}, 1"))

    def slot(self, number: str) -> str:
        """The address of an entry."""
        return self.body.at(self.first, self.body.op(f"mul i64 {number}, {8 * self.words}"))

    def sift(self, first: str, count: str, stays: Callable[[str], str]) -> str:
        """Go through entries, and keep some of them, one behind the other. Returns where these end.

        stays: for the address of an entry, 1 if it stays undecided, else 0.
        """
        body = self.body

        def entry(e: str, kept: list[Value]) -> list[Value]:
            slot = self.slot(e)
            stay = stays(slot)
            self.kept(slot, kept[0].name)
            return [kept[0] + Value(body, stay, WORD)]

        return body.loop(first, count, 1, [Value(body, first, WORD)], entry)[1][0].name

    def kept(self, slot: str, behind: str) -> None:
        """Copy an entry to the place behind so many others. The next one that is copied there overwrites it."""
        body, to = self.body, self.slot(behind)
        for k in range(self.words):
            body.store("i64", body.load("i64", slot, 8 * k), to, 8 * k)


def each_bit(body: Body, bits: str, do: Callable[[str], None], *, seldom: bool = False) -> None:
    """Do something for the number of each bit that is set. seldom: whether bits are rarely set."""
    before, one, next_, after = (body.name(x) for x in ("before", "bit", "next", "after"))
    left, rest = f"%{body.name('l')}", f"%{body.name('r')}"
    body.jump(before)
    body.label(before)
    body.branch(body.op(f"icmp ne i64 {bits}, 0"), one, after, seldom=seldom)
    body.label(one)
    body.do(f"{left} = phi i64 [ {bits}, %{before} ], [ {rest}, %{next_} ]")
    do(body.call("llvm.cttz.i64", WORD, f"i64 {left}", "i1 true").name)
    body.do(f"{rest} = and i64 {left}, {body.op(f'sub i64 {left}, 1')}")
    body.jump(next_)
    body.label(next_)
    body.branch(body.op(f"icmp ne i64 {rest}, 0"), one, after)
    body.label(after)


def mark(body: Body, bits: str, number: str, count: str, offset: int = 0) -> None:
    """Set the bit of an element in a bitmap, and add 1 to the number of elements whose bits are set."""
    byte = body.at(bits, body.op(f"lshr i64 {number}, 3"))
    place = body.op(f"trunc i64 {body.op(f'and i64 {number}, 7')} to i8")
    bit = body.op(f"shl i8 1, {place}")
    body.op(f"atomicrmw or ptr {byte}, i8 {bit} monotonic")  # other threads set other bits of the byte
    body.store("i64", body.op(f"add i64 {body.load('i64', count, offset)}, 1"), count, offset)


def any_undecided(target: Target) -> str:
    """A kernel that returns 1 if a counter is not 0; arguments: COUNTERS, a table of their offsets from the base."""
    text = Text()
    COUNTERS.load(text)

    def one(i: str, found: list[str]) -> list[str]:
        at = text.load("i64", "%table", text.op(f"mul i64 {i}, 8"))
        return [text.op(f"or i64 {found[0]}, {text.load('i64', text.at('%base', at))}")]

    _, (found,) = fold(text, "0", "%count", 1, [("i64", "0")], one)
    some = text.op(f"icmp ne i64 {found}, 0")
    text.do(f"ret i64 {text.op(f'zext i1 {some} to i64')}")
    return kernel(text)
