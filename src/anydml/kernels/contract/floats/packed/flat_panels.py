"""The packing of columns that form small contiguous planes: one vector reads elements of several lines.

A term's elements of such columns are contiguous across the ends of lines; masks select the columns for which a term counts.
"""

from __future__ import annotations

from anydml.kernels.code.emit import fold, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats.layout import ENTRY, FloatLayout
from anydml.kernels.contract.floats.packed.lines import lines
from anydml.kernels.contract.floats.packed.panels import ARGUMENTS, Panels
from anydml.kernels.contract.floats.packed.tile import leave
from anydml.kernels.elementwise.levels import bits_as_lanes, lanes_as_bits
from anydml.tensor import DataType

PLANE = 256  # the most columns of a plane: in larger ones, a panel covers only one or two lines
POSITIONS = 25  # the most positions of the filter: their tables are on the stack
GROUP = 32  # bytes of a group's record: offsets in the tensor and in the panel's row, its plane, its first column there
MASK, BITS = 2, 16  # bytes of a mask, and its columns: at least as many as a vector has lanes
COUNTING = PLANE // 8 + 4  # bytes of a plane's columns, a bit each


def serves(found: FloatLayout, size: int) -> bool:
    """Whether the columns form small contiguous planes. size: bytes of an element."""
    _, count, width = found.sizes
    flat = found.b.columns[2] == size and found.b.columns[1] == width * size
    return found.padded and flat and count > 1 and count * width <= PLANE and len(found.table) <= POSITIONS


def packed(target: Target, data_type: DataType, across: int) -> str:
    """The kernel that packs panels of `across` vectors of float64; arguments and norms: as in `panels.packed`."""
    return _Flat(target, data_type, across).text()


