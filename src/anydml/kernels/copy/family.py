"""SLICE1: compiled copies for what is large enough to pay for them, NumPy's copy between views for the rest."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from anydml.kernels.call.address import address_of
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import named
from anydml.kernels.copy import copies
from anydml.kernels.kernel import Arrays, Built, Execute, Kernel, Machine, takes_all
from anydml.operators.slice import Slice1
from anydml.schema.check import Checked

SMALL = 1 << 15  # bytes of output below which NumPy's copy costs no more than the call into compiled code saves
ALONE = 3 << 20  # bytes of output below which a second thread costs more than it brings


def _window(d: Slice1) -> tuple[slice, ...]:
    window = []
    for start, stride, size in zip(d.start(), d.input_window_strides, d.output_tensor.sizes, strict=True):
        end = start + stride * size
        window.append(slice(start, None if end < 0 else end, stride) if size > 1 else slice(start, start + 1))
    return tuple(window)


def _build_view(c: Checked[Any], machine: Machine) -> Built:
    window = _window(c.desc)
    bits = f"u{c.desc.input_tensor.data_type.dtype.itemsize}"  # copied as integers, so that every NaN keeps its payload

    def bind(arrays: Arrays) -> Execute:
        source = arrays["input_tensor"].view(bits)[window]
        return partial(np.copyto, arrays["output_tensor"].view(bits), source)

    return Built(bind, bare=True)


def _refuses_compiled(c: Checked[Any], machine: Machine) -> str | None:
    d: Slice1 = c.desc
    if d.output_tensor.element_bytes < SMALL:
        return f"an output of {d.output_tensor.element_bytes} bytes: below {SMALL}, NumPy's copy is as fast"
    if (reason := llvm.unavailable()) is not None:
        return reason
    if named(machine.isa) is None:
        return f"this processor has no {machine.isa or 'known'} instructions"
    return None


def _build_compiled(c: Checked[Any], machine: Machine) -> Built:
    d: Slice1 = c.desc
    target = named(machine.isa)
    assert target is not None  # refused otherwise
    itemsize = d.input_tensor.data_type.dtype.itemsize
    strides = d.input_tensor.explicit_strides
    size = d.output_tensor.element_bytes
    start = sum(at * s for at, s in zip(d.start(), strides, strict=True)) * itemsize
    copy = copies.copy(
        target,
        d.output_tensor.sizes,
        [s * t * itemsize for s, t in zip(strides, d.input_window_strides, strict=True)],
        [s * itemsize for s in d.output_tensor.explicit_strides],
        itemsize,
        threads=machine.threads if size >= ALONE else 1,
        stream=True,
    )

    def bind(arrays: Arrays) -> Execute:
        input, output = arrays["input_tensor"], arrays["output_tensor"]
        code, arguments = copy.at(address_of(input) + start, address_of(output))
        return prepared([table(code, arguments)], target, (input, output), keeps_gil=size < SMALL * 8, status=False)

    scratch = copy.scratch * len(copy.blocks)
    return Built(bind, scratch, bare=not scratch and len(copy.blocks) == 1)


VIEW = Kernel("numpy:slice1:view", Slice1, takes_all, _build_view)
COMPILED = Kernel("cpu:slice1:compiled", Slice1, _refuses_compiled, _build_compiled)
