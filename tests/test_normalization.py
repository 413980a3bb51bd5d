"""Normalisations: compiled, beside the oracle on data of every kind, and beside float64 where that is exact enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import anydml as dml
import hurting
from agreement import SOAK, expected
from anydml import DataType, TensorDesc, operators
from anydml.operators.activation_gelu import ActivationGelu
from anydml.operators.activation_leaky_relu import ActivationLeakyRelu
from anydml.operators.activation_shrink import ActivationShrink
from anydml.schema.operator import Desc

Rng = np.random.Generator
FLOATS = ("FLOAT32", "FLOAT16")
ACTIVATIONS = (None, None, ActivationGelu(), ActivationLeakyRelu(alpha=0.25), ActivationShrink(bias=0.5, threshold=0.25))


def named(name: str) -> Any:
    """The desc class of an operator."""
    found = operators.find(name)
    assert found is not None, f"there is no {name}"
    return found


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(0, len(values)))]


def made(name: str, rng: Rng, data_type: str, sizes: tuple[int, ...], parameters: dict[str, Any], **others: Any) -> Any:
    """A desc, and its inputs: parameters of the sizes given, None for those that are absent."""
    x = TensorDesc(DataType[data_type], sizes)
    tensors = {f"{p}_tensor": None if n is None else TensorDesc(x.data_type, n) for p, n in parameters.items()}
    desc = named(name)(input_tensor=x, output_tensor=x, **tensors, **others)
    there = {"input_tensor": x} | {p: t for p, t in tensors.items() if t is not None}
    return desc, {p: hurting.values(data_type, t.sizes, rng, pick(rng, hurting.KINDS)) for p, t in there.items()}


def on_cpu(desc: Desc, kernel: str, inputs: dict[str, Any]) -> Any:
    compiled = dml.Device("cpu").compile(desc)
    assert compiled.kernel_name == kernel
    output = np.empty(desc.output_tensor.sizes, desc.output_tensor.data_type.dtype)  # type: ignore[attr-defined]
    compiled.bind(**inputs, output_tensor=output).execute()
    return output


def agree(desc: Desc, kernel: str, inputs: dict[str, Any]) -> int:
    found, wanted = on_cpu(desc, kernel, inputs), expected(desc, inputs)["output_tensor"]
    integers = f"u{found.itemsize}"
    np.testing.assert_array_equal(found.view(integers), wanted.view(integers), err_msg=repr(desc))
    return int(found.size)


@pytest.mark.parametrize("data_type", FLOATS)
def test_means_and_variances_beside_the_oracle(data_type: str, ran: Any) -> None:
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(12 * SOAK):
        sizes = tuple(int(n) for n in rng.integers(2, 6, 3))
        axes = pick(rng, ((2,), (1, 2), (0, 2), (0, 1, 2)))
        parameters = {p: pick(rng, (None, sizes, (1, sizes[1], 1), (1, 1, sizes[2]))) for p in ("scale", "bias")}
        flags = dict(use_mean=bool(rng.integers(0, 2)), use_variance=True, epsilon=pick(rng, (1e-5, 0.0, 1.0)))
        activation = pick(rng, ACTIVATIONS)
        desc, inputs = made(
            "MEAN_VARIANCE_NORMALIZATION2", rng, data_type, sizes, parameters, axes=axes, fused_activation=activation, **flags
        )
        compared += agree(desc, "reduce:compiled", inputs)
    ran(compared, 250)


@pytest.mark.parametrize("data_type", FLOATS)
def test_given_means_and_variances_beside_the_oracle(data_type: str, ran: Any) -> None:
    rng = np.random.default_rng(2)
    compared = 0
    for _ in range(8 * SOAK):
        sizes = tuple(int(n) for n in rng.integers(2, 6, 3))
        names = ("mean", "variance", "scale", "bias")
        parameters = {p: pick(rng, (sizes, (1, sizes[1], 1), (1, 1, sizes[2]))) for p in names}
        desc, inputs = made(
            "BATCH_NORMALIZATION", rng, data_type, sizes, parameters, epsilon=pick(rng, (1e-5, 0.0, -1.0)),
            fused_activation=pick(rng, ACTIVATIONS),
        )  # fmt: skip
        compared += agree(desc, "elementwise:compiled", inputs)
    ran(compared, 200)


def test_lines_of_a_network_are_those_of_float64_rounded() -> None:
    """Which no result here is so near to a tie that float64 would tell another side."""
    rng = np.random.default_rng(3)
    desc, _ = made("MEAN_VARIANCE_NORMALIZATION2", rng, "FLOAT32", (20, 300), {"scale": (1, 300), "bias": (1, 300)}, axes=(1,))
    x, scale, bias = (rng.standard_normal(n).astype(np.float32) for n in ((20, 300), (1, 300), (1, 300)))
    centred = x.astype(float) - x.astype(float).mean(1, keepdims=True)
    variance = (centred**2).mean(1, keepdims=True) + float(np.float32(1e-5))
    found = on_cpu(desc, "reduce:compiled", dict(input_tensor=x, scale_tensor=scale, bias_tensor=bias))
    np.testing.assert_array_equal(found, (scale * centred / np.sqrt(variance) + bias).astype(np.float32))


def test_a_line_of_equal_elements_has_no_variance() -> None:
    x = np.full((1, 4), 0.1, np.float32)
    without = dml.mean_variance_normalization2(x, axes=(1,), epsilon=0.0)
    assert np.isnan(without).all()
    assert dml.mean_variance_normalization2(x, axes=(1,)).tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize("data_type", FLOATS)
def test_lines_by_their_norms_beside_the_oracle(data_type: str, ran: Any) -> None:
    rng = np.random.default_rng(4)
    compared = 0
    for _ in range(10 * SOAK):
        sizes = tuple(int(n) for n in rng.integers(2, 8, 2))
        epsilon, p = pick(rng, (1e-5, 0.0, 1.0)), int(rng.integers(1, 3))
        desc, inputs = made("LP_NORMALIZATION", rng, data_type, sizes, {}, axis=1, epsilon=epsilon, p=p)
        inputs["input_tensor"][0] = 0
        compared += agree(desc, "reduce:compiled", inputs)
    ran(compared, 100)
