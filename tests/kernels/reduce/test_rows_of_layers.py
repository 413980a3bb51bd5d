"""Softmax and normalisations of data that resemble those of layers: the oracle's bits, and no element is decided in Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from agreement import SOAK, expected
from anydml import DataType, TensorDesc, operators
from anydml.kernels.elementwise import standardised
from anydml.kernels.reduce import softmax
from every_kernel import without_dot_products

ISAS = [target.name for target in without_dot_products()]
TYPES = (DataType.FLOAT32, DataType.FLOAT16)
ROWS, CHANNELS = (3, 21), (2, 2, 1, 11)
Array = NDArray[Any]


def kinds(sizes: tuple[int, ...], data_type: DataType, seed: int) -> Iterator[tuple[str, Array]]:
    """Elements of each kind; the last dimension is a row, or a part of one."""
    rng = np.random.default_rng(seed)

    def normal() -> Array:
        return rng.standard_normal(sizes)

    def with_one(value: float) -> Array:
        x = normal()
        x[..., 5] = value
        return x

    half = data_type == DataType.FLOAT16
    made = {
        "normal": normal(),
        "after RELU": np.maximum(normal(), 0),
        "zeros": np.zeros(sizes),
        "equal": np.full(sizes, 0.7),
        "one-hot": np.broadcast_to(np.arange(sizes[-1]) == 3, sizes).astype(float),
        "integers": rng.integers(-4, 5, sizes).astype(float),
        "balanced integers": np.broadcast_to([*np.resize([1.0, -1.0, 2.0, -2.0, 0.0, -0.0], sizes[-1] - 1), 0.0], sizes),
        "saturated": np.sign(normal()) * 1000,
        **{f"one ahead by {n}": with_one(n) for n in (20, 40, 60, 200)},
        **{f"one {x}": with_one(x) for x in (np.inf, -np.inf, np.nan)},
        "the first infinite": np.where(np.arange(sizes[-1]) == 0, np.inf, normal()),
        "infinities of both signs": np.where(rng.random(sizes) < 0.2, np.copysign(np.inf, normal()), normal()),
        "masked": np.where(np.arange(sizes[-1]) < 8, normal(), -np.inf),
        "padded": np.where(np.arange(sizes[-1]) < 8, normal(), 0.0),
        "subnormal": normal() * (6e-8 if half else 1e-40),
        "huge": normal() * (8000 if half else 1e29),
    }
    for name, x in made.items():
        with np.errstate(over="ignore"):
            yield name, np.ascontiguousarray(x, data_type.dtype)


def descs(data_type: DataType) -> dict[str, tuple[Any, str]]:
    """Operators, each with the input whose elements have the kind."""
    rows, images = TensorDesc(data_type, ROWS), TensorDesc(data_type, CHANNELS)
    row, channel = TensorDesc(data_type, (1, ROWS[1])), TensorDesc(data_type, (1, 2, 1, 1))
    both: dict[str, Any] = dict(input_tensor=rows, output_tensor=rows)
    planes: dict[str, Any] = dict(input_tensor=images, output_tensor=images)
    given = {f"{p}_tensor": channel for p in ("mean", "variance", "scale", "bias")}
    gradients = {f"output_{p}_gradient_tensor": channel for p in ("scale", "bias")}
    gradients["output_gradient_tensor"] = images
    backward = dict(input_tensor=images, input_gradient_tensor=images, **given, **gradients)
    del backward["bias_tensor"]

    def made(name: str, /, **fields: Any) -> Any:
        found: Any = operators.find(name)
        return found(**fields)

    layer = dict(**both, scale_tensor=row, bias_tensor=row, axes=(1,))
    norm, mean = "LP_NORMALIZATION", "MEAN_VARIANCE_NORMALIZATION2"
    found = {
        "softmax": made("ACTIVATION_SOFTMAX1", **both, axes=(1,)),
        "log-softmax": made("ACTIVATION_LOG_SOFTMAX1", **both, axes=(1,)),
        "hardmax": made("ACTIVATION_HARDMAX1", **both, axes=(1,)),
        "by lengths": made(norm, **both, axis=1),
        "by lengths without Epsilon": made(norm, **both, axis=1, epsilon=0.0),
        "by magnitudes": made(norm, **both, axis=1, p=1),
        "layer": made(mean, **layer),
        "layer without Epsilon": made(mean, **layer, epsilon=0.0),
        "bare": made(mean, **both, axes=(1,)),
        "less the mean": made(mean, **both, axes=(1,), use_variance=False),
        "RMS": made(mean, **both, axes=(1,), use_mean=False),
        "instance": made(mean, **planes, scale_tensor=channel, bias_tensor=channel, axes=(2, 3)),
        "batch": made("BATCH_NORMALIZATION", **planes, **given),
        "training": made(
            "BATCH_NORMALIZATION_TRAINING", **planes, scale_tensor=channel, bias_tensor=channel, output_mean_tensor=channel,
            output_variance_tensor=channel,
        ),
        "gradient of elements": made("BATCH_NORMALIZATION_TRAINING_GRAD", **backward),
        "gradient of gradients": made("BATCH_NORMALIZATION_TRAINING_GRAD", **backward),
    }  # fmt: skip
    return {name: (d, "input_gradient_tensor" if "gradients" in name else "input_tensor") for name, d in found.items()}


def agree(desc: Any, inputs: dict[str, Array], isa: str, kind: str) -> int:
    """Compare every output of a call with the oracle's; return the number of elements."""
    compiled = dml.Device("cpu", isa=isa).compile(desc)
    assert compiled.kernel_name in ("reduce:compiled", "elementwise:compiled")
    wanted = expected(desc, inputs)
    outputs = {name: np.empty_like(x) for name, x in wanted.items()}
    compiled.bind(**inputs, **outputs).execute()
    for name, x in outputs.items():
        same = x.view(f"u{x.itemsize}") == wanted[name].view(f"u{x.itemsize}")
        assert same.all(), (kind, isa, name, x[~same][:5], wanted[name][~same][:5])
    return sum(int(x.size) for x in outputs.values())


