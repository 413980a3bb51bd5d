"""Sines, cosines and tangents of large float32: correctly rounded on every instruction set, nearly all by the first stage."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr
from numpy.typing import NDArray
from test_arm_elementwise import GENERIC, case_of
from test_arm_matmul import PROCESSORS

import anydml as dml
import emulated
from agreement import SOAK, bits
from anydml.kernels.code import llvm
from anydml.kernels.elementwise import family
from anydml.kernels.elementwise.undecided import UndecidedElements
from anydml.tensor import DataType
from every_kernel import without_dot_products

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="without LLVM there are no kernels that could be wrong")

Singles = NDArray[np.float32]
LEAST, MOST = 21, 128  # exponents: smaller arguments are reduced in float64, and float32 has no larger ones
EACH = 60 if SOAK == 1 else 10_000  # the number of arguments for each exponent
OPERATORS = {"sin": dml.ElementWiseSin, "cos": dml.ElementWiseCos, "tan": dml.ElementWiseTan}


@cache
def nearest() -> list[float]:
    """For every exponent, float32 that are closest to multiples of pi / 2: m 2^s, by the continued fraction of 2^s 2 / pi."""
    with gmpy2.context(precision=600):
        two_over_pi = Fraction(gmpy2.mpq(2 / gmpy2.const_pi()))
    found = set()
    for s in range(LEAST - 23, MOST - 23):
        rest, before, m = two_over_pi * 2**s % 1, 0, 1
        while m < 1 << 24:
            x = m * Fraction(2) ** s
            if 1 << LEAST <= x < 1 << MOST:
                found.add(float(x))
            rest = 1 / rest
            before, m = m, int(rest) * m + before
            rest -= int(rest)
    return sorted(found)


@cache
def arguments() -> Singles:
    rng = np.random.default_rng(21)
    random = np.ldexp(1 + rng.integers(0, 1 << 23, (MOST - LEAST, EACH)) * 2.0**-23, np.arange(LEAST, MOST)[:, None]).ravel()
    close = np.array(nearest(), np.float32)
    beside = np.concatenate([np.nextafter(close, np.float32(end)) for end in (0, np.inf)])
    near = rng.standard_normal(random.size // 8)  # in the same vectors
    ends = np.array([2.0**LEAST - 0.5, 2.0**LEAST, np.finfo(np.float32).max, np.inf, np.nan, 0.0, 1.0])
    x = np.concatenate([random, near, close, beside, ends]).astype(np.float32)
    made: Singles = np.concatenate([x, -x])
    rng.shuffle(made)
    return made


@cache
def wanted(name: str) -> Singles:
    function = getattr(gmpy2, name)
    with gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True):
        return np.array([float(function(mpfr(x))) for x in arguments().tolist()], np.float32)


def described(name: str, count: int) -> Any:
    t = dml.TensorDesc(DataType.FLOAT32, (1, count))
    return OPERATORS[name](input_tensor=t, output_tensor=t)


@pytest.mark.parametrize("isa", [row.name for row in without_dot_products()])
@pytest.mark.parametrize("name", OPERATORS)
def test_large_angles_are_rounded_once(name: str, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(nearest()) > 8 * (MOST - LEAST)
    left, finer = [], UndecidedElements._finer

    def counting(self: UndecidedElements, entries: NDArray[np.int64], count: int) -> int:
        left.append(count)
        return finer(self, entries, count)

    monkeypatch.setattr(UndecidedElements, "_finer", counting)
    x = arguments()
    x = np.concatenate([x, x[: -len(x) % 64 + 7]])[None]  # the last vector is not full
    compiled = dml.Device("cpu", isa=isa, threads=1).compile(described(name, x.size))
    assert compiled.kernel_name == "elementwise:compiled"
    made = np.empty_like(x)
    compiled.bind(input_tensor=x, output_tensor=made).execute()
    once = wanted(name)
    exact = np.concatenate([once, once[: x.size - once.size]])
    same = (bits(made[0]) == bits(exact)) | (np.isnan(made[0]) & np.isnan(exact))
    assert same.all(), x[0, ~same][:5]
    # the arguments closest to multiples, and less than a hundredth of the others
    assert sum(left) < 6 * len(nearest()) + x.size // 100


@emulated.needed
def test_large_angles_on_arm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recorder, seen = emulated.recording(monkeypatch, GENERIC, family), emulated.Open()
    x = arguments()[None, :: max(1, len(arguments()) // 500)]
    cases = [case_of(described(name, x.size), {"input_tensor": x.copy()}, seen) for name in OPERATORS]
    program = emulated.build(tmp_path, GENERIC, recorder.texts)
    emulated.run(program, PROCESSORS[GENERIC.name], [case for case in cases if case is not None])
    assert seen.compared == 2 * 3 * x.size
    assert seen.left < seen.compared // 2
