"""Test vectors of an operator for other projects: examples and random cases with their exact results, in one .npz file.

The file has, for case 7, the arrays `7.InputTensor` and so on, and in `cases` a JSON text: for each case its title, its kind,
its desc in DirectML's spelling, and which arrays are inputs and outputs. Nothing in it is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.devices.device import Device
from anydml.errors import Error
from anydml.kit import changed
from anydml.program.files import whole_or_nothing
from anydml.schema.check import check
from anydml.schema.operator import Desc, Example
from anydml.tensor import DataType, TensorDesc

RANDOM = 20  # cases of random numbers
FLOATS = (DataType.FLOAT32, DataType.FLOAT16, DataType.FLOAT64)


class Vector(NamedTuple):
    """A case. inputs, outputs: the arrays by wire name; those of an array of tensors are `InputTensors[0]` and so on."""

    title: str
    kind: str
    desc: Desc
    inputs: dict[str, NDArray[Any]]
    outputs: dict[str, NDArray[Any]]


def vectors(operator: type[Desc]) -> Iterator[Vector]:
    """The operator's examples, and these with random numbers, ties and special values instead, with exact results."""
    spec = operator.spec
    for example in spec.examples:
        yield _vector(operator, "example", example)
    found = [*changed(spec.examples[0])]
    found += [("random", _random(k, spec.examples[k % len(spec.examples)])) for k in range(RANDOM)]
    for kind, other in found:
        if other is None:
            continue
        try:
            yield _vector(operator, kind, other)
        except Error:  # the data may break a rule
            continue


def _vector(operator: type[Desc], kind: str, example: Example) -> Vector:
    desc = operator(**example.fields)
    compiled = Device("cpu").compile(check(desc))
    inputs: dict[str, NDArray[Any]] = {}
    outputs: dict[str, NDArray[Any]] = {}
    bound: dict[str, Any] = {}
    owned: dict[str, Any] = {}
    for name, f, t in desc.tensors():
        wire = f.wire + name[len(f.name) :]
        base, _, index = name.partition("[")
        four_bit = t.data_type.element_bits < 8
        memory = np.zeros(t.element_bytes if four_bit else t.span, np.uint8 if four_bit else t.data_type.dtype)
        array = memory if four_bit else _laid(memory, t)
        if base in example.inputs:
            given = example.inputs[base]
            given = np.asarray(given[int(index[:-1])] if index else given)
            array[...] = given if given.shape == array.shape else given.reshape(-1) if given.size == 1 else given
            inputs[wire] = array
            to = owned if t.flags else bound
        else:
            outputs[wire] = array
            to = bound
        if index:
            to.setdefault(base, []).append(memory)
        else:
            to[name] = memory
    if owned:
        compiled.initialize(**owned)
    compiled.bind(**bound).execute()
    return Vector(example.title, kind, desc, inputs, outputs)


def _laid(memory: NDArray[Any], t: TensorDesc) -> NDArray[Any]:
    """The elements of a tensor in a buffer that has them from its first element on."""
    laid: NDArray[Any] = np.ndarray(t.sizes, memory.dtype, memory, 0, [s * memory.itemsize for s in t.explicit_strides])
    return laid


def _random(seed: int, example: Example) -> Example | None:
    """The example with random elements of its inputs of floats and bytes; None if it has no such inputs."""
    rng = np.random.default_rng(seed)
    inputs: dict[str, Any] = {}
    for name in example.inputs:
        t = example.fields.get(name)
        if not isinstance(t, TensorDesc):
            continue
        if t.data_type in FLOATS:
            inputs[name] = np.ldexp(rng.normal(size=t.sizes), rng.integers(-seed, seed + 1, t.sizes)).astype(t.data_type.dtype)
        elif t.data_type in (DataType.UINT8, DataType.INT8):
            inputs[name] = rng.integers(0, 256, t.sizes, dtype=np.uint8).view(t.data_type.dtype)
        if name in inputs and name.endswith("scale_tensor"):
            inputs[name] = np.abs(inputs[name])
    return example._replace(title=f"random numbers {seed}", inputs={**example.inputs, **inputs}) if inputs else None


def write(path: Path, operator: type[Desc]) -> dict[str, int]:
    """Write the vectors of an operator, and return how many of each kind there are. OSError if the file cannot be written."""
    from anydml import SEMANTICS_VERSION, __version__

    arrays: dict[str, NDArray[Any]] = {}
    records, kinds = [], dict[str, int]()
    for k, v in enumerate(vectors(operator)):
        kinds[v.kind] = kinds.get(v.kind, 0) + 1
        arrays |= {f"{k}.{name}": x for name, x in {**v.inputs, **v.outputs}.items()}
        record = {"title": v.title, "kind": v.kind, "desc": v.desc.document(), "inputs": [*v.inputs], "outputs": [*v.outputs]}
        records.append(record)
    document = {"anydml": __version__, "semantics": SEMANTICS_VERSION, "operator": operator.spec.wire_name, "cases": records}
    text = np.array(json.dumps(document))
    whole_or_nothing(path, lambda file: np.savez_compressed(file, cases=text, **arrays))  # type: ignore[arg-type]  # allow_pickle
    return kinds
