"""The assertions, and the page that shows them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import anydml as dml
from anydml import testing
from anydml.testing import assert_exact, assert_near, assert_rounding

PAGE = Path(__file__).parents[1] / "docs" / "oracle.md"

A = np.array([[1, 3, 5, 40]], np.int8).T
B = np.array([[1]], np.int8)


def call(scale: float) -> tuple[Any, ...]:
    return (dml.quantized_linear_matrix_multiply, A, scale, None, B, 1.0, None, 1.0, None)


def test_exact_results_pass() -> None:
    exact = np.array([[0], [2], [2], [20]], np.int8)
    assert_exact(exact, *call(0.5))
    assert_near(exact, *call(0.5))
    example = dml.Slice1.spec.examples[1]
    assert_exact(example.output, dml.Slice1(**example.fields), example.inputs)
    assert_near(example.output, dml.Slice1(**example.fields), example.inputs)
    assert_exact(np.arange(3), dml.slice1, np.arange(8), (0,), (3,))
    assert dml.testing is testing


def test_what_is_not_exact_fails_with_the_sentence_of_compare() -> None:
    up = np.array([[1], [2], [3], [20]], np.int8)
    with pytest.raises(AssertionError) as failed:
        assert_exact(up, *call(0.5))
    assert str(failed.value) == str(dml.compare(*call(0.5), actual=up))
    assert str(failed.value).startswith("2 of 4 differ by 1, all at a tie. It equals rounding half away from zero")


def test_a_step_next_to_a_tie_is_near_and_one_farther_away_is_not() -> None:
    up = np.array([[1], [2], [3], [20]], np.int8)
    assert_near(up, *call(0.5))
    assert_near(up, *call(0.5), steps=1, within=0)
    above = float(np.float32(0.5 + 2**-20))  # 5 of them lie 5 * 2^-20 above a tie
    assert_near(np.array([[1], [2], [2], [20]], np.int8), *call(above))
    with pytest.raises(AssertionError, match=r"1 of 4 differs by 1, within 4.8e-6 of a tie.* The test allows .* within 1e-06"):
        assert_near(np.array([[1], [2], [2], [20]], np.int8), *call(above), within=1e-6)
    with pytest.raises(
        AssertionError, match=r"not a rounding difference\. The test allows steps of at most 1, within 1e-05 of"
    ):
        assert_near(np.array([[0], [2], [2], [21]], np.int8), *call(0.5))
    assert_near(np.array([[0], [2], [2], [21]], np.int8), *call(0.5), within=0.5)


def test_more_steps_are_near_only_where_they_are_allowed() -> None:
    off = np.array([[2], [2], [2], [20]], np.int8)
    with pytest.raises(AssertionError, match="1 of 4 differs by 2"):
        assert_near(off, *call(0.5))
    assert_near(off, *call(0.5), steps=2)


def test_what_has_no_tie_to_be_near_to_is_exact_or_fails() -> None:
    saturated = dml.quantized_linear_matrix_multiply(*call(9.0)[1:])
    assert saturated[3, 0] == 127
    saturated[3, 0] = 126
    with pytest.raises(AssertionError, match="where the exact result saturates"):
        assert_near(saturated, *call(9.0), within=0.5)
    x = np.arange(4, dtype=np.int32)
    with pytest.raises(AssertionError, match="1 of 4 differs, at"):
        assert_near(x + np.array([0, 0, 1, 0], np.int32), dml.slice1, x, (0,), (4,), within=0.5)
    product = A.astype(np.int32) @ B
    with pytest.raises(AssertionError, match="1 of 4 differs by 1"):
        assert_near(product + np.eye(4, 1, dtype=np.int32), dml.matrix_multiply_integer, a=A, a_zero_point=None, b=B,
                    b_zero_point=None, within=0.5)  # fmt: skip


def test_what_cannot_be_compared_is_no_failed_assertion() -> None:
    with pytest.raises(dml.BindingError, match=r"^actual: is int32"):
        assert_exact(np.zeros((4, 1), np.int32), *call(0.5))
    with pytest.raises(TypeError, match="neither a desc nor an eager function"):
        assert_near(np.zeros(4), np.matmul, A, B)


def test_calls_that_were_made_and_outputs_that_come_second_are_told_apart() -> None:
    product, made = A.astype(np.int32) @ B, cast(Any, dml.matrix_multiply_integer(A, B))
    with pytest.raises(TypeError, match=r"an array is neither a desc .* give the function and its arguments apart"):
        assert_exact(product, made)
    for check in (assert_exact, assert_near, assert_rounding):
        with pytest.raises(TypeError, match="the output at hand comes first"):
            check(dml.matrix_multiply_integer, product, A, B)


def test_steps_of_floats_are_units_in_the_last_place() -> None:
    x = np.linspace(-2, 2, 50, dtype=np.float32)
    exact = dml.activation_tanh(x)
    above = np.nextafter(np.nextafter(exact, np.float32(2)), np.float32(2))
    assert_near(above, dml.activation_tanh, x, steps=2)
    with pytest.raises(AssertionError, match=r"differ by 2 ULP, the farthest .* ULP\)\. The test allows 1 ULP; assert_"):
        assert_near(above, dml.activation_tanh, x)
    above[3] = np.nan
    with pytest.raises(AssertionError, match="The test allows 9 ULP"):
        assert_near(above, dml.activation_tanh, x, steps=9)


def test_where_no_ties_are_known_the_other_assertion_is_named() -> None:
    halves = np.array([0.5, 1.5, 2.5], np.float32)
    up = (np.array([1, 2, 3], np.uint8), dml.element_wise_quantize_linear, halves, np.float32(1), np.uint8(0))
    with pytest.raises(AssertionError, match=r"rounding half up.* no ties are known here; assert_rounding allows"):
        assert_near(*up)
    assert_rounding(*up)


def test_one_of_several_outputs_goes_by_either_name() -> None:
    x = np.array([1, 3, 2], np.float32)
    for name in ("output_index", "output_index_tensor"):
        assert_exact(np.array([1, 2], np.uint32), dml.top_k1, x, axis=0, k=2, axis_direction="DECREASING", output=name)


# --- what rounding explains ---

X = np.random.default_rng(7).standard_normal((6, 200), np.float32)
Y = np.random.default_rng(8).standard_normal((200, 5), np.float32)


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_sums_and_functions_in_float32_are_explained_by_rounding() -> None:
    product = X @ Y
    assert not dml.compare(dml.gemm, X, Y, actual=product).equal
    assert_rounding(product, dml.gemm, X, Y)
    assert_rounding(softmax(X), dml.activation_softmax, X)
    assert_rounding(dml.gemm(X, Y), dml.gemm, X, Y)
    halves = np.array([0.5, 1.5, -0.5], np.float32)  # which way a tie goes
    assert_rounding(np.array([1, 2, 0], np.uint8), dml.element_wise_quantize_linear, halves, np.float32(1), np.uint8(0))


def test_what_rounding_does_not_explain_fails_with_the_range() -> None:
    dropped = X[:, 1:] @ Y[1:]
    with pytest.raises(
        AssertionError, match=r"^30 of 30 differ .* of them lie beyond rounding, the farthest at \[\d, \d\]: .* to "
    ):
        assert_rounding(dropped, dml.gemm, X, Y)
    wrong = dml.gemm(X, Y)
    wrong[2, 3] = np.nan
    with pytest.raises(AssertionError, match=r"It lies beyond rounding, at \[2, 3\]: nan, and rounding gives "):
        assert_rounding(wrong, dml.gemm, X, Y)
    wrong[2, 3] = np.inf
    with pytest.raises(AssertionError, match=r"at \[2, 3\]: inf, "):
        assert_rounding(wrong, dml.gemm, X, Y)
    off = A.astype(np.int32) @ B + np.eye(4, 1, dtype=np.int32)
    with pytest.raises(
        AssertionError, match=r"1 of 4 differs by 1\. It lies beyond rounding, at \[0, 0\]: 2, and rounding gives 1$"
    ):
        assert_rounding(off, dml.matrix_multiply_integer, A, B)


def test_outputs_without_a_bound_are_refused_and_copies_have_none() -> None:
    x = np.arange(4, dtype=np.float64)
    with pytest.raises(ValueError, match=r"no bound is known for CAST \(FLOAT64\); assert_near takes steps"):
        assert_rounding(x.astype(np.float32) + 1, dml.cast, x, output_data_type="FLOAT32")
    with pytest.raises(
        AssertionError, match=r"4 of them lie beyond rounding, the farthest at \[\d\]: .*, and rounding gives \d\.0$"
    ):
        assert_rounding(x + 1, dml.slice1, x, (0,), (4,))


# --- the page ---


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def test_the_tests_on_the_page_pass_as_they_stand(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    (complete,) = (code for code in blocks("python") if "def test_" in code)
    (tmp_path / "test_onnxruntime.py").write_text(complete, encoding="utf-8")
    package = str(Path(dml.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_onnxruntime.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^12 passed", done.stdout, re.M), done.stdout


def test_the_other_code_on_the_page_prints_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n([^`]*?)^```\n\n```text\n(.*?)^```$", text, re.M | re.S)
    assert len(shown) == len(blocks("python")) - 1 >= 2
    names: dict[str, Any] = {}
    for code, output in shown:
        exec(code, names)
        assert capsys.readouterr().out == output


def test_every_deviation_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in dml.deviations.__all__ if f"`{name}`" not in text] == []
