"""Another runtime, LiteRT, and random inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anydml.devices.device import Device
from anydml.errors import Error
from anydml.fork_safety import guard
from anydml.onnx.values import Array
from anydml.tflite.model import Model, load


class RuntimeFailed(Error):
    """The other runtime does not run a model. The message is its own."""


def litert(model: bytes, inputs: Mapping[str, Array], *, reference: bool = False) -> dict[str, Array]:
    """The tensors of a model by their numbers as text, computed by LiteRT (TensorFlow Lite) from the package ai-edge-litert.

    reference: its reference kernels, instead of those that it takes by default. RuntimeFailed if it does not run the model.
    """
    with guard:
        try:
            from ai_edge_litert.interpreter import Interpreter, OpResolverType
        except ModuleNotFoundError:
            raise RuntimeFailed("LiteRT is not installed: `pip install ai-edge-litert`") from None
    kernels = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    names = {t.name: t.number for t in load(model).read.tensors}
    try:
        interpreter = Interpreter(
            model_content=model, experimental_preserve_all_tensors=True, experimental_op_resolver_type=kernels
        )
        for name, x in inputs.items():
            interpreter.resize_tensor_input(names[name], x.shape)
        interpreter.allocate_tensors()
        for name, x in inputs.items():
            interpreter.set_tensor(names[name], x)
        interpreter.invoke()
    except (ValueError, RuntimeError) as error:
        raise RuntimeFailed(f"LiteRT does not run the model: {error}") from None
    found: dict[str, Array] = {}
    for details in interpreter.get_tensor_details():
        try:
            found[str(details["index"])] = interpreter.get_tensor(details["index"])
        except ValueError:  # it has no memory for tensors that it does not need
            continue
    return found


def on_device(device: Device) -> Callable[[bytes, Mapping[str, Array]], dict[str, Array]]:
    """A device of anydml's own, such as "opencl", as a runtime. Outputs are those of a run that keeps no other tensor."""

    def run(model: bytes, inputs: Mapping[str, Array]) -> dict[str, Array]:
        read = load(model)
        return {**read.run(inputs, device=device, keep="all"), **read.run(inputs, device=device)}

    return run


def drawn(model: Model, seed: int) -> dict[str, Any]:
    """Random inputs: normally distributed floats, integers of the whole range if they have a scale, others from 0 to 7."""
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for name, signature in model.inputs.items():
        sizes, dtype = model.tensors[name].sizes, signature.dtype
        if dtype.kind == "f":
            found[name] = random.standard_normal(sizes).astype(dtype)
        elif dtype == np.bool_:
            found[name] = random.integers(0, 2, sizes).astype(np.bool_)
        elif signature.quantisation is not None:
            limits = np.iinfo(dtype)
            found[name] = random.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
        else:
            found[name] = random.integers(0, 8, sizes).astype(dtype)
    return found
