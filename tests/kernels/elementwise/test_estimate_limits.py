"""Estimates of sums of scaled bytes beside ties: what is certain is right, and no limit of it changes unseen."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from anydml import DataType
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.estimated import EstimateCode, ScaledSum, ScaledTerm
from every_kernel import Ran
from number_kernels import LANES, columns

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

BYTE, SINGLE = DataType.UINT8, DataType.FLOAT32
SUM = ScaledSum((ScaledTerm(0, None, 1), ScaledTerm(2, None, 3)), 4, None, (BYTE, SINGLE, BYTE, SINGLE, SINGLE))
UNDECIDED = 4751, 870  # of sums in float32 and in float64


def test_what_is_certain_beside_ties_is_right(ran: Ran) -> None:
    """Half of an odd byte, and 1/510 of 255, each with a second term that is tiny: all scales of a vector are alike."""

    def estimated(x: Value, s: Value, y: Value, t: Value, by: Value) -> list[Value]:
        def single(v: Value) -> Value:
            return v.converted("fptrunc", v.kind.of("float")).bits()

        def byte(v: Value) -> Value:
            return v.converted("fptoui", v.kind.of("i8"))

        code = EstimateCode(x.body, SUM, {1: single(s), 3: single(t), 4: single(by)}, LANES, BYTE)
        streams = [byte(x), single(s), byte(y), single(t), single(by)]
        both = [
            code._estimated(streams, "float", code.factors, code.threshold),
            code._estimated(streams, "double", code.wide_factors, code.wide_threshold),
        ]
        return [v for made, mask in both for v in (made.converted("uitofp", x.kind), mask)]

    rows = []
    for j in (*range(17, 30, 2), *range(42, 54, 2)):
        for x, s in ((255, 1 / 510), (77, 0.5)):
            rows += [(x, s, 8 * k + lane, 2.0**-j, 1.0) for k in range(32) for lane in range(LANES)]
    given = np.array(rows, np.float32)
    single, open_single, double, open_double = columns(targets()[0], estimated, *given.T.astype(float))
    count = 0
    for (x, s, y, t, _), *found in zip(given.tolist(), single, open_single, double, open_double, strict=True):
        exact = min(round(Fraction(x) * Fraction(s) + Fraction(y) * Fraction(t)), 255)
        for made, undecided in (found[:2], found[2:]):
            assert undecided or made == exact, (x, s, y, t, found)
            count += not undecided
    assert (int(open_single.sum()), int(open_double.sum())) == UNDECIDED, "a limit has changed"
    ran(count, 1000)
