"""Lines whose first elements are reversed: rows, contiguous lines and single elements, between guard pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
import guard_pages
from agreement import SOAK, expected
from anydml import DataType, TensorDesc, operators
from anydml.kernels.code import targets
from anydml.kernels.match.reversed import NOT_REVERSED, reversed_lines
from anydml.schema.expression import Tensor, each, index, minimum, select
from anydml.schema.statement import move

ISAS = list({target.vector_bytes: target.name for target in targets.targets()}.values())
CANARY = 0xA5
# sizes, axis, and the order of the dimensions in memory; lengths that are equal for all features are broadcast
CASES = [
    ((3, 40, 33), 1, (0, 1, 2), True),
    ((40, 3, 70), 0, (0, 1, 2), True),
    ((4, 131), 1, (0, 1), False),
    ((131,), 0, (0,), False),
    ((30, 9), 0, (0, 1), False),
    ((5, 30, 7), 1, (2, 0, 1), False),
    ((2, 20, 3, 5), 1, (0, 1, 2, 3), True),
    ((1, 9), 0, (0, 1), False),
]


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("isa", ISAS)
def test_first_elements_are_reversed(isa: str, ran: Any) -> None:
    outputs = 0
    for case, (sizes, axis, order, broadcast) in enumerate(CASES * 4 * SOAK):
        rng = np.random.default_rng(case)
        element, length = ("FLOAT32", "INT64", "FLOAT16", "UINT8")[case % 4], ("UINT32", "UINT64")[case // 8 % 2]
        strides, step = [0] * len(sizes), 1
        for d in reversed(order):
            strides[d] = step
            step = step * sizes[d] + case // 16 % 2
        t = TensorDesc(DataType[element], sizes, strides=tuple(strides))
        one = tuple(1 if d == axis else n for d, n in enumerate(sizes))
        shared = [n == 1 or (broadcast and d == len(sizes) - 1) for d, n in enumerate(one)]
        packed = [
            0 if s else int(np.prod([n for n, r in zip(one[d + 1 :], shared[d + 1 :], strict=True) if not r]))
            for d, s in enumerate(shared)
        ]
        lengths = TensorDesc(DataType[length], one, strides=tuple(packed))
        operator: Any = operators.find("REVERSE_SUBSEQUENCES")
        desc = operator(input_tensor=t, sequence_lengths_tensor=lengths, output_tensor=t, axis=axis)
        compiled = dml.Device("cpu", isa=isa, threads=1 + case % 2).compile(desc)
        assert compiled.kernel_name == "irregular:compiled"
        arrays, buffers = {}, {}
        for name in ("input_tensor", "sequence_lengths_tensor", "output_tensor"):
            of = getattr(desc, name)
            arrays[name], buffers[name] = guard_pages.place(
                of.sizes, of.explicit_strides, of.data_type.dtype, at_end=case // 2 % 2 == 0, canary=CANARY
            )
        x = arrays["input_tensor"]
        x.view(f"u{x.itemsize}")[...] = rng.integers(0, 256, (*sizes, x.itemsize), np.uint8).view(f"u{x.itemsize}")[..., 0]
        few = rng.integers(0, sizes[axis] + 3, one)
        arrays["sequence_lengths_tensor"][...] = np.where(rng.random(one) < 0.1, 2**32 - 1, few)
        inputs = {name: arrays[name].copy() for name in ("input_tensor", "sequence_lengths_tensor")}
        compiled.bind(**arrays).execute()
        found, bits = arrays["output_tensor"], f"u{x.itemsize}"
        wanted = expected(desc, inputs)["output_tensor"]
        np.testing.assert_array_equal(found.view(bits), wanted.view(bits), err_msg=f"case {case}: {desc}")
        found.view(bits)[...] = int.from_bytes(bytes([CANARY]) * x.itemsize, "little")
        assert (buffers["output_tensor"] == CANARY).all(), f"case {case} wrote between elements: {desc}"
        outputs += x.size
    ran(outputs, 30000)


def test_reversals_are_shared_out_among_threads() -> None:
    x = np.random.default_rng(0).standard_normal((7, 300, 130), np.float32)
    lengths = np.array([0, 1, 2, 150, 299, 300, 9999], np.uint32)[:, None, None]
    wanted = np.stack([np.concatenate([a[:n][::-1], a[n:]]) for a, n in zip(x, lengths.ravel().tolist(), strict=True)])
    whole = np.broadcast_to(lengths, (7, 1, 130))
    for threads in (1, 2, 5):
        np.testing.assert_array_equal(dml.reverse_subsequences(x, whole, 1, device=dml.Device(threads=threads)), wanted)


def test_reversals_are_matched_by_their_mathematics() -> None:
    x, n = Tensor("x", (3, 8), DataType.INT32), Tensor("n", (3,), DataType.UINT32)
    i, j = each((3, 8))
    length = minimum(index(n[[i]]), 8)
    found = reversed_lines({"y": move((i, j), x[[i, select(j < length, length - 1 - j, j)]])})
    assert not isinstance(found, str)
    assert (found.axis, found.lengths, found.start, found.steps) == (1, "n", (0,), ((1,), (0,)))
    beyond, signed = minimum(index(n[[i]]), 9), minimum(index(Tensor("n", (3,), DataType.INT32)[[i]]), 8)
    others = (
        select(j < length, length - 1 - j, j + 1),
        select(j < length, length - 2 - j, j),
        select(j < length + 1, length - 1 - j, j),
        select(j < beyond, beyond - 1 - j, j),
        select(j < signed, signed - 1 - j, j),
    )
    for at in others:
        assert reversed_lines({"y": move((i, j), x[[i, at]])}) == NOT_REVERSED
