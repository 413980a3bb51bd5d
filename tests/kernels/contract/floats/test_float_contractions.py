"""Compiled contractions of floats, compared with the oracle: random descs, hostile data, edges of plans, memory and threads.

Every tensor is next to an unmapped page, and all bytes of the output's memory are compared, also in gaps.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from test_floating_point_state import STATES, Context, mxcsr

import hostile_data
from agreement import expected
from anydml import DataType, Device, TensorDesc, TensorFlags, check
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.contract.floats import family, tuning
from anydml.kernels.contract.floats.winograd.plan import WinogradPlan
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.problem import problem_of
from anydml.schema.operator import Desc
from drawn_contractions import Bound, Rng, activations, convolution, fill, gemm, named, pick, rows_times_columns, run, strides
from every_kernel import SOAK, Compared, Ran, without_dot_products
from guard_pages import AVAILABLE, place
from tuned import tuned

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None or not AVAILABLE, reason="nothing can be compiled, or guarded"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
ISAS = [t.name for t in without_dot_products()]
F32 = DataType.FLOAT32
PARTS = 2 if SOAK == 1 else 8  # the number of parts, with as many outputs each
DATA = hostile_data.KINDS * (1 if SOAK == 1 else 4)  # the data of each desc
assert mxcsr  # a fixture


def drawn(rng: Rng) -> Desc:
    return gemm(rng) if rng.random() < 0.5 else convolution(rng)


# --- the oracle's bits ---


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("draw", [gemm, convolution])
def test_generated(
    draw: Callable[[Rng], Desc], part: int, monkeypatch: pytest.MonkeyPatch, ran: Ran, compared: Compared
) -> None:
    usual = tuning.TUNING.rows_of_matrix
    tuned(monkeypatch, tuning, rows_of_matrix=(usual, 4)[part % 2], column_bytes=(4, 8)[part % 2])
    wanted = (50_000 * SOAK if SOAK > 1 else 10_000) // PARTS
    outputs = cases = 0
    while outputs < wanted:
        outputs += run(draw(np.random.default_rng((part, cases))), np.random.default_rng(cases), Device(threads=1), DATA)
        cases += 1
    ran(cases, 1)
    compared("outputs of contractions", outputs, wanted)


@pytest.mark.parametrize("part", range(PARTS // 2))
def test_long_sums(part: int, ran: Ran, compared: Compared) -> None:
    """Sums of up to 5,000 terms, and convolutions with many channels."""
    wanted = (10_000 * SOAK if SOAK > 1 else 3_000) // (PARTS // 2)
    outputs = cases = 0
    while outputs < wanted:
        rng = np.random.default_rng((7, part, cases))
        desc = gemm(rng, (24, 5000, 30)) if cases % 2 else convolution(rng, most=4, channels=70)
        outputs += run(desc, rng, Device(threads=1), [pick(rng, hostile_data.KINDS), "cancelling"])
        cases += 1
    ran(cases, 2)
    compared("outputs of long contractions", outputs, wanted)


@pytest.mark.parametrize("rows", [2, 17])
def test_sums_that_are_less_than_their_bound(rows: int, ran: Ran) -> None:
    """With a large term that cancels, smaller ones are lost: such sums may have the wrong sign, and must be undecided."""
    terms = [2.0**70, *[0.4 * 2**18] * 100, -(2.0**70), -20 * 2.0**18]
    assert np.sum(terms, dtype=np.float64) > 0 > terms[0] + terms[1] + terms[-2] + terms[-1]
    compared = 0
    every = activations()[rows % 2 :: 2] if SOAK == 1 else activations()
    for at, function in enumerate(every):
        for isa in (ISAS[at % len(ISAS)],) if SOAK == 1 else ISAS:
            bound = Bound(rows_times_columns(rows, 103, 20, fused_activation=function), Device(isa=isa, threads=1), at_end=True)
            bound.arrays["a_tensor"][...] = terms
            bound.arrays["b_tensor"][...] = np.where(np.arange(20) % 2, 1, -1)
            bound.check()
            compared += bound.executed
    ran(compared, len(every) * 20 * rows)


@pytest.mark.parametrize("isa", ISAS)
def test_rests_that_are_lost_beside_a_large_term(isa: str) -> None:
    """All sums of a block cancel except for -1.09 * 2^90 + 2.4, so that twice that plus 1 is close to a tie."""
    a = [2.0**4, -(2.0**-20), -4, 1.5 * 2**-20, 1.5 * 2**-20, 28, 28, -(2.0**-20), 2.0**-21]
    b = "1.832f84p-35 1.d64d0ep-14 -1.2a8776p88 -1.51e516p12 -1.813526p110 1.ea3a08p-9 1.11372cp-127 -1.40c89cp-2 1.299f46p22"
    function = named("ACTIVATION_LINEAR")(alpha=-2.0, beta=1.0)
    bound = Bound(rows_times_columns(17, 9, 22, fused_activation=function), Device(isa=isa, threads=1), at_end=True)
    bound.arrays["a_tensor"][...] = a
    bound.arrays["b_tensor"][...] = np.array([float.fromhex(x) for x in b.split()])[:, None]
    bound.check()


@pytest.mark.parametrize("isa", ISAS)
def test_every_instruction_set(isa: str, ran: Ran) -> None:
    cases = 0
    for case in range(7 * SOAK):
        rng = np.random.default_rng((3, case))
        cases += run(drawn(rng), rng, Device(isa=isa, threads=1), ["ordinary", "specials", "cancelling"])
    ran(cases, 1000)


# --- the edges of a plan ---


@pytest.mark.parametrize("isa", ISAS)
def test_sizes_around_every_edge(isa: str, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """Rows of every tile, columns around a vector, a panel and a group, and sums of few terms."""
    tuned(monkeypatch, tuning, rows_of_matrix=4)
    lanes = next(t for t in targets() if t.name == isa).vector_bytes // 8
    near = sorted({max(n + d, 1) for n in (1, lanes, 2 * lanes, 3 * lanes) for d in (-1, 0, 1)})
    group = tuning.TUNING.group
    far = [group - 1, group, group + 1, 2 * group + 1]
    rng, compared, device = np.random.default_rng(11), 0, Device(isa=isa, threads=1)
    for at, rows in enumerate(range(1, 18)):
        for k in (1, 2, 3, 17)[at % 2 :: 2] if SOAK == 1 else (1, 2, 3, 17):
            few = [near[(at + k) % len(near)], near[(at + k + 5) % len(near)]] + ([far[at // 4 % 4]] if k == at % 4 else [])
            for n in few if SOAK == 1 else [*near, *far]:
                compared += run(rows_times_columns(rows, k, n), rng, device, [pick(rng, hostile_data.KINDS)])
    ran(compared, 2_000)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that every loop of a plan runs, and all tensors use several threads."""
    small = {"group": 48, "depth": 7, "chunk": 1 << 12, "block": 1 << 11, "strip": 40, "rows_of_matrix": 4}
    tuned(monkeypatch, tuning, alone=0, long=1 << 16, **small)  # long: several phases


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("threads", "far"), [pair for k, pair in enumerate(product((1, 3, 4), (0, 1 << 13, 1 << 20))) if SOAK > 1 or k % 4 == 0]
)
def test_blocks_of_every_kind(threads: int, far: int, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """far: bytes of columns that are packed together if rows are packed again for them, and bytes of these rows."""
    tuned(monkeypatch, tuning, far_columns=far, column_bytes=8 if threads == 3 else 4)
    compared = 0
    for case in range(2 * SOAK):
        rng = np.random.default_rng((5, case))
        device = Device(threads=threads, isa=ISAS[case % len(ISAS)])
        compared += run(gemm(rng, (60, 30, 200)), rng, device, [pick(rng, hostile_data.KINDS)])
        compared += run(convolution(rng, most=14, channels=9), rng, device, [pick(rng, hostile_data.KINDS), "cancelling"])
    ran(compared, 5_000)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("names", [("a_tensor",), ("b_tensor",), ("a_tensor", "b_tensor")])
def test_owned_factors_are_packed_once(names: tuple[str, ...], threads: int, ran: Ran) -> None:
    """With any layout, in several batches, some of which share a factor: they are packed by `initialize`."""
    compared = 0
    for case in range(4 * SOAK):
        rng = np.random.default_rng((12, case))
        desc: Any = gemm(rng, (40, 40, 130))
        if case % 4 == 3:  # strides of 0
            tensors = [TensorDesc(F32, (3, 2, *n), strides=(0, n[0] * n[1], n[1], 1)) for n in ((33, 5), (5, 60))]
            desc = named("GEMM")(a_tensor=tensors[0], b_tensor=tensors[1], output_tensor=TensorDesc(F32, (3, 2, 33, 60)))
        owned = {name: dataclasses.replace(getattr(desc, name), flags=TensorFlags.OWNED_BY_DML) for name in names}
        desc = dataclasses.replace(desc, **owned)
        device = Device(threads=threads, isa=ISAS[case % len(ISAS)])
        for kind in ("ordinary", "cancelling", "specials"):
            compiled = device.compile(desc)
            assert compiled.kernel_name == "contract.floats:compiled"
            arrays = {name: np.zeros(t.sizes, t.data_type.dtype) for name, field, t in desc.tensors() if field.role == "input"}
            for array in arrays.values():
                fill(rng, array, kind)
            for name, _, t in desc.tensors():
                if name in arrays:  # of an array with strides of 0, one element is stored
                    arrays[name][...] = arrays[name][tuple(slice(None) if s else slice(1) for s in strides(t))]
            compiled.initialize(**{name: laid_out(arrays[name], getattr(desc, name)) for name in names})
            output = place(desc.output_tensor.sizes, strides(desc.output_tensor), arrays["a_tensor"].dtype, at_end=True)[0]
            others = {name: laid_out(x, getattr(desc, name)) for name, x in arrays.items() if name not in names}
            compiled.bind(**others, output_tensor=output).execute()
            wanted = expected(desc, arrays)["output_tensor"]
            assert (output.view(f"u{output.itemsize}") == wanted.view(f"u{output.itemsize}")).all(), (desc, kind)
            compared += output.size
    ran(compared, 4_000)


def laid_out(x: Any, t: TensorDesc) -> Any:
    """An array with the layout of a tensor."""
    array = place(t.sizes, strides(t), x.dtype, at_end=True)[0]
    array[...] = x
    return array


@pytest.mark.parametrize("isa", ISAS)
def test_owned_rows_become_columns_if_few_places_meet_them(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are packed as float32 then; with an activation and a bias of each row, and with places that are not contiguous."""
    tuned(monkeypatch, tuning, few_places=64, column_bytes=8)
    rng, packed = np.random.default_rng(31), []
    for n, step, places in ((10, 1, 10), (9, 1, 12), (10, 2, 20)):
        a = TensorDesc(F32, (48, 12), flags=TensorFlags.OWNED_BY_DML)
        b = TensorDesc(F32, (12, n), strides=(places, step))
        c, y = TensorDesc(F32, (48, n), strides=(1, 0)), TensorDesc(F32, (48, n))
        desc: Any = named("GEMM")(
            a_tensor=a, b_tensor=b, c_tensor=c, output_tensor=y, fused_activation=pick(rng, activations())
        )
        for kind in ("ordinary", "cancelling", "specials"):
            compiled = Device(isa=isa, threads=1 + n % 2).compile(desc)
            arrays = {x: np.zeros(t.sizes, np.float32) for x, t in (("a_tensor", a), ("b_tensor", b), ("c_tensor", c))}
            for array in arrays.values():
                fill(rng, array, kind)
            arrays["c_tensor"][...] = arrays["c_tensor"][:, :1]
            compiled.initialize(a_tensor=arrays["a_tensor"])
            output = place(y.sizes, strides(y), np.dtype(np.float32), at_end=True)[0]
            others = {x: laid_out(arrays[x], t) for x, t in (("b_tensor", b), ("c_tensor", c))}
            compiled.bind(**others, output_tensor=output).execute()
            wanted = expected(desc, arrays)["output_tensor"]
            assert (output.view(np.uint32) == wanted.view(np.uint32)).all(), (desc, kind)
        packed.append(compiled.binding_properties.persistent_resource_size)
    assert max(packed[:2]) < 1.5 * packed[2] / 2


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_of_owned_factors(threads: int) -> None:
    """Threads share packed factors, and batches with the same factor have one copy."""
    flags = TensorFlags.OWNED_BY_DML
    for batches, step in ((1, 0), (5, 0), (5, 6000)):
        b = TensorDesc(F32, (batches, 1, 60, 100), strides=(step, 6000, 100, 1), flags=flags)
        a, output = (TensorDesc(F32, (batches, 1, 40, n)) for n in (60, 100))
        lowered = lower_of(named("GEMM")(a_tensor=a, b_tensor=b, output_tensor=output), threads)
        least = (5 if step else 1) * (100 * 60 * 4 + 100 * 8)
        assert lowered.packing
        assert least <= lowered.packed <= 1.3 * least


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("most", [0, 17])
def test_few_rows_with_packing_and_without(most: int, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """most: the most rows that are summed without packing, in strips of columns."""
    tuned(monkeypatch, tuning, rows=most, rows_of_matrix=most)
    compared = 0
    for case in range(4 * SOAK):
        rng = np.random.default_rng((6, case))
        device = Device(threads=1 + case % 2, isa=ISAS[case % len(ISAS)])
        compared += run(gemm(rng, (5, 40, 150)), rng, device, [pick(rng, hostile_data.KINDS), "cancelling"])
        compared += run(convolution(rng, most=14, channels=2), rng, device, [pick(rng, hostile_data.KINDS), "specials"])
    ran(compared, 2_500)


@pytest.mark.parametrize("threads", [1, 2])
def test_winograd_between_unmapped_pages(threads: int, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """With any layout and padding, whether or not the algorithm would be chosen."""
    made: list[object] = []

    class Noted(WinogradPlan):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(family, "WinogradPlan", Noted)
    monkeypatch.setattr(family, "pays", lambda *found: True)
    tuned(monkeypatch, tuning, alone=0)
    compared = 0
    for case in range(8 * SOAK):
        rng = np.random.default_rng((8, case))
        desc = convolution(rng, most=15, channels=10, square=True)
        device = Device(threads=threads, isa=ISAS[case % len(ISAS)])
        compared += run(desc, rng, device, [pick(rng, hostile_data.KINDS), "cancelling", "specials"])
    assert len(made) >= 4 * SOAK
    ran(compared, 10_000)


@pytest.mark.usefixtures("small_blocks")
def test_a_list_that_holds_few(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """A list with few entries limits the rows of a block."""
    tuned(monkeypatch, tuning, listed=48, block=1 << 20)
    compared = 0
    for m, k, n in ((1, 3, 200), (8, 9, 49), (17, 30, 100), (40, 20, 200)):
        for threads in (1, 2):
            compared += run(
                rows_times_columns(m, k, n), np.random.default_rng(m), Device(threads=threads), ["cancelling", "wide"]
            )
    ran(compared, 40_000)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("threads", [2, 3])
def test_batches_are_shared_among_threads(threads: int, ran: Ran) -> None:
    """Any number of batches, in one and in two dimensions, which threads share."""
    compared = 0
    for batch in ((5, 1), (1, 7), (3, 5), (4, 3), (7, 2), (2, 11)):
        tensors = [TensorDesc(F32, (*batch, *sizes)) for sizes in ((3, 5), (5, 4), (3, 4))]
        names = ("a_tensor", "b_tensor", "output_tensor")
        desc = named("GEMM")(**dict(zip(names, tensors, strict=True)))
        compared += run(desc, np.random.default_rng(1), Device(threads=threads), ["ordinary", "ties", "cancelling"])
    ran(compared, 1000)


def test_a_plan_does_not_grow_with_batches() -> None:
    sizes = [tuple(TensorDesc(F32, (1, n, 8, 8)) for _ in range(3)) for n in (3_001, 3_000_001)]
    steps = []
    for a, b, output in sizes:
        lowered = lower_of(named("GEMM")(a_tensor=a, b_tensor=b, output_tensor=output), threads=2)
        steps.append([len(piece) for phase in lowered.rounds[0].phases for piece in phase])
    # longer calls have more phases, between which a caller can be interrupted
    assert set(steps[1]) == set(steps[0])
    assert len(steps[1]) < 10


def lower_of(desc: Desc, threads: int) -> Any:
    made = family.lower(problem_of(check(desc)), Machine(None, threads))
    assert isinstance(made, Lowered), made
    return made


def test_dimensions_in_any_order() -> None:
    """Three spatial dimensions with the batch innermost: columns vary along four dimensions."""
    sizes, out = (3, 2, 4, 5, 3), (3, 2, 4, 5, 3)
    strides = (1, 3, 6, 24, 120)  # the batch is innermost
    desc = named("CONVOLUTION")(
        input_tensor=TensorDesc(F32, sizes), filter_tensor=TensorDesc(F32, (2, 2, 3, 3, 3)),
        output_tensor=TensorDesc(F32, out, strides=strides), strides=(1,) * 3, dilations=(1,) * 3, start_padding=(1,) * 3,
        end_padding=(1,) * 3, output_padding=(0,) * 3,
    )  # fmt: skip
    assert run(desc, np.random.default_rng(2), Device(threads=1)) == 6 * 360


# --- scratch, threads, processes ---


def test_a_call_leaves_nothing_behind() -> None:
    """The same data have the same bits after other data, many of which list all elements."""
    rng = np.random.default_rng(9)
    bound = Bound(rows_times_columns(20, 33, 50), Device(threads=1), at_end=True)
    for kind in (*hostile_data.KINDS, "ordinary", "cancelling", "ordinary", "specials", "ordinary"):
        bound.fill(rng, kind)
        bound.check()
        bound.check()
    assert bound.executed == 22 * 1000


def test_several_calls_at_once(ran: Ran) -> None:
    """Threads with their own operators, each with and without the pool."""
    failures: list[BaseException] = []
    done: list[int] = []

    def work(seed: int) -> None:
        try:
            for case in range(3 * SOAK):
                rng = np.random.default_rng((seed, case))
                m, k, n = (60, 70, 110) if case % 2 else (20, 30, 40)
                done.append(run(rows_times_columns(m, k, n), rng, Device(threads=1 + seed % 3), ["ordinary", "cancelling"]))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    ran(sum(done), 10_000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_goes_on_with_what_was_bound() -> None:
    rng = np.random.default_rng(4)
    bound = Bound(rows_times_columns(70, 80, 130), Device(threads=2), at_end=False)
    bound.fill(rng, "ordinary")
    bound.check()
    child = os.fork()
    if not child:
        status = 1
        try:
            bound.fill(rng, "cancelling")
            bound.check()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    bound.check()


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_the_callers_floating_point_state_does_not_matter(mxcsr: Context, state: int) -> None:
    for number, (isa, threads) in enumerate((isa, threads) for isa in ISAS for threads in (1, 2)):
        bound = Bound(rows_times_columns(20, 21, 70, alpha=0.1), Device(isa=isa, threads=threads), at_end=True)
        for kind in ("wide", "specials", "ties"):
            bound.fill(np.random.default_rng(number), kind)
            with mxcsr(state):
                bound.bound.execute()
            got = bound.output.copy()
            bound.check()
            assert got.tobytes() == bound.output.tobytes()
