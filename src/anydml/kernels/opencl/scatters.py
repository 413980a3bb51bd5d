"""Scatters on OpenCL devices: the last update of each element is found by its number, then moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from anydml.kernels.code import opencl
from anydml.kernels.code.opencl import Argument
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.kernel import Built, DeviceCall, DeviceMemory, Machine, Refused
from anydml.kernels.match.displaced import Displaced, DisplacedElement, displaced
from anydml.kernels.opencl import maps
from anydml.kernels.opencl.calls import INT, RANGE, WORD, ExactCall, Launch, Workspace, end, index_of, number, unbound
from anydml.kernels.opencl.maps import NARROW
from anydml.kernels.problem import Problem
from anydml.schema.statement import Nest
from anydml.tensor import DataType, TensorDesc

MOST = (1 << 32) - 1  # updates, which are numbered from 1 on in 32 bits


class ScatterKey(NamedTuple):
    """loops: the loops over updates. dims: those of the output. wraps: of each index that is data, whether it may be negative.

    indices, element: the data types. narrow: whether all numbers of updates and elements have 32 bits.
    """

    loops: int
    dims: int
    wraps: tuple[bool, ...]
    indices: DataType
    element: DataType
    narrow: bool


def lower(problem: Problem, machine: Machine) -> Built | Refused:
    """A scatter over other elements, which are moved first."""
    found = displaced(problem.statement)
    if isinstance(found, str):
        return Refused(found)
    if not found.scatters:
        return Refused("nothing is scattered")
    if prod(found.sizes) > MOST:
        return Refused(f"there are more than {MOST} updates")
    ((name, nest),) = problem.statement.items()
    into = problem.tensors[name]
    if into.data_type.element_bits < 8:
        return Refused("elements are of four bits")
    otherwise = nest.body.args[2]  # an element or 0
    before = maps.lower(
        Problem({name: Nest(nest.index, otherwise, moves=otherwise.op != "constant")}, problem.tensors), machine
    )
    if isinstance(before, Refused):
        return before
    assert before.on_device is not None
    first = before.on_device
    indices = problem.tensors[found.indices.tensor].data_type
    narrow = max(prod(found.sizes), prod(into.sizes)) < NARROW
    key = ScatterKey(len(found.sizes), len(into.sizes), tuple(n.wraps for n in found.named), indices, into.data_type, narrow)
    text = emitted(key)

    def bound(workspace: Workspace, memory: Mapping[str, DeviceMemory]) -> Sequence[DeviceCall]:
        nbytes = 4 * prod(into.sizes)
        workspace.needs(nbytes)

        def launches() -> list[Launch]:
            own = [workspace.scratch, *(np.int64(n) for n in (*found.sizes[1:], *into.sizes[1:]))]
            numbered = _numbered(found, into)
            index = memory[found.indices.tensor]
            asked = problem.tensors[found.indices.tensor]
            starts = [_offset(start, asked) for start in (n.start for n in found.named)]
            named = [index.data, *(np.int64(index.offset + s) for s in starts), *_steps(found.indices, asked)]
            named += [np.int64(x) for n, step in zip(found.named, numbered.named, strict=True) for x in (n.size, step)]
            named += [np.int64(numbered.start), *(np.int64(s) for s in numbered.steps), np.int64(prod(into.sizes))]
            source, out = memory[found.source.tensor], memory[name]
            given = problem.tensors[found.source.tensor]
            moved = [source.data, np.int64(source.offset + _offset(found.source.start, given)), *_steps(found.source, given)]
            moved += [out.data, np.int64(out.offset), *(np.int64(s * _size(into)) for s in into.explicit_strides)]
            return [
                Launch(text, "noted", [*own, *named], prod(found.sizes), 32),
                Launch(text, "moved", [*own, *moved], prod(into.sizes), 32),
            ]

        return [*first(workspace, memory), ExactCall(workspace, launches, nbytes)]

    return Built(unbound, on_device=bound)


class _Numbered(NamedTuple):
    """The number of the element that an update is for: the first one's, a step for each loop, one for each index in data."""

    start: int
    steps: Sequence[int]
    named: Sequence[int]


