"""Compiled normalisations, compared with the oracle on data of every kind, and with float64 where that is exact enough."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import anydml as dml
import hostile_data
from agreement import SOAK, expected
from anydml import DataType, TensorDesc, operators
from anydml.kernels.code import engine
from anydml.kernels.elementwise import standardised
from anydml.kernels.elementwise import tuning as elementwise_tuning
from anydml.kernels.elementwise.regrouping import ELEMENT, SLOPED, regrouped
from anydml.kernels.elementwise.undecided import UndecidedElements
from anydml.kernels.match.maps import maps
from anydml.kernels.reduce import emit
from anydml.kernels.reduce import tuning as reduce_tuning
from anydml.operators.activation_gelu import ActivationGelu
from anydml.operators.activation_leaky_relu import ActivationLeakyRelu
from anydml.operators.activation_relu import ActivationRelu
from anydml.operators.activation_shrink import ActivationShrink
from anydml.schema.expression import Tensor, each, sqrt
from anydml.schema.node import Expr
from anydml.schema.operator import Desc
from anydml.schema.statement import nest
from every_kernel import without_dot_products
from tuned import tuned

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
    """A desc and its inputs; parameters: their sizes, or None if absent."""
    x = TensorDesc(DataType[data_type], sizes)
    tensors = {f"{p}_tensor": None if n is None else TensorDesc(x.data_type, n) for p, n in parameters.items()}
    desc = named(name)(input_tensor=x, output_tensor=x, **tensors, **others)
    there = {"input_tensor": x} | {p: t for p, t in tensors.items() if t is not None}
    return desc, {p: hostile_data.values(data_type, t.sizes, rng, pick(rng, hostile_data.KINDS)) for p, t in there.items()}


WANTED: dict[Any, Any] = {}


def wanted_once(desc: Any, inputs: dict[str, Any]) -> Any:
    """The oracle's outputs, which tests of several instruction sets and ways share."""
    key = repr(desc), *((name, x.tobytes()) for name, x in inputs.items())
    if key not in WANTED:
        WANTED[key] = expected(desc, inputs)
    return WANTED[key]


def all_outputs_agree(desc: Any, inputs: dict[str, Any], kernel: str, **device: Any) -> int:
    """Compare every output of a call with the oracle's; return the number of elements."""
    compiled = dml.Device("cpu", **device).compile(desc)
    assert compiled.kernel_name == kernel
    there = [f.name for f in desc.spec.outputs]
    outputs = {name: np.empty(getattr(desc, name).sizes, getattr(desc, name).data_type.dtype) for name in there}
    compiled.bind(**inputs, **outputs).execute()
    wanted = wanted_once(desc, inputs)
    for name, found in outputs.items():
        integers = f"u{found.itemsize}"
        np.testing.assert_array_equal(found.view(integers), wanted[name].view(integers), err_msg=f"{name} of {desc!r}")
    return sum(int(x.size) for x in outputs.values())


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
    """No result here is so close to a tie that float64 would be on the wrong side."""
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


# --- of training ---

PER_CHANNEL = (((6, 3, 4, 5), (1, 3, 1, 1)), ((2, 37), (1, 37)), ((40, 3), (40, 1)))  # of images; of columns; of rows


def training(operator: str, data_type: str, sizes: tuple[int, ...], per: tuple[int, ...]) -> Any:
    """A desc of a training operator, and the descs of its inputs."""
    x, p = TensorDesc(DataType[data_type], sizes), TensorDesc(DataType[data_type], per)
    if operator == "BATCH_NORMALIZATION_TRAINING":
        tensors = dict(input_tensor=x, scale_tensor=p, bias_tensor=p, fused_add_tensor=x)
        outputs = dict(output_tensor=x, output_mean_tensor=p, output_variance_tensor=p)
    else:
        tensors = dict(input_tensor=x, input_gradient_tensor=x, mean_tensor=p, variance_tensor=p, scale_tensor=p)
        outputs = dict(output_gradient_tensor=x, output_scale_gradient_tensor=p, output_bias_gradient_tensor=p)
    return named(operator)(**tensors, **outputs, epsilon=2.0**-10), tensors


