"""Run the parts named on the command line, or all of them, print their tables and write benchmarks/results.json."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import anydml
from benchmarks import (
    asserts,
    calls,
    cliffs,
    compiling,
    contractions,
    convolutions,
    dequantised,
    digits,
    graphs,
    history,
    huge_pages,
    language,
    maps,
    matmuls,
    narrow,
    networks,
    overview,
    qdq,
    reference,
    rest,
    sixteen_bits,
    slices,
    small_calls,
    small_models,
    small_networks,
    starting,
    threads,
    torch_networks,
    tuned,
    types,
    windows,
)
from benchmarks.matmul_peers import HELD

PARTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "overview": overview.run,
    "calls": calls.run,
    "small": small_calls.run,
    "layers": small_networks.run,
    "models": small_models.run,
    "tune": tuned.run,
    "asserts": asserts.run,
    "compile": compiling.run,
    "start": starting.run,
    "slice": slices.run,
    "matmul": matmuls.run,
    "map": maps.run,
    "contract": contractions.run,
    "convolution": convolutions.run,
    "windows": windows.run,
    "rest": rest.run,
    "cliffs": cliffs.run,
    "graphs": graphs.run,
    "networks": networks.run,
    "language": language.run,
    "digits": digits.run,
    "dequantised": dequantised.run,
    "sixteen": sixteen_bits.run,
    "qdq": qdq.run,
    "reference": reference.run,
    "types": types.run,
    "avx2": narrow.run,
    "threads": threads.run,
    "pages": huge_pages.run,
}
BY_NAME = {"torch": torch_networks.run}  # parts that need what the others do not
RESULTS = Path(__file__).with_name("results.json")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, *BY_NAME, []], help="default: all but torch")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go")
    matmul = parser.add_argument_group("the matmul part")
    matmul.add_argument("--isa", choices=HELD, help="an instruction set, to which oneDNN and OpenBLAS are held too")
    matmul.add_argument("--shapes", nargs="+", metavar="MxKxN", help="only these; batches come first")
    matmul.add_argument("--seconds", type=float, default=0.15, help="for each call that is timed")
    arguments = parser.parse_args()
    if arguments.isa and not HELD[arguments.isa].items() <= os.environ.items():  # the libraries read these when they are loaded
        command = [sys.executable, "-m", "benchmarks", *sys.argv[1:]]
        sys.exit(subprocess.run(command, env=os.environ | HELD[arguments.isa]).returncode)
    os.environ["ANYDML_CACHE"] = "0"  # so that compilations are timed, not reads from disk
    options = {"shapes": arguments.shapes, "seconds": arguments.seconds, "isa": arguments.isa}
    parts = PARTS | BY_NAME | {"matmul": partial(matmuls.run, **options)}
    machine = {
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "anydml": anydml.__version__,
    }
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    results = {"machine": machine} | {part: parts[part]() for part in arguments.parts or PARTS}
    arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    for name, times in history.add(results):
        print(f"slower than in the last runs: {name}: {times:.2f} times as long")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
