"""Suggestions for unknown names: spellings, words of names, names of other libraries, and misspellings."""

import pytest

import anydml as dml
from anydml import operators
from anydml.catalog import FUNCTIONS
from anydml.suggestions import ELSEWHERE, similar


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("elementwise_add", ["element_wise_add"]),
        ("relu", ["activation_relu", "activation_leaky_relu", "activation_thresholded_relu"]),
        ("mul", ["element_wise_multiply"]),
        ("conv2d", ["convolution", "quantized_linear_convolution", "convolution_integer"]),
        ("max_pool", ["max_pooling", "max_pooling1", "max_pooling2"]),
        ("matmul", ["gemm", "matrix_multiply_integer", "quantized_linear_matrix_multiply"]),
        ("slcie1", ["slice1"]),
        ("fused_everything", []),
        ("", []),
    ],
)
def test_names_that_are_meant(name: str, meant: list[str]) -> None:
    assert similar(name, FUNCTIONS)[: len(meant) or 3] == meant


def test_names_of_other_libraries_lead_to_operators() -> None:
    for name, meant in ELSEWHERE.items():
        assert set(meant) <= set(FUNCTIONS)
        assert name not in FUNCTIONS


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("sum", "; did you mean reduce?"),
        ("mean", "; did you mean element_wise_mean or reduce?"),
        ("matmul", "; did you mean gemm, matrix_multiply_integer or quantized_linear_matrix_multiply?"),
        ("GemmDesc", "; did you mean Gemm?"),
        ("device", "; did you mean Device?"),
        ("onnx", "; `import anydml.onnx` loads it"),
        ("torch", "; `import anydml.torch` loads it"),
        ("nothing_like_it", ""),
        ("__wrapped__", ""),
    ],
)
def test_attributes_that_are_not_there(name: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(dml), "onnx", raising=False)  # another test may have imported it
    with pytest.raises(AttributeError) as raised:
        getattr(dml, name)
    assert str(raised.value) == f"module 'anydml' has no attribute {name!r}{told}"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("RELU", "ACTIVATION_RELU"), ("CONV", "CONVOLUTION"), ("DML_GEMM_OPERATOR_DESC", "GEMM"), ("GEMMM", "GEMM")],
)
def test_operators_that_are_not_there(name: str, meant: str) -> None:
    assert operators.why_missing(name) == f"DirectML has no operator {name!r}; did you mean {meant!r}?"
