"""The reference device: the statements of the operator files, evaluated exactly."""

from anydml.kernels.reference import REFERENCE

KERNELS = (REFERENCE,)
"""The kernels of the device, in the order in which they are asked."""
