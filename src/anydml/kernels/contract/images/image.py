"""The image of an input that windows are read from: its padding is written out, and neighbouring outputs read neighbouring
elements.

Along every dimension, element u of a window that begins at output o is source element o * stride + u * dilation - start. The
image has rows of phases: u * dilation = q * stride + r, and the elements of one r form one phase, at o + q. So a convolution of
any stride reads contiguous bytes, and elements that no window reads are not in the image.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, fold, kernel, splat, when
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.images.rows import copied, copied_in_fours, rounded_up


class ImageAxis(NamedTuple):
    """A dimension of windows. size, step: elements of the input, and bytes from one to the next. taps: elements of a window."""

    size: int
    step: int
    outputs: int
    taps: int
    stride: int
    dilation: int
    start: int

    @property
    def phases(self) -> int:
        return min(self.taps, self.stride // gcd(self.stride, self.dilation))

    @property
    def length(self) -> int:
        """The number of elements of a phase."""
        return self.outputs + (self.taps - 1) * self.dilation // self.stride


NOT_THERE = ImageAxis(1, 0, 1, 1, 1, 1, 0)
OF_AXIS = ("phases", "length", "stride", "dilation", "start", "size", "step")
_AXIS_NAMES = {"": OF_AXIS, **{d: tuple(f"{name}_{d}" for name in OF_AXIS) for d in "zyx"}}
FILL = Signature(
    "*source *end channels channel *zero_point *image *bounds " + " ".join(f"{x}_{d}" for d in "zyx" for x in OF_AXIS)
)


def of_axis(axis: ImageAxis, d: str = "") -> dict[str, int]:
    """The arguments for an axis; d: the letter of its dimension, or "" if there is only one."""
    numbers = axis.phases, axis.length, axis.stride, axis.dilation, axis.start, axis.size, axis.step
    return dict(zip(_AXIS_NAMES[d], numbers, strict=True))


def fill(target: Target, hop: int, fours: bool = False, flipped: bool = False) -> str:
    """The kernel that writes the image of `channels` channels; rows in the order of their addresses, since each may write
    beyond its end.

    Arguments: FILL. end: the address behind the last element of the input. channel: bytes between channels. bounds: scratch of
    three int64 for each phase of x. hop: bytes from one element of a row to the next, of HOPS, or 0 for any. fours: channels
    are fours of channels, whose bytes are contiguous at every place; flipped: whether their highest bits are flipped.
    """
    width, size = target.vector_bytes, 4 if fours else 1
    text = Text()
    FILL.load(text)
    bytes_ = f"<{width} x i8>"
    zero_point = text.load("i8", "%zero_point")
    blank = splat(text, text.op(f"xor i8 {zero_point}, -128") if flipped else zero_point, bytes_)
    hop_x = text.op("mul i64 %stride_x, %step_x")

    def bound(phase: str, _: list[str]) -> list[str]:
        """Store for a phase of x: its first element inside the input, the end of these, and the offset of the first one in a
        row."""
        rest = text.op(f"urem i64 {text.op(f'mul i64 {phase}, %dilation_x')}, %stride_x")
        less = text.op("sub i64 %stride_x, 1")
        ends = []
        for limit in ("%start_x", text.op("add i64 %size_x, %start_x")):
            before = text.op(f"call i64 @llvm.smax.i64(i64 {text.op(f'sub i64 {limit}, {rest}')}, i64 0)")
            count = text.op(f"udiv i64 {text.op(f'add i64 {before}, {less}')}, %stride_x")
            ends.append(text.op(f"call i64 @llvm.umin.i64(i64 {count}, i64 %length_x)"))
        first, end = ends
        place = text.op(f"add i64 {text.op(f'mul i64 {first}, %stride_x')}, {rest}")
        at = text.op(f"sub i64 {place}, %start_x")
        for i, value in enumerate((first, end, text.op(f"mul i64 {at}, %step_x"))):
            text.store("i64", value, text.at("%bounds", text.op(f"mul i64 {phase}, 24")), 8 * i)
        return []

    fold(text, "0", "%phases_x", 1, [], bound)

    def scaled(count: str) -> str:
        return text.op(f"mul i64 {count}, {size}") if fours else count

    def blanks(at: str, count: str) -> None:
        def one(i: str, _: list[str]) -> list[str]:
            text.store(bytes_, blank, text.at(at, i))
            return []

        fold(text, "0", rounded_up(text, scaled(count), width), width, [], one)

    def row(into: str, source: str, inside: str) -> str:
        """Write all phases of a row; inside: whether the row is in the input. Returns the address of the next row."""

        def phase(p: str, state: list[str]) -> list[str]:
            (at,) = state
            record = text.at("%bounds", text.op(f"mul i64 {p}, 24"))
            first, end, offset = (text.load("i64", record, 8 * i) for i in range(3))
            first = text.op(f"select i1 {inside}, i64 {first}, i64 %length_x")
            end = text.op(f"select i1 {inside}, i64 {end}, i64 %length_x")
            blanks(at, first)
            count = text.op(f"sub i64 {end}, {first}")
            there, from_ = text.at(at, scaled(first)), text.at(source, offset)

            def inner() -> None:
                if fours:
                    copied_in_fours(text, target, hop, from_, there, count, hop_x, flipped)
                else:
                    copied(text, width, hop, from_, there, count, hop_x)

            when(text, text.op(f"icmp ne i64 {count}, 0"), inner)
            blanks(text.at(at, scaled(end)), text.op(f"sub i64 %length_x, {end}"))
            return [text.at(at, scaled("%length_x"))]

        return fold(text, "0", "%phases_x", 1, [("ptr", into)], phase)[1][0]

    def axis(name: str, body: Callable[[str, str, str, str], str]) -> Callable[[str, str, str], str]:
        """A function that loops over the phases and elements of a dimension: `body(image, source, inside, name) -> image`."""

        def loops(into: str, source: str, inside: str) -> str:
            def phase(p: str, state: list[str]) -> list[str]:
                rest = text.op(f"urem i64 {text.op(f'mul i64 {p}, %dilation_{name}')}, %stride_{name}")

                def element(q: str, state: list[str]) -> list[str]:
                    place = text.op(f"add i64 {text.op(f'mul i64 {q}, %stride_{name}')}, {rest}")
                    place = text.op(f"sub i64 {place}, %start_{name}")
                    here = text.op(f"and i1 {inside}, {text.op(f'icmp ult i64 {place}, %size_{name}')}")
                    from_ = text.at(source, text.op(f"mul i64 {place}, %step_{name}"))
                    return [body(state[0], from_, here, name)]

                return fold(text, "0", f"%length_{name}", 1, [("ptr", state[0])], element)[1]

            return fold(text, "0", f"%phases_{name}", 1, [("ptr", into)], phase)[1][0]

        return loops

    lines = axis("y", lambda into, source, inside, _: row(into, source, inside))
    planes = axis("z", lambda into, source, inside, _: lines(into, source, inside))

    def channel(c: str, state: list[str]) -> list[str]:
        return [planes(state[0], text.at("%source", text.op(f"mul i64 {scaled(c)}, %channel")), "true")]

    fold(text, "0", "%channels", 1, [("ptr", "%image")], channel)
    text.do("ret i64 0")
    return kernel(text, [f"declare i64 @llvm.{how}.i64(i64, i64)" for how in ("smax", "umin")])


# --- the elements of windows ---

OF_TAPS = ("taps", "phases", "length", "stride", "dilation", "unit")
_TAPS_NAMES = {d: tuple(f"{name}_{d}" for name in OF_TAPS) for d in "zyx"}
OFFSETS = Signature("channels channel *offsets " + " ".join(name for names in _TAPS_NAMES.values() for name in names))


def of_taps(d: str, *numbers: int) -> dict[str, int]:
    """The arguments of a dimension, in the order of OF_TAPS."""
    return dict(zip(_TAPS_NAMES[d], numbers, strict=True))


def offsets(target: Target) -> str:
    """The kernel that writes for each element k of a window, {channels, z, y, x}, its offset in the image from the window;
    int64.

    Arguments: OFFSETS. channel: bytes of an image's channel. unit: bytes from one element of a phase to the next.
    """
    text = Text()
    OFFSETS.load(text)

    def axis(name: str, body: Callable[[str, str], str]) -> Callable[[str, str], str]:
        def taps(into: str, offset: str) -> str:
            def tap(u: str, state: list[str]) -> list[str]:
                phase = text.op(f"urem i64 {u}, %phases_{name}")
                q = text.op(f"udiv i64 {text.op(f'mul i64 {u}, %dilation_{name}')}, %stride_{name}")
                place = text.op(f"add i64 {text.op(f'mul i64 {phase}, %length_{name}')}, {q}")
                return [body(state[0], text.op(f"add i64 {offset}, {text.op(f'mul i64 {place}, %unit_{name}')}"))]

            return fold(text, "0", f"%taps_{name}", 1, [("ptr", into)], tap)[1][0]

        return taps

    def stored(into: str, offset: str) -> str:
        text.store("i64", offset, into)
        return text.at(into, 8)

    of_first = axis("z", axis("y", axis("x", stored)))("%offsets", "0")
    window = text.op(f"sub i64 {text.op(f'ptrtoint ptr {of_first} to i64')}, {text.op('ptrtoint ptr %offsets to i64')}")

    def channel(c: str, state: list[str]) -> list[str]:
        by = text.op(f"mul i64 {c}, %channel")

        def one(i: str, _: list[str]) -> list[str]:
            value = text.load("i64", text.at("%offsets", i))
            text.store("i64", text.op(f"add i64 {value}, {by}"), text.at(state[0], i))
            return []

        fold(text, "0", window, 8, [], one)
        return [text.at(state[0], window)]

    fold(text, "1", "%channels", 1, [("ptr", of_first)], channel)
    text.do("ret i64 0")
    return kernel(text)


PLACES = Signature("first last panels columns width segments *places outputs_x outputs_y unit_y unit_z")
RECORD = 16  # bytes of a segment, two int64: the offset in the image minus the column at which it begins, and this column
NEVER = 255  # the column of a segment that does not exist


def places(target: Target) -> str:
    """The kernel that writes, for each panel of outputs, the segments that are contiguous in the image.

    Arguments: PLACES. first, last: the columns at which the first and the last panel begin. columns: of all panels. width: of a
    panel.
    """
    text = Text()
    PLACES.load(text)

    def panel(p: str, state: list[str]) -> list[str]:
        column = text.op(f"add i64 %first, {text.op(f'mul i64 {p}, %width')}")
        column = text.op(f"call i64 @llvm.umin.i64(i64 {column}, i64 %last)")
        rows, x = text.op(f"udiv i64 {column}, %outputs_x"), text.op(f"urem i64 {column}, %outputs_x")
        z, y = text.op(f"udiv i64 {rows}, %outputs_y"), text.op(f"urem i64 {rows}, %outputs_y")
        left = text.op(f"call i64 @llvm.umin.i64(i64 %width, i64 {text.op(f'sub i64 %columns, {column}')})")

        def segment(_: str, state: list[str]) -> list[str]:
            into, begin, x, y, z, before = state
            there = text.op(f"icmp ult i64 {begin}, {left}")
            row = text.op(f"add i64 {text.op(f'mul i64 {z}, %unit_z')}, {text.op(f'mul i64 {y}, %unit_y')}")
            place = text.op(f"sub i64 {text.op(f'add i64 {row}, {x}')}, {begin}")
            place = text.op(f"select i1 {there}, i64 {place}, i64 {before}")
            text.store("i64", place, into)
            text.store("i64", text.op(f"select i1 {there}, i64 {begin}, i64 {NEVER}"), into, 8)
            further = text.op(f"add i64 {begin}, {text.op(f'sub i64 %outputs_x, {x}')}")
            next_y = text.op(f"add i64 {y}, 1")
            over = text.op(f"icmp uge i64 {next_y}, %outputs_y")
            next_y = text.op(f"select i1 {over}, i64 0, i64 {next_y}")
            next_z = text.op(f"add i64 {z}, {text.op(f'zext i1 {over} to i64')}")
            return [text.at(into, RECORD), further, "0", next_y, next_z, place]

        carried = [("ptr", state[0]), *(("i64", v) for v in ("0", x, y, z, "0"))]
        return fold(text, "0", "%segments", 1, carried, segment)[1][:1]

    fold(text, "0", "%panels", 1, [("ptr", "%places")], panel)
    text.do("ret i64 0")
    return kernel(text, ["declare i64 @llvm.umin.i64(i64, i64)"])
