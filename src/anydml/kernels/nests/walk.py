"""Instructions for the nodes of a program, each in the outermost loop in which all its variables are known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

from anydml.exact.formats import wrapped
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.gather import gathered, has_masks
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.match.constants import bits_of
from anydml.kernels.match.nests import Program
from anydml.kernels.match.scopes import FormWalk, Scopes
from anydml.kernels.nests import items
from anydml.kernels.nests.items import Bits, Index, Item
from anydml.kernels.nests.separable import shares
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.known import known_of, outward, whole_power
from anydml.kernels.numbers.lanes import Truth, broadcast, chosen, either
from anydml.kernels.numbers.measured import arithmetic, decisions, functions, real
from anydml.kernels.numbers.measured.real import Real
from anydml.schema.node import Constant
from anydml.tensor import DataType


class Sharing(Protocol):
    """Several work items that compute one element: each adds up a part of the terms of a sum."""

    def turns(self, count: Value) -> Value:
        """The work item's own turns of a loop of so many."""

    def at(self, turn: Value) -> Value:
        """The turn of the loop that is one of the work item's own."""

    def joined(self, carried: list[Value], merged: Callable[[list[Value], list[Value]], list[Value]]) -> list[Value]:
        """The values of all terms."""


class NestWalk(FormWalk[Item]):
    """The items of a program's nodes, in nested scopes, one for each loop, the innermost last.

    sizes: for each variable, the text of the number of its values. places: for each dimension of a tensor, the texts of its
    last index and of its stride in bytes. bases: the texts of the tensors' addresses. reduced: the function that makes a
    reduction's item. contiguous: the pairs (tensor, dimension) along which elements are contiguous.
    """

    def __init__(
        self,
        body: Body,
        program: Program,
        data_type: DataType,  # of elements that are copied
        sizes: Mapping[int, str],
        places: Mapping[tuple[int, int], tuple[str, str]],
        bases: Mapping[int, str],
        lanes: int,
        reduced: Callable[[NestWalk, int], Item],
        contiguous: Collection[tuple[int, int]] = (),
    ) -> None:
        self.lanes, self.reduced, self.contiguous = lanes, reduced, contiguous
        self.body, self.program, self.data_type = body, program, data_type
        self.sizes, self.places, self.bases = sizes, places, bases
        self.nodes = program.nodes
        self.moved = self._moved()
        self.shares = shares(program)
        self.bits: dict[int, Value] = {}  # the bits that were last read from each tensor
        self.items = Scopes()
        self.bound: Scopes[int, Index] = Scopes()  # the variables of loops
        # the known ends of loops, by their reduction and variable
        self.ranges: dict[tuple[int, int], list[tuple[Value, Value]]] = {}
        self.sharing: Sharing | None = None
        self.forms: dict[Any, Any] = {}  # forms of reductions' terms, see `loops._form`

    # --- scopes ---

    @contextmanager
    def scope(self, variables: Mapping[int, Index], known: Mapping[int, Item] | None = None) -> Iterator[None]:
        """The scope of a loop's turn; known: items of other nodes that are known in it."""
        with self.items.inner(known), self.bound.inner(variables):
            yield

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Emit instructions whose items are needed, but not their code, which is dropped."""
        lines, declared = self.body.lines, self.body.declared
        self.body.lines, self.body.declared = [], dict(declared)
        try:
            yield
        finally:
            self.body.lines, self.body.declared = lines, declared

    def fill_known(self, *roots: int, without: int | None = None) -> None:
        """Emit the nodes below `roots` that depend on known variables alone, and that others use there.

        without: a node that is left out, with the nodes below it.
        """
        variables = frozenset(self.bound)
        seen: set[int] = set() if without is None else {without}
        stack = list(reversed(roots))
        while stack:
            p = stack.pop()
            if p in seen or p in self.items:
                continue
            seen.add(p)
            if self.nodes.free[p] <= variables:
                self.item(p)
            else:
                stack += reversed(self.nodes[p].args)

    # --- items by type ---

    def index(self, p: int) -> Index:
        item = self.item(p)
        if not isinstance(item, Index):
            raise Uncompilable(f"{self.nodes[p].op} is no index here")
        return item

    def truth(self, p: int) -> Truth:
        item = self.item(p)
        if not isinstance(item, Truth):
            raise Uncompilable(f"{self.nodes[p].op} is no truth here")
        return item

    def real(self, p: int) -> Real:
        """The item of a node as a number."""
        item = self.item(p)
        if isinstance(item, Bits):  # the bits of an element that is also copied
            item = self._element(item.value, self.data_type, item.guard)
        if isinstance(item, Index):
            return real.fraction(self.body, Fraction(item.constant)) if item.constant is not None else items.position(item)
        if not isinstance(item, Real):
            raise Uncompilable(f"{self.nodes[p].op} is no number here")
        return item

    # --- nodes ---

    def _item(self, place: int, op: str, args: tuple[int, ...], data: Any) -> Item:
        if op == "variable":
            return self.bound[data]
        if op == "constant":
            return self._constant(data)
        if op == "truth":
            return items.truth(self.body, data)
        if op == "offset":
            return self._offset(self.index(args[0]), data)
        if op == "inside":
            return self._inside(self.index(args[0]), data)
        if op == "read":
            return self._read(place, args, data)
        if op == "select":
            return self._select(*args)
        if op in ("both", "either"):
            return self.truth(args[0]).joined(op, self.truth(args[1]))
        if op == "not":
            return ~self.truth(args[0])
        if op.startswith("index_"):
            return self._of_indices(op.removeprefix("index_"), args)
        if op == "position":
            return items.position(self.index(args[0]))
        if op == "index":
            item = self.item(args[0])
            return item if isinstance(item, Index) else items.index(arithmetic.plain(self.real(args[0])))
        if op in ("reduce", "first_largest", "terms"):
            return self.reduced(self, place)
        if self.program.ring:
            return self._of_indices(op, args)
        made = self._number(op, args, data)
        if place in self.shares and isinstance(made, Real) and made.exact:
            return replace(made, known=made.known.within(outward(0.0, float(1 / made.factor))[1]))
        return made

    def _constant(self, c: Constant) -> Item:
        if isinstance(c.value, float):
            return real.special(self.body, c.value)
        assert isinstance(c.value, Fraction)
        return items.whole(self.body, int(c.value)) if c.integral else real.fraction(self.body, c.value)

    def _of_indices(self, op: str, args: tuple[int, ...]) -> Item:
        x = [self.index(a) for a in args]
        if op in ("less", "less_equal", "equal"):
            return items.compared(op, *map(self._known, x))
        if op == "neg":
            op, x = "sub", [items.whole(self.body, 0), *x]
        made = items.arithmetic(op, *x)
        if self.program.ring:  # modulo 2^64
            return made
        return replace(made, guard=either(made.guard, items.overflowing(op, *x)))

    def _known(self, x: Index) -> Index:
        """The integer, if it is certain to be a word's; in programs that compute modulo 2^64, others are refused."""
        if self.program.ring and x.known.largest > items.WIDE:
            raise Uncompilable("integers of 64 bits are compared, or are places, where others are sums modulo 2^64")
        return x

    def _offset(self, at: Index, data: tuple[int, int, bool]) -> Index:
        at = self._known(at)
        tensor, d, inside = data
        last, stride = (Value(self.body, text, items.WORD) for text in self.places[tensor, d])
        value = at.value
        if not inside:
            value, end = broadcast(value, last)
            value = items.extreme("min", items.extreme("max", value, value.lift(0)), end)
        value, step = broadcast(value, stride)
        side = at.side if inside and (tensor, d) in self.contiguous else None
        return Index(value * step, items.ANY_INDEX, at.guard, side)

    def _inside(self, at: Index, data: tuple[int, int]) -> Truth:
        at = self._known(at)
        value, last = broadcast(at.value, Value(self.body, self.places[data][0], items.WORD))
        # a negative index is large as an unsigned number
        return Truth(value.compared("ule", last), at.guard)

    def _read(self, p: int, args: tuple[int, ...], tensor: int) -> Item:
        offsets = [self.index(a) for a in args]
        base = self.bases[tensor]
        together: Value | None = None
        several = [offset for offset in offsets if offset.value.kind.lanes]
        for offset in offsets:
            if offset.value.kind.lanes:
                together = offset.value if together is None else together + offset.value
            else:
                base = self.body.at(base, offset.value.name)
        guard = either(*(offset.guard for offset in offsets))
        data_type = self.program.types[tensor]
        bits = Kind(f"i{data_type.element_bits}")
        if together is None:
            value = self.body.loaded(bits, base)
        elif len(several) == 1 and several[0].side is not None and has_masks(self.body.target, bits):
            value = self._side_by_side(bits._replace(lanes=together.kind.lanes), base, *several[0].side)
        else:
            value = gathered(self.body, bits, base, together)
        self.bits[tensor] = value
        if p in self.moved:
            return Bits(value, guard)
        return self._element(value, data_type, guard)

    def _side_by_side(self, kind: Kind, base: str, first: str, d: int) -> Value:
        """The elements from index `first` of a dimension on, up to its last one."""
        body = self.body
        room = Value(body, body.op(f"sub i64 {self.sizes[d]}, {first}"), items.WORD)
        there = body.constants("i64", range(kind.lanes)).compared("ult", body.splat(room, kind.lanes))
        return body.masked(kind, body.at(base, body.op(f"mul i64 {first}, {kind._replace(lanes=0).bits // 8}")), there)

    def _moved(self) -> frozenset[int]:
        """The nodes whose bits are copied to the output."""
        found: set[int] = set()
        stack = list(self.program.roots) if self.program.moves else []
        while stack:
            p = stack.pop()
            found.add(p)
            op, args, _ = self.nodes[p]
            stack += args[1:] if op == "select" else ()
        return frozenset(found)

    def _element(self, bits: Value, data_type: DataType, guard: Value | None) -> Item:
        double = bits.kind.of("double")
        if data_type in singles.SINGLES:
            value = singles.widened(bits, data_type).converted("fpext", double)
            return Real(value, known=known_of(data_type), guard=guard)
        if data_type == DataType.FLOAT64:
            raise Uncompilable("elements have type FLOAT64")
        signed, size = data_type.dtype.kind == "i", data_type.element_bits
        value = bits.converted("sext" if signed else "zext", bits.kind.of("i64"))
        whole = Index(value, known_of(data_type), guard)
        if size == 64 and not signed:
            beyond = None if self.program.ring else value.compared("slt", 0)  # numbers from 2^63 on are read as negative ones
            whole = Index(value, items.ANY_WORD, either(guard, beyond))
        return whole

    def _select(self, condition: int, a: int, b: int) -> Item:
        truth = self.truth(condition)
        one, two = self.item(a), self.item(b)
        if isinstance(one, Bits) or isinstance(two, Bits):
            x, y = self._bits(a, one), self._bits(b, two)
            return Bits(chosen(truth.mask, x.value, y.value), truth.guards(x.guard, y.guard))
        if isinstance(one, Index) and isinstance(two, Index):
            return items.select(truth, one, two)
        return decisions.select(truth, self.real(a), self.real(b))

    def _bits(self, p: int, item: Item) -> Bits:
        if isinstance(item, Bits):
            return item
        if self.nodes[p].op == "constant" and (bits := bits_of(self.nodes[p].data, self.data_type)) is not None:
            width = self.data_type.element_bits
            return Bits(self.body.constant(Kind(f"i{width}"), wrapped(bits, width, True)))
        raise Uncompilable("what is moved is neither an element nor a number that its type holds")

    def _number(self, op: str, args: tuple[int, ...], data: Any) -> Item:
        x = [self.real(a) for a in args]
        if op in ("less", "less_equal", "equal"):
            return decisions.compared(op, *x)
        if op in ("floor", "ceil", "truncate", "half_to_even", "half_away"):
            return decisions.to_whole(op, *x)
        if op == "is_nan":
            return Truth(x[0].value.compared("uno", x[0].value), x[0].guard)
        if op in ("max", "min"):
            return decisions.extreme(*x, largest=op == "max")
        if op == "round":
            return functions.rounded(arithmetic.plain(x[0]), data)
        if op == "power":
            return whole_power(x[0], data, arithmetic.multiply)
        return _ARITHMETIC[op](*x)


_ARITHMETIC: Mapping[str, Callable[..., Real]] = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "mul": arithmetic.multiply,
    "div": arithmetic.divide,
    "neg": arithmetic.negative,
    "absolute": decisions.absolute,
    "sqrt": decisions.root,
    "pow": functions.power,
}
