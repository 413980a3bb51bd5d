"""CHANGELOG.md names the version of semantics with the digest of all stored digests, so that no result changes silently."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

import anydml as dml
from digest_cases import STORED

CHANGES = Path(__file__).parents[2] / "CHANGELOG.md"
LINE = re.compile(r"^- Semantics (\d+), digest `([0-9a-f]{16})`: \S", re.MULTILINE)


def digest_of(stored: dict[str, list[str]]) -> str:
    """The digest of the calls, their inputs and their results, in the order of their names."""
    return hashlib.blake2b(json.dumps(sorted(stored.items())).encode(), digest_size=8).hexdigest()


def assert_named(stored: dict[str, list[str]], changes: str) -> None:
    """Assert that the newest line of CHANGELOG.md has this version and the digest of the stored results."""
    named, wanted = LINE.findall(changes), [str(dml.SEMANTICS_VERSION), digest_of(stored)]
    assert [list(line) for line in named[:1]] == [wanted], (
        f"the results have the digest {wanted[1]}, which the first such line of CHANGELOG.md must name. Where a call that was "
        "in tests/support/digests.json has another result now, raise anydml.SEMANTICS_VERSION, too. Then write above the "
        f"other lines: - Semantics {wanted[0]}, digest `{wanted[1]}`: what changed, and for whom."
    )
    assert len(set(named)) == len(named)
    versions = [int(version) for version, _ in named]
    assert versions == sorted(versions, reverse=True), "the newest comes first"


def test_the_changelog_names_the_digest_of_all_results() -> None:
    assert_named(json.loads(STORED.read_text()), CHANGES.read_text(encoding="utf-8"))


def test_a_changed_result_needs_a_line_in_the_changelog() -> None:
    stored, changes = json.loads(STORED.read_text()), CHANGES.read_text(encoding="utf-8")
    name, (asked, result) = next(iter(stored.items()))
    other = stored | {name: [asked, result[::-1]]}
    with pytest.raises(AssertionError, match=f"digest {digest_of(other)}, which the first such line of CHANGELOG.md must name"):
        assert_named(other, changes)
    line = f"- Semantics {dml.SEMANTICS_VERSION}, digest `{digest_of(other)}`: a fault is corrected.\n"
    assert_named(other, line + changes)
    with pytest.raises(AssertionError):
        assert_named(stored, line + changes)
    with pytest.raises(AssertionError):
        assert_named(stored, changes.replace(f"Semantics {dml.SEMANTICS_VERSION},", "Semantics 99,"))
