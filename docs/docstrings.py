"""An extension of griffe: gives the eager functions on the page of the API the docstrings that they have at run time."""

from __future__ import annotations

import inspect
from typing import Any

import griffe

from anydml.functional import functions


class RunTimeDocstrings(griffe.Extension):
    """The stubs of these functions have only the beginnings of their docstrings."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        _document(func)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        _document(cls)


def _document(made: griffe.Function | griffe.Class) -> None:
    if made.parent is not None and made.parent.path == functions.__name__ and made.name in dir(functions):
        made.docstring = griffe.Docstring(inspect.getdoc(getattr(functions, made.name)) or "", parent=made, parser="numpy")
