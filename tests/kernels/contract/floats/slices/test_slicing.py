"""The kernels of slices one by one: bytes, sizes, sums and what is left out, beside exact integers."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from fractions import Fraction
from math import frexp, sqrt
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from anydml.kernels.call.signature import Signature
from anydml.kernels.code import engine
from anydml.kernels.contract.floats.epilogue import EpilogueKey, with_streams
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.floats.packed.at_once import DONE
from anydml.kernels.contract.floats.slices import left_out, products, slicing
from anydml.kernels.contract.floats.slices.plan import ONE
from anydml.kernels.match.normal_form import Node, normal_form
from anydml.kernels.undecided.state import COUNT
from anydml.tensor import DataType
from slices_support import ROW, needed, tile_registers

pytestmark = [*needed, pytest.mark.usefixtures("tile_registers")]
assert tile_registers  # a fixture
F32, F64 = DataType.FLOAT32, DataType.FLOAT64
PLAIN = EpilogueKey(
    Stored(normal_form([Node("stream", (), (0, F64)), Node("same", (0,), None)]), (F64, F32), 0),
    ("contiguous",),
    False,
    mixed=True,
)
HEIGHT, TILES, ACROSS, PANELS = 7, 3, 3, 2  # 21 rows, in tiles of 7, and 48 columns, in panels of 24
Array = NDArray[Any]


class Sliced(NamedTuple):
    """The bytes and numbers that a kernel stores for rows or columns."""

    bytes: Array
    sizes: Array
    nearer: Array
    scales: Array
    middles: Array


def called(code: engine.Code, signature: Signature, values: Mapping[str, Any]) -> None:
    numbers = {k: x.ctypes.data if isinstance(x, np.ndarray) else x for k, x in values.items()}
    arguments = np.array([numbers[name] for name in signature.names], np.int64)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(arguments.ctypes.data)


def drawn(kind: str, terms: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(terms)
    a, b = (rng.standard_normal((n, terms)) for n in (HEIGHT * TILES, 24 * PANELS))
    if kind == "wide":
        a, b = (x * 2.0 ** rng.integers(-40, 40, x.shape) for x in (a, b))
    elif kind == "subnormal":
        a, b = a * 2.0**-140, np.where(b > 1, 0, b)
    return a.astype(np.float32), b.astype(np.float32)


def sliced(x: Array, *, rows: bool) -> Sliced:
    count, terms = x.shape
    steps = -(-terms // slicing.DEPTH)
    numbers = [np.zeros(-(-count // 16) * 16) for _ in range(4)]
    into = np.zeros((-(-count // 16), steps, 5, 1024), np.uint8)
    norms = np.zeros(64)
    norms[:count] = np.sqrt((x.astype(np.float64) ** 2).sum(1)) * (1 + 2.0**-40)
    if rows:
        packed = np.ascontiguousarray(x.astype(np.float64).reshape(TILES, HEIGHT, terms).transpose(0, 2, 1))
        code, groups = engine.compiled(slicing.rows, ROW, HEIGHT), TILES
    else:
        packed = np.ascontiguousarray(x.reshape(PANELS, 24, terms).transpose(0, 2, 1))
        code, groups = engine.compiled(slicing.columns, ROW, ACROSS), PANELS * ACROSS
        norms[1] *= -1
    given = {"from": np.append(packed, np.zeros(16, packed.dtype)), "packed": packed[0].nbytes, "count": groups, "terms": terms}
    names = ("sizes", "nearer", "scales", "middles")
    given |= {"into": into, "least": products.least(terms), "norms": norms, **dict(zip(names, numbers, strict=True))}
    called(code, slicing.ARGUMENTS, given)
    return Sliced(into, *numbers)


def integers(s: Sliced, count: int, *, rows: bool) -> Array:
    """The integers of 40 bits, from their bytes, and the bytes: by row or column, term and byte."""
    groups, steps, _, _ = s.bytes.shape
    if rows:
        found = s.bytes.reshape(groups, steps, 5, 16, 64).transpose(0, 3, 1, 4, 2)
    else:
        found = s.bytes.reshape(groups, steps, 5, 16, 16, 4).transpose(0, 4, 1, 3, 5, 2)
    made: Array = found.reshape(groups * 16, steps * 64, 5)[:count].astype(np.int64)
    return made


@pytest.mark.parametrize("terms", [1, 64, 130, 600])
@pytest.mark.parametrize("kind", ["normal", "wide", "subnormal"])
@pytest.mark.parametrize("rows", [True, False])
def test_bytes_and_sizes(rows: bool, kind: str, terms: int) -> None:
    """Bytes are those of the nearest integers; sizes and middles are those of the documented formula."""
    x = drawn(kind, terms)[not rows]
    found = sliced(x, rows=rows)
    digits = integers(found, len(x), rows=rows)
    assert not digits[:, terms:].any()
    least = sqrt((-(-terms // 512) + 1.25) * 2.0**-53)
    for r, line in enumerate(x.astype(np.float64)):
        exponent = frexp(float(np.abs(line).max()))[1] if line.any() else -149  # elements are below its power of two
        assert found.scales[r] == 2.0 ** (exponent - 39)
        exact = np.ldexp(line, 39 - exponent)  # without a rounding
        wanted = np.rint(exact).astype(np.int64).tolist()
        signed = digits[r, :terms] @ [1 << 32, 1 << 24, 1 << 16, 1 << 8, 1]
        assert [v - (1 << 40) * (v >> 39) for v in signed.tolist()] == wanted
        lost = sqrt(((exact - np.rint(exact)) ** 2).sum()) * 2.0 ** (exponent - 39)
        lower, lowest = digits[r, :terms, 3], digits[r, :terms, 4].sum()
        root, norm = least * sqrt(terms), sqrt((line**2).sum())
        size = max(2.0**exponent * (2.0**-31 * sqrt(((lower - 128) ** 2).sum()) + root), 2.0**-22 * norm)
        size += 2.0**exponent * 2.0**-54 * lowest / root + 2.0**22 * lost
        nearer = max(2.0**exponent * root, 2.0**-24 * norm) + 2.0**exponent * 2.0**-62 * lowest / root + 2.0**24 * lost
        for have, want in ((found.sizes[r], size), (found.nearer[r], nearer)):
            assert want <= abs(have) <= want * (1 + 2.0**-16)
            assert (have < 0) == (not rows and r == 1)
        assert found.middles[r] == 2.0**16 * (128 * lower.sum() - (128**2 * terms if rows else 0))


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_rows_that_are_not_finite(special: float) -> None:
    for rows in (True, False):
        x = drawn("normal", 70)[not rows]
        x[3, 69] = special
        found = sliced(x, rows=rows)
        assert np.isinf(found.sizes[3])
        assert np.isinf(found.nearer[3])
        assert np.isnan(found.scales[3])
        assert np.isfinite(found.sizes[[2, 4]]).all()


def summed(a: Array, b: Array) -> tuple[Array, Sliced, Sliced, dict[str, Any]]:
    """The sums that the kernel stores, and the arguments of kernels for all of them."""
    left, right = sliced(a, rows=True), sliced(b, rows=False)
    sums = np.zeros((len(a), 48))
    values: dict[str, Any] = {"rows": len(a), "vectors": 6, "terms": a.shape[1], "sums": sums, "sums_row": 48 * 8}
    for side, s in (("a", left), ("b", right)):
        values |= {side: s.bytes, f"{side}_scales": s.scales, f"{side}_middles": s.middles, f"{side}_nearer": s.nearer}
    called(engine.compiled(products.sums, ROW), products.ARGUMENTS, {**values, "off": np.zeros(1, np.int64)})
    return sums, left, right, values


@pytest.mark.parametrize("terms", [3, 64, 130, 513, 1100])
@pytest.mark.parametrize("kind", ["normal", "wide", "subnormal"])
def test_sums_are_within_their_bounds(kind: str, terms: int) -> None:
    """With the products that are left out, within narrower ones."""
    a, b = drawn(kind, terms)
    sums, left, right, _ = summed(a, b)
    x, y = integers(left, len(a), rows=True)[:, :terms], integers(right, 48, rows=False)[:, :terms]
    exact_a, exact_b = (np.array([[int(float(v) * 2.0**150) for v in line] for line in m], object) for m in (a, b))
    for r in range(0, len(a), 4):
        for c in range(48):
            exact = Fraction(int(exact_a[r] @ exact_b[c])) / 2**300
            assert abs(Fraction(sums[r, c]) - exact) <= left.sizes[r] * abs(right.sizes[c])
            missing = sum(int(x[r, :, i] @ y[c, :, j]) for i, j in ((2, 4), (3, 3), (4, 2)))
            rest = Fraction(2**16 * missing) - Fraction(left.middles[r]) - Fraction(right.middles[c])
            closer = Fraction(sums[r, c]) + rest * Fraction(left.scales[r]) * Fraction(right.scales[c])
            assert abs(closer - exact) <= left.nearer[r] * abs(right.nearer[c])


def test_listed_elements_with_what_was_left_out() -> None:
    """All elements are listed; those stay that round differently at both ends of their bounds, which are made wide here."""
    a, b = drawn("normal", 600)
    sums, _, _, values = summed(a, b)
    bounds = np.full(32, 2.0**-12), np.where(np.arange(48) % 2, 2.0**-11, -(2.0**-10))
    rows, columns = np.divmod(np.arange(sums.size), 48)
    listed, counter, output = (rows << 32) + columns, np.zeros(64, np.int64), np.zeros((len(a), 48), np.float32)
    values |= {
        "a_nearer": bounds[0], "b_nearer": bounds[1], "factor": ONE, "list": listed, "counter": counter,
        "first": 0, "f1": 1, "f2": 48, "p2": output, "r2": 48 * 4, "z2": 0, "y2": 0, "s2": 4,
    }  # fmt: skip
    code, signature = engine.compiled(left_out.decided, ROW, PLAIN), with_streams(left_out.ARGUMENTS, 1)
    called(code, signature, values)
    assert not output.any()  # unless the block is done, nothing is decided
    counter[DONE // 8], counter[COUNT] = 1, sums.size
    called(code, signature, values)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    error = np.abs(bounds[0][: len(a), None] * bounds[1])
    sure = (exact - 1.001 * error).astype(np.float32) == (exact + 1.001 * error).astype(np.float32)
    unsure = (exact - 0.999 * error).astype(np.float32) != (exact + 0.999 * error).astype(np.float32)
    open_ = np.zeros(sums.shape, bool)
    left = listed[: counter[COUNT]]
    open_[left >> 32, left & 0xFFFFFFFF] = True
    assert (open_ <= ~sure).all()
    assert (unsure <= open_).all()
    assert 100 < open_.sum() < 900
    assert (output[~open_] == exact.astype(np.float32)[~open_]).all()


def test_no_column_behind_the_last_vector_is_stored() -> None:
    a, b = drawn("normal", 70)
    sums, *_, values = summed(a, b)
    few = np.full(sums.shape, 7.0)
    called(
        engine.compiled(products.sums, ROW),
        products.ARGUMENTS,
        {**values, "sums": few, "vectors": 5, "off": np.zeros(1, np.int64)},
    )
    assert (few[:, :40] == sums[:, :40]).all()
    assert (few[:, 40:] == 7).all()


@pytest.mark.parametrize(("listed", "off", "done"), [(0, 0, 1), (5, 0, 1), (6, 0, 0), (0, 1, 0)])
def test_slices_are_not_used_after_a_block_with_too_many_listed_elements(listed: int, off: int, done: int) -> None:
    counter, flag = np.zeros(64, np.int64), np.array([off])
    counter[COUNT] = listed
    values = {"list": np.zeros(64, np.int64), "counter": counter, "off": flag, "most": 5}
    called(engine.compiled(products.enough, ROW), products.ENOUGH, values)
    assert counter[DONE // 8] == done
    assert flag[0] == 1 - done
