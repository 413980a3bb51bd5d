"""Results on an OpenCL device are the stored digests: a few cases here, all of them in `make soak-opencl`."""

from __future__ import annotations

import json
import os

import pytest

import anydml as dml
from anydml import UnsupportedError
from anydml.kernels.code import llvm
from digest_cases import STORED, cases, result
from every_kernel import SOAK, Ran

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
EVERY = 200  # a case of so many runs here
# drivers are not tried together in one process: two versions of one of them share symbols
DEVICE = os.environ.get("ANYDML_TESTS_OPENCL", "opencl")


def test_results_are_those_that_are_stored(ran: Ran) -> None:
    try:
        device = dml.Device(DEVICE, feature_level="EXTENDED")
    except UnsupportedError as error:
        pytest.skip(str(error))
    stored, count, every = json.loads(STORED.read_text()), 0, list(cases(0, 1))
    for case in every if SOAK > 1 else every[::EVERY]:
        assert result(case, device) == stored[case.name][1], f"{case.name} on {device}"
        count += 1
    ran(count, len(every) if SOAK > 1 else len(every) // EVERY)
