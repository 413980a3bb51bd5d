"""Graphs in files: a folder with graph.json, and an .npy file of bytes for each constant."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from anydml import operators
from anydml.errors import Fault, GraphError
from anydml.graphs.desc import ConstantNode, GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from anydml.schema import field as fields
from anydml.schema.desc import tensor_document
from anydml.schema.field import Field
from anydml.schema.kinds import Pair
from anydml.schema.operator import Desc
from anydml.spelling import snake_case
from anydml.tensor import TensorDesc

FILE, FORMAT = "graph.json", "anydml graph 1"
EDGES = {"inputEdges": InputEdge, "outputEdges": OutputEdge, "intermediateEdges": IntermediateEdge}
MEMBERS = {"inputEdges": "input_edges", "outputEdges": "output_edges", "intermediateEdges": "intermediate_edges"}


def write(folder: str | os.PathLike[str], desc: GraphDesc, form: Any, scalars: Collection[str]) -> None:
    """Write a graph to a folder, which is created. form: the result of a call, with names. scalars: see `Graph`."""
    at = Path(folder)
    at.mkdir(parents=True, exist_ok=True)
    nodes: list[dict[str, Any]] = []
    for i, node in enumerate(desc.nodes):
        if isinstance(node, ConstantNode):
            nodes.append({"constant": f"constant_{i}.npy", "name": node.name})
            np.save(at / f"constant_{i}.npy", node.data)
        else:
            nodes.append({"operator": node.desc.spec.wire_name, "desc": node.desc.document(), "name": node.name})
    document = {
        "format": FORMAT,
        "inputs": [t and tensor_document(t) for t in desc.input_tensors],
        "outputs": [t and tensor_document(t) for t in desc.output_tensors],
        "returns": form,
        "scalars": sorted(scalars),
        "nodes": nodes,
        **{wire: [list(e) for e in getattr(desc, name)] for wire, name in MEMBERS.items()},
    }
    (at / FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read(folder: str | os.PathLike[str]) -> tuple[GraphDesc, Any, list[str]]:
    """The graph, form and scalars that `write` wrote to a folder; GraphError if the files hold no graph."""
    at = Path(folder)
    try:
        document = json.loads((at / FILE).read_text(encoding="utf-8"))
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f"is no {FORMAT!r}")
        nodes = tuple(_node(at, node) for node in document["nodes"])
        edges: Any = {MEMBERS[wire]: tuple(kind(*e) for e in document[wire]) for wire, kind in EDGES.items()}
        tensors: Any = {
            f"{role}_tensors": tuple(t and _tensor(t) for t in document[f"{role}s"]) for role in ("input", "output")
        }
        return GraphDesc(nodes, **edges, **tensors), _form(document["returns"]), _names(document.get("scalars", []))
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        told = f"has no {error}" if isinstance(error, KeyError) else str(error)
        raise GraphError([Fault(str(at / FILE), told)]) from None


def _names(given: Any) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"scalars is {given!r}, and must be a list of names")
    return given


def _node(at: Path, node: Mapping[str, Any]) -> OperatorNode | ConstantNode:
    if "operator" in node:
        return OperatorNode(_desc(node["operator"], node["desc"]), node["name"])
    if Path(node["constant"]).name != node["constant"]:
        raise ValueError(f"{node['constant']!r} is not a file of the folder")
    return ConstantNode(np.load(at / node["constant"], allow_pickle=False), node["name"])


def _desc(wire_name: str, document: Mapping[str, Any]) -> Desc:
    """An operator's desc from the document that `Desc.document` made."""
    name = wire_name.removeprefix("DML_OPERATOR_")
    operator = operators.find(name)
    if operator is None:
        raise ValueError(f"there is no operator {name!r}")
    known = {f.wire: f for f in operator.spec.fields}
    if unknown := document.keys() - known.keys():
        raise ValueError(f"{name} has no {min(unknown)!r}")
    given = {known[wire].name: _value(known[wire], value) for wire, value in document.items()}
    return operator(**{f.name: None for f in operator.spec.fields if f.optional} | given)


def _value(f: Field, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_one(f, v) for v in value)
    return _one(f, value)


def _one(f: Field, value: Any) -> Any:
    if f.is_tensor:
        return _tensor(value)
    if f.kind is fields.OPERATOR:
        return _desc(value["Type"], {wire: v for wire, v in value.items() if wire != "Type"})
    if isinstance(f.kind, Pair):
        return tuple(map(_number, value.values()))
    return _number(value)


def _number(value: Any) -> Any:
    return float(value) if value in ("nan", "inf", "-inf") else value


def _tensor(document: Mapping[str, Any]) -> TensorDesc:
    given = {snake_case(wire): value for wire, value in document.items()}
    return TensorDesc(given.pop("data_type"), given.pop("sizes"), **given)


def _form(form: Any) -> Any:
    """The form with tuples instead of JSON's lists, since functions mostly return tuples."""
    return tuple(form) if isinstance(form, list) else form
