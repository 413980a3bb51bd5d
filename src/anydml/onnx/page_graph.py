"""Drawings of a comparison's page: the graph of units or blocks, and how errors grow from node to node."""

from __future__ import annotations

import math
from collections.abc import Sequence

from anydml.onnx.compare_results import EQUAL, Deviation, ModelComparison, NodeComparison
from anydml.onnx.page_blocks import Group, Unit
from anydml.pictures.words import escaped, wide
from anydml.spelling import printable

DRAWN = 150  # units that are drawn one by one; of more, blocks are
WIDTH, HEIGHT, ACROSS, DOWN = 200, 46, 22, 30  # of a box and between boxes, in pixels
LINKED = 300  # bars of a chart that are links
LISTED = 3  # nodes that a box of several names
PLOT, WIDEST = (1180, 110), 60  # the size of the chart, and the width of a bar at most
SCALE, TICKS, NAMED = 52, 4, 48  # the room of the chart's scale, its powers of ten at most, the width of bars that have names
ORDER = ("equal", "rounding", "not judged", "no bound", "beyond rounding")  # of verdicts, the worst last


def tone(verdict: str) -> str:
    return f"--tone: var(--{verdict.replace(' ', '-')})"


def worst(verdicts: Sequence[str]) -> str:
    return max(verdicts, key=ORDER.index, default=EQUAL)


def graph(units: Sequence[Unit], groups: Sequence[Group]) -> tuple[str, int]:
    """The graph as SVG, and its width: a box for each unit, or each block of a large model, below those that it reads from."""
    if len(units) <= DRAWN:
        titles = [u.nodes for u in units]
        boxes = [([i], f"unit{i}", _names(t)) for i, t in enumerate(titles)]
    else:
        boxes = [
            (list(g.units), f"block{k}", [g.title, f"{len(g.units)} node{'s' * (len(g.units) != 1)}"])
            for k, g in enumerate(groups)
        ]
    home = {i: k for k, (members, *_) in enumerate(boxes) for i in members}
    writer: dict[str, int] = {}
    for i, u in enumerate(units):
        for row in _rows(u):
            writer.update(dict.fromkeys(row.writes, home[i]))
    above = [
        sorted({writer[n] for i in members for row in _rows(units[i]) for n in row.reads if n in writer} - {k})
        for k, (members, *_) in enumerate(boxes)
    ]
    layers = _layers(above)
    columns = _columns(layers, above)
    heights = [HEIGHT + 14 * max(0, len(lines) - 2) for *_, lines in boxes]
    tops, y = {}, DOWN / 2
    for layer in range(max(layers, default=-1) + 1):
        tops[layer] = y
        y += max((h for h, at in zip(heights, layers, strict=True) if at == layer), default=0) + DOWN
    width = int((max(columns, default=0) + 1) * (WIDTH + ACROSS))
    parts = []
    for k, before in enumerate(above):
        x1, y1 = columns[k] * (WIDTH + ACROSS) + ACROSS / 2 + WIDTH / 2, tops[layers[k]]
        for j in before:
            x0, y0 = columns[j] * (WIDTH + ACROSS) + ACROSS / 2 + WIDTH / 2, tops[layers[j]] + heights[j]
            bend = max(DOWN / 2, (y1 - y0) / 2)
            parts.append(f'<path class="edge" d="M{x0:g} {y0:g}C{x0:g} {y0 + bend:g} {x1:g} {y1 - bend:g} {x1:g} {y1:g}"/>')
    for k, (members, target, lines) in enumerate(boxes):
        x, top = columns[k] * (WIDTH + ACROSS) + ACROSS / 2, tops[layers[k]]
        parts.append(_box(x, top, heights[k], target, lines, [units[i] for i in members]))
    said = f"The graph: {len(boxes)} boxes, each below those that it reads from"
    size = f'width="{width}" height="{y:g}" viewBox="0 0 {width} {y:g}"'
    return f'<svg {size} role="group" aria-label="{said}">{"".join(parts)}</svg>', width


