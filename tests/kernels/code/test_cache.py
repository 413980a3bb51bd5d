"""Machine code on disk: other processes find it; it is not used if it is damaged, or if other users could have written it."""

from __future__ import annotations

import ctypes
import os
import random
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import config
from anydml.errors import OptimizationWarning
from anydml.kernels.call import pool_emit
from anydml.kernels.code import cache, engine, llvm, sources, store, targets
from anydml.kernels.code.engine import Uncompilable
from anydml.tensor import DataType
from every_kernel import SOAK, CallsOf, Ran

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="without LLVM there is no machine code to keep")
posix = pytest.mark.skipif(os.name != "posix", reason="Windows has access lists in the place of owners and modes")
MOST = 1 << 20
NAME = store.name_of(b"a key")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache during a test."""
    monkeypatch.setenv("ANYDML_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


def returning(value: int, frame: int = 0) -> Callable[[targets.Target], str]:
    room = f'%room = alloca [{frame} x i8]\n call void asm sideeffect "", "r"(ptr %room)\n' if frame else ""
    return lambda target: f"define i64 @kernel(ptr %arguments) {{\n{room} ret i64 {value}\n}}"


def run(emit: Callable[..., str], *arguments: Any, target: targets.Target | None = None) -> int:
    """The result of a kernel that this process has not compiled before."""
    code = engine.compiled.__wrapped__(emit, target or targets.targets()[-1], *arguments)
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(None))


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_what_was_compiled_once_is_found(folder: Path, calls_of: CallsOf) -> None:
    compiled = calls_of(engine, "_compiled")
    assert [run(returning(7)) for _ in range(3)] == [7] * 3
    assert [run(returning(8)) for _ in range(3)] == [8] * 3
    assert len(compiled) == len(files(folder)) == 2
    if os.name == "posix":
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in files(folder)} == {0o600}


FRESH = """
import hashlib
import numpy as np
import anydml as dml
from anydml.kernels.code import engine, sources
made, texts, compiled = [], [], engine._compiled
engine._compiled = lambda text, target: (made.append(text), compiled(text, target))[1]
identity = sources.identity
sources.identity = lambda emit, arguments: identity(emit, arguments) or texts.append(emit)
x = np.random.default_rng(0).standard_normal((1, 16, 64, 64)).astype(np.float32)
y = dml.element_wise_tanh(x)
z = dml.reduce(y, function="SUM", axes=(3,))
w = dml.resample(y, "LINEAR", (1, 1, 1.5, 1.5), output_sizes=(1, 16, 96, 96))
print(len(made), len(texts), hashlib.sha256(y.tobytes() + z.tobytes() + w.tobytes()).hexdigest())
"""


def fresh(folder: Path | str, **environment: str) -> list[str]:
    """The numbers of compiled kernels and of emitted texts in a new process, and the digest of its results."""
    environment = {**os.environ, "ANYDML_CACHE": str(folder), **environment}
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "kept"
    made, texts, results = fresh(folder)
    assert int(made) >= 5
    assert texts == "0" or time.time() - newest_file() < 60  # new files may differ from the modules that run
    again, _, same = fresh(folder, PYTHONHASHSEED="1")
    assert (again, same) == ("0", results)
    for file in files(folder):  # all of them damaged
        file.write_bytes(file.read_bytes()[:-1])
    assert fresh(folder)[::2] == fresh("0")[::2] == [made, results]


def newest_file() -> float:
    """The time at which the newest file that emits texts was written."""
    root = Path(dml.__file__).parent
    return max(
        file.stat().st_mtime for folder in sources._FOLDERS for file in (root / folder).glob("**/*.py" if folder else "*.py")
    )


def damaged(whole: bytes) -> Iterator[bytes]:
    rng = random.Random(1)
    yield from (whole[:n] for n in (0, 1, 8, 39, 40, 41, len(whole) // 2, len(whole) - 1))
    yield from (whole + b"\0", whole[1:], bytes(len(whole)))
    for at in [*range(44), *rng.sample(range(len(whole)), 20)]:
        yield whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]


def test_a_damaged_file_is_replaced(folder: Path, calls_of: CallsOf, ran: Ran) -> None:
    compiled = calls_of(engine, "_compiled")
    run(returning(7))
    (file,) = files(folder)
    whole, cases = file.read_bytes(), 0
    for content in damaged(whole):
        cases += 1
        file.write_bytes(content)
        assert run(returning(7)) == 7
        assert files(folder) == [file]
        assert file.read_bytes() == whole
    assert len(compiled) == 1 + cases
    ran(cases, 70)


def test_a_file_is_good_under_its_own_name_alone(folder: Path) -> None:
    run(returning(7))
    (seven,) = files(folder)
    run(returning(8))
    (eight,) = set(files(folder)) - {seven}
    eight.write_bytes(seven.read_bytes())
    assert run(returning(8)) == 8


def test_other_versions_targets_and_arguments_have_other_code(
    folder: Path, calls_of: CallsOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = calls_of(engine, "_compiled")
    for target in targets.targets():
        assert run(returning(7), target=target) == 7
    monkeypatch.setattr(llvm, "versions", lambda: "0.49.0 20.1.8")
    assert run(returning(7)) == 7
    monkeypatch.setattr(cache, "FORMAT", 0)
    assert run(returning(7)) == 7
    assert len(compiled) == len(targets.targets()) + 2


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of kernels whose emitter counts its calls."""
    module = ModuleType("anydml.kernels.counting")
    exec("calls = []\ndef emit(target, value):\n calls.append(value)\n return text(value)", module.__dict__)
    module.__dict__["text"] = lambda value: returning(int(value))(targets.targets()[0])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sources, "BEGAN", time.time() + 10)  # also for new sources
    sources._files.cache_clear()
    return module


