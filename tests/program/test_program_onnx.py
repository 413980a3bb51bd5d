"""Programs as ONNX models: the same bits by anydml's own reading of ONNX, and models that the onnx package finds valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import anydml as dml
import anydml.onnx
from anydml import operators, program
from anydml.errors import Error, UnsupportedError
from anydml.program.onnx_model import SAID

PROGRAMS = Path(__file__).parents[2] / "examples" / "programs"


def outputs_of(made: program.Program, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outputs of the model for the program's initial values, and those of the program."""
    onnx.checker.check_model(model)
    loaded = anydml.onnx.load(model)
    whole = made.run()
    values = {r.name: r.values.data for r in made.resources.values() if isinstance(r.values, program.model.Given)}
    given = {name: values[name].reshape(s.sizes) for name, s in loaded.inputs.items()}
    return loaded.run(given), whole


def test_every_example_that_onnx_can_say_has_the_same_bits() -> None:
    said, unsaid = set(), 0
    for operator in operators.every():
        for example in operator.spec.examples:
            made = program.of(operator(**example.fields), example.inputs)
            try:
                model = made.to_onnx()
            except UnsupportedError as error:
                name = operator(**example.fields).as_newest().spec.name
                unsaid += f"({name}) has no equal in ONNX: " in str(error)
                continue
            got, wanted = outputs_of(made, model)
            for name, x in got.items():
                assert x.ravel().tobytes() == wanted[name].tobytes(), (operator, example.title)
            said.add(operator.spec.name)
    print(f"examples of {len(said)} operators, and {unsaid} that have no equal")
    assert len(said) > 50


def test_a_program_of_several_dispatches() -> None:
    sixteen = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueStart": 1, "valueDelta": 1, "valueCount": 16}}
    nothing = {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 0, "valueCount": 16}}
    wide, high = ({"DataType": "FLOAT32", "Sizes": sizes} for sizes in ([1, 1, 2, 8], [1, 1, 16, 1]))
    document = {
        "resources": {"x": sixteen, "y": nothing, "z": nothing},
        "dispatchables": {
            "exp": {"type": "ELEMENT_WISE_EXP", "desc": {"InputTensor": wide, "OutputTensor": wide}},
            "add": {"type": "ELEMENT_WISE_ADD", "desc": {"ATensor": high, "BTensor": high, "OutputTensor": high}},
        },
        "commands": [
            {"type": "dispatch", "dispatchable": "exp", "bindings": {"InputTensor": "x", "OutputTensor": "y"}},
            {"type": "dispatch", "dispatchable": "add", "bindings": {"ATensor": "y", "BTensor": "x", "OutputTensor": "z"}},
            {"type": "print", "resource": "z"},
        ],
    }
    import io
    import json

    made = program.load(io.StringIO(json.dumps(document)))
    model = anydml.onnx.load(made.to_onnx())
    assert (list(model.inputs), list(model.outputs)) == (["x"], ["z"])
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 2, 8)
    assert model.run(x=x)["z"].ravel().tobytes() == made.run()["z"].tobytes()
    document["dispatchables"]["exp"]["desc"]["InputTensor"] = {**wide, "Strides": [16, 16, 1, 2]}  # type: ignore[index]
    with pytest.raises(UnsupportedError, match=r"exp \(ELEMENT_WISE_EXP\) has no equal in ONNX: input_tensor has strides"):
        program.load(io.StringIO(json.dumps(document))).to_onnx()


def test_the_table_names_operators() -> None:
    newest = {o.spec.name for o in operators.every()}
    assert set(SAID) <= newest
    assert issubclass(UnsupportedError, Error)
    assert dml.Program.to_onnx.__doc__
