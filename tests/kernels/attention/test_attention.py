"""Compiled attention, compared with the exact reference and the oracle: forms, masks, layouts, ties, undecided elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import guard_pages
import oracle
from agreement import bits
from anydml import TensorDesc
from anydml.kernels.attention import finer, finer_sums, weights
from anydml.kernels.attention import tuning as attention_tuning
from anydml.kernels.attention.function import Function
from anydml.kernels.attention.key import LEFT, AttentionKey
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import Target
from anydml.kernels.evaluate.evaluator import evaluators
from anydml.kernels.match.attention import attention
from anydml.kernels.numbers.functions import doubled
from anydml.kernels.reference import evaluated
from anydml.kernels.undecided import places
from anydml.schema.expression import Max, Sum, Tensor, each, equal, exp, negation
from anydml.schema.operator import Desc
from anydml.schema.statement import nest, stated
from attention_cases import FORMS, MASKS, Arrays, described, drawn, made
from every_kernel import SOAK, without_dot_products
from tuned import tuned

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

ISAS = [row.name for row in without_dot_products()]


def executed(desc: Desc, inputs: Arrays, outputs: Arrays, isa: str | None = None, threads: int = 1) -> Arrays:
    compiled = dml.Device("cpu", isa=isa, threads=threads).compile(desc)
    assert compiled.kernel_name == "attention:compiled", attention(stated(desc))
    found = {name: np.full_like(x, 85) for name, x in outputs.items()}
    bound = compiled.bind(**inputs, **found)
    bound.execute()
    first = {name: x.copy() for name, x in found.items()}
    bound.execute()
    for name, x in found.items():
        same(x, first[name])
    return found


def same(have: NDArray[Any], want: NDArray[Any]) -> None:
    np.testing.assert_array_equal(bits(have), bits(want))


def agrees(made_: tuple[Arrays, Arrays, dict[str, Any]], isas: Any = (None,), **others: Any) -> Arrays:
    """The outputs, after a check that each instruction set has the reference's bits."""
    inputs, outputs, fields = made_
    desc = described(inputs, outputs, fields)
    want = evaluated(desc, inputs)
    for isa in isas:
        found = executed(desc, inputs, outputs, isa, **others)
        for name, x in found.items():
            same(x, want[name])
    return want


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_input_gives_the_exact_result(form: str) -> None:
    """In `make soak`, with every mask and type. Instruction sets take turns."""
    rng = np.random.default_rng(FORMS.index(form))
    for at, mask in enumerate(MASKS):
        if SOAK == 1 and at not in (FORMS.index(form) % 5, (FORMS.index(form) + 2) % 5):
            continue
        both = (np.float32, np.float16)
        for dtype in both if SOAK > 1 else both[at == FORMS.index(form) % 5 :][:1]:
            more = dict(bias=bool(at % 2) or form in ("joined", "all"), term=bool(at % 3), present=True)
            isas = ISAS if SOAK > 1 else ISAS[at % len(ISAS) :][:1]
            agrees(made(rng, form, mask, dtype, batch=1, queries=3, **more), isas)


def test_every_form_and_mask_is_what_the_oracle_says() -> None:
    count = 0
    for at, (form, mask) in enumerate((form, mask) for form in FORMS for mask in MASKS):
        rng = np.random.default_rng(at)
        dtype, more = np.float16 if at % 3 else np.float32, dict(bias=at % 2 == 0, term=at % 3 == 0, present=at % 4 == 0)
        found = made(rng, form, mask, dtype, batch=1, queries=2, value_size=9, heads=1, **more)
        inputs, outputs, fields = drawn(rng, found) if at % 5 == 0 else found
        desc: Any = described(inputs, outputs, fields)
        have = executed(desc, inputs, outputs)
        attributes = {name: getattr(desc, name) for name in (*fields, "mask_filter_value")} | dict(mask_type=mask)
        asked = {name: (x.shape, x.dtype) for name, x in outputs.items()}
        for name, want in oracle.compute("MULTIHEAD_ATTENTION1", attributes, inputs, asked).items():
            same(have[name], want.reshape(have[name].shape))
        count += have["output_tensor"].size
    assert count >= 1000


