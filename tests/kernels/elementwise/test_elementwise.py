"""Maps in machine code: the oracle's bits for every operator and data type, on every instruction set of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from agreement import bits, expected
from anydml import DataType, Device
from anydml.devices.compiled import CompiledOperator
from anydml.kernels.reference import evaluated
from anydml.schema.operator import Desc
from every_kernel import SOAK, Compared, Ran, without_dot_products
from map_operators import (
    MAPPED,
    NEWEST,
    Array,
    Variant,
    descs_of_examples,
    drawn_for,
    excused,
    is_transcendental,
    variants,
    with_other_numbers,
)

COMPILED = "elementwise:compiled"
# the number of compared outputs of all operators together
TRANSCENDENTAL, RATIONAL = (100_000, 1_000_000) if SOAK > 1 else (40_000, 300_000)
MOST = 40_000  # the most elements of a desc at a time
ISAS = [t.name for t in without_dot_products()]
WITH_INPUTS = {o: any(map(is_transcendental, descs_of_examples(o))) for o in MAPPED if o.spec.inputs}
"""By operator that computes: whether its values are irrational."""

pytestmark = pytest.mark.skipif(not ISAS, reason="no code is emitted for this processor")


@cache
def device(isa: str) -> Device:
    return Device(isa=isa, threads=1)


def compiled_on(on: Device, desc: Desc) -> CompiledOperator:
    return on.compile(desc)


def share_of(operator: type[Desc]) -> int:
    """The number of an operator's outputs that are to be compared."""
    if operator not in WITH_INPUTS:
        return 0
    alike = [o for o in WITH_INPUTS if WITH_INPUTS[o] == WITH_INPUTS[operator]]
    return SOAK * (TRANSCENDENTAL if WITH_INPUTS[operator] else RATIONAL) // len(alike) + 1


@pytest.mark.parametrize("operator", MAPPED, ids=lambda operator: operator.spec.name)
def test_every_operator_and_data_type(operator: type[Desc], ran: Ran, compared: Compared) -> None:
    """The oracle's bits for every data type, with the examples' attributes and, in `make soak`, with others.

    Instruction sets take turns; in `make soak`, all are tested.
    """
    rng = np.random.default_rng(33)
    descs = sum(excused(v.desc) is None for v in variants(operator, (1, 3, 1, 67)))
    share = -(-share_of(operator) // max(descs, 1))  # of each desc
    rounds = -(-share // MOST) or 1
    elements = max(67, -(-share // rounds // 3)) | 1  # in a line, whose last vector is not full
    cases = outputs = 0
    turn = MAPPED.index(operator)
    seen: dict[str, set[DataType]] = {}
    for v in variants(operator, (1, 3, 1, elements)):
        for t in v.desc.tensors():
            seen.setdefault(t.field.wire, set()).add(t.desc.data_type)
        isas = ISAS if SOAK > 1 else ISAS[(turn + cases) % len(ISAS) :][:1]
        if not is_compiled(v.desc, isas):
            assert excused(v.desc), f"{v.label} is not compiled"
            continue
        for at in range(rounds):
            drawn = with_other_numbers(v, rng) if at else v
            if drawn is None or not is_compiled(drawn.desc, isas):  # steep functions are compiled for few numbers
                drawn = v
            inputs = drawn_for(drawn.desc, rng)
            outputs += agrees(drawn, inputs, isas, wanted=expected(drawn.desc, inputs))
        cases += 1
    ran(cases, 2)
    if operator in WITH_INPUTS:
        compared("transcendental outputs" if WITH_INPUTS[operator] else "rational outputs", outputs, share_of(operator) // 2)
    takes = operator.spec.table[NEWEST]
    assert all(found == {t for t in takes[wire].data_types if t.element_bits >= 8} for wire, found in seen.items())


def is_compiled(desc: Desc, isas: Sequence[str] = ISAS) -> bool:
    return {device(isa).cached(compiled_on, desc).kernel_name for isa in isas} == {COMPILED}


def agrees(v: Variant, inputs: dict[str, Any], isas: Sequence[str] = ISAS, wanted: dict[str, Array] | None = None) -> int:
    """Assert that code for these instruction sets has the expected outputs, by default the reference's; return their number."""
    (output,) = v.desc.spec.outputs
    want = (wanted or evaluated(v.desc.as_newest(), inputs))[output.name]
    for isa in isas:
        compiled = device(isa).cached(compiled_on, v.desc)
        found = np.full(want.shape, 85, want.dtype)
        compiled.bind(**inputs, **{output.name: found}).execute()
        different = np.flatnonzero(bits(found) != bits(want))
        assert not different.size, (
            f"{v.label} on {isa} differs at {different.size} elements; element {different[0]}, "
            f"of {[x.ravel()[different[0]] if x.size > 1 else x for x in inputs.values()]}, is {found.ravel()[different[0]]!r} "
            f"where {want.ravel()[different[0]]!r} is wanted: {v.desc}"
        )
    return want.size
