"""Fixtures of the tests of kernels."""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis.internal.conjecture import providers
from numpy.typing import NDArray

import guard_pages
from anydml.devices import link
from anydml.kernels.code import detect, engine, llvm, targets
from anydml.kernels.code.llvm import unavailable
from anydml.kernels.code.targets import Target
from anydml.kernels.match.rows import Rows
from anydml.kernels.reduce import undecided
from every_kernel import CallsOf, Compared, Kernel, Ran
from tuned import tuned

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# tests use a kernel again after hundreds of others: with fewer entries, half of all compilations would be repeated
engine.compiled = lru_cache(maxsize=1024)(engine.compiled.__wrapped__)
engine.within = lru_cache(maxsize=256)(engine.within.__wrapped__)

there = find_spec("torch")
collect_ignore = ["pytorch"] if there is None or there.origin is None else []  # a folder of this name is no torch

os.environ["ANYDML_CACHE"] = "0"  # set for processes that tests start, too: they compile the code that is tested

# the name of an instruction set; what tests count must not depend on the processor
if narrower := os.environ.get("ANYDML_TESTS_ON"):
    found = next(row for row in targets.targets() if row.name == narrower)

    @lru_cache(maxsize=1)
    def features() -> Mapping[str, bool]:
        return dict.fromkeys(found.features, True)

    llvm.host_features = features
    detect.features.cache_clear()
    targets.targets.cache_clear()

# Hypothesis draws from the constants of imported modules, which depend on the tests that ran before
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants

# Names the folder with the machine code of all workers of this run, and of no other. `make mutants` gives all runs one folder:
# code is found by its whole text, which says everything that a fault changes.
CODE = "ANYDML_CODE_OF_THIS_RUN"
GIVEN = CODE in os.environ
compiled_by_llvm = engine._compiled


def compiled_once(text: str, target: Target) -> bytes | str:
    """LLVM's code for a text. For more than a quarter of all texts, a worker of the run has compiled it before."""
    asked = repr((text, target.architecture, target.features)).encode()
    path = Path(os.environ[CODE], hashlib.blake2b(asked, digest_size=16).hexdigest())
    try:
        return path.read_bytes()
    except FileNotFoundError:
        made = compiled_by_llvm(text, target)
    if isinstance(made, bytes):
        whole = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        whole.write_bytes(made)
        whole.replace(path)
    return made


engine._compiled = compiled_once  # below the function that tests count: calls of `_compiled` are counted as before


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PEAKS] = {}
    if not GIVEN and not hasattr(config, "workerinput"):  # workers inherit it
        os.environ[CODE] = tempfile.mkdtemp(prefix="anydml-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not GIVEN and not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(CODE), ignore_errors=True)


TOGETHER = {  # files whose tests run in one process, one after another: they need it, or share what takes long to make
    **dict.fromkeys(("test_fork_safety", "test_pool", "test_matmul_threads", "test_memory", "test_matmul_memory"), "alone"),
    "test_examples": "examples",
    "test_arm_matmul": "arm",
    **dict.fromkeys(("test_program", "test_compare", "test_functions"), "examples of operators"),
}
"""Alone: forks, threads on every processor and measurements of memory disturb each other."""


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if group := TOGETHER.get(item.path.stem):
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    """Modules and tests are excluded from garbage collection, which would take a tenth of all time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(autouse=True, scope="session")
def _modules_compiled_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """If Python does not write bytecode beside modules, it is kept in a folder, so that processes do not compile them again."""
    if sys.dont_write_bytecode:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(tmp_path_factory.mktemp("bytecode"))


@pytest.fixture
def ran(record_property: Callable[[str, object], None]) -> Ran:
    """A function that reports the number of cases of a test, and fails if they are fewer than promised."""

    def say(cases: int, at_least: int) -> None:
        record_property("cases", cases)
        print(f"{cases} cases")
        assert cases >= at_least

    return say


@pytest.fixture
def compared(record_property: Callable[[str, object], None]) -> Compared:
    """A function that reports the number of outputs that a test compared with the oracle, and fails if they are too few."""

    def say(kind: str, outputs: int, at_least: int) -> None:
        record_property(kind, outputs)
        print(f"{outputs} {kind}")
        assert outputs >= at_least

    return say


PEAKS = pytest.StashKey[dict[str, int]]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the most memory that this process had: to the main process, if this is a worker."""
    if resource is None:  # Windows
        return
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["peak"] = peak
    elif not session.config.getoption("numprocesses", None):
        session.config.stash[PEAKS]["this process"] = peak


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if "peak" in (told := getattr(node, "workeroutput", {})):
        node.config.stash[PEAKS][node.gateway.id] = told["peak"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the most memory of each worker in one line, and the counts of all passed tests in another."""
    if peaks := terminalreporter.config.stash[PEAKS]:
        told = ", ".join(f"{name} {peak / 2**20:,.0f} MB" for name, peak in sorted(peaks.items()))
        terminalreporter.write_line(f"most memory: {told}")
    counts: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", ()):
        for name, number in report.user_properties:
            counts[name] += number
    if counts:
        terminalreporter.write_line(", ".join(f"{number:,} {name}" for name, number in sorted(counts.items())))


@pytest.fixture
def calls_of(monkeypatch: pytest.MonkeyPatch) -> CallsOf:
    """A function that returns a list with an entry for each later call of a module's function."""

    def counting(module: Any, name: str) -> list[None]:
        calls: list[None] = []
        function = getattr(module, name)

        def counted(*args: Any) -> Any:
            calls.append(None)
            return function(*args)

        monkeypatch.setattr(module, name, counted)
        return calls

    return counting


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also in the background, where it is ignored otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile kernels for this test only: it changes how they are made."""
    monkeypatch.setattr(engine, "compiled", lru_cache(maxsize=1024)(engine.compiled.__wrapped__))


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list with the number of elements that Python decided in each call of a kernel of rows."""
    counts: list[int] = []
    numbers = undecided._numbers

    def counting(r: Rows, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        found = numbers(r, entries)
        counts.append(len(found))
        return found

    monkeypatch.setattr(undecided, "_numbers", counting)
    return counts


@pytest.fixture
def in_python(left: list[int], own_code: None) -> list[int]:
    """Like `left`, with kernels that are compiled for this test only."""
    return left


@pytest.fixture
def _guarded_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch and packed tensors end less than a cache line before an unmapped page."""

    def aligned(nbytes: int) -> tuple[NDArray[np.uint8], int]:
        memory = guard_pages.guarded(max(-(-nbytes // link.LINE), 1) * link.LINE, at_end=True)
        return memory, memory.ctypes.data

    if guard_pages.AVAILABLE:
        monkeypatch.setattr(link, "_aligned", aligned)


@pytest.fixture
def _any_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels take calls of any size on any number of threads: the limits for small calls are removed."""
    kernel: Kernel | None = request.node.callspec.params.get("kernel")
    if kernel and kernel.name.endswith(":compiled") and (reason := unavailable()) is not None:
        pytest.skip(reason)
    # every module of kernels that is imported, so that the limits of `kernel.lower` are among them
    for module in [module for name, module in sys.modules.items() if name.startswith("anydml.kernels.")]:
        if module.__name__.endswith(".tuning"):
            limits = (field for field in module.TUNING._fields if field.partition("_")[0] in ("small", "alone"))
            tuned(monkeypatch, module, **dict.fromkeys(limits, 0))
