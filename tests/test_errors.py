"""Messages and attributes of errors. Texts are written in full here, so that a change of wording is visible."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import FrozenInstanceError, replace
from multiprocessing import get_context
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anydml as dml
from anydml import (
    BindingError,
    DataError,
    DataType,
    DescError,
    Fault,
    FeatureLevel,
    ProgramError,
    Slice1,
    TensorDesc,
    TensorFlags,
    UnsupportedError,
    Violation,
    check,
)
from anydml.errors import show
from anydml.schema.operator import example_desc, rejections


def refused(desc: Any, level: FeatureLevel = FeatureLevel.FL_6_4, *, strict: bool = False) -> DescError:
    with pytest.raises(DescError) as caught:
        check(desc, level, strict=strict)
    return caught.value


def window(**changes: Any) -> Slice1:
    """The documentation's example, with some fields changed."""
    return example_desc(Slice1, changes)


OUTSIDE = window(input_window_offsets=(0, 0, 0, 2))


# --- texts ---


def test_a_window_outside_its_input() -> None:
    error = refused(OUTSIDE)
    assert str(error) == (
        "Slice1.window_inside_input: input_window_offsets[3] is 2 and input_window_sizes[3] is 3; "
        "they must add up to at most input_tensor.sizes[3] (4): the window lies inside the input\n"
        "    would fit: input_window_offsets[3] = 0 to 1, or input_window_sizes[3] = 1 to 2"
    )
    (violation,) = error.violations
    assert violation.wire_text() == (
        "DML_OPERATOR_SLICE1.window_inside_input: InputWindowOffsets[3] is 2 and InputWindowSizes[3] is 3; "
        "they must add up to at most InputTensor.Sizes[3] (4): the window lies inside the input\n"
        "    would fit: InputWindowOffsets[3] = 0 to 1, or InputWindowSizes[3] = 1 to 2"
    )


def test_a_level_that_lacks_the_type() -> None:
    tensors = {
        "input_tensor": TensorDesc(DataType.INT64, (1, 1, 4, 4)),
        "output_tensor": TensorDesc(DataType.INT64, (1, 1, 2, 2)),
    }
    first, second = refused(window(**tensors), FeatureLevel.FL_4_0).violations
    assert str(first) == (
        "Slice1.data_type_supported: input_tensor.data_type is INT64; feature level 4_0 takes "
        "FLOAT32, FLOAT16, INT32, INT16, INT8, UINT32, UINT16 or UINT8 here\n    would fit: feature level 4_1"
    )
    assert second.wire_text().startswith(
        "DML_OPERATOR_SLICE1.data_type_supported: OutputTensor.DataType is INT64; feature level 4_0 takes FLOAT32, "
    )


def test_a_level_that_lacks_the_operator() -> None:
    error = refused(window(), FeatureLevel.FL_2_0)
    assert str(error) == ("Slice1.available: the feature level is 2_0; it must be at least 2_1, with which SLICE1 came")


def test_a_tensor_s_own_rule_names_the_tensor() -> None:
    t = TensorDesc(DataType.FLOAT32, (1, 1, 4, 4), total_tensor_size_in_bytes=60)
    assert str(refused(window(input_tensor=t))) == (
        "Slice1.total_large_enough: input_tensor.total_tensor_size_in_bytes is 60; it must hold the elements of "
        "input_tensor.data_type (FLOAT32) that input_tensor.sizes (1, 1, 4, 4) and input_tensor.strides (absent) span, "
        "rounded up to 4 bytes\n    would fit: at least 64"
    )
    owned = TensorDesc(DataType.FLOAT32, (1, 1, 2, 2), flags=TensorFlags.OWNED_BY_DML)
    assert str(refused(window(output_tensor=owned))) == (
        "Slice1.output_not_owned: output_tensor.flags is OWNED_BY_DML; it must not have OWNED_BY_DML on an output: "
        "only inputs can be owned\n    would fit: NONE"
    )


