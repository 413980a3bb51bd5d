"""Maps and copies on OpenCL devices: an element in each work item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.steps import At
from anydml.kernels.code import opencl
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.opencl import Argument
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.combined import combined
from anydml.kernels.elementwise.geometry import MapDimension, merged
from anydml.kernels.elementwise.int4 import BYTES, of_bytes
from anydml.kernels.elementwise.key import MapKey
from anydml.kernels.elementwise.levels import element
from anydml.kernels.elementwise.runs import TensorStart
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS, POSITION, STRIDED
from anydml.kernels.elementwise.undecided import exactly
from anydml.kernels.evaluate.tally import Counted
from anydml.kernels.kernel import Built, DeviceCall, DeviceMemory, Machine, Refused
from anydml.kernels.match.maps import Map, maps
from anydml.kernels.matched import lowers
from anydml.kernels.opencl.calls import (
    KEPT,
    LISTED,
    RANGE,
    WORD,
    ElementCall,
    Layout,
    Listing,
    Stage,
    Workspace,
    each_listed,
    end,
    index_of,
    note,
    number,
    unbound,
)
from anydml.kernels.opencl.fours import in_bytes, repacked, unpacked
from anydml.kernels.opencl.overlap import overlap
from anydml.kernels.problem import Problem
from anydml.tensor import DataType

NARROW = 1 << 31  # elements up to which their numbers are divided as 32-bit integers
FEW_ARGUMENTS = 900  # bytes of arguments that every device takes


class ItemKey(NamedTuple):
    """The part of a map that its kernel's text depends on.

    map: its layouts are those along the single dimension, or STRIDED. dims: the dimensions. narrow: whether numbers of
    elements have 32 bits.
    """

    map: MapKey
    dims: int
    narrow: bool


@lowers(maps)
def lower(found: list[Map], host: Target, problem: Problem, machine: Machine) -> Built | Refused:
    """The statement of a map, an element in each work item."""
    if len(found) > 1:
        return Refused("there are several outputs")
    (m,) = found
    name = str(m.target.name)
    given = {s: problem.tensors[s] for s in {*(s.name for s in m.streams), name} if s is not None}
    fours = {s: t for s, t in given.items() if t.data_type in BYTES}
    tensors = {**given, **{s: in_bytes(t) for s, t in fours.items()}}
    if fours:
        if name in fours and not m.integral:
            return Refused("a real number is cut to four bits")
        m = of_bytes(m)
    exact, m = m.formula, m._replace(formula=combined(m.formula))
    places = {name: TensorStart(At(name), t) for name, t in tensors.items()}
    placed = [(s.start[0], [step[0] for step in s.steps]) if s.name is None else places[s.name].of(s) for s in m.streams]
    to, steps = places[name].of(m.target)
    types = (*(s.data_type for s in m.streams), tensors[name].data_type)
    dims = [MapDimension(n, (*(p[1][d] for p in placed), steps[d])) for d, n in enumerate(m.sizes) if n > 1]
    dims.sort(key=lambda d: (abs(d.strides[-1]), sum(map(abs, d.strides))), reverse=True)
    dims = merged(dims) or [MapDimension(1, tuple(0 for _ in types))]
    names = [s.name for s in m.streams]
    layouts = tuple(_layout(k, names, types, dims) for k in range(len(types)))
    size = prod(d.size for d in dims)
    item = ItemKey(
        MapKey(m.formula, m.moves, m.integral, types, layouts, 0, 0, False, ("wide",), True), len(dims), size < NARROW
    )
    text, listed, units = emitted(item, machine.stage)
    if 8 * (len(types) * (2 + len(dims)) + len(dims) + 6) > FEW_ARGUMENTS:
        return Refused("there are too many inputs")
    starts = [p[0] if isinstance(p[0], int) else p[0].offset for p in placed]
    counted = Counted() if listed else None

    def bound(workspace: Workspace, memory: Mapping[str, DeviceMemory]) -> Sequence[DeviceCall]:
        packed = memory
        memory = {**memory, **{s: DeviceMemory(workspace.opened.allocate(2 * t.element_bytes), 0) for s, t in fours.items()}}
        out = memory[name]
        arguments: list[Any] = []
        for k, stream in enumerate(names):
            if stream is None:
                arguments.append(np.int64(starts[k]))
            else:
                arguments += [memory[stream].data, np.int64(memory[stream].offset + starts[k])]
        arguments += [out.data, np.int64(out.offset + to.offset)]
        arguments += [np.int64(d.size) for d in dims[1:]]
        arguments += [np.int64(d.strides[k]) for k, how in enumerate(layouts) if how in (STRIDED, POSITION) for d in dims]
        listing = None
        if listed:
            others = [(memory[s], tensors[s].element_bytes) for s in {*names} if s is not None]
            listing = Listing(
                len(types),
                partial(_second, item, machine.stage, arguments),
                partial(_decided, exact, types, host),
                Layout([d.size for d in dims], [d.strides[-1] for d in dims], types[-1].dtype.itemsize),
                any(overlap((out, tensors[name].element_bytes), other) for other in others),
            )
        shifted = out._replace(offset=out.offset + to.offset)
        call = ElementCall(workspace.opened, workspace, Stage(text, arguments), size, units, shifted, listing)
        before = [unpacked(workspace, t, packed[s], memory[s]) for s, t in fours.items() if s != name]
        return [*before, call, *([repacked(workspace, fours[name], out, packed[name])] if name in fours else [])]

    return Built(unbound, counted=counted, on_device=bound)


def _layout(k: int, names: Sequence[str | None], types: Sequence[DataType], dims: Sequence[MapDimension]) -> str:
    if k < len(names) and names[k] is None:
        return POSITION
    if all(d.strides[k] == 0 for d in dims):
        return CONSTANT
    return CONTIGUOUS if len(dims) == 1 and dims[0].strides[k] == types[k].dtype.itemsize else STRIDED


@lru_cache(maxsize=256)
def emitted(item: ItemKey, stage: str) -> tuple[str, bool, int]:
    """The first stage's kernel, whether it lists elements, and the units of work for one."""
    body = Body(opencl.target(stage))
    i = number(body)
    offsets = _offsets(body, item, i)
    words = [_word(body, item, k, offsets) for k in range(len(item.map.types) - 1)]
    made, undecided = element(body, item.map, words, "wide")
    body.stored(made, _place(body, len(words), offsets))
    if undecided is not None:
        note(body, undecided, [i, *(w.converted("zext", WORD) for w in words)])
    end(body)
    arguments = [*_arguments(item), *RANGE, *(LISTED if undecided is not None else ())]
    return opencl.kernel("kernel_", arguments, body), undecided is not None, len(body.lines)