@pytest.mark.parametrize(("sizes", "per"), PER_CHANNEL)
@pytest.mark.parametrize(
    "operator", ["BATCH_NORMALIZATION_TRAINING", "BATCH_NORMALIZATION_GRAD", "BATCH_NORMALIZATION_TRAINING_GRAD"]
)
def test_training_beside_the_oracle(operator: str, sizes: tuple[int, ...], per: tuple[int, ...], ran: Any) -> None:
    rng = np.random.default_rng(5)
    compared = 0
    for data_type in FLOATS if SOAK > 1 or len(sizes) > 2 else FLOATS[:1]:
        desc, tensors = training(operator, data_type, sizes, per)
        for kind in hostile_data.KINDS * SOAK:
            inputs = {name: hostile_data.values(data_type, t.sizes, rng, kind) for name, t in tensors.items()}
            compared += all_outputs_agree(desc, inputs, "reduce:compiled", threads=1 + compared % 2)
    ran(compared, 600)


def test_infinite_gradients_beside_elements_next_to_their_mean(ran: Any) -> None:
    """The sign of x - mean, which an infinite gradient multiplies, is below the error of the mean, and often another one."""
    rng = np.random.default_rng(3)
    desc, tensors = training("BATCH_NORMALIZATION_TRAINING_GRAD", "FLOAT32", (4, 32), (1, 32))
    inputs = {name: hostile_data.values("FLOAT32", t.sizes, rng, "ordinary") for name, t in tensors.items()}
    tiny = 2.0 ** rng.integers(-70, -64, (2, 32)) * rng.choice((-1, 1), (2, 32))
    inputs["input_tensor"] = np.concatenate([np.ones((1, 32)), -np.ones((1, 32)), tiny]).astype(np.float32)
    inputs["input_gradient_tensor"] = inputs["input_gradient_tensor"].copy()
    inputs["input_gradient_tensor"][2] = np.inf
    ran(all_outputs_agree(desc, inputs, "reduce:compiled"), 64)


def test_a_sum_below_its_error_divided_by_zero(ran: Any) -> None:
    """It is 0 in float64, which would make the quotient NaN; the exact sum is a number, and the quotient an infinity."""
    x, g = np.array([[2], [1e-30]], np.float32), np.array([[-1e30], [1e30]], np.float32)
    elements, parameter = TensorDesc("FLOAT32", x.shape), TensorDesc("FLOAT32", (1, 1))
    desc = named("BATCH_NORMALIZATION_GRAD")(
        input_tensor=elements, input_gradient_tensor=elements, mean_tensor=parameter, variance_tensor=parameter,
        scale_tensor=parameter, output_gradient_tensor=elements, output_scale_gradient_tensor=parameter,
        output_bias_gradient_tensor=parameter, epsilon=0.0,
    )  # fmt: skip
    mean, zero, scale = (np.full((1, 1), v, np.float32) for v in (-1e30, 0, 2))
    inputs = dict(input_tensor=x, input_gradient_tensor=g, mean_tensor=mean, variance_tensor=zero, scale_tensor=scale)
    ran(all_outputs_agree(desc, inputs, "reduce:compiled"), 4)


