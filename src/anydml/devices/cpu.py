"""The cpu device: its kernels, best first, and the reference behind them."""

from anydml.devices.reference import KERNELS as REFERENCE
from anydml.kernels.cpu.matrix_multiply import INTEGER, QUANTIZED
from anydml.kernels.cpu.matrix_multiply_compiled import INTEGER as COMPILED_INTEGER
from anydml.kernels.cpu.matrix_multiply_compiled import QUANTIZED as COMPILED_QUANTIZED
from anydml.kernels.cpu.slice import COMPILED, VIEW

KERNELS = (COMPILED, VIEW, COMPILED_INTEGER, COMPILED_QUANTIZED, INTEGER, QUANTIZED, *REFERENCE)
