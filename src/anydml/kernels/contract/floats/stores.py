"""Stores of some lanes of a vector, and entries of lists of undecided elements."""

from __future__ import annotations

from anydml.kernels.code.values import Body, Kind, Value


def masked_store(body: Body, made: Value, at: str, mask: Value) -> None:
    """Store the lanes of a vector that the mask selects."""
    kind = made.kind
    name = f"llvm.masked.store.v{kind.lanes}{kind.element}.p0"
    body.declared[f"declare void @{name}({kind.text}, ptr, i32, <{kind.lanes} x i1>)"] = None
    body.do(f"call void @{name}({made!r}, ptr {at}, i32 1, {mask!r})")


def listed(body: Body, row: str, column: str, bits: str) -> None:
    """Append the lanes whose bits are set to the list: the row in the upper 32 bits of an entry, the column in the lower."""
    count = Value(body, body.load("i64", "%counter"), Kind("i64"))
    there = body.call("llvm.ctpop.i64", Kind("i64"), f"i64 {bits}")

    def one(_: str, left: list[Value]) -> list[Value]:
        lane = body.call("llvm.cttz.i64", Kind("i64"), left[0], "i1 true")
        entry = body.op(f"or i64 {body.op(f'shl i64 {row}, 32')}, {body.op(f'add i64 {column}, {lane.name}')}")
        body.store("i64", entry, "%list", (left[1] * 8).name)
        return [left[0] & (left[0] - 1), left[1] + 1]

    _, (_, after) = body.loop("0", there.name, 1, [Value(body, bits, Kind("i64")), count], one)
    body.stored(after, "%counter")
