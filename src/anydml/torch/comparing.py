"""`compare`: the tensors of a module as torch computes them, each node judged against its exact result."""

from __future__ import annotations

import copy
import itertools
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.export.passes import move_to_device_pass
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from anydml.devices.device import named, usual
from anydml.errors import BindingError, Fault
from anydml.explain.comparison import Cause
from anydml.explain.precision import check_precision
from anydml.feature_level import FeatureLevel
from anydml.functional.graph import Graph
from anydml.onnx.compare_details import Details
from anydml.onnx.compare_judge import Cut, Judgement, deviation, worst
from anydml.onnx.compare_results import UNJUDGED, ModelComparison, NodeComparison
from anydml.onnx.compare_whole import Part, Whole, silent
from anydml.onnx.errors import INVALID, ModelError, Refusal
from anydml.torch import read
from anydml.torch.model import Model, kept_operators
from anydml.torch.read import Array, Node
from anydml.torch.walk import Walk, keep, member

WIDER = (torch.float64,)  # types in which torch computes, and which operators do not take
Call = Callable[..., Any]


def compare(
    module: Any,
    inputs: Sequence[Any],
    *,
    device: Any = "cpu",
    dtype: Any = None,
    call: Call | None = None,
    actual: Mapping[str, Any] | None = None,
    precision: str | None = None,
    details: bool = False,
) -> ModelComparison:
    """Compare a module's tensors, as torch computes them, with the exact ones, node by node.

    inputs: a tuple of tensors of the cpu. device: where torch computes. dtype: the type that the module and the inputs are
    converted to first; for float64 only accumulated errors are known, against the exact float32 results. call: a
    function of a node, its arguments and keywords that computes the node in torch's place; `node.inner.target` is ATen's
    operator. actual: recorded tensors, instead of a run, by the names of nodes or of the modules whose results they are; nodes
    between them are judged as one. precision: the type that floats are said to be computed in, such as "tf32" on GPUs, see
    `anydml.onnx.compare`. details: whether to keep what `anydml.onnx.page` shows of nodes that differ, histograms and the worst
    elements with their inputs. ModelError for a module that `load` refuses; BindingError for a device that torch does not have,
    and for tensors that do not fit.
    """
    check_precision(precision)
    if actual is not None and (call is not None or dtype in WIDER):
        raise TypeError("actual are recorded tensors, and nothing is run that takes call or dtype")
    if dtype in WIDER:
        return _accumulated(module, inputs, _device(device), dtype)
    plain = module if dtype is None else _converted(module, dtype)
    given = tuple(inputs) if dtype is None else _inputs_as(inputs, dtype)
    where = _device(device)
    with usual(named("cpu", FeatureLevel.EXTENDED)):
        return _judged(plain, given, where, call, actual, precision, details)


def _judged(
    plain: Any,
    given: tuple[Any, ...],
    where: Any,
    call: Call | None,
    actual: Mapping[str, Any] | None,
    precision: str | None,
    details: bool,
) -> ModelComparison:
    model = Model(read.exported(plain, given, None, kept_operators()))
    arrays = model.arrays(*given)
    exact = {**model.run(arrays, keep="all"), **arrays}
    whole = _Whole(model, arrays, exact, precision)
    whole.details = kept = Details() if details else None
    if actual is not None:
        found, notes = whole.recorded(whole.named(actual))
    else:
        env = _observed(model.program, given, where, call)
        found = whole.fitting({name: _array(env[name], name) for name in whole.asked}, [])
        notes = [] if call is not None else _differences(plain, model.program, given, env, where)
    rows = [whole.with_place(row) for row in whole.judged(found)]
    return ModelComparison(tuple(rows), tuple(notes), kept.found if kept else {})


