"""The loops of gathers and scatters: up to eight dimensions, the innermost of which is the kernel's own code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from anydml.kernels.code.emit import Text, along, fold

OUTER = 7  # loops around the innermost one: a tensor has eight dimensions


class Loop(NamedTuple):
    """A loop: the count of its turns, and the step in bytes of each address."""

    turns: int
    strides: tuple[int, ...]


def merged(loops: Sequence[Loop]) -> list[Loop]:
    """The loops, outermost first, without those of one turn. Two loops are merged if all addresses are contiguous."""
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
    """Run `body(places, count, strides)`, which gets the innermost loop's arguments, for each turn of the outer loops.

    base: the address of the loops' arguments.
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
    """The loops of each of at most `threads` threads, and the turn at which the outermost begins."""
    if not loops or threads == 1:
        return [(list(loops), 0)]
    outer, *inner = loops
    step = -(-outer.turns // threads)
    return [([Loop(min(step, outer.turns - i), outer.strides), *inner], i) for i in range(0, outer.turns, step)]


def rounds(loops: Sequence[Loop], most: int) -> tuple[list[Loop], list[Loop]]:
    """Outer loops over calls, and the inner loops of each call, which have at most about `most` turns in all.

    The order stays the same. A loop is cut into parts of equal size at equal distances, so that parts may overlap and turns be
    repeated. Kernels that move elements may repeat a turn, as long as they do not write what they read.
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
