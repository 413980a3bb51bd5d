"""Programs: results, refusals with their places, and the files that they may read and write."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import operators
from anydml.program import Program, load, of
from anydml.program import check as checking
from anydml.program.model import Print
from anydml.program.save import document_of
from anydml.schema.directml import NAMES
from anydml.schema.operator import Example, rejections
from every_kernel import Operator
from tables import EXAMPLES, for_each

SLICE: dict[str, Any] = {  # like Microsoft's own sample
    "resources": {
        "input": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 25, "valueStart": 1, "valueDelta": 1}},
        "output": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 6, "value": 0}},
    },
    "dispatchables": {
        "slice": {
            "type": "DML_OPERATOR_SLICE",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 5, 5]},
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 3, 2]},
                "DimensionCount": 4,
                "Offsets": [0, 0, 1, 1],
                "Sizes": [1, 1, 3, 2],
                "Strides": [1, 1, 1, 2],
            },
        }
    },
    "commands": [
        {"type": "dispatch", "dispatchable": "slice", "bindings": {"InputTensor": "input", "OutputTensor": "output"}},
        {"type": "print", "resource": "output"},
    ],
}
DISPATCH = "/commands/0/bindings"
# samples of Microsoft's tool, which are not copied here
SAMPLES = Path(os.environ.get("ANYDML_DXDISPATCH_MODELS", "no folder of samples"))


def changed(changes: Mapping[str, Any], program: Mapping[str, Any] = SLICE) -> str:
    """A program's text with the values at some pointers set, or removed where the value is Ellipsis."""
    document = json.loads(json.dumps(program))
    for pointer, value in changes.items():
        *path, last = (name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:])
        node = document
        for name in path:
            node = node[int(name)] if isinstance(node, list) else node.setdefault(name, {})
        if value is ...:
            del node[last]
        elif isinstance(node, list):
            node[int(last)] = value
        else:
            node[last] = value
    return json.dumps(document)


def loaded(text: str) -> Program:
    return load(io.StringIO(text))


def faults(text: str, **arguments: Any) -> dict[str, str]:
    """Pointer -> message of every fault that load or check has."""
    with pytest.raises(dml.ProgramError) as raised:
        loaded(text).check(**arguments)
    return {fault.pointer: fault.message for fault in raised.value.faults}


def resource(values: Any, data_type: str | None = None, **members: Any) -> np.ndarray[Any, Any]:
    """The resources with these initial values, in a program that does nothing else."""
    typed = {} if data_type is None else {"initialValuesDataType": data_type}
    text = json.dumps({"resources": {"x": {"initialValues": values, **typed, **members}}, "dispatchables": {}, "commands": []})
    return loaded(text).run()["x"]


def printed(program: Program, **arguments: Any) -> list[str]:
    out = io.StringIO()
    program.run(out=out, **arguments)
    return out.getvalue().splitlines()


# results of programs


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_microsoft_s_slice_sample_gives_its_numbers(device: str) -> None:
    program = loaded(json.dumps(SLICE))
    assert printed(program, device=device) == [
        f"Running on '{device}', checked against feature level 6_4",
        "Resource 'output': 7, 9, 12, 14, 17, 19",
    ]
    final = program.run(dml.Device(device, feature_level="5_0"))
    assert final["input"].tolist() == list(range(1, 26))
    assert final["output"].tolist() == [7, 9, 12, 14, 17, 19]
    assert program.warnings == ()


@for_each(EXAMPLES, at_least=100, parts=3)
def test_examples_give_the_same_as_programs_saved_and_loaded(cls: Operator, example: Example, tmp_path: Path) -> int:
    tmp_path = Path(tempfile.mkdtemp(dir=tmp_path))  # each example has its own
    desc = cls(**example.fields)
    program = of(desc, example.inputs)
    program.check()
    first = program.run()
    found = {name: a.tobytes() for name, a in first.items()}
    for f in cls.spec.outputs:
        if f.name in example.outputs:
            wanted = example.outputs[f.name]
            names = [f"{f.wire}_{i}" for i in range(len(wanted))] if f.sized_by else [f.wire]
            assert [found[name] for name in names] == [a.tobytes() for a in (wanted if f.sized_by else [wanted])]
    program.save(tmp_path / "a")
    again = load(tmp_path / "a")
    assert again.document == program.document
    assert [d.desc for d in again.dispatchables.values()] == [desc]
    assert {name: (a.dtype, a.tobytes()) for name, a in again.run().items()} == {
        name: (a.dtype, a.tobytes()) for name, a in first.items()
    }
    again.save(tmp_path / "b")
    load(tmp_path / "b").save(tmp_path / "b")  # onto itself
    files = sorted(os.listdir(tmp_path / "a"))
    assert files == sorted(os.listdir(tmp_path / "b"))
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)
    return 1


def test_json_to_desc_to_json_is_the_identity() -> None:
    count = 0
    for cls in operators.every():
        descs = [cls(**e.fields) for e in cls.spec.examples]
        # a program cannot be written without the tensors that a fused activation does not have
        descs += [replace(descs[0], **r.fields) for r in rejections(cls) if not r.constraint.endswith("_present")]
        full = dict(strides=(7,) * 4, flags=1, total_tensor_size_in_bytes=2**40, guaranteed_base_offset_alignment=64)
        for field in cls.spec.tensors:
            there = getattr(descs[0], field.name)
            if there is not None:
                changed = tuple(replace(t, **full) for t in there) if field.sized_by else replace(there, **full)
                descs.append(replace(descs[0], **{field.name: changed}))
            if field.optional:
                descs.append(replace(descs[0], **{field.name: None}))
        for desc in descs:
            document = document_of(desc)
            text = json.dumps({"resources": {}, "dispatchables": {"d": document}, "commands": []})
            parsed = loaded(text).dispatchables["d"].desc
            assert parsed == desc
            assert document_of(parsed) == document
            count += 1
    assert count > 90


