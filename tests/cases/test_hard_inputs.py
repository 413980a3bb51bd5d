"""Hard inputs: how near to a tie exact results are, by the oracle's fractions; kinds of elements; every operator's cases."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import anydml as dml
from anydml import FeatureLevel, operators
from anydml.cases.drawn import cases
from anydml.cases.elements import KINDS
from anydml.testing import assert_rounding, hard_inputs
from every_kernel import SOAK, Ran

Array = npt.NDArray[Any]
A, B = np.zeros((8, 40), np.float32), np.zeros((40, 9), np.float32)


def distance(x: Fraction, bits: int = 24) -> Fraction:
    """The distance of a number from the nearest tie of floats of so many bits, in their steps."""
    e = math.floor(math.log2(abs(x))) - bits + 1
    return abs(x / Fraction(2) ** e - math.floor(x / Fraction(2) ** e) - Fraction(1, 2))


def products(a: Array, b: Array) -> list[Fraction]:
    one, other = ([[Fraction(float(x)) for x in row] for row in m] for m in (a, b.T))
    return [sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0)) for row in one for column in other]


@pytest.mark.parametrize("seed", range(1 if SOAK == 1 else 8))
def test_products_lie_next_to_ties(seed: int) -> None:
    made = hard_inputs(dml.gemm, seed, A, B)
    assert {name: (x.dtype, x.shape) for name, x in made.items()} == {"a": (A.dtype, A.shape), "b": (B.dtype, B.shape)}
    near = [x for x in products(made["a"], made["b"]) if x and distance(x) < Fraction(1, 10**5)]
    assert len(near) >= 4
    again = hard_inputs(dml.gemm, seed, a=A, b=B)
    assert all(np.array_equal(again[name], x) for name, x in made.items())
    of_desc = hard_inputs(
        dml.Gemm(
            a_tensor=dml.TensorDesc("FLOAT32", A.shape),
            b_tensor=dml.TensorDesc("FLOAT32", B.shape),
            output_tensor=dml.TensorDesc("FLOAT32", (8, 9)),
        ),
        seed,
    )
    assert [*of_desc] == ["a_tensor", "b_tensor"]
    assert sum(distance(x) < Fraction(1, 10**5) for x in products(*of_desc.values()) if x) >= 4


def test_a_product_in_float32_rounds_some_of_them_the_other_way() -> None:
    """Ordinary data do not show that a sum is rounded twice; these do."""
    a, b = np.zeros((16, 2), np.float32), np.zeros((2, 16), np.float32)
    made = hard_inputs(dml.gemm, 3, a, b)
    twice = (made["a"].astype(np.float64) @ made["b"].astype(np.float64)).astype(np.float32)
    exact = dml.gemm(made["a"], made["b"])
    single = made["a"] @ made["b"]
    assert not np.array_equal(single, exact)
    np.testing.assert_allclose(twice, exact, rtol=1e-6)


def test_quantised_products_have_ties() -> None:
    made = hard_inputs(
        dml.quantized_linear_matrix_multiply, 1, np.zeros((8, 20), np.uint8), 1.0, None, np.zeros((20, 9), np.int8), 1.0, None,
        np.ones((8, 1), np.float32), None,
    )  # fmt: skip
    sums = made["a"].astype(np.int64) @ made["b"].astype(np.int64)
    near = 0
    for (m, _), q in np.ndenumerate(sums):
        x = Fraction(int(q)) / Fraction(float(made["output_scale"][m, 0]))
        near += abs(x - math.floor(x) - Fraction(1, 2)) < Fraction(1, 10**4)
    assert near >= 4
    exact = dml.quantized_linear_matrix_multiply(
        made["a"], 1.0, None, made["b"], 1.0, None, made["output_scale"], None, output_data_type="INT8"
    )
    assert len(np.unique(exact)) > 8  # not all are saturated


def test_quotients_lie_at_ties() -> None:
    scale = np.array(0.1, np.float32)
    made = hard_inputs(dml.element_wise_quantize_linear, 1, np.zeros((4, 5), np.float32), scale, np.uint8(3))
    quotients = [Fraction(float(np.float32(x) / made["scale"])) for x in made["input"].ravel()]
    assert sum(abs(x - math.floor(x) - Fraction(1, 2)) < Fraction(1, 10**4) for x in quotients) >= 10


def test_the_other_kinds() -> None:
    special = hard_inputs(dml.element_wise_add, 1, np.zeros(300, np.float32), np.zeros(300, np.float32), kind="special")["a"]
    assert np.isnan(special).any()
    assert np.isinf(special).any()
    assert (np.signbit(special) & (special == 0)).any()
    wide = hard_inputs(dml.element_wise_add, 1, np.zeros(300, np.float16), np.zeros(300, np.float16), kind="range")["a"]
    assert np.isfinite(wide).all()
    assert (np.abs(wide[wide != 0]) < np.finfo(np.float16).tiny).any()
    assert (np.abs(wide) > 1e4).any()
    for seed in range(4):
        made = hard_inputs(dml.gemm, seed, A, B, kind="cancel")
        sums = np.abs(made["a"].astype(np.float64) @ made["b"].astype(np.float64))
        magnitudes = np.abs(made["a"]).astype(np.float64) @ np.abs(made["b"])
        assert (sums / magnitudes).max() < 1e-4
    ints = hard_inputs(dml.element_wise_add, 1, np.zeros(300, np.int16), np.zeros(300, np.int16), kind="special")["a"]
    assert {-32768, 32767} <= {*ints.tolist()}
    given = np.array([[2, 0]], np.uint32)
    assert np.array_equal(hard_inputs(dml.gather, 1, np.zeros((3, 4), np.float32), given, axis=0)["indices"], given)
    with pytest.raises(ValueError, match="kind is 'hard', and may be 'ties', 'cancel', 'range', 'special'"):
        hard_inputs(dml.gemm, 1, A, B, kind="hard")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match="takes the arguments of a call"):
        hard_inputs(dml.gemm, 1, [[1.0]], [[2.0]])


def test_every_operator_has_cases_that_run(ran: Ran) -> None:
    """All descs are valid, of every data type that the first input takes; some of them are computed with their inputs."""
    names = [o.spec.name for o in operators.every()][:: 1 if SOAK > 1 else 13]
    computed = 0
    for name in names:
        found = cases(name, 24)
        spec = operators.find(name).spec  # type: ignore[union-attr]  # every name is found
        assert len({repr(case.desc) for case in found}) == len(found) >= 12, name
        if spec.inputs:
            first = spec.inputs[0]
            values = [getattr(case.desc, first.name) for case in found]
            types = {t.data_type for v in values if v is not None for t in (v if isinstance(v, tuple) else (v,))}
            takes = spec.table[FeatureLevel.FL_6_4][first.wire].data_types
            assert len(types) >= min(len(takes), 7) or name == "QUANTIZE", (name, types)
        for case in found[:: 1 if SOAK > 1 else 24]:
            made = case.inputs
            assert set(made) == {t.name for t in case.desc.tensors() if t.field.role == "input"}
            outputs = {t.name: _bindable(t.desc) for t in case.desc.tensors() if t.field.role == "output"}
            dml.Device("cpu").compile(case.desc).bind(**_grouped({**made, **outputs})).execute()
            computed += 1
    ran(computed, len(names))


def _bindable(t: dml.TensorDesc) -> Array:
    return np.zeros(t.total, np.uint8) if t.data_type.element_bits == 4 else np.zeros(t.sizes, t.data_type.dtype)


def _grouped(arrays: dict[str, Array]) -> dict[str, Any]:
    """The arrays as `bind` takes them: those of an array of tensors as a list."""
    found: dict[str, Any] = {}
    for name, x in arrays.items():
        field, _, place = name.partition("[")
        if place:
            found.setdefault(field, []).append(x)
        else:
            found[name] = x
    return found


def test_what_is_no_operator_is_said() -> None:
    with pytest.raises(ValueError, match="CONVOLUTON"):
        cases("CONVOLUTON", 3)
    with pytest.raises(ValueError, match=r"MULTIHEAD_ATTENTION is of feature level 6_1 and later"):
        cases("MULTIHEAD_ATTENTION", 3, level="5_0")


def test_a_kernel_that_rounds_passes_its_cases() -> None:
    for case in cases("ELEMENT_WISE_ADD", 20):
        made = case.inputs
        with np.errstate(all="ignore"):
            actual = made["a_tensor"] + made["b_tensor"]
        assert_rounding(actual, case.desc, made)
    assert {case.kind for case in cases("GEMM", 8)} == {*KINDS}


PLUGIN = """
import numpy as np
from anydml.testing import anydml_cases, assert_rounding

@anydml_cases("ELEMENT_WISE_SUBTRACT", n=5)
def test_subtraction(case):
    with np.errstate(all="ignore"):
        assert_rounding(case.inputs["a_tensor"] - case.inputs["b_tensor"], case.desc, case.inputs)

@anydml_cases("ELEMENT_WISE_NEGATE", n=2, seed=2)
def test_wrong(case):
    assert_rounding(case.inputs["input_tensor"], case.desc, case.inputs)
"""


def test_pytest_runs_the_cases_and_starts_without_anydml(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PLUGIN)
    (tmp_path / "test_plain.py").write_text("import sys\ndef test_plain():\n    assert 'anydml' not in sys.modules\n")
    without = [word for name in ("cacheprovider", "hypothesispytest", "xdist") for word in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-q", *without, "--strict-markers"]
    done = subprocess.run([*command, "test_plain.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    done = subprocess.run([*command, "test_it.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 failed, 5 passed" in done.stdout, done.stdout + done.stderr
    assert "test_wrong[0-FLOAT32-" in done.stdout