def _numbered(found: Displaced, into: TensorDesc) -> _Numbered:
    packed = TensorDesc(into.data_type, into.sizes).explicit_strides
    named = [1 if n.dimension is None else packed[n.dimension] for n in found.named]
    return _Numbered(_along(found.target.start, packed), [_along(s, packed) for s in found.target.steps], named)


def _along(index: Sequence[int], strides: Sequence[int]) -> int:
    return sum(map(mul, index, strides))


def _size(t: TensorDesc) -> int:
    return t.data_type.dtype.itemsize


def _offset(index: Sequence[int], t: TensorDesc) -> int:
    return _along(index, t.explicit_strides) * _size(t)


def _steps(place: DisplacedElement, t: TensorDesc) -> list[Any]:
    """The bytes between elements of consecutive turns of each loop."""
    return [np.int64(_offset(step, t)) for step in place.steps]


@lru_cache(maxsize=64)
def emitted(key: ScatterKey) -> str:
    """The program: "noted" keeps the largest number of an update for each element, and "moved" moves these updates."""
    loops = [f"n{d}" for d in range(1, key.loops)]
    dims = [f"m{d}" for d in range(1, key.dims)]
    own = [Argument("ptr", "last"), *(Argument("i64", n) for n in (*loops, *dims))]
    count = len(key.wraps)
    named = [Argument("ptr", "indices"), *(Argument("i64", f"at{k}") for k in range(count))]
    named += [Argument("i64", f"s{d}") for d in range(key.loops)]
    named += [Argument("i64", f"{what}{k}") for k in range(count) for what in ("most", "step")]
    named += [Argument("i64", "start"), *(Argument("i64", f"t{d}") for d in range(key.loops)), Argument("i64", "elements")]
    moved = [Argument("ptr", "source"), Argument("i64", "from"), *(Argument("i64", f"s{d}") for d in range(key.loops))]
    moved += [Argument("ptr", "output"), Argument("i64", "to"), *(Argument("i64", f"t{d}") for d in range(key.dims))]
    kernels = [("noted", [*own, *named, *RANGE], _noted), ("moved", [*own, *moved, *RANGE], _moved)]
    made = []
    for name, arguments, emit in kernels:
        body = Body(opencl.target())
        emit(body, key, [f"%{n}" for n in loops], [f"%{n}" for n in dims])
        end(body)
        made.append(opencl.kernel(name, arguments, body))
    return opencl.program(made)


def _noted(body: Body, key: ScatterKey, loops: list[str], dims: list[str]) -> None:
    u = number(body)
    turns = index_of(body, u, loops, narrow=key.narrow)
    at = _placed(body, "%start", "t", turns)
    away = _placed(body, "0", "s", turns)
    for k, wraps in enumerate(key.wraps):
        place = body.at("%indices", (Value(body, f"%at{k}", WORD) + away).name)
        index = body.loaded(Kind(f"i{key.indices.element_bits}"), place)
        index = index.converted("sext" if key.indices.dtype.kind == "i" else "zext", WORD)
        if wraps:
            index = body.chosen(index.compared("slt", 0), index + Value(body, f"%most{k}", WORD), index)
        at = at + index * Value(body, f"%step{k}", WORD)
    body.branch(at.compared("ult", Value(body, "%elements", WORD)).name, "inside_output", "end")  # as a rule makes sure
    body.label("inside_output")
    place = body.at("%last", (at * 4).name)
    body.call("atomic_max", INT, f"ptr {place}", (u + 1).converted("trunc", INT))


def _moved(body: Body, key: ScatterKey, loops: list[str], dims: list[str]) -> None:
    i = number(body)
    last = body.loaded(INT, body.at("%last", (i * 4).name))
    body.branch(last.compared("ne", 0).name, "updated", "end")
    body.label("updated")
    turns = index_of(body, (last - 1).converted("zext", WORD), loops, narrow=key.narrow)
    place = body.at("%source", _placed(body, "%from", "s", turns).name)
    made = body.loaded(Kind(f"i{key.element.element_bits}"), place)
    index = index_of(body, i, dims, narrow=key.narrow)
    body.stored(made, body.at("%output", _placed(body, "%to", "t", index).name))


def _placed(body: Body, start: str, steps: str, index: Sequence[Value]) -> Value:
    at = Value(body, start, WORD)
    for d, x in enumerate(index):
        at = at + x * Value(body, f"%{steps}{d}", WORD)
    return at
