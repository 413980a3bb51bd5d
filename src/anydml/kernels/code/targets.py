"""The table of instruction sets for which code is emitted, and those that this processor reports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from anydml.kernels.code import detect, llvm

FIRST, SECOND, THIRD, EXACT = STAGES = ("first", "second", "third", "exact")
"""The first stage decides most elements by error bounds, the second most of the others by finer bounds, the third nearly all
that are left in numbers of 250 bits; exact evaluation decides the rest."""
# Of probes alone: a first stage's narrower bounds, and a second stage's wider ones, where it tries two.
CAREFUL, ROUGH = "careful", "rough"


@dataclass(frozen=True, eq=False)
class Target:
    """A row of the table: the features that its code may use, all of them required, and the bytes of a vector register.

    stage: the stage at which elements begin; FIRST unless another one is asked for. For a probe, "+" and an address follow it.
    """

    architecture: str
    name: str
    features: tuple[str, ...]
    vector_bytes: int
    stage: str = "first"

    @property
    def later(self) -> bool:
        """Whether elements begin at a later stage than the first."""
        return self._stage_and_part[0] not in (FIRST, CAREFUL)

    @property
    def rough(self) -> bool:
        """Whether a probe stores the wider bounds of a second stage."""
        return self._stage_and_part[0] == ROUGH

    @property
    def careful(self) -> bool:
        """Whether a probe stores the narrower bounds of a first stage for all elements."""
        return self._stage_and_part[0] == CAREFUL

    @property
    def exact(self) -> bool:
        """Whether elements begin after all stages of the family's own machine code."""
        return self._stage_and_part[0] in (THIRD, EXACT)

    @property
    def probe(self) -> int | None:
        """The address of the number of the part that a probe stores (see `probe`); None for a kernel that stores elements."""
        number = self._stage_and_part[2]
        return int(number) if number else None

    @property
    def storing(self) -> Target:
        """The target of the kernel that a probe is of, which stores elements."""
        return self if self.probe is None else replace(self, stage=self._stage_and_part[0])

    @property
    def _stage_and_part(self) -> tuple[str, str, str]:
        return self.stage.partition("+")


_AVX2 = ("sse2", "ssse3", "sse4.1", "avx", "f16c", "avx2", "fma", "bmi", "bmi2", "popcnt")
_AVX512BW = (*_AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

X86 = (
    Target("x86", "generic", ("sse2",), 16),
    Target("x86", "avx2", _AVX2, 32),
    Target("x86", "avx_vnni", (*_AVX2, "avxvnni"), 32),
    Target("x86", "avx512bw", _AVX512BW, 64),
    Target("x86", "avx512_vnni", (*_AVX512BW, "avx512vnni"), 64),
    Target("x86", "amx_int8", (*_AVX512BW, "avx512vnni", "amx-tile", "amx-int8"), 64),
)
ARM = (  # NEON is a part of every AArch64
    Target("aarch64", "generic", (), 16),
    Target("aarch64", "dotprod", ("dotprod",), 16),
    Target("aarch64", "i8mm", ("dotprod", "i8mm"), 16),
)
OTHER = (Target("other", "generic", (), 16),)


@cache
def targets() -> tuple[Target, ...]:
    """The rows whose required features this processor and its operating system report, the widest last."""
    architecture, features = detect.features()
    rows: tuple[Target, ...] = {"x86": X86, "aarch64": ARM, "other": OTHER}.get(architecture, ())
    return tuple(row for row in rows if features.issuperset(row.features))


def named(name: str | None) -> Target | None:
    """The row of a name, or the widest one; None if this processor lacks it."""
    available = targets()
    if name is None:
        return available[-1] if available else None
    return next((row for row in available if row.name == name), None)


def wanted(name: str | None, stage: str = FIRST) -> Target | str:
    """The row of a name, or the widest one, for elements that begin at a stage; or the reason why no code can be made."""
    if (reason := llvm.unavailable()) is not None:
        return reason
    if (found := named(name)) is None:
        return f"this processor has no {name or 'known'} instructions"
    return found if stage == FIRST else _beginning_at(found, stage)


@cache
def _beginning_at(target: Target, stage: str) -> Target:
    return replace(target, stage=stage)
