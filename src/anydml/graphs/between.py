"""Regions between tensors of 8 or 16 bits: operators that compute one from others and constants, through floats, are fused.

In the fused statement, each float tensor is replaced by its expression, rounded to the tensor's type, so that the result has
the same bits as that of the operators. The patterns of kernels decide which of these statements they take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from anydml.graphs.checked import CheckedGraph
from anydml.graphs.plan import OUTPUT, Passed, Reason, Use, Work, lie_alike
from anydml.graphs.show import called
from anydml.schema.expression import Tensor, each, held, select
from anydml.schema.node import INDEX, Expr, lift, make
from anydml.schema.statement import Nest, meaning
from anydml.schema.traversal import loops_in, reads_in, walk
from anydml.schema.types import EIGHT_BIT, SIXTEEN_BIT
from anydml.schema.windows import inside
from anydml.tensor import DataType, TensorDesc, packed_strides

_ReadAs = Callable[[Expr, Use, tuple[Expr, ...]], Expr]


class NotBetween(Exception):
    """Raised if no region ends with an operator. The message is the reason; empty if the operator reads no floats."""


def between_bytes(checked: CheckedGraph, operators: Sequence[Work]) -> Passed:
    """All regions as fused statements, and the reasons why other operators with such an output are not the last of a region.

    A tensor between two operators of a region has no other reader and is not an output of the graph. Dequantised tensors, and
    other maps of bytes and constants alone, may have other readers, and may be replaced inside a reduction.
    """
    graph, found, reasons = Graph(checked, operators), list[Work](), list[Reason]()
    for work in operators:
        uses = [*work.writes.values()]
        if len(uses) != 1 or uses[0].tensor.data_type not in (*EIGHT_BIT, *SIXTEEN_BIT):
            continue
        try:
            found.append(Region(graph, work).work())
        except NotBetween as error:
            if str(error):
                reasons.append(Reason(work.node, str(error)))
    return Passed(tuple(found), tuple(reasons))


def with_regions(checked: CheckedGraph, operators: Sequence[Work], taken: Sequence[Work]) -> tuple[Work, ...]:
    """The calls, with regions in place of the operators that they fuse, and without dequantisations that are no longer read."""
    inside_ = {node for region in taken for node in region.nodes}
    ends = {region.node: region for region in taken}
    rest = [ends.get(work.node, work) for work in operators if work.node in ends or work.node not in inside_]
    read = {bound.buffer for bound in checked.outputs}
    floats: dict[int, Work] = {}  # for a dequantised buffer, the first region that reads its integers instead
    for region in taken:
        for buffer in region.floats:
            floats.setdefault(buffer, region)
    left_out: dict[int, list[int]] = {}
    found = []
    for work in reversed(rest):  # readers before what they read
        written = {use.buffer for use in work.writes.values()}
        if written <= floats.keys() and not written & read:
            left_out.setdefault(floats[written.pop()].node, []).append(work.node)
        else:
            found.append(work)
            read |= {use.buffer for use in work.reads.values()}
    return tuple(
        replace(work, nodes=(*sorted(left_out[work.node]), *work.nodes)) if work.node in left_out and work.nest else work
        for work in reversed(found)
    )


class Link(NamedTuple):
    """An operator with its statement. anew: the tensors of `work` have other sizes than those of the statement."""

    work: Work
    nest: Nest
    anew: bool = False

    @property
    def written(self) -> Use:
        (use,) = self.work.writes.values()
        return use


class Graph:
    """The operators of a graph, by the tensors that they write."""

    def __init__(self, checked: CheckedGraph, operators: Sequence[Work]) -> None:
        self.checked = checked
        self.writers = {use.buffer: work for work in operators for use in work.writes.values()}
        self._kept = {bound.buffer for bound in checked.outputs}
        self._readers: dict[int, int] = {}
        for work in operators:
            for buffer in {use.buffer for use in work.reads.values()}:
                self._readers[buffer] = self._readers.get(buffer, 0) + 1
        self._dequantised: dict[int, Link | None] = {}
        self._wide = self._beside_16_bits(operators)
        # symbols are shared, so that equal layers have the same expressions, and these are made once
        self.symbols: dict[tuple[str, tuple[int, ...], DataType], Tensor] = {}

    def link(self, work: Work) -> Link:
        """An operator with its statement."""
        operator = self.checked.nodes[work.node]
        assert operator is not None
        if operator.desc.spec.data_rules or len(work.writes) != 1:
            raise NotBetween(f"{called(self.checked, work.node)} has a rule about data, or several outputs")
        (nest,) = meaning(operator.desc.as_newest()).values()
        if any(e.data[0].definition is not None for e in reads_in(nest.body)):
            raise NotBetween(f"{called(self.checked, work.node)} has states")
        return Link(work, nest)

    def computed(self, use: Use) -> bool:
        """Whether a tensor holds floats, or INT32 between these and 16 bits, and is not a constant."""
        return (use.tensor.data_type.is_float or use.buffer in self._wide) and self.checked.constant(use.buffer) is None

    def _beside_16_bits(self, operators: Sequence[Work]) -> frozenset[int]:
        """The INT32 tensors that widen a 16-bit one, or that are narrowed to one: quantising operators have no 16 bits."""
        found = set()

        def variable(work: Work, types: Sequence[DataType]) -> list[Use]:
            uses = [use for use in work.reads.values() if self.checked.constant(use.buffer) is None]
            return uses if len(uses) == 1 and uses[0].tensor.data_type in types else []

        for work in operators:
            written = [*work.writes.values()]
            if len(written) != 1:
                continue
            if written[0].tensor.data_type is DataType.INT32 and variable(work, SIXTEEN_BIT):
                found.add(written[0].buffer)
            last: Work | None = work if written[0].tensor.data_type in SIXTEEN_BIT else None
            while last is not None and (uses := variable(last, (DataType.INT32,))):
                found.add(uses[0].buffer)
                last = self.writers.get(uses[0].buffer)
        return frozenset(found)

    def dequantised(self, use: Use) -> Link | None:
        """The operator that writes a tensor, if it is a map of bytes and constants alone, such as a dequantisation."""
        if use.buffer not in self._dequantised:
            self._dequantised[use.buffer] = None
            if (work := self.writers.get(use.buffer)) is not None:
                try:
                    link = self.link(work)
                except NotBetween:
                    return None
                leaves = all(not self.computed(u) or self.dequantised(u) for u in work.reads.values())
                if leaves and not link.nest.moves and not reduces(link.nest):
                    self._dequantised[use.buffer] = link
        return self._dequantised[use.buffer]

    def before(self, use: Use, reader: Work) -> Link:
        """The operator that writes a tensor. NotBetween if the tensor has a reader besides `reader`."""
        work = self.writers.get(use.buffer)
        if work is None:
            raise NotBetween(f"{called(self.checked, reader.node)} reads floats that are an input of the graph")
        if use.buffer in self._kept or self._readers[use.buffer] != 1:
            raise NotBetween(f"what {called(self.checked, work.node)} computes has other readers, or is an output of the graph")
        return self.link(work)


def reduces(nest: Nest) -> bool:
    return bool(loops_in(nest.body))


class Region:
    """The region whose last operator is `work`. NotBetween if there is none."""

    def __init__(self, graph: Graph, work: Work) -> None:
        self.graph = graph
        self.reads: dict[str, Use] = {}
        self.floats: dict[int, None] = {}
        self._tensors: dict[tuple[int, int, DataType, tuple[int, ...], tuple[int, ...]], Tensor] = {}
        self.chain = self._chain(work)

    def work(self) -> Work:
        """The region as one call."""
        first, output = self.chain[0], self.chain[0].written
        index = each(output.tensor.sizes) if first.anew else first.nest.index
        body = self._element(0, index)
        nodes = tuple(link.work.node for link in reversed(self.chain))
        return Work(nodes, self.reads, {OUTPUT: output}, Nest(index, body, first.nest.moves), (*self.floats,))

    def _called(self, work: Work) -> str:
        return called(self.graph.checked, work.node)

    def _chain(self, work: Work) -> list[Link]:
        """The operators of the region, from the last one back to the first, which reduces. All others are maps."""
        if not any(map(self.graph.computed, work.reads.values())):
            raise NotBetween("")
        chain = [self.graph.link(work)]
        while not reduces(chain[-1].nest):
            last = chain[-1].work
            floats = [use for use in last.reads.values() if self.graph.computed(use) and not self.graph.dequantised(use)]
            if len(floats) != 1:
                what = "several tensors of floats" if floats else "no floats that are reduced before"
                raise NotBetween(f"{self._called(last)} reads {what}")
            link = self.graph.before(floats[0], last)
            if not lie_alike(floats[0], link.written):
                chain = self._seen_as(chain, floats[0], link.written)
            chain.append(link)
        return chain

    def _seen_as(self, chain: Sequence[Link], use: Use, written: Use) -> list[Link]:
        """The chain's maps on packed tensors, with the sizes of `written`: the same elements as their writer sees them."""
        t, s = use.tensor, written.tensor
        same = t.data_type is s.data_type and t.span == s.span and use.offset == written.offset
        if not same or not is_packed(t) or not is_packed(s):
            raise NotBetween(f"{self._called(chain[-1].work)} reads a tensor in another layout than it is written with")
        return [self._anew(link, t.sizes, s, 0) for link in chain]

    def _anew(self, link: Link, sizes: tuple[int, ...], t: TensorDesc, first: int) -> Link:
        """A map on packed tensors of `sizes`, changed to tensors in the layout of t that begin at the element `first`."""

        def anew(use: Use) -> Use:
            old, zeros = use.tensor, (0,) * len(t.sizes)
            if all(n == 1 or stride == 0 for n, stride in zip(old.sizes, old.explicit_strides, strict=True)):
                return use._replace(tensor=TensorDesc(old.data_type, t.sizes, strides=zeros).spelled_out())
            if old.sizes != sizes or not is_packed(old):
                raise NotBetween(f"{self._called(link.work)} has a tensor that is not packed")
            there = TensorDesc(old.data_type, t.sizes, strides=t.explicit_strides).spelled_out()
            return use._replace(tensor=there, offset=use.offset + first * old.data_type.dtype.itemsize)

        index = link.nest.index
        at_index = all(e.args == index for e in reads_in(link.nest.body))
        others = (a for e in walk(link.nest.body) if e.op != "read" for a in e.args)
        if not at_index or any(a.sort is INDEX for a in others) or link.nest.moves:
            raise NotBetween(f"{self._called(link.work)} is no map of elements alone")
        reads = {name: anew(use) for name, use in link.work.reads.items()}
        writes = {name: anew(use) for name, use in link.work.writes.items()}
        return Link(replace(link.work, reads=reads, writes=writes), link.nest, anew=True)

    def _element(self, k: int, index: Sequence[Expr]) -> Expr:
        """The expression of an element of operator k of the chain, with those of the operators before it in place of reads."""
        link = self.chain[k]
        before = self.chain[k + 1].written.buffer if k + 1 < len(self.chain) else None

        def read(e: Expr, use: Use, args: tuple[Expr, ...]) -> Expr:
            if use.buffer != before:
                return self._read(use, args, e.data[1])
            if e.data[1] != "inside" or args != tuple(index):
                raise NotBetween(f"{self._called(link.work)} reads elements at other indices than its own")
            following = self.chain[k + 1]
            found = self._element(k + 1, args)
            return found if following.nest.moves else held(found, following.written.tensor.data_type)

        return self._replaced(link, index, read)

    def _replaced(self, link: Link, index: Sequence[Expr], read: _ReadAs) -> Expr:
        """The body of an operator's statement at an index, with each read replaced by the result of `read`."""
        nest = link.nest
        made: dict[Expr, Expr] = {} if link.anew else dict(zip(nest.index, index, strict=True))
        for e in walk(nest.body):
            if e in made or (link.anew and e in nest.index):
                continue
            args = tuple(index) if link.anew and e.op == "read" else tuple(made[a] for a in e.args)
            if e.op == "read":
                made[e] = read(e, link.work.reads[e.data[0].name], args)
            else:
                made[e] = make(e.op, args, e.data) if args else e
        return made[nest.body]

    def _read(self, use: Use, args: tuple[Expr, ...], mode: str) -> Expr:
        """The expression of an element: a read for bytes and constants, the dequantisation for a dequantised tensor."""
        if not self.graph.computed(use):
            return make("read", args, (self._tensor(use), mode))
        if (link := self.graph.dequantised(use)) is None:
            raise NotBetween(f"{self._called(self.chain[-1].work)} reads floats that are not dequantised")
        self.floats[use.buffer] = None
        written = link.written
        if not lie_alike(use, written):
            first, rest = divmod(use.offset - written.offset, written.tensor.data_type.dtype.itemsize)
            t, s = use.tensor, written.tensor
            within = first >= 0 and not rest and first + t.span <= s.span and t.data_type is s.data_type
            if not within or not is_packed(s):
                raise NotBetween(f"{self._called(link.work)} writes a tensor that is read in another layout")
            link = self._anew(link, s.sizes, t, first)
        index = args[:-1] if mode == "otherwise" else args

        def read(_: Expr, use: Use, at: tuple[Expr, ...]) -> Expr:
            return self._read(use, (*at, lift(0)) if mode == "otherwise" else at, mode)

        made = held(self._replaced(link, index, read), written.tensor.data_type)
        return select(inside(index, use.tensor.sizes), made, args[-1]) if mode == "otherwise" else made

    def _tensor(self, use: Use) -> Tensor:
        """The symbol of a tensor. Symbols are named t0, t1, .. so that equal regions have equal statements."""
        t = use.tensor
        key = use.buffer, use.offset, t.data_type, t.sizes, t.explicit_strides
        if key not in self._tensors:
            name = f"t{len(self._tensors)}"
            symbol = Tensor(name, t.sizes, t.data_type)
            self._tensors[key] = self.graph.symbols.setdefault((name, t.sizes, t.data_type), symbol)
            self.reads[name] = use
        return self._tensors[key]


def is_packed(t: TensorDesc) -> bool:
    """Whether a tensor is stored in row-major order without gaps."""
    return all(n == 1 or a == b for n, a, b in zip(t.sizes, t.explicit_strides, packed_strides(t.sizes), strict=True))
