"""The eager function of every operator: arrays in, arrays out, sizes inferred, every rule checked.

A function is made from its operator's file when it is first asked for. `functions.pyi` has the signatures of all of them, for
editors and type checkers.
"""

from typing import Any

from anydml.catalog import FILES, FUNCTIONS
from anydml.fork_safety import guard
from anydml.functional.call import along as along  # functions call these two
from anydml.functional.call import call as call
from anydml.functional.definition import define
from anydml.functional.inference import outputs_name, outputs_type
from anydml.functional.run import operator_of
from anydml.operators import every, module_of


def __getattr__(name: str) -> Any:
    """A function, or the class of the outputs of an operator that has several."""
    with guard:  # of several threads, one defines a function
        if name not in globals():
            if name in FUNCTIONS:
                define(operator_of(name.upper()), globals())
            elif (operator := name.removesuffix("Outputs")) in FILES and operator != name:
                globals()[name] = outputs_type(getattr(module_of(FILES[operator]), operator))
            else:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals()[name]


def __dir__() -> list[str]:
    return sorted([*FUNCTIONS, *(outputs_name(operator) for operator in every() if len(operator.spec.outputs) > 1)])
