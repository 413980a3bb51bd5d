"""Translation of statements to tapes: each node is computed once, only branches that are taken, and reductions in loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from anydml.kernels.match.scopes import ScopedWalk, Scopes
from anydml.kernels.match.structure import skipped
from anydml.kernels.third import balls, operations
from anydml.kernels.third.balls import INFINITE, NAN, NEGATIVE_INFINITE, Precision
from anydml.kernels.third.functions import BINARY, UNARY, is_kind, rational_power, whole_power
from anydml.kernels.third.interpreter import FORMS
from anydml.kernels.third.tape import IntegerRegister, Label, NumberRegister, Tape
from anydml.schema.expression import Tensor
from anydml.schema.identities import rewritten
from anydml.schema.node import INDEX, TRUTH, Expr, Variable
from anydml.schema.statement import Nest
from anydml.schema.traversal import bound_by, free, integral, reads_in
from anydml.tensor import EIGHT_BIT_FLOATS, DataType, limits

_WHOLE = {"floor": operations.FLOOR, "ceil": operations.CEIL, "truncate": operations.TRUNCATE,
          "half_to_even": operations.HALF_TO_EVEN, "half_away": operations.HALF_AWAY}  # fmt: skip
_BINARY = {"add": "sum", "sub": "difference", "mul": "multiply", "div": "divide", "max": "maximum", "min": "minimum"}
_INDEX = {"add": "iadd", "sub": "isub", "mul": "imul", "max": "imax", "min": "imin", "floordiv": "ifloordiv", "mod": "imod"}
_TRUTHS = {"less": "is_less", "less_equal": "is_less_equal", "equal": "is_equal"}
_OF_INDICES = {"less": "iless", "less_equal": "iless_equal", "equal": "iequal"}
MOST_HALVINGS, MOST_FACTORS = 4, 64  # in constant exponents of powers that are computed by roots and products
LONGEST_TAPE = 20_000  # instructions


_STEP = {"sum": "sum", "product": "multiply", "max": "maximum", "min": "minimum"}
_START: dict[str, float | int] = {"sum": -0.0, "product": 1, "max": float("-inf"), "min": float("inf")}
R = TypeVar("R", NumberRegister, IntegerRegister)


class Untranslatable(Exception):
    """Raised if a statement contains something that a tape cannot express."""


class Read(NamedTuple):
    """A tensor that a tape reads. first: the integer register of its address; those of its strides in bytes follow."""

    tensor: Tensor
    first: int


class Translated(NamedTuple):
    """A tape, and the tensors whose addresses and strides it expects."""

    tape: Tape
    reads: tuple[Read, ...]


def translated(nest: Nest, data_type: DataType, precision: Precision = balls.FIRST) -> Translated:
    """The tape that decides an element of a nest, with numbers of a precision. Untranslatable if there is none."""
    if nest.moves:
        raise Untranslatable("elements are moved")
    return _Translation(nest, data_type, precision).made()


class _Total(NamedTuple):
    """The registers of a reduction: its result so far, whether it has a term, and the length of a sum's largest term."""

    number: NumberRegister
    some: IntegerRegister
    largest: IntegerRegister


