"""ANYDML_DUMP: writes each operator or graph to a file: its statement, normalised form, refusals and steps.

The kernels that the steps name have files of their own, and `perf` shows them under the same names (`kernels/code/dump.py`).
This module is imported only if the variable is set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anydml.kernels.call.steps import At, Phases, Repeat, Rounds, Step
from anydml.kernels.code import dump
from anydml.kernels.contract.quantised.sums import quantised_sums, sums_of_planes
from anydml.kernels.kernel import Built, Lowered
from anydml.kernels.match.attention import attention
from anydml.kernels.match.between import quantised_means, selected
from anydml.kernels.match.contraction import contractions
from anydml.kernels.match.convolution import convolution
from anydml.kernels.match.displaced import displaced
from anydml.kernels.match.maps import maps
from anydml.kernels.match.moves import moves
from anydml.kernels.match.nests import together
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.match.product import product
from anydml.kernels.match.random_words import random_words
from anydml.kernels.match.ranked import ranked
from anydml.kernels.match.recurrences import recurrence
from anydml.kernels.match.rows import rows
from anydml.kernels.match.scans import scan
from anydml.kernels.match.staged import staged
from anydml.kernels.match.summed import summed
from anydml.kernels.match.windows import windows
from anydml.kernels.problem import Problem
from anydml.schema.desc import Desc
from anydml.schema.expression import Tensor
from anydml.schema.formula import formula
from anydml.schema.node import Expr, Variable
from anydml.schema.statement import Nest, Statement
from anydml.tensor import DataType, TensorDesc

Refusals = Sequence[Mapping[str, str]]
WIDTH = 116  # characters: a value with a longer line is written with each part on its own line


def operator(desc: Desc, problem: Problem, name: str, made: Lowered | Built, refused: Refusals) -> None:
    """Write an operator's kernel, and the data from which the kernel was chosen and lowered."""
    document = json.dumps(desc.document(), indent=1, default=_document)
    head = f"{desc.spec.name}\nkernel: {name}\n"
    parts = {
        "refused": _refusals(refused),
        "statement": _statement(problem.statement),
        "normalised form": shown(_form(name, problem)),
        "steps": _made(made),
        "desc": document,
    }
    _write("operators", f"{desc.spec.name}.{name.replace(':', '.')}", head, parts)


def fused(title: str, problem: Problem, name: str, made: Lowered | Built) -> None:
    """Write the kernel of a fused statement, which computes several nodes of a graph."""
    form = shown(_form(name, problem))
    parts = {"statement": _statement(problem.statement), "normalised form": form, "steps": _made(made)}
    _write("operators", f"FUSED.{name.replace(':', '.')}", f"{title}\nkernel: {name}\n", parts)


def graph(summary: str, kernels: Sequence[tuple[str, str]], refused: Refusals) -> None:
    """Write the kernels of a graph, and why other kernels refused its nodes, alone, fused, or as regions."""
    lines = "".join(f"{title}: {name}\n" for title, name in kernels)
    _write("graphs", f"{len(kernels)}-calls", summary + "\n", {"kernels": lines, "refused": _refusals(refused)})


def _write(folder: str, name: str, head: str, parts: Mapping[str, str]) -> None:
    text = head + "".join(f"\n== {title} ==\n{part.rstrip()}\n" for title, part in parts.items())
    dump.write(f"{folder}/{name}.{hashlib.blake2b(text.encode(), digest_size=5).hexdigest()}.txt", text)


def _refusals(refused: Refusals) -> str:
    found = [
        (one["nodes"] + ", " if "nodes" in one else "", one.get("kernel") or one["pass"], one["reason"]) for one in refused
    ]
    return "".join(f"{nodes}{name}: {reason}\n" for nodes, name, reason in found)


def _statement(statement: Statement) -> str:
    return "\n".join(formula(name, nest) for name, nest in statement.items())


