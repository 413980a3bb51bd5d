"""Every matmul kernel has the oracle's bits, for millions of outputs with hostile sizes, types, scales and layouts.

ANYDML_MATMUL_OUTPUTS is the number of outputs of each kernel that are compared in generated products, 60,000 by default; `make
soak` sets a higher one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

import hard_cases
from anydml import DataType, QuantizedLinearMatrixMultiply, TensorDesc, check
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.tile import panel_columns
from anydml.kernels.kernel import Machine
from every_kernel import SOAK, Kernel, Ran, compiled_by, kernels_of, machines_for, run, some, without_dot_products
from hard_cases import TYPE_COMBINATIONS, QuantizedCase
from matmul_cases import DATA, LONG, PLACES, SCALES, ZERO_POINTS, Recipe, make, random_recipe, recipes
from matmul_judge import (
    OUTPUTS,
    SOAKING,
    by_any_kernel,
    by_quantized_kernel,
    is_quantized,
    is_shared,
    is_slow,
    judge,
    judge_all,
)
from matmul_scales import KINDS
from tensors import SETTINGS

SLOWER = 80  # other kernels have this many times as many outputs as the reference

# Hypothesis shows a failing case together with its operator's whole specification, and then warns that this is long.
pytestmark = [
    pytest.mark.usefixtures("_any_size"),
    pytest.mark.filterwarnings("ignore:Generating overly large repr"),
]


@by_any_kernel
def test_generated_products(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    rng = random.Random(f"{kernel.name} {machine.isa}")
    outputs = cases = taken = 0
    # the widest instruction set computes the required number, the others together more
    further = machine != machines_for(kernel)[-1] and not SOAKING
    wanted, least = (OUTPUTS // SLOWER, 10) if is_slow(kernel) else (OUTPUTS // 4, 6) if further else (OUTPUTS, 16)
    large_share = 0 if is_slow(kernel) else min(0.5, 0.1 + OUTPUTS / 2e8)
    while outputs < wanted or cases < least:
        recipe = random_recipe(rng, quantized=is_quantized(kernel), large_share=large_share)
        if is_slow(kernel):
            recipe = replace(recipe, m=min(recipe.m, 60), n=min(recipe.n, 60))
        compared = judge(kernel, machine, make(recipe))
        outputs, cases, taken = outputs + compared, cases + 1, taken + (compared > 0)
        assert taken * 2 >= cases - 20, "most of what is drawn is refused"
    print(f"{cases} products")
    ran(outputs, wanted)


@by_any_kernel
def test_products_of_any_kind(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """Like the generated products, but smaller, and examples shrink."""
    outputs = 0

    @settings(SETTINGS, max_examples=some(36, kernel))
    @given(recipes(quantized=is_quantized(kernel)))
    def exact(recipe: Recipe) -> None:
        nonlocal outputs
        outputs += judge(kernel, machine, make(recipe))

    exact()
    ran(outputs, 500)


@by_any_kernel
def test_every_height_and_width(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """Every remainder of a tile in either direction, with full tiles, remainders and single rows or columns in the other."""

    def sizes() -> Iterator[Recipe]:
        heights = [(m, n) for m in range(1, 43) for n in (1, 15, 31, 32, 33, 65)]
        widths = [(m, n) for n in range(1, 101) for m in (1, 2, 13, 14, 15, 29)]
        for at, (m, n) in enumerate(heights + widths):
            yield Recipe(
                is_quantized(kernel),
                TYPE_COMBINATIONS[at % 8],
                *(m, 1 + at * 7 % 40, n),
                data=DATA[at % 6],
                scales=KINDS[at % 9],
                finer=frozenset((*SCALES, *ZERO_POINTS) if at % 4 == 0 else (SCALES[at % 3], ZERO_POINTS[at // 3 % 3])),
                layouts={"output_tensor": "padded" if at % 5 == 0 else "packed"},
                place=PLACES[at % 3],
                threads=1 + at % 3,
            )

    judge_all(kernel, machine, sizes(), ran, 90)


@by_any_kernel
def test_every_length(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """Every remainder of K, and K around the ends of blocks, with data at the ends of their types, whose sums are the
    largest."""

    def lengths() -> Iterator[Recipe]:
        ks = [*range(1, 301), *range(509, 516), *range(1020, 1030), 2047, 2048, 2049, 4095, 4096, 4097, 8191, 16_385]
        every = enumerate(product(ks, ("ends", "corners", "any")))
        # one kind of data for each K; in a longer run, all kinds
        for at, (k, data) in every if SOAK > 1 else (x for x in every if x[0] % 3 == (x[0] // 3 + x[0] // 24) % 3):
            yield Recipe(
                is_quantized(kernel),
                TYPE_COMBINATIONS[at % 8],
                *(1 + at % 16, k, 1 + at * 5 % 35),
                data=data,
                scales=("ordinary", "close", "odd", "mixed")[at // 3 % 4],
                finer=frozenset(ZERO_POINTS[: at % 4]),
                absent=frozenset(ZERO_POINTS if at % 6 == 0 else ()),
                ends=at % 2 == 0,
                layouts={"a_tensor": ("packed", "padded", "transposed", "stepped")[at % 4]},
                place=PLACES[at % 3],
                threads=1 + at % 2,
            )

    judge_all(kernel, machine, lengths(), ran, 90)


@by_any_kernel
def test_sums_beyond_32_bits(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """K around the values at which int32 and uint32 wrap, for each pair of types, with sums from the largest to those that
    cancel."""

    def long() -> Iterator[Recipe]:
        for at, (k, types, ends) in enumerate(product(LONG, TYPE_COMBINATIONS, (False, True))):
            yield Recipe(
                is_quantized(kernel),
                types,
                *(1 + at % 2 * 14, k, 3 + at % 3 * 15) if k < 34_000 else (1 + at % 3, k, 1 + at % 5),
                data="ends" if at % 3 == 0 else "corners",
                scales=("ordinary", "close", "mixed")[at // 5 % 3],
                finer=frozenset(ZERO_POINTS if at % 5 == 0 else ()),
                absent=frozenset(() if ends else ZERO_POINTS[:2]),
                ends=ends,
                layouts={"b_tensor": "transposed"} if at % 4 == 0 else {},
                threads=1 + at % 2,
            )

    judge_all(kernel, machine, long(), ran, 1)


@pytest.mark.parametrize("target", without_dot_products(), ids=lambda t: t.name)
def test_the_last_of_several_panels_of_long_sums(target: Target, ran: Ran) -> None:
    """It begins where its columns end with the output's, and so overlaps the one before it."""
    (kernel,) = (k for k in kernels_of(QuantizedLinearMatrixMultiply) if k.name.endswith(":compiled"))
    recipe = Recipe(True, TYPE_COMBINATIONS[0], 2, 34_000, panel_columns(target) + 3)
    ran(judge(kernel, Machine(target.name, 1), make(recipe)), recipe.n)


