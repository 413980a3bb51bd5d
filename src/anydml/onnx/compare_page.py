"""A comparison as an HTML page: a sentence, the model's graph in the colours of the verdicts, and a table."""

from __future__ import annotations

import html
from collections.abc import Sequence

from anydml.onnx.compare_results import ModelComparison, NodeComparison

DRAWN = 600  # nodes; for a larger model only the table is shown
WIDTH, HEIGHT, ACROSS, DOWN = 190, 44, 24, 34  # of a node's box and between boxes, in pixels

STYLE = """
:root { color-scheme: light dark; --ink: #1d2129; --soft: #5d6673; --line: #d5dae1; --page: #fff; --row: #f5f7f9;
  --equal: #2f7d4f; --rounding: #a86b00; --beyond-rounding: #c2261f; --no-bound: #7a4fb5; --not-judged: #6c757f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa4b1; --line: #3a4250; --page: #14181f; --row: #1c222b;
  --equal: #5cc489; --rounding: #e0a43a; --beyond-rounding: #ff6f66; --no-bound: #b894ea; --not-judged: #8b95a2; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto; max-width: 1500px;
  padding: 0 1.2rem; }
h1 { font-size: 1.35rem; margin: 0 0 .3rem; }
p { margin: .4rem 0; max-width: 90ch; }
.soft { color: var(--soft); }
.first { border-left: 4px solid var(--tone, var(--equal)); padding: .5rem .9rem; background: var(--row); margin: 1rem 0; }
.parts { display: flex; gap: 2rem; align-items: flex-start; flex-wrap: wrap; margin-top: 1.2rem; }
.graph { overflow: auto; max-height: 85vh; border: 1px solid var(--line); border-radius: 6px; padding: .6rem;
  max-width: min(100%, 660px); }
.listed { flex: 1 1 480px; min-width: 0; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
tr:target td { background: var(--row); }
td.number { font-variant-numeric: tabular-nums; min-width: 8rem; }
.verdict { color: var(--tone); font-weight: 600; white-space: nowrap; }
.said { color: var(--soft); }
.legend span { margin-right: 1.2rem; color: var(--tone); font-weight: 600; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .kind { fill: var(--soft); font-size: 11px; }
svg rect { fill: var(--page); stroke: var(--tone); stroke-width: 2; }
svg .departs rect { fill: color-mix(in srgb, var(--tone) 14%, var(--page)); }
svg path { fill: none; stroke: var(--soft); stroke-width: 1.2; opacity: .7; }
"""

MEANINGS = {
    "equal": "the exact bits",
    "rounding": "differs, and arithmetic that rounds at each step explains it",
    "beyond rounding": "rounding does not explain it",
    "no bound": "differs, and no bound is known",
    "not judged": "could not be judged",
}


def page(found: ModelComparison, model: str, other: str) -> str:
    """The page as HTML without external files. model, other: the names of the model and of the other runtime."""
    rows = found.nodes
    sentence, *notes = str(found).split("\n")
    first = found.first
    title = f"{model} by {other}"
    graph = f'<div class="graph">{_graph(rows)}</div>' if len(rows) <= DRAWN else ""
    legend = "".join(f'<span style="{_tone(v)}">{v}: {said}</span>' for v, said in MEANINGS.items() if _has(rows, v))
    said = "".join(f"<p>{html.escape(line)}.</p>" for line in notes)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>\n'
        f"<h1>{html.escape(title)}</h1>"
        '<p class="soft">Each node is judged on the inputs that it had in the other runtime, against the exact result for '
        "these inputs: its own error. The accumulated error is that for the model's exact inputs.</p>\n"
        f'<div class="first" style="{_tone(first.verdict if first else "equal")}"><p>{html.escape(sentence)}.</p>{said}</div>\n'
        f'<p class="legend">{legend}</p>\n'
        f'<div class="parts">{graph}<div class="listed">{_table(rows)}</div></div>\n</body></html>\n'
    )


def _has(rows: Sequence[NodeComparison], verdict: str) -> bool:
    return any(row.verdict == verdict for row in rows)


def _tone(verdict: str) -> str:
    return f"--tone: var(--{verdict.replace(' ', '-')})"


