"""Writes the records of how wide the claims of kernels are: `python tests/support/bound_extents.py [names of test files]`."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import bound_cases

FILES = (
    "attention/test_attention_bounds",
    "contract/floats/test_product_bounds",
    "elementwise/test_map_bounds",
    "recurrence/test_recurrence_elements",
    "reduce/test_reduce_bounds",
    "scan/test_scan_bounds",
    "windows/test_window_bounds",
)


def main() -> None:
    found = bound_cases.extents() if bound_cases.EXTENTS.exists() else {}
    for file in FILES:
        if not sys.argv[1:] or file.split("/")[-1] in sys.argv[1:]:
            for folder in ("", *file.split("/")[:-1]):  # tests of one folder share code with others
                sys.path.insert(0, str(bound_cases.EXTENTS.parent.parent / "kernels" / file.split("/")[0] / folder))
            found |= of_module(importlib.import_module(file.split("/")[-1]))
    lines = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(found.items())]
    bound_cases.EXTENTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def of_module(module: Any) -> dict[str, dict[str, list[float]]]:
    """The extents of all cases of a file."""
    found: dict[str, dict[str, list[float]]] = {}
    of_attention = getattr(module, "extent", bound_cases.extent) is not bound_cases.extent
    for name, case in {**module.CASES, **getattr(module, "FORMS", {})}.items():
        for stage in module.STAGES if of_attention else case.stages:
            for isa in bound_cases.WIDTHS:
                extent = module.extent(name, stage, isa) if of_attention else bound_cases.extent(case, stage, isa)
                kernel = module.KERNEL if of_attention else case.kernel
                found.setdefault(f"{kernel} {name}", {})[f"{stage} {isa}"] = list(extent)
    return found


if __name__ == "__main__":
    main()
