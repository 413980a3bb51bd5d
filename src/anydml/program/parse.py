"""The conversion of JSON to plain data: it finds all faults of form at once, and warns of each unknown member."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml import operators
from anydml.devices.device import ExecutionFlags
from anydml.exact.formats import FORMATS
from anydml.functional.inputs import array_of_number
from anydml.program import model
from anydml.program.node import MISSING, UINT64, Node, show
from anydml.program.text import Notes
from anydml.schema.kinds import OperatorDesc, rounded_to
from anydml.schema.operator import Desc, example_desc
from anydml.tensor import EXTENSIONS, DataType, TensorDesc, TensorFlags

REFUSED_TYPES = {
    "hlsl": "HLSL shaders need Microsoft's shader compiler and a GPU",
    "onnx": "ONNX models run by themselves, by `anydml run model.onnx`",
    "dmlserializedgraph": "serialized graphs are private to DirectML's onnxruntime provider",
}
_COUNTS = range(1, 2**32)
_FLOAT_WORDS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
_RESOURCE_TYPES = {t.name: t for t in DataType if t.element_bits != 4}  # NumPy has no 4-bit elements
_MIXED_TYPES = {name: t for name, t in _RESOURCE_TYPES.items() if t != DataType.UNKNOWN}
_RANGES = {
    t: range(int(np.iinfo(t.dtype).min), int(np.iinfo(t.dtype).max) + 1) for t in _RESOURCE_TYPES.values() if "INT" in t.name
}
_EXTENSIONS = frozenset(EXTENSIONS.values())  # of which NumPy has the bits alone
_TYPE, _NONE = "DML_TENSOR_DATA_TYPE_", model.Given(np.zeros(0, np.uint8))

Parsed = tuple[dict[str, model.Resource], dict[str, model.Dispatchable], tuple[model.Command, ...]]
Dispatchables = dict[str, model.Dispatchable | None]  # None if the operator is unknown, and so are its tensors


def parse(document: Any, notes: Notes) -> Parsed:
    """The program that a JSON value spells. Faults and warnings go to `notes`; with faults the result is not usable."""
    root = Node(document, notes)
    resources = {name: _resource(name, node) for name, node in root.take("resources").members()}
    dispatchables: Dispatchables = {
        name: _dispatchable(name, node, resources) for name, node in root.take("dispatchables").members()
    }
    commands = tuple(_command(node, resources, dispatchables) for node in root.take("commands").entries())
    root.ignore("$schema")
    root.warn_of_rest()
    return resources, {name: d for name, d in dispatchables.items() if d is not None}, commands


def _resource(name: str, node: Node) -> model.Resource:
    of = node.get("initialValuesDataType").choice(_RESOURCE_TYPES, _TYPE, DataType.UNKNOWN)
    size, offset = node.get("sizeInBytes"), node.get("initialValuesOffsetInBytes")
    if offset.integer(0, UINT64):
        node.notes.warn(offset.pointer, "is checked but not applied: values begin at byte 0")
    resample, mode = node.get("resampleSize"), node.get("resampleMode")
    if mode.string("scale") != "scale":
        mode.fault(f'takes "scale", not {show(mode.value)}')
    sizes = () if resample.is_missing else resample.integers(_COUNTS)
    values = _values(node.take("initialValues"), of, sizes)
    node.warn_of_rest()
    return model.Resource(
        name, node.pointer, of, values, None if size.is_missing else size.integer(0, UINT64), offset.integer(0, UINT64)
    )


def _values(node: Node, of: DataType, resample: tuple[int, ...]) -> model.Values:
    value = node.value
    if isinstance(value, list):
        if not value:
            node.fault("is empty, but a resource must not be empty")
        elif of != DataType.UNKNOWN:
            return model.Given(_elements(node, of))
        elif all(isinstance(entry, dict) for entry in value):
            return model.Given(np.concatenate([_mixed(entry).view(np.uint8) for entry in node.entries()]))
        else:
            node.fault("Field 'initialValuesDataType' is required, unless each value is an object with a 'type'.")
    elif value == "deferred":
        node.fault('"deferred" is for outputs of ONNX models, which programs here cannot run')
    elif not isinstance(value, dict):
        if not node.is_missing:
            node.fault(f"takes an array of values or an object, not {show(value)}")
    elif len(given := [name for name in ("value", "valueStart", "sourcePath") if name in value]) != 1:
        node.fault(f"takes one of 'value', 'valueStart' and 'sourcePath', not {' and '.join(given) or 'none'}")
    elif given == ["sourcePath"]:
        source = node.take("sourcePath").string()
        node.warn_of_rest()
        return model.FromFile(source, resample)
    elif of == DataType.UNKNOWN:
        node.fault("Field 'initialValuesDataType' is required for these values.")
    else:
        first, count = _element(node.take(given[0]), of), node.take("valueCount").integer(1, _COUNTS)
        delta = None if given == ["value"] else _element(node.take("valueDelta"), of)
        if delta is not None and of in _EXTENSIONS:
            node.fault(f"has no sequence of {of}")
        node.warn_of_rest()
        return model.Constant(first, count) if delta is None else model.Sequence(first, delta, count)
    return _NONE


def _element(node: Node, of: DataType) -> NDArray[Any]:
    """One element. A number is rounded once to a float type; it is a fault if it does not fit."""
    value, dtype = node.value, of.dtype
    found = np.zeros(1, dtype)
    if value is MISSING:
        return found
    if of in _RANGES:
        found[0] = node.integer(0, _RANGES[of])
    elif isinstance(value, str) and value.lower() in _FLOAT_WORDS:
        number = _FLOAT_WORDS[value.lower()]
        if of in _EXTENSIONS:
            return array_of_number(number, of).reshape(1).view(dtype)
        found[0] = number
    elif type(value) not in (int, float):
        node.fault(f'takes a number, "nan", "inf" or "-inf", not {show(value)}')
    elif of in _EXTENSIONS:
        if math.isfinite(rounded_to(value, FORMATS[of])):
            return array_of_number(value, of).reshape(1).view(dtype)
        node.fault(f"{show(value)} does not fit {of}")
    else:
        found = _rounded([value], dtype)
        if not np.isfinite(found[0]):
            node.fault(f"{show(value)} does not fit {of}")
    return found


def _elements(node: Node, of: DataType) -> NDArray[Any]:
    """An array of elements, converted at once if all fit, else one by one."""
    values, dtype = node.value, of.dtype
    kinds = set(map(type, values))
    if dtype.kind == "f" and kinds <= {int, float} and np.isfinite(rounded := _rounded(values, dtype)).all():
        return rounded
    if kinds == {int} and of in _RANGES and min(values) in _RANGES[of] and max(values) in _RANGES[of]:
        return np.array(values, dtype)
    return np.concatenate([_element(entry, of) for entry in node.entries()])


def _rounded(values: list[int | float], dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        with np.errstate(over="ignore"):
            return np.array(values, np.float64).astype(dtype)
    except OverflowError:  # an integer beyond the range of doubles
        return np.full(len(values), np.inf, dtype)


def _mixed(node: Node) -> NDArray[Any]:
    node.ignore("name")
    before = len(node.notes.faults)
    of, value = node.take("type").choice(_MIXED_TYPES, _TYPE, DataType.UINT8), node.take("value")
    node.warn_of_rest()
    return _element(value, of) if len(node.notes.faults) == before else _NONE.data


def _dispatchable(name: str, node: Node, resources: Mapping[str, Any]) -> model.Dispatchable | None:
    kind, places = node.take("type"), dict[str, str]()
    wire_name = kind.string()
    reason, operator = REFUSED_TYPES.get(wire_name.lower()), operators.find(wire_name)
    if operator is None:
        if reason is not None:
            kind.fault(f"{wire_name} is refused: {reason}; programs here run DirectML's operators")
        elif isinstance(kind.value, str):
            kind.fault(operators.why_missing(wire_name))
        _bindings(node.get("bindings"), resources)
        return None
    node.get("executionFlags").flags(ExecutionFlags.NONE, "DML_EXECUTION_FLAG_")
    how = node.get("dmlCompileType")
    if how.string("DmlCompileOp") not in ("DmlCompileOp", "DmlCompileGraph"):
        how.fault(f"takes DmlCompileOp or DmlCompileGraph, not {show(how.value)}")
    bindings = _bindings(node.get("bindings"), resources)
    inner = next((node.get(name) for name in ("Desc", "desc") if node.has(name)), node)
    desc = _desc(operator, inner, places)
    node.warn_of_rest()
    return model.Dispatchable(name, node.pointer, desc, bindings, places)


def _desc(operator: type[Desc], node: Node, places: dict[str, str], *, fused: bool = False) -> Desc:
    """An operator's desc from an object with its fields; fused: whether it is another's activation, without tensors."""
    fields: dict[str, Any] = {}
    for field in operator.spec.fields:
        if node.has(field.wire):
            places[field.wire] = node.get(field.wire).pointer
        may_be_absent = field.optional or (fused and field.is_tensor)
        value = node.get(field.wire) if may_be_absent else node.take(field.wire)
        if may_be_absent and (value.is_missing or value.value is None):
            fields[field.name] = None
        elif field.is_tensor and field.sized_by:
            within = ((f"{field.wire}[{i}]", entry) for i, entry in enumerate(value.entries()))
            fields[field.name] = tuple(_tensor(entry, wire, places) for wire, entry in within)
        elif field.is_tensor:
            fields[field.name] = _tensor(value, field.wire, places)
        elif isinstance(field.kind, OperatorDesc):
            found = [_activation(entry) for entry in (value.entries() if field.sized_by else (value,))]
            fields[field.name] = tuple(found) if field.sized_by else found[0]
        else:
            assert field.kind is not None
            fields[field.name] = tuple(map(field.kind.parse, value.few())) if field.sized_by else field.kind.parse(value)
    node.warn_of_rest()
    try:
        return operator(**fields)
    except (TypeError, ValueError) as error:  # a value of the right form that its field cannot take, such as 0.5 as a UINT8
        node.fault(str(error))
        return example_desc(operator)


def _activation(node: Node) -> Desc:
    """The desc of a fused activation: {"Type": its name} with its fields beside it or under "Desc"."""
    kind = next((node.get(name) for name in ("Type", "type") if node.has(name)), None) or node.take("Type")
    operator = operators.find(kind.string())
    if operator is None:
        if isinstance(kind.value, str):
            kind.fault(operators.why_missing(kind.value))
        return example_desc(operators.every()[0])
    inner = next((node.get(name) for name in ("Desc", "desc") if node.has(name)), node)
    made = _desc(operator, inner, {}, fused=True)
    node.warn_of_rest()
    return made


def _tensor(outer: Node, wire: str, places: dict[str, str]) -> TensorDesc:
    kind = outer.get("Type")
    if kind.string("BUFFER").removeprefix("DML_TENSOR_TYPE_") != "BUFFER":
        kind.fault(f"takes BUFFER, the only type, not {show(kind.value)}")
    node = outer.get("Desc") if outer.has("Desc") else outer
    places.update({f"{wire}.{name}": member.pointer for name, member in node.members()})
    sizes, count, strides = node.take("Sizes"), node.get("DimensionCount"), node.get("Strides")
    if isinstance(sizes.value, list) and count.integer(len(sizes.value)) != len(sizes.value):
        count.fault(f"is {show(count.value)}, but Sizes has {len(sizes.value)} entries; it may be left out")
    desc = TensorDesc(
        node.take("DataType").choice(DataType.__members__, _TYPE, DataType.UNKNOWN),
        sizes.integers(),
        strides=strides.integers() or None,  # an empty array means no strides, as in DxDispatch
        flags=node.get("Flags").flags(TensorFlags.NONE, "DML_TENSOR_FLAG_"),
        total_tensor_size_in_bytes=node.get("TotalTensorSizeInBytes").integer(),
        guaranteed_base_offset_alignment=node.get("GuaranteedBaseOffsetAlignment").integer(),
    )
    node.warn_of_rest()
    outer.warn_of_rest()
    return desc


def _command(node: Node, resources: Mapping[str, Any], dispatchables: Dispatchables) -> model.Command:
    kind = node.take("type")
    name = kind.string().lower()
    command: model.Command = model.Print(node.pointer, "", False)
    if name == "dispatch":
        node.ignore("threadGroupCount")
        dispatchable = node.take("dispatchable").reference("dispatchable", dispatchables)
        command = model.Dispatch(node.pointer, dispatchable, _bindings(node.take("bindings"), resources))
    elif name in ("print", "writefile"):
        resource = node.take("resource").reference("resource", resources)
        if name == "print":
            command = model.Print(node.pointer, resource, node.get("verbose").boolean())
        else:
            target, dimensions = node.take("targetPath").string(), node.get("dimensions")
            sizes = None if dimensions.is_missing else dimensions.integers(range(2**32))
            command = model.WriteFile(node.pointer, resource, target, sizes)
    elif isinstance(kind.value, str):
        kind.fault(f"there is no command {show(kind.value)}; there are dispatch, print and writeFile")
    node.warn_of_rest()
    return command


def _bindings(node: Node, resources: Mapping[str, Any]) -> dict[str, tuple[model.Binding, ...]]:
    """The bindings of each tensor field; an array of tensors has several."""
    return {
        name: tuple(_source(entry, resources) for entry in (source.entries() if isinstance(source.value, list) else (source,)))
        for name, source in node.members()
    }


def _source(node: Node, resources: Mapping[str, Any]) -> model.Binding:
    if isinstance(node.value, str):
        return model.Binding(node.pointer, node.reference("resource", resources))
    node.ignore("elementCount", "format", "counter", "counterOffsetBytes", "shape")  # for shaders and ONNX
    name = node.take("name").reference("resource", resources)
    offset, size = node.get("elementOffset").integer(0, UINT64), node.get("elementSizeInBytes").integer(0, UINT64)
    node.warn_of_rest()
    return model.Binding(node.pointer, name, offset, size or None)