@pytest.mark.parametrize("form", ["desc", "Desc", "inline"])
@pytest.mark.parametrize("tensor", ["plain", "typed", "nested"])
def test_forms_of_descs(form: str, tensor: str) -> None:
    fields = dict(SLICE["dispatchables"]["slice"]["desc"])
    at = {"plain": "", "typed": "", "nested": "/Desc"}[tensor]
    for name in ("InputTensor", "OutputTensor"):
        long = fields[name] | {"DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "DimensionCount": 4, "Flags": []}
        fields[name] = {
            "plain": fields[name],
            "typed": {"Type": "BUFFER", **long},
            "nested": {"Type": "DML_TENSOR_TYPE_BUFFER", "Desc": long},
        }[tensor]
    whole = {"type": "SLICE", **fields} if form == "inline" else {"type": "SLICE", form: fields}
    text = changed({"/dispatchables/slice": whole})
    assert loaded(text).run()["output"].tolist() == [7, 9, 12, 14, 17, 19]
    assert loaded(text).warnings == ()
    within = "/dispatchables/slice" + ("" if form == "inline" else f"/{form}")
    found = faults(changed({f"{within}/OutputTensor{at}/Sizes/3": 0}, json.loads(text)))
    assert next(iter(found)) == f"{within}/OutputTensor{at}/Sizes/3"


def test_owned_tensors_are_bound_by_the_dispatchable_and_offsets_are_applied() -> None:
    slice1 = {
        "type": "DML_OPERATOR_SLICE1",
        "executionFlags": ["DISABLE_META_COMMANDS", "DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE"],
        "dmlCompileType": "DmlCompileGraph",
        "bindings": {"InputTensor": {"name": "both", "elementOffset": 8}},
        "InputTensor": {"DataType": "INT16", "Sizes": [6], "Flags": "DML_TENSOR_FLAG_OWNED_BY_DML"},
        "OutputTensor": {"DataType": "INT16", "Sizes": [3]},
        "DimensionCount": 1,
        "InputWindowOffsets": [0],
        "InputWindowSizes": [6],
        "InputWindowStrides": [-2],
    }
    target = {"name": "both", "elementOffset": 4, "elementSizeInBytes": 8, "format": "R16_SINT", "elementCount": 3}
    program = {
        "resources": {"both": {"initialValuesDataType": "INT16", "initialValues": list(range(19)), "sizeInBytes": 40}},
        "dispatchables": {"reverse": slice1},
        "commands": [
            {"type": "Dispatch", "dispatchable": "reverse", "bindings": {"OutputTensor": [target]}},
            {"type": "PRINT", "resource": "both"},
        ],
    }
    loaded_program = loaded(json.dumps(program))
    assert loaded_program.warnings == ()
    expected = [*range(16), 13, 11, 9]
    assert printed(loaded_program)[1] == f"Resource 'both': {', '.join(map(str, expected))}"
    assert loaded_program.run()["both"].tolist() == [*expected, 0]
    both = [{"type": "dispatch", "dispatchable": "reverse", "bindings": {"InputTensor": "both"}}]
    text = changed({"/commands": both, "/dispatchables/reverse/bindings": ...}, program)
    assert faults(text) == {
        "/dispatchables/reverse": "InputTensor is not bound in the dispatchable's 'bindings': it is OWNED_BY_DML",
        f"{DISPATCH}/InputTensor": "the tensor is OWNED_BY_DML: it is bound in /dispatchables/reverse/bindings",
        DISPATCH: "OutputTensor is not bound",
    }


def test_commands_run_in_order_and_resources_keep_their_contents() -> None:
    back = {"type": "dispatch", "dispatchable": "slice", "bindings": {"InputTensor": "input", "OutputTensor": "other"}}
    text = changed(
        {
            "/resources/other": {"initialValuesDataType": "FLOAT32", "initialValues": [1] * 6},
            "/commands": [{"type": "print", "resource": "output"}, SLICE["commands"][0], *SLICE["commands"], back],
        }
    )
    assert printed(loaded(text))[1:] == ["Resource 'output': 0, 0, 0, 0, 0, 0", "Resource 'output': 7, 9, 12, 14, 17, 19"]
    assert loaded(text).run()["other"].tolist() == [7, 9, 12, 14, 17, 19]
    lines = printed(loaded(text), iterations=3, warmup=1)
    assert [re.sub(r"[\d.]+ ms", "T ms", line) for line in lines if "Dispatch" in line] == [
        "Dispatch 'slice': 3 iterations, T ms median (CPU)"
    ] * 3


# initial values


def test_initial_values() -> None:
    assert resource([1, -2, 3], "INT8").tolist() == [1, -2, 3]
    assert (
        resource([65504, "nan", "INF", "-Inf", -0.0, 1e-8], "FLOAT16").tobytes()
        == np.array([65504, np.nan, np.inf, -np.inf, -0.0, 0], np.float16).tobytes()
    )
    assert resource({"value": 7, "valueCount": 3}, "DML_TENSOR_DATA_TYPE_UINT64").tolist() == [7, 7, 7]
    assert resource({"valueStart": 1, "valueDelta": 2.5, "valueCount": 4}, "FLOAT32").tolist() == [1, 3.5, 6, 8.5]
    mixed = [{"name": "n", "type": "UINT32", "value": 6}, {"type": "FLOAT32", "value": 2.3}, {"type": "INT8", "value": -1}]
    bytes_of = np.array([6], np.uint32).tobytes() + np.array([2.3], np.float32).tobytes() + b"\xff"
    assert resource(mixed).tobytes() == bytes_of
    assert resource(mixed, "UNKNOWN", sizeInBytes=256).tobytes() == bytes_of + bytes(256 - 9)
    assert resource([2**64 - 1], "UINT64").tolist() == [2**64 - 1]
    assert resource([1.5, 2**60], "FLOAT64").tolist() == [1.5, 2**60]


@pytest.mark.parametrize(
    ("data_type", "start", "delta"),
    [
        ("FLOAT32", 0.1, 0.1),
        ("FLOAT16", 3, 0.1),
        ("UINT8", 250, 3),
        ("INT8", 100, 100),
        ("INT64", 2**63 - 2, 1),
        ("FLOAT64", 0, 0.1),
    ],
)
def test_sequences_add_again_and_again_in_the_element_type(data_type: str, start: float, delta: float) -> None:
    count = 70_000  # more than one chunk
    found = resource({"valueStart": start, "valueDelta": delta, "valueCount": count}, data_type)
    value, step = found.dtype.type(start), found.dtype.type(delta)
    with np.errstate(all="ignore"):
        for at in range(count):
            assert found[at] == value, at
            value = found.dtype.type(value + step)


def test_prints_are_numbers_and_the_shortest_text() -> None:
    cases: dict[str, tuple[list[Any], str]] = {
        "UINT8": ([65, 0, 255], "65, 0, 255"),
        "INT8": ([65, -1], "65, -1"),
        "FLOAT32": ([1, 0.1, 16777216, 1e20, "nan", "-inf", -0.0, 1e-45], "1, 0.1, 16777216, 1e+20, nan, -inf, -0, 1e-45"),
        "FLOAT16": ([0.1, 65504], "0.1, 65500"),
        "FLOAT64": ([0.1, 1e16, 3], "0.1, 1e+16, 3"),
        "UINT64": ([2**64 - 1], str(2**64 - 1)),
    }
    for data_type, (values, text) in cases.items():
        x = {"initialValuesDataType": data_type, "initialValues": values}
        program = {"resources": {"x": x}, "dispatchables": {}, "commands": [{"type": "print", "resource": "x"}]}
        assert printed(loaded(json.dumps(program)))[1] == f"Resource 'x': {text}"
    program["commands"] = [{"type": "print", "resource": "x", "verbose": True}]
    assert printed(loaded(json.dumps(program)))[1:] == ["Resource 'x':", f"[0] {2**64 - 1} (0x{'f' * 16})"]


# faults


def test_three_faults_in_two_operators_come_at_once_and_nothing_runs(tmp_path: Path) -> None:
    second = {
        "type": "DML_OPERATOR_SLICE1",
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 4, 4]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 3]},
        "DimensionCount": 4,
        "InputWindowOffsets": [0, 0, 0, 2],
        "InputWindowSizes": [1, 1, 4, 3],
        "InputWindowStrides": [1, 1, 2, 2],
    }
    text = changed(
        {
            "/dispatchables/slice/desc/Strides/2": 0,
            "/dispatchables/a~1b~0c": second,
            "/commands/1": {"type": "writeFile", "resource": "output", "targetPath": "out.npy"},
        }
    )
    expected = {
        "/dispatchables/slice/desc/Strides/2": "stride_not_zero",
        "/dispatchables/a~1b~0c/InputWindowOffsets/3": "window_inside_input",
        "/dispatchables/a~1b~0c/OutputTensor/Sizes/3": "output_within_window",
    }
    out = io.StringIO()
    program = load(write(tmp_path / "p.json", text))
    with pytest.raises(dml.ProgramError) as raised:
        program.run(out=out, output_path=tmp_path / "out")
    assert {f.pointer: f.violation.constraint for f in raised.value.faults if f.violation} == expected
    assert len(raised.value.faults) == 3
    assert out.getvalue() == ""
    assert os.listdir(tmp_path) == ["p.json"]
    assert (
        f"{tmp_path / 'p.json'}: /dispatchables/a~1b~0c/InputWindowOffsets/3: "
        "DML_OPERATOR_SLICE1.window_inside_input: InputWindowOffsets[3] is 2 and InputWindowSizes[3] is 3; "
        "they must add up to at most InputTensor.Sizes[3] (4): the window lies inside the input\n"
        "    would fit: InputWindowOffsets[3] = 0 to 1, or InputWindowSizes[3] = 1 to 2"
    ) in str(raised.value)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


