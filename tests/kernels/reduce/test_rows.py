"""Kernels of rows, compared with the exact reference: every operator, type and instruction set, any layout, undecided
elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray

import anydml as dml
import guard_pages
import hostile_data
from agreement import bits
from anydml import DataType, TensorDesc, operators
from anydml.errors import DescError
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.emit import arguments, kernel
from anydml.kernels.code.targets import Target, named
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.match.rows import rows
from anydml.kernels.reduce import doubled, layout, softmax
from anydml.kernels.reduce import tuning as reduce_tuning
from anydml.kernels.reference import evaluated
from anydml.schema.check import check
from anydml.schema.expression import Max, Sum, Tensor, each, exp, over, rank
from anydml.schema.operator import Desc
from anydml.schema.statement import move, nest, stated
from every_kernel import SOAK, without_dot_products
from tuned import tuned

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

FUNCTIONS = ["SUM", "AVERAGE", "L1", "L2", "LOG_SUM", "LOG_SUM_EXP", "MAX", "MIN", "ARGMAX", "ARGMIN", "SUM_SQUARE", "MULTIPLY"]
MAPPED = ("ACTIVATION_SOFTMAX1", "ACTIVATION_LOG_SOFTMAX1", "ACTIVATION_HARDMAX1")
EVERY = (*MAPPED, *FUNCTIONS)
TYPES = [t for t in DataType if t.element_bits >= 8 and t != DataType.BFLOAT16]
ISAS = [row.name for row in without_dot_products()]
F32 = DataType.FLOAT32


def desc_of(
    name: str, data_type: DataType, sizes: Sequence[int], axes: Sequence[int], strides: Sequence[int] | None = None,
    out: Sequence[int] | None = None,
) -> Desc | None:  # fmt: skip
    """The desc of an operator, or of a function of REDUCE; None if it does not take the data type."""
    x = TensorDesc(data_type, tuple(sizes), strides=strides)
    if name in MAPPED:
        fields: dict[str, Any] = {}
        result, sizes = data_type, tuple(sizes)
    else:
        name, fields = "REDUCE", {"function": name}
        result = DataType.INT64 if fields["function"].startswith("ARG") else data_type
        sizes = tuple(1 if a in axes else n for a, n in enumerate(sizes))
    y = TensorDesc(result, sizes, strides=out)
    kind: Any = operators.find(name)
    desc: Desc = kind(input_tensor=x, output_tensor=y, axes=tuple(axes), **fields)
    try:
        check(desc)
    except DescError:
        return None
    return desc


def drawn(data_type: DataType, sizes: Sequence[int], seed: int) -> Iterator[NDArray[Any]]:
    """Hostile data of every kind, and rows with large numbers, infinities, and a single element that matters."""
    rng = np.random.default_rng(seed)
    for kind in hostile_data.KINDS:
        yield hostile_data.values(data_type.name, tuple(sizes), rng, kind)
    if data_type.dtype.kind == "f":
        yield (rng.standard_normal(sizes) * 30).astype(data_type.dtype)
        masked = (rng.standard_normal(sizes) * 3).astype(data_type.dtype)
        yield np.where(rng.random(sizes) < 0.6, data_type.dtype.type(-np.inf), masked)
        yield masked - data_type.dtype.type(3e4)
        yield np.zeros(sizes, data_type.dtype)


def executed(desc: Any, x: NDArray[Any], isa: str | None = None, threads: int = 1) -> NDArray[Any]:
    compiled = dml.Device("cpu", isa=isa, threads=threads).compile(desc)
    assert compiled.kernel_name == "reduce:compiled"
    y = np.full(desc.output_tensor.sizes, 85, desc.output_tensor.data_type.dtype)
    compiled.bind(input_tensor=x, output_tensor=y).execute()
    return y


def exact(desc: Any, x: NDArray[Any]) -> NDArray[Any]:
    return evaluated(desc, {"input_tensor": x})["output_tensor"]


def same(have: NDArray[Any], want: NDArray[Any]) -> None:
    assert bits(have).tobytes() == bits(want).tobytes()


# --- results ---


@pytest.mark.parametrize("name", ["MAX", "MIN", "ARGMAX", "ARGMIN", "SUM"])
@pytest.mark.parametrize("strides", [(0, 5, 1), (0, 0, 1), (0, 1, 0), (5, 0, 1), (5, 1, 0), (0, 0, 0)])
@pytest.mark.parametrize("axes", [(1, 2), (0, 1, 2), (0, 2)])
def test_elements_that_rows_have_again_and_again(name: str, strides: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """They count in sums and positions, and have no effect on extremes."""
    desc = desc_of(name, F32, (3, 4, 5), axes, strides)
    for n, memory in enumerate(drawn(F32, (20,), 3)):
        if SOAK > 1 or n % 3 == axes[0]:
            x = np.lib.stride_tricks.as_strided(memory, (3, 4, 5), [4 * s for s in strides])
            same(executed(desc, x), exact(desc, x))


@pytest.mark.parametrize("name", ["ARGMAX", "ARGMIN"])
@pytest.mark.parametrize("strides", [(0, 5, 1), (0, 0, 1), (5, 0, 1), (5, 1, 0), (0, 0, 0)])
def test_the_last_place_of_elements_that_rows_have_again_and_again(name: str, strides: tuple[int, ...]) -> None:
    """It is in the last repetition."""
    kind: Any = operators.find(name)
    memory = np.arange(20, dtype=np.float32) * 7 % 5
    x = np.lib.stride_tricks.as_strided(memory, (3, 4, 5), [4 * s for s in strides])
    for axes in ((1, 2), (0, 1, 2), (0, 2), (2,)):
        sizes = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
        desc = kind(
            input_tensor=TensorDesc(F32, x.shape, strides=strides), output_tensor=TensorDesc(DataType.INT64, sizes),
            axes=axes, axis_direction="DECREASING",
        )  # fmt: skip
        rows = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(*(n for a, n in enumerate(x.shape) if a not in axes), -1)
        backwards = rows[..., ::-1]
        places = rows.shape[-1] - 1 - (backwards.argmax(-1) if name == "ARGMAX" else backwards.argmin(-1))
        assert executed(desc, x).ravel().tolist() == places.ravel().tolist()


def test_the_place_of_the_largest_of_very_many_equal_elements() -> None:
    desc = desc_of("ARGMAX", F32, (2, 1 << 20, 1 << 20, 3), (1, 2, 3), (3, 0, 0, 1))
    x = np.broadcast_to(np.array([1, 3, 2, 5, 5, 6], np.float32).reshape(2, 1, 1, 3), (2, 1 << 20, 1 << 20, 3))
    assert executed(desc, x).ravel().tolist() == [1, 2]  # at once


@pytest.mark.parametrize("name", EVERY)
def test_every_type_and_instruction_set_gives_the_exact_result(name: str) -> None:
    taken = 0
    for turn, data_type in enumerate(TYPES, EVERY.index(name)):
        isas = ISAS if SOAK > 1 else ISAS[turn % len(ISAS) :][:1]
        desc = desc_of(name, data_type, (3, 21), (1,))
        if desc is None or data_type == DataType.FLOAT64:
            continue
        for x in drawn(data_type, (3, 21), 1):
            want = exact(desc, x)
            for isa in isas:
                same(executed(desc, x, isa), want)
                taken += 1
    assert taken


@pytest.mark.parametrize("name", ["ACTIVATION_SOFTMAX1", "ACTIVATION_LOG_SOFTMAX1", "SUM", "LOG_SUM_EXP", "ARGMIN"])
@pytest.mark.parametrize("width", [1, 2, 8, 33, 130])
def test_rows_of_any_length(name: str, width: int) -> None:
    desc = desc_of(name, F32, (2, width), (1,))
    for x in drawn(F32, (2, width), width):
        same(executed(desc, x), exact(desc, x))


LAYOUTS = [  # sizes, axes, strides of the input and of the output
    ((2, 5, 3), (1,), None, None),
    ((2, 5, 3), (0,), None, None),
    ((2, 3, 4, 5), (2, 3), None, None),
    ((2, 3, 4), (0, 1, 2), None, None),
    ((3, 10), (1,), (1, 3), None),
    ((3, 10), (1,), (0, 1), (11, 1)),
    ((3, 10), (1,), (1, 0), (10, 1)),
    ((3, 10), (1,), (30, 3), (1, 5)),
    ((2, 1, 7, 1), (1, 2), None, None),
    ((2, 1, 7, 1), (1,), None, None),
]


@pytest.mark.parametrize("name", ["ACTIVATION_SOFTMAX1", "ACTIVATION_HARDMAX1", "SUM", "MAX", "ARGMAX"])
@pytest.mark.parametrize(("sizes", "axes", "strides", "out"), LAYOUTS)
def test_any_layout_between_unmapped_pages(
    name: str, sizes: tuple[int, ...], axes: tuple[int, ...], strides: tuple[int, ...] | None, out: tuple[int, ...] | None
) -> None:
    between_pages(name, F32, sizes, axes, strides, out)


def between_pages(
    name: str,
    data_type: DataType,
    sizes: Sequence[int],
    axes: Sequence[int],
    strides: Sequence[int] | None,
    out: Sequence[int] | None,
    isa: str | None = None,
) -> None:  # Tensors at the beginning and at the end of mapped memory, and between bytes that must not change.
    """Tensors at the start and at the end of mapped memory, and between bytes that stay what they are."""
    out = out if name in MAPPED else None
    check_between_pages(desc_of(name, data_type, sizes, axes, strides, out), isa)


def check_between_pages(desc: Any, isa: str | None = None) -> None:
    compiled = dml.Device("cpu", isa=isa, threads=1).compile(desc)
    assert compiled.kernel_name == "reduce:compiled"
    x, y = desc.input_tensor, desc.output_tensor
    for at_end in (False, True) if guard_pages.AVAILABLE else ():
        given, _ = guard_pages.place(x.sizes, x.explicit_strides, x.data_type.dtype, at_end=at_end)
        given[...] = hostile_data.values(x.data_type.name, x.sizes, np.random.default_rng(3), "ordinary")
        found, buffer = guard_pages.place(y.sizes, y.explicit_strides, y.data_type.dtype, at_end=at_end, canary=0x5A)
        compiled.bind(input_tensor=given, output_tensor=found).execute()
        want = exact(desc, given)
        same(np.ascontiguousarray(found), want)
        found[...] = 0
        left = buffer[buffer != 0]
        assert (left == 0x5A).all()
        assert left.size == buffer.size - found.nbytes


# --- rows that lie across the tensor ---

ACROSS = [  # sizes, axes, strides of the input and of the output
    ((37, 18), (0,), None, None),
    ((2, 19, 35), (1,), None, None),
    ((3, 6, 17), (0, 1), None, None),
    ((17, 16), (0,), (19, 1), (16, 1)),
    ((17, 19), (0,), (1, 17), (19, 1)),
    ((17, 19), (0,), (19, 1), (1, 17)),
    ((18, 19), (1,), (1, 20), (1, 18)),
    ((16, 33), (0,), (0, 1), None),
]


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The streams that are copied to memory first, for each desc."""
    found: list[tuple[int, ...]] = []
    choose = layout._staged

    def noting(*args: Any) -> Any:
        made = choose(*args)
        found.append(made[0])
        return made

    monkeypatch.setattr(layout, "_staged", noting)
    return found


