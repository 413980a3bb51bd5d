"""Tracing: eager functions, called on tensors of a graph, become its nodes.

A call that is given such a tensor hands its arguments to the graph. The plan of the call needs only the layouts of its tensors.
It has the node's desc, and says which argument each input is; arguments that are arrays become constants.
"""

from __future__ import annotations

import linecache
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from anydml.devices.device import named
from anydml.devices.views import bytes_of
from anydml.errors import PACKAGE, BindingError, DescError, Error, Fault
from anydml.feature_level import FeatureLevel
from anydml.functional.call import call, explained
from anydml.functional.inference import outputs_type
from anydml.functional.keys import Asked, keyed, of_graph, taken_all
from anydml.functional.plan import Plan
from anydml.functional.planning import plan_call
from anydml.functional.run import Signature, operator_of
from anydml.graphs.desc import ConstantNode, InputEdge, IntermediateEdge, OperatorNode, tensor_names
from anydml.int4_tensors import array_dtype, pack
from anydml.kernels.call.address import address_of
from anydml.schema.operator import Desc
from anydml.tensor import DataType, TensorDesc, as_data_type, four_bit, integers, packed_strides


class GraphTensor:
    """A tensor of a graph that is being built. It has sizes and a data type, but no values; eager functions take it.

    name: the name of the input, or of the operator that computes it.
    """

    __array_ufunc__ = None  # NumPy's operators then return NotImplemented

    def __init__(self, building: Building, name: str, tensor: TensorDesc, source: tuple[int | None, int]) -> None:
        self.name, self.tensor = name, tensor
        self._building, self._source = building, source

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.tensor.sizes

    shape = sizes

    @property
    def ndim(self) -> int:
        return len(self.tensor.sizes)

    @property
    def size(self) -> int:
        return math.prod(self.tensor.sizes)

    @property
    def data_type(self) -> Any:
        return self.tensor.data_type

    @property
    def dtype(self) -> np.dtype[Any]:
        return array_dtype(self.tensor.data_type)

    @property
    def layout(self) -> Signature:
        """The layout of an array with these elements."""
        size = self.dtype.itemsize
        return self.sizes, tuple(stride * size for stride in self.tensor.explicit_strides), self.dtype

    def __repr__(self) -> str:
        return f"<GraphTensor {self.name}: {self.data_type} {self.sizes}>"

    def traced(self, asked: Asked) -> Any:
        """The outputs, as tensors of the graph, of an eager call that is given this tensor."""
        for name, value, why in (
            ("out", asked.out, "a graph has no arrays"),
            ("device", asked.device, "a graph is compiled for one"),
        ):
            if value is not None:
                error = BindingError([Fault(name, f"{name} is for calls on arrays, and {self!r} is not an array: {why}")])
                error.where = _line()
                raise error from None
        return self._building.call(asked)

    def reshape(self, *sizes: int | Sequence[int]) -> GraphTensor:
        """The same elements in order with other sizes, one of which may be -1. A packed tensor is not copied."""
        wanted = _each(sizes)
        if wanted.count(-1) == 1 and (known := -math.prod(wanted)):
            wanted = tuple(self.size // known if n == -1 else n for n in wanted)
        if math.prod(wanted) != self.size or min(wanted, default=1) < 0:
            raise ValueError(f"{self!r} cannot be reshaped to {_each(sizes)}: the numbers of elements differ")
        return self.packed()._lying(self.data_type, wanted, None)

    def transpose(self, *axes: int | Sequence[int]) -> GraphTensor:
        """The same tensor with its dimensions in another order, by default reversed. Only the strides change."""
        order = _each(axes) if axes else tuple(range(self.ndim))[::-1]
        if sorted(a % self.ndim for a in order if -self.ndim <= a < self.ndim) != [*range(self.ndim)]:
            raise ValueError(f"{self!r} cannot be transposed by {order}, which is not an order of {self.ndim} dimensions")
        strides = self.tensor.explicit_strides
        return self._lying(self.data_type, tuple(self.sizes[a] for a in order), tuple(strides[a] for a in order))

    @property
    def T(self) -> GraphTensor:
        """The tensor with its dimensions reversed."""
        return self.transpose()

    def broadcast_to(self, sizes: Sequence[int]) -> GraphTensor:
        """The same tensor broadcast as NumPy does, by strides of 0; nothing is copied."""
        wanted, more = tuple(sizes), len(sizes) - self.ndim
        if more < 0 or any(n not in (1, m) for n, m in zip(self.sizes, wanted[max(more, 0) :], strict=False)):
            raise ValueError(f"{self!r} does not broadcast to {wanted}")
        own = zip(self.sizes, wanted[more:], self.tensor.explicit_strides, strict=True)
        return self._lying(self.data_type, wanted, (0,) * more + tuple(s if n == m else 0 for n, m, s in own))

    def view(self, data_type: Any) -> GraphTensor:
        """The same bits as elements of another data type of the same size; nothing is copied."""
        other = as_data_type(data_type)
        if other.element_bits != self.data_type.element_bits:
            raise ValueError(f"{self!r} has no view of {other}, whose elements have another size")
        return self._lying(other, self.sizes, self.tensor.strides)

    def constant(self, x: NDArray[Any]) -> GraphTensor:
        """An array, as a constant of this tensor's graph: what is computed from it is a part of the graph, too."""
        return self._building.constant(x)

    def packed(self) -> GraphTensor:
        """The tensor in row-major order without gaps: itself if it is packed, else the output of an operator that copies it."""
        if self.tensor.explicit_strides == packed_strides(self.sizes):
            return self
        copy: GraphTensor = call("ELEMENT_WISE_IDENTITY", (self,), (None,))
        return copy

    def _lying(self, data_type: Any, sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> GraphTensor:
        packed = packed_strides(sizes)
        if strides is not None:  # the stride of a dimension of size 1 has no effect
            strides = tuple(p if n == 1 else s for n, s, p in zip(sizes, strides, packed, strict=True))
        tensor = TensorDesc(
            data_type,
            sizes,
            strides=None if strides == packed else strides,
            flags=self.tensor.flags,
            total_tensor_size_in_bytes=self.tensor.total,
        )
        return GraphTensor(self._building, self.name, tensor, self._source)

    def _has_no_values(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{self!r} has no values while the graph is built")

    def _has_no_operator(self, *_: Any) -> NoReturn:
        raise TypeError(f"{self!r} has no operators; functions compute, such as dml.element_wise_add")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _has_no_operator
    __matmul__ = __rmatmul__ = __pow__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _has_no_operator

    __array__ = __bool__ = __float__ = __int__ = __index__ = __iter__ = __len__ = __getitem__ = _has_no_values


def _each(values: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """Numbers that are given one by one or in a sequence."""
    given: Any = values[0] if len(values) == 1 and not hasattr(values[0], "__index__") else values
    return integers(given, "the argument")


def _planned(asked: Asked, kinds: tuple[Any, ...]) -> Plan:
    """The plan of a call at the newest feature level, or at EXTENDED: the device that compiles the graph decides."""
    rest = keyed(asked.attributes), None, keyed(asked.output_sizes), keyed(asked.output_data_type)
    operator = operator_of(asked.operator)
    try:
        return plan_call(operator, FeatureLevel.FL_6_4, kinds, *rest)
    except (BindingError, DescError):
        with suppress(BindingError, DescError):
            return plan_call(operator, FeatureLevel.EXTENDED, kinds, *rest)
        raise


class Building:
    """A graph that is being built: its nodes and edges so far."""

    def __init__(self, where: Callable[[], str] | None = None) -> None:
        """where: gives the place of the current call, for messages; by default the line of Python that made it."""
        self._where = where or _line
        self.nodes: list[OperatorNode | ConstantNode] = []
        self.input_edges: list[InputEdge] = []
        self.intermediate_edges: list[IntermediateEdge] = []
        self.named: dict[str, NDArray[Any]] = {}  # arrays that constants are named after, set before the first call
        self._bounds: tuple[list[str], NDArray[np.int64]] | None = None
        self._constants: dict[tuple[int, int], tuple[int, ConstantNode, NDArray[Any]]] = {}
        self._counts: dict[str, int] = {}

    def call(self, asked: Asked) -> Any:
        """The outputs of an eager call as tensors of the graph."""
        where = self._where()
        asked = asked._replace(device=named("reference"))  # of the newest feature level
        try:
            for value in asked.tensors:
                for t in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(t, GraphTensor):
                        self._take(t)
            try:
                flat, kinds = taken_all(asked.tensors)
                plan = _planned(asked, tuple(kinds))
                constants = {i.name: i.view(i.moved(x)) for i in plan.inputs if not of_graph(x := flat[i.place])}
            except (BindingError, DescError) as error:
                raise explained(error, asked) from None
            return self._added(plan, flat, constants, where)
        except Error as error:
            error.where = where
            raise error from None

    def _take(self, t: GraphTensor) -> None:
        if t._building is not self:
            raise BindingError([Fault("", f"{t!r} is a tensor of another graph")])
        if t.data_type.element_bits < 8 and t.tensor.explicit_strides != packed_strides(t.sizes):
            raise BindingError([Fault("", f"a {t.data_type} tensor is traced only if packed; a GraphDesc takes other strides")])

    def _added(self, plan: Plan, flat: Sequence[Any], constants: Mapping[str, NDArray[Any]], where: str) -> Any:
        if plan.empty:
            raise BindingError([Fault("", "the outputs have no elements, and an operator of a graph computes at least one")])
        desc = plan.checked.desc
        sources: dict[str, GraphTensor] = {i.name: flat[i.place] for i in plan.inputs if i.name not in constants}
        for i in plan.inputs:
            if i.rounded and i.name in sources:
                raise BindingError(
                    [Fault("", f"{sources[i.name]!r} would be converted, but has no values while the graph is built")]
                )
        tensors = {found.name: found.desc for found in desc.tensors()}
        changed = {name: _as_in_graph(tensors[name], t.tensor) for name, t in sources.items()}
        changed = {name: t for name, t in changed.items() if t is not tensors[name]}
        node = len(self.nodes)
        self.nodes.append(
            OperatorNode(desc.with_tensors(changed) if changed else desc, self._name(desc.spec.name.lower()), where)
        )
        slots = {name: slot for slot, name in enumerate(tensor_names(desc, "input"))}
        for i in plan.inputs:
            if (source := sources.get(i.name)) is None:
                constant = self.constant_of(constants[i.name], tensors[i.name])
                self.intermediate_edges.append(IntermediateEdge(constant, 0, node, slots[i.name]))
            elif source._source[0] is None:
                self.input_edges.append(InputEdge(source._source[1], node, slots[i.name], source.name))
            else:
                self.intermediate_edges.append(IntermediateEdge(source._source[0], source._source[1], node, slots[i.name]))
        return self._results(node, desc, plan.outputs)

    def _results(self, node: int, desc: Desc, outputs: Sequence[Any]) -> Any:
        slots = tensor_names(desc, "output")
        several = len([s for s in slots if s]) > 1
        places = {name: slot for slot, name in enumerate(slots)}

        def result(one: Any) -> Any:
            if one is None or isinstance(one, list):
                return one and [result(x) for x in one]
            name, desc, shape = one
            title = self.nodes[node].name + (f".{name.replace('_tensor', '')}" if several else "")
            return GraphTensor(self, title, replace(desc, sizes=shape, strides=None), (node, places[name]))

        made = tuple(map(result, outputs))
        return made[0] if len(made) == 1 else outputs_type(type(desc))(*made)

    def _name(self, operator: str) -> str:
        self._counts[operator] = count = self._counts.get(operator, 0) + 1
        return operator if count == 1 else f"{operator}_{count}"

    def constant(self, x: NDArray[Any]) -> GraphTensor:
        """An array as a tensor of the graph."""
        data_type = four_bit(x.dtype)
        tensor = TensorDesc(DataType.of(x.dtype) if data_type is None else data_type, x.shape)
        node = self.constant_of(np.ascontiguousarray(x) if data_type is None else pack(x), tensor)
        return GraphTensor(self, self.nodes[node].name, tensor, (node, 0))

    def constant_of(self, x: NDArray[Any], tensor: TensorDesc) -> int:
        """The node of a constant. An array that several calls read gets one node."""
        data = bytes_of(x, tensor)
        key = address_of(x), data.nbytes
        if key in self._constants:
            at, constant, _ = self._constants[key]
            if np.array_equal(constant.data[: data.nbytes], data):
                return at
        self.nodes.append(constant := ConstantNode(data, self._named_after(x)))
        self._constants[key] = len(self.nodes) - 1, constant, x  # x is kept, so that no other array gets its address
        return len(self.nodes) - 1

    def _named_after(self, x: NDArray[Any]) -> str:
        """The name of the first named array whose memory contains the start of this one, or an empty string."""
        if self._bounds is None:
            bounds = [np.lib.array_utils.byte_bounds(array) for array in self.named.values()]
            self._bounds = [*self.named], np.array(bounds, np.int64).reshape(-1, 2).T
        names, (low, high) = self._bounds
        found = np.flatnonzero((low <= address_of(x)) & (address_of(x) < high))
        return names[found[0]] if found.size else ""


def _as_in_graph(asked: TensorDesc, t: TensorDesc) -> TensorDesc:
    """The tensor of a call's desc, with the total size and the flags of the graph's tensor."""
    if asked.total == t.total and asked.flags == t.flags:
        return asked
    given = t.total if asked.total != t.total else asked.total_tensor_size_in_bytes
    return replace(asked, total_tensor_size_in_bytes=given, flags=t.flags)


def _line() -> str:
    """The line of the program that called the package, for messages."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    file, number = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, number).strip()
    return f"{os.path.basename(file)}:{number}" + (f": {text}" if text else "")
