"""Graphs as text, HTML and DOT: the nodes, their sizes, and the calls to which they were fused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.graphs.checked import CheckedGraph
from anydml.graphs.desc import ConstantNode, OperatorNode
from anydml.graphs.plan import Work


class Row(NamedTuple):
    """A node: the number of its call, its name, its inputs and its outputs.

    The call is "once" if initialize runs it, and "-" if no call computes the node, since its result is a part of another
    tensor.
    """

    call: str
    node: str
    reads: str
    writes: str


def rows(checked: CheckedGraph, once: Sequence[Work], operators: Sequence[Work]) -> list[Row]:
    """The nodes in order, with the calls that compute them."""
    calls = {node: "once" for work in once for node in work.nodes}
    calls |= {node: str(k) for k, work in enumerate(operators, 1) for node in work.nodes}
    names = _names(checked)
    found = []
    for node in checked.order:
        operator = checked.nodes[node]
        if operator is not None:
            reads = ", ".join(names[b] for b in checked.reads[node].values())
            made = [operator.tensors[name] for name in checked.writes[node]]
            writes = ", ".join(f"{t.data_type} {_sizes(t.sizes)}" for t in made)
            found.append(Row(calls.get(node, "-"), called(checked, node), reads, writes))
    return found


def text(checked: CheckedGraph, once: Sequence[Work], operators: Sequence[Work]) -> str:
    """The graph as text: its inputs, a line for each node, its outputs."""
    lines = [[r.call, f"{r.node}({r.reads})", r.writes] for r in rows(checked, once, operators)]
    widths = [max((len(line[k]) for line in lines), default=0) for k in (0, 1)]
    names = _names(checked)
    said = [f"<Graph: {summary(checked, operators)}"]
    said += [
        f"  {b.name}: {b.tensor.data_type} {_sizes(b.tensor.sizes)}{', owned' * bool(b.tensor.flags)}" for b in checked.inputs
    ]
    said += [f"  {call:>{widths[0]}}  {node:{widths[1]}}  {writes}" for call, node, writes in lines]
    said += [f"  {b.name} = {names[b.buffer]}" for b in checked.outputs]
    return "\n".join(said) + ">"


def summary(checked: CheckedGraph, operators: Sequence[Work]) -> str:
    """The numbers of operators, constants and calls."""
    constants = sum(isinstance(node, ConstantNode) for node in checked.desc.nodes)
    counts = ((len(checked.desc.nodes) - constants, "operator"), (constants, "constant"), (len(operators), "call"))
    return ", ".join(f"{n} {noun}{'s' * (n != 1)}" for n, noun in counts)


def html(checked: CheckedGraph, once: Sequence[Work], operators: Sequence[Work]) -> str:
    """A table of the nodes."""
    from html import escape  # imported here, since a graph that is only compiled does not need its table of entities

    cells = [("call", "operator", "of", "result"), *rows(checked, once, operators)]
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in cells)
    return f"<table><caption>{escape(summary(checked, operators))}</caption>{body}</table>"


def dot(checked: CheckedGraph, once: Sequence[Work], operators: Sequence[Work]) -> str:
    """A digraph for Graphviz, with a box around the nodes of a call, and sizes at the edges."""
    lines = ["digraph {", "  node [shape=box, style=rounded];"]
    for k, work in enumerate([*once, *operators]):
        boxes = " ".join(f"n{node} [label={_quoted(called(checked, node))}];" for node in work.nodes)
        lines.append(f"  subgraph cluster{k} {{ {boxes} }}" if len(work.nodes) > 1 else f"  {boxes}")
    inside = {node for work in (*once, *operators) for node in work.nodes}
    apart = [node for node in checked.order if checked.nodes[node] is not None and node not in inside]
    lines += [f"  n{node} [label={_quoted(called(checked, node))}, style=dashed];" for node in apart]
    lines += [f"  i{b.buffer} [label={_quoted(b.name)}, shape=ellipse];" for b in checked.inputs]
    lines += [f"  o{k} [label={_quoted(b.name)}, shape=ellipse];" for k, b in enumerate(checked.outputs)]
    for node, reads in enumerate(checked.reads):
        for name, buffer in reads.items():
            operator, source = checked.nodes[node], checked.buffers[buffer].node
            assert operator is not None
            if checked.constant(buffer) is not None:
                lines.append(f"  n{source} [label={_quoted(called(checked, source or 0))}, shape=plain];")
            label = _quoted(_sizes(operator.tensors[name].sizes))
            lines.append(f"  {f'i{buffer}' if source is None else f'n{source}'} -> n{node} [label={label}];")
    for k, b in enumerate(checked.outputs):
        lines.append(f"  n{checked.buffers[b.buffer].node} -> o{k} [label={_quoted(_sizes(b.tensor.sizes))}];")
    return "\n".join([*dict.fromkeys(lines), "}"])


def called(checked: CheckedGraph, node: int) -> str:
    """A node by its name, else by its operator and number."""
    found = checked.desc.nodes[node]
    if isinstance(found, OperatorNode):
        return found.name or f"{found.desc.spec.name.lower()}[{node}]"
    return found.name or f"constant[{node}]"


def _names(checked: CheckedGraph) -> dict[int, str]:
    """The name of each buffer, made from the input, constant or node that it comes from."""
    found = {b.buffer: b.name for b in checked.inputs}
    for node, writes in enumerate(checked.writes):
        for name, buffer in writes.items():
            found[buffer] = called(checked, node) + (f".{name}" if len(writes) > 1 else "")
    for i, (node_of, *_) in enumerate(checked.buffers):
        if checked.constant(i) is not None and node_of is not None:
            found[i] = called(checked, node_of)
    return found


def _sizes(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


def _quoted(said: str) -> str:
    escaped = said.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
