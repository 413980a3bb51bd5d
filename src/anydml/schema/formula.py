"""The text of a statement: the formula on an operator's page, traced with symbols for sizes and attributes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from anydml.schema.expression import Tensor, each
from anydml.schema.kinds import UINT
from anydml.schema.node import INDEX, Expr, Variable
from anydml.schema.statement import Nest, Parts, naming, stated, tensors_read
from anydml.schema.symbol import Symbol
from anydml.schema.traversal import bound_by, free, walk

LETTERS = "PQRSTUVW"  # names of parts that occur more than once
SHORT = 12  # nodes of a part that is written out each time
_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2), "floordiv": ("//", 2), "mod": ("mod", 2),
          "less": ("<", 0), "less_equal": ("<=", 0), "equal": ("=", 0), "both": ("and", -1), "either": ("or", -1)}  # fmt: skip
_MIRRORED = {"less": ">", "less_equal": ">=", "equal": "="}
_NAMES = {"absolute": "abs", "half_to_even": "round", "half_away": "round_half_away",
          "integer_power": "pow"}  # fmt: skip
_REDUCTIONS = {"sum": "sum", "product": "product", "max": "max", "min": "min",
               "first_largest": "position of the largest", "first_smallest": "position of the smallest"}  # fmt: skip


_INDEXED = re.compile(r"\w*\[[^\[\]`]*\](?: ?\[[^\[\]`]*\])+")


def prose(text: str) -> str:
    """A text for Markdown, where brackets after brackets, as in `Input[n][i]`, would be a link: they are put in backticks."""
    return _INDEXED.sub(lambda m: f"`{m[0]}`", text)


def formulas(desc: Any) -> dict[str, str]:
    """Output field -> its formula, for a desc of the newest version; sizes and numbers are symbols."""
    spec = desc.spec
    values: dict[str, Any] = {}
    for f in spec.fields:
        value = getattr(desc, f.name)
        short = f.wire.removesuffix("Tensor")
        if value is None or f.name in spec.counts:
            values[f.name] = value
        elif f.is_tensor:
            values[f.name] = tuple(_sized(f"{f.wire.removesuffix('Tensors')}[{i}]", t) for i, t in enumerate(value)) if (
                f.sized_by) else _sized(short, value)  # fmt: skip
        elif f.sized_by and "Ax" not in f.wire:
            values[f.name] = tuple(f.kind.symbol(f"{f.wire}[{i}]", v) if f.kind.wire not in ("UINT", "INT")
                                   else Symbol(f"{f.wire}[{i}]", v) for i, v in enumerate(value))  # fmt: skip
        elif f.sized_by or f.kind is UINT:
            values[f.name] = value
        else:
            values[f.name] = f.kind.symbol(f.wire, value)
    traced = SimpleNamespace(spec=spec, operator=type(desc), **values)
    wires = {f.name: f.wire.removesuffix("Tensor").removesuffix("Tensors") for f in spec.tensors}

    def symbol(name: str, t: Any) -> Tensor:
        field, _, place = name.partition("[")
        return Tensor(wires[field] + (f"[{place}" if place else ""), t.sizes, t.data_type)

    parts = Parts()
    token = naming.set(parts)
    try:
        statement = stated(traced, symbol)
        made = {}
        for name, n in statement.items():
            field, _, place = name.partition("[")
            made[name] = formula(wires[field] + (f"[{place}" if place else ""), n, parts=parts)
        for t, definition in _kept(statement.values()).items():
            made[t.name] = formula(t.name, definition, t.data_type.name.lower(), parts)
    finally:
        naming.reset(token)
    return made


def _kept(nests: Iterable[Nest]) -> dict[Tensor, Nest]:
    """The tensors that an operator stores internally, each once, in the order in which they are read."""
    found: dict[Tensor, Nest] = {}
    stack = list(nests)
    while stack:
        for t in tensors_read(stack.pop()):
            if t.definition is not None and t not in found:
                found[t] = t.definition
                stack.append(t.definition)
    return found


def _sized(name: str, t: Any) -> Any:
    sizes = tuple(Symbol(f"{name}.Sizes[{i}]", n) for i, n in enumerate(t.sizes))
    return SimpleNamespace(sizes=sizes, data_type=t.data_type, dimension_count=len(sizes))


def formula(output: str, n: Nest, rounding: str = "", parts: Parts | None = None) -> str:
    """One tensor's formula, without indices if every element depends only on the elements of the inputs at the same index.

    A part that has a name, or occurs more than once, is defined on a line of its own. rounding: the type to which the
    definition rounds each element, if it does. parts: those that have names.
    """
    lines, shown = _lines(output, n, rounding, parts), {output}
    for name in lines[1]:
        if parts is not None and name not in shown:
            shown.add(name)
            letters, element = parts.definitions[name]
            index = each([0] * len(letters), letters)
            more, used = _lines(name, Nest(index, element(*index)), "", parts, indexed=True)
            lines[0].extend(more)
            lines[1].extend(used)
    return "\n".join((lines[0][0], *(f"    where {line}" for line in lines[0][1:])))


def _lines(output: str, n: Nest, rounding: str, parts: Parts | None, *, indexed: bool = False) -> tuple[list[str], list[str]]:
    """The line of one tensor or part, those of nodes that occur in it more than once, and the names of the parts that it uses.

    indexed: indices are shown even if all tensors are read at the same index.
    """
    text = _Text(n, parts, indexed=indexed)
    at = "" if text.plain else f"[{', '.join(map(text.of, n.index))}]"
    made = text.of(n.body)
    lines = [f"{output}{at} = {f'{rounding}({made})' if rounding else made}"]
    lines += [f"{name} = {text.defined(e)}" for e, name in list(text.named.items())]
    return lines, text.used


class _Text:
    def __init__(self, n: Nest, parts: Parts | None = None, *, indexed: bool = False) -> None:
        self._index, self._body = n.index, n.body
        self._parts = {e: use for e, use in parts.uses.items() if e is not n.body} if parts is not None else {}
        self.plain = not indexed and self.elementwise(n.body)
        self.used: list[str] = []
        self._outer = {v.name: v for v in n.variables}
        self.named: dict[Expr, str] = {}
        nodes = self._written(n.body)
        uses = Counter(a for e in nodes for a in dict.fromkeys(self._arguments(e)))
        often = [e for e in nodes if uses[e] > 1 and (bound_by(e) or (e.sort != INDEX and len(list(walk(e))) > SHORT))]
        for e in often if not self.plain else ():
            if e in self._parts:
                continue
            lap, at = divmod(len(self.named), len(LETTERS))
            letter, inner = LETTERS[at] + "'" * lap, sorted(self._name(v) for v in free(e)[e])
            self.named[e] = f"{letter}[{', '.join(inner)}]" if inner else letter

    def _arguments(self, e: Expr) -> tuple[Expr, ...]:
        return self._parts[e][1] if e in self._parts else e.args

    def _written(self, body: Expr) -> list[Expr]:
        """The nodes that are written: all but those inside of named parts; arguments come before the nodes that use them."""
        if not self._parts:
            return list(walk(body))
        found, stack = {body}, [body]
        while stack:
            new = [a for a in self._arguments(stack.pop()) if a not in found]
            found.update(new)
            stack += new
        return [e for e in walk(body) if e in found]

    def defined(self, e: Expr) -> str:
        """The text of a part that has a name."""
        name = self.named.pop(e)
        try:
            return self.of(e)
        finally:
            self.named[e] = name

    def elementwise(self, body: Expr) -> bool:
        return all(
            e.args[: len(self._index)] == self._index
            if e.op == "read"
            else e.op not in ("position", "reduce", "rank") and (e.sort == INDEX or all(a.sort != INDEX for a in e.args))
            for e in walk(body)
        ) and not any(bound_by(e) for e in walk(body))

    def of(self, e: Expr, outer: int = -2) -> str:
        """The text of an expression, in brackets where `outer` binds more tightly."""
        if e in self.named:
            return self.named[e]
        if e in self._parts and not self.plain:
            name, at = self._parts[e]
            self.used.append(name)
            return f"{name}[{', '.join(map(self.of, at))}]"
        if e.op in _MIRRORED and e.args[0].op == "constant" != e.args[1].op:  # x >= 0, not 0 <= x
            made = f"{self.of(e.args[1], 0)} {_MIRRORED[e.op]} {self.of(e.args[0], 0)}"
            return f"({made})" if outer > 0 else made
        if e.op in _INFIX:
            sign, level = _INFIX[e.op]
            right = level + (e.op in ("sub", "div", "floordiv", "mod"))
            made = f"{self.of(e.args[0], level)} {sign} {self.of(e.args[1], right)}".replace("+ -", "- ")
            return f"({made})" if level < outer else made
        make = getattr(self, "_at" if e.op == "index" else f"_{e.op}", None)
        if make is not None:
            text: str = make(e, outer)
            return text
        return f"{_NAMES.get(e.op, e.op)}({', '.join(self.of(a) for a in e.args)})"

    def _variable(self, e: Expr, outer: int) -> str:
        return self._name(e.data)

    def _name(self, v: Variable) -> str:
        """A variable's name; one that is bound inside gets a name that the output's own indices do not have."""
        return v.name if self._outer.get(v.name, v) is v else f"{v.name}'"

    def _constant(self, e: Expr, outer: int) -> str:
        value = e.data.value
        if isinstance(value, (float, Symbol)):
            return repr(value) if not (isinstance(value, Symbol) and " " in value.text and outer > 0) else f"({value!r})"
        if abs(value) == 2**128 - 2**104:
            return f"{'-' if value < 0 else ''}FLT_MAX"
        if value.denominator == 1 and value > 65536 and not value.numerator & value.numerator - 1:
            return f"2^{value.numerator.bit_length() - 1}"
        return str(value if value.denominator == 1 else float(value))

    def _read(self, e: Expr, outer: int) -> str:
        tensor, mode = e.data
        at = ", ".join(self.of(a) for a in e.args[: len(tensor.sizes)])
        place = tensor.name if self.plain else f"{tensor.name}[{at}]"
        if mode == "otherwise":
            made = f"{place} where it exists, else {self.of(e.args[-1])}"
            return f"({made})" if outer > -2 else made
        return f"{place}"

    def _reduce(self, e: Expr, outer: int) -> str:
        kind, bound = e.data
        runs = ", ".join(f"{self._name(v)} < {v.size!r}" for v in bound)
        where = f" where {self.of(e.args[1])}" if len(e.args) > 1 else ""
        made = f"{_REDUCTIONS[kind]} over {runs}{where} of {self.of(e.args[0], 2)}"
        return f"({made})" if outer > -2 else made

    def _first_largest(self, e: Expr, outer: int) -> str:
        runs = ", ".join(f"{self._name(v)} < {v.size!r}" for v in e.data[0])
        where = f" where {self.of(e.args[1])}" if len(e.args) > 1 else ""
        made = f"{_REDUCTIONS[e.op]} over {runs}{where} of {self.of(e.args[0], 2)}"
        return f"({made})" if outer > -2 else made

    _first_smallest = _first_largest

    def _rank(self, e: Expr, outer: int) -> str:
        (v,), decreasing = e.data
        order = "decreasing" if decreasing else "increasing"
        return f"position {self.of(e.args[1])} in {order} order over {self._name(v)} < {v.size!r} of {self.of(e.args[0], 2)}"

    def _neg(self, e: Expr, outer: int) -> str:
        return f"-{self.of(e.args[0], 3)}"

    def _not(self, e: Expr, outer: int) -> str:
        """The negation of a condition; of an equality, written as x != 0."""
        (inner,) = e.args
        if inner.op == "equal":
            made = f"{self.of(inner.args[0], 0)} != {self.of(inner.args[1], 0)}"
            return f"({made})" if outer > 0 else made
        return f"not {self.of(inner, 3)}"

    def _power(self, e: Expr, outer: int) -> str:
        return f"{self.of(e.args[0], 3)}^{e.data}"

    def _select(self, e: Expr, outer: int) -> str:
        condition, a, b = (self.of(x) for x in e.args)
        made = f"{a} if {condition}, else {b}"
        return f"({made})" if outer > -2 else made

    def _position(self, e: Expr, outer: int) -> str:
        return self.of(e.args[0], outer)

    _at = _position

    def _limits(self, e: Expr, outer: int) -> str:
        return self.of(e.args[1], outer)

    def _round(self, e: Expr, outer: int) -> str:
        return f"{e.data.name.lower()}({self.of(e.args[0])})"
