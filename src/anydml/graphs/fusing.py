"""Fusing: works that compute maps of one another's results become one, without the tensor between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anydml.graphs.checked import CheckedGraph
from anydml.graphs.fusion import Producer, fused
from anydml.graphs.plan import Use, Work
from anydml.schema.expression import Tensor, walk
from anydml.schema.statement import Nest, stated

OUTPUT = "output"
MOST = 100  # nodes of an expression: a longer one keeps more numbers than there are registers


def fuse(checked: CheckedGraph, works: Sequence[Work]) -> tuple[Work, ...]:
    """The works with maps fused into the maps that alone read them, element by element, as they lie.

    A tensor stays where the graph has it as an output, where several works read it, or one at other places.
    """
    kept = {bound.buffer for bound in checked.outputs}
    readers: dict[int, int] = {}
    for work in works:
        for buffer in {use.buffer for use in work.reads.values()}:
            readers[buffer] = readers.get(buffer, 0) + 1
    maps: dict[int, Work] = {}  # by the buffer that it writes, those that may be fused into their reader
    tensors: dict[str, Tensor] = {}
    found: dict[int, Work] = {}
    for work in works:
        found[work.node] = work
        if (consumer := _as_map(checked, work, tensors)) is None:
            continue
        for buffer in sorted({use.buffer for use in work.reads.values()} & maps.keys()):
            producer = maps[buffer]
            if (both := _both(consumer, producer, buffer)) is not None:
                del found[producer.node]
                found[work.node] = consumer = both
        (use,) = consumer.writes.values()
        if use.buffer not in kept and readers.get(use.buffer) == 1:
            maps[use.buffer] = consumer
    return tuple(found.values())


def _as_map(checked: CheckedGraph, work: Work, tensors: dict[str, Tensor]) -> Work | None:
    """A work with its statement, on tensors that are named by buffer and layout; None where it is no map of numbers."""
    operator = checked.nodes[work.node]
    assert operator is not None
    uses = [*work.reads.values(), *work.writes.values()]
    if operator.desc.spec.data_rules or len(work.writes) != 1 or any(use.tensor.data_type.element_bits < 8 for use in uses):
        return None
    names = {name: _name(use) for name, use in work.reads.items()}

    def named(field: str, t: Any) -> Tensor:
        return tensors.setdefault(names[field], Tensor(names[field], t.sizes, t.data_type))

    (nest,) = stated(operator.desc.as_newest(), named).values()
    if nest.moves or _length(nest) > MOST or not all(e.op != "read" or _is_plain(e) for e in walk(nest.body)):
        return None
    (use,) = work.writes.values()
    return Work(work.nodes, {_name(u): u for u in work.reads.values()}, {OUTPUT: use}, nest)


def _length(nest: Nest) -> int:
    return sum(1 for _ in walk(nest.body))


def _is_plain(read: Any) -> bool:
    return read.data[0].definition is None and read.data[1] == "inside"


def _both(consumer: Work, producer: Work, buffer: int) -> Work | None:
    """The producer's work and the consumer's as one; None where that would not be the same, or be more work."""
    (written,) = producer.writes.values()
    between = [name for name, use in consumer.reads.items() if use.buffer == buffer]
    assert consumer.nest is not None
    assert producer.nest is not None
    if len(between) != 1 or not _lie_alike(consumer.reads[between[0]], written):
        return None
    at_index = consumer.nest.index
    if any(e.op == "read" and e.data[0].name == between[0] and e.args != at_index for e in walk(consumer.nest.body)):
        return None
    nest = fused(consumer.nest, {between[0]: Producer(producer.nest, written.tensor.data_type)})
    if not isinstance(nest, Nest) or _length(nest) > MOST:
        return None
    reads = {name: use for name, use in consumer.reads.items() if name != between[0]}
    nodes = (*sorted((*producer.nodes, *consumer.nodes[:-1])), consumer.node)
    return Work(nodes, {**producer.reads, **reads}, consumer.writes, nest)


def _lie_alike(a: Use, b: Use) -> bool:
    """Whether two tensors of a buffer have the same elements at the same places."""
    s, t = a.tensor, b.tensor
    if (s.data_type, s.sizes) != (t.data_type, t.sizes):
        return False
    return all(x == y for n, x, y in zip(s.sizes, s.explicit_strides, t.explicit_strides, strict=True) if n > 1)


def _name(use: Use) -> str:
    t = use.tensor
    return f"buffer {use.buffer} as {t.data_type} {t.sizes} {t.explicit_strides}"
