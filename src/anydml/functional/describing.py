"""Descriptions of eager calls: their descs and inputs, from the plans that calls use. Nothing is computed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.devices.device import device_of
from anydml.errors import BindingError, DataError, DescError, Fault
from anydml.functional.call import along, explained
from anydml.functional.inference import argument
from anydml.functional.keys import Asked, keyed, laid, taken_all
from anydml.functional.planning import plan_call
from anydml.functional.run import operator_of
from anydml.schema.operator import Desc


class Description(NamedTuple):
    """inputs: arrays by tensor. outputs: see `Plan`."""

    desc: Desc
    inputs: dict[str, NDArray[Any]]
    outputs: tuple[Any, ...]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the results, by tensor."""
        several = (o if isinstance(o, list) else [o] for o in self.outputs if o is not None)
        return {name: shape for these in several for name, _, shape in these}


def described(function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Description:
    """The description of an eager call. The call is checked and not executed.

    TypeError for a function that is not an eager function of anydml; other errors are the call's.
    """
    if getattr(function, "__module__", "") != "anydml.functional.functions":
        if isinstance(function, (np.ndarray, np.generic)):  # the call was made
            raise TypeError(
                "an array is neither a desc nor an eager function of anydml: give the function and its arguments apart, not "
                "what it returns"
            )
        raise TypeError(f"{function!r} is neither a desc nor an eager function of anydml")
    bound = _signature(function).bind(*arguments, **keywords)
    bound.apply_defaults()
    asked = _asked(function.__name__.upper(), bound.arguments)
    try:
        flat, kinds = taken_all(asked.tensors)
        plan = plan_call(
            operator_of(asked.operator),
            device_of(asked.device).feature_level,
            tuple(kinds),
            keyed(asked.attributes),
            laid(asked.out),
            keyed(asked.output_sizes),
            keyed(asked.output_data_type),
        )
        inputs = {i.name: i.view(i.moved(flat[i.place])) for i in plan.inputs}
    except (BindingError, DescError, DataError) as error:
        raise explained(error, asked) from None
    if plan.empty:
        raise BindingError([Fault("", "the results have no elements, and there is nothing to describe")])
    return Description(plan.checked.desc, inputs, plan.outputs)


@lru_cache(256)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _asked(operator: str, values: dict[str, Any]) -> Asked:
    """The arguments of an operator's function as those of `call`."""
    spec = operator_of(operator).spec
    names = [f.name for f in spec.attributes if f.name not in spec.counts]
    given = [along(values[x], values["axis"]) if x == "axes" and "axis" in values else values[x] for x in names]
    tensors = [values[argument(f)] for f in spec.inputs]
    more = [values.get(x) for x in ("out", "device", "output_sizes", "output_data_type")]
    return Asked(operator, tensors, given, *more)
