"""The integer matmuls, compiled: packed B, dot products of bytes, exact rounding in the tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.address import address_of
from anydml.kernels.call.steps import Sheet, prepared
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import named
from anydml.kernels.contract.plan import CONSTANTS, Plan
from anydml.kernels.kernel import Arrays, Built, Execute, Kernel, Machine, Refused, Unfit
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.schema.check import Checked

LINE = 64
MOST_K = 1 << 24
# bytes to work in: these, and so many for each byte of the tensors; more is asked for where zero strides make one huge
WORKSPACE, WORKSPACE_PER_BYTE = 256 << 20, 4
CONSTANTS_AT = address_of(CONSTANTS)
SHORT = 1 << 20  # products so few that other threads can wait for them


def _refuses(c: Checked[Any], machine: Machine) -> str | None:
    if (reason := llvm.unavailable()) is not None:
        return reason
    if named(machine.isa) is None:
        return f"this processor has no {machine.isa or 'known'} instructions"
    if (k := c.desc.a_tensor.sizes[-1]) > MOST_K:
        return f"K = {k}: panels of more than {MOST_K} rows of B take too much memory"
    return None


def _aligned(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """Zeroed memory, and the address in it from which on there are so many bytes at a cache line's start."""
    memory = np.zeros(nbytes + LINE, np.uint8)
    address = address_of(memory)
    return memory, address + -address % LINE


def _addresses(sheet: Sheet, arrays: Arrays, **others: int) -> list[int]:
    return [
        others[base] if base in others else CONSTANTS_AT if base == "constants" else address_of(arrays[base])
        for base in sheet.bases
    ]


def _again(
    run: Callable[[], int], numbers: NDArray[np.int64], times: tuple[int, ...], moves: list[NDArray[np.int64]]
) -> Callable[[], int]:
    """The call in every place that its numbers move to, up to the first status that is not 0."""
    first = numbers.copy()

    def again() -> int:
        for place in np.ndindex(*times):
            np.copyto(numbers, first)
            for i, move in zip(place, moves, strict=True):
                np.add(numbers, i * move, out=numbers)
            if status := run():
                return status
        return 0

    return again


def _build(c: Checked[Any], machine: Machine) -> Built:
    target = named(machine.isa)
    assert target is not None  # refused otherwise
    plan = Plan(c, target, machine.threads)
    tensors = sum(t.element_bytes for t in c.tensors.values())
    if (needed := plan.scratch.size + plan.packed.size + plan.spare.size) > WORKSPACE + WORKSPACE_PER_BYTE * tensors:
        raise Refused(f"{needed} bytes to work in: too many for tensors of {tensors} bytes")
    sheets = [Sheet(x.phases, x.moved) for x in plan.rounds]
    keeps_gil = plan.m * plan.k * plan.n * plan.batches < SHORT

    def bind(arrays: Arrays) -> Execute:
        scratch, start = _aligned(plan.scratch.size)
        runs = []
        for sheet, rounds in zip(sheets, plan.rounds, strict=True):
            phases, numbers = sheet.bind(_addresses(sheet, arrays, scratch=start))
            run = prepared(phases, target, (arrays, scratch), keeps_gil=keeps_gil, interruptible=len(sheets) > 1)
            runs.append(_again(run, numbers, rounds.times, sheet.moves) if rounds.times else run)

        def execute() -> None:
            for run in runs:
                if run():
                    raise Unfit

        return execute

    if not plan.owned:
        return Built(bind, plan.scratch.size, judges=True)
    packing = Sheet([[plan.packing]])

    def initialize(arrays: Arrays) -> Arrays:
        (memory, packed), (spare, start) = _aligned(plan.packed.size), _aligned(plan.spare.size)
        phases, _ = packing.bind(_addresses(packing, arrays, packed=packed, spare=start))
        prepared(phases, target, (arrays, memory, spare))()
        return {"packed": memory[packed - address_of(memory) :]}

    return Built(bind, plan.scratch.size, initialize, plan.packed.size, plan.spare.size, judges=True)


INTEGER = Kernel("cpu:matrix_multiply_integer:compiled", MatrixMultiplyInteger, _refuses, _build)
QUANTIZED = Kernel("cpu:quantized_linear_matrix_multiply:compiled", QuantizedLinearMatrixMultiply, _refuses, _build)
