"""Random chains of maps: operators that compute every element from one element of each input."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anydml as dml
import hostile_data
from anydml import DataType, TensorDesc
from anydml.schema.field import INPUT, OUTPUT
from anydml.schema.kinds import ScaleBias
from anydml.schema.types import ELEVEN
from wired_graphs import MAPS, Wired, Wiring, example_of, valid, with_tensors

Array = NDArray[Any]
TRIES = 100  # attempts to find an operator that takes a type
LONG = 1024  # elements of a map; only whole vectors
KINDS = (*hostile_data.KINDS, "wide", "ordinary")
TYPES = (
    *(DataType.FLOAT32, DataType.FLOAT32, DataType.FLOAT32, DataType.FLOAT16),
    *(DataType.INT8, DataType.UINT8, DataType.INT32, DataType.UINT32, DataType.INT64),
)


def chain_of_maps(rng: random.Random, device: dml.Device) -> Wired:
    """Two to five long maps of any type, each of which reads the result before it, and others if their types fit."""
    wiring = Wiring(rng, device)
    first = rng.choice(TYPES)
    for _ in range(rng.randint(2, 5)):
        for _ in range(TRIES):
            if _map_follows(rng, wiring, wiring.made[-1].tensor.data_type if wiring.made else first):
                break
    return wiring.wired()


def _map_follows(rng: random.Random, wiring: Wiring, data_type: DataType) -> bool:
    """Add a map with an input of this type, the last result, if possible; return whether one was added."""
    desc, _ = example_of(rng, rng.choice(MAPS))
    inputs = [t for t in desc.tensors() if t.field.role == INPUT]
    outputs = [t for t in desc.tensors() if t.field.role == OUTPUT]
    chosen = rng.choice(inputs)
    if desc.spec.data_rules or len(outputs) != 1 or any(t.field.sized_by for t in inputs):
        return False
    changes = {
        t.name: TensorDesc(data_type if t.desc.data_type == chosen.desc.data_type else t.desc.data_type, (LONG,))
        for t in (*inputs, *outputs)
    }
    if desc.spec.name == "CAST":
        changes[outputs[0].name] = TensorDesc(rng.choice(ELEVEN), (LONG,))
    desc = with_tensors(desc, changes)
    if hasattr(desc, "scale_bias") and rng.random() < 0.35:
        attributes: dict[str, Any] = {
            "scale_bias": ScaleBias(rng.choice((1, -1, 0.5, -2, 0.1, 3)), rng.choice((0, 1, -1, 0.5, -0.3)))
        }
        desc = replace(desc, **attributes)
    if not valid(desc):
        return False
    sources = {chosen.name: wiring.made[-1]} if wiring.made else {}
    given: dict[str, Array] = {}
    for t in desc.tensors():
        if t.field.role == OUTPUT or t.name in sources:
            continue
        alike = [m for m in wiring.made if m.tensor == t.desc]
        there = [x for x in wiring.inputs.values() if x.nbytes == t.desc.total]
        if alike and rng.random() < 0.4:
            sources[t.name] = rng.choice(alike)
        elif there and rng.random() < 0.3:
            given[t.name] = rng.choice(there)
        else:
            generator = np.random.default_rng(rng.getrandbits(32))
            parts = [hostile_data.values(t.desc.data_type.name, LONG // len(KINDS), generator, kind) for kind in KINDS]
            given[t.name] = np.concatenate(parts)
    wiring.add(desc, given, sources)
    return True
