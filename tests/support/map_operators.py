"""Operators that map elements: descs of every data type that they take, with hostile data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import hostile_data
from anydml import DataType, DescError, FeatureLevel, TensorDesc, check, operators
from anydml.devices.device import Device
from anydml.kernels.match.maps import Map, maps
from anydml.kernels.match.moves import moves
from anydml.kernels.numbers.functions import wide
from anydml.schema import field
from anydml.schema.kinds import Scalar, ScaleBias, stored_in
from anydml.schema.operator import Desc
from anydml.schema.statement import stated
from anydml.schema.traversal import bound_by, walk
from drawn_descs import groups, rules_at
from every_kernel import SOAK

Array = NDArray[Any]
Types = Mapping[str, DataType]
F32, F16, F64 = DataType.FLOAT32, DataType.FLOAT16, DataType.FLOAT64
NEWEST = FeatureLevel.FL_6_4
SCALES = (None, ScaleBias(-3.0, 0.1), ScaleBias(2.0, 1.0))
NUMBERS = (1.0, 0.5, 0.0, -0.0, -1.0, 0.1, 0.2, 1.0507, 1.6732632, 7.25, -0.3, 2.0**-149, 1e-20, 3e38, -3e38, 1e10)
TIES = 1 << 12  # the squares of integers below 2^13 have up to 26 bits; half of the odd ones are ties of FLOAT32


class Variant(NamedTuple):
    """A desc, and its data types in the order of its tensors."""

    desc: Desc
    types: tuple[DataType, ...]

    @property
    def label(self) -> str:
        return f"{self.desc.spec.name} of {', '.join(t.name for t in self.types)}"


def descs_of_examples(operator: type[Desc]) -> list[Desc]:
    return [operator(**e.fields) for e in operator.spec.examples]


def found_in(desc: Desc) -> Map | None:
    """The map that a desc states; None if it has none, or only moves elements."""
    statement = stated(desc.as_newest())
    found = maps(statement)
    return found[0] if len(found) == 1 and isinstance(found[0], Map) and isinstance(moves(statement), str) else None


def reduces(desc: Desc) -> bool:
    """Whether an element depends on more than one element of an input."""
    return any(bound_by(e) for nest in stated(desc.as_newest()).values() for e in walk(nest.body))


def types_of(operator: type[Desc], example: Desc) -> list[Types]:
    """Every data type of every tensor, combined with some types of the others; in `make soak`, all combinations."""
    takes = operator.spec.table[NEWEST]
    wires = [f.wire for f in operator.spec.tensors if getattr(example, f.name) is not None]
    together = groups(wires, rules_at(operator, NEWEST), "DataType")
    choices = [[t for t in DataType if all(t in takes[w].data_types for w in group)] for group in together]
    choices = [[t for t in found if t.element_bits >= 8] for found in choices]
    longest = max(map(len, choices))
    if SOAK > 1:
        picks = list(product(*choices))
    else:
        # lists of equally many types are shifted against each other, so that each type has several partners
        shifts = 5 if operator.spec.name == "CAST" else 2 if len(set(map(len, choices))) < len(choices) else 1
        shifted = [(k, shift) for shift in range(shifts) for k in range(longest)]
        picks = [tuple(found[(k + j * shift) % len(found)] for j, found in enumerate(choices)) for k, shift in shifted]
    return [{w: t for group, t in zip(together, pick, strict=True) for w in group} for pick in dict.fromkeys(picks)]


def variants(operator: type[Desc], sizes: tuple[int, ...]) -> Iterator[Variant]:
    """Descs of every data type, and of every example's attributes, with packed tensors of the same sizes.

    Combinations of types that an operator's own rules forbid are left out.
    """
    examples = descs_of_examples(operator)
    tensors = {tuple(f.name for f in operator.spec.tensors if getattr(e, f.name) is not None) for e in examples}
    if not operator.spec.attributes and len(tensors) == 1:
        examples = examples[:1]
    for number, example in enumerate(examples):
        every = list(enumerate(types_of(operator, example)))
        for k, types in every if number == 0 or len(every) <= 2 or SOAK > 1 else every[number::3]:
            scale = {"scale_bias": SCALES[k % 3]} if any(f.name == "scale_bias" for f in operator.spec.attributes) else {}
            found = of_types(example, types, sizes, **scale)
            if not legal(found.desc):
                continue
            yield found
            if scale and len(operator.spec.table[NEWEST]["OutputTensor"].data_types) == 2:
                yield of_types(example, types, sizes, scale_bias=SCALES[(k + 1) % 3])


def with_other_numbers(v: Variant, rng: np.random.Generator) -> Variant | None:
    """The desc with other numbers in its real attributes; None if it has none, or is not legal with them."""
    changes: dict[str, Any] = {}
    for f in v.desc.spec.attributes:
        if f.name == "scale_bias":
            changes[f.name] = ScaleBias(a_number(rng), a_number(rng))
        elif f.kind is field.FLOAT and not f.sized_by:
            changes[f.name] = a_number(rng)
        elif isinstance(f.kind, Scalar):
            changes[f.name] = stored_in(a_number(rng), v.types[0])
    found = v._replace(desc=replace(v.desc, **changes))
    return found if changes and legal(found.desc) else None


def a_number(rng: np.random.Generator) -> float:
    """A FLOAT attribute: a usual number, or one of moderate size."""
    return float(rng.choice(NUMBERS) if rng.random() < 0.5 else np.float32(rng.standard_normal() * 2.0 ** rng.integers(-6, 7)))


def is_transcendental(desc: Desc) -> bool:
    """Whether a map has a function with irrational values other than square roots."""
    found = found_in(desc)
    return found is not None and any(node.op in (*wide.UNARY, *wide.BINARY) for node in found.formula)


def legal(desc: Desc) -> bool:
    try:
        check(desc)
    except DescError:
        return False
    return True


def of_types(example: Desc, types: Types, sizes: tuple[int, ...], **changes: Any) -> Variant:
    """A desc with tensors of these sizes and types. Attributes with a type have that of the first tensor."""
    spec = example.spec
    there = [f for f in spec.tensors if getattr(example, f.name) is not None]
    first = types[there[0].wire]
    single = {path.split(".")[0] for rule in spec.rules if rule.name.endswith("_single_element") for path in rule.paths}
    for f in spec.attributes:
        if f.kind is field.DATA_TYPE:
            changes[f.name] = first
        elif isinstance(f.kind, Scalar):
            changes[f.name] = stored_in(float(getattr(example, f.name)), first)
    tensors = {f.name: TensorDesc(types[f.wire], (1,) * len(sizes) if f.wire in single else sizes) for f in there}
    return Variant(replace(example, **tensors, **changes), tuple(t.data_type for t in tensors.values()))


def _mapped(operator: type[Desc]) -> bool:
    """Whether an operator maps tensors of equal sizes. Others are tested with every kernel of every operator."""
    examples = descs_of_examples(operator)
    if any(f.sized_by for f in operator.spec.tensors) or not any(map(found_in, examples)) or any(map(reduces, examples)):
        return False
    types = {t.field.wire: t.desc.data_type for t in examples[0].tensors()}
    desc = of_types(examples[0], types, (1, 3, 1, 67)).desc
    if not legal(desc):
        return False
    # constants that select each other are copies
    return bool(operator.spec.inputs) or not Device("cpu").compile(desc).kernel_name.startswith("copy:")


def excused(desc: Desc) -> str | None:
    """The reason why another kernel may compute a desc of a map; None if none may."""
    types = [t.desc.data_type for t in desc.tensors()]
    if desc.spec.name == "CAST" and types[0] == types[-1]:
        return "it is a copy"
    if desc.spec.name == "ELEMENT_WISE_IDENTITY" and getattr(desc, "scale_bias", None) is None:
        return "it is a copy"
    reads = any(getattr(desc, f.name) is not None for f in desc.spec.inputs)
    if not reads and Device("cpu", feature_level="EXTENDED").compile(desc).kernel_name.startswith("copy:"):
        return "its elements are copies of constants"
    if desc.spec.name == "ONE_HOT" and types[0] == DataType.UINT64:
        return "positions and indices that need not fit 64 bits are compared"
    return None


MAPPED = tuple(o for o in operators.every() if _mapped(o))


# --- inputs ---


def drawn(rng: np.random.Generator, data_type: DataType, count: int) -> Array:
    """Random elements: every kind of `hostile_data`, numbers of moderate size, quarters, and odd integers."""
    dtype = data_type.dtype
    columns = [hostile_data.values(data_type.name, count, rng, kind) for kind in hostile_data.KINDS]
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            columns += [
                (rng.standard_normal(count) * 10).astype(dtype),
                rng.integers(-8, 9, count).astype(dtype) / dtype.type(4),
            ]
            columns.append((rng.integers(0, TIES, count) * 2 + 1).astype(dtype))
    return np.stack(columns)[rng.integers(0, len(columns), count), np.arange(count)]


def drawn_for(desc: Desc, rng: np.random.Generator) -> dict[str, Array]:
    """Random elements for every input. Some of a second input equal the first one's, are their negatives, or one unit away."""
    made: dict[str, Array] = {}
    for f in desc.as_newest().tensors():
        if f.field.role != field.INPUT:
            continue
        size = int(np.prod(f.desc.sizes))
        x = drawn(rng, f.desc.data_type, size)
        alike = [a.ravel() for a in made.values() if (a.size, a.dtype) == (size, x.dtype)]
        if alike:
            kind, bits, first = rng.integers(0, 10, size), f"u{x.itemsize}", alike[0]
            with np.errstate(all="ignore"):
                beside = (first.view(bits) + rng.integers(-1, 2, size).astype(bits)).view(x.dtype)
                x = np.where(kind == 0, first, np.where(kind == 1, np.negative(first), np.where(kind == 2, beside, x)))
        made[f.name] = x.reshape(f.desc.sizes)
    return made
