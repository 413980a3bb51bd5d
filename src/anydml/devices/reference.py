"""The reference device: the operator files, run as they stand."""

from anydml import operators
from anydml.kernels.reference import reference

KERNELS = tuple(map(reference, operators.every()))
