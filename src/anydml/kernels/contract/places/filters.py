"""Filters packed as the columns of panels, with channels in fours: a step of K is four channels at one element."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.call.signature import Arguments, Signature
from anydml.kernels.call.steps import At, Step
from anydml.kernels.code import engine
from anydml.kernels.code.emit import Text, along, fold, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import dot_of, shift_of
from anydml.kernels.contract.geometry import Batch, Matrix
from anydml.kernels.contract.layout import IntegerLayout
from anydml.kernels.contract.tile import panel_columns

BLOCK = (
    # fours of channels that are packed for all filters of a panel before the next ones: what is written stays in the
    # first-level cache
    8
)
PACK = Signature("*filters filter fours channel taps_y tap_y taps_x tap_x panels last *packed panel *sums")


class Filters(NamedTuple):
    """Filters in groups. matrix: its columns are filters. channels, taps: sizes with strides in bytes; taps y and x."""

    matrix: Matrix
    owned: bool
    channels: tuple[int, int]
    taps: tuple[tuple[int, int], tuple[int, int]]

    def pack(self, at: IntegerLayout, batch: Batch, packed: At, sums: At) -> Step:
        """The step that packs all panels of a group, and sums their columns."""
        p, (channels, channel) = at.problem, self.channels
        code = engine.compiled(pack, at.target, p.a_signed, p.b_signed, channel == 1)
        (taps_y, tap_y), (taps_x, tap_x) = self.taps
        taps = Arguments(taps_y=taps_y, tap_y=tap_y, taps_x=taps_x, tap_x=tap_x)
        filters = Arguments(filters=self.matrix.of(batch), filter=self.matrix.column, fours=channels // 4, channel=channel)
        into = Arguments(panels=at.panels, last=at.start(at.panels - 1), packed=packed, panel=at.panel_bytes, sums=sums)
        return PACK.step(code, **filters, **taps, **into)


def pack(target: Target, a_signed: bool, b_signed: bool, together: bool) -> str:
    """The kernel that packs panels of filters, each step of K with four channels at one element, and sums every packed filter,
    int32.

    Arguments: PACK, in bytes except for counts. together: a filter's channels are contiguous.
    """
    dot, width, columns = dot_of(target), target.vector_bytes, panel_columns(target)
    vector, ones = f"<{width // 4} x i32>", f"splat (i32 {dot.ones})"
    flipped = shift_of(target, a_signed, b_signed) != 0
    text = Text()
    PACK.load(text)
    taps = text.op("mul i64 %taps_y, %taps_x")
    step = columns * 4

    def four(source: str) -> str:
        if together:
            value = text.load("i32", source)
        else:
            value = ""
            for c in range(4):
                byte = text.op(f"zext i8 {text.load('i8', source)} to i32")
                value = text.op(f"or i32 {value}, {text.op(f'shl i32 {byte}, {8 * c}')}") if c else byte
                source = text.at(source, "%channel")
        return text.op(f"xor i32 {value}, {0x80808080 - (1 << 32)}") if flipped else value

    def filter_(source: str, into: str, begin: str, end: str) -> None:
        def channels(c: str, state: list[str]) -> list[str]:
            of_four = along(text, source, "%channel", text.op(f"mul i64 {c}, 4"))

            def line(y: str, state: list[str]) -> list[str]:
                of_line = along(text, of_four, "%tap_y", y)

                def one(x: str, state: list[str]) -> list[str]:
                    text.store("i32", four(along(text, of_line, "%tap_x", x)), state[0])
                    return [text.at(state[0], step)]

                return fold(text, "0", "%taps_x", 1, [("ptr", state[0])], one)[1]

            return fold(text, "0", "%taps_y", 1, [("ptr", state[0])], line)[1]

        fold(text, begin, end, 1, [("ptr", into)], channels)

    def panel(p: str, _: list[str]) -> list[str]:
        inside = text.op(f"icmp ult i64 {text.op(f'add i64 {p}, 1')}, %panels")
        first = text.op(f"select i1 {inside}, i64 {text.op(f'mul i64 {p}, {columns}')}, i64 %last")
        source, into = along(text, "%filters", "%filter", first), along(text, "%packed", "%panel", p)

        def block(b: str, _: list[str]) -> list[str]:
            begin = text.op(f"mul i64 {b}, {BLOCK}")
            end = text.op(f"call i64 @llvm.umin.i64(i64 {text.op(f'add i64 {begin}, {BLOCK}')}, i64 %fours)")
            far = text.op(f"mul i64 {text.op(f'mul i64 {begin}, {taps}')}, {step}")

            def each(f: str, _: list[str]) -> list[str]:
                there = text.at(text.at(into, far), text.op(f"mul i64 {f}, 4"))
                filter_(along(text, source, "%filter", f), there, begin, end)
                return []

            fold(text, "0", str(columns), 1, [], each)
            return []

        fold(text, "0", text.op(f"udiv i64 {text.op(f'add i64 %fours, {BLOCK - 1}')}, {BLOCK}"), 1, [], block)

        def summed(k: str, found: list[str]) -> list[str]:
            there = text.at(into, text.op(f"mul i64 {k}, {step}"))
            loads = [text.load(vector, there, n * width) for n in range(dot.vectors)]
            signed = dot.b_signed(a_signed, b_signed)
            return [dot.emit(text, x, ones, b, a_signed, signed) for x, b in zip(found, loads, strict=True)]

        steps = text.op(f"mul i64 %fours, {taps}")
        found = fold(text, "0", steps, 1, [(vector, "zeroinitializer")] * dot.vectors, summed)[1]
        sums = text.at("%sums", text.op(f"mul i64 {p}, {step}"))
        for n, value in enumerate(found):
            text.store(vector, value, sums, n * width)
        return []

    fold(text, "0", "%panels", 1, [], panel)
    text.do("ret i64 0")
    return kernel(text, ["declare i64 @llvm.umin.i64(i64, i64)", *dot.declarations])
