"""An exported program of torch: its nodes, its inputs with their sizes, and its parameters as arrays."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray
from torch.export import ExportedProgram

from anydml.errors import BindingError, Fault
from anydml.onnx.errors import INVALID, ModelError, Refusal, Refused

Array = NDArray[Any]

DTYPES: dict[Any, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float16: np.dtype(np.float16),
    torch.float64: np.dtype(np.float64),
    torch.uint8: np.dtype(np.uint8),
    torch.uint16: np.dtype(np.uint16),
    torch.uint32: np.dtype(np.uint32),
    torch.uint64: np.dtype(np.uint64),
    torch.int8: np.dtype(np.int8),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.bool: np.dtype(np.uint8),  # truth values are 0 and 1
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
}
_OF_TORCH = os.path.dirname(torch.__file__) + os.sep


def dtype_of(t: Any) -> np.dtype[Any]:
    """The dtype of a torch type's elements; Refused if DirectML has no such type."""
    if (found := DTYPES.get(t)) is None:
        raise Refused(f"it has tensors of {t}")
    return found


@dataclass(frozen=True)
class Node:
    """A node of an exported graph.

    name: its name in the graph. operator: the ATen operator with its overload, such as `aten.addmm.default`. inner: the node of
    torch.fx. module: the path of the module that it comes from, such as `layers.3.attn`. line: the source line of the caller's
    program, such as `net.py:12: y = self.fc(x)`. types: the torch types of the arguments by name; of lists of tensors, tuples.
    """

    name: str
    operator: str
    inner: Any
    module: str
    line: str
    types: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The node with its module, for messages."""
        return f"{self.module}: {self.name}" if self.module else self.name

    @property
    def result(self) -> Any:
        """The type of the result; of the first one, if there are several."""
        value = self.inner.meta["val"]
        return (value[0] if isinstance(value, (tuple, list)) else value).dtype

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the result's elements."""
        return dtype_of(self.result)


@dataclass(frozen=True)
class Input:
    """A tensor that a model is given. sizes: numbers, or torch's name for a dynamic size. dtype: its type in torch."""

    name: str
    sizes: tuple[int | str, ...]
    dtype: Any


def exported(module: Any, example_inputs: Sequence[Any] | None, dynamic_shapes: Any, kept: Sequence[Any]) -> ExportedProgram:
    """The program of a module, decomposed to core ATen operators except those that are `kept`.

    ModelError for a module in training mode, and where torch.export fails.
    """
    if isinstance(module, ExportedProgram):
        program = module
    else:
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"load takes a module or an ExportedProgram, not {type(module).__name__}")
        if example_inputs is None:
            raise TypeError("load takes example_inputs, a tuple of tensors, with a module")
        _in_eval_mode(module)
        program = _exported(module, tuple(example_inputs), dynamic_shapes)
    table = torch.export.default_decompositions()
    for operator in kept:
        table.pop(operator, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about its own tracing
        return program.run_decompositions(table)


def _exported(module: Any, inputs: tuple[Any, ...], dynamic_shapes: Any) -> ExportedProgram:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of torch, about attributes that modules set while they run
        try:
            return torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes)
        except Exception as error:  # torch has no class for the failures of an export
            first = str(error).strip().splitlines()[:1]
            reason = f"torch.export cannot trace it: {type(error).__name__}: {''.join(first)}"
            raise ModelError([Refusal(type(module).__name__, "module", INVALID, reason)]) from error


def _in_eval_mode(module: Any) -> None:
    training = [name or type(module).__name__ for name, part in module.named_modules() if part.training]
    if training:
        more = f" and {len(training) - 1} more modules are" if len(training) > 1 else " is"
        reason = f"{training[0]}{more} in training mode; module.eval() ends it"
        raise ModelError([Refusal(training[0], "module", INVALID, reason)])


def constants(program: ExportedProgram) -> dict[str, Any]:
    """Parameters, buffers and constants by the name of their input of the graph, as arrays that share torch's memory."""
    signature = program.graph_signature
    held = {**program.state_dict, **program.constants}
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    return {name: readable(held[attribute], attribute) for name, attribute in names.items()}