def turned(name: str, data_type: DataType, x: NDArray[Any]) -> NDArray[Any]:
    """The result along the first axis, computed from contiguous rows, which other tests compare with the exact one."""
    across = np.ascontiguousarray(np.moveaxis(x, 0, -1))
    desc = desc_of(name, data_type, across.shape, (x.ndim - 1,))
    return np.ascontiguousarray(np.moveaxis(executed(desc, across), -1, 0))


@pytest.mark.parametrize("name", ["ACTIVATION_SOFTMAX1", "ACTIVATION_HARDMAX1", "SUM", "ARGMAX"])
@pytest.mark.parametrize(("sizes", "axes", "strides", "out"), ACROSS)
def test_rows_across_between_unmapped_pages(
    name: str, sizes: tuple[int, ...], axes: tuple[int, ...], strides: tuple[int, ...] | None, out: tuple[int, ...] | None,
    staged: list[tuple[int, ...]],
) -> None:  # fmt: skip
    between_pages(name, F32, sizes, axes, strides, out if name in MAPPED else None)
    assert bool(staged[0]) == (name in MAPPED or strides not in ((0, 1), (1, 17)))


@pytest.mark.parametrize("isa", ISAS)
def test_rows_across_of_every_size_of_elements(isa: str, staged: list[tuple[int, ...]]) -> None:
    for name, data_type in [
        ("ACTIVATION_LOG_SOFTMAX1", F32), ("ACTIVATION_SOFTMAX1", DataType.FLOAT16), ("MAX", DataType.INT8),
        ("ARGMIN", DataType.UINT16), ("SUM", DataType.INT64),
    ]:  # fmt: skip
        between_pages(name, data_type, (67, 69), (0,), None, None, isa)
    assert all(staged)


