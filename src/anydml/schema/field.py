"""The fields of an operator desc: `field.input(...)`, `field.output(...)`, `field.attribute(...)`."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from anydml.schema.enumerations import (
    AxisDirection,
    ConvolutionDirection,
    ConvolutionMode,
    DepthSpaceOrder,
    InterpolationMode,
    IsInfinityMode,
    MatrixTransform,
    MultiheadAttentionMaskType,
    PaddingMode,
    QuantizationType,
    RandomGeneratorType,
    RecurrentNetworkDirection,
    ReduceFunction,
    RoundingMode,
)
from anydml.schema.kinds import (
    BOOL,
    DATA_TYPE,
    FLOAT,
    INT,
    OPERATOR,
    SCALE_BIAS,
    SIZE_2D,
    UINT,
    Enumerated,
    Kind,
    Scalar,
)
from anydml.spelling import snake_case

INPUT, OUTPUT, ATTRIBUTE = "input", "output", "attribute"
AXIS_DIRECTION = Enumerated(AxisDirection, "DML_AXIS_DIRECTION")
CONVOLUTION_DIRECTION = Enumerated(ConvolutionDirection, "DML_CONVOLUTION_DIRECTION")
CONVOLUTION_MODE = Enumerated(ConvolutionMode, "DML_CONVOLUTION_MODE")
DEPTH_SPACE_ORDER = Enumerated(DepthSpaceOrder, "DML_DEPTH_SPACE_ORDER")
INTERPOLATION_MODE = Enumerated(InterpolationMode, "DML_INTERPOLATION_MODE")
IS_INFINITY_MODE = Enumerated(IsInfinityMode, "DML_IS_INFINITY_MODE")
MATRIX_TRANSFORM = Enumerated(MatrixTransform, "DML_MATRIX_TRANSFORM")
MULTIHEAD_ATTENTION_MASK_TYPE = Enumerated(MultiheadAttentionMaskType, "DML_MULTIHEAD_ATTENTION_MASK_TYPE")
PADDING_MODE = Enumerated(PaddingMode, "DML_PADDING_MODE")
QUANTIZATION_TYPE = Enumerated(QuantizationType, "DML_QUANTIZATION_TYPE")
RANDOM_GENERATOR_TYPE = Enumerated(RandomGeneratorType, "DML_RANDOM_GENERATOR_TYPE")
RECURRENT_NETWORK_DIRECTION = Enumerated(RecurrentNetworkDirection, "DML_RECURRENT_NETWORK_DIRECTION")
REDUCE_FUNCTION = Enumerated(ReduceFunction, "DML_REDUCE_FUNCTION")
ROUNDING_MODE = Enumerated(RoundingMode, "DML_ROUNDING_MODE")

__all__ = [
    "AXIS_DIRECTION", "BOOL", "CONVOLUTION_DIRECTION", "CONVOLUTION_MODE", "DATA_TYPE", "DEPTH_SPACE_ORDER", "FLOAT", "INT",
    "INTERPOLATION_MODE", "IS_INFINITY_MODE", "MATRIX_TRANSFORM", "MULTIHEAD_ATTENTION_MASK_TYPE", "OPERATOR", "PADDING_MODE",
    "QUANTIZATION_TYPE", "RANDOM_GENERATOR_TYPE", "RECURRENT_NETWORK_DIRECTION", "REDUCE_FUNCTION", "ROUNDING_MODE",
    "SCALE_BIAS", "SIZE_2D", "UINT", "Field", "attribute", "count", "input", "output", "scalar",
]  # fmt: skip


class Field(NamedTuple):
    """A field as the header declares it.

    wire: its name there. role: input, output or attribute. kind: an attribute's kind; None for tensors. sized_by: the count
    field of an array, also of tensors. optional: whether it may be absent. meaning: one line. truth: whether an input's
    elements are truth values, so that eager functions take bool arrays as UINT8.
    """

    wire: str
    role: str
    kind: Kind | None
    meaning: str
    optional: bool = False
    sized_by: str | None = None
    truth: bool = False

    @property
    def name(self) -> str:
        return snake_case(self.wire)

    @property
    def is_tensor(self) -> bool:
        return self.role != ATTRIBUTE

    @property
    def wire_type(self) -> str:
        """The type's name in the header."""
        return "DML_TENSOR_DESC" if self.kind is None else self.kind.wire


_REQUIRED: Any = dataclasses.MISSING


def _declare(made: Field, default: Any) -> Any:
    return dataclasses.field(default=default, metadata={"field": made})


def input(wire: str, meaning: str, *, sized_by: str | None = None, default: Any = _REQUIRED, truth: bool = False) -> Any:
    """An input tensor, optional with `default=None`; with `sized_by`, an array of them; with `truth`, of truth values."""
    return _declare(Field(wire, INPUT, None, meaning, default is None, sized_by, truth), default)


def output(wire: str, meaning: str, *, sized_by: str | None = None, default: Any = _REQUIRED) -> Any:
    """An output tensor, optional with `default=None`; with `sized_by`, an array of them."""
    return _declare(Field(wire, OUTPUT, None, meaning, default is None, sized_by), default)


def attribute(wire: str, kind: Kind, meaning: str, *, sized_by: str | None = None, default: Any = _REQUIRED) -> Any:
    """An attribute, optional with `default=None`; with `sized_by`, an array whose length is in that count field."""
    return _declare(Field(wire, ATTRIBUTE, kind, meaning, default is None, sized_by), default)


def count(wire: str, meaning: str, *, default: None = None) -> Any:
    """A UINT that counts the entries of array fields; where Python leaves it out, it is their length."""
    return _declare(Field(wire, ATTRIBUTE, UINT, meaning), default)


def scalar(wire: str, typed_by: str, meaning: str, *, default: Any = _REQUIRED) -> Any:
    """A DML_SCALAR_UNION whose data type is given by another field."""
    return _declare(Field(wire, ATTRIBUTE, Scalar(typed_by), meaning), default)
