"""Nests on OpenCL devices: elements of sums, extremes and computed places, each in a work item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate
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
from anydml.kernels.match.normal_form import LOOPS, bound
from anydml.kernels.nests.elements import NestElements
from anydml.kernels.nests.items import Index
from anydml.kernels.nests.key import NestKey, narrowed
from anydml.kernels.nests.loops import reduced
from anydml.kernels.nests.tuning import TUNING
from anydml.kernels.nests.walk import NestWalk
from anydml.kernels.numbers.known import known_integer
from anydml.kernels.opencl.calls import (
    LISTED,
    RANGE,
    WORD,
    ElementCall,
    ExactCall,
    Launch,
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
from anydml.kernels.opencl.groups import GroupSharing
from anydml.kernels.opencl.maps import FEW_ARGUMENTS, NARROW
from anydml.kernels.opencl.overlap import Copies
from anydml.kernels.opencl.platform import GROUP
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import Numbering, in_order
from anydml.schema.statement import Nest

SUMMED = 1 << 16  # terms of a sum up to which a work item adds them up
LONGEST = 1 << 20  # terms of an element, about
STEPS = 1 << 28  # units of work for one element, at most
SCARCE = 1 << 12  # elements up to which the terms of long sums are divided among the work items of a group
LONG = 256  # terms of such sums
GUESSED = TUNING.guessed  # turns of a loop that a computed index ends


class NestOutput(NamedTuple):
    """A nest that is computed, and the kernel of its elements. ends: those that find the ends of loops before."""

    name: str
    found: Matched
    key: NestKey
    group: int
    text: str
    ends: tuple[str, ...]
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
        key = NestKey(found.program, (data_type,), 0, 0, (False,), narrowed=narrowed(found.program, found.sizes))
        if reason := _too_long(found, key):
            continue
        if 8 * len(_arguments(key)) > FEW_ARGUMENTS:
            return "there are too many arguments"
        try:
            group = _group(found, key)
            text, lists, units = emitted(key, prod(found.sizes[: found.program.dims]) < NARROW, stage, group)
            ends = tuple([ends_of(key, k, stage) for k in range(len(key.narrowed))])
        except Uncompilable as error:
            return str(error)
        units *= max(1, _terms(found, key) // group)
        if units > STEPS:
            return "an element takes a work item too long"
        return NestOutput(name, found, key, group, text, ends, lists, units, Decision(nest, data_type, host))
    return reason


def _too_long(found: Matched, key: NestKey) -> str:
    """The reason why an element would take a work item too long; "" if it does not."""
    turns, nodes = _turns(found, key), found.program.nodes
    for op, _, data in nodes:
        if op == "reduce" and data[0] == "sum" and not found.program.ring and prod(turns[v] for v in data[1]) > SUMMED:
            return f"a sum has more than {SUMMED} terms"
    return f"reductions have more than {LONGEST} terms" if _terms(found, key) > LONGEST else ""


def _group(found: Matched, key: NestKey) -> int:
    """The work items that compute an element: several if there are few elements, of long sums."""
    turns, nodes, dims = _turns(found, key), found.program.nodes, found.program.dims
    longest = max(
        (
            prod(turns[v] for v in node.data[1])
            for p, node in enumerate(nodes)
            if node.op == "reduce" and node.data[0] == "sum" and max(nodes.free[p], default=0) < dims
        ),
        default=0,
    )
    return GROUP if longest >= LONG and prod(found.sizes[:dims]) <= SCARCE else 1


def _terms(found: Matched, key: NestKey) -> int:
    """The terms of all reductions for one element, or a guess."""
    turns, nodes = _turns(found, key), found.program.nodes
    around = [turns.keys() & nodes.free[p] | set(bound(node.op, node.data)) for p, node in enumerate(nodes) if node.op in LOOPS]
    return sum(prod(turns[v] for v in each) for each in around)


def _turns(found: Matched, key: NestKey) -> dict[int, int]:
    """The turns of each loop, by its variable. Where conditions end it, usually few are taken."""
    few = found.program.limited() | {n.variable for n in key.narrowed}
    return {v: min(n, GUESSED) if v in few else n for v, n in enumerate(found.sizes) if v >= found.program.dims}


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
        starts = [*accumulate((16 * o.found.sizes[n.dimension] for n in o.key.narrowed), initial=0)]
        ranges = opened.allocate(starts[-1]) if o.ends else out.data
        arguments: list[Any] = [out.data, np.int64(out.offset), ranges, *map(np.int64, starts)]
        for name in o.found.tensors:
            arguments += [own.memory[name].data, np.int64(own.memory[name].offset)]
        arguments += [np.int64(n) for n in o.found.sizes]
        arguments += [np.int64(s) for s in strides]
        for number_, d in o.key.places:
            tensor = tensors[o.found.tensors[number_]]
            stride = tensor.explicit_strides[d] * tensor.data_type.dtype.itemsize
            arguments += [np.int64(tensor.sizes[d] - 1), np.int64(stride)]
        if o.ends:
            calls.append(ExactCall(workspace, partial(_ends, o, arguments)))
        sizes = o.found.sizes[: o.found.program.dims]
        listing = None
        if o.lists:
            layout = Layout(sizes, strides, itemsize)
            decide = partial(_decided, o.decision, in_order(sizes, range(len(sizes))), o.found.tensors, own)
            listing = Listing(1, lambda: None, decide, layout, alone=False, beforehand=False)
        calls.append(ElementCall(opened, workspace, Stage(o.text, arguments), prod(sizes), o.units, out, listing, o.group))
    return calls


def _ends(o: NestOutput, arguments: Sequence[Any]) -> list[Launch]:
    """The kernels that find the ends of loops."""
    return [
        Launch(opencl.program([text]), "ends", arguments, o.found.sizes[n.dimension], 16 * o.found.sizes[n.variable])
        for text, n in zip(o.ends, o.key.narrowed, strict=True)
    ]


def _decided(
    decision: Decision, places: Numbering, names: Sequence[str], own: Copies, entries: NDArray[np.int64], arrays: Any
) -> NDArray[Any]:
    arrays = own.arrays(arrays)
    return decision.at({name: arrays(name) for name in names}, places.at(entries[:, 0]))


def _arguments(key: NestKey) -> list[Argument]:
    program = key.program
    found = [Argument("ptr", "output"), Argument("i64", "start"), Argument("ptr", "ranges")]
    found += [Argument("i64", f"range{k}") for k in range(len(key.narrowed) + 1)]
    for t in range(len(program.types)):
        found += [Argument("ptr", f"t{t}"), Argument("i64", f"o{t}")]
    found += [Argument("i64", f"size{v}") for v in range(len(program.bits))]
    found += [Argument("i64", f"step{d}") for d in range(program.dims)]
    return found + [Argument("i64", f"{kind}{t}_{d}") for t, d in key.places for kind in ("last", "stride")]


@lru_cache(maxsize=256)
def emitted(key: NestKey, narrow: bool, stage: str, group: int = 1) -> tuple[str, bool, int]:
    """The kernel of a nest's elements, whether it lists some, and the units of work for a term of one.

    group: the work items that compute an element.
    """
    program = key.program
    body = Body(opencl.target(stage))
    # there are as many groups as elements
    i = number(body) if group == 1 else body.call("group_id", WORD) + Value(body, "%first", WORD)
    own = body.call("local_id", WORD) if group > 1 else i
    at = body.at("%output", "%start")
    index = {}
    for d, x in enumerate(index_of(body, i, [f"%size{d}" for d in range(1, program.dims)], narrow=narrow)):
        at = body.at(at, (x * Value(body, f"%step{d}", WORD)).name)
        index[d] = Index(x, known_integer(0, (1 << program.bits[d]) - 1))
    walk = _walk(body, key)
    walk.sharing = GroupSharing(body, own, group) if group > 1 else None
    elements = NestElements(body, key, walk, 0)
    for k, n in enumerate(key.narrowed):
        ends = [body.loaded(WORD, _end(body, k, index[n.dimension].value, which)) for which in (0, 1)]
        walk.ranges.setdefault((n.reduction, n.variable), []).append((ends[0], ends[1]))
    with walk.scope(index):
        walk.fill(program.roots)
        bits, guard = elements.stored(walk.item(program.roots[0]), key.data_types[0])
    if group > 1:
        body.branch(own.compared("eq", 0).name, "first_item", "end")
        body.label("first_item")
    body.stored(bits, at)
    if guard is not None:
        note(body, left_by_first_stage(guard), [i])
    end(body)
    arguments = [*_arguments(key), *RANGE, *(LISTED if guard is not None else ())]
    return opencl.kernel("kernel_", arguments, body, group if group > 1 else 0), guard is not None, len(body.lines)


@lru_cache(maxsize=256)
def ends_of(key: NestKey, k: int, stage: str) -> str:
    """The kernel "ends": for each index of a dimension, the half-open range of a loop's variable where conditions may hold."""
    program, n = key.program, key.narrowed[k]
    body = Body(opencl.target(stage))
    x = number(body)
    walk = _walk(body, key)
    dimension = Index(x, known_integer(0, (1 << program.bits[n.dimension]) - 1))
    size = Value(body, f"%size{n.variable}", WORD)

    def turn(i: str, ends: list[Value]) -> list[Value]:
        at = Value(body, i, WORD)
        variable = Index(at, known_integer(0, (1 << program.bits[n.variable]) - 1))
        with walk.scope({n.dimension: dimension, n.variable: variable}):
            walk.fill_known(*n.conditions)
            may: Value | None = None
            for c in n.conditions:
                truth = walk.truth(c)
                mask = truth.mask if truth.guard is None else truth.mask | truth.guard
                may = mask if may is None else may & mask
        assert may is not None
        first = body.chosen(may & at.compared("slt", ends[0]), at, ends[0])
        return [first, body.chosen(may, at + 1, ends[1])]

    _, ends = body.loop("0", size.name, 1, [size + 0, size.lift(0)], turn)
    for which in (0, 1):
        body.stored(ends[which], _end(body, k, x, which))
    end(body)
    return opencl.kernel("ends", [*_arguments(key), *RANGE], body)


def _walk(body: Body, key: NestKey) -> NestWalk:
    program = key.program
    bases = {t: body.at(f"%t{t}", f"%o{t}") for t in range(len(program.types))}
    sizes = {v: f"%size{v}" for v in range(len(program.bits))}
    places = {(t, d): (f"%last{t}_{d}", f"%stride{t}_{d}") for t, d in key.places}
    return NestWalk(body, program, key.data_types[0], sizes, places, bases, 0, reduced)


def _end(body: Body, k: int, x: Value, which: int) -> str:
    """The place of a loop's first value, or of the one behind its last, for an index of a dimension."""
    return body.at(body.at("%ranges", f"%range{k}"), ((x << 4) + 8 * which).name)
