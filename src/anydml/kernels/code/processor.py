"""This machine's processor, apart from its instructions: the sizes of its caches, and its name if they are not known.

There is one function for each source. It takes the query as an argument, so that a test can replace it.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from anydml.kernels.code import detect


class Caches(NamedTuple):
    """The bytes of the second-level cache, which each core has, and of the last-level cache, which cores share."""

    second: int
    last: int


USUAL = Caches(1 << 20, 32 << 20)  # if the system does not tell: those of the processors on which the kernels were tuned
# other sizes are not those of one core or one socket: no cache, a cache that a cluster of cores shares, several sockets
LIMITS = Caches(128 << 10, 4 << 20), Caches(2 << 20, 512 << 20)

RING = 36 << 20  # bytes of the largest last cache of Intel's that is on a ring: larger ones are meshes, as those of servers


@cache
def name() -> str:
    """The processor's name, as the system gives it; "" if it gives none."""
    found = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), found)
    except OSError:
        pass
    return found


def conversions_share_units() -> bool:
    """Whether conversions of float32 to float64 occupy the units of multiply-adds, and so replace some: on Intel's processors.

    A conversion of a vector takes two slots of these two units there. AMD's processors have other units for it.
    """
    return _intel()


def past_caches() -> int:
    """Bytes read and written from which stores that pass by the caches are faster: where near caches do not hold them."""
    second, last = caches()
    return second * 2 if last_is_far() else last // 4 * 3


def last_is_far() -> bool:
    """Whether the last cache is hardly faster for one core than memory is: on Intel's meshes."""
    return _intel() and caches().last > RING


def _intel() -> bool:
    return "Intel" in name() or name() == "i386"  # as macOS names Intel's


@cache
def caches() -> Caches:
    """The caches that the system reports. os.sysconf is not used: on some virtual machines, glibc's size of the
    last cache is ten times too large."""
    found: dict[int, int] = {}
    try:
        if sys.platform in ("linux", "android"):
            found = linux(Path("/sys/devices/system/cpu/cpu0/cache"))
        elif sys.platform == "darwin":
            found = macos(detect.sysctl)
    except (AttributeError, OSError):  # a folder that may not be read, a C library without the function
        pass
    return sensible(found)


def sensible(found: dict[int, int]) -> Caches:
    """The caches from sizes by level. The highest level is the last cache. An implausible size is replaced by the usual one."""
    low, high = LIMITS
    second, last = found.get(2, 0), found[max(found)] if found and max(found) > 1 else 0
    return Caches(
        min(second, high.second) if second >= low.second else USUAL.second,
        min(last, high.last) if last >= low.last else USUAL.last,
    )


def linux(folder: Path) -> dict[int, int]:
    """Level -> bytes of the caches of one core that hold data."""
    found: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
            if kind != "Instruction":
                found[int(level)] = int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]
        except (OSError, ValueError, LookupError):  # some systems leave out one or the other
            continue
    return found


def macos(sysctl: Callable[[str], int]) -> dict[int, int]:
    """Level -> bytes. For a cache that a cluster of cores shares, one core's part."""
    sharing = max(1, sysctl("hw.perflevel0.cpusperl2"))
    second = (sysctl("hw.perflevel0.l2cachesize") or sysctl("hw.l2cachesize")) // sharing
    third = sysctl("hw.l3cachesize") or second * sharing
    return {level: size for level, size in ((2, second), (3, third)) if size}
