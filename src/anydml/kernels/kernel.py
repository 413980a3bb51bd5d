"""Kernels: what a family makes of a statement, in data that a device links to arrays, or why it makes nothing of it.

A family is a module with a function `lower(statement, checked, machine)` that gives `Lowered`, `Built` or `Refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anydml.kernels.call.steps import Piece, Repeat, Rounds, Step
    from anydml.kernels.code.targets import Target
    from anydml.kernels.evaluate.tally import Counted
    from anydml.schema.check import Checked
    from anydml.schema.statement import Statement

Arrays = Mapping[str, NDArray[Any]]
Execute = Callable[[], object]
Form = tuple[tuple[int, ...], np.dtype[Any]]
Direct = Callable[[Sequence[NDArray[Any]]], None]
Decide = Callable[[NDArray[np.int64], Arrays], None]


class Machine(NamedTuple):
    """The machine as a device lets its kernels use it.

    isa: an instruction set by name, None for the best. threads: at most so many. stage: where elements begin.
    """

    isa: str | None
    threads: int
    stage: str = "first"


class Refused(NamedTuple):
    """The reason why a family does not take a statement."""

    reason: str


class Lowered(NamedTuple):
    """A statement as steps of machine code: data, which the device links.

    rounds: what a call computes. Their addresses are from the start of a tensor by name, or of memory: "scratch",
    "constants" and, where something is packed, "packed". scratch: bytes that each bound operator works in. passing: bytes that
    a call works in, called "passing", which others may work in before and after it; `decide` finds them among the arrays.
    packing: steps that `initialize` takes to write `packed` bytes, from owned inputs, working in `spare` bytes called
    "spare". fails: a status that is not 0 says that a value breaks a data rule, and that nothing was written. judges: every
    data rule is looked at so. short: so little work that other threads can wait for it. decide: to be called with the
    scratch, as words, and the arrays, when a call's status is not 0, and then the call again: it stopped, or left elements
    open. once: the call is over when `decide` has been called. interruptible: it is long, and signals are handled between its
    phases.
    """

    target: Target
    rounds: Sequence[Rounds]
    scratch: int = 0
    passing: int = 0
    constants: NDArray[np.uint8] | None = None
    packing: Sequence[Step | Repeat] = ()
    packed: int = 0
    spare: int = 0
    fails: bool = False
    judges: bool = False
    short: bool = False
    decide: Decide | None = None
    once: bool = False
    interruptible: bool = False


class Placed(NamedTuple):
    """A lowered statement on arrays, for one table of several calls.

    phases: the steps, with addresses. decide: to be called when a status is not 0, with what runs the phases from `again`
    on and returns their status, until it is 0; None where such a status says that a value breaks a data rule. words: the
    scratch, zeros before the first phase and after the last one wherever `decide` was called. keep: what addresses are of.
    """

    phases: Sequence[Sequence[Piece]]
    target: Target
    short: bool
    again: int
    decide: Callable[[Callable[[], int]], None] | None
    words: NDArray[np.int64]
    keep: Any


class Built(NamedTuple):
    """A statement as a call that can be bound: what a family without machine code makes, and what `Lowered` is linked to.

    bind: arrays in tensor form by field name, the outputs among them, to the call that computes; it takes whatever scratch
    it needs, so that the call itself takes none. temporary_resource_size: that scratch, in bytes. initialize: the owned
    inputs to arrays that `bind` is to have besides, by names that are no fields; persistent_resource_size: of these.
    initialize_resource_size: scratch that only `initialize` takes, in bytes. Memory is taken as these numbers say, and they
    are looked at before any is.
    judges: the call itself looks at the values that data rules are about, before it writes, and raises Unfit.
    bare: the call works in no memory but its arrays', so that two at once do no harm, never fails, and returns None.
    direct: a call that takes the arrays itself, in the order of the names that it is made with, at their addresses, and may
    be made by several threads at once; None where there is none. It looks at nothing but the addresses, and is made with
    the shapes and types of the tensors besides.
    rounds: of what `Lowered` is linked to. Kernels of equal ones may take turns in one scratch, `bind` getting it as the array
    "scratch": zeros at first, of `temporary_resource_size` and a cache line. passing: so many bytes and a cache line, that any
    kernels may take turns in, `bind` getting them as the array "passing".
    place: as `bind`, the phases for a table of several calls; None where a call is more than its phases.
    counted: the elements of all calls that were left undecided; None where none ever is.
    """

    bind: Callable[[Arrays], Execute]
    temporary_resource_size: int = 0
    initialize: Callable[[Arrays], Arrays] | None = None
    persistent_resource_size: int = 0
    initialize_resource_size: int = 0
    judges: bool = False
    bare: bool = False
    direct: Callable[[Sequence[str], Mapping[str, Form]], Direct] | None = None
    rounds: Sequence[Rounds] | None = None
    passing: int = 0
    place: Callable[[Arrays], Placed] | None = None
    counted: Counted | None = None


Answer: TypeAlias = Lowered | Built | Refused
Lower: TypeAlias = "Callable[[Statement, Checked[Any], Machine], Answer]"


class Unfit(Exception):
    """Raised by a call that has written nothing, because a value breaks a data rule: the operator tells which."""