def test_elements_that_hurt() -> None:
    most = dict(queries=4, keys=12, size=10, value_size=20)
    for seed in range(8 * SOAK):
        rng = np.random.default_rng(seed)
        sizes: dict[str, Any] = {name: int(rng.integers(1, n)) for name, n in most.items()}
        few: dict[str, Any] = dict(heads=int(rng.integers(1, 3)), groups=int(rng.integers(1, 3)))
        few |= dict(bias=seed % 3 == 0, term=seed % 4 == 0)
        found = made(rng, FORMS[seed % 7], MASKS[seed % 5], np.float16 if seed % 2 else np.float32, 1, **sizes, **few)
        agrees(drawn(rng, found), [ISAS[seed % len(ISAS)]])


@pytest.mark.parametrize(
    ("queries", "keys", "size", "value_size"), [(1, 1, 1, 1), (9, 25, 3, 2), (2, 66, 17, 1), (35, 8, 1, 9)]
)
def test_sizes_beside_those_of_tiles(queries: int, keys: int, size: int, value_size: int) -> None:
    """More queries than are computed together; keys around a panel and a block; columns around a vector."""
    rng = np.random.default_rng(queries)
    found = made(rng, "apart", "NONE", batch=1, queries=queries, keys=keys, size=size, value_size=value_size, heads=1, groups=1)
    agrees(found, ISAS if SOAK > 1 else ISAS[-1:])


def test_any_layout_and_no_byte_beside_it() -> None:
    """Permuted, repeated and spread dimensions, in buffers between unmapped pages."""
    rng = np.random.default_rng(7)
    inputs, outputs, fields = made(
        rng, "joined", "BOOLEAN", queries=3, size=5, value_size=10, term=True, bias=True, present=True
    )
    layouts = {
        "query_tensor": (1, 40, 2), "key_tensor": (7, 1, 14), "past_key_tensor": (0, 5, 15, 1), "mask_tensor": (0, 0, 10, 1),
        "value_tensor": (0, 0, 1), "output_tensor": (131, 43, 1), "output_present_key_tensor": (100, 50, 1, 10),
        "output_present_value_tensor": (1, 400, 4, 40), "relative_position_bias_tensor": (3, 0, 6, 18),
    }  # fmt: skip
    tensors, arrays, buffers = {}, {}, {}
    for at, (name, x) in enumerate({**inputs, **outputs}.items()):
        tensors[name] = t = TensorDesc(TensorDesc.of(x).data_type, x.shape, strides=layouts.get(name))
        arrays[name], buffers[name] = guard_pages.place(x.shape, t.explicit_strides, x.dtype, at_end=at % 2 == 0, canary=0x55)
        if name in inputs:
            arrays[name][...] = x
    desc = described({}, {}, fields, **tensors)
    read = {name: arrays[name].copy() for name in inputs}
    want = evaluated(desc, read)
    for isa in ISAS:
        for name in outputs:
            buffers[name][...] = 0x55
        compiled = dml.Device("cpu", isa=isa).compile(desc)
        assert compiled.kernel_name == "attention:compiled"
        compiled.bind(**arrays).execute()
        for name in outputs:
            same(arrays[name], want[name])
            arrays[name].view(np.uint8 if arrays[name].itemsize == 1 else np.uint32)[...] = 0x55555555
            assert (buffers[name] == 0x55).all()


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch, own_code: None) -> list[int]:
    """The number of elements that each call leaves to the reference."""
    found: list[int] = []
    real = places._decide

    def counting(bitmaps: Sequence[places.Bitmap], scratch: NDArray[np.int64], arrays: Any) -> None:
        (bits,) = bitmaps
        found.append(int(np.unpackbits(scratch[bits.first : bits.first + bits.words].view(np.uint8)).sum()))
        real(bitmaps, scratch, arrays)

    monkeypatch.setattr(places, "_decide", counting)
    return found


