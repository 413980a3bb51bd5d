"""The memory that matmul kernels read and write: any layout, next to unmapped pages, new data in each call, errors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import guard_pages
from anydml import DataError
from anydml.kernels.contract import tuning
from anydml.kernels.kernel import Machine
from every_kernel import Kernel, Ran
from hard_cases import TYPE_COMBINATIONS, scales_of
from matmul_cases import DATA, INPUT_LAYOUTS, OUTPUT_LAYOUTS, PLACES, SCALES, UNEVEN_LAYOUTS, ZERO_POINTS, Case, Recipe, make
from matmul_judge import (
    SOAKING,
    assert_exact,
    bound,
    by_any_kernel,
    by_quantized_kernel,
    compiled,
    is_quantized,
    is_slow,
    judge_all,
    memory_of,
)
from tuned import tuned

pytestmark = pytest.mark.usefixtures("_any_size")

PARAMETERS = frozenset((*SCALES, *ZERO_POINTS))


# --- layouts ---


@by_any_kernel
def test_every_layout_of_a_with_every_layout_of_b(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    def layouts() -> Iterator[Recipe]:
        for at, (a, b, place) in enumerate(product(INPUT_LAYOUTS, INPUT_LAYOUTS, PLACES)):
            yield Recipe(
                is_quantized(kernel),
                TYPE_COMBINATIONS[at % 8],
                *(1 + at % 17, 1 + at % 23, 1 + at * 3 % 70),
                batch=((), (3,), (2, 3))[at // 3 % 3],
                data=DATA[at % 2],
                finer=PARAMETERS if at % 2 else frozenset(),
                per_batch=PARAMETERS if at % 3 == 0 else frozenset(),
                layouts={"a_tensor": a, "b_tensor": b, "output_tensor": OUTPUT_LAYOUTS[at % 5]},
                owned=frozenset(("a_tensor", "b_tensor")[at % 2 : at % 3]),
                place=place,
                threads=1 + at % 3,
            )

    judge_all(kernel, machine, layouts(), ran, 90)


@by_any_kernel
def test_every_layout_of_scales_and_zero_points(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """Zeros and NaN are between the elements: if one were read as a scale, it would be refused, or change an output."""

    def layouts() -> Iterator[Recipe]:
        names = SCALES + ZERO_POINTS if is_quantized(kernel) else ZERO_POINTS[:2]
        for at, (name, layout, place, batch) in enumerate(product(names, INPUT_LAYOUTS, PLACES, ((), (2,), (2, 2)))):
            yield Recipe(
                is_quantized(kernel),
                TYPE_COMBINATIONS[at % 8],
                *(15, 9, 34) if at % 2 else (3, 5, 40),
                batch=batch,
                finer=PARAMETERS,
                per_batch=PARAMETERS if at % 2 else frozenset(),
                layouts=dict.fromkeys(names, layout) if at % 7 == 0 else {name: layout},
                owned=frozenset({name} if at % 3 == 0 else ()),
                place=place,
            )

    judge_all(kernel, machine, layouts(), ran, 90)


@by_any_kernel
def test_batches_that_are_repeated(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """With zero strides in batch dimensions, as of broadcast tensors: of A, of B, of scales, or of all."""

    def batches() -> Iterator[Recipe]:
        repeated = ("a_tensor", "b_tensor", *SCALES, *ZERO_POINTS)
        for at, (which, batch) in enumerate(product(range(64), ((2, 3), (4,), (1, 3), (3, 1)))):
            chosen = {x for bit, x in enumerate(repeated[:6]) if which >> bit & 1}
            chosen |= set(ZERO_POINTS) if at % 3 == 0 else set()
            yield Recipe(
                is_quantized(kernel),
                TYPE_COMBINATIONS[at % 8],
                *(1 + at % 15, 4 + at % 9, 1 + at % 37),
                batch=batch,
                scales=("ordinary", "mixed", "odd")[at % 3],
                finer=frozenset(repeated[2 + at % 3 :: 2]),
                per_batch=PARAMETERS,
                layouts={**dict.fromkeys(chosen, "one batch"), "output_tensor": OUTPUT_LAYOUTS[at % 5]},
                owned=frozenset(("b_tensor", "b_scale_tensor") if at % 4 == 0 else ()),
                threads=1 + at % 4,
            )

    judge_all(kernel, machine, batches(), ran, 90)


@by_any_kernel
def test_batches_that_do_not_follow_one_another_evenly(
    kernel: Kernel, machine: Machine, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All layouts of two batch dimensions, different for every tensor; in one round, and in many."""

    def uneven() -> Iterator[Recipe]:
        names = ("a_tensor", "b_tensor", *SCALES, *ZERO_POINTS)
        leads = ((2, 3), (3, 2), (3, 4), (4, 3), (7, 5), (1, 5), (5, 1), (2, 2))
        for at, ((a, b, y), batch) in enumerate(product(product(UNEVEN_LAYOUTS, UNEVEN_LAYOUTS, UNEVEN_LAYOUTS[1:]), leads)):
            yield Recipe(
                is_quantized(kernel),
                TYPE_COMBINATIONS[at % 8],
                *(1 + at % 7, 1 + at % 11, 1 + at * 5 % 71),
                batch=batch,
                finer=PARAMETERS if at % 2 else frozenset(),
                per_batch=PARAMETERS if at % 5 else frozenset(),
                layouts={**{x: UNEVEN_LAYOUTS[at * i % 4] for i, x in enumerate(names)}, "a_tensor": a, "b_tensor": b,
                         "output_tensor": y},
                owned=frozenset(("b_tensor", "a_scale_tensor") if at % 3 == 0 else ()),
                threads=1 + at % 4,
            )  # fmt: skip

    judge_all(kernel, machine, uneven(), ran, 90)
    if kernel.name.endswith(":compiled"):
        tuned(monkeypatch, tuning, long=1 << 11)
        judge_all(kernel, machine, uneven(), ran, 90)


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@by_any_kernel
def test_nothing_beside_a_buffer_is_read_or_written(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """An unmapped page directly before and after every buffer, with every remainder of a tile and of a group of K."""

    def sizes() -> Iterator[Recipe]:
        widths = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 96, 97)
        for at, (m, n, place) in enumerate(product((1, 2, 5, 13, 14, 15, 28, 29), widths, PLACES[:2])):
            for k in (1 + at % 9, (15, 16, 17, 31, 32, 33, 63, 64, 65)[at % 9]):
                layouts = ("packed", "packed", "padded", "transposed", "stepped")
                yield Recipe(
                    is_quantized(kernel),
                    TYPE_COMBINATIONS[at % 8],
                    *(m, k, n),
                    finer=PARAMETERS if at % 3 else frozenset(),
                    layouts={
                        "a_tensor": layouts[at % 5],
                        "b_tensor": layouts[at // 2 % 5],
                        "output_tensor": layouts[at // 3 % 5],
                    },
                    owned=frozenset({"b_tensor"} if at % 4 == 0 else ()),
                    place=place,
                    threads=1 + at % 2,
                )

    judge_all(kernel, machine, sizes(), ran, 90)


# --- initialize, bind, execute ---


@by_any_kernel
def test_what_is_owned_gives_the_same_bits_as_what_is_bound(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """`initialize` copies an owned input; the caller's array is overwritten before the operator is executed."""

    def owned() -> Iterator[Recipe]:
        names = ("a_tensor", "b_tensor", *SCALES, *ZERO_POINTS)
        for at in range(0, 256, 3):
            yield Recipe(
                is_quantized(kernel),
                TYPE_COMBINATIONS[at % 8],
                *(16, 33, 65),
                batch=(2,) if at % 2 else (),
                scales=("ordinary", "mixed")[at // 2 % 2],
                finer=PARAMETERS if at % 4 == 0 else frozenset(),
                layouts={name: "one batch" for name in names[:2] if at % 5 == 0},
                owned=frozenset(name for bit, name in enumerate(names) if at >> bit & 1),
                place=PLACES[at % 3],
            )

    judge_all(kernel, machine, owned(), ran, 90)


def again(case: Case, other: Case) -> None:
    """Write another case's numbers into the arrays, and overwrite the output."""
    for name, placed in case.inputs.items():
        if name not in case.recipe.owned:
            placed.tensor[...] = other.inputs[name].tensor
    case.output.memory[...] = 0xA5


@by_any_kernel
def test_inputs_are_read_anew_at_each_execute(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    executed = 0
    for at, (kind, batch) in enumerate(product(("ordinary", "powers", "odd", "mixed", "subnormal"), ((), (2,), (2, 2)))):
        recipe = Recipe(
            is_quantized(kernel),
            TYPE_COMBINATIONS[at % 8],
            *(17, 21, 35),
            batch=batch,
            scales=kind,
            finer=PARAMETERS if at % 2 else frozenset(),
            layouts={"a_tensor": "padded", "output_tensor": "padded"},
            threads=1 + at % 2,
        )
        case = make(recipe)
        operator = compiled(kernel, machine, case)
        if operator is None:
            continue
        ready = bound(operator, case)
        # other numbers and kinds of scales, for which choices made for the first ones may be wrong
        for other in (recipe, *(replace(recipe, scales=x, seed=at + 1) for x in ("wide", "ordinary", "odd", "powers")), recipe):
            wanted = make(other)
            again(case, wanted)
            ready.execute()
            assert_exact(replace(case, expected=wanted.expected), memory_of(case))
            executed += 1
    ran(executed, 60)


# --- data errors ---

UNUSABLE = (0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF)


def spoilt(rng: random.Random, scale: NDArray[Any], bits: int) -> tuple[tuple[int, ...], NDArray[Any]]:
    """Write an invalid number into one scale; return the element's index and its old value.

    For a repeated element, the first index is named.
    """
    chosen = tuple(rng.randrange(n) for n in scale.shape)
    index = tuple(0 if stride == 0 else i for i, stride in zip(chosen, scale.strides, strict=True))
    before = scale[index].copy()
    scale.view(np.uint32)[index] = bits
    return index, before


@by_quantized_kernel
def test_an_unusable_scale_is_told_before_anything_is_written(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    rng = random.Random(0)
    cases = 0
    layouts = ("packed", "padded", "stepped", "permuted", "one batch", "one row")
    every = 1 if SOAKING else 13 if is_slow(kernel) else 7  # which has no common divisor with the numbers of combinations
    for at, (name, bits, layout) in list(enumerate(product(SCALES, UNUSABLE, layouts)))[::every]:
        owned = at % 4 == 1
        case = make(
            Recipe(
                True,
                TYPE_COMBINATIONS[at % 8],
                *((31, 8, 70), (1, 3, 1), (200, 4, 40))[at % 3],
                batch=((), (2,), (2, 2))[at % 5 % 3],
                scales=("ordinary", "powers", "mixed")[at // 2 % 3],
                finer=PARAMETERS if at % 5 else frozenset(),
                per_batch=PARAMETERS if at % 2 else frozenset(),
                layouts={name: layout},
                owned=frozenset({name, "b_tensor"} if owned else ()),
                place=PLACES[at % 3],
                threads=1 + at % 3,
                seed=at,
            )
        )
        operator = compiled(kernel, machine, case)
        if operator is None:
            continue
        scale = case.inputs[name].tensor
        # an owned scale is checked by initialize, another one at each execute
        keep = {x: case.inputs[x].tensor for x in case.recipe.owned}
        ready = None if owned else bound(operator, case)
        refuses = partial(operator.initialize, **keep) if ready is None else ready.execute
        index, before = spoilt(rng, scale, bits)
        with pytest.raises(DataError) as caught:
            refuses()
        assert (caught.value.tensor, caught.value.index) == (name, index)
        seen, value = np.float32(caught.value.value), scales_of(bits, (1,))[0]
        assert (np.isnan(seen) and np.isnan(value)) or seen == value
        assert (case.output.memory == 0xA5).all(), f"written before the error: {case}"
        # with a valid number, the call succeeds
        scale[index] = before
        (ready or bound(operator, case)).execute()
        assert_exact(case, {})
        cases += 1
    ran(cases, 120 // every)
