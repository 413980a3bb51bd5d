"""The operator library: one file per lineage, named by the wire name without its version digit, and found in this folder."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from types import ModuleType

from anydml.fork_safety import guard
from anydml.schema.directml import NAMES, OLDER_NAMES
from anydml.schema.operator import Desc
from anydml.suggestions import similar

PREFIX = "DML_OPERATOR_"
_VERSION = re.compile(r"\d+$")
_ADDED: dict[str, type[Desc]] = {}
_LONGEST = 60  # characters of a name in a message, and of one that is compared with others


@lru_cache(maxsize=1)
def lineages() -> tuple[str, ...]:
    """The name of every operator file. ImportError if one ends in a digit, since its operators would never be found."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    if numbered := [name for name in names if _VERSION.search(name)]:
        files = ", ".join(f"operators/{name}.py" for name in numbered)
        raise ImportError(
            f"{files}: an operator file is named without the version digit of its operators, "
            f"such as operators/{_VERSION.sub('', numbered[0])}.py; all versions are in one file"
        )
    return tuple(names)


@lru_cache(maxsize=1)
def every() -> tuple[type[Desc], ...]:
    """The desc classes of all operators, in the order of their wire numbers."""
    found = sorted((desc for lineage in lineages() for desc in _of(lineage)), key=lambda desc: desc.spec.number)
    for one, other in pairwise(found):
        if one.spec.number == other.spec.number:
            raise ImportError(f"{one.spec.wire_name} and {other.spec.wire_name} have the same number, {one.spec.number}")
    return tuple(found)


def find(wire_name: str) -> type[Desc] | None:
    """The desc class of an operator, named with or without DML_OPERATOR_; None if there is none."""
    name = wire_name.removeprefix(PREFIX)
    lineage = _lineage_of(name)
    if lineage not in lineages():
        return _ADDED.get(name)
    return next((desc for desc in _of(lineage) if desc.spec.name == name), None)


def add(desc: type[Desc]) -> None:
    """Let `find` find an operator that DirectML lacks. `every` lists DirectML's own alone."""
    _ADDED[desc.spec.name] = desc


def why_missing(wire_name: str) -> str:
    """The sentence about a name that `find` does not know: it is an older one, or DirectML has no such operator.

    An operator file that is named after no operator may be the one that somebody is adding; the sentence names it.
    """
    name = wire_name.removeprefix(PREFIX)
    if name in OLDER_NAMES:
        return f"{PREFIX}{name} is the older name of {PREFIX}{OLDER_NAMES[name]}"
    if len(name) > _LONGEST:
        return f"DirectML has no operator {wire_name[:_LONGEST]!r}.."
    told = f"DirectML has no operator {wire_name!r}"
    if others := [lineage for lineage in lineages() if lineage not in set(map(_lineage_of, NAMES))]:
        files = ", ".join(f"operators/{lineage}.py" for lineage in others)
        return f"{told}: it would be in operators/{_lineage_of(name)}.py, and DirectML has none that would be in {files}"
    near = similar(name.removeprefix("DML_").removesuffix("_OPERATOR_DESC"), NAMES, 1)
    return told + (f"; did you mean {near[0]!r}?" if near else "")


def module_of(lineage: str) -> ModuleType:
    """The module of an operator file, imported by its name."""
    with guard:
        return importlib.import_module(f"{__name__}.{lineage}")


def _lineage_of(name: str) -> str:
    """The name of the file that an operator is in."""
    return _VERSION.sub("", name).lower()


def _of(lineage: str) -> Iterator[type[Desc]]:
    """The desc classes of a file. ImportError for one that would not be found by its name."""
    module = module_of(lineage)
    for m in vars(module).values():
        # by type(m): in Python 3.10, isinstance takes an alias such as NDArray[Any] for a class
        if not (issubclass(type(m), type) and issubclass(m, Desc) and m.__module__ == module.__name__):
            continue
        if not hasattr(m, "spec"):
            raise ImportError(f"operators/{lineage}.py: the class {m.__name__} has no @operator(..) above it")
        if _lineage_of(m.spec.name) != lineage:
            place = f"operators/{_lineage_of(m.spec.name)}.py"
            raise ImportError(
                f"operators/{lineage}.py has {m.spec.wire_name}, which is looked for in {place}: "
                "an operator file has the operator's name in lower case without the version digit"
            )
        yield m
