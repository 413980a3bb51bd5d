"""Graphs that dequantise, multiply and quantise: their regions run on integers, with the bits of the float operators."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np
import pytest

import anydml as dml
from anydml import TensorDesc
from anydml.devices.families import BETWEEN
from anydml.devices.graph import CompiledGraph
from anydml.exact.float32 import round_to_float32
from anydml.graphs.check import check_graph
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.contract.quantised import bounds, family
from anydml.kernels.contract.quantised.lattice import integers_of
from anydml.kernels.contract.quantised.sums import quantised_sums
from anydml.kernels.kernel import Refused
from every_kernel import SOAK, Ran
from guard_pages import AVAILABLE, place
from quantised_graphs import INT8, UINT8, Array, Building, Case, Recipe, make, problems_of, random_recipe, real, sure_of_nothing

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
NAME = "contract.quantised:compiled"
LAYER = Recipe(UINT8, INT8, UINT8, (1, 32, 9, 9), (40, 3, 3), padding=1, clamp="relu")


def compiled_of(desc: Any, *, fuse: bool = True, isa: str | None = None, threads: int = 1) -> CompiledGraph:
    made = dml.Device("cpu", isa=isa, threads=threads).compile(desc, fuse=fuse)
    assert isinstance(made, CompiledGraph)
    return made


def kernels(desc: Any) -> list[str]:
    return [part.kernel_name for part in compiled_of(desc).call.parts]


def outputs(case: Case, *, fuse: bool = True, isa: str | None = None, threads: int = 1) -> Array:
    """The output, after two calls that agree."""
    made = compiled_of(case.desc, fuse=fuse, isa=isa, threads=threads)
    assert ([part.kernel_name for part in made.call.parts] == [NAME]) == fuse
    y, again = (np.full(case.sizes, 0x55, case.dtype) for _ in range(2))
    for output in (y, again):
        made.bind(**case.inputs, y=output).execute()
    np.testing.assert_array_equal(y, again)
    return y


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of undecided outputs of each call, as reported by calls that cannot decide them."""
    found: list[int] = []

    def lowered(problem: Any, machine: Any) -> Any:
        made = family.lower(problem, machine, slack=1.0)
        if isinstance(made, Refused):
            return made
        decide = made.decide
        assert isinstance(decide, partial)

        def counted(scratch: Any, arrays: Any) -> None:
            (bitmaps,) = decide.args
            found.append(sum(int(np.unpackbits(scratch[m.first : m.first + m.words].view(np.uint8)).sum()) for m in bitmaps))
            decide(scratch, arrays)

        return made._replace(decide=counted)

    monkeypatch.setitem(cast(dict[str, Any], BETWEEN), NAME, lambda: lowered)
    return found


