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
FLOAT_MARGIN = 1 - 2.0**-5  # for the errors of float32 in bounds
LEAST = 2.0**-90  # smaller sums are not used, since some of their terms may have underflowed


def rooms(desc: Desc, nest: Nest, inputs: Mapping[str, Array], unit: float, at: Array) -> Array | None:
    """The least that the bounds of the elements at these row-major positions allow to either side; None if it is not known."""
    if getattr(desc, "fused_activation", None) is not None:
        return None
    if isinstance(desc, (Gemm, Convolution)):
        found, errors = _products(desc, inputs), certain_terms(nest.body) - 1
    elif isinstance(desc, MeanVarianceNormalization2) and desc.use_mean and desc.use_variance:
        found, errors = _normalised_by_rows(desc, inputs), math.prod(desc.input_tensor.sizes[a] for a in desc.axes) - 1
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


def _normalised_by_rows(desc: MeanVarianceNormalization2, inputs: Mapping[str, Array]) -> Array:
    """The mean magnitude of what is normalised, divided by a root at least as large as that of the variance, and scaled."""
    x = inputs["input_tensor"].astype(np.float32, copy=False)
    count = math.prod(x.shape[a] for a in desc.axes)
    size, square = (np.asarray(reduce(x, function=f, axes=desc.axes), np.float64) / count for f in ("L1", "SUM_SQUARE"))
    scale = inputs.get("scale_tensor")
    with np.errstate(all="ignore"):
        found: Array = size / np.sqrt(square + desc.epsilon) * (1 if scale is None else np.abs(scale.astype(np.float64)))
    return found


def batch_normalised(
    desc: BatchNormalization, inputs: Mapping[str, Array], unit: float, at: Array, expected: Array, actual: Array
) -> tuple[Array, Array]:
    """Masks of the elements at some positions that are certainly within the bounds of the operator, and of its folded form.

    at: row-major positions in increasing order. expected: all elements, rounded once. actual: all elements. Elements are
    computed in float64, whose errors `MARGIN` covers, where float32 does not tell. Tiny ones are in neither mask.
    """
    sizes = desc.output_tensor.sizes
    names = ("mean", "variance", "scale", "bias")
    mean, variance, scale, bias = (inputs[f"{name}_tensor"].astype(np.float64) for name in names)
    row = sizes[-1] * sizes[-2]
    image, results = (np.broadcast_to(x, sizes).reshape(-1, row) for x in (inputs["input_tensor"], actual))
    exact = expected.reshape(-1, row)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + desc.epsilon)
        plain = all(x.shape[-2:] == (1, 1) for x in (factor, mean, bias))
        last = (1, 1) if plain else sizes[-2:]
        parameters = [np.broadcast_to(x, (*sizes[:-2], *last)).reshape(len(image), -1) for x in (factor, mean, bias)]
        own = _certainly_normalised(image, exact, results, parameters[:2], unit, at)
        folded = own.copy()
        rest = np.flatnonzero(~own)
        for begin in range(0, len(rest), PIECE):
            here = rest[begin : begin + PIECE]
            places = at[here]
            given = [x.reshape(-1)[places // row if plain else places] for x in parameters]
            x, result = (t.reshape(-1)[places].astype(np.float64) for t in (image, results))
            own[here], folded[here] = _normalised(x, result, given, unit)
    return own, folded


def _certainly_normalised(image: Array, exact: Array, actual: Array, parameters: list[Array], unit: float, at: Array) -> Array:
    """A mask of the elements at some positions that are within the operator's bounds with a margin for errors of float32.

    parameters: factors and means, for each row of elements or for each element.
    """
    factor, mean = (x.astype(np.float32) for x in parameters)
    factor = np.abs(factor)
    factor[factor < LEAST] = 0
    row, own = image.shape[1], np.empty(len(at), np.bool_)
    allowed = np.float32(unit * FLOAT_MARGIN)
    wide = np.float32(float(np.finfo(exact.dtype).eps) / 2 - unit * FLOAT_MARGIN)  # of the element: how far off `exact` may be
    step = max(1, PIECE // row)
    ends = np.searchsorted(at, np.arange(0, len(image) + step, step) * row)
    for first, begin, end in zip(range(0, len(image), step), ends, ends[1:], strict=False):
        if begin == end:
            continue
        part = slice(first, first + step)
        scaled = np.subtract(image[part], mean[part], dtype=np.float32)
        np.abs(scaled, out=scaled)
        scaled *= factor[part]
        known = scaled > np.float32(LEAST)
        known &= scaled < np.inf
        away = np.subtract(actual[part], exact[part], dtype=np.float32)
        np.abs(away, out=away)
        scaled *= OF_SCALED * allowed
        size = np.abs(exact[part], dtype=np.float32)
        known &= size > np.float32(LEAST)
        size *= wide
        away += size
        known &= away <= scaled
        own[begin:end] = known.reshape(-1)[at[begin:end] - first * row]
    return own


def _normalised(x: Array, actual: Array, parameters: list[Array], unit: float) -> tuple[Array, Array]:
    """Both masks of some elements, with their factors, means and biases."""
    factor, mean, bias = parameters
    products = (np.abs(x) + np.abs(mean)) * np.abs(factor)
    scaled = (x - mean) * factor
    x = scaled + bias
    away = np.abs(actual - x)
    x, scaled = np.abs(x), np.abs(scaled)
    known = (scaled > LEAST) & (x > LEAST) & (products < np.inf)
    allowed = (OF_SCALED * scaled + x) * unit * MARGIN
    return known & (away <= allowed), known & (away <= allowed + OF_FOLDED * unit * MARGIN * products)
