"""Elements that are put apart in a constant: a copy after another, on both sides of where copies are compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
import guarded
from agreement import SOAK, expected
from anydml import DataType, TensorDesc, operators
from anydml.kernels.code import targets
from anydml.kernels.match.moves import Move
from anydml.kernels.match.spread import NO_SPREAD, spread
from anydml.schema.expression import Tensor, both, each, equal, select
from anydml.schema.statement import move

ISAS = list({target.vector_bytes: target.name for target in targets.targets()}.values())
CANARY = 0xA5


def desc_of(rng: np.random.Generator, data_type: str, sizes: tuple[int, ...]) -> Any:
    """A slice's gradient, with windows that do not fill the output, and strides of both signs."""
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


@pytest.mark.skipif(not guarded.AVAILABLE, reason="guard pages are made with mprotect")
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
        found, buffer = guarded.place(of.sizes, of.explicit_strides, x.dtype, at_end=case % 4 < 2, canary=CANARY)
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
    found = spread({"y": move((i, j), select(apart, x.or_else([(i - 1) // 4, 2 - j], 7), 7))})
    assert found == [
        Move("", "y", (0, 0), (9, 3), (), (), (), 7),
        Move("x", "y", (1, 0), (2, 3), (0, 2), ((1, 0), (0, -1)), ((4, 0), (0, 1))),
    ]
    others = (
        select(apart, x.or_else([(i - 1) // 4, j], 7), 8),  # two constants
        select(apart, x.or_else([(i - 1) // 3, j], 7), 7),  # a quotient by another number
        select(equal(i % 4, 0), x.or_else([(i - 1) // 4, j], 7), 7),  # a remainder of another index
        select(both(apart, equal(j % 2, 0)), x.or_else([(i - 1) // 4, j], 7), 7),  # a condition more
        select(apart, x.or_else([(i - 1) // 4, 0], 7), 7),  # an index that stays
        select(equal((i - 1) % 4, 1), x.or_else([(i - 1) // 4, j], 7), 7),
    )
    for body in others:
        assert spread({"y": move((i, j), body)}) == NO_SPREAD
    beyond = select(equal((i - 6) % 4, 0), x.or_else([(i - 6) // 4, j], 7), 7)
    assert spread({"y": move((i, j), beyond)}) == "an element is put outside"
