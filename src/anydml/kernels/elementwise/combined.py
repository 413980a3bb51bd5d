"""Formulas with single functions for common combinations of operations, so that no part is rounded or overflows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import permutations

from anydml.kernels.match.normal_form import Node, NormalForm
from anydml.kernels.numbers.singles import SINGLES
from anydml.schema.node import Constant
from anydml.tensor import limits

FEW_BITS = 16
_HALF = Node("constant", (), Constant(Fraction(1, 2), False))


@lru_cache(maxsize=1024)
def combined(formula: NormalForm) -> NormalForm:
    """1 / (1 + exp(-x)) as "sigmoid", log1p(exp(x)) as "softplus", a exp(x) - a as a expm1(x) + 0, x times 1 as x.

    Also, x erfc(-x / sqrt(2)) / 2 of a float32 x, with its limit, becomes "gelu". A number that is clamped after the addition
    of a small integer is clamped before it, too. Unused nodes are removed.
    """
    return formula.rewritten(_itself, _sigmoid, _softplus, _expm1, _gelu, _clamped)


def _is_one(node: Node) -> bool:
    return node.op == "constant" and node.data.value == 1


def _itself(nodes: list[Node], node: Node) -> Node | None:
    """x for x times 1 and for x divided by 1."""
    if node.op == "mul" and _is_one(nodes[node.args[0]]):
        return Node("same", node.args[1:], None)
    if node.op in ("mul", "div") and _is_one(nodes[node.args[1]]):
        return Node("same", node.args[:1], None)
    return None


def _sigmoid(nodes: list[Node], node: Node) -> Node | None:
    if node.op != "div" or not _is_one(nodes[node.args[0]]):
        return None
    total = nodes[node.args[1]]
    if total.op != "add":
        return None
    for one, power in (total.args, total.args[::-1]):
        if _is_one(nodes[one]) and nodes[power].op == "exp":
            inner = nodes[power].args[0]
            if nodes[inner].op == "neg":
                return Node("sigmoid", nodes[inner].args, None)
    return None


def _softplus(nodes: list[Node], node: Node) -> Node | None:
    if node.op == "log1p" and nodes[node.args[0]].op == "exp":
        return Node("softplus", nodes[node.args[0]].args, None)
    return None


def _expm1(nodes: list[Node], node: Node) -> Node | None:
    if node.op != "sub" or nodes[node.args[0]].op != "mul" or nodes[node.args[1]].op != "constant":
        return None
    if not isinstance(nodes[node.args[1]].data.value, Fraction):  # infinity minus infinity is NaN
        return None
    factors = nodes[node.args[0]].args
    for a, power in (factors, factors[::-1]):
        if nodes[a] == nodes[node.args[1]] and nodes[power].op == "exp":
            nodes.append(Node("expm1", nodes[power].args, None))
            nodes.append(Node("mul", (a, len(nodes) - 1), None))
            nodes.append(Node("constant", (), Constant(Fraction(0), True)))  # the difference of equal numbers is +0
            return Node("add", (len(nodes) - 2, len(nodes) - 1), None)
    return None


def _gelu(nodes: list[Node], node: Node) -> Node | None:
    """ "gelu" inside of its "limits" node, which gives the value at -infinity, where the product itself is NaN."""
    if node.op != "limits" or "low" not in dict(node.data):
        return None
    x, product = node.args
    if not _is_single(nodes[x]):
        return None

    def made(place: int, op: str) -> Sequence[int]:
        return nodes[place].args if nodes[place].op == op else ()

    for half, share in permutations(made(product, "mul"), 2):
        for negated in made(share, "erfc"):
            for quotient in made(negated, "neg"):
                roots = [made(a, "sqrt") for a in made(quotient, "div")[1:] if made(quotient, "div")[0] == x]
                of_two = any(nodes[r].op == "constant" and nodes[r].data.value == 2 for root in roots for r in root)
                if of_two and any(a == x and nodes[b] == _HALF for a, b in permutations(made(half, "mul"), 2)):
                    nodes.append(Node("gelu", (x,), None))
                    return node._replace(args=(x, len(nodes) - 1))
    return None


def _clamped(nodes: list[Node], node: Node) -> Node | None:
    """min(max(x + z, a), b), where x is a float32 rounded to an integer, and z is an integer of few bits.

    x is clamped to a - max z and b - min z first, beyond which the result is a or b anyway. Then the sum is a float32 as well.
    """
    for high, most, inner in _constant_beside(nodes, node, "min"):
        for low, least, total in _constant_beside(nodes, nodes[inner], "max"):
            for x, z in permutations(nodes[total].args) if nodes[total].op == "add" else ():
                ends = _few_bits(nodes[z])
                if ends is None or nodes[x].op != "half_to_even" or not _is_single(nodes[nodes[x].args[0]]):
                    continue
                for op, bound in (("max", least - ends[1]), ("min", most - ends[0])):
                    nodes.append(Node("constant", (), Constant(Fraction(bound), True)))
                    nodes.append(Node(op, (x, len(nodes) - 1), None))
                    x = len(nodes) - 1
                nodes.append(Node("add", (x, z), None))
                nodes.append(Node("max", (low, len(nodes) - 1), None))
                return node._replace(args=(high, len(nodes) - 1))
    return None


def _constant_beside(nodes: list[Node], node: Node, op: str) -> Iterator[tuple[int, int, int]]:
    """A constant argument of an operation, its value, and the other argument."""
    for a, b in permutations(node.args) if node.op == op else ():
        if (value := _integer(nodes[a])) is not None:
            yield a, value, b


def _integer(node: Node) -> int | None:
    """The value of a node that is an integer constant of few bits, else None."""
    if node.op != "constant" or not isinstance(node.data.value, Fraction) or node.data.value.denominator != 1:
        return None
    return int(node.data.value) if abs(node.data.value) < 1 << FEW_BITS else None


def _few_bits(node: Node) -> tuple[int, int] | None:
    """The least and the greatest value of a node that is an integer of few bits, else None."""
    if node.op == "stream" and node.data[1].is_integer and node.data[1].element_bits <= FEW_BITS:
        return limits(node.data[1])
    value = _integer(node)
    return None if value is None else (value, value)


def _is_single(node: Node) -> bool:
    """Whether a node's numbers fit float32: it rounds to a type of `singles`, or reads elements of one."""
    return (node.op == "round" and node.data in SINGLES) or (node.op == "stream" and node.data[1] in SINGLES)
