"""The parts of the benchmarks that use kernels directly, which nothing else tests."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from anydml import operators
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import named, targets

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import cliff_cases, cliffs, contraction_cases, contractions, history, limits, map_hard

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None or not targets(), reason="nothing can be compiled")


def test_the_limit_of_runs_copies_them() -> None:
    """Of 64 rows of 128 bytes with gaps."""
    calls, count = limits.runs(np.zeros((64, 64), np.float32)[:, :32])
    assert count == 64 * 128
    assert len(calls) == len(limits.AHEAD)
    for call in calls.values():
        call()


def test_the_limit_of_multiply_adds_is_nothing_else() -> None:
    made = limits.multiply_adds()
    if made is None:
        pytest.skip("this processor has no fused multiply-add")
    target = named(None)
    assert target is not None
    (loop,) = [b for b in engine.assembly(limits.multiply_add_loop(target), target).split("\n.L") if "cmpq" in b or "b.ne" in b]
    inside = [line.split() for line in loop.splitlines()[1:] if line.startswith("\t")]
    inside = inside[: next(i for i, line in enumerate(inside) if line[0].startswith(("j", "b."))) + 1]
    multiplied = [line for line in inside if line[0].startswith(("vfmadd", "fmla"))]
    assert len(multiplied) == limits.chains(target)
    assert len(inside) <= len(multiplied) + 3  # the others count, compare and branch
    assert not any("(" in " ".join(line) for line in inside), "the loop reads memory"
    made[0]()


def test_the_contractions_that_are_timed_are_the_same() -> None:
    a, b = contraction_cases.matrices(9, 20, 30)
    ours = contraction_cases.product(a, b, threads=2)
    contractions._agree({"ours": ours, "NumPy": contraction_cases.numpy_product(a, b)})
    layer = contraction_cases.Layer(4, 6, 3, 7, 2, 2)
    x, f = contraction_cases.layer_data(layer)
    theirs = contraction_cases.onnxruntime_convolution(layer, x, f)
    assert theirs
    contractions._agree({"ours": contraction_cases.convolution(layer, x, f), **theirs})
    wrong = contraction_cases.onnxruntime_convolution(layer, -x, f)
    with pytest.raises(AssertionError):
        contractions._agree({"ours": contraction_cases.convolution(layer, x, f), **wrong})


def test_hard_data_are_of_their_kind() -> None:
    """Sums of ties are often halfway between two elements, where the last bit does not decide."""
    add, log = (next(case.operator for case in map_hard.CASES if case.name == name) for name in ("add", "log"))
    draw = {kind: map_hard.drawn(kind, add, 4096) for kind in map_hard.KINDS}
    a, b = (x.astype(np.float64) for x in draw["ties"])
    off = np.abs(a + b - (a + b).astype(np.float32))  # exact, because all have few bits
    halves = np.abs(np.spacing((a + b).astype(np.float32))).astype(np.float64) / 2
    assert 100 < np.count_nonzero(off == halves) < 2000
    tiny = np.finfo(np.float32).tiny
    assert all(np.all((x != 0) & (np.abs(x) < tiny)) for x in draw["subnormals"])
    assert all({str(v) for v in x if v == v} == {"0.0", "-0.0", "inf", "-inf"} and np.isnan(x).any() for x in draw["specials"])
    assert all(np.isfinite(x).all() and np.abs(x).max() > 1e38 and np.abs(x).min() < 1e-36 for x in draw["wide"])
    assert all(set(x.tolist()) == set(range(-4, 5)) for x in draw["integers"])
    (x,) = map_hard.drawn("wide", log, 64)
    assert not np.signbit(x).any()


def test_hard_data_are_timed_of_every_kind_and_printed_where_they_take_longer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = tuple(case for case in map_hard.CASES if case.name in ("add", "floor, ScaleBias"))
    spent = dict(zip((map_hard.NORMAL, *map_hard.KINDS), (2.0, 2.0, 3.0, 4.0, 6.0, 8.0), strict=True))
    monkeypatch.setattr(map_hard, "best", lambda calls, **_: {kind: calls[kind]() or s for kind, s in spent.items()})
    rows = map_hard.run(0, cases, 64)
    assert [(row["case"], row["data"]) for row in rows] == [(c.name, kind) for c in cases for kind in map_hard.KINDS]
    assert all(row["kernel"] == "elementwise:compiled" and row["in_python"] == 0 for row in rows)
    assert [row["times_normal"] for row in rows] == [1, 1.5, 2, 3, 4] * 2
    assert [row["met"] for row in rows] == [True, True, True, True, False] * 2
    printed = capsys.readouterr().out.split("\n")
    assert sum(" 2.00 " in line for line in printed) == 2
    assert sum("MISSED" in line and "integers" in line for line in printed) == 2
    assert len([line for line in printed if ": " in line]) == 6
    assert "4 of 10 pairs" in printed[-2]


def _later(name: str) -> range:
    """The numbers of an operator's later versions."""
    version = name[len(name.rstrip("123")) :]
    return range(int(version or 0) + 1, 4)


def test_the_table_of_cliffs_has_every_operator() -> None:
    """In its newest version, each in a case, or among those that compute with integers or move elements."""
    named = {name.split()[0].rstrip(",") for name in cliff_cases.CASES}
    versions = {desc.spec.name for desc in operators.every()}
    newest = {name for name in versions if not any(f"{name.rstrip('123')}{later}" in versions for later in _later(name))}
    assert named | cliff_cases.ONLY_BITS == newest, "a new operator needs a line in benchmarks/cliff_cases.py"
    assert not named & cliff_cases.ONLY_BITS


def test_cliffs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a case that takes ten times as long with zeros, and for one that is ended early."""
    (row,) = cliffs.run((np.float32,), "ELEMENT_WISE_ABS")
    assert set(row["ratios"]) == set(cliff_cases.ALL_KINDS)
    assert row["kernel"] == "elementwise:compiled"
    ratios = dict.fromkeys(cliff_cases.ALL_KINDS, 1.0) | {"zeros": 10.0, "equal": float("inf")}
    cells = cliffs._cells({"microseconds": 1000.0, "ratios": ratios})
    assert {kind: shown for kind, (shown, over) in cells.items() if over} == {"zeros": "10", "equal": ">1000"}

    def endless() -> None:
        while True:
            pass

    monkeypatch.setattr(cliffs, "PATIENCE", 0.01)
    if hasattr(signal, "setitimer"):
        assert cliffs._seconds(endless) == float("inf")


def test_the_history_of_a_processor_says_what_got_slower(tmp_path: Path) -> None:
    def results(first: float, second: float) -> dict[str, object]:
        rows = [
            {"what": "copy", "microseconds": first, "met": True},
            {"what": "product", "seconds": {"ours": second, "NumPy": 1.0}},
        ]
        return {"machine": {"processor": "A (R) / B"}, "slice": rows}

    assert history.add(results(1.0, 2.0), tmp_path) == []
    assert history.add(results(1.1, 1.0), tmp_path) == []
    found = history.add(results(1.3, 2.0), tmp_path)
    assert found == [("slice, product, seconds ours", 2.0), ("slice, copy, microseconds", 1.3)]
    (file,) = tmp_path.iterdir()
    assert file.name == "A-R-B.json"