def test_a_matmul_that_does_not_fit() -> None:
    t = TensorDesc(DataType.UINT8, (5, 3))
    error = refused(example_desc(dml.QuantizedLinearMatrixMultiply, {"b_tensor": t}))
    assert str(error) == (
        "QuantizedLinearMatrixMultiply.inner_sizes_match: the last of a_tensor.sizes is 4 and the second last of "
        "b_tensor.sizes is 5; they must be equal (K)"
    )
    wide = TensorDesc(DataType.FLOAT32, (3,))
    error = refused(example_desc(dml.QuantizedLinearMatrixMultiply, {"output_scale_tensor": wide}))
    assert str(error).endswith("\n    would fit: (1,)")


def test_what_is_absent_is_called_so() -> None:
    desc = example_desc(
        dml.QuantizedLinearMatrixMultiply,
        {"a_zero_point_tensor": None, "a_scale_tensor": TensorDesc(DataType.FLOAT32, (1, 1))},
    )
    (violation,) = refused(desc).violations
    assert violation.values["AZeroPointTensor.DimensionCount"] == "absent"
    assert "; they must be equal where they are not absent" in str(violation)
    assert ", a_zero_point_tensor.dimension_count is absent, and " in str(violation)


def test_every_violation_is_told_at_once() -> None:
    desc = window(input_window_offsets=(0, 0, 1, 2), input_window_strides=(1, 0, 2, 2), input_window_sizes=(0, 1, 4, 3))
    error = refused(desc)
    assert [(v.constraint, v.dimension) for v in error.violations] == [
        ("window_not_empty", 0),
        ("window_inside_input", 2),
        ("window_inside_input", 3),
        ("stride_not_zero", 1),
    ]
    assert str(error) == "\n".join(map(str, error.violations))
    assert str(error).count("\n") == 6
    assert all(v.operator == "SLICE1" for v in error.violations)


def test_of_a_number_that_no_desc_can_carry_nothing_else_is_said() -> None:
    error = refused(window(input_window_offsets=(0, 0, -1, 2**70)))
    assert [v.constraint for v in error.violations] == ["input_window_offsets_fits"]
    assert error.violations[0].values == {"InputWindowOffsets": (0, 0, -1, 2**70)}
    assert str(error).startswith("Slice1.input_window_offsets_fits: input_window_offsets is (0, 0, -1, 1180")
    assert str(error).endswith("); each must fit UINT, 0 to 4294967295")
    t = TensorDesc(DataType.FLOAT32, (1, 1, 2**32, 4))
    error = refused(window(input_tensor=t))
    assert {v.constraint for v in error.violations} == {"sizes_fit"}
    assert "would fit: 1 to 4294967295" in str(error)
    negative = TensorDesc(DataType.FLOAT32, (1, 1, -1, 4))
    assert "would fit: at least 1" in str(refused(window(input_tensor=negative)))


def test_where_what_would_fit_cannot_be_said_it_is_left_out() -> None:
    """If the window is empty or an input has no dimensions, the message names no valid value."""
    desc = Slice1(
        input_tensor=TensorDesc(DataType.FLOAT32, ()),
        output_tensor=TensorDesc(DataType.FLOAT32, (1,)),
        input_window_offsets=(0,),
        input_window_sizes=(0,),
        input_window_strides=(1,),
    )
    error = refused(desc)
    assert "window_not_empty" in {v.constraint for v in error.violations}
    assert str(error)


def test_numbers_of_any_length_can_be_shown() -> None:
    """Python refuses to print integers with more than 4,300 digits."""
    error = refused(window(input_window_offsets=(0, 0, 0, 10**5000)))
    assert [v.constraint for v in error.violations] == ["input_window_offsets_fits"]
    assert str(error)


def test_values_as_messages_print_them() -> None:
    shown = {
        "1 to 2": range(1, 3),
        "0 to 4294967295": range(2**32),
        "3": range(3, 4),
        "at least 64": range(64, 2**64),
        "at least 1": range(1, 2**32),
        "(1, 1, 4, 4)": (1, 1, 4, 4),
        "0 or 4": [0, 4],
        "FLOAT32": DataType.FLOAT32,
        "INT8 or UINT8": [DataType.INT8, DataType.UINT8],
        "4_1": FeatureLevel.FL_4_1,
        "NONE": TensorFlags.NONE,
        "OWNED_BY_DML": TensorFlags.OWNED_BY_DML,
        "absent": "absent",
    }
    for text, value in shown.items():
        assert show(value) == text