def _accumulated(module: Any, inputs: Sequence[Any], where: Any, dtype: Any) -> ModelComparison:
    """The comparison for a type that DirectML lacks: rows with accumulated errors alone."""
    model = Model(read.exported(module, tuple(inputs), None, kept_operators()))
    arrays = model.arrays(*inputs)
    whole = _Whole(model, arrays, {**model.run(arrays, keep="all"), **arrays}, None)
    given = _inputs_as(inputs, dtype)
    env = _observed(read.exported(_converted(module, dtype), given, None, kept_operators()), given, where, None)
    reason = f"DirectML's operators do not take {dtype}, in which torch computes, so only accumulated errors are known"
    rows = []
    for part in whole.nodes:
        exact = [whole.exact[name] for name in part.writes]
        made = [env[name] for name in part.writes]
        made = [_array(x.to(torch.float32) if x.is_floating_point() else x, part.name) for x in made]
        far = [deviation(a, b) for a, b in zip(exact, made, strict=True) if (a.shape, a.dtype) == (b.shape, b.dtype)]
        names = (part.name,), (part.operator,), part.reads, part.writes
        row = NodeComparison(*names, None, worst(far) if far else None, UNJUDGED, reason=reason)
        rows.append(whole.with_place(row))
    return ModelComparison(tuple(rows))


def _device(device: Any) -> Any:
    try:
        where = torch.device(device)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise BindingError([Fault("device", f"is {device!r}, which torch cannot use: {str(error).splitlines()[0]}")]) from None
    if where.type == "meta":
        raise BindingError([Fault("device", "is 'meta', whose tensors have no elements")])
    return where


def _converted(module: Any, dtype: Any) -> Any:
    if not isinstance(module, torch.nn.Module):
        raise TypeError("compare converts modules to another dtype, and not exported programs")
    return copy.deepcopy(module).to(dtype)


def _inputs_as(inputs: Sequence[Any], dtype: Any) -> tuple[Any, ...]:
    return tuple(x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs)


def _array(x: Any, name: str) -> Array:
    return read.readable(x.detach().cpu(), name)


def _moved(program: Any, where: Any) -> Any:
    """A copy of a program on a device."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about its own copies
        return move_to_device_pass(copy.deepcopy(program), str(where))


def _observed(program: Any, inputs: Sequence[Any], where: Any, call: Call | None) -> dict[str, Any]:
    """Every tensor of a program as torch computes it on a device, by name."""
    moved = program if where.type == "cpu" else _moved(program, where)
    signature = moved.graph_signature
    held = {**moved.state_dict, **moved.constants}
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    env: dict[str, Any] = {name: held[attribute].detach() for name, attribute in names.items()}
    flat, _ = pytree.tree_flatten((tuple(inputs), {}))
    flat = [x.to(where) if isinstance(x, torch.Tensor) else x for x in flat]
    env |= {name: x for name, x in zip(signature.user_inputs, flat, strict=True) if isinstance(name, str)}
    with torch.no_grad():
        for node in read.nodes_of(moved):
            inner = node.inner
            if inner.target is operator.getitem:
                env[node.name] = env[member(inner.args[0].name, inner.args[1])]
                continue
            args, kwargs = map_arg((inner.args, inner.kwargs), lambda a: env[a.name])
            made = inner.target(*args, **kwargs) if call is None else call(node, args, kwargs)
            keep(env, node, [*made] if isinstance(made, (tuple, list)) else made)
    return env


def _differences(module: Any, program: Any, inputs: Sequence[Any], found: Mapping[str, Any], where: Any) -> list[str]:
    """A note, if the module itself gives other numbers on the device than its operators one by one."""
    if not isinstance(module, torch.nn.Module):
        return []
    moved = module if where.type == "cpu" else copy.deepcopy(module).to(where)
    with torch.no_grad():
        made, _ = pytree.tree_flatten(moved(*(x.to(where) if isinstance(x, torch.Tensor) else x for x in inputs)))
    results = next(inner for inner in program.graph.nodes if inner.op == "output").args[0]
    pairs = [
        (x, found[inner.name])
        for x, inner in zip(made, results, strict=True)
        if isinstance(x, torch.Tensor) and isinstance(inner, torch.fx.Node)
    ]
    differing = sum(int((x != y).logical_and(~(x.isnan() & y.isnan())).sum()) for x, y in pairs)
    if not differing:
        return []
    total = sum(x.numel() for x, _ in pairs)
    return [f"As a whole, the module gives other numbers than its operators one by one, in {differing} of {total} elements"]


class _Whole(Whole):
    """A model of torch with inputs and exact tensors."""

    def __init__(self, model: Model, arrays: Mapping[str, Array], exact: Mapping[str, Any], precision: str | None) -> None:
        tensors = {name: x for name, x in exact.items() if isinstance(x, np.ndarray)}
        parts = [part for node in model.nodes if (part := _part(node, tensors)) is not None]
        outputs = [name for name in model.outputs if name in tensors]
        super().__init__(_Format(model, precision), parts, outputs, model.constants, arrays, tensors, silent)
        self._sources: dict[str, Node] = {part.name: part.source[0] for part in parts}

    def with_place(self, row: NodeComparison) -> NodeComparison:
        """The row with the innermost module that all of its nodes belong to, and the first one's source line."""
        nodes = [self._sources[name] for name in row.nodes]
        shared = itertools.takewhile(lambda names: len({*names}) == 1, zip(*(n.module.split(".") for n in nodes), strict=False))
        return replace(row, module=".".join(names[0] for names in shared), line=nodes[0].line)

    def named(self, actual: Mapping[str, Any]) -> dict[str, Array]:
        """Recorded tensors by the names of nodes. The result of a module is that of its last node which has its sizes."""
        found = {}
        for name, x in actual.items():
            array = _array(x, name) if isinstance(x, torch.Tensor) else np.asarray(x)
            inside = [part for part in self.nodes if f"{part.source[0].module}.".startswith(f"{name}.")]
            fitting = [at for part in inside[-1:] for at in part.writes if self.exact[at].shape == array.shape]
            found[fitting[0] if name not in self.asked and fitting else name] = array
        return found


