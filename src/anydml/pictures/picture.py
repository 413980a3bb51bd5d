"""`dml.picture`: a desc, or an eager call, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import Slot
from anydml.devices.compiled import BoundOperator
from anydml.devices.device import device_of
from anydml.errors import BindingError, DescError, Fault, Violation
from anydml.feature_level import FeatureLevel
from anydml.functional.describing import described
from anydml.kernels.reference import elements_of
from anydml.pictures import flows, grids, quantised, tables, windows
from anydml.pictures.model import Block, Faults, Text
from anydml.pictures.shown import Picture
from anydml.schema.check import check
from anydml.schema.field import INPUT, OUTPUT
from anydml.schema.formula import formulas
from anydml.schema.operator import Desc, example_desc
from anydml.schema.statement import stated
from anydml.tensor import TensorDesc

LINES, WIDTH = 60, 1200  # of a formula, in lines and characters
READS = 2  # outputs of which an element's inputs are drawn
MANY = 64  # tensors; of a desc with more, only tables are drawn


def picture(desc_or_call: Any, /, *arguments: Any, at: Sequence[int] | None = None, **arrays: Any) -> Picture:
    """A picture of a desc, an eager call or a bound operator. It shows itself in notebooks; `show`, `svg`, `html`, `save`.

    `picture(desc, **arrays)`: inputs by field name, as `bind` takes them, as far as they are known; with all of them, outputs
    that are not given are computed. `picture(function, *arguments, **keywords)`: the arguments of an eager function. at: the
    output element whose inputs are drawn; by default one in the middle. A desc that breaks rules is drawn with the places
    marked. BindingError for arrays that do not fit.
    """
    if isinstance(desc_or_call, BoundOperator):
        return picture_of(desc_or_call.compiled.desc, {**desc_or_call.arrays, **arrays}, at)
    if isinstance(desc_or_call, Desc):
        if arguments:
            raise TypeError("picture takes a desc's arrays by name")
        return picture_of(desc_or_call, arrays, at)
    call = described(desc_or_call, *arguments, **arrays)
    return picture_of(call.desc, call.inputs, at)


def picture_of(desc: Desc, arrays: Mapping[str, Any], at: Sequence[int] | None = None, *, wire: bool = False) -> Picture:
    """The picture of a desc with some of its arrays. wire: whether messages have DirectML's spelling."""
    violations = _violations(desc)
    known = {} if violations else _known(desc, arrays)
    marks = tables.Marks(violations)
    blocks: list[Block] = []
    if violations:
        blocks.append(Faults(tuple(v.wire_text() if wire else str(v) for v in violations)))
        blocks += _guarded(lambda: windows.slices(desc, marks, {})) if windows.is_slice(desc) else []
        blocks += [b for b in (windows.windows(desc, marks),) if b is not None]
    elif sum(1 for _ in desc.tensors()) <= MANY:
        blocks += _computed(desc, known, marks, at)
    blocks.append(tables.tensors(desc, marks, known))
    if (listed := tables.attributes(desc, marks)) is not None:
        blocks.append(listed)
    own = not violations and sum(1 for _ in desc.tensors()) <= MANY
    blocks.append(_formula(desc, own=own))
    return Picture(desc.spec.wire_name.removeprefix("DML_OPERATOR_"), desc.spec.summary.splitlines()[0], tuple(blocks))


def _violations(desc: Desc) -> tuple[Violation, ...]:
    """The broken rules, in the words of level 6_4 where it has one; none if the desc holds at level EXTENDED."""
    found: tuple[Violation, ...] = ()
    for level in (FeatureLevel.EXTENDED, FeatureLevel.FL_6_4):
        try:
            check(desc, level)
        except DescError as error:
            found = error.violations
        else:
            break
    return found


def _guarded(draw: Callable[[], list[Any]]) -> list[Any]:
    """The blocks, or none if the numbers of a desc that breaks rules cannot be drawn."""
    try:
        return draw()
    except (ValueError, IndexError, OverflowError):
        return []


