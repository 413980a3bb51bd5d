"""Kernels for AArch64, run on other machines: compiled by LLVM, linked with a small program in C, and emulated by QEMU.

The library's own code plans the work. Only `engine.compiled` is replaced: a recorder keeps the text of each kernel and returns
a number instead of an address.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from anydml.kernels import matched
from anydml.kernels.call.steps import At, Repeat, Step, runner
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import Target
from anydml.kernels.third import elements

TRIPLE = "aarch64-unknown-linux-gnu"
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
HARNESS = Path(__file__).with_name("arm_harness.c")
Bytes = NDArray[np.uint8]


def missing() -> str | None:
    """The reason why kernels cannot be emulated here, or None."""
    absent = [name for name in (COMPILER, EMULATOR) if shutil.which(name) is None]
    if absent:
        return f"{' and '.join(absent)} not found: Debian's packages gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user"
    return llvm.unavailable()


# marks tests that need the emulator and the compiler
needed = pytest.mark.skipif(missing() is not None, reason=str(missing()))


class Recorder:
    """Replaces `engine.compiled`: keeps the text of every kernel, which gets a number."""

    def __init__(self) -> None:
        self._codes: dict[Any, engine.Code] = {}
        self.texts: dict[str, int] = {}

    def compiled(self, emit: Callable[..., str], target: Target, *arguments: Any) -> engine.Code:
        key = (emit, target, arguments)
        if key not in self._codes:
            number = self.texts.setdefault(emit(target, *arguments), len(self.texts))
            self._codes[key] = engine.Code(None, number)
        return self._codes[key]

    def emitters(self) -> set[tuple[Any, ...]]:
        """The code that was compiled: the names of the functions that emit it, with their arguments after the target."""
        return {(emit.__name__, *arguments) for emit, _, arguments in self._codes}


def recording(monkeypatch: pytest.MonkeyPatch, target: Target, *families: ModuleType) -> Recorder:
    """A recorder of the kernels of some families for a target, which may be another processor than this."""
    made = Recorder()
    monkeypatch.setattr(engine, "compiled", made.compiled)
    monkeypatch.setattr(elements, "taped", lambda *_: None)  # no code of this processor is compiled meanwhile
    for module in (matched, *families):
        if hasattr(module, "wanted"):
            monkeypatch.setattr(module, "wanted", lambda name, stage: target)
    return made


def steps_of(phases: Iterable[Sequence[Sequence[Step | Repeat]]]) -> list[Step]:
    """The steps of phases, one after another; none may be a Repeat."""
    found: list[Step] = []
    for piece in (piece for phase in phases for piece in phase):
        for step in piece:
            assert isinstance(step, Step)
            found.append(step)
    return found


class Case(NamedTuple):
    """Steps over buffers. wanted: the contents of some buffers after the steps; the others are only read, or are scratch.

    judge: called instead, with the status and all written buffers by name.
    """

    name: str
    buffers: Mapping[str, Bytes]
    steps: Sequence[Step]
    wanted: Mapping[str, Bytes]
    scratch: tuple[str, ...] = ("scratch", "passing", "packed", "spare")
    status: int = 0
    judge: Callable[[int, Mapping[str, Bytes]], None] | None = None


def _encoded(case: Case) -> bytes:
    names = list(case.buffers)
    parts = [struct.pack("<q", len(names))]
    for name, content in case.buffers.items():
        written = name in case.wanted or name in case.scratch
        parts.append(struct.pack("<qq", content.size, written))
        parts.append(content.tobytes() + bytes(-content.size % 8))
    numbers: list[int] = []
    for step in case.steps:
        numbers += [step.code.address, len(step.arguments)]
        for x in step.arguments:
            numbers += [names.index(x.base), x.offset] if isinstance(x, At) else [-1, int(x)]
    parts.append(struct.pack(f"<qq{len(numbers)}q", len(case.steps), len(numbers), *numbers))
    return b"".join(parts)


@cache
def _object(target: Target, text: str) -> bytes:
    return engine.object_code(text, target, TRIPLE)


def build(directory: Path, target: Target, texts: Collection[str]) -> Path:
    """The program that runs cases of these kernels. Compiled kernels are kept for further programs."""
    objects: list[Path] = []
    names: list[str] = []
    for text in [*texts, runner(target)]:
        name = f"kernel_{hashlib.sha1(text.encode()).hexdigest()}" if len(names) < len(texts) else "runner"
        names.append(name)
        objects.append(directory / f"{name}.o")
        objects[-1].write_bytes(_object(target, text.replace("@kernel(", f"@{name}(")))
    names.pop()
    (directory / "kernels.c").write_text(
        "".join(f"extern long {name}(const long *);\n" for name in names)
        + f"long (*const KERNELS[])(const long *) = {{{', '.join(names)}}};\n"
    )
    (directory / "objects").write_text("\n".join(map(str, objects)))
    program = directory / "arm_harness"
    command = [COMPILER, "-O1", "-Wall", "-Werror", "-static", "-o", str(program)]
    subprocess.run([*command, str(HARNESS), str(directory / "kernels.c"), f"@{directory}/objects"], check=True)
    return program


def run(program: Path, processor: str, cases: Sequence[Case]) -> None:
    """Run every case on an emulated processor and compare the results."""
    given, results = program.with_name("cases"), program.with_name("results")
    given.write_bytes(struct.pack("<q", len(cases)) + b"".join(map(_encoded, cases)))
    command = [EMULATOR, "-cpu", processor, str(program), str(given), str(results)]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stderr} {_named(ended.stderr, cases)}"
    found = np.fromfile(results, np.uint8)
    at = 0
    for case in cases:
        for where in ("behind", "before"):
            status = int(found[at : at + 8].view(np.int64)[0])
            assert case.judge or status == case.status, f"{case.name}, {where} a page: status {status}"
            at += 8
            written: dict[str, Bytes] = {}
            for name, content in case.buffers.items():
                if name not in case.wanted and name not in case.scratch:
                    continue
                got = written[name] = found[at : at + content.size].copy()
                if name in case.wanted and not case.judge:
                    np.testing.assert_array_equal(got, case.wanted[name], f"{case.name}, {where} a page: {name}")
                at += content.size
            if case.judge:
                case.judge(status, written)
    assert at == found.size


def _named(message: str, cases: Sequence[Case]) -> str:
    first = message.partition(",")[0].removeprefix("case ")
    return cases[int(first)].name if first.isdigit() else ""


class Open:
    """Counts of the elements that were compared, and of those that kernels left undecided."""

    def __init__(self) -> None:
        self.compared = self.left = 0
