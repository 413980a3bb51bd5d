"""The family of contractions of 8-bit integers on OpenCL devices: matrix products and convolutions, in tiles.

Sums are exact. A formula of them is computed as a map is, in float64 and where that leaves it undecided with twice the
precision, by the work item that has the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from anydml.kernels.code import opencl
from anydml.kernels.code.emit import when
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.layout import FloatLayout, layout
from anydml.kernels.elementwise.combined import combined
from anydml.kernels.elementwise.key import MapKey
from anydml.kernels.elementwise.levels import element
from anydml.kernels.elementwise.streams import STRIDED
from anydml.kernels.evaluate.tally import Counted
from anydml.kernels.kernel import Built, DeviceMemory, Machine, Refused
from anydml.kernels.match.contraction import SUM, Centred, Contraction, centred
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.match.product import EIGHT_BIT
from anydml.kernels.match.summed import EXACT
from anydml.kernels.matched import lowers
from anydml.kernels.opencl.calls import Workspace, unbound
from anydml.kernels.opencl.contract.calls import TiledCall
from anydml.kernels.opencl.contract.elements import either
from anydml.kernels.opencl.contract.family import FEW, FEW_TERMS, MOST, names_of, numbering
from anydml.kernels.opencl.contract.text import COLUMNS, ROWS, definitions, numbers_of, own, place, rows_of
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import Numbering
from anydml.tensor import DataType

INT, BIT = Kind("i32"), Kind("i1")
_TYPES = {DataType.INT8: "char", DataType.UINT8: "uchar"}


class IntegerKey(NamedTuple):
    """formula: of the streams, of which `at` is the sum, and behind which the factors' zero points come. types: of all these,
    and of the output. factors: the types of rows and columns; zeros: whether they have zero points.
    """

    formula: NormalForm
    integral: bool
    types: tuple[DataType, ...]
    at: int
    factors: tuple[DataType, DataType]
    zeros: tuple[bool, bool]
    by_term: tuple[bool, bool]
    one_position: bool
    padded: bool

    @property
    def streams(self) -> int:
        """The streams of the formula."""
        return len(self.types) - 1


class IntegerPart(NamedTuple):
    """A contraction with a layout: see `contract.calls.Part`."""

    key: IntegerKey
    layout: FloatLayout
    numbering: Numbering
    names: tuple[str, ...]

    @property
    def places(self) -> list[Any]:
        """The places of the streams beside the sum, of the zero points, and of the output."""
        streams = self.layout.streams
        return [*(p for k, p in enumerate(streams) if k != self.key.at), self.layout.output]


@lowers(centred)
def lower(found: Centred, host: Target, problem: Problem, machine: Machine) -> Built | Refused:
    """A statement of sums of products of 8-bit integers, in tiles."""
    ((name, nest),) = problem.statement.items()
    output = problem.tensors[name]
    if any(f.data_type not in EIGHT_BIT for f in found.contractions[0].factors):
        return Refused("the factors are no 8-bit integers")
    if any(n in problem.promises.in_place for c in found.contractions for n in names_of(c)):
        return Refused("the output may overwrite an input")
    if any(t.element_bits < 8 for t in (output.data_type, *(s.data_type for s in found.contractions[0].streams))):
        return Refused("elements are of four bits")
    decision = Decision(nest, output.data_type, host)
    parts = []
    for c in found.contractions:
        if not all(v.size for v in c.variables):
            continue
        made = layout(c, problem)
        if isinstance(made, str):
            return Refused(made)
        plain = found.integral and [s.name for s in c.streams[: len(c.streams) - sum(found.zeros)]] == [SUM]
        if made.terms > EXACT and not (plain and output.data_type.element_bits <= 32):
            return Refused(f"int32 does not hold sums of more than {EXACT} products")
        if max(made.rows, made.columns, made.terms) > MOST:
            return Refused(f"there are more than {MOST} rows, columns or terms")
        part = _part(c, made, found.zeros, output.data_type, integral=found.integral)
        if isinstance(part, str):
            return Refused(part)
        parts.append(part)
    if not parts or all(p.layout.terms <= FEW_TERMS and min(p.layout.rows, p.layout.columns) <= FEW for p in parts):
        return Refused("there are few products")
    try:
        lists = [_emitted(machine.stage, p.key)[1] for p in parts]
    except Uncompilable as error:
        return Refused(str(error))

    def bound(workspace: Workspace, memory: Mapping[str, DeviceMemory]) -> Sequence[IntegerCall]:
        return [IntegerCall(workspace, part, machine.stage, output, decision, memory) for part in parts]

    return Built(unbound, counted=Counted() if any(lists) else None, on_device=bound)


def _part(
    c: Contraction, made: FloatLayout, zeros: tuple[bool, bool], output: DataType, *, integral: bool
) -> IntegerPart | str:
    one, other = c.factors
    exchanged = made.a.at.base == other.name and made.b.at.base == one.name
    if one.name == other.name and zeros[0] != zeros[1]:
        return "both factors are of one tensor, and only one has a zero point"
    streams = list(made.streams)
    if exchanged and one.name != other.name:
        one, other, zeros = other, one, (zeros[1], zeros[0])
        if all(zeros):
            streams[-2:] = streams[:-3:-1]
    own_zeros = streams[len(streams) - sum(zeros) :]
    if zeros[0] and any(own_zeros[0].columns):
        return "the zero point of rows varies along columns"
    if zeros[1] and own_zeros[-1].row:
        return "the zero point of columns varies along rows"
    count = len(streams) - sum(zeros)
    at = next(k for k, s in enumerate(c.streams) if s.name == SUM)
    key = IntegerKey(
        combined(c.formula), integral, (*(s.data_type for s in c.streams[:count]), output), at,
        (one.data_type, other.data_type), zeros,
        (0 < abs(made.a_term) < abs(made.a.row), 0 < abs(made.b_term) < abs(made.b.columns[2])),
        len(made.table) == 1, made.padded,
    )  # fmt: skip
    return IntegerPart(key, made._replace(streams=tuple(streams)), numbering(c, made), names_of(c))


class IntegerCall(TiledCall):
    """The kernel of a contraction of integers. The count is the number of elements that it leaves undecided."""

    def __init__(self, workspace: Workspace, part: IntegerPart, *others: Any) -> None:
        super().__init__(workspace, part, *others)
        self._plan((self._tiles(),), ROWS * COLUMNS * max(1, part.layout.terms) // 2)

    def _make(self) -> None:
        opened = self.opened
        given = self._arguments()
        kernel = opened.kernel(opened.program(_text(self._stage, self.part.key, processor=opened.is_processor)), "products")
        counts = self.workspace.memory[0]
        kernel.set_args(*given, self._bitmap, counts, np.int64(2 * self.number), np.int64(0))
        self._first = len(given) + 3
        self._given = given  # a kernel's arguments do not keep their memory
        self._kernels = [kernel]


@lru_cache(maxsize=256)
def _emitted(stage: str, key: IntegerKey) -> tuple[str, bool]:
    """The function that stores an element from its sum, and whether it leaves any undecided."""
    try:
        return _element(opencl.target(stage), key, finer=True)
    except Uncompilable:  # there is no second stage for the formula
        return _element(opencl.target(stage), key, finer=False)


@lru_cache(maxsize=256)
def _text(stage: str, key: IntegerKey, *, processor: bool) -> str:
    count = key.streams + sum(key.zeros)  # the streams but the sum, the zero points, the output
    pointers = [f"p{k}" for k in range(count)]
    behind = key.streams - 1
    read = [*pointers[:behind], pointers[-1]]
    lines = definitions(key, pointers, read)
    for side, given, t, there in zip("AB", ("r", "z, y, x"), key.factors, key.zeros, strict=True):
        zero = "0"
        if there:
            zero = f"((int)*(global const {side}_TYPE *)({place(behind, pointers[behind], given)}))"
            behind += 1
        lines += [f"#define {side}_TYPE {_TYPES[t]}", f"#define {side}_ZERO({given}) {zero}"]
        lines.append(f"#define {side}_VALUE(x, i) ((int)(x) - {side.lower()}_zero[i])")
    lines += rows_of([t for k, t in enumerate(key.types) if k != key.at], read)
    lines += numbers_of("int", "int16", 16, "0", "(u * v + w)")
    files = ("blocks.cl", "integer_blocks.cl") if processor else ("integers.cl",)
    functions = [_emitted(stage, key)[0], *([_value(opencl.target(stage), key)] if processor else [])]
    return opencl.program([*functions, *lines, "", *own("terms.cl", *files)])


def _value(target: Target, key: IntegerKey) -> str:
    """The first stage of an element from the streams' elements: see `either`. It leaves all elements of 64 bits undecided."""
    body = Body(target)
    kinds = [INT if k == key.at else Kind(f"i{t.element_bits}") for k, t in enumerate(key.types[:-1])]
    names = ["%total" if k == key.at else f"%x{k}" for k in range(len(kinds))]
    words = [Value(body, name, kind) for name, kind in zip(names, kinds, strict=True)]
    if key.types[-1].element_bits > 32:
        value = body.constant(Kind("i64"), 1 << 32)
    else:
        value = either(*element(body, _map_key(key), words, "wide"))
    others = [w for k, w in enumerate(words) if k != key.at]
    arguments = [opencl.Argument(w.kind.element, w.name[1:]) for w in (words[key.at], *others)]
    return opencl.function("first_value", arguments, body, value)


