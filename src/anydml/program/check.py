"""All checks of a program that are possible before anything runs, made at once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import share_memory
from anydml.devices.compiled import CompiledOperator
from anydml.devices.device import Device
from anydml.devices.memory import memory_bytes
from anydml.errors import DescError, Violation
from anydml.feature_level import FeatureLevel
from anydml.program import files
from anydml.program.files import Folders, Refused
from anydml.program.model import Binding, Command, Dispatch, Dispatchable, FromFile, Given, Resource, WriteFile
from anydml.program.node import like
from anydml.program.text import Notes, below
from anydml.schema.check import Checked, check
from anydml.schema.field import Field
from anydml.schema.operator import Desc
from anydml.tensor import DataType, TensorDesc, TensorFlags

BINDING_ALIGNMENT = 16  # DML_BUFFER_BINDING: an offset is a multiple of it
_INDEXED = re.compile(r"(.*?)(?:\[(\d+)\])?")


@dataclass(frozen=True)
class Layout:
    """A resource's memory in bytes: all of it, and the part that its initial values fill. source: their file, if any."""

    data_type: DataType  # UINT8 if the program gives none
    bytes: int
    value_bytes: int
    source: Path | None = None


@dataclass
class Plan:
    """All that running a program without faults needs. Places are (resource, byte offset) by field name.

    compiled: operators by the dispatchable's name, once `compile_operators` has been called.
    """

    layouts: dict[str, Layout] = field(default_factory=dict)
    alignments: dict[str, int] = field(default_factory=dict)
    checked: dict[str, Checked[Desc]] = field(default_factory=dict)
    owned: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    bound: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)  # by the dispatch command's pointer
    targets: dict[str, Path] = field(default_factory=dict)  # by the writeFile command's pointer
    compiled: dict[str, CompiledOperator] = field(default_factory=dict)

    @property
    def resource_bytes(self) -> int:
        return sum(layout.bytes for layout in self.layouts.values()) + sum(self.alignments.values())


def examine(
    resources: Mapping[str, Resource],
    dispatchables: Mapping[str, Dispatchable],
    commands: tuple[Command, ...],
    notes: Notes,
    feature_level: FeatureLevel,
    strict: bool,
    folders: Folders,
) -> Plan:
    """Judge a program at a feature level. Faults go to `notes`; with faults the plan is not usable."""
    plan = Plan()
    for resource in resources.values():
        if (layout := _layout(resource, notes, folders)) is not None:
            plan.layouts[resource.name] = layout
    for d in dispatchables.values():
        try:
            plan.checked[d.name] = check(d.desc, feature_level, strict=strict)
        except DescError as error:
            for violation in error.violations:
                notes.fault(_place(d, violation), violation.wire_text(), violation)
        at = below(d.pointer, "bindings") if d.bindings else d.pointer
        plan.owned[d.name] = _bound(d, d.bindings, at, plan, notes, owned=True)
    sources = [layout.source for layout in plan.layouts.values() if layout.source is not None]
    kept = files.identities([folders.program]), files.identities(sources)
    for command in commands:
        if isinstance(command, Dispatch):
            d, at = dispatchables[command.dispatchable], below(command.pointer, "bindings")
            places = plan.bound[command.pointer] = _bound(d, command.bindings, at, plan, notes, owned=False)
            if d.name in plan.checked:
                _refuse_in_place(plan.checked[d.name], places, command, notes)
        elif isinstance(command, WriteFile):
            _target(command, plan, notes, folders, kept)
    if plan.resource_bytes > memory_bytes():
        notes.fault("/resources", f"take {plan.resource_bytes} bytes together, and this machine has {memory_bytes()}")
    return plan


def compile_operators(plan: Plan, notes: Notes, device: Device) -> None:
    """Compile the operators of a plan without faults; it is a fault if they take more memory than the machine has.

    The persistent memory of all operators adds up; temporary memory is taken by one operator at a time.
    """
    for name, checked in plan.checked.items():
        try:
            plan.compiled[name] = device.compile(checked)
        except MemoryError as error:
            notes.fault(below("/dispatchables", name), str(error))
    kept = [operator.binding_properties.persistent_resource_size for operator in plan.compiled.values()]
    others = [operator.most_bytes - size for operator, size in zip(plan.compiled.values(), kept, strict=True)]
    if (needed := plan.resource_bytes + sum(kept) + max(others, default=0)) > memory_bytes():
        notes.fault(
            "/dispatchables",
            f"keep {sum(kept)} bytes, and one of them uses up to {max(others, default=0)} bytes at a time; "
            f"{needed} bytes together with the resources, and this machine has {memory_bytes()}",
        )


