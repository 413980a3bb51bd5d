"""The program of a contraction: OpenCL C for its types, its formula and the order in which its terms are read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from anydml.kernels.code import opencl
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.opencl.contract.elements import ElementFunctions
from anydml.tensor import DataType

THREADS, ACROSS, COLUMNS, BLOCK, ROWS, DEPTH = 256, 16, 64, 64, 128, 16
UNROLL = 16  # terms
DEEP = 8  # tiles of terms that are summed before they are added to the others
MOST = 256  # undecided elements of a block that are decided one by one
SINGLES, WORDS = 64, 32
_TYPES = {DataType.FLOAT32: "float", DataType.FLOAT16: "ushort", DataType.BFLOAT16: "ushort"}
_WIDE = {
    DataType.FLOAT32: "(double)(x)",
    DataType.FLOAT16: "(double)half_value(x)",
    DataType.BFLOAT16: "(double)as_float((uint)(x) << 16)",
}
_HALF = "float half_value(ushort x) { return vload_half(0, (const half *)&x); }"


class TextKey(NamedTuple):
    """factors: the types of rows and columns. by_term: whether adjacent terms are closer than adjacent rows, and columns."""

    formula: Stored
    factors: tuple[DataType, DataType]
    by_term: tuple[bool, bool]
    one_position: bool
    padded: bool


def text(target: Target, key: TextKey) -> str:
    """The program with the kernels "products", "pairs" and "singles"."""
    functions = ElementFunctions(target, key.formula)
    count = len(functions.pointers)
    places = []
    for k, pointer in enumerate(functions.pointers):
        row, depth, line, across = (f"n[N_STREAMS + {4 * k + i}]" for i in range(4))
        places.append(f"{pointer} + (offsets[{2 + k}] + r * {row} + z * {depth} + y * {line} + x * {across})")
    numbers = dict(
        THREADS=THREADS, ACROSS=ACROSS, DOWN=THREADS // ACROSS, COLUMNS=COLUMNS, ROWS=ROWS, BLOCK=BLOCK,
        GROUPS=ROWS * ACROSS // THREADS, DEPTH=DEPTH, DEEP=DEEP, MOST=MOST, SINGLES=SINGLES, WORDS=WORDS, STREAMS=count,
        PADDED=int(key.padded), ONE_POSITION=int(key.one_position),
        A_BY_TERM=int(key.by_term[0]), B_BY_TERM=int(key.by_term[1]),
    )  # fmt: skip
    lines = [f"#define {name} {value}" for name, value in numbers.items()]
    lines.append(f'#define UNROLLED _Pragma("unroll {UNROLL}")')
    lines.append(f"#define STREAM_POINTERS {', '.join(f'global uchar *{p}' for p in functions.pointers)}")
    lines.append(f"#define STREAM_PLACES {', '.join(places)}")
    for side, t in zip("AB", key.factors, strict=True):
        lines += [f"#define {side}_TYPE {_TYPES[t]}", f"#define {side}_WIDE(x) ({_WIDE[t]})"]
    lines.append(_HALF)
    own = Path(__file__).with_name("products.cl").read_text()
    return opencl.program([functions.first(), functions.pair(), functions.sum(), "\n".join(lines), "", own])
