"""The words of operator files: fields, rules, expressions and statements. Each file imports all of them in one line.

Helpers that only a few related operators need are in other files of this folder.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.feature_level import FeatureLevel
from anydml.schema import field
from anydml.schema.constraint import DIMENSION, Constraint, DataRule, constraint, data_rule
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
from anydml.schema.expression import (
    Indices,
    Max,
    Mean,
    Min,
    Product,
    Sum,
    Tensor,
    absolute,
    acos,
    acosh,
    as_number,
    asin,
    asinh,
    at_limits,
    atan,
    atan2,
    atanh,
    both,
    ceil,
    clamp,
    cos,
    cosh,
    each,
    either,
    equal,
    erf,
    exp,
    first_largest,
    first_smallest,
    floor,
    floor_mod,
    fmod,
    half_away,
    half_to_even,
    index,
    integer_power,
    is_nan,
    is_true,
    log,
    maximum,
    minimum,
    over,
    philox,
    pieces,
    pow,
    rank,
    rounded,
    row_major,
    select,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    truncate,
    unraveled,
)
from anydml.schema.kinds import ScaleBias, Size2D, stored_in
from anydml.schema.node import Expr, Operand, lift, number
from anydml.schema.operator import Desc, Example, Outputs, Rejects, defaults, like, operator, rejects
from anydml.schema.rules import axes as axis_rules
from anydml.schema.rules import (
    axis_in_range,
    count_is_dimension_count,
    effective_rank_at_most_two,
    fusable_activation,
    not_owned,
    same,
    scalar_type,
    single_element,
    sizes_are,
)
from anydml.schema.statement import Computed, Nest, activated, elementwise, move, named, nest, scaled, stored
from anydml.schema.support import Support, extended, support
from anydml.schema.types import EIGHT, EIGHT_BIT, ELEVEN, FLOATS, INDICES, SIGNED, SIX, SIXTY_FOUR, TEN, TRUTHS, UNSIGNED, WORDS
from anydml.tensor import DataType, TensorDesc, limits

# fmt: off
__all__ = [
    "DIMENSION", "EIGHT", "EIGHT_BIT", "ELEVEN", "FLOATS", "INDICES", "SIGNED", "SIX", "SIXTY_FOUR", "TEN", "TRUTHS",
    "UNSIGNED", "WORDS", "Any", "AxisDirection", "Callable", "Computed", "Constraint", "ConvolutionDirection",
    "ConvolutionMode", "DataRule", "DataType", "DepthSpaceOrder", "Desc", "Example", "Expr", "FeatureLevel", "Indices",
    "InterpolationMode", "IsInfinityMode", "Mapping", "MatrixTransform", "Max", "Mean", "Min",
    "MultiheadAttentionMaskType", "NDArray", "Nest", "Operand", "Outputs", "PaddingMode", "Product", "QuantizationType",
    "RandomGeneratorType", "RecurrentNetworkDirection", "ReduceFunction", "Rejects", "RoundingMode", "ScaleBias",
    "Sequence", "Size2D", "Sum", "Support", "Tensor", "TensorDesc", "absolute", "acos", "acosh", "activated",
    "as_number", "asin", "asinh", "at_limits", "atan", "atan2", "atanh", "axis_in_range", "axis_rules", "both", "ceil",
    "clamp", "constraint", "cos", "cosh", "count_is_dimension_count", "data_rule", "defaults", "each",
    "effective_rank_at_most_two", "either", "elementwise", "equal", "erf", "exp", "extended", "field", "first_largest",
    "first_smallest", "floor", "floor_mod", "fmod", "fusable_activation", "half_away", "half_to_even", "index",
    "integer_power", "is_nan", "is_true", "lift", "like", "limits", "log", "maximum", "minimum", "move", "named",
    "nest", "not_owned", "np", "number", "operator", "over", "philox", "pieces", "pow", "rank", "rejects", "rounded",
    "row_major", "same", "scalar_type", "scaled", "select", "sin", "single_element", "sinh", "sizes_are", "sqrt",
    "stored", "stored_in", "support", "tan", "tanh", "truncate", "unraveled",
]
# fmt: on
