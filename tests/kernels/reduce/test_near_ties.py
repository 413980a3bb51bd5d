"""Every function of REDUCE on rows whose results are close to ties, compared with the oracle; and the same rows in other
families."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest

import anydml as dml
import near_ties
import oracle
from anydml import DataType, TensorDesc, operators
from anydml.kernels.code import llvm
from anydml.kernels.reduce import softmax, tuning
from every_kernel import SOAK, Ran, without_dot_products
from tensors import bound_as

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="without LLVM there are no kernels that could be wrong")

ISAS = [row.name for row in without_dot_products()]
WIDTHS = (2, 3, 7, 12, 33)
COUNT = 40 * SOAK  # rows of each width
CLOSE = 2.0**-36 * (1 + 2.0**-10)
EXTREMES = ("MIN", "MAX", "ARGMIN", "ARGMAX")


def reduced(function: str, x: Any, axis: int, isa: str) -> Any:
    kind: Any = operators.find("REDUCE")
    data_type = DataType.INT64 if function.startswith("ARG") else DataType.FLOAT32
    sizes = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    desc = kind(
        function=function, input_tensor=TensorDesc(DataType.FLOAT32, x.shape),
        output_tensor=TensorDesc(data_type, sizes), axes=(axis,),
    )  # fmt: skip
    compiled = dml.Device("cpu", isa=isa, threads=1).compile(desc)
    assert compiled.kernel_name == "reduce:compiled"
    y = np.empty(sizes, data_type.dtype)
    compiled.bind(input_tensor=x, output_tensor=y).execute()
    return y.ravel()


def exactly(function: str, x: Any) -> Any:
    asked = {"output_tensor": ((len(x), 1), np.int64 if function.startswith("ARG") else np.float32)}
    return oracle.compute("REDUCE", {"function": function, "axes": (1,)}, {"input_tensor": x}, asked)["output_tensor"].ravel()


@pytest.mark.parametrize("function", near_ties.ROWS)
def test_results_beside_ties(function: str, ran: Ran) -> None:
    cases = 0
    for turn, width in enumerate(WIDTHS):
        x = near_ties.rows(function, COUNT, width, 1)
        want = exactly(function, x)
        isa = ISAS[(turn + len(function)) % len(ISAS)]
        for have in (reduced(function, x, 1, isa), reduced(function, np.ascontiguousarray(x.T), 0, isa)):
            wrong = np.flatnonzero(have.view(f"u{have.itemsize}") != want.view(f"u{have.itemsize}"))
            assert not wrong.size, (wrong.size, x[wrong[0]].view(np.uint32), have[wrong[0]], want[wrong[0]])
            cases += COUNT
    ran(cases, 2 * COUNT * len(WIDTHS))


@pytest.mark.parametrize("function", [name for name in near_ties.ROWS if name not in EXTREMES])
def test_most_rows_are_beside_ties(function: str) -> None:
    for width in WIDTHS[2:4]:
        found = [near_ties.distance(function, row) for row in near_ties.rows(function, 40, width, 1)]
        assert sum(d < CLOSE for d in found) > 20


# --- the same rows in other families, which find exact sums in other ways ---

WIDTH = 7


def result(name: str, tensors: dict[str, Any], sizes: tuple[int, ...], isa: str, **fields: Any) -> tuple[str, Any]:
    kind: Any = operators.find(name)
    descs = {field: TensorDesc(DataType.FLOAT32, x.shape) for field, x in tensors.items()}
    desc = kind(**descs, output_tensor=TensorDesc(DataType.FLOAT32, sizes), **fields)
    compiled = dml.Device("cpu", isa=isa, threads=1).compile(desc)
    y = np.empty(sizes, np.float32)
    compiled.bind(**tensors, output_tensor=y).execute()
    return compiled.kernel_name, y


WINDOWS: dict[str, Any] = dict(strides=(1, 1), window_size=(1, WIDTH), start_padding=(0, 0), end_padding=(0, 0))


def others(function: str, x: Any, isa: str) -> Iterator[tuple[str, str, Any]]:
    """The name of the intended kernel, that of the actual one, and its result."""
    one = (1, len(x), 1, WIDTH)
    if function in ("SUM", "MULTIPLY"):
        name, field = ("SUMMATION", "sum") if function == "SUM" else ("PRODUCT", "product")
        fields = {"axis": 1, "axis_direction": "INCREASING", f"has_exclusive_{field}": False}
        found, y = result(f"CUMULATIVE_{name}", {"input_tensor": x}, x.shape, isa, **fields)
        yield "scan:compiled", found, y[:, -1]
    if function in ("SUM", "SUM_SQUARE"):
        factors = np.ones_like(x) if function == "SUM" else x
        a, b = x.reshape(-1, 1, 1, WIDTH), factors.reshape(-1, 1, WIDTH, 1)
        yield "contract.floats:compiled", *result("GEMM", {"a_tensor": a, "b_tensor": b}, (len(x), 1, 1, 1), isa)
    if function == "AVERAGE":
        pooled = result(
            "AVERAGE_POOLING", {"input_tensor": x.reshape(one)}, (1, len(x), 1, 1), isa, include_padding=False, **WINDOWS
        )
        yield "windows:compiled", *pooled
        weights = {"query_tensor": np.zeros((1, 1, 1), np.float32), "key_tensor": np.zeros((1, WIDTH, 1), np.float32)}
        values = {"value_tensor": np.ascontiguousarray(x.T)[None]}
        fields = dict(scale=1.0, mask_filter_value=-1e4, head_count=1, mask_type="NONE")
        yield "attention:compiled", *result("MULTIHEAD_ATTENTION", weights | values, (1, 1, len(x)), isa, **fields)
    if function in ("L1", "L2"):
        p = int(function[1])
        yield (
            "windows:compiled",
            *result("LP_POOLING", {"input_tensor": x.reshape(one)}, (1, len(x), 1, 1), isa, p=p, **WINDOWS),
        )
    if function not in ("MULTIPLY", "LOG_SUM", "LOG_SUM_EXP"):
        with patch.object(tuning, "TUNING", tuning.TUNING._replace(longest=1)):
            yield "nests:compiled", *result("REDUCE", {"input_tensor": x}, (len(x), 1), isa, function=function, axes=(1,))


@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "L1", "L2", "SUM_SQUARE", "MULTIPLY"])
def test_other_families_beside_ties(function: str, ran: Ran) -> None:
    x = near_ties.rows(function, COUNT, WIDTH, 2)
    want = exactly(function, x)
    cases = 0
    for isa in ISAS if SOAK > 1 else [ISAS[len(function) % len(ISAS)]]:
        for meant, found, have in others(function, x, isa):
            assert found == meant
            assert have.ravel().view(np.uint32).tolist() == want.view(np.uint32).tolist()
            cases += COUNT
    ran(cases, COUNT)


@pytest.mark.parametrize("share", [softmax.OF_HALVES, softmax.OF_BRAINS])
def test_a_rounded_quotient_lies_between_its_ends(share: float) -> None:
    y = np.exp2(np.random.default_rng(1).uniform(-10, 0, 10_000))
    single = y.astype(np.float32)
    low, high = (single * np.float32(1 + sign * share) for sign in (-1, 1))
    assert ((low <= y) & (y <= high)).all()
    assert 1 / 8 < (abs(single - y) / (y * share)).max() <= 1, "the ends are too far apart, or too near"


@pytest.mark.parametrize("data_type", ["FLOAT16", "BFLOAT16"])
def test_quotients_of_two_bytes_beside_ties_have_the_bits_of_the_second_stage(data_type: str) -> None:
    """Of so many quotients, some dozens lie within 2^-23 of a tie, relative to it."""
    x = (
        np.random.default_rng(1)
        .standard_normal((256, 1024))
        .astype(np.float16 if data_type == "FLOAT16" else ml_dtypes.bfloat16)
    )
    t, found = TensorDesc(data_type, x.shape), []
    for stage in ("first", "second"):
        device = dml.Device(threads=1, stage=stage, feature_level="EXTENDED")
        made = device.compile(dml.ActivationSoftmax1(input_tensor=t, output_tensor=t, axes=(1,)))
        assert made.kernel_name == "reduce:compiled"
        y = np.zeros(x.shape, bound_as(t))
        made.bind(input_tensor=x.view(bound_as(t)), output_tensor=y).execute()
        found.append(y.tobytes())
    assert found[0] == found[1]
