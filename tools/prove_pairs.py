"""Proves the functions in pairs of float32 on all 2^32 arguments; `make prove` runs it.

Results of kernels that begin with pairs are compared with those of kernels in float64 alone, whose bounds are proven; both use
lists and finer stages as in any call. Where float64 leaves a result undecided, pairs may have decided it, or it was settled
without being computed: these results are compared with those in twice float64's precision, or with the exact ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.code import engine
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import EXACT, Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import emit
from anydml.kernels.elementwise.key import MapKey, lanes_in_pairs
from anydml.kernels.elementwise.levels import finer_kernel
from anydml.kernels.elementwise.streams import CONTIGUOUS
from anydml.kernels.elementwise.undecided import exactly
from anydml.kernels.match.normal_form import Node, NormalForm, normal_form
from anydml.kernels.numbers.functions import paired
from anydml.kernels.numbers.functions.wide import UNARY
from anydml.tensor import DataType

BLOCK = 1 << 20
PARTS = 512
BOUND_SLACK = 2.0**-44  # float64's own bounds, and the sum of a head and a tail
TYPES = (DataType.FLOAT32, DataType.FLOAT32)
NAMES = (*paired.FUNCTIONS, "swish")
Words = NDArray[np.uint32]


class Found(NamedTuple):
    """Arguments that were tried, results that float64 leaves undecided, those of them that pairs decide, and wrong results."""

    tried: int
    open: int
    decided: int
    wrong: list[int]


def formula(name: str) -> NormalForm:
    """A function of an element, with its limit if it has one."""
    nodes = [Node("stream", (), (0, DataType.FLOAT32)), Node("sigmoid" if name == "swish" else name, (0,), None)]
    if name == "swish":
        nodes.append(Node("mul", (0, 1), None))
    if name in ("swish", "gelu"):
        nodes.append(Node("limits", (0, len(nodes) - 1), (("low", "-0.0"),)))
    return normal_form(tuple(nodes))


class Compiled:
    """A kernel of a formula of one float32 with some levels."""

    def __init__(self, target: Target, formula: NormalForm, levels: tuple[str, ...]) -> None:
        lanes = lanes_in_pairs(target) if levels[0] == "paired" else target.vector_bytes // 4
        lies = (CONTIGUOUS, CONTIGUOUS)
        shape = MapKey(formula, False, False, TYPES, lies, 0, lanes, False, levels, True)
        self.code = engine.compiled(emit.emitted, target, shape)
        self.state = np.zeros(8, np.int64)
        self.list = np.empty(2 * (BLOCK + lanes), np.int64)
        self.out = np.empty(BLOCK, np.uint32)
        self.room = BLOCK

    def __call__(self, x: Words) -> tuple[Words, NDArray[np.int64]]:
        """Store the results, and return them with the positions of the undecided ones."""
        self.state[:] = 0
        pointers = (self.state, self.list)
        arguments = [a.ctypes.data for a in pointers] + [self.room, 0, 1, x.size, x.ctypes.data, self.out.ctypes.data, 4, 4]
        numbers = np.array(arguments, np.int64)
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(self.code.address)(numbers.ctypes.data)
        count = int(self.state[2])
        return self.out[: x.size], (self.list[: 2 * count : 2] - self.out.ctypes.data) // 4


def _finer(formula: NormalForm, target: Target, x: Words) -> Words:
    """The results in twice float64's precision, or the exact ones where that is not enough."""
    lanes = target.vector_bytes // 4
    shape = MapKey(formula, False, False, TYPES, (CONTIGUOUS,) * 2, 0, lanes, False, ("wide",), True)
    code = engine.compiled(finer_kernel, target, shape, "doubled")
    made = np.zeros(x.size, np.uint32)
    entries = np.stack([made.ctypes.data + 4 * np.arange(x.size), x.astype(np.int64)], 1)
    numbers = np.array([entries.ctypes.data, x.size], np.int64)
    left = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(numbers.ctypes.data)
    if left:
        found = exactly(formula, TYPES, replace(target, stage=EXACT), entries[:left, 1:])
        made[(entries[:left, 0] - made.ctypes.data) // 4] = found.view(np.uint32)
    return made


def proved(formula: NormalForm, target: Target, arguments: Iterable[Words]) -> Found:
    """Compare the results for blocks of arguments, given by their bits."""
    first, second = Compiled(target, formula, ("paired", "wide")), Compiled(target, formula, ("wide",))
    tried = left = decided = 0
    wrong: list[int] = []
    for x in arguments:
        (mine, open_), (sure, unsure) = first(x), second(x)
        tried, left = tried + x.size, left + unsure.size
        other = np.setdiff1d(np.flatnonzero(mine != sure), open_)
        wrong += x[np.setdiff1d(other, unsure)].tolist()
        wrong += x[np.setdiff1d(open_, unsure)].tolist()
        early = np.setdiff1d(unsure, open_)
        if early.size:
            decided += early.size
            wrong += x[early][_finer(formula, target, x[early]) != mine[early]].tolist()
    return Found(tried, left, decided, wrong)


def _bounding(target: Target, name: str) -> str:
    """The kernel (arguments, count, found): counts pairs that do not enclose float64's result, up to `BOUND_SLACK` of it."""
    body = Body(target)
    x, count, found = (body.load(k, "%arguments", 8 * i) for i, k in enumerate(("ptr", "i64", "ptr")))
    lanes = target.vector_bytes // 4
    kind, wide, whole = Kind("float", lanes), Kind("double", lanes), Kind("i64", lanes)

    def inside(i: str, carried: list[Value]) -> list[Value]:
        argument = body.loaded(kind, body.at(x, body.op(f"shl i64 {i}, 2")))
        pair = paired.FUNCTIONS[name](argument)
        real = UNARY[name](argument.converted("fpext", wide))
        exact = real.value
        if pair.sign is not None:
            exact = (exact.bits() ^ pair.sign.converted("zext", whole) << 32).cast(wide)
        slack = exact.magnitude() * BOUND_SLACK
        head, low, high = (v.converted("fpext", wide) for v in (pair.head, pair.low, pair.high))
        ends = (head + low, head + high)
        outer = ends[0].compared("ugt", exact + slack) | ends[1].compared("ult", exact - slack)
        wrong = outer & ends[0].compared("ord", ends[1])  # ends that are NaN decide nothing
        if pair.outside is not None:
            wrong = wrong & ~pair.outside
        return [carried[0] + wrong.converted("zext", whole)]

    _, (total,) = body.loop("0", count, lanes, [body.constant(whole, 0)], inside)
    body.stored(total, found)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def unbounded(name: str, target: Target, arguments: Iterable[Words]) -> int:
    """Count the arguments, whole vectors of them, whose pairs do not enclose the function."""
    code = engine.compiled(_bounding, target, name)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)
    total, found = 0, np.zeros(target.vector_bytes // 4, np.int64)
    for x in arguments:
        call(np.array([x.ctypes.data, x.size, found.ctypes.data], np.int64).ctypes.data)
        total += int(found.sum())
    return total


def part(name: str, target: Target, at: int) -> dict[str, Any]:
    """The counts of some blocks of arguments."""
    each = (1 << 32) // PARTS
    blocks = [np.arange(start, start + BLOCK, dtype=np.uint32) for start in range(at * each, (at + 1) * each, BLOCK)]
    found = proved(formula(name), target, blocks)
    loose = unbounded(name, target, blocks) if name in paired.FUNCTIONS else 0
    counts = {"arguments": found.tried, "undecided in float64": found.open, "of them decided by pairs": found.decided}
    examples = [hex(x) for x in found.wrong]
    return {**counts, "pairs without their function": loose, "wrong": len(found.wrong) + loose, "examples": examples}
