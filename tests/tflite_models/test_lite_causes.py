"""TensorFlow Lite's reference kernels, in Python's integers from its sources: `compare` names what they compute."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml.tflite
from fixed_point import c_quotient, multiply_by_quantized_multiplier, quantize_multiplier
from lite_cases import CASES, Case, Spec

Array = NDArray[Any]
BY_NAME = {case.name: case for case in CASES}


def scale(s: Spec | None) -> Any:
    """A scale in float32."""
    assert s is not None
    return np.float32(s.scale)


def leaky(case: Case, x: Array) -> Array:
    """QuantizeLeakyRelu of leaky_relu.h, with the parameters of LeakyReluPrepare."""
    s, y = case.inputs[0], case.outputs[0]
    assert s is not None
    alpha = np.float32(case.members["Alpha"])
    slope = quantize_multiplier(float(scale(s) * alpha / scale(y)))
    identity = quantize_multiplier(float(scale(s) / scale(y)))

    def one(v: int) -> int:
        q = v - s.zero_point
        made = y.zero_point + multiply_by_quantized_multiplier(q, identity if q >= 0 else slope)
        return min(max(made, np.iinfo(x.dtype).min), np.iinfo(x.dtype).max)

    return np.array([one(int(v)) for v in x.reshape(-1)], x.dtype).reshape(x.shape)


def mean(case: Case, x: Array) -> Array:
    """QuantizedMeanOrSum of reduce.h, over height and width."""
    s, y = case.inputs[0], case.outputs[0]
    assert s is not None
    count = x.shape[1] * x.shape[2]
    m = quantize_multiplier(float(scale(s)) / float(scale(y)))
    more = min(count.bit_length() - 1, 32, 31 + m.shift)
    m = m._replace(value=(m.value << more) // count, shift=m.shift - more)
    found = np.empty((x.shape[0], x.shape[3]), x.dtype)
    for n, c in np.ndindex(found.shape):
        total = int(x[n, :, :, c].astype(np.int64).sum()) - s.zero_point * count
        found[n, c] = min(max(multiply_by_quantized_multiplier(total, m) + y.zero_point, -128), 127)
    return found.reshape(y.sizes)


def resize(case: Case, x: Array) -> Array:
    """ResizeBilinearInteger of resize_bilinear.h."""
    corners, centres = case.members["AlignCorners"], case.members["HalfPixelCenters"]
    found = np.empty(case.outputs[0].sizes, x.dtype)

    def place(o: int, n: int, m: int) -> tuple[int, int, int]:
        if corners and m > 1:
            step = c_quotient(1024 * (n - 1) + (m - 1) // 2, m - 1)
        else:
            step = c_quotient(1024 * n + m // 2, m)
        at = o * step + (step // 2 - 512 if centres else 0)
        return at, max(c_quotient(at, 1024), 0), min(c_quotient(at + 1023, 1024), n - 1)

    for b, i, j, c in np.ndindex(found.shape):
        v, y0, y1 = place(i, x.shape[1], found.shape[1])
        u, x0, x1 = place(j, x.shape[2], found.shape[2])
        v, u = v - 1024 * y0, u - 1024 * x0
        parts = ((y0, x0, (1024 - v) * (1024 - u)), (y1, x0, v * (1024 - u)), (y0, x1, (1024 - v) * u), (y1, x1, v * u))
        total = sum(int(x[b, p, q, c]) * w for p, q, w in parts)
        found[b, i, j, c] = c_quotient(total + (1 << 19 if total > 0 else -(1 << 19)), 1 << 20)
    return found


@pytest.mark.parametrize(
    ("name", "kernel", "deviation"),
    [
        ("leaky_relu int8", leaky, "fixed_point_slopes"),
        ("mean int8 true", mean, "fixed_point_mean"),
        ("mean int8 false", mean, "fixed_point_mean"),
        ("resize bilinear int8 (false, false)", resize, "fixed_point_positions"),
        ("resize bilinear int8 (true, false)", resize, "fixed_point_positions"),
        ("resize bilinear int16 (false, true)", resize, "fixed_point_positions"),
    ],
)
def test_a_kernel_s_deviation_is_named(name: str, kernel: Callable[[Case, Array], Array], deviation: str) -> None:
    case = BY_NAME[name]
    for seed in range(20):
        file, inputs, due = case.made(seed)
        actual = kernel(case, inputs["in0"])
        if not np.array_equal(actual, due["out0"]):
            break
    else:
        raise AssertionError("the kernel gives the exact results")
    found = anydml.tflite.compare(file, inputs, actual={"out0": actual})
    assert found.first is not None
    assert found.first.deviation == deviation, str(found)
    assert f"{actual.size} of {actual.size} outputs" in found.first.cause


def test_float_rows_quantised_for_a_product_are_named() -> None:
    """The product of a hybrid layer: AsymmetricQuantizeInputs is false, and each row has a scale of its own."""
    from lite_models import Writer

    random = np.random.default_rng(0)
    writer = Writer()
    x, y = writer.tensor("x", "float32", (3, 24)), writer.tensor("y", "float32", (3, 8))
    weights = random.integers(-127, 128, (8, 24)).astype(np.int8)
    writer.node("FULLY_CONNECTED", [x, writer.constant("w", weights, scale=0.01)], [y], "FullyConnectedOptions")
    given = random.normal(size=(3, 24)).astype(np.float32)
    rows = []
    for row in given:
        largest = np.abs(row).max()
        inverse = np.float32(127) / largest
        q = [int(np.sign(v)) * int(Fraction(float(abs(v * inverse))) + Fraction(1, 2)) for v in row]
        step = largest / np.float32(127) * np.float32(0.01)
        rows.append([np.float32(sum(int(a) * b for a, b in zip(line, q, strict=True))) * step for line in weights])
    found = anydml.tflite.compare(writer.model([x], [y]), {"x": given}, actual={"y": np.array(rows, np.float32)})
    assert found.first is not None
    assert (found.first.verdict, found.first.deviation) == ("beyond rounding", "int8_activations"), str(found)


# what LiteRT 2.3's reference kernels gave for odd multiples of 1379 (softmax: of 172) times 0.0003, in steps of 2^-15
RECORDED = {
    "LOGISTIC": [2, 5, 13, 29, 66, 151, 343, 773, 1716, 3677, 7348, 13043,
                 19725, 25420, 29091, 31052, 31995, 32425, 32617, 32702, 32739, 32755, 32763, 32766],
    "TANH": [-32767, -32767, -32767, -32767, -32767, -32767, -32761, -32730, -32569, -31738, -27713, -12831,
             12831, 27713, 31738, 32569, 32730, 32761, 32767, 32767, 32767, 32767, 32767, 32767],
    "SOFTMAX": [1452, 1610, 1785, 1980, 2196, 2435, 2700, 2994, 3321, 3683, 4083, 4528] * 2,
}  # fmt: skip


@pytest.mark.parametrize("operator", RECORDED)
def test_interpolation_in_a_table_is_named(operator: str) -> None:
    from lite_models import Writer

    writer = Writer()
    x = writer.tensor("x", "int16", (2, 12), scale=0.0003)
    y = writer.tensor("y", "int16", (2, 12), scale=1 / 32768)
    softmax: dict[str, Any] = dict(options="SoftmaxOptions", Beta=1.0) if operator == "SOFTMAX" else {}
    writer.node(operator, [x], [y], **softmax)
    given = np.arange(-23, 24, 2).reshape(2, 12) * 1379
    given = (given // 8 if softmax else given).astype(np.int16)
    recorded = np.array(RECORDED[operator], np.int16).reshape(2, 12)
    found = anydml.tflite.compare(writer.model([x], [y]), {"x": given}, actual={"y": recorded})
    assert found.first is not None
    assert found.first.deviation == "interpolated_table", str(found)
    assert "24 of 24 outputs" in found.first.cause


def test_a_division_that_shifts_too_far_is_named() -> None:
    """Recorded from LiteRT 2.3: two quotients that are nearly 0 become -128."""
    from lite_models import Writer

    writer = Writer()
    x = writer.tensor("x", "int8", (24,), scale=0.05, zero_point=5)
    w = writer.tensor("w", "int8", (24,), scale=0.03, zero_point=1)
    y = writer.tensor("y", "int8", (24,), scale=1.0, zero_point=-3)
    writer.node("DIV", [x, w], [y], "DivOptions")
    given = {"x": (np.arange(24) * 11 - 128).astype(np.int8), "w": (np.arange(24) * 37 % 110 + 8).astype(np.int8)}
    recorded = [-35, -8, -5, -24, -6, -5, -15, -5, -4, -9, -4, -128, -128, -3, -3, 1, -2, -2, 5, 0, -1, 9, 1, -1]
    found = anydml.tflite.compare(writer.model([x, w], [y]), given, actual={"y": np.array(recorded, np.int8)})
    assert found.first is not None
    assert found.first.deviation == "shift_beyond_31", str(found)
    assert "24 of 24 outputs" in found.first.cause


def test_a_sum_that_reads_int8_as_uint8_is_named() -> None:
    """Recorded from LiteRT 2.3's reference kernels."""
    from lite_models import Writer

    writer = Writer()
    x, y = (
        writer.tensor("x", "int8", (6, 4), scale=0.1, zero_point=3),
        writer.tensor("y", "int8", (6,), scale=0.4, zero_point=-5),
    )
    writer.node("SUM", [x, writer.constant("axes", np.array([1], np.int32))], [y], "ReducerOptions", KeepDims=False)
    given = (np.arange(24) * 37 % 256 - 128).astype(np.int8).reshape(6, 4)
    recorded = np.array([-80, 68, -104, 108, -128, -108], np.int8)
    found = anydml.tflite.compare(writer.model([x], [y]), {"x": given}, actual={"y": recorded})
    assert found.first is not None
    assert (found.first.verdict, found.first.deviation) == ("beyond rounding", "unsigned_elements"), str(found)
    assert "6 of 6 outputs" in found.first.cause


