"""Compiled nests of reductions, compared with the oracle: any layout, guard pages, hostile data."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import guard_pages
import hostile_data
import nest_cases
from agreement import SOAK, expected
from anydml import DataType, TensorDesc, check, operators
from anydml.devices.compiled import CompiledOperator
from anydml.devices.link import link
from anydml.kernels.code import engine, targets
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.nests import nests
from anydml.kernels.nests import emit, family
from anydml.kernels.nests import tuning as nests_tuning
from anydml.kernels.problem import Problem, problem_of
from anydml.kernels.reduce import tuning as reduce_tuning
from anydml.kernels.undecided import state
from anydml.schema.enumerations import InterpolationMode, ReduceFunction
from anydml.schema.expression import Sum, Tensor, as_number, each, equal, exp, first_largest, index
from anydml.schema.node import number
from anydml.schema.statement import nest
from every_kernel import CallsOf
from tuned import tuned

ISAS = list({target.vector_bytes: target.name for target in targets.targets()}.values())
CANARY = 0xA5
NAME = "nests:compiled"
F32 = DataType.FLOAT32
Array = NDArray[Any]


def placed(t: TensorDesc, *, at_end: bool) -> tuple[Array, NDArray[np.uint8]]:
    return guard_pages.place(t.sizes, t.explicit_strides, t.data_type.dtype, at_end=at_end, canary=CANARY)


def bits(x: Array) -> Array:
    return x.view(f"u{x.itemsize}")


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("name", nest_cases.OPERATORS)
def test_nests_are_exact_and_write_nothing_else(name: str, ran: Any) -> None:
    outputs = compiled_ = 0
    for at in range(6 if SOAK == 1 else 40 * SOAK):
        rng = np.random.default_rng([at, *name.encode()])
        desc, inputs = nest_cases.case(name, rng, hostile_data.KINDS[at % len(hostile_data.KINDS)])
        made = dml.Device("cpu", isa=ISAS[at % len(ISAS)], threads=1 + at % 2).compile(desc)
        if made.kernel_name != NAME:  # descs with one position or one element may belong to other families
            continue
        compiled_ += 1
        wanted = expected(desc, inputs)
        tensors = {t.name: t.desc for t in desc.tensors()}
        arrays, buffers = {}, []
        for k, (n, t) in enumerate(tensors.items()):
            arrays[n], buffer = placed(t, at_end=(at + k) % 2 == 0)
            if n in inputs:
                arrays[n][...] = inputs[n]
            else:
                buffers.append((n, buffer))
        made.bind(**arrays).execute()
        for n, buffer in buffers:
            found = arrays[n]
            np.testing.assert_array_equal(bits(found), bits(wanted[n]), err_msg=f"case {at}: {desc}")
            bits(found)[...] = int.from_bytes(bytes([CANARY]) * found.itemsize, "little")
            assert (buffer == CANARY).all(), f"case {at} wrote beside its elements: {desc}"
            outputs += found.size
    assert compiled_ >= 3
    ran(outputs, 1)


def resized(x: Array, scale: float, **fields: Any) -> Any:
    operator: Any = operators.find("RESAMPLE3")
    sizes = (*x.shape[:-2], *(int(n * scale) for n in x.shape[-2:]))
    rank = x.ndim
    mode = {"interpolation_mode": "LINEAR", **fields}
    return operator(
        input_tensor=TensorDesc.of(x),
        output_tensor=TensorDesc(TensorDesc.of(x).data_type, sizes),
        rounding_direction="DECREASING",
        scales=(*(1,) * (rank - 2), scale, scale),
        input_pixel_offsets=(0.5,) * rank,
        output_pixel_offsets=(-0.5,) * rank,
        **mode,
    )


def run(desc: Any, x: Array, **device: Any) -> Array:
    made = dml.Device("cpu", **device).compile(desc)
    assert made.kernel_name == NAME
    output = np.empty(desc.output_tensor.sizes, x.dtype)
    made.bind(input_tensor=x, output_tensor=output).execute()
    return output


def test_all_threads_give_the_same_bits_where_many_elements_are_open(
    monkeypatch: pytest.MonkeyPatch, calls_of: CallsOf
) -> None:
    """An image of large and small magnitudes, whose sums are undecided, with lists that are soon full."""
    tuned(monkeypatch, nests_tuning, room=4)
    tuned(monkeypatch, nests_tuning, alone=1)
    decided = calls_of(state, "_in_phases")
    rng = np.random.default_rng(0)
    x = np.where(rng.random((2, 1, 9, 11)) < 0.5, np.float32(1 + 2**-23), np.float32(2.0**-60)).astype(np.float32)
    desc = resized(x, 2.0)
    wanted = expected(desc, {"input_tensor": x})["output_tensor"]
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(bits(run(desc, x, threads=threads)), bits(wanted))
    assert len(decided) > 3


def test_a_long_call_is_taken_up_where_it_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, nests_tuning, budget=64)
    x = np.random.default_rng(1).standard_normal((3, 4, 5, 6)).astype(np.float32)
    desc = resized(x, 3.0)
    wanted = expected(desc, {"input_tensor": x})["output_tensor"]
    np.testing.assert_array_equal(bits(run(desc, x)), bits(wanted))
    np.testing.assert_array_equal(bits(run(desc, x)), bits(wanted))


def test_longer_loops_have_more_pauses(monkeypatch: pytest.MonkeyPatch, calls_of: CallsOf) -> None:
    """The number of rows between pauses follows from the turns of loops, whose ends are known in the call only."""
    pauses = calls_of(state, "_in_phases")
    tuned(monkeypatch, nests_tuning, budget=4000)
    x = np.random.default_rng(3).standard_normal((1, 40, 5, 5)).astype(np.float32)
    t, counts = TensorDesc.of(x), []
    for terms in (17, 31):
        desc = dml.LocalResponseNormalization(
            input_tensor=t, output_tensor=t, cross_channel=True, local_size=terms, alpha=1e-3, beta=0.75, bias=1
        )
        y = np.empty_like(x)
        compiled = dml.Device(threads=1).compile(desc)
        assert compiled.kernel_name == NAME
        pauses.clear()
        compiled.bind(input_tensor=x, output_tensor=y).execute()
        assert y.tobytes() == expected(desc, {"input_tensor": x})["output_tensor"].tobytes()
        counts.append(len(pauses))
    assert counts[1] > counts[0] >= 4  # 25 rows of 40 elements


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", [1, 2])
def test_calls_pause_within_a_row(monkeypatch: pytest.MonkeyPatch, calls_of: CallsOf, isa: str, threads: int) -> None:
    """Elements with many terms: one vector of them is computed, and the next call continues after it."""
    pauses = calls_of(state, "_in_phases")
    tuned(monkeypatch, nests_tuning, budget=100)
    tuned(monkeypatch, nests_tuning, alone=1)
    tuned(monkeypatch, reduce_tuning, longest=4)  # of longer ones, this family has the sums
    x = np.random.default_rng(3).standard_normal((2, 45, 70)).astype(np.float32)
    x[1, 3:9, 2] = np.inf, -np.inf, np.nan, 1e30, 2.0**-149, -0.0
    desc = dml.Reduce(
        input_tensor=TensorDesc.of(x),
        output_tensor=TensorDesc("FLOAT32", (2, 45, 1)),
        axes=(2,),
        function=ReduceFunction.AVERAGE,
    )
    y = np.empty((2, 45, 1), np.float32)
    compiled = dml.Device(threads=threads, isa=isa).compile(desc)
    assert compiled.kernel_name == NAME
    bound = compiled.bind(input_tensor=x, output_tensor=y)
    for _ in range(2):
        pauses.clear()
        y[...] = 85
        bound.execute()
        np.testing.assert_array_equal(bits(y), bits(expected(desc, {"input_tensor": x})["output_tensor"]))
        assert len(pauses) >= 4  # rows of 45 elements, of which at most eight are computed together


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("bias", "beta"), [(2, -2000), (0.5, 1999), (-2, 2001), (-0.5, 1999), (1e30, -37.5), (3, 700), (0, 0.75)]
)
def test_what_is_divided_by_a_power_beyond_float64(isa: str, bias: float, beta: float) -> None:
    """A power that is 0 in float64 is not 0: 0 / 2^-2000 is 0, and infinity / 2^2000 is infinite."""
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -3, 0], np.float32).reshape(8, 1, 1, 1)
    t = TensorDesc.of(x)
    desc = dml.LocalResponseNormalization(
        input_tensor=t, output_tensor=t, cross_channel=False, local_size=1, alpha=0, beta=beta, bias=bias
    )
    y = np.empty_like(x)
    compiled = dml.Device(isa=isa).compile(desc)
    assert compiled.kernel_name == NAME
    compiled.bind(input_tensor=x, output_tensor=y).execute()
    np.testing.assert_array_equal(bits(y), bits(expected(desc, {"input_tensor": x})["output_tensor"]))


def test_ties_of_bytes_are_decided_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights in twelfths: about every seventh output is exactly halfway between integers."""
    monkeypatch.setattr(state, "_in_phases", lambda *_: pytest.fail("an element was left open"))
    x = np.random.default_rng(2).integers(0, 256, (1, 1, 12, 12)).astype(np.uint8)
    desc = resized(x, 6.0)
    np.testing.assert_array_equal(run(desc, x), expected(desc, {"input_tensor": x})["output_tensor"])


