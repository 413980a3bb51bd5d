"""Claims of pairs of float32: how far apart the ends are, the largest ratio of a tail and the head, erf where it is nearly 1.

`python tests/kernels/elementwise/test_pair_sizes.py` prints the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import gmpy2
import numpy as np
import pytest
from numpy.typing import NDArray

from anydml.kernels.code.targets import Target, targets
from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions import pair_intervals, paired, paired_powers, paired_tables
from anydml.kernels.numbers.functions.pair_intervals import PairInterval
from number_kernels import columns

Array = NDArray[Any]
FUNCTIONS: Mapping[str, Callable[[Value], PairInterval]] = {
    **paired.FUNCTIONS,
    "pow": lambda x: paired_powers.pow(x.magnitude(), x.lift(2.5)),
}


class Claims(NamedTuple):
    """ratio: the largest one of a tail and the head, as a share of the largest that is claimed. width: the mean of the binary
    logarithms of the distances of the ends, relative to the head."""

    ratio: float
    width: float


RECORDS: Mapping[str, Claims] = {
    "exp": Claims(0.494, -31.296),
    "sigmoid": Claims(0.00047, -31.5),
    "tanh": Claims(0.333, -30.595),
    "log": Claims(0.759, -33.627),
    "erf": Claims(0.489, -32.78),
    "gelu": Claims(0.497, -34.962),
    "sin": Claims(0.871, -30.747),
    "cos": Claims(0.871, -30.745),
    "pow": Claims(0.492, -36.23),
}


def target_of(name: str) -> Target:
    """An instruction set on which the function of eight numbers is computed in pairs."""
    for target in targets():
        wide = "avx512f" in target.features
        if "avx2" in target.features and wide == (name == "pow"):
            return target
    pytest.skip("no code in pairs is emitted for this processor")


def pairs(name: str, x: Array) -> tuple[list[Array], float]:
    """Heads, lower and upper tails, and lanes that are not served; and the largest ratio that is claimed."""
    sizes = []

    def of(wide: Value) -> list[Value]:
        made = FUNCTIONS[name](wide.converted("fptrunc", wide.kind.of("float")))
        sizes.append(made.size)
        outside = wide.compared("uno", wide) if made.outside is None else made.outside
        return [*(part.converted("fpext", wide.kind) for part in (made.head, made.low, made.high)), outside]

    return columns(target_of(name), of, x), sizes[0]


def claims(name: str) -> Claims:
    x = (np.random.RandomState(3).uniform(-9, 9, 4000) * 2.0 ** -(np.arange(4000) % 9)).astype(np.float32)
    (head, low, high, outside), size = pairs(name, x.astype(float))
    head, low, high = (part[(outside == 0) & np.isfinite(high)] for part in (head, low, high))
    ratios = abs(low + high) / 2 / abs(head) / size
    return Claims(round(float(ratios.max()), 5), round(float(np.log2((high - low) / abs(head)).mean()), 3))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ends_and_tails_are_as_far_from_the_head_as_is_recorded(name: str) -> None:
    found, record = claims(name), RECORDS[name]
    assert found.ratio <= 1
    assert found.ratio == pytest.approx(record.ratio, rel=0.25), "the largest ratio that is claimed has changed"
    assert found.width == pytest.approx(record.width, abs=0.0021), "a term of the margin has changed"


def test_the_ends_of_erf_enclose_it_where_it_is_nearly_one() -> None:
    x = np.linspace(paired_tables.ERF_FAR + 2.0**-20, 9, 40).astype(np.float32)
    head, low, high, _ = pairs("erf", x.astype(float))[0]
    for lane, t in enumerate(x.tolist()):
        assert head[lane] + low[lane] <= gmpy2.erf(gmpy2.mpfr(t, 200)) <= head[lane] + high[lane]
    assert (high - low <= 2.0**-24).all()


def test_products_of_pairs_are_served_from_their_limit_on() -> None:
    """Of 1 + 2^-25 and numbers from 2^-91 on, the first of which has a product below 2^-90."""
    factors = [2.0**-91, *((2**23 + k) * 2.0**-113 for k in range(64))]

    def of(wide: Value) -> list[Value]:
        factor = wide.converted("fptrunc", wide.kind.of("float"))
        tail = factor.lift(2.0**-25)
        made = pair_intervals.scaled(PairInterval(factor.lift(1.0), tail, tail, None), factor)
        assert made.outside is not None
        return [*(part.converted("fpext", wide.kind) for part in (made.head, made.low, made.high)), made.outside]

    head, low, high, outside = columns(target_of("exp"), of, np.array(factors))
    assert outside.tolist() == [1.0] + [0.0] * 64
    for lane in range(1, 65):
        low_end, high_end = (Fraction(float(head[lane])) + Fraction(float(end[lane])) for end in (low, high))
        assert low_end <= (1 + Fraction(1, 2**25)) * Fraction(factors[lane]) <= high_end


if __name__ == "__main__":
    for function_name in FUNCTIONS:
        print(f'    "{function_name}": Claims{tuple(claims(function_name))},')
