"""DirectML's enumerations with their wire values. A member is spelled as on the wire, without the enumeration's prefix."""

from __future__ import annotations

import enum


class _Enumeration(enum.IntEnum):
    def __str__(self) -> str:
        return self.name


class AxisDirection(_Enumeration):
    """DML_AXIS_DIRECTION."""

    INCREASING = 0
    DECREASING = 1


class ConvolutionDirection(_Enumeration):
    """DML_CONVOLUTION_DIRECTION. BACKWARD: transposed."""

    FORWARD = 0
    BACKWARD = 1


class ConvolutionMode(_Enumeration):
    """DML_CONVOLUTION_MODE. CONVOLUTION flips the filter along every spatial axis."""

    CONVOLUTION = 0
    CROSS_CORRELATION = 1


class DepthSpaceOrder(_Enumeration):
    """DML_DEPTH_SPACE_ORDER."""

    DEPTH_COLUMN_ROW = 0
    COLUMN_ROW_DEPTH = 1


class InterpolationMode(_Enumeration):
    """DML_INTERPOLATION_MODE."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1


class IsInfinityMode(_Enumeration):
    """DML_IS_INFINITY_MODE."""

    EITHER = 0
    POSITIVE = 1
    NEGATIVE = 2


class MatrixTransform(_Enumeration):
    """DML_MATRIX_TRANSFORM."""

    NONE = 0
    TRANSPOSE = 1


class MultiheadAttentionMaskType(_Enumeration):
    """DML_MULTIHEAD_ATTENTION_MASK_TYPE."""

    NONE = 0
    KEY_SEQUENCE_LENGTH = 1
    KEY_SEQUENCE_END_START = 2
    KEY_QUERY_SEQUENCE_LENGTH_START_END = 3
    BOOLEAN = 4


class PaddingMode(_Enumeration):
    """DML_PADDING_MODE."""

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2
    SYMMETRIC = 3
    WRAP = 4


class QuantizationType(_Enumeration):
    """DML_QUANTIZATION_TYPE."""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2


class RandomGeneratorType(_Enumeration):
    """DML_RANDOM_GENERATOR_TYPE."""

    PHILOX_4X32_10 = 0


class RecurrentNetworkDirection(_Enumeration):
    """DML_RECURRENT_NETWORK_DIRECTION."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2


class ReduceFunction(_Enumeration):
    """DML_REDUCE_FUNCTION."""

    ARGMAX = 0
    ARGMIN = 1
    AVERAGE = 2
    L1 = 3
    L2 = 4
    LOG_SUM = 5
    LOG_SUM_EXP = 6
    MAX = 7
    MIN = 8
    MULTIPLY = 9
    SUM = 10
    SUM_SQUARE = 11


class RoundingMode(_Enumeration):
    """DML_ROUNDING_MODE. TOWARD_INFINITY rounds halves away from zero."""

    HALVES_TO_NEAREST_EVEN = 0
    TOWARD_ZERO = 1
    TOWARD_INFINITY = 2
