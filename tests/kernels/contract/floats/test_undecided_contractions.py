"""The elements that a stage of compiled contractions of floats leaves to the next: few, and to Python nearly none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hostile_data
from anydml import Convolution, DataType, Device, TensorDesc
from anydml.kernels.call.steps import Step
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.emit import Text, arguments, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats import tuning
from anydml.kernels.contract.floats.packed.plan import PackedPlan
from anydml.kernels.undecided.state import COUNT
from drawn_contractions import Bound, left_undecided, named, rows_times_columns
from guard_pages import AVAILABLE
from tuned import tuned

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None or not AVAILABLE, reason="nothing can be compiled, or guarded"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]


def test_sums_that_four_float64_do_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five powers far apart, four of which cancel: the one that is left is lost, and an exact evaluation finds it.

    Without AVX2, code holds four powers, with it three.
    """
    powers, signs = np.array([126, 66, 6, -54, -114, 126, 66, 6, -54]), np.array([1] * 5 + [-1] * 4, np.float32)
    row = np.ldexp(signs, powers)
    with left_undecided(monkeypatch) as counts:
        bound = Bound(rows_times_columns(3, 9, 30), Device(threads=1), at_end=True)
        bound.arrays["a_tensor"][...] = [row, np.ones(9), row]
        bound.arrays["b_tensor"][...] = 1
        bound.check()
        assert counts == [60]
        assert (bound.output[0] == 2.0**-114).all()
        bound.arrays["a_tensor"][...] = 1
        bound.check()  # nothing is left open, and nothing marked still
        assert counts == [60]


@pytest.mark.parametrize("isa", [None, "generic"])
def test_what_pairs_lose_decides_ties_of_formulas(isa: str | None) -> None:
    """Beside terms that cancel, a pair holds a number whose double is a tie, and not the term that says on which side of it."""
    bound = Bound(rows_times_columns(17, 4, 22, alpha=-2.0), Device(isa=isa, threads=1), at_end=True)
    bound.arrays["a_tensor"][...] = [2.0**80, -(2.0**80), 4097, 2.0**-60]
    bound.arrays["b_tensor"][...] = [[1], [1], [4097], [1]]  # 4097 squared has 25 digits, the last one 1
    bound.check()


MOST_LEFT = {"small": 0.06}  # with factors: sums of few terms, which are ties
FUNCTIONS = ("ACTIVATION_SIGMOID", "ACTIVATION_GELU", "ACTIVATION_TANH")
FUNCTIONS_LEFT = {"ties": 0.02}  # large sums, of which GELU is all but the sum itself


def left_of(kind: str, patch: pytest.MonkeyPatch, **fields: Any) -> float:
    """The share of elements that machine code leaves open."""
    size, c = 48, TensorDesc(DataType.FLOAT32, (48, 48)) if "beta" in fields else None
    with left_undecided(patch) as counts:
        bound = Bound(rows_times_columns(size, size, size, c_tensor=c, **fields), Device(threads=1), at_end=True)
        for seed in range(2):
            rng = np.random.default_rng(seed)
            for array in bound.inputs.values():
                array[...] = hostile_data.values("FLOAT32", array.shape, rng, kind)
            bound.check()
    share = sum(counts) / bound.executed
    print(f"{kind}, {fields}: {sum(counts)} of {bound.executed}, {share:.4%}")
    return share


