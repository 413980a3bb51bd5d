"""Products with few rows of A and a B bound at execution: B is read without packing, and no other memory is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
import guard_pages
from anydml.kernels.code import engine, llvm, targets
from anydml.kernels.contract import tuning
from anydml.kernels.contract.panels import packing as matmul_pack
from anydml.kernels.contract.panels import thin as matmul_thin
from anydml.schema.check import check
from anydml.tensor import TensorFlags
from every_kernel import plan_of

TARGETS = [target for target in targets.targets() if matmul_thin.serves(target)]

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None or not TARGETS, reason="no dot products of bytes here"),
    pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect"),
]
isas = pytest.mark.parametrize("isa", [target.name for target in TARGETS])


def _desc(
    m: int, k: int, n: int, b_row: int = 0, owned: bool = False, a: str = "UINT8", b: str = "INT8"
) -> dml.MatrixMultiplyInteger:
    return dml.MatrixMultiplyInteger(
        a_tensor=dml.TensorDesc(a, (m, k)),
        a_zero_point_tensor=dml.TensorDesc(a, (1, 1)),
        b_tensor=dml.TensorDesc(b, (k, n), strides=(b_row or n, 1), flags=TensorFlags.OWNED_BY_DML if owned else 0),
        b_zero_point_tensor=dml.TensorDesc(b, (1, n)),
        output_tensor=dml.TensorDesc("INT32", (m, n)),
    )


def _emitters(desc: dml.MatrixMultiplyInteger, isa: str, monkeypatch: pytest.MonkeyPatch) -> set[object]:
    target, asked, compiled = targets.named(isa), set(), engine.compiled
    assert target is not None

    def recording(emit: Any, *arguments: Any) -> engine.Code:
        asked.add(emit)
        code: engine.Code = compiled(emit, *arguments)
        return code

    with monkeypatch.context() as m:
        m.setattr(engine, "compiled", recording)
        plan_of(check(desc), target, 1)
    return asked


@isas
@pytest.mark.parametrize(
    ("m", "n", "owned", "thin"),
    [(1, 96, False, True), (4, 64, False, True), (5, 64, False, False), (1, 64, True, False), (1, 8, False, False)],
)
def test_a_bound_b_is_packed_for_many_rows_alone(
    isa: str, m: int, n: int, owned: bool, thin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _emitters(_desc(m, 64, n, owned=owned), isa, monkeypatch)
    assert (matmul_thin.thin in asked) == thin
    assert (matmul_pack.pack in asked) == (not thin)


@isas
@pytest.mark.parametrize("types", [("UINT8", "INT8"), ("INT8", "UINT8"), ("UINT8", "UINT8"), ("INT8", "INT8")])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_products_are_exact_and_nothing_else_is_touched(isa: str, m: int, types: tuple[str, str]) -> None:
    """Sizes around panels and groups, rows that conflict in a cache, more columns than are summed together, both ends of
    pages."""
    rng = np.random.default_rng(m)
    device = dml.Device(isa=isa, threads=1)
    target = targets.named(isa)
    assert target is not None
    width = target.vector_bytes // 2
    sizes = [(1, width, 0), (3, 2 * width, 0), (4, 2 * width + 1, 0), (33, 3 * width, 4 * width), (70, 4 * width - 1, 0)]
    sizes += [(41, 5 * width + 3, 4096), (9, tuning.TUNING.thin_columns + 3 * width + 5, 0), (64, 2 * width, 8192)]
    for i, (k, n, b_row) in enumerate(sizes):
        desc = _desc(m, k, n, b_row, a=types[0], b=types[1])
        a_type, b_type = (np.dtype(x.lower()) for x in types)
        at_end = i % 2 == 0
        inputs = {
            "a_tensor": guard_pages.place((m, k), (k, 1), a_type, at_end=at_end)[0],
            "a_zero_point_tensor": guard_pages.place((1, 1), (1, 1), a_type, at_end=at_end)[0],
            "b_tensor": guard_pages.place((k, n), (b_row or n, 1), b_type, at_end=at_end)[0],
            "b_zero_point_tensor": guard_pages.place((1, n), (n, 1), b_type, at_end=at_end)[0],
        }
        for x in inputs.values():
            x[...] = rng.integers(np.iinfo(x.dtype).min, np.iinfo(x.dtype).max + 1, x.shape)
        output, _ = guard_pages.place((m, n), (n, 1), np.dtype(np.int32), at_end=at_end)
        compiled = device.compile(desc)
        assert compiled.kernel_name == "contract:compiled"
        compiled.bind(**inputs, output_tensor=output).execute()
        a, a_zero_point, b, b_zero_point = (x.astype(np.int64) for x in inputs.values())
        np.testing.assert_array_equal(output, (a - a_zero_point) @ (b - b_zero_point), err_msg=f"{m} x {k} x {n}, {b_row}")


@isas
def test_the_code_takes_steps_of_every_batch(isa: str) -> None:
    """Two batches with a B each, both of which are read without packing."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (3, 2, 50), np.uint8), rng.integers(-128, 128, (3, 50, 70), np.int8)
    got = dml.matrix_multiply_integer(a, b, 7, -3, device=dml.Device(isa=isa, threads=2))
    np.testing.assert_array_equal(got, (a.astype(np.int64) - 7) @ (b.astype(np.int64) + 3))


def test_rows_that_meet_are_read_a_few_at_a_time() -> None:
    assert matmul_thin.rows_at_once(4096) == matmul_thin.rows_at_once(12288) == 8
    assert matmul_thin.rows_at_once(1024) == matmul_thin.rows_at_once(4160) == 32
