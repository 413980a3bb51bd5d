"""Sorting in machine code. Items are integers whose high half is a key and whose low half is a position, so that all differ.

Few items are sorted by insertion, more of them by the digits of their keys, the lowest digit first (radix sort).
"""

from __future__ import annotations

from anydml.kernels.code.emit import along, fold, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body

FEW = 40  # items up to which they are sorted by insertion
RADIX = 256


def sort(target: Target, item: int, digits: int) -> str:
    """`ptr @sort(ptr items, ptr spare, ptr counts, i64 n)`, which returns the sorted items' address: items or spare.

    item: bits of an item. digits: the number of low bytes of a key that are sorted by. counts: digits * RADIX * 4 bytes.
    """
    body = Body(target)
    ends = body.op("alloca ptr, align 8"), body.op("alloca ptr, align 8")
    few = body.op(f"icmp ule i64 %n, {FEW}")

    def inserted() -> None:
        _inserted(body, item)
        body.do("ret ptr %items")
        body.label(body.name("dead"))

    when(body, few, inserted)
    _by_digits(body, item, digits, *ends)
    head = "define internal ptr @sort(ptr %items, ptr %spare, ptr %counts, i64 %n) noinline {"
    return "\n".join([head, "entry:", *body.lines, "}"])


def _at(body: Body, base: str, i: str, nbytes: int) -> str:
    return along(body, base, str(nbytes), i)


def _inserted(body: Body, item: int) -> None:
    nbytes, kind = item // 8, f"i{item}"

    def one(i: str, _: list[str]) -> list[str]:
        x = body.load(kind, _at(body, "%items", i, nbytes))
        before, head, compare, move, done = map(body.name, ("before", "head", "compare", "move", "done"))
        j, less = f"%{body.name('j')}", f"%{body.name('less')}"
        body.jump(before)
        body.label(before)
        body.jump(head)
        body.label(head)
        body.do(f"{j} = phi i64 [ {i}, %{before} ], [ {less}, %{move} ]")
        body.branch(body.op(f"icmp eq i64 {j}, 0"), done, compare)
        body.label(compare)
        body.do(f"{less} = sub i64 {j}, 1")
        y = body.load(kind, _at(body, "%items", less, nbytes))
        body.branch(body.op(f"icmp ugt {kind} {y}, {x}"), move, done)
        body.label(move)
        body.store(kind, y, _at(body, "%items", j, nbytes))
        body.jump(head)
        body.label(done)
        body.store(kind, x, _at(body, "%items", j, nbytes))
        return []

    fold(body, "1", "%n", 1, [], one)


def _by_digits(body: Body, item: int, digits: int, from_: str, to: str) -> None:
    """Sort by digits. from_, to: variables that hold the address of the items and that of the next pass's output."""
    nbytes, kind = item // 8, f"i{item}"
    body.do(f"store ptr %items, ptr {from_}, align 8")
    body.do(f"store ptr %spare, ptr {to}, align 8")
    tables = [body.at("%counts", d * RADIX * 4) for d in range(digits)]

    def cleared(i: str, _: list[str]) -> list[str]:
        body.store("<4 x i32>", "zeroinitializer", _at(body, "%counts", i, 4))
        return []

    fold(body, "0", str(digits * RADIX), 4, [], cleared)

    def digit(x: str, d: int) -> str:
        shifted = body.op(f"lshr {kind} {x}, {item // 2 + 8 * d}")
        return body.op(f"zext i8 {body.op(f'trunc {kind} {shifted} to i8')} to i64")

    def counted(i: str, _: list[str]) -> list[str]:
        x = body.load(kind, _at(body, "%items", i, nbytes))
        for d, table in enumerate(tables):
            place = _at(body, table, digit(x, d), 4)
            body.store("i32", body.op(f"add i32 {body.load('i32', place)}, 1"), place)
        return []

    fold(body, "0", "%n", 1, [], counted)
    first = body.load(kind, "%items")
    for d, table in enumerate(tables):
        same = body.load("i32", _at(body, table, digit(first, d), 4))
        differ = body.op(f"icmp ne i64 {body.op(f'zext i32 {same} to i64')}, %n")

        def placed(d: int = d, table: str = table) -> None:
            def begun(i: str, sums: list[str]) -> list[str]:
                place = _at(body, table, i, 4)
                more = body.load("i32", place)
                body.store("i32", sums[0], place)
                return [body.op(f"add i32 {sums[0]}, {more}")]

            fold(body, "0", str(RADIX), 1, [("i32", "0")], begun)
            source, into = (body.op(f"load ptr, ptr {p}, align 8") for p in (from_, to))

            def moved(i: str, _: list[str]) -> list[str]:
                x = body.load(kind, _at(body, source, i, nbytes))
                place = _at(body, table, digit(x, d), 4)
                where = body.load("i32", place)
                body.store("i32", body.op(f"add i32 {where}, 1"), place)
                body.store(kind, x, _at(body, into, body.op(f"zext i32 {where} to i64"), nbytes))
                return []

            fold(body, "0", "%n", 1, [], moved)
            body.do(f"store ptr {into}, ptr {from_}, align 8")
            body.do(f"store ptr {source}, ptr {to}, align 8")

        when(body, differ, placed)
    body.do(f"ret ptr {body.op(f'load ptr, ptr {from_}, align 8')}")
