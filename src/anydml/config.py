"""`show_config` and `anydml info`: the versions, the processor and the kernels in use, to paste into a bug report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import numpy as np

from anydml import fork_safety, operators
from anydml.devices.device import NAMES
from anydml.errors import UnsupportedError
from anydml.feature_level import FeatureLevel
from anydml.kernels.call import pool
from anydml.kernels.code import cache, detect, llvm, processor, targets, tuned
from anydml.version import SEMANTICS_VERSION, __version__


def show_config() -> None:
    """Print the versions, the processor, the instruction set and threads in use and why, and where machine code is kept."""
    print(text(config()))


def config() -> dict[str, Any]:
    """The contents of `show_config`, as data that JSON can hold."""
    reason = llvm.unavailable()
    target = targets.named(None) if reason is None else None
    if reason is None and target is None:
        reason = f"anydml compiles no code for {llvm.process_triple()}"
    return {
        "anydml": __version__,
        "semantics": SEMANTICS_VERSION,
        "operators": len(operators.every()),
        "feature_levels": [str(level) for level in FeatureLevel],
        "devices": list(NAMES),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.platform(),
        "numpy": np.__version__,
        "llvmlite": _version("llvmlite"),
        "llvm": llvm.llvm_version() if llvm.unavailable() is None else None,
        "processor": _processor(),
        "architecture": platform.machine(),
        "processors": {"usable": pool.processors(), "all": os.cpu_count()},
        "kernels": "NumPy" if target is None else "compiled",
        "why_numpy": reason,
        "instruction_set": target and target.name,
        "instruction_sets": {} if target is None else _instruction_sets(target),
        "threads": _threads(target),
        "tuning": tuned.facts(),
        "opencl": _opencl(),
        "cache": cache.facts() if target else {"folder": None, "why": "nothing is compiled"},
    }


def _opencl() -> dict[str, Any]:
    """The OpenCL devices by name, each with the reason why it is refused, as far as it says so itself; or why there are none.

    None is opened, since a driver with a fault may do anything; the self-test is that of `Device`.
    """
    with fork_safety.guard:
        from anydml.kernels.opencl import platform as opencl
    try:
        found = opencl.found()
    except UnsupportedError as error:
        return {"why": str(error), "devices": []}
    made = [
        {
            "device": f"{opencl.PREFIX}:{one.number}",
            "name": one.name,
            "platform": one.platform,
            "driver": one.driver,
            "refused": one.refused,
        }
        for one in found
    ]
    return {"why": None if made else "OpenCL has no device here", "devices": made}


def _instruction_sets(target: targets.Target) -> dict[str, list[str]]:
    """The instruction sets of the architecture, each with the features that the processor does not report."""
    _, features = detect.features()
    rows = (row for row in (*targets.X86, *targets.ARM, *targets.OTHER) if row.architecture == target.architecture)
    return {row.name: [name for name in row.features if name not in features] for row in rows}


def _threads(target: targets.Target | None) -> dict[str, Any]:
    try:
        asked, why = pool.threads_and_why()
    except UnsupportedError as error:
        return {"in_use": None, "why": str(error)}
    if target is None:
        return {"in_use": 1, "why": "NumPy's kernels run on one thread"}
    in_use = pool.in_use(asked, target)
    return {"in_use": in_use, "why": why if in_use == asked else f"of {asked}, {why}"}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """The processor's name, as the system and LLVM give it."""
    known = [processor.name() or "of unknown name"]
    if llvm.unavailable() is None:
        known.append(f"{llvm.host_name()} to LLVM")
    return ", ".join(known)


def text(facts: dict[str, Any]) -> str:
    """The facts as text, one line for each subject."""
    llvmlite = "not installed" if facts["llvmlite"] is None else facts["llvmlite"]
    usable, there = facts["processors"]["usable"], facts["processors"]["all"]
    threads = facts["threads"]
    rows = {
        "anydml": f"{facts['anydml']}, semantics {facts['semantics']}, {facts['operators']} operators",
        "feature levels": f"{facts['feature_levels'][0]} to {facts['feature_levels'][-2]}, {facts['feature_levels'][-1]}",
        "devices": ", ".join(facts["devices"]),
        "Python": f"{facts['python']}, {facts['system']}",
        "NumPy": facts["numpy"],
        "llvmlite": llvmlite if facts["llvm"] is None else f"{llvmlite}, LLVM {facts['llvm']}",
        "processor": f"{facts['processor']}, {facts['architecture']}; {usable} of {there} processors usable",
        "kernels": "compiled" if facts["why_numpy"] is None else f"NumPy's, since {facts['why_numpy']}",
        "instruction set": _chosen(facts["instruction_set"], facts["instruction_sets"]),
        "threads": f"{threads['in_use'] or 'none'}: {threads['why']}",
        "tuning": _tuned(**facts["tuning"]),
        "OpenCL": _opencl_text(**facts["opencl"]),
        "cache": _cached(**facts["cache"]),
    }
    width = max(map(len, rows))
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows.items())


def _chosen(name: str | None, rows: dict[str, list[str]]) -> str:
    if name is None:
        return "none, since nothing is compiled"
    there = [row for row, lacking in rows.items() if not lacking]
    lacking = [f"{row}, which needs {' and '.join(names)}" for row, names in rows.items() if names]
    text = f"{name}, the best of those that this processor reports: {', '.join(there)}"
    return text + (f"; not {'; nor '.join(lacking)}" if lacking else "")


def _opencl_text(why: str | None, devices: list[dict[str, Any]]) -> str:
    if why is not None:
        return f"none: {why}"
    found = [
        f"{one['device']} {one['name']} ({one['platform']}, {one['driver']}), "
        + (f"refused: {one['refused']}" if one["refused"] else "tested when it is opened")
        for one in devices
    ]
    return "; ".join(found)


def _tuned(file: str | None, why: str, thresholds: dict[str, int]) -> str:
    if file is None:
        return f"the usual thresholds: {why}"
    return f"{len(thresholds)} thresholds measured on this machine, in {file}"


def _cached(folder: str | None, why: str | None = None, files: int = 0, megabytes: float = 0, most: float = 0) -> str:
    if why is not None:
        return f"{folder}, not used: {why}" if folder else f"none: {why}"
    return f"{folder}, {megabytes:.1f} MB in {files} files, at most {most:.0f} MB"
