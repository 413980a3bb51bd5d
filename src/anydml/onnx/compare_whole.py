"""A model of any format with the tensors that another runtime computed: each node judged against its exact result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from anydml.errors import BindingError, Error, Fault
from anydml.explain.comparison import Cause
from anydml.onnx.compare_carried import carried, with_error
from anydml.onnx.compare_details import Details
from anydml.onnx.compare_judge import Cut, Explain, Judgement, deviation, worst
from anydml.onnx.compare_results import BEYOND, EQUAL, ROUNDING, UNBOUNDED, UNJUDGED, NodeComparison
from anydml.onnx.values import Array

EXPLAINED = 8  # the most nodes whose cause is sought: of those beyond rounding, and of the first that differ
CARRIED = 4  # the most nodes beyond rounding whose errors are carried to the model's outputs
Progress = Callable[[str, int, int], None]  # (the task, how much of it is done, the total)


class Part(NamedTuple):
    """A node. reads: the tensors that it reads, each once; writes: those that it writes. source: the node in its format."""

    name: str
    operator: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    source: Any


class Format(Protocol):
    """The nodes of a format as models of their own, and the causes that only the format knows."""

    def cut(self, nodes: Sequence[Part], values: Mapping[str, Array], outputs: Sequence[str]) -> Cut:
        """A few nodes on known inputs. values: the tensors that they read, by name."""

    def cause(
        self, nodes: Sequence[Part], values: Mapping[str, Array], known: Mapping[str, Array], beyond: bool
    ) -> Cause | None:
        """The cause of the differences in nodes for which the general search finds none. beyond: whether rounding is none."""

    def refined(
        self,
        found: Judgement,
        cause: Cause | None,
        nodes: Sequence[Part],
        values: Mapping[str, Array],
        known: Mapping[str, Array],
        outputs: Sequence[str],
    ) -> tuple[Judgement, Cause | None]:
        """The judgement and the cause, with what only the format allows its nodes."""


def silent(doing: str, done: int, total: int) -> None:
    pass


class Whole:
    """A model with inputs, and its exact tensors if they are known.

    outputs: the names of the model's outputs. constants: the tensors that are the same in every run.
    """

    def __init__(
        self,
        format: Format,
        nodes: Sequence[Part],
        outputs: Sequence[str],
        constants: Mapping[str, Array],
        inputs: Mapping[str, Array],
        exact: Mapping[str, Array],
        progress: Progress,
    ) -> None:
        self.format, self.nodes, self.outputs = format, nodes, outputs
        self.constants, self.inputs, self.exact, self.progress = constants, inputs, exact, progress
        self.asked = [name for node in nodes for name in node.writes]
        self.details: Details | None = None  # what keeps details for a page

    def recorded(self, actual: Mapping[str, Any]) -> tuple[dict[str, Array], list[str]]:
        """The recorded tensors, with notes about those that the model does not compute."""
        made = self.fitting({name: np.asarray(x) for name, x in actual.items() if name in self.asked}, [])
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

    def fitting(self, made: Mapping[str, Any], missing: Sequence[str]) -> dict[str, Array]:
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

    def parts(self, known: Mapping[str, Array]) -> list[list[Part]]:
        """The nodes in the model's order, grouped if a tensor between them is not known."""
        part = list(range(len(self.nodes)))

        def root(i: int) -> int:
            while part[i] != i:
                part[i] = part[part[i]]
                i = part[i]
            return i

        writer = {name: i for i, node in enumerate(self.nodes) for name in node.writes}
        for i, node in enumerate(self.nodes):
            for name in node.reads:
                if name in writer and name not in known:
                    one, other = sorted((root(i), root(writer[name])))
                    part[other] = one
        found: dict[int, list[Part]] = {}
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
            beyond = sum(row.verdict == BEYOND for row in rows) < EXPLAINED
            first = sum(row.departs for row in rows) < EXPLAINED
            rows.append(self._row(nodes, values, known, "all" if first else "beyond" if beyond else "none"))
        self.progress("judging nodes", len(parts), len(parts))
        return tuple(self._with_carried(parts, rows, values, known))

    def _with_carried(
        self,
        parts: list[list[Part]],
        rows: list[NodeComparison],
        values: Mapping[str, Array],
        known: Mapping[str, Array],
    ) -> list[NodeComparison]:
        """The rows; those that are farthest beyond rounding with their errors carried to the model's outputs."""
        if any(name not in self.exact for name in (*self.outputs, *self.asked)):
            return rows
        beyond = [i for i, row in enumerate(rows) if row.verdict == BEYOND]
        made = [*rows]
        for i in sorted(beyond, key=lambda i: -rows[i].excess)[:CARRIED]:
            try:
                found = self.format.cut(parts[i], values, rows[i].writes)
                off = {n: with_error(self.exact[n], x, known[n]) for n, x in found.exact.items()}
                held = {**self.constants, **self.inputs, **self.exact}
                made[i] = replace(rows[i], carried=carried(self.format.cut, self.nodes, held, off, self.outputs))
            except Error:  # such as an index that the error makes too large
                continue
        return made

    def _row(
        self, nodes: list[Part], values: Mapping[str, Array], known: Mapping[str, Array], explain: Explain
    ) -> NodeComparison:
        outputs = [name for node in nodes for name in node.writes if name in known]
        written = {name for node in nodes for name in node.writes}
        read = dict.fromkeys(n for node in nodes for n in node.reads if n not in written and n not in self.constants)
        far = [deviation(self.exact[name], known[name]) for name in outputs if name in self.exact]
        accumulated = worst(far) if far else None
        fields: dict[str, Any] = dict(
            nodes=tuple(node.name for node in nodes),
            operators=tuple(node.operator for node in nodes),
            reads=tuple(read),
            writes=tuple(outputs),
            accumulated=accumulated,
        )
        if not outputs:
            return NodeComparison(**fields, own=None, verdict=UNJUDGED, reason="none of its outputs is known")
        try:
            cut = self.format.cut(nodes, values, outputs)
            found = cut.judged(known, explain)
        except Error as error:
            return NodeComparison(**fields, own=None, verdict=UNJUDGED, reason=str(error))
        if not found.own.differing:
            return NodeComparison(**fields, own=found.own, verdict=EQUAL)
        if self.details is not None:
            self.details.note(nodes, cut, values, outputs, known)
        cause = found.cause
        sought = explain == "all" or (explain == "beyond" and found.beyond != 0)
        if cause is None and sought:
            cause = self.format.cause(nodes, values, known, bool(found.beyond))
        found, cause = self.format.refined(found, cause, nodes, values, known, outputs)
        return NodeComparison(
            **fields,
            own=found.own,
            verdict=UNBOUNDED if found.beyond is None else BEYOND if found.beyond else ROUNDING,
            beyond=found.beyond or 0,
            excess=found.excess,
            forms=found.forms,
            estimated=found.estimated,
            cause="" if cause is None else f"{cause.equals} in {cause.equal} of {cause.outputs} outputs",
            deviation="" if cause is None else cause.name,
        )
