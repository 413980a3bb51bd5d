"""Statements whose elements are moved in layers: a constant first, then elements over it."""

from __future__ import annotations

from anydml.kernels.match.bands import NO_BAND, bands
from anydml.kernels.match.dilated import dilated
from anydml.kernels.match.moves import Move
from anydml.schema.statement import Statement
from anydml.tensor import DataType


def layers(statement: Statement, data_type: DataType) -> list[Move] | str:
    """The moves in order, each over those before; or the reason why a statement is of another kind. data_type: the output's."""
    found = bands(statement, data_type)
    return dilated(statement) if found == NO_BAND else found
