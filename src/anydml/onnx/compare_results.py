"""The outcome of a comparison by node: a row for each node, sentences, and JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anydml.onnx.compare_details import NodeDetails

MOST_UNITS = 1 << 16  # units in the last place that tell how large an error is
MOST_REASONS = 8  # reasons for which nodes are not judged that a summary names
EQUAL, ROUNDING, BEYOND, UNBOUNDED, UNJUDGED = "equal", "rounding", "beyond rounding", "no bound", "not judged"


@dataclass(frozen=True)
class Deviation:
    """The distance of a tensor from the exact tensor.

    total, differing: numbers of elements. largest: the largest difference, in steps of an integer type or ULP of a float type;
    infinite if only one of the two is NaN. unit: " ULP" for floats. away: for floats, the largest difference of the numbers.
    relative: that difference, divided by the largest finite magnitude in the exact tensor. at, expected, actual: the index and
    both values of the element with the largest difference of numbers.
    """

    total: int
    differing: int
    largest: float = 0
    unit: str = ""
    away: float = 0
    at: tuple[int, ...] = ()
    expected: str = ""
    actual: str = ""
    relative: float = 0

    def __str__(self) -> str:
        if not self.differing:
            return "equal"
        return f"{self.differing} of {self.total}, {self.extent}"

    @property
    def extent(self) -> str:
        """The largest difference as part of a sentence."""
        return f"up to {self.size}" if self.largest else "only the sign of 0"

    @property
    def size(self) -> str:
        """The largest difference: `443 ULP (3e-07)`, `0.5 (1 % of the largest element)`, or `11` steps of an integer type.

        Units in the last place say nothing where there are many, as next to 0.
        """
        if not self.unit:
            return f"{self.largest:.6g}"
        if self.largest < MOST_UNITS or not math.isfinite(self.away):
            return f"{self.largest:.6g}{self.unit} ({self.away:.2g})"
        share = f"{100 * self.relative:.3g} % of" if self.relative < 10 else f"{self.relative:.2g} times"
        return f"{self.away:.2g} ({share} the largest element)"


@dataclass(frozen=True)
class NodeComparison:
    """A node, or several that are judged as one, with the inputs that they had in the other runtime.

    nodes, operators: their names and ONNX operators. reads, writes: their tensors. own: the error of the outputs for the
    inputs that the other runtime had. accumulated: the error for the model's exact inputs. Both are None if not known.
    verdict: "equal"; "rounding", if arithmetic that rounds at each step explains all differences; "beyond rounding"; "no
    bound", if outputs differ and no bound is known; "not judged". beyond: the number of elements that rounding does not
    explain. excess: how far the outputs are beyond rounding, in units in the last place of the tensor's largest element; if no
    bound is known, how far they differ. carried: the error of the model's outputs if this error were the only one, if it was
    computed. estimated: whether bounds are too wide or unknown, and an estimate of the errors of rounding tells instead. forms:
    what explains elements that rounding at each step of the operator's own formula does not, such as "the
    normalisation folded into scale and shift". cause: a sentence about the deviation that explains the differences, and its
    name; empty if none is found. reason: why the node is not judged. module, line: of a node of torch, the path of its module,
    such as `layers.3.attn`, and the source line; else empty.
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
    excess: float = 0
    carried: Deviation | None = None
    forms: tuple[str, ...] = ()
    estimated: bool = False
    module: str = ""
    line: str = ""

    @property
    def name(self) -> str:
        """The node's name; of several, the first and the last."""
        return self.nodes[0] if len(self.nodes) == 1 else f"{self.nodes[0]}..{self.nodes[-1]}"

    @property
    def departs(self) -> bool:
        """Whether its outputs differ from the exact ones for its inputs."""
        return self.own is not None and self.own.differing > 0

    def __str__(self) -> str:
        title = f"{self.name} ({', '.join([*dict.fromkeys(self.operators), *filter(None, [self.line])])})"
        title = f"{self.module}: {title}" if self.module else title
        if self.own is None:
            return f"{title}: {self.verdict}: {self.reason}"
        if not self.own.differing:
            return f"{title}: all {self.own.total} are equal"
        if self.verdict == BEYOND:
            said = f"{self.beyond} of them {'is' if self.beyond == 1 else 'are'} beyond rounding"
            said += ", by an estimate" if self.estimated else ""
        elif self.estimated and self.verdict == ROUNDING:
            said = "rounding explains all of them, by an estimate"
        else:
            form = f", with {' and '.join(self.forms)}" if self.forms else ""
            said = f"rounding explains all of them{form}" if self.verdict == ROUNDING else "no bound is known for it"
        at = f"at {list(self.own.at)} {self.own.actual}, not {self.own.expected}"
        cause = f". {self.cause}" if self.cause else ""
        return (
            f"{title}: {self.own.differing} of {self.own.total} differ{'s' if self.own.differing == 1 else ''} "
            f"{'by ' if self.own.largest else 'in '}{self.own.extent}, {at}; {said}{cause}"
        )


