"""Attention of several heads: the sizes and the statement of MULTIHEAD_ATTENTION and its newer version.

Queries, keys and values each come from a tensor of their own or from one of three stacked tensors; keys and values also come
from the past. In an index, b is a batch, n a head of queries, m a head of keys and values, s a query, t a key, h an element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anydml.schema.enumerations import MultiheadAttentionMaskType as MaskType
from anydml.schema.expression import Max, Sum, Tensor, both, clamp, each, equal, exp, index, is_true, negation, select
from anydml.schema.node import Expr, number
from anydml.schema.statement import Nest, move, nest, part
from anydml.spelling import snake_case

QUERY, KEY, VALUE = "QueryTensor", "KeyTensor", "ValueTensor"
QUERY_KEY, KEY_VALUE, ALL_THREE = "StackedQueryKeyTensor", "StackedKeyValueTensor", "StackedQueryKeyValueTensor"
PAST_KEY, PAST_VALUE, OUTPUT = "PastKeyTensor", "PastValueTensor", "OutputTensor"
QUERIES, KEYS, VALUES = (QUERY, QUERY_KEY, ALL_THREE), (KEY, QUERY_KEY, KEY_VALUE, ALL_THREE), (VALUE, KEY_VALUE, ALL_THREE)


def sizes_of(d: Any, wire: str) -> tuple[int, ...] | None:
    """A tensor's sizes; None where it is absent."""
    t = getattr(d, snake_case(wire))
    return None if t is None else t.sizes


def there(d: Any, wires: Sequence[str]) -> int:
    """The number of these tensors that are present."""
    return sum([getattr(d, snake_case(wire)) is not None for wire in wires])


def key_count(d: Any) -> int:
    """The number of new keys."""
    for wire, at in ((KEY, -2), (QUERY_KEY, 1), (KEY_VALUE, 1), (ALL_THREE, 1)):
        if (sizes := sizes_of(d, wire)) is not None:
            return sizes[at]
    return 0


def past_count(d: Any) -> int:
    """The number of keys in the past."""
    sizes = sizes_of(d, PAST_KEY)
    return 0 if sizes is None else sizes[-2]


def head_sizes(d: Any, heads: tuple[int, int]) -> list[int]:
    """The size of a head of queries and keys, according to each tensor that determines it."""
    found = [
        sizes[-1] // (count if divided else 1)
        for wire, count, divided in (
            (QUERY, heads[0], True), (KEY, heads[1], True), (QUERY_KEY, 1, False), (KEY_VALUE, 1, False),
            (ALL_THREE, 1, False), (PAST_KEY, 1, False),
        )
        if (sizes := sizes_of(d, wire)) is not None
    ]  # fmt: skip
    if not found:
        raise ValueError("no tensor determines the size of a head")
    return found


def value_head_sizes(d: Any, heads: tuple[int, int]) -> list[int]:
    """The size of a head of values, according to each tensor that determines it."""
    return [
        sizes[-1] // (count if divided else 1)
        for wire, count, divided in (
            (OUTPUT, heads[0], True), (VALUE, heads[1], True), (KEY_VALUE, 1, False), (ALL_THREE, 1, False),
            (PAST_VALUE, 1, False),
        )
        if (sizes := sizes_of(d, wire)) is not None
    ]  # fmt: skip


