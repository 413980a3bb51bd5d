"""Sizes of caches as systems report them, defaults if they do not, and the resulting plans of copies and matmuls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from anydml.kernels.code import engine, llvm, processor, targets
from anydml.kernels.code.processor import Caches, linux, macos, sensible
from anydml.kernels.copy import copies
from anydml.kernels.copy import tuning as copy_tuning
from anydml.kernels.copy.plan import CopyPlan, canonical, plan
from anydml.kernels.copy.text import Prefetch
from tuned import tuned

KB, MB = 1 << 10, 1 << 20


def _folder(root: Path, *caches: tuple[str, str, str]) -> Path:
    for i, texts in enumerate(caches):
        (root / f"index{i}").mkdir()
        for name, text in zip(("level", "type", "size"), texts, strict=True):
            (root / f"index{i}" / name).write_text(text + "\n")
    return root


def test_linux_lists_the_caches_of_a_core(tmp_path: Path) -> None:
    first = ("1", "Data", "32K"), ("1", "Instruction", "32K")
    folder = _folder(tmp_path, *first, ("2", "Unified", "1024K"), ("3", "Unified", "32768K"))
    assert linux(folder) == {1: 32 * KB, 2: MB, 3: 32 * MB}
    assert sensible(linux(folder)) == Caches(MB, 32 * MB)


def test_entries_without_a_size_and_folders_without_entries_are_passed_over(tmp_path: Path) -> None:
    folder = _folder(tmp_path, ("1", "Data", "48K"), ("2", "Unified", ""), ("3", "Unified", "many"))
    (folder / "index4").mkdir()
    assert linux(folder) == {1: 48 * KB}
    assert linux(tmp_path / "absent") == {}


@pytest.mark.parametrize(
    ("found", "caches"),
    [
        ({}, Caches(MB, 32 * MB)),
        ({1: 32 * KB}, Caches(MB, 32 * MB)),
        ({2: 2 * MB, 3: 24 * MB}, Caches(2 * MB, 24 * MB)),
        ({2: 4 * MB}, Caches(2 * MB, 4 * MB)),  # the last one there is
        ({2: 512 * KB, 3: 8 * MB, 4: 64 * MB}, Caches(512 * KB, 64 * MB)),
        ({2: 0, 3: 1 << 50}, Caches(MB, 512 * MB)),
    ],
)
def test_what_cannot_be_is_not_believed(found: dict[int, int], caches: Caches) -> None:
    assert sensible(found) == caches


@pytest.mark.parametrize(
    ("name", "last", "share", "far"),
    [
        ("Intel(R) Xeon(R) Platinum 8592+", 320 * MB, True, True),
        ("12th Gen Intel(R) Core(TM) i7-1260P", 18 * MB, True, False),
        ("Intel64 Family 6 Model 143 Stepping 8, GenuineIntel", 105 * MB, True, True),
        ("i386", 12 * MB, True, False),
        ("AMD EPYC 9684X 96-Core Processor", 96 * MB, False, False),
        ("", 64 * MB, False, False),
    ],
)
def test_makers(name: str, last: int, share: bool, far: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "name", lambda: name)
    monkeypatch.setattr(processor, "caches", lambda: Caches(MB, last))
    assert (processor.conversions_share_units(), processor.last_is_far()) == (share, far)
    assert processor.past_caches() == (2 * MB if far else last // 4 * 3)


def test_macos_counts_a_shared_cache_by_its_cores() -> None:
    known = {"hw.perflevel0.cpusperl2": 4, "hw.perflevel0.l2cachesize": 12 * MB, "hw.l2cachesize": 4 * MB}
    assert macos(lambda name: known.get(name, 0)) == {2: 3 * MB, 3: 12 * MB}
    intel = {"hw.l2cachesize": 256 * KB, "hw.l3cachesize": 6 * MB}
    assert macos(lambda name: intel.get(name, 0)) == {2: 256 * KB, 3: 6 * MB}
    assert macos(lambda name: 0) == {}


def test_the_caches_here_are_of_a_size_that_caches_have() -> None:
    second, last = processor.caches()
    assert 128 * KB <= second <= 2 * MB
    assert 4 * MB <= last <= 512 * MB
    assert copy_tuning.TUNING.stream == (2 * second if processor.last_is_far() else 3 * last // 4)


# --- results for copies ---

FLOAT = 4


def _plan(sizes: Sequence[int], source: Sequence[int]) -> CopyPlan:
    """The plan of a copy of float32 to a packed output; strides are in elements."""
    packed = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    return plan(canonical(sizes, [FLOAT * s for s in source], [FLOAT * s for s in packed]), FLOAT)


LARGE = 4096, 4096
JUMPS = {
    "every second row": _plan((2048, 4096), (8192, 1)),
    "rows from the last": _plan(LARGE, (-4096, 1)),
    "a crop": _plan((4000, 3900), (4096, 1)),
    "columns from the last": _plan(LARGE, (4096, -1)),
    "every second of four": _plan((64,) * 4, (2 * 128**3, 2 * 128**2, 2 * 128, 2)),
}
RUNS_ON = {
    "all": _plan(LARGE, (4096, 1)),
    "every second column": _plan((4096, 2048), (4096, 2)),
    "14 of 16": _plan((256, 256, 14, 14), (65536, 256, 16, 1)),
    "every seventh column": _plan((4096, 585), (4096, 7)),
}
SMALL_ROWS = _plan((100, 100), (200, 1))


@pytest.fixture
def usual(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, copy_tuning, stream=24 * MB)
    monkeypatch.setattr(llvm, "host_name", lambda: "znver5")


@pytest.fixture
def zen4(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, copy_tuning, stream=24 * MB)
    monkeypatch.setattr(llvm, "host_name", lambda: "znver4")


def ahead(p: CopyPlan, past_cache: bool) -> Prefetch | None:
    return copies._ahead(p, copies._exceeds_caches(p, *copies._traffic(p)), past_cache)


@pytest.mark.parametrize("name", [*JUMPS, *RUNS_ON])
@pytest.mark.usefixtures("usual")
def test_where_nothing_else_was_measured_every_row_is_prefetched_into_the_first_cache(name: str) -> None:
    p = (JUMPS | RUNS_ON)[name]
    assert ahead(p, True) == Prefetch(1, 6144, 8192)
    assert ahead(p, False) == Prefetch(1, 6144 if p.kind == "elements" else 4096, 8192)
    assert copies._tiles_ahead() == (1, 16)


@pytest.mark.usefixtures("zen4")
def test_on_a_zen_4_rows_that_jump_are_prefetched_into_the_second_cache() -> None:
    for name, p in JUMPS.items():
        found = ahead(p, True)
        assert found is not None, name
        large = sum(copies._traffic(p)) >= 24 * MB
        assert found.cache == (2 if large else 1), name
        assert found.along == (6144 if large and p.kind != "rows" else 3072), name
    assert ahead(SMALL_ROWS, False) == Prefetch(1, 3072, 3072)
    assert copies._tiles_ahead() == (2, 32)


@pytest.mark.usefixtures("zen4")
def test_on_a_zen_4_what_runs_on_is_prefetched_only_where_that_pays() -> None:
    paying = Prefetch(1, 6144, 8192)
    assert {name: ahead(p, True) for name, p in RUNS_ON.items()} == {
        "all": paying,
        "every second column": paying,
        "14 of 16": None,
        "every seventh column": None,
    }
    assert ahead(_plan((512, 512), (512, 1)), False) is None
    jumping = RUNS_ON["14 of 16"]
    assert copies._rows_ahead(jumping, sum(copies._traffic(jumping)), ahead(jumping, False)) == 0


@pytest.mark.skipif(llvm.unavailable() is not None or not targets.targets(), reason="nothing can be compiled here")
@pytest.mark.parametrize("name", ["znver4", "znver5"])
def test_the_processor_s_name_decides_what_is_emitted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Prefetch | None] = []

    def compiled(emit: object, target: object, *arguments: object) -> engine.Code:
        asked.extend(x for x in arguments if x is None or isinstance(x, Prefetch))
        return engine.Code(None, 0)

    tuned(monkeypatch, copy_tuning, stream=24 * MB)
    monkeypatch.setattr(llvm, "host_name", lambda: name)
    monkeypatch.setattr(engine, "compiled", compiled)
    copies.copy(targets.targets()[-1], (2048, 4096), (8192 * 4, 4), (4096 * 4, 4), 4, stream=True)
    assert asked == ([Prefetch(2, 3072, 16384)] * 2 if name == "znver4" else [Prefetch(1, 4096, 8192), Prefetch(1, 6144, 8192)])
