"""Sums of few rows and of small windows, without packing, compared with the oracle: every way in which a window slides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hostile_data
from anydml import DataType, Device, TensorDesc
from anydml.kernels.code import engine, llvm, targets
from anydml.kernels.code.values import Value
from anydml.kernels.contract.floats import family, tuning
from anydml.kernels.contract.floats.few.matrix import FewKey
from anydml.kernels.contract.floats.few.plan import FewRowsPlan
from anydml.kernels.contract.floats.plan import FloatPlan
from anydml.kernels.contract.floats.planes import kernel as planes
from anydml.kernels.contract.floats.planes.careful import Careful
from anydml.kernels.contract.floats.planes.plan import PlanesPlan
from anydml.schema.operator import Desc
from drawn_contractions import Bound, Rng, activation, gemm, named, pick, rows_times_columns, run, some, tensor, with_lines
from every_kernel import SOAK, Ran, without_dot_products
from guard_pages import AVAILABLE
from tuned import tuned

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None or not AVAILABLE, reason="nothing can be compiled, or guarded"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
ISAS = [t.name for t in without_dot_products()]
F32 = DataType.FLOAT32


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each plan, whether its windows slide over planes."""
    found: list[bool] = []
    of = family._plan

    def noted(*arguments: Any) -> FloatPlan:
        plan = of(*arguments)
        found.append(isinstance(plan, PlanesPlan))
        return plan

    monkeypatch.setattr(family, "_plan", noted)
    return found