COMPARED: dict[str, tuple[Any, Any]] = {
    "the smaller": (lambda x, y: x < y, lambda a, b: a < b),
    "a sum": (lambda x, y: index(x) + index(y) < index(y), lambda a, b: a + b < b),
    "a difference": (lambda x, y: index(x) - index(y) <= 0, lambda a, b: a <= b),
    "a product": (lambda x, y: index(x) * index(y) < 1, lambda a, b: a * b < 1),
}


@pytest.mark.parametrize("how", COMPARED)
@pytest.mark.parametrize("data_type", ["UINT64", "INT64"])
def test_integers_of_64_bits_are_compared_as_what_they_are(data_type: str, how: str) -> None:
    operator: Any = operators.find("ELEMENT_WISE_LOGICAL_LESS_THAN")
    some = np.array([0, 1, 5, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), -(2**62), -2, -1], np.int64).view(data_type.lower())
    a, b = (x.reshape(-1) for x in np.meshgrid(some, some))
    tensor, made = TensorDesc.of(a), np.full(a.shape, 9, np.uint8)
    checked = check(operator(a_tensor=tensor, b_tensor=tensor, output_tensor=TensorDesc.of(made)))
    i, (x, y) = each(a.shape), (Tensor(name, a.shape, DataType[data_type]) for name in ("a_tensor", "b_tensor"))
    statement = {"output_tensor": nest(i, as_number(COMPARED[how][0](x[i], y[i])))}
    lowered = family.lower(problem_of(checked, statement), Machine(None, 1))
    assert isinstance(lowered, Lowered)
    CompiledOperator(checked, NAME, link(lowered)).bind(a_tensor=a, b_tensor=b, output_tensor=made).execute()
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    assert made.tolist() == [COMPARED[how][1](*pair) for pair in pairs]


