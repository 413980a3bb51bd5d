"""Results do not depend on the calling thread's floating-point state, which other libraries change and do not restore.

The state is set by a few bytes of machine code, since Python has no function for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import platform
import random
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_elementwise_layouts import SAMPLES, example_with

import anydml as dml
import hard_cases
from agreement import bits
from anydml.devices.device import NAMES as DEVICES
from anydml.exact.float32 import products_in_float32, round_to_float32
from anydml.functional import parameters
from anydml.kernels.contract.quantised.norms import norms
from anydml.kernels.elementwise import family
from anydml.kernels.kernel import Machine
from anydml.kernels.reference import evaluated
from anydml.schema.operator import Desc, rejections
from every_kernel import SOAK, Kernel, without_dot_products
from hard_cases import TYPE_COMBINATIONS, QuantizedCase
from map_operators import drawn_for, of_types
from matmul_cases import SCALES, Case, Recipe, fitting, make
from matmul_judge import assert_exact, bound, by_any_kernel, compiled
from matmul_scales import KINDS

pytestmark = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64") or sys.platform not in ("linux", "darwin", "win32"),
    reason="MXCSR is a register of x86-64, and this knows the calling conventions of Linux, macOS and Windows",
)

DEFAULT = 0x1F80
FLUSH_TO_ZERO, DENORMALS_ARE_ZERO = 0x8000, 0x0040
ROUNDING = {"nearest": 0x0000, "down": 0x2000, "up": 0x4000, "towards zero": 0x6000}
STATES = {f"{name}{', subnormals are 0' if zero else ''}": DEFAULT | rounding | zero
          for (name, rounding), zero in product(ROUNDING.items(), (0, FLUSH_TO_ZERO | DENORMALS_ARE_ZERO))}  # fmt: skip
CONTROL = 0xFFC0  # the control bits; the other bits record exceptions

by_state = pytest.mark.parametrize("state", STATES.values(), ids=STATES)
by_device = pytest.mark.parametrize("device", DEVICES)


@pytest.fixture(scope="module")
def mxcsr() -> Iterator[Callable[[int], contextlib.AbstractContextManager[None]]]:
    """A context in which this thread's MXCSR has a value; the old value is restored in any case."""
    # stmxcsr [first argument]; ret; and, 16 bytes on, ldmxcsr [first argument]; ret
    argument = 0x01 if sys.platform == "win32" else 0x07  # rcx, rdi
    code = bytes([0x0F, 0xAE, 0x18 | argument, 0xC3]).ljust(16, b"\xcc") + bytes([0x0F, 0xAE, 0x10 | argument, 0xC3])
    address, keep = executable(code)
    # PYFUNCTYPE: Python runs nothing between the call and the return
    prototype = ctypes.PYFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint32))
    store, load = prototype(address), prototype(address + 16)
    register = ctypes.c_uint32()

    def current() -> int:
        store(ctypes.byref(register))
        return register.value

    def change(value: int) -> None:
        load(ctypes.byref(ctypes.c_uint32(value)))

    @contextlib.contextmanager
    def context(value: int) -> Iterator[None]:
        before = current()
        assert before & CONTROL == DEFAULT & CONTROL
        try:
            change(value)
            yield
            after = current()
        finally:
            change(before)
        assert after & CONTROL == value & CONTROL, "the caller's state was not put back"

    yield context
    del keep


def executable(code: bytes) -> tuple[int, Any]:
    """The address of an executable copy of the code, and the object that owns it."""
    if sys.platform == "win32":
        allocate = ctypes.windll.kernel32.VirtualAlloc
        allocate.restype = ctypes.c_void_p
        address = allocate(None, ctypes.c_size_t(len(code)), 0x3000, 0x40)
        assert address
        ctypes.memmove(address, code, len(code))
        return address, None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError as error:
        pytest.skip(f"memory cannot be made executable here: {error}")
    page[: len(code)] = code
    first = ctypes.c_char.from_buffer(page)
    return ctypes.addressof(first), (page, first)


