"""The family of random bits in NumPy: Philox 4x32-10 of consecutive counters."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.exact.philox import INCREMENTS, MULTIPLIERS, WORD
from anydml.fork_safety import guard
from anydml.kernels.kernel import Arrays, Built, Execute, Machine, Refused
from anydml.kernels.match.random_words import NO_BITS, counted
from anydml.kernels.problem import Problem
from anydml.schema.node import Expr
from anydml.schema.statement import Statement
from anydml.tensor import DataType

LIMB = 2**64 - 1


def lower(problem: Problem, machine: Machine) -> Built | Refused:
    """The words of consecutive counters. Other outputs are small, and the reference computes them."""
    statement = problem.statement
    found = {name: counted(nest) for name, nest in statement.items()}
    if not any(found.values()):
        return Refused(NO_BITS)
    most = 0
    for name, nest in statement.items():
        if found[name] is None and any(n > WORD for n in nest.sizes):
            return Refused("another output is large")
        if problem.tensors[name].data_type != DataType.UINT32:
            return Refused("random bits or the state are stored as another type than UINT32")
        most = max(most, 24 * prod(nest.sizes) + 256)

    def bind(arrays: Arrays) -> Execute:
        return partial(_computed, statement, problem.tensors, arrays)

    return Built(bind, most)


def _computed(statement: Statement, tensors: Any, arrays: Arrays) -> None:
    with guard:
        from anydml.kernels.evaluate.evaluator import evaluators

    made: dict[str, NDArray[Any]] = {}
    for name, nest in statement.items():
        found = counted(nest)
        if found is None:
            types: dict[str, DataType] = {name: tensors[name].data_type}
            made[name] = evaluators({name: nest}, types, arrays)[name].all(nest.sizes)
        else:
            counter, key = (_whole(e, arrays) for e in found)
            made[name] = words(counter, key, prod(nest.sizes)).reshape(nest.sizes)
    for name, values in made.items():
        arrays[name][...] = values


def _whole(e: Expr, arrays: Arrays) -> int:
    if e.op == "read":
        return int(arrays[e.data[0].name][tuple([int(a.data.value) for a in e.args])])
    if e.op == "constant":
        return int(e.data.value)
    values = [_whole(a, arrays) for a in e.args]
    return values[0] if e.op == "index" else values[0] + values[1] if e.op == "add" else values[0] * values[1]


def words(counter: int, key: int, count: int) -> NDArray[np.uint32]:
    """`count` words of Philox's output for consecutive counters modulo 2^128."""
    steps = np.arange(-(-count // 4), dtype=np.uint64)
    low = np.uint64(counter & LIMB) + steps
    high = np.uint64(counter >> 64 & LIMB) + (low < steps)
    word, half = np.uint64(WORD), np.uint64(32)
    c = [low & word, low >> half, high & word, high >> half]
    k = [key & WORD, key >> 32 & WORD]
    for _ in range(10):
        p, q = np.uint64(MULTIPLIERS[0]) * c[0], np.uint64(MULTIPLIERS[1]) * c[2]
        c = [q >> half ^ c[1] ^ np.uint64(k[0]), q & word, p >> half ^ c[3] ^ np.uint64(k[1]), p & word]
        k = [x + y & WORD for x, y in zip(k, INCREMENTS, strict=True)]
    return np.stack(c, axis=-1).astype(np.uint32).reshape(-1)[:count]
