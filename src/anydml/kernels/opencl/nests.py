"""Nests on OpenCL devices: elements of sums, extremes and computed places, each in a work item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.code import opencl
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.opencl import Argument
from anydml.kernels.code.targets import wanted
from anydml.kernels.code.values import Body, Value, left_by_first_stage
from anydml.kernels.evaluate.tally import Counted
from anydml.kernels.kernel import Built, DeviceCall, DeviceMemory, Machine, Refused
from anydml.kernels.match.nests import FEW, MANY, Matched, together
from anydml.kernels.nests.elements import NestElements
from anydml.kernels.nests.items import Index
from anydml.kernels.nests.key import NestKey
from anydml.kernels.nests.loops import reduced
from anydml.kernels.nests.tuning import TUNING
from anydml.kernels.nests.walk import NestWalk
from anydml.kernels.numbers.known import known_integer
from anydml.kernels.opencl.calls import (
    LISTED,
    RANGE,
    WORD,
    ElementCall,
    Layout,
    Listing,
    Stage,
    Workspace,
    end,
    index_of,
    note,
    number,
    unbound,
)
from anydml.kernels.opencl.maps import FEW_ARGUMENTS, NARROW
from anydml.kernels.opencl.overlap import Copies
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import Numbering, in_order
from anydml.schema.statement import Nest

SUMMED = 64  # terms of a sum up to which a work item adds them up
LONGEST = 1 << 20  # terms of an extreme
STEPS = 1 << 26  # units of work for one element, at most
GUESSED = TUNING.guessed  # turns of a loop that a computed index ends


class NestOutput(NamedTuple):
    """A nest that is computed, and the kernel of its elements."""

    name: str
    found: Matched
    key: NestKey
    text: str
    lists: bool
    units: int
    decision: Decision


def lower(problem: Problem, machine: Machine) -> Built | Refused:
    """The nests of all outputs, an element in each work item."""
    if any(t.data_type.element_bits < 8 for t in problem.tensors.values()):
        return Refused("elements are of four bits")
    host = wanted(machine.isa, machine.stage)
    if isinstance(host, str):
        return Refused(host)
    outputs: list[NestOutput] = []
    for name, nest in problem.statement.items():
        if not isinstance(nest, Nest):
            return Refused("it is no nest")
        made = _output(name, nest, problem, machine.stage, host)
        if isinstance(made, str):
            return Refused(made)
        outputs.append(made)
    counted = Counted() if any(o.lists for o in outputs) else None
    return Built(unbound, counted=counted, on_device=partial(_bound, tuple(outputs), problem))


def _output(name: str, nest: Nest, problem: Problem, stage: str, host: Any) -> NestOutput | str:
    data_type = problem.tensors[name].data_type
    reason = ""
    for many in (MANY, FEW, 1):
        found = together([nest], [data_type], many)
        if isinstance(found, str):
            reason = found
            continue
        if reason := _too_long(found):
            continue
        key = NestKey(found.program, (data_type,), 0, 0, (False,))
        if 8 * len(_arguments(key)) > FEW_ARGUMENTS:
            return "there are too many arguments"
        try:
            text, lists, units = emitted(key, prod(found.sizes[: found.program.dims]) < NARROW, stage)
        except Uncompilable as error:
            return str(error)
        units *= max(1, prod(_turns(found)))
        if units > STEPS:
            return "an element takes a work item too long"
        return NestOutput(name, found, key, text, lists, units, Decision(nest, data_type, host))
    return reason


def _too_long(found: Matched) -> str:
    """The reason why an element would take a work item too long; "" if it does not."""
    sizes, turns = found.sizes, prod(_turns(found))
    for op, _, data in found.program.nodes:
        if op == "reduce" and data[0] == "sum" and not found.program.ring and prod(sizes[v] for v in data[1]) > SUMMED:
            return f"a sum has more than {SUMMED} terms"
        if op in ("reduce", "first_largest") and turns > LONGEST:
            return f"a reduction has more than {LONGEST} terms"
    return ""


def _turns(found: Matched) -> list[int]:
    """The turns of each loop. Where a computed index ends it, usually few are taken."""
    limited, dims = found.program.limited(), found.program.dims
    return [min(n, GUESSED) if v in limited else n for v, n in enumerate(found.sizes) if v >= dims]


def _bound(
    outputs: Sequence[NestOutput], problem: Problem, workspace: Workspace, memory: Mapping[str, DeviceMemory]
) -> Sequence[DeviceCall]:
    opened, tensors = workspace.opened, problem.tensors
    own = Copies(opened, memory, tensors, [o.name for o in outputs])
    calls: list[DeviceCall] = [own] if own else []
    for o in outputs:
        out, t = memory[o.name], tensors[o.name]
        itemsize = t.data_type.dtype.itemsize
        strides = [s * itemsize for s in t.explicit_strides]
        arguments: list[Any] = [out.data, np.int64(out.offset)]
        for name in o.found.tensors:
            arguments += [own.memory[name].data, np.int64(own.memory[name].offset)]
        arguments += [np.int64(n) for n in o.found.sizes]
        arguments += [np.int64(s) for s in strides]
        for number_, d in o.key.places:
            tensor = tensors[o.found.tensors[number_]]
            stride = tensor.explicit_strides[d] * tensor.data_type.dtype.itemsize
            arguments += [np.int64(tensor.sizes[d] - 1), np.int64(stride)]
        sizes = o.found.sizes[: o.found.program.dims]
        listing = None
        if o.lists:
            layout = Layout(sizes, strides, itemsize)
            decide = partial(_decided, o.decision, in_order(sizes, range(len(sizes))), o.found.tensors, own)
            listing = Listing(1, lambda: None, decide, layout, alone=False, beforehand=False)
        calls.append(ElementCall(opened, workspace, Stage(o.text, arguments), prod(sizes), o.units, out, listing))
    return calls


def _decided(
    decision: Decision, places: Numbering, names: Sequence[str], own: Copies, entries: NDArray[np.int64], arrays: Any
) -> NDArray[Any]:
    arrays = own.arrays(arrays)
    return decision.at({name: arrays(name) for name in names}, places.at(entries[:, 0]))


def _arguments(key: NestKey) -> list[Argument]:
    program = key.program
    found = [Argument("ptr", "output"), Argument("i64", "start")]
    for t in range(len(program.types)):
        found += [Argument("ptr", f"t{t}"), Argument("i64", f"o{t}")]
    found += [Argument("i64", f"size{v}") for v in range(len(program.bits))]
    found += [Argument("i64", f"step{d}") for d in range(program.dims)]
    return found + [Argument("i64", f"{kind}{t}_{d}") for t, d in key.places for kind in ("last", "stride")]


@lru_cache(maxsize=256)
def emitted(key: NestKey, narrow: bool, stage: str) -> tuple[str, bool, int]:
    """The kernel of a nest's elements, whether it lists some, and the units of work for a term of one."""
    program = key.program
    body = Body(opencl.target(stage))
    i = number(body)
    at = body.at("%output", "%start")
    index = {}
    for d, x in enumerate(index_of(body, i, [f"%size{d}" for d in range(1, program.dims)], narrow=narrow)):
        at = body.at(at, (x * Value(body, f"%step{d}", WORD)).name)
        index[d] = Index(x, known_integer(0, (1 << program.bits[d]) - 1))
    bases = {t: body.at(f"%t{t}", f"%o{t}") for t in range(len(program.types))}
    sizes = {v: f"%size{v}" for v in range(len(program.bits))}
    places = {(t, d): (f"%last{t}_{d}", f"%stride{t}_{d}") for t, d in key.places}
    walk = NestWalk(body, program, key.data_types[0], sizes, places, bases, 0, reduced)
    elements = NestElements(body, key, walk, 0)
    with walk.scope(index):
        walk.fill(program.roots)
        bits, guard = elements.stored(walk.item(program.roots[0]), key.data_types[0])
    body.stored(bits, at)
    if guard is not None:
        note(body, left_by_first_stage(guard), [i])
    end(body)
    arguments = [*_arguments(key), *RANGE, *(LISTED if guard is not None else ())]
    return opencl.kernel("kernel_", arguments, body), guard is not None, len(body.lines)
