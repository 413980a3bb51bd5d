"""LLVM IR to machine code in memory, through llvmlite.

Everything here was learned from a crash or a measurement. No IR passes run over hand-emitted kernels. Each engine has its own
target machine, since it owns it, and each module its own context, since the global one only grows. An undefined symbol would
crash at the call, so none is allowed. Every call of llvmlite, also to dispose of an engine, holds the lock that is held during
a fork: a child that is forked during a compilation would inherit llvmlite's own lock in the locked state.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from anydml import optional
from anydml.fork_safety import guard
from anydml.kernels.code import cache, llvm, sources, store
from anydml.kernels.code.frames import taken
from anydml.kernels.code.sources import Made
from anydml.kernels.code.targets import Target

T = TypeVar("T")


class Uncompilable(Exception):
    """Raised if LLVM refuses code, or code cannot be made executable; the message is the reason."""


_engines: dict[int, Any] = {}  # by the id of each Code: in a cycle of garbage, Code and engine would be finalized in any order
_unused: list[Any] = []  # engines that the next compilation disposes of


class Code:
    """Machine code: the address of its function. It lives as long as this object does. made: its emitter, if known."""

    def __init__(self, engine: Any, address: int, made: Made | None = None) -> None:
        self.address, self.made = address, made
        _engines[id(self)] = engine

    def __del__(self, engines: dict[int, Any] = _engines, unused: list[Any] = _unused) -> None:
        """Leave the engine to the next compilation: disposing of it needs a lock, which a finalizer must not take."""
        unused.append(engines.pop(id(self)))

    def __copy__(self) -> Code:
        return self  # it never changes, and its engine is disposed of once

    def __deepcopy__(self, memo: object) -> Code:
        return self

    def __reduce__(self) -> str:
        raise TypeError("machine code is of this process alone")


@lru_cache(maxsize=128)  # users of an address keep its Code alive
def compiled(emit: Callable[..., str], target: Target, *arguments: Any) -> Code:
    """The code of the function `kernel` in `emit(target, *arguments)`, compiled once. Uncompilable if LLVM refuses it."""
    made = _made(emit, target, arguments)
    assert made is not None
    return made


@lru_cache(maxsize=128)
def within(emit: Callable[..., str], target: Target, most: int, *arguments: Any) -> Code | None:
    """`compiled`, or None if the code takes `most` or more bytes of the stack; it is not made executable then."""
    return _made(emit, target, arguments, most)


def _made(emit: Callable[..., str], target: Target, arguments: tuple[Any, ...], most: int | None = None) -> Code | None:
    """The code, read from the disk if it is there. Uncompilable if LLVM refuses it."""
    folder = cache.folder()
    known = _on_disk(partial(sources.identity, emit, arguments)) if isinstance(folder, Path) else None
    text = emit(target, *arguments) if known is None else None
    if isinstance(folder, Path):
        triple = llvm.process_triple()
        made_of = (cache.FORMAT, llvm.versions(), triple, _options(target, triple), target.stage, known, text)
        name = store.name_of(repr(made_of).encode())
        found = _on_disk(partial(store.read, folder, name))
    else:
        found = None
    code = found or _compiled(emit(target, *arguments) if text is None else text, target)
    if isinstance(code, str):
        raise Uncompilable(code)
    if isinstance(folder, Path) and not found:
        _on_disk(partial(store.write, folder, name, code, cache.MOST))
    if most is not None and taken(code, target.architecture) >= most:
        return None
    with guard:
        _unused.clear()
        ready = _executable(code, Made(emit, target, arguments))
    if os.environ.get("ANYDML_DUMP"):
        with guard:
            from anydml.kernels.code import dump
        dump.kernel(ready.made, ready.address, code, assembly)
    return ready


def _on_disk(work: Callable[[], T]) -> T | None:
    """The result of work on the cache on disk; None, with a warning, if it raises an unexpected error."""
    return optional.attempted("Machine code on disk is", work, lambda _: None)


def _compiled(text: str, target: Target) -> bytes | str:
    """The object file of a module, or the reason why there is none. LLVM's objects are disposed of before it returns."""
    with guard:
        try:
            return bytes(_for_any(target, None, text, "emit_object"))
        except RuntimeError as error:  # intrinsics differ between versions of LLVM
            reason = f"LLVM {llvm.llvm_version()} does not take the code: {error}"
    optional.left_out("A kernel is", reason)  # a warning: otherwise nobody would notice that a slower kernel is used
    return reason


def _executable(code: bytes, made: Made) -> Code:
    """Load an object file as executable code, in the place of an empty module's object code."""
    use = llvm.binding()
    try:
        engine = use.create_mcjit_compiler(use.parse_assembly("", use.create_context()), _machine(made.target))
        engine.set_object_cache(getbuffer_func=lambda _: code)
        engine.finalize_object()
    except RuntimeError as error:
        raise Uncompilable(f"the code could not be made executable: {error}") from error
    if address := engine.get_function_address("kernel"):
        return Code(engine, address, made)
    raise Uncompilable("the code could not be made executable: it has no address")


def assembly(text: str, target: Target, triple: str | None = None) -> str:
    """The assembly of a module for a target, for tests and readers."""
    with guard:
        return str(_for_any(target, triple, text, "emit_assembly"))


def object_code(text: str, target: Target, triple: str) -> bytes:
    """A module as an object file for a linker, to run code for another processor."""
    with guard:
        return bytes(_for_any(target, triple, text, "emit_object"))


def _for_any(target: Target, triple: str | None, text: str, emit: str) -> Any:
    use = llvm.binding()
    if triple is not None:
        use.initialize_all_targets()
        use.initialize_all_asmprinters()
    module = use.parse_assembly(text, use.create_context())
    module.verify()
    return getattr(_machine(target, triple), emit)(module)


def _machine(target: Target, triple: str | None = None) -> Any:
    triple = triple or llvm.process_triple()
    return llvm.binding().Target.from_triple(triple).create_target_machine(**_options(target, triple))


def _options(target: Target, triple: str) -> dict[str, Any]:
    # features come only from the row, never from the processor's name, so that no other instruction can be emitted
    features = ",".join(f"+{name}" for name in target.features)
    return {"cpu": "x86-64" if triple.startswith("x86_64") else "generic", "features": features, "opt": 2, "jit": True}