@pytest.mark.parametrize("name", EVERY)
def test_rows_across_are_the_rows_along(name: str, staged: list[tuple[int, ...]]) -> None:
    for data_type in (F32, DataType.FLOAT16, DataType.INT64):
        desc = desc_of(name, data_type, (35, 41), (0,))
        if desc is not None:
            for x in drawn(data_type, (35, 41), 6):
                same(executed(desc, x), turned(name, data_type, x))
    assert any(staged)


def test_rows_across_in_shares(staged: list[tuple[int, ...]]) -> None:
    x = np.random.default_rng(5).standard_normal((128, 301)).astype(np.float32)
    for name in ("ACTIVATION_SOFTMAX1", "AVERAGE"):
        desc = desc_of(name, F32, x.shape, (0,))
        for threads in (1, 3, 40):
            same(executed(desc, x, threads=threads), turned(name, F32, x))
    assert staged[0] == (0, 1)


def test_rows_across_too_long_to_stage(monkeypatch: pytest.MonkeyPatch, staged: list[tuple[int, ...]]) -> None:
    tuned(monkeypatch, reduce_tuning, staged=1 << 10)
    x = np.random.default_rng(5).standard_normal((64, 64)).astype(np.float32)
    same(executed(desc_of("SUM", F32, x.shape, (0,)), x), turned("SUM", F32, x))
    assert staged[0] == ()