def test_a_scale_of_zero_times_a_difference_below_its_error(ran: Any) -> None:
    """The zero has the sign of x - mean, which float64 does not know; of gradients, that of a sum with such a difference."""
    m = 2.0**126
    x = np.array([[m, 2, 2 * m], [1, 1e-30, 2], [-1e20, 1e-10, -2e20], [3, -1e-20, 6]], np.float32)
    line, parameter = TensorDesc("FLOAT32", x.shape), TensorDesc("FLOAT32", (4, 1))
    compared = 0
    for zero in (0.0, -0.0):
        scale, scales = (np.full((4, n), zero, np.float32) for n in (1, 3))
        for use_variance in (False, True):
            desc = dml.MeanVarianceNormalization2(
                input_tensor=line, scale_tensor=line, bias_tensor=None, output_tensor=line, axes=(1,), use_mean=True,
                use_variance=use_variance, epsilon=2.0**-10,
            )  # fmt: skip
            compared += all_outputs_agree(desc, {"input_tensor": x, "scale_tensor": scales}, "reduce:compiled")
        for operator in ("BATCH_NORMALIZATION_TRAINING", "BATCH_NORMALIZATION_TRAINING_GRAD"):
            desc, tensors = training(operator, "FLOAT32", x.shape, parameter.sizes)
            inputs = {name: np.full(t.sizes, -0.0, np.float32) for name, t in tensors.items()}
            inputs |= {"input_tensor": x, "scale_tensor": scale}
            if "input_gradient_tensor" in inputs:
                inputs["input_gradient_tensor"] = np.array([[-0.5, 0, 1e-45]] * 4, np.float32)
            compared += all_outputs_agree(desc, inputs, "reduce:compiled")
    ran(compared, 100)


# --- which elements a line standardises ---

SIZES = (3, 40)
INDEX = each(SIZES)
X, Y = (Tensor(name, SIZES, DataType.FLOAT32) for name in "xy")
M, V, S, B = (Tensor(name, (3, 1), DataType.FLOAT32).broadcast(INDEX) for name in "mvsb")
ROOT = sqrt(V + 1e-5)


@pytest.mark.parametrize(
    ("body", "roles"),
    [
        (S * (X[INDEX] - M) / ROOT + B, [("mab", "x")]),
        (B + (X[INDEX] - M) / ROOT * S, [("mab", "x")]),
        (X[INDEX] * S / ROOT, [("a", "x")]),
        ((X[INDEX] - M) / ROOT * Y[INDEX] + B + Y[INDEX], [("mab", "xgb")]),
        (S * (X[INDEX] - M - (Y[INDEX] - B) * V / ROOT) / ROOT, [("mnca", "xz")]),
        (S * X[INDEX] + B, []),  # exact, or rounded once
        ((X[INDEX] - M) * S, []),
        (X[INDEX] / V, []),
        ((X[INDEX] - Y[INDEX]) / ROOT, []),
        (X[INDEX] * Y[INDEX] * X[INDEX] / ROOT, []),
        ((X[INDEX] - M) / ROOT * (Y[INDEX] - M) + B, [("ma", "x")]),  # only its factor is standardised
    ],
)
def test_elements_that_are_standardised(body: Expr, roles: list[tuple[str, str]]) -> None:
    made = maps({"output": nest(INDEX, body)})
    assert not isinstance(made, str)
    (m,) = made
    same = frozenset(k for k, stream in enumerate(m.streams) if stream.name not in ("x", "y"))
    formula = regrouped(m.formula, same)
    found = [node for node in formula if node.op in (ELEMENT, SLOPED)]
    assert [(formula[node.args[0]].data, node.data) for node in found] == roles


# --- standardised elements, by each of the ways to decide them ---

ISAS = [target.name for target in without_dot_products()]
BOUNDS = {"at once": {}, "by ends": {"KNOWN": 2.0**-60}, "in pairs": {"ROUNDED": 2.0**-26}}


PARAMETERS = ("mean", "variance", "scale", "bias")


def standardising(data_type: str) -> list[tuple[Any, str]]:
    """Descs with elements (x - m) a g + b, and the names of their kernels."""
    t = DataType[data_type]
    lines, one = TensorDesc(t, (4, 37)), TensorDesc(t, (1, 37))
    planes, channel = TensorDesc(t, (2, 3, 5, 9)), TensorDesc(t, (1, 3, 1, 1))
    mean = named("MEAN_VARIANCE_NORMALIZATION2")
    both = dict(input_tensor=planes, output_tensor=planes)
    given = {f"{p}_tensor": channel for p in PARAMETERS}
    return [
        (mean(input_tensor=lines, scale_tensor=one, bias_tensor=one, output_tensor=lines, axes=(1,)), "reduce:compiled"),
        (mean(**both, scale_tensor=channel, bias_tensor=channel, axes=(2, 3)), "reduce:compiled"),
        (named("BATCH_NORMALIZATION")(**both, **given), "elementwise:compiled"),
        (named("BATCH_NORMALIZATION")(**both, **given, fused_activation=ActivationRelu()), "elementwise:compiled"),
        (training("BATCH_NORMALIZATION_TRAINING_GRAD", data_type, (3, 2, 41), (1, 2, 1))[0], "reduce:compiled"),
    ]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("bounds", BOUNDS)
