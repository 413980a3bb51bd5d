"""Sums of products of digits in tile registers: see `digits`.

A register has the sums of the digits of one i + j, of 16 rows and 16 columns. Four such registers are filled in a first pass,
and the other three in a second one, so that enough are left for digits: most digits of rows that are needed next are held.
Beside the products, the sums of the 16 columns before become float64.
"""

from __future__ import annotations

from anydml.kernels.code import tile_registers
from anydml.kernels.code.emit import fold, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.tile_registers import COUNT, ROWS, TILE, WIDTH
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.recurrence.digits import LANES, LAST, SINGLE, blocks
from anydml.kernels.recurrence.key import RowSource
from anydml.kernels.recurrence.rows import defined

SUMS = LAST + 1
PASSES = (range(4), range(4, SUMS))  # sums i + j of each
WEIGHT = COUNT - 1  # the register of weights' digits
OF_COLUMNS = SUMS * TILE
SHAPES = 2 * OF_COLUMNS  # where the memory of sums has the registers' shapes
MEMORY = SHAPES + 64


def products(target: Target, count: int) -> tuple[str, list[str]]:
    """`void @products{count}(rows, blocks, weights, columns, into, row, row_scales, scales, sums)`: sums of 16 rows.

    rows, weights: the digits, for `blocks` registers of terms; columns: in units of 16. into: float64, rows `row` bytes apart.
    sums: memory for them as integers.
    """
    body = Body(target)
    tile_registers.configure(body, body.at("%sums", SHAPES))
    filled = body.op(f"mul i64 %blocks, {SINGLE * TILE}")

    # rows for each block of terms, in units of 2^-16
    share = body.op(f"udiv i64 {body.op(f'add i64 %blocks, {(ROWS // 2 << 16) - 1}')}, %blocks")

    def combined(n: str, rows: tuple[str, str]) -> None:
        """Make float64 of rows of 16 columns."""
        first = body.op(f"mul i64 {n}, {8 * 2 * LANES}")
        _combined(body, _memory(body, n), body.at("%into", first), body.at("%scales", first), *rows)

    def column(n: str, _: list[Value]) -> list[Value]:
        weights, own = body.at("%weights", body.op(f"mul i64 {n}, {filled}")), _memory(body, n)
        before = body.op(f"sub i64 {n}, 1")
        begun = body.op(f"icmp ne i64 {n}, 0")
        for p, sums in enumerate(PASSES):

            def term(k: str, pointers: list[str], sums: range = sums, p: int = p) -> list[str]:
                after = _multiply(body, count, sums, pointers)
                ends = [body.op(f"lshr i64 {body.op(f'mul i64 {x}, {share}')}, 16") for x in (k, body.op(f"add i64 {k}, 1"))]
                ends = [body.call("llvm.umin.i64", Kind("i64"), f"i64 {x}", f"i64 {ROWS // 2}").name for x in ends]
                ends = [body.op(f"add i64 {x}, {ROWS // 2 * p}") for x in ends]
                end = body.op(f"select i1 {begun}, i64 {ends[1]}, i64 {ends[0]}")  # none, if there are no columns before
                combined(before, (ends[0], end))
                return after

            for register in range(len(sums)):
                tile_registers.clear(body, register)
            fold(body, "0", "%blocks", 1, [("ptr", "%rows"), ("ptr", weights)], term)
            for register, d in enumerate(sums):
                tile_registers.store(body, register, body.at(own, d * TILE))
        return []

    body.loop("0", "%columns", 1, [], column)
    combined(body.op("sub i64 %columns, 1"), ("0", str(ROWS)))
    tile_registers.release(body)
    body.do("ret void")
    head = "ptr %rows, i64 %blocks, ptr %weights, i64 %columns, ptr %into, i64 %row, ptr %row_scales, ptr %scales, ptr %sums"
    return defined(body, f"void @products{count}({head})"), [*body.declared, *tile_registers.DECLARATIONS]


def _memory(body: Body, n: str) -> str:
    """The sums of 16 columns as integers: those before are in other memory."""
    return body.at("%sums", body.op(f"mul i64 {body.op(f'and i64 {n}, 1')}, {OF_COLUMNS}"))


def _multiply(body: Body, count: int, sums: range, pointers: list[str]) -> list[str]:
    """Add the products of a register's terms.

    pointers: the digits of rows and of weights; those of the next terms are returned.
    """
    of_rows, of_weights = pointers

    def load(register: int, digits: str, digit: int) -> None:
        tile_registers.load(body, register, body.at(digits, digit * TILE))

    held = dict.fromkeys(range(len(sums), WEIGHT), -1)  # the digit of rows in each register
    for j in range(SINGLE):
        pairs = [i for i in range(count) if i + j in sums]
        if pairs:
            load(WEIGHT, of_weights, j)
        for i in reversed(pairs):  # the first digits are needed again
            if i not in held.values():
                place = max(held, key=lambda register: held[register] if held[register] >= 0 else count)
                held[place] = i
                load(place, of_rows, i)
            (place,) = (register for register, digit in held.items() if digit == i)
            tile_registers.multiply(body, i + j - sums.start, place, WEIGHT, (True, True))
    return [body.at(of_rows, count * TILE), body.at(of_weights, SINGLE * TILE)]


