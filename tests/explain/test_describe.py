"""`describe` shows every fact, with the messages of `check`, and its output is JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

import anydml as dml
from anydml.explain.describe import describe, markdown, plain, text
from anydml.operators.slice import Slice1
from anydml.schema.operator import example_desc, rejections
from anydml.schema.tensor_rules import TENSOR_RULES
from every_kernel import Operator
from tables import OPERATORS, for_each

FROM_ROWS = {"available", "dimension_count_supported", "data_type_supported"}  # rules that follow from the support rows


@for_each(OPERATORS, at_least=1_400)
def test_data_has_every_field_rule_and_erratum_of_the_file(operator: Operator) -> int:
    facts, spec = describe(operator), operator.spec
    assert facts["operator"] == f"DML_OPERATOR_{spec.name}"
    assert [(f["name"], f["role"], f["type"]) for f in facts["fields"]] == [(f.wire, f.role, f.wire_type) for f in spec.fields]
    assert [(f["optional"], f["sized_by"]) for f in facts["fields"]] == [(f.optional, f.sized_by) for f in spec.fields]
    rules = {rule["id"]: rule for rule in facts["constraints"]}
    assert {rule.name for rule in spec.rules} <= rules.keys() <= {rule.name for rule in spec.rules} | FROM_ROWS
    for rule in spec.rules:
        said = rules[rule.name]
        assert (said["sentence"], said["each"], said["extension"]) == (
            rule.sentence,
            rule.each,
            rule.extension,
        )
    assert [rule["id"] for rule in facts["tensor_constraints"]] == [rule.name for rule in TENSOR_RULES]
    assert [rule["id"] for rule in facts["data_rules"]] == [rule.name for rule in spec.data_rules]
    assert facts["errata"] == list(spec.errata)
    assert [example["title"] for example in facts["examples"]] == [example.title for example in spec.examples]
    return len(facts["constraints"])


def test_the_page_of_the_quantised_product_says_whose_order_its_arguments_have() -> None:
    facts = describe(dml.QuantizedLinearMatrixMultiply)
    for said in (markdown(facts), text(facts)):
        assert "in the order of ONNX's QLinearMatMul" in " ".join(said.split())


@for_each(OPERATORS, at_least=1_400)
def test_data_survives_json(operator: Operator) -> int:
    facts = describe(operator)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    return len(facts["constraints"])


@for_each(OPERATORS, at_least=1_400)
def test_each_message_is_the_one_that_check_gives(operator: Operator) -> int:
    by_id = {rule["id"]: rule for rule in describe(operator)["constraints"]}
    every = rejections(operator)
    for breaking in every:
        with pytest.raises(dml.DescError) as refused:
            dml.check(example_desc(operator, breaking.fields), breaking.at, strict=breaking.strict)
        assert by_id[breaking.constraint]["example"]["message"] == refused.value.violations[0].wire_text()
    return len(every)


@for_each(OPERATORS, at_least=1_400)
def test_page_and_text_have_every_field_rule_type_erratum_and_message(operator: Operator) -> int:
    facts = describe(operator)
    page, brief = markdown(facts), text(facts)
    for field in facts["fields"]:
        assert f"| `{field['name']}` | `{field['python']}` |" in page
        assert f"  {field['name']} " in brief
        assert field["meaning"] in brief
    for row in facts["support"]:
        for data_type in row["data_types"]:
            assert data_type in page
            assert data_type in brief
    for rule in facts["constraints"]:
        assert f"### `{rule['id']}`\n\n{rule['sentence']}" in page
        assert rule["example"]["message"] in page
        assert f"  {rule['id']}" in brief
        for line in rule["example"]["message"].splitlines()[1:]:
            assert line.strip() in brief
    for rule in facts["tensor_constraints"]:
        assert f"- `{rule['id']}`: {rule['sentence']}" in page
        assert f"  {rule['id']}" in brief
    for rule in facts["data_rules"]:
        assert rule["example"]["message"] in page
        assert rule["sentence"] in brief
    for told in (*facts["errata"], *(example["title"] for example in facts["examples"])):
        assert told in page
        assert told in brief
    return len(facts["constraints"])


def test_a_field_with_its_type_and_count() -> None:
    fields = {field["name"]: field for field in describe(Slice1)["fields"]}
    assert fields["InputWindowStrides"] == {
        "name": "InputWindowStrides",
        "python": "input_window_strides",
        "role": "attribute",
        "type": "INT",
        "optional": False,
        "sized_by": "DimensionCount",
        "meaning": "Elements to advance; negative: from the window's end backwards.",
    }


def test_a_rule_with_its_example_and_message() -> None:
    rule = next(rule for rule in describe(Slice1)["constraints"] if rule["id"] == "window_inside_input")
    assert rule["each"] == "dimension"
    assert rule["example"]["changes"] == {"InputWindowOffsets": [0, 0, 0, 2]}
    assert rule["example"]["message"] == (
        "DML_OPERATOR_SLICE1.window_inside_input: InputWindowOffsets[3] is 2 and InputWindowSizes[3] is 3; "
        "they must add up to at most InputTensor.Sizes[3] (4): the window lies inside the input\n"
        "    would fit: InputWindowOffsets[3] = 0 to 1, or InputWindowSizes[3] = 1 to 2"
    )


def test_a_rule_of_every_tensor_names_the_tensor() -> None:
    rules = {rule["id"]: rule for rule in describe(Slice1)["tensor_constraints"]}
    assert rules["total_large_enough"]["example"]["message"].endswith("\n    would fit: at least 64")
    assert rules["output_strides_nest"]["outputs_only"]
    assert "OutputTensor.Strides is (3, 1)" in rules["output_strides_nest"]["example"]["message"]


def test_an_example_is_a_whole_desc_with_its_data() -> None:
    example = describe(Slice1)["examples"][0]
    assert example["desc"]["DimensionCount"] == 4
    assert example["desc"]["InputTensor"] == {"DataType": "FLOAT32", "Sizes": [1, 1, 4, 4]}
    assert example["outputs"]["OutputTensor"] == [[[[2.0, 4.0], [10.0, 12.0]]]]


def test_float32_is_written_as_short_as_it_can_be() -> None:
    facts = describe(dml.QuantizedLinearMatrixMultiply)
    assert facts["examples"][0]["inputs"]["AScaleTensor"] == [0.0066]
    assert [rule["example"]["message"] for rule in facts["data_rules"]] == [
        "a_scale_tensor[0] is 0.0; a scale must not be 0, infinite or NaN"
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (range(1, 3), {"minimum": 1, "maximum": 2}),
        (range(2**64), {"minimum": 0, "maximum": 2**64 - 1}),
        ([(1, 1), (1, 3)], [[1, 1], [1, 3]]),
        (dml.DataType.INT8, "INT8"),
        (dml.FeatureLevel.FL_6_4, "6_4"),
        (dml.TensorFlags.NONE, "NONE"),
        (dml.TensorFlags.OWNED_BY_DML, "OWNED_BY_DML"),
        ("absent", "absent"),
        (
            dml.TensorDesc(
                dml.DataType.INT8,
                (2,),
                strides=(3,),
                flags=dml.TensorFlags.OWNED_BY_DML,
                total_tensor_size_in_bytes=8,
                guaranteed_base_offset_alignment=4,
            ),
            {
                "DataType": "INT8",
                "Sizes": [2],
                "Strides": [3],
                "Flags": "OWNED_BY_DML",
                "TotalTensorSizeInBytes": 8,
                "GuaranteedBaseOffsetAlignment": 4,
            },
        ),
    ],
)
def test_values_as_json_has_them(value: Any, expected: Any) -> None:
    assert plain(value) == expected
