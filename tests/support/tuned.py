"""Other thresholds for a test: the object with those of a family, replaced as a whole."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


def tuned(patch: pytest.MonkeyPatch, module: ModuleType, **fields: Any) -> None:
    """Let `TUNING` of a module have other values of some fields."""
    patch.setattr(module, "TUNING", module.TUNING._replace(**fields))
