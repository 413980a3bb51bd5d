"""The eager call of any operator: its plan, one compiled operator for each kind of call, and its results.

Calls are cached by the layouts of their arrays and by their attributes: a second call of the same kind makes no plan, checks
nothing and compiles nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import Near, identical, share_memory
from anydml.devices.device import CACHED, Device, device_of, named, usual_device
from anydml.errors import BindingError, DataError, DescError, Error
from anydml.fork_safety import guard
from anydml.functional.inference import outputs_type
from anydml.functional.inputs import Several, array_of_number, fault
from anydml.functional.keys import EXACT, Asked, each, exact, keyed, laid, of_graph, taken_all
from anydml.functional.plan import Placed, Plan
from anydml.functional.planning import plan_call
from anydml.functional.run import HUGE, allocate, operator_of, signature, unspellable
from anydml.gc_pause import paused
from anydml.int4_tensors import array_dtype, unpacked
from anydml.tensor import DataType, TensorDesc, four_bit

Array = NDArray[Any]
ARRAY = np.ndarray
ARRAYS = frozenset([ARRAY])
Form = tuple[tuple[int, ...], np.dtype[Any]]  # the shape and data type of a new array


def call(
    operator: str,
    tensors: Sequence[Any],
    attributes: Sequence[Any],
    out: Any = None,
    device: Device | str | None = None,
    output_sizes: Any = None,
    output_data_type: Any = None,
) -> Any:
    """The outputs of an operator: an array, a list where the output is an array of tensors, or a named tuple of those.

    tensors, attributes: in the order of its inputs and of its attributes without counts; None where absent.
    """
    flat: Sequence[Any] = tensors
    kinds: list[Any] = []
    known, listed = True, False
    for value in tensors:
        kind = type(value)
        if kind is ARRAY:
            kinds.append((value.shape, value.strides, value.dtype))
        elif value is None:
            kinds.append(None)
        elif kind is float or kind is int:
            kinds.append(kind)
        elif (kind is list or kind is tuple) and ARRAYS.issuperset(map(type, value)):
            kinds.append(Several([(x.shape, x.strides, x.dtype) for x in value]))
            listed = True
        else:
            if (t := next(filter(of_graph, each(tensors)), None)) is not None:
                return t.traced(Asked(operator, tensors, attributes, out, device, output_sizes, output_data_type))
            known = False
            break
    try:
        if not known:
            flat, kinds = taken_all(tensors)
        elif listed:
            flat = each(tensors) if len(tensors) > 1 else tensors[0]
        into = None if out is None else signature(out) if type(out) is np.ndarray else laid(out)
        types = None
        if attributes:
            types = (*map(type, attributes),)
            if not EXACT.issuperset(types) or (float in types and 0.0 in attributes):
                attributes = exact(attributes)
        sizes = None if output_sizes is None else keyed(output_sizes)
        if device is None:
            device = usual_device.get() or named("cpu")
        elif type(device) is not Device:
            device = device_of(device)
        data_type = None if output_data_type is None else keyed(output_data_type)
        key = operator, (*kinds,), attributes, types, into, sizes, data_type
        prepared: Prepared | None = device.calls.get(key)
        if prepared is None:
            prepared = _known(device, key, keyed(attributes))
        form = prepared.fresh
        if form is None or out is not None:
            return prepared(flat, out)
        result = np.empty(*form)
        arrays = [*flat, result]
        for i in prepared.moving:
            arrays[i.place] = _moved(i, arrays[i.place])
        prepared.run(arrays)
        return result
    except (BindingError, DescError, DataError) as error:
        raise explained(error, Asked(operator, tensors, attributes, out, device, output_sizes, output_data_type)) from None


def explained(error: Error, asked: Asked) -> Error:
    """The error that a failed call raises, with everything that is wrong. error: the first that was found."""
    with guard:  # here and not above: only a call that fails needs it
        from anydml.functional.call_faults import call_error
    return call_error(error, asked)


def along(axes: Any, axis: int | None) -> Any:
    """The axes of a call, which may be given as one `axis` instead."""
    if axis is None:
        return axes
    if axes is not None:
        raise fault("axis", "and axes are both given, and are the same")
    return axis


@lru_cache(maxsize=1024, typed=True)
def _number(value: float, sign: float | None, data_type: DataType) -> Array:
    """The array of a number, made once. sign: tells 0.0 from -0.0, which are equal as keys."""
    return array_of_number(value, data_type)


def _moved(i: Placed, value: Any) -> Array:
    if i.number is None:
        return i.moved(value)
    return _number(value, math.copysign(1, value) if type(value) is float else None, i.number)


def _known(device: Device, key: tuple[Any, ...], attributes: Any) -> Prepared:
    """The prepared call of an equal key, made now if there is none. attributes: those of the key, without types."""
    operator, kinds, _, _, *more = key
    found: Prepared = device.cached(_prepared, operator, kinds, attributes, *more)
    if len(device.calls) >= CACHED:
        device.calls.clear()
    device.calls[key] = found
    return found


@paused
def _prepared(device: Device, operator: str, *kind: Any) -> Prepared:
    return Prepared(device, plan_call(operator_of(operator), device.feature_level, *kind))


class Prepared:
    """A kind of call, compiled.

    run: the call on the arguments that begin where tensors do, and on the outputs. moving: the arguments that do not begin
    there. fresh: the shape and data type of the result, if it is one small array and the call needs nothing but `run`.
    forms: the same of each of several results, a list for an array of tensors, None for one that is absent.
    """

    def __init__(self, device: Device, plan: Plan) -> None:
        self.plan = plan
        self.moving = tuple(i for i in plan.inputs if i.moves)
        self.fresh: Form | None = None
        self.forms: list[Form | list[Form] | None] | None = None
        names = [f.name for f in plan.checked.desc.spec.outputs]
        self._returned: Callable[..., Any] | None = outputs_type(type(plan.checked.desc)) if len(names) > 1 else None
        if plan.empty:
            return
        self._compiled = compiled = device.compile(plan.checked)
        self._scratch = compiled.binding_properties.temporary_resource_size
        views = plan.viewer()
        self.run: Any = compiled.direct(plan.names, views)
        if self.run is None:  # calls are reported
            self.run = lambda arrays: compiled.bind_described(views(arrays)).execute()
        if (forms := _forms(plan.outputs, HUGE - self._scratch)) is not None:
            self.forms = forms
            self.fresh = forms[0] if len(forms) == 1 and isinstance(forms[0], tuple) else None

    def __call__(self, flat: Sequence[Any], out: Any) -> Any:
        plan = self.plan
        if plan.empty:
            made = [
                None if o is None else [np.empty(s, array_dtype(t.data_type)) for _, t, s in o] if isinstance(o, list)
                else np.empty(o[2], array_dtype(o[1].data_type)) for o in plan.outputs
            ]  # fmt: skip
            return self._returned(*made) if self._returned else made[0]
        arrays = [*flat]
        for i in self.moving:
            arrays[i.place] = _moved(i, arrays[i.place])
        if out is None:
            return self._filled(arrays) if self.forms is None else self._new(arrays, self.forms)
        several = len(plan.outputs) > 1
        if several and (not isinstance(out, (list, tuple)) or len(out) != len(plan.outputs)):
            raise fault("out", f"takes {len(plan.outputs)} arrays in a tuple, or None for new ones")
        inputs = {i.name: i.view(arrays[i.place]) for i in plan.inputs}
        given_inputs = {i.name: flat[i.place] if i.reversed or i.copied else inputs[i.name] for i in plan.inputs}
        return self._filled(arrays, out if several else (out,), given_inputs)

    def _new(self, arrays: list[Any], forms: Sequence[Form | list[Form] | None]) -> Any:
        """Make the call on arguments that begin where tensors do, and on new outputs."""
        results: list[Any] = []
        for form in forms:
            if form is None:
                results.append(None)
            elif type(form) is list:
                made = [np.empty(*x) for x in form]
                results.append(made)
                arrays += made
            else:
                results.append(np.empty(*form))
                arrays.append(results[-1])
        self.run(arrays)
        return self._returned(*results) if self._returned else results[0]

    def _filled(self, arrays: list[Any], outs: Sequence[Any] = (), inputs: Mapping[str, Array] | None = None) -> Any:
        """Make the call on arguments that begin where tensors do. outs: the given outputs. inputs: to compare with these."""
        views: dict[str, Array] = dict(inputs or {})
        results: list[Any] = []
        later: list[tuple[Array, Callable[[], Array]]] = []
        for at, o in enumerate(self.plan.outputs):
            given = outs[at] if at < len(outs) else None
            if o is None:
                results.append(None)
                continue
            each = o if isinstance(o, list) else [o]
            if not isinstance(o, list):
                given = None if given is None else (given,)
            elif given is not None and (not isinstance(given, (list, tuple)) or len(given) != len(o)):
                raise fault("out", f"takes a list of {len(o)} arrays")
            for x in given or ():
                if not isinstance(x, np.ndarray) and x is not None:
                    raise fault("out", f"takes an array, not {type(x).__name__}")
            beside = _beside(views, {x[0]: given[i] for i, x in enumerate(each)}) if given is not None else {}
            made = []
            for i, x in enumerate(each):
                result, memory = self._output(x, given and given[i], beside, later)
                made.append(result)
                arrays.append(memory)
                if inputs is not None:
                    views[x[0]] = memory
            results.append(made if isinstance(o, list) else made[0])
        self.run(arrays)
        for array, made_of in later:
            array[...] = made_of()
        return self._returned(*results) if self._returned else results[0]

    def _output(
        self,
        described: tuple[str, TensorDesc, tuple[int, ...]],
        out: Any,
        beside: Mapping[str, Mapping[str, Array]],
        later: list[tuple[Array, Callable[[], Array]]],
    ) -> tuple[Array, Array]:
        """The array in which an output is returned, and the array that the kernel writes.

        later: gets the copies to be made after the call. beside: for each output that has a given array, the arrays with which
        that one may share memory.
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
                if (how := share_memory(out, x)) is not None and not (other in self.plan.in_place and identical(view, x)):
                    raise fault("out", f"{how} {other}")
            if not unspellable(out) and four_bit(dtype) is None:
                return out, np.asarray(view)
        if four_bit(dtype) is not None:
            found = allocate(shape, dtype, self._scratch) if out is None else out
            memory = allocate((desc.element_bytes,), np.dtype(np.uint8), self._scratch)
            later.append((found, lambda: unpacked(memory, desc).reshape(shape).astype(dtype)))
            return found, memory
        fresh = allocate(desc.sizes, dtype, self._scratch)
        if out is not None:
            later.append((out, lambda: fresh.reshape(shape)))
            return out, fresh
        return fresh.reshape(shape) if shape != desc.sizes else fresh, fresh


def _forms(outputs: Sequence[Any], most: int) -> list[Form | list[Form] | None] | None:
    """The new arrays in which a kernel writes outputs and which are returned; None if these are not the same.

    most: the bytes that they take together are fewer.
    """
    found: list[Form | list[Form] | None] = []
    for o in outputs:
        several: list[Form] = []
        for _, desc, shape in [] if o is None else o if isinstance(o, list) else [o]:
            if desc.data_type.element_bits == 4 or desc.sizes != shape or desc.strides is not None:
                return None
            several.append((shape, array_dtype(desc.data_type)))
            most -= math.prod(shape, start=several[-1][1].itemsize)
        found.append(None if o is None else several if isinstance(o, list) else several[0])
    return found if most > 0 else None


def _beside(before: Mapping[str, Array], out: Mapping[str, Array | None]) -> dict[str, dict[str, Array]]:
    """For each array in `out`, by name, the arrays before it with which it may share memory."""
    every = {**before, **{name: x for name, x in out.items() if x is not None}}
    names, arrays = [*every], [*every.values()]
    near = Near(arrays) if out else None
    first = len(before)
    return {names[k]: {names[i]: arrays[i] for i in near.to(k) if i < k} for k in range(first, len(every))} if near else {}
