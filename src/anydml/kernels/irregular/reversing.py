"""The kernels of lines whose first elements are reversed, and the steps that call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from operator import mul

from anydml.kernels.call.signature import Arguments, Signature, stepped
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.emit import Text, along, fold, kernel, shuffle, when
from anydml.kernels.code.targets import Target
from anydml.kernels.irregular import tuning
from anydml.kernels.irregular.emit import moved_row
from anydml.kernels.irregular.loops import OUTER, Loop, described, merged, parts, walk
from anydml.kernels.kernel import Lowered
from anydml.kernels.match.reversed import ReversedLines
from anydml.tensor import TensorDesc

LINES = Signature("*source *target *lengths *place n source_step target_step bytes")


def _length(text: Text, bits: int, place: str) -> str:
    """The number of a line's first elements that are reversed."""
    value = text.load(f"i{bits}", place)
    value = value if bits == 64 else text.op(f"zext i{bits} {value} to i64")
    return text.op(f"select i1 {text.op(f'icmp ult i64 {value}, %n')}, i64 {value}, i64 %n")


def _place(text: Text, length: str, i: str) -> str:
    """The index of the element that is moved to the i-th place."""
    within = text.op(f"icmp ult i64 {i}, {length}")
    last = text.op(f"sub i64 {length}, 1")
    return text.op(f"select i1 {within}, i64 {text.op(f'sub i64 {last}, {i}')}, i64 {i}")


def lines(target: Target, itemsize: int, bits: int) -> str:
    """The kernel for lines of `n` rows of `bytes` contiguous bytes. itemsize: for lines of contiguous elements instead, else 0.

    Arguments: LINES, loops of source, target, lengths and position, which is not used. bits: those of a length.
    """
    text = Text()
    LINES.load(text)

    def line(at: list[str], count: str, strides: list[str]) -> None:
        def one(j: str, _: list[str]) -> list[str]:
            source, into, lengths = (along(text, at[which], strides[which], j) for which in range(3))
            length = _length(text, bits, lengths)
            if itemsize:
                _reversed(text, target, itemsize, source, into, length)
                return []

            def row(i: str, _: list[str]) -> list[str]:
                place = along(text, source, "%source_step", _place(text, length, i))
                moved_row(text, target, place, along(text, into, "%target_step", i), "%bytes")
                return []

            fold(text, "0", "%n", 1, [], row)
            return []

        fold(text, "0", count, 1, [], one)

    walk(text, text.at("%arguments", LINES.end), ["%source", "%target", "%lengths", "%place"], line)
    text.do("ret i64 0")
    return kernel(text)


def _reversed(text: Text, target: Target, itemsize: int, source: str, into: str, length: str) -> None:
    """A contiguous line: vectors and single elements in reverse order, then the elements that stay."""
    lanes = target.vector_bytes // itemsize
    kind, element = f"<{lanes} x i{8 * itemsize}>", f"i{8 * itemsize}"
    end = along(text, source, str(itemsize), length)

    def vectors(i: str, _: list[str]) -> list[str]:
        after = text.op(f"mul i64 {text.op(f'add i64 {i}, {lanes}')}, {-itemsize}")
        found = shuffle(text, text.load(kind, text.at(end, after)), "poison", kind, reversed(range(lanes)))
        text.store(kind, found, along(text, into, str(itemsize), i))
        return []

    def single(i: str, _: list[str]) -> list[str]:
        after = text.op(f"mul i64 {text.op(f'add i64 {i}, 1')}, {-itemsize}")
        text.store(element, text.load(element, text.at(end, after)), along(text, into, str(itemsize), i))
        return []

    done, _ = fold(text, "0", length, lanes, [], vectors)
    fold(text, done, length, 1, [], single)
    rest = text.op(f"mul i64 {text.op(f'sub i64 %n, {length}')}, {itemsize}")

    def stays() -> None:
        moved_row(text, target, end, along(text, into, str(itemsize), length), rest)

    when(text, text.op(f"icmp ne i64 {rest}, 0"), stays)


def elements(target: Target, itemsize: int, bits: int) -> str:
    """The kernel for single elements, in any order. Arguments: those of `lines`; the last address counts along the line."""
    text = Text()
    LINES.load(text)
    kind = f"i{8 * itemsize}"

    def row(at: list[str], count: str, strides: list[str]) -> None:
        def one(j: str, _: list[str]) -> list[str]:
            source, into, lengths, place = (along(text, base, stride, j) for base, stride in zip(at, strides, strict=True))
            i = text.op(f"ptrtoint ptr {place} to i64")
            found = along(text, source, "%source_step", _place(text, _length(text, bits, lengths), i))
            text.store(kind, text.load(kind, found), into)
            return []

        fold(text, "0", count, 1, [], one)

    walk(text, text.at("%arguments", LINES.end), ["%source", "%target", "%lengths", "%place"], row)
    text.do("ret i64 0")
    return kernel(text)


def lowered(found: ReversedLines, target: Target, tensors: Mapping[str, TensorDesc], threads: int) -> Lowered:
    """A single phase: lines, or elements if neighbouring lines are contiguous and each has a length of its own."""
    source, into, lengths = (tensors[name] for name in (found.source, found.target, found.lengths))
    itemsize, bits = source.data_type.dtype.itemsize, lengths.data_type.element_bits
    strides = [
        (a * itemsize, b * itemsize, sum(map(mul, steps, lengths.explicit_strides)) * (bits // 8), 0)
        for a, b, steps in zip(source.explicit_strides, into.explicit_strides, found.steps, strict=True)
    ]
    along_line, n = strides[found.axis], found.sizes[found.axis]
    others = [Loop(size, strides[d]) for d, size in enumerate(found.sizes) if d != found.axis]
    loops, row = merged(sorted(others, key=_stride, reverse=True)), itemsize
    if loops and loops[-1].strides[:3] == (itemsize, itemsize, 0):
        row *= loops.pop().turns
    if row > itemsize:
        code = engine.compiled(lines, target, 0, bits)
    elif along_line[:2] == (itemsize, itemsize):
        code = engine.compiled(lines, target, itemsize, bits)
    else:
        code = engine.compiled(elements, target, itemsize, bits)
        loops = sorted([Loop(n, (0, along_line[1], 0, 1)), *loops], key=_stride, reverse=True)
    if len(loops) > OUTER + 1:
        raise engine.Uncompilable(f"{len(loops)} loops are more than {OUTER + 1}")
    amount = prod(found.sizes)
    first_length = sum(map(mul, found.start, lengths.explicit_strides)) * (bits // 8)
    pieces: list[Sequence[Step]] = []
    for part, first in parts(loops, threads if amount >= tuning.TUNING.alone_reversing else 1):
        moved = [first * stride for stride in part[0].strides] if part else [0] * 4
        values = Arguments(lengths=At(found.lengths, first_length + moved[2]), place=moved[3], n=n, bytes=row)
        values |= stepped("source", At(found.source, moved[0]), along_line[0])
        values |= stepped("target", At(found.target, moved[1]), along_line[1])
        pieces.append([LINES.step(code, *described(part, 4), **values)])
    return Lowered(target, [Rounds([pieces])], short=amount < tuning.TUNING.short_reversing)


def _stride(loop: Loop) -> int:
    return loop.strides[1]
