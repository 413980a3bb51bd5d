"""The proofs of `make prove`: they continue after an interruption, count their work, and find wrong results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anydml.kernels.code.targets import targets
from anydml.kernels.numbers.functions import paired, wide
from every_kernel import Ran

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import prove
import prove_halves

pytestmark = pytest.mark.skipif(not targets(), reason="no code is emitted for this processor")


def test_an_interrupted_proof_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    monkeypatch.setattr(prove, "SAVED", -1)  # after every part
    seen: list[int] = []
    saved: list[str] = []

    def part(at: int) -> dict[str, Any]:
        if at == 4 and seen.count(4) == 0:
            seen.append(at)
            raise KeyboardInterrupt
        seen.append(at)
        return {"inputs": 10, "wrong": at % 2, "examples": [str(at)] if at % 2 else []}

    proof, done = prove.Proof("f", "float64", 7, part), dict[str, Any]()
    with pytest.raises(KeyboardInterrupt):
        prove.run(proof, done, lambda: saved.append(json.dumps(done)), 1)
    done = json.loads(saved[-1])
    assert (done["next"], done["inputs"]) == (4, 40)
    prove.run(proof, done, lambda: None, 1)
    assert seen == [0, 1, 2, 3, 4, 4, 5, 6]
    assert prove.told(proof, done).startswith("f in float64: 70 inputs, 3 wrong (1, 3, 5); ")
    prove.run(proof, done, lambda: None, 1)
    ran(len(seen), 8)
    assert done["inputs"] == 70


def test_every_function_has_a_proof() -> None:
    kinds: dict[str, set[str]] = {}
    for target in targets():
        for proof in prove.proofs(target):
            kinds.setdefault(proof.kind, set()).add(proof.name)
    assert kinds["float64"] == wide.UNARY.keys()
    in_pairs = {*paired.FUNCTIONS, "swish"}
    assert kinds.get("pairs of float32", in_pairs) == in_pairs
    assert kinds["pairs of FLOAT16"] == {"add", "multiply", "divide", "max"}


def test_a_name_that_nothing_is_known_of_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["prove", "exp", "expp"])
    with pytest.raises(SystemExit):
        prove.main()
    assert "there are no proofs of expp; there are exp, " in capsys.readouterr().err


@pytest.mark.parametrize("name", prove_halves.EXPECTED)
def test_pairs_of_float16(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few elements with every other one; and another operator's results are found to be wrong."""
    monkeypatch.setattr(prove_halves, "PARTS", prove_halves.COUNT // prove_halves.ROWS)
    isa = targets()[-1].name
    for at in (0, 490, 991):  # subnormal numbers, the largest and infinity, negative ones
        assert prove_halves.part(name, isa, at) == {"pairs": 64 << 16, "wrong": 0, "examples": []}
    monkeypatch.setitem(prove_halves.EXPECTED, name, np.subtract)
    found = prove_halves.part(name, isa, 490)
    assert found["wrong"] > 1000
    assert len(found["examples"]) == 1
