"""The vocabulary of emitters: lines of LLVM IR with fresh names, and the few operations that every kernel needs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence


class Text:
    """The body of a function that is being emitted."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def op(self, instruction: str) -> str:
        """An instruction whose value gets a fresh name, which is returned."""
        value = "%" + self.name("v")
        self.lines.append(f"  {value} = {instruction}")
        return value

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: str, then: str, otherwise: str, *, seldom: bool = False) -> None:
        """Branch on a condition. seldom: it rarely holds, so the branch may cost more then."""
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}{', !prof !1' if seldom else ''}")

    def at(self, pointer: str, offset: int | str) -> str:
        """The pointer plus an offset in bytes."""
        return pointer if offset == 0 else self.op(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def load(self, kind: str, pointer: str, offset: int | str = 0) -> str:
        return self.op(f"load {kind}, ptr {self.at(pointer, offset)}, align 1")

    def store(self, kind: str, value: str, pointer: str, offset: int | str = 0, *, stream: int = 0) -> None:
        """Store a value. stream: the alignment of a non-temporal store; 0 for an ordinary store."""
        how = f"align {stream}, !nontemporal !0" if stream else "align 1"
        self.do(f"store {kind} {value}, ptr {self.at(pointer, offset)}, {how}")


def shuffle(text: Text, first: str, second: str, kind: str, indices: Iterable[int]) -> str:
    """A permutation of the elements of two vectors `<n x t>`; index -1 is any element."""
    chosen = list(indices)
    mask = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in chosen)
    return text.op(f"shufflevector {kind} {first}, {kind} {second}, <{len(chosen)} x i32> <{mask}>")


def splat(text: Text, value: str, vector: str) -> str:
    """A scalar in every lane of a vector `<n x t>`."""
    count, element = vector[1:-1].split(" x ")
    first = text.op(f"insertelement {vector} poison, {element} {value}, i32 0")
    return text.op(f"shufflevector {vector} {first}, {vector} poison, <{count} x i32> zeroinitializer")


def real(value: float) -> str:
    """A float constant. In a float32 operation it must be a float32 number."""
    return "0x" + struct.pack(">d", value).hex().upper()


def fold(
    text: Text,
    start: str,
    end: str,
    step: int,
    carried: Sequence[tuple[str, str]],
    body: Callable[[str, list[str]], list[str]],
) -> tuple[str, list[str]]:
    """A loop: `body(i, values) -> values` for i = start, start + step .. while i + step <= end (unsigned).

    carried: type and first value of each. Returns the i at which it ended and the last values.
    """
    before, head, inside, latch, done = (text.name(x) for x in ("before", "head", "inside", "latch", "done"))
    limit = text.op(f"sub i64 {end}, {step}") if step > 1 else end
    enough = text.op(f"icmp uge i64 {end}, {step}") if step > 1 else None
    text.jump(before)
    text.label(before)
    text.jump(head)
    text.label(head)
    i, j = f"%{text.name('i')}", f"%{text.name('j')}"
    text.do(f"{i} = phi i64 [ {start}, %{before} ], [ {j}, %{latch} ]")
    old = [f"%{text.name('o')}" for _ in carried]
    new = [f"%{text.name('n')}" for _ in carried]
    for (kind, first), x, y in zip(carried, old, new, strict=True):
        text.do(f"{x} = phi {kind} [ {first}, %{before} ], [ {y}, %{latch} ]")
    more = text.op(f"icmp ule i64 {i}, {limit}" if enough else f"icmp ult i64 {i}, {limit}")
    text.branch(text.op(f"and i1 {more}, {enough}") if enough else more, inside, done)
    text.label(inside)
    values = body(i, old)
    text.jump(latch)
    text.label(latch)
    for (kind, _), x, y in zip(carried, new, values, strict=True):
        text.do(f"{x} = bitcast {kind} {y} to {kind}")
    text.do(f"{j} = add i64 {i}, {step}")
    text.jump(head)
    text.label(done)
    return i, old


def when(text: Text, condition: str, body: Callable[[], None]) -> None:
    """Run `body` if the condition holds."""
    yes, after = text.name("yes"), text.name("after")
    text.branch(condition, yes, after)
    text.label(yes)
    body()
    text.jump(after)
    text.label(after)


def arguments(text: Text, names: Sequence[str], pointers: Iterable[str]) -> None:
    """The int64 arguments of a kernel by name: `%name`, a pointer or a number."""
    for i, name in enumerate(names):
        text.do(f"%{name} = load {'ptr' if name in pointers else 'i64'}, ptr {text.at('%arguments', 8 * i)}, align 8")


def along(text: Text, base: str, stride: str, i: str) -> str:
    """The address of element i, with elements `stride` bytes apart."""
    return text.at(base, text.op(f"mul i64 {i}, {stride}"))


def extend(text: Text, value: str, signed: bool, kind: str = "i8", wide: str = "i32") -> str:
    """An integer, or a vector of integers, extended to more bits."""
    return text.op(f"{'s' if signed else 'z'}ext {kind} {value} to {wide}")


def kernel(text: Text, others: Sequence[str] = ()) -> str:
    """The module of the function `i64 kernel(ptr arguments)` with the body written so far; others: what it calls."""
    return module([*others, "define i64 @kernel(ptr %arguments) {", "entry:", *text.lines, "}"])


def module(functions: Sequence[str]) -> str:
    return (
        "\n".join(functions)
        + """
!0 = !{i32 1}
!1 = !{!"branch_weights", i32 1, i32 2000}
"""
    )
