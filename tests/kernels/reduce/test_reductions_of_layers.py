"""REDUCE of rows that resemble those of layers: everything is decided in machine code, and nothing element by element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import near_ties
import oracle
from anydml import DataType, TensorDesc, operators
from anydml.kernels.code import llvm
from anydml.kernels.reduce import careful_rest, doubled
from anydml.kernels.reduce import tuning as reduce_tuning
from every_kernel import SOAK, without_dot_products

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

Array = NDArray[Any]
ISAS = [row.name for row in without_dot_products()]
FUNCTIONS = tuple(near_ties.ROWS)


def kinds(shape: tuple[int, int]) -> Iterator[tuple[str, Array]]:
    """Rows of each kind."""
    rng = np.random.default_rng(shape[1])
    rows, width = shape
    normal = rng.standard_normal(shape).astype(np.float32)
    some = np.arange(rows), rng.integers(0, width, rows)
    one = np.zeros(shape, np.float32)
    one[some] = 1
    yield "normal", normal
    yield "after RELU", np.maximum(normal, 0)
    yield "zeros", np.zeros(shape, np.float32)
    yield "negative zeros", -np.zeros(shape, np.float32)
    yield "equal", np.full(shape, 1.3, np.float32)
    yield "one-hot", one
    yield "integers", np.rint(normal * 3)
    yield "saturated", np.tanh(normal * 20)
    for ahead in (60, 200):
        made = normal.copy()
        made[some] = ahead + normal.max(1)
        yield f"ahead by {ahead}", made
        yield f"{ahead} and zeros", one * np.float32(ahead)
    for name, special in (("infinities", np.inf), ("negative infinities", -np.inf), ("NaN", np.nan)):
        made = normal.copy()
        made[::2, :: max(width // 7, 1)] = special
        yield name, made
    yield "only negative infinities", np.full(shape, -np.inf, np.float32)
    yield "masked", np.where(rng.random(shape) < 0.6, np.float32(-np.inf), normal)
    for scale in (1e-40, 1e30, 3e37):
        yield f"{scale}", normal * np.float32(scale)
    wide = rng.integers(0, 1 << 32, shape, np.uint32)
    yield "wide", np.where(wide & 0x7F800000 == 0x7F800000, wide ^ 0x40000000, wide).astype(np.uint32).view(np.float32)
    padded = normal.copy()
    padded[rows // 2 :] = 0
    yield "padded", padded
    shares = np.exp(normal) / np.exp(normal).sum(1, keepdims=True)
    yield "probabilities", shares
    yield "logarithms of probabilities", np.log(shares)
    for tiny in (1e-12, 3e-13, 1e-30):
        beside = one.copy()
        beside[one == 0] = np.float32(tiny)
        yield f"1 and {tiny}", beside


def reduced(function: str, x: Array, axis: int, isa: str | None = None) -> Array:
    kind: Any = operators.find("REDUCE")
    data_type = DataType.FLOAT32 if x.dtype == np.float32 else DataType.FLOAT16
    result = DataType.INT64 if function.startswith("ARG") else data_type
    sizes = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    desc = kind(
        function=function, input_tensor=TensorDesc(data_type, x.shape), output_tensor=TensorDesc(result, sizes), axes=(axis,)
    )
    compiled = dml.Device("cpu", isa=isa, threads=1).compile(desc)
    assert compiled.kernel_name == "reduce:compiled"
    y = np.empty(sizes, result.dtype)
    compiled.bind(input_tensor=x, output_tensor=y).execute()
    return y.ravel()


def exactly(function: str, x: Array) -> Array:
    dtype = np.dtype(np.int64) if function.startswith("ARG") else x.dtype
    asked = {"output_tensor": ((x.shape[0], 1), dtype)}
    found: Array = oracle.compute("REDUCE", {"function": function, "axes": (1,)}, {"input_tensor": x}, asked)["output_tensor"]
    return found.ravel()


def same(have: Array, want: Array) -> None:
    assert have.view(f"u{have.itemsize}").tolist() == want.view(f"u{want.itemsize}").tolist()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_row_of_a_layer_is_left_to_python(function: str, in_python: list[int]) -> None:
    for turn, (_, x) in enumerate(kinds((12, 17))):
        want = exactly(function, x)
        for isa in ISAS if SOAK > 1 else (ISAS[turn % len(ISAS)],):
            same(reduced(function, x, 1, isa), want)
            if function != "LOG_SUM_EXP":
                same(reduced(function, np.ascontiguousarray(x.T), 0, isa), want)
    with np.errstate(over="ignore", under="ignore"):
        for _, x in kinds((64, 1024)):
            if function != "LOG_SUM_EXP" or not np.isnan(x).any():
                reduced(function, x, 1)
        for _, x in kinds((16, 64)):
            half = x.astype(np.float16)
            same(reduced(function, half, 1), exactly(function, half))
    assert not in_python


LONG = 1 << 20


@pytest.mark.parametrize("function", ["SUM", "LOG_SUM", "LOG_SUM_EXP", "MULTIPLY"])
def test_rows_beyond_a_million_elements(function: str, in_python: list[int]) -> None:
    few = np.random.default_rng(3).standard_normal((1, 40)).astype(np.float32) + np.float32(2)
    nothing = {"LOG_SUM_EXP": -np.inf, "MULTIPLY": 1.0}.get(function, 0.0)
    x = np.full((1, LONG + 13), nothing, np.float32)
    x[0, :: LONG // 39] = few
    same(reduced(function, x, 1), exactly(function, few))
    same(reduced(function, np.repeat(np.ascontiguousarray(x.T), 4, 1), 0), np.repeat(exactly(function, few), 4))
    assert not in_python


def test_products_of_very_many_factors(in_python: list[int]) -> None:
    """They return from magnitudes far beyond float64, and are nearly ties in the end."""
    x = near_ties.rows("MULTIPLY", 40, 7, 3)
    rng = np.random.default_rng(4)
    factors = np.ldexp(np.float32(1), rng.integers(-100, 100, (40, 15_000))).astype(np.float32)
    many = np.concatenate([factors, x, 1 / factors], axis=1)
    same(reduced("MULTIPLY", many, 1), exactly("MULTIPLY", x))
    # in random order, parts are far beyond float64
    rng.shuffle(many, axis=1)
    same(reduced("MULTIPLY", many, 1), exactly("MULTIPLY", x))
    assert not in_python


def test_what_pairs_leave_open_of_a_logarithm_is_decided_exactly(in_python: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(careful_rest, "REL", 2.0**-30)  # a correct bound that decides little
    x = dict(kinds((20, 9)))["logarithms of probabilities"]
    same(reduced("LOG_SUM_EXP", x, 1), exactly("LOG_SUM_EXP", x))
    assert sum(in_python) > 10


def test_long_softmax_is_decided_in_pairs(in_python: list[int]) -> None:
    """In rows so long that some elements are undecided, more than a short row's list would hold, none remains."""
    x = np.random.default_rng(2).standard_normal((1, LONG + 5)).astype(np.float32)
    kind: Any = operators.find("ACTIVATION_SOFTMAX1")
    tensor = TensorDesc(DataType.FLOAT32, x.shape)
    compiled = dml.Device("cpu").compile(kind(input_tensor=tensor, output_tensor=tensor, axes=(1,)))
    assert compiled.kernel_name == "reduce:compiled"
    y = np.empty_like(x)
    compiled.bind(input_tensor=x, output_tensor=y).execute()
    wide = np.exp(x.astype(np.float64))
    assert np.abs(y / (wide / wide.sum()) - 1).max() < 2.0**-24 * (1 + 2.0**-10)
    assert not in_python
    assert doubled.lost(LONG) < 2.0**-60
    assert reduce_tuning.TUNING.longest > LONG
