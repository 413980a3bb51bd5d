"""SLICE1 as one copy between strided views."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.kernels.kernel import Arrays, Built, Execute, Kernel, takes_all
from anydml.operators.slice import Slice1
from anydml.spec.check import Checked


def _build(c: Checked[Any]) -> Built:
    d: Slice1 = c.desc
    window = []
    for start, stride, size in zip(d.start(), d.input_window_strides, d.output_tensor.sizes, strict=True):
        end = start + stride * size
        window.append(slice(start, None if end < 0 else end, stride) if size > 1 else slice(start, start + 1))
    window_of = tuple(window)
    bits = f"u{d.input_tensor.data_type.dtype.itemsize}"  # copied as integers, so that every NaN keeps its payload

    def bind(arrays: Arrays) -> Execute:
        source = arrays["input_tensor"].view(bits)[window_of]
        target = arrays["output_tensor"].view(bits)
        copyto = np.copyto
        return lambda: copyto(target, source)

    return Built(bind)


VIEW = Kernel("numpy:slice1:view", Slice1, takes_all, _build)