def _table(rows: Sequence[NodeComparison]) -> str:
    lines = []
    for i, row in enumerate(rows):
        said = row.cause or row.reason
        if row.departs and row.own is not None:
            at = f"At {list(row.own.at)}: {row.own.actual}, not {row.own.expected}. "
            share = f"{row.beyond} of them {'is' if row.beyond == 1 else 'are'} beyond rounding. " if row.beyond else ""
            forms = f"Explained by {' and '.join(row.forms)}. " if row.forms and not row.beyond else ""
            said = f"{at}{share}{forms}{said}"
        lines.append(
            f'<tr id="node{i}"><td>{html.escape(row.name)}<br><span class="said">{html.escape(_kinds(row))}</span></td>'
            f'<td><span class="verdict" style="{_tone(row.verdict)}">{row.verdict}</span>'
            f'<br><span class="said">{html.escape(said)}</span></td>'
            f'<td class="number">{html.escape(str(row.own or "-"))}</td>'
            f'<td class="number">{html.escape(str(row.accumulated or "-"))}</td></tr>'
        )
    head = "<tr><th>node</th><th>verdict</th><th>own error</th><th>accumulated error</th></tr>"
    return f"<table>{head}{''.join(lines)}</table>"


def _kinds(row: NodeComparison) -> str:
    return ", ".join(dict.fromkeys(row.operators))


# --- the graph ---


def _graph(rows: Sequence[NodeComparison]) -> str:
    """The graph as SVG: boxes in layers, each below the boxes that it reads from; an edge for each tensor between two."""
    writer = {name: i for i, row in enumerate(rows) for name in row.writes}
    above = [sorted({writer[name] for name in row.reads if name in writer and writer[name] != i}) for i, row in enumerate(rows)]
    layers = _layers(above)
    columns = _columns(layers, above)
    most = max(columns, default=0) + 1
    width = max(1, int(most * (WIDTH + ACROSS)))
    height = (max(layers, default=0) + 1) * (HEIGHT + DOWN)
    edges, boxes = [], []
    for i, row in enumerate(rows):
        x, y = columns[i] * (WIDTH + ACROSS) + ACROSS / 2, layers[i] * (HEIGHT + DOWN) + DOWN / 2
        for j in above[i]:
            x0 = columns[j] * (WIDTH + ACROSS) + ACROSS / 2 + WIDTH / 2
            y0 = layers[j] * (HEIGHT + DOWN) + DOWN / 2 + HEIGHT
            x1, bend = x + WIDTH / 2, max(DOWN / 2, (y - y0) / 2)
            edges.append(f'<path d="M{x0:g} {y0:g} C{x0:g} {y0 + bend:g} {x1:g} {y - bend:g} {x1:g} {y:g}"/>')
        own = f"{row.own.differing} of {row.own.total} differ" if row.departs and row.own else row.verdict
        boxes.append(
            f'<a href="#node{i}"><g class="{"departs" if row.departs else ""}" style="{_tone(row.verdict)}">'
            f"<title>{html.escape(str(row))}</title>"
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
            f'<text x="{x + 10:g}" y="{y + 18:g}">{html.escape(_short(f"{row.name}: {_kinds(row)}"))}</text>'
            f'<text class="kind" x="{x + 10:g}" y="{y + 34:g}">{html.escape(own)}</text></g></a>'
        )
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="the graph">{"".join(edges)}{"".join(boxes)}</svg>'
    )


def _layers(above: Sequence[Sequence[int]]) -> list[int]:
    """The layer of each node: one below the lowest node that it reads. Nodes judged as one may precede nodes that they read."""
    found = [0] * len(above)
    for _ in range(len(above)):
        new = [max((found[j] + 1 for j in before), default=0) for before in above]
        if new == found or max(new, default=0) >= len(above):
            break
        found = new
    return found


def _columns(layers: Sequence[int], above: Sequence[Sequence[int]]) -> list[float]:
    """The column of each node: below the nodes that it reads if that is free, else the next one to the right."""
    columns = [0.0] * len(layers)
    for layer in range(max(layers, default=-1) + 1):
        here = [i for i in range(len(layers)) if layers[i] == layer]

        def wanted(i: int) -> float:
            return sum(columns[j] for j in above[i]) / len(above[i]) if above[i] else 0.0

        free = 0.0
        for i in sorted(here, key=lambda i: (wanted(i), i)):
            columns[i] = max(free, wanted(i))
            free = columns[i] + 1
    return columns


def _short(text: str) -> str:
    return text if len(text) <= 27 else text[:26] + "…"
