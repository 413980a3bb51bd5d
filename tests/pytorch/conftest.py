"""The tests of anydml.torch, which `make test-torch` runs in an environment with torch; without torch there are none."""

from importlib.util import find_spec
from pathlib import Path

there = find_spec("torch")
if there is None or there.origin is None:  # a folder of this name is no torch
    collect_ignore = [path.name for path in Path(__file__).parent.glob("test_*.py")]
