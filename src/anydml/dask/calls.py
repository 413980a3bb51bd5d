"""Eager calls on Dask arrays: the plan of the call, and a task for each chunk of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import product
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from anydml.chunking import piece
from anydml.chunking.split import Form, Last, Partial, form_of, spelled, without_parts
from anydml.chunking.windows import (
    Chunks,
    Reads,
    along,
    ends_of,
    natural_chunks,
    needed,
    ranges_of,
    reads_of,
    rows_of,
    windows_of,
)
from anydml.dask.gathering import Combine, Source, Task
from anydml.devices.device import device_of, named
from anydml.errors import BindingError, DescError, Fault, UnsupportedError
from anydml.functional import functions
from anydml.functional.call import explained
from anydml.functional.inference import argument, outputs_type
from anydml.functional.inputs import fault
from anydml.functional.keys import Asked, keyed, of_graph, taken_all
from anydml.functional.plan import Plan
from anydml.functional.planning import plan_call
from anydml.functional.run import Signature, operator_of
from anydml.int4_tensors import array_dtype
from anydml.schema.desc import Desc
from anydml.schema.node import number
from anydml.schema.statement import Nest, meaning
from anydml.schema.traversal import bound_by
from anydml.tensor import four_bit, packed_strides

TOGETHER = 8  # partial results that one task adds up


def lazy(name: str) -> Callable[..., Any]:
    """The function of an operator, for Dask arrays."""
    eager = getattr(functions, name)

    @wraps(eager)
    def call(*args: Any, **kwargs: Any) -> Any:
        return eager(*map(_wrapped, args), **{key: _wrapped(value) for key, value in kwargs.items()})

    call.__module__ = "anydml.dask"
    return call


def _wrapped(value: Any) -> Any:
    if isinstance(value, da.Array):
        return Lazy(value)
    if isinstance(value, (list, tuple)) and any(isinstance(x, da.Array) for x in value):
        return [_wrapped(x) for x in value]
    return value


class Lazy:
    """A Dask array as an argument of an eager function, which hands the call back to it."""

    def __init__(self, array: da.Array) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = np.dtype(self.array.dtype)
        return found

    @property
    def ndim(self) -> int:
        return len(self.array.shape)

    @property
    def layout(self) -> Signature:
        """The layout of a packed array with these elements."""
        size = self.dtype.itemsize
        return self.shape, tuple(stride * size for stride in packed_strides(self.shape)), self.dtype

    def traced(self, asked: Asked) -> Any:
        """The outputs, as Dask arrays, of a call that is given this one."""
        return _called(asked)


def _called(asked: Asked) -> Any:
    if asked.out is not None:
        raise fault("out", "is for calls on NumPy arrays; the result of this one is a Dask array")
    _known(asked)
    try:
        flat, kinds = taken_all(asked.tensors)
        level = (named("cpu") if asked.device is None else device_of(asked.device)).feature_level
        plan = plan_call(
            operator_of(asked.operator),
            level,
            tuple(kinds),
            keyed(asked.attributes),
            None,
            keyed(asked.output_sizes),
            keyed(asked.output_data_type),
        )
    except (BindingError, DescError) as error:
        raise explained(error, asked) from None
    return _Call(asked, plan, flat).outputs()


def _known(asked: Asked) -> None:
    """BindingError for arrays with chunks of unknown size, and for those that tasks cannot take."""
    fields = operator_of(asked.operator).spec.inputs
    faults = []
    for f, value in zip(fields, asked.tensors, strict=True):
        several = isinstance(value, (list, tuple))
        for k, x in enumerate(value if several else (value,)):
            if not isinstance(x, Lazy):
                continue
            name = f"{argument(f)}[{k}]" if several else argument(f)
            if unknown := [d for d, n in enumerate(x.shape) if n != n]:
                text = f"{name} has chunks of unknown size along dimension {unknown[0]}; its compute_chunk_sizes() finds them"
                faults.append(Fault(name, text))
            elif four_bit(x.dtype) is not None:
                faults.append(Fault(name, f"{name} has elements of 4 bits, which chunks of Dask arrays cannot have here"))
    if faults:
        raise BindingError(faults)


class _Call:
    """A call that is planned. sources: its inputs by the tensor's name."""

    def __init__(self, asked: Asked, plan: Plan, flat: Sequence[Any]) -> None:
        self.plan = plan
        self.device = None if asked.device is None else device_of(asked.device)
        self.desc: Desc = plan.checked.desc.as_newest()
        tensors = {found.name: found.desc for found in self.desc.tensors()}
        if any(t.data_type.element_bits < 8 for t in tensors.values()):
            raise UnsupportedError(f"{asked.operator.lower()}: chunks of elements of 4 bits are not computed alone")
        self.token = tokenize(
            asked.operator,
            [x.array.name if isinstance(x, Lazy) else x for x in flat],
            repr(plan.checked.desc),
            repr(self.device),
        )
        self.name = f"{asked.operator.lower()}-{self.token}"
        self.sources: dict[str, Source] = {}
        self.constants: dict[Any, Any] = {}
        self.arrays: list[Any] = []
        for i in plan.inputs:
            x = flat[i.place]
            if not of_graph(x):
                key = f"{i.name}-{self.token}"
                self.constants[key] = moved = np.ascontiguousarray(i.moved(x)).reshape(np.shape(i.moved(x)))
                self.sources[i.name] = Source(i, moved, key, tensors[i.name].sizes, False)
                continue
            if i.rounded:
                raise fault(i.name.removesuffix("_tensor"), "is float64, and must be converted to float32 first")
            self.arrays.append(x.array)
            self.sources[i.name] = Source(i, x.array, x.array.name, tensors[i.name].sizes, True)

    def outputs(self) -> Any:
        made = [
            None if o is None else [self._output(*x) for x in o] if isinstance(o, list) else self._output(*o)
            for o in self.plan.outputs
        ]
        return made[0] if len(made) == 1 else outputs_type(type(self.plan.checked.desc))(*made)

    def _output(self, output: str, tensor: Any, shape: tuple[int, ...]) -> Any:
        dtype = array_dtype(tensor.data_type)
        if self.plan.empty:
            return da.zeros(shape, dtype=dtype)
        name = self.name if len(self.plan.outputs) == 1 else f"{output.replace('_tensor', '')}-{self.name}"
        nest = meaning(self.desc)[output]
        try:
            reads = reads_of(nest)
        except UnsupportedError as error:
            raise UnsupportedError(f"{type(self.desc).spec.name.lower()} is not computed in chunks: {error}") from None
        chunks = {n: self.sources[n].chunks for n in reads}
        form = form_of(nest)
        cuts = [along(v, reads, chunks) for v in bound_by(form.reduction)] if form is not None else []
        natural = natural_chunks(nest, reads, chunks)
        added = len(natural) - len(shape)
        if form is not None and any(len(c) > 1 for c in cuts):
            graph = self._split(name, output, nest, reads, natural, form, cuts, added)
        else:
            graph = self._whole(name, output, nest, reads, natural, added)
        layers = HighLevelGraph.from_collections(name, {**graph, **self.constants}, dependencies=self.arrays)
        return da.Array(layers, name, natural[added:], dtype=dtype, meta=np.empty((0,) * len(shape), dtype))

    def _task(self, run: Any, reads: Mapping[str, Any], added: int = 0) -> tuple[Task, list[Any]]:
        gathers, keys = {}, []
        for n, need in reads.items():
            if need.beyond:
                continue
            gather, found = self.sources[n].gathered(need)
            gathers[n] = gather, len(found)
            keys += found
        return Task(run, gathers, self.device, added), keys

    def _ends(self, reads: Mapping[str, Reads]) -> dict[str, Any]:
        return {n: ends_of(self.sources[n].chunks) for n in reads}

    def _whole(
        self, name: str, output: str, nest: Nest, reads: Mapping[str, Reads], chunks: Chunks, added: int
    ) -> dict[Any, Any]:
        graph: dict[Any, Any] = {}
        rows, ends = rows_of(nest, reads), self._ends(reads)
        for place, window in _windows(chunks):
            chunk = piece(self.desc, output, window, nest, reads, rows, ends).chunk
            key = (name, *place[added:])
            graph[key] = self._task(chunk, chunk.reads, added)
        return graph

    def _split(
        self,
        name: str,
        output: str,
        nest: Nest,
        reads: Mapping[str, Reads],
        chunks: Chunks,
        form: Form,
        cuts: Sequence[tuple[int, ...]],
        added: int,
    ) -> dict[Any, Any]:
        graph: dict[Any, Any] = {}
        ends, bound = self._ends(reads), bound_by(form.reduction)
        part = Nest(nest.index, number(form.reduction))
        of_part, of_last = reads_of(part), reads_of(without_parts(nest, form))
        of = spelled(form.reduction)
        for place, window in _windows(chunks):
            keys: list[Any] = []
            for k, terms in _windows(cuts):
                ranges = ranges_of(part, window) | {v: range(t.start, t.stop) for v, t in zip(bound, terms, strict=True)}
                found = {n: needed(read, ranges, ends[n]) for n, read in of_part.items()}
                keys.append((f"part-{name}", *place, *k))
                graph[keys[-1]] = self._task(Partial(self.desc, output, window, terms, found), found)
            for level in range(len(keys)):
                if len(keys) <= TOGETHER:
                    break
                several = [keys[i : i + TOGETHER] for i in range(0, len(keys), TOGETHER)]
                keys = [(f"sum-{name}", *place, level, i) for i in range(len(several))]
                graph |= {key: (Combine(form.kind, of), each) for key, each in zip(keys, several, strict=True)}
            ranges = ranges_of(nest, window)
            found = {n: needed(read, ranges, ends[n]) for n, read in of_last.items()}
            task, blocks = self._task(Last(self.desc, output, window, found), found, added)
            key = (name, *place[added:])
            graph[key] = (task, keys, blocks)
        return graph


def _windows(chunks: Sequence[Sequence[int]]) -> list[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """The chunks in row-major order: the place of each and its window."""
    each = [list(enumerate(windows_of(c))) for c in chunks]
    return [(tuple(k for k, _ in found), tuple(w for _, w in found)) for found in product(*each)]
