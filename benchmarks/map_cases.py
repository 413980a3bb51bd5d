"""Maps to be timed: the desc, the names of the same function in NumPy and onnxruntime, and the required figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from anydml.kernels.elementwise import undecided
from anydml.schema.operator import Desc

Array = NDArray[Any]
NUMPY, ONNXRUNTIME, TORCH, BEST = "numpy", "onnxruntime", "torch", "best peer"
CACHE, MEMORY = "cache", "memory"
MOST_HOSTILE = 3  # times the time of normal data
BYTES = {CACHE: 256 << 10, MEMORY: 256 << 20}


@dataclass(frozen=True)
class Case:
    """A function. inputs: makes arrays from a count, in the order of the operator's inputs.

    numpy: called with the inputs and `out=`. onnx: the node, its attributes, and constants that follow the inputs. asked: for
    "cache" and "memory", the least ratio of another library's time to ours, by library.
    """

    name: str
    operator: type[Desc]
    inputs: Callable[[int], tuple[Array, ...]]
    output: type[np.generic] = np.float32
    attributes: Mapping[str, Any] = field(default_factory=dict)
    numpy: Callable[..., object] | None = None
    onnx: str | None = None
    node: Mapping[str, Any] = field(default_factory=dict)
    constants: tuple[Array, ...] = ()
    torch: str | None = None
    asked: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    shape: tuple[int, ...] = ()

    def desc(self, arrays: tuple[Array, ...], out: Array) -> Desc:
        names = [f.name for f in self.operator.spec.inputs][: len(arrays)]
        tensors = {name: dml.TensorDesc.of(x) for name, x in zip(names, arrays, strict=True)}
        output = self.operator.spec.outputs[0].name
        return self.operator(**tensors, **{output: dml.TensorDesc.of(out)}, **self.attributes)

    def named(self, arrays: tuple[Array, ...], out: Array) -> dict[str, Array]:
        names = [f.name for f in self.operator.spec.inputs][: len(arrays)]
        return dict(zip(names, arrays, strict=True)) | {self.operator.spec.outputs[0].name: out}


def bound(case: Case, arrays: tuple[Array, ...], out: Array, isa: str | None = None) -> tuple[str, Callable[[], object]]:
    """The name of the kernel, and its call on one thread. isa: the instruction set, by default the best."""
    compiled = dml.Device(threads=1, isa=isa).compile(case.desc(arrays, out))
    return compiled.kernel_name, compiled.bind(**case.named(arrays, out)).execute


def left(call: Callable[[], object]) -> int:
    """The outputs of a call that were decided in Python."""
    exactly, found = undecided.exactly, []

    def counted(formula: Any, types: Any, target: Any, inputs: Any) -> Any:
        found.append(len(inputs))
        return exactly(formula, types, target, inputs)

    undecided.exactly = counted
    try:
        call()
    finally:
        undecided.exactly = exactly
    return sum(found)


def normal(count: int, arrays: int = 1, scale: float = 1.0, dtype: Any = np.float32) -> tuple[Array, ...]:
    """`count` normally distributed elements, which repeat after 2^20."""
    rng = np.random.default_rng(count & 0xFF)
    found = []
    for _ in range(arrays):
        few = (rng.standard_normal(min(count, 1 << 20)) * scale).astype(np.float32)
        found.append(np.resize(few, count).astype(dtype, copy=False))
    return tuple(found)


def _two(count: int) -> tuple[Array, ...]:
    return normal(count, 2)


def _positive(count: int) -> tuple[Array, ...]:
    return (np.exp(normal(count)[0]),)


def _power(count: int) -> tuple[Array, ...]:
    return _positive(count)[0], normal(count, 2)[1]


def _integers(dtype: Any, arrays: int = 1) -> Callable[[int], tuple[Array, ...]]:
    def make(count: int) -> tuple[Array, ...]:
        return tuple((x * 50).astype(dtype) for x in normal(count, arrays))

    return make


def _scaled(count: int) -> tuple[Array, ...]:
    return normal(count, scale=50)


def _magnitudes(count: int) -> tuple[Array, ...]:
    return (np.abs(_scaled(count)[0]),)


def _halves(count: int) -> tuple[Array, ...]:
    return normal(count, dtype=np.float16)


def _clip(x: Array, out: Array) -> object:
    return np.clip(x, -0.5, 0.5, out=out)


def _relu(x: Array, out: Array) -> object:
    return np.maximum(x, 0, out=out)


def _less(a: Array, b: Array, out: Array) -> object:
    return np.less(a, b, out=out.view(np.bool_))


def _equal(a: Array, b: Array, out: Array) -> object:
    return np.equal(a, b, out=out.view(np.bool_))


def _cast(x: Array, out: Array) -> None:
    np.copyto(out, x, casting="unsafe")


LIGHT = {CACHE: {BEST: 0.9}, MEMORY: {BEST: 1.0}}


def heavy(**cache: float) -> dict[str, dict[str, float]]:
    """The required ratios of a function: in cache as given, in memory 0.95 of the best library."""
    return {CACHE: {peer.replace("_", " "): ratio for peer, ratio in cache.items()}, MEMORY: {BEST: 0.95}}


CASES = (
    Case("add", dml.ElementWiseAdd, _two, numpy=np.add, onnx="Add", torch="add", asked=LIGHT),
    Case("multiply", dml.ElementWiseMultiply, _two, numpy=np.multiply, onnx="Mul", torch="mul", asked=LIGHT),
    Case("max", dml.ElementWiseMax, _two, numpy=np.maximum, onnx="Max", torch="maximum", asked=LIGHT),
    Case(
        "clip",
        dml.ElementWiseClip,
        normal,
        attributes={"min": -0.5, "max": 0.5},
        numpy=_clip,
        onnx="Clip",
        constants=(np.array(-0.5, np.float32), np.array(0.5, np.float32)),
        asked=LIGHT,
    ),
    Case("relu", dml.ActivationRelu, normal, numpy=_relu, onnx="Relu", torch="relu", asked=LIGHT),
    Case(
        "less than",
        dml.ElementWiseLogicalLessThan,
        _two,
        output=np.uint8,
        numpy=_less,
        onnx="Less",
        torch="lt",
        asked=LIGHT,
    ),
    Case("equals", dml.ElementWiseLogicalEquals, _two, output=np.uint8, numpy=_equal, onnx="Equal", torch="eq", asked=LIGHT),
    Case("add int32", dml.ElementWiseAdd, _integers(np.int32, 2), output=np.int32, numpy=np.add, onnx="Add", asked=LIGHT),
    Case("add uint8", dml.ElementWiseAdd, _integers(np.uint8, 2), output=np.uint8, numpy=np.add, asked=LIGHT),
    Case("max int16", dml.ElementWiseMax, _integers(np.int16, 2), output=np.int16, numpy=np.maximum, asked=LIGHT),
    Case("cast float32 to int32", dml.Cast, _scaled, output=np.int32, numpy=_cast, onnx="Cast", asked=LIGHT),
    Case("cast int32 to float32", dml.Cast, _integers(np.int32), numpy=_cast, onnx="Cast", asked=LIGHT),
    Case("cast uint8 to float32", dml.Cast, _integers(np.uint8), numpy=_cast, onnx="Cast", asked=LIGHT),
    Case("cast float32 to uint8", dml.Cast, _magnitudes, output=np.uint8, numpy=_cast, onnx="Cast", asked=LIGHT),
    Case("cast float32 to float16", dml.Cast, normal, output=np.float16, numpy=_cast, onnx="Cast", asked=LIGHT),
    Case("cast float16 to float32", dml.Cast, _halves, numpy=_cast, onnx="Cast", asked=LIGHT),
    Case("exp", dml.ElementWiseExp, normal, numpy=np.exp, onnx="Exp", torch="exp", asked=heavy(onnxruntime=0.65, numpy=1.3)),
    Case("log", dml.ElementWiseLog, _positive, numpy=np.log, onnx="Log", torch="log", asked=heavy(onnxruntime=3, numpy=0.75)),
    Case("tanh", dml.ActivationTanh, normal, numpy=np.tanh, onnx="Tanh", torch="tanh", asked=heavy(onnxruntime=0.5)),
    Case("sigmoid", dml.ActivationSigmoid, normal, onnx="Sigmoid", torch="sigmoid", asked=heavy(onnxruntime=0.7)),
    Case("erf", dml.ElementWiseErf, normal, onnx="Erf", torch="erf", asked=heavy(best_peer=0.5)),
    Case("gelu", dml.ActivationGelu, normal, onnx="Gelu", asked=heavy(onnxruntime=0.55)),
    Case("sin", dml.ElementWiseSin, normal, numpy=np.sin, onnx="Sin", torch="sin", asked=heavy(best_peer=0.5)),
    Case("cos", dml.ElementWiseCos, normal, numpy=np.cos, onnx="Cos", torch="cos", asked=heavy(best_peer=0.5)),
    Case("pow", dml.ElementWisePow, _power, numpy=np.power, onnx="Pow", torch="pow", asked=heavy(best_peer=0.5)),
)


def rows(height: int, width: int) -> Case:
    """Softmax of the rows of a matrix."""

    def inputs(count: int) -> tuple[Array, ...]:
        return tuple(x.reshape(height, width) for x in normal(height * width))

    return Case(
        f"softmax {height} x {width}",
        dml.ActivationSoftmax1,
        inputs,
        attributes={"axis_count": 1, "axes": (1,)},
        onnx="Softmax",
        node={"axis": 1},
        torch="softmax",
        asked={CACHE: {ONNXRUNTIME: 0.45, TORCH: 0.85}},
        shape=(height, width),
    )


ROWS = (rows(1000, 1000), rows(128, 4096))


def layouts() -> dict[str, tuple[Array, ...]]:
    """Inputs of two terms that are not contiguous: strides, transposition, broadcasting."""
    (x,) = normal(2048 * 2048)
    square, (y,) = x.reshape(2048, 2048), normal(1024 * 1024)
    small = y.reshape(1024, 1024)
    image = normal(8 * 64 * 56 * 56)[0].reshape(8, 64, 56, 56)
    vector = x[:1024]

    def to(shape: tuple[int, ...], a: Array) -> Array:
        return np.broadcast_to(a, shape)

    return {
        "every 2nd column": (square[:1024, ::2], small),
        "every 3rd column": (square[:1024, : 3 * 682 : 3], small[:, :682]),
        "every 2nd row": (square[::2, :1024], small),
        "crop": (square[3:1000, 5:1000], small[:997, :995]),
        "transposed": (small.T, small),
        "both transposed": (small.T, small[::-1].copy().T),
        "a row": (small, to(small.shape, vector)),
        "a column": (small, to(small.shape, vector[:, None])),
        "a row and a column": (to(small.shape, vector), to(small.shape, vector[:, None])),
        "one element": (small, to(small.shape, vector[0])),
        "channels": (image, to(image.shape, vector[:64, None, None])),
        "channels last": (image.transpose(0, 2, 3, 1), to((8, 56, 56, 64), vector[:64])),
        "rows of 7": (small[:, :1022].reshape(-1, 7), to((1024 * 146, 7), vector[:7])),
        "columns of 7": (small[:, :1022].reshape(-1, 7), to((1024 * 146, 7), np.resize(vector, 1024 * 146)[:, None])),
    }


def hostile() -> dict[str, tuple[Case, tuple[Array, ...], tuple[Array, ...]]]:
    """Name -> (the function, normal data, data that leave many elements undecided): ties, exact zeros, equal terms."""
    count = 1 << 18
    (x,) = normal(count)
    rng = np.random.default_rng(1)
    by = {case.name: case for case in CASES}
    whole = rng.integers(-4, 5, count).astype(np.float32)
    # sums close to ties of float32: a large number plus half of its last digit
    large = np.ldexp(rng.integers(1 << 23, 1 << 24, count).astype(np.float32), 0)
    half = np.full(count, 0.5, np.float32)
    squares = np.ldexp(rng.integers(1 << 12, 1 << 13, count) | 1, -12).astype(np.float32)
    tiny = np.ldexp(rng.standard_normal(count).astype(np.float32), -40)
    found: dict[str, tuple[Case, tuple[Array, ...], tuple[Array, ...]]] = {
        "add: ties": (by["add"], (x, x), (large, half)),
        "multiply: ties": (by["multiply"], (x, x), (squares, squares)),
        "pow: exact squares": (by["pow"], _power(count), (squares, np.full(count, 2, np.float32))),
        "pow: exponents of 1": (by["pow"], _power(count), (squares, np.ones(count, np.float32))),
    }
    for name in ("exp", "tanh", "sigmoid", "erf", "gelu", "sin", "cos"):
        found[f"{name}: integers and zeros"] = (by[name], (x,), (whole,))
        found[f"{name}: next to zero"] = (by[name], (x,), (tiny,))
    found["log: powers of two"] = (by["log"], _positive(count), (np.ldexp(np.float32(1), rng.integers(-9, 9, count)),))
    found["log: next to one"] = (by["log"], _positive(count), ((1 + tiny * 2**15).astype(np.float32),))
    softmax = rows(256, 1024)
    matrix = x.reshape(256, 1024)
    found["softmax: constant rows"] = (softmax, (matrix,), (np.repeat(x[:256, None], 1024, 1),))
    few = rows(1 << 16, 4)
    found["softmax: sums of few terms"] = (few, (x.reshape(-1, 4),), (whole.reshape(-1, 4),))
    return found


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))
