"""LLVM IR to machine code in memory, through llvmlite.

Everything here was learned from a crash or a measurement: no IR passes run over hand-emitted kernels; each engine has a
target machine of its own (it owns it) and each module a context of its own (the global one only grows); an undefined
symbol would crash at the call, so none is allowed; and every call, those that dispose of an engine too, holds the lock that
is held over a fork, because a child of a fork during a compilation would inherit llvmlite's own lock taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from anydml.forks import guard
from anydml.kernels.cpu.jit.targets import Target
from anydml.kernels.kernel import Refused

_unused: list[Any] = []  # engines that the next compilation disposes of


class Code:
    """Machine code: the address of its function. It lives as long as this object does."""

    def __init__(self, engine: Any, address: int) -> None:
        self._engine, self.address = engine, address

    def __del__(self, unused: list[Any] = _unused) -> None:
        """Leave the engine to the next compilation: it is disposed of under a lock, which may be taken by no finalizer."""
        unused.append(self._engine)


@cache
def _binding() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def unavailable() -> str | None:
    """Why nothing can be compiled in this process, or None."""
    if _binding.cache_info().currsize:
        return None
    try:
        with guard:
            _binding()
    except Exception as error:  # a missing or broken llvmlite shows as ImportError, OSError or RuntimeError
        return f"llvmlite cannot be used: {error}"
    return None


@cache
def process_triple() -> str:
    """What this process runs: architecture, vendor and system."""
    with guard:
        return str(_binding().get_process_triple())


@cache
def host_name() -> str:
    """LLVM's name of the processor."""
    with guard:
        return str(_binding().get_host_cpu_name())


def llvm_version() -> str:
    with guard:
        return ".".join(map(str, _binding().llvm_version_info))


@cache
def host_features() -> Mapping[str, bool]:
    """LLVM's name -> whether the processor has the feature and the operating system keeps its registers."""
    with guard:
        try:
            return dict(_binding().get_host_cpu_features())
        except RuntimeError:  # where LLVM cannot tell, only rows that require nothing are used
            return {}


@lru_cache(maxsize=128)  # 0.8 MB each; whoever holds an address holds its Code
def compiled(emit: Callable[..., str], target: Target, *arguments: Any) -> Code:
    """The code of the function `kernel` in `emit(target, *arguments)`, compiled once. Refused where it cannot be."""
    text = emit(target, *arguments)
    with guard:
        _unused.clear()
        made = _compiled(text, target)
    if isinstance(made, str):
        raise Refused(made)
    return made


def _compiled(text: str, target: Target) -> Code | str:
    """The code of a module, or why there is none. What it uses of LLVM is disposed of when it returns."""
    llvm = _binding()
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
    except RuntimeError as error:  # intrinsics are not the same in every version
        return f"LLVM {'.'.join(map(str, llvm.llvm_version_info))} does not take the code: {error}"
    machine = _machine(llvm, target)
    try:
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
    except RuntimeError as error:
        return f"the code could not be made executable: {error}"
    address = engine.get_function_address("kernel")
    return Code(engine, address) if address else "the code could not be made executable: it has no address"


def assembly(text: str, target: Target, triple: str | None = None) -> str:
    """The assembly of a module for a target; what tests and readers look at."""
    with guard:
        return str(_for_any(target, triple, text, "emit_assembly"))


def object_code(text: str, target: Target, triple: str) -> bytes:
    """A module as an object file, for a linker: how code for another processor can be run."""
    with guard:
        return bytes(_for_any(target, triple, text, "emit_object"))


def _for_any(target: Target, triple: str | None, text: str, emit: str) -> Any:
    llvm = _binding()
    if triple is not None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    return getattr(_machine(llvm, target, triple), emit)(module)


def _machine(llvm: Any, target: Target, triple: str | None = None) -> Any:
    triple = triple or llvm.get_process_triple()
    # features come from the row alone, never from the processor's name: then no other instruction can be emitted
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu="x86-64" if triple.startswith("x86_64") else "generic",
        features=",".join(f"+{name}" for name in target.features),
        opt=2,
        jit=True,
    )
