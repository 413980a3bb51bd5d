"""The key of a kernel of steps: what its text depends on, its arguments by name, and the tiles of sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.targets import Target
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.numbers.floats.transcendental import KINDS
from anydml.kernels.undecided.state import OWN
from anydml.tensor import DataType

INPUT, STATE, NUMBERS = "input", "state", "numbers"  # factors of sums
SUM, OLD, NEW, PARAMETER = "sum", "old", "new", "parameter"  # operands of formulas
MOST_STAGES = 8
LONGEST = OWN  # a word of the state: the most steps of a sequence. The state's row is an operation, counted from the first step
ACCUMULATORS = {64: 24, 32: 12}  # vectors of sums that the registers hold, by the bytes of a vector


class RowSource(NamedTuple):
    """Rows of factors of sums. number: of the state, or of the stage. rows, across: the rows and vectors of a tile of sums.

    backward: the steps of an input are counted from the end. blocks: the weights, if these are not packed, as for
    few steps of a single sequence; 0 if they are packed. widened: whether weights are converted once for all tiles of rows.
    digits: of a number, where tile registers multiply; else 0.
    """

    kind: str
    number: int
    rows: int
    across: int
    backward: bool = False
    blocks: int = 0
    widened: bool = False
    digits: int = 0


class Leaf(NamedTuple):
    """An operand of a formula. number: of the source, state or parameter; block: the weights of a source, by their number."""

    kind: str
    number: int
    block: int = 0


class StepFormula(NamedTuple):
    """A formula for each unit of a step. state: the one that it computes; None for numbers that are factors of sums.

    before: the sources whose sums are computed before it.
    """

    state: int | None
    formula: NormalForm
    leaves: tuple[Leaf, ...]
    before: tuple[int, ...]


class StepOutput(NamedTuple):
    """An output: a state after every step, in order or reversed, or after the last one."""

    state: int
    last: bool
    backward: bool


class RecurrenceKey(NamedTuple):
    """A kernel of steps.

    starts: whether each state begins with an input's elements. lengths: whether sequences have lengths of their own.
    """

    data_type: DataType
    stages: tuple[StepFormula, ...]
    sources: tuple[RowSource, ...]
    starts: tuple[bool, ...]
    parameters: int
    results: tuple[StepOutput, ...]
    lengths: bool

    @property
    def operations(self) -> list[tuple[str, int]]:
        """The operations of a step, in order: the sums of a source, or a stage."""
        found: list[tuple[str, int]] = []
        for number, stage in enumerate(self.stages):
            found += [("sums", source) for source in stage.before]
            found.append(("stage", number))
        return found


class Factors(Protocol):
    """Factors of sums. number: of the state, or of the stage."""

    @property
    def kind(self) -> str: ...
    @property
    def number(self) -> int: ...


def read_by(stage: StepFormula) -> set[int]:
    """The sources whose sums a stage reads."""
    return {leaf.number for leaf in stage.leaves if leaf.kind == SUM}


def needed(stages: Sequence[StepFormula], sources: Sequence[Factors], number: int) -> list[int]:
    """The sources of a stage, in the order in which they are made."""
    found: list[int] = []
    for leaf in stages[number].leaves:
        if leaf.kind == SUM and leaf.number not in found:
            source = sources[leaf.number]
            if source.kind == NUMBERS:
                found += [n for n in needed(stages, sources, source.number) if n not in found]
            found.append(leaf.number)
    return found


@lru_cache(maxsize=64)
def signature(key: RecurrenceKey) -> Signature:
    """The arguments of the kernel; distances are in bytes.

    most: operations of a call. row, slot: from one sequence, and from one step, of a
    state to the next. chunk: steps whose sums over an input are computed at once. made: a group of elements.
    wide: room for a panel of DEPTH terms as float64.
    codes: for each stage, the address of the code that decides its undecided elements; 0 if there is none yet.
    """
    found = ["state", "list", "steps", "sequences", "units", "most", "row", "slot", "chunk", "made", "codes", "wide"]
    if key.lengths:
        found += ["lengths", "length_step"]
    for n, given in enumerate(key.starts):
        found += [f"history{n}"]
        if given:
            found += [f"start{n}", f"start{n}_sequence", f"start{n}_unit"]
    for n in range(key.parameters):
        found += [f"parameter{n}", f"parameter{n}_unit", f"kept{n}"]
    for n, source in enumerate(key.sources):
        found += [f"{x}{n}" for x in _OF_SOURCE]
        found += [f"{x}{n}" for x in _OF_DIGITS * bool(source.digits)]
        found += [f"{x}{n}_{k}" for k in range(source.blocks) for x in ("weights", "unit")]
        found += [f"{x}{n}" for x in {INPUT: _OF_INPUT, NUMBERS: _OF_NUMBERS}.get(source.kind, ())]
    for n, _ in enumerate(key.results):
        found += [f"result{n}", f"result{n}_step", f"result{n}_sequence", f"result{n}_unit"]
    return Signature(" ".join("*" * (name.rstrip("_0123456789") in _POINTERS) + name for name in found))


# packed: the rows; sums: their sums; norms: of the rows, columns: of the weights; block: of the sums of one unit's weights to
# those of the next; factor: of the bound; depth: terms in a block of a sum; fine: the sums of
# one sequence in three parts, `fine_part` bytes each
_OF_SOURCE = (
    "packed", "norms", "sums", "sums_row", "panels", "panel", "panel_count", "terms", "columns", "block", "factor", "depth",
    "fine", "fine_part",
)  # fmt: skip
# digits, scales: of the weights; digit_columns: of their registers; plain: see `digits.of_weights`. registers: room for sums;
# plainly: the factor of rows' bounds whose products are computed without digits
_OF_DIGITS = ("plainly", "digits", "scales", "digit_columns", "plain", "row_digits", "row_scales", "registers")
_OF_INPUT = ("input", "input_step", "input_sequence", "input_term")
_OF_NUMBERS = ("numbers", "numbers_row", "lost", "open", "pairs", "pairs_part")
_POINTERS = {"state", "list", "lengths", "history", "start", "parameter", "kept", "packed", "norms", "sums", "panels",
             "columns", "input", "numbers", "lost", "open", "result", "made", "fine", "pairs", "codes", "weights",
             "wide", "digits", "scales", "plain", "row_digits", "row_scales", "registers"}  # fmt: skip


def lanes_of(target: Target) -> int:
    """The number of units in a group."""
    return target.vector_bytes // 4


def lanes(target: Target, formula: NormalForm, *, finer: bool = False) -> int:
    """The number of units that a formula computes together, few enough for its values and constants to fit the stack frame.

    finer: in twice float64's precision.
    """
    usual = {node.op for node in formula if node.op in KINDS} <= {"sigmoid", "tanh"}
    if finer:
        return target.vector_bytes // (16 if usual else 32) if target.vector_bytes == 64 else 2 if usual else 1
    return lanes_of(target) if usual else max(2, target.vector_bytes // 16)


def tiles(target: Target, rows: int, vectors: int) -> tuple[int, int]:
    """The rows of a tile, and its vectors across, for a number of rows and of vectors of sums."""
    most = ACCUMULATORS.get(target.vector_bytes, 24 if target.architecture == "aarch64" else 8)
    tallest = 8 if most == 24 else 4
    height = -(-rows // -(-rows // tallest))
    across = max(1, min(8, most // height))
    panels = -(-vectors // across)
    return height, -(-vectors // panels)
