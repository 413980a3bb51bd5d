"""The operator library: one file per lineage, named by the wire name; a new file is found without being registered."""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import lru_cache

from anydml.spec.operator import Desc


@lru_cache(maxsize=1)
def every() -> tuple[type[Desc], ...]:
    """The desc class of every operator there is, in the order of their wire numbers."""
    found = (desc for module in pkgutil.iter_modules(__path__) for desc in _of(module.name))
    return tuple(sorted(found, key=lambda desc: desc.spec.number))


def find(wire_name: str) -> type[Desc] | None:
    """The desc class of an operator, named with or without DML_OPERATOR_; None where there is none yet."""
    name = wire_name.removeprefix("DML_OPERATOR_")
    return next((desc for desc in every() if desc.spec.name == name), None)


def _of(module: str) -> Iterator[type[Desc]]:
    members = vars(importlib.import_module(f"{__name__}.{module}")).values()
    # by type(m): in Python 3.10, isinstance takes an alias such as NDArray[Any] for a class
    return (m for m in members if issubclass(type(m), type) and issubclass(m, Desc) and m is not Desc)
