"""Operators on Dask arrays of random chunks have the bits of the whole."""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np
import pytest

import anydml as dml
from dask_cases import CASES, Case, random_chunks

da = pytest.importorskip("dask.array")
import dask  # noqa: E402  # the module is skipped without it

import anydml.dask as lazily  # noqa: E402  # it needs dask

SOAK = int(os.environ.get("ANYDML_SOAK", "0"))
CHUNKINGS = 500 if SOAK else 2
AT_A_TIME = 25  # chunkings of one call


def chunked(rng: np.random.Generator, x: Any) -> Any:
    return da.from_array(x, chunks=random_chunks(rng, x.shape)) if isinstance(x, np.ndarray) else x


def compare(case: Case, made: Any, whole: Any, context: str) -> None:
    several = made if isinstance(made, tuple) else (made,)
    for got, lazy, wanted in zip(dask.compute(*several), several, whole if isinstance(whole, tuple) else (whole,), strict=True):
        assert (lazy.shape, lazy.dtype) == (wanted.shape, wanted.dtype) == (got.shape, got.dtype), context
        assert got.tobytes() == wanted.tobytes(), f"{context}: {case.arguments}"


@pytest.mark.parametrize("name", CASES)
def test_random_chunks_have_the_bits_of_the_whole(name: str, record_property: Any) -> None:
    rng = np.random.default_rng([zlib.crc32(name.encode())])
    count = 0
    while count < CHUNKINGS:
        case = CASES[name](rng)
        whole = getattr(dml, case.function)(*case.arrays, **case.arguments)
        for _ in range(min(AT_A_TIME, CHUNKINGS // 2)):
            arrays = [chunked(rng, x) for x in case.arrays]
            made = getattr(lazily, case.function)(*arrays, **case.arguments)
            with dask.config.set(scheduler="threads" if count % 2 else "synchronous"):
                compare(case, made, whole, f"{name} {[x.chunks for x in arrays]}")
            count += 1
    record_property("chunkings", count)
    print(f"{name}: {count} chunkings")
    assert count >= CHUNKINGS