def inputs_of(desc: Any, which: str, x: Array) -> dict[str, Array]:
    """Random inputs of a call, except for one that is given."""
    rng = np.random.default_rng(1)
    made = {}
    for t in desc.tensors():
        if not t.name.startswith("output"):
            other = rng.standard_normal(t.desc.sizes).astype(t.desc.data_type.dtype)
            made[t.name] = np.abs(other) if t.name == "variance_tensor" else other
    return made | {which: x}


@pytest.mark.parametrize("name", descs(DataType.FLOAT32))
def test_no_element_is_decided_in_python(name: str, left: list[int], ran: Any) -> None:
    compared, turn = 0, list(descs(DataType.FLOAT32)).index(name)
    for data_type in TYPES if SOAK > 1 or "softmax" in name else TYPES[turn % 4 == 3 :][:1]:
        desc, which = descs(data_type)[name]
        isas = ISAS if SOAK > 1 else [ISAS[turn % len(ISAS)]]
        for kind, x in kinds(getattr(desc, which).sizes, data_type, 3):
            for isa in isas:
                compared += agree(desc, inputs_of(desc, which, x), isa, f"{name}, {data_type.name}, {kind}")
            assert sum(left) == 0, (kind, data_type.name, sum(left))
        turn += 1
    ran(compared, 21 * 44)


def test_means_of_gradients_that_are_far_from_zero(left: list[int], ran: Any) -> None:
    """Differences from the first gradient are summed, as those of elements are."""
    desc, which = descs(DataType.FLOAT32)["gradient of gradients"]
    rng, compared = np.random.default_rng(4), 0
    for far in (1.0, 1e4, 3e7):
        x = (far + rng.standard_normal(getattr(desc, which).sizes)).astype(np.float32)
        compared += agree(desc, inputs_of(desc, which, x), ISAS[-1], str(far))
    assert sum(left) == 0
    ran(compared, 3 * 44)


def test_products_that_cancel(left: list[int], ran: Any) -> None:
    """A gradient of the scale is +0 because its products cancel; this is known without Python."""
    desc, which = descs(DataType.FLOAT32)["gradient of elements"]
    place, compared = np.arange(22.0), 0
    ahead, every = (place < 4).astype(float), (place % 2).astype(float)  # both are 1 at two positions: 2 = 4 * 11 / 22
    for x, g in ((ahead, every), (place - 7, np.abs(place - 10.5)), (np.zeros(22), every), (ahead, np.zeros(22))):
        for factor in (1.0, -1.0, 0.1):
            channels = [np.array([row * factor + 0.0, row], np.float32).reshape(2, 2, 1, 11).swapaxes(0, 1) for row in (x, g)]
            images = [np.ascontiguousarray(a) for a in channels]
            inputs = inputs_of(desc, which, images[0]) | {"input_gradient_tensor": images[1]}
            compared += agree(desc, inputs, ISAS[-1], f"{x[:4]} by {factor}")
    assert sum(left) == 0
    ran(compared, 12 * 48)


