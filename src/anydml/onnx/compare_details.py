"""Details of a comparison for a page: histograms of differences, the worst elements with their inputs, and repros."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anydml.errors import Error
from anydml.explain.bounded import Unbounded
from anydml.onnx.compare_judge import Cut, steps
from anydml.onnx.values import Array, is_float
from anydml.pictures.grids import wire
from anydml.pictures.reads import reads_of
from anydml.schema.statement import stated

WORST = 5  # elements of a tensor
READS = 6  # elements that a worst element was computed from
EXPLAINED = 16  # nodes with the inputs of their worst elements, and with repros
LARGEST = 1 << 16  # bytes of a repro's inputs and weights


@dataclass(frozen=True)
class Worst:
    """An element that differs most. reads: the elements that it was computed from, as text."""

    at: tuple[int, ...]
    expected: str
    actual: str
    steps: float
    reads: str = ""


@dataclass(frozen=True)
class TensorDetails:
    """A tensor that differs. bins: the number of elements by their distance, in steps or ULP."""

    name: str
    sizes: tuple[int, ...]
    data_type: str
    unit: str
    bins: tuple[tuple[str, int], ...]
    worst: tuple[Worst, ...]


@dataclass(frozen=True)
class NodeDetails:
    """The details of a row. python, onnx: the node alone as a program and as text; empty if it is too large or not ONNX."""

    tensors: tuple[TensorDetails, ...]
    python: str = ""
    onnx: str = ""


Repro = Callable[[Sequence[Any], Mapping[str, Array], Sequence[str], Mapping[str, Array]], tuple[str, str]]


class Details:
    """The details of the rows that were judged, by the names of their nodes. repro: gives a row's program and text."""

    def __init__(self, repro: Repro | None = None) -> None:
        self.found: dict[tuple[str, ...], NodeDetails] = {}
        self._repro = repro

    def note(
        self,
        nodes: Sequence[Any],
        cut: Cut,
        values: Mapping[str, Array],
        outputs: Sequence[str],
        known: Mapping[str, Array],
    ) -> None:
        """Keep the details of nodes whose outputs differ."""
        explained = len(self.found) < EXPLAINED
        tensors = []
        for name in outputs:
            expected, actual = cut.exact[name], known[name]
            differs, step = steps(expected, actual)
            if differs.any():
                tensors.append(_tensor(name, expected, actual, differs, step, cut if explained else None))
        if not tensors:
            return
        python = onnx = ""
        if explained and self._repro is not None:
            python, onnx = self._repro(nodes, values, outputs, known)
        self.found[tuple(node.name for node in nodes)] = NodeDetails(tuple(tensors), python, onnx)


def _tensor(name: str, expected: Array, actual: Array, differs: Array, step: Array, cut: Cut | None) -> TensorDetails:
    flat, off = step.reshape(-1), differs.reshape(-1)
    rank = np.where(off, flat, -1)
    at = np.argsort(-rank, kind="stable")[:WORST]
    read = _reader(cut, name, expected) if cut is not None else None
    worst = tuple(
        Worst(
            tuple(int(i) for i in np.unravel_index(i, expected.shape)),
            str(expected.reshape(-1)[i]),
            str(actual.reshape(-1)[i]),
            float(flat[i]),
            read(int(i)) if read is not None else "",
        )
        for i in at
        if off[i]
    )
    unit = "ULP" if is_float(expected.dtype) else "steps"
    return TensorDetails(name, expected.shape, str(expected.dtype), unit, _bins(flat), worst)


def _bins(step: Array) -> tuple[tuple[str, int], ...]:
    """Counts of distances: 0, 1, 2, 3 to 4, 5 to 8, .., and those of which one is NaN."""
    finite = step[np.isfinite(step)]
    made = [("0", int(np.count_nonzero(finite < 0.5)))]
    edge = 1
    while edge / 2 < finite.max(initial=0.0):
        low = edge // 2 + 1
        count = int(np.count_nonzero((finite >= low) & (finite <= edge)))
        label = str(edge) if low == edge else f"{low} to {edge}" if edge < 1024 else f"to 2^{edge.bit_length() - 1}"
        made.append((label, count))
        edge *= 2
    if len(finite) < len(step):
        made.append(("NaN", len(step) - len(finite)))
    return tuple(made)


def _reader(cut: Cut, name: str, expected: Array) -> Callable[[int], str] | None:
    """A function from an element's position to the elements that it was computed from; None if that is not known."""
    try:
        operation, output = cut.operation(name)
    except (Error, Unbounded, LookupError):
        return None
    sizes = operation.tensors[output].sizes
    inputs = {field: x.value for field, x in operation.inputs.items() if x.exact}
    if int(np.prod(sizes)) != expected.size:
        return None
    nest = stated(operation.desc)[output]

    def read(position: int) -> str:
        found = reads_of(nest, tuple(int(i) for i in np.unravel_index(position, sizes)), inputs)
        known = []
        for w in found.elements:
            if w.inside and None not in w.read.at and w.read.tensor in inputs:
                value = inputs[w.read.tensor][w.read.at].item()
                size = abs(float(w.weight) * value) if w.weight is not None else abs(value)
                known.append((size, f"{wire(operation.desc, w.read.tensor)}{list(w.read.at)} = {value:.9g}"))
        known.sort(key=lambda pair: -pair[0] if pair[0] == pair[0] else float("-inf"))
        more = len(known) - READS
        said = ", ".join(text for _, text in known[:READS])
        return f"{said}{f', and {more} more' if more > 0 else ''}"

    return read


def program(title: str, model: bytes, inputs: Mapping[str, Array], actual: Mapping[str, Array]) -> str:
    """A Python program that computes one node exactly and counts the elements in which the other runtime's differ."""
    if len(model) + sum(x.nbytes for x in (*inputs.values(), *actual.values())) > LARGEST:
        return ""
    given = "".join(f"    {name!r}: {_array(x)},\n" for name, x in inputs.items())
    other = "".join(f"    {name!r}: {_array(x)},\n" for name, x in actual.items())
    return (
        f"# {title.encode('unicode_escape').decode()}\n"
        "import base64, zlib\n\nimport numpy as np\nimport onnx\n\nimport anydml.onnx\n\n\n"
        "def unpack(text):\n    return zlib.decompress(base64.b85decode(text))\n\n\n"
        "def array(dtype, shape, text):\n    return np.frombuffer(unpack(text), dtype).reshape(shape)\n\n\n"
        f"model = onnx.ModelProto.FromString(unpack({_packed(model)}))\n"
        f"inputs = {{\n{given}}}\nactual = {{  # what the other runtime computed\n{other}}}\n"
        "exact = anydml.onnx.load(model).run(inputs)\n"
        "for name, x in exact.items():\n"
        "    differ = (x != actual[name]) & ((x == x) | (actual[name] == actual[name]))  # NaN equals NaN\n"
        '    print(f"{name}: {np.count_nonzero(differ)} of {x.size} differ")\n'
    )


def _packed(data: bytes) -> str:
    return repr(base64.b85encode(zlib.compress(data, 9)).decode())


def _array(x: Array) -> str:
    dtype = "bool" if x.dtype == np.bool_ else x.dtype.str if x.dtype.kind != "V" else str(x.dtype)
    return f"array({dtype!r}, {x.shape}, {_packed(np.ascontiguousarray(x).tobytes())})"
