"""Run the parts named on the command line, or all of them, print their tables and write benchmarks/results.json."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import anydml
from benchmarks import calls, slices

PARTS: dict[str, Callable[[], list[dict[str, Any]]]] = {"calls": calls.run, "slice": slices.run}
RESULTS = Path(__file__).with_name("results.json")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go")
    arguments = parser.parse_args()
    machine = {
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "anydml": anydml.__version__,
    }
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    results = {"machine": machine} | {part: PARTS[part]() for part in arguments.parts or PARTS}
    arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
