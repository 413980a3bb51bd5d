"""Kernels: the forms in which a family returns a statement's implementation, which a device links to arrays.

A family is a module with a function `lower(problem, machine)` that returns `Lowered`, `Built` or `Refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anydml.kernels.call.steps import Repeat, Rounds, Step, StepTable
    from anydml.kernels.code.targets import Target
    from anydml.kernels.evaluate.tally import Counted
    from anydml.kernels.problem import Problem

Arrays = Mapping[str, NDArray[Any]]
Execute = Callable[[], object]
Direct = Callable[[Sequence[NDArray[Any]]], None]
Views = Callable[[Sequence[NDArray[Any]]], Arrays]
Decide = Callable[[NDArray[np.int64], Arrays], None]
OnDevice: TypeAlias = "Callable[[Any, Mapping[str, DeviceMemory]], Sequence[DeviceCall]]"


class ByName:
    """The `Views` where each array is its tensor's as it is."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __call__(self, arrays: Sequence[NDArray[Any]]) -> Arrays:
        return dict(zip(self._names, arrays, strict=True))


class Machine(NamedTuple):
    """The part of the machine that a device's kernels may use.

    isa: an instruction set by name, None for the best. threads: the most threads. stage: the one at which elements begin.
    opencl: the name of an OpenCL device; "" for none.
    """

    isa: str | None
    threads: int
    stage: str = "first"
    opencl: str = ""


class DeviceMemory(NamedTuple):
    """A tensor's memory on a device: its object, and the bytes before the tensor's first element."""

    data: Any
    offset: int


class DeviceCall(Protocol):
    """A statement on a device's memory.

    launch: enqueues its kernels. is_open: whether elements are still undecided, by the counts of all calls of a workspace.
    settle: decides these, from the arrays of tensors by name, before another call begins; it returns how many elements the
    first stage left undecided, and how many of them the last decision took. number: of its counts, -1 if it never lists any.
    """

    number: int

    def launch(self) -> None: ...

    def is_open(self, counts: Any) -> bool: ...

    def settle(self, arrays: Callable[[str], NDArray[Any]]) -> tuple[int, int]: ...


class Refused(NamedTuple):
    """The reason why a family does not take a statement."""

    reason: str


class Lowered(NamedTuple):
    """A statement as steps of machine code. It is plain data, which the device links.

    rounds: the steps of a call. Their addresses are relative to a tensor, by name, or to memory: "scratch", "constants" and,
    if something is packed, "packed". scratch: the bytes of scratch of each bound operator. passing: the bytes of memory called
    "passing" that a call uses, and other calls before and after it; `decide` gets it with the arrays. packing: the steps with
    which `initialize` writes `packed` bytes from owned inputs, using `spare` bytes called "spare". fails: a status other than 0
    means that a value breaks a data rule and that nothing was written. judges: the steps check every data rule in this way.
    short: the call is so short that it may keep the GIL. decide: if a call's status is not 0, it stopped or has undecided
    elements; `decide` is then called with the scratch, as words, and the arrays, and the call is repeated. once: the call is
    not repeated after `decide`. interruptible: the call is long, and signals are handled between its phases.
    own: arrays that the kernel brings, by the names that addresses are relative to.
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
    own: Mapping[str, NDArray[Any]] = {}


class Placed(NamedTuple):
    """A lowered statement on arrays, for a table of several calls.

    phases: the steps, with addresses. decide: is called if a status is not 0, with a function that runs the phases from `again`
    on and returns their status, until it is 0; None if such a status means that a value breaks a data rule. words: the scratch,
    which must be zero before the first phase, and again after the last one if `decide` was called. keep: the memory of all
    addresses.
    """

    phases: Sequence[Sequence[StepTable]]
    target: Target
    short: bool
    again: int
    decide: Callable[[Callable[[], int]], None] | None
    words: NDArray[np.int64]
    keep: Any


class Built(NamedTuple):
    """A statement as a call that can be bound. Families without machine code return it, and `Lowered` is linked to it.

    bind: from arrays in tensor form by field name, outputs included, to the call that computes. It allocates all scratch, so
    that the call allocates none. temporary_resource_size: the bytes of this scratch. initialize: from the owned inputs to
    further arrays for `bind`, by names that are not fields. persistent_resource_size: the bytes of these arrays.
    initialize_resource_size: the bytes of scratch that only `initialize` needs. These numbers are checked before any memory is
    allocated.
    judges: the call itself checks data rules before it writes, and raises Unfit.
    bare: the call uses no memory but its arrays, so that two threads may make it at once; it never fails and returns None.
    direct: makes a call that takes arrays, from the names of the tensors in order, and a function that returns the arrays by
    tensor. The call uses only the arrays' addresses, unless elements are undecided, and several threads may make it at once. It
    raises Unfit as `bind`'s does. None if there is no such call.
    rounds: those of `Lowered`. Kernels with equal rounds may use one scratch in turn, which `bind` then gets as the array
    "scratch": `temporary_resource_size` bytes plus a cache line, zero at first. passing: if not 0, `bind` may get an array
    "passing" of this many bytes plus a cache line, which all kernels may use in turn.
    place: as `bind`, but gives the phases for a table of several calls; None if a call does more than its phases.
    counted: the number of elements that all calls so far left undecided; None if there never are any.
    on_device: the statement's calls on memory of an OpenCL device, in order, from a workspace and the memory of each tensor by
    name. None if the call is one of this machine's processor.
    """

    bind: Callable[[Arrays], Execute]
    temporary_resource_size: int = 0
    initialize: Callable[[Arrays], Arrays] | None = None
    persistent_resource_size: int = 0
    initialize_resource_size: int = 0
    judges: bool = False
    bare: bool = False
    direct: Callable[[Sequence[str], Views], Direct] | None = None
    rounds: Sequence[Rounds] | None = None
    passing: int = 0
    place: Callable[[Arrays], Placed] | None = None
    counted: Counted | None = None
    on_device: OnDevice | None = None


Answer: TypeAlias = Lowered | Built | Refused
Lower: TypeAlias = "Callable[[Problem, Machine], Answer]"


class Unfit(Exception):
    """Raised by a call that has written nothing because a value breaks a data rule. The operator finds out which."""
