"""`compare`: a model's tensors as another runtime computes them, each node judged against its exact result.

First all tensors are made outputs of the model. This may keep the runtime from fusing nodes. If it changes the model's own
outputs, the tensors that change them are found and left out, and the nodes around each of them are judged as one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto

from anydml.errors import Error
from anydml.explain.comparison import Cause
from anydml.explain.precision import check_precision
from anydml.onnx import compare_matrices, compare_quantised
from anydml.onnx import compare_models as models
from anydml.onnx.compare_decisions import decided
from anydml.onnx.compare_details import Details, program
from anydml.onnx.compare_estimate import moved_by_rounding
from anydml.onnx.compare_files import named_as
from anydml.onnx.compare_judge import Cut, Judgement
from anydml.onnx.compare_results import ModelComparison
from anydml.onnx.compare_runtimes import Run
from anydml.onnx.compare_whole import Part, Progress, Whole
from anydml.onnx.errors import ModelError
from anydml.onnx.model import Model, load
from anydml.onnx.values import Array, by_name
from anydml.progress import report, showing
from anydml.rule_messages import listed

NAMED = 3  # fusions that a note names
ACCURACY_LEVELS = {  # of MatMulNBits -> the deviations that it allows
    2: ("float16_inputs", "float16_arithmetic"),
    3: ("bfloat16_inputs", "bfloat16_arithmetic"),
    4: ("int8_activations", "float16_inputs", "float16_arithmetic", "bfloat16_inputs", "bfloat16_arithmetic"),
}


@showing
def compare(
    model: str | os.PathLike[str] | ModelProto,
    inputs: Mapping[str, Any],
    run: Run | None = None,
    *,
    actual: Mapping[str, Any] | None = None,
    precision: str | None = None,
    seconds: float = 60,
    progress: Progress | bool | None = None,
    details: bool = False,
) -> ModelComparison:
    """Compare a model's tensors, as another runtime computes them, with the exact ones, node by node.

    inputs: arrays by name. run: a function of a ModelProto and inputs that returns the outputs by name, or as a list in the
    model's order. It is called for the model itself, and for the model with more tensors as outputs. actual: recorded tensors
    by name, instead of `run`. precision: the type that the runtime is said to compute floats in, if it is not the tensors' own:
    "float32"; "tf32", for products of factors with 11 bits; "bfloat16" or "float16", for factors of products or for every step.
    What it explains counts as rounding, and is named. seconds: the time to find out which of the runtime's fusions give other
    numbers. progress: is called with a task, how much of it is done, and the total; by default a bar is shown in a terminal and
    in notebooks, and with False none. details: whether to keep what a page shows of the nodes that differ. ModelError for a
    model that cannot be read; BindingError for inputs or tensors that do not fit; ValueError for another precision.
    """
    if (run is None) == (actual is None):
        raise TypeError("compare takes either run=, a function, or actual=, tensors by name")
    check_precision(precision)
    read = load(model)
    proto = models.named(read.proto)
    given = {name: np.array(x, order="C", copy=None) for name, x in by_name(inputs).items()}
    exact, notes = _exact(load(proto), given)
    recorded = by_name(actual, "actual takes tensors") if actual is not None else {}
    judged, more = decided(proto, given, exact, run, recorded)
    if judged is not proto:
        notes += more
        exact = {} if more else {**exact, **_exact(load(judged), given)[0]}
    whole = _Whole(proto, judged, read, given, exact, progress if callable(progress) else report, precision)
    whole.details = kept = Details(partial(_repro, proto, whole.constants)) if details else None
    known, more = whole.observed(run, seconds) if run is not None else whole.named(recorded)
    return ModelComparison(whole.judged(known), (*notes, *more), kept.found if kept else {})


def _repro(
    proto: ModelProto,
    constants: Mapping[str, Array],
    nodes: Sequence[Part],
    values: Mapping[str, Array],
    outputs: Sequence[str],
    known: Mapping[str, Array],
) -> tuple[str, str]:
    """The nodes alone, as a program and as ONNX's text without the elements of constants."""
    made, given = models.cut(proto, [node.source for node in nodes], values, constants, outputs)
    text = program(", ".join(node.name for node in nodes), made.SerializeToString(), given, {n: known[n] for n in outputs})
    for t in made.graph.initializer:
        made.graph.input.append(onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    del made.graph.initializer[:]
    return text, onnx.printer.to_text(made)


def _exact(model: Model, inputs: Mapping[str, Any]) -> tuple[dict[str, Array], list[str]]:
    """The exact tensors of the model, and notes; no tensors, and a note that says so, if a node is refused."""
    try:
        return model.run(inputs, keep="all"), []
    except ModelError as error:
        return {}, [f"There are no accumulated errors, for the model as a whole is refused: {error}"]


class _Format:
    """The nodes of an ONNX model. constants: its initializers, and what is computed from them alone."""

    def __init__(self, proto: ModelProto, constants: Mapping[str, Array], precision: str | None) -> None:
        self.proto, self.constants, self.precision = proto, constants, precision

    def cut(self, nodes: Sequence[Part], values: Mapping[str, Array], outputs: Sequence[str]) -> Cut:
        proto, given = models.cut(self.proto, [node.source for node in nodes], values, self.constants, outputs)
        many = len(proto.graph.node) > 1
        return Cut(load(proto), given, lambda: moved_by_rounding(proto, given, self.precision), many, self.precision)

    def cause(
        self, nodes: Sequence[Part], values: Mapping[str, Array], known: Mapping[str, Array], beyond: bool
    ) -> Cause | None:
        protos = [node.source for node in nodes]
        if len(nodes) > 1:
            return compare_quantised.cause(self.proto, protos, values, self.constants, known)
        return compare_matrices.cause(self.proto, protos[0], values, self.constants, known) if beyond else None

    def refined(
        self,
        found: Judgement,
        cause: Cause | None,
        nodes: Sequence[Part],
        values: Mapping[str, Array],
        known: Mapping[str, Array],
        outputs: Sequence[str],
    ) -> tuple[Judgement, Cause | None]:
        protos = [node.source for node in nodes]
        if found.beyond and len(nodes) > 1:
            found = compare_quantised.judged(found, self.proto, protos, values, self.constants, known)
        if found.beyond and (allowed := _allowed(protos)):
            cause = cause or self.cut(nodes, values, outputs).cause(outputs[0], known[outputs[0]])
            if cause is not None and cause.name in allowed and cause.equal == cause.outputs:
                found = found._replace(beyond=0, excess=0.0, forms=(cause.sentence.removeprefix("the result with "),))
        return found, cause


class _Whole(Whole):
    """original: the model with its bodies as bodies."""

    def __init__(
        self,
        original: ModelProto,
        proto: ModelProto,
        model: Model,
        inputs: Mapping[str, Array],
        exact: Mapping[str, Array],
        progress: Progress,
        precision: str | None,
    ) -> None:
        self.original, self.proto = original, proto
        constants = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer if t.name not in inputs}
        nodes = [_part(node) for node in proto.graph.node if not _constant(proto, node, constants, exact)]
        super().__init__(_Format(proto, constants, precision), nodes, list(model.outputs), constants, inputs, exact, progress)

    def named(self, actual: Mapping[str, Any]) -> tuple[dict[str, Array], list[str]]:
        """The recorded tensors, whose files may have other characters in their names."""
        return self.recorded(named_as(actual, [*self.asked, *self.constants, *self.inputs]))

    # --- what the other runtime computes ---

    def observed(self, run: Run, seconds: float) -> tuple[dict[str, Array], list[str]]:
        """The tensors of the other runtime that can be made outputs without changing the model's own outputs."""
        self.progress("running the model", 0, 2)
        plain = self._ran(run, self.original, self.outputs)
        base, notes = self.proto, []
        if base is not self.original and not _same(plain, self._ran(run, base, self.outputs)):
            base, notes = self.original, ["The other runtime gives other numbers if branches and turns are not bodies of nodes"]
        there = {name for node in base.graph.node for name in node.output}
        typed = onnx.shape_inference.infer_shapes(base)
        others = [name for name in self.asked if name not in plain and name in there]
        self.progress("running it for every tensor", 1, 2)
        found = self._ran(run, models.marked(typed, others), [*self.outputs, *others])
        if _same(plain, found):
            return found, notes
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
        asked, around = ("it is", "it") if len(hidden) == 1 else ("they are", "each of them")
        why = f"{change} the model's outputs when {asked} asked for{late}; the nodes around {around} are judged as one"
        return found, [*notes, *self._fusions(found), why]

    def _fusions(self, found: Mapping[str, Array]) -> list[str]:
        fused = [f"{part[0].name}..{part[-1].name}" for part in self.parts(found) if len(part) > 1]
        if not fused:
            return []
        if len(fused) == 1:
            return [f"The other runtime's fusion of {fused[0]} gives other numbers"]
        named = listed(fused if len(fused) <= NAMED else [*fused[:NAMED], f"{len(fused) - NAMED} more"], "and")
        return [f"The other runtime's fusions of {named} give other numbers"]

    def _ran(self, run: Run, proto: ModelProto, names: Iterable[str]) -> dict[str, Array]:
        made = run(proto, self.inputs)
        if isinstance(made, (list, tuple)):
            made = dict(zip((output.name for output in proto.graph.output), made, strict=False))
        made = by_name(made, "run returns outputs")
        return self.fitting({name: made[name] for name in names if name in made}, [n for n in names if n not in made])


def _part(node: NodeProto) -> Part:
    return Part(node.name, node.op_type, tuple(models.reads(node)), tuple(filter(None, node.output)), node)


def _constant(proto: ModelProto, node: NodeProto, constants: dict[str, Array], exact: Mapping[str, Array]) -> bool:
    """Whether a node reads only constants; then its outputs become constants too, if they can be computed."""
    if not all(name in constants for name in models.reads(node)):
        return False
    names = [name for name in node.output if name]
    if all(name in exact for name in names):
        constants |= {name: exact[name] for name in names}
        return True
    try:
        alone, _ = models.cut(proto, [node], constants, constants, names)
        constants |= load(alone).run({})
    except Error:
        return False
    return True


def _allowed(nodes: list[NodeProto]) -> tuple[str, ...]:
    """The deviations that a node allows by itself: activations in 8 bits by its `accuracy_level`, as onnxruntime has it."""
    level = next((a.i for a in nodes[0].attribute if a.name == "accuracy_level"), 0) if len(nodes) == 1 else 0
    return ACCURACY_LEVELS.get(level, ())


def _same(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Whether each tensor of the first has the same bits in the second."""
    return all(np.array_equal(_bits(x), _bits(other[name])) for name, x in one.items())


def _bits(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)
