"""A quantised network as phones compute it, by TFLite's reference algorithms: rounding explains it at every layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import fixed_point
from anydml.testing import assert_rounding
from every_kernel import Ran

Array = NDArray[Any]
F32 = np.float32
Rounding = Callable[[int, fixed_point.Multiplier], int]
ROUNDINGS: dict[str, Rounding] = {
    "fixed_point_double_rounding": fixed_point.multiply_by_quantized_multiplier,
    "fixed_point_ties_up": fixed_point.multiply_by_quantized_multiplier_neon,
    "fixed_point_single_rounding": fixed_point.multiply_by_quantized_multiplier_single_rounding,
}
CHANNELS, SIZE, OUTPUTS = 8, 12, 200


class Tensor(NamedTuple):
    """A quantised tensor: int8 elements, its scale and its zero point."""

    elements: Array
    scale: np.float32
    zero_point: int


class Filter(NamedTuple):
    """Weights without a zero point, a scale for each output channel, and a bias with the scale of the accumulators."""

    weights: Array
    scales: Array
    bias: Array


def requantised(acc: Array, multipliers: list[fixed_point.Multiplier], zero_point: int, rounding: Rounding) -> Array:
    """int8 from int32 accumulators; the second dimension of `acc` has a multiplier for each index."""
    made = np.empty(acc.shape, np.int8)
    for at in np.ndindex(*acc.shape):
        made[at] = min(max(rounding(int(acc[at]), multipliers[at[1]]) + zero_point, -128), 127)
    return made


def multipliers(x: Tensor, f: Filter, y: Tensor) -> list[fixed_point.Multiplier]:
    """PopulateConvolutionQuantizationParams: the product of the scales and the quotient in double."""
    return [fixed_point.quantize_multiplier(float(x.scale) * float(s) / float(y.scale)) for s in f.scales]


def convolved(x: Tensor, f: Filter, y: Tensor, rounding: Rounding, groups: int = 1) -> Tensor:
    """ConvPerChannel, or DepthwiseConvPerChannel, of 3 x 3 with SAME padding and stride 1; channels first."""
    n, c, h, w = x.elements.shape
    m = len(f.weights)
    acc = np.zeros((n, m, h, w), np.int64) + f.bias[:, None, None]
    for out_y, out_x, filter_y, filter_x in np.ndindex(h, w, 3, 3):
        in_y, in_x = out_y - 1 + filter_y, out_x - 1 + filter_x
        if not (0 <= in_y < h and 0 <= in_x < w):
            continue
        values = x.elements[:, :, in_y, in_x].astype(np.int64) - x.zero_point
        for o in range(m):
            first = o // (m // groups) * (c // groups)
            acc[:, o, out_y, out_x] += values[:, first : first + c // groups] @ f.weights[o, :, filter_y, filter_x]
    return y._replace(elements=requantised(acc, multipliers(x, f, y), y.zero_point, rounding))


def added(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    scales = float(a.scale), float(b.scale), float(y.scale)
    zero_points = a.zero_point, b.zero_point, y.zero_point
    made = fixed_point.add(tuple(a.elements.ravel().tolist()), tuple(b.elements.ravel().tolist()), scales, zero_points)
    return y._replace(elements=np.array(made, np.int8).reshape(a.elements.shape))


def averaged(x: Tensor) -> Tensor:
    """AveragePool of 2 x 2 with stride 2, which has the same scale and zero point on both sides."""
    n, c, h, w = x.elements.shape
    acc = x.elements.astype(np.int64).reshape(n, c, h // 2, 2, w // 2, 2).sum((3, 5))
    made = [fixed_point.average(int(a), 4) for a in acc.ravel()]
    return x._replace(elements=np.array(made, np.int8).reshape(acc.shape))


def fully_connected(x: Tensor, f: Filter, y: Tensor, rounding: Rounding) -> Tensor:
    """FullyConnected: the product of the scales in float."""
    acc = (x.elements.reshape(len(x.elements), -1).astype(np.int64) - x.zero_point) @ f.weights.T.astype(np.int64)
    product = float(F32(x.scale * f.scales[0]))
    m = fixed_point.quantize_multiplier(product / float(y.scale))
    return y._replace(elements=requantised(acc, [m] * acc.shape[1], y.zero_point, rounding))


def scaled(scale: float, zero_point: int) -> Tensor:
    return Tensor(np.empty(0, np.int8), F32(scale), zero_point)


def filters(random: np.random.Generator, *sizes: int, scale: float, per_channel: bool = True, most: int = 127) -> Filter:
    scales = random.uniform(scale / 2, scale, sizes[0]).astype(F32) if per_channel else np.full(sizes[0], scale, F32)
    weights = random.integers(-most, most + 1, sizes).astype(np.int8)
    return Filter(weights, scales, random.integers(-2000, 2000, sizes[0]).astype(np.int32))


class Network(NamedTuple):
    """The layers' results by name, and what they are computed from."""

    image: Tensor
    conv: Filter
    depthwise: Filter
    dense: Filter
    layers: dict[str, Tensor]


