"""The kernel that transforms inputs: it packs the transformed tiles to panels at each position of the transform.

A channel takes three steps. Lines of the tensor are copied, with zeros outside of it. They are split into rows, one for each
place in a tile, with the tiles' elements contiguous. The rows are transformed, a vector of tiles at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.winograd.kernels import interleaved, masked
from anydml.kernels.contract.floats.winograd.transform import SLACK, TILE, TRANSFORMS
from anydml.kernels.numbers import singles
from anydml.tensor import DataType

# first: the first line to read, among those that windows read; tile_rows x tiles: the tiles of outputs; inside of the tensor
# are the lines low1 .. high1 - 1 and the places low2 .. high2 - 1; vectors: of tiles, `full` of them in whole panels
ARGUMENTS = Signature(
    "*b term line place channels first tile_rows tiles width low1 high1 low2 high2 *lines pitch *apart *squares *columns "
    "vectors full *into position panel *norms part"
)
CHANNELS = 2  # that go through each step before the next step begins; a power of two


def transformed(target: Target, data_type: DataType, across: int, contiguous: bool, taps: int) -> str:
    """The kernel that transforms tiles to panels of `across` vectors; arguments: ARGUMENTS.

    b: the first element that windows read; contiguous: its lines have no gaps. lines, apart, squares, columns: scratch: lines
    of `pitch` bytes, rows of all vectors of tiles, plus one vector, and a vector for each position of CHANNELS channels. into:
    for each position, `position` bytes apart, panels of `panel` bytes, then one of the remaining vectors. norms: the tile's
    factor of each output's bound, with room for a vector of tiles after the last; part: the share of the norm of all elements
    of a tile in these, the bits of a float64.
    """
    return _Inputs(target, data_type, across, contiguous, taps).text()


class _Inputs:
    def __init__(self, target: Target, data_type: DataType, across: int, contiguous: bool, taps: int) -> None:
        self.body, self.data_type, self.across, self.contiguous = Body(target), data_type, across, contiguous
        self.transform = TRANSFORMS[taps]
        self.lanes = target.vector_bytes // 8
        self.at_once = target.vector_bytes // 4
        self.iota = self.body.constants("i64", range(self.at_once))

    def text(self) -> str:
        body = self.body
        ARGUMENTS.load(body)
        self.apart_row = body.op(f"mul i64 {body.op('add i64 %vectors, 1')}, {4 * self.lanes}")
        wide = Kind("double", self.lanes)

        def empty(v: str, _: list[Value]) -> list[Value]:
            body.stored(body.constant(wide, 0.0), "%squares", body.op(f"mul i64 {v}, {8 * self.lanes}"))
            return []

        # squares of the elements read, and of their transforms at each position
        body.loop("0", body.op(f"mul i64 %vectors, {1 + self.transform.positions}"), 1, [], empty)
        up = body.op(f"and i64 {body.op(f'add i64 %channels, {CHANNELS - 1}')}, {-CHANNELS}")
        body.loop("0", up, CHANNELS, [], self._some)
        self._measure()
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _some(self, first: str, _: list[Value]) -> list[Value]:
        """Transform some channels: each step for all of them, so that no step reads what was written just before."""
        body = self.body
        left = body.op(f"sub i64 %channels, {first}")
        count = body.call("llvm.umin.i64", Kind("i64"), f"i64 {left}", f"i64 {CHANNELS}").name
        lines = body.op(f"add i64 {body.op(f'mul i64 %tile_rows, {TILE}')}, {self.transform.read - TILE}")
        lines_bytes = body.op(f"mul i64 {lines}, %pitch")
        apart_bytes = body.op(f"mul i64 {self.apart_row}, {self.transform.positions}")

        def each(step: Callable[[str, str, str], None]) -> None:
            def one(n: str, _: list[Value]) -> list[Value]:
                at = body.at("%lines", body.op(f"mul i64 {n}, {lines_bytes}"))
                step(body.op(f"add i64 {first}, {n}"), at, body.at("%apart", body.op(f"mul i64 {n}, {apart_bytes}")))
                return []

            body.loop("0", count, 1, [], one)

        def copy(c: str, into: str, _: str) -> None:
            self._copy(body.at("%b", body.op(f"mul i64 {c}, %term")), into, lines)

        def take_apart(_: str, from_: str, into: str) -> None:
            body.loop("0", "%tile_rows", 1, [], lambda r, _: self._take_apart(from_, into, r))

        each(copy)
        each(take_apart)
        body.loop("0", "%vectors", 1, [], lambda v, _: self._transform(first, count, apart_bytes, v))
        return []

    def _copy(self, from_: str, into: str, lines: str) -> None:
        """Copy a channel's lines, with zeros outside of the tensor."""
        body, size, i64 = self.body, self.data_type.dtype.itemsize, Kind("i64")
        kind = Kind(f"i{8 * size}", self.at_once)
        low, high = (body.splat(Value(body, x, i64), self.at_once) for x in ("%low2", "%high2"))
        ends = (
            body.intrinsic("smax", Value(body, f"%{end}", i64) - Value(body, "%first", i64), "i64 0")
            for end in ("low1", "high1")
        )
        begin, stop = (body.intrinsic("umin", end, f"i64 {lines}") for end in ends)
        stop = body.intrinsic("umax", begin, stop)
        step = None if self.contiguous else "%place"

        def group(i: str, _: list[Value]) -> list[Value]:
            at = body.splat(Value(body, i, i64), self.at_once) + self.iota
            active = at.compared("sge", low) & at.compared("slt", high)
            place, to = body.at(from_, body.op(f"mul i64 {i}, %place")), body.at(into, body.op(f"mul i64 {i}, 4"))

            def line(n: str, _: list[Value]) -> list[Value]:
                y = body.op(f"add i64 %first, {n}")
                bits = masked(body, kind, body.at(place, body.op(f"mul i64 {y}, %line")), step, active)
                body.stored(singles.widened(bits, self.data_type), to, body.op(f"mul i64 {n}, %pitch"))
                return []

            def none(n: str, _: list[Value]) -> list[Value]:
                body.stored(body.constant(Kind("float", self.at_once), 0.0), to, body.op(f"mul i64 {n}, %pitch"))
                return []

            body.loop("0", begin.name, 1, [], none)
            body.loop(begin.name, stop.name, 1, [], line)
            body.loop(stop.name, lines, 1, [], none)
            return []

        body.loop("0", body.op("udiv i64 %pitch, 4"), self.at_once, [], group)

    def _take_apart(self, lines: str, apart: str, r: str) -> list[Value]:
        """Split the lines of a row of tiles: one row for each place of a tile, to which the next row of tiles is appended."""
        body, lanes = self.body, self.lanes
        from_ = body.at(lines, body.op(f"mul i64 {body.op(f'mul i64 {r}, {TILE}')}, %pitch"))
        to = body.at(apart, body.op(f"mul i64 {body.op(f'mul i64 {r}, %tiles')}, 4"))
        kind = Kind("float", TILE * lanes)

        def vector(t: str, _: list[Value]) -> list[Value]:
            at, into = body.at(from_, body.op(f"mul i64 {t}, {4 * TILE}")), body.at(to, body.op(f"mul i64 {t}, 4"))
            for _i in range(self.transform.read):
                here, next_ = body.loaded(kind, at), body.loaded(kind, at, 4 * TILE)
                for j in range(self.transform.read):
                    x = here if j < TILE else next_
                    mask = ", ".join(f"i32 {TILE * lane + j % TILE}" for lane in range(lanes))
                    some = body.value(f"shufflevector {x!r}, {x!r}, <{lanes} x i32> <{mask}>", Kind("float", lanes))
                    body.stored(some, into)
                    into = body.at(into, self.apart_row)
                at = body.at(at, "%pitch")
            return []

        up = body.op(f"and i64 {body.op(f'add i64 %tiles, {lanes - 1}')}, {-lanes}")
        body.loop("0", up, lanes, [], vector)
        return []

    def _transform(self, first: str, count: str, apart_bytes: str, v: str) -> list[Value]:
        """Transform a vector of tiles in `count` channels, columns first, and by memory: so few registers are needed."""
        body, lanes, read = self.body, self.lanes, self.transform.read
        wide, of_vector = Kind("double", lanes), 8 * lanes
        row, place = body.op(f"mul i64 %vectors, {of_vector}"), body.op(f"mul i64 {v}, {of_vector}")
        down = body.op(f"mul i64 {self.apart_row}, {read}")
        begin = body.at("%apart", body.op(f"mul i64 {v}, {4 * lanes}"))

        def of_channel(n: str) -> str:
            return body.at("%columns", body.op(f"mul i64 {n}, {of_vector * self.transform.positions}"))

        def columns(n: str, given: list[Value]) -> list[Value]:
            at, to = body.at(begin, body.op(f"mul i64 {n}, {apart_bytes}")), of_channel(n)

            def one(j: str, given: list[Value]) -> list[Value]:
                (squares,), column = given, []
                here, into = (
                    body.at(at, body.op(f"mul i64 {j}, {self.apart_row}")),
                    body.at(to, body.op(f"mul i64 {j}, {of_vector}")),
                )
                for i in range(read):
                    x = body.loaded(wide.of("float"), here).converted("fpext", wide)
                    squares = body.fused(x, x, squares)
                    column.append(x)
                    here = body.at(here, down) if i + 1 < read else here
                for i, x in enumerate(self.transform.of_input(column)):
                    body.stored(x, into, of_vector * i * read)
                return [squares]

            return body.loop("0", str(read), 1, given, one)[1]

        squares = body.loop("0", count, 1, [body.loaded(wide, "%squares", place)], columns)[1][0]
        body.stored(squares, "%squares", place)
        panel = body.op(f"udiv i64 {v}, {self.across}")
        within = body.op(f"sub i64 {v}, {body.op(f'mul i64 {panel}, {self.across}')}")
        left = body.op("sub i64 %vectors, %full")
        whole = body.op(f"icmp ult i64 {v}, %full")
        width = body.op(f"select i1 {whole}, i64 {self.across}, i64 {left}")
        offset = body.op(f"add i64 {body.op(f'mul i64 {first}, {width}')}, {within}")
        into = body.at("%into", body.op(f"mul i64 {panel}, %panel"))
        into = body.at(into, body.op(f"mul i64 {offset}, {of_vector}"))
        further = body.op(f"mul i64 {width}, {of_vector}")

        def line(i: str, _: list[Value]) -> list[Value]:
            number = body.op(f"mul i64 {i}, {read}")
            to, from_ = body.at(into, body.op(f"mul i64 {number}, %position")), body.op(f"mul i64 {number}, {of_vector}")
            at = body.op(f"add i64 {place}, {body.op(f'mul i64 {row}, {number}')}")
            places = []
            for _j in range(read):
                at = body.op(f"add i64 {at}, {row}")
                places.append(at)

            def channel(n: str, sums: list[Value]) -> list[Value]:
                xs = [body.loaded(wide, body.at(of_channel(n), from_), of_vector * j) for j in range(read)]
                made, here = [], body.at(to, body.op(f"mul i64 {n}, {further}"))
                for x, total in zip(self.transform.of_input(xs), sums, strict=True):
                    body.stored(x, here)
                    here = body.at(here, "%position")
                    made.append(body.fused(x, x, total))
                return made

            # the squares of all channels of a position are added in registers
            found = body.loop("0", count, 1, [body.loaded(wide, "%squares", at) for at in places], channel)[1]
            for x, at in zip(found, places, strict=True):
                body.stored(x, "%squares", at)
            return []

        body.loop("0", str(read), 1, [], line)
        return []

    def _measure(self) -> None:
        """Store the norms of the outputs, in lines."""
        body, lanes, winograd = self.body, self.lanes, self.transform
        wide = Kind("double", lanes)
        part = body.splat(Value(body, body.op("bitcast i64 %part to double"), Kind("double")), lanes)
        vectors = body.op(f"udiv i64 {body.op(f'add i64 %tiles, {lanes - 1}')}, {lanes}")
        last, row, line = (body.op(x) for x in (f"sub i64 {vectors}, 1", f"mul i64 %vectors, {8 * lanes}", "mul i64 %width, 8"))

        def tile_row(r: str, _: list[Value]) -> list[Value]:
            first = body.op(f"mul i64 {r}, %tiles")
            lines = body.at("%norms", body.op(f"mul i64 {body.op(f'mul i64 {r}, {TILE}')}, {line}"))

            def vector(n: str, _: list[Value]) -> list[Value]:
                # from the last to the first: what a vector writes beyond its end is overwritten later
                t = body.op(f"mul i64 {body.op(f'sub i64 {last}, {n}')}, {lanes}")
                at = body.at("%squares", body.op(f"mul i64 {body.op(f'add i64 {first}, {t}')}, 8"))
                whole = body.loaded(wide, at)
                first_row = body.at(at, row)

                def square(i: int, j: int) -> Value:
                    return body.loaded(wide, body.at(first_row, body.op(f"mul i64 {row}, {i * winograd.read + j}")))

                weights = winograd.filter_norms / winograd.input_norms
                found_all = winograd.weighted(square, whole, winograd.input_norms, part, weights)
                into = body.at(lines, body.op(f"mul i64 {t}, {8 * TILE}"))
                for i, found in enumerate(found_all):
                    scales = [float(SLACK * np.sqrt(winograd.amplified[i] * y)) for y in winograd.amplified]
                    made = [x.root() * scale for x, scale in zip(found, scales, strict=True)]
                    body.stored(interleaved(body, made), into)
                    into = body.at(into, line)
                return []

            body.loop("0", vectors, 1, [], vector)
            return []

        body.loop("0", "%tile_rows", 1, [], tile_row)
