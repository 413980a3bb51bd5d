"""Where B comes from, and how its panels are packed: a source of columns."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple, Protocol

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.contract.geometry import Batch, Scratch


class Ready(NamedTuple):
    """Memory with what serves every batch. first: the panel that it begins with."""

    offsets: At
    places: At
    first: int


class PanelProducts(NamedTuple):
    """Rows of A, bytes apart, and where their products with panels go, int32, and the sums of these panels' columns."""

    a: At
    a_row: int
    rows: int
    products: At
    products_row: int
    sums: At


class PanelSource(Protocol):
    """The panels of a problem's B."""

    @property
    def is_thin(self) -> bool:
        """Whether `multiply` serves for a few rows of A."""
        ...

    def ready(self, panels: range, scratch: Scratch) -> Generator[Step | Repeat, None, Ready]:
        """The steps that come before the first batch, for these panels; what they leave."""
        ...

    def begin(self, batch: Batch, scratch: Scratch) -> Generator[Step | Repeat, None, At]:
        """The steps that come before a batch's first panels; where it begins."""
        ...

    def pack(self, ready: Ready, begun: At, panels: range, packed: At, sums: At, scratch: Scratch) -> Iterator[Step | Repeat]:
        """The steps that pack panels, and sum their columns in every block of K."""
        ...

    def multiply(self, ready: Ready, begun: At, panels: range, by: PanelProducts) -> Iterator[Step]:
        """The step that multiplies panels without packing them."""
        ...
