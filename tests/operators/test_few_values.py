"""The examples of every operator with few different values, beside the oracle: sums cancel, factors are 0, ties are near.

Of random numbers, hardly any two are equal or an integer apart. Here an array has some of twenty values: zeros of both signs,
integers and halves, numbers 1e-30 beside them, and powers whose sums and differences float64 does not hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import oracle
from agreement import bits_of, expected
from anydml import DataError, DescError, check, operators
from anydml.kernels.code import targets
from anydml.schema.field import OUTPUT
from anydml.schema.operator import Desc
from every_kernel import SOAK, Ran, flat, run
from tensors import array_for

Array = NDArray[Any]
Rng = np.random.Generator
ISAS = [t.name for t in targets.targets()]
OPERATORS = operators.every()
CANCELLING = (1, -1, 2, -2, 1 + 2.0**-10, -1 - 2.0**-10, 1e-30, -1e-30, 1e30, -1e30, 2e30, 2.0**100, 0.1, -0.1, 0.5, 1e-3)
BESIDE = (1, 2, 3, 0.5, 1.5, -0.5, 1e-30, -1e-30, 1 - 2.0**-24, 1 + 2.0**-23, 3 + 2.0**-22, 1e-40, 1e38, -1e38, 2e38)
ZEROS = (0.0, -0.0)

pytestmark = [
    pytest.mark.skipif(not ISAS, reason="no code is emitted for this processor"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:divide by zero"),
]


def values(x: Array, rng: Rng) -> Array:
    """An array of the same sizes and type with a few of the values; a third of them may be zeros."""
    values = [*CANCELLING, *ZEROS * 4] if rng.random() < 0.6 else [*BESIDE, *ZEROS]
    few = rng.choice(values, rng.choice([2, 3, 4, 6, len(values)]))
    return rng.choice(few, x.shape).astype(x.dtype)


def changed(operator: type[Desc], fields: dict[str, Any], rng: Rng) -> Desc:
    """An example's desc, some of whose numbers are 0, -1 or 2, if the rules allow that."""
    numbers = {name: float(rng.choice([0.0, -1.0, 2.0])) for name, x in fields.items() if isinstance(x, float)}
    try:
        desc = operator(**fields | {name: x for name, x in numbers.items() if rng.random() < 0.4})
        check(desc)
    except DescError:
        return operator(**fields)
    return desc


@pytest.mark.parametrize(
    "operator",
    OPERATORS if SOAK > 1 else OPERATORS[::16],
    ids=lambda operator: operator.spec.name,
)
def test_every_operator_is_exact(operator: type[Desc], ran: Ran) -> None:
    rng, outputs = np.random.default_rng([*operator.spec.name.encode()]), 0
    for turn in range(2 if SOAK == 1 else 40 * SOAK):
        for example in operator.spec.examples:
            desc = changed(operator, dict(example.fields), rng)
            if any(t.desc.strides is not None for t in desc.tensors()):
                continue
            inputs = {name: values(x, rng) if x.dtype.kind == "f" else x for name, x in flat(desc, example.inputs).items()}
            found = {t.name: array_for(t.desc) for t in desc.tensors() if t.field.role == OUTPUT}
            compiled = dml.Device("cpu", isa=ISAS[-1 - turn % len(ISAS)], threads=1).compile(desc)
            try:
                run(compiled, inputs, found)
            except DataError:  # a scale of 0, or a region that lies nowhere
                continue
            try:
                wanted = expected(desc, inputs)
            except oracle.Undecided:  # the oracle has too few digits for a state that may be 0
                continue
            for name, x in found.items():
                np.testing.assert_array_equal(bits_of(x), bits_of(wanted[name]), f"{name} of {desc!r} with {inputs}")
                outputs += x.size
    ran(outputs, 0)
