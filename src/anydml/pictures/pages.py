"""Pages about a program and about a model: what flows where, each operator's picture, and every fault at its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anydml.errors import Fault
from anydml.functional.graph import Graph
from anydml.graphs.desc import OperatorNode
from anydml.graphs.show import called
from anydml.pictures.html import body, document, style
from anydml.pictures.model import Block, Cell, Faults, Flow, Node, Table, Tone
from anydml.pictures.picture import picture_of
from anydml.pictures.shown import Picture
from anydml.pictures.tables import sizes
from anydml.pictures.words import escaped
from anydml.program import Program
from anydml.program.model import Constant, Dispatch, FromFile, Given, Resource, WriteFile
from anydml.program.model import Sequence as Values
from anydml.schema.operator import Desc

BOXES = 120  # of a flow
PICTURES = 40  # on a page
STYLE = """
main { padding: 1.4rem; } .part { border: 1px solid var(--line); border-radius: 10px; }
.part, .picture { margin: 0 0 1.2rem; } .part > summary { cursor: pointer; padding: .8rem 1.2rem; color: var(--ink);
  font: 600 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; overflow-wrap: anywhere; }
.part .s { font-weight: 400; } .part .picture { margin: 0; padding-top: .4rem; } .where { font-weight: 400; }
@media (max-width: 640px) { main { padding: .6rem; } .picture { padding: 1rem .6rem; }
  .part > summary { padding: .7rem .6rem; } }
