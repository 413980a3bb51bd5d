"""Calls of ATen's operators: for every mapped operator its arguments, some several times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

seed = torch.Generator().manual_seed(37)


class Case(NamedTuple):
    """A call. ulps: how far the result may be from torch's in float64, in units in the last place of an element, or of the
    largest one if `of_largest`. first: whether only the first of several results counts."""

    operator: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    ulps: float = 1
    of_largest: bool = False
    first: bool = False


def real(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=seed)


def inside(*sizes: int) -> torch.Tensor:
    """Numbers between -0.9 and 0.9."""
    return torch.rand(*sizes, generator=seed) * 1.8 - 0.9


def above(*sizes: int) -> torch.Tensor:
    """Numbers above 0.1."""
    return torch.rand(*sizes, generator=seed) * 4 + 0.1


def whole(*sizes: int, low: int = -9, high: int = 9, dtype: Any = torch.int64) -> torch.Tensor:
    return torch.randint(low, high, sizes, generator=seed).to(dtype)


def truth(*sizes: int) -> torch.Tensor:
    return torch.rand(*sizes, generator=seed) > 0.5


CASES: list[Case] = []


def case(name: str, *args: Any, ulps: float = 1, of_largest: bool = False, first: bool = False, **kwargs: Any) -> None:
    CASES.append(Case(f"aten.{name}" if "." in name else f"aten.{name}.default", args, kwargs, ulps, of_largest, first))


Make = Callable[..., torch.Tensor]
FUNCTIONS: dict[str, Make] = {
    "abs": real, "acos": inside, "asin": inside, "asinh": real, "atan": real, "atanh": inside, "ceil": real, "cos": real,
    "cosh": real, "erf": real, "exp": real, "exp2": real, "expm1": real, "floor": real, "log": above, "log1p": above,
    "log10": above, "log2": above, "neg": real, "reciprocal": above, "relu": real, "round": real, "rsqrt": above,
    "sigmoid": real, "sign": real, "sin": real, "sinh": real, "sqrt": above, "square": real, "tan": real, "tanh": real,
    "trunc": real, "silu": real, "mish": real, "selu": real, "celu": real, "elu": real, "hardswish": real,
    "hardsigmoid": real, "hardtanh": real, "leaky_relu": real, "softplus": real,
    "log_sigmoid_forward": real, "gelu": real, "isnan": real, "isinf": real, "glu": real,
}  # fmt: skip
COMPOSED = {  # of several operators, each of which rounds
    "expm1": 4, "log10": 3, "log2": 3, "mish": 4, "hardswish": 3, "hardsigmoid": 3, "glu": 3,
}  # fmt: skip
for name, make in FUNCTIONS.items():
    allowed: dict[str, Any] = dict(
        ulps=COMPOSED.get(name, 1), of_largest=name in ("log10", "log2"), first=name == "log_sigmoid_forward"
    )
    case(name, make(3, 10), **allowed)
    if name != "glu":
        case(name, make(()), **allowed)
case("acosh", above(4, 5) + 1)
case("gelu", real(3, 10), approximate="tanh", ulps=8, of_largest=True)
case("softplus", real(3, 10) * 20, 2, 15)
case("softplus", real(7), 0.5)
case("elu", real(3, 4), 1.25)
case("elu", real(3, 4), 1.6732632423543772, 1.0507009873554805)
case("celu", real(3, 4), 0.75)
case("prelu", real(2, 3, 4), above(3))
case("prelu", real(2, 3, 4), above(1))
case("threshold", real(3, 4), 0.25, -1.5)
case("nan_to_num", torch.tensor([1.0, math.nan, math.inf, -math.inf]))
case("nan_to_num", torch.tensor([1.0, math.nan, math.inf, -math.inf]), 2.0, 3.0, -4.0)
case("isnan", torch.tensor([1.0, math.nan, math.inf]))
case("isinf", torch.tensor([1.0, math.nan, math.inf, -math.inf]))
case("hardtanh", real(8) * 4, 0.0, 6.0)
case("native_dropout", real(3, 4), 0.5, False)
case("abs", whole(9))
case("sign", whole(9))
case("neg", whole(9))
case("relu", whole(9))
case("exp", whole(9, low=-3, high=3))
case("floor", whole(9))
case("sigmoid", whole(9))

for name in ("add", "sub", "mul", "div"):
    case(f"{name}.Tensor", real(3, 4), real(4))
    case(f"{name}.Scalar", real(3, 4), 1.25)
    case(f"{name}.Tensor", real(3, 4), whole(3, 4, low=1))
    case(f"{name}.Tensor", whole(3, 4), whole(4, low=1))
    case(f"{name}.Tensor", real(3, 4), 0.5)
case("add.Tensor", real(3, 4), real(4), alpha=2)
case("add.Tensor", real(3, 4), real(4), alpha=-1)
case("add.Scalar", whole(4), 3, 2)
case("sub.Tensor", real(3, 4), real(4), alpha=0.5)
case("add.Tensor", truth(5), truth(5))
case("mul.Tensor", truth(5), truth(5))
case("mul.Tensor", real(5), truth(5))
case("rsub.Tensor", real(3, 4), real(4), alpha=2)
case("rsub.Scalar", real(3, 4), 1.5)
for mode in ("trunc", "floor"):
    case("div.Tensor_mode", real(3, 4), above(4), rounding_mode=mode)
    case("div.Tensor_mode", whole(30), whole(30, low=1) * torch.tensor([1, -1, 2] * 10), rounding_mode=mode)
    case("div.Scalar_mode", real(3, 4), 0.75, rounding_mode=mode)
case("floor_divide", whole(30), torch.tensor([1, -2, 3] * 10))
case("pow.Tensor_Scalar", above(3, 4), 0.5)
case("pow.Tensor_Scalar", real(3, 4), 2)
case("pow.Tensor_Scalar", real(3, 4), 3)
case("pow.Tensor_Tensor", above(3, 4), real(4))
case("pow.Scalar", 2.5, real(5))
case("pow.Tensor_Scalar", whole(6), 2)
case("maximum", real(3, 4), real(4))
case("minimum", whole(3, 4), whole(4))
case("atan2", real(3, 4), real(4))
for name in ("fmod", "remainder"):
    case(f"{name}.Tensor", real(3, 4) * 5, above(4))
    case(f"{name}.Scalar", real(3, 4) * 5, 0.75)
    case(f"{name}.Tensor", whole(30), torch.tensor([3, -2, 5] * 10))
for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    case(f"{name}.Tensor", whole(3, 8, low=-2, high=2), whole(8, low=-2, high=2))
    case(f"{name}.Scalar", whole(20, low=-2, high=2), 1)
    case(f"{name}.Tensor", real(6), torch.tensor([0.0, -0.0, 1.0, math.nan, math.inf, 2.0]))
for name in ("and", "or", "xor"):
    case(f"logical_{name}", whole(20, low=-1, high=2), truth(20))
    case(f"bitwise_{name}.Tensor", whole(20), whole(20))
    case(f"bitwise_{name}.Tensor", truth(20), truth(20))
    case(f"bitwise_{name}.Scalar", whole(20), 5)
case("logical_not", whole(20, low=-1, high=2))
case("bitwise_not", whole(20))
case("bitwise_not", truth(20))
case("bitwise_left_shift.Tensor", whole(20, dtype=torch.int32), whole(20, low=0, high=5, dtype=torch.int32))
case("bitwise_right_shift.Tensor", whole(20, dtype=torch.int32), whole(20, low=0, high=5, dtype=torch.int32))
case("where.self", truth(3, 4), real(3, 4), real(4))
case("where.ScalarSelf", truth(3, 4), 1.5, real(3, 4))
case("where.ScalarOther", truth(3, 4), real(3, 4), 1.5)
case("masked_fill.Scalar", real(3, 4), truth(4), -math.inf)
case("masked_fill.Tensor", real(3, 4), truth(4), torch.tensor(2.5))
case("clamp", real(20), -0.5, 0.5)
case("clamp", real(20), None, 0.5)
case("clamp", real(20), 0.5, -0.5)
case("clamp", whole(20), -2, 3)
case("clamp.Tensor", real(3, 4), real(4), None)
case("clamp_min", real(20), 0.25)
case("clamp_max", real(20), 0.25)
case("addcmul", real(3, 4), real(3, 4), real(4), value=0.5, ulps=3, of_largest=True)
case("addcdiv", real(3, 4), real(3, 4), above(4), value=0.5, ulps=3, of_largest=True)
case("lerp.Scalar", real(3, 4), real(3, 4), 0.25, ulps=3, of_largest=True)
case("lerp.Tensor", real(3, 4), real(3, 4), inside(3, 4), ulps=3, of_largest=True)
case("round.decimals", real(9), decimals=0)
for kind in (torch.int32, torch.float16, torch.bool, torch.int64):
    case("_to_copy", real(3, 4) * 3, dtype=kind)
case("_to_copy", whole(9), dtype=torch.float32)
case("_to_copy", truth(9), dtype=torch.float32)

case("view", real(3, 4), [2, -1])
case("_unsafe_view", real(3, 4), [2, 6])
case("reshape_copy".replace("reshape", "_reshape"), real(3, 4), [6, 2])
case("unsqueeze", real(3, 4), -1)
case("squeeze", real(1, 3, 1))
case("squeeze.dim", real(1, 3, 1), 0)
case("squeeze.dims", real(1, 3, 1), [0, -1])
case("permute", real(2, 3, 4), [2, 0, -2])
case("transpose.int", real(2, 3, 4), -1, 0)
case("t", real(2, 3))
case("expand", real(3, 1), [2, -1, 4])
case("slice.Tensor", real(5, 6), 1, 1, -1, 2)
case("slice.Tensor", real(5, 6), 0, -3)
case("select.int", real(5, 6), 1, -2)
case("split.Tensor", real(5, 6), 2)
case("split_with_sizes", real(5, 6), [1, 2, 3], 1)
case("unbind.int", real(3, 4), 1)
case("cat", [real(3, 4), real(2, 4)])
case("cat", [real(3, 4), whole(3, 2)], -1)
case("stack", [real(3, 4), real(3, 4)], 1)
case("repeat", real(3, 4), [2, 1, 3])
case("repeat_interleave.self_int", real(3, 4), 2, 1)
case("flip", real(3, 4), [0, -1])
case("roll", real(3, 4), [1, -2], [0, 1])
case("roll", real(3, 4), [5])
case("diagonal", real(4, 5))
case("diagonal", real(2, 4, 5), 1, 1, 2)
case("diagonal", real(5, 4), -2)
case("as_strided", real(3, 4), [2, 3], [1, 4], 1)
case("constant_pad_nd", real(3, 4), [1, 2, -1, 0], 1.5)
case("reflection_pad1d", real(2, 3, 4), [2, 1])
case("reflection_pad2d", real(2, 3, 4, 5), [2, 1, 0, 3])
case("reflection_pad3d", real(2, 3, 4, 5, 3), [2, 1, 0, 3, 1, 1])
case("replication_pad1d", real(2, 3, 4), [2, 1])
case("replication_pad2d", real(2, 3, 4, 5), [2, 1, 0, 3])
case("replication_pad3d", real(2, 3, 4, 5, 3), [2, 1, 0, 3, 1, 1])
case("pixel_shuffle", real(2, 12, 3, 4), 2)
case("pixel_unshuffle", real(2, 3, 4, 6), 2)
case("tril", real(2, 4, 5), 1)
case("triu", real(4, 5), -1)
case("slice_scatter", real(5, 6), real(5, 3), 1, 1, 4)
case("slice_scatter", real(5, 6), real(5, 3), 1, 0, 6, 2)
case("select_scatter", real(5, 6), real(5), 1, -2)
case("view.dtype", real(3, 4), torch.int32)
for name in ("alias", "clone", "detach"):
    case(name, real(3, 4))
case("copy", real(3, 4), real(4))
case("full", [2, 3], 1.5, dtype=torch.float32)
case("full_like", real(2, 3), 2.5)
case("ones", [2, 3])
case("ones_like", real(2, 3))
case("zeros", [2, 3])
case("zeros_like", real(2, 3))
case("new_full", real(2), [2, 3], 4.5)
case("new_ones", real(2), [2, 3])
case("new_zeros", real(2), [2, 3])
case("scalar_tensor", 2.5)
case("arange", 5)
case("arange.start", 2, 7)
case("arange.start_step", 0.5, 4.0, 0.75)
case("eye", 3)
case("eye.m", 2, 3)

for name in ("sum", "mean", "max", "min", "prod", "amax", "amin"):
    case(name, real(3, 4))
for name in ("any", "all"):
    case(name, truth(3, 4))
    case(f"{name}.dim", whole(3, 4, low=-1, high=1), 1)
    case(f"{name}.dims", truth(3, 4, 2), [0, 2], True)
case("sum.dim_IntList", real(3, 4, 5), [0, -1])
case("sum.dim_IntList", whole(3, 4), [1], True)
case("sum.dim_IntList", truth(3, 4), [1])
case("mean.dim", real(3, 4, 5), [1], True)
case("prod.dim_int", real(3, 4), 1)
case("max.dim", real(3, 4), 1)
case("min.dim", real(3, 4), 0, True)
case("max", whole(9))
case("amax", real(3, 4), [1], True)
case("amin", real(3, 4), [-1])
case("argmax", real(3, 4))
case("argmax", real(3, 4), 1, True)
case("argmin", real(3, 4), -1)
case("argsort", real(3, 8), -1, True)
case("logsumexp", real(3, 4), [1])
case("var.correction", real(3, 9), [1], ulps=2)
case("var.correction", real(3, 9), None, correction=0)
case("var_mean.correction", real(3, 9), [1], correction=1, keepdim=True, ulps=2)
case("std.correction", real(3, 9), [1], ulps=2)
case("linalg_vector_norm", real(3, 9), 2, [1])
case("linalg_vector_norm", real(3, 9), 1, [1], True)
case("linalg_vector_norm", real(3, 9), math.inf)
case("cumsum", real(3, 9), 1)
case("cumsum", whole(9), 0)
case("cumprod", real(3, 9), -1)
case("topk", real(3, 9), 4)
case("topk", real(3, 9), 4, 0 + 1, False)
case("sort", real(3, 9), 1, True)
case("sort.stable", real(3, 9), stable=True, dim=0)
case("median.dim", real(3, 8), 1)

case("embedding", real(10, 4), whole(2, 3, low=0))
case("index_select", real(3, 9), 1, whole(4, low=0))
case("gather", real(3, 9), 1, whole(3, 4, low=0))
case("gather", real(5, 9), 1, whole(3, 4, low=0))
case("index.Tensor", real(9, 4), [whole(5, low=-9)])
case("index.Tensor", real(3, 9, 4), [None, whole(2, 5, low=0)])
case("index.Tensor", real(9, 9, 4), [whole(5, low=0), whole(3, 1, low=-9)])
case("index.Tensor", real(4, 9, 9), [None, whole(5, low=0), whole(5, low=0)])
case("index.Tensor", real(9, 4, 9), [whole(5, low=0), None, whole(5, low=0)])
case("index_put", real(9, 4), [torch.tensor([1, 3, -1])], real(3, 4))
case("index_put", real(9, 4), [torch.tensor([1, 3]), torch.tensor([0, 2])], real(2))
case("index_put", real(9, 4), [truth(9, 4)], torch.tensor(0.5))
case("index_put", real(3, 9), [None, torch.tensor([1, 3])], torch.tensor(0.5))
case("scatter.src", real(3, 9), 1, torch.tensor([[0, 2], [1, 3], [5, 4]]), real(3, 4))
case("scatter.value", real(3, 9), 1, torch.tensor([[0, 2], [1, 3], [5, 4]]), 1.5)
case("take", real(3, 9), whole(2, 3, low=0))
case("one_hot", whole(2, 3, low=0), 9)

case("mm", real(3, 9), real(9, 4))
case("bmm", real(2, 3, 9), real(2, 9, 4))
case("addmm", real(4), real(3, 9), real(9, 4))
case("addmm", real(3, 4), real(3, 9), real(9, 4), beta=0.5, alpha=2)
case("addmv", real(3), real(3, 9), real(9))
case("baddbmm", real(2, 3, 4), real(2, 3, 9), real(2, 9, 4))
case("matmul", real(2, 3, 9), real(9, 4))
case("matmul", real(2, 5, 3, 9), real(5, 9, 4))
case("matmul", real(9), real(9, 4))
case("matmul", real(2, 3, 9), real(9))
case("matmul", real(3, 2, 2, 3, 9), real(2, 9, 4))
case("dot", real(9), real(9))
case("mv", real(3, 9), real(9))
case("linear", real(2, 5, 9), real(4, 9), real(4))
case("linear", real(9), real(4, 9))
attention = (real(2, 4, 5, 16), real(2, 4, 7, 16), real(2, 4, 7, 6))  # of 16 elements, whose scale of 1/4 is a float32
case("scaled_dot_product_attention", *attention)
case("scaled_dot_product_attention", *attention, None, 0.0, True)
case("scaled_dot_product_attention", *attention, real(5, 7))
case("scaled_dot_product_attention", *attention, truth(2, 1, 5, 7), scale=0.5)
case("scaled_dot_product_attention", real(2, 4, 5, 4), real(2, 2, 7, 4), real(2, 2, 7, 4), enable_gqa=True)
case("scaled_dot_product_attention", real(2, 4, 5, 8), real(2, 4, 7, 8), real(2, 4, 7, 8), ulps=4, of_largest=True)

for sizes, filters in (((2, 3, 9), (4, 3, 3)), ((2, 4, 9, 8), (6, 2, 3, 2)), ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2))):
    count, groups = len(sizes) - 2, sizes[1] // filters[1]
    ones, zeros = [1] * count, [0] * count
    case("convolution", real(*sizes), real(*filters), real(filters[0]), ones, ones, ones, False, zeros, groups)
    case("convolution", real(*sizes), real(*filters), None, [2] * count, zeros, [2] * count, False, zeros, groups)
case("convolution", real(2, 4, 5, 6), real(4, 3, 3, 2), real(6), [2, 2], [1, 0], [1, 1], True, [1, 0], 2)
case("convolution", real(2, 4, 5, 6), real(4, 3, 3, 2), None, [2, 3], [0, 0], [1, 2], True, [1, 2], 1)
case("max_pool1d", real(2, 3, 9), [3], [2], [1])
case("max_pool2d", real(2, 3, 9, 8), [3, 2], [2, 2], [1, 0], [1, 2], True)
case("max_pool3d", real(2, 3, 5, 6, 7), [2, 3, 2])
case("max_pool2d_with_indices", real(2, 3, 9, 8), [3, 2], [2, 2], [1, 0])
case("max_pool3d_with_indices", real(2, 3, 5, 6, 7), [2, 3, 2])
case("avg_pool1d", real(2, 3, 9), [3], [2], [1])
case("avg_pool2d", real(2, 3, 9, 8), [3, 2], [2, 2], [1, 0])
case("avg_pool2d", real(2, 3, 9, 8), [3, 2], [2, 3], [1, 1], True, False)
case("avg_pool2d", real(2, 3, 8, 8), [3, 2], [2, 3], [1, 1], True, True)
case("avg_pool3d", real(2, 3, 5, 6, 7), [2, 3, 2])
case("adaptive_avg_pool1d", real(2, 3, 9), [3])
case("adaptive_avg_pool2d", real(2, 3, 9, 8), [1, 1])
case("adaptive_avg_pool2d", real(2, 3, 9, 8), [4, 3])
case("_adaptive_avg_pool2d", real(2, 3, 8, 8), [4, 2])
case("adaptive_avg_pool3d", real(2, 3, 4, 4, 4), [2, 1, 2])
case("_adaptive_avg_pool3d", real(2, 3, 4, 4, 4), [2, 1, 2])
case("adaptive_max_pool2d", real(2, 3, 8, 8), [4, 2])
case("adaptive_max_pool2d", real(2, 3, 9, 8), [4, 3], first=True)
case("im2col", real(2, 3, 6, 7), [2, 3], [1, 1], [1, 0], [2, 1])
case("col2im", real(2, 12, 8), [5, 5], [2, 2], [1, 1], [0, 0], [1, 2])
case("upsample_nearest1d", real(2, 3, 5), [8])
case("upsample_nearest2d", real(2, 3, 5, 6), [10, 9])
case("upsample_nearest3d", real(2, 3, 3, 4, 2), [6, 8, 4])
case("upsample_nearest1d.vec", real(2, 3, 5), None, [2.0])
case("upsample_nearest2d.vec", real(2, 3, 5, 6), None, [2.0, 2.0])
case("upsample_nearest3d.vec", real(2, 3, 3, 4, 2), None, [2.0, 2.0, 2.0])
case("upsample_linear1d", real(2, 3, 5), [10], False, ulps=2, of_largest=True)
case("upsample_linear1d.vec", real(2, 3, 5), [9], True, None, ulps=2, of_largest=True)
case("upsample_bilinear2d.vec", real(2, 3, 4, 5), None, False, [2.0, 2.0], ulps=2, of_largest=True)
case("upsample_bilinear2d.vec", real(2, 3, 4, 5), [7, 9], True, None, ulps=2, of_largest=True)
case("upsample_trilinear3d", real(2, 3, 3, 4, 2), [6, 8, 4], False, ulps=2, of_largest=True)
case("upsample_trilinear3d.vec", real(2, 3, 3, 4, 2), None, False, [2.0, 2.0, 2.0], ulps=2, of_largest=True)

case("_native_batch_norm_legit_no_training", real(4, 3, 5), above(3), real(3), real(3), above(3), 0.1, 1e-5)
case("layer_norm", real(4, 3, 5), [5], above(5), real(5))
case("layer_norm", real(4, 3, 5), [3, 5])
case("native_layer_norm", real(4, 3, 5), [5], above(5), real(5), 1e-5, ulps=2)
case("group_norm", real(4, 6, 5), 3, above(6), real(6))
case("native_group_norm", real(4, 6, 5), above(6), real(6), 4, 6, 5, 3, 1e-5)
case("instance_norm", real(4, 6, 5), above(6), real(6), None, None, True, 0.1, 1e-5, True)
case("instance_norm", real(4, 6, 5), above(6), real(6), real(6), above(6), False, 0.1, 1e-5, True)
case("rms_norm", real(4, 3, 5), [5], above(5), 1e-5)
for name in ("softmax.int", "log_softmax.int"):
    case(name, real(3, 9), -1)
    case(name, real(2, 3, 4), 1)
case("_softmax", real(3, 9), -1, False)
case("_log_softmax", real(3, 9), -1, False)


def network(gates: int, layers: int, directions: int, biases: bool) -> list[torch.Tensor]:
    """The parameters of a network of 5 inputs and 4 states."""
    found = []
    for layer in range(layers):
        for _ in range(directions):
            found += [inside(gates * 4, 4 * directions if layer else 5), inside(gates * 4, 4)]
            found += [inside(gates * 4), inside(gates * 4)] if biases else []
    return found


for layers, directions, biases, first in ((1, 1, True, False), (2, 2, True, True), (2, 1, False, True)):
    x = real(2, 3, 5)
    state = [inside(layers * directions, 2 if first else 3, 4) for _ in range(2)]
    rest = (biases, layers, 0.0, False, directions == 2, first)
    case("lstm.input", x, state, network(4, layers, directions, biases), *rest, ulps=16, of_largest=True)
    case("gru.input", x, state[0], network(3, layers, directions, biases), *rest, ulps=16, of_largest=True)
    case("rnn_tanh.input", x, state[0], network(1, layers, directions, biases), *rest, ulps=16, of_largest=True)
    case("rnn_relu.input", x, state[0], network(1, layers, directions, biases), *rest, ulps=16, of_largest=True)

WITHOUT = {
    "aten._assert_async.msg": "an assertion without a result",
    "aten._assert_scalar.default": "an assertion without a result",
    "aten._assert_tensor_metadata.default": "an assertion without a result",
    "aten.sym_constrain_range_for_size.default": "an assertion without a result",
    "aten.sym_numel.default": "a number, which the tests of dynamic sizes use",
    "aten.sym_size.int": "a number, which the tests of dynamic sizes use",
    "aten._local_scalar_dense.default": "a number, which its own test uses",
    "aten.nonzero.default": "sizes that depend on elements, which its own test has",
    "aten.empty.memory_format": "elements that torch does not define",
    "aten.empty_like.default": "elements that torch does not define",
    "aten.new_empty.default": "elements that torch does not define",
    "aten._native_multi_head_attention.default": "the fast path of modules, which the tests of modules take",
    "aten._transformer_encoder_layer_fwd.default": "the fast path of modules, which the tests of modules take",
}
"""Mapped operators without a case, and why."""
