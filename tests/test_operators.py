"""What every operator is tested for by existing: generated over operators, devices and kernels from the operator files.

Each test says how many cases it ran, and demands a minimum: a generator that yields nothing must not pass.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hard_cases
import oracle
from anydml import (
    DataType,
    DescError,
    Device,
    FeatureLevel,
    MatrixMultiplyInteger,
    QuantizedLinearMatrixMultiply,
    Slice,
    Slice1,
    TensorDesc,
    TensorFlags,
    Violation,
    check,
    operators,
)
from anydml.devices.device import NAMES as DEVICES
from anydml.kernels.kernel import Kernel, Machine
from anydml.kernels.reference import evaluated
from anydml.names import class_name, snake_case
from anydml.schema.constraint import Constraint
from anydml.schema.operator import Desc, example_desc, rejections
from anydml.schema.tensor_rules import BREAKS, ON_OUTPUTS, TENSOR_RULES
from every_kernel import Operator, Ran, compiled_by, kernels_of, machines_for, run, some
from hard_cases import QuantizedCase
from strategies import SETTINGS, Binding, any_desc, arrays_for, descs, laid_over, outputs_for

OPERATORS = operators.every()
MOSTLY = 50  # per cent of what is drawn, at least, is to be taken by each kernel; one that refuses it all must not pass

# Hypothesis shows a failing desc together with its operator's whole specification, and then warns that this is long.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

by_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.spec.name)
by_device = pytest.mark.parametrize("device", DEVICES)


by_kernel = pytest.mark.parametrize(
    ("operator", "kernel", "machine"),
    [
        pytest.param(o, k, m, id="-".join(filter(None, (o.spec.name, k.name, m.isa))))
        for o in OPERATORS
        for k in kernels_of(o)
        for m in machines_for(k)
    ],
)


def values(bindings: Mapping[str, Binding]) -> dict[str, Any]:
    return {name: binding.value for name, binding in bindings.items()}


def expected(desc: Desc, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The oracle's result, as the bit patterns of the output's elements."""
    if isinstance(desc, Slice1):
        window = (desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides)
        bits = oracle.slice1(oracle.bits_of(inputs["input_tensor"]), *window, desc.output_tensor.sizes)
    elif isinstance(desc, Slice):
        bits = oracle.slice_(oracle.bits_of(inputs["input_tensor"]), desc.offsets, desc.sizes, desc.strides)
    elif isinstance(desc, MatrixMultiplyInteger):
        a, b = inputs["a_tensor"], inputs["b_tensor"]
        zero_points = inputs.get("a_zero_point_tensor"), inputs.get("b_zero_point_tensor")
        product = oracle.matrix_multiply_integer(a, zero_points[0], b, zero_points[1])
        return product.view(np.uint32).reshape(desc.output_tensor.sizes)
    elif isinstance(desc, QuantizedLinearMatrixMultiply):
        limits = np.iinfo(desc.output_tensor.data_type.dtype)
        operands: list[Any] = [inputs.get(field.name) for field in desc.spec.inputs]
        result = oracle.quantized_linear_matrix_multiply_bulk(*operands, lo=int(limits.min), hi=int(limits.max))  # type: ignore[misc]
        return result.astype(limits.dtype).view(np.uint8).reshape(desc.output_tensor.sizes)
    else:
        raise NotImplementedError(f"the oracle lacks {desc.spec.name}")
    size = desc.output_tensor.data_type.element_bits // 8
    return np.array(bits.elements, f"u{size}").reshape(bits.sizes)


def bits_of(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"u{array.itemsize}")


# --- (1) examples ---


@by_operator
@by_device
def test_examples_hold(operator: Operator, device: str, ran: Ran) -> None:
    for example in operator.spec.examples:
        desc = operator(**example.fields)
        output = np.empty(example.output.shape, example.output.dtype)
        compiled = Device(device).compile(desc)
        assert compiled.kernel_name.startswith("reference:") == (device == "reference")
        run(compiled, example.inputs, output)
        np.testing.assert_array_equal(output, example.output, err_msg=example.title)
        np.testing.assert_array_equal(bits_of(output), expected(desc, example.inputs), err_msg=example.title)
        check(desc, strict=True)
    ran(len(operator.spec.examples), 2)


# --- (2) each rule is broken by an example, and nothing else is ---

LEVEL_RULES = {"available", "dimension_count_supported", "data_type_supported"}


