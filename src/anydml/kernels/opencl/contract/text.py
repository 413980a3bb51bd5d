"""The program of a contraction: OpenCL C for its types, its formula and the order in which its terms are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

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


def text(target: Target, key: TextKey, *, processor: bool) -> str:
    """The program with the kernels "products", "pairs" and "singles". processor: whether the device is one."""
    functions = ElementFunctions(target, key.formula)
    lines = definitions(key, functions.pointers, functions.pointers)
    numbers = dict(MOST=MOST, SINGLES=SINGLES, WORDS=WORDS)
    lines += [f"#define {name} {value}" for name, value in numbers.items()]
    for side, t in zip("AB", key.factors, strict=True):
        lines += [f"#define {side}_TYPE {_TYPES[t]}", f"#define {side}_WIDE(x) ({_WIDE[t]})"]
        lines.append(f"#define {side}_VALUE(x, i) {side}_WIDE(x)")
    types = [key.formula.types[k] for k in (*key.formula.others, -1)]
    lines += [*rows_of(types, functions.pointers), _HALF]
    lines += [*numbers_of("double", "double8", 8, "-0.0", "fused(u, v, w)"), f"#define TILES {int(not processor)}", ""]
    files = ("blocks.cl", "float_blocks.cl") if processor else ()
    first = functions.first_value() if processor else functions.first()
    return opencl.program([first, functions.pair(), functions.sum(), *lines, *own("terms.cl", "products.cl", *files)])


def numbers_of(number: str, vector: str, lanes: int, nothing: str, added: str) -> list[str]:
    """The macros of blocks: see blocks.cl."""
    macros = {"NUMBER": number, "VECTOR": vector, "LANES": lanes, "NOTHING": nothing, "ADDED(u, v, w)": added}
    return [f"#define {name} {value}" for name, value in macros.items()]


def rows_of(types: Sequence[DataType], pointers: Sequence[str]) -> list[str]:
    """The macros by which blocks read and write a row: see blocks.cl. types: of the pointers, the output last."""
    made = [opencl.UNSIGNED[f"i{t.element_bits}"] for t in types]
    reads = [f"READ_ROW({t}, {p}, {p[1:]})" for t, p in zip(made[:-1], pointers, strict=False)]
    return [
        f"#define READ_ROWS {' '.join(reads)}",
        f"#define ROW_VALUES(t) {''.join(f', {p}_row[t]' for p in pointers[:-1])}",
        f"#define OUTPUT {pointers[-1]}",
        f"#define OUTPUT_TYPE {made[-1]}",
    ]


def definitions(key: Any, pointers: Sequence[str], read: Sequence[str]) -> list[str]:
    """The macros of all tiles. key: a `TextKey`, or one of integers. read: the pointers that elements are made of."""
    numbers = dict(
        THREADS=THREADS, ACROSS=ACROSS, DOWN=THREADS // ACROSS, COLUMNS=COLUMNS, ROWS=ROWS, GROUPS=ROWS * ACROSS // THREADS,
        DEPTH=DEPTH, DEEP=DEEP, BLOCK=BLOCK, STREAMS=len(pointers), PADDED=int(key.padded), ONE_POSITION=int(key.one_position),
        A_BY_TERM=int(key.by_term[0]), B_BY_TERM=int(key.by_term[1]),
    )  # fmt: skip
    return [
        *(f"#define {name} {value}" for name, value in numbers.items()),
        f'#define UNROLLED _Pragma("unroll {UNROLL}")',
        f"#define STREAM_POINTERS {', '.join(f'global uchar *{p}' for p in pointers)}",
        f"#define STREAM_PLACES {', '.join(place(pointers.index(p), p) for p in read)}",
    ]


def place(k: int, pointer: str, along: str = "rzyx") -> str:
    """The address of an element of a stream, by the row r and the column's z, y, x, or by some of them."""
    steps = [f"{name} * n[N_STREAMS + {4 * k + i}]" for i, name in enumerate("rzyx") if name in along]
    return f"{pointer} + ({' + '.join([f'offsets[{2 + k}]', *steps])})"


def own(*names: str) -> list[str]:
    """Files of OpenCL C beside this one."""
    return [Path(__file__).with_name(name).read_text() for name in names]
