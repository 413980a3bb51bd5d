"""Initialize, bind, execute: valid and invalid arguments, ownership, aliasing, and data that break rules."""

from __future__ import annotations

import array
import copy
import gc
import itertools
import pickle
import sys
import threading
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

import anydml as dml
from anydml import (
    BindingError,
    BoundOperator,
    CompiledOperator,
    DataError,
    DataType,
    Device,
    Fault,
    MatrixMultiplyInteger,
    QuantizedLinearMatrixMultiply,
    Slice1,
    TensorDesc,
    TensorFlags,
)
from anydml.devices.binding import Slot
from anydml.devices.device import NAMES as DEVICES
from anydml.kernels.code import engine

OWNED = TensorFlags.OWNED_BY_DML
INT32 = DataType.INT32

by_device = pytest.mark.parametrize("device", DEVICES)


def copy_of(input_tensor: TensorDesc, output_tensor: TensorDesc | None = None, device: str = "cpu") -> CompiledOperator:
    """A SLICE1 that copies the whole input."""
    sizes = input_tensor.sizes
    desc = Slice1(
        input_tensor=input_tensor,
        output_tensor=output_tensor or TensorDesc(input_tensor.data_type, sizes),
        input_window_offsets=(0,) * len(sizes),
        input_window_sizes=sizes,
        input_window_strides=(1,) * len(sizes),
    )
    return Device(device).compile(desc)


def copied(x: Any, t: TensorDesc, device: str = "cpu") -> list[Any]:
    output = np.zeros(t.sizes, t.data_type.dtype)
    copy_of(t, device=device).bind(input_tensor=x, output_tensor=output).execute()
    result: list[Any] = output.tolist()
    return result


def faults(compiled: CompiledOperator, **arrays: Any) -> dict[str, str]:
    """Every fault of a call of bind, by name."""
    with pytest.raises(BindingError) as caught:
        compiled.bind(**arrays)
    told = caught.value.faults
    assert str(caught.value) == "\n".join(map(str, told))
    by_name = {fault.pointer: fault.message for fault in told}
    assert len(by_name) == len(told)
    return by_name


def refusal(x: Any, t: TensorDesc) -> str:
    """The message about an input that cannot be bound."""
    told = faults(copy_of(t), input_tensor=x, output_tensor=np.zeros(t.sizes, t.data_type.dtype))
    assert list(told) == ["input_tensor"]
    return told["input_tensor"]


# --- the two forms ---

TWO_BY_THREE = TensorDesc(INT32, (2, 3))
NUMBERS: NDArray[np.int32] = np.arange(1, 7, dtype=np.int32).reshape(2, 3)


@by_device
def test_tensor_form_has_the_sizes_and_strides_of_the_desc(device: str) -> None:
    wide = np.arange(20, dtype=np.int32).reshape(2, 10)
    for x in (NUMBERS, np.asfortranarray(NUMBERS), wide[:, 1:4], wide[:, ::4], np.broadcast_to(np.int32(5), (2, 3))):
        assert copied(x, TensorDesc.of(x), device) == x.tolist()


def test_where_a_dimension_has_one_element_its_stride_counts_nowhere() -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)[1:2]
    for stride in (0, 1, 4, 17, 2**32 - 1):
        assert copied(x, TensorDesc(INT32, (1, 4), strides=(stride, 1))) == [[4, 5, 6, 7]]
        assert copied(x.ravel(), TensorDesc(INT32, (1, 4), strides=(stride, 1))) == [[4, 5, 6, 7]]


@by_device
def test_buffer_form_lays_the_desc_over_a_buffer(device: str) -> None:
    t = TensorDesc(INT32, (2, 3), strides=(1, 2))
    buffer = NUMBERS.ravel()
    forms = (
        buffer,
        buffer.view(np.uint8),
        buffer.tobytes(),
        bytearray(buffer.tobytes()),
        buffer.data,
        memoryview(buffer.tobytes()),
        array.array("i", buffer.tolist()),
    )
    for x in forms:
        assert copied(x, t, device) == [[1, 3, 5], [2, 4, 6]], type(x)


def test_a_multi_dimensional_memoryview_is_a_buffer_of_bytes() -> None:
    assert copied(NUMBERS.data, TWO_BY_THREE) == NUMBERS.tolist()


@by_device
def test_outputs_take_both_forms_too(device: str) -> None:
    t = TensorDesc(INT32, (2, 3), strides=(1, 2))
    for buffer in (np.zeros(6, np.int32), np.zeros(24, np.uint8), bytearray(24), array.array("i", [0] * 6)):
        copy_of(TWO_BY_THREE, t, device).bind(input_tensor=NUMBERS, output_tensor=buffer).execute()
        assert np.frombuffer(buffer, np.int32).tolist() == [1, 4, 2, 5, 3, 6]
    tensor = np.zeros((3, 2), np.int32).T
    copy_of(TWO_BY_THREE, t, device).bind(input_tensor=NUMBERS, output_tensor=tensor).execute()
    assert tensor.tolist() == NUMBERS.tolist()


