"""Rows of elements, and of numbers: copied, and packed as factors of sums with their norms."""

from __future__ import annotations

from anydml.kernels.code.emit import when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.packed.rows import AT_ONCE, NORM_SLACK, SQUARES, norm, transposed
from anydml.kernels.contract.floats.second.compensated import wide
from anydml.kernels.numbers import singles
from anydml.tensor import DataType


def defined(body: Body, head: str) -> str:
    """The function with this head and the body written so far."""
    return "\n".join([f"define internal {head} noinline {{", "entry:", *body.lines, "}"])


DEPTH = 64  # terms in a block of a sum: errors grow with this number


def sums(target: Target, rows: int, across: int, widened: bool) -> tuple[str, list[str]]:
    """`void @sums_{rows}_{across}(..)`: the products of packed rows and panels, a block of DEPTH terms at a time."""
    body = Body(target)
    body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None

    def part(n: str, _: list[Value]) -> list[Value]:
        first = body.op(f"mul i64 {n}, %depth")
        left = body.op(f"sub i64 %terms, {first}")
        count = body.call("llvm.umin.i64", Kind("i64"), f"i64 {left}", "i64 %depth").name
        tile.block(body, rows, across, first, count, ahead="0", widened=widened)
        return []

    rest = body.op("sub i64 %depth, 1")
    parts = body.op(f"udiv i64 {body.op(f'add i64 %terms, {rest}')}, %depth")
    body.loop("0", parts, 1, [], part)
    body.do("ret void")
    arguments = "ptr %a, i64 %a_tile, i64 %tiles, ptr %b, i64 %b_panel, i64 %panels, i64 %terms, ptr %sums, i64 %sums_row"
    return defined(body, f"void @sums_{rows}_{across}({arguments}, i64 %depth, ptr %wide)"), [*body.declared]


def packed(target: Target, data_type: DataType, name: str) -> tuple[str, list[str]]:
    """`void @{name}(from, step, n, into, apart, norm)`: n elements as float64, `apart` bytes apart, and their norm."""
    body, size = Body(target), data_type.dtype.itemsize
    element, double = f"i{8 * size}", Kind("double")

    def number(bits: Value) -> Value:
        return bits.cast(bits.kind.of("double")) if size == 8 else wide(bits, data_type)

    squares = body.constant(Kind("double", AT_ONCE), 0.0)

    def several(k: str, carried: list[Value]) -> list[Value]:
        x = number(body.loaded(Kind(element, AT_ONCE), body.at("%from", body.op(f"mul i64 {k}, {size}"))))
        to = body.at("%into", body.op(f"mul i64 {k}, %apart"))
        dense, apart, after = (body.name(label) for label in ("dense", "apart", "after"))
        body.branch(body.op("icmp eq i64 %apart, 8"), dense, apart)
        body.label(dense)
        body.stored(x, to)
        body.jump(after)
        body.label(apart)
        for lane in range(AT_ONCE):
            body.stored(x.lane(lane), to)
            to = body.at(to, "%apart")
        body.jump(after)
        body.label(after)
        return [body.fused(x, x, carried[0])]

    near = body.op(f"icmp eq i64 %step, {size}")
    together = body.op(f"select i1 {near}, i64 %n, i64 0")
    begun, (found,) = body.loop("0", together, AT_ONCE, [squares], several)
    total = found.lane(0)
    for lane in range(1, AT_ONCE):
        total = total + found.lane(lane)

    def single(k: str, carried: list[Value]) -> list[Value]:
        x = number(body.loaded(Kind(element), body.at("%from", body.op(f"mul i64 {k}, %step"))))
        body.stored(x, "%into", body.op(f"mul i64 {k}, %apart"))
        return [carried[0] + x * x]

    _, (total,) = body.loop(begun, "%n", 1, [total], single)
    body.stored(total.root() * NORM_SLACK, "%norm")
    body.do("ret void")
    assert double == total.kind
    head = f"void @{name}(ptr %from, i64 %step, i64 %n, ptr %into, i64 %apart, ptr %norm)"
    return defined(body, head), [*body.declared]


def dots(target: Target, data_type: DataType) -> tuple[str, list[str]]:
    """`void @dots(from, n, weights, unit, units, sums, columns)`: the products of a packed row and the weights of units, and
    the norms of these.

    The weights of a unit are contiguous; each register holds a part of a sum.
    """
    body, size, lanes = Body(target), data_type.dtype.itemsize, target.vector_bytes // 8
    double, wide_kind = Kind("double"), Kind("double", lanes)
    many = 8 if target.vector_bytes == 64 else 4
    last = body.op("sub i64 %units, 1")

    def group(g: str, _: list[Value]) -> list[Value]:
        at = []
        for m in range(many):
            unit = body.call("llvm.umin.i64", Kind("i64"), f"i64 {body.op(f'add i64 {g}, {m}')}", f"i64 {last}").name
            at.append(body.at("%weights", body.op(f"mul i64 {unit}, %unit")))

        def terms(k: str, carried: list[Value], kind: Kind) -> list[Value]:
            x = body.loaded(kind, "%from", body.op(f"mul i64 {k}, 8"))
            offset, made = body.op(f"mul i64 {k}, {size}"), []
            for row, (total, square) in zip(at, zip(carried[::2], carried[1::2], strict=True), strict=True):
                w = wide(body.loaded(Kind(f"i{8 * size}", kind.lanes), body.at(row, offset)), data_type)
                made += [body.fused(w, x, total), body.fused(w, w, square)]
            return made

        start = [body.constant(wide_kind, x) for x in (-0.0, 0.0)] * many
        begun, found = body.loop("0", "%n", lanes, start, lambda k, carried: terms(k, carried, wide_kind))
        alone = [_added(x) for x in found]
        alone = body.loop(begun, "%n", 1, alone, lambda k, carried: terms(k, carried, double))[1]
        for m in range(many):
            there = body.op(f"icmp ult i64 {body.op(f'add i64 {g}, {m}')}, %units")
            place = body.op(f"mul i64 {body.op(f'add i64 {g}, {m}')}, 8")

            def store(m: int = m, place: str = place) -> None:
                body.stored(alone[2 * m], "%sums", place)
                body.stored(alone[2 * m + 1].root() * NORM_SLACK, "%columns", place)

            when(body, there, store)
        return []

    up = body.op(f"and i64 {body.op(f'add i64 %units, {many - 1}')}, {-many}")
    body.loop("0", up, many, [], group)
    body.do("ret void")
    head = "void @dots(ptr %from, i64 %n, ptr %weights, i64 %unit, i64 %units, ptr %sums, ptr %columns)"
    return defined(body, head), [*body.declared]