def _layout(resource: Resource, notes: Notes, folders: Folders) -> Layout | None:
    values, source = resource.values, None
    data_type: DataType = DataType.UINT8 if resource.data_type == DataType.UNKNOWN else resource.data_type
    if isinstance(values, FromFile):
        try:
            source = folders.source(values.source)
            data_type, value_bytes = _in_file(resource, values, source)
        except (Refused, OSError) as error:
            text = str(error) if isinstance(error, Refused) else f"cannot be read ({error.strerror})"
            notes.fault(f"{resource.pointer}/initialValues/sourcePath", text)
            return None
    elif isinstance(values, Given):
        value_bytes = values.data.nbytes
    else:
        value_bytes = values.count * data_type.element_bits // 8
    size = -(-value_bytes // 4) * 4 if resource.size is None else resource.size
    if value_bytes + resource.offset > size:
        at = resource.pointer if resource.size is None else below(resource.pointer, "sizeInBytes")
        plus = f" at offset {resource.offset}" if resource.offset else ""
        notes.fault(at, f"{size} bytes do not hold the {value_bytes} bytes of initialValues{plus}")
        return None
    return Layout(data_type, size, value_bytes, source)


def _in_file(resource: Resource, values: FromFile, path: Path) -> tuple[DataType, int]:
    data_type, suffix = resource.data_type, path.suffix.lower()
    if suffix == ".npy":
        with path.open("rb") as file:
            header = files.npy(file)
        if data_type not in (DataType.UNKNOWN, header.data_type):
            raise Refused(f"the file holds {header.data_type}, but initialValuesDataType is {data_type}")
        data_type, value_bytes = header.data_type, header.bytes
    elif suffix in files.IMAGES:
        files._pillow()
        sizes = values.resample_size
        if data_type not in (DataType.FLOAT32, DataType.FLOAT16) or len(sizes) != 4 or sizes[0] != 1 or sizes[1] not in (3, 4):
            raise Refused(
                "an image needs initialValuesDataType FLOAT32 or FLOAT16, and resampleSize [1, C, H, W] with C 3 or 4"
            )
        files.within_pixels(sizes)
        value_bytes = math.prod(sizes) * data_type.element_bits // 8
    else:
        if data_type == DataType.UNKNOWN:
            raise Refused("Field 'initialValuesDataType' is required for a file of raw bytes.")
        value_bytes = path.stat().st_size
    if value_bytes == 0:
        raise Refused("the file holds no values, but a resource must not be empty")
    return data_type, value_bytes


def _bound(
    d: Dispatchable, bindings: Mapping[str, tuple[Binding, ...]], at: str, plan: Plan, notes: Notes, *, owned: bool
) -> dict[str, tuple[str, int]]:
    """The place of each tensor's bytes, for the tensors that are OWNED_BY_DML or for those that are not."""
    places = {}
    for f in d.desc.spec.tensors:
        tensors, sources = _tensors(d.desc, f), bindings.get(f.wire)
        wanted = {name: t for name, t in tensors.items() if bool(t.flags & TensorFlags.OWNED_BY_DML) == owned}
        if not wanted:
            if sources is None:
                continue
            if not tensors:
                reason = "the desc leaves this tensor out"
            elif owned:
                reason = "the tensor is not OWNED_BY_DML: it is bound by the dispatch command"
            else:
                reason = f"the tensor is OWNED_BY_DML: it is bound in {d.pointer}/bindings"
            notes.fault(below(at, f.wire), reason)
        elif sources is None:
            owning = " in the dispatchable's 'bindings': it is OWNED_BY_DML" if owned else ""
            notes.fault(at, f"{f.wire} is not bound{owning}")
        elif len(sources) != len(tensors):
            takes = f"has {len(tensors)} tensors" if f.sized_by else "takes one"
            notes.fault(below(at, f.wire), f"binds {len(sources)} resources where the tensor {takes}")
        else:
            for (name, tensor), binding in zip(tensors.items(), sources, strict=True):
                known = tensor if d.name in plan.checked else None
                if name in wanted and (place := _place_of(binding, known, plan, notes)) is not None:
                    places[name] = place
    wires = [f.wire for f in d.desc.spec.tensors]
    for wire in bindings:
        if wire not in wires:
            notes.fault(
                below(at, wire), f"{d.desc.spec.wire_name} has no such tensor; it has {', '.join(wires)}{like(wire, wires)}"
            )
    return places


def _tensors(desc: Desc, field: Field) -> dict[str, TensorDesc]:
    """The present tensors of a field, by name."""
    return {found.name: found.desc for found in desc.tensors() if found.field is field}


def _place_of(binding: Binding, tensor: TensorDesc | None, plan: Plan, notes: Notes) -> tuple[str, int] | None:
    layout = plan.layouts.get(binding.resource)
    if layout is None:
        return None
    offset = binding.element_offset * (binding.element_size or layout.data_type.element_bits // 8)
    if offset % BINDING_ALIGNMENT:
        notes.fault(binding.pointer, f"begins at byte {offset}, which is not a multiple of {BINDING_ALIGNMENT}")
        return None
    if tensor is not None:
        alignment = tensor.guaranteed_base_offset_alignment
        if alignment and offset % alignment:
            notes.fault(binding.pointer, f"begins at byte {offset}, not a multiple of the {alignment} that the desc guarantees")
        if offset + tensor.total > layout.bytes:
            held = f"holds {max(layout.bytes - offset, 0)} bytes" + (f" from byte {offset} on" if offset else "")
            notes.fault(binding.pointer, f"{binding.resource!r} {held} where the tensor takes {tensor.total}")
            return None
        if math.prod(tensor.sizes) * tensor.data_type.element_bits // 8 >= 2**63:  # possible with zero strides
            notes.fault(binding.pointer, f"sizes {tensor.sizes} make more elements than an array can have")
            return None
        if alignment > plan.alignments.get(binding.resource, 0):
            plan.alignments[binding.resource] = alignment
    return binding.resource, offset


def _refuse_in_place(checked: Checked[Desc], places: Mapping[str, tuple[str, int]], command: Dispatch, notes: Notes) -> None:
    """A fault for each output that overlaps another tensor, unless in-place is allowed and both are the same elements."""
    for at, output in enumerate(checked.outputs):
        for name in places:
            if output not in places or name in checked.outputs[: at + 1] or places[name][0] != places[output][0]:
                continue
            ours, theirs = checked.tensors[output], checked.tensors[name]
            how = share_memory(_imagined(ours, places[output][1]), _imagined(theirs, places[name][1]))
            same = places[name] == places[output] and (ours.sizes, ours.strides) == (theirs.sizes, theirs.strides)
            wire, other = checked.fields[output].field.wire, checked.fields[name].field.wire
            if how and not (same and other in checked.desc.spec.in_place):
                message = f"{wire} {how} {other}, and the operator does not work in place"
                notes.fault(command.bindings[wire][0].pointer, message)


class _Address:
    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def _imagined(tensor: TensorDesc, offset: int) -> NDArray[Any]:
    """An array with a tensor's layout at an address that is never read: NumPy only computes with addresses."""
    if tensor.data_type.element_bits == 4:
        tensor = TensorDesc(DataType.UINT8, (tensor.element_bytes,))
    dtype = tensor.data_type.dtype
    sizes = tuple(n if s else 1 for n, s in zip(tensor.sizes, tensor.explicit_strides, strict=True))
    strides = tuple(
        s * dtype.itemsize if n > 1 else dtype.itemsize for n, s in zip(sizes, tensor.explicit_strides, strict=True)
    )
    at = 2**40 + offset
    return np.asarray(_Address(dict(version=3, data=(at, True), shape=sizes, strides=strides, typestr=dtype.str)))


def _target(command: WriteFile, plan: Plan, notes: Notes, folders: Folders, kept: tuple[set[object], set[object]]) -> None:
    layout, dimensions = plan.layouts.get(command.resource), command.dimensions
    try:
        path = plan.targets[command.pointer] = folders.target(command.target, *kept)
        suffix = path.suffix.lower()
        if layout is None or suffix not in (".npy", *files.IMAGES):
            return
        if suffix in files.IMAGES:
            dimensions = files.image_dimensions(command.target, dimensions, layout.data_type)
        count = layout.value_bytes * 8 // layout.data_type.element_bits
        # an image may consist of the first values only, as in samples of DxDispatch
        if dimensions is not None and (math.prod(dimensions) > count or (math.prod(dimensions) < count and suffix == ".npy")):
            raise Refused(f"dimensions {list(dimensions)} are not those of {count} values")
    except Refused as error:
        notes.fault(below(command.pointer, "targetPath"), str(error))


def _place(d: Dispatchable, violation: Violation) -> str:
    """The pointer of the field at fault: the first whose change would fit, else the first that the rule read."""
    for path in (*violation.expected, *violation.values):
        match = _INDEXED.fullmatch(path)
        assert match is not None
        wire, index = match[1], match[2]
        if wire.endswith(".DimensionCount") and wire not in d.places:
            wire, index = f"{wire.removesuffix('DimensionCount')}Sizes", None
        if wire in d.places:
            return d.places[wire] + (f"/{index}" if index is not None else "")
    return below(d.pointer, "type")
