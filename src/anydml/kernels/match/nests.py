"""Nests of reductions: statements whose elements are any expression of elements that are read at computed indices.

A program is the nodes of such an expression, each after its arguments. Reductions of a few terms are unrolled; indices made of
constants are evaluated. A program depends on the sizes of variables only through their numbers of bits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from anydml.kernels.match.forms import counted, each_value, is_ring, positive_parts
from anydml.kernels.match.normal_form import LOOPS, Node, Nodes, NormalForm
from anydml.kernels.match.structure import skipped
from anydml.kernels.match.unmatched import Unmatched, need, pattern
from anydml.schema.identities import rewritten
from anydml.schema.node import Constant, Expr, Variable, is_integer
from anydml.schema.statement import Nest
from anydml.schema.traversal import bound_by, free, integral, loops_in, reads_in, walk
from anydml.tensor import DataType

FEW = 9  # terms up to which a reduction is unrolled
HEAVY = 4  # the same, if a term contains loops
MANY = 36  # unrolled terms at most, where those of nested reductions are multiplied
MOST = 1500  # nodes at most
DEEPEST = 80  # nested operations at most

_INDICES = {"add", "sub", "mul", "neg", "max", "min", "floordiv", "mod"}
_COMPARED = {"less", "less_equal", "equal"}
_NUMBERS = {
    "add", "sub", "mul", "div", "neg", "max", "min", "absolute", "sqrt", "pow", "floor", "ceil", "truncate", "half_to_even",
    "half_away", "round", "power", "position", "index", "is_nan",
}  # fmt: skip


class Program(NamedTuple):
    """The nodes of expressions, of which `roots` are the elements of the outputs.

    Besides the nodes of expressions there are: "inside", whether an index is inside a tensor's dimension; "offset", the
    distance in bytes from the tensor's start to an index along a dimension, or to the nearest index inside; "read", of offsets;
    "terms", an unrolled reduction of terms and their conditions. Variables are numbers; those of the output's dimensions come
    first. bits: the number of bits of each variable's size. types: those of the tensors that are read. moves: the bits of
    elements are stored. ring: the element is an integer modulo 2^64.
    """

    nodes: NormalForm
    roots: tuple[int, ...]
    dims: int
    bits: tuple[int, ...]
    types: tuple[DataType, ...]
    moves: bool
    ring: bool

    def in_its_place(self, own: Collection[int]) -> bool:
        """Whether tensors in `own` are read only at the output's own index, and all others at constant indices."""
        for op, args, tensor in self.nodes:
            if op in LOOPS:
                return False
            if op == "read":
                at = [self.nodes[self.nodes[a].args[0]] for a in args]
                if tensor in own and at != [Node("variable", (), d) for d in range(self.dims)]:
                    return False
                if tensor not in own and any(node.op != "constant" for node in at):
                    return False
        return True

    def limited(self) -> frozenset[int]:
        """The variables that a condition limits to below a computed index."""
        return frozenset(
            self.nodes[args[0]].data
            for op, args, _ in self.nodes
            if op == "index_less" and self.nodes[args[0]].op == "variable" and self.nodes[args[1]].op != "constant"
        )


class Matched(NamedTuple):
    """A program, the sizes of its variables, and the tensors that it reads."""

    program: Program
    sizes: tuple[int, ...]
    tensors: tuple[str, ...]


def nests(nest: Nest, data_type: DataType) -> Matched | str:
    """The program of a nest that is stored as a data type, or the reason why there is none."""
    return together((nest,), (data_type,))


@pattern
def together(of: Sequence[Nest], types: Sequence[DataType], many: int = MANY) -> Matched:
    """The program of several nests over the same index, or the reason why there is none. many: unrolled terms at most."""
    need(all(nest.variables == of[0].variables for nest in of), "outputs have different indices")
    return _Builder(of, types, many).matched()


def _depth(e: Expr) -> int:
    """The number of operations that are nested in an expression."""
    found: dict[Expr, int] = {}
    for node in walk(e):
        found[node] = 1 + max((found[a] for a in node.args), default=0)
    return found[e]


Env = Mapping[Variable, int]


