"""What the tests of kernels share: every kernel there is, what it may be asked to use, and an operator compiled by just it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from anydml import Checked, TensorFlags, check
from anydml.devices.compiled import CompiledOperator
from anydml.devices.families import DEVICES
from anydml.devices.link import link
from anydml.forks import imported
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.contract.plan import Plan
from anydml.kernels.copy import copies  # which a family imports when it is needed, and tests patch before
from anydml.kernels.kernel import Built, Lowered, Machine, Refused
from anydml.kernels.match.moves import moves
from anydml.kernels.match.product import product
from anydml.schema.operator import Desc, example_desc
from anydml.schema.statement import stated

Operator = type[Desc]
Ran = Callable[[int, int], None]


assert copies


@dataclass(frozen=True)
class Kernel:
    """A family of kernels, by name and module, as it serves an operator."""

    name: str
    module: str
    implements: Operator

    def lower(self, checked: Checked[Desc], machine: Machine) -> Lowered | Built | Refused:
        made: Lowered | Built | Refused = imported(self.module).lower(stated(checked.desc), checked, machine)
        return made


def newest_of(checked: Checked[Desc]) -> Checked[Desc]:
    newest = checked.desc.as_newest()
    return checked if newest is checked.desc else replace(checked, desc=newest)


def plan_of(checked: Checked[Any], target: Target, threads: int) -> Plan:
    """The plan of a product, whatever it takes."""
    found = product(stated(checked.desc), checked)
    assert not isinstance(found, str), found
    return Plan(found, target, threads)


def compiled_by(kernel: Kernel, machine: Machine, checked: Checked[Desc]) -> CompiledOperator | None:
    """An operator compiled by one kernel and no other; None where it refuses."""
    assert kernel.implements is type(checked.desc)
    made = kernel.lower(newest_of(checked), machine)
    if isinstance(made, Refused):
        return None
    compiled = CompiledOperator(checked, kernel.name, link(made) if isinstance(made, Lowered) else made)
    assert compiled.kernel_name == kernel.name
    return compiled


def kernels_of(operator: Operator) -> Iterator[Kernel]:
    """Every kernel of every device that serves an operator, each once."""
    checked = newest_of(check(example_desc(operator)))
    statement = stated(checked.desc)
    patterns = {"copy": moves(statement), "contract": product(statement, checked)}
    families = {name: module for families in DEVICES.values() for name, module in families.items()}
    for name, module in families.items():
        if not isinstance(patterns.get(name.split(":")[0]), str):
            yield Kernel(name, module, operator)


def machines_for(kernel: Kernel) -> list[Machine]:
    """What a kernel may be asked to use: compiled ones every instruction set there is here, with and without threads."""
    if not kernel.name.endswith(":compiled"):
        return [Machine(None, 1)]
    return [Machine(target.name, 3 if at else 1) for at, target in enumerate(targets())] or [Machine(None, 1)]


def some(count: int, kernel: Kernel) -> int:
    """So many examples; fewer for what is compiled, which takes a good part of a second each time that it is new."""
    return count // 6 if kernel.name.endswith(":compiled") else count


def run(compiled: CompiledOperator, inputs: Mapping[str, Any], output: Any, *, initialize: bool = True) -> None:
    """DirectML's sequence: owned inputs at initialize, the others at bind."""
    owned = {name: x for name, x in inputs.items() if getattr(compiled.desc, name).flags & TensorFlags.OWNED_BY_DML}
    if owned and initialize:
        compiled.initialize(**owned)
    others = {name: x for name, x in inputs.items() if name not in owned}
    compiled.bind(**others, output_tensor=output).execute()
