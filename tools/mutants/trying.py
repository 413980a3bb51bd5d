"""Runs of tests with a fault: in a copy of the tree, whose tests import the copy."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mutants.covering import tests
from mutants.mutant import ROOT, Mutant

FOLDER = ROOT / ".mutants"  # git ignores it
COPIED = ("src", "tests", "tools", "docs", "examples", "benchmarks", "pyproject.toml", "README.md", "CHANGELOG.md", "Makefile")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - (.*))?$", re.MULTILINE)


class Outcome(NamedTuple):
    """status: caught, survived, or late: the tests did not end in time. by: the test that failed, and why."""

    status: str
    by: str
    seconds: float


class Tree:
    """A copy of the project."""

    def __init__(self) -> None:
        self.root = FOLDER / "tree"
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        (FOLDER / "code").mkdir(exist_ok=True)
        for name in COPIED:
            whole = ROOT / name
            if whole.is_dir():
                shutil.copytree(whole, self.root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            elif whole.exists():
                shutil.copy2(whole, self.root / name)
        self._sound: dict[str, bool] = {}

    def try_(self, mutant: Mutant, limit: float) -> Outcome:
        """The outcome of the tests that cover a fault. A test that fails without it, too, is an error."""
        path = self.root / "src" / "anydml" / mutant.path
        whole = path.read_bytes()
        try:
            self._write(path, mutant.planted(whole))
            outcome = self._run(tests(mutant.path, mutant.kind), limit)
        finally:
            self._write(path, whole)
        if outcome.status == "caught":
            test = outcome.by.split(" - ")[0]
            if test not in self._sound:
                self._sound[test] = self._run((test,), None).status == "survived"
            if not self._sound[test]:
                raise RuntimeError(f"{test} fails without a fault")
        return outcome

    @staticmethod
    def _write(path: Path, source: bytes) -> None:
        path.write_bytes(source)
        for old in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            old.unlink()  # two versions of a file may be alike in size and in the second when they were written

    def _run(self, given: Sequence[str], limit: float | None) -> Outcome:
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src"), "ANYDML_CODE_OF_THIS_RUN": str(FOLDER / "code")}
        command = [sys.executable, "-m", "pytest", "--exitfirst", "--quiet", "--tb=no", "--color=no", *given]
        start = time.monotonic()
        process = subprocess.Popen(
            command, cwd=self.root, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return Outcome("late", "", time.monotonic() - start)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        seconds = time.monotonic() - start
        if process.returncode == 0:
            return Outcome("survived", "", seconds)
        found = FAILED.search(output)
        if found is None:
            raise RuntimeError(f"pytest ended with status {process.returncode}:\n{output[-2000:]}")
        return Outcome("caught", f"{found[1]} - {found[2] or ''}"[:300], seconds)
