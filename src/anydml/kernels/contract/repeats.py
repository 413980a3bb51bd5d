"""Steps that repeat for many items, planned once: their number does not grow with batches, rows, columns and products."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anydml.kernels.call.steps import Repeat, Step, repeat
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.geometry import Batch

Steps = Iterable[Step | Repeat]


def repeated(target: Target, items: range, steps: Callable[[int], Steps]) -> list[Step | Repeat]:
    """`steps` of each item, whose arguments grow by a constant from item to item: for three and more items, a repetition."""
    if len(items) < 3:
        return [step for i in items for step in steps(i)]
    code = engine.compiled(repeat, target)
    return [Repeat(code, len(items), list(steps(items[0])), list(steps(items[1])))]


def each(target: Target, outer: range, inner: range, steps: Callable[[Batch], Steps]) -> list[Step | Repeat]:
    """`steps` of each batch."""
    return repeated(target, outer, lambda i: repeated(target, inner, lambda j: steps((i, j))))


def along(target: Target, items: range, most: int, steps: Callable[[range], Steps]) -> list[Step | Repeat]:
    """`steps` of at most `most` items at a time; those of the last items may differ."""
    firsts = range(items.start, items.stop, most)
    before = repeated(target, firsts[:-1], lambda first: steps(range(first, first + most)))
    return [*before, *steps(range(firsts[-1], items.stop))]
