"""The interface of Microsoft's Python binding: every function and enumeration once, compared with the eager functions."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml
from anydml import DataType, DescError, TensorFlags
from anydml import pydirectml as dml

Array = NDArray[Any]
Made = Callable[..., Any]
RNG = np.random.default_rng(28)
IMAGE = RNG.standard_normal((1, 2, 6, 6)).astype(np.float32)
OTHER = RNG.standard_normal((1, 2, 6, 6)).astype(np.float32)
POSITIVE = np.abs(IMAGE) + np.float32(0.5)
SMALL = IMAGE / np.float32(8)
FILTER = RNG.standard_normal((4, 2, 3, 3)).astype(np.float32)
BIAS = RNG.standard_normal((1, 4, 1, 1)).astype(np.float32)
CHANNELS = [np.abs(RNG.standard_normal((1, 2, 1, 1))).astype(np.float32) for _ in range(4)]
A, B, C = (RNG.standard_normal((1, 1, *sizes)).astype(np.float32) for sizes in ((3, 4), (4, 5), (3, 5)))
WORDS = RNG.integers(0, 2**32, (1, 1, 4, 4), np.uint32)
FEW = RNG.integers(0, 5, (1, 1, 4, 4), np.uint32)
BYTES = RNG.integers(0, 255, (1, 2, 6, 6), np.uint8)
TRUTHS = RNG.integers(0, 2, (1, 2, 6, 6), np.uint8)
WEIGHTS = [RNG.standard_normal(sizes).astype(np.float32) for sizes in ((1, 3, 2, 4), (1, 1, 9, 4), (1, 1, 9, 3))]
SPOTS = np.array([[[[1, 0, 3, 0]]]], np.float32)
STATE = np.array([[[[1, 2, 3, 4, 5, 6]]]], np.uint32)
SCALES = np.full((1, 2, 6, 6), 0.05, np.float32)
ZEROS = np.full((1, 2, 6, 6), 100, np.uint8)
ONE = np.full((1, 1, 1, 1), 0.05, np.float32)
ZERO = np.full((1, 1, 1, 4), 7, np.uint8)[..., :1]
REGIONS = np.array([[[[0, 0, 4, 4], [1, 1, 5, 5]]]], np.float32)
BATCHES = np.zeros((1, 1, 1, 2), np.uint32)


def evaluated(make: Made, *arrays: Array, owned: Sequence[int] = (), debug: bool = False) -> list[Array]:
    """The results of a function of expressions on arrays, through a graph of the binding."""
    device = dml.Device(True, debug)
    builder = dml.GraphBuilder(device)
    expressions, bindings = [], []
    for i, x in enumerate(arrays):
        flags = TensorFlags.OWNED_BY_DML if i in owned else TensorFlags.NONE
        expressions.append(dml.input_tensor(builder, i, dml.TensorDesc(DataType.of(x.dtype), flags, list(x.shape))))
        padded = np.zeros(-(-x.nbytes // 4) * 4, np.uint8)
        padded[: x.nbytes] = np.frombuffer(x.tobytes(), np.uint8)
        bindings.append(dml.Binding(expressions[-1], padded.view(np.float32)))
    made = make(*expressions)
    outputs = made if isinstance(made, list) else [made]
    model = builder.build(dml.ExecutionFlags.NONE, outputs)
    found = device.compute(model, bindings[::-1], outputs)  # each binding has its input, in any order
    return [np.array(x) for x in found]


def same(make: Made, function: Made, *arrays: Array, owned: Sequence[int] = ()) -> None:
    """Assert that a function of expressions has the bits and sizes of a function of arrays."""
    expected = function(*arrays)
    several = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    found = evaluated(make, *arrays, owned=owned)
    assert len(found) == len(several)
    for made, wanted in zip(found, several, strict=True):
        assert made.shape == wanted.shape
        assert made.tobytes() == wanted.tobytes()


def fields(outputs: Any, *names: str) -> list[Any]:
    return [getattr(outputs, name) for name in names]


RELU = dml.FusedActivation(dml.OperatorType.ACTIVATION_RELU)
GATES = [dml.FusedActivation.sigmoid(), dml.FusedActivation.tanh()]
GATE_DESCS = [anydml.ActivationSigmoid(), anydml.ActivationTanh()]
WINDOW: Any = dict(start_padding=(1, 1), end_padding=(1, 1))
LRN: Any = dict(cross_channel=True, local_size=3, alpha=0.5, beta=0.75, bias=1.0)

BINDING: dict[str, tuple[Any, ...]] = {
    "convolution": (
        lambda x, f, b: dml.convolution(
            x, f, b, strides=[2, 1], start_padding=[1, 1], end_padding=[1, 1], fused_activation=RELU
        ),
        lambda x, f, b: anydml.convolution(x, f, b, strides=(2, 1), **WINDOW, fused_activation=anydml.ActivationRelu()),
        (IMAGE, FILTER, BIAS),
    ),
    "up_sample_2d": (
        lambda x: dml.up_sample_2d(x, dml.Size2D(2, 3), dml.InterpolationMode.LINEAR),
        lambda x: anydml.upsample_2d(x, (2, 3), "LINEAR"),
        (IMAGE,),
    ),
    "activation_relu": (dml.activation_relu, anydml.activation_relu, (IMAGE,)),
    "activation_sigmoid": (dml.activation_sigmoid, anydml.activation_sigmoid, (IMAGE,)),
    "activation_identity": (dml.activation_identity, anydml.activation_identity, (IMAGE,)),
    "activation_tanh": (dml.activation_tanh, anydml.activation_tanh, (IMAGE,)),
    "activation_linear": (
        lambda x: dml.activation_linear(x, 2.0, 0.5),
        lambda x: anydml.activation_linear(x, 2.0, 0.5),
        (IMAGE,),
    ),
    "activation_soft_max": (dml.activation_soft_max, anydml.activation_softmax, (A,)),
    "add": (dml.add, anydml.element_wise_add1, (IMAGE, OTHER)),
    "subtract": (dml.subtract, anydml.element_wise_subtract, (IMAGE, OTHER)),
    "multiply": (dml.multiply, anydml.element_wise_multiply, (IMAGE, OTHER)),
    "divide": (dml.divide, anydml.element_wise_divide, (IMAGE, OTHER)),
    "padding": (
        lambda x: dml.padding(x, dml.PaddingMode.REFLECTION, 0, [0, 0, 2, 1], [0, 0, 1, 3]),
        lambda x: anydml.padding(x, padding_mode="REFLECTION", start_padding=(0, 0, 2, 1), end_padding=(0, 0, 1, 3)),
        (IMAGE,),
    ),
    "mean_variance_normalization": (
        lambda x, s, b: dml.mean_variance_normalization(x, s, b, [2, 3], 1, 1e-5),
        lambda x, s, b: anydml.mean_variance_normalization1(x, s, b, axes=(2, 3), normalize_variance=True, epsilon=1e-5),
        (IMAGE, *CHANNELS[:2]),
    ),
    "slice": (
        lambda x: dml.slice(x, [0, 0, 1, 0], [1, 2, 5, 6], [1, 1, -2, 3]),
        lambda x: anydml.slice1(x, (0, 0, 1, 0), (1, 2, 5, 6), (1, 1, -2, 3)),
        (IMAGE,),
    ),
    "value_scale_2d": (
        lambda x: dml.value_scale_2d(x, 0.5, [1.0, 2.0, 3.0]),
        lambda x: anydml.value_scale_2d(x, 0.5, (1.0, 2.0, 3.0)),
        (np.repeat(IMAGE[:, :1], 3, 1),),
    ),
    "batch_normalization": (
        lambda x, m, v, s, b: dml.batch_normalization(x, m, v, s, b, 1, 1e-5, RELU),
        lambda x, m, v, s, b: anydml.batch_normalization(
            x, m, v, s, b, spatial=True, epsilon=1e-5, fused_activation=anydml.ActivationRelu()
        ),
        (IMAGE, *CHANNELS),
    ),
    "local_response_normalization": (
        lambda x: dml.local_response_normalization(x, *LRN.values()),
        lambda x: anydml.local_response_normalization(x, **LRN),
        (IMAGE,),
    ),
    "gemm": (
        lambda a, b, c: dml.gemm(a, b, c, alpha=0.5, beta=2.0, fused_activation=RELU),
        lambda a, b, c: anydml.gemm(a, b, c, alpha=0.5, beta=2.0, fused_activation=anydml.ActivationRelu()),
        (A, B, C),
    ),
    "average_pooling": (
        lambda x: dml.average_pooling(x, [2, 2], [3, 3], [1, 1], [1, 1], 0),
        lambda x: anydml.average_pooling(x, strides=(2, 2), window_size=(3, 3), **WINDOW, include_padding=False),
        (IMAGE,),
    ),
    "max_pooling": (
        lambda x: fields(dml.max_pooling(x, [3, 2], output_indices=True), "values", "indices"),
        lambda x: anydml.max_pooling2(x, strides=(1, 1), window_size=(3, 2)),
        (IMAGE,),
    ),
    "reinterpret": (
        lambda x: dml.activation_identity(dml.reinterpret(x, dml.TensorDataType.FLOAT32, [6, 12], [1, 6])),
        lambda x: np.ascontiguousarray(x.reshape(12, 6).T),
        (IMAGE,),
    ),
    "join": (lambda a, b: dml.join([a, b], 1), lambda a, b: anydml.join([a, b], 1), (IMAGE, OTHER)),
    "gru": (
        lambda x, w, r: fields(
            dml.gru(
                x,
                w,
                r,
                activation_descs=GATES,
                direction=dml.RecurrentNetworkDirection.FORWARD,
                output_options=dml.OutputOptions.Both,
            ),
            "sequence",
            "single",
        ),
        lambda x, w, r: anydml.gru(x, w, r, activation_descs=GATE_DESCS, direction="FORWARD", linear_before_reset=True),
        WEIGHTS,
    ),
    "gather": (
        lambda x, i: dml.gather(x, i, 3, 2),
        lambda x, i: anydml.gather(x, i, 3, 2),
        (A[:, :, :4, :4], FEW[..., :2] % 4),
    ),
    "input_tensor": (lambda x: -x, anydml.element_wise_negate, (IMAGE,)),
}


@pytest.mark.parametrize("name", BINDING)
def test_functions_of_the_binding_give_what_eager_functions_give(name: str) -> None:
    make, function, arrays = BINDING[name]
    assert callable(getattr(dml, name))
    same(make, function, *(np.ascontiguousarray(x) for x in arrays))


UNARY = [
    "abs",
    "acos",
    "asin",
    "asinh",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "floor",
    "sin",
    "sinh",
    "tan",
    "tanh",
    "negate",
    "sign",
    "identity",
    "round",
]
POSITIVE_ONLY = ["log", "recip", "sqrt"]
BITS = ["bit_and", "bit_or", "bit_xor", "bit_shift_left", "bit_shift_right"]
PAIRS = ["atan_yx", "difference_square", "max", "mean", "min", "modulus_floor", "modulus_truncate"]
COMPARED = ["equals", "greater_than", "greater_than_or_equal", "less_than", "less_than_or_equal"]
ACTIVATIONS = [
    "celu",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hardmax",
    "leaky_relu",
    "log_softmax",
    "scaled_elu",
    "scaled_tanh",
    "shrink",
    "softmax",
    "softplus",
    "softsign",
    "thresholded_relu",
]


def renamed(name: str) -> str:
    return {"equals": "logical_equals", "bit_not": "bit_not"}.get(name, f"logical_{name}" if name in COMPARED else name)


FURTHER: dict[str, tuple[Any, ...]] = {
    **{n: (getattr(dml, n), getattr(anydml, f"element_wise_{n}"), (SMALL,)) for n in UNARY},
    **{n: (getattr(dml, n), getattr(anydml, f"element_wise_{n}"), (POSITIVE,)) for n in POSITIVE_ONLY},
    "acosh": (dml.acosh, anydml.element_wise_acosh, (POSITIVE + 1,)),
    "atanh": (dml.atanh, anydml.element_wise_atanh, (SMALL / 4,)),
    **{n: (getattr(dml, n), getattr(anydml, f"element_wise_{n}"), (WORDS, FEW)) for n in BITS},
    **{n: (getattr(dml, n), getattr(anydml, f"element_wise_{n}"), (IMAGE, OTHER)) for n in PAIRS},
    **{n: (getattr(dml, n), getattr(anydml, f"element_wise_{renamed(n)}"), (IMAGE, OTHER)) for n in COMPARED},
    **{f"activation_{n}": (getattr(dml, f"activation_{n}"), getattr(anydml, f"activation_{n}"), (A,)) for n in ACTIVATIONS},
    "bit_not": (dml.bit_not, anydml.element_wise_bit_not, (WORDS,)),
    "bit_count": (dml.bit_count, anydml.element_wise_bit_count, (WORDS,)),
    "logical_not": (dml.logical_not, anydml.element_wise_logical_not, (TRUTHS,)),
    **{
        n: (getattr(dml, n), getattr(anydml, f"element_wise_{n}"), (TRUTHS, TRUTHS[:, ::-1]))
        for n in ("logical_and", "logical_or", "logical_xor")
    },
    "is_nan": (dml.is_nan, anydml.element_wise_is_nan, (np.where(IMAGE > 0, np.nan, IMAGE),)),
    "is_infinity": (dml.is_infinity, anydml.element_wise_is_infinity, (np.where(IMAGE > 0, np.inf, IMAGE),)),
    "if_": (dml.if_, anydml.element_wise_if, (TRUTHS, IMAGE, OTHER)),
    "clip": (lambda x: dml.clip(x, -0.5, 0.5), lambda x: anydml.element_wise_clip(x, min=-0.5, max=0.5), (IMAGE,)),
    "clip_grad": (
        lambda x, g: dml.clip_grad(x, g, -0.5, 0.5),
        lambda x, g: anydml.element_wise_clip_grad(x, g, min=-0.5, max=0.5),
        (IMAGE, OTHER),
    ),
    "threshold": (lambda x: dml.threshold(x, 0.1), lambda x: anydml.element_wise_threshold(x, min=0.1), (IMAGE,)),
    "pow": (dml.pow, anydml.element_wise_pow, (POSITIVE, OTHER)),
    "quantize_linear": (dml.quantize_linear, anydml.element_wise_quantize_linear, (IMAGE, SCALES, ZEROS)),
    "dequantize_linear": (dml.dequantize_linear, anydml.element_wise_dequantize_linear, (BYTES, SCALES, ZEROS)),
    "dequantize": (
        lambda x, s, z: dml.dequantize(x, [s, z], dml.QuantizationType.SCALE_ZERO_POINT),
        lambda x, s, z: anydml.dequantize(x, [s, z], "SCALE_ZERO_POINT"),
        (BYTES, SCALES, ZEROS),
    ),
    "activation_parameterized_relu": (
        dml.activation_parameterized_relu,
        anydml.activation_parameterized_relu,
        (IMAGE, OTHER),
    ),
    "activation_parametric_softplus": (
        lambda x: dml.activation_parametric_softplus(x, 2.0, 0.5),
        lambda x: anydml.activation_parametric_softplus(x, alpha=2.0, beta=0.5),
        (IMAGE,),
    ),
    "reduce": (
        lambda x: [dml.reduce(x, dml.ReduceFunction.SUM), dml.reduce(x, dml.ReduceFunction.ARGMAX, [1], DataType.INT32)],
        lambda x: (
            anydml.reduce(x, function="SUM", axes=(0, 1, 2, 3)),
            np.argmax(x, 1, keepdims=True).astype(np.int32),
        ),
        (IMAGE,),
    ),
    "cast": (lambda x: dml.cast(x, DataType.INT32), lambda x: anydml.cast(x, output_data_type="INT32"), (IMAGE * 9,)),
    "split": (lambda x: dml.split(x, 2, [1, 5]), lambda x: [x[:, :, :1], x[:, :, 1:]], (IMAGE,)),
    "gather_elements": (
        lambda x, i: dml.gather_elements(x, i, 3),
        lambda x, i: anydml.gather_elements(x, i, 3),
        (RNG.standard_normal((1, 1, 4, 4)).astype(np.float32), FEW % 4),
    ),
    "gather_nd": (
        lambda x, i: dml.gather_nd(x, i, 4, 2, 0),
        lambda x, i: anydml.gather_nd1(x, i, 4, 2, 0),
        (IMAGE, np.array([[[[0, 1], [0, 0]]]], np.uint32)),
    ),
    "scatter_elements": (
        lambda x, i, u: dml.scatter_elements(x, i, u, 3),
        lambda x, i, u: anydml.scatter_elements(x, i, u, 3),
        (A, FEW[:, :, :3] % 4, OTHER[:, :1, :3, :4]),
    ),
    "scatter_nd": (
        lambda x, i, u: dml.scatter_nd(x, i, u, 2, 2),
        lambda x, i, u: anydml.scatter_nd(x, i, u, input_dimension_count=2, indices_dimension_count=2),
        (A, np.array([[[[0, 1], [2, 0]]]], np.uint32), np.array([[[[7, 8]]]], np.float32)),
    ),
    "space_to_depth": (lambda x: dml.space_to_depth(x, 2), lambda x: anydml.space_to_depth1(x, 2), (IMAGE,)),
    "depth_to_space": (
        lambda x: dml.depth_to_space(x, 2),
        lambda x: anydml.depth_to_space1(x, 2),
        (RNG.standard_normal((1, 4, 3, 3)).astype(np.float32),),
    ),
    "tile": (lambda x: dml.tile(x, [1, 2, 1, 3]), lambda x: anydml.tile(x, (1, 2, 1, 3)), (IMAGE,)),
    "top_k": (
        lambda x: fields(dml.top_k(x, 3, 2, dml.AxisDirection.DECREASING), "value", "index"),
        lambda x: anydml.top_k1(x, axis=3, k=2, axis_direction="DECREASING"),
        (IMAGE,),
    ),
    "batch_normalization_grad": (
        lambda x, g, m, v, s: fields(
            dml.batch_normalization_grad(x, g, m, v, s, 1e-5), "gradient", "scale_gradient", "bias_gradient"
        ),
        lambda x, g, m, v, s: anydml.batch_normalization_grad(x, g, m, v, s, epsilon=1e-5),
        (IMAGE, OTHER, *CHANNELS[:3]),
    ),
    "batch_normalization_training": (
        lambda x, s, b: fields(dml.batch_normalization_training(x, s, b, None, 1e-5), "output", "mean", "variance"),
        lambda x, s, b: anydml.batch_normalization_training(x, s, b, epsilon=1e-5),
        (IMAGE, *CHANNELS[:2]),
    ),
    "batch_normalization_training_grad": (
        lambda x, g, m, v, s: fields(
            dml.batch_normalization_training_grad(x, g, m, v, s, 1e-5), "gradient", "scale_gradient", "bias_gradient"
        ),
        lambda x, g, m, v, s: anydml.batch_normalization_training_grad(x, g, m, v, s, epsilon=1e-5),
        (IMAGE, OTHER, *CHANNELS[:3]),
    ),
    "one_hot": (
        lambda i, v: dml.one_hot(i, v, 5, 3),
        lambda i, v: anydml.one_hot(i, v, 3, output_sizes=(1, 1, 4, 5)),
        (FEW[..., :1], np.array([[[[0, 2]]]], np.float32)),
    ),
    "resample": (
        lambda x: dml.resample(x, [1, 2, 9, 4], dml.InterpolationMode.LINEAR),
        lambda x: anydml.resample3(
            x,
            output_sizes=(1, 2, 9, 4),
            interpolation_mode="LINEAR",
            rounding_direction="INCREASING",
            scales=(1, 1, 1.5, np.float32(4) / np.float32(6)),
            input_pixel_offsets=(0.5,) * 4,
            output_pixel_offsets=(-0.5,) * 4,
        ),
        (IMAGE,),
    ),
    "resample_grad": (
        lambda x: dml.resample_grad(x, [1, 2, 3, 3], dml.InterpolationMode.LINEAR),
        lambda x: anydml.resample_grad(
            x,
            output_sizes=(1, 2, 3, 3),
            interpolation_mode="LINEAR",
            scales=(1, 1, 2, 2),
            input_pixel_offsets=(0.5,) * 4,
            output_pixel_offsets=(-0.5,) * 4,
        ),
        (IMAGE,),
    ),
    "fill_value_constant": (
        lambda x: dml.add(x, dml.fill_value_constant(x.builder, [1, 2, 6, 6], DataType.FLOAT32, 0.25)),
        lambda x: x + np.float32(0.25),
        (IMAGE,),
    ),
    "fill_value_sequence": (
        lambda x: dml.bit_xor(x, dml.fill_value_sequence(x.builder, [1, 1, 4, 4], DataType.UINT32, 3, 2)),
        lambda x: x ^ np.arange(3, 35, 2).astype(np.uint32).reshape(1, 1, 4, 4),
        (WORDS,),
    ),
    "constant_data": (
        lambda x: dml.multiply(x, dml.constant_data(x.builder, OTHER, dml.TensorDesc(DataType.FLOAT32, OTHER.shape))),
        lambda x: x * OTHER,
        (IMAGE,),
    ),
    "cumulative_summation": (
        lambda x: dml.cumulative_summation(x, 3, dml.AxisDirection.INCREASING, False),
        lambda x: anydml.cumulative_summation(x, axis=3, axis_direction="INCREASING", has_exclusive_sum=False),
        (IMAGE,),
    ),
    "cumulative_product": (
        lambda x: dml.cumulative_product(x, 3, dml.AxisDirection.DECREASING, True),
        lambda x: anydml.cumulative_product(x, axis=3, axis_direction="DECREASING", has_exclusive_product=True),
        (IMAGE,),
    ),
    "reverse_subsequences": (
        lambda x, n: dml.reverse_subsequences(x, n, 3),
        lambda x, n: anydml.reverse_subsequences(x, n, 3),
        (A, np.array([[[[2], [3], [4]]]], np.uint32)),
    ),
    "convolution_integer": (
        lambda x, f: dml.convolution_integer(x, None, f, None, start_padding=[1, 1], end_padding=[1, 1]),
        lambda x, f: anydml.convolution_integer(x, f, **WINDOW),
        (BYTES, BYTES[:, :, :4, :3]),
    ),
    "quantized_linear_convolution": (
        lambda x, s, f, t: dml.quantized_linear_convolution(x, s, None, f, s, None, None, t, None, DataType.UINT8),
        lambda x, s, f, t: anydml.quantized_linear_convolution(x, s, f, s, t),
        (BYTES, ONE, BYTES[:, :, :4, :3], ONE * 50),
    ),
    "random_generator": (
        lambda s: fields(dml.random_generator(s, [1, 1, 3, 4]), "values", "state"),
        lambda s: anydml.random_generator(s, output_sizes=(1, 1, 3, 4)),
        (STATE,),
    ),
    "non_zero_coordinates": (
        lambda x: fields(dml.non_zero_coordinates(x), "count", "coordinates"),
        lambda x: (np.array([2], np.uint32), np.array([[0, 0, 0, 0], [0, 0, 0, 2], [0] * 4, [0] * 4], np.uint32)),
        (SPOTS,),
    ),
    "slice_grad": (
        lambda g: dml.slice_grad(g, [1, 2, 6, 9], [0, 0, 0, 1], [1, 2, 6, 6], [1, 1, 1, 1]),
        lambda g: np.pad(g, ((0, 0), (0, 0), (0, 0), (1, 2))),
        (IMAGE,),
    ),
    "roi_align": (
        lambda x, r, b: dml.roi_align(
            x, r, b, dml.ReduceFunction.AVERAGE, dml.InterpolationMode.LINEAR, 1, 1, 0.5, -0.5, 0, 1, 2, False, 2, 2
        ),
        lambda x, r, b: anydml.roi_align1(
            x,
            r,
            b,
            reduction_function="AVERAGE",
            interpolation_mode="LINEAR",
            spatial_scale_x=1,
            spatial_scale_y=1,
            input_pixel_offset=0.5,
            output_pixel_offset=-0.5,
            out_of_bounds_input_value=0,
            minimum_samples_per_output=1,
            maximum_samples_per_output=2,
            align_regions_to_corners=False,
            output_sizes=(2, 2, 2, 2),
        ),
        (IMAGE, REGIONS, BATCHES),
    ),
    "roi_align_grad": (
        lambda g, r, b: (
            dml.roi_align_grad(
                None, g, r, b, dml.ReduceFunction.AVERAGE, dml.InterpolationMode.LINEAR, 1, 1, 0.5, -0.5, 1, 2, 0, 1, 6, 6, 1, 0
            ).output_gradient
        ),
        lambda g, r, b: (
            anydml.roi_align_grad(
                g,
                r,
                b,
                reduction_function="AVERAGE",
                interpolation_mode="LINEAR",
                maximum_samples_per_output=2,
                output_sizes=(1, 2, 6, 6),
            ).output_gradient
        ),
        (RNG.standard_normal((2, 2, 2, 2)).astype(np.float32), REGIONS, BATCHES),
    ),
}


@pytest.mark.parametrize("name", FURTHER)
def test_functions_of_directmlx_give_what_eager_functions_give(name: str) -> None:
    make, function, arrays = FURTHER[name]
    assert callable(getattr(dml, name))
    same(make, function, *(np.ascontiguousarray(x) for x in arrays))


def test_every_function_is_tested() -> None:
    functions = set(dml.binding.__all__) | set(dml.directmlx.__all__)
    tested = {*BINDING, *FURTHER}
    assert {n for n in functions - tested if not n[0].isupper()} == set()
    assert len(BINDING) == 26


ENUMERATIONS = {
    "TensorDataType": ("UNKNOWN", "FLOAT32", "INT64"),
    "TensorFlags": ("NONE", "OWNED_BY_DML"),
    "MatrixTransform": ("NONE", "TRANSPOSE"),
    "RecurrentNetworkDirection": ("FORWARD", "BACKWARD", "BIDIRECTIONAL"),
    "OutputOptions": ("Both", "Sequence", "Single"),
    "ConvolutionMode": ("CONVOLUTION", "CROSS_CORRELATION"),
    "ConvolutionDirection": ("FORWARD", "BACKWARD"),
    "InterpolationMode": ("NEAREST_NEIGHBOR", "LINEAR"),
    "PaddingMode": ("CONSTANT", "EDGE", "REFLECTION"),
    "ExecutionFlags": ("NONE", "ALLOW_HALF_PRECISION_COMPUTATION", "DISABLE_META_COMMANDS", "DESCRIPTORS_VOLATILE"),
    "OperatorType": ("INVALID", "ELEMENT_WISE_IDENTITY"),
}


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_enumerations_have_their_members(name: str) -> None:
    enumeration = getattr(dml, name)
    for value, member in enumerate(ENUMERATIONS[name]):
        if name not in ("TensorDataType", "ExecutionFlags"):
            assert int(enumeration[member]) == value
        if name != "OutputOptions":
            assert hasattr(dml, member)


def test_members_stand_in_the_module() -> None:
    """If two enumerations share a name, the module has the later one's member."""
    assert dml.NONE is dml.ExecutionFlags.NONE
    assert dml.FORWARD is dml.ConvolutionDirection.FORWARD
    assert dml.CONVOLUTION is dml.OperatorType.CONVOLUTION
    assert dml.OperatorType.SCATTER is dml.OperatorType.SCATTER_ELEMENTS
    assert [dml.OperatorType[n] for n in ("ELEMENT_WISE_IDENTITY", "ACTIVATION_RELU", "SCATTER", "RESAMPLE")] == [1, 44, 94, 96]


