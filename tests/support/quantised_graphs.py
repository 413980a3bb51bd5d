"""Random graphs that dequantise, multiply and quantise again, as descs with constants and hostile data."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml import ConstantNode, DataType, GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge, TensorDesc
from anydml.devices.graph import problem_between
from anydml.exact.float32 import round_to_float32
from anydml.graphs.between import between_bytes
from anydml.graphs.check import check_graph
from anydml.graphs.plan import fixed_buffers, operators_of
from anydml.kernels.contract.quantised import bounds
from anydml.kernels.problem import Problem
from anydml.schema.enumerations import MatrixTransform, QuantizationType

Array = NDArray[Any]


def problems_of(desc: GraphDesc) -> list[Problem]:
    """The problems of a graph's regions between bytes."""
    checked = check_graph(desc)
    operators = operators_of(checked)
    return [
        problem_between(checked, work, fixed_buffers(checked, operators))
        for work in between_bytes(checked, operators).operators
    ]


INT8, UINT8 = np.dtype(np.int8), np.dtype(np.uint8)
DECIMALS = (0.1, 0.05, 0.02, 0.025, 0.01, 0.003, 1 / 255, 0.007)


@dataclass
class Building:
    """Nodes and edges of a graph. A tensor is the number of the node that makes it, or the name of an input."""

    nodes: list[Any] = field(default_factory=list)
    inputs: list[InputEdge] = field(default_factory=list)
    between: list[IntermediateEdge] = field(default_factory=list)
    outputs: list[OutputEdge] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)

    def constant(self, values: Array) -> int:
        self.nodes.append(ConstantNode(np.ascontiguousarray(values)))
        return len(self.nodes) - 1

    def call(self, desc: Any, name: str, *read: int | str | None) -> int:
        self.nodes.append(OperatorNode(desc, name))
        at = len(self.nodes) - 1
        for k, source in enumerate(read):
            if isinstance(source, str):
                self.inputs.append(InputEdge(self.named.setdefault(source, len(self.named)), at, k, source))
            elif source is not None:
                self.between.append(IntermediateEdge(source, 0, at, k))
        return at

    def output(self, node: int, name: str) -> None:
        self.outputs.append(OutputEdge(node, 0, len(self.outputs), name))

    def desc(self) -> GraphDesc:
        return GraphDesc(tuple(self.nodes), tuple(self.inputs), tuple(self.outputs), tuple(self.between))

    def dequantised(self, source: int | str, t: TensorDesc, scale: Array, zero: Array | None, name: str, axis: int = 0) -> int:
        """A node ELEMENT_WISE_DEQUANTIZE_LINEAR; scale and zero: one element, or one for each index along an axis."""

        def beside(values: Array) -> TensorDesc:
            strides = [int(values.size > 1 and d == axis) for d in range(len(t.sizes))]
            return TensorDesc(DataType.of(values.dtype), t.sizes, strides=strides)

        desc = dml.ElementWiseDequantizeLinear(
            input_tensor=t,
            scale_tensor=beside(scale),
            zero_point_tensor=None if zero is None else beside(zero),
            output_tensor=real(t.sizes),
        )
        return self.call(desc, name, source, self.constant(scale), None if zero is None else self.constant(zero))

    def dequantised_in_blocks(
        self, source: int | str, t: TensorDesc, scale: Array, zero: Array | None, name: str, axis: int = 0
    ) -> int:
        """A node DEQUANTIZE, with arguments as for `dequantised`."""
        sizes = [scale.size if d == axis else 1 for d in range(len(t.sizes))]
        tensors = [TensorDesc("FLOAT32", sizes)] + ([] if zero is None else [TensorDesc(t.data_type, sizes)])
        if zero is not None:
            zero = np.broadcast_to(zero, (scale.size,))
        desc = dml.Dequantize(
            input_tensor=t,
            quantization_type=QuantizationType.SCALE if zero is None else QuantizationType.SCALE_ZERO_POINT,
            quantization_tensors=tuple(tensors),
            output_tensor=real(t.sizes),
        )
        return self.call(desc, name, source, self.constant(scale), *([] if zero is None else [self.constant(zero)]))

    def quantised(self, source: int, sizes: Sequence[int], scale: Array, zero: Array | None, dtype: Any, name: str) -> int:
        """A node ELEMENT_WISE_QUANTIZE_LINEAR, with an output of this type."""
        still = [0] * len(sizes)
        desc = dml.ElementWiseQuantizeLinear(
            input_tensor=real(sizes),
            scale_tensor=TensorDesc("FLOAT32", sizes, strides=still),
            zero_point_tensor=None if zero is None else TensorDesc(DataType.of(zero.dtype), sizes, strides=still),
            output_tensor=TensorDesc(DataType.of(np.dtype(dtype)), sizes),
        )
        return self.call(desc, name, source, self.constant(scale), None if zero is None else self.constant(zero))


