"""The eager call of any operator: arrays to tensor descs, one compiled operator for each kind of call, results to arrays.

Calls are cached by the shapes, strides and data types of their arrays and by their attributes: a second call of the same kind
makes no descs, checks nothing and compiles nothing. `functions.py` passes arguments in the order of the operator's fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import Near, identical, share_memory
from anydml.devices.compiled import CompiledOperator
from anydml.devices.device import CACHED, Device, device_of
from anydml.errors import BindingError, DataError, DescError
from anydml.fork_safety import guard
from anydml.functional.inputs import BOOL, Several, array_of_number, fault
from anydml.functional.keys import keyed, kind_of, lies, taken
from anydml.functional.request import Request
from anydml.functional.run import (
    allocate,
    announced,
    as_node,
    describing,
    operator_of,
    packed_bytes,
    signature,
    unspellable,
)
from anydml.gc_pause import paused
from anydml.int4_tensors import array_dtype, unpacked
from anydml.kernels.kernel import Direct
from anydml.tensor import DataType, TensorDesc, four_bit

Array = NDArray[Any]


class Placed(NamedTuple):
    """The way from an argument to an input.

    name: the input. place: the argument's index. sizes: what it is broadcast to, if not its own. number: the data type of an
    argument that is a number. shape: what a vector along one dimension is reshaped to.
    """

    name: str
    place: int
    sizes: tuple[int, ...] | None
    number: DataType | None
    shape: tuple[int, ...] | None


class Prepared(NamedTuple):
    """A kind of call, compiled.

    compiled: None if the outputs have no elements. outputs: for each field, (name, desc, shape), a list of those, or None.
    in_place: the inputs that an output may be identical to.
    """

    compiled: CompiledOperator | None
    inputs: tuple[Placed, ...]
    outputs: tuple[Any, ...]
    in_place: frozenset[str]


def call(
    operator: str,
    tensors: Sequence[Any],
    attributes: Sequence[Any],
    out: Any = None,
    device: Device | str | None = None,
    output_sizes: Any = None,
    output_data_type: Any = None,
) -> Any:
    """The outputs of an operator: an array, a list where the output is an array of tensors, or a tuple of those.

    tensors, attributes: in the order of its inputs and of its attributes without counts; None where absent.
    """
    asked = device
    try:
        key = _key(operator, tensors, attributes, output_data_type, out) if output_sizes is None else None
        device = device_of(device)
        if key is not None and (quick := device.quick.get(key)) is not None and not describing():
            if out is None:
                return _at_once(quick, tensors, allocate(quick.shape, quick.dtype, quick.scratch))
            if out.flags.writeable and not any(np.may_share_memory(out, x) for x in tensors if isinstance(x, np.ndarray)):
                return _at_once(quick, tensors, out)
        flat, kinds = [], []
        for value in tensors:
            if isinstance(value, (list, tuple)):
                several = [taken(x) for x in value]
                flat += several
                kinds.append(Several([kind_of(x) for x in several]))
            else:
                one = value if value is None else taken(value)
                flat.append(one)
                kinds.append(kind_of(one))
        prepared = device.cached(
            _prepared, operator, tuple(kinds), keyed(attributes), lies(out), keyed(output_sizes), output_data_type
        )
        if key is not None and all(x is y for x, y in zip(flat, tensors, strict=True)):
            _remember(device, key, prepared, out)
        return _run(prepared, flat, out)
    except (BindingError, DescError, DataError) as error:
        node = as_node(
            lambda given, on: call(operator, given, attributes, None, on, output_sizes, output_data_type), tensors, out, asked
        )
        if node is not None:
            return node
        with guard:  # here and not above: only a call that fails needs it
            from anydml.functional.call_faults import call_error
        raise call_error(error, operator, tensors, attributes, out, device, output_sizes, output_data_type) from None


def along(axes: Any, axis: int | None) -> Any:
    """The axes of a call, which may be given as one `axis` instead."""
    if axis is None:
        return axes
    if axes is not None:
        raise fault("axis", "and axes are both given, and are the same")
    return axis


class Quick(NamedTuple):
    """A kind of call that only needs the addresses of its arrays and the values of its numbers.

    numbers: the indices of arguments that are numbers, and the data types that they are converted to. shape, dtype: those of
    the result. scratch: the bytes of scratch that the kernel takes.
    """

    run: Direct
    numbers: tuple[tuple[int, DataType], ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    scratch: int


def _key(operator: str, tensors: Sequence[Any], attributes: Sequence[Any], data_type: Any, out: Any) -> Any:
    """The key of a call whose tensors are all NumPy arrays or numbers; None for any other call."""
    into = None
    if out is not None:
        if type(out) is not np.ndarray:
            return None
        into = signature(out)
    kinds: list[Any] = []
    for value in tensors:
        kind = type(value)
        if kind is np.ndarray:
            kinds.append((value.shape, value.strides, value.dtype))
        elif value is None or kind is float or kind is int:
            kinds.append(kind)
        else:
            return None
    return operator, tuple(kinds), keyed(attributes) if attributes else (), data_type, into


def _at_once(quick: Quick, tensors: Sequence[Any], result: Array) -> Array:
    arrays = [*tensors, result]
    for place, data_type in quick.numbers:
        value = arrays[place]
        arrays[place] = _number(value, math.copysign(1, value) if type(value) is float else None, data_type)
    quick.run(arrays)
    return result


@lru_cache(maxsize=1024, typed=True)
def _number(value: float, sign: float | None, data_type: DataType) -> Array:
    """The array of a number, made once. sign: tells 0.0 from -0.0, which are equal as keys."""
    return array_of_number(value, data_type)


def _remember(device: Device, key: Any, prepared: Prepared, out: Any) -> None:
    """Store a `Quick` for the next call of this kind, if such a call needs no further checks."""
    if prepared.compiled is None or len(prepared.outputs) != 1 or not isinstance(prepared.outputs[0], tuple):
        return
    name, desc, shape = prepared.outputs[0]
    if out is not None and (out.shape != desc.sizes or out.dtype != desc.data_type.dtype or unspellable(out)):
        return  # the result is copied to this array, or the array is refused
    names = {i.place: i.name for i in prepared.inputs}
    if (direct := prepared.compiled.direct([*(names.get(k, "") for k in range(len(key[1]))), name])) is not None:
        numbers = tuple((i.place, i.number) for i in prepared.inputs if i.number is not None)
        if len(device.quick) >= CACHED:
            device.quick.clear()
        scratch = prepared.compiled.binding_properties.temporary_resource_size
        device.quick[key] = Quick(direct, numbers, shape, desc.data_type.dtype, scratch)


@paused
def _prepared(
    device: Device, operator: str, kinds: tuple[Any, ...], attributes: Any, out: Any, sizes: Any, data_type: Any
) -> Prepared:
    cls = operator_of(operator)
    request = Request(cls, device.feature_level, kinds, attributes, sizes, data_type)
    request.infer()
    if request.faults:
        raise BindingError(request.faults)
    spec = cls.spec
    empty = request.empty()
    descs = request.output_descs(None if empty else out)
    if request.faults:
        raise BindingError(request.faults)
    compiled = device.compile(request.desc(descs))
    if request.uninferred is not None:  # no rule is broken: a bug of the operator's file
        raise request.uninferred
    inputs = [
        Placed(
            i.name, i.place, None if i.sizes == i.shape and not i.number else i.sizes, i.number, i.shape if i.placed else None
        )
        for i in request.inputs
    ]
    outputs: list[Any] = []
    for f in spec.outputs:
        found = descs.get(f.name)
        if found is None:
            outputs.append(None)
        elif f.sized_by:
            outputs.append([(f"{f.name}[{i}]", t, request.shape(t.sizes)) for i, t in enumerate(found)])
        else:
            outputs.append((f.name, found, request.shape(request.true_sizes(f.name) if empty else found.sizes)))
    in_place = frozenset(i.name for i in request.inputs if i.field.wire in spec.in_place)
    return Prepared(None if empty else compiled, tuple(inputs), tuple(outputs), in_place)


def _run(prepared: Prepared, flat: list[Any], out: Any) -> Any:
    inputs: dict[str, Array] = {}
    for name, place, sizes, number, shape in prepared.inputs:
        x = flat[place]
        if shape is not None:
            x = x.reshape(shape)
        if number is not None:
            assert sizes is not None
            x = np.broadcast_to(array_of_number(x, number), sizes)
        else:
            if x.dtype == BOOL:
                x = x.view(np.uint8)
            if sizes is not None:
                x = np.broadcast_to(x, sizes)
            if four_bit(x.dtype) is not None:
                x = packed_bytes(x)
        inputs[name] = x
    compiled = prepared.compiled
    if compiled is None:
        made = [
            None if o is None else [np.empty(s, array_dtype(t.data_type)) for _, t, s in o] if isinstance(o, list)
            else np.empty(o[2], array_dtype(o[1].data_type)) for o in prepared.outputs
        ]  # fmt: skip
        return made[0] if len(made) == 1 else tuple(made)
    announced(compiled.desc, inputs, prepared.outputs)
    several = len(prepared.outputs) > 1
    if several and out is not None and (not isinstance(out, (list, tuple)) or len(out) != len(prepared.outputs)):
        raise fault("out", f"takes {len(prepared.outputs)} arrays in a tuple, or None for new ones")
    outs = out if several and out is not None else (out,)
    views: dict[str, Array] = {}
    results: list[Any] = []
    later: list[tuple[Array, Callable[[], Array]]] = []
    scratch = compiled.binding_properties.temporary_resource_size
    for at, o in enumerate(prepared.outputs):
        given = outs[at] if at < len(outs) else None
        if o is None:
            results.append(None)
        elif isinstance(o, list):
            if given is not None and (not isinstance(given, (list, tuple)) or len(given) != len(o)):
                raise fault("out", f"takes a list of {len(o)} arrays")
            beside = _beside({**inputs, **views}, {x[0]: given[i] for i, x in enumerate(o)} if given is not None else {})
            results.append([_output(x, given and given[i], prepared, beside, views, later, scratch) for i, x in enumerate(o)])
        else:
            beside = {o[0]: {**inputs, **views}} if given is not None else {}
            results.append(_output(o, given, prepared, beside, views, later, scratch))
    compiled.execute_described({**inputs, **views})
    for array, result in later:
        array[...] = result()
    return tuple(results) if several else results[0]


def _beside(before: Mapping[str, Array], out: Mapping[str, Array | None]) -> dict[str, dict[str, Array]]:
    """For each array in `out`, by name, the arrays before it with which it may share memory."""
    every = {**before, **{name: x for name, x in out.items() if x is not None}}
    names, arrays = [*every], [*every.values()]
    near = Near(arrays) if out else None
    first = len(before)
    return {names[k]: {names[i]: arrays[i] for i in near.to(k) if i < k} for k in range(first, len(every))} if near else {}


def _output(
    described: tuple[str, TensorDesc, tuple[int, ...]],
    out: Any,
    prepared: Prepared,
    beside: Mapping[str, Mapping[str, Array]],
    views: dict[str, Array],
    later: list[tuple[Array, Callable[[], Array]]],
    scratch: int,
) -> Array:
    """The array in which an output is returned.

    views: gets the array that the kernel writes. later: gets the copies to be made after the call. beside: for each output
    that has a given array, the arrays with which that one may share memory.
    """
    name, desc, shape = described
    dtype = array_dtype(desc.data_type)
    if out is not None:
        if out.shape != shape or out.dtype != dtype:
            raise fault("out", f"is {out.dtype}, shape {out.shape}, where the result is {dtype}, shape {shape}")
        if not out.flags.writeable:
            raise fault("out", "is not writable")
        view: Array = out.reshape(desc.sizes) if shape != desc.sizes else out
        for other, x in beside[name].items():
            if (how := share_memory(out, x)) is not None and not (other in prepared.in_place and identical(view, x)):
                raise fault("out", f"{how} {other}")
        if not unspellable(out) and four_bit(dtype) is None:
            views[name] = view
            return np.asarray(out) if type(out) is not np.ndarray else out
    if four_bit(dtype) is not None:
        found = allocate(shape, dtype, scratch) if out is None else out
        views[name] = memory = allocate((desc.element_bytes,), np.dtype(np.uint8), scratch)
        later.append((found, lambda: unpacked(memory, desc).reshape(shape).astype(dtype)))
        return found
    views[name] = fresh = allocate(desc.sizes, dtype, scratch)
    if out is not None:
        later.append((out, lambda: fresh.reshape(shape)))
        result: Array = out
        return result
    return fresh.reshape(shape) if shape != desc.sizes else fresh
