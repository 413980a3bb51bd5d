"""The first elements of sorted lines, and lists of nonzero elements: compiled, compared with the oracle, between guard
pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
import guard_pages
import hostile_data
from agreement import SOAK, expected
from anydml import DataType, TensorDesc, operators
from anydml.kernels.code import targets
from anydml.kernels.match.nonzeros import NO_LIST, Nonzeros, nonzeros
from anydml.kernels.match.ranked import NO_RANK, OTHER_ORDER, ranked
from anydml.schema.expression import Sum, Tensor, as_number, each, is_true, over, pieces, rank, select, unraveled
from anydml.schema.node import number
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


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("isa", ISAS)
def test_the_first_of_sorted_lines_are_those_of_the_oracle(isa: str, ran: Any) -> None:
    """Lines that are sorted completely, by insertion and by digits, and lines from which candidates are selected."""
    outputs = 0
    lengths = ((1, 1), (7, 3), (40, 40), (41, 41), (70, 1), (130, 5), (257, 16), (300, 300), (531, 40), (96, 90))
    for case in range(40 * SOAK):
        rng = np.random.default_rng(case)
        n, k = lengths[case % 10]
        desc = desc_of(rng, TYPES[case // 10 * 3 % 10 if case % 3 else 0], n, k)
        t = desc.input_tensor
        compiled = dml.Device("cpu", isa=isa, threads=1 + case % 2).compile(desc)
        assert compiled.kernel_name == "order:compiled"
        x = hostile_data.values(t.data_type.name, t.sizes, rng, hostile_data.KINDS[int(rng.integers(len(hostile_data.KINDS)))])
        arrays, buffers = {}, {}
        for name in ("input_tensor", "output_value_tensor", "output_index_tensor"):
            of = getattr(desc, name)
            arrays[name], buffers[name] = guard_pages.place(
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


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("larger", [True, False])
def test_the_next_key_is_a_candidate_beside_many_that_are_equal(isa: str, larger: bool) -> None:
    """When k elements that are equal to the bound were found, only those before it are candidates: also the one next to it."""
    x = np.full(2048, 5, np.int32)
    x[1900] = 6 if larger else 4
    line, taken = TensorDesc("INT32", x.shape), TensorDesc("INT32", (3,))
    operator: Any = operators.find("TOP_K1")
    desc = operator(
        input_tensor=line, output_value_tensor=taken, output_index_tensor=TensorDesc("UINT32", (3,)), axis=0, k=3,
        axis_direction="DECREASING" if larger else "INCREASING",
    )  # fmt: skip
    values, places = np.zeros(3, np.int32), np.zeros(3, np.uint32)
    compiled = dml.Device("cpu", isa=isa).compile(desc)
    compiled.bind(input_tensor=x, output_value_tensor=values, output_index_tensor=places).execute()
    assert (values.tolist(), places.tolist()) == ([x[1900], 5, 5], [1900, 0, 1])


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("isa", ISAS)
def test_lists_of_what_is_not_0_are_those_of_the_oracle(isa: str, ran: Any) -> None:
    outputs = 0
    shapes = [((3, 70), 2), ((1, 2, 131), 3), ((1, 5, 9, 7), 3), ((200,), 1), ((1, 1), 1), ((2, 1, 3, 17), 4), ((1, 64), 1)]
    for case, (sizes, columns) in enumerate(shapes * 4 * SOAK):
        rng = np.random.default_rng(case)
        data_type = ("FLOAT32", "FLOAT16", "INT8", "UINT32", "FLOAT32", "INT16")[case % 6]
        elements, gap = int(np.prod(sizes)), case // 7 % 2
        order = rng.permutation(len(sizes)) if rng.random() < 0.5 else np.arange(len(sizes))
        strides, step = [0] * len(sizes), 1
        for d in reversed(order.tolist()):
            strides[d] = step
            step *= sizes[d]
        operator: Any = operators.find("NONZERO_COORDINATES")
        desc = operator(
            input_tensor=TensorDesc(DataType[data_type], sizes, strides=tuple(strides)),
            output_count_tensor=TensorDesc("UINT32", (1,)),
            output_coordinates_tensor=TensorDesc("UINT32", (elements, columns), strides=(columns + gap, 1)),
        )
        compiled = dml.Device("cpu", isa=isa).compile(desc)
        assert compiled.kernel_name == "order:compiled"
        x = hostile_data.values(data_type, sizes, rng, hostile_data.KINDS[int(rng.integers(len(hostile_data.KINDS)))])
        x[rng.random(sizes) < (0, 0.5, 0.97, 1)[case % 4]] = (0, -0.0)[case % 2]
        arrays, buffers = {}, {}
        for name in ("input_tensor", "output_count_tensor", "output_coordinates_tensor"):
            of = getattr(desc, name)
            arrays[name], buffers[name] = guard_pages.place(
                of.sizes, of.explicit_strides, of.data_type.dtype, at_end=case // 2 % 2 == 0, canary=CANARY
            )
        arrays["input_tensor"][...] = x
        compiled.bind(**arrays).execute()
        wanted = expected(desc, {"input_tensor": x})
        for name in ("output_count_tensor", "output_coordinates_tensor"):
            np.testing.assert_array_equal(arrays[name], wanted[name], err_msg=f"case {case}: {desc}")
            arrays[name][...] = int.from_bytes(bytes([CANARY]) * 4, "little")
            assert (buffers[name] == CANARY).all(), f"case {case} wrote between elements: {desc}"
        outputs += elements * columns
    ran(outputs, 8000)


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


def test_lists_are_matched_by_their_mathematics() -> None:
    x = Tensor("x", (3, 4), DataType.FLOAT32)

    def listed(*, behind: int = 0, decreasing: bool = True, first: int = 0, least: int = 0, added: int = 0) -> Any:
        k, i, line = each(x.sizes), each((12, 2)), each((12,))
        total = Sum(k, as_number(is_true(x[k])))
        key = as_number(is_true(x[unraveled(line[0], x.sizes)]))
        place = rank(line, key, i[0] + first, decreasing=decreasing)
        coordinate = pieces(i[1], range(2), unraveled(place, x.sizes))
        rows = select(number(i[0]) < (total + least if least else total), number(coordinate), behind)
        return {"y": nest(i, rows), "c": nest(each((1,)), total + added if added else total)}

    assert nonzeros(listed()) == Nonzeros("x", "c", "y", 2)
    for others in ({"behind": 1}, {"decreasing": False}, {"first": 1}, {"least": 1}, {"added": 1}):
        assert nonzeros(listed(**others)) == NO_LIST
