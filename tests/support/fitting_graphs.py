"""Random graphs of all operators with fitting tensors: operators read results as they are, transposed, repeated, or in part."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anydml as dml
import hostile_data
from anydml import DataType, TensorDesc, TensorFlags, operators
from anydml.schema.field import INPUT, OUTPUT
from anydml.schema.operator import Desc
from tensors import nested_strides
from wired_graphs import EXAMPLES, MAPS, Made, Wired, Wiring, example_of, valid, with_tensors

Array = NDArray[Any]
TRIES = 12  # attempts to find an operator that can read a tensor
MOST = 4096  # the most elements of a tensor
ELSEWHERE = (
    "CONVOLUTION",
    "GEMM",
    "MATRIX",
    "POOLING",
    "REDUCE",
    "SOFTMAX",
    "NORMALIZATION",
    "QUANTIZE",
    "SLICE",
    "JOIN",
    "SPLIT",
)
# operators that graphs fuse or leave out are drawn often
SOMETIMES = [name for name in EXAMPLES if any(word in name for word in ELSEWHERE)]
ACTIVATIONS = [operator for operator in operators.every() if operator.spec.fusable]
FIRST = ((2, 3, 4, 5), (1, 2, 6, 7), (3, 17), (1, 1, 5, 70), (4, 4), (1, 3, 8, 8), (2, 33), (1, 2, 3, 2, 5))
NUMBERS = (
    DataType.FLOAT32,
    DataType.FLOAT32,
    DataType.FLOAT32,
    DataType.FLOAT16,
    DataType.INT8,
    DataType.UINT8,
    DataType.INT32,
)


def fitting_graph(rng: random.Random, device: dml.Device, names: Sequence[str], judge: dml.Device | None = None) -> Wired:
    """A graph with these operators, each with others before and after it."""
    wiring = Wiring(rng, device, judge)
    for name in names:
        for _ in range(rng.choice((0, 1, 1))):
            _follow(rng, wiring, rng.choice(MAPS if rng.random() < 0.7 else SOMETIMES))
        if not _follow(rng, wiring, name):
            wiring.add(*example_of(rng, name), {})
        for _ in range(rng.choice((0, 1, 2))):
            _follow(rng, wiring, rng.choice(MAPS if rng.random() < 0.7 else SOMETIMES))
    return wiring.wired()


def _follow(rng: random.Random, wiring: Wiring, name: str) -> bool:
    """Add a node of this operator, which mostly reads earlier results, if possible; return whether one was added."""
    for _ in range(TRIES):
        desc, _ = example_of(rng, name)
        there = wiring.made[-rng.choice((1, 1, 1, 4)) :] if rng.random() < 0.8 else wiring.made
        made = rng.choice(there) if there and rng.random() < 0.9 else None
        if (fitted := fit_to(rng, desc, made)) is None:
            continue
        desc, sources = fitted
        desc, sources = _fed(rng, wiring, desc, sources)
        given, constants = given_to(rng, wiring, desc, sources)
        desc, constants = _kept(rng, desc, sources, constants)
        if not valid(desc) or any(prod(t.desc.sizes) > MOST for t in desc.tensors()):
            continue
        try:
            wiring.add(desc, given, sources, constants)
        except dml.DataError:
            continue
        return True
    return False


def fit_to(rng: random.Random, desc: Desc, made: Made | None) -> tuple[Desc, dict[str, Made]] | None:
    """An example with tensors of other sizes and types, one input of which reads the result `made`; None if no input can."""
    free = [t for t in desc.tensors() if t.field.role == INPUT and t.field.wire not in desc.spec.ruled]
    if not free:
        return desc, {}
    chosen = rng.choice(free)
    view = _fresh(rng, chosen.desc) if made is None else _view(rng, made, chosen.desc)
    if view is None or prod(view.sizes) > MOST:
        return None
    old, changes = chosen.desc, {chosen.name: view}
    for t in desc.tensors():
        if t.name != chosen.name:
            data_type = view.data_type if t.desc.data_type == old.data_type else t.desc.data_type
            sizes = view.sizes if t.desc.sizes == old.sizes else t.desc.sizes
            changes[t.name] = TensorDesc(data_type, sizes)
    desc = with_tensors(desc, changes)
    desc = _activated(rng, with_tensors(desc, _outputs(rng, desc)))
    return (desc, {chosen.name: made} if made else {}) if valid(desc) else None


def _fresh(rng: random.Random, old: TensorDesc) -> TensorDesc:
    if rng.random() < 0.4:
        return TensorDesc(old.data_type, old.sizes)
    sizes = rng.choice(FIRST)
    return TensorDesc(old.data_type if rng.random() < 0.7 else rng.choice(NUMBERS), sizes)


def _view(rng: random.Random, made: Made, old: TensorDesc) -> TensorDesc | None:
    """A tensor over the bytes of a result: its elements or, if it has no gaps, others in the same memory."""
    t = made.tensor
    if t.data_type.element_bits < 8 or old.data_type.element_bits < 8:
        alike = made.whole and t.total == old.total
        return replace(old, total_tensor_size_in_bytes=t.total) if alike else None
    kind = rng.random()
    if made.whole and kind < 0.2:  # the example's own tensor, in these bytes
        fits = old.element_bytes <= t.total
        return TensorDesc(old.data_type, old.sizes, total_tensor_size_in_bytes=t.total) if fits else None
    sizes, strides = list(t.sizes), list(t.explicit_strides)
    data_type = t.data_type
    if made.whole and kind < 0.35 and t.total % (old.data_type.element_bits // 8) == 0:  # the bytes as numbers of another type
        data_type = old.data_type
        sizes = [t.total // (old.data_type.element_bits // 8)]
        strides = [1]
    if len(sizes) != len(old.sizes) and rng.random() < 0.8:
        while len(sizes) < len(old.sizes):
            at = rng.randrange(len(sizes))
            factor = rng.choice([k for k in range(1, sizes[at] + 1) if sizes[at] % k == 0])
            sizes[at : at + 1], strides[at : at + 1] = [sizes[at] // factor, factor], [strides[at] * factor, strides[at]]
        while len(sizes) > len(old.sizes) and 1 in sizes:
            at = sizes.index(1)
            del sizes[at], strides[at]
    way = rng.random()
    if way < 0.15:
        order = rng.sample(range(len(sizes)), len(sizes))
        sizes, strides = [sizes[i] for i in order], [strides[i] for i in order]
    elif way < 0.3:  # a part of the tensor
        for at in range(len(sizes)):
            step = rng.choice((1, 1, 2))
            sizes[at] = rng.randint(1, max(1, sizes[at] // step)) if rng.random() < 0.5 else max(1, sizes[at] // step)
            strides[at] *= step
    elif way < 0.35:
        at = rng.randrange(len(sizes))
        sizes[at], strides[at] = rng.choice((sizes[at], 3)), 0
    return TensorDesc(data_type, sizes, strides=strides, total_tensor_size_in_bytes=t.total)


def _outputs(rng: random.Random, desc: Desc) -> dict[str, TensorDesc]:
    """The outputs that follow from a desc's inputs and attributes, sometimes with gaps between their elements."""
    try:
        following = type(desc).outputs(desc)
    except (NotImplementedError, ValueError, TypeError, IndexError, ZeroDivisionError):  # if these sizes have no output
        following = {}
    found = {}
    for t in desc.tensors():
        if t.field.role != OUTPUT:
            continue
        entry = following.get(t.field.name)
        if entry is not None and t.field.sized_by:
            at = int(t.name.partition("[")[2][:-1])
            entry = entry[at] if at < len(entry) else None
        sizes, data_type = entry if entry is not None else (None, None)
        new = TensorDesc(data_type or t.desc.data_type, sizes or t.desc.sizes)
        if rng.random() < 0.2 and new.data_type.element_bits >= 8:
            new = replace(new, strides=nested_strides(rng, new.sizes))
        found[t.name] = new
    return found


