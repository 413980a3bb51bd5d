"""A model of one node for each operator of TensorFlow Lite, with its results by Python's fractions and gmpy2.

The results are the mathematics of the documentation: integers stand for (integer - zero point) * scale, the operator computes
with real numbers, and its output is quantised once, half to even.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from lite_models import Writer
from oracle.numbers import exact, half_even, stored

Array = NDArray[Any]
Reals = Any  # an array of fractions
ZERO: Any = Fraction(0)
BITS = 200  # of functions that are not rational


@dataclass(frozen=True)
class Spec:
    """A tensor. scale: of integers that stand for other numbers. constant: whether it is in the file; else it is an input."""

    dtype: str
    sizes: tuple[int, ...]
    scale: Any = None
    zero_point: int = 0
    axis: int = 0
    constant: Any = None
    low: int | None = None  # the least integer that is drawn

    def drawn(self, random: np.random.Generator) -> Array:
        if isinstance(self.constant, np.ndarray):
            return self.constant.astype(self.dtype)
        dtype = np.dtype(self.dtype)
        if dtype.kind == "f":
            return random.normal(size=self.sizes).astype(dtype)
        if dtype.kind == "b":
            return random.integers(0, 2, self.sizes).astype(dtype)
        limits = np.iinfo(dtype)
        small = self.scale is None or dtype.itemsize > 2
        ends = (-1000, 1000) if small and dtype.itemsize > 2 else (limits.min, limits.max)
        return random.integers(ends[0] if self.low is None else self.low, ends[1], self.sizes, endpoint=True).astype(dtype)

    def reals(self, x: Array) -> Reals:
        """The numbers that elements stand for."""
        found: Reals = np.vectorize(lambda v: Fraction(v.item() if hasattr(v, "item") else v), otypes=[object])(x)
        if self.scale is None:
            return found
        scales = np.atleast_1d(np.asarray(self.scale, np.float32))
        shape = [-1 if scales.size > 1 and a == self.axis else 1 for a in range(x.ndim)]
        factors = np.array([Fraction(float(s)) for s in scales], object).reshape(shape)
        return (found - self.zero_point) * factors

    def stored(self, reals: Reals) -> Array:
        """Numbers as the tensor's elements."""
        dtype = np.dtype(self.dtype)
        if dtype.kind == "f":
            return stored(map(exact, reals.reshape(-1).tolist()), reals.shape, dtype)
        if dtype.kind == "b":
            return np.asarray(reals, bool)
        limits = np.iinfo(dtype)
        scale = Fraction(1) if self.scale is None else Fraction(float(np.float32(self.scale)))

        def one(r: Fraction) -> int:
            return min(max(half_even(r / scale) + self.zero_point, int(limits.min)), int(limits.max))

        made: Array = np.vectorize(one, otypes=[dtype])(reals).astype(dtype)
        return made


@dataclass(frozen=True)
class Case:
    """A node. reference: a function of the inputs' numbers that gives those of the outputs, before a fused activation."""

    name: str
    operator: str
    inputs: tuple[Spec | None, ...]
    outputs: tuple[Spec, ...]
    reference: Callable[..., Any]
    options: str = ""
    members: Mapping[str, Any] = field(default_factory=dict)

    def made(self, seed: int) -> tuple[bytes, dict[str, Array], dict[str, Array]]:
        """The file, its inputs and its exact outputs."""
        random = np.random.default_rng(seed)
        arrays = [None if s is None else s.drawn(random) for s in self.inputs]
        writer, given, numbers = Writer(), {}, []
        for i, (s, x) in enumerate(zip(self.inputs, arrays, strict=True)):
            if s is None or x is None:
                numbers.append(-1)
                continue
            fixed = s.constant is not None
            held = x if fixed else None
            numbers.append(writer.tensor(f"in{i}", s.dtype, s.sizes, s.scale, s.zero_point, s.axis, held))
            if not fixed:
                given[f"in{i}"] = x
        ends = [writer.tensor(f"out{i}", s.dtype, s.sizes, s.scale, s.zero_point) for i, s in enumerate(self.outputs)]
        writer.node(self.operator, numbers, ends, self.options, **self.members)
        reals = [None if s is None or x is None else s.reals(x) for s, x in zip(self.inputs, arrays, strict=True)]
        found = self.reference(*reals)
        results = found if isinstance(found, (list, tuple)) else [found]
        results = [fused(r, self.members.get("FusedActivationFunction", 0)) for r in results]
        due = {f"out{i}": s.stored(np.asarray(r, object)) for i, (s, r) in enumerate(zip(self.outputs, results, strict=True))}
        inputs = [n for n, s in zip(numbers, self.inputs, strict=True) if s is not None and s.constant is None]
        return writer.model(inputs, ends), given, due