def real(sizes: Sequence[int]) -> TensorDesc:
    return TensorDesc("FLOAT32", sizes)


@dataclass(frozen=True)
class Recipe:
    """A layer. sizes: those of x; filters: the number of outputs, then the filter's sizes; without these, a matrix product.

    scales: the kind of their numbers. zero: "none", "ends" or "any". bias: "none", "float" or "int32". clamp: "", "relu",
    "clip" or "fused". spread: the magnitude of typical outputs. data: "any", "ends" or "small". folded: weights are constant
    floats.
    """

    x: Any
    w: Any
    y: Any
    sizes: tuple[int, ...]
    filters: tuple[int, ...]
    groups: int = 1
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    by_channel: bool = True
    scales: str = "any"
    zero: str = "any"
    bias: str = "int32"
    clamp: str = ""
    added: bool = False
    blocks: bool = False
    transposed: bool = False
    spread: float = 60.0
    data: str = "any"
    folded: bool = False


def random_recipe(rng: random.Random) -> Recipe:
    """A small layer."""
    x, w, y = (rng.choice((INT8, UINT8)) for _ in range(3))
    scales = rng.choice(("any", "any", "decimal", "powers", "ties"))
    ways: dict[str, Any] = dict(
        by_channel=rng.random() < 0.6 and scales in ("any", "powers"),
        scales=scales,
        zero=rng.choice(("none", "ends", "any")),
        bias=rng.choice(("none", "float", "int32")),
        clamp=rng.choice(("", "relu", "clip", "fused")),
        blocks=rng.random() < 0.3,
        spread=rng.choice((8.0, 60.0, 200.0)),
        data=rng.choice(("any", "any", "ends", "small")),
    )
    ways["folded"] = w == INT8 and ways["zero"] == "none" and not ways["blocks"] and rng.random() < 0.5
    ways["added"] = ways["clamp"] != "fused" and rng.random() < 0.3
    if rng.random() < 0.25:
        k, n = rng.choice((5, 64, 200, 700)), rng.choice((1, 7, 33, 70))
        return Recipe(x, w, y, (rng.choice((1, 3, 20)), k), (n,), transposed=rng.random() < 0.5, **ways)
    dimensions = rng.choice((1, 2, 2, 2, 3))
    groups = rng.choice((1, 1, 1, 2, 8))
    inner = 1 if groups == 8 else rng.choice((1, 3, 4, 16, 32))
    outer = groups * (1 if groups == 8 else rng.choice((1, 4, 7, 33)))
    taps = tuple(rng.choice((1, 3, 3, 5)) for _ in range(dimensions))
    size = {1: 40, 2: rng.choice((7, 12, 15)), 3: 6}[dimensions]
    dilation = rng.choice((1, 1, 1, 2)) if max(taps) < 5 else 1
    return Recipe(
        x,
        w,
        y,
        (rng.choice((1, 2)), groups * inner, *(size for _ in taps)),
        (outer, *taps),
        groups=groups,
        stride=rng.choice((1, 1, 2)),
        padding=rng.choice((0, 1, 2)),
        dilation=dilation,
        **ways,
    )


