"""The ends of a reduction's loops, which skip terms that are left out.

A window may have up to 2^32 positions, although the tensor that it reads is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anydml.kernels.evaluate.namespace import Namespace
from anydml.kernels.match.affine import Affine, affine, below_zero
from anydml.kernels.match.structure import conjuncts, operands
from anydml.schema.node import Expr, Variable
from anydml.schema.traversal import free, walk


def ends(
    source: Namespace,
    v: Variable,
    condition: Expr | None,
    guards: Sequence[Expr],
    later: Sequence[Variable],
    others: Sequence[str] = (),
) -> str:
    """The text of the first value and of the end of a variable's loop.

    condition: the reduction's. guards: the reads that leave out a term if they are outside. later: variables of inner loops.
    others: the texts of other ends.
    """
    low, high = ["0"], [str(v.size), *others]
    for found in (*_inside(guards), *(() if condition is None else _true(condition))):
        factor = found.factors.get(v)
        if factor is None or any(x in later for x in found.factors):
            continue
        others = [f"{f} * {source.variable(x)}" for x, f in found.factors.items() if x is not v]
        rest = f"({' + '.join([str(found.constant), *others])})"
        if factor > 0:
            low.append(f"-({rest} // {factor})")
        else:
            high.append(f"{rest} // {-factor} + 1")
    text = [f"max({', '.join(low)})" if len(low) > 1 else low[0], f"min({', '.join(high)})" if len(high) > 1 else high[0]]
    return ", ".join(text)


def read_ends(v: Variable, condition: Expr, unknown: Sequence[Variable]) -> Iterator[Expr]:
    """Ends of a variable that a condition reads from tensors: the indices that the variable must be less than.

    unknown: `v` and the variables of inner loops.
    """
    for part in operands(condition, "both"):
        if part.op == "less" and part.args[0].op == "variable" and part.args[0].data is v:
            end = part.args[1]
            if any(e.op == "index" for e in walk(end)) and not free(end)[end].intersection(unknown):
                yield end


def count(source: Namespace, e: Expr) -> str | None:
    """The text of the number of terms of a sum of a constant; None if it does not follow from the ends of its loops."""
    conditions = conjuncts(e)
    bound = set(e.data[1])
    for condition in conditions:
        found = list(_true(condition))
        if not found or any(len(bound & f.factors.keys()) != 1 for f in found):
            return None
    return " * ".join(f"len(range({ends(source, v, e.args[1] if len(e.args) > 1 else None, (), ())}))" for v in e.data[1])


def _inside(guards: Sequence[Expr]) -> Iterator[Affine]:
    """Numbers that are not negative if reads are inside of their tensors."""
    for guard in guards:
        for index, size in zip(guard.args, guard.data[0].sizes, strict=True):
            if (found := affine(index)) is not None:
                yield found
                yield Affine(size - 1, {}).plus(found, -1)


def _true(condition: Expr) -> Iterator[Affine]:
    """Numbers that are not negative if a condition holds. Only comparisons of indices give such numbers."""
    for part in operands(condition, "both") if condition.op == "both" else ():
        yield from _true(part)
    if all(a.sort == "index" or a.op == "constant" for a in condition.args) and (found := below_zero(condition)) is not None:
        yield Affine(-1, {}).plus(found, -1)
