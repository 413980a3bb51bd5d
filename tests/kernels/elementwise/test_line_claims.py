"""The claims about standardised elements (x - m) a g + b, where they are emitted, beside fractions.

A claim holds for every m and a within their own bounds, so that an error is the largest at the ends of these. The records are
the largest ratio of an error to its bound and the mean of the bounds' binary logarithms, of float64 and of the ends in float32:
a bound that is changed leaves them. `python tests/kernels/elementwise/test_line_claims.py` prints them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from anydml.kernels.code import llvm
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.code.values import Body, Value
from anydml.kernels.elementwise import sloped, standardised
from anydml.kernels.numbers.floats.numbers import Number, of_single
from anydml.kernels.numbers.known import Known
from anydml.tensor import DataType
from number_kernels import columns

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

Array = NDArray[Any]
Rng = np.random.RandomState
COUNT = 96
REL = 2.0**-60  # the error of a


def single(x: Array) -> Array:
    """Numbers of float32 as float64."""
    found: Array = x.astype(np.float32).astype(np.float64)
    return found


def given(value: Value) -> Callable[[], Value]:
    """A number's value."""
    return lambda: value


class Data(NamedTuple):
    """The numbers of elements; of: the greatest error of m."""

    m: Array
    a: Array
    b: Array
    x: Array
    g: Array
    of: float = 0.0


def plain(rng: Rng) -> Data:
    """Numbers of a few magnitudes."""
    m, a, b, x, g = (rng.uniform(1, 2, COUNT) * 2.0 ** rng.randint(-3, 3, COUNT) for _ in range(5))
    return Data(m, a, single(b), single(-4 * x), single(g))


def beside_m(rng: Rng) -> Data:
    """Elements next to m, whose roundings they lose."""
    data = plain(rng)
    return data._replace(x=single(data.m * (1 + 2.0**-20 * rng.uniform(-1, 1, COUNT))))


def cancelling(rng: Rng) -> Data:
    """Terms that cancel the products, as far as float32 allows."""
    data = plain(rng)
    x = single(data.m - data.b / (data.a * data.g))
    return data._replace(x=x, b=-(x - data.m) * data.a * data.g, of=2.0**-60)


def cancelling_alone(rng: Rng) -> Data:
    """The same without g."""
    data = plain(rng)
    x = single(data.m - data.b / data.a)
    return data._replace(x=x, b=-(x - data.m) * data.a)


def tiny(rng: Rng) -> Data:
    """Products below 2^-126."""
    data = plain(rng)
    return Data(data.m * 2.0**-126, data.a, data.b * 2.0**-140, single(data.x * 2.0**-126), data.g)


def with_an_error(data: Callable[[Rng], Data]) -> Callable[[Rng], Data]:
    """The same numbers, where m has an error."""
    return lambda rng: data(rng)._replace(of=2.0**-60)


class Case(NamedTuple):
    """line, own: the roles of the numbers of a line and of an element. stored: the data type that ends in float32 are for.

    fused: whether elements are x a - m a.
    """

    line: str
    own: str
    data: Callable[[Rng], Data]
    stored: DataType = DataType.BFLOAT16
    fused: bool = False


CASES = {
    "differences": Case("m", "x", plain),
    "differences near m": Case("m", "x", beside_m),
    "products": Case("a", "x", plain),
    "products of three": Case("a", "xg", plain),
    "products of three for FLOAT16": Case("a", "xg", plain, DataType.FLOAT16),
    "tiny products": Case("a", "xg", tiny),
    "lines": Case("mab", "x", plain),
    "lines that cancel": Case("mab", "x", cancelling_alone),
    "tiny lines": Case("mab", "x", tiny),
    "scaled differences": Case("ma", "xg", plain),
    "scaled differences near m": Case("ma", "xg", beside_m),
    "scaled differences at once": Case("ma", "xg", with_an_error(plain), fused=True),
    "scaled differences at once near m": Case("ma", "xg", with_an_error(beside_m), fused=True),
    "lines at once": Case("mab", "x", with_an_error(plain), fused=True),
    "terms of elements": Case("ma", "xgb", plain),
    "terms that cancel": Case("mab", "xg", cancelling),
    "terms of elements that cancel": Case("ma", "xgb", cancelling),
}