# --- kinds and codes ---


def test_kinds_of_errors() -> None:
    for error in (DescError, BindingError, DataError, ProgramError):
        assert issubclass(error, dml.Error)
        assert issubclass(error, ValueError)
    assert issubclass(UnsupportedError, dml.Error)
    assert issubclass(UnsupportedError, RuntimeError)
    assert not issubclass(UnsupportedError, ValueError)


def test_hresults() -> None:
    assert DescError.hresult == refused(OUTSIDE).hresult == 0x80070057
    with pytest.raises(UnsupportedError) as caught:
        dml.Device("gpu")
    assert caught.value.hresult == 0x887A0004
    for error in (BindingError, DataError, ProgramError):  # DirectML has no code for it, and would remove the device
        assert not hasattr(error, "hresult")


def test_devices_and_levels_that_are_not_there() -> None:
    with pytest.raises(UnsupportedError, match=r"^there is no device 'gpu'; the devices are cpu, reference, opencl$"):
        dml.Device("gpu")
    for level in ("7_0", "6.5", "newest", 0x9999, 3):
        with pytest.raises(UnsupportedError):
            dml.Device(feature_level=level)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="there is no feature level '7_0'; the levels are 1_0, 2_0, 2_1, "):
        dml.Device(feature_level="7_0")
    for level in ("6_4", "6.4", "FL_6_4", "DML_FEATURE_LEVEL_6_4", FeatureLevel.FL_6_4, 0x6400):
        assert dml.Device(feature_level=level).feature_level is FeatureLevel.FL_6_4  # type: ignore[arg-type]


def test_a_device_has_the_levels_up_to_its_own() -> None:
    device = dml.Device(feature_level="4_0")
    assert device.highest_feature_level([FeatureLevel.FL_2_1, FeatureLevel.FL_6_0, FeatureLevel.FL_3_1]) is FeatureLevel.FL_3_1
    with pytest.raises(UnsupportedError):
        device.highest_feature_level([FeatureLevel.FL_4_1, FeatureLevel.FL_6_4])
    with pytest.raises(UnsupportedError):
        device.highest_feature_level([])
    assert not device.supports_data_type(DataType.FLOAT64)
    assert dml.Device(feature_level="4_1").supports_data_type(DataType.FLOAT64)
    assert dml.Device().supports_data_type(DataType.UINT4)
    assert not dml.Device(feature_level="6_2").supports_data_type(DataType.UINT4)


def test_a_desc_checked_for_a_level_above_the_device_s() -> None:
    checked = check(window(), FeatureLevel.FL_5_0)
    assert dml.Device(feature_level="5_0").compile(checked)
    assert dml.Device(feature_level="6_4").compile(checked)
    with pytest.raises(UnsupportedError, match="checked for feature level 5_0, above the device's 4_1"):
        dml.Device(feature_level="4_1").compile(checked)


def test_compile_checks_against_the_device_s_level() -> None:
    with pytest.raises(DescError, match="available"):
        dml.Device(feature_level="2_0").compile(window())


# --- errors in other processes ---


def data_error() -> DataError:
    one = np.ones((1, 1), np.int8)
    with pytest.raises(DataError) as caught:
        dml.quantized_linear_matrix_multiply(one, float("nan"), None, one, 1.0, None, 1.0, None)
    return caught.value


def unsupported() -> UnsupportedError:
    with pytest.raises(UnsupportedError) as caught:
        dml.Device("gpu")
    return caught.value


ERRORS: dict[str, Callable[[], Exception]] = {
    "DescError": lambda: refused(window(input_window_offsets=(0, 0, 1, 2))),
    "DescError with alternatives": lambda: refused(window(input_tensor=TensorDesc(DataType.UINT4, (1, 1, 4, 4)))),
    "DescError with a tensor rule": lambda: refused(
        window(input_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 4, 4), guaranteed_base_offset_alignment=3))
    ),
    "BindingError": lambda: BindingError([Fault("a_tensor", "is missing"), Fault("", "initialize comes first")]),
    "ProgramError": lambda: ProgramError([Fault("/dispatchables/0", "is wrong", refused(OUTSIDE).violations[0])]),
    "DataError": data_error,
    "UnsupportedError": unsupported,
}


