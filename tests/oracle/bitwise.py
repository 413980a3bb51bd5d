"""ELEMENT_WISE_BIT_AND, OR, XOR, NOT, COUNT, SHIFT_LEFT and SHIFT_RIGHT on strings of binary digits, for all types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .activation import Attributes, Inputs, Operator, Outputs, Results
from .numbers import bits

Digits = str  # such as "00000111", with the highest digit first


def of_digits(combine: Callable[..., Digits]) -> Operator:
    """An operator whose output's digits are computed from those of its inputs."""

    def operate(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
        sizes, dtype = outputs["output_tensor"]
        rows = [digits(inputs[name]) for name in inputs]
        made = np.array([int(combine(*xs), 2) for xs in zip(*rows, strict=True)], f"u{np.dtype(dtype).itemsize}")
        return {"output_tensor": made.view(dtype).reshape(sizes)}

    return operate


def digits(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> list[Digits]:
    width = 8 * array.itemsize
    return [f"{pattern:0{width}b}" for pattern in bits(array).ravel().tolist()]


def each_digit(table: str) -> Callable[..., Digits]:
    """A function that combines two strings digit by digit; table: the results for 00, 01, 10 and 11."""
    found = dict(zip(("00", "01", "10", "11"), table, strict=True))
    return lambda a, b: "".join(found[x + y] for x, y in zip(a, b, strict=True))


def moved_up(a: Digits, b: Digits) -> Digits:
    places = min(int(b, 2), len(a))
    return a[places:] + "0" * places


def moved_down(a: Digits, b: Digits) -> Digits:
    places = min(int(b, 2), len(a))
    return "0" * places + a[: len(a) - places]


def count(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    return {"output_tensor": np.array([row.count("1") for row in digits(inputs["input_tensor"])], dtype).reshape(sizes)}


OPERATORS = {
    "ELEMENT_WISE_BIT_AND": of_digits(each_digit("0001")),
    "ELEMENT_WISE_BIT_OR": of_digits(each_digit("0111")),
    "ELEMENT_WISE_BIT_XOR": of_digits(each_digit("0110")),
    "ELEMENT_WISE_BIT_NOT": of_digits(lambda a: a.translate({ord("0"): "1", ord("1"): "0"})),
    "ELEMENT_WISE_BIT_COUNT": count,
    "ELEMENT_WISE_BIT_SHIFT_LEFT": of_digits(moved_up),
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": of_digits(moved_down),
}
