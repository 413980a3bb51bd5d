"""Signs and orders of magnitude: the ends of logarithms enclose the exact ones, and no room around them changes unseen.

Arguments have bounds up to 1/4, and every size. `python tests/kernels/elementwise/test_size_bounds.py` prints the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, NamedTuple

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray

from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise import magnitudes
from anydml.kernels.elementwise.magnitudes import Size
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.known import ANYTHING
from every_kernel import Ran
from number_kernels import columns

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

Array = NDArray[Any]
DIGITS = gmpy2.context(precision=400)
LOG2 = gmpy2.const_log2(400)
SIZES = (0.125, 2.0, 2.03, 16.75, 20.3, 700.0, 750.0, 1e4, 1e6, 2.0**30 / 3, 2.0**50 / 7, 2.0**58 * 1.1)
OFF = (0.0, 2.0**-40, 2.0**-12, 0.25)
ARGUMENTS = np.array([*product((s * x for x in SIZES for s in (1, -1)), OFF)]).T
BESIDE = np.array([*product((1.0, -30.0, 1e4, -1e6), (s * 2.0**-k for k in (5, 9, 10, 12, 13) for s in (1, -1)))]).T


class Claim(NamedTuple):
    """The size of a function of a number with a bound, or of two exact ones, and its exact logarithm."""

    emitted: Callable[[Value, Value], Size]
    exact: Callable[..., Any]
    given: Array = ARGUMENTS


def bounded(x: Value, off: Value) -> Number:
    return Number(x.body, lambda: x, ANYTHING, err=lambda: off)


def exact(x: Value) -> Number:
    return Number(x.body, lambda: x, ANYTHING, exact=True)


def difference(x: Value, y: Value) -> Size:
    """e^x - e^(x + y)."""
    a, b = (magnitudes._exponential(exact(v), "exp") for v in (x, x + y))
    return magnitudes._sum(a, b._replace(sign=-b.sign))


def of_sigmoid(x: Any) -> Any:
    return (min(x, mpfr(0)) - gmpy2.log1p(gmpy2.exp(-abs(x)))) / LOG2


def of_softplus(x: Any) -> Any:
    return x / LOG2 if x < -1000 else gmpy2.log2(gmpy2.log1p(gmpy2.exp(x)))


def of_erfc(x: Any) -> Any:
    """From 1000 on, up to a share of x^-4."""
    if x < 1000:
        return gmpy2.log2(gmpy2.erfc(x))
    return -(x**2) / LOG2 - gmpy2.log2(x * gmpy2.sqrt(gmpy2.const_pi())) + gmpy2.log2(1 - 1 / (2 * x**2))


CLAIMS: Mapping[str, Claim] = {
    "exp": Claim(lambda x, off: magnitudes._exponential(bounded(x, off), "exp"), lambda x: x / LOG2),
    "sigmoid": Claim(lambda x, off: magnitudes._exponential(bounded(x, off), "sigmoid"), of_sigmoid),
    "softplus": Claim(lambda x, off: magnitudes._exponential(bounded(x, off), "softplus"), of_softplus),
    "erfc": Claim(lambda x, off: magnitudes._of_erfc(bounded(x, off)), of_erfc),
    "a difference": Claim(difference, lambda x, y: x / LOG2 + gmpy2.log2(abs(gmpy2.expm1(y))), BESIDE),
}


class Told(NamedTuple):
    """The mean of the binary logarithms of the room below and above exact logarithms, and how many sizes are claimed."""

    below: float
    above: float
    claimed: int


RECORDS: Mapping[str, Told] = {
    "exp": Told(-15.66, -15.66, 96),
    "sigmoid": Told(-5.34, -26.05, 96),
    "softplus": Told(-10.25, -12.94, 47),
    "erfc": Told(15.5, 17.38, 39),
    "a difference": Told(1.8, 2.94, 24),
}


def judged(name: str) -> Told:
    claim = CLAIMS[name]

    def made(x: Value, off: Value) -> list[Value]:
        found = claim.emitted(x, off)
        return [found.sign, found.low, found.high, x.compared("uno", x) if found.guard is None else found.guard]

    rooms = []
    rows = zip(*claim.given.tolist(), *(v.tolist() for v in columns(targets()[0], made, *claim.given)), strict=True)
    with DIGITS:
        for x, off, sign, low, high, guard in rows:
            if guard:
                continue
            alone = claim.given is ARGUMENTS
            logs = [claim.exact(mpfr(x + k * mpq(off))) for k in (-1, 0, 1)] if alone else [claim.exact(mpfr(x), mpfr(off))]
            said = f"{name} of {x} and {off}: {sign} 2^{low} to 2^{high}"
            assert sign == (1 if alone else -math.copysign(1, off)), said
            assert low <= min(logs) <= max(logs) <= high, said
            rooms.append([math.log2(max(float(room), 2.0**-60)) for room in (min(logs) - mpfr(low), mpfr(high) - max(logs))])
    below, above = np.array(rooms).mean(0).tolist()
    return Told(round(below, 2), round(above, 2), len(rooms))


@pytest.mark.parametrize("name", CLAIMS)
def test_what_is_said_of_sizes_holds(name: str, ran: Ran) -> None:
    found = judged(name)
    ran(found.claimed, 5)
    if targets()[0].architecture == "x86":
        assert found == RECORDS[name], "the room of a bound has changed"


if __name__ == "__main__":
    for claim_name in CLAIMS:
        print(f'    "{claim_name}": Told{tuple(judged(claim_name))},')