"""


def program_page(title: str, program: Program | None, faults: Sequence[Fault]) -> str:
    """The page of a program, which is None if its text has faults of form. faults: all that are known, with their places."""
    blocks: list[Block] = [Faults(tuple(f"{f.pointer or '/'}\n{f.message}" for f in faults))] if faults else []
    parts = ""
    if program is not None:
        blocks += [_flow(program, faults), _resources(program.resources.values(), faults)]
        for d in program.dispatchables.values():
            own = [f for f in faults if _below(f.pointer, d.pointer)]
            drawn = picture_of(d.desc, {}, wire=True)
            parts += _part(d.name, drawn, own, opened=bool(own) or len(program.dispatchables) <= 3)
    overview = Picture(title, _counted(len(faults)), tuple(blocks))
    return document(title, style() + STYLE, body(overview, 1) + parts)


def _counted(faults: int) -> str:
    return "A program without faults." if not faults else f"A program with {faults} fault{'s' * (faults != 1)}."


def _below(pointer: str, place: str) -> bool:
    return pointer == place or pointer.startswith(f"{place}/")


def _faults(faults: Sequence[Fault]) -> str:
    """A list of faults, each with its place."""
    if not faults:
        return ""
    said = "".join(
        f'<li><span class="where">{escaped(f.pointer or "/")}</span>\n'
        f"{'<br>'.join(map(escaped, f.message.split(chr(10))))}</li>"
        for f in faults
    )
    return f'<div class="anydml picture"><ul class="faults">{said}</ul></div>'


def _part(name: str, drawn: Picture, faults: Sequence[Fault], *, opened: bool) -> str:
    others = [f for f in faults if f.violation is None]  # broken rules are in the picture
    count = f" · {len(faults)} fault{'s' * (len(faults) != 1)}" if faults else ""
    return (
        f'<details class="part anydml"{" open" if opened else ""}><summary>{escaped(name)} '
        f'<span class="s">{escaped(drawn.title)}{count}</span></summary>{_faults(others)}{body(drawn)}</details>\n'
    )


def _flow(program: Program, faults: Sequence[Fault]) -> Flow:
    """Resources and commands in order; a resource that is written again is a new box."""
    nodes: list[Node] = []
    latest: dict[str, int] = {}

    def resource(name: str, reads: tuple[int, ...] = ()) -> int:
        if reads or name not in latest:
            found = program.resources.get(name)
            tone: Tone = "fault" if found and any(_below(f.pointer, found.pointer) for f in faults) else "read"
            latest[name] = len(nodes)
            nodes.append(Node(name, _type(found), reads, "plain" if reads and tone == "read" else tone))
        return latest[name]

    for command in program.commands:
        if len(nodes) > BOXES:
            nodes.append(Node("and more commands", "", (len(nodes) - 1,)))
            break
        wrong = any(_below(f.pointer, command.pointer) for f in faults)
        if not isinstance(command, Dispatch):
            what = f"write {command.target}" if isinstance(command, WriteFile) else "print"
            nodes.append(Node(what, "", (resource(command.resource),), "fault" if wrong else "window"))
            continue
        d = program.dispatchables[command.dispatchable]
        wrong |= any(_below(f.pointer, d.pointer) for f in faults)
        bindings = {**d.bindings, **command.bindings}
        outputs = {f.wire for f in d.desc.spec.outputs}
        reads = [resource(b.resource) for wire, these in bindings.items() if wire not in outputs for b in these]
        nodes.append(Node(d.name, d.desc.spec.name, tuple(dict.fromkeys(reads)), "fault" if wrong else "window"))
        at = len(nodes) - 1
        for wire, these in bindings.items():
            for b in these if wire in outputs else ():
                resource(b.resource, (at,))
    return Flow("What flows where", tuple(nodes))


def _type(resource: Resource | None) -> str:
    return "" if resource is None else resource.data_type.name


def _resources(resources: Iterable[Resource], faults: Sequence[Fault]) -> Table:
    """The table of resources; with their bytes, if the program tells of some."""
    rows = []
    these = list(resources)
    sized = any(r.size is not None for r in these)
    for r in these:
        tone: Tone = "fault" if any(_below(f.pointer, r.pointer) for f in faults) else "plain"
        size = () if not sized else (Cell("" if r.size is None else f"{r.size:,}"),)
        name = Cell(r.name, tone, order="1" if tone == "fault" else "")
        rows.append((name, Cell(r.data_type.name), Cell(_values(r)), *size))
    return Table("Resources", ("resource", "data type", "initial values", *["bytes"] * sized), tuple(rows))


def _values(resource: Resource) -> str:
    values = resource.values
    if isinstance(values, FromFile):
        return f"from {values.source}"
    if isinstance(values, Given):
        return f"{values.data.size} given"
    if isinstance(values, Constant):
        return f"{values.count} times {values.value.item()}"
    assert isinstance(values, Values)
    return f"{values.count} from {values.start.item()} on, by {values.delta.item()}"


def model_page(
    title: str, facts: Mapping[str, Mapping[str, Any]], graph: Graph | None, refusals: Sequence[str], why: str = ""
) -> str:
    """The page of a model. facts: its inputs, outputs and operators; graph: if it has one; refusals: of nodes; why: none."""
    blocks: list[Block] = [Faults(tuple(refusals))] if refusals else []
    parts = ""
    if graph is not None:
        blocks.append(_graph_flow(graph))
        descs: dict[Desc, list[str]] = {}
        checked, *_ = graph._planned()
        for node in checked.order:
            if (operator := checked.nodes[node]) is not None:
                descs.setdefault(operator.desc, []).append(called(checked, node))
        for desc, names in list(descs.items())[:PICTURES]:
            parts += _part(_several(names), picture_of(desc, {}), (), opened=False)
        if len(descs) > PICTURES:
            parts += f'<p class="anydml picture s">and {len(descs) - PICTURES} more operators</p>'
    blocks += [
        Table(name.capitalize(), ("name", "value"), tuple((Cell(str(k)), Cell(str(v))) for k, v in members.items()))
        for name, members in facts.items()
        if members
    ]
    overview = Picture(title, why or "A model, and the operators of DirectML that compute it.", tuple(blocks))
    return document(title, style() + STYLE, body(overview, 1) + parts)


def _several(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _graph_flow(graph: Graph) -> Flow:
    checked, *_ = graph._planned()
    nodes: list[Node] = []
    at: dict[int, int] = {}
    for b in checked.inputs:
        at[b.buffer] = len(nodes)
        nodes.append(Node(b.name, sizes(b.tensor.sizes), (), "read"))
    for node in checked.order:
        operator = checked.nodes[node]
        if operator is None:
            continue
        if len(nodes) > BOXES:
            nodes.append(Node("and more operators", "", (len(nodes) - 1,)))
            return Flow("What flows where", tuple(nodes))
        reads = tuple(dict.fromkeys(at[b] for b in checked.reads[node].values() if b in at))
        found = checked.desc.nodes[node]
        kind = found.desc.spec.name if isinstance(found, OperatorNode) else ""
        at.update(dict.fromkeys(checked.writes[node].values(), len(nodes)))
        nodes.append(Node(called(checked, node), kind, reads))
    nodes += [Node(b.name, sizes(b.tensor.sizes), (at[b.buffer],) if b.buffer in at else (), "window") for b in checked.outputs]
    return Flow("What flows where", tuple(nodes))
