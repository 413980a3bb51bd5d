"""Kernels that apply one compiled function to arrays of float64."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.code import engine
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.numbers.functions.approximate import Approximate

Doubles = NDArray[np.float64]
Function = Callable[..., Approximate]


def emitted(target: Target, function: Function, arguments: int, lanes: int) -> str:
    """The kernel (count, values, guards, argument, ..). guards: 1 for each element whose value is guarded, else 0."""
    body = Body(target)
    count = body.load("i64", "%arguments")
    pointers = [body.load("ptr", "%arguments", 8 * i) for i in range(1, arguments + 3)]
    kind = Kind("double", lanes)

    def inside(i: str, carried: list[Value]) -> list[Value]:
        values, guards, *xs = (body.at(p, body.op(f"shl i64 {i}, 3")) for p in pointers)
        made = function(*(body.loaded(kind, x) for x in xs))
        body.stored(made.value, values)
        body.stored(
            body.chosen(made.guard, body.constant(kind, 1), 0.0) if made.guard is not None else body.constant(kind, 0), guards
        )
        return carried

    body.loop("0", count, max(lanes, 1), [], inside)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def applied(function: Function, target: Target, lanes: int, *xs: Doubles) -> tuple[Doubles, NDArray[np.bool_]]:
    """The values and whether they are guarded; the arguments are padded to whole vectors."""
    code = engine.compiled(emitted, target, function, len(xs), lanes)
    n = len(xs[0])
    padded = [np.concatenate([x, np.ones(-n % max(lanes, 1))]) for x in xs]
    values, guards = np.empty((2, len(padded[0])))
    arguments = np.array([len(values), *(a.ctypes.data for a in (values, guards, *padded))], np.int64)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(arguments.ctypes.data)
    return values[:n], guards[:n] != 0
