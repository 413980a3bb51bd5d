"""Filters of one channel as steps of dot products, and the terms of their channels' records."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, extend, fold, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import BIAS as SHIFT
from anydml.kernels.contract.epilogue.records import TAKEN, store_term

PASSES = 3  # parts of INT8 that a weight is split into: it is at most 255 in magnitude
WEIGHTS = Signature(
    "*filters filter channels taps_y tap_y taps_x tap_x pieces *weights of_channel"
    " *a_zero_point a_zero_point_step *b_zero_point *rows *bias bias_step *modes"
)


def weights(target: Target, a_signed: bool, b_signed: bool, biased: bool) -> str:
    """For each channel, the number of steps and their weights; and the term of its record.

    Arguments: WEIGHTS, steps in bytes. A weight is an element a of the filter minus its zero point, as INT8; what exceeds INT8
    is another pass over the same elements. pieces: fours of elements in a filter's line. The input b is read as UINT8, so that
    a term is -(sum of the weights) * (b's zero point) + bias.
    """
    text = Text()
    WEIGHTS.load(text)
    mask = text.load("i32", "%modes", TAKEN) if biased else ""
    b_zero_point = extend(text, text.load("i8", "%b_zero_point"), b_signed)
    if b_signed:
        b_zero_point = text.op(f"add i32 {b_zero_point}, {SHIFT}")
    fours = text.op("mul i64 %taps_y, %pieces")
    of_line, of_pass = text.op("mul i64 %pieces, 4"), text.op(f"mul i64 {fours}, 4")

    def channel(c: str, _: list[str]) -> list[str]:
        into = along(text, "%weights", "%of_channel", c)
        four = text.at(into, 8)
        source = along(text, "%filters", "%filter", c)
        zero_point = extend(text, text.load("i8", along(text, "%a_zero_point", "%a_zero_point_step", c)), a_signed)

        def clear(at: str, count: str) -> None:
            def one(i: str, _: list[str]) -> list[str]:
                text.store("i32", "0", text.at(at, i))
                return []

            fold(text, "0", count, 4, [], one)

        def elements(first: list[tuple[str, str]], each: Callable[[str, str, list[str]], list[str]]) -> list[str]:
            """Loop over all elements minus the zero point, and the places of their weights."""

            def line(y: str, state: list[str]) -> list[str]:
                from_, there = along(text, source, "%tap_y", y), along(text, four, of_line, y)

                def one(x: str, state: list[str]) -> list[str]:
                    a = extend(text, text.load("i8", along(text, from_, "%tap_x", x)), a_signed)
                    return each(text.op(f"sub i32 {a}, {zero_point}"), text.at(there, x), state)

                return fold(text, "0", "%taps_x", 1, [(kind, x) for (kind, _), x in zip(first, state, strict=True)], one)[1]

            return fold(text, "0", "%taps_y", 1, first, line)[1]

        def part(left: str, place: str) -> str:
            """Store the part that INT8 holds, and return the rest."""
            value = text.op(f"call i32 @llvm.smax.i32(i32 {left}, i32 -128)")
            value = text.op(f"call i32 @llvm.smin.i32(i32 {value}, i32 127)")
            text.store("i8", text.op(f"trunc i32 {value} to i8"), place)
            return text.op(f"sub i32 {left}, {value}")

        def first(left: str, place: str, state: list[str]) -> list[str]:
            total, rest = state
            return [text.op(f"add i32 {total}, {left}"), text.op(f"or i32 {rest}, {part(left, place)}")]

        def again(left: str, place: str, state: list[str]) -> list[str]:
            for n in range(PASSES):
                left = part(left, text.at(place, text.op(f"mul i64 {of_pass}, {n}")))
                state = [text.op(f"or i32 {state[0]}, {left}")] if n == PASSES - 2 else state
            return state

        clear(four, of_pass)
        total, rest = elements([("i32", "0"), ("i32", "0")], first)
        text.store("i64", fours, into)

        def more() -> None:
            clear(text.at(four, of_pass), text.op(f"mul i64 {of_pass}, {PASSES - 1}"))
            (third,) = elements([("i32", "0")], again)
            passes = text.op(f"select i1 {text.op(f'icmp ne i32 {third}, 0')}, i64 {PASSES}, i64 {PASSES - 1}")
            text.store("i64", text.op(f"mul i64 {passes}, {fours}"), into)

        when(text, text.op(f"icmp ne i32 {rest}, 0"), more)
        term = text.op(f"sub i32 0, {text.op(f'mul i32 {total}, {b_zero_point}')}")
        store_term(text, term, c, mask)
        return []

    fold(text, "0", "%channels", 1, [], channel)
    text.do("ret i64 0")
    return kernel(text, [f"declare i32 @llvm.{x}.i32(i32, i32)" for x in ("smax", "smin")])
