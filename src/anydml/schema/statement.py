"""Statements: every element of an output as an expression of its index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache, partial, wraps
from typing import Any

from anydml.schema.expression import Tensor, each
from anydml.schema.node import Expr, Operand, Variable, lift, number
from anydml.schema.traversal import reads_in
from anydml.tensor import DataType


class Nest:
    """The elements of one tensor: `body` at every index, stored once.

    moves: the body reads, selects or combines bit by bit whole elements of the tensor's own type, and their bits are stored.
    Otherwise a float is rounded half to even. In an integer tensor, a body that is an integer in kind (`traversal.integral`)
    wraps modulo 2^bits; any other is truncated toward zero and saturates, and NaN gives 0.
    """

    __slots__ = ("body", "index", "moves")

    def __init__(self, index: tuple[Expr, ...], body: Expr, moves: bool = False) -> None:
        self.index, self.body, self.moves = index, body, moves

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The index variable of each dimension."""
        return tuple([i.data for i in self.index])

    @property
    def sizes(self) -> tuple[Any, ...]:
        return tuple(v.size for v in self.variables)


State = Callable[..., Any]  # (desc, *input tensors) -> a Nest, or one for each output, in wire order
Statement = Mapping[str, Nest]  # by output, `output_tensors[1]` in an array


def nest(i: Sequence[Expr], body: Operand) -> Nest:
    """A tensor of computed elements."""
    return Nest(tuple(i), number(body))


def move(i: Sequence[Expr], body: Expr) -> Nest:
    """A tensor of elements whose bits are moved or combined."""
    return Nest(tuple(i), body, moves=True)


def stored(
    names: str, sizes: Sequence[Any], data_type: DataType, define: Callable[..., Sequence[Operand]]
) -> tuple[Tensor, ...]:
    """Internal tensors of an operator, all of the same sizes, with each element rounded to their type: states of a recurrence.

    `define(i, *tensors)` gives the elements of each. An element may depend on elements of any of them with a smaller first
    index, and on elements of the tensors before its own with the same first index.
    """
    tensors = tuple(Tensor(name, sizes, data_type) for name in names.split())
    i = each(sizes, "tijklmn")
    for tensor, body in zip(tensors, define(i, *tensors), strict=True):
        tensor.definition = nest(i, body)
    return tensors


def elementwise(formula: Callable[..., Operand], *, moves: bool = False) -> State:
    """The statement of a formula over one element of each input: `formula(d, x, y)`, with numbers for tensors."""

    def statement(d: Any, *tensors: Tensor | None) -> Nest:
        i = each(next(t.sizes for t in tensors if t is not None))
        made = lift(formula(d, *(None if t is None else t[i] for t in tensors)))
        return move(i, made) if moves else nest(i, made)

    statement.formula = formula  # type: ignore[attr-defined]  # used by an operator that fuses this one
    return statement


def scaled(d: Any, x: Operand) -> Expr:
    """x * Scale + Bias by the desc's ScaleBias; x itself if there is none."""
    return number(x) if d.scale_bias is None else number(x) * d.scale_bias.scale + d.scale_bias.bias


def activated(activation: Any, x: Operand) -> Expr:
    """The function of a fused activation's desc, applied to x; x itself if there is none."""
    return number(x) if activation is None else number(type(activation).statement.formula(activation, x))


class Computed:
    """Elements that are read like a tensor's but not stored: `element` gives one as an expression of its index."""

    def __init__(self, sizes: Sequence[Any], element: Callable[[Sequence[Operand]], Expr]) -> None:
        self.sizes, self._element = tuple(sizes), element
        self._made: dict[tuple[Operand, ...], Expr] = {}  # so that an element that is read twice is one node

    def __getitem__(self, at: Sequence[Operand]) -> Expr:
        index = tuple(at)
        if index not in self._made:
            self._made[index] = self._element(index)
        return self._made[index]


class Parts:
    """Named parts of statements, for the text of formulas: the uses of each, and its definition as a function of indices."""

    def __init__(self) -> None:
        self.uses: dict[Expr, tuple[str, tuple[Expr, ...]]] = {}
        self.definitions: dict[str, tuple[str, Callable[..., Expr]]] = {}  # name -> its indices' letters, and the function


naming: ContextVar[Parts | None] = ContextVar("naming", default=None)  # the parts of the formula that is being written


def named(name: str, letters: str, element: Callable[..., Expr], at: Sequence[Expr]) -> Expr:
    """An element at an index. Formulas show the name with the index, and define it on a line of its own by these letters."""
    made = element(*at)
    parts = naming.get()
    if parts is not None and made.op != "read":
        parts.uses[made] = name, tuple(at)
        parts.definitions[name] = letters, element
    return made


def part(name: str, letters: str) -> Callable[[Callable[..., Expr]], Callable[..., Expr]]:
    """Name the elements that a method computes, as `named` does."""

    def declare(method: Callable[..., Expr]) -> Callable[..., Expr]:
        @wraps(method)
        def made(self: Any, *at: Expr) -> Expr:
            return named(name, letters, partial(method, self), at)

        return made

    return declare


def stated(desc: Any, symbols: Callable[[str, Any], Tensor] | None = None) -> Statement:
    """The meaning of a desc of an operator's newest version: the statement of each present output."""
    spec, tensor, operator = desc.spec, symbols or _tensor, getattr(desc, "operator", type(desc))
    inputs: list[Any] = []
    for f in spec.inputs:
        value = getattr(desc, f.name)
        if isinstance(value, tuple):
            inputs.append([tensor(f"{f.name}[{i}]", t) for i, t in enumerate(value)])
        else:
            inputs.append(None if value is None else tensor(f.name, value))
    made = operator.statement(desc, *inputs)
    found: dict[str, Nest] = {}
    outputs = spec.outputs
    for f, nests in zip(outputs, (made,) if len(outputs) == 1 else made, strict=True):
        if getattr(desc, f.name) is None:
            continue
        if f.sized_by:
            found.update((f"{f.name}[{i}]", n) for i, n in enumerate(nests))
        else:
            found[f.name] = nests
    return found


@lru_cache(maxsize=256)
def meaning(desc: Any) -> Statement:
    """The result of `stated` on tensors by name, cached for equal descs."""
    return stated(desc)


def _tensor(name: str, t: Any) -> Tensor:
    return Tensor(name, t.sizes, t.data_type)


def tensors_read(n: Nest) -> tuple[Tensor, ...]:
    """The tensors that a statement reads, each once."""
    return tuple(dict.fromkeys(e.data[0] for e in reads_in(n.body)))
