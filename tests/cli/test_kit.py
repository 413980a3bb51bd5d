"""`export-kit`, and `compare` of its results, with a stand-in that runs the programs as run.ps1 and DxDispatch do."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from anydml import kit, operators
from anydml.cli import main as cli
from anydml.cli.kit import AS_HERE
from anydml.devices.device import Device
from anydml.errors import Error
from anydml.feature_level import FeatureLevel
from anydml.program import load
from every_kernel import SOAK

NAMES = ("SLICE1", "QUANTIZED_LINEAR_MATRIX_MULTIPLY", "ACTIVATION_GELU", "JOIN", "CAST", "CONVOLUTION")


def run_programs(folder: Path) -> list[dict[str, Any]]:
    """Do what run.ps1 and DxDispatch do: a folder of results for each case, with whole buffers of a multiple of 4 bytes."""
    records: list[dict[str, Any]] = json.loads((folder / kit.RECORDS).read_text(encoding="utf-8"))["cases"]
    for case in records:
        to = folder / kit.RESULTS / case["name"]
        to.mkdir(parents=True)
        status, printed = "0", "Running on 'stand-in'\n"
        try:
            device = Device("reference", feature_level=FeatureLevel.parse(case["level"]))
            load(folder / kit.PROGRAMS / case["name"]).run(device, output_path=to)
        except Error as error:
            status, printed = "1", f"ERROR creating dispatchable '{case['operator'].lower()}': {error}"
        for file in to.glob("*.npy"):
            contents = np.load(file)
            missing = np.zeros(-contents.nbytes % 4, np.uint8)
            padded = np.concatenate([contents.ravel().view(np.uint8), missing])
            np.save(file, padded.view(contents.dtype) if padded.nbytes % contents.itemsize == 0 else padded)
        (to / "output.txt").write_text(printed, encoding="utf-8")
        (to / "exit.txt").write_text(status + "\n", encoding="utf-8")
    return records


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kit")
    kit.write(folder, [operators.find(name) or pytest.fail(name) for name in NAMES], lambda name: None)
    run_programs(folder)
    return folder


def status_of(*arguments: str) -> int:
    return int(cli.commands(arguments, prog_name="anydml", standalone_mode=False))


def test_every_operator_has_cases() -> None:
    """Each operator has its examples, other strides and its first feature level; most have random and hostile data.

    In `make test`, every third operator.
    """
    counts: Counter[str] = Counter()
    share = 1 if SOAK > 1 else 3
    for operator in operators.every()[::share]:
        found = Counter(case.kind for case in kit.cases(operator))
        assert found["example"] == len(operator.spec.examples), operator.spec.name
        assert found["level"] == found["strides"] == 1, operator.spec.name
        counts += found
    print(f"{counts.total()} cases")
    assert counts["ties"] >= 160 // share
    assert counts["special"] >= 560 // share
    assert counts["rejected"] >= 1400 // share


def test_a_kit_that_was_run_here_is_equal(ran: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("compare", str(ran), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    verdicts = Counter((case["kind"], case["verdict"]) for case in document["cases"])
    assert set(verdicts) == {
        *((kind, "equal") for kind in ("example", "level", "strides", "ties", "special")),
        ("rejected", "refused as here"), ("extension", "accepted as here"),
    }  # fmt: skip
    wanted = sum(len(operator.spec.examples) for operator in map(operators.find, NAMES) if operator)
    assert verdicts["example", "equal"] == wanted >= len(NAMES)
    print(f"{verdicts.total()} cases")


def test_what_is_not_as_here_is_named(ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "kit"
    shutil.copytree(ran, folder)
    results = folder / kit.RESULTS

    def output(case: str) -> tuple[Path, Any]:
        file = results / case / "OutputTensor.npy"
        return file, np.load(file)

    def ended(case: str, status: str, printed: str) -> None:
        (results / case / "exit.txt").write_text(status, encoding="utf-8")
        (results / case / "output.txt").write_text(printed, encoding="utf-8")

    file, contents = output("activation_gelu.example.1")
    contents.view(np.uint32)[0] += 1
    np.save(file, contents)
    some = next(n for n in (1, 2, 3, 4) if np.isnan(output(f"activation_gelu.special.{n}")[1]).any())
    file, contents = output(f"activation_gelu.special.{some}")
    contents.view(np.uint32)[np.isnan(contents)] ^= 0x80000001  # another NaN counts as equal
    np.save(file, contents)
    file, contents = output("activation_gelu.ties.1")
    np.save(file, contents[:-1])
    ended("join.example.1", "ended after 60 seconds", "")
    ended("join.strides.1", "1", "ERROR creating dispatchable 'join': 0x80070057")
    ended("join.rejected.1", "0", "Running on 'stand-in'")
    (results / "slice1.example.1" / "exit.txt").unlink()
    assert status_of("compare", str(folder), "--json") == 1
    found = {case["case"]: case for case in json.loads(capsys.readouterr().out)["cases"]}
    wrong = {name: case["verdict"] for name, case in found.items() if case["verdict"] not in AS_HERE}
    assert wrong == {
        "activation_gelu.example.1": "differs",
        "activation_gelu.ties.1": "differs",
        "join.example.1": "failed",
        "join.strides.1": "refused there",
        "join.rejected.1": "accepted there",
        "slice1.example.1": "not run",
    }
    assert "differs by 1 ULP" in found["activation_gelu.example.1"]["sentence"]
    assert "bytes instead of" in found["activation_gelu.ties.1"]["sentence"]
    assert found["join.example.1"]["sentence"] == "exit status ended after 60 seconds"
    assert found["join.rejected.1"]["sentence"].startswith("Join.input_tensors_counted: ")
    assert status_of("compare", str(folder)) == 1
    shown = capsys.readouterr().out
    assert all(name in shown for name, verdict in wrong.items() if verdict != "not run")


def test_what_was_not_run_has_a_status_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("export-kit", str(tmp_path / "kit"), "--operator", "slice1") == 0
    assert "rejected" in capsys.readouterr().out
    assert status_of("compare", str(tmp_path / "kit")) == 3
    with pytest.raises(click.UsageError, match="--json is the only option"):
        status_of("compare", str(tmp_path / "kit"), "--against", "onnxruntime")
    (tmp_path / "kit" / kit.RECORDS).write_text("{}", encoding="utf-8")
    with pytest.raises(click.UsageError, match="cannot be read"):
        status_of("compare", str(tmp_path / "kit"))


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(click.UsageError, match="neither an empty folder nor a kit"):
        status_of("export-kit", str(tmp_path))
    with pytest.raises(click.UsageError, match="RELUU"):
        status_of("export-kit", str(tmp_path / "kit"), "--operator", "reluu")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_workflow_gives_the_script_what_it_takes() -> None:
    root = Path(__file__).parents[2]
    workflow = (root / ".github/workflows/directml.yml").read_text(encoding="utf-8")
    script = (root / "src/anydml/run.ps1").read_text(encoding="utf-8")
    given = re.findall(r"run\.ps1 (.*)", workflow)[0]
    parameters = re.findall(r"^ +(?:\[[^\]]*\(.*\)\] )?\[\w+\] \$(\w+)", script, re.MULTILINE)
    assert parameters == ["DxDispatch", "Adapter", "Seconds"]
    assert set(re.findall(r"-(\w+) ", given)) <= set(parameters)
    for command in re.findall(r"anydml ([\w-]+)", workflow):
        assert command in cli.commands.commands