def _form(name: str, problem: Problem) -> object:
    """The normalised form of the statement by the pattern of the family, or by the first of several patterns that matches."""
    statement, tensors = problem.statement, problem.tensors
    patterns: dict[str, Sequence[Callable[[], object]]] = {
        "copy": [lambda: moves(statement)],
        "elementwise": [lambda: maps(statement)],
        "contract": [lambda: product(problem), lambda: convolution(problem), lambda: summed(problem)],
        "contract.floats": [lambda: contractions(statement)],
        "attention": [lambda: attention(statement)],
        "reduce": [lambda: rows(statement), lambda: staged(statement)],
        "windows": [lambda: windows(statement), lambda: selected(problem)],
        "windows.quantised": [lambda: quantised_means(problem)],
        "contract.quantised": [lambda: quantised_sums(problem), lambda: sums_of_planes(problem)],
        "irregular": [lambda: displaced(statement)],
        "scan": [lambda: scan(statement)],
        "order": [lambda: ranked(statement)],
        "recurrence": [lambda: recurrence(statement)],
        "random": [lambda: random_words(statement)],
        "nests": [lambda: together([*statement.values()], [tensors[name].data_type for name in statement])],
    }
    found: object = "the statement itself"
    for pattern in patterns.get(name.partition(":")[0], ()):
        if not isinstance(found := pattern(), str):
            break
    return found


def _made(made: Lowered | Built) -> str:
    if isinstance(made, Built):
        phases = None if made.rounds is None else "\n".join(_rounds(made.rounds))
        return phases or "a call of Python's"
    sizes = {k: getattr(made, k) for k in ("scratch", "passing", "packed", "spare")}
    lines = ["bytes: " + ", ".join(f"{name} {size}" for name, size in sizes.items() if size)] if any(sizes.values()) else []
    if made.packing:
        lines += ["initialize:", *_steps(made.packing, "  ")]
    return "\n".join([*lines, *_rounds(made.rounds)])


def _rounds(rounds: Sequence[Rounds]) -> Iterator[str]:
    for one in rounds:
        if one.times:
            yield f"{' x '.join(map(str, one.times))} times:"
        yield from _phases(one.phases)


def _phases(phases: Phases) -> Iterator[str]:
    for k, phase in enumerate(phases):
        for n, piece in enumerate(phase):
            yield f"phase {k}, piece {n}:"
            yield from _steps(piece, "  ")


def _steps(steps: Sequence[Step | Repeat], indent: str) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Repeat):
            yield f"{indent}{step.times} times:"
            yield from _steps(step.first, indent + "  ")
            continue
        arguments = ", ".join(f"{x.base}+{x.offset}" if isinstance(x, At) else str(x) for x in step.arguments)
        yield f"{indent}{dump.name_of(step.code.made)}({arguments})"
        if step.aligned is not None:
            yield f"{indent}  or, where aligned, {dump.name_of(step.aligned.code.made)}"


def shown(value: object, indent: int = 0) -> str:
    """A value as text. The parts of a long value are on lines of their own."""
    line = _line(value)
    if len(line) + indent <= WIDTH:
        return line
    inner, pad = indent + 2, " " * (indent + 2)
    if isinstance(value, NormalForm):
        return "\n".join([type(value).__name__, *(f"{pad}{k}: {_line(node)}" for k, node in enumerate(value))])
    if isinstance(value, Mapping):
        return "\n".join(["{", *(f"{pad}{_line(k)}: {shown(v, inner)}" for k, v in value.items()), " " * indent + "}"])
    if (fields := _fields(value)) is not None:
        return "\n".join([type(value).__name__, *(f"{pad}{k} = {shown(v, inner)}" for k, v in fields.items())])
    if isinstance(value, (tuple, list)):
        return "\n".join(["[", *(pad + shown(v, inner) for v in value), " " * indent + "]"])
    return line


def _fields(value: object) -> dict[str, Any] | None:
    """The members of a record by name; None for a value that is not shown as a record."""
    if isinstance(value, (DataType, Expr, Variable, Tensor, TensorDesc, Nest)):
        return None
    names = getattr(value, "_fields", None) or getattr(value, "__dataclass_fields__", None)
    return {name: getattr(value, name) for name in names} if names else None


def _line(value: object) -> str:
    if isinstance(value, Expr):
        return formula("", Nest((), value)).removeprefix("[] = ").replace("\n", "; ")
    if isinstance(value, Nest):
        return formula("", value).replace("\n", "; ")
    if isinstance(value, Variable):
        return f"variable of {value.size}"
    if isinstance(value, Tensor):
        return f"{value.name} {value.data_type} {value.sizes}"
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype} {value.shape}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_line(k)}: {_line(v)}" for k, v in value.items()) + "}"
    if (fields := _fields(value)) is not None:
        return f"{type(value).__name__}({', '.join(f'{k}={_line(v)}' for k, v in fields.items())})"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_line, value)) + "]"
    return str(value)


def _document(value: object) -> object:
    found = getattr(value, "document", None)
    return found() if found else str(value)
