"""CONVOLUTION, forward and transposed."""

from __future__ import annotations

from itertools import product

import numpy as np

from .activation import Attributes, Inputs, Outputs, Results, activation
from .arithmetic import add
from .numbers import Value, stored, values
from .sums import products, scale


def convolution(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    """Each output is the sum of all products of an input element and a filter element that contribute to it; padding has no
    terms."""
    image, filters = inputs["input_tensor"], inputs["filter_tensor"]
    sizes, dtype = outputs["output_tensor"]
    strides, dilations, start = (attributes[name] for name in ("strides", "dilations", "start_padding"))
    padding = attributes.get("output_padding") or (0,) * len(strides)
    backward = attributes["direction"] == "BACKWARD"
    group_count = attributes["group_count"]
    if attributes["mode"] == "CONVOLUTION":
        filters = np.flip(filters, tuple(range(2, filters.ndim)))
    batches, channels, *spatial = image.shape
    taps = filters.shape[2:]
    out_channels, *out_spatial = sizes[1:]
    in_each, out_each = channels // group_count, out_channels // group_count
    x, f = scale(image), scale(filters)
    bias: list[Value] = [] if inputs.get("bias_tensor") is None else values(inputs["bias_tensor"])
    activate = activation(attributes.get("fused_activation"))

    def position(axis: int, o: int, k: int) -> int | None:
        """The index of the input element that output o multiplies by filter element k; None if there is none."""
        if o >= out_spatial[axis] - padding[axis]:
            return None
        if backward:
            at, rest = divmod(o + start[axis] - k * dilations[axis], strides[axis])
            if rest:
                return None
        else:
            at = o * strides[axis] + k * dilations[axis] - start[axis]
        return at if 0 <= at < spatial[axis] else None

    results: dict[tuple[int, ...], Value] = {}
    for out in product(*map(range, out_spatial)):
        along = [[(at, k) for k in range(taps[axis]) if (at := position(axis, o, k)) is not None] for axis, o in enumerate(out)]
        meeting = list(product(*along))
        places = tuple([place[axis][0] for place in meeting] for axis in range(len(out)))
        tap = tuple([place[axis][1] for place in meeting] for axis in range(len(out)))
        for group in range(group_count):
            into = slice(group * in_each, (group + 1) * in_each)
            outward = slice(group * out_each, (group + 1) * out_each)
            rows = x.apply(slice(None), into, *places).reshape(batches, in_each * len(meeting))
            if backward:  # filters are [input channel, output channel of the group, elements]
                columns = f.apply(into, slice(None), *tap).swap().reshape(out_each, in_each * len(meeting))
            else:
                columns = f.apply(outward, slice(None), *tap).reshape(out_each, in_each * len(meeting))
            sums = iter(products(rows, columns))
            for n, m in product(range(batches), range(group * out_each, (group + 1) * out_each)):
                total = next(sums)
                here = (n, m, *out)
                results[here] = activate(add(total, bias[m]) if bias else total)
    return {"output_tensor": stored((results[at] for at in product(*map(range, sizes))), sizes, dtype)}


OPERATORS = {"CONVOLUTION": convolution}
