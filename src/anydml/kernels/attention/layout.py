"""Attention on tensors: the arguments of its kernel, its scratch, and the work partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from anydml.kernels.attention import tuning
from anydml.kernels.attention.key import ABOUT, BELOW, BETWEEN, ENTRY, STRIDES, TRUTHS, AttentionKey, KeptKey
from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.match.attention import Attention, Kept
from anydml.kernels.match.joined import Joined, ReadElement
from anydml.kernels.numbers.singles import SINGLES
from anydml.schema.node import Variable
from anydml.tensor import DataType, TensorDesc

Tensors = Mapping[str, TensorDesc]
Numbers = dict[str, "At | int"]


MOST = 1 << 20  # keys, and elements of a head; with more, bounds would be too wide to decide anything


class KernelArguments(NamedTuple):
    """The arguments of a kernel by name, except those of the work partition and of scratch."""

    key: AttentionKey | KeptKey
    numbers: Numbers


def _address(e: ReadElement, tensors: Tensors, roles: Mapping[str, Variable | None], name: str) -> Numbers:
    """The first element of a tensor's role, and its strides."""
    t = tensors[e.name]
    itemsize = t.data_type.dtype.itemsize
    first = sum(x.constant * s for x, s in zip(e.at, t.explicit_strides, strict=True)) * itemsize
    found: Numbers = {name: At(e.name, first)}
    for axis in STRIDES[name]:
        v = roles[axis]
        steps = [] if v is None else [x.factors.get(v, 0) * s for x, s in zip(e.at, t.explicit_strides, strict=True)]
        found[f"{name}_{axis}"] = sum(steps) * itemsize
    return found


def _reads(e: ReadElement | None, roles: Mapping[str, Variable | None], axes: str) -> bool:
    """Whether an element varies along these axes alone."""
    if e is None:
        return True
    allowed = {roles[axis] for axis in axes}
    return all(v in allowed for x in e.at for v in x.factors)


def _based(e: ReadElement, length: int | ReadElement, row: Variable | None, shifted: Sequence[Variable]) -> ReadElement:
    """An element whose index is a row less a length, as one whose index is a row of its own."""
    made = []
    for x in e.at:
        factors = {v: f for v, f in x.factors.items() if v not in shifted}
        constant = x.constant
        if isinstance(length, int) and row is not None:
            constant += length * factors.get(row, 0)
        made.append(x._replace(constant=constant, factors=factors))
    return e._replace(at=tuple(made))


def _joined(
    found: Joined, tensors: Tensors, roles: Mapping[str, Variable | None], names: tuple[str, str, str], axes: str
) -> Numbers | str:
    """The numbers of joined rows; axes: those of their elements."""
    made: Numbers = {}
    before, after, bias = names
    row = roles["t"]
    if found.before is not None:
        if found.before.bias is not None or not _reads(found.before.element, roles, axes):
            return "rows are joined in another way"
        made |= _address(found.before.element, tensors, roles, before)
    if found.after is not None:
        allowed = {roles[axis] for axis in axes}
        shifted = [v for x in found.after.element.at for v in x.factors if v not in allowed]
        for x in found.after.element.at:  # index: the row less the length
            moved = sum(x.factors[v] for v in x.factors if v in shifted)
            own = x.factors.get(row, 0) if row is not None else 0
            if len(set(shifted)) > 1 or (shifted and row is not None and moved != -own):
                return "rows are joined in another way"
        element = _based(found.after.element, found.length, row, shifted)
        made |= _address(element, tensors, roles, after)
        if found.after.bias is not None:
            if not _reads(found.after.bias, roles, axes.replace("t", "")):
                return "a bias varies along rows"
            made |= _address(found.after.bias, tensors, roles, bias)
    return made


def _lengths(length: int | ReadElement, tensors: Tensors, roles: Mapping[str, Variable | None], most: int) -> Numbers | str:
    if isinstance(length, int):
        return {"fixed": length, "most": most}
    if not _reads(length, roles, "op"):
        return "lengths vary along more than batches"
    return {**_address(length, tensors, roles, "length"), "fixed": 0, "most": most}


