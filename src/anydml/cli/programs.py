"""Programs on the command line: loading one, its faults as JSON, and the comparison of an output."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.cli.output import note
from anydml.errors import BindingError, Fault, ProgramError
from anydml.explain import describe as pages
from anydml.explain.compare import compare as compare_arrays
from anydml.explain.comparison import Comparison
from anydml.program import Program, files, load
from anydml.program.model import Binding, Dispatch
from anydml.spelling import printable


def members(fault: Fault) -> dict[str, Any]:
    """A fault as data for JSON: its place, its message, the rule and the values read."""
    violation = fault.violation
    return {
        "pointer": fault.pointer,
        "message": fault.message,
        "constraint": violation and violation.constraint,
        "dimension": violation and violation.dimension,
        "values": pages.plain(violation.values if violation else {}),
        "expected": pages.plain(violation.expected if violation else {}),
    }


def compared(program: Program, resource: str, actual: NDArray[Any], options: Mapping[str, Any]) -> Comparison:
    """The comparison of an array with the exact output of the last operator that writes a resource."""
    program.check(**options)
    dispatches = [command for command in program.commands if isinstance(command, Dispatch)]
    descs = [program.dispatchables[command.dispatchable].desc for command in dispatches]
    writes = [
        (i, f"{f.name}[{place}]" if f.sized_by else f.name, binding)
        for i, (command, d) in enumerate(zip(dispatches, descs, strict=True))
        for f in d.spec.outputs
        for place, binding in enumerate(command.bindings.get(f.wire, ()))
        if binding.resource == resource
    ]
    if not writes:
        raise BindingError([Fault("--resource", f"no operator of the program writes {resource!r}")])
    at, output, written = writes[-1]
    d = program.dispatchables[dispatches[at].dispatchable]
    # the values of inputs when the operator runs; those of owned inputs when the program begins
    before, begin = (replace(program, commands=tuple(these)).run(**options) for these in (dispatches[:at], []))

    def skipped(binding: Binding) -> int:
        return binding.element_offset * (binding.element_size or begin[binding.resource].itemsize)

    inputs: dict[str, Any] = {}
    for bindings, contents in ((d.bindings, begin), (dispatches[at].bindings, before)):
        for f in d.desc.spec.inputs:
            held = [contents[b.resource].view(np.uint8)[skipped(b) :] for b in bindings.get(f.wire, ())]
            if held:
                inputs[f.name] = held if f.sized_by else held[0]
    t = next(found.desc for found in d.desc.tensors() if found.name == output)
    if actual.shape != t.sizes or skipped(written):
        actual = actual.ravel()[skipped(written) // actual.itemsize :]
    return compare_arrays(d.desc, inputs, actual, output)


def npy(file: str) -> NDArray[Any]:
    """The array in the file that `--actual` names."""
    try:
        return files.array(Path(file))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BindingError([Fault("--actual", printable(f"{file} cannot be read: {reason}"))]) from None


def loaded(file: str) -> Program:
    """The program in a file, or in standard input; its warnings are printed."""
    try:
        program = load(io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", newline="")) if file == "-" else load(file)
    except UnicodeDecodeError as error:
        raise ProgramError([Fault("", printable(f"{file} cannot be read ({error})"))]) from None
    for warning in program.warnings:
        note(f"warning: {warning}", "yellow")
    return program
