"""Results on an OpenCL device are the stored digests: a few cases here, all of them in `make soak-opencl`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import anydml as dml
from anydml import UnsupportedError
from anydml.kernels.code import llvm
from digest_cases import STORED, cases, result
from every_kernel import SOAK, Ran

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
EVERY = 25  # an operator of so many is tried here, since to draw the cases of all takes 9 s
# drivers are not tried together in one process: two versions of one of them share symbols
DEVICE = os.environ.get("ANYDML_TESTS_OPENCL", "opencl")


def test_results_are_those_that_are_stored(ran: Ran) -> None:
    try:
        device = dml.Device(DEVICE, feature_level="EXTENDED")
    except UnsupportedError as error:
        pytest.skip(str(error))
    stored, count = json.loads(STORED.read_text()), 0
    for case in cases(0, 1) if SOAK > 1 else [*cases(0, EVERY)][::5]:
        assert result(case, device) == stored[case.name][1], f"{case.name} on {device}"
        count += 1
    ran(count, 1200 if SOAK > 1 else 8)


@pytest.mark.skipif(SOAK == 1, reason="it takes an hour")
def test_everything_is_as_on_the_cpu_device(capsys: pytest.CaptureFixture[str]) -> None:
    """On every device that there is; the counts are printed."""
    options = ["all", "--seconds", "36000", "--cases", "24", "--elements", "200000", "--parts", "1"]
    root = Path(__file__).parents[2]
    with capsys.disabled():
        subprocess.run([sys.executable, "-m", "tools.opencl_check", *options], cwd=root, check=True)
