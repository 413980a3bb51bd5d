"""The request of an eager call, derived from its arguments: the operator's tensor descs and attributes, or every fault.

Arguments are named as the fields, without the suffix Tensor. Sizes broadcast if the operator requires equal ones.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np

from anydml.errors import DescError, Fault
from anydml.feature_level import FeatureLevel
from anydml.functional.inference import axis_fields, type_source
from anydml.functional.inputs import Inputs, broadcasts
from anydml.schema.check import check
from anydml.schema.constraint import UNJUDGED
from anydml.schema.desc import AXES, Desc, entries
from anydml.schema.field import Field
from anydml.schema.kinds import DATA_TYPE, Scalar
from anydml.schema.operator import example_desc
from anydml.spelling import snake_case
from anydml.tensor import DATA_TYPES, DataType, TensorDesc, as_data_type, integers, of_ml_dtypes


class Request(Inputs):
    """The arguments of a call as the fields of an operator's desc. After `infer`, `faults` holds everything wrong with them."""

    def __init__(
        self, cls: type[Desc], level: FeatureLevel, kinds: tuple[Any, ...], attributes: Any, sizes: Any, data_type: Any
    ) -> None:
        super().__init__(cls, level, kinds)
        self._given, self._asked_sizes, self._asked_type = attributes, sizes, data_type
        self._attributed = [f for f in self.spec.attributes if f.name not in self.spec.counts]
        self._ranked = axis_fields(self.spec)
        self.uninferred: Exception | None = None  # why the sizes and types of outputs could not be inferred
        self._values: dict[str, Any] = {}
        self._inferred: dict[str, Any] = {}

    def infer(self) -> None:
        """Infer sizes, types, attributes and outputs."""
        self._place_vectors()
        self.broadcast()
        self.take_types()
        self._convert()
        self._broadcast()
        self._values = self._fields(whole=True)
        try:
            self._inferred = self._outputs(self._values)
        except UNJUDGED as error:  # a rule is broken; the error names only inputs and attributes
            self.uninferred = error
            self.unread |= {f.wire for f in self.spec.outputs}
            like = next(
                (t for t in self.tensors(True).values() if isinstance(t, TensorDesc)), TensorDesc(DataType.FLOAT32, (1,))
            )
            stand_in = like.sizes, like.data_type
            self._inferred = {f.name: (stand_in,) if f.sized_by else stand_in for f in self.spec.outputs if not f.optional}

    def _place_vectors(self) -> None:
        """Reshape one-dimensional arrays along the dimension along which the operator takes vectors."""
        rank = len(self.inputs[0].shape) if self.inputs else 0
        for at, i in enumerate(self.inputs):
            rule = self.cls.vectors.get(i.field.name)
            if rule is None or not isinstance(i.kind, tuple) or len(i.shape) != 1 or rank < 2:
                continue
            if (axis := self._channel_or_axis(rank) if rule == AXES else int(rule)) is not None:
                (n,), (stride,), dtype = i.kind
                shape, strides = [1] * rank, [0] * rank
                shape[axis], strides[axis] = n, stride
                self.inputs[at] = i._replace(kind=(tuple(shape), tuple(strides), dtype), placed=True)

    def _channel_or_axis(self, rank: int) -> int | None:
        """The dimension of a vector: the only one of `axes`, else the channel if `axes` does not have it; None if unknown."""
        given = next((value for f, value in zip(self._attributed, self._given, strict=True) if f.name == "axes"), None)
        axes = (given,) if isinstance(given, int) else given or ()
        if not isinstance(axes, tuple) or not all(isinstance(a, int) and -rank <= a < rank for a in axes):
            return None  # reported below
        if len(axes) == 1:
            return int(axes[0]) % rank
        return None if 1 in [a % rank for a in axes] else 1

    def _broadcast(self) -> None:
        """Broadcast inputs by the operator's own rule, if it has one that does not make their sizes equal."""
        try:
            wanted = self.cls.broadcast(self._known())
        except UNJUDGED:
            return
        if any(not broadcasts(i.sizes, wanted[i.field.name]) for i in self.inputs if i.field.name in wanted):
            return  # a rule reports it
        ranks = [len(i.shape) for i in self.inputs if i.field.name in wanted]
        self.inputs = [i._replace(sizes=wanted.get(i.field.name, i.sizes)) for i in self.inputs]
        if ranks:
            self.added = len(self.inputs[0].sizes) - max(ranks)

    def _convert(self) -> None:
        """Convert the attributes to what the desc takes; absent ones get defaults, which may depend on inputs."""
        fields = self._attributed
        self._attributes: dict[str, Any] = {f.name: None for f in self.spec.attributes}
        self._defaults = {f.name: f.default for f in dataclasses.fields(self.cls) if f.default is not dataclasses.MISSING}
        known = None
        # a default may depend on the given attributes, and a scalar on a data type
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
                    if f.wire in self._ranked and isinstance(value, int):
                        value = (value,)
                    self._attributes[f.name] = entries(f, value)
                else:
                    typed = self._attributes.get(typed_by) if typed_by else None
                    self._attributes[f.name] = f.kind.convert(value, f.name, typed)
                if f.wire in self._ranked:
                    self._attributes[f.name] = self._from_the_start(f, self._attributes[f.name])
            except (TypeError, ValueError) as error:
                self.faults.append(Fault(f.name, str(error)))
                self.unread.add(f.wire)
                self._attributes[f.name] = getattr(example_desc(self.cls), f.name)
        for count, sized in self.spec.counts.items():
            if self._attributes.get(sized) is not None:
                self._attributes[count] = len(self._attributes[sized])

    def _from_the_start(self, f: Field, value: Any) -> Any:
        """An axis or axes counted from the first dimension; negative ones count from the end."""
        wire = self._ranked[f.wire]
        count = max((len(i.sizes) for i in self.inputs if i.field.wire in (wire, self.spec.inputs[0].wire)), default=0)
        axes = value if f.sized_by else (value,)
        if any(axis < -count for axis in axes):
            raise ValueError(f"{f.name} is {value}, and axes go from {-count} to {count - 1}")
        found = tuple(axis + count if axis < 0 else axis for axis in axes)
        return found if f.sized_by else found[0]

    def _known(self) -> SimpleNamespace:
        return SimpleNamespace(**{f.name: None for f in self.spec.fields} | self.tensors(True) | self._attributes)

    def _fields(self, *, whole: bool) -> dict[str, Any]:
        tensors = self.tensors(whole)
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
        """Add a fault if a data type is asked for and the inputs determine another one."""
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
        known = type_source(self.cls, f)
        if isinstance(known, DataType):
            return known
        if known is None and self._asked_type is None:
            name = "output_data_type"
            self.refuse(f.name, name, "must be given: no input determines the result's data type")
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
        """Whether inputs are empty, and with them every output. Adds a fault if an output is not empty."""
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
            self.faults.append(Fault(i.argument, f"{i.argument} has shape {i.shape}, and at least one element is needed"))
        return True

    def true_sizes(self, name: str) -> tuple[int, ...]:
        sizes: tuple[int, ...] = self._true[name][0]
        return sizes

    def output_descs(self, out: Any) -> dict[str, Any]:
        """Output field -> desc, with the layout of `out` if it fits, else packed.

        If the operator takes several data types for an output and none is asked for, that of `out` is used.
        """
        found = self._laid(out, as_given=False)
        if out is None or self._asked_type is not None or (given := self._laid(out, as_given=True)) == found:
            return found
        return given if self._broken(given) <= self._broken(found) else found

    def _laid(self, out: Any, *, as_given: bool) -> dict[str, Any]:
        """as_given: outputs have the data types of `out`."""
        outs = out if len(self.spec.outputs) > 1 and isinstance(out, tuple) else (out,)
        found: dict[str, Any] = {}
        for at, f in enumerate(self.spec.outputs):
            if f.name not in self._inferred:
                continue
            given, inferred = outs[at] if at < len(outs) else None, self._inferred[f.name]
            if f.sized_by:
                layouts = given if isinstance(given, tuple) and len(given) == len(inferred) else (None,) * len(inferred)
                found[f.name] = tuple(self._described(n, t, o, as_given) for (n, t), o in zip(inferred, layouts, strict=True))
            else:
                found[f.name] = self._described(inferred[0], inferred[1], given, as_given)
        return found

    def _described(self, sizes: tuple[int, ...], data_type: DataType, out: Any, as_given: bool) -> TensorDesc:
        if out is None or not isinstance(out[-1], np.dtype):
            return TensorDesc(data_type, sizes)
        own = DATA_TYPES.get(out[2]) or of_ml_dtypes(out[2])
        if as_given and own is not None:
            data_type = own
        if out[1] is None or out[0] != self.shape(sizes) or own != data_type:
            return TensorDesc(data_type, sizes)
        return TensorDesc.of_layout(sizes, (0,) * (len(sizes) - len(out[0])) + out[1], out[2])

    def _broken(self, outputs: dict[str, Any]) -> set[tuple[str, ...]]:
        """The rules that are broken with these outputs."""
        try:
            check(self.desc(outputs), self.level)
        except DescError as error:
            return {(v.constraint, *v.values) for v in error.violations}
        return set()

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of a result without the leading ones that its inputs gained."""
        return sizes[self.added :] if all(n == 1 for n in sizes[: self.added]) and len(sizes) >= self.added else sizes

    def desc(self, outputs: dict[str, Any]) -> Desc:
        counts = {snake_case(f.sized_by): len(outputs[f.name]) for f in self.spec.outputs if f.sized_by and f.name in outputs}
        absent = {f.name: None for f in self.spec.outputs}
        return self.cls(**{**self._values, **absent, **outputs, **counts})
