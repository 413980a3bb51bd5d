"""The errors that anydml raises, and its warnings.

A message about a desc follows from the broken rule's sentence and the values read.
"""

from __future__ import annotations

import enum
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anydml.rule_messages import listed, word
from anydml.spelling import class_name, printable, snake_case

LONGEST = 1024  # bits of a number that a message writes out; Python refuses to write far longer ones
E_INVALIDARG = 0x80070057
DXGI_ERROR_UNSUPPORTED = 0x887A0004
PACKAGE = os.path.dirname(__file__) + os.sep  # a file in it is not the caller's

_WIRE_MAXIMA = frozenset({2**31 - 1, 2**32 - 1, 2**64 - 1})


class Error(Exception):
    """The root of every error that anydml raises on purpose.

    where: in building a graph, the line of the program that asked for the node; messages end with it.
    """

    where = ""

    def _placed(self, text: str) -> str:
        return f"{text}\n    at {self.where}" if self.where else text


class UnsupportedError(Error, RuntimeError):
    """A requested device or feature level does not exist; `hresult` is DXGI_ERROR_UNSUPPORTED."""

    hresult = DXGI_ERROR_UNSUPPORTED


@dataclass(frozen=True)
class Violation:
    """One broken rule of an operator; `str()` spells it as Python does, `wire_text()` as DirectML does.

    operator: the wire name without its prefix. constraint: the rule's name. sentence: the rule, field names in backticks.
    dimension: the one in which it fails, or None. values: wire path -> the value read. expected: wire path -> what would fit in
    its place (a value, a tuple of sizes, a `range`, or a list of alternatives); empty where the rule does not say.
    names: wire field -> its name in the call that broke the rule, where that is not its snake_case; hint: what to do instead.
    """

    operator: str
    constraint: str
    sentence: str
    dimension: int | None
    values: Mapping[str, Any]
    expected: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    hint: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return self._text(class_name(self.operator), self._spelt) + (f"; {self.hint}" if self.hint else "")

    def _spelt(self, path: str) -> str:
        bare = path.split("[")[0]
        for wire in (bare, bare.split(".")[0]):
            if wire in self.names:
                return self.names[wire] + snake_case(path[len(wire) :])
        return snake_case(path)

    def wire_text(self) -> str:
        """The same in DirectML's spelling, for messages about JSON and on the command line."""
        return self._text(f"DML_OPERATOR_{self.operator}", str)

    def _text(self, operator: str, spell: Any) -> str:
        fault, fits = word(self.sentence, self.values, self.expected, spell, show)
        indexed = any(f"[{self.dimension}]" in path for path in self.values)
        where = "" if self.dimension is None or indexed else f" (dimension {self.dimension})"
        return f"{operator}.{self.constraint}{where}: {fault}" + (f"\n    would fit: {fits}" if fits else "")


def show(value: Any) -> str:
    """A value as messages print it: `FLOAT32`, `(1, 1, 4, 4)`, `1 to 2`, `at least 64`, `4 or 5`."""
    if isinstance(value, range):
        if value[0] == value[-1]:
            return str(value[0])
        if value[-1] in _WIRE_MAXIMA and value[0] > 0:
            return f"at least {value[0]}"
        return f"{value[0]} to {value[-1]}"
    if isinstance(value, list):
        return listed([show(item) for item in value])
    if isinstance(value, enum.IntFlag):
        return value.name or str(int(value))
    if isinstance(value, enum.Enum):
        return value.name.removeprefix("FL_")
    if isinstance(value, tuple):
        if value and hasattr(value[0], "sizes"):
            return f"{len(value)} tensor{'s' * (len(value) > 1)}"
        return f"({', '.join(map(show, value))}{',' if len(value) == 1 else ''})"
    if hasattr(value, "spec"):  # an operator desc
        return str(value.spec.name)
    if isinstance(value, int) and value.bit_length() > LONGEST:
        return f"a number of {value.bit_length()} bits"
    return str(value)


class DescError(Error, ValueError):
    """A desc breaks documented rules: `violations` holds all that were found; `hresult` is E_INVALIDARG."""

    hresult = E_INVALIDARG

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__(violations)
        self.violations = tuple(violations)

    def __str__(self) -> str:
        return self._placed("\n".join(map(str, self.violations)))


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a call, a binding or a program.

    pointer: the name of the argument or binding, or a JSON pointer into the program. message: what is wrong. violation: the
    broken rule, if the fault is one.
    """

    pointer: str
    message: str
    violation: Violation | None = None

    def __str__(self) -> str:
        if self.message.startswith(tuple(f"{self.pointer}{mark}" for mark in " [:")):  # a sentence about it
            return self.message
        return f"{printable(self.pointer)}: {self.message}" if self.pointer else self.message


class _FaultsError(Error, ValueError):
    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(faults)
        self.faults = tuple(faults)

    def __str__(self) -> str:
        return self._placed("\n".join(map(str, self.faults)))


class BindingError(_FaultsError):
    """Arguments do not fit the call, or arrays do not fit the tensors they are bound to: `faults` holds everything wrong."""


class GraphError(_FaultsError):
    """A graph cannot be compiled as described: `faults` holds everything wrong with it; `hresult` is E_INVALIDARG.

    A fault's pointer is the node or edge, `nodes[2]` or `input_edges[0]`; its violation, the broken rule of a node's desc.
    """

    hresult = E_INVALIDARG


class ProgramError(_FaultsError):
    """A program cannot be run as written: `faults` holds everything wrong with it."""


class DataError(Error, ValueError):
    """A value breaks a rule about data (a scale that is zero, NaN or infinite); no output byte was written.

    tensor: the field in snake_case, or an eager call's argument. index: the first such element's, () for a number. value: that
    element. rule: the broken rule's sentence. rounded: the value rounded to float32, where only that breaks the rule.
    """

    def __init__(self, tensor: str, index: tuple[int, ...], value: float, rule: str, rounded: float | None = None) -> None:
        super().__init__(tensor, index, value, rule, rounded)
        self.tensor, self.index, self.value, self.rule, self.rounded = tensor, index, value, rule, rounded

    def __str__(self) -> str:
        place = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        became = ""
        if self.rounded is not None:
            became = f", which {'underflows to 0' if self.rounded == 0 else 'overflows to infinity'} in float32"
        return f"{self.tensor}{place} is {show(self.value)}{became}; {self.rule.rstrip('.')}"


class OptimizationWarning(RuntimeWarning):
    """A pass or a kernel failed unexpectedly and was left out: results are the same, and may take longer. Please report it."""


class PerformanceWarning(RuntimeWarning):
    """A call took over a second in Python, for the reason given; issued once for each compiled operator.

    Also issued if the file of measured thresholds is damaged, so that the usual ones are used.
    """


def warn(category: type[Warning], text: str) -> None:
    """Issue a warning at the line that called the package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
