"""The kernel of maxima of windows that tile narrow lines: several lines are reduced at once.

The elements of all windows of some lines are contiguous: as many vectors as a window has elements. Elements of the same place
within a window's line are shuffled into one vector, and reduced; then those of the window's lines are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.match.windows import MAX, WindowAxis, WindowReduction
from anydml.kernels.windows.key import WindowsKey
from anydml.kernels.windows.kinds import reduction
from anydml.tensor import TensorDesc

NARROW = Signature("first count *x *y")
MOST = 9  # elements of a window
WORD = Kind("i64")
Parts = list[Value]


class Narrow(NamedTuple):
    """Windows that tile the input. lines, across: a window's lines, and elements of each; width: elements of an output line;
    total: elements of the whole output."""

    lines: int
    across: int
    width: int
    total: int


def narrow(w: WindowReduction, source: TensorDesc, output: TensorDesc, most: int) -> Narrow | None:
    """The windows, if they tile lines of at most `most` outputs, and input and output are packed; else None."""
    if w.kind != MAX or w.indices is not None or not (_runs_on(source) and _runs_on(output)):
        return None
    if not all(_tiled(a) for a in w.axes):
        return None
    *others, line = [a for a in w.axes if a.size > 1] or [w.axes[-1]]
    lines = others[-1].window if others else 1
    if any(a.window != 1 for a in others[:-1]) or lines * line.window > MOST or lines * line.window == 1:
        return None
    width = line.output
    if width & (width - 1) or width > most:
        return None
    return Narrow(lines, line.window, width, prod(a.output for a in w.axes))


def _tiled(a: WindowAxis) -> bool:
    """Whether windows follow one another without gaps and cover the dimension."""
    follow = (a.output == 1 or a.stride == a.window) and (a.window == 1 or a.dilation == 1)
    return follow and not a.start and a.size == a.output * a.window


def _runs_on(t: TensorDesc) -> bool:
    run = 1
    for size, stride in zip(reversed(t.sizes), reversed(t.explicit_strides), strict=True):
        if size != 1 and stride != run:
            return False
        run *= size
    return True


def emitted(target: Target, key: WindowsKey, lines: int, across: int, width: int) -> str:
    """The kernel; arguments: NARROW. count: of the output's elements, at least a vector's, in whole lines of so many."""
    return _NarrowKernel(target, key, lines, across, width).text()


class _NarrowKernel:
    def __init__(self, target: Target, key: WindowsKey, lines: int, across: int, width: int) -> None:
        self.body, self.key = Body(target), key
        self.lines, self.across, self.width = lines, across, width
        self.kind = reduction(self.body, key)

    def text(self) -> str:
        body, lanes = self.body, self.key.lanes
        NARROW.load(body)
        size = self.key.types[0].dtype.itemsize
        last = Value(body, body.op(f"sub i64 %count, {lanes}"), WORD)
        groups = body.op(f"udiv i64 {body.op(f'add i64 %count, {lanes - 1}')}, {lanes}")

        def group(g: str, _: Parts) -> Parts:
            at = Value(body, g, WORD) * lanes
            at = body.chosen(at.compared("ult", last), at, last)  # the last group begins earlier if they don't end evenly
            at = at + Value(body, "%first", WORD)
            source = body.at("%x", (at * (size * self.lines * self.across)).name)
            kind = Kind(f"i{8 * size}", lanes)
            bits = [body.loaded(kind, source, size * lanes * k) for k in range(self.lines * self.across)]
            made = self._reduced([self.kind.read(x) for x in bits])
            body.stored(made[-1].bits() if made[-1].kind.floating else made[-1], body.at("%y", (at * size).name))
            return []

        body.loop("0", groups, 1, [], group)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _reduced(self, elements: list[Parts]) -> Parts:
        """The maxima of the windows of a group."""
        lanes, across, width = self.key.lanes, self.across, self.width
        rows = []
        for k in range(0, len(elements), across):
            first, *others = (self._picked(elements[k : k + across], range(j, lanes * across, across)) for j in range(across))
            for x in others:
                first = self.kind.along(first, x, None, None)
            rows.append(first)
        found: Parts = []
        for r in range(self.lines):
            places = [(lane // width * self.lines + r) * width + lane % width for lane in range(lanes)]
            line = self._picked(rows, places)
            found = self.kind.across(found, line) if found else line
        return found

    def _picked(self, sources: Sequence[Parts], places: Sequence[int]) -> Parts:
        """For each part, a vector of the elements at these positions in the concatenation of several vectors."""
        return [self._of_part([s[part] for s in sources], places) for part in range(len(sources[0]))]

    def _of_part(self, vectors: Sequence[Value], places: Sequence[int]) -> Value:
        lanes = self.key.lanes
        if len(vectors) == 1:
            return self._shuffled(vectors[0], vectors[0], places)
        # the first shuffle takes elements of two vectors; each further vector takes another one
        found = self._shuffled(vectors[0], vectors[1], [min(p, 2 * lanes - 1) for p in places])
        for k, vector in enumerate(vectors[2:], 2):
            mask = [p - k * lanes + lanes if p // lanes == k else lane for lane, p in enumerate(places)]
            found = self._shuffled(found, vector, mask)
        return found

    def _shuffled(self, x: Value, y: Value, mask: Sequence[int]) -> Value:
        text = ", ".join(f"i32 {k}" for k in mask)
        return self.body.value(f"shufflevector {x!r}, {y!r}, <{len(mask)} x i32> <{text}>", x.kind)