def test_rows_in_shares_are_the_same_rows() -> None:
    x = np.random.default_rng(5).standard_normal((301, 128)).astype(np.float32)
    for name in ("ACTIVATION_SOFTMAX1", "AVERAGE"):
        desc = desc_of(name, F32, x.shape, (1,))
        same(executed(desc, x, threads=3), executed(desc, x, threads=1))


def test_rows_too_long_to_keep_their_powers() -> None:
    width = 2 * layout.KEPT + 3
    x = np.full((1, width), -200, np.float32)
    x[0, ::5000] = np.arange(len(x[0, ::5000]))
    long = desc_of("ACTIVATION_SOFTMAX1", F32, x.shape, (1,))
    short = desc_of("ACTIVATION_SOFTMAX1", F32, (1, len(x[0, ::5000])), (1,))
    found = executed(long, x)
    assert np.count_nonzero(found) <= len(x[0, ::5000])
    same(found[:, ::5000], exact(short, x[:, ::5000].copy()))  # the other elements, with e^-200 each, have no effect


def test_extremes_of_rows_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    width = (1 << 24) + 5
    tuned(monkeypatch, reduce_tuning, longest=1 << 24)
    x = np.random.default_rng(9).standard_normal((1, width)).astype(np.float16)
    x[0, width - 2] = 100
    assert executed(desc_of("MAX", DataType.FLOAT16, x.shape, (1,)), x).item() == 100
    assert executed(desc_of("ARGMAX", DataType.FLOAT16, x.shape, (1,)), x).item() == width - 2
    added = desc_of("SUM", DataType.FLOAT16, x.shape, (1,))
    assert added is not None
    assert dml.Device().compile(added).kernel_name == "nests:compiled"


# --- undecided elements ---


@pytest.mark.parametrize("room", [2, 8, 1 << 10])
def test_elements_left_open_are_decided_exactly(room: int, monkeypatch: pytest.MonkeyPatch, in_python: list[int]) -> None:
    for name in ("EXP_REL", "PICKED_REL"):  # correct bounds that decide little
        monkeypatch.setattr(softmax, name, 2.0**-24)
    monkeypatch.setattr(doubled, "_SHARE", 2.0**-24)
    tuned(monkeypatch, reduce_tuning, room=room)
    desc = desc_of("ACTIVATION_SOFTMAX1", F32, (7, 19), (1,))
    x = np.random.default_rng(7).standard_normal((7, 19)).astype(np.float32)
    same(executed(desc, x), exact(desc, x))
    assert sum(in_python) >= 40
    assert (len(in_python) > 1) == (room < 1 << 10)


