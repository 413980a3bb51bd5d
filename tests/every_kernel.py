"""What the tests of kernels share: every kernel there is, what it may be asked to use, and an operator compiled by just it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from anydml import Checked, TensorFlags
from anydml.devices.compiled import CompiledOperator
from anydml.devices.device import NAMES as DEVICES
from anydml.kernels.code.targets import targets
from anydml.kernels.kernel import Kernel, Machine
from anydml.schema.operator import Desc, example_desc

Operator = type[Desc]
Ran = Callable[[int, int], None]


def compiled_by(kernel: Kernel, machine: Machine, checked: Checked[Desc]) -> CompiledOperator | None:
    """An operator compiled by one kernel and no other; a kernel of the newest version serves the older ones too."""
    newest = checked if kernel.implements is type(checked.desc) else replace(checked, desc=checked.desc.as_newest())
    assert kernel.implements is type(newest.desc)
    if kernel.refuses(newest, machine) is not None:
        return None
    compiled = CompiledOperator(checked, kernel.name, kernel.build(newest, machine))
    assert compiled.kernel_name == kernel.name
    return compiled


def kernels_of(operator: Operator) -> Iterator[Kernel]:
    """Every kernel of every device that serves an operator, each once."""
    newest = type(example_desc(operator).as_newest())
    modules = (importlib.import_module(f"anydml.devices.{device}") for device in DEVICES)
    kernels: dict[str, Kernel] = {k.name: k for module in modules for k in module.kernels(newest.spec.name)}
    return (kernel for kernel in kernels.values() if kernel.implements in (operator, newest))


def machines_for(kernel: Kernel) -> list[Machine]:
    """What a kernel may be asked to use: compiled ones every instruction set there is here, with and without threads."""
    if not kernel.name.startswith("cpu:"):
        return [Machine(None, 1)]
    return [Machine(target.name, 3 if at else 1) for at, target in enumerate(targets())] or [Machine(None, 1)]


def some(count: int, kernel: Kernel) -> int:
    """So many examples; fewer for what is compiled, which takes a good part of a second each time that it is new."""
    return count // 6 if kernel.name.startswith("cpu:") else count


def run(compiled: CompiledOperator, inputs: Mapping[str, Any], output: Any, *, initialize: bool = True) -> None:
    """DirectML's sequence: owned inputs at initialize, the others at bind."""
    owned = {name: x for name, x in inputs.items() if getattr(compiled.desc, name).flags & TensorFlags.OWNED_BY_DML}
    if owned and initialize:
        compiled.initialize(**owned)
    others = {name: x for name, x in inputs.items() if name not in owned}
    compiled.bind(**others, output_tensor=output).execute()
