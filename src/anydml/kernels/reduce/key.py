"""The key of the kernel of rows, and the kernel's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from anydml.kernels.call.signature import Arguments, Signature
from anydml.kernels.elementwise.geometry import MapDimension, names
from anydml.kernels.elementwise.streams import CONSTANT, PLACE, POSITION
from anydml.kernels.match.normal_form import NormalForm
from anydml.tensor import DataType

SHORT = 16  # turns of a block, where additions of blocks are exact
ALL = -1  # a place in a row that means every one


class ReductionKey(NamedTuple):
    """Everything that the kernel of rows depends on, except sizes and strides. layouts: of each stream along a row, the output
    last.

    outer: the number of dimensions of rows; unroll: groups of elements that a pass without functions computes together; most: a
    power of two, at least a row's length; additions: at least those of a lane's sum in a line; inner: the number of dimensions
    within rows, besides the one that lines run along; lines: a power of two, at least their number; keeps: whether there is
    memory for a row of values that several passes need; staged: the streams whose neighbouring rows have neighbouring elements,
    which are copied to memory where they are contiguous, `together` rows at a time; plain: the formula before it was regrouped.

    ahead: bytes from an element that the first pass reads to the one that it prefetches, 0 for none; grouped: the rows whose
    values that are the same for a row are computed at once, as lanes; common: the streams that all rows share, which are
    converted to float64 once.
    """

    formula: NormalForm
    mapped: bool
    integral: bool
    types: tuple[DataType, ...]
    layouts: tuple[str, ...]
    outer: int
    lanes: int
    unroll: int
    most: int
    additions: int
    inner: int
    lines: int
    keeps: bool
    staged: tuple[int, ...]
    together: int
    plain: NormalForm
    ahead: int = 0
    grouped: int = 1
    common: tuple[int, ...] = ()

    def block(self, times: int) -> int:
        """The turns of a block, of `times` groups each: a line is added up in blocks, so that a term goes through few
        additions."""
        turns = -(-self.additions // times)
        return 1 << max(turns.bit_length() // 2, 2)

    @property
    def all_additions(self) -> int:
        """The most additions that a term goes through if nothing is added up in blocks: in its lane, then among lanes."""
        return 2 * self.additions * self.lines + 2 * self.lanes

    def short_depth(self, times: int) -> int:
        """As `depth`, for blocks of `SHORT` turns and lines that are added up exactly, except for one rounding at the end.

        After the last block of a line come fewer turns than a block has; a short line has no block. The sets of a block are
        merged, unless a turn has a single element, as on OpenCL.
        """
        turns = 2 * SHORT
        if self.lanes:
            turns = SHORT if self.additions <= SHORT * times else turns + times
        return turns + 2 * times + self.lanes.bit_length() + 8

    def depth(self, times: int) -> int:
        """The most additions that a term of a sum goes through.

        They are those of a block, of blocks, of turns and of groups after the last block of a line, of sets, of lines and of
        lanes.
        """
        block = self.block(times)
        of_line = block + -(-self.additions // times) // block + block + times + 2
        return of_line + times + self.lines + self.lanes.bit_length() + 2


def same_along(key: ReductionKey) -> frozenset[int]:
    """The streams that have one element for a whole row."""
    return frozenset(k for k, layout in enumerate(key.layouts[:-1]) if layout in (CONSTANT, PLACE))


@lru_cache(maxsize=256)
def signature(key: ReductionKey) -> Signature:
    """The arguments of the kernel. p: where streams begin; s: from one element of a line to the next; t, w: staged rows."""
    count = len(key.types)
    found = ["*state", "*list", "*memory", "room", "first", "rows", "between", "n"]
    found += [f"p{k}" if layout in (POSITION, PLACE) else f"*p{k}" for k, layout in enumerate(key.layouts)]
    found += [f"s{k}" for k in range(count)]
    for d in range(key.outer):
        found += names(f"n{d}", f"o{d}", count)
    found += ["lines"] if key.inner else []
    for d in range(key.inner):
        found += names(f"m{d}", f"q{d}", count)
    for k in key.staged:
        found += [f"*t{k}", f"w{k}"]
    return Signature(" ".join(found))


def row_arguments(row: MapDimension, around: Sequence[MapDimension]) -> Arguments:
    """The arguments for a row: for its lines, and for the dimensions around them."""
    found = Arguments(n=row.size, **{f"s{k}": stride for k, stride in enumerate(row.strides)})
    if around:
        found["lines"] = prod(d.size for d in around)
    for d, dim in enumerate(around):
        found |= dim.arguments(f"m{d}", f"q{d}")
    return found
