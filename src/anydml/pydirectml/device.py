"""The device of the binding, and graphs compiled for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anydml.devices.compiled import CompiledOperator
from anydml.devices.device import Device as Compiling
from anydml.devices.device import ExecutionFlags, named
from anydml.errors import Error
from anydml.graphs.desc import GraphDesc
from anydml.pydirectml.tensors import Binding, TensorData, read_back
from anydml.tensor import TensorFlags

if TYPE_CHECKING:
    from anydml.pydirectml.expressions import Expression


class Model:
    """A compiled graph, made by `GraphBuilder.build`."""

    def __init__(self, device: Compiling, desc: GraphDesc, inputs: Sequence[int], flags: ExecutionFlags) -> None:
        self._device, self._desc, self._inputs, self._flags = device, desc, inputs, flags
        self._compiled = self._compile()
        self._owned: list[Binding] | None = None  # what it was initialized with

    def _compile(self) -> CompiledOperator:
        return self._device.compile(self._desc, flags=self._flags)

    def run(self, bindings: Mapping[int, Binding], outputs: Sequence[Expression]) -> list[TensorData]:
        """The outputs for bindings by graph input. ValueError for a missing binding, or a wrong number of outputs."""
        count = self._desc.counts[1]
        if len(outputs) != count:
            raise ValueError(f"{len(outputs)} outputs are asked for, and the model was built with {count}")
        if missing := [index for index in self._inputs if index not in bindings]:
            raise ValueError(f"no binding is given for input {missing[0]} of the model")
        given = {f"input_{k}": bindings[index] for k, index in enumerate(self._inputs)}
        owned = {name: b for name, b in given.items() if b.desc.flags & TensorFlags.OWNED_BY_DML}
        if owned and (self._owned is None or any(a is not b for a, b in zip(self._owned, owned.values(), strict=True))):
            if self._owned is not None:  # a compiled operator is initialized once
                self._compiled = self._compile()
            self._compiled.initialize(**{name: b.bytes for name, b in owned.items()})
            self._owned = list(owned.values())
        descs = [x.get_output_desc() for x in outputs]
        found: dict[str, NDArray[np.uint8]] = {
            f"output_{k}": np.zeros(desc.total_tensor_size_in_bytes, np.uint8) for k, desc in enumerate(descs)
        }
        self._compiled.bind(**{name: b.bytes for name, b in given.items() if name not in owned}, **found).execute()
        return [read_back(desc, data) for desc, data in zip(descs, found.values(), strict=True)]


class Device:
    """anydml's cpu device, whatever `use_gpu` is: results are the same bits on every device.

    use_debug_layer: errors in operators and graphs are also printed to standard error before they are raised.
    """

    def __init__(self, use_gpu: bool = True, use_debug_layer: bool = False) -> None:
        self.use_gpu, self.use_debug_layer = bool(use_gpu), bool(use_debug_layer)
        self.cpu = named("cpu")

    def __repr__(self) -> str:
        return f"dml.Device on {'GPU' if self.use_gpu else 'CPU'}"

    def explain(self, error: Error) -> None:
        """Print an error if there is a debug layer."""
        if self.use_debug_layer:
            print(error, file=sys.stderr)

    def compute(self, model: Model, inputs: Sequence[Binding | None], outputs: Sequence[Expression]) -> list[TensorData]:
        """The outputs of a model, as new arrays. inputs: bindings, each for the input whose expression it was made with.

        Inputs that are OWNED_BY_DML are copied and packed again only if their bindings have changed since the last call.
        """
        bindings = {b.index: b for b in inputs if b is not None}
        return model.run(bindings, outputs)
