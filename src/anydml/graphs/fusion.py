"""Fusion of two statements: the tensor between them is not written, but the fused statement rounds its elements as before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anydml.schema.expression import held
from anydml.schema.node import Expr
from anydml.schema.statement import Nest
from anydml.schema.traversal import loops_in, reads_in, rebuilt, with_nodes
from anydml.tensor import DataType


class Producer(NamedTuple):
    """The statement of a tensor that another one reads, and the tensor's type."""

    nest: Nest
    data_type: DataType


def fused(consumer: Nest, producers: Mapping[str, Producer]) -> Nest | str:
    """The consumer with each read of a producer's tensor replaced by the producer's expression, rounded to the tensor's type.

    producers: by the name of the tensor that the consumer reads. A producer that reduces is fused only if the consumer is a
    map that reads each of its elements exactly once; the map is then the epilogue of the producer's kernel. If the result
    would not have the same bits, or would compute an element more than once, the reason is returned.
    """
    reduced, instead = "", dict[Expr, Producer]()
    for e in reads_in(consumer.body):
        name = e.data[0].name if e.data[0].definition is None else ""
        producer = producers.get(name)
        if producer is None:
            continue
        if e.data[1] != "inside":
            return f"{name} is also read outside of its sizes"
        if loops_in(producer.nest.body):
            if reduced or not _each_once(e.args, consumer):
                return f"{name} is not a map, and some of its elements are read more than once, or not at all"
            reduced = name
        if consumer.moves and not producer.nest.moves:
            return f"the bits of {name} are moved, and it is computed"
        instead[e] = producer
    if loops_in(consumer.body):
        return "an element that is read more than once would be computed more than once"
    body = rebuilt(consumer.body, lambda e, at: _element(instead[e], at) if e in instead else None)
    return Nest(consumer.index, body, consumer.moves)


def _each_once(index: Sequence[Expr], consumer: Nest) -> bool:
    """Whether different elements of the consumer read different elements of the tensor that they read at this index."""
    alone = {i for i in index if i.op == "variable"}
    return all(i in alone or i.data.size == 1 for i in consumer.index)


def _element(producer: Producer, index: tuple[Expr, ...]) -> Expr:
    """The number that the producer's tensor holds at an index."""
    nest = producer.nest
    body = with_nodes(nest.body, dict(zip(nest.index, index, strict=True)))
    return body if nest.moves else held(body, producer.data_type)
