"""Pictures as HTML: tables and text as such, drawings as SVG."""

from __future__ import annotations

from anydml.pictures.model import Block, Cell, Contents, Faults, Table, Text
from anydml.pictures.svg import COLOURS, STYLE, drawing
from anydml.pictures.words import circled, escaped, plain_words

PAGE = """
.picture { font: 15px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink); background: var(--page);
  max-width: 1000px; padding: 1.6rem; border-radius: 10px; }
.picture .title { line-height: 1.3; font-size: 1.25rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
.picture .head { font-size: .95rem; margin: 1.8rem 0 .5rem; }
.picture p { margin: .2rem 0; max-width: 75ch; } .picture .s { color: var(--soft); }
.picture .scroll { overflow-x: auto; } .picture svg { max-width: none; height: auto; display: block; }
.picture table { border-collapse: collapse; font-size: 13px; background: none; }
.picture th, .picture td { text-align: left; vertical-align: top; padding: .35rem 1.1rem .35rem 0; border: 0;
  border-bottom: 1px solid var(--line); background: none; }
.picture th { color: var(--soft); font-weight: 500; } .picture td:first-child { font-weight: 650; }
.picture pre { font: 12.5px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; white-space: pre-wrap; margin: 0;
  color: inherit;  background: var(--cell); border: 0; padding: .8rem 1rem; border-radius: 6px; overflow-wrap: anywhere; }
.picture .fault, .picture .faults li { color: var(--fault); font-weight: 650; }
.picture .faults { border-left: 3px solid var(--fault); margin: 1.2rem 0; padding: .3rem 0 .3rem 1.2rem;
  list-style: none; white-space: pre-wrap; }
.picture .faults li { overflow-wrap: anywhere; } .picture .faults span { color: var(--soft); font-weight: 400; }
@media (max-width: 640px) { .picture { padding: 1rem; } .picture thead { display: none; }
  .picture table, .picture tbody, .picture tr { display: block; width: 100%; }
  .picture tr { padding: .5rem 0; border-bottom: 1px solid var(--line); }
  .picture td { display: grid; grid-template-columns: 6rem minmax(0, 1fr); padding: .1rem 0; border: 0; }
  .picture td { overflow-wrap: anywhere; }
  .picture td::before { content: attr(data-label); color: var(--soft); font-weight: 400; } }
"""


def style() -> str:
    return f"{COLOURS}{STYLE}{PAGE}"


def fragment(picture: Contents) -> str:
    """The picture for a notebook."""
    return f"<style>{style()}</style>{body(picture)}"


def page(picture: Contents) -> str:
    """The picture as a page that loads nothing."""
    return document(picture.title, style(), body(picture))


def document(title: str, styles: str, content: str) -> str:
    """A page of one file."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escaped(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="data:,">'
        "<style>body { margin: 0; background: var(--page); } main { max-width: 1060px; margin: 0 auto; }"
        f"{styles}</style></head>\n"
        f'<body class="anydml"><main>{content}</main></body></html>\n'
    )


def body(picture: Contents, level: int = 2) -> str:
    """The picture below a heading of a level."""
    blocks = "".join(_block(block, level + 1) for block in picture.blocks)
    title, summary = escaped(picture.title), escaped(plain_words(picture.summary))
    return f'<div class="anydml picture"><h{level} class="title">{title}</h{level}><p class="s">{summary}</p>{blocks}</div>\n'


def _block(block: Block, level: int) -> str:
    if isinstance(block, Faults):
        said = "".join(f"<li>{circled(str(i))} {_message(m)}</li>" for i, m in enumerate(block.messages, 1))
        return f'<ul class="faults">{said}</ul>'
    title = f'<h{level} class="head">{escaped(block.title)}</h{level}>'
    if isinstance(block, Table):
        head = "".join(f'<th scope="col">{escaped(h)}</th>' for h in block.head)
        rows = "".join(f"<tr>{''.join(map(_entry, row, block.head))}</tr>" for row in block.rows)
        return f"{title}{_scroll(block.title, f'<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>')}"
    if isinstance(block, Text):
        return f"{title}<pre>{chr(10).join(map(escaped, block.lines))}</pre>"
    return f"{title}{_scroll(block.title, drawing(block, block.title))}"


def _scroll(title: str, content: str) -> str:
    """A part that may be wider than the screen; it has the focus, so that keys scroll it."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escaped(title)}">{content}</div>'


def _message(message: str) -> str:
    first, *more = message.split("\n")
    return escaped(first) + "".join(f"\n<span>{escaped(line.strip())}</span>" for line in more)


def _entry(cell: Cell, head: str) -> str:
    """An entry of a table, with its column's name for narrow screens."""
    label = f'data-label="{escaped(head)}"'
    if cell.tone == "fault":
        return f'<td {label} class="fault"><span>{circled(cell.order)} {escaped(cell.text)}</span></td>'
    return f"<td {label}>{escaped(cell.text)}</td>"
