"""The two spellings of a name: DirectML's on the wire (`InputWindowSizes`), snake_case in Python (`input_window_sizes`).

Also names that come from outside, as messages print them.
"""

import re
from functools import lru_cache

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@lru_cache(maxsize=4096)
def snake_case(wire: str) -> str:
    """The Python spelling of a wire name or dotted path: `AScaleTensor.Sizes[2]` is `a_scale_tensor.sizes[2]`."""
    return _WORD_START.sub("_", wire).lower()


def printable(text: str) -> str:
    """A text on one line: line breaks, control characters and those that turn the writing direction are escaped.

    Names in programs and names of files come from outside. Printed as they are, they could imitate lines of anydml's output.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def class_name(operator: str) -> str:
    """The Python class of an operator: `MATRIX_MULTIPLY_INTEGER` is `MatrixMultiplyInteger`."""
    return "".join(word.capitalize() for word in operator.split("_"))
