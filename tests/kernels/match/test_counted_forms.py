"""Forms of expressions: counts that are products of sums."""

from __future__ import annotations

import pytest

from anydml.kernels.match.forms import counted
from anydml.schema.expression import Sum, both, each
from anydml.schema.node import Expr
from anydml.schema.traversal import free

K = each((4, 5), "kl")


@pytest.mark.parametrize(
    ("condition", "is_product"),
    [
        (K[0] < 2, True),
        (both(K[0] < 2, K[1] > 1), True),
        (both(K[0] < 3, both(K[0] > 1, K[1] > 1)), True),
        (K[0] < K[1], False),
        (both(K[0] < 2, K[0] + K[1] < 3), False),
    ],
)
def test_a_count_is_a_product_where_each_condition_is_of_one_variable(condition: Expr, is_product: bool) -> None:
    total = Sum(K, 1, where=condition)
    found = counted(total, free(total))
    assert (found is not None) == is_product
    if found is not None:
        assert found.op == "mul"
        assert [len(factor.data[1]) for factor in found.args] == [1, 1]
