"""A block of sums as its epilogue is made for it, and the epilogue's arguments."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.contract.floats.formula import Stored

OWN = 2  # streams before those of the formula: the sums, and the columns' norms
MAGNITUDES, PAIRS = "magnitudes", "pairs"
# counter: entries on the list, then what is known of the sums. rests: of pairs, or magnitudes; a_low, b_low: of pairs
ARGUMENTS = (
    "rows", "first", "count", "n1", "n2", "sums", "sums_row", "factor", "a_norms", "b_norms", "list", "counter", "terms",
    "rests", "a_low", "b_low",
)  # fmt: skip
POINTERS = {"sums", "a_norms", "b_norms", "list", "counter", "rests", "a_low", "b_low"}


class Shape(NamedTuple):
    """lies: how each stream that is read lies along a run of columns, and the output, last. padded: some norms are negative,
    where terms do not count.
    measured: each sum has one of its terms' magnitudes, in rows as far apart, in the norms' place. mixed: sums are made of
    others, whose infinities they have, and whose zeros have lost their signs. again: what there is beside each sum, where the
    counter says so; nothing is done elsewhere."""

    stored: Stored
    lies: tuple[str, ...]
    padded: bool
    measured: bool = False
    mixed: bool = False
    again: str = ""


def names(shape: Shape) -> list[str]:
    """The arguments of the kernel, in order."""
    return [*ARGUMENTS, *places(len(shape.lies))]


def places(count: int) -> list[str]:
    """The arguments of streams: where each begins, and bytes along rows and the columns' dimensions, the innermost last."""
    return [f"{x}{k}" for k in range(OWN, OWN + count) for x in "przys"]
