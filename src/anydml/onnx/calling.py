"""Calls of mappings, which compute a node's outputs. Errors of DirectML's operators become refusals."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from anydml.errors import BindingError, DataError, DescError
from anydml.onnx.errors import INVALID, Refused
from anydml.onnx.values import Value


@lru_cache(maxsize=1024)
def _inputs(mapping: Callable[..., Any]) -> tuple[list[str], float]:
    """The names of the inputs that a mapping requires, and the largest number of inputs that it takes."""
    parameters = [*inspect.signature(mapping).parameters.values()][1:]
    named = [p for p in parameters if p.kind != p.VAR_POSITIONAL]
    return [p.name for p in named if p.default is p.empty], len(named) if len(named) == len(parameters) else math.inf


def _fitting(mapping: Callable[..., Any], node: Any, values: list[Value]) -> list[Value]:
    """The inputs without absent ones at the end. Their number is checked, since operators of other domains have no schema."""
    while values and values[-1] is None:
        values = values[:-1]
    needed, most = _inputs(mapping)
    if len(values) < len(needed) or len(values) > most:
        many = (
            f"{len(needed)}"
            if most == len(needed)
            else f"{len(needed)} or more"
            if most == math.inf
            else f"{len(needed)} to {most}"
        )
        raise Refused(f"it has {len(values)} inputs, and takes {many}", INVALID)
    return values


def called(mapping: Callable[..., Any], node: Any, values: list[Value]) -> list[Value]:
    """The outputs of a node by its mapping; Refused if it cannot be computed."""
    values = _fitting(mapping, node, values)
    try:
        result = mapping(node, *values)
    except DescError as error:
        raise Refused("; ".join(map(str, error.violations))) from None
    except BindingError as error:
        raise Refused("; ".join(map(str, error.faults))) from None
    except DataError as error:
        raise Refused(str(error), INVALID) from None
    except MemoryError as error:
        raise Refused(str(error) or "there is not enough memory", INVALID) from None
    return list(result) if isinstance(result, (tuple, list)) else [result]