def _rows(unit: Unit) -> list[NodeComparison]:
    return [row for rows in unit.rows.values() for row in rows]


def _names(nodes: Sequence[tuple[str, str]]) -> list[str]:
    """The lines of a unit's box: a node's name and operator; of several, the first ones'."""
    if len(nodes) == 1:
        return [*nodes[0]]
    shown = [f"{name}: {operator}" for name, operator in nodes[:LISTED]]
    return [*shown, f"and {len(nodes) - LISTED} more"] if len(nodes) > LISTED else shown


def _box(x: float, y: float, height: float, target: str, lines: Sequence[str], units: Sequence[Unit]) -> str:
    runtimes = list(dict.fromkeys(title for u in units for title in u.rows))
    verdicts = [worst([row.verdict for u in units for row in u.rows.get(title, ())]) for title in runtimes]
    least = worst(verdicts)
    departs = any(u.departs for u in units)
    dots = "".join(
        f'<circle class="dot" style="{tone(v)}" cx="{x + WIDTH - 12 - 12 * i:g}" cy="{y + 15:g}" r="4"/>'
        for i, v in enumerate(reversed(verdicts))
    )
    room = WIDTH - 24 - 12 * len(verdicts)
    texts = "".join(
        f'<text{" class=" + chr(34) + "kind" + chr(34) if i else ""} x="{x + 12:g}" y="{y + 19 + 15 * i:g}">'
        f"{_short(line, room if not i else WIDTH - 20)}</text>"
        for i, line in enumerate(lines)
    )
    return (
        f'<a href="#{target}"{" class=" + chr(34) + "departs" + chr(34) if departs else ""} '
        f'style="{tone(least)}"><title>{escaped(", ".join(lines))}: {", ".join(verdicts)}</title>'
        f'<rect class="box" x="{x:g}" y="{y:g}" width="{WIDTH}" height="{height:g}" rx="8"/>{dots}{texts}</a>'
    )


def _short(text: str, room: float) -> str:
    """The text, escaped; without its middle if it is wider than the room."""
    shown = text = printable(text)
    most = len(text)
    while most > 2 and wide(shown) > room:
        most -= 1
        shown = f"{text[: most // 2]}…{text[len(text) - most // 2 + 1 :]}"
    return escaped(shown)


def _layers(above: Sequence[Sequence[int]]) -> list[int]:
    """The layer of each box: one below the lowest box that it reads and that precedes it."""
    found = [0] * len(above)
    for k, before in enumerate(above):  # in the model's order, so that one pass suffices for all that precede
        found[k] = max((found[j] + 1 for j in before if j < k), default=0)
    return found


def _columns(layers: Sequence[int], above: Sequence[Sequence[int]]) -> list[float]:
    """The column of each box: below the boxes that it reads if that is free, else the next one to the right."""
    columns = [0.0] * len(layers)
    by_layer: dict[int, list[int]] = {}
    for i, layer in enumerate(layers):
        by_layer.setdefault(layer, []).append(i)

    def wanted(i: int) -> float:
        before = [j for j in above[i] if layers[j] < layers[i]]
        return sum(columns[j] for j in before) / len(before) if before else 0.0

    for layer in sorted(by_layer):
        free = 0.0
        for i in sorted(by_layer[layer], key=lambda i: (wanted(i), i)):
            columns[i] = max(free, wanted(i))
            free = columns[i] + 1
    return columns


# --- how errors grow ---


def growth(units: Sequence[Unit], runtimes: Sequence[str]) -> str:
    """For each runtime a chart of the accumulated errors in the model's order, logarithmic; empty if none is known."""
    charts = []
    for title in runtimes:
        errors = [[_size(r.accumulated) for r in u.rows.get(title, ()) if r.accumulated is not None] for u in units]
        sizes = [max(e, default=None) if e else None for e in errors]
        if any(sizes):
            charts.append(_chart(title, units, sizes))
    return "".join(charts)


