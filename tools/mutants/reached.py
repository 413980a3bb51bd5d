"""Which functions of the source each test reaches, and which tests are run for a fault, in which order.

A test that finds a kernel in a cache does not reach the functions that emit it: so each file of tests is looked at in a process
of its own, and for a fault the tests that do not reach it come after those that do, from the same files.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, TextIO

import pytest

from mutants.mutant import SOURCE, Mutant, Source

QUIET = ("-q", "--tb=no", "--color=no", "--assert=plain", "-p", "no:cacheprovider", "-p", "anydml_pytest", "-p", "xdist.plugin")


# the names of tests that find some kinds at once: they compare bounds with errors and with records, and break each rule
_OF_NUMBERS = tuple(f"test_what_is_said_of_numbers_{of}holds" for of in ("", "with_bounds_", "in_twice_the_precision_"))
FIRST = {
    "bound": (*_OF_NUMBERS, "test_no_error_exceeds_its_bound"),
    "guard": _OF_NUMBERS,
    "rule": ("has_an_example_that_breaks_exactly_it",),
}


class Test(NamedTuple):
    """seconds: of the processor. functions: "path:name", below src/anydml."""

    seconds: float
    passed: bool
    functions: frozenset[str]


class Reached:
    """Findings about each file of tests, kept in a folder."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = folder, root
        self.folder.mkdir(parents=True, exist_ok=True)
        self._files: dict[str, dict[str, Test]] = {}
        for file in sorted(path.stem.replace("+", "/") for path in folder.glob("*.json")):
            if self.kept(file):
                self.read(file)

    def __contains__(self, file: str) -> bool:
        return file in self._files

    def tests(self, file: str) -> dict[str, Test]:
        """The tests of a file that pass without a fault."""
        return {name: test for name, test in self._files[file].items() if test.passed}

    def all(self) -> dict[str, Test]:
        """The tests of all files that were looked at, which pass without a fault."""
        return {name: test for file in self._files for name, test in self.tests(file).items()}

    def seconds(self, name: str) -> float:
        return self._files[name.split("::")[0]][name].seconds

    def kept(self, file: str) -> bool:
        """Whether a run has looked at a file as it is today."""
        return self._path(file).exists() and json.loads(self._path(file).read_text()).get("digest") == self._digest(file)

    def _digest(self, file: str) -> str:
        whole = self.root / file
        return hashlib.sha256(whole.read_bytes()).hexdigest()[:16] if whole.exists() else ""

    def _path(self, file: str) -> Path:
        return self.folder / f"{file.replace('/', '+')}.json"

    def read(self, file: str) -> None:
        """Read what was found out of a file."""
        if not self._path(file).exists():
            self._files[file] = {}  # its tests cannot be run here
            return
        found = json.loads(self._path(file).read_text())
        names = found["functions"]
        self._files[file] = {
            name: Test(seconds, passed, frozenset(names[k] for k in reached))
            for name, (seconds, passed, reached) in found["tests"].items()
        }

    def look(self, file: str) -> int:
        """Run the tests of a file, and keep what they reach."""
        watch = Watch(str(self.root / "src" / "anydml") + "/")
        pytest.main([*QUIET, file], plugins=[watch])
        functions = sorted({f for test in watch.found.values() for f in test.functions})
        number = {f: k for k, f in enumerate(functions)}
        tests = {n: (round(t.seconds, 3), t.passed, sorted(number[f] for f in t.functions)) for n, t in watch.found.items()}
        whole = self._path(file).with_suffix(".part")
        whole.write_text(json.dumps({"digest": self._digest(file), "functions": functions, "tests": tests}))
        whole.replace(self._path(file))
        return 0