def fused(x: Reals, activation: int) -> Reals:
    bounds: dict[int, tuple[Any, Any]] = {0: (None, None), 1: (0, None), 2: (-1, 1), 3: (0, 6)}
    low, high = bounds[activation]
    x = x if low is None else np.maximum(x, low + ZERO)
    return x if high is None else np.minimum(x, high + ZERO)


# --- references ---


def function(f: Callable[[Any], Any]) -> Any:
    """A function of gmpy2's numbers, of each element."""

    def one(x: Fraction) -> Fraction:
        with gmpy2.context(gmpy2.get_context(), precision=BITS):
            numerator, denominator = f(gmpy2.mpfr(x.numerator) / x.denominator).as_integer_ratio()
        return Fraction(int(numerator), int(denominator))

    return np.vectorize(one, otypes=[object])


def padding(size: int, k: int, stride: int, dilation: int, same: bool) -> tuple[int, int]:
    """The elements before the first one, and the output's size."""
    span = (k - 1) * dilation + 1
    if not same:
        return 0, (size - span) // stride + 1
    count = -(-size // stride)
    return max((count - 1) * stride + span - size, 0) // 2, count


def places(x: Reals, k: Sequence[int], strides: Sequence[int], dilations: Sequence[int], same: bool) -> Iterator[Any]:
    """For every output position: its index, and the index of each element of the window that is inside."""
    ends = [padding(n, *window, same) for n, window in zip(x.shape[1:3], zip(k, strides, dilations, strict=True), strict=True)]
    for n, *o in np.ndindex(x.shape[0], *(count for _, count in ends)):
        inside = []
        for u in np.ndindex(*k):
            at = [a * s + b * d - e[0] for a, s, b, d, e in zip(o, strides, u, dilations, ends, strict=True)]
            if all(0 <= a < size for a, size in zip(at, x.shape[1:3], strict=True)):
                inside.append((u, (n, *at)))
        yield (n, *o), inside


def conv(strides: Sequence[int], dilations: Sequence[int] = (1, 1), same: bool = True) -> Callable[..., Reals]:
    def reference(x: Reals, w: Reals, b: Reals | None = None) -> Reals:
        of_group, m = w.shape[3], w.shape[0]
        per = m // (x.shape[3] // of_group)
        found: dict[Any, Any] = {}
        for at, inside in places(x, w.shape[1:3], strides, dilations, same):
            for c in range(m):
                group = slice(c // per * of_group, c // per * of_group + of_group)
                place = (*at, c)
                found[place] = sum((x[p][group] * w[c][u]).sum() for u, p in inside) + (0 if b is None else b[c])
        return _array(found)

    return reference


def depthwise(strides: Sequence[int], dilations: Sequence[int] = (1, 1), same: bool = True) -> Callable[..., Reals]:
    def reference(x: Reals, w: Reals, b: Reals) -> Reals:
        per = w.shape[3] // x.shape[3]
        found: dict[Any, Any] = {}
        for at, inside in places(x, w.shape[1:3], strides, dilations, same):
            for c in range(w.shape[3]):
                place = (*at, c)
                found[place] = sum(x[p][c // per] * w[0][u][c] for u, p in inside) + b[c]
        return _array(found)

    return reference


def transposed(sizes: Sequence[int], strides: Sequence[int], same: bool) -> Callable[..., Reals]:
    def reference(_: Reals, w: Reals, x: Reals, b: Reals | None = None) -> Reals:
        found = np.full(sizes, Fraction(0), object)
        start = [padding(n, k, s, 1, same)[0] for n, k, s in zip(sizes[1:3], w.shape[1:3], strides, strict=True)]
        for n, i, j in np.ndindex(*x.shape[:3]):
            for u, v in np.ndindex(*w.shape[1:3]):
                at = i * strides[0] + u - start[0], j * strides[1] + v - start[1]
                if all(0 <= a < m for a, m in zip(at, sizes[1:3], strict=True)):
                    for c in range(w.shape[0]):
                        found[n][at][c] += (x[n, i, j] * w[c, u, v]).sum()
        return found if b is None else found + b

    return reference


def pooled(k: Sequence[int], strides: Sequence[int], same: bool, of: Callable[[Any], Any]) -> Callable[[Reals], Reals]:
    def reference(x: Reals) -> Reals:
        found = {}
        for at, inside in places(x, k, strides, (1, 1), same):
            for c in range(x.shape[3]):
                place = (*at, c)
                found[place] = of([x[p][c] for _, p in inside])
        return _array(found)

    return reference


def _array(found: Mapping[Any, Any]) -> Reals:
    made = np.empty([max(at[a] for at in found) + 1 for a in range(len(next(iter(found))))], object)
    for at, value in found.items():
        made[at] = value
    return made


def mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def softmax(x: Reals, logarithm: bool = False) -> Reals:
    found = np.empty(x.shape, object)
    for at in np.ndindex(*x.shape[:-1]):
        with gmpy2.context(gmpy2.get_context(), precision=BITS):
            powers = [gmpy2.exp(gmpy2.mpfr(v.numerator) / v.denominator) for v in x[at] - max(x[at])]
            total = sum(powers)
            for k, p in enumerate(powers):
                value = gmpy2.log(p / total) if logarithm else p / total
                numerator, denominator = value.as_integer_ratio()
                found[at][k] = Fraction(int(numerator), int(denominator))
    return found


def resized(height: int, width: int, corners: bool, centres: bool, linear: bool) -> Callable[..., Reals]:
    def place(o: int, n: int, m: int) -> Fraction:
        if corners and m > 1:
            return Fraction(o * (n - 1), m - 1)
        return Fraction((2 * o + 1) * n, 2 * m) - Fraction(1, 2) if centres else Fraction(o * n, m)

    def nearest(o: int, n: int, m: int) -> int:
        if corners and m > 1:
            return min(math.floor(place(o, n, m) + Fraction(1, 2)), n - 1)
        return min(math.floor(place(o, n, m) + (Fraction(1, 2) if centres else 0)), n - 1)

    def taps(o: int, n: int, m: int) -> list[tuple[int, Fraction]]:
        if not linear:
            return [(nearest(o, n, m), Fraction(1))]
        at = max(place(o, n, m), Fraction(0))
        low = math.floor(at)
        return [(min(low, n - 1), 1 - (at - low)), (min(low + 1, n - 1), at - low)]

    def reference(x: Reals, _: Reals) -> Reals:
        found = np.full((x.shape[0], height, width, x.shape[3]), Fraction(0), object)
        for i, j in np.ndindex(height, width):
            for (a, p), (b, q) in itertools.product(taps(i, x.shape[1], height), taps(j, x.shape[2], width)):
                found[:, i, j] += x[:, a, b] * (p * q)
        return found

    return reference


# --- cases ---

LITE = {"int8": 0.05, "uint8": 0.05, "int16": 0.0002, "float32": None}


def t(dtype: str, *sizes: int, scale: Any = None, zero: int = 0, **more: Any) -> Spec:
    """A tensor with a usual scale of its type."""
    if LITE.get(dtype) is None:
        return Spec(dtype, sizes, **more)
    return Spec(dtype, sizes, LITE[dtype] if scale is None else scale, 0 if dtype == "int16" else zero, **more)


def fixed(values: Any, dtype: str = "int32") -> Spec:
    array = np.asarray(values, dtype)
    return Spec(dtype, array.shape, constant=array)


def weights(dtype: str, *sizes: int, axis: int = 0, each: bool = True) -> Spec:
    if dtype == "float32":
        return Spec(dtype, sizes, constant=True)
    scales = [0.01 * (i + 2) for i in range(sizes[axis])] if each else 0.013
    zero = 0 if dtype != "uint8" else 120
    return Spec("uint8" if dtype == "uint8" else "int8", sizes, scales, zero, axis, constant=True)


def bias(x: Spec, w: Spec, count: int) -> Spec:
    if w.scale is None:
        return Spec("float32", (count,), constant=True)
    scales = np.float32(x.scale) * np.atleast_1d(np.asarray(w.scale, np.float32))
    return Spec("int64" if x.dtype == "int16" else "int32", (count,), scales, constant=True)


def _windows() -> Iterator[Case]:
    for dtype in ("int8", "uint8", "int16", "float32"):
        x, y = t(dtype, 2, 5, 6, 4, zero=7), t(dtype, 2, 3, 3, 6, scale=0.11 if dtype != "int16" else 0.0009, zero=-5 % 128)
        each = dtype != "uint8"
        w = weights(dtype, 6, 3, 2, 4, each=each)
        options = dict(StrideH=2, StrideW=2, DilationHFactor=1, DilationWFactor=2, FusedActivationFunction=1)
        yield Case(f"conv {dtype}", "CONV_2D", (x, w, bias(x, w, 6)), (y,), conv((2, 2), (1, 2)), "Conv2DOptions", options)
        w = weights(dtype, 1, 3, 3, 8, axis=3, each=each)
        y = t(dtype, 2, 3, 4, 8, scale=0.08 if dtype != "int16" else 0.0005, zero=3)
        options = dict(
            StrideH=1, StrideW=1, DilationHFactor=1, DilationWFactor=1, DepthMultiplier=2, Padding=1, FusedActivationFunction=3
        )
        yield Case(
            f"depthwise {dtype}", "DEPTHWISE_CONV_2D", (x, w, bias(x, w, 8)), (y,), depthwise((1, 1), same=False),
            "DepthwiseConv2DOptions", options,
        )  # fmt: skip
        x, w = t(dtype, 3, 2, 5, zero=-9 % 256 if dtype == "uint8" else -9), weights(dtype, 4, 10, each=each)
        y = t(dtype, 3, 4, scale=0.07 if dtype != "int16" else 0.0004, zero=11)
        yield Case(
            f"fully connected {dtype}", "FULLY_CONNECTED", (x, w, bias(x, w, 4)), (y,),
            lambda x, w, b: x.reshape(3, 10) @ w.T + b, "FullyConnectedOptions", dict(FusedActivationFunction=2),
        )  # fmt: skip
        x = t(dtype, 1, 5, 5, 3, zero=4)
        y = t(dtype, 1, 3, 3, 3, zero=4)
        pool = dict(StrideH=2, StrideW=2, FilterHeight=3, FilterWidth=2)
        for name, of in (("AVERAGE", mean), ("MAX", max)):
            yield Case(
                f"{name} pool {dtype}".lower(), f"{name}_POOL_2D", (x,), (y,), pooled((3, 2), (2, 2), True, of),
                "Pool2DOptions", pool,
            )  # fmt: skip
    for dtype, same in itertools.product(("int8", "int16", "float32"), (True, False)):
        x, w, sizes = t(dtype, 1, 3, 4, 2, zero=-3), weights(dtype, 3, 3, 2, 2), (1, 6, 8, 3) if same else (1, 7, 8, 3)
        y = t(dtype, *sizes, scale=0.09 if dtype != "int16" else 0.0006, zero=1)
        yield Case(
            f"transposed {dtype} {'same' if same else 'valid'}", "TRANSPOSE_CONV",
            (fixed(sizes), w, x, bias(x, w, 3)), (y,), transposed(sizes, (2, 2), same),
            "TransposeConvOptions", dict(StrideH=2, StrideW=2, Padding=0 if same else 1),
        )  # fmt: skip


def _maths() -> Iterator[Case]:
    pairs: dict[str, Callable[..., Any]] = {
        "ADD": lambda a, b: a + b, "SUB": lambda a, b: a - b, "MUL": lambda a, b: a * b, "DIV": lambda a, b: a / b,
    }  # fmt: skip
    for (name, f), dtype in itertools.product(pairs.items(), ("int8", "uint8", "int16", "float32")):
        low = 5 if name == "DIV" and dtype != "float32" else None
        a, b = t(dtype, 2, 3, 4, zero=2), t(dtype, 3, 1, scale=0.03 if dtype != "int16" else 0.0001, zero=1, low=low)
        y = t(dtype, 2, 3, 4, scale=0.11 if dtype != "int16" else 0.0005, zero=3)
        yield Case(f"{name} {dtype}".lower(), name, (a, b), (y,), f, f"{name.title()}Options", dict(FusedActivationFunction=0))
    x = t("int8", 2, 3, 4, zero=2)
    y = t("int8", 2, 3, 4, scale=0.5, zero=-128)
    yield Case(
        "squared difference", "SQUARED_DIFFERENCE", (x, t("int8", 4, scale=0.03, zero=1)), (y,), lambda a, b: (a - b) ** 2
    )
    slope = Spec("int8", (4,), 0.01, 5, constant=True)
    yield Case("prelu", "PRELU", (x, slope), (x,), lambda x, s: np.where(x < 0, x * s, x))
    functions: dict[str, tuple[Callable[[Any], Any], float, int]] = {
        "LOGISTIC": (function(lambda v: 1 / (1 + gmpy2.exp(-v))), 1 / 256, -128),
        "TANH": (function(gmpy2.tanh), 1 / 128, 0),
        "ELU": (function(lambda v: gmpy2.expm1(v) if v < 0 else v), 0.05, -100),
        "GELU": (function(lambda v: v * (1 + gmpy2.erf(v / gmpy2.sqrt(gmpy2.mpfr(2)))) / 2), 0.05, -100),
        "EXP": (function(gmpy2.exp), 2.0, -128),
        "HARD_SWISH": (lambda x: x * np.minimum(np.maximum(x + 3, ZERO), ZERO + 6) / 6, 0.05, -100),
        "LEAKY_RELU": (lambda x: np.where(x < 0, x * Fraction(float(np.float32(0.3))), x), 0.04, 3),
        "RELU": (lambda x: np.maximum(x, ZERO), 0.04, -128),
        "RELU6": (lambda x: np.minimum(np.maximum(x, ZERO), ZERO + 6), 0.03, -128),
        "RELU_N1_TO_1": (lambda x: np.minimum(np.maximum(x, ZERO - 1), ZERO + 1), 0.05, 7),
    }
    for name, (f, scale, zero) in functions.items():
        options = ("LeakyReluOptions", dict(Alpha=0.3)) if name == "LEAKY_RELU" else ("", {})
        x, y = t("int8", 5, 7, zero=7), Spec("int8", (5, 7), scale, zero)
        yield Case(f"{name} int8".lower(), name, (x,), (y,), f, *options)
        if name in ("LOGISTIC", "TANH", "LEAKY_RELU"):
            x, y = t("int16", 5, 7), Spec("int16", (5, 7), 1 / 32768)
            yield Case(f"{name} int16".lower(), name, (x,), (y,), f, *options)
        if name != "ELU":
            yield Case(f"{name} float32".lower(), name, (t("float32", 5, 7),), (t("float32", 5, 7),), f, *options)
    for dtype, share, zero in (("int8", 1 / 256, -128), ("uint8", 1 / 256, 0), ("int16", 1 / 32768, 0), ("float32", None, 0)):
        x, y = t(dtype, 3, 9, zero=20), Spec(dtype, (3, 9), share, zero)
        yield Case(f"softmax {dtype}", "SOFTMAX", (x,), (y,), softmax, "SoftmaxOptions", dict(Beta=1.0))
    yield Case(
        "log softmax int8", "LOG_SOFTMAX", (t("int8", 3, 9, zero=20),), (Spec("int8", (3, 9), 16 / 256, 127),),
        lambda x: softmax(x, True),
    )  # fmt: skip
    for dtype, keep in (("int8", True), ("int8", False), ("int16", False), ("float32", True)):
        x = t(dtype, 2, 3, 4, 5, zero=5)
        y = t(dtype, *((2, 1, 1, 5) if keep else (2, 5)), scale=0.02 if dtype == "int8" else 0.0001, zero=-3)
        shape = (2, 1, 1, 5) if keep else (2, 5)
        for name, share in (("MEAN", 12), ("SUM", 1)):
            if name == "SUM" and dtype == "int16":
                continue
            yield Case(
                f"{name} {dtype} {keep}".lower(), name, (x, fixed([1, 2])), (y,),
                lambda x, _, share=share, shape=shape: (x.sum(axis=(1, 2)) / share).reshape(shape),
                "ReducerOptions", dict(KeepDims=keep),
            )  # fmt: skip
    yield Case("quantize", "QUANTIZE", (t("float32", 40),), (t("int8", 40, scale=0.021, zero=-7),), lambda x: x)
    yield Case("requantize", "QUANTIZE", (t("int8", 40, zero=3),), (t("int16", 40),), lambda x: x)
    yield Case("requantize to 8 bits", "QUANTIZE", (t("int16", 40),), (t("int8", 40, zero=3),), lambda x: x)
    for dtype in ("int8", "uint8", "int16"):
        yield Case(f"dequantize {dtype}", "DEQUANTIZE", (t(dtype, 40, zero=3),), (t("float32", 40),), lambda x: x)
    for dtype in ("int8", "float32"):
        a, b = t(dtype, 2, 3, 4, zero=-2), t(dtype, 2, 5, 4, scale=0.03, zero=4)
        y = t(dtype, 2, 3, 5, scale=0.2, zero=-6)
        yield Case(
            f"matrices {dtype}", "BATCH_MATMUL", (a, b), (y,), lambda a, b: a @ b.transpose(0, 2, 1), "BatchMatMulOptions",
            dict(AdjY=True),
        )  # fmt: skip


def _moves() -> Iterator[Case]:
    x = t("int8", 1, 3, 4, 2, zero=5)
    for dtype, mode in itertools.product(("int8", "int16", "float32"), ((False, False), (True, False), (False, True))):
        x, y = t(dtype, 1, 3, 4, 2, zero=5), t(dtype, 1, 5, 8, 2, zero=5)
        options = dict(AlignCorners=mode[0], HalfPixelCenters=mode[1])
        for name, linear in (("BILINEAR", True), ("NEAREST_NEIGHBOR", False)):
            yield Case(
                f"resize {name} {dtype} {mode}".lower(), f"RESIZE_{name}", (x, fixed([5, 8])), (y,),
                resized(5, 8, *mode, linear),
                "ResizeBilinearOptions" if linear else "ResizeNearestNeighborOptions", options,
            )  # fmt: skip
    x, y = t("int8", 1, 3, 4, 2, zero=5), t("int8", 1, 6, 4, 5, zero=5)
    ends = [[0, 0], [1, 2], [0, 0], [2, 1]]
    filler = Spec("int8", (), 0.05, 5, constant=np.array(17, np.int8))

    def padded(x: Reals, value: Any) -> Reals:
        return np.pad(x, ends, constant_values=value)

    yield Case("pad", "PAD", (x, fixed(ends)), (y,), lambda x, _: padded(x, ZERO), "PadOptions")
    yield Case("pad with a value", "PADV2", (x, fixed(ends), filler), (y,), lambda x, _, v: padded(x, v), "PadV2Options")
    for number, name in enumerate(("reflect", "symmetric")):
        yield Case(
            f"mirror {name}", "MIRROR_PAD", (x, fixed([[0, 0], [1, 2], [0, 0], [1, 1]])), (t("int8", 1, 6, 4, 4, zero=5),),
            lambda x, _, name=name: np.pad(x, [[0, 0], [1, 2], [0, 0], [1, 1]], mode=name),
            "MirrorPadOptions", dict(Mode=number),
        )  # fmt: skip
    a, b = t("int8", 2, 3, zero=1), t("int8", 2, 2, scale=0.09, zero=-9)
    join: Any = lambda *xs: np.concatenate(xs, 1)  # noqa: E731
    yield Case(
        "join", "CONCATENATION", (a, b), (t("int8", 2, 5, scale=0.07, zero=2),), join, "ConcatenationOptions", dict(Axis=-1)
    )
    same = (t("int8", 2, 3, 4, zero=1),)
    yield Case("reshape", "RESHAPE", (*same, fixed([4, -1])), (t("int8", 4, 6, zero=1),), lambda x, _: x.reshape(4, 6))
    yield Case(
        "reshape by options", "RESHAPE", same, (t("int8", 4, 6, zero=1),), lambda x: x.reshape(4, 6), "ReshapeOptions",
        dict(NewShape=[-1, 6]),
    )  # fmt: skip
    yield Case(
        "transpose", "TRANSPOSE", (*same, fixed([2, 0, 1])), (t("int8", 4, 2, 3, zero=1),), lambda x, _: x.transpose(2, 0, 1)
    )
    yield Case(
        "split", "SPLIT", (fixed(2), *same), (t("int8", 2, 3, 2, zero=1),) * 2, lambda _, x: np.split(x, 2, 2), "SplitOptions",
        dict(NumSplits=2),
    )  # fmt: skip
    yield Case(
        "split into parts", "SPLIT_V", (*same, fixed([1, -1]), fixed(1)),
        (t("int8", 2, 1, 4, zero=1), t("int8", 2, 2, 4, zero=1)),
        lambda x, *_: np.split(x, [1], 1), "SplitVOptions", dict(NumSplits=2),
    )  # fmt: skip
    yield Case(
        "pack", "PACK", same * 2, (t("int8", 2, 2, 3, 4, zero=1),), lambda a, b: np.stack([a, b], 1), "PackOptions",
        dict(ValuesCount=2, Axis=1),
    )  # fmt: skip
    yield Case(
        "unpack", "UNPACK", same, (t("int8", 2, 4, zero=1),) * 3, lambda x: [x[:, i] for i in range(3)], "UnpackOptions",
        dict(Num=3, Axis=1),
    )  # fmt: skip
    yield Case(
        "strided slice", "STRIDED_SLICE", (*same, fixed([0, 2, 1]), fixed([1, 0, 4]), fixed([1, -1, 2])),
        (t("int8", 2, 2, zero=1),), lambda x, *_: x[0, 2:0:-1, 1:4:2], "StridedSliceOptions", dict(ShrinkAxisMask=1),
    )  # fmt: skip
    yield Case(
        "strided slice by masks", "STRIDED_SLICE", (*same, fixed([1, 1, 1]), fixed([1, 1, -1]), fixed([1, 1, 1])),
        (t("int8", 2, 1, 2, zero=1),), lambda x, *_: x[:, :1, 1:-1], "StridedSliceOptions", dict(BeginMask=3, EndMask=1),
    )  # fmt: skip
    yield Case(
        "slice", "SLICE", (*same, fixed([0, 1, 2]), fixed([2, -1, 1])), (t("int8", 2, 2, 1, zero=1),),
        lambda x, *_: x[:, 1:, 2:3],
    )  # fmt: skip
    yield Case(
        "gather", "GATHER", (*same, fixed([2, 0, 2])), (t("int8", 2, 3, 4, zero=1),), lambda x, _: x[:, [2, 0, 2]],
        "GatherOptions", dict(Axis=1),
    )  # fmt: skip
    yield Case(
        "squeeze", "SQUEEZE", (t("int8", 1, 3, 1, zero=1),), (t("int8", 3, 1, zero=1),), lambda x: x[0],
        "SqueezeOptions", dict(SqueezeDims=[0]),
    )  # fmt: skip
    yield Case("expand", "EXPAND_DIMS", (*same, fixed(-1)), (t("int8", 2, 3, 4, 1, zero=1),), lambda x, _: x[..., None])
    yield Case("tile", "TILE", (*same, fixed([1, 2, 1])), (t("int8", 2, 6, 4, zero=1),), lambda x, _: np.tile(x, (1, 2, 1)))
    yield Case("reverse", "REVERSE_V2", (*same, fixed([1])), same, lambda x, _: x[:, ::-1])
    yield Case("maximum", "MAXIMUM", (t("int8", 2, 3, 4, zero=1), t("int8", 4, zero=1)), same, np.maximum)
    yield Case(
        "largest", "REDUCE_MAX", (*same, fixed([1])), (t("int8", 2, 4, zero=1),), lambda x, _: x.max(1), "ReducerOptions"
    )
    yield Case(
        "index of the largest", "ARG_MAX", (*same, fixed(1)), (Spec("int32", (2, 4)),), lambda x, _: x.argmax(1),
        "ArgMaxOptions", dict(OutputType=2),
    )  # fmt: skip
    yield Case("less", "LESS", (t("int8", 2, 3, 4, zero=1), t("int8", 4, zero=1)), (Spec("bool", (2, 3, 4)),), np.less)
    yield Case(
        "choice", "SELECT_V2", (Spec("bool", (3, 1)), *same, t("int8", 4, zero=1)), same, lambda c, a, b: np.where(c != 0, a, b)
    )
    blocks = t("int8", 1, 4, 6, 3, zero=1), t("int8", 1, 2, 3, 12, zero=1)

    def deeper(x: Reals) -> Reals:
        return x.reshape(1, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 12)

    def wider(x: Reals) -> Reals:
        return x.reshape(1, 2, 3, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 4, 6, 3)

    size = dict(BlockSize=2)
    yield Case("space to depth", "SPACE_TO_DEPTH", blocks[:1], blocks[1:], deeper, "SpaceToDepthOptions", size)
    yield Case("depth to space", "DEPTH_TO_SPACE", blocks[1:], blocks[:1], wider, "DepthToSpaceOptions", size)


CASES = (*_windows(), *_maths(), *_moves())
