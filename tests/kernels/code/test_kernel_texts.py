"""`tools/kernel_texts.py`, which compares the texts of kernels between versions: its lines depend on the texts only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anydml.kernels.code import llvm

TOOL = Path(__file__).parents[3] / "tools" / "kernel_texts.py"
PART = "3/128"


@pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
def test_texts_are_the_same_in_every_process(tmp_path: Path) -> None:
    written = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "ANYDML_CACHE": str(tmp_path / "code")}
        command = [sys.executable, str(TOOL), "--part", PART, "--texts", str(tmp_path / seed)]
        written.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert written[0] == written[1]
    lines = [line for line in written[0].splitlines() if not line.startswith("#")]
    assert len(lines) > 4
    digest, length, *_ = lines[0].split()
    assert len((tmp_path / "1" / f"{digest}.ll").read_text()) == int(length)
