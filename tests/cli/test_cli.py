"""The command line: exit statuses, output streams, pipes and terminals; and the documentation's examples of it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import operators
from anydml.catalog import NOT_COMPILED
from anydml.cli import main as cli
from anydml.cli.output import Prints
from anydml.schema.directml import NAMES

DOCS = Path(__file__).parents[2] / "docs"
PACKAGE = str(Path(dml.__file__).parents[1])  # the anydml under test, installed or not
Call = Callable[..., tuple[int, str, str]]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


CROP = blocks("programs.md", "json")[0]
BAD = CROP.replace('"InputWindowOffsets": [0, 0, 0, 1]', '"InputWindowOffsets": [0, 0, 0, 2]')
RULE = (
    "DML_OPERATOR_SLICE1.window_inside_input: InputWindowOffsets[3] is 2 and InputWindowSizes[3] is 3; "
    "they must add up to at most InputTensor.Sizes[3] (4): the window lies inside the input\n"
    "    would fit: InputWindowOffsets[3] = 0 to 1, or InputWindowSizes[3] = 1 to 2"
)


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """`anydml` in a folder with crop.json and bad.json: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("signal.signal", lambda *_: None)  # a signal's handler outlives the test
    (tmp_path / "crop.json").write_text(CROP, encoding="utf-8")
    (tmp_path / "bad.json").write_text(BAD, encoding="utf-8")

    def called(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["anydml", *arguments])
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capsys.readouterr()

    return called


