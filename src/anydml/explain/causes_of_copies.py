"""The search for causes in copies of windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anydml.explain import deviations
from anydml.explain.changes import Deviation
from anydml.explain.comparison import Cause
from anydml.explain.known import WINDOWS
from anydml.explain.search import Array, Arrays, Search

COPIED = 2**24  # elements of a copy; larger copies are not searched


def of_copy(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    if expected.size > COPIED:
        return ()
    search = Search(expected, actual)
    window = d.input_window_offsets, d.input_window_sizes, d.input_window_strides, d.output_tensor.sizes
    for deviation in (*WINDOWS, *_one_element_off(expected.ndim)):
        search.tried(deviation, deviation.function(arrays["input_tensor"], *window))
    return search.found()


def _one_element_off(dimension_count: int) -> Iterator[Deviation]:
    for dimension in range(dimension_count):
        for by, when in ((1, "late"), (-1, "early")):

            def off(*window: Any, dimension: int = dimension, by: int = by) -> Array:
                return deviations.one_element_off(*window, dimension=dimension, by=by)

            sentence = f"a copy that starts one element too {when} in dimension {dimension}"
            yield Deviation("one_element_off", sentence, off)
