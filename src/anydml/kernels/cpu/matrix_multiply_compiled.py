"""The integer matmuls, compiled: packed B, dot products of bytes, exact rounding in the tile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.checked import Checked
from anydml.kernels.cpu.jit import compile as jit
from anydml.kernels.cpu.jit.steps import Sheet, prepared
from anydml.kernels.cpu.jit.targets import named
from anydml.kernels.cpu.matmul_plan import CONSTANTS, Plan, addresses
from anydml.kernels.kernel import Arrays, Built, Execute, Kernel, Machine, Unfit
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply

SHORT = 1 << 20  # products so few that other threads can wait for them


def _refuses(c: Checked[Any], machine: Machine) -> str | None:
    if (reason := jit.unavailable()) is not None:
        return reason
    target = named(machine.isa)
    if target is None:
        return f"this processor has no {machine.isa or 'known'} instructions"
    return None


def _aligned(nbytes: int) -> NDArray[np.uint8]:
    memory = np.zeros(nbytes + 64, np.uint8)
    start = -memory.__array_interface__["data"][0] % 64
    return memory[start : start + nbytes]


def _build(c: Checked[Any], machine: Machine) -> Built:
    target = named(machine.isa)
    assert target is not None  # refused otherwise
    plan = Plan(c, target, machine.threads)
    sheet = Sheet(plan.phases)
    keeps_gil = plan.m * plan.k * plan.n * plan.batches < SHORT

    def bind(arrays: Arrays) -> Execute:
        memory = {**arrays, "scratch": _aligned(plan.scratch.size), "constants": CONSTANTS}
        phases = sheet.bind(addresses(sheet.bases, memory))
        run = prepared(phases, target, (memory,), keeps_gil=keeps_gil)

        def execute() -> None:
            if run():
                raise Unfit

        return execute

    if not plan.owned:
        return Built(bind, plan.scratch.size, judges=True)
    packing = Sheet([[plan.packing]])

    def initialize(arrays: Arrays) -> Arrays:
        memory = {
            **arrays,
            "packed": _aligned(plan.packed.size),
            "spare": _aligned(plan.spare.size),
            "constants": CONSTANTS,
        }
        prepared(packing.bind(addresses(packing.bases, memory)), target, (memory,))()
        return {"packed": memory["packed"]}

    return Built(bind, plan.scratch.size, initialize, plan.packed.size, judges=True)


INTEGER = Kernel("cpu:matrix_multiply_integer:compiled", MatrixMultiplyInteger, _refuses, _build)
QUANTIZED = Kernel("cpu:quantized_linear_matrix_multiply:compiled", QuantizedLinearMatrixMultiply, _refuses, _build)
