"""The size of physical memory. A call that needs more is refused before anything is allocated."""

import os
from functools import lru_cache


@lru_cache(maxsize=1)
def memory_bytes() -> int:
    """The bytes of physical memory. A system may allocate more, and kill the process when it writes there."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf, and allocates no more memory than it has
        return 2**63 - 1
