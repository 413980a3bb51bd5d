"""The cpu device: its kernels, best first, and the reference behind them."""

from anydml.forks import guard
from anydml.kernels.kernel import Kernel
from anydml.kernels.reference import REFERENCE


def kernels(operator: str) -> tuple[Kernel, ...]:
    """The kernels that an operator's descs are offered to, in order; what serves other operators is not imported."""
    with guard:
        if operator == "SLICE1":
            from anydml.kernels.cpu.slice import COMPILED, VIEW

            return COMPILED, VIEW, REFERENCE
        if operator in ("MATRIX_MULTIPLY_INTEGER", "QUANTIZED_LINEAR_MATRIX_MULTIPLY"):
            from anydml.kernels.cpu import matrix_multiply, matrix_multiply_compiled

            if operator == "MATRIX_MULTIPLY_INTEGER":
                return matrix_multiply_compiled.INTEGER, matrix_multiply.INTEGER, REFERENCE
            return matrix_multiply_compiled.QUANTIZED, matrix_multiply.QUANTIZED, REFERENCE
    return (REFERENCE,)
