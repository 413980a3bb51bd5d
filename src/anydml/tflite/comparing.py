"""`compare`: a model's tensors as another runtime computes them, each node judged against its exact result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anydml.errors import BindingError, Fault
from anydml.explain.comparison import Cause
from anydml.explain.precision import check_precision
from anydml.onnx.compare_details import Details
from anydml.onnx.compare_files import named_as
from anydml.onnx.compare_judge import Cut, Judgement
from anydml.onnx.compare_results import ModelComparison
from anydml.onnx.compare_whole import Part, Progress, Whole
from anydml.onnx.errors import ModelError
from anydml.onnx.values import Array, by_name
from anydml.progress import report, showing
from anydml.tflite.causes import FINDERS, cause
from anydml.tflite.model import Model, load
from anydml.tflite.read import Node, Read

Run = Callable[[bytes, Mapping[str, Array]], Mapping[str, Array]]


@showing
def compare(
    model: str | os.PathLike[str] | bytes | Model,
    inputs: Mapping[str, Any],
    run: Run | None = None,
    *,
    actual: Mapping[str, Any] | None = None,
    precision: str | None = None,
    progress: Progress | bool | None = None,
    details: bool = False,
) -> ModelComparison:
    """Compare a model's tensors, as another runtime computes them, with the exact ones, node by node.

    inputs: arrays by name. run: a function of the file's contents and inputs that returns tensors by name, such as `litert`.
    actual: recorded tensors, instead of `run`. Tensors have their name in the file, or their number as text. Nodes around
    tensors that are not known are judged as one. precision: the type that floats are said to be computed in, such as "float16",
    see `anydml.onnx.compare`. progress: is called with a task, how much of it is done, and the total; without it there is a bar
    in a terminal and in notebooks, and with False there is none. details: as in `anydml.onnx.compare`. ModelError for a model
    that cannot be read; BindingError for inputs or tensors that do not fit.
    """
    if (run is None) == (actual is None):
        raise TypeError("compare takes either run=, a function, or actual=, tensors by name")
    check_precision(precision)
    read = model if isinstance(model, Model) else load(model)
    given = {n: np.array(x, order="C", copy=None) for n, x in renamed(read, by_name(inputs)).items()}
    notes = [*read.notes]
    try:
        exact = read.run(given, keep="all")
    except ModelError as error:
        exact = {}
        notes.append(f"There are no accumulated errors, for the model as a whole is refused: {error}")
    if run is not None:
        actual = by_name(run(read.read.data, given), "run returns tensors")
    recorded = renamed(read, by_name(actual, "actual takes tensors"))
    inner = {n: x for n, x in recorded.items() if n not in read.constants and n not in given}
    nodes = [_part(n) for n in read.read.nodes if not _constant(read, n)]
    asked = progress if callable(progress) else report
    whole = Whole(_Format(read, precision), nodes, list(read.outputs), read.constants, given, exact, asked)
    known, more = whole.recorded(inner)
    whole.details = kept = Details() if details else None
    return ModelComparison(whole.judged(known), (*notes, *more), kept.found if kept else {})


def renamed(model: Model, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors by their names in the file; they may have their numbers, or names of the signature."""
    found = {}
    for name, x in named_as(tensors, model.tensors).items():
        if name not in model.tensors and name.isdecimal() and int(name) < len(model.read.tensors):
            name = model.read.tensors[int(name)].name
        found[model.aliases.get(name, name) if name not in model.tensors else name] = x
    return found


def _part(node: Node) -> Part:
    return Part(node.name, node.operator, node.reads, tuple(t.name for t in node.outputs), node)


def _constant(model: Model, node: Node) -> bool:
    """Whether a node reads only constants."""
    return all(name in model.constants for name in node.reads) and bool(node.reads)


class _Format:
    """The nodes of a TensorFlow Lite model."""

    def __init__(self, model: Model, precision: str | None) -> None:
        self.model, self.precision = model, precision

    def cut(self, nodes: Sequence[Part], values: Mapping[str, Array], outputs: Sequence[str]) -> Cut:
        read = self.model.read
        sources: list[Node] = [node.source for node in nodes]
        written = {t.name for node in sources for t in node.outputs}
        asked = dict.fromkeys(t for node in sources for t in node.reads if t not in written)
        if missing := [name for name in asked if name not in values]:
            raise BindingError([Fault(name, "is read, and not known") for name in missing])
        given = {name: values[name] for name in asked if name not in self.model.constants}
        made = Model(_part_of(read, sources, given, outputs))
        return Cut(made, given, many=len(nodes) > 1, precision=self.precision)

    def cause(
        self, nodes: Sequence[Part], values: Mapping[str, Array], known: Mapping[str, Array], beyond: bool
    ) -> Cause | None:
        if len(nodes) > 1 or nodes[0].operator not in FINDERS:
            return None
        (output, *_) = nodes[0].writes
        return cause(nodes[0].source, values, self.cut(nodes, values, [output]).exact[output], known[output])

    def refined(
        self,
        found: Judgement,
        cause: Cause | None,
        nodes: Sequence[Part],
        values: Mapping[str, Array],
        known: Mapping[str, Array],
        outputs: Sequence[str],
    ) -> tuple[Judgement, Cause | None]:
        return found, cause


def _part_of(read: Read, nodes: Sequence[Node], given: Mapping[str, Array], outputs: Sequence[str]) -> Read:
    """The model of some nodes, with sizes that may be other than the file's."""
    resized = {
        t.name: t._replace(
            sizes=given[t.name].shape if t.name in given else t.sizes,
            signature=given[t.name].shape if t.name in given else (-1,) * len(t.sizes),
        )
        for t in read.tensors
    }
    placed = tuple(
        node._replace(
            inputs=tuple(None if t is None else resized[t.name] for t in node.inputs),
            outputs=tuple(resized[t.name] for t in node.outputs),
        )
        for node in nodes
    )
    inputs, ends = (tuple(resized[name] for name in names) for names in (given, outputs))
    return read._replace(tensors=tuple(resized.values()), nodes=placed, inputs=inputs, outputs=ends, aliases={})
