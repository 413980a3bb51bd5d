"""Maps in machine code with attributes that are infinities, NaN, zeros and extreme numbers: the reference's bits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_elementwise import COMPILED, ISAS, agrees, compiled_on, device

from anydml import DataType
from anydml.kernels.code.targets import targets
from anydml.schema import field
from anydml.schema.kinds import Scalar, ScaleBias, stored_in
from anydml.schema.operator import Desc, example_desc
from every_kernel import SOAK, Ran
from map_operators import MAPPED, legal, of_types

F32, F16 = DataType.FLOAT32, DataType.FLOAT16
INF, NAN = np.inf, np.nan
EXTREME = (INF, -INF, NAN, 0.0, -0.0, 1.0, -2.5, 2.0**-149, 2.0**-24, 65504.0, -(2.0**127) * (2 - 2.0**-23))
ELEMENTS = [0.0, 1.0, 1.5, 2.0**-24, 2.0**-14, 7.0, 50.0, 65504.0, INF, NAN]
MORE = {F32: [2.0**-149, 2.0**-126, 2.0**127], F16: []}

Array = NDArray[Any]

pytestmark = pytest.mark.skipif(not targets(), reason="no code is emitted for this processor")


def real(operator: type[Desc]) -> dict[str, list[Any]]:
    """The attributes of an operator that are real numbers or pairs of them, each with its possible values."""
    pairs = [ScaleBias(a, b) for a, b in product(EXTREME, repeat=2)]
    fields = operator.spec.attributes
    return {f.name: [*EXTREME] for f in fields if f.kind is field.FLOAT or isinstance(f.kind, Scalar)} | {
        f.name: pairs for f in fields if f.name == "scale_bias"
    }


# FILL operators have no elements, and VALUE_SCALE_2D has an attribute for each channel
WITH_NUMBERS = [o for o in MAPPED if real(o) and o.spec.inputs and not any(f.sized_by for f in o.spec.attributes)]


def elements(data_type: DataType, inputs: int) -> list[Array]:
    """Every pair of elements in up to two inputs, with some elements in further ones."""
    one = [s * x for x in ELEMENTS + MORE[data_type] for s in (1.0, -1.0)]
    first, second = np.array(list(product(one, repeat=min(inputs, 2)))).T[[0, -1]].astype(data_type.dtype)
    return [first, second, *(np.roll(first, k) for k in range(1, inputs))][:inputs]


@pytest.mark.parametrize("operator", WITH_NUMBERS, ids=lambda operator: operator.spec.name)
def test_extreme_attributes(operator: type[Desc], ran: Ran) -> None:
    example = example_desc(operator)
    inputs = [t for t in example.tensors() if t.field.role == field.INPUT]
    rng = np.random.default_rng(7)
    cases = 0
    for _ in range(6 * SOAK if SOAK > 1 else 3):
        attributes = {name: choices[rng.integers(len(choices))] for name, choices in real(operator).items()}
        for data_type in (F32, F16):
            floats = {t.field.wire: data_type for t in example.tensors() if t.desc.data_type.dtype.kind == "f"}
            types = {t.field.wire: t.desc.data_type for t in example.tensors()} | floats
            columns = elements(data_type, len(inputs))
            changes = {
                f.name: stored_in(attributes[f.name], data_type) if isinstance(f.kind, Scalar) else attributes[f.name]
                for f in operator.spec.attributes
                if f.name in attributes
            }
            made = of_types(example, types, (1, 1, 1, max([1, *map(len, columns)])))
            made = made._replace(desc=replace(made.desc, **changes))
            isas = ISAS if SOAK > 1 else ISAS[cases % len(ISAS) :][:1]  # by turns
            if legal(made.desc) and {device(isa).cached(compiled_on, made.desc).kernel_name for isa in isas} == {COMPILED}:
                agrees(made, {t.name: x.reshape(1, 1, 1, -1) for t, x in zip(inputs, columns, strict=True)}, isas)
                cases += 1
    ran(cases, SOAK)  # steep functions are compiled for few pairs