class _Flat(Panels):
    """Packing by groups of at most a vector's columns, each group in one plane."""

    def __init__(self, target: Target, data_type: DataType, across: int) -> None:
        super().__init__(target, data_type, across, 1, True)

    def text(self) -> str:
        body = self.body
        ARGUMENTS.load(body)
        when(body, body.op(f"icmp ne i64 {body.load('i64', '%done')}, 0"), lambda: leave(body))
        self.groups = body.op(f"alloca [{GROUP * self.width} x i8], align 64")
        self.masks = body.op(f"alloca [{MASK * self.width * POSITIONS} x i8], align 64")
        self.counter = body.op("alloca i64, align 8")
        self.plane = body.op("mul i64 %n1, %n2")
        self.n2 = Value(body, body.op("trunc i64 %n2 to i32"), Kind("i32"))
        self.counting = body.op(f"alloca [{COUNTING * POSITIONS} x i8], align 64")
        self._count()
        up = body.op(f"add i64 %count, {self.width - 1}")

        def panel(p: str, _: list[Value]) -> list[Value]:
            done = body.op(f"mul i64 {p}, {self.width}")
            left = body.op(f"sub i64 %count, {done}")
            columns = body.op(f"select i1 {body.op(f'icmp ult i64 {left}, {self.width}')}, i64 {left}, i64 {self.width}")
            into = body.at("%into", body.op(f"mul i64 {p}, %panel"))
            norms = body.at("%norms", body.op(f"mul i64 {done}, 8"))
            count = self._grouped(body.op(f"add i64 %first, {done}"), columns)
            body.loop("0", count, 1, [], lambda g, _: self._masked_positions(g, norms))
            self._terms(into, [], lambda entry, from_, to, _: self._term(count, entry, from_, to))
            self._measure(into, norms)
            return []

        body.loop("0", body.op(f"udiv i64 {up}, {self.width}"), 1, [], panel)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _grouped(self, first: str, columns: str) -> str:
        """Write the records of a panel's groups. -> their number"""
        body, lanes = self.body, self.lanes
        size = self.data_type.dtype.itemsize
        counter = self.counter
        body.store("i64", "0", counter)

        def run(_: str, done: str, length: str, z: str, __: str, x: str) -> None:
            up = body.op(f"and i64 {body.op(f'add i64 {length}, {lanes - 1}')}, {-lanes}")

            def one(i: str, _: list[str]) -> list[str]:
                number = body.load("i64", counter)
                record = body.at(self.groups, body.op(f"mul i64 {number}, {GROUP}"))
                at = body.op(f"add i64 {x}, {i}")
                offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %s0')}, {body.op(f'mul i64 {at}, {size}')}")
                place = body.op(f"mul i64 {body.op(f'add i64 {done}, {i}')}, 4")
                for k, value in enumerate((offset, place, z, at)):
                    body.store("i64", value, record, 8 * k)
                body.store("i64", body.op(f"add i64 {number}, 1"), counter)
                return []

            fold(body, "0", up, lanes, [], one)

        lines(body, first, columns, ("1", self.plane), run)
        return body.load("i64", counter)

    def _count(self) -> None:
        """Write, for each position, the bits of the columns of a plane for which it counts; 0 beyond the plane."""
        body = self.body
        end = body.op(f"add i64 {self.plane}, {2 * BITS - 1}")
        masks = "avx512bw" in self.target.features  # without AVX-512, masks are vectors of integers

        def group(g: str, _: list[Value]) -> list[Value]:
            y, x = self._lines_of(body.op(f"mul i64 {g}, {BITS}"))

            def position(p: str, _: list[Value]) -> list[Value]:
                entry = body.at("%table", body.op(f"mul i64 {p}, {8 * ENTRY}"))
                found = None
                for value, first in ((y, 32), (x, 48)):
                    ends = (body.op(f"trunc i64 {body.load('i64', entry, first + at)} to i32") for at in (0, 8))
                    low, high = (body.splat(Value(body, n, Kind("i32")), BITS) for n in ends)
                    for counts in (value.compared("sgt", low - 1), value.compared("slt", high)):
                        counts = counts if masks else counts.converted("sext", value.kind)
                        found = counts if found is None else found & counts
                assert found is not None
                bits = lanes_as_bits(found if masks else found.compared("slt", 0))
                at = body.op(f"add i64 {body.op(f'mul i64 {p}, {COUNTING}')}, {body.op(f'mul i64 {g}, {MASK}')}")
                body.store("i16", body.op(f"trunc i64 {bits} to i16"), body.at(self.counting, at))
                return []

            body.loop("0", "%positions", 1, [], position)
            return []

        body.loop("0", body.op(f"udiv i64 {end}, {BITS}"), 1, [], group)

    def _masked_positions(self, g: str, norms: str) -> list[Value]:
        """Write each position's mask of a group's columns; as norms, 1 for columns for which all positions count, else -1."""
        body, lanes = self.body, self.lanes
        record = body.at(self.groups, body.op(f"mul i64 {g}, {GROUP}"))
        place, z, at = (body.load("i64", record, 8 * k) for k in (1, 2, 3))
        from_ = body.at(self.counting, body.op(f"lshr i64 {at}, 3"))
        by = body.op(f"trunc i64 {body.op(f'and i64 {at}, 7')} to i32")
        masks = body.at(self.masks, body.op(f"mul i64 {g}, {MASK}"))

        def position(p: str, carried: list[Value]) -> list[Value]:
            entry = body.at("%table", body.op(f"mul i64 {p}, {8 * ENTRY}"))
            low, high = (body.load("i64", entry, n) for n in (16, 24))
            in_plane = body.op(f"and i1 {body.op(f'icmp sge i64 {z}, {low}')}, {body.op(f'icmp slt i64 {z}, {high}')}")
            word = body.load("i32", from_, body.op(f"mul i64 {p}, {COUNTING}"))
            bits = body.op(f"trunc i32 {body.op(f'lshr i32 {word}, {by}')} to i16")
            bits = body.op(f"select i1 {in_plane}, i16 {bits}, i16 0")
            body.store("i16", bits, body.at(masks, body.op(f"mul i64 {p}, {MASK * self.width}")))
            return [carried[0] & Value(body, bits, carried[0].kind)]

        (all_,) = body.loop("0", "%positions", 1, [body.constant(Kind("i16"), -1)], position)[1]
        one, other = (body.constant(Kind("double", lanes), x) for x in (1.0, -1.0))
        body.stored(body.chosen(self._mask(all_.name), one, other), body.at(norms, body.op(f"mul i64 {place}, 2")))
        return []

    def _mask(self, bits: str) -> Value:
        """16 bits as a mask of lanes."""
        body, lanes = self.body, self.lanes
        if "avx512bw" in self.target.features:
            return bits_as_lanes(body, body.op(f"zext i16 {bits} to i64"), lanes)
        each = body.constants("i32", [1 << lane for lane in range(lanes)])
        word = Value(body, body.op(f"zext i16 {bits} to i32"), Kind("i32"))
        return (body.splat(word, lanes) & each).compared("eq", each)

    def _lines_of(self, at: str) -> tuple[Value, Value]:
        """The lines of the columns from `at` on in a plane, and their places in these lines."""
        body = self.body
        first = Value(body, body.op(f"trunc i64 {at} to i32"), Kind("i32"))
        places = body.splat(first, BITS) + body.constants("i32", range(BITS))
        width = body.splat(self.n2, BITS)
        # with so few columns, adding a half outweighs the roundings of float32
        kind = Kind("float", BITS)
        share = (places.converted("sitofp", kind) + 0.5) / width.converted("sitofp", kind)
        y = share.converted("fptosi", places.kind)
        return y, places - y * width

    def _term(self, count: str, entry: str, from_: str, to: str) -> list[Value]:
        """Write a row of a panel: a term's elements, and zeros where it does not count."""
        body, size = self.body, self.data_type.dtype.itemsize
        apart = body.op(f"sub i64 {body.op(f'ptrtoint ptr {entry} to i64')}, {body.op('ptrtoint ptr %table to i64')}")
        number = body.op(f"udiv i64 {apart}, {8 * ENTRY}")
        masks = body.at(self.masks, body.op(f"mul i64 {number}, {MASK * self.width}"))

        def group(g: str, _: list[Value]) -> list[Value]:
            record = body.at(self.groups, body.op(f"mul i64 {g}, {GROUP}"))
            offset, place = (body.load("i64", record, 8 * k) for k in (0, 1))
            mask = self._mask(body.load("i16", masks, body.op(f"mul i64 {g}, {MASK}")))
            elements = body.masked(Kind(f"i{8 * size}", self.lanes), body.at(from_, offset), mask)
            body.stored(self._single(elements), body.at(to, place))
            return []

        body.loop("0", count, 1, [], group)
        return []
