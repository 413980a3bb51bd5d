"""Patterns of statements: affine indices, moves and products, and statements that resemble them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from operator import add, floordiv, lt, mod, mul, neg, sub
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anydml as dml
from anydml import TensorDesc, operators
from anydml.kernels.code.llvm import unavailable
from anydml.kernels.copy import family
from anydml.kernels.copy import tuning as copy_tuning
from anydml.kernels.kernel import Built, Lowered, Machine, Refused
from anydml.kernels.lower import lowerings
from anydml.kernels.match import contraction
from anydml.kernels.match.affine import Affine, affine, below
from anydml.kernels.match.looked_up import looked_up
from anydml.kernels.match.moves import Move, moves
from anydml.kernels.match.product import NO_PRODUCT, NOT_REQUANTISED, product
from anydml.kernels.match.rows import rows
from anydml.kernels.match.structure import conjuncts
from anydml.kernels.problem import Problem, problem_of
from anydml.schema.check import check
from anydml.schema.expression import Sum, Tensor, clamp, each, half_to_even, maximum, minimum, select
from anydml.schema.node import Expr, Variable, lift, number
from anydml.schema.operator import example_desc
from anydml.schema.statement import Nest, Statement, move, nest, stated
from anydml.tensor import DataType
from tensors import SETTINGS
from tuned import tuned

MACHINE = Machine(None, 1)


def value(e: Expr, at: dict[Variable, int]) -> int:
    """The value of an index, computed independently of the tested code."""
    if e.op == "variable":
        return at[e.data]
    if e.op == "constant":
        return int(e.data.value)
    x = [value(a, at) for a in e.args]
    return int(OPERATIONS[e.op](*x))


OPERATIONS: dict[str, Any] = {
    "neg": neg,
    "add": add,
    "sub": sub,
    "mul": mul,
    "floordiv": floordiv,
    "mod": mod,
    "min": min,
    "max": max,
    "less": lt,
    "select": lambda condition, a, b: a if condition else b,
}


INDICES = each((7, 5, 3))
EXPRESSIONS = st.recursive(
    st.sampled_from(list(INDICES)),
    lambda inner: st.one_of(
        st.tuples(inner, st.integers(-4, 4).filter(bool)).map(lambda p: p[0] * p[1]),  # 0 * i is the number 0, and not an index
        st.tuples(inner, inner | st.integers(-9, 9)).map(lambda p: p[0] + p[1]),
        st.tuples(st.integers(-9, 9), inner).map(lambda p: p[0] - p[1]),
        inner.map(lambda e: -e),
    ),
    max_leaves=6,
)


@SETTINGS
@given(EXPRESSIONS)
def test_an_affine_index_has_its_values(e: Expr) -> None:
    found = affine(e)
    assert found is not None
    assert 0 not in found.factors.values()
    for numbers in itertools.product(*(range(v.size) for v in INDICES.bound)):
        at = dict(zip(INDICES.bound, numbers, strict=True))
        assert found.constant + sum(factor * at[v] for v, factor in found.factors.items()) == value(e, at)


def test_what_is_no_affine_index() -> None:
    i, j, _ = INDICES
    for e in (i * j, i // 2, i % 3, maximum(i, 2), select(i < 3, i, j), number(i)):
        assert affine(e) is None
    assert affine(i + 0 * j) == Affine(0, {i.data: 1})
    assert affine(i - i) == Affine(0, {})


@SETTINGS
@given(st.integers(-3, 3).filter(bool), st.integers(-12, 12), st.integers(-12, 12), st.booleans())
def test_a_comparison_holds_below_its_bound(factor: int, constant: int, right: int, strict: bool) -> None:
    i, *_ = INDICES
    left = i * factor + constant
    found = below(left < right if strict else left <= right)
    assert found is not None
    v, bound, lower = found
    assert v is i.data
    for n in range(-20, 20):
        x = factor * n + constant
        assert (x < right if strict else x <= right) == (n < bound if lower else n >= bound)


def test_what_is_no_comparison_of_one_index() -> None:
    i, j, _ = INDICES
    assert below(i < j) is None
    assert below(number(i) < 3) is None
    assert below(maximum(i, j) < 3) is None


# --- moves ---


def named(name: str) -> Any:
    """The desc class of an operator."""
    found = operators.find(name)
    assert found is not None
    return found


def names_of(families: Any, desc: Any) -> dict[str, Lowered | Built | Refused]:
    checked = dml.check(desc)
    return dict(lowerings(families, problem_of(checked), MACHINE))


def moved(found: list[Move], inputs: dict[str, np.ndarray[Any, Any]], outputs: dict[str, Any]) -> None:
    """Compare the moves with the operator's outputs, element by element."""
    for m in found:
        for at in np.ndindex(*m.sizes):
            place = tuple(f + i for f, i in zip(m.first, at, strict=True)) if not m.places else reached(m.first, m.places, at)
            assert np.isnan(outputs[m.target][place]), "written twice"
            if m.bits is not None:
                outputs[m.target][place] = np.array(m.bits, np.uint32).view(np.float32)
                continue
            source = reached(m.start, m.steps, at)
            assert min(source) >= 0
            outputs[m.target][place] = inputs[m.source][source]


