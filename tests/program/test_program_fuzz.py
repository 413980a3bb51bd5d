"""Mutations of valid program texts are refused with ProgramError (or DataError, if only data are wrong), or run.

ANYDML_FUZZ_EXAMPLES is their number: in `make test` the default, in a soak 10^6.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import anydml as dml
from anydml import operators
from anydml.program import check, load, of
from every_kernel import Compared

EXAMPLES = int(os.environ.get("ANYDML_FUZZ_EXAMPLES", "2500"))
TESTS = max(1, EXAMPLES // 100_000)  # a soak that is stopped goes on behind those that passed
EACH = EXAMPLES // TESTS
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[\[\]{}:,]|//[^\n]*')

FILES = """{ // values from files, an owned tensor, bindings with offsets, every command
  "resources": {
    "npy": {"initialValues": {"sourcePath": "x.npy"}, "sizeInBytes": 64},
    "raw": {"initialValuesDataType": "INT16", "initialValues": {"sourcePath": "x.dat"}},
    "mixed": {"initialValues": [{"type": "UINT8", "value": 3}, {"type": "FLOAT32", "value": 0.5},]},
    "given": {"initialValuesDataType": "FLOAT16", "initialValues": [1, 2.5, "nan", "-inf", 5, 6, 7, 8, 9, 10]},
    "steps": {"initialValuesDataType": "INT8", "initialValues": {"valueStart": -1, "valueDelta": 3, "valueCount": 64}},
  },
  "dispatchables": {
    "owned": {
      "type": "SLICE1", "dmlCompileType": "DmlCompileGraph", "executionFlags": ["NONE"],
      "bindings": {"InputTensor": {"name": "raw", "elementOffset": 8, "elementSizeInBytes": 2}},
      "InputTensor": {"Type": "BUFFER", "Desc": {"DataType": "INT16", "Sizes": [2, 4], "Flags": ["OWNED_BY_DML"]}},
      "OutputTensor": {"DataType": "INT16", "DimensionCount": 2, "Sizes": [2, 2], "Strides": [4, 2],
        "GuaranteedBaseOffsetAlignment": 16, "TotalTensorSizeInBytes": 16},
      "DimensionCount": 2, "InputWindowOffsets": [0, 0], "InputWindowSizes": [2, 4], "InputWindowStrides": [-1, 3],
    },
  },
  "commands": [
    {"type": "dispatch", "dispatchable": "owned", "bindings": {"OutputTensor": [{"name": "steps", "elementOffset": 16}]}},
    {"type": "print", "resource": "steps", "verbose": true}, {"type": "print", "resource": "mixed"},
    {"type": "writeFile", "resource": "npy", "targetPath": "sub/y.npy", "dimensions": [2, 3]},
    {"type": "writeFile", "resource": "given", "targetPath": "y.dat"},
  ],
}
"""  # fmt: skip


def spelled(values: Any) -> Any:
    """Numbers as in JSON: infinities and NaN by name."""
    if isinstance(values, list):
        return [spelled(x) for x in values]
    return str(values) if isinstance(values, float) and not math.isfinite(values) else values


def texts() -> list[str]:
    """Programs of every operator's first example, with inline values, and the one above."""
    found = [FILES]
    for cls in operators.every():
        example = cls.spec.examples[0]
        program = of(cls(**example.fields), example.inputs)
        for name, member in program.document["resources"].items():
            if "sourcePath" in member["initialValues"]:
                values = program.resources[name].values.data.tolist()  # type: ignore[union-attr]
                member["initialValues"] = spelled(values)
        found.append(json.dumps(program.document, indent=1))
    return found


TEXTS = texts()
TOKENS = [TOKEN.findall(text) for text in TEXTS]
NUMBERS = [str(2**power) for power in range(9)] + ["0", "-1", "-2", "65536", str(2**31), str(2**32 - 1), str(2**32), str(2**62)]
NUMBERS += [str(2**64), "1e400", "0.5", "-0.0"]
ODD = ["null", "true", "false", "[]", "{}", "[1]", '{"name":"npy"}', '""', '"nan"', '"../x"', '"/etc/passwd"', '"\\ud800"']
ODD += ['"\\u0000"', "NaN", "//", "/*", "*/", '"', "\\", "\0", "é", *"[]{}:,", "[" * 70]
HOSTILE = [
    '"\\n"',
    '".y"',
    '"\\u202e"',
    '"a\\nb: \\u2066"',
    '"\\u001b[2J"',
    '"\\u2028/\\u0085"',
    '"x.npy"',
    '"sub/y.npy/y"',
    '"GRU"',
]
STRINGS = sorted({token for tokens in TOKENS for token in tokens if token[0] == '"'})
BATCH = EACH // 500  # texts in one Hypothesis example, which costs more than a text, and is kept in memory


