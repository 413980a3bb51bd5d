"""Measured thresholds: the trials of `anydml tune`, and the file that they are kept in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import anydml as dml
from anydml.cli import main, tune
from anydml.kernels.code import llvm, processor, tuned
from anydml.kernels.copy import tuning

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="nothing can be compiled")
NEAR = tune.Trial("copy", "near", (1 << 16, 1 << 17), ("rows",))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which this test's thresholds are kept."""
    monkeypatch.setenv("ANYDML_CACHE", str(tmp_path / "kept"))
    tuned.measured.cache_clear()
    yield tmp_path / "kept"
    monkeypatch.undo()
    tuned.measured.cache_clear()


def turns(*seconds: float) -> Callable[[object], float]:
    """A timer that returns these times in turn: first those of the thresholds so far, then a candidate's."""
    count = 0

    def timer(call: Any) -> float:
        nonlocal count
        call()
        count += 1
        return seconds[(count - 1) % len(seconds)]

    return timer


def test_every_trial_is_of_a_threshold_and_of_a_call() -> None:
    calls = tune.arguments()
    for trial in tune.TRIALS:
        usual = type(import_module(f"anydml.kernels.{trial.family}.tuning").TUNING)()
        assert type(getattr(usual, trial.name)) is int, trial
        assert set(trial.calls) <= calls.keys()
        for n in trial.candidates:  # any of them may be kept
            assert getattr(tuned.tuned("none", usual._replace(**{trial.name: n})), trial.name) == n
            assert tuned._sensible(getattr(usual, trial.name), n), trial
    assert set(calls) == {name for trial in tune.TRIALS for name in trial.calls}


def test_faster_candidates_win() -> None:
    before, told = tuning.TUNING, list[tune.Found]()
    won = tune.tune(told.append, turns(1.0, 0.5), [NEAR])
    assert won == {"copy.near": 1 << 16}
    assert [(f.before, f.best, f.gain) for f in told] == [(type(before)().near, 1 << 16, 2.0)]
    assert "65536 is 2.00 times as fast" in tune.shown(told[0])
    assert tune.tune(told.append, turns(1.0, 0.98), [NEAR]) == {}  # noise
    assert tune.tune(told.append, turns(0.5, 1.0), [NEAR]) == {}
    assert "none of 65536, 131072 is faster" in tune.shown(told[2])
    assert tuning.TUNING is before


def test_a_candidate_that_changes_a_result_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    made, count = tune.ready, 0

    def ready(names: Any) -> Any:
        nonlocal count
        for name, call, outputs in made(names):
            count += 1
            yield name, call if count == 1 else lambda: None, outputs

    monkeypatch.setattr(tune, "ready", ready)
    with pytest.raises(AssertionError, match=r"copy\.near = 65536 changes a result"):
        tune.tune(lambda _: None, turns(1.0), [NEAR])


def test_winners_are_kept_and_read_by_the_next_process(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "TRIALS", (NEAR,))
    monkeypatch.setattr(tune, "compared", lambda *_: 1.5)
    assert main.commands(["tune", "--dry-run", "--json"], standalone_mode=False) == 0
    assert not [*kept.glob("tuning-*")]  # machine code may lie beside it
    assert dml.config.config()["tuning"]["file"] is None
    assert main.commands(["tune"], standalone_mode=False) == 0
    (file,) = kept.glob("tuning-*")
    assert file.read_text().split("\n")[2] == "copy.near = 65536"
    command = [sys.executable, "-c", "from anydml.kernels.copy import tuning; print(tuning.TUNING.near)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"ANYDML_CACHE": str(kept)})
    assert (done.stdout, done.stderr) == ("65536\n", "")
    facts = dml.config.config()["tuning"]
    assert facts["thresholds"] == {"copy.near": 65536}
    assert json.dumps(facts)
    assert f"1 thresholds measured on this machine, in {file}" in dml.config.text(dml.config.config())


def test_a_damaged_file_is_ignored_with_a_warning(kept: Path) -> None:
    usual = type(tuning.TUNING)()
    file = tuned.keep({"copy.near": usual.near * 2, "copy.small": usual.small // 2})
    assert tuned.tuned("copy", usual) == usual._replace(near=usual.near * 2, small=usual.small // 2)
    assert tuned.tuned("windows", (1, 2)) == (1, 2)
    whole, tried = file.read_bytes(), 0
    lines = whole.split(b"\n")
    damaged = [whole[:n] for n in range(0, len(whole), 7)]
    damaged += [whole.replace(line, line[:-1] + b"7") for line in lines if line]
    damaged += [b"\n".join(lines[:k] + lines[k + 1 :]) for k in range(len(lines))]
    damaged += [whole + b"x", b"\xff" + whole, whole.replace(b"\n", b"\r\n"), whole * 2]
    for content in damaged:
        file.write_bytes(content)
        tuned.measured.cache_clear()
        with pytest.warns(dml.PerformanceWarning, match=r"is ignored: .*`anydml tune` writes it again"):
            assert tuned.tuned("copy", usual) == usual
        tried += 1
    assert tried > 30


@pytest.mark.parametrize("name", ["copy.nothing", "copy.small"])
def test_a_threshold_that_makes_no_sense_is_ignored_with_a_warning(kept: Path, name: str) -> None:
    tuned.keep({name: 1, "copy.near": 1 << 17})
    usual = type(tuning.TUNING)()
    with pytest.warns(dml.PerformanceWarning, match=f"copy has no such threshold as {name.rpartition('.')[2]} = 1"):
        assert tuned.tuned("copy", usual) == usual


def test_another_processor_has_another_file(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tuned.keep({"copy.near": 1 << 17})
    monkeypatch.setattr(processor, "name", lambda: "another one")
    tuned.measured.cache_clear()
    assert tuned.measured() == {}
    other = tuned.keep({})
    assert other != file
    file.rename(other)
    tuned.measured.cache_clear()
    with pytest.warns(dml.PerformanceWarning, match="it is of another machine or version"):
        assert tuned.measured() == {}


def test_files_that_others_may_write_are_not_read(kept: Path) -> None:
    file = tuned.keep({"copy.near": 1 << 17})
    if os.name == "nt":
        pytest.skip("a profile is its user's")
    file.chmod(0o666)
    tuned.measured.cache_clear()
    assert tuned.measured() == {}