def test_standardised_elements(isa: str, bounds: str, monkeypatch: pytest.MonkeyPatch, in_python: list[int], ran: Any) -> None:
    for name, value in BOUNDS[bounds].items():
        monkeypatch.setattr(standardised, name, value)
    rng = np.random.default_rng(6)
    compared = 0
    for data_type in FLOATS if SOAK > 1 or (bounds == "at once" and isa == ISAS[0]) else FLOATS[:1]:
        for desc, kernel in standardising(data_type):
            tensors = {t.name: t.desc for t in desc.tensors() if not t.name.startswith("output")}
            inputs = {name: rng.standard_normal(t.sizes).astype(t.data_type.dtype) for name, t in tensors.items()}
            if "variance_tensor" in inputs:
                inputs["variance_tensor"] = np.abs(inputs["variance_tensor"])
            compared += all_outputs_agree(desc, inputs, kernel, isa=isa)
            decided = sum(in_python)
            assert decided == 0, "random elements are no ties"
            for kind in ("specials", "ties", "small"):
                hurt = {name: hostile_data.values(data_type, t.sizes, rng, kind) for name, t in tensors.items()}
                compared += all_outputs_agree(desc, hurt, kernel, isa=isa)
            in_python.clear()
    ran(compared, 2000)


def test_a_row_far_from_zero_is_one_pass() -> None:
    """Its variance is computed from differences between elements."""
    x = (1e6 + np.arange(300) % 7 / 16).astype(np.float32)[None]
    (found,) = dml.mean_variance_normalization2(x, axes=(1,))
    exact = x.astype(float)[0] - x.astype(float).mean()
    np.testing.assert_array_equal(found, (exact / np.sqrt((exact**2).mean() + float(np.float32(1e-5)))).astype(np.float32))


ZEROS = ([-0.0] * 3, [0.0, -0.0, -0.0], [-0.0, 0.0, 0.0], [0.0] * 3, [1.0] * 3, [-2.0, -2.0, 1.0])


def test_the_signs_of_zeros_are_those_of_the_oracle(ran: Any) -> None:
    """Rows of zeros of either sign, and of equal elements, as elements and as gradients."""
    rows, one = TensorDesc(DataType.FLOAT32, (len(ZEROS) ** 2, 3)), TensorDesc(DataType.FLOAT32, (len(ZEROS) ** 2, 1))
    x, g = (np.array([pair[k] for pair in product(ZEROS, repeat=2)], np.float32) for k in (0, 1))
    compared = 0
    for operator in ("BATCH_NORMALIZATION_TRAINING", "BATCH_NORMALIZATION_TRAINING_GRAD"):
        desc, tensors = training(operator, "FLOAT32", rows.sizes, one.sizes)
        for scale in (1.0, -1.0, -0.0):
            inputs = {name: np.full(t.sizes, scale, np.float32) for name, t in tensors.items()}
            inputs |= {"input_tensor": x, next(name for name, t in tensors.items() if t == rows and name != "input_tensor"): g}
            inputs |= {name: np.abs(array) for name, array in inputs.items() if name == "variance_tensor"}
            compared += all_outputs_agree(desc, inputs, "reduce:compiled")
    ran(compared, 1000)


