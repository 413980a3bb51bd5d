"""`compare`: the tensors of a module as torch computes them, each node judged against its exact result."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.export.passes import move_to_device_pass
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from anydml.errors import BindingError, Error, Fault
from anydml.explain.rounding import Rounding
from anydml.onnx.compare_judge import Judge, deviation, worst
from anydml.onnx.compare_results import BEYOND, EQUAL, ROUNDING, UNBOUNDED, UNJUDGED, ModelComparison, NodeComparison
from anydml.onnx.errors import ModelError
from anydml.torch import read
from anydml.torch.model import Model, kept_operators
from anydml.torch.read import Node
from anydml.torch.walk import Walk, keep, member

EXPLAINED = 8  # the most differing nodes whose cause is sought
WIDER = (torch.float64, torch.bfloat16)  # types in which torch computes, and which DirectML's operators do not take
Call = Callable[..., Any]


def compare(
    module: Any,
    inputs: Sequence[Any],
    *,
    device: Any = "cpu",
    dtype: Any = None,
    call: Call | None = None,
) -> ModelComparison:
    """Compare a module's tensors, as torch computes them, with the exact ones, node by node.

    inputs: a tuple of tensors of the cpu. device: where torch computes. dtype: the type that the module and the inputs are
    converted to first; for float64 and bfloat16 only accumulated errors are known, against the exact float32 results. call: a
    function of a node, its arguments and keywords that computes the node in torch's place; `node.inner.target` is ATen's
    operator. ModelError for a module that `load` refuses, BindingError for a device that torch does not have.
    """
    where = _device(device)
    wider = dtype in WIDER
    plain = module if dtype is None or wider else _converted(module, dtype)
    given = tuple(inputs) if dtype is None or wider else _inputs_as(inputs, dtype)
    program = read.exported(plain, given, None, kept_operators())
    model = Model(program)
    arrays = model.arrays(*given)
    exact = {**model.run(arrays, keep="all"), **arrays}
    other = read.exported(_converted(module, dtype), _inputs_as(inputs, dtype), None, kept_operators()) if wider else program
    found = _observed(other, _inputs_as(inputs, dtype) if wider else given, where, call)
    notes = [] if call is not None else _differences(_converted(module, dtype) if wider else plain, other, inputs, found, where)
    comparison = _Comparison(model, exact, found, wider)
    return ModelComparison(comparison.rows(), tuple(notes))


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


def _observed(program: Any, inputs: Sequence[Any], where: Any, call: Call | None) -> dict[str, Any]:
    """Every tensor of a program as torch computes it on a device, by name."""
    moved = move_to_device_pass(copy.deepcopy(program), str(where)) if where.type != "cpu" else program
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
    types = {p.dtype for p in module.parameters() if p.is_floating_point()}
    given = _inputs_as(inputs, next(iter(types))) if len(types) == 1 else tuple(inputs)
    moved = module if where.type == "cpu" else copy.deepcopy(module).to(where)
    with torch.no_grad():
        made, _ = pytree.tree_flatten(moved(*(x.to(where) if isinstance(x, torch.Tensor) else x for x in given)))
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


class _Comparison:
    """The nodes of a model, with the exact tensors and those of torch."""

    def __init__(self, model: Model, exact: Mapping[str, Any], found: Mapping[str, Any], wider: bool) -> None:
        self.model, self.exact, self.wider = model, exact, wider
        self.types = {inner.name: inner.meta.get("val") for inner in model.program.graph.nodes}
        self.found = {name: self._read(name, x) for name, x in found.items()}
        self.differing = 0

    def _read(self, name: str, x: Any) -> Any:
        """A tensor of torch as an array of the exact tensor's type."""
        if not isinstance(x, torch.Tensor):
            return x
        host = x.detach().cpu()
        due = self.exact.get(name)
        if self.wider and host.is_floating_point():
            host = host.to(torch.float32) if due is None or due.dtype == np.float32 else host
        return read.readable(host, name)

    def rows(self) -> tuple[NodeComparison, ...]:
        return tuple(row for node in self.model.nodes if (row := self._row(node)) is not None)

    def _row(self, node: Node) -> NodeComparison | None:
        """A node's row; None for arithmetic of sizes, and for picking one of several results."""
        value = node.inner.meta.get("val")
        several = isinstance(value, (tuple, list))
        names = [member(node.name, i) for i in range(len(value))] if several else [node.name]
        outputs = [n for n in names if isinstance(self.exact.get(n), np.ndarray) and isinstance(self.found.get(n), np.ndarray)]
        if not outputs or node.inner.target is operator.getitem:
            return None
        far = [deviation(self.exact[name], self.found[name]) for name in outputs if self._alike(name)]
        fields: dict[str, Any] = dict(
            nodes=(node.name,),
            operators=(node.operator,),
            reads=tuple(inner.name for inner in node.inner.all_input_nodes),
            writes=tuple(outputs),
            accumulated=worst(far) if far else None,
            module=node.module,
            line=node.line,
        )
        if self.wider:
            reason = "DirectML's operators do not take the type in which torch computes, so only accumulated errors are known"
            return NodeComparison(**fields, own=None, verdict=UNJUDGED, reason=reason)
        try:
            judge = self._judge(node, outputs)
            got = {name: self.found[name] for name in outputs}
            found = judge.judged(got, self.differing < EXPLAINED)
        except Error as error:
            return NodeComparison(**fields, own=None, verdict=UNJUDGED, reason=str(error))
        if not found.own.differing:
            return NodeComparison(**fields, own=found.own, verdict=EQUAL)
        self.differing += 1
        cause = found.cause
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

    def _alike(self, name: str) -> bool:
        one, other = self.exact[name], self.found[name]
        return bool(one.shape == other.shape and one.dtype == other.dtype)

    def _judge(self, node: Node, outputs: Sequence[str]) -> Judge:
        """The judge of a node on the inputs that it had in torch."""
        given = {inner.name: self._given(inner) for inner in node.inner.all_input_nodes}
        known = {name: x for name, x in given.items() if name in self.model.constants or not isinstance(x, np.ndarray)}
        walk = Walk([node], 0, given, {}, False)
        exact = {name: x for name, x in walk.run(lambda stop: frozenset(outputs)).known.items() if name in outputs}
        if faults := [
            Fault(name, f"is {self.found[name].dtype} {self.found[name].shape} in torch, and must be {x.dtype} {x.shape}")
            for name, x in exact.items()
            if (x.shape, x.dtype) != (self.found[name].shape, self.found[name].dtype)
        ]:
            raise BindingError(faults)

        def rounding() -> Rounding | None:
            """The node as a graph on its inputs; None if nothing is left to compute."""
            arrays = {name: x for name, x in given.items() if name not in known}
            sizes = {name: (x.shape, x.dtype) for name, x in arrays.items()}
            try:
                graph = Walk([node], 0, known, sizes, False).run(lambda stop: frozenset(outputs)).graph
            except (ModelError, Error):
                return None
            if graph is None:
                return None
            return Rounding(graph.desc, {name: arrays[name].reshape(t.sizes) for name, t in graph.inputs.items()})

        return Judge(exact, rounding)

    def _given(self, inner: Any) -> Any:
        if inner.name in self.found:
            return self.found[inner.name]
        raise BindingError([Fault(inner.name, "is not known")])
