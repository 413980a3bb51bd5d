"""Faults that no test can find, since nothing that the project promises changes: `equivalents.txt`.

It has the name of each, the lines of the source that it changes, and the reason. When these lines change, the reason has to be
given anew: `tests/test_mutants.py` fails, and the fault is tried like others. `make mutants MUTANTS=--equivalent` tries
them all, and none may be caught.
"""

from __future__ import annotations

from pathlib import Path

from mutants.mutant import Mutant

TABLE = Path(__file__).with_suffix(".txt")


def equivalents() -> dict[str, tuple[str, str]]:
    """The lines that a fault changes, and the reason, by the names of faults."""
    lines = TABLE.read_text().splitlines()
    return {name: (text.strip(), reason.strip()) for name, text, reason in zip(*[iter(lines)] * 3, strict=True)}


EQUIVALENT = equivalents()


def is_equivalent(mutant: Mutant) -> bool:
    """Whether no test can find a fault in today's source."""
    return mutant.name in EQUIVALENT and EQUIVALENT[mutant.name][0] == mutant.text
