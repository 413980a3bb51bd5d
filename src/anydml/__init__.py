"""anydml: DirectML's operators, exactly, on any machine.

Three levels: eager functions (`slice1`, `slice`, `quantized_linear_matrix_multiply`, `matrix_multiply_integer`); DirectML's
object model (`TensorDesc`, `Slice1`, .., `check`, `Device`). Independent of Microsoft.
"""

from anydml.devices.compiled import BindingProperties, BoundOperator, CompiledOperator
from anydml.devices.device import Device, ExecutionFlags
from anydml.errors import (
    BindingError,
    DataError,
    DescError,
    Error,
    Fault,
    ProgramError,
    UnsupportedError,
    Violation,
)
from anydml.feature_level import FeatureLevel
from anydml.functional.matrix_multiply import matrix_multiply_integer, quantized_linear_matrix_multiply
from anydml.functional.slice import slice, slice1
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.operators.slice import Slice, Slice1
from anydml.spec.check import Checked, check
from anydml.tensor import DataType, TensorDesc, TensorFlags

__version__ = "0.1.0"

__all__ = [
    "BindingError",
    "BindingProperties",
    "BoundOperator",
    "Checked",
    "CompiledOperator",
    "DataError",
    "DataType",
    "DescError",
    "Device",
    "Error",
    "ExecutionFlags",
    "Fault",
    "FeatureLevel",
    "MatrixMultiplyInteger",
    "ProgramError",
    "QuantizedLinearMatrixMultiply",
    "Slice",
    "Slice1",
    "TensorDesc",
    "TensorFlags",
    "UnsupportedError",
    "Violation",
    "check",
    "matrix_multiply_integer",
    "quantized_linear_matrix_multiply",
    "slice",
    "slice1",
]
