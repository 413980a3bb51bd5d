"""The instructions that this processor has, as its operating system reports them, by LLVM's names of features.

There is one function for each source. It takes the query as an argument, so that a test can replace it. A feature that cannot
be determined counts as absent: the row without requirements always works. No code is run to see whether it fails.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from functools import cache

from anydml.kernels.code import llvm

OTHERS = ("powerpc64le", "s390x", "loongarch64")
AT_HWCAP, AT_HWCAP2 = 16, 26  # entries of Linux's auxiliary vector: what the kernel lets a program use
HWCAP_ASIMDDP, HWCAP2_I8MM = 1 << 20, 1 << 13
AMX = frozenset(("amx-tile", "amx-int8"))
ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA = 158, 0x1023, 18  # Linux's system call on x86-64, and its arguments
PF_ARM_V82_DP, PF_ARM_V82_I8MM = 43, 66  # a Windows that does not know a number reports the feature as absent


def architecture(triple: str) -> str:
    """The architecture of the rows that a process can run, by its own triple: an emulator's machine has another."""
    first = triple.split("-")[0]
    known = {"x86_64": "x86", "amd64": "x86", "aarch64": "aarch64", "arm64": "aarch64"}
    # nothing is compiled where LLVM without features would call a library for floats, or compute in wider floats
    return known.get(first, "other" if first in OTHERS else "unknown")


def x86(host: Callable[[], Mapping[str, bool]], tiles: Callable[[], bool]) -> frozenset[str]:
    """The features of CPUID, as LLVM reads them. tiles: whether the operating system lets this process use tile registers.

    LLVM reports features that need wider registers only if XCR0 says that the operating system saves these registers at a
    task switch. On macOS, which begins to save the widest ones at their first use, it reports them if the processor has them.
    """
    found = {name for name, there in host().items() if there}
    if found & AMX and not tiles():
        found -= AMX
    return frozenset(found)


def tiles_linux(request: Callable[[int, int], int]) -> bool:
    """Ask for the tile registers of AMX, whose 8 KB Linux saves only for processes that asked. It refuses if the stack of a
    signal handler is too small for them."""
    return request(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0


def arm_linux(auxval: Callable[[int], int]) -> frozenset[str]:
    return _arm(bool(auxval(AT_HWCAP) & HWCAP_ASIMDDP), bool(auxval(AT_HWCAP2) & HWCAP2_I8MM))


def arm_macos(sysctl: Callable[[str], int]) -> frozenset[str]:
    dot_product, matrix_multiply = (sysctl(f"hw.optional.arm.FEAT_{x}") == 1 for x in ("DotProd", "I8MM"))
    return _arm(dot_product, matrix_multiply)


def arm_windows(present: Callable[[int], int]) -> frozenset[str]:
    return _arm(present(PF_ARM_V82_DP) != 0, present(PF_ARM_V82_I8MM) != 0)


def _arm(dot_product: bool, matrix_multiply: bool) -> frozenset[str]:
    return frozenset(name for name, there in (("dotprod", dot_product), ("i8mm", matrix_multiply)) if there)


@cache
def features() -> tuple[str, frozenset[str]]:
    """The architecture, and those of its features that this processor has."""
    which = architecture(llvm.process_triple())
    try:
        if which == "x86":
            return which, x86(llvm.host_features, _tiles)
        if which == "aarch64" and sys.platform in ("linux", "android"):
            return which, arm_linux(_auxval)
        if which == "aarch64" and sys.platform == "darwin":
            return which, arm_macos(sysctl)
        if which == "aarch64" and sys.platform == "win32":
            return which, arm_windows(_present)
    except (AttributeError, OSError):  # a C library without the function
        pass
    return which, frozenset()


def _tiles() -> bool:
    if sys.platform not in ("linux", "android"):
        return False
    call = ctypes.CDLL(None).syscall
    call.argtypes, call.restype = [ctypes.c_long] * 3, ctypes.c_long
    return tiles_linux(lambda code, argument: int(call(ARCH_PRCTL, code, argument)))


def _auxval(entry: int) -> int:
    function = ctypes.CDLL(None).getauxval
    function.argtypes, function.restype = [ctypes.c_ulong], ctypes.c_ulong
    return int(function(entry))


def sysctl(name: str) -> int:
    """The value of a sysctl; 0 if its name is unknown."""
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)  # values have 4 or 8 bytes, and are little-endian
    function = ctypes.CDLL(None).sysctlbyname
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    failed = function(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    return 0 if failed else value.value


def _present(number: int) -> int:
    function = ctypes.CDLL("kernel32").IsProcessorFeaturePresent
    function.argtypes, function.restype = [ctypes.c_uint32], ctypes.c_int
    return int(function(number))
