"""Parts of formulas that are computed as a whole in twice float64's precision: operation by operation, they lose digits."""

from __future__ import annotations

from itertools import permutations

from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.numbers.doubled.arithmetic import Precise, add, finite, multiply, select, subtract
from anydml.kernels.numbers.lanes import Truth


def weighted(formula: NormalForm, place: int) -> tuple[int, int, int] | None:
    """z, a and b of a sum (1 - z) a + z b."""
    for first, second in permutations(formula[place].args):
        if formula[first].op != "mul" or formula[second].op != "mul":
            continue
        for rest, a in permutations(formula[first].args):
            for z, b in permutations(formula[second].args):
                op, args, _ = formula[rest]
                if op == "sub" and args[1] == z and formula[args[0]].op == "constant" and formula[args[0]].data.value == 1:
                    return z, a, b
    return None


def between(made: Precise | Truth, *parts: Precise | Truth) -> Precise:
    """(1 - z) a + z b as a + z (b - a) where that has the smaller bound: where z is large, and a is nearly b."""
    z, a, b = (x for x in parts if isinstance(x, Precise))
    assert isinstance(made, Precise)
    other = add(a, multiply(z, subtract(b, a)))
    better = finite(other.pair.head) & finite(made.pair.head) & other.err.compared("olt", made.err)
    better = better & other.pair.head.compared("une", 0.0)
    return select(Truth(better), other, made)


def is_softsign(formula: NormalForm, place: int) -> bool:
    """Whether a quotient is x / (1 + |x|)."""
    x, under = formula[place].args
    total = formula[under]
    if total.op != "add":
        return False
    parts = [formula[a] for a in total.args]
    one = any(p.op == "constant" and p.data.value == 1 for p in parts)
    return one and any(p.op == "absolute" and p.args == (x,) for p in parts)
