"""Sums of magnitudes, computed by compiled operators: by how much rounding may change an element at least, as numbers.

Where the terms of a sum cancel, its error is small beside the terms and large beside the sum. Of a product of matrices, the sum
of the magnitudes of an element's terms is the product of the matrices of magnitudes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.explain.compiled import compiled
from anydml.explain.slack import MARGIN, certain_terms
from anydml.functional.functions import reduce
from anydml.operators.batch_normalization import BatchNormalization
from anydml.operators.convolution import Convolution
from anydml.operators.gemm import Gemm
from anydml.operators.mean_variance_normalization import MeanVarianceNormalization2
from anydml.schema.operator import Desc
from anydml.schema.statement import Nest
from anydml.tensor import DataType, TensorDesc

Array = NDArray[Any]

OF_SCALED = 4  # roundings of a difference, a quotient (two) and a product
OF_FOLDED = 2  # units that the folded form allows of both products
PIECE = 1 << 16  # elements that are computed at once
LEAST = 2.0**-90  # smaller sums are not used, since some of their terms may have underflowed


def rooms(desc: Desc, nest: Nest, inputs: Mapping[str, Array], unit: float, at: Array) -> Array | None:
    """The least that the bounds of the elements at these row-major positions allow to either side; None if it is not known."""
    if getattr(desc, "fused_activation", None) is not None:
        return None
    if isinstance(desc, (Gemm, Convolution)):
        found, errors = _products(desc, inputs), certain_terms(nest.body) - 1
    elif isinstance(desc, MeanVarianceNormalization2) and desc.use_mean and desc.use_variance:
        found, errors = _normalised(desc, inputs), math.prod(desc.input_tensor.sizes[a] for a in desc.axes) - 1
    else:
        return None
    with np.errstate(all="ignore"):
        sizes = np.broadcast_to(found, desc.output_tensor.sizes).reshape(-1)[at]
        usable = np.isfinite(sizes) & (sizes > LEAST)
        return np.where(usable, sizes.astype(np.float64) * errors * unit * MARGIN, 0.0)


def _products(desc: Gemm | Convolution, inputs: Mapping[str, Array]) -> Array:
    """The sums of the terms' magnitudes."""
    changes: dict[str, Any]
    if isinstance(desc, Gemm):
        names, changes = ("a_tensor", "b_tensor"), {"c_tensor": None, "alpha": abs(desc.alpha), "beta": 0.0}
    else:
        names, changes = ("input_tensor", "filter_tensor"), {"bias_tensor": None}
    changes |= {name: TensorDesc(DataType.FLOAT32, getattr(desc, name).sizes) for name in (*names, "output_tensor")}
    made = np.empty(desc.output_tensor.sizes, np.float32)
    operator = compiled(replace(desc, **changes))
    operator.bind(**{name: np.abs(inputs[name].astype(np.float32)) for name in names}, output_tensor=made).execute()
    return made


def _normalised(desc: MeanVarianceNormalization2, inputs: Mapping[str, Array]) -> Array:
    """The mean magnitude of what is normalised, divided by a root at least as large as that of the variance, and scaled."""
    x = inputs["input_tensor"].astype(np.float32, copy=False)
    count = math.prod(x.shape[a] for a in desc.axes)
    size, square = (np.asarray(reduce(x, function=f, axes=desc.axes), np.float64) / count for f in ("L1", "SUM_SQUARE"))
    scale = inputs.get("scale_tensor")
    with np.errstate(all="ignore"):
        found: Array = size / np.sqrt(square + desc.epsilon) * (1 if scale is None else np.abs(scale.astype(np.float64)))
    return found


def batch_normalised(
    desc: BatchNormalization, inputs: Mapping[str, Array], unit: float, at: Array, actual: Array
) -> tuple[Array, Array]:
    """Masks of the elements at some positions that are certainly within the bounds of the operator, and of its folded form.

    at: row-major positions in increasing order. actual: all elements. Elements are computed in float64, whose errors `MARGIN`
    covers. Tiny ones are in neither mask.
    """
    sizes = desc.output_tensor.sizes
    names = ("mean", "variance", "scale", "bias")
    mean, variance, scale, bias = (inputs[f"{name}_tensor"].astype(np.float64) for name in names)
    image = np.broadcast_to(inputs["input_tensor"], sizes)
    row = sizes[-1] * sizes[-2]
    masks = np.empty((2, len(at)), np.bool_)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + desc.epsilon)
        plain = all(x.shape[-2:] == (1, 1) for x in (factor, mean, bias))
        lead = [np.broadcast_to(x, (*sizes[:-2], *x.shape[-2:])).reshape(-1, *x.shape[-2:]) for x in (factor, mean, bias)]
        rows, values = image.reshape(-1, row), actual.reshape(-1, row)
        step = max(1, PIECE // row)
        ends = np.searchsorted(at, np.arange(0, len(rows) + step, step) * row)
        for first, begin, end in zip(range(0, len(rows), step), ends, ends[1:], strict=False):
            if begin == end:
                continue
            part = slice(first, first + step)
            given = [
                x[part].reshape(-1, 1) if plain else np.broadcast_to(x[part], (len(x[part]), *sizes[-2:])).reshape(-1, row)
                for x in lead
            ]
            near = _normalised_rows(rows[part].astype(np.float64), values[part], given, unit)
            here = at[begin:end] - first * row
            masks[:, begin:end] = near[:, here]
    return masks[0], masks[1]


def _normalised_rows(x: Array, actual: Array, parameters: list[Array], unit: float) -> Array:
    """Both masks of some rows of elements, each row merged into one dimension. parameters: factors, means and biases."""
    factor, mean, bias = parameters
    products = np.abs(x)
    products += np.abs(mean)
    products *= np.abs(factor)
    x -= mean
    x *= factor
    scaled = np.abs(x)
    x += bias
    away = np.abs(actual - x)
    np.abs(x, out=x)
    known = (scaled > LEAST) & (x > LEAST) & (products < np.inf)
    scaled *= OF_SCALED
    scaled += x
    scaled *= unit * MARGIN
    own = away <= scaled
    products *= OF_FOLDED * unit * MARGIN
    products += scaled
    return np.stack([(known & own).reshape(-1), (known & (away <= products)).reshape(-1)])
