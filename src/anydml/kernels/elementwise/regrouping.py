"""Formulas with elements that are standardised by line, regrouped: values that a line shares are computed once for it.

(x - m) a g + b, where m and a are the same for a line, is a "standardised" element of a "line". ((x - m) + (z - n) c) a is a
"sloped" one of a "sloped_line". `standardised` and `sloped` have their instructions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from anydml.kernels.match.normal_form import Node, NormalForm, used
from anydml.kernels.numbers.singles import SINGLES
from anydml.schema.node import Constant

LINE, ELEMENT = "line", "standardised"
SLOPED_LINE, SLOPED = "sloped_line", "sloped"
TERMS = 3  # the most terms that are added to the product


def differing(formula: NormalForm, constant: Collection[int]) -> tuple[bool, ...]:
    """By node: whether it differs along a line; constant: the streams that don't."""
    return formula.varying(lambda node: node.op == "stream" and node.data[0] not in constant)


class _Product(NamedTuple):
    """The nodes of a product: factors that differ along a line, other factors, and divisors."""

    inside: list[int]
    above: list[int]
    below: list[int]


class _Element(NamedTuple):
    """The nodes of a standardised element, None or empty for parts that it lacks."""

    x: int
    m: int | None
    factors: _Product
    g: int | None
    fixed: list[int]  # terms that are the same for a line
    added: list[int]

    def written(self, formula: NormalForm, p: int) -> list[Node]:
        made = _Written(formula, p)
        a = made.factor(self.factors.above, self.factors.below)
        line = made.of_roles(LINE, ("m", self.m), ("a", a), *(("b", b) for b in self.fixed))
        roles = (("x", self.x), ("g", self.g), *(("b", b) for b in self.added))
        return made.ended(made.of_roles(ELEMENT, *roles, first=line))


class _Sloped(NamedTuple):
    """The nodes of a sloped element, ((x - m) + (z - n) slope) factors; less: the second difference is subtracted."""

    x: int
    m: int
    z: int
    n: int
    slope: _Product
    less: bool
    factors: _Product

    def written(self, formula: NormalForm, p: int) -> list[Node]:
        made = _Written(formula, p)
        c = made.factor(self.slope.above, self.slope.below)
        assert c is not None
        a = made.factor(self.factors.above, self.factors.below)
        line = made.of_roles(SLOPED_LINE, ("m", self.m), ("n", self.n), ("c", made.add("neg", c) if self.less else c), ("a", a))
        return made.ended(made.of_roles(SLOPED, ("x", self.x), ("z", self.z), first=line))


@lru_cache(maxsize=256)
def regrouped(formula: NormalForm, constant: frozenset[int]) -> NormalForm:
    """The formula with standardised and sloped elements and their lines; constant: the streams that are the same for a line.

    Each element takes the place of a node, so that the loop ends.
    """
    while (found := _regrouped(formula, constant)) is not None:
        formula = used(found)
    return formula


def _regrouped(formula: NormalForm, constant: frozenset[int]) -> list[Node] | None:
    inside = differing(formula, constant)
    for p in range(len(formula) - 1, -1, -1):
        if inside[p] and (found := _element(formula, inside, p) or _sloped(formula, inside, p)) is not None:
            return found.written(formula, p)
    return None


class _Written:
    """A formula that is rewritten from a node on."""

    def __init__(self, formula: NormalForm, p: int) -> None:
        self.formula, self.p = formula, p
        self.nodes = list(formula[:p])

    def add(self, op: str, *args: int, data: object = None) -> int:
        self.nodes.append(Node(op, args, data))
        return len(self.nodes) - 1

    def factor(self, above: Sequence[int], below: Sequence[int]) -> int | None:
        """The factor of all elements, if there is one."""
        found = None
        for factor in above:
            found = factor if found is None else self.add("mul", found, factor)
        under = None
        for divisor in below:
            under = divisor if under is None else self.add("mul", under, divisor)
        if under is None:
            return found
        return self.add("div", self.add("constant", data=Constant(Fraction(1), False)) if found is None else found, under)

    def of_roles(self, op: str, *roles: tuple[str, int | None], first: int | None = None) -> int:
        """A node whose data are the roles of its arguments, one letter each; first: an argument before these."""
        there = [(role, place) for role, place in roles if place is not None]
        before = () if first is None else (first,)
        return self.add(op, *before, *(place for _, place in there), data="".join(role for role, _ in there))

    def ended(self, element: int) -> list[Node]:
        """The nodes, with the element in the place of p."""
        moved = {self.p: element}
        for place in range(self.p + 1, len(self.formula)):
            op, args, data = self.formula[place]
            moved[place] = self.add(op, *(moved.get(a, a) for a in args), data=data)
        return self.nodes


