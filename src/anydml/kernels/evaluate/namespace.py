"""The interface between the source of one function and the namespace with all functions of a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, Variable
from anydml.tensor import DataType


class Namespace(Protocol):
    """Names of values, variables, tensors and further functions, which are made on demand."""

    def fresh(self, stem: str) -> str: ...

    def keep(self, value: Any, key: Any = None) -> str: ...

    def results(self) -> str: ...

    def variable(self, v: Variable) -> str: ...

    def outlined(self, e: Expr, moves: DataType | None) -> str: ...

    def tensor(self, t: Tensor) -> str: ...

    def elements(self, data_type: DataType) -> str: ...

    def places(self, data_type: DataType) -> str: ...

    def reduction(self, e: Expr, places: Mapping[Expr, int] | None = None) -> str: ...
