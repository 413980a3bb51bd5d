"""Answers of schemas at the very ends of ranges, where `<` and `<=` differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import anydml as dml
from anydml import DataType, FeatureLevel, TensorDesc, operators
from anydml.schema.expression import Max, Sum, Tensor, each, exp, log
from anydml.schema.formula import _Text
from anydml.schema.identities import log_of_powers
from anydml.schema.node import lift
from anydml.schema.symbol import Symbol
from anydml.schema.tensor_rules import four_bit_output_packed


def test_operators_of_5_1_have_their_pages_beside_those_of_later_levels() -> None:
    for operator in operators.every():
        assert ("windows/ai/" in operator.spec.page) == (operator.spec.since >= FeatureLevel.FL_5_1)


def test_the_stride_of_a_dimension_of_size_1_is_never_read() -> None:
    for strides, good in (((9, 1), True), ((9, 4), False)):
        assert four_bit_output_packed.predicate(TensorDesc(DataType.INT4, (1, 4), strides=strides)) is good


def test_a_sum_in_parentheses_only_inside_of_another_expression() -> None:
    text: Any = SimpleNamespace()
    assert [_Text._constant(text, lift(Symbol("A + B", 3)), outer) for outer in (0, 1)] == ["A + B", "(A + B)"]


def test_symbols_are_compared_by_their_values() -> None:
    three = Symbol("A.Sizes[0]", 3)
    assert [three <= n for n in (2, 3, 4)] == [False, True, True]


def test_a_logarithm_of_powers_has_no_condition() -> None:
    k = each((3,), "k")
    x = Tensor("x", (3,), DataType.FLOAT32)
    powers = exp(x[k] - Max(k, x[k]))
    assert log_of_powers(log(Sum(k, powers))) is not None
    assert log_of_powers(log(Sum(k, powers, where=x[k] < 1))) is None


def test_each_of_two_joined_tensors_has_its_first_element() -> None:
    parts = [np.arange(begin, end, dtype=np.float32) for begin, end in ((0, 2), (2, 4), (4, 5))]
    for device in (dml.Device("reference"), None):
        assert dml.join(parts, axis=0, device=device).tolist() == [0, 1, 2, 3, 4]
