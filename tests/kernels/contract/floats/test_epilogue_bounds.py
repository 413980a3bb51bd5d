"""The epilogue of blocks of sums: it lists the elements that its bounds leave undecided, and those of zeros without signs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from anydml.kernels.code import engine
from anydml.kernels.code.targets import targets
from anydml.kernels.contract.floats import epilogue
from anydml.kernels.contract.floats.epilogue import EpilogueKey
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.floats.packed.tile import BOUND
from anydml.kernels.match.normal_form import Node, normal_form
from anydml.kernels.undecided.state import COUNT
from anydml.schema.node import Constant
from anydml.tensor import DataType
from every_kernel import without_dot_products

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")
F32, F64 = DataType.FLOAT32, DataType.FLOAT64
SUM = Node("stream", (), (0, F64))
PLAIN = Stored(normal_form([SUM, Node("same", (0,), None)]), (F64, F32), 0)
TIE = 1 + 2.0**-24
ZERO = Node("constant", (), Constant(Fraction(0), True))
FACTOR, OF_ROW = 2.0**-40, 0.5  # of the bounds, and the norm of the row
WHOLE = 16  # columns: whole vectors on every processor


def bits_of(x: float) -> int:
    return int(np.float64(x).view(np.int64))


def stored(
    key: EpilogueKey, sums: Sequence[float], norms: Sequence[float], *, inexact: bool = True
) -> tuple[list[float], list[int]]:
    """The elements of one row, and the columns that are listed. Sums of 1 follow, so that vectors are whole."""
    count = WHOLE
    given, of_columns = np.ones(count), np.ones(count)
    given[: len(sums)], of_columns[: len(norms)] = sums, norms
    of_rows, output = np.array([OF_ROW]), np.zeros(64, np.float32)
    listed, counter = np.zeros(64, np.int64), np.zeros(64, np.int64)
    counter[BOUND // 8] = bits_of(float(inexact))
    done = np.zeros(1, np.int64)
    no = done.ctypes.data
    arguments = [1, 0, count, 1, count, given.ctypes.data, 0, bits_of(FACTOR), of_rows.ctypes.data, of_columns.ctypes.data]
    arguments += [listed.ctypes.data, counter.ctypes.data, 1, no, no, no, no, output.ctypes.data, 0, 0, 0, 4]
    code = engine.compiled(epilogue.block, targets()[0], key)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(np.array(arguments, np.int64).ctypes.data)
    assert not output[count:].any()
    return output[: len(sums)].tolist(), listed[: counter[COUNT]].tolist()


@pytest.mark.parametrize("mixed", [False, True])
def test_the_bound_is_that_of_norms(mixed: bool) -> None:
    """Sums are beside a tie of float32, by some eighths of the bound."""
    eighths = np.array([1, 7, 9, 15, 100, -1, -7, -9, -100, 7])
    norms = np.ldexp(1.5, np.arange(len(eighths)) % 3)
    sums = TIE + eighths / 8 * FACTOR * OF_ROW * norms
    made, listed = stored(EpilogueKey(PLAIN, ("contiguous",), False, mixed=mixed), sums.tolist(), norms.tolist())
    assert listed == np.flatnonzero(np.abs(eighths) < 8).tolist()
    sure = np.abs(eighths) > 8
    assert (np.array(made)[sure] == np.float32(sums)[sure]).all()


def test_zeros_of_columns_with_terms_that_do_not_count_are_listed() -> None:
    """All sums are exact; the norms of such columns are negative. Either zero leads to the careful way, in which both are."""
    key = EpilogueKey(PLAIN, ("contiguous",), True)
    for zeros, places in (((0.0, 0.0), [1, 2]), ((-0.0, 0.0), [1, 2]), ((0.0, 1.0), [1]), ((-0.0, 1.0), [1]), ((1.0, 1.0), [])):
        assert stored(key, [0.0, *zeros, 2.0, 0.0, TIE], [1.0, -1.0, -1.0, -1.0, 0.0, 1.0], inexact=False)[1] == places


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_limit_of_zero_takes_the_place_of_numbers_that_round_to_it(order: tuple[int, int]) -> None:
    relu = Stored(normal_form([SUM, ZERO, Node("max", order, None)]), (F64, F32), 0)
    made, listed = stored(EpilogueKey(relu, ("contiguous",), False), [-(2.0**-200), -2.0, 3.0], [2.0**-200] * 3)
    assert not listed
    assert np.array(made, np.float32).tobytes() == np.array([0, 0, 3], np.float32).tobytes()
