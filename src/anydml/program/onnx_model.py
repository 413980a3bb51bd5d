"""`Program.to_onnx`: the dispatches of a program as nodes of an ONNX model, where ONNX can say the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anydml.errors import UnsupportedError
from anydml.program.model import Dispatch, Print, WriteFile
from anydml.schema.desc import Desc
from anydml.tensor import DataType, TensorDesc

if TYPE_CHECKING:
    from onnx import ModelProto

    from anydml.program.program import Program

OPSET = 20  # Gelu
WHOLE = np.iinfo(np.int64).min  # an end of Slice that is before the first element

SAME_NAMES = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log sign sin sinh sqrt tan tanh"  # but for capitals
)
UNARY = {
    **{f"ELEMENT_WISE_{name.upper()}": name.capitalize() for name in SAME_NAMES.split(" ")},
    "ELEMENT_WISE_IDENTITY": "Identity",
    "ELEMENT_WISE_RECIP": "Reciprocal",
    "ELEMENT_WISE_NEGATE": "Neg",
    "ACTIVATION_IDENTITY": "Identity",
    "ACTIVATION_RELU": "Relu",
    "ACTIVATION_SIGMOID": "Sigmoid",
    "ACTIVATION_TANH": "Tanh",
    "ACTIVATION_SOFTSIGN": "Softsign",
    "ACTIVATION_GELU": "Gelu",
}  # fmt: skip
WITH_NUMBERS = {  # ONNX's operator, and for each of its attributes the desc's
    "ACTIVATION_ELU": ("Elu", {"alpha": "alpha"}),
    "ACTIVATION_CELU": ("Celu", {"alpha": "alpha"}),
    "ACTIVATION_LEAKY_RELU": ("LeakyRelu", {"alpha": "alpha"}),
    "ACTIVATION_THRESHOLDED_RELU": ("ThresholdedRelu", {"alpha": "alpha"}),
    "ACTIVATION_HARD_SIGMOID": ("HardSigmoid", {"alpha": "alpha", "beta": "beta"}),
    "ACTIVATION_SCALED_ELU": ("Selu", {"alpha": "alpha", "gamma": "gamma"}),
}
BINARY = {"ADD": "Add", "ADD1": "Add", "SUBTRACT": "Sub", "MULTIPLY": "Mul", "DIVIDE": "Div", "MAX": "Max", "MIN": "Min"}
REDUCTIONS = {"SUM": "ReduceSum", "AVERAGE": "ReduceMean", "L1": "ReduceL1", "L2": "ReduceL2", "MAX": "ReduceMax",
              "MIN": "ReduceMin", "MULTIPLY": "ReduceProd", "SUM_SQUARE": "ReduceSumSquare", "LOG_SUM": "ReduceLogSum",
              "LOG_SUM_EXP": "ReduceLogSumExp"}  # fmt: skip
FLOATS = (DataType.FLOAT32, DataType.FLOAT16, DataType.FLOAT64)


class Unsaid(Exception):
    """ONNX has no operator that says this."""


class Nodes:
    """The nodes and the constants of a model that is being made."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self._helper, self._numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def name(self) -> str:
        return f"t{len(self.nodes)}"

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A node; returns its first output."""
        return self.several(operator, *inputs, outputs=outputs, **attributes)[0]

    def several(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """A node; returns its outputs."""
        first = self.name()
        names = [first if i == 0 else f"{first}_{i}" for i in range(outputs)]
        self.nodes.append(self._helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def constant(self, value: NDArray[Any]) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self._numpy_helper.from_array(value, name))
        return name

    def integers(self, values: Sequence[int]) -> str:
        return self.constant(np.array(values, np.int64))

    def reshaped(self, x: str, sizes: Sequence[int]) -> str:
        return self.add("Reshape", x, self.integers(sizes))


Inputs = Mapping[str, Any]  # a name, or a list of names, by field; None where absent
Said = Callable[[Nodes, Any, Inputs], list[str]]


def model_of(program: Program) -> ModelProto:
    """The model. UnsupportedError names a dispatch that ONNX cannot say."""
    try:
        from onnx import TensorProto, helper
    except ImportError as missing:
        raise ImportError(f'ONNX models need the onnx package ({missing}): pip install "anydml[onnx]"') from None

    def value_info(name: str, t: TensorDesc) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(t.data_type.dtype), t.sizes)

    assert TensorProto is not None
    made = Nodes()
    now: dict[str, tuple[str, TensorDesc]] = {}  # resource -> the tensor with its contents
    inputs, written = dict[str, Any](), dict[str, TensorDesc]()
    for command in program.commands:
        if not isinstance(command, Dispatch):
            continue
        dispatchable = program.dispatchables[command.dispatchable]
        desc = dispatchable.desc.as_newest()
        bindings = {**dispatchable.bindings, **command.bindings}
        try:
            given: dict[str, Any] = {f.name: [] if f.sized_by else None for f in desc.spec.inputs}
            outputs: list[tuple[str, TensorDesc]] = []
            for name, field, t in desc.tensors():
                base, _, index = name.partition("[")
                sources = bindings[field.wire]
                source = sources[int(index[:-1]) if index else 0]
                _plain(name, t)
                if source.element_offset:
                    raise Unsaid(f"{field.wire} begins within its resource")
                if field.role == "output":
                    outputs.append((source.resource, t))
                    continue
                if source.resource not in now:
                    inputs[source.resource] = value_info(source.resource, t)
                    now[source.resource] = source.resource, t
                tensor, own = now[source.resource]
                if own.data_type != t.data_type or math.prod(own.sizes) != math.prod(t.sizes):
                    raise Unsaid(f"{field.wire} is another part of its resource, or of another type, than what was read before")
                tensor = tensor if own.sizes == t.sizes else made.reshaped(tensor, t.sizes)
                if index:
                    given[base].append(tensor)
                else:
                    given[base] = tensor
            said = SAID.get(desc.spec.name)
            if said is None:
                raise Unsaid("no operator of ONNX is the same")
            if next(desc.activations(), None) is not None:
                raise Unsaid("what its fused activation takes is not rounded before")
            for (resource, t), result in zip(outputs, said(made, desc, given), strict=True):
                now[resource], written[resource] = (result, t), t
        except Unsaid as unsaid:
            raise UnsupportedError(f"{command.dispatchable} ({desc.spec.name}) has no equal in ONNX: {unsaid}") from None
    shown = {c.resource for c in program.commands if isinstance(c, (Print, WriteFile))}
    results = [name for name in written if name in shown] or [*written]
    for name in results:  # graphs name their outputs
        made.nodes.append(helper.make_node("Identity", [now[name][0]], [name if name not in inputs else f"{name}_after"]))
    last = [value_info(name if name not in inputs else f"{name}_after", written[name]) for name in results]
    graph = helper.make_graph(made.nodes, "program", list(inputs.values()), last, made.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def _plain(name: str, t: TensorDesc) -> None:
    if t.data_type.element_bits < 8:
        raise Unsaid(f"{name} has elements of 4 bits")
    packed = TensorDesc(t.data_type, t.sizes).explicit_strides
    if any(n > 1 and s != p for n, s, p in zip(t.sizes, t.explicit_strides, packed, strict=True)):
        raise Unsaid(f"{name} has strides")


def _said(operator: str, *fields: str, **attributes: str) -> Said:
    """An operator that takes these fields, and these attributes of the desc."""

    def say(made: Nodes, d: Any, x: Inputs) -> list[str]:
        if getattr(d, "scale_bias", None) is not None:
            raise Unsaid("its ScaleBias is not rounded before the function")
        if operator == "Div" and d.a_tensor.data_type not in FLOATS:
            raise Unsaid("ONNX does not define quotients by 0")
        return [made.add(operator, *(x[f] for f in fields), **{k: getattr(d, v) for k, v in attributes.items()})]

    return say


def _gemm(made: Nodes, d: Any, x: Inputs) -> list[str]:
    trans = [int(t.name == "TRANSPOSE") for t in (d.trans_a, d.trans_b)]
    given = [x["a_tensor"], x["b_tensor"], *([] if x["c_tensor"] is None else [x["c_tensor"]])]
    if d.output_tensor.dimension_count == 2:
        return [made.add("Gemm", *given, alpha=d.alpha, beta=d.beta, transA=trans[0], transB=trans[1])]
    if any(trans) or len(given) > 2 or d.alpha != 1:
        raise Unsaid("ONNX's Gemm has two dimensions, and MatMul neither factors nor a matrix to add")
    return [made.add("MatMul", *given)]


def _convolution(made: Nodes, d: Any, x: Inputs) -> list[str]:
    if d.direction.name != "FORWARD" or d.mode.name != "CROSS_CORRELATION":
        raise Unsaid("only forward cross-correlation is Conv")
    if any(d.output_padding):
        raise Unsaid("Conv has no OutputPadding")
    bias = [] if x["bias_tensor"] is None else [made.reshaped(x["bias_tensor"], [-1])]
    window = {"strides": d.strides, "dilations": d.dilations, "pads": (*d.start_padding, *d.end_padding)}
    return [made.add("Conv", x["input_tensor"], x["filter_tensor"], *bias, group=d.group_count, **window)]


def _pooling(made: Nodes, d: Any, x: Inputs) -> list[str]:
    window = {"kernel_shape": d.window_size, "strides": d.strides, "dilations": d.dilations}
    window["pads"] = (*d.start_padding, *d.end_padding)
    largest = d.spec.name.startswith("MAX")
    if largest and d.output_indices_tensor is not None:
        raise Unsaid("the positions of MaxPool are of another kind")
    for i, (n, out) in enumerate(zip(d.input_tensor.sizes[2:], d.output_tensor.sizes[2:], strict=True)):
        room = n + d.start_padding[i] + d.end_padding[i] - 1 - (d.window_size[i] - 1) * d.dilations[i]
        if out != 1 + room // d.strides[i]:
            raise Unsaid("its sizes are rounded up")
    if largest:
        return [made.add("MaxPool", x["input_tensor"], **window)]
    return [made.add("AveragePool", x["input_tensor"], count_include_pad=int(d.include_padding), **window)]


def _slice(made: Nodes, d: Any, x: Inputs) -> list[str]:
    starts = type(d).start(d)
    each = zip(starts, d.output_tensor.sizes, d.input_window_strides, strict=True)
    last = [(a + (n - 1) * s, s) for a, n, s in each]
    ends = [e + 1 if s > 0 else e - 1 if e else int(WHOLE) for e, s in last]
    arguments = (starts, ends, range(len(ends)), d.input_window_strides)
    return [made.add("Slice", x["input_tensor"], *(made.integers(tuple(a)) for a in arguments))]


def _padding(made: Nodes, d: Any, x: Inputs) -> list[str]:
    modes = {"CONSTANT": "constant", "EDGE": "edge", "REFLECTION": "reflect", "WRAP": "wrap"}
    mode = modes.get(d.padding_mode.name)
    if mode is None:
        raise Unsaid("Pad has no mode that repeats the first and last elements")
    value = np.array(d.padding_value).astype(d.input_tensor.data_type.dtype)
    pads = made.integers((*d.start_padding, *d.end_padding))
    return [made.add("Pad", x["input_tensor"], pads, *([made.constant(value)] if mode == "constant" else []), mode=mode)]


def _split(made: Nodes, d: Any, x: Inputs) -> list[str]:
    sizes = [t.sizes[d.axis] for t in d.output_tensors]
    return made.several("Split", x["input_tensor"], made.integers(sizes), outputs=len(sizes), axis=d.axis)


def _reduce(made: Nodes, d: Any, x: Inputs) -> list[str]:
    name = d.function.name
    if name in ("ARGMAX", "ARGMIN"):
        return _positions(made, d, x, "ArgMax" if name == "ARGMAX" else "ArgMin", 0)
    return [made.add(REDUCTIONS[name], x["input_tensor"], made.integers(d.axes), keepdims=1)]


def _argument(operator: str) -> Said:
    return lambda made, d, x: _positions(made, d, x, operator, int(d.axis_direction.name == "DECREASING"))


def _positions(made: Nodes, d: Any, x: Inputs, operator: str, last: int) -> list[str]:
    if len(d.axes) != 1:
        raise Unsaid(f"{operator} has one axis")
    found = made.add(operator, x["input_tensor"], axis=d.axes[0], keepdims=1, select_last_index=last)
    return [made.add("Cast", found, to=_type(d.output_tensor))]


def _softmax(operator: str) -> Said:
    def say(made: Nodes, d: Any, x: Inputs) -> list[str]:
        if len(d.axes) != 1:
            raise Unsaid(f"{operator} has one axis")
        return [made.add(operator, x["input_tensor"], axis=d.axes[0])]

    return say


def _cast(made: Nodes, d: Any, x: Inputs) -> list[str]:
    if d.output_tensor.data_type not in FLOATS:
        raise Unsaid("ONNX does not define casts of numbers that an integer type lacks")
    return [made.add("Cast", x["input_tensor"], to=_type(d.output_tensor))]


def _type(t: TensorDesc) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(t.data_type.dtype))


def _parameter(made: Nodes, d: Desc, x: Inputs, name: str, axis: int) -> str:
    """A scale or zero point: a number, or one for each row or column of two dimensions."""
    t: TensorDesc = getattr(d, name)
    if math.prod(t.sizes) == 1:
        return made.reshaped(x[name], [])
    if d.output_tensor.dimension_count != 2 or t.sizes[axis] != math.prod(t.sizes):  # type: ignore[attr-defined]  # this operator has it
        raise Unsaid(f"{name} varies by batch")
    return made.reshaped(x[name], [-1])


def _matmul_integer(made: Nodes, d: Any, x: Inputs) -> list[str]:
    zeros = [("a_zero_point_tensor", -2), ("b_zero_point_tensor", -1)]
    given = ["" if x[name] is None else _parameter(made, d, x, name, axis) for name, axis in zeros]
    while given and not given[-1]:
        given.pop()
    return [made.add("MatMulInteger", x["a_tensor"], x["b_tensor"], *given)]


def _matmul_quantised(made: Nodes, d: Any, x: Inputs) -> list[str]:
    arguments = []
    for tensor, axis in (("a", -2), ("b", -1), ("output", -2)):
        if tensor != "output":
            arguments.append(x[f"{tensor}_tensor"])
        arguments.append(_parameter(made, d, x, f"{tensor}_scale_tensor", axis))
        if x[f"{tensor}_zero_point_tensor"] is not None:
            arguments.append(_parameter(made, d, x, f"{tensor}_zero_point_tensor", axis))
        else:
            arguments.append(made.constant(np.zeros((), getattr(d, f"{tensor}_tensor").data_type.dtype)))
    return [made.add("QLinearMatMul", *arguments)]


SAID: Mapping[str, Said] = {
    **{name: _said(to, "input_tensor") for name, to in UNARY.items()},
    **{name: _said(to, "input_tensor", **attributes) for name, (to, attributes) in WITH_NUMBERS.items()},
    **{f"ELEMENT_WISE_{name}": _said(to, "a_tensor", "b_tensor") for name, to in BINARY.items()},
    "ELEMENT_WISE_POW": _said("Pow", "input_tensor", "exponent_tensor"),
    "GEMM": _gemm,
    "CONVOLUTION": _convolution,
    "MAX_POOLING2": _pooling,
    "AVERAGE_POOLING1": _pooling,
    "SLICE1": _slice,
    "PADDING1": _padding,
    "JOIN": lambda made, d, x: [made.add("Concat", *x["input_tensors"], axis=d.axis)],
    "SPLIT": _split,
    "TILE": lambda made, d, x: [made.add("Tile", x["input_tensor"], made.integers(d.repeats))],
    "REDUCE": _reduce,
    "ARGMAX": _argument("ArgMax"),
    "ARGMIN": _argument("ArgMin"),
    "ACTIVATION_SOFTMAX1": _softmax("Softmax"),
    "ACTIVATION_LOG_SOFTMAX1": _softmax("LogSoftmax"),
    "CAST": _cast,
    "MATRIX_MULTIPLY_INTEGER": _matmul_integer,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": _matmul_quantised,
}
