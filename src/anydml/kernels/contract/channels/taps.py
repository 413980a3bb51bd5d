"""Convolutions of one channel with one filter each, on instruction sets without dot products of bytes: two taps at a time.

The image of a channel is one line: an output's elements are at its offset plus those of the filter's taps. The elements for two
taps are widened to 16 bits and interleaved, and one multiply-add takes both. Outputs between the lines of the output are
computed as well, and left out when lines are copied.
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, extend, fold, kernel, shuffle, splat
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import multiplied_pairs, pairs_declaration
from anydml.kernels.contract.epilogue import rounding
from anydml.kernels.contract.epilogue.functions import functions
from anydml.kernels.contract.epilogue.records import TAKEN, store_term
from anydml.kernels.contract.epilogue.rule import ROW, TERM
from anydml.kernels.contract.tile import panel_columns

ROWS = 4  # rows of a tile: each is a row of outputs, in two vectors of sums
MULTIPLY = Signature("*image channels channel *offsets pairs *weights of_channel tiles *c c_channel *rows *column *modes")
WEIGHTS = Signature(
    "*filters filter channels taps_y tap_y taps_x tap_x *weights of_channel"
    " *a_zero_point a_zero_point_step *b_zero_point *rows *bias bias_step *modes"
)


def multiply(target: Target, output: str, biased: bool, signed: bool, height: int) -> str:
    """Tiles of `height` consecutive rows of outputs, of every channel.

    Arguments: MULTIPLY. channel, c_channel: bytes between channels of the image and of the output. offsets: in the image, of
    two taps for each pair; weights: those of the taps, in 16 bits, of_channel bytes apart. signed: whether the image has INT8.
    """
    width, places = target.vector_bytes, panel_columns(target)
    size = 4 if output == "i32" else 1
    ints, shorts, bytes_ = f"<{width // 4} x i32>", f"<{places} x i16>", f"<{places} x i8>"
    text = Text()
    MULTIPLY.load(text)
    slots = rounding.slots(text, target, height) if size == 1 else None

    def tile(from_: str, into: str, row: str, weights: str) -> None:
        term = splat(text, text.load("i32", row, TERM), ints)

        def pair(k: str, sums: list[str]) -> list[str]:
            weight = splat(text, text.load("i32", text.op(f"getelementptr i32, ptr {weights}, i64 {k}")), ints)
            offsets = text.op(f"getelementptr i64, ptr %offsets, i64 {text.op(f'mul i64 {k}, 2')}")
            taps = [text.at(from_, text.load("i64", offsets, 8 * i)) for i in range(2)]
            found = []
            for r in range(height):
                a, b = (extend(text, text.load(bytes_, tap, r * places), signed, bytes_, shorts) for tap in taps)
                for n in range(2):
                    both = shuffle(text, a, b, shorts, side_by_side(places, n))
                    value = text.op(f"bitcast {shorts} {both} to {ints}")
                    found.append(multiplied_pairs(text, target, sums[2 * r + n], value, weight))
            return found

        found = fold(text, "0", "%pairs", 1, [(ints, term)] * (2 * height), pair)[1]
        sums = []
        for r in range(height):
            low, high = found[2 * r : 2 * r + 2]
            sums.append([shuffle(text, low, high, ints, in_order(places, n)) for n in range(2)])
        if slots is None:
            for r, row_sums in enumerate(sums):
                for n, value in enumerate(row_sums):
                    text.store(ints, value, into, r * places * 4 + n * width)
            return
        signed_output = output == "i8"
        rounding.epilogue(text, target, signed_output, sums, slots, row, "%column", into, str(places), biased, row_step=0)

    def channel(c: str, _: list[str]) -> list[str]:
        image, of_c = along(text, "%image", "%channel", c), along(text, "%c", "%c_channel", c)
        weights = along(text, "%weights", "%of_channel", c)
        row = text.at("%rows", text.op(f"mul i64 {c}, {ROW}"))

        def one(t: str, _: list[str]) -> list[str]:
            first = text.op(f"mul i64 {t}, {height * places}")
            tile(text.at(image, first), text.at(of_c, text.op(f"mul i64 {first}, {size}")), row, weights)
            return []

        fold(text, "0", "%tiles", 1, [], one)
        return []

    fold(text, "0", "%channels", 1, [], channel)
    text.do("ret i64 0")
    return kernel(text, [pairs_declaration(target), *functions(target, output, biased)])


def side_by_side(places: int, half: int) -> list[int]:
    """The order that interleaves two vectors of 16 bits: of every eight outputs, the first four, or the last."""
    chosen = [8 * lane + 4 * half + i for lane in range(places // 8) for i in range(4)]
    return [x for place in chosen for x in (place, places + place)]


def in_order(places: int, half: int) -> list[int]:
    """The order that restores half of the outputs, from the two vectors of sums that `side_by_side` leads to."""
    chosen = range(half * places // 2, (half + 1) * places // 2)
    return [4 * (p // 8) + p % 4 + (places // 2 if p % 8 >= 4 else 0) for p in chosen]


def weights(target: Target, a_signed: bool, b_signed: bool, biased: bool) -> str:
    """For each channel, the weights (elements of its filter minus their zero point) in 16 bits; and the term of its record.

    Arguments: WEIGHTS, steps in bytes. A term is -(sum of the weights) * (the input's zero point) + bias.
    """
    text = Text()
    WEIGHTS.load(text)
    mask = text.load("i32", "%modes", TAKEN) if biased else ""
    b_zero_point = extend(text, text.load("i8", "%b_zero_point"), b_signed)

    def channel(c: str, _: list[str]) -> list[str]:
        into, source = along(text, "%weights", "%of_channel", c), along(text, "%filters", "%filter", c)
        zero_point = extend(text, text.load("i8", along(text, "%a_zero_point", "%a_zero_point_step", c)), a_signed)

        def line(y: str, state: list[str]) -> list[str]:
            from_ = along(text, source, "%tap_y", y)

            def one(x: str, state: list[str]) -> list[str]:
                total, at = state
                a = extend(text, text.load("i8", along(text, from_, "%tap_x", x)), a_signed)
                left = text.op(f"sub i32 {a}, {zero_point}")
                text.store("i16", text.op(f"trunc i32 {left} to i16"), at)
                return [text.op(f"add i32 {total}, {left}"), text.at(at, 2)]

            return fold(text, "0", "%taps_x", 1, [("i32", state[0]), ("ptr", state[1])], one)[1]

        total, end = fold(text, "0", "%taps_y", 1, [("i32", "0"), ("ptr", into)], line)[1]
        text.store("i16", "0", end)  # the second tap of the last pair, if the number of taps is odd
        term = text.op(f"sub i32 0, {text.op(f'mul i32 {total}, {b_zero_point}')}")
        store_term(text, term, c, mask)
        return []

    fold(text, "0", "%channels", 1, [], channel)
    text.do("ret i64 0")
    return kernel(text)