@by_operator
def test_every_rule_has_an_example_that_breaks_exactly_it(operator: Operator, ran: Ran) -> None:
    spec = operator.spec
    rejected = rejections(operator)
    broken = Counter(rejects.constraint for rejects in rejected)
    rules = {rule.name for rule in spec.rules}
    assert rules <= set(broken) <= rules | LEVEL_RULES
    assert max(broken.values()) == 1
    for rejects in rejected:
        desc = example_desc(operator, rejects.fields)
        with pytest.raises(DescError) as caught:
            check(desc, rejects.at, strict=rejects.strict)
        assert {v.constraint for v in caught.value.violations} == {rejects.constraint}
        for violation in caught.value.violations:
            assert str(violation).startswith(f"{class_name(spec.name)}.{rejects.constraint}")
            assert violation.wire_text().startswith(f"DML_OPERATOR_{spec.name}.{rejects.constraint}")
        if rejects.strict:  # an extension: legal, and listed
            assert {v.constraint for v in check(desc, rejects.at).extensions} == {rejects.constraint}
    ran(len(rejected), 3)


def test_every_tensor_rule_has_an_example_that_breaks_exactly_it(ran: Ran) -> None:
    names = {rule.name for rule in TENSOR_RULES}
    assert set(BREAKS) == names
    cases = 0
    for name, t in BREAKS.items():
        on_outputs = name in {rule.name for rule in ON_OUTPUTS}
        for role in ("output_tensor",) if on_outputs else ("input_tensor", "output_tensor"):
            with pytest.raises(DescError) as caught:
                check(one_element_window(min(len(t.sizes), 8), **{role: t}))
            broken = [v for v in caught.value.violations if v.constraint in names]
            assert {v.constraint for v in broken} == {name}
            wire = "InputTensor." if role == "input_tensor" else "OutputTensor."
            for violation in broken:
                assert all(path.startswith(wire) for path in violation.values)
                assert str(violation).startswith(f"Slice1.{name}")
            cases += 1
        if on_outputs:  # what the rule asks of outputs, inputs may do
            check(one_element_window(len(t.sizes), input_tensor=t))
    ran(cases, 2 * len(names) - len(ON_OUTPUTS))


def one_element_window(rank: int, **tensors: TensorDesc) -> Slice1:
    one = TensorDesc(DataType.FLOAT32, (1,) * rank)
    return Slice1(
        input_tensor=tensors.get("input_tensor", one),
        output_tensor=tensors.get("output_tensor", one),
        input_window_offsets=(0,) * rank,
        input_window_sizes=(1,) * rank,
        input_window_strides=(1,) * rank,
    )


@by_operator
def test_what_would_fit_fits(operator: Operator, ran: Ran) -> None:
    """The values that a violation offers are put in place, one by one: the rule must then be kept."""
    cases = 0
    for rejects in rejections(operator):
        desc = example_desc(operator, rejects.fields)
        for violation in violations(desc, rejects.at, rejects.strict):
            for path, fits in violation.expected.items():
                for value in alternatives(fits):
                    level = value if path == "FeatureLevel" else rejects.at
                    changed = desc if path == "FeatureLevel" else with_value(desc, path, value)
                    if changed is None:
                        continue
                    still = violations(changed, level, rejects.strict)
                    asked = (violation.constraint, violation.dimension, next(iter(violation.values)))
                    assert asked not in [(v.constraint, v.dimension, next(iter(v.values))) for v in still], (path, value)
                    cases += 1
    ran(cases, 1)


def violations(desc: Desc, level: FeatureLevel, strict: bool) -> tuple[Violation, ...]:
    try:
        check(desc, level, strict=strict)
    except DescError as error:
        return error.violations
    return ()


def with_values(desc: Desc, changes: Mapping[str, Any]) -> Desc:
    return replace(desc, **changes)


def alternatives(fits: Any) -> list[Any]:
    if isinstance(fits, range):
        return [fits[0], fits[-1]]
    return fits if isinstance(fits, list) else [fits]


def with_value(desc: Desc, path: str, value: Any) -> Desc | None:
    """The desc with another value at a wire path; None where the path is a count that follows from an array."""
    *outer, name = path.split(".")
    name, _, index = name.removesuffix("]").partition("[")
    holder: Any = getattr(desc, snake_case(outer[0])) if outer else desc
    field = snake_case(name)
    if field not in {f.name for f in fields(holder)}:
        return None
    if index:
        there = getattr(holder, field)
        value = (*there[: int(index)], value, *there[int(index) + 1 :])
    changed = replace(holder, **{field: value})
    return replace(desc, **{snake_case(outer[0]): changed}) if outer else changed


# --- (3) total ---


@by_operator
def test_check_is_total(operator: Operator, ran: Ran) -> None:
    refused = accepted = 0

    @settings(SETTINGS, max_examples=200)
    @given(any_desc(operator), st.sampled_from(FeatureLevel), st.booleans())
    def judge(desc: Desc, level: FeatureLevel, strict: bool) -> None:
        nonlocal refused, accepted
        try:
            checked = check(desc, level, strict=strict)
        except DescError as caught:
            error = caught
        else:
            accepted += 1
            assert checked.desc is desc
            assert not (strict and checked.extensions)
            return
        refused += 1
        assert error.violations
        assert str(error) == "\n".join(map(str, error.violations))
        assert all(v.wire_text() for v in error.violations)

    judge()
    print(f"{accepted} accepted")
    ran(refused, 100)


