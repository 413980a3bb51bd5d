"""Statements that only move elements or store indices: their arithmetic is of indices, comparisons and sorting."""

from __future__ import annotations

from anydml.schema.node import Expr
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import reads_in, walk

_ARITHMETIC = {"add", "sub", "mul", "neg", "max", "min", "floordiv", "mod"}
_COMPARISONS = {"less", "less_equal", "equal"}
_OTHERS = {"variable", "constant", "select", "position", "both", "either", "not"}

COMPUTED = "elements are computed, not moved"


def looked_up(statement: Statement) -> str | None:
    """The reason why a statement is not of this kind; None if it is."""
    for nest in statement.values():
        if not (_moves(nest) if nest.moves else _counts(nest.body)):
            return COMPUTED
        for e in walk(nest.body):
            if not _fits(e):
                return f"{e.op} is computed from elements"
    return None


def _moves(nest: Nest) -> bool:
    return bool(reads_in(nest.body))


def _counts(e: Expr) -> bool:
    """Whether a number is an index or a count."""
    if e.op == "select":
        return all(map(_counts, e.args[1:]))
    return e.op in ("position", "reduce") or (e.op == "constant" and e.data.integral)


def _fits(e: Expr) -> bool:
    if e.op == "read":
        tensor, outside = e.data
        return outside != "skipped" and tensor.definition is None and tensor.data_type.element_bits >= 8
    if e.op in _ARITHMETIC:
        return e.sort == "index"
    if e.op in _COMPARISONS:
        integers = all(a.sort == "index" or _counts(a) or _is_integer_read(a) for a in e.args)
        return (integers and not all(a.op == "read" for a in e.args)) or _asks_for_zero(e)
    if e.op == "index":
        return _is_integer_read(e.args[0])
    if e.op == "reduce":
        return e.data[0] == "sum" and len(e.args) == 1 and _counts(e.args[0])
    if e.op == "rank":
        return e.args[0].op == "read" or _counts(e.args[0])
    return e.op in _OTHERS


def _is_integer_read(e: Expr) -> bool:
    return e.op == "read" and e.data[0].data_type.is_integer


def _asks_for_zero(e: Expr) -> bool:
    return e.op == "equal" and e.args[0].op == "read" and e.args[1].op == "constant" and e.args[1].data.value == 0