@by_device
def test_nothing_need_be_aligned(device: str) -> None:
    memory: NDArray[np.uint8] = np.zeros(64, np.uint8)
    for offset in range(1, 9):
        memory[offset : offset + 24] = NUMBERS.view(np.uint8).ravel()
        x: NDArray[Any] = np.ndarray((2, 3), np.int32, memory.data, offset)
        assert copied(x, TWO_BY_THREE, device) == NUMBERS.tolist()
        assert copied(memory[offset:], TWO_BY_THREE, device) == NUMBERS.tolist()


class Exporter:
    """An array of another library, which supports DLPack and no other interface of arrays."""

    def __init__(self, x: NDArray[Any]) -> None:
        self._x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self._x.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._x.__dlpack_device__()


@by_device
def test_an_array_of_another_library_is_bound_through_dlpack(device: str) -> None:
    output = np.zeros((2, 3), np.int32)
    copy_of(TWO_BY_THREE, device=device).bind(input_tensor=Exporter(NUMBERS.copy()), output_tensor=Exporter(output)).execute()
    assert output.tolist() == NUMBERS.tolist()
    strided = np.arange(12, dtype=np.int32).reshape(2, 6)[:, ::2]
    assert copied(Exporter(strided), TensorDesc.of(strided), device) == strided.tolist()
    assert "shape (3, 2)" in refusal(Exporter(np.zeros((3, 2), np.int32)), TWO_BY_THREE)


class Elsewhere(Exporter):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("the array is not in host memory")


def test_an_array_that_dlpack_cannot_hand_over_is_refused() -> None:
    assert "host memory" in refusal(Elsewhere(NUMBERS), TWO_BY_THREE)


@by_device
def test_a_total_of_its_own_is_asked_of_buffers_and_not_of_arrays(device: str) -> None:
    own = TensorDesc(INT32, (2, 3), total_tensor_size_in_bytes=32)
    assert copied(NUMBERS, own, device) == NUMBERS.tolist()
    assert copied(bytes(NUMBERS.tobytes() + b"12345678"), own, device) == NUMBERS.tolist()
    assert "holds 24 bytes where the desc needs 32" in refusal(NUMBERS.tobytes(), own)
    assert "holds 28 bytes where the desc needs 32" in refusal(np.zeros(7, np.int32), own)
    # without a total, the rounding to 4 bytes is D3D12's, and not required
    three = TensorDesc(DataType.UINT8, (3,))
    assert copied(b"abc", three, device) == [97, 98, 99]
    assert "holds 2 bytes where the desc needs 3" in refusal(b"ab", three)
    # in both forms: three elements, and no total
    assert copied(np.arange(3, dtype=np.uint8), replace(three, total_tensor_size_in_bytes=8), device) == [0, 1, 2]


def test_subclasses_of_arrays_that_are_arrays_are_bound(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "numbers", np.int32, "w+", shape=(2, 3))
    mapped[...] = NUMBERS
    assert copied(mapped, TWO_BY_THREE) == NUMBERS.tolist()
    copy_of(TWO_BY_THREE).bind(input_tensor=NUMBERS * 2, output_tensor=mapped).execute()
    assert mapped.tolist() == (NUMBERS * 2).tolist()


# --- refusals ---


def test_a_mismatch_shows_both_sides() -> None:
    told = refusal(np.zeros((3, 2), np.float32), TensorDesc(INT32, (2, 3), strides=(7, 1)))
    for shown in ("float32", "(3, 2)", "(2, 1) elements", "INT32", "(2, 3)", "(7, 1)"):
        assert shown in told
    told = refusal(np.zeros((2, 3), np.int32), TensorDesc(INT32, (2, 3), strides=(7, 1)))
    assert "strides (3, 1) elements" in told
    assert "strides (7, 1)" in told


