"""Statements with several outputs, each a reduction of rows or a map, and at least one of them a reduction."""

from __future__ import annotations

from anydml.kernels.match.maps import Map, maps
from anydml.kernels.match.rows import Rows, rows
from anydml.schema.statement import Statement


def several(statement: Statement) -> dict[str, Rows | Map] | str:
    """The outputs by name, or the reason why the statement is not of this kind."""
    found: dict[str, Rows | Map] = {}
    for name, nest in statement.items():
        r = rows({name: nest})
        if not isinstance(r, str):
            found[name] = r
            continue
        m = maps({name: nest})
        if isinstance(m, str):
            return f"{name}: {r}, and {m}"
        (found[name],) = m
    return found if any(isinstance(f, Rows) for f in found.values()) else "no output reduces rows"
