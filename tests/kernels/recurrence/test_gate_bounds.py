"""The bounds of gates far from 0, where 1 - y, e^x - 1 and gates that are nearly closed have claims of their own.

Arguments have bounds up to 30. A result has to hold for both ends of a bound, and records tell how wide the claims are.
`python tests/kernels/recurrence/test_gate_bounds.py` prints them.
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

from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats.numbers import Number, decided_size
from anydml.kernels.numbers.floats.transcendental import function
from anydml.kernels.numbers.known import ANYTHING
from anydml.kernels.recurrence import gates
from every_kernel import Ran
from number_kernels import columns

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

DIGITS = gmpy2.context(precision=1400, emax=1 << 40, emin=-(1 << 40))
SIZES = (0.0, 0.3, 2.0, 30.0, 99.0, 99.75, 100.5, 101.0, 140.0, 340.0, 347.0, 349.0, 350.5, 352.0, 400.0, 700.0, 1e4)
OFF = (0.0, 2.0**-45, 2.0**-20 * (1 - 2.0**-9), 2.0**-19, 0.25, 0.75, 30.0)
ARGUMENTS = np.array([*product((s * x for x in SIZES for s in (1, -1)), OFF)]).T


class Gate(NamedTuple):
    """The function whose value is limited, in machine code and exactly. result: what becomes of the value and the argument."""

    op: str
    made: Callable[[Number, Number], Number]
    exact: Callable[[Any], Any]


GATES: Mapping[str, Gate] = {
    "sigmoid": Gate("sigmoid", gates._closed, lambda x: 1 / (1 + gmpy2.exp(-x))),
    "softplus": Gate("softplus", gates._closed, lambda x: max(x, mpfr(0)) + gmpy2.log1p(gmpy2.exp(-abs(x)))),
    "erfc": Gate("erfc", gates._closed, gmpy2.erfc),
    "1 - sigmoid": Gate("sigmoid", gates._rest, lambda x: 1 / (1 + gmpy2.exp(x))),
    "expm1": Gate("expm1", gates._levelled, gmpy2.expm1),
}


class Told(NamedTuple):
    """The mean of the binary logarithms of bounds, and how many there are, how many are 0, and how many lanes are guarded."""

    mean: float
    wide: int
    none: int
    guarded: int


RECORDS: Mapping[str, Told] = {
    "sigmoid": Told(-184.238, 110, 0, 128),
    "softplus": Told(-74.368, 238, 0, 0),
    "erfc": Told(-234.969, 110, 0, 128),
    "1 - sigmoid": Told(-187.513, 110, 0, 128),
    "expm1": Told(78.046, 98, 2, 131),
}


def compute(name: str) -> list[Any]:
    gate = GATES[name]

    def made(x: Value, off: Value) -> list[Value]:
        argument = Number(x.body, lambda: x, ANYTHING, err=lambda: off)
        found = decided_size(gate.made(function(gate.op, [argument], "wide"), argument))
        guard = x.compared("uno", x) if found.guard is None else found.guard
        return [found.wide(), found.error(), guard]

    return columns(targets()[0], made, *ARGUMENTS)


def told(bound: Any, guard: Any) -> Told:
    claimed = (guard == 0) & np.isfinite(bound)
    wide = bound[claimed & (bound > 0)]
    return Told(round(float(np.log2(wide).mean()), 3), wide.size, int((claimed & (bound == 0)).sum()), int(guard.sum()))


@pytest.mark.parametrize("name", GATES)
def test_what_is_said_of_gates_holds(name: str, ran: Ran) -> None:
    values, bounds, guards = compute(name)
    count = 0
    with DIGITS:
        for x, off, value, bound, guard in zip(
            *ARGUMENTS.tolist(), *(v.tolist() for v in (values, bounds, guards)), strict=True
        ):
            if guard or not math.isfinite(bound):
                continue
            for end in (x - mpq(off), mpq(x), x + mpq(off)):
                t = GATES[name].exact(mpfr(end))
                assert abs(t - value) <= bound + abs(t) / mpfr(2) ** 1200, f"{name} of {x} within {off}: {value} within {bound}"
            count += 1
    ran(count, 50)
    if targets()[0].architecture == "x86":
        assert told(bounds, guards) == RECORDS[name], "a bound or a guard has changed"


if __name__ == "__main__":
    for gate_name in GATES:
        print(f'    "{gate_name}": Told{tuple(told(*compute(gate_name)[1:]))},')