def mutated(random: Random) -> str:
    """Tokens of a program replaced (mostly by others of their kind), removed, repeated, inserted."""
    tokens = list(random.choice(TOKENS))
    if random.randrange(4) == 0:  # a name, or a word of the format, in any place
        name, hostile = random.choice([token for token in tokens if token[0] == '"']), random.choice(HOSTILE)
        tokens = [hostile if token == name else token for token in tokens]
    for _ in range(random.randint(0, 3)):
        kind, at = random.randrange(13), random.randrange(len(tokens) or 1)
        if kind < 6:
            at = next((i for i in range(at, len(tokens)) if tokens[i][0] in "-0123456789"), at)
            tokens[at : at + 1] = [random.choice(NUMBERS)]
        elif kind < 9:
            at = next((i for i in range(at, len(tokens)) if tokens[i][0] == '"'), at)
            tokens[at : at + 1] = [random.choice(STRINGS)]
        elif kind == 9:
            del tokens[at : at + random.randint(1, 4)]
        elif kind == 10:
            tokens[at:at] = tokens[at : at + random.randint(1, 12)]
        else:
            tokens[at : at + kind - 11] = [random.choice(ODD + HOSTILE + NUMBERS + STRINGS)]
    return " ".join(token + "\n" if token.startswith("//") else token for token in tokens)


def resident_bytes() -> int:
    """The memory of this process; 0 if the system does not report it."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def no_line_is_forged(text: str, *beginnings: str) -> None:
    for line in text.split("\n"):
        assert line.isprintable(), text
        assert line.startswith((*beginnings, "    ")) or not line, text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    inside.mkdir()
    np.save(inside / "x.npy", np.arange(6, dtype=np.int32))
    (inside / "x.dat").write_bytes(bytes(range(40)))
    return inside


@pytest.mark.parametrize("number", range(TESTS))
def test_mutated_programs_run_or_are_refused(
    number: int, folder: Path, monkeypatch: pytest.MonkeyPatch, compared: Compared
) -> None:
    monkeypatch.setattr(check, "memory_bytes", lambda: 2**20)  # programs that need more are refused, not slow
    counts = {"ran": 0, "refused at load": 0, "refused": 0}
    slowest, resident = 0.0, []

    def attempt(text: str) -> None:
        try:
            program = load(io.StringIO(text))
        except dml.ProgramError as error:
            counts["refused at load"] += 1
            no_line_is_forged(str(error), "<stream>:")
            return
        out = io.StringIO()
        try:
            program.run(input_path=folder, output_path=folder / "out", out=out)
            counts["ran"] += 1
        except (dml.ProgramError, dml.DataError) as error:
            counts["refused"] += 1
            no_line_is_forged(str(error), "<stream>:" if isinstance(error, dml.ProgramError) else "")
        except OSError as error:  # a file has the name of another file's folder
            counts["refused"] += 1
            no_line_is_forged(str(error), "")
        no_line_is_forged(out.getvalue(), "Running on ", "Resource ", "Dispatch ", "Wrote ", "[")

    for text in TEXTS:
        attempt(text)
    assert counts["ran"] == len(TEXTS)

    @settings(max_examples=EACH // BATCH, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**64 - 1))
    def refused_or_run(seed: int) -> None:
        nonlocal slowest
        random = Random(number << 64 | seed)
        for _ in range(BATCH):
            text = mutated(random)
            began = time.process_time()
            try:
                attempt(text)
            except Exception:
                note(text)
                raise
            slowest = max(slowest, time.process_time() - began)
        resident.append(resident_bytes())

    refused_or_run()
    compared("mutated programs", sum(counts.values()) - len(TEXTS), EACH)
    growth = max(resident) - resident[len(resident) // 10]
    again = [mutated(Random(number << 64 | seed)) for seed in range(100 + EACH // 100)]
    held = []
    for _ in range(3):
        for text in again:
            attempt(text)
        held.append(resident_bytes())
    kept = held[2] - held[0]
    print(counts, f"slowest {slowest:.2f} s, growth {growth / 2**20:.1f} MB, of the same texts {kept / 2**20:.1f} MB")
    assert slowest < 60  # seconds of the processor; texts have a few hundred characters
    assert growth < 20 * 2**20 + 300 * EACH  # caches go on to fill with forms that are rare
    assert kept < 2 * 2**20
    assert min(counts.values()) > sum(counts.values()) // 25, counts  # each outcome is frequent
    assert sorted(os.listdir(folder.parent)) == ["inside"]
    assert not list(folder.rglob("*.part"))


def test_random_bytes_are_refused() -> None:
    @settings(max_examples=EXAMPLES // 20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.text())
    def refused(text: str) -> None:
        with pytest.raises(dml.ProgramError):
            load(io.StringIO(text))

    refused()


def members(value: Any) -> Any:
    """Every scalar of a JSON value with its path."""
    if isinstance(value, (dict, list)):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (name,), inner
            yield from (((name, *path), leaf) for path, leaf in members(inner))


def test_any_value_in_any_place_is_refused_or_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All structural mutations of one program: each value is replaced by each of a list, one at a time."""
    monkeypatch.setattr(check, "memory_bytes", lambda: 2**20)
    (folder / "base.json").write_text(FILES)
    base = load(folder / "base.json").document
    pool: list[Any] = [
        None,
        True,
        0,
        -1,
        2**32,
        2**64,
        0.5,
        float("1e400"),
        "",
        "x",
        "../x.npy",
        [],
        [[]],
        {},
        {"a": {}},
        [1] * 9,
    ]
    count = 0
    for path, before in list(members(base)):
        for value in pool:
            document = json.loads(json.dumps(base))
            node = document
            for name in path[:-1]:
                node = node[name]
            node[path[-1]] = value
            text = json.dumps(document).replace("Infinity", "1e400")
            with suppress(dml.ProgramError):
                load(io.StringIO(text)).run(input_path=folder, output_path=folder / "out")
            count += 1
        assert before is not None
    assert count > 1500