def network(rounding: Rounding, seed: int = 0) -> Network:
    random = np.random.default_rng(seed)
    image = Tensor(random.integers(-128, 128, (2, 3, SIZE, SIZE)).astype(np.int8), F32(0.0078), -3)
    conv, depthwise = filters(random, CHANNELS, 3, 3, 3, scale=0.02), filters(random, CHANNELS, 1, 3, 3, scale=0.03)
    dense = filters(random, OUTPUTS, CHANNELS * (SIZE // 2) ** 2, scale=0.11, per_channel=False, most=7)
    first = convolved(image, conv, scaled(0.11, -10), rounding)
    second = convolved(first, depthwise, scaled(0.22, 4), rounding, groups=CHANNELS)
    total = added(first, second, scaled(0.44, 1))
    pooled = averaged(total)
    last = fully_connected(pooled, dense, scaled(2.9, 7), rounding)
    return Network(
        image, conv, depthwise, dense, {"conv": first, "depthwise": second, "add": total, "pool": pooled, "dense": last}
    )


def one(value: Any, dtype: Any, count: int) -> Array:
    return np.full((1,) * count, value, dtype)


def calls(net: Network) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Each layer as a function of anydml, and its arguments: the phone's own inputs."""
    t = net.layers

    def parts(name: str, x: Tensor, count: int = 4) -> dict[str, Any]:
        return {
            name: x.elements,
            f"{name}_scale": one(x.scale, F32, count),
            f"{name}_zero_point": one(x.zero_point, np.int8, count),
        }

    def output(x: Tensor, count: int = 4) -> dict[str, Any]:
        return {k: v for k, v in parts("output", x, count).items() if k != "output"}

    def convolution(x: Tensor, f: Filter, y: Tensor, groups: int) -> dict[str, Any]:
        own = {"filter": f.weights, "filter_scale": f.scales.reshape(1, -1, 1, 1), "bias": f.bias.reshape(1, -1, 1, 1)}
        edges = {"start_padding": (1, 1), "end_padding": (1, 1), "group_count": groups}
        return {**parts("input", x), **own, **output(y), **edges}

    flat = t["pool"]._replace(elements=t["pool"].elements.reshape(len(t["pool"].elements), -1))
    weights = Tensor(np.ascontiguousarray(net.dense.weights.T), net.dense.scales[0], 0)
    return {
        "conv": (dml.quantized_linear_convolution, convolution(net.image, net.conv, t["conv"], 1)),
        "depthwise": (dml.quantized_linear_convolution, convolution(t["conv"], net.depthwise, t["depthwise"], CHANNELS)),
        "add": (
            dml.element_wise_quantized_linear_add,
            {**parts("a", t["conv"]), **parts("b", t["depthwise"]), **output(t["add"])},
        ),
        "pool": (
            dml.quantized_linear_average_pooling,
            {**parts("input", t["add"]), **output(t["pool"]), "window_size": (2, 2), "strides": (2, 2)},
        ),
        "dense": (
            dml.quantized_linear_matrix_multiply,
            {**parts("a", flat, 2), **parts("b", weights, 2), **output(t["dense"], 2)},
        ),
    }


@pytest.mark.parametrize("name", ROUNDINGS)
def test_rounding_explains_every_layer(name: str, ran: Ran) -> None:
    net = network(ROUNDINGS[name])
    differing, named = {}, set()
    for layer, (function, arguments) in calls(net).items():
        actual = net.layers[layer].elements
        comparison = dml.compare(function, **arguments, actual=actual)
        differing[layer] = comparison.differing
        assert "not a rounding difference" not in str(comparison), layer
        assert_rounding(actual, function, **arguments)
        if comparison.differing:
            assert comparison.causes[0].equal == comparison.total, (layer, str(comparison))
            named |= {cause.name for cause in comparison.causes if cause.equal == comparison.total}
    assert {"fixed_point_addition", "mean_of_integers"} <= named
    if name != "fixed_point_single_rounding":  # which differs next to ties alone
        assert all(differing.values()), differing
        assert name in named
    ran(sum(differing.values()), 200)


def test_a_mixture_of_roundings_has_no_one_cause_and_is_explained() -> None:
    """At a multiplier of 0.26, two roundings take many values across a tie; some elements are rounded so, others exactly."""
    random = np.random.default_rng(0)
    a, b = random.integers(-9, 10, (40, 5)).astype(np.int8), random.integers(-3, 4, (5, 30)).astype(np.int8)
    zeros = dict.fromkeys(("a_zero_point", "b_zero_point", "output_zero_point"))
    scales = {"a_scale": F32(0.26), "b_scale": F32(1), "output_scale": F32(1)}
    call: dict[str, Any] = {"a": a, "b": b, **scales, **zeros, "output_data_type": "INT8"}
    exact = dml.quantized_linear_matrix_multiply(**call)
    m = [fixed_point.quantize_multiplier(float(F32(0.26)))] * 30
    twice = requantised(a.astype(np.int64) @ b, m, 0, fixed_point.multiply_by_quantized_multiplier)
    actual = np.where(random.random(exact.shape) < 0.4, twice, exact)
    found = dml.compare(dml.quantized_linear_matrix_multiply, **call, actual=actual)
    assert str(found).endswith("requantisation in fixed point explains them"), str(found)
    assert_rounding(actual, dml.quantized_linear_matrix_multiply, **call)
    actual[3, 3] += 3
    found = dml.compare(dml.quantized_linear_matrix_multiply, **call, actual=actual)
    assert str(found).endswith("this is not a rounding difference"), str(found)


@pytest.mark.parametrize("layer", ["conv", "depthwise", "add", "pool", "dense"])
def test_a_step_too_many_is_not_explained(layer: str) -> None:
    """Elements two steps off, of those that are exact and do not saturate."""
    net = network(ROUNDINGS["fixed_point_double_rounding"])
    function, arguments = calls(net)[layer]
    actual = net.layers[layer].elements.copy()
    exact = function(**arguments)
    inner = np.argwhere((np.abs(exact.astype(int)) < 120) & (exact == actual))
    beyond = 0
    for at in map(tuple, inner[:: max(1, len(inner) // 10)]):
        changed = actual.copy()
        changed[at] += 2
        with pytest.raises(AssertionError, match="beyond rounding"):
            assert_rounding(changed, function, **arguments)
        beyond += 1
    assert beyond >= 10


def test_a_model_is_explained_node_by_node() -> None:
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    from anydml.onnx import compare

    net = network(ROUNDINGS["fixed_point_double_rounding"])
    t = net.layers
    constants: dict[str, Array] = {"no": np.zeros((), np.int8)}
    for name, x in {"image": net.image, **t}.items():
        constants |= {f"{name}_scale": np.asarray(x.scale), f"{name}_zero": np.asarray(x.zero_point, np.int8)}
    for name, f in (("conv", net.conv), ("depthwise", net.depthwise)):
        zeros = np.zeros(len(f.scales), np.int8)
        constants |= {f"{name}_w": f.weights, f"{name}_s": f.scales, f"{name}_z": zeros, f"{name}_b": f.bias}
    constants |= {"dense_w": np.ascontiguousarray(net.dense.weights.T), "dense_s": np.asarray(net.dense.scales[0])}

    def encoded(name: str) -> list[str]:
        return [name, *of(name)]

    def of(name: str) -> list[str]:
        return [f"{name}_scale", f"{name}_zero"]

    def filtered(name: str) -> list[str]:
        return [f"{name}_{part}" for part in "wsz"]

    first = [*encoded("image"), *filtered("conv"), *of("conv"), "conv_b"]

    ms: dict[str, Any] = {"domain": "com.microsoft"}
    pads: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("QLinearConv", first, ["conv"], "conv", **pads),
        helper.make_node(
            "QLinearConv", [*encoded("conv"), *filtered("depthwise"), *of("depthwise"), "depthwise_b"], ["depthwise"],
            "depthwise", **pads, group=CHANNELS,
        ),
        helper.make_node("QLinearAdd", [*encoded("conv"), *encoded("depthwise"), *of("add")], ["add"], "add", **ms),
        helper.make_node(
            "QLinearAveragePool", [*encoded("add"), *of("pool")], ["pool"], "pool", **ms, kernel_shape=[2, 2], strides=[2, 2]
        ),
        helper.make_node("Flatten", ["pool"], ["flat"], "flat"),
        helper.make_node("QLinearMatMul", ["flat", *of("pool"), "dense_w", "dense_s", "no", *of("dense")], ["dense"], "dense"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "phone",
        [helper.make_tensor_value_info("image", TensorProto.INT8, net.image.elements.shape)],
        [helper.make_tensor_value_info("dense", TensorProto.INT8, t["dense"].elements.shape)],
        [numpy_helper.from_array(x, name) for name, x in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    recorded = {name: x.elements for name, x in t.items()}
    recorded["flat"] = recorded["pool"].reshape(len(recorded["pool"]), -1)
    found = compare(model, {"image": net.image.elements}, actual=recorded)
    rows = {row.name: row for row in found.nodes}
    assert [row.verdict for row in found.nodes] == ["rounding"] * 4 + ["equal", "rounding"], str(found)
    assert {rows[name].deviation for name in ("conv", "depthwise", "dense")} == {"fixed_point_double_rounding"}
    assert "requantisation in fixed point" in str(rows["conv"])
    assert "fixed-point requantisation, rounded twice in" in str(rows["conv"])
    assert str(rows["add"]).endswith("outputs")