@pytest.mark.parametrize(
    ("x", "name"),
    [
        pytest.param(NUMBERS.astype(">i4" if sys.byteorder == "little" else "<i4"), "foreign byte order", id="byte order"),
        pytest.param(np.zeros((2, 3), np.bool_), "bool", id="bool"),
        pytest.param(np.zeros((2, 3), np.object_), "object", id="object"),
        pytest.param(np.zeros((2, 3), [("x", np.int32)]), "structured", id="structured"),
        pytest.param(np.zeros((2, 3), "U4"), "<U4", id="text"),
        pytest.param(np.zeros((2, 3), "M8[s]"), "datetime64", id="time"),
        pytest.param(np.ma.MaskedArray(NUMBERS), "masked", id="masked"),
        pytest.param(np.ma.MaskedArray(NUMBERS.ravel()), "masked", id="masked buffer"),
        pytest.param(np.zeros((2, 13), np.int8)[:, :12].view(np.int32), "no multiple of the element size", id="odd strides"),
        pytest.param(NUMBERS[:, ::-1], "negative", id="negative strides"),
        pytest.param(NUMBERS.ravel()[::-1], "negative", id="negative buffer"),
        pytest.param(np.zeros(12, np.int32)[::2], "strides (2) elements", id="strided buffer"),
        pytest.param(NUMBERS.astype(np.int64), "int64", id="other type"),
        pytest.param(NUMBERS.view(np.uint32), "uint32", id="other sign"),
        pytest.param(np.zeros(6, np.int8), "int8", id="buffer of other type"),
        pytest.param(np.zeros((2, 0), np.int32), "shape (2, 0)", id="empty"),
        pytest.param(np.zeros((1, 2, 3), np.int32), "shape (1, 2, 3)", id="other rank"),
        pytest.param(np.int32(4), "int32", id="scalar"),
        pytest.param(b"", "bytes", id="no bytes"),
        pytest.param(memoryview(bytes(48))[::2], "memoryview", id="strided memoryview"),
        pytest.param([[1, 2, 3], [4, 5, 6]], "list", id="list"),
        pytest.param("text of 24 characters ..", "str", id="str"),
        pytest.param(17, "int", id="int"),
    ],
)
def test_refused_by_name(x: Any, name: str) -> None:
    assert name in refusal(x, TWO_BY_THREE)


def test_an_output_must_be_writable() -> None:
    for output in (np.zeros((2, 3), np.int32), np.zeros(6, np.int32)):
        output.flags.writeable = False
        told = faults(copy_of(TWO_BY_THREE), input_tensor=NUMBERS, output_tensor=output)
        assert told == {"output_tensor": "is not writable"}
    assert faults(copy_of(TWO_BY_THREE), input_tensor=NUMBERS, output_tensor=bytes(24)) == {"output_tensor": "is not writable"}
    readable = NUMBERS.copy()
    readable.flags.writeable = False
    assert copied(readable, TWO_BY_THREE) == NUMBERS.tolist()  # an input may be read-only


@pytest.mark.parametrize("alignment", [4, 16, 64])
def test_a_promised_alignment_is_kept(alignment: int) -> None:
    t = TensorDesc(INT32, (2, 3), guaranteed_base_offset_alignment=alignment)
    room: NDArray[np.uint8] = np.zeros(256, np.uint8)
    memory = room[-room.ctypes.data % 64 :]
    for offset in range(0, 128, 2):
        buffer = memory[offset : offset + 24]
        tensor: NDArray[Any] = np.ndarray((2, 3), np.int32, memory.data, offset)
        for x in (buffer, tensor):
            if offset % alignment:
                assert f"a multiple of the {alignment} bytes" in refusal(x, t)
            else:
                assert copied(x, t) == tensor.tolist()


def test_all_faults_at_once() -> None:
    compiled = Device().compile(quantized())
    told = faults(
        compiled,
        a_tensor=np.zeros((3, 2), np.int8),
        a_scale_tensor=np.ones((1, 1), np.float64),
        a_zero_point_tensor=np.zeros((1, 1), np.int8),
        b_tensor=None,
        output_scale_tensor=np.ones((1, 1), np.float32)[::-1],
        output_tensor=np.zeros((2, 2), np.int8).view(np.ma.MaskedArray),
        c_tensor=np.zeros(1),
    )
    assert told["a_zero_point_tensor"] == "is bound, but the desc leaves this tensor out"
    assert told["b_tensor"] == told["b_scale_tensor"] == "is missing"
    assert "masked" in told["output_tensor"]
    assert "no tensor of this operator; it has a_tensor, a_scale_tensor, b_tensor" in told["c_tensor"]
    assert "(3, 2)" in told["a_tensor"]
    assert "float64" in told["a_scale_tensor"]
    assert set(told) == {
        *("a_tensor", "a_scale_tensor", "a_zero_point_tensor", "b_tensor", "b_scale_tensor", "output_tensor", "c_tensor")
    }


def test_optional_inputs_may_be_absent_or_none() -> None:
    for absent in ({}, {"a_zero_point_tensor": None, "b_zero_point_tensor": None, "output_zero_point_tensor": None}):
        output = np.zeros((2, 2), np.int8)
        Device().compile(quantized()).bind(**operands(), **absent, output_tensor=output).execute()
        assert output.tolist() == PRODUCT


def test_more_elements_than_an_address_space_has() -> None:
    """A desc may have more elements than addresses, with strides of 0; an array may not."""
    t = TensorDesc(DataType.UINT8, (2**32 - 1,) * 3, strides=(0, 0, 0))
    window: dict[str, Any] = {
        "input_window_offsets": (0,) * 3,
        "input_window_sizes": (1,) * 3,
        "input_window_strides": (1,) * 3,
    }
    compiled = Device().compile(Slice1(input_tensor=t, output_tensor=TensorDesc(DataType.UINT8, (1, 1, 1)), **window))
    with pytest.raises(MemoryError, match="input_tensor"):
        compiled.bind(input_tensor=b"1234", output_tensor=np.zeros((1, 1, 1), np.uint8))


