"""Inputs of an eager call: the broadcast sizes and the data types of arrays and numbers, or every fault."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import WRAP
from anydml.errors import BindingError, Fault, Violation, show
from anydml.exact.formats import FORMATS, nearest
from anydml.feature_level import FeatureLevel
from anydml.functional.inference import argument, equal
from anydml.int4_tensors import array_dtype
from anydml.rule_messages import listed
from anydml.schema.constraint import UNJUDGED
from anydml.schema.desc import Desc
from anydml.schema.field import Field
from anydml.schema.kinds import rounded_to
from anydml.tensor import DATA_TYPES, DataType, TensorDesc, four_bit, limits, of_ml_dtypes

BOOL = np.dtype(np.bool_)


def fault(name: str, message: str) -> BindingError:
    """The error about an argument: its name followed by `message`."""
    return BindingError([Fault(name, f"{name} {message}".strip())])


def array_of_number(value: Any, data_type: DataType) -> NDArray[Any]:
    """A Python number as an array without dimensions; BindingError, without a name, if the type cannot hold it."""
    form = FORMATS.get(data_type)
    if form is None:
        if isinstance(value, float) and not value.is_integer():
            raise fault("", f"= {value!r} is not an integer, and its tensor is {data_type.name.lower()}")
        low, high = limits(data_type)
        if not low <= value <= high:
            raise fault("", f"= {show(int(value))} does not fit {data_type.name.lower()}, {low}..{high}")
        return np.array(int(value), data_type.dtype)
    rounded, dtype = rounded_to(value, form), array_dtype(data_type)
    if rounded - rounded != 0 or rounded == 0:
        return np.array(rounded, dtype)
    bits = nearest(*rounded.as_integer_ratio(), form)  # a cast would depend on the thread's floating-point state
    return np.array(bits, f"u{dtype.itemsize}").view(dtype)


class Several(tuple[Any, ...]):
    """The arrays of a list: the layout of each, or a number's type."""

    __slots__ = ()


class Input(NamedTuple):
    """An input that a call gives.

    place: its index among the arguments, with each array of a list counted. kind: the array's layout, or a number's type.
    sizes: broadcast, with leading ones. number: the data type of a Python number. placed: a vector along one dimension.
    """

    name: str
    argument: str
    field: Field
    place: int
    kind: Any
    sizes: tuple[int, ...] = ()
    number: DataType | None = None
    placed: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.kind[0] if isinstance(self.kind, tuple) else ()

    @property
    def is_bool(self) -> bool:
        return isinstance(self.kind, tuple) and self.kind[2] == BOOL

    def desc(self, whole: bool) -> TensorDesc:
        """The desc of the input. whole: empty dimensions count as 1."""
        if isinstance(self.kind, tuple):
            shape, strides, dtype = self.kind
            dtype = np.dtype(np.uint8) if dtype == BOOL else dtype
            added = len(self.sizes) - len(shape)
            strides = (0,) * added + tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
            data_type = DataType.of(dtype)
            if 0 not in self.sizes and four_bit(dtype) is None:  # 4-bit elements are packed for the call
                return TensorDesc.of_layout(self.sizes, strides, dtype)
        else:
            assert self.number is not None
            data_type = self.number
            if 0 not in self.sizes:
                return TensorDesc.of_layout(self.sizes, (0,) * len(self.sizes), array_dtype(data_type))
        return TensorDesc(data_type, tuple(n or 1 for n in self.sizes) if whole else self.sizes)


