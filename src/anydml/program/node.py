"""A JSON value with its place. Its methods return the value as a type, or note a fault and return a default.

Parsing therefore goes on after a fault, and finds all of them; its result is then discarded.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from anydml.program.text import Notes, below
from anydml.tensor import DataType

E = TypeVar("E", bound=enum.IntEnum | enum.IntFlag)
MISSING: Any = object()
FLOAT_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
SCALAR_MEMBERS = {t.name.lower() for t in DataType if t.element_bits >= 8}
UINT64 = range(2**64)
_SHOWN = 60  # characters of a wrong value in a message
_COMPARED = 200  # names with which an unknown one is compared
_LONGEST = 64  # entries of an array of a desc, which needs at most eight; rules multiply them


def show(value: Any) -> str:
    """A JSON value as messages show it, shortened."""
    if isinstance(value, (dict, list)):
        return f"an {'object' if isinstance(value, dict) else 'array'} of {len(value)}"
    text = {"None": "null", "True": "true", "False": "false"}.get(repr(value), repr(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.."


def like(name: str, known: Collection[str], form: str = "; did you mean {!r}?") -> str:
    """The known name that is most similar to an unknown one, formatted by `form`; empty if none is similar."""
    if len(name) > _SHOWN or len(known) > _COMPARED:
        return ""
    lower = {k.lower(): k for k in known if len(k) <= _SHOWN}
    near = get_close_matches(name.lower(), lower, 1)
    return form.format(lower[near[0]]) if near else ""


class Node:
    """A value, or MISSING for a missing member, whose methods return defaults."""

    __slots__ = ("_known", "_name", "_told", "_within", "notes", "value")

    def __init__(self, value: Any, notes: Notes, within: Node | None = None, name: str | int = "") -> None:
        self.value, self.notes, self._within, self._name = value, notes, within, name
        self._known: set[str] = set()
        self._told = False

    @property
    def pointer(self) -> str:
        return "" if self._within is None else below(self._within.pointer, self._name)

    @property
    def is_missing(self) -> bool:
        return self.value is MISSING

    def fault(self, message: str) -> None:
        self.notes.fault(self.pointer, message)

    def _is(self, fits: bool, what: str) -> bool:
        if not (fits or self.is_missing or self._told):
            self._told = True
            self.fault(f"takes {what}, not {show(self.value)}")
        return fits

    def string(self, default: str = "") -> str:
        return self.value if self._is(isinstance(self.value, str), "a string") else default

    def boolean(self, default: bool = False) -> bool:
        return self.value if self._is(isinstance(self.value, bool), "true or false") else default

    def integer(self, default: int = 0, within: range | None = None) -> int:
        fits = type(self.value) is int and (within is None or self.value in within)
        what = "an integer" if within is None else f"an integer from {within[0]} to {within[-1]}"
        return self.value if self._is(fits, what) else default

    def real(self, default: float = 0.0) -> int | float:
        """A number, or "nan", "inf" or "-inf"."""
        if isinstance(self.value, str) and self.value.lower() in FLOAT_WORDS:
            return FLOAT_WORDS[self.value.lower()]
        fits = type(self.value) in (int, float)
        return self.value if self._is(fits, 'a number, "nan", "inf" or "-inf"') else default

    def truth(self) -> bool:
        """true or false, or 1 or 0 as in the header."""
        return (
            bool(self.value) if self._is(self.value in (0, 1) and not isinstance(self.value, float), "true or false") else False
        )

    def scalar(self) -> int | float:
        """A member of DML_SCALAR_UNION: a number, or an object such as {"Float32": 1} with one."""
        if isinstance(self.value, dict) and len(self.value) == 1 and next(iter(self.value)).lower() in SCALAR_MEMBERS:
            return self.take(next(iter(self.value))).real()
        return self.real()

    def entries(self) -> Iterator[Node]:
        """An array, entry by entry."""
        values = self.value if self._is(isinstance(self.value, list), "an array") else []
        return (Node(value, self.notes, self, i) for i, value in enumerate(values))

    def few(self) -> Iterator[Node]:
        """A short array, entry by entry."""
        if isinstance(self.value, list) and len(self.value) > _LONGEST:
            self.fault(f"has {len(self.value)} entries, more than the {_LONGEST} that are read")
            return iter(())
        return self.entries()

    def integers(self, within: range | None = None) -> tuple[int, ...]:
        """A short array of integers."""
        return tuple(entry.integer(0, within) for entry in self.few())

    def members(self) -> Iterator[tuple[str, Node]]:
        """An object whose names the program chooses, member by member."""
        values = self.value if self._is(isinstance(self.value, dict), "an object") else {}
        return ((name, Node(value, self.notes, self, name)) for name, value in values.items())

    def choice(self, names: Mapping[str, E], prefix: str, default: E) -> E:
        """A name with or without its prefix."""
        name = self.string().removeprefix(prefix)
        if name in names:
            return names[name]
        if isinstance(self.value, str):
            self.fault(f"there is no {show(self.value)} here; the names are {', '.join(names)}")
        return default

    def flags(self, none: E, prefix: str) -> E:
        """A name or an array of names, all of them set."""
        flags: Any = none
        for name in self.entries() if isinstance(self.value, list) else [self]:
            flags |= name.choice(type(none).__members__, prefix, none)
        united: E = flags
        return united

    def reference(self, what: str, known: Mapping[str, Any]) -> str:
        """A name that the program defines elsewhere."""
        if (name := self.string()) not in known and isinstance(self.value, str):
            self.fault(f"there is no {what} {name!r}{like(name, known)}")
        return name

    # an object whose names the format defines

    def has(self, name: str) -> bool:
        return isinstance(self.value, dict) and name in self.value

    def get(self, name: str) -> Node:
        """A member that may be missing."""
        self._known.add(name)
        return Node(self.value[name] if self.has(name) else MISSING, self.notes, self, name)

    def take(self, name: str) -> Node:
        """A required member; it is a fault if it is missing."""
        if not self.has(name) and self._is(isinstance(self.value, dict), "an object"):
            self.fault(f"Field '{name}' is required.{like(name, self.value, ' There is {!r}.')}")
        return self.get(name)

    def ignore(self, *names: str) -> None:
        self._known.update(names)

    def warn_of_rest(self) -> None:
        """A warning for each member that was not read."""
        for name in self.value if isinstance(self.value, dict) else ():
            if name not in self._known:
                hint = like(name, sorted(self._known)) if len(self.notes.warnings) < _COMPARED else ""
                self.notes.warn(below(self.pointer, name), f"is not a known member here, and is not read{hint}")