# --- aliasing ---


def aliasing(compiled: CompiledOperator, x: Any, output: Any) -> str | None:
    try:
        compiled.bind(input_tensor=x, output_tensor=output).execute()
    except BindingError as error:
        (fault,) = error.faults
        return f"{fault.pointer} {fault.message}"
    return None


def test_an_output_may_not_share_memory_with_an_input() -> None:
    memory = np.arange(16, dtype=np.int32)
    four = TensorDesc(INT32, (4,))
    assert aliasing(copy_of(four), memory[:4], memory[4:8]) is None
    assert memory.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, *range(8, 16)]
    for start in (-3, -1, 0, 1, 3):
        told = aliasing(copy_of(four), memory[8:12], memory[8 + start : 12 + start])
        assert told == "output_tensor shares memory with input_tensor, and the operator does not work in place"
    assert memory[8:].tolist() == list(range(8, 16))


def test_disjoint_elements_of_one_array_may_interleave() -> None:
    memory = np.arange(8, dtype=np.int32)
    every_other = TensorDesc(INT32, (4,), strides=(2,))
    assert aliasing(copy_of(every_other, every_other), memory[::2], memory[1::2]) is None
    assert memory.tolist() == [0, 0, 2, 2, 4, 4, 6, 6]
    assert "shares memory" in str(aliasing(copy_of(every_other, every_other), memory[::2], memory[::2]))
    # the left and the right half of each row
    rows = np.arange(16, dtype=np.int32).reshape(4, 4)
    half = TensorDesc(INT32, (4, 2), strides=(4, 1))
    assert aliasing(copy_of(half, half), rows[:, :2], rows[:, 2:]) is None
    assert rows[:, 2:].tolist() == rows[:, :2].tolist()
    assert "shares memory" in str(aliasing(copy_of(half, half), rows[:, :2], rows[:, 1:3]))


def test_buffers_share_memory_where_their_tensors_do() -> None:
    """The bytes of a buffer outside of the tensor are neither read nor written."""
    memory = bytearray(np.arange(8, dtype=np.int32).tobytes())
    every_other = TensorDesc(INT32, (4,), strides=(2,))
    assert aliasing(copy_of(every_other, every_other), memory, memoryview(memory)[4:]) is None
    assert np.frombuffer(memory, np.int32).tolist() == [0, 0, 2, 2, 4, 4, 6, 6]
    assert "shares memory" in str(aliasing(copy_of(every_other, every_other), memory, memory))


def test_what_cannot_be_settled_is_refused() -> None:
    """Whether these tensors share an element is a Diophantine equation in ten unknowns, which a bounded search does not
    solve."""
    strides, sizes = (23199, 56372, 66907, 71884, 83375), (211, 362, 377, 154, 332)
    out_strides, out_sizes = (32, 793, 12415, 360075, 6481507), (17, 16, 29, 18, 10)
    memory = np.zeros(100_000_000, np.int8)  # never written, so that it takes no memory
    x = as_strided(memory, sizes, strides)
    output = as_strided(memory[23_832_150:], out_sizes, out_strides)
    desc = Slice1(
        input_tensor=TensorDesc(DataType.INT8, sizes, strides=strides),
        output_tensor=TensorDesc(DataType.INT8, out_sizes, strides=out_strides),
        input_window_offsets=(0,) * 5,
        input_window_sizes=out_sizes,
        input_window_strides=(1,) * 5,
    )
    told = faults(Device().compile(desc), input_tensor=x, output_tensor=output)
    assert told == {"output_tensor": "may share memory with input_tensor, and the operator does not work in place"}


@by_device
def test_inputs_may_alias_one_another(device: str) -> None:
    square = TensorDesc(DataType.UINT8, (2, 2))
    desc = MatrixMultiplyInteger(a_tensor=square, b_tensor=square, output_tensor=TensorDesc(INT32, (2, 2)))
    x, output = np.array([[1, 2], [3, 4]], np.uint8), np.zeros((2, 2), np.int32)
    Device(device).compile(desc).bind(a_tensor=x, b_tensor=x, output_tensor=output).execute()
    assert output.tolist() == [[7, 10], [15, 22]]


