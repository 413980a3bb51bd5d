"""Results do not change: digests of every operator and data type, which are equal on two instruction sets.

If a digest of outputs changes, results change for users: a line in CHANGELOG.md says so, and `python
tests/support/digest_cases.py` writes the digests again. If only the calls changed, because of their generator or an operator
file, the digests are written again too.
"""

from __future__ import annotations

import json

import pytest

import anydml as dml
from agreement import SOAK
from anydml.kernels.code import targets
from digest_cases import STORED, cases, result
from every_kernel import Ran

ISAS = [target.name for target in targets.targets()]
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_results_have_the_digests_that_they_had(part: int, ran: Ran) -> None:
    """Instruction sets take turns; in `make soak`, all are tested."""
    stored = json.loads(STORED.read_text())
    devices = [dml.Device(isa=isa, threads=1 + at % 2, feature_level="EXTENDED") for at, isa in enumerate(ISAS)]
    count, least = 0, len(stored) // PARTS // 2
    for at, case in enumerate(cases(part, PARTS)):
        asked, expected = stored.pop(case.name)
        assert case.asked == asked, f"{case.name} is another call than the one whose digest is stored"
        for device in devices if SOAK > 1 else devices[at % len(devices) :][:1]:
            assert result(case, device) == expected, f"{case.name} on {device}"
            count += 1
    ran(count, least)


def test_there_are_digests_of_every_operator() -> None:
    stored = json.loads(STORED.read_text())
    have, want = {name.split()[0] for name in stored}, {operator.spec.name for operator in dml.operators.every()}
    assert have == want, "`python tests/support/digest_cases.py` writes those of a new operator"
