"""Maps by machine code: the reference's bits, for every operator and data type, on every instruction set of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from agreement import bits
from anydml import DataType, Device
from anydml.devices.compiled import CompiledOperator
from anydml.kernels.reference import evaluated
from anydml.schema.operator import Desc
from every_kernel import SOAK, Ran, without_dot_products
from mapped import MAPPED, NEWEST, Variant, drawn_for, excused, variants

COMPILED = "elementwise:compiled"
SIZES = (1, 3, 1, 67)
ISAS = [t.name for t in without_dot_products()]

pytestmark = pytest.mark.skipif(not ISAS, reason="no code is emitted for this processor")


@cache
def device(isa: str) -> Device:
    return Device(isa=isa, threads=1)


def compiled_on(on: Device, desc: Desc) -> CompiledOperator:
    return on.compile(desc)


@pytest.mark.parametrize("operator", MAPPED, ids=lambda operator: operator.spec.name)
def test_every_operator_and_data_type(operator: type[Desc], ran: Ran) -> None:
    rng = np.random.default_rng(33)
    cases = 0
    seen: dict[str, set[DataType]] = {}
    for v in variants(operator, SIZES):
        for t in v.desc.tensors():
            seen.setdefault(t.field.wire, set()).add(t.desc.data_type)
        names = {device(isa).cached(compiled_on, v.desc).kernel_name for isa in ISAS}
        if names != {COMPILED}:
            assert excused(v.desc), f"{v.label}: {names}"
            continue
        for _ in range(SOAK):
            agrees(v, drawn_for(v.desc, rng))
        cases += 1
    ran(cases, 2)
    takes = operator.spec.table[NEWEST]
    assert all(found == {t for t in takes[wire].data_types if t.element_bits >= 8} for wire, found in seen.items())


def agrees(v: Variant, inputs: dict[str, Any], isas: Sequence[str] = ISAS) -> None:
    """Assert that code for instruction sets gives the reference's bits."""
    (output,) = v.desc.spec.outputs
    wanted = evaluated(v.desc.as_newest(), inputs)[output.name]
    for isa in isas:
        compiled = device(isa).cached(compiled_on, v.desc)
        found = np.full(wanted.shape, 85, wanted.dtype)
        compiled.bind(**inputs, **{output.name: found}).execute()
        different = np.flatnonzero(bits(found) != bits(wanted))
        assert not different.size, (
            f"{v.label} on {isa} differs at {different.size} elements; element {different[0]}, "
            f"of {[x.ravel()[different[0]] if x.size > 1 else x for x in inputs.values()]}, is {found.ravel()[different[0]]!r} "
            f"where the reference has {wanted.ravel()[different[0]]!r}: {v.desc}"
        )