def test_an_output_is_held_against_every_input() -> None:
    memory = np.arange(16, dtype=np.uint8)
    desc = MatrixMultiplyInteger(
        a_tensor=TensorDesc(DataType.UINT8, (1, 4)),
        b_tensor=TensorDesc(DataType.UINT8, (4, 1)),
        b_zero_point_tensor=TensorDesc(DataType.UINT8, (1,)),
        output_tensor=TensorDesc(INT32, (1, 1)),
    )
    inputs = {"a_tensor": memory[:4], "b_tensor": memory[4:8], "b_zero_point_tensor": memory[2:3]}
    compiled = Device().compile(desc)
    with pytest.raises(BindingError) as caught:
        compiled.bind(**inputs, output_tensor=memory[2:6])
    told = [f"{fault.pointer} {fault.message}" for fault in caught.value.faults]
    named = ("a_tensor", "b_tensor", "b_zero_point_tensor")
    assert told == [f"output_tensor shares memory with {n}, and the operator does not work in place" for n in named]
    compiled.bind(**inputs, output_tensor=memory[8:12]).execute()
    assert memory[8:12].view(np.int32).tolist() == [1 * 3 + 2 * 4 + 3 * 5]


# --- ownership ---


def quantized(flags: TensorFlags = TensorFlags.NONE, /, **changes: TensorDesc) -> QuantizedLinearMatrixMultiply:
    """2 x 3 by 3 x 2, int8, with a scale for each tensor; flags of B and its scale."""
    one = TensorDesc(DataType.FLOAT32, (1, 1))
    tensors = {
        "a_tensor": TensorDesc(DataType.INT8, (2, 3)),
        "a_scale_tensor": one,
        "b_tensor": TensorDesc(DataType.INT8, (3, 2), flags=flags),
        "b_scale_tensor": replace(one, flags=flags),
        "output_scale_tensor": one,
        "output_tensor": TensorDesc(DataType.INT8, (2, 2)),
    }
    return QuantizedLinearMatrixMultiply(**{**tensors, **changes})


def operands() -> dict[str, Any]:
    return {
        "a_tensor": np.array([[1, 2, 3], [4, 5, 6]], np.int8),
        "a_scale_tensor": np.array([[0.5]], np.float32),
        "b_tensor": np.array([[1, 0], [0, 1], [1, 1]], np.int8),
        "b_scale_tensor": np.array([[2]], np.float32),
        "output_scale_tensor": np.array([[1]], np.float32),
    }


PRODUCT = [[4, 5], [10, 11]]


def owned_and_not() -> tuple[dict[str, Any], dict[str, Any]]:
    inputs = operands()
    owned = {name: inputs.pop(name) for name in ("b_tensor", "b_scale_tensor")}
    return owned, inputs


@by_device
def test_owned_inputs_are_copied_at_initialize(device: str) -> None:
    compiled = Device(device).compile(quantized(OWNED))
    owned, others = owned_and_not()
    compiled.initialize(**owned)
    owned["b_tensor"][...] = 99
    owned["b_scale_tensor"][...] = np.nan
    first, second = np.zeros((2, 2), np.int8), np.zeros((2, 2), np.int8)
    bound = compiled.bind(**others, output_tensor=first)
    bound.execute()
    compiled.bind(**others, output_tensor=second).execute()
    assert first.tolist() == second.tolist() == PRODUCT
    assert compiled.binding_properties.persistent_resource_size >= 6 + 4


@by_device
def test_owned_inputs_of_any_layout_are_copied(device: str) -> None:
    wide: NDArray[np.int32] = np.arange(12, dtype=np.int32)
    layouts = ((4, 1), (1, 4), (0, 2), (0, 0), (1, 1), (2**32 - 1, 3)), ((2, 3), (3, 2), (5, 3), (2, 2), (3, 4), (1, 4))
    for strides, sizes in zip(*layouts, strict=True):
        t = TensorDesc(INT32, sizes, strides=strides, flags=OWNED)
        for buffer in (wide.copy(), bytearray(wide.tobytes())):
            compiled = copy_of(t, device=device)
            compiled.initialize(input_tensor=buffer)
            wanted = [
                [int(wide[i * (strides[0] if sizes[0] > 1 else 0) + j * strides[1]]) for j in range(sizes[1])]
                for i in range(sizes[0])
            ]
            np.frombuffer(buffer, np.int32)[...] = -1
            output = np.zeros(sizes, np.int32)
            compiled.bind(output_tensor=output).execute()
            assert output.tolist() == wanted


@by_device
def test_owned_inputs_keep_their_layout_for_kernels_that_go_by_the_desc(device: str) -> None:
    """Large enough for a compiled kernel, which reads memory by the desc's strides."""
    for strides in ((1, 200), (400, 2), (0, 1), (1, 0)):
        t = TensorDesc(INT32, (200, 200), strides=strides, flags=OWNED)
        buffer = np.arange(t.span, dtype=np.int32)
        wanted = as_strided(buffer, (200, 200), (4 * strides[0], 4 * strides[1])).tolist()
        compiled = copy_of(t, device=device)
        compiled.initialize(input_tensor=buffer)
        output = np.zeros((200, 200), np.int32)
        compiled.bind(output_tensor=output).execute()
        assert output.tolist() == wanted, strides


