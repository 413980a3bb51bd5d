"""Every kernel, the machines that it can be tested on, and operators that are compiled by one given kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from anydml import Checked, TensorFlags, check
from anydml.devices.compiled import CompiledOperator
from anydml.devices.families import DEVICES
from anydml.devices.link import link
from anydml.feature_level import FeatureLevel
from anydml.kernels.code import engine
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.contract.family import contraction
from anydml.kernels.contract.panels.plan import PanelPlan
from anydml.kernels.contract.problem import of_convolution, of_product
from anydml.kernels.copy import copies  # families import it when needed; it is imported here so that tests can change it before
from anydml.kernels.kernel import Answer, Lower, Lowered, Machine, Refused
from anydml.kernels.match.attention import attention
from anydml.kernels.match.contraction import contractions
from anydml.kernels.match.convolution import Convolution
from anydml.kernels.match.displaced import displaced
from anydml.kernels.match.layers import layers
from anydml.kernels.match.looked_up import looked_up
from anydml.kernels.match.maps import maps
from anydml.kernels.match.moves import moves
from anydml.kernels.match.nests import MANY, together
from anydml.kernels.match.nonzeros import nonzeros
from anydml.kernels.match.product import MatrixProduct, product
from anydml.kernels.match.random_words import random_words
from anydml.kernels.match.ranked import ranked
from anydml.kernels.match.recurrences import recurrence
from anydml.kernels.match.reversed import reversed_lines
from anydml.kernels.match.rows import rows
from anydml.kernels.match.scans import scan
from anydml.kernels.match.several import several
from anydml.kernels.match.staged import staged
from anydml.kernels.match.windows import windows
from anydml.kernels.problem import problem_of
from anydml.schema.operator import Desc, example_desc
from anydml.schema.statement import Statement, stated

Operator = type[Desc]
DOT_PRODUCTS = {"avxvnni", "avx512vnni", "amx-tile", "amx-int8", "dotprod", "i8mm"}
SOAK = int(os.environ.get("ANYDML_SOAK", "1"))  # the factor by which `make soak` has more cases
"""All tests of an operator take about four seconds of one core; longer ones are run by `make soak`."""
CallsOf = Callable[[Any, str], list[None]]
Ran = Callable[[int, int], None]
Compared = Callable[[str, int, int], None]


assert copies
for _families in DEVICES.values():  # imported now, so that tests can change their limits
    for _imported in _families.values():
        _imported()


@dataclass(frozen=True)
class Kernel:
    """A family of kernels by name, with the function that imports it, for one operator."""

    name: str
    family: Callable[[], Lower]
    implements: Operator

    def lower(self, checked: Checked[Desc], machine: Machine) -> Answer:
        try:
            return self.family()(problem_of(checked), machine)
        except Uncompilable as error:
            return Refused(str(error))


def newest_of(checked: Checked[Desc]) -> Checked[Desc]:
    newest = checked.desc.as_newest()
    return checked if newest is checked.desc else replace(checked, desc=newest)


def plan_of(checked: Checked[Any], target: Target, threads: int) -> PanelPlan:
    """The plan of a product or a convolution of integers, whether or not the family would take it."""
    found = contraction(problem_of(checked))
    assert isinstance(found, MatrixProduct | Convolution), found
    return PanelPlan(of_product(found) if isinstance(found, MatrixProduct) else of_convolution(found), target, threads)


@lru_cache(maxsize=4096)
def _emitted(emit: Callable[..., str], target: Target, *arguments: Any) -> engine.Code:
    emit(target, *arguments)
    return engine.Code(None, 1)


@contextmanager
def code_left_out() -> Iterator[None]:
    """Within it, kernels are emitted and not compiled, for questions about which kernels take a desc.

    The code that calls kernels is compiled, because it is kept. So are nests, which inspect their machine code.
    """
    whole = engine.compiled

    def compiled(emit: Callable[..., str], target: Target, *arguments: Any) -> engine.Code:
        calls = emit.__module__.startswith("anydml.kernels.call.")
        return (whole if calls else _emitted)(emit, target, *arguments)

    with patch.object(engine, "compiled", compiled):
        yield


def takes(kernel: Kernel, checked: Checked[Desc], machine: Machine) -> bool:
    """Whether a kernel takes a desc on a machine."""
    with code_left_out():
        return not isinstance(kernel.lower(newest_of(checked), machine), Refused)


def compiled_by(kernel: Kernel, machine: Machine, checked: Checked[Desc]) -> CompiledOperator | None:
    """An operator compiled by this kernel, or None if it refuses."""
    assert kernel.implements is type(checked.desc)
    made = kernel.lower(newest_of(checked), machine)
    if isinstance(made, Refused):
        return None
    compiled = CompiledOperator(checked, kernel.name, link(made) if isinstance(made, Lowered) else made)
    assert compiled.kernel_name == kernel.name
    return compiled


def one_map(statement: Statement) -> object:
    found = maps(statement)
    return found if isinstance(found, str) or len(found) == 1 else "there are several outputs"


def products_of_floats(statement: Statement) -> object:
    found = contractions(statement)
    floats = isinstance(found, str) or all(f.data_type.dtype.kind == "f" for c in found for f in c.factors)
    return found if floats else "the factors are no floats"


def in_nests(checked: Checked[Desc], statement: Statement) -> object:
    """For every output, its loops with many and with few terms unrolled; or the reason why one cannot be a nest."""
    made = []
    for name, nest in statement.items():
        tries = [together((nest,), (checked.tensors[name].data_type,), many) for many in (MANY, 1)]
        if all(isinstance(found, str) for found in tries):
            return tries[0]
        made.append(tries)
    return made


def kernels_of(operator: Operator, desc: Desc | None = None) -> Iterator[Kernel]:
    """Every kernel of every device for an operator, each once, by a desc or by the operator's first example.

    The reference serves all operators.
    """
    checked = newest_of(check(desc or example_desc(operator), FeatureLevel.EXTENDED))
    statement = stated(checked.desc)
    copies = moves(statement)
    if isinstance(copies, str) and not isinstance(
        in_order := layers(statement, checked.tensors[next(iter(statement))].data_type), str
    ):
        copies = in_order
    patterns: dict[str, object] = {
        "copy": copies,
        "contract": product(problem_of(checked)),
        "contract:compiled": contraction(problem_of(checked)),
        "contract.floats": products_of_floats(statement),
        "attention": attention(statement),
        "elementwise": one_map(statement),
        "windows": windows(statement),
        "irregular:compiled": reversed_lines(statement)
        if isinstance(found := displaced(statement), str)
        else (found if checked.desc.spec.data_rules else "indices may name no place"),
        "irregular:numpy": looked_up(statement) or ("copies" if not isinstance(copies, str) else statement),
        "scan": scan(statement),
        "order": nonzeros(statement) if isinstance(in_lines := ranked(statement), str) else in_lines,
        "random": random_words(statement),
        "recurrence": recurrence(statement),
    }
    # products are rows too, but kernels of products compute them
    is_product = any(not isinstance(patterns[name], str) for name in ("contract:compiled", "contract.floats"))
    in_rows: object = rows(statement) if len(statement) == 1 else staged(statement)
    if len(statement) > 1 and isinstance(in_rows, str) and not checked.desc.spec.in_place:
        in_rows = several(statement)
    patterns["reduce"] = "a product" if is_product else in_rows
    every = {name: family for families in DEVICES.values() for name, family in families.items()}
    taken = not isinstance(copies, str)
    for name, family in every.items():
        kernel = Kernel(name, family, operator)
        if name == "nests:compiled":
            # nests can be nearly everything: they are tested for operators that no other compiled kernel takes
            if not taken and not isinstance(in_nests(checked, statement), str):
                yield kernel
        elif not isinstance(patterns.get(name, patterns.get(name.split(":")[0])), str):
            if name.endswith(":compiled"):
                taken = taken or takes(kernel, checked, Machine(None, 1))
            yield kernel


def machines_for(kernel: Kernel) -> list[Machine]:
    """The machines to test a kernel on: for a compiled one, this processor's instruction sets, with and without threads."""
    if not kernel.name.endswith(":compiled"):
        return [Machine(None, 1)]
    rows = targets() if kernel.name.startswith("contract:") else without_dot_products()
    return [Machine(target.name, 3 if at else 1) for at, target in enumerate(rows)] or [Machine(None, 1)]