def spawn(*arguments: str, folder: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM")}
    command = [sys.executable, "-m", "anydml.cli.main", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env={**clean, "PYTHONPATH": PACKAGE, **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_the_module_is_the_command_line() -> None:
    command = [sys.executable, "-m", "anydml"]
    done = subprocess.run(
        [*command, "ops"], env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True, check=True
    )
    assert done.stdout == spawn("ops").stdout
    refused = subprocess.run([*command, "nothing"], env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True)
    assert refused.returncode == 2
    assert refused.stderr.startswith("Usage: anydml ")


def test_info_is_the_configuration(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call("info")
    dml.show_config()
    assert (status, out, err) == (0, capsys.readouterr().out, "")
    status, out, _ = call("info", "--json")
    facts = json.loads(out)
    assert (status, facts["anydml"], facts["numpy"]) == (0, dml.__version__, np.__version__)
    assert facts["semantics"] == dml.SEMANTICS_VERSION
    assert facts["kernels"] in ("compiled", "NumPy")
    assert facts["feature_levels"][-2:] == ["6_4", "EXTENDED"]


# --- run ---


def test_run_prints_results_and_writes_files(call: Call, tmp_path: Path) -> None:
    status, out, err = call("run", "crop.json")
    assert (status, out) == (0, "Resource 'cropped': 14, 16, 6, 8\n")
    assert "'cpu'" in err
    assert "feature level 6_4" in err
    np.testing.assert_array_equal(np.load(tmp_path / "cropped.npy"), np.array([[[[14, 16], [6, 8]]]], np.float32))


def test_run_on_the_reference_at_an_older_level_gives_the_same(call: Call) -> None:
    status, out, err = call("run", "crop.json", "--device", "reference", "--feature-level", "2.1")
    assert (status, out) == (0, "Resource 'cropped': 14, 16, 6, 8\n")
    assert "'reference'" in err
    assert "feature level 2_1" in err


def test_run_times_every_dispatch_and_changes_nothing(call: Call) -> None:
    status, out, err = call("run", "crop.json", "-i", "5", "-w", "2")
    assert (status, out) == (0, "Resource 'cropped': 14, 16, 6, 8\n")
    assert re.search(r"'crop'.* 5 iterations, \d+\.\d+ ms median", err)


def test_run_ends_with_a_table_of_the_dispatches(call: Call) -> None:
    status, out, _ = call("run", "crop.json", "--profile")
    first, row, total = out.splitlines()
    assert (status, first) == (0, "Resource 'cropped': 14, 16, 6, 8")
    assert re.fullmatch(r"crop  copy:numpy +\d+\.\d us  100% +80 bytes", row)
    assert re.fullmatch(r"\d+\.\d us in all", total)


def test_run_reads_standard_input(call: Call) -> None:
    status, out, _ = call("run", "-", stdin=CROP.encode())
    assert (status, out) == (0, "Resource 'cropped': 14, 16, 6, 8\n")
    status, _, err = call("run", "-", stdin=b'{"\xff')
    assert status == 2
    assert "cannot be read" in err


def test_run_writes_where_it_is_told_and_says_so(call: Call, tmp_path: Path) -> None:
    status, out, err = call("run", "crop.json")
    assert (status, out) == (0, "Resource 'cropped': 14, 16, 6, 8\n")
    assert err.splitlines()[1:] == ["Wrote 'cropped.npy'"]
    (tmp_path / "cropped.npy").unlink()
    status, _, err = call("run", "crop.json", "--output-path", "there")
    assert status == 0
    assert err.splitlines()[1:] == [f"Wrote {str(Path('there', 'cropped.npy'))!r}"]
    assert (tmp_path / "there" / "cropped.npy").exists()
    assert not (tmp_path / "cropped.npy").exists()


def test_an_output_that_cannot_be_written_is_status_1(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status, out, err = call("run", "crop.json", "--output-path", "file")
    assert (status, out) == (1, "Resource 'cropped': 14, 16, 6, 8\n")
    assert "an output could not be written: cropped.npy" in err
    assert spawn("run", "crop.json", "--output-path", "file", folder=tmp_path).stdout == out


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_standard_output_that_is_full_is_status_1(tmp_path: Path) -> None:
    (tmp_path / "crop.json").write_text(CROP, encoding="utf-8")
    for arguments in ("run crop.json", "describe SLICE1 --json"):
        command = f"{sys.executable} -m anydml.cli.main {arguments} > /dev/full"
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, check=False
        )
        assert done.returncode == 1
        assert b"could not be written" in done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no shell that closes them")
@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ("run crop.json >&-", 1, "standard output could not be written"),
        ("check crop.json >&-", 1, "could not be written"),
        ("check crop.json --json >&-", 1, "standard output could not be written"),
        ("describe SLICE1 >&-", 1, "could not be written"),
        ("ops --json >&-", 1, "standard output could not be written"),
        ("--help >&-", 1, "could not be written"),
        ("run silent.json >&-", 0, "Wrote 'cropped.npy'"),
        ("run - <&-", 2, "standard input: cannot be read"),
        ("run crop.json 2>&-", 0, ""),
        ("run bad.json 2>&-", 2, ""),
        ("run 2>&-", 2, ""),
        ("run crop.json <&- >&- 2>&-", 1, ""),
        ("run crop.json 2>/dev/full", 0, ""),
        ("run bad.json 2>/dev/full", 2, ""),
        ("walk 2>/dev/full", 2, ""),
    ],
)
def test_closed_and_full_streams(tmp_path: Path, arguments: str, status: int, told: str) -> None:
    if "/dev/full" in arguments and not os.path.exists("/dev/full"):
        pytest.skip("a device of Linux")
    (tmp_path / "crop.json").write_text(CROP, encoding="utf-8")
    (tmp_path / "bad.json").write_text(BAD, encoding="utf-8")
    (tmp_path / "silent.json").write_text(CROP.replace('{"type": "print", "resource": "cropped"},', ""), encoding="utf-8")
    done = subprocess.run(
        f"{sys.executable} -m anydml.cli.main {arguments}",
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PACKAGE},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 3
    if "crop.json" in arguments and "run" in arguments:
        assert np.load(tmp_path / "cropped.npy").size == 4  # without a check of the text


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000, "x/" * 3000, "a\nb: forged\u202e\u2066", "-\nb", "a\udcff"])
def test_arguments_that_no_file_can_be_called(call: Call, tmp_path: Path, name: str) -> None:
    for arguments in (
        ["run", name],
        ["check", name],
        ["run", "crop.json", name],
        ["run", "crop.json", "--device", name],
        ["run", "crop.json", f"--{name}"],
        ["check", "crop.json", "--feature-level", name],
        ["describe", name],
        [name],
        ["compare", name, "--resource", "cropped", "--actual", "crop.json"],
        ["compare", "crop.json", "--resource", "cropped", "--actual", name],
        ["compare", "crop.json", "--resource", name, "--actual", "crop.npy"],
    ):
        np.save(tmp_path / "crop.npy", np.zeros(4, np.float32))
        status, out, err = call(*arguments)
        assert status == 2, arguments
        assert "Traceback" not in out + err
        assert all(line.isprintable() for line in (out + err).encode("utf-8", "backslashreplace").decode().split("\n"))
        said = [line for line in (out + err).splitlines() if line]
        assert len(said) == 1 or [line.split()[0] for line in said] == ["Usage:", "Try", "Error:"], said
    assert call("run", "crop.json", "--input-path", name)[0] == 0  # an example whose program reads no file


