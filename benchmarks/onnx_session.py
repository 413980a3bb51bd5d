"""A call of onnxruntime: a model of a few nodes, with bound inputs and outputs, so that nothing is copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
Node = tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]  # operator, inputs, outputs, attributes


def session(
    nodes: Sequence[Node],
    inputs: Arrays,
    outputs: Arrays,
    constants: Arrays | None = None,
    threads: int = 1,
    opset: int = 21,
) -> Callable[[], object] | None:
    """A call that reads the inputs and writes the outputs, or None if onnxruntime refuses the model.

    constants: initializers, which may be packed when the session is made. ImportError if onnxruntime is not installed.
    """
    import onnxruntime as ort
    from onnx import helper, numpy_helper
    from onnxruntime.capi import onnxruntime_pybind11_state as error

    def values(arrays: Arrays) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in arrays.items()
        ]

    graph = helper.make_graph(
        [helper.make_node(op, names, made, **attributes) for op, names, made, attributes in nodes],
        "benchmark",
        values(inputs),
        values(outputs),
        [numpy_helper.from_array(x, name) for name, x in (constants or {}).items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=10
    )
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4  # a refusal is a result here
    try:
        made = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except (error.Fail, error.InvalidArgument, error.InvalidGraph, error.NotImplemented):
        return None
    binding = made.io_binding()
    for name, x in inputs.items():
        binding.bind_cpu_input(name, x)
    for name, x in outputs.items():
        binding.bind_output(name, "cpu", 0, x.dtype.type, x.shape, x.ctypes.data)

    def call(keep: object = (inputs, outputs)) -> None:  # onnxruntime's binding only has the addresses of these arrays
        made.run_with_iobinding(binding)

    return call
