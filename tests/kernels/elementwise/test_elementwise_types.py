"""Elements of every type in machine code: all halves; integers, compared with Python's; and conversions of results."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_elementwise_bounds import a_formula, as_half, as_single, drawn, exact, nearest

import anydml as dml
import hostile_data
from anydml import DataType, TensorDesc
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import Target
from anydml.kernels.match.normal_form import Node, NormalForm, normal_form
from anydml.kernels.numbers import halves
from anydml.schema.node import Constant
from anydml.schema.types import ELEVEN
from anydml.tensor import limits
from every_kernel import SOAK, Ran, without_dot_products
from number_kernels import applied, elements

Array = NDArray[Any]
INTEGERS = [t for t in ELEVEN if t.dtype.kind in "iu"]
every_target = pytest.mark.parametrize("target", without_dot_products(), ids=lambda t: t.name)

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")


# --- halves ---


def same_or_nan(found: Array, wanted: Array) -> None:
    """Assert equal bits, except for NaN."""
    nan = np.isnan(wanted)
    assert np.isnan(found[nan]).all()
    unsigned = f"u{wanted.itemsize}"
    np.testing.assert_array_equal(found[~nan].view(unsigned), wanted[~nan].view(unsigned))


@every_target
def test_every_half_is_widened_exactly(target: Target) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        same_or_nan(applied(target, halves.widened, ("i16", "float"), every), every.view(np.float16).astype(np.float32))


def about_halves() -> Array:
    """Every half as a float32, the numbers in the middle of two, numbers close to these, and distant numbers."""
    positive = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(np.float64)
    positive[-1] = 65536.0  # the number after the largest half
    middles = ((positive[1:] + positive[:-1]) / 2).astype(np.float32)
    exact_ones = positive.astype(np.float32)
    about = [exact_ones, middles]
    for x in (exact_ones, middles):
        about += [np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))]
    far = hostile_data.values("FLOAT32", 20_000, np.random.default_rng(0), "wide")
    specials = hostile_data.values("FLOAT32", 200, np.random.default_rng(0), "specials")
    joined = np.concatenate([*about, far, specials])
    return np.concatenate([joined, -joined])


@every_target
def test_singles_are_narrowed_half_to_even(target: Target) -> None:
    x = about_halves()
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float16).view(np.uint16)
    wanted[np.isnan(x)] = 0x7E00
    assert len(x) > 300_000
    np.testing.assert_array_equal(applied(target, halves.narrowed, ("float", "i16"), x), wanted)


@every_target
def test_doubles_are_narrowed_by_way_of_odd_singles(target: Target) -> None:
    """Together one rounding, also for numbers whose distance from a middle is lost in float32."""
    with np.errstate(invalid="ignore", over="ignore"):
        singles = about_halves()[::7].astype(np.float64)
        x = np.concatenate([singles, np.nextafter(singles, np.inf), np.nextafter(singles, -np.inf), singles * (1 + 2.0**-30)])
    x = x[np.isfinite(x)]

    def half_of(v: Any) -> Any:
        return halves.narrowed(halves.odd_single(v))

    found = applied(target, half_of, ("double", "i16"), x).view(np.float16).astype(np.float64)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, x.astype(np.float16).astype(np.float64))  # NumPy rounds float64 directly
    some = np.random.default_rng(0).integers(0, len(x), 2000)
    assert [float(v) for v in found[some]] == [float(as_half(Fraction(float(v)))) for v in x[some]]


# --- integers ---


def remainder(x: int, y: int) -> int:
    return x - y * (abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1))


WHOLES: Mapping[str, tuple[int, Callable[..., int]]] = {
    "add": (2, lambda x, y: x + y),
    "sub": (2, lambda x, y: x - y),
    "mul": (2, lambda x, y: x * y),
    "neg": (1, lambda x: -x),
    "absolute": (1, abs),
    "max": (2, max),
    "min": (2, min),
    "fmod": (2, remainder),
    "floor_mod": (2, lambda x, y: x % y),
    "power": (1, lambda x: x**3),
}


def a_whole_formula(rng: random.Random) -> tuple[NormalForm, tuple[DataType, ...]]:
    types = tuple(rng.choice(INTEGERS) for _ in range(2))
    nodes = [Node("stream", (), (k, t)) for k, t in enumerate(types)]
    value = rng.choice((0, 1, -1, 2, 7, -128, 255, 1 << 31, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1))
    nodes.append(Node("constant", (), Constant(Fraction(value), True)))
    for _ in range(rng.randint(1, 4)):
        op = rng.choice([*WHOLES, "select"])
        numbers = [k for k, node in enumerate(nodes) if node.op not in ("less", "less_equal", "equal")]
        last = numbers[-1]
        if op == "select":
            nodes.append(Node(rng.choice(("less", "less_equal", "equal")), (last, rng.choice(numbers)), None))
            nodes.append(Node("select", (len(nodes) - 1, rng.choice(numbers), last), None))
        else:
            args = (last, rng.choice(numbers))[: WHOLES[op][0]]
            nodes.append(Node(op, args if rng.random() < 0.5 else args[::-1], 3 if op == "power" else None))
    return normal_form(tuple(nodes)), types


def of_wholes(formula: NormalForm, row: tuple[int, ...]) -> int | None:
    found: list[Any] = []
    for op, args, data in formula:
        x = [found[a] for a in args]
        if op == "stream":
            found.append(row[data[0]])
        elif op == "constant":
            found.append(int(data.value))
        elif op in ("less", "less_equal", "equal"):
            found.append({"less": x[0] < x[1], "less_equal": x[0] <= x[1], "equal": x[0] == x[1]}[op])
        elif op == "select":
            found.append(x[1] if x[0] else x[2])
        elif op in ("fmod", "floor_mod") and x[1] == 0:
            return None
        else:
            found.append(WHOLES[op][1](*x))
    made = found[-1]
    assert isinstance(made, int)
    return made


@every_target
def test_integers_are_python_s_modulo_their_type(target: Target, ran: Ran) -> None:
    compared, refused, count = 0, 0, 100 * SOAK
    used: set[str] = set()
    for seed in range(count):
        rng, generator = random.Random(seed), np.random.default_rng(seed)
        formula, types = a_whole_formula(rng)
        out = rng.choice(INTEGERS)
        inputs = [drawn(t, generator, 40) for t in types]
        try:
            found, left_undecided = elements(target, formula, (*types, out), True, inputs)
        except Uncompilable:
            refused += 1
            continue
        used.update(node.op for node in formula)
        for lane, row in enumerate(zip(*([int(v) for v in x] for x in inputs), strict=True)):
            wanted = of_wholes(formula, row)
            if wanted is None or left_undecided[lane]:
                continue
            low, _ = limits(out)
            wrapped = (wanted - low) % (1 << out.element_bits) + low
            assert int(found[lane]) == wrapped, f"{formula} of {types}, at {row}, as {out.name}: {found[lane]}"
            compared += 1
    assert refused < count / 2
    assert used >= {*WHOLES, "select", "less", "less_equal", "equal"}
    ran(compared, 2000)


# --- conversions of results ---


@every_target
def test_numbers_are_stored_rounded_once_or_cut_and_saturated(target: Target, ran: Ran) -> None:
    compared: dict[DataType, int] = {}
    for seed in range(100 * SOAK):
        rng, generator = random.Random(seed + 1000), np.random.default_rng(seed)
        formula, types = a_formula(rng)
        out = rng.choice(ELEVEN)
        inputs = [drawn(t, generator, 40) for t in types]
        try:
            found, left_undecided = elements(target, formula, (*types, out), False, inputs)
        except Uncompilable:
            continue
        for lane, row in enumerate(zip(*([Fraction(v.item()) for v in x] for x in inputs), strict=True)):
            t = exact(formula, list(row))
            if t is None or left_undecided[lane]:
                continue
            wanted = as_stored(t, out)
            told = f"{formula} of {types}, at {row}, as {out.name}: {found[lane]!r}, not {wanted}"
            assert (float if out.dtype.kind == "f" else int)(found[lane]) == wanted, told
            compared[out] = compared.get(out, 0) + 1
    print(compared)
    assert min(compared.values()) > 30
    assert len(compared) == 11
    ran(sum(compared.values()), 1200)


def as_stored(t: Fraction, data_type: DataType) -> float:
    if data_type == DataType.FLOAT32:
        return float(as_single(t))
    if data_type == DataType.FLOAT16:
        return float(as_half(t))
    if data_type == DataType.FLOAT64:
        return float(nearest(t, 53, -1074))
    low, high = limits(data_type)
    return min(max(math.trunc(t), low), high)


def test_an_infinite_alpha_of_scaled_elu_gives_nan() -> None:
    """inf * exp(x) - inf must not be rewritten."""
    found = dml.activation_scaled_elu(np.array([-2, 1], np.float32), alpha=np.inf, gamma=1)
    assert bits_of_floats(found) == [0x7FC00000, 0x3F800000]


def test_zero_and_infinity_times_a_number_that_is_nearly_zero() -> None:
    """0 and infinity times exp(x) - 1, for x so small that float64 computes exp(x) as 1."""
    found = dml.activation_scaled_elu(np.array([-1e-30, -1], np.float32), alpha=1, gamma=0)
    assert bits_of_floats(found) == [0x80000000, 0x80000000]
    found = dml.activation_scaled_elu(np.array([-1e-30, -1], np.float32), alpha=1, gamma=np.inf)
    assert bits_of_floats(found) == [0xFF800000, 0xFF800000]


def bits_of_floats(x: NDArray[np.float32]) -> list[int]:
    return [int(b) for b in x.view(np.uint32)]


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**63 - 512, 2**53 + 1])
def test_constants_of_64_bits_that_float64_does_not_hold(value: int) -> None:
    output = TensorDesc(DataType.INT64, (64, 64))
    desc = dml.DiagonalMatrix1(  # a band, whose constants would be copied
        output_tensor=output, value_data_type=DataType.INT64, value=value, diagonal_fill_begin=-30, diagonal_fill_end=31
    )
    compiled = dml.Device("cpu").compile(desc)
    assert compiled.kernel_name == "elementwise:compiled"
    found = np.zeros((64, 64), np.int64)
    compiled.bind(output_tensor=found).execute()
    band = np.arange(64) - np.arange(64)[:, None]
    np.testing.assert_array_equal(found, np.where((band >= -30) & (band < 31), value, 0))
