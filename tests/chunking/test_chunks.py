"""Windows of chunks: nothing outside of them matters, and they give the bits of the whole."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.errors import BindingError, DataError, DescError, UnsupportedError
from dask_cases import CASES, random_chunks

POOLING: dict[str, Any] = {"strides": (2, 2), "window_size": (3, 3), "start_padding": (1, 1), "end_padding": (1, 1)}


def pooling(high: int = 9, wide: int = 11) -> tuple[dml.AveragePooling, np.ndarray[Any, Any]]:
    x = np.random.default_rng(0).normal(size=(1, 2, high, wide)).astype(np.float32)
    sizes = (1, 2, 1 + (high - 1) // 2, 1 + (wide - 1) // 2)
    tensors: dict[str, Any] = {
        "input_tensor": dml.TensorDesc("FLOAT32", x.shape),
        "output_tensor": dml.TensorDesc("FLOAT32", sizes),
    }
    return dml.AveragePooling(**tensors, **POOLING, include_padding=False), x


def test_windows_of_chunks() -> None:
    desc, x = pooling()
    result = np.empty(desc.output_tensor.sizes, np.float32)
    found = list(dml.chunks(desc, (1, 1, 2, (5, 1))))
    for chunk, inputs, output in found:
        result[output] = pickle.loads(pickle.dumps(chunk))(**{name: x[window] for name, window in inputs.items()})
    assert result.tobytes() == dml.average_pooling(x, **POOLING).tobytes()
    assert len(found) == 12
    # the first chunk has windows -1 .. 3 of rows, of which 0 .. 3 exist; the last has row 7 and 8, and column 9 and 10
    assert found[0].inputs["input_tensor"] == (slice(0, 1), slice(0, 1), slice(0, 4), slice(0, 10))
    assert found[-1].inputs["input_tensor"] == (slice(0, 1), slice(1, 2), slice(7, 9), slice(9, 11))
    assert found[-1].output == (slice(0, 1), slice(1, 2), slice(4, 5), slice(5, 6))


def test_nothing_is_read_of_chunks_in_the_padding() -> None:
    t = dml.TensorDesc("INT8", (5,)), dml.TensorDesc("INT8", (15,))
    around: dict[str, Any] = {"start_padding": (5,), "end_padding": (5,)}
    desc = dml.Padding1(
        input_tensor=t[0], output_tensor=t[1], padding_value_data_type=dml.DataType.INT8, padding_value=7, **around
    )
    pieces = list(dml.chunks(desc, (5,)))
    assert [p.inputs["input_tensor"] for p in pieces] == [(slice(0, 0),), (slice(0, 5),), (slice(0, 0),)]
    assert pieces[0].chunk().tolist() == [7] * 5
    assert pieces[1].chunk(input_tensor=np.arange(5, dtype=np.int8)).tolist() == [0, 1, 2, 3, 4]


def test_memory_decides_about_chunks() -> None:
    desc, x = pooling(64, 64)
    most = 3000
    result = np.empty(desc.output_tensor.sizes, np.float32)
    pieces = list(dml.chunks(desc, max_memory=most))
    for chunk, inputs, output in pieces:
        part = x[inputs["input_tensor"]]
        result[output] = chunk(input_tensor=part)
        assert part.nbytes + result[output].nbytes <= most
    assert result.tobytes() == dml.average_pooling(x, **POOLING).tobytes()
    assert 1 < len(pieces) <= 40
    with pytest.raises(BindingError, match="takes more with its windows"):
        dml.chunks(desc, max_memory=30)


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ((1, 2, 3), "takes an entry for each of 4 dimensions"),
        ((1, 2, 0, 1), "a chunk has at least one element"),
        ((1, 2, (2, 2), 6), r"must be at least 1 and add up to 5"),
        (None, "chunks or max_memory must be given"),
    ],
)
def test_chunks_that_do_not_fit(chunks: Any, text: str) -> None:
    with pytest.raises(BindingError, match=text):
        dml.chunks(pooling()[0], chunks)


def test_refusals() -> None:
    desc, x = pooling()
    (first, *_) = dml.chunks(desc, (1, 2, 5, 3))
    with pytest.raises(BindingError, match=r"input_tensor has shape .* where the window takes \(1, 2, 9, 6\) of float32"):
        first.chunk(input_tensor=x)
    with pytest.raises(BindingError, match="is missing"):
        first.chunk()
    two, three = (dml.TensorDesc("FLOAT32", (n,)) for n in (2, 3))
    with pytest.raises(DescError):
        dml.chunks(dml.ActivationRelu(input_tensor=two, output_tensor=three), (2,))
    four = dml.TensorDesc("INT4", (8,))
    with pytest.raises(UnsupportedError, match="4 bits"):
        dml.chunks(
            dml.Dequantize(
                input_tensor=four,
                quantization_tensors=(dml.TensorDesc("FLOAT32", (8,)),),
                output_tensor=dml.TensorDesc("FLOAT32", (8,)),
                quantization_type="SCALE",  # type: ignore[arg-type]  # converted by name
            ),
            (4,),
        )
    indices = dml.TensorDesc("UINT32", (1, 1, 2, 2))
    t = dml.TensorDesc("FLOAT32", (1, 1, 2, 2))
    window: dict[str, Any] = {
        "strides": (1, 1),
        "window_size": (1, 1),
        "start_padding": (0, 0),
        "end_padding": (0, 0),
        "dilations": (1, 1),
    }
    both = dml.MaxPooling2(input_tensor=t, output_tensor=t, output_indices_tensor=indices, **window)
    with pytest.raises(BindingError, match="output must be given: output_tensor or output_indices_tensor"):
        dml.chunks(both, (1, 1, 2, 2))
    (piece,) = dml.chunks(both, (1, 1, 2, 2), output="output_indices_tensor")
    assert piece.chunk(input_tensor=np.zeros((1, 1, 2, 2), np.float32)).tolist() == [[[[0, 1], [2, 3]]]]


def test_a_broken_rule_about_data_is_found_in_the_window() -> None:
    t = dml.TensorDesc("UINT8", (4, 4))
    one = dml.TensorDesc("FLOAT32", (4, 1))
    single = dml.TensorDesc("FLOAT32", (1, 1))
    desc = dml.QuantizedLinearMatrixMultiply(
        a_tensor=t, a_scale_tensor=one, b_tensor=t, b_scale_tensor=single, output_scale_tensor=single, output_tensor=t
    )
    scale = np.array([[1], [1], [0], [1]], np.float32)
    a = np.ones((4, 4), np.uint8)
    for k, (chunk, inputs, _) in enumerate(dml.chunks(desc, (2, 4))):
        arrays: dict[str, Any] = {"a_tensor": a, "b_tensor": a, "a_scale_tensor": scale}
        arrays |= dict.fromkeys(("b_scale_tensor", "output_scale_tensor"), np.ones((1, 1), np.float32))
        given = {name: arrays[name][window] for name, window in inputs.items()}
        if k == 0:
            assert chunk(**given).tolist() == [[4] * 4] * 2
        else:
            with pytest.raises(DataError, match=r"a_scale_tensor\[0, 0\] is 0.0"):
                chunk(**given)


# --- requantize ---


def test_requantize_rounds_exact_quotients_once() -> None:
    rng, count = np.random.default_rng(6), 0
    for _ in range(40):
        q = rng.integers(-(2**47), 2**47, (3, 5)) if rng.random() < 0.5 else rng.integers(-999, 999, (3, 5)).astype(np.int32)
        a, y = (np.ldexp(rng.random((3, 1)) + 0.5, rng.integers(-30, 3)).astype(np.float32) for _ in range(2))
        b = np.float32(0.5) if rng.random() < 0.5 else np.ldexp(rng.random(5) + 0.5, -20).astype(np.float32)
        zero = rng.integers(-9, 9, (3, 1)).astype(np.int8)
        got = dml.requantize(q, a, b, y, zero)
        for m, n in np.ndindex(3, 5):
            factor = float(b) if np.ndim(b) == 0 else float(np.asarray(b)[n])
            exact = int(q[m, n]) * Fraction(float(a[m, 0])) * Fraction(factor) / Fraction(float(y[m, 0]))
            assert int(got[m, n]) == min(127, max(-128, round(exact) + int(zero[m, 0])))
            count += 1
    print(f"{count} quotients")
    assert count == 600


def test_requantize_of_sums_in_parts_is_the_whole_product() -> None:
    rng = np.random.default_rng(7)
    case = CASES["quantized_linear_matrix_multiply"](rng)
    a, scale_a, zero_a, b, scale_b, zero_b, scale_y, zero_y = case.arrays
    whole = dml.quantized_linear_matrix_multiply(*case.arrays)
    ((_, cuts),) = [(0, random_chunks(rng, (a.shape[-1],))[0])]
    sums, at = np.zeros(whole.shape, np.int64), 0
    for n in cuts:
        part = np.ascontiguousarray(a[..., at : at + n]), np.ascontiguousarray(b[..., at : at + n, :])
        sums += dml.matrix_multiply_integer(*part, zero_a, zero_b)
        at += n
    got = dml.requantize(sums, scale_a[:, None], scale_b, scale_y[:, None], zero_y[:, None])
    assert got.tobytes() == whole.tobytes()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"sums": np.ones((2, 2), np.float32)}, BindingError, "takes int32 or int64"),
        ({"a_scale": 0.0}, DataError, "a_scale.* is 0.0"),
        ({"b_scale": np.float32(np.nan)}, DataError, "b_scale.* is nan"),
        ({"output_scale": np.ones((3, 1), np.float32)}, BindingError, "does not broadcast"),
        ({"output_zero_point": 256}, BindingError, "an integer from 0 to 255"),
        ({"output_data_type": "FLOAT32"}, BindingError, "may be INT8 or UINT8"),
        ({"a_scale": np.ones(2, np.int32)}, BindingError, "takes float32"),
    ],
)
def test_requantize_refuses(change: dict[str, Any], error: type[Exception], text: str) -> None:
    given: dict[str, Any] = {"sums": np.ones((2, 2), np.int32), "a_scale": 1.0, "b_scale": 1.0, "output_scale": 1.0} | change
    with pytest.raises(error, match=text):
        dml.requantize(**given)