DESC = "/dispatchables/slice/desc"


@pytest.mark.parametrize(
    ("changes", "pointer", "part"),
    [
        ({"/resources": ...}, "", "Field 'resources' is required."),
        ({"/commands/0/type": "run"}, "/commands/0/type", "there is no command 'run'"),
        ({"/commands/0/dispatchable": "slize"}, "/commands/0/dispatchable", "did you mean 'slice'?"),
        ({"/commands/1/resource": "Output"}, "/commands/1/resource", "there is no resource 'Output'; did you mean 'output'?"),
        ({f"{DISPATCH}/InputTensor": "x"}, f"{DISPATCH}/InputTensor", "there is no resource 'x'"),
        ({f"{DISPATCH}/Input": "input"}, f"{DISPATCH}/Input", "has no such tensor; it has InputTensor, OutputTensor; did"),
        ({f"{DISPATCH}/InputTensor": ...}, DISPATCH, "InputTensor is not bound"),
        ({f"{DISPATCH}/InputTensor": ["input"] * 2}, f"{DISPATCH}/InputTensor", "binds 2 resources"),
        ({f"{DISPATCH}/InputTensor": {"name": "input", "elementOffset": 1}}, f"{DISPATCH}/InputTensor", "begins at byte 4, wh"),
        ({f"{DISPATCH}/InputTensor": {"name": "input", "elementOffset": 4}}, f"{DISPATCH}/InputTensor", "holds 84 bytes from"),
        ({f"{DISPATCH}/OutputTensor": "input"}, f"{DISPATCH}/OutputTensor", "shares memory with InputTensor"),
        ({f"{DISPATCH}/InputTensor": "output"}, f"{DISPATCH}/InputTensor", "holds 24 bytes where the tensor takes 100"),
        ({f"{DESC}/InputTensor/TotalTensorSizeInBytes": 104}, f"{DISPATCH}/InputTensor", "where the tensor takes 104"),
        ({f"{DESC}/InputTensor/TotalTensorSizeInBytes": 96}, f"{DESC}/InputTensor/TotalTensorSizeInBytes", "total_large"),
        ({f"{DESC}/DimensionCount": ...}, DESC, "Field 'DimensionCount' is required."),
        ({f"{DESC}/DimensionCount": ..., f"{DESC}/dimensionCount": 4}, DESC, "There is 'dimensionCount'."),
        ({f"{DESC}/DimensionCount": 4.0}, f"{DESC}/DimensionCount", "takes an integer, not 4.0"),
        ({f"{DESC}/DimensionCount": 3}, f"{DESC}/Offsets", "offsets_counted"),
        ({f"{DESC}/Offsets/1": True}, f"{DESC}/Offsets/1", "takes an integer, not true"),
        ({f"{DESC}/Offsets": None}, f"{DESC}/Offsets", "takes an array, not null"),
        ({f"{DESC}/Offsets/1": -1}, f"{DESC}/Offsets", "offsets_fits"),
        ({f"{DESC}/InputTensor": [1]}, f"{DESC}/InputTensor", "takes an object, not an array of 1"),
        ({f"{DESC}/InputTensor/DimensionCount": 3}, f"{DESC}/InputTensor/DimensionCount", "is 3, but Sizes has 4 entries"),
        ({f"{DESC}/InputTensor/Sizes/2": 2**32}, f"{DESC}/InputTensor/Sizes/2", "sizes_fit"),
        ({f"{DESC}/InputTensor/Sizes/2": "5"}, f"{DESC}/InputTensor/Sizes/2", "takes an integer, not '5'"),
        ({f"{DESC}/InputTensor/DataType": "FLOAT"}, f"{DESC}/InputTensor/DataType", "there is no 'FLOAT' here; the names are"),
        ({f"{DESC}/InputTensor/DataType": "INT4"}, f"{DESC}/InputTensor/DataType", "data_type_supported"),
        ({f"{DESC}/InputTensor/Flags": ["OWNED"]}, f"{DESC}/InputTensor/Flags/0", "there is no 'OWNED' here"),
        ({f"{DESC}/InputTensor/Type": "X"}, f"{DESC}/InputTensor/Type", "takes BUFFER"),
        ({"/dispatchables/slice/type": "hlsl"}, "/dispatchables/slice/type", "hlsl is refused: HLSL shaders need"),
        ({"/dispatchables/slice/type": "ONNX"}, "/dispatchables/slice/type", "ONNX is refused: ONNX models run by themselves"),
        ({"/dispatchables/slice/type": "dmlSerializedGraph"}, "/dispatchables/slice/type", "is refused: serialized graphs"),
        ({"/dispatchables/slice/type": "SLICES"}, "/dispatchables/slice/type", "no operator 'SLICES'; did you mean 'SLICE'?"),
        ({"/dispatchables/slice/type": "gruu"}, "/dispatchables/slice/type", "'gruu'; did you mean 'GRU'?"),
        ({"/dispatchables/slice/executionFlags": "X"}, "/dispatchables/slice/executionFlags", "there is no 'X' here"),
        ({"/dispatchables/slice/dmlCompileType": "X"}, "/dispatchables/slice/dmlCompileType", "takes DmlCompileOp or"),
        ({"/resources/input/sizeInBytes": 99}, "/resources/input/sizeInBytes", "99 bytes do not hold the 100 bytes"),
        ({"/resources/input/initialValuesOffsetInBytes": 1}, "/resources/input", "100 bytes of initialValues at offset 1"),
        ({"/resources/input/initialValues": "deferred"}, "/resources/input/initialValues", "outputs of ONNX models"),
        ({"/resources/input/initialValues/valueCount": 0}, "/resources/input/initialValues/valueCount", "from 1 to 4294967295"),
        ({"/resources/input/initialValues/value": 1}, "/resources/input/initialValues", "not value and valueStart"),
        ({"/resources/input/initialValues/valueDelta": ...}, "/resources/input/initialValues", "'valueDelta' is required."),
        ({"/resources/input/initialValues": [1, 2.5, 1e39]}, "/resources/input/initialValues/2", "1e+39 does not fit FLOAT32"),
        ({"/resources/input/initialValues": [True]}, "/resources/input/initialValues/0", "takes a number"),
        ({"/resources/input/initialValues": []}, "/resources/input/initialValues", "is empty"),
        ({"/resources/input/initialValuesDataType": "INT4"}, "/resources/input/initialValuesDataType", "there is no 'INT4'"),
        ({"/resources/input/initialValuesDataType": ...}, "/resources/input/initialValues", "Type' is required"),
    ],
)  # fmt: skip
def test_faults_say_where_and_why(changes: dict[str, Any], pointer: str, part: str) -> None:
    found = faults(changed(changes))
    assert next(iter(found)) == pointer, found
    assert part in found[pointer]


