"""The operator library: one file per lineage, named by the wire name without its version digit; found by being there."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import lru_cache

from anydml.schema.operator import Desc

_VERSION = re.compile(r"\d+$")


@lru_cache(maxsize=1)
def lineages() -> tuple[str, ...]:
    """The name of every operator file."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@lru_cache(maxsize=1)
def every() -> tuple[type[Desc], ...]:
    """The desc class of every operator there is, in the order of their wire numbers."""
    found = (desc for lineage in lineages() for desc in _of(lineage))
    return tuple(sorted(found, key=lambda desc: desc.spec.number))


def find(wire_name: str) -> type[Desc] | None:
    """The desc class of an operator, named with or without DML_OPERATOR_; None where there is none yet."""
    name = wire_name.removeprefix("DML_OPERATOR_")
    lineage = _VERSION.sub("", name).lower()
    if lineage not in lineages():
        return None
    return next((desc for desc in _of(lineage) if desc.spec.name == name), None)


def _of(lineage: str) -> Iterator[type[Desc]]:
    module = importlib.import_module(f"{__name__}.{lineage}")
    # by type(m): in Python 3.10, isinstance takes an alias such as NDArray[Any] for a class
    return (
        m
        for m in vars(module).values()
        if issubclass(type(m), type) and issubclass(m, Desc) and m.__module__ == module.__name__
    )
