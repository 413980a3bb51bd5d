"""The reference kernel: any operator's statement, evaluated exactly. It takes every desc and comes last in each list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from anydml.forks import guard
from anydml.kernels.kernel import Arrays, Built, Kernel, Machine, takes_all
from anydml.schema.check import Checked
from anydml.schema.operator import Desc


def evaluated(desc: Desc, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Every output of an operator's newest desc, exactly; arrays: its inputs in tensor form, by name."""
    with guard:
        from anydml.kernels.evaluate import evaluators  # with python-flint, which those who never come here do not need
        from anydml.schema.statement import stated

    tensors = {found.name: found.desc for found in desc.tensors()}
    statement = stated(desc)
    types = {name: tensors[name].data_type for name in statement}
    return {name: found.all(tensors[name].sizes) for name, found in evaluators(statement, types, arrays).items()}


def _build(c: Checked[Any], machine: Machine) -> Built:
    def bind(arrays: Arrays) -> Callable[[], None]:
        def execute() -> None:
            for name, elements in evaluated(
                c.desc, arrays
            ).items():  # all is read before: an output may lie in an input's place
                arrays[name][...] = elements

        return execute

    return Built(bind, sum(t.element_bytes for name, t in c.tensors.items() if name in c.outputs))


REFERENCE = Kernel("reference", None, takes_all, _build)
