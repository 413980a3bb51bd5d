"""The layout of a problem on an instruction set: groups of K, panels of columns, blocks of K, and the key of its tiles."""

from __future__ import annotations

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Step
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import tuning
from anydml.kernels.contract.dot import dot_of, shift_of
from anydml.kernels.contract.epilogue.estimates import BY_COLUMN, BY_ROW
from anydml.kernels.contract.geometry import Batch
from anydml.kernels.contract.problem import OPEN, WRAPS, IntegerProblem
from anydml.kernels.contract.tile import TileKey, column_bytes, panel_columns
from anydml.kernels.copy import copies

BLOCK_OF_K = 1 << 15


class IntegerLayout:
    """The numbers that all steps of a problem share.

    rows, row_products: what work is divided by, rows of A or lines of the output, and a row's products with a column. groups:
    steps of K. width, panels, panel_bytes: the columns of a panel, the number of panels, the bytes of a packed one. block,
    blocks: if int32 cannot hold the sums, K is divided into blocks whose sums it holds. kind, sum_kind: the keys of tiles, and
    of tiles of these blocks.
    """

    def __init__(self, p: IntegerProblem, target: Target, lines: int | None = None) -> None:
        self.problem, self.target, self.dot, self.tuning = p, target, dot_of(target), tuning.TUNING
        self.rows = p.m if lines is None else lines
        self.row_products = p.k * p.m // self.rows
        self.quantized = p.scales is not None
        self.size = 4 if p.output == "i32" else 1
        self.groups = -(-p.k // self.dot.group)
        self.width = panel_columns(target)
        self.panels = -(-p.n // self.width)
        self.panel_bytes = self.groups * self.width * self.dot.depth
        self.row_bytes = self.dot.depth * self.groups  # bytes of a row of A as a tile reads it
        self.block = BLOCK_OF_K if self.quantized and p.k > WRAPS else p.k
        self.blocks = -(-p.k // self.block)
        full = bool(p.a_zero_point.row or p.b_zero_point.column)
        by = "" if p.estimated is None else BY_COLUMN if p.numbers.column else BY_ROW
        clamped = p.estimated is not None and p.estimated.clamped
        self.kind = TileKey(
            p.a_signed,
            self.dot.b_signed(p.a_signed, p.b_signed),
            p.output,
            full,
            p.bias is not None and not p.column_biased,
            by,
            clamped,
            p.column_biased,
        )
        self.sum_kind = self.kind._replace(output="i32", biased=False) if self.blocks > 1 else self.kind
        self.shift = shift_of(target, p.a_signed, p.b_signed)
        self.pad = At("constants", 64 if self.shift else 0)  # a row of B that stands for those beyond the last

    @property
    def sums_bytes(self) -> int:
        """The bytes of the sums of B's columns, for all blocks of K."""
        return self.blocks * self.panels * self.width * 4

    @property
    def record_bytes(self) -> int:
        """The bytes of the record of a panel's columns."""
        return column_bytes(self.target)

    def estimates(self, batch: Batch, row: int, column: int) -> Arguments:
        """The arguments of a tile that estimates, from a row and a column on; {} for another tile."""
        p = self.problem
        if p.estimated is None:
            return {}
        numbers = Arguments(numbers=p.numbers.of(batch, row, column), pitch=p.estimated.pitch, step=p.numbers.row)
        return {**numbers, "origin": At(p.c.at.base), "ends": p.estimated.ends, "open": OPEN}

    def start(self, panel: int) -> int:
        """The column at which a panel begins: the last panel begins earlier rather than being partial, if possible."""
        return max(0, min(panel * self.width, self.problem.n - self.width))

    def end(self, panel: int) -> int:
        """The column at which a panel ends."""
        return min(self.start(panel) + self.width, self.problem.n)

    def depth(self, k: int) -> int:
        """The bytes from the start of a panel to its k-th element of K; k: a multiple of a group."""
        return k // self.dot.group * self.width * self.dot.depth

    def copied(self, sizes: tuple[int, ...], source: tuple[int, ...], into: tuple[int, ...], size: int, a: At, b: At) -> Step:
        """A strided copy from a to b of elements of `size` bytes; strides in bytes."""
        (step,) = copies.copy(self.target, sizes, source, into, size).steps(a, b, At("constants"))
        return step