def test_no_more_runs_are_timed_than_memory_has_room_for(call: Call) -> None:
    for option in ("-i", "-w"):
        status, _, err = call("run", "crop.json", option, str(10**22))
        assert (status, "is not in the range" in err) == (2, True)


def test_a_program_with_faults_is_refused_and_nothing_is_written(call: Call, tmp_path: Path) -> None:
    status, out, err = call("run", "bad.json")
    assert (status, out) == (2, "")
    assert err == f"bad.json: /dispatchables/crop/desc/InputWindowOffsets/3: {RULE}\n"
    assert not (tmp_path / "cropped.npy").exists()


def test_a_program_cannot_leave_its_folder_unless_allowed(call: Call, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "away.json").write_text(CROP.replace('"cropped.npy"', '"../away.npy"'), encoding="utf-8")
    assert call("run", "away.json", "--output-path", "inside")[0] == 2
    assert not (tmp_path / "away.npy").exists()
    assert call("run", "away.json", "--output-path", "inside", "--allow-outside")[0] == 0
    assert (tmp_path / "away.npy").exists()


def test_data_that_breaks_a_rule_is_refused(call: Call, tmp_path: Path) -> None:
    example = dml.QuantizedLinearMatrixMultiply.spec.examples[0]
    program = program_of(example.fields, {**example.inputs, "a_scale_tensor": np.zeros(1, np.float32)})
    (tmp_path / "zero.json").write_text(program, encoding="utf-8")
    status, _, err = call("run", "zero.json")
    assert status == 2
    assert "a_scale_tensor[0] is 0.0; a scale must not be 0, infinite or NaN" in err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["run"],
        ["walk", "crop.json"],
        ["run", "crop.json", "--device", "gpu"],
        ["run", "crop.json", "--feature-level", "7_0"],
        ["run", "crop.json", "-i", "0"],
        ["run", "crop.json", "-w", "-1"],
        ["run", "missing.json"],
        ["describe", "SLICE2"],
        ["describe", "SLICE", "--json", "--markdown"],
        ["compare", "crop.json"],
        ["compare", "crop.json", "--resource", "cropped", "--actual", "missing.npy"],
        ["compare", "crop.json", "--resource", "image", "--actual", "crop.npy"],
    ],
    ids=" ".join,
)
def test_what_is_refused_is_status_2_with_a_reason_and_no_results(call: Call, tmp_path: Path, arguments: list[str]) -> None:
    np.save(tmp_path / "crop.npy", np.zeros(4, np.float32))
    status, out, err = call(*arguments)
    assert (status, out) == (2, "")
    assert err.strip()
    assert "Traceback" not in err


def test_no_memory_is_refused(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: Any, **__: Any) -> None:
        raise MemoryError("an output of sizes (9, 9) takes 81 bytes")

    monkeypatch.setattr("anydml.program.Program.check", none_left)
    assert call("check", "crop.json") == (2, "", "an output of sizes (9, 9) takes 81 bytes\n")