# --- (4) sound ---


@by_operator
def test_what_check_accepts_the_reference_computes(operator: Operator, ran: Ran) -> None:
    cases = 0

    @settings(SETTINGS, max_examples=60)
    @given(st.data())
    def sound(data: st.DataObject) -> None:
        nonlocal cases
        desc, level = data.draw(descs(operator))
        checked = check(desc, level)
        inputs = {name: binding.tensor for name, binding in data.draw(arrays_for(desc)).items()}
        (result,) = evaluated(desc.as_newest(), inputs).values()
        output = desc.spec.outputs[0].name
        assert result.shape == checked.tensors[output].sizes
        assert result.dtype == checked.tensors[output].data_type.dtype
        np.testing.assert_array_equal(bits_of(result), expected(desc, inputs))
        for name, t in checked.tensors.items():
            given_desc = getattr(desc, name)
            assert t.strides == given_desc.explicit_strides
            assert t.total_tensor_size_in_bytes >= t.element_bytes
        cases += 1

    sound()
    ran(cases, 60)


# --- (5) equal ---


@by_kernel
@pytest.mark.usefixtures("_any_size")
def test_every_kernel_is_exact_and_writes_nothing_else(operator: Operator, kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """Over packed, padded, permuted, broadcast and offset buffers in every form; every byte near is looked at."""
    cases = 0

    @settings(SETTINGS, max_examples=some(72, kernel))
    @given(st.data())
    def equal(data: st.DataObject) -> None:
        nonlocal cases
        desc, level = data.draw(descs(operator))
        compiled = compiled_by(kernel, machine, check(desc, level))
        if compiled is None:
            return
        inputs, output = data.draw(arrays_for(desc)), data.draw(outputs_for(desc))
        before = {name: binding.memory.copy() for name, binding in inputs.items()}
        wanted = output.memory.copy()
        result = expected(desc, {name: binding.tensor for name, binding in inputs.items()})
        t = getattr(desc, desc.spec.outputs[0].name)
        bits_of(laid_over(t, wanted, output.tensor.ctypes.data - output.memory.ctypes.data))[...] = result
        run(compiled, values(inputs), output.value)
        np.testing.assert_array_equal(bits_of(output.tensor), result)
        np.testing.assert_array_equal(output.memory, wanted, err_msg="a gap, padding or the surroundings were written")
        for name, binding in inputs.items():
            np.testing.assert_array_equal(binding.memory, before[name], err_msg=f"{name} was written")
        cases += 1

    equal()
    ran(cases, MOSTLY * some(72, kernel) // 100)


@by_operator
@by_device
def test_a_device_takes_its_first_kernel_that_does_not_refuse(operator: Operator, device: str, ran: Ran) -> None:
    name = example_desc(operator).as_newest().spec.name
    kernels = importlib.import_module(f"anydml.devices.{device}").kernels(name)
    cases = 0

    @settings(SETTINGS, max_examples=20)
    @given(descs(operator))
    def takes(drawn: tuple[Desc, FeatureLevel]) -> None:
        nonlocal cases
        checked = check(*drawn)
        newest = replace(checked, desc=checked.desc.as_newest())
        on = Device(device)
        first = next(k for k in kernels if k.refuses(newest, on.machine) is None)
        assert on.compile(checked).kernel_name == (first.name if first.implements else f"{first.name}:{name.lower()}")
        cases += 1

    takes()
    ran(cases, 20)


# --- (7) repeatable ---


def in_every_form(binding: Binding, t: TensorDesc) -> list[Any]:
    """The same bytes, bound in every form that a desc without promises takes."""
    start = binding.tensor.ctypes.data - binding.memory.ctypes.data
    size = max(t.element_bytes, t.total_tensor_size_in_bytes)
    size = -(-size // binding.tensor.itemsize) * binding.tensor.itemsize
    content = binding.memory[start : start + size]
    assert len(content) == size
    apart: NDArray[np.uint8] = np.zeros(size + 64, np.uint8)[3:]
    apart[:size] = content
    buffer = content.copy()
    forms = (laid_over(t, apart), buffer, buffer.view(t.data_type.dtype), bytearray(content), memoryview(bytearray(content)))
    return [*forms, bytes(content)]


@by_kernel
@pytest.mark.usefixtures("_any_size")
def test_results_repeat_over_runs_and_binding_forms(operator: Operator, kernel: Kernel, machine: Machine, ran: Ran) -> None:
    cases = 0

    @settings(SETTINGS, max_examples=some(12, kernel))
    @given(st.data())
    def repeats(data: st.DataObject) -> None:
        nonlocal cases
        drawn, level = data.draw(descs(operator))
        promised = {f.name: getattr(drawn, f.name) for f in drawn.spec.tensors if getattr(drawn, f.name) is not None}
        desc = replace(drawn, **{n: replace(t, guaranteed_base_offset_alignment=0) for n, t in promised.items()})
        inputs = data.draw(arrays_for(desc))
        result = expected(desc, {name: binding.tensor for name, binding in inputs.items()})
        forms = {name: in_every_form(binding, getattr(desc, name)) for name, binding in inputs.items()}
        for form in range(6):
            compiled = compiled_by(kernel, machine, check(desc, level))  # anew: owned inputs are bound once
            if compiled is None:
                return
            chosen = {name: forms[name][form] for name in forms}
            owned = {n: x for n, x in chosen.items() if getattr(desc, n).flags & TensorFlags.OWNED_BY_DML}
            if owned:
                compiled.initialize(**owned)
            output = data.draw(outputs_for(desc))
            bound = compiled.bind(**{n: x for n, x in chosen.items() if n not in owned}, output_tensor=output.value)
            for _ in range(2):
                bits_of(output.tensor)[...] = 0xA5
                bound.execute()
                np.testing.assert_array_equal(bits_of(output.tensor), result)
                cases += 1

    repeats()
    ran(cases, MOSTLY * some(144, kernel) // 100)


@by_kernel
@pytest.mark.usefixtures("_any_size")
def test_bound_operators_of_one_compiled_operator_run_side_by_side(
    operator: Operator, kernel: Kernel, machine: Machine, ran: Ran
) -> None:
    cases = 0

    @settings(SETTINGS, max_examples=some(12, kernel))
    @given(st.data())
    def side_by_side(data: st.DataObject) -> None:
        nonlocal cases
        desc, level = data.draw(descs(operator))
        compiled = compiled_by(kernel, machine, check(desc, level))
        if compiled is None:
            return
        first = data.draw(arrays_for(desc))
        owned = {n: b for n, b in first.items() if getattr(desc, n).flags & TensorFlags.OWNED_BY_DML}
        if owned:
            compiled.initialize(**values(owned))
        work = []
        for _ in range(4):  # each with data of its own, but for what the operator owns
            inputs = {**data.draw(arrays_for(desc)), **owned}
            output = data.draw(outputs_for(desc))
            bound = compiled.bind(**{n: b.value for n, b in inputs.items() if n not in owned}, output_tensor=output.value)
            work.append((bound, output, expected(desc, {n: b.tensor for n, b in inputs.items()})))
        together = threading.Barrier(len(work))
        wrong: list[object] = []

        def thread(at: int) -> None:
            bound, output, result = work[at]
            together.wait()
            for _ in range(10):
                bits_of(output.tensor)[...] = 0x5A
                bound.execute()
                if not np.array_equal(bits_of(output.tensor), result):
                    wrong.append(at)

        threads = [threading.Thread(target=thread, args=(at,)) for at in range(len(work))]
        for started in threads:
            started.start()
        for started in threads:
            started.join()
        assert wrong == []
        cases += len(work) * 10

    side_by_side()
    ran(cases, MOSTLY * some(480, kernel) // 100)


# --- (8) versions agree ---


@by_device
def test_slice_is_slice1_in_other_words(device: str, ran: Ran) -> None:
    cases = 0

    @settings(SETTINGS, max_examples=100)
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        nonlocal cases
        drawn, level = data.draw(descs(Slice))
        assert isinstance(drawn, Slice)
        x = data.draw(arrays_for(drawn))["input_tensor"].tensor
        # SLICE's UINT strides reach further than SLICE1's INT ones; that far, only the reference can be asked
        newest = drawn.as_newest()
        assert type(newest) is Slice1
        wanted = expected(drawn, {"input_tensor": x})
        for desc in (drawn, newest):
            np.testing.assert_array_equal(bits_of(evaluated(desc.as_newest(), {"input_tensor": x})["output_tensor"]), wanted)
        within = replace(drawn, strides=tuple(min(stride, 2**31 - 1) for stride in drawn.strides))
        plain = {
            "input_tensor": replace(drawn.input_tensor, flags=TensorFlags.NONE, guaranteed_base_offset_alignment=0),
            "output_tensor": TensorDesc(drawn.input_tensor.data_type, drawn.sizes),
        }
        on = Device(device, feature_level=max(level, FeatureLevel.FL_2_1))
        for desc in (within, within.as_newest()):
            output = np.zeros(drawn.sizes, x.dtype)
            run(on.compile(with_values(desc, plain)), {"input_tensor": x}, output)
            np.testing.assert_array_equal(bits_of(output), wanted)
        cases += 1

    agree()
    ran(cases, 100)


# --- (9) names, kinds, order and numbers, typed in by hand from the documentation ---

FIELDS = {
    "SLICE": (60, "1_0", "InputTensor:in OutputTensor:out DimensionCount:UINT Offsets:UINT[] Sizes:UINT[] Strides:UINT[]"),
    "SLICE1": (
        111,
        "2_1",
        "InputTensor:in OutputTensor:out DimensionCount:UINT "
        "InputWindowOffsets:UINT[] InputWindowSizes:UINT[] InputWindowStrides:INT[]",
    ),
    "MATRIX_MULTIPLY_INTEGER": (
        117,
        "2_1",
        "ATensor:in AZeroPointTensor:in? BTensor:in BZeroPointTensor:in? OutputTensor:out",
    ),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": (
        118,
        "2_1",
        "ATensor:in AScaleTensor:in AZeroPointTensor:in? BTensor:in BScaleTensor:in BZeroPointTensor:in? "
        "OutputScaleTensor:in OutputZeroPointTensor:in? OutputTensor:out",
    ),
}

SIX = "FLOAT32 FLOAT16 INT32 INT16 UINT32 UINT16"
EIGHT, ELEVEN = SIX + " INT8 UINT8", SIX + " INT8 UINT8 FLOAT64 INT64 UINT64"
SLICED, QUANTIZED = "InputTensor OutputTensor", "INT8 UINT8"
MATRICES, SCALES = "ATensor BTensor OutputTensor", "AScaleTensor BScaleTensor OutputScaleTensor"
ZERO_POINTS = "AZeroPointTensor BZeroPointTensor OutputZeroPointTensor"
SUPPORT = {  # operator: (from this level on, these tensors, smallest and largest dimension count, these types)
    "SLICE": (
        ("1_0", SLICED, 4, 5, SIX),
        ("2_1", SLICED, 4, 5, EIGHT),
        ("3_0", SLICED, 1, 8, EIGHT),
        ("4_1", SLICED, 1, 8, ELEVEN),
    ),
    "SLICE1": (("2_1", SLICED, 4, 5, EIGHT), ("3_0", SLICED, 1, 8, EIGHT), ("4_1", SLICED, 1, 8, ELEVEN)),
    "MATRIX_MULTIPLY_INTEGER": (
        ("2_1", "ATensor AZeroPointTensor BTensor BZeroPointTensor", 4, 4, QUANTIZED),
        ("2_1", "OutputTensor", 4, 4, "INT32"),
        ("4_0", "ATensor BTensor BZeroPointTensor", 2, 4, QUANTIZED),
        ("4_0", "AZeroPointTensor", 1, 4, QUANTIZED),
        ("4_0", "OutputTensor", 2, 4, "INT32"),
        ("5_2", "BZeroPointTensor", 1, 4, QUANTIZED),
    ),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": (
        ("2_1", MATRICES, 4, 4, QUANTIZED),
        ("2_1", ZERO_POINTS, 4, 4, QUANTIZED),
        ("2_1", SCALES, 4, 4, "FLOAT32"),
        ("4_0", MATRICES, 2, 4, QUANTIZED),
        ("4_0", ZERO_POINTS, 1, 4, QUANTIZED),
        ("4_0", SCALES, 1, 4, "FLOAT32"),
    ),
}

DATA_TYPES = "UNKNOWN FLOAT32 FLOAT16 UINT32 UINT16 UINT8 INT32 INT16 INT8 FLOAT64 UINT64 INT64 UINT4 INT4"
LEVELS = {
    "1_0": 0x1000, "2_0": 0x2000, "2_1": 0x2100, "3_0": 0x3000, "3_1": 0x3100, "4_0": 0x4000, "4_1": 0x4100, "5_0": 0x5000,
    "5_1": 0x5100, "5_2": 0x5200, "6_0": 0x6000, "6_1": 0x6100, "6_2": 0x6200, "6_3": 0x6300, "6_4": 0x6400,
}  # fmt: skip


def test_the_enumerations_have_their_wire_values() -> None:
    assert [(t.name, t.value) for t in DataType] == [(name, n) for n, name in enumerate(DATA_TYPES.split())]
    assert {str(level): level.value for level in FeatureLevel} == LEVELS
    assert [flag.value for flag in (TensorFlags.NONE, TensorFlags.OWNED_BY_DML)] == [0, 1]


def test_there_is_a_field_table_for_every_operator() -> None:
    assert [operator.spec.name for operator in OPERATORS] == list(FIELDS)
    assert set(SUPPORT) == set(FIELDS)


@by_operator
def test_fields_are_those_of_the_documentation(operator: Operator) -> None:
    number, since, listed = FIELDS[operator.spec.name]
    assert (operator.spec.number, str(operator.spec.since)) == (number, since)
    assert operator.spec.wire_name == "DML_OPERATOR_" + operator.spec.name
    assert operators.find(operator.spec.wire_name) is operators.find(operator.spec.name) is operator
    kinds = {"input": "in", "output": "out"}
    told = [
        f"{f.wire}:{kinds.get(f.role, f.wire_type)}{'?' if f.optional else ''}{'[]' if f.sized_by else ''}"
        for f in operator.spec.fields
    ]
    assert told == listed.split()
    assert [f.name for f in fields(operator)] == [snake_case(name.split(":")[0]) for name in listed.split()]
    assert all(f.sized_by == "DimensionCount" for f in operator.spec.fields if "[]" in f.wire_type)
    assert all(f.meaning.endswith(".") for f in operator.spec.fields)


@by_operator
def test_support_is_that_of_the_documentation(operator: Operator, ran: Ran) -> None:
    """Every data type and dimension count, at every level, in every tensor: taken, or refused by the rule for it."""
    cases = 0
    spec = operator.spec
    takes: dict[str, tuple[int, int, str]] = {}
    for level in FeatureLevel:
        for since, tensors, low, high, types in SUPPORT[spec.name]:
            if since == str(level):
                takes |= dict.fromkeys(tensors.split(), (low, high, types))
        for field, count, data_type in itertools.product(spec.tensors, range(1, 9), DataType):
            if data_type in (DataType.UNKNOWN, DataType.UINT4, DataType.INT4):
                continue
            tensor = TensorDesc(data_type, (1,) * count)
            told = {
                v.constraint
                for v in violations(example_desc(operator, {field.name: tensor}), level, False)
                if f"{field.wire}.DimensionCount" in v.values or f"{field.wire}.DataType" in v.values
            }
            low, high, types = takes.get(field.wire, (1, 8, ELEVEN))  # below its first level, `available` says it all
            assert ("dimension_count_supported" in told) == (not low <= count <= high), (level, field, count)
            assert ("data_type_supported" in told) == (data_type.name not in types.split()), (level, field, data_type)
            cases += 1
    ran(cases, 15 * 2 * 8 * 11)


# --- (11) each sentence names precisely what its predicate reads ---

READS = {  # what an attribute that is no field of its own is made of
    "explicit_strides": ("Sizes", "Strides"),
    "span": ("Sizes", "Strides"),
    "element_bytes": ("Sizes", "Strides", "DataType"),
    "smallest_total": ("Sizes", "Strides", "DataType"),
    "total": ("Sizes", "Strides", "DataType", "TotalTensorSizeInBytes"),
}
WIRE = {
    snake_case(name): name
    for name in (
        *("DataType", "Flags", "DimensionCount", "Sizes", "Strides"),
        *("TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment"),
    )
}


class TensorStandIn:
    """A tensor desc that records which of its fields are read, by their wire paths."""

    def __init__(self, tensor: TensorDesc, wire: str, seen: set[str]) -> None:
        self._tensor, self._wire, self._seen = tensor, wire, seen

    def __getattr__(self, name: str) -> Any:
        self._seen |= {self._wire + read for read in READS.get(name) or (WIRE[name],)}
        return getattr(self._tensor, name)


class DescStandIn:
    """An operator's desc that does the same; a tensor that is absent has nothing to be read."""

    def __init__(self, desc: Desc, seen: set[str]) -> None:
        self._desc, self._seen = desc, seen
        self._wire = {field.name: field for field in desc.spec.fields}

    def __getattr__(self, name: str) -> Any:
        if name == "spec":
            return self._desc.spec
        field, value = self._wire[name], getattr(self._desc, name)
        self._seen.add(field.wire)
        if not field.is_tensor or value is None:
            return value
        if field.sized_by:
            return tuple(TensorStandIn(t, field.wire + ".", self._seen) for t in value)
        return TensorStandIn(value, field.wire + ".", self._seen)


def ask(rule: Constraint, stand_in: Any, dimensions: int) -> None:
    for at in ((i,) for i in range(dimensions)) if rule.each else ((),):
        with contextlib.suppress(IndexError, ValueError, ZeroDivisionError):  # not to be judged on this example
            rule.predicate(stand_in, *at)


@by_operator
def test_each_sentence_names_what_its_predicate_reads(operator: Operator, ran: Ran) -> None:
    # a predicate returns early, so the examples are taken together
    examples = [operator(**example.fields) for example in operator.spec.examples]
    examples += [example_desc(operator, rejects.fields) for rejects in rejections(operator)]
    tensors = {field.wire for field in operator.spec.tensors}
    for rule in operator.spec.rules:
        seen: set[str] = set()
        for desc in examples:
            ask(rule, DescStandIn(desc, seen), max((len(found.desc.sizes) for found in desc.tensors()), default=0))
        # a tensor is named where the rule is that it is there, else what is read of it
        named = {path for path in seen if path not in tensors or path in rule.paths}
        assert named == set(rule.paths), rule.name
    ran(len(operator.spec.rules), 3)


def test_each_sentence_about_tensors_names_what_its_predicate_reads(ran: Ran) -> None:
    for rule in TENSOR_RULES:
        seen: set[str] = set()
        for tensor in BREAKS.values():
            ask(rule, TensorStandIn(tensor, "", seen), len(tensor.sizes))
        assert seen == set(rule.paths), rule.name
    ran(len(TENSOR_RULES), 13)


# --- SLICE1, in small boxes all of it ---


def is_legal(n: int, offset: int, size: int, stride: int, output: int) -> bool:
    """The page's rules for one dimension, word for word."""
    if offset < 0 or size < 0:  # UINT
        return False
    if not (size >= 1 and offset + size <= n and stride != 0):
        return False
    return 1 <= output <= 1 + (size - 1) // abs(stride)


Window = tuple[int, int, int, int, int]  # input size, offset, window size, stride, output size


def slice1_of(windows: tuple[Window, ...]) -> Slice1:
    sizes, offsets, window_sizes, strides, outputs = zip(*windows, strict=True)
    return Slice1(
        input_tensor=TensorDesc(DataType.UINT8, sizes),
        output_tensor=TensorDesc(DataType.UINT8, outputs),
        input_window_offsets=offsets,
        input_window_sizes=window_sizes,
        input_window_strides=strides,
    )


def assert_slice1_agrees(windows: tuple[Window, ...]) -> bool:
    """Whether `check` accepts just what the page does; and if it does, both devices copy just what the page says."""
    desc = slice1_of(windows)
    legal = all(itertools.starmap(is_legal, windows))
    try:
        checked = check(desc)
    except DescError:
        assert not legal, windows
        return False
    assert legal, windows
    x = np.arange(1, 1 + math.prod(desc.input_tensor.sizes), dtype=np.uint8).reshape(desc.input_tensor.sizes)
    wanted = expected(desc, {"input_tensor": x})
    for device in DEVICES:
        output = np.zeros(desc.output_tensor.sizes, np.uint8)
        Device(device).compile(checked).bind(input_tensor=x, output_tensor=output).execute()
        assert output.tolist() == wanted.tolist(), windows
    return True


def test_slice1_in_one_dimension_exhaustively(ran: Ran) -> None:
    judged = accepted = 0
    for n in range(1, 7):
        around = range(-n - 1, n + 2)
        for window in itertools.product([n], around, around, around, range(1, n + 2)):
            accepted += assert_slice1_agrees((window,))
            judged += 1
    print(f"{accepted} accepted")
    assert accepted == sum(
        min(w - 1, n - 1) // s + 1  # for either sign of each stride there are as many outputs as the window has elements
        for n in range(1, 7)
        for offset in range(n)
        for w in range(1, n - offset + 1)
        for s in range(1, n + 2)
        for _ in range(2)
    )
    ran(judged, 47_000)


def test_slice1_in_two_dimensions_exhaustively(ran: Ran) -> None:
    judged = accepted = 0
    for sizes in ((1, 1), (3, 1), (1, 2), (3, 2)):
        boxes = [list(itertools.product([n], range(n + 1), range(n + 1), range(-n, n + 1), range(1, n + 1))) for n in sizes]
        for windows in itertools.product(*boxes):
            accepted += assert_slice1_agrees(windows)
            judged += 1
    print(f"{accepted} accepted")
    assert accepted > 700
    ran(judged, 30_000)


@st.composite
def any_windows(draw: st.DrawFn) -> tuple[Window, ...]:
    """Windows near the edge of what is legal, in any number of dimensions."""
    windows = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 5))
        near = st.integers(-n - 1, n + 1)
        windows.append((n, draw(near), draw(near), draw(near), draw(st.integers(1, n + 1))))
    return tuple(windows)


@st.composite
def legal_windows(draw: st.DrawFn) -> tuple[Window, ...]:
    windows = []
    for _ in range(draw(st.integers(1, 5))):
        n = draw(st.integers(1, 5))
        offset = draw(st.integers(0, n - 1))
        size = draw(st.integers(1, n - offset))
        stride = draw(st.integers(1, n)) * draw(st.sampled_from((1, -1)))
        windows.append((n, offset, size, stride, draw(st.integers(1, 1 + (size - 1) // abs(stride)))))
    return tuple(windows)


@settings(SETTINGS, max_examples=400)
@given(st.one_of(any_windows(), legal_windows()))
def test_slice1_as_the_page_says_it(windows: tuple[Window, ...]) -> None:
    """The boxes' twin: it goes further, and shrinks."""
    assert_slice1_agrees(windows)


# --- quantised products where others go wrong ---


def quantized_desc(case: QuantizedCase) -> QuantizedLinearMatrixMultiply:
    named = zip(QuantizedLinearMatrixMultiply.spec.inputs, case.operands, strict=True)
    sizes = (*np.broadcast_shapes(case.a.shape[:-2], case.b.shape[:-2]), case.a.shape[-2], case.b.shape[-1])
    return QuantizedLinearMatrixMultiply(
        **{field.name: TensorDesc(DataType.of(x.dtype), x.shape) for field, x in named if x is not None},
        output_tensor=TensorDesc(DataType.of(case.output_type), sizes),
    )


def compare_quantized(case: QuantizedCase, device: Device) -> int:
    """How many outputs were compared with the oracle's."""
    desc = quantized_desc(case)
    compiled = device.compile(desc)
    assert compiled.kernel_name.startswith("reference:") == (device.name == "reference")
    named = zip(desc.spec.inputs, case.operands, strict=True)
    output = np.zeros(desc.output_tensor.sizes, case.output_type)
    run(compiled, {field.name: x for field, x in named if x is not None}, output)
    np.testing.assert_array_equal(output, hard_cases.expected(case), err_msg=case.name)
    return output.size


@by_device
@pytest.mark.parametrize("generate", hard_cases.GENERATORS, ids=lambda generate: generate.__name__)
def test_hard_cases(generate: Callable[[], Iterator[QuantizedCase]], device: str, ran: Ran) -> None:
    on = Device(device)
    counts = [compare_quantized(case, on) for case in generate()]
    print(f"{sum(counts)} outputs")
    ran(len(counts), 48)


@settings(SETTINGS, max_examples=200)
@given(hard_cases.quantized_cases())
def test_quantized_products_of_any_kind(case: QuantizedCase) -> None:
    for device in DEVICES:
        compare_quantized(case, Device(device))


@pytest.mark.parametrize(("device", "step", "at_least"), [("cpu", 1, 84_934_656), ("reference", 97, 900_000)])
def test_every_number_by_every_number(device: str, step: int, at_least: int, ran: Ran) -> None:
    """One-element products of all 65,536 pairs at once, over types, scales and zero points; the reference does a few."""
    on = Device(device)
    cases = itertools.islice(hard_cases.exhaustive_one_element(), 0, None, step)
    ran(sum(compare_quantized(case, on) for case in cases), at_least)


@by_device
def test_sums_of_large_odd_products_are_exact(device: str, ran: Ran) -> None:
    """From K = 259 on such sums may need more than the 24 bits of a float32; not one of their last bits is lost."""
    random = np.random.default_rng(0)
    cases = 0
    for k, (a_low, b_low) in itertools.product(
        (258, 259, 300, 511, 512, 513, 1024, 5000), itertools.product((0, 240), repeat=2)
    ):
        # the upper end of UINT8, or the lower one with the zero point at the upper
        left, right = random.integers(a_low, a_low + 16, (5, k), np.uint8), random.integers(b_low, b_low + 16, (k, 9), np.uint8)
        zero_points = 255 * (a_low == 0), 255 * (b_low == 0)
        tensors = {"a_tensor": left, "b_tensor": right}
        tensors |= {f"{n}_zero_point_tensor": np.array([z], np.uint8) for n, z in zip("ab", zero_points, strict=True)}
        desc = MatrixMultiplyInteger(
            **{name: TensorDesc(DataType.of(x.dtype), x.shape) for name, x in tensors.items()},
            output_tensor=TensorDesc(DataType.INT32, (5, 9)),
        )
        output = np.zeros((5, 9), np.int32)
        run(Device(device).compile(desc), tensors, output)
        wanted = (left.astype(np.int64) - zero_points[0]) @ (right.astype(np.int64) - zero_points[1])
        assert output.tolist() == wanted.tolist(), k
        cases += output.size
    ran(cases, 8 * 4 * 45)


@by_device
@pytest.mark.parametrize("k", [33_025, 33_026, 140_000])
def test_long_integer_sums_wrap(k: int, device: str, ran: Ran) -> None:
    cases = 0
    for (a_type, a), (b_type, b) in itertools.product([(np.uint8, 255), (np.int8, -128)], repeat=2):
        left, right = np.full((2, k), a, a_type), np.full((k, 3), b, b_type)
        left[1], right[:, 2] = np.arange(k) % 101, np.arange(k) % 97
        inputs = {"a_tensor": left, "b_tensor": right}
        desc = MatrixMultiplyInteger(
            **{name: TensorDesc(DataType.of(x.dtype), x.shape) for name, x in inputs.items()},
            output_tensor=TensorDesc(DataType.INT32, (2, 3)),
        )
        output = np.zeros((2, 3), np.int32)
        run(Device(device).compile(desc), inputs, output)
        sums = oracle.accumulate_bulk(left, None, right, None)
        assert output.tolist() == ((sums + 2**31) % 2**32 - 2**31).tolist()
        cases += output.size
    ran(cases, 24)


@by_kernel
@pytest.mark.usefixtures("_any_size")
def test_every_kernel_takes_the_examples(operator: Operator, kernel: Kernel, machine: Machine, ran: Ran) -> None:
    taken = 0
    for example in operator.spec.examples:
        compiled = compiled_by(kernel, machine, check(operator(**example.fields)))
        if compiled is not None:
            output = np.zeros(example.output.shape, example.output.dtype)
            run(compiled, example.inputs, output)
            np.testing.assert_array_equal(output, example.output, err_msg=example.title)
            taken += 1
    ran(taken, 1)
