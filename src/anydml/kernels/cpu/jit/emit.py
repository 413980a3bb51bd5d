"""What emitters write with: lines of LLVM IR with fresh names, and the few operations that every kernel needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Text:
    """The body of a function under construction."""

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

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def at(self, pointer: str, offset: int | str) -> str:
        """A pointer so many bytes further on."""
        return pointer if offset == 0 else self.op(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def load(self, kind: str, pointer: str, offset: int | str = 0) -> str:
        return self.op(f"load {kind}, ptr {self.at(pointer, offset)}, align 1")

    def store(self, kind: str, value: str, pointer: str, offset: int | str = 0, *, stream: int = 0) -> None:
        """`stream`: the alignment of a store that goes past the cache."""
        how = f"align {stream}, !nontemporal !0" if stream else "align 1"
        self.do(f"store {kind} {value}, ptr {self.at(pointer, offset)}, {how}")


def shuffle(text: Text, first: str, second: str, kind: str, indices: Iterable[int]) -> str:
    """A permutation of the elements of two vectors `<n x t>`; index -1 is any element."""
    chosen = list(indices)
    mask = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in chosen)
    return text.op(f"shufflevector {kind} {first}, {kind} {second}, <{len(chosen)} x i32> <{mask}>")


def module(functions: Sequence[str]) -> str:
    return "\n".join(functions) + "\n!0 = !{i32 1}\n"
