"""Attention compiled, beside the exact reference: every form of input and mask, any layout, ties and zeros, and what is left open."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import guarded
from agreement import bits
from anydml import TensorDesc, operators
from anydml.kernels.attention import family
from anydml.kernels.code import llvm
from anydml.kernels.kernel import Machine, Refused
from anydml.kernels.match.attention import attention
from anydml.kernels.reference import evaluated
from anydml.schema.check import check
from anydml.schema.expression import Max, Sum, Tensor, each, exp
from anydml.schema.operator import Desc
from anydml.schema.statement import nest, stated
from every_kernel import SOAK, without_dot_products

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

ISAS = [row.name for row in without_dot_products()]
MASKS = ("NONE", "KEY_SEQUENCE_LENGTH", "KEY_SEQUENCE_END_START", "KEY_QUERY_SEQUENCE_LENGTH_START_END", "BOOLEAN")
FORMS = ("apart", "query_key", "key_value", "all", "past", "joined", "lengths")
Arrays = dict[str, NDArray[Any]]


def made(
    rng: np.random.Generator, form: str, mask: str = "NONE", dtype: Any = np.float32, batch: int = 2, queries: int = 5,
    keys: int = 7, size: int = 9, value_size: int = 11, heads: int = 2, groups: int = 2, *, bias: bool = False, term: bool = False,
    past: int = 3, present: bool = False,
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


def executed(desc: Desc, inputs: Arrays, outputs: Arrays, isa: str | None = None, threads: int = 1) -> Arrays:
    compiled = dml.Device("cpu", isa=isa, threads=threads).compile(desc)
    assert compiled.kernel_name == "attention:compiled", attention(stated(desc))
    found = {name: np.full_like(x, 85) for name, x in outputs.items()}
    bound = compiled.bind(**inputs, **found)
    bound.execute()
    first = {name: x.copy() for name, x in found.items()}
    bound.execute()
    for name, x in found.items():
        same(x, first[name])
    return found


def same(have: NDArray[Any], want: NDArray[Any]) -> None:
    np.testing.assert_array_equal(bits(have), bits(want))


def agrees(made_: tuple[Arrays, Arrays, dict[str, Any]], isas: Any = (None,), **others: Any) -> Arrays:
    """The outputs of each instruction set, all of which are the reference's."""
    inputs, outputs, fields = made_
    desc = described(inputs, outputs, fields)
    want = evaluated(desc, inputs)
    for isa in isas:
        found = executed(desc, inputs, outputs, isa, **others)
        for name, x in found.items():
            same(x, want[name])
    return want


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_input_gives_the_exact_result(form: str) -> None:
    rng = np.random.default_rng(FORMS.index(form))
    for at, mask in enumerate(MASKS if SOAK > 1 else (MASKS[FORMS.index(form) % 5],)):
        for dtype in (np.float32, np.float16):
            more = dict(bias=bool(at % 2) or form in ("joined", "all"), term=bool(at % 3), present=True)
            agrees(made(rng, form, mask, dtype, batch=1, queries=3, **more), ISAS[-1:] if SOAK == 1 else ISAS)