@pytest.mark.parametrize("room", [2, 50, 1 << 10])
@pytest.mark.parametrize("threads", [1, 2])
def test_elements_left_open_across_are_decided_exactly(
    room: int, threads: int, monkeypatch: pytest.MonkeyPatch, in_python: list[int], staged: list[tuple[int, ...]]
) -> None:
    """A call that stops has stored the rows that are done, and no others."""
    for name in ("EXP_REL", "PICKED_REL"):  # some elements of every row are undecided
        monkeypatch.setattr(softmax, name, 2.0**-27)
    monkeypatch.setattr(doubled, "_SHARE", 2.0**-27)
    tuned(monkeypatch, reduce_tuning, room=room)
    tuned(monkeypatch, reduce_tuning, alone=1)
    x = np.random.default_rng(7).standard_normal((19, 41)).astype(np.float32)
    desc = desc_of("ACTIVATION_SOFTMAX1", F32, x.shape, (0,))
    same(executed(desc, x, threads=threads), exact(desc, x))
    assert staged[0] == (0, 1)
    assert sum(in_python) >= 100
    assert (len(in_python) > 2 * threads) == (room < 1 << 10)


def test_a_call_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, in_python: list[int]) -> None:
    for name in ("EXP_REL", "PICKED_REL"):
        monkeypatch.setattr(softmax, name, 2.0**-24)
    monkeypatch.setattr(doubled, "_SHARE", 2.0**-24)
    tuned(monkeypatch, reduce_tuning, room=4)
    desc: Any = desc_of("ACTIVATION_SOFTMAX1", F32, (9, 11), (1,))
    x, y = np.ones((9, 11), np.float32), np.zeros((9, 11), np.float32)
    bound = dml.Device("cpu", threads=2).compile(desc).bind(input_tensor=x, output_tensor=y)
    for seed in range(3):
        x[...] = np.random.default_rng(seed).standard_normal(x.shape)
        bound.execute()
        same(y, exact(desc, x))
    assert sum(in_python) > 60


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("sizes", "axes"), [((7, 37), (1,)), ((3, 5, 11), (0, 2))])
def test_what_float64_leaves_open_of_a_softmax_is_decided_in_pairs(
    isa: str, sizes: tuple[int, ...], axes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, in_python: list[int]
) -> None:
    for name in ("EXP_REL", "PICKED_REL"):  # nearly everything is undecided
        monkeypatch.setattr(softmax, name, 2.0**-20)
    rng = np.random.default_rng(8)
    for data_type in (F32, DataType.FLOAT16):
        desc = desc_of("ACTIVATION_SOFTMAX1", data_type, sizes, axes)
        for factor in (1, 20, 300):
            x = (rng.standard_normal(sizes) * factor).astype(data_type.dtype)
            same(executed(desc, x, isa), exact(desc, x))
    assert not in_python


RECORDED = 0.005  # the largest error of a power in pairs, divided by its bound


@pytest.mark.parametrize("isa", ISAS)
def test_powers_in_pairs_are_within_their_bound(isa: str) -> None:
    target = named(isa)
    assert target is not None
    lanes, steps = 4, 400
    wide = Kind("double", lanes)

    def emitted(target: Target) -> str:
        body = Body(target)
        arguments(body, ("x", "high", "low", "n"), {"x", "high", "low"})
        shares = softmax.Shares(body, body.constant(wide, 100.0))

        def one(i: str, _: list[Value]) -> list[Value]:
            at = body.op(f"mul i64 {i}, {8 * lanes}")
            high, low = doubled.power(shares, body.loaded(wide, body.at("%x", at)))
            body.stored(high, body.at("%high", at))
            body.stored(low, body.at("%low", at))
            return []

        body.loop("0", "%n", 1, [], one)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    x = np.linspace(-19.9, 100, lanes * steps).astype(np.float32).astype(np.float64)
    made = np.zeros((2, x.size))
    numbers = np.array([x.ctypes.data, made[0].ctypes.data, made[1].ctypes.data, steps], np.int64)
    prepared([table(engine.compiled(emitted, target), numbers[None])], target, (x, made, numbers))()
    largest = 0.0
    with ctx.workprec(200):
        k = round(100 / math.log(2))
        for a, high, low in zip(x.tolist(), *made.tolist(), strict=True):
            error = (arb(high) + arb(low)) * arb(2) ** k / arb(a).exp() - 1
            largest = max(largest, float(abs(error).upper()) / doubled._POWER)
            assert abs(low) <= abs(high) * 2.0**-52
    assert RECORDED / 3 < largest < RECORDED * 3


