"""Faults that no test can find, since nothing that the project promises changes, with the reason."""

from __future__ import annotations

# the name of a mutant, and why results and messages stay as they are
EQUIVALENT: dict[str, str] = {}