def test_initialize_comes_first_and_once() -> None:
    compiled = Device().compile(quantized(OWNED))
    owned, others = owned_and_not()
    output = np.zeros((2, 2), np.int8)
    with pytest.raises(BindingError, match="initialize comes first: b_tensor, b_scale_tensor"):
        compiled.bind(**others, output_tensor=output)
    compiled.initialize(**owned)
    with pytest.raises(BindingError, match="exactly once"):
        compiled.initialize(**owned)
    compiled.bind(**others, output_tensor=output).execute()
    with pytest.raises(BindingError, match="exactly once"):
        compiled.initialize(**owned)
    assert output.tolist() == PRODUCT


def test_a_copy_shares_code_and_has_its_own_initialize() -> None:
    """The last copy of a compiled operator frees its code; in another process, the code does not exist."""
    compiled = Device().compile(quantized(OWNED))
    owned, others = owned_and_not()
    before = [copied(compiled) for copied in (copy.copy, copy.deepcopy)]
    compiled.initialize(**owned)
    after = [copied(compiled) for copied in (copy.copy, copy.deepcopy)]
    for made in before:
        with pytest.raises(BindingError, match="initialize comes first"):
            made.bind(**others, output_tensor=np.zeros((2, 2), np.int8))
        made.initialize(**owned)
    for made in after:
        with pytest.raises(BindingError, match="exactly once"):
            made.initialize(**owned)
    again = pickle.loads(pickle.dumps(compiled))
    with pytest.raises(BindingError, match="exactly once"):
        again.initialize(**owned)
    after.append(again)
    bound = compiled.bind(**others, output_tensor=np.zeros((2, 2), np.int8))
    for refused in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="bind `compiled` to others"):
            refused(bound)
    del compiled, bound
    gc.collect()
    for made in before + after:
        assert type(made) is CompiledOperator
        output = np.zeros((2, 2), np.int8)
        made.bind(**others, output_tensor=output).execute()
        assert output.tolist() == PRODUCT


def test_code_is_disposed_of_once(capfd: pytest.CaptureFixture[str]) -> None:
    code = engine.Code(None, 1)
    assert copy.copy(code) is copy.deepcopy(code) is code
    with pytest.raises(TypeError, match="of this process alone"):
        pickle.dumps(code)
    graph = dml.graph(lambda x: dml.element_wise_exp(dml.element_wise_tanh(x)), x=TensorDesc("FLOAT32", (3,)))
    compiled = graph.compile()
    made = copy.deepcopy(compiled)
    del compiled, code
    gc.collect()
    output = np.ones(3, np.float32)
    made.bind(x=np.zeros(3, np.float32), output=output).execute()
    assert output.tolist() == [1, 1, 1]
    del made
    gc.collect()
    assert capfd.readouterr().err == ""  # an exception in a finalizer would be printed here


def test_initialize_takes_the_owned_inputs_all_of_them_and_nothing_else() -> None:
    compiled = Device().compile(quantized(OWNED))
    owned, others = owned_and_not()
    with pytest.raises(BindingError) as caught:
        compiled.initialize(b_tensor=owned["b_tensor"][::-1], a_tensor=others["a_tensor"], d_tensor=owned["b_tensor"])
    told = {fault.pointer: fault.message for fault in caught.value.faults}
    assert "negative" in told.pop("b_tensor")
    assert told.pop("b_scale_tensor") == "is missing"
    assert "not OWNED_BY_DML" in told.pop("a_tensor")
    assert "no tensor of this operator" in told.pop("d_tensor")
    assert not told
    compiled.initialize(**owned)  # nothing is kept after an error, and it may be called again
    output = np.zeros((2, 2), np.int8)
    told = faults(compiled, **others, b_tensor=owned["b_tensor"], output_tensor=output)
    assert told == {"b_tensor": "is OWNED_BY_DML: it is bound at initialize, not at bind"}
    compiled.bind(**others, output_tensor=output).execute()
    assert output.tolist() == PRODUCT


def test_without_owned_inputs_initialize_may_be_left_out_and_takes_nothing() -> None:
    compiled = copy_of(TWO_BY_THREE)
    with pytest.raises(BindingError, match="bound at bind, not at initialize"):
        compiled.initialize(input_tensor=NUMBERS)
    compiled.initialize()
    output = np.zeros((2, 3), np.int32)
    compiled.bind(input_tensor=NUMBERS, output_tensor=output).execute()
    assert output.tolist() == NUMBERS.tolist()
    with pytest.raises(BindingError, match="exactly once"):
        compiled.initialize()


def test_an_owned_input_may_share_memory_with_the_output() -> None:
    """The operator reads a copy."""
    x = NUMBERS.copy()
    compiled = copy_of(replace(TWO_BY_THREE, flags=OWNED))
    compiled.initialize(input_tensor=x)
    x[...] = 0
    compiled.bind(output_tensor=x).execute()
    assert x.tolist() == NUMBERS.tolist()


# --- data that breaks a rule ---

