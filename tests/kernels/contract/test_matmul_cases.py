"""The generated products are hard: formulas that are not exact get some of them wrong."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import matmul_scales
import oracle
from every_kernel import SOAK
from hard_cases import TYPE_COMBINATIONS, limits
from matmul_cases import INPUT_LAYOUTS, PLACES, SCALES, Case, make, random_recipe

Array = NDArray[Any]
NormalForm = Callable[[Array, Array, Array, Array], Array]


def single(q: Array, a: Array, b: Array, y: Array) -> Array:
    """The formula of onnxruntime and others."""
    q, a, b, y = (x.astype(np.float32) for x in (q, a, b, y))
    return (q * (a * b / y)).astype(np.float64)


FORMULAS: dict[str, NormalForm] = {
    "float32": single,
    "float64": lambda q, a, b, y: q * (a * b / y),
    "float64, another order": lambda q, a, b, y: q * (a / y) * b,
    "half up": lambda q, a, b, y: np.floor(q * (a * b / y) + 0.5),
    "half down": lambda q, a, b, y: np.ceil(q * (a * b / y) - 0.5),
}


CASES = 100 * SOAK


def wrong(case: Case) -> dict[str, int]:
    """The number of outputs that each formula gets wrong."""
    operands = {name: x.tensor for name, x in case.inputs.items()}
    rank = case.expected.ndim
    wide = {n: x.astype(np.float64).reshape((1,) * (rank - x.ndim) + x.shape) for n, x in operands.items()}
    zero_points = operands.get("a_zero_point_tensor"), operands.get("b_zero_point_tensor")
    sums = oracle.accumulate_bulk(operands["a_tensor"], zero_points[0], operands["b_tensor"], zero_points[1])
    q, (a, b, y) = sums.astype(np.float64), (wide[name] for name in SCALES)
    counts = {}
    for name, formula in FORMULAS.items():
        with np.errstate(all="ignore"):
            rounded = np.nan_to_num(np.rint(formula(q, a, b, y))) + wide.get("output_zero_point_tensor", 0)
        counts[name] = int((np.clip(rounded, *limits(case.expected.dtype)) != case.expected).sum())
    return counts


def test_nearly_exact_is_not_good_enough() -> None:
    rng = random.Random(0)
    cases, outputs = Counter[str](), Counter[str]()
    inside = total = 0
    for _ in range(CASES):
        recipe = random_recipe(rng, quantized=True, longest=5_000)
        case = make(replace(recipe, m=min(recipe.m, 40), n=min(recipe.n, 100)))
        for name, count in wrong(case).items():
            outputs[name] += count
            cases[name] += count > 0
        lo, hi = limits(case.expected.dtype)
        inside += int(((lo < case.expected) & (case.expected < hi)).sum())
        total += case.expected.size
    print(cases, outputs)
    assert inside > total // 3, "most outputs saturate, and would hide a mistake"
    assert cases["float32"] > CASES // 6
    assert cases["float64"] > CASES // 50
    assert cases["float64, another order"] > CASES // 40
    assert min(cases["half up"], cases["half down"]) > CASES // 18


def test_recipes_are_of_every_kind() -> None:
    rng = random.Random(1)
    drawn = [random_recipe(rng, quantized=True) for _ in range(1500)]
    assert {r.types for r in drawn} == set(TYPE_COMBINATIONS)
    assert {r.scales for r in drawn} == set(matmul_scales.KINDS)
    assert {r.place for r in drawn} == set(PLACES)
    assert {len(r.batch) for r in drawn} == {0, 1, 2}
    assert {layout for r in drawn for layout in r.layouts.values()} == set(INPUT_LAYOUTS)
    assert {r.m for r in drawn} > set(range(1, 41))
    assert {r.n for r in drawn} > set(range(1, 101))
    assert {"near tie", "corners", "any", "coarse", "sparse"} < {r.data for r in drawn}


def test_a_recipe_makes_the_same_case_again() -> None:
    rng = random.Random(2)
    for at in range(40):
        recipe = replace(random_recipe(rng, quantized=at % 2 == 0), m=3, n=7)
        first, second = make(recipe), make(recipe)
        np.testing.assert_array_equal(first.expected, second.expected)
        assert first.inputs.keys() == second.inputs.keys() == set(recipe.tensors)
        for name, placed in first.inputs.items():
            assert placed.tensor.tobytes() == second.inputs[name].tensor.tobytes()


def test_the_oracles_agree_on_generated_cases() -> None:
    """In cases that the literal oracle can compute in a short time."""
    rng = random.Random(3)
    for _ in range(60):
        recipe = random_recipe(rng, quantized=True)
        case = make(replace(recipe, m=min(recipe.m, 4), k=min(recipe.k, 20), n=min(recipe.n, 6)))
        operands: list[Any] = [
            case.inputs[name].tensor if name in case.inputs else None
            for x in ("a", "b", "output")
            for name in (f"{x}_tensor", f"{x}_scale_tensor", f"{x}_zero_point_tensor")
            if name != "output_tensor"
        ]
        lo, hi = limits(case.expected.dtype)
        literal = oracle.quantized_linear_matrix_multiply(*operands, lo=lo, hi=hi)  # type: ignore[misc]  # eight of them
        np.testing.assert_array_equal(literal.reshape(case.expected.shape), case.expected, err_msg=str(case))