@pytest.mark.parametrize("kind", hostile_data.KINDS)
def test_python_decides_few(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (None, named("ACTIVATION_RELU")()):
        assert left_of(kind, monkeypatch, fused_activation=function) == 0
        assert left_of(kind, monkeypatch, alpha=0.1, beta=0.7, fused_activation=function) <= MOST_LEFT.get(kind, 0)


@pytest.mark.parametrize("kind", [k for k in hostile_data.KINDS if k != "wide"])
def test_python_decides_few_of_functions(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FUNCTIONS:
        assert left_of(kind, monkeypatch, fused_activation=named(name)()) <= FUNCTIONS_LEFT.get(kind, 0.001)


# --- elements that are summed one by one ---

SIZE = 96


def hard(kind: str, rng: np.random.Generator) -> tuple[Any, Any]:
    a: Any = rng.standard_normal((SIZE, SIZE))
    b: Any = rng.standard_normal((SIZE, SIZE))
    half = SIZE // 2
    if kind == "integers":
        a, b = (rng.integers(-4096, 4097, (SIZE, SIZE)) for _ in range(2))
    elif kind == "neighbours":
        a[:, 1::2], b[1::2] = -a[:, ::2], b[::2]
    elif kind == "far":
        a[:, half:], b[half:] = a[:, :half], -b[:half]
    elif kind == "some columns":
        a[:, half:], b[half:, ::4] = a[:, :half], -b[:half, ::4]
    elif kind == "wide":
        a, b = (x * 2.0 ** (10 * rng.standard_normal((SIZE, SIZE))) for x in (a, b))
    elif kind == "any bits":
        a, b = (hostile_data.values("FLOAT32", (SIZE, SIZE), rng, "wide") for _ in range(2))
    return a, b


def counting(target: Target) -> str:
    text = Text()
    arguments(text, ("counter", "sum"), {"counter", "sum"})
    text.store("i64", text.op(f"add i64 {text.load('i64', '%sum')}, {text.load('i64', '%counter')}"), "%sum")
    text.do("ret i64 0")
    return kernel(text)


def listed(kind: str, isa: str | None, patch: pytest.MonkeyPatch, **fields: Any) -> float:
    """The share of elements that are summed one by one."""
    found, block = np.zeros(1, np.int64), PackedPlan._block

    def noted(self: PackedPlan, *where: Any) -> Iterator[Step]:
        *steps, last = block(self, *where)
        yield from steps
        yield Step(engine.compiled(counting, self.target), (self.counter + 8 * COUNT, found.ctypes.data))
        yield last

    with patch.context() as within:
        within.setattr(PackedPlan, "_block", noted)
        bound = Bound(rows_times_columns(SIZE, SIZE, SIZE, **fields), Device(isa=isa, threads=1), at_end=True)
        bound.arrays["a_tensor"][...], bound.arrays["b_tensor"][...] = hard(kind, np.random.default_rng(1))
        if fields:
            bound.arrays["c_tensor"][...] = np.random.default_rng(2).integers(-9999, 10000, (SIZE, SIZE))
        bound.check()
    print(f"{kind}: {found[0]} of {bound.executed}")
    return float(found[0]) / bound.executed


@pytest.mark.parametrize("isa", [None, "generic"])
@pytest.mark.parametrize("kind", ["normal", "integers", "neighbours", "far", "some columns", "wide", "any bits"])
def test_few_are_summed_one_by_one(kind: str, isa: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed(kind, isa, monkeypatch) <= 0.001


@pytest.mark.parametrize("kind", ["normal", "integers", "neighbours", "far", "wide"])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_few_are_where_something_is_added(kind: str, alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed(kind, None, monkeypatch, alpha=alpha, c_tensor=TensorDesc(DataType.FLOAT32, (SIZE, SIZE))) <= 0.001


@pytest.mark.parametrize("kind", ["integers", "neighbours"])
def test_what_rounds_nothing_is_summed_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is listed, though no element is summed again in its block."""
    tuned(monkeypatch, tuning, many=1, very_many=1)
    assert listed("far", None, monkeypatch) > 0.9
    assert listed(kind, None, monkeypatch) == 0


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("filters", [2, 9])
@pytest.mark.parametrize("bias", [None, 0.0, -0.0, 1.0])
def test_zeros_beside_the_border(data_type: str, filters: int, bias: float | None) -> None:
    """Images of nothing, and with a spot: a sum is -0 where all terms that count are, whatever stands for the others."""
    fields: Any = {"bias_tensor": TensorDesc(data_type, (1, filters, 1, 1))} if bias is not None else {}
    desc = Convolution(
        input_tensor=TensorDesc(data_type, (1, 2, 8, 9)),
        filter_tensor=TensorDesc(data_type, (filters, 2, 5, 3)),
        output_tensor=TensorDesc(data_type, (1, filters, 4, 9)),
        strides=(2, 1),
        dilations=(1, 1),
        output_padding=(0, 0),
        start_padding=(2, 1),
        end_padding=(2, 1),
        **fields,
    )
    rng = np.random.default_rng(filters)
    for isa in (None, "generic"):
        bound = Bound(desc, Device(isa=isa, threads=1), at_end=True)
        image, weights = bound.arrays["input_tensor"], bound.arrays["filter_tensor"]
        if bias is not None:
            bound.arrays["bias_tensor"][...] = bias
        for sign in (1, -1, 0):
            weights[...] = np.abs(rng.normal(size=weights.shape)) * (sign or rng.choice([-1, 1], weights.shape))
            for of_zero in (0.0, -0.0, None):
                image[...] = rng.choice([0.0, -0.0], image.shape) if of_zero is None else of_zero
                bound.check()
                image[0, :, 3:5, 4] = 0.7
                bound.check()
        image[...] = 0
        weights[0, 0, 0, 0], weights[-1, 1, 2, 1] = np.inf, np.nan  # one of which does not count in the first lines
        bound.check()


@pytest.mark.parametrize("transposed", [False, True])
def test_few_rows_of_zeros(transposed: bool) -> None:
    """A state of zeros times a matrix, as a recurrence that was made of single operators begins."""
    for isa in (None, "generic"):
        desc: Any = rows_times_columns(2, 40, 70)
        if transposed:
            desc = replace(desc, b_tensor=TensorDesc("FLOAT32", (70, 40)), trans_b="TRANSPOSE")
        bound = Bound(desc, Device(isa=isa, threads=1), at_end=True)
        a, b = bound.arrays["a_tensor"], bound.arrays["b_tensor"]
        rng = np.random.default_rng(0)
        for sign in (1, -1, 0):
            b[...] = np.abs(rng.normal(size=b.shape)) * (sign or rng.choice([-1, 1], b.shape))
            for zero in (0.0, -0.0):
                a[...] = zero
                bound.check()
                a[1, 3] = 1e-30
                bound.check()
                b[..., :5, :5] *= np.float32(1e-12)  # products that no float32 holds
                bound.check()