@pytest.mark.parametrize("kind", hostile_data.KINDS)
def test_outputs_in_the_place_of_any_input(kind: str) -> None:
    """Undecided elements are decided with the inputs that were there before."""
    rng = np.random.default_rng(hostile_data.KINDS.index(kind))
    inputs = {name: hostile_data.values("FLOAT32", (5, 13), rng, kind) for name in nest_cases.MOMENTS}
    outputs = ["output_parameters_tensor", "output_first_moment_tensor", "output_second_moment_tensor"]
    tensor, one = TensorDesc("FLOAT32", (5, 13)), TensorDesc("UINT32", (1, 1))
    operator: Any = operators.find("ADAM_OPTIMIZER")
    desc = operator(**dict.fromkeys((*inputs, *outputs), tensor), training_step_tensor=one, learning_rate=0.1)
    made = dml.Device("cpu").compile(desc)
    assert made.kernel_name == NAME
    step = {"training_step_tensor": np.full((1, 1), 3, np.uint32)}
    wanted = expected(desc, {**inputs, **step})
    for order in ((0, 1, 2), (2, 0, 1), (3, 2, 0)):
        arrays = {name: x.copy() for name, x in inputs.items()}
        found = {name: arrays[nest_cases.MOMENTS[k]] for name, k in zip(outputs, order, strict=True)}
        made.bind(**arrays, **step, **found).execute()
        for name, x in found.items():
            np.testing.assert_array_equal(bits(x), bits(wanted[name]), err_msg=f"{name}, {order}")


