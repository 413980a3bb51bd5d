"""The fours of elements that a filter's line reads for every output, from lines of the input in their own layout."""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, fold, kernel, shuffle, splat
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.fours import FLIP, by_column, by_column_of_sixteen
from anydml.kernels.contract.tile import panel_columns

STRIDES = (1, 2)  # strides of outputs, along lines of contiguous bytes
FOURS = Signature(
    "*source channels channel *zero_point phases length stride dilation start size step"
    " dilation_x start_x size_x taps pieces *fours piece"
)


def parts(stride: int, narrow: bool) -> int:
    """The number of vectors that are read per block of a line, if the elements of a four are contiguous."""
    return 1 if stride == 1 or narrow else 2


def fours(target: Target, flipped: bool, stride: int, narrow: bool, beside: bool) -> str:
    """The kernel that writes, for each line of windows and each four of a filter's line, the elements they read for every
    output.

    Arguments: FOURS. channel, step: bytes between channels and between lines. Lines are those of an image (see `image`), by
    phases; elements outside the input are the zero point. piece: bytes of a line's fours of one piece, in whole vectors.
    flipped: elements are INT8, and become UINT8 by adding 128. stride: one of STRIDES. narrow: a line's outputs fit into one
    vector. beside: the elements of a four are contiguous: each is read once.
    """
    columns = panel_columns(target) // (2 if narrow else 1)
    span = (
        target.vector_bytes // 2 if beside and narrow and stride == 1 else target.vector_bytes if beside else columns * stride
    )
    wide = "i64" if span < 64 else "i128"
    kind, mask = f"<{span} x i8>", f"<{span} x i1>"
    text = Text()
    FOURS.load(text)
    blank = splat(text, text.load("i8", "%zero_point"), kind)
    last = text.op("sub i64 %taps, 1")
    of_line = text.op("mul i64 %piece, %pieces")
    of_channel = text.op(f"mul i64 {of_line}, {text.op('mul i64 %phases, %length')}")

    def ones_below(count: str) -> str:
        """An integer of `span` bits of which the lowest `count` are 1, at least none and at most all."""
        for how, limit in (("smax", 0), ("smin", span)):
            count = text.op(f"call i64 @llvm.{how}.i64(i64 {count}, i64 {limit})")
        if wide != "i64":
            count = text.op(f"zext i64 {count} to {wide}")
        above = text.op(f"shl {wide} 1, {count}")
        return text.op(f"trunc {wide} {text.op(f'sub {wide} {above}, 1')} to i{span}")

    def masked(image: str, place: str) -> tuple[str, str]:
        """The address of a place of a line, and the mask of the bytes from there on that are inside the line."""
        inside = ones_below(text.op(f"sub i64 %size_x, {place}"))
        before = ones_below(text.op(f"sub i64 0, {place}"))
        return text.at(image, place), text.op(f"and i{span} {inside}, {text.op(f'xor i{span} {before}, -1')}")

    def some(image: str, into: str, g: str, x: str) -> None:
        """Write a block of columns of every line."""
        first = text.op(f"sub i64 {text.op(f'mul i64 {x}, {stride}')}, %start_x")
        taps = [text.op(f"add i64 {text.op(f'mul i64 {g}, 4')}, {i}") for i in range(1 if beside else 4)]
        if beside:
            hop = target.vector_bytes // 4 * stride
            read = [
                text.op(f"add i64 {text.op(f'add i64 {first}, {taps[0]}')}, {n * hop}") for n in range(parts(stride, narrow))
            ]
        else:  # beyond the last tap, weights are 0
            taps = [text.op(f"call i64 @llvm.umin.i64(i64 {tap}, i64 {last})") for tap in taps]
            read = [text.op(f"add i64 {first}, {text.op(f'mul i64 {tap}, %dilation_x')}") for tap in taps]
        places, masks = zip(*(masked(image, place) for place in read), strict=True)

        def put(rows: list[str]) -> list[str]:
            if not beside:
                return by_column_of_sixteen(text, rows) if narrow else by_column(text, rows, target)
            if stride == 1:
                return [of_neighbours(text, rows[0], span, n) for n in range(columns // 16)]
            return [of_every_second(text, row) for row in rows]

        def phase(p: str, state: list[str]) -> list[str]:
            rest = text.op(f"urem i64 {text.op(f'mul i64 {p}, %dilation')}, %stride")
            line = text.op(f"sub i64 {rest}, %start")

            def one(_: str, state: list[str]) -> list[str]:
                line, there = state
                inside = text.op(f"icmp ult i64 {line}, %size")
                far = text.op(f"mul i64 {line}, %step")
                rows = []
                for place, bits in zip(places, masks, strict=True):
                    chosen = text.op(f"bitcast i{span} {text.op(f'select i1 {inside}, i{span} {bits}, i{span} 0')} to {mask}")
                    at = text.at(place, far)
                    row = text.op(
                        f"call {kind} @llvm.masked.load.v{span}i8.p0(ptr {at}, i32 1, {mask} {chosen}, {kind} {blank})"
                    )
                    rows.append(row if stride == 1 or beside else shuffle(text, row, row, kind, range(0, span, stride)))
                found = put(rows)
                vector = f"<{columns // len(found)} x i32>"
                for n, value in enumerate(found):
                    if flipped:
                        value = text.op(f"xor {vector} {value}, {FLIP}")
                    text.store(vector, value, there, n * 4 * columns // len(found))
                return [text.op(f"add i64 {line}, %stride"), text.at(there, of_line)]

            return fold(text, "0", "%length", 1, [("i64", line), ("ptr", state[0])], one)[1][1:]

        fold(text, "0", "%phases", 1, [("ptr", into)], phase)

    def channel(c: str, _: list[str]) -> list[str]:
        image, of_c = along(text, "%source", "%channel", c), along(text, "%fours", of_channel, c)

        def piece(g: str, _: list[str]) -> list[str]:
            of_piece = along(text, of_c, "%piece", g)

            def block(x: str, _: list[str]) -> list[str]:
                some(image, text.at(of_piece, text.op(f"mul i64 {x}, 4")), g, x)
                return []

            fold(text, "0", text.op("lshr i64 %piece, 2"), columns, [], block)
            return []

        fold(text, "0", "%pieces", 1, [], piece)
        return []

    fold(text, "0", "%channels", 1, [], channel)
    text.do("ret i64 0")
    declarations = [f"declare i64 @llvm.{how}.i64(i64, i64)" for how in ("smax", "smin", "umin")]
    return kernel(text, [*declarations, f"declare {kind} @llvm.masked.load.v{span}i8.p0(ptr, i32, {mask}, {kind})"])


def of_neighbours(text: Text, line: str, span: int, n: int) -> str:
    """The n-th vector of 16 fours, of those that begin at each byte of a line."""
    words = text.op(f"bitcast <{span} x i8> {line} to <{span // 4} x i32>")
    lanes = [4 * n + lane + i for lane in range(4) for i in range(4)]  # each group of four lanes gets the bytes of four fours
    there = shuffle(text, words, words, f"<{span // 4} x i32>", lanes)
    order = [16 * lane + first + i for lane in range(4) for first in range(4) for i in range(4)]
    bytes_ = text.op(f"bitcast <16 x i32> {there} to <64 x i8>")
    return text.op(f"bitcast <64 x i8> {shuffle(text, bytes_, bytes_, '<64 x i8>', order)} to <16 x i32>")


def of_every_second(text: Text, line: str) -> str:
    """Sixteen fours, which begin at every second byte of a line."""
    words = text.op(f"bitcast <64 x i8> {line} to <32 x i16>")
    order = [i + k for i in range(16) for k in range(2)]
    return text.op(f"bitcast <32 x i16> {shuffle(text, words, words, '<32 x i16>', order)} to <16 x i32>")
