"""LLVM IR to machine code in memory, through llvmlite.

Everything here was learned from a crash or a measurement: no IR passes run over hand-emitted kernels; each engine has a
target machine of its own (it owns it) and each module a context of its own (the global one only grows); an undefined
symbol would crash at the call, so none is allowed; and every call, those that dispose of an engine too, holds the lock that
is held over a fork, because a child of a fork during a compilation would inherit llvmlite's own lock taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from anydml.forks import guard
from anydml.kernels.code.frames import taken
from anydml.kernels.code.llvm import binding
from anydml.kernels.code.targets import Target


class Uncompilable(Exception):
    """Code that LLVM does not take, or that cannot be made executable; the message is the reason."""


_engines: dict[int, Any] = {}  # of each Code, by its id: of a cycle of garbage, they would be finalized in any order
_unused: list[Any] = []  # engines that the next compilation disposes of


class Code:
    """Machine code: the address of its function. It lives as long as this object does."""

    def __init__(self, engine: Any, address: int) -> None:
        self.address = address
        _engines[id(self)] = engine

    def __del__(self, engines: dict[int, Any] = _engines, unused: list[Any] = _unused) -> None:
        """Leave the engine to the next compilation: it is disposed of under a lock, which may be taken by no finalizer."""
        unused.append(engines.pop(id(self)))


@lru_cache(maxsize=128)  # 0.8 MB each; whoever holds an address holds its Code
def compiled(emit: Callable[..., str], target: Target, *arguments: Any) -> Code:
    """The code of the function `kernel` in `emit(target, *arguments)`, compiled once. Uncompilable where it cannot be."""
    text = emit(target, *arguments)
    with guard:
        _unused.clear()
        made = _compiled(text, target)
    if isinstance(made, str):
        raise Uncompilable(made)
    assert made is not None
    return made


@lru_cache(maxsize=128)
def within(emit: Callable[..., str], target: Target, most: int, *arguments: Any) -> Code | None:
    """`compiled`, or None where the code takes `most` bytes of the stack, or more: it is not made executable then."""
    text = emit(target, *arguments)
    with guard:
        _unused.clear()
        made = _compiled(text, target, most)
    if isinstance(made, str):
        raise Uncompilable(made)
    return made


def _compiled(text: str, target: Target, most: int | None = None) -> Code | str | None:
    """The code of a module, or why there is none. What it uses of LLVM is disposed of when it returns."""
    llvm = binding()
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
    except RuntimeError as error:  # intrinsics are not the same in every version
        return f"LLVM {'.'.join(map(str, llvm.llvm_version_info))} does not take the code: {error}"
    machine = _machine(llvm, target)
    try:
        engine = llvm.create_mcjit_compiler(module, machine)
        if most is not None:
            code = bytes(machine.emit_object(module))
            if taken(code, target.architecture) >= most:
                return None
            engine.set_object_cache(getbuffer_func=lambda _: code)  # it is not made a second time
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
    llvm = binding()
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