@pytest.mark.parametrize("prefix", ["", "DML_OPERATOR_"])
def test_every_operator_of_directml_is_there(prefix: str) -> None:
    there = {cls.spec.name: cls.spec.number for cls in operators.every()}
    assert len(NAMES) == len(set(NAMES))
    assert there == {name: at for at, name in enumerate(NAMES, 1)}
    several = {"InputTensors": ["input", {"name": "input", "elementOffset": 3}, "output"], "Any": [], "Scale": "input"}
    older = {"type": f"{prefix}SCATTER", "desc": {"Anything": 1}, "bindings": {"ATensor": ["input", "output"]}}
    text = changed({"/dispatchables/slice": older, DISPATCH: several})
    message = "DML_OPERATOR_SCATTER is the older name of DML_OPERATOR_SCATTER_ELEMENTS"
    assert faults(text) == {"/dispatchables/slice/type": message}
    # a name that the program has wrong itself is reported as before
    assert f"{DISPATCH}/InputTensors/1" in faults(changed({f"{DISPATCH}/InputTensors/1": "inputs"}, json.loads(text)))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="these samples are not part of the project")
def test_samples_run() -> None:
    for sample in sorted(SAMPLES.glob("dml_*.json")):
        load(sample).run()


def test_feature_levels_and_extensions_are_faults_of_check() -> None:
    found = faults(changed({f"{DESC}/InputTensor/DataType": "INT64"}), feature_level=dml.FeatureLevel.FL_4_0)
    assert "would fit" in found[f"{DESC}/InputTensor/DataType"]
    *_, (last, example) = EXAMPLES.values()
    with pytest.raises(dml.ProgramError, match="the feature level is 2_0; it must be at least "):
        of(last(**example.fields), example.inputs).check(dml.FeatureLevel.FL_2_0)
    cls = dml.QuantizedLinearMatrixMultiply
    rejecting = next(r for r in cls.spec.rejecting if r.strict)
    text = json.dumps({"resources": {}, "dispatchables": {"q": document_of(cls(**rejecting.fields))}, "commands": []})
    loaded(text).check()
    assert next(iter(faults(text, strict=True))).startswith("/dispatchables/q/desc/")


def test_unknown_members_are_warnings_with_the_nearest_name() -> None:
    text = changed(
        {
            "/resource": 1,
            "/commands/0/threadGroupCount": [1, 1, 1],
            f"{DESC}/InputTensor/Stride": [1, 2, 3, 4],
            "/resources/input/initialValuesOffsetInBytes": 4,
            "/resources/input/sizeInBytes": 104,
        }
    )
    program = loaded(text + " and more")
    assert {w.pointer: w.message.partition("did you mean ")[2] for w in program.warnings} == {
        "/resource": "'resources'?",
        f"{DESC}/InputTensor/Stride": "'Strides'?",
        "/resources/input/initialValuesOffsetInBytes": "",
        "": "",
    }
    assert program.run()["output"].tolist() == [7, 9, 12, 14, 17, 19]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: Expecting value"),
        ("{\n// [\n/* x\n*/ [,]", "line 4, column 4: Expecting property name"),
        ("[1,,]", "line 1, column 4"),
        ("[,]", "line 1, column 2"),
        ("[\n 1, NaN]", "line 2, column 5: NaN is not JSON"),
        ("[-Infinity]", "line 1, column 2: -Infinity is not JSON"),
        ("[" + "1" * 5000 + "]", "line 1, column 2: a number of 5000 digits"),
        ("\n" + "[" * 200 + "]" * 200, "line 2, column 65: brackets are nested more than 64 deep"),
        ('{"a": {"b~/": 1, "b~/": 2}}', "/a/b~0~1: the name occurs twice"),
        ('{"\\ud800": 1}', "half of a surrogate pair"),
        ('{"a": "\ud800"}', "half of a surrogate pair"),
        ('{"a": "x\ny"}', "line 1, column 9: Invalid control character"),
        ('{"a": "', "line 1, column 7: Unterminated string"),
        ("{} /* {", "Field 'resources' is required."),
    ],
)
def test_text_that_is_no_program(text: str, message: str) -> None:
    with pytest.raises(dml.ProgramError, match=re.escape(message)):
        loaded(text)


def test_comments_and_trailing_commas() -> None:
    text = json.dumps(SLICE, indent=1).replace("{", "{ // \"\\\" '{'\n").replace("]", "/* , */ , /* \\*/]").replace("}", ",}")
    text = text.replace("FLOAT32", "FLOAT\\u00332")  # escapes have their usual meaning
    assert loaded(text).run()["output"].tolist() == [7, 9, 12, 14, 17, 19]
    names = ["//", "/*", "*/", ",]", "\\", '"', "[[["]
    program = {"resources": {n: {"initialValuesDataType": "UINT8", "initialValues": [1]} for n in names}, "dispatchables": {}}
    assert list(loaded(json.dumps(program | {"commands": []})).run()) == names


