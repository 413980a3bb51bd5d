"""Claims of pairs of float32 besides their ends: the largest ratio of a tail and the head, and erf where it is nearly 1.

`python tests/kernels/elementwise/test_pair_sizes.py` prints the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gmpy2
import numpy as np
import pytest
from numpy.typing import NDArray

from anydml.kernels.code.targets import Target, targets
from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions import paired, paired_powers, paired_tables
from anydml.kernels.numbers.functions.pair_intervals import PairInterval
from number_kernels import columns

Array = NDArray[Any]
FUNCTIONS: Mapping[str, Callable[[Value], PairInterval]] = {
    **paired.FUNCTIONS,
    "pow": lambda x: paired_powers.pow(x.magnitude(), x.lift(2.5)),
}
# the largest ratio of a tail and the head, as a share of the largest that is claimed
RATIOS: Mapping[str, float] = {
    "exp": 0.494,
    "sigmoid": 0.00047,
    "tanh": 0.333,
    "log": 0.759,
    "erf": 0.489,
    "gelu": 0.497,
    "sin": 0.872,
    "cos": 0.872,
    "pow": 0.492,
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


def ratio(name: str) -> float:
    x = (np.random.RandomState(3).uniform(-9, 9, 4000) * 2.0 ** -(np.arange(4000) % 9)).astype(np.float32)
    (head, low, high, outside), size = pairs(name, x.astype(float))
    with np.errstate(all="ignore"):
        found = abs(low + high) / 2 / abs(head) / size
    return float(np.nanmax(np.where(outside == 0, found, 0)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tails_are_no_larger_than_is_said(name: str) -> None:
    found = ratio(name)
    assert found <= 1
    assert found == pytest.approx(RATIOS[name], rel=0.25), "the largest ratio that is claimed has changed"


def test_the_ends_of_erf_enclose_it_where_it_is_nearly_one() -> None:
    x = np.linspace(paired_tables.ERF_FAR + 2.0**-20, 9, 40).astype(np.float32)
    head, low, high, _ = pairs("erf", x.astype(float))[0]
    for lane, t in enumerate(x.tolist()):
        assert head[lane] + low[lane] <= gmpy2.erf(gmpy2.mpfr(t, 200)) <= head[lane] + high[lane]
    assert (high - low <= 2.0**-24).all()


if __name__ == "__main__":
    for function_name in FUNCTIONS:
        print(f'    "{function_name}": {ratio(function_name):.3g},')
