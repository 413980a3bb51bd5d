"""The bits are the same for any number of threads, and for any number of products at the same time."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from anydml.devices.compiled import BoundOperator
from anydml.kernels.contract import tuning
from anydml.kernels.kernel import Machine
from every_kernel import SOAK, Kernel, Ran
from hard_cases import TYPE_COMBINATIONS
from matmul_cases import OUTPUT_LAYOUTS, PLACES, SCALES, ZERO_POINTS, Case, Recipe, make, random_recipe
from matmul_judge import bound, by_any_kernel, compiled, is_quantized, is_slow, judge_all
from tuned import tuned

pytestmark = pytest.mark.usefixtures("_any_size")

SHAPES = (  # m, k, n, batch: one shape is divided in each direction, and some have too little work for all threads
    *((200, 16, 20, ()), (9, 16, 700, ()), (130, 33, 170, ()), (3, 8, 5, (3, 3)), (20, 12, 40, (3, 2))),
    *((1, 4, 1, ()), (2, 5, 3, ()), (1, 300, 33, ()), (15, 7, 1, (2,)), (300, 5, 1, ()), (4, 1025, 65, ()), (57, 64, 97, ())),
)


@by_any_kernel
def test_any_number_of_threads_gives_the_same_bits(kernel: Kernel, machine: Machine, ran: Ran) -> None:

    def split() -> Iterator[Recipe]:
        for at, ((m, k, n, batch), kind, threads) in enumerate(product(SHAPES, ("ordinary", "odd", "mixed"), (1, 2, 3, 4))):
            yield Recipe(
                is_quantized(kernel),
                TYPE_COMBINATIONS[at % 8],
                *(m, k, n, batch),
                data="coarse" if at % 2 else "any",
                scales=kind,
                finer=frozenset((*SCALES, *ZERO_POINTS)) if at % 3 else frozenset(),
                per_batch=frozenset(SCALES) if at % 4 == 0 else frozenset(),
                layouts={"output_tensor": OUTPUT_LAYOUTS[at % 5], "b_tensor": ("packed", "one batch", "transposed")[at % 3]},
                owned=frozenset({"b_tensor"} if at % 5 == 1 else ()),
                place=PLACES[at % 3],
                threads=threads,
            )

    judge_all(kernel, machine, split(), ran, 90)


@by_any_kernel
def test_long_and_tall_products_are_cut_into_rounds(
    kernel: Kernel, machine: Machine, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products that take a tenth of a second, or have more rows than there is memory for records; the limits are made small."""
    tuned(monkeypatch, tuning, long=1 << 9, most_rows=16)

    def cut() -> Iterator[Recipe]:
        for at, ((m, k, n, batch), threads) in enumerate(product(SHAPES, (1, 3))):
            finer = frozenset((*SCALES, *ZERO_POINTS)) if at % 3 else frozenset()
            owned = frozenset({"b_tensor"} if at % 5 == 1 else ())
            types = TYPE_COMBINATIONS[at % 8]
            yield Recipe(is_quantized(kernel), types, m, k, n, batch, finer=finer, owned=owned, threads=threads)

    judge_all(kernel, machine, cut(), ran, 20)


@by_any_kernel
def test_products_are_computed_side_by_side(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """Different bound operators of different descs, from several Python threads, each with its own threads."""
    rng = random.Random(0)
    work: list[tuple[BoundOperator, Case]] = []
    while len(work) < (8 if is_slow(kernel) else 24 if SOAK > 1 else 12):
        recipe = random_recipe(rng, quantized=is_quantized(kernel), longest=33_026)
        size = 12 if is_slow(kernel) else 120
        case = make(replace(recipe, m=min(recipe.m, size), n=min(recipe.n, size), threads=1 + len(work) % 3))
        operator = compiled(kernel, machine, case)
        assert operator is not None or rng.random() < 0.5, "the kernel refuses what is drawn"
        if operator is not None:
            work.append((bound(operator, case), case))
    together = threading.Barrier(4)
    wrong: list[str] = []

    def thread(first: int) -> None:
        together.wait()
        for _ in range(5):
            for ready, case in work[first::4]:
                case.output.memory[...] = 0x5A
                ready.execute()
                if not np.array_equal(case.output.tensor, case.expected):
                    wrong.append(str(case))

    threads = [threading.Thread(target=thread, args=(at,)) for at in range(4)]
    for started in threads:
        started.start()
    for started in threads:
        started.join()
    assert wrong == []
    ran(5 * len(work), 40)


@by_any_kernel
def test_one_bound_operator_is_executed_by_one_thread_after_the_other(kernel: Kernel, machine: Machine, ran: Ran) -> None:
    """Each has its own scratch: a second thread waits until the first call is done."""
    sizes = (6, 40, 7) if is_slow(kernel) else (60, 40, 70)
    case = make(Recipe(is_quantized(kernel), TYPE_COMBINATIONS[3], *sizes, finer=frozenset(SCALES), scales="odd", threads=2))
    operator = compiled(kernel, machine, case)
    if operator is None:
        pytest.skip(f"{kernel.name} refuses a plain product")
    ready = bound(operator, case)

    def thread() -> None:
        for _ in range(5):
            ready.execute()

    for _ in range(10):
        case.output.memory[...] = 0x5A
        threads = [threading.Thread(target=thread) for _ in range(3)]
        for started in threads:
            started.start()
        for started in threads:
            started.join()
        np.testing.assert_array_equal(case.output.tensor, case.expected)
    ran(150, 150)