def reached(first: Sequence[int], steps: Sequence[Sequence[int]], at: Sequence[int]) -> tuple[int, ...]:
    """The index of a tensor for an index of a box."""
    return tuple(s + sum(i * step[d] for i, step in zip(at, steps, strict=True)) for d, s in enumerate(first))


def test_values_are_split_by_remainder_and_at_an_end_and_no_part_is_empty() -> None:
    for size, step in itertools.product(range(1, 8), range(1, 5)):
        (v,) = each((size,), "v")
        for end in range(size + 1):
            found = [*contraction._parts_of(v.data, step, end)]
            assert all(count > 0 for _, count, _ in found)
            every = [(first + step * n, below) for first, count, below in found for n in range(count)]
            assert sorted(every) == [(n, n < end) for n in range(size)]


MOVING = (
    *("SLICE1", "ACTIVATION_IDENTITY", "SPLIT", "JOIN", "TILE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1"),
    *("PADDING1", "UNFOLD"),
)


@pytest.mark.parametrize("name", MOVING)
def test_what_moves_is_moved_once(name: str) -> None:
    operator = named(name)
    for example in operator.spec.examples:
        desc: Any = operator(**example.fields)
        found = moves(stated(desc))
        assert not isinstance(found, str)
        inputs: dict[str, Any] = {}
        outputs: dict[str, Any] = {}
        for field in (*operator.spec.inputs, *operator.spec.outputs):
            into = inputs if field in operator.spec.inputs else outputs
            given_arrays = (example.inputs if into is inputs else example.outputs)[field.name]
            if field.sized_by:
                into.update({f"{field.name}[{i}]": x for i, x in enumerate(given_arrays)})
            else:
                into[field.name] = given_arrays
        written = {name: np.full(x.shape, np.nan) for name, x in outputs.items()}
        moved(found, inputs, written)
        for key, wanted in outputs.items():
            np.testing.assert_array_equal(written[key], wanted)


def test_a_diagonal_and_a_broadcast_are_moves() -> None:
    i, j = each((3, 4), "ij")
    x = Tensor("x", (9, 9), DataType.FLOAT32)
    assert moves({"y": move((i, j), x[[i + 2 * j, 8 - i]])}) == [Move("x", "y", (0, 0), (3, 4), (0, 8), ((1, -1), (2, 0)))]
    assert moves({"y": move((i, j), x[[0, i]])}) == [Move("x", "y", (0, 0), (3, 4), (0, 0), ((0, 1), (0, 0)))]


