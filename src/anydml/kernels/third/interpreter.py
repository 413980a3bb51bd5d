"""A kernel that runs tapes, for one element after another. Instructions have four words; registers hold numbers or integers.

The kernel is compiled once for all statements, for each precision of numbers. An element stays undecided if its tape needs a
sign, an order or a rounding that a radius leaves undecided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from anydml.exact.formats import FORMATS
from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.third import balls, operations, storage
from anydml.kernels.third.balls import Precision
from anydml.kernels.third.operations import UNDECIDED
from anydml.tensor import EIGHT_BIT_FLOATS, DataType

ARGUMENTS = Signature("*tape *constants *numbers *integers *places dims count *results *decided budget")
WORDS = 4  # of an instruction: its code, the register that it writes, and two operands
FORMS = {  # width of the significand's field, exponent of the smallest positive number, bits of infinity, sign bit
    t: (form.precision - 1, form.lowest, form.infinity, form.sign if form.bits < 64 else -form.sign)
    for t, form in FORMATS.items()
    if t not in EIGHT_BIT_FLOATS
}

_ARITHMETIC = ("add", "subtract", "sum", "difference", "multiply", "divide")
_BINARY = ("maximum", "minimum")
_UNARY = ("negate", "copy", "middle", "decay")
_TRUTHS = ("is_less", "is_less_equal", "is_equal")
_TO_INTEGER = ("nearest_integer", "exact_integer", "exponent")
_INTEGERS = {"iadd": "add i64", "isub": "sub i64", "imul": "mul i64", "iless": "icmp slt i64", "iless_equal": "icmp sle i64",
             "iequal": "icmp eq i64"}  # fmt: skip
_WIDTHS = {
    "INT8": "i8",
    "UINT8": "i8",
    "INT16": "i16",
    "UINT16": "i16",
    "INT32": "i32",
    "UINT32": "i32",
    "INT64": "i64",
    "UINT64": "i64",
}


class _Operands(NamedTuple):
    """The k-th word of an instruction and the register that it names: `number`, `place` are addresses, `integer` its value."""

    text: Text
    precision: Precision

    def word(self, k: int) -> str:
        return self.text.load("i64", "%at", 8 * k)

    def number(self, k: int) -> str:
        return self.text.at("%numbers", self.text.op(f"mul i64 {self.word(k)}, {self.precision.size}"))

    def place(self, k: int) -> str:
        return self.text.at("%integers", self.text.op(f"mul i64 {self.word(k)}, 8"))

    def integer(self, k: int) -> str:
        return self.text.load("i64", self.place(k))

    def height(self, k: int) -> str:
        return self.text.op(f"call i64 @height(ptr {self.number(k)})")

    def put_height(self, height: str) -> None:
        self.text.do(f"call void @put_height(ptr {self.number(1)}, i64 {height})")

    def put(self, value: str) -> None:
        self.text.store("i64", value, self.place(1))

    def form(self, data_type: DataType) -> str:
        return ", ".join(f"i64 {n}" for n in FORMS[data_type])

    def goes_on_if(self, condition: str) -> None:
        """Leave the element undecided unless a condition holds."""
        on = self.text.name("on")
        self.text.branch(condition, on, "fail")
        self.text.label(on)


def _operations() -> dict[str, Callable[[_Operands], None]]:
    """The functions that emit each instruction, by name."""
    made: dict[str, Callable[[_Operands], None]] = {}

    def binary(name: str) -> Callable[[_Operands], None]:
        def run(o: _Operands) -> None:
            o.text.do(f"call void @{name}(ptr {o.number(1)}, ptr {o.number(2)}, ptr {o.number(3)})")

        return run

    def arithmetic(name: str) -> Callable[[_Operands], None]:
        def run(o: _Operands) -> None:
            if o.precision.settles:  # before the result is written, which may be where an operand is
                height = o.text.op(f"add i64 {o.height(2)}, {o.height(3)}")
            binary({"sum": o.precision.sum, "difference": o.precision.difference}.get(name, name))(o)
            if o.precision.settles:
                o.put_height(o.text.op(f"add i64 {height}, 1"))

        return run

    def unary(name: str) -> Callable[[_Operands], None]:
        return lambda o: o.text.do(f"call void @{name}(ptr {o.number(1)}, ptr {o.number(2)})")

    def root(o: _Operands) -> None:
        if o.precision.settles:
            half = o.text.op(f"lshr i64 {o.height(2)}, 1")
        unary("root")(o)
        if o.precision.settles:
            o.put_height(o.text.op(f"add i64 {half}, 1"))

    def scale(o: _Operands) -> None:
        by = o.integer(3)
        if o.precision.settles:
            size = o.text.op(f"call i64 @llvm.abs.i64(i64 {by}, i1 false)")
            height = o.text.op(f"add i64 {o.height(2)}, {size}")
        o.text.do(f"call void @scale(ptr {o.number(1)}, ptr {o.number(2)}, i64 {by})")
        if o.precision.settles:
            o.put_height(height)

    def bound_height(o: _Operands) -> None:
        if o.precision.settles:
            o.put_height(o.text.op(f"call i64 @llvm.smin.i64(i64 {balls.UNBOUNDED}, i64 {o.integer(2)})"))

    def truth(name: str) -> Callable[[_Operands], None]:
        return lambda o: o.put(o.text.op(f"call i64 @{name}(ptr {o.number(2)}, ptr {o.number(3)})"))

    def to_integer(name: str) -> Callable[[_Operands], None]:
        def run(o: _Operands) -> None:
            pair = o.text.op(f"call {{ i64, i1 }} @{name}(ptr {o.number(2)})")
            o.goes_on_if(o.text.op(f"extractvalue {{ i64, i1 }} {pair}, 1"))
            o.put(o.text.op(f"extractvalue {{ i64, i1 }} {pair}, 0"))

        return run

    def of_integers(instruction: str) -> Callable[[_Operands], None]:
        def run(o: _Operands) -> None:
            found = o.text.op(f"{instruction} {o.integer(2)}, {o.integer(3)}")
            o.put(o.text.op(f"zext i1 {found} to i64") if instruction.startswith("icmp") else found)

        return run

    def extreme(which: str) -> Callable[[_Operands], None]:
        return lambda o: o.put(o.text.op(f"call i64 @llvm.{which}.i64(i64 {o.integer(2)}, i64 {o.integer(3)})"))

    def divided(*, rest: bool) -> Callable[[_Operands], None]:
        def run(o: _Operands) -> None:
            text, a, b = o.text, o.integer(2), o.integer(3)
            usable = text.op(f"icmp ugt i64 {b}, 0")
            o.goes_on_if(text.op(f"and i1 {usable}, {text.op(f'icmp slt i64 {b}, {1 << 62}')}"))
            q, r = text.op(f"sdiv i64 {a}, {b}"), text.op(f"srem i64 {a}, {b}")
            below = text.op(f"icmp slt i64 {r}, 0")
            q2 = text.op(f"sub i64 {q}, {text.op(f'zext i1 {below} to i64')}")
            r2 = text.op(f"select i1 {below}, i64 {text.op(f'add i64 {r}, {b}')}, i64 {r}")
            o.put(r2 if rest else q2)

        return run

    def joined(decisive: int, other: str) -> Callable[[_Operands], None]:
        """The conjunction or disjunction of two truths, which may be undecided."""

        def run(o: _Operands) -> None:
            text, a, b = o.text, o.integer(2), o.integer(3)
            either = text.op(f"or i1 {text.op(f'icmp eq i64 {a}, {decisive}')}, {text.op(f'icmp eq i64 {b}, {decisive}')}")
            undecided = text.op(f"icmp eq i64 {text.op(f'call i64 @llvm.smax.i64(i64 {a}, i64 {b})')}, {UNDECIDED}")
            rest = text.op(f"select i1 {undecided}, i64 {UNDECIDED}, i64 {other}")
            o.put(text.op(f"select i1 {either}, i64 {decisive}, i64 {rest}"))

        return run

    def negated(o: _Operands) -> None:
        text, a = o.text, o.integer(2)
        undecided = text.op(f"icmp eq i64 {a}, {UNDECIDED}")
        o.put(text.op(f"select i1 {undecided}, i64 {UNDECIDED}, i64 {text.op(f'sub i64 1, {a}')}"))

    def jump(o: _Operands) -> None:
        _go(o.text, o.word(3))

    def jump_unless(o: _Operands) -> None:
        text, a = o.text, o.integer(2)
        o.goes_on_if(text.op(f"icmp ne i64 {a}, {UNDECIDED}"))
        taken, on = text.name("taken"), text.name("straight")
        text.branch(text.op(f"icmp eq i64 {a}, 0"), taken, on)
        text.label(taken)
        _go(text, o.word(3))
        text.label(on)

    def loaded(data_type: DataType) -> Callable[[_Operands], None]:
        def run(o: _Operands) -> None:
            text, out = o.text, o.number(1)
            address = text.op(f"inttoptr i64 {o.integer(2)} to ptr")
            if data_type in FORMS:
                bits = text.load(f"i{data_type.element_bits}", address)
                bits = bits if data_type.element_bits == 64 else text.op(f"zext i{data_type.element_bits} {bits} to i64")
                text.do(f"call void @decode(ptr {out}, i64 {bits}, {o.form(data_type)})")
                return
            kind, unsigned = _WIDTHS[data_type.name], data_type.name.startswith("U")
            value = text.load(kind, address)
            if kind != "i64":
                value = text.op(f"{'z' if unsigned else 's'}ext {kind} {value} to i64")
            text.do(f"call void @{'put_unsigned' if unsigned else 'put_integer'}(ptr {out}, i64 {value})")

        return run

    def encoded(data_type: DataType) -> Callable[[_Operands], None]:
        def run(o: _Operands) -> None:
            pair = o.text.op(f"call {{ i64, i1 }} @encode(ptr {o.number(2)}, {o.form(data_type)})")
            o.goes_on_if(o.text.op(f"extractvalue {{ i64, i1 }} {pair}, 1"))
            o.put(o.text.op(f"extractvalue {{ i64, i1 }} {pair}, 0"))

        return run

    def decoded(data_type: DataType) -> Callable[[_Operands], None]:
        return lambda o: o.text.do(f"call void @decode(ptr {o.number(1)}, i64 {o.integer(2)}, {o.form(data_type)})")

    def inside(o: _Operands) -> None:
        o.goes_on_if(o.text.op(f"icmp ult i64 {o.integer(2)}, {o.word(3)}"))

    def since(o: _Operands) -> None:
        if o.precision.settles:
            o.text.do(f"call void @since(ptr {o.number(1)}, ptr {o.number(2)}, ptr {o.place(3)})")

    def constant(o: _Operands) -> None:
        source = o.text.at("%constants", o.text.op(f"mul i64 {o.word(2)}, {o.precision.size}"))
        o.text.do(f"call void @copy(ptr {o.number(1)}, ptr {source})")

    def end(o: _Operands) -> None:
        text = o.text
        slot = text.op("mul i64 %e, 8")
        text.store("i64", o.integer(2), text.at("%results", slot))
        text.store("i64", "1", text.at("%decided", slot))
        text.jump("next")
        text.label(text.name("unreached"))

    def fail(o: _Operands) -> None:
        o.text.jump("fail")
        o.text.label(o.text.name("unreached"))

    made.update({name: arithmetic(name) for name in _ARITHMETIC})
    made.update({name: binary(name) for name in _BINARY})
    made.update({name: unary(name) for name in _UNARY})
    made.update({name: truth(name) for name in _TRUTHS})
    made.update({name: to_integer(name) for name in _TO_INTEGER})
    made.update({name: of_integers(instruction) for name, instruction in _INTEGERS.items()})
    made.update(imax=extreme("smax"), imin=extreme("smin"), ifloordiv=divided(rest=False), imod=divided(rest=True))
    made.update(both=joined(0, "1"), either=joined(1, "0"))
    made["not"] = negated
    made.update({f"load_{t.name}": loaded(t) for t in DataType if t in FORMS or t.name in _WIDTHS})
    made.update({f"encode_{t.name}": encoded(t) for t in FORMS} | {f"decode_{t.name}": decoded(t) for t in FORMS})
    made["set"] = lambda o: o.put(o.word(2))
    made["icopy"] = lambda o: o.put(o.integer(2))
    made["kind"] = lambda o: o.put(o.text.load("i64", o.number(2)))
    made["sign"] = lambda o: o.put(o.text.op(f"call i64 @sign(ptr {o.number(2)})"))
    made["position"] = lambda o: o.text.do(f"call void @put_integer(ptr {o.number(1)}, i64 {o.integer(2)})")
    made.update(root=root, scale=scale, bound_height=bound_height, since=since)
    made["height"] = lambda o: o.put(o.height(2)) if o.precision.settles else o.put("0")
    made["widen"] = lambda o: o.text.do(f"call void @widen(ptr {o.number(1)}, ptr {o.number(2)}, i64 {o.word(3)})")
    made["to_whole"] = lambda o: o.text.do(f"call void @to_whole(ptr {o.number(1)}, ptr {o.number(2)}, i64 {o.word(3)})")
    made["constant"] = constant
    made.update(jump=jump, jump_unless=jump_unless, inside=inside, end=end, fail=fail)
    return made


_MADE = _operations()
CODES = {name: code for code, name in enumerate(_MADE)}


def _go(text: Text, target: str) -> None:
    """Continue at the instruction with a given number."""
    text.store("i64", target, "%counter")
    text.jump("step")


def emitted(target: Target, precision: Precision = balls.FIRST) -> str:
    """The interpreter of numbers of a precision. A budget of instructions for each element keeps it from running for long."""
    text = Text()
    text.do("%counter = alloca i64, align 8")
    text.do("%spent = alloca i64, align 8")
    ARGUMENTS.load(text)
    text.jump("first")
    text.label("first")
    text.jump("elements")
    text.label("elements")
    text.do("%e = phi i64 [ 0, %first ], [ %e1, %next ]")
    text.branch(text.op("icmp ult i64 %e, %count"), "begin", "finished")
    text.label("begin")
    width = text.op("mul i64 %dims, 8")
    source = text.at("%places", text.op(f"mul i64 %e, {width}"))
    text.do(f"call void @llvm.memcpy.p0.p0.i64(ptr %integers, ptr {source}, i64 {width}, i1 false)")
    text.store("i64", "0", "%counter")
    text.store("i64", "0", "%spent")
    text.jump("step")
    text.label("step")
    number = text.load("i64", "%counter")
    spent = text.op(f"add i64 {text.load('i64', '%spent')}, 1")
    text.store("i64", spent, "%spent")
    text.store("i64", text.op(f"add i64 {number}, 1"), "%counter")
    place = text.op(f"mul i64 {number}, {8 * WORDS}")
    text.do(f"%at = getelementptr i8, ptr %tape, i64 {place}")
    text.branch(text.op(f"icmp ugt i64 {spent}, %budget"), "fail", "dispatch")
    text.label("dispatch")
    code = text.load("i64", "%at")
    cases = "\n".join(f"    i64 {code}, label %do.{name}" for name, code in CODES.items())
    text.do(f"switch i64 {code}, label %fail [\n{cases} ]")
    for name, run in _MADE.items():
        text.label(f"do.{name}")
        run(_Operands(text, precision))
        text.jump("step")
    text.label("fail")
    text.jump("next")
    text.label("next")
    text.do("%e1 = add i64 %e, 1")
    text.jump("elements")
    text.label("finished")
    text.do("ret i64 0")
    declared = [
        *balls.declared(precision),
        "declare i64 @llvm.abs.i64(i64, i1)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    ]
    return kernel(text, [*declared, *operations.functions(precision), *storage.functions(precision)])
