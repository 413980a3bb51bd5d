"""`report`: the accuracy of a quantised model, layer by layer, beside the float model that it was made from.

The quantised tensors are found by their values: each is compared with the float model's tensors of the same sizes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from anydml.errors import BindingError, Fault
from anydml.onnx.compare_estimate import COPYING
from anydml.onnx.compare_models import named
from anydml.onnx.model import load
from anydml.onnx.report_layers import Carrier
from anydml.onnx.values import Array, by_name

LEAST = 3.0  # decibels of the SQNR by which a quantised tensor is taken for that of a float tensor
NAMED = 6.0  # decibels by which a tensor of a similar name may fit worse and is still the one
WORST = 3  # layers that the summary names


class Encoded(NamedTuple):
    """A tensor of integers with its scales and zero points, which are broadcast along an axis."""

    name: str
    scale: Array
    zero_point: Array
    integers: Array

    @property
    def values(self) -> Array:
        """The numbers that the integers stand for, as float64."""
        found: Array = (self.integers.astype(np.float64) - self.zero_point) * self.scale
        return found

    @property
    def ends(self) -> tuple[Array, Array]:
        """The smallest and the largest number that the integers can stand for."""
        limits = np.iinfo(self.integers.dtype)
        return (limits.min - self.zero_point) * self.scale, (limits.max - self.zero_point) * self.scale

    def of(self, x: Array) -> Array:
        """The numbers that a float tensor becomes with these scales."""
        found: Array = np.clip(np.rint(x / self.scale) * self.scale, *self.ends)
        return found


@dataclass(frozen=True)
class Layer:
    """A layer of the float model whose output is quantised. Errors are signal-to-noise ratios (SQNR) in decibels.

    name, operator: the node of the float model; of an input of the model, its name and "input". tensor: the quantised tensor.
    bits: of its integers. own: the ratio if this tensor alone is quantised. so_far: that in the quantised model, which has the
    errors of all layers before. low, high: the shares of elements that saturate, since the float is below or above what the
    integers can stand for. used: the share of their range between the smallest and the largest element. weights: the ratio of
    the layer's weights, None if it has none; by_channel: the same with a scale for each channel, None if they have that. wider:
    `own` with 16 bits for the range of the data. alone: the ratio of the model's outputs if this layer and its weights alone
    are quantised.
    """

    name: str
    operator: str
    tensor: str
    bits: int
    own: float
    so_far: float
    low: float
    high: float
    used: float
    weights: float | None
    by_channel: float | None
    wider: float | None
    alone: float


@dataclass(frozen=True)
class Report:
    """The accuracy of a quantised model. `str()` is a summary, `to_dict()` is for JSON.

    layers: in the float model's order. outputs: the SQNR of the model's outputs, in decibels. together: an estimate of it from
    the layers' own errors; by_channel, wider: the same with a scale for each channel of the weights, and with 16-bit tensors
    between the layers. None if nothing would change.
    """

    layers: tuple[Layer, ...]
    outputs: float
    together: float
    by_channel: float | None
    wider: float | None

    @property
    def worst(self) -> tuple[Layer, ...]:
        """The layers that lose most, the worst first."""
        return tuple(sorted(self.layers, key=lambda layer: layer.alone)[:WORST])

    def __str__(self) -> str:
        lost = ", ".join(f"{layer.name} ({decibels(layer.alone)})" for layer in self.worst)
        lines = [
            f"The outputs have an SQNR of {decibels(self.outputs)}; the layers' own errors together make "
            f"{decibels(self.together)}",
            f"The layers that lose most, by the SQNR of the outputs if they alone are quantised: {lost}",
        ]
        if self.by_channel is not None:
            lines.append(f"A scale for each channel of the weights would make {decibels(self.by_channel)}")
        if self.wider is not None:
            lines.append(f"Tensors of 16 bits between the layers would make {decibels(self.wider)}")
        clipped = [layer for layer in self.layers if layer.low + layer.high > 0.01]
        if clipped:
            many = ", ".join(f"{layer.name} ({100 * (layer.low + layer.high):.2g} %)" for layer in clipped[:WORST])
            lines.append(f"More than 1 % of the elements saturate in {many}{', ...' if len(clipped) > WORST else ''}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The report as values for JSON; infinite ratios become text."""
        found = {**asdict(self), "worst": [layer.name for layer in self.worst], "sentence": str(self)}
        found["layers"] = [{key: _plain(x) for key, x in row.items()} for row in found["layers"]]
        return {key: _plain(x) for key, x in found.items()}


def _plain(x: Any) -> Any:
    return str(x) if isinstance(x, float) and not math.isfinite(x) else x


def decibels(x: float) -> str:
    """A ratio as text: `31.2 dB`, or `exact`."""
    return "exact" if x == math.inf else f"{x:.1f} dB"


