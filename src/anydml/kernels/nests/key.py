"""The key of a nest's kernel: everything that its code depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.match.nests import Program
from anydml.kernels.match.normal_form import LOOPS, bound
from anydml.kernels.nests.separable import Separable
from anydml.kernels.nests.weighted import Weighted
from anydml.tensor import DataType

LEAST = 5  # turns of a loop from which on its ends are looked for
FEW = 3  # operations that are not worth a place in a table
MOST = 1 << 28  # turns that may be taken for that
ARGUMENTS = "*state *list *memory room budget begin end"


class Narrowed(NamedTuple):
    """A loop whose ends are found from conditions that depend on its variable and one dimension of the output.

    reduction: its node; variable: the loop's. conditions: those of the reduction that depend on these two variables alone.
    """

    reduction: int
    variable: int
    dimension: int
    conditions: tuple[int, ...]


class NestKey(NamedTuple):
    """lane: the dimension of the outputs that vectors run along; lanes: the elements of a vector; dense: whether they are
    contiguous in each output.

    kept: the tensors whose elements are listed with the undecided elements, because outputs may overwrite them. separable: a
    sum that is computed by adding up rows first, if that pays. weighted: a sum whose terms are listed. contiguous: the pairs
    (tensor, dimension) along which elements are contiguous. paused: whether calls may end between the columns of a row; then
    `budget` counts columns instead of rows.
    """

    program: Program
    data_types: tuple[DataType, ...]
    lane: int
    lanes: int
    dense: tuple[bool, ...]
    kept: tuple[int, ...] = ()
    narrowed: tuple[Narrowed, ...] = ()
    separable: Separable | None = None
    weighted: Weighted | None = None
    contiguous: tuple[tuple[int, int], ...] = ()
    paused: bool = False

    @property
    def outer(self) -> list[int]:
        return [d for d in range(self.program.dims) if d != self.lane]

    @property
    def places(self) -> list[tuple[int, int]]:
        """The pairs (tensor, dimension) whose last index and stride are arguments."""
        found = {node.data[:2]: None for node in self.program.nodes if node.op in ("offset", "inside")}
        return sorted(found)

    @property
    def signature(self) -> Signature:
        """The arguments of the kernel."""
        outputs, tensors = range(len(self.data_types)), range(len(self.program.types))
        found = [
            ARGUMENTS,
            *(f"size{v}" for v in range(len(self.program.bits))),
            *(f"*output{k}" for k in outputs),
            *(f"step{k}_{d}" for k in outputs for d in range(self.program.dims)),
            *(f"*tensor{t}" for t in tensors),
            *(f"{kind}{t}_{d}" for t, d in self.places for kind in ("last", "stride")),
            *(f"*range{k}" for k in range(len(self.narrowed))),
            "*rowsums",
        ]
        return Signature(" ".join(found))

    def tabled(self, dimension: int) -> list[int]:
        """The nodes that depend on one dimension's variable alone and that other nodes use: their values are kept in tables.

        For dimensions other than the lane's, only those that take more than a few operations, and no loops: loops take long
        where calls end within a row, and would run again in each call.
        """
        free, only = self.program.nodes.free, frozenset((dimension,))
        nodes = self.program.nodes
        found = {
            a
            for p, node in enumerate(nodes)
            if free[p] != only
            for a in node.args
            if free[a] == only and nodes[a].op != "variable" and not self._is_side(a)
        }
        if dimension != self.lane:
            found = {a for a in found if self._is_long(a)}
        elif self.paused:
            found -= self._looped()
        return sorted(found)

    def pausable(self) -> bool:
        """Whether all loops depend on the column, so that resuming within a row repeats little work."""
        if self.separable is not None or self.weighted is not None:
            return False
        free = self.program.nodes.free
        return all(self.lane in free[p] for p, node in enumerate(self.program.nodes) if node.op in LOOPS)

    def _looped(self) -> set[int]:
        """The nodes that depend on a reduction."""
        found: set[int] = set()
        for p, (op, args, _) in enumerate(self.program.nodes):  # each after its arguments
            if op in LOOPS or found.intersection(args):
                found.add(p)
        return found

    def _is_side(self, place: int) -> bool:
        """Whether a node is the offset of contiguous elements."""
        op, args, data = self.program.nodes[place]
        return op == "offset" and data[2] and data[:2] in self.contiguous and self.program.nodes[args[0]].op == "variable"

    def _is_long(self, place: int) -> bool:
        """Whether a node takes more than a few operations, none of them a loop, or a read whose bits are copied."""
        nodes, seen, stack = self.program.nodes, set[int](), [place]
        while stack:
            if (p := stack.pop()) not in seen and nodes[p].op not in ("constant", "variable", "truth"):
                seen.add(p)
                stack += nodes[p].args
        looped = any(nodes[p].op in LOOPS or (self.program.moves and nodes[p].op == "read") for p in seen)
        return len(seen) > FEW and not looped


def narrowed(program: Program, sizes: Sequence[int]) -> tuple[Narrowed, ...]:
    """The loops whose ends are worth finding beforehand; sizes: the number of values of each variable."""
    free, found = program.nodes.free, []
    for p, (op, args, data) in enumerate(program.nodes):
        for v in bound(op, data):
            if sizes[v] < LEAST:
                continue
            conditions: dict[int, list[int]] = {}
            for c in program.nodes.operands(args[1], "both"):
                others = free[c] - {v}
                if v in free[c] and len(others) == 1 and (d := min(others)) < program.dims:
                    conditions.setdefault(d, []).append(c)
            for d, each in conditions.items():
                if sizes[v] * sizes[d] <= MOST:
                    found.append(Narrowed(p, v, d, tuple(each)))
    return tuple(found)
