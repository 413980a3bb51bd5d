"""Elements at indices that are data: NumPy's results, between guard pages, and nothing is written if an index is invalid."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import guard_pages
from anydml import DataType, TensorDesc, operators
from anydml.exact.philox import philox
from anydml.kernels.code import targets
from anydml.kernels.irregular import family
from anydml.kernels.irregular import tuning as irregular_tuning
from anydml.kernels.irregular.loops import Loop, rounds
from anydml.kernels.kernel import Machine, Refused
from anydml.kernels.match.displaced import displaced
from anydml.kernels.numpy.irregular import positions
from anydml.kernels.numpy.random import words
from anydml.kernels.problem import problem_of
from anydml.schema.operator import Desc
from anydml.schema.statement import stated
from every_kernel import SOAK
from tuned import tuned

ISAS = list({target.vector_bytes: target.name for target in targets.targets()}.values())
INDICES = ("UINT32", "INT32", "UINT64", "INT64")
ELEMENTS = ("UINT8", "FLOAT16", "FLOAT32", "INT64")
Array = NDArray[Any]
Rng = random.Random
CANARY = 0xA5
Case = tuple[str, dict[str, Any], dict[str, Any], Callable[..., Array]]
"""An operator, the sizes of its tensors, its attributes with the indices, and a function with NumPy's result."""

pytestmark = pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")


def desc_of(name: str, sizes: dict[str, tuple[int, ...]], element: str, index: str, **attributes: Any) -> Desc:
    operator = operators.find(name)
    assert operator is not None
    tensors = {
        tensor: TensorDesc(DataType[index if tensor == "indices_tensor" else element], n, strides=strides_of(n))
        for tensor, n in sizes.items()
    }
    return operator(**tensors, **attributes)


