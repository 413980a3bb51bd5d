"""Four ways to a result have the same bits: eager, the object model, a program saved and loaded, and the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import anydml as dml
import oracle
from anydml import program
from hard_cases import QuantizedCase, expected, quantized_cases

Array = NDArray[Any]
SETTINGS = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], print_blob=True
)
by_device = pytest.mark.parametrize("device", ["cpu", "reference"])


def as_program(bound: dml.BoundOperator, folder: Path, device: str, like: Array) -> Array:
    """The result of the call as a program that was saved, loaded and run, without the call's output."""
    program.of(bound).save(folder)
    results = dml.program.load(folder).run(device, output_path=folder)
    return results["OutputTensor"].view(like.dtype).reshape(like.shape)


@by_device
def test_quantized_matmuls(device: str, tmp_path: Path) -> None:
    count = 0

    @SETTINGS
    @given(quantized_cases())
    def same(case: QuantizedCase) -> None:
        nonlocal count
        count += 1
        want = expected(case)
        names = ("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "output_scale", "output_zero_point")
        inputs = {f"{n}_tensor": x for n, x in zip(names, case.operands, strict=True) if x is not None}
        desc = dml.QuantizedLinearMatrixMultiply(
            **{name: dml.TensorDesc.of(x) for name, x in inputs.items()},
            output_tensor=dml.TensorDesc.of(want),
        )
        output = np.zeros_like(want)
        bound = dml.Device(device).compile(desc).bind(**inputs, output_tensor=output)
        program = as_program(bound, tmp_path / "quantized", device, want)
        bound.execute()
        np.testing.assert_array_equal(output, want)
        np.testing.assert_array_equal(program, want)
        rows = {n: x.reshape((1,) * (2 - x.ndim) + x.shape) if x is not None and x.ndim < 2 else x
                for n, x in zip(names, case.operands, strict=True)}  # fmt: skip
        eager = dml.quantized_linear_matrix_multiply(**rows, output_data_type=want.dtype, device=device)  # type: ignore[arg-type]
        np.testing.assert_array_equal(eager, want)
        sums = dml.matrix_multiply_integer(rows["a"], rows["b"], rows["a_zero_point"], rows["b_zero_point"], device=device)  # type: ignore[arg-type]
        np.testing.assert_array_equal(sums, oracle.matrix_multiply_integer(*case.operands[0:3:2], *case.operands[3:6:2]))

    same()
    assert count >= 40


@by_device
def test_slices(device: str, tmp_path: Path) -> None:
    count = 0

    @SETTINGS
    @given(st.data())
    def same(data: st.DataObject) -> None:
        nonlocal count
        count += 1
        dtype = data.draw(st.sampled_from(["uint8", "float16", "float32", "int64"]))
        sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
        windows = []
        for n in sizes:
            size = data.draw(st.integers(1, n))
            offset = data.draw(st.integers(0, n - size))
            stride = data.draw(st.sampled_from([1, 2, 3, -1, -2, -3]))
            windows.append((offset, size, stride))
        offsets, extents, strides = (tuple(w[i] for w in windows) for i in range(3))
        bits = data.draw(st.binary(min_size=int(np.prod(sizes)) * 8, max_size=int(np.prod(sizes)) * 8))
        x = np.frombuffer(bits, dtype)[: int(np.prod(sizes))].reshape(sizes)
        kept = f"u{x.itemsize}"
        out_sizes = oracle.max_copied(extents, strides)
        want = np.array(oracle.slice1(oracle.bits_of(x), offsets, extents, strides, out_sizes).elements, kept)
        desc = dml.Slice1(
            input_tensor=dml.TensorDesc.of(x),
            output_tensor=dml.TensorDesc(dml.DataType.of(x.dtype), tuple(out_sizes)),
            input_window_offsets=offsets,
            input_window_sizes=extents,
            input_window_strides=strides,
        )
        output = np.zeros(tuple(out_sizes), x.dtype)
        bound = dml.Device(device).compile(desc).bind(input_tensor=x, output_tensor=output)
        program = as_program(bound, tmp_path / "slice", device, output)
        bound.execute()
        eager = dml.slice1(x, offsets, extents, strides, device=device)
        for got in (output, program, eager):
            np.testing.assert_array_equal(got.view(kept).ravel(), want)

    same()
    assert count >= 40


def test_an_owned_input_goes_along(tmp_path: Path) -> None:
    desc = dml.Slice(
        input_tensor=dml.TensorDesc("INT32", (4, 4), flags="OWNED_BY_DML"),
        output_tensor=dml.TensorDesc("INT32", (2, 2)),
        offsets=(0, 1),
        sizes=(2, 2),
        strides=(2, 2),
    )
    x = np.arange(16, dtype=np.int32).reshape(4, 4)
    compiled = dml.Device().compile(desc)
    compiled.initialize(input_tensor=x)
    program = as_program(compiled.bind(output_tensor=np.zeros((2, 2), np.int32)), tmp_path, "cpu", np.zeros((2, 2), np.int32))
    assert program.tolist() == [[1, 3], [9, 11]]
