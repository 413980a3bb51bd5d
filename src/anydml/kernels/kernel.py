"""What a kernel is: a name, the operator it computes, when it refuses, and how it is built for one checked desc."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from anydml.schema.check import Checked
from anydml.schema.operator import Desc

Arrays = Mapping[str, NDArray[Any]]
Execute = Callable[[], object]


class Built(NamedTuple):
    """A kernel made ready for one desc.

    bind: arrays in tensor form by field name, the output among them, to the call that computes; it takes whatever scratch
    it needs, so that the call itself takes none. temporary_resource_size: that scratch, in bytes. initialize: the owned
    inputs to arrays that `bind` is to have besides, by names that are no fields; persistent_resource_size: of these.
    initialize_resource_size: scratch that only `initialize` takes, in bytes. Memory is taken as these numbers say, and they
    are looked at before any is.
    judges: the call itself looks at the values that data rules are about, before it writes, and raises Unfit.
    bare: the call works in no memory but its arrays', so that two at once do no harm, never fails, and returns None.
    """

    bind: Callable[[Arrays], Execute]
    temporary_resource_size: int = 0
    initialize: Callable[[Arrays], Arrays] | None = None
    persistent_resource_size: int = 0
    initialize_resource_size: int = 0
    judges: bool = False
    bare: bool = False


class Unfit(Exception):
    """Raised by a call that has written nothing, because a value breaks a data rule: the operator tells which."""


class Machine(NamedTuple):
    """What a device lets its kernels use. isa: an instruction set by name, None for the best. threads: at most so many."""

    isa: str | None
    threads: int


class Refused(Exception):
    """Raised by `build` where only the attempt shows that a kernel cannot take a desc; the message is the reason."""


@dataclass(frozen=True)
class Kernel:
    """One way to compute one operator.

    name: technology:operator:variant. implements: the desc class, or None for every operator.
    refuses: the reason why a desc is not taken, or None.
    build: may still raise Refused.
    """

    name: str
    implements: type[Desc] | None
    refuses: Callable[[Checked[Any], Machine], str | None]
    build: Callable[[Checked[Any], Machine], Built]


def takes_all(c: Checked[Any], machine: Machine) -> str | None:
    """The `refuses` of a kernel that computes every legal desc of its operator."""
    return None