HOSTILE = ["a\nb", "\r", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u202egnp", "\u2066", "\u200f", "\U000e0041", "it's"]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_no_name_forges_a_line(name: str, tmp_path: Path) -> None:
    """Names of resources, dispatchables, members, files: in each message, and in what is printed."""

    def clean(text: str) -> bool:
        return all(character.isprintable() or character == "\n" for character in text)

    x = {"initialValuesDataType": "UINT8", "initialValues": [7]}
    write_file = {"type": "writeFile", "resource": name, "targetPath": f"{name}.dat"}
    document = {"resources": {name: x}, "dispatchables": {}, "commands": [{"type": "print", "resource": name}, write_file]}
    out = io.StringIO()
    loaded(json.dumps(document)).run(out=out, output_path=tmp_path)
    assert clean(out.getvalue())
    assert [line.split()[0] for line in out.getvalue().splitlines()] == ["Running", "Resource", "Wrote"]
    (tmp_path / "blocked").write_text("a file, not a folder")
    document["commands"] = [write_file | {"targetPath": f"blocked/{name}"}]
    with pytest.raises(OSError, match="blocked/") as unwritten:
        loaded(json.dumps(document)).run(output_path=tmp_path)
    assert str(unwritten.value).isprintable()

    slice_, bindings = dict(SLICE["dispatchables"]["slice"]), SLICE["commands"][0]["bindings"]
    refused = [
        changed({f"/resources/{name}": {"initialValues": {"sourcePath": name}}}),
        changed({f"/resources/{name}": 1, "/commands/1/resource": name + name, "/commands/0/type": name}),
        changed({f"/resources/{name}": x | {"initialValues": name}, f"/dispatchables/{name}": {"type": name}}),
        changed({f"/dispatchables/{name}": slice_ | {"desc": {"InputTensor": {"DataType": name}}}}),
        changed({f"{DISPATCH}/{name}": "input", "/commands/1": write_file | {"resource": "input", "targetPath": f"../{name}"}}),
        # a pointer within a message
        changed({
            f"/dispatchables/{name}": slice_ | {"desc": slice_["desc"] | {
                "InputTensor": slice_["desc"]["InputTensor"] | {"Flags": "OWNED_BY_DML"}}},
            "/commands/1": {"type": "dispatch", "dispatchable": name, "bindings": bindings},
        }),
    ]  # fmt: skip
    for text in refused:
        stream = io.StringIO(text)
        stream.name = f"{name}.json"
        with pytest.raises(dml.ProgramError) as raised:
            load(stream).check()
        assert clean(str(raised.value)), str(raised.value)
        lines = [line for line in str(raised.value).splitlines() if not line.startswith("    ")]
        assert len(lines) == len(raised.value.faults)
    warned = loaded(changed({f"/{name}": 1})).warnings
    assert [str(warning).isprintable() for warning in warned] == [True]


# files


def file_program(source: str, data_type: str | None = None, commands: list[Any] | None = None, **members: Any) -> str:
    typed = {} if data_type is None else {"initialValuesDataType": data_type}
    x = {"initialValues": {"sourcePath": source}, **typed, **members}
    return json.dumps({"resources": {"x": x}, "dispatchables": {}, "commands": commands or []})


def test_npy_files_of_every_kind(tmp_path: Path) -> None:
    for array in (
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(6, dtype=">i8"),
        np.asfortranarray(np.arange(24, dtype=">u2").reshape(2, 3, 4)),
        np.array([True, False]),
        np.array(7, np.float16),
        np.array([0x7FA00001], np.uint32).view(np.float32),
    ):
        np.save(tmp_path / "x.npy", array)
        found = load(write(tmp_path / "p.json", file_program("x.npy"))).run()["x"]
        native = array.astype(np.uint8) if array.dtype == bool else array.astype(array.dtype.newbyteorder("="))
        assert found.dtype == native.dtype
        assert found.tobytes() == native.tobytes()
    (tmp_path / "r.dat").write_bytes(b"\1\0\2\0\3")
    assert load(write(tmp_path / "p.json", file_program("r.dat", "UINT16"))).run()["x"].tolist() == [1, 2]


def test_files_are_written_whole(tmp_path: Path) -> None:
    commands = [
        {"type": "writeFile", "resource": "x", "targetPath": name, "dimensions": dimensions}
        for name, dimensions in (("new/x.npy", [2, 3]), ("x.dat", [9]), ("y.NPY", [6]))
    ]
    commands[1].pop("dimensions")
    x = {"initialValuesDataType": "INT16", "initialValues": [1, -2, 3, 4, 5, 6], "sizeInBytes": 64}
    text = json.dumps({"resources": {"x": x}, "dispatchables": {}, "commands": commands})
    loaded(text).run(output_path=tmp_path)
    assert np.load(tmp_path / "new" / "x.npy").tolist() == [[1, -2, 3], [4, 5, 6]]
    assert (tmp_path / "x.dat").read_bytes() == np.array([1, -2, 3, 4, 5, 6], np.int16).tobytes()
    assert np.load(tmp_path / "y.NPY").tolist() == [1, -2, 3, 4, 5, 6]
    assert sorted(os.listdir(tmp_path)) == ["new", "x.dat", "y.NPY"]
    text = text.replace("[6]", "[7]")
    assert faults(text) == {"/commands/2/targetPath": "dimensions [7] are not those of 6 values"}
    (tmp_path / "blocked").write_text("a file, not a folder")
    program = loaded(text.replace("y.NPY", "blocked/y").replace("new/x", "z"))
    with pytest.raises(OSError, match="blocked/y: "):
        program.run(output_path=tmp_path)
    assert (tmp_path / "z.npy").exists()  # the others exist
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def test_images_in_and_out(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10
    image.fromarray(pixels).save(tmp_path / "in.png")
    write_file = {"type": "writeFile", "resource": "x", "targetPath": "out.png", "dimensions": [1, 3, 2, 4]}
    text = file_program("in.png", "FLOAT32", [write_file], resampleSize=[1, 3, 2, 4], resampleMode="scale")
    found = load(write(tmp_path / "p.json", text)).run(output_path=tmp_path)["x"]
    assert found.tobytes() == (pixels.transpose(2, 0, 1).astype(np.float32) / np.float32(255)).tobytes()
    assert np.abs(np.asarray(image.open(tmp_path / "out.png")).astype(int) - pixels).max() <= 1  # truncated, as DxDispatch does
    row = write_file | {"targetPath": "row.png", "dimensions": [1, 1, 1, 4]}
    load(write(tmp_path / "p.json", file_program("in.png", "FLOAT32", [row], resampleSize=[1, 3, 2, 4]))).run(
        output_path=tmp_path
    )
    assert np.abs(np.asarray(image.open(tmp_path / "row.png")).astype(int) - pixels[0, :, 0]).max() <= 1  # the first values
    text = file_program("in.png", "FLOAT16", resampleSize=[1, 4, 5, 5])
    assert load(write(tmp_path / "p.json", text)).run()["x"].size == 100
    lossy = write_file | {"targetPath": "o.jpg"}
    wide = write_file | {"dimensions": [1, 1, 1, 2**27]}
    many = {"initialValuesDataType": "FLOAT16", "initialValues": {"value": 0, "valueCount": 2**27}}
    too_wide = json.dumps({"resources": {"x": many}, "dispatchables": {}, "commands": [wide]})
    refused = [
        (file_program("in.png", "INT8", resampleSize=[1, 3, 2, 4]), "/resources/x/initialValues/sourcePath"),
        (file_program("in.png", "FLOAT32"), "/resources/x/initialValues/sourcePath"),
        (json.dumps(json.loads(text)).replace("in.png", "p.png"), "/resources/x/initialValues/sourcePath"),
        (file_program("in.png", "FLOAT32", [lossy], resampleSize=[1, 3, 2, 4]), "/commands/0/targetPath"),
    ]
    refused += [(too_wide, "/commands/0/targetPath")]
    for sizes in ([1, 3, 1, 2**31], [1, 4, 2**27, 1], [1, 3, 2**14, 2**13]):  # of a picture of 24 pixels
        refused.append((file_program("in.png", "FLOAT16", resampleSize=sizes), "/resources/x/initialValues/sourcePath"))
    (tmp_path / "p.png").write_text("no image")
    for text, pointer in refused:
        with pytest.raises(dml.ProgramError) as raised:
            load(write(tmp_path / "p.json", text)).run(output_path=tmp_path)
        assert [fault.pointer for fault in raised.value.faults] == [pointer]


@pytest.mark.parametrize("name", ["../secret.npy", "a/../../secret.npy", "link.npy", "folder/secret.npy", "{absolute}"])
def test_nothing_outside_is_read_or_written_unless_allowed(name: str, tmp_path: Path) -> None:
    inside, secret = tmp_path / "inside", tmp_path / "secret.npy"
    inside.mkdir()
    np.save(secret, np.arange(3))
    before = secret.read_bytes()
    if name.startswith(("link", "folder")):
        try:
            (inside / name.split("/")[0]).symlink_to(secret if name.startswith("link") else tmp_path)
        except OSError:
            pytest.skip("symbolic links need a privilege here")
    name = name.replace("{absolute}", str(secret))
    reading = load(write(inside / "p.json", file_program(name)))
    with pytest.raises(dml.ProgramError, match="is outside the program's folder"):
        reading.check()
    assert reading.run(allow_outside=True)["x"].tolist() == [0, 1, 2]
    assert load(write(tmp_path / "q.json", file_program("secret.npy"))).run()["x"].tolist() == [0, 1, 2]
    assert load(write(inside / "r.json", file_program("secret.npy"))).run(input_path=tmp_path)["x"].tolist() == [0, 1, 2]
    x = {"initialValuesDataType": "UINT8", "initialValues": [1, 2]}
    target = {"type": "writeFile", "resource": "x", "targetPath": name}
    writing = loaded(json.dumps({"resources": {"x": x}, "dispatchables": {}, "commands": [target]}))
    with pytest.raises(dml.ProgramError, match="is outside the output folder"):
        writing.run(output_path=inside)
    assert secret.read_bytes() == before
    writing.run(output_path=inside, allow_outside=True)
    assert np.load(os.path.normpath(inside / name)).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("p.json", "is the program itself"),
        ("sub/../p.json", "is the program itself"),
        ("link.json", "is the program itself"),
        ("x.npy", "is a file that the program reads"),
        ("data/y.npy", "is a file that the program reads"),
        ("hard.npy", "is a file that the program reads"),
        (".bashrc", "begins with a dot"),
        (".git/hooks/pre-commit", "begins with a dot"),
        ("sub/.npy", "begins with a dot"),
        ("visible/config", "begins with a dot"),
    ],
)
def test_neither_the_program_nor_its_inputs_nor_hidden_files_are_overwritten_unless_allowed(
    target: str, reason: str, tmp_path: Path
) -> None:
    for name in ("data", ".git"):
        (tmp_path / name).mkdir()
    for name in ("x.npy", "data/y.npy"):
        np.save(tmp_path / name, np.arange(3, dtype=np.int8))
    (tmp_path / ".git" / "config").write_text("before")
    resources: dict[str, Any] = {n: {"initialValues": {"sourcePath": f}} for n, f in (("x", "x.npy"), ("y", "data/y.npy"))}
    resources["z"] = {"initialValuesDataType": "INT8", "initialValues": [9]}
    commands = [{"type": "writeFile", "resource": "z", "targetPath": name} for name in ("fine.npy", target)]
    path = write(tmp_path / "p.json", json.dumps({"resources": resources, "dispatchables": {}, "commands": commands}))
    try:
        (tmp_path / "link.json").symlink_to(path)
        (tmp_path / "visible").symlink_to(tmp_path / ".git")
        os.link(tmp_path / "x.npy", tmp_path / "hard.npy")
    except OSError:
        pytest.skip("links need a privilege here")
    program = load(path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    for attempt in (program.check, program.run):
        with pytest.raises(dml.ProgramError) as raised:
            attempt(output_path=tmp_path)
        assert [
            (fault.pointer, fault.message.endswith(reason) or reason in fault.message) for fault in raised.value.faults
        ] == [("/commands/1/targetPath", True)]
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    program.run(output_path=tmp_path, allow_outside=True)
    assert (tmp_path / "fine.npy").exists()
    written = (tmp_path / target).resolve()
    assert written.read_bytes() != before.get(written)


def test_a_folder_that_is_hidden_itself_is_written_to(tmp_path: Path) -> None:
    x = {"initialValuesDataType": "UINT8", "initialValues": [7]}
    commands = [{"type": "writeFile", "resource": "x", "targetPath": name} for name in ("a.b", "./c..", "d/../e.")]
    text = json.dumps({"resources": {"x": x}, "dispatchables": {}, "commands": commands})
    out = io.StringIO()
    loaded(text).run(output_path=tmp_path / ".cache", out=out)
    assert sorted(os.listdir(tmp_path / ".cache")) == ["a.b", "c..", "e."]
    wrote = [f"Wrote {str((tmp_path / '.cache').resolve() / name)!r}" for name in ("a.b", "c..", "e.")]
    assert out.getvalue().splitlines()[1:] == wrote


class Evil:
    def __reduce__(self) -> Any:
        return (os._exit, (77,))


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "pickled.npy", np.array([Evil()], object), allow_pickle=True)
    np.save(tmp_path / "structured.npy", np.zeros(2, [("a", "i4")]))
    np.save(tmp_path / "complex.npy", np.zeros(2, np.complex64))
    np.save(tmp_path / "empty.npy", np.zeros(0))
    np.save(tmp_path / "short.npy", np.zeros(1000))
    whole = (tmp_path / "short.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(whole[:-1])
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }"
    for name, shape in (("huge", b"9" * 30), ("negative", b"-1"), ("nested", b"(" * 9000), ("minus", b"-" * 9000 + b"1")):
        text = header % shape
        (tmp_path / f"{name}.npy").write_bytes(whole[:8] + len(text).to_bytes(2, "little") + text + bytes(64))
    (tmp_path / "none.npy").write_bytes(b"hello")
    (tmp_path / "empty.dat").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.dat")
    with suppress(OSError):  # links need a privilege on Windows
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
    many = np.lib.format.header_data_from_array_1_0(np.zeros(1))
    for name, fortran_order in (("rows", False), ("columns", True)):
        with (tmp_path / f"{name}.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {**many, "shape": (2,) + (1,) * 64, "fortran_order": fortran_order})
            file.write(bytes(16))
    names = [*os.listdir(tmp_path), "no such file", "nul\0byte", "x" * 5000, "a/" * 5000, ""]
    for name in names:
        program = load(write(tmp_path / "p.json", file_program(name, None if name.endswith("npy") else "UINT8")))
        with pytest.raises(dml.ProgramError) as raised:
            program.check()
        assert [fault.pointer for fault in raised.value.faults] == ["/resources/x/initialValues/sourcePath"], name
    with pytest.raises(dml.ProgramError, match="which could run code"):
        load(write(tmp_path / "p.json", file_program("pickled.npy"))).run()
    np.save(tmp_path / "ok.npy", np.zeros(1))
    assert "INT32" in str(faults_of(load(write(tmp_path / "p.json", file_program("ok.npy", "INT32")))))
    assert "is required" in str(faults_of(load(write(tmp_path / "p.json", file_program("p.json")))))
    for path in (tmp_path / "nothing", tmp_path / "folder", tmp_path / "pickled.npy", "x" * 5000, "a/" * 5000, "nul\0byte"):
        with pytest.raises(dml.ProgramError, match="cannot be read"):
            load(path)


def faults_of(program: Program) -> dml.ProgramError:
    with pytest.raises(dml.ProgramError) as raised:
        program.check()
    return raised.value


# limits


def product(k: int, n: int, *, owned: bool) -> str:
    """A matmul of K by N elements, all of which are the same byte."""
    flags = {"Flags": "OWNED_BY_DML"} if owned else {}
    desc = {
        "ATensor": {"DataType": "UINT8", "Sizes": [1, k], "Strides": [0, 0]},
        "BTensor": {"DataType": "UINT8", "Sizes": [k, n], "Strides": [0, 0], **flags},
        "OutputTensor": {"DataType": "INT32", "Sizes": [1, n]},
    }
    dispatchable = {"type": "MATRIX_MULTIPLY_INTEGER", "desc": desc, "bindings": {"BTensor": "x"} if owned else {}}
    bindings = {"ATensor": "x", "OutputTensor": "y"} | ({} if owned else {"BTensor": "x"})
    resources = {
        "x": {"initialValuesDataType": "UINT8", "initialValues": [1]},
        "y": {"initialValuesDataType": "INT32", "initialValues": {"value": 0, "valueCount": n}},
    }
    commands = [{"type": "dispatch", "dispatchable": "product", "bindings": bindings}]
    return json.dumps({"resources": resources, "dispatchables": {"product": dispatchable}, "commands": commands})


@pytest.mark.parametrize("owned", [True, False])  # 17 MB that are kept, and as much while B is packed; 3 or 4 MB of scratch
def test_what_operators_take_counts_before_anything_is_allocated(owned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    program = loaded(product(2**14, 2**10, owned=owned))
    operator = dml.Device().compile(program.dispatchables["product"].desc)
    assert operator.kernel_name == "contract:compiled"
    kept = operator.binding_properties.persistent_resource_size
    others = operator.most_bytes - kept
    needed = 4 + 2**12 + kept + others
    assert needed > 3 * 2**20
    monkeypatch.setattr(checking, "memory_bytes", lambda: needed - 1)
    for attempt in (program.check, program.run):
        tracemalloc.start()
        try:
            with pytest.raises(dml.ProgramError) as raised:
                attempt()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        (fault,) = raised.value.faults
        assert fault.pointer == "/dispatchables"
        assert fault.message == (
            f"keep {kept} bytes, and one of them uses up to {others} bytes at a time; {needed} bytes together with the "
            f"resources, and this machine has {needed - 1}"
        )
        assert peak < 2**21
    monkeypatch.setattr(checking, "memory_bytes", lambda: needed)
    tracemalloc.start()
    try:
        program.run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < needed + 2**20  # nothing else was allocated


def test_an_operator_that_no_kernel_has_the_memory_for_is_a_fault_of_its_dispatchable(monkeypatch: pytest.MonkeyPatch) -> None:
    program = loaded(product(2**14, 2**10, owned=False))
    monkeypatch.setattr("anydml.devices.choice.memory_bytes", lambda: 2**10)
    with pytest.raises(dml.ProgramError, match="scratch and persistent memory") as raised:
        program.check()
    assert [fault.pointer for fault in raised.value.faults] == ["/dispatchables/product"]


def test_operators_share_scratch_and_keep_what_each_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(product(2**10, 64, owned=True))
    one = dml.Device().compile(loaded(json.dumps(document)).dispatchables["product"].desc)
    kept = one.binding_properties.persistent_resource_size
    document["dispatchables"] |= {f"p{i}": document["dispatchables"]["product"] for i in range(9)}
    document["commands"] += [document["commands"][0] | {"dispatchable": f"p{i}"} for i in range(9)]
    program = loaded(json.dumps(document))
    needed = 4 + 4 * 64 + 9 * kept + one.most_bytes
    assert one.most_bytes > kept
    monkeypatch.setattr(checking, "memory_bytes", lambda: needed)
    program.run()
    monkeypatch.setattr(checking, "memory_bytes", lambda: needed - 1)
    with pytest.raises(dml.ProgramError, match=f"{needed} bytes together with the resources"):
        program.run()


@pytest.mark.parametrize("offset", [2**40, 2**62, 2**64 - 1, 2**64 - 4])
def test_offsets_past_the_end_of_every_memory(offset: int) -> None:
    at = {"name": "input", "elementOffset": offset}
    for size in ({}, {"elementSizeInBytes": 16}, {"elementSizeInBytes": 2**64 - 1}):
        both = {f"{DISPATCH}/InputTensor": "input", f"{DISPATCH}/OutputTensor": at | size}
        assert f"{DISPATCH}/OutputTensor" in faults(changed(both))
        both = {f"{DISPATCH}/InputTensor": at | size, f"{DISPATCH}/OutputTensor": "input"}
        assert f"{DISPATCH}/InputTensor" in faults(changed(both))


def test_hostile_sizes_take_bounded_time_and_memory() -> None:
    one = {"initialValuesDataType": "UINT8", "initialValues": {"value": 1, "valueCount": 4}}
    many = json.dumps({"resources": {f"r{i}": one for i in range(30_000)}, "dispatchables": {}, "commands": []})
    large = {"initialValuesDataType": "FLOAT64", "initialValues": {"value": 1, "valueCount": 2**32 - 1}}
    sequence = {"initialValuesDataType": "UINT64", "initialValues": {"valueStart": 1, "valueDelta": 1, "valueCount": 2**32 - 1}}
    vast = {"initialValuesDataType": "UINT8", "initialValues": [1], "sizeInBytes": 2**64 - 1}
    for extra in (large, sequence, vast):
        document = {"resources": {f"r{i}": extra for i in range(1000)}, "dispatchables": {}, "commands": []}
        assert "take" in faults(json.dumps(document))["/resources"]
    began = time.perf_counter()
    assert len(loaded(many).run()) == 30_000
    texts = [
        "[" * 10**5,
        '"' * 10**5,
        "/*" * 10**5,
        '{"a":' * 10**5,
        "," * 10**5,
        '"' + '\\"' * 10**5,
        "[" + " ," * 10**5 + "]",
    ]
    texts += ['{"a":1,' * 60 + "}" * 60, "[" + "{}," * 10**5 + "]", json.dumps({f"k{i}": {} for i in range(10**5)})]
    texts.append(json.dumps({"resources": {f"r{i}": {} for i in range(6_000)}, "dispatchables": {}, "commands": [{}] * 6_000}))
    for text in texts:
        with pytest.raises(dml.ProgramError) as raised:
            loaded(text)
        assert len(raised.value.faults) <= 1001
    with pytest.raises(dml.ProgramError, match="more than 33554432 characters"):
        loaded(" " * (2**25 + 1))
    assert time.perf_counter() - began < 30


def test_zero_strides_make_huge_tensors_of_small_resources() -> None:
    text = changed({f"{DESC}/InputTensor/Sizes": [2**32 - 1] * 4, f"{DESC}/InputTensor/Strides": [0, 0, 0, 1]})
    assert f"{DISPATCH}/InputTensor" in faults(text)  # the last dimension alone is too large
    text = changed({f"{DESC}/InputTensor/Sizes": [2**32 - 1] * 4, f"{DESC}/InputTensor/Strides": [0, 0, 0, 0]})
    assert "more elements than an array can have" in faults(text)[f"{DISPATCH}/InputTensor"]
    text = changed({f"{DESC}/InputTensor/Sizes": [2**15] * 4, f"{DESC}/InputTensor/Strides": [0, 0, 0, 0]})
    assert loaded(text).run()["output"].tolist() == [1] * 6


def test_in_place_is_refused_where_elements_meet_and_only_there() -> None:
    halves = {
        "/resources/input/initialValues/valueCount": 64,
        f"{DESC}/OutputTensor/Strides": [64, 64, 8, 4],
    }
    at = {"name": "input", "elementOffset": 28}
    assert "shares memory with InputTensor" in str(
        faults(changed({**halves, f"{DISPATCH}/OutputTensor": {**at, "elementOffset": 4}}))
    )
    program = loaded(
        changed({**halves, f"{DISPATCH}/OutputTensor": {**at, "elementOffset": 24}, f"{DESC}/InputTensor/Sizes": [1, 1, 4, 6]})
    )
    assert program.run()["input"][24::4].tolist()[:2] == [8, 10]


def test_a_large_file_is_copied_once(tmp_path: Path) -> None:
    count = 200 * 2**20 // 4
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (count,))[-1] = 5
    program = load(write(tmp_path / "p.json", file_program("x.npy")))
    tracemalloc.start()
    try:
        found = program.run()["x"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found[-1] == 5
    assert peak < 1.05 * found.nbytes


def test_data_errors_come_at_run_and_files_written_before_stay(tmp_path: Path) -> None:
    cls, example = next((c, e) for c, e in EXAMPLES.values() if c.spec.name == "QUANTIZED_LINEAR_MATRIX_MULTIPLY")
    program = of(
        cls(**example.fields), {**example.inputs, "output_scale_tensor": np.zeros_like(example.inputs["output_scale_tensor"])}
    )
    program.save(tmp_path)
    document = json.loads((tmp_path / "program.json").read_text())
    target = {"type": "writeFile", "resource": "ATensor", "targetPath": "a.npy"}
    document["commands"] = [target, document["commands"][0], {**target, "targetPath": "b.npy"}]
    program = load(write(tmp_path / "p.json", json.dumps(document)))
    program.check()
    with pytest.raises(dml.DataError):
        program.run(output_path=tmp_path / "out")
    assert os.listdir(tmp_path / "out") == ["a.npy"]


# from Python


def test_programs_of_calls_with_strides_padding_and_owned_tensors() -> None:
    array = np.arange(40, dtype=np.int8).reshape(5, 8)[::2, ::3]
    source = dml.TensorDesc.of(array, flags=dml.TensorFlags.OWNED_BY_DML)
    source = replace(source, total_tensor_size_in_bytes=48)
    target = dml.TensorDesc(dml.DataType.INT8, (2, 2), strides=(5, 2), total_tensor_size_in_bytes=32)
    desc = dml.Slice1(
        input_tensor=source,
        output_tensor=target,
        input_window_offsets=(1, 1),
        input_window_sizes=(2, 2),
        input_window_strides=(1, -1),
    )
    padded = np.zeros(48, np.uint8)
    padded[:40] = np.arange(40)
    for given in (array, array.copy(), padded):
        total = 48 if given is padded else 0
        program = of(replace(desc, input_tensor=replace(source, total_tensor_size_in_bytes=total)), {"input_tensor": given})
        program.check()
        assert program.run()["OutputTensor"][[0, 2, 5, 7]].tolist() == [22, 19, 38, 35]
    assert program.commands[-1] == Print("/commands/1", "OutputTensor", False)
    with pytest.raises(dml.BindingError, match=r"(?s)other: is not a tensor of the desc.*input_tensor: holds 3 bytes"):
        of(desc, {"input_tensor": np.zeros(3, np.uint8), "other": array})
    broadcast = replace(desc, input_tensor=replace(source, strides=(0, 3), total_tensor_size_in_bytes=0))
    assert of(broadcast, {"input_tensor": np.repeat(array[:1], 3, 0)}).run()["InputTensor"].tolist() == [0, 0, 0, 3, 0, 0, 6]
    with pytest.raises(dml.BindingError, match="input_tensor: has different elements that"):
        of(broadcast, {"input_tensor": array.copy()})
    with pytest.raises(dml.DescError):
        of(replace(desc, input_window_strides=(0, 1)), {"input_tensor": array})
    with pytest.raises(dml.BindingError, match="input_tensor: is missing"):
        of(desc, {})


def test_saving_copies_files_under_safe_names(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "x.npy", np.arange(3))
    text = file_program("data/x.npy").replace('"x"', '"../é x"')
    load(write(tmp_path / "p.json", text)).save(tmp_path / "saved")
    assert sorted(os.listdir(tmp_path / "saved")) == ["_____x.npy", "program.json"]
    assert load(tmp_path / "saved").run()["../é x"].tolist() == [0, 1, 2]
    assert load(tmp_path / "saved").run()["../é x"].tolist() == [0, 1, 2]


def test_programs_are_loaded_when_they_are_asked_for() -> None:
    code = "import sys, anydml; assert 'anydml.program' not in sys.modules; assert anydml.Program is anydml.program.Program; "
    code += "assert 'PIL' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
