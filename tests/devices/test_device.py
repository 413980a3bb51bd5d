"""Devices: what they support, flags, threads, instruction sets, verbose lines; and the modules that an import loads."""

from __future__ import annotations

import functools
import gc
import json
import math
import subprocess
import sys
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.feature_level import FeatureLevel
from anydml.kernels.call import pool
from anydml.kernels.code.llvm import unavailable
from anydml.kernels.code.targets import targets
from anydml.kernels.copy import copies
from anydml.kernels.kernel import Built, Machine
from anydml.kernels.numpy import contract as numpy_contract
from anydml.kernels.problem import problem_of
from anydml.schema.operator import example_desc
from anydml.tensor import DataType
from every_kernel import plan_of


@pytest.mark.parametrize(
    ("level", "absent"),
    [
        ("1_0", {"FLOAT64", "INT64", "UINT64", "INT4", "UINT4"}),
        ("2_1", {"FLOAT64", "INT64", "UINT64", "INT4", "UINT4"}),
        ("4_0", {"FLOAT64", "INT4", "UINT4"}),
        ("4_1", {"INT4", "UINT4"}),
        ("6_2", {"INT4", "UINT4"}),
        ("6.4", set()),
        ("EXTENDED", set()),
    ],
)
def test_data_types_that_some_operator_takes(level: str, absent: set[str]) -> None:
    device = dml.Device(feature_level=level)
    absent = absent | {"UNKNOWN"} | ({t.name for t in DataType if t >= 256} if level != "EXTENDED" else set())
    assert {t.name for t in DataType if not device.supports_data_type(t)} == absent


def test_the_highest_of_the_requested_levels() -> None:
    device = dml.Device(feature_level=FeatureLevel.FL_4_1)
    assert device.highest_feature_level(FeatureLevel) == FeatureLevel.FL_4_1
    assert device.highest_feature_level([FeatureLevel.FL_2_0, FeatureLevel.FL_5_0]) == FeatureLevel.FL_2_0
    with pytest.raises(dml.UnsupportedError) as caught:
        device.highest_feature_level([FeatureLevel.FL_5_0])
    assert caught.value.hresult == 0x887A0004


def test_a_desc_checked_above_the_device_s_level_is_refused() -> None:
    checked = dml.check(example_desc(dml.Slice1), FeatureLevel.FL_6_0)
    with pytest.raises(dml.UnsupportedError, match="6_0, above the device's 3_0"):
        dml.Device(feature_level="3_0").compile(checked)
    assert dml.Device(feature_level="6_0").compile(checked).desc is checked.desc


@pytest.mark.parametrize("flags", list(dml.ExecutionFlags))
def test_execution_flags_change_nothing(flags: dml.ExecutionFlags) -> None:
    operator = dml.QuantizedLinearMatrixMultiply
    example = operator.spec.examples[0]
    output = np.empty_like(example.output)
    compiled = dml.Device().compile(example_desc(operator), flags=flags)
    compiled.bind(**example.inputs, output_tensor=output).execute()
    np.testing.assert_array_equal(output, example.output)


def test_what_is_no_device_is_refused() -> None:
    with pytest.raises(dml.UnsupportedError, match="no device 'gpu'; the devices are cpu, reference"):
        dml.Device("gpu")
    with pytest.raises(dml.UnsupportedError, match="no feature level '7_0'"):
        dml.Device(feature_level="7_0")
    with pytest.raises(dml.UnsupportedError, match="has no 'mmx'"):
        dml.Device(isa="mmx")
    with pytest.raises(ValueError, match="at least one thread"):
        dml.Device(threads=0)


def test_threads_come_from_the_keyword_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert pool.default_threads() == 3
    monkeypatch.setenv("ANYDML_NUM_THREADS", "5")
    assert pool.default_threads() == 5
    assert dml.Device().machine.threads == 5
    assert dml.Device(threads=2).machine.threads == 2
    for blank in ("", " "):
        monkeypatch.setenv("ANYDML_NUM_THREADS", blank)
        assert pool.default_threads() == 3
    for others in ("0", "-1", "many", "2.5", "\u00b2"):  # variables that are not anydml's are not checked
        monkeypatch.setenv("OMP_NUM_THREADS", others)
        assert pool.default_threads() >= 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert pool.default_threads() >= 1