def test_the_text_of_code_that_is_kept_is_not_made(folder: Path, counting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [run(counting.emit, 1) for _ in range(3)] == [1] * 3
    assert run(counting.emit, True) == run(counting.emit, "1") == run(counting.emit, Fraction(1)) == 1
    assert [repr(value) for value in counting.calls] == ["1", "True", "'1'", "Fraction(1, 1)"]
    monkeypatch.setattr(sources, "_files", lambda: "other files")
    assert run(counting.emit, 1) == 1
    assert len(counting.calls) == 5
    monkeypatch.setattr(sources, "_files", lambda: None)  # if the files are unknown, the text identifies a kernel
    assert run(counting.emit, 1) == run(counting.emit, 1) == 1
    assert len(counting.calls) == 7


def test_identities_tell_values_apart(counting: Any) -> None:
    values: list[Any] = [
        0,
        False,
        0.0,
        -0.0,
        "0",
        None,
        (),
        (0,),
        ((0,),),
        (0, 0),
        Fraction(0),
        5e-324,
        float("inf"),
        DataType.INT8,
    ]
    values += ["INT8", Fraction(1, 3), 1 / 3, "a,b", ("a", "b"), "('a','b')", DataType.UINT8]
    found = [sources.identity(counting.emit, value if type(value) is tuple else (value,)) for value in values]
    found.append(sources.identity(pool_emit.call, (0,)))
    same = {(): [()], (0,): [0, (0,)]}  # the arguments that are equal to these
    assert None not in found
    assert len(set(found)) == len(found) - len(same) + 1


def test_what_is_not_described_has_no_identity(counting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources.identity(counting.emit, (1,)) is not None
    for value in (float("nan"), np.int64(1), object(), [1], {1: 2}, np.zeros(1), (1, (2, [3]))):
        assert sources.identity(counting.emit, (value,)) is None
    assert sources.identity(returning(1), ()) is None
    monkeypatch.setattr(counting, "emit", returning(1))  # another function with the same name
    assert sources.identity(pool_emit.call, ()) is not None
    monkeypatch.setattr(pool_emit, "call", returning(1))
    assert sources.identity(pool_emit.call, ()) is None


def test_files_that_changed_since_the_process_began_identify_nothing(counting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BEGAN", newest_file() + 1)
    sources._files.cache_clear()
    assert sources._files() is None
    monkeypatch.setattr(sources, "BEGAN", newest_file() + 3)
    sources._files.cache_clear()
    assert sources._files() is not None
    sources._files.cache_clear()


def test_equal_identities_are_of_equal_texts(counting: Any, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the kernels of operators' examples: a text depends on its identity only, and texts are equal if identities are."""
    texts: dict[str, str] = {}
    emitted = 0

    def made(
        emit: Callable[..., str], target: targets.Target, arguments: tuple[Any, ...], most: int | None = None
    ) -> engine.Code:
        nonlocal emitted
        known = sources.identity(emit, arguments)
        assert known is not None, (emit, arguments)
        text = emit(target, *arguments)
        emitted += 1
        assert texts.setdefault(f"{target.name} {known}", text) == text
        return engine.Code(None, 1)

    monkeypatch.setattr(engine, "_made", made)
    for name in ("compiled", "within"):
        monkeypatch.setattr(engine, name, getattr(engine, name).__wrapped__)
    for isa in (targets.targets()[-1].name, "generic"):
        device = dml.Device(isa=isa)
        for operator in dml.operators.every()[:: 1 if SOAK > 1 else 8]:
            for example in operator.spec.examples[:2]:
                device.compile(operator(**example.fields))
    ran(emitted, 60)
    assert len(set(texts.values())) > len(texts) * 0.9


def test_code_with_too_large_a_frame_is_refused_from_the_disk_too(folder: Path, calls_of: CallsOf) -> None:
    compiled = calls_of(engine, "_compiled")
    for _ in range(2):
        assert engine.within.__wrapped__(returning(7, 5000), targets.targets()[-1], 4096) is None
        assert engine.within.__wrapped__(returning(7, 500), targets.targets()[-1], 4096) is not None
    assert len(compiled) == 2


def test_code_that_llvm_does_not_take_is_not_kept(folder: Path) -> None:
    """With a warning, which is an error in other tests."""
    with pytest.warns(OptimizationWarning, match="report"), pytest.raises(Uncompilable, match="does not take"):
        run(lambda target: "define i64 @kernel(ptr %arguments) { ret i64 %nothing }")
    assert not folder.exists()


@pytest.mark.parametrize(("module", "name"), [(sources, "identity"), (store, "read"), (store, "write")])
def test_a_cache_that_fails_unexpectedly_is_left_out(
    module: Any, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(*arguments: Any) -> Any:
        raise RuntimeError("nobody expected this")

    monkeypatch.setattr(module, name, raising)
    with pytest.warns(OptimizationWarning, match="Machine code on disk is left out: RuntimeError: nobody expected this"):
        assert run(returning(7)) == 7


# the folder


def test_0_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls_of: CallsOf) -> None:
    monkeypatch.setenv("ANYDML_CACHE", " 0 ")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = calls_of(engine, "_compiled")
    assert run(returning(7)) == run(returning(7)) == 7
    assert len(compiled) == 2
    assert files(tmp_path) == []
    assert config.config()["cache"] == {"folder": None, "why": "ANYDML_CACHE is 0"}


@pytest.mark.parametrize("word", ["off", "1", "cache/here"])
def test_a_word_makes_no_folder_where_one_works(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANYDML_CACHE", word)
    assert run(returning(7)) == 7
    assert list(tmp_path.iterdir()) == []
    assert config.config()["cache"] == {
        "folder": None,
        "why": f"ANYDML_CACHE is {word!r}, which is neither 0 nor an absolute path",
    }


@posix
def test_the_folder_is_the_platform_s_or_the_one_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYDML_CACHE", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.folder() == tmp_path / ".cache" / "anydml"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache.folder() == Path("/elsewhere/anydml")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.folder() == tmp_path / "Library" / "Caches" / "anydml"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert cache.folder() == Path("/local/anydml/cache")
    monkeypatch.delenv("ANYDML_CACHE")
    assert cache.folder() == Path("/local/anydml/cache")
    monkeypatch.setenv("ANYDML_CACHE", "~/here")
    assert cache.folder() == tmp_path / "here"


@posix
def test_in_another_user_s_home_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With sudo, the folder may belong to the user who called it; it may also not exist."""
    monkeypatch.delenv("ANYDML_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cache.folder() == f"{tmp_path} is another user's"
    assert run(returning(7)) == 7
    assert files(tmp_path) == []
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    assert "No such file" in str(cache.folder())
    assert run(returning(7)) == 7


def shut(folder: Path) -> None:
    """Assert that a kernel compiles, that nothing is kept, and that `anydml info` gives the reason."""
    before = files(folder) if folder.is_dir() else []
    assert run(returning(7)) == run(returning(7)) == 7
    assert not folder.is_dir() or files(folder) == before


@posix
@pytest.mark.parametrize("mode", [0o755, 0o750, 0o770, 0o777, 0o701, 0o720])
def test_a_folder_that_others_may_use_is_not_used(folder: Path, mode: int) -> None:
    run(returning(7))
    (file,) = files(folder)
    file.write_bytes(b"")
    folder.chmod(mode)
    shut(folder)
    assert file.read_bytes() == b""
    assert config.config()["cache"] == {
        "folder": str(folder),
        "why": f"others may use it: its mode is {mode:o}, and must be 700",
    }
    assert f"{folder}, not used: others may use it" in config.text(config.config())


@posix
def test_a_folder_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch, calls_of: CallsOf) -> None:
    run(returning(7))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    compiled = calls_of(engine, "_compiled")
    shut(folder)
    assert len(compiled) == 2
    assert config.config()["cache"]["why"] == "it is another user's"


@posix
def test_a_link_is_not_followed(folder: Path, tmp_path: Path, calls_of: CallsOf) -> None:
    other = tmp_path / "other"
    other.mkdir(0o700)
    folder.symlink_to(other)
    shut(folder)
    assert files(other) == []
    assert config.config()["cache"]["why"] == "it is a link, or no folder"
    folder.unlink()
    folder.symlink_to(tmp_path / "nowhere")
    shut(folder)
    folder.unlink()
    folder.write_text("a file")
    shut(folder)
    folder.unlink()
    assert run(returning(7)) == 7
    (file,) = files(folder)
    file.rename(other / "code")
    file.symlink_to(other / "code")
    compiled = calls_of(engine, "_compiled")
    assert run(returning(7)) == 7
    assert len(compiled) == 1
    assert not file.is_symlink()  # but replaced


@posix
def test_what_is_no_file_of_the_user_s_alone_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    store.write(folder, NAME, b"content", MOST)
    assert store.read(folder, NAME) == b"content"
    path = folder / NAME
    path.chmod(0o622)
    assert store.read(folder, NAME) is None
    path.unlink()
    os.mkfifo(path, 0o600)
    assert store.read(folder, NAME) is None  # without waiting for a writer
    path.unlink()
    path.mkdir()
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        assert store.read(folder, NAME) is None
        store.write(folder, NAME, b"content", MOST)
    assert files(folder) == [path]
    assert len(os.listdir("/dev/fd")) == before


@posix
def test_where_nothing_can_be_written_code_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch, calls_of: CallsOf) -> None:
    run(returning(7))
    os.utime(files(folder)[0], (1, 1))
    compiled = calls_of(engine, "_compiled")
    opened = os.open

    def read_only(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_CREAT):
            raise OSError(30, "Read-only file system")
        return opened(path, flags, *args, **options)

    def refused(*args: Any, **options: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    for name in ("utime", "mkdir", "replace", "unlink"):
        monkeypatch.setattr(os, name, refused)
    assert run(returning(7)) == 7
    assert compiled == []
    assert run(returning(8)) == run(returning(8)) == 8
    monkeypatch.setenv("ANYDML_CACHE", str(folder / "missing"))
    assert run(returning(7)) == 7
    assert len(files(folder)) == 1


def test_a_full_disk_leaves_nothing_unfinished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(returning(7))

    def full(*args: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert run(returning(8)) == 8
    assert len(files(folder)) == 1


# the bound


def fill(folder: Path, keys: range, nbytes: int) -> None:
    for key in keys:
        store.write(folder, store.name_of(b"%d" % key), b"x" * nbytes, MOST)


def test_files_together_stay_near_the_bound(tmp_path: Path) -> None:
    most_seen = 0
    for first in range(0, 1200, 50):
        fill(tmp_path / "kept", range(first, first + 50), 7000)
        count, taken = store.held(tmp_path / "kept")
        most_seen = max(most_seen, taken)
    assert taken == count * 8192  # as the disk counts
    assert MOST // 2 < most_seen < 4 * MOST
    assert taken < 3 * MOST  # without a limit, over 9


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir(0o700)
    now = time.time()
    names = [store.name_of(b"%d" % key) for key in range(300)]
    for age, name in enumerate(names):
        (folder / name).write_bytes(store._signature(name, bytes(4000)) + bytes(4000))
        os.utime(folder / name, (now - 7200 - age,) * 2)
    assert store.read(folder, names[-1]) == bytes(4000)  # the oldest file, which has been used since
    (folder / "another.file").write_bytes(bytes(1 << 21))
    unfinished = [folder / ("0" * 64 + store.UNFINISHED), folder / ("1" * 64 + store.UNFINISHED)]
    for path in unfinished:
        path.write_bytes(b"")
    os.utime(unfinished[0], (now - 7200,) * 2)
    looking = next(name for name in (store.name_of(b"looks %d" % i) for i in range(10_000)) if int(name[:2], 16) < 4)
    store.write(folder, looking, bytes(4000), MOST)
    left = {path.name for path in files(folder)}
    assert MOST * 3 // 4 < store.held(folder)[1] <= MOST * 7 // 8
    assert {looking, names[-1], "another.file", unfinished[1].name} <= left
    assert unfinished[0].name not in left
    kept = [name in left for name in names[:-1]]
    assert kept == sorted(kept, reverse=True)


def test_what_is_larger_than_a_part_of_the_bound_is_not_kept(tmp_path: Path) -> None:
    store.write(tmp_path / "kept", NAME, bytes(MOST // 8 + 1), MOST)
    assert not (tmp_path / "kept").exists()


# many at once

TOGETHER = """
import hashlib, random, sys
from pathlib import Path
from anydml.kernels.code import store
rng, found = random.Random(sys.argv[2]), 0
folder = Path(sys.argv[1])
def content(key):
    return hashlib.sha256(b"%d" % key).digest() * (1 + key * 37 % 200)
for _ in range(1500):
    key = rng.randrange(400)
    name = store.name_of(b"%d" % key)
    held = store.read(folder, name)
    assert held is None or held == content(key), key
    found += held is not None
    if held is None or rng.random() < 0.3:
        store.write(folder, name, content(key), 200_000)
print(found)
"""


def test_processes_read_and_write_at_once(tmp_path: Path, ran: Ran) -> None:
    command = [sys.executable, "-c", TOGETHER, str(tmp_path / "kept")]
    running = [subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, text=True) for seed in range(4)]
    found = [int(process.communicate(timeout=120)[0]) for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert all(path.suffix == store.SUFFIX for path in files(tmp_path / "kept"))
    looks = next(name for name in (store.name_of(b"%d" % key) for key in range(1000)) if int(name[:2], 16) < 4)
    store.write(tmp_path / "kept", looks, b"the one of 64 that has the others looked through", 200_000)
    assert store.held(tmp_path / "kept")[1] <= 200_000  # without a limit, over 2 million
    ran(sum(found), 500)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forks with other threads running are tested
def test_children_of_forks_keep_and_find_code(folder: Path) -> None:
    stop: list[bool] = []

    def work() -> None:
        for value in range(1000, 9000):
            if stop:
                return
            assert run(returning(value)) == value

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for value in range(8):
            if (child := os.fork()) == 0:
                status = 1
                try:
                    status = int(run(returning(value)) != value or run(returning(0)) != 0)
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.append(True)
        thread.join()
    compiled = engine._compiled
    try:
        engine._compiled = lambda text, target: pytest.fail("it is there")
        assert [run(returning(value)) for value in range(8)] == list(range(8))
    finally:
        engine._compiled = compiled


def test_tests_keep_nothing() -> None:
    assert os.environ["ANYDML_CACHE"] == "0"
