"""`compare`: a model's tensors as another runtime computes them, each node judged against its exact result.

First all tensors are made outputs of the model. This may keep the runtime from fusing nodes. If it changes the model's own
outputs, the tensors that change them are found and left out, and the nodes around each of them are judged as one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto

from anydml.errors import BindingError, Error, Fault
from anydml.onnx import compare_models as models
from anydml.onnx import compare_quantised
from anydml.onnx.compare_carried import carried, with_error
from anydml.onnx.compare_judge import deviation, worst
from anydml.onnx.compare_results import (
    BEYOND,
    EQUAL,
    ROUNDING,
    UNBOUNDED,
    UNJUDGED,
    ModelComparison,
    NodeComparison,
)
from anydml.onnx.compare_runtimes import Run, named_as
from anydml.onnx.errors import ModelError
from anydml.onnx.model import Model, load
from anydml.onnx.read import by_name
from anydml.onnx.values import Array

EXPLAINED = 8  # the most differing nodes whose cause is sought
CARRIED = 4  # the most nodes beyond rounding whose errors are carried to the model's outputs
Progress = Callable[[str, int, int], None]  # (the task, how much of it is done, the total)


def compare(
    model: str | os.PathLike[str] | ModelProto,
    inputs: Mapping[str, Any],
    run: Run | None = None,
    *,
    actual: Mapping[str, Any] | None = None,
    seconds: float = 60,
    progress: Progress | None = None,
) -> ModelComparison:
    """Compare a model's tensors, as another runtime computes them, with the exact ones, node by node.

    inputs: arrays by name. run: a function of a ModelProto and inputs that returns the outputs by name, or as a list in the
    model's order. It is called for the model itself, and for the model with more tensors as outputs. actual: recorded tensors
    by name, instead of `run`. seconds: the time to find out which of the runtime's fusions give other numbers. progress: is
    called with a task, how much of it is done, and the total. ModelError for a model that cannot be read; BindingError for
    inputs or tensors that do not fit.
    """
    if (run is None) == (actual is None):
        raise TypeError("compare takes either run=, a function, or actual=, tensors by name")
    read = load(model)
    proto = models.named(read.proto)
    given = {name: np.array(x, order="C", copy=None) for name, x in by_name(inputs).items()}
    exact, notes = _exact(load(proto), given)
    whole = _Whole(proto, read, given, exact, progress or _silent)
    if run is not None:
        known, more = whole.observed(run, seconds)
    else:
        assert actual is not None
        known, more = whole.recorded(by_name(actual, "actual takes tensors"))
    return ModelComparison(whole.judged(known), (*notes, *more))


def _silent(doing: str, done: int, total: int) -> None:
    pass


def _exact(model: Model, inputs: Mapping[str, Any]) -> tuple[dict[str, Array], list[str]]:
    """The exact tensors of the model, and notes; no tensors, and a note that says so, if a node is refused."""
    try:
        return model.run(inputs, keep="all"), []
    except ModelError as error:
        return {}, [f"There are no accumulated errors, for the model as a whole is refused: {error}"]


class _Whole:
    """A model with inputs, and its exact tensors if they are known."""

    def __init__(
        self, proto: ModelProto, model: Model, inputs: Mapping[str, Array], exact: Mapping[str, Array], progress: Progress
    ) -> None:
        self.proto, self.inputs, self.exact, self.progress = proto, inputs, exact, progress
        self.outputs = list(model.outputs)
        self.constants = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer if t.name not in inputs}
        self.nodes = [node for node in proto.graph.node if not self._constant(node)]
        self.asked = [name for node in self.nodes for name in node.output if name]

    def _constant(self, node: NodeProto) -> bool:
        """Whether a node reads only constants; then its outputs become constants too, if they can be computed."""
        if not all(name in self.constants for name in models.reads(node)):
            return False
        names = [name for name in node.output if name]
        if all(name in self.exact for name in names):
            self.constants |= {name: self.exact[name] for name in names}
            return True
        try:
            proto, _ = models.cut(self.proto, [node], self.constants, self.constants, names)
            self.constants |= load(proto).run({})
        except Error:
            return False
        return True

    # --- what the other runtime computes ---

    def observed(self, run: Run, seconds: float) -> tuple[dict[str, Array], list[str]]:
        """The tensors of the other runtime that can be made outputs without changing the model's own outputs."""
        self.progress("running the model", 0, 2)
        plain = self._ran(run, self.proto, self.outputs)
        typed = onnx.shape_inference.infer_shapes(self.proto)
        others = [name for name in self.asked if name not in plain]
        self.progress("running it for every tensor", 1, 2)
        found = self._ran(run, models.marked(typed, others), [*self.outputs, *others])
        if _same(plain, found):
            return found, []
        kept: list[str] = []
        groups, end, left = [others], time.monotonic() + seconds, len(others)
        while groups and time.monotonic() < end:
            group = groups.pop()
            self.progress("looking for fusions that give other numbers", len(others) - left, len(others))
            tried = self._ran(run, models.marked(typed, kept + group), [*self.outputs, *kept, *group])
            if _same(plain, tried):
                kept += group
                left -= len(group)
            elif len(group) == 1:
                left -= 1
            else:
                groups += [group[len(group) // 2 :], group[: len(group) // 2]]
        found = self._ran(run, models.marked(typed, kept), [*self.outputs, *kept]) if kept else plain
        if not _same(plain, found):
            found, kept = plain, []
        hidden = [name for name in others if name not in found]
        late = "" if not left else f", as far as {seconds:g} seconds could tell"
        change = "1 tensor changes" if len(hidden) == 1 else f"{len(hidden)} tensors change"
        asked = "it is" if len(hidden) == 1 else "they are"
        return found, [*self._fusions(found), f"{change} the model's outputs when {asked} asked for{late}"]

    def _fusions(self, found: Mapping[str, Array]) -> list[str]:
        fused = [part for part in self.parts(found) if len(part) > 1]
        return [f"The other runtime's fusion of {part[0].name}..{part[-1].name} gives other numbers" for part in fused]

    def _ran(self, run: Run, proto: ModelProto, names: Iterable[str]) -> dict[str, Array]:
        made = run(proto, self.inputs)
        if isinstance(made, (list, tuple)):
            made = dict(zip((output.name for output in proto.graph.output), made, strict=False))
        made = by_name(made, "run returns outputs")
        return self._fitting({name: made[name] for name in names if name in made}, [n for n in names if n not in made])

    def recorded(self, actual: Mapping[str, Any]) -> tuple[dict[str, Array], list[str]]:
        """The recorded tensors, with notes about those that the model does not compute."""
        actual = named_as(actual, [*self.asked, *self.constants, *self.inputs])
        made = self._fitting({name: np.asarray(x) for name, x in actual.items() if name in self.asked}, [])
        if not made:
            raise BindingError([Fault("actual", "none of its tensors is computed by a node of the model")])
        known = {*self.asked, *self.constants, *self.inputs, *self.exact}
        other = [name for name in actual if name not in known]
        notes = [f"The model has no tensors {', '.join(sorted(other))}"] if other else []
        if missing := [name for name in self.asked if name not in made]:
            were = "was" if len(missing) == 1 else "were"
            around = "it" if len(missing) == 1 else "them"
            notes.append(
                f"{len(missing)} of {len(self.asked)} tensors {were} not recorded; nodes around {around} are judged as one"
            )
        return made, notes

    def _fitting(self, made: Mapping[str, Any], missing: Sequence[str]) -> dict[str, Array]:
        """The tensors as arrays; BindingError if their sizes or types are not those of the exact tensors."""
        faults = [Fault(name, "is missing among the other runtime's outputs") for name in missing]
        found = {}
        for name, x in made.items():
            array = np.asarray(x)
            if (due := self.exact.get(name)) is not None and (array.shape, array.dtype) != (due.shape, due.dtype):
                faults.append(Fault(name, f"is {array.dtype} {array.shape}, and must be {due.dtype} {due.shape}"))
            found[name] = array
        if faults:
            raise BindingError(faults)
        return found

    # --- the judgement ---

    def parts(self, known: Mapping[str, Array]) -> list[list[NodeProto]]:
        """The nodes in the model's order, grouped if a tensor between them is not known."""
        part = list(range(len(self.nodes)))

        def root(i: int) -> int:
            while part[i] != i:
                part[i] = part[part[i]]
                i = part[i]
            return i

        writer = {name: i for i, node in enumerate(self.nodes) for name in node.output if name}
        for i, node in enumerate(self.nodes):
            for name in models.reads(node):
                if name in writer and name not in known:
                    one, other = sorted((root(i), root(writer[name])))
                    part[other] = one
        found: dict[int, list[NodeProto]] = {}
        for i, node in enumerate(self.nodes):
            found.setdefault(root(i), []).append(node)
        return list(found.values())

    def judged(self, known: Mapping[str, Array]) -> tuple[NodeComparison, ...]:
        """A row for each node, or for several that are judged as one."""
        parts = self.parts(known)
        values = {**self.constants, **self.inputs, **known}
        rows: list[NodeComparison] = []
        for i, nodes in enumerate(parts):
            self.progress("judging nodes", i, len(parts))
            explain = sum(row.departs for row in rows) < EXPLAINED
            rows.append(self._row(nodes, values, known, explain))
        self.progress("judging nodes", len(parts), len(parts))
        return tuple(self._with_carried(parts, rows, values, known))

    def _with_carried(
        self,
        parts: list[list[NodeProto]],
        rows: list[NodeComparison],
        values: Mapping[str, Array],
        known: Mapping[str, Array],
    ) -> list[NodeComparison]:
        """The rows; those that are farthest beyond rounding with their errors carried to the model's outputs."""
        if any(name not in self.exact for name in self.outputs):
            return rows
        beyond = [i for i, row in enumerate(rows) if row.verdict == BEYOND]
        made = [*rows]
        for i in sorted(beyond, key=lambda i: -rows[i].excess)[:CARRIED]:
            try:
                proto, given = models.cut(self.proto, parts[i], values, self.constants, rows[i].writes)
                off = {n: with_error(self.exact[n], x, known[n]) for n, x in models.judge(proto, given).exact.items()}
                held = {**self.constants, **self.inputs, **self.exact}
                made[i] = replace(rows[i], carried=carried(self.proto, self.nodes, held, self.constants, off, self.outputs))
            except Error:  # such as an index that the error makes too large
                continue
        return made

    def _row(
        self, nodes: list[NodeProto], values: Mapping[str, Array], known: Mapping[str, Array], explain: bool
    ) -> NodeComparison:
        outputs = [name for node in nodes for name in node.output if name in known]
        written = {name for node in nodes for name in node.output}
        read = dict.fromkeys(n for node in nodes for n in models.reads(node) if n not in written and n not in self.constants)
        far = [deviation(self.exact[name], known[name]) for name in outputs if name in self.exact]
        accumulated = worst(far) if far else None
        fields: dict[str, Any] = dict(
            nodes=tuple(node.name for node in nodes),
            operators=tuple(node.op_type for node in nodes),
            reads=tuple(read),
            writes=tuple(outputs),
            accumulated=accumulated,
        )
        if not outputs:
            return NodeComparison(**fields, own=None, verdict=UNJUDGED, reason="none of its outputs is known")
        try:
            proto, given = models.cut(self.proto, nodes, values, self.constants, outputs)
            found = models.judge(proto, given).judged(known, explain)
        except Error as error:
            return NodeComparison(**fields, own=None, verdict=UNJUDGED, reason=str(error))
        if not found.own.differing:
            return NodeComparison(**fields, own=found.own, verdict=EQUAL)
        cause = found.cause
        if cause is None and explain and len(nodes) > 1:
            cause = compare_quantised.cause(self.proto, nodes, values, self.constants, known)
        return NodeComparison(
            **fields,
            own=found.own,
            verdict=UNBOUNDED if found.beyond is None else BEYOND if found.beyond else ROUNDING,
            beyond=found.beyond or 0,
            excess=found.excess,
            forms=found.forms,
            cause="" if cause is None else f"It equals {cause.sentence} in {cause.equal} of {cause.outputs} outputs",
            deviation="" if cause is None else cause.name,
        )


def _same(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Whether each tensor of the first has the same bits in the second."""
    return all(np.array_equal(_bits(x), _bits(other[name])) for name, x in one.items())


def _bits(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)