def test_an_index_that_is_divided_is_cut() -> None:
    (i,) = each((12,), "i")
    x = Tensor("x", (3, 2, 2), DataType.FLOAT32)
    digits = Move("x", "y", (0,), (3, 2, 2), (0, 0, 0), ((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((4,), (2,), (1,)))
    assert moves({"y": move((i,), x[[i // 4, i // 2 % 2, i % 2]])}) == [digits]
    assert moves({"y": move((i,), x[[i // 2 // 2, i % 4 // 2, i % 2]])}) == [digits]
    below = moves({"y": move((i,), select(i % 4 < 1, x[[i // 4, 0, 0]], x[[0, 0, 0]]))})
    assert below == [
        Move("x", "y", (0,), (3, 1), (0, 0, 0), ((1, 0, 0), (0, 0, 0)), ((4,), (1,))),
        Move("x", "y", (1,), (3, 3), (0, 0, 0), ((0, 0, 0), (0, 0, 0)), ((4,), (1,))),
    ]
    # a divisor above the size, or 1, divides nothing
    assert moves({"y": move((i,), x[[i // 12, i // 13, i % 1]])}) == [
        Move("x", "y", (0,), (12,), (0, 0, 0), ((0, 0, 0),)),
    ]


def test_an_index_that_is_affine_in_pieces_is_cut_into_them() -> None:
    i, j = each((12, 5), "ij")
    x = Tensor("x", (24, 5), DataType.FLOAT32)
    data = np.random.default_rng(1).permutation(120).reshape(24, 5).astype(np.float32)
    for index, count in (
        (i // 4 + i // 3, 7),
        (i // 5, 3),
        ((i + 1) // 2, 7),
        ((11 - i) % 4, 3),
        (clamp(i - 3, 0, 6), 3),
        (minimum(i, 11 - i), 2),
        (select(i < 5, i * i, 24 - i), 6),
    ):
        found = moves({"y": move((i, j), x[[index, minimum(j, 3)]])})
        assert not isinstance(found, str)
        assert len(found) <= 2 * count
        written = np.full((12, 5), np.nan)
        moved(found, {"x": data}, {"y": written})
        rows = [value(index, {i.data: n}) for n in range(12)]
        np.testing.assert_array_equal(written, data[rows][:, [0, 1, 2, 3, 3]])
    (k,) = each((5000,), "k")
    assert moves({"y": move((k,), x[[k % 2, 0]])}) != "an index is not affine"
    assert moves({"y": move((k,), x[[(k + 1) % 2, 0]])}) == "elements are moved in more than 1024 boxes"


def test_what_lies_outside_is_a_constant_in_boxes() -> None:
    i, j = each((6, 7), "ij")
    x = Tensor("x", (3, 4), DataType.FLOAT32)
    data = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    for at, count in (
        ([i - 1, j - 2], 5),
        ([2 - i, 9 - 2 * j], 4),
        ([i + j - 4, j - i], 20),
        ([i - 9, j], 1),
        ([0, 0], 1),
        ([i, 4 + j], 2),
        ([i // 4, clamp(j, 1, 9)], 6),
    ):
        found = moves({"y": move((i, j), x.or_else(at, -0.5))})
        assert not isinstance(found, str)
        assert len(found) <= count
        written = np.full((6, 7), np.nan)
        moved(found, {"x": data}, {"y": written})
        for n, m in np.ndindex(6, 7):
            a, b = (value(lift(e), {i.data: n, j.data: m}) for e in at)
            assert written[n, m] == (data[a, b] if 0 <= a < 3 and 0 <= b < 4 else -0.5)


def test_what_is_no_move() -> None:
    i, j = each((3, 4), "ij")
    x = Tensor("x", (9, 9), DataType.FLOAT32)
    for body, reason in (
        (x[[i * j, 0]], "an index is not affine"),
        (x.or_else([i, j], x[[0, 0]]), "elements outside of the input are not a constant"),
        (x.skipped([i, j]), "an element is not one of an input"),
        (select(i < 1, lift(0), lift(1)), "an element is not one of an input"),
        (select(i < j, x[[i, j]], x[[j, i]]), "depends on more than one index"),
        (select(x[[0, 0]] < 1, x[[i, j]], x[[j, i]]), "or on data"),
    ):
        found = moves({"y": move((i, j), body)})
        assert isinstance(found, str)
        assert reason in found
    assert moves({"y": nest((i, j), x[[i, j]] + 1)}) == "elements are computed, not moved"


def test_sums_up_to_a_place_are_no_rows() -> None:
    for name in ("CUMULATIVE_SUMMATION", "CUMULATIVE_PRODUCT"):
        operator = named(name)
        for example in operator.spec.examples:
            assert rows(stated(operator(**example.fields))) == "the condition on a row's elements depends on the row's index"
    logarithm = named("ACTIVATION_LOG_SOFTMAX1")  # which skips the largest element, wherever it is
    assert not isinstance(rows(stated(logarithm(**logarithm.spec.examples[0].fields))), str)


def test_branches_that_are_never_taken_are_left_out() -> None:
    (i,) = each((3,), "i")
    x, y = (Tensor(name, (3,), DataType.FLOAT32) for name in "xy")
    assert moves({"z": move((i,), select(i < 3, x[[i]], y[[i]]))}) == [Move("x", "z", (0,), (3,), (0,), ((1,),))]
    assert moves({"z": move((i,), select(i < 0, x[[i]], y[[i]]))}) == [Move("y", "z", (0,), (3,), (0,), ((1,),))]
    assert moves({"z": move((i,), select(i <= 0, x[[i]], y[[2 - i]]))}) == [
        Move("x", "z", (0,), (1,), (0,), ((1,),)),
        Move("y", "z", (1,), (2,), (1,), ((-1,),)),
    ]


# --- products ---


def checked_of(name: str, index: int = 0) -> Any:
    operator = named(name)
    return dml.check(operator(**operator.spec.examples[index].fields))


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("name", ["MATRIX_MULTIPLY_INTEGER", "QUANTIZED_LINEAR_MATRIX_MULTIPLY"])
def test_roles_are_found_by_structure(name: str, index: int) -> None:
    checked = checked_of(name, index)
    found = product(problem_of(checked))
    assert not isinstance(found, str)
    names = {f"{role}_tensor": getattr(found, role) for role in ("a", "b", "output", "a_zero_point", "b_zero_point")}
    if found.scales is not None:
        names |= {f"{role}_scale_tensor": x for role, x in zip(("a", "b", "output"), found.scales, strict=True)}
        names["output_zero_point_tensor"] = found.output_zero_point
    assert {name: x.name for name, x in names.items() if x is not None} == {x: x for x in checked.tensors}
    assert (found.scales is None) == (name == "MATRIX_MULTIPLY_INTEGER")


def rewritten(change: Any) -> tuple[Statement, Any]:
    """The quantised example with another body, which `change` makes from (i, k, read); `read` takes a name and indices."""
    checked = checked_of("QUANTIZED_LINEAR_MATRIX_MULTIPLY", 1)
    tensors = {name: Tensor(name, t.sizes, t.data_type) for name, t in checked.tensors.items()}
    m, n = each(checked.desc.output_tensor.sizes)
    (k,) = over = each((checked.desc.a_tensor.sizes[-1],), "k")

    def read(name: str, at: Any) -> Expr:
        return tensors[f"{name}_tensor"].broadcast(at)

    return {"output_tensor": Nest((m, n), change(m, n, k, over, read))}, checked


def parts(m: Any, n: Any, k: Any, over: Any, read: Any) -> tuple[Expr, Expr, Expr, Expr, Expr]:
    total = Sum(over, read("a", [m, k]) * read("b", [k, n]))
    return (
        total, read("a_scale", [m, 0]), read("b_scale", [0, n]), read("output_scale", [m, 0]),
        read("output_zero_point", [m, 0]),
    )  # fmt: skip


def test_the_same_mathematics_in_another_order_is_the_same_product() -> None:
    forms = (
        lambda s, a, b, y, z: clamp(half_to_even(s * a * b / y) + z, -128, 127),
        lambda s, a, b, y, z: clamp(z + half_to_even(b / y * (s * a)), -128, 127),
        lambda s, a, b, y, z: clamp(half_to_even(a * b * s / y) + z, -128, 127),
    )
    found = []
    for form in forms:
        statement, checked = rewritten(lambda *given_parts, form=form: form(*parts(*given_parts)))
        found.append(product(problem_of(checked, statement)))
    assert not isinstance(found[0], str)
    # of two scales with one element, either may be A's
    assert {x.scale_names for x in found if not isinstance(x, str)} == {found[0].scale_names}
    assert len([x for x in found if not isinstance(x, str)]) == len(forms)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (lambda s, a, b, y, z: clamp(half_to_even(s * a * b / y) + z, -127, 127), NOT_REQUANTISED),
        (lambda s, a, b, y, z: clamp(half_to_even(s * a * b / y + z), -128, 127), NOT_REQUANTISED),
        (lambda s, a, b, y, z: clamp(half_to_even(s * a * b * y) + z, -128, 127), NOT_REQUANTISED),
        (lambda s, a, b, y, z: clamp(half_to_even(s * s * a * b / y) + z, -128, 127), NOT_REQUANTISED),
        (lambda s, a, b, y, z: half_to_even(s * a * b / y) + z, NOT_REQUANTISED),
        (lambda s, a, b, y, z: clamp(half_to_even((s + 1) * a * b / y) + z, -128, 127), NOT_REQUANTISED),
    ],
)
def test_other_mathematics_is_no_product(form: Any, reason: str) -> None:
    statement, checked = rewritten(lambda *given_parts: form(*parts(*given_parts)))
    assert product(problem_of(checked, statement)) == reason


def test_factors_that_do_not_lie_as_a_product_s_are_refused() -> None:
    def swapped(m: Any, n: Any, k: Any, over: Any, read: Any) -> Expr:
        total = Sum(over, read("a", [m, k]) * read("b", [k, k]))
        return clamp(half_to_even(total * read("a_scale", [m, 0]) * read("b_scale", [0, n]) / read("output_scale", [m, 0])),
                     -128, 127)  # fmt: skip

    statement, checked = rewritten(swapped)
    assert product(problem_of(checked, statement)) == NO_PRODUCT


def test_zero_points_of_rows_belong_to_products_of_two_dimensions() -> None:
    operator: Any = operators.find("MATRIX_MULTIPLY_INTEGER")
    tensors = {"a": (3, 4), "b": (4, 5), "a_zero_point": (3, 1)}
    given = {f"{name}_tensor": TensorDesc(DataType.UINT8, sizes) for name, sizes in tensors.items()}
    found = product(problem_of(check(operator(**given, output_tensor=TensorDesc(DataType.INT32, (3, 5))))))
    assert not isinstance(found, str)
    assert found.a_zero_point is not None


def test_a_sum_over_all_indices_has_no_conditions() -> None:
    over = each((3,))
    assert conjuncts(Sum(over, number(over[0]))) == []


def test_elements_of_a_byte_are_looked_up() -> None:
    operator: Any = operators.find("ONE_HOT")
    values, output = TensorDesc(DataType.UINT8, (1, 2)), TensorDesc(DataType.UINT8, (3, 4))
    desc = operator(indices_tensor=TensorDesc(DataType.UINT64, (3, 1)), values_tensor=values, output_tensor=output, axis=1)
    assert looked_up(stated(desc)) is None


def test_scales_that_no_data_rule_is_about_are_left_to_the_reference() -> None:
    """The kernel treats scales of 0 as invalid, which needs a data rule."""
    checked = checked_of("QUANTIZED_LINEAR_MATRIX_MULTIPLY")
    statement = stated(checked.desc)

    class Bare:
        spec = replace(checked.desc.spec, data_rules=())

    bare = replace(checked, desc=Bare())
    bare.__dict__.update(fields=checked.fields, tensors=checked.tensors)
    assert product(Problem(statement, checked.tensors)) == "no data rule says that scales are finite and not 0"


# --- which kernel takes what ---


def test_every_table_ends_with_the_reference_and_gives_each_family_by_its_name() -> None:
    from anydml.devices.families import DEVICES

    for families in DEVICES.values():
        assert list(families)[-1] == "reference"
        for name, imported in families.items():
            kind, _, made = name.partition(":")
            module = {"compiled": f"{kind}.family", "numpy": f"numpy.{kind}", "": kind}[made]
            assert imported().__module__ == f"anydml.kernels.{module}"


def test_families_say_why_they_refuse() -> None:
    from anydml.devices.families import DEVICES

    exp = named("ELEMENT_WISE_EXP")
    found = names_of(DEVICES["cpu"], example_desc(exp))
    reasons = {name: answer.reason for name, answer in found.items() if isinstance(answer, Refused)}
    assert reasons == {
        "copy:compiled": "elements are computed, not moved",
        "copy:numpy": "elements are computed, not moved",
        "contract:compiled": NO_PRODUCT,
        "contract:numpy": NO_PRODUCT,
        "contract.floats:compiled": "the elements are not formulas of one sum of products of two elements",
        "attention:compiled": "the elements are not values weighted by exponentials of scores",
        "reduce:compiled": "nothing is reduced",
        "windows:compiled": "the elements are not sums, means, lengths or largest elements of windows",
        "irregular:compiled": "elements are computed, not moved",
        "scan:compiled": "elements are not sums or products up to their index",
        "recurrence:compiled": "no tensor is computed step by step",
        "order:compiled": "lines are not sorted",
        "random:compiled": "it computes no random bits",
        "nests:compiled": "nests have no operation exp",
        "irregular:numpy": "elements are computed, not moved",
        "random:numpy": "it computes no random bits",
    }
    assert isinstance(found["reference"], Built)


def test_a_joined_and_a_split_tensor_are_compiled_copies() -> None:
    half, whole = TensorDesc("FLOAT32", (64, 1, 300, 4)), TensorDesc("FLOAT32", (64, 2, 300, 4))
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((64, 1, 300, 4), np.float32) for _ in range(2))
    join, split = named("JOIN"), named("SPLIT")
    for threads in (1, 2):
        compiled = dml.Device(threads=threads).compile(join(input_tensors=(half, half), output_tensor=whole, axis=1))
        assert compiled.kernel_name == "copy:compiled"
        out = np.empty(whole.sizes, np.float32)
        compiled.bind(input_tensors=[x, y], output_tensor=out).execute()
        np.testing.assert_array_equal(out, np.concatenate([x, y], 1))
        compiled = dml.Device(threads=threads).compile(split(input_tensor=whole, output_tensors=(half, half), axis=1))
        assert compiled.kernel_name == "copy:compiled"
        outs = [np.empty(half.sizes, np.float32) for _ in range(2)]
        compiled.bind(input_tensor=out, output_tensors=outs).execute()
        np.testing.assert_array_equal(outs[0], x)
        np.testing.assert_array_equal(outs[1], y)


@pytest.mark.parametrize("n", [5, 400])
def test_what_is_moved_in_place_stays(n: int) -> None:
    identity = named("ACTIVATION_IDENTITY")
    t = TensorDesc("FLOAT32", (n, n))
    compiled = dml.Device().compile(identity(input_tensor=t, output_tensor=t))
    assert compiled.kernel_name == ("copy:numpy" if n == 5 else "copy:compiled")
    x = np.random.default_rng(0).integers(0, 1 << 32, (n, n), np.uint32).view(np.float32)
    before = x.view(np.uint32).copy()
    compiled.bind(input_tensor=x, output_tensor=x).execute()
    np.testing.assert_array_equal(x.view(np.uint32), before)


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
@pytest.mark.parametrize("count", [1, 2, 5, 200])
def test_many_copies_are_shared_among_the_threads(count: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if unavailable() is not None:
        pytest.skip("nothing can be compiled here")
    tuned(monkeypatch, copy_tuning, small=0, alone=0)
    parts = [TensorDesc("UINT8", (3, 7 + 11 * (i % 9), 5)) for i in range(count)]
    whole = TensorDesc("UINT8", (3, sum(t.sizes[1] for t in parts), 5))
    desc = named("JOIN")(input_tensors=tuple(parts), output_tensor=whole, axis=1)
    checked = dml.check(desc)
    made = family.lower(problem_of(checked), Machine(None, threads))
    assert isinstance(made, Lowered)
    ((rounds,), (phase,)) = made.rounds, made.rounds[0].phases
    assert rounds.times == ()
    assert 1 <= len(phase) <= threads
    assert len(phase) > 1 or threads == 1 or count == 1
    most = max(len(piece) for piece in phase)
    assert most <= max(2, 3 * sum(map(len, phase)) / len(phase))
    arrays = [np.random.default_rng(i).integers(0, 256, t.sizes, np.uint8) for i, t in enumerate(parts)]
    out = np.zeros(whole.sizes, np.uint8)
    compiled = dml.Device(threads=threads).compile(checked)
    assert compiled.kernel_name == "copy:compiled"
    compiled.bind(input_tensors=arrays, output_tensor=out).execute()
    np.testing.assert_array_equal(out, np.concatenate(arrays, 1))
