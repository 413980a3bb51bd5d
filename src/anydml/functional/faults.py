"""The faults of an eager call: all of them at once, in the names of the call made.

Only a call that has failed comes here, so that good messages cost a successful call nothing. Each argument is converted once
more by itself. One that cannot be converted is replaced by one that would fit, and rules about it are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import as_array, refused_by_name, share_memory
from anydml.devices.device import Device, device_of
from anydml.errors import BindingError, DataError, DescError, Error, Fault, UnsupportedError, Violation
from anydml.feature_level import FeatureLevel
from anydml.functional.inputs import type_refused
from anydml.functional.keys import Asked, of_graph
from anydml.functional.parameters import Axis, array_of, output_dtypes, same_dimension_count, scale, zero_point
from anydml.functional.run import operator_of, signature, tensor, unspellable
from anydml.functional.slice import slice1_desc, slice_desc
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.schema.check import check
from anydml.schema.constraint import DataRule
from anydml.schema.field import Field
from anydml.schema.operator import Desc
from anydml.tensor import DATA_TYPES, DataType, TensorDesc, integers

Array = NDArray[Any]
T = TypeVar("T")
AXES: Mapping[str, Axis] = {"a": "row", "b": "column", "output": "row"}
EIGHT_BIT = (np.dtype(np.int8), np.dtype(np.uint8))


class Report:
    """The faults found so far.

    names: wire field -> its name in the call. type_arguments: wire field -> the argument that determines its data type.
    unread: the wire fields whose arguments were replaced.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names, self.type_arguments = names, dict(names)
        self.unread: set[str] = set()
        self.faults: list[Fault] = []

    def add(self, name: str, message: str, violation: Violation | None = None) -> None:
        fault = Fault(name, f"{name} {message}", violation)
        if all(fault.message != other.message for other in self.faults):
            self.faults.append(fault)

    def converted(self, convert: Callable[..., T], *arguments: Any) -> T | None:
        """The result of a conversion, or None if it is refused."""
        try:
            return convert(*arguments)
        except BindingError as error:
            self.faults += error.faults
        return None

    def output(self, out: Any, inputs: Mapping[str, Array], packed: TensorDesc) -> TensorDesc:
        """The desc of the output with the layout of `out`; packed if there is no `out` or it does not fit the result."""
        if out is None:
            return packed
        array = as_array(out) if isinstance(out, np.ndarray) else f"takes an array, not {type(out).__name__}"
        reason = array if isinstance(array, str) else refused_by_name(array)
        if reason is not None or isinstance(array, str):
            self.add("out", reason or "")
            return packed
        if not array.flags.writeable:
            self.add("out", "is read-only")
        for name, x in inputs.items():
            if (how := share_memory(array, x)) is not None:
                self.add("out", f"{how} {name}, and the operator does not work in place")
        sizes, dtype = packed.sizes, packed.data_type.dtype
        if "OutputTensor" in self.unread:
            return packed
        if array.shape != sizes or array.dtype != dtype:
            self.add("out", f"is {array.dtype}, shape {array.shape}, where the result is {dtype}, shape {sizes}")
            return packed
        return _described(array)

    def rules(self, desc: Desc, level: FeatureLevel) -> list[Violation]:
        """The broken rules. Refused data types become faults instead, and rules broken only because of them are left out."""
        try:
            check(desc, level)
        except DescError as error:
            found = [replace(v, names=self.names) for v in error.violations if self.unread.isdisjoint(map(_field, v.values))]
        else:
            return []
        refused = {next(iter(v.values)): v for v in found if v.constraint == "data_type_supported"}
        for path, violation in refused.items():
            if name := self.type_arguments.get(_field(path)):
                self.add(name, type_refused(name, path, violation), violation)
        return [v for v in found if refused.keys().isdisjoint(v.values)]

    def error(self, rules: Iterable[Violation], order: Iterable[str], otherwise: Error) -> Error:
        """The error that the call raises: the arguments' faults in their order, then the rules."""
        if self.faults:
            place = {name: i for i, name in enumerate(order)}
            faults = sorted(self.faults, key=lambda fault: place.get(fault.pointer, len(place)))
            return BindingError([*faults, *(Fault("", str(violation), violation) for violation in rules)])
        return DescError(violations) if (violations := list(rules)) else otherwise


