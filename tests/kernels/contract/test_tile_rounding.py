"""The epilogues of the compiled tile, with sums and scales for which estimates in float32 have the largest errors.

The proof is docs/decisions/0005-exact-rounding-in-the-tile.md. Here the machine code that rounds is run by itself: A is zero,
and the sums are given as terms of columns, so that they can be any int32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import oracle
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue import records as matmul_records
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.tile import MULTIPLY, TileKey, column_bytes, multiply, panel_columns

Array = NDArray[Any]
pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="nothing can be compiled")
LARGEST = 65025 * 33025
HEIGHTS = (1, 3, 4)


def run(
    target: Target, kind: TileKey, height: int, q: Array, a_scale: Array, b_scale: Array, y_scale: Array, zero_point: int
) -> tuple[Array, float, int]:
    """The outputs of `height` rows with the same sums q, with a_scale and y_scale by row; then the modes that were chosen."""
    columns, dot = panel_columns(target), dot_of(target)
    panels, lanes = len(q) // columns, columns // dot.vectors
    records, modes = np.zeros(height * ROW, np.uint8), np.zeros(2, np.uint32)
    zero_points = np.full(1, zero_point & 0xFF, np.uint8)
    bound = np.nextafter(np.float32(max(1, int(np.abs(q.astype(np.int64)).max()))), np.float32(np.inf))
    values: dict[str, Any] = {
        "m": height, "a_zero_point": np.zeros(1, np.uint8), "a_zero_point_step": 0, "rows": records, "n": len(q),
        "modes": modes, "bound": int(bound.view(np.uint32)), "a_scale": a_scale, "a_scale_step": 4, "y_scale": y_scale,
        "y_scale_step": 4, "b_scale": b_scale, "b_scale_step": 4, "y_zero_point": zero_points, "y_zero_point_step": 0,
        "bias": zero_points, "bias_step": 0, "room": 0,
    }  # fmt: skip
    _call(
        target,
        engine.compiled(matmul_records.parameters, target, kind.a_signed, kind.output),
        matmul_records.PARAMETERS.names,
        values,
    )
    cols = np.zeros((panels, column_bytes(target) // 4), np.uint32)
    cols[:, :columns] = q.astype(np.int32).view(np.uint32).reshape(panels, columns)
    cols[:, dot.vectors * lanes : 2 * dot.vectors * lanes] = b_scale.view(np.uint32).reshape(panels, columns)
    output = np.zeros((height, len(q)), np.int8 if kind.output == "i8" else np.uint8)
    values = {
        "a": np.zeros(64 * height, np.uint8), "a_row": 4, "b": np.zeros(4 * columns, np.uint8), "b_panel": 0, "c": output,
        "c_row": len(q), "groups": 1, "tiles": 1, "block": 1, "panels": panels, "rows": records, "columns": cols,
        "modes": modes, "last": len(q) - columns,
    }  # fmt: skip
    _call(target, engine.compiled(multiply, target, kind, height), MULTIPLY.names, values)
    return output, float(modes[:1].view(np.float32)[0]), int(modes[1])


def _call(target: Target, code: engine.Code, names: tuple[str, ...], values: dict[str, Any]) -> None:
    numbers = [x.ctypes.data if isinstance(x, np.ndarray) else x for x in map(values.__getitem__, names)]
    assert not prepared([table(code, np.array([numbers], np.int64))], target, (values,))()


def expected(q: Array, a: Array, b: Array, y: Array, zero_point: int, output: np.dtype[Any]) -> Array:
    lo, hi = np.iinfo(output).min, np.iinfo(output).max
    rows: list[list[int]] = []
    for a_bits, y_bits in zip(a.view(np.uint32).tolist(), y.view(np.uint32).tolist(), strict=True):
        steps = zip(q.tolist(), b.view(np.uint32).tolist(), strict=True)
        rows.append([oracle.slice_and_matmul._rounded_quotient(s, a_bits, b_bits, y_bits) + zero_point for s, b_bits in steps])
    return np.array([[min(max(x, lo), hi) for x in row] for row in rows], output)


def sums(rng: np.random.Generator, count: int, low: float = 0, high: float = 31) -> Array:
    """Sums of magnitudes from 2^low to 2^high; many of the large ones are ties of float32, or close to that."""
    q = np.exp2(rng.uniform(low, high, count)).astype(np.int64)
    if high > 24:
        exponent = rng.integers(24, int(high), count)
        fraction = rng.integers(0, 1 << 23, count) >> rng.integers(0, 24, count)
        rough = (1 << exponent) + (fraction << exponent - 23) + (1 << exponent - 24)
        q = np.where(rng.random(count) < 0.5, q, rough + rng.integers(-1, 2, count))
    signed: Array = np.clip(q, 1, LARGEST) * rng.choice((-1, 1), count)
    return signed


def awkward(rng: np.random.Generator) -> tuple[Array, Array]:
    """An AScale and an OutputScale whose quotient has nearly the largest rounding error."""
    a, y = ((np.exp2(rng.uniform(-20, 20, 500)) * rng.choice((-1, 1), 500)).astype(np.float32) for _ in range(2))
    exact = a.astype(np.float64) / y
    worst = np.abs((a / y).astype(np.float64) / exact - 1).argmax()
    return a[[worst]], y[[worst]]


def near_halves(rng: np.random.Generator, q: Array, a: Array, y: Array, every: int = 1) -> Array:
    """BScales with which the quotients of the first row are as close to half-integers as float32 allows.

    every: one in this many; the others are far from half-integers, so that the machine code has no other reason to decide
    exactly.
    """
    wanted = np.where(rng.random(len(q)) < 0.7, 258 - rng.integers(1, 20, len(q)), rng.integers(1, 258, len(q))) - 0.5
    wanted[(np.arange(len(q)) + rng.integers(0, every)) % every != 0] += 0.5
    b = (wanted * rng.choice((-1, 1), len(q)) * float(y[0]) / (q * float(a[0]))).astype(np.float32)
    shifted: Array = (b.view(np.uint32) + rng.integers(-2, 3, len(q))).astype(np.uint32).view(np.float32)
    return shifted


CASES = [(target, output) for target in targets() for output in ("u8", "i8")]
parametrized = pytest.mark.parametrize(("target", "output"), CASES, ids=[f"{t.name} {o}" for t, o in CASES])


def check(
    target: Target, output: str, height: int, q: Array, a: Array, b: Array, y: Array, zero_point: int
) -> tuple[float, int]:
    found, threshold, rule = run(target, TileKey(output == "u8", output != "u8", output, False), height, q, a, b, y, zero_point)
    wanted = expected(q, a, b, y, zero_point, found.dtype)
    if wrong := np.argwhere(found != wanted).tolist():
        m, n = wrong[0]
        details = [x.item().hex() if isinstance(x, np.float32) else x for x in (a[m], b[n], y[m])]
        raise AssertionError(f"{len(wrong)} wrong, one at q = {q[n]}, scales {details}: {found[m, n]}, not {wanted[m, n]}")
    return threshold, rule


@parametrized
def test_the_estimate_knows_what_it_does_not_know(target: Target, output: str) -> None:
    rng = np.random.default_rng(1)
    for turn in range(12):
        height = HEIGHTS[turn % 3]
        low = rng.choice((0, 8, 23))
        q = sums(rng, 32 * panel_columns(target), low, low + 8)
        a, y = (scale.repeat(height) for scale in awkward(rng))
        b = near_halves(rng, q, a, y, (1, panel_columns(target))[turn % 4 > 0])
        zero_point = int(rng.choice((-128, -1, 0, 127) if output == "i8" else (0, 1, 128, 255)))
        threshold, rule = check(target, output, height, q, a, b, y, zero_point)
        assert 2.0**-14 <= 0.5 - threshold <= 2.0**-13, "the distance of the proof, and no more"
        assert not rule


@parametrized
def test_powers_of_two_need_no_second_look(target: Target, output: str) -> None:
    rng = np.random.default_rng(2)
    seen = set()
    for turn in range(36):
        height = HEIGHTS[turn % 3]
        count = 4 * panel_columns(target)
        q = sums(rng, count)
        if turn % 2:
            q = q % (1 << 24) - (1 << 23)
        a = np.exp2(rng.integers(-2, 1, height)).astype(np.float32)
        y = -np.exp2(rng.integers(0, 3, height)).astype(np.float32)
        b = np.exp2(rng.integers(-11 if turn % 4 < 2 else -25, 0, count)).astype(np.float32)
        threshold, rule = check(target, output, height, q, a, b, y, int(rng.integers(0, 128)))
        assert not rule
        seen.add(threshold)
    assert 2.0 in seen
    assert len(seen) == 2


@parametrized
def test_the_rule_decides_at_the_ends_of_float32(target: Target, output: str) -> None:
    rng = np.random.default_rng(3)
    for turn in range(24):
        height = HEIGHTS[turn % 3]
        q = sums(rng, 4 * panel_columns(target))
        ends = (-149, -126, 127) if turn % 2 else (-70, 75)
        a = np.ldexp(rng.uniform(1, 2, 1).astype(np.float32), rng.choice(ends)).repeat(height)
        y = a * np.float32(2.0 ** rng.integers(0, 3)) if np.all(np.abs(a) < 2**100) else a
        if turn % 4 < 2:
            y = np.ldexp(rng.uniform(1, 2, 1).astype(np.float32), -ends[-1]).repeat(height)
        with np.errstate(all="ignore"):
            b = near_halves(rng, q, a.astype(np.float64), y.astype(np.float64))
        b = np.where((b != 0) & np.isfinite(b), b, np.float32(2.0**-149)).astype(np.float32)
        check(target, output, height, q, a, b, y, int(rng.integers(0, 128)))


@parametrized
def test_ties_go_to_the_even_side(target: Target, output: str) -> None:
    """Every half-integer in range, by both ways of deciding it."""
    q = np.resize(np.arange(-519, 520, 2) * 3 * 5, 1024)
    one = np.ones(len(q), np.float32)
    for at, zero_point in ((1.0, 0), (2.0**70, 3), (2.0**-140, 100)):
        a = np.full(4, 7 * at, np.float32)
        y = np.full(4, 7 * 30 * at, np.float32)
        check(target, output, 4, q, a, one, y, zero_point)
        check(target, output, 4, q, a, -one, y, zero_point)