# what LiteRT 2.3 with XNNPACK gave for 6 x 4 elements resized to 8 x 7, with centres of pixels and with aligned corners
RESIZED = {
    False: [-128, -115, -94, -72, -51, -30, -17, -35, -22, -1, 20, 30, -41, -84,
             -20, -7, 14, 35, 45, -26, -69, -69, -56, -35, -30, -25, -4, 10,
             42, 55, 76, -15, -106, -85, -71, -7, 6, 27, 0, -27, -6, 8,
             8, -14, -47, -33, -12, 9, 23, 100, 22, -103, -100, -79, -58, -45],
    True: [-128, -109, -91, -72, -54, -35, -17, -22, -4, 15, 33, 52, -21, -94,
            -26, -8, 11, 29, 48, -7, -62, -67, -48, -30, -30, -29, -11, 8,
            39, 57, 76, -15, -107, -88, -70, -2, 17, 35, -1, -37, -19, 0,
            -6, -24, -42, -23, -5, 14, 32, 100, -9, -119, -100, -82, -63, -45],
}  # fmt: skip


@pytest.mark.parametrize("corners", RESIZED)
def test_weights_of_eleven_bits_are_named(corners: bool) -> None:
    from lite_models import Writer

    writer = Writer()
    x, y = (writer.tensor(n, "int8", s, scale=0.1, zero_point=3) for n, s in (("x", (1, 6, 4, 1)), ("y", (1, 8, 7, 1))))
    sizes = writer.constant("sizes", np.array([8, 7], np.int32))
    options = dict(AlignCorners=corners, HalfPixelCenters=not corners)
    writer.node("RESIZE_BILINEAR", [x, sizes], [y], "ResizeBilinearOptions", **options)
    given = (np.arange(24) * 37 % 256 - 128).astype(np.int8).reshape(1, 6, 4, 1)
    recorded = np.array(RESIZED[corners], np.int8).reshape(1, 8, 7, 1)
    found = anydml.tflite.compare(writer.model([x], [y]), {"x": given}, actual={"y": recorded})
    assert found.first is not None
    assert found.first.deviation == "weights_of_11_bits", str(found)
    assert "56 of 56 outputs" in found.first.cause


