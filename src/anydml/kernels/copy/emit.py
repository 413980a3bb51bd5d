"""The loops of every strided copy over the outer dimensions, and what is prefetched.

Every kernel has the same arguments, ARGUMENTS. No byte is read before the first or behind the last element, and only elements
are written: a tail repeats a part of the last full block instead of exceeding the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, module
from anydml.kernels.copy.gather import leave, settle
from anydml.kernels.copy.text import LINE, Prefetch, loop, prefetch, to_multiple, when

DIMENSIONS = 7  # a tensor has eight, and one is the row
# of the row, the innermost dimension, and of the others, from the innermost on: the size, and strides in bytes
LOOPS = Signature(
    " ".join(["n source_stride target_stride", *(f"count{k} source_stride{k} target_stride{k}" for k in range(DIMENSIONS))])
)
# ahead: the number of rows ahead to prefetch; scratch: of some kernels with non-temporal stores
ARGUMENTS = Signature("*source *target") + LOOPS + Signature("ahead *scratch")
FETCHED = 2048  # bytes of a row up to which it is prefetched as a whole
DECLARATIONS = (
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
    "declare i64 @llvm.umin.i64(i64, i64)",
    "declare i64 @llvm.umax.i64(i64, i64)",
    "declare i64 @llvm.smin.i64(i64, i64)",
    "declare i64 @llvm.smax.i64(i64, i64)",
    "declare i64 @llvm.abs.i64(i64, i1)",
)
Body = Callable[[Text, str, str], None]
Fetch = Callable[[Text, str], None]


def kernel(body: Body, fetch: Fetch | None = None, *, first: int = 0, dense: int = 0, width: int = 0) -> str:
    """A kernel that runs `body(text, source, target)` for each row: each combination of the outer dimensions from `first` on.

    `fetch(text, source)` prefetches a row. Processors do not predict where a row begins that is not contiguous; a second
    odometer counts rows ahead of the first, as many as the arguments say, and `body` finds its row's address in %fs.

    `dense`, if not 0: rows of n * dense bytes are contiguous in the output. They are too short for non-temporal stores of
    their own, so they are collected in scratch and stored from there as whole cache lines. `width`: bytes of a vector.
    """
    text = Text()
    for name in ("n", "source_stride", "target_stride", "source", "target"):
        kind = "ptr" if name in ARGUMENTS.pointers else "i64"
        text.do(f"%{name} = load {kind}, ptr {text.at('%arguments', ARGUMENTS.offset(name))}, align 8")
    outer = ARGUMENTS.offset("count0")
    text.do(f"%outer = getelementptr i8, ptr %arguments, i64 {outer}")
    bounds = [[text.load("i64", "%outer", 8 * (3 * k + j)) for j in range(3)] for k in range(first, DIMENSIONS)]
    counters = [text.op(f"alloca [{DIMENSIONS} x i64], align 8") for _ in range(2 if fetch else 1)]
    for counter in counters:
        for k in range(1, len(bounds)):
            text.do(f"store i64 0, ptr {text.at(counter, 8 * k)}, align 8")
    ahead = text.load("i64", "%outer", ARGUMENTS.offset("ahead") - outer)
    into = "%target"
    if dense:  # an address in scratch with the same offset in its cache line as the output's
        scratch = scratch_memory(text)
        into = text.at(scratch, text.op(f"and i64 {text.op('ptrtoint ptr %target to i64')}, {LINE - 1}"))
    text.jump("row")
    text.label("row")
    # with a dense output, d is an address in scratch, and D the address in the output of what is collected there
    for name, start in (("r", "0"), ("s", "%source"), ("d", into), ("S", "%source"), ("D", "%target")):
        kind = "i64" if name == "r" else "ptr"
        text.do(f"%{name} = phi {kind} [ {start}, %entry ], [ %{name}2, %again ]")
    if fetch:
        text.do("%lead = phi i64 [ %ahead, %entry ], [ %lead2, %again ]".replace("%ahead", ahead))
        for name, start in (("fr", "0"), ("fs", "%source"), ("fS", "%source")):
            text.do(f"%{name} = phi {'i64' if name == 'fr' else 'ptr'} [ {start}, %entry ], [ %{name}2, %again ]")
        text.branch(text.op(f"icmp eq i64 {ahead}, 0"), "copy", "fetch")
        text.label("fetch")
        fetch(text, "%fs")
        after = _advance(text, "f", ("%fr", ["%fs"], ["%fS"]), bounds, counters[1], (1,), "")
        text.branch(text.op("icmp eq i64 %lead, 0"), "copy", "leading")
        text.label("leading")
        text.do("%less = sub i64 %lead, 1")
        text.jump("again")
        text.label("copy")
        for name, kind, value in zip(("fr", "fs", "fS"), ("i64", "ptr", "ptr"), after, strict=True):
            text.do(f"%{name}1 = phi {kind} [ %{name}, %row ], [ {value}, %fnext ]")
    body(text, "%s", "%d")  # falls through
    if dense:
        d, settled = settle(text, scratch, text.at("%d", text.op(f"mul i64 %n, {dense}")), "%D", width)
        number, s, base = _advance(text, "", ("%r", ["%s"], ["%S"]), bounds, counters[0], (1,), "end")
        values = [number, s, d, base, settled]
    else:
        values = _advance(text, "", ("%r", ["%s", "%d"], ["%S", "%D"]), bounds, counters[0], (1, 2), "end")
    text.jump("again")
    text.label("again")
    for name, value in zip(("r", "s", "d", "S", "D"), values, strict=True):
        kind = "i64" if name == "r" else "ptr"
        lead = f"[ %{name}, %leading ], " if fetch else ""
        text.do(f"%{name}2 = phi {kind} {lead}[ {value}, %next ]")
    if fetch:
        text.do("%lead2 = phi i64 [ %less, %leading ], [ 0, %next ]")
        for name, kind, value in zip(("fr", "fs", "fS"), ("i64", "ptr", "ptr"), after, strict=True):
            text.do(f"%{name}2 = phi {kind} [ {value}, %leading ], [ %{name}1, %next ]")
    text.jump("row")
    text.label("end")
    if dense:
        leave(text, scratch, d, settled, width)
    text.do("fence seq_cst")  # non-temporal stores become visible before the call returns
    text.do("ret i64 0")
    return module([*DECLARATIONS, "define i64 @kernel(ptr noalias %arguments) {", "entry:", *text.lines, "}"])


def scratch_memory(text: Text) -> str:
    """The address of scratch, rounded up to a cache line."""
    memory = text.load("ptr", "%arguments", ARGUMENTS.offset("scratch"))
    return text.at(memory, to_multiple(text, memory, LINE))


def _advance(
    text: Text,
    stem: str,
    at: tuple[str, list[str], list[str]],
    bounds: Sequence[Sequence[str]],
    counters: str,
    strides: tuple[int, ...],
    end: str,
) -> list[str]:
    """Advance the odometer by one row: (row number, row addresses, addresses of row 0) -> the same. After the last row it jumps
    to `end`, or starts again if there is none. `strides`: for each address, the number of a triple that is its stride."""
    number, rows, bases = at
    on = text.op(f"add i64 {number}, 1")
    stepped = [text.at(place, bounds[0][stride]) for place, stride in zip(rows, strides, strict=True)]
    text.do(f"br label %{stem}inner")
    text.label(f"{stem}inner")
    ways = [(f"{stem}inner", [on, *stepped, *bases])]
    text.branch(text.op(f"icmp ult i64 {on}, {bounds[0][0]}"), f"{stem}next", f"{stem}carry")
    text.label(f"{stem}carry")
    places = bases
    for k, bound in enumerate(bounds[1:], start=1):  # advance the innermost that is not at its end, reset those within it
        counter = text.at(counters, 8 * k)
        now = text.op(f"add i64 {text.op(f'load i64, ptr {counter}, align 8')}, 1")
        places = [text.at(place, bound[stride]) for place, stride in zip(places, strides, strict=True)]
        text.branch(text.op(f"icmp ult i64 {now}, {bound[0]}"), f"{stem}step{k}", f"{stem}rewind{k}")
        text.label(f"{stem}step{k}")
        text.do(f"store i64 {now}, ptr {counter}, align 8")
        text.jump(f"{stem}next")
        ways.append((f"{stem}step{k}", ["0", *places, *places]))
        text.label(f"{stem}rewind{k}")
        text.do(f"store i64 0, ptr {counter}, align 8")
        back = [text.op(f"sub i64 0, {text.op(f'mul i64 {bound[stride]}, {bound[0]}')}") for stride in strides]
        places = [text.at(place, step) for place, step in zip(places, back, strict=True)]
    if end:
        text.jump(end)
    else:
        last = f"rewind{len(bounds) - 1}"
        text.jump(f"{stem}next")
        ways.append((f"{stem}{last}", ["0", *places, *places]))
    text.label(f"{stem}next")
    merged = []
    for i, kind in enumerate(["i64", *["ptr"] * (2 * len(bases))]):
        merged.append(text.op(f"phi {kind} " + ", ".join(f"[ {values[i]}, %{label} ]" for label, values in ways)))
    return merged


def region(text: Text, cache: int, start: str, size: str) -> None:
    """Prefetch `size` bytes from an address on, unless the row is so long that `along` prefetches it."""

    def fetch() -> None:
        loop(text, "0", LINE, lambda i: text.op(f"icmp ult i64 {i}, {size}"), lambda i: prefetch(text, cache, start, i))
        # one line more, if the bytes do not begin at the start of a line
        prefetch(text, cache, start, text.op(f"sub i64 {size}, 1"))

    when(text, text.op(f"icmp ule i64 {size}, {FETCHED}"), fetch)


def along(text: Text, how: Prefetch, source: str, at: str, extent: str, size: int, *, down: bool = False) -> None:
    """Prefetch `size` bytes, `how.along` bytes after `at`: in this row, or in the next row if this one ends before."""

    def fetch() -> None:
        far = text.op(f"add i64 {at}, {how.along}")
        beyond = text.op(f"sub i64 {far}, {extent}")
        inside = text.op(f"icmp slt i64 {beyond}, 0")
        row = text.op(f"select i1 {inside}, ptr {source}, ptr %fs")
        offset = text.op(f"select i1 {inside}, i64 {far}, i64 {beyond}")
        place = text.at(row, text.op(f"sub i64 0, {offset}") if down else offset)
        for line in range(0, size, LINE):
            prefetch(text, how.cache, place, -line if down else line)

    when(text, text.op(f"icmp ugt i64 {extent}, {FETCHED}"), fetch)
