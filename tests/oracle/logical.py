"""ELEMENT_WISE_LOGICAL_AND, OR, XOR and NOT, the five comparisons, and ELEMENT_WISE_IF."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .activation import Attributes, Inputs, Operator, Outputs, Results
from .arithmetic import compare, is_nan
from .numbers import Value, bits, values


def of_truths(decide: Callable[..., bool]) -> Operator:
    """An operator on truth values (elements other than 0); it returns 1 or 0."""

    def operate(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
        sizes, dtype = outputs["output_tensor"]
        truths = [[x != 0 for x in array.ravel().tolist()] for array in inputs.values()]
        return {"output_tensor": np.array([int(decide(*xs)) for xs in zip(*truths, strict=True)], dtype).reshape(sizes)}

    return operate


def of_orders(orders: tuple[int, ...]) -> Operator:
    """A comparison: 1 if that of A and B is one of these orders, which is never so for NaN."""

    def holds(a: Value, b: Value) -> bool:
        return not (is_nan(a) or is_nan(b)) and compare(a, b) in orders

    def operate(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
        sizes, dtype = outputs["output_tensor"]
        results = map(holds, values(inputs["a_tensor"]), values(inputs["b_tensor"]))
        return {"output_tensor": np.array([int(x) for x in results], dtype).reshape(sizes)}

    return operate


def choose(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    """The bits of A if any bit of the condition is set, else those of B."""
    sizes, dtype = outputs["output_tensor"]
    a, b = bits(inputs["a_tensor"]), bits(inputs["b_tensor"])
    triples = zip(inputs["condition_tensor"].ravel().tolist(), a.ravel().tolist(), b.ravel().tolist(), strict=True)
    chosen = np.array([x if condition else y for condition, x, y in triples], a.dtype)
    return {"output_tensor": chosen.view(dtype).reshape(sizes)}


OPERATORS = {
    "ELEMENT_WISE_LOGICAL_AND": of_truths(lambda a, b: a and b),
    "ELEMENT_WISE_LOGICAL_OR": of_truths(lambda a, b: a or b),
    "ELEMENT_WISE_LOGICAL_XOR": of_truths(lambda a, b: a is not b),
    "ELEMENT_WISE_LOGICAL_NOT": of_truths(lambda x: not x),
    "ELEMENT_WISE_LOGICAL_EQUALS": of_orders((0,)),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": of_orders((1,)),
    "ELEMENT_WISE_LOGICAL_LESS_THAN": of_orders((-1,)),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": of_orders((0, 1)),
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": of_orders((-1, 0)),
    "ELEMENT_WISE_IF": choose,
}
