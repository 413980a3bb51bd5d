"""A picture as data: blocks of grids, rulers, flows, bars, tables and text. The renderers draw it, and know no operator.

A tone is the role of what is drawn; strength, from 0 to 1, is a share of it, such as the place in an order or a weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Tone = Literal["plain", "read", "negative", "window", "inside", "outside", "left", "fault"]


@dataclass(frozen=True)
class Cell:
    """An element, or an entry of a table. order: its place in an order, counted from 1. said: a sentence about it."""

    text: str = ""
    tone: Tone = "plain"
    strength: float = 1.0
    order: str = ""
    said: str = ""
    start: bool = False


@dataclass(frozen=True)
class Grid:
    """Elements in rows and columns. rows, columns: their indices, "…" for those left out."""

    title: str
    caption: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    frame: tuple[int, int, int, int] | None = None
    """The first and the last row, and the first and the last column, of a window, counted in `cells`."""


@dataclass(frozen=True)
class Beside:
    """Grids side by side; the arrow between them points to the last one."""

    title: str
    grids: tuple[Grid, ...]
    said: str = ""


@dataclass(frozen=True)
class Span:
    """The positions from start to stop, without stop."""

    start: int
    stop: int
    tone: Tone
    said: str


@dataclass(frozen=True)
class Ruler:
    """One dimension of a tensor: its size, spans of it, and the positions that are picked, in order."""

    title: str
    size: int
    spans: tuple[Span, ...]
    picked: tuple[int, ...]
    left: tuple[int, ...] = ()
    """Positions that could have been picked as well, and are not."""
    said: str = ""


@dataclass(frozen=True)
class Rulers:
    title: str
    rulers: tuple[Ruler, ...]


@dataclass(frozen=True)
class Node:
    """A box of a flow. reads: the places of the boxes that it reads, which come before it."""

    text: str
    detail: str
    reads: tuple[int, ...] = ()
    tone: Tone = "plain"


@dataclass(frozen=True)
class Flow:
    title: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Bar:
    label: str
    count: int
    tone: Tone = "read"


@dataclass(frozen=True)
class Bars:
    """A histogram."""

    title: str
    bars: tuple[Bar, ...]
    said: str = ""


@dataclass(frozen=True)
class Table:
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Text:
    """Lines of code or of a formula."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Faults:
    """Messages about broken rules."""

    messages: tuple[str, ...]


Block: TypeAlias = "Beside | Rulers | Flow | Bars | Table | Text | Faults"


class Contents(Protocol):
    """The contents of a picture, which are drawn."""

    @property
    def title(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def blocks(self) -> tuple[Block, ...]: ...