def computed(target: Target, case: Case, data: Data) -> list[Array]:
    """For each element: y, its bound, ends in float32, the limit for `known`, whether it is known, and y as it is stored."""

    def emitted(m: Value, a: Value, b: Value, x: Value, g: Value) -> list[Value]:
        def of_role(role: str, shared: bool) -> Number:
            value = dict(m=m, a=a, b=b, x=x, g=g)[role]
            if role == "m" or (role == "b" and shared):
                return Number(m.body, lambda: value, Known(-(2.0**300), 2.0**300), err=lambda: value.lift(data.of))
            if role == "a":
                return Number(m.body, lambda: value, Known(-(2.0**300), 2.0**300), rel=REL)
            return of_single(value.converted("fptrunc", value.kind.of("float")))

        line = standardised.line(m, case.line, [of_role(role, True) for role in case.line], fused=case.fused)
        found = standardised.element(line, case.own, [of_role(role, False) for role in case.own])
        assert found.ends is not None
        assert found.known is not None
        made, known = found.known(DataType.FLOAT32)
        ends = [end.converted("fpext", m.kind) for end in found.ends(case.stored)]
        return [found.number.wide(), found.number.error(), *ends, known, made.converted("fpext", m.kind)]

    # probes store elements as the quick test for FLOAT32 has them
    return columns(replace(target, stage="first+8") if case.fused else target, emitted, data.m, data.a, data.b, data.x, data.g)


def farthest(case: Case, data: Data, k: int, y: float) -> Fraction:
    """The largest error of an element, of all numbers within the bounds of m, a, and b."""
    m, a, b, x, g = (Fraction(float(column[k])) for column in data[:5])
    roles, of = case.line + case.own, Fraction(data.of)
    worst = Fraction(0)
    for of_a, of_m, of_b in product((-1, 1), *[(-1, 1) if of else (0,)] * 2):
        t = x - (m + of * of_m) if "m" in roles else x
        t *= a * (1 + Fraction(REL) * of_a) if "a" in roles else 1
        t *= g if "g" in roles else 1
        t += b + (of * of_b if "b" in case.line else 0) if "b" in roles else 0
        worst = max(worst, abs(t - Fraction(y)))
    return worst


class Record(NamedTuple):
    ratio: float
    width: float
    ratio_of_ends: float
    width_of_ends: float


def machines() -> dict[bool, Target]:
    """An instruction set with fused multiply-adds, and one without, where the processor has them."""
    return {Body(target).has_fma: target for target in reversed(targets())}


def found(name: str, target: Target) -> Record:
    case = CASES[name]
    data = case.data(Rng(11))
    if "b" in case.own:
        data = data._replace(b=single(data.b))
    y, bound, low, high, *_ = computed(target, case, data)
    middle, half = (low + high) / 2, abs(high - low) / 2
    records = []
    for at, within in ((y, bound), (middle, half)):
        ratios = [float(farthest(case, data, k, at[k]) / Fraction(float(within[k]))) for k in range(COUNT)]
        records += [max(ratios), float(np.log2(within).mean())]
    return Record(*records)


# without fused multiply-adds, and with them
RECORDS = {
    "differences": (Record(0.134226, -47.5255, 0.355319, -19.6305), Record(0.134226, -47.5255, 0.355319, -19.6305)),
    "differences near m": (Record(0, -71.9085, 0.931434, -24.224), Record(0, -71.9085, 0.931434, -24.224)),
    "products": (Record(0.132851, -47.7801, 0.405356, -19.6087), Record(0.132851, -47.7801, 0.405356, -19.6087)),
    "products of three": (Record(0.197791, -47.8663, 0.377079, -19.3261), Record(0.197791, -47.8663, 0.377079, -19.3261)),
    "products of three for FLOAT16": (
        Record(0.197791, -47.8663, 0.377079, -19.3261),
        Record(0.197791, -47.8663, 0.377079, -19.3261),
    ),
    "tiny products": (Record(0.197791, -173.866, 6.44096e-08, -118.818), Record(0.197791, -173.866, 6.44096e-08, -118.818)),
    "lines": (Record(0.212567, -46.804, 0.331261, -18.2882), Record(0.212567, -46.804, 0.416301, -19.5847)),
    "lines that cancel": (Record(0.156259, -50.2809, 0.602285, -21.1138), Record(0.136492, -50.2809, 0.0298419, -42.2073)),
    "tiny lines": (Record(0.212567, -173.185, 6.05991e-08, -118.058), Record(0.212567, -173.185, 1.1469e-07, -120)),
    "scaled differences": (Record(0.24689, -47.2708, 0.425045, -18.4203), Record(0.24689, -47.2708, 0.425045, -18.4203)),
    "scaled differences near m": (
        Record(0.236737, -71.6538, 0.931432, -23.9709),
        Record(0.236737, -71.6538, 0.931432, -23.9709),
    ),
    "scaled differences at once": (Record(0.243599, -47.218, 0.425045, -18.4203), Record(0.22178, -47.218, 0.425045, -18.4203)),
    "scaled differences at once near m": (
        Record(0.0554969, -52.9555, 0.931432, -23.9709),
        Record(0.948526, -52.9555, 0.931432, -23.9709),
    ),
    "lines at once": (Record(0.200579, -46.7574, 0.331261, -18.2882), Record(0.142292, -46.7574, 0.416301, -19.5847)),
    "terms of elements": (Record(0.24689, -46.7871, 0.433161, -18.0765), Record(0.246402, -46.7871, 0.415232, -18.3657)),
    "terms that cancel": (Record(0.314172, -50.2641, 0.474284, -20.8327), Record(0.280896, -50.2641, 0.504008, -21.053)),
    "terms of elements that cancel": (
        Record(0.309419, -50.2641, 0.475042, -21.053),
        Record(0.276143, -50.2641, 0.505819, -21.3245),
    ),
}


