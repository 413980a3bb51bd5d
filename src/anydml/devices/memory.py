"""The size of physical memory. A call that takes more is refused before anything is allocated."""

import os
from functools import lru_cache


@lru_cache(maxsize=1)
def memory_bytes() -> int:
    """The bytes of physical memory. A system may grant more, and kill the process when it writes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf, and grants no memory that it lacks
        return 2**63 - 1
