"""Convolutions of 8-bit integers by compiled tiles, compared with the oracle bit by bit."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from anydml import DataError, DataType, Device, TensorDesc, TensorFlags, check, operators
from anydml.devices.compiled import CompiledOperator
from anydml.devices.link import link
from anydml.kernels.code.targets import targets
from anydml.kernels.contract import tuning
from anydml.kernels.contract.panels.plan import PanelPlan
from anydml.kernels.contract.plan import CONSTANTS
from anydml.kernels.contract.problem import of_convolution
from anydml.kernels.kernel import Lowered
from anydml.kernels.match.convolution import NO_CONVOLUTION, convolution
from anydml.kernels.problem import Problem
from anydml.schema.expression import Sum, Tensor, each
from anydml.schema.node import Expr
from anydml.schema.operator import Desc
from anydml.schema.statement import nest
from every_kernel import SOAK, run
from integer_convolutions import EIGHT_BIT, Case, Recipe, make, random_recipe
from matmul_cases import PLACES
from oracle import contractions
from tuned import tuned


def named(name: str) -> Any:
    found = operators.find(name)
    assert found is not None, f"there is no {name}"
    return found


INTEGER, QUANTIZED = named("CONVOLUTION_INTEGER"), named("QUANTIZED_LINEAR_CONVOLUTION")
by_target = pytest.mark.parametrize("isa", [target.name for target in targets()])
PLAIN = Recipe((EIGHT_BIT[0], EIGHT_BIT[1], EIGHT_BIT[0]), 1, 1, 3, 4, ((20, 3, 1, 1, 1, 1), (19, 3, 1, 1, 1, 1)))


def desc_of(case: Case, owned: frozenset[str] = frozenset()) -> Desc:
    def described(name: str, x: Any) -> TensorDesc:
        flags = TensorFlags.OWNED_BY_DML if name in owned else TensorFlags.NONE
        return TensorDesc(DataType.of(x.tensor.dtype), x.tensor.shape, strides=x.strides, flags=flags)

    tensors = {name: described(name, x) for name, x in (*case.inputs.items(), ("output_tensor", case.output))}
    made: Desc = (QUANTIZED if case.recipe.quantized else INTEGER)(**tensors, **case.attributes)
    return made


def judge(case: Case, isa: str | None = None, threads: int = 1, owned: frozenset[str] = frozenset()) -> CompiledOperator:
    """Compile and execute a case: every output is exact, and neither bytes beside it nor inputs are written."""
    operator = Device(isa=isa, threads=threads).compile(desc_of(case, owned))
    assert operator.kernel_name == "contract:compiled"
    before = {name: x.memory.copy() for name, x in case.inputs.items()}
    run(operator, {name: x.tensor for name, x in case.inputs.items()}, case.output.tensor)
    np.testing.assert_array_equal(case.output.tensor, case.expected, err_msg=str(case.recipe))
    wanted = np.full_like(case.output.memory, 0xA5)
    shift = case.output.tensor.ctypes.data - case.output.memory.ctypes.data
    strides = case.output.tensor.strides
    np.ndarray(case.expected.shape, case.expected.dtype, wanted.data, shift, strides)[...] = case.expected
    np.testing.assert_array_equal(case.output.memory, wanted, err_msg=f"beside the output: {case.recipe}")
    for name, memory in before.items():
        np.testing.assert_array_equal(case.inputs[name].memory, memory, err_msg=f"{name} was written: {case.recipe}")
    return operator


@by_target
def test_drawn_convolutions(isa: str) -> None:
    rng = random.Random(f"{isa}")
    for at in range(8 * SOAK):
        judge(make(random_recipe(rng)), isa, 1 + at % 2)


def test_drawn_recipes_are_of_every_kind() -> None:
    rng = random.Random(0)
    drawn = [random_recipe(rng) for _ in range(400)]
    assert {r.types for r in drawn} == set(product(EIGHT_BIT, repeat=3))
    assert {r.quantized for r in drawn} == {True, False}
    assert {r.place for r in drawn} == set(PLACES)
    assert {r.groups for r in drawn} == {1, 2, 3}
    cases = [make(r) for r in drawn[:60]]
    inside = [np.iinfo(c.expected.dtype).min < c.expected for c in cases if c.recipe.quantized]
    assert np.mean([x.mean() for x in inside]) > 1 / 3, "most outputs saturate, and would hide a mistake"


def test_every_window_of_a_line() -> None:
    """Strides, dilations, paddings and sizes, with every number of columns around that of a panel."""
    for size, taps, stride, dilation, padding in product(
        (1, 7, 33, 66), (1, 2, 3), (1, 2, 3), (1, 2, 3), ((0, 0), (2, 1), (0, 9))
    ):
        if 1 + (taps - 1) * dilation <= size + sum(padding):
            window = size, taps, stride, dilation, *padding
            judge(make(replace(PLAIN, windows=(window,), quantized=False, seed=size)))


def test_rows_shorter_than_a_panel() -> None:
    """Columns of a panel are whole rows of the output, or parts of them; the last panel overlaps the one before, if there is
    one."""
    for height, width in (
        (40, 1),
        (1, 40),
        (17, 2),
        (13, 3),
        (12, 5),
        (9, 7),
        (7, 9),
        (6, 11),
        (4, 16),
        (3, 31),
        (3, 32),
        (2, 33),
    ):
        windows = (height, 3, 1, 1, 1, 1), (width, 3, 1, 1, 1, 1)
        judge(make(replace(PLAIN, windows=windows)))
        judge(make(replace(PLAIN, windows=((height, 1, 1, 1, 0, 0), (width, 1, 1, 1, 0, 0)))))


@pytest.mark.parametrize("bias", ["any", "ends"])
def test_a_bias_may_be_more_than_int32_has_room_for(bias: str) -> None:
    """Then sums are kept without the bias until they are rounded, in wider numbers."""
    for seed, (zero_point, scale) in enumerate(product((False, True), repeat=2)):
        judge(make(replace(PLAIN, bias=bias, by_channel=(zero_point, scale), seed=seed)))


def test_sums_beyond_int32_are_carried_and_rounded_with_their_bias() -> None:
    for bias in ("as large as the sums", "ends"):
        r = replace(PLAIN, read=34_000, written=3, windows=((5, 1, 1, 1, 0, 0), (1, 1, 1, 1, 0, 0)), bias=bias)
        judge(make(r))
    judge(make(replace(r, read=11_500, windows=((5, 3, 1, 1, 1, 1),), by_channel=(False, False))))


def test_long_convolutions_are_cut_into_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, tuning, long=1 << 9, most_rows=16)
    for threads, quantized in product((1, 3), (False, True)):
        r = replace(
            PLAIN, batch=3, groups=2, written=20, quantized=quantized, windows=((20, 3, 1, 1, 1, 1), (9, 3, 2, 1, 1, 1))
        )
        tuned(monkeypatch, tuning, alone=0)
        judge(make(r), threads=threads)


def test_filters_that_are_owned_and_inputs_that_repeat() -> None:
    case = make(PLAIN)
    judge(case, owned=frozenset(x for x in case.inputs if x != "input_tensor"))
    case = make(replace(PLAIN, batch=3, layouts={"input_tensor": "packed"}))
    x = case.inputs["input_tensor"]
    x.tensor[...] = x.tensor[:1]
    first = make(replace(PLAIN, batch=1))
    once = replace(first, expected=np.repeat(first.expected, 3, 0), output=case.output)
    once.inputs["input_tensor"] = replace(
        first.inputs["input_tensor"],
        tensor=np.broadcast_to(first.inputs["input_tensor"].tensor, x.tensor.shape),
        strides=(0, *first.inputs["input_tensor"].strides[1:]),
    )
    judge(once)


def test_unusable_scales_end_a_call_before_it_writes() -> None:
    for name, bad in product(("input_scale_tensor", "filter_scale_tensor", "output_scale_tensor"), (0, np.inf, np.nan)):
        case = make(replace(PLAIN, groups=2))
        case.inputs[name].tensor.flat[-1] = bad
        operator = Device().compile(desc_of(case))
        bound = operator.bind(**{x: t.tensor for x, t in case.inputs.items()}, output_tensor=case.output.tensor)
        with pytest.raises(DataError, match="a scale must not be 0"):
            bound.execute()
        assert (case.output.memory == 0xA5).all()


# --- what is matched ---


@pytest.mark.parametrize("operator", [INTEGER, QUANTIZED], ids=lambda o: o.spec.name)
def test_first_examples_are_compiled(operator: Any) -> None:
    example = operator.spec.examples[0]
    assert Device().compile(operator(**example.fields)).kernel_name == "contract:compiled"


def test_what_looks_like_a_convolution() -> None:
    """Sums of products of the same elements with other indices."""
    checked = check(
        desc_of(
            make(replace(PLAIN, quantized=False, absent=frozenset(("input_zero_point_tensor", "filter_zero_point_tensor"))))
        )
    )
    sizes = {name: t.sizes for name, t in checked.tensors.items()}

    def found(read: Callable[..., Any], weight: Callable[..., Any] = lambda m, c, u, v: (m, c, u, v), where: Any = None) -> Any:
        x = Tensor("input_tensor", sizes["input_tensor"], DataType.UINT8)
        f = Tensor("filter_tensor", sizes["filter_tensor"], DataType.INT8)
        n, m, p, q = i = each(sizes["output_tensor"])
        c, u, v = terms = each(sizes["filter_tensor"][1:], "cuv")
        body = Sum(terms, x.skipped(read(n, m, c, p, q, u, v)) * f[weight(m, c, u, v)], where and where(p))
        return convolution(Problem({"output_tensor": nest(i, body)}, checked.tensors))

    def usual(n: Expr, m: Expr, c: Expr, p: Expr, q: Expr, u: Expr, v: Expr) -> tuple[Expr, ...]:
        return n, c, p + u - 1, q + v - 1

    assert not isinstance(found(usual), str)
    assert found(lambda n, m, c, p, q, u, v: (n, c, q + u - 1, p + v - 1)) == NO_CONVOLUTION
    assert found(lambda n, m, c, p, q, u, v: (n, c, p - u + 1, q + v - 1)) == NO_CONVOLUTION
    assert found(lambda n, m, c, p, q, u, v: (n, m // 2 + c, p + u - 1, q + v - 1)) == NO_CONVOLUTION
    assert found(lambda n, m, c, p, q, u, v: (n, c, p + u + v - 1, q + v - 1)) == NO_CONVOLUTION
    assert found(usual, lambda m, c, u, v: (m, c, 2 - u, v)) == NO_CONVOLUTION
    assert found(usual, lambda m, c, u, v: (m, c, v, u)) == NO_CONVOLUTION
    assert found(usual, where=lambda p: p < 3) == NO_CONVOLUTION


# --- what the operators' descs do not show ---


def test_three_spatial_dimensions() -> None:
    """No integer operator has them, but a statement may."""
    rng = random.Random(5)
    for at in range(12):
        windows = tuple(
            (rng.randint(4, 9), rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 2), rng.randint(0, 2), rng.randint(0, 2))
            for _ in range(3)
        )
        case = make(replace(PLAIN, groups=1 + at % 2, windows=windows, quantized=False, absent=frozenset(), seed=at))
        made = {name: x for name, x in case.inputs.items() if name in ("input_tensor", "filter_tensor")}
        tensors = {name: TensorDesc.of(x.tensor).spelled_out() for name, x in (*made.items(), ("output_tensor", case.output))}
        x, f = (Tensor(name, tensors[name].sizes, tensors[name].data_type) for name in made)
        n, m, *o = i = each(tensors["output_tensor"].sizes)
        c, *k = terms = each(tensors["filter_tensor"].sizes[1:])
        strides, dilations, starts = (case.attributes[name] for name in ("strides", "dilations", "start_padding"))
        place = [p * s + u * d - q for p, u, s, d, q in zip(o, k, strides, dilations, starts, strict=True)]
        channel = m // 4 * 3 + c if at % 2 else c
        statement = {"output_tensor": nest(i, Sum(terms, x.skipped([n, channel, *place]) * f[[m, *terms]]))}
        found = convolution(Problem(statement, tensors))
        assert not isinstance(found, str)
        plan = PanelPlan(of_convolution(found), targets()[-1], 1)
        lowered = Lowered(targets()[-1], plan.rounds, plan.scratch.size, constants=CONSTANTS)
        link(lowered).bind({name: x.tensor for name, x in (*made.items(), ("output_tensor", case.output))})()
        sums = contractions.convolved(case.attributes, {name: x.tensor for name, x in made.items()}, case.expected.shape)
        np.testing.assert_array_equal(case.output.tensor, sums.astype(np.int32), err_msg=str(case.recipe))


HUGE: dict[str, dict[str, Any]] = {
    "batches": dict(input=(1 << 20, 4, 8, 8), filter=(4, 4, 3, 3), padding=(1, 1)),
    "groups": dict(input=(1, 1 << 16, 8, 8), filter=(1 << 16, 1, 3, 3), padding=(1, 1), groups=1 << 16),
    "places": dict(input=(1, 1, 1, 1 << 30), filter=(1, 1, 1, 3), padding=(0, 1)),
    "padding between strides": dict(input=(1, 1, 4, 4), filter=(1, 1, 1, 1), strides=(1 << 28,) * 2, padding=(1 << 30,) * 2),
    "dilation": dict(input=(1, 1, 1, 1 << 20), filter=(1, 1, 1, 2), dilations=(1, 1 << 20), padding=(0, 1 << 20)),
    "filters": dict(input=(1, 4, 3, 3), filter=(1 << 22, 4, 3, 3), repeats=True),
    "a line": dict(input=(1, 4, 1, 1 << 26), filter=(32, 4, 1, 3), padding=(0, 1)),
    "lines": dict(input=(1, 4, 1 << 22, 3), filter=(32, 4, 3, 3), padding=(1, 1)),
    "groups that repeat": dict(input=(1, 1 << 22, 8, 8), filter=(1 << 22, 1, 3, 3), groups=1 << 22, repeats=True),
    "channels": dict(input=(1, 1 << 20, 3, 3), filter=(2, 1 << 20, 3, 3)),
    "a filter": dict(input=(1, 1, 1 << 10, 1 << 10), filter=(1, 1, 1 << 10, 1 << 10)),
}


@pytest.mark.parametrize("name", HUGE)
def test_no_desc_takes_more_to_lay_out_than_another(name: str) -> None:
    of = HUGE[name]
    strides, dilations, padding = (of.get(x, (n, n)) for x, n in (("strides", 1), ("dilations", 1), ("padding", 0)))
    spatial = zip(of["input"][2:], of["filter"][2:], strides, dilations, padding, strict=True)
    sizes = (1 + (n + 2 * p - 1 - (t - 1) * d) // s for n, t, s, d, p in spatial)
    desc = INTEGER(
        input_tensor=TensorDesc(DataType.UINT8, of["input"]),
        filter_tensor=TensorDesc(DataType.INT8, of["filter"], strides=(0, 9, 3, 1) if "repeats" in of else None),
        output_tensor=TensorDesc(DataType.INT32, (of["input"][0], of["filter"][0], *sizes)),
        strides=strides, dilations=dilations, start_padding=padding, end_padding=padding, group_count=of.get("groups", 1),
    )  # fmt: skip
    device = Device(threads=2)
    device.compile(desc)  # compiles the machine code
    tracemalloc.start()
    operator = device.compile(desc)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert operator.kernel_name == "contract:compiled"
    assert peak < 1 << 18