def frame(assembly: str) -> int:
    """The bytes of the stack that the code uses, in frames of 128 bytes or more."""
    taken = re.findall(r"^\s+(?:subq\s+\$(\d+), %rsp|sub\s+sp, sp, #(\d+)(, lsl #12)?)", assembly, re.MULTILINE)
    sizes = [int(x or y) << (12 if shift else 0) for x, y, shift in taken]
    return sum(n for n in sizes if n >= 128) + ((1 << 32) if "chkstk" in assembly else 0)


@pytest.mark.parametrize("isa", ISAS)
def test_no_kernel_takes_more_than_a_page_of_the_stack(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs with many operations are compiled again, with loops instead of unrolled code, and in fewer lanes."""
    rng = np.random.default_rng(8)
    seen: list[bool] = []
    within = engine.within

    def looked(*arguments: Any) -> Any:
        made = within(*arguments)
        text, target = emit.emitted(arguments[1], *arguments[3:]), arguments[1]
        seen.append(made is not None)
        assert seen[-1] == (frame(engine.assembly(text, target)) < emit.FRAME)
        return made

    monkeypatch.setattr(engine, "within", looked)
    for _ in range(6):
        desc, _ = nest_cases.case("LOCAL_RESPONSE_NORMALIZATION_GRAD", rng, "ordinary")
        assert dml.Device("cpu", isa=isa).compile(desc).kernel_name == NAME
        assert seen.pop()
    target = targets.targets()[-1]
    if target.name == isa and target.vector_bytes > 16:  # with narrower registers, everything fits in a page at once
        assert False in seen


def test_a_new_batch_compiles_nothing() -> None:
    counts = []
    for batch in (4, 5, 7):
        x = np.zeros((batch, 2, 8, 9), np.float32)
        run(resized(x, 2.0), x)
        counts.append(engine.within.cache_info().misses)
    assert counts[0] == counts[1] == counts[2]


# --- what is taken, and what is refused ---


def test_what_has_no_program_says_why() -> None:
    x = Tensor("x", (4, 4), F32)
    i, j = each((4, 4))
    k = each((4,), "k")
    assert nests(nest((i, j), exp(Sum(k, x[[i, k[0]]]))), F32) == "nests have no operation exp"
    last = first_largest(k, x[[i, k[0]]], last=True)
    assert nests(nest((i, j), number(last)), F32) == "a reduction first_largest"
    assert nests(nest((i, j), x[[i, j]] / 3), DataType.INT32) == "an integer is computed from real numbers"
    chain = x[[i, j]]
    for _ in range(90):
        chain = chain * x[[j, i]] + 1
    assert nests(nest((i, j), chain), F32) == "operations are nested more than 80 deep"


def test_sums_of_integers_under_conditions_that_may_be_open_are_refused() -> None:
    """The end of a loop is an element: its integer is not known for NaN, or for a number beyond all integers."""
    tensors = {"x": TensorDesc("INT32", (4, 40)), "y": TensorDesc("FLOAT32", (4,)), "z": TensorDesc("INT32", (4,))}
    x, y = (Tensor(name, tensors[name].sizes, tensors[name].data_type) for name in "xy")
    (i,), k = each((4,)), each((40,), "k")
    for condition in (k[0] < index(y[[i]]), equal(k[0], index(y[[i]]))):
        made = family.lower(Problem({"z": nest((i,), Sum(k, x[[i, k[0]]], where=condition))}, tensors), Machine(None, 1))
        assert made == Refused("a sum of integers modulo 2^64 has terms that may be undecided")


def test_few_terms_are_written_out_and_many_are_loops() -> None:
    x = Tensor("x", (4, 400), F32)
    (i,) = each((4,))
    for size, op in ((3, "terms"), (400, "reduce")):
        k = each((size,), "k")
        found = nests(nest((i,), Sum(k, x[[i, k[0]]])), F32)
        assert not isinstance(found, str)
        assert [node.op for node in found.program.nodes if node.op in ("terms", "reduce")] == [op]


def test_a_written_sum_has_the_terms_whose_condition_holds() -> None:
    x, k = Tensor("x", (4, 3), F32), each((3,), "k")
    (i,) = each((4,))
    for condition, count in ((k[0] < 2, 2), (k[0] <= 1, 2), (equal(k[0], 2), 1)):
        found = nests(nest((i,), Sum(k, x[[i, k[0]]], where=condition)), F32)
        assert not isinstance(found, str)
        (terms,) = (node for node in found.program.nodes if node.op == "terms")
        assert len(terms.args) == 2 * count  # each with its condition


@pytest.mark.parametrize("mode", InterpolationMode)
@pytest.mark.parametrize("samples", [1, 3])
def test_samples_next_to_the_edge_between_two_elements(mode: InterpolationMode, samples: int, ran: Any) -> None:
    """A region begins 1e-30 beside an integer or a half: float64 does not tell which element a sample belongs to."""
    rng, outputs = np.random.default_rng(8), 0
    g, roi = TensorDesc(F32, (4, 1, 2, 3)), TensorDesc(F32, (4, 4))
    image = TensorDesc(F32, (1, 1, 4, 4))
    for offset in (0.0, 0.5):
        desc = dml.RoiAlignGrad(
            input_tensor=None, input_gradient_tensor=g, roi_tensor=roi, batch_indices_tensor=TensorDesc("UINT32", (4,)),
            output_gradient_tensor=image, output_roi_gradient_tensor=None, reduction_function=ReduceFunction.AVERAGE,
            interpolation_mode=mode, spatial_scale_x=1.0, spatial_scale_y=1.0, input_pixel_offset=0.5,
            output_pixel_offset=offset, minimum_samples_per_output=samples, maximum_samples_per_output=samples,
            align_regions_to_corners=False,
        )  # fmt: skip
        compiled_ = dml.Device("cpu").compile(desc)
        assert compiled_.kernel_name == NAME
        for _ in range(4):
            corners = rng.choice([-1e-30, 1e-30, 0, 1, 2, 3, 0.5, 1.5], (4, 4)).astype(np.float32)
            corners[0] = -1e-30, 0, 3, 1  # the middle sample is 1e-30 beside the edge
            gradient = hostile_data.values("FLOAT32", g.sizes, rng, "ordinary")
            inputs = dict(input_gradient_tensor=gradient, roi_tensor=corners, batch_indices_tensor=np.zeros(4, np.uint32))
            found = np.empty(image.sizes, np.float32)
            compiled_.bind(**inputs, output_gradient_tensor=found).execute()
            np.testing.assert_array_equal(bits(found), bits(expected(desc, inputs)["output_gradient_tensor"]))
            outputs += found.size
    ran(outputs, 100)
