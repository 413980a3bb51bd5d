"""ANYDML_VERBOSE: one JSON object a line, on standard error, for each compile and execute."""

from __future__ import annotations

import os
import sys
from typing import Any

from anydml.fork_safety import guard


def level() -> int:
    """0: silent. 1: compile and execute. 2 (`dispatch`): also the kernels that refused, and why, and steps on OpenCL."""
    value = os.environ.get("ANYDML_VERBOSE", "")
    return 0 if value in ("", "0") else 2 if value == "dispatch" else 1


def write(event: str, **members: Any) -> None:
    with guard:  # for the import, and for the stream's own lock
        import json  # takes 7 ms, and only these lines need it

        print(json.dumps({"anydml": event, **members}), file=sys.stderr, flush=True)
