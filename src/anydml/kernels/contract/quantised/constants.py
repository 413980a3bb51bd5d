"""Tables that the steps of a region read, in one array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.steps import At
from anydml.kernels.contract.plan import CONSTANTS


class QuantisedTables:
    """Tables that steps read, in one array, after those of the sums."""

    def __init__(self) -> None:
        self.parts = [CONSTANTS.tobytes()]
        self.size = len(self.parts[0])

    def add(self, table: NDArray[Any]) -> At:
        raw, at = table.tobytes(), At("constants", self.size)
        self.parts.append(raw + bytes(-len(raw) % 64))
        self.size += len(self.parts[-1])
        return at

    def array(self) -> NDArray[np.uint8]:
        return np.frombuffer(bytearray().join(self.parts), np.uint8)