@dataclass(frozen=True)
class Case:
    """A graph with its input arrays and the size and type of its output, called "y"."""

    desc: GraphDesc
    inputs: dict[str, Array]
    sizes: tuple[int, ...]
    dtype: Any


def make(r: Recipe, seed: int) -> Case:
    """The graph of a recipe, with arrays for it."""
    rng = np.random.default_rng(seed)
    product = len(r.filters) == 1
    k = r.sizes[1] // r.groups * int(np.prod(r.filters[1:]))
    outputs = r.filters[0]
    count = outputs if r.by_channel else 1
    sx, sw, sy, so = _scales(r, k, count, rng)
    zeros = [_zero(r, dtype, rng) for dtype in (r.x, r.w, r.y, r.y)]
    x = _elements(r, r.sizes, r.x, rng)
    made = Building()
    dequantised = made.dequantised_in_blocks if r.blocks else made.dequantised
    if r.blocks:  # because an absent zero point of UINT8 would be 128
        zeros = [np.zeros(1, dtype) if z is None else z for z, dtype in zip(zeros, (r.x, r.w, r.y, r.y), strict=True)]
    of_x = dequantised("x", TensorDesc(DataType.of(r.x), r.sizes), sx, zeros[0], "of x")
    axis = 0
    if product:
        shape: tuple[int, ...] = (outputs, k) if r.transposed else (k, outputs)
        axis = 0 if r.transposed else 1
        sizes: tuple[int, ...] = (r.sizes[0], outputs)
    else:
        shape = (outputs, r.sizes[1] // r.groups, *r.filters[1:])
        places = [
            (n + 2 * r.padding - (taps - 1) * r.dilation - 1) // r.stride + 1
            for n, taps in zip(r.sizes[2:], r.filters[1:], strict=True)
        ]
        sizes = (r.sizes[0], outputs, *places)
    w = _elements(r, shape, r.w, rng)
    zero_w = zeros[1]
    if zero_w is not None and r.by_channel and not product:
        zero_w = np.broadcast_to(zero_w, (count,)).copy()
        zero_w[::2] = rng.integers(-3, 4) if r.w == INT8 else rng.integers(0, 4)
    if r.folded:
        by = [sw.size if d == axis else 1 for d in range(len(shape))]
        of_w = made.constant(round_to_float32(sw.astype(np.float64).reshape(by) * w))
    else:
        of_w = dequantised(made.constant(w), TensorDesc(DataType.of(r.w), shape), sw, zero_w, "of w", axis)
    along = 1
    beside = tuple(outputs if d == along else 1 for d in range(len(sizes)))
    bias: int | None = None
    if r.bias == "float":
        bias = made.constant((rng.standard_normal(outputs) * float(sy[0]) * 20).astype(np.float32))
    elif r.bias == "int32":
        scale = (sx * sw).astype(np.float32)
        integers = rng.integers(-40, 40, outputs) * max(1, int(float(sy[0]) / float(scale[0])))
        bias = made.dequantised(
            made.constant(integers.astype(np.int32)), TensorDesc("INT32", beside), scale, None, "of b", along
        )
    activation = dml.ActivationRelu() if r.clamp == "fused" else None
    if product:
        strides = tuple(int(d == along) for d in range(len(sizes)))
        desc: Any = dml.Gemm(
            a_tensor=real(r.sizes),
            b_tensor=real(shape),
            c_tensor=None if bias is None else TensorDesc("FLOAT32", sizes, strides=strides),
            output_tensor=real(sizes),
            trans_b=MatrixTransform.TRANSPOSE if r.transposed else MatrixTransform.NONE,
            fused_activation=activation,
        )
    else:
        every = len(r.filters) - 1
        desc = dml.Convolution(
            input_tensor=real(r.sizes),
            filter_tensor=real(shape),
            bias_tensor=None if bias is None else real(beside),
            output_tensor=real(sizes),
            strides=(r.stride,) * every,
            dilations=(r.dilation,) * every,
            start_padding=(r.padding,) * every,
            end_padding=(r.padding,) * every,
            output_padding=(0,) * every,
            group_count=r.groups,
            fused_activation=activation,
        )
    last = made.call(desc, "sums", of_x, of_w, bias)
    inputs = {"x": x}
    t = real(sizes)
    if r.added:
        other = rng.integers(np.iinfo(r.y).min, np.iinfo(r.y).max + 1, sizes).astype(r.y)
        inputs["other"] = other
        of_other = made.dequantised("other", TensorDesc(DataType.of(r.y), sizes), so, zeros[3], "of other")
        last = made.call(dml.ElementWiseAdd(a_tensor=t, b_tensor=t, output_tensor=t), "added", last, of_other)
    if r.clamp == "relu":
        last = made.call(dml.ActivationRelu(input_tensor=t, output_tensor=t), "relu", last)
    elif r.clamp == "clip":
        low, high = -17 * float(sy[0]), 37.5 * float(sy[0])
        last = made.call(dml.ElementWiseClip(input_tensor=t, output_tensor=t, min=low, max=high), "clip", last)
    zero_y = np.zeros(1, r.y) if zeros[2] is None and r.y == INT8 else zeros[2]
    made.output(made.quantised(last, sizes, sy, zero_y, r.y, "q"), "y")
    return Case(made.desc(), inputs, sizes, r.y)


def _elements(r: Recipe, sizes: Sequence[int], dtype: Any, rng: np.random.Generator) -> Array:
    ends = np.iinfo(dtype)
    if r.data == "ends":
        return rng.choice(np.array([ends.min, ends.max]), sizes).astype(dtype)
    if r.data == "small":
        return (rng.integers(-3, 4, sizes) + (ends.min + ends.max + 1) // 2).astype(dtype)
    return rng.integers(ends.min, ends.max + 1, sizes).astype(dtype)


def _zero(r: Recipe, dtype: Any, rng: np.random.Generator) -> Array | None:
    ends = np.iinfo(dtype)
    if r.zero == "none":
        return None
    return np.array([rng.choice((ends.min, ends.max)) if r.zero == "ends" else rng.integers(ends.min, ends.max + 1)], dtype)


def _scales(r: Recipe, k: int, count: int, rng: np.random.Generator) -> list[Array]:
    """The scales of x, weights, output and added tensor, with which most sums are in the output's range."""
    root = 74.0**2 * np.sqrt(k) / r.spread  # the standard deviation of the sums, relative to spread
    if r.scales == "powers":
        exponents = [rng.integers(-9, -3, 1), rng.integers(-9, -7, count)]
        x, w = (np.ldexp(1.0, e) for e in exponents)
        y, other = (np.exp2(np.rint(np.log2(x[0] * w[0] * root))) * 2.0**shift for shift in (0, -1))
    elif r.scales == "decimal":
        x, w = (rng.choice(DECIMALS, 1), rng.choice(DECIMALS, count))
        y = float(f"{x[0] * w[0] * root:.1g}")
        other = rng.choice((y, y / 2))
    else:
        x, w = rng.uniform(0.001, 0.1, 1), rng.uniform(0.001, 0.1, count)
        y, other = x[0] * w[0] * root, x[0] * w[0] * root * rng.uniform(0.1, 1)
        if r.scales == "ties":  # a factor of nearly 1 / q, for an even q
            x, w = (v.astype(np.float32).astype(np.float64) for v in (x, w))
            y = x[0] * w[0] * 2 * max(1, round(root / 2))
    return [np.array(v, np.float32).reshape(-1) for v in (x, w, y, other)]


def sure_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every estimate leave every output undecided."""
    estimate = bounds.estimate

    def unsure(*arguments: Any) -> Any:
        made = estimate(*arguments)
        assert not isinstance(made, str)
        return made._replace(limit=np.full_like(made.limit, -1))

    monkeypatch.setattr(bounds, "estimate", unsure)
