"""Tile registers in memory: AMX's instructions as functions, for processors that lack them."""

from __future__ import annotations

import re
from collections.abc import Callable

from anydml.kernels.code.emit import Text, along, fold

# eight registers of 16 rows of 64 bytes, and the 64 bytes that configure them
MEMORY = ("@tiles = internal global [8192 x i8] zeroinitializer", "@shapes = internal global [64 x i8] zeroinitializer")
CALLS = re.compile(r"@llvm\.x86\.(ldtilecfg|tilerelease|tilezero|tileloadd64|tilestored64|tdpb(?:us|su|ss)d)\b")


def emulated(module: str) -> str:
    """A module in which functions of its own do what the instructions do."""
    if not CALLS.search(module):
        return module
    others = [line for line in module.splitlines() if not (line.startswith("declare") and CALLS.search(line))]
    return "\n".join([*MEMORY, *_functions(), CALLS.sub(r"@emulated_\1", "\n".join(others))])


def _functions() -> list[str]:
    return [
        *_function("ldtilecfg", "ptr %p", _configure),
        *_function("tilerelease", "", lambda text: None),
        *_function("tilezero", "i8 %t", _zero),
        *_function("tileloadd64", "i8 %t, ptr %p, i64 %stride", _load),
        *_function("tilestored64", "i8 %t, ptr %p, i64 %stride", _store),
        *_function("tdpbusd", "i8 %t, i8 %a, i8 %b", lambda text: _multiply(text, "zext", "sext")),
        *_function("tdpbsud", "i8 %t, i8 %a, i8 %b", lambda text: _multiply(text, "sext", "zext")),
        *_function("tdpbssd", "i8 %t, i8 %a, i8 %b", lambda text: _multiply(text, "sext", "sext")),
    ]


def _function(name: str, parameters: str, body: Callable[[Text], None]) -> list[str]:
    text = Text()
    body(text)
    text.do("ret void")
    return [f"define internal void @emulated_{name}({parameters}) {{", "entry:", *text.lines, "}"]


def _configure(text: Text) -> None:
    text.store("<64 x i8>", text.load("<64 x i8>", "%p"), "@shapes")
    text.store("<8192 x i8>", "zeroinitializer", "@tiles")


def _shape(text: Text, register: str) -> tuple[str, str, str]:
    """The memory of a register, its rows, and the bytes of a row."""
    number = text.op(f"zext i8 {register} to i64")
    rows = text.load("i8", text.at("@shapes", text.op(f"add i64 {number}, 48")))
    width = text.load("i16", text.at("@shapes", text.op(f"add i64 {text.op(f'mul i64 {number}, 2')}, 16")))
    memory = text.at("@tiles", text.op(f"mul i64 {number}, 1024"))
    return memory, text.op(f"zext i8 {rows} to i64"), text.op(f"zext i16 {width} to i64")


def _zero(text: Text) -> None:
    memory, *_ = _shape(text, "%t")
    text.store("<1024 x i8>", "zeroinitializer", memory)


def _moved(text: Text, place: Callable[[str, str], tuple[str, str]]) -> None:
    """Copy a register's bytes. place: the addresses of a byte, given its row and column: of the source, and of the copy."""
    _, rows, width = _shape(text, "%t")

    def row(m: str, _: list[str]) -> list[str]:
        def byte(i: str, _: list[str]) -> list[str]:
            source, into = place(m, i)
            text.store("i8", text.load("i8", source), into)
            return []

        fold(text, "0", width, 1, [], byte)
        return []

    fold(text, "0", rows, 1, [], row)


def _load(text: Text) -> None:
    _zero(text)
    memory, *_ = _shape(text, "%t")
    _moved(text, lambda m, i: (text.at(along(text, "%p", "%stride", m), i), text.at(along(text, memory, "64", m), i)))


def _store(text: Text) -> None:
    memory, *_ = _shape(text, "%t")
    _moved(text, lambda m, i: (text.at(along(text, memory, "64", m), i), text.at(along(text, "%p", "%stride", m), i)))


def _multiply(text: Text, of_a: str, of_b: str) -> None:
    """Add products of fours of bytes. of_a, of_b: the instructions that extend bytes of A and of B."""
    (sums, rows, width), (a, _, depth), (b, _, _) = (_shape(text, f"%{x}") for x in "tab")

    def row(m: str, _: list[str]) -> list[str]:
        def column(n: str, _: list[str]) -> list[str]:
            place = text.at(along(text, sums, "64", m), n)

            def term(k: str, found: list[str]) -> list[str]:
                x = text.load("i8", text.at(along(text, a, "64", m), k))
                # a row of B has four terms of each column
                of_row = along(text, b, "64", text.op(f"lshr i64 {k}, 2"))
                y = text.load("i8", text.at(of_row, text.op(f"add i64 {n}, {text.op(f'and i64 {k}, 3')}")))
                x, y = text.op(f"{of_a} i8 {x} to i32"), text.op(f"{of_b} i8 {y} to i32")
                return [text.op(f"add i32 {found[0]}, {text.op(f'mul i32 {x}, {y}')}")]

            (total,) = fold(text, "0", depth, 1, [("i32", text.load("i32", place))], term)[1]
            text.store("i32", total, place)
            return []

        fold(text, "0", width, 4, [], column)
        return []

    fold(text, "0", rows, 1, [], row)
