"""The bounds of sums and products that no kernel's errors come near: of hostile terms, for which each rounding is lost."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anydml.kernels.code import engine, llvm
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.numbers.floats.numbers import Number, U, of_single
from anydml.kernels.reduce.accumulator import Accumulator
from anydml.kernels.reduce.sums import CarefulProduct, RowSum
from number_kernels import LANES, as_it_is, called

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

Array = NDArray[Any]


def accumulated(target: Target, made: Callable[[Body, Number], Accumulator], terms: Array) -> Array:
    """The results of rows of float32, which lie in the columns, and their bounds."""
    body, kind = Body(target), Kind("float", LANES)
    n, place, results, bounds = (body.load(k, "%arguments", 8 * i) for i, k in enumerate(("i64", "ptr", "ptr", "ptr")))
    all_of = made(body, of_single(body.constant(kind, 1.0)))

    def step(i: str, values: list[Value]) -> list[Value]:
        x = body.loaded(kind, body.at(place, body.op(f"mul i64 {i}, 4")))
        return all_of.step(values, of_single(x), None, Value(body, i, Kind("i64")))

    _, ended = body.loop("0", n, LANES, all_of.starts, step)
    found = all_of.result(ended)
    assert isinstance(found, Number)
    body.stored(found.wide(), results)
    body.stored(found.wide().magnitude() * found.rel if found.ends else found.error(), bounds)
    body.do("ret i64 0")
    code = engine.compiled(as_it_is, target, kernel(body, list(body.declared)))
    out = np.zeros((2, LANES))
    called(code, [], [terms.reshape(-1), *out])
    return out


def test_magnitudes_that_float32_loses_are_in_the_bound_of_a_sum() -> None:
    """Terms of less than half a place of the first one are lost: a part of 2^-8 of the sum of magnitudes."""
    n = 1 << 16
    terms = np.full((n, LANES), 2.0**-24 * (1 - 2.0**-10), np.float32)
    terms[1::2] *= -1
    terms[0] = 1
    (_, bounds) = accumulated(targets()[0], lambda body, x: RowSum(body, LANES, x, n, n, counted=False, careful=False), terms)
    ratio = bounds[0] / (n * U * math.fsum(abs(terms[:, 0]).tolist()))
    assert 1 <= ratio < 1.01


def test_a_product_is_within_its_relative_bound() -> None:
    n, rng = 4, np.random.default_rng(5)
    worst = 0.0
    for _ in range(12):
        terms = rng.uniform(1, 2, (n, LANES)).astype(np.float32)
        made, bounds = accumulated(targets()[0], lambda body, x: CarefulProduct(body, LANES, x, n), terms)
        for lane in range(LANES):
            exact = math.prod(map(Fraction, terms[:, lane].tolist()))
            worst = max(worst, float(abs(exact - Fraction(made[lane])) / Fraction(bounds[lane])))
    assert 1 / 8 < worst <= 1