def readable(t: Any, name: str) -> Array:
    """A tensor's elements, without a copy if they are contiguous; BindingError for one that NumPy cannot read."""
    if not isinstance(t, torch.Tensor):
        raise BindingError([Fault(name, f"is {type(t).__name__}, and must be a tensor")])
    if t.layout != torch.strided or t.is_quantized:
        raise BindingError([Fault(name, f"is a tensor of layout {t.layout}, and must be a dense one")])
    if t.device.type != "cpu":
        raise BindingError([Fault(name, f"lies on the device {t.device}, whose memory is not read; .cpu() copies it")])
    if t.dtype not in DTYPES:
        raise BindingError([Fault(name, f"has elements of {t.dtype}, which DirectML does not have")])
    plain = t.detach().resolve_conj().resolve_neg()
    plain = plain if plain.is_contiguous() else plain.contiguous()
    if t.dtype == torch.bfloat16:  # which NumPy lacks
        return np.from_dlpack(plain.view(torch.int16)).view(DTYPES[t.dtype])
    array: Array = np.from_dlpack(plain)
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def tensor_of(array: Array, dtype: Any) -> Any:
    """An array that is the result of a call as a tensor of the same memory."""
    if dtype is torch.bfloat16:
        return torch.from_dlpack(array.view(np.int16)).view(dtype)
    return torch.from_dlpack(array.view(np.bool_) if dtype is torch.bool else array)


def nodes_of(program: ExportedProgram) -> list[Node]:
    """The calls of a program's graph in order."""
    return [node_of(inner) for inner in program.graph.nodes if inner.op == "call_function"]


def node_of(inner: Any) -> Node:
    """The node of a call of torch.fx."""
    return Node(inner.name, operator_name(inner.target), inner, _module(inner), _line(inner), _types(inner))


def operator_name(target: Any) -> str:
    """ATen's name of an operator, with its overload; of a function of Python, its name."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return getattr(target, "__name__", str(target))


def _module(inner: Any) -> str:
    stack = [*(inner.meta.get("nn_module_stack") or {}).values()]
    path = str(stack[-1][0]) if stack else ""
    return path.removeprefix("L['s'].").removeprefix("L['self'].").removeprefix("L['self']")


def _line(inner: Any) -> str:
    """The innermost line of the stack that is not torch's own; the outermost one, if all are torch's."""
    lines = (inner.meta.get("stack_trace") or "").splitlines()
    found = ""
    for at, text in enumerate(lines):
        where = text.strip()
        if not where.startswith('File "'):
            continue
        file, _, rest = where.removeprefix('File "').partition('", line ')
        number = rest.partition(",")[0]
        source = lines[at + 1].strip() if at + 1 < len(lines) else ""
        shown = f"{os.path.basename(file)}:{number}" + (f": {source}" if source and not source.startswith("File ") else "")
        if not file.startswith(_OF_TORCH) or not found:
            found = shown
    return found


def _types(inner: Any) -> dict[str, Any]:
    schema = getattr(inner.target, "_schema", None)
    if schema is None:
        return {}
    named = {a.name: given for a, given in zip(schema.arguments, inner.args, strict=False)} | dict(inner.kwargs)
    return {name: _type(given) for name, given in named.items()}


def _type(given: Any) -> Any:
    if isinstance(given, (list, tuple)):
        return tuple(map(_type, given))
    value = given.meta.get("val") if isinstance(given, torch.fx.Node) else None
    return value.dtype if isinstance(value, torch.Tensor) else None


def inputs_of(program: ExportedProgram) -> list[Input | None]:
    """The inputs that a caller gives, in order; None for what is not a tensor."""
    places = {inner.name: inner for inner in program.graph.nodes if inner.op == "placeholder"}
    found: list[Input | None] = []
    for name in program.graph_signature.user_inputs:
        inner = places.get(name) if isinstance(name, str) else None
        value = None if inner is None else inner.meta.get("val")
        if not isinstance(value, torch.Tensor):
            found.append(None)
            continue
        sizes = tuple(n if isinstance(n, int) else str(n) for n in value.shape)
        found.append(Input(name, sizes, value.dtype))
    return found
