"""Plans for attention. All are valid by construction, like those of `generators`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hypothesis import strategies as st

from anydml import DataType, FeatureLevel
from drawn_descs import FLOATS, Plain, Plan

FLOAT_TYPES = (DataType.FLOAT32, DataType.FLOAT16)
INPUTS = ("query", "key", "value", "stacked_query_key", "stacked_key_value", "stacked_query_key_value")
WAYS = (
    ("query", "key", "value"), ("query", "key", "value"), ("stacked_query_key", "value"), ("query", "stacked_key_value"),
    ("stacked_query_key_value",), ("query",),
)  # fmt: skip
SCALES = st.sampled_from((0.5, 1.0, 0.70710677, 0.0, -1.0, 3.0))
FILTERS = st.sampled_from((-10000.0, -3.4028234663852886e38, float("-inf"), 0.0, -1.0, 2.5))
MASKS = ("NONE", "KEY_SEQUENCE_LENGTH", "KEY_SEQUENCE_END_START", "KEY_QUERY_SEQUENCE_LENGTH_START_END", "BOOLEAN")


def attention(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    data_type = draw(st.sampled_from(FLOAT_TYPES))
    way = draw(st.sampled_from(WAYS))
    batch, size, value_size, queries, keys = (draw(st.integers(1, 2)) for _ in range(5))
    past = draw(st.integers(1, 2)) if way == ("query",) or draw(st.booleans()) else 0
    heads, groups = draw(st.integers(1, 2)), 1 if name == "MULTIHEAD_ATTENTION" else draw(st.integers(1, 2))
    if any(s in way for s in ("stacked_query_key", "stacked_query_key_value")):
        keys, groups = queries, 1
    if any(s in way for s in ("stacked_key_value", "stacked_query_key_value")):
        value_size = size
    if way == ("query",):
        keys = 0
    total, key_heads, query_heads = past + keys, heads, heads * groups

    def tensor(sizes: tuple[int, ...], leading: int) -> Plain:
        return Plain(data_type, (*(1,) * draw(st.integers(0, leading)), *sizes))

    plan: Plan = {f"{n}_tensor": None for n in INPUTS}
    sizes = {
        "query": (batch, queries, query_heads * size), "key": (batch, keys, key_heads * size),
        "value": (batch, keys, key_heads * value_size),
    }  # fmt: skip
    stacked = {
        "stacked_query_key": (batch, queries, query_heads, 2, size),
        "stacked_key_value": (batch, keys, key_heads, 2, size),
        "stacked_query_key_value": (batch, queries, query_heads, 3, size),
    }
    for source in way:
        plan[f"{source}_tensor"] = tensor(sizes[source], 2) if source in sizes else Plain(data_type, stacked[source])
    mask = draw(st.sampled_from(MASKS))
    whole = (batch, query_heads, queries, total)
    masks = {
        "NONE": None, "KEY_SEQUENCE_LENGTH": (1, batch), "KEY_SEQUENCE_END_START": (2, batch),
        "KEY_QUERY_SEQUENCE_LENGTH_START_END": (3 * batch + 2,),
        "BOOLEAN": tuple(n if draw(st.booleans()) else 1 for n in whole)[draw(st.integers(0, 3)) :],
    }[mask]  # fmt: skip
    cache = {
        "past_key_tensor": (batch, key_heads, past, size), "past_value_tensor": (batch, key_heads, past, value_size),
        "output_present_key_tensor": (batch, key_heads, total, size),
        "output_present_value_tensor": (batch, key_heads, total, value_size),
    }  # fmt: skip
    for field, cached in cache.items():
        given = past > 0 if field.startswith("past") else draw(st.booleans())
        plan[field] = tensor(cached, 1) if given else None
    biases = query_heads * size + key_heads * (size + value_size)
    plan |= dict(
        bias_tensor=tensor((biases,), 4) if draw(st.booleans()) else None,
        mask_tensor=None if masks is None else Plain(DataType.INT32, masks),
        relative_position_bias_tensor=tensor(whole, 1) if draw(st.booleans()) else None,
        output_tensor=tensor((batch, queries, query_heads * value_size), 2),
        scale=draw(st.one_of(SCALES, SCALES, FLOATS)),
        mask_filter_value=draw(st.one_of(FILTERS, FILTERS, FLOATS)),
        mask_type=mask,
    )
    if name == "MULTIHEAD_ATTENTION":
        return plan | dict(head_count=heads)
    lengths = Plain(DataType.INT32, (*(1,) * draw(st.integers(0, 4)), batch))
    counted = past > 0 and draw(st.booleans())
    return plan | dict(
        query_head_count=query_heads,
        key_value_head_count=key_heads,
        past_sequence_lengths_tensor=lengths if counted else None,
    )


GENERATORS: Mapping[str, Callable[[st.DrawFn, FeatureLevel], Plan]] = {
    name: partial(attention, name=name) for name in ("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1")
}
