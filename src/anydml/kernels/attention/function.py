"""Functions of an LLVM module that call one another: each takes the kernel's arguments, and integers of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anydml.kernels.attention.key import ENTRY, STRIDES, AttentionKey, KeptKey
from anydml.kernels.code.emit import fold, shuffle, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.numbers import singles
from anydml.kernels.undecided.lists import UndecidedList

DOUBLE, WORD, BYTE = Kind("double"), Kind("i64"), Kind("i8")


class Function(Body):
    """The body of a named function; parameters: "ptr x", "i64 y", .., which are %x, %y."""

    def __init__(self, target: Target, key: AttentionKey | KeptKey, name: str, parameters: Sequence[str] = ()) -> None:
        super().__init__(target)
        self.key, self.title = key, name
        self.parameters = [p.split()[0] + " %" + p.split()[1] for p in parameters]
        self.signature = key.signature
        self.on_device = target.architecture == "opencl"  # of scalars, with the kernel's arguments by name
        self.lanes = 1 if self.on_device else target.vector_bytes // 8
        self.across = 1 if self.on_device else tile.vectors(target)  # vectors of keys in a panel
        self.wide = self.kind("double")

    def text(self) -> str:
        """The function; it returns nothing."""
        start = ", ".join(["ptr %arguments", *self.parameters])
        return "\n".join([f"define internal void @{self.title}({start}) {{", "entry:", *self.lines, "  ret void", "}"])

    def entry(self) -> str:
        """The function as the kernel."""
        return "\n".join(["define i64 @kernel(ptr %arguments) {", "entry:", *self.lines, "  ret i64 0", "}"])

    def argument(self, name: str) -> str:
        """One of the kernel's arguments: an address, or a number."""
        kind = "ptr" if name in self.signature.pointers else "i64"
        if self.on_device:
            return f"%m_{name}" if kind == "ptr" else self.load(kind, "%numbers", 8 * self.signature.names.index(name))
        return self.op(f"load {kind}, ptr {self.at('%arguments', 8 * self.signature.names.index(name))}, align 8")

    def argument_offset(self, name: str) -> str:
        """On an OpenCL device, the bytes before a tensor's first element, a number in the place of its address."""
        return self.load("i64", "%numbers", 8 * self.signature.names.index(name))

    def undecided(self) -> UndecidedList:
        """The list of undecided elements: the number of a query in a block, the place of a vector in its row, and lanes."""
        return (
            OpenBits(self, ENTRY)
            if self.on_device
            else UndecidedList(self, ENTRY, self.argument("state"), self.argument("list"))
        )

    def real(self, name: str) -> Value:
        """An argument that is the bits of a float64."""
        return self.value(f"bitcast i64 {self.argument(name)} to double", DOUBLE)

    def call_of(self, name: str, *arguments: str) -> None:
        """Call another function; arguments include their types."""
        given = ["ptr %arguments"]
        if self.on_device:
            given = ["ptr %numbers", *(f"ptr %m_{x}" for x in self.signature.names if x in self.signature.pointers)]
        self.do(f"call void @{name}({', '.join([*given, *arguments])})")

    def place(self, name: str, **index: str) -> str:
        """The address of an element of a tensor; index: by axis, 0 of the others."""
        found = self.argument(name)
        for axis in STRIDES[name]:
            if axis in index:
                found = self.at(found, self.times(index[axis], self.argument(f"{name}_{axis}")))
        return found

    def times(self, a: str, b: str | int) -> str:
        return self.op(f"mul i64 {a}, {b}")

    def plus(self, a: str, b: str | int) -> str:
        return self.op(f"add i64 {a}, {b}")

    def minus(self, a: str, b: str | int) -> str:
        return self.op(f"sub i64 {a}, {b}")

    def over(self, a: str, b: str | int) -> str:
        """The quotient of two numbers that are not negative, rounded down."""
        return self.op(f"udiv i64 {a}, {b}")

    def least(self, a: str, b: str) -> str:
        return self.call("llvm.smin.i64", WORD, f"i64 {a}", f"i64 {b}").name

    def most(self, a: str, b: str) -> str:
        return self.call("llvm.smax.i64", WORD, f"i64 {a}", f"i64 {b}").name

    def word(self, name: str) -> Value:
        return Value(self, name, WORD)

    def kind(self, element: str) -> Kind:
        """A vector of such elements."""
        return Kind(element, 0 if self.on_device else self.lanes)

    def splat(self, scalar: Value, lanes: int) -> Value:
        return scalar if self.on_device else super().splat(scalar, lanes)

    def all(self, scalar: Value) -> Value:
        """A vector with a scalar in every lane."""
        return self.splat(scalar, self.lanes)

    def lane_numbers(self, element: str = "i64") -> Value:
        """0, 1, 2 .. in the lanes."""
        return self.constant(Kind(element), 0) if self.on_device else self.constants(element, range(self.lanes))

    def each(self, start: str, end: str, body: Callable[[str], None], step: int = 1) -> str:
        """A loop without carried values; returns the index at its end."""

        def inside(i: str, _: list[str]) -> list[str]:
            body(i)
            return []

        return fold(self, start, end, step, [], inside)[0]

    def when(self, condition: str, body: Callable[[], None]) -> None:
        when(self, condition, body)

    def combined(self, x: Value, how: Callable[[Value, Value], Value]) -> Value:
        """The lanes of a vector combined to one scalar, half with half."""
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            order = [k if k >= 0 else -1 for k in (*range(lanes, 2 * lanes), *[-1] * (self.lanes - lanes))]
            x = how(x, Value(self, shuffle(self, x.name, x.name, x.kind.text, order), x.kind))
        return x.lane(0)

    def loaded_real(self, pointer: str, offset: int | str = 0, lanes: int = 0) -> Value:
        return self.loaded(Kind("double", lanes), pointer, offset)

    def element(self, pointer: str, lanes: int = 0) -> Value:
        """Elements of the tensors' type, as float64."""
        return self.widened(self.loaded(self.bits_kind(lanes), pointer))

    def bits_kind(self, lanes: int = 0) -> Kind:
        return Kind(f"i{self.key.data_type.element_bits}", lanes)

    def widened(self, bits: Value) -> Value:
        single = singles.widened(bits, self.key.data_type)
        return single.converted("fpext", bits.kind.of("double"))

    @property
    def itemsize(self) -> int:
        return self.key.data_type.dtype.itemsize

    def fill(self, name: str, own: str, width: str, **index: str) -> None:
        """Copy a bias to scratch as a row of float64."""
        place, step = self.place(name, **index), self.argument(f"{name}_{STRIDES[name][-1]}")
        pitch = self.argument("head_row" if width == "head" else "column_row")
        self.fill_rows(self.argument(own), place, "1", "0", step, self.argument(width), pitch, "")

    def fill_rows(self, into: str, source: str, count: str, row: str, step: str, width: str, pitch: str, bias: str) -> None:
        """Copy rows to scratch as float64: see `rows.filled`."""
        numbers = (f"i64 {x}" for x in (count, row, step, width, pitch))
        biased = ("filled_biased", f"ptr {bias}") if bias else ("filled",)
        self.call_of(biased[0], f"ptr {into}", f"ptr {source}", *numbers, *biased[1:])

    def length(self, o: str, p: str) -> str:
        """The number of rows that come before others."""
        if not self.key.has("length"):
            return self.argument("fixed")
        found = self.loaded(Kind("i32"), self.place("length", o=o, p=p)).converted("sext", WORD).name
        return self.least(self.most(found, "0"), self.argument("most"))

    def seen(self, s: str) -> str:
        """The keys that query s sees; %o and %p are parameters."""
        keys = self.argument("keys")
        if not (isinstance(self.key, AttentionKey) and self.key.seen):
            return keys
        length = self.length("%o", "%p")
        return self.least(self.least(self.plus(length, self.plus(s, 1)), self.plus(length, self.argument("seen"))), keys)

    def run(
        self, width: str, contiguous: str, carried: Sequence[Value], body: Callable[[str, int, list[Value]], list[Value]]
    ) -> list[Value]:
        """`body(i, lanes, values)` for elements, in vectors where they are contiguous, and one by one (lanes = 0) elsewhere.

        Carried values are vectors; single elements use the first lane.
        """
        if self.on_device:
            return self.loop("0", width, 1, carried, lambda i, values: body(i, 0, values))[1]
        whole = self.op(f"select i1 {contiguous}, i64 {width}, i64 0")
        i, made = self.loop("0", whole, self.lanes, carried, lambda i, values: body(i, self.lanes, values))
        scalars = [x.lane(0) for x in made]
        rest = self.loop(i, width, 1, scalars, lambda i, values: body(i, 0, values))[1]
        return [x.replaced(0, y) for x, y in zip(made, rest, strict=True)]


class OpenBits(UndecidedList):
    """The bits of a query's undecided elements, at %m_open."""

    def append(self, *entry: str, count: str | None = None) -> None:
        """Set the bit of an element, by its query, its place in its row in bytes, and its lane."""
        body, column = self.body, self.body.op(f"udiv i64 {entry[1]}, 8")
        at = body.at("%m_open", body.op(f"udiv i64 {column}, 8"))
        bit = Value(body, "1", WORD) << Value(body, body.op(f"and i64 {column}, 7"), WORD)
        body.stored(body.loaded(BYTE, at) | bit.converted("trunc", BYTE), at)
