"""Tasks: a window of an input is put together from the blocks that have its elements, and a chunk is computed from windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.chunking.split import combined
from anydml.chunking.windows import Chunks, Needed, Window, sizes_of, windows_of
from anydml.functional.plan import Placed


class Source:
    """An input of a call: a Dask array or a NumPy array. placed: the way from the argument to the tensor.

    sizes: of the tensor. dimensions: for each dimension of the array, the tensor's, and whether it is broadcast along it.
    """

    def __init__(self, placed: Placed, value: Any, key: str, sizes: Sequence[int], lazy: bool) -> None:
        self.placed, self.value, self.key, self.lazy = placed, value, key, lazy
        self.sizes = tuple(sizes)
        shape = placed.shape or tuple(value.shape)
        more = len(self.sizes) - len(shape)
        if placed.shape is not None and lazy:
            axes = [d for d, n in enumerate(shape) if n > 1] or [0]
            self.dimensions = [(axes[0] + more, False)]
        else:
            self.dimensions = [(d + more, n == 1 and self.sizes[d + more] > 1) for d, n in enumerate(shape)]

    @property
    def chunks(self) -> Chunks:
        """The chunks along each dimension of the tensor."""
        found = [(n,) for n in self.sizes]
        for (d, broadcast), sizes in zip(self.dimensions, self.value.chunks if self.lazy else (), strict=False):
            if not broadcast:
                found[d] = sizes
        return tuple(found)

    def gathered(self, needed: Needed) -> tuple[Gather, list[Any]]:
        """The plan by which a window is put together, and the keys of its blocks."""
        if not self.lazy:
            return Gather(self.placed, None, needed.window, ()), [self.key]
        grid: list[list[tuple[int, slice, slice]]] = []
        for (d, broadcast), sizes in zip(self.dimensions, self.value.chunks, strict=True):
            if broadcast:
                grid.append([(0, slice(0, 1), slice(0, 1))])
                continue
            w, blocks = needed.window[d], windows_of(sizes)
            each = []
            for k in needed.blocks[d]:
                low, high = max(w.start, blocks[k].start), min(w.stop, blocks[k].stop)
                each.append((k, slice(low - w.start, high - w.start), slice(low - blocks[k].start, high - blocks[k].start)))
            grid.append(each)
        keys, cuts = [], []
        for place in product(*grid):
            keys.append((self.key, *(k for k, _, _ in place)))
            cuts.append((tuple(to for _, to, _ in place), tuple(cut for _, _, cut in place)))
        shape = tuple(1 if b else needed.window[d].stop - needed.window[d].start for d, b in self.dimensions)
        reshaped = [1] * len(self.sizes)
        for n, (d, _) in zip(shape, self.dimensions, strict=True):
            reshaped[d] = n
        return Gather(self.placed, tuple(reshaped), needed.window, tuple(cuts), shape), keys


class Gather(NamedTuple):
    """The plan by which a window is put together.

    cuts: for each block, where its part goes, and the part. shape: of the array's window. reshaped: the same with the tensor's
    dimensions; None for an array that is there as a whole.
    """

    placed: Placed
    reshaped: tuple[int, ...] | None
    window: Window
    cuts: tuple[tuple[Window, Window], ...]
    shape: tuple[int, ...] = ()

    def __call__(self, blocks: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The window of the tensor."""
        if self.reshaped is None:
            whole: NDArray[Any] = self.placed.view(blocks[0])
            return whole[self.window]
        if len(self.cuts) == 1:
            made = np.asarray(blocks[0])[self.cuts[0][1]]
        else:
            made = np.zeros(self.shape, blocks[0].dtype)  # between blocks that are not needed, nothing is read
            for block, (to, cut) in zip(blocks, self.cuts, strict=True):
                made[to] = block[cut]
        if made.dtype == np.bool_:
            made = made.view(np.uint8)
        return np.broadcast_to(made.reshape(self.reshaped), sizes_of(self.window))


class Task:
    """A task of a Dask graph: a chunk, partial results or a last step, computed from the blocks of its windows.

    first: whether partial results come before the blocks, as a list.
    """

    def __init__(self, run: Callable[..., Any], gathers: dict[str, tuple[Gather, int]], device: Any, added: int = 0) -> None:
        self.run, self.gathers, self.device, self.added = run, gathers, device, added

    def __call__(self, *given: Any) -> Any:
        *parts, blocks = given
        arrays, at = {}, 0
        for name, (gather, count) in self.gathers.items():
            if count:
                arrays[name] = gather(blocks[at : at + count])
                at += count
        made = self.run(*parts, device=self.device, **arrays)
        if self.added and isinstance(made, np.ndarray):
            made = made.reshape(made.shape[self.added :])
        return made


class Combine:
    """A task that makes one partial result of several."""

    def __init__(self, kind: str, of: tuple[str, bool]) -> None:
        self.kind, self.of = kind, of

    def __call__(self, parts: Sequence[Any]) -> Any:
        return combined(parts, self.kind, self.of)
