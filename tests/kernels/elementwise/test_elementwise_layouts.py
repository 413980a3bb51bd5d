"""Maps in machine code with every layout: the reference's bits, between unmapped pages, and nothing else is written."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import guard_pages
from agreement import bits, bits_of
from anydml import DataType, Device, TensorDesc, check, operators
from anydml.devices.compiled import CompiledOperator
from anydml.devices.link import link
from anydml.kernels.code import engine
from anydml.kernels.elementwise import emit, family
from anydml.kernels.elementwise import tuning as elementwise_tuning
from anydml.kernels.elementwise.key import MapKey
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS, STRIDED
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.problem import problem_of
from anydml.kernels.reference import evaluated
from anydml.schema.expression import Indices, Tensor, each
from anydml.schema.field import INPUT
from anydml.schema.node import number
from anydml.schema.operator import Desc
from anydml.schema.statement import nest
from every_kernel import SOAK, Ran, without_dot_products
from map_operators import drawn, of_types
from tuned import tuned

Array = NDArray[Any]
COMPILED = "elementwise:compiled"
ISAS = [t.name for t in without_dot_products()]
F32, F16, F64 = DataType.FLOAT32, DataType.FLOAT16, DataType.FLOAT64

pytestmark = pytest.mark.skipif(not ISAS, reason="no code is emitted for this processor")
every_isa = pytest.mark.parametrize("isa", ISAS)
# operators with the types of their tensors: of every width, with one to three inputs, with and without lists
SAMPLES: tuple[tuple[str, tuple[DataType, ...]], ...] = (
    ("ELEMENT_WISE_ADD", (F32, F32, F32)),
    ("ELEMENT_WISE_POW", (F32, F32, F32)),
    ("ELEMENT_WISE_EXP", (F16, F16)),
    ("CAST", (DataType.INT16, F64)),
    ("CAST", (F32, DataType.INT8)),
    ("ELEMENT_WISE_IF", (DataType.UINT8, DataType.INT64, DataType.INT64, DataType.INT64)),
    ("ELEMENT_WISE_QUANTIZE_LINEAR", (F32, F32, DataType.UINT8, DataType.UINT8)),
    ("ELEMENT_WISE_LOGICAL_LESS_THAN", (F16, F16, DataType.UINT32)),
    ("ELEMENT_WISE_BIT_AND", (DataType.UINT16, DataType.UINT16, DataType.UINT16)),
    ("ACTIVATION_SIGMOID", (F32, F32)),
    ("FILL_VALUE_CONSTANT", (F32,)),
)


class Layout(NamedTuple):
    """A desc, its arrays by name, and the buffer that the output fills."""

    desc: Desc
    arrays: dict[str, Array]
    buffer: NDArray[np.uint8]


def named(name: str) -> Any:
    """The desc class of an operator."""
    found = operators.find(name)
    assert found is not None, f"there is no {name}"
    return found


def example_with(name: str, types: tuple[DataType, ...]) -> Desc:
    """The first example of an operator that has this many tensors, with tensors of these types and one element."""
    operator = named(name)
    for e in operator.spec.examples:
        example = operator(**e.fields)
        there = [f.wire for f in operator.spec.tensors if getattr(example, f.name) is not None]
        if len(there) == len(types):
            return of_types(example, dict(zip(there, types, strict=True)), (1,)).desc
    raise AssertionError(f"no example of {name} has {len(types)} tensors")


def sizes_of(rng: random.Random) -> list[int]:
    rank = rng.choice((1, 2, 2, 3, 3, 4, 5, 6, 8))
    sizes = [rng.choice((1, 2, 3, rng.randint(1, (0, 400, 90, 14, 8, 6, 4, 3, 3)[rank]))) for _ in range(rank)]
    while prod(sizes) > 700:
        sizes[sizes.index(max(sizes))] //= 2
    return sizes


def nested(rng: random.Random, sizes: list[int]) -> list[int]:
    """Strides in any order of the dimensions, sometimes with a gap."""
    order = list(range(len(sizes)))
    if rng.random() < 0.5:
        rng.shuffle(order)
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        if rng.random() < 0.25:
            step += rng.randint(1, 9)
        strides[d] = step
        step *= sizes[d]
    return strides


def loose(rng: random.Random, sizes: list[int]) -> list[int]:
    """Strides that repeat dimensions, or let rows overlap."""
    if rng.random() < 0.3:
        return [rng.choice((0, 1, 2, 5)) for _ in sizes]
    return [s if rng.random() < 0.6 else 0 for s in nested(rng, sizes)]


def layout(rng: random.Random, example: Desc) -> Layout:
    """A desc with random sizes and strides, with hostile data, in buffers of their own between unmapped pages."""
    sizes, at_end = sizes_of(rng), rng.random() < 0.5
    generator = np.random.default_rng(rng.randrange(1 << 30))
    (output,) = example.spec.outputs
    out: TensorDesc = getattr(example, output.name)
    strides = nested(rng, sizes)
    made, buffer = guard_pages.place(sizes, strides, out.data_type.dtype, at_end=at_end, canary=0xA5)
    tensors = {output.name: TensorDesc(out.data_type, tuple(sizes), strides=tuple(strides))}
    arrays = {output.name: made}
    for found in example.tensors():
        name, t = found.name, found.desc
        if found.field.role != INPUT:
            continue
        in_place = found.field.wire in example.spec.in_place and t.data_type == out.data_type and len(arrays) == 1
        x: Array
        if in_place and rng.random() < 0.3:
            tensors[name], x = tensors[output.name], made
        else:
            steps = loose(rng, sizes) if rng.random() < 0.5 else nested(rng, sizes)
            x, _ = guard_pages.place(sizes, steps, t.data_type.dtype, at_end=at_end)
            tensors[name] = TensorDesc(t.data_type, tuple(sizes), strides=tuple(steps))
        bits_of(x)[...] = bits_of(drawn(generator, t.data_type, x.size)).reshape(sizes)
        arrays[name] = x
    return Layout(replace(example, **tensors), arrays, buffer)


def recorded(compile: Callable[..., engine.Code], keys: list[MapKey], emitter: Any, *arguments: Any) -> engine.Code:
    if emitter is emit.emitted:
        keys.append(arguments[-1])
    return compile(emitter, *arguments)


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("past_cache", [False, True])
@every_isa
def test_any_layout(isa: str, past_cache: bool, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, elementwise_tuning, alone=0)
    if past_cache:
        tuned(monkeypatch, elementwise_tuning, stream=0)
        tuned(monkeypatch, elementwise_tuning, long_row=1)
    keys: list[MapKey] = []
    monkeypatch.setattr(engine, "compiled", partial(recorded, engine.compiled, keys))
    count, in_place, alone = 44 * SOAK, 0, 0
    examples = [example_with(name, types) for name, types in SAMPLES]
    for case in range(count):
        rng = random.Random(2 * case + past_cache)
        desc, arrays, buffer = layout(rng, examples[case % len(examples)])
        (output,) = desc.spec.outputs
        inputs = {name: x for name, x in arrays.items() if name != output.name}
        wanted_buffer = buffer.copy()
        out = arrays[output.name]
        wanted = np.ndarray(out.shape, out.dtype, wanted_buffer, strides=out.strides)
        bits_of(wanted)[...] = bits_of(evaluated(desc.as_newest(), inputs)[output.name])
        in_place += any(x is out for x in inputs.values())
        alone += out.size == 1
        compiled = Device(isa=isa, threads=1 + case % 2).compile(desc)
        assert compiled.kernel_name == COMPILED
        bound = compiled.bind(**arrays)
        before = {name: x.copy() for name, x in inputs.items() if x is out}
        for _ in range(2):
            for name, x in before.items():
                bits_of(arrays[name])[...] = bits_of(x)
            bound.execute()
            np.testing.assert_array_equal(buffer, wanted_buffer, f"{case}: {desc}")
    assert in_place
    assert alone
    assert {key.stream for key in keys} == {False, past_cache}
    assert {layout for key in keys for layout in key.layouts} == {CONTIGUOUS, CONSTANT, STRIDED}
    assert {key.outer for key in keys} >= {0, 1, 2, 3, 4}
    ran(count, 44)


def test_outputs_of_any_length_at_any_place(ran: Ran) -> None:
    """Packed tensors of every length around the width of vectors, at every offset from the beginning of a cache line."""
    rng, add = np.random.default_rng(5), named("ELEMENT_WISE_ADD")
    cases = 0
    for data_type in (DataType.UINT8, F16, F32):
        every = drawn(rng, data_type, 200)
        for n in (1, 7, 15, 16, 17, 31, 33, 63, 64, 65, 129, 200):
            t, x, y = TensorDesc(data_type, (n,)), every[:n], every[:n][::-1].copy()
            desc = add(a_tensor=t, b_tensor=t, output_tensor=t)
            wanted = evaluated(desc.as_newest(), {"a_tensor": x, "b_tensor": y})["output_tensor"]
            compiled = Device(threads=1).compile(desc)
            assert compiled.kernel_name == COMPILED
            for offset in range(0, 64, 7):
                memory = np.full(64 + 64 + every.nbytes, 0xA5, np.uint8)
                at = -memory.ctypes.data % 64 + offset // x.itemsize * x.itemsize
                found = np.ndarray((n,), x.dtype, memory.data, at)
                compiled.bind(a_tensor=x, b_tensor=y, output_tensor=found).execute()
                np.testing.assert_array_equal(bits(found), bits(wanted))
                assert (memory[:at] == 0xA5).all()
                assert (memory[at + n * x.itemsize :] == 0xA5).all()
                cases += 1
    ran(cases, 300)


# --- statements that no operator has ---

ROWS, COLUMNS = 5, 150
Body = Callable[[Tensor, Indices], Any]
STATEMENTS: dict[str, Body] = {
    "backwards": lambda x, i: x[i[0], COLUMNS - 1 - i[1]] * 2.0,
    "both ways": lambda x, i: x[ROWS - 1 - i[0], COLUMNS - 1 - i[1]] + x[i[0], i[1]],
    "along a diagonal": lambda x, i: x[i[0], i[0]] * x[0, i[1]],
    "one element": lambda x, i: x[2, 3] + 0.5 * x[i[0], i[1]],
    "positions": lambda x, i: x[i[0], i[1]] + number(i[1]) * 3.0 - number(i[0]),
    "positions alone": lambda x, i: number(i[0] + 7 * i[1] + 3) / 4.0,
}


@every_isa
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", STATEMENTS)
def test_any_affine_index(name: str, threads: int, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, elementwise_tuning, alone=0)
    t = TensorDesc(F32, (ROWS, COLUMNS))
    checked = check(named("ELEMENT_WISE_ABS")(input_tensor=t, output_tensor=t))
    i = each(t.sizes)
    statement = {"output_tensor": nest(i, STATEMENTS[name](Tensor("input_tensor", t.sizes, F32), i))}
    made = family.lower(problem_of(checked, statement), Machine(isa, threads))
    assert isinstance(made, Lowered)
    x = np.random.default_rng(0).integers(-100, 100, t.sizes).astype(np.float32)
    out = np.zeros_like(x)
    CompiledOperator(checked, COMPILED, link(made)).bind(input_tensor=x, output_tensor=out).execute()
    r, c = np.indices(x.shape)
    wanted = {
        "backwards": x[:, ::-1] * 2,
        "both ways": x[::-1, ::-1] + x,
        "along a diagonal": x[r, r] * x[0],
        "one element": x[2, 3] + x / 2,
        "positions": x + c * 3 - r,
        "positions alone": (r + 7 * c + 3) / 4,
    }[name]
    np.testing.assert_array_equal(out, wanted.astype(np.float32))
