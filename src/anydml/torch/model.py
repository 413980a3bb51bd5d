"""`anydml.torch.load`: a module of torch as DirectML's operators, run exactly."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from anydml.devices.device import Device, device_of, usual
from anydml.errors import BindingError, Fault
from anydml.feature_level import FeatureLevel
from anydml.functional.graph import Graph
from anydml.onnx.calls import computed
from anydml.onnx.errors import INVALID, ModelError, Refusal
from anydml.torch import read
from anydml.torch.mapping import MAPPINGS
from anydml.torch.read import Array, Input
from anydml.torch.walk import Segment, Walk, left_to_torch, reads

CACHED = 16  # graphs of a model, by the sizes of its inputs


class Model:
    """A module of torch, made by `load`. It is called as the module is.

    inputs: the tensors that it takes, with their sizes and torch types; a dynamic size is a name. operators: ATen's operators
    in it, with their numbers. program: torch's exported program. device: runs the model; None for the default one.
    outputs: the names of the results that are tensors.
    """

    def __init__(self, program: Any, fallback: bool = False, device: Device | str | None = None) -> None:
        self.program, self.device = program, device
        self.nodes = read.nodes_of(program)
        self.inputs = [given for given in read.inputs_of(program) if given is not None]
        self.operators = Counter(node.operator for node in self.nodes if "." in node.operator)
        self.fallback = fallback
        self._given = read.inputs_of(program)
        self.constants = read.constants(program)
        self._results = next(inner for inner in program.graph.nodes if inner.op == "output").args[0]
        if changed := [*program.graph_signature.buffers_to_mutate.values(), *program.graph_signature.user_inputs_to_mutate]:
            reason = "the module changes it when it runs, and a model of anydml changes nothing"
            raise ModelError([Refusal(name, "buffer", INVALID, reason) for name in changed])
        self._types = {inner.name: inner.meta["val"] for inner in program.graph.nodes if "val" in inner.meta}
        self.outputs = tuple(inner.name for inner in self._results if isinstance(inner, torch.fx.Node))
        self._outputs = frozenset(self.outputs)
        self._segments: OrderedDict[Any, Segment] = OrderedDict()

    def __repr__(self) -> str:
        taken = ", ".join(f"{given.name} {given.dtype} {list(given.sizes)}" for given in self.inputs)
        return f"<Model: {sum(self.operators.values())} nodes of ATen; {taken}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result for tensors, in new tensors that share no memory with the inputs.

        Contiguous tensors are read where they are, and results become tensors without a copy. BindingError for tensors that
        require gradients, lie on another device than the cpu, or have other sizes or types than the program takes.
        """
        made = self.run(self.arrays(*args, **kwargs), device=self.device)
        results = [self._result(inner, made) for inner in self._results]
        return pytree.tree_unflatten(results, self.program.call_spec.out_spec)

    def arrays(self, *args: Any, **kwargs: Any) -> dict[str, Array]:
        """The tensors of a call by name, checked, as arrays of the same memory."""
        flat, spec = pytree.tree_flatten((args, kwargs))
        wanted = self.program.call_spec.in_spec
        if spec != wanted:
            raise BindingError([Fault("", f"the arguments are nested as {spec}, and the program takes {wanted}")])
        return self._arrays(flat)

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Make the graph for tensors of the sizes of these, which is kept for calls; ModelError if nodes are refused."""
        arrays = self.arrays(*args, **kwargs)
        sizes = {name: (x.shape, x.dtype) for name, x in arrays.items()}
        self._segment((device_of(self.device, FeatureLevel.EXTENDED), False, *_key(sizes)), 0, self.constants, sizes, False)

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The model as one graph, for tensors of the sizes of these; ModelError if nodes are left to torch."""
        arrays = self.arrays(*args, **kwargs)
        sizes = {name: (x.shape, x.dtype) for name, x in arrays.items()}
        segment = self._segment(("graph", *_key(sizes)), 0, self.constants, sizes, False)
        if segment.stop is not None or segment.graph is None or segment.graph.outputs.keys() != self._outputs:
            raise ModelError([Refusal("", "", INVALID, "its results are not those of one graph")])
        return segment.graph

    def run(
        self, inputs: Mapping[str, Array], *, device: Device | str | None = None, keep: str = "outputs"
    ) -> dict[str, Array]:
        """The outputs by name, for arrays by name; with keep="all", all tensors that nodes compute. Truth values are UINT8."""
        on = device_of(device, FeatureLevel.EXTENDED)
        every = keep == "all"
        with usual(on):
            env: dict[str, Any] = dict(inputs)
            known: Mapping[str, Any] = self.constants
            sizes = {name: (x.shape, x.dtype) for name, x in env.items()}
            key: Any = (on, every, *_key(sizes))
            at, written = 0, set()
            while True:
                segment = self._segment(key, at, known, sizes, every)
                found = dict(segment.known)
                if segment.graph is not None:
                    found |= computed(segment, env, on)
                found |= {name: found[other] if other in found else env[other] for name, other in segment.aliases.items()}
                env |= found
                written |= segment.shapes.keys() - set(segment.aliases.values())
                if segment.stop is None:
                    break
                node = self.nodes[segment.stop]
                held = {**self.constants, **env}
                left_to_torch(node, held, read.tensor_of, read.readable)
                env |= (new := {name: x for name, x in held.items() if name not in env and name not in self.constants})
                at = segment.stop + 1
                live = self._live(at)
                known = {**self.constants, **{name: x for name, x in {**known, **segment.known}.items() if name in live}}
                known |= {name: x for name, x in new.items() if not isinstance(x, np.ndarray)}
                sizes = {name: (x.shape, x.dtype) for name in live - known.keys() if isinstance(x := env.get(name), np.ndarray)}
                key = (key, at, *_key(sizes), tuple((n, x) for n, x in new.items() if not isinstance(x, np.ndarray)))
        wanted = env.keys() - inputs.keys() if every else self._outputs & (env.keys() | self.constants.keys())
        return {name: _own(env[name] if name in env else self.constants[name], name in written) for name in wanted}

    def _live(self, at: int) -> frozenset[str]:
        """The tensors and numbers that are read by the nodes from a place on, and the outputs."""
        return self._outputs.union(*map(reads, self.nodes[at:]))

    def _segment(self, key: Any, at: int, known: Mapping[str, Any], sizes: Mapping[str, Any], every: bool) -> Segment:
        if (found := self._segments.get(key)) is not None:
            self._segments.move_to_end(key)
            return found

        def kept(stop: int | None) -> frozenset[str] | None:
            return None if every else self._outputs if stop is None else self._live(stop)

        made = self._segments[key] = Walk(self.nodes, at, known, sizes, self.fallback).run(kept)
        if len(self._segments) > CACHED:
            self._segments.popitem(last=False)
        return made

    def _arrays(self, flat: Sequence[Any]) -> dict[str, Array]:
        """The tensors of a call by name, checked, as arrays of the same memory."""
        faults: list[Fault] = []
        found: dict[str, Array] = {}
        for given, value in zip(self._given, flat, strict=True):
            if given is None:
                continue
            try:
                found[given.name] = _array(given, value)
            except BindingError as error:
                faults += error.faults
        if not faults:
            faults = self._other_sizes(found)
        if faults:
            raise BindingError(faults)
        return found

    def _other_sizes(self, found: Mapping[str, Array]) -> list[Fault]:
        """Faults about sizes that are not the program's. A dynamic size is the same at each place, and within its range."""
        named: dict[str, int] = {}
        ranges = {str(symbol): limits for symbol, limits in self.program.range_constraints.items()}
        faults = []
        for given in self.inputs:
            shape = found[given.name].shape
            fits = len(shape) == len(given.sizes)
            for n, size in zip(shape, given.sizes, strict=False):
                due = named.setdefault(size, n) if isinstance(size, str) and size.isidentifier() else size
                fits &= isinstance(due, str) or due == n
                if (limits := ranges.get(str(size))) is not None:
                    least = limits.lower if limits.lower > 2 else 0  # torch.export's least is 2, and means 0 and 1 as well
                    fits &= bool(least <= n <= limits.upper)
            if not fits:
                faults.append(Fault(given.name, f"has sizes {tuple(shape)}, and the program takes {list(given.sizes)}"))
        return faults

    def _result(self, inner: Any, made: Mapping[str, Array]) -> Any:
        if not isinstance(inner, torch.fx.Node):
            return inner  # a number or None
        value = made[inner.name]
        return read.tensor_of(value, self._types[inner.name].dtype) if isinstance(value, np.ndarray) else value


