"""Groups of work items: the values of all of them, merged in memory that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anydml.kernels.code.opencl import LOCAL
from anydml.kernels.code.values import Body, Kind, Value

Merged = Callable[[list[Value], list[Value]], list[Value]]


def together(body: Body, own: Value, group: int, values: Sequence[Value], merged: Merged) -> list[Value]:
    """The merged values, in each work item. own: its number in the group. There are barriers: no branch may be around."""
    memory = body.op(f"call {LOCAL} @local_memory(i32 {8 * group * len(values)})")
    mine = body.op(f"getelementptr i8, {LOCAL} {memory}, i64 {(own * 8).name}")

    def place(k: int, off: int, base: str) -> str:
        return body.op(f"getelementptr i8, {LOCAL} {base}, i64 {8 * (group * k + off)}")

    def store(made: Sequence[Value]) -> None:
        for k, v in enumerate(made):
            word = v.converted("zext", Kind("i8")) if v.kind.element == "i1" else v
            body.do(f"store {word.kind.text} {word.name}, {LOCAL} {place(k, 0, mine)}, align 1")

    def load(off: int, base: str) -> list[Value]:
        found = []
        for k, v in enumerate(values):
            kind = Kind("i8") if v.kind.element == "i1" else v.kind
            word = body.value(f"load {kind.text}, {LOCAL} {place(k, off, base)}, align 1", kind)
            found.append(word.compared("ne", 0) if v.kind.element == "i1" else word)
        return found

    store(values)
    body.do("call void @barrier()")
    half = group // 2
    while half:
        yes, after = body.name("merge"), body.name("merged")
        body.branch(own.compared("ult", half).name, yes, after)
        body.label(yes)
        store(merged(load(0, mine), load(half, mine)))
        body.jump(after)
        body.label(after)
        body.do("call void @barrier()")
        half //= 2
    return load(0, memory)


class GroupSharing:
    """The terms of a sum, dealt to the work items of a group in turn."""

    def __init__(self, body: Body, own: Value, group: int) -> None:
        self.body, self.own, self.group = body, own, group

    def turns(self, count: Value) -> Value:
        left = self.body.chosen(self.own.compared("ult", count), count - self.own + (self.group - 1), 0)
        return self.body.value(f"udiv i64 {left.name}, {self.group}", count.kind)

    def at(self, turn: Value) -> Value:
        return self.own + turn * self.group

    def joined(self, carried: list[Value], merged: Merged) -> list[Value]:
        return together(self.body, self.own, self.group, carried, merged)
