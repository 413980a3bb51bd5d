"""The instruction sets that code is emitted for, as one table, and which of them this processor reports."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Target:
    """A row: the features that its code may use, all of them required, and the bytes of a vector register."""

    architecture: str
    name: str
    features: tuple[str, ...]
    vector_bytes: int


_AVX2 = ("sse2", "ssse3", "sse4.1", "avx", "avx2", "fma", "bmi", "bmi2", "popcnt")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd")
X86 = (
    Target("x86", "generic", ("sse2",), 16),
    Target("x86", "avx2", _AVX2, 32),
    Target("x86", "avx512bw", _AVX512, 64),
    Target("x86", "avx512_vnni", (*_AVX512, "avx512vnni"), 64),
)
ARM = (Target("aarch64", "generic", (), 16),)
OTHER = (Target("other", "generic", (), 16),)


@cache
def targets() -> tuple[Target, ...]:
    """The rows whose required features this processor and its operating system report, the widest last."""
    from anydml.kernels.cpu.jit.compile import host_features

    machine = platform.machine().lower()
    rows = X86 if machine in ("x86_64", "amd64") else ARM if machine in ("aarch64", "arm64") else OTHER
    features = host_features()
    return tuple(row for row in rows if all(features.get(name, False) for name in row.features))


def named(name: str | None) -> Target | None:
    """The row of a name, or the widest one; None where this processor lacks it."""
    available = targets()
    if name is None:
        return available[-1] if available else None
    return next((row for row in available if row.name == name), None)
