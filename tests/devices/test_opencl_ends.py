"""Parts of OpenCL kernels at their ends: nothing behind the last element, and any order of the work items of a group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml import UnsupportedError
from anydml.kernels.code import llvm, opencl
from anydml.kernels.code.opencl import Argument
from anydml.kernels.code.values import Body
from anydml.kernels.opencl import fours, platform
from anydml.kernels.opencl.calls import LISTED, RANGE, WORD, end, note, number
from anydml.kernels.opencl.groups import together
from anydml.kernels.opencl.platform import Opened

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")


@pytest.fixture(scope="module")
def opened() -> Opened:
    try:
        return platform.opened(dml.Device("opencl").machine.opencl)
    except UnsupportedError as error:
        pytest.skip(str(error))


def run(opened: Opened, text: str, name: str, arguments: list[Any], items: int, group: int = 1) -> list[NDArray[Any]]:
    """The contents of arrays among the arguments after a kernel of a program has run."""
    memories = [(a, opened.allocate(a.nbytes)) for a in arguments if isinstance(a, np.ndarray)]
    for array, memory in memories:
        opened.write(memory, array)
    of = {id(array): memory for array, memory in memories}
    kernel = opened.kernel(opened.program(text), name)
    kernel.set_args(*(of.get(id(a), a) for a in arguments))
    opened.launch(kernel, items, group)
    for array, memory in memories:
        opened.read(memory, array)
    return [array for array, _ in memories]


def test_a_full_list_has_no_entry_behind_its_room(opened: Opened) -> None:
    body = Body(opencl.target())
    i = number(body)
    note(body, i.compared("ult", 8), [i])
    end(body)
    text = opencl.program([opencl.kernel("kernel_", [*RANGE, *LISTED], body)])
    listed, counts = np.full(9, -1), np.zeros(2, np.int32)
    run(opened, text, "kernel_", [np.int64(0), np.int64(9), listed, counts, np.int64(0), np.int32(5)], 9)
    assert counts[0] == 8
    assert len({*listed[:5].tolist()} & {*range(8)}) == 5
    assert listed[5:].tolist() == [-1] * 4


def test_half_a_byte_without_an_element_is_zero(opened: Opened) -> None:
    """Where the byte behind the last element is not."""
    halves, packed = np.array([1, 2, 3, 4, 5, 15], np.uint8), np.full(4, 0xEE, np.uint8)
    zero = np.int64(0)
    run(opened, fours.packing(), "packed", [halves, zero, packed, zero, np.int64(5), zero, np.int64(3)], 4)
    assert packed.tolist() == [0x21, 0x43, 0x05, 0xEE]


@pytest.mark.parametrize("backward", [False, True])
def test_the_order_of_work_items_changes_no_merged_value(opened: Opened, backward: bool) -> None:
    """A processor's driver runs the work items of a group in the order of their numbers, which are counted from either end."""
    group = 16
    body = Body(opencl.target())
    local = body.call("local_id", WORD)
    own = body.constant(WORD, group - 1) - local if backward else local
    merged = together(body, own, group, [own, own << 8], lambda a, b: [x + y for x, y in zip(a, b, strict=True)])
    for k, value in enumerate(merged):
        body.stored(value, body.at("%made", (local << 4).name), 8 * k)
    body.do("ret void")
    text = opencl.program([opencl.kernel("kernel_", [Argument("ptr", "made")], body, group)])
    (made,) = run(opened, text, "kernel_", [np.zeros((group, 2), np.int64)], group, group)
    assert made.tolist() == [[120, 120 << 8]] * group
