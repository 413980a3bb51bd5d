"""Two spellings, one name: DirectML's on the wire (`InputWindowSizes`), snake_case in Python (`input_window_sizes`)."""

import re
from functools import lru_cache

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@lru_cache(maxsize=4096)
def snake_case(wire: str) -> str:
    """The Python spelling of a wire name or dotted path: `AScaleTensor.Sizes[2]` is `a_scale_tensor.sizes[2]`."""
    return _WORD_START.sub("_", wire).lower()


def class_name(operator: str) -> str:
    """The Python class of an operator: `MATRIX_MULTIPLY_INTEGER` is `MatrixMultiplyInteger`."""
    return "".join(word.capitalize() for word in operator.split("_"))