def test_an_interruption_is_status_130(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("anydml.program.Program.check", interrupted)
    assert call("check", "crop.json")[0] == 130


def test_an_unexpected_exception_keeps_its_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("our bug")

    monkeypatch.setattr("anydml.program.Program.check", broken)
    with pytest.raises(RuntimeError, match="our bug"):
        call("check", "crop.json")


# --- check ---


def test_check_is_silent_about_what_is_right(call: Call) -> None:
    assert call("check", "crop.json") == (0, "crop.json: no faults at feature level 6_4\n", "")
    assert call("check", "crop.json", "--json") == (0, "[]\n", "")


def test_check_prints_each_fault_with_its_place(call: Call) -> None:
    assert call("check", "bad.json") == (2, f"bad.json: /dispatchables/crop/desc/InputWindowOffsets/3: {RULE}\n", "")


def test_check_gives_faults_as_json(call: Call) -> None:
    status, out, err = call("check", "bad.json", "--json")
    assert (status, err) == (2, "")
    assert json.loads(out) == [
        {
            "pointer": "/dispatchables/crop/desc/InputWindowOffsets/3",
            "message": RULE,
            "constraint": "window_inside_input",
            "dimension": 3,
            "values": {"InputWindowOffsets[3]": 2, "InputWindowSizes[3]": 3, "InputTensor.Sizes[3]": 4},
            "expected": {
                "InputWindowOffsets[3]": {"minimum": 0, "maximum": 1},
                "InputWindowSizes[3]": {"minimum": 1, "maximum": 2},
            },
        }
    ]
    assert call("check", "missing.json")[:2] == (2, "missing.json: cannot be read (No such file or directory)\n")
    status, out, _ = call("check", "-", "--json", stdin=b"{")
    (fault,) = json.loads(out)
    assert (status, fault["constraint"], fault["dimension"], fault["values"], fault["expected"]) == (2, None, None, {}, {})


def test_check_asks_the_feature_level(call: Call) -> None:
    status, out, _ = call("check", "crop.json", "--feature-level", "2_0", "--json")
    (fault,) = json.loads(out)
    assert (status, fault["constraint"], fault["expected"]) == (2, "available", {"FeatureLevel": "2_1"})


def test_check_refuses_extensions_when_strict(call: Call, tmp_path: Path) -> None:
    spec = dml.MatrixMultiplyInteger.spec
    by_batch = next(e for e in spec.rejecting if e.constraint == "a_zero_point_not_by_batch")
    fields = {**spec.examples[0].fields, **by_batch.fields}
    inputs = {name: np.zeros(t.sizes, t.data_type.dtype) for name, t in fields.items() if name != "output_tensor"}
    fields["b_zero_point_tensor"] = dml.TensorDesc(dml.DataType.UINT8, (1, 1, 1))
    (tmp_path / "batches.json").write_text(program_of(fields, inputs, dml.MatrixMultiplyInteger), encoding="utf-8")
    assert call("check", "batches.json")[0] == 0
    status, out, _ = call("check", "batches.json", "--strict", "--json")
    assert status == 2
    assert [fault["constraint"] for fault in json.loads(out)] == ["a_zero_point_not_by_batch"]


def test_members_that_nobody_reads_are_warned_of(call: Call, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(
        CROP.replace('"DimensionCount": 4', '"DimensionCount": 4, "Colour": 1'), encoding="utf-8"
    )
    status, out, err = call("check", "odd.json")
    assert (status, out) == (0, "odd.json: no faults at feature level 6_4\n")
    assert err.startswith("warning: odd.json: /dispatchables/crop/desc/Colour")


# --- describe, ops ---


@pytest.mark.parametrize("name", ["SLICE1", "slice1", "DML_OPERATOR_SLICE1", "dml_operator_slice1", "Slice1"])
def test_an_operator_is_found_by_any_spelling(call: Call, name: str) -> None:
    status, out, err = call("describe", name)
    assert (status, err) == (0, "")
    assert out.startswith("DML_OPERATOR_SLICE1 (111, from feature level 2_1")


def test_describe_as_json_and_as_a_page(call: Call) -> None:
    status, out, _ = call("describe", "slice1", "--json")
    assert status == 0
    assert json.loads(out)["operator"] == "DML_OPERATOR_SLICE1"
    status, out, _ = call("describe", "slice1", "--markdown")
    assert status == 0
    assert out.startswith("# SLICE1\n")


def test_a_misspelt_operator_is_guessed(call: Call) -> None:
    assert "DirectML has no operator 'SLCIE1'; did you mean 'SLICE1'?" in call("describe", "slcie1")[2]


@pytest.mark.parametrize("name", ["scatter", "DML_OPERATOR_SCATTER"])
def test_an_older_name_is_said_to_be_one(call: Call, tmp_path: Path, name: str) -> None:
    told = "DML_OPERATOR_SCATTER is the older name of DML_OPERATOR_SCATTER_ELEMENTS"
    status, out, err = call("describe", name)
    assert (status, out, err.splitlines()[-1]) == (2, "", f"Error: {told}")
    (tmp_path / "missing.json").write_text(CROP.replace("DML_OPERATOR_SLICE1", name.upper()), encoding="utf-8")
    assert call("check", "missing.json") == (2, f"missing.json: /dispatchables/crop/type: {told}\n", "")
    assert call("run", "missing.json") == (2, "", f"missing.json: /dispatchables/crop/type: {told}\n")
    (fault,) = json.loads(call("check", "missing.json", "--json")[1])
    assert (fault["pointer"], fault["message"]) == ("/dispatchables/crop/type", told)


def test_ops_lists_every_operator(call: Call) -> None:
    status, out, err = call("ops")
    assert status == 0
    every = operators.every()
    assert [line.split()[0] for line in out.splitlines()] == [o.spec.wire_name for o in every]
    assert err == f"{len(every)} of {len(NAMES)} operators; each has kernels for OpenCL devices, too\n"
    by = {o.spec.wire_name: NOT_COMPILED.get(o.spec.name, "compiled") for o in every}
    assert {line.split()[0]: line.split()[2] for line in out.splitlines()} == by
    status, out, err = call("ops", "--json")
    assert (status, err) == (0, "")
    assert {o["operator"]: o["computed_by"] for o in json.loads(out)} == by
    listed = [(o["number"], o["since"]) for o in json.loads(out)]
    assert listed == [(o.spec.number, str(o.spec.since)) for o in every]
    assert {(60, "1_0"), (111, "2_1"), (117, "2_1"), (118, "2_1")} < set(listed)


def test_version_and_help(call: Call) -> None:
    assert call("--version") == (0, f"anydml {dml.__version__}, semantics {dml.SEMANTICS_VERSION}\n", "")
    status, out, _ = call("--help")
    assert status == 0
    for command in ("run", "check", "describe", "ops", "compare"):
        assert re.search(rf"^  {command} ", out, re.MULTILINE)
        assert call(command, "-h")[0] == 0


# --- compare ---


def program_of(fields: Any, inputs: Any, operator: Any = dml.QuantizedLinearMatrixMultiply) -> str:
    """A program of one operator as text, with its inputs' values in it; the output is called `output`."""

    def tensor(t: dml.TensorDesc) -> dict[str, Any]:
        return {"DataType": t.data_type.name, "Sizes": t.sizes, "Flags": t.flags.name}

    desc = operator(**fields)
    present = {f.wire: getattr(desc, f.name) for f in operator.spec.tensors if getattr(desc, f.name) is not None}
    owned = {wire: wire for wire, t in present.items() if t.flags}
    resources = {
        f.wire: {"initialValuesDataType": present[f.wire].data_type.name, "initialValues": inputs[f.name].ravel().tolist()}
        for f in operator.spec.inputs
        if f.wire in present
    }
    output = present["OutputTensor"]
    resources["output"] = {
        "initialValuesDataType": output.data_type.name,
        "initialValues": {"value": 0, "valueCount": output.span},
    }
    bindings = {wire: wire for wire in present if wire not in owned} | {"OutputTensor": "output"}
    described = {"type": operator.spec.name, "desc": {wire: tensor(t) for wire, t in present.items()}}
    return json.dumps(
        {
            "resources": resources,
            "dispatchables": {"multiply": described | ({"bindings": owned} if owned else {})},
            "commands": [
                {"type": "dispatch", "dispatchable": "multiply", "bindings": bindings},
                {"type": "writeFile", "resource": "output", "targetPath": "never.npy"},
            ],
        }
    )


def compare_with(call: Call, folder: Path, program: str, actual: Any, *options: str) -> tuple[int, str, str]:
    (folder / "program.json").write_text(program, encoding="utf-8")
    np.save(folder / "actual.npy", actual)
    return call("compare", "program.json", "--resource", "output", "--actual", "actual.npy", *options)


def test_compare_says_how_a_result_differs(call: Call, tmp_path: Path) -> None:
    example = dml.QuantizedLinearMatrixMultiply.spec.examples[1]
    program = program_of(example.fields, example.inputs)
    for actual in (example.output, example.output.ravel()):
        assert compare_with(call, tmp_path, program, actual) == (0, "all 8 are equal (8 ties)\n", "")
    wrong = example.output.copy()
    wrong[0, 0] = 1
    assert compare_with(call, tmp_path, program, wrong) == (
        1,
        "1 of 8 differs by 1, at a tie\n  [0, 0]: 1, not 0 (0.5, 0 from a tie)\n",
        "",
    )
    status, out, _ = compare_with(call, tmp_path, program, wrong, "--json")
    assert status == 1
    assert json.loads(out)["steps"] == {"1": 1}
    assert json.loads(out)["causes"] == []
    halves = example.inputs["b_tensor"].ravel() * 0.5
    truncated = np.trunc(np.stack([halves, halves])) + np.array([[0], [1]])
    assert compare_with(call, tmp_path, program, truncated.astype(np.int8))[1].startswith(
        "2 of 8 differ by 1, all at a tie. It equals truncation in all 8 outputs; the exact result in 6"
    )
    assert compare_with(call, tmp_path, program, example.output, "--json")[0] == 0
    assert not (tmp_path / "never.npy").exists()
    far = dml.QuantizedLinearMatrixMultiply.spec.examples[0]
    elsewhere = program_of(far.fields, far.inputs)
    assert "a tie" not in compare_with(call, tmp_path, elsewhere, far.output ^ np.uint8(16))[1]
    status, _, err = compare_with(call, tmp_path, program, wrong.astype(np.int32))
    assert status == 2
    assert "actual: is int32" in err


def test_compare_finds_owned_inputs(call: Call, tmp_path: Path) -> None:
    example = dml.QuantizedLinearMatrixMultiply.spec.examples[1]
    b = dml.TensorDesc(dml.DataType.INT8, (1, 4), flags=dml.TensorFlags.OWNED_BY_DML)
    program = program_of({**example.fields, "b_tensor": b}, example.inputs)
    assert compare_with(call, tmp_path, program, example.output)[:2] == (0, "all 8 are equal (8 ties)\n")


def test_compare_takes_the_inputs_as_the_operator_finds_them(call: Call, tmp_path: Path) -> None:
    """The operator is the last one that writes the resource; another operator makes its input, which is overwritten later."""
    program = json.loads(re.sub(r",(?=\s*[\]}])", "", re.sub(r"//.*", "", CROP)))
    program["resources"]["output"] = {
        "initialValuesDataType": "FLOAT32",
        "initialValues": {"value": 7, "valueCount": 8},
    }
    crop = program["dispatchables"]["crop"]["desc"]
    forwards = {**crop, "InputWindowStrides": [1, 1, 2, 2]}
    corner = {
        **crop,
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]},
        "InputWindowOffsets": [0, 0, 0, 0],
        "InputWindowSizes": [1, 1, 2, 2],
        "InputWindowStrides": [1, 1, 1, 1],
    }
    program["dispatchables"] = {
        name: {"type": "SLICE1", "desc": desc} for name, desc in (("crop", crop), ("forwards", forwards), ("copy", corner))
    }
    at_element_4 = {"name": "output", "elementOffset": 4}
    program["commands"] = [
        dispatch("crop", "image", "cropped"),
        dispatch("forwards", "image", "output"),
        dispatch("copy", "cropped", at_element_4),
        dispatch("forwards", "image", "cropped"),
    ]
    text = json.dumps(program)
    whole = np.array([2, 4, 10, 12, 14, 16, 6, 8], np.float32)
    assert compare_with(call, tmp_path, text, whole)[:2] == (0, "all 4 are equal\n")
    whole[0] = 0  # written by another operator, and not compared
    whole[7] = 0
    status, out, _ = compare_with(call, tmp_path, text, whole)
    assert (status, out.splitlines()[0]) == (1, "1 of 4 differs, at [0, 0, 1, 1]: 0.0, not input_tensor[0, 0, 1, 1] = 8.0")


