"""Pictures as SVG: one image, or the drawing of one block for a page. Colours are classes, in light and dark."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from anydml.pictures.model import Bars, Beside, Block, Cell, Contents, Faults, Flow, Grid, Node, Ruler, Rulers, Table, Text
from anydml.pictures.words import circled, escaped, plain_words, wide, wrapped

WIDTH, MARGIN = 960, 28
CELL, LINE = (46, 28), 18
CHAIN = 4  # boxes; more of them, of which each reads the one before, stand side by side
WEIGHED = (46, 36)  # a cell that has a weight above its value
CODE = 7.3  # the width of a character of 12 pixels in code

COLOURS = """
.anydml { --page: #fff; --ink: #1c2330; --soft: #59636f; --line: #d9dee5; --cell: #f4f6f8; --accent: #2456c9; --warm: #a34a00;
  --fault: #b3261e; }
@media (prefers-color-scheme: dark) { .anydml { --page: #14181f; --ink: #e7ebf1; --soft: #a0abb9; --line: #38414f;
  --cell: #1d232d; --accent: #8fb1ff; --warm: #f0a868; --fault: #ff8a80; } }
"""
STYLE = """
.anydml text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--ink); }
.anydml .t { font-size: 17px; font-weight: 650; } .anydml .h { font-size: 13px; font-weight: 650; }
.anydml .s { fill: var(--soft); } .anydml .c { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
.anydml .m { text-anchor: middle; } .anydml .e { text-anchor: end; } .anydml .o { font-size: 9px; }
.anydml .x { font-size: 10.5px; }
.anydml .w { font-weight: 650; } .anydml .ground { fill: var(--page); } .anydml .i { fill: var(--soft); font-size: 10px; }
.anydml rect.k { fill: var(--cell); stroke: var(--line); } .anydml rect.read { fill: var(--accent); }
.anydml rect.negative { fill: var(--warm); } .anydml rect.window { fill: none; stroke: var(--accent); stroke-width: 2; }
.anydml rect.outside { fill: none; stroke: var(--soft); stroke-dasharray: 3 3; } .anydml rect.left { fill: none; }
.anydml rect.fault { fill: var(--fault); fill-opacity: .2; stroke: var(--fault); stroke-width: 2; }
.anydml text.fault { fill: var(--fault); font-weight: 650; }
.anydml path { fill: none; stroke: var(--soft); stroke-width: 1.4; }
.anydml path.a { fill: var(--soft); stroke: none; } .anydml path.l { stroke: var(--line); stroke-width: 1; }
.anydml rect.bar { fill: var(--accent); } .anydml circle { fill: var(--accent); }
.anydml circle.skip { fill: var(--page); stroke: var(--accent); stroke-width: 1.5; }
"""


class Drawn(NamedTuple):
    width: float
    height: float
    parts: list[str]


def image(picture: Contents) -> str:
    """The picture as one image."""
    parts: list[str] = []
    y: float = MARGIN + 10
    width: float = WIDTH - 2 * MARGIN
    parts.append(_text(MARGIN, y + 6, picture.title, "t"))
    y += 20
    for line in wrapped(plain_words(picture.summary), WIDTH - 2 * MARGIN):
        y += LINE
        parts.append(_text(MARGIN, y, line, "s"))
    y += 20
    for block in picture.blocks:
        drawn = block_of(block)
        width = max(width, drawn.width)
        parts.append(f'<g transform="translate({MARGIN} {y + 14:g})">{"".join(drawn.parts)}</g>')
        y += drawn.height + 30
    return _svg(width + 2 * MARGIN, y + 6, parts, picture.title, ground=True)


def drawing(block: Block, label: str) -> str:
    """One block as an image of its own, for a page that has the styles."""
    drawn = block_of(block, titled=False)
    return _svg(drawn.width + 4, drawn.height + 4, [f'<g transform="translate(2 2)">{"".join(drawn.parts)}</g>'], label)


def _svg(width: float, height: float, parts: Sequence[str], label: str, *, ground: bool = False) -> str:
    back = f'<rect class="ground" width="{width:g}" height="{height:g}" rx="10"/>' if ground else ""
    style = f"<style>{COLOURS}{STYLE}</style>" if ground else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="anydml" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escaped(label)}">'
        f"<title>{escaped(label)}</title>{style}{back}{''.join(parts)}</svg>\n"
    )


def block_of(block: Block, *, titled: bool = True) -> Drawn:
    """The drawing of a block, with its title if wanted."""
    if isinstance(block, Beside):
        drawn, title = _beside(block), block.title
    elif isinstance(block, Rulers):
        drawn, title = _stacked([_ruler(r) for r in block.rulers], 6), block.title
    elif isinstance(block, Flow):
        drawn, title = _flow(block), block.title
    elif isinstance(block, Bars):
        drawn, title = _bars(block), block.title
    elif isinstance(block, Table):
        drawn, title = _table(block), block.title
    elif isinstance(block, Text):
        drawn, title = _lines(block), block.title
    else:
        drawn, title = _faults(block), "Broken rules" if len(block.messages) > 1 else "A broken rule"
    if not titled:
        return drawn
    moved = [_text(0, 0, title, "h"), f'<g transform="translate(0 16)">{"".join(drawn.parts)}</g>']
    return Drawn(max(drawn.width, wide(title, True) * 1.1), drawn.height + 16, moved)


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    space = ' xml:space="preserve"' if "  " in text else ""
    return f'<text x="{x:g}" y="{y:g}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}{space}>{escaped(text)}</text>'


def _rect(x: float, y: float, w: float, h: float, kind: str, more: str = "", said: str = "") -> str:
    title = f"<title>{escaped(said)}</title>" if said else ""
    end = f">{title}</rect>" if title else "/>"
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}"{more}{end}'


def _stacked(drawn: Sequence[Drawn], gap: float) -> Drawn:
    y, parts = 0.0, []
    for d in drawn:
        parts.append(f'<g transform="translate(0 {y:g})">{"".join(d.parts)}</g>')
        y += d.height + gap
    return Drawn(max((d.width for d in drawn), default=0), max(0, y - gap), parts)


# --- grids ---


def _beside(block: Beside) -> Drawn:
    """Grids in rows as wide as the page, with an arrow before the last one."""
    parts: list[str] = []
    x = y = height = width = 0.0
    for i, grid in enumerate(block.grids):
        drawn = _grid(grid)
        arrow = 44 if i == len(block.grids) - 1 and i else 24 if i else 0
        if x and x + arrow + drawn.width > WIDTH - 2 * MARGIN:
            x, y, height = 0.0, y + height + 20, 0.0
            arrow = arrow if arrow == 44 else 0
        if arrow == 44:
            middle = y + drawn.height / 2
            parts.append(f'<path d="M{x + 10:g} {middle:g}h20"/><path class="a" d="M{x + 36:g} {middle:g}l-9 -5v10z"/>')
        x += arrow
        parts.append(f'<g transform="translate({x:g} {y:g})">{"".join(drawn.parts)}</g>')
        x += drawn.width
        height, width = max(height, drawn.height), max(width, x)
    y += height
    for line in wrapped(block.said, WIDTH - 2 * MARGIN):
        y += LINE
        width = max(width, wide(line))
        parts.append(_text(0, y, line, "s"))
    return Drawn(width, y + 6, parts)


def _grid(grid: Grid) -> Drawn:
    left = 8 + max((len(r) for r in grid.rows), default=0) * 6.2
    w, h = WEIGHED if any(c.order.startswith("×") for row in grid.cells for c in row) else CELL
    numbered = any(c.order and c.text for row in grid.cells for c in row)
    least = w if h == WEIGHED[1] else 38 if numbered else 28
    longest = max((len(c.text) for row in grid.cells for c in row), default=0) * CODE + 10
    w = max(least if longest < 28 else w, int(longest))
    begin = left + wide(grid.title, True) + 8
    parts = [_text(left, 10, grid.title, "w"), _text(begin, 10, grid.caption, "s")]
    top = 32
    for j, label in enumerate(grid.columns):
        parts.append(_text(left + j * w + w / 2, top - 5, label, "i m"))
    over: list[str] = []
    for i, (label, row) in enumerate(zip(grid.rows, grid.cells, strict=True)):
        y = top + i * h
        parts.append(_text(left - 6, y + h / 2 + 4, label, "i e"))
        for j, cell in enumerate(row):
            _cell(cell, left + j * w, y, w, h, parts, over)
    width = max(left + len(grid.columns) * w, begin + wide(grid.caption))
    if grid.frame is not None:
        first, last, begin, end = grid.frame
        x, y = left + begin * w - 1, top + first * h - 1
        over.append(_rect(x, y, (end - begin + 1) * w + 2, (last - first + 1) * h + 2, "window", ' rx="5"'))
    return Drawn(width + 2, top + len(grid.rows) * h + 4, parts + over)


def _cell(cell: Cell, x: float, y: float, w: float, h: float, parts: list[str], over: list[str]) -> None:
    if cell.tone == "left":
        parts.append(_text(x + w / 2, y + h / 2 + 3, "…", "i m"))
        return
    parts.append(_rect(x + 1, y + 1, w - 2, h - 2, "k", ' rx="3"'))
    if cell.tone in ("read", "negative"):
        shade = f' rx="3" fill-opacity="{0.08 + 0.34 * min(1.0, cell.strength):.2f}"'
        parts.append(_rect(x + 1, y + 1, w - 2, h - 2, cell.tone, shade, cell.said))
    elif cell.tone == "inside":
        parts.append(_rect(x + 1, y + 1, w - 2, h - 2, "read", ' rx="3" fill-opacity=".05"', cell.said))
    elif cell.tone != "plain":
        over.append(_rect(x + 1, y + 1, w - 2, h - 2, cell.tone, ' rx="3"', cell.said))
    if cell.order.startswith("×"):
        parts.append(_text(x + w / 2, y + 13, cell.order, "x m"))
        parts.append(_text(x + w / 2, y + h - 7, cell.text, "c m"))
        return
    if cell.order:
        parts.append(_text(x + 4, y + 10, f"{'▸' if cell.start else ''}{cell.order}", "o"))
    if cell.text:
        parts.append(_text(x + w / 2 + (3 if cell.order else 0), y + h / 2 + (7 if cell.order else 4), cell.text, "c m"))


# --- rulers ---


def _ruler(r: Ruler) -> Drawn:
    """A line with a tick for each position, bars for spans, and dots where elements are picked."""
    low = min([0, *(s.start for s in r.spans)])
    high = max([r.size, *(s.stop for s in r.spans)])
    left, room = 150, WIDTH - 2 * MARGIN - 150
    step = min(24.0, room / max(1, high - low))
    top, bar = 20, 18

    def x(i: float) -> float:
        return left + (i - low) * step

    parts = [_text(0, top + 13, r.title, "w"), _rect(x(0), top, r.size * step, bar, "k", ' rx="3"')]
    if step >= 7:
        parts += [f'<path class="l" d="M{x(i):g} {top}v{bar}"/>' for i in range(1, r.size)]
    shown = range(low, high + 1, max(1, round((high - low) / 24)) if step < 22 else 1)
    parts += [_text(x(i + 0.5), top - 5, str(i), "i m") for i in shown if i < high]
    for s in r.spans:
        parts.append(_rect(x(s.start), top - 1, max(1.0, (s.stop - s.start) * step), bar + 2, s.tone, ' rx="3"', s.said))
    radius = max(1.5, min(5.0, step / 3))
    parts += [f'<circle cx="{x(i + 0.5):g}" cy="{top + bar / 2:g}" r="{radius:g}"/>' for i in r.picked]
    parts += [f'<circle class="skip" cx="{x(i + 0.5):g}" cy="{top + bar / 2:g}" r="{radius:g}"/>' for i in r.left]
    if r.picked and r.size <= 4096:
        first = r.picked[0]
        parts.append(f'<path class="a" d="M{x(first + 0.5):g} {top + bar + 2:g}l-4 7h8z"/>')
    faulty = any(s.tone == "fault" for s in r.spans)
    kind, beside = "fault" if faulty else "s", x(high) + 18
    if beside + wide(r.said, faulty) <= left + room:
        parts.append(_text(beside, top + 13, r.said, kind))
        return Drawn(left + room, top + bar + 8, parts)
    y = top + bar + 22
    for line in wrapped(r.said, room, faulty):
        parts.append(_text(left, y, line, kind))
        y += LINE
    return Drawn(left + room, y - 8, parts)


# --- flows ---


def _flow(flow: Flow) -> Drawn:
    """Boxes in layers, each below those that it reads."""
    layer: list[int] = []
    for node in flow.nodes:
        layer.append(1 + max((layer[i] for i in node.reads), default=-1))
    last = max(layer, default=0)
    for i, node in enumerate(flow.nodes):  # an input stands next to what reads it first
        if not node.reads:
            readers = [layer[j] for j, other in enumerate(flow.nodes) if i in other.reads]
            layer[i] = max(0, min(readers, default=1) - 1)
    h, down, gap = 40, 30, 16
    widths = [max(wide(n.text, True), wide(n.detail)) + 24 for n in flow.nodes]
    if len(layer) > CHAIN and all(n.reads == ((i - 1,) if i else ()) for i, n in enumerate(flow.nodes)):
        return _chain(flow, widths, h)
    rows = [[i for i in range(len(flow.nodes)) if layer[i] == k] for k in range(last + 1)]
    lines = [_lines_of(row, widths, gap) for row in rows]
    total = max((sum(widths[i] + gap for i in line) - gap for row in lines for line in row), default=0)
    place: dict[int, tuple[float, float]] = {}
    y = 0.0
    for row in lines:
        for line in row:
            x = (total - sum(widths[i] + gap for i in line) + gap) / 2
            for i in line:
                place[i] = (x, y)
                x += widths[i] + gap
            y += h + (down if line is row[-1] else 8)
    parts: list[str] = []
    for i, node in enumerate(flow.nodes):
        for j in node.reads:
            x0, y0, x1, y1 = place[j][0] + widths[j] / 2, place[j][1] + h, place[i][0] + widths[i] / 2, place[i][1]
            bend = max(10.0, (y1 - y0) / 2)
            parts.append(f'<path d="M{x0:g} {y0:g}C{x0:g} {y0 + bend:g} {x1:g} {y1 - bend:g} {x1:g} {y1 - 2:g}"/>')
    for i, node in enumerate(flow.nodes):
        _box(node, *place[i], widths[i], h, parts)
    return Drawn(total, max(0, y - down) + 6, parts)


def _chain(flow: Flow, widths: Sequence[float], h: float) -> Drawn:
    """Boxes of which each reads the one before, in lines from left to right."""
    across, down, parts = 30, 26, list[str]()
    x = y = total = 0.0
    for i, node in enumerate(flow.nodes):
        if x and x + widths[i] > WIDTH - 2 * MARGIN:
            turn = y + h + down / 2
            parts.append(f'<path d="M{x - across - 20:g} {y + h:g}V{turn:g}H20V{y + h + down - 6:g}"/>')
            x, y = 0.0, y + h + down
            parts.append(f'<path class="a" d="M20 {y:g}l-4 -8h8z"/>')
        elif i:
            parts.append(f'<path d="M{x - across:g} {y + h / 2:g}h{across - 6}"/>')
            parts.append(f'<path class="a" d="M{x:g} {y + h / 2:g}l-8 -4v8z"/>')
        _box(node, x, y, widths[i], h, parts)
        x += widths[i] + across
        total = max(total, x - across)
    return Drawn(total, y + h + 6, parts)


def _box(node: Node, x: float, y: float, width: float, h: float, parts: list[str]) -> None:
    shade = ' rx="6"'
    parts.append(_rect(x, y, width, h, "ground", shade))
    parts.append(_rect(x, y, width, h, "k", shade))
    if node.tone == "read":
        parts.append(_rect(x, y, width, h, "read", ' rx="6" fill-opacity=".14"'))
    elif node.tone != "plain":
        parts.append(_rect(x, y, width, h, node.tone, shade))
    middle = x + width / 2
    parts.append(_text(middle, y + (17 if node.detail else 24), node.text, "w m"))
    if node.detail:
        parts.append(_text(middle, y + 32, node.detail, "s m"))


def _lines_of(row: Sequence[int], widths: Sequence[float], gap: float) -> list[list[int]]:
    lines: list[list[int]] = [[]]
    room = WIDTH - 2 * MARGIN
    for i in row:
        if lines[-1] and sum(widths[j] + gap for j in lines[-1]) + widths[i] > room:
            lines.append([])
        lines[-1].append(i)
    return lines


# --- bars, tables, text ---


def _bars(block: Bars) -> Drawn:
    width, height = WIDTH - 2 * MARGIN, 110
    most = max((b.count for b in block.bars), default=0) or 1
    step = min(40.0, width / max(1, len(block.bars)))
    parts = [f'<path class="l" d="M0 {height}h{step * len(block.bars):g}"/>']
    for i, b in enumerate(block.bars):
        tall = (height - 14) * b.count / most if b.count else 0
        if b.count:
            kind = "bar" if b.tone == "read" else b.tone
            said = f"{b.label}: {b.count:,}"
            parts.append(_rect(i * step + 1, height - max(tall, 1.5), max(1.0, step - 2), max(tall, 1.5), kind, "", said))
    every = max(1, len(block.bars) // 8)
    parts += [_text(i * step, height + 15, block.bars[i].label, "i") for i in range(0, len(block.bars), every)]
    parts.append(_text(0, 8, f"{most:,} at most", "i"))
    y = height + 18
    for line in wrapped(block.said, width):
        y += LINE
        parts.append(_text(0, y, line, "s"))
    return Drawn(width, y + 6, parts)


def _table(block: Table) -> Drawn:
    room, gap = WIDTH - 2 * MARGIN, 18
    count = len(block.head)
    texts = [[_marked(c) for c in row] for row in block.rows]
    natural = [max(wide(text, not i) for text in (block.head[i], *(t[i] for t in texts))) for i in range(count)]
    widths = [min(n, 220.0) if i < count - 1 else n for i, n in enumerate(natural)]
    widths[-1] = max(80.0, min(widths[-1], room - sum(widths[:-1]) - gap * count))
    x, at = 0.0, []
    for n in widths:
        at.append(x)
        x += n + gap
    parts = [_text(at[i], 10, head, "i") for i, head in enumerate(block.head)]
    y = 16.0
    for row, text in zip(block.rows, texts, strict=True):
        broken = [wrapped(t, w + 4, not i or row[i].tone == "fault") for i, (t, w) in enumerate(zip(text, widths, strict=True))]
        parts.append(f'<path class="l" d="M0 {y:g}h{x - gap:g}"/>')
        for i, lines in enumerate(broken):
            kind = "fault" if row[i].tone == "fault" else "s" if i == count - 1 and i > 1 else "w" if i == 0 else ""
            parts += [_text(at[i], y + 15 + k * LINE, line, kind) for k, line in enumerate(lines)]
        y += max(map(len, broken)) * LINE + 4
    return Drawn(x, y, parts)


def _marked(cell: Cell) -> str:
    return f"{circled(cell.order)} {cell.text}" if cell.tone == "fault" else cell.text


def _lines(block: Text) -> Drawn:
    lines = [part for line in block.lines for part in _code(line, int((WIDTH - 2 * MARGIN) / CODE))]
    parts = [_text(0, 11 + i * 17, line, "c") for i, line in enumerate(lines)]
    return Drawn(WIDTH - 2 * MARGIN, len(lines) * 17 + 2, parts)


def _code(line: str, width: int) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _faults(block: Faults) -> Drawn:
    parts: list[str] = []
    y = 0.0
    for number, message in enumerate(block.messages, 1):
        for k, line in enumerate(message.split("\n")):
            for part in wrapped(line.strip(), WIDTH - 2 * MARGIN - 30, k == 0):
                parts.append(_text(30, y + 12, part, "fault" if k == 0 else "s"))
                if not k and part and line.strip().startswith(part):
                    parts.append(_text(0, y + 12, circled(str(number)), "fault"))
                y += LINE
        y += 4
    return Drawn(WIDTH - 2 * MARGIN, y, parts)