def _computed(desc: Desc, known: Mapping[str, Any], marks: tables.Marks, at: Sequence[int] | None) -> list[Block]:
    """The blocks about what a valid desc computes: copies, windows, what an element reads, scales, and the flow of data."""
    newest = desc.as_newest()
    statement = stated(newest)
    blocks: list[Block] = []
    if windows.is_slice(desc):
        blocks += windows.slices(desc, marks, known)
    elif (rulers := windows.windows(desc, marks)) is not None:
        blocks.append(rulers)
    if not windows.is_slice(desc) or at is not None:
        for name, nest in list(statement.items())[:READS]:
            if at is None and nest.moves and (copied := grids.copies(newest, name, nest, known)) is not None:
                blocks.append(copied)
                continue
            blocks += grids.read_block(newest, name, nest, _place(nest.sizes, at), known)
    if (listed := quantised.scales(newest, known)) is not None:
        blocks.append(listed)
    blocks += quantised.histograms(newest, statement, known)
    if (drawn := flows.flow(newest)) is not None:
        blocks.append(drawn)
    return blocks


def _place(sizes: Sequence[int], at: Sequence[int] | None) -> tuple[int, ...]:
    if at is None:
        return tuple(n // 2 for n in sizes)
    given = tuple(int(i) for i in at)
    if len(given) != len(sizes) or not all(0 <= i < n for i, n in zip(given, sizes, strict=True)):
        raise BindingError([Fault("at", f"{given} is not an element of an output of sizes {tuple(sizes)}")])
    return given


def _formula(desc: Desc, *, own: bool) -> Text:
    """The formula by named parts; that of the operator's first example if not `own`."""
    lines = "\n".join(formulas((desc if own else example_desc(type(desc))).as_newest()).values()).split("\n")
    shown = [line if len(line) <= WIDTH else f"{line[:WIDTH]} …" for line in lines[:LINES]]
    more = [f"… and {len(lines) - LINES} lines more"] if len(lines) > LINES else []
    return Text("Formula" if own else "Formula (of the operator's example)", (*shown, *more))


def _known(desc: Desc, arrays: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The arrays in tensor form, by tensor; with all inputs, the exact outputs too."""
    if not arrays:
        return {}
    tensors = {f.name: f for f in desc.tensors()}
    flat = {}
    for name, value in arrays.items():
        several = any(f.name == name and f.sized_by for f in desc.spec.tensors)
        flat.update({f"{name}[{i}]": x for i, x in enumerate(value)} if several else {name: value})
    if strange := [name for name in flat if name not in tensors]:
        raise BindingError([Fault(name, f"is no tensor of the desc, which has {', '.join(tensors)}") for name in strange])
    views = {n: Slot(n, tensors[n].desc.spelled_out(), 0, writable=False).view(x) for n, x in flat.items()}
    if faults := [view for view in views.values() if isinstance(view, Fault)]:
        raise BindingError(faults)
    known: dict[str, NDArray[Any]] = {n: view for n, view in views.items() if not isinstance(view, Fault)}
    outputs = [f.name for f in tensors.values() if f.field.role == OUTPUT]
    if all(f.name in known for f in tensors.values() if f.field.role == INPUT) and not known.keys() >= {*outputs}:
        known |= _outputs(desc, {n: x for n, x in known.items() if tensors[n].field.role == INPUT})
    return dict(elements_of(known, {n: f.desc for n, f in tensors.items()}))


def _outputs(desc: Desc, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The outputs, computed exactly into new packed arrays."""
    packed = {
        name: TensorDesc(t.data_type, t.sizes, strides=t.strides if field.role == INPUT else None)
        for name, field, t in desc.tensors()
    }
    free = desc.with_tensors(packed)
    made = {
        name: np.zeros(t.element_bytes, np.uint8) if t.data_type.element_bits == 4 else np.zeros(t.sizes, t.data_type.dtype)
        for name, field, t in free.tensors()
        if field.role == OUTPUT
    }
    bound: dict[str, Any] = {}
    for name, x in {**inputs, **made}.items():
        field, _, place = name.partition("[")
        if place:
            bound.setdefault(field, []).append(x)
        else:
            bound[name] = x
    device_of("cpu", FeatureLevel.EXTENDED).compile(free).bind(**bound).execute()
    return made
