"""Scores of attention's second stage: heads, tails and bounds of their errors, of the function alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml.kernels.attention import finer_sums
from anydml.kernels.attention.function import Function
from anydml.kernels.attention.key import AttentionKey
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine, llvm, targets
from anydml.kernels.code.emit import module
from anydml.kernels.code.targets import Target

# the function is called as machine code, which needs llvmlite: the package works without it
pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

Array = NDArray[Any]
KEY = AttentionKey(dml.DataType.FLOAT32, ("query", "key_after", "value_after"), "", seen=False)
TERMS = 64


def emitted(target: Target) -> str:
    """A kernel that calls the function with the first query."""
    sums = finer_sums.sums_of_products(target, KEY)
    main = Function(target, KEY, "kernel")
    main.call_of("precise_sums", f"ptr {main.argument('query_rows')}", f"ptr {main.argument('query_norms')}")
    declared = dict.fromkeys([*sums.declared, *main.declared])
    return module([*declared, sums.text(), main.entry()])


def summed(target: Target, query: Array, keys: Array) -> list[Array]:
    """Heads, tails and bounds of the products of a query with all keys, which are columns of a panel."""
    x, y = query.astype(np.float64), keys.astype(np.float64)
    found = [np.full(keys.shape[1], np.nan) for _ in range(3)]
    norms = np.sqrt((y * y).sum(0)) * (1 + 2.0**-40)
    norm = np.sqrt([(x * x).sum()]) * (1 + 2.0**-40)
    memory = dict(zip(("heads", "tails", "losses"), found, strict=True))
    memory |= {"query_rows": x, "query_norms": norm, "key_norms": norms, "panels": y}
    numbers = {name: array.ctypes.data for name, array in memory.items()}
    numbers |= {"key_row": 8 * keys.shape[1], "head": len(query), "head_row": 8 * len(query)}
    arguments = np.array([[numbers.get(name, 0) for name in KEY.signature.names]], np.int64)
    prepared([table(engine.compiled(emitted, target), arguments)], target, [x, y, norms, norm, *found])()
    assert not np.isnan(found).any()
    return [*found, norms * norm]


def drawn(target: Target, *, cancel: bool) -> tuple[Array, Array]:
    """A query and keys; with `cancel`, each product is there with either sign, so that all is lost but the bound."""
    width = Function(target, KEY, "").across * target.vector_bytes // 8
    rng = np.random.default_rng(3)
    x = (rng.uniform(0.5, 1, TERMS) * 2.0 ** rng.integers(-40, 1, TERMS)).astype(np.float32)
    y = (rng.uniform(0.5, 1, (TERMS, width)) * 2.0 ** rng.integers(-40, 1, (TERMS, width))).astype(np.float32)
    if cancel:
        half = TERMS // 2
        x[half:], y[half:] = x[:half][::-1], -y[:half][::-1]
    return x, y


@pytest.mark.parametrize("target", targets.targets(), ids=lambda target: target.name)
@pytest.mark.parametrize("cancel", [False, True])
def test_sums_are_within_their_bounds(target: Target, cancel: bool) -> None:
    x, y = drawn(target, cancel=cancel)
    heads, tails, losses, norms = summed(target, x, y)
    for n, column in enumerate(y.T):
        exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, column, strict=True))
        assert abs(Fraction(heads[n]) + Fraction(tails[n]) - exact) <= Fraction(losses[n])
    if cancel:  # nothing else is claimed: 64 of 2^-52 of 64 of 2^-46 of a power of two for each of 64 terms
        assert (losses > norms * 2.0**-133).all()
        assert (losses < norms * 2.0**-131.9).all()
