"""`Model.bind`: a model's graph, bound to named arrays that are read and written at each run, caches in place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from anydml.devices.device import Device
from anydml.errors import BindingError, Fault
from anydml.functional.graph import Graph, compiled_on
from anydml.int4_tensors import array_dtype
from anydml.onnx.values import Array


class BoundModel:
    """A model bound to arrays, made by `Model.bind`. arrays: of all inputs and outputs, by name.

    Each `run` reads the inputs and writes the outputs anew. A second thread waits for the first.
    """

    def __init__(self, graph: Graph, given: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]], device: Device) -> None:
        tensors = {**graph.inputs, **graph.outputs}
        self.arrays: dict[str, Array] = {}
        faults = []
        if unknown := given.keys() - tensors.keys():
            faults += [Fault(name, "is neither an input nor an output of the model's graph") for name in sorted(unknown)]
        for name, t in tensors.items():
            array = given.get(name)
            if array is None:
                if name in graph.inputs:
                    faults.append(Fault(name, "is an input of the model, and was not given"))
                    continue
                array = np.empty(shapes[name], array_dtype(t.data_type))
            elif name in graph.outputs and tuple(array.shape) != shapes[name]:
                faults.append(Fault(name, f"has sizes {array.shape}, and the model computes {shapes[name]}"))
            elif not array.flags.c_contiguous:
                faults.append(Fault(name, "is not contiguous, and is bound as it is"))
            self.arrays[name] = array
        if faults:
            raise BindingError(faults)
        views = {name: self.arrays[name].reshape(t.sizes) for name, t in tensors.items()}
        views = {name: x.view(np.uint8) if x.dtype == np.bool_ else x for name, x in views.items()}
        self._outputs = [*graph.outputs]
        self._bound = compiled_on(device, graph).bind(**views)

    def run(self) -> dict[str, Array]:
        """Compute the outputs from what the inputs hold now; the outputs by name, which are the bound arrays."""
        self._bound.execute()
        return {name: self.arrays[name] for name in self._outputs}
