"""Reductions along outer dimensions, with rows as the lanes of vectors, compared with the exact reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_rows import F32, FUNCTIONS, ISAS, check_between_pages, desc_of, drawn, exact, executed, same

from anydml import DataType
from anydml.kernels.code import llvm
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.reduce import across, sums
from anydml.kernels.reduce import tuning as reduce_tuning
from every_kernel import SOAK, Ran
from tuned import tuned

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

LAYOUTS = [  # sizes, axes, strides of the input and of the output
    ((3, 17), (0,), None, None),  # a vector and one row more
    ((2, 130, 5), (1,), None, None),  # two blocks of elements and two more, of fewer rows than a vector has lanes
    ((3, 2, 4), (0, 1), None, None),
    ((2, 3, 5, 21), (0, 2), None, None),  # lines within rows, and rows along two dimensions
    ((5, 19), (0,), (23, 1), None),
    ((4, 3, 8), (1,), (30, 9, 1), (11, 8, 1)),
    ((3, 6, 33), (1,), (0, 33, 1), None),
    ((4, 3, 8), (1,), None, (11, 8, 1)),
    ((70, 190), (0,), None, None),  # groups of several vectors, the last of which begins earlier
]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each desc, whether its rows are lanes."""
    found: list[bool] = []
    choose = across.key_across

    def noting(*args: Any) -> Any:
        made = choose(*args)
        found.append(made is not None)
        return made

    monkeypatch.setattr(across, "key_across", noting)
    return found


@pytest.mark.parametrize("isa", ISAS)
def test_every_function(isa: str, taken: list[bool], ran: Ran) -> None:
    outputs = 0
    types = [t for t in DataType if t.element_bits >= 8 and t not in (DataType.FLOAT64, DataType.BFLOAT16)]
    for at, name in enumerate(FUNCTIONS):
        for data_type in types if SOAK > 1 else types[(at + ISAS.index(isa)) % 3 :: 3]:
            desc = desc_of(name, data_type, (5, 19), (0,))
            if desc is None:
                continue
            for n, x in enumerate(drawn(data_type, (5, 19), at)):
                same(executed(desc, x, isa, 1 + n % 3), exact(desc, x))
                outputs += 19
    assert sum(taken) > 0.9 * len(taken)  # except for the largest element of a single row
    ran(outputs, 2_000)


@pytest.mark.parametrize("name", ["SUM", "LOG_SUM_EXP", "ARGMAX", "MIN"])
@pytest.mark.parametrize(("sizes", "axes", "strides", "out"), LAYOUTS)
def test_any_layout(
    name: str, sizes: tuple[int, ...], axes: tuple[int, ...], strides: tuple[int, ...] | None, out: tuple[int, ...] | None,
    taken: list[bool],
) -> None:  # fmt: skip
    check_between_pages(desc_of(name, F32, sizes, axes, strides, out))
    assert any(taken) == (name != "LOG_SUM_EXP")


@pytest.mark.parametrize("room", [2, 50])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_left_open_is_decided(
    room: int, threads: int, monkeypatch: pytest.MonkeyPatch, in_python: list[int], taken: list[bool]
) -> None:
    """Bounds of little use leave most open, and lists are full: calls stop, and go on."""
    tuned(monkeypatch, reduce_tuning, room=room)
    tuned(monkeypatch, reduce_tuning, alone=1)
    real = sums.RowSum.result

    def doubtful(self: sums.RowSum, values: Any) -> Any:
        made = real(self, values)
        assert isinstance(made, Number)
        return made.guarded((values[0].bits() & 3 << 30).compared("ne", 0))

    monkeypatch.setattr(sums.RowSum, "result", doubtful)
    across_ = desc_of("SUM", F32, (6, 2, 70), (0,))
    x = np.random.default_rng(2).standard_normal((6, 2, 70)).astype(np.float32)
    same(executed(across_, x, threads=threads), exact(across_, x))
    assert taken == [True]
    assert sum(in_python) >= 100
    assert len(in_python) > 1


def test_rows_that_are_no_lanes(taken: list[bool]) -> None:
    """Too few of them, apart, with their results apart, or rows along the innermost dimension."""
    for sizes, axes, strides, out in (
        ((5, 3), (0,), None, None),
        ((5, 8), (0,), (17, 2), None),
        ((5, 8), (0,), None, (16, 2)),
        ((5, 8), (1,), None, None),
        ((5, 8), (0, 1), None, None),
    ):
        check_between_pages(desc_of("SUM", F32, sizes, axes, strides, out))
    assert taken
    assert not any(taken)
