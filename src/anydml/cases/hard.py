"""Inputs at which kernels go wrong, for any operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from anydml.cases.elements import KINDS, Kind, elements
from anydml.cases.ties import move_to_ties
from anydml.functional.describing import described
from anydml.schema.field import INPUT
from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc

Array = NDArray[Any]

PLACES = ("indices", "sequence_lengths", "batch_indices", "training_step", "mask", "condition")
"""Parts of the names of inputs that are positions, lengths or truth values: their elements stay small or as given."""
MOST_PLACE = 4


def hard_inputs(
    function_or_desc: Callable[..., Any] | Desc, seed: int, /, *arguments: Any, kind: Kind = "ties", **keywords: Any
) -> dict[str, Array]:
    """Inputs of an operator at which kernels go wrong; the same for the same seed.

    `hard_inputs(desc, seed)` returns arrays by field name, as `compare` and `bind` take them. `hard_inputs(function, seed,
    *arguments)` takes an eager call's arguments, and returns those that are arrays by name, with new elements in their sizes
    and data types: `function(**{**keywords, **hard_inputs(function, seed, **keywords)})`.

    kind: "ties", exact results at a rounding boundary or next to one; "cancel", sums that nearly cancel; "range", all
    magnitudes from subnormal to huge; "special", NaN, infinities, zeros of both signs, the limits of the types. Indices and
    lengths stay as they are given, or are small. DescError, BindingError: as of the call.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}, and may be {', '.join(map(repr, KINDS))}")
    random = np.random.default_rng([seed, KINDS.index(kind)])
    if isinstance(function_or_desc, Desc):
        return _of_desc(function_or_desc, kind, random)
    return _of_call(function_or_desc, kind, random, arguments, keywords)


def _of_desc(desc: Desc, kind: Kind, random: np.random.Generator) -> dict[str, Array]:
    sign = bool(random.integers(2))
    bases, views = {}, {}
    first = True
    for found in desc.tensors():
        if found.field.role != INPUT:
            continue
        t = found.desc
        if t.data_type.element_bits == 4:
            views[found.name] = random.integers(0, 256, t.element_bytes).astype(np.uint8)
            continue
        held, logical, view = _memory(t)
        logical[...] = _drawn(found.name, t.data_type.dtype, logical.shape, kind, random, sign == first)
        first = False
        _kept_rules(desc, found.field.wire, logical)
        bases[found.name], views[found.name] = held, view
    if kind == "ties" and len(bases) == len(views):
        move_to_ties(desc, _floats(bases), views, random)
    return views


def _memory(t: TensorDesc) -> tuple[Array, Array, Array]:
    """An array of all elements in memory; those that are not repeated by strides of 0; and all, in the desc's strides."""
    strides = t.explicit_strides
    held = np.zeros(1 + sum((n - 1) * s for n, s in zip(t.sizes, strides, strict=True)), t.data_type.dtype)
    in_bytes = [s * held.itemsize for s in strides]
    once = [1 if s == 0 else n for n, s in zip(t.sizes, strides, strict=True)]
    return held, as_strided(held, once, in_bytes), as_strided(held, t.sizes, in_bytes)


def _of_call(
    function: Callable[..., Any],
    kind: Kind,
    random: np.random.Generator,
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
) -> dict[str, Array]:
    bound = inspect.signature(function).bind(*arguments, **keywords).arguments
    given = {name: x for name, x in bound.items() if isinstance(x, (np.ndarray, np.generic))}
    if not given:
        raise TypeError("hard_inputs of a function takes the arguments of a call, with arrays whose elements are replaced")
    sign = bool(random.integers(2))
    made: dict[str, Array] = {}
    for i, (name, x) in enumerate(given.items()):
        place = any(word in name for word in PLACES)
        made[name] = np.array(x) if place else _drawn(name, x.dtype, x.shape, kind, random, sign == (i == 0))
    call = described(function, **{**bound, **made})
    wires = {found.name: found.field.wire for found in call.desc.tensors()}
    for field, view in call.inputs.items():
        for x in made.values():
            if np.shares_memory(view, x):
                _kept_rules(call.desc, wires[field], x)
    if kind == "ties":
        bases = {field: x for field, view in call.inputs.items() for x in made.values() if np.shares_memory(view, x)}
        move_to_ties(call.desc, _floats(bases), call.inputs, random)
    return made


def _drawn(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], kind: Kind, random: np.random.Generator, sign: bool
) -> Array:
    if any(word in name for word in PLACES):
        return random.integers(0, MOST_PLACE, shape).astype(dtype)
    made = elements(dtype, shape, kind, random, sign)
    if "scale" in name and dtype.kind == "f" and kind != "special":
        made = np.abs(made)
        if kind == "range":  # products of several scales stay finite
            made = np.ldexp(1, np.clip(np.frexp(made)[1], -30, 30) // 3).astype(dtype)
    return np.array(made)


def _kept_rules(desc: Desc, wire: str, x: Array) -> None:
    """Replace elements that break a data rule by ones that keep it."""
    for rule in desc.spec.data_rules:
        for fit in (1, 0, 2) if wire in rule.tensors else ():
            x[rule.breaks(desc, x)] = fit


def _floats(bases: Mapping[str, Array]) -> dict[str, Array]:
    return {name: x for name, x in bases.items() if x.dtype.kind == "f" and not any(word in name for word in PLACES)}