UNUSABLE = {
    "zero": 0x00000000,
    "minus zero": 0x80000000,
    "infinity": 0x7F800000,
    "minus infinity": 0xFF800000,
    "quiet NaN": 0x7FC00000,
    "signalling NaN": 0x7F800001,
    "minus NaN": 0xFFFFFFFF,
}
SCALES = ("a_scale_tensor", "b_scale_tensor", "output_scale_tensor")
by_unusable = pytest.mark.parametrize("bits", UNUSABLE.values(), ids=UNUSABLE)


@by_device
@by_unusable
@pytest.mark.parametrize("name", SCALES)
def test_an_unusable_scale_is_an_error_before_any_byte_is_written(name: str, bits: int, device: str) -> None:
    finer = {"a_scale_tensor": (2, 1), "b_scale_tensor": (1, 2), "output_scale_tensor": (2, 1)}[name]
    compiled = Device(device).compile(quantized(**{name: TensorDesc(DataType.FLOAT32, finer)}))
    scale = np.ones(finer, np.float32)
    scale.view(np.uint32).flat[1] = bits
    output = np.full((2, 2), 77, np.int8)
    bound = compiled.bind(**{**operands(), name: scale}, output_tensor=output)
    with pytest.raises(DataError) as caught:
        bound.execute()
    assert output.tolist() == [[77, 77], [77, 77]]
    error = caught.value
    assert (error.tensor, error.index) == (name, tuple(n - 1 for n in finer))
    np.testing.assert_array_equal(error.value, scale.flat[1])
    assert str(error) == f"{name}[{error.index[0]}, {error.index[1]}] is {error.value}; a scale must not be 0, infinite or NaN"
    scale.flat[1] = 1
    bound.execute()  # the array is read again, with valid data
    assert output.tolist() != [[77, 77], [77, 77]]


@by_device
def test_small_and_negative_scales_are_usable(device: str) -> None:
    scale: NDArray[np.uint32] = np.array([[0x00000001]], np.uint32)
    for sign in (0, 1 << 31):
        output = np.zeros((2, 2), np.int8)
        tiny = (scale | np.uint32(sign)).view(np.float32)
        inputs = {
            **operands(),
            "a_scale_tensor": tiny,
            "b_scale_tensor": np.array([[1]], np.float32),
            "output_scale_tensor": tiny,
        }
        Device(device).compile(quantized()).bind(**inputs, output_tensor=output).execute()
        assert output.tolist() == PRODUCT


@by_device
@by_unusable
def test_an_owned_scale_is_judged_at_initialize(bits: int, device: str) -> None:
    compiled = Device(device).compile(quantized(OWNED))
    owned, others = owned_and_not()
    wrong = np.array([[bits]], np.uint32).view(np.float32)
    with pytest.raises(DataError) as caught:
        compiled.initialize(b_tensor=owned["b_tensor"], b_scale_tensor=wrong)
    assert (caught.value.tensor, caught.value.index) == ("b_scale_tensor", (0, 0))
    output = np.zeros((2, 2), np.int8)
    with pytest.raises(BindingError, match="initialize comes first"):
        compiled.bind(**others, output_tensor=output)
    compiled.initialize(**owned)  # nothing of the invalid data is kept
    compiled.bind(**others, output_tensor=output).execute()
    assert output.tolist() == PRODUCT


def test_a_scale_that_a_zero_stride_repeats_is_looked_at_and_kept_once() -> None:
    columns = 2**22
    one_for_all = TensorDesc(DataType.FLOAT32, (1, columns), strides=(0, 0))
    tensors = {
        "b_tensor": TensorDesc(DataType.INT8, (3, columns), strides=(0, 0)),
        "b_scale_tensor": one_for_all,
        "output_tensor": TensorDesc(DataType.INT8, (2, columns)),
    }
    inputs = {**operands(), "b_tensor": b"\1", "b_scale_tensor": np.zeros(1, np.float32)}
    bound = Device().compile(quantized(**tensors)).bind(**inputs, output_tensor=np.zeros((2, columns), np.int8))
    tracemalloc.start()  # NumPy reports every array to it
    try:
        with pytest.raises(DataError) as caught:
            bound.execute()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.index == (0, 0)
    assert peak < columns
    tensors["b_scale_tensor"] = replace(one_for_all, flags=OWNED)
    compiled = Device().compile(quantized(**tensors))
    assert compiled.binding_properties.persistent_resource_size == 4
    with pytest.raises(DataError):
        compiled.initialize(b_scale_tensor=inputs["b_scale_tensor"])


def test_what_lies_between_scales_is_not_looked_at() -> None:
    t = TensorDesc(DataType.FLOAT32, (2, 1), strides=(2, 1))
    output = np.zeros((2, 2), np.int8)
    buffer = np.array([0.5, np.nan, 0.5], np.float32)
    inputs = {**operands(), "a_scale_tensor": buffer}
    Device().compile(quantized(a_scale_tensor=t)).bind(**inputs, output_tensor=output).execute()
    assert output.tolist() == PRODUCT


