"""The faults of an eager call of any operator: all of them at once, in the names of the call made.

Only a call that has failed comes here. An argument that was not understood is replaced by one that would fit, and rules about
it are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anydml.devices.binding import as_array, identical, refused_by_name, share_memory
from anydml.devices.device import device_of
from anydml.errors import BindingError, DataError, DescError, Error, Fault, UnsupportedError, Violation
from anydml.functional import planning
from anydml.functional.faults import special_error
from anydml.functional.inference import SPECIAL, argument
from anydml.functional.inputs import Several, array_of_number, type_refused
from anydml.functional.keys import Asked, keyed, kind_of, laid, taken
from anydml.functional.request import Request
from anydml.functional.run import operator_of
from anydml.int4_tensors import array_dtype
from anydml.schema.check import check
from anydml.schema.constraint import UNJUDGED
from anydml.schema.field import Field
from anydml.schema.spec import OperatorSpec
from anydml.tensor import four_bit


def call_error(error: Error, asked: Asked) -> Error:
    """The error that a failed call raises. error: the first error."""
    operator, tensors, attributes, out, device, output_sizes, output_data_type = asked
    if operator in SPECIAL:
        return special_error(error, asked)
    cls = operator_of(operator)
    spec = cls.spec
    if isinstance(error, DataError):
        return _data_error(error, spec.inputs, tensors)
    try:
        level = device_of(device).feature_level
    except UnsupportedError as refused:
        return refused
    faults: list[Fault] = []
    unread: set[str] = set()
    kinds, flat = [], []
    for f, value in zip(spec.inputs, tensors, strict=True):
        found = []
        several = isinstance(value, (list, tuple)) and f.sized_by is not None
        for at, one in enumerate(value if several else (value,)):
            name = f"{argument(f)}[{at}]" if several else argument(f)
            try:
                found.append(None if one is None and not several else taken(one))
                reason = planning.refused(found[-1].dtype) if isinstance(found[-1], np.ndarray) else None
            except BindingError as refusal:
                found.append(None)
                reason = refusal.faults[0].message
            if reason is not None:
                faults.append(Fault(name, f"{name} {reason}"))
                unread.add(f.wire)
                found[-1] = None
        flat += found
        kinds.append(Several(map(kind_of, found)) if several else kind_of(found[0]))
    stand_in = next((k for k in (*kinds, *(x for s in kinds if isinstance(s, Several) for x in s)) if _is_layout(k)), None)
    stand_in = stand_in or ((1,), (4,), np.dtype(np.float32))
    for at, f in enumerate(spec.inputs):
        if f.wire in unread:
            kind = kinds[at]
            kinds[at] = Several(k or stand_in for k in kind) if isinstance(kind, Several) else stand_in
    request = Request(cls, level, planning.described(tuple(kinds)), keyed(attributes), output_sizes, output_data_type)
    request.unread |= unread
    request.infer()
    faults += [f for f in request.faults if not _about(f.pointer, unread, spec.inputs)]
    unread = request.unread
    for i in request.inputs:
        if i.number is not None and i.field.wire not in unread:
            try:
                array_of_number(flat[i.place], i.number)
            except BindingError as refusal:
                faults.append(Fault(i.argument, f"{i.argument} {refusal.faults[0].message}"))
    known = len(request.faults)
    empty = request.empty()
    faults += request.faults[known:]
    try:
        descs = request.output_descs(planning.written_directly(laid(out)))
    except BindingError:  # an array that cannot be written is reported below
        descs = request.output_descs(None)
    if unread:
        unread |= {f.wire for f in spec.outputs}
    elif not empty:
        faults += _out_faults(request, descs, flat, out)
    try:
        rules = _rules(request.desc(descs), level, unread, faults)
    except (*UNJUDGED, BindingError):
        if not faults:
            raise
        rules = []
    if faults:
        place = {name: i for i, name in enumerate([*map(argument, spec.inputs), *(f.name for f in spec.attributes)])}
        faults.sort(key=lambda fault: place.get(fault.pointer.split("[")[0], len(place)))
        return BindingError([*{fault.message: fault for fault in faults}.values(), *(Fault("", str(v), v) for v in rules)])
    if not rules and isinstance(error, DescError):
        rules = _named(error.violations, spec)
    return DescError(rules) if rules else error


def _is_layout(kind: Any) -> bool:
    return isinstance(kind, tuple) and not isinstance(kind, Several)


def _about(pointer: str, unread: set[str], inputs: Sequence[Field]) -> bool:
    return any(argument(f) == pointer.split("[")[0] for f in inputs if f.wire in unread)


def _rules(desc: Any, level: Any, unread: set[str], faults: list[Fault]) -> list[Violation]:
    """The broken rules, in the call's names; refused data types of arguments become faults."""
    try:
        check(desc, level)
    except DescError as error:
        found = [v for v in _named(error.violations, desc.spec) if unread.isdisjoint(map(_field, v.values))]
    else:
        return []
    inputs = {f.wire: f for f in desc.spec.inputs}
    refused = {next(iter(v.values)): v for v in found if v.constraint == "data_type_supported"}
    told = False
    for path, violation in refused.items():
        if (f := inputs.get(_field(path))) is not None:
            name = argument(f) + path.split(".")[0][len(f.wire) :]
            faults.append(Fault(name, f"{name} {type_refused(name, path, violation)}", violation))
            told = True
    left = [v for v in found if refused.keys().isdisjoint(v.values)]
    return left if told else [v for v in found if v in left or v.constraint == "data_type_supported"]


