"""Sums that int32 cannot hold: sums of blocks of K, which are exact, are added in int64 and rounded at the end."""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, fold, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.epilogue.rule import ROW, functions
from anydml.kernels.contract.tile import column_bytes, panel_columns

CARRY = Signature("*sums *totals count first")


def carry(target: Target) -> str:
    """The kernel of totals[i] += sums[i], int64 and int32, or = if `first` is not 0; count: whole panels' columns. Arguments:
    CARRY."""
    lanes = target.vector_bytes // 8
    longs, ints = f"<{lanes} x i64>", f"<{lanes} x i32>"
    text = Text()
    CARRY.load(text)
    keep = text.op(f"sext i1 {text.op('icmp eq i64 %first, 0')} to i64")

    def step(i: str, _: list[str]) -> list[str]:
        total = text.at("%totals", text.op(f"mul i64 {i}, 8"))
        value = text.op(f"sext {ints} {text.load(ints, text.at('%sums', text.op(f'mul i64 {i}, 4')))} to {longs}")
        # scratch is not initialised: its bits are masked away, not added
        first = text.op(f"insertelement {longs} poison, i64 {keep}, i32 0")
        mask = text.op(f"shufflevector {longs} {first}, {longs} poison, <{lanes} x i32> zeroinitializer")
        old = text.op(f"and {longs} {text.load(longs, total)}, {mask}")
        text.store(longs, text.op(f"add {longs} {old}, {value}"), total)
        return []

    fold(text, "0", "%count", lanes, [], step)
    text.do("ret i64 0")
    return kernel(text)


ROUND = Signature("*totals totals_row m panels *rows *columns *c c_row last")


def round_totals(target: Target, signed: bool, biased: bool = False) -> str:
    """The kernel that rounds int64 sums to bytes by the rule. Arguments: ROUND; totals_row, c_row: bytes; last: as for a
    tile."""
    columns = panel_columns(target)
    text = Text()
    ROUND.load(text)

    def panel(p: str, _: list[str]) -> list[str]:
        inside = text.op(f"icmp ult i64 {text.op(f'add i64 {p}, 1')}, %panels")
        across = text.op(f"select i1 {inside}, i64 {text.op(f'mul i64 {p}, {columns}')}, i64 %last")
        scale = text.at(text.at("%columns", text.op(f"mul i64 {p}, {column_bytes(target)}")), 4 * columns)
        totals = text.at("%totals", text.op(f"mul i64 {p}, {8 * columns}"))
        c = text.at("%c", across)

        def row(m: str, _: list[str]) -> list[str]:
            sums = text.at(totals, text.op(f"mul i64 {m}, %totals_row"))
            record = text.at("%rows", text.op(f"mul i64 {m}, {ROW}"))
            into = text.at(c, text.op(f"mul i64 {m}, %c_row"))
            text.do(f"call void @rule(ptr {sums}, ptr {record}, ptr {scale}, ptr {into})")
            return []

        fold(text, "0", "%m", 1, [], row)
        return []

    fold(text, "0", "%panels", 1, [], panel)
    text.do("ret i64 0")
    return kernel(text, functions(target, signed, wide=True, biased=biased))
