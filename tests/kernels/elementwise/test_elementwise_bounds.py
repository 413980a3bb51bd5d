"""Numbers in machine code: their stated properties hold for exact fractions, in formulas of every shape."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hostile_data
from anydml import DataType
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import Target
from anydml.kernels.match.normal_form import Node, NormalForm, normal_form
from anydml.kernels.numbers.floats.numbers import FAR
from anydml.schema.node import Constant
from every_kernel import SOAK, Ran, without_dot_products
from number_kernels import Shown, number, shown

Array = NDArray[Any]
F32, F16 = DataType.FLOAT32, DataType.FLOAT16
TYPES = (F32, F32, F32, F16, DataType.INT8, DataType.UINT16, DataType.INT32, DataType.INT64, DataType.UINT64)
FORMULAS = 80 * SOAK
# of errors that are claimed, to the base of 2: the mean, which changes with any bound
LOGARITHMS = dict.fromkeys(("generic", "avx2", "avx512bw"), -42.573)
every_target = pytest.mark.parametrize("target", without_dot_products(), ids=lambda t: t.name)

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")


def away(x: Fraction) -> Fraction:
    """Half away from zero."""
    found = math.floor(abs(x) + Fraction(1, 2))
    return Fraction(found if x >= 0 else -found)


def truncated(x: Fraction) -> Fraction:
    return Fraction(math.trunc(x))


Exact = Callable[..., Fraction]
OPERATIONS: Mapping[str, tuple[int, Exact]] = {
    "add": (2, lambda x, y: x + y),
    "sub": (2, lambda x, y: x - y),
    "mul": (2, lambda x, y: x * y),
    "div": (2, lambda x, y: x / y),
    "neg": (1, lambda x: -x),
    "absolute": (1, abs),
    "max": (2, max),
    "min": (2, min),
    "floor": (1, lambda x: Fraction(math.floor(x))),
    "ceil": (1, lambda x: Fraction(math.ceil(x))),
    "truncate": (1, truncated),
    "half_to_even": (1, lambda x: Fraction(round(x))),
    "half_away": (1, away),
    "fmod": (2, lambda x, y: x - y * math.trunc(x / y)),
    "floor_mod": (2, lambda x, y: x - y * math.floor(x / y)),
    "round": (1, lambda x: x),  # by the type that is its data
}
TRUTHS: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "equal": lambda x, y: x == y,
}
COMMON = ("add", "sub", "mul", "div")


def nearest(t: Fraction, precision: int, least: int) -> Fraction:
    """t rounded half to even to `precision` bits and multiples of 2^least; a number that is too large is unchanged."""
    if t == 0:
        return t
    exponent = math.floor(abs(t)).bit_length() if abs(t) >= 1 else -(math.ceil(1 / abs(t)).bit_length()) + 1
    while abs(t) >= Fraction(2) ** exponent:
        exponent += 1
    while abs(t) < Fraction(2) ** (exponent - 1):
        exponent -= 1
    quantum = Fraction(2) ** max(exponent - precision, least)
    return Fraction(round(t / quantum)) * quantum


def as_single(t: Fraction) -> Fraction | float:
    found = nearest(t, 24, -149)
    return found if abs(found) < 2**128 else math.copysign(math.inf, t)


def as_half(t: Fraction) -> Fraction | float:
    found = nearest(t, 11, -24)
    return found if abs(found) < 2**16 else math.copysign(math.inf, t)


def a_formula(rng: random.Random) -> tuple[NormalForm, tuple[DataType, ...]]:
    """Some operations on streams and constants; the last one is tested."""
    types = tuple(rng.choice(TYPES) for _ in range(rng.randint(1, 3)))
    nodes = [Node("stream", (), (k, t)) for k, t in enumerate(types)]
    for _ in range(rng.randint(0, 2)):
        value = rng.choice(
            (Fraction(1), Fraction(2), Fraction(-3), Fraction(1, 3), Fraction(0.1), Fraction(1, 1 << 40), Fraction(10**20))
        )
        nodes.append(Node("constant", (), Constant(value, value.denominator == 1 and rng.random() < 0.5)))
    for _ in range(rng.randint(1, 6)):
        numbers = [k for k, node in enumerate(nodes) if node.op not in TRUTHS]

        def one(numbers: list[int] = numbers) -> int:
            return numbers[-1] if rng.random() < 0.5 else rng.choice(numbers)

        if rng.random() < 0.15:
            nodes.append(Node(rng.choice([*TRUTHS]), (one(), one()), None))
            nodes.append(Node("select", (len(nodes) - 1, one(), one()), None))
            continue
        op = rng.choice(COMMON) if rng.random() < 0.6 else rng.choice([*OPERATIONS])
        nodes.append(
            Node(op, tuple(one() for _ in range(OPERATIONS[op][0])), rng.choice((F32, F16)) if op == "round" else None)
        )
    return normal_form(tuple(nodes)), types


def exact(formula: NormalForm, inputs: list[Fraction]) -> Fraction | None:
    """The exact value of a formula; None if a part of it is not finite."""
    found: list[Any] = []
    for op, args, data in formula:
        x = [found[a] for a in args]
        if op == "stream":
            found.append(inputs[data[0]])
        elif op == "constant":
            found.append(data.value)
        elif op in TRUTHS:
            found.append(TRUTHS[op](*x))
        elif op == "select":
            found.append(x[1] if x[0] else x[2])
        elif op == "round":
            rounded = (as_single if data == F32 else as_half)(x[0])
            if isinstance(rounded, float):
                return None
            found.append(rounded)
        elif op in ("div", "fmod", "floor_mod") and x[1] == 0:
            return None
        else:
            found.append(OPERATIONS[op][1](*x))
    made = found[-1]
    assert isinstance(made, Fraction)
    return made


def drawn(data_type: DataType, rng: np.random.Generator, count: int) -> Array:
    """Finite elements of every kind."""
    columns = [hostile_data.values(data_type.name, count, rng, kind) for kind in hostile_data.KINDS]
    if data_type.dtype.kind == "f":
        columns += [(rng.integers(-40, 41, count) / 8).astype(data_type.dtype)] * 2
    x = np.stack(columns)[rng.integers(0, len(columns), count), np.arange(count)]
    return np.where(np.isfinite(x), x, x.dtype.type(1)) if data_type.dtype.kind == "f" else x


@every_target
def test_what_is_said_of_numbers_holds(target: Target, ran: Ran) -> None:
    counts = dict.fromkeys(("lanes", "exact", "odd", "rest", "bounded", "single", "half", "refused"), 0)
    errors: list[float] = []
    for seed in range(FORMULAS):
        rng, generator = random.Random(seed), np.random.default_rng(seed)
        formula, types = a_formula(rng)
        inputs = [drawn(t, generator, 48) for t in types]
        try:
            found = shown(target, formula, types, inputs)
        except Uncompilable:
            counts["refused"] += 1
            continue
        rows = zip(*([Fraction(int(v) if x.dtype.kind in "iu" else float(v)) for v in x] for x in inputs), strict=True)
        for lane, row in enumerate(rows):
            t = exact(formula, list(row))
            if t is not None and not found.guard[lane]:
                counts["lanes"] += 1
                judge(target, formula, types, found, lane, t, counts, errors)
    print(counts)
    assert counts["refused"] < FORMULAS / 2
    assert min(counts[name] for name in ("exact", "odd", "rest", "bounded", "single", "half")) > 200, counts
    ran(counts["lanes"], 2000)
    mean = sum(errors) / len(errors)
    print(f"the mean logarithm of errors is {mean:.4f}")
    if SOAK == 1 and target.name in LOGARITHMS:
        assert abs(mean - LOGARITHMS[target.name]) < 0.002, f"bounds have changed: the mean logarithm is {mean:.4f}"


@every_target
def test_an_integer_whose_number_is_nearly_one_is_undecided(target: Target) -> None:
    """e^x e^-x as INT32, which is 0 or 1."""
    nodes = (Node("stream", (), (0, F32)), Node("neg", (0,), None), Node("exp", (0,), None), Node("exp", (1,), None))
    product = (*nodes, Node("mul", (2, 3), None), Node("held", (4,), DataType.INT32))
    found = shown(target, normal_form(product), (F32,), [np.array([1.0, 2.0, 3.5, -0.7], np.float32)])
    assert found.guard.all()


def judge(
    target: Target,
    formula: NormalForm,
    types: tuple[DataType, ...],
    found: Shown,
    lane: int,
    t: Fraction,
    counts: dict[str, int],
    errors: list[float],
) -> None:
    x = number(target, formula, types)
    value, error = float(found.value[lane]), float(found.error[lane])
    told = f"{formula} of {types}: {t} ({float(t) if abs(t) < 10**300 else 'large'}) is {value!r} +- {error!r}; lane {lane}"
    k = x.known
    assert k.low <= t <= k.high, told
    if k.quantum is not None:
        assert (t / Fraction(2) ** k.quantum).denominator == 1, told
    if k.least is not None:
        assert t == 0 or abs(t) >= Fraction(2) ** k.least, told
    if x.exact:
        assert Fraction(value) == t, told
        n = abs(t.numerator)
        assert not n or n.bit_length() - ((n & -n).bit_length() - 1) <= k.digits, told
        counts["exact"] += 1
    elif math.isfinite(error) and not x.saturated:
        assert abs(Fraction(value) - t) <= Fraction(error), told
        counts["bounded"] += 1
        errors.append(math.log2(error) if error else 0.0)
    if x.odd is not None:
        odd = float(found.odd[lane])
        assert rounded_to_odd(odd, t), f"{told}; odd: {odd!r}"
        counts["odd"] += 1
    if x.rest is not None:
        assert Fraction(value) + Fraction(float(found.rest[lane])) == t, f"{told}; it lacks {found.rest[lane]!r}"
        counts["rest"] += 1
    if not found.single_open[lane]:
        assert float(found.single[lane]) == as_single(t), f"{told}; float32: {found.single[lane]!r}"
        counts["single"] += 1
    if not found.half_open[lane]:
        assert float(found.half[lane]) == as_half(t), f"{told}; float16: {found.half[lane]!r}"
        counts["half"] += 1


def rounded_to_odd(y: float, t: Fraction) -> bool:
    """Whether y is t, or the odd one of the two float64 around t."""
    if Fraction(y) == t:
        return True
    if abs(t) >= Fraction(FAR) or abs(t) <= 1 / Fraction(FAR):
        return True  # nothing is claimed
    beside = math.nextafter(y, math.inf if t > Fraction(y) else -math.inf)
    between = min(Fraction(y), Fraction(beside)) < t < max(Fraction(y), Fraction(beside))
    return between and int(np.float64(y).view(np.uint64)) & 1 == 1
