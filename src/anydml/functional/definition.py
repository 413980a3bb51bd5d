"""Eager functions, defined from operator files."""

from __future__ import annotations

import linecache
import os
from typing import Any

from anydml.functional.documentation import docstring
from anydml.functional.inference import argument, outputs_name
from anydml.functional.signatures import Parameter, parameters
from anydml.schema.operator import Desc


def define(cls: type[Desc], namespace: dict[str, Any]) -> None:
    """Define the function of an operator in the namespace of a module that has `call` and `along`."""
    made = parameters(cls)
    name = cls.spec.name.lower()
    text = f"from __future__ import annotations\n\n{head(cls, made)}\n    return {_call(cls, made)}\n"
    path = os.path.join(os.path.dirname(__file__), f"<{name}>")  # within the package, whose lines messages do not name
    linecache.cache[path] = len(text), None, text.splitlines(True), path
    exec(compile(text, path, "exec"), namespace)
    namespace[name].__doc__ = docstring(cls, made)


def head(cls: type[Desc], made: list[Parameter]) -> str:
    """The first lines of the function's definition."""
    several = outputs_name(cls) if len(cls.spec.outputs) > 1 else None
    returned = several or ("list[NDArray[Any]]" if cls.spec.outputs[0].sized_by else "NDArray[Any]")
    spelled = [f"{p.name}: {p.type}" + (f" = {p.default}" if p.default is not None else "") for p in made]
    first = next(i for i, p in enumerate(made) if p.keyword)
    spelled.insert(first, "*")
    return f"def {cls.spec.name.lower()}({', '.join(spelled)}) -> {returned}:"


def _call(cls: type[Desc], made: list[Parameter]) -> str:
    names = {p.name for p in made}
    tensors = [argument(f) for f in cls.spec.inputs]
    attributes = [f.name for f in cls.spec.attributes if f.name not in cls.spec.counts]
    attributes = [f"along({x}, axis)" if x == "axes" and "axis" in names else x for x in attributes]
    sizes, data_type = (x if x in names else "None" for x in ("output_sizes", "output_data_type"))
    return f"call({cls.spec.name!r}, {_tuple(tensors)}, {_tuple(attributes)}, out, device, {sizes}, {data_type})"


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
