"""ELEMENT_WISE_ADD, ADD1, EXP and ATAN_YX."""

from __future__ import annotations

from .activation import Attributes, Inputs, Outputs, Results, activation, scaled
from .arithmetic import add as add_values
from .functions import angle, exponential
from .numbers import stored, to_integer_array, values


def add(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    a, b = inputs["a_tensor"], inputs["b_tensor"]
    sizes, dtype = outputs["output_tensor"]
    if a.dtype.kind in "iu":
        sums = (x + y for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True))
        return {"output_tensor": to_integer_array(sums, sizes, dtype)}
    activate = activation(attributes.get("fused_activation"))
    return {"output_tensor": stored(map(activate, map(add_values, values(a), values(b))), sizes, dtype)}


def exp(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    scale_bias = attributes.get("scale_bias")
    results = (exponential(scaled(x, scale_bias)) for x in values(inputs["input_tensor"]))
    return {"output_tensor": stored(results, *outputs["output_tensor"])}


def atan_yx(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    results = map(angle, values(inputs["a_tensor"]), values(inputs["b_tensor"]))
    return {"output_tensor": stored(results, *outputs["output_tensor"])}


OPERATORS = {
    "ELEMENT_WISE_ADD": add,
    "ELEMENT_WISE_ADD1": add,
    "ELEMENT_WISE_EXP": exp,
    "ELEMENT_WISE_ATAN_YX": atan_yx,
}
