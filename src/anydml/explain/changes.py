"""Mistaken inputs of a product, as changes to the right ones; each gives None if there is nothing to change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

Inputs = Mapping[str, Any]  # a, b, a_scale, .., output_zero_point as arrays of three dimensions; output_data_type


class Deviation(NamedTuple):
    """A row of a table. rounding: whether it concerns arithmetic or rounding after the accumulators."""

    name: str
    sentence: str
    function: Callable[..., Any]
    rounding: bool = False


def _without(*names: str) -> Callable[[Inputs], Inputs | None]:
    def change(p: Inputs) -> Inputs | None:
        present = {name: np.zeros_like(p[name]) for name in names if name in p and p[name].any()}
        return {**p, **present} if len(present) == len(names) else None

    return change


def _exchanged(one: str, other: str) -> Callable[[Inputs], Inputs | None]:
    def change(p: Inputs) -> Inputs | None:
        if one not in p or other not in p:
            return None
        rows, columns = p["a"].shape[-2], p["b"].shape[-1]
        changed = {}
        for to, source in ((one, p[other]), (other, p[one])):
            transposed = source.swapaxes(-2, -1) if "b_zero_point" in (one, other) else source
            if to == "b_zero_point" and transposed.shape[-1] not in (1, columns):
                return None
            if to != "b_zero_point" and transposed.shape[-2] not in (1, rows):
                return None
            changed[to] = transposed
        return {**p, **changed}

    return change


def _other_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.uint8 if dtype == np.int8 else np.int8)


def _reread(*names: str) -> Callable[[Inputs], Inputs | None]:
    """These inputs with their bytes read as the other of int8 and uint8."""

    def change(p: Inputs) -> Inputs | None:
        if not all(p[name].any() for name in names[1:]):
            return None
        return {**p, **{name: p[name].view(_other_type(p[name].dtype)) for name in names}}

    return change


def _output_reread(p: Inputs) -> Inputs | None:
    if "output_zero_point" not in p:
        return None
    dtype = p["output_data_type"]
    zero_point = p["output_zero_point"].astype(dtype).view(_other_type(dtype))
    return {**p, "output_zero_point": zero_point, "output_data_type": _other_type(dtype)}


def _without_bias(p: Inputs) -> Inputs | None:
    return {name: x for name, x in p.items() if name != "bias"} if "bias" in p and p["bias"].any() else None


def _transposed(*names: str) -> Callable[[Inputs], Inputs | None]:
    """Matrices with their elements read as if they were stored column by column; a square one is transposed."""

    def change(p: Inputs) -> Inputs | None:
        if any(1 in p[name].shape[-2:] for name in names):
            return None
        transposed = {}
        for name in names:
            lead, rows, columns = p[name].shape
            transposed[name] = np.ascontiguousarray(p[name]).reshape(lead, columns, rows).swapaxes(-2, -1)
        return {**p, **transposed}

    return change


def _along_the_other_axis(name: str) -> Callable[[Inputs], Inputs | None]:
    def change(p: Inputs) -> Inputs | None:
        if name not in p or p["a"].shape[-2] != p["b"].shape[-1] or p[name].shape[-2:] == (1, 1):
            return None
        return {**p, name: p[name].swapaxes(-2, -1)}

    return change


NO_BIAS = Deviation("no_bias", "the product without the bias", _without_bias)  # of convolutions

PRODUCT_INPUTS = (
    Deviation("b_transposed", "the product with B transposed", _transposed("b")),
    Deviation("a_transposed", "the product with A transposed", _transposed("a")),
    Deviation("both_transposed", "the product with A and B transposed", _transposed("a", "b")),
    Deviation("no_a_zero_point", "the product without A's zero point", _without("a_zero_point")),
    Deviation("no_b_zero_point", "the product without B's zero point", _without("b_zero_point")),
    Deviation(
        "no_input_zero_points", "the product without the zero points of A and B", _without("a_zero_point", "b_zero_point")
    ),
    Deviation("no_output_zero_point", "the product without the output's zero point", _without("output_zero_point")),
    Deviation(
        "no_zero_points",
        "the product without any zero point",
        _without("a_zero_point", "b_zero_point", "output_zero_point"),
    ),
    Deviation(
        "a_and_b_zero_points_swapped",
        "the product with the zero points of A and B swapped",
        _exchanged("a_zero_point", "b_zero_point"),
    ),
    Deviation(
        "a_and_output_zero_points_swapped",
        "the product with the zero points of A and the output swapped",
        _exchanged("a_zero_point", "output_zero_point"),
    ),
    Deviation(
        "b_and_output_zero_points_swapped",
        "the product with the zero points of B and the output swapped",
        _exchanged("b_zero_point", "output_zero_point"),
    ),
    Deviation("a_signedness", "the product with A's bytes read in the other signedness", _reread("a")),
    Deviation("b_signedness", "the product with B's bytes read in the other signedness", _reread("b")),
    Deviation(
        "a_and_zero_point_signedness",
        "the product with the bytes of A and its zero point read in the other signedness",
        _reread("a", "a_zero_point"),
    ),
    Deviation(
        "b_and_zero_point_signedness",
        "the product with the bytes of B and its zero point read in the other signedness",
        _reread("b", "b_zero_point"),
    ),
    Deviation("output_signedness", "results quantised in the other signedness", _output_reread),
    Deviation(
        "a_scale_per_column",
        "the product with A's scales of rows applied to columns",
        _along_the_other_axis("a_scale"),
    ),
    Deviation(
        "b_scale_per_row",
        "the product with B's scales of columns applied to rows",
        _along_the_other_axis("b_scale"),
    ),
    Deviation(
        "output_scale_per_column",
        "the product with the output's scales of rows applied to columns",
        _along_the_other_axis("output_scale"),
    ),
)
