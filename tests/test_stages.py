"""Elements that begin at a later stage have the bits that they have anyway: digests that are stored, and what is counted."""

from __future__ import annotations

import json

import pytest

import anydml as dml
from anydml.kernels.code import llvm
from digest_cases import STORED, cases, result
from every_kernel import Ran

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
PARTS = 8


@pytest.mark.parametrize("stage", ["second", "exact"])
@pytest.mark.parametrize("part", range(PARTS))
def test_results_are_the_same_from_a_later_stage_on(stage: str, part: int, ran: Ran) -> None:
    stored, device, count = json.loads(STORED.read_text()), dml.Device(threads=1, stage=stage), 0
    for case in cases(part, PARTS):
        assert result(case, device) == stored[case.name][1], f"{case.name} from the {stage} stage on"
        count += 1
    ran(count, 60)
