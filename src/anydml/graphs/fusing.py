"""Fusing: a map and the operator whose result it reads become one statement, so that the tensor between is not written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from anydml.graphs.checked import CheckedGraph
from anydml.graphs.fusion import Producer, fused
from anydml.graphs.plan import OUTPUT, Passed, Reason, Use, Work, lie_alike
from anydml.schema.desc import Desc
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, make
from anydml.schema.statement import Nest, meaning, stated
from anydml.schema.traversal import loops_in, reads_in, rebuilt, walk
from anydml.tensor import DataType, TensorDesc, limits

MOST = 100  # nodes of a fused expression; longer ones need more registers than processors have
# operations that cost nothing in the epilogue of a sum of products; others are faster in a kernel of their own
BESIDE_SUMS = {
    *("constant", "variable", "read", "add", "sub", "mul", "neg", "abs", "max", "min"),
    *("select", "less", "less_equal", "equal", "both", "either"),
}


def fuse(checked: CheckedGraph, operators: Sequence[Work]) -> Passed:
    """The operators, with each map fused with the maps and sums that only this map reads.

    The map must read the other operator's elements at its own index and in the layout in which they are written. A tensor that
    is an output of the graph, or has several readers, is still written. A sum is fused only if it is a sum of products and the
    map consists of arithmetic.
    """
    kept = {bound.buffer for bound in checked.outputs}
    readers: dict[int, int] = {}
    for work in operators:
        for buffer in {use.buffer for use in work.reads.values()}:
            readers[buffer] = readers.get(buffer, 0) + 1
    before: dict[int, Work] = {}  # operators that may be fused with their reader, by the buffer that they write
    tensors: dict[str, Tensor] = {}
    found: dict[int, Work] = {}
    reasons: list[Reason] = []
    given = {work.node for work in operators if work.nest is not None}  # regions: they have kernels, and are not fused again
    for work in operators:
        found[work.node] = work
        if work.nest is not None or (consumer := _stated(checked, work, tensors)) is None:
            continue
        for buffer in sorted({use.buffer for use in work.reads.values()} & before.keys()):
            producer = before[buffer]
            both = _both(consumer, producer, buffer)
            if isinstance(both, str):
                reasons.append(Reason(work.node, both))
                continue
            del found[producer.node]
            found[work.node] = consumer = both
        (use,) = consumer.writes.values()
        if use.buffer not in kept and readers.get(use.buffer) == 1:
            before[use.buffer] = consumer
    calls = tuple(
        work if work.nest is None or work.node in given else by_order(narrowed(checked, work)) for work in found.values()
    )
    return Passed(calls, tuple(reasons))


def _stated(checked: CheckedGraph, work: Work, tensors: dict[str, Tensor]) -> Work | None:
    """An operator with its statement, on tensors named by buffer and layout; None if it cannot be fused."""
    operator = checked.nodes[work.node]
    assert operator is not None
    uses = [*work.reads.values(), *work.writes.values()]
    if operator.desc.spec.data_rules or len(work.writes) != 1 or any(use.tensor.data_type.element_bits < 8 for use in uses):
        return None
    names = {name: _name(use) for name, use in work.reads.items()}

    def named(field: str, t: Any) -> Tensor:
        return tensors.setdefault(names[field], Tensor(names[field], t.sizes, t.data_type))

    if not _takes_part(operator.desc):
        return None
    (nest,) = stated(operator.desc.as_newest(), named).values()
    (use,) = work.writes.values()
    return Work(work.nodes, {_name(u): u for u in work.reads.values()}, {OUTPUT: use}, nest)


@lru_cache(maxsize=256)
def _takes_part(desc: Desc) -> bool:
    """Whether the statement of an operator with one output is a map, or a sum of products to which a map can be added."""
    (nest,) = meaning(desc.as_newest()).values()
    if nest.moves or any(e.data[0].definition is not None for e in reads_in(nest.body)):
        return False
    return sums_products(nest) or not loops_in(nest.body)


def sums_products(nest: Nest) -> bool:
    return any(e.op == "reduce" and e.args[0].op == "mul" for e in loops_in(nest.body))


def _length(nest: Nest) -> int:
    return len(walk(nest.body))


def _both(consumer: Work, producer: Work, buffer: int) -> Work | str:
    """The producer and the consumer fused, or the reason why the result would differ or cost more."""
    (written,) = producer.writes.values()
    between = [name for name, use in consumer.reads.items() if use.buffer == buffer]
    assert consumer.nest is not None
    assert producer.nest is not None
    if len(between) != 1 or not lie_alike(consumer.reads[between[0]], written):
        return "a tensor is read in another layout than it is written with"
    at_index = consumer.nest.index
    if any(e.data[0].name == between[0] and e.args != at_index for e in reads_in(consumer.nest.body)):
        return "elements are read at other indices than the output's"
    if loops_in(producer.nest.body):
        if not written.tensor.data_type.is_float:
            return "sums of integers are stored before maps read them"
        if not _goes_on(consumer.nest, producer.nest):
            return "the map behind a sum of products is not arithmetic alone"
    nest = fused(consumer.nest, {between[0]: Producer(producer.nest, written.tensor.data_type)})
    if isinstance(nest, str):
        return nest
    if _length(nest) > MOST:
        return f"the expression would have {_length(nest)} nodes, more than {MOST}"
    reads = {name: use for name, use in consumer.reads.items() if name != between[0]}
    nodes = (*sorted((*producer.nodes, *consumer.nodes[:-1])), consumer.node)
    return Work(nodes, {**producer.reads, **reads}, consumer.writes, nest)


def _goes_on(consumer: Nest, producer: Nest) -> bool:
    """Whether the producer is a sum of products, and the consumer's operations cost nothing in its epilogue."""
    return sums_products(producer) and all(e.op in BESIDE_SUMS for e in walk(consumer.body))


