"""Compiled operators in other processes: they are pickled as what they are made of, and compiled once in each process."""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from anydml.feature_level import FeatureLevel
from anydml.fork_safety import guard
from anydml.kernels.kernel import Machine

if TYPE_CHECKING:
    from anydml.devices.compiled import CompiledOperator
    from anydml.devices.device import Device

KEPT = 64  # compiled operators and graphs that a process keeps for others that are unpickled


class Origin(NamedTuple):
    """The device for which an operator was compiled, and whether a graph was fused. kind: the class of devices."""

    kind: type[Device]
    name: str
    feature_level: FeatureLevel
    machine: Machine
    fuse: bool = True


_kept: OrderedDict[tuple[Origin, bytes], CompiledOperator] = OrderedDict()


def again(origin: Origin, desc: bytes, owned: Mapping[str, NDArray[Any]] | None) -> CompiledOperator:
    """A compiled operator, as one of another process. desc: pickled. owned: what it was initialized with, if it was.

    Equal ones share machine code.
    """
    key = origin, hashlib.sha256(desc).digest()
    with guard:
        if key not in _kept:
            _kept[key] = _device(origin._replace(fuse=True)).compile(pickle.loads(desc), fuse=origin.fuse)
            if len(_kept) > KEPT:
                _kept.popitem(last=False)
        made = copy.copy(_kept[key])
    if owned:
        made.initialize(**owned)
    return made


@lru_cache(maxsize=16)
def _device(origin: Origin) -> Device:
    return origin.kind(origin.name, feature_level=origin.feature_level, **_settings(origin.machine))


def _settings(machine: Machine) -> dict[str, Any]:
    return {"isa": machine.isa, "threads": machine.threads, "stage": machine.stage}
