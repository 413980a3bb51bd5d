"""anydml's operators, graphs and ONNX models on Dask arrays: any chunking, any number of workers, and the same bits.

Each eager function has its like here, `anydml.dask.slice1` for `anydml.slice1`, with the same arguments. It takes Dask arrays
of any chunking, beside NumPy's and numbers, and returns Dask arrays; nothing is computed before they are. The chunks that a
chunk of the result reads follow from the operator's statement, and no others are read. Sums and extremes along axes with
several chunks are computed in parts, and the last step rounds once.

Graphs and models take Dask arrays by their method `map_blocks`.

The extra `dask` installs what it needs: `pip install "anydml[dask]"`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anydml.catalog import FUNCTIONS
from anydml.fork_safety import guard

try:
    import dask.array  # noqa: F401  # what needs it is imported when a function is first asked for
except ImportError as _missing:
    raise ImportError(f'anydml.dask needs Dask ({_missing}): pip install "anydml[dask]"') from None


def __getattr__(name: str) -> Callable[..., Any]:
    """The function of an operator; AttributeError for another name."""
    if name not in FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with guard:
        from anydml.dask.calls import lazy

        globals()[name] = made = lazy(name)
    return made


def __dir__() -> list[str]:
    """The public names."""
    return sorted(FUNCTIONS)