class Inputs:
    """The inputs that a call gives, by an operator's fields. faults: everything wrong with them.

    kinds: for each input the layout of its array, a number's type, None, or Several of those. unread: the fields that were not
    understood and whose arguments were replaced. added: the number of leading sizes of 1 that the first input gained.
    """

    def __init__(self, cls: type[Desc], level: FeatureLevel, kinds: tuple[Any, ...]) -> None:
        self.cls, self.spec, self.level = cls, cls.spec, level
        self.faults: list[Fault] = []
        self.unread: set[str] = set()
        self.inputs: list[Input] = []
        place = 0
        for f, kind in zip(self.spec.inputs, kinds, strict=True):
            name = argument(f)
            if isinstance(kind, Several):
                if not f.sized_by:
                    self.refuse(f.name, name, f"takes an array, not a list: {WRAP}")
                elif not kind:
                    self.refuse(f.name, name, "takes one array at least")
                else:
                    self.inputs += [Input(f"{f.name}[{i}]", f"{name}[{i}]", f, place + i, k) for i, k in enumerate(kind)]
                place += len(kind)
                continue
            if kind is None:
                if not f.optional:
                    self.refuse(f.name, name, "takes a list of arrays, not None" if f.sized_by else "takes an array, not None")
            elif f.sized_by:
                self.refuse(f.name, name, "takes a list of arrays")
            else:
                self.inputs.append(Input(f.name, name, f, place, kind))
            place += 1
        self.added = 0

    def refuse(self, field: str, name: str, message: str) -> None:
        """Add a fault of a field's argument, its name followed by `message`. The argument counts as unread."""
        self.faults.append(Fault(name, f"{name} {message}"))
        self.unread.add(next((f.wire for f in self.spec.fields if f.name == field), field))

    def _least(self, wire: str) -> int:
        table = self.spec.table
        row = table.get(self.level) or table[max(table)]
        return int(row[wire].dimension_counts[0])

    def broadcast(self) -> None:
        """Fill sizes with leading ones to equal dimension counts, and broadcast those that must be equal."""
        natural = {i.name: len(i.shape) for i in self.inputs}
        self.inputs = [i._replace(sizes=_led(i.shape, self._least(i.field.wire))) for i in self.inputs]
        for group in equal(self.spec, "Sizes"):
            members = [i for i in self.inputs if i.field.name in group]
            if len(members) < 2:
                continue
            try:
                sizes = np.broadcast_shapes(*(i.sizes for i in members))
            except ValueError:
                first, other = _unlike(members)
                self.faults.append(Fault(
                    other.argument,
                    f"{other.argument} has shape {other.shape}, which does not broadcast with that of {first.argument}, "
                    f"{first.shape}",
                ))  # fmt: skip
                self.unread |= {i.field.wire for i in members}
                continue
            rank = max(natural[i.name] for i in members)
            natural.update((i.name, rank) for i in members)
            self.inputs = [i._replace(sizes=sizes) if i in members else i for i in self.inputs]
        for group in equal(self.spec, "DimensionCount"):  # an input without dimensions gets those of the others
            rank = max((len(i.sizes) for i in self.inputs if i.field.name in group), default=0)
            self.inputs = [
                i._replace(sizes=_led(i.sizes, rank)) if i.field.name in group and not i.shape else i for i in self.inputs
            ]
        if self.inputs:
            self.added = len(self.inputs[0].sizes) - natural[self.inputs[0].name]

    def take_types(self) -> None:
        """Find the data types of numbers, and the faults of inputs that must have equal types."""
        for at, i in enumerate(self.inputs):
            if i.is_bool and i.field.truth and DataType.UINT8 in self._takes(i.field.wire):
                self.inputs[at] = i._replace(kind=(*i.kind[:2], np.dtype(np.uint8)))
        for group in equal(self.spec, "DataType"):
            arrays = [i for i in self.inputs if i.field.name in group and isinstance(i.kind, tuple)]
            if unlike := [i for i in arrays if i.kind[2] != arrays[0].kind[2]]:
                known = f"{arrays[0].argument} is {arrays[0].kind[2]}"
                for i in unlike:
                    told = f"{i.argument} is {i.kind[2]}, but {known}: their types must be equal"
                    wide = next((j.argument for j in (i, arrays[0]) if j.kind[2] == np.float64), None)
                    if wide and np.float32 in (i.kind[2], arrays[0].kind[2]):
                        told += f", with {wide}.astype(np.float32)"
                    self.faults.append(Fault(i.argument, told))
                    self.unread |= {i.field.wire for i in arrays}
        for at, i in enumerate(self.inputs):
            if isinstance(i.kind, tuple):
                if i.is_bool:
                    named = listed([t.name.lower() for t in self._takes(i.field.wire)])
                    self.refuse(i.field.name, i.argument, f"is bool; feature level {self.level} takes {named} here")
                continue
            found = self._type_of_number(i)
            if found is None:
                told = "is a Python number, and no other input determines its type: give an array"
                told += ", such as np.float32(1)" if DataType.FLOAT32 in self._takes(i.field.wire) else ""
                self.refuse(i.field.name, i.argument, told)
            self.inputs[at] = i._replace(number=found or DataType.FLOAT32)

    def _takes(self, wire: str) -> tuple[DataType, ...]:
        table = self.spec.table
        return tuple((table.get(self.level) or table[max(table)])[wire].data_types)

    def _type_of_number(self, number: Input) -> DataType | None:
        name, wire = number.field.name, number.field.wire
        for group in equal(self.spec, "DataType"):
            if name in group:
                for i in self.inputs:
                    if i.field.name in group and isinstance(i.kind, tuple):
                        return DATA_TYPES.get(i.kind[2]) or of_ml_dtypes(i.kind[2])
        if len(takes := self._takes(wire)) == 1:
            return takes[0]
        d = SimpleNamespace(**{f.name: None for f in self.spec.fields})
        for i in self.inputs:
            known = isinstance(i.kind, tuple) and i.kind[2] != BOOL
            setattr(d, i.field.name, i.desc(True) if known else TensorDesc(DataType.UNKNOWN, i.sizes))
        for rule in self.spec.constraints:  # a rule that tells which types would fit
            if rule.expected is not None and f"{wire}.DataType" in rule.paths and rule.each is None:
                try:
                    fits = (rule.expected(d) or {}).get(f"{wire}.DataType")
                except UNJUDGED:
                    continue
                if isinstance(fits, DataType) and fits != DataType.UNKNOWN:
                    return fits
        if not number.field.optional:
            return None
        setattr(d, name, None)  # the output's type without this input, if the two must be equal
        try:
            partly: Any = self.cls.outputs(d)
            known = {f: x[1] for f, x in partly.items() if isinstance(x[1], DataType)}
        except (*UNJUDGED, NotImplementedError):
            return None
        return next((known[f] for group in equal(self.spec, "DataType") if name in group for f in group if f in known), None)

    def tensors(self, whole: bool) -> dict[str, Any]:
        """Input field -> desc, or a tuple of descs. whole: see `Input.desc`."""
        found: dict[str, Any] = {f.name: None for f in self.spec.inputs}
        for i in self.inputs:
            t = i.desc(whole)
            found[i.field.name] = (*(found[i.field.name] or ()), t) if i.field.sized_by else t
        return found


