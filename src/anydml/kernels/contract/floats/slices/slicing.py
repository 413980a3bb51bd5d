"""Rows and columns as five bytes: integers of 40 bits with a power of two that all elements of a row, or of a column, share.

An element x of a row whose elements are below 2^E is the integer x 2^(39 - E), rounded: its highest byte has a sign, the four
others have none. Elements of 24 bits that are above 2^(E - 16) are exact. The norm of what the others lose becomes a part of
the row's size, which bounds the errors of its sums (`products`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.tile_registers import ROWS, TILE, WIDTH
from anydml.kernels.code.together import BYTES, bytes_together, fours_together, shuffled, words_together
from anydml.kernels.code.values import Body, Kind, Value, part
from anydml.kernels.contract.floats.packed.rows import NORM_SLACK

SLICES = 5
BITS = 8 * SLICES - 1  # of an integer, apart from its sign
DEPTH = WIDTH  # terms of a tile register
STEP = SLICES * TILE  # bytes of DEPTH terms of ROWS rows or columns
MAGIC = 1.5 * 2.0**52  # a number below 2^51 that is added to it is rounded to an integer, the lower bits of the sum
INFINITE = 0x7FF  # exponent of infinities and NaN
LEAST = 1023 - 150  # below the exponents of all float32 but 0
# from: packed rows, tile after tile of `packed` bytes, or panels; count: tiles, or vectors of eight columns
# sizes: of rows or columns, whose product bounds the error of their sum, see `products`; infinity if an element is infinite or
# NaN. nearer: the same for `left_out`. scales: 2^(E - 39); NaN then. middles: what is added to sums. least: bits of
# `products.least`. norms: of rows or columns; a negative one makes a size negative
ARGUMENTS = Signature("*from packed count terms *into *sizes *nearer *scales *middles least *norms")
LEAST_NORM = 2.0**-22  # of a size, over the norm: about as much as the rest of it where elements are normally distributed

I64 = Kind("i64")
WIDE = Kind("double", 8)
INTS = Kind("i32", 16)

Element = Callable[[str], Value]  # the vector of eight rows or columns of a term


class TermSlicing(Protocol):
    """Slices 64 terms, or with `last` fewer. found: what loops carry."""

    def __call__(self, step: str, found: list[Value], *, last: bool) -> list[Value]: ...


def rows(target: Target, height: int) -> str:
    """The kernel that slices packed rows, in tiles of `height`; arguments: ARGUMENTS.

    Sixteen rows after the other: for each 64 terms, their highest bytes, row after row, then the next lower ones, and so on.
    """
    body = Body(target)
    ARGUMENTS.load(body)
    of_sixteen = body.op(f"mul i64 {_steps(body)}, {STEP}")
    planes = body.op(f"alloca [{SLICES * 8 * 64} x i8], align 64")

    def tile(t: str, _: list[Value]) -> list[Value]:
        from_ = body.at("%from", body.op(f"mul i64 {t}, %packed"))

        def element(k: str) -> Value:
            return body.loaded(WIDE, from_, body.op(f"mul i64 {k}, {8 * height}"))

        first = body.op(f"mul i64 {t}, {height}")
        scale = _CommonPower(body, element, first, height)
        lines = []
        for m in range(height):
            row = body.op(f"add i64 {first}, {m}")
            at = body.at("%into", body.op(f"mul i64 {body.op(f'lshr i64 {row}, 4')}, {of_sixteen}"))
            lines.append(body.at(at, body.op(f"mul i64 {body.op(f'and i64 {row}, 15')}, {DEPTH}")))

        def terms(step: str, found: list[Value], *, last: bool) -> list[Value]:
            """Slice 64 terms. last: whether there are fewer."""
            begin = body.op(f"mul i64 {step}, {DEPTH}")

            def eight(n: str, found: list[Value]) -> list[Value]:
                squares, lowest, lower, deviation = found
                k = body.op(f"add i64 {begin}, {body.op(f'mul i64 {n}, 8')}")
                integers, squares = scale.integers(element, k, 8, squares, last=last)
                made = bytes_together(integers, SLICES)
                for p, plane in enumerate(made):
                    body.stored(plane, planes, body.op(f"add i64 {body.op(f'mul i64 {n}, 64')}, {512 * p}"))
                return [squares, lowest + _summed(made[4]), lower + _summed(made[3]), _deviation(deviation, made[3])]

            found = body.loop("0", "8", 1, found, eight)[1]
            to = body.op(f"mul i64 {step}, {STEP}")

            def plane(p: str, _: list[Value]) -> list[Value]:
                at = body.op(f"mul i64 {p}, 512")
                words = [body.loaded(Kind("i64", 8), planes, body.op(f"add i64 {at}, {64 * n}")) for n in range(8)]
                into = body.op(f"add i64 {to}, {body.op(f'mul i64 {p}, {TILE}')}")
                for line, word in zip(lines, words_together(words), strict=False):
                    body.stored(word, line, into)
                return []

            body.loop("0", str(SLICES), 1, [], plane)
            return found

        nothing = body.constant(Kind("i64", 8), 0)
        squares, *sums, deviation = _all_terms(
            body, terms, [body.constant(WIDE, 0.0), nothing, nothing, body.constant(INTS, 0)]
        )
        both = [shuffled(deviation, deviation, list(range(side, 16, 2))) for side in range(2)]
        norms = body.loaded(WIDE, "%norms", body.op(f"mul i64 {first}, 8"))
        scale.finish(squares, [*sums, both[0] + both[1]], norms, rows=True)
        return []

    body.loop("0", "%count", 1, [], tile)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def columns(target: Target, across: int) -> str:
    """The kernel that slices panels of `across` vectors of eight columns; arguments: ARGUMENTS.

    Sixteen columns after the other: for each 64 terms, the highest bytes of the first four terms, column after column, then of
    the next four, and so on; then the next lower bytes.
    """
    body = Body(target)
    ARGUMENTS.load(body)
    of_sixteen = body.op(f"mul i64 {_steps(body)}, {STEP}")
    pitch = across * 32

    def pair(j: str, _: list[Value]) -> list[Value]:
        """Sixteen columns; the last vector twice if it has none beside it."""
        first = body.op(f"mul i64 {j}, 2")
        beside = body.op(f"add i64 {first}, 1")
        both = body.call("llvm.umin.i64", I64, f"i64 {beside}", f"i64 {body.op('sub i64 %count, 1')}").name
        places = []
        for v in (first, both):
            panel = body.at("%from", body.op(f"mul i64 {body.op(f'udiv i64 {v}, {across}')}, %packed"))
            places.append(body.at(panel, body.op(f"mul i64 {body.op(f'urem i64 {v}, {across}')}, 32")))

        def element(half: int, k: str) -> Value:
            at = body.op(f"mul i64 {k}, {pitch}")
            return body.loaded(WIDE.of("float"), places[half], at).converted("fpext", WIDE)

        halves = [lambda k, half=half: element(half, k) for half in range(2)]
        scales = [
            _CommonPower(body, one, body.op(f"add i64 {body.op(f'mul i64 {j}, {ROWS}')}, {8 * half}"))
            for half, one in enumerate(halves)
        ]
        into = body.at("%into", body.op(f"mul i64 {j}, {of_sixteen}"))

        def terms(step: str, found: list[Value], *, last: bool) -> list[Value]:
            begin, to = body.op(f"mul i64 {step}, {DEPTH}"), body.at(into, body.op(f"mul i64 {step}, {STEP}"))

            def four(n: str, found: list[Value]) -> list[Value]:
                *squares, lowest, lower, deviation = found
                k = body.op(f"add i64 {begin}, {body.op(f'mul i64 {n}, 4')}")
                pairs = [
                    scale.integers(one, k, 4, square, last=last)
                    for scale, one, square in zip(scales, halves, squares, strict=True)
                ]
                made = fours_together(*(integers for integers, _ in pairs))
                for p, line in enumerate(made):
                    body.stored(line, to, body.op(f"add i64 {body.op(f'mul i64 {n}, 64')}, {TILE * p}"))
                ones, (low, lowest_) = body.constant(BYTES, 1), (plane.cast(BYTES) for plane in made[3:])
                sums = _dot(lowest, lowest_, ones), _dot(lower, low, ones)
                return [*(square for _, square in pairs), *sums, _deviation(deviation, low)]

            return body.loop("0", str(DEPTH // 4), 1, found, four)[1]

        found = _all_terms(body, terms, [body.constant(WIDE, 0.0)] * 2 + [body.constant(INTS, 0)] * 3)
        for half, (scale, square) in enumerate(zip(scales, found, strict=False)):
            norms = body.loaded(WIDE, "%norms", body.op(f"mul i64 {(first, both)[half]}, 64"))
            scale.finish(square, [part(x, 8 * half, 8) for x in found[2:]], norms, rows=False)
        return []

    pairs = body.op(f"lshr i64 {body.op('add i64 %count, 1')}, 1")
    body.loop("0", pairs, 1, [], pair)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def _steps(body: Body) -> str:
    return body.op(f"udiv i64 {body.op(f'add i64 %terms, {DEPTH - 1}')}, {DEPTH}")


def _all_terms(body: Body, terms: TermSlicing, carried: list[Value]) -> list[Value]:
    """Call `terms` for each 64 terms, and for those that are left."""
    whole = body.op(f"udiv i64 %terms, {DEPTH}")
    _, carried = body.loop("0", whole, 1, carried, lambda step, found: terms(step, found, last=False))
    return body.loop(whole, _steps(body), 1, carried, lambda step, found: terms(step, found, last=True))[1]


class _CommonPower:
    """The common powers of two of eight rows or columns, and their sizes."""

    def __init__(self, body: Body, element: Element, first: str, count: int = 8) -> None:
        """element: the eight of a term. first: the number of the first one; count: how many of the eight there are."""
        self.body, self.first, self.count = body, first, count

        def larger(k: str, most: list[Value]) -> list[Value]:
            return [body.intrinsic("umax", most[0], element(k).bits() & ((1 << 63) - 1))]

        most = body.loop("0", "%terms", 1, [body.constant(Kind("i64", 8), 0)], larger)[1][0]
        exponent = most.shifted_right(52, signed=False)
        self.spoilt = exponent.compared("eq", INFINITE)
        self.exponent = body.intrinsic("umax", exponent, body.constant(exponent.kind, LEAST))  # 2^E: of 1023 less it
        # elements are below 2^(exponent - 1022)
        self.factor = self._power(BITS + 1022 + 1023 - self.exponent)
        self.unit = self._power(self.exponent - (1022 + BITS - 1023))

    def _power(self, exponent: Value) -> Value:
        return (exponent << 52).cast(WIDE)

    def integers(self, element: Element, first: str, count: int, squares: Value, *, last: bool) -> tuple[list[Value], Value]:
        """The integers of `count` terms, and `squares` with those of what they lose. last: some may be beyond the last term."""
        body, found = self.body, []
        for n in range(count):
            k = body.op(f"add i64 {first}, {n}")
            if last:
                there = body.call("llvm.umin.i64", I64, f"i64 {k}", f"i64 {body.op('sub i64 %terms, 1')}").name
                inside = body.splat(Value(body, body.op(f"icmp ult i64 {k}, %terms"), Kind("i1")), 8)
                x = body.chosen(inside, element(there), 0.0)
            else:
                x = element(k)
            total = body.fused(x, self.factor, MAGIC)
            lost = body.fused(x, self.factor, -(total - MAGIC))
            squares = body.fused(lost, lost, squares)
            found.append(total.bits())
        return found, squares

    def finish(self, squares: Value, sums: Sequence[Value], norms: Value, *, rows: bool) -> None:
        """Store sizes, scales and middles.

        squares: of what is lost. sums: of bytes 4, of bytes 3, and of products of bytes 3 with the same, less 128.
        """
        body, double = self.body, Kind("double")
        least = Value(body, body.op("bitcast i64 %least to double"), double)
        terms = Value(body, "%terms", I64).converted("uitofp", double)
        lowest, lower, deviation = (x.converted("sitofp", WIDE) for x in sums)
        root = terms.root() * least
        # the sum of (x - 128)^2 of bytes x
        of_lower = ((body.splat(terms, 8) - lower * 2.0**-7) * 2.0**14 + deviation).root() * 2.0**8

        def size(own: Value, least_norm: float, weight: int) -> Value:
            own = body.intrinsic("maxnum", self.unit * (own + body.splat(root * 2.0**BITS, 8)), norms.magnitude() * least_norm)
            beside = squares.root() * (1.0 / least_norm) + lowest * body.splat(2.0**weight / root, 8)
            return body.chosen(self.spoilt, math.inf, (own + self.unit * beside) * NORM_SLACK).signed_as(norms)

        sizes = size(of_lower, LEAST_NORM, BITS - 54), size(body.constant(WIDE, 0.0), LEAST_NORM / 4, BITS - 62)
        middle = lower * 2.0**7
        if rows:
            middle = middle - body.splat(terms * 2.0**14, 8)
        scale = body.chosen(self.spoilt, math.nan, self.unit)
        at = body.op(f"mul i64 {self.first}, 8")
        for value, name in zip((*sizes, scale, middle * 2.0**16), ("sizes", "nearer", "scales", "middles"), strict=True):
            into = f"%{name}"
            for lane in range(self.count) if self.count < 8 else ():
                body.stored(value.lane(lane), into, body.op(f"add i64 {at}, {8 * lane}"))
            if self.count == 8:
                body.stored(value, into, at)


def _summed(plane: Value) -> Value:
    """The sums of each eight bytes."""
    zeros = plane.body.constant(BYTES, 0)
    return plane.body.call("llvm.x86.avx512.psad.bw.512", Kind("i64", 8), plane, zeros)


def _dot(sums: Value, plane: Value, others: Value) -> Value:
    """Sums of products of each four bytes without a sign with bytes that have one."""
    return sums.body.call("llvm.x86.avx512.vpdpbusd.512", INTS, sums, plane, others)


def _deviation(sums: Value, plane: Value) -> Value:
    """Sums of products of bytes with the same, less 128."""
    return _dot(sums, plane, plane ^ -128)
