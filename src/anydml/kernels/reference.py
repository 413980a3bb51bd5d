"""The reference: any statement, evaluated exactly. It refuses nothing and comes last in each table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from anydml.fork_safety import guard
from anydml.int4_tensors import pack, unpacked
from anydml.kernels.kernel import Arrays, Built, Machine
from anydml.kernels.problem import Problem
from anydml.schema.operator import Desc
from anydml.schema.statement import Statement, stated
from anydml.tensor import TensorDesc


def evaluated(desc: Desc, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The exact outputs of an operator's newest desc. arrays: its inputs in tensor form, by name.

    The elements of 4-bit outputs are int8 or uint8.
    """
    tensors = {found.name: found.desc for found in desc.tensors()}
    return _evaluated(stated(desc), tensors, elements_of(arrays, tensors))


def elements_of(arrays: Arrays, tensors: Mapping[str, TensorDesc]) -> Arrays:
    """The arrays with one element in each item: 4-bit elements are unpacked from bytes."""
    return {name: unpacked(x, tensors[name]) if _is_four_bit(tensors.get(name)) else x for name, x in arrays.items()}


def _is_four_bit(t: TensorDesc | None) -> bool:
    return t is not None and t.data_type.element_bits == 4


def _evaluated(statement: Statement, tensors: Mapping[str, TensorDesc], arrays: Arrays) -> dict[str, NDArray[Any]]:
    with guard:
        from anydml.kernels.evaluate.evaluator import (
            evaluators,  # with python-flint, which those who never come here do not need
        )

    types = {name: tensors[name].data_type for name in statement}
    return {name: found.all(tensors[name].sizes) for name, found in evaluators(statement, types, arrays).items()}


def lower(problem: Problem, machine: Machine) -> Built:
    """The statement evaluated element by element, in Python."""
    statement = problem.statement

    tensors = problem.tensors

    def bind(arrays: Arrays) -> Callable[[], None]:
        def execute() -> None:
            # everything is computed before anything is written: an output may be identical to an input
            for name, elements in _evaluated(statement, tensors, elements_of(arrays, tensors)).items():
                arrays[name][...] = pack(elements) if _is_four_bit(tensors[name]) else elements

        return execute

    four_bit = sum(2 * t.element_bytes for t in tensors.values() if _is_four_bit(t))  # with an element in a byte
    return Built(bind, sum(tensors[name].element_bytes for name in statement) + four_bit)
