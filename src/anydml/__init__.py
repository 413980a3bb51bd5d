"""anydml: DirectML's operators, exactly, on any machine.

Three levels: eager functions (`slice1`, `slice`, `quantized_linear_matrix_multiply`, `matrix_multiply_integer`); DirectML's
object model (`TensorDesc`, `Slice1`, .., `check`, `Device`). Independent of Microsoft.
"""

import importlib
from typing import TYPE_CHECKING, Any

from anydml.schema.check import Checked, check
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
from anydml.tensor import DataType, TensorDesc, TensorFlags

if TYPE_CHECKING:
    from anydml import program
    from anydml.explain.compare import Comparison, compare
    from anydml.program import Program

__version__ = "0.1.0"

__all__ = [
    "BindingError",
    "BindingProperties",
    "BoundOperator",
    "Checked",
    "Comparison",
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
    "Program",
    "ProgramError",
    "QuantizedLinearMatrixMultiply",
    "Slice",
    "Slice1",
    "TensorDesc",
    "TensorFlags",
    "UnsupportedError",
    "Violation",
    "check",
    "compare",
    "matrix_multiply_integer",
    "program",
    "quantized_linear_matrix_multiply",
    "slice",
    "slice1",
]


def __getattr__(name: str) -> Any:
    """Programs and `compare` are loaded when they are first asked for: they would be a fifth of an import's time."""
    if name in ("Program", "program"):
        module = importlib.import_module("anydml.program")
        return module if name == "program" else module.Program
    if name in ("Comparison", "compare"):
        return getattr(importlib.import_module("anydml.explain.compare"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
