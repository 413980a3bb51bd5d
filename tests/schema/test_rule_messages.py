"""Messages of rules, made of sentences and values, also those of a fused activation's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import anydml as dml
from anydml import DescError, FeatureLevel, TensorDesc, check, operators
from anydml.errors import show
from anydml.rule_messages import word
from anydml.schema.operator import Desc, example_desc, rejections
from anydml.schema.tensor_rules import TENSOR_RULES
from anydml.spelling import snake_case
from every_kernel import Operator
from tables import OPERATORS, for_each

CASES: tuple[tuple[str, Mapping[str, Any], Mapping[str, Any], str, str], ...] = (
    ("`S` must not be 0.", {"S[3]": 0}, {}, "S[3] is 0; it must not be 0", ""),
    ("Each of `S` must fit.", {"S": (1, 2)}, {}, "S is (1, 2); each must fit", ""),
    ("`A` and `B` must be equal.", {"A": 1, "B": 2}, {"B": 1}, "A is 1 and B is 2; they must be equal", "B = 1"),
    ("`A`, `B` and `C` must be equal.", {"A": 1, "B": 2, "C": 1}, {}, "A and C are 1, and B is 2; they must be equal", ""),
    ("`A` must equal `B`.", {"A": 1, "B": 2}, {"A": 2}, "A is 1; it must equal B (2)", ""),
    ("`A` must be less than `B`.", {"A": 4, "B": 4}, {"A": range(4)}, "A is 4; it must be less than B (4)", "0 to 3"),
    ("`A` must be at least 1.", {"A": 0}, {"A": range(1, 2**32)}, "A is 0; it must be at least 1", ""),
    ("`A` must be 1 + (`B` - 1).", {"A[0]": 1, "B[0]": 2}, {}, "A[0] is 1 and B[0] is 2; A[0] must be 1 + (B[0] - 1)", ""),
    ("`A` must be like `B.Sizes`.", {"A": 1, "B.Sizes": (2, 3)}, {}, "A is 1; it must be like B.Sizes (2, 3)", ""),
    ("The sum of `A` must be even.", {"A": (1, 2)}, {}, "A is (1, 2); the sum of A must be even", ""),
    (
        "The last of `A.Sizes` and the second last of `B.Sizes` must be equal (K).",
        {"A.Sizes": (2, 8), "B.Sizes": (3, 5)},
        {},
        "the last of A.Sizes is 8 and the second last of B.Sizes is 3; they must be equal (K)",
        "",
    ),
    ("The last of `A` must be 1.", {"A": ()}, {}, "the last of A is (); it must be 1", ""),
    (
        "`FeatureLevel` takes INT8 or UINT8 here.",
        {"A.DataType": dml.DataType.FLOAT64, "FeatureLevel": FeatureLevel.FL_6_3},
        {"A.DataType": [dml.DataType.INT8, dml.DataType.UINT8], "FeatureLevel": FeatureLevel.FL_6_4},
        "A.DataType is FLOAT64; feature level 6_3 takes INT8 or UINT8 here",
        "feature level 6_4",
    ),
)


@pytest.mark.parametrize(("sentence", "values", "expected", "fault", "fits"), CASES, ids=[case[0] for case in CASES])
def test_a_sentence_and_values_make_a_message(
    sentence: str, values: Mapping[str, Any], expected: Mapping[str, Any], fault: str, fits: str
) -> None:
    assert word(sentence, values, expected, str, show) == (fault, fits)


@for_each(OPERATORS, at_least=1_400)
def test_every_message_tells_all_that_was_read(operator: Operator) -> int:
    """Every path that a rule reads is named with its value, and the requirement is stated once, in both spellings."""
    for rule in (*operator.spec.rules, *TENSOR_RULES):
        assert " must " in rule.sentence, rule.name
        assert rule.sentence.endswith("."), rule.name
    cases = 0
    for breaking in rejections(operator):
        with pytest.raises(DescError) as caught:
            check(example_desc(operator, breaking.fields), breaking.at, strict=breaking.strict)
        for violation in caught.value.violations:
            places = {path: value for path, value in violation.values.items() if path != "FeatureLevel"}
            for text, spell in ((str(violation), snake_case), (violation.wire_text(), str)):
                assert "`" not in text
                fault = text.partition("\n")[0]
                for path, value in places.items():
                    assert spell(path) in fault, (path, text)
                    entries = value if isinstance(value, tuple) else ()
                    assert show(value) in fault or any(show(entry) in fault for entry in entries), (path, text)
            cases += 1
    assert cases >= len(operator.spec.rules)
    return cases


# --- fused activations ---

ROWS = TensorDesc("float32", (1, 1, 2, 2))


def sum_of(activation: Desc | None) -> dml.ElementWiseAdd1:
    return dml.ElementWiseAdd1(a_tensor=ROWS, b_tensor=ROWS, output_tensor=ROWS, fused_activation=activation)


def told(desc: Desc, level: str) -> list[str]:
    with pytest.raises(DescError) as caught:
        check(desc, level)
    return str(caught.value).splitlines()


def test_a_fused_activation_s_attributes_keep_its_rules() -> None:
    shallow = sum_of(dml.ActivationSoftplus(steepness=0.5))
    assert told(shallow, "6_3") == [
        "ElementWiseAdd1.steepness_at_least_one: fused_activation.steepness is 0.5; "
        "it must be at least 1 below feature level 6_4"
    ]
    with pytest.raises(DescError) as caught:
        check(shallow, "6_3")
    (violation,) = caught.value.violations
    assert violation.values == {"FusedActivation.Steepness": 0.5}
    assert violation.expected == {"FeatureLevel": FeatureLevel.FL_6_4}
    assert "FusedActivation.Steepness is 0.5; " in violation.wire_text()
    check(shallow, "6_4")
    check(sum_of(dml.ActivationSoftplus(steepness=1.0)), "6_3")


def test_a_fused_activation_is_there_at_the_feature_level() -> None:
    gelu = sum_of(dml.ActivationGelu())
    assert told(gelu, "5_0") == [
        "ElementWiseAdd1.available: fused_activation is ACTIVATION_GELU; feature level 5_0 does not have it, "
        "which came with 5_1"
    ]
    check(gelu, "5_1")


def test_a_fused_activation_without_tensors_breaks_no_rule_about_them() -> None:
    for operator in operators.every():
        if operator.spec.fusable and not operator.spec.fused_by:
            activation = example_desc(operator, {"input_tensor": None, "output_tensor": None})
            check(sum_of(activation), "6_4")


def test_an_activation_of_some_operators_is_one_of_theirs_alone() -> None:
    clip = dml.ElementWiseClip(min=0.0, max=6.0)
    assert told(sum_of(clip), "6_4") == [
        "ElementWiseAdd1.fused_activation_fusable: fused_activation is ELEMENT_WISE_CLIP; "
        "it must be an activation that can be fused"
    ]
    convolution = dml.Convolution(**{**dml.Convolution.spec.examples[0].fields, "fused_activation": clip})
    assert told(convolution, "5_2") == [
        "Convolution.available: fused_activation is ELEMENT_WISE_CLIP; feature level 5_2 does not have it as an activation, "
        "which came with 6_0"
    ]
    check(convolution, "6_0")


def test_each_of_a_list_of_activations_is_judged() -> None:
    desc = dml.Lstm(
        **{
            **dml.Lstm.spec.examples[0].fields,
            "activation_descs": (dml.ActivationSigmoid(), dml.ActivationSoftplus(steepness=0.25), dml.ActivationTanh()),
        }
    )
    assert told(desc, "6_3") == [
        "Lstm.steepness_at_least_one: activation_descs[1].steepness is 0.25; it must be at least 1 below feature level 6_4"
    ]
    check(desc, "6_4")
    tensors = dml.ActivationRelu(input_tensor=ROWS, output_tensor=ROWS)
    several = dml.Lstm(**{**dml.Lstm.spec.examples[0].fields, "activation_descs": (tensors, sum_of(None), tensors)})
    assert told(several, "6_4") == [
        "Lstm.activation_descs_fusable: activation_descs[1] is ELEMENT_WISE_ADD1; it must be an activation that can be fused",
        "Lstm.activation_descs_without_tensors: activation_descs[0] is ACTIVATION_RELU; it must have no tensors of its own",
        "Lstm.activation_descs_without_tensors: activation_descs[2] is ACTIVATION_RELU; it must have no tensors of its own",
    ]
