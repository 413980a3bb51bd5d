"""Estimates and bounds of elements, as probes of a kernel store them, and the ratios of errors to them.

A kernel's family stores records where it decides an element's rounding: see `anydml/kernels/code/probe.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpq
from numpy.typing import NDArray

import anydml as dml
from anydml.kernels.code import probe
from anydml.schema.operator import Desc
from oracle import numbers
from oracle.reals import Real, arithmetic

Array = NDArray[Any]
PRECISION = 1100  # bits of exact numbers that are not fractions
NEAR = mpq(1, 2**1000)  # relative error that is ignored: the exact result itself is rounded with a similar one


class Extent(NamedTuple):
    """The width of the claims of an output.

    mean: of the binary logarithms of bounds above 0; wide: how many there are. zero, beside: how many claim that the estimate
    is exact, or next to the number. The others claim nothing.
    """

    mean: float
    wide: int
    zero: int
    beside: int


class Records(NamedTuple):
    """By element: an estimate as a head and a tail, its bound, and whether a record was stored."""

    head: Array
    tail: Array
    bound: Array
    stored: Array

    @classmethod
    def of(cls, execute: Callable[[], object], array: Array) -> Records:
        """The records that a call stores in an array, which it fills once for each part of a record."""
        stored = []
        for part in range(probe.parts(8 * array.itemsize)):
            probe.choose(part)
            execute()
            stored.append(array.view(f"u{array.itemsize}").ravel().copy())
        *words, mark = stored
        each = len(words) // probe.WORDS
        head, tail, bound = (
            np.ascontiguousarray(np.stack(words[at : at + each], axis=-1)).view(np.float64).ravel()
            for at in range(0, len(words), each)
        )
        return cls(head, tail, bound, mark == probe.MARK)

    @property
    def claims(self) -> Array:
        """The elements with an estimate and a finite bound."""
        found: Array = self.stored & np.isfinite(self.bound) & np.isfinite(self.head)
        return found

    def extent(self) -> Extent:
        bounds = self.bound[self.claims]
        wide = bounds[bounds > 0]
        mean = float(np.log2(wide).mean()) if wide.size else 0.0
        return Extent(round(mean, 3), wide.size, int((bounds == 0).sum()), int((bounds < 0).sum()))


def probed(
    desc: Desc,
    inputs: dict[str, Array],
    kernel: str,
    *,
    stage: str = "first",
    isa: str | None = None,
    output: str = "output_tensor",
) -> Records:
    """The records of an output's elements. kernel: the name that the compiled kernel must have."""
    device = dml.Device(isa=isa, threads=1)
    device.machine = device.machine._replace(stage=probe.stage(stage))
    compiled = device.compile(desc)
    assert compiled.kernel_name == kernel
    outputs = {t.name: np.zeros(t.desc.sizes, t.desc.data_type.dtype) for t in desc.tensors() if t.name.startswith("output")}
    return Records.of(compiled.bind(**inputs, **outputs).execute, outputs[output])


def exactly(module: Any, name: str, attributes: dict[str, Any], inputs: dict[str, Array], outputs: dict[str, Any]) -> list[Any]:
    """The first of the outputs of an oracle's function as exact values, before the roundings; module: where the function is."""
    found: list[tuple[list[Any], Array]] = []

    def kept(values: Iterable[Any], sizes: Sequence[int], dtype: Any) -> Array:
        made = list(values)
        found.append((made, numbers.stored(made, sizes, dtype)))
        return found[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "stored", kept)
        patch.setattr(module, "rounded", lambda x, dtype: x, raising=False)
        array = module.OPERATORS[name](attributes, inputs, outputs)[next(iter(outputs))]
    return next((made for made, stored in found if stored is array), found[-1][0])  # it may have been transposed since


def ratios(records: Records, exact: Sequence[Any]) -> Array:
    """Each error divided by its bound: infinite if the bound is 0 or t is not a number, NaN for elements without a bound."""
    found = np.full(records.head.shape, np.nan)
    for at in np.flatnonzero(records.claims).tolist():
        if (t := as_fraction(exact[at])) is None:
            found[at] = np.inf
            continue
        error = abs(t - (mpq(float(records.head[at])) + mpq(float(records.tail[at]))))
        bound = mpq(float(records.bound[at]))
        if bound < 0:  # of a number that was rounded to one of the two neighbours of t
            found[at] = 0.0 if error <= -bound else np.inf
            continue
        found[at] = 0.0 if error <= NEAR * abs(t) else float(error / bound) if bound else np.inf
    return found


def climbed(
    population: dict[str, Array], rate: Callable[[dict[str, Array]], Array], rounds: int, rng: np.random.RandomState
) -> float:
    """The largest ratio that a search finds. population: inputs by name, with candidates along the first axis.

    rate: the ratio of each candidate. In each round the better half of the candidates stays. Their copies replace the others,
    with some elements changed slightly, negated, or taken from another candidate.
    """
    rates = rate(population)
    for _ in range(rounds):
        order = np.argsort(-rates, kind="stable")
        half = len(order) // 2
        kept = {name: x[order[:half]] for name, x in population.items()}
        moved = {name: _moved(x, rng) for name, x in kept.items()}
        rates = np.concatenate([rates[order[:half]], rate(moved)])
        population = {name: np.concatenate([x, moved[name]]) for name, x in kept.items()}
    return float(rates.max())


def _moved(x: Array, rng: np.random.RandomState) -> Array:
    """The candidates with one element in four changed."""
    others = x[rng.permutation(len(x))]
    near = x * (1 + rng.uniform(-1, 1, x.shape) * 2.0 ** -rng.randint(1, 23, x.shape)).astype(x.dtype)
    kinds = rng.randint(0, 12, x.shape)
    made: Array = np.select([kinds == 0, kinds == 1, kinds == 2], [near.astype(x.dtype), -x, others], x)
    return made


def as_fraction(t: Any) -> Any:
    """An exact value as a fraction, rounded to 1100 bits if it is not one; None for NaN and infinities."""
    if isinstance(t, Real):
        low, high = t.bounds(arithmetic(PRECISION))
        return mpq(low) if gmpy2.is_finite(low) and gmpy2.is_finite(high) else None
    if isinstance(t, float):
        return mpq(0) if t == 0 else None
    return t
