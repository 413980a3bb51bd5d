"""Undecided elements of a compiled map are listed, decided exactly, and stored: results are exact, and no state remains."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_elementwise_layouts import named
from test_fork_safety import Slow, beside, in_child

from agreement import SOAK, bits, bits_of
from anydml import DataType, Device, TensorDesc, check
from anydml.devices.compiled import BoundOperator, CompiledOperator
from anydml.devices.link import link
from anydml.kernels.elementwise import family, undecided
from anydml.kernels.elementwise import tuning as elementwise_tuning
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.problem import problem_of
from anydml.kernels.reference import evaluated
from anydml.schema.expression import Tensor, each
from anydml.schema.expression import pow as power
from anydml.schema.node import number
from anydml.schema.statement import nest
from every_kernel import Ran, without_dot_products
from tuned import tuned

Array = NDArray[Any]
COMPILED = "elementwise:compiled"
ISAS = [t.name for t in without_dot_products()]
F32, F16 = DataType.FLOAT32, DataType.FLOAT16
POW, EXP = named("ELEMENT_WISE_POW"), named("ELEMENT_WISE_EXP")
SIZES = (3, 251)

pytestmark = [
    pytest.mark.skipif(not ISAS, reason="no code is emitted for this processor"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # forks with other threads running
]
every_isa = pytest.mark.parametrize("isa", ISAS)
newest_isa = pytest.mark.parametrize("isa", ISAS if SOAK > 1 else ISAS[-1:])  # lists are the same for all of them


class Decided:
    """Replaces `undecided.exactly`: counts the elements, and may call a function first."""

    def __init__(self) -> None:
        self.real = undecided.exactly
        self.counts: list[int] = []
        self.before: Callable[[int], None] = lambda call: None

    def __call__(self, formula: Any, types: Any, target: Any, inputs: Any) -> Array:
        self.counts.append(len(inputs))
        self.before(len(self.counts))
        return self.real(formula, types, target, inputs)


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> Decided:
    """Listed elements reach Python directly, without the finer stage."""
    made = Decided()
    monkeypatch.setattr(undecided, "exactly", made)
    monkeypatch.setattr(undecided.UndecidedElements, "_finer", lambda self, entries, count: count)
    return made


@every_isa
def test_cubes_are_decided_without_python(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties of FLOAT32, which float64 leaves undecided, reach the stage of twice its precision and no further one."""
    made = Decided()
    monkeypatch.setattr(undecided, "exactly", made)
    inputs, wanted = cubes(np.random.default_rng(8), SIZES)
    ready, found = bound_to(inputs, isa, 1)
    ready.execute()
    np.testing.assert_array_equal(bits(found), bits(wanted))
    assert sum(made.counts) == 0


def cubes(rng: np.random.Generator, sizes: tuple[int, ...], data_type: DataType = F32) -> tuple[dict[str, Array], Array]:
    """Numbers and exponents 3, whose powers are all ties of two elements, and these powers rounded half to even."""
    precision = np.finfo(data_type.dtype).nmant + 1
    # odd, with so many bits that the cube has one more than the precision
    x = rng.choice([k for k in range(1, 999, 2) if k**3 >> precision == 1], sizes)
    wanted = (x.astype(np.float64) ** 3).astype(data_type.dtype)
    arrays = {"input_tensor": x.astype(data_type.dtype), "exponent_tensor": np.full(sizes, 3, data_type.dtype)}
    return arrays, wanted


def bound_to(
    inputs: dict[str, Array], isa: str | None = None, threads: int = 1, output: Array | None = None
) -> tuple[BoundOperator, Array]:
    x, y = inputs.values()
    found = np.full(x.shape, 85, x.dtype) if output is None else output
    tensors = {"input_tensor": x, "exponent_tensor": y, "output_tensor": found}
    desc = POW(**{name: TensorDesc.of(array) for name, array in tensors.items()})
    compiled = Device(isa=isa, threads=threads).compile(desc)
    assert compiled.kernel_name == COMPILED
    return compiled.bind(**inputs, output_tensor=found), found


