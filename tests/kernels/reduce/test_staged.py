"""Outputs that depend on extremes of whole inputs in machine code, such as quantisation by a tensor's own range."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_elementwise_layouts import loose, nested, sizes_of
from test_elementwise_lists import cubes

import guard_pages
from agreement import bits, bits_of, expected
from anydml import DataType, Device, TensorDesc
from anydml.devices.link import link
from anydml.kernels.elementwise import tuning as elementwise_tuning
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.maps import Map
from anydml.kernels.match.rows import Rows
from anydml.kernels.match.several import several
from anydml.kernels.match.staged import Staged, staged
from anydml.kernels.problem import Problem, Promises
from anydml.kernels.reduce import tuning as reduce_tuning
from anydml.kernels.reduce import whole
from anydml.kernels.reference import evaluated
from anydml.operators.dynamic_quantize_linear import DynamicQuantizeLinear
from anydml.schema.expression import Max, Mean, Min, Sum, Tensor, each, over, pow, select
from anydml.schema.node import number
from anydml.schema.statement import Nest, Statement, nest, stated, stored
from every_kernel import SOAK, Ran, without_dot_products
from map_operators import drawn
from tensors import array_for
from tuned import tuned

Array = NDArray[Any]
COMPILED = "reduce:compiled"
F32, F16 = DataType.FLOAT32, DataType.FLOAT16
OUTPUTS = ("output_tensor", "output_scale_tensor", "output_zero_point_tensor")

needs_code = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")


# --- which statements these are ---

SIZES = (4, 300)
I, K = each(SIZES), each(SIZES, "ab")  # an index, and that of a reduction  # noqa: E741
X, Y = Tensor("x", SIZES, F32), Tensor("y", SIZES, F32)
TOP, ALONG = Max(K, X[K]), over(I, SIZES, (1,))


def test_extremes_come_first_then_what_is_made_of_them_then_maps() -> None:
    t = TensorDesc(DataType.UINT8, (5, 7))
    one = TensorDesc(DataType.UINT8, (1, 1))
    scale = TensorDesc(F32, (1, 1))
    desc = DynamicQuantizeLinear(
        input_tensor=TensorDesc(F16, (5, 7)), output_tensor=t, output_scale_tensor=scale, output_zero_point_tensor=one
    )
    found = staged(stated(desc))
    assert isinstance(found, Staged)
    assert [(t.name, t.sizes, t.data_type) for t in found.inner] == [
        ("inner 0", (2,), F16), ("inner 1", (1,), F32), ("inner 2", (1,), DataType.UINT8),
    ]  # fmt: skip
    assert [node.op for node in found.extremes.formula if node.op.startswith("row_")] == ["row_max", "row_min"]
    assert found.extremes.formula[-1].op == "several"
    assert found.extremes.reduced == (5, 7)
    assert [m.target.name for m in found.maps] == ["inner 1", "inner 2", *OUTPUTS]
    read = [{s.name for s in m.streams} for m in found.maps]
    both = {"input_tensor", "inner 1", "inner 2"}
    assert read == [{"inner 0"}, {"inner 0", "inner 1"}, both, {"inner 1"}, {"inner 2"}]


def recurrent() -> Tensor:
    (t,) = stored("T", (3,), F32, lambda i, t: [TOP + t[i]])
    return t


@pytest.mark.parametrize(("made", "reason"), [
    (nest(I, X[I] * 2.0), "nothing depends on a whole input"),
    (nest(I, TOP - Sum(K, X[K])), "an element depends on more than one element of an input"),
    (nest(I, X[I] - Max(K, X[K] * Y[K])), "an extreme is not of elements"),
    (nest(I, X[I] - Max(K, X[K] + 1.0) + Max(K, Tensor("z", SIZES, F16)[K])), "an extreme is not of elements"),
    (nest(I, TOP + Max(K, Tensor("z", SIZES, F16)[K])), "extremes have different types"),
    (nest(I, Max(K, select(number(K[1]) < number(K[0]), X[K], 0))), "an extreme depends on positions"),
    (nest(I, TOP + recurrent()[[0]]), "a tensor depends on its own elements"),
    (nest(I, TOP * Min(ALONG, X[ALONG])), "an element depends on more than one element of an input"),
])  # fmt: skip
def test_what_only_looks_like_stages(made: Nest, reason: str) -> None:
    assert staged({"output": made, "other": nest(I, X[I])}) == reason


def test_outputs_of_rows_beside_maps_are_told_apart() -> None:
    mean = Mean(ALONG, X[ALONG])
    found = several({"output": nest(I, X[I] - mean), "other": nest(I, X[I] * 2.0)})
    assert isinstance(found, dict)
    assert {name: type(f) for name, f in found.items()} == {"output": Rows, "other": Map}
    assert several({"output": nest(I, X[I]), "other": nest(I, X[I] * 2.0)}) == "no output reduces rows"
    again = over(I, SIZES, (0,))
    crossed = nest(I, X[I] - Sum(ALONG, X[ALONG] * Sum(again, X[again])))
    assert several({"output": crossed, "other": nest(I, TOP * 2.0)}) == (
        "output: reductions run over rows of different sizes, and an element depends on more than one element of an input"
    )


# --- quantisation by the range ---


@needs_code
def test_every_example_is_compiled() -> None:
    for example in DynamicQuantizeLinear.spec.examples:
        compiled = Device().compile(DynamicQuantizeLinear(**example.fields))
        assert compiled.kernel_name == COMPILED, example.title
        found = {name: np.zeros_like(x) for name, x in example.outputs.items()}
        compiled.bind(**example.inputs, **found).execute()
        for name, x in example.outputs.items():
            np.testing.assert_array_equal(bits(found[name]), bits(x), f"{example.title}: {name}")


def case(rng: random.Random, real: DataType, to: DataType) -> tuple[Any, dict[str, Array], dict[str, Array]]:
    """A desc, its arrays, and the buffers of the outputs."""
    sizes, generator = sizes_of(rng), np.random.default_rng(rng.randrange(1 << 30))
    steps = nested(rng, sizes) if rng.random() < 0.5 else loose(rng, sizes)
    ones = [1] * len(sizes)
    tensors, arrays, buffers = {}, {}, {}
    for name, data_type, n, strides in (
        ("input_tensor", real, sizes, steps), ("output_tensor", to, sizes, nested(rng, sizes)),
        ("output_scale_tensor", F32, ones, nested(rng, ones)), ("output_zero_point_tensor", to, ones, nested(rng, ones)),
    ):  # fmt: skip
        at_end = rng.random() < 0.5
        tensors[name] = TensorDesc(data_type, tuple(n), strides=tuple(strides))
        arrays[name], buffers[name] = guard_pages.place(n, strides, data_type.dtype, at_end=at_end, canary=0xA5)
    x = arrays["input_tensor"]
    with np.errstate(all="ignore"):
        kind = rng.randrange(6)
        made = drawn(generator, real, x.size) if kind < 2 else generator.standard_normal(x.size).astype(real.dtype)
        if kind == 2:  # ties
            made = (generator.integers(-255, 256, x.size) / 8).astype(real.dtype)
            made.flat[0] = 255 / 8
        made = abs(made) if kind == 3 else -abs(made) if kind == 4 else made
        if rng.random() < 0.2:
            made.flat[rng.randrange(x.size)] = np.nan
    bits_of(x)[...] = bits_of(made).reshape(x.shape)
    return DynamicQuantizeLinear(**tensors), arrays, buffers


@needs_code
@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("real", [F32, F16], ids=str)
def test_any_layout(real: DataType, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, elementwise_tuning, alone=0)
    tuned(monkeypatch, reduce_tuning, alone_whole=0)
    targets, cases, outputs = without_dot_products(), 18 * SOAK, 0
    for k in range(cases):
        desc, arrays, buffers = case(random.Random(k), real, (DataType.UINT8, DataType.INT8)[k % 2])
        compiled = Device(isa=targets[k // 2 % len(targets)].name, threads=1 + k % 3).compile(desc)
        assert compiled.kernel_name == COMPILED, desc
        inputs = {"input_tensor": arrays["input_tensor"]}
        wanted, reference = expected(desc, inputs), evaluated(desc, inputs)
        after = {name: buffer.copy() for name, buffer in buffers.items()}
        for name in OUTPUTS:
            out = arrays[name]
            np.testing.assert_array_equal(bits(reference[name]), bits(wanted[name]))
            bits_of(np.ndarray(out.shape, out.dtype, after[name], strides=out.strides))[...] = bits_of(wanted[name])
            outputs += out.size
        bound = compiled.bind(**arrays)
        for _ in range(2):
            bound.execute()
            for name, buffer in buffers.items():
                np.testing.assert_array_equal(buffer, after[name], f"{k}: {name} of {desc}")
    ran(outputs, 500)


@needs_code
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_range_of_many_elements(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extremes may be anywhere, in shares of different sizes."""
    tuned(monkeypatch, reduce_tuning, alone_whole=1 << 10)
    rng = np.random.default_rng(threads)
    for sizes, axes in (((20011,), (0,)), ((3, 7001), (1, 0)), ((151, 3, 41), (1, 2, 0))):
        x = np.ascontiguousarray(rng.standard_normal(sizes).astype(np.float32).transpose(axes)).transpose(np.argsort(axes))
        one = (1,) * len(sizes)
        desc = DynamicQuantizeLinear(
            input_tensor=TensorDesc.of(x), output_tensor=TensorDesc(DataType.UINT8, sizes),
            output_scale_tensor=TensorDesc(F32, one), output_zero_point_tensor=TensorDesc(DataType.UINT8, one),
        )  # fmt: skip
        compiled = Device(threads=threads).compile(desc)
        assert compiled.kernel_name == COMPILED
        found = {t.name: array_for(t.desc) for t in desc.tensors() if t.name in OUTPUTS}
        bound = compiled.bind(input_tensor=x, **found)
        for at in (0, x.size - 1, (x.size - 1) // threads, x.size // threads - 1, x.size // 2):
            low, high = -9 - rng.random(dtype=np.float32), 9 + rng.random(dtype=np.float32)
            before = x.flat[at], x.flat[-at]
            x.flat[at], x.flat[-at] = low, high
            bound.execute()
            scale = np.float32((np.float64(x.max()) - x.min()) / 255)
            assert found["output_scale_tensor"].item() == scale
            assert found["output_zero_point_tensor"].item() == np.rint(-(x.min() / scale))
            quotients = np.rint(x / scale).astype(int) + found["output_zero_point_tensor"].astype(int)
            np.testing.assert_array_equal(found["output_tensor"], quotients.clip(0, 255))
            x.flat[at], x.flat[-at] = before


# --- other statements ---


def lowered(statement: Statement, threads: int, in_place: frozenset[str] = frozenset()) -> Lowered | Refused:
    tensors = {name: TensorDesc(F32, SIZES) for name in ("x", "y", *statement)}
    return whole.lower(Problem(statement, tensors, Promises(in_place)), Machine(None, threads))


@needs_code
@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_stage_leaves_open_is_decided_before_the_next_begins(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cubes are ties: each of three maps stops repeatedly, with an exponent that is the largest element of an input."""
    tuned(monkeypatch, reduce_tuning, alone_whole=0)
    tuned(monkeypatch, elementwise_tuning, alone=0, room=1)
    largest = Max(K, Y[K])
    (cube,) = stored("Cube", (2,), F32, lambda i, t: [pow(X[0, i[0]], largest)])
    statement = {
        "first": nest(I, pow(X[I], largest)),
        "second": nest(I, pow(X[SIZES[0] - 1 - I[0], I[1]], largest)),
        "third": nest(each(SIZES), number(1) * cube[[1]]),
    }
    answer = lowered(statement, threads)
    assert isinstance(answer, Lowered)
    assert answer.decide is not None
    stops: list[int] = []
    decide = answer.decide

    def counted(scratch: Any, arrays: Any) -> None:
        stops.append(1)
        decide(scratch, arrays)

    inputs, wanted = cubes(np.random.default_rng(3), SIZES)
    x, y = inputs["input_tensor"], np.random.default_rng(4).uniform(-3, 1, SIZES).astype(np.float32)
    found = {name: np.zeros(SIZES, np.float32) for name in statement}
    call = link(answer._replace(decide=counted)).bind({"x": x, "y": y, **found})
    for at in ((0, 0), (3, 299), (1, 7)):
        y[at] = 3
        stops.clear()
        for out in found.values():
            out[...] = 0
        call()
        np.testing.assert_array_equal(found["first"], wanted)
        np.testing.assert_array_equal(found["second"], wanted[::-1])
        np.testing.assert_array_equal(found["third"], np.full(SIZES, wanted[0, 1]))
        assert len(stops) > 3


@needs_code
def test_the_largest_element_alone_and_nan() -> None:
    answer = lowered({"first": nest(I, X[I] - TOP), "second": nest(I, TOP)}, 1)
    assert isinstance(answer, Lowered)
    assert answer.decide is None
    x = np.random.default_rng(3).standard_normal(SIZES).astype(np.float32)
    first, second = np.zeros((2, *SIZES), np.float32)
    call = link(answer).bind({"x": x, "first": first, "second": second})
    call()
    np.testing.assert_array_equal(first, x - x.max())
    assert (second == x.max()).all()
    x[2, 5] = np.nan
    call()
    assert np.isnan(first).all()
    assert np.isnan(second).all()


@needs_code
def test_in_place_the_stages_would_meet() -> None:
    answer = lowered({"first": nest(I, X[I] - TOP), "second": nest(I, TOP)}, 1, frozenset({"InputTensor"}))
    assert answer == Refused("an output that others come after may lie in an input's place")
