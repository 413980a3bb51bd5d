"""The loops of kernels whose places are data: up to eight dimensions, of which the innermost is written out by the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from anydml.kernels.code.emit import Text, along, fold

OUTER = 7  # loops around the innermost one: a tensor has eight dimensions


class Loop(NamedTuple):
    """A loop: how often, and by how many bytes each place moves."""

    turns: int
    strides: tuple[int, ...]


def merged(loops: Sequence[Loop]) -> list[Loop]:
    """The loops, outermost first, without those of one turn, and those as one where every place runs on."""
    found: list[Loop] = []
    for loop in loops:
        if loop.turns == 1:
            continue
        if found and all(a == loop.turns * b for a, b in zip(found[-1].strides, loop.strides, strict=True)):
            loop = Loop(found.pop().turns * loop.turns, loop.strides)
        found.append(loop)
    return found


def described(loops: Sequence[Loop], places: int) -> list[int]:
    """The arguments of `walk` and of the innermost loop, for at most OUTER + 1 loops."""
    missing = [Loop(1, (0,) * places)] * (OUTER + 1 - len(loops))
    return [x for loop in (*missing, *loops) for x in (loop.turns, *loop.strides)]


def walk(text: Text, base: str, places: Sequence[str], body: Callable[[list[str], str, list[str]], None]) -> None:
    """`body(places, count, strides)` for every place that the outer loops lead to: with the innermost loop's arguments.

    base: where the arguments of the loops are.
    """
    words = 1 + len(places)
    loops = [[text.load("i64", base, 8 * (words * k + j)) for j in range(words)] for k in range(OUTER + 1)]

    def nested(k: int, at: Sequence[str]) -> None:
        count, *strides = loops[k]
        if k == OUTER:
            body(list(at), count, strides)
            return

        def turn(i: str, _: list[str]) -> list[str]:
            nested(k + 1, [along(text, place, stride, i) for place, stride in zip(at, strides, strict=True)])
            return []

        fold(text, "0", count, 1, [], turn)

    nested(0, places)


def parts(loops: Sequence[Loop], threads: int) -> list[tuple[list[Loop], int]]:
    """The loops for each of so many threads at most, and where the outermost begins."""
    if not loops or threads == 1:
        return [(list(loops), 0)]
    outer, *inner = loops
    step = -(-outer.turns // threads)
    return [([Loop(min(step, outer.turns - i), outer.strides), *inner], i) for i in range(0, outer.turns, step)]


def rounds(loops: Sequence[Loop], most: int) -> tuple[list[Loop], list[Loop]]:
    """Loops to be run through again and again, and those of each time, which have about so many turns in all, at most.

    The order stays, but that some turns of a loop may come once more after themselves: one that is cut into parts of the same
    size, equally far apart, has parts that overlap. What moves elements may do so, where it does not write what it reads.
    """
    inner = 1
    for k, loop in reversed([*enumerate(loops)]):
        if inner * loop.turns > most:
            count = -(-loop.turns // max(most // inner, 1))
            step = loop.turns // count
            if loop.turns - step * count >= step:
                count, step = loop.turns, 1
            size = loop.turns - step * (count - 1)
            apart = Loop(count, tuple(step * stride for stride in loop.strides))
            return [*loops[:k], apart], [Loop(size, loop.strides), *loops[k + 1 :]]
        inner *= loop.turns
    return [], list(loops)