def _element(formula: NormalForm, inside: Sequence[bool], p: int) -> _Element | None:
    """A node as a standardised element, or None: also if its line computes nothing or is used in only one subtraction."""
    terms = list(_terms(formula, p))
    products = [t for t in terms if not _is_single(formula[t])]
    if len(products) != 1 or len(terms) > 1 + TERMS:
        return None
    factors = _factors(formula, inside, products[0])
    centres = [f for f in factors.inside if formula[f].op == "sub"]
    singles = [f for f in factors.inside if _is_single(formula[f])]
    if not factors.inside or len(factors.inside) > 2 or len(centres) + len(singles) < len(factors.inside) or len(centres) > 1:
        return None
    x, m = singles[0] if singles else -1, None
    if centres:
        found = _centre(formula, inside, centres[0])
        if found is None:
            return None
        x, m = found
    others = singles if centres else singles[1:]
    computed = [f for f in (*factors.above, *factors.below, *([m] if m is not None else [])) if not _is_read(formula[f])]
    terms.remove(products[0])
    bounded = m is not None and formula[m].op == "row_moments"  # a mean with an absolute bound, which no other form has
    if not computed or not (factors.above or factors.below or others or terms or bounded):
        return None
    fixed, added = ([t for t in terms if inside[t] == there] for there in (False, True))
    return _Element(x, m, factors, others[0] if others else None, fixed, added)


def _sloped(formula: NormalForm, inside: Sequence[bool], p: int) -> _Sloped | None:
    """A node as a sloped element; None if it is none."""
    factors = _factors(formula, inside, p)
    if len(factors.inside) != 1 or formula[factors.inside[0]].op not in ("add", "sub"):
        return None
    op, (one, two), _ = formula[factors.inside[0]]
    for first, second in ((one, two),) if op == "sub" else ((one, two), (two, one)):
        slope = _factors(formula, inside, second)
        if len(slope.inside) != 1 or not (slope.above or slope.below):
            continue
        centres = [_centre(formula, inside, place) for place in (first, slope.inside[0])]
        if centres[0] is not None and centres[1] is not None:
            return _Sloped(*centres[0], *centres[1], slope, op == "sub", factors)
    return None


def _centre(formula: NormalForm, inside: Sequence[bool], p: int) -> tuple[int, int] | None:
    """The arguments of a difference x - m, of an element and a value that a line shares; None for other nodes."""
    op, args, _ = formula[p]
    if op != "sub" or inside[args[1]] or not (inside[args[0]] and _is_single(formula[args[0]])):
        return None
    return args[0], args[1]


def _terms(formula: NormalForm, p: int) -> Iterator[int]:
    op, args, _ = formula[p]
    if op in ("add", "same"):
        for a in args:
            yield from _terms(formula, a)
    else:
        yield p


def _factors(formula: NormalForm, inside: Sequence[bool], p: int) -> _Product:
    op, args, _ = formula[p]
    if not inside[p]:
        return _Product([], [p], [])
    if op == "same":
        return _factors(formula, inside, args[0])
    if op == "mul":
        one, two = (_factors(formula, inside, a) for a in args)
        return _Product(one.inside + two.inside, one.above + two.above, one.below + two.below)
    if op == "div" and not inside[args[1]]:
        one = _factors(formula, inside, args[0])
        return one._replace(below=[*one.below, args[1]])
    return _Product([p], [], [])


def _is_single(node: Node) -> bool:
    return node.op == "stream" and node.data[1] in SINGLES


def _is_read(node: Node) -> bool:
    return node.op in ("stream", "constant")
