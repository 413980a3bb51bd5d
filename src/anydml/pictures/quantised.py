"""Scales and zero points: where each applies, the real numbers that the integers stand for, and how an output uses them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from anydml.pictures.grids import short, wire
from anydml.pictures.model import Bar, Bars, Cell, Table
from anydml.schema.expression import as_number, equal, floor
from anydml.schema.node import Expr, lift
from anydml.schema.statement import Nest
from anydml.schema.traversal import most_terms, walk
from anydml.tensor import DataType, TensorDesc, limits

BINS = 64
TERMS = 1 << 15  # terms of all the sums that are evaluated exactly, to count ties and saturation


class Quantised(NamedTuple):
    """An integer tensor with the names of its scale and zero point; they are tensors of the desc, or None."""

    tensor: str
    scale: str
    zero_point: str | None


def quantised(desc: Any) -> Iterator[Quantised]:
    """The integer tensors that have scales, by the names of fields: `AScaleTensor` is that of `ATensor`."""
    tensors: dict[str, TensorDesc] = {f.name: f.desc for f in desc.tensors()}
    integers = [n for n, t in tensors.items() if not t.data_type.is_float and not n.endswith("zero_point_tensor")]
    for name in tensors:
        if name == "quantization_tensors[0]":
            of = _first(("output_tensor", "input_tensor"), integers)
            zero = "quantization_tensors[1]"
        elif name.endswith("scale_tensor"):
            lead = name.removesuffix("scale_tensor")
            of = _first((f"{lead}tensor",) if lead else ("output_tensor", "input_tensor"), integers)
            zero = f"{lead}zero_point_tensor"
        else:
            continue
        if of is not None:
            yield Quantised(of, name, zero if zero in tensors else None)


def _first(names: Sequence[str], among: Sequence[str]) -> str | None:
    return next((name for name in names if name in among), None)


def scales(desc: Any, arrays: Mapping[str, Any]) -> Table | None:
    """A table of the quantised tensors: where scale and zero point apply, and the real numbers of the type's limits."""
    tensors = {f.name: f.desc for f in desc.tensors()}
    rows = []
    for q in quantised(desc):
        t, s = tensors[q.tensor], tensors[q.scale]
        low, high = limits(t.data_type)
        zero = "none: 0" if q.zero_point is None else _applies(t, tensors[q.zero_point])
        numbers = "needs the scale's values"
        given = arrays.get(q.scale)
        if given is not None and given.size and (q.zero_point is None or q.zero_point in arrays):
            at = arrays[q.zero_point].astype(np.float64) if q.zero_point else np.zeros(1)
            ends = [(float(e) - z) * k for e in (low, high) for z in _ends(at) for k in _ends(given.astype(np.float64))]
            numbers = f"{min(ends):.6g} to {max(ends):.6g}"
        rows.append((
            Cell(wire(desc, q.tensor)), Cell(f"{low} to {high}"), Cell(_applies(t, s)), Cell(_values(given)), Cell(zero),
            Cell(_values(arrays.get(q.zero_point or ""))), Cell(numbers),
        ))  # fmt: skip
    if not rows:
        return None
    head = ("tensor", "integers", "scale", "its values", "zero point", "its values", "real numbers")
    return Table("Scales and zero points", head, tuple(rows))


def _ends(x: Any) -> tuple[float, float]:
    return float(x.min()), float(x.max())


def _values(x: Any) -> str:
    if x is None or not x.size:
        return "-"
    low, high = x.min().item(), x.max().item()
    return short(low) if low == high else f"{short(low)} to {short(high)}"


def _applies(t: TensorDesc, s: TensorDesc) -> str:
    """The places to which a scale or zero point applies: to the whole tensor, or one for each place along some dimensions."""
    along = [i for i, (n, k) in enumerate(zip(s.sizes, s.explicit_strides, strict=True)) if n > 1 and k]
    if not along:
        return "one for the tensor"
    if len(along) == len(t.sizes) and s.sizes == t.sizes:
        return "one for each element"
    shift = len(t.sizes) - len(s.sizes)
    each = [f"{s.sizes[i]} along dimension {i + shift}" for i in along]
    return f"one for each of {' × '.join(each)}" if shift >= 0 else f"{math.prod(s.sizes)} values"