def test_sums_on_ties_and_zero_sums_are_decided_by_machine_code(in_python: list[int]) -> None:
    rng = np.random.default_rng(2)
    for name in ("SUM", "AVERAGE", "L1"):
        desc = desc_of(name, F32, (64, 64), (1,))
        for kind in ("ordinary", "ties", "cancelling", "small"):
            x = hostile_data.values("FLOAT32", (64, 64), rng, kind)
            if kind == "cancelling":
                x = np.concatenate([x[:, :32], -x[:, :32]], axis=1)
            same(executed(desc, x), exact(desc, x))
    assert not in_python


def test_products_beyond_float64_are_decided_by_machine_code(in_python: list[int]) -> None:
    desc = desc_of("MULTIPLY", F32, (2, 40), (1,))
    x = np.full((2, 40), 1e30, np.float32)
    x[:, ::2] = 1e-30
    x[1, :20] = 1e38
    same(executed(desc, x), exact(desc, x))
    assert not in_python


def test_the_sign_of_a_zero_sum() -> None:
    desc = desc_of("SUM", F32, (3, 9), (1,))
    x = np.full((3, 9), -0.0, np.float32)
    x[1, 4] = 0.0
    x[2, 3:5] = 1, -1
    found = executed(desc, x)
    assert np.signbit(found[:, 0]).tolist() == [True, False, False]
    same(found, exact(desc, x))


# --- patterns ---


def matched(sizes: Sequence[int], axes: Sequence[int], body: Any, moves: bool = False) -> Any:
    x = Tensor("x", sizes, F32)
    i = each(sizes)
    made = body(i, over(i, sizes, axes), x)
    return rows({"y": move(i, made) if moves else nest(i, made)})


def test_rows_are_found_in_other_words() -> None:
    """The same mathematics, with reductions over their own variables."""

    def apart(i: Any, k: Any, x: Any) -> Any:
        other = over(i, x.sizes, (1,))
        return exp(x[i] - Max(k, x[k])) / Sum(other, exp(x[other] - Max(k, x[k])))

    found = matched((4, 6), (1,), apart)
    assert found.kept == (4,)
    assert found.reduced == (6,)
    assert found.mapped
    assert softmax.powers(found.formula) is not None
    (desc,) = [desc_of("ACTIVATION_SOFTMAX1", F32, (4, 6), (1,))]
    (statement,) = [rows(stated(desc))]
    assert not isinstance(statement, str)
    assert statement.formula == found.formula


def test_what_is_no_softmax_is_not_taken_for_one() -> None:
    twice = matched((4, 6), (1,), lambda i, k, x: exp(x[i] - Max(k, x[k])) / Sum(k, exp(x[k] - Max(k, x[k])) * 2))
    assert softmax.powers(twice.formula) is None
    bare = matched((4, 6), (1,), lambda i, k, x: exp(x[i]) / Sum(k, exp(x[k])))
    assert softmax.powers(bare.formula) is None


@pytest.mark.parametrize(
    ("axes", "body", "why"),
    [
        ((1,), lambda i, k, x: x[i] + 1, "nothing is reduced"),
        ((1,), lambda i, k, x: x[rank_at(i, k, x)], "a row is sorted"),
        ((1,), lambda i, k, x: Sum(k, x.or_else([k[0], k[1] + 1], 0)), "not one of an input"),
        ((1,), lambda i, k, x: Sum(k, Sum(over(i, x.sizes, (0,)), x[[k[1] - k[1], k[1]]])), "another reduction"),
        ((0, 1), lambda i, k, x: Sum(k, x[k]) * Sum(over(i, x.sizes, (1,)), x[over(i, x.sizes, (1,))]), ""),
    ],
)
def test_what_looks_like_rows_and_is_something_else(axes: tuple[int, ...], body: Any, why: str) -> None:
    found = matched((4, 4), axes, body)
    assert isinstance(found, str)
    assert why in found


def rank_at(i: Any, k: Any, x: Any) -> Any:
    return [i[0], rank(k, x[k], i[1], decreasing=True)]


@pytest.mark.parametrize("name", EVERY)
def test_axes_that_are_apart(name: str) -> None:
    for sizes, axes in [((3, 2, 19), (0, 2)), ((2, 3, 2, 2, 3), (0, 2, 4)), ((5, 2, 1, 8), (0, 2, 3))]:
        desc = desc_of(name, F32, sizes, axes)
        for x in drawn(F32, sizes, 4):
            same(executed(desc, x), exact(desc, x))