Context = Callable[[int], contextlib.AbstractContextManager[None]]

SUBNORMAL: NDArray[np.uint32] = np.array([0x00000001, 0x007FFFFF, 0x80000001, 0x00400000], np.uint32)


def test_the_state_is_changed_at_all(mxcsr: Context) -> None:
    """Otherwise the other tests here would pass without testing anything."""
    subnormal, tie = SUBNORMAL.view(np.float32), np.float64(1 + 2.0**-24)
    with mxcsr(STATES["nearest, subnormals are 0"]):
        unpacked = struct.unpack("<f", b"\1\0\0\0")[0]
        products = (subnormal * np.float32(1)).view(np.uint32) & np.uint32(0x7FFFFFFF)
        doubled = 5e-324 * 2.0 == 0.0
    assert (unpacked, products.tolist(), doubled) == (0.0, [0, 0, 0, 0], True)
    assert struct.unpack("<f", b"\1\0\0\0")[0] == 2.0**-149
    rounded = {}
    for name in ROUNDING:
        with mxcsr(STATES[name]):
            rounded[name] = np.float32(tie), np.float32(-tie)
    up, down, even = np.float32(1 + 2.0**-23), np.float32(-1 - 2.0**-23), np.float32(1)
    assert rounded == {"nearest": (even, -even), "down": (even, down), "up": (up, -even), "towards zero": (even, -even)}


def test_the_state_comes_back_after_an_error(mxcsr: Context) -> None:
    with pytest.raises(ZeroDivisionError), mxcsr(STATES["up, subnormals are 0"]):
        raise ZeroDivisionError
    with mxcsr(DEFAULT):  # it compares the state before the change
        pass
    assert np.float32(1e-45) > 0


@cache
def cases() -> list[tuple[QuantizedCase, NDArray[Any]]]:
    """Subnormal scales, near-ties of small K, and ties, which a changed state affects first; with their results."""
    near = [case for case in hard_cases.near_ties(count=24) if case.a.shape[1] <= 2048]
    every = (*hard_cases.extreme_scales(), *near, *list(hard_cases.exact_ties())[::3], *hard_cases.granularities(count=24))
    return [(case, hard_cases.expected(case)) for case in every]


@by_state
@by_device
def test_quantized_products_are_the_same_bits(mxcsr: Context, state: int, device: str) -> None:
    turns = 6 if SOAK == 1 else 1  # each state has some of the cases, and each case has several states
    wanted = cases()[list(STATES.values()).index(state) % turns :: turns]
    on = dml.Device(device)
    results = []
    with mxcsr(state):
        for case, _ in wanted:
            named = zip(dml.QuantizedLinearMatrixMultiply.spec.inputs, case.operands, strict=True)
            inputs = {field.name: x for field, x in named if x is not None}
            output = np.zeros((*case.a.shape[:-1], case.b.shape[-1]), case.output_type)
            desc = dml.QuantizedLinearMatrixMultiply(
                **{n: dml.TensorDesc.of(x) for n, x in inputs.items()}, output_tensor=dml.TensorDesc.of(output)
            )
            on.compile(dml.check(desc)).bind(**inputs, output_tensor=output).execute()
            results.append(output)
    for (case, result), output in zip(wanted, results, strict=True):
        np.testing.assert_array_equal(output, result, err_msg=case.name)
    print(f"{sum(output.size for output in results)} outputs")
    assert len(results) > 180 // turns


@by_state
@by_device
def test_integer_products_are_the_same_bits(mxcsr: Context, state: int, device: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (9, 1500), np.uint8), rng.integers(0, 256, (1500, 11), np.uint8).view(np.int8)
    wanted = (a.astype(np.int64) - 200) @ (b.astype(np.int64) + 100)
    with mxcsr(state):
        result = dml.matrix_multiply_integer(a, b, 200, -100, device=device)
    np.testing.assert_array_equal(result, wanted)