def special_error(error: Error, asked: Asked) -> Error:
    """The error that a failed call of a slice or matmul raises. error: the first error."""
    cls: Any = operator_of(asked.operator)
    tensors = {
        f.name.removesuffix("_tensor"): _without_values(value) for f, value in zip(cls.spec.inputs, asked.tensors, strict=True)
    }
    if "SLICE" not in asked.operator:
        if asked.operator == "MATRIX_MULTIPLY_INTEGER":
            tensors = {name: tensors[name] for name in ("a", "b", "a_zero_point", "b_zero_point")}
        return matmul_error(error, cls, asked.device, tensors, asked.out, asked.output_data_type)
    names = [f.name for f in cls.spec.attributes if f.name not in cls.spec.counts]
    numbers = dict(zip(names, asked.attributes, strict=True))
    make = slice_desc if asked.operator == "SLICE" else slice1_desc
    if make is slice1_desc:
        numbers["output_sizes"] = asked.output_sizes
    return slice_error(error, asked.device, tensors["input"], numbers, asked.out, make)


def _without_values(value: Any) -> Any:
    """A tensor of a graph as an array with its sizes and data type; other arguments unchanged."""
    return np.broadcast_to(np.ones((), value.dtype), value.shape) if of_graph(value) else value


def matmul_error(
    error: Error,
    operator: type[MatrixMultiplyInteger] | type[QuantizedLinearMatrixMultiply],
    device: Device | str | None,
    arguments: Mapping[str, Any],
    out: Any,
    output_data_type: Any = None,
) -> Error:
    """The error that a failed call of a matmul raises. error: the first error. arguments: those of tensors, by name."""
    if isinstance(error, DataError):
        return _data_error(error, arguments)
    try:
        level = device_of(device).feature_level
    except UnsupportedError as refused:
        return refused
    report = Report({f.wire: f.name.removesuffix("_tensor") for f in operator.spec.tensors})
    matrices = _matrices(report, arguments["a"], arguments["b"])
    if report.unread:
        report.unread.add("OutputTensor")
    said: Mapping[str, np.dtype[Any]] | None = {}
    if operator is QuantizedLinearMatrixMultiply:
        if (said := report.converted(output_dtypes, arguments["output_zero_point"], output_data_type, out)) is None:
            said = {}
            report.unread.add("OutputTensor")
        report.type_arguments["OutputTensor"] = next(iter(said), "")
        output = next(iter(said.values()), matrices["a"].dtype)
    else:
        output = np.dtype(np.int32)
    lead = np.broadcast_shapes(*(x.shape[:-2] for x in matrices.values()))
    inputs = {f"{name}_tensor": np.broadcast_to(x, (*lead, *x.shape[-2:])) for name, x in matrices.items()}
    dtypes = {"a": matrices["a"].dtype, "b": matrices["b"].dtype, "output": output}
    known = {name for wire, name in report.names.items() if wire not in report.unread} | ({"output"} if said else set())
    for f in operator.spec.inputs:
        name = report.names[f.wire]
        of, _, kind = name.partition("_")
        value, made = arguments[name], None
        if kind == "scale":
            made = report.converted(scale, name, value, AXES[of])
            if made is None:
                report.unread.add(f.wire)
                made = np.ones((1, 1), np.float32)
        elif kind and value is not None and (not isinstance(value, int) or (of in known and dtypes[of] in EIGHT_BIT)):
            made = report.converted(zero_point, name, value, AXES[of], dtypes[of])
        if made is not None:
            inputs[f.name] = made
    same_dimension_count(inputs)
    sizes = (*inputs["a_tensor"].shape[:-1], inputs["b_tensor"].shape[-1])
    packed = TensorDesc(DATA_TYPES.get(output, DataType.UINT8), sizes)
    descs: dict[str, Any] = {name: _described(x) for name, x in inputs.items()}
    desc = operator(**descs, output_tensor=report.output(out, matrices, packed))
    rules = []
    for violation in report.rules(desc, level):
        if violation.constraint == "inner_sizes_match":
            report.add("a", _no_common_k(**matrices), violation)
        # other tensors are given the dimensions of the matrices
        elif violation.constraint != "dimension_count_supported" or _field(next(iter(violation.values))) in (
            "ATensor",
            "BTensor",
        ):
            rules.append(violation)
    for rule in operator.spec.data_rules:
        for f in operator.spec.inputs:
            if f.wire in rule.tensors and f.wire not in report.unread:
                _add_unusable(report, rule, f, inputs[f.name], arguments)
    return report.error(rules, (*arguments, "output_data_type", "out"), error)


