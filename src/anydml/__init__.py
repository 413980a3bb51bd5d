"""anydml: DirectML's operators, exactly, on any machine.

Three levels: eager functions (`slice1`, `slice`, `quantized_linear_matrix_multiply`, `matrix_multiply_integer`); DirectML's
object model (`TensorDesc`, `Slice1`, .., `check`, `Device`). Independent of Microsoft.
"""

from typing import TYPE_CHECKING, Any

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
from anydml.forks import imported
from anydml.functional.matrix_multiply import matrix_multiply_integer, quantized_linear_matrix_multiply
from anydml.functional.slice import slice as slice  # public, but not in __all__: `import *` leaves the builtin alone
from anydml.functional.slice import slice1
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.operators.slice import Slice, Slice1
from anydml.schema.check import Checked, check
from anydml.tensor import DataType, TensorDesc, TensorFlags

if TYPE_CHECKING:
    from anydml import program, testing
    from anydml.config import show_config
    from anydml.explain import deviations
    from anydml.explain.compare import compare
    from anydml.explain.comparison import Comparison
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
    "deviations",
    "matrix_multiply_integer",
    "program",
    "quantized_linear_matrix_multiply",
    "show_config",
    "slice1",
    "testing",
]


_MODULES = {"deviations": "anydml.explain.deviations", "testing": "anydml.testing"}
_MEMBERS = {"Comparison": "anydml.explain.comparison", "compare": "anydml.explain.compare", "show_config": "anydml.config"}


def __getattr__(name: str) -> Any:
    """Programs, `compare` and `show_config` are loaded when they are first asked for: a fifth of an import's time."""
    if name in ("Program", "program"):
        module = imported("anydml.program")
        return module if name == "program" else module.Program
    if name in _MODULES:
        return imported(_MODULES[name])
    if name in _MEMBERS:
        return getattr(imported(_MEMBERS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is public, loaded or not, and nothing else."""
    return sorted([*__all__, "__version__", "slice"])