def _map_key(key: IntegerKey) -> MapKey:
    layouts = tuple(STRIDED for _ in key.types)
    return MapKey(key.formula, False, key.integral, key.types, layouts, 0, 0, False, ("wide",), True)


def _element(target: Target, key: IntegerKey, *, finer: bool) -> tuple[str, bool]:
    """The function of `_emitted`. finer: whether the second stage follows the first in it."""
    body = Body(target)
    pointers = [f"p{k}" for k in range(key.streams)]
    made = _map_key(key)
    read = iter(pointers)
    words = [
        Value(body, "%total", INT) if k == key.at else body.loaded(Kind(f"i{t.element_bits}"), f"%{next(read)}")
        for k, t in enumerate(key.types[:-1])
    ]
    bits, undecided = element(body, made, words, "wide")
    lists, left = undecided is not None, body.constant(BIT, False) if undecided is None else undecided
    if lists and finer:
        plain = bits

        def closely() -> list[Value]:
            other, more = element(body, made, words, "doubled")
            return [other, body.constant(BIT, False) if more is None else more]

        bits, left = body.either(left.name, closely, lambda: [plain, body.constant(BIT, False)], seldom=True)
    when(body, (~left).name, lambda: body.stored(bits, f"%{pointers[-1]}"))
    arguments = [opencl.Argument("i32", "total"), *(opencl.Argument("ptr", p) for p in pointers)]
    return opencl.function("element", arguments, body, left), lists
