"""Operators compiled for comparisons, of which the last ones are kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from anydml.devices.compiled import CompiledOperator
from anydml.devices.device import named
from anydml.feature_level import FeatureLevel
from anydml.schema.operator import Desc
from anydml.schema.statement import Nest, stated

KEPT = 16


@lru_cache(KEPT)
def statements(desc: Desc) -> Mapping[str, Nest]:
    """The statement of an operator, by output; traced once, so that all comparisons have the same nodes."""
    return stated(desc)


@lru_cache(KEPT)
def compiled(desc: Desc) -> CompiledOperator:
    """The operator on the cpu; comparisons are not bound to DirectML's levels."""
    return named("cpu", FeatureLevel.EXTENDED).compile(desc)