@pytest.mark.parametrize("fused", machines())
@pytest.mark.parametrize("name", CASES)
def test_elements_are_within_their_bounds(name: str, fused: bool) -> None:
    record, made = RECORDS[name][fused], found(name, machines()[fused])
    assert max(made.ratio, made.ratio_of_ends) <= 1, f"an error exceeds its bound: {made}"
    changed = f"a bound has changed: {made}, and was {record}"
    assert abs(made.width - record.width) <= 0.02, changed
    assert abs(made.width_of_ends - record.width_of_ends) <= 0.02, changed
    for ratio, before in ((made.ratio, record.ratio), (made.ratio_of_ends, record.ratio_of_ends)):
        assert before / 1.25 <= ratio <= before * 1.25, changed


def test_sloped_elements_that_cancel_are_within_their_bounds() -> None:
    """(x - m) + (z - n) c is within 4 u |(z - n) c| where it is nearly 0."""
    rng = Rng(5)
    m, n, c, z = (rng.uniform(1, 2, COUNT) * 2.0 ** rng.randint(-3, 3, COUNT) for _ in range(4))
    z = single(-z)
    x = single(m - (z - n) * c)
    c = -(x - m) / (z - n)

    def emitted(m: Value, n: Value, c: Value, x: Value, z: Value) -> list[Value]:
        line = sloped.line("mnc", [Number(v.body, given(v), Known(-1e9, 1e9), exact=True) for v in (m, n, c)])
        found = sloped.element(line, *(of_single(v.converted("fptrunc", v.kind.of("float"))) for v in (x, z)))
        return [found.number.wide(), found.number.error()]

    y, bound = columns(targets()[0], emitted, m, n, c, x, z)
    ratios = []
    for k in range(COUNT):
        of_m, of_n, of_c, of_x, of_z, of_y = (Fraction(float(v[k])) for v in (m, n, c, x, z, y))
        ratios.append(float(abs((of_x - of_m) + (of_z - of_n) * of_c - of_y) / Fraction(float(bound[k]))))
    assert 1 / 4 < max(ratios) <= 1


def test_limits_have_room_for_roundings_and_are_normal_numbers() -> None:
    """|y| has to reach them: share (|y| + terms) + off |g| + base <= 2^-38 |y|, where two of them are added in float32."""
    rng = Rng(3)
    share, off, base = (rng.uniform(1, 2, COUNT) * 2.0 ** -rng.randint(43, 60, COUNT) for _ in range(3))

    def emitted(share: Value, off: Value, base: Value) -> list[Value]:
        return [limit.converted("fpext", share.kind) for limit in standardised.limits_of(share, off, base, None)]

    (target,) = targets()[:1]
    for limits, number in zip(columns(target, emitted, share, off, base), (share, off, base), strict=True):
        ratio = limits / (number / (2.0**-38 - share))
        assert (ratio >= 1 + 2.0**-22).all()
        assert (ratio < 1 + 2.0**-19).all()
    nothing = np.zeros(1)
    least = [limit[0] for limit in columns(target, emitted, nothing, nothing, nothing)]
    assert least == [2.0**-100, 2.0**-100, 2.0**-125]


@pytest.mark.parametrize("times", [1, 4])
def test_numbers_at_2_to_the_15_places_from_a_tie_are_known(times: int) -> None:
    room = times * 2**15
    y = 1 + 2.0**-24 + np.array([-room - 1, 1 - room, 0, room - 1, room]) * 2.0**-52

    def emitted(y: Value) -> list[Value]:
        made = y.converted("fptrunc", y.kind.of("float"))
        return [standardised.are_known(y, made, made.lift(0.5), DataType.FLOAT32, times)]

    (known,) = columns(targets()[0], emitted, y)
    assert known.tolist() == [1, 0, 0, 0, 1]


def test_factors_below_2_to_the_minus_100_are_not_rounded_to_float32() -> None:
    a = np.array([2.0**-100, 1.5 * 2.0**-101, -(2.0**-100), -1.5 * 2.0**-101, 0.0])
    data = Data(a, a, a, np.ones(5), np.ones(5))
    low, high = computed(targets()[0], Case("ma", "x", plain), data)[2:4]
    assert np.isfinite(high - low).tolist() == [True, False, True, False, True]


if __name__ == "__main__":
    for name in CASES:
        texts = [f"Record({', '.join(f'{x:.6g}' for x in found(name, machines()[fused]))})" for fused in (False, True)]
        print(f'    "{name}": ({", ".join(texts)}),')
