"""Runs of tests with a fault: in a copy of the tree, in a process that is forked with pytest and all libraries imported."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mutants.covering import files
from mutants.mutant import ROOT, Mutant
from mutants.reached import Reached, all_asked, asked, ordered, reaching

FOLDER = ROOT / ".mutants"  # git ignores it
COPIED = (
    *("src", "tests", "tools", "docs", "examples", "benchmarks", "pyproject.toml", "mkdocs.yml", "Makefile", "LICENSE"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md"),
)
LIBRARIES = (  # what tests import most
    "numpy", "llvmlite.binding", "pytest", "xdist.plugin", "hypothesis.extra.numpy", "gmpy2", "flint", "onnx", "onnx.helper",
)  # fmt: skip
WHOLE = 3600  # seconds of the processor that all tests may take
HANGS = 60  # seconds of the processor that a test may take longer than all tests that were chosen


class Outcome(NamedTuple):
    """status: caught, survived, or late: the tests did not end in time. by: the test that failed, and why.

    seconds: of the processor. tests: how many were run.
    """

    status: str
    by: str
    seconds: float
    tests: int


class Tree:
    """A copy of the project."""

    def __init__(self, name: str = "tree") -> None:
        self.root = FOLDER / name
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        self.code = FOLDER / "code"
        self.code.mkdir(exist_ok=True)
        for name in COPIED:
            whole = ROOT / name
            if whole.is_dir():
                shutil.copytree(whole, self.root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            elif whole.exists():
                shutil.copy2(whole, self.root / name)
        self.reached = Reached(FOLDER / "reached", self.root)
        for name in LIBRARIES:
            __import__(name)

    def try_(self, mutant: Mutant, seconds: float, killers: Sequence[str] = (), *, everything: bool = False) -> Outcome:
        """The outcome of the tests that reach a fault, as many as take so many seconds; killers: tests that come first.

        everything: if none of these fails, all tests are run.
        """
        given = files(mutant.path, mutant.kind, self.root)
        found = self._of_covering(mutant, given, seconds, killers)
        return self._of_all(mutant, given) if everything and found.status == "survived" else found

    def tried_by(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> Outcome | None:
        """The outcome of these tests, or files of tests, for a fault; None if there are none, or they fail without a fault."""
        if not all((self.root / test.split("::")[0]).is_file() for test in tests):
            return None
        work = partial(all_asked, tests, ())
        found = self._planted(mutant, work, seconds)
        sure = found.status == "survived" or (found.tests > 0 and found.status == "caught")
        return found if sure or self._outcome(work, seconds).status == "survived" else None

    def ready(self, mutant: Mutant) -> bool:
        """Whether it is known what some tests for a fault reach, so that it takes less time than others."""
        return any(map(self.looked, files(mutant.path, mutant.kind, self.root)))

    def looked(self, file: str) -> bool:
        """Whether it is known which functions the tests of a file reach."""
        return file in self.reached or self.reached.kept(file)

    def look(self, file: str) -> None:
        """Find out, once, which functions the tests of a file reach."""
        if not self.looked(file):
            self._forked(lambda: self.reached.look(file), 3600)
        if file not in self.reached:
            self.reached.read(file)

    def _of_covering(self, mutant: Mutant, given: Sequence[str], seconds: float, killers: Sequence[str]) -> Outcome:
        """The outcome of tests in files that were looked at, and then, a file at a time, of those in the given files."""
        left = [file for file in given if not self.looked(file)]
        found, run = Outcome("survived", "", 0.0, 0), set[str]()
        while True:
            for file in given:
                if file not in left:
                    self.look(file)
            if not left or reaching(mutant, self.reached.all()):
                looked = [file for file in given if file not in left]
                chosen = ordered(mutant, self.reached, looked, seconds - found.seconds, killers, run)
                if chosen:
                    made = self._planted(mutant, partial(asked, chosen), seconds)
                    run.update(chosen)
                    found = made._replace(seconds=found.seconds + made.seconds, tests=found.tests + made.tests)
            if found.status != "survived" or not left or found.seconds > seconds:
                return found
            self.look(left.pop(0))

    def _of_all(self, mutant: Mutant, first: Sequence[str]) -> Outcome:
        """The outcome of all tests, the given files first. Tests that fail without the fault, too, are left out."""
        every = (p.relative_to(self.root).as_posix() for p in sorted((self.root / "tests").rglob("test_*.py")))
        files = [*dict.fromkeys([*first, *(file for file in every if not file.startswith("tests/pytorch/"))])]
        failing: list[str] = []
        spent, tests = 0.0, 0
        while True:
            found = self._planted(mutant, partial(all_asked, files, failing), WHOLE)
            spent, tests = spent + found.seconds, tests + found.tests
            by = found.by.split(" - ")[0]
            if found.status != "caught" or not by.startswith("tests/"):
                return found._replace(seconds=spent, tests=tests)
            if self._outcome(partial(asked, [by]), WHOLE).status == "survived":
                return found._replace(seconds=spent, tests=tests)
            failing.append(by)
            files = files[files.index(by.split("::")[0]) :]

    def _planted(self, mutant: Mutant, work: Callable[[Path], int], seconds: float) -> Outcome:
        """The outcome of work with a fault in the tree."""
        path = self.root / "src" / "anydml" / mutant.path
        whole, start = path.read_bytes(), time.time()
        try:
            self._write(path, mutant.planted(whole))
            return self._outcome(work, seconds)
        finally:
            self._write(path, whole)
            for made in self.code.iterdir():  # what a fault changes is compiled for nothing else
                if made.stat().st_mtime > start:
                    made.unlink()

    def _outcome(self, work: Callable[[Path], int], seconds: float) -> Outcome:
        """The outcome of work, which runs tests, and writes down in a file which begins, and which fails."""
        told = self.root / "told.jsonl"
        told.unlink(missing_ok=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        status = self._forked(lambda: work(told), seconds + HANGS)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        lines = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
        begun = [line for line in lines if "begun" in line]
        for line in lines:
            if "failed" in line:
                return Outcome("caught", f"{line['failed']} - {line['why']}"[:200], spent, len(begun))
        if status == 0:
            return Outcome("survived", "", spent, len(begun))
        last = begun[-1]["begun"] if begun else "the collection of tests"
        if status in (-signal.SIGXCPU, -signal.SIGALRM):
            return Outcome("late", last, spent, len(begun))
        return Outcome("caught", f"{last} - the process ended with status {status}", spent, len(begun))

    @staticmethod
    def _write(path: Path, source: bytes) -> None:
        path.write_bytes(source)
        for old in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            old.unlink()  # two versions of a file may be alike in size and in the second when they were written

    def _forked(self, work: Callable[[], int], seconds: float) -> int:
        """The exit status of work in a process of its own, negative for a signal."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 70
            try:
                os.setsid()
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(int(seconds) * 20 + 600)  # for what waits, and takes no time of the processor
                os.chdir(self.root)
                os.environ.update(PYTHONPATH=str(self.root / "src"), ANYDML_CODE_OF_THIS_RUN=str(self.code))
                os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others' plugins take a second to import
                sys.path.insert(0, str(self.root / "src"))
                sys.dont_write_bytecode = False
                output = os.open(self.root / "output.txt", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
                os.dup2(output, 1)
                os.dup2(output, 2)
                status = work()
            finally:
                os._exit(status)
        try:
            _, ended = os.waitpid(child, 0)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # and what it started
        return os.waitstatus_to_exitcode(ended)
