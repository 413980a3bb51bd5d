"""The rules of attention: which inputs go together, and their sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anydml.operators.shared.attention import (
    ALL_THREE,
    KEY,
    KEY_VALUE,
    KEYS,
    OUTPUT,
    PAST_KEY,
    PAST_VALUE,
    QUERIES,
    QUERY,
    QUERY_KEY,
    VALUE,
    VALUES,
    head_sizes,
    key_count,
    past_count,
    sizes_of,
    there,
    value_head_sizes,
)
from anydml.schema.constraint import Constraint
from anydml.schema.enumerations import MultiheadAttentionMaskType as MaskType
from anydml.schema.operator import Outputs
from anydml.spelling import snake_case


def _ones(sizes: Sequence[int], last: int) -> bool:
    return all(n == 1 for n in sizes[:-last])


def _quoted(wires: Sequence[str], word: str = "and", suffix: str = "") -> str:
    names = [f"`{wire}{suffix}`" for wire in wires]
    return f" {word} ".join((", ".join(names[:-1]), names[-1]))


def _one_of_each() -> tuple[Constraint, ...]:
    return (
        Constraint("one_query", f"Exactly one of {_quoted(QUERIES)} must be there.", lambda d: there(d, QUERIES) == 1),
        Constraint("one_key", f"At most one of {_quoted(KEYS)} must be there.", lambda d: there(d, KEYS) <= 1),
        Constraint("one_value", f"At most one of {_quoted(VALUES)} must be there.", lambda d: there(d, VALUES) <= 1),
        Constraint(
            "keys_with_values",
            f"One of {_quoted(KEYS)} must be there exactly where one of {_quoted(VALUES, 'or')} is.",
            lambda d: bool(there(d, KEYS)) == bool(there(d, VALUES)),
        ),
        Constraint(
            "past_together",
            f"`{PAST_KEY}` must be there exactly where `{PAST_VALUE}` is.",
            lambda d: there(d, [PAST_KEY]) == there(d, [PAST_VALUE]),
        ),
        Constraint(
            "keys_present",
            f"One of {_quoted((*KEYS, PAST_KEY))} must be there.",
            lambda d: there(d, (*KEYS, PAST_KEY)) > 0,
        ),
    )


class Heads(NamedTuple):
    """The wire names of the counts of query heads and of key and value heads; the older version has one field for both."""

    queries: str
    keys: str

    def of(self, d: Any) -> tuple[int, int]:
        return getattr(d, snake_case(self.queries)), getattr(d, snake_case(self.keys))


def _divided(wire: str, count: str, *, queries: bool) -> Constraint:
    """The rule that a tensor is {batch, .., heads * head size}; queries: whether its second size is the number of queries."""
    like = "first two are those" if queries else "first is that"

    def fits(d: Any) -> bool:
        sizes = sizes_of(d, wire)
        if sizes is None:
            return True
        last = -1 if queries else -2
        divides = sizes[-1] % getattr(d, snake_case(count)) == 0
        return divides and _ones(sizes, 3) and sizes[-3:last] == d.output_tensor.sizes[-3:last]

    return Constraint(
        f"{snake_case(wire).removesuffix('_tensor')}_sizes",
        f"`{wire}.Sizes` must be 1 before the last three, of which the {like} of `{OUTPUT}.Sizes`, and `{count}` must divide "
        "the last.",
        fits,
    )


def _stacked(wire: str, count: str, parts: int, *, queries: bool) -> Constraint:
    """The rule that a tensor is {batch, length, heads, parts, head size}; queries: whether its length is the number of
    queries."""
    like = "first two are those" if queries else "first is that"

    def fits(d: Any) -> bool:
        sizes = sizes_of(d, wire)
        if sizes is None:
            return True
        last = 2 if queries else 1
        return sizes[2:4] == (getattr(d, snake_case(count)), parts) and sizes[:last] == d.output_tensor.sizes[-3:][:last]

    return Constraint(
        f"{snake_case(wire).removesuffix('_tensor')}_sizes",
        f"`{wire}.Sizes` must be {{batch, length, `{count}`, {parts}, head size}}, of which the {like} of `{OUTPUT}.Sizes`.",
        fits,
    )


def _cached(wire: str, count: str) -> Constraint:
    """The rule that a tensor is {batch, heads, length, head size}, after leading sizes of 1."""

    def fits(d: Any) -> bool:
        sizes = sizes_of(d, wire)
        if sizes is None:
            return True
        return _ones(sizes, 4) and sizes[-4:-2] == (d.output_tensor.sizes[-3], getattr(d, snake_case(count)))

    return Constraint(
        f"{snake_case(wire).removesuffix('_tensor')}_sizes",
        f"`{wire}.Sizes` must be 1 before the last four, which are {{batch, `{count}`, length, head size}}, with the batch of "
        f"`{OUTPUT}.Sizes`.",
        fits,
    )


TOTAL = f"the keys of {_quoted(KEYS, 'or', '.Sizes')} and of `{PAST_KEY}.Sizes` together"


def _present(wire: str) -> Constraint:
    def fits(d: Any) -> bool:
        sizes = sizes_of(d, wire)
        return sizes is None or sizes[-2] == past_count(d) + key_count(d)

    return Constraint(
        f"{snake_case(wire).removesuffix('_tensor')}_length", f"`{wire}.Sizes` must have as second last {TOTAL}.", fits
    )  # fmt: skip


def mask_sizes(d: Any, heads: int) -> list[tuple[int, ...]]:
    """The possible sizes of a mask of the desc's type, without leading ones."""
    batch = d.output_tensor.sizes[-3]
    sizes: Mapping[MaskType, list[tuple[int, ...]]] = {
        MaskType.NONE: [],
        MaskType.KEY_SEQUENCE_LENGTH: [(batch,)],
        MaskType.KEY_SEQUENCE_END_START: [(2, batch)],
        MaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END: [(3 * batch + 2,)],
        MaskType.BOOLEAN: [(batch, heads, d.output_tensor.sizes[-2], past_count(d) + key_count(d))],
    }
    return sizes[d.mask_type]