def test_arithmetic_of_expressions() -> None:
    third = np.float32(1) / np.float32(3)
    same(lambda x, y: (x + y) * (x - y) / (y % x), lambda x, y: (x + y) * (x - y) / np.fmod(y, x), IMAGE, OTHER)
    same(
        lambda x: 2 - (x * 3 + 1.5) / 3,
        lambda x: 2 - anydml.element_wise_identity(x * 3 + np.float32(1.5), scale_bias=(third, 0)),
        IMAGE.round(1),
    )
    same(lambda x: +(2 / x), lambda x: anydml.element_wise_recip(x, scale_bias=(2, 0)), POSITIVE)
    same(lambda x, y: (x & y) | ~(x ^ y), lambda x, y: (x & y) | ~(x ^ y), WORDS, FEW)
    same(lambda x, y: (x << y) >> y, lambda x, y: (x << y) >> y, WORDS, FEW)
    same(lambda x, y: [x > y, x < y, x >= y, x <= y], lambda x, y: [(x > y), (x < y), (x >= y), (x <= y)], IMAGE, OTHER)


def test_arithmetic_in_place_changes_the_expression() -> None:
    """As in C++: the expression changes for all of its names."""

    def made(x: Any) -> Any:
        y = x + 0.0
        alias = y
        y += x
        y -= 1
        y *= 2
        y /= x
        assert alias is y
        return alias

    same(made, lambda x: (x + x - 1) * 2 / x, POSITIVE)
    same(lambda x: x.__imod__(x), lambda x: x * 0, POSITIVE)

    def of_bits(x: Any, y: Any) -> Any:
        x &= y
        x |= y
        x ^= y
        x <<= y
        x >>= y
        return x

    same(of_bits, lambda x, y: ((((x & y) | y) ^ y) << y) >> y, WORDS, FEW)