@by_quantized_kernel
def test_every_kind_of_scales_with_every_granularity(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    def kinds() -> Iterator[Recipe]:
        for at, (kind, fine) in enumerate(product(KINDS, range(64))):
            yield Recipe(
                True,
                TYPE_COMBINATIONS[at * 3 % 8],
                *((14, 8 + at % 11, 37), (1, 9, 200), (31, 8, 32))[at % 3],
                batch=((), (2,), (2, 2))[at % 7 % 3],
                data=DATA[at % 6],
                scales=kind,
                finer=frozenset(x for bit, x in enumerate((*SCALES, *ZERO_POINTS)) if fine >> bit & 1),
                per_batch=frozenset(x for bit, x in enumerate((*SCALES, *ZERO_POINTS)) if at >> bit & 3 == 3),
                owned=frozenset(("b_tensor", *SCALES[: at % 4]) if at % 2 else ()),
            )

    judge_all(kernel, machine, kinds(), ran, 90)


@by_quantized_kernel
def test_a_sum_beside_a_tie_that_float32_does_not_hold(kernel: Kernel, machine: Machine) -> None:
    """With a scale of 2^-18, float32 has no room for the last bit of a sum, and would round it to the tie."""
    a, b = np.full((1, 1, 1, 300), 255, np.uint8), np.zeros((1, 1, 300, 64), np.uint8)
    b[..., :260, :], b[..., 260, :], a[..., 261], b[..., 261, :] = 255, 7, 1, 4
    assert {int(n) for n in (a.astype(np.int64) @ b.astype(np.int64)).ravel()} == {64 * 2**18 + 2**17 + 1}
    one = np.ones((1, 1, 1, 1), np.float32)
    inputs = {"a_tensor": a, "a_scale_tensor": one * 2.0**-18, "b_tensor": b, "b_scale_tensor": one}
    inputs["output_scale_tensor"] = one
    described = {name: TensorDesc.of(x) for name, x in inputs.items()}
    output = np.zeros((1, 1, 1, 64), np.uint8)
    desc = QuantizedLinearMatrixMultiply(**described, output_tensor=TensorDesc.of(output))
    operator = compiled_by(kernel, machine, check(desc))
    assert operator is not None
    operator.bind(**inputs, output_tensor=output).execute()
    assert {*output.ravel().tolist()} == {65}


@by_quantized_kernel
def test_rows_of_ties(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """Long rows in which every output must be decided exactly, alternating with rows in which none must."""

    def rows() -> Iterator[Recipe]:
        for at, kind in enumerate(("odd", "near tie", "powers", "mixed", "close") * 4):
            sizes = ((1, 12, 5000), (2, 8, 4099), (40, 16, 515), (600, 9, 33))[at // 5]
            finer = frozenset(("a_scale_tensor", "output_scale_tensor") if at % 2 else ())
            yield Recipe(True, TYPE_COMBINATIONS[at % 8], *sizes, data="coarse", scales=kind, finer=finer, threads=1 + at % 3)

    judge_all(kernel, machine, rows(), ran, 90)


@by_quantized_kernel
def test_sums_one_apart_around_ties(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """Each row has a tie and sums of up to 28 bits that differ by one. An estimate with a bound that is slightly too small
    rounds some of them to the wrong side."""

    def sweeps() -> Iterator[Recipe]:
        for at, (k, types, fine) in enumerate(product((9, 257, 1025, 4096), TYPE_COMBINATIONS, range(3))):
            finer = frozenset((("output_scale_tensor",), ("a_scale_tensor", "output_scale_tensor"), ())[fine])
            yield Recipe(True, types, 60 if fine < 2 else 7, k, 200, scales="sweep", finer=finer, threads=1 + at % 2)

    judge_all(kernel, machine, sweeps(), ran, 90)


@by_quantized_kernel
@pytest.mark.parametrize("generate", hard_cases.GENERATORS, ids=lambda generate: generate.__name__)
def test_hard_cases(generate: Callable[[], Iterator[QuantizedCase]], kernel: Kernel, machine: Machine, ran: Ran) -> None:
    outputs = 0
    step = 13 if is_slow(kernel) or is_shared(kernel) else 3 if generate is hard_cases.long_sums else 1
    for case, wanted in hard_cases.with_expected(generate)[::step]:
        named = zip(QuantizedLinearMatrixMultiply.spec.inputs, case.operands, strict=True)
        inputs = {field.name: x for field, x in named if x is not None}
        desc = QuantizedLinearMatrixMultiply(
            **{name: TensorDesc.of(x) for name, x in inputs.items()},
            output_tensor=TensorDesc(DataType.of(case.output_type), wanted.shape),
        )
        operator = compiled_by(kernel, machine, check(desc))
        assert operator is None or operator.kernel_name == kernel.name
        if operator is not None:
            output = np.zeros(wanted.shape, wanted.dtype)
            run(operator, inputs, output)
            np.testing.assert_array_equal(output, wanted, err_msg=case.name)
            outputs += output.size
    ran(outputs, 25)