def sqnr(x: Array, other: Array) -> float:
    """The signal-to-noise ratio of a tensor that stands for x, in decibels: 10 log10(sum x^2 / sum (x - other)^2)."""
    signal = float(np.sum(np.square(x, dtype=np.float64)))
    noise = float(np.sum(np.square(np.subtract(x, other, dtype=np.float64))))
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def report(
    quantised: str | os.PathLike[str] | ModelProto,
    floats: str | os.PathLike[str] | ModelProto,
    inputs: Mapping[str, Any],
) -> Report:
    """The accuracy of a quantised model beside its float model, on inputs by name; both are computed exactly.

    ModelError for a model that cannot be read or run; BindingError for inputs that do not fit, and if no tensor of the
    quantised model is one of the float model's.
    """
    one, other = load(quantised), load(floats)
    given = {name: np.array(x, order="C", copy=None) for name, x in by_name(inputs).items()}
    ints, exact = one.run(given, keep="all"), other.run(given, keep="all")
    proto = named(other.proto)
    constants, known = (
        {t.name: numpy_helper.to_array(t) for t in p.graph.initializer if t.name not in given} for p in (proto, one.proto)
    )
    order = [*given, *(name for node in proto.graph.node for name in node.output if name in exact)]
    tensors = {**exact, **given}
    signals = {name: tensors[name] for name in order if tensors[name].dtype.kind == "f" and tensors[name].size > 1}
    weights = {name: x for name, x in constants.items() if x.dtype.kind == "f" and x.size > 1}
    encoded = list(_encoded(one.proto, {**given, **ints, **known}))
    matched = _once(proto, _matched([e for e in encoded if e.name not in known], signals))
    of_weights = _matched([e for e in encoded if e.name in known], weights)
    if not matched:
        raise BindingError([Fault("", "no quantised tensor of the model has the values of a tensor of the float model")])
    carrier = Carrier(proto, given, signals, weights, [*matched], [*of_weights])
    return _report(proto, carrier, exact, tensors, ints, matched, of_weights)


def _report(
    proto: ModelProto,
    carrier: Carrier,
    exact: Mapping[str, Array],
    signals: Mapping[str, Array],
    ints: Mapping[str, Array],
    matched: Mapping[str, Encoded],
    of_weights: Mapping[str, Encoded],
) -> Report:
    outputs = [x.name for x in proto.graph.output if exact[x.name].dtype.kind == "f"]

    def ratio(made: Mapping[str, Array]) -> float:
        pairs = [(exact[name].reshape(-1), made[name].reshape(-1)) for name in outputs if name in made]
        return sqnr(*map(np.concatenate, zip(*pairs, strict=True))) if pairs else math.nan

    errors = {name: e.of(signals[name]) - signals[name] for name, e in matched.items()}
    finer = {name: _wide(signals[name]) - signals[name] for name, e in matched.items() if _bits(e) == 8}
    of_weight = {name: e.values - carrier.weights[name] for name, e in of_weights.items()}
    axes = {name: axis for name in of_weights if (axis := carrier.channels(name)) is not None}
    whole = {name: axis for name, axis in axes.items() if of_weights[name].scale.size == 1}
    better = {name: _by_channel(carrier.weights[name], axis) - carrier.weights[name] for name, axis in whole.items()}
    makers = {name: node for node in proto.graph.node for name in node.output if name}
    rows = []
    for name, e in matched.items():
        own = carrier.weights_of(name)
        alone = carrier.outputs({name: errors[name]} | {w: of_weight[w] for w in own})
        rows.append(_layer(name, makers.get(name), e, signals[name], own, carrier.weights, of_weights, better, ratio(alone)))
    everything = errors | of_weight
    return Report(
        tuple(rows),
        ratio(ints),
        ratio(carrier.outputs(everything)),
        ratio(carrier.outputs(everything | better)) if better else None,
        ratio(carrier.outputs(everything | finer)) if finer else None,
    )


def _layer(
    name: str,
    maker: NodeProto | None,
    e: Encoded,
    signal: Array,
    own: Iterable[str],
    floats: Mapping[str, Array],
    of_weights: Mapping[str, Encoded],
    better: Mapping[str, Array],
    alone: float,
) -> Layer:
    limits = np.iinfo(e.integers.dtype)
    low, high = e.ends
    used = (int(e.integers.max()) - int(e.integers.min())) / (int(limits.max) - int(limits.min))
    own = list(own)
    weights = min((sqnr(floats[w], of_weights[w].values) for w in own), default=None)
    by_channel = min((sqnr(floats[w], floats[w] + better[w]) for w in own if w in better), default=None)
    return Layer(
        name=maker.name if maker else name,
        operator=maker.op_type if maker else "input",
        tensor=e.name,
        bits=_bits(e),
        own=sqnr(signal, e.of(signal)),
        so_far=sqnr(signal, e.values),
        low=float(np.mean(signal < low - e.scale / 2)),
        high=float(np.mean(signal > high + e.scale / 2)),
        used=used,
        weights=weights,
        by_channel=by_channel,
        wider=sqnr(signal, _wide(signal)) if _bits(e) == 8 else None,
        alone=alone,
    )


