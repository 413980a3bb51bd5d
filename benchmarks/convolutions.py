"""Quantised convolutions compared with onnxruntime's, on one thread: part `convolution` of `make bench`.

GMAC/s: 10^9 multiplications with their additions per second. Results are equal within 1, if both round in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from anydml.kernels.code.targets import targets
from benchmarks.limits import dots
from benchmarks.onnx_session import session
from benchmarks.timing import best


class Shape(NamedTuple):
    """Input and output channels, the input's height and width, the filter's, the stride of both, and groups."""

    read: int
    written: int
    size: int
    taps: int
    stride: int = 1
    groups: int = 1

    @property
    def output(self) -> int:
        return 1 + (self.size + 2 * (self.taps // 2) - self.taps) // self.stride

    @property
    def macs(self) -> int:
        return self.written * self.read // self.groups * (self.taps * self.output) ** 2


SHAPES = {
    "64 to 64, 3 x 3, at 56 x 56": Shape(64, 64, 56, 3),
    "256 to 256, 3 x 3, at 14 x 14": Shape(256, 256, 14, 3),
    "512 to 512, 3 x 3, at 7 x 7": Shape(512, 512, 7, 3),
    "256 to 64, 1 x 1, at 56 x 56": Shape(256, 64, 56, 1),
    "64 to 128, 3 x 3 with stride 2, at 56 x 56": Shape(64, 128, 56, 3, 2),
    "3 to 64, 7 x 7 with stride 2, at 224 x 224": Shape(3, 64, 224, 7, 2),
    "64 groups of 1, 3 x 3, at 56 x 56": Shape(64, 64, 56, 3, 1, 64),
}


PAIRS = (("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8"))  # of the input and the filter
ALL_PAIRS = ("64 to 64, 3 x 3, at 56 x 56", "256 to 64, 1 x 1, at 56 x 56")


def arrays(s: Shape, pair: tuple[str, str]) -> dict[str, NDArray[Any]]:
    """The operator's inputs, with which about as many outputs saturate as in a network."""
    numbers = np.random.default_rng(0)
    of_channel = (1, s.written, 1, 1)
    low, filter_low = (np.iinfo(name).min for name in pair)
    x = numbers.integers(low, low + 256, (1, s.read, s.size, s.size)).astype(pair[0])
    filters = numbers.integers(filter_low, filter_low + 256, (s.written, s.read // s.groups, s.taps, s.taps)).astype(pair[1])
    spread = 128 * 74 * (s.read // s.groups * s.taps**2) ** 0.5  # the standard deviation of a sum
    return {
        "input_tensor": x,
        "input_scale_tensor": np.ones((1, 1, 1, 1), np.float32),
        "input_zero_point_tensor": np.full((1, 1, 1, 1), low + 128, pair[0]),
        "filter_tensor": filters,
        "filter_scale_tensor": numbers.uniform(0.5, 1, of_channel).astype(np.float32),
        "filter_zero_point_tensor": np.full((1, 1, 1, 1), filter_low + 128, pair[1]),
        "bias_tensor": numbers.integers(-1000, 1000, of_channel).astype(np.int32),
        "output_scale_tensor": np.full((1, 1, 1, 1), spread / 60, np.float32),
        "output_zero_point_tensor": np.full((1, 1, 1, 1), low + 128, pair[0]),
    }


def ours(s: Shape, inputs: dict[str, NDArray[Any]], output: NDArray[Any], isa: str | None = None) -> Callable[[], object]:
    """The bound call. Filters are owned, as onnxruntime's are constant; other inputs are bound. isa: by default the best."""
    tensors: dict[str, Any] = {name: dml.TensorDesc.of(x) for name, x in {**inputs, "output_tensor": output}.items()}
    filters = tensors["filter_tensor"]
    tensors["filter_tensor"] = dml.TensorDesc(filters.data_type, filters.sizes, flags="OWNED_BY_DML")
    desc = dml.QuantizedLinearConvolution(
        **tensors,
        strides=(s.stride,) * 2,
        dilations=(1, 1),
        start_padding=(s.taps // 2,) * 2,
        end_padding=(s.taps // 2,) * 2,
        group_count=s.groups,
    )
    operator = dml.Device(threads=1, isa=isa).compile(desc)
    assert operator.kernel_name == "contract:compiled"
    operator.initialize(filter_tensor=inputs["filter_tensor"])
    return operator.bind(**{name: x for name, x in inputs.items() if name != "filter_tensor"}, output_tensor=output).execute


def onnxruntime(s: Shape, inputs: dict[str, NDArray[Any]], output: NDArray[Any]) -> Callable[[], object] | None:
    """QLinearConv, its filters and parameters constant."""
    kinds = ("input", "filter", "output")
    order = [f"{of}{what}" for of in kinds[:2] for what in ("_tensor", "_scale_tensor", "_zero_point_tensor")]
    order += ["output_scale_tensor", "output_zero_point_tensor", "bias_tensor"]
    flat = {
        name: x if name == "filter_tensor" else x.reshape(-1) if x.size > 1 else x.reshape(()) for name, x in inputs.items()
    }
    node = ("QLinearConv", order, ["y"], dict(pads=[s.taps // 2] * 4, strides=[s.stride] * 2, group=s.groups))
    constants = {name: flat[name] for name in order[1:]}
    return session([node], {"input_tensor": inputs["input_tensor"]}, {"y": output}, constants)


def run(seconds: float = 0.4) -> list[dict[str, Any]]:
    limit, macs = dots(targets()[-1].name)
    rows = []
    print("| | input, filter | GMAC/s | of the limit | onnxruntime | its time over ours |\n|---|---|---:|---:|---:|---:|")
    for name, s in SHAPES.items():
        for pair in PAIRS if name in ALL_PAIRS else PAIRS[:1]:
            inputs, output = arrays(s, pair), np.zeros((1, s.written, s.output, s.output), pair[0])
            others = np.empty_like(output)
            peer = onnxruntime(s, inputs, others)
            assert peer is not None, "onnxruntime takes all of them"
            calls = {"ours": ours(s, inputs, output), "onnxruntime": peer, "limit": limit}
            calls["ours"]()
            calls["onnxruntime"]()
            assert np.abs(output.astype(int) - others).max() <= 1
            t = best(calls, seconds=seconds, clock=time.thread_time)
            rate, theirs = (s.macs / t[of] / 1e9 for of in ("ours", "onnxruntime"))
            row = {"shape": name, "types": pair, "rate": rate, "limit": rate * t["limit"] / macs * 1e9, "onnxruntime": theirs}
            rows.append(row)
            print(
                f"| {name} | {', '.join(pair)} | {rate:.0f} | {row['limit']:.2f} | {theirs:.0f} | {rate / theirs:.2f} |",
                flush=True,
            )
    return rows