def test_the_second_stage_decides_what_float64_leaves_open(monkeypatch: pytest.MonkeyPatch, left: list[int]) -> None:
    """With a first stage that decides nothing: weights that differ, and equal weights."""
    monkeypatch.setattr(weights, "LINEAR", -1.0)
    count = 0
    for at, mask in enumerate(MASKS):
        if SOAK == 1 and at in (2, 3):
            continue
        rng = np.random.default_rng(at)
        found = made(rng, "lengths" if at % 2 else "apart", mask, np.float16 if at % 2 else np.float32, queries=3, term=at == 1)
        if at >= 3:
            found[0]["query_tensor"][...] = 0
        want = agrees(found, ISAS if SOAK > 1 else ISAS[at % len(ISAS) :][:1])
        count += want["output_tensor"].size
    assert count > 700
    assert left == []


def test_what_both_stages_leave_open_is_decided_exactly(monkeypatch: pytest.MonkeyPatch, left: list[int]) -> None:
    monkeypatch.setattr(weights, "LINEAR", -1.0)
    monkeypatch.setattr(doubled, "REL", 1.0)
    found = made(np.random.default_rng(0), "apart", "NONE", batch=2, queries=2, keys=3, heads=1, groups=2)
    size = agrees(found)["output_tensor"].size
    assert left == [size, size]


def test_every_phase_runs_where_the_first_leaves_elements_open(monkeypatch: pytest.MonkeyPatch, left: list[int]) -> None:
    monkeypatch.setattr(weights, "LINEAR", -1.0)
    tuned(monkeypatch, attention_tuning, alone=1)
    tuned(monkeypatch, attention_tuning, cut=1)
    monkeypatch.setattr(doubled, "REL", 1.0)
    found = made(np.random.default_rng(1), "apart", "NONE", batch=3, queries=2, keys=3, heads=2, groups=1)
    size = agrees(found, threads=2)["output_tensor"].size
    assert left == [size, size]


def test_biases_that_lose_digits(left: list[int]) -> None:
    """The second stage's bounds include the errors of these sums."""
    count = 0
    for at in range(2 * SOAK):
        found = made(np.random.default_rng(at), "joined", "NONE", batch=1, queries=3, keys=6, value_size=30, bias=True)
        found[0]["bias_tensor"] *= np.float32(10.0 ** -(12 + 5 * at))
        count += agrees(found)["output_tensor"].size
    assert sum(left) < count / 50


def test_attention_in_a_graph(monkeypatch: pytest.MonkeyPatch, left: list[int]) -> None:
    """Two operators of the same kind, both with undecided elements."""
    monkeypatch.setattr(weights, "LINEAR", -1.0)
    monkeypatch.setattr(doubled, "REL", 1.0)
    q, k, v = np.random.default_rng(3).standard_normal((3, 1, 4, 6)).astype(np.float32)

    def twice(q: Any, k: Any, v: Any) -> Any:
        first = dml.multihead_attention(q, k, v, head_count=2)
        return dml.multihead_attention(first[0], k, v, head_count=2)[0]

    want = dml.multihead_attention(q, k, v, head_count=2, device="reference")
    want = dml.multihead_attention(want[0], k, v, head_count=2, device="reference")
    given = {name: TensorDesc.of(x) for name, x in zip("qkv", (q, k, v), strict=True)}
    same(np.asarray(dml.graph(twice, **given)(q=q, k=k, v=v)), np.asarray(want[0]))
    assert left == [q.size, q.size]


def test_ties_and_zeros_of_equal_weights_are_left_to_nobody(left: list[int]) -> None:
    dtype: Any
    for at, dtype in enumerate((np.float32, np.float16)):
        rng = np.random.default_rng(at)
        found = made(rng, "apart", "KEY_SEQUENCE_LENGTH", dtype, batch=1, queries=2, keys=6, value_size=64, heads=1, groups=1)
        found[2]["mask_filter_value"] = -math.inf  # with a finite one, a tiny rest of a term would decide the signs of zeros
        inputs, _, _ = found
        inputs["query_tensor"][...] = 0
        inputs["mask_tensor"][...] = 4
        digits = np.finfo(dtype).nmant
        inputs["value_tensor"][...] = 1 + rng.integers(0, 4, (1, 6, 64)) * 2.0**-digits  # quarters of a unit close to 1
        inputs["value_tensor"][..., ::3] = np.array([1, -1, 3, -3, 7, 9])[None, :, None]
        want = agrees(found)["output_tensor"]
        assert (want[..., ::3] == 0).all()
    for at in range(2):  # also if all values are zeros, or a query sees no key
        found = made(np.random.default_rng(at), "lengths", "BOOLEAN", queries=3)
        for x in found[0].values():
            x[...] = 0
        agrees(found)
    assert left == []


