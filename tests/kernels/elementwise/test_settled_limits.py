"""Knowledge of functions near zero, which are not computed: it holds beside ties, and no limit of it changes unseen.

`python tests/kernels/elementwise/test_settled_limits.py` prints the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_settled import OPERATORS, desc_of

from agreement import bits, expected
from anydml import DataType
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise import settled
from every_kernel import Ran
from number_kernels import columns

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

Floats = NDArray[np.float32]
# of all 24-digit numbers x, those for which 2 x / sqrt(pi) is nearest to a tie: 2^-47.2 of it above one, and 2^-49.5 below
NEAREST = (10862662 * 2.0**-90, 11153932 * 2.0**-90)
FUNCTIONS = [name for name in OPERATORS if name != "log"]  # whose limits are at 0 and infinity
RECORDS: Mapping[str, int] = {
    "exp": 1753,
    "sigmoid": 2209,
    "swish": 2073,
    "gelu": 660,
    "tanh": 1755,
    "erf": 1617,
}


@cache
def arguments() -> Floats:
    """Numbers of every size below 1, such beside which 1/2 + x / 4 and 2 x / sqrt(pi) are nearly ties, or of few digits."""
    rng = np.random.RandomState(5)
    exponents = np.repeat(np.arange(-70, 0), 8)
    found: list[Any] = [rng.uniform(1, 2, exponents.size) * 2.0**exponents, rng.randint(1, 64, exponents.size) * 2.0**exponents]
    k, far = rng.randint(1 << 8, 1 << 16, 200), rng.randint(-3, 4, 200)
    found += [(2 * k + 1) * 2.0 ** -rng.randint(22, 25, 200) + far * 2.0**-40 * k, (2 * k + 1) * 2.0**-24, 2.0**-149 * k]
    found.append(NEAREST)
    made = np.concatenate(found).astype(np.float32)
    return np.concatenate([made, -made, np.zeros(1, np.float32)])


def known(name: str, x: Floats) -> tuple[Floats, Any]:
    """The results of a function, and where they are known."""

    def of(wide: Value) -> list[Value]:
        made, mask = settled._of_one(name, wide.converted("fptrunc", wide.kind.of("float")), DataType.FLOAT32)
        return [made.cast(made.kind.of("float")).converted("fpext", wide.kind), mask]

    made, mask = columns(targets()[0], of, x.astype(np.float64))
    return made.astype(np.float32), mask == 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_known_holds(name: str, ran: Ran) -> None:
    x = arguments()
    found, mask = known(name, x)
    (wanted,) = expected(desc_of(OPERATORS[name], int(mask.sum())), {"input_tensor": x[mask][None, None, None]}).values()
    different = np.flatnonzero(bits(found[mask]) != bits(wanted.ravel()))
    assert not different.size, (x[mask][different[:4]], found[mask][different[:4]], wanted.ravel()[different[:4]])
    assert mask.sum() == RECORDS[name], "a limit has changed"
    ran(int(mask.sum()), 1)


if __name__ == "__main__":
    for function_name in FUNCTIONS:
        print(f'    "{function_name}": {known(function_name, arguments())[1].sum()},')
