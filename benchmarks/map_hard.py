"""Maps of data that are hard to round (ties, subnormals, special values, wide exponents, integers), relative to normal data."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import anydml as dml
from anydml.schema.kinds import ScaleBias
from anydml.schema.operator import Desc
from benchmarks.map_cases import MOST_HOSTILE, Array, Case, bound, left
from benchmarks.timing import best

COUNT = 1 << 16
PRINTED = 1.5  # times the time of normal data, above which a pair is printed
NORMAL = "normal"
PRECISION = 24  # bits of a float32's significand
INFINITY, NAN = np.uint32(0x7F800000), np.uint32(0x7FC00000)


# --- data ---


def _normal(rng: np.random.Generator, count: int) -> Array:
    made: Array = rng.standard_normal(count).astype(np.float32)
    return made


def _ties(rng: np.random.Generator, count: int) -> Array:
    """Numbers with few bits and exponents one precision apart: sums of two are halfway between neighbours, or close to that."""
    places = 2 - rng.choice([0, 0, PRECISION - 1, PRECISION, PRECISION + 1], count)
    made: Array = np.ldexp((rng.integers(1, 8, count) * rng.choice([-1, 1], count)).astype(np.float32), places)
    return made


def _subnormals(rng: np.random.Generator, count: int) -> Array:
    return _signed(rng, rng.integers(1, 1 << (PRECISION - 1), count, np.uint32))


def _specials(rng: np.random.Generator, count: int) -> Array:
    return _signed(rng, rng.choice(np.array([0, INFINITY, NAN], np.uint32), count))


def _wide(rng: np.random.Generator, count: int) -> Array:
    """Any finite bit patterns."""
    bits = rng.integers(0, 1 << 32, count, np.uint32)
    return np.where(bits & INFINITY == INFINITY, bits ^ INFINITY, bits).view(np.float32)


def _integers(rng: np.random.Generator, count: int) -> Array:
    return _signed(rng, rng.integers(0, 5, count).astype(np.float32).view(np.uint32))


def _signed(rng: np.random.Generator, bits: Array) -> Array:
    """The float32 with these bits, half of them negated."""
    signs: Array = rng.integers(0, 2, bits.size, np.uint32) << np.uint32(31)
    return (bits | signs).view(np.float32)


KINDS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "ties": _ties,
    "subnormals": _subnormals,
    "specials": _specials,
    "wide": _wide,
    "integers": _integers,
}


def drawn(kind: str, operator: type[Desc], count: int) -> tuple[Array, ...]:
    """Elements of a kind for each input; only magnitudes if the function is not defined for negative ones."""
    rng = np.random.default_rng(2)
    draw = {NORMAL: _normal, **KINDS}[kind]
    first, *others = (draw(rng, count) for _ in operator.spec.inputs)
    return (np.abs(first) if operator in MAGNITUDES else first, *others)


# --- functions ---


def _case(name: str, operator: type[Desc], **attributes: Any) -> Case:
    return Case(name, operator, partial(drawn, NORMAL, operator), attributes=attributes)


SCALED = {"scale_bias": ScaleBias(1.7, 0.3)}
MAGNITUDES = (dml.ElementWiseSqrt, dml.ElementWiseLog, dml.ElementWisePow)
CASES = (
    _case("add", dml.ElementWiseAdd),
    _case("multiply", dml.ElementWiseMultiply),
    _case("divide", dml.ElementWiseDivide),
    _case("recip", dml.ElementWiseRecip),
    _case("sqrt", dml.ElementWiseSqrt),
    _case("floor, ScaleBias", dml.ElementWiseFloor, **SCALED),
    _case("ceil, ScaleBias", dml.ElementWiseCeil, **SCALED),
    _case("modulus truncate", dml.ElementWiseModulusTruncate),
    _case("modulus floor", dml.ElementWiseModulusFloor),
    _case("exp", dml.ElementWiseExp),
    _case("exp, ScaleBias", dml.ElementWiseExp, **SCALED),
    _case("log", dml.ElementWiseLog),
    _case("pow", dml.ElementWisePow),
    _case("erf", dml.ElementWiseErf),
    _case("sin", dml.ElementWiseSin),
    _case("cos", dml.ElementWiseCos),
    _case("tan", dml.ElementWiseTan),
    _case("sinh", dml.ElementWiseSinh),
    _case("asinh", dml.ElementWiseAsinh),
    _case("atan", dml.ElementWiseAtan),
    _case("tanh", dml.ActivationTanh),
    _case("sigmoid", dml.ActivationSigmoid),
    _case("swish", dml.ActivationSwish),
    _case("gelu", dml.ActivationGelu),
    _case("elu", dml.ActivationElu),
    _case("softplus", dml.ActivationSoftplus),
)


# --- the table ---


def run(seconds: float, cases: tuple[Case, ...] = CASES, count: int = COUNT) -> list[dict[str, Any]]:
    """Every function on every kind of data, of which only slow ones are printed; all calls of a function take turns."""
    print(f"\n{'hard data':36} {'x normal':>9} {'in Python':>10}")
    rows = [row for case in cases for row in _rows(case, seconds, count)]
    below = sum(row["met"] and row["times_normal"] <= PRINTED for row in rows)
    print(f"{below} of {len(rows)} pairs of a function and a kind of data at {PRINTED} or below")
    return rows


def _rows(case: Case, seconds: float, count: int) -> list[dict[str, Any]]:
    kernels, calls, undone = {}, {}, {}
    for kind in (NORMAL, *KINDS):
        arrays = drawn(kind, case.operator, count)
        kernels[kind], call = bound(case, arrays, np.empty(count, case.output))
        if not kernels[kind].endswith(":compiled"):
            print(f"{case.name:36} {'':9} {'':10}  by {kernels[kind]}  MISSED", flush=True)
            return [{"case": case.name, "kernel": kernels[kind], "met": False}]
        calls[kind], undone[kind] = call, left(call)
    spent = best(calls, seconds=seconds, slow=1, clock=time.thread_time)
    rows = []
    for kind in KINDS:
        ratio = spent[kind] / spent[NORMAL]
        met = ratio <= MOST_HOSTILE
        if ratio > PRINTED:
            print(f"{case.name + ': ' + kind:36} {ratio:9.2f} {undone[kind]:10}{'' if met else '  MISSED'}", flush=True)
        rows.append(
            {
                "case": case.name,
                "data": kind,
                "kernel": kernels[kind],
                "microseconds": spent[kind] * 1e6,
                "times_normal": ratio,
                "in_python": undone[kind],
                "met": met,
            }
        )
    return rows