def windows(rng: Rng, wide: int = 40, second: bool = False, **given: Any) -> Desc:
    """A convolution with one filter or a few for each plane: any filter, stride, dilation and padding, lines of any width.

    second: whether outputs use every second column.
    """
    data_type, groups, several = pick(rng, (F32, F32, DataType.FLOAT16)), int(rng.integers(1, 5)), pick(rng, (1, 1, 1, 2))
    taps = pick(rng, ((3, 3), (3, 3), some(rng, 1, 5, 2)))
    strides, dilations = (pick(rng, ((1, 1), (1, 1), same, some(rng, 1, 3, 2))) for same in ((2, 2), (1, 1)))
    strides = (strides[0], 2) if second else strides
    inner = (int(rng.integers(1, 24)), int(rng.integers(1, wide)))
    start, end = (pick(rng, ((1, 1), (0, 0), some(rng, 0, 4, 2))) for _ in range(2))
    end = list(end)
    outer = []
    for a in range(2):
        extent = 1 + (taps[a] - 1) * dilations[a]
        end[a] += max(extent - inner[a] - start[a] - end[a], 0)
        outer.append(1 + (inner[a] + start[a] + end[a] - extent) // strides[a])
    batches, written = int(rng.integers(1, 4)), groups * several
    bias = tensor(rng, data_type, (1, written, 1, 1), packed=True) if rng.random() < 0.5 else None
    make = pick(rng, (with_lines, TensorDesc))
    sizes = ((batches, groups, *inner), (batches, written, *outer))
    x, output = ((make(rng, data_type, n) if make is with_lines else TensorDesc(data_type, n)) for n in sizes)
    fields = dict(
        input_tensor=x, filter_tensor=tensor(rng, data_type, (written, 1, *taps)), bias_tensor=bias, output_tensor=output,
        mode=pick(rng, ("CONVOLUTION", "CROSS_CORRELATION")), direction="FORWARD", strides=strides, dilations=dilations,
        start_padding=start, end_padding=tuple(end), output_padding=(0, 0), group_count=groups,
        fused_activation=activation(rng) if rng.random() < 0.3 else None,
    )  # fmt: skip
    return named("CONVOLUTION")(**(fields | given))  # type: ignore[no-any-return]


@pytest.mark.parametrize("isa", ISAS)
def test_windows_that_slide_over_planes(isa: str, made: list[bool], ran: Ran) -> None:
    compared = 0
    for case in range(6 * SOAK):
        rng = np.random.default_rng((1, case))
        kinds = ["ordinary", pick(rng, hostile_data.KINDS), "specials"]
        compared += run(windows(rng), rng, Device(isa=isa, threads=1 + case % 2), kinds)
    assert sum(made) >= 0.5 * len(made)
    ran(compared, 20_000)


@pytest.mark.parametrize("isa", ISAS)
def test_windows_of_every_second_column(isa: str, made: list[bool], ran: Ran) -> None:
    """Lines with so many columns that some strips are inside of them."""
    compared = 0
    for case in range(2 * SOAK):
        rng = np.random.default_rng((6, case))
        kinds = ["ordinary", pick(rng, hostile_data.KINDS)]
        compared += run(windows(rng, 110, second=True), rng, Device(isa=isa, threads=1), kinds)
    assert sum(made) >= 0.5 * len(made)
    ran(compared, 10_000)


@pytest.mark.parametrize("isa", ISAS)
def test_windows_over_narrow_planes(isa: str, made: list[bool], ran: Ran) -> None:
    """Lines that fill half a strip, and some that are a little longer."""
    compared = 0
    for case in range(7 * SOAK):
        rng = np.random.default_rng((7, case))
        kinds = ["ordinary", pick(rng, hostile_data.KINDS)]
        compared += run(windows(rng, 10, second=case % 2 == 0), rng, Device(isa=isa, threads=1), kinds)
    assert sum(made) >= 0.5 * len(made)
    ran(compared, 5_000)


def test_planes_in_bands_and_steps(monkeypatch: pytest.MonkeyPatch, made: list[bool], ran: Ran) -> None:
    """Bands of few lines, steps of few lines and of few planes, and pieces that begin and end within a line."""
    tuned(monkeypatch, tuning, band=1, alone=0)
    compared = 0
    for case in range(6 * SOAK):
        rng = np.random.default_rng((2, case))
        tuned(monkeypatch, tuning, listed_of_planes=(1, 100, 1000)[case % 3])
        compared += run(windows(rng), rng, Device(threads=1 + case % 3), [pick(rng, hostile_data.KINDS), "cancelling"])
    assert sum(made) >= 0.5 * len(made)
    ran(compared, 5_000)


def test_planes_of_zeros_and_of_what_is_far_apart(made: list[bool], ran: Ran) -> None:
    """Planes in which a band's largest element does not bound the others, and sums that are zeros of either sign."""
    rng, compared = np.random.default_rng(3), 0
    for bias in (None, TensorDesc(F32, (1, 3, 1, 1))):
        x, f = TensorDesc(F32, (1, 3, 30, 40)), TensorDesc(F32, (3, 1, 3, 3))
        desc = named("CONVOLUTION")(
            input_tensor=x, filter_tensor=f, bias_tensor=bias, output_tensor=x, strides=(1, 1), dilations=(1, 1),
            start_padding=(1, 1), end_padding=(1, 1), output_padding=(0, 0), group_count=3,
        )  # fmt: skip
        bound = Bound(desc, Device(threads=1), at_end=True)
        for zeros, signs, far in ((1.0, False, False), (0.9, True, False), (0.6, False, True), (0.99, True, True)):
            for array in bound.inputs.values():
                array[...] = rng.standard_normal(array.shape)
            image = bound.arrays["input_tensor"]
            image *= rng.random(x.sizes) >= zeros
            image[...] = np.where(image == 0, np.copysign(0, rng.standard_normal(x.sizes) if signs else 1), image)
            if signs:
                bound.arrays["filter_tensor"][...] = -np.abs(bound.arrays["filter_tensor"])
            if far:
                image *= 2.0 ** rng.integers(-60, 60, x.sizes)
            bound.check()
        compared += bound.executed
    assert all(made)
    ran(compared, 8 * 3600)


@pytest.fixture
def careful(monkeypatch: pytest.MonkeyPatch) -> NDArray[np.int64]:
    """The number of vectors of planes that are summed again, with a bound for each sum."""
    count = np.zeros(1, np.int64)

    class Counted(Careful):
        def vector(self, y: str, x: str) -> tuple[Value, Value]:
            place = self.body.op(f"inttoptr i64 {count.ctypes.data} to ptr")
            self.body.store("i64", self.body.op(f"add i64 {self.body.load('i64', place)}, 1"), place)
            return super().vector(y, x)

    monkeypatch.setattr(planes, "Careful", Counted)
    monkeypatch.setattr(engine, "compiled", engine.compiled.__wrapped__)  # no cached code, which would not count
    return count


MOST_AGAIN = {"zeros": 0.0, "ones": 0.25, "infinities": 0.4}  # of all vectors: ties, and sums with an infinity


@pytest.mark.parametrize("isa", ISAS)
def test_planes_of_layers_are_decided_by_one_bound(isa: str, made: list[bool], careful: NDArray[np.int64], ran: Ran) -> None:
    """Windows of zeros have sums of zeros, of either sign; an infinity only affects the sums that contain it."""
    compared = 0
    lanes = next(t.vector_bytes for t in targets.targets() if t.name == isa) // 4
    cases = ((F32, 1, None, False), (F32, 2, "zeros", False), (DataType.FLOAT16, 1, "any", True), (F32, 1, "zeros", True))
    for case, (data_type, step, bias, relu) in enumerate(cases):
        if SOAK == 1 and (case + ISAS.index(isa)) % 2:
            continue
        rng, width = np.random.default_rng((8, case)), 80
        x, f = TensorDesc(data_type, (1, 3, 8, width)), TensorDesc(data_type, (3, 1, 3, 3))
        desc = named("CONVOLUTION")(
            input_tensor=x, filter_tensor=f, bias_tensor=TensorDesc(data_type, (1, 3, 1, 1)) if bias else None,
            output_tensor=TensorDesc(data_type, (1, 3, 8, width // step)), strides=(1, step), dilations=(1, 1),
            start_padding=(1, 1), end_padding=(1, 1), output_padding=(0, 0), group_count=3,
            fused_activation=named("ACTIVATION_RELU")() if relu else None,
        )  # fmt: skip
        bound = Bound(desc, Device(isa=isa, threads=1), at_end=True)
        filters = rng.standard_normal(f.sizes)
        filters[1] = -np.abs(filters[1])
        bound.arrays["filter_tensor"][...] = filters
        if bias:
            added = [-0.0, -0.0, 0.0] if bias == "zeros" else [1.5, -0.7, 0.3]
            bound.arrays["bias_tensor"][...] = np.reshape(added, (1, 3, 1, 1))
        vectors = 3 * 8 * -(-width // step // lanes)
        for kind, most in MOST_AGAIN.items():
            image = np.copysign(0.0, rng.standard_normal(x.sizes) if case % 2 else 1.0) * np.ones(x.sizes)
            if kind == "ones":
                image[..., rng.integers(0, width)] = 1
            elif kind == "infinities":
                image = rng.standard_normal(x.sizes)
                image[:, :, ::6, 37] = [np.inf, -np.inf]
                image[:, 2, 3, 70] = np.nan
            bound.arrays["input_tensor"][...] = image
            careful[:] = 0
            bound.check()
            assert careful[0] <= most * vectors, f"{kind}, {case}: {careful[0]} of {vectors}"
        compared += bound.executed
    assert all(made)
    ran(compared, 3 * 3 * 8 * 120)


def test_rows_beyond_those_that_are_summed_in_place(monkeypatch: pytest.MonkeyPatch, made: list[bool]) -> None:
    """The rows that are summed without packing have bounds for windows that slide, too."""
    x, f = TensorDesc(F32, (1, 2, 9, 9)), TensorDesc(F32, (6, 1, 3, 3))
    for most in (3, 2):
        tuned(monkeypatch, tuning, rows=most)
        desc = named("CONVOLUTION")(
            input_tensor=x, filter_tensor=f, output_tensor=TensorDesc(F32, (1, 6, 7, 7)), strides=(1, 1), dilations=(1, 1),
            start_padding=(0, 0), end_padding=(0, 0), output_padding=(0, 0), group_count=2,
        )  # fmt: skip
        run(desc, np.random.default_rng(4), Device(threads=1), ["ordinary"])
    assert made == [True, False]


# --- few rows of a matrix ---


@pytest.fixture
def along(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each kernel that reads a matrix without packing: whether it reads along the terms."""
    found: list[bool] = []
    of = FewRowsPlan._matrix

    def noted(plan: FewRowsPlan, kinds: FewKey, *others: Any) -> Any:
        found.append(kinds.along)
        return of(plan, kinds, *others)

    monkeypatch.setattr(FewRowsPlan, "_matrix", noted)
    return found


@pytest.mark.parametrize("isa", ISAS)
def test_few_rows_of_a_matrix(isa: str, along: list[bool], monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """Numbers of rows and columns around those that are summed together, with both orders of dimensions, in blocks and
    strips."""
    compared, usual = 0, tuning.TUNING
    for case in range(12 * SOAK if SOAK > 1 else 5):
        rng = np.random.default_rng((5, case))
        tuned(monkeypatch, tuning, row_block=(usual.row_block, 256)[case % 2], strip=(usual.strip, 48)[case // 2 % 2])
        sizes = (int(rng.integers(1, 17)), int(rng.integers(1, 400)), int(rng.integers(1, 130)))
        kinds = [pick(rng, hostile_data.KINDS), "ordinary"]
        compared += run(gemm(rng, sizes), rng, Device(isa=isa, threads=1), kinds)
        desc = rows_times_columns(*sizes)
        compared += run(desc, rng, Device(isa=isa, threads=1), ["cancelling", *kinds])
    assert {True, False} == set(along)
    ran(compared, 5_000)


@pytest.mark.parametrize("transposed", [False, True])
def test_sums_that_a_largest_element_bounds(transposed: bool, along: list[bool], ran: Ran) -> None:
    """In a few columns, elements that are far larger than all others, not finite, or zeros."""
    rng = np.random.default_rng(6)
    a, b = TensorDesc(F32, (3, 300)), TensorDesc(F32, (70, 300) if transposed else (300, 70))
    desc = named("GEMM")(
        a_tensor=a, b_tensor=b, output_tensor=TensorDesc(F32, (3, 70)), trans_b="TRANSPOSE" if transposed else "NONE"
    )
    bound = Bound(desc, Device(threads=1), at_end=True)
    for special in (1e30, -(2.0**-140), np.inf, np.nan, 0.0):
        bound.fill(rng, "ordinary")
        matrix = bound.arrays["b_tensor"].T if transposed else bound.arrays["b_tensor"]
        matrix[rng.integers(0, 300, 8), rng.integers(0, 70, 8)] = special
        matrix[:, 11] = special
        bound.arrays["a_tensor"][1] = -bound.arrays["a_tensor"][0]
        bound.check()
    assert set(along) == {transposed}
    ran(bound.executed, 5 * 210)
