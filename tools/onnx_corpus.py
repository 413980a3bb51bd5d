"""Runs each model of a folder here and in onnxruntime, on the same random inputs, and reports runs, refusals and agreement.

python tools/onnx_corpus.py FOLDER [--only WORD] [--seconds 120] [--size N=4]

Every model has a process of its own with a time limit. A size that a model does not give is 1, or the one that `--size` names.
Float outputs agree if all differences from onnxruntime's are at most 1e-3 of the largest element (1e-2 for FLOAT16), or at most
twice the difference between onnxruntime's results with and without its optimisations. Integer outputs agree if they are equal;
in a quantised model, a different rounding in an earlier node may change them by some steps, which the table shows.
"""

from __future__ import annotations

import collections
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

import anydml.onnx
from anydml.onnx.compare_runtimes import drawn
from anydml.onnx.errors import ModelError
from onnx_folder import of_folder

AGREES, STEPS, DIFFERS, REFUSED, FAILED, ALONE, NEITHER = (
    "agrees", "differs in steps", "differs", "refused", "failed", "runs here alone", "onnxruntime refuses it, too"
)  # fmt: skip
CLOSE = 1e-3  # the largest difference that agrees, relative to the largest element


def distance(ours: Any, theirs: Any) -> tuple[str, str]:
    """The kind of difference between two outputs, and its size in words."""
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return DIFFERS, f"{ours.dtype} {ours.shape}, and onnxruntime has {theirs.dtype} {theirs.shape}"
    if not theirs.size:
        return AGREES, ""
    a, b = (np.asarray(x, np.float64) for x in (ours, theirs))
    whole = theirs.dtype.kind in "iub"
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
    if not np.isfinite(apart).all():
        return DIFFERS, "infinities or NaNs at other places"
    if whole:
        many = int(np.count_nonzero(apart))
        kind = AGREES if not many else STEPS if theirs.dtype.itemsize == 1 else DIFFERS
        return kind, f"{many} of {apart.size}, by {apart.max():.0f} at most" if many else ""
    largest = max(float(np.max(np.abs(b), where=np.isfinite(b), initial=0)), 1e-30)
    close = CLOSE if theirs.dtype.itemsize > 2 else 10 * CLOSE
    return (AGREES if apart.max() <= close * largest else DIFFERS), f"{apart.max() / largest:.0e} of the largest"


def _apart(a: Any, b: Any) -> float:
    """The largest difference of two outputs; infinite if they cannot be compared."""
    if a.shape != b.shape or b.dtype.kind != "f":
        return float("inf")
    return float(np.abs(np.asarray(a, np.float64) - b).max(initial=0))


def theirs(file: Path, given: dict[str, Any], plain: bool = False) -> tuple[dict[str, Any] | None, str]:
    """onnxruntime's outputs, with its optimisations or plain; None and the reason if it refuses the model."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if plain:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        return dict(zip(names, session.run(names, given), strict=True)), ""
    except Exception as error:  # its exceptions have no class in common
        return None, str(error).split("\n")[0][:200]


def outcome(file: Path, sizes: Mapping[str, int]) -> dict[str, Any]:
    """The outcome of one model: its kind, its reason, and seconds."""
    begin = time.perf_counter()
    found: dict[str, Any] | None = None
    try:
        model = anydml.onnx.load(file)
        given = drawn(model, 0, sizes)
        nodes = len(model.proto.graph.node)
        notes = list(model.notes)
        found = model.run(given)
    except ModelError as error:
        given, nodes, notes = locals().get("given", {}), locals().get("nodes", 0), []
        reason = "; ".join(sorted({f"{r.operator}: {r.kind}: {r.reason}" for r in error.refusals}))[:300]
        wanted, why = theirs(file, given) if given else (None, "")
        kind = NEITHER if wanted is None and given else REFUSED
        return dict(kind=kind, reason=f"{reason} | {why}" if why else reason, nodes=nodes, notes=notes)
    except Exception:  # any other error is a defect, which the table shows
        return dict(kind=FAILED, reason=traceback.format_exc(limit=-3), nodes=0, notes=[])
    took = time.perf_counter() - begin
    wanted, why = theirs(file, given)
    if wanted is None:
        return dict(kind=ALONE, reason=why, nodes=nodes, notes=notes, seconds=took)
    order = [AGREES, STEPS, DIFFERS]
    kinds = [(*distance(x, wanted[name]), name) for name, x in found.items()]
    kind, by, _ = max(kinds, key=lambda k: order.index(k[0]))
    if kind == DIFFERS and (plain := theirs(file, given, True)[0]) is not None:
        far = [name for k, _, name in kinds if k == DIFFERS]
        if all(_apart(found[name], wanted[name]) <= 2 * _apart(plain[name], wanted[name]) for name in far):
            kind, by = AGREES, f"{by}, as much as onnxruntime's optimisations change it"
            return dict(kind=kind, reason=by, nodes=nodes, notes=notes, seconds=took)
    if kind == AGREES:
        by = max((b for _, b, _ in kinds), key=lambda b: float(b.split()[0]) if b else 0.0)
    return dict(kind=kind, reason=by, nodes=nodes, notes=notes, seconds=took)


def ended(reason: str) -> dict[str, Any]:
    """The outcome of a process that ended early."""
    return dict(kind=FAILED, reason=reason, nodes=0, notes=[])


def main() -> int:
    counts: collections.Counter[str] = collections.Counter()
    for title, found, printed in of_folder(__doc__, outcome, ended, 120):
        counts[found["kind"]] += 1
        if not printed:
            print(f"| {title} | {found['nodes']} | {found['kind']} | {found['reason']} |", flush=True)
    print(dict(counts), file=sys.stderr)
    return 1 if counts[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
