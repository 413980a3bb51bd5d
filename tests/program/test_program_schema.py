"""The JSON Schema of programs takes the programs that are taken, and refuses what is refused for its form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from anydml import operators, program
from anydml.program.schema import program_schema
from anydml.program.text import Notes, read

PROGRAMS = Path(__file__).parents[2] / "examples" / "programs"
SCHEMA = program_schema()
VALID = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert {o.spec.name for o in operators.every()} <= SCHEMA["$defs"].keys()


def test_programs_of_every_example_are_valid() -> None:
    count = 0
    for operator in operators.every():
        for example in operator.spec.examples:
            document = program.of(operator(**example.fields), example.inputs).document
            assert not [e.message for e in VALID.iter_errors(document)], (operator, example.title)
            count += 1
    print(f"{count} programs")
    assert count > 300


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.json")), ids=lambda path: path.stem)
def test_programs_of_the_folder_are_valid_if_their_form_is(path: Path) -> None:
    document = read(path.read_text(encoding="utf-8"), Notes(path.name))
    assert VALID.is_valid(document)  # faulty.json breaks rules of its operator, which are about several values


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("resources"),
        lambda d: d["dispatchables"]["crop"].update(type="SLICE9"),
        lambda d: d["dispatchables"]["crop"]["desc"].pop("InputWindowSizes"),
        lambda d: d["dispatchables"]["crop"]["desc"].update(InputWindowStrides=[1, 1, 2.5, 2]),
        lambda d: d["dispatchables"]["crop"]["desc"]["InputTensor"].update(DataType="FLOAT31"),
        lambda d: d["commands"][0].update(type="despatch"),
        lambda d: d["resources"]["image"].update(initialValues=[]),
    ],
)
def test_faults_of_form_are_found(change: Any) -> None:
    document = {
        "resources": {name: {"initialValuesDataType": "FLOAT32", "initialValues": [1] * 16} for name in ("image", "out")},
        "dispatchables": {
            "crop": {
                "type": "DML_OPERATOR_SLICE1",
                "desc": {
                    "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 4, 4]},
                    "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]},
                    "DimensionCount": 4,
                    "InputWindowOffsets": [0, 0, 0, 1],
                    "InputWindowSizes": [1, 1, 4, 3],
                    "InputWindowStrides": [1, 1, -2, 2],
                },
            }
        },
        "commands": [{"type": "dispatch", "dispatchable": "crop", "bindings": {"InputTensor": "image", "OutputTensor": "out"}}],
    }
    assert VALID.is_valid(document)
    change(document)
    assert not VALID.is_valid(document)