@newest_isa
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("room", "past_cache"), [(1, False), (40, False), (40, True), (1 << 12, False)])
def test_lists_that_are_full_are_emptied(
    room: int, past_cache: bool, threads: int, isa: str, decided: Decided, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    tuned(monkeypatch, elementwise_tuning, alone=0)
    tuned(monkeypatch, elementwise_tuning, room=room)
    if past_cache:
        tuned(monkeypatch, elementwise_tuning, stream=0)
    inputs, wanted = cubes(np.random.default_rng(1), SIZES)
    ready, found = bound_to(inputs, isa, threads)
    for _ in range(2):
        decided.counts.clear()
        bits_of(found)[...] = 0
        ready.execute()
        np.testing.assert_array_equal(bits(found), bits(wanted))
        assert sum(decided.counts) == found.size  # each once
        assert max(decided.counts) <= room + 64
        assert len(decided.counts) >= found.size // (room + 64)
    ran(found.size, 750)


@newest_isa
@pytest.mark.parametrize("data_type", [F32, F16], ids=["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("layout", ["packed", "strided", "transposed", "broadcast", "in place"])
def test_elements_are_listed_with_what_they_are_made_of(
    layout: str, data_type: DataType, isa: str, decided: Decided, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ties among elements that need no list, in rows with ends that do not fill a vector."""
    tuned(monkeypatch, elementwise_tuning, alone=0)
    tuned(monkeypatch, elementwise_tuning, room=50)
    rng = np.random.default_rng(2)
    inputs, _ = cubes(rng, (29, 37), data_type)
    x, y = inputs["input_tensor"], inputs["exponent_tensor"]
    undecided = rng.random(x.shape) < 0.3
    y[~undecided] = 1
    if layout == "broadcast":
        x, y = np.broadcast_to(x[:, :1], x.shape), np.broadcast_to(y[:1], y.shape)
        undecided = y == 3
    out = np.zeros((29, 37), x.dtype)
    if layout == "strided":
        x, out = np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3], np.zeros((58, 111), x.dtype)[::2, ::3]
    if layout == "transposed":
        x = x.T.copy().T
    wanted = np.where(undecided, x.astype(np.float64) ** 3, x).astype(x.dtype)
    ready, found = bound_to({"input_tensor": x, "exponent_tensor": y}, isa, 2, x if layout == "in place" else out)
    ready.execute()
    np.testing.assert_array_equal(bits(found), bits(wanted))
    assert sum(decided.counts) == undecided.sum() > 200


def test_positions_are_listed_too(decided: Decided) -> None:
    t = TensorDesc(F32, (3, 1100))
    i = each(t.sizes)
    inputs, _ = cubes(np.random.default_rng(7), t.sizes)
    x, y = inputs["input_tensor"], Tensor("exponent_tensor", t.sizes, F32)
    body = power(Tensor("input_tensor", t.sizes, F32)[i], y[i]) + number(i[1])
    checked = check(POW(input_tensor=t, exponent_tensor=t, output_tensor=t))
    made = family.lower(problem_of(checked, {"output_tensor": nest(i, body)}), Machine(None, 1))
    assert isinstance(made, Lowered)
    out = np.zeros(t.sizes, np.float32)
    CompiledOperator(checked, COMPILED, link(made)).bind(**inputs, output_tensor=out).execute()
    np.testing.assert_array_equal(out, (x.astype(np.float64) ** 3 + np.arange(1100)).astype(np.float32))
    assert sum(decided.counts) > 1000


class Stop(Exception):
    pass


@newest_isa
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("error", "call"), [(Stop, 1), (Stop, 3), (KeyboardInterrupt, 2)])
def test_a_call_that_is_interrupted_leaves_nothing_behind(
    call: int, error: type[BaseException], threads: int, isa: str, decided: Decided, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned(monkeypatch, elementwise_tuning, alone=0)
    tuned(monkeypatch, elementwise_tuning, room=100)
    inputs, wanted = cubes(np.random.default_rng(3), SIZES)
    ready, found = bound_to(inputs, isa, threads)

    def stop(now: int) -> None:
        if now == call:
            raise error

    decided.before = stop
    with pytest.raises(error):
        ready.execute()
    assert len(decided.counts) == call
    decided.before = lambda now: None
    for _ in range(2):
        decided.counts.clear()
        bits_of(found)[...] = 0
        ready.execute()
        np.testing.assert_array_equal(bits(found), bits(wanted))
        assert sum(decided.counts) == found.size


def test_bound_operators_side_by_side_have_lists_of_their_own(decided: Decided, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, elementwise_tuning, room=60)
    together = threading.Barrier(3)
    failed: list[int] = []

    def one(seed: int) -> None:
        inputs, wanted = cubes(np.random.default_rng(seed), SIZES)
        ready, found = bound_to(inputs)
        together.wait(60)
        for _ in range(2):
            bits_of(found)[...] = 0
            ready.execute()
            if (bits(found) != bits(wanted)).any():
                failed.append(seed)

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    assert sum(decided.counts) == 3 * 2 * 3 * 251


def test_threads_that_share_a_bound_operator_wait_for_one_another(decided: Decided, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, elementwise_tuning, room=60)
    inputs, wanted = cubes(np.random.default_rng(4), SIZES)
    ready, found = bound_to(inputs)
    threads = [threading.Thread(target=ready.execute) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_array_equal(bits(found), bits(wanted))
    assert sum(decided.counts) == 2 * found.size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_while_another_thread_decides(decided: Decided, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, elementwise_tuning, room=60)
    inputs, wanted = cubes(np.random.default_rng(5), SIZES)
    ready, found = bound_to(inputs)
    slow = Slow()

    def wait(call: int) -> None:
        if call == 2:
            slow.wait()

    decided.before = wait

    def child() -> None:
        for _ in range(2):
            bits_of(found)[...] = 0
            ready.execute()
            assert (bits(found) == bits(wanted)).all()

    assert beside(slow, ready.execute, lambda: in_child(child)) == 0
    np.testing.assert_array_equal(bits(found), bits(wanted))  # the result that the parent's thread computed


def test_ordinary_numbers_need_no_list(decided: Decided, ran: Ran) -> None:
    """For the exponentials of random FLOAT32, float64 with its bound leaves hardly any element undecided."""
    x = np.random.default_rng(6).standard_normal(200_000).astype(np.float32)
    out, t = np.zeros_like(x), TensorDesc.of(x)
    compiled = Device(threads=1).compile(EXP(input_tensor=t, output_tensor=t))
    assert compiled.kernel_name == COMPILED
    compiled.bind(input_tensor=x, output_tensor=out).execute()
    assert sum(decided.counts) <= 2
    some = x[::1000]
    desc = EXP(input_tensor=TensorDesc.of(some), output_tensor=TensorDesc(F32, some.shape))
    np.testing.assert_array_equal(bits(out[::1000]), bits(evaluated(desc, {"input_tensor": some})["output_tensor"]))
    ran(some.size, 200)
