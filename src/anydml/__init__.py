"""anydml: DirectML's operators, exactly, on any machine.

There are four levels: eager functions, named as DirectML's operators (`element_wise_add`, `slice1`); DirectML's object model
(`TensorDesc`, `Slice1`, .., `check`, `Device`); graphs (`graph`); programs (`program`). anydml is independent of Microsoft.
"""

from typing import TYPE_CHECKING, Any

from anydml import catalog
from anydml.catalog import FILES, FUNCTIONS
from anydml.devices.compiled import BindingProperties, BoundOperator, CompiledOperator
from anydml.devices.device import Device, ExecutionFlags
from anydml.errors import (
    BindingError,
    DataError,
    DescError,
    Error,
    Fault,
    GraphError,
    OptimizationWarning,
    PerformanceWarning,
    ProgramError,
    UnsupportedError,
    Violation,
)
from anydml.feature_level import FeatureLevel
from anydml.fork_safety import guard
from anydml.graphs.desc import ConstantNode, GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from anydml.schema.check import Checked, check
from anydml.tensor import DataType, TensorDesc, TensorFlags
from anydml.version import SEMANTICS_VERSION
from anydml.version import __version__ as __version__

if TYPE_CHECKING:
    from anydml import program, testing
    from anydml.catalog import *  # noqa: F403  # the desc class and the function of every operator
    from anydml.chunking import chunks
    from anydml.chunking.requantization import requantize
    from anydml.config import show_config
    from anydml.explain import deviations
    from anydml.explain.compare import compare
    from anydml.explain.comparison import Comparison
    from anydml.functional.functions import slice as slice
    from anydml.functional.graph import Graph, graph
    from anydml.pictures.picture import picture
    from anydml.pictures.shown import Picture
    from anydml.program import Program

__all__ = [
    "SEMANTICS_VERSION",
    "BindingError",
    "BindingProperties",
    "BoundOperator",
    "Checked",
    "Comparison",
    "CompiledOperator",
    "ConstantNode",
    "DataError",
    "DataType",
    "DescError",
    "Device",
    "Error",
    "ExecutionFlags",
    "Fault",
    "FeatureLevel",
    "Graph",
    "GraphDesc",
    "GraphError",
    "InputEdge",
    "IntermediateEdge",
    "OperatorNode",
    "OptimizationWarning",
    "OutputEdge",
    "PerformanceWarning",
    "Picture",
    "Program",
    "ProgramError",
    "TensorDesc",
    "TensorFlags",
    "UnsupportedError",
    "Violation",
    "check",
    "chunks",
    "compare",
    "deviations",
    "graph",
    "picture",
    "program",
    "requantize",
    "show_config",
    "testing",
]

__all__ += catalog.__all__


def _meant(name: str) -> str:
    """The public names that an unknown one may stand for, as a question."""
    if name.startswith("_"):  # Python's own, such as __path__
        return ""
    if name in ("onnx", "dask", "tflite", "torch"):  # a module that needs an optional package is imported by name
        return f"; `import anydml.{name}` loads it"
    from anydml.rule_messages import listed
    from anydml.suggestions import similar

    public = (*__all__, "slice")
    near = similar(name, [one for one in public if one[0].isupper() == name[0].isupper()]) or similar(name, public)
    return f"; did you mean {listed(near)}?" if near else ""


def _imported(name: str) -> Any:
    """The value of a public name that is imported late."""
    value: Any
    with guard:
        if name in FILES:
            from anydml.operators import module_of

            value = getattr(module_of(FILES[name]), name)
        elif name in FUNCTIONS:
            from anydml.functional import functions

            value = getattr(functions, name)
        elif name == "chunks":
            from anydml.chunking import chunks as value
        elif name == "requantize":
            from anydml.chunking.requantization import requantize as value
        elif name == "compare":
            from anydml.explain.compare import compare as value
        elif name == "Comparison":
            from anydml.explain.comparison import Comparison as value
        elif name == "deviations":
            import anydml.explain.deviations as value
        elif name == "graph":
            from anydml.functional.graph import graph as value
        elif name == "Graph":
            from anydml.functional.graph import Graph as value
        elif name == "Picture":
            from anydml.pictures.shown import Picture as value
        elif name == "picture":
            from anydml.pictures.picture import picture as value
        elif name == "program":
            import anydml.program as value
        elif name == "Program":
            from anydml.program import Program as value
        elif name == "show_config":
            from anydml.config import show_config as value
        elif name == "testing":
            import anydml.testing as value
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_meant(name)}")
    return value


if not TYPE_CHECKING:  # a type checker sees the names above and reports unknown ones

    def __getattr__(name: str) -> Any:
        """Operators, functions and programs are imported when they are first asked for."""
        globals()[name] = value = _imported(name)  # later uses find it there
        return value


def __dir__() -> list[str]:
    """The public names, loaded or not, and nothing else."""
    return sorted([*__all__, "__version__", "slice"])