def test_the_largest_score_counts_however_it_is_rounded() -> None:
    inputs, outputs, fields = made(np.random.default_rng(2), "apart", "NONE", batch=1, queries=3, keys=3, size=4, value_size=8)
    inputs["query_tensor"] *= np.float32(1e33)
    agrees((inputs, outputs, fields | dict(scale=100.0)), ISAS)


def without_second_stage(target: Target, key: AttentionKey) -> Function:
    """Replaces `finer.refined`: all elements that the first stage leaves undecided remain so."""
    return Function(target, key, "refined", [*(f"i64 {x}" for x in "oprs")])


def test_one_score_far_ahead_is_decided_at_once(monkeypatch: pytest.MonkeyPatch, left: list[int]) -> None:
    """By the first stage for scores of any size, if no value is 0; also with keys that a mask excludes."""
    monkeypatch.setattr(finer, "refined", without_second_stage)
    count = 0
    for at, (factor, mask) in enumerate((f, m) for f in (1e14, 1e18) for m in ("NONE", "KEY_SEQUENCE_LENGTH", "BOOLEAN")):
        found = made(np.random.default_rng(at), "apart", mask, batch=1, queries=2, keys=12, size=4, heads=1, term=at % 2 == 0)
        for name in ("query_tensor", "key_tensor"):
            found[0][name] *= np.float32(factor)
        if mask == "KEY_SEQUENCE_LENGTH":
            found[0]["mask_tensor"][...] = 9
        count += agrees(found, ISAS if SOAK > 1 else ISAS[at % len(ISAS) :][:1])["output_tensor"].size
    assert count >= 6 * 44
    assert sum(left) == 0, left


def test_small_means_of_large_values_are_decided_at_once(monkeypatch: pytest.MonkeyPatch, left: list[int]) -> None:
    """Of integers, a column's largest value often has a tiny weight; so the bound must use the sum of magnitudes."""
    monkeypatch.setattr(finer, "refined", without_second_stage)
    count = 0
    for at, dtype in enumerate((np.float32, np.float16)):
        found = made(np.random.default_rng(at), "apart", "NONE", dtype, batch=1, queries=4, keys=12, size=16, value_size=32)
        for name, x in found[0].items():
            x[...] = np.rint(4 * x)
            if name == "value_tensor":
                x[:, :, ::2] = np.where(np.abs(x[:, :, ::2]) > 3, x[:, :, ::2], 0)
        count += agrees(found, ISAS if SOAK > 1 else ISAS[at % len(ISAS) :][:1])["output_tensor"].size
    assert count >= 2 * 4 * 128
    assert sum(left) <= 1, left


def test_ties_but_for_scores_next_to_nothing(left: list[int]) -> None:
    """Subnormal queries and keys make weights of 1 + 2^-265, which decide on which side of a tie a mean is."""
    for at, factor in enumerate((1e-40, 1e-40, 1e-20, 1e-30)):
        found = made(np.random.default_rng(at), "apart", "NONE", batch=1, queries=2, keys=4, size=8, value_size=48, heads=1)
        inputs, _, _ = found
        for name in ("query_tensor", "key_tensor"):
            inputs[name][...] = inputs[name] * factor
        # quarters of a unit close to 1, or of the smallest numbers, and pairs that cancel
        inputs["value_tensor"][...] = 1 + np.random.default_rng(at).integers(0, 4, (1, 4, 48)) * 2.0**-23
        if at % 2:
            inputs["value_tensor"][...] = np.random.default_rng(at).integers(-9, 10, (1, 4, 48)) * 2.0**-149
        inputs["value_tensor"][..., ::3] = np.array([1, -1, 3, -3])[None, :, None]
        want = agrees(found, ISAS if SOAK > 1 else ISAS[at % len(ISAS) :][:1])["output_tensor"]
        signs = np.signbit(want[want == 0]) if at < 2 else np.array([True, False])
        assert signs.any()
        assert not signs.all()
    assert left == []