def test_long_rows_are_those_of_float64_rounded() -> None:
    """Many lines and many blocks: no result here is so close to a tie that float64 would be on the wrong side."""
    for sizes in ((37, 2, 300), (1, 2, 9000)):
        desc, tensors = training("BATCH_NORMALIZATION_TRAINING", "FLOAT32", sizes, (1, 2, 1))
        rng = np.random.default_rng(7)
        inputs = {name: rng.standard_normal(t.sizes, np.float32) for name, t in tensors.items()}
        outputs = {f.name: np.empty(getattr(desc, f.name).sizes, np.float32) for f in desc.spec.outputs}
        dml.Device("cpu").compile(desc).bind(**inputs, **outputs).execute()
        x, scale, bias, added = (inputs[f"{name}_tensor"].astype(float) for name in ("input", "scale", "bias", "fused_add"))
        mean = x.mean((0, 2), keepdims=True)
        variance = ((x - mean) ** 2).mean((0, 2), keepdims=True)
        made = scale * (x - mean) / np.sqrt(variance + desc.epsilon) + bias + added
        for name, exact in zip(("output", "output_mean", "output_variance"), (made, mean, variance), strict=True):
            np.testing.assert_array_equal(outputs[f"{name}_tensor"], exact.astype(np.float32), err_msg=name)


@pytest.mark.parametrize("threads", [1, 2])
def test_outputs_that_take_turns(threads: int, monkeypatch: pytest.MonkeyPatch, in_python: list[int]) -> None:
    """Several outputs row by row, in calls that stop for undecided elements: differences of zero without a second stage, full
    lists."""
    monkeypatch.setattr(emit, "FINE", ())
    tuned(monkeypatch, reduce_tuning, turns=1, block=1, alone=1, room_of_block=2)
    rng = np.random.default_rng(8)
    for operator in ("BATCH_NORMALIZATION_TRAINING", "BATCH_NORMALIZATION_TRAINING_GRAD"):
        desc, tensors = training(operator, "FLOAT32", (3, 5, 8), (1, 5, 1))
        for kind in ("ordinary", "specials", "small"):
            inputs = {name: hostile_data.values("FLOAT32", t.sizes, rng, kind) for name, t in tensors.items()}
            for channel in (1, 3):
                inputs["input_tensor"][:, channel] = (-1, 0, 1, 0, 2, 0, -2, 0)
                for name in inputs.keys() & {"bias_tensor", "fused_add_tensor"}:
                    inputs[name][:, channel] = 0
                if "input_gradient_tensor" in inputs:
                    inputs["input_gradient_tensor"][1, channel, 2] = np.inf
            in_python.clear()
            all_outputs_agree(desc, inputs, "reduce:compiled", threads=threads)
            assert sum(in_python) > 2


@pytest.mark.usefixtures("own_code")
@pytest.mark.parametrize("past_cache", [False, True])
def test_a_map_by_lines_goes_on_where_its_list_was_full(past_cache: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    channel = TensorDesc(DataType.FLOAT32, (1, 3, 1))
    planes = TensorDesc(DataType.FLOAT32, (2, 3, 101))
    given = {f"{p}_tensor": channel for p in PARAMETERS}
    desc = named("BATCH_NORMALIZATION")(input_tensor=planes, output_tensor=planes, **given)
    inputs = {"input_tensor": rng.standard_normal(planes.sizes, np.float32)}
    inputs |= {name: rng.random(channel.sizes, np.float32) + np.float32(0.5) for name in given}
    wanted = on_cpu(desc, "elementwise:compiled", inputs)
    stops: list[int] = []
    resolve = UndecidedElements._resolve

    def counting(*arguments: Any) -> None:
        stops.append(1)
        resolve(*arguments)

    monkeypatch.setattr(UndecidedElements, "_resolve", counting)
    monkeypatch.setattr(standardised, "ROUNDED", 2.0**-26)
    tuned(monkeypatch, elementwise_tuning, room=2, stream=0 if past_cache else 1 << 60, long_row=1)
    engine.compiled.cache_clear()
    found = on_cpu(desc, "elementwise:compiled", inputs)
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))
    assert len(stops) > 10
