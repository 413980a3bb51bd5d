"""Elements that are spread in a constant: one copy after another, with outputs that are compiled and others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
import guard_pages
from agreement import SOAK, expected
from anydml import DataType, TensorDesc, operators
from anydml.kernels.code import targets
from anydml.kernels.match.bands import NO_BAND, bands
from anydml.kernels.match.dilated import NOT_DILATED, dilated
from anydml.kernels.match.moves import Move
from anydml.schema.expression import Tensor, both, each, equal, select
from anydml.schema.statement import move

ISAS = list({target.vector_bytes: target.name for target in targets.targets()}.values())
CANARY = 0xA5


def desc_of(rng: np.random.Generator, data_type: str, sizes: tuple[int, ...]) -> Any:
    """The gradient of a slice, with windows that do not fill the output, and strides of both signs."""
    offsets, windows, strides, given = [], [], [], []
    for n in sizes:
        window = int(rng.integers(max(1, n // 2), n + 1))
        stride = int(rng.choice((1, 1, 2, 3, 7))) * int(rng.choice((-1, 1)))
        offsets.append(int(rng.integers(n - window + 1)))
        windows.append(window)
        strides.append(stride)
        given.append(max(1, 1 + (window - 1) // abs(stride) - int(rng.integers(2))))
    packed = [int(np.prod(sizes[d + 1 :])) for d in range(len(sizes))]
    gap = 1 + int(rng.integers(2)) if sizes[-1] > 1 else 1
    into = TensorDesc(DataType[data_type], sizes, strides=tuple(s * gap for s in packed))
    operator: Any = operators.find("SLICE_GRAD")
    return operator(
        input_gradient_tensor=TensorDesc(DataType[data_type], given),
        output_gradient_tensor=into,
        input_window_offsets=offsets,
        input_window_sizes=windows,
        input_window_strides=strides,
    )


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("isa", ISAS)
def test_elements_are_put_apart(isa: str, ran: Any) -> None:
    outputs = 0
    for case in range(16 * SOAK):
        rng = np.random.default_rng(case)
        compiled_there = case % 2 == 0
        sizes = ((70, 131), (3, 57, 60), (9001,))[case % 3] if compiled_there else ((5, 9), (3, 4, 5), (17,))[case % 3]
        desc = desc_of(rng, ("FLOAT32", "INT64", "FLOAT16", "UINT8")[case % 4 if not compiled_there else case // 2 % 2], sizes)
        compiled = dml.Device("cpu", isa=isa, threads=1 + case // 2 % 2).compile(desc)
        assert compiled.kernel_name == ("copy:compiled" if compiled_there else "copy:numpy")
        given, of = desc.input_gradient_tensor, desc.output_gradient_tensor
        x = rng.integers(0, 256, (*given.sizes, of.data_type.dtype.itemsize), np.uint8).view(of.data_type.dtype)[..., 0]
        found, buffer = guard_pages.place(of.sizes, of.explicit_strides, x.dtype, at_end=case % 4 < 2, canary=CANARY)
        compiled.bind(input_gradient_tensor=x, output_gradient_tensor=found).execute()
        bits = f"u{x.itemsize}"
        wanted = expected(desc, {"input_gradient_tensor": x})["output_gradient_tensor"]
        np.testing.assert_array_equal(found.view(bits), wanted.view(bits), err_msg=f"case {case}: {desc}")
        found.view(bits)[...] = int.from_bytes(bytes([CANARY]) * found.itemsize, "little")
        assert (buffer == CANARY).all(), f"case {case} wrote between elements: {desc}"
        outputs += found.size
    ran(outputs, 20000)


def test_elements_apart_are_matched_by_their_mathematics() -> None:
    x = Tensor("x", (2, 3), DataType.INT32)
    i, j = each((9, 3))
    apart = equal((i - 1) % 4, 0)
    found = dilated({"y": move((i, j), select(apart, x.or_else([(i - 1) // 4, 2 - j], 7), 7))})
    assert found == [
        Move("", "y", (0, 0), (9, 3), (), (), (), 7),
        Move("x", "y", (1, 0), (2, 3), (0, 2), ((1, 0), (0, -1)), ((4, 0), (0, 1))),
    ]
    others = (
        select(apart, x.or_else([(i - 1) // 4, j], 7), 8),  # two constants
        select(apart, x.or_else([(i - 1) // 3, j], 7), 7),  # a quotient with another divisor
        select(equal(i % 4, 0), x.or_else([(i - 1) // 4, j], 7), 7),  # a remainder of another index
        select(both(apart, equal(j % 2, 0)), x.or_else([(i - 1) // 4, j], 7), 7),  # a further condition
        select(apart, x.or_else([(i - 1) // 4, 0], 7), 7),  # an index that does not change
        select(equal((i - 1) % 4, 1), x.or_else([(i - 1) // 4, j], 7), 7),
    )
    for body in others:
        assert dilated({"y": move((i, j), body)}) == NOT_DILATED
    beyond = select(equal((i - 6) % 4, 0), x.or_else([(i - 6) // 4, j], 7), 7)
    assert dilated({"y": move((i, j), beyond)}) == "an element is stored outside of the output"


def test_diagonals_over_a_constant_are_matched_by_their_mathematics() -> None:
    _, i, j = indices = each((2, 5, 9))
    t = j - i

    def made(condition: Any) -> Any:
        return bands({"y": move(indices, select(condition, 3, 7))}, DataType.INT32)

    filled = Move("", "y", (0, 0, 0), (2, 5, 9), (), (), (), 7)
    places = ((1, 0, 0), (0, 1, 1))
    assert made(both(t >= -1, t < 1)) == [
        filled,
        Move("", "y", (0, 1, 0), (2, 4), (), (), places, 3),
        Move("", "y", (0, 0, 0), (2, 5), (), (), places, 3),
    ]
    assert made(both(t >= 8, t <= 10)) == [filled, Move("", "y", (0, 0, 8), (2, 1), (), (), places, 3)]
    assert made(both(t >= 9, t < 12)) == [filled]
    assert made(both(t >= 0, t < 5)) == "there are more than 4 diagonals"
    for condition in (both(t < 1, t < 2), both(t >= 0, i < 2), both(i + j >= 0, i + j < 2), both(t >= 0, 2 * t < 2), t < 2):
        assert made(condition) == NO_BAND


@pytest.mark.parametrize("isa", ISAS)
def test_diagonals_are_put_over_a_constant(isa: str) -> None:
    rng = np.random.default_rng(0)
    for case in range(12):
        sizes = ((2, 70, 131), (131, 170), (3, 5), (2, 2, 1, 9))[case % 4]
        begin = int(rng.integers(-sizes[-2] - 1, sizes[-1] + 1))
        end = begin + int(rng.integers(4))
        dtype, threads = (np.float32, np.uint8, np.int64)[case % 3], 1 + case % 2
        t = TensorDesc(DataType[np.dtype(dtype).name.upper()], sizes)
        operator: Any = operators.find("DIAGONAL_MATRIX1")
        desc = operator(output_tensor=t, value_data_type=t.data_type, value=7, diagonal_fill_begin=begin, diagonal_fill_end=end)
        compiled = dml.Device("cpu", isa=isa, threads=threads).compile(desc)
        assert compiled.kernel_name == ("copy:compiled" if t.element_bytes >= 1 << 15 else "copy:numpy")
        found = np.full(sizes, 1, dtype)
        compiled.bind(output_tensor=found).execute()
        apart = np.arange(sizes[-1]) - np.arange(sizes[-2])[:, None]
        wanted = np.where((begin <= apart) & (apart < end), 7, 0)
        np.testing.assert_array_equal(found, np.broadcast_to(wanted, sizes))