class _Builder:
    def __init__(self, of: Sequence[Nest], types: Sequence[DataType], many: int) -> None:
        self.of, self.types, self.many = of, types, many
        self.bodies = [nest.body if nest.moves else rewritten(nest.body) for nest in of]
        self.free = {e: variables for body in self.bodies for e, variables in free(body).items()}
        self.form = Nodes()
        self.nodes = self.form.made
        self.made: dict[tuple[Expr, frozenset[tuple[Variable, int]]], int] = {}
        self.variables = {v: k for k, v in enumerate(of[0].variables)}
        self.tensors: dict[str, tuple[int, DataType]] = {}

    def matched(self) -> Matched:
        ring = moves = False
        for nest, body, data_type in zip(self.of, self.bodies, self.types, strict=True):
            if _depth(body) > DEEPEST:
                raise Unmatched(f"operations are nested more than {DEEPEST} deep")
            if any(read.data[0].definition is not None for read in reads_in(body)):
                raise Unmatched("a tensor is read that is defined by a statement")
            whole = data_type.is_integer and not nest.moves
            if whole and not integral(body):
                raise Unmatched("an integer is computed from real numbers")
            ring, moves = whole and is_ring(body), nest.moves
            if (ring or moves) and len(self.of) > 1:
                raise Unmatched("one of several outputs is moved, or computed from integers")
        roots = tuple(self._node(body, {}) for body in self.bodies)
        sizes = tuple(int(v.size) for v in self.variables)
        bits, types = tuple(max(n, 1).bit_length() for n in sizes), tuple(t for _, t in self.tensors.values())
        program = Program(NormalForm(self.nodes), roots, len(self.of[0].variables), bits, types, moves, ring)
        return Matched(program, sizes, tuple(self.tensors))

    def _known(self, parts: Sequence[Expr]) -> Sequence[Expr]:
        """The same expressions, after their free variables are recorded."""
        for part in parts:
            self.free |= free(part)
        return parts

    def _add(self, op: str, args: tuple[int, ...] = (), data: Any = None) -> int:
        place = self.form.add(op, args, data)
        if place >= MOST:
            raise Unmatched(f"more than {MOST} operations")
        return place

    def _node(self, e: Expr, env: Env) -> int:
        key = e, frozenset((v, env[v]) for v in self.free[e] if v in env)
        if key not in self.made:
            self.made[key] = self._make(e, env)
        return self.made[key]

    def _make(self, e: Expr, env: Env) -> int:
        if e.op == "variable":
            if e.data in env:
                return self._whole(env[e.data])
            return self._add("variable", (), self.variables.setdefault(e.data, len(self.variables)))
        if e.op == "constant":
            if not isinstance(e.data.value, Fraction | float):
                raise Unmatched("sizes are not numbers")
            return self._add("constant", (), e.data)
        if e.op == "read":
            return self._read(e, env)
        if e.op == "reduce" or e.op == "first_largest":
            return self._reduction(e, env)
        if e.op == "less" and (parts := positive_parts(e)) is not None:
            made = [self._node(part, env) for part in self._known(parts)]
            return self._joined("both", *made)
        args = tuple(self._node(a, env) for a in e.args)
        if e.op == "select":
            truth = self._truth_of(args[0])
            return self._add("select", args) if truth is None else args[1] if truth else args[2]
        if e.op in ("both", "either"):
            return self._joined(e.op, *args)
        if e.op == "not":
            truth = self._truth_of(args[0])
            return self._add("not", args) if truth is None else self._truth(not truth)
        if (e.op in _INDICES and e.sort == "index") or (
            e.op in _COMPARED and all(a.sort == "index" or is_integer(a) for a in e.args)
        ):
            return self._of_indices(e.op, args)
        if e.op == "position" and (n := self._integer(args[0])) is not None:
            return self._whole(n)
        if e.op == "index" and (n := self._clamped(args[0])) is not None:
            return self._whole(n)
        if e.op not in _NUMBERS and e.op not in _COMPARED:
            raise Unmatched(f"nests have no operation {e.op}")
        return self._add(e.op, args, e.data)

    # --- indices and truths ---

    def _whole(self, n: int) -> int:
        return self._add("constant", (), Constant(Fraction(n), True))

    def _integer(self, place: int) -> int | None:
        op, _, data = self.nodes[place]
        return int(data.value) if op == "constant" and data.integral else None

    def _clamped(self, place: int) -> int | None:
        """The integer to which a number is clamped if both limits are equal. NaN would be no index."""
        for first, second in (("min", "max"), ("max", "min")):
            op, args, _ = self.nodes[place]
            for limit, inner in (args, args[::-1]) if op == first else ():
                if self.nodes[inner].op == second and limit in self.nodes[inner].args:
                    return self._integer(limit)
        return None

    def _truth(self, value: bool) -> int:
        return self._add("truth", (), value)

    def _truth_of(self, place: int) -> bool | None:
        op, _, data = self.nodes[place]
        return bool(data) if op == "truth" else None

    def _joined(self, op: str, a: int, b: int) -> int:
        for x, y in ((a, b), (b, a)):
            truth = self._truth_of(x)
            if truth is not None:
                return y if truth == (op == "both") else x
        return a if a == b else self._add(op, (a, b))

    def _of_indices(self, op: str, args: tuple[int, ...]) -> int:
        numbers = [n for a in args if (n := self._integer(a)) is not None]
        if len(numbers) < len(args):
            if op in ("floordiv", "mod") and (self._integer(args[1]) or 0) < 1:
                raise Unmatched("a divisor is not a positive constant")
            if op in ("add", "sub") and self._integer(args[1]) == 0:
                return args[0]
            return self._add(f"index_{op}", args)
        if op in _COMPARED:
            x, y = numbers
            return self._truth(x < y if op == "less" else x <= y if op == "less_equal" else x == y)
        if op == "neg":
            return self._whole(-numbers[0])
        x, y = numbers
        if op in ("max", "min"):
            return self._whole(max(x, y) if op == "max" else min(x, y))
        if op in ("floordiv", "mod"):
            return self._whole(x // y if op == "floordiv" else x % y)
        return self._whole(x + y if op == "add" else x - y if op == "sub" else x * y)

    # --- reads ---

    def _read(self, e: Expr, env: Env) -> int:
        tensor, mode = e.data
        number, _ = self.tensors.setdefault(tensor.name, (len(self.tensors), tensor.data_type))
        at = e.args[: len(tensor.sizes)]
        args = [self._node(a, env) for a in at]
        offsets = tuple(
            self._add("offset", (a,), (number, d, self._is_inside(a, n)))
            for d, (a, n) in enumerate(zip(args, tensor.sizes, strict=True))
        )
        read = self._add("read", offsets, number)
        if mode != "otherwise":
            return read
        there = self._inside(e, env)
        truth = self._truth_of(there)
        otherwise = self._node(e.args[-1], env)
        return self._add("select", (there, read, otherwise)) if truth is None else read if truth else otherwise

    def _is_inside(self, place: int, size: int) -> bool:
        """Whether an index is known to be inside the tensor."""
        op, _, data = self.nodes[place]
        if op == "constant":
            return bool(0 <= data.value < size)
        return op == "variable" and int(list(self.variables)[data].size) <= size

    def _inside(self, e: Expr, env: Env) -> int:
        """The condition that every index of a read is inside the tensor."""
        tensor = e.data[0]
        number, _ = self.tensors.setdefault(tensor.name, (len(self.tensors), tensor.data_type))
        found = self._truth(True)
        for d, (a, n) in enumerate(zip(e.args, tensor.sizes, strict=False)):
            place = self._node(a, env)
            if not self._is_inside(place, n):
                x = self._integer(place)
                there = self._truth(0 <= x < n) if x is not None else self._add("inside", (place,), (number, d))
                found = self._joined("both", found, there)
        return found

    # --- reductions ---

    def _reduction(self, e: Expr, env: Env) -> int:
        variables = bound_by(e)
        kind = e.data[0] if e.op == "reduce" else e.op
        if kind not in ("sum", "max", "min", "first_largest") or (e.op == "first_largest" and e.data[1]):
            raise Unmatched(f"a reduction {kind}")
        if kind == "sum" and len(variables) > 1 and (product := counted(e, self.free)) is not None:
            return self._node(self._known([product])[0], env)
        terms = math.prod(int(v.size) for v in variables)
        few = HEAVY if any(node.op == "first_largest" for node in loops_in(e)) else FEW
        if e.op == "reduce" and terms <= few and self._written(e) <= self.many:
            made = [self._term(e, {**env, **at}) for at in each_value(variables)]
            there = [x for term in made if self._truth_of(term[1]) is not False for x in term]
            return self._add("terms", tuple(there), kind)
        if any(v in env for v in variables):
            raise Unmatched("a variable is bound twice")
        numbers = tuple(self.variables.setdefault(v, len(self.variables)) for v in variables)
        args = self._term(e, env)
        if e.op == "reduce":
            return self._add("reduce", args, (kind, numbers))
        return self._add("first_largest", args, (numbers, tuple(int(v.size) for v in variables)))

    def _written(self, e: Expr) -> int:
        """The number of terms of a reduction and of those inside it, if all of them were unrolled."""
        inner = [r for r in loops_in(e) if r.op == "reduce" and r is not e]
        inner = [r for r in inner if not any(r in walk(other.args[0]) for other in inner if other is not r)]
        return math.prod(int(v.size) for v in e.data[1]) * max((self._written(r) for r in inner), default=1)

    def _term(self, e: Expr, env: Env) -> tuple[int, int]:
        """A term of a reduction, and the condition under which it counts."""
        there = self._truth(True)
        for read in skipped(e):
            there = self._joined("both", there, self._inside(read, env))
        if len(e.args) > 1:
            there = self._joined("both", there, self._node(e.args[1], env))
        return self._node(e.args[0], env), there
