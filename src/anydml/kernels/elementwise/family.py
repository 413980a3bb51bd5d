"""Maps by machine code: every element from one element of each input, correctly rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod

from anydml.fork_safety import guard
from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import Aligned, At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import byte_tables, emit, emit_lines, tuning
from anydml.kernels.elementwise.combined import combined
from anydml.kernels.elementwise.estimated import quantised_sum
from anydml.kernels.elementwise.geometry import Box, parts, shares
from anydml.kernels.elementwise.int4 import in_bytes
from anydml.kernels.elementwise.key import MapKey, lanes_in_pairs, signature
from anydml.kernels.elementwise.levels import element, finer_kernel, finer_stage
from anydml.kernels.elementwise.regrouping import regrouped
from anydml.kernels.elementwise.runs import Run, TensorStart, in_order
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS, POSITION, STRIDED
from anydml.kernels.elementwise.undecided import UndecidedElements
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.maps import Map, maps
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.matched import lowers
from anydml.kernels.numbers.floats.rounding import SIXTEEN_BIT
from anydml.kernels.numbers.functions import paired
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.state import STATE_WORDS, state_and_list
from anydml.tensor import DataType

MOST_SPARE = 3000  # most bytes of a stack frame
IN_PAIRS = (DataType.FLOAT32, *SIXTEEN_BIT, DataType.UINT16, DataType.INT16, DataType.UINT8, DataType.INT8)  # of outputs
BEGIN_IN_PAIRS = {*paired.FUNCTIONS, "pow"}  # functions that are computed in pairs of float32 first


@lowers(maps)
def lower(found: list[Map], target: Target, problem: Problem, machine: Machine) -> Lowered | Refused:
    """Steps for the statement of a map."""
    if len(found) > 1:
        return Refused("there are several outputs")
    places = {name: TensorStart(At(name), t) for name, t in problem.tensors.items()}
    with guard:
        made = in_bytes(found[0], places, target, machine.threads)
    if isinstance(made, str):
        return Refused(made)
    short = prod(made.map.sizes) + sum(made.inner.values()) < tuning.TUNING.short
    if (of_all := byte_tables.of_all_bytes(made.map, made.places)) is not None:
        table = mapped(*of_all, target, 1)
        if isinstance(table, Run):
            with guard:
                both = [table, byte_tables.looked_up(made.map, made.places, target, machine.threads)]
            inner = {**made.inner, byte_tables.TABLE: byte_tables.SIZE}
            lowered = in_order(target, [*made.before, *both, *made.after], inner, short=short)
            return lowered._replace(constants=byte_tables.ALL)
    run = mapped(made.map, made.places, target, machine.threads)
    if isinstance(run, Refused):
        return run
    if made.inner:
        return in_order(target, [*made.before, run, *made.after], made.inner, short=short)
    decide = None if run.undecided is None else run.undecided.decide
    return Lowered(target, [Rounds(run.phases)], scratch=run.scratch, short=short, decide=decide)


def mapped(m: Map, places: Mapping[str, TensorStart], target: Target, most_threads: int) -> Run | Refused:
    """The steps of a map of tensors that begin at these places; each element takes whole bytes."""
    exact, m = m.formula, m._replace(formula=combined(m.formula))
    output = places[str(m.target.name)].tensor
    types = (*(s.data_type for s in m.streams), output.data_type)
    placed = [
        (s.start[0], [step[0] for step in s.steps]) if s.name is None else places[s.name].of(s) for s in (*m.streams, m.target)
    ]
    itemsize = output.data_type.dtype.itemsize
    strides = [s for _, s in placed]
    itemsizes = [t.dtype.itemsize for t in types]
    bases = [base for base, _ in placed]
    size = prod(m.sizes)
    threads = most_threads if size >= tuning.TUNING.alone else 1
    with guard:
        lanes, listed, finer = _trial(target, m.formula, m.moves, m.integral, types)
        levels: tuple[str, ...] = ("wide",)
        if listed and _paired(target, m.formula, types):
            levels, lanes = ("paired", "wide"), lanes_in_pairs(target)
        elif listed and _estimated(m.formula, types[-1], strides):
            levels, lanes = ("estimated", "wide"), lanes_in_pairs(target)
    cut = list(parts(m.sizes, strides, itemsizes))
    if listed and levels == ("wide",) and target.vector_bytes == 64 and all(_by_line(m, part) is not m.formula for part in cut):
        lanes *= 2  # there are enough registers, and work that is done once per group is halved
    if sum(n * lanes for n in itemsizes) > MOST_SPARE:
        return Refused("there are too many inputs")
    room = min(tuning.TUNING.room, -(-size // lanes) * lanes) + lanes
    # where far more is read than written, the cache gathers the stores as well
    # an input that many elements share stays in the cache, and does not count
    read = sum(n for n, steps in zip(itemsizes[:-1], strides, strict=False) if 4 * _apart(m.sizes, steps) >= size)
    past_cache = size * (read + itemsize) >= tuning.TUNING.stream and 4 * itemsize > read
    words = state_and_list(room * len(types))
    pieces: list[list[Step]] = []
    for part in cut:
        for share, first, rows in shares(part, threads, lanes):
            scratch = At("scratch", 8 * words * len(pieces))
            pieces.append(
                [_step(target, m, types, lanes, levels, listed, share, bases, (first, rows), scratch, room - lanes, past_cache)]
            )
    if not listed:
        return Run([pieces])
    starts = range(0, words * len(pieces), words)
    return Run([pieces], 8 * words * len(pieces), UndecidedElements(exact, types, target, finer).lists(starts))


@lru_cache(maxsize=256)
def _trial(
    target: Target, formula: NormalForm, moves: bool, integral: bool, types: tuple[DataType, ...]
) -> tuple[int, bool, Callable[[], engine.Code] | None]:
    """The lanes for a formula, whether it leaves elements undecided, and a function that compiles a kernel for most of these.

    Raises Uncompilable if the formula cannot be emitted.
    """
    body = Body(target)
    layouts = (CONTIGUOUS,) * len(types)
    key = MapKey(formula, moves, integral, types, layouts, 0, 8, False, ("wide",), True)
    streams = [Value(body, f"%x{k}", Kind(f"i{t.element_bits}", 8)) for k, t in enumerate(types[:-1])]
    _, undecided = element(body, key, streams, "wide")
    widest = max(t.dtype.itemsize for t in types)
    # two registers of float64: with more, a function's values would spill
    double = any(f" x {kind}>" in line for line in body.lines for kind in ("double", "i64"))
    lanes = target.vector_bytes // 4 if double else min(64, 4 * target.vector_bytes // widest)
    if undecided is None:
        return lanes, False, None
    key = key._replace(lanes=lanes)
    if target.exact:
        return lanes, True, None
    try:
        finer_stage(target, key, "doubled")
    except engine.Uncompilable:
        return lanes, True, None
    # compiled on demand, as most data never need it
    return lanes, True, lambda: engine.compiled(finer_kernel, target, key, "doubled")


def _apart(sizes: Sequence[int], steps: Sequence[int]) -> int:
    """The number of elements of an input that the output depends on."""
    return prod(n for n, step in zip(sizes, steps, strict=True) if step)


def _by_line(m: Map, part: Box) -> NormalForm:
    """The formula regrouped to elements that are standardised by row; the formula itself if it has none."""
    same = frozenset(k for k in range(len(m.streams)) if not part.row.strides[k] and m.streams[k].name is not None)
    return m.formula if m.moves else regrouped(m.formula, same)


@lru_cache(maxsize=256)
def _paired(target: Target, formula: NormalForm, types: tuple[DataType, ...]) -> bool:
    """Whether a formula can be computed in pairs of float32, and is faster in them."""
    body = Body(target.storing)  # what a probe stores is of float64
    if not paired.serves(body) or types[-1] not in IN_PAIRS or not any(n.op in BEGIN_IN_PAIRS for n in formula):
        return False
    layouts = (CONTIGUOUS,) * len(types)
    key = MapKey(formula, False, False, types, layouts, 0, 8, False, ("paired", "wide"), True)
    streams = [Value(body, f"%x{k}", Kind(f"i{t.element_bits}", 8)) for k, t in enumerate(types[:-1])]
    try:
        element(body, key, streams, "paired")
    except engine.Uncompilable:
        return False
    return any(n.op in paired.MIXED or n.op == "pow" for n in formula) or not any(" x double>" in line for line in body.lines)


def _estimated(formula: NormalForm, data_type: DataType, strides: Sequence[Sequence[int]]) -> bool:
    """Whether a formula is a sum of scaled bytes for float32: its scales and zero points are the same for all elements."""
    found = quantised_sum(formula, data_type)
    return found is not None and not any(any(strides[k]) for k in found.constants)


def _step(
    target: Target,
    m: Map,
    types: tuple[DataType, ...],
    lanes: int,
    levels: tuple[str, ...],
    listed: bool,
    part: Box,
    bases: list[At | int],
    rows: tuple[int, int],
    scratch: At,
    room: int,
    past_cache: bool,
) -> Step:
    layouts = tuple(
        POSITION
        if k < len(m.streams) and m.streams[k].name is None
        else CONSTANT
        if not part.row.strides[k] and k < len(m.streams)
        else CONTIGUOUS
        if part.row.strides[k] == types[k].dtype.itemsize or part.row.size == 1
        else STRIDED
        for k in range(len(types))
    )
    key = MapKey(m.formula, m.moves, m.integral, types, layouts, len(part.outer), lanes, False, levels, listed)
    emitted, formula = emit.emitted, _by_line(m, part)
    if listed and levels == ("wide",) and formula is not m.formula:
        emitted, key = emit_lines.emitted, key._replace(formula=formula)
    code = engine.compiled(emitted, target, key)
    itemsize = types[-1].dtype.itemsize
    aligned = None
    if (
        past_cache
        and layouts[-1] == CONTIGUOUS
        and part.row.size * itemsize >= tuning.TUNING.long_row
        and lanes * itemsize >= target.vector_bytes
    ):
        streaming = engine.compiled(emitted, target, key._replace(stream=True))
        aligned = Aligned(streaming, signature(key).names.index(f"p{len(types) - 1}"), itemsize)
    lists = Arguments(state=scratch, list=scratch + 8 * STATE_WORDS) if listed else Arguments(state=0, list=0)
    sizes = Arguments(room=room, first=rows[0], rows=rows[1], n=part.row.size)
    places = {f"p{k}": base + offset for k, (base, offset) in enumerate(zip(bases, part.offsets, strict=True))}
    strides = {f"s{k}": stride for k, stride in enumerate(part.row.strides)}
    outer = {name: x for d, dim in enumerate(part.outer) for name, x in dim.arguments(f"n{d}", f"o{d}").items()}
    return signature(key).step(code, **lists, **sizes, **places, **strides, **outer)._replace(aligned=aligned)