def slice_error(
    error: Error,
    device: Device | str | None,
    input: Any,
    numbers: Mapping[str, Any],
    out: Any,
    make: Callable[..., Desc],
) -> Error:
    """The error that a failed call of a slice raises. error: the first error. make: tensor desc, numbers -> desc."""
    sizes = "output_sizes" if numbers.get("output_sizes") is not None else "sizes" if "sizes" in numbers else "output.sizes"
    try:
        level = device_of(device).feature_level
    except UnsupportedError as refused:
        return refused
    report = Report({"InputTensor": "input", "OutputTensor.Sizes": sizes, "OutputTensor": "output"})
    report.type_arguments = {"InputTensor": "input"}
    x = report.converted(tensor, "input", input)
    converted: dict[str, tuple[int, ...] | None] = {}
    for name, value in numbers.items():
        try:
            left_out = value is None and name in ("input_window_strides", "output_sizes", "strides")
            converted[name] = None if left_out else integers(value, name)
        except TypeError as refusal:
            report.faults.append(Fault(name, str(refusal)))
    rules: list[Violation] = []
    if len(converted) == len(numbers):
        if x is None:
            report.unread |= {"InputTensor", "OutputTensor"}
        count = len(next(iter(converted.values())) or ())
        desc: Any = make(TensorDesc(DataType.FLOAT32, (1,) * count) if x is None else _described(x), **converted)
        output = report.output(out, {} if x is None else {"input": x}, desc.output_tensor)
        rules = [_hinted(violation) for violation in report.rules(replace(desc, output_tensor=output), level)]
    return report.error(rules, ("input", *numbers, "out"), error)


def _hinted(violation: Violation) -> Violation:
    negative = violation.constraint == "strides_fits" and min(violation.values.get("Strides", ()), default=0) < 0
    return replace(violation, hint="slice1 takes negative strides") if negative else violation


def _add_unusable(report: Report, rule: DataRule, field: Field, x: Array, arguments: Mapping[str, Any]) -> None:
    once = x[tuple([slice(0, 1) if stride == 0 else slice(None) for stride in x.strides])]  # without repeats by zero strides
    if (broken := np.argwhere(rule.breaks(None, once))).size:
        index = tuple(broken[0].tolist())
        error = _data_error(DataError(field.name, index, once[index].item(), rule.sentence), arguments)
        report.faults.append(Fault(report.names[field.wire], str(error)))


def _field(path: str) -> str:
    return path.split(".")[0]


def _described(array: Array) -> TensorDesc:
    """The desc of an argument; packed if the array is copied because no desc can express its layout."""
    return TensorDesc(DataType.of(array.dtype), array.shape) if unspellable(array) else TensorDesc.of_layout(*signature(array))


def _matrices(report: Report, a: Any, b: Any) -> dict[str, Array]:
    """A and B; an argument that is not a matrix is replaced by one that would fit."""
    given: dict[str, Array] = {}
    for name, value in (("a", a), ("b", b)):
        if (x := report.converted(tensor, name, value)) is not None:
            if 2 <= x.ndim <= 4:
                given[name] = x
            else:
                report.add(name, f"has shape {x.shape}, and a matrix has 2 to 4 dimensions")
    if len(given) == 2:
        try:
            np.broadcast_shapes(given["a"].shape[:-2], given["b"].shape[:-2])
        except ValueError:
            report.add("b", f"has shape {b.shape}, whose leading sizes do not broadcast with those of a, {a.shape}")
            report.unread |= {"ATensor", "BTensor"}
            return {name: x[(0,) * (x.ndim - 2)] for name, x in given.items()}
    report.unread |= {f"{name.upper()}Tensor" for name in ("a", "b") if name not in given}
    rows = given["b"].shape[-2] if "b" in given else 1
    columns = given["a"].shape[-1] if "a" in given else 1
    stand_in = {"a": np.broadcast_to(np.uint8(0), (1, rows)), "b": np.broadcast_to(np.uint8(0), (columns, 1))}
    return {name: given.get(name, stand_in[name]) for name in ("a", "b")}


def _no_common_k(a: Array, b: Array) -> str:
    told = f"has {a.shape[-1]} columns but b has {b.shape[-2]} rows: the shapes are {a.shape} and {b.shape}"
    for name, x, fits in (("b", b, b.shape[-1] == a.shape[-1]), ("a", a, a.shape[-2] == b.shape[-2])):
        if fits:
            return f"{told}; did you mean {name}.{'T' if x.ndim == 2 else 'mT'}?"
    return told


def _data_error(error: DataError, arguments: Mapping[str, Any]) -> DataError:
    """The error with the caller's number or element, before it was rounded or broadcast."""
    name = error.tensor.removesuffix("_tensor")
    value = arguments[name]
    index: tuple[int, ...] = ()
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        given = value
    else:
        array = array_of(name, value)
        placed = scale(name, value, AXES[name.partition("_")[0]])
        position = np.ravel_multi_index(error.index, (1,) * (len(error.index) - placed.ndim) + placed.shape)
        index = tuple(int(i) for i in np.unravel_index(position, array.shape))
        given = array[index].item()
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
            index = ()
    finite = isinstance(given, int) or math.isfinite(given)
    return DataError(name, index, given, error.rule, error.value if finite and given != error.value else None)
