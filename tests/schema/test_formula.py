"""The formula of every operator, as its page shows it."""

from __future__ import annotations

import pytest

from anydml import operators
from anydml.schema.formula import formulas
from anydml.schema.operator import example_desc
from every_kernel import Operator
from tables import OPERATORS, for_each

SHOWN = {
    "ELEMENT_WISE_ADD1": "Output = max(0, A + B)",
    "ELEMENT_WISE_EXP": "Output = exp(Input * Scale + Bias)",
    "ACTIVATION_GELU": "Output = 0.5 * Input * (1 + erf(Input / sqrt(2)))",
    "ACTIVATION_SIGMOID": "Output = 1 / (1 + exp(-Input))",
    "ACTIVATION_SOFTMAX1": "Output[i, j, k, l] = exp(Input[i, j, k, l] - P[i, j, k])"
    " / (sum over l' < Input.Sizes[3] of exp(Input[i, j, k, l'] - P[i, j, k]))\n"
    "    where P[i, j, k] = max over l' < Input.Sizes[3] of Input[i, j, k, l']",
    "MATRIX_MULTIPLY_INTEGER": "Output[i, j] = sum over k < A.Sizes[1]"
    " of (A[i, k] - AZeroPoint[0]) * (B[k, j] - BZeroPoint[0])",
    "GATHER": "Output[i] = Input[Indices[i]]",
}


@for_each(OPERATORS, at_least=177)
def test_every_output_has_a_formula(operator: Operator) -> int:
    desc = example_desc(operator).as_newest()
    made = formulas(desc)
    present = [f.name for f in desc.spec.outputs if getattr(desc, f.name) is not None]
    assert {name.partition("[")[0] for name in made} >= set(present)
    for text in made.values():
        assert " = " in text
        assert "None" not in text
    return len(made)


@pytest.mark.parametrize("name", SHOWN)
def test_formulas_read_as_the_documentation_s_do(name: str) -> None:
    operator = operators.find(name)
    assert operator is not None
    (text,) = formulas(example_desc(operator)).values()
    assert text == SHOWN[name]


def test_attention_names_its_parts() -> None:
    """Every intermediate tensor of the formula is defined on one line, and no line is long."""
    operator = operators.find("MULTIHEAD_ATTENTION1")
    assert operator is not None
    lines = formulas(example_desc(operator))["output_tensor"].split("\n")
    defined = [line.strip().removeprefix("where ").partition("[")[0] for line in lines]
    assert sorted(defined) == ["Keys", "Largest", "Output", "Queries", "Scores", "Values", "Weights"]
    assert "    where Weights[b, n, s, t] = exp(Scores[b, n, s, t] - Largest[b, n, s])" in lines
    assert max(map(len, lines)) < 340
