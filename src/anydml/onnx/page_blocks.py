"""The nodes of comparisons in an order for a page: units that some runtime judges as one, and repeated blocks of units."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anydml.onnx.compare_results import ModelComparison, NodeComparison

SMALL = 40  # nodes of a model that is shown as one block
LENGTH = 50  # nodes of a part that does not repeat, at most
REPEATS = 3  # of a sequence of operators, at least, to be blocks


class Unit(NamedTuple):
    """Nodes in the model's order that some runtime judges together. rows: for each runtime, the rows that have these nodes."""

    nodes: tuple[tuple[str, str], ...]
    rows: Mapping[str, tuple[NodeComparison, ...]]

    @property
    def verdicts(self) -> tuple[str, ...]:
        return tuple(row.verdict for rows in self.rows.values() for row in rows)

    @property
    def departs(self) -> bool:
        return any(row.departs for rows in self.rows.values() for row in rows)


class Group(NamedTuple):
    """Units under one title."""

    title: str
    units: tuple[int, ...]


def units_of(found: Mapping[str, ModelComparison]) -> list[Unit]:
    """The units of several comparisons of one model."""
    names: dict[str, str] = {}
    for comparison in found.values():
        for row in comparison.nodes:
            names.update((n, o) for n, o in zip(row.nodes, row.operators, strict=False) if n not in names)
    root = {n: n for n in names}

    def top(n: str) -> str:
        while root[n] != n:
            root[n] = root[root[n]]
            n = root[n]
        return n

    order = {n: i for i, n in enumerate(names)}
    for comparison in found.values():
        for row in comparison.nodes:
            for other in row.nodes[1:]:
                one, two = sorted((top(row.nodes[0]), top(other)), key=order.__getitem__)
                root[two] = one
    members: dict[str, list[str]] = {}
    for n in names:
        members.setdefault(top(n), []).append(n)
    rows: dict[str, dict[str, list[NodeComparison]]] = {}
    for title, comparison in found.items():
        for row in comparison.nodes:
            rows.setdefault(top(row.nodes[0]), {}).setdefault(title, []).append(row)
    return [
        Unit(tuple((n, names[n]) for n in nodes), {title: tuple(these) for title, these in rows.get(key, {}).items()})
        for key, nodes in members.items()
    ]


def groups_of(units: Sequence[Unit]) -> list[Group]:
    """Blocks of units: by the scopes in names such as /encoder/layer.3/, else by repeated operators, else by number."""
    total = sum(len(u.nodes) for u in units)
    if total <= SMALL:
        return [Group("All nodes", tuple(range(len(units))))]
    keys = [_scope(u.nodes[0][0]) for u in units]
    if sum(key != "" for key in keys) < len(keys) / 4:
        keys = _repeated([u.nodes[0][1] for u in units])
    found: list[Group] = []
    begin = 0
    for i in range(1, len(units) + 1):
        if i == len(units) or keys[i] != keys[begin]:
            found += _titled(keys[begin], range(begin, i), units)
            begin = i
    return found


def _titled(key: str, these: range, units: Sequence[Unit]) -> list[Group]:
    if key:
        return [Group(key, tuple(these))]
    parts = [these[i : i + LENGTH] for i in range(0, len(these), LENGTH)]
    return [Group(f"{units[p[0]].nodes[0][0]} to {units[p[-1]].nodes[-1][0]}", tuple(p)) for p in parts]


def _scope(name: str) -> str:
    """The scope of a name up to its first part with a number; empty if only the last part has one."""
    parts = [p for p in re.split(r"(?<=/)|(?<=\.)(?=\d)", name) if p]
    for i, part in enumerate(parts[:-1]):
        if re.search(r"\d", part):
            return "".join(parts[: i + 1]).strip("/")
    return ""


def _repeated(operators: Sequence[str]) -> list[str]:
    """A title for each unit in a sequence of operators that repeats; the period that covers the most units is taken."""
    n, best = len(operators), (0, 0, 0)
    for period in range(2, min(n // REPEATS, 256) + 1):
        run = 0
        for i in range(n - period):
            run = run + 1 if operators[i] == operators[i + period] else 0
            covered = (run // period + 1) * period
            if run >= period * (REPEATS - 1) and covered > best[0]:
                best = covered, period, i + period + 1 - covered
    covered, period, begin = best
    keys = [""] * n
    for i in range(begin, begin + covered):
        keys[i] = f"block {(i - begin) // period + 1} of {covered // period}"
    return keys
