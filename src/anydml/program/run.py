"""The execution of a program without faults, independent of JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from anydml.devices.compiled import BoundOperator
from anydml.devices.profile import Profile, Spent
from anydml.int4_tensors import array_dtype
from anydml.program import files
from anydml.program.check import Layout, Plan
from anydml.program.files import Refused
from anydml.program.model import Command, Constant, Dispatch, FromFile, Given, Print, Resource, Sequence, WriteFile
from anydml.program.text import Notes
from anydml.spelling import printable
from anydml.tensor import EXTENSIONS

ALIGNMENT = 64  # of a resource's first byte, at least
CHUNK = 2**16  # elements that are computed or printed at a time

Memory = Mapping[str, NDArray[np.uint8]]


def execute(
    resources: Mapping[str, Resource],
    commands: tuple[Command, ...],
    plan: Plan,
    notes: Notes,
    out: TextIO | None,
    iterations: int,
    warmup: int,
    profile: bool,
) -> dict[str, NDArray[Any]]:
    """Allocate, fill and initialize, then execute the commands in order. ProgramError, before any command, for a bad file.

    profile: whether the last output is a table of the dispatches.
    """
    memory = {name: _allocated(plan.layouts[name].bytes, plan.alignments.get(name, 0)) for name in resources}
    for name, resource in resources.items():
        try:
            _fill(resource, plan.layouts[name], memory[name])
        except (Refused, OSError) as error:
            notes.fault(f"{resource.pointer}/initialValues/sourcePath", str(error))
    notes.settle()
    for name, operator in plan.compiled.items():
        if plan.owned[name]:
            operator.initialize(**_slices(plan, name, plan.owned[name], memory))
    unwritten: list[str] = []
    rows: list[Spent] = []
    for command in commands:
        if isinstance(command, Dispatch):
            arrays = _slices(plan, command.dispatchable, plan.bound[command.pointer], memory)
            compiled = plan.compiled[command.dispatchable]
            spent = _timed(compiled.bind(**arrays), iterations, warmup)
            if out is not None and iterations + warmup > 1:
                median = spent[iterations // 2] * 1e3
                out.write(f"Dispatch {command.dispatchable!r}: {iterations} iterations, {median:.4f} ms median (CPU)\n")
            size = sum(t.element_bytes for t in plan.checked[command.dispatchable].tensors.values())
            rows.append(Spent(printable(command.dispatchable), compiled.kernel_name, spent[0] * 1e6, size))
        elif isinstance(command, Print) and out is not None:
            values, of = _values(plan, command.resource, memory), plan.layouts[command.resource].data_type
            numbers = values.view(array_dtype(of)).astype(np.float32) if of in EXTENSIONS.values() else values
            out.writelines(_printed(command, values, numbers))
        elif isinstance(command, WriteFile):
            target = plan.targets[command.pointer]
            try:
                files.write(target, _values(plan, command.resource, memory), command.dimensions)
            except OSError as error:
                unwritten.append(printable(f"{command.target}: {error.strerror or error}"))
            else:
                if out is not None:
                    out.write(f"Wrote {str(files.from_here(target))!r}\n")
    if profile and out is not None:
        out.write(f"{Profile(rows)}\n")
    if unwritten:
        raise OSError("; ".join(unwritten))
    return {
        name: _values(plan, name, memory) if resource.size is None else _all(plan.layouts[name], memory[name])
        for name, resource in resources.items()
    }


def _allocated(size: int, alignment: int) -> NDArray[np.uint8]:
    alignment = max(alignment, ALIGNMENT)
    room = np.zeros(size + alignment, np.uint8)  # pages that are never touched take no memory
    begin = -room.ctypes.data % alignment
    return room[begin : begin + size]


def _fill(resource: Resource, layout: Layout, memory: NDArray[np.uint8]) -> None:
    values, room = resource.values, memory[: layout.value_bytes]
    dtype = layout.data_type.dtype
    if isinstance(values, Given):
        room[...] = values.data.view(np.uint8)
    elif isinstance(values, Constant):
        room.view(dtype)[...] = values.value
    elif isinstance(values, Sequence):
        _accumulate(room.view(dtype), values.start, values.delta)
    elif isinstance(values, FromFile):
        assert layout.source is not None
        suffix = layout.source.suffix.lower()
        if suffix == ".npy":
            files.read_npy(layout.source, room)
        elif suffix in files.IMAGES:
            files.read_image(layout.source, values.resample_size, room.view(dtype))
        else:
            files.read_raw(layout.source, room)


def _accumulate(target: NDArray[Any], start: NDArray[Any], delta: NDArray[Any]) -> None:
    """Repeated addition in the element type, each with one rounding or wrap, as in DxDispatch."""
    value = start[0]
    with np.errstate(all="ignore"):
        for begin in range(0, target.size, CHUNK):
            steps = np.full(min(CHUNK, target.size - begin) + 1, delta[0], target.dtype)
            steps[0] = value
            sums = np.add.accumulate(steps, dtype=target.dtype)
            target[begin : begin + CHUNK] = sums[:-1]
            value = sums[-1]


def _slices(
    plan: Plan, dispatchable: str, places: Mapping[str, tuple[str, int]], memory: Memory
) -> dict[str, NDArray[np.uint8]]:
    tensors = plan.checked[dispatchable].tensors
    return {name: memory[resource][at : at + tensors[name].total] for name, (resource, at) in places.items()}


def _timed(bound: BoundOperator, iterations: int, warmup: int) -> list[float]:
    """The seconds of each iteration, in ascending order."""
    spent = []
    for _ in range(warmup + iterations):
        began = time.perf_counter()
        bound.execute()
        spent.append(time.perf_counter() - began)
    return sorted(spent[warmup:])


def _values(plan: Plan, name: str, memory: Memory) -> NDArray[Any]:
    """The part of a resource that its initial values filled, which DxDispatch prints and writes."""
    layout = plan.layouts[name]
    return _all(layout, memory[name][: layout.value_bytes])


def _all(layout: Layout, memory: NDArray[np.uint8]) -> NDArray[Any]:
    dtype = layout.data_type.dtype
    return memory[: memory.nbytes // dtype.itemsize * dtype.itemsize].view(dtype)


def _printed(command: Print, values: NDArray[Any], numbers: NDArray[Any]) -> Iterator[str]:
    yield f"Resource {command.resource!r}:" + ("\n" if command.verbose else " ")
    for begin in range(0, values.size, CHUNK):
        chunk = values[begin : begin + CHUNK]
        shown = numbers[begin : begin + CHUNK]
        texts = map(text, shown if shown.dtype.kind == "f" else shown.tolist())
        if command.verbose:
            bits, digits = chunk.view(f"u{chunk.itemsize}").tolist(), 2 * chunk.itemsize
            yield from (f"[{begin + i}] {t} (0x{b:0{digits}x})\n" for i, (t, b) in enumerate(zip(texts, bits, strict=True)))
        else:
            yield (", " if begin else "") + ", ".join(texts)
    if not command.verbose:
        yield "\n"


def text(value: Any) -> str:
    """The shortest text that converts back to the same number of its type, without a trailing `.0`."""
    if isinstance(value, int):
        return str(value)
    size = abs(float(value))
    if 0 < size < 1e-4 or 1e16 <= size < np.inf:
        return np.format_float_scientific(value, trim="-", exp_digits=2)
    return np.format_float_positional(value, trim="-")
