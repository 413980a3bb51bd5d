"""The first elements of sorted lines: compiled, beside the oracle, within guard pages, on data with many equal elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
import guarded
import hurting
from agreement import SOAK, expected
from anydml import DataType, TensorDesc, operators
from anydml.kernels.code import targets
from anydml.kernels.match.ranked import NO_RANK, OTHER_ORDER, ranked
from anydml.schema.expression import Tensor, each, over, rank
from anydml.schema.statement import move, nest

ISAS = list({target.vector_bytes: target.name for target in targets.targets()}.values())
TYPES = ("FLOAT32", "FLOAT16", "INT8", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "UINT8", "INT16")
CANARY = 0xA5


def desc_of(rng: np.random.Generator, data_type: str, n: int, k: int) -> Any:
    """Lines along any axis of tensors with gaps and other orders of dimensions, some of them broadcast."""
    dimensions = int(rng.integers(1, 4))
    axis = int(rng.integers(dimensions))
    sizes = tuple(n if d == axis else int(rng.choice((1, 2, 3))) for d in range(dimensions))
    taken = tuple(k if d == axis else m for d, m in enumerate(sizes))
    index = "UINT32" if rng.random() < 0.7 else "UINT64"

    def laid_out(dtype: str, of: tuple[int, ...], *, broadcast: bool) -> TensorDesc:
        order = rng.permutation(dimensions) if rng.random() < 0.4 else np.arange(dimensions)
        strides, step = [0] * dimensions, 1
        for d in reversed(order.tolist()):
            if broadcast and d != axis and rng.random() < 0.2:
                continue
            strides[d] = step
            step = step * of[d] + int(rng.random() < 0.2)
        return TensorDesc(DataType[dtype], of, strides=tuple(strides))

    operator: Any = operators.find("TOP_K1")
    return operator(
        input_tensor=laid_out(data_type, sizes, broadcast=True),
        output_value_tensor=laid_out(data_type, taken, broadcast=False),
        output_index_tensor=laid_out(index, taken, broadcast=False),
        axis=axis,
        k=k,
        axis_direction=("INCREASING", "DECREASING")[int(rng.integers(2))],
    )


@pytest.mark.skipif(not guarded.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("isa", ISAS)
def test_the_first_of_sorted_lines_are_those_of_the_oracle(isa: str, ran: Any) -> None:
    """Lines that are sorted as a whole, by insertion and by digits, and lines of which candidates are selected."""
    outputs = 0
    lengths = ((1, 1), (7, 3), (40, 40), (41, 41), (70, 1), (130, 5), (257, 16), (300, 300), (531, 40), (96, 90))
    for case in range(40 * SOAK):
        rng = np.random.default_rng(case)
        n, k = lengths[case % 10]
        desc = desc_of(rng, TYPES[case // 10 * 3 % 10 if case % 3 else 0], n, k)
        t = desc.input_tensor
        compiled = dml.Device("cpu", isa=isa, threads=1 + case % 2).compile(desc)
        assert compiled.kernel_name == "order:compiled"
        x = hurting.values(t.data_type.name, t.sizes, rng, hurting.KINDS[int(rng.integers(len(hurting.KINDS)))])
        arrays, buffers = {}, {}
        for name in ("input_tensor", "output_value_tensor", "output_index_tensor"):
            of = getattr(desc, name)
            arrays[name], buffers[name] = guarded.place(
                of.sizes, of.explicit_strides, of.data_type.dtype, at_end=bool(rng.integers(2)), canary=CANARY
            )
        arrays["input_tensor"][...] = x
        wanted = expected(desc, {"input_tensor": arrays["input_tensor"].copy()})
        compiled.bind(**arrays).execute()
        for name in ("output_value_tensor", "output_index_tensor"):
            found, bits = arrays[name], f"u{arrays[name].itemsize}"
            np.testing.assert_array_equal(found.view(bits), wanted[name].view(bits), err_msg=f"case {case}: {desc}")
            found.view(bits)[...] = int.from_bytes(bytes([CANARY]) * found.itemsize, "little")
            assert (buffers[name] == CANARY).all(), f"case {case} wrote between elements: {desc}"
            outputs += found.size
    ran(outputs, 4000)


@pytest.mark.parametrize("k", [3, 2000])
def test_lines_are_shared_out_among_threads(k: int) -> None:
    x = np.random.default_rng(k).integers(0, 500, (2, 11, 2000)).astype(np.float32)
    found = [dml.top_k1(x, 2, k, device=dml.Device(threads=threads)) for threads in (1, 2, 3, 32)]
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    for values, positions in found:
        np.testing.assert_array_equal(positions, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))


def test_orders_are_matched_by_their_mathematics() -> None:
    x = Tensor("x", (3, 8), DataType.FLOAT32)
    i = each((3, 5))
    k = over(i, x.sizes, [1])
    at = rank(k, x[k], i[1], decreasing=True)
    found = ranked({"values": move(i, x[(i[0], at)]), "positions": nest(i, at)})
    assert not isinstance(found, str)
    assert (found.axis, found.sizes, found.values, found.positions) == (1, (3, 5), "values", "positions")
    alone = ranked({"positions": nest(i, at)})
    assert not isinstance(alone, str)
    assert alone.values is None
    later = rank(k, x[k], i[1] + 1, decreasing=True)
    negated = rank(k, -x[k], i[1], decreasing=True)
    assert ranked({"positions": nest(i, later)}) == OTHER_ORDER
    assert ranked({"positions": nest(i, negated)}) == OTHER_ORDER
    assert ranked({"positions": nest(i, at + 1)}) == NO_RANK
    y = Tensor("y", (3, 8), DataType.FLOAT32)
    assert ranked({"values": move(i, y[(i[0], at)])}) == OTHER_ORDER
