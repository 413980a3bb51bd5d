"""Descs with the data types that `FeatureLevel.EXTENDED` adds."""

from __future__ import annotations

import random
from dataclasses import replace

from anydml import DataType, FeatureLevel, TensorDesc
from anydml.schema.field import DATA_TYPE, OUTPUT
from anydml.schema.operator import Desc, example_desc
from digest_cases import drawn
from wired_graphs import valid, with_tensors


def with_type(operator: type[Desc], data_type: DataType, seed: str) -> Desc | None:
    """A desc of an operator whose first tensor has a data type, or else its output; None if no such desc is legal."""
    example = example_desc(operator)
    found = drawn(random.Random(seed), example, data_type)
    if found is not None:
        return found
    tensors = [*example.tensors()]
    own = next(t.desc.data_type for t in tensors if t.field.role == OUTPUT)
    table = operator.spec.table[FeatureLevel.EXTENDED]
    changed = {
        t.name: TensorDesc(data_type, t.desc.sizes)
        for t in tensors
        if t.desc.data_type == own and data_type in table[t.field.wire].data_types
    }
    made = with_tensors(example, changed)
    made = replace(made, **{a.name: data_type for a in operator.spec.attributes if a.kind is DATA_TYPE})
    return made if changed and valid(made, FeatureLevel.EXTENDED) else None
