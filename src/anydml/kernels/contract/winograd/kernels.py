"""Winograd's F(2x2, 3x3) in integers: four sums of 3x3 windows from 16 products of the transformed input and filter.

In one dimension, sums y of filters g over windows of d are 2 y = A ((G g) * (B d)) with

    G = 2 0 0, 1 1 1, 1 -1 1, 0 0 2      B = 1 0 -1 0, 0 1 1 0, 0 -1 1 0, 0 1 0 -1      A = 1 1 1 0, 0 1 -1 -1

so that everything is exact in two dimensions: elements of 8 bits become at most 9 * 255 and 4 * 255, which 16 bits hold. 32
bits hold four times a sum, and the values before it modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Sequence

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, extend, fold, kernel, shuffle, splat
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.channels.taps import in_order, side_by_side
from anydml.kernels.contract.dot import multiplied_pairs, pairs_declaration
from anydml.kernels.contract.epilogue import rounding
from anydml.kernels.contract.epilogue.functions import functions
from anydml.kernels.contract.epilogue.records import TAKEN, store_term
from anydml.kernels.contract.epilogue.rule import ROW, TERM
from anydml.kernels.contract.tile import panel_columns

TILE, READ, FILTER = 2, 4, 3  # outputs, inputs and elements of a filter, in each dimension
POSITIONS = READ * READ
FILTERS = Signature("*filters row channel line place *zero_point zero_point_step rows channels *into position tile *sums")
TERMS = Signature("m *sums *zero_point *rows *bias bias_step *modes")
INPUTS = Signature("*image channel odd line pairs tile_rows tiles *into position pitch")
PRODUCTS = Signature("*a a_position a_tile tiles pairs *b position pitch columns *into into_position into_row")
SUMS = Signature("*from position row m tile_rows tiles *c c_m c_line *rows *column *modes")


def of_filters(text: Text, kind: str, x: Sequence[str]) -> list[str]:
    """The rows of G, applied to a vector."""
    ends = text.op(f"add {kind} {x[0]}, {x[2]}")
    twice = [text.op(f"add {kind} {v}, {v}") for v in (x[0], x[2])]
    return [twice[0], text.op(f"add {kind} {ends}, {x[1]}"), text.op(f"sub {kind} {ends}, {x[1]}"), twice[1]]


def of_inputs(text: Text, kind: str, x: Sequence[str]) -> list[str]:
    """The rows of B, applied to a vector."""
    return [
        text.op(f"{how} {kind} {x[a]}, {x[b]}") for how, a, b in (("sub", 0, 2), ("add", 1, 2), ("sub", 2, 1), ("sub", 1, 3))
    ]


def of_sums(text: Text, kind: str, x: Sequence[str]) -> list[str]:
    """The rows of A, applied to a vector."""
    both, less = text.op(f"add {kind} {x[1]}, {x[2]}"), text.op(f"sub {kind} {x[1]}, {x[2]}")
    return [text.op(f"add {kind} {x[0]}, {both}"), text.op(f"sub {kind} {less}, {x[3]}")]


def filters(target: Target, signed: bool, height: int) -> str:
    """The kernel that transforms filters minus their zero points: tiles of `height` rows; for each position, pairs of channels
    of every row.

    Arguments: FILTERS, steps in bytes. into: of 16 bits; position, tile: bytes from one position, and from one tile, to the
    next. sums: for each filter, the sum of its elements.
    """
    text = Text()
    FILTERS.load(text)

    def row(m: str, _: list[str]) -> list[str]:
        source = along(text, "%filters", "%row", m)
        zero_point = extend(text, text.load("i8", along(text, "%zero_point", "%zero_point_step", m)), signed)
        tile = along(text, "%into", "%tile", text.op(f"udiv i64 {m}, {height}"))
        into = text.at(tile, text.op(f"mul i64 {text.op(f'urem i64 {m}, {height}')}, 4"))

        def channel(c: str, state: list[str]) -> list[str]:
            from_, (total,) = along(text, source, "%channel", c), state
            read: list[list[str]] = []
            for y in range(FILTER):
                line = along(text, from_, "%line", str(y))
                read.append([])
                for x in range(FILTER):
                    element = extend(text, text.load("i8", along(text, line, "%place", str(x))), signed)
                    read[-1].append(text.op(f"sub i32 {element}, {zero_point}"))
                    total = text.op(f"add i32 {total}, {read[-1][-1]}")
            down = [of_filters(text, "i32", column) for column in zip(*read, strict=True)]
            pair, odd = text.op(f"lshr i64 {c}, 1"), text.op(f"and i64 {c}, 1")
            at = text.at(text.at(into, text.op(f"mul i64 {pair}, {4 * height}")), text.op(f"mul i64 {odd}, 2"))
            for i in range(READ):
                for value in of_filters(text, "i32", [column[i] for column in down]):
                    text.store("i16", text.op(f"trunc i32 {value} to i16"), at)
                    at = text.at(at, "%position")
            return [total]

        (total,) = fold(text, "0", "%channels", 1, [("i32", "0")], channel)[1]
        text.store("i32", total, text.at("%sums", text.op(f"mul i64 {m}, 4")))
        return []

    fold(text, "0", "%rows", 1, [], row)
    text.do("ret i64 0")
    return kernel(text)


def terms(target: Target, b_signed: bool, biased: bool) -> str:
    """The kernel for the terms of m rows' records: -(sum of the filter) * (the input's zero point) + bias. Arguments: TERMS."""
    text = Text()
    TERMS.load(text)
    mask = text.load("i32", "%modes", TAKEN) if biased else ""
    zero_point = extend(text, text.load("i8", "%zero_point"), b_signed)

    def row(m: str, _: list[str]) -> list[str]:
        total = text.load("i32", text.at("%sums", text.op(f"mul i64 {m}, 4")))
        term = text.op(f"sub i32 0, {text.op(f'mul i32 {total}, {zero_point}')}")
        store_term(text, term, m, mask)
        return []

    fold(text, "0", "%m", 1, [], row)
    text.do("ret i64 0")
    return kernel(text)


def inputs(target: Target, signed: bool) -> str:
    """The kernel that transforms tiles of an image: for each position, pairs of channels, interleaved, for every tile, in 16
    bits.

    Arguments: INPUTS. The image has even lines and, `odd` bytes further, odd ones. tile_rows x tiles: the tiles to read. into:
    for each position, `position` bytes apart, a line of tiles for each pair of channels, `pitch` bytes apart; lines are written
    in order, and each may write beyond its end.
    """
    places, width = panel_columns(target), target.vector_bytes
    shorts, ints = f"<{places} x i16>", f"<{width // 4} x i32>"
    text = Text()
    INPUTS.load(text)
    blocks = text.op(f"udiv i64 {text.op(f'add i64 %tiles, {places - 1}')}, {places}")

    def transformed(lines: list[str]) -> list[str]:
        """The transformed elements of a channel; lines: the addresses of its four lines."""
        across = []
        for line in lines:
            elements = []
            for k in range(2):
                both = text.load(shorts, line, 2 * k)
                if signed:
                    first = text.op(f"ashr {shorts} {text.op(f'shl {shorts} {both}, splat (i16 8)')}, splat (i16 8)")
                else:
                    first = text.op(f"and {shorts} {both}, splat (i16 255)")
                elements += [first, text.op(f"{'a' if signed else 'l'}shr {shorts} {both}, splat (i16 8)")]
            across.append(of_inputs(text, shorts, elements))
        down = [of_inputs(text, shorts, column) for column in zip(*across, strict=True)]
        return [down[j][i] for i in range(READ) for j in range(READ)]

    def pair(c: str, _: list[str]) -> list[str]:
        image = along(text, "%image", "%channel", text.op(f"mul i64 {c}, 2"))
        of_pair = along(text, "%into", "%pitch", c)

        def tile_row(y: str, _: list[str]) -> list[str]:
            line = along(text, image, "%line", y)
            of_row = text.at(of_pair, text.op(f"mul i64 {text.op(f'mul i64 {y}, %tiles')}, 4"))

            def block(b: str, _: list[str]) -> list[str]:
                first = text.op(f"mul i64 {b}, {places}")
                at, into = text.at(line, text.op(f"mul i64 {first}, 2")), text.at(of_row, text.op(f"mul i64 {first}, 4"))
                both = []
                for begin in (at, text.at(at, "%channel")):
                    next_ = text.at(begin, "%line")
                    both.append(transformed([begin, text.at(begin, "%odd"), next_, text.at(next_, "%odd")]))
                for one, other in zip(*both, strict=True):
                    apart = []
                    for half in range(2):
                        mixed = shuffle(text, one, other, shorts, side_by_side(places, half))
                        apart.append(text.op(f"bitcast {shorts} {mixed} to {ints}"))
                    for half in range(2):
                        text.store(ints, shuffle(text, apart[0], apart[1], ints, in_order(places, half)), into, half * width)
                    into = text.at(into, "%position")
                return []

            fold(text, "0", blocks, 1, [], block)
            return []

        fold(text, "0", "%tile_rows", 1, [], tile_row)
        return []

    fold(text, "0", "%pairs", 1, [], pair)
    text.do("ret i64 0")
    return kernel(text)


def products(target: Target, height: int) -> str:
    """The kernel that, for each position, multiplies filters, in tiles of `height` rows, with vectors of tiles, two at a time.

    Arguments: PRODUCTS. columns: pairs of vectors of tiles. into: rows of int32.
    """
    width = target.vector_bytes
    ints = f"<{width // 4} x i32>"
    text = Text()
    PRODUCTS.load(text)

    def position(t: str, _: list[str]) -> list[str]:
        of_a, of_b, of_c = (
            along(text, "%a", "%a_position", t),
            along(text, "%b", "%position", t),
            along(text, "%into", "%into_position", t),
        )

        def tile(m: str, _: list[str]) -> list[str]:
            a = along(text, of_a, "%a_tile", m)
            c = text.at(of_c, text.op(f"mul i64 {text.op(f'mul i64 {m}, {height}')}, %into_row"))

            def column(n: str, _: list[str]) -> list[str]:
                far = text.op(f"mul i64 {n}, {2 * width}")
                here = text.at(of_b, far)

                def step(k: str, state: list[str]) -> list[str]:
                    from_, row, *sums = state
                    right = [text.load(ints, from_, i * width) for i in range(2)]
                    found = []
                    for r in range(height):
                        left = splat(text, text.load("i32", row, 4 * r), ints)
                        found += [multiplied_pairs(text, target, sums[2 * r + i], left, right[i]) for i in range(2)]
                    return [text.at(from_, "%pitch"), text.at(row, 4 * height), *found]

                begin = [("ptr", here), ("ptr", a), *[(ints, "zeroinitializer")] * (2 * height)]
                found = fold(text, "0", "%pairs", 1, begin, step)[1][2:]
                for r in range(height):
                    at = text.at(c, text.op(f"add i64 {far}, {text.op(f'mul i64 %into_row, {r}')}"))
                    for i in range(2):
                        text.store(ints, found[2 * r + i], at, i * width)
                return []

            fold(text, "0", "%columns", 1, [], column)
            return []

        fold(text, "0", "%tiles", 1, [], tile)
        return []

    fold(text, "0", str(POSITIONS), 1, [], position)
    text.do("ret i64 0")
    return kernel(text, [pairs_declaration(target)])


def sums(target: Target, output: str, biased: bool) -> str:
    """The kernel that makes two lines of rounded outputs of each row of tiles, from products; it may write beyond their ends.

    Arguments: SUMS. from: rows of products of m filters, `row` bytes apart, and those of each position. c: lines, and those of
    each filter c_m bytes apart. rows: the filters' records; column: the record of a panel without terms.
    """
    places, width = panel_columns(target), target.vector_bytes
    lanes = width // 4
    size = 4 if output == "i32" else 1
    ints = f"<{lanes} x i32>"
    text = Text()
    SUMS.load(text)
    slots = rounding.slots(text, target, TILE) if size == 1 else None
    blocks = text.op(f"udiv i64 {text.op(f'add i64 %tiles, {lanes - 1}')}, {lanes}")

    def filter_(m: str, _: list[str]) -> list[str]:
        from_, c = along(text, "%from", "%row", m), along(text, "%c", "%c_m", m)
        record = text.at("%rows", text.op(f"mul i64 {m}, {ROW}"))
        term = splat(text, text.load("i32", record, TERM), ints)

        def tile_row(y: str, _: list[str]) -> list[str]:
            of_row = text.at(from_, text.op(f"mul i64 {text.op(f'mul i64 {y}, %tiles')}, 4"))
            lines = along(text, c, "%c_line", text.op(f"mul i64 {y}, {TILE}"))

            def block(b: str, _: list[str]) -> list[str]:
                at = text.at(of_row, text.op(f"mul i64 {b}, {width}"))
                read: list[list[str]] = []
                for _i in range(READ):
                    read.append([])
                    for _j in range(READ):
                        read[-1].append(text.load(ints, at))
                        at = text.at(at, "%position")
                down = [of_sums(text, ints, column) for column in zip(*read, strict=True)]
                made = []
                for i in range(TILE):
                    four = of_sums(text, ints, [column[i] for column in down])
                    pair = [text.op(f"ashr {ints} {x}, splat (i32 2)") for x in four]
                    pair = [text.op(f"add {ints} {x}, {term}") for x in pair]
                    turns = [x for n in range(lanes) for x in (n, lanes + n)]
                    made.append([shuffle(text, pair[0], pair[1], ints, turns[n * lanes : (n + 1) * lanes]) for n in range(2)])
                into = text.at(lines, text.op(f"mul i64 {b}, {places * size}"))
                if slots is None:
                    for i, row in enumerate(made):
                        for n, value in enumerate(row):
                            text.store(ints, value, text.at(along(text, into, "%c_line", str(i)), n * width))
                    return []
                rounding.epilogue(
                    text, target, output == "i8", made, slots, record, "%column", into, "%c_line", biased, row_step=0
                )
                return []

            fold(text, "0", blocks, 1, [], block)
            return []

        fold(text, "0", "%tile_rows", 1, [], tile_row)
        return []

    fold(text, "0", "%m", 1, [], filter_)
    text.do("ret i64 0")
    return kernel(text, functions(target, output, biased))
