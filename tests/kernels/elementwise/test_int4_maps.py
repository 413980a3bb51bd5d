"""Maps of 4-bit tensors in machine code with every layout: the oracle's bits, and nothing else is written."""

from __future__ import annotations

import ctypes
import random
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_elementwise_layouts import loose, nested, sizes_of
from test_elementwise_lists import cubes

import guard_pages
from agreement import bits, bits_of, expected
from anydml import DataType, Device, TensorDesc, operators
from anydml.devices.link import link
from anydml.int4_tensors import pack
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.elementwise import family, int4
from anydml.kernels.elementwise import tuning as elementwise_tuning
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.problem import Problem
from anydml.kernels.reference import evaluated
from anydml.schema.expression import Tensor, each, exp, pow
from anydml.schema.statement import Nest, move, nest
from anydml.tensor import packed_strides
from every_kernel import SOAK, Ran, flat, without_dot_products
from map_operators import drawn
from tuned import tuned

Array = NDArray[Any]
COMPILED = "elementwise:compiled"
F32, F16 = DataType.FLOAT32, DataType.FLOAT16
FOUR_BITS = (DataType.INT4, DataType.UINT4)
NAMES = ("QUANTIZE", "DEQUANTIZE")

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")
every_target = pytest.mark.parametrize("target", without_dot_products(), ids=lambda t: t.name)


def named(name: str) -> Any:
    found = operators.find(name)
    assert found is not None
    return found


@every_target
def test_a_half_without_an_element_is_0(target: Target) -> None:
    source, made = np.full(64, 0xFF, np.uint8), np.zeros(64, np.uint8)
    numbers = np.array([source.ctypes.data, made.ctypes.data, 0, 3, 5], np.int64)  # three bytes of five elements
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(engine.compiled(int4.packed, target).address)(numbers.ctypes.data)
    assert made[:4].tolist() == [0xFF, 0xFF, 0x0F, 0]


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_compiled(name: str) -> None:
    operator = named(name)
    for example in operator.spec.examples:
        desc = operator(**example.fields)
        compiled = Device().compile(desc)
        assert compiled.kernel_name == COMPILED, example.title
        found = np.zeros_like(example.output)
        compiled.bind(**example.inputs, output_tensor=found).execute()
        assert found.tobytes() == example.output.tobytes(), example.title


# --- halves of bytes ---


