"""`torch.compile(module, backend="anydml")`, for inference."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo

from anydml.errors import BindingError, Fault
from anydml.torch.model import CACHED, Model, load

torch._dynamo.config.allow_rnn = True  # else torch.compile leaves LSTM, GRU and RNN to torch, in its own rounding

STATIC = "_dynamo_static_input_type"  # an attribute by which torch marks parameters and buffers


def backend(graph: Any, example_inputs: Sequence[Any], options: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """The function that torch.compile calls in place of a graph of torch.

    options: {"fallback": True} leaves operators that are not mapped to torch. A graph is loaded at its first call for each
    combination of sizes. ModelError for what `load` refuses, BindingError for tensors that require gradients or cannot be read.
    """
    given = dict(options or {})
    fallback = bool(given.pop("fallback", False))
    if given:
        raise TypeError(f"the backend anydml has the option fallback, and not {', '.join(map(repr, given))}")
    run: Callable[..., Any] = torch.compiler.disable(_Compiled(graph, fallback).run)
    return run


class _Compiled:
    """A graph of torch, with the models that were loaded of it, by the sizes of its inputs."""

    def __init__(self, graph: Any, fallback: bool) -> None:
        self.graph, self.fallback = graph, fallback
        self.places = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._models: OrderedDict[Any, Model] = OrderedDict()

    def run(self, *args: Any) -> Any:
        """The graph's results. Parameters and buffers are constants of the model until they change."""
        if torch.is_grad_enabled():
            needed = [i for i, x in enumerate(args) if isinstance(x, torch.Tensor) and x.requires_grad]
            if needed:
                name = _named(self.places[needed[0]])
                reason = "requires a gradient, and anydml computes none; call within torch.no_grad() or torch.inference_mode()"
                raise BindingError([Fault(name, reason)])
        fixed = [i for i, x in enumerate(args) if isinstance(x, torch.nn.Parameter) or getattr(x, STATIC, None)]
        key = tuple(_kind(x, i in fixed) for i, x in enumerate(args))
        rest = [x for i, x in enumerate(args) if i not in fixed]
        if (model := self._models.get(key)) is None:
            with torch.no_grad():
                model = load(self._with(dict.fromkeys(fixed), args), tuple(rest), fallback=self.fallback)
            self._models[key] = model
            if len(self._models) > CACHED:
                self._models.popitem(last=False)
        with torch.no_grad():
            return model(*rest)

    def _with(self, fixed: Mapping[int, None], args: Sequence[Any]) -> Any:
        """The graph as a module in eval mode with some of its inputs as constants."""
        made = torch.fx.Graph()
        env: dict[Any, Any] = {}
        held: dict[str, Any] = {}
        for node in self.graph.graph.nodes:
            if node.op == "placeholder" and (at := self.places.index(node)) in fixed:
                name = f"constant_{at}"
                held[name] = args[at].detach()
                env[node] = made.get_attr(name)
                continue
            if node.op in ("get_attr", "call_module"):
                held[node.target] = _attribute(self.graph, node.target)
            env[node] = made.node_copy(node, lambda x: env[x])
        return torch.fx.GraphModule(held, made).eval()


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _named(place: Any) -> str:
    """An input in the words of the caller's program, such as `self.fc.weight`."""
    source = getattr(place, "_dynamo_source", None)
    name = str(place.target) if source is None else str(source.name() if callable(source.name) else source.name)
    return name.replace("L['", "").replace("']", "").replace("_modules['", "").replace("_parameters['", "")


def _kind(x: Any, fixed: bool) -> Any:
    """The key of an input that a model is made for: its sizes and type, a constant's memory and version, or a number."""
    if not isinstance(x, torch.Tensor):
        return x
    if fixed:
        version = 0 if x.is_inference() else x._version
        return id(x), x.data_ptr() if x.device.type == "cpu" else 0, version, x.device
    return tuple(x.shape), x.dtype, x.device
