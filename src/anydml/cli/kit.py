"""`export-kit`, and the comparison of what a machine with DirectML made of a kit."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from anydml import kit, operators, vectors
from anydml.cli.output import as_json, note, result, show_table
from anydml.cli.programs import compared
from anydml.program import files, load
from anydml.spelling import printable

FROM_DIRECTML = ("ERROR creating dispatchable", "ERROR while initializing")
"""The output of DxDispatch if DirectML refuses to create or to compile an operator."""
VERDICTS = {
    "equal": "every bit of every output is equal",
    "differs": "an output is another one",
    "refused as here": "a desc that breaks a rule is refused",
    "accepted as here": "a desc that breaks a rule which anydml does not require is accepted",
    "accepted there": "a desc that breaks a rule here is accepted there",
    "refused there": "a desc that is allowed here is refused there",
    "failed": "the program ended otherwise: see its output.txt and error.txt",
    "not run": "there is no result",
}
AS_HERE = ("equal", "refused as here", "accepted as here")


class Verdict(NamedTuple):
    case: str
    kind: str
    verdict: str
    sentence: str


def export(folder: str, names: tuple[str, ...]) -> int:
    """Write a kit of the operators of these names; of all if there are none."""
    chosen = list(operators.every())
    if names:
        found = {name: operators.find(name.upper()) for name in names}
        if missing := [name for name, operator in found.items() if operator is None]:
            raise click.UsageError(operators.why_missing(missing[0].upper()))
        chosen = [operator for operator in found.values() if operator is not None]
    to = Path(folder)
    if to.exists() and not (to.is_dir() and (not any(to.iterdir()) or (to / kit.RECORDS).exists())):
        raise click.UsageError(f"{printable(folder)} is neither an empty folder nor a kit.")
    kinds = kit.write(to, chosen, lambda name: None)
    for kind, meaning in kit.KINDS.items():
        result(f"{kinds[kind]:6,}  {kind:9}  {meaning}")
    note(
        f"Wrote {sum(kinds.values()):,} programs to {printable(folder)}. On Windows: .\\{kit.SCRIPT} -DxDispatch dxdispatch.exe"
    )
    return 0


def export_vectors(name: str, path: str | None) -> int:
    """Write the test vectors of an operator."""
    operator = operators.find(name.upper())
    if operator is None:
        raise click.UsageError(operators.why_missing(name.upper()))
    to = Path(path or f"{operator.spec.name.lower()}.npz")
    try:
        kinds = vectors.write(to, operator)
    except OSError as error:
        note(f"{printable(str(to))} cannot be written ({error.strerror or error})")
        return 1
    note(f"Wrote {printable(str(to))}: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
    return 0


def is_kit(path: str) -> bool:
    return os.path.isfile(os.path.join(path, kit.RECORDS))  # False also for a name that no file can have


def judged(path: str, json_wanted: bool) -> int:
    """Print how the results in a kit compare with the exact ones.

    The exit status is 1 if some are not as here, else 3 if some are missing, else 0.
    """
    folder = Path(path)
    try:
        document = json.loads((folder / kit.RECORDS).read_text(encoding="utf-8"))
        cases = [(str(c["name"]), str(c["kind"]), list(c["outputs"]), str(c["detail"])) for c in document["cases"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.UsageError(f"{printable(path)}/{kit.RECORDS} cannot be read: {printable(str(error))}") from None
    found = [_verdict(folder, *case) for case in cases if Path(case[0]).name == case[0]]
    if json_wanted:
        as_json({**{k: document.get(k) for k in ("anydml", "semantics")}, "cases": [v._asdict() for v in found]})
    else:
        _show(found)
    counts = Counter(v.verdict for v in found)
    if any(n and verdict not in (*AS_HERE, "not run") for verdict, n in counts.items()):
        return 1
    return 3 if counts["not run"] else 0


def _verdict(folder: Path, name: str, kind: str, outputs: list[str], detail: str) -> Verdict:
    there = folder / kit.RESULTS / name
    try:
        status = (there / "exit.txt").read_text(encoding="utf-8").strip()
    except OSError:
        return Verdict(name, kind, "not run", "")
    printed = "\n".join(_text(there / file) for file in ("output.txt", "error.txt"))
    refusal = next((line.strip() for line in printed.splitlines() if any(x in line for x in FROM_DIRECTML)), None)
    if refusal:
        return Verdict(name, kind, "refused as here" if kind == "rejected" else "refused there", refusal)
    if status != "0":
        return Verdict(name, kind, "failed", _last(printed, status))
    if not outputs:
        return Verdict(name, kind, "accepted there" if kind == "rejected" else "accepted as here", detail)
    sentences = [s for output in outputs if (s := _difference(folder, name, output))]
    return Verdict(name, kind, "differs" if sentences else "equal", "; ".join(sentences))


def _difference(folder: Path, name: str, output: str) -> str | None:
    """The difference of an output from the exact one; None if there is none."""
    try:
        expected = files.array(folder / kit.EXPECTED / name / f"{output}.npy").ravel()
        actual = files.array(folder / kit.RESULTS / name / f"{output}.npy").ravel()
    except (OSError, ValueError) as error:
        return f"{output} cannot be read: {error}"
    actual = actual.view(np.uint8)[: expected.nbytes]  # DxDispatch writes the whole buffer, of a multiple of 4 bytes
    if actual.size < expected.nbytes:
        return f"{output} has {actual.size} bytes instead of {expected.nbytes}"
    actual = actual.view(expected.dtype)
    if _equal(actual, expected):
        return None
    program = load(folder / kit.PROGRAMS / name)
    return f"{output}: {compared(program, output, actual, {})}"


def _equal(actual: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Whether arrays are equal in every bit; every NaN equals every other."""
    same = actual.view(f"u{actual.itemsize}") == expected.view(f"u{actual.itemsize}")
    if actual.dtype.kind == "f":
        same |= np.isnan(actual) & np.isnan(expected)
    return bool(same.all())


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _last(printed: str, status: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return f"exit status {status}" + (f": {lines[-1]}" if lines else "")


def _show(found: list[Verdict]) -> None:
    from rich.table import Table

    counts = Counter((v.kind, v.verdict) for v in found)
    shown = [verdict for verdict in VERDICTS if any(counts[kind, verdict] for kind in kit.KINDS)]
    table = Table("", *shown)
    for kind in kit.KINDS:
        table.add_row(kind, *(f"{counts[kind, verdict]:,}" for verdict in shown))
    show_table(table)
    for verdict in shown:
        if verdict not in (*AS_HERE, "not run"):
            result(f"\n{verdict}: {VERDICTS[verdict]}", "bold")
            for v in found:
                if v.verdict == verdict:
                    result(f"  {printable(v.case)}: {printable(v.sentence)}")