def attention_rules(heads: Heads) -> tuple[Constraint, ...]:
    """The rules of both versions; heads: their names for the counts of heads."""

    name = snake_case(heads.queries)

    def counts(d: Any) -> bool:
        queries, keys = heads.of(d)
        return queries >= 1 and keys >= 1 and queries % keys == 0

    def bias_fits(d: Any) -> bool:
        if d.bias_tensor is None:
            return True
        queries, keys = heads.of(d)
        size, value_size = head_sizes(d, heads.of(d))[0], value_head_sizes(d, heads.of(d))[0]
        sizes = d.bias_tensor.sizes
        return bool(_ones(sizes, 1) and sizes[-1] == queries * size + keys * (size + value_size))

    def mask_fits(d: Any) -> bool:
        if d.mask_tensor is None:
            return True
        found = d.mask_tensor.sizes
        (asked,) = mask_sizes(d, getattr(d, name))
        aligned = (*(1,) * (len(asked) - len(found)), *found)
        if d.mask_type == MaskType.BOOLEAN:
            return _ones(aligned, 4) and all(n in (1, m) for n, m in zip(aligned[-4:], asked, strict=True))
        return _ones(aligned, len(asked)) and aligned[-len(asked) :] == asked

    def relative_fits(d: Any) -> bool:
        sizes = sizes_of(d, "RelativePositionBiasTensor")
        if sizes is None:
            return True
        batch, queries, _ = d.output_tensor.sizes[-3:]
        return _ones(sizes, 4) and sizes[-4:] == (batch, getattr(d, name), queries, past_count(d) + key_count(d))

    both_counts = _quoted(tuple(heads)) if heads.queries != heads.keys else f"`{heads.queries}`"
    divided = " and the second divide the first" if heads.queries != heads.keys else ""
    return (
        Constraint("head_counts", f"{both_counts} must be at least 1{divided}.", counts),
        *_one_of_each(),
        Constraint(
            "output_sizes",
            f"`{OUTPUT}.Sizes` must be 1 before the last three, and `{heads.queries}` must divide the last.",
            lambda d: _ones(d.output_tensor.sizes, 3) and d.output_tensor.sizes[-1] % getattr(d, name) == 0,
        ),
        _divided(QUERY, heads.queries, queries=True),
        _divided(KEY, heads.keys, queries=False),
        _divided(VALUE, heads.keys, queries=False),
        _stacked(QUERY_KEY, heads.queries, 2, queries=True),
        _stacked(KEY_VALUE, heads.keys, 2, queries=False),
        _stacked(ALL_THREE, heads.queries, 3, queries=True),
        _cached(PAST_KEY, heads.keys),
        _cached(PAST_VALUE, heads.keys),
        _cached("OutputPresentKeyTensor", heads.keys),
        _cached("OutputPresentValueTensor", heads.keys),
        Constraint(
            "lengths_match",
            f"{_quoted((KEY, QUERY_KEY, VALUE), 'and', '.Sizes')} must have equally many keys and values.",
            lambda d: len({
                sizes[at] for wire, at in ((KEY, -2), (QUERY_KEY, 1), (VALUE, -2))
                if (sizes := sizes_of(d, wire)) is not None
            }) <= 1,
        ),
        Constraint(
            "past_lengths_match",
            f"`{PAST_KEY}.Sizes` and `{PAST_VALUE}.Sizes` must be equal in the second last.",
            lambda d: len({s[-2] for wire in (PAST_KEY, PAST_VALUE) if (s := sizes_of(d, wire)) is not None}) <= 1,
        ),
        _present("OutputPresentKeyTensor"),
        _present("OutputPresentValueTensor"),
        Constraint(
            "head_sizes_match",
            f"{_quoted((QUERY, KEY, QUERY_KEY, KEY_VALUE, ALL_THREE, PAST_KEY, 'OutputPresentKeyTensor'), 'and', '.Sizes')} "
            f"must have heads of one size, those of the first two being the last size divided by `{heads.queries}` and by "
            f"`{heads.keys}`.",
            lambda d: len({*head_sizes(d, heads.of(d)), *_last(d, "OutputPresentKeyTensor")}) == 1,
        ),
        Constraint(
            "value_head_sizes_match",
            f"{_quoted((OUTPUT, VALUE, KEY_VALUE, ALL_THREE, PAST_VALUE, 'OutputPresentValueTensor'), 'and', '.Sizes')} must "
            f"have heads of one size, those of the first two being the last size divided by `{heads.queries}` and by "
            f"`{heads.keys}`.",
            lambda d: len({*value_head_sizes(d, heads.of(d)), *_last(d, "OutputPresentValueTensor")}) == 1,
        ),
        Constraint(
            "bias_sizes",
            "`BiasTensor.Sizes` must be 1 before the last, which must be the sum of the heads times their sizes, of queries, "
            f"keys and values, by {_quoted((QUERY, KEY, QUERY_KEY, KEY_VALUE, ALL_THREE, PAST_KEY), 'or', '.Sizes')}, "
            f"{_quoted((OUTPUT, VALUE, PAST_VALUE), 'or', '.Sizes')}, `{heads.queries}`" + (
                f" and `{heads.keys}`." if heads.queries != heads.keys else "."),
            bias_fits,
        ),
        Constraint(
            "mask_where_its_type",
            "`MaskTensor` must be there exactly where `MaskType` is not NONE.",
            lambda d: (d.mask_tensor is not None) == (d.mask_type != MaskType.NONE),
        ),
        Constraint(
            "mask_sizes",
            "`MaskTensor.Sizes` must be those of `MaskType`, after ones: {batch}, {2, batch}, {3 * batch + 2}, or what is "
            f"broadcast to {{batch, `{heads.queries}`, queries, keys}}, by `{OUTPUT}.Sizes` and {TOTAL}.",
            mask_fits,
        ),
        Constraint(
            "relative_position_bias_sizes",
            "`RelativePositionBiasTensor.Sizes` must be 1 before the last four, which are {batch, "
            f"`{heads.queries}`, queries, keys}}, by `{OUTPUT}.Sizes` and {TOTAL}.",
            relative_fits,
        ),
    )  # fmt: skip