@dataclass(frozen=True)
class ModelComparison:
    """The comparison of a model's tensors, node by node, with another runtime's. `str()` is a summary, `to_dict()` is for JSON.

    nodes: in the model's order. notes: sentences about the whole model, such as fusions that give other numbers. details: what
    a page shows of the rows that differ, by the names of their nodes, if it was asked for; it is no part of `to_dict`.
    """

    nodes: tuple[NodeComparison, ...]
    notes: tuple[str, ...] = ()
    details: Mapping[tuple[str, ...], NodeDetails] = field(default_factory=dict, compare=False, repr=False)

    @property
    def equal(self) -> bool:
        """Whether every node that was judged gave the exact results for its inputs."""
        return not any(node.departs for node in self.nodes)

    @property
    def first(self) -> NodeComparison | None:
        """The first node beyond rounding; if there is none, the first that differs; None if all are equal."""
        departing = [node for node in self.nodes if node.departs]
        return next((node for node in departing if node.verdict == BEYOND), departing[0] if departing else None)

    @property
    def worst(self) -> NodeComparison | None:
        """The node that is farthest beyond rounding; if there is none, the one without a bound that differs most."""
        for verdict in (BEYOND, UNBOUNDED):
            if found := [node for node in self.nodes if node.verdict == verdict]:
                return max(found, key=lambda node: node.excess)
        return self.first

    @property
    def unjudged(self) -> tuple[NodeComparison, ...]:
        """The nodes that nothing can be said of: those not judged, and those that differ without a known bound."""
        return tuple(node for node in self.nodes if node.verdict in (UNJUDGED, UNBOUNDED))

    def __str__(self) -> str:
        judged = [node for node in self.nodes if node.own is not None]
        unjudged = [node for node in self.nodes if node.own is None]
        left = f"; {len(unjudged)} {'is' if len(unjudged) == 1 else 'are'} not judged" if unjudged else ""
        reasons = _reasons(unjudged)
        if not judged:
            return "\n".join(["No node was judged", *reasons, *self.notes])
        first, worst = self.first, self.worst
        if first is None or worst is None:
            every = "The node that was judged is" if len(judged) == 1 else f"All {len(judged)} nodes that were judged are"
            return "\n".join([f"{every} exact{left}", *reasons, *self.notes])
        departing = sum(node.departs for node in judged)
        beyond = sum(node.verdict == BEYOND for node in judged)
        said = f"{departing} of {len(judged)} nodes {'differs' if departing == 1 else 'differ'}{left}. "
        said = f"The node that was judged differs{left}. " if len(judged) == 1 else said
        if beyond and worst is first:
            said += f"The {'one' if beyond == 1 else 'first and the worst'} beyond rounding is {worst}"
        elif beyond:
            said += f"{beyond} are beyond rounding. The worst is {worst}.\nThe first beyond rounding is {first}"
        elif worst.verdict == UNBOUNDED:
            said += f"The largest difference without a known bound is that of {worst}"
        else:
            said += f"None is beyond rounding; the first that differs is {first}"
        return "\n".join([said, *_by_form(self.nodes), *_carried(self.nodes), *reasons, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """The comparison as values for JSON, with a row for each node."""
        rows = [{**asdict(node), "name": node.name, "sentence": str(node)} for node in self.nodes]
        first, worst = self.first, self.worst
        found: dict[str, Any] = {
            "equal": self.equal,
            "sentence": str(self),
            "first": None if first is None else first.name,
            "worst": None if worst is None else worst.name,
            "unjudged": len(self.unjudged),
            "notes": list(self.notes),
            "nodes": [_plain(row) for row in rows],
        }
        return found


def _by_form(rows: Sequence[NodeComparison]) -> list[str]:
    """A line for each form that explains nodes, with their number."""
    explained = [row for row in rows if row.verdict == ROUNDING]
    counts = Counter(" and ".join(row.forms) for row in explained if row.forms)
    counts["an estimate of the errors of rounding"] = sum(row.estimated for row in explained)
    counts = +counts
    return [f"{n} {'node is' if n == 1 else 'nodes are'} explained by {form}" for form, n in counts.items()]


def _reasons(rows: Sequence[NodeComparison]) -> list[str]:
    """A line for each reason for which nodes are not judged, with the names of some of them."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row.reason, []).append(row.name)
    shown = [
        f"Not judged: {', '.join(names[:4])}{', ...' if len(names) > 4 else ''}: {why}" for why, names in by_reason.items()
    ]
    more = len(shown) - MOST_REASONS
    return shown if more <= 0 else [*shown[:MOST_REASONS], f"and {more} more reasons"]


def _carried(rows: Sequence[NodeComparison]) -> list[str]:
    """A line about the errors of the model's outputs, largest first; none if it would only repeat a node's own error."""
    found = sorted((row for row in rows if row.carried is not None), key=lambda row: -_magnitude(row.carried))
    if all(row.carried == row.own for row in found):
        return []
    each = [f"{row.name} alone makes {row.carried if row.carried and row.carried.differing else 'none'}" for row in found]
    return [f"Of the error of the model's outputs, {'; '.join(each)}"]


def _magnitude(found: Deviation | None) -> float:
    return 0.0 if found is None else found.away if found.unit else found.largest


def _plain(value: Any) -> Any:
    """A value that JSON can hold: infinite numbers become text."""
    if isinstance(value, Mapping):
        return {name: _plain(x) for name, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(x) for x in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value
