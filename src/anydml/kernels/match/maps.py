"""Statements that map elements: every element of an output is computed from one element of each of some inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from anydml.kernels.match.affine import affine
from anydml.schema.expression import INDEX, Expr, Tensor, Variable, integral, make, walk
from anydml.schema.identities import rewritten
from anydml.schema.statement import Nest, Statement
from anydml.tensor import DataType

OF_MORE = "an element depends on more than one element of an input"


class Stream(NamedTuple):
    """Elements that are read, one for each element of the output: those of a tensor, or positions where `name` is None.

    start: the index of the first one in each dimension of the tensor (of positions, the first number alone). steps: for each
    dimension of the output, how far each of these moves.
    """

    name: str | None
    data_type: DataType
    start: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]


class Node(NamedTuple):
    """An operation of a formula: the places of its arguments, which come before it, and its data.

    A "stream" has its number and data type as data.
    """

    op: str
    args: tuple[int, ...]
    data: Any


class Formula(tuple[Node, ...]):
    """Nodes, of which the last one is what is stored. Made by `formula`, so that equal ones are one object, hashed once."""

    _hash: int

    def __hash__(self) -> int:
        return self._hash


@lru_cache(maxsize=1024)
def formula(nodes: tuple[Node, ...]) -> Formula:
    """The formula of these nodes."""
    made = Formula(nodes)
    made._hash = hash(nodes)
    return made


class Map(NamedTuple):
    """output[i] = formula(one element of each stream).

    moves: bits are stored, not numbers. integral: an integer tensor stores it modulo 2^bits; else it is cut and saturates.
    """

    output: str
    sizes: tuple[int, ...]
    streams: tuple[Stream, ...]
    formula: Formula
    moves: bool
    integral: bool


class _Unmatched(Exception):
    """The message is the reason."""


def maps(statement: Statement) -> list[Map] | str:
    """The maps that a statement comes to, one for each output, or why it is none of this kind."""
    try:
        return [_map(name, nest) for name, nest in statement.items()]
    except _Unmatched as error:
        return str(error)


def _map(name: str, nest: Nest) -> Map:
    streams: dict[Stream, int] = {}
    nodes: list[Node] = []
    places: dict[Expr, int] = {}
    known: dict[Node, int] = {}

    def add(node: Node) -> int:
        if node not in known:
            known[node] = len(nodes)
            nodes.append(node)
        return known[node]

    body = nest.body if nest.moves else rewritten(nest.body)
    for e in walk(body):
        if e.sort == INDEX:
            continue
        if e.op in ("read", "position"):
            stream = _stream(e, nest.variables)
            place = add(Node("stream", (), (streams.setdefault(stream, len(streams)), stream.data_type)))
        elif e.op in ("reduce", "philox", "rank", "first_largest", "first_smallest"):
            raise _Unmatched(OF_MORE)
        elif any(a.sort == INDEX for a in e.args):
            raise _Unmatched("what is computed depends on the index")
        else:
            place = add(Node(e.op, tuple(places[a] for a in e.args), e.data))
        places[e] = place
    if places[body] != len(nodes) - 1:
        nodes.append(Node("same", (places[body],), None))
    return Map(name, nest.sizes, tuple(streams), formula(tuple(nodes)), nest.moves, integral(nest.body))


def _stream(e: Expr, variables: Sequence[Variable]) -> Stream:
    if e.op == "read" and (e.data[1] != "inside" or e.data[0].definition is not None):
        raise _Unmatched("an element is not one of an input")
    at = [index for index in map(affine, e.args) if index is not None]
    if len(at) < len(e.args):
        raise _Unmatched("an index is not affine")
    if not all(index.factors.keys() <= set(variables) for index in at):
        raise _Unmatched(OF_MORE)
    name, data_type = (e.data[0].name, e.data[0].data_type) if e.op == "read" else (None, DataType.INT64)
    steps = tuple(tuple(index.factors.get(v, 0) for index in at) for v in variables)
    return Stream(name, data_type, tuple(index.constant for index in at), steps)


def over_streams(formula: Formula, sizes: Sequence[int], i: Sequence[Expr]) -> tuple[Expr, list[Tensor]]:
    """The formula as an expression again, of tensors "0", "1", .. with the elements of each stream, at the index i."""
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
