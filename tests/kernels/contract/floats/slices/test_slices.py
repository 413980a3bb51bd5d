"""Products of slices by AMX, compared with the oracle: random descs with hostile data, and bounds beside exact results.

On processors without AMX, its instructions are functions that compute with registers in memory.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import hostile_data
import oracle
from agreement import expected
from anydml import DataType, Device, TensorDesc, TensorFlags
from anydml.kernels.contract.floats import family, tuning
from anydml.kernels.contract.floats.slices.plan import SlicedPlan
from bound_cases import Case, Inputs, Rng, largest, normal, wide
from drawn_contractions import Bound, convolution, gemm, named, pick, rows_times_columns, run
from every_kernel import SOAK, Ran
from guard_pages import AVAILABLE
from slices_support import NATIVE, ROW, needed, tile_registers
from tuned import tuned

ALWAYS = {"sliced_most": float("inf"), "rows": 0, "rows_of_matrix": 0}
pytestmark = [
    *needed,
    pytest.mark.usefixtures("tile_registers"),
    pytest.mark.skipif(not AVAILABLE, reason="nothing can be guarded"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
assert tile_registers  # a fixture


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[SlicedPlan]:
    """The plans that are made; slices serve wherever they can."""
    made: list[SlicedPlan] = []

    class Noted(SlicedPlan):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(family, "SlicedPlan", Noted)
    monkeypatch.setattr(family, "pays", lambda *found: False)
    tuned(monkeypatch, tuning, alone=0, **ALWAYS)
    return made


def device(threads: int = 1) -> Device:
    return Device(isa=ROW.name, threads=threads if NATIVE else 1)  # emulated registers are the same for all threads


@pytest.mark.parametrize("part", range(4))
def test_generated(part: int, plans: list[SlicedPlan], monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """Of any layout, with any type, activation and padding; in blocks of 16 rows and 48 columns in half of all cases."""
    if part % 2:
        tuned(monkeypatch, tuning, slices_tiles=2, slices_group=48, chunk=1 << 12, far_columns=1 << 13, long=1 << 18)
    outputs = 0
    for case in range(3 * SOAK):
        rng = np.random.default_rng((part, case))
        desc = gemm(rng, (70, 200, 150)) if case % 2 else convolution(rng, most=12, channels=40)
        outputs += run(desc, rng, device(1 + part // 2), [pick(rng, hostile_data.KINDS), "ordinary", "cancelling"])
    assert plans
    ran(outputs, 2_000)


@pytest.mark.parametrize("terms", [1, 63, 64, 65, 512, 513, 1100])
def test_sizes_around_registers(terms: int, plans: list[SlicedPlan], ran: Ran) -> None:
    outputs, rng = 0, np.random.default_rng(terms)
    for rows, columns in ((5, 8), (16, 16), (17, 40), (33, 49)):
        outputs += run(rows_times_columns(rows, terms, columns), rng, device(), [pick(rng, hostile_data.KINDS), "wide"])
    assert len(plans) == 4
    ran(outputs, 4_000)


def test_blocks_that_slices_leave_undecided(plans: list[SlicedPlan], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties, infinities and sums of zeros, in some blocks, are decided without slices; those before keep what they have."""
    tuned(monkeypatch, tuning, slices_tiles=2, slices_group=48)
    bound = Bound(rows_times_columns(64, 80, 100), device(), at_end=True)
    rng = np.random.default_rng(0)
    for kind in ("zeros", "ties", "infinite", "equal", "ordinary"):
        a, b = (rng.standard_normal(bound.arrays[name].shape) for name in ("a_tensor", "b_tensor"))
        if kind == "zeros":
            a[..., 20:, :] = -0.0
        elif kind == "ties":
            a[..., 30:, :], b[...] = np.arange(80) % 3, np.arange(80)[:, None] % 5 + 2.0**-24 * (np.arange(80)[:, None] == 7)
        elif kind == "infinite":
            a[..., 40, 5], b[..., 3, 60] = np.inf, np.nan
        elif kind == "equal":
            a[..., 10:, :] = np.where(np.arange(80) % 2, 1.1, -1.1)
            b[...] = b[..., :1, :]
        bound.arrays["a_tensor"][...], bound.arrays["b_tensor"][...] = a, b
        bound.check()
    assert plans


@pytest.mark.parametrize("names", [("a_tensor",), ("b_tensor",), ("a_tensor", "b_tensor")])
def test_owned_factors_are_sliced_once(names: tuple[str, ...], plans: list[SlicedPlan]) -> None:
    """In several batches, with two heights of tiles."""
    f32 = DataType.FLOAT32
    sizes = {"a_tensor": (2, 3, 37, 90), "b_tensor": (2, 3, 90, 70)}
    tensors = {
        name: TensorDesc(f32, n, flags=TensorFlags.OWNED_BY_DML if name in names else TensorFlags.NONE)
        for name, n in sizes.items()
    }
    desc = named("GEMM")(**tensors, output_tensor=TensorDesc(f32, (2, 3, 37, 70)))
    compiled, rng = device(2).compile(desc), np.random.default_rng(1)
    arrays = {name: rng.standard_normal(n).astype(np.float32) for name, n in sizes.items()}
    compiled.initialize(**{name: arrays[name] for name in names})
    output = np.empty((2, 3, 37, 70), np.float32)
    compiled.bind(**{name: x for name, x in arrays.items() if name not in names}, output_tensor=output).execute()
    wanted = expected(dataclasses.replace(desc), arrays)["output_tensor"]
    assert compiled.kernel_name == "contract.floats:compiled"
    assert output.tobytes() == wanted.tobytes()
    assert plans


# --- bounds ---


def products(a: Any, b: Any, terms: int) -> Case:
    def inputs(rng: Rng) -> Inputs:
        return {"a_tensor": a(rng, 1, 6, terms), "b_tensor": b(rng, 1, 20, terms).transpose(0, 1, 3, 2)}

    fields = dict(alpha=1.0, beta=0.0, trans_a="NONE", trans_b="NONE")
    return Case(
        "GEMM", "contract.floats:compiled", oracle.contractions, dict(alpha=1.0, beta=0.0), inputs,
        lambda found: (*found["a_tensor"].shape[:3], found["b_tensor"].shape[3]), told=fields,
        shaped=lambda found: {name: np.ascontiguousarray(x) for name, x in found.items()}, rounds=1, open=0.2,
    )  # fmt: skip


def ones(rng: Rng, *sizes: int) -> Any:
    """Numbers whose bytes of the weights that are left out are all set."""
    found = (2 - normal(rng, *sizes).astype(np.float64) ** 2 * 2.0**-22) * 2.0 ** -rng.randint(0, 16, (8, *sizes))
    return found.astype(np.float32)


RECORDS = {
    "normal": 0.144,
    "wide": 0.0105,
    "all bits": 0.0806,
    "long": 0.0893,
}
CASES = {
    "normal": products(normal, normal, 70),
    "wide": products(wide, wide, 70),
    "all bits": products(ones, ones, 64),
    "long": products(normal, ones, 1100),
}


@pytest.mark.parametrize("name", CASES)
def test_no_error_exceeds_its_bound(name: str, plans: list[SlicedPlan]) -> None:
    ratio = largest(CASES[name], "first", ROW.name)
    assert plans
    assert ratio <= 1, "an error exceeds its bound"
    assert SOAK > 1 or RECORDS[name] / 1.25 <= ratio <= RECORDS[name] * 1.25, "a bound has changed"
