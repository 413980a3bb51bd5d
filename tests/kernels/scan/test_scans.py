"""Compiled running sums and products, compared with the oracle: in place, between guard pages, with hostile data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import guard_pages
import hostile_data
from agreement import SOAK, expected
from anydml import DataType, TensorDesc, operators
from anydml.exact.formats import FLOAT16, FLOAT32
from anydml.kernels.code import targets
from anydml.kernels.scan import emit, exact, family
from anydml.kernels.scan import tuning as scan_tuning
from anydml.kernels.undecided.state import UndecidedLists
from every_kernel import CallsOf
from tuned import tuned

ISAS = list({target.vector_bytes: target.name for target in targets.targets()}.values())
KINDS = {"SUMMATION": "sum", "PRODUCT": "product"}
CANARY = 0xA5
Array = NDArray[Any]


def desc_of(name: str, rng: np.random.Generator, data_type: str) -> Any:
    """Lines of any length along any axis, from either end, in tensors with gaps and with other orders of dimensions."""
    rank = int(rng.integers(1, 4))
    axis = int(rng.integers(rank))
    # a line of one element has no sum
    sizes = tuple(int(rng.choice((2, 5, 9, 33)) if d == axis else rng.choice((1, 2, 5, 9, 33))) for d in range(rank))
    order = rng.permutation(rank) if rng.random() < 0.4 else np.arange(rank)
    strides, step = [0] * rank, 1
    for d in reversed(order.tolist()):
        strides[d] = step
        step = step * sizes[d] + int(rng.random() < 0.2)
    t = TensorDesc(DataType[data_type], sizes, strides=tuple(strides))
    operator: Any = operators.find(f"CUMULATIVE_{name}")
    exclusive = {f"has_exclusive_{KINDS[name]}": bool(rng.integers(2))}
    direction = ("INCREASING", "DECREASING")[int(rng.integers(2))]
    return operator(input_tensor=t, output_tensor=t, axis=axis, axis_direction=direction, **exclusive)


def placed(t: TensorDesc, *, at_end: bool) -> tuple[Array, NDArray[np.uint8]]:
    return guard_pages.place(t.sizes, t.explicit_strides, t.data_type.dtype, at_end=at_end, canary=CANARY)


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("isa", ISAS)
def test_running_sums_and_products_are_exact(isa: str, name: str, ran: Any, calls_of: CallsOf) -> None:
    decided = calls_of(family, "_resolve")
    types = ("FLOAT32", "FLOAT32", "FLOAT16", "INT32", "UINT32", "INT64", "UINT64")
    outputs = 0
    for case in range(56 * SOAK):
        rng = np.random.default_rng(case)
        desc = desc_of(name, rng, types[case % 7])
        t = desc.input_tensor
        compiled = dml.Device("cpu", isa=isa).compile(desc)
        assert compiled.kernel_name == "scan:compiled"
        x = hostile_data.values(t.data_type.name, t.sizes, rng, hostile_data.KINDS[case // 7 % len(hostile_data.KINDS)])
        wanted = expected(desc, {"input_tensor": x})["output_tensor"].view(f"u{x.itemsize}")
        (source, _), (target, buffer) = placed(t, at_end=case % 2 == 0), placed(t, at_end=case % 2 == 1)
        source[...] = x
        compiled.bind(input_tensor=source, output_tensor=target).execute()
        np.testing.assert_array_equal(target.view(f"u{x.itemsize}"), wanted, err_msg=f"case {case}: {desc}")
        target.view(f"u{x.itemsize}")[...] = int.from_bytes(bytes([CANARY]) * x.itemsize, "little")
        assert (buffer == CANARY).all(), f"case {case} wrote between elements: {desc}"
        compiled.bind(input_tensor=source, output_tensor=source).execute()
        np.testing.assert_array_equal(source.view(f"u{x.itemsize}"), wanted, err_msg=f"case {case}, in place: {desc}")
        outputs += x.size
    assert decided or name == "PRODUCT", "no line was decided by the exact path"
    ran(outputs, 4000)


@pytest.mark.parametrize("isa", ISAS)
def test_sums_turn_to_groups_where_float64_no_longer_holds_them(isa: str, ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long lines, contiguous and in several columns, in more than one strip, with elements that are not finite anywhere in some
    of them."""
    begun: list[bool] = []
    decide = UndecidedLists.decide

    def counted(self: UndecidedLists, scratch: Any, arrays: Any) -> None:
        begun.extend(bool(scratch[start + emit.FIRST_ROW]) for start in self.starts)
        decide(self, scratch, arrays)

    monkeypatch.setattr(UndecidedLists, "decide", counted)
    outputs = 0
    undecided = [2.0**100, 2.0**-120, -(2.0**100), -(2.0**-120), 2.0**-149]
    hard = [[1e-30], [1e30, 1.0, -1e30], [np.inf], [-np.inf, np.inf], [np.nan], [3e38, 3e38, -3e38], undecided, undecided]
    shapes = [
        ((3, 171), 1),
        ((2, 64), 1),
        ((171, 3), 0),
        ((23, 37), 0),
        ((2, 9, 33), 1),
        ((5, 1041), 0),
        ((2, 17, 2), 1),
        ((6, 1088), 0),
    ]
    for case, (sizes, axis) in enumerate(shapes * SOAK):
        rng = np.random.default_rng(case)
        data_type = (
            ("FLOAT32", "FLOAT32", "FLOAT16", "INT32")[int(rng.integers(4))] if case % 8 not in (0, 2, 3, 7) else "FLOAT32"
        )
        operator: Any = operators.find("CUMULATIVE_SUMMATION")
        t = TensorDesc(DataType[data_type], sizes)
        direction = ("INCREASING", "DECREASING")[int(rng.integers(2))]
        desc = operator(
            input_tensor=t, output_tensor=t, axis=axis, axis_direction=direction, has_exclusive_sum=bool(rng.integers(2))
        )
        x = hostile_data.values(data_type, sizes, rng, "ordinary")
        x[rng.random(sizes) < 0.3] = 0
        lines = np.moveaxis(x, axis, -1)
        for _ in range(3 if data_type != "INT32" else 0):
            with np.errstate(over="ignore"):
                few = np.array(hard[int(rng.integers(len(hard)))]).astype(x.dtype)
            at = int(rng.integers(max(1, lines.shape[-1] - len(few))))
            lines[tuple(int(rng.integers(n)) for n in lines.shape[:-1])][at : at + len(few)] = few[: lines.shape[-1] - at]
        lines[(0,) * (lines.ndim - 1)][:] = x.dtype.type(-0.0)  # with a sum of -0
        wanted = expected(desc, {"input_tensor": x})["output_tensor"].view(f"u{x.itemsize}")
        tuned(monkeypatch, scan_tuning, alone=1 << 17 if case % 3 else 0)
        tuned(monkeypatch, scan_tuning, apart=5)
        compiled = dml.Device("cpu", isa=isa, threads=1 + case % 5).compile(desc)
        assert compiled.kernel_name == "scan:compiled"
        # at any address, which affects vectors of several lines
        found, there = (
            np.empty(x.size + 16, x.dtype)[first : first + x.size].reshape(sizes) for first in rng.integers(0, 17, 2)
        )
        there[...] = x
        compiled.bind(input_tensor=there, output_tensor=found).execute()
        np.testing.assert_array_equal(found.view(f"u{x.itemsize}"), wanted, err_msg=f"case {case}: {desc}")
        compiled.bind(input_tensor=there, output_tensor=there).execute()
        np.testing.assert_array_equal(there.view(f"u{x.itemsize}"), wanted, err_msg=f"case {case}, in place: {desc}")
        outputs += x.size
    assert any(begun), "no line was decided exactly from a row on"
    ran(outputs, 7000)


