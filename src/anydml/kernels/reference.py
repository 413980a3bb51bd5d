"""The reference: any statement, evaluated exactly. It refuses nothing and comes last in each table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from anydml.forks import guard
from anydml.kernels.kernel import Arrays, Built, Machine
from anydml.schema.check import Checked
from anydml.schema.operator import Desc
from anydml.schema.statement import Statement, stated
from anydml.tensor import TensorDesc


def evaluated(desc: Desc, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Every output of an operator's newest desc, exactly; arrays: its inputs in tensor form, by name."""
    return _evaluated(stated(desc), {found.name: found.desc for found in desc.tensors()}, arrays)


def _evaluated(statement: Statement, tensors: Mapping[str, TensorDesc], arrays: Arrays) -> dict[str, NDArray[Any]]:
    with guard:
        from anydml.kernels.evaluate import evaluators  # with python-flint, which those who never come here do not need

    types = {name: tensors[name].data_type for name in statement}
    return {name: found.all(tensors[name].sizes) for name, found in evaluators(statement, types, arrays).items()}


def lower(statement: Statement, checked: Checked[Any], machine: Machine) -> Built:
    """The statement evaluated element by element, in Python."""

    def bind(arrays: Arrays) -> Callable[[], None]:
        def execute() -> None:
            # all is read before: an output may lie in an input's place
            for name, elements in _evaluated(statement, checked.tensors, arrays).items():
                arrays[name][...] = elements

        return execute

    return Built(bind, sum(checked.tensors[name].element_bytes for name in statement))
