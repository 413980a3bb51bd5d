"""The ends of numbers in twice float64's precision where they are stored, and the bounds of constants."""

from __future__ import annotations

from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from anydml import DataType
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise import precise
from anydml.kernels.numbers.doubled import levels
from anydml.kernels.numbers.doubled.arithmetic import Precise, all_signed
from anydml.kernels.numbers.functions.pairs import Pair
from anydml.schema.node import Constant
from number_kernels import columns

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

TIE = 1 + 2.0**-24
OF_GELU = -79.999888, -79.999819, -79.999726, -79.999659  # the binary logarithms of relative bounds


def test_an_end_beside_a_tie_is_moved_by_more_than_its_own_rounding() -> None:
    """The sum of a tail and a bound is rounded to the distance of a tie, which the end exceeds."""

    def undecided(head: Value, tail: Value, err: Value) -> list[Value]:
        mask = precise._rounded(Precise(Pair(head, tail), err, None), DataType.FLOAT32, False)[1]
        assert mask is not None
        return [mask]

    distance = 2.0**-40
    beyond, below = (distance, 2.0**-95), (distance * (1 - 2.0**-48), 0.0)
    rows = [(s * (TIE - distance), s * tail, err) for s in (1, -1) for err, tail in (beyond, below)]
    assert columns(targets()[0], undecided, *np.array(rows).T)[0].tolist() == [1, 0, 1, 0]


def test_bounds_up_to_a_share_are_decided() -> None:
    """1.25 as FLOAT16, with bounds of 2^-22 and 2^-18; and numbers far below the least FLOAT32, with bounds of a quarter."""

    def undecided(head: Value, err: Value) -> list[Value]:
        x = Precise(Pair(head, head.lift(0.0)), err, None)
        found = precise._rounded(x, DataType.FLOAT16, False)[1], precise._rounded(x, DataType.FLOAT32, True)[1]
        return [mask for mask in found if mask is not None]

    rows = [(1.25, 2.0**-22), (1.25, 2.0**-18), (2.0**-202, 2.0**-204), (2.0**-198, 2.0**-200)]
    few, far = columns(targets()[0], undecided, *np.array(rows).T)
    assert few[:2].tolist() == far[2:].tolist() == [0, 1]


def test_gelu_far_below_zero_has_the_error_of_its_constant() -> None:
    """That of 1 / sqrt(2) grows with the square of the argument; beside the function's own, it is a part of 2^-12."""

    def told(x: Value) -> list[Value]:
        zero = x.lift(0.0)
        made = levels.gelu(Precise(Pair(x, zero), zero, None, all_signed(x)))
        return [made.pair.head, made.pair.tail, made.err]

    x = np.array([-20.0, -25.5, -30.25, -34.0])
    for at, head, tail, err, share in zip(x, *columns(targets()[0], told, x), OF_GELU, strict=True):
        with gmpy2.context(precision=400):
            t = gmpy2.mpfr(at) * gmpy2.erfc(-gmpy2.mpfr(at) / gmpy2.sqrt(gmpy2.mpfr(2))) / 2
            assert abs(t - head - gmpy2.mpfr(tail)) <= err
            assert float(gmpy2.log2(err / abs(t))) == pytest.approx(share, abs=2e-5)


def test_constants_are_within_their_bounds() -> None:
    numbers = [Fraction(n, 3 * 7 * 11 * 13) for n in range(1, 200, 5)]

    def told(x: Value) -> list[Value]:
        made = [precise._constant(x.body, x.kind, Constant(n, False), False) for n in numbers]
        return [value for a in made for value in (a.pair.head, a.pair.tail, a.err)]

    found = [Fraction(float(x[0])) for x in columns(targets()[0], told, np.ones(1))]
    ratios = [
        abs(n - head - tail) / err for n, head, tail, err in zip(numbers, found[::3], found[1::3], found[2::3], strict=True)
    ]
    assert 1 / 8 < max(ratios) <= 1
