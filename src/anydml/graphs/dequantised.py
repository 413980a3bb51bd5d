"""Dequantised tensors of a graph: the integers from which floats are computed, with constant scales and zero points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import products_in_float32
from anydml.graphs.checked import CheckedGraph
from anydml.graphs.plan import Use, Work, lie_alike
from anydml.graphs.quantised_parts import Unmatched, places, read_at
from anydml.schema.node import Expr, lift
from anydml.schema.statement import Nest, meaning
from anydml.schema.traversal import walk
from anydml.tensor import DataType, TensorDesc, packed_strides

EIGHT_BIT, FLOAT32 = (DataType.INT8, DataType.UINT8), DataType.FLOAT32


class Dequantised(NamedTuple):
    """A tensor (source - zero) * scale. scale, zero: arrays that broadcast. zero_use: the tensor of the zero points, if any."""

    source: Use
    scale: NDArray[np.float32]
    zero: NDArray[np.int64]
    zero_use: Use | None


def _laid(memory: NDArray[Any], t: TensorDesc) -> NDArray[Any]:
    """The array of a tensor over memory. A dimension of stride 0 gets size 1."""
    sizes = [1 if stride == 0 else n for n, stride in zip(t.sizes, t.explicit_strides, strict=True)]
    dtype = t.data_type.dtype
    strides = [stride * dtype.itemsize for stride in t.explicit_strides]
    elements: NDArray[Any] = np.ndarray(sizes, dtype, memory, strides=strides)
    return elements


class Reading:
    """The operators of a graph and its constants. Methods raise Unmatched if an operator is not of the kind that they seek."""

    def __init__(self, checked: CheckedGraph, works: Sequence[Work]) -> None:
        self.checked = checked
        self.writers = {use.buffer: work for work in works for use in work.writes.values()}
        self.kept = {bound.buffer for bound in checked.outputs}
        self.readers: dict[int, int] = {}
        for work in works:
            for buffer in {use.buffer for use in work.reads.values()}:
                self.readers[buffer] = self.readers.get(buffer, 0) + 1

    def nest(self, work: Work) -> Nest:
        operator = self.checked.nodes[work.node]
        assert operator is not None
        if operator.desc.spec.data_rules or len(work.writes) != 1:
            raise Unmatched
        (nest,) = meaning(operator.desc.as_newest()).values()
        if nest.moves or any(e.op == "read" and e.data[0].definition is not None for e in walk(nest.body)):
            raise Unmatched
        return nest

    def before(self, use: Use) -> Work:
        """The operator that writes a float tensor which has one reader."""
        work = self.writers.get(use.buffer)
        if work is None or use.buffer in self.kept or self.readers[use.buffer] != 1 or len(work.writes) != 1:
            raise Unmatched
        (written,) = work.writes.values()
        if written.tensor.data_type is not FLOAT32 or not lie_alike(use, written):
            raise Unmatched
        return work

    def constant(self, use: Use) -> bool:
        """Whether a float tensor is a constant, or dequantised from constants."""
        if self.checked.constant(use.buffer) is not None:
            return True
        work = self.writers.get(use.buffer)
        return work is not None and all(self.checked.constant(u.buffer) is not None for u in work.reads.values())

    def fixed(self, use: Use) -> bool:
        """Whether a float tensor is a constant, or dequantised from constants and owned 8-bit inputs."""
        work = self.writers.get(use.buffer)
        if work is None or self.constant(use):
            return self.constant(use)
        others = [u for u in work.reads.values() if self.checked.constant(u.buffer) is None]
        return all(self.checked.buffers[u.buffer].owned and u.tensor.data_type in EIGHT_BIT for u in others)

    def product(self, use: Use) -> tuple[Work, Nest, Expr, Expr, Expr]:
        """The operator that dequantises a float tensor, its statement, the integer element, the zero point and the scale."""
        work = self.writers.get(use.buffer)
        if work is None:
            raise Unmatched
        nest = self.nest(work)
        (written,) = work.writes.values()
        if nest.body.op != "mul" or written.tensor.data_type is not FLOAT32 or use.tensor.data_type is not FLOAT32:
            raise Unmatched
        centred, scale = nest.body.args
        element, zero = centred.args if centred.op == "sub" else (centred, lift(0))
        return work, nest, element, zero, scale

    def dequantised(self, use: Use) -> Dequantised:
        """The tensor of 8 bits from which a float tensor is dequantised."""
        work, nest, element, zero, scale = self.product(use)
        if not lie_alike(use, *work.writes.values()):
            raise Unmatched
        source = work.reads[read_at(element, nest)]
        if source.tensor.data_type not in EIGHT_BIT:
            raise Unmatched
        zero_use = work.reads[zero.data[0].name] if zero.op == "read" else None
        return Dequantised(source, self.scale(work, scale, nest), self.integers(work, zero, nest), zero_use)

    def made(self, use: Use) -> NDArray[np.float32]:
        """The elements of a float tensor that is dequantised from constants, such as a bias."""
        work, nest, element, zero, scale = self.product(use)
        integers = np.subtract(self.integers(work, element, nest), self.integers(work, zero, nest))
        q, s = np.broadcast_arrays(integers, self.scale(work, scale, nest))
        floats = products_in_float32(q, s)
        (written,) = work.writes.values()
        if lie_alike(use, written):
            return floats
        sizes, strides = written.tensor.sizes, written.tensor.explicit_strides
        if strides != packed_strides(sizes) or use.offset != written.offset:
            raise Unmatched
        return _laid(np.ascontiguousarray(np.broadcast_to(floats, sizes)).ravel(), use.tensor)

    def integers(self, work: Work, e: Expr, nest: Nest) -> NDArray[np.int64]:
        if e.op == "constant":
            return np.full((1,) * len(nest.index), int(e.data.value), np.int64)
        found = self.array(work, e, nest)
        if found.dtype.kind not in "iu" or found.dtype.itemsize > 4:
            raise Unmatched
        return found.astype(np.int64)

    def scale(self, work: Work, e: Expr, nest: Nest) -> NDArray[np.float32]:
        found = self.array(work, e, nest)
        if found.dtype != np.float32 or not np.isfinite(found).all():
            raise Unmatched
        return found

    def data(self, use: Use) -> NDArray[Any]:
        """The elements of a constant. A dimension of stride 0 gets size 1."""
        constant = self.checked.constant(use.buffer)
        if constant is None or use.tensor.data_type.element_bits < 8:
            raise Unmatched
        return _laid(constant.data, use.tensor)

    def array(self, work: Work, e: Expr, nest: Nest) -> NDArray[Any]:
        """The numbers that an expression reads from a constant or a tensor dequantised from constants, by the nest's index."""
        if e.op != "read" or e.data[1] != "inside" or len(e.args) != len(nest.index):
            raise Unmatched
        use = work.reads[e.data[0].name]
        data = self.made(use) if use.buffer in self.writers and self.constant(use) else self.data(use)
        at = [places(a, i, n) for a, i, n in zip(e.args, nest.index, data.shape, strict=True)]
        found: NDArray[Any] = data[np.ix_(*at)]
        return found
