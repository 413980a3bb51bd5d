"""Powers of float32 in pairs: the decided ones are MPFR's power rounded once, and of usual data nearly all are decided."""

from __future__ import annotations

import ctypes
from typing import Any

import gmpy2
import numpy as np
import pytest
from numpy.typing import NDArray

from anydml import DataType, Device, TensorDesc, operators
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body
from anydml.kernels.elementwise import emit
from anydml.kernels.elementwise.key import MapKey, lanes_in_pairs
from anydml.kernels.elementwise.streams import CONTIGUOUS
from anydml.kernels.match.normal_form import Node, normal_form
from anydml.kernels.numbers.functions import paired
from anydml.kernels.numbers.functions.paired_powers import Powers
from every_kernel import without_dot_products

F32 = DataType.FLOAT32
POW = normal_form((Node("stream", (), (0, F32)), Node("stream", (), (1, F32)), Node("pow", (0, 1), None)))
SERVED = [t for t in without_dot_products() if paired.serves(Body(t))]
NEAREST = gmpy2.context(precision=24)
COUNT = 4096  # the number of elements of each kind
Floats = NDArray[np.float32]


def kinds() -> dict[str, tuple[Floats, Floats]]:
    random = np.random.default_rng(3)

    def normal() -> NDArray[np.float64]:
        return random.standard_normal(COUNT)

    made = {
        "usual": (np.exp(normal()), normal()),
        "beside one": (1 + normal() * 2.0 ** -random.integers(1, 22, COUNT), normal() * 2.0 ** random.integers(0, 22, COUNT)),
        # close to the borders of the table's cells
        "borders": (
            (np.arange(COUNT) % 64 + 1) / 64 * (1 + random.integers(-3, 4, COUNT) * 2.0**-24),
            normal() * 2.0 ** random.integers(-9, 6, COUNT),
        ),
        "exact": (random.integers(1, 40, COUNT) / 8, random.integers(-40, 40, COUNT) / 4),
        "any": (
            random.integers(0, 1 << 32, COUNT, dtype=np.uint32).view(np.float32),
            random.integers(0, 1 << 32, COUNT, dtype=np.uint32).view(np.float32),
        ),
        "negative": (-np.exp(normal()), random.integers(-9, 9, COUNT) / random.choice([1, 1, 1, 2], COUNT)),
        "large exponents": (-1 - normal() * 2.0**-20, 2.0 ** random.integers(20, 27, COUNT) + random.integers(0, 3, COUNT)),
        "infinite": (np.where(random.integers(0, 2, COUNT), np.inf, np.exp(normal())), normal() * 0.3),
        "subnormal": (2.0 ** random.uniform(-149, -126, COUNT), normal() * 0.3),
    }
    with np.errstate(all="ignore"):
        return {name: (x.astype(np.float32), y.astype(np.float32)) for name, (x, y) in made.items()}


def decided(target: Target, x: Floats, y: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The elements that pairs store, and the lanes in which they are decided."""
    layouts = (CONTIGUOUS,) * 3
    key = MapKey(POW, False, False, (F32,) * 3, layouts, 0, lanes_in_pairs(target), False, ("paired",), True)
    code = engine.compiled(emit.emitted, target, key)
    state, entries, out = np.zeros(8, np.int64), np.empty((x.size + 64, 3), np.int64), np.empty_like(x)
    addresses = [a.ctypes.data for a in (x, y, out)]
    numbers = np.array([state.ctypes.data, entries.ctypes.data, x.size, 0, 1, x.size, *addresses, 4, 4, 4], np.int64)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(numbers.ctypes.data)
    sure = np.ones(x.size, np.bool_)
    sure[(entries[: int(state[2]), 0] - out.ctypes.data) // 4] = False
    return out, sure


def wrong(target: Target, x: Floats, y: Floats) -> tuple[int, int]:
    """The number of decided powers, and the number of those that are not the nearest float32."""
    out, sure = decided(target, x, y)
    with NEAREST:
        exact = [float(gmpy2.mpfr(float(a)) ** gmpy2.mpfr(float(b))) for a, b in zip(x[sure], y[sure], strict=True)]
    return int(sure.sum()), int((out[sure] != np.array(exact)).sum())


@pytest.mark.parametrize("target", SERVED, ids=lambda t: t.name)
@pytest.mark.parametrize("kind", kinds())
def test_decided_powers_are_the_nearest_float32(kind: str, target: Target) -> None:
    count, bad = wrong(target, *kinds()[kind])
    assert bad == 0
    least = {"usual": 0.999, "any": 0.02}.get(kind, 0.2)
    if kind == "subnormal" and "avx512f" not in target.features:  # bases are read as float32
        least = -1
    assert count > least * COUNT


@pytest.mark.usefixtures("own_code")
@pytest.mark.parametrize("target", [*SERVED[:1], *SERVED[-1:]], ids=lambda t: t.name)
def test_powers_without_a_margin_are_found_out(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Powers, "margin", 0.0)
    assert wrong(target, *kinds()["exact"])[1]


@pytest.mark.parametrize("kind", kinds())
def test_the_operator_gives_the_nearest_float32(kind: str) -> None:
    x, y = (a[:600].copy() for a in kinds()[kind])
    finite = (x != 0) & np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    usable = (x > 0) | (np.floor(y) == y)
    x, y = x[usable], y[usable]
    operator: Any = operators.find("ELEMENT_WISE_POW")
    t = TensorDesc(F32, (x.size,))
    made = Device("cpu").compile(operator(input_tensor=t, exponent_tensor=t, output_tensor=t))
    assert made.kernel_name == "elementwise:compiled"
    out = np.empty_like(x)
    made.bind(input_tensor=x, exponent_tensor=y, output_tensor=out).execute()
    context = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True)
    with context:
        exact = [float(gmpy2.mpfr(float(a)) ** gmpy2.mpfr(float(b))) for a, b in zip(x, y, strict=True)]
    assert out.tolist() == exact