@cache
def generated(quantized: bool) -> list[Case]:
    """Products with every kind of scales, most of them with a near-tie or a subnormal number."""
    none: frozenset[str] = frozenset()
    drawn = product(KINDS if quantized else KINDS[:2], ("any", "coarse"), (none, frozenset(SCALES)))
    types = cycle(TYPE_COMBINATIONS)
    recipes = [
        Recipe(quantized, next(types), 15, 9, 37, data=data, scales=kind, finer=finer, threads=1 + at % 3, seed=at)
        for at, (kind, data, finer) in enumerate(drawn)
    ]
    return [make(fitting(recipe)) for recipe in recipes]


@by_state
@by_any_kernel
@pytest.mark.usefixtures("_any_size")
def test_every_kernel_gives_the_same_bits(mxcsr: Context, state: int, kernel: Kernel, machine: Machine) -> None:
    """The state is set between bind and execute; a kernel's own threads have the default state or the caller's."""
    outputs, turns = 0, 2 if SOAK == 1 else 1  # each state has half of the cases
    every = generated(kernel.implements is dml.QuantizedLinearMatrixMultiply)
    for case in every[list(STATES.values()).index(state) % turns :: turns]:
        case.output.memory[...] = 0xA5
        with mxcsr(state):
            operator = compiled(kernel, machine, case)
            if operator is None:
                continue
            ready = bound(operator, case)
            ready.execute()
        assert_exact(case, {})
        ready.execute()
        assert_exact(case, {})
        outputs += case.expected.size
    assert outputs >= 4000 // turns


@by_state
@by_device
def test_slices_move_bits(mxcsr: Context, state: int, device: str) -> None:
    bits = np.concatenate([SUBNORMAL, np.array([0x7F800001, 0xFFC00001, 0x80000000, 0x3F800000], np.uint32)])
    with mxcsr(state):
        result = dml.slice1(bits.view(np.float32), (0,), (8,), (-1,), device=device)
    assert result.view(np.uint32).tolist() == bits.tolist()[::-1]


@by_state
@by_device
def test_a_subnormal_scale_is_not_zero_and_zero_is(mxcsr: Context, state: int, device: str) -> None:
    one: NDArray[np.int8] = np.ones((1, 1), np.int8)
    scales = np.array([[0x00000001, 0x007FFFFF, 0x80000000]], np.uint32).view(np.float32)
    with mxcsr(state):
        results = [
            dml.quantized_linear_matrix_multiply(one, s, None, one, 1.0, None, s, None, device=device).tolist()
            for s in (scales[:, :1], scales[:, 1:2])
        ]
        with pytest.raises(dml.DataError) as caught:
            dml.quantized_linear_matrix_multiply(one, 1.0, None, one, 1.0, None, scales[:, 2:], None, device=device)
    assert results == [[[1]], [[1]]]
    assert caught.value.tensor == "output_scale"


@by_state
def test_eager_scales_are_rounded_half_to_even(mxcsr: Context, state: int) -> None:
    """Numbers and arrays, ties and subnormal results. All numbers are new, since results are cached."""
    rng = random.Random(state)
    numbers = [(2 * rng.getrandbits(24) + 1) * 2.0 ** rng.randint(-160, 60) for _ in range(300)]
    numbers += [-rng.random() * 2.0**-126 for _ in range(100)] + [rng.random() for _ in range(50)]
    array = np.array(numbers)
    with np.errstate(all="ignore"):
        wanted = array.astype(np.float32).view(np.uint32).tolist()  # the processor's roundings in the default state
    assert round_to_float32(array).view(np.uint32).tolist() == wanted
    with mxcsr(state):
        at_once = round_to_float32(array)
        apart = [parameters.scale("a_scale", number, "row") for number in numbers]
        as_arrays = parameters.scale("a_scale", array, "row")
        integers = parameters.scale("a_scale", 2**24 + 1, "row"), parameters.scale("b_scale", 2**24 + 3, "row")
    assert at_once.view(np.uint32).tolist() == wanted
    assert [x.view(np.uint32).item() for x in apart] == wanted
    assert as_arrays.view(np.uint32).ravel().tolist() == wanted
    assert [x.item() for x in integers] == [2.0**24, 2.0**24 + 4]


