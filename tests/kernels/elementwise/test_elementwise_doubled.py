"""Functions in twice float64's precision, compared with MPFR; and the first stage compared with them on samples of all
float32."""

from __future__ import annotations

import math
import re
import sys
from functools import cache
from pathlib import Path

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr
from test_elementwise_functions import MPFR, by_turns, every_target, exactly
from test_instructions import FORBIDDEN, PAGE, TRIPLES, frame, instructions

from anydml.kernels.code import engine
from anydml.kernels.code.targets import ARM, X86, Target, targets
from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions import doubled, wide
from anydml.kernels.numbers.functions.approximate import Approximate
from anydml.kernels.numbers.functions.pairs import Pair
from every_kernel import DOT_PRODUCTS, SOAK
from function_kernels import Doubles, Function, applied, emitted

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
import prove_float64 as prove

BLOCKS, LENGTH = 24, 1 << 10  # blocks of consecutive float32


@cache  # one function object, so that it is compiled once for all arguments
def part(name: str, tail: bool) -> Function:
    """The head or the tail of a function of pairs, at x + x y."""

    def apply(x: Value, y: Value) -> Approximate:
        found = doubled.UNARY[name](x, x * y)
        return Approximate(found.tail if tail else found.head, found.rel)

    return apply


def arguments() -> Doubles:
    random = np.random.default_rng(7)
    n = 150
    sign = random.choice([-1.0, 1.0], n)
    parts = [
        random.standard_normal(n),
        random.uniform(-1, 1, n),
        random.uniform(-30, 30, n),
        sign * 2.0 ** random.uniform(-126, 128, n),
        1 + random.standard_normal(n) * 2.0 ** random.uniform(-22, 0, n),
        random.integers(-600_000, 600_000, n) * math.pi / 2,
        random.integers(-200, 200, n) * math.log(2) / 2,
        np.array([0.5, 0.25, 8.0, math.sqrt(0.5), 1.0, 2.0]),
    ]
    return np.concatenate(parts).astype(np.float32).astype(np.float64)


@by_turns(doubled.UNARY)
def test_the_bound_of_a_function_of_pairs_holds(name: str, target: Target) -> None:
    xs = arguments()
    lanes = target.vector_bytes // 8
    compared = 0
    for y in (0.0, 2.0**-54, -(2.0**-55) / 3):
        tails = np.full(len(xs), y)
        (heads, _), (rests, _) = (applied(part(name, tail), target, lanes, xs, tails) for tail in (False, True))
        with gmpy2.context(MPFR, precision=300):
            for x, head, rest in zip(xs.tolist(), heads.tolist(), rests.tolist(), strict=True):
                exact = exactly(name)(mpfr(x) + mpfr(x * y))
                if gmpy2.is_finite(exact) and exact != 0 and abs(gmpy2.get_exp(exact)) < 800:
                    compared += 1
                    assert abs(mpfr(head) + mpfr(rest) - exact) <= doubled.REL * abs(exact), (name, x, y, head, rest)
    assert compared > 500


@cache
def part_of_two(name: str, tail: bool) -> Function:
    """The head or the tail of a function of two pairs, at x + x t and y + y t."""

    def apply(x: Value, y: Value, t: Value) -> Approximate:
        found = doubled.BINARY[name](Pair(x, x * t), Pair(y, y * t))
        return Approximate(found.tail if tail else found.head, found.rel)

    return apply