def test_layers_have_the_bits_of_their_operators(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """Random layers with hostile data, on each instruction set and some threads: every output is the same fused and unfused."""
    monkeypatch.setattr(bounds, "SHARE", 1.0)  # also regions with many ties
    rng, count, taken = random.Random(14), 0, 0
    for seed in range(8 * SOAK):
        recipe = random_recipe(rng)
        case = make(recipe, seed)
        if kernels(case.desc) != [NAME]:
            continue  # rarely, roundings may change too much; these are counted
        taken += 1
        wanted = outputs(case, fuse=False)
        isa = rng.choice([target.name for target in targets()])
        np.testing.assert_array_equal(outputs(case, isa=isa, threads=rng.choice((1, 3))), wanted, str((seed, recipe)))
        count += wanted.size
    assert taken > 0.9 * 8 * SOAK
    ran(count, 2_500 * SOAK)


@pytest.mark.parametrize("scales", ["any", "decimal"])
def test_many_outputs(scales: str, listed: list[int], ran: Ran) -> None:
    """A layer of ordinary data, with some outputs that the estimate leaves undecided: Python decides them as in unfused
    graphs."""
    count = 0
    for seed in range(SOAK):
        layer = Recipe(UINT8, INT8, UINT8, (1, 16, 58, 58), (32, 3, 3), clamp="relu", scales=scales, by_channel=scales == "any")
        case = make(layer, seed)
        wanted = outputs(case, fuse=False)
        np.testing.assert_array_equal(outputs(case), wanted)
        count += wanted.size
    share = sum(listed) / 2 / count
    print(f"{share:.2e} of the outputs were left open by the estimate")
    assert 1e-5 < share < 2e-3
    ran(count, 100_000 * SOAK)


SMALL = (
    Recipe(UINT8, INT8, UINT8, (1, 4, 5, 6), (3, 3, 3), padding=1, clamp="relu"),
    Recipe(INT8, UINT8, INT8, (2, 6, 7), (6, 3), groups=2, stride=2, padding=1, dilation=2, added=True, clamp="clip"),
    Recipe(UINT8, UINT8, INT8, (3, 30), (9,), bias="float", added=True, transposed=True),
    Recipe(UINT8, INT8, UINT8, (1, 4, 5, 6), (6, 3, 3), zero="none", folded=True),
)


@pytest.mark.parametrize("recipe", SMALL)
def test_all_outputs_are_decided_as_stated(recipe: Recipe, listed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """With an estimate that decides nothing, all outputs are listed; Python decides those whose sums are rounded anywhere."""
    sure_of_nothing(monkeypatch)
    case = make(recipe, 3)
    wanted = outputs(case, fuse=False)
    for threads in (1, 2):
        np.testing.assert_array_equal(outputs(case, threads=threads), wanted)
    assert len(listed) == 4
    assert min(listed) > wanted.size // 5
    monkeypatch.setitem(cast(dict[str, Any], BETWEEN), NAME, lambda: family.lower)
    np.testing.assert_array_equal(outputs(case), wanted)
    assert len(np.unique(wanted)) > 5


def test_bounds_hold_and_are_no_wider_than_that(ran: Ran) -> None:
    """Data whose roundings have the same direction: the quotient is as far from the estimate as its bound allows."""
    count, most = 0, 0.0
    for seed in range(4):
        recipe = Recipe(UINT8, INT8, UINT8, (1, 400), (8,), bias="int32", zero="any", spread=100.0)
        (problem,) = problems_of(make(recipe, seed).desc)
        region = quantised_sums(problem)
        assert not isinstance(region, str)
        numbers = bounds.estimate(region, dml.DataType.UINT8, None, dml.DataType.UINT8)
        assert not isinstance(numbers, str)
        weights = problem.promises.constants[region.names[1]].reshape(400, 8)
        integers, rounded = bounds.elements_of(dml.DataType.UINT8, *region.x)
        (scales, zeros), y_scale = region.weights, Fraction(region.rounding[0])
        for channel in range(8):
            s, z = scales[channel], int(zeros[channel])
            total, q = Fraction(float(region.bias[channel])), 0
            for e in (int(w) - z for w in weights[:, channel]):
                w = Fraction(float(np.float32(np.float64(s) * e)))
                off = rounded.astype(np.float64) * float(w) - integers * (region.x[0] * float(s) * e)
                best = int(np.argmax(off))
                total += Fraction(float(rounded[best])) * w
                q += int(integers[best]) * e
            estimated = Fraction(float(numbers.factor[channel])) * q + Fraction(float(numbers.term[channel]))
            bound = 0.5 - float(numbers.limit[channel])
            away = abs(float(total / y_scale - estimated))
            assert away <= bound
            most = max(most, away / bound)
            count += 1
    print(f"{most:.2f} of a bound at most")
    assert most > 0.2
    ran(count, 32)


def test_powers_of_two_leave_nothing_open(listed: list[int]) -> None:
    """A quarter of these quotients are ties, and none is undecided."""
    recipe = Recipe(UINT8, INT8, UINT8, (1, 4, 20, 20), (8, 1, 1), scales="powers", by_channel=False, bias="none", spread=100.0)
    case = make(recipe, 1)
    np.testing.assert_array_equal(outputs(case), outputs(case, fuse=False))
    assert not listed


@pytest.mark.skipif(not AVAILABLE, reason="no page can be made inaccessible here")
@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_beside_the_tensors_is_read_or_written(at_end: bool) -> None:
    for isa in [target.name for target in targets()]:
        for recipe in SMALL:
            case = make(recipe, 5)
            wanted = outputs(case, fuse=False)
            arrays = {}
            for name, x in case.inputs.items():
                arrays[name], _ = place(x.shape, [s // x.itemsize for s in x.strides], x.dtype, at_end=at_end)
                arrays[name][...] = x
            y, _ = place(case.sizes, dml.tensor.packed_strides(case.sizes), np.dtype(case.dtype), at_end=at_end)
            compiled_of(case.desc, isa=isa).bind(**arrays, y=y).execute()
            np.testing.assert_array_equal(y, wanted)


# --- which regions exist ---


def test_integers_of_floats(ran: Ran) -> None:
    """Rows of dequantised integers are recognised, also rows of zeros; other numbers and too large ones are not."""
    rng, count = np.random.default_rng(7), 0
    for columns in (1, 9, 300):
        rows = rng.integers(-128, 128, (40, columns))
        rows[0] = 0
        scales = np.exp2(rng.uniform(-20, 3, 40)).astype(np.float32)
        floats = round_to_float32(scales.astype(np.float64)[:, None] * rows)
        found = integers_of(floats)
        assert found is not None
        np.testing.assert_array_equal(round_to_float32(found[1].astype(np.float64)[:, None] * found[0]), floats)
        count += 40
        if columns > 1:
            floats[3, 4] = np.nextafter(floats[3, 4], np.float32(9))
            assert integers_of(floats) is None
            floats[3] = np.arange(1, columns + 1) * np.float32(0.25)
            assert (integers_of(floats) is None) == (columns > 127)
    assert integers_of(np.array([[1.0, np.inf]], np.float32)) is None
    ran(count, 120)


def of_layers(change: Callable[[Building, int, int], None], *, sum_is_output: bool = False) -> Any:
    """A product of dequantised tensors, with the nodes that `change` adds."""
    made = Building()
    scale, zero = np.array([0.05], np.float32), np.array([3], np.uint8)
    x = made.dequantised("x", TensorDesc("UINT8", (5, 20)), scale, zero, "of x")
    w = made.dequantised(made.constant(np.arange(-100, 100, dtype=np.int8)), TensorDesc("INT8", (20, 10)), scale, None, "of w")
    sums = made.call(dml.Gemm(a_tensor=real((5, 20)), b_tensor=real((20, 10)), output_tensor=real((5, 10))), "sums", x, w, None)
    change(made, x, sums)
    if sum_is_output:
        made.output(sums, "sums")
    return made.desc()


def ends(made: Building, x: int, sums: int, scale: float = 0.1234, name: str = "y") -> None:
    made.output(made.quantised(sums, (5, 10), np.array([scale], np.float32), np.array([1], np.uint8), np.uint8, name), name)


def read_twice(made: Building, x: int, sums: int) -> None:
    ends(made, x, sums)
    ends(made, x, sums, name="z")


def another_reader(made: Building, x: int, sums: int) -> None:
    """A map also reads the dequantised tensor."""
    ends(made, x, sums)
    t = real((5, 20))
    made.output(made.call(dml.ActivationTanh(input_tensor=t, output_tensor=t), "tanh", x), "z")


def with_a_function(made: Building, x: int, sums: int) -> None:
    t = real((5, 10))
    ends(made, x, made.call(dml.ActivationTanh(input_tensor=t, output_tensor=t), "tanh", sums))


@pytest.mark.parametrize(
    ("desc", "found"),
    [
        (of_layers(ends), ["of x + of w + sums + y"]),
        (of_layers(another_reader), ["of w + sums + y"]),
        (of_layers(ends, sum_is_output=True), []),
        (of_layers(read_twice), []),
        (of_layers(with_a_function), []),
        (of_layers(partial(ends, scale=-0.1)), []),
        (of_layers(partial(ends, scale=float("inf"))), []),
        (of_layers(partial(ends, scale=1e-9)), []),
        (of_layers(partial(ends, scale=0.1)), []),
    ],
    ids=["alone", "dequantised for two", "an output", "two readers", "a function", "negative", "infinite", "far", "ties"],
)
def test_regions(desc: Any, found: list[str]) -> None:
    """The regions that are taken, by their nodes; the bits are those of the unfused graph in any case."""
    compiled = compiled_of(desc)
    assert [part.title for part in compiled.call.parts if part.kernel_name == NAME] == found
    x = np.random.default_rng(0).integers(0, 256, (5, 20)).astype(np.uint8)
    results = []
    for made in (compiled, compiled_of(desc, fuse=False)):
        arrays = {b.name: np.zeros(b.tensor.sizes, b.tensor.data_type.dtype) for b in check_graph(desc).outputs}
        made.bind(x=x, **arrays).execute()
        results.append(arrays)
    for name, y in results[0].items():
        np.testing.assert_array_equal(y.view(np.uint8), results[1][name].view(np.uint8))


def test_a_chain_of_layers_has_no_float_between(ran: Ran) -> None:
    """Two layers whose results are added: three calls on bytes, and an input with two readers."""
    made = Building()
    scale, zero = np.array([0.05], np.float32), np.array([120], np.uint8)
    rng = np.random.default_rng(2)
    t, f, y = TensorDesc("UINT8", (1, 8, 6, 6)), TensorDesc("INT8", (8, 8, 3, 3)), real((1, 8, 6, 6))
    of_x = made.dequantised("x", t, scale, zero, "of x")
    at: Any = "x"
    for k in range(2):
        w = made.dequantised(made.constant(rng.integers(-99, 99, f.sizes).astype(np.int8)), f, scale, None, f"of w{k}")
        here = of_x if k == 0 else made.dequantised(at, t, scale * 40, zero, f"of x{k}")
        desc = dml.Convolution(
            input_tensor=y, filter_tensor=real(f.sizes), output_tensor=y, strides=(1, 1), dilations=(1, 1),
            start_padding=(1, 1), end_padding=(1, 1), output_padding=(0, 0),
        )  # fmt: skip
        sums = made.call(desc, f"sums{k}", here, w, None)
        if k:
            sums = made.call(dml.ElementWiseAdd(a_tensor=y, b_tensor=y, output_tensor=y), "added", of_x, sums)
        at = made.quantised(sums, y.sizes, scale * (40 if k == 0 else 4000), zero, np.uint8, f"y{k}")
    made.output(at, "y")
    case = Case(made.desc(), {"x": rng.integers(0, 256, t.sizes).astype(np.uint8)}, t.sizes, np.uint8)
    compiled = compiled_of(case.desc)
    assert [part.title for part in compiled.call.parts] == ["of x + of w0 + sums0 + y0", "of w1 + of x1 + sums1 + added + y1"]
    found, wanted = (np.zeros(t.sizes, np.uint8) for _ in range(2))
    compiled.bind(x=case.inputs["x"], y=found).execute()
    compiled_of(case.desc, fuse=False).bind(x=case.inputs["x"], y=wanted).execute()
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(wanted)) > 40
    ran(wanted.size, 288)