def _key(sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((name, shape, dtype.str) for name, (shape, dtype) in sizes.items()))


def _own(value: Any, fresh: bool) -> Any:
    return value if fresh or not isinstance(value, np.ndarray) else value.copy()


def _array(given: Input, value: Any) -> Array:
    if isinstance(value, torch.Tensor):
        if value.requires_grad and torch.is_grad_enabled():
            reason = "requires a gradient, and anydml computes none; call within torch.no_grad(), or .detach() it"
            raise BindingError([Fault(given.name, reason)])
        if value.dtype != given.dtype:
            raise BindingError([Fault(given.name, f"has elements of {value.dtype}, and the program takes {given.dtype}")])
    return read.readable(value, given.name)


def load(
    module: Any,
    example_inputs: Sequence[Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    fallback: bool = False,
    device: Device | str | None = None,
) -> Model:
    """The model of a module in eval mode, or of a program that torch.export made.

    example_inputs: a tuple of tensors, as for torch.export. dynamic_shapes: what torch.export takes, for sizes that change from
    call to call. fallback: whether operators that are not mapped are computed by torch, with torch's rounding. device: one of
    anydml, that runs the model; by default the cpu.
    ModelError names every node that is refused, with its ATen operator, module and source line.
    """
    program = read.exported(module, example_inputs, dynamic_shapes, kept_operators())
    model = Model(program, fallback, device)
    if not fallback and (example := program.example_inputs) is not None:
        with torch.no_grad():
            model.check(*example[0], **example[1])
    return model


def kept_operators() -> list[Any]:
    """ATen's operators that are mapped, and therefore not decomposed."""
    return [_overload(name) for name in MAPPINGS]


def _overload(name: str) -> Any:
    """ATen's operator of a name such as `aten.add.Tensor`."""
    _, packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)