def read_at_index(work: Work) -> list[str]:
    """The tensors that a fused statement reads only at the index of the output's element."""
    assert work.nest is not None
    elsewhere = {e.data[0].name for e in reads_in(work.nest.body) if e.args != work.nest.index}
    return [name for name in work.reads if name not in elsewhere]


def narrowed(checked: CheckedGraph, work: Work) -> Work:
    """A fused map whose INT32 constants of one small element, such as zero points of 16 bits, are read as 16 bits.

    Then float32 holds their differences from integers of 16 bits, and their products with scales need no float64.
    """
    assert work.nest is not None
    if work.nest.moves or loops_in(work.nest.body) or sys.byteorder != "little":
        return work
    reads = {name: _narrow(checked, use) for name, use in work.reads.items()}
    return work if reads == work.reads else replace(work, reads=reads)


def _narrow(checked: CheckedGraph, use: Use) -> Use:
    t, constant = use.tensor, checked.constant(use.buffer)
    if t.data_type is not DataType.INT32 or constant is None or t.span > 1:
        return use
    (value,) = np.frombuffer(constant.data, np.int32, 1, use.offset).tolist()
    for data_type in (DataType.UINT16, DataType.INT16):
        low, high = limits(data_type)
        if low <= value <= high:
            return use._replace(tensor=TensorDesc(data_type, t.sizes, strides=t.explicit_strides).spelled_out())
    return use


def by_order(work: Work) -> Work:
    """A fused statement with its tensors named by their order, so that equal statements are found equal."""
    assert work.nest is not None
    names = {name: f"t{k}" for k, name in enumerate(work.reads)}
    tensors: dict[str, Tensor] = {}

    def renamed(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if e.op != "read":
            return None
        t, outside = e.data
        name, data_type = names[t.name], work.reads[t.name].tensor.data_type
        return make("read", args, (tensors.setdefault(name, Tensor(name, t.sizes, data_type)), outside))

    nest = Nest(work.nest.index, rebuilt(work.nest.body, renamed), work.nest.moves)
    return Work(work.nodes, {names[name]: use for name, use in work.reads.items()}, work.writes, nest)


def _name(use: Use) -> str:
    t = use.tensor
    return f"buffer {use.buffer} from {use.offset} as {t.data_type} {t.sizes} {t.explicit_strides}"