class Watch:
    """A plugin of pytest that notes which functions below a folder each test calls."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.found: dict[str, Test] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        seen: dict[int, CodeType] = {}

        def called(frame: FrameType, event: str, given: object) -> None:
            code = frame.f_code
            seen.setdefault(id(code), code)  # which keeps the number from being used again

        before: Callable[..., Any] | None = sys.gettrace()
        start = time.process_time()
        threading.settrace(called)
        sys.settrace(called)
        try:
            return (yield)
        finally:
            sys.settrace(before)
            threading.settrace(before)  # None undoes it
            reached = frozenset(f"{c.co_filename[len(self.folder) :]}:{name_of(c)}" for c in seen.values() if self._ours(c))
            self.found[item.nodeid] = Test(time.process_time() - start, item.nodeid not in self.failed, reached)

    def _ours(self, code: CodeType) -> bool:
        return code.co_filename.startswith(self.folder)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:  # those that are skipped, too
            self.failed.add(report.nodeid)


def name_of(code: CodeType) -> str:
    """The name of a function, with those around it."""
    name: str = getattr(code, "co_qualname", code.co_name)  # Python 3.10 has its own name only
    return name.replace(".<locals>", "")


def ordered(
    mutant: Mutant, reached: Reached, given: Sequence[str], seconds: float, killers: Sequence[str], run: Collection[str] = ()
) -> list[str]:
    """The tests for a fault that were not run: those that found others in its file; the fastest of each function; the rest.

    Tests that reach the fault come first, of whatever file; given are files whose tests are run if none does. They take at
    most so many seconds in all, but for the first.
    """
    tests = reached.all()
    known = [name for name in killers if name in tests]
    reach = reaching(mutant, tests)
    quick = [test for kind, found in FIRST.items() if mutant.kind.startswith(kind) for test in found]
    known += sorted((name for name in reach if any(test in name for test in quick)), key=lambda n: (tests[n].seconds, n))
    beside = {name.split("::")[0] for name in reach} or set(given)
    found = dict.fromkeys(known)
    for names in (reach, {name for name in tests if name.split("::")[0] in beside} - reach):
        quickest: dict[str, str] = {}
        for name in sorted(names, key=lambda n: (tests[n].seconds, n)):
            quickest.setdefault(name.split("[")[0], name)
        found.update(dict.fromkeys(by_file(set(quickest.values()), tests)))
        found.update(dict.fromkeys(by_file(names - set(quickest.values()), tests)))
    taken: list[str] = []
    spent = 0.0
    for name in found:
        if name in run:
            continue
        if not taken or spent + tests[name].seconds <= seconds:
            taken.append(name)
            spent += tests[name].seconds
    return taken


def reaching(mutant: Mutant, tests: Mapping[str, Test]) -> set[str]:
    """The tests that reach a fault."""
    users = users_of(mutant)
    return {name for name, test in tests.items() if any(reaches(f, mutant, users) for f in test.functions)}


def by_file(names: set[str], tests: dict[str, Test]) -> list[str]:
    """Tests file by file, so that what a file's tests share is made once; the fastest files and tests first."""
    files: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda n: (tests[n].seconds, n)):
        files.setdefault(name.split("::")[0], []).append(name)
    return [name for _, group in sorted(files.items(), key=lambda f: sum(tests[n].seconds for n in f[1])) for name in group]


def users_of(mutant: Mutant) -> frozenset[str]:
    """The functions that read the constant of a module that a fault changes; none if it is no constant, or nobody reads it."""
    if mutant.inside or not (SOURCE / mutant.path).exists():
        return frozenset()
    source = Source(mutant.path)
    made = [n for n in source.tree.body if isinstance(n, ast.Assign | ast.AnnAssign) and source.span(n)[0] <= mutant.start]
    names = {n.id for n in ast.walk(made[-1]) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} if made else set()
    reads = (n for n in ast.walk(source.tree) if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load))
    return frozenset(inside for n in reads if (inside := source.around(source.span(n)[0])))


def reaches(function: str, mutant: Mutant, users: frozenset[str]) -> bool:
    """Whether a call of a function may reach a fault; users: those that read the constant that it changes."""
    path, _, name = function.partition(":")
    if path != mutant.path:
        return False
    if users:
        return any(name == user or name.startswith(f"{user}.") for user in users)
    inside = mutant.inside
    return not inside or name == inside or name.startswith(f"{inside}.") or inside.endswith(f".{name}")


class Teller:
    """A plugin of pytest that runs given tests in their order, or all, and writes down which begins, and which fails first."""

    def __init__(self, chosen: Sequence[str] | None, told: TextIO) -> None:
        self.chosen, self.told = chosen, told

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.chosen is not None:
            there = {item.nodeid: item for item in items}
            items[:] = [there[name] for name in self.chosen if name in there]

    def _tell(self, **what: str) -> None:
        self.told.write(json.dumps(what) + "\n")
        self.told.flush()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._tell(begun=nodeid)

    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]) -> None:
        said = "" if call.excinfo is None else f"{call.excinfo.typename}: {call.excinfo.value}"
        self._tell(failed=node.nodeid, why=" ".join(said.split())[:200])


def asked(chosen: Sequence[str], told: Path) -> int:
    """Run given tests until one fails; 0 where none does."""
    if not chosen:
        return 0
    files = dict.fromkeys(name.split("::")[0] for name in chosen)
    return _run([*files], Teller(chosen, told.open("w")))


def all_asked(files: Sequence[str], without: Collection[str], told: Path) -> int:
    """Run all tests of files, but for some, until one fails; 0 where none does."""
    deselected = [word for name in without for word in ("--deselect", name)]
    return _run([*deselected, *files], Teller(None, told.open("w")))


def _run(words: Sequence[str], teller: Teller) -> int:
    with teller.told:
        status = pytest.main([*QUIET, "--exitfirst", *words], plugins=[teller])
    return 0 if status == pytest.ExitCode.OK else 1
