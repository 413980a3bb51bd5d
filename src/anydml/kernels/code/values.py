"""Typed values: an SSA value knows its type, arithmetic on it emits instructions, and an intrinsic declares itself.

A value is a scalar or a vector; a function written for one works for any number of lanes. A Python number in an operation with
a value is a constant of its type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from anydml.kernels.code.emit import Text, fold
from anydml.kernels.code.targets import Target

_SUFFIXES = {"double": "f64", "float": "f32", "half": "f16"}


class Kind(NamedTuple):
    """An LLVM type: an element ("double", "float", "half", "i1" .. "i64", "ptr") and the number of lanes, 0 for a scalar."""

    element: str
    lanes: int = 0

    @property
    def text(self) -> str:
        return f"<{self.lanes} x {self.element}>" if self.lanes else self.element

    @property
    def floating(self) -> bool:
        return self.element in _SUFFIXES

    @property
    def bits(self) -> int:
        return {"double": 64, "float": 32, "half": 16, "ptr": 64}.get(self.element) or int(self.element[1:])

    def of(self, element: str) -> Kind:
        """As many elements of another type."""
        return Kind(element, self.lanes)

    @property
    def integer(self) -> Kind:
        """As many integers of the same width."""
        return self.of(f"i{self.bits}")


class Body(Text):
    """A function that is being emitted for a target. declared: the intrinsics that it calls."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target
        self.declared: dict[str, None] = {}
        # a part of every AArch64
        self.has_fma = "fma" in target.features or target.architecture == "aarch64"
        self.has_rounding = "sse4.1" in target.features or target.architecture == "aarch64"
        self.has_halves = "f16c" in target.features or target.architecture == "aarch64"

    def value(self, instruction: str, kind: Kind) -> Value:
        """An instruction and the type of its result."""
        return Value(self, self.op(instruction), kind)

    def constant(self, kind: Kind, x: float | int | bool) -> Value:
        """The same number in every lane."""
        literal = _literal(kind.element, x)
        return Value(self, f"<{', '.join([f'{kind.element} {literal}'] * kind.lanes)}>" if kind.lanes else literal, kind)

    def constants(self, element: str, xs: Sequence[float | int]) -> Value:
        """A vector of numbers."""
        return Value(self, f"<{', '.join(f'{element} {_literal(element, x)}' for x in xs)}>", Kind(element, len(xs)))

    def undefined(self, kind: Kind) -> Value:
        return Value(self, "poison", kind)

    def call(self, name: str, result: Kind, *arguments: Value | str) -> Value:
        """An intrinsic by its whole name; an argument given as text contains its type, such as "i1 true"."""
        texts = [f"{a.kind.text} {a.name}" if isinstance(a, Value) else a for a in arguments]
        kinds = [a.kind.text if isinstance(a, Value) else a.split(" ", 1)[0] for a in arguments]
        self.declared[f"declare {result.text} @{name}({', '.join(kinds)})"] = None
        return self.value(f"call {result.text} @{name}({', '.join(texts)})", result)

    def intrinsic(self, name: str, first: Value, *others: Value | str) -> Value:
        """An overloaded intrinsic whose result has the type of its first argument: "sqrt" is llvm.sqrt.v4f64."""
        kind = first.kind
        suffix = _SUFFIXES.get(kind.element, kind.element)
        return self.call(f"llvm.{name}.{f'v{kind.lanes}' if kind.lanes else ''}{suffix}", kind, first, *others)

    def loaded(self, kind: Kind, pointer: str, offset: int | str = 0) -> Value:
        return Value(self, self.load(kind.text, pointer, offset), kind)

    def masked(self, kind: Kind, pointer: str, active: Value, offsets: Value | None = None) -> Value:
        """The elements of active lanes, contiguous or at byte offsets from a pointer, and zeros in the others."""
        suffix, pointers, at = f"v{kind.lanes}{kind.element}", "ptr", f"ptr {pointer}"
        name = f"llvm.masked.load.{suffix}.p0"
        if offsets is not None:
            name, pointers = f"llvm.masked.gather.{suffix}.v{kind.lanes}p0", f"<{kind.lanes} x ptr>"
            at = f"{pointers} {self.op(f'getelementptr i8, ptr {pointer}, {offsets!r}')}"
        self.declared[f"declare {kind.text} @{name}({pointers}, i32, {active.kind.text}, {kind.text})"] = None
        return self.value(f"call {kind.text} @{name}({at}, i32 1, {active!r}, {kind.text} zeroinitializer)", kind)

    def stored(self, value: Value, pointer: str, offset: int | str = 0) -> None:
        self.store(value.kind.text, value.name, pointer, offset)

    def splat(self, scalar: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        vector = Kind(scalar.kind.element, lanes)
        first = self.op(f"insertelement {vector.text} poison, {scalar.kind.text} {scalar.name}, i32 0")
        return self.value(f"shufflevector {vector.text} {first}, {vector.text} poison, <{lanes} x i32> zeroinitializer", vector)

    def chosen(self, condition: Value, x: Value | float, y: Value | float) -> Value:
        """x in the lanes where the condition holds, else y."""
        if not isinstance(x, Value):
            assert isinstance(y, Value)
            x = y.lift(x)
        y = x.lift(y)
        return self.value(
            f"select {condition.kind.text} {condition.name}, {x.kind.text} {x.name}, {y.kind.text} {y.name}", x.kind
        )

    def fused(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """a * b + c: rounded once if the target has such an instruction, else twice."""
        b, c = a.lift(b), a.lift(c)
        return self.intrinsic("fma", a, b, c) if self.has_fma else a * b + c

    def loop(
        self, start: str, end: str, step: int, carried: Sequence[Value], body: Callable[[str, list[Value]], list[Value]]
    ) -> tuple[str, list[Value]]:
        """`fold` of typed values: body(i, values) for i = start, start + step .. while i + step <= end."""
        kinds = [v.kind for v in carried]

        def inside(i: str, names: list[str]) -> list[str]:
            made = body(i, [Value(self, name, kind) for name, kind in zip(names, kinds, strict=True)])
            return [v.name for v in made]

        i, names = fold(self, start, end, step, [(v.kind.text, v.name) for v in carried], inside)
        return i, [Value(self, name, kind) for name, kind in zip(names, kinds, strict=True)]

    def either(
        self, condition: str, yes: Callable[[], Sequence[Value]], no: Callable[[], Sequence[Value]], *, seldom: bool = False
    ) -> list[Value]:
        """The values that one of two branches makes. seldom: the condition rarely holds."""
        labels, after = (self.name("yes"), self.name("no")), self.name("after")
        self.branch(condition, *labels, seldom=seldom)
        ways = []
        for label, make in zip(labels, (yes, no), strict=True):
            self.label(label)
            made, end = make(), self.name("made")
            self.jump(end)
            self.label(end)
            self.jump(after)
            ways.append([(value, end) for value in made])
        self.label(after)
        return [
            self.value(f"phi {x.kind.text} [ {x.name}, %{a} ], [ {y.name}, %{b} ]", x.kind)
            for (x, a), (y, b) in zip(*ways, strict=True)
        ]


class Value:
    """An SSA value, or a constant, and its type."""

    __slots__ = ("body", "kind", "name")

    def __init__(self, body: Body, name: str, kind: Kind) -> None:
        self.body, self.name, self.kind = body, name, kind

    def __repr__(self) -> str:
        return f"{self.kind.text} {self.name}"

    def lift(self, x: Value | float) -> Value:
        """An operand of this value's type; a number becomes a constant."""
        if isinstance(x, Value):
            assert x.kind == self.kind, (self, x)
            return x
        return self.body.constant(self.kind, x)

    def _with(self, floating: str, whole: str, other: Value | float) -> Value:
        other = self.lift(other)
        instruction = floating if self.kind.floating else whole
        return self.body.value(f"{instruction} {self.kind.text} {self.name}, {other.name}", self.kind)

    def __add__(self, other: Value | float) -> Value:
        return self._with("fadd", "add", other)

    def __radd__(self, other: float) -> Value:
        return self.lift(other) + self

    def __sub__(self, other: Value | float) -> Value:
        return self._with("fsub", "sub", other)

    def __rsub__(self, other: float) -> Value:
        return self.lift(other) - self

    def __mul__(self, other: Value | float) -> Value:
        return self._with("fmul", "mul", other)

    def __rmul__(self, other: float) -> Value:
        return self.lift(other) * self

    def __truediv__(self, other: Value | float) -> Value:
        assert self.kind.floating
        return self._with("fdiv", "", other)

    def __rtruediv__(self, other: float) -> Value:
        return self.lift(other) / self

    def __and__(self, other: Value | int) -> Value:
        return self._with("", "and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._with("", "or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._with("", "xor", other)

    def __lshift__(self, other: Value | int) -> Value:
        return self._with("", "shl", other)

    def __invert__(self) -> Value:
        return self ^ -1

    def __neg__(self) -> Value:
        return self.body.value(f"fneg {self.kind.text} {self.name}", self.kind) if self.kind.floating else 0 - self

    def shifted_right(self, by: Value | int, *, signed: bool) -> Value:
        return self._with("", "ashr" if signed else "lshr", by)

    def compared(self, how: str, other: Value | float) -> Value:
        """LLVM's predicate: "olt", "one", "ord", .. of floats, "eq", "slt", "ult", .. of integers."""
        other = self.lift(other)
        instruction = "fcmp" if self.kind.floating else "icmp"
        return self.body.value(f"{instruction} {how} {self.kind.text} {self.name}, {other.name}", self.kind.of("i1"))

    def bits(self) -> Value:
        """The bits of floats as integers."""
        return self.cast(self.kind.integer)

    def cast(self, kind: Kind) -> Value:
        """The same bits as another type."""
        return self.converted("bitcast", kind)

    def converted(self, how: str, kind: Kind) -> Value:
        """LLVM's conversions: "fpext", "fptrunc", "sitofp", "fptosi", "sext", "zext", "trunc", .."""
        if kind == self.kind:
            return self
        return self.body.value(f"{how} {self.kind.text} {self.name} to {kind.text}", kind)

    def magnitude(self) -> Value:
        """|x| of a float."""
        return self.body.intrinsic("fabs", self)

    def root(self) -> Value:
        """The square root, rounded once."""
        return self.body.intrinsic("sqrt", self)

    def signed_as(self, sign: Value) -> Value:
        """The magnitude of a float with the sign of another."""
        return self.body.intrinsic("copysign", self, sign)

    def lane(self, i: int | str) -> Value:
        """One element of a vector; a scalar is its only one."""
        if not self.kind.lanes:
            return self
        return self.body.value(f"extractelement {self.kind.text} {self.name}, i32 {i}", Kind(self.kind.element))

    def replaced(self, i: int | str, x: Value) -> Value:
        """The vector with one element replaced."""
        return self.body.value(f"insertelement {self.kind.text} {self.name}, {x.kind.text} {x.name}, i32 {i}", self.kind)


def part(v: Value, first: int, count: int, times: int = 1) -> Value:
    """Some lanes of a vector, or the first lane repeated `times` times."""
    mask = ", ".join(f"i32 {first + lane}" for lane in range(count)) if times == 1 else ", ".join(["i32 0"] * times)
    lanes = count * times
    return v.body.value(
        f"shufflevector {v.kind.text} {v.name}, {v.kind.text} poison, <{lanes} x i32> <{mask}>", Kind(v.kind.element, lanes)
    )


def _literal(element: str, x: float | int | bool) -> str:
    if element in ("double", "float"):
        # float literals are written as the double of the same value
        rounded = struct.unpack("<f", struct.pack("<f", x))[0] if element == "float" else float(x)
        return "0x" + struct.pack(">d", rounded).hex().upper()
    if element == "half":
        return "0xH" + struct.pack(">e", x).hex().upper()
    if element == "i1":
        return "true" if x else "false"
    assert x == int(x)
    return str(int(x))


def left_by_first_stage(undecided: Value) -> Value:
    """The lanes that a first stage leaves undecided: or all lanes if elements begin at a later stage."""
    body = undecided.body
    return body.constant(undecided.kind, True) if body.target.later else undecided


def left_by_second_stage(undecided: Value) -> Value:
    """The lanes that a second stage leaves undecided: or all lanes if elements begin at the third stage or later."""
    body = undecided.body
    return body.constant(undecided.kind, True) if body.target.exact else undecided
