"""The interface of sources of B's panels."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple, Protocol

from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.contract.geometry import Batch, Scratch


class Ready(NamedTuple):
    """Tables that `ready` has written for all batches, if the source needs any; first: the panel that they begin with."""

    offsets: At
    places: At
    first: int


class PanelProducts(NamedTuple):
    """Rows of A, a_row bytes apart; the address of their products with panels, int32; and that of the sums of these panels'
    columns."""

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
        """Whether `multiply` is worth using for a few rows of A."""
        ...

    def ready(self, panels: range, scratch: Scratch) -> Generator[Step | Repeat, None, Ready]:
        """The steps before the first batch, for these panels, and their results."""
        ...

    def begin(self, batch: Batch, scratch: Scratch) -> Generator[Step | Repeat, None, At]:
        """The steps before a batch's first panels, and the address that `pack` and `multiply` then take."""
        ...

    def pack(self, ready: Ready, begun: At, panels: range, packed: At, sums: At, scratch: Scratch) -> Iterator[Step | Repeat]:
        """The steps that pack panels, and sum their columns in every block of K."""
        ...

    def multiply(self, ready: Ready, begun: At, panels: range, by: PanelProducts) -> Iterator[Step]:
        """The step that multiplies panels without packing them."""
        ...