def test_the_first_unusable_scale_is_named_by_its_tensor_s_own_index() -> None:
    t = TensorDesc(DataType.FLOAT32, (2, 2, 1), strides=(1, 2, 5))
    three = {n: TensorDesc(DataType.FLOAT32, (1, 1, 1)) for n in ("b_scale_tensor", "output_scale_tensor")}
    matrices = {
        "a_tensor": TensorDesc(DataType.INT8, (2, 2, 3)),
        "b_tensor": TensorDesc(DataType.INT8, (2, 3, 2)),
        "output_tensor": TensorDesc(DataType.INT8, (2, 2, 2)),
    }
    inputs = {
        "a_tensor": np.ones(12, np.int8),
        "b_tensor": np.ones(12, np.int8),
        "a_scale_tensor": np.array([1, 0, np.inf, 1], np.float32),
        "b_scale_tensor": np.ones(1, np.float32),
        "output_scale_tensor": np.ones(1, np.float32),
        "output_tensor": np.zeros(8, np.int8),
    }
    bound = Device().compile(quantized(a_scale_tensor=t, **three, **matrices)).bind(**inputs)
    with pytest.raises(DataError, match=r"^a_scale_tensor\[0, 1, 0\] is inf; "):
        bound.execute()


# --- execution ---


@by_device
def test_execute_reads_its_inputs_anew(device: str) -> None:
    inputs, output = operands(), np.zeros((2, 2), np.int8)
    bound = Device(device).compile(quantized()).bind(**inputs, output_tensor=output)
    bound.execute()
    assert output.tolist() == PRODUCT
    inputs["a_tensor"][...] = 1
    bound.execute()
    assert output.tolist() == [[2, 2], [2, 2]]
    inputs["output_scale_tensor"][...] = 0.5
    bound.execute()
    assert output.tolist() == [[4, 4], [4, 4]]


def test_a_bound_operator_keeps_its_arrays_alive() -> None:
    output = np.zeros((2, 3), np.int32)
    bound = copy_of(TWO_BY_THREE).bind(input_tensor=NUMBERS.copy(), output_tensor=output)
    scratch = [np.full((2, 3), -1, np.int32) for _ in range(100)]  # would be allocated in the memory of a freed array
    bound.execute()
    assert output.tolist() == NUMBERS.tolist()
    assert len(scratch) == 100


@by_device
def test_threads_may_share_a_bound_operator(device: str) -> None:
    """A second thread waits for the first: scratch belongs to the bound operator."""
    m, k, n = (33, 300, 65) if device == "cpu" else (5, 40, 9)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (m, k), np.uint8), rng.integers(0, 256, (k, n), np.uint8)
    desc = MatrixMultiplyInteger(
        a_tensor=TensorDesc(DataType.UINT8, (m, k)),
        b_tensor=TensorDesc(DataType.UINT8, (k, n)),
        output_tensor=TensorDesc(INT32, (m, n)),
    )
    output = np.zeros((m, n), np.int32)
    bound: BoundOperator = Device(device).compile(desc).bind(a_tensor=a, b_tensor=b, output_tensor=output)
    together = threading.Barrier(4)
    failed: list[BaseException] = []

    def work() -> None:
        together.wait()
        try:
            for _ in range(10):
                bound.execute()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert output.tolist() == (a.astype(np.int64) @ b.astype(np.int64)).tolist()


def test_one_compiled_operator_is_bound_many_times() -> None:
    compiled = copy_of(TWO_BY_THREE)
    outputs = [np.zeros((2, 3), np.int32) for _ in range(3)]
    bound = [compiled.bind(input_tensor=NUMBERS * i, output_tensor=output) for i, output in enumerate(outputs)]
    for operator, _ in itertools.product(bound, range(2)):
        operator.execute()
    assert [output.tolist() for output in outputs] == [(NUMBERS * i).tolist() for i in range(3)]


def test_elements_of_four_bits_are_bound_as_bytes() -> None:
    """Two elements in a byte. The total is rounded up to 4 bytes, but only the bytes with elements are required."""
    slot = Slot("input_tensor", TensorDesc("UINT4", (3, 3)), 0, writable=False)
    assert (slot.tensor.element_bytes, slot.tensor.total) == (5, 8)
    held = np.arange(8, dtype=np.uint8)
    view = slot.view(held)
    assert not isinstance(view, Fault)
    assert view.tolist() == [0, 1, 2, 3, 4]
    assert np.shares_memory(view, held)
    assert str(slot.view(held[:4])) == "input_tensor: holds 4 bytes where the desc needs 5"
    for wrong in (np.zeros((3, 3), np.uint8), np.zeros(9, np.int8)):
        assert str(slot.view(wrong)).endswith("one-dimensional array of uint8, two elements in each byte")