@pytest.mark.parametrize("value", ["foo", "0", "00", "-1", "2.5", "2,3", "\u00b2", "1e3"])
def test_a_number_of_threads_that_is_none_is_an_error_that_names_it(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYDML_NUM_THREADS", value)
    with pytest.raises(
        dml.UnsupportedError, match=f"^ANYDML_NUM_THREADS is '{value}', and takes a number of threads, 1 or more$"
    ):
        dml.Device()
    assert dml.Device(threads=1).machine.threads == 1


@pytest.mark.parametrize("asked", ["keyword", "ANYDML_NUM_THREADS", "OMP_NUM_THREADS"])
@pytest.mark.parametrize("threads", [10**9, 10**5000], ids=["a billion", "5001 digits"])
def test_absurd_numbers_of_threads_are_capped(asked: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if asked == "keyword":
        device = dml.Device(threads=threads)
    else:
        monkeypatch.setenv(asked, "1" + "0" * (9 if threads == 10**9 else 5000))
        device = dml.Device()
    assert device.machine.threads == max(64, pool.processors())
    x = np.arange(10**6, dtype=np.int16)
    tracemalloc.start()
    try:
        result = dml.slice1(x, (0,), x.shape, (-1,), device=device)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(result, x[::-1])
    assert peak < 16 << 20


@pytest.mark.parametrize("threads", [1, 2, 3, 64, 10**9])
def test_there_is_at_most_one_piece_of_work_for_each_thread_asked_for(threads: int) -> None:
    if unavailable() is not None:
        pytest.skip("nothing can be compiled here")
    most, target = dml.Device(threads=threads).machine.threads, targets()[-1]
    for sizes, strides in (((1000, 1000), (4000, 4)), ((7, 90001), (360004, 4)), ((10**6,), (4,)), ((1000, 1000), (4, 4000))):
        packed = [4 * math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        assert len(copies.copy(target, sizes, strides, packed, 4, most).pieces) <= most
    for m, k, n in ((1000, 100, 1000), (1, 4096, 4096), (20000, 64, 16)):
        a, b, c = (dml.TensorDesc(t, s) for t, s in (("INT8", (m, k)), ("INT8", (k, n)), ("INT32", (m, n))))
        checked = dml.check(dml.MatrixMultiplyInteger(a_tensor=a, b_tensor=b, output_tensor=c))
        pieces = max(len(phase) for rounds in plan_of(checked, target, most).rounds for phase in rounds.phases)
        assert pieces <= most
        assert pieces > 1 or most == 1


def test_a_device_s_repr_names_what_computes() -> None:
    device = dml.Device(threads=3, feature_level="4_0")
    if unavailable() is None:
        threads = min(3, pool.processors())
        named = f"{targets()[-1].name}, {threads} thread{'s' if threads > 1 else ''}"
        assert repr(dml.Device(threads=1, isa="generic")) == "<Device cpu: feature level 6_4, generic, 1 thread>"
    else:
        named = "NumPy"
    assert repr(device) == f"<Device cpu: feature level 4_0, {named}>"
    assert repr(dml.Device("reference")) == "<Device reference: feature level 6_4>"


def test_binding_properties_are_bytes() -> None:
    owned = dml.TensorDesc("FLOAT32", (4, 6), strides=(8, 1), flags="OWNED_BY_DML")
    desc = dml.Slice1(
        input_tensor=owned,
        output_tensor=dml.TensorDesc("FLOAT32", (4, 6)),
        input_window_offsets=(0, 0),
        input_window_sizes=(4, 6),
        input_window_strides=(1, 1),
    )
    properties = dml.Device().compile(desc).binding_properties
    assert properties == dml.BindingProperties(0, 4 * (3 * 8 + 6))
    matmul = dml.Device().compile(example_desc(dml.MatrixMultiplyInteger)).binding_properties
    assert matmul.temporary_resource_size > 0
    assert matmul.persistent_resource_size == 0
    checked = dml.check(example_desc(dml.MatrixMultiplyInteger))
    in_blocks = numpy_contract.lower(problem_of(checked), Machine(None, 1))
    assert isinstance(in_blocks, Built)
    assert in_blocks.temporary_resource_size == 4 * (4 * 3 + 3 * 2 + 4 * 2) + 8 * 4 * 2


@pytest.mark.parametrize("verbose", ["1", "dispatch", "0", ""])
def test_verbose_lines_are_json(verbose: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ANYDML_VERBOSE", verbose)
    operator = dml.MatrixMultiplyInteger
    example = operator.spec.examples[0]
    bound = (
        dml.Device(feature_level="5_2")
        .compile(example_desc(operator))
        .bind(**example.inputs, output_tensor=np.empty_like(example.output))
    )
    bound.execute()
    bound.execute()
    out, err = capfd.readouterr()
    lines: list[dict[str, Any]] = [json.loads(line) for line in err.splitlines()]
    assert out == ""
    if verbose in ("0", ""):
        assert lines == []
        return
    assert [line["anydml"] for line in lines] == ["compile", "execute", "execute"]
    compiled = lines[0]
    assert compiled["operator"] == "DML_OPERATOR_MATRIX_MULTIPLY_INTEGER"
    assert compiled["kernel"] == lines[1]["kernel"]
    assert compiled["kernel"].startswith("contract:")
    assert compiled["feature_level"] == "5_2"
    assert compiled["sizes"]["a_tensor"] == [4, 3]
    assert all(line["microseconds"] > 0 for line in lines)
    assert ("refused" in compiled) == (verbose == "dispatch")


def test_dispatch_lines_say_who_refused_and_why(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ANYDML_VERBOSE", "dispatch")
    dml.Device().compile(example_desc(dml.Slice1))
    line = json.loads(capfd.readouterr().err)
    assert line["kernel"] == "copy:numpy"
    assert [refusal["kernel"] for refusal in line["refused"]] == ["copy:compiled"]
    assert "below 32768, NumPy's copy is as fast" in line["refused"][0]["reason"]


@pytest.mark.parametrize(
    ("lead", "k", "reason"), [((2, 2), 1 << 24, "bytes to work in: too many for tensors of"), ((1, 1), 1 << 25, "K = 33554432")]
)
def test_a_product_that_takes_too_much_memory_compiled_is_computed_in_pieces(
    lead: tuple[int, int], k: int, reason: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With zero strides, tensors of any size need only a few bytes."""
    if unavailable() is not None:
        pytest.skip("nothing can be compiled here")
    monkeypatch.setenv("ANYDML_VERBOSE", "dispatch")
    a, b = (dml.TensorDesc("INT8", (*lead, *sizes), strides=(0,) * 4) for sizes in ((1, k), (k, 1)))
    desc = dml.MatrixMultiplyInteger(a_tensor=a, b_tensor=b, output_tensor=dml.TensorDesc("INT32", (*lead, 1, 1)))
    assert dml.Device().compile(desc).kernel_name == "contract:numpy"
    line = json.loads(capfd.readouterr().err)
    assert reason in {x["kernel"]: x["reason"] for x in line["refused"]}["contract:compiled"]


def test_an_import_brings_nothing_that_a_first_call_does_not_need() -> None:
    code = (
        "import sys, anydml; "
        "print([n for n in ('llvmlite', 'click', 'rich', 'anydml.program', 'anydml.explain.compare', 'json', 'PIL') "
        "if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("n", "compiles"), [(8, False), (256, True)])
def test_a_first_copy_imports_what_a_copy_needs(n: int, compiles: bool) -> None:
    code = (
        f"import sys, numpy as np, anydml as dml; x = np.zeros(({n}, {n}), np.float32); "
        "dml.slice1(x, (0, 0), x.shape, (1, -1)); "
        "print([n for n in sys.modules if n.startswith(('anydml.kernels.contract', 'anydml.kernels.match.product', "
        "'anydml.kernels.numpy.contract', 'anydml.kernels.reference', 'anydml.kernels.copy.copies', 'flint', "
        "'anydml.kernels.elementwise', 'anydml.kernels.reduce', 'anydml.kernels.match.maps', 'anydml.kernels.match.rows', "
        "'anydml.devices.link'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    compiled = compiles and unavailable() is None
    assert done.stdout.strip() == str(["anydml.kernels.copy.copies", "anydml.devices.link"] if compiled else [])


@pytest.mark.parametrize("n", [8, 256])
def test_a_copy_without_scratch_is_executed_by_the_bare_call(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.arange(n * n, dtype=np.float32).reshape(n, n), np.zeros((n, n), np.float32)
    desc = dml.Slice1(
        input_tensor=dml.TensorDesc.of(x),
        output_tensor=dml.TensorDesc.of(out),
        input_window_offsets=(0, 0),
        input_window_sizes=(n, n),
        input_window_strides=(-1, 1),
    )
    execute = dml.Device(threads=1).compile(desc).bind(input_tensor=x, output_tensor=out).execute
    assert isinstance(execute, functools.partial)  # NumPy's copy or machine code is called directly
    assert execute() is None
    np.testing.assert_array_equal(out, x[::-1])
    x += 1
    execute()
    np.testing.assert_array_equal(out, x[::-1])


def test_a_call_with_scratch_or_data_rules_is_not_bare() -> None:
    compiled = dml.Device().compile(example_desc(dml.QuantizedLinearMatrixMultiply))
    example = dml.QuantizedLinearMatrixMultiply.spec.examples[0]
    execute = compiled.bind(**example.inputs, output_tensor=np.empty_like(example.output)).execute
    assert not isinstance(execute, functools.partial)


def test_a_device_goes_with_its_last_reference() -> None:
    """The operators that it keeps for eager calls do not reference it: no garbage collection is needed."""
    device = dml.Device()
    dml.element_wise_add(np.zeros(3, np.float32), np.zeros(3, np.float32), device=device)
    known = weakref.ref(device)
    gc.disable()
    try:
        del device
        assert known() is None
    finally:
        gc.enable()
