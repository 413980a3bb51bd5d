"""The key of attention's code, and the arguments of this code.

o and p are batches, r a group of queries with the same keys, s a query, t a key, h an element of a head, c a column of values.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.undecided import state
from anydml.tensor import DataType

TRUTHS, BELOW, BETWEEN = "truths", "below", "between"
STRIDES = {
    "output": "oprsc", "query": "oprsh", "query_bias": "oprh", "key_before": "opth", "key_after": "opth", "key_bias": "oph",
    "value_before": "optc", "value_after": "optc", "value_bias": "opc", "length": "op", "term": "oprst", "truths": "oprst",
    "below": "oprs", "least": "oprs",
    "target": "optc", "before": "optc", "after": "optc", "bias": "opc",
}  # fmt: skip
# sizes: of p and r, queries, keys, elements of a head, columns; scale, filter: the bits of float64
COUNTS = (
    "inner", "groups", "queries", "keys", "head", "columns", "scale", "filter", "fixed", "most", "later", "seen",
)  # fmt: skip
# the range of batches, the parts of each, the queries of a part, the queries of a block; the bytes of a row,
# and from one row of scores to the next
WORK = ("first", "end", "parts", "part", "together", "head_row", "column_row", "key_row", "score_row", "open_row")
MEMORY = (
    "state", "own_query_bias", "own_key_bias", "own_value_bias", "rows", "query_rows", "query_norms", "panels", "key_norms",
    "value_rows", "largest", "norms", "scores", "added", "sums", "about", "line", "list", "heads", "tails", "losses", "rests",
    "row", "open",
)  # fmt: skip
ENTRY = 3  # words of an entry of the list
# in the state, in bytes: rounding errors of biases, the largest norm of a key, and how many vectors of elements were left
# undecided since the scratch was cleared
LOST, LARGEST_KEY, LEFT = (8 * word for word in range(state.OWN, state.OWN + 3))
ABOUT = 6  # float64 about a query: see `weights`
SUM, VALUES, OWN, ZERO, NORMS, SIZES = 0, 8, 16, 24, 32, 40


class AttentionKey(NamedTuple):
    """The key of the kernel of attention. tensors: those of STRIDES that are present; seen: whether queries see no later
    keys."""

    data_type: DataType
    tensors: tuple[str, ...]
    mask: str
    seen: bool

    def has(self, name: str) -> bool:
        return name in self.tensors

    @property
    def adds(self) -> bool:
        """Whether anything is added to a product of a query and a key."""
        return self.has("term") or bool(self.mask)

    @property
    def biased(self) -> bool:
        """Whether anything is added to queries, keys or values."""
        return any(self.has(f"{name}_bias") for name in ("query", "key", "value"))

    @property
    def both(self) -> bool:
        """Whether two numbers are added."""
        return self.has("term") and bool(self.mask)

    @property
    def signature(self) -> Signature:
        """The arguments of the kernel."""
        return Signature(" ".join([*addressed(self.tensors), *COUNTS, *WORK, *(f"*{name}" for name in MEMORY)]))


class KeptKey(NamedTuple):
    """The key of the kernel of an output of joined rows. moves: whether bits are copied instead of numbers."""

    data_type: DataType
    tensors: tuple[str, ...]
    moves: bool

    def has(self, name: str) -> bool:
        return name in self.tensors

    @property
    def signature(self) -> Signature:
        """The arguments of the kernel."""
        return Signature(" ".join([*addressed(self.tensors), "inner keys columns fixed most later first end"]))


def addressed(tensors: tuple[str, ...]) -> list[str]:
    """For each tensor, its address and its strides, in bytes."""
    return [x for name in tensors for x in (f"*{name}", *(f"{name}_{axis}" for axis in STRIDES[name]))]
