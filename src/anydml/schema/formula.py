"""The text of a statement: the formula that an operator's page shows, traced with sizes and attributes that are not known."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from anydml.schema.expression import Expr, Tensor, Variable, bound_by, walk
from anydml.schema.kinds import UINT
from anydml.schema.statement import Nest, stated, tensors_read
from anydml.schema.symbol import Symbol

_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2), "floordiv": ("//", 2), "mod": ("mod", 2),
          "less": ("<", 0), "less_equal": ("<=", 0), "equal": ("=", 0), "both": ("and", -1), "either": ("or", -1)}  # fmt: skip
_MIRRORED = {"less": ">", "less_equal": ">=", "equal": "="}
_NAMES = {"absolute": "abs", "half_to_even": "round", "half_away": "round_half_away"}
_REDUCTIONS = {"sum": "sum", "product": "product", "max": "max", "min": "min",
               "first_largest": "position of the largest", "first_smallest": "position of the smallest"}  # fmt: skip


def formulas(desc: Any) -> dict[str, str]:
    """Output field -> its formula, for operators of the newest version; sizes and numbers are those of any desc.

    Tensors that the operator keeps inside follow the outputs, by the names that the formulas have for them.
    """
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

    nests = stated(traced, symbol)
    made = {name: formula(wires.get(name.partition("[")[0], name), n) for name, n in nests.items()}
    return made | {name: formula(name, n) for name, n in _kept(nests.values()).items()}


def _kept(nests: Iterable[Nest]) -> dict[str, Nest]:
    """The tensors that an operator keeps inside, as far as others read them."""
    found: dict[str, Nest] = {}
    waiting = list(nests)
    while waiting:
        for tensor in tensors_read(waiting.pop()):
            if tensor.definition is not None and tensor.name not in found:
                found[tensor.name] = tensor.definition
                waiting.append(tensor.definition)
    return found


def _sized(name: str, t: Any) -> Any:
    sizes = tuple(Symbol(f"{name}.Sizes[{i}]", n) for i, n in enumerate(t.sizes))
    return SimpleNamespace(sizes=sizes, data_type=t.data_type, dimension_count=len(sizes))


def formula(output: str, n: Nest) -> str:
    """One output's formula: without indices where every element depends on the same elements of the inputs alone."""
    plain = _Text(n).of(n.body)
    at = "" if _Text(n).elementwise(n.body) else f"[{', '.join(map(_Text(n).of, n.index))}]"
    return f"{output}{at} = {plain}"


class _Text:
    def __init__(self, n: Nest) -> None:
        self._index, self._body = n.index, n.body
        self._plain = self.elementwise(n.body)
        self._taken = {i.data.name: i.data for i in n.index}

    def elementwise(self, body: Expr) -> bool:
        return all(
            e.args[: len(self._index)] == self._index if e.op == "read" else e.op not in ("position", "reduce", "rank")
            for e in walk(body)
        ) and not any(bound_by(e) for e in walk(body))

    def of(self, e: Expr, outer: int = -2) -> str:
        """A formula as a reader writes it; brackets where `outer` binds more tightly."""
        if e.op in _MIRRORED and e.args[0].op == "constant" != e.args[1].op:  # a reader writes x >= 0, not 0 <= x
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
        return self._named(e.data)

    def _named(self, v: Variable) -> str:
        """A variable's name, with a stroke where an index of the output has the same one."""
        return v.name if self._taken.get(v.name, v) is v else f"{v.name}'"

    def _constant(self, e: Expr, outer: int) -> str:
        value = e.data.value
        if isinstance(value, (float, Symbol)):
            return repr(value) if not (isinstance(value, Symbol) and " " in value.text and outer > 0) else f"({value!r})"
        if value.denominator == 1 and value > 65536 and not value.numerator & value.numerator - 1:
            return f"2^{value.numerator.bit_length() - 1}"
        return str(value if value.denominator == 1 else float(value))

    def _read(self, e: Expr, outer: int) -> str:
        tensor, mode = e.data
        at = ", ".join(self.of(a) for a in e.args[: len(tensor.sizes)])
        place = tensor.name if self._plain else f"{tensor.name}[{at}]"
        if mode == "otherwise":
            made = f"{place} where it exists, else {self.of(e.args[-1])}"
            return f"({made})" if outer > -2 else made
        return f"{place}"

    def _reduce(self, e: Expr, outer: int) -> str:
        kind, bound = e.data
        runs = ", ".join(f"{self._named(v)} < {v.size!r}" for v in bound)
        where = f" where {self.of(e.args[1])}" if len(e.args) > 1 else ""
        made = f"{_REDUCTIONS[kind]} over {runs}{where} of {self.of(e.args[0], 2)}"
        return f"({made})" if outer > -2 else made

    def _first_largest(self, e: Expr, outer: int) -> str:
        runs = ", ".join(f"{self._named(v)} < {v.size!r}" for v in e.data[0])
        return f"{_REDUCTIONS[e.op]} over {runs} of {self.of(e.args[0], 2)}"

    _first_smallest = _first_largest

    def _rank(self, e: Expr, outer: int) -> str:
        (v,), decreasing = e.data
        order = "decreasing" if decreasing else "increasing"
        return f"position {self.of(e.args[1])} in {order} order over {self._named(v)} < {v.size!r} of {self.of(e.args[0], 2)}"

    def _neg(self, e: Expr, outer: int) -> str:
        return f"-{self.of(e.args[0], 3)}"

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
