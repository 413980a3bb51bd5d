"""Maps of sums: each element is a formula of one product of 8-bit integer matrices and of other elements."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.match.product import MatrixProduct, Operand, sums_of
from anydml.kernels.match.unmatched import Unmatched, only, pattern
from anydml.kernels.problem import Problem
from anydml.schema.expression import Tensor
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import loops_in, with_nodes
from anydml.tensor import DataType, TensorDesc

SUMS = "(the sums)"  # a tensor in a call's own memory
EXACT = 33_025  # terms up to which int32 holds every sum
NO_SUMS = "the elements are not formulas of one product of 8-bit integer matrices"


class Summed(NamedTuple):
    """A product whose output is the sums in int32, and the statement that computes the output from the sums."""

    product: MatrixProduct
    statement: Statement

    @property
    def terms(self) -> int:
        """The number of terms of each sum."""
        return self.product.terms

    @property
    def scale_names(self) -> frozenset[str]:
        """The scales that have data rules: none."""
        return frozenset()


@pattern
def summed(problem: Problem) -> Summed:
    """The product and the map that compute a statement, or the reason why it is not of this kind."""
    name, nest = only(problem.statement)
    found = loops_in(nest.body)
    if nest.moves or len(found) != 1 or not 2 <= len(nest.index) <= 4:
        raise Unmatched(NO_SUMS)
    sizes = tuple(int(v.size) for v in nest.variables)
    desc = TensorDesc(DataType.INT32, sizes).spelled_out()
    made = sums_of(found[0], nest.variables, Operand(SUMS, desc), problem)
    if made is None:
        raise Unmatched(NO_SUMS)
    if (k := made.a.desc.sizes[-1]) > EXACT:
        raise Unmatched(f"K = {k}: int32 does not hold sums of more than {EXACT} products")
    sums = Tensor(SUMS, sizes, DataType.INT32)[nest.index]
    return Summed(made, {name: Nest(nest.index, with_nodes(nest.body, {found[0]: sums}))})
