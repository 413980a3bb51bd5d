"""Nests whose rows are summed first, and whose terms are listed, compared with the oracle, with elements of equal and very
different magnitudes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from agreement import SOAK, expected
from anydml import DataType, TensorDesc, check, operators
from anydml.devices.compiled import CompiledOperator
from anydml.devices.link import link
from anydml.kernels.code import engine, frames, targets
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.nests import emit, family
from anydml.kernels.nests import tuning as nests_tuning
from anydml.kernels.problem import problem_of
from anydml.kernels.undecided import state
from anydml.schema.expression import Sum, Tensor, both, each, equal, floor, select
from anydml.schema.node import number
from anydml.schema.statement import nest
from every_kernel import CallsOf
from tuned import tuned

ISAS = list({target.vector_bytes: target.name for target in targets.targets()}.values())
NAME = "nests:compiled"
Array = NDArray[Any]


def bits(x: Array) -> Array:
    return x.view(f"u{x.itemsize}")


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The keys of the kernels that are compiled, or found in the cache."""
    seen: list[Any] = []
    within = engine.within

    def looked(*arguments: Any) -> Any:
        seen.append(arguments[3])
        return within(*arguments)

    monkeypatch.setattr(engine, "within", looked)
    return seen


def elements(kind: str, sizes: tuple[int, ...], dtype: str, rng: np.random.Generator) -> Array:
    """Elements of an image. "far": some are 2^60 times as large as others."""
    if dtype not in ("float32", "float16"):
        return rng.integers(-128, 128, sizes).astype(dtype)
    x = rng.standard_normal(sizes)
    x = {
        "near": x,
        "whole": np.round(x * 3),
        "above": np.maximum(x, 0),
        "below": -np.maximum(x, 0),  # with many -0
        "far": np.where(rng.random(sizes) < 0.1, x * 2.0**-60, x),
        "odd": np.where(rng.random(sizes) < 0.03, rng.choice([np.inf, -np.inf, np.nan, -0.0], sizes), x),
        "least": x * (2.0**-147 if dtype == "float32" else 2.0**-22),
        "large": x * (2.0**127 if dtype == "float32" else 2.0**15),
        # infinities beside elements that are so large that all of them seem to have exact sums
        "high": np.where(rng.random(sizes) < 0.1, np.inf, (1 + abs(x)) * (2.0**124 if dtype == "float32" else 2.0**12)),
    }[kind]
    with np.errstate(over="ignore"):
        return x.astype(dtype)


KINDS = ("near", "whole", "above", "below", "far", "odd", "least", "large", "high")
SCALES = (2.0, 1.5, 0.5, 1.3, 3.0, 7 / 3, 0.8, 0.4)


def resized(x: Array, scales: tuple[float, ...], strides: tuple[int, ...] | None = None) -> Any:
    operator: Any = operators.find("RESAMPLE2" if x.dtype.kind == "f" else "RESAMPLE3")
    described, centre = TensorDesc.of(x), (0.5,) * x.ndim
    sizes = tuple(max(1, int(n * scale)) for n, scale in zip(x.shape, scales, strict=True))
    return operator(
        input_tensor=described,
        output_tensor=TensorDesc(described.data_type, sizes, strides=strides),
        interpolation_mode="LINEAR",
        rounding_direction="DECREASING",
        scales=scales,
        input_pixel_offsets=centre,
        output_pixel_offsets=tuple(-c for c in centre),
    )


def run(desc: Any, x: Array, **device: Any) -> Array:
    made = dml.Device("cpu", **device).compile(desc)
    assert made.kernel_name == NAME
    output = np.empty(desc.output_tensor.sizes, x.dtype)
    made.bind(input_tensor=x, output_tensor=output).execute()
    return output