def _size(found: Deviation) -> float:
    """The error of a tensor in relation to its largest element; of integers, in steps."""
    return found.relative if found.unit else found.largest


def _chart(title: str, units: Sequence[Unit], sizes: Sequence[float | None]) -> str:
    width, height = PLOT
    logs = [math.log10(s) if s and math.isfinite(s) else None for s in sizes]
    known = [x for x in logs if x is not None]
    low, high = (min(known) - 0.5, max(known) + 0.1) if known else (0.0, 1.0)
    step = min(float(WIDEST), (width - SCALE) / len(units))
    linked = len(units) <= LINKED
    bars = []
    paths: dict[str, list[str]] = {}
    for i, (size, log) in enumerate(zip(sizes, logs, strict=True)):
        if step >= NAMED:
            under = _short(units[i].nodes[0][0], step - 4)
            bars.append(f'<text class="kind" x="{SCALE + i * step:.1f}" y="{height + 15}">{under}</text>')
        if not size:
            continue
        tall = max(2.0, height * ((high if log is None else log) - low) / (high - low))
        verdict = worst([row.verdict for row in units[i].rows.get(title, ())])
        if not linked:
            paths.setdefault(verdict, []).append(
                f"M{SCALE + i * step:.1f} {height}v{-tall:.0f}h{max(0.5, step - 0.3):.1f}v{tall:.0f}"
            )
            continue
        name = escaped(f"{units[i].nodes[0][0]}: {size:.2g}")
        bars.append(
            f'<a href="#unit{i}" tabindex="-1" aria-label="{name}"><rect class="bar" style="{tone(verdict)}" '
            f'x="{SCALE + i * step:.1f}" y="{height - tall:.1f}" width="{max(1.0, step - 1):.1f}" height="{tall:.1f}">'
            f"<title>{name}</title></rect></a>"
        )
    bars += [f'<path class="bar" style="{tone(verdict)}" d="{"".join(parts)}"/>' for verdict, parts in paths.items()]
    most = max((s for s in sizes if s), default=0.0)
    powers = range(math.ceil(low), math.floor(high) + 1)
    lines = f'<path class="axis" d="M{SCALE} {height}h{width - SCALE}"/>'
    for power in powers[:: -(-len(powers) // TICKS) or 1]:
        y = height * (high - power) / (high - low)
        lines += f'<path class="axis" d="M{SCALE} {y:.1f}h{width - SCALE}"/>'
        lines += f'<text class="kind" text-anchor="end" x="{SCALE - 8}" y="{y + 4:.1f}">{10.0**power:g}</text>'
    box = f'width="{width}" height="{height + 20}" viewBox="0 -8 {width} {height + 28}"'
    return (
        f'<h3>{escaped(title)}</h3><div class="scroll" tabindex="0" role="group" aria-label="Accumulated errors">'
        f'<svg {box} role="group" aria-label="Accumulated error of each node, at most {most:.2g}">'
        f"{lines}{''.join(bars)}</svg></div>"
    )


def reach(found: ModelComparison) -> str:
    """A sentence about the nodes that the first departing node's error reaches; empty if there is none."""
    first = found.first
    if first is None:
        return ""
    rows = found.nodes[found.nodes.index(first) + 1 :]
    tainted, reached = set(first.writes), []
    for row in rows:
        if tainted & set(row.reads):
            tainted |= set(row.writes)
            reached.append(row)
    moved = [row for row in reached if row.accumulated is not None and row.accumulated.differing]
    if not reached:
        return f"No node reads the output of {first.name}"
    said = f"{len(reached)} of the {len(rows)} nodes after {first.name} depend on it"
    if moved:
        largest = max(moved, key=lambda row: _size(row.accumulated) if row.accumulated else 0.0)
        some = "all" if len(moved) == len(reached) else str(len(moved))
        said += f", and {some} of them differ from the exact model, {largest.name} most: {largest.accumulated}"
    return said
