"""The reference kernels: what the operator files say, run as it stands. They take every desc and come last in each list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anydml.checked import Checked
from anydml.kernels.kernel import Arrays, Built, Kernel, Machine, takes_all
from anydml.spec.operator import Desc


def reference(operator: type[Desc]) -> Kernel:
    """The reference kernel of an operator."""
    return Kernel(f"reference:{operator.spec.name.lower()}", operator, takes_all, _build)


def _build(c: Checked[Any], machine: Machine) -> Built:
    output = c.desc.spec.outputs[0].name

    def bind(arrays: Arrays) -> Callable[[], None]:
        inputs = {name: array for name, array in arrays.items() if name != output}
        bits = f"u{arrays[output].itemsize}"  # stored as integers, so that every NaN keeps its payload
        target = arrays[output].view(bits)

        def execute() -> None:
            target[...] = c.desc.reference(**inputs).view(bits)

        return execute

    return Built(bind, c.desc.reference_bytes())
