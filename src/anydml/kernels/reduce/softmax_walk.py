"""A formula over rows with the powers, the largest element and the quotients of a softmax, or of its logarithm."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.standardised import Standardised, all_set
from anydml.kernels.elementwise.streams import CONTIGUOUS
from anydml.kernels.numbers.floats.numbers import Number, constant
from anydml.kernels.numbers.functions.approximate import at_least
from anydml.kernels.numbers.singles import SINGLES
from anydml.kernels.reduce import doubled, softmax
from anydml.kernels.reduce.key import ReductionKey
from anydml.kernels.reduce.moment_walk import MomentWalk
from anydml.tensor import DataType


class SoftmaxWalk(MomentWalk):
    """powers: the place of the powers if the formula is a softmax of types of `singles`. largest: that of the largest element,
    which powers are relative to.

    most: the largest elements by lane, in the pass of a row whose largest one is not known before.
    """

    def __init__(self, body: Body, key: ReductionKey, same: frozenset[int]) -> None:
        super().__init__(body, key, same)
        self.kept_forms: dict[int, Number] = {}
        self.keeper: dict[int, int] = {}  # the pass that stores a node's values
        single = all(t in SINGLES for t in key.types)
        e = softmax.powers(key.formula) if key.mapped and single else None
        self.powers = e if e is not None and self.stages.within[e] else None
        rests = [args[1] for op, args, _ in key.formula if op == "row_rest"]
        if self.powers is not None:
            rests.append(self.nodes[self.nodes[self.powers].args[0]].args[1])
        self.largest = rests[0] if rests else -1
        self.shares: softmax.Shares | None = None
        self.gap: Value | None = None  # see `Rest`
        self.below = softmax.BELOW
        self.most: Value | None = None
        self.less = softmax.less(key.formula) if key.mapped else None

    # --- moderate rows ---

    def tries(self) -> bool:
        """Whether the powers of a softmax are added up before its largest element is known."""
        e, key = self.powers, self.key
        if e is None or key.inner or not key.keeps or any(t != DataType.FLOAT32 for t in key.types):
            return False
        contiguous = all(layout == CONTIGUOUS for layout in key.layouts)
        return contiguous and len(self.stages.passes) == 2 and "avx512bw" in self.body.target.features and self.key.lanes >= 16

    def try_moderate(self) -> None:
        """Take 0 for the largest element, which is right if it is between -MODERATE and MODERATE: see `softmax`."""
        self.below = 2 * softmax.MODERATE
        self.put(self.largest, constant(Fraction(0), self.like))
        self.most = self.body.constant(Kind("float", self.key.lanes), -math.inf)

    def immoderate(self) -> str:
        """Whether the largest element is not moderate, or an element is NaN."""
        assert self.most is not None
        body, most = self.body, self.most
        total = self.reference()[0]
        low = all_set(most.compared("olt", -softmax.MODERATE))
        good = all_set(most.compared("ole", softmax.MODERATE) & total.compared("ord", total))
        return body.op(f"or i1 {low}, {body.op(f'xor i1 {good}, true')}")

    def reference(self) -> list[Value]:
        """The sum of the powers, and what takes the place of the largest element."""
        return [self.number(p).wide() for p in (self.nodes[-1].args[1], self.largest)]

    def take(self, quick: SoftmaxWalk, made: list[Value]) -> None:
        """Take the sum of the powers and the largest element, as `reference` gives them, and what else `quick` knows."""
        total, largest = made
        self.below, self.kept_forms, self.keeper = quick.below, quick.kept_forms, quick.keeper
        self.put(self.largest, Number(self.body, lambda: largest, exact=True))
        place = self.nodes[-1].args[1]
        self.put(place, replace(quick.number(place), wide=lambda: total))

    # --- powers and quotients ---

    def halved(self, s: int) -> softmax.Shares | None:
        """The code for the powers of softmax, in the pass that adds them up; else None."""
        return self.shares if self.powers is not None and self.stages.passes[s] == (self.nodes[-1].args[1],) else None

    def begun(self) -> list[Value]:
        """The first halves of the powers of a group of elements."""
        shares, x = self._elements()
        if self.most is None:
            return shares.begun(_shortest(x))
        assert x.single is not None
        self.most = at_least(self.most, x.single)
        return shares.begun(x.wide())

    def measure_rest(self, loaded: dict[int, Value], active: Value) -> None:
        """Take the active elements of the last group into account."""
        assert self.most is not None
        (bits,) = loaded.values()
        x = self.body.chosen(active, bits.cast(self.most.kind), -math.inf)
        self.most = at_least(self.most, x)

    def _elements(self) -> tuple[softmax.Shares, Number]:
        """The code for the powers, and the elements."""
        assert self.shares is not None
        assert self.powers is not None
        x = self.nodes[self.nodes[self.powers].args[0]].args[0]
        self.fill([x])
        return self.shares, self.number(x)

    def ended(self, halves: list[Value]) -> None:
        assert self.shares is not None
        assert self.powers is not None
        self.put(self.powers, self.shares.ended(halves))

    def doubled(self) -> doubled.Pair:
        """The powers of a group of elements, as pairs."""
        self.forget()
        shares, x = self._elements()
        made = doubled.power(shares, x.wide())
        self.forget()
        return made

    def power(self, element: int) -> Number:
        """The powers of a group of elements."""
        assert self.shares is not None
        x = self.number(element)
        return self.shares.ended(self.shares.begun(_shortest(x) if self.most is None else x.wide()))

    def at_base(self) -> Standardised | None:
        if self.powers is not None and self.body.target.probe is not None:
            return None  # probes record the ends
        return self._share() or super().at_base()

    def _share(self) -> Standardised | None:
        """The element of a softmax; None if the formula is none."""
        if self.powers is None:
            return None
        self.fill_within([self.powers])
        assert self.shares is not None
        return self.shares.share(self.number(self.powers))

    def closely(self) -> tuple[Value, Value]:
        """The bits of a group of elements of a log-softmax, and the undecided lanes: see `softmax.closely`."""
        assert self.less is not None
        assert self.gap is not None
        x, m, total = (self.number(p) for p in self.less)
        return softmax.closely(x, m, total, self.gap, self.key.most, self.key.types[-1])


def _shortest(x: Number) -> Value:
    """A number as float32 if that holds it, else as float64."""
    return x.wide() if x.single is None else x.single
