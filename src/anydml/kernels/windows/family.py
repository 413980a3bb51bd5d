"""Windows in machine code: maxima, their positions, sums, means and lengths of windows, correctly rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.fork_safety import guard
from anydml.kernels.call.rounds import in_rounds, shares
from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.kernel import Arrays, Decide, Lowered, Machine, Refused
from anydml.kernels.match.windows import MAX, MEAN, QUANTIZED, WindowReduction, windows
from anydml.kernels.numbers.floats.rounding import SIXTEEN_BIT
from anydml.kernels.numbers.singles import SINGLES
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import NumberedElements, in_order
from anydml.kernels.undecided.state import STATE_WORDS, UndecidedLists, state_and_list
from anydml.kernels.windows import emit, narrow, tuning, whole
from anydml.kernels.windows.key import DEQUANTIZED, ESTIMATED, FEW, WindowsKey, WindowsLayout, raw, signature
from anydml.kernels.windows.memory import length_of, memory_of, sizes_and_strides
from anydml.schema.expression import Mean, Tensor, over
from anydml.schema.statement import Nest, Statement
from anydml.schema.types import EIGHT_BIT, INDICES
from anydml.tensor import DataType, TensorDesc, limits

MOST_QUANTIZED = 1 << 15  # elements of a window whose mean is quantised: of more, `results` has no proof
RULE = At("constants")  # the numbers of means between bytes
IMAGES = (
    MAX,
    MEAN,
    QUANTIZED,
    ESTIMATED,
    DEQUANTIZED,
)  # kinds of which windows that are whole images have a kernel of their own


def lower(problem: Problem, machine: Machine) -> Lowered | Refused:
    """The steps of a statement that reduces windows."""
    w = windows(problem.statement)
    if isinstance(w, str) and problem.promises.constants:
        with guard:
            from anydml.kernels.match.between import selected
        if isinstance(of_bytes := selected(problem), str):
            return Refused(of_bytes)
        problem, w = of_bytes, windows(of_bytes.statement)
    statement = problem.statement
    if isinstance(w, str):
        return Refused(w)
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    tensors = problem.tensors
    source, output = tensors[w.source], tensors[w.output]
    if (reason := _misfit(w, tensors)) is not None:
        return Refused(reason)
    if _is_whole(w) and (images := _images(w, source, output)) is not None:
        return _lowered_images(statement, w, images, tensors, target, machine.threads)
    most = target.vector_bytes // source.data_type.dtype.itemsize
    if (tiles := narrow.narrow(w, source, output, most)) is not None:
        return _lowered_narrow(w, tiles, source.data_type, target, machine.threads)
    if w.kind == MEAN and _is_whole(w):
        with guard:
            from anydml.kernels.reduce import family as rows  # imports many modules that other windows don't need
        return rows.lower(problem._replace(statement={w.output: _mean_of_all(statement[w.output], w, source)}), machine)
    return _lowered_lines(statement, w, tensors, target, machine.threads)


def between(
    w: WindowReduction, tensors: Mapping[str, TensorDesc], target: Target, threads: int, record: NDArray[np.uint8]
) -> Lowered | Refused:
    """The steps of means of dequantised bytes that are quantised again, see `estimate`; record: its values."""
    if _is_whole(w) and (images := _images(w, tensors[w.source], tensors[w.output])) is not None:
        return _lowered_images({}, w, images, tensors, target, threads)._replace(constants=record)
    made = _lowered_lines({}, w, tensors, target, threads)
    return made if isinstance(made, Refused) else made._replace(constants=record)


def _lowered_lines(
    statement: Statement, w: WindowReduction, tensors: Mapping[str, TensorDesc], target: Target, threads: int
) -> Lowered | Refused:
    source, output = tensors[w.source], tensors[w.output]
    layout = _layout(w, source, output)
    line = w.axes[layout.line]
    most = MOST_QUANTIZED if w.kind == QUANTIZED else tuning.TUNING.longest
    if prod(a.window for a in w.axes) > most:
        return Refused(f"windows have more than {most} elements")
    if w.indices is not None and prod(a.size for a in w.axes) >= 1 << 63:
        return Refused("positions do not fit 63 bits")
    if max(length_of(line, 0), line.size, line.output) > tuning.TUNING.longest:
        return Refused(f"lines are longer than {tuning.TUNING.longest} elements")
    work = prod(a.output * a.window for a in w.axes)
    key = _key(target, w, tensors, layout)
    if work < tuning.TUNING.general:
        key = _for_any_size(key)
    with guard:
        code = engine.compiled(emit.emitted, target, key)
    memory = memory_of(w, layout, key)
    if memory.size > tuning.TUNING.room:
        return Refused("windows meet too many lines at once")
    count = prod(w.axes[d].output for d in (*layout.plain, *layout.taps))
    threads = min(threads if work >= tuning.TUNING.alone else 1, count)
    most = max(1, tuning.TUNING.budget // _cost(w, layout))
    strides, arguments = sizes_and_strides(w, tensors, layout, key), signature(key)

    def pieces(first: int, end: int) -> list[list[Step]]:
        found = []
        for k, (begin, behind) in enumerate(shares(first, end, threads)):
            given = {**memory.arguments(At("scratch", memory.size * k)), **strides}
            given |= {"first": begin, "rows": behind - begin, "room": memory.room, "budget": most, "rule": RULE}
            found.append([arguments.step(code, **{name: given[name] for name in arguments.names})])
        return found

    starts = [memory.size // 8 * k for k in range(threads)]
    return Lowered(
        target,
        [Rounds([pieces(0, count)])] if key.listed else in_rounds(count, most * threads, pieces),
        scratch=memory.size * threads,
        short=work < tuning.TUNING.short,
        decide=_undecided(statement, w, output, (*layout.plain, *layout.taps, layout.line), target, starts)
        if key.listed
        else None,
    )


def _misfit(w: WindowReduction, tensors: Mapping[str, TensorDesc]) -> str | None:
    """The reason that the kernel does not take the data types, or None."""
    x, y = tensors[w.source].data_type, tensors[w.output].data_type
    if w.kind == QUANTIZED:
        types = [None if p is None else tensors[p.name].data_type for p in w.parameters]
        wanted = (DataType.FLOAT32, x, DataType.FLOAT32, y)
        fits = {x, y} <= {*EIGHT_BIT} and w.ends == limits(y)
        fits = fits and all(have in (None, want) for have, want in zip(types, wanted, strict=True))
    elif w.kind == MAX:
        fits = x == y and x.element_bits >= 8 and x != DataType.FLOAT64
        fits = fits and (w.indices is None or tensors[w.indices].data_type in INDICES)
    else:
        fits = x == y and x in SINGLES
    return None if fits else "windows of other data types are reduced"


def _cost(w: WindowReduction, layout: WindowsLayout) -> int:
    """The operations on elements for one output line: along its new input lines, and across all of its input lines."""
    line = w.axes[layout.line]
    *apart, last = (w.axes[d] for d in layout.taps)
    each = prod(a.window for a in apart)
    met = min(last.window, last.stride + last.window // last.output)  # lines that no output line before needs
    return each * (met * (line.size + line.output * line.window) + last.window * line.output)


class Images(NamedTuple):
    """Windows that are whole contiguous images. number: of images; size: elements per image; source, output: their strides."""

    number: int
    size: int
    source: int
    output: int


def _images(w: WindowReduction, source: TensorDesc, output: TensorDesc) -> Images | None:
    """The images, if each window is one contiguous image, and these are at a constant distance; else None."""
    size = prod(a.size for a in w.axes[2:])
    if w.indices is not None or w.kind not in IMAGES or (w.kind == MAX and source.data_type in SIXTEEN_BIT):
        return None
    if size > {MEAN: tuning.TUNING.most_summed, QUANTIZED: MOST_QUANTIZED}.get(w.kind, tuning.TUNING.longest):
        return None
    if any(v is not None for p in w.parameters if p is not None for v in p.along):
        return None  # scales differ between channels
    run = 1
    for n, stride in zip(reversed(source.sizes[2:]), reversed(source.explicit_strides[2:]), strict=True):
        if n != 1 and stride != run:
            return None
        run *= n
    (batches, channels), apart = source.sizes[:2], []
    for t in (source, output):
        batch, channel = t.explicit_strides[:2]
        if batches > 1 and channels > 1 and batch != channel * channels:
            return None
        apart.append(channel if channels > 1 else batch)
    return Images(batches * channels, size, *apart)


def _lowered_images(
    statement: Statement, w: WindowReduction, images: Images, tensors: Mapping[str, TensorDesc], target: Target, threads: int
) -> Lowered:
    source, output = tensors[w.source], tensors[w.output]
    data_type, size = source.data_type, source.data_type.dtype.itemsize
    lanes = _power_below(images.size, target.vector_bytes // (size if w.kind == MAX else 4))
    threads = min(threads if images.number * images.size >= tuning.TUNING.alone else 1, images.number)
    together = _power_below(images.number // threads, min(lanes, target.vector_bytes // 8))
    key = WindowsKey(
        w.kind, (data_type, output.data_type), None, True, 1, 0, 0, 0, 0, lanes, lanes,
        (True, images.output == 1 or images.number == 1, True), False, True, False, 0,
        tuple(p is not None for p in w.parameters), 1,
    )  # fmt: skip
    with guard:
        code = engine.compiled(whole.emitted, target, key, together)
    room = 2 * together + tuning.TUNING.listed if key.listed else 0
    words = state_and_list(2 * (room + 1))
    arguments = whole.signature(key)
    fixed = Arguments(n=images.size, terms=images.size.bit_length(), x=At(w.source), y=At(w.output))
    fixed |= {"px": images.source * size, "py": images.output * size}
    fixed |= {"rule": RULE} if key.between else {f"g{q}": At(p.name) for q, p in enumerate(w.parameters) if p is not None}

    def pieces(first: int, end: int) -> list[list[Step]]:
        found = []
        for k, (begin, behind) in enumerate(shares(first, end, threads)):
            state = At("scratch", 8 * words * k)
            lists = Arguments(state=state, list=state + 8 * STATE_WORDS, room=room, first=begin, rows=behind - begin)
            found.append([arguments.step(code, **lists, **fixed)])
        return found

    most = max(together, tuning.TUNING.budget // images.size) * threads
    number = images.number
    if key.listed or number <= most:
        rounds = [Rounds([pieces(0, number)])]
    else:  # each round has at least as many images as are reduced together: the last one repeats some
        rounds = [*in_rounds(number // most * most, most, pieces), Rounds([pieces(number - most, number)])]
    starts = [words * k for k in range(threads)]
    return Lowered(
        target,
        rounds,
        scratch=8 * words * threads,
        short=images.number * images.size < tuning.TUNING.short,
        decide=_undecided(statement, w, output, range(len(w.axes)), target, starts) if key.listed else None,
    )


def _undecided(
    statement: Statement, w: WindowReduction, output: TensorDesc, dims: Sequence[int], target: Target, starts: Sequence[int]
) -> Decide:
    """The undecided elements of pieces, listed by their lines and the places in them. dims: the last one is that of lines."""
    sizes = [a.output for a in w.axes]
    elements = NumberedElements(w.output, in_order(sizes, dims), Decision(statement[w.output], output.data_type, target))
    return UndecidedLists(starts, 2, partial(_resolve, elements, sizes[dims[-1]])).decide


def _resolve(
    elements: NumberedElements, length: int, _: int, entries: NDArray[np.int64], scratch: NDArray[np.int64], arrays: Arrays
) -> None:
    numbers = entries[:, 0] * length + entries[:, 1]
    elements.decide(np.unique(numbers), arrays)  # lines may overlap, and so may groups in them


def _lowered_narrow(w: WindowReduction, tiles: narrow.Narrow, data_type: DataType, target: Target, threads: int) -> Lowered:
    lanes = _power_below(tiles.total, target.vector_bytes // data_type.dtype.itemsize)
    work = tiles.total * tiles.lines * tiles.across
    lines = tiles.total // tiles.width
    shares = min(threads if work >= tuning.TUNING.alone else 1, tiles.total // lanes)
    types = data_type, data_type
    key = WindowsKey(w.kind, types, None, True, 0, 0, 0, 0, 0, lanes, lanes, (True,) * 3, False, True, False, 0, (), 0)
    with guard:
        code = engine.compiled(narrow.emitted, target, key, tiles.lines, tiles.across, tiles.width)
    pieces: list[list[Step]] = []
    for first, end in pairwise(lines * k // shares * tiles.width for k in range(shares + 1)):
        pieces.append([narrow.NARROW.step(code, first=first, count=end - first, x=At(w.source), y=At(w.output))])
    return Lowered(target, [Rounds([pieces])], short=work < tuning.TUNING.short)


def _is_whole(w: WindowReduction) -> bool:
    """Whether each window is all elements of its batch and channel."""
    return all(a.output == 1 and a.window == a.size and a.dilation == 1 and a.start == 0 for a in w.axes[2:])


def _mean_of_all(nest: Nest, w: WindowReduction, source: TensorDesc) -> Nest:
    """The same means, as a statement that the family of rows takes."""
    x = Tensor(w.source, source.sizes, source.data_type)
    k = over(nest.index, source.sizes, range(2, len(w.axes)))
    return Nest(nest.index, Mean(k, x[k]))


def _layout(w: WindowReduction, source: TensorDesc, output: TensorDesc) -> WindowsLayout:
    """The roles of dimensions. Lines run along a contiguous dimension without windows if there is one, else along the last
    one."""
    windowed = tuple(d for d in range(len(w.axes)) if d >= 2)
    line = windowed[-1]
    for d in (0, 1):
        if w.axes[d].size >= tuning.TUNING.wide and source.explicit_strides[d] == output.explicit_strides[d] == 1:
            line = d
    return WindowsLayout(line, tuple(d for d in (0, 1) if d != line), tuple(d for d in windowed if d != line))


def _power_below(n: int, most: int) -> int:
    """The largest power of two that is at most n and at most `most`."""
    return min(1 << n.bit_length() - 1, most)


def _key(target: Target, w: WindowReduction, tensors: Mapping[str, TensorDesc], layout: WindowsLayout) -> WindowsKey:
    source, output = tensors[w.source], tensors[w.output]
    indices = None if w.indices is None else tensors[w.indices]
    line = w.axes[layout.line]
    slides = layout.line >= 2
    itemsize = source.data_type.dtype.itemsize
    widest = itemsize if w.kind == MAX else 4
    if indices is not None:
        widest = max(widest, 4)
    most = target.vector_bytes // widest
    lines = prod(w.axes[d].window for d in layout.taps)
    lanes = _power_below(line.output, most)
    key = WindowsKey(
        w.kind,
        (source.data_type, output.data_type),
        None if indices is None else indices.data_type,
        slides,
        line.stride if line.stride <= 2 else 0,
        line.window if line.window <= FEW else 0,
        lines if lines <= FEW + 1 else 0,
        len(layout.plain),
        len(layout.taps),
        _power_below(line.size, most),
        lanes,
        (_is_contiguous(source, layout.line), _is_contiguous(output, layout.line), _is_contiguous(indices, layout.line)),
        w.padded,
        all(w.axes[d].dilation == 1 for d in layout.taps),
        _halves(w),
        1 << (lines + line.window).bit_length(),
        tuple(p is not None for p in w.parameters),
        down=0,
    )
    down = slides and line.dilation == 1 and key.step in (1, 2) and key.lanes_in >= key.step and key.contiguous[0]
    if down and len(layout.taps) == 1 and key.dense and key.width and key.lines and not indices and len(raw(key)) == 1:
        return key._replace(down=min(lines, w.axes[layout.taps[0]].stride))
    return key


def _for_any_size(key: WindowsKey) -> WindowsKey:
    """The key with no size or stride compiled in."""
    return key._replace(
        step=0, width=0, lines=0, lanes_in=1, lanes=1, contiguous=(False,) * 3, dense=False, halves=False,
        additions=2 * tuning.TUNING.general, down=0,
    )  # fmt: skip


def _halves(w: WindowReduction) -> bool:
    """Whether all windows have the same number of elements, a power of two."""
    whole = all(a.start == 0 and (a.output - 1) * a.stride + (a.window - 1) * a.dilation < a.size for a in w.axes)
    return whole and prod(a.window for a in w.axes).bit_count() == 1


def _is_contiguous(t: TensorDesc | None, d: int) -> bool:
    return t is None or t.explicit_strides[d] == 1 or t.sizes[d] == 1
