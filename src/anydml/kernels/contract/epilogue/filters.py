"""Records of filters that are columns of a tile, and the terms of outputs, which are rows.

q = (sum a b') - (sum a) zb' + za X as in `records`, with X = K zb' - (sum of b' of the filter): (sum a) is a window's sum.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, extend, fold, kernel, splat, when
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import BIAS as SHIFT
from anydml.kernels.contract.dot import dot_of, shifted
from anydml.kernels.contract.epilogue.records import TAKEN, store_term
from anydml.kernels.contract.images.rows import rounded_up
from anydml.kernels.contract.tile import panel_columns

COLUMN = 16  # bytes of a filter's record
# the offsets of the fields of a panel of 32 filters, each field for all filters: int32, float32, int32 twice; BIAS: the part of
# a bias that is not in the term
TERM, SCALE, ZERO_POINT, BIAS = 0, 128, 256, 384
FILTERS = Signature(
    "panels last *sums *columns k *a_zero_point *b_zero_point b_zero_point_step *b_scale b_scale_step *bias bias_step *modes"
)


def filters(target: Target, flipped: bool, b_signed: bool, scaled: bool, biased: bool) -> str:
    """The records of the filters of `panels` panels, for an A of UINT8; flipped: for INT8 with its highest bits flipped.

    Arguments: FILTERS, steps in bytes; sums: of packed filters.
    """
    columns = panel_columns(target)
    text = Text()
    FILTERS.load(text)
    k = text.op("trunc i64 %k to i32")
    a_zero_point = extend(text, text.load("i8", "%a_zero_point"), flipped)
    if flipped:
        a_zero_point = text.op(f"add i32 {a_zero_point}, {SHIFT}")
    mask = text.load("i32", "%modes", TAKEN) if biased else ""

    def panel(p: str, _: list[str]) -> list[str]:
        inside = text.op(f"icmp ult i64 {text.op(f'add i64 {p}, 1')}, %panels")
        first = text.op(f"select i1 {inside}, i64 {text.op(f'mul i64 {p}, {columns}')}, i64 %last")
        record = text.at("%columns", text.op(f"mul i64 {p}, {COLUMN * columns}"))
        sums = text.at("%sums", text.op(f"mul i64 {p}, {4 * columns}"))

        def one(i: str, _: list[str]) -> list[str]:
            at = text.op(f"add i64 {first}, {i}")
            far = text.op(f"mul i64 {i}, 4")
            into = text.at(record, far)
            byte = text.load("i8", along(text, "%b_zero_point", "%b_zero_point_step", at))
            z = shifted(text, target, byte, False, b_signed)
            x = text.op(f"sub i32 {text.op(f'mul i32 {k}, {z}')}, {text.load('i32', text.at(sums, far))}")
            term = text.op(f"mul i32 {x}, {a_zero_point}")
            store_term(text, term, at, mask, (into, TERM, BIAS))
            text.store("i32", z, into, ZERO_POINT)
            if scaled:
                text.store("float", text.load("float", along(text, "%b_scale", "%b_scale_step", at)), into, SCALE)
            return []

        fold(text, "0", str(columns), 1, [], one)
        return []

    fold(text, "0", "%panels", 1, [], panel)
    text.do("ret i64 0")
    return kernel(text)


# --- the sums of windows ---

SUMMED = 2  # vectors of outputs that are summed at once
PLACES = Signature("*image plane fours *sums count *b_zero_point")


def places(target: Target, a_signed: bool, b_signed: bool, full: bool) -> str:
    """The int32 sums of all channels at every place of an image; unless `full`, they are not needed for a zero point of 0.

    Arguments: PLACES. plane: bytes from four channels to the next four.
    """
    dot, width = dot_of(target), target.vector_bytes
    vector, ones = f"<{width // 4} x i32>", f"splat (i32 {dot.ones})"
    text = Text()
    PLACES.load(text)

    def some(i: str, _: list[str]) -> list[str]:
        at = text.op(f"mul i64 {i}, 4")
        image = text.at("%image", at)

        def four(c: str, found: list[str]) -> list[str]:
            there = along(text, image, "%plane", c)
            loads = [text.load(vector, there, n * width) for n in range(SUMMED)]
            return [dot.emit(text, x, a, ones, a_signed, not a_signed) for x, a in zip(found, loads, strict=True)]

        found = fold(text, "0", "%fours", 1, [(vector, "zeroinitializer")] * SUMMED, four)[1]
        for n, value in enumerate(found):
            text.store(vector, value, text.at("%sums", at), n * width)
        return []

    def all_() -> None:
        fold(text, "0", rounded_up(text, "%count", SUMMED * width // 4), SUMMED * width // 4, [], some)

    _unless_none(text, target, a_signed, b_signed, full, all_)
    text.do("ret i64 0")
    return kernel(text, dot.declarations)


TERMS = Signature("*sums line lines outputs *offsets taps *terms *b_zero_point")


def terms(target: Target, a_signed: bool, b_signed: bool, full: bool) -> str:
    """The term of every output: -(sum of its window), times the B zero point unless `full`.

    Arguments: TERMS. sums: those of `places`; line: bytes between lines of them. Lines of terms have no gaps between them.
    """
    width = target.vector_bytes
    lanes = width // 4
    vector = f"<{lanes} x i32>"
    text = Text()
    TERMS.load(text)
    up = rounded_up(text, "%outputs", lanes)

    def each(value: str, factor: str) -> None:
        def line(n: str, _: list[str]) -> list[str]:
            sums, into = along(text, "%sums", "%line", n), along(text, "%terms", text.op("mul i64 %outputs, 4"), n)

            def some(x: str, _: list[str]) -> list[str]:
                at = text.op(f"mul i64 {x}, 4")
                here, total = text.at(sums, at), value
                if factor:

                    def tap(t: str, found: list[str]) -> list[str]:
                        offset = text.load("i64", text.op(f"getelementptr i64, ptr %offsets, i64 {t}"))
                        return [text.op(f"add {vector} {found[0]}, {text.load(vector, text.at(here, offset))}")]

                    (total,) = fold(text, "0", "%taps", 1, [(vector, value)], tap)[1]
                    total = text.op(f"mul {vector} {total}, {factor}")
                text.store(vector, total, text.at(into, at))
                return []

            fold(text, "0", up, lanes, [], some)
            return []

        fold(text, "0", "%lines", 1, [], line)

    def summed() -> None:
        factor = "-1"
        if not full:
            byte = text.load("i8", "%b_zero_point")
            factor = text.op(f"sub i32 0, {shifted(text, target, byte, a_signed, b_signed)}")
        each("zeroinitializer", splat(text, factor, vector))
        text.do("ret i64 0")
        text.label(text.name("unreachable"))

    _unless_none(text, target, a_signed, b_signed, full, summed)
    each("zeroinitializer", "")
    text.do("ret i64 0")
    return kernel(text)


def _unless_none(text: Text, target: Target, a_signed: bool, b_signed: bool, full: bool, body: Callable[[], None]) -> None:
    if full:
        body()
        return
    zero_point = shifted(text, target, text.load("i8", "%b_zero_point"), a_signed, b_signed)
    when(text, text.op(f"icmp ne i32 {zero_point}, 0"), body)