# what LiteRT 2.3's default kernels gave for odd multiples of 1379 times a power of two, in steps of 2^-15
IN_FIXED_POINT = {
    ("LOGISTIC", -12): [13, 29, 57, 105, 209, 409, 787, 1511, 2835, 5135, 8751, 13651,
        19116, 24016, 27632, 29932, 31256, 31980, 32358, 32558, 32662, 32710, 32738, 32754],
    ("TANH", -12): [-32767, -32767, -32767, -32767, -32767, -32764, -32732, -32616, -32188, -30584, -25092, -10640,
        10640, 25092, 30584, 32188, 32616, 32732, 32764, 32767, 32767, 32767, 32767, 32767],
    ("TANH", -11): [-32767, -32767, -32767, -32767, -32767, -32767, -32767, -32767, -32767, -32684, -31632, -19244,
        19244, 31632, 32684, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767],
}  # fmt: skip


@pytest.mark.parametrize(("operator", "exponent"), IN_FIXED_POINT)
def test_functions_in_fixed_point_are_named(operator: str, exponent: int) -> None:
    from lite_models import Writer

    writer = Writer()
    x, y = (writer.tensor(name, "int16", (24,), scale=2.0**e) for name, e in (("x", exponent), ("y", -15)))
    writer.node(operator, [x], [y])
    given = (np.arange(-23, 24, 2) * 1379).astype(np.int16)
    recorded = np.array(IN_FIXED_POINT[operator, exponent], np.int16)
    found = anydml.tflite.compare(writer.model([x], [y]), {"x": given}, actual={"y": recorded})
    assert found.first is not None
    assert (found.first.verdict, found.first.deviation) == ("beyond rounding", "fixed_point_exp"), str(found)
    assert "24 of 24 outputs" in found.first.cause
