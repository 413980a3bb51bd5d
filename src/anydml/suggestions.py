"""Similar names: the known names that an unknown one may stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from anydml.fork_safety import guard
from anydml.spelling import snake_case

ELSEWHERE = {  # names that other libraries give to operators
    "concat": ("join",),
    "concatenate": ("join",),
    "cumsum": ("cumulative_summation",),
    "dot": ("gemm", "matrix_multiply_integer"),
    "embedding": ("gather",),
    "flip": ("slice1",),
    "layernorm": ("mean_variance_normalization2",),
    "matmul": ("gemm", "matrix_multiply_integer", "quantized_linear_matrix_multiply"),
    "max": ("element_wise_max", "reduce", "max_pooling"),
    "maximum": ("element_wise_max",),
    "mean": ("reduce", "element_wise_mean"),
    "min": ("element_wise_min", "reduce"),
    "minimum": ("element_wise_min",),
    "prod": ("reduce",),
    "relu6": ("element_wise_clip",),
    "sub": ("element_wise_subtract",),
    "sum": ("reduce",),
    "where": ("element_wise_if",),
}
MEMBERS = {  # and to the values of enumerations
    "BILINEAR": "LINEAR",
    "MEAN": "AVERAGE",
    "NEAREST": "NEAREST_NEIGHBOR",
    "PROD": "MULTIPLY",
    "PRODUCT": "MULTIPLY",
}
_LEAST = 3  # letters of a name that is searched for within others


def similar(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names that are another spelling of the name, contain its words, or are otherwise spelt almost like it."""
    key = re.sub(r"\d+d$", "", _letters(name)) or name  # conv2d
    spelt = {one: _letters(one) for one in known}
    if same := [one for one, letters in spelt.items() if letters in (key, _letters(name))]:
        return same[:most]
    others = {_letters(one) for one in ELSEWHERE.get(key, ())}
    if meant := [one for one, letters in spelt.items() if letters in others]:
        return meant[:most]
    found = [one for one in spelt if len(key) >= _LEAST and any(rest.startswith(key) for rest in _endings(one))]
    found.sort(
        key=lambda one: (
            not spelt[one].rstrip("0123456789").endswith(key),
            not _endings(one)[-1].startswith(key),
            len(one),
        )
    )
    if not found:
        with guard:
            from difflib import get_close_matches
        near = get_close_matches(key, set(spelt.values()), most)
        found = [one for letters in near for one in spelt if spelt[one] == letters]
    return found[:most]


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def _endings(name: str) -> list[str]:
    """The endings of the name that begin at one of its words."""
    words = snake_case(name).lower().split("_")
    return ["".join(words[at:]) for at in range(len(words))]
