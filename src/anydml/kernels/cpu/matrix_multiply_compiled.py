"""The integer matmuls, compiled: packed B, dot products of bytes, exact rounding in the tile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.cpu.jit import compile as jit
from anydml.kernels.cpu.jit.steps import Sheet, address_of, prepared
from anydml.kernels.cpu.jit.targets import named
from anydml.kernels.cpu.matmul_plan import CONSTANTS, Plan
from anydml.kernels.kernel import Arrays, Built, Execute, Kernel, Machine, Unfit
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.schema.check import Checked

LINE = 64
MOST_BATCHES = 1 << 20
MOST_K = 1 << 24
SHORT = 1 << 20  # products so few that other threads can wait for them


def _refuses(c: Checked[Any], machine: Machine) -> str | None:
    if (reason := jit.unavailable()) is not None:
        return reason
    if named(machine.isa) is None:
        return f"this processor has no {machine.isa or 'known'} instructions"
    if (batches := math.prod(c.desc.a_tensor.sizes[:-2])) > MOST_BATCHES:
        return f"{batches} batches: a plan for more than {MOST_BATCHES} takes too much memory"
    if (k := c.desc.a_tensor.sizes[-1]) > MOST_K:
        return f"K = {k}: panels of more than {MOST_K} rows of B take too much memory"
    return None


def _aligned(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """Zeroed memory, and the address in it from which on there are so many bytes at a cache line's start."""
    memory = np.zeros(nbytes + LINE, np.uint8)
    address = address_of(memory)
    return memory, address + -address % LINE


def _addresses(sheet: Sheet, arrays: Arrays, **others: int) -> list[int]:
    constants = others | {"constants": address_of(CONSTANTS)}
    return [constants[base] if base in constants else address_of(arrays[base]) for base in sheet.bases]


def _build(c: Checked[Any], machine: Machine) -> Built:
    target = named(machine.isa)
    assert target is not None  # refused otherwise
    plan = Plan(c, target, machine.threads)
    sheet = Sheet(plan.phases)
    keeps_gil = plan.m * plan.k * plan.n * plan.batches < SHORT

    def bind(arrays: Arrays) -> Execute:
        scratch, start = _aligned(plan.scratch.size)
        phases = sheet.bind(_addresses(sheet, arrays, scratch=start))
        run = prepared(phases, target, (arrays, scratch), keeps_gil=keeps_gil, interruptible=plan.long)

        def execute() -> None:
            if run():
                raise Unfit

        return execute

    if not plan.owned:
        return Built(bind, plan.scratch.size, judges=True)
    packing = Sheet([[plan.packing]])

    def initialize(arrays: Arrays) -> Arrays:
        (memory, packed), (spare, start) = _aligned(plan.packed.size), _aligned(plan.spare.size)
        prepared(packing.bind(_addresses(packing, arrays, packed=packed, spare=start)), target, (arrays, memory, spare))()
        return {"packed": memory[packed - address_of(memory) :]}

    return Built(bind, plan.scratch.size, initialize, plan.packed.size, judges=True)


INTEGER = Kernel("cpu:matrix_multiply_integer:compiled", MatrixMultiplyInteger, _refuses, _build)
QUANTIZED = Kernel("cpu:quantized_linear_matrix_multiply:compiled", QuantizedLinearMatrixMultiply, _refuses, _build)