def _combined(body: Body, sums: str, into: str, scales: str, first: str, end: str) -> None:
    """Rows of the sums of registers as float64."""
    wide, fours = Kind("double", LANES), Kind("i32", LANES)
    by_column = [body.loaded(wide, scales, 8 * LANES * half) for half in range(2)]

    def row(r: str, _: list[Value]) -> list[Value]:
        place, to = body.at(sums, body.op(f"mul i64 {r}, {WIDTH}")), body.at(into, body.op(f"mul i64 {r}, %row"))
        by_row = body.splat(body.loaded(Kind("double"), "%row_scales", body.op(f"mul i64 {r}, 8")), LANES)
        for half, scale in enumerate(by_column):
            found = [body.loaded(fours, place, d * TILE + 4 * LANES * half) for d in range(SUMS)]
            *found, middle, last, least = found
            last = last + least.shifted_right(8, signed=True)  # without the last places
            found.append(middle + (last + 128).shifted_right(8, signed=True))
            total, *others = (x.converted("sitofp", wide) for x in found)
            for x in others:  # exact but for the last one
                total = body.fused(total, 256.0, x)
            body.stored(total * by_row * scale, to, 8 * LANES * half)
        return []

    body.loop(first, end, 1, [], row)


def added_up(body: Body, source: RowSource, n: int, count: str, plainly: str) -> None:
    """Compute the sums of `count` packed rows, 16 at a time: by digits, or plainly, by the function of that name, where a row
    or the weights have none."""
    tile = body.op(f"mul i64 %terms{n}, {8 * source.rows}")
    depth = blocks(body, f"%terms{n}")
    weights_have_none = body.op(f"icmp ne i64 {body.load('i64', f'%plain{n}')}, 0")

    def some(m: str, _: list[Value]) -> list[Value]:
        packed = body.at(f"%packed{n}", body.op(f"mul i64 {m}, {tile}"))
        into = body.at(f"%sums{n}", body.op(f"mul i64 {body.op(f'mul i64 {m}, {source.rows}')}, %sums_row{n}"))
        left = body.op(f"sub i64 {count}, {body.op(f'mul i64 {m}, {source.rows}')}")
        norms = body.at(f"%norms{n}", body.op(f"mul i64 {m}, {8 * source.rows}"))
        rows = f"ptr %row_digits{n}", f"ptr %row_scales{n}"
        given = f"ptr {packed}, i64 {tile}, i64 %terms{n}, i64 {left}, ptr {norms}, {rows[0]}, {rows[1]}"
        (without,) = body.either(
            weights_have_none,
            lambda: [body.constant(Kind("i64"), 1)],
            lambda: [body.value(f"call i64 @digits{source.digits}({given})", Kind("i64"))],
        )
        none = without.compared("ne", 0).name

        def by_digits() -> None:
            sums = f"ptr {into}, i64 %sums_row{n}, {rows[1]}, ptr %scales{n}, ptr %registers{n}"
            body.do(
                f"call void @products{source.digits}({rows[0]}, i64 {depth}, ptr %digits{n}, i64 %digit_columns{n}, {sums})"
            )

        def by_numbers() -> None:
            factor = Value(body, body.op(f"bitcast i64 %plainly{n} to double"), Kind("double"))
            for half in range(2):
                bound = body.loaded(Kind("double", LANES), norms, 8 * LANES * half)
                body.stored(bound * body.splat(factor, LANES), norms, 8 * LANES * half)
            tiles = body.op(f"udiv i64 {body.op(f'add i64 {left}, {source.rows - 1}')}, {source.rows}")
            tiles = body.call("llvm.umin.i64", Kind("i64"), f"i64 {tiles}", "i64 2").name
            values = (f"ptr {packed}", f"i64 {tile}", f"i64 {tiles}", f"ptr %panels{n}", f"i64 %panel{n}")
            more = (f"i64 %panel_count{n}", f"i64 %terms{n}", f"ptr {into}", f"i64 %sums_row{n}", f"i64 %depth{n}", "ptr %wide")
            body.do(f"call void @{plainly}({', '.join((*values, *more))})")

        when(body, body.op(f"xor i1 {none}, true"), by_digits)
        when(body, none, by_numbers)
        return []

    # two tiles at a time
    tiles = body.op(f"udiv i64 {body.op(f'add i64 {count}, {source.rows - 1}')}, {source.rows}")
    up = body.op(f"and i64 {body.op(f'add i64 {tiles}, 1')}, -2")
    body.loop("0", up, 2, [], some)
