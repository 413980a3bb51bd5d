"""The reference kernel: any operator's statement, evaluated exactly. It takes every desc and comes last in each list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anydml.kernels.kernel import Arrays, Built, Kernel, Machine, takes_all
from anydml.schema.check import Checked
from anydml.schema.statement import stated


def _build(c: Checked[Any], machine: Machine) -> Built:
    statement = stated(c.desc)

    def bind(arrays: Arrays) -> Callable[[], None]:
        def execute() -> None:
            from anydml.kernels.evaluate import Evaluator  # with python-flint, which those who never come here do not need

            evaluators = {name: Evaluator(nest, c.tensors[name].data_type, arrays) for name, nest in statement.items()}
            made = {name: evaluator.all(arrays[name].shape) for name, evaluator in evaluators.items()}
            for name, elements in made.items():  # after all is read: an output may lie in an input's place
                arrays[name][...] = elements

        return execute

    return Built(bind)


REFERENCE = Kernel("reference", None, takes_all, _build)