def without_dot_products() -> tuple[Target, ...]:
    """The instruction sets of this processor for kernels without dot products: of those that differ in these only, the widest.

    In `make soak`, all of them.
    """
    apart = {frozenset(target.features) - DOT_PRODUCTS: target for target in targets()}
    return targets() if SOAK > 1 else tuple(apart.values())


def some(count: int, kernel: Kernel) -> int:
    """The number of examples; fewer for compiled kernels, since a new one takes a large part of a second."""
    return max(1, SOAK * count // 6 if kernel.name.endswith(":compiled") else SOAK * count)


def run(compiled: CompiledOperator, inputs: Mapping[str, Any], output: Any, *, initialize: bool = True) -> None:
    """Initialize with owned inputs, bind the others, and execute. output: the array of the only output, or arrays by name.

    Names are those of `Desc.tensors`, such as `input_tensors[1]` in an array of tensors.
    """
    outputs = output if isinstance(output, dict) else {compiled.desc.spec.outputs[0].name: output}
    if initialize and (owned := only_owned(compiled.desc, inputs)):
        compiled.initialize(**nested(compiled.desc, owned))
    others = {name: x for name, x in inputs.items() if name not in only_owned(compiled.desc, inputs)}
    compiled.bind(**nested(compiled.desc, {**others, **outputs})).execute()


def only_owned(desc: Desc, named: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that are bound at initialize."""
    owned = {t.name for t in desc.tensors() if t.desc.flags & TensorFlags.OWNED_BY_DML}
    return {name: x for name, x in named.items() if name in owned}


def nested(desc: Desc, named: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by the names of `Desc.tensors` in the form that `bind` takes: a list for an array of tensors, which is left out if
    it has no arrays."""
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
    """Arrays in the form that `bind` takes, by the names of `Desc.tensors`."""
    arrays = {f.name for f in desc.spec.tensors if f.sized_by}
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        found |= {f"{name}[{i}]": v for i, v in enumerate(value)} if name in arrays else {name: value}
    return found
