"""Descs: descriptions of calls, with an operator's fields."""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from anydml.lazy import computed_once
from anydml.schema.field import Field
from anydml.schema.kinds import Scalar
from anydml.spelling import snake_case
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from anydml.schema.spec import OperatorSpec
    from anydml.schema.statement import State

Outputs = Mapping[str, Any]  # output field -> (sizes, data type), or a tuple of those for an array of tensors


class TensorField(NamedTuple):
    """A tensor of a desc. name: the field's name, in an array of tensors with the index, `input_tensors[1]`."""

    name: str
    field: Field
    desc: TensorDesc


AXES = "axes"  # the axis that the attribute `axes` names, if it is one; otherwise the channel


@dataclass(frozen=True, kw_only=True, eq=False)
class Desc(ABC):
    """The desc of an operator, frozen and hashable; descs are equal if all fields are, floats bit by bit.

    Construction converts values; `check` applies the rules.
    """

    spec: ClassVar[OperatorSpec]
    statement: ClassVar[State]
    eager: ClassVar[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {}  # attribute -> its default in an eager call: in
    # words, and as a function of the inputs
    # input field -> the dimension of the input along which a call may give a vector, or AXES
    vectors: ClassVar[Mapping[str, int | str]] = {}

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:  # the class is frozen, and conversion is part of construction
            object.__setattr__(self, name, value)

        spec = self.spec
        for f in spec.fields:
            name = f.name
            value = getattr(self, name)
            if value is None and (f.optional or name in spec.counts or (f.is_tensor and spec.fusable)):
                continue
            if f.is_tensor:
                put(name, _tensors(f, value) if f.sized_by else _tensor(f, value))
                continue
            assert f.kind is not None
            if f.sized_by:
                put(name, entries(f, value))
            else:
                data_type = getattr(self, snake_case(f.kind.typed_by)) if isinstance(f.kind, Scalar) else None
                put(name, f.kind.convert(value, name, data_type))
        for count, sized in spec.counts.items():
            if getattr(self, count) is None and getattr(self, sized) is not None:
                put(count, len(getattr(self, sized)))

    @computed_once
    def _key(self) -> tuple[Any, ...]:
        return tuple(f.key(getattr(self, f.name)) for f in self.spec.keyed)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and isinstance(other, Desc) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    @computed_once
    def _hash(self) -> int:
        return hash((type(self), self._key))

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # no hash: it differs between processes

    def __repr__(self) -> str:
        shown = []
        for f, made in zip(self.spec.fields, dataclasses.fields(self), strict=True):
            value = getattr(self, f.name)
            counted = f.name in self.spec.counts and value == len(getattr(self, self.spec.counts[f.name]) or ())
            if not (counted or (value is None and made.default is None)):
                shown.append(f"{f.name}={_shown(f, value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the same in IPython and Hypothesis, which would read class variables, too: older versions have no statement."""
        printer.text(repr(self))

    def tensors(self) -> Iterator[TensorField]:
        """Every present tensor, in wire order, those of arrays one by one."""
        for f in self.spec.tensors:
            value = getattr(self, f.name)
            if value is None:
                continue
            if f.sized_by:
                yield from (TensorField(f"{f.name}[{i}]", f, t) for i, t in enumerate(value))
            else:
                yield TensorField(f.name, f, value)

    def with_tensors(self, changed: Mapping[str, TensorDesc]) -> Desc:
        """The desc with these tensors replaced, by name."""
        fields: dict[str, Any] = {}
        for f in self.spec.tensors:
            value = getattr(self, f.name)
            if f.sized_by:
                fields[f.name] = value and tuple([changed.get(f"{f.name}[{i}]", t) for i, t in enumerate(value)])
            elif f.name in changed:
                fields[f.name] = changed[f.name]
        return dataclasses.replace(self, **fields)

    def activations(self) -> Iterator[tuple[str, Desc]]:
        """Every operator desc that is an attribute, such as a fused activation, with its path."""
        for f in self.spec.activations:
            value = getattr(self, f.name)
            if f.sized_by:
                yield from ((f"{f.wire}[{i}]", entry) for i, entry in enumerate(value or ()))
            elif value is not None:
                yield f.wire, value

    def document(self) -> dict[str, Any]:
        """The present fields as the JSON format spells them, by wire name."""
        found: dict[str, Any] = {}
        for f in self.spec.fields:
            value = getattr(self, f.name)
            if value is not None:
                one = tensor_document if f.kind is None else f.kind.json
                found[f.wire] = [one(v) for v in value] if f.sized_by else one(value)
        return found

    def as_newest(self) -> Desc:
        """The same call as a desc of the operator's newest version; only descs that passed `check` have one."""
        return self

    def outputs(d: Any) -> Outputs:
        """Each output's sizes and data type, as far as inputs and attributes determine them.

        A part that they do not determine is None; an output without any is left out.
        """
        raise NotImplementedError

    def broadcast(d: Any) -> Mapping[str, tuple[int, ...]]:
        """In eager calls, input field -> the sizes that it broadcasts to, if these are not those of another input."""
        return {}


def _shown(f: Field, value: Any) -> str:
    """A field's value as Python spells it in a call."""
    if f.kind is None or value is None:
        return repr(value)
    if not f.sized_by:
        return f.kind.show(value)
    entries = [f.kind.show(v) for v in value]
    return f"({', '.join(entries)}{',' if len(entries) == 1 else ''})"


def tensor_document(t: TensorDesc) -> dict[str, Any]:
    members: dict[str, Any] = {"DataType": t.data_type.name, "Sizes": list(t.sizes)}
    if t.strides is not None:
        members["Strides"] = list(t.strides)
    if t.flags:
        members["Flags"] = "OWNED_BY_DML"
    if t.total_tensor_size_in_bytes:
        members["TotalTensorSizeInBytes"] = t.total_tensor_size_in_bytes
    if t.guaranteed_base_offset_alignment:
        members["GuaranteedBaseOffsetAlignment"] = t.guaranteed_base_offset_alignment
    return members


def _tensor(f: Field, value: Any) -> TensorDesc:
    if not isinstance(value, TensorDesc):
        raise TypeError(f"{f.name} takes a TensorDesc, not {value!r}")
    return value


def _tensors(f: Field, values: Any) -> tuple[TensorDesc, ...]:
    try:
        found = tuple(values)
    except TypeError:
        raise TypeError(f"{f.name} takes a sequence of TensorDescs, not {values!r}") from None
    return tuple(_tensor(f, value) for value in found)


def entries(f: Field, values: Any) -> tuple[Any, ...]:
    """The values of an array attribute, converted; TypeError or ValueError naming the field."""
    assert f.kind is not None
    try:
        found = tuple(values)
    except TypeError:
        noun = "integers" if f.kind.python == "int" else "numbers" if f.kind.python == "float" else "values"
        raise TypeError(f"{f.name} takes a sequence of {noun}, not {values!r}") from None
    name, convert = f.name, f.kind.convert
    return tuple([convert(value, name) for value in found])
