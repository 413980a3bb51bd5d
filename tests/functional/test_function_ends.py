"""Functions, graphs and devices at the very ends of ranges, where `<` and `<=` differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.devices import dump
from anydml.errors import BindingError
from anydml.functional.faults import _hinted
from anydml.functional.inputs import broadcasts
from anydml.functional.parameters import _placed
from anydml.functional.request import Request


def test_sizes_broadcast_to_as_many_and_to_more_but_not_to_fewer() -> None:
    assert broadcasts((1, 3), (2, 3))
    assert broadcasts((3,), (2, 3))
    assert not broadcasts((2, 3), (3,))


def test_scales_of_one_dimension_are_a_row_or_a_column() -> None:
    scales = np.ones(3, np.float32)
    assert [_placed(scales, axis).shape for axis in ("row", "column")] == [(3, 1), (1, 3)]


def test_axis_0_is_the_first() -> None:
    field: Any = SimpleNamespace(wire="Axis", sized_by=None, name="axis")
    tensor = SimpleNamespace(wire="InputTensor")
    request: Any = SimpleNamespace(
        _ranked={"Axis": "InputTensor"},
        inputs=[SimpleNamespace(sizes=(2, 3), field=tensor)],
        spec=SimpleNamespace(inputs=[tensor]),
    )
    assert [Request._from_the_start(request, field, axis) for axis in (-2, -1, 0, 1)] == [0, 1, 0, 1]


def test_only_negative_strides_are_told_of_slice1() -> None:
    violation: Any = SimpleNamespace(constraint="strides_fits", values={"Strides": (0, 1 << 40)})
    assert _hinted(violation) is violation


def test_the_one_output_of_an_operator_is_no_tuple() -> None:
    out: Any = [np.zeros(2, np.float32)]
    with pytest.raises(BindingError, match="out takes an array, not list"):
        dml.element_wise_abs(np.ones(2, np.float32), out=out)
    with pytest.raises(BindingError, match="out is float32, shape"):
        dml.element_wise_abs(np.ones(2, np.float32), out=np.zeros(3, np.float32))


def test_lines_of_dumps_are_filled() -> None:
    for more, lines in ((0, 1), (1, 2)):
        value = ["a" * (dump.WIDTH + more - len(dump._line([""])) - 1), ""]
        value = ["a" * (len(value[0]) + dump.WIDTH + more - len(dump._line(value))), ""]
        assert len(dump._line(value)) == dump.WIDTH + more
        assert (dump.shown(value, 0).count("\n") == 0) == (lines == 1)


def test_ties_of_a_dynamic_quantisation_are_rounded_to_even() -> None:
    """The scale is 1, the zero point 0."""
    x = np.array([0, 255, 0.5, 1.5, 2.5, 253.5], np.float32)
    for device in (dml.Device("reference"), None):
        made = dml.dynamic_quantize_linear(x, output_data_type="UINT8", device=device)
        assert made[0].tolist() == [0, 255, 0, 2, 2, 254]
