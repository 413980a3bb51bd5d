"""HARD_SWISH and SCALED_TANH of tiny arguments, half of which are close to ties: decided by the first stage."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from agreement import SOAK, bits, expected
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise import near_zero
from anydml.kernels.elementwise.undecided import UndecidedElements
from anydml.tensor import DataType
from every_kernel import without_dot_products
from number_kernels import columns

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="without LLVM there are no kernels that could be wrong")

F32 = dml.TensorDesc(DataType.FLOAT32, (1, 3001))
THIRD = float(np.float32(1 / 3))
CASES = {
    "hard swish": (dml.ActivationHardSwish(input_tensor=F32, output_tensor=F32), True),
    "falling": (dml.ActivationHardSwish(input_tensor=F32, output_tensor=F32, alpha=-0.3, beta=0.25), True),
    "a slope of 24 bits": (dml.ActivationHardSwish(input_tensor=F32, output_tensor=F32, alpha=0.5, beta=THIRD), True),
    "a slope of two digits": (dml.ActivationHardSwish(input_tensor=F32, output_tensor=F32, alpha=0.5, beta=0.75), True),
    "too steep beside its slope": (dml.ActivationHardSwish(input_tensor=F32, output_tensor=F32, alpha=3e38, beta=0.5), False),
    "level": (dml.ActivationHardSwish(input_tensor=F32, output_tensor=F32, alpha=0.0, beta=0.5), False),
    "a sigmoid that is 1": (dml.ActivationHardSwish(input_tensor=F32, output_tensor=F32, alpha=0.2, beta=1.0), False),
    "a sigmoid that is 0": (dml.ActivationHardSwish(input_tensor=F32, output_tensor=F32, alpha=0.2, beta=0.0), False),
    "scaled tanh": (dml.ActivationScaledTanh(input_tensor=F32, output_tensor=F32), True),
    "of both scales": (dml.ActivationScaledTanh(input_tensor=F32, output_tensor=F32, alpha=-3.0, beta=0.125), True),
    "scales of 24 bits": (dml.ActivationScaledTanh(input_tensor=F32, output_tensor=F32, alpha=THIRD, beta=THIRD), False),
    "a steep tanh": (dml.ActivationScaledTanh(input_tensor=F32, output_tensor=F32, alpha=0.5, beta=1e30), False),
}


def tiny(seed: int) -> NDArray[np.float32]:
    """Subnormal numbers, numbers with small exponents and few or many digits, and the largest ones that count as tiny."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-149, -20, 600)
    x = np.concatenate(
        [
            rng.standard_normal(1200) * 1e-40,
            np.ldexp(rng.integers(1, 64, 600), exponents),
            np.ldexp(1 + rng.random(600), exponents),
            np.ldexp(1 + rng.integers(-2, 3, 200) * 2.0**-23, rng.integers(-63, -57, 200)),
            np.ldexp(rng.integers(1, 40, 340), -149),
            np.ldexp(rng.integers(5592406, 11184810, 40) | 1, rng.integers(-83, -76, 40)),  # 3/4 of these is a tie
            [
                0.0,
                -0.0,
                np.inf,
                -np.inf,
                np.nan,
                1.0,
                -2.0,
                3.0,
                1e-20,
                2.0**-60,
                1e30,
                -1e30,
                2.0**-24,
                2.0**-53,
                0.5,
                2.0**-149,
            ],
        ]
    )
    x = (x * np.where(np.arange(x.size) < 1200, 1, rng.choice([-1, 1], x.size))).astype(np.float32)
    return np.resize(x, 3001)[None]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_tiny_arguments_are_rounded_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    desc, early = CASES[name]
    left: list[int] = []
    finer = UndecidedElements._finer

    def counting(self: UndecidedElements, entries: NDArray[np.int64], count: int) -> int:
        left.append(count)
        return finer(self, entries, count)

    monkeypatch.setattr(UndecidedElements, "_finer", counting)
    for seed in range(SOAK):
        x = tiny(seed)
        exact = expected(desc, {"input_tensor": x})["output_tensor"]
        for row in without_dot_products():
            compiled = dml.Device("cpu", isa=row.name, threads=1).compile(desc)
            assert compiled.kernel_name == "elementwise:compiled"
            made = np.empty_like(x)
            left.clear()
            compiled.bind(input_tensor=x, output_tensor=made).execute()
            np.testing.assert_array_equal(bits(made), bits(exact), err_msg=row.name)
            assert not early or sum(left) < 150


def test_arguments_are_tiny_while_what_is_added_is_less_than_a_last_place() -> None:
    """At most 64 s x^2, beside s x, is less than 2^-53 of it up to 2^-60."""
    assert near_zero.STEEP * 2.0**-60 < 2.0**-53
    x = np.array([0.0, 2.0**-149, 2.0**-60 - 2.0**-84, 2.0**-60])

    def emitted(x: Value) -> list[Value]:
        return [near_zero.NearZero(0.5, 1).settled(x.converted("fptrunc", x.kind.of("float")).bits())[1]]

    (known,) = columns(targets()[0], emitted, np.concatenate([x, -x]))
    assert known.tolist() == [0, 1, 1, 0, 0, 1, 1, 0]


def test_hard_swish_of_integers_is_decided_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of them are ties, which float64 represents exactly."""
    left: list[int] = []

    def counting(_: UndecidedElements, entries: NDArray[np.int64], count: int) -> int:
        left.append(len(entries))
        return count

    monkeypatch.setattr(UndecidedElements, "_finer", counting)
    x = np.rint(4 * np.random.default_rng(4).standard_normal((1, 3001))).astype(np.float32)
    for name in ("hard swish", "falling", "a slope of 24 bits"):
        desc, _ = CASES[name]
        exact = expected(desc, {"input_tensor": x})["output_tensor"]
        for row in without_dot_products():
            compiled = dml.Device("cpu", isa=row.name, threads=1).compile(desc)
            assert compiled.kernel_name == "elementwise:compiled"
            if "fma" not in row.features:
                continue
            made = np.empty_like(x)
            compiled.bind(input_tensor=x, output_tensor=made).execute()
            np.testing.assert_array_equal(bits(made), bits(exact), err_msg=row.name)
            assert not left
