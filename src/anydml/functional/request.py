"""The request of an eager call, worked out from its arguments: the operator's tensor descs and attributes, or every fault.

Argument names are the fields' without the suffix Tensor; sizes broadcast where the operator takes equal ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import WRAP
from anydml.errors import BindingError, Fault, show
from anydml.exact.formats import FLOAT16, FLOAT32, FLOAT64, nearest
from anydml.feature_level import FeatureLevel
from anydml.names import snake_case
from anydml.schema.constraint import UNJUDGED
from anydml.schema.desc import entries
from anydml.schema.field import Field
from anydml.schema.kinds import DATA_TYPE, Scalar, rounded_to
from anydml.schema.operator import Desc, example_desc
from anydml.schema.spec import OperatorSpec
from anydml.tensor import DATA_TYPES, DataType, TensorDesc, as_data_type, four_bit, integers, limits
from anydml.wording import listed

FORMATS = {DataType.FLOAT16: FLOAT16, DataType.FLOAT32: FLOAT32, DataType.FLOAT64: FLOAT64}
BOOL = np.dtype(np.bool_)


def fault(name: str, message: str) -> BindingError:
    """The refusal of an argument: `message` goes on where its name leaves off."""
    return BindingError([Fault(name, f"{name} {message}".strip())])


def argument(field: Field) -> str:
    """The name of a tensor in calls: `InputTensors` is `inputs`, `AScaleTensor` is `a_scale`."""
    return field.name.removesuffix("_tensor").replace("_tensors", "s")


def equal(spec: OperatorSpec, aspect: str) -> list[tuple[str, ...]]:
    """The sets of tensors, by field, that an operator takes equal "Sizes" or a "DataType" of."""
    rules = [r for r in spec.constraints if r.name.startswith(f"same_{snake_case(aspect)}")]
    return [
        tuple(snake_case(p.removesuffix(f".{aspect}")) for p in r.paths)
        for r in rules
        if all(p.endswith(f".{aspect}") for p in r.paths)
    ]


def leaves_open(cls: type[Desc], fields: Mapping[str, Any] | None = None) -> tuple[bool, bool]:
    """Whether `outputs` leaves open the sizes of an output, and its data type, so that a call has to say them.

    fields: of the desc that is asked; without them, the first example's.
    """
    desc = cls(**(fields or cls.spec.examples[0].fields))
    known = SimpleNamespace(**{f.name: getattr(desc, f.name) for f in cls.spec.fields if f.role != "output"})
    try:
        inferred: Any = cls.outputs(known)
    except NotImplementedError:
        inferred = {}
    sizes, data_type = False, False
    for f in cls.spec.outputs:
        if f.name in inferred:
            entry = inferred[f.name]
            sizes |= not f.sized_by and entry[0] is None
            data_type |= not f.sized_by and entry[1] is None
        elif not f.optional:
            sizes = True
            data_type |= _type_source(cls, f) is None
    return sizes, data_type


def _type_source(cls: type[Desc], f: Field) -> DataType | str | None:
    """The source of the data type of an output that is not inferred: its only one, or the field that names or shares it."""
    takes = {t for row in cls.spec.rows if f.wire in row.tensors for t in row.data_types}
    if len(takes) == 1:
        return takes.pop()
    for a in cls.spec.attributes:
        if a.kind is DATA_TYPE:
            return a.name
    inputs = {i.name for i in cls.spec.inputs}
    return next((n for group in equal(cls.spec, "DataType") if f.name in group for n in group if n in inputs), None)


def array_of_number(value: Any, data_type: DataType) -> NDArray[Any]:
    """A Python number as an array without dimensions; BindingError, without a name, where the type does not hold it."""
    form = FORMATS.get(data_type)
    if form is None:
        if isinstance(value, float) and not value.is_integer():
            raise fault("", f"= {value!r} is no integer, and goes with {data_type.name.lower()}")
        low, high = limits(data_type)
        if not low <= value <= high:
            raise fault("", f"= {show(int(value))} does not fit {data_type.name.lower()}, {low}..{high}")
        return np.array(int(value), data_type.dtype)
    rounded = rounded_to(value, form)
    if rounded - rounded != 0 or rounded == 0:
        return np.array(rounded, data_type.dtype)
    bits = nearest(*rounded.as_integer_ratio(), form)  # a cast would obey the thread's floating-point state
    return np.array(bits, f"u{data_type.dtype.itemsize}").view(data_type.dtype)


class Several(tuple[Any, ...]):
    """The arrays of a list: how each lies, or its type."""

    __slots__ = ()


class Input(NamedTuple):
    """An input that a call gives. place: among the arguments, those of lists counted. kind: how its array lies, or its type.

    sizes: with leading ones, broadcast. number: the data type of a Python number.
    """

    name: str
    argument: str
    field: Field
    place: int
    kind: Any
    sizes: tuple[int, ...] = ()
    number: DataType | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.kind[0] if isinstance(self.kind, tuple) else ()

    @property
    def is_bool(self) -> bool:
        return isinstance(self.kind, tuple) and self.kind[2] == BOOL

    def desc(self, whole: bool) -> TensorDesc:
        """whole: empty dimensions count as one."""
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
                return TensorDesc.of_layout(self.sizes, (0,) * len(self.sizes), data_type.dtype)
        return TensorDesc(data_type, tuple(n or 1 for n in self.sizes) if whole else self.sizes)


class Request:
    """The arguments of a call as an operator's desc has them; `faults` holds everything wrong with them, once inferred.

    kinds: for each input how its array lies, a number's type, None, or Several of those. A field in `unread` was not
    understood, and something else stands in for it.
    """

    def __init__(
        self, cls: type[Desc], level: FeatureLevel, kinds: tuple[Any, ...], attributes: Any, sizes: Any, data_type: Any
    ) -> None:
        self.cls, self.spec, self.level = cls, cls.spec, level
        self.faults: list[Fault] = []
        self.unread: set[str] = set()
        self._given, self._asked_sizes, self._asked_type = attributes, sizes, data_type
        self.inputs: list[Input] = []
        place = 0
        for f, kind in zip(self.spec.inputs, kinds, strict=True):
            name = argument(f)
            if isinstance(kind, Several):
                if not f.sized_by:
                    self._fault(f.name, name, f"takes an array, not a list: {WRAP}")
                elif not kind:
                    self._fault(f.name, name, "takes one array at least")
                else:
                    self.inputs += [Input(f"{f.name}[{i}]", f"{name}[{i}]", f, place + i, k) for i, k in enumerate(kind)]
                place += len(kind)
                continue
            if kind is None:
                if not f.optional:
                    self._fault(f.name, name, "takes a list of arrays, not None" if f.sized_by else "takes an array, not None")
            elif f.sized_by:
                self._fault(f.name, name, "takes a list of arrays")
            else:
                self.inputs.append(Input(f.name, name, f, place, kind))
            place += 1
        self.added = 0
        self.uninferred: Exception | None = None  # why sizes and types of the outputs could not be worked out
        self._values: dict[str, Any] = {}
        self._inferred: dict[str, Any] = {}

    def _fault(self, field: str, name: str, message: str) -> None:
        self.faults.append(Fault(name, f"{name} {message}"))
        self.unread.add(next((f.wire for f in self.spec.fields if f.name == field), field))

    def infer(self) -> None:
        """Work out sizes, types, attributes and outputs."""
        self._broadcast()
        self._type()
        self._convert()
        self._values = self._fields(whole=True)
        try:
            self._inferred = self._outputs(self._values)
        except UNJUDGED as error:  # a rule is broken, and the error names inputs and attributes alone
            self.uninferred = error
            self.unread |= {f.wire for f in self.spec.outputs}
            like = next(
                (t for t in self._tensors(True).values() if isinstance(t, TensorDesc)), TensorDesc(DataType.FLOAT32, (1,))
            )
            stand_in = like.sizes, like.data_type
            self._inferred = {f.name: (stand_in,) if f.sized_by else stand_in for f in self.spec.outputs if not f.optional}

    def _least(self, wire: str) -> int:
        table = self.spec.table
        row = table.get(self.level) or table[max(table)]
        return int(row[wire].dimension_counts[0])

    def _broadcast(self) -> None:
        """Sizes of equal count, filled with leading ones, and broadcast where the operator takes equal ones."""
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
        for group in equal(self.spec, "DimensionCount"):  # what has no dimensions gets those of the others
            rank = max((len(i.sizes) for i in self.inputs if i.field.name in group), default=0)
            self.inputs = [
                i._replace(sizes=_led(i.sizes, rank)) if i.field.name in group and not i.shape else i for i in self.inputs
            ]
        if self.inputs:
            self.added = len(self.inputs[0].sizes) - natural[self.inputs[0].name]

    def _type(self) -> None:
        """Types of numbers, and what is unlike where the operator takes equal types."""
        for at, i in enumerate(self.inputs):
            if i.is_bool and i.field.truth and DataType.UINT8 in self._takes(i.field.wire):
                self.inputs[at] = i._replace(kind=(*i.kind[:2], np.dtype(np.uint8)))
        for group in equal(self.spec, "DataType"):
            arrays = [i for i in self.inputs if i.field.name in group and isinstance(i.kind, tuple)]
            if unlike := [i for i in arrays if i.kind[2] != arrays[0].kind[2]]:
                known = f"{arrays[0].argument} is {arrays[0].kind[2]}"
                for i in unlike:
                    self.faults.append(Fault(i.argument, f"{i.argument} is {i.kind[2]}, but {known}: their types are equal"))
                    self.unread |= {i.field.wire for i in arrays}
        for at, i in enumerate(self.inputs):
            if isinstance(i.kind, tuple):
                if i.is_bool:
                    named = listed([t.name.lower() for t in self._takes(i.field.wire)])
                    self._fault(i.field.name, i.argument, f"is bool; feature level {self.level} takes {named} here")
                continue
            found = self._type_of_number(i)
            if found is None:
                self._fault(i.field.name, i.argument, "is a Python number, and nothing tells its type: it takes an array")
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
                        return DATA_TYPES.get(i.kind[2]) or four_bit(i.kind[2])
        if len(takes := self._takes(wire)) == 1:
            return takes[0]
        d = SimpleNamespace(**{f.name: None for f in self.spec.fields})
        for i in self.inputs:
            known = isinstance(i.kind, tuple) and i.kind[2] != BOOL
            setattr(d, i.field.name, i.desc(True) if known else TensorDesc(DataType.UNKNOWN, i.sizes))
        for rule in self.spec.constraints:  # a rule that says what would fit there
            if rule.expected is not None and f"{wire}.DataType" in rule.paths and rule.each is None:
                try:
                    fits = (rule.expected(d) or {}).get(f"{wire}.DataType")
                except UNJUDGED:
                    continue
                if isinstance(fits, DataType) and fits != DataType.UNKNOWN:
                    return fits
        if not number.field.optional:
            return None
        setattr(d, name, None)  # the type that the output has without it, where both have the same
        try:
            partly: Any = self.cls.outputs(d)
            known = {f: x[1] for f, x in partly.items() if isinstance(x[1], DataType)}
        except (*UNJUDGED, NotImplementedError):
            return None
        return next((known[f] for group in equal(self.spec, "DataType") if name in group for f in group if f in known), None)

    def _convert(self) -> None:
        """Attributes as construction has them, those left out with the defaults that depend on inputs."""
        fields = [f for f in self.spec.attributes if f.name not in self.spec.counts]
        self._attributes: dict[str, Any] = {f.name: None for f in self.spec.attributes}
        self._defaults = {f.name: f.default for f in dataclasses.fields(self.cls) if f.default is not dataclasses.MISSING}
        known = None
        # a default may depend on what is given, and a scalar on a data type
        pairs = list(zip(fields, self._given, strict=True))
        pairs.sort(key=lambda x: (isinstance(x[0].kind, Scalar), x[1] is None and x[0].name in self.cls.eager))
        for f, given in pairs:
            value = given
            if value is None and f.name in self.cls.eager:
                known = known or self._known()
                try:
                    value = self.cls.eager[f.name][1](known)
                except UNJUDGED:
                    if self.faults:
                        continue
                    raise
            if value is None:
                value = self._defaults.get(f.name)
            if value is None and f.optional:
                continue
            assert f.kind is not None
            typed_by = snake_case(f.kind.typed_by) if isinstance(f.kind, Scalar) else None
            try:
                if f.kind is DATA_TYPE:
                    self._attributes[f.name] = as_data_type(value)
                elif f.sized_by:
                    self._attributes[f.name] = entries(f, value)
                else:
                    typed = self._attributes.get(typed_by) if typed_by else None
                    self._attributes[f.name] = f.kind.convert(value, f.name, typed)
            except (TypeError, ValueError) as error:
                self.faults.append(Fault(f.name, str(error)))
                self.unread.add(f.wire)
                self._attributes[f.name] = getattr(example_desc(self.cls), f.name)
        for count, sized in self.spec.counts.items():
            if self._attributes.get(sized) is not None:
                self._attributes[count] = len(self._attributes[sized])

    def _known(self) -> SimpleNamespace:
        return SimpleNamespace(**{f.name: None for f in self.spec.fields} | self._tensors(True) | self._attributes)

    def _tensors(self, whole: bool) -> dict[str, Any]:
        found: dict[str, Any] = {f.name: None for f in self.spec.inputs}
        for i in self.inputs:
            t = i.desc(whole)
            found[i.field.name] = (*(found[i.field.name] or ()), t) if i.field.sized_by else t
        return found

    def _fields(self, *, whole: bool) -> dict[str, Any]:
        tensors = self._tensors(whole)
        counts = {snake_case(f.sized_by): len(tensors[f.name]) for f in self.spec.inputs if f.sized_by and tensors[f.name]}
        return {**tensors, **self._attributes, **counts}

    def _outputs(self, values: dict[str, Any]) -> dict[str, Any]:
        """Output field -> (sizes, data type), or a tuple of those."""
        try:
            found = dict(self.cls.outputs(SimpleNamespace(**values)))
        except NotImplementedError:
            found = {}
        self._contradicted(found)
        for f in self.spec.outputs:
            sizes, data_type = found.get(f.name, (None, None)) if not f.sized_by else (None, None)
            if f.name in found and (f.sized_by or (sizes is not None and data_type is not None)):
                continue
            if f.name not in found and f.optional:
                continue
            if data_type is None:
                data_type = self._output_type(f, values)
            if sizes is None:
                sizes = self._output_sizes(f)
            found[f.name] = tuple((s, data_type) for s in sizes) if f.sized_by else (sizes, data_type)
        return found

    def _contradicted(self, inferred: dict[str, Any]) -> None:
        """The fault of asking for a data type where inputs say another one."""
        first = inferred.get(self.spec.outputs[0].name)
        if self._asked_type is None or first is None or self.spec.outputs[0].sized_by or first[1] is None:
            return
        try:
            asked = as_data_type(self._asked_type)
        except (TypeError, ValueError) as error:
            self.faults.append(Fault("output_data_type", f"output_data_type: {error}"))
            return
        if asked != first[1]:
            self.faults.append(
                Fault("output_data_type", f"output_data_type is {asked}, but the inputs make the result {first[1]}")
            )

    def _output_type(self, f: Field, values: dict[str, Any]) -> DataType:
        known = _type_source(self.cls, f)
        if isinstance(known, DataType):
            return known
        if known is None and self._asked_type is None:
            name = "output_data_type"
            self._fault(f.name, name, "is the data type of the result, which no input says: it has to be given")
            return DataType.FLOAT32
        try:
            found = as_data_type(self._asked_type) if known is None else values[known]
        except (TypeError, ValueError) as error:
            self.faults.append(Fault("output_data_type", f"output_data_type: {error}"))
            found = DataType.FLOAT32
        if isinstance(found, tuple):
            found = found[0]
        return found if isinstance(found, DataType) else found.data_type

    def _output_sizes(self, f: Field) -> Any:
        given, name = self._asked_sizes, "output_sizes"
        try:
            if f.sized_by:
                return tuple(integers(s, f"{name}[{i}]") for i, s in enumerate(given))
            return integers(given, name)
        except TypeError as error:
            wanted = f"{name} takes a sequence of sizes for each output, not {given!r}" if f.sized_by else str(error)
            self.faults.append(Fault(name, wanted))
            return ((1,),) if f.sized_by else (1,)

    def empty(self) -> bool:
        """Whether inputs are empty, and with them every output; the fault where an output is not."""
        if not (none := [i for i in self.inputs if 0 in i.sizes]):
            return False
        try:
            self._true = self._outputs(self._fields(whole=False))
        except UNJUDGED:
            self._true = {}
        if not self._true or any(
            f.sized_by or 0 not in self._true[f.name][0] for f in self.spec.outputs if f.name in self._true
        ):
            i = none[0]
            self.faults.append(
                Fault(i.argument, f"{i.argument} has shape {i.shape}, and nothing can be computed of no elements")
            )
        return True

    def true_sizes(self, name: str) -> tuple[int, ...]:
        sizes: tuple[int, ...] = self._true[name][0]
        return sizes

    def output_descs(self, out: Any) -> dict[str, Any]:
        """Output field -> desc, as `out` lies where it fits, else packed."""
        outs = out if len(self.spec.outputs) > 1 and isinstance(out, tuple) else (out,)
        found: dict[str, Any] = {}
        for at, f in enumerate(self.spec.outputs):
            if f.name not in self._inferred:
                continue
            given, inferred = outs[at] if at < len(outs) else None, self._inferred[f.name]
            if f.sized_by:
                lie = given if isinstance(given, tuple) and len(given) == len(inferred) else (None,) * len(inferred)
                found[f.name] = tuple(self._described(n, t, o) for (n, t), o in zip(inferred, lie, strict=True))
            else:
                found[f.name] = self._described(inferred[0], inferred[1], given)
        return found

    def _described(self, sizes: tuple[int, ...], data_type: DataType, out: Any) -> TensorDesc:
        if (
            out is None
            or not isinstance(out[-1], np.dtype)
            or out[0] != self.shape(sizes)
            or DATA_TYPES.get(out[2]) != data_type
        ):
            return TensorDesc(data_type, sizes)
        return TensorDesc.of_layout(sizes, (0,) * (len(sizes) - len(out[0])) + out[1], out[2])

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of a result without the leading ones that its inputs gained."""
        return sizes[self.added :] if all(n == 1 for n in sizes[: self.added]) and len(sizes) >= self.added else sizes

    def desc(self, outputs: dict[str, Any]) -> Desc:
        counts = {snake_case(f.sized_by): len(outputs[f.name]) for f in self.spec.outputs if f.sized_by and f.name in outputs}
        absent = {f.name: None for f in self.spec.outputs}
        return self.cls(**{**self._values, **absent, **outputs, **counts})


def _led(shape: tuple[int, ...], least: int) -> tuple[int, ...]:
    return (1,) * (least - len(shape)) + shape


def _unlike(members: list[Input]) -> tuple[Input, Input]:
    """The first two that do not broadcast."""
    for at, i in enumerate(members):
        for j in members[at + 1 :]:
            try:
                np.broadcast_shapes(i.sizes, j.sizes)
            except ValueError:
                return i, j
    return members[0], members[-1]