@by_state
def test_weights_are_dequantised_as_in_the_default_state(mxcsr: Context, state: int) -> None:
    """Also with subnormal scales, which would be zeros in some states."""
    rng = np.random.default_rng(state)
    scales = np.concatenate(
        [rng.integers(1, 2**24, 200, dtype=np.uint32), rng.integers(2**24, 2**31 - 2**23, 200, dtype=np.uint32)]
    )
    usual = np.ldexp(rng.uniform(1, 2, 400), rng.integers(-126, 120, 400)).astype(np.float32)
    every = scales.view(np.float32)
    small = rng.integers(-255, 256, 400).astype(np.int16)
    for integers, factors in ((small, every), (small, usual), (rng.integers(-(2**33), 2**33, 400), every)):
        wanted = products_in_float32(integers, factors), norms(integers % 200, factors, 0)
        with mxcsr(state):
            found = products_in_float32(integers, factors), norms(integers % 200, factors, 0)
        assert found[0].tobytes() == wanted[0].tobytes()
        assert (wanted[1][0] > 0).tolist() == (integers % 200 > 0).tolist()
        for a, b in zip(found[1], wanted[1], strict=True):
            assert np.abs(a.view(np.int64) - b.view(np.int64)).max() < 2  # the margin's product is rounded differently


@by_state
def test_check_is_not_concerned(mxcsr: Context, state: int) -> None:
    fine = [operator.spec.examples[0] for operator in dml.operators.every()]
    with mxcsr(state):
        for operator, example in zip(dml.operators.every(), fine, strict=True):
            desc = operator(**example.fields)
            assert dml.check(desc).desc is desc
            rejected = rejections(operator)[-1]
            with pytest.raises(dml.DescError):
                dml.check(replace(desc, **rejected.fields), rejected.at, strict=rejected.strict)


@cache
def maps() -> list[tuple[Desc, dict[str, NDArray[Any]], NDArray[Any]]]:
    """Maps with results that are subnormal, ties, quotients and clamped, with the reference's results."""
    made = []
    for at, (name, types) in enumerate(SAMPLES):
        example = example_with(name, types)
        there = {f.wire: t for f, t in zip([f for f in example.spec.tensors if getattr(example, f.name)], types, strict=True)}
        desc = of_types(example, there, (300,)).desc
        inputs = drawn_for(desc, np.random.default_rng(at))
        made.append((desc, inputs, evaluated(desc.as_newest(), inputs)[desc.spec.outputs[0].name]))
    return made


@pytest.mark.usefixtures("own_code")  # kernels are also compiled in that state
@by_state
@pytest.mark.parametrize("isa", [t.name for t in without_dot_products()])
def test_maps_are_the_same_bits(mxcsr: Context, state: int, isa: str) -> None:
    turns = 2 if SOAK == 1 else 1
    wanted = maps()[list(STATES.values()).index(state) % turns :: turns]
    results = []
    family._trial.cache_clear()
    with mxcsr(state):
        for desc, inputs, result in wanted:
            compiled_map = dml.Device(isa=isa, threads=1).compile(desc)
            output = np.zeros_like(result)
            compiled_map.bind(**inputs, **{desc.spec.outputs[0].name: output}).execute()
            results.append((compiled_map.kernel_name, output))
    for (desc, _, result), (kernel_name, output) in zip(wanted, results, strict=True):
        assert kernel_name == "elementwise:compiled"
        np.testing.assert_array_equal(bits(output), bits(result), err_msg=str(desc))
    family._trial.cache_clear()
