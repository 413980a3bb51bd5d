"""The instruction sets of a processor: each source of the answer is replaced by a stand-in that answers like some machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import anydml as dml
from anydml.kernels.code import detect, llvm, targets

AVX2 = ("sse2", "ssse3", "sse4.1", "avx", "f16c", "avx2", "fma", "bmi", "bmi2", "popcnt")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that sets the machine's answers; cached ones are cleared before and after."""

    def forget() -> None:
        detect.features.cache_clear()
        targets.targets.cache_clear()

    def pretend(triple: str, platform: str = "linux", **sources: Any) -> list[str]:
        monkeypatch.setattr(llvm, "process_triple", lambda: triple)
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr(detect, "_tiles", sources.pop("tiles", lambda: False))
        for name, source in sources.items():
            monkeypatch.setattr(llvm if name == "host_features" else detect, name, source)
        forget()
        return [row.name for row in targets.targets()]

    yield pretend
    monkeypatch.undo()
    forget()


def host(*features: str, without: tuple[str, ...] = ("avx512vnni", "avxvnni")) -> Mapping[str, bool]:
    return {**dict.fromkeys(without, False), **dict.fromkeys(features, True)}


@pytest.mark.parametrize(
    ("features", "rows"),
    [
        ((), []),  # CPUID could not be read
        (("sse2",), ["generic"]),
        (AVX2[:-4], ["generic"]),  # AVX2 without FMA, BMI and POPCNT
        (AVX2, ["generic", "avx2"]),
        ((*AVX2, "avxvnni"), ["generic", "avx2", "avx_vnni"]),
        (AVX512, ["generic", "avx2", "avx512bw"]),
        ((*AVX2, "avx512f", "avx512vnni"), ["generic", "avx2"]),  # without BW, DQ and VL
        ((*AVX512, "avx512vnni"), ["generic", "avx2", "avx512bw", "avx512_vnni"]),
    ],
)
def test_x86_rows_are_those_whose_features_are_all_there(machine: Any, features: tuple[str, ...], rows: list[str]) -> None:
    assert machine("x86_64-unknown-linux-gnu", host_features=lambda: host(*features)) == rows


@pytest.mark.parametrize("granted", [True, False])
def test_tile_registers_are_used_where_the_system_grants_them(machine: Any, granted: bool) -> None:
    features = (*AVX512, "avx512vnni", "amx-tile", "amx-int8")
    rows = machine("x86_64-unknown-linux-gnu", host_features=lambda: host(*features), tiles=lambda: granted)
    assert rows[-1] == ("amx_int8" if granted else "avx512_vnni")
    asked = []

    def refuse(*arguments: int) -> int:
        asked.append(arguments)
        return -1

    assert not detect.tiles_linux(refuse)
    assert asked == [(0x1023, 18)]


@pytest.mark.parametrize(
    ("hwcap", "hwcap2", "rows"),
    [
        (0, 0, ["generic"]),
        (1 << 20, 0, ["generic", "dotprod"]),
        (1 << 20, 1 << 13, ["generic", "dotprod", "i8mm"]),
        (0, 1 << 13, ["generic"]),
        (~(1 << 20), ~(1 << 13), ["generic"]),
    ],
)
def test_arm_rows_on_linux_are_those_of_the_auxiliary_vector(machine: Any, hwcap: int, hwcap2: int, rows: list[str]) -> None:
    assert machine("aarch64-unknown-linux-gnu", _auxval={16: hwcap, 26: hwcap2}.__getitem__) == rows


@pytest.mark.parametrize(
    ("known", "rows"),
    [
        ({}, ["generic"]),
        ({"hw.optional.arm.FEAT_DotProd": 1}, ["generic", "dotprod"]),
        ({"hw.optional.arm.FEAT_DotProd": 1, "hw.optional.arm.FEAT_I8MM": 1}, ["generic", "dotprod", "i8mm"]),
    ],
)
def test_arm_rows_on_macos_are_those_that_sysctl_names(machine: Any, known: dict[str, int], rows: list[str]) -> None:
    assert machine("arm64-apple-darwin23.1.0", "darwin", sysctl=lambda name: known.get(name, 0)) == rows


@pytest.mark.parametrize(
    ("known", "rows"),
    [(set(), ["generic"]), ({43}, ["generic", "dotprod"]), ({43, 66}, ["generic", "dotprod", "i8mm"])],
)
def test_arm_rows_on_windows_are_those_it_says_are_present(machine: Any, known: set[int], rows: list[str]) -> None:
    assert machine("aarch64-pc-windows-msvc", "win32", _present=lambda number: int(number in known)) == rows


def test_where_nothing_can_be_learned_generic_code_runs(machine: Any) -> None:
    def missing(_: Any) -> int:
        raise AttributeError("getauxval")

    assert machine("aarch64-unknown-linux-gnu", _auxval=missing) == ["generic"]
    assert machine("aarch64-unknown-freebsd", "freebsd14") == ["generic"]
    assert machine("s390x-unknown-linux-gnu") == ["generic"]


def test_where_code_would_be_wrong_or_call_a_library_nothing_is_compiled(machine: Any) -> None:
    assert machine("i686-pc-windows-msvc", "win32") == []  # floating-point operations have more precision than their type
    assert machine("riscv64-unknown-linux-gnu") == []  # multiplication is an extension


@pytest.mark.skipif(llvm.unavailable() is not None, reason="nothing can be compiled here")
def test_a_device_offers_the_rows_of_this_machine() -> None:
    available = [row.name for row in targets.targets()]
    assert available[0] == "generic"
    for isa in available:
        assert dml.Device(isa=isa).machine.isa == isa
    foreign = "avx2" if targets.targets()[0].architecture == "aarch64" else "i8mm"
    with pytest.raises(dml.UnsupportedError, match=f"has no '{foreign}'"):
        dml.Device(isa=foreign)


@pytest.mark.skipif(sys.platform != "linux", reason="the auxiliary vector is Linux's")
def test_the_auxiliary_vector_can_be_read() -> None:
    assert detect._auxval(6) in (4096, 16384, 65536)  # AT_PAGESZ
