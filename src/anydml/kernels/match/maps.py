"""Statements that map elements: every element of an output is computed from one element of each of some inputs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from anydml.kernels.match.affine import Affine, affine
from anydml.kernels.match.blocks import Cut, blocks, in_blocks
from anydml.kernels.match.normal_form import Node, Nodes, NormalForm
from anydml.kernels.match.structure import reads_input
from anydml.kernels.match.unmatched import Unmatched, pattern
from anydml.schema.expression import Tensor
from anydml.schema.identities import rewritten
from anydml.schema.node import INDEX, Constant, Expr, Variable, is_integer, make
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import integral, loops_in, walk
from anydml.tensor import DataType

OF_MORE = "an element depends on more than one element of an input"


class Stream(NamedTuple):
    """The elements that are read, one for each element of the output: a tensor's, or positions if `name` is None.

    start: the index of the first one in each dimension of the tensor; for positions, only the first position. steps: for each
    dimension of the output, the step of each of these indices.
    """

    name: str | None
    data_type: DataType
    start: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]


class Map(NamedTuple):
    """target[i] = formula(one element of each stream), where i runs over `sizes`.

    A dimension of the output whose index is divided becomes two. moves: bits are stored, not numbers. integral: an integer
    tensor stores the result modulo 2^bits; otherwise the result is truncated and saturates.
    """

    target: Stream
    sizes: tuple[int, ...]
    streams: tuple[Stream, ...]
    formula: NormalForm
    moves: bool
    integral: bool


@pattern
def maps(statement: Statement) -> list[Map]:
    """The maps that compute a statement, one for each output, or why it is not of this kind."""
    return [_map(name, nest) for name, nest in statement.items()]


def _map(name: str, nest: Nest) -> Map:
    nodes = Nodes()
    places: dict[Expr, int] = {}
    body = nest.body if nest.moves else rewritten(nest.body)
    if loops_in(body):
        raise Unmatched(OF_MORE)
    variables, cut = blocks(nest.variables, body)

    def position(index: Expr) -> int:
        if index.op == "select":
            return nodes.add("select", (places[index.args[0]], *(position(a) for a in index.args[1:])))
        if is_integer(index):
            return nodes.add("constant", (), index.data)
        at = _indices((index,), variables, cut)
        if abs(at[0].constant) + sum(abs(factor) * v.size for v, factor in at[0].factors.items()) < 1 << 62:
            return nodes.stream(_stream(None, DataType.INT64, at, variables), DataType.INT64)
        if index.op not in ("add", "sub", "mul", "neg"):
            raise Unmatched("positions exceed 64 bits")
        return nodes.add(index.op, tuple(position(a) for a in index.args))  # a number, which may wrap when it is stored

    for e in walk(body):
        if e.sort == INDEX:
            continue
        if e.op == "read":
            if not reads_input(e, "inside"):
                raise Unmatched("an element is not one of an input")
            at = _indices(e.args, variables, cut)
            # an element that is not selected is read too
            if any(low < 0 or high >= size for (low, high), size in zip(map(Affine.ends, at), e.data[0].sizes, strict=True)):
                raise Unmatched("an element that is not selected is outside of its input")
            read = _stream(e.data[0].name, e.data[0].data_type, at, variables)
            place = nodes.stream(read, read.data_type)
        elif e.op == "position":
            place = position(e.args[0])
        elif e.op in ("philox", "reduce"):  # also a reduction without variables
            raise Unmatched(OF_MORE)
        else:
            args = tuple(position(a) if a.sort == INDEX else places[a] for a in e.args)
            place = nodes.add(*_folded(nodes.made, Node(e.op, args, e.data)))
        places[e] = place
    target = _stream(name, DataType.UNKNOWN, _indices(nest.index, variables, cut), variables)
    sizes = tuple(v.size for v in variables)
    return Map(target, sizes, tuple(nodes.streams), nodes.ended(places[body]), nest.moves, integral(nest.body))


def _folded(nodes: Sequence[Node], node: Node) -> Node:
    """A sum, difference, product or negation of integer constants as a constant; other nodes unchanged."""
    constants = [nodes[a].data for a in node.args if nodes[a].op == "constant"]
    if node.op not in _FOLDED or len(constants) < len(node.args) or not all(c.integral for c in constants):
        return node
    return Node("constant", (), Constant(_FOLDED[node.op](*(c.value for c in constants)), True))


_FOLDED: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
}


def _indices(indices: Sequence[Expr], variables: Sequence[Variable], cut: Cut | None) -> list[Affine]:
    at = [found for index in indices if (found := affine(index if cut is None else in_blocks(index, cut))) is not None]
    if len(at) < len(indices):
        raise Unmatched("an index is not affine")
    if not all(index.factors.keys() <= set(variables) for index in at):
        raise Unmatched(OF_MORE)
    return at


def _stream(name: str | None, data_type: DataType, at: Sequence[Affine], variables: Sequence[Variable]) -> Stream:
    steps = tuple([tuple([index.factors.get(v, 0) for index in at]) for v in variables])
    return Stream(name, data_type, tuple([index.constant for index in at]), steps)


def over_streams(formula: Sequence[Node], sizes: Sequence[int], i: Sequence[Expr]) -> tuple[Expr, list[Tensor]]:
    """The formula as an expression at the index i. Tensors "0", "1", .. hold the elements of the streams."""
    streams: dict[int, Tensor] = {}
    made: list[Expr] = []
    for op, args, data in formula:
        if op == "stream":
            tensor = streams.setdefault(data[0], Tensor(str(data[0]), sizes, data[1]))
            made.append(tensor[i])
        elif op == "same":
            made.append(made[args[0]])
        else:
            made.append(make(op, tuple(made[a] for a in args), data))
    return made[-1], list(streams.values())