def placed(a: Attention, tensors: Tensors) -> KernelArguments | str:
    """The arguments for attention, or the reason why no kernel computes it."""
    if _same_type(a, tensors) not in SINGLES:
        return "the elements are no floats of 32 or 16 bits, all of one type"
    if max(a.row.size, a.head.size) > MOST:
        return f"sums have more than {MOST} terms"
    o, p, r, s, c = a.variables
    roles = {"o": o, "p": p, "r": r, "s": s, "c": c, "h": _more_than_one(a.head), "t": _more_than_one(a.row)}
    numbers = _address(a.output, tensors, roles, "output")
    if not _reads(a.query.element, roles, "oprsh") or not _reads(a.query.bias, roles, "oprh"):
        return "queries are read in another way"
    numbers |= _address(a.query.element, tensors, roles, "query")
    if a.query.bias is not None:
        numbers |= _address(a.query.bias, tensors, roles, "query_bias")
    for joined, axis, name in ((a.key, "h", "key"), (a.value, "c", "value")):
        found = _joined(joined, tensors, roles, (f"{name}_before", f"{name}_after", f"{name}_bias"), "opt" + axis)
        if isinstance(found, str):
            return found
        numbers |= found
    length = a.key.length if a.seen is None else a.seen.length
    lengths = _lengths(length, tensors, roles, a.key.most if a.seen is None else a.seen.most)
    if isinstance(lengths, str):
        return lengths
    numbers |= lengths
    # rows of the past alone have no end, and lengths only say which keys are seen
    joined_at = "length" if a.key.before is not None else ""
    if not joined_at and "length" in numbers:
        return "rows that are not joined have lengths"
    masks = {} if a.mask is None else {TRUTHS: a.mask.truths, BELOW: a.mask.below, "least": a.mask.least}
    elements = [("term", a.term), *masks.items()]
    for name, e in elements:
        if e is not None:
            if not _reads(e, roles, "oprst" if name in ("term", TRUTHS) else "oprs"):
                return "what is added to scores is read in another way"
            numbers |= _address(e, tensors, roles, name)
    mask = "" if a.mask is None else TRUTHS if a.mask.truths is not None else BELOW if a.mask.least is None else BETWEEN
    numbers |= {
        "inner": _size(p), "groups": _size(r), "queries": _size(s), "keys": a.row.size, "head": a.head.size,
        "columns": _size(c), "scale": _bits(a.scale), "filter": _bits(0.0 if a.mask is None else a.mask.filter),
        "later": a.key.later, "seen": 0 if a.seen is None else a.seen.later,
    }  # fmt: skip
    data_type = tensors[a.output.name].data_type
    present = tuple(name for name in STRIDES if name in numbers)
    return KernelArguments(AttentionKey(data_type, present, mask, a.seen is not None), numbers)


def kept(k: Kept, tensors: Tensors) -> tuple[KernelArguments, int] | str:
    """The arguments for an output of joined rows, and how many batches there are."""
    o, p, t, c = k.variables
    assert t is not None
    roles = {"o": o, "p": p, "t": _more_than_one(t), "c": None if c is None else _more_than_one(c)}
    numbers = _address(k.target, tensors, roles, "target")
    found = _joined(k.elements, tensors, roles, ("before", "after", "bias"), "optc")
    lengths = _lengths(k.elements.length, tensors, roles, k.elements.most)
    if isinstance(found, str):
        return found
    if isinstance(lengths, str):
        return lengths
    numbers |= found | lengths
    numbers |= {"inner": _size(p), "keys": t.size, "columns": _size(c), "later": k.elements.later}
    key = KeptKey(tensors[k.target.name].data_type, tuple(n for n in STRIDES if n in numbers), k.moves)
    return KernelArguments(key, numbers), _size(o) * _size(p)


def _more_than_one(v: Variable) -> Variable | None:
    return v if v.size > 1 else None


def _size(v: Variable | None) -> int:
    return 1 if v is None else v.size


def _bits(x: float) -> int:
    return int(np.float64(x).view(np.int64))


