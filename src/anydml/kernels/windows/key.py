"""Windows as their kernel is made for them, and the kernel's arguments."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.match.windows import MAX, MEAN, QUANTIZED
from anydml.kernels.numbers.floats.rounding import SIXTEEN_BIT
from anydml.tensor import DataType

# means of dequantised elements that are quantised again: from sums of integers, or from those of what is dequantised
ESTIMATED, DEQUANTIZED = "estimated", "dequantized"
FEW = 8  # elements of a window along a line, or lines of a window, up to which they are written out


class WindowsLayout(NamedTuple):
    """The dimensions in their roles: the one that lines run along, those without windows, and the others."""

    line: int
    plain: tuple[int, ...]
    taps: tuple[int, ...]


class WindowsKey(NamedTuple):
    """Windows, but for their sizes and strides. A line is what the kernel computes at once: a row of output elements.

    kind: see `match.windows`, or one of those above. types: of the input and the output; indices: of the output of positions,
    if there is one.
    slides: the window moves along the line; otherwise the line runs along a dimension without windows. step: the window's
    stride along the line, 0 for any above 2. width, lines: elements of a window along the line, and the lines of one, where
    they are few, else 0. plain: dimensions without windows beside the line; taps: those with windows beside it. lanes_in,
    lanes: of a group of elements of the input's line and of the output's. contiguous: whether lines of the input, of the
    output and of positions are. padded: see `Windows`. dense: no window has a dilation, but along the line. halves: a mean
    divides by one power of two. additions: one that is at least those of a sum. parameters: whether each scale and zero
    point is there. down: windows are reduced down their columns first, then along lines, and of each so many lines are not in
    the one above it; else 0.
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
        """Whether elements may be left undecided."""
        return self.kind != MAX and not self.between

    @property
    def between(self) -> bool:
        """Whether means are of elements that are dequantised as stated, rounded, and quantised again."""
        return self.kind in (ESTIMATED, DEQUANTIZED)

    @property
    def divides(self) -> bool:
        """Whether what sums are divided or multiplied by is noted for a line."""
        return self.kind == MEAN or self.between

    @property
    def ranged(self) -> bool:
        """Whether sums are exact where the exponents of a line's elements are not too far apart."""
        return self.kind in ("sum", "mean")


MEMORY = ("offsets", "positions", "rows_at", "counts", "divisors", "numbers", "inverses")


def parts(key: WindowsKey) -> tuple[str, ...]:
    """LLVM's types of what is kept for each element of a line that is reduced along the window's width."""
    return (*raw(key), *(() if key.indices is None else (f"i{key.indices.element_bits}",)))


def raw(key: WindowsKey) -> tuple[str, ...]:
    """LLVM's types of what is kept for each element of a line that is read."""
    data_type = key.types[0]
    if key.kind in (QUANTIZED, ESTIMATED):
        return ("i32",)
    if key.kind != MAX:
        return ("double",)
    if data_type in SIXTEEN_BIT:
        return ("i16", "i16")  # see `kinds.Largest`
    return ("float",) if data_type == DataType.FLOAT32 else (f"i{data_type.element_bits}",)


def argument_names(key: WindowsKey) -> list[str]:
    """The arguments of the kernel, in order."""
    found = [
        "state",
        "list",
        "room",
        "budget",
        "first",
        "rows",
        *MEMORY,
        "slots",
        "pitch",
        "length",
        "ring",
        "band",
        "extent",
        "terms",
    ]
    found += [f"line{j}" for j in range(len(raw(key)))]
    for j in range(len(parts(key))):
        found += [f"slot{j}", f"blank{j}"]
    if key.down:
        found += ["columns", "column", "across", "nothing"]
    found += ["n", "m", "x", "y", "z", "xs", "ys", "zs", "weight", "stride", "window", "dilation", "start", "limit"]
    for j in range(key.plain):
        found += [f"pn{j}", f"px{j}", f"py{j}", f"pz{j}", f"pw{j}"]
    for d in range(key.taps):
        found += [f"to{d}", f"tn{d}", f"ts{d}", f"tk{d}", f"td{d}", f"tp{d}", f"tc{d}", f"tx{d}", f"ty{d}", f"tz{d}", f"tw{d}"]
    if key.between:
        found.append("rule")
    for q in present(key):
        found += [f"g{q}", f"gs{q}", *(f"gp{q}_{j}" for j in range(key.plain))]
    return found


def present(key: WindowsKey) -> list[int]:
    """The scales and zero points that are there."""
    return [q for q, there in enumerate(key.parameters) if there]


def pointers(key: WindowsKey) -> set[str]:
    """The arguments that are addresses."""
    found = {"state", "list", *MEMORY, "x", "y", "z", *(f"g{q}" for q in present(key))}
    found |= {"rule"} if key.between else set()
    found |= {f"line{j}" for j in range(len(raw(key)))} | ({"columns", "nothing"} if key.down else set())
    return found | {f"{name}{j}" for j in range(len(parts(key))) for name in ("slot", "blank")}
