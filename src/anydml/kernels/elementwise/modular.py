"""Integers in formulas: which nodes are integral, and which are needed only modulo 2^bits."""

from __future__ import annotations

from anydml.kernels.match.maps import over_streams
from anydml.kernels.match.normal_form import NormalForm
from anydml.schema.expression import each
from anydml.schema.traversal import integral

RING = {"add", "sub", "mul", "neg"}
KEEPS_MODULUS = {*RING, "select", "power", "same", "row_sum", "row_product"}


def integral_at(formula: NormalForm, place: int) -> bool:
    """Whether a node is integral."""
    i = each((1,))
    body, _ = over_streams(formula[: place + 1], (1,), i)
    return integral(body)


def modular(formula: NormalForm) -> frozenset[int]:
    """The sums, products and selections of which the stored integer depends only on the value modulo 2^bits."""
    found = [False] * len(formula)
    found[-1] = True
    for place in range(len(formula) - 2, -1, -1):
        found[place] = all(
            found[user]
            and formula[user].op in KEEPS_MODULUS
            and (formula[user].op != "select" or formula[user].args[0] != place)
            for user in formula.users[place]
        )
    return frozenset(place for place, yes in enumerate(found) if yes and formula[place].op in KEEPS_MODULUS)
