"""A comparison as node data for Google's Model Explorer: own errors, accumulated errors and verdicts of nodes.

Model Explorer shows one value of each node from a file, so there are three. Nodes are found by the names of their outputs.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from anydml.onnx.compare_results import Deviation, ModelComparison

COLOURS = {
    "equal": "#d5ecdd",
    "rounding": "#f6e3bd",
    "beyond rounding": "#f3b8b4",
    "no bound": "#ddcff2",
    "not judged": "#e3e6ea",
}


def write_node_data(found: ModelComparison, path: str | os.PathLike[str]) -> list[Path]:
    """Write own errors to the file, accumulated errors and verdicts beside it, as x.accumulated.json and x.verdict.json.

    An error is that of floats in relation to the tensor's largest element, and that of integers in steps. Nodes have the
    colours of their verdicts. Returns the paths.
    """
    to = Path(path)
    own: dict[str, Any] = {}
    accumulated: dict[str, Any] = {}
    verdicts: dict[str, Any] = {}
    for row in found.nodes:
        colour = COLOURS[row.verdict]
        for name in row.writes:
            verdicts[name] = {"value": row.verdict, "bgColor": colour}
            for results, deviation in ((own, row.own), (accumulated, row.accumulated)):
                if deviation is not None:
                    results[name] = {"value": _size(deviation), "bgColor": colour}
    written = []
    for title, results, file in (
        ("own error", own, to),
        ("accumulated error", accumulated, to.with_suffix(f".accumulated{to.suffix}")),
        ("verdict", verdicts, to.with_suffix(f".verdict{to.suffix}")),
    ):
        text = json.dumps({"name": title, "results": results}, indent=1, allow_nan=False)
        file.write_text(text + "\n", encoding="utf-8", newline="\n")
        written.append(file)
    return written


def _size(found: Deviation) -> float:
    size = found.relative if found.unit else found.largest
    return size if math.isfinite(size) else 1.7e308  # JSON has no infinity
