"""Attention in every form of its inputs and with every mask, with ordinary and hostile data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hostile_data
from anydml import TensorDesc, operators
from anydml.schema.operator import Desc

MASKS = ("NONE", "KEY_SEQUENCE_LENGTH", "KEY_SEQUENCE_END_START", "KEY_QUERY_SEQUENCE_LENGTH_START_END", "BOOLEAN")
FORMS = ("apart", "query_key", "key_value", "all", "past", "joined", "lengths")
Arrays = dict[str, NDArray[Any]]


def made(
    rng: np.random.Generator, form: str, mask: str = "NONE", dtype: Any = np.float32, batch: int = 2, queries: int = 5,
    keys: int = 7, size: int = 9, value_size: int = 11, heads: int = 2, groups: int = 2, past: int = 3, *, bias: bool = False,
    term: bool = False, present: bool = False,
) -> tuple[Arrays, Arrays, dict[str, Any]]:  # fmt: skip
    """The inputs, outputs and attributes of one form."""

    def floats(*sizes: int) -> NDArray[Any]:
        return rng.standard_normal(sizes).astype(dtype)

    if form in ("query_key", "all"):
        groups, keys = 1, queries
    if form in ("key_value", "all"):
        value_size = size
    many = heads * groups
    inputs: Arrays = {}
    if form in ("query_key", "all"):
        parts, name = (2, "stacked_query_key_tensor") if form == "query_key" else (3, "stacked_query_key_value_tensor")
        inputs[name] = floats(batch, queries, many, parts, size)
    else:
        inputs["query_tensor"] = floats(batch, queries, many * size)
    if form in ("apart", "joined", "lengths"):
        inputs["key_tensor"] = floats(batch, keys, heads * size)
    if form == "key_value":
        inputs["stacked_key_value_tensor"] = floats(batch, keys, heads, 2, size)
    if form in ("apart", "query_key", "joined", "lengths"):
        inputs["value_tensor"] = floats(batch, keys, heads * value_size)
    total = keys
    if form in ("past", "joined", "lengths"):
        inputs["past_key_tensor"] = floats(batch, heads, past, size)
        inputs["past_value_tensor"] = floats(batch, heads, past, value_size)
        total = past + (0 if form == "past" else keys)
    if form == "lengths":
        inputs["past_sequence_lengths_tensor"] = rng.integers(-1, past + 2, batch).astype(np.int32)
    if bias:
        inputs["bias_tensor"] = floats(many * size + heads * (size + value_size))
    if term:
        inputs["relative_position_bias_tensor"] = floats(batch, many, queries, total)
    sizes = {"KEY_SEQUENCE_LENGTH": (1, batch), "KEY_SEQUENCE_END_START": (2, batch),
             "KEY_QUERY_SEQUENCE_LENGTH_START_END": (3 * batch + 2,), "BOOLEAN": (batch, 1, queries, total)}  # fmt: skip
    if mask != "NONE":
        inputs["mask_tensor"] = rng.integers(0, 2 if mask == "BOOLEAN" else total + 1, sizes[mask]).astype(np.int32)
    outputs = {"output_tensor": np.full((batch, queries, many * value_size), 85, dtype)}
    if present:
        outputs["output_present_key_tensor"] = np.full((batch, heads, total, size), 85, dtype)
        outputs["output_present_value_tensor"] = np.full((batch, heads, total, value_size), 85, dtype)
    return inputs, outputs, dict(scale=size**-0.5, query_head_count=many, key_value_head_count=heads, mask_type=mask)


def described(inputs: Arrays, outputs: Arrays, fields: dict[str, Any], **others: TensorDesc) -> Desc:
    kind: Any = operators.find("MULTIHEAD_ATTENTION1")
    tensors = {name: TensorDesc.of(x) for name, x in {**inputs, **outputs}.items()} | others
    desc: Desc = kind(**tensors, **fields)
    return desc


def drawn(rng: np.random.Generator, found: tuple[Arrays, Arrays, dict[str, Any]]) -> tuple[Arrays, Arrays, dict[str, Any]]:
    """The same with hostile data, and with factors and filters of all kinds."""
    inputs, outputs, fields = found
    for x in inputs.values():
        kind = rng.choice([*hostile_data.KINDS, "ordinary", "ordinary", "zeros"])
        if x.dtype.kind == "f" and kind != "ordinary":
            x[...] = 0 if kind == "zeros" else hostile_data.values(x.dtype.name.upper(), x.shape, rng, str(kind))
    scale = rng.choice([fields["scale"], 1.0, -1.0, 0.0, 1e-3, 100.0])
    most = float(np.finfo(np.float32).max)
    number = rng.choice([-10000.0, -most, -math.inf, 0.0, -1.0, 2.5])
    return inputs, outputs, fields | dict(scale=float(scale), mask_filter_value=float(number))
