"""The stages of a block of sums, on every instruction set: the note that nothing was rounded; magnitudes; pairs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import hostile_data
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats.packed import doubled, magnitudes, tile
from anydml.kernels.undecided.state import COUNT
from every_kernel import SOAK, Ran, without_dot_products

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None, reason="nothing can be compiled"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
TARGETS = without_dot_products()
Array = NDArray[Any]
NAMES = [t.name for t in TARGETS]


class Block(NamedTuple):
    """Two tiles of rows and two panels of columns in the kernels' layout, with the memory that kernels write."""

    target: Target
    a: Array  # rows and terms
    b: Array  # terms and columns
    memory: dict[str, Array]

    @property
    def sums(self) -> Array:
        return self.memory["sums"]

    def number(self, at: int) -> float:
        """A number of the counter, as a float."""
        return float(self.memory["counter"][at // 8])

    def run(self, emit: Callable[..., str], names: tuple[str, ...], most: int = 1, key: tuple[bool, ...] = ()) -> None:
        rows, (terms, columns) = len(self.a) // 2, self.b.shape
        lanes = self.target.vector_bytes // 8
        sizes = {
            "a_tile": rows * terms * 8, "tiles": 2, "b_panel": columns // 2 * terms * 4, "panels": 2, "terms": terms,
            "sums_row": columns * 8, "most": most, "depth": 8, "elements": 2 * rows * columns, "ahead": 0,
            "factor": int(np.float64((terms + 8) * 2.0**-53).view(np.int64)),
        }  # fmt: skip
        places = {name: x.ctypes.data for name, x in self.memory.items()}
        values = np.array([(sizes | places)[name] for name in names], np.int64)
        code = engine.compiled(emit, self.target, rows, columns // 2 // lanes, *key)
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(values.ctypes.data)


def block(target: Target, a: Array, b: Array) -> Block:
    """Packed rows and columns, with norms that are rounded up."""
    rows, columns = len(a) // 2, b.shape[1] // 2
    made = {
        "a": a.astype(np.float64).reshape(2, rows, -1).swapaxes(1, 2).copy(),
        "b": b.reshape(-1, 2, columns).swapaxes(0, 1).copy(),
        "a_norms": np.sqrt((a.astype(np.float64) ** 2).sum(1)) * (1 + 2.0**-20),
        "b_norms": np.sqrt((b.astype(np.float64) ** 2).sum(0)) * (1 + 2.0**-20),
        "counter": np.zeros(8),
        "done": np.zeros(1),
        "wide": np.empty((8, columns)),
    }
    made["counter"][tile.BOUND // 8] = 1
    outputs = {"sums": (len(a), b.shape[1]), "rests": (len(a), b.shape[1]), "a_low": (len(a),), "b_low": (b.shape[1],)}
    return Block(target, a, b, made | {name: np.full(sizes, np.nan) for name, sizes in outputs.items()})


def sizes(target: Target, terms: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (2 * tile.height(target), terms), (terms, 2 * tile.width(target))


def drawn(target: Target, terms: int, kind: str, seed: int) -> Block:
    rng = np.random.default_rng(seed)
    return block(target, *(hostile_data.values("FLOAT32", size, rng, kind) for size in sizes(target, terms)))


def summed(made: Block) -> float:
    """Sum the block, with columns of float32 and with converted ones; return the factor of the bounds of its sums."""
    found = []
    for widened in (True, False):
        made.run(tile.sums, tile.ARGUMENTS.names, key=(widened,))
        found.append((made.number(tile.BOUND), made.sums.tobytes()))
    assert found[0] == found[1]
    return made.number(tile.BOUND)


# --- exact sums ---


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_exact_sums_are_known_as_such(target: Target) -> None:
    """Integers; terms that cancel their neighbours; one term; powers of two without common digits; and all of them again."""
    rng = np.random.default_rng(1)
    (m, k), (_, n) = sizes(target, 40)
    integers = [rng.integers(-4096, 4097, size).astype(np.float32) for size in ((m, k), (k, n))]
    a, b = (rng.standard_normal(size).astype(np.float32) for size in ((m, k), (k, n)))
    a[:, 1::2], b[1::2] = -a[:, ::2], b[::2]
    alone = rng.standard_normal((m, 1)).astype(np.float32), rng.standard_normal((1, n)).astype(np.float32)
    apart = np.zeros((m, 2), np.float32), np.array([[2.0**100] * n, [2.0**-100] * n], np.float32)
    apart[0][: m // 2, 0] = apart[0][m // 2 :, 1] = 1
    for factors in (integers, (a, b), alone, apart, integers):
        made = block(target, *factors)
        assert summed(made) == 0
        assert (made.sums == factors[0].astype(np.float64) @ factors[1].astype(np.float64)).all()


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_one_rounding_anywhere_is_noted(target: Target, ran: Ran) -> None:
    """In each sum of the block, at any of its terms; afterwards, the note is cleared."""
    (m, k), (_, n) = sizes(target, 12)
    rng, cases = np.random.default_rng(2), 0
    for row in range(m):
        for column in rng.permutation(n)[: 8 * SOAK]:
            a, b = np.ones((m, k), np.float32), np.zeros((k, n), np.float32)
            at = rng.permutation(k)[:2]
            a[:, at[1]] = 0
            a[row, at[1]] = 2.0**-30
            b[at, column] = 1, 2.0**-23
            made = block(target, a, b)
            assert summed(made) == 1, (row, column, at)
            made.memory["a"][...] = 1
            assert summed(made) == 0
            cases += 1
    ran(cases, 60)


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_sums_that_are_rounded_are_never_taken_for_exact(target: Target, ran: Ran) -> None:
    exact = cases = 0
    for kind in hostile_data.KINDS:
        for seed in range(6 * SOAK):
            made = drawn(target, (1, 2, 3, 17)[seed % 4], kind, seed)
            if not (np.isfinite(made.a).all() and np.isfinite(made.b).all()):
                continue
            cases += 1
            if summed(made) == 0:
                exact += 1
                rows, columns = fractions(made)
                assert all(dot(r, c) == Fraction(made.sums[i, j]) for i, r in enumerate(rows) for j, c in enumerate(columns))
    print(f"{exact} of {cases} blocks are exact")
    assert 5 < exact < cases
    ran(cases, 25)


def fractions(made: Block) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    rows, columns = ([[Fraction(float(x)) for x in line] for line in side] for side in (made.a, made.b.T))
    return rows, columns


def dot(xs: list[Fraction], ys: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(xs, ys, strict=True)), Fraction(0))


# --- magnitudes and pairs ---


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_magnitudes(target: Target, ran: Ran) -> None:
    compared = 0
    for kind in hostile_data.KINDS:
        made = drawn(target, 30, kind, 5)
        made.sums[...] = 1e300  # none of which cancels
        made.memory["counter"].view(np.int64)[COUNT] = 2
        made.run(magnitudes.sums, magnitudes.ARGUMENTS.names)
        assert made.memory["counter"].view(np.int64)[magnitudes.DENSE // 8] == 1
        wanted = np.abs(made.a.astype(np.float64)) @ np.abs(made.b.astype(np.float64))
        np.testing.assert_allclose(made.memory["rests"], wanted, rtol=1e-14)
        compared += wanted.size
    ran(compared, 300)


@pytest.mark.parametrize(("emit", "names"), [(m.sums, m.ARGUMENTS.names) for m in (magnitudes, doubled)])
def test_nothing_is_done_where_few_are_listed(emit: Callable[..., str], names: tuple[str, ...]) -> None:
    made = drawn(TARGETS[-1], 30, "ordinary", 5)
    made.memory["counter"].view(np.int64)[COUNT] = 1
    made.run(emit, names)
    assert np.isnan(made.sums).all()
    assert np.isnan(made.memory["rests"]).all()
    assert made.memory["counter"].view(np.int64)[magnitudes.DENSE // 8] == 0


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
@pytest.mark.parametrize("share", [0, 1])
def test_magnitudes_are_not_summed_where_most_of_what_is_listed_cancels(target: Target, share: int) -> None:
    """A quarter of the sums is listed, and share + 1 quarters of these cancel."""
    made = drawn(target, 30, "ordinary", 5)
    made.sums[...] = 1
    made.sums[:, ::4] = 0
    made.memory["counter"].view(np.int64)[COUNT] = made.sums.size * (1 + share) // 4 + share
    made.run(magnitudes.sums, magnitudes.ARGUMENTS.names)
    assert made.memory["counter"].view(np.int64)[magnitudes.DENSE // 8] == share
    assert np.isnan(made.memory["rests"]).any() == (not share)


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_pairs_are_within_their_bound_and_zeros_are_known(target: Target, ran: Ran) -> None:
    """With every kind of data, some zero rows and columns, and terms that cancel distant ones."""
    compared = zeros = exact = 0
    for case in range(8 * SOAK):
        kind, terms = [*hostile_data.KINDS, "far", "subnormal"][case % 8], (30, 7, 1)[case // 8 % 3]
        made = drawn(target, terms, kind if kind in hostile_data.KINDS else "ordinary", case)
        a, b = np.where(np.isfinite(made.a), made.a, 1), np.where(np.isfinite(made.b), made.b, 1)
        if kind == "far":
            a[:, terms // 2 : terms // 2 * 2], b[terms // 2 : terms // 2 * 2] = a[:, : terms // 2], -b[: terms // 2]
        if kind == "subnormal":
            a *= np.float32(2.0**-140)
        a[1], b[:, 2] = 0, 0
        made = block(target, a, b)
        made.memory["counter"].view(np.int64)[COUNT] = 2
        summed(made)
        made.memory["counter"][tile.BOUND // 8] = 1
        made.memory["b_norms"] *= -1  # as if some terms were outside
        made.run(doubled.sums, doubled.ARGUMENTS.names)
        rows, columns = fractions(made)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                total = dot(row, column)
                head, rest = made.sums[i, j], made.memory["rests"][i, j]
                off = abs(Fraction(head) + Fraction(rest) - total)
                low = made.memory["a_low"][i] * made.memory["b_low"][j]
                size = Fraction(made.memory["a_norms"][i]) * Fraction(-made.memory["b_norms"][j])
                factor = Fraction(terms + 8) / 2**53
                if not size or 17 * size * factor <= Fraction(2) ** 53 * Fraction(min(low, 1e300)):
                    assert off == 0, (kind, i, j)
                    exact += 1
                    zeros += head == 0
                assert off <= 8 * factor**2 * size, (kind, i, j)
                negative = head == 0 and not total and np.signbit(head)
                assert negative == np.signbit(made.a[i] * made.b[:, j]).all() or total, (kind, i, j)
                assert head + rest == head
                compared += 1
    print(f"{compared} pairs, {exact} of them exact, {zeros} of these zero")
    assert zeros > compared / 10
    assert exact > compared / 3
    ran(compared, 500)


@pytest.mark.parametrize("listed", [1, 17])
def test_pairs_of_exact_sums_are_the_sums(listed: int) -> None:
    """Although more sums are listed than would be allowed if they were not exact."""
    made = drawn(TARGETS[-1], 30, "small", 5)
    assert summed(made) == 0
    before, words = made.sums.copy(), made.memory["counter"].view(np.int64)
    words[COUNT] = listed
    made.run(magnitudes.sums, magnitudes.ARGUMENTS.names)
    assert words[magnitudes.DENSE // 8] == 0
    made.run(doubled.sums, doubled.ARGUMENTS.names, most=16 * 16)
    assert words[magnitudes.DENSE // 8] == (listed == 17)
    assert (made.sums == before).all()
    if listed == 17:
        assert (made.memory["rests"] == 0).all()
        assert np.isinf(made.memory["a_low"]).all()
        assert np.isinf(made.memory["b_low"]).all()


def test_least_digits() -> None:
    """Powers of two that divide all elements of a row and of a column; infinity for zeros only."""
    target = TARGETS[-1]
    made = drawn(target, 60, "wide", 3)
    made.a[0], made.b[:, 0], made.a[1, 5] = 0, 0, 2.0**-149
    made = block(target, made.a, made.b)
    made.memory["counter"].view(np.int64)[COUNT] = 2
    made.run(doubled.sums, doubled.ARGUMENTS.names)
    for lines, lows in ((made.a, made.memory["a_low"]), (made.b.T, made.memory["b_low"])):
        assert np.isinf(lows[0])
        assert np.isfinite(lows[1:]).all()
        for line, low in zip(lines[1:], lows[1:], strict=True):
            assert np.frexp(low)[0] == 0.5
            assert all((Fraction(float(x)) / Fraction(low)).denominator == 1 for x in line)
