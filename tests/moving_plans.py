"""Plans for operators that move elements or look for them. Valid by construction, as those of `generators`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hypothesis import strategies as st

from anydml import FeatureLevel, operators
from by_kinds import Plain, Plan, planned


def by_kinds(draw: st.DrawFn, name: str, level: FeatureLevel) -> Plan:
    operator = operators.find(name)
    assert operator is not None
    return planned(draw, operator, level)


def tile(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "TILE", level)
    rank = len(plan["input_tensor"].sizes)
    repeated = {draw(st.integers(0, rank - 1)) for _ in range(2)}  # that it stays small
    return plan | {"repeats": tuple(draw(st.integers(1, 3)) if a in repeated else 1 for a in range(rank))}


def blocks(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    plan = by_kinds(draw, name, level)
    block, n, c, h, w = (draw(st.integers(1, most)) for most in (3, 2, 3, 3, 3))
    deep = name.startswith("DEPTH")
    sizes = (n, c * block**2, h, w) if deep else (n, c, h * block, w * block)
    return plan | {"input_tensor": Plain(plan["input_tensor"].data_type, sizes), "block_size": block}


def places(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """Of ARGMAX or ARGMIN: the output's type is any of indices."""
    plan = by_kinds(draw, name, level)
    operator = operators.find(name)
    assert operator is not None
    data_type = draw(st.sampled_from(operator.spec.table[level]["OutputTensor"].data_types))
    sizes = tuple(1 if a in plan["axes"] else n for a, n in enumerate(plan["input_tensor"].sizes))
    return plan | {"output_tensor": Plain(data_type, sizes)}


BLOCKS = ("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH", "SPACE_TO_DEPTH1")

GENERATORS: Mapping[str, Callable[[st.DrawFn, FeatureLevel], Plan]] = {
    **{name: partial(blocks, name=name) for name in BLOCKS},
    **{name: partial(places, name=name) for name in ("ARGMAX", "ARGMIN")},
    "TILE": tile,
}
