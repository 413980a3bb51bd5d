"""The elementary functions of float64 vectors with bounds of their errors, collected from the modules of their families.

They have no branch, no call and no table, and work for any number of lanes, with and without fused operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions.approximate import Approximate
from anydml.kernels.numbers.functions.circular import acos, asin, atan, atan2, cos, sin, tan
from anydml.kernels.numbers.functions.error_functions import erf, erfc, gelu
from anydml.kernels.numbers.functions.exponentials import cosh, exp, expm1, sigmoid, sinh, softplus, tanh
from anydml.kernels.numbers.functions.logarithms import acosh, asinh, atanh, log, log1p
from anydml.kernels.numbers.functions.powers import pow

UNARY: Mapping[str, Callable[[Value], Approximate]] = {
    f.__name__: f
    for f in (
        *(exp, expm1, sinh, cosh, tanh, sigmoid, softplus),
        *(log, log1p, asinh, acosh, atanh),
        *(sin, cos, tan, asin, acos, atan),
        *(erf, erfc, gelu),
    )
}
BINARY: Mapping[str, Callable[[Value, Value], Approximate]] = {f.__name__: f for f in (atan2, pow)}
