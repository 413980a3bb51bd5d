"""The second stage of maps alone decides elements very close to ties, ties, integers, and the ends of domains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from agreement import bits
from anydml import DataType, Device, TensorDesc
from anydml.kernels.elementwise import undecided
from anydml.kernels.reference import evaluated
from anydml.schema.kinds import ScaleBias
from anydml.schema.operator import Desc
from anydml.schema.types import EIGHT
from every_kernel import SOAK, Ran, without_dot_products

N = 400 * SOAK
# without fused operations, some quotients remain undecided
ISAS = [t.name for t in without_dot_products() if t.name != "generic"]
INTEGERS = [t for t in EIGHT if t.dtype.kind in "iu"]
Array = NDArray[Any]

pytestmark = pytest.mark.skipif(not ISAS, reason="no code is emitted for this processor")


def tensor(data_type: DataType, count: int = N) -> TensorDesc:
    return TensorDesc(data_type, (1, 1, 1, count))


def decided(desc: Desc, inputs: dict[str, Array], monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that code for every instruction set has the reference's bits, and leaves no element to Python."""
    (output,) = desc.spec.outputs
    wanted = evaluated(desc.as_newest(), inputs)[output.name]

    def asked(*arguments: object) -> Array:
        raise AssertionError(f"{arguments} is left open")

    monkeypatch.setattr(undecided, "exactly", asked)
    for isa in ISAS:
        compiled = Device(isa=isa, threads=1).compile(desc)
        assert compiled.kernel_name == "elementwise:compiled"
        made = np.empty(wanted.shape, wanted.dtype)
        compiled.bind(**inputs, **{output.name: made}).execute()
        np.testing.assert_array_equal(bits(made), bits(wanted), err_msg=isa)