@pytest.mark.parametrize("isa", ISAS)
def test_sums_of_lines_that_fade_go_on_with_what_is_left_over(isa: str, ran: Any) -> None:
    """Neighbours of about one magnitude, with very different ends, in both directions; and sums that return to the smallest
    ones."""
    outputs = 0
    for case in range(10 * SOAK):
        rng = np.random.default_rng(case)
        n = int(rng.integers(100, 600))
        fading = np.exp2(-np.arange(n) / rng.choice((2, 4, 7)) + int(rng.integers(-20, 60)))[:: int(rng.choice((-1, 1)))]
        x = (rng.standard_normal((3, n)) * fading).astype(np.float32)
        x[1] = np.abs(x[1])
        x[:, rng.integers(0, n, 9)] = 0
        x[2, (n + 1) // 2 :] = -x[2, : n // 2][::-1]  # they cancel from the middle on
        t, direction = TensorDesc("FLOAT32", x.shape), ("INCREASING", "DECREASING")[int(rng.integers(2))]
        operator: Any = operators.find("CUMULATIVE_SUMMATION")
        desc = operator(
            input_tensor=t, output_tensor=t, axis=1, axis_direction=direction, has_exclusive_sum=bool(rng.integers(2))
        )
        compiled = dml.Device("cpu", isa=isa).compile(desc)
        assert compiled.kernel_name == "scan:compiled"
        wanted = expected(desc, {"input_tensor": x})["output_tensor"].view(np.uint32)
        compiled.bind(input_tensor=x, output_tensor=x).execute()
        np.testing.assert_array_equal(x.view(np.uint32), wanted, err_msg=f"case {case}: {desc}")
        outputs += x.size
    ran(outputs, 8000)


@pytest.mark.parametrize("isa", ISAS)
def test_what_is_left_over_decides_ties(isa: str) -> None:
    for sign in (1, -1, 0):
        line = np.zeros(128, np.float32)
        line[0], line[64], line[65] = sign * 2.0**-70, 1, 2.0**-24
        found = dml.cumulative_summation(line, 0, device=dml.Device(isa=isa))
        np.testing.assert_array_equal(found[64:], [1] + [np.float32(1 + 2.0**-23) if sign > 0 else 1] * 63)


def test_lines_that_float64_leaves_open_are_decided() -> None:
    """A sum of terms that differ by 2^200, the rest of which is a tie in the end."""
    far, half = np.float32(2.0**100), np.float32(2.0**-24)
    line = np.array([1, half, far, 2.0**-120, -far, -(2.0**-120), 2.0**-149], np.float32)
    beside = np.nextafter(np.float32(1), np.float32(2))
    wanted = np.array([1, 1, far, far, beside, 1, beside], np.float32)
    x = np.stack([line] * 11)
    for axis, lines in ((1, x), (0, x.T.copy())):
        found = dml.cumulative_summation(lines, axis)
        np.testing.assert_array_equal(found, np.stack([wanted] * 11) if axis else np.stack([wanted] * 11).T)


def test_a_sum_of_nothing_is_positive_in_a_line_that_is_left_open() -> None:
    """The first sums are -0, as sums of zeros, except for the empty sum; later ones are decided exactly."""
    far, half, small = 2.0**100, 2.0**-24, 2.0**-120
    line = np.array([-0.0] * 150 + [1, half, far, small, -far, -small, 2.0**-149], np.float32)
    beside = np.nextafter(np.float32(1), np.float32(2))
    wanted = np.array([0.0] + [-0.0] * 150 + [1, 1, far, far, beside, 1], np.float32)
    for axis, x in ((1, np.stack([line] * 3)), (0, np.stack([line] * 40, 1))):
        found = dml.cumulative_summation(x, axis, has_exclusive_sum=True)
        np.testing.assert_array_equal(
            found.view(np.uint32), np.broadcast_to(np.expand_dims(wanted, 1 - axis), x.shape).view(np.uint32)
        )


def test_exact_products_keep_as_many_bits_as_they_need() -> None:
    one, beside = (np.float32(x) for x in (1, 1 + 2.0**-23))
    rng = np.random.default_rng(0)
    for form, dtype in ((FLOAT32, np.float32), (FLOAT16, np.float16)):
        for case in range(20):
            line = hostile_data.values(np.dtype(dtype).name.upper(), 12, rng, hostile_data.KINDS[case % 6])
            bits = line.view(f"u{line.itemsize}").tolist()
            for exclusive in (False, True):
                least = list(exact.products(bits, form, exclusive=exclusive, precision=2))
                assert least == list(exact.products(bits, form, exclusive=exclusive, precision=4096))
    assert list(exact.products([int(x.view(np.uint32)) for x in (one, beside)], FLOAT32, exclusive=False, precision=1)) == [
        int(one.view(np.uint32)),
        int(beside.view(np.uint32)),
    ]