@lru_cache(maxsize=256)
def finer(item: ItemKey, stage: str) -> str | None:
    """The second stage's kernel; None if there is none for the formula."""
    body = Body(opencl.target(stage))
    types = item.map.types

    def decide(words: list[Value]) -> None:
        streams = [w.converted("trunc", Kind(f"i{t.element_bits}")) for w, t in zip(words[1:], types, strict=False)]
        made, undecided = element(body, item.map, streams, "doubled")
        body.stored(made, _place(body, len(types) - 1, _offsets(body, item, words[0])))
        if undecided is not None:
            note(body, undecided, words, "%kept", 1)

    try:
        each_listed(body, len(types), decide)
        return opencl.kernel("kernel_", [*_arguments(item), *LISTED, *KEPT], body)
    except Uncompilable:
        return None


def _second(item: ItemKey, stage: str, arguments: Sequence[Any]) -> Stage | None:
    text = finer(item, stage)
    return None if text is None else Stage(text, arguments)


def _decided(exact: Any, types: Any, host: Any, entries: NDArray[np.int64], arrays: object) -> NDArray[Any]:
    return exactly(exact, types, host, entries[:, 1:])


def _arguments(item: ItemKey) -> list[Argument]:
    found: list[Argument] = []
    for k, how in enumerate(item.map.layouts):
        found += [] if how == POSITION else [Argument("ptr", f"p{k}")]
        found.append(Argument("i64", f"o{k}"))
    found += [Argument("i64", f"n{d}") for d in range(1, item.dims)]
    strided = [k for k, how in enumerate(item.map.layouts) if how in (STRIDED, POSITION)]
    return found + [Argument("i64", f"s{k}_{d}") for k in strided for d in range(item.dims)]


def _offsets(body: Body, item: ItemKey, i: Value) -> list[Value]:
    """The offset of an element in every stream, or its position."""
    at = index_of(body, i, [f"%n{d}" for d in range(1, item.dims)], narrow=item.narrow)
    found = []
    for k, (how, t) in enumerate(zip(item.map.layouts, item.map.types, strict=True)):
        offset = Value(body, f"%o{k}", WORD)
        if how == CONTIGUOUS:
            offset = offset + i * t.dtype.itemsize
        elif how != CONSTANT:
            for d, x in enumerate(at):
                offset = offset + x * Value(body, f"%s{k}_{d}", WORD)
        found.append(offset)
    return found


def _place(body: Body, k: int, offsets: Sequence[Value]) -> str:
    return body.at(f"%p{k}", offsets[k].name)


def _word(body: Body, item: ItemKey, k: int, offsets: Sequence[Value]) -> Value:
    """The bits of an element of a stream, or a position."""
    kind = Kind(f"i{item.map.types[k].element_bits}")
    return offsets[k] if item.map.layouts[k] == POSITION else body.loaded(kind, _place(body, k, offsets))
