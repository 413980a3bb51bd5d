"""Sums that are computed in NumPy's integers, compared with the same sums in Python's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from anydml import DataType
from anydml.kernels import integers
from anydml.schema.expression import Sum, Tensor, each, exp, select
from anydml.schema.node import Expr, Variable
from anydml.schema.traversal import bound_by

RNG = np.random.default_rng(7)


def naive(e: Expr, place: Mapping[Variable, int], arrays: Mapping[str, Any]) -> int:
    """The value of a node, term by term."""
    if e.op == "variable":
        return place[e.data]
    if e.op == "constant":
        return int(e.data.value)
    if e.op == "reduce":
        bound = bound_by(e)
        places = product(*(range(v.size) for v in bound))
        return sum(naive(e.args[0], {**place, **dict(zip(bound, at, strict=True))}, arrays) for at in places)
    at = [naive(a, place, arrays) for a in e.args]
    if e.op == "read":
        return int(arrays[e.data[0].name][tuple(at)])
    operations: Mapping[str, Callable[..., int]] = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "neg": lambda x: -x,
        "position": lambda x: x,
    }
    return operations[e.op](*at)


def tensor(name: str, data_type: DataType, *sizes: int) -> tuple[Tensor, Any]:
    limits = np.iinfo(data_type.dtype)
    return Tensor(name, sizes, data_type), RNG.integers(limits.min, limits.max, sizes, data_type.dtype, endpoint=True)


def agrees(e: Expr, i: Sequence[Expr], arrays: Mapping[str, Any], at: Sequence[Sequence[int]] | None = None) -> None:
    variables = [x.data for x in i]
    found = integers.summed(e, variables, arrays)
    assert found is not None
    for place in product(*(range(v.size) for v in variables)) if at is None else at:
        assert found(*place) == naive(e, dict(zip(variables, place, strict=True)), arrays), place


def test_products_of_centred_matrices_and_batches() -> None:
    a, x = tensor("a", DataType.INT8, 2, 5, 7)
    z, centre = tensor("z", DataType.INT8, 2, 5, 1)
    b, y = tensor("b", DataType.UINT8, 2, 7, 3)
    g, m, n = i = each((2, 5, 3))
    (k,) = over_k = each((7,), "k")
    made = Sum(over_k, (a[g, m, k] - z[g, m, 0]) * (3 - b[g, k, n]))
    agrees(made, i, {"a": x, "b": y.swapaxes(1, 2).copy().swapaxes(1, 2), "z": centre})


def test_indices_that_are_calculated_diagonals_and_positions() -> None:
    t, x = tensor("t", DataType.INT16, 9, 9)
    i, j = ij = each((3, 4))
    k, m = km = each((3, 2), "km")
    agrees(Sum(km, t[2 * i + k, j - m + 1] * (k + 2 * j) - t[k, k] + -t[k, 8]), ij, {"t": x})
    k, m = km = each((9, 8), "km")
    agrees(Sum(km, t[m, k] * t[k, m]), (), {"t": x[:, ::-1]}, [()])


def test_what_is_too_much_at_once_is_computed_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    t, x = tensor("t", DataType.INT16, 6, 4, 11, 5)
    i, j = ij = each((6, 4))
    k, m = km = each((11, 5), "km")
    made = Sum(km, t[i, j, k, m] * (t[5 - i, j, k, m] + j))
    for room in (1, 5, 17, 55, 60, 220, 1 << 16):
        monkeypatch.setattr(integers, "AT_ONCE", room)
        agrees(made, ij, {"t": x})
        agrees(made, ij, {"t": x}, [(3, 1), (0, 0), (3, 2), (3, 1)])


def test_what_may_not_fit_or_is_no_such_sum_is_left() -> None:
    k = each((100,), "k")
    t, word = (Tensor("t", (100,), data_type) for data_type in (DataType.INT32, DataType.UINT64))
    f = Tensor("f", (100,), DataType.FLOAT32)

    def left(e: Expr) -> bool:
        return integers.summed(e, (), {}) is None

    assert not left(Sum(k, t[k]))
    assert left(Sum(k, t[k] * t[k]))  # up to 100 * 2^62
    assert left(Sum(k, word[k]))
    assert left(Sum(k, f[k]))
    assert left(Sum(k, exp(t[k])))
    assert left(Sum(k, t.or_else([k[0] + 1], 0)))
    assert left(Sum(k, t.skipped([k[0] + 1])))
    assert left(Sum(k, select(k[0] < 5, t[k], 0)))
    assert left(Sum(k, t[k], k[0] < 5))
    assert left(Sum(each((integers.FEW - 1,), "k"), 1))
