"""Calls of operators whose time may depend on data, of about a millisecond, and the kinds of data that real layers have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anydml
from anydml.catalog import FUNCTIONS
from anydml.functional.describing import described
from anydml.schema.kinds import ScaleBias, Size2D

Array = NDArray[Any]


class _Described:
    """anydml, with functions that describe their calls instead of making them."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(anydml, name)
        return partial(described, found) if name in FUNCTIONS else found


dml: Any = _Described()
ROWS, IMAGE, MANY = (64, 1024), (2, 16, 40, 40), (256, 256)


def _one_hot(x: Array) -> Array:
    """One 1 in each row, where its largest element is."""
    found: Array = np.zeros_like(x)
    np.put_along_axis(found, x.argmax(-1, keepdims=True), 1, -1)
    return found


def _with(x: Array, added: float, every: int = 1) -> Array:
    """A number added to the middle element of one row in `every`."""
    found: Array = x.copy()
    found.reshape(-1, x.shape[-1])[::every, x.shape[-1] // 2] += added
    return found


def _infinite(x: Array) -> Array:
    """Infinities in every second row, which alternate in sign."""
    found = _with(x, np.inf, 2)
    found.reshape(-1, x.shape[-1])[::4, x.shape[-1] // 2] *= -1
    return found


def _padded(x: Array) -> Array:
    """Zeros in the second half of all rows."""
    found: Array = x.copy()
    along = found.ndim - 2 if found.ndim > 1 and found.shape[-2] > 1 else found.ndim - 1
    found[(slice(None),) * along + (slice(found.shape[along] // 2, None),)] = 0
    return found


KINDS: dict[str, Callable[[Array], Array]] = {
    "normal": lambda x: x,
    "after RELU": lambda x: np.maximum(x, 0),
    "zeros": np.zeros_like,
    "equal": lambda x: np.full_like(x, 0.7),
    "one-hot": _one_hot,
    "integers": lambda x: np.rint(4 * x),
    "saturated": lambda x: 40 * x + np.copysign(40, x),
    "ahead by 60": partial(_with, added=60),
    "ahead by 200": partial(_with, added=200),
    "infinities": _infinite,
    "1e-40": lambda x: x * 1e-40,
    "1e30": lambda x: x * 1e30,
    "padded": _padded,
}
IN_HALF = {"1e-40": lambda x: x * 1e-6, "1e30": lambda x: x * 1e4}  # that float16 can represent
ALL_KINDS = tuple(KINDS)


class Data:
    """Arrays of one kind of data in one type, called with sizes; `normal` ones, and those of integers, beside them."""

    def __init__(self, kind: str, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self._made = (IN_HALF if self.dtype == np.float16 else KINDS).get(kind, KINDS[kind])
        self._rng = np.random.default_rng(0)

    def __call__(self, *sizes: int) -> Array:
        with np.errstate(all="ignore"):
            found: Array = self._made(self._rng.standard_normal(sizes)).astype(self.dtype)
        return found

    def normal(self, *sizes: int) -> Array:
        """Weights, whose products with as many normal elements as their last dimension has add up to about 1."""
        found: Array = (self._rng.standard_normal(sizes) / np.sqrt(sizes[-1])).astype(self.dtype)
        return found

    def positive(self, *sizes: int) -> Array:
        found: Array = (np.abs(self._rng.standard_normal(sizes)) + 0.5).astype(self.dtype)
        return found

    def integers(self, dtype: Any, *sizes: int) -> Array:
        """This kind of data as a quantised tensor."""
        limits = np.iinfo(dtype)
        with np.errstate(all="ignore"):
            found: Array = np.rint(32 * self(*sizes).astype(float)).clip(limits.min, limits.max).astype(dtype)
        return found

    def scalar(self, value: float) -> Array:
        return np.full((1, 1), value, self.dtype)


_ONLY_BITS = """
CONVOLUTION_INTEGER DEPTH_TO_SPACE1 DIAGONAL_MATRIX1 ELEMENT_WISE_BIT_AND ELEMENT_WISE_BIT_COUNT ELEMENT_WISE_BIT_NOT
ELEMENT_WISE_BIT_OR ELEMENT_WISE_BIT_SHIFT_LEFT ELEMENT_WISE_BIT_SHIFT_RIGHT ELEMENT_WISE_BIT_XOR ELEMENT_WISE_IF
ELEMENT_WISE_LOGICAL_AND ELEMENT_WISE_LOGICAL_NOT ELEMENT_WISE_LOGICAL_OR ELEMENT_WISE_LOGICAL_XOR
ELEMENT_WISE_QUANTIZED_LINEAR_ADD FILL_VALUE_CONSTANT FILL_VALUE_SEQUENCE GATHER GATHER_ELEMENTS GATHER_ND1 JOIN
MATRIX_MULTIPLY_INTEGER MAX_UNPOOLING ONE_HOT PADDING1 QUANTIZED_LINEAR_CONVOLUTION QUANTIZED_LINEAR_MATRIX_MULTIPLY
RANDOM_GENERATOR REVERSE_SUBSEQUENCES SCATTER_ELEMENTS SCATTER_ND SLICE1 SLICE_GRAD SPACE_TO_DEPTH1 SPLIT TILE UNFOLD
ACTIVATION_IDENTITY
"""
ONLY_BITS = frozenset(_ONLY_BITS.split())  # operators that compute with integers, or move elements

Call = Callable[[Data], Any]
CASES: dict[str, Call] = {}


def _unary(name: str, **fields: Any) -> None:
    CASES[name.upper()] = lambda x: getattr(dml, name)(x(*MANY), **fields)


def _binary(name: str) -> None:
    CASES[name.upper()] = lambda x: getattr(dml, name)(x(*MANY), x(*MANY))


_ACTIVATIONS = (
    "celu elu gelu hard_sigmoid hard_swish leaky_relu relu scaled_elu scaled_tanh shrink sigmoid softplus softsign swish tanh "
    "thresholded_relu"
)
_MAPS = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor is_infinity is_nan log negate recip round sign sin sinh "
    "sqrt tan tanh"
)
_TWO = "add1 atan_yx difference_square divide max mean min modulus_floor modulus_truncate multiply pow subtract"
_REDUCTIONS = "ARGMAX ARGMIN AVERAGE L1 L2 LOG_SUM LOG_SUM_EXP MAX MIN MULTIPLY SUM SUM_SQUARE"
_COMPARED = "equals greater_than greater_than_or_equal less_than less_than_or_equal"
for _name in _ACTIVATIONS.split():
    _unary(f"activation_{_name}")
for _name in _MAPS.split():
    _unary(f"element_wise_{_name}")
_unary("activation_linear", alpha=1.3, beta=0.3)
_unary("activation_parametric_softplus", alpha=1.3, beta=0.7)
_unary("element_wise_clip1", min=-0.5, max=0.5)
_unary("element_wise_constant_pow", exponent=1.7)
_unary("element_wise_threshold", min=0.1)
_unary("element_wise_identity", scale_bias=ScaleBias(1.3, 0.3))
_unary("cast", output_data_type=np.int32)
_unary("dynamic_quantize_linear", output_data_type=np.uint8)
for _name in _TWO.split():
    _binary(f"element_wise_{_name}")
for _name in _COMPARED.split():
    _binary(f"element_wise_logical_{_name}")
_binary("activation_relu_grad")
_binary("activation_parameterized_relu")


def _along(name: str, *sizes: int, **fields: Any) -> Call:
    return lambda x: getattr(dml, name)(x(*sizes), **fields)


for _name in ("softmax1", "log_softmax1", "hardmax1"):
    for _rows, _width in (ROWS, (6554, 10)):
        CASES[f"ACTIVATION_{_name.upper()} of {_rows} x {_width}"] = _along(f"activation_{_name}", _rows, _width, axes=(1,))
CASES["ACTIVATION_SOFTMAX1 along columns"] = _along("activation_softmax1", *ROWS, axes=(0,))
CASES["ACTIVATION_SOFTMAX1 of a long row"] = _along("activation_softmax1", 1, 1_200_000, axes=(1,))
CASES["REDUCE LOG_SUM_EXP of a long row"] = _along("reduce", 1, 1_200_000, function="LOG_SUM_EXP", axes=(1,))
for _name in _REDUCTIONS.split():
    CASES[f"REDUCE {_name}"] = _along("reduce", *ROWS, function=_name, axes=(1,))
    CASES[f"REDUCE {_name} along columns"] = _along("reduce", *ROWS, function=_name, axes=(0,))
CASES["REDUCE MULTIPLY of 4 x 32768"] = lambda x: dml.reduce(x(4, 32768), "MULTIPLY", axes=(1,))
CASES |= {
    "ARGMAX": lambda x: dml.argmax(x(*ROWS), axes=(1,)),
    "ARGMIN": lambda x: dml.argmin(x(*ROWS), axes=(1,)),
    "TOP_K1": lambda x: dml.top_k1(x(*ROWS), 1, 10),
    "NONZERO_COORDINATES": lambda x: dml.nonzero_coordinates(x(*ROWS)),
    "CUMULATIVE_SUMMATION": lambda x: dml.cumulative_summation(x(*ROWS), 1),
    "CUMULATIVE_SUMMATION down": lambda x: dml.cumulative_summation(x(*ROWS), 0),
    "CUMULATIVE_PRODUCT": lambda x: dml.cumulative_product(x(*ROWS), 1),
    "CUMULATIVE_PRODUCT down": lambda x: dml.cumulative_product(x(*ROWS), 0),
    "LP_NORMALIZATION": lambda x: dml.lp_normalization(x(*ROWS), 1, 0.0),
    "LP_NORMALIZATION of 1": lambda x: dml.lp_normalization(x(*ROWS), 1, p=1),
    "MEAN_VARIANCE_NORMALIZATION2 of rows": lambda x: dml.mean_variance_normalization2(
        x(*ROWS), x.positive(1, 1024), x.normal(1, 1024), axes=(1,)
    ),
    "MEAN_VARIANCE_NORMALIZATION2 of images": lambda x: dml.mean_variance_normalization2(x(*IMAGE), axes=(2, 3)),
    "MEAN_VARIANCE_NORMALIZATION2 by lengths": lambda x: dml.mean_variance_normalization2(
        x(*ROWS), x.positive(1, 1024), axes=(1,), use_mean=False
    ),
    "BATCH_NORMALIZATION": lambda x: dml.batch_normalization(x(*IMAGE), *_channels(x)),
    "BATCH_NORMALIZATION_TRAINING": lambda x: dml.batch_normalization_training(
        x(*IMAGE), x.positive(1, 16, 1, 1), x.normal(1, 16, 1, 1)
    ),
    "BATCH_NORMALIZATION_GRAD": lambda x: dml.batch_normalization_grad(x(*IMAGE), x(*IMAGE), *_channels(x)[:3], epsilon=1e-5),
    "BATCH_NORMALIZATION_TRAINING_GRAD": lambda x: dml.batch_normalization_training_grad(
        x(*IMAGE), x(*IMAGE), *_channels(x)[:3]
    ),
    "MULTIHEAD_ATTENTION1": lambda x: dml.multihead_attention1(
        x(1, 48, 128), x(1, 48, 128), x(1, 48, 128), query_head_count=4, key_value_head_count=4, mask_type="NONE", scale=0.2
    ),
    "GEMM": lambda x: dml.gemm(
        x(1, 1, 96, 128), x.normal(1, 1, 96, 128), np.broadcast_to(x.normal(96), (1, 1, 96, 96)), trans_b="TRANSPOSE"
    ),
    "GEMM of a row": lambda x: dml.gemm(x(1, 1, 1, 512), x.normal(1, 1, 512, 512)),
    "GEMM of two": lambda x: dml.gemm(x(1, 1, 96, 128), x(1, 1, 96, 128), trans_b="TRANSPOSE"),
    "CONVOLUTION": lambda x: dml.convolution(x(*IMAGE), x.normal(16, 16, 3, 3), x.normal(1, 16, 1, 1), **_around(1)),
    "CONVOLUTION by 2": lambda x: dml.convolution(x(*IMAGE), x.normal(16, 16, 3, 3), strides=(2, 2), **_around(1)),
    "CONVOLUTION 5 x 5": lambda x: dml.convolution(x(*IMAGE), x.normal(16, 16, 5, 5), **_around(2)),
    "CONVOLUTION 1 x 1": lambda x: dml.convolution(x(*IMAGE), x.normal(16, 16, 1, 1)),
    "CONVOLUTION by channel": lambda x: dml.convolution(x(*IMAGE), x.normal(16, 1, 3, 3), group_count=16, **_around(1)),
    "CONVOLUTION backward": lambda x: dml.convolution(
        x(2, 16, 20, 20), x.normal(16, 16, 3, 3), direction="BACKWARD", strides=(2, 2)
    ),
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": lambda x: dml.matrix_multiply_integer_to_float(
        x.integers(np.int8, 1, 1, 96, 128),
        np.full((1, 1, 1, 1), 0.1, x.dtype),
        np.rint(300 * x.normal(1, 1, 128, 96).astype(float)).clip(-127, 127).astype(np.int8),
        np.full((1, 1, 1, 1), 0.1, x.dtype),
    ),
    "QUANTIZE": lambda x: dml.quantize(x(*MANY), [x.scalar(0.1)], output_data_type=np.int8),
    "DEQUANTIZE": lambda x: dml.dequantize(x.integers(np.int8, *MANY), [x.scalar(0.1)]),
    "ELEMENT_WISE_QUANTIZE_LINEAR": lambda x: dml.element_wise_quantize_linear(
        x(*MANY), x.scalar(0.1), np.zeros((1, 1), np.int8)
    ),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": lambda x: dml.element_wise_dequantize_linear(
        x.integers(np.int8, *MANY), x.scalar(0.1), np.zeros((1, 1), np.int8)
    ),
    "ELEMENT_WISE_CLIP_GRAD1": lambda x: dml.element_wise_clip_grad1(x(*MANY), x(*MANY), min=-0.5, max=0.5),
    "ADAM_OPTIMIZER": lambda x: dml.adam_optimizer(
        x.normal(*MANY), x(*MANY), abs(x(*MANY)), x(*MANY), np.full((1, 1), 5, np.uint32)
    ),
    "VALUE_SCALE_2D": lambda x: dml.value_scale_2d(x(4, 3, 64, 64), 1.3, (0.1, 0.2, 0.3)),
    "LOCAL_RESPONSE_NORMALIZATION": lambda x: dml.local_response_normalization(x(*IMAGE), **_response(True)),
    "LOCAL_RESPONSE_NORMALIZATION within channels": lambda x: dml.local_response_normalization(x(*IMAGE), **_response(False)),
    "LOCAL_RESPONSE_NORMALIZATION by 1/2": lambda x: dml.local_response_normalization(
        x(*IMAGE), local_size=5, alpha=1.0, beta=0.5, bias=2.0
    ),
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": lambda x: dml.local_response_normalization_grad(
        x(*IMAGE), x(*IMAGE), **_response(True)
    ),
    "MAX_POOLING2": lambda x: dml.max_pooling2(x(*IMAGE), (2, 2), window_size=(3, 3), dilations=(1, 1), **_around(1)),
    "MAX_POOLING_GRAD": lambda x: dml.max_pooling_grad(
        x(*IMAGE), x(2, 16, 20, 20), (2, 2), window_size=(3, 3), dilations=(1, 1), **_around(1)
    ),
    "AVERAGE_POOLING1": lambda x: dml.average_pooling1(
        x(*IMAGE), (2, 2), window_size=(3, 3), dilations=(1, 1), include_padding=False, **_around(1)
    ),
    "AVERAGE_POOLING1 of 2 x 2": lambda x: dml.average_pooling1(
        x(*IMAGE), (2, 2), window_size=(2, 2), dilations=(1, 1), include_padding=False, **_around(0)
    ),
    "AVERAGE_POOLING1 of images": lambda x: dml.average_pooling1(
        x(16, 128, 7, 7), window_size=(7, 7), dilations=(1, 1), include_padding=False, **_around(0)
    ),
    "AVERAGE_POOLING_GRAD": lambda x: dml.average_pooling_grad(
        x(2, 16, 20, 20), (2, 2), window_size=(3, 3), include_padding=True, output_sizes=IMAGE, **_around(1)
    ),
    "LP_POOLING1 of 1": lambda x: dml.lp_pooling1(x(*IMAGE), (2, 2), window_size=(3, 3), dilations=(1, 1), p=1, **_around(1)),
    "LP_POOLING1 of 2": lambda x: dml.lp_pooling1(x(*IMAGE), (2, 2), window_size=(3, 3), dilations=(1, 1), p=2, **_around(1)),
    "LP_POOLING1 of 4": lambda x: dml.lp_pooling1(x(*IMAGE), (2, 2), window_size=(3, 3), dilations=(1, 1), p=4, **_around(1)),
    "QUANTIZED_LINEAR_AVERAGE_POOLING": lambda x: dml.quantized_linear_average_pooling(
        x.integers(np.uint8, *IMAGE),
        np.full((1, 1, 1, 1), 0.1, np.float32),
        np.full((1, 1, 1, 1), 0.1234, np.float32),
        strides=(2, 2),
        window_size=(3, 3),
        dilations=(1, 1),
        include_padding=False,
        **_around(1),
    ),
    "RESAMPLE3 linear by 2": lambda x: _resized(x, 2),
    "RESAMPLE3 linear by 1.5": lambda x: _resized(x, 1.5),
    "RESAMPLE3 linear by 1/2": lambda x: _resized(x, 0.5),
    "RESAMPLE3 linear by 0.3, antialiased": lambda x: _resized(x, 0.3, True),
    "RESAMPLE_GRAD1": lambda x: dml.resample_grad1(
        x(2, 16, 80, 80), "LINEAR", "DECREASING", (1, 1, 2, 2), (0.5,) * 4, (-0.5,) * 4, output_sizes=IMAGE
    ),
    "UPSAMPLE_2D": lambda x: dml.upsample_2d(x(*IMAGE), Size2D(2, 2), "LINEAR"),
    "ROI_ALIGN1 AVERAGE": lambda x: _aligned(x, "AVERAGE"),
    "ROI_ALIGN1 MAX": lambda x: _aligned(x, "MAX"),
    "ROI_ALIGN_GRAD": lambda x: dml.roi_align_grad(
        x(2, 2, 3, 3),
        *_regions(x, 2, 8),
        reduction_function="AVERAGE",
        interpolation_mode="LINEAR",
        minimum_samples_per_output=2,
        maximum_samples_per_output=2,
        output_sizes=(1, 2, 8, 8),
    ),
    "ROI_POOLING": lambda x: dml.roi_pooling(
        x(*IMAGE), np.concatenate([np.zeros((12, 1), x.dtype), _regions(x, 12)[0]], 1)[None, None], pooled_size=(7, 7)
    ),
    "FOLD": lambda x: dml.fold(x(2, 16 * 9, 40 * 40), (3, 3), output_sizes=IMAGE, **_around(1)),
    "RNN": lambda x: dml.rnn(*_layer(x, 1)),
    "GRU": lambda x: dml.gru(*_layer(x, 3)),
    "GRU, linear before reset": lambda x: dml.gru(*_layer(x, 3), linear_before_reset=True),
    "LSTM": lambda x: dml.lstm(*_layer(x, 4)),
}
_GATES = "celu elu gelu hard_sigmoid leaky_relu relu scaled_elu softplus softsign"


def _gated(function: str, count: int, **fields: Any) -> Call:
    """A recurrent layer in which all functions are this one."""
    name, gates = {1: ("rnn", 1), 2: ("gru", 3), 3: ("lstm", 4)}[count]
    words = "".join(word.title() for word in function.split("_"))
    given = (getattr(dml, f"Activation{words}")(),) * count
    return lambda x: getattr(dml, name)(*_layer(x, gates), activation_descs=given, **fields)


for _name in _GATES.split():
    CASES[f"RNN of {_name.upper()}"] = _gated(_name, 1)
    CASES[f"GRU of {_name.upper()}"] = _gated(_name, 2)
    CASES[f"LSTM of {_name.upper()}"] = _gated(_name, 3)


def _around(n: int) -> dict[str, Any]:
    return dict(start_padding=(n, n), end_padding=(n, n))


def _channels(x: Data) -> tuple[Array, ...]:
    """Mean, variance, scale and bias of each channel."""
    sizes = (1, IMAGE[1], 1, 1)
    return x.normal(*sizes), x.positive(*sizes), x.positive(*sizes), x.normal(*sizes)


def _response(across: bool) -> dict[str, Any]:
    return dict(cross_channel=across, local_size=5, alpha=1e-4, beta=0.75, bias=1.0)


def _resized(x: Data, scale: float, antialiased: bool = False) -> Any:
    sizes = (*IMAGE[:2], *(int(n * scale) for n in IMAGE[2:]))
    return dml.resample3(
        x(*IMAGE), "LINEAR", "DECREASING", (1, 1, scale, scale), (0.5,) * 4, (-0.5,) * 4, antialiased, output_sizes=sizes
    )


def _regions(x: Data, count: int, size: int = IMAGE[-1]) -> tuple[Array, Array]:
    corners = np.sort(np.random.default_rng(2).uniform(0, size, (count, 2, 2)), axis=1).reshape(count, 4)
    return corners.astype(x.dtype), np.zeros(count, np.uint32)


def _aligned(x: Data, function: str) -> Any:
    samples: dict[str, Any] = dict(minimum_samples_per_output=2, maximum_samples_per_output=2)
    return dml.roi_align1(x(*IMAGE), *_regions(x, 12), function, "LINEAR", output_sizes=(12, 16, 7, 7), **samples)


def _layer(x: Data, gates: int) -> tuple[Array, ...]:
    """The input, weights and bias of a recurrent layer: 8 steps of 2 sequences."""
    steps, batch, width, hidden = 8, 2, 64, 64
    weights = (x.normal(1, 1, gates * hidden, n) for n in (width, hidden))
    return x(1, steps, batch, width), *weights, x.normal(1, 1, 1, 2 * gates * hidden)
