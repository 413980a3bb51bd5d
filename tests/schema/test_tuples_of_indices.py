"""Tuples of indices whose results have more dimensions than the tensors: a broken rule, not a failure of `check`."""

from __future__ import annotations

import pytest

import anydml as dml


def test_results_with_too_many_dimensions_break_a_rule() -> None:
    x, indices = dml.TensorDesc("FLOAT32", (4, 2, 2)), dml.TensorDesc("UINT32", (1, 2, 1))
    counts = dict(input_dimension_count=3, indices_dimension_count=3)
    gather = dml.GatherNd(input_tensor=x, indices_tensor=indices, output_tensor=dml.TensorDesc("FLOAT32", (2, 2, 2)), **counts)
    with pytest.raises(dml.DescError, match=r"output_tensor\.sizes is"):
        dml.check(gather)
    scatter = dml.ScatterNd(
        input_tensor=x, indices_tensor=indices, updates_tensor=dml.TensorDesc("FLOAT32", (2, 2, 2)), output_tensor=x, **counts
    )
    with pytest.raises(dml.DescError, match=r"updates_tensor\.sizes is"):
        dml.check(scatter)
