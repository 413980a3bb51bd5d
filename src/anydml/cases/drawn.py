"""Valid descs of an operator over its support table, drawn by changing the examples of its file, with inputs that hurt."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml import operators
from anydml.cases.elements import KINDS, Kind
from anydml.cases.hard import hard_inputs
from anydml.errors import DescError
from anydml.feature_level import FeatureLevel
from anydml.schema import kinds
from anydml.schema.check import check
from anydml.schema.field import OUTPUT
from anydml.schema.operator import Desc
from anydml.spelling import snake_case
from anydml.tensor import DataType, TensorDesc

TRIES = 60  # changed descs for each case at most
MOST_ELEMENTS = 4096  # of a tensor of a case
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)


@dataclass(frozen=True)
class Case:
    """A valid desc, and the seed and the kind of its inputs. `inputs` are arrays by field, as `hard_inputs` makes them."""

    desc: Desc
    seed: int
    kind: Kind

    @property
    def inputs(self) -> dict[str, NDArray[Any]]:
        return hard_inputs(self.desc, self.seed, kind=self.kind)

    def __str__(self) -> str:
        """A name for a test: data types and sizes of the inputs, and the kind."""
        first: dict[str, TensorDesc] = {t.name: t.desc for t in self.desc.tensors() if t.field.role != OUTPUT}
        shown = [f"{t.data_type.name}-{'x'.join(map(str, t.sizes))}" for t in [*first.values()][:2]]
        return "-".join([*shown, self.kind])


def cases(operator: str, n: int, seed: int = 0, level: FeatureLevel | str = FeatureLevel.FL_6_4) -> list[Case]:
    """Up to n different cases of an operator: first its data types and dimension counts at a feature level, then others.

    operator: its name, with or without DML_OPERATOR_. ValueError if there is none of that name, or if the level lacks it.
    """
    found = operators.find(operator.upper())
    if found is None:
        raise ValueError(operators.why_missing(operator.upper()))
    at = FeatureLevel.parse(level) if isinstance(level, str) else level
    if at < found.spec.since:
        raise ValueError(f"{found.spec.name} is of feature level {found.spec.since} and later")
    drawing = _Drawing(found, at, np.random.default_rng([seed, found.spec.number]))
    descs: dict[str, Desc] = {}
    for desc in drawing.descs(n * TRIES):
        descs.setdefault(repr(desc), desc)
        if len(descs) == n:
            break
    return [Case(desc, seed + i, KINDS[i % len(KINDS)]) for i, desc in enumerate(descs.values())]


class _Drawing:
    def __init__(self, operator: type[Desc], level: FeatureLevel, random: np.random.Generator) -> None:
        self.operator, self.level, self.random = operator, level, random
        self.spec, self.table = operator.spec, operator.spec.table[level]
        plain = (operator(**example.fields) for example in self.spec.examples)
        self.examples = [desc for desc in plain if self._valid(desc)]

    def descs(self, tries: int) -> Iterator[Desc]:
        """Valid descs: each data type and dimension count of each input in turn, then with random changes."""
        if not self.examples:
            return
        yield self.examples[0]
        for f in self.spec.inputs:
            for data_type in self.table[f.wire].data_types:
                yield from self._tried(partial(self._of_type, name=f.name, data_type=data_type))
            for count in self.table[f.wire].dimension_counts:
                yield from self._tried(partial(self._of_rank, name=f.name, count=count))
        yield from self.examples[1:]
        changes = (self._other_type, self._other_rank, self._other_size, self._other_size, self._other_attribute, self._without)
        known = [*self.examples]
        for _ in range(tries):
            desc: Desc | None = known[int(self.random.integers(len(known)))]
            for _ in range(int(self.random.integers(1, 4))):
                change = changes[int(self.random.integers(len(changes)))]
                desc = None if desc is None else change(desc)
            if desc is not None and (made := self._inferred(desc)) is not None:
                known.append(made)
                yield made

    def _tried(self, change: Callable[[Desc], Desc | None]) -> Iterator[Desc]:
        """The change of the first example that stays valid with it."""
        for example in self.examples:
            made = change(example)
            if made is not None and (valid := self._inferred(made)) is not None:
                yield valid
                return

    def _valid(self, desc: Desc) -> bool:
        try:
            check(desc, self.level)
        except DescError:
            return False
        return all(math.prod(t.desc.sizes) <= MOST_ELEMENTS for t in desc.tensors())

    def _inferred(self, desc: Desc) -> Desc | None:
        """The desc with the outputs that follow from its inputs, if it is valid then, or as it is."""
        for made in (self._with_outputs(desc), desc):
            if made is not None and self._valid(made):
                return made
        return None

    def _with_outputs(self, desc: Desc) -> Desc | None:
        try:
            found = desc.outputs()
        except (NotImplementedError, IndexError, ValueError, TypeError, AttributeError, ZeroDivisionError, StopIteration):
            return None  # of a desc that breaks rules
        changes: dict[str, Any] = {}
        for f in self.spec.outputs:
            value = getattr(desc, f.name)
            if value is None or f.name not in found:
                continue
            if f.sized_by:
                changes[f.name] = tuple(TensorDesc(t, n) for n, t in found[f.name])
                changes[snake_case(f.sized_by)] = len(changes[f.name])
            else:
                sizes, data_type = found[f.name]
                sizes = value.sizes if sizes is None else sizes
                if not sizes or min(sizes) < 1:
                    return None
                changes[f.name] = TensorDesc(value.data_type if data_type is None else data_type, sizes)
        return replace(desc, **changes)

    # --- changes ---

    def _tensors(self, desc: Desc, change: Callable[[str, TensorDesc], TensorDesc]) -> Desc:
        """The desc with changed tensors, which are packed then."""
        made: dict[str, Any] = {}
        for f in self.spec.tensors:
            value = getattr(desc, f.name)
            if value is not None:
                made[f.name] = tuple(change(f.name, t) for t in value) if f.sized_by else change(f.name, value)
        return replace(desc, **made)

    def _of_type(self, desc: Desc, name: str, data_type: DataType) -> Desc | None:
        """An input of a data type, and so all tensors that had its data type, or it alone."""
        value = getattr(desc, name)
        if value is None:
            return None
        own = (value[0] if isinstance(value, tuple) else value).data_type
        for alone in (False, True):

            def changed(n: str, t: TensorDesc, alone: bool = alone) -> TensorDesc:
                meant = n == name if alone else t.data_type == own
                return replace(t, data_type=data_type) if meant else t

            made = self._typed(self._tensors(desc, changed), own, data_type)
            if self._inferred(made) is not None:
                return made
        return None

    def _typed(self, desc: Desc, old: DataType, new: DataType) -> Desc:
        """The desc with attributes that name a data type changed along."""
        return replace(desc, **{f.name: new for f in self.spec.attributes if getattr(desc, f.name) is old})

    def _of_rank(self, desc: Desc, name: str, count: int) -> Desc | None:
        """An input with more or fewer dimensions of size 1 at the front, and so all tensors with as many dimensions."""
        value = getattr(desc, name)
        if value is None:
            return None
        own = len((value[0] if isinstance(value, tuple) else value).sizes)

        def ranked(n: str, t: TensorDesc) -> TensorDesc:
            if len(t.sizes) != own:
                return t
            sizes = (1,) * (count - own) + t.sizes if count >= own else t.sizes[own - count :]
            return TensorDesc(t.data_type, sizes)

        def deeper(n: str, t: TensorDesc) -> TensorDesc:
            """Dimensions of size 1 behind the first two, those of batches and channels."""
            front, rest = t.sizes[:2], t.sizes[2:]
            return t if len(t.sizes) != own else TensorDesc(t.data_type, (*front, *(1,) * (count - own), *rest))

        made = self._tensors(desc, ranked)
        lengths = {f.name: count - own for f in self.spec.attributes if f.sized_by and getattr(desc, f.name) is not None}
        longer = {n: _longer(n, getattr(desc, n), by) for n, by in lengths.items() if self._by_dimension(getattr(desc, n), own)}
        counts = {c: len(longer[n]) for c, n in self.spec.counts.items() if n in longer}
        shifted = {
            f.name: _shifted(getattr(desc, f.name), count - own)
            for f in self.spec.attributes
            if f.name in ("axis", "axes") and getattr(desc, f.name) is not None
        }
        tries = [replace(made, **shifted), made]
        if longer:
            tries += [
                replace(x, **longer, **counts) for x in (made, self._tensors(desc, deeper) if own >= 2 <= count else made)
            ]
        return next((tried for tried in tries if self._inferred(tried) is not None), None)

    def _by_dimension(self, values: tuple[Any, ...], rank: int) -> bool:
        """Whether an array may have an entry for each dimension, or each but those of batches and channels."""
        return len(values) in (rank, rank - 2) and len(values) > 0 and isinstance(values[0], (int, float))

    def _other_type(self, desc: Desc) -> Desc | None:
        if not self.spec.inputs:
            return None
        f = self.spec.inputs[int(self.random.integers(len(self.spec.inputs)))]
        types = self.table[f.wire].data_types
        return self._of_type(desc, f.name, types[int(self.random.integers(len(types)))])

    def _other_rank(self, desc: Desc) -> Desc | None:
        if not self.spec.inputs:
            return None
        f = self.spec.inputs[int(self.random.integers(len(self.spec.inputs)))]
        counts = self.table[f.wire].dimension_counts
        return self._of_rank(desc, f.name, counts[int(self.random.integers(len(counts)))])

    def _other_size(self, desc: Desc) -> Desc | None:
        """Another size instead of one that tensors have, wherever they have it, or in one place of one tensor."""
        tensors = list(desc.tensors())
        chosen = tensors[int(self.random.integers(len(tensors)))]
        place = int(self.random.integers(len(chosen.desc.sizes)))
        old, new = chosen.desc.sizes[place], int(self.random.choice(SIZES))
        everywhere = bool(self.random.integers(2))

        def sized(name: str, t: TensorDesc) -> TensorDesc:
            if everywhere:
                return TensorDesc(t.data_type, tuple(new if n == old else n for n in t.sizes))
            if name != chosen.name:
                return t
            return TensorDesc(t.data_type, tuple(new if i == place else n for i, n in enumerate(t.sizes)))

        return self._tensors(desc, sized)

    def _other_attribute(self, desc: Desc) -> Desc | None:
        attributes = [f for f in self.spec.attributes if f.name not in self.spec.counts]
        if not attributes:
            return None
        f = attributes[int(self.random.integers(len(attributes)))]
        value = getattr(desc, f.name)

        def other(v: Any) -> Any:
            if isinstance(f.kind, kinds.Float):
                return float(np.float32(self.random.choice([0, 0.5, 1, -1, 2, 0.1, 1e-5, 3])))
            if isinstance(f.kind, kinds.Integer):
                return int(self.random.integers(0, 4))
            samples = getattr(f.kind, "samples", ())
            return samples[int(self.random.integers(len(samples)))] if samples else v

        if f.sized_by:
            return replace(desc, **{f.name: tuple(map(other, value))}) if value is not None else None
        return replace(desc, **{f.name: other(value)})

    def _without(self, desc: Desc) -> Desc | None:
        """The desc without an optional tensor or activation."""
        optional = [f for f in self.spec.fields if f.optional and getattr(desc, f.name) is not None and not f.sized_by]
        if not optional:
            return None
        f = optional[int(self.random.integers(len(optional)))]
        return replace(desc, **{f.name: None})


def _longer(name: str, values: tuple[Any, ...], by: int) -> tuple[Any, ...]:
    """An array with an entry for each dimension, with entries for more dimensions of size 1 at its front, or fewer."""
    neutral = type(values[0])(0 if "padding" in name or "offset" in name else 1)
    return (neutral,) * by + values if by >= 0 else values[-by:]


def _shifted(value: Any, by: int) -> Any:
    return tuple(x + by for x in value) if isinstance(value, tuple) else value + by
