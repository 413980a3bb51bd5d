"""AMX's tile registers: eight, each of up to 16 rows of 64 bytes. One instruction multiplies two of them as bytes, and adds up
products of four bytes in each element of a third one, which has 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from anydml.kernels.code.emit import Text

COUNT, ROWS, WIDTH = 8, 16, 64  # of registers; rows, and their bytes
TILE = ROWS * WIDTH  # bytes of a register
WHOLE = (str(ROWS), str(WIDTH))
DECLARATIONS = (
    "declare void @llvm.x86.ldtilecfg(ptr)",
    "declare void @llvm.x86.tilerelease()",
    "declare void @llvm.x86.tilezero(i8)",
    "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
    "declare void @llvm.x86.tilestored64(i8, ptr, i64)",
    *(f"declare void @llvm.x86.tdpb{a}{b}d(i8, i8, i8)" for a in "su" for b in "su"),
)


def configure(text: Text, memory: str, shapes: Sequence[tuple[str, str]] = (WHOLE,) * COUNT) -> None:
    """Begin to use the registers. memory: 64 bytes. shapes: the rows (i8) and the bytes of a row (i16) of each register."""
    text.do(f"store <64 x i8> zeroinitializer, ptr {memory}, align 64")
    text.store("i8", "1", memory)  # the palette of eight registers
    for register, (rows, width) in enumerate(shapes):
        text.store("i16", width, memory, 16 + 2 * register)
        text.store("i8", rows, memory, 48 + register)
    text.do(f"call void @llvm.x86.ldtilecfg(ptr {memory})")


def release(text: Text) -> None:
    """Leave the registers as they are when nobody uses them."""
    text.do("call void @llvm.x86.tilerelease()")


def clear(text: Text, register: int) -> None:
    text.do(f"call void @llvm.x86.tilezero(i8 {register})")


def load(text: Text, register: int, at: str, row: int | str = WIDTH) -> None:
    """Fill a register. row: bytes from one row to the next in memory."""
    text.do(f"call void @llvm.x86.tileloadd64(i8 {register}, ptr {at}, i64 {row})")


def store(text: Text, register: int, at: str, row: int | str = WIDTH) -> None:
    text.do(f"call void @llvm.x86.tilestored64(i8 {register}, ptr {at}, i64 {row})")


def multiply(text: Text, sums: int, a: int, b: int, signed: tuple[bool, bool]) -> None:
    """Add the products of each four bytes of a row of `a` with those of a column of `b`, whose rows have four bytes of each.

    signed: whether the bytes of each have signs.
    """
    signs = "".join("us"[x] for x in signed)
    text.do(f"call void @llvm.x86.tdpb{signs}d(i8 {sums}, i8 {a}, i8 {b})")
