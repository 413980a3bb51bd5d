"""The factor of a product that is dequantised from constant integers: recognised, and replaced by a tensor of floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.match.unmatched import Unmatched
from anydml.kernels.problem import Problem
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, is_integer, make
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import bound_by, walk
from anydml.tensor import DataType

WEIGHTS = "(weights)"  # the name of the tensor of floats that stands for the weights
UNSIGNED = {DataType.UINT4: (4, 0), DataType.INT4: (4, 8), DataType.UINT8: (8, 0), DataType.INT8: (8, 128)}  # bits, offset
TYPES = {DataType.FLOAT32, DataType.FLOAT16}

Constants = Mapping[str, NDArray[Any]]


class WeightsFactor(NamedTuple):
    """Weights {rows, terms} = (elements - zeros) * scales, rounded to `data_type`.

    sizes: those of the tensor, in which terms come before rows if `transposed`. elements: uint8, of so many bits; scales:
    float32, and zeros: uint8, {rows, blocks}.
    """

    data_type: DataType
    sizes: tuple[int, ...]
    transposed: bool
    bits: int
    elements: NDArray[np.uint8]
    scales: NDArray[np.float32]
    zeros: NDArray[np.uint8]

    @property
    def block(self) -> int:
        """Terms that share a scale."""
        return int(self.elements.shape[1] // self.scales.shape[1])

    def dequantised(self) -> NDArray[Any]:
        """The tensor of weights."""
        block = self.block
        found = np.empty(self.elements.shape, self.data_type.dtype)
        whole = self.elements.shape[1] // block
        for rows in range(0, len(found), 256):  # a part at a time, since numbers between take eight times the memory
            some = slice(rows, rows + 256)
            differences = self.elements[some].reshape(-1, whole, block).astype(np.int32) - self.zeros[some, :, None]
            exact = differences * self.scales[some, :, None].astype(np.float64)  # at most 9 and 24 bits
            found[some] = exact.reshape(-1, whole * block).astype(found.dtype)
        return np.ascontiguousarray(found.T if self.transposed else found).reshape(self.sizes)


class Dequantisation(NamedTuple):
    """A matrix of elements, uint8 of so many bits, and its scales and zero points: one for each block, in both dimensions."""

    data_type: DataType
    sizes: tuple[int, ...]
    bits: int
    elements: NDArray[np.uint8]
    scales: NDArray[Any]
    zeros: NDArray[np.int64]

    def factor(self, *, transposed: bool) -> WeightsFactor:
        """The weights. transposed: whether the first dimension is that of the terms."""
        elements = self.elements.T if transposed else self.elements
        scales, zeros = (x.T if transposed else x for x in (self.scales, self.zeros))
        sizes = len(elements), max(scales.shape[1], zeros.shape[1])

        def by_row(x: NDArray[Any], data_type: Any) -> NDArray[Any]:
            for axis in (0, 1):
                x = np.repeat(x, sizes[axis] // x.shape[axis], axis)
            return np.ascontiguousarray(x, data_type)

        return WeightsFactor(
            self.data_type, self.sizes, transposed, self.bits, elements, by_row(scales, np.float32), by_row(zeros, np.uint8)
        )


def dequantised_factor(problem: Problem) -> tuple[Statement, Dequantisation]:
    """The statement, in which the dequantised factor is read from a tensor WEIGHTS, and its dequantisation, or Unmatched."""
    ((name, nest),) = problem.statement.items()
    sums = [e for e in walk(nest.body) if bound_by(e)]
    if nest.moves or len(sums) != 1 or sums[0].op != "reduce" or sums[0].args[0].op != "mul":
        raise Unmatched("the elements are not formulas of one sum of products of two elements")
    rounded = [a for a in sums[0].args[0].args if a.op == "round"]
    if len(rounded) != 1 or rounded[0].data not in TYPES or rounded[0].args[0].op != "mul":
        raise Unmatched("no factor, or not one alone, is dequantised")
    (old,) = rounded
    centred, scale = old.args[0].args
    element, zero = centred.args if centred.op == "sub" else (centred, None)
    if element.op != "read" or element.data[1] != "inside" or (t := element.data[0]).data_type not in UNSIGNED:
        raise Unmatched("no factor is dequantised from integers of 4 or 8 bits")
    bits, offset = UNSIGNED[t.data_type]
    constants = problem.promises.constants
    if (data := constants.get(t.name)) is None or data.shape != t.sizes:
        raise Unmatched("the weights are not constants")
    scales = _by_block(scale, element.args, t.sizes, constants)
    if scales.dtype not in (np.float32, np.float16) or not np.isfinite(scales).all():
        raise Unmatched("scales are not finite floats")
    if np.abs(scales).max() * 2.0**bits > np.finfo(rounded[0].data.dtype).max:
        raise Unmatched("weights may be infinite")
    if zero is None or is_integer(zero):
        zeros = np.full((1,) * len(t.sizes), 0 if zero is None else int(zero.data.value))
    else:
        zeros = _by_block(zero, element.args, t.sizes, constants).astype(np.int64)
    zeros = zeros + offset
    if zeros.min() < 0 or zeros.max() >= 1 << bits:
        raise Unmatched("zero points have more bits than the weights")
    kept = [k for k, n in enumerate(t.sizes) if n > 1]
    if len(kept) != 2:
        raise Unmatched("the weights are no matrix")

    def matrix(x: NDArray[Any]) -> NDArray[Any]:
        return x.reshape([x.shape[k] for k in kept])

    shifted = data if not offset else (data.view(np.uint8) + np.uint8(offset)) & np.uint8((1 << bits) - 1)
    made = Dequantisation(rounded[0].data, t.sizes, bits, matrix(shifted), matrix(scales), matrix(zeros))
    read = make("read", element.args, (Tensor(WEIGHTS, t.sizes, rounded[0].data), "inside"))
    return {name: Nest(nest.index, _replaced(nest.body, old, read), nest.moves)}, made


def _by_block(e: Expr, at: Sequence[Expr], sizes: Sequence[int], constants: Constants) -> NDArray[Any]:
    """The elements of a constant that has one for each block of an index; dimensions may have size 1."""
    if e.op != "read" or e.data[1] != "inside" or (data := constants.get(e.data[0].name)) is None or len(e.args) != len(at):
        raise Unmatched("scales or zero points are not constants")
    for a, i, n, size in zip(e.args, at, data.shape, sizes, strict=True):
        if n == 1:
            continue
        divided = a.op == "floordiv" and a.args[0] is i and is_integer(a.args[1]) and int(a.args[1].data.value) * n == size
        if not (divided or (a is i and n == size)):
            raise Unmatched("scales or zero points are read at other indices than those of blocks")
    return data


def _replaced(body: Expr, old: Expr, new: Expr) -> Expr:
    made: dict[Expr, Expr] = {old: new}
    for e in walk(body):
        if e not in made:
            made[e] = make(e.op, tuple(made[a] for a in e.args), e.data, e.sort) if e.args else e
    return made[body]