def _led(shape: tuple[int, ...], least: int) -> tuple[int, ...]:
    return (1,) * (least - len(shape)) + shape


def broadcasts(sizes: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether sizes broadcast to others."""
    behind = wanted[len(wanted) - len(sizes) :]
    return len(sizes) <= len(wanted) and all(n in (1, m) for n, m in zip(sizes, behind, strict=True))


def _unlike(members: list[Input]) -> tuple[Input, Input]:
    """The first two inputs whose sizes do not broadcast with each other."""
    for at, i in enumerate(members):
        for j in members[at + 1 :]:
            try:
                np.broadcast_shapes(i.sizes, j.sizes)
            except ValueError:
                return i, j
    return members[0], members[-1]


def type_refused(name: str, path: str, violation: Violation) -> str:
    """The fault of an argument whose data type the feature level does not take; path: its field in the violated rule."""
    read, level = violation.values[path], violation.values["FeatureLevel"]
    takes = [x.name.lower() for x in violation.expected[path]]
    if name.endswith("zero_point"):
        takes.append("a Python integer")
    told = f"is {read.name.lower()}; feature level {level} takes {listed(takes)} here"
    if read == DataType.FLOAT64 and "float32" in takes:
        told += f": use {name}.astype(np.float32)"
    later = violation.expected.get("FeatureLevel")
    return told if later is None else f"{told}, and {later} takes {read.name.lower()}"