class _Translation(ScopedWalk[Expr, NumberRegister | IntegerRegister]):
    def __init__(self, nest: Nest, data_type: DataType, precision: Precision) -> None:
        self.nest, self.data_type = nest, data_type
        self.tape = Tape(len(nest.index), precision)
        self.variables: dict[Variable, IntegerRegister] = {v: IntegerRegister(d) for d, v in enumerate(nest.variables)}
        self.items = Scopes()
        self.reads: dict[Tensor, Read] = {}

    def made(self) -> Translated:
        body = rewritten(self.nest.body)
        tensors = dict.fromkeys(e.data[0] for e in reads_in(body))
        for tensor in tensors:
            if tensor.definition is not None:
                raise Untranslatable("a tensor is kept inside")
            self.reads[tensor] = Read(tensor, self.tape.integers)
            self.tape.integers += 1 + len(tensor.sizes)
        self.tape.do("end", 0, self._stored(self._number(body)))
        if len(self.tape._lines) > LONGEST_TAPE:
            raise Untranslatable("the tape is too long")
        return Translated(self.tape, tuple(self.reads.values()))

    def _stored(self, x: NumberRegister) -> IntegerRegister:
        t = self.tape
        if self.data_type in EIGHT_BIT_FLOATS:
            raise Untranslatable("a result of 8-bit floats")
        if self.data_type in FORMS:
            return t.count(f"encode_{self.data_type.name}", x)
        low, high = limits(self.data_type)
        if integral(self.nest.body):
            return t.count("exact_integer", x)
        out, done, number = t.integer(), Label(), Label()
        t.unless(is_kind(t, x, NAN), number)
        t.do("set", out, 0)
        t.jump(done)
        t.place(number)
        whole = t.make("to_whole", x, operations.TRUNCATE)
        inside = t.make("minimum", t.make("maximum", whole, t.value(low)), t.value(high))
        t.do("exact_integer", out, inside)
        t.place(done)
        return out

    # --- values ---

    def _made(self, node: Expr) -> NumberRegister | IntegerRegister:
        makes = {INDEX: self._index, TRUTH: self._truth}.get(node.sort, self._make)
        return self._select(node) if node.op == "select" else makes(node)

    def _number(self, e: Expr) -> NumberRegister:
        found = self.item(e)
        assert isinstance(found, NumberRegister), e.op
        return found

    def _integer(self, e: Expr) -> IntegerRegister:
        if e.op == "constant":
            n = int(e.data.value)
            if not -(2**63) <= n < 2**63:  # of a counter of 128 bits
                raise Untranslatable("an integer that no register holds")
            return self.tape.fixed(n)
        found = self.item(e)
        assert isinstance(found, IntegerRegister), e.op
        return found

    def _index(self, e: Expr) -> IntegerRegister:
        t = self.tape
        if e.op == "variable":
            return self.variables[e.data]
        if e.op == "index":
            return t.count("exact_integer", self._number(e.args[0]))
        if e.op == "neg":
            return t.count("isub", t.fixed(0), self._integer(e.args[0]))
        if e.op in _INDEX:
            return t.count(_INDEX[e.op], self._integer(e.args[0]), self._integer(e.args[1]))
        raise Untranslatable(f"{e.op} of indices")

    def _truth(self, e: Expr) -> IntegerRegister:
        t = self.tape
        if e.op in ("both", "either"):
            return t.count(e.op, self._integer(e.args[0]), self._integer(e.args[1]))
        if e.op == "not":
            return t.count("not", self._integer(e.args[0]))
        if e.op == "is_nan":
            return is_kind(t, self._number(e.args[0]), NAN)
        if e.op in _TRUTHS:
            if any(a.sort == INDEX for a in e.args):
                return t.count(_OF_INDICES[e.op], self._integer(e.args[0]), self._integer(e.args[1]))
            return t.count(_TRUTHS[e.op], self._number(e.args[0]), self._number(e.args[1]))
        raise Untranslatable(f"{e.op} as a truth")

    def _make(self, e: Expr) -> NumberRegister:
        t, op = self.tape, e.op
        if op == "constant":
            return t.value(e.data.value)
        if op == "read":
            return self._read(e)
        if op == "position":
            return t.make("position", self._integer(e.args[0]))
        if op == "reduce":
            return self._reduction(e)
        if op in _BINARY:
            return t.make(_BINARY[op], self._number(e.args[0]), self._number(e.args[1]))
        if op in _WHOLE:
            return t.make("to_whole", self._number(e.args[0]), _WHOLE[op])
        if op in UNARY:
            return UNARY[op](t, self._number(e.args[0]))
        if op == "power":
            return whole_power(t, self._number(e.args[0]), e.data)
        if op == "pow":
            x, y = e.args
            exponent = y.data.value if y.op == "constant" and not isinstance(y.data.value, float) else None
            if exponent is not None and exponent.denominator in range(1, (1 << MOST_HALVINGS) + 1):
                halves = exponent.denominator & exponent.denominator - 1 == 0
                if halves and abs(exponent.numerator) <= MOST_FACTORS and exponent:
                    return rational_power(t, self._number(x), exponent)
            return BINARY[op](t, self._number(x), self._number(y))
        if op in BINARY:
            return BINARY[op](t, self._number(e.args[0]), self._number(e.args[1]))
        if op == "round" and e.data in FORMS:
            return t.make(f"decode_{e.data.name}", t.count(f"encode_{e.data.name}", self._number(e.args[0])))
        if op == "limits":
            return self._limits(e)
        raise Untranslatable(f"{op} of numbers")

    def _limits(self, e: Expr) -> NumberRegister:
        t, (x, body), values = self.tape, e.args, dict(e.data)
        number, out, done = self._number(x), t.number(), Label()
        for side, kind in (("low", NEGATIVE_INFINITE), ("high", INFINITE)):
            if side in values:
                other = Label()
                t.unless(is_kind(t, number, kind), other)
                value = float(values[side])
                t.assign(out, t.value(value if value - value != 0 or values[side] == "-0.0" else int(value)))
                t.jump(done)
                t.place(other)
        self._take(out, lambda: self._number(body))
        t.place(done)
        return out

    # --- branches ---

    def _branch(self, condition: IntegerRegister, yes: Callable[[], R], no: Callable[[], R], out: R) -> R:
        """One of two values, by a condition; the other one is not computed."""
        t, other, done = self.tape, Label(), Label()
        t.unless(condition, other)
        self._take(out, yes)
        t.jump(done)
        t.place(other)
        self._take(out, no)
        t.place(done)
        return out

    def _take(self, out: R, make: Callable[[], R]) -> None:
        """Compute a value in a branch. Nodes that are computed there are not reused behind the branch."""
        with self.items.inner():
            self.tape.do("copy" if isinstance(out, NumberRegister) else "icopy", out, make())

    def _select(self, e: Expr) -> NumberRegister | IntegerRegister:
        condition = self._integer(e.args[0])
        if e.sort in (INDEX, TRUTH):
            return self._branch(
                condition, lambda: self._integer(e.args[1]), lambda: self._integer(e.args[2]), self.tape.integer()
            )
        return self._branch(condition, lambda: self._number(e.args[1]), lambda: self._number(e.args[2]), self.tape.number())

    # --- tensors ---

    def _read(self, e: Expr) -> NumberRegister:
        mode = e.data[1]
        if mode == "otherwise":
            inside = self._inside(e)
            if inside is None:
                return self._element(e)
            return self._branch(inside, lambda: self._element(e), lambda: self._number(e.args[-1]), self.tape.number())
        return self._element(e)

    def _places(self, e: Expr) -> list[tuple[IntegerRegister, int, bool]]:
        """For each index of a read: its register, the tensor's size in this dimension, and whether it may be outside."""
        found = []
        for a, n in zip(e.args, e.data[0].sizes, strict=False):
            named = a.op == "variable" and a.data.size <= n
            found.append((self._integer(a), n, not named and not (a.op == "constant" and 0 <= a.data.value < n)))
        return found

    def _inside(self, e: Expr) -> IntegerRegister | None:
        """The truth that all indices of a read are inside; None if they always are."""
        t, found = self.tape, None
        for place, size, may in self._places(e):
            if may:
                above = t.count("iless_equal", t.fixed(0), place)
                here = t.count("both", above, t.count("iless", place, t.fixed(size)))
                found = here if found is None else t.count("both", found, here)
        return found

    def _element(self, e: Expr) -> NumberRegister:
        t, tensor = self.tape, e.data[0]
        read = self.reads[tensor]
        address: IntegerRegister = IntegerRegister(read.first)
        for d, (place, size, may) in enumerate(self._places(e)):
            if may:
                t.do("inside", 0, place, size)
            address = t.count("iadd", address, t.count("imul", place, IntegerRegister(read.first + 1 + d)))
        data_type = tensor.data_type
        if data_type in EIGHT_BIT_FLOATS:
            raise Untranslatable("elements of 8-bit floats")
        if data_type.element_bits == 4:  # an element is in each byte here
            data_type = DataType.of(data_type.unpacked_dtype)
        return t.make(f"load_{data_type.name}", address)

    # --- reductions ---

    def _reduction(self, e: Expr) -> NumberRegister:
        """The loops of a reduction. Its result is reused until a variable that it depends on changes."""
        t, kind = self.tape, e.data[0]
        if kind not in _START:
            raise Untranslatable(f"a reduction of kind {kind}")
        depends = sorted(free(e)[e], key=lambda v: (v.name, id(v)))
        out, done, compute, some = t.number(), Label(), Label(), t.integer()
        kept, there = [t.integer() for _ in depends], t.integer()
        same = there
        for v, before in zip(depends, kept, strict=True):
            same = t.count("both", same, t.count("iequal", self.variables[v], before))
        t.unless(same, compute)
        t.jump(done)
        t.place(compute)
        t.do("set", there, 0)
        t.do("set", some, 0)
        t.assign(out, t.value(_START[kind]))
        total = _Total(out, some, t.fixed(-4 * balls.FARTHEST))
        with self.items.inner():
            self._loops(list(bound_by(e)), e, total)
        if kind == "sum":  # the sum of no terms is +0
            added = Label()
            t.unless(t.count("not", some), added)
            t.assign(out, t.value(0))
            t.place(added)
        for v, before in zip(depends, kept, strict=True):
            t.do("icopy", before, self.variables[v])
        t.do("set", there, 1)
        t.place(done)
        return out

    def _loops(self, bound: list[Variable], e: Expr, total: _Total) -> None:
        t = self.tape
        if not bound:
            self._term(e, total)
            return
        v, *others = bound
        again, over = Label(), Label()
        i = self.variables[v] = t.integer()
        t.do("set", i, 0)
        t.place(again)
        t.unless(t.count("iless", i, t.fixed(v.size)), over)
        with self.items.inner():
            self._loops(others, e, total)
        t.do("iadd", i, i, t.fixed(1))
        t.jump(again)
        t.place(over)

    def _term(self, e: Expr, total: _Total) -> None:
        t, left_out = self.tape, Label()
        for guard in skipped(e):
            inside = self._inside(guard)
            if inside is not None:
                t.unless(inside, left_out)
        if len(e.args) > 1:
            t.unless(self._integer(e.args[1]), left_out)
        term = self._number(e.args[0])
        t.do(_STEP[e.data[0]], total.number, total.number, term)
        if e.data[0] == "sum" and t.precision.settles:
            t.do("since", total.number, term, total.largest)
        t.do("set", total.some, 1)
        t.place(left_out)