def called(target: Target, emitter: Any, source: Array, to: Array, first: int, end: int, count: int) -> None:
    arguments = np.array([[source.ctypes.data, to.ctypes.data, first, end, count]], np.int64)
    assert prepared([table(engine.compiled(emitter, target), arguments)], target, (source, to, arguments))() == 0


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@every_target
def test_any_run_of_bytes_is_unpacked_and_packed(target: Target) -> None:
    """Of any length and parity, beginning at any byte: bytes before and after it are unchanged."""
    rng = random.Random(3)
    for count in (1, 2, 3, 63, 64, 127, 128, 129, 255, 256, 300, 1001):
        nbytes = -(-count // 2)
        first = rng.randrange(nbytes)
        end = rng.randint(first + 1, nbytes)
        source = guard_pages.guarded(nbytes, at_end=count % 3 == 0)
        source[:] = np.random.default_rng(count).integers(0, 256, nbytes, np.uint8)
        halves = np.stack([source & 15, source >> 4], 1).ravel()
        signed = (halves.astype(np.int8) ^ 8) - 8
        for emitter, wanted in ((int4.unpacked, halves), (int4.unpacked_signed, signed)):
            to = guard_pages.guarded(2 * nbytes, at_end=True)
            to[:] = 0xA5
            called(target, emitter, source, to, first, end, count)
            assert (to.view(wanted.dtype)[2 * first : 2 * end] == wanted[2 * first : 2 * end]).all()
            assert (to[: 2 * first] == 0xA5).all()
            assert (to[2 * end :] == 0xA5).all()
        bytes_ = guard_pages.guarded(2 * nbytes, at_end=True)
        bytes_[:] = halves | 0x50
        back = guard_pages.guarded(nbytes, at_end=True)
        back[:] = 0xA5
        called(target, int4.packed, bytes_, back, first, end, count)
        wanted = source.copy()
        wanted[count // 2 :] &= 15  # an unused half byte
        assert (back[first:end] == wanted[first:end]).all()
        assert (back[:first] == 0xA5).all()
        assert (back[end:] == 0xA5).all()


# --- layouts ---


def divisor(rng: random.Random, n: int) -> int:
    return rng.choice([d for d in range(1, n + 1) if n % d == 0])


def buffered(rng: random.Random, t: TensorDesc, elements: Array | None) -> tuple[Array, Array]:
    """A tensor in a buffer of its own between unmapped pages, and the buffer; if elements have 4 bits, the buffer is bound."""
    at_end = rng.random() < 0.5
    if t.data_type in FOUR_BITS:
        buffer = guard_pages.guarded(t.element_bytes, at_end=at_end)
        buffer[:] = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 256, t.element_bytes, np.uint8)
        return buffer, buffer
    made, buffer = guard_pages.place(t.sizes, t.explicit_strides, t.data_type.dtype, at_end=at_end, canary=0xA5)
    if elements is not None:
        bits_of(made)[...] = bits_of(elements).reshape(t.sizes)
    return made, buffer


def case(rng: random.Random, name: str, real: DataType, quantized: DataType, given: bool) -> tuple[Any, dict[str, Any], Array]:
    """A desc, its arrays, and the buffer that the output fills."""
    sizes = sizes_of(rng)
    count = tuple(divisor(rng, n) for n in sizes)
    generator = np.random.default_rng(rng.randrange(1 << 30))

    def tensor(data_type: DataType, sizes: Any, *, output: bool = False) -> TensorDesc:
        if output and data_type in FOUR_BITS:
            strides = list(packed_strides(tuple(sizes)))
        else:
            strides = nested(rng, list(sizes)) if output or rng.random() < 0.5 else loose(rng, list(sizes))
        return TensorDesc(data_type, tuple(sizes), strides=tuple(strides))

    parameters = [tensor(real, count), *([tensor(quantized, count)] if given else [])]
    ends = (real, quantized) if name == "QUANTIZE" else (quantized, real)
    desc = named(name)(
        input_tensor=tensor(ends[0], sizes), quantization_type="SCALE_ZERO_POINT" if given else "SCALE",
        quantization_tensors=tuple(parameters), output_tensor=tensor(ends[1], sizes, output=True),
    )  # fmt: skip
    scale = drawn(generator, real, prod(count))
    near = generator.random(scale.size) < 0.7
    scale[near] = generator.choice([0.5, 0.25, 1.0, 3.0, -0.75], int(near.sum()))
    wide = drawn(generator, ends[0], prod(sizes)) if name == "QUANTIZE" else None
    if wide is not None:
        ties = generator.random(wide.size) < 0.7
        wide[ties] = generator.integers(-40, 40, int(ties.sum())) / 4
    arrays: dict[str, Any] = {
        "input_tensor": buffered(rng, desc.input_tensor, wide)[0],
        "quantization_tensors": [buffered(rng, t, scale)[0] for t in parameters],
    }
    arrays["output_tensor"], buffer = buffered(rng, desc.output_tensor, None)
    return desc, arrays, buffer


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("name", NAMES)
def test_any_layout(name: str, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, elementwise_tuning, alone=0)
    tuned(monkeypatch, elementwise_tuning, packed_share=1)
    tuned(monkeypatch, elementwise_tuning, packed_apart=1 << 20)
    targets, cases = without_dot_products(), 32 * SOAK
    kinds = [(F32, DataType.INT4, True), (F32, DataType.UINT4, False), (F16, DataType.UINT4, True), (F16, DataType.INT4, False)]
    threads_used = 0
    for number in range(cases):
        desc, arrays, buffer = case(random.Random(number), name, *kinds[number % 4])
        target = targets[number // 4 % len(targets)]
        compiled = Device(isa=target.name, threads=1 + number % 3).compile(desc)
        assert compiled.kernel_name == COMPILED, desc
        inputs = {field: x for field, x in arrays.items() if field != "output_tensor"}
        wanted = expected(desc, flat(desc, inputs))["output_tensor"]
        reference = evaluated(desc, flat(desc, inputs))["output_tensor"]
        np.testing.assert_array_equal(bits(pack(reference) if reference.dtype.kind in "iu" else reference), bits(wanted))
        after = buffer.copy()
        out = arrays["output_tensor"]
        if desc.output_tensor.data_type in FOUR_BITS:
            after[:] = wanted
        else:
            bits_of(np.ndarray(out.shape, out.dtype, after, strides=out.strides))[...] = bits_of(wanted).reshape(out.shape)
        bound = compiled.bind(**arrays)
        for _ in range(2):
            bound.execute()
            np.testing.assert_array_equal(buffer, after, f"{number}: {desc}")
        threads_used += number % 3 > 0
    assert threads_used
    ran(cases, 32)


# --- statements that no operator has ---

SIZES = (5, 41)
I = each(SIZES)  # noqa: E741  # an index


def lowered(made: Nest, output: DataType, threads: int = 1, **inputs: TensorDesc) -> Lowered | Refused:
    """The family's answer to a statement of such tensors."""
    tensors = {**inputs, "output": TensorDesc(output, SIZES)}
    return family.lower(Problem({"output": made}, tensors), Machine(None, threads))


@pytest.mark.parametrize("data_type", FOUR_BITS, ids=str)
def test_elements_move_and_integers_wrap(data_type: DataType) -> None:
    x = Tensor("x", SIZES, data_type)
    backwards = x[SIZES[0] - 1 - I[0], I[1]]
    source = np.random.default_rng(1).integers(0, 256, 103, np.uint8)
    halves = np.stack([source & 15, source >> 4], 1).ravel()[:205].reshape(SIZES).astype(int)
    for made, wanted in ((move(I, backwards), halves[::-1]), (nest(I, x[I] * 3 + 7), halves * 3 + 7)):
        answer = lowered(made, data_type, x=TensorDesc(data_type, SIZES))
        assert isinstance(answer, Lowered)
        assert answer.scratch >= 4 * 103
        found = np.zeros(103, np.uint8)
        link(answer).bind({"x": source, "output": found})()
        assert found.tolist() == pack(wanted % 16).tolist()


def test_what_bytes_do_not_serve_is_refused() -> None:
    x, y = Tensor("x", SIZES, F32), Tensor("y", SIZES, DataType.INT4)
    cut = lowered(nest(I, exp(x[I])), DataType.INT4, x=TensorDesc(F32, SIZES))
    assert cut == Refused("a real number is cut to four bits")
    apart = lowered(nest(I, y[I] * 0.5), F32, y=TensorDesc(DataType.INT4, SIZES, strides=(1 << 24, 1)))
    assert apart == Refused("elements of four bits lie far from each other")
    near = lowered(nest(I, y[I] * 0.5), F32, y=TensorDesc(DataType.INT4, SIZES, strides=(0, 3)))
    assert isinstance(near, Lowered)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_left_open_is_decided_between_the_bytes(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cubes are ties, which fill the lists repeatedly: the call continues after it unpacks the elements again."""
    tuned(monkeypatch, elementwise_tuning, alone=0)
    tuned(monkeypatch, elementwise_tuning, room=1)
    x, y = Tensor("x", SIZES, DataType.INT4), Tensor("y", SIZES, F32)
    descs = {"x": TensorDesc(DataType.INT4, SIZES), "y": TensorDesc(F32, SIZES)}
    answer = lowered(nest(I, pow(y[I], x[I])), F32, threads, **descs)
    assert isinstance(answer, Lowered)
    assert answer.decide is not None
    stops: list[int] = []
    decide = answer.decide

    def counted(scratch: Any, arrays: Any) -> None:
        stops.append(1)
        decide(scratch, arrays)

    rng = np.random.default_rng(2)
    inputs, powers = cubes(rng, SIZES)
    base, exponent = inputs["input_tensor"], np.where(rng.random(SIZES) < 0.7, 3, 1)
    found = np.zeros(SIZES, np.float32)
    call = link(answer._replace(decide=counted)).bind({"x": pack(exponent), "y": base, "output": found})
    for _ in range(2):
        stops.clear()
        found[...] = 0
        call()
        np.testing.assert_array_equal(found, np.where(exponent == 3, powers, base))
        assert len(stops) > 1
