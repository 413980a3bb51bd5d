"""Stores of some lanes of a vector, and entries of lists of undecided elements."""

from __future__ import annotations

from anydml.kernels.code.values import Body, Value
from anydml.kernels.undecided.lists import UndecidedList, each_bit


def masked_store(body: Body, made: Value, at: str, mask: Value) -> None:
    """Store the lanes of a vector that the mask selects."""
    kind = made.kind
    name = f"llvm.masked.store.v{kind.lanes}{kind.element}.p0"
    body.declared[f"declare void @{name}({kind.text}, ptr, i32, <{kind.lanes} x i1>)"] = None
    body.do(f"call void @{name}({made!r}, ptr {at}, i32 1, {mask!r})")


def list_of(body: Body) -> UndecidedList:
    """The list of a kernel of contractions. An entry is a word: the row in the upper 32 bits, the column in the lower."""
    return UndecidedList(body, 1, "%counter")


def listed(body: Body, row: str, column: str, bits: str) -> None:
    """Append the lanes whose bits are set to the list."""
    high = body.op(f"shl i64 {row}, 32")

    def put(lane: str) -> None:
        list_of(body).append(body.op(f"or i64 {high}, {body.op(f'add i64 {column}, {lane}')}"))

    each_bit(body, bits, put)
