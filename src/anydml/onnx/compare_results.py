"""The outcome of a comparison by node: a row for each node, sentences, and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

EQUAL, ROUNDING, BEYOND, UNBOUNDED, UNJUDGED = "equal", "rounding", "beyond rounding", "no bound", "not judged"


@dataclass(frozen=True)
class Deviation:
    """The distance of a tensor from the exact tensor.

    total, differing: numbers of elements. largest: the largest difference, in steps of an integer type or ULP of a float type;
    infinite if only one of the two is NaN. unit: " ULP" for floats. away: for floats, the largest difference of the numbers.
    at, expected, actual: the index of the element with the largest difference, and both values.
    """

    total: int
    differing: int
    largest: float = 0
    unit: str = ""
    away: float = 0
    at: tuple[int, ...] = ()
    expected: str = ""
    actual: str = ""

    def __str__(self) -> str:
        if not self.differing:
            return "equal"
        return f"{self.differing} of {self.total}, up to {self.size}"

    @property
    def size(self) -> str:
        """The largest differences as text: `443 ULP (3e-07)`, or `11` steps of an integer type."""
        return f"{self.largest:.6g}{self.unit} ({self.away:.2g})" if self.unit else f"{self.largest:.6g}"


@dataclass(frozen=True)
class NodeComparison:
    """A node, or several that are judged as one, with the inputs that they had in the other runtime.

    nodes, operators: their names and ONNX operators. reads, writes: their tensors. own: the error of the outputs for the
    inputs that the other runtime had. accumulated: the error for the model's exact inputs. Both are None if not known.
    verdict: "equal"; "rounding", if arithmetic that rounds at each step explains all differences; "beyond rounding"; "no
    bound", if outputs differ and no bound is known; "not judged". beyond: the number of elements that rounding does not
    explain. cause: a sentence about the deviation that explains the differences, and its name; empty if none is found.
    reason: why the node is not judged.
    """

    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    own: Deviation | None
    accumulated: Deviation | None
    verdict: str
    beyond: int = 0
    cause: str = ""
    deviation: str = ""
    reason: str = ""

    @property
    def name(self) -> str:
        """The node's name; of several, the first and the last."""
        return self.nodes[0] if len(self.nodes) == 1 else f"{self.nodes[0]}..{self.nodes[-1]}"

    @property
    def departs(self) -> bool:
        """Whether its outputs differ from the exact ones for its inputs."""
        return self.own is not None and self.own.differing > 0

    def __str__(self) -> str:
        title = f"{self.name} ({', '.join(dict.fromkeys(self.operators))})"
        if self.own is None:
            return f"{title}: {self.verdict}: {self.reason}"
        if not self.own.differing:
            return f"{title}: all {self.own.total} are equal"
        if self.verdict == BEYOND:
            said = f"{self.beyond} of them are beyond rounding"
        else:
            said = "rounding explains all of them" if self.verdict == ROUNDING else "no bound is known for it"
        at = f"at {list(self.own.at)} {self.own.actual}, not {self.own.expected}"
        cause = f". {self.cause}" if self.cause else ""
        return (
            f"{title}: {self.own.differing} of {self.own.total} differ{'s' if self.own.differing == 1 else ''} by up to "
            f"{self.own.size}, {at}; {said}{cause}"
        )


@dataclass(frozen=True)
class ModelComparison:
    """The comparison of a model's tensors, node by node, with another runtime's. `str()` is a summary, `to_dict()` is for JSON.

    nodes: in the model's order. notes: sentences about the whole model, such as fusions that give other numbers.
    """

    nodes: tuple[NodeComparison, ...]
    notes: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether every node that was judged gave the exact results for its inputs."""
        return not any(node.departs for node in self.nodes)

    @property
    def first(self) -> NodeComparison | None:
        """The first node beyond rounding; if there is none, the first that differs; None if all are equal."""
        departing = [node for node in self.nodes if node.departs]
        return next((node for node in departing if node.verdict == BEYOND), departing[0] if departing else None)

    def __str__(self) -> str:
        judged = [node for node in self.nodes if node.own is not None]
        left = f"; {len(self.nodes) - len(judged)} are not judged" if len(judged) < len(self.nodes) else ""
        if (first := self.first) is None:
            return "\n".join([f"all {len(judged)} nodes that were judged are exact{left}", *self.notes])
        departing = sum(node.departs for node in judged)
        which = "The first beyond rounding" if first.verdict == BEYOND else "None is beyond rounding; the first that differs"
        if first.verdict == UNBOUNDED:
            which = "The first that differs"
        return "\n".join([f"{departing} of {len(judged)} nodes differ{left}. {which} is {first}", *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """The comparison as values for JSON, with a row for each node."""
        rows = [{**asdict(node), "name": node.name, "sentence": str(node)} for node in self.nodes]
        first = self.first
        found: dict[str, Any] = {
            "equal": self.equal,
            "sentence": str(self),
            "first": None if first is None else first.name,
            "notes": list(self.notes),
            "nodes": [_plain(row) for row in rows],
        }
        return found


def _plain(value: Any) -> Any:
    """A value that JSON can hold: infinite numbers become text."""
    if isinstance(value, Mapping):
        return {name: _plain(x) for name, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(x) for x in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value
