"""`python -m anydml.pydirectml script.py arguments` runs a script that imports `pydirectml`, without changes."""

from __future__ import annotations

import os
import runpy
import sys

import anydml.pydirectml

USAGE = "usage: python -m anydml.pydirectml script.py [arguments]"


def main() -> None:
    """Run the script that the first argument names, with `sys.argv` and `sys.path` as under `python script.py`."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(USAGE)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    script = sys.argv[1]
    if not os.path.isfile(script):
        sys.exit(f"there is no file {script}")
    sys.modules["pydirectml"] = anydml.pydirectml
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
