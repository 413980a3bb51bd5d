"""Normal forms, scopes and affine indices, each beside its meaning."""

from __future__ import annotations

import random
from itertools import product

import pytest

from anydml.kernels.match.affine import Affine, affine_in, below_zero
from anydml.kernels.match.nests import nests
from anydml.kernels.match.normal_form import LOOPS, Node, Nodes, NormalForm, bound, normal_form, used
from anydml.kernels.match.pieces import values_of
from anydml.kernels.match.scopes import Scopes
from anydml.kernels.match.unmatched import Unmatched
from anydml.schema.expression import Sum, Tensor, absolute, each, exp, over
from anydml.schema.node import Expr, Variable, make
from anydml.schema.statement import nest
from anydml.schema.traversal import loops_in, reads_in, rebuilt, walk, with_nodes
from anydml.tensor import DataType
from every_kernel import Ran

F32 = DataType.FLOAT32
X = Tensor("x", (4, 5, 300), F32)


def test_equal_nodes_are_added_once_and_the_last_one_is_stored() -> None:
    nodes = Nodes()
    x, again = nodes.stream("x", F32), nodes.stream("x", F32)
    y = nodes.stream("y", F32)
    total = nodes.add("add", (x, y))
    assert (x, again, y, nodes.add("add", (x, y))) == (0, 0, 1, total)
    assert list(nodes.streams) == ["x", "y"]
    form = nodes.ended(total)
    assert form[-1] == Node("add", (0, 1), None)
    assert form is normal_form([*form])
    assert nodes.ended(y)[-1] == Node("same", (1,), None)


def test_users_and_unused_nodes() -> None:
    form = normal_form([Node("a", (), 0), Node("b", (), 1), Node("mul", (0, 0), None), Node("neg", (2,), None)])
    assert form.users == ((2,), (), (3,), ())
    assert used(form) == (Node("a", (), 0), Node("mul", (0, 0), None), Node("neg", (1,), None))
    assert form.varying(lambda node: node.op == "a") == (True, False, True, True)


def test_a_rule_replaces_nodes_and_may_add_some() -> None:
    def doubled(nodes: list[Node], node: Node) -> Node | None:
        if node.op != "twice":
            return None
        nodes.append(Node("add", node.args * 2, None))
        return Node("same", (len(nodes) - 1,), None)

    form = normal_form([Node("x", (), None), Node("twice", (0,), None), Node("neg", (1,), None)])
    assert form.rewritten(doubled) == (
        Node("x", (), None), Node("add", (0, 0), None), Node("same", (1,), None), Node("neg", (2,), None),
    )  # fmt: skip
    assert form.rewritten(lambda _nodes, _node: None) == form


def test_a_loop_binds_its_variables_and_roots_depend_on_the_output_s_alone() -> None:
    i = each((4, 5))
    k = over((*i, each((300,))[0]), (4, 5, 300), (2,))
    found = nests(nest(i, absolute(Sum(k, X[k] * X[k])) + Sum(k, X[k])), F32)
    assert not isinstance(found, str)
    form = found.program.nodes
    assert isinstance(form, NormalForm)
    loops = [p for p, node in enumerate(form) if node.op in LOOPS]
    assert len(loops) == 2
    for p in loops:
        (v,) = bound(form[p].op, form[p].data)
        assert v not in form.free[p]
        assert v in form.free[form[p].args[0]]
    assert all(form.free[root] == {0, 1} for root in found.program.roots)


def test_values_end_with_their_scope() -> None:
    scopes = Scopes({"a": 1})
    with scopes.inner({"b": 2}):
        scopes["c"] = 3
        with scopes.inner():
            scopes["a"] = 4
            assert (scopes["a"], scopes["b"], scopes["c"]) == (4, 2, 3)
        assert scopes["a"] == 1
    assert [*scopes] == ["a"]
    assert "c" not in scopes
    assert scopes.get("b") is None
    with pytest.raises(KeyError):
        scopes["b"]


def test_an_expression_that_does_not_change_is_itself() -> None:
    i = each((4, 5))
    k = over((*i, each((300,))[0]), (4, 5, 300), (2,))
    e = exp(Sum(k, X[k])) + X[i[0], i[1], 0]
    assert rebuilt(e, lambda _node, _args: None) is e
    assert loops_in(e) == tuple(node for node in walk(e) if node.op == "reduce")
    assert reads_in(e) == tuple(node for node in walk(e) if node.op == "read")
    (total,) = loops_in(e)
    assert with_nodes(e, {total: X[i[0], i[1], 1]}) is exp(X[i[0], i[1], 1]) + X[i[0], i[1], 0]


def _index(rng: random.Random, variables: list[Expr], depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(variables)
    x = _index(rng, variables, depth - 1)
    op = rng.choice(("add", "sub", "mul", "floordiv", "mod", "neg"))
    if op == "neg":
        return -x
    if op == "mul":
        return x * rng.randint(-3, 4)
    if op in ("floordiv", "mod"):
        by = rng.choice((1, 2, 3, 4, 6))
        return x // by if op == "floordiv" else x % by
    y = _index(rng, variables, depth - 1) + rng.randint(-2, 9)
    return x + y if op == "add" else x - y


def test_affine_indices_have_the_values_of_the_index(ran: Ran) -> None:
    rng, count, affine = random.Random(28), 300, 0
    for _ in range(count):
        variables = [Variable("a", 4), Variable("b", 3)]
        nodes = [make("variable", (), v) for v in variables]
        e = _index(rng, [*nodes, nodes[0] * 3 + nodes[1]], 3)
        every = [dict(zip(variables, at, strict=True)) for at in product(range(4), range(3))]
        expected = [values_of(e, at) for at in every]
        condition = e < 5
        try:
            found = affine_in(e, lambda _: None)
        except Unmatched:
            continue
        affine += 1
        values = [found.constant + sum(f * at[v] for v, f in found.factors.items()) for at in every]
        assert values == expected
        assert (min(values), max(values)) == found.ends()
        assert [values_of(found.expression(), at) for at in every] == expected
        if (less := below_zero(condition)) is not None:
            holds = [less.constant + sum(f * at[v] for v, f in less.factors.items()) < 0 for at in every]
            assert holds == [value < 5 for value in values]
        assert found.plus(found, -1) == Affine(0, {})
    assert affine > count // 3
    ran(count, count)
