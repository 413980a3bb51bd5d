"""What the tests of kernels share: every kernel there is, what it may be asked to use, and an operator compiled by just it."""

from __future__ import annotations

import importlib
import os
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
SOAK = int(os.environ.get("ANYDML_SOAK", "1"))  # how many times as many cases as by default
Ran = Callable[[int, int], None]


def compiled_by(kernel: Kernel, machine: Machine, checked: Checked[Desc]) -> CompiledOperator | None:
    """An operator compiled by one kernel and no other; a kernel of the newest version serves the older ones too."""
    newest = checked if kernel.implements is type(checked.desc) else replace(checked, desc=checked.desc.as_newest())
    assert kernel.implements in (None, type(newest.desc))
    if kernel.refuses(newest, machine) is not None:
        return None
    compiled = CompiledOperator(checked, kernel.name, kernel.build(newest, machine))
    assert compiled.kernel_name == kernel.name
    return compiled


def kernels_of(operator: Operator) -> Iterator[Kernel]:
    """Every kernel of every device that serves an operator, each once: the reference serves them all."""
    newest = type(example_desc(operator).as_newest())
    modules = (importlib.import_module(f"anydml.devices.{device}") for device in DEVICES)
    kernels: dict[str, Kernel] = {k.name: k for module in modules for k in module.kernels(newest.spec.name)}
    return (kernel for kernel in kernels.values() if kernel.implements in (None, operator, newest))


def machines_for(kernel: Kernel) -> list[Machine]:
    """What a kernel may be asked to use: compiled ones every instruction set there is here, with and without threads."""
    if not kernel.name.startswith("cpu:"):
        return [Machine(None, 1)]
    return [Machine(target.name, 3 if at else 1) for at, target in enumerate(targets())] or [Machine(None, 1)]


def some(count: int, kernel: Kernel) -> int:
    """So many examples; fewer for what is compiled, which takes a good part of a second each time that it is new."""
    return max(1, SOAK * count // 6 if kernel.name.startswith("cpu:") else SOAK * count)


def run(compiled: CompiledOperator, inputs: Mapping[str, Any], output: Any, *, initialize: bool = True) -> None:
    """DirectML's sequence: owned inputs at initialize, the others at bind. `output` is that of an operator with one.

    Names are those of `Desc.tensors`, `input_tensors[1]` in an array; of several outputs, `output` maps them to arrays.
    """
    outputs = output if isinstance(output, dict) else {compiled.desc.spec.outputs[0].name: output}
    if initialize and (owned := only_owned(compiled.desc, inputs)):
        compiled.initialize(**nested(compiled.desc, owned))
    others = {name: x for name, x in inputs.items() if name not in only_owned(compiled.desc, inputs)}
    compiled.bind(**nested(compiled.desc, {**others, **outputs})).execute()


def only_owned(desc: Desc, named: Mapping[str, Any]) -> dict[str, Any]:
    """What of the inputs is bound at initialize."""
    owned = {t.name for t in desc.tensors() if t.desc.flags & TensorFlags.OWNED_BY_DML}
    return {name: x for name, x in named.items() if name in owned}


def nested(desc: Desc, named: Mapping[str, Any]) -> dict[str, Any]:
    """What is bound, by the names of `Desc.tensors`, as `bind` takes it: a list for an array of tensors, without those of
    which nothing is bound."""
    arguments: dict[str, Any] = {}
    for found in desc.tensors():
        if found.field.sized_by:
            arguments.setdefault(found.field.name, []).append(named.get(found.name))
        elif found.name in named:
            arguments[found.name] = named[found.name]
    return {
        name: value for name, value in arguments.items() if not isinstance(value, list) or any(v is not None for v in value)
    }


def flat(desc: Desc, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What is bound, as `bind` takes it, by the names of `Desc.tensors`."""
    arrays = {f.name for f in desc.spec.tensors if f.sized_by}
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        found |= {f"{name}[{i}]": v for i, v in enumerate(value)} if name in arrays else {name: value}
    return found