# --- log-softmax: ties of x - m, by the difference between m and all others ---

AHEAD = (17.0, 25.0, 40.0, 61.5, 100.0, 299.0, 301.0, 600.0, 619.5, 640.0, 680.0, 697.0, 720.0, 760.0, 800.5, 5000.0, 3e19)
NEAR_THE_LIMIT = (703.0, 706.0, 708.0, 709.5, 710.5, 712.0)  # e^-ahead is close to 2^-1024 of a tie


def rows_of_ties(ahead: float, data_type: DataType, rng: np.random.Generator, equal: int = 1) -> Array:
    """Rows with one far larger element, and with elements whose differences from it are exact ties.

    equal: how many elements are closest to it.
    """
    digits = 11 if data_type == DataType.FLOAT16 else 24
    rows = []
    for _ in range(3):
        step = 2.0 ** (int(np.floor(np.log2(ahead))) + 1 - digits)  # of elements in the last place of `ahead`
        m = ahead - ahead % (2 * step)
        x = m - ahead - np.abs(rng.standard_normal(ROWS[1])) * ahead / 8
        x = np.round(x / step) * step + step / 2 * rng.integers(0, 2, ROWS[1])
        x[:equal] = m - ahead
        rows.append(np.concatenate([[m], x]))
    found = np.array(rows).astype(data_type.dtype)
    return np.ascontiguousarray(found[:, rng.permutation(ROWS[1] + 1)])


@pytest.mark.parametrize("isa", ISAS)
def test_ties_of_log_softmax(isa: str, left: list[int], ran: Any) -> None:
    """x - m is a tie, and the sum that is subtracted decides to which side it is rounded, however small it is."""
    rng, ties = np.random.default_rng(5), 0
    for data_type in TYPES:
        sizes = (3, ROWS[1] + 1)
        t = TensorDesc(data_type, sizes)
        found: Any = operators.find("ACTIVATION_LOG_SOFTMAX1")
        desc = found(input_tensor=t, output_tensor=t, axes=(1,))
        for ahead, equal in (*((a, 1) for a in AHEAD), *product(NEAR_THE_LIMIT, (0, 1, 9))):
            if ahead > 6e4 and data_type == DataType.FLOAT16:
                continue
            left.clear()
            x = rows_of_ties(ahead, data_type, rng, equal)
            exact = x.astype(float) - x.max(1, keepdims=True).astype(float)
            rounded = exact.astype(data_type.dtype)
            beside = np.nextafter(rounded, np.where(exact > rounded, np.inf, -np.inf).astype(data_type.dtype))
            ties += int((np.abs(exact - rounded) == np.abs(exact - beside.astype(float))).sum())
            agree(desc, {"input_tensor": x}, isa, f"{ahead}, {data_type.name}")
            assert sum(left) == 0, (ahead, data_type.name, sum(left))
    ran(ties, 1000)


@pytest.mark.parametrize("isa", ISAS)
def test_log_softmax_by_wide_bounds(isa: str, monkeypatch: pytest.MonkeyPatch, in_python: list[int]) -> None:
    """With bounds that decide little, the stage for ties and Python have the same elements."""
    for name in ("EXP_REL", "PICKED_REL"):
        monkeypatch.setattr(softmax, name, 2.0**-25)
    desc, which = descs(DataType.FLOAT32)["log-softmax"]
    for kind, x in kinds(ROWS, DataType.FLOAT32, 6):
        agree(desc, {which: x}, isa, kind)
    assert sum(in_python) > 20


@pytest.mark.parametrize(
    "name", ["layer", "bare", "less the mean", "training", "gradient of elements", "gradient of gradients"]
)
def test_rows_in_twice_the_precision(name: str, monkeypatch: pytest.MonkeyPatch, in_python: list[int], ran: Any) -> None:
    """With bounds that decide nothing, the second stage decides elements, zeros among them, and whole rows."""
    monkeypatch.setattr(standardised, "ROUNDED", 2.0**-26)
    compared = 0
    for turn, data_type in enumerate(TYPES if SOAK > 1 else TYPES[:1]):
        desc, which = descs(data_type)[name]
        for kind, x in kinds(getattr(desc, which).sizes, data_type, 7):
            compared += agree(desc, inputs_of(desc, which, x), ISAS[(turn + len(name)) % len(ISAS)], f"{name}, {kind}")
    ran(compared, 21 * 44)