def _added(x: Value) -> Value:
    """The sum of all lanes."""
    body, count = x.body, x.kind.lanes
    while count > 1:
        count //= 2
        halves_of = []
        for first in (0, count):
            mask = ", ".join(f"i32 {first + lane}" for lane in range(count))
            text = f"shufflevector {x!r}, {x!r}, <{count} x i32> <{mask}>"
            halves_of.append(body.value(text, Kind(x.kind.element, count)))
        x = halves_of[0] + halves_of[1]
    return x.lane(0)


def tiled(target: Target, data_type: DataType, name: str) -> tuple[str, list[str]]:
    """`void @{name}(from, row, n, into, norms)`: eight rows of n contiguous elements as a tile of float64, and their norms."""
    body, size = Body(target), data_type.dtype.itemsize
    kind, wide_kind = Kind(f"i{8 * size}", AT_ONCE), Kind("double", AT_ONCE)
    rows = [body.at("%from", body.op(f"mul i64 %row, {m}")) for m in range(AT_ONCE)]

    def read(bits: Value) -> Value:
        return bits.cast(bits.kind.of("double")) if data_type == DataType.FLOAT64 else singles.widened(bits, data_type)

    def put(k: str, columns: list[Value], squares: list[Value]) -> list[Value]:
        made, to = list(squares), body.at("%into", body.op(f"mul i64 {k}, {8 * AT_ONCE}"))
        for n, column in enumerate(columns):
            x = column.converted("fpext", wide_kind)
            body.stored(x, to, 8 * AT_ONCE * n)
            made[n % SQUARES] = body.fused(x, x, made[n % SQUARES])
        return made

    def several(k: str, squares: list[Value]) -> list[Value]:
        offset = body.op(f"mul i64 {k}, {size}")
        return put(k, transposed([read(body.loaded(kind, body.at(row, offset))) for row in rows]), squares)

    def one(k: str, squares: list[Value]) -> list[Value]:
        offset, column = body.op(f"mul i64 {k}, {size}"), body.undefined(kind)
        for m, row in enumerate(rows):
            column = column.replaced(m, body.loaded(Kind(kind.element), body.at(row, offset)))
        return put(k, [read(column)], squares)

    begun, squares = body.loop("0", "%n", AT_ONCE, [body.constant(wide_kind, 0.0)] * SQUARES, several)
    body.stored(norm(body.loop(begun, "%n", 1, squares, one)[1]), "%norms")
    body.do("ret void")
    return defined(body, f"void @{name}(ptr %from, i64 %row, i64 %n, ptr %into, ptr %norms)"), [*body.declared]


def copied(target: Target, data_type: DataType) -> tuple[str, list[str]]:
    """`void @copied(from, step, n, into, apart)`: n elements to another place; zeros where `from` is no address."""
    body = Body(target)
    element, size = Kind(f"i{data_type.element_bits}"), data_type.dtype.itemsize
    lanes = target.vector_bytes // size
    zero = body.constant(element, 0)
    read, clear = body.name("read"), body.name("clear")
    body.branch(body.op("icmp eq ptr %from, null"), clear, read)
    body.label(clear)

    def none(k: str, _: list[Value]) -> list[Value]:
        body.stored(zero, "%into", body.op(f"mul i64 {k}, %apart"))
        return []

    body.loop("0", "%n", 1, [], none)
    body.do("ret void")
    body.label(read)

    def one(k: str, _: list[Value]) -> list[Value]:
        x = body.loaded(element, "%from", body.op(f"mul i64 {k}, %step"))
        body.stored(x, "%into", body.op(f"mul i64 {k}, %apart"))
        return []

    def several(k: str, _: list[Value]) -> list[Value]:
        at = body.op(f"mul i64 {k}, {size}")
        body.stored(body.loaded(Kind(element.element, lanes), "%from", at), "%into", at)
        return []

    dense = [body.op(f"icmp eq i64 %{x}, {size}") for x in ("step", "apart")]
    together = body.op(f"select i1 {body.op(f'and i1 {dense[0]}, {dense[1]}')}, i64 %n, i64 0")
    begun, _ = body.loop("0", together, lanes, [], several)
    body.loop(begun, "%n", 1, [], one)
    body.do("ret void")
    return defined(body, "void @copied(ptr %from, i64 %step, i64 %n, ptr %into, i64 %apart)"), [*body.declared]