def contents(error: Exception) -> tuple[Any, ...]:
    names = ("violations", "faults", "tensor", "index", "rule", "hresult")
    return (type(error), str(error), *(getattr(error, name, None) for name in names))


@pytest.mark.parametrize("make", ERRORS.values(), ids=ERRORS)
def test_errors_survive_pickling_and_copying(make: Callable[[], Exception]) -> None:
    error = make()
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert contents(pickle.loads(pickle.dumps(error, protocol))) == contents(error)
    assert contents(copy.copy(error)) == contents(error)
    assert contents(copy.deepcopy(error)) == contents(error)


def fail(kind: str) -> None:
    raise ERRORS[kind]()


def test_errors_come_back_from_another_process() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        for kind in ("DescError", "BindingError", "UnsupportedError"):
            error = pool.submit(fail, kind).exception()
            assert isinstance(error, dml.Error)
            assert contents(error) == contents(ERRORS[kind]())


def test_violations_and_faults_are_values() -> None:
    first, second = refused(OUTSIDE).violations[0], refused(OUTSIDE).violations[0]
    assert first == second
    assert first != replace(first, dimension=2)
    with pytest.raises(FrozenInstanceError):
        first.dimension = 2  # type: ignore[misc]
    assert Violation("SLICE1", "x", "`A` is `B`.", None, {"A": 1, "B": 2}).expected == {}
    assert str(Fault("a_tensor", "is missing")) == "a_tensor: is missing"
    assert str(Fault("", "is missing")) == "is missing"
    assert str(BindingError([Fault("a", "x"), Fault("b", "y")])) == "a: x\nb: y"


def test_a_desc_error_can_be_pickled_with_its_desc() -> None:
    desc = window()
    assert pickle.loads(pickle.dumps(desc)) == desc
    assert copy.deepcopy(desc) == desc
    assert hash(pickle.loads(pickle.dumps(desc))) == hash(desc)
    check(desc)  # the result of a check does not count in comparisons
    assert desc == window()
    assert hash(desc) == hash(window())


# --- construction converts, without any check ---


def test_construction_converts() -> None:
    made = TensorDesc(
        "DML_TENSOR_DATA_TYPE_FLOAT32",
        [np.int64(1), 2],
        strides=np.array([2, 1]),
        flags="DML_TENSOR_FLAG_OWNED_BY_DML",
        total_tensor_size_in_bytes=np.uint8(8),
    )
    assert made == TensorDesc(
        DataType.FLOAT32, (1, 2), strides=(2, 1), flags=TensorFlags.OWNED_BY_DML, total_tensor_size_in_bytes=8
    )
    assert TensorDesc("INT8", (1,)).data_type is DataType.INT8
    assert TensorDesc(8, (1,)).data_type is DataType.INT8
    assert window(input_window_offsets=np.array([0, 0, 0, 1])) == window()
    assert window(dimension_count=None).dimension_count == 4


def test_construction_refuses_what_cannot_be_converted() -> None:
    wrong: tuple[Callable[[], Any], ...] = (
        lambda: TensorDesc("FLOAT31", (1,)),
        lambda: TensorDesc(99, (1,)),
        lambda: TensorDesc(DataType.INT8, (1.5,)),  # type: ignore[arg-type]
        lambda: TensorDesc(DataType.INT8, 4),  # type: ignore[arg-type]
        lambda: TensorDesc(DataType.INT8, (1,), strides="1"),  # type: ignore[arg-type]
        lambda: TensorDesc(DataType.INT8, (1,), flags="MINE"),
        lambda: TensorDesc(DataType.INT8, (1,), flags=2),
        lambda: TensorDesc(DataType.INT8, (1,), total_tensor_size_in_bytes=None),  # type: ignore[arg-type]
        lambda: window(input_tensor=None),
        lambda: window(input_tensor=np.zeros(4)),
        lambda: window(input_window_sizes=(1, 1, 4, "3")),
        lambda: window(dimension_count=4.0),
        lambda: Slice1(),  # type: ignore[call-arg]  # meant
    )
    for make in wrong:
        with pytest.raises((TypeError, ValueError)) as caught:
            make()
        assert not isinstance(caught.value, dml.Error)


