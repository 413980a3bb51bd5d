"""The enumerations of the binding, with its names, and the values of DirectML.h."""

from __future__ import annotations

import enum
from typing import Any

from anydml.devices.device import ExecutionFlags
from anydml.schema.directml import NAMES, OLDER_NAMES
from anydml.schema.enumerations import (
    AxisDirection,
    ConvolutionDirection,
    ConvolutionMode,
    DepthSpaceOrder,
    InterpolationMode,
    IsInfinityMode,
    MatrixTransform,
    PaddingMode,
    QuantizationType,
    RandomGeneratorType,
    RecurrentNetworkDirection,
    ReduceFunction,
    RoundingMode,
)
from anydml.tensor import DataType as TensorDataType
from anydml.tensor import TensorFlags

_NUMBERS = {name: number for number, name in enumerate(NAMES, 1)}
_NUMBERS |= {older: _NUMBERS[name] for older, name in OLDER_NAMES.items()}


def _enumeration(name: str, members: list[tuple[str, int]]) -> Any:
    made: Any = enum.IntEnum
    return made(name, members, module=__name__)


OperatorType = _enumeration("OperatorType", [("INVALID", 0), *_NUMBERS.items()])
OperatorType.__doc__ = "DML_OPERATOR_TYPE."


class OutputOptions(enum.IntEnum):
    """The outputs of `gru`: of every step, of the last one, or both."""

    Both = 0
    Sequence = 1
    Single = 2


# enumerations whose members the module itself has too, in the binding's order: of two members of one name, the later one counts
EXPORTED = (
    TensorDataType,
    TensorFlags,
    MatrixTransform,
    RecurrentNetworkDirection,
    ConvolutionMode,
    ConvolutionDirection,
    InterpolationMode,
    PaddingMode,
    ExecutionFlags,
    OperatorType,
)

__all__ = [
    "AxisDirection",
    "ConvolutionDirection",
    "ConvolutionMode",
    "DepthSpaceOrder",
    "ExecutionFlags",
    "InterpolationMode",
    "IsInfinityMode",
    "MatrixTransform",
    "OperatorType",
    "OutputOptions",
    "PaddingMode",
    "QuantizationType",
    "RandomGeneratorType",
    "RecurrentNetworkDirection",
    "ReduceFunction",
    "RoundingMode",
    "TensorDataType",
    "TensorFlags",
]