def test_forms_of_a_tensor_desc() -> None:
    float32, owned = dml.TensorDataType.FLOAT32, dml.TensorFlags.OWNED_BY_DML
    t = dml.TensorDesc(float32, [1, 8, 28, 28], [8, 1, 0, 0])  # the third argument is strides, if flags do not precede it
    assert (t.sizes, t.strides, t.flags, t.total_tensor_size_in_bytes) == ([1, 8, 28, 28], [8, 1, 0, 0], 0, 32)
    t = dml.TensorDesc(float32, owned, [2, 3])
    assert (t.sizes, t.strides, t.flags, t.total_tensor_size_in_bytes) == ([2, 3], None, owned, 24)
    t = dml.TensorDesc(float32, owned, [2, 3], [4, 1], 32, 16)
    assert (t.strides, t.total_tensor_size_in_bytes, t.guaranteed_base_offset_alignment) == ([4, 1], 32, 16)
    assert repr(t) == "dml.TensorDesc of type 1 and shape [2,3] with flags 1"
    t = dml.TensorDesc(float32, [2, 3, 4, 5], dml.TensorPolicy.interleaved_channel)
    assert (t.strides, t.total_tensor_size_in_bytes) == ([60, 1, 15, 3], 480)
    assert dml.TensorDesc(float32, sizes=[2], tensor_policy=dml.TensorPolicy.interleaved_channel).strides == [1]
    assert dml.TensorDesc(data_type=float32, flags=0, sizes=[2, 3]).strides is None
    for wrong in ((), ([2], [1], 3), (owned,), (owned, [2], None, 8, 0, 0)):
        with pytest.raises(TypeError, match="TensorDesc takes"):
            dml.TensorDesc(float32, *wrong)