def _activated(rng: random.Random, desc: Desc) -> Desc:
    """The desc, sometimes with another fused activation."""
    if getattr(desc, "fused_activation", desc) is desc or rng.random() < 0.5:
        return desc
    operator = rng.choice(ACTIVATIONS)
    attributes = {
        name: value for name, value in rng.choice(operator.spec.examples).fields.items() if not name.endswith("_tensor")
    }
    changes: dict[str, Any] = {"fused_activation": operator(**attributes)}
    made = replace(desc, **changes)
    return made if valid(made) else desc


def _fed(rng: random.Random, wiring: Wiring, desc: Desc, sources: dict[str, Made]) -> tuple[Desc, dict[str, Made]]:
    """Let further inputs read results: those of the same type and sizes, or of at least as many bytes."""
    sources, changes = dict(sources), {}
    for t in desc.tensors():
        if t.field.role != INPUT or t.name in sources or t.field.wire in desc.spec.ruled or rng.random() < 0.3:
            continue
        alike = [m for m in wiring.made if (m.tensor.data_type, m.tensor.sizes) == (t.desc.data_type, t.desc.sizes)]
        fits = [m for m in wiring.made if m.whole and t.desc.element_bytes <= m.data.nbytes]
        if alike:
            sources[t.name] = rng.choice(alike)
            changes[t.name] = sources[t.name].tensor
        elif fits and t.desc.strides is None:
            sources[t.name] = rng.choice(fits[-4:])
            changes[t.name] = replace(t.desc, total_tensor_size_in_bytes=sources[t.name].data.nbytes)
    return with_tensors(desc, changes), sources


def given_to(rng: random.Random, wiring: Wiring, desc: Desc, sources: dict[str, Made]) -> tuple[dict[str, Array], set[str]]:
    """Hostile data for the other inputs, which keep the rules about values; and the names of inputs that are constants."""
    given, constants = {}, set()
    generator = np.random.default_rng(rng.getrandbits(32))
    for t in desc.tensors():
        if t.field.role != INPUT or t.name in sources:
            continue
        there = [x for name, x in wiring.inputs.items() if x.nbytes == t.desc.total and name not in wiring.owned]
        if there and t.field.wire not in desc.spec.ruled and rng.random() < 0.4:
            given[t.name] = rng.choice(there)
            continue
        if t.desc.data_type.element_bits < 8:
            given[t.name] = generator.integers(0, 256, t.desc.element_bytes, np.uint8)
        else:
            sizes = t.desc.sizes if t.desc.strides is None else (t.desc.span,)
            with np.errstate(all="ignore"):
                given[t.name] = hostile_data.values(t.desc.data_type.name, sizes, generator, rng.choice(hostile_data.KINDS))
            for rule in desc.spec.data_rules:
                for fit in (1, 0, 2) if t.field.wire in rule.tensors else ():
                    given[t.name][rule.breaks(desc, given[t.name])] = fit
        if rng.random() < 0.3:
            constants.add(t.name)
    return given, constants


def _kept(rng: random.Random, desc: Desc, sources: dict[str, Made], constants: set[str]) -> tuple[Desc, set[str]]:
    """The desc with some constants as inputs that are OWNED_BY_DML, and the names of the other constants."""
    owned = {name for name in constants if "[" not in name and rng.random() < 0.5}
    changes = {t.name: replace(t.desc, flags=TensorFlags.OWNED_BY_DML) for t in desc.tensors() if t.name in owned}
    return with_tensors(desc, changes), constants - owned