def dispatch(name: str, source: str, target: Any) -> dict[str, Any]:
    return {"type": "dispatch", "dispatchable": name, "bindings": {"InputTensor": source, "OutputTensor": target}}


def test_compare_reads_foreign_byte_order_and_refuses_what_is_no_array(call: Call, tmp_path: Path) -> None:
    example = dml.MatrixMultiplyInteger.spec.examples[0]
    program = program_of(example.fields, example.inputs, dml.MatrixMultiplyInteger)
    assert compare_with(call, tmp_path, program, example.output.astype(">i4"))[0] == 0
    np.savez(tmp_path / "two.npz", a=np.zeros(1), b=np.zeros(1))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no array", encoding="utf-8")
    header = np.lib.format.header_data_from_array_1_0(np.zeros(1, np.int32))
    for at, shape in enumerate(((1,) * 65, (2**50,), (0, 2**70), (0, 2**62, 2**62), (-1,), (True,) * 3)):
        with (tmp_path / f"odd{at}.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {**header, "shape": shape})
    (tmp_path / "folder.npy").mkdir()
    if sys.platform == "linux":  # on other systems, holes in a file may take space
        with (tmp_path / "odd.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {**header, "shape": (2**40,)})
            file.truncate(2**43)
    odd = [path.name for path in tmp_path.glob("odd*")]
    for name in ("two.npz", "objects.npy", "text.npy", "folder.npy", "/dev/zero", *odd):
        status, out, err = call("compare", "program.json", "--resource", "output", "--actual", name)
        assert (status, out) == (2, "")
        assert err.startswith(f"--actual: {name} ")


# --- pipes and terminals ---


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGPIPE")
@pytest.mark.parametrize("arguments", ["describe SLICE1", "describe SLICE1 --json", "run long.json", "ops", "--help"])
def test_a_pipe_that_closes_early_ends_it_quietly(tmp_path: Path, arguments: str) -> None:
    long = CROP.replace('"valueCount": 16', '"valueCount": 50000').replace(
        '"print", "resource": "cropped"', '"print", "resource": "image"'
    )
    (tmp_path / "long.json").write_text(long, encoding="utf-8")
    command = f"{{ {sys.executable} -m anydml.cli.main {arguments}; echo $? >&2; }} | head -n 1"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PACKAGE},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert len(done.stdout.splitlines()) == 1
    notes = done.stderr.splitlines()
    assert notes[-1] in ("0", "141")
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr


def test_colours_are_for_terminals_that_want_them(tmp_path: Path) -> None:
    piped = spawn("describe", "SLICE1").stdout
    assert "\x1b" not in piped
    assert "\x1b[1m" in spawn("describe", "SLICE1", FORCE_COLOR="1", TERM="xterm").stdout
    plain = spawn("describe", "SLICE1", FORCE_COLOR="1", TERM="xterm", NO_COLOR="1").stdout
    assert plain == piped
    for json_output in ("ops --json", "describe SLICE1 --json"):
        json.loads(spawn(*json_output.split(), FORCE_COLOR="1", TERM="xterm").stdout)


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize(("no_color", "styled"), [(None, True), ("1", False)])
def test_a_real_terminal(tmp_path: Path, no_color: str | None, styled: bool) -> None:
    (tmp_path / "bad.json").write_text(BAD, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": PACKAGE, "TERM": "xterm", "COLUMNS": "40"}
    environment.pop("NO_COLOR", None)
    if no_color:
        environment["NO_COLOR"] = no_color
    ours, theirs = os.openpty()  # type: ignore[attr-defined,unused-ignore]  # not on Windows
    try:
        command = [sys.executable, "-m", "anydml.cli.main", "run", "bad.json"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, stdout=theirs, stderr=theirs, timeout=60, check=False)
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the error of a terminal that is closed on the other side
            while more := os.read(ours, 65536):
                shown += more
    finally:
        os.close(ours)
    assert done.returncode == 2
    assert (b"\x1b[" in shown) == styled
    assert RULE.splitlines()[1].encode() in shown  # a narrow terminal wraps lines; we do not


def test_what_a_program_says_cannot_command_the_terminal(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "\\u001b[2Jcropped"
    (tmp_path / "evil.json").write_text(CROP.replace('"cropped"', f'"{name}"'), encoding="utf-8")
    status, out, err = call("run", "evil.json")
    assert status == 0
    assert "\x1b" not in out + err
    assert "\\x1b[2Jcropped" in out
    (tmp_path / "worse.json").write_text(CROP.replace('"resource": "cropped"', f'"resource": "{name}"'), encoding="utf-8")
    status, _, err = call("run", "worse.json")
    assert status == 2
    assert "\x1b" not in err
    Prints().write("a\x07b\tc\n")
    assert capsys.readouterr().out == "a\\x07b\tc\n"


def test_characters_that_a_terminal_lacks_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "crop.json").write_text(CROP.replace('"cropped"', '"Ausschnitt \u2194"'), encoding="utf-8")
    done = spawn("run", "crop.json", folder=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Resource 'Ausschnitt \\u2194': 14, 16, 6, 8\n"


def test_importing_anydml_loads_neither_click_nor_rich() -> None:
    code = "import sys, anydml; print({'click', 'rich', 'anydml.cli'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": PACKAGE}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "set()\n"


# --- the documentation's examples ---


@pytest.mark.parametrize("page", ["index.md", "why.md", "how-it-works.md"])
def test_code_in_the_documentation_prints_what_is_said(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    shown = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S)
    assert len(shown) == len(blocks(page, "python"))
    for code, output in shown:
        exec(code, names)
        assert capsys.readouterr().out == output


def test_sessions_in_the_documentation_are_so(call: Call, tmp_path: Path) -> None:
    np.save(tmp_path / "elsewhere.npy", np.array([[[[14, 16], [6, 7]]]], np.float32))
    for session in blocks("programs.md", "console"):
        prompt, output = session.split("\n", 1)
        (tmp_path / "crop.json").write_text(BAD if "check" in prompt else CROP, encoding="utf-8")
        assert call(*prompt.removeprefix("$ anydml ").split())[1] == output


def test_the_site_s_pages_are_those_of_the_operators() -> None:
    names: dict[str, Any] = {"__file__": str(DOCS / "generate.py"), "__name__": "generate"}
    exec((DOCS / "generate.py").read_text(encoding="utf-8"), names)
    pages = names["pages"]()
    assert len(pages) == 1 + len(operators.every())
    assert all(f"({Path(path).name})" in pages["operators/index.md"] for path in pages if path != "operators/index.md")


def test_the_site_builds_without_a_broken_link(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    group = next(
        line for line in (DOCS.parent / "pyproject.toml").read_text(encoding="utf-8").splitlines() if line[:5] == "docs "
    )
    missing = tmp_path / "missing"  # a file that tests have, but not `make docs` in a new clone
    missing.mkdir()
    for module in ("ml_dtypes", "onnx", "onnxruntime", "sklearn", "PIL", "gmpy2", "hypothesis", "typing_extensions"):
        if module.replace("_", "-") not in group:
            (missing / f"{module}.py").write_text(f'raise ModuleNotFoundError("No module named {module!r}")', encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(missing), PACKAGE))}
    done = subprocess.run(command, cwd=DOCS.parent, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "operators" / "slice1" / "index.html").exists()
