"""The kernel of running sums and products of lines with any strides: groups of lines, one after another.

A group of lines that leaves an element undecided ends the call. When the call is resumed, it skips the groups that are done.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import along, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.irregular.loops import walk
from anydml.kernels.scan.group import ScanKey, called, finished, group, lefts
from anydml.kernels.undecided.lists import UndecidedList
from anydml.kernels.undecided.state import COUNT, OWN

# The state's row is the item to continue with, its place the line of this item, and its count the lines of a group of which
# some are undecided. Further words: a mask of these, the turn, and the group's first line and first element of lines.
MASK, TURN, LINE, FIRST_ROW = range(OWN, OWN + 4)
# begun: the sums before the first row that is kept, of the undecided lines; kept: their elements, row by row
FIRST = Signature("*state *begun *kept *source *target n source_step target_step")
STRIDED = FIRST + Signature("lines source_line target_line")


def lanes_of(target: Target) -> int:
    """The number of lines that are computed together."""
    return target.vector_bytes // 4


class Resumed:
    """The items of a call, numbered in order. Those before the item to continue with are done."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self._number, self._turn = body.op("alloca i64, align 8"), body.op("alloca i64, align 8")
        body.do(f"store i64 0, ptr {self._number}, align 8")
        body.do(f"store i64 -1, ptr {self._turn}, align 8")
        self.list = UndecidedList(body)
        self._begun, self._from = self.list.begun(), self.list.place()

    def turn(self) -> None:
        """Count a turn of the loops around the lines."""
        self._increased(self._turn)

    def item(self, compute: Callable[[], None]) -> None:
        """Compute the next item, unless it is done."""
        now = self.body.op(f"load i64, ptr {self._number}, align 8")
        self._increased(self._number)
        when(self.body, self.body.op(f"icmp uge i64 {now}, {self._begun}"), compute)

    def lines(self, compute: Callable[[str], None]) -> None:
        """Compute the next item, beginning with its first line that is not done."""
        body = self.body

        def some() -> None:
            now = body.op(f"load i64, ptr {self._number}, align 8")  # this item is already counted
            here = body.op(f"icmp eq i64 {now}, {body.op(f'add i64 {self._begun}, 1')}")
            compute(body.op(f"select i1 {here}, i64 {self._from}, i64 0"))

        self.item(some)

    def stop_if(self, mask: str, count: str, line: str, row: str, further: str | None = None) -> None:
        """End the call if lines are undecided. further: the line of the item to continue with, None if the item is done."""
        body = self.body

        def stop() -> None:
            number = body.op(f"load i64, ptr {self._number}, align 8")
            turn = body.op(f"load i64, ptr {self._turn}, align 8")
            for word, value in {COUNT: count, MASK: mask, TURN: turn, LINE: line, FIRST_ROW: row}.items():
                body.store("i64", value, "%state", 8 * word)
            self.list.stop(number if further is None else body.op(f"sub i64 {number}, 1"), further or "0")

        when(body, body.op(f"icmp ne i64 {mask}, 0"), stop)

    def end(self) -> None:
        """The end of the kernel."""
        self.list.end(self._begun)

    def _increased(self, place: str) -> None:
        more = self.body.op(f"add i64 {self.body.op(f'load i64, ptr {place}, align 8')}, 1")
        self.body.do(f"store i64 {more}, ptr {place}, align 8")


def emitted(target: Target, key: ScanKey) -> str:
    """The kernel. Arguments: STRIDED, loops of (source, target) around the lines."""
    body = Body(target)
    STRIDED.load(body)
    items = Resumed(body)
    groups = [group(target, key, lanes) for lanes in (lanes_of(target), 1)]

    def line(at: list[str], count: str, strides: list[str]) -> None:
        """The innermost loop, which has one turn: the dimension of the lines."""
        items.turn()

        def step(lanes: int) -> Callable[[str, list[Value]], list[Value]]:
            def compute(i: str, _: list[Value]) -> list[Value]:
                places = [along(body, place, f"%{side}_line", i) for side, place in zip(("source", "target"), at, strict=True)]

                def run() -> None:
                    if key.floating:
                        body.stored(body.constant(Kind("double", lanes), -0.0), "%begun")
                        body.stored(body.constant(Kind("double", lanes), 0.0), "%begun", lefts(target))
                    numbers = (key.size * lanes, 0, "%n", "%source_step", "%target_step", "%source_line", "%target_line")
                    mask = called(body, lanes, ("%begun", "%kept", *places), numbers)
                    items.stop_if(mask, str(lanes), i, "0")

                items.item(run)
                return []

            return compute

        lanes = lanes_of(target)
        done, _ = body.loop("0", "%lines", lanes, [], step(lanes))
        body.loop(done, "%lines", 1, [], step(1))

    walk(body, body.at("%arguments", STRIDED.end), ["%source", "%target"], line)
    items.end()
    return finished(body, groups)
