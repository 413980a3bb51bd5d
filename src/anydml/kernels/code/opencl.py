"""OpenCL C from the LLVM IR of kernels that compute one element in each work item.

Only instructions on scalars are translated, as emitters write them for bodies with 0 lanes; a pointer is one to global memory.
Nothing is contracted, and blocks become labels, so that the text computes what the instructions do.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import FIRST, Target
from anydml.kernels.code.values import Body, Value

LOCAL = "ptr addrspace(3)"
UNSIGNED = {"i1": "bool", "i8": "uchar", "i16": "ushort", "i32": "uint", "i64": "ulong"}
SIGNED = {"i8": "char", "i16": "short", "i32": "int", "i64": "long"}
TYPES = {**UNSIGNED, "float": "float", "double": "double", "ptr": "global uchar *", LOCAL: "local uchar *"}

_BINARY = {
    "fadd": "+",
    "fsub": "-",
    "fmul": "*",
    "fdiv": "/",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "udiv": "/",
    "urem": "%",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "lshr": ">>",
}
_OF_SIGNED = {"sdiv": "/", "srem": "%"}
_OF_BITS = {"and": "&&", "or": "||", "xor": "!="}
_FLOATS_COMPARED = {
    "oeq": "{a} == {b}",
    "olt": "{a} < {b}",
    "ogt": "{a} > {b}",
    "ole": "{a} <= {b}",
    "oge": "{a} >= {b}",
    "une": "{a} != {b}",
    "one": "({a} < {b} || {a} > {b})",
    "ueq": "!({a} < {b} || {a} > {b})",
    "ult": "!({a} >= {b})",
    "ugt": "!({a} <= {b})",
    "ule": "!({a} > {b})",
    "uge": "!({a} < {b})",
    "ord": "({a} == {a} && {b} == {b})",
    "uno": "({a} != {a} || {b} != {b})",
}
_WHOLES_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OWN = {"global_id": "get_global_id(0)", "global_size": "get_global_size(0)", "local_id": "get_local_id(0)"}
_OWN |= {"group_id": "get_group_id(0)", "groups": "get_num_groups(0)"}
_TYPE = r"(ptr addrspace\(3\)|ptr|double|float|i\d+)"

# fmax and fmin lose a NaN, and may lose the sign of a zero; a division of float32 need not be rounded correctly; pocl's rint,
# floor, ceil and trunc are functions, which take a hundred times as long as the processor's instruction
PRELUDE = """#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
#ifdef SINGLE_IS_EXACT
#define QUOTIENT(a, b) ((a) / (b))
#define ROOT(a) sqrt(a)
#else
#define QUOTIENT(a, b) ((float)((double)(a) / (double)(b)))
#define ROOT(a) ((float)sqrt((double)(a)))
#endif
#if defined(__clang__) && defined(__SSE4_1__)
#define INTEGRAL(name, own) \\
  float __attribute__((overloadable)) name(float x) { return __builtin_##own##f(x); } \\
  double __attribute__((overloadable)) name(double x) { return __builtin_##own(x); }
#else
#define INTEGRAL(name, own) \\
  float __attribute__((overloadable)) name(float x) { return own(x); } \\
  double __attribute__((overloadable)) name(double x) { return own(x); }
#endif
INTEGRAL(nearest_integer, rint)
INTEGRAL(integer_below, floor)
INTEGRAL(integer_above, ceil)
INTEGRAL(integer_part, trunc)
float __attribute__((overloadable)) maximum(float a, float b) {
  return a != a || b != b ? a + b : a > b ? a : b > a ? b : as_float(as_uint(a) & as_uint(b));
}
float __attribute__((overloadable)) minimum(float a, float b) {
  return a != a || b != b ? a + b : a < b ? a : b < a ? b : as_float(as_uint(a) | as_uint(b));
}
double __attribute__((overloadable)) maximum(double a, double b) {
  return a != a || b != b ? a + b : a > b ? a : b > a ? b : as_double(as_ulong(a) & as_ulong(b));
}
double __attribute__((overloadable)) minimum(double a, double b) {
  return a != a || b != b ? a + b : a < b ? a : b < a ? b : as_double(as_ulong(a) | as_ulong(b));
}
"""


def target(stage: str = FIRST) -> Target:
    """The target of emitters: fused operations and roundings to integers, no conversion of half precision."""
    return _TARGETS.setdefault(stage, Target("opencl", "opencl", ("fma", "sse4.1"), 16, stage))


_TARGETS: dict[str, Target] = {}


class Argument(NamedTuple):
    """An argument of a kernel: an LLVM type and a name without "%"."""

    kind: str
    name: str


def program(kernels: Iterable[str]) -> str:
    """The text of a program."""
    return PRELUDE + "\n".join(kernels)


def kernel(name: str, arguments: Sequence[Argument], body: Body, group: int = 0) -> str:
    """A kernel with the body written so far. group: the work items of a group, if the body depends on it.

    Uncompilable for an instruction that has no translation.
    """
    attribute = f"__attribute__((reqd_work_group_size({group}, 1, 1))) " if group else ""
    return "\n".join([*helpers(body), function(name, arguments, body, result=f"kernel {attribute}void")])


def function(
    name: str, arguments: Sequence[Argument], body: Body, value: Value | None = None, result: str = "static void"
) -> str:
    """A function of a program with the body written so far, which returns a value, if one is given."""
    last = []
    if value is not None:
        result, last = TYPES[value.kind.element], [f"  return {_operand(value.kind.element, value.name)};"]
    head = f"{result} {name}({', '.join(_declared(kind, f'%{n}') for kind, n in arguments)}) {{"
    return "\n".join([head, *_translated(body.lines).text(), *last, "}\n"])


def helpers(*bodies: Body) -> list[str]:
    """The functions that bodies have declared with their text, each once."""
    found = {text: None for body in bodies for text in body.declared if text.startswith("define ")}
    return [_helper(text) for text in found]


def _helper(text: str) -> str:
    """A function that a kernel calls, from its whole text."""
    head, *lines = text.splitlines()
    found = re.fullmatch(rf"define internal {_TYPE} @([\w.]+)\((.*)\) noinline {{", head)
    if found is None:
        raise Uncompilable(f"OpenCL C has no translation of {head!r}")
    result, name, inside = found.groups()
    arguments = [_declared(kind, value) for kind, value in re.findall(rf"{_TYPE} (%[\w.]+)", inside)]
    made = _translated([line for line in lines if line not in ("entry:", "}")])
    return "\n".join([f"static {TYPES[result]} {name}({', '.join(arguments)}) {{", *made.text(), "}"])


def _translated(instructions: Sequence[str]) -> _Function:
    made = _Function()
    lines = [re.sub(r"\bi0\b", "i1", line.strip().split(", !")[0]) for line in instructions]  # the bits of a mask of 0 lanes
    for line in lines:
        made.find_phis(line)
    made.block = "entry"
    for line in lines:
        made.translate(line)
    return made


def _declared(kind: str, name: str) -> str:
    text = TYPES[kind]
    return f"{text}{'' if text.endswith('*') else ' '}{_name(name)}"


def _name(value: str) -> str:
    return "v_" + value[1:].replace(".", "_")


def _operand(kind: str, value: str) -> str:
    """A value, or a constant by its bits."""
    if value.startswith("%"):
        return _name(value)
    if value in ("poison", "undef", "zeroinitializer"):
        value = "0"
    if kind in ("double", "float"):
        bits = int(value, 16) if value.startswith("0x") else struct.unpack(">Q", struct.pack(">d", float(value)))[0]
        if kind == "double":
            return f"as_double(0x{bits:016x}UL)"
        single = struct.pack(">f", struct.unpack(">d", struct.pack(">Q", bits))[0])
        return f"as_float(0x{single.hex()}u)"
    if kind == "i1":
        return "true" if value in ("true", "1", "-1") else "false"
    if kind not in UNSIGNED:
        raise Uncompilable(f"a constant of type {kind}")
    bits = int(value) & ((1 << int(kind[1:])) - 1)
    return f"0x{bits:x}UL" if kind == "i64" else f"(({UNSIGNED[kind]})0x{bits:x}u)"


class _Function:
    """Statements of one kernel. block: the label of the block that is being translated."""

    _INTRINSICS: ClassVar[dict[str, str]] = {  # LLVM's names, and OpenCL's
        "fma": "fma",
        "fabs": "fabs",
        "copysign": "copysign",
        "trunc": "integer_part",
        "floor": "integer_below",
        "ceil": "integer_above",
        "roundeven": "nearest_integer",
        "rint": "nearest_integer",
        "maximum": "maximum",
        "minimum": "minimum",
        "umin": "min",
        "umax": "max",
        "ctpop": "popcount",
        "smin": "min",
        "smax": "max",
    }

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.local: list[str] = []
        self.variables: dict[str, str] = {}  # value -> type
        self.phis: dict[tuple[str, str], list[tuple[str, str, str]]] = {}  # (from, to) -> (value, type, operand)
        self.block = "entry"

    def text(self) -> list[str]:
        """The lines of the function's block."""
        variables = [f"  {_declared(kind, name)};" for name, kind in self.variables.items()]
        return [*self.local, *variables, *(f"  {line}" for line in self.lines)]

    def find_phis(self, line: str) -> None:
        if line.endswith(":"):
            self.block = line[:-1]
        elif found := re.match(rf"(%\S+) = phi {_TYPE} (.*)", line):
            for operand, origin in re.findall(r"\[ (\S+), %([\w.]+) \]", found[3]):
                self.phis.setdefault((origin, self.block), []).append((found[1], found[2], operand))

    def translate(self, line: str) -> None:
        if not line:
            return
        if line.endswith(":"):
            self.block = line[:-1]
            self.lines.append(f"L_{self.block}:;")
        elif found := re.fullmatch(r"(%\S+) = (\w+) (.*)", line):
            name, operation, rest = found.groups()
            kind, text = self._value(operation, rest)
            if operation == "phi":
                self.variables[f"{name}.next"] = kind
                text = _name(f"{name}.next")
            self.variables[name] = kind
            self.lines.append(f"{_name(name)} = {text};")
        else:
            self.lines.append(self._statement(line))

    def _statement(self, line: str) -> str:
        if found := re.fullmatch(r"br label %([\w.]+)", line):
            return self._jump(found[1])
        if found := re.fullmatch(r"br i1 (\S+), label %([\w.]+), label %([\w.]+)", line):
            return f"if ({_operand('i1', found[1])}) {{ {self._jump(found[2])} }} else {{ {self._jump(found[3])} }}"
        if found := re.match(rf"store {_TYPE} (\S+), {_TYPE} (\S+), align", line):
            kind, value, space, pointer = found.groups()
            return f"*({self._pointed(kind, space)})({_operand(space, pointer)}) = {_operand(kind, value)};"
        if line == "ret void":
            return "return;"
        if found := re.fullmatch(rf"ret {_TYPE} (\S+)", line):
            return f"return {_operand(found[1], found[2])};"
        if line == "call void @barrier()":
            return "barrier(CLK_LOCAL_MEM_FENCE);"
        if found := re.fullmatch(r"call void @(\w+)\((.*)\)", line):
            given = re.findall(rf"{_TYPE} ([^\s,()]+)", found[2])
            return f"{found[1]}({', '.join(_operand(*a) for a in given)});"
        raise Uncompilable(f"OpenCL C has no translation of {line!r}")

    def _pointed(self, kind: str, space: str) -> str:
        return f"{'local' if space == LOCAL else 'global'} {TYPES[kind]} *"

    def _jump(self, to: str) -> str:
        moves = [f"{_name(f'{x}.next')} = {_operand(kind, y)}; " for x, kind, y in self.phis.get((self.block, to), ())]
        return f"{''.join(moves)}goto L_{to};"

    def _value(self, operation: str, rest: str) -> tuple[str, str]:
        """The type of an instruction's result, and its expression."""
        if operation in _BINARY:
            return self._binary(operation, rest)
        if (make := self._TABLE.get(operation)) is None:
            raise Uncompilable(f"OpenCL C has no translation of {operation}")
        return make(self, operation, rest)

    def _parts(self, pattern: str, rest: str) -> tuple[str, ...]:
        if (found := re.match(pattern, rest)) is None:
            raise Uncompilable(f"OpenCL C has no translation of operands {rest!r}")
        return found.groups()

    def _binary(self, operation: str, rest: str) -> tuple[str, str]:
        kind, x, y = self._parts(rf"(?:nuw |nsw |exact )*{_TYPE} (\S+), (\S+)", rest)
        a, b = _operand(kind, x), _operand(kind, y)
        if kind == "i1":
            if operation not in _OF_BITS:
                raise Uncompilable(f"OpenCL C has no translation of {operation} of bits")
            return kind, f"{a} {_OF_BITS[operation]} {b}"
        if operation == "fdiv" and kind == "float":
            return kind, f"QUOTIENT({a}, {b})"
        text = f"{a} {_BINARY[operation]} {b}"
        return kind, text if kind in ("float", "double") else f"({UNSIGNED[kind]})({text})"

    def _signed(self, operation: str, rest: str) -> tuple[str, str]:
        kind, x, y = self._parts(rf"(?:exact )?{_TYPE} (\S+), (\S+)", rest)
        a, b, signed = _operand(kind, x), _operand(kind, y), SIGNED[kind]
        if operation == "ashr":
            return kind, f"({UNSIGNED[kind]})(({signed}){a} >> {b})"
        return kind, f"({UNSIGNED[kind]})(({signed}){a} {_OF_SIGNED[operation]} ({signed}){b})"

    def _negated(self, operation: str, rest: str) -> tuple[str, str]:
        kind, x = self._parts(rf"{_TYPE} (\S+)", rest)
        return kind, f"-{_operand(kind, x)}"

    def _phi(self, operation: str, rest: str) -> tuple[str, str]:
        return self._parts(rf"{_TYPE} ", rest)[0], ""

    def _compared_floats(self, operation: str, rest: str) -> tuple[str, str]:
        how, kind, x, y = self._parts(rf"(\w+) {_TYPE} (\S+), (\S+)", rest)
        return "i1", _FLOATS_COMPARED[how].format(a=_operand(kind, x), b=_operand(kind, y))

    def _compared(self, operation: str, rest: str) -> tuple[str, str]:
        how, kind, x, y = self._parts(rf"(\w+) {_TYPE} (\S+), (\S+)", rest)
        if kind == "i1":
            x, y = _operand(kind, x), _operand(kind, y)
            return kind, f"{x} {_WHOLES_COMPARED[how]} {y}"
        signed = f"({SIGNED[kind]})" if how[0] == "s" else ""
        sign = _WHOLES_COMPARED[how if how in _WHOLES_COMPARED else how[1:]]
        return "i1", f"{signed}{_operand(kind, x)} {sign} {signed}{_operand(kind, y)}"

    def _select(self, operation: str, rest: str) -> tuple[str, str]:
        condition, kind, x, _, y = self._parts(rf"i1 (\S+), {_TYPE} (\S+), {_TYPE} (\S+)", rest)
        return kind, f"{_operand('i1', condition)} ? {_operand(kind, x)} : {_operand(kind, y)}"

    def _converted(self, operation: str, rest: str) -> tuple[str, str]:
        kind, x, to = self._parts(rf"{_TYPE} (\S+) to {_TYPE}", rest)
        a, target = _operand(kind, x), TYPES[to]
        if operation == "bitcast":
            return to, a if kind == to else f"as_{target}({a})"
        if operation == "trunc" and to == "i1":
            return to, f"({a} & 1) != 0"
        if operation == "sext":
            return to, f"{a} ? ~({target})0 : ({target})0" if kind == "i1" else f"({target})({SIGNED[to]})({SIGNED[kind]}){a}"
        if operation == "sitofp":
            return to, f"({target})({SIGNED[kind]}){a}"
        if operation == "fptosi":
            return to, f"({target})({SIGNED[to]}){a}"
        return to, f"({target}){a}"

    def _load(self, operation: str, rest: str) -> tuple[str, str]:
        kind, space, pointer = self._parts(rf"{_TYPE}, {_TYPE} (\S+),", rest)
        return kind, f"*({self._pointed(kind, space)})({_operand(space, pointer)})"

    def _address(self, operation: str, rest: str) -> tuple[str, str]:
        size, space, pointer, kind, at = self._parts(rf"i(\d+), {_TYPE} (\S+), {_TYPE} (\S+)", rest)
        step = f" * {int(size) // 8}" if size != "8" else ""
        return space, f"{_operand(space, pointer)} + ({SIGNED[kind]}){_operand(kind, at)}{step}"

    def _call(self, operation: str, rest: str) -> tuple[str, str]:
        kind, function, inside = self._parts(rf"{_TYPE} @([\w.]+)\((.*)\)", rest)
        given = re.findall(rf"{_TYPE} ([^\s,()]+)", inside)
        arguments = [_operand(*a) for a in given]
        if function in _OWN:
            return kind, f"({UNSIGNED[kind]}){_OWN[function]}"
        if function == "atomic_inc":
            return kind, f"(uint)atomic_inc((volatile global int *)({arguments[0]}))"
        if function == "atomic_max":
            return kind, f"(uint)atomic_max((volatile global uint *)({arguments[0]}), {arguments[1]})"
        if function == "local_memory":
            self.local.append(f"  local double memory_{len(self.local)}[{int(given[0][1]) // 8}];")
            return kind, f"(local uchar *)memory_{len(self.local) - 1}"
        name = function.split(".")[1] if function.startswith("llvm.") else ""
        if name == "sqrt":
            return kind, f"ROOT({arguments[0]})" if kind == "float" else f"sqrt({arguments[0]})"
        if name in ("smin", "smax"):
            signed = [f"({SIGNED[kind]}){a}" for a in arguments]
            return kind, f"({UNSIGNED[kind]}){self._INTRINSICS[name]}({', '.join(signed)})"
        if name == "abs":
            return kind, f"({UNSIGNED[kind]})abs(({SIGNED[kind]}){arguments[0]})"
        if name == "fshl" and kind == "i32":
            return kind, f"(uint)((((ulong){arguments[0]} << 32) | {arguments[1]}) << ({arguments[2]} & 31) >> 32)"
        if not name:  # one of the kernel's helpers
            return kind, f"{function}({', '.join(arguments)})"
        if name in ("ctlz", "cttz"):
            width = int(kind[1:])
            if name == "ctlz":
                return kind, f"({UNSIGNED[kind]})clz({arguments[0]})"
            x = arguments[0]
            return (
                kind,
                f"({x} ? ({UNSIGNED[kind]})({width - 1} - clz(({UNSIGNED[kind]})({x} & -{x}))) : ({UNSIGNED[kind]}){width})",
            )
        if name not in self._INTRINSICS:
            raise Uncompilable(f"OpenCL C has no translation of {function}")
        return kind, f"{self._INTRINSICS[name]}({', '.join(arguments)})"

    _TABLE: ClassVar[dict[str, Callable[[_Function, str, str], tuple[str, str]]]] = {
        **dict.fromkeys(("ashr", "sdiv", "srem"), _signed),
        **dict.fromkeys(("trunc", "zext", "sext", "fpext", "fptrunc", "sitofp", "uitofp", "fptosi", "fptoui"), _converted),
        "bitcast": _converted,
        "fneg": _negated,
        "phi": _phi,
        "fcmp": _compared_floats,
        "icmp": _compared,
        "select": _select,
        "load": _load,
        "getelementptr": _address,
        "call": _call,
    }
