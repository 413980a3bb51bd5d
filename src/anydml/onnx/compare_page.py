"""Comparisons as one HTML page without external files: sentences, the graph, how errors grow, and a row for each node.

All of it can be read without scripts; they search, select and copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from anydml.onnx.compare_details import NodeDetails, TensorDetails
from anydml.onnx.compare_results import BEYOND, ModelComparison, NodeComparison
from anydml.onnx.page_blocks import Group, Unit, groups_of, units_of
from anydml.onnx.page_graph import graph, growth, reach, tone
from anydml.pictures.words import escaped

STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
SCRIPT = Path(__file__).with_name("page.js")
OPEN = 200  # nodes; of a larger model, only blocks with a node beyond rounding are open at first
ALIKE = 3  # closed blocks of the same operators, at least, that are put into one
LABELS = 8  # of the bars of a histogram, at most
DETAILED = 400  # rows with details on one page: those that are farthest beyond rounding

MEANINGS = {
    "equal": "the exact bits",
    "rounding": "differs, and arithmetic that rounds at each step explains it",
    "beyond rounding": "rounding does not explain it",
    "no bound": "differs, and no bound is known",
    "not judged": "could not be judged",
}


def page(found: ModelComparison | Mapping[str, ModelComparison], model: str, other: str = "") -> str:
    """The page of a comparison, or of several of one model by the names of the runtimes. other: the name, if it is one."""
    several = {other: found} if isinstance(found, ModelComparison) else dict(found)
    units = units_of(several)
    groups = groups_of(units)
    title = f"{model} by {' and '.join(several)}"
    cards = "".join(_card(name, one, len(several) > 1) for name, one in several.items())
    drawn, wide = graph(units, groups)
    chart = growth(units, list(several))
    reached = "".join(
        f"<p>{escaped(f'{name}: {said}' if len(several) > 1 else said)}.</p>"
        for name, one in several.items()
        if (said := reach(one))
    )
    going_on = f"<h2>How the error goes on</h2>{reached}<p class='soft'>{AXIS}</p>{chart}" if reached or chart else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escaped(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body><main>\n'
        f"<h1>{escaped(title)}</h1>"
        '<p class="soft">Each node is judged on the inputs that it had in the other runtime, against the exact result for '
        "these inputs: its own error. The accumulated error is that for the model's exact inputs.</p>\n"
        f'<div class="runtimes">{cards}</div>\n{going_on}\n<h2 id="nodes">Nodes</h2>\n{_tools(units)}\n'
        f'<div class="parts two" style="--graph: {wide + 36}px"><div class="graph" tabindex="0" role="group" '
        f'aria-label="Graph">{drawn}</div>'
        f'<div class="listed">{_list(units, groups, several)}<p id="empty" class="soft empty" role="status"></p></div></div>\n'
        f"</main><script>{SCRIPT.read_text(encoding='utf-8')}</script></body></html>\n"
    )


AXIS = "The accumulated error of each node, in the model's order and in relation to the tensor's largest element; logarithmic."


def _card(name: str, found: ModelComparison, named: bool) -> str:
    sentence, *notes = str(found).split("\n")
    first = found.first
    said = "".join(f"<p>{escaped(line)}.</p>" for line in notes)
    head = f"<h3>{escaped(name)}</h3>" if named else ""
    cause = ""
    if first is not None and first.cause and first.cause not in sentence:
        cause = f"<p><strong>{escaped(first.cause)}.</strong></p>"
    return (
        f'<div><div class="first" style="{tone(first.verdict if first else "equal")}">{head}<p>{escaped(sentence)}.</p>'
        f"{cause}{said}</div></div>"
    )


def _tools(units: Sequence[Unit]) -> str:
    """The search and the filters, which need scripts, and the meanings of the verdicts, which do not."""
    counts = Counter(v for u in units for v in dict.fromkeys(u.verdicts))
    boxes = "".join(
        f'<label title="{said}"><input type="checkbox" value="{v}" checked>'
        f'<span class="verdict" style="{tone(v)}">{v}</span> {counts[v]}</label>'
        for v, said in MEANINGS.items()
        if counts[v]
    )
    meanings = "; ".join(
        f'<span class="verdict" style="{tone(v)}">{v}</span>: {said}' for v, said in MEANINGS.items() if counts[v]
    )
    keys = "<kbd>/</kbd> search, <kbd>j</kbd> <kbd>k</kbd> next and previous, <kbd>n</kbd> <kbd>p</kbd> those that differ"
    return (
        f'<p class="soft">{meanings}.</p>'
        '<div class="tools scripted" hidden><label><span class="soft">Search</span> '
        '<input type="search" id="search" placeholder="name, operator, cause" autocomplete="off"></label>'
        f'<span id="verdicts" role="group" aria-label="Verdicts shown">{boxes}</span>'
        '<button type="button" id="open">Open all</button><button type="button" id="shut">Close all</button>'
        f'<span class="keys">{keys}</span></div>'
    )


def _list(units: Sequence[Unit], groups: Sequence[Group], several: Mapping[str, ModelComparison]) -> str:
    """A table for each block, in which each unit is a body of its own."""
    rows = [(row.excess, title, row.nodes) for title, one in several.items() for row in one.nodes if row.nodes in one.details]
    detailed = {(title, nodes) for _, title, nodes in sorted(rows, key=lambda r: -r[0])[:DETAILED]}
    small = sum(len(u.nodes) for u in units) <= OPEN
    made: list[tuple[str, str, str]] = []  # blocks: their kind if it may repeat, their titles, and their text
    for k, group in enumerate(groups):
        these = [units[i] for i in group.units]
        bodies = "".join(_unit(i, units[i], several, detailed) for i in group.units)
        heads = "".join(f'<th scope="col">{escaped(name or "verdict")}</th>' for name in several)
        table = f'<table class="nodes"><thead><tr><th scope="col">node</th>{heads}</tr></thead>{bodies}</table>'
        if len(groups) == 1:
            return f'<div id="block0">{table}</div>'
        opened = " open" if small or any(BEYOND in u.verdicts for u in these) else ""
        counts = Counter(v for u in these for v in u.verdicts)
        said = "".join(
            f'<span class="verdict" style="{tone(v)}">{counts[v]} {v}</span>' for v in reversed(list(MEANINGS)) if counts[v]
        )
        operators = ", ".join(dict.fromkeys(o for u in these for _, o in u.nodes))
        kind = "" if opened else f"{operators} {len(these)}"
        text = (
            f'<details class="block" id="block{k}"{opened}><summary><strong>{escaped(group.title)}</strong>'
            f'<span class="soft">{escaped(_cut(operators, 70))}</span><span class="counts">{said}</span></summary>'
            f'<div class="inner">{table}</div></details>'
        )
        made.append((kind, group.title, text))
    return "".join(_runs(made))


def _runs(blocks: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """The blocks; several in a row that are alike, and closed, within one that is closed."""
    for kind, run in groupby(blocks, key=lambda block: block[0]):
        these = [*run]
        inner = "".join(text for *_, text in these)
        if not kind or len(these) < ALIKE:
            yield inner
            continue
        title = escaped(f"{these[0][1]} to {these[-1][1]}")
        yield (
            f'<details class="block"><summary><strong>{title}</strong><span class="soft">{len(these)} blocks alike</span>'
            f"</summary>"
            f'<div class="inner">{inner}</div></details>'
        )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _unit(i: int, unit: Unit, several: Mapping[str, ModelComparison], detailed: set[tuple[str, tuple[str, ...]]]) -> str:
    """The nodes that some runtime judges as one, with a cell for each runtime over the nodes of each of its rows."""
    place = {name: k for k, (name, _) in enumerate(unit.nodes)}
    cells: list[list[str]] = [[] for _ in unit.nodes]
    for title, one in several.items():
        taken = [False] * len(unit.nodes)
        for row in sorted(unit.rows.get(title, ()), key=lambda r: place[r.nodes[0]]):
            at = sorted(place[n] for n in row.nodes)
            run = at[-1] - at[0] + 1 == len(at)
            first, *rest = at
            span = f' rowspan="{len(at)}"' if run and len(at) > 1 else ""
            details = one.details.get(row.nodes) if (title, row.nodes) in detailed else None
            cells[first].append(f'<td{span} data-label="{escaped(title)}">{_judged(row, details)}</td>')
            taken[first] = True
            for k in rest:
                taken[k] = True
                if not run:
                    cells[k].append(f'<td data-label="{escaped(title)}" class="soft">judged with {escaped(row.nodes[0])}</td>')
        for k, there in enumerate(taken):
            if not there:
                cells[k].append(f'<td data-label="{escaped(title)}" class="soft">-</td>')
    rows = []
    for k, (name, operator) in enumerate(unit.nodes):
        link = f'<a class="name" href="#unit{i}">{escaped(name)}</a>' if not k else escaped(name)
        rows.append(f'<tr><td>{link}<br><span class="said">{escaped(operator)}</span></td>{"".join(cells[k])}</tr>')
    kind = "unit fused" if len(unit.nodes) > 1 else "unit"
    departs = ' data-departs="1"' if unit.departs else ""
    verdicts = ",".join(dict.fromkeys(unit.verdicts)) or "not judged"
    return f'<tbody class="{kind}" id="unit{i}" data-verdicts="{verdicts}"{departs}>{"".join(rows)}</tbody>'


def _judged(row: NodeComparison, details: NodeDetails | None) -> str:
    said = row.cause or row.reason
    if row.departs and row.own is not None:
        at = f"At {list(row.own.at)}: {row.own.actual}, not {row.own.expected}. "
        share = f"{row.beyond} of them {'is' if row.beyond == 1 else 'are'} beyond rounding. " if row.beyond else ""
        forms = f"Explained by {' and '.join(row.forms)}. " if row.forms and not row.beyond else ""
        said = f"{at}{share}{forms}{said}"
    place = ", ".join(filter(None, (row.module, row.line)))
    errors = ""
    if row.own is not None and row.own.differing:
        errors += f'<span class="error">own error: {escaped(str(row.own))}</span>'
    if row.accumulated is not None and row.accumulated.differing:
        errors += f'<span class="error soft">accumulated: {escaped(str(row.accumulated))}</span>'
    text = f'<span class="said">{escaped(said)}</span>' if said.strip() else ""
    where = f'<span class="said"> {escaped(place)}</span>' if place else ""
    more = _details(details) if details is not None else ""
    return f'<span class="verdict" style="{tone(row.verdict)}">{row.verdict}</span>{where}{errors}{text}{more}'


# --- details of a row ---


def _details(found: NodeDetails) -> str:
    tensors = "".join(map(_tensor, found.tensors))
    python = _copied("Python", found.python) if found.python else ""
    onnx = _copied("ONNX", found.onnx) if found.onnx else ""
    title = f"Histogram, worst elements{', repro' if python else ''}"
    return f'<details class="more"><summary>{title}</summary>{tensors}{python}{onnx}</details>'


def _tensor(t: TensorDetails) -> str:
    most = max((n for _, n in t.bins), default=0) or 1
    said = ", ".join(f"{label}: {n}" for label, n in t.bins if n)
    bars = "".join(
        f'<i style="height:{100 * n / most:.1f}%" title="{label}: {n}"></i>' if n else "<i></i>" for label, n in t.bins
    )
    every = -(-len(t.bins) // LABELS)
    shown = [(label if i % every == 0 else "", i % (2 * every) > 0) for i, (label, _) in enumerate(t.bins)]
    labels = "".join(f"<span{' class=second' if second else ''}>{label}</span>" for label, second in shown)
    reads = any(w.reads for w in t.worst)
    head = f"<th>element</th><th>is</th><th>exact</th><th>{t.unit}</th>{'<th class=from>computed from</th>' if reads else ''}"
    rows = "".join(
        f"<tr><td>{list(w.at)}</td><td>{escaped(w.actual)}</td><td>{escaped(w.expected)}</td><td>{w.steps:.6g}</td>"
        + (f"<td>{escaped(w.reads)}</td>" if reads else "")
        + "</tr>"
        for w in t.worst
    )
    sizes = " × ".join(map(str, t.sizes))
    return (
        f"<h3>{escaped(t.name)} <span class='soft'>{escaped(t.data_type)} {sizes}</span></h3>"
        f'<div class="bars" role="img" aria-label="Elements by {t.unit} off: {said}">{bars}</div>'
        f'<div class="bins" aria-hidden="true">{labels}</div><p class="soft">elements by {t.unit} off</p>'
        f'<div class="scroll" tabindex="0" role="group" aria-label="Worst elements"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _copied(kind: str, text: str) -> str:
    lines = "\n".join(map(escaped, text.split("\n")))
    return (
        f'<h3>The node alone, {kind}</h3><div><button type="button" class="copy scripted" hidden>Copy</button>'
        f'<pre tabindex="0" role="group" aria-label="{kind}">{lines}</pre></div>'
    )
