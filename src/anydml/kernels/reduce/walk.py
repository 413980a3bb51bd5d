"""Instructions of a formula over rows: nodes that are the same for a row once, the others for each group of elements.

u is 2^-53. In e^(x - m), where m is the row's largest x, the argument is rounded once, which changes the result by at most u |x
- m| of itself; the result is at most 1, and below 2^-1000 its error does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Value
from anydml.kernels.elementwise.items import Item, as_number
from anydml.kernels.elementwise.modular import modular
from anydml.kernels.numbers.floats import arithmetic
from anydml.kernels.numbers.floats.numbers import SLACK, Number, U, constant, settled
from anydml.kernels.numbers.functions import exponentials
from anydml.kernels.numbers.functions.approximate import at_least
from anydml.kernels.numbers.known import Known
from anydml.kernels.reduce import softmax
from anydml.kernels.reduce.accumulator import Accumulator
from anydml.kernels.reduce.accumulators import accumulator
from anydml.kernels.reduce.careful_rest import CarefulRest, adds_largest
from anydml.kernels.reduce.extremes import RowExtreme
from anydml.kernels.reduce.joint import JOINT, OTHER_MEAN, TOTAL, Joint
from anydml.kernels.reduce.key import ReductionKey
from anydml.kernels.reduce.moments import MOMENTS, VARIANCE
from anydml.kernels.reduce.refined import refined
from anydml.kernels.reduce.softmax_walk import SoftmaxWalk
from anydml.kernels.reduce.stages import COSTLY, inner
from anydml.kernels.reduce.sums import CarefulProduct, Over, Rest, RowProduct, RowSum


class RowWalk(SoftmaxWalk):
    """careful: sums of exact terms are exact, or known not to be. improves: whether careful sums may decide more elements."""

    def __init__(self, body: Body, key: ReductionKey, same: frozenset[int], *, careful: bool) -> None:
        super().__init__(body, key, same)
        # maps have a different search for modular nodes, which knows no reductions
        self.modular = modular(key.formula) if key.integral and key.types[-1].is_integer else frozenset()
        self.careful, self.improves = careful, False
        self.over: dict[int, Over] = {}  # careful sums
        self.closest: Number | None = None  # the stored result, if it is known better than by its formula
        self.reciprocals: dict[int, Number] = {}

    # --- nodes that differ within a row ---

    def put_kept(self, p: int, wide: Value) -> None:
        """Set a node's item from its stored value."""
        self.put(p, replace(self.kept_forms[p], wide=lambda: wide))

    def put_wide(self, p: int, wide: Value) -> None:
        """Set the float64 of a stream's elements, which have been converted before."""
        self.put(p, replace(self.number(p), wide=lambda: wide))
        self.converted.pop(p)

    def _targets(self, s: int) -> list[int]:
        return [a for p in self.stages.passes[s] for a in self.nodes[p].args]

    def read(self, s: int) -> list[int]:
        """The streams that pass s reads."""
        needed = inner(self.nodes, self.stages.within, self._targets(s))
        return sorted({self.nodes[p].data[0] for p in needed if self.nodes[p].op == "stream"})

    def fill_pass(self, s: int) -> list[tuple[int, Value]]:
        """Compute what the reductions of a pass need; the result is the nodes whose values it stores, with these values."""
        self.fill_within(self._targets(s))
        made = []
        for p in sorted(self.stages.kept if self.key.keeps else ()):
            item = self.items.get(p)  # what `put` has set is computed in this pass, too
            if self.keeper.get(p, s) == s and isinstance(item, Number) and item.err is None and item.guard is None:
                self.keeper[p] = s
                self.kept_forms[p] = replace(item, native=None, odd=None, single=None)
                made.append((p, item.wide()))
        return made

    def kept_before(self, s: int) -> list[int]:
        """The nodes that pass s needs and an earlier pass has stored."""
        last = s == len(self.stages.passes)
        needed = inner(self.nodes, self.stages.within, [len(self.nodes) - 1] if last else self._targets(s))
        return [p for p in sorted(needed) if self.keeper.get(p, s) < s]

    def groups(self, s: int) -> int:
        """The groups of elements that a turn of the pass computes together."""
        if self.costly(s):
            return 1
        # five values for each of four groups would be more than there are registers
        return 2 if any(self.nodes[p].op == JOINT for p in self.stages.passes[s]) else self.key.unroll

    def costly(self, s: int) -> bool:
        """Whether a pass computes costly functions."""
        return any(self.nodes[p].op == "row_rest" for p in self.stages.passes[s]) or any(
            self.nodes[p].op in COSTLY for p in inner(self.nodes, self.stages.within, self._targets(s))
        )

    # --- nodes that are the same for a row ---

    def fill_row(self, s: int) -> None:
        """Compute all nodes that are known after s passes, the same for the row, and used within it."""
        root = len(self.nodes) - 1
        for p in self.of_row(s):
            if p != root or self.key.mapped:
                self.put(p, self._settled(self._item(p, *self.nodes[p])))
        if self.largest in self.items and self.shares is None:
            self.shares = softmax.Shares(
                self.body, self.number(self.largest).wide(), self.below, moderate=self.most is not None
            )

    def prepare(self, depth: int) -> None:
        """Compute the reciprocals of divisors of a row's elements; depth: the most additions of a sum."""
        if self.shares is not None and self.powers is not None:
            self.shares.divide(self.number(self.nodes[-1].args[1]).wide(), depth)
            return
        for op, args, _ in self.nodes:
            if (
                op == "div"
                and self.stages.within[args[0]]
                and not self.stages.within[args[1]]
                and args[1] not in self.reciprocals
            ):
                divisor = self.number(args[1])
                if not divisor.exact and divisor.known.positive and divisor.err is None and not divisor.saturated:
                    one = replace(constant(Fraction(1), self.like), single=None)
                    self.reciprocals[args[1]] = settled(arithmetic.divide(one, divisor))

    # --- reductions ---

    def accumulators(self, s: int, depth: int) -> list[Accumulator]:
        """The accumulators of a pass; this emits a group of elements to find their types, which the caller drops."""
        self.fill_within(self._targets(s))
        made: list[Accumulator] = []
        for p in self.stages.passes[s]:
            op, args, data = self.nodes[p]
            if op == "row_rest":
                m = self.number(args[1]).single
                assert self.shares is not None
                assert m is not None
                closer = not self.key.mapped and adds_largest(self.nodes)
                if closer and self.careful:
                    made.append(CarefulRest(self.body, self.key.lanes, self.shares, m, self.key.all_additions))
                else:
                    made.append(Rest(self.body, self.key.lanes, self.shares, m, self.key.most, depth))
                self.improves |= closer
                continue
            if op in (MOMENTS, JOINT):
                made.append(self.of_moments(p, self.key.short_depth(self.groups(s))))
                continue
            term = self._term(args[0])
            modulus = self.data_type.element_bits if p in self.modular and self.data_type.is_integer else None
            a = accumulator(
                self.body, self.key.lanes, op.removeprefix("row_"), term, lambda item: as_number(item, self.like),
                count=self.key.most, depth=depth, counted=len(args) > 1, last=data, careful=self.careful, modulus=modulus,
            )  # fmt: skip
            if isinstance(a, RowExtreme) and p == self.largest and self.powers is not None:
                a.be_plain()  # of NaN, the sum of powers is NaN
            if (isinstance(a, RowSum) and a.term.exact and not a.exact) or (
                isinstance(a, RowProduct) and a.term.single is not None
            ):
                self.improves = True
            made.append(a)
        return made

    def _term(self, p: int) -> Item:
        whole = self.whole(p)
        return whole if whole is not None else self.number(p)

    def _below(self, p: int) -> bool:
        """Whether a node is the exponential of an element minus the largest of all."""
        op, args, _ = self.nodes[p]
        if op != "exp" or self.nodes[args[0]].op != "sub":
            return False
        x, m = self.nodes[args[0]].args
        return self.nodes[m] == ("row_max", (x,), False)

    def stepped(
        self, s: int, accumulators: Sequence[Accumulator], values: list[Value], active: Value | None, at: Value
    ) -> list[Value]:
        """The values that a pass carries, after a group of elements."""
        made: list[Value] = []
        first = 0
        passes = self.stages.passes[s]
        for k, a in enumerate(accumulators):
            own = values[first : first + len(a.starts)]
            first += len(a.starts)
            args = self.nodes[passes[k]].args
            mask = active
            if isinstance(a, Joint):
                made += a.together(own, self.number(args[0]), self.number(args[1]), active)
                continue
            if len(args) > 1 and not isinstance(a, (Rest, CarefulRest)):
                truth = self.truth(args[1])
                if truth.guard is not None:
                    raise Uncompilable("a condition that has to be decided elsewhere")
                mask = truth.mask if active is None else truth.mask & active
            summed = isinstance(a, (RowSum, RowProduct, CarefulProduct))
            term = self.number(args[0]) if summed else self._term(args[0])
            made += a.step(own, term, mask, at)
        return made

    def finish(self, s: int, accumulators: Sequence[Accumulator], sets: list[list[Value]], *, across: bool = False) -> None:
        """Set the results of a pass from the values of all sets; across: whether each lane belongs to its own row."""
        first = 0
        passes = self.stages.passes[s]
        for k, a in enumerate(accumulators):
            values = sets[0][first : first + len(a.starts)]
            for other in sets[1:]:
                values = a.merged(values, other[first : first + len(a.starts)])
            first += len(a.starts)
            item = a.result(values) if across else a.finished(values)
            p = passes[k]
            self.put_beside(p, a)
            if isinstance(a, Rest):
                self.gap = a.gap
            alone = self._is_stored(p)
            if isinstance(item, Number) and isinstance(a, RowSum) and a.over is not None and not alone:
                # other nodes take the sum for exact and are undecided where it is not, unless they are `refined`
                item = replace(item.guarded(a.over.left.compared("une", 0.0)), exact=True, rel=0.0, rest=None)
                self.over[p] = a.over
            if isinstance(a, CarefulRest):
                self.closest = a.sum
            if isinstance(item, Number) and not alone:
                item = replace(item, ends=None, finer=None)  # results computed from the item have no ends
            self.put(p, item if alone else self._settled(item))

    # --- items ---

    def root(self) -> Item:
        """The item that is stored."""
        if self.closest is not None:
            return self.closest
        last = len(self.nodes) - 1
        if (share := self._share()) is not None:
            return share.number
        self.fill_within([last])
        return self.items[last] if last in self.items else self._item(last, *self.nodes[last])

    def _item(self, place: int, op: str, args: tuple[int, ...], data: object) -> Item:
        if op in (VARIANCE, OTHER_MEAN, TOTAL):
            return self.beside[args[0], op]
        if args and args[0] in self.over and not self.key.mapped and self._is_stored(place):
            made = refined(op, self.over[args[0]], [self.number(a) for a in args[1:]])
            if made is not None:
                return made
        if op == "sub" and args[0] == args[1]:
            x = self.number(args[0])
            nothing = x.wide() - x.wide()  # NaN for infinities
            return Number(self.body, lambda: nothing, Known(0.0, 0.0, 0, 1, 0), exact=True, guard=x.guard)
        if op == "sub" and self.nodes[args[1]] == ("row_max", (args[0],), False):
            made = arithmetic.add(self.number(args[0]), self.number(args[1]), sign=-1)
            return replace(made, known=replace(made.known, high=0.0))
        if place == self.powers:
            return self.power(self.nodes[args[0]].args[0])
        if op == "exp" and self._below(place):
            return self._small(self.number(args[0]))
        if op == "div" and args[1] in self.reciprocals and self.stages.within[args[0]]:
            x = self.number(args[0])
            if not x.exact:
                return arithmetic.multiply(x, self.reciprocals[args[1]])
        return super()._item(place, op, args, data)

    def _is_stored(self, place: int) -> bool:
        """Whether a node is the result of a row, and no other node uses it."""
        root = len(self.nodes) - 1
        return place == root or (place == root - 1 and self.nodes[root].op == "same")

    def _small(self, x: Number) -> Number:
        """e^x for x <= 0, an exact number or one that is rounded once."""
        if x.err is not None or x.guard is not None:
            raise Uncompilable("an exponential of a number that is rounded inside")
        value = exponentials.exponential(at_least(x.wide(), exponentials.LOWEST))
        rel = exponentials.EXP_REL + (0.0 if x.exact else -exponentials.LOWEST * U * SLACK)
        return Number(self.body, lambda: value, Known(0.0, 1.0), rel=rel, saturated=1000)
