"""Calls of every operator and data type that are the same in every version of Python, NumPy and Hypothesis.

`python tests/support/digest_cases.py` writes digests.json: for each call, the digest of its inputs, and that of its outputs,
which must be equal on two instruction sets. If a digest of outputs changes, results change, and CHANGELOG.md tells users.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from anydml import DataType, FeatureLevel, TensorDesc, operators
from anydml.schema.field import INPUT, OUTPUT
from anydml.schema.operator import Desc, example_desc
from every_kernel import run
from tensors import bound_as
from wired_graphs import valid, with_tensors

Array = NDArray[Any]
STORED = Path(__file__).with_name("digests.json")
NUMBERS = [t for t in DataType if t != DataType.UNKNOWN]
LARGER = ((2, 3, 4, 5), (1, 2, 6, 7), (3, 17), (1, 1, 5, 70), (4, 4), (1, 3, 8, 8), (2, 33), (1, 4, 9, 40), (70,))
MOST = 4096  # the most elements of a tensor
TRIES = 60  # attempts with other sizes, before the example's own are used


class Case(NamedTuple):
    """A call: its name, desc and inputs by tensor."""

    name: str
    desc: Desc
    inputs: dict[str, Array]

    @property
    def asked(self) -> str:
        """The digest of the desc and the inputs."""
        document = json.dumps(self.desc.document(), sort_keys=True, default=_plain)
        return _digest(document.encode(), *(x.tobytes() for _, x in sorted(self.inputs.items())))


def _plain(value: Any) -> Any:
    return value.document() if isinstance(value, Desc) else str(value)


def _digest(*parts: bytes) -> str:
    return hashlib.blake2b(b"|".join(parts), digest_size=8).hexdigest()


def cases(part: int = 0, parts: int = 1) -> Iterator[Case]:
    """A call of each operator's first example, and one of other sizes for each data type; `part` of `parts` equal shares."""
    for operator in operators.every()[part::parts]:
        name = operator.spec.name
        for data_type in [None, *NUMBERS]:
            rng = random.Random(f"{name} {data_type}")
            desc = drawn(rng, example_desc(operator), data_type)
            if desc is not None:
                yield Case(f"{name} {data_type or 'example'}", desc, _inputs(rng, desc))


def drawn(rng: random.Random, desc: Desc, data_type: DataType | None) -> Desc | None:
    """An example with another data type instead of the first tensor's, and with other sizes if they are legal."""
    if data_type is None:
        return desc
    found = None
    first = next(iter(desc.tensors())).desc
    for attempt in range(TRIES):
        sizes = first.sizes if attempt == TRIES - 1 else rng.choice(LARGER)
        if len(sizes) > len(first.sizes) or prod(sizes) > MOST:
            continue
        sizes = (1,) * (len(first.sizes) - len(sizes)) + tuple(sizes)
        changes = {}
        for t in desc.tensors():
            new_type = data_type if t.desc.data_type == first.data_type else t.desc.data_type
            changes[t.name] = TensorDesc(new_type, sizes if t.desc.sizes == first.sizes else t.desc.sizes)
        made = with_tensors(desc, changes)
        made = with_tensors(made, _outputs(made))
        if valid(made, FeatureLevel.EXTENDED):
            found = made
            break
    return found


def _outputs(desc: Desc) -> dict[str, TensorDesc]:
    try:
        following = type(desc).outputs(desc)
    except (NotImplementedError, ValueError, TypeError, IndexError, ZeroDivisionError):  # if these sizes have no output
        return {}
    found = {}
    for t in desc.tensors():
        entry = following.get(t.field.name)
        if t.field.role == OUTPUT and entry is not None and not t.field.sized_by:
            sizes, data_type = entry
            found[t.name] = TensorDesc(data_type or t.desc.data_type, sizes or t.desc.sizes)
    return found


def _inputs(rng: random.Random, desc: Desc) -> dict[str, Array]:
    """Inputs by tensor. Those with rules about values have elements of 0 and 1, or others that keep the rules."""
    state = np.random.RandomState(rng.getrandbits(32))  # whose numbers are the same in all versions
    found = {}
    for t in desc.tensors():
        if t.field.role != INPUT:
            continue
        found[t.name] = _of_type(state, t.desc, small=t.field.wire in desc.spec.ruled)
        for rule in desc.spec.data_rules:
            for fit in (1, 0, 2) if t.field.wire in rule.tensors else ():
                found[t.name][rule.breaks(desc, found[t.name])] = fit
    return found


def _shape(t: TensorDesc) -> tuple[int, ...]:
    """The shape of the array to bind: all bytes of 4-bit elements, or the whole memory of a tensor with strides."""
    if t.data_type.element_bits < 8:
        return (t.element_bytes,)
    return t.sizes if t.strides is None else (t.span,)


def _of_type(state: np.random.RandomState, t: TensorDesc, small: bool) -> Array:
    """The elements of a tensor as they are bound: of BFLOAT16 the upper halves of float32, of 8-bit floats any bits."""
    if t.data_type != DataType.BFLOAT16:
        return _values(state, bound_as(t), _shape(t), small)
    return (_values(state, np.dtype(np.float32), _shape(t), small).view(np.uint32) >> 16).astype(np.uint16)


def _values(state: np.random.RandomState, dtype: np.dtype[Any], shape: tuple[int, ...], small: bool) -> Array:
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        if small:
            return state.randint(0, 2, shape).astype(dtype)
        return (
            np.frombuffer(state.bytes(prod(shape) * dtype.itemsize), dtype).reshape(shape)
            if info.bits < 64
            else (state.randint(-(2**40), 2**40, shape).astype(dtype))
        )
    kinds = state.randint(0, 12, shape)
    numbers = state.randint(-(2**23), 2**23, shape) / 2.0**21
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5])[state.randint(0, 8, shape)]
    ties = state.randint(-8, 8, shape) * (1 + 2.0 ** -state.randint(8, 26, shape))
    chosen = np.where(kinds < 8, numbers, np.where(kinds < 11, ties, special if state.randint(2) else numbers))
    return chosen.astype(dtype)


def result(case: Case, device: dml.Device) -> str:
    """The digest of a call's outputs, or the name of the error that it raises."""
    compiled = device.compile(case.desc)
    outputs = {t.name: np.zeros(_shape(t.desc), bound_as(t.desc)) for t in case.desc.tensors() if t.field.role == OUTPUT}
    try:
        run(compiled, case.inputs, outputs)
    except dml.DataError as error:
        return type(error).__name__
    return _digest(*(x.tobytes() for _, x in sorted(outputs.items())))


def main() -> None:
    """Write the digests, after a check that two instruction sets give the same."""
    devices = [dml.Device(feature_level="EXTENDED", isa="generic", threads=1), dml.Device(feature_level="EXTENDED", threads=2)]
    made = {}
    for case in cases():
        results = {result(case, device) for device in devices}
        assert len(results) == 1, case.name
        made[case.name] = [case.asked, results.pop()]
    STORED.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made.items()) + "\n}\n")
    print(f"{len(made)} digests", file=sys.stderr)


if __name__ == "__main__":
    main()
