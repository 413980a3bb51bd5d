"""Expressions as lines of Python: calls of `exact.reals`, each node once. A branch is evaluated only if it is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flint import fmpq

from anydml.exact import functions
from anydml.exact.formats import FORMATS
from anydml.exact.reals import Real
from anydml.kernels.evaluate.elements import stores
from anydml.kernels.evaluate.ends import ends, read_ends
from anydml.kernels.evaluate.namespace import Namespace
from anydml.kernels.evaluate.places import is_plain
from anydml.kernels.match.scopes import ScopedWalk, Scopes
from anydml.kernels.match.structure import skipped
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr
from anydml.schema.traversal import bound_by, free, walk
from anydml.tensor import DataType

NESTED = 12  # nested conditions, beyond which the rest becomes a function of its own; Python's limit is 100

_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "less": "<", "less_equal": "<=", "equal": "=="}
_BITWISE = {"bit_and": "&", "bit_or": "|", "bit_xor": "^", "shift_right": ">>", "shift_left": "<<", "bit_not": "~"}


def _real(value: Any) -> Real:
    return value if isinstance(value, float) else fmpq(value.numerator, value.denominator)


def _settled(e: Expr) -> list[Expr]:
    """The rounded numbers in a reduction's body that are the same for all terms and can be computed before the loops.

    All of their reads are at the statement's index, and none can be outside of its tensor.
    """
    depends = free(e)
    nodes = list(walk(e.args[0]))
    inside = {v for node in nodes for v in bound_by(node)} | set(bound_by(e))
    plain: dict[Expr, bool] = {}  # nodes with such reads alone, and whether they contain a rounding
    for node in nodes:
        sure = not bound_by(node) and not depends[node] & inside and all(a in plain for a in node.args)
        if sure and (node.op != "read" or _is_named(node)):
            plain[node] = node.op == "round" or any(plain[a] for a in node.args)
    used = {a for node in nodes if node in plain for a in node.args}
    return [node for node in nodes if plain.get(node) and node.sort == "number" and node not in used]


def _is_named(e: Expr) -> bool:
    """Whether each index of a read is a variable or a constant that is inside of the tensor."""
    sizes = e.data[0].sizes
    return len(e.args) == len(sizes) and all(
        (a.op == "variable" and type(a.data.size) is int and a.data.size <= n) or (a.op == "constant" and 0 <= a.data.value < n)
        for a, n in zip(e.args, sizes, strict=True)
    )


class Block(ScopedWalk[Any, str]):
    """Lines of source, and the names of the nodes that they have computed."""

    def __init__(self, source: Namespace, moves: DataType | None = None, places: Mapping[Expr, int] | None = None) -> None:
        self.source, self.moves, self._places = source, moves, places
        self.lines: list[str] = []
        self.depth = 1
        self.items = Scopes()
        self._nested = 0

    def loops(self, e: Expr) -> Iterator[str]:
        """Write the loops of a reduction and the conditions that leave out terms; the block continues inside the loops."""
        bound = bound_by(e)
        for node in _settled(e):
            self.item(node)
        guards = skipped(e)
        condition = e.args[1] if e.op != "rank" and len(e.args) > 1 else None
        for i, v in enumerate(bound):
            others = [] if condition is None else [self.index(end) for end in read_ends(v, condition, bound[i:])]
            within = ends(self.source, v, condition, guards, bound[i + 1 :], others)
            yield from self.taken()
            yield f"{'    ' * self.depth}for {self.source.variable(v)} in range({within}):"
            self.depth += 1
        for guard in guards:
            self._line(f"if not ({self.guard(guard)}): continue")
        if condition is not None:
            self._line(f"if not {self.item(condition)}: continue")

    def taken(self) -> Iterator[str]:
        """Remove the lines so far from the block and return them."""
        yield from self.lines
        self.lines = []

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _name(self, text: str) -> str:
        name = self.source.fresh("v")
        self._line(f"{name} = {text}")
        return name

    def _made(self, node: Any) -> str:
        """The text of a node's value: a name, or the expression of an index. ("integer", node): in Python's integers."""
        if isinstance(node, tuple):
            return self._integer(node[1])
        e: Expr = node
        if e.op == "variable":
            return self.source.variable(e.data)
        if e.op == "constant":
            return self._constant(e)
        if e.op == "read":
            return self._read(e)
        if e.op == "select":
            return self._branch(e, self._condition(e.args[0]), e.args[1], e.args[2])
        if e.sort == "index" or (e.sort == "truth" and any(a.sort == "index" for a in e.args)):
            return self._of_indices(e)
        if e.op in ("both", "either"):
            return self._name(f"{self.item(e.args[0])} {'and' if e.op == 'both' else 'or'} {self.item(e.args[1])}")
        if e.op == "not":
            return f"(not {self.item(e.args[0])})"
        if e.op in _BITWISE:
            return self._bitwise(e)
        if self.moves is None and e.op in ("add", "sub", "mul", "neg", "reduce") and is_plain(e):
            return self._name(f"fmpq({self.integer(e)})")
        if bound_by(e):
            return self._name(self.source.reduction(e))
        return self._name(self._number(e))

    def _constant(self, e: Expr) -> str:
        value = e.data.value
        if self.moves is not None:
            return str(stores(self.moves, e)(_real(value)))
        return self.source.keep(_real(value), e.data)

    def index(self, e: Expr) -> str:
        """An index as text; integer constants are literals."""
        if e.op == "constant":
            return str(int(e.data.value))
        return self.item(e)

    def _of_indices(self, e: Expr) -> str:
        if e.op == "index":
            return self._name(self._whole(e.args[0]))
        if bound_by(e):
            return self._name(self.source.reduction(e))
        texts = [self.index(a) for a in e.args]
        if e.op in _INFIX:
            return f"({texts[0]} {_INFIX[e.op]} {texts[1]})"
        if e.op == "neg":
            return f"(-{texts[0]})"
        if e.op in ("max", "min"):
            return f"{e.op}({texts[0]}, {texts[1]})"
        raise TypeError(f"{e.op} is not an operation of indices")

    def _whole(self, e: Expr) -> str:
        """An integer number as a Python int."""
        if is_plain(e):
            return self.integer(e)
        return f"whole({self.item(e) if self.moves is None else self._computed(e)})"

    def _condition(self, e: Expr) -> str:
        """The text of a select's condition."""
        if self.moves is None or all(node.sort != "number" for node in walk(e)):
            return self.item(e)
        return self._computed(e)

    def _computed(self, e: Expr) -> str:
        """The text of a number or condition that is computed, as numbers even if the statement moves bits."""
        inner = Block(self.source)
        inner.depth = self.depth
        made = inner.item(e)
        self.lines += inner.lines
        return made

    def integer(self, e: Expr) -> str:
        """An integer expression in Python's integers instead of rational numbers."""
        return self.item(("integer", e))

    def _integer(self, e: Expr) -> str:
        if e.op == "constant":
            return str(int(e.data.value * (1 << self._place(e))))
        if e.op == "read":
            data_type = e.data[0].data_type
            return self._name(f"{self.source.places(data_type)}[{self._raw(e)}]" if data_type in FORMATS else self._raw(e))
        if e.op == "position":
            return self.index(e.args[0])
        if e.op == "reduce":
            return self._name(self.source.reduction(e, self._places or {}))
        texts = [self.integer(a) for a in e.args]
        if e.op in ("add", "sub"):  # both in the same units
            shifts = [self._place(e) - self._place(a) for a in e.args]
            texts = [f"({text} << {shift})" if shift else text for text, shift in zip(texts, shifts, strict=True)]
        if e.op in _INFIX:
            return self._name(f"{texts[0]} {_INFIX[e.op]} {texts[1]}")
        return self._name(f"-{texts[0]}")

    def _place(self, e: Expr) -> int:
        return self._places[e] if self._places else 0

    def guard(self, e: Expr) -> str:
        """The condition that every index of a read is inside of the tensor."""
        tensor = e.data[0]
        places = zip(e.args, tensor.sizes, strict=False)
        tests = (f"0 <= {self.index(a)} < {n}" for a, n in places if a.op != "variable" or a.data.size > n)
        return " and ".join(tests) or "True"

    def _bitwise(self, e: Expr) -> str:
        """A bitwise operation: Python's integers are in two's complement already, and `raw` gives floats as their bits."""
        if self.moves is None:
            raise TypeError(f"{e.op} is of elements whose bits are moved, not of numbers")
        bits = self.moves.element_bits
        texts = [self.item(a) for a in e.args]
        if e.op == "bit_not":
            signed = self.moves.dtype.kind == "i"
            return self._name(f"~{texts[0]}" if signed else f"{texts[0]} ^ {(1 << bits) - 1:#x}")
        if e.op == "shift_left":
            return self._name(f"{texts[0]} << {texts[1]} & {(1 << bits) - 1:#x} if {texts[1]} < {bits} else 0")
        return self._name(f"{texts[0]} {_BITWISE[e.op]} {texts[1]}")

    def _read(self, e: Expr) -> str:
        tensor, mode = e.data
        if mode != "otherwise":
            return self._element(e)
        at = e.args[:-1]
        condition = " and ".join(f"0 <= {self.index(a)} < {n}" for a, n in zip(at, tensor.sizes, strict=True))
        return self._branch(e, condition, None, e.args[-1])

    def _element(self, e: Expr) -> str:
        tensor: Tensor = e.data[0]
        shown = self._raw(e)
        return self._name(shown if self.moves is not None else f"{self.source.elements(tensor.data_type)}[{shown}]")

    def _raw(self, e: Expr) -> str:
        tensor: Tensor = e.data[0]
        return f"{self.source.tensor(tensor)}[{', '.join(self.index(a) for a in e.args[: len(tensor.sizes)])},]"

    def _branch(self, e: Expr, condition: str, a: Expr | None, b: Expr) -> str:
        """`a if condition else b`, each computed in its own branch; None means the element that `e` reads."""
        name = self.source.fresh("v")
        text = self.index if e.sort == "index" else self.item
        self._nested += 1
        for keyword, side in ((f"if {condition}:", a), ("else:", b)):
            self._line(keyword)
            with self.items.inner():
                self.depth += 1
                if side is None:
                    made = self._element(e)
                elif self._nested > NESTED and side.op in ("select", "read"):
                    made = self.source.outlined(side, self.moves)
                else:
                    made = text(side)
                self._line(f"{name} = {made}")
                self.depth -= 1
        self._nested -= 1
        return name

    def _number(self, e: Expr) -> str:
        if e.op == "position":
            return f"fmpq({self.index(e.args[0])})"
        if e.op == "philox":
            counter, key, word = map(self.index, e.args)
            return f"fmpq(philox({counter}, {key})[{word}])"
        if e.op == "round":
            return f"rounded({self.item(e.args[0])}, {self.source.keep(FORMATS[e.data])})"
        if e.op == "held":
            store = self.source.keep(stores(e.data, e.args[0]), ("held", e.data, e.args[0]))
            return f"fmpq({store}({self.item(e.args[0])}))"
        if e.op == "power":
            return f"{self.source.keep(functions.whole_power(e.data))}({self.item(e.args[0])})"
        if e.op == "integer_power":
            power = self.source.keep(functions.integer_power(e.data), ("integer_power", e.data))
            return f"{power}({', '.join(self.item(a) for a in e.args)})"
        if e.op == "limits":
            return self._limits(e)
        if e.op == "bit_count":
            data_type = e.args[0].data[0].data_type
            return f"fmpq(({self._raw(e.args[0])} & {(1 << data_type.element_bits) - 1:#x}).bit_count())"
        return f"f_{e.op}({', '.join(self.item(a) for a in e.args)})"

    def _limits(self, e: Expr) -> str:
        x, body = e.args
        at, values = self.item(x), dict(e.data)
        name = self.source.fresh("v")
        keyword = "if"
        for side, test in (("low", "== -INFINITY"), ("high", "== INFINITY")):
            if side in values:
                self._line(f"{keyword} type({at}) is float and {at} {test}:")
                self._line(f"    {name} = {_special(values[side])}")
                keyword = "elif"
        self._line("else:")
        self.depth += 1
        with self.items.inner():
            self._line(f"{name} = {self.item(body)}")
        self.depth -= 1
        return name


def _special(text: str) -> str:
    value = float(text)
    return f"float('{text}')" if value - value != 0 or text == "-0.0" else f"fmpq({int(value)})"
