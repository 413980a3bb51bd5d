"""The dot products of bytes of each instruction set: the step that tiles consist of, and the tile that registers hold.

Nothing here saturates: x86's 8-bit multiply-add that saturates is not used. Without a dot product of bytes, A and B are widened
to 16 bits, of which pairs are multiplied and added exactly. With instructions that multiply 2 by 8 with 8 by 2 matrices of
bytes, a tile's rows are taken in pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from anydml.kernels.code.emit import Text, extend, shuffle
from anydml.kernels.code.targets import Target

Emit = Callable[[Text, str, str, str, bool, bool], str]

BIAS = 128  # the difference between a byte read as INT8 and as UINT8 with its highest bit flipped


class Dot(NamedTuple):
    """A dot-product step: a vector of int32 sums, the same four bytes of A for every lane, four bytes of B for each lane.

    group: the elements of K that a step takes of each row: 4 of 8 bits, 2 of 16, or the 8 of `square`. b_signed: whether B is
    packed as INT8, given whether A and B are INT8. planar: whether a vector of B holds the first elements of all columns, then
    the second ones. rows, vectors: the largest tile. chains: the independent sums that keep the units busy. emit: text, sums,
    A's bytes, B's bytes, whether A is INT8, whether B is -> new sums. square: the same with two rows of A, eight bytes each,
    and two columns of B; sums: both of the first row, then of the second. amx: whether tile registers multiply most of K.
    """

    group: int
    b_signed: Callable[[bool, bool], bool]
    planar: bool
    rows: int
    vectors: int
    chains: int
    declarations: tuple[str, ...]
    emit: Emit
    square: Emit | None = None
    amx: bool = False

    @property
    def ones(self) -> int:
        """Four bytes of A or B whose elements are 1."""
        return 0x00010001 if self.group == 2 else 0x01010101

    @property
    def depth(self) -> int:
        """The bytes of a row of A, or of a column of packed B, that a step takes."""
        return 8 if self.square else 4


def _bytes(text: Text, sums: str, a: str, b: str, a_signed: bool, b_signed: bool, *, bits: int) -> str:
    """vpdpbusd: its first operand is unsigned, its second one signed."""
    ints, bytes_ = f"<{bits // 32} x i32>", f"<{bits // 8} x i8>"
    a, b = (text.op(f"bitcast {ints} {x} to {bytes_}") for x in (a, b))
    first, second = (b, a) if a_signed else (a, b)
    return text.op(f"call {ints} @llvm.x86.avx512.vpdpbusd.{bits}({ints} {sums}, {bytes_} {first}, {bytes_} {second})")


def _pairs(text: Text, sums: str, a: str, b: str, a_signed: bool, b_signed: bool, *, bits: int) -> str:
    """pmaddwd and an addition."""
    ints, shorts = f"<{bits // 32} x i32>", f"<{bits // 16} x i16>"
    a, b = (text.op(f"bitcast {ints} {x} to {shorts}") for x in (a, b))
    products = text.op(f"call {ints} @llvm.x86.{_PAIRS[bits]}({shorts} {a}, {shorts} {b})")
    return text.op(f"add {ints} {sums}, {products}")


def multiplied_pairs(text: Text, target: Target, sums: str, a: str, b: str) -> str:
    """Vectors of int32 sums, plus the products of pairs of 16 bits; for x86."""
    return _pairs(text, sums, a, b, True, True, bits=8 * target.vector_bytes)


def pairs_declaration(target: Target) -> str:
    return _pairs_declaration(8 * target.vector_bytes)


def _pairs_declaration(bits: int) -> str:
    ints, shorts = f"<{bits // 32} x i32>", f"<{bits // 16} x i16>"
    return f"declare {ints} @llvm.x86.{_PAIRS[bits]}({shorts}, {shorts})"


def _anywhere(text: Text, sums: str, a: str, b: str, a_signed: bool, b_signed: bool) -> str:
    """Products of 16 bits, widened, with instructions that every processor has; all lanes have the same bytes of A."""
    for half in range(2):
        factors = []
        for x, chosen in ((a, [half] * 4), (b, range(4 * half, 4 * half + 4))):
            shorts = text.op(f"bitcast <4 x i32> {x} to <8 x i16>")
            factors.append(text.op(f"sext <4 x i16> {shuffle(text, shorts, shorts, '<8 x i16>', chosen)} to <4 x i32>"))
        sums = text.op(f"add <4 x i32> {sums}, {text.op(f'mul <4 x i32> {factors[0]}, {factors[1]}')}")
    return sums


def _arm(text: Text, sums: str, a: str, b: str, a_signed: bool, b_signed: bool, *, how: str) -> str:
    """sdot, udot or usdot; smmla, ummla or usmmla: if signs differ, the first operand is the unsigned one."""
    a, b = (text.op(f"bitcast <4 x i32> {x} to <16 x i8>") for x in (a, b))
    kind = "us" if a_signed != b_signed else "s" if a_signed else "u"
    first, second = (b, a) if a_signed and not b_signed else (a, b)
    return text.op(f"call {_arm_function(kind + how)}(<4 x i32> {sums}, <16 x i8> {first}, <16 x i8> {second})")


def _arm_function(name: str) -> str:
    return f"<4 x i32> @llvm.aarch64.neon.{name}.v4i32.v16i8"


_PAIRS = {512: "avx512.pmaddw.d.512", 256: "avx2.pmadd.wd", 128: "sse2.pmadd.wd"}


def _of_bytes(bits: int, rows: int, chains: int) -> Dot:
    ints, bytes_ = f"<{bits // 32} x i32>", f"<{bits // 8} x i8>"
    declaration = f"declare {ints} @llvm.x86.avx512.vpdpbusd.{bits}({ints}, {bytes_}, {bytes_})"
    return Dot(4, lambda a, b: not a, False, rows, 2, chains, (declaration,), partial(_bytes, bits=bits))


def _of_pairs(bits: int, rows: int, chains: int) -> Dot:
    return Dot(2, _widened, False, rows, 2, chains, (_pairs_declaration(bits),), partial(_pairs, bits=bits))


def _of_arm(rows: int, matrices: bool) -> Dot:
    """Dot products of operands of one sign; with `matrices`, also of UINT8 with INT8, and of both shapes."""
    names = ("sdot", "udot", *(("usdot", "smmla", "ummla", "usmmla") if matrices else ()))
    declarations = tuple(f"declare {_arm_function(name)}(<4 x i32>, <16 x i8>, <16 x i8>)" for name in names)
    if not matrices:
        return Dot(4, lambda a, b: a, False, rows, 2, 8, declarations, partial(_arm, how="dot"))
    # a product of INT8 with UINT8 would have its rows and columns exchanged
    emit, square = (partial(_arm, how=how) for how in ("dot", "mmla"))
    return Dot(8, lambda a, b: a or b, False, rows, 2, 8, declarations, emit, square)


def _widened(a_signed: bool, b_signed: bool) -> bool:
    """Whether B is packed as signed: always, since 16 bits hold both types."""
    return True


# rows and chains: python -m benchmarks.tiles tiles heights chains, on a Zen 5 server
DOTS = {
    # of 16 registers: the sums, two of B, one of A, one of products; 6 rows 0.80 of the limit, 5 0.81, 4 0.79
    ("x86", "generic"): _of_pairs(128, 5, 12),
    # 6 rows 0.96, and 7 spill: 0.62. Chains: three rows have 0.94 with 12 sums and 0.83 with 6, four spill with 16
    ("x86", "avx2"): _of_pairs(256, 6, 12),
    # 8 to 14 rows within 1 %, and 15 spill: 0.64; with rows of A 8 KB apart 10 rows 0.90, 12 0.87 (see below)
    ("x86", "avx512bw"): _of_pairs(512, 10, 16),
    # 6 rows 0.97, and 7 spill: 0.32. Chains: one row has 0.62 with 8 sums and 0.50 with 16
    ("x86", "avx_vnni"): _of_bytes(256, 6, 12),
    # 6 to 14 rows within 1 %, but rows of A 4 KB apart meet in one set of the first cache: 8 rows 0.94, 12 0.89, 14 0.86
    ("x86", "avx512_vnni"): _of_bytes(512, 8, 16),
    ("x86", "amx_int8"): _of_bytes(512, 8, 16)._replace(amx=True),
    ("aarch64", "generic"): Dot(2, _widened, True, 8, 2, 8, (), _anywhere),
    ("aarch64", "dotprod"): _of_arm(12, False),
    ("aarch64", "i8mm"): _of_arm(12, True),
    ("other", "generic"): Dot(2, _widened, True, 4, 2, 8, (), _anywhere),
}


def dot_of(target: Target) -> Dot:
    return DOTS[target.architecture, target.name]


def shift_of(target: Target, a_signed: bool, b_signed: bool) -> int:
    """The number that is added to every element of B when it is packed, since the dot product determines B's type."""
    dot = dot_of(target)
    if dot.group == 2 or dot.b_signed(a_signed, b_signed) == b_signed:
        return 0
    return BIAS if b_signed else -BIAS


def shifted(text: Text, target: Target, byte: str, a_signed: bool, b_signed: bool) -> str:
    """A zero point of B, or a vector of them, shifted like packed B; i32."""
    shift = shift_of(target, a_signed, b_signed)
    wide = extend(text, byte, b_signed)
    return text.op(f"add i32 {wide}, {shift}")
