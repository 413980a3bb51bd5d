"""The cpu device: its kernels, best first, and the reference behind them."""

from anydml.devices.reference import KERNELS as REFERENCE
from anydml.kernels.contract.family import INTEGER as COMPILED_INTEGER
from anydml.kernels.contract.family import QUANTIZED as COMPILED_QUANTIZED
from anydml.kernels.copy.family import COMPILED, VIEW
from anydml.kernels.numpy.contract import INTEGER, QUANTIZED

KERNELS = (COMPILED, VIEW, COMPILED_INTEGER, COMPILED_QUANTIZED, INTEGER, QUANTIZED, *REFERENCE)
