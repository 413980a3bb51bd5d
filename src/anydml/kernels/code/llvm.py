"""llvmlite, and what it knows of this process and processor; imported when it is first needed.

Every call holds the lock that is held during a fork: a child would otherwise inherit llvmlite's own lock in the locked state.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from anydml.fork_safety import guard


@cache
def binding() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def unavailable() -> str | None:
    """The reason why nothing can be compiled in this process, or None."""
    if binding.cache_info().currsize:
        return None
    try:
        with guard:
            binding()
    except Exception as error:  # a missing or broken llvmlite shows as ImportError, OSError or RuntimeError
        return f"llvmlite cannot be used: {error}"
    return None


@cache
def process_triple() -> str:
    """The triple of this process: architecture, vendor and system."""
    with guard:
        return str(binding().get_process_triple())


@cache
def host_name() -> str:
    """LLVM's name of the processor."""
    with guard:
        return str(binding().get_host_cpu_name())


def llvm_version() -> str:
    with guard:
        return ".".join(map(str, binding().llvm_version_info))


@cache
def versions() -> str:
    """The versions of llvmlite and of its LLVM."""
    with guard:
        import llvmlite

        return f"{llvmlite.__version__} {llvm_version()}"


@cache
def host_features() -> Mapping[str, bool]:
    """LLVM's name -> whether the processor has the feature and the operating system keeps its registers."""
    with guard:
        try:
            return dict(binding().get_host_cpu_features())
        except RuntimeError:  # where LLVM cannot tell, only rows that require nothing are used
            return {}
