"""The key of the kernel of windows, and the kernel's arguments."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.match.windows import MAX, MEAN, QUANTIZED
from anydml.kernels.numbers.floats.rounding import SIXTEEN_BIT
from anydml.tensor import DataType

# kinds of means of dequantised elements that are quantised again: by sums of integers, or by sums of dequantised elements
ESTIMATED, DEQUANTIZED = "estimated", "dequantized"
FEW = 8  # up to this many elements of a window along a line, and lines of a window, loops are unrolled


class WindowsLayout(NamedTuple):
    """The roles of dimensions. line: the one that lines run along; plain: those without windows; taps: the others."""

    line: int
    plain: tuple[int, ...]
    taps: tuple[int, ...]


class WindowsKey(NamedTuple):
    """Everything that the kernel of windows depends on, except sizes and strides. A line is a row of output elements.

    kind: one of `match.windows` or of those above. types: of the input and the output; indices: of the output of positions, if
    there is one.

    slides: whether windows move along the line; otherwise the line runs along a dimension without windows. step: the windows'
    stride along the line, 0 for any above 2. width, lines: elements of a window along the line, and lines of a window, or 0 if
    they are many. plain, taps: the numbers of dimensions without and with windows, besides the line. lanes_in, lanes: elements
    in a group of the input's line and of the output's. contiguous: whether lines of the input, the output and the positions
    are. padded: see `WindowReduction`. dense: whether no window is dilated, except along the line. halves: whether means divide
    by one power of two. additions: a bound of the number of additions. parameters: whether each scale and zero point exists.
    down: 0, or, if windows are reduced down their columns first, the number of lines that a window does not share with the
    window above.
    """

    kind: str
    types: tuple[DataType, DataType]
    indices: DataType | None
    slides: bool
    step: int
    width: int
    lines: int
    plain: int
    taps: int
    lanes_in: int
    lanes: int
    contiguous: tuple[bool, bool, bool]
    padded: bool
    dense: bool
    halves: bool
    additions: int
    parameters: tuple[bool, ...]
    down: int

    @property
    def listed(self) -> bool:
        """Whether elements may be undecided."""
        return self.kind != MAX and not self.between

    @property
    def between(self) -> bool:
        """Whether the kernel computes means of elements that are dequantised with rounding, and quantised again."""
        return self.kind in (ESTIMATED, DEQUANTIZED)

    @property
    def divides(self) -> bool:
        """Whether the divisors and inverses of a line are stored."""
        return self.kind == MEAN or self.between

    @property
    def ranged(self) -> bool:
        """Whether sums are exact if the exponents of a line's elements are near enough to each other."""
        return self.kind in ("sum", "mean")


MEMORY = ("offsets", "positions", "rows_at", "counts", "divisors", "numbers", "inverses")


def parts(key: WindowsKey) -> tuple[str, ...]:
    """The LLVM types of the parts of an element that is reduced along the windows' width."""
    return (*raw(key), *(() if key.indices is None else (f"i{key.indices.element_bits}",)))


def raw(key: WindowsKey) -> tuple[str, ...]:
    """The LLVM types of the parts of an input element."""
    data_type = key.types[0]
    if key.kind in (QUANTIZED, ESTIMATED):
        return ("i32",)
    if key.kind != MAX:
        return ("double",)
    if data_type in SIXTEEN_BIT:
        return ("i16", "i16")  # see `kinds.WindowMaximum`
    return ("float",) if data_type == DataType.FLOAT32 else (f"i{data_type.element_bits}",)


@lru_cache(maxsize=256)
def signature(key: WindowsKey) -> Signature:
    """The arguments of the kernel."""
    found = ["*state *list room budget first rows", *(f"*{name}" for name in MEMORY)]
    found += ["slots pitch length ring band extent terms", *(f"*line{j}" for j in range(len(raw(key))))]
    found += [f"*slot{j} *blank{j}" for j in range(len(parts(key)))]
    if key.down:
        found.append("*columns column across *nothing")
    found.append("n m *x *y *z xs ys zs weight stride window dilation start limit")
    found += [f"pn{j} px{j} py{j} pz{j} pw{j}" for j in range(key.plain)]
    found += [f"to{d} tn{d} ts{d} tk{d} td{d} tp{d} tc{d} tx{d} ty{d} tz{d} tw{d}" for d in range(key.taps)]
    if key.between:
        found.append("*rule")
    for q in present(key):
        found += [f"*g{q} gs{q}", *(f"gp{q}_{j}" for j in range(key.plain))]
    return Signature(" ".join(found))


def present(key: WindowsKey) -> list[int]:
    """The numbers of the scales and zero points that exist."""
    return [q for q, there in enumerate(key.parameters) if there]
