"""Kernels that return the numbers of a formula as they are computed: values, error bounds, guards, and roundings."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml import DataType
from anydml.kernels.code import engine
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.formula import FormulaWalk
from anydml.kernels.elementwise.items import number_of
from anydml.kernels.elementwise.key import MapKey
from anydml.kernels.elementwise.levels import element
from anydml.kernels.elementwise.streams import CONTIGUOUS
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.floats.rounding import nearest_half, nearest_single
from anydml.kernels.numbers.lanes import in_lanes

Array = NDArray[Any]
LANES = 8
Types = tuple[DataType, ...]
Function = Callable[[Value], Value]


class Shown(NamedTuple):
    """The results of a kernel for every row of inputs.

    odd: the value rounded to odd; rest: the difference from it. Both are the value itself if they are not known. single_open,
    half_open: whether the roundings to float32 and float16 are undecided.
    """

    value: Array
    error: Array
    guard: Array
    odd: Array
    single: Array
    single_open: Array
    half: Array
    half_open: Array
    rest: Array


DTYPES = (np.float64, np.float64, bool, np.float64, np.float32, bool, np.float16, bool, np.float64)


def _number(body: Body, formula: NormalForm, types: Types, streams: list[Value]) -> Number:
    return number_of(body, FormulaWalk(body, formula, streams, DataType.FLOAT32, LANES, "wide", False).run(), LANES)


@cache
def number(target: Target, formula: NormalForm, types: Types) -> Number:
    """The result of a formula, without the instructions that compute it, to ask for its properties."""
    body = Body(target)
    return _number(
        body, formula, types, [Value(body, f"%x{k}", Kind(f"i{t.element_bits}", LANES)) for k, t in enumerate(types)]
    )


def emitted(target: Target, formula: NormalForm, types: Types) -> str:
    """The kernel (count, one address for each member of Shown, one for each input); each row is a lane."""
    body = Body(target)
    count = body.load("i64", "%arguments")
    places = [body.load("ptr", "%arguments", 8 * i) for i in range(1, 1 + len(DTYPES) + len(types))]

    def inside(i: str, carried: list[Value]) -> list[Value]:
        def at(k: int, itemsize: int) -> str:
            return body.at(places[k], body.op(f"mul i64 {i}, {itemsize}"))

        streams = [
            body.loaded(Kind(f"i{t.element_bits}", LANES), at(len(DTYPES) + k, t.element_bits // 8))
            for k, t in enumerate(types)
        ]
        x = _number(body, formula, types, streams)
        wide = x.wide()
        none = body.constant(wide.kind.of("i1"), False)
        single, single_open = nearest_single(x)
        half, half_open = nearest_half(x, DataType.FLOAT16)
        odd = wide if x.odd is None else x.odd()
        rest = wide if x.rest is None else x.rest()
        masks = {2: x.guard, 5: single_open, 7: half_open}
        for k, made in enumerate((wide, x.error(), None, odd, single, None, half, None, rest)):
            if made is None:
                mask = masks[k]
                made = (none if mask is None else mask).converted("zext", wide.kind.of("i8"))
            body.stored(made, at(k, np.dtype(DTYPES[k]).itemsize))
        return carried

    body.loop("0", count, LANES, [], inside)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def stored(target: Target, formula: NormalForm, types: Types, integral: bool) -> str:
    """The kernel (count, elements, a byte for each that tells whether it is undecided, an address for each input)."""
    body = Body(target)
    count = body.load("i64", "%arguments")
    places = [body.load("ptr", "%arguments", 8 * i) for i in range(1, 2 + len(types))]
    shape = MapKey(formula, False, integral, types, (CONTIGUOUS,) * len(types), 0, LANES, False, ("wide",), True)

    def inside(i: str, carried: list[Value]) -> list[Value]:
        def at(k: int, bits: int) -> str:
            return body.at(places[k], body.op(f"mul i64 {i}, {bits // 8}"))

        streams = [body.loaded(Kind(f"i{t.element_bits}", LANES), at(2 + k, t.element_bits)) for k, t in enumerate(types[:-1])]
        made, left_undecided = element(body, shape, streams, "wide")
        mask = body.constant(Kind("i1", LANES), False) if left_undecided is None else left_undecided
        body.stored(made, at(0, types[-1].element_bits))
        body.stored(mask.converted("zext", mask.kind.of("i8")), at(1, 8))
        return carried

    body.loop("0", count, LANES, [], inside)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def elements(target: Target, formula: NormalForm, types: Types, integral: bool, inputs: list[Array]) -> tuple[Array, Array]:
    """The elements that are stored, in the last of the types, and whether they are undecided."""
    made = [np.zeros(len(inputs[0]) + LANES, types[-1].dtype), np.zeros(len(inputs[0]) + LANES, bool)]
    called(engine.compiled(stored, target, formula, types, integral), inputs, made)
    return made[0][: len(inputs[0])], made[1][: len(inputs[0])]


def applied(target: Target, function: Function, kinds: tuple[str, str], x: Array) -> Array:
    """A function of values, applied to an array. kinds: the types of its elements and of the results."""
    made = np.zeros(len(x) + LANES, {"i16": np.uint16, "float": np.float32, "double": np.float64}[kinds[1]])
    called(engine.compiled(one, target, function, kinds), [x], [made])
    return made[: len(x)]


def one(target: Target, function: Function, kinds: tuple[str, str]) -> str:
    body = Body(target)
    count, out, x = (body.load(kind, "%arguments", 8 * i) for i, kind in enumerate(("i64", "ptr", "ptr")))

    def inside(i: str, carried: list[Value]) -> list[Value]:
        places = [body.at(p, body.op(f"mul i64 {i}, {Kind(kind).bits // 8}")) for p, kind in zip((x, out), kinds, strict=True)]
        body.stored(function(body.loaded(Kind(kinds[0], LANES), places[0])), places[1])
        return carried

    body.loop("0", count, LANES, [], inside)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def columns(target: Target, function: Callable[..., Sequence[Value]], *xs: Array) -> list[Array]:
    """The results of a function of values as float64, for arrays of float64; those that are masks are 1 and 0."""
    body, kind, results = Body(target), Kind("double", LANES), 0
    n = body.load("i64", "%arguments")

    def inside(i: str, carried: list[Value]) -> list[Value]:
        nonlocal results
        offset = body.op(f"shl i64 {i}, 3")

        def at(k: int) -> str:
            return body.at(body.load("ptr", "%arguments", 8 * (1 + k)), offset)

        made = function(*(body.loaded(kind, at(k)) for k in range(len(xs))))
        for k, x in enumerate(made):
            wide = body.chosen(x, body.constant(x.kind.of("double"), 1.0), 0.0) if x.kind.element == "i1" else x
            body.stored(in_lanes(wide, LANES), at(len(xs) + k))
        results = len(made)
        return carried

    body.loop("0", n, LANES, [], inside)
    body.do("ret i64 0")
    code = engine.compiled(as_it_is, target, kernel(body, list(body.declared)))
    found = np.zeros((results, len(xs[0]) + LANES))
    called(code, [], [*_padded([np.asarray(x, np.float64) for x in xs]), *found])
    return [*found[:, : len(xs[0])]]


def as_it_is(target: Target, text: str) -> str:
    return text


def called(code: engine.Code, inputs: list[Array], outputs: list[Array]) -> None:
    """Call code(count, outputs .., inputs ..). Inputs are padded to whole vectors with their first row."""
    padded = _padded(inputs)
    numbers = np.array([len((padded or outputs)[0]), *(a.ctypes.data for a in (*outputs, *padded))], np.int64)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(numbers.ctypes.data)


def _padded(xs: list[Array]) -> list[Array]:
    return [np.ascontiguousarray(np.concatenate([x, np.repeat(x[:1], -len(x) % LANES)])) for x in xs]


def shown(target: Target, formula: NormalForm, types: Types, inputs: list[Array]) -> Shown:
    n = len(inputs[0])
    made = [np.zeros(n + LANES, dtype) for dtype in DTYPES]
    called(engine.compiled(emitted, target, formula, types), inputs, made)
    return Shown(*(a[:n] for a in made))
