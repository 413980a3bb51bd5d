"""Rows on OpenCL devices: sums, extremes, positions, and maps with these, each row by a group of work items, or by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.steps import At
from anydml.kernels.code import opencl
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.opencl import Argument
from anydml.kernels.code.targets import wanted
from anydml.kernels.code.values import Body, Kind, Value, left_by_first_stage, left_by_second_stage
from anydml.kernels.elementwise.geometry import MapDimension, merged
from anydml.kernels.elementwise.items import stored_item
from anydml.kernels.elementwise.levels import stored_quickly
from anydml.kernels.elementwise.runs import TensorStart
from anydml.kernels.elementwise.streams import CONSTANT, PLACE, POSITION, STRIDED
from anydml.kernels.evaluate.tally import Counted
from anydml.kernels.kernel import Built, DeviceCall, DeviceMemory, Machine, Refused
from anydml.kernels.match.rows import Rows, rows
from anydml.kernels.match.several import several
from anydml.kernels.opencl.calls import (
    INT,
    KEPT,
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
from anydml.kernels.opencl.groups import together
from anydml.kernels.opencl.maps import FEW_ARGUMENTS, NARROW
from anydml.kernels.opencl.overlap import Copies
from anydml.kernels.problem import Problem
from anydml.kernels.reduce import softmax
from anydml.kernels.reduce.accumulator import Accumulator, Compensated
from anydml.kernels.reduce.joint import JOINT
from anydml.kernels.reduce.key import SHORT, ReductionKey, same_along
from anydml.kernels.reduce.moments import MOMENTS_OF, with_moments
from anydml.kernels.reduce.passes import joined, of_lines
from anydml.kernels.reduce.walk import RowWalk
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import Numbering
from anydml.schema.statement import Nest
from anydml.tensor import DataType

BLOCK = 64  # terms that a work item adds up before their sum is added to others
GROUPED = 48  # elements from which on a group of work items computes a row
LARGEST = 256  # work items of a group, at most
LONGEST = 1 << 26  # elements of a row


class RowKey(NamedTuple):
    """The part of rows that their kernel's text depends on.

    rows: the formula, the types and layouts. inner: the dimensions of a row. group: the work items that compute one.
    """

    rows: ReductionKey
    inner: int
    group: int
    narrow: bool


class RowsOutput(NamedTuple):
    """An output whose rows are computed."""

    rows: Rows
    key: RowKey
    outer: list[MapDimension]
    row: list[MapDimension]
    names: list[str | None]
    starts: list[int]
    types: tuple[DataType, ...]
    decision: Decision


def lower(problem: Problem, machine: Machine) -> Built | Refused:
    """The rows of all outputs."""
    host = wanted(machine.isa, machine.stage)
    if isinstance(host, str):
        return Refused(host)
    found = rows(problem.statement) if len(problem.statement) == 1 else several(problem.statement)
    if isinstance(found, str):
        return Refused(found)
    each = {found.output: found} if isinstance(found, Rows) else found
    outputs = []
    for name, r in each.items():
        if not isinstance(r, Rows):
            return Refused("one of several outputs is no reduction")
        made = _output(r, problem.statement[name], problem, host, machine.stage)
        if isinstance(made, str):
            return Refused(made)
        outputs.append(made)
    counted = Counted() if any(emitted(o.key, machine.stage, careful=False)[1] for o in outputs) else None
    return Built(unbound, counted=counted, on_device=partial(_bound, outputs, problem, machine.stage))


def _output(r: Rows, nest: Nest, problem: Problem, host: Any, stage: str) -> RowsOutput | str:
    tensors = problem.tensors
    r = r._replace(formula=softmax.with_rests(r.formula))
    types = (*(s.data_type for s in r.streams), tensors[r.output].data_type)
    if any(t.element_bits < 8 for t in types):
        return "elements are of four bits"
    if r.formula[-1].op == "several":
        return "there are several results of a row"
    places = {name: TensorStart(At(name), t) for name, t in tensors.items()}
    placed = [(s.start[0], [step[0] for step in s.steps]) if s.name is None else places[s.name].of(s) for s in r.streams]
    placed.append(places[r.output].of(r.result))
    sizes = (*r.kept, *r.reduced)
    dims = [MapDimension(n, tuple(steps[d] for _, steps in placed)) for d, n in enumerate(sizes)]
    none = MapDimension(1, tuple(0 for _ in types))
    outer, row = merged(dims[: len(r.kept)]) or [none], merged(dims[len(r.kept) :]) or [none]
    count = prod(r.reduced)
    if count > LONGEST or (count > MOMENTS_OF and r.mapped):
        return "rows are too long"
    plain = with_moments(r.formula, count)
    moves = [any(d.strides[k] for d in row) for k in range(len(types))]
    layouts = tuple(
        (POSITION if moves[k] else PLACE)
        if k < len(r.streams) and r.streams[k].name is None
        else STRIDED if moves[k] or k == len(r.streams) else CONSTANT
        for k in range(len(types))
    )  # fmt: skip
    most = 1 << max(count - 1, 0).bit_length()
    apart = outer[-1].size >= LARGEST and all(
        outer[-1].strides[k] <= t.dtype.itemsize < row[-1].strides[k] for k, t in enumerate(types) if moves[k]
    )
    group = 1 if count < GROUPED or (apart and count <= 1 << 16) else min(LARGEST, max(64, most // 8))
    key = ReductionKey(
        plain, r.mapped, r.integral, types, layouts, len(outer), 0, SHORT, most, most, len(row), 1, False, (), 1, plain
    )
    item = RowKey(key, len(row), group, prod(r.kept) * count < NARROW)
    if 8 * len(_arguments(item)) > FEW_ARGUMENTS:
        return "there are too many inputs"
    try:
        emitted(item, stage, careful=False)
    except Uncompilable as error:
        return str(error)
    starts = [start if isinstance(start, int) else start.offset for start, _ in placed]
    names = [*(s.name for s in r.streams), r.output]
    return RowsOutput(r, item, outer, row, names, starts, types, Decision(nest, types[-1], host))


def _bound(
    outputs: Sequence[RowsOutput], problem: Problem, stage: str, workspace: Workspace, memory: Mapping[str, DeviceMemory]
) -> Sequence[DeviceCall]:
    opened, tensors = workspace.opened, problem.tensors
    own = Copies(opened, memory, tensors, [o.rows.output for o in outputs])
    calls: list[DeviceCall] = [own] if own else []
    for o in outputs:
        r = o.rows
        text, lists, units, improves = emitted(o.key, stage, careful=False)
        arguments: list[Any] = []
        for name, start in zip(o.names, o.starts, strict=True):
            if name is None:
                arguments.append(np.int64(start))
            else:
                arguments += [own.memory[name].data, np.int64(own.memory[name].offset + start)]
        count = prod(d.size for d in o.row)
        arguments += [np.int64(count), *(np.int64(d.size) for d in (*o.outer[1:], *o.row[1:]))]
        arguments += [np.int64(d.strides[k]) for k in range(len(o.types)) for d in (*o.outer, *o.row)]
        listing = None
        if lists:
            place = Numbering((*r.kept, *(r.reduced if r.mapped else ())), r.result.steps, r.result.start)
            place = place._replace(steps=r.result.steps[: len(place.sizes)])
            dims = [*o.outer, *(o.row if r.mapped else ())]
            layout = Layout([d.size for d in dims], [d.strides[-1] for d in dims], o.types[-1].dtype.itemsize)
            decide = partial(_decided, o.decision, place, [n for n in {*o.names[:-1]} if n is not None], own)
            second = partial(_second, o.key, stage, arguments) if improves and not r.mapped else _no_second
            listing = Listing(1, second, decide, layout, alone=False, beforehand=False)
        out = own.memory[r.output]
        shifted = out._replace(offset=out.offset + o.starts[-1])
        rows_ = prod(r.kept)
        work = units * -(-count // o.key.group)
        each = count if r.mapped else 1
        calls.append(ElementCall(opened, workspace, Stage(text, arguments), rows_, work, shifted, listing, o.key.group, each))
    return calls


def _no_second() -> None:
    return None


def _second(key: RowKey, stage: str, arguments: Sequence[Any]) -> Stage | None:
    try:
        return Stage(emitted(key, stage, careful=True)[0], arguments)
    except Uncompilable:
        return None


def _decided(
    decision: Decision, place: Numbering, names: Sequence[str], own: Copies, entries: NDArray[np.int64], arrays: Any
) -> NDArray[Any]:
    arrays = own.arrays(arrays)
    return decision.at({name: arrays(name) for name in names}, place.at(entries[:, 0]))


def _arguments(key: RowKey) -> list[Argument]:
    layouts, outer, inner = key.rows.layouts, key.rows.outer, key.inner
    found: list[Argument] = []
    for k, how in enumerate(layouts):
        found += [] if how in (POSITION, PLACE) else [Argument("ptr", f"p{k}")]
        found.append(Argument("i64", f"o{k}"))
    found.append(Argument("i64", "n"))
    found += [Argument("i64", f"n{d}") for d in range(1, outer)] + [Argument("i64", f"m{d}") for d in range(1, inner)]
    for k in range(len(layouts)):
        found += [Argument("i64", f"s{k}_{d}") for d in range(outer)] + [Argument("i64", f"t{k}_{d}") for d in range(inner)]
    return found


@lru_cache(maxsize=256)
def emitted(key: RowKey, stage: str, *, careful: bool) -> tuple[str, bool, int, bool]:
    """The kernel of rows; whether it lists elements; the units of work for a term; whether careful sums may decide more.

    careful: the second stage, of the rows on a list.
    """
    return _RowItems(key, stage, careful=careful).made()


class _RowItems:
    def __init__(self, key: RowKey, stage: str, *, careful: bool) -> None:
        self.key, self.careful = key, careful
        self.body = Body(opencl.target(stage))
        self.group = key.group
        self.bases: list[Value] = []  # the byte at which the row begins in every stream, or its first position
        self.own = Value(self.body, "0", WORD)  # the work item's number in its group
        self.slots = 0

    def made(self) -> tuple[str, bool, int, bool]:
        body, key = self.body, self.key.rows
        if any(node.op == JOINT for node in key.formula):
            raise Uncompilable("two rows are reduced together")
        r = self._row_number()
        self._begin(r)
        walk = RowWalk(body, key, same_along(key), careful=self.careful)
        for k, how in enumerate(key.layouts[:-1]):
            if how == PLACE:
                walk.streams[k] = self.bases[k]
            elif how == CONSTANT:
                walk.streams[k] = body.loaded(Kind(f"i{key.types[k].element_bits}"), self._place(k, self.bases[k]))
        if walk.has_moments:
            self._put(walk, Value(body, "0", WORD))
            walk.begin_row()
        for s in range(len(walk.stages.passes)):
            walk.fill_row(s)
            self._pass(walk, s)
        walk.fill_row(len(walk.stages.passes))
        if key.mapped:
            walk.prepare(self._depth())
            lists = self._map(walk, r)
        else:
            lists = self._one(walk, r)
        end(body)
        arguments = _arguments(self.key) + (LISTED + KEPT if self.careful else RANGE + (LISTED if lists else []))
        text = opencl.kernel("kernel_", arguments, body, self.group if self.group > 1 else 0)
        return text, lists, len(body.lines), walk.improves

    # --- rows and their elements ---

    def _row_number(self) -> Value:
        body = self.body
        if self.group > 1:
            self.own = body.call("local_id", WORD)
        # there are as many groups as rows: a barrier within a branch is more than some drivers compile correctly
        if self.careful:
            at = body.call("group_id" if self.group > 1 else "global_id", WORD)
            if self.group == 1:
                counts = body.at("%counts", body.op("mul i64 %slot, 4"))
                listed = body.loaded(INT, counts).converted("zext", WORD)
                body.branch(at.compared("ult", listed).name, "inside", "end")
                body.label("inside")
            return body.loaded(WORD, body.at("%list", (at * 8).name))
        if self.group == 1:
            return number(body)
        return body.call("group_id", WORD) + Value(body, "%first", WORD)

    def _split(self, i: Value, name: str, dims: int) -> list[Value]:
        """The index of a numbered row, or of an element of a row, in every dimension."""
        return index_of(self.body, i, [f"%{name}{d}" for d in range(1, dims)], narrow=self.key.narrow)

    def _begin(self, r: Value) -> None:
        index = self._split(r, "n", self.key.rows.outer)
        for k in range(len(self.key.rows.layouts)):
            at = Value(self.body, f"%o{k}", WORD)
            for d, x in enumerate(index):
                at = at + x * Value(self.body, f"%s{k}_{d}", WORD)
            self.bases.append(at)

    def _place(self, k: int, offset: Value) -> str:
        return self.body.at(f"%p{k}", offset.name)

    def _offset(self, k: int, index: Sequence[Value]) -> Value:
        at = self.bases[k]
        for d, x in enumerate(index):
            at = at + x * Value(self.body, f"%t{k}_{d}", WORD)
        return at

    def _put(self, walk: RowWalk, i: Value) -> list[Value]:
        """Give a walk the elements at a place of the row; the result is its index."""
        key = self.key.rows
        index = self._split(i, "m", self.key.inner)
        for k, how in enumerate(key.layouts[:-1]):
            if how == POSITION:
                walk.streams[k] = self._offset(k, index)
            elif how == STRIDED:
                kind = Kind(f"i{key.types[k].element_bits}")
                walk.streams[k] = self.body.loaded(kind, self._place(k, self._offset(k, index)))
        return index

    # --- passes ---

    def _depth(self) -> int:
        """The most additions of a term: in its block, of blocks, of the rest, and among work items."""
        turns = -(-self.key.rows.most // self.group)
        return BLOCK + turns // BLOCK + BLOCK + self.group.bit_length() + 4

    def _turns(self) -> str:
        """The number of the work item's own elements: every so many of the row."""
        body = self.body
        n = Value(body, "%n", WORD)
        if self.group == 1:
            return n.name
        left = body.chosen(self.own.compared("ult", n), n - self.own, 0)
        return body.op(f"udiv i64 {(left + (self.group - 1)).name}, {self.group}")

    def _at(self, turn: str) -> Value:
        turn_ = Value(self.body, turn, WORD)
        return turn_ if self.group == 1 else self.own + turn_ * self.group

    def _pass(self, walk: RowWalk, s: int) -> None:
        body = self.body
        mark = len(body.lines)
        self._put(walk, Value(body, "0", WORD))
        accumulators = walk.accumulators(s, self._depth())
        del body.lines[mark:]  # this code only served to find the types of the accumulators
        walk.forget()
        starts = [v for a in accumulators for v in a.starts]

        def step(turn: str, values: list[Value]) -> list[Value]:
            i = self._at(turn)
            self._put(walk, i)
            walk.fill_pass(s)
            made = walk.stepped(s, accumulators, values, None, i)
            walk.forget()
            return made

        values = self._blocks(accumulators, starts, step)
        if self.group > 1:
            values = together(body, self.own, self.group, values, partial(_merged, accumulators))
        walk.finish(s, accumulators, [values], across=True)
        if any(p in walk.infinite for p in walk.stages.passes[s]):
            raise Uncompilable("two rows are reduced together")

    def _blocks(
        self, accumulators: list[Accumulator], starts: list[Value], step: Callable[[str, list[Value]], list[Value]]
    ) -> list[Value]:
        body, turns = self.body, self._turns()
        if all(a.any_order for a in accumulators):
            return body.loop("0", turns, 1, starts, step)[1]
        exact = all(isinstance(a, Compensated) for a in accumulators)
        if not exact and any(isinstance(a, Compensated) for a in accumulators):
            raise Uncompilable("moments beside other reductions")
        size = SHORT if exact else BLOCK
        begun = [v for a in accumulators for v in a.over_lines] if exact else starts

        def block(i: str, kept: list[Value]) -> list[Value]:
            _, made = body.loop(i, body.op(f"add i64 {i}, {size}"), 1, starts, step)
            return joined(accumulators, kept, made) if exact else _merged(accumulators, kept, made)

        i, kept = body.loop("0", turns, size, begun, block)
        if exact:
            kept = of_lines(accumulators, kept)
        return body.loop(i, turns, 1, kept, step)[1]

    # --- results ---

    def _one(self, walk: RowWalk, r: Value) -> bool:
        body, key = self.body, self.key.rows
        made, undecided = stored_item(body, walk.root(), key.types[-1], 0, integral=key.integral)
        after = body.name("stored")
        if self.group > 1:
            first = body.name("first")
            body.branch(self.own.compared("eq", 0).name, first, after)
            body.label(first)
        body.stored(made, self._place(len(key.types) - 1, self.bases[-1]))
        if undecided is not None:
            if self.careful:
                note(body, left_by_second_stage(undecided), [r], "%kept", 1)
            else:
                note(body, left_by_first_stage(undecided), [r])
        body.jump(after)
        body.label(after)
        return undecided is not None

    def _map(self, walk: RowWalk, r: Value) -> bool:
        body, key = self.body, self.key.rows
        n = Value(body, "%n", WORD)
        lists = False

        def element(turn: str, values: list[Value]) -> list[Value]:
            nonlocal lists
            i = self._at(turn)
            index = self._put(walk, i)
            made, bits = stored_quickly(walk, walk.root, 0, integral=key.integral)
            if bits != "0":
                undecided = Value(body, body.op(f"icmp ne i64 {bits}, 0"), Kind("i1"))
                if walk.less is not None:
                    plain = made

                    def closely() -> list[Value]:
                        other, left = walk.closely()
                        return [other, left_by_second_stage(left)]

                    made, undecided = body.either(
                        undecided.name, closely, lambda: [plain, body.constant(Kind("i1"), False)], seldom=True
                    )
                lists = True
                note(body, undecided, [r * n + i])
            body.stored(made, self._place(len(key.types) - 1, self._offset(len(key.types) - 1, index)))
            walk.forget()
            return values

        body.loop("0", self._turns(), 1, [], element)
        return lists


def _merged(accumulators: Sequence[Accumulator], a: list[Value], b: list[Value]) -> list[Value]:
    found: list[Value] = []
    for accumulator in accumulators:
        first, past = len(found), len(found) + len(accumulator.starts)
        found += accumulator.merged(a[first:past], b[first:past])
    return found
