"""LLVM compiles every kernel to the expected instructions for every target and system, and to none that the target lacks.

Only the assembly is read, so other processors' targets are tested too. Forbidden instructions are listed by hand as patterns of
mnemonics and registers, since LLVM's own list of a target's features has made the assembly.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import cycle, product
from typing import Any

import pytest

from anydml import operators
from anydml.kernels.call import pool_emit, steps
from anydml.kernels.code import detect, engine, llvm
from anydml.kernels.code.targets import ARM, OTHER, X86, Target
from anydml.kernels.contract import tuning as integer_tuning
from anydml.kernels.contract.channels import fours_of_lines as matmul_fours
from anydml.kernels.contract.channels import lines as matmul_lines
from anydml.kernels.contract.channels import taps as matmul_taps
from anydml.kernels.contract.channels import weights as matmul_weights
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue import filters as matmul_terms
from anydml.kernels.contract.epilogue import records as matmul_records
from anydml.kernels.contract.images import image as matmul_image
from anydml.kernels.contract.images import rows as matmul_rows
from anydml.kernels.contract.panels import packing as matmul_pack
from anydml.kernels.contract.panels import thin as matmul_thin
from anydml.kernels.contract.panels import wide as matmul_wide
from anydml.kernels.contract.places import filters as matmul_filters
from anydml.kernels.contract.places import tile as matmul_places
from anydml.kernels.contract.quantised.estimate import estimate as region_estimate
from anydml.kernels.contract.quantised.refine import refine as region_refine
from anydml.kernels.contract.tile import TileKey, multiply
from anydml.kernels.contract.winograd import kernels as matmul_winograd
from anydml.kernels.contract.winograd.plan import HEIGHT
from anydml.kernels.copy import groups as copy_groups
from anydml.kernels.copy import interleaved as copy_interleaved
from anydml.kernels.copy import plain
from anydml.kernels.copy import tiles as copy_tiles
from anydml.kernels.copy.text import Prefetch
from anydml.kernels.irregular import emit as irregular_emit
from anydml.kernels.irregular import reversing as irregular_reversing
from anydml.kernels.match.nests import nests
from anydml.kernels.nests import emit as nests_emit
from anydml.kernels.nests.key import NestKey, narrowed
from anydml.kernels.order import emit as order_emit
from anydml.kernels.order import listing as order_listing
from anydml.kernels.random import emit as random_emit
from anydml.kernels.scan import columns as scan_columns
from anydml.kernels.scan import emit as scan_emit
from anydml.kernels.scan import lines as scan_lines
from anydml.kernels.scan.group import ScanKey
from anydml.schema.operator import example_desc
from anydml.schema.statement import stated
from anydml.tensor import DataType
from every_kernel import DOT_PRODUCTS, SOAK

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

TRIPLES = {
    "x86": ("x86_64-unknown-linux-gnu", "x86_64-apple-macosx", "x86_64-pc-windows-msvc"),
    "aarch64": ("aarch64-unknown-linux-gnu", "arm64-apple-macosx", "aarch64-pc-windows-msvc"),
}
# systems take turns, in `make soak` all are tested; one process tests all of a target's kernels
EVERY = [
    pytest.param(row, triple, id=f"{row.name}-{triple}", marks=pytest.mark.xdist_group(f"{row.architecture}-{row.name}"))
    for k, row in enumerate(X86 + ARM)
    for triple in (TRIPLES[row.architecture] if SOAK > 1 else TRIPLES[row.architecture][k % 3 :][:1])
]
EVERY_ROW = X86 + ARM + OTHER
AHEAD = (None, Prefetch(2, 3072, 16384))  # the ways in which copies prefetch
EACH = 2  # kernels of an emitter that are tested for other processors
PAGE = 4096  # larger frames need a check of every page, on Windows by a function that is not linked

# --- the instructions that a target may have: patterns over "mnemonic operands" ---

SSE3_ON = (
    r"(addsub|hadd|hsub)p[sd]|lddqu|mov(ddup|shdup|sldup)|monitor|mwait"  # SSE3
    r"|p(abs|sign)[bwd]|palignr|ph(add|sub)|pmaddubsw|pmulhrsw|pshufb"  # SSSE3
    r"|blend|dpp[sd]|extractps|insertps|mpsadbw|packusdw|pblend|pcmp(eqq|gtq|estr|istr)|p(ext|ins)r[bdq]|phminpos"
    r"|p(max|min)(sb|sd|uw|ud)|pmov[sz]x|pmul(dq|ld)|ptest|round[ps][sd]|movntdqa|crc32|popcnt"  # SSE4; pextrw, pinsrw: SSE2
)
AVX_ON = r"v[a-z]|\{(vex|evex)\}|.*%[yz]mm|.*%k[0-7]"
AVX_ON += r"|(andn|bextr|bls(i|r|msk)|bzhi|lzcnt|mulx|pdep|pext|rorx|sarx|shlx|shrx|tzcnt)[lq]? "  # BMI and BMI2
AVX512_ON = r".*%zmm|.*%[xy]mm(1[6-9]|2\d|3[01])\b|.*%k[0-7]|.*\{z\}|vp?(ternlog|range|perm[it]2|mov[dq]{2}[au](8|16|32|64))"
BYTES_ON = r"(\{(vex|evex)\}\s*)?vpdp"
TILES_ON = r"t(ile|dp|mul|conj|ldtile)|.*tilecfg|.*%tmm"
FORBIDDEN: dict[tuple[str, str], tuple[str, ...]] = {
    ("x86", "generic"): (SSE3_ON, AVX_ON, TILES_ON),
    ("x86", "avx2"): (AVX512_ON, BYTES_ON, TILES_ON),
    ("x86", "avx_vnni"): (AVX512_ON, r"vpdpw|vpdpb(ss|su|uu)", TILES_ON),
    ("x86", "avx512bw"): (BYTES_ON, TILES_ON),
    ("x86", "avx512_vnni"): (r"\{vex\}", r"vpdpw[su]|vpdpb(ss|su|uu)", TILES_ON),
    ("x86", "amx_int8"): (r"\{vex\}", r"vpdpw[su]|vpdpb(ss|su|uu)", r"tdp(bf16|fp16)|tcmm|tileloaddt1"),
}
# arithmetic of half and bfloat16, of scalable vectors, and other additions after the first AArch64
NEWER_ARM = r"bf(dot|mmla|mlal[bt]|cvt)|f[a-z]+(\.[48]h|\s+v\d+\.[48]h)|sq(rd)?ml[as]h|.*\b[zp]\d+\.[bhsdq]\b"
NEWER_ARM += r"|fcmla|fcadd|(cas|swp|ld(add|clr|eor|set))[alhb]*\s|ldapr|frint(32|64)|smstart|.*\bh\d+\b.*fcvt"
DOTS_ON, MATRICES_ON = r"[su]dot\b", r"(us|su)dot\b|(us|s|u)mmla\b"
FORBIDDEN |= {
    ("aarch64", "generic"): (NEWER_ARM, DOTS_ON, MATRICES_ON),
    ("aarch64", "dotprod"): (NEWER_ARM, MATRICES_ON),
    ("aarch64", "i8mm"): (NEWER_ARM,),
}

# --- the instructions expected in tiles: for A and B of equal signs, and of two signs ---

MEANT: dict[tuple[str, str], tuple[str, ...]] = {
    ("x86", "generic"): (r"pmaddwd\s.*%xmm",),
    ("x86", "avx2"): (r"vpmaddwd\s.*%ymm",),
    ("x86", "avx512bw"): (r"vpmaddwd\s.*%zmm",),
    ("x86", "avx_vnni"): (r"\{vex\}\s+vpdpbusd\s.*%ymm",),
    ("x86", "avx512_vnni"): (r"vpdpbusd\s.*%zmm",),
    ("x86", "amx_int8"): (r"tdpb(us|su)d\s.*%tmm", r"vpdpbusd\s.*%zmm"),
    ("aarch64", "generic"): (r"smlal\s+v\d+\.4s, v\d+\.4h, v\d+\.h\[0\]|smlal\.4s\s+v\d+, v\d+, v\d+\[0\]",),
    ("aarch64", "dotprod"): (r"sdot", r"udot"),
    ("aarch64", "i8mm"): (r"smmla", r"ummla", r"usmmla"),
}


OWN = r"\b_?(rule|list|row|sort|moved|four|two|group\d+)\b"  # functions that kernels define in their own modules


def heights(row: Target) -> list[int]:
    """One row, two, an odd number, and the largest height."""
    return sorted({1, 2, 3, dot_of(row).rows})


@cache
def kernels(row: Target, some: bool) -> dict[str, str]:
    """The text of every kind of kernel. some: only tiles of the smallest and the largest height; of other kernels with more
    than two variants, every second one; targets that differ only in dot products share the kernels without any."""
    signs = [(a, b) for a in (False, True) for b in (False, True)]
    packed = dict.fromkeys((a, dot_of(row).b_signed(a, b)) for a, b in signs)
    alike = [r for r in EVERY_ROW if r.architecture == row.architecture and without_dots(r) == without_dots(row)]
    turns = cycle(alike if some else [row])
    found: dict[str, str] = {}
    variants: Counter[object] = Counter()

    def add(emit: Callable[..., str], *arguments: Any) -> None:
        variants[emit] += 1
        whose = row if emit.__module__.startswith("anydml.kernels.contract.") else next(turns)
        left_out = some and emit is not multiply and variants[emit] > 2 and variants[emit] % 2 != EVERY_ROW.index(whose) % 2
        if whose is row and not left_out:
            found[f"{emit.__name__} {arguments}"] = emit(row, *arguments)

    for height in heights(row)[:: len(heights(row)) - 1 if some else 1]:
        for a, b in packed:
            for output, full in (("i32", True), ("i32", False), ("u8", True), ("i8", False)):
                add(multiply, TileKey(a, b, output, full), height)
    for output in ("i32", "u8"):
        add(multiply, TileKey(False, True, output, True), 3, True)
    for full in (False, True):
        add(multiply, TileKey(*max(packed), "u8", full, biased=True), heights(row)[-1])
        add(multiply, TileKey(*max(packed), "i8", full, False, "column" if full else "row", full), heights(row)[-1])
    for hop in (0, *matmul_rows.HOPS):
        add(matmul_image.fill, hop)
    add(matmul_image.offsets)
    add(matmul_image.places)
    for a, b in signs:
        for segments in (0, 2, 5):
            add(matmul_pack.pack, a, b, segments)
        add(matmul_pack.pack, a, b, 2, 4)
        add(matmul_records.row_sums, a, b, a)
        add(matmul_records.row_sums, a, b, True, True)
        add(matmul_records.columns, a, b, b, 4 if a else 0, 1 if b else 0)
        add(matmul_pack.widen, a)
        if matmul_thin.serves(row):
            for height in (1, integer_tuning.TUNING.thin_rows):
                add(matmul_thin.thin, a, b, height, matmul_thin.ROWS)
    for output in ("i32", "u8", "i8"):
        add(matmul_records.parameters, True, output, output == "i8")
    add(matmul_records.parameters, True, "u8", True, True)
    if row.architecture == "x86" and not matmul_places.serves(row):
        for output in ("i32", "u8"):
            add(matmul_taps.multiply, output, output == "u8", output == "i32", matmul_taps.ROWS)
            add(matmul_winograd.sums, output, output == "u8")
        for a, b in signs:
            add(matmul_taps.weights, a, b, a)
        for a in (False, True):
            add(matmul_winograd.filters, a, HEIGHT)
            add(matmul_winograd.terms, a, a)
            add(matmul_winograd.inputs, a)
        add(matmul_winograd.products, HEIGHT)
    if matmul_places.serves(row):
        for (lines, height), output in product(((1, matmul_places.MOST), (3, 4)), ("i32", "u8")):
            add(matmul_places.multiply, TileKey(*max(packed), output, lines == 1, output != "i32"), lines, height)
            add(matmul_lines.multiply, TileKey(False, True, output, False, output != "i32"), lines, lines == 1)
        for clamped in (False, True):
            add(matmul_places.multiply, TileKey(*max(packed), "u8", clamped, False, "column", clamped), 1, matmul_places.MOST)
            add(matmul_lines.multiply, TileKey(False, True, "i8", False, False, "row", clamped), 3, clamped)
        for a, b in signs:
            add(matmul_fours.fours, a, 1 + b, a == b, a)
            add(matmul_weights.weights, a, b, a)
            add(matmul_filters.pack, a, b, a)
            add(matmul_terms.filters, a, b, a, b)
            add(matmul_terms.places, a, b, a)
            add(matmul_terms.terms, a, b, a)
        for hop in (0, *matmul_rows.HOPS):
            add(matmul_image.fill, hop, True, hop == 0)
    for by_column, other in ((False, ""), (True, "u8"), (False, "i8")):
        add(region_estimate, by_column, other)
        add(region_refine, by_column, bool(other), not by_column)
    add(matmul_wide.carry)
    for signed in (False, True):
        add(matmul_wide.round_totals, signed, not signed)
    for emit in (steps.runner, pool_emit.call, pool_emit.serve):
        add(emit)
    for lines, dense in ((False, False), (True, False), (False, True)):
        for ahead in AHEAD:
            add(plain.contiguous, lines, dense, ahead)
        for pattern, step in (((0,), -1), ((0,), 5), ((0, 1, 2, 3), 8), ((0, 3, 7), 21), ((4, 5, 0, 1), 8)):
            for width in {16, row.vector_bytes}:
                add(copy_groups.groups, pattern, step, width, 1, lines, dense, AHEAD[step % 2])
    for itemsize in (1, 2, 4, 8):
        for ahead in AHEAD:
            add(plain.elements, itemsize, ahead)
        for count in (2, 3):
            add(copy_interleaved.interleaved, itemsize, count)
        for width, span in copy_tiles.spans(row, itemsize):
            add(copy_tiles.tiles, itemsize, width, span)
            add(copy_tiles.blocks, itemsize, width, copy_tiles.LANE, 2, 32)
    for bits, wraps in ((32, False), (32, True), (64, True)):
        add(irregular_emit.checks, bits, wraps, wraps)
        columns = irregular_emit.IndexLayout(2 - wraps, bits, wraps, 1 + wraps)
        add(irregular_emit.rows, columns, wraps, irregular_emit.FETCHED[wraps], 3 * wraps)
        known = irregular_emit.KnownStrides((0, bits // 16, None), None if wraps else bits // 16)
        add(irregular_emit.elements, bits // 16, columns, wraps, known)
        add(irregular_reversing.lines, bits // 16 * wraps, bits)
        add(irregular_reversing.elements, bits // 16, bits)
    for data_type in (DataType.FLOAT32, DataType.INT64):
        for multiplies in (False, True):
            add(scan_emit.emitted, ScanKey(data_type, multiplies, multiplies, multiplies))
    for data_type, multiplies in ((DataType.FLOAT32, False), (DataType.INT64, True)):
        add(scan_columns.emitted, ScanKey(data_type, multiplies, not multiplies, True))
        add(scan_lines.emitted, ScanKey(data_type, multiplies, multiplies, True), multiplies)
    for data_type, few in ((DataType.FLOAT32, True), (DataType.FLOAT16, False), (DataType.INT64, True)):
        add(order_emit.emitted, order_emit.OrderKey(data_type, DataType.UINT32, few, few, few, few))
    word, key = (("element", k, 32, False) for k in range(2))
    add(random_emit.emitted, random_emit.RandomKey(("add", word, ("mul", key, ("constant", 2**32))), key))
    add(order_listing.emitted, order_listing.ListingKey(DataType.FLOAT32, DataType.UINT32, DataType.UINT32, 3))
    for name in ("RESAMPLE3", "RESAMPLE_GRAD1", "ROI_POOLING", "ROI_ALIGN1", "FOLD", "MAX_POOLING_GRAD"):
        if next(turns) is row:
            found[f"nests {name}"] = nests_emit.emitted(row, nest_of(name, row))
    return found


def without_dots(row: Target) -> frozenset[str]:
    return frozenset(row.features) - DOT_PRODUCTS


def nest_of(name: str, row: Target) -> NestKey:
    """The key of the kernel of an operator's first example."""
    operator = operators.find(name)
    assert operator is not None
    desc = example_desc(operator)
    tensors = {t.name: t.desc.data_type for t in desc.tensors()}
    ((output, nest),) = stated(desc).items()
    matched = nests(nest, tensors[output])
    assert not isinstance(matched, str), matched
    loops = narrowed(matched.program, [64] * len(matched.sizes))
    return NestKey(matched.program, (tensors[output],), matched.program.dims - 1, row.vector_bytes // 8, (True,), (), loops)


def instructions(assembly: str) -> list[str]:
    """The instructions, one per line, without comments, labels and directives."""
    lines = (re.split(r"\s*(?:##|//|;|#APP|#NO_APP)|\s#\s", line)[0].strip() for line in assembly.splitlines())
    return [re.sub(r"\s+", " ", line) for line in lines if line and not line.startswith((".", "#")) and not line.endswith(":")]


@cache
def assembled(row: Target, triple: str) -> dict[str, list[str]]:
    texts = kernels(row, SOAK == 1 or "linux" not in triple)
    return {name: instructions(engine.assembly(text, row, triple)) for name, text in texts.items()}


def frame(code: list[str]) -> int:
    """The largest number of bytes that a function needs on the stack."""
    taken = 0
    for line in code:
        if found := re.fullmatch(r"(?:subq \$(\d+), %rsp|sub sp, sp, #(\d+)(?:, lsl #(\d+))?|.*\[sp, #-(\d+)\]!)", line):
            immediate, number, shift, before = found.groups()
            taken += int(immediate or before or 0) + (int(number or 0) << int(shift or 0))
        taken += 8 * line.startswith("pushq")
    return taken


@pytest.mark.parametrize(("row", "triple"), EVERY)
def test_no_kernel_uses_what_its_row_lacks(row: Target, triple: str) -> None:
    forbidden = re.compile("|".join(f"(?:{x})" for x in FORBIDDEN[row.architecture, row.name]))
    # called by address: kernels by the runner, pieces by the pool; others in their own modules
    calls = re.compile(r"(callq?|jmpq?) (?!\*)(?!\.?LBB)|bl? (?!\.?LBB)")
    count = 0
    for name, code in assembled(row, triple).items():
        found = {line for line in code if forbidden.match(line)}
        assert not found, f"{name}: {sorted(found)[:9]}"
        called = {line for line in code if calls.match(line) and not re.search(OWN, line)}
        assert not called, f"{name}: {sorted(called)[:9]}"
        assert frame(code) <= PAGE, f"{name}: a frame of {frame(code)} bytes"
        count += len(code)
    assert count > 5_000


@pytest.mark.parametrize(("row", "triple"), EVERY)
def test_tiles_are_made_of_what_is_meant(row: Target, triple: str) -> None:
    meant = [re.compile(x) for x in MEANT[row.architecture, row.name]]
    for height in (1, dot_of(row).rows):
        code = [
            line
            for name, lines in assembled(row, triple).items()
            if name.startswith("multiply ") and name.endswith(f", {height})")
            for line in lines
        ]
        assert code
        for pattern in meant:
            assert any(pattern.match(line) for line in code), f"no {pattern.pattern} in tiles of {height} rows"


@pytest.mark.parametrize(("row", "triple"), EVERY)
def test_loops_keep_their_sums_in_registers(row: Target, triple: str) -> None:
    """No stack memory is used between two products of the largest tile."""
    product = re.compile(r"(\{vex\} )?(vpdpbusd|v?pmaddwd|[su]dot|smlal2?|(us|s|u)mmla)\b")
    stack, framed = (re.compile(rf".*\((?:{base})[,)]|.*\[sp\b") for base in ("%rsp", "%rsp|%rbp"))
    for name, code in assembled(row, triple).items():
        if name.startswith("multiply ") and name.endswith(f", {dot_of(row).rows})"):
            places = [i for i, line in enumerate(code) if product.match(line)]
            assert places, name
            where = framed if "movq %rsp, %rbp" in code else stack  # otherwise %rbp is a general register
            spilled = [line for line in code[places[0] : places[-1]] if where.match(line)]
            assert not spilled, f"{name}: {spilled[:5]}"


@pytest.mark.parametrize("processor", detect.OTHERS)
def test_elsewhere_no_kernel_calls_a_library(processor: str) -> None:
    (row,) = OTHER
    library = re.compile(r".*\b(mem(cpy|set|move)|fmaf?|round\w*|floorf?|ceilf?|rintf?|nearbyintf?|__\w+)\b")
    looked_at: dict[str, int] = {}
    for name, text in kernels(row, True).items():
        emitter = name.split()[0]
        looked_at[emitter] = looked_at.get(emitter, 0) + 1
        if emitter != "serve" and (SOAK > 1 or looked_at[emitter] <= EACH):  # and threads do not share the work
            called = {
                line
                for line in instructions(engine.assembly(text, row, f"{processor}-unknown-linux-gnu"))
                if library.match(line)
            }
            assert not called, f"{name}: {sorted(called)[:9]}"


def test_the_patterns_recognise_what_they_forbid() -> None:
    """Each pattern is tried on instructions that it must match, and on some that it must not."""
    shown = {
        ("x86", "generic"): ("pshufb %xmm0, %xmm1", "vpaddd %xmm0, %xmm1, %xmm2", "pmulld %xmm0, %xmm1", "ptest %xmm0, %xmm0",
                             "roundpd $9, %xmm0, %xmm1", "pinsrd $1, %eax, %xmm0", "vfmadd213ps %xmm0, %xmm1, %xmm2",
                             "shlxq %rax, %rbx, %rcx", "blendvpd %xmm0, %xmm1, %xmm2", "pmovzxbw %xmm0, %xmm1"),
        ("x86", "avx2"): ("vpaddd %zmm0, %zmm1, %zmm2", "vpaddd %ymm16, %ymm1, %ymm2", "kmovw %k1, %eax",
                          "{vex} vpdpbusd %ymm0, %ymm1, %ymm2"),
        ("x86", "avx512bw"): ("vpdpbusd %zmm0, %zmm1, %zmm2", "{vex} vpdpbusd %ymm0, %ymm1, %ymm2"),
        ("aarch64", "generic"): ("sdot v0.4s, v1.16b, v2.16b", "fadd v0.8h, v1.8h, v2.8h", "ld1b { z0.b }, p0/z, [x0]",
                                 "ldaddal x0, x1, [x2]", "casal x0, x1, [x2]", "smmla v0.4s, v1.16b, v2.16b",
                                 "udot.4s v0, v1, v2[0]", "bfdot v0.4s, v1.8h, v2.8h"),
        ("aarch64", "dotprod"): ("usdot v0.4s, v1.16b, v2.16b", "ummla v0.4s, v1.16b, v2.16b"),
    }  # fmt: skip
    left = {
        ("x86", "generic"): ("pmaddwd %xmm0, %xmm1", "pextrw $1, %xmm0, %eax", "bsrq %rax, %rax", "pcmpeqd %xmm0, %xmm1"),
        ("x86", "avx2"): ("vpmaddwd %ymm0, %ymm1, %ymm2", "vmovdqu (%rax), %ymm15"),
        ("aarch64", "generic"): ("smlal v0.4s, v1.4h, v2.h[0]", "fadd v0.4s, v1.4s, v2.4s", "ldaxr x0, [x1]"),
        ("aarch64", "dotprod"): ("sdot v0.4s, v1.16b, v2.16b",),
    }
    for wrong, examples in ((True, shown), (False, left)):
        for key, lines in examples.items():
            for line in lines:
                caught = any(re.match(f"(?:{x})", line) for x in FORBIDDEN[key])
                assert caught == wrong, f"{key}: {line}"
