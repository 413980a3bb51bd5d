"""Products of float matrices and convolutions to be timed, with our kernels on any number of threads, and with other
libraries."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from anydml import DataType, TensorDesc, TensorFlags, operators
from anydml.schema.operator import Desc
from benchmarks.onnx_session import session

Array = NDArray[Any]
ONNXRUNTIME, NUMPY = "onnxruntime", "NumPy"
BIAS, RELU = "a bias", "a bias and relu"


@dataclass(frozen=True)
class Call:
    """A call, the output that it writes, and the bytes that it keeps from before."""

    run: Callable[[], object]
    output: Array
    persistent: int = 0

    def __call__(self) -> None:
        self.run()


class Layer(NamedTuple):
    """A convolution of a network, of one image, with an owned filter. read, written: channels; size: of the input."""

    read: int
    written: int
    filter: int
    size: int
    stride: int = 1
    groups: int = 1

    def __str__(self) -> str:
        kind = "depthwise, " if self.groups > 1 else ""
        stride = f", stride {self.stride}" if self.stride > 1 else ""
        return f"{kind}{self.filter} x {self.filter}, {self.read} to {self.written}, {self.size} x {self.size}{stride}"

    @property
    def padding(self) -> int:
        return self.filter // 2

    @property
    def output(self) -> int:
        return (self.size + 2 * self.padding - self.filter) // self.stride + 1

    @property
    def products(self) -> int:
        return self.written * self.read // self.groups * self.filter**2 * self.output**2


RESNET18 = (
    Layer(3, 64, 7, 224, 2), Layer(64, 64, 3, 56), Layer(64, 128, 3, 56, 2), Layer(64, 128, 1, 56, 2), Layer(128, 128, 3, 28),
    Layer(128, 256, 3, 28, 2), Layer(256, 256, 3, 14), Layer(256, 512, 3, 14, 2), Layer(512, 512, 3, 7),
)  # fmt: skip
MOBILENETV2 = (
    Layer(3, 32, 3, 224, 2), Layer(32, 32, 3, 112, 1, 32), Layer(32, 16, 1, 112), Layer(16, 96, 1, 112),
    Layer(96, 96, 3, 112, 2, 96), Layer(144, 24, 1, 56), Layer(144, 144, 3, 56, 1, 144), Layer(32, 192, 1, 28),
    Layer(384, 64, 1, 14), Layer(576, 576, 3, 14, 1, 576), Layer(160, 960, 1, 7), Layer(960, 320, 1, 7),
)  # fmt: skip


def matrices(m: int, k: int, n: int, data: str = "normal") -> tuple[Array, Array]:
    """Factors with some kind of data: normal, or hard for sums in float64."""
    rng = np.random.default_rng(0)
    a: Array = rng.standard_normal((m, k))
    b: Array = rng.standard_normal((k, n))
    if data == "integers":
        a, b = rng.integers(-4096, 4097, (m, k)), rng.integers(-4096, 4097, (k, n))
    elif data == "zero sums":
        a[:, 1::2], b[1::2] = -a[:, : k // 2 * 2 : 2], b[: k // 2 * 2 : 2]
    elif data == "zeros apart":
        a[:, k // 2 : k // 2 * 2], b[k // 2 : k // 2 * 2] = a[:, : k // 2], -b[: k // 2]
    elif data == "few digits":
        a, b = a.astype(np.float16), b.astype(np.float16)
    elif data == "ReLU":
        a, b = np.maximum(a, 0), np.maximum(b, 0)
    elif data == "one-hot":
        a = np.eye(k)[rng.integers(0, k, m)]
    elif data in ("wide", "very wide"):
        a, b = (x * 2.0 ** ((10 if data == "wide" else 20) * rng.standard_normal(x.shape)) for x in (a, b))
    return a.astype(np.float32), b.astype(np.float32)


def ours(desc: Desc, arrays: dict[str, Array], threads: int) -> Call:
    """A call of our kernel. The output is allocated here, and owned tensors are bound first."""
    compiled = dml.Device(threads=threads).compile(desc)
    assert compiled.kernel_name == "contract.floats:compiled", compiled.kernel_name
    owned = {name for name, _, t in desc.tensors() if t.flags & TensorFlags.OWNED_BY_DML}
    if owned:
        compiled.initialize(**{name: x for name, x in arrays.items() if name in owned})
    (tensor,) = (t for _, field, t in desc.tensors() if field.role == "output")
    output = np.empty(tensor.sizes, tensor.data_type.dtype)
    bound = compiled.bind(**{name: x for name, x in arrays.items() if name not in owned}, output_tensor=output)
    return Call(bound.execute, output, compiled.binding_properties.persistent_resource_size)


def product(
    a: Array, b: Array, threads: int = 1, fused: str = "", owned: Sequence[str] = (), *, transposed: bool = False
) -> Call:
    """A matrix product.

    fused: BIAS, or RELU, which has a bias too. owned: names of tensors. transposed: b is stored with K as its last dimension.
    """
    operator: Any = operators.find("GEMM")
    columns = b.shape[1]
    if transposed:
        b = np.ascontiguousarray(b.T)
    tensors = {
        name: TensorDesc.of(x, flags=TensorFlags.OWNED_BY_DML if name in owned else TensorFlags.NONE)
        for name, x in (("a_tensor", a), ("b_tensor", b))
    }
    arrays = {"a_tensor": a, "b_tensor": b}
    output = TensorDesc(DataType.of(a.dtype), (a.shape[0], columns))
    attributes: dict[str, Any] = {"trans_b": "TRANSPOSE" if transposed else "NONE"}
    if fused:
        arrays["c_tensor"] = np.broadcast_to(np.linspace(-1, 1, columns).astype(a.dtype), output.sizes)
        attributes["c_tensor"] = TensorDesc.of(arrays["c_tensor"])
    return ours(operator(**tensors, output_tensor=output, **attributes, **_activation(fused)), arrays, threads)


def _activation(fused: str) -> dict[str, Any]:
    activation: Any = operators.find("ACTIVATION_RELU")
    return {"fused_activation": activation()} if fused == RELU else {}


def layer_data(layer: Layer) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, layer.read, layer.size, layer.size)).astype(np.float32)
    f = rng.standard_normal((layer.written, layer.read // layer.groups, layer.filter, layer.filter)).astype(np.float32)
    return x, f


def convolution(layer: Layer, x: Array, f: Array, threads: int = 1, fused: str = "") -> Call:
    """A convolution; fused: as of `product`."""
    operator: Any = operators.find("CONVOLUTION")
    padding = (layer.padding, layer.padding)
    arrays = {"input_tensor": x, "filter_tensor": f}
    attributes: dict[str, Any] = {}
    if fused:
        arrays["bias_tensor"] = np.linspace(-1, 1, layer.written).astype(np.float32).reshape(1, -1, 1, 1)
        attributes["bias_tensor"] = TensorDesc.of(arrays["bias_tensor"])
    desc = operator(
        input_tensor=TensorDesc.of(x),
        filter_tensor=TensorDesc(DataType.FLOAT32, f.shape, flags=TensorFlags.OWNED_BY_DML),
        output_tensor=TensorDesc(DataType.FLOAT32, (1, layer.written, layer.output, layer.output)),
        strides=(layer.stride, layer.stride),
        dilations=(1, 1),
        start_padding=padding,
        end_padding=padding,
        output_padding=(0, 0),
        group_count=layer.groups,
        **attributes,
        **_activation(fused),
    )
    return ours(desc, arrays, threads)


# --- other libraries ---


def numpy_product(a: Array, b: Array) -> Call:
    """NumPy's product, on as many threads as its BLAS is set to."""
    output = np.empty((a.shape[0], b.shape[1]), np.float32)
    return Call(partial(np.matmul, a, b, out=output), output)


def onnxruntime_product(a: Array, b: Array, threads: int = 1) -> dict[str, Call]:
    return _onnxruntime("MatMul", a, b, (a.shape[0], b.shape[1]), threads, owned=False)


def onnxruntime_convolution(layer: Layer, x: Array, f: Array, threads: int = 1) -> dict[str, Call]:
    output = (1, layer.written, layer.output, layer.output)
    attributes: dict[str, Any] = dict(strides=[layer.stride] * 2, pads=[layer.padding] * 4, group=layer.groups)
    return _onnxruntime("Conv", x, f, output, threads, owned=True, **attributes)


def _onnxruntime(
    name: str, a: Array, b: Array, sizes: tuple[int, ...], threads: int, *, owned: bool, **attributes: Any
) -> dict[str, Call]:
    """A session of one node; an owned b is an initializer. None if onnxruntime is not installed."""
    bound, constant = ({"a": a}, {"b": b}) if owned else ({"a": a, "b": b}, {})
    output = np.empty(sizes, np.float32)
    with contextlib.suppress(ImportError):
        call = session([(name, ["a", "b"], ["output"], attributes)], bound, {"output": output}, constant, threads)
        if call is not None:
            return {ONNXRUNTIME: Call(call, output)}
    return {}