def histograms(desc: Any, statement: Mapping[str, Nest], arrays: Mapping[str, Any]) -> list[Bars]:
    """For each quantised output that is known: a histogram of its integers, with saturation and ties."""
    outputs = {f.name: f.desc for f in desc.tensors() if f.field.role == "output"}
    of = {q.tensor for q in quantised(desc)} & outputs.keys()
    if not of and any(q for q in quantised(desc)):
        return []
    if not of and desc.spec.name.startswith("DYNAMIC_QUANTIZE"):
        of = {"output_tensor"}
    made = []
    for name in outputs:
        if name in of and arrays.get(name) is not None and outputs[name].data_type.element_bits <= 8:
            said = _counted(name, statement[name], outputs[name], arrays)
            made.append(_bars(f"Integers of {wire(desc, name)}", arrays[name], outputs[name].data_type, said))
    return made


def _bars(title: str, x: Any, data_type: DataType, said: str) -> Bars:
    low, high = limits(data_type)
    wide = max(1, (high - low + 1) // BINS)
    counts = np.bincount((x.astype(np.int64).ravel() - low) // wide, minlength=(high - low + 1) // wide)
    bars = [
        Bar(str(low + i * wide) if wide == 1 else f"{low + i * wide} to {low + (i + 1) * wide - 1}", int(n))
        for i, n in enumerate(counts)
    ]
    ends = f"{np.count_nonzero(x == low):,} elements are {low}, {np.count_nonzero(x == high):,} are {high}"
    return Bars(title, tuple(bars), f"{ends}; {said}" if said else ends)


def _counted(name: str, nest: Nest, t: TensorDesc, arrays: Mapping[str, Any]) -> str:
    """The numbers of elements that saturate, and of ties before rounding, counted exactly in all or evenly spaced."""
    halves = [e for e in walk(nest.body) if e.op == "half_to_even"]
    if not halves:
        return ""
    from anydml.kernels.evaluate.evaluator import evaluators  # with python-flint, which only this needs

    real = halves[-1].args[0]  # the outermost, since arguments come before the nodes that use them
    tie = as_number(equal(real - floor(real), Fraction(1, 2)))
    asked: dict[str, Expr] = {"tie": tie}
    if (before := _before_clamp(nest.body, t.data_type)) is not None:
        low, high = limits(t.data_type)
        asked["low"], asked["high"] = as_number(before < low), as_number(lift(high) < before)
    total = math.prod(t.sizes)
    count = max(1, min(total, TERMS // max(1, most_terms(nest.body))))
    flat = np.unique(np.linspace(0, total - 1, count).astype(np.int64))
    places = list(zip(*(a.tolist() for a in np.unravel_index(flat, t.sizes)), strict=True))
    inputs = {n: x for n, x in arrays.items() if n != name}
    nests = {key: Nest(nest.index, body) for key, body in asked.items()}
    found = evaluators(nests, dict.fromkeys(nests, DataType.UINT8), inputs)
    counts = {key: int(e.at(places, len(places)).sum()) for key, e in found.items()}
    where = f"of all {total:,}" if len(places) == total else f"of {len(places):,} of {total:,}, evenly spaced"
    saturated = f"{counts['low']} saturate below, {counts['high']} above, " if "low" in counts else ""
    return f"{saturated}{counts['tie']} are ties, {where}"


def _before_clamp(body: Expr, data_type: DataType) -> Expr | None:
    """The number that is clamped to the type's limits."""
    low, high = limits(data_type)
    for e in reversed(walk(body)):
        if e.op == "min" and _is(e.args[0], high) and e.args[1].op == "max" and _is(e.args[1].args[0], low):
            return e.args[1].args[1]
    return None


def _is(e: Expr, value: int) -> bool:
    return e.op == "constant" and e.data.value == value
