"""Other thresholds for a test: replaces the whole object of a family's thresholds."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


def tuned(patch: pytest.MonkeyPatch, module: ModuleType, **fields: Any) -> None:
    """Change some fields of a module's `TUNING`."""
    patch.setattr(module, "TUNING", module.TUNING._replace(**fields))