def _last(d: Any, wire: str) -> list[int]:
    sizes = sizes_of(d, wire)
    return [] if sizes is None else [sizes[-1]]


def attention_outputs(d: Any, heads: tuple[int, int]) -> Outputs:
    """The `outputs` of both versions."""
    queries, keys = heads
    source = next(t for t in (d.query_tensor, d.stacked_query_key_tensor, d.stacked_query_key_value_tensor) if t is not None)
    value = d.value_tensor or d.past_value_tensor
    size = head_sizes(d, heads)[0]
    if d.value_tensor is not None:
        value_size = d.value_tensor.sizes[-1] // keys
    else:
        stacked = (d.stacked_key_value_tensor, d.stacked_query_key_value_tensor, value)
        value_size = next(t for t in stacked if t is not None).sizes[-1]
    if source is d.query_tensor:
        leading, batch, rows = source.sizes[:-3], source.sizes[-3], source.sizes[-2]
    else:
        leading, batch, rows = (), source.sizes[0], source.sizes[1]
    total, data_type = past_count(d) + key_count(d), source.data_type
    return {
        "output_tensor": ((*leading, batch, rows, queries * value_size), data_type),
        "output_present_key_tensor": ((batch, keys, total, size), data_type),
        "output_present_value_tensor": ((batch, keys, total, value_size), data_type),
    }
