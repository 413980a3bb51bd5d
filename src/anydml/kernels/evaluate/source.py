"""The functions of a statement as Python source, made on demand, and the inner tensors of operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count, product
from types import CodeType
from typing import Any

from flint import ctx, fmpq
from numpy.typing import NDArray

from anydml.exact import functions, reals
from anydml.exact.philox import philox
from anydml.exact.reals import NEGATIVE_ZERO, ONE, ZERO, Real, decoded, encoded, refined, whole
from anydml.kernels.evaluate import float_sums
from anydml.kernels.evaluate.block import Block
from anydml.kernels.evaluate.elements import ElementValues, raw, stores
from anydml.kernels.evaluate.expanded import expanded
from anydml.kernels.evaluate.places import NotFinite, Places
from anydml.kernels.evaluate.reductions import adds, first, place, reduces, settled_sum
from anydml.kernels.integers import summed
from anydml.schema.expression import Tensor
from anydml.schema.identities import rewritten
from anydml.schema.node import Expr, Variable
from anydml.schema.statement import Nest
from anydml.schema.traversal import free, integral
from anydml.tensor import DataType

_FUNCTIONS = (
    "exp log expm1 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc sqrt fmod floor_mod"
)
_OPERATIONS = "add less less_equal equal absolute floor ceil truncate half_to_even half_away is_nan"
_CALLS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(functions, name) for name in _FUNCTIONS.split()},
    **{name: getattr(reals, name) for name in _OPERATIONS.split()},
    "sub": reals.subtract,
    "mul": reals.multiply,
    "div": reals.divide,
    "neg": reals.negative,
    "max": reals.maximum,
    "min": reals.minimum,
    "pow": functions.power,
}


@lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    return compile(text, "<statement>", "exec")


class FunctionSource:
    """The functions of a statement, made on demand in one namespace."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        self._names = count()
        self._space: dict[str, Any] = {
            **{f"f_{name}": f for name, f in _CALLS.items()},
            "fmpq": fmpq, "ctx": ctx, "whole": whole, "ZERO": ZERO, "ONE": ONE, "philox": philox, "settled": settled_sum,
            "rounded": lambda a, form: decoded(encoded(a, form), form), "add": reals.add, "multiply": reals.multiply,
            "first": first, "place": place, "NotFinite": NotFinite, "NEGATIVE_ZERO": NEGATIVE_ZERO, "INFINITY": math.inf,
        }  # fmt: skip
        self._made: dict[Any, str] = {}
        self._read: dict[str, str] = {}  # the names of tensors by the names of their elements
        self._results: list[dict[Any, Any]] = []  # of reductions
        self._inner: list[_Stored] = []
        self._bound = False  # whether some functions refer to these very arrays

    def read(self, arrays: Mapping[str, NDArray[Any]]) -> bool:
        """Make the functions read other arrays of the same types and sizes, if they can. -> whether they can"""
        if self._bound:
            return False
        self._arrays = arrays
        for name, tensor in self._read.items():
            self._space[name] = raw(arrays[tensor]) if tensor in arrays else None
        for results in self._results:
            results.clear()
        for table in self._inner:
            table.clear()
        return True

    def function(self, nest: Nest, data_type: DataType) -> Callable[..., Any]:
        body = nest.body if nest.moves else expanded(rewritten(nest.body))
        name = self._define(body, nest.variables, moves=data_type if nest.moves else None)
        found: Callable[..., Any] = self._space[name]
        return found

    def fresh(self, stem: str) -> str:
        """A name that is not used yet."""
        return f"{stem}{next(self._names)}"

    def keep(self, value: Any, key: Any = None) -> str:
        """A name for a value that the source refers to; equal keys have the same name."""
        key = ("kept", id(value) if key is None else key)
        if key not in self._made:
            self._made[key] = name = self.fresh("c")
            self._space[name] = value
        return self._made[key]

    def results(self) -> str:
        """A name for the cached results of a reduction, which are valid for the current arrays."""
        self._results.append({})
        return self.keep(self._results[-1])

    def _define(self, e: Expr, variables: Sequence[Variable], *, moves: DataType | None = None) -> str:
        name = self.fresh("e")
        block = Block(self, moves)
        arguments = [self.variable(v) for v in variables]
        block.lines.append(f"    return {block.item(e)}")
        self.execute([f"def {name}({', '.join(arguments)}):", *block.lines])
        return name

    def execute(self, lines: Sequence[str]) -> None:
        """Define the functions of some lines."""
        exec(_code("\n".join(lines)), self._space)

    def variable(self, v: Variable) -> str:
        """The name of a variable, which is the same whenever the source of an equal statement is made."""
        key = ("variable", id(v))
        if key not in self._made:
            self._made[key] = f"{v.name.replace(chr(39), '_')}{next(self._names)}"
        return self._made[key]

    def outlined(self, e: Expr, moves: DataType | None) -> str:
        """A call of a new function for an expression, with the variables that it depends on."""
        variables = sorted(free(e)[e], key=lambda v: (v.name, id(v)))
        name = self._define(e, variables, moves=moves)
        return f"{name}({', '.join(map(self.variable, variables))})"

    # --- tensors ---

    def tensor(self, t: Tensor) -> str:
        if t.definition is not None:
            return self._stored(t)
        name = self.keep(raw(self._arrays[t.name]), ("array", t.name))
        self._read[name] = t.name
        return name

    def _stored(self, t: Tensor) -> str:
        """An inner tensor of the operator. A slice along its first index is computed when it is first read."""
        key = ("stored", id(t))
        if key not in self._made:
            name = self._made[key] = self.fresh("t")
            self._space[name] = table = _Stored(t)
            self._inner.append(table)
            assert t.definition is not None
            table.element = self.function(t.definition, t.data_type)
            table.store = stores(t.data_type, t.definition.body)
        return self._made[key]

    def elements(self, data_type: DataType) -> str:
        key = ("elements", data_type)
        if key not in self._made:
            name = self._made[key] = f"d_{data_type.name.lower()}"
            self._space[name] = ElementValues(data_type)
        return self._made[key]

    # --- reductions ---

    def places(self, data_type: DataType) -> str:
        return self.keep(Places(data_type), ("places", data_type))

    def reduction(self, e: Expr, places: Mapping[Expr, int] | None = None) -> str:
        """A call of the function of a reduction. Its results are cached by the variables that it depends on.

        places: given if the sum is computed in Python's integers (see `places_of`).
        """
        variables = sorted(free(e)[e], key=lambda v: (v.name, id(v)))
        key = ("reduction", e, places is None)
        if key not in self._made:
            self._made[key] = name = self.fresh("r")
            if places is not None and integral(e) and (sums := summed(e, variables, self._arrays)) is not None:
                self._space[name], self._bound = sums, True
                return self.reduction(e, places)
            if places and (found := float_sums.summed(e, variables, self._arrays, places[e])) is not None:
                self._space[name], self._bound = found, True
                return self.reduction(e, places)
            lines = reduces(self, name, e, variables) if places is None else adds(self, name, e, variables, places)
            self.execute(list(lines))
        return f"{self._made[key]}({', '.join(map(self.variable, variables))})"


class _Stored:
    """The elements of an inner tensor as `raw` integers, by index, computed in slices along the first dimension."""

    def __init__(self, t: Tensor) -> None:
        self.sizes, self.known, self.slices = t.sizes, dict[tuple[int, ...], int](), 0
        self.element: Callable[..., Real] = lambda *at: None
        self.store: Callable[[Real], int] = lambda a: 0
        self.busy = False

    def clear(self) -> None:
        self.known.clear()
        self.slices = 0

    def _encoded(self, at: tuple[int, ...]) -> int:
        return self.store(self.element(*at))

    def __getitem__(self, at: tuple[int, ...]) -> int:
        while self.slices <= at[0] and not self.busy:
            self.busy, bits = True, ctx.prec
            try:
                for rest in product(*map(range, self.sizes[1:])):
                    where = (self.slices, *rest)
                    self.known[where] = refined(partial(self._encoded, where))
            finally:
                self.busy, ctx.prec = False, bits
            self.slices += 1
        return self.known[at]