def test_the_tensor_policy_lays_out_outputs() -> None:
    def made(x: Any, f: Any) -> Any:
        x.builder.set_tensor_policy(dml.TensorPolicy.interleaved_channel)
        y = dml.convolution(x, f)
        assert x.builder.get_tensor_policy() is dml.TensorPolicy.interleaved_channel
        assert y.get_output_desc().strides == [64, 1, 16, 4]
        return y

    (found,) = evaluated(made, IMAGE, FILTER)
    assert found.tobytes() == anydml.convolution(IMAGE, FILTER).tobytes()
    custom = dml.TensorPolicy(lambda data_type, flags, sizes: dml.TensorProperties((64, 32, 6, 1), 256))
    (found,) = evaluated(lambda x: (x.builder.set_tensor_policy(custom), -x)[1], IMAGE[:, :, :5])
    assert found.tobytes() == (-IMAGE[:, :, :5]).tobytes()


def test_a_binding_casts_ignores_the_shape_and_counts_bytes() -> None:
    device = dml.Device()
    assert repr(device) == "dml.Device on GPU"
    assert repr(dml.Device(False)) == "dml.Device on CPU"
    builder = dml.GraphBuilder(device)
    x = dml.input_tensor(builder, 0, dml.TensorDesc(dml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
    model = builder.build(dml.ExecutionFlags.NONE, [y := -x])
    for data in ([1, 2, 3, 4, 5, 6], np.arange(1, 7).reshape(3, 2), np.arange(1.0, 7.0)):
        (found,) = device.compute(model, [None, dml.Binding(x, data)], [y])
        assert found.tolist() == [[[[-1, -2, -3], [-4, -5, -6]]]]
        buffer: Any = found
        assert memoryview(buffer).format == "f"
    with pytest.raises(
        ValueError, match=r"the data has 5 elements, 20 bytes of float32, .* sizes \[1, 1, 2, 3\].* has 24 bytes"
    ):
        dml.Binding(x, [1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="a binding must be for an input"):
        dml.Binding(y, [1, 2, 3, 4, 5, 6])
    with pytest.raises(ValueError, match="no binding is given for input 0"):
        device.compute(model, [], [y])
    with pytest.raises(ValueError, match="2 outputs are asked for, and the model was built with 1"):
        device.compute(model, [dml.Binding(x, data)], [y, y])


def test_owned_inputs_are_those_of_each_call() -> None:
    device = dml.Device()
    builder = dml.GraphBuilder(device)
    x = dml.input_tensor(builder, 3, dml.TensorDesc(dml.TensorDataType.FLOAT32, [1, 1, 2, 2]))
    w = dml.input_tensor(builder, 1, dml.TensorDesc(dml.TensorDataType.FLOAT32, dml.TensorFlags.OWNED_BY_DML, [1, 1, 2, 2]))
    model = builder.build(dml.ExecutionFlags.NONE, [y := dml.gemm(x, w)])
    eye, twice = dml.Binding(w, np.eye(2)), dml.Binding(w, 2 * np.eye(2))
    data = dml.Binding(x, [1, 2, 3, 4])
    for owned, factor in ((eye, 1), (eye, 1), (twice, 2), (eye, 1)):
        (found,) = device.compute(model, [owned, data], [y])
        assert found.reshape(-1).tolist() == [factor * n for n in (1, 2, 3, 4)]


def test_a_backward_convolution_takes_output_sizes() -> None:
    backward = dml.ConvolutionDirection.BACKWARD
    filters = np.ascontiguousarray(FILTER.transpose(1, 0, 2, 3))

    def made(x: Any, f: Any) -> Any:
        plain = dml.convolution(x, f, direction=backward, strides=[2, 2])
        larger = dml.convolution(x, f, direction=backward, strides=[2, 2], output_sizes=[1, 4, 14, 14])
        assert plain.get_output_desc().sizes == [1, 4, 13, 13]
        return [plain, larger]

    plain, larger = evaluated(made, IMAGE, filters)
    assert larger[:, :, :13, :13].tobytes() == np.ascontiguousarray(plain).tobytes()
    assert not larger[:, :, 13].any()


def test_faults_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = lambda x: dml.slice(x, [0, 0, 0, 3], [1, 2, 6, 6], [1, 1, 1, 1])  # noqa: E731
    with pytest.raises(DescError, match="input_window_offsets") as raised:
        evaluated(wrong, IMAGE)
    assert capsys.readouterr().err == ""
    with pytest.raises(DescError):
        evaluated(wrong, IMAGE, debug=True)
    assert capsys.readouterr().err == f"{raised.value}\n"
    with pytest.raises(ValueError, match="output 0 is an input of the graph"):
        evaluated(lambda x: x, IMAGE)
    with pytest.raises(ValueError, match="the expression is empty"):
        evaluated(lambda x: dml.max_pooling(x, [2, 2]).indices + x, IMAGE)
    with pytest.raises(ValueError, match="2 graphs"):
        evaluated(lambda x: x + dml.input_tensor(dml.GraphBuilder(dml.Device()), 0, x.get_output_desc()), IMAGE)
    with pytest.raises(ValueError, match="CONVOLUTION is not an activation"):
        evaluated(lambda x: dml.add(x, x, dml.FusedActivation(dml.OperatorType.CONVOLUTION)), IMAGE)
    with pytest.raises(TypeError, match="normalize_variance and epsilon"):
        evaluated(lambda x: dml.mean_variance_normalization(x, axes=[1]), IMAGE)
    with pytest.raises(TypeError, match=r"linear takes 2 parameters, not 0"):
        dml.FusedActivation.linear()
    assert not dml.Expression()


@pytest.mark.parametrize("name", [n for n in vars(dml.FusedActivation) if hasattr(dml, f"activation_{n}")])
def test_fused_activations_have_the_defaults_of_operators(name: str) -> None:
    given = (0.5, 0.25) if name in ("linear", "parametric_softplus") else ()
    fused, alone = getattr(dml.FusedActivation, name)(*given), getattr(dml, f"activation_{name}")
    (found,) = evaluated(lambda x, zero: dml.add(x, zero, fused), IMAGE, 0 * IMAGE)
    (wanted,) = evaluated(lambda x: alone(x, *given), IMAGE)
    assert found.tobytes() == wanted.tobytes()


def test_names_of_nodes() -> None:
    builder = dml.GraphBuilder(dml.Device())
    x = dml.input_tensor(builder, 0, dml.TensorDesc(dml.TensorDataType.FLOAT32, [1, 1, 2, 2]))
    with builder.create_name_scope("block"):
        builder.push_name("first")
        x = -x
        builder.pop_name()
    x = -x
    assert [node.name for node in builder.nodes] == ["block_first", ""]


def test_a_script_runs_as_it_is(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    (tmp_path / "beside.py").write_text("WORD = 'beside'")
    script.write_text(
        "import sys\nimport numpy as np\nimport pydirectml as dml\nimport beside\n"
        "device = dml.Device(True, True)\nbuilder = dml.GraphBuilder(device)\n"
        "x = dml.input_tensor(builder, 0, dml.TensorDesc(dml.TensorDataType.FLOAT32, [1, 1, 1, 2]))\n"
        "y = dml.activation_relu(x)\nop = builder.build(dml.ExecutionFlags.NONE, [y])\n"
        "print(np.array(device.compute(op, [dml.Binding(x, [-1, 2])], [y])[0]).tolist(), beside.WORD, sys.argv[1:], __name__)\n"
    )
    command = [sys.executable, "-m", "anydml.pydirectml"]
    ran = subprocess.run([*command, str(script), "-a", "b"], capture_output=True, text=True, check=True)
    assert ran.stdout == "[[[[0.0, 2.0]]]] beside ['-a', 'b'] __main__\n"
    missing = subprocess.run([*command, "no.py"], capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stderr) == (1, "there is no file no.py\n")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2


def test_the_page_shows_what_is_so() -> None:
    page = Path(__file__).parents[2] / "docs" / "pydirectml.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert (results.attempted, results.failed) == (8, 0)
    for picture in re.findall(r"\]\((pictures/.*?)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / picture).is_file()