def strides_of(sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides with a gap after each row; None, so packed ones, for some sizes."""
    if math.prod(sizes) % 3:
        return None
    found, step = [], 1
    for i, n in enumerate(reversed(sizes)):
        found.append(step)
        step = step * n + (2 if i == 0 else 0)
    return tuple(reversed(found))


def indices(rng: Rng, sizes: tuple[int, ...], limits: tuple[int, ...] | int, index: str) -> Array:
    """Indices of axes, several of them in the last dimension if it is a tuple; signed ones may count from the end."""
    most = np.broadcast_to(np.array(limits), sizes)
    least = -most if index.startswith("I") else np.zeros_like(most)
    values = np.random.default_rng(rng.getrandbits(32)).integers(least, most)
    return values.astype(DataType[index].dtype)


def gather(rng: Rng, index: str) -> Case:
    rank = rng.randint(1, 4)
    sizes = tuple(rng.choice((1, 2, 5, 40)) for _ in range(rank))
    axis, count = rng.randrange(rank), rng.choice((1, 3, 9))
    named = indices(rng, (1,) * (rank - 1) + (count,), sizes[axis], index)
    tensors = {
        "input_tensor": sizes,
        "indices_tensor": named.shape,
        "output_tensor": (*sizes[:axis], count, *sizes[axis + 1 :]),
    }
    return "GATHER", tensors, {"axis": axis, "index_dimensions": 1, "indices": named}, lambda x, j: np.take(x, j.ravel(), axis)


def gather_elements(rng: Rng, index: str) -> Case:
    rank = rng.randint(1, 4)
    sizes = tuple(rng.choice((1, 2, 5, 19)) for _ in range(rank))
    axis = rng.randrange(rank)
    chosen = (*sizes[:axis], rng.choice((1, 4, 11)), *sizes[axis + 1 :])
    named = indices(rng, chosen, sizes[axis], index)
    tensors = {"input_tensor": sizes, "indices_tensor": chosen, "output_tensor": chosen}
    return "GATHER_ELEMENTS", tensors, {"axis": axis, "indices": named}, lambda x, j: np.take_along_axis(x, j, axis)


def gather_nd(rng: Rng, index: str) -> Case:
    sizes, count = tuple(rng.choice((1, 3, 17)) for _ in range(4)), rng.choice((1, 6))
    many = rng.randint(1, 4)
    named = indices(rng, (1, 1, count, many), sizes[:many], index)
    rest = (count, *sizes[many:])
    tensors = {"input_tensor": sizes, "indices_tensor": named.shape, "output_tensor": (1,) * (4 - len(rest)) + rest}
    counts = {"input_dimension_count": 4, "indices_dimension_count": 2}
    return "GATHER_ND", tensors, counts | {"indices": named}, lambda x, j: x[tuple(np.moveaxis(j[0, 0], -1, 0))]


def scatter_elements(rng: Rng, index: str) -> Case:
    _, found, attributes, _ = gather_elements(rng, index)
    tensors = {
        "input_tensor": found["input_tensor"],
        "indices_tensor": found["indices_tensor"],
        "updates_tensor": found["indices_tensor"],
        "output_tensor": found["input_tensor"],
    }

    def scattered(x: Array, j: Array, updates: Array) -> Array:
        y: Array = x.copy()
        axis = attributes["axis"]
        for at in np.ndindex(*j.shape):
            into = list(at)
            into[axis] = int(j[at])
            y[tuple(into)] = updates[at]
        return y

    return "SCATTER_ELEMENTS", tensors, attributes, scattered


def scatter_nd(rng: Rng, index: str) -> Case:
    _, found, attributes, _ = gather_nd(rng, index)
    tensors = {
        "input_tensor": found["input_tensor"],
        "indices_tensor": found["indices_tensor"],
        "updates_tensor": found["output_tensor"],
        "output_tensor": found["input_tensor"],
    }

    def scattered(x: Array, j: Array, updates: Array) -> Array:
        y: Array = x.copy()
        for at, row in zip(j[0, 0], updates.reshape(j.shape[2], *x.shape[j.shape[3] :]), strict=True):
            y[tuple(at)] = row
        return y

    return "SCATTER_ND", tensors, attributes, scattered


def unpooling(rng: Rng, index: str) -> Case:
    sizes, into = (1, rng.choice((1, 3)), 4, rng.choice((1, 5))), (1, rng.choice((1, 3)), 8, 7)
    named = indices(rng, sizes, math.prod(into), "UINT32")

    def scattered(x: Array, j: Array) -> Array:
        y = np.zeros(into, x.dtype)
        for at in np.ndindex(*j.shape):
            y.reshape(-1)[j[at]] = x[at]
        return y

    return (
        "MAX_UNPOOLING",
        {"input_tensor": sizes, "indices_tensor": sizes, "output_tensor": into},
        {"indices": named},
        scattered,
    )


MAKERS = (gather, gather_elements, gather_nd, scatter_elements, scatter_nd, unpooling)


def placed(t: TensorDesc, values: Array, *, at_end: bool) -> Array:
    made, _ = guard_pages.place(t.sizes, t.explicit_strides, t.data_type.dtype, at_end=at_end)
    made[...] = values.reshape(t.sizes)
    return made


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("isa", ISAS)
def test_elements_are_those_that_indices_name(
    isa: str, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, ran: Any
) -> None:
    tuned(monkeypatch, irregular_tuning, alone=64)
    for case in range(24 * SOAK if SOAK > 1 else 12):
        rng = Rng(case)
        element, index = rng.choice(ELEMENTS), INDICES[case % 4]
        name, sizes, attributes, wanted = make(rng, index)
        named = attributes.pop("indices")
        unpools = name == "MAX_UNPOOLING"
        desc = desc_of(name, sizes, "FLOAT32" if unpools else element, "UINT32" if unpools else index, **attributes)
        tensors = {t.name: t.desc for t in desc.tensors()}
        operator = dml.Device(isa=isa, threads=rng.choice((1, 3))).compile(desc)
        assert operator.kernel_name == "irregular:compiled"
        at_end = rng.random() < 0.5
        numbers = np.random.default_rng(case)
        inputs = {
            key: placed(t, named if key == "indices_tensor" else numbers.integers(0, 200, t.sizes), at_end=at_end)
            for key, t in tensors.items()
            if key != "output_tensor"
        }
        t = tensors["output_tensor"]
        output, buffer = guard_pages.place(t.sizes, t.explicit_strides, t.data_type.dtype, at_end=at_end, canary=CANARY)
        operator.bind(**inputs, output_tensor=output).execute()
        limits = np.array(indexed(name, desc))
        places = inputs["indices_tensor"].astype(np.int64)
        others = [x for key, x in inputs.items() if key not in ("input_tensor", "indices_tensor")]
        expected = wanted(inputs["input_tensor"], np.where(places < 0, places + limits, places), *others)
        np.testing.assert_array_equal(output, expected.reshape(t.sizes), err_msg=f"case {case}: {desc}")
        output.view(f"u{output.itemsize}")[...] = int.from_bytes(bytes([CANARY]) * output.itemsize, "little")
        assert (buffer == CANARY).all(), f"case {case} wrote between elements: {desc}"
        refuses(operator, inputs, output, buffer, limits, rng)
    ran(case + 1, 12)


def indexed(name: str, desc: Any) -> Any:
    """The limits of the indices: one size, or one for each index of a tuple."""
    if name == "MAX_UNPOOLING":
        return math.prod(desc.output_tensor.sizes)
    sizes = desc.input_tensor.sizes
    return sizes[: desc.indices_tensor.sizes[-1]] if name.endswith("ND") else sizes[desc.axis]


def refuses(operator: Any, inputs: dict[str, Array], output: Array, buffer: Array, limits: Array, rng: Rng) -> None:
    """An invalid index is an error, and nothing is written."""
    named = inputs["indices_tensor"]
    at = tuple(rng.randrange(n) for n in named.shape)
    limit = int(np.broadcast_to(limits, named.shape)[at])
    most = np.iinfo(named.dtype)
    wrong = [limit, most.max] + ([-limit - 1, most.min] if most.min else [])
    before = named[at]
    named[at] = rng.choice(wrong)
    with pytest.raises(dml.DataError, match="index"):
        operator.bind(**inputs, output_tensor=output).execute()
    assert (buffer == CANARY).all(), "something is written though an index names no place"
    named[at] = before


def test_positions_in_sorted_lines_are_those_of_a_stable_sort(ran: Any) -> None:
    """NumPy's sort of keys and positions in one integer, compared with Python's sort of the numbers; NaN is above infinity."""
    count = 0
    for case in range(60 * SOAK):
        rng = np.random.default_rng(case)
        dtype = np.dtype(("float16", "float32", "int8", "uint32", "int64", "uint64")[case % 6])
        n = int(rng.choice((1, 3, 40)))
        if dtype.kind == "f":
            line = rng.choice(np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1, -1, 2, -3], dtype), n)
        else:
            limits = np.iinfo(dtype)
            line = rng.choice(np.array([0, 1, limits.min, limits.max, limits.max - 1], dtype), n)
        for decreasing in (False, True):
            keys = [(x != x, 0 if x != x else x) for x in line.tolist()]
            wanted = sorted(range(n), key=keys.__getitem__, reverse=decreasing)
            first = int(rng.integers(1, n + 1))
            found = positions(np.stack([line, line]), first, decreasing=decreasing)
            assert found.tolist() == [wanted[:first]] * 2
            count += 1
    ran(count, 120)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", [1, 3])
def test_random_words_are_compiled(isa: str, threads: int) -> None:
    """More words than one thread's share, from counters with carries, in order and otherwise; and the state afterwards."""
    operator: Any = operators.find("RANDOM_GENERATOR")
    low = (2**32 - 9, 2**32 - 1, 2**32 - 1, 2**32 - 1)
    for case, sizes in enumerate(((1,), (3, 7), (1, 2, 5, 13), (5, 40_000))):
        strides = (1, 7) if case == 1 else (40_003, 1) if case == 3 else None
        t, six = TensorDesc("UINT32", sizes, strides=strides), TensorDesc("UINT32", (1, 6))
        after = six if case % 2 else None
        desc = operator(input_state_tensor=six, output_tensor=t, output_state_tensor=after)
        compiled = dml.Device(isa=isa, threads=threads).compile(desc)
        assert compiled.kernel_name == "random:compiled"
        state = np.array([[*low, 3, 2**31 + case]], np.uint32)
        arrays = {
            "output_tensor": guard_pages.place(sizes, t.explicit_strides, np.dtype(np.uint32), at_end=True, canary=CANARY)[0]
        }
        if after is not None:
            arrays["output_state_tensor"] = np.empty((1, 6), np.uint32)
        compiled.bind(input_state_tensor=state, **arrays).execute()
        counter, key = (sum(int(w) << 32 * k for k, w in enumerate(part)) for part in (state[0, :4], state[0, 4:]))
        np.testing.assert_array_equal(arrays["output_tensor"].ravel(), words(counter, key, math.prod(sizes)))
        if after is not None:
            end = (counter + -(-math.prod(sizes) // 4)) % 2**128
            ended = [*(end >> 32 * k & 2**32 - 1 for k in range(4)), *state[0, 4:].tolist()]
            assert arrays["output_state_tensor"].ravel().tolist() == ended


def test_random_words_follow_any_counter() -> None:
    key = 0x0123456789ABCDEF
    for counter in (0, 5, 2**64 - 2, 2**127 + 12345, 2**128 - 3):
        wanted = [word for block in range(5) for word in philox((counter + block) % 2**128, key)]
        assert words(counter, key, 19).tolist() == wanted[:19]


def test_without_a_rule_about_data_indices_are_left_to_others() -> None:
    """With an index that is out of range, a line of ONE_HOT has no On; this is not an error."""
    operator: Any = operators.find("ONE_HOT")
    desc = operator(
        indices_tensor=TensorDesc(DataType.UINT64, (3, 1)),
        values_tensor=TensorDesc(DataType.FLOAT32, (1, 2)),
        output_tensor=TensorDesc(DataType.FLOAT32, (3, 4)),
        axis=1,
    )
    compiled = dml.Device().compile(desc)
    assert compiled.kernel_name == "irregular:numpy"
    output = np.empty((3, 4), np.float32)
    indices = np.array([[2], [2**64 - 1], [2**63]], np.uint64)
    compiled.bind(indices_tensor=indices, values_tensor=np.array([[4, 9]], np.float32), output_tensor=output).execute()
    np.testing.assert_array_equal(output, [[4, 4, 9, 4], [4] * 4, [4] * 4])


def test_indices_that_may_name_no_place_are_left_to_others() -> None:
    """ONE_HOT sets an element if its index is valid, and no rule requires that indices are within the axis."""
    indices, values, output = (TensorDesc(t, n) for t, n in (("UINT32", (3, 1)), ("FLOAT32", (1, 2)), ("FLOAT32", (3, 4))))
    desc = dml.OneHot(indices_tensor=indices, values_tensor=values, output_tensor=output, axis=1)
    assert not isinstance(displaced(stated(desc)), str)
    refused = family.lower(problem_of(dml.check(desc)), Machine(None, 1))
    assert isinstance(refused, Refused)
    assert "no data rule" in refused.reason


def test_loops_that_are_cut_into_calls_take_every_turn() -> None:
    def taken(loops: list[Loop]) -> set[tuple[int, ...]]:
        found: set[tuple[int, ...]] = {(0, 0)}
        for loop in loops:
            steps = [tuple(k * s for s in loop.strides) for k in range(loop.turns)]
            found = {(x[0] + step[0], x[1] + step[1]) for x in found for step in steps}
        return found

    for rows in (1, 2, 7, 23):
        for columns in (1, 5, 12):
            loops = [Loop(rows, (0, 1)), Loop(columns, (1, 0))]
            for most in (1, 2, 4, 9, 30, 400):
                outer, inner = rounds(loops, most)
                assert taken([*outer, *inner]) == taken(loops)
                assert math.prod(loop.turns for loop in inner) <= 2 * most
