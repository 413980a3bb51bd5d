"""The ONNX models of a folder, each tried in a process of its own, with a limit of time."""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Work = Callable[[Path, Mapping[str, int]], dict[str, Any]]


def of_folder(
    doc: str | None, work: Work, ended: Callable[[str], dict[str, Any]], seconds: float
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """For each model that the command line asks for, its title, what the work returns, and whether JSON of it is printed.

    ended: what stands for the result of a process that ended early, for a reason. seconds: the limit, if none is given.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each model")
    asked = parser.parse_args()
    sizes = {name: int(n) for name, n in (text.split("=") for text in asked.size)}
    for file in sorted(asked.folder.rglob("*.onnx"), key=lambda f: f.stat().st_size):
        if asked.only in file.name:
            title, found = str(file.relative_to(asked.folder)), _limited(work, file, sizes, ended, asked.seconds)
            if asked.json:
                print(json.dumps({"file": title, **found}), flush=True)
            yield title, found, asked.json


def _limited(
    work: Work, file: Path, sizes: Mapping[str, int], ended: Callable[[str], dict[str, Any]], seconds: float
) -> dict[str, Any]:
    here, there = multiprocessing.Pipe(False)
    context = multiprocessing.get_context("fork")  # of a process that has not run anything
    process = context.Process(target=_in_process, args=(work, file, sizes, there))
    process.start()
    there.close()
    try:
        found: dict[str, Any] = here.recv() if here.poll(seconds) else ended(f"more than {seconds:.0f} s")
    except EOFError:
        found = ended("its process ended")
    process.kill()
    process.join()
    return found


def _in_process(work: Work, file: Path, sizes: Mapping[str, int], ends: Any) -> None:
    ends.send(work(file, sizes))