def _bits(e: Encoded) -> int:
    return e.integers.dtype.itemsize * 8


def _wide(x: Array) -> Array:
    """A tensor rounded to 16 bits, with a range that begins and ends with its elements or 0."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    step = (high - low) / 65535 or 1.0
    found: Array = np.rint(x / step) * step
    return found


def _by_channel(w: Array, axis: int) -> Array:
    """Weights rounded to 8 bits with a scale for each channel, from minus 127 to 127 of them."""
    others = tuple(i for i in range(w.ndim) if i != axis)
    scale = np.maximum(np.max(np.abs(w.astype(np.float64)), axis=others, keepdims=True), np.finfo(np.float32).tiny) / 127
    found: Array = np.rint(w / scale) * scale
    return found


# --- the quantised tensors of a model ---


def _encoded(proto: ModelProto, tensors: Mapping[str, Array]) -> Iterator[Encoded]:
    """Every tensor of integers whose scale is known, once."""
    found: set[str] = set()
    for node in proto.graph.node:
        for name, scale, zero_point, axis in _scales(node):
            x, s = tensors.get(name), tensors.get(scale)
            if x is None or s is None or name in found or x.dtype.kind not in "iu" or not x.size:
                continue
            z = tensors.get(zero_point, np.zeros(s.shape, x.dtype))
            shape = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)] if s.size > 1 and x.ndim else []
            if s.ndim > 1 or (s.size > 1 and (not shape or s.size != x.shape[axis % x.ndim])):
                continue  # blocks
            found.add(name)
            scales, zeros = (a.astype(np.float64).reshape(shape) for a in (s, z))
            yield Encoded(name, scales, zeros, x)


def _scales(node: NodeProto) -> Iterator[tuple[str, str, str, int]]:
    """The integer tensors that a node reads or writes, with the names of scale and zero point, and the axis of several."""
    inputs = [*node.input, *[""] * 9]
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
    if node.op_type == "QuantizeLinear":
        yield node.output[0], inputs[1], inputs[2], axis
    elif node.op_type == "DequantizeLinear":
        yield inputs[0], inputs[1], inputs[2], axis
    elif node.op_type in ("QLinearConv", "QLinearMatMul"):
        yield inputs[0], inputs[1], inputs[2], axis
        yield inputs[3], inputs[4], inputs[5], 0 if node.op_type == "QLinearConv" else -1
        yield node.output[0], inputs[6], inputs[7], axis
    elif node.op_type in ("QLinearAdd", "QLinearMul", "QGemm"):
        if node.op_type == "QGemm":
            yield inputs[0], inputs[1], inputs[2], axis
            yield inputs[3], inputs[4], inputs[5], 0 if _is_set(node, "transB") else -1
            yield node.output[0], inputs[7], inputs[8], axis
        else:
            yield inputs[0], inputs[1], inputs[2], axis
            yield inputs[3], inputs[4], inputs[5], axis
            yield node.output[0], inputs[6], inputs[7], axis
    elif node.op_type.startswith("QLinear") and len(node.input) >= 4:  # of one tensor
        yield inputs[0], inputs[1], inputs[2], axis
        yield node.output[0], inputs[3], inputs[4], axis


def _is_set(node: NodeProto, name: str) -> bool:
    return any(a.name == name and a.i for a in node.attribute)


def _matched(encoded: Iterable[Encoded], floats: Mapping[str, Array]) -> dict[str, Encoded]:
    """The quantised tensor of each float tensor that has one, in the order of the float tensors."""
    found: dict[str, Encoded] = {}
    for e in encoded:
        ratios = {name: sqnr(x, e.values) for name, x in floats.items() if x.shape == e.integers.shape}
        ratios = {name: r for name, r in ratios.items() if r > LEAST}
        if not ratios:
            continue
        best = max(ratios, key=lambda name: ratios[name])
        similar = [name for name, r in ratios.items() if r > ratios[best] - NAMED and name in e.name]
        chosen = max(similar, key=lambda name: (len(name), ratios[name]), default=best)
        found.setdefault(chosen, e)
    return {name: found[name] for name in floats if name in found}


def _once(proto: ModelProto, matched: Mapping[str, Encoded]) -> dict[str, Encoded]:
    """The quantised tensors without those that only copy another one's elements with the same scale."""
    makers = {name: node for node in proto.graph.node for name in node.output if name}

    def copied(name: str, e: Encoded) -> bool:
        node = makers.get(name)
        while node is not None and node.op_type in COPYING and node.input:
            source = node.input[0]
            if source in matched:
                other = matched[source]
                return np.array_equal(e.scale, other.scale) and np.array_equal(e.zero_point, other.zero_point)
            node = makers.get(source)
        return False

    return {name: e for name, e in matched.items() if not copied(name, e)}