class Attention:
    """The queries, keys and values of a desc of the newest version, and the formulas of its outputs."""

    def __init__(self, d: Any, inputs: Mapping[str, Tensor | None]) -> None:
        self.d, self.inputs = d, inputs
        self.heads = d.query_head_count, d.key_value_head_count
        self.size = head_sizes(d, self.heads)[0]
        self.value_size = d.output_tensor.sizes[-1] // self.heads[0]
        self.past, self.new = past_count(d), key_count(d)
        self.total = self.past + self.new
        self.tops: dict[tuple[Expr, Expr, Expr], Expr] = {}

    def element(self, sources: Sequence[str], place: int, width: Any, start: Any, at: Sequence[Expr]) -> Expr:
        """An element of the new queries, keys or values at (batch, position, head, element), with its bias.

        place: the index in a stacked tensor; width: the size of a head; start: where its biases begin.
        """
        b, s, n, h = at
        wire = next(w for w in sources if self.inputs[w] is not None)
        tensor = self.inputs[wire]
        assert tensor is not None
        if wire in (QUERY, KEY, VALUE):
            x = tensor[[*[0] * (len(tensor.sizes) - 3), b, s, n * width + h]]
        else:
            x = tensor[b, s, n, place - (1 if wire == KEY_VALUE else 0), h]
        bias = self.inputs["BiasTensor"]
        return x if bias is None else x + bias[[*[0] * (len(bias.sizes) - 1), n * width + h + start]]

    @part("Queries", "bnsh")
    def query(self, b: Expr, n: Expr, s: Expr, h: Expr) -> Expr:
        return self.element(QUERIES, 0, self.size, 0, (b, s, n, h))

    @part("Keys", "bmth")
    def key(self, b: Expr, m: Expr, t: Expr, h: Expr) -> Expr:
        return self.known(PAST_KEY, KEYS, 1, self.size, self.heads[0] * self.size, (b, m, t, h))

    @part("Values", "bmth")
    def value(self, b: Expr, m: Expr, t: Expr, h: Expr) -> Expr:
        start = (self.heads[0] + self.heads[1]) * self.size
        return self.known(PAST_VALUE, VALUES, 2, self.value_size, start, (b, m, t, h))

    def known(self, wire: str, sources: Sequence[str], place: int, width: Any, start: Any, at: Sequence[Expr]) -> Expr:
        """An element of the past keys or values, or after those of the new ones."""
        b, m, t, h = at
        past = self.inputs[wire]
        if past is None:
            return self.element(sources, place, width, start, (b, t, m, h))
        before = past[[*[0] * (len(past.sizes) - 4), *at]]
        if not self.new:
            return before
        length = self.length(b)
        after = self.element(sources, place, width, start, (b, t - length, m, h))
        made = select(t < length, before, after)
        return made if self.inputs["PastSequenceLengthsTensor"] is None else select(t < length + self.new, made, 0)

    def length(self, b: Expr) -> Any:
        """The number of past keys that are used."""
        lengths = self.inputs["PastSequenceLengthsTensor"]
        if lengths is None:
            return self.past
        return clamp(index(lengths[[*[0] * (len(lengths.sizes) - 1), b]]), 0, self.past)

    @part("Scores", "bnst")
    def score(self, b: Expr, n: Expr, s: Expr, t: Expr) -> Expr:
        """The score of key t for query s; the exponential of the score is the key's weight."""
        (h,) = k = each((self.size,), "h")
        m = n // (self.heads[0] // self.heads[1])
        found: Expr = self.d.scale * Sum(k, self.query(b, n, s, h) * self.key(b, m, t, h))
        relative, mask = self.inputs["RelativePositionBiasTensor"], self.inputs["MaskTensor"]
        if relative is not None:
            found += relative[[*[0] * (len(relative.sizes) - 4), b, n, s, t]]
        return found if mask is None else found + select(self.kept(mask, b, n, s, t), 0, self.d.mask_filter_value)

    def kept(self, mask: Tensor, b: Expr, n: Expr, s: Expr, t: Expr) -> Expr:
        """Whether the mask leaves a score unchanged."""
        lead = [0] * (len(mask.sizes) - 1)
        if self.d.mask_type == MaskType.BOOLEAN:
            return is_true(mask.broadcast([b, n, s, t]))
        place = number(t)
        if self.d.mask_type == MaskType.KEY_SEQUENCE_END_START:
            end, start = (mask[[*lead[1:], row, b]] for row in (0, 1))
            return both(place < end, place >= start)
        return place < mask[[*lead, b]]

    def seen(self, b: Expr, s: Expr, t: Expr) -> Expr | None:
        """Whether a query attends to a key: where past lengths are given, to keys up to its own position."""
        if self.inputs["PastSequenceLengthsTensor"] is None:
            return None
        length = self.length(b)
        return both(t <= length + s, t < length + self.new)

    def over_keys(self, b: Expr, s: Expr, name: str) -> tuple[Any, Expr, Expr | None]:
        """Indices over all keys, the key, and whether query s attends to it."""
        (t,) = k = each((self.total,), name)
        return k, t, self.seen(b, s, t)

    @part("Largest", "bns")
    def largest(self, b: Expr, n: Expr, s: Expr) -> Expr:
        """The largest score of a query, one node for all its weights."""
        if (b, n, s) not in self.tops:
            k, t, seen = self.over_keys(b, s, "v")
            self.tops[b, n, s] = Max(k, self.score(b, n, s, t), seen)
        return self.tops[b, n, s]

    @part("Weights", "bnst")
    def weight(self, b: Expr, n: Expr, s: Expr, t: Expr) -> Expr:
        """The weight of key t for query s, before the division by the sum of weights."""
        return exp(self.score(b, n, s, t) - self.largest(b, n, s))

    def output(self) -> Nest:
        *_, b, s, c = i = each(self.d.output_tensor.sizes)
        n, h = c // self.value_size, c % self.value_size
        m = n // (self.heads[0] // self.heads[1])
        (k, t, seen), (k2, t2, seen2) = (self.over_keys(b, s, name) for name in "tu")
        there = negation(equal(self.score(b, n, s, t), -math.inf))  # a weight of 0 adds no term
        values = Sum(k, self.weight(b, n, s, t) * self.value(b, m, t, h), there if seen is None else both(seen, there))
        return nest(i, values / Sum(k2, self.weight(b, n, s, t2), seen2))

    def present(self, sizes: Sequence[Any], element: Callable[..., Expr]) -> Nest:
        """The past and new keys, or values, together."""
        *_, b, m, t, h = i = each(sizes)
        body = element(b, m, t, h)
        return move(i, body) if self.inputs["BiasTensor"] is None else nest(i, body)