def _named(violations: Sequence[Violation], spec: OperatorSpec) -> list[Violation]:
    """The violations with the names of the call's arguments."""
    names = {f.wire: argument(f) for f in spec.tensors}
    return [replace(v, names=names) for v in violations]


def _out_faults(request: Request, descs: dict[str, Any], flat: list[Any], out: Any) -> list[Fault]:
    if out is None:
        return []
    spec = request.spec
    several = len(spec.outputs) > 1
    if several and (not isinstance(out, (list, tuple)) or len(out) != len(spec.outputs)):
        return [Fault("out", f"out takes {len(spec.outputs)} arrays in a tuple, or None for new ones")]
    faults: list[Fault] = []
    for at, (f, given) in enumerate(zip(spec.outputs, out if several else (out,), strict=True)):
        desc = descs.get(f.name)
        if given is None or desc is None:
            continue
        name = f"out[{at}]" if several else "out"
        if f.sized_by:
            if not isinstance(given, (list, tuple)) or len(given) != len(desc):
                faults.append(Fault(name, f"{name} takes a list of {len(desc)} arrays"))
                continue
            for i, (t, one) in enumerate(zip(desc, given, strict=True)):
                faults += _out_fault(f"{name}[{i}]", one, t, request, flat)
        else:
            faults += _out_fault(name, given, desc, request, flat)
    return faults


def _out_fault(name: str, out: Any, desc: Any, request: Request, flat: list[Any]) -> list[Fault]:
    array = as_array(out) if isinstance(out, np.ndarray) else f"takes an array, not {type(out).__name__}"
    reason = array if isinstance(array, str) else None if four_bit(array.dtype) else refused_by_name(array)
    if reason is not None or isinstance(array, str):
        return [Fault(name, f"{name} {reason}")]
    dtype, shape = array_dtype(desc.data_type), request.shape(desc.sizes)
    if array.shape != shape or array.dtype != dtype:
        return [Fault(name, f"{name} is {array.dtype}, shape {array.shape}, where the result is {dtype}, shape {shape}")]
    faults = []
    if not array.flags.writeable:
        faults.append(Fault(name, f"{name} is read-only"))
    for i in request.inputs:
        x = flat[i.place]
        if not isinstance(x, np.ndarray) or (how := share_memory(array, x)) is None:
            continue
        if i.field.wire not in request.spec.in_place:
            faults.append(Fault(name, f"{name} {how} {i.argument}, and the operator does not work in place"))
        elif not identical(array, np.broadcast_to(x, i.sizes) if i.sizes != x.shape else x):
            faults.append(Fault(name, f"{name} {how} {i.argument}; in place, both are the same elements in the same layout"))
    return faults


def _data_error(error: DataError, inputs: Sequence[Field], tensors: Sequence[Any]) -> DataError:
    """The error with the index of the caller's element, which was broadcast or gained dimensions."""
    field, _, rest = error.tensor.partition("[")
    f, value = next((f, value) for f, value in zip(inputs, tensors, strict=True) if f.name == field)
    name = argument(f) + (f"[{rest}" if rest else "")
    given = value[int(rest[:-1])] if rest else value
    shape = np.shape(given) if not hasattr(given, "__dlpack__") or isinstance(given, np.ndarray) else tuple(given.shape)
    index = error.index[len(error.index) - len(shape) :]
    return DataError(name, tuple(0 if n == 1 else i for n, i in zip(shape, index, strict=True)), error.value, error.rule)


def _field(path: str) -> str:
    return path.split(".")[0].split("[")[0]
