"""The cpu device: its kernels, best first, and the reference behind them."""

from anydml.devices.reference import KERNELS as REFERENCE
from anydml.kernels.cpu.matrix_multiply import INTEGER, QUANTIZED
from anydml.kernels.cpu.slice import COMPILED, VIEW

KERNELS = (COMPILED, VIEW, INTEGER, QUANTIZED, *REFERENCE)
