"""Proves functions in float64 on all inputs; `make prove` runs it.

Every float32 is evaluated by the float64 code and by the pairs of `doubled`, whose bound is 2^-80. An input is wrong if the two
differ by more than the bound that the code promises. It is undecided if this bound allows two roundings to float32 (or to
float16, for a float16 input); then arb decides whether the bound holds. Inputs that a guard leaves out are counted. Sines,
cosines and tangents of float32 from 2^21 on are those of `far_angles`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from anydml.exact import functions as exact
from anydml.kernels.code import engine
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target, named
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.numbers.functions import circular, doubled, far_angles, wide
from anydml.kernels.numbers.functions.angles import near_angle, sin_cos, sin_cos_of
from anydml.kernels.numbers.functions.approximate import Approximate
from anydml.kernels.numbers.functions.pairs import Pair

BLOCK = 1 << 20
BLOCKS = (1 << 32) // BLOCK
UNDECIDED, WRONG, GUARDED, NAN = 1, 2, 4, 8
FAR = 2.0**700  # results beyond it and its inverse only have to be on the right side
# where a function is defined, and where pairs evaluate it
DOMAINS = {
    "log": (0.0, math.inf),
    "log1p": (-1.0, math.inf),
    "acosh": (1.0, math.inf),
    **dict.fromkeys(("asin", "acos", "atanh"), (-1.0, 1.0)),
}
POLES = {"log": (0.0,), "log1p": (-1.0,), "atanh": (1.0, -1.0)}


def _sine(x: Pair) -> Pair:
    return sin_cos_of(*near_angle(x))[0]


def _cosine(x: Pair) -> Pair:
    return sin_cos_of(*near_angle(x))[1]


def _one(x: Pair) -> Pair:
    """One, for inputs whose value is not compared, because it is guarded or NaN; and the value of erf for large inputs."""
    one = x.head.lift(1.0).signed_as(x.head)
    return Pair(one, x.head.lift(0.0))


def _erfc_far(x: Pair) -> Pair:
    far = doubled.erfc_far(x.magnitude())
    return (2 - far).where(x.head.compared("olt", 0.0), far)


def _half(x: Pair) -> Pair:
    return x.scaled(0.5)


def _root_half(x: Pair) -> Pair:
    """-x times the root of 1/2: GELU is x / 2 times erfc of it."""
    return -x * x._lift(doubled.ROOT_HALF)


def _whole(function: Callable[[Value, Value], doubled.Doubled], x: Pair) -> Pair:
    found = function(x.head, x.tail)
    return Pair(found.head, found.tail)


# functions whose pairs take long: what serves for |x| below a bound, which is where a block begins
PARTS: dict[str, tuple[tuple[float, Callable[[Pair], Pair]], ...]] = {
    "sin": ((circular.FARTHEST, _sine), (math.inf, lambda x: sin_cos(x)[0])),
    "cos": ((circular.FARTHEST, _cosine), (math.inf, lambda x: sin_cos(x)[1])),
    "tan": ((circular.FARTHEST, lambda x: _sine(x) / _cosine(x)), (math.inf, lambda x: _whole(doubled.UNARY["tan"], x))),
    "erf": (
        (0.5, doubled.erf_near_zero),
        (28.0, lambda x: (1 - doubled.erfc_far(x.magnitude())).negated(x.head.compared("olt", 0.0))),
        (math.inf, _one),
    ),
    "erfc": ((0.5, lambda x: 1 - doubled.erf_near_zero(x)), (28.0, _erfc_far), (math.inf, lambda x: 1 - _one(x))),
    "gelu": (
        (0.5, lambda x: _half(x) * (1 - doubled.erf_near_zero(_root_half(x)))),
        (40.0, lambda x: _half(x) * _erfc_far(_root_half(x))),
        (math.inf, lambda x: x.where(x.head.compared("ogt", 0.0), 0.0)),
    ),
    "softplus": (
        (2.0**-45, lambda x: _half(x) + doubled.LN2),
        (64.0, lambda x: _whole(doubled.UNARY["softplus"], x)),
        (math.inf, lambda x: x.where(x.head.compared("ogt", 0.0), _whole(doubled.UNARY["exp"], x))),
    ),
}
OUTSIDE = -1


class Outcome(NamedTuple):
    """Counts, and the undecided and wrong inputs."""

    inputs: int
    guarded: int
    undecided: list[float]
    wrong: list[float]


def judging(target: Target, name: str, part: int | None) -> str:
    """The kernel (count, inputs, codes, values): a byte of flags and the float64 value for each float32."""
    body, lanes = Body(target), target.vector_bytes // 4  # two vectors, side by side
    count, inputs, codes, values = (body.load(k, "%arguments", 8 * i) for i, k in enumerate(("i64", "ptr", "ptr", "ptr")))
    kind = Kind("double", lanes)

    def inside(i: str, carried: list[Value]) -> list[Value]:
        single = body.loaded(kind.of("float"), body.at(inputs, body.op(f"shl i64 {i}, 2")))
        x = single.converted("fpext", kind)
        if part is not None and part > 0 and name in far_angles.FUNCTIONS:
            far = far_angles.of_far(name, single)
            made = Approximate(far, far_angles.RELS[name], far.compared("uno", far))
        else:
            made = wide.UNARY[name](x)
        if part is None:
            judge: Pair | doubled.Doubled = doubled.UNARY[name](x, x.lift(0.0))
        else:
            judge = (_one if part == OUTSIDE else PARTS[name][part][1])(Pair(x, x.lift(0.0)))
        value, head, size = made.value, judge.head, judge.head.magnitude()
        distance = ((value - head) - judge.tail).magnitude()
        off = distance.compared("ugt", size * (made.rel - doubled.REL - 2.0**-60))
        far = size.compared("ogt", FAR) & ~(value.magnitude().compared("ogt", FAR / 2) & (value * head).compared("ogt", 0.0))
        near = size.compared("olt", 1 / FAR) & ~value.magnitude().compared("olt", 2 / FAR)
        common = size.compared("ule", FAR) & size.compared("uge", 1 / FAR)
        wrong = (common & off) | far | near
        margin = made.rel + 2.0**-52
        low, high = ((value * (1 + m)).converted("fptrunc", kind.of("float")) for m in (-margin, margin))
        flags = [(low.compared("one", high), UNDECIDED), (wrong, WRONG), (value.compared("uno", value), NAN)]
        if made.guard is not None:
            flags.append((made.guard, GUARDED))
        code = body.constant(kind.of("i8"), 0)
        for condition, flag in flags:
            code = code | body.chosen(condition, body.constant(code.kind, flag), 0)
        body.stored(code, body.at(codes, i))
        body.stored(value, body.at(values, body.op(f"shl i64 {i}, 3")))
        return carried

    body.loop("0", count, lanes, [], inside)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def judged(
    name: str, target: Target, xs: NDArray[np.float32], part: int | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The flags and values of inputs, which must be whole vectors."""
    code = engine.compiled(judging, target, name, part)
    codes, values = np.zeros(len(xs), np.uint8), np.zeros(len(xs))
    arguments = np.array([len(xs), *(a.ctypes.data for a in (xs, codes, values))], np.int64)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(arguments.ctypes.data)
    return codes, values