def _part(node: Node, exact: Mapping[str, Array]) -> Part | None:
    """A node with the nodes that pick its results; None for these, and for arithmetic of sizes."""
    inner = node.inner
    if inner.target is operator.getitem:
        return None
    several = isinstance(inner.meta.get("val"), (tuple, list))
    picking = [read.node_of(user) for user in inner.users if user.target is operator.getitem] if several else []
    writes = [one.name for one in picking] if several else [node.name]
    writes = [name for name in writes if name in exact]
    if not writes:
        return None
    reads = tuple(given.name for given in inner.all_input_nodes)
    return Part(node.name, node.operator, reads, tuple(writes), [node, *picking])


class _Nodes:
    """A few nodes as a model: `Runs` of the judge."""

    def __init__(
        self, nodes: Sequence[Node], known: Mapping[str, Any], sizes: Mapping[str, Any], outputs: Sequence[str]
    ) -> None:
        self.nodes, self.known, self.sizes, self.outputs = nodes, known, sizes, frozenset(outputs)

    def run(self, inputs: Mapping[str, Array], /) -> dict[str, Array]:
        made = Walk(self.nodes, 0, {**self.known, **inputs}, {}, False).run(lambda stop: self.outputs)
        return {name: np.asarray(x) for name, x in made.known.items()}

    def graph(self) -> Graph:
        made = Walk(self.nodes, 0, self.known, self.sizes, False).run(lambda stop: self.outputs)
        if made.graph is None or made.graph.inputs.keys() != self.sizes.keys() or made.graph.outputs.keys() != self.outputs:
            raise ModelError([Refusal("", "", INVALID, "the nodes are not one graph of their inputs")])
        return made.graph


class _Format:
    """The nodes of a model of torch; see `compare_whole.Format`."""

    def __init__(self, model: Model, precision: str | None) -> None:
        self.model, self.precision = model, precision

    def cut(self, nodes: Sequence[Part], values: Mapping[str, Array], outputs: Sequence[str]) -> Cut:
        written = {name for part in nodes for name in part.writes}
        asked = dict.fromkeys(name for part in nodes for name in part.reads if name not in written)
        given = {name: values[name] for name in asked if name not in self.model.constants}
        sizes = {name: (x.shape, x.dtype) for name, x in given.items()}
        sources = [node for part in nodes for node in part.source]
        return Cut(_Nodes(sources, self.model.constants, sizes, outputs), given, many=len(nodes) > 1, precision=self.precision)

    def cause(
        self, nodes: Sequence[Part], values: Mapping[str, Array], known: Mapping[str, Array], beyond: bool
    ) -> Cause | None:
        return None

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
