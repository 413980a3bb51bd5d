"""What the code of a nest depends on."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.match.nests import Program
from anydml.tensor import DataType

STATE = ("row", "place", "count")  # words: where to go on, and the elements on the list
STATE_WORDS = 8  # in a cache line of its own
DONE = (1 << 63) - 1  # the row of a piece that has ended
ARGUMENTS = ("state", "list", "memory", "pitch", "room", "budget", "begin", "end", "output", "step")


class Shape(NamedTuple):
    """lane: the dimension of the output whose elements are computed side by side. dense: they lie side by side, too."""

    program: Program
    data_type: DataType
    lane: int
    dense: bool

    @property
    def outer(self) -> list[int]:
        return [d for d in range(self.program.dims) if d != self.lane]

    @property
    def places(self) -> list[tuple[int, int]]:
        """The dimensions of tensors, whose last index and stride are arguments."""
        found = {node.data[:2]: None for node in self.program.nodes if node.op in ("offset", "inside")}
        return sorted(found)

    @property
    def arguments(self) -> list[str]:
        """The names of the arguments."""
        return [
            *ARGUMENTS,
            *(f"size{v}" for v in range(len(self.program.bits))),
            *(f"step{d}" for d in self.outer),
            *(f"tensor{t}" for t in range(len(self.program.types))),
            *(f"{kind}{t}_{d}" for t, d in self.places for kind in ("last", "stride")),
        ]

    def tabled(self) -> list[int]:
        """The nodes that depend on the lane's variable alone and serve others: their values are kept for all rows."""
        free, only = self.program.free(), frozenset((self.lane,))
        nodes = self.program.nodes
        found = {
            a
            for p, node in enumerate(nodes)
            if free[p] != only
            for a in node.args
            if free[a] == only and nodes[a].op != "variable"
        }
        return sorted(found)