def scanned(name: str, target: Target, xs: NDArray[np.float32], narrow: bool = False) -> Outcome:
    """The outcome for consecutive float32 of one sign; narrow: for any inputs, with results rounded to float16."""
    low, high = DOMAINS.get(name, (-math.inf, math.inf))
    part = None if narrow else _part(name, xs[-1])
    if (not narrow and (xs[[0, -1]] < low).all()) or (xs[[0, -1]] > high).all():
        part = OUTSIDE
    codes, values = judged(name, target, xs, part)
    simple = all(low < x < high for x in (xs[0], xs[-1]))
    if simple and not narrow and not codes.any():  # most blocks: inputs ascend with their bits
        return Outcome(len(xs), 0, [], [])
    with np.errstate(invalid="ignore"):
        inside = (xs >= low) & (xs <= high)
        judgeable = inside & (np.abs(xs) < math.inf)
        for pole in POLES.get(name, ()):
            judgeable &= xs != pole
        guarded = ((codes & GUARDED) != 0) & judgeable
        judgeable &= ~guarded
    nan = (codes & NAN) != 0
    wrong = (judgeable & (((codes & WRONG) != 0) | nan)) | (~inside & ~nan)
    undecided = judgeable & ((codes & UNDECIDED) != 0)
    if narrow:
        margin = bound(name) + 2.0**-52
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            ends = [(values * (1 + m)).astype(np.float16) for m in (-margin, margin)]
        undecided = judgeable & (ends[0] != ends[1])
    return Outcome(len(xs), int(guarded.sum()), xs[undecided].tolist(), xs[wrong].tolist())


def _part(name: str, x: float) -> int | None:
    """The part of `PARTS` that contains an argument."""
    return next((i for i, (end, _) in enumerate(PARTS.get(name, ())) if abs(x) < end), None)


@cache
def bound(name: str) -> float:
    target = named(None)
    assert target is not None
    return wide.UNARY[name](Body(target).constant(Kind("double"), 1.0)).rel


def _ball(name: str, x: float) -> Any:
    if name == "sigmoid":
        return 1 / (1 + arb(-x).exp())
    if name == "softplus":
        return arb(x).exp().log1p()
    if name == "gelu":
        return arb(x) / 2 * (-arb(x) / arb(2).sqrt()).erfc()
    return arb(getattr(exact, name)(arb(x)))


def refuted(name: str, target: Target, inputs: Iterable[float]) -> list[float]:
    """The inputs whose float64 value is not within its bound, as arb decides."""
    ctx.prec = 400
    rel, found = bound(name), []
    every = np.array(list(inputs), np.float32)
    far = np.array([name in far_angles.FUNCTIONS and bool(_part(name, x)) for x in every.tolist()], bool)
    for xs, part in ((every[~far], None), (every[far], 1)):
        if not len(xs):
            continue
        padded = np.concatenate([xs, np.full(-len(xs) % 16, 0.5, np.float32)])
        _, values = judged(name, target, padded, part)
        for x, value in zip(xs.tolist(), values.tolist(), strict=False):
            ball = _ball(name, x)
            if not abs(arb(value) - ball) <= rel * abs(ball):
                found.append(x)
    return found


def halves() -> NDArray[np.float32]:
    return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16).astype(np.float32)


def inputs(start: int, count: int) -> NDArray[np.float32]:
    """`count` float32 numbers with consecutive bits."""
    return np.arange(start, start + count, dtype=np.uint64).astype(np.uint32).view(np.float32)


def part(name: str, target: Target, at: int) -> dict[str, Any]:
    """The counts of a block of float32, and after the last block of every float16."""
    narrow = at == BLOCKS
    found = scanned(name, target, halves() if narrow else inputs(at * BLOCK, BLOCK), narrow)  # a block has one sign
    wrong = found.wrong + refuted(name, target, found.undecided)
    counts = {"inputs": found.inputs, "undecided": len(found.undecided), "guarded": found.guarded}
    named = {f"{key} of FLOAT16": count for key, count in counts.items()} if narrow else counts
    return {**named, "wrong": len(wrong), "examples": [x.hex() for x in wrong]}