class AttentionPlan:
    """The pieces of a call, and their offsets in the scratch."""

    def __init__(self, target: Target, made: KernelArguments, batches: int, threads: int) -> None:
        self.numbers = made.numbers
        n = {name: int(x) for name, x in made.numbers.items() if not isinstance(x, At)}
        lanes, height, across = target.vector_bytes // 8, tile.height(target), tile.vectors(target)
        head, column, key = (-(-n[x] // lanes) * lanes * 8 for x in ("head", "columns", "keys"))
        self.undecided_row = -(-n["columns"] // 64) * 8
        together = height
        while together < 4 * height and 2 * together * key <= tuning.TUNING.scores and together < n["queries"]:
            together *= 2
        self.work = batches * n["groups"] * n["queries"] * n["keys"] * (n["head"] + n["columns"])
        threads = threads if self.work >= tuning.TUNING.alone else 1
        # keys are packed again for each part of a batch
        most_parts = max(1, n["queries"] // (4 * together))
        self.parts = 1 if batches >= 2 * threads else min(most_parts, -(-2 * threads // batches))
        part = -(-n["queries"] // self.parts)
        part = -(-part // together) * together
        self.parts = -(-n["queries"] // part)
        self.items, self.threads = batches * self.parts, min(threads, batches * self.parts)
        apart = key + 64 * (1 - key // 64 % 2)  # an odd number of cache lines, so that rows are in different sets of a cache
        self.rows: Numbers = dict(
            parts=self.parts, part=part, together=together, head_row=head, column_row=column, key_row=key, score_row=apart,
            open_row=self.undecided_row,
        )  # fmt: skip
        more = key + 64  # half a vector more: see `finer.weights`
        self.sizes = dict(
            state=64, own_query_bias=head, own_key_bias=head, own_value_bias=column, rows=across * lanes * head,
            query_rows=together * head, query_norms=8 * together, panels=key // 8 * head, key_norms=more,
            value_rows=n["keys"] * column, largest=column, norms=column, scores=together * apart, added=more,
            sums=together * column, about=8 * ABOUT * together, line=column,
            list=8 * ENTRY * together * (column // (8 * lanes)),
            heads=more, tails=more, losses=more, rests=more, row=64,
        )  # fmt: skip
        self.own = sum(-(-size // 64) * 64 for size in self.sizes.values())
        self.undecided = self.own * self.threads
        self.undecided_rows = batches * n["groups"] * n["queries"]
        self.scratch = self.undecided + self.undecided_rows * self.undecided_row

    def phases(self) -> Iterator[list[Arguments]]:
        """The arguments of the pieces of each phase."""
        count = max(1, min(tuning.TUNING.most_phases, self.work // tuning.TUNING.cut, self.items // self.threads))
        for begin, stop in pairwise(self.items * k // count for k in range(count + 1)):
            pieces = []
            for piece, (first, end) in enumerate(
                pairwise(begin + (stop - begin) * k // self.threads for k in range(self.threads + 1))
            ):
                at, memory = self.own * piece, dict[str, At | int]()
                for name, size in self.sizes.items():
                    memory[name] = At("scratch", at)
                    at += -(-size // 64) * 64
                work = Arguments(first=first, end=end, open=At("scratch", self.undecided))
                pieces.append({**self.numbers, **self.rows, **memory, **work})
            yield pieces

    def states(self) -> list[int]:
        """The offset of each piece's state in the scratch, in bytes."""
        return [self.own * piece for piece in range(self.threads)]


def _same_type(a: Attention, tensors: Tensors) -> DataType | None:
    """The type of all floats, or None where there are several."""
    sources = (a.query, a.key.before, a.key.after, a.value.before, a.value.after)
    elements = [e for s in sources if s is not None for e in s if e is not None] + ([a.term] if a.term is not None else [])
    types = {e.data_type for e in elements} | {tensors[a.output.name].data_type}
    for k in a.kept:
        joined = (k.elements.before, k.elements.after)
        types |= {e.data_type for s in joined if s is not None for e in s if e is not None} | {tensors[k.target.name].data_type}
    return types.pop() if len(types) == 1 else None


def count(v: Variable | None, w: Variable | None) -> int:
    """The product of the sizes of two variables."""
    return prod(_size(x) for x in (v, w))
