"""A comparison as a picture: its sentences, the graph with the nodes that depart, and the differences of the worst node."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.onnx.compare_results import BEYOND, EQUAL, ModelComparison, NodeComparison
from anydml.pictures.model import Bar, Bars, Block, Cell, Flow, Node, Table, Tone
from anydml.pictures.shown import Picture

MOST = 40  # nodes


def comparison_picture(found: ModelComparison, title: str) -> Picture:
    """The picture of a comparison, for a notebook or a document; `page` has all of a large model's nodes."""
    sentence = str(found).split("\n")[0]
    blocks: list[Block] = [Flow("The graph", tuple(_nodes(found.nodes)))]
    worst = found.worst
    details = found.details.get(worst.nodes) if worst is not None else None
    for t in details.tensors if details is not None else ():
        bars = tuple(Bar(label, n) for label, n in t.bins)
        blocks.append(Bars(f"Elements of {t.name} by {t.unit} off", bars))
        rows = [(list(w.at), w.actual, w.expected, f"{w.steps:.6g}", w.reads) for w in t.worst[:3]]
        head = ("element", "is", "exact", t.unit, "computed from")
        blocks.append(Table("The worst elements", head, tuple(tuple(Cell(str(x)) for x in row) for row in rows)))
    return Picture(title, f"{sentence}.", tuple(blocks))


def _nodes(rows: Sequence[NodeComparison]) -> list[Node]:
    made: list[Node] = []
    writer: dict[str, int] = {}
    for row in rows[:MOST]:
        reads = tuple(dict.fromkeys(writer[name] for name in row.reads if name in writer))
        tone: Tone = "fault" if row.verdict == BEYOND else "read" if row.verdict == EQUAL else "negative"
        share = f"{row.own.differing} of {row.own.total} differ" if row.departs and row.own is not None else row.verdict
        writer.update(dict.fromkeys(row.writes, len(made)))
        made.append(Node(f"{row.name} · {', '.join(dict.fromkeys(row.operators))}", share, reads, tone))
    if len(rows) > MOST:
        made.append(Node(f"and {len(rows) - MOST} more nodes", "", (len(made) - 1,)))
    return made