def test_a_data_type_is_named_as_numpy_does_too() -> None:
    assert TensorDesc("bfloat16", (1,)).data_type is TensorDesc(ml_dtypes.bfloat16, (1,)).data_type is DataType.BFLOAT16
    for data_type in (t for t in DataType if DataType.UNKNOWN < t < DataType.UINT4):
        dtype = data_type.dtype
        for told in (dtype, dtype.type, dtype.name, dtype.str, dtype.str[1:], data_type, data_type.name, int(data_type)):
            assert TensorDesc(told, (1,)).data_type is data_type
    wrong: tuple[Any, ...] = (
        bool,
        "bool",
        np.complex64,
        "complex64",
        "c8",
        "V",
        object,
        np.dtype(">i4"),
        ">i4",
        list,
        None,
        1.5,
        "",
    )
    for told in wrong if np.little_endian else ():
        with pytest.raises((TypeError, ValueError)):
            TensorDesc(told, (1,))


def test_reprs_are_the_calls_that_make_descs() -> None:
    assert repr(TensorDesc(DataType.FLOAT32, [1, np.int64(2)])) == "TensorDesc('FLOAT32', (1, 2))"
    assert repr(TensorDesc("INT8", (2, 3), strides=(4, 1), flags=1, total_tensor_size_in_bytes=8)) == (
        "TensorDesc('INT8', (2, 3), strides=(4, 1), flags='OWNED_BY_DML', total_tensor_size_in_bytes=8)"
    )
    assert repr(TensorDesc("INT8", (1,), guaranteed_base_offset_alignment=4)) == (
        "TensorDesc('INT8', (1,), guaranteed_base_offset_alignment=4)"
    )
    assert repr(window()) == (
        "Slice1(input_tensor=TensorDesc('FLOAT32', (1, 1, 4, 4)), output_tensor=TensorDesc('FLOAT32', (1, 1, 2, 2)), "
        "input_window_offsets=(0, 0, 0, 1), input_window_sizes=(1, 1, 4, 3), input_window_strides=(1, 1, 2, 2))"
    )
    assert "dimension_count=3" in repr(window(dimension_count=3))


def test_reprs_can_be_pasted_back() -> None:
    """Also those of descs that break rules; test_operators has random legal ones."""
    every = dml.operators.every()
    names = {**vars(dml), **{operator.__name__: operator for operator in every}}
    for operator in every:
        for changes in rejections(operator):
            desc = example_desc(operator, changes.fields)
            text = repr(desc)
            assert eval(text, names) == desc
            assert "<" not in text


def test_check_takes_a_level_by_name() -> None:
    for level in ("2_1", "2.1", "FL_2_1", "DML_FEATURE_LEVEL_2_1", 0x2100, FeatureLevel.FL_2_1):
        assert check(window(), level).feature_level is FeatureLevel.FL_2_1  # type: ignore[arg-type]
    with pytest.raises(DescError, match="available"):
        check(window(), "2_0")
    wrong: tuple[Any, ...] = ("7_0", "", None, 2.1, [], 5)
    for level in wrong:
        with pytest.raises(UnsupportedError, match=r"there is no feature level .*; the levels are 1_0, 2_0, 2_1, "):
            check(window(), level)


def test_check_takes_a_desc() -> None:
    wrong: dict[str, Any] = {
        "None": None,
        "dict": {},
        "TensorDesc": TensorDesc("INT8", (1,)),
        "Checked": check(window()),
        "the class Slice1": Slice1,
    }
    for kind, value in wrong.items():
        for call in (check, dml.Device().compile) if kind != "Checked" else (check,):
            with pytest.raises(BindingError, match=f"^desc takes an operator's desc, such as a Slice1, not {kind}$"):
                call(value)
