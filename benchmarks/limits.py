"""The limits of this machine, measured together with the figures that are compared with them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.steps import At, Sheet, prepared, table
from anydml.kernels.code import detect, engine, llvm
from anydml.kernels.code.emit import Text, module
from anydml.kernels.code.targets import X86, Target, named, targets
from anydml.kernels.copy import copies as kernels
from anydml.kernels.copy import emit as copy_emit
from anydml.kernels.copy import plain
from anydml.kernels.copy.text import Prefetch


def aligned(nbytes: int) -> NDArray[np.uint8]:
    """Page-aligned memory that has been written to."""
    memory = np.ones(nbytes + 4096, np.uint8)
    start = -memory.ctypes.data % 4096
    return memory[start : start + nbytes]


def copies(nbytes: int, threads: int = 1) -> dict[str, Callable[[], object]]:
    """Contiguous copies of `nbytes` bytes, to be timed: NumPy's, and ours of every kind."""
    source, target = aligned(nbytes), aligned(nbytes)
    calls: dict[str, Callable[[], object]] = {}
    if threads == 1:
        calls["limit: numpy"] = partial(np.copyto, target, source)
    best = named(None)
    assert best is not None
    step = -(-nbytes // threads // 64) * 64
    starts = range(0, nbytes, step)
    triples = [1, 0, 0] * copy_emit.DIMENSIONS
    for stream, ahead in ((False, None), (False, Prefetch(1, 4096, 8192)), (True, Prefetch(1, 6144, 8192))):
        code = engine.compiled(plain.contiguous, best, stream, False, ahead)
        blocks = [
            (source.ctypes.data + at, target.ctypes.data + at, min(step, nbytes - at), 1, 1, *triples, 0, 0) for at in starts
        ]
        arguments = np.array(blocks, np.int64)
        call = prepared([table(code, arguments)], best, (source, target))
        calls[f"limit: {'streaming' if stream else 'prefetched' if ahead else 'plain'}"] = call
    return calls


def runs(view: NDArray[Any]) -> tuple[dict[str, Callable[[], object]], int]:
    """Copies with the same contiguous runs of input, to be timed, and the bytes of input; none if the input is a single run.

    A run may contain gaps of less than a cache line. All ways of prefetching are timed.
    """
    target = named(None)
    assert target is not None
    extent, inner = view.itemsize, set[int]()
    for i in sorted(range(view.ndim), key=lambda i: abs(view.strides[i])):
        if abs(view.strides[i]) - extent >= 64:
            break
        inner.add(i)
        extent += (view.shape[i] - 1) * abs(view.strides[i])
    outer = [i for i in range(view.ndim) if i not in inner]
    if not outer:
        return {}, extent
    sizes, strides = [*(view.shape[i] for i in outer), extent], [*(view.strides[i] for i in outer), 1]
    packed = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    into = aligned(math.prod(sizes))
    start = view.ctypes.data + sum((view.shape[i] - 1) * min(0, view.strides[i]) for i in inner)
    calls: dict[str, Callable[[], object]] = {}
    for name, ahead in AHEAD.items():
        with patch.object(kernels, "_ahead", lambda *_, ahead=ahead: ahead):
            made = kernels.copy(target, sizes, strides, packed, 1, stream=True)
        scratch = np.zeros(made.scratch, np.uint8)
        sheet = Sheet([[made.steps(At("source"), At("target"), At("scratch"))]])
        where = {"source": start, "target": into.ctypes.data, "scratch": scratch.ctypes.data}
        phases, _ = sheet.bind([where[base] for base in sheet.bases])
        calls[f"runs: {name}"] = prepared(phases, target, (view, into, scratch))
    return calls, math.prod(sizes)


AHEAD = {
    "nothing": None,
    "near": Prefetch(1, 6144, 8192),
    "second, 3 KB": Prefetch(2, 3072, 16384),
    "second, 6 KB": Prefetch(2, 6144, 16384),
}


# --- dot products ---


class Dot(NamedTuple):
    """An instruction set's dot product of bytes: its types, its intrinsic, and the number that run at the same time."""

    intrinsic: str
    mnemonic: str
    widened: bool
    """the bytes have been widened to words, and another instruction adds the products of a pair"""
    bits: int
    accumulators: int
    features: tuple[str, ...] = ()


_AVX2 = ("sse2", "ssse3", "sse4.1", "avx", "avx2", "fma", "bmi", "bmi2", "popcnt")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512vl", "avx512dq")
# Accumulators: two dot products per cycle with a latency of 5 cycles need ten; registers have space for 13 or 29.
DOTS = {
    "generic": Dot("sse2.pmadd.wd", "pmaddwd", True, 128, 13),
    "avx2": Dot("avx2.pmadd.wd", "vpmaddwd", True, 256, 13),
    "avx512bw": Dot("avx512.pmaddw.d.512", "vpmaddwd", True, 512, 28, _AVX512),
    "avx_vnni": Dot("avx512.vpdpbusd.256", "vpdpbusd", False, 256, 13, (*_AVX2, "avxvnni")),
    "avx512_vnni": Dot("avx512.vpdpbusd.512", "vpdpbusd", False, 512, 28, (*_AVX512, "avx512vnni")),
    # tile registers of 16 rows of 64 bytes, as many as of 256 registers
    "amx_int8": Dot("tdpbusd", "tdpbusd", False, 16 * 16 * 512, 4, (*_AVX512, "avx512vnni", "amx-tile", "amx-int8")),
}
TURNS = 4096


def instruction_sets() -> list[str]:
    """The processor's instruction sets whose limit is known, the best last. Kernels may not be compiled for all of them."""
    if llvm.unavailable() or not targets() or targets()[0].architecture != "x86":
        return []
    _, has = detect.features()
    return [name for name in DOTS if has.issuperset(target_of(name).features)]


def target_of(name: str) -> Target:
    """The target that kernels are compiled for; if there is none, one with the features that the limit needs."""
    dot = DOTS[name]
    return next((row for row in X86 if row.name == name), Target("x86", name, dot.features, dot.bits // 8))


def dot_loop(_: Target, name: str) -> str:
    """A loop of dot products of registers only, `TURNS` for each accumulator."""
    dot = DOTS[name]
    if dot.bits > 512:
        return _tile_loop(dot)
    count = dot.bits // 32
    sums, words, octets = f"<{count} x i32>", f"<{2 * count} x i16>", f"<{4 * count} x i8>"
    text = Text()
    # the operands are unknown to LLVM, so that it computes nothing before the loop
    right = text.load(words if dot.widened else octets, "%args")
    left = text.load(octets, "%args", 64)
    first = [text.load(sums, "%args", 128 + 64 * i) for i in range(dot.accumulators)]
    text.jump("loop")
    text.label("loop")
    text.do("%i = phi i64 [ 0, %entry ], [ %more, %loop ]")
    for i, value in enumerate(first):
        text.do(f"%sum{i} = phi {sums} [ {value}, %entry ], [ %next{i}, %loop ]")
    for i in range(dot.accumulators):
        if dot.widened:  # the sum is an operand: a constant product would be computed before the loop
            operands = f"{words} {text.op(f'bitcast {sums} %sum{i} to {words}')}, {words} {right}"
            product = text.op(f"call {sums} @llvm.x86.{dot.intrinsic}({operands})")
            text.do(f"%next{i} = add {sums} %sum{i}, {product}")
        else:
            operands = f"{sums} %sum{i}, {octets} {left}, {octets} {right}"
            text.do(f"%next{i} = call {sums} @llvm.x86.{dot.intrinsic}({operands})")
    text.do("%more = add i64 %i, 1")
    text.branch(text.op(f"icmp ult i64 %more, {TURNS}"), "loop", "end")
    text.label("end")
    for i in range(dot.accumulators):
        text.store(sums, f"%next{i}", "%args", 128 + 64 * i)
    text.do("ret i64 0")
    kinds = f"{words}, {words}" if dot.widened else f"{sums}, {octets}, {octets}"
    declaration = f"declare {sums} @llvm.x86.{dot.intrinsic}({kinds})"
    return module([declaration, "define i64 @kernel(ptr %args) {", "entry:", *text.lines, "}"])


def _tile_loop(dot: Dot) -> str:
    """The loop of products of tile registers: as a kernel does, two of A by two of B."""
    text = Text()
    text.store("<64 x i8>", "zeroinitializer", "%args")
    text.do("store i8 1, ptr %args")  # the palette of eight registers
    for register in range(8):
        text.store("i16", "64", "%args", 16 + 2 * register)
        text.store("i8", "16", "%args", 48 + register)
    text.do("call void @llvm.x86.ldtilecfg(ptr %args)")
    for register in range(8):
        text.do(f"call void @llvm.x86.tileloadd64(i8 {register}, ptr {text.at('%args', 128)}, i64 64)")
    text.jump("loop")
    text.label("loop")
    text.do("%i = phi i64 [ 0, %entry ], [ %more, %loop ]")
    for i in range(dot.accumulators):
        text.do(f"call void @llvm.x86.{dot.intrinsic}(i8 {i}, i8 {4 + i // 2}, i8 {6 + i % 2})")
    text.do("%more = add i64 %i, 1")
    text.branch(text.op(f"icmp ult i64 %more, {TURNS}"), "loop", "end")
    text.label("end")
    text.do("call void @llvm.x86.tilerelease()")
    text.do("ret i64 0")
    kinds = {"ldtilecfg": "ptr", "tilerelease": "", "tileloadd64": "i8, ptr, i64", dot.intrinsic: "i8, i8, i8"}
    declarations = [f"declare void @llvm.x86.{of}({by})" for of, by in kinds.items()]
    return module([*declarations, "define i64 @kernel(ptr %args) {", "entry:", *text.lines, "}"])


def dots(name: str) -> tuple[Callable[[], object], int]:
    """The bare loop of an instruction set's dot product, to be timed, and the number of multiply-accumulates of a call."""
    dot, target = DOTS[name], target_of(name)
    _inspect(engine.assembly(dot_loop(target, name), target), dot)
    memory = aligned(4096)
    # the power consumption depends on them, and so does the clock
    memory[:] = np.random.default_rng(0).integers(0, 256, memory.size)
    arguments = memory.view(np.int64).reshape(1, -1)
    call = prepared([table(engine.compiled(dot_loop, target, name), arguments)], target, (memory,))
    return call, TURNS * dot.accumulators * dot.bits // (16 if dot.widened else 8)


def _inspect(assembly: str, dot: Dot) -> None:
    """Check that the loop consists of the dot products that are counted, without loads or spills."""
    body = re.search(r"^(\.L\w+):\n((?:(?!\.L).*\n)*?)\s+j\w+\s+\1\n", assembly, re.MULTILINE)
    assert body, assembly
    lines = [line.strip().removeprefix("{vex}").split(None, 1) for line in body[2].splitlines()]
    found = Counter(line[0] for line in lines)
    expected = Counter({dot.mnemonic: dot.accumulators, "incq": 1, "cmpq": 1})
    if dot.widened:
        expected["vpaddd" if dot.mnemonic.startswith("v") else "paddd"] = dot.accumulators
    if dot.bits == 128:  # SSE overwrites an operand, so that each product needs a copy of one, as in any kernel
        expected["movdqa"] = dot.accumulators
    assert found == expected, f"{found} where {expected} is counted"
    assert not any("(" in line[1] for line in lines), "the loop reads memory"


# --- multiply-adds of float64 ---

CHAINS = 24  # two per cycle with a latency of 4 or 5 cycles need ten; registers have space for more


def multiply_add_loop(target: Target) -> str:
    """A loop of fused multiply-adds of float64 registers only, `TURNS` for each sum."""
    kind = f"<{target.vector_bytes // 8} x double>"
    text = Text()
    x, y = text.load(kind, "%args"), text.load(kind, "%args", 64)
    count = chains(target)
    first = [text.load(kind, "%args", 128 + 64 * i) for i in range(count)]
    text.jump("loop")
    text.label("loop")
    text.do("%i = phi i64 [ 0, %entry ], [ %more, %loop ]")
    for i, value in enumerate(first):
        text.do(f"%sum{i} = phi {kind} [ {value}, %entry ], [ %next{i}, %loop ]")
    name = f"llvm.fma.v{target.vector_bytes // 8}f64"
    for i in range(count):
        text.do(f"%next{i} = call {kind} @{name}({kind} {x}, {kind} {y}, {kind} %sum{i})")
    text.do("%more = add i64 %i, 1")
    text.branch(text.op(f"icmp ult i64 %more, {TURNS}"), "loop", "end")
    text.label("end")
    for i in range(count):
        text.store(kind, f"%next{i}", "%args", 128 + 64 * i)
    text.do("ret i64 0")
    declaration = f"declare {kind} @{name}({kind}, {kind}, {kind})"
    return module([declaration, "define i64 @kernel(ptr %args) {", "entry:", *text.lines, "}"])


def chains(target: Target) -> int:
    """The number of sums that are computed at the same time: with both factors, they fit into the registers."""
    return CHAINS if target.vector_bytes == 64 or target.architecture == "aarch64" else 12


def multiply_adds() -> tuple[Callable[[], object], int] | None:
    """The bare loop of the widest multiply-add of float64, to be timed, and the number of them in a call; None without one."""
    target = named(None)
    if target is None or (target.architecture == "x86" and "fma" not in target.features):
        return None
    memory = aligned(4096)
    words = memory.view(np.float64)
    # the power consumption depends on them, and so does the clock
    words[:] = np.random.default_rng(0).standard_normal(words.size)
    arguments = memory.view(np.int64).reshape(1, -1)
    call = prepared([table(engine.compiled(multiply_add_loop, target), arguments)], target, (memory,))
    return call, TURNS * chains(target) * target.vector_bytes // 8


# --- reading ---

UNROLL = 8


def read_loop(target: Target, streams: int, ahead: int) -> str:
    """Loads of all bytes of a block that is cut into `streams` parts, read side by side, with prefetches `ahead`."""
    width = target.vector_bytes
    kind, each = f"<{width // 4} x i32>", UNROLL // streams * width
    text = Text()
    start, turns, part = text.load("ptr", "%args"), text.load("i64", "%args", 8), text.load("i64", "%args", 16)
    starts = [text.at(start, text.op(f"mul i64 {part}, {i}")) for i in range(streams)]
    text.jump("loop")
    text.label("loop")
    text.do("%i = phi i64 [ 0, %entry ], [ %more, %loop ]")
    for i in range(UNROLL):
        text.do(f"%sum{i} = phi {kind} [ zeroinitializer, %entry ], [ %next{i}, %loop ]")
    at = text.op(f"mul i64 %i, {each}")
    for stream, begin in enumerate(starts):
        here = text.at(begin, at)
        for line in range(0, each if ahead else 0, 64):
            text.do(f"call void @llvm.prefetch.p0(ptr {text.at(here, ahead + line)}, i32 0, i32 3, i32 1)")
        for i in range(UNROLL // streams):
            place = stream * (UNROLL // streams) + i
            text.do(f"%next{place} = xor {kind} %sum{place}, {text.load(kind, here, i * width)}")
    text.do("%more = add i64 %i, 1")
    text.branch(text.op(f"icmp ult i64 %more, {turns}"), "loop", "end")
    text.label("end")
    for i in range(UNROLL):  # results that are not stored would not be computed
        text.store(kind, f"%next{i}", "%args", 64 + 64 * i)
    text.do("ret i64 0")
    declaration = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    return module([declaration, "define i64 @kernel(ptr %args) {", "entry:", *text.lines, "}"])


def reads(nbytes: int, name: str) -> dict[str, Callable[[], object]]:
    """Loads of `nbytes` bytes, a multiple of 4096, to be timed: plain, in several streams, with prefetches."""
    target, source = target_of(name), aligned(nbytes)
    assert nbytes % (UNROLL * target.vector_bytes) == 0
    calls: dict[str, Callable[[], object]] = {}
    for streams in (1, 2, 4):
        for ahead in (0, 1024, 4096):
            arguments = np.zeros((1, 128), np.int64)
            turns = nbytes // (UNROLL * target.vector_bytes)
            arguments[0, :3] = source.ctypes.data, turns, nbytes // streams
            call = prepared([table(engine.compiled(read_loop, target, streams, ahead), arguments)], target, (source,))
            calls[f"read: {streams} streams, {ahead} ahead"] = call
    return calls
