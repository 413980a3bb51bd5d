"""The cpu device: its kernels, best first, and the reference behind them."""

from anydml.forks import guard
from anydml.kernels.kernel import Kernel
from anydml.kernels.reference import REFERENCE


def kernels(operator: str) -> tuple[Kernel, ...]:
    """The kernels that an operator's descs are offered to, in order; what serves other operators is not imported."""
    with guard:
        if operator == "SLICE1":
            from anydml.kernels.copy.family import COMPILED, VIEW

            return COMPILED, VIEW, REFERENCE
        if operator in ("MATRIX_MULTIPLY_INTEGER", "QUANTIZED_LINEAR_MATRIX_MULTIPLY"):
            from anydml.kernels.contract import family as compiled
            from anydml.kernels.numpy import contract as numpy

            if operator == "MATRIX_MULTIPLY_INTEGER":
                return compiled.INTEGER, numpy.INTEGER, REFERENCE
            return compiled.QUANTIZED, numpy.QUANTIZED, REFERENCE
    return (REFERENCE,)
