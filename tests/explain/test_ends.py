"""Explanations of numbers at the very ends of their ranges, where `<` and `<=` differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from anydml.explain import causes_of_products, known, mistakes, weights
from anydml.explain.bounded import Number
from anydml.explain.bounded_places import Places
from anydml.explain.evaluation import Evaluation
from anydml.explain.formulas import unbiased
from anydml.schema.expression import Sum, Tensor, each
from anydml.tensor import DataType

ONE = np.ones(1)
X, Y = (Tensor(name, (1,), DataType.FLOAT32)[(0,)] for name in "xy")


def test_divisors_that_may_be_0_have_quotients_of_every_size() -> None:
    rounding: Any = SimpleNamespace(rounded=lambda value, low, high, units: Number(value, low, high))
    for low, high in ((-1, 0), (0, 1), (-1, 1)):
        with np.errstate(divide="ignore"):
            found = Evaluation._arithmetic(rounding, X / Y, Number(ONE, ONE, 2 * ONE), Number(ONE / 2, low * ONE, high * ONE))
        assert found.low.tolist() == [-np.inf]
        assert found.high.tolist() == [np.inf]


def test_numbers_whose_intervals_touch_may_be_equal() -> None:
    numbers = {X: Number(1.5 * ONE, ONE, 2 * ONE), Y: Number(2.5 * ONE, 2 * ONE, 3 * ONE)}
    places: Any = SimpleNamespace(number=numbers.__getitem__)
    for e in (X < Y, Y < X, X <= Y, Y <= X):
        assert not Places._truth(places, e)[1].any()


def test_a_variance_of_two_elements_may_be_unbiased() -> None:
    k = each((2,), "k")
    x, y = (Tensor(name, (2,), DataType.FLOAT32)[k] for name in "xy")
    squares = Sum(k, (x - y) ** 2)
    assert unbiased(squares / 2) is squares / 1
    assert unbiased(squares / 1) is None


def test_a_scale_of_one_element_is_that_of_every_column() -> None:
    assert causes_of_products._of_column(np.full((1, 1, 1), 7), 0, 3).tolist() == [[7]]
    assert causes_of_products._of_column(np.array([[[5, 6, 7]]]), 0, 1).tolist() == [[6]]


def test_a_sum_of_just_2_to_the_15_leaves_16_bits() -> None:
    zero = np.zeros((1, 1, 1), np.int8)
    low = np.full((1, 2, 1), -128, np.int8)
    given = {"a": low.swapaxes(1, 2), "b": low, "a_zero_point": zero, "b_zero_point": zero}
    assert known._accumulated_in_16_bits(given) is not None
    assert known._accumulated_in_16_bits({**given, "b": low // 2}) is None


def test_blocks_of_zeros_stay_zeros() -> None:
    assert not mistakes.quantised(np.zeros((2, 8), np.float32), 4).any()


def test_a_changed_weight_is_found_beside_columns_of_zeros() -> None:
    a, b = np.ones((1, 3, 2), np.float32), np.array([[[1, 0], [2, 0]]], np.float32)
    changed = b.copy()
    changed[0, 1, 0] = 2.5
    found = weights.of_floats(a, b, a @ b, a @ changed, 1.0)
    assert found is not None
    assert found[0].column == 0
