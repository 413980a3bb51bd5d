"""Formulas whose elements share values with others of the same line: the items of the nodes that `regrouping` makes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from anydml.kernels.code.values import Value
from anydml.kernels.elementwise import sloped, standardised
from anydml.kernels.elementwise.formula import FormulaWalk
from anydml.kernels.elementwise.items import Item, LoadedElement, as_number, single_constant
from anydml.kernels.elementwise.regrouping import ELEMENT, LINE, SLOPED, SLOPED_LINE, differing
from anydml.kernels.match.normal_form import Node, NormalForm
from anydml.kernels.numbers.floats.numbers import Number, settled


class LineWalk(FormulaWalk):
    """A regrouped formula. base: the standardised element that the last node is, clamped or not; None if it is none.

    clamps: "max" or "min", each with a limit. Limits are float32, so that clamps may come before or after the rounding.
    but_zeros: whether the last node is another one in lines of zeros, whose elements are infinite or NaN, so never certain.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.base, self.clamps = _clamps(self.nodes)
        self.but_zeros = self.base is None and _is_but_zeros(self.nodes)
        if self.but_zeros:
            self.base = self.nodes[-1].args[2]
        self._begun: standardised.Standardised | None = None

    def run_line(self, constant: Collection[int]) -> Mapping[int, Item]:
        """The items of the nodes that are the same along a line, for all of its groups; constant: the streams that are so."""
        for place, inside in enumerate(differing(self.nodes, constant)):
            if not inside:
                self.put(place, self._settled(self._item(place, *self.nodes[place])))
        return self.items.nested[0]

    def at_base(self) -> standardised.Standardised | None:
        """The element at the base, with its doubtful lanes not yet in its guard."""
        if self.base is not None:
            self.fill_to(self.base)
        return self._begun

    def fuses(self, line: int) -> bool:
        """Whether elements of a line are standardised by its own mean, in one operation."""
        return False

    def fill_to(self, base: int) -> None:
        """Compute a node and all nodes before it."""
        self.fill(range(base + 1))

    def doubted(self) -> None:
        """Add the doubtful lanes of the element at the base to its guard, for all that is computed from now on."""
        if self.base is not None and self._begun is not None:
            self.put(self.base, self._begun.guarded())
            self.converted.pop(self.base, None)

    def clamped(self, x: Value) -> Value:
        """A float32 clamped to the limits; it is not 0 if a limit is 0."""
        for op, limit in self.clamps:
            x = x.body.chosen(x.compared("ogt" if op == "max" else "olt", limit), x, limit)
        return x

    def _settled(self, item: Item) -> Item:
        """An item that may be used in any block that follows."""
        if isinstance(item, LoadedElement) and item.data_type.is_float:
            item = as_number(item, self.like)
        return settled(item) if isinstance(item, Number) else item

    def _item(self, place: int, op: str, args: tuple[int, ...], data: object) -> Item:
        if op not in (LINE, SLOPED_LINE, ELEMENT, SLOPED):
            return super()._item(place, op, args, data)
        roles = cast("str", data)
        if op == LINE:
            return standardised.line(self.like, roles, [self.number(a) for a in args], fused=self.fuses(place))
        if op == SLOPED_LINE:
            return sloped.line(roles, [self.number(a) for a in args])
        made = self._element(self.items[args[0]], roles, [self.number(a) for a in args[1:]])
        if place != self.base:
            return made.guarded()
        self._begun = made
        return made.number

    def _element(self, shared: Item, roles: str, numbers: Sequence[Number]) -> standardised.Standardised:
        if isinstance(shared, sloped.SlopedLine):
            return sloped.element(shared, *numbers)
        assert isinstance(shared, standardised.LineMoments)
        return standardised.element(shared, roles, numbers)


def _clamps(formula: NormalForm) -> tuple[int | None, list[tuple[str, float]]]:
    """The base and the limits of a formula, in order."""
    p, found = len(formula) - 1, list[tuple[str, float]]()
    while formula[p].op in ("max", "min", "same"):
        limits = [value for a in formula[p].args if (value := single_constant(formula[a])) is not None]
        others = [a for a in formula[p].args if single_constant(formula[a]) is None]
        if len(others) != 1:
            return None, []
        found = [(formula[p].op, value) for value in limits] + found
        (p,) = others
    return (p, found) if formula[p].op in (ELEMENT, SLOPED) else (None, [])


def _is_but_zeros(formula: NormalForm) -> bool:
    """Whether the last node is a choice, of an element of a line that is divided by s or its root unless s is 0."""
    if formula[-1].op != "select":
        return False
    condition, _, element = (formula[a] for a in formula[-1].args)
    if condition.op != "equal" or element.op != ELEMENT or "a" not in formula[element.args[0]].data:
        return False
    s, zero = condition.args
    line = formula[element.args[0]]
    op, args, _ = formula[line.args[line.data.index("a")]]
    if op != "div" or not _is_zero(formula[zero]):
        return False
    divisor = formula[args[1]].args[0] if formula[args[1]].op == "sqrt" else args[1]
    if formula[divisor].op == "add" and any(_is_zero(formula[a]) for a in formula[divisor].args):
        divisor = next((a for a in formula[divisor].args if not _is_zero(formula[a])), divisor)
    return bool(divisor == s)


def _is_zero(node: Node) -> bool:
    return node.op == "constant" and node.data.value == 0