@pytest.mark.parametrize("isa", ISAS)
def test_rows_are_added_up_exactly(isa: str, shapes: list[Any], ran: Any) -> None:
    outputs = 0
    for at in range(2 * len(KINDS) * SOAK):
        rng = np.random.default_rng([at, ISAS.index(isa)])
        dtype = ("float32", "float32", "float16", "uint8", "int8")[at % 5]
        height, width = int(rng.integers(1, 5)), int(rng.integers(8, 20))
        scale = SCALES[(at + at // len(KINDS)) % len(SCALES)]
        x = elements(KINDS[at % len(KINDS)], (1, 2, height, width), dtype, rng)
        across = scale if at % 3 else 1.0
        if scale == across == 1.0:
            continue
        desc = resized(x, (1.0, 1.0, scale, across))
        wanted = expected(desc, {"input_tensor": x})["output_tensor"]
        found = run(desc, x, isa=isa, threads=1 + at % 2)
        # weights with many digits cannot be summed as integers
        assert shapes[-1].separable is not None or (x.dtype.kind != "f" and scale * 2 % 1)
        np.testing.assert_array_equal(bits(found), bits(wanted), err_msg=f"case {at}: {desc}")
        outputs += found.size
    ran(outputs, 1)


def test_rows_of_channels_in_the_last_dimension_are_added_up(shapes: list[Any]) -> None:
    """NHWC, by strides: a vector has the elements of channels, each of which is read at one position of a sum of rows."""
    rng = np.random.default_rng(3)
    x = np.ascontiguousarray(rng.standard_normal((1, 5, 6, 19)).astype(np.float32)).transpose(0, 3, 1, 2)
    desc = resized(x, (1.0, 1.0, 2.0, 1.5), strides=(10 * 9 * 19, 1, 9 * 19, 19))
    wanted = expected(desc, {"input_tensor": x})["output_tensor"]
    made = dml.Device("cpu").compile(desc)
    assert made.kernel_name == NAME
    assert shapes[-1].separable is not None
    output = np.empty((1, 10, 9, 19), np.float32).transpose(0, 3, 1, 2)
    made.bind(input_tensor=x, output_tensor=output).execute()
    np.testing.assert_array_equal(bits(np.ascontiguousarray(output)), bits(wanted))


def test_columns_that_lie_further_apart_than_was_expected(monkeypatch: pytest.MonkeyPatch, shapes: list[Any]) -> None:
    """Columns outside of the permuted vectors are computed term by term."""
    tuned(monkeypatch, nests_tuning, near=100)
    x = np.random.default_rng(4).standard_normal((3, 40)).astype(np.float32)
    desc = resized(x, (2.0, 0.35))
    np.testing.assert_array_equal(bits(run(desc, x)), bits(expected(desc, {"input_tensor": x})["output_tensor"]))
    assert shapes[-1].separable.near


def test_no_element_of_rows_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """About every sixteenth sum is halfway between two floats, and known to be."""
    monkeypatch.setattr(state, "_in_phases", lambda *_: pytest.fail("an element was left open"))
    rng = np.random.default_rng(5)
    for kind in ("near", "whole"):
        x = elements(kind, (2, 12, 30), "float32", rng)
        desc = resized(x, (1.0, 2.0, 2.0))
        np.testing.assert_array_equal(bits(run(desc, x)), bits(expected(desc, {"input_tensor": x})["output_tensor"]))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_ties_of_means_of_few_elements_are_known(dtype: str) -> None:
    """With Antialiased, each element is a mean of 9, 12 or 16: one in forty is a tie, and none needs Python."""
    rng = np.random.default_rng(11)
    for kind in ("near", "whole", "above", "below"):
        x = elements(kind, (1, 2, 24, 24), dtype, rng)
        output = TensorDesc.of(np.empty((1, 2, 7, 7), dtype))
        operator: Any = operators.find("RESAMPLE3")
        desc = operator(
            input_tensor=TensorDesc.of(x), output_tensor=output, interpolation_mode="LINEAR", rounding_direction="DECREASING",
            scales=(1, 1, 0.3, 0.3), input_pixel_offsets=(0.5,) * 4, output_pixel_offsets=(-0.5,) * 4, antialiased=True,
        )  # fmt: skip
        compiled = dml.Device("cpu").compile(desc)
        assert compiled.kernel_name == NAME
        y = np.empty(output.sizes, dtype)
        compiled.bind(input_tensor=x, output_tensor=y).execute()
        assert np.array_equal(bits(y), bits(expected(desc, {"input_tensor": x})["output_tensor"])), kind
        assert compiled.counters().exact == 0, kind


def regions(rng: np.random.Generator, channels: int, kind: str, dtype: str) -> tuple[Any, dict[str, Array]]:
    """Means of samples of regions, some of which are at elements, some between them, and some outside."""
    image = elements(kind, (2, channels, 7, 9), dtype, rng)
    corners = rng.uniform(-3, 10, (5, 4))
    corners[::2] = np.round(corners[::2])
    inputs = {
        "input_tensor": image,
        "roi_tensor": corners.astype(dtype),
        "batch_indices_tensor": rng.integers(0, 2, 5).astype(np.uint32),
    }
    operator: Any = operators.find("ROI_ALIGN1")
    desc = operator(
        **{name: TensorDesc.of(x) for name, x in inputs.items()},
        output_tensor=TensorDesc(dtype.upper(), (5, channels, 2, 3)),
        reduction_function="AVERAGE",
        interpolation_mode="LINEAR",
        minimum_samples_per_output=1,
        maximum_samples_per_output=2,
    )
    return desc, inputs


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", KINDS)
def test_listed_terms_are_added_up_exactly(isa: str, kind: str, shapes: list[Any], ran: Any) -> None:
    outputs = 0
    first = KINDS.index(kind) + ISAS.index(isa)
    for at in range(first, first + (1 if SOAK == 1 else 4 * SOAK)):
        rng = np.random.default_rng([at, KINDS.index(kind), ISAS.index(isa)])
        desc, inputs = regions(rng, (9, 16)[at % 2], kind, ("float32", "float16")[at % 2])
        made = dml.Device("cpu", isa=isa, threads=1 + at % 2).compile(desc)
        assert made.kernel_name == NAME
        assert shapes[-1].weighted is not None
        output = np.empty(desc.output_tensor.sizes, inputs["input_tensor"].dtype)
        made.bind(**inputs, output_tensor=output).execute()
        wanted = expected(desc, inputs)["output_tensor"]
        np.testing.assert_array_equal(bits(output), bits(wanted), err_msg=f"case {at}: {desc}")
        outputs += output.size
    ran(outputs, 1)


def test_open_elements_are_decided_of_what_is_there_now(calls_of: CallsOf) -> None:
    """The functions that decide them are made once, and do not keep arrays of an earlier call."""
    decided = calls_of(state, "_in_phases")
    rng = np.random.default_rng(6)
    x = np.empty((1, 1, 5, 7), np.float32)
    desc, output = resized(x, (1.0, 1.0, 2.0, 2.0)), np.empty((1, 1, 10, 14), np.float32)
    bound = dml.Device("cpu", isa="generic").compile(desc).bind(input_tensor=x, output_tensor=output)
    for turn in range(4):
        x[...] = np.where(rng.random(x.shape) < 0.5, np.float32(1 + 2**-23), np.float32(2.0**-60)) * np.float32(2**turn)
        before = len(decided)
        bound.execute()
        assert len(decided) > before
        np.testing.assert_array_equal(bits(output), bits(expected(desc, {"input_tensor": x})["output_tensor"]))


FRAME = """
define i64 @kernel(ptr %arguments) {{
entry:
  %place = alloca [{size} x i8], align 16
  store volatile i8 1, ptr %place, align 16
  ret i64 0
}}
"""


@pytest.mark.parametrize("size", [16, 1000, 3000, 40000])
def test_frames_are_read_from_object_files(size: int) -> None:
    for target, triple in ((targets.X86[0], "x86_64-unknown-linux-gnu"), (targets.ARM[0], "aarch64-unknown-linux-gnu")):
        code = engine.object_code(FRAME.format(size=size), target, triple)
        taken = frames.taken(code, target.architecture)
        assert size - 128 <= taken <= size + 128, (target, taken)
    assert engine.within(lambda target, size: FRAME.format(size=size), targets.targets()[-1], emit.FRAME, 5000) is None


@pytest.mark.parametrize("isa", ISAS if SOAK > 1 else ISAS[-1:])
def test_a_term_whose_weight_may_be_above_zero_is_not_left_out(isa: str, shapes: list[Any]) -> None:
    """In float64, 1 - (p - floor(p)) is 0 for p = -2^-60, and it is not known whether it is above 0. Its element is so large
    that the other terms are nothing beside it."""
    operator: Any = operators.find("CAST")
    x, made = np.zeros((4, 32), np.float32), np.empty((4, 32), np.float32)
    x[0] = np.ldexp(1.0, np.arange(70, 102))
    checked = check(operator(input_tensor=TensorDesc.of(x), output_tensor=TensorDesc.of(made)))
    (i, j), taps = each(x.shape), each((2, 2), "km")
    below, middle = (p - floor(p) for p in (number(i) - Fraction(1, 2**60), (number(i) + 1) / 7))
    weights = [select(equal(n, 0), 1 - share, share) for n, share in zip(taps, (below, middle), strict=True)]
    element = Tensor("input_tensor", x.shape, DataType.FLOAT32)[[2 * taps[0] + taps[1], j]]
    total = Sum(taps, weights[0] * weights[1] * element, where=both(weights[0] > 0, weights[1] > 0))
    lowered = family.lower(problem_of(checked, {"output_tensor": nest((i, j), total / 3)}), Machine(isa, 1))
    assert isinstance(lowered, Lowered)
    assert any(getattr(key, "weighted", None) is not None for key in shapes)
    CompiledOperator(checked, NAME, link(lowered)).bind(input_tensor=x, output_tensor=made).execute()
    for n, row in enumerate(made):
        wanted = [Fraction(1, 2**60) * (1 - Fraction(n + 1, 7)) / 3 * Fraction(float(v)) for v in x[0]]
        assert row.tolist() == [float(np.float32(float(w))) for w in wanted], n