def tiny(seed: int) -> Array:
    """Subnormal numbers and others close to them, odd and even, of both signs."""
    random = np.random.default_rng(seed)
    words = random.integers(1, 1 << random.integers(2, 25, N)).astype(np.uint32)
    words[: N // 4] = 0x00800000 + random.integers(-3, 4, N // 4).astype(np.uint32)
    return (words | random.integers(0, 2, N).astype(np.uint32) << 31).view(np.float32).reshape(1, 1, 1, N)


F32 = tensor(DataType.FLOAT32)
BESIDE_TIES: dict[str, Desc] = {
    "SWISH": dml.ActivationSwish(input_tensor=F32, output_tensor=F32, sigmoid_input_scale=1.0),
    "SWISH, scaled": dml.ActivationSwish(input_tensor=F32, output_tensor=F32, sigmoid_input_scale=1.702),
    "GELU": dml.ActivationGelu(input_tensor=F32, output_tensor=F32),
    "SCALED_TANH": dml.ActivationScaledTanh(input_tensor=F32, output_tensor=F32, alpha=1.0, beta=0.5),
    "SCALED_TANH, outside": dml.ActivationScaledTanh(input_tensor=F32, output_tensor=F32, alpha=0.5, beta=1.0),
    "ELU": dml.ActivationElu(input_tensor=F32, output_tensor=F32, alpha=0.5),
    "SIN": dml.ElementWiseSin(input_tensor=F32, output_tensor=F32, scale_bias=ScaleBias(0.5, 0.0)),
    "ATAN": dml.ElementWiseAtan(input_tensor=F32, output_tensor=F32, scale_bias=ScaleBias(-0.5, 0.0)),
    "SINH": dml.ElementWiseSinh(input_tensor=F32, output_tensor=F32, scale_bias=ScaleBias(0.5, 0.0)),
    "ASINH": dml.ElementWiseAsinh(input_tensor=F32, output_tensor=F32, scale_bias=ScaleBias(1.5, 0.0)),
}


@pytest.mark.parametrize("name", BESIDE_TIES)
def test_beside_a_tie(name: str, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    decided(BESIDE_TIES[name], {"input_tensor": tiny(3)}, monkeypatch)
    ran(N, 400)


def test_an_angle_beside_a_tie(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    y, x = tiny(4), np.random.default_rng(5).choice([1.0, 2.0, 4.0, 8.0], (1, 1, 1, N)).astype(np.float32)
    desc = dml.ElementWiseAtanYx(a_tensor=F32, b_tensor=F32, output_tensor=F32)
    decided(desc, {"a_tensor": y, "b_tensor": x}, monkeypatch)
    ran(N, 400)


@pytest.mark.parametrize("operator", [dml.ElementWiseCeil, dml.ElementWiseFloor])
def test_integers_that_float64_does_not_hold(operator: Any, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    random = np.random.default_rng(6)
    x = (random.integers(-(2**24), 2**24, N) * 2.0 ** random.integers(-4, 100, N)).astype(np.float32).reshape(1, 1, 1, N)
    desc = operator(input_tensor=F32, output_tensor=F32, scale_bias=ScaleBias(-3.0, 0.1))
    decided(desc, {"input_tensor": x}, monkeypatch)
    ran(N, 400)


def test_quotients_that_are_ties(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    random = np.random.default_rng(7)
    bytes_ = tensor(DataType.INT8)
    one, cases = TensorDesc(DataType.FLOAT32, (1, 1, 1, 1)), 0
    desc = dml.ElementWiseQuantizedLinearAdd(
        a_tensor=bytes_, a_scale_tensor=one, b_tensor=bytes_, b_scale_tensor=one, output_scale_tensor=one, output_tensor=bytes_
    )
    for _ in range(12):
        a, b = random.integers(-128, 128, (2, 1, 1, 1, N)).astype(np.int8)
        scales = [np.array(s, np.float32).reshape(1, 1, 1, 1) for s in random.choice([0.25, 0.75, 1.5, 3, 2.0**80], 3)]
        inputs = dict(a_tensor=a, a_scale_tensor=scales[0], b_tensor=b, b_scale_tensor=scales[1], output_scale_tensor=scales[2])
        decided(desc, inputs, monkeypatch)
        cases += N
    ran(cases, 4800)


@pytest.mark.parametrize("data_type", INTEGERS)
def test_powers_of_integers(data_type: DataType, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """Compared with Python's powers: modulo 2^bits; of a base with a ScaleBias, within the type's range."""
    random = np.random.default_rng(8)
    info = np.iinfo(data_type.dtype)
    x = random.integers(info.min, info.max, N, data_type.dtype, endpoint=True)
    x[: N // 2] = random.integers(max(-5, info.min), 6, N // 2)
    y = random.integers(0, 9, N).astype(data_type.dtype)
    y[::5] = random.integers(info.min, info.max, len(y[::5]), data_type.dtype, endpoint=True)
    y[1::5] = -1 if info.min else info.max
    inputs = {"input_tensor": x.reshape(1, 1, 1, N), "exponent_tensor": y.reshape(1, 1, 1, N)}
    t = tensor(data_type)
    desc = dml.ElementWisePow(input_tensor=t, exponent_tensor=t, output_tensor=t)
    decided(desc, inputs, monkeypatch)
    bits_ = data_type.element_bits
    found = dml.element_wise_pow(x, y)
    for a, b, c in zip(x.tolist(), y.tolist(), found.tolist(), strict=True):
        wanted = pow(a, b, 1 << bits_) if b >= 0 else a ** (b & 1) if abs(a) == 1 else 0
        assert (c - wanted) % (1 << bits_) == 0, (a, b, c)
    if bits_ <= 16:
        monkeypatch.undo()
        decided(replace(desc, scale_bias=ScaleBias(2.0, 1.0)), inputs, monkeypatch)
    ran(N, 400)


@pytest.mark.parametrize(
    ("data_type", "scale"),
    [
        (DataType.FLOAT16, None),
        (DataType.FLOAT16, ScaleBias(2.0, 1.0)),
        (DataType.INT32, None),
        (DataType.INT32, ScaleBias(0.5, 0.0)),
        (DataType.UINT16, ScaleBias(2.0, 1.0)),
        (DataType.INT8, ScaleBias(-0.25, 1.0)),
    ],
)
def test_powers_that_are_exact(data_type: DataType, scale: ScaleBias | None, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """Ties of FLOAT16 and integers, with exponents that are multiples of an eighth, also negative ones."""
    random = np.random.default_rng(9)
    roots = random.integers(1, 24, N)
    eighths = random.choice([1, 2, 4, 8], N)
    x = np.where(random.random(N) < 0.5, roots ** (8 // eighths), random.integers(1, 60, N))
    y = np.where(random.random(N) < 0.5, random.integers(1, 40, N) * eighths / 8, random.integers(0, 9, N))
    x[: N // 4], y[: N // 4] = 2 ** random.integers(0, 7, N // 4), random.integers(-16, 17, N // 4) / 4
    t, singles = tensor(data_type), tensor(DataType.FLOAT32)
    inputs = {"input_tensor": np.minimum(x, 127).astype(data_type.dtype), "exponent_tensor": y.astype(np.float32)}
    inputs = {name: array.reshape(1, 1, 1, N) for name, array in inputs.items()}
    desc = dml.ElementWisePow(input_tensor=t, exponent_tensor=singles, output_tensor=t, scale_bias=scale)
    decided(desc, inputs, monkeypatch)
    ran(N, 400)


STEEP: dict[str, Any] = {
    "ASIN": dml.ElementWiseAsin,
    "ACOS": dml.ElementWiseAcos,
    "ACOSH": dml.ElementWiseAcosh,
    "ATANH": dml.ElementWiseAtanh,
}


@pytest.mark.parametrize("name", STEEP)
def test_ends_of_a_domain(name: str, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """Arguments at distances of 2^-149 and more from 1 or -1, on both sides, and 1 and -1 themselves."""
    random = np.random.default_rng(10)
    x = (random.standard_normal(N) * 2.0 ** random.integers(-140, 1, N)).astype(np.float32)
    x[::7] = 0
    x[1::7] = tiny(11).ravel()[1::7]
    for scale in (ScaleBias(2.0, 1.0), ScaleBias(1.0, -1.0), ScaleBias(-0.1, 1.0)):
        desc = STEEP[name](input_tensor=F32, output_tensor=F32, scale_bias=scale)
        decided(desc, {"input_tensor": x.reshape(1, 1, 1, N)}, monkeypatch)
        monkeypatch.undo()
    ran(3 * N, 1200)


def test_large_powers_of_numbers_beside_1(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """(1 + x)^y, which is about e^(x y), for x so small that float64 loses it beside 1, and y of any magnitude."""
    random = np.random.default_rng(12)
    x = (random.standard_normal(N) * 2.0 ** random.integers(-120, -20, N)).astype(np.float32)
    y = (random.standard_normal(N) * 2.0 ** random.integers(-10, 120, N)).astype(np.float32)
    y[::3] = (random.standard_normal(len(x[::3])) * 60 / x[::3].astype(np.float64)).clip(-3e38, 3e38).astype(np.float32)
    y[1::9] = random.choice([np.inf, -np.inf, np.nan, 0.0, 3.0], len(y[1::9]))
    x[2::9] = 0
    desc = dml.ElementWisePow(input_tensor=F32, exponent_tensor=F32, output_tensor=F32, scale_bias=ScaleBias(1.0, 1.0))
    inputs = {"input_tensor": x.reshape(1, 1, 1, N), "exponent_tensor": y.reshape(1, 1, 1, N)}
    decided(desc, inputs, monkeypatch)
    ran(N, 400)


@pytest.mark.parametrize("data_type", [DataType.INT64, DataType.UINT64])
def test_integers_of_64_bits_that_are_scaled(data_type: DataType, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    random = np.random.default_rng(13)
    info = np.iinfo(data_type.dtype)
    x = random.integers(info.min, info.max, N, data_type.dtype, endpoint=True) >> random.integers(0, 64, N).astype(
        data_type.dtype
    )
    x[:8] = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2, info.max // 2 + 1, 0, 1]
    t, cases = tensor(data_type), 0
    low, high = info.max // 5, info.max - 1
    for scale, bias in ((-3.0, 0.1), (0.5, 1.0), (-1.0, 2.0**63), (2.0**-40, 2.0**60)):
        descs: list[Desc] = [
            dml.ElementWiseIdentity(input_tensor=t, output_tensor=t, scale_bias=ScaleBias(scale, bias)),
            dml.ElementWiseClip1(
                input_tensor=t,
                output_tensor=t,
                scale_bias=ScaleBias(scale, bias),
                min_max_data_type=data_type,
                min=low,
                max=high,
            ),
        ]
        if data_type == DataType.INT64:
            descs.append(dml.ElementWiseAbs(input_tensor=t, output_tensor=t, scale_bias=ScaleBias(scale, bias)))
        for desc in descs:
            decided(desc, {"input_tensor": x.reshape(1, 1, 1, N)}, monkeypatch)
            monkeypatch.undo()
            cases += N
    ran(cases, 3200)