@pytest.mark.parametrize("form", ["apart", "lengths", "past"])
def test_queries_that_are_the_same_are_weighed_once(form: str, monkeypatch: pytest.MonkeyPatch, own_code: None) -> None:
    """By the second stage, if they see the same keys and nothing is added to their scores."""
    counts: list[int] = []
    real = finer_sums.sums_of_products

    def counted(target: Target, key: AttentionKey) -> Function:
        f = real(target, key)
        state = f.argument("state")
        f.store("i64", f.plus(f.load("i64", state, LEFT), 1), state, LEFT)
        return f

    def noted(bitmaps: object, scratch: NDArray[np.int64], arrays: object) -> None:
        counts.append(int(scratch[LEFT // 8]))

    monkeypatch.setattr(weights, "LINEAR", -1.0)
    monkeypatch.setattr(finer_sums, "sums_of_products", counted)
    monkeypatch.setattr(places, "_decide", noted)
    for mask in ("NONE", "KEY_SEQUENCE_END_START"):
        counts.clear()
        found = made(np.random.default_rng(1), form, mask, batch=1, queries=8, heads=1, groups=1)
        found[0]["query_tensor"][:, 1:3] = found[0]["query_tensor"][:, :1]
        found[0]["query_tensor"][:, 5:] = 0
        agrees(found)
        # with lengths, each query sees one key more than the one before, up to all; the first one sees none
        once, each = (6, 7) if form == "lengths" else (4, 8)
        assert counts[0] == (once if mask == "NONE" else each), mask


def test_products_of_very_different_sizes_leave_nothing(monkeypatch: pytest.MonkeyPatch, left: list[int]) -> None:
    """Norms are far above many scores then, and sums of the second stage begin with norms."""
    monkeypatch.setattr(weights, "LINEAR", -1.0)
    rng = np.random.default_rng(3)
    inputs, outputs, fields = made(rng, "apart", "NONE", queries=40, keys=30, size=64, value_size=16)
    for x in inputs.values():
        x *= np.exp2(rng.integers(-12, 12, x.shape)).astype(np.float32)
    executed(described(inputs, outputs, fields | dict(scale=2.0**-18)), inputs, outputs)
    assert left == []


def test_some_scores_far_ahead_and_values_that_are_no_numbers() -> None:
    """The second stage skips keys with weights of 0, but not their effect on a sum that is not finite, or on a sign."""
    rng, count = np.random.default_rng(12), 0
    for at in range(3 * SOAK):
        form, dtype = ("apart", "lengths")[at % 2], (np.float32, np.float16)[at // 2 % 2]
        found = made(rng, form, MASKS[at % 5], dtype, batch=1, queries=4, keys=20, size=4, heads=1, term=at % 3 == 2)
        for name, x in found[0].items():
            if x.dtype.kind == "f" and ("query" in name or "key" in name):
                x[...] = np.where(rng.random(x.shape) < 0.5, -1000, 1000)
            elif x.dtype.kind == "f" and "value" in name:
                x[...] = rng.integers(-2, 3, x.shape)
                x[rng.random(x.shape) < 0.02] = rng.choice([np.inf, -np.inf, np.nan, -0.0])
        count += agrees(found, ISAS if SOAK > 1 else ISAS[at % len(ISAS) :][:1])["output_tensor"].size
    assert count >= 3 * 88 * SOAK


@pytest.mark.parametrize("stage", ["first", "second", "third"])
def test_an_infinite_value_counts_however_small_its_weight(stage: str) -> None:
    """A weight of e^-4000 is 0 in float64, and 0 times infinity would be NaN."""
    inputs, outputs, fields = made(np.random.default_rng(0), "apart", batch=1, queries=1, keys=4, size=4, value_size=3, heads=1)
    inputs["query_tensor"][...] = 1000
    inputs["key_tensor"][...] = np.array([1000, 1000, 1000, 999])[None, :, None]
    inputs["value_tensor"][...] = np.array([[1, 2, 3], [4, 5, 6], [7, 8, np.inf], [np.inf, -np.inf, -np.inf]])
    have = {name: np.full_like(x, 85) for name, x in outputs.items()}
    dml.Device("cpu", stage=stage).compile(described(inputs, outputs, fields)).bind(**inputs, **have).execute()
    np.testing.assert_array_equal(have["output_tensor"].ravel(), np.array([np.inf, -np.inf, np.nan] * 2, np.float32))


def test_values_that_cancel_beside_one_whose_weight_is_next_to_nothing(left: list[int]) -> None:
    """The sign of the result is that of the zero."""
    inputs, outputs, fields = made(np.random.default_rng(0), "apart", batch=1, queries=1, keys=4, size=4, value_size=6, heads=1)
    inputs["query_tensor"][...] = 1000
    inputs["key_tensor"][...] = np.array([1000, 1000, 1000, -1000])[None, :, None]
    values = [[2, -1, 3, 0.5, -2, 0], [-1, 2, -3, -0.5, 1, 0], [-1, -1, 0, 0, 1, 0], [-1, 1, -1, 1, 0, -1]]
    inputs["value_tensor"][...] = np.array(values)
    want = agrees((inputs, outputs, fields), ISAS)["output_tensor"]
    assert np.signbit(want[0, 0, :6]).tolist() == [True, False, True, False, False, True]


def test_threads_and_parts_of_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    found = made(
        rng, "joined", "BOOLEAN", batch=1, queries=300, keys=50, size=16, value_size=16, heads=1, groups=2, present=True
    )
    inputs, outputs, _ = found
    desc = described(*found)
    want = executed(desc, inputs, outputs, threads=1)
    tuned(monkeypatch, attention_tuning, alone=1)
    tuned(monkeypatch, attention_tuning, cut=1 << 16)  # and in several phases
    for threads in (2, 3):
        for name, x in executed(desc, inputs, outputs, threads=threads).items():
            same(x, want[name])
    few = evaluators(stated(desc), dict.fromkeys(outputs, dml.DataType.FLOAT32), inputs)["output_tensor"]
    for s, c in rng.integers(0, [300, 32], (5, 2)).tolist():
        assert few.stored(0, s, c) == want["output_tensor"].view(np.uint32)[0, s, c]


def test_other_statements_are_refused() -> None:
    """Similar statements that are not attention: another maximum, other scores, a weight without its sum."""
    q, k, v = (Tensor(name, (4, 4), dml.DataType.FLOAT32) for name in "qkv")
    i, j = each((4, 4))

    def stated_as(kind: str) -> str:
        over = [each((4,), name) for name in "tuw"]
        (t,), (u,), (w,) = over

        def score(x: Any) -> Any:
            (h,) = sums = each((4,), "h")
            return 0.5 * Sum(sums, q[i, h] * k[x, h])

        top = Max(over[2], score(u if kind == "top" else w))
        weight = exp(score(t) - top)
        there = negation(equal(score(t), -math.inf))
        below = Sum(over[1], exp((score(u) if kind != "score" else score(u) + score(u)) - top))
        above = Sum(over[0], weight * v[t, j], *([] if kind == "there" else [there]))
        found = attention({"y": nest((i, j), above if kind == "mean" else above / below)})
        return found if isinstance(found, str) else ""

    assert stated_as("") == ""
    assert all(stated_as(kind) for kind in ("top", "score", "mean", "there"))


@pytest.mark.parametrize("isa", ISAS)
def test_keys_whose_scores_differ_by_less_than_two_float64_tell(isa: str) -> None:
    """Scores of 2^114 with differences of 2^-14: the tail of the largest one must be used."""
    inputs, outputs, fields = made(np.random.default_rng(0), "apart", batch=1, queries=1, keys=4, size=2, heads=1, groups=1)
    inputs["query_tensor"][...] = 2, 2.0**127 * (1 - 2.0**-24)
    significands = np.array([[5, -7], [6, 5], [6, -(2.0**22)], [-1, 5]])
    inputs["key_tensor"][...] = np.ldexp(significands, np.array([[-22, -21], [-24, -22], [-22, -20], [-22, -22]]))
    agrees((inputs, outputs, fields | dict(scale=100.0)), [isa])
