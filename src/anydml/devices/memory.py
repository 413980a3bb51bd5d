"""The size of physical memory: what takes more is refused before anything is allocated."""

import os
from functools import lru_cache


@lru_cache(maxsize=1)
def memory_bytes() -> int:
    """The physical memory. A system may promise more, and kill the process on the first write."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf, and promises no memory that it lacks
        return 2**63 - 1