@every_target
@pytest.mark.parametrize("name", doubled.BINARY)
def test_the_bound_of_a_function_of_two_pairs_holds(name: str, target: Target) -> None:
    random = np.random.default_rng(9)
    n = 400
    xs = random.choice([-1.0, 1.0], n) * 2.0 ** random.uniform(-100, 100, n)
    ys = random.choice([-1.0, 1.0], n) * 2.0 ** random.uniform(-100, 100, n)
    if name == "pow":
        xs = np.abs(xs)
        ys = random.uniform(-900, 900, n) / np.log2(xs)
    xs, ys = xs.astype(np.float32).astype(np.float64), ys.astype(np.float32).astype(np.float64)
    ys[::4] = xs[::4] * 3 if name == "atan2" else np.round(ys[::4])
    rel = doubled.POW_REL if name == "pow" else doubled.REL
    for t in (0.0, 2.0**-54):
        arguments = xs, ys, np.full(n, t)
        heads, rests = (
            applied(part_of_two(name, tail), target, target.vector_bytes // 8, *arguments)[0].tolist() for tail in (False, True)
        )
        with gmpy2.context(MPFR, precision=300):
            for x, y, head, rest in zip(xs.tolist(), ys.tolist(), heads, rests, strict=True):
                exact = exactly(name)(mpfr(x) + mpfr(x * t), mpfr(y) + mpfr(y * t))
                assert abs(mpfr(head) + mpfr(rest) - exact) <= rel * abs(exact), (name, x, y, t, head, rest)


@by_turns(wide.UNARY)
def test_samples_of_all_float32_are_within_their_bounds(name: str, target: Target) -> None:
    random = np.random.default_rng(11)
    starts = random.integers(0, (1 << 32) // LENGTH, BLOCKS) * LENGTH
    found = [prove.scanned(name, target, prove.inputs(int(start), LENGTH)) for start in starts]
    found.append(prove.scanned(name, target, prove.halves(), narrow=True))
    assert sum(x.inputs for x in found) == BLOCKS * LENGTH + (1 << 16)
    assert not [x.wrong for x in found if x.wrong]
    assert prove.refuted(name, target, [x for outcome in found for x in outcome.undecided]) == []


@pytest.mark.parametrize("name", wide.UNARY)
def test_what_is_left_undecided_is_judged_by_arb(name: str) -> None:
    x = 1.5 if name == "acosh" else 0.75
    assert prove.refuted(name, targets()[-1], [x]) == []


@pytest.mark.usefixtures("own_code")
def test_a_bound_that_does_not_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    exp = wide.UNARY["exp"]
    xs = prove.inputs(0x3F800000, 1 << 12)
    for rel, wrong, undecided in ((2.0**-54, True, False), (2.0**-30, False, True)):

        def bounded(x: Value, rel: float = rel) -> Approximate:
            return exp(x)._replace(rel=rel)

        monkeypatch.setattr(wide, "UNARY", {"exp": bounded})
        engine.compiled.cache_clear()
        prove.bound.cache_clear()
        found = prove.scanned("exp", targets()[-1], xs)
        assert (bool(found.wrong), bool(found.undecided)) == (wrong, undecided)
    monkeypatch.undo()
    prove.bound.cache_clear()


# in `make soak` all; otherwise those that differ in more than dot products, which functions do not have
ROWS = X86 + ARM if SOAK > 1 else tuple({(r.architecture, frozenset(r.features) - DOT_PRODUCTS): r for r in X86 + ARM}.values())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.architecture}-{row.name}")
def test_functions_call_nothing_and_use_what_their_row_has(row: Target) -> None:
    """LLVM would compile some intrinsics to calls of functions that do not exist."""
    forbidden = re.compile("|".join(f"(?:{x})" for x in FORBIDDEN[row.architecture, row.name]))
    calls = re.compile(r"(callq?|jmpq?) (?!\.?LBB)|bl? (?!\.?LBB)")
    kernels = [(f, 1) for f in wide.UNARY.values()] + [(f, 2) for f in wide.BINARY.values()]
    kernels += [(part(name, True), 2) for name in ("softplus", "asinh", "acos", "tan", "erfc")]
    for function, arguments in kernels:
        text = emitted(row, function, arguments, row.vector_bytes // 8)
        for triple in TRIPLES[row.architecture][:: 2 if arguments == 1 else 3]:
            code = instructions(engine.assembly(text, row, triple))
            assert len(code) > 40
            assert not {line for line in code if forbidden.match(line) or calls.match(line)}
            assert frame(code) <= PAGE
