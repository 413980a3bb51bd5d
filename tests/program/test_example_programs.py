"""The results of examples/programs, and the documentation's sessions with them."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import anydml as dml
from anydml.cli import main as cli

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "programs"
NETWORK = runpy.run_path(str(ROOT / "examples" / "digits" / "classify.py"))
Call = Callable[..., tuple[int, str, str]]
every_device = pytest.mark.parametrize("device", ["cpu", "reference"])


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """`anydml` in a folder with copies of the programs: exit status, standard output, standard error."""
    folder = tmp_path / "programs"
    shutil.copytree(PROGRAMS, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("signal.signal", lambda *_: None)  # a signal's handler outlives the test

    def called(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["anydml", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capsys.readouterr()

    return called


def image(path: Path) -> npt.NDArray[np.uint8]:
    image_module = pytest.importorskip("PIL.Image")
    with image_module.open(path) as opened:
        return np.asarray(opened)


def test_every_program_is_here() -> None:
    assert {path.relative_to(PROGRAMS).as_posix() for path in PROGRAMS.rglob("*.json")} == {
        "slice.json",
        "faulty.json",
        "photo/program.json",
        "digits/program.json",
    }


@pytest.mark.parametrize("name", ["slice.json", "photo", "digits"])
def test_a_program_without_a_fault_has_no_warnings_either(name: str) -> None:
    if name == "photo":
        pytest.importorskip("PIL")
    program = dml.program.load(PROGRAMS / name)
    program.check(strict=True)
    assert program.warnings == ()


@every_device
def test_slice_gives_the_numbers_of_the_page(call: Call, device: str) -> None:
    status, out, _ = call("run", "slice.json", "--device", device)
    assert (status, out) == (0, "Resource 'output': 7, 9, 12, 14, 17, 19\n")
    sequence = np.arange(1, 26, dtype=np.float32).reshape(1, 1, 5, 5)
    contents = dml.program.load("slice.json").run(device)
    np.testing.assert_array_equal(contents["output"], sequence[:, :, 1:4, 1:4:2].ravel())


def test_slice_shows_that_comments_and_trailing_commas_are_accepted() -> None:
    text = (PROGRAMS / "slice.json").read_text(encoding="utf-8")
    assert re.search(r"^ *// ", text, re.MULTILINE)
    assert re.search(r",\s*[\]}]", text)


@every_device
def test_photo_is_numpy_s_slice_of_the_picture(call: Call, device: str) -> None:
    photo = image(PROGRAMS / "photo" / "china.png")
    assert call("run", "photo", "--device", device, "--output-path", "made")[:2] == (0, "")
    np.testing.assert_array_equal(image(Path("made", "pagoda.png")), photo[7:141, 13:133][::2, ::-2])


@every_device
def test_digits_gives_the_logits_of_classify(call: Call, device: str) -> None:
    pixels = np.load(PROGRAMS / "digits" / "pixels.npy")
    predicted, logits, hidden = NETWORK["classify"](pixels[:, :-1], dml.Device("cpu"))
    assert call("run", "digits", "--device", device, "--output-path", "made")[:2] == (0, "")
    written = np.load(Path("made", "logits.npy"))
    assert written.dtype == logits.dtype
    np.testing.assert_array_equal(written, logits)
    np.testing.assert_array_equal(written.argmax(axis=1), predicted)
    np.testing.assert_array_equal(dml.program.load("digits").run(device)["hidden"], hidden.ravel())


def test_digits_are_the_first_that_were_held_out_and_30_of_them_are_right(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    images, labels = NETWORK["held_out"]()
    pixels = np.load(PROGRAMS / "digits" / "pixels.npy")
    np.testing.assert_array_equal(pixels, np.hstack([images[:32], np.full((32, 1), 16, np.uint8)]))
    predicted = dml.program.load(PROGRAMS / "digits").run(output_path=tmp_path)["logits"].reshape(32, 10).argmax(axis=1)
    assert np.count_nonzero(predicted == labels[:32]) == 30


def test_faulty_is_told_all_three_faults_and_nothing_runs(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(*_: Any, **__: Any) -> None:
        raise AssertionError("a program with faults ran")

    monkeypatch.setattr("anydml.program.program.execute", ran)
    before = sorted(Path().rglob("*"))
    status, out, err = call("run", "faulty.json")
    assert (status, out) == (2, "")
    assert sorted(Path().rglob("*")) == before
    assert re.findall(r"^faulty\.json: (\S+): (\w+\.\w+)", err, re.MULTILINE) == [
        ("/dispatchables/crop/desc/InputWindowOffsets/3", "DML_OPERATOR_SLICE1.window_inside_input"),
        ("/dispatchables/crop/desc/InputWindowStrides/2", "DML_OPERATOR_SLICE1.stride_not_zero"),
        ("/dispatchables/square/desc/OutputTensor/Sizes", "DML_OPERATOR_MATRIX_MULTIPLY_INTEGER.output_sizes_match"),
    ]
    with pytest.raises(dml.ProgramError) as refused:
        dml.program.load("faulty.json").run()
    assert len(refused.value.faults) == 3


def test_make_writes_what_is_here(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("PIL")
    make = runpy.run_path(str(PROGRAMS / "make.py"))["make"]
    made = make(tmp_path)
    names = {path.relative_to(tmp_path) for path in made}
    assert names == {path.relative_to(PROGRAMS) for path in PROGRAMS.rglob("*") if path.suffix in (".npy", ".png")}
    for name in names:
        read = image if name.suffix == ".png" else np.load
        new, old = read(tmp_path / name), read(PROGRAMS / name)
        assert new.dtype == old.dtype
        np.testing.assert_array_equal(new, old)
    first = {path: path.read_bytes() for path in made}
    make(tmp_path)
    assert {path: path.read_bytes() for path in made} == first


def test_what_is_here_is_small() -> None:
    sizes = {path: path.stat().st_size for path in PROGRAMS.rglob("*") if path.is_file()}
    assert sum(size for path, size in sizes.items() if path.parent.name == "digits") < 40_000
    assert sizes[PROGRAMS / "photo" / "china.png"] < 100_000


def test_the_documentation_s_walk_through_the_programs_is_so(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    """Sessions and code in the order of the page; of a session, the results and the messages about a refused program are
    compared."""
    pytest.importorskip("PIL")
    page = (ROOT / "docs" / "programs.md").read_text(encoding="utf-8").split("\n## Examples\n")[1]
    shown = re.findall(r"^```(shell|python)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", page, re.MULTILINE | re.DOTALL)
    assert [language for language, *_ in shown] == ["shell", "shell", "python", "shell", "python", "shell", "shell"]
    names: dict[str, Any] = {}
    status, sessions = 0, 0
    for language, text, printed in shown:
        if language == "python":
            exec(text, names)
            assert capsys.readouterr().out == printed
            continue
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            sessions += 1
            if command == "echo $?":
                assert expected == f"{status}\n"
                continue
            status, out, err = call(*command.removeprefix("anydml ").split())
            assert (out if status == 0 else out + err) == expected
    assert sessions == 7
    assert not Path("product.npy").exists()


def test_the_documentation_shows_the_slice_as_it_is() -> None:
    page = (ROOT / "docs" / "programs.md").read_text(encoding="utf-8").split("\n## Examples\n")[1]
    blocks = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    document = dml.program.load(PROGRAMS / "slice.json").document
    assert [json.loads(block) for block in blocks] == [document["dispatchables"]["slice"]]
