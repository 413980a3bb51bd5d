"""Pictures in a terminal, by rich. Without colours, signs tell the same."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text as RichText

from anydml.pictures.model import Bars, Beside, Block, Cell, Contents, Faults, Flow, Grid, Ruler, Rulers, Table, Text
from anydml.pictures.words import circled, plain_words
from anydml.spelling import printable

WIDE = 110
STYLES = {"plain": "", "read": "black on bright_blue", "negative": "black on yellow", "window": "bold blue",
          "inside": "bold blue", "outside": "dim", "left": "dim", "fault": "bold red"}  # fmt: skip
SIGNS = {"read": "", "window": "[]", "inside": "[]", "outside": "··", "fault": "✗ "}
BLOCKS = " ▁▂▃▄▅▆▇█"


def plain(picture: Contents) -> str:
    """The picture as text without colours."""
    # in a notebook, rich would display what it captures
    console = Console(width=WIDE, color_system=None, markup=False, highlight=False, emoji=False, force_jupyter=False)
    with console.capture() as capture:
        console.print(renderable(picture))
    return "\n".join(line.rstrip() for line in capture.get().split("\n")).rstrip()


def renderable(picture: Contents) -> RenderableType:
    parts: list[RenderableType] = [RichText(printable(picture.title), "bold"), RichText(plain_words(picture.summary), "dim")]
    for block in picture.blocks:
        title = "Broken rules" if isinstance(block, Faults) else block.title
        parts += [RichText(""), RichText(printable(title), "bold"), Padding(_block(block), (0, 0, 0, 2))]
    return Group(*parts)


def _block(block: Block) -> RenderableType:
    if isinstance(block, Beside):
        return _beside(block)
    if isinstance(block, Rulers):
        return Group(*(_ruler(r) for r in block.rulers))
    if isinstance(block, Flow):
        reads = [", ".join(block.nodes[i].text for i in n.reads) for n in block.nodes]
        return _rows([(n.text, n.detail, f"← {r}" if r else "") for n, r in zip(block.nodes, reads, strict=True)])
    if isinstance(block, Bars):
        most = max((b.count for b in block.bars), default=0) or 1
        line = "".join(BLOCKS[max(b.count > 0, round(8 * b.count / most))] for b in block.bars)
        ends = f"{block.bars[0].label} … {block.bars[-1].label}" if block.bars else ""
        return Group(RichText(line, "blue"), RichText(f"{ends}; at most {most:,}", "dim"), RichText(block.said))
    if isinstance(block, Table):
        table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for head in block.head:
            table.add_column(head, overflow="fold", header_style="dim")
        for row in block.rows:
            table.add_row(*(_entry(c) for c in row))
        return table
    if isinstance(block, Text):
        return RichText("\n".join(map(printable, block.lines)))
    return RichText("\n".join(f"{circled(str(i))} {message}" for i, message in enumerate(block.messages, 1)), "red")


def _rows(rows: Sequence[tuple[str, ...]]) -> RichTable:
    table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for row in rows:
        table.add_row(*(RichText(printable(text)) for text in row))
    return table


def _entry(cell: Cell) -> RichText:
    if cell.tone == "fault":
        return RichText(f"{circled(cell.order)} {printable(cell.text)}", STYLES["fault"])
    return RichText(printable(cell.text))


def _beside(block: Beside) -> RenderableType:
    table = RichTable(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False)
    cells = [_grid(g) for g in block.grids]
    parts: list[RenderableType] = []
    if sum(_width(g) + 3 for g in block.grids) <= WIDE - 4:
        table.add_row(*cells)
        parts.append(table)
    else:
        parts += cells
    return Group(*parts, RichText(block.said, "dim"))


def _width(grid: Grid) -> int:
    wide = max((len(_sign(c)) for row in grid.cells for c in row), default=1)
    return max(len(grid.title) + len(grid.caption) + 1, (wide + 1) * len(grid.columns) + 4)


def _grid(grid: Grid) -> RenderableType:
    table = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=True)
    table.add_column("", style="dim", justify="right")
    for label in grid.columns:
        table.add_column(label, justify="right", header_style="dim", no_wrap=True)
    for label, row in zip(grid.rows, grid.cells, strict=True):
        table.add_row(label, *(RichText(_sign(c), STYLES[c.tone]) for c in row))
    return Group(RichText(f"{printable(grid.title)} {grid.caption}"), table)


def _sign(cell: Cell) -> str:
    """A cell's text: its order with ▸ at the first, or its weight; its value; and a sign for its tone."""
    if cell.order.startswith("×"):
        return f"{cell.text}{cell.order}"
    order = f"{'▸' if cell.start else ''}{cell.order}" if cell.order else ""
    both = f"{order}:{cell.text}" if order and cell.text else order or cell.text
    sign = SIGNS.get(cell.tone, "")
    if sign == "[]":
        return f"[{both}]"
    return f"{sign}{both}" if sign == "✗ " else both or sign or ("…" if cell.tone == "left" else "·")


def _ruler(r: Ruler) -> RenderableType:
    low = min([0, *(s.start for s in r.spans)])
    high = max([r.size, *(s.stop for s in r.spans)])
    line = ""
    if high - low <= 80:
        signs = {i: "─" if 0 <= i < r.size else " " for i in range(low, high)}
        for span in r.spans:
            mark = {"fault": "✗", "outside": "·"}.get(span.tone, "═")
            signs.update(dict.fromkeys(range(span.start, span.stop), mark))
        signs.update(dict.fromkeys(r.picked, "●") | dict.fromkeys(r.left, "○"))
        line = "".join(sign for _, sign in sorted(signs.items()))
    faulty = any(span.tone == "fault" for span in r.spans)
    text = RichText(f"{printable(r.title):24} {f'{line}  ' if line else ''}", "red" if faulty else "")
    return text.append(f"size {r.size}; {printable(r.said)}", "red" if faulty else "dim")
