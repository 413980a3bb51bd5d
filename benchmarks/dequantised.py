"""Networks that dequantise, compute and quantise, compared with networks of integer operators: one image, one thread."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.network_layers import CLASSES, NETWORKS, RELU, ZERO, Integers, Layer, Weights
from benchmarks.networks import SIZE
from benchmarks.timing import best


class Dequantised:
    """Our operators of float32 between tensors of 8 bits. A tensor comes with its scale and zero point."""

    def __init__(self, weights: Weights) -> None:
        self._weights, self._count = weights, 0

    def _float(self, x: Any) -> Any:
        return dml.element_wise_dequantize_linear(x[0], np.float32(x[1][0]), np.uint8(x[1][1]))

    def _kept(self, x: Any, upto: float | None) -> Any:
        scale, zero = Layer(1, 1, upto=upto).quantised
        if upto is not None:
            x = dml.activation_relu(x) if upto == RELU else dml.element_wise_clip(x, min=0.0, max=upto)
        return dml.element_wise_quantize_linear(x, np.float32(scale), np.uint8(zero)), (scale, zero)

    def begin(self, x: Any) -> Any:
        return dml.element_wise_quantize_linear(x, np.float32(ZERO[0]), np.uint8(ZERO[1])), ZERO

    def _summed(self, x: Any, layer: Layer) -> Any:
        whole, scales, bias = self._weights.quantised(self._count, layer, x[1][0])
        self._count += 1
        filters = dml.element_wise_dequantize_linear(whole, scales.reshape(-1, 1, 1, 1))
        added = dml.element_wise_dequantize_linear(bias, np.float32(x[1][0]) * scales).reshape(1, -1, 1, 1)
        around = (layer.taps // 2,) * 2
        return dml.convolution(
            self._float(x), filters, added, strides=(layer.stride,) * 2, group_count=layer.groups,
            start_padding=around, end_padding=around,
        )  # fmt: skip

    def convolution(self, x: Any, layer: Layer) -> Any:
        return self._kept(self._summed(x, layer), layer.upto)

    def add(self, x: Any, y: Any, upto: float | None) -> Any:
        return self._kept(dml.element_wise_add(self._float(x), self._float(y)), upto)

    def largest(self, x: Any) -> Any:
        made = dml.max_pooling(self._float(x), (2, 2), window_size=(3, 3), start_padding=(1, 1), end_padding=(1, 1))
        return dml.element_wise_quantize_linear(made, np.float32(x[1][0]), np.uint8(x[1][1])), x[1]

    def mean(self, x: Any, size: int) -> Any:
        made = dml.average_pooling(self._float(x), window_size=(size, size))
        return dml.element_wise_quantize_linear(made, np.float32(x[1][0]), np.uint8(x[1][1])), x[1]

    def classes(self, x: Any, read: int) -> Any:
        return self._float(self.convolution(x, Layer(read, CLASSES)))


def graphs(name: str, size: int = SIZE, part: int = 1) -> dict[str, dml.Graph]:
    """A network with dequantised layers, and one of integer operators. part: a divisor of the number of channels."""
    image, weights = dml.TensorDesc("FLOAT32", (1, 3, size, size)), Weights()
    made: dict[str, dml.Graph] = {}
    for way, writer in (("dequantised", Dequantised), ("integers", Integers)):
        made[way] = dml.graph(lambda x, writer=writer: NETWORKS[name](writer(weights), x, size, part), x=image)
    return made


def run() -> list[dict[str, Any]]:
    rows = []
    print(f"\n{'network, one image, one thread':30} {'dequantised ms':>14} {'integers':>9} {'unfused':>9} {'x integers':>11}")
    device, image = dml.Device(threads=1), np.random.default_rng(0).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    for name in NETWORKS:
        made = graphs(name)
        outputs = {way: np.empty((1, CLASSES, 1, 1), np.float32) for way in ("dequantised", "integers", "unfused")}
        calls = {}
        for way, output in outputs.items():
            desc = made["integers" if way == "integers" else "dequantised"].desc
            calls[way] = device.compile(desc, fuse=way != "unfused").bind(x=image, output=output).execute
            calls[way]()
        assert outputs["dequantised"].tobytes() == outputs["unfused"].tobytes()
        row: dict[str, Any] = {
            "network": name,
            **{way: seconds * 1e3 for way, seconds in best(calls, clock=time.thread_time).items()},
        }
        row["ratio"] = row["dequantised"] / row["integers"]
        print(f"{name:30} {row['dequantised']:14.2f} {row['integers']:9.2f} {row['unfused']:9.2f} {row['ratio']:11.2f}")
        rows.append(row)
    return rows
