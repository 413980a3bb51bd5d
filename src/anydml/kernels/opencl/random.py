"""Random bits on OpenCL devices: the four words of a counter in each work item, and the state after the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from anydml.kernels.code import opencl
from anydml.kernels.code.opencl import Argument
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.kernel import Built, DeviceCall, DeviceMemory, Machine, Refused
from anydml.kernels.match.random_words import WORDS, random_words
from anydml.kernels.opencl.calls import INT, RANGE, WORD, ExactCall, Launch, Workspace, end, index_of, number, unbound
from anydml.kernels.problem import Problem
from anydml.kernels.random.emit import RandomKey, arithmetic, mixed
from anydml.schema.node import Expr
from anydml.tensor import DataType

LOW = (1 << 32) - 1
Wide = tuple[Value, Value]  # an integer modulo 2^128: its low and its high word


class WordsKey(NamedTuple):
    """elements: the number of elements in counter and key. dims: those of the output."""

    made: RandomKey
    elements: int
    dims: int


def lower(problem: Problem, machine: Machine) -> Built | Refused:
    """Random words, and the state."""
    found = random_words(problem.statement)
    if isinstance(found, str):
        return Refused(found)
    into, state = problem.tensors[found.target], problem.tensors[found.state]
    after = None if found.after is None else problem.tensors[found.after]
    if any(t is not None and t.data_type != DataType.UINT32 for t in (into, after, None if after is None else state)):
        return Refused("random bits or the state are stored as another type than UINT32")
    named: list[Expr] = []
    key = WordsKey(RandomKey(arithmetic(found.counter, named), arithmetic(found.key, named)), 0, len(into.sizes))
    text = emitted(key._replace(elements=len(named)))
    places = [4 * sum(map(mul, [int(a.data.value) for a in e.args], state.explicit_strides)) for e in named]
    count = prod(into.sizes)
    counters = -(-count // WORDS)

    def bound(workspace: Workspace, memory: Mapping[str, DeviceMemory]) -> Sequence[DeviceCall]:
        given, out = memory[found.state], memory[found.target]
        own: list[Any] = [given.data, *(np.int64(given.offset + at) for at in places)]
        steps = [*into.sizes[1:], *(4 * s for s in into.explicit_strides)]
        words = [*own, out.data, np.int64(out.offset), *(np.int64(x) for x in steps), np.int64(count)]
        made = [Launch(text, "words", words, counters, 256)]
        if found.after is not None and after is not None:
            to = memory[found.after]
            rest = [to.data, np.int64(to.offset), np.int64(4 * after.explicit_strides[-1])]
            rest += [np.int64(given.offset), np.int64(4 * state.explicit_strides[-1]), np.int64(counters)]
            made.append(Launch(text, "state", [*own, *rest, np.int64(after.sizes[-1])], 1, 1))
        return [ExactCall(workspace, lambda: made)]

    return Built(unbound, on_device=bound)


@lru_cache(maxsize=32)
def emitted(key: WordsKey) -> str:
    """The program with the kernels "words" and "state"."""
    own = [Argument("ptr", "given"), *(Argument("i64", f"at{k}") for k in range(key.elements))]
    words = [Argument("ptr", "output"), Argument("i64", "to"), *(Argument("i64", f"n{d}") for d in range(1, key.dims))]
    words += [*(Argument("i64", f"s{d}") for d in range(key.dims)), Argument("i64", "count")]
    state = [Argument("ptr", "after"), *(Argument("i64", n) for n in ("to", "step", "from", "state_step", "counters", "words"))]
    body = Body(opencl.target())
    _words(body, key)
    end(body)
    made = [opencl.kernel("words", [*own, *words, *RANGE], body)]
    body = Body(opencl.target())
    number(body)
    _state(body, key)
    end(body)
    return opencl.program([*made, opencl.kernel("state", [*own, *state, *RANGE], body)])


def _words(body: Body, key: WordsKey) -> None:
    i = number(body)
    low, high = _added(_integer(body, key.made.counter), (i, i.lift(0)))
    wide = _integer(body, key.made.key)[0]
    counter = [low & LOW, low.shifted_right(32, signed=False), high & LOW, high.shifted_right(32, signed=False)]
    for k, word in enumerate(mixed(counter, [wide, wide.shifted_right(32, signed=False)])):
        element = i * WORDS + k
        there, after = body.name("there"), body.name("after")
        body.branch(element.compared("ult", Value(body, "%count", WORD)).name, there, after)
        body.label(there)
        at = Value(body, "%to", WORD)
        for d, x in enumerate(index_of(body, element, [f"%n{d}" for d in range(1, key.dims)], narrow=False)):
            at = at + x * Value(body, f"%s{d}", WORD)
        body.stored(word.converted("trunc", INT), body.at("%output", at.name))
        body.jump(after)
        body.label(after)


def _state(body: Body, key: WordsKey) -> None:
    """Store the counter after the last one, and the other words unchanged."""
    counters = Value(body, "%counters", WORD)
    low, high = _added(_integer(body, key.made.counter), (counters, counters.lift(0)))
    parts = [low, low.shifted_right(32, signed=False), high, high.shifted_right(32, signed=False)]
    step, there = Value(body, "%step", WORD), body.at("%after", "%to")
    for k, part in enumerate(parts):
        body.stored(part.converted("trunc", INT), body.at(there, (step * k).name))

    def kept(k: str, _: list[Value]) -> list[Value]:
        word = body.loaded(INT, body.at(body.at("%given", "%from"), body.op(f"mul i64 %state_step, {k}")))
        body.stored(word, body.at(there, body.op(f"mul i64 %step, {k}")))
        return []

    body.loop(str(WORDS), "%words", 1, [], kept)


def _integer(body: Body, made: tuple[object, ...]) -> Wide:
    """An integer modulo 2^128."""
    op, *arguments = made
    if op == "constant":
        value = int(str(arguments[0]))
        return body.constant(WORD, _signed(value)), body.constant(WORD, _signed(value >> 64))
    if op == "element":
        which, bits, signed = arguments
        word = body.loaded(Kind(f"i{bits}"), body.at("%given", f"%at{which}"))
        low = word.converted("sext" if signed else "zext", WORD)
        return low, low.shifted_right(63, signed=True) if signed else low.lift(0)
    first, second = (_integer(body, a) for a in arguments if isinstance(a, tuple))
    return _added(first, second) if op == "add" else _multiplied(first, second)


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _added(a: Wide, b: Wide) -> Wide:
    low = a[0] + b[0]
    return low, a[1] + b[1] + low.compared("ult", a[0]).converted("zext", WORD)


def _multiplied(a: Wide, b: Wide) -> Wide:
    halves = [(x & LOW, x.shifted_right(32, signed=False)) for x in (a[0], b[0])]
    (a0, a1), (b0, b1) = halves
    middle = (a0 * b0).shifted_right(32, signed=False) + a1 * b0  # no sum here exceeds 64 bits
    other = (middle & LOW) + a0 * b1
    upper = a1 * b1 + middle.shifted_right(32, signed=False) + other.shifted_right(32, signed=False)
    return a[0] * b[0], upper + a[0] * b[1] + a[1] * b[0]
