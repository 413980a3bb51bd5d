"""Calls of operators on arrays that are cut into random chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from anydml import operators
from anydml.functional.call import call
from anydml.schema.desc import Desc

Array = NDArray[Any]


class Case(NamedTuple):
    """A call: the function's name, its arrays, and its other arguments."""

    function: str
    arrays: tuple[Any, ...]
    arguments: Mapping[str, Any]


def _floats(rng: np.random.Generator, *sizes: int) -> Array:
    return rng.normal(size=sizes).astype(np.float32)


def _spread(rng: np.random.Generator, *sizes: int) -> Array:
    """Floats of many magnitudes, so that sums cancel, with some infinities, NaNs and zeros of both signs."""
    x = np.ldexp(rng.normal(size=sizes), rng.integers(-60, 60, sizes)).astype(np.float32)
    x[rng.random(sizes) < 0.1] = 0
    x[rng.random(sizes) < 0.1] *= -1
    if rng.random() < 0.3:
        x[rng.random(sizes) < 0.01] = rng.choice([np.inf, -np.inf, np.nan])
    return x


def _bytes(rng: np.random.Generator, kind: str, *sizes: int) -> Array:
    return rng.integers(0, 256, sizes, dtype=np.uint8).view(kind)


def _padded(rng: np.random.Generator) -> Mapping[str, Any]:
    mode = str(rng.choice(["CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP"]))
    start, end = (tuple(int(n) for n in rng.integers(0, 7, 4) % (1, 2, 7, 8)) for _ in range(2))
    return {"padding_mode": mode, "start_padding": start, "end_padding": end, "padding_value": 1.5}


def _sliced(rng: np.random.Generator, sizes: Sequence[int]) -> Mapping[str, Any]:
    offsets = [int(rng.integers(n)) for n in sizes]
    within = [int(rng.integers(1, n - o + 1)) for n, o in zip(sizes, offsets, strict=True)]
    strides = [int(rng.integers(1, 4) * rng.choice([-1, 1])) for _ in sizes]
    return {"input_window_offsets": offsets, "input_window_sizes": within, "input_window_strides": strides}


def _padding(rng: np.random.Generator, window: Sequence[int]) -> Mapping[str, Any]:
    start, end = (tuple(int(rng.integers(n)) for n in window) for _ in range(2))
    return {"start_padding": start, "end_padding": end}


def _taken(rng: np.random.Generator, sizes: Sequence[int]) -> Mapping[str, Any]:
    offsets = [int(rng.integers(n)) for n in sizes]
    strides = [int(rng.integers(1, 4)) for _ in sizes]
    taken = [int(rng.integers(1, 2 + (n - 1 - o) // s)) for n, o, s in zip(sizes, offsets, strides, strict=True)]
    return {"offsets": offsets, "sizes": taken, "strides": strides}


def _window(rng: np.random.Generator) -> Mapping[str, Any]:
    size = tuple(map(int, rng.integers(1, 6, 2)))
    return {"window_size": size, "strides": tuple(map(int, rng.integers(1, 4, 2))), **_padding(rng, size)}


def _reduced(rng: np.random.Generator, kind: str) -> Case:
    x = _spread(rng, 5, 6, 7) if kind == "float32" else rng.integers(-9, 9, (5, 6, 7)).astype(kind)
    functions = ["SUM", "MAX", "MIN", "ARGMAX", "ARGMIN"]
    if kind == "float32":
        functions += ["AVERAGE", "L1", "L2", "SUM_SQUARE", "LOG_SUM", "LOG_SUM_EXP", "MULTIPLY"]
    axes = [d for d in range(3) if rng.random() < 0.6] or [1]
    return Case("reduce", (x,), {"function": str(rng.choice(functions)), "axes": axes})


def _convolved(rng: np.random.Generator) -> Case:
    groups = int(rng.choice([1, 2]))
    k = tuple(map(int, rng.integers(1, 5, 2)))
    x, f = _floats(rng, 2, 4, 9, 11), _floats(rng, 4, 4 // groups, *k)
    options = {"strides": tuple(map(int, rng.integers(1, 4, 2))), "dilations": tuple(map(int, rng.integers(1, 3, 2)))}
    return Case("convolution", (x, f, _floats(rng, 1, 4, 1, 1)), {**_padding(rng, k), **options, "group_count": groups})


def _multiplied(rng: np.random.Generator) -> Case:
    kind = np.float16 if rng.random() < 0.2 else np.float32
    arrays = [_spread(rng, 6, 40), _spread(rng, 40, 5), _floats(rng, 6, 5)]
    if kind is np.float16:
        arrays = [np.clip(x, -100, 100) for x in arrays]
    taken = tuple(x.astype(kind) for x in arrays)
    activation = dml.ActivationGelu() if rng.random() < 0.3 else None
    return Case("gemm", taken, {"alpha": float(rng.choice([1, 1.5])), "beta": 2.0, "fused_activation": activation})


def _of_integers(rng: np.random.Generator, quantised: bool) -> Case:
    a, b = _bytes(rng, str(rng.choice(["u1", "i1"])), 2, 6, 40), _bytes(rng, str(rng.choice(["u1", "i1"])), 2, 40, 5)
    zero_a, zero_b = _bytes(rng, a.dtype.str, 6), _bytes(rng, b.dtype.str, 5)
    if not quantised:
        return Case("matrix_multiply_integer", (a, b, zero_a, zero_b), {})
    scale_a, scale_b = rng.random(6).astype(np.float32), rng.random(5).astype(np.float32)
    zero_y = _bytes(rng, str(rng.choice(["u1", "i1"])), 6)
    scale_y = (rng.random(6) * 300).astype(np.float32)
    return Case("quantized_linear_matrix_multiply", (a, scale_a, zero_a, b, scale_b, zero_b, scale_y, zero_y), {})


NORMALISED = {"axes": (2, 3), "normalize_variance": True, "epsilon": 1e-5}
ENLARGED = {
    "scales": (1, 1, 2, 2),
    "interpolation_mode": "LINEAR",
    "rounding_direction": "DECREASING",
    "input_pixel_offsets": (0.5,) * 4,
    "output_pixel_offsets": (-0.5,) * 4,
    "output_sizes": (1, 2, 10, 12),
}

CASES: Mapping[str, Callable[[np.random.Generator], Case]] = {
    "gelu": lambda rng: Case("activation_gelu", (_floats(rng, 7, 9),), {}),
    "add": lambda rng: Case("element_wise_add", (_floats(rng, 3, 7, 9), _floats(rng, 7, 1)), {}),
    "cast": lambda rng: Case("cast", (_floats(rng, 5, 9),), {"output_data_type": "int8"}),
    "tile": lambda rng: Case("tile", (_floats(rng, 5, 6),), {"repeats": (3, 2)}),
    "slice": lambda rng: Case("slice", (x := _floats(rng, 3, 11, 13),), _taken(rng, x.shape)),
    "slice1": lambda rng: Case("slice1", (x := _floats(rng, 3, 11, 13),), _sliced(rng, x.shape)),
    "padding1": lambda rng: Case("padding1", (_floats(rng, 1, 2, 7, 8),), _padded(rng)),
    "softmax": lambda rng: Case("activation_softmax1", (_floats(rng, 5, 6, 7),), {"axes": (int(rng.integers(3)),)}),
    "normalisation": lambda rng: Case("mean_variance_normalization1", (_floats(rng, 2, 3, 4, 5),), NORMALISED),
    "sums so far": lambda rng: Case("cumulative_summation", (_floats(rng, 5, 8),), {"axis": int(rng.integers(2))}),
    "top k": lambda rng: Case("top_k1", (_floats(rng, 6, 9),), {"axis": 1, "k": 3}),
    "max_pooling": lambda rng: Case("max_pooling", (_floats(rng, 2, 3, 9, 11),), _window(rng)),
    "average_pooling": lambda rng: Case(
        "average_pooling1", (_floats(rng, 2, 3, 9, 11),), {**_window(rng), "include_padding": bool(rng.integers(2))}
    ),
    "lp_pooling": lambda rng: Case("lp_pooling", (_floats(rng, 2, 3, 9, 11),), {**_window(rng), "p": 2}),
    "enlarged": lambda rng: Case("resample3", (_floats(rng, 1, 2, 5, 6),), ENLARGED),
    "depth to space": lambda rng: Case("depth_to_space1", (_floats(rng, 2, 8, 3, 4),), {"block_size": 2}),
    "convolution": _convolved,
    "reduce": lambda rng: _reduced(rng, "float32"),
    "reduce integers": lambda rng: _reduced(rng, str(rng.choice(["int32", "int8", "int64"]))),
    "gemm": _multiplied,
    "matrix_multiply_integer": lambda rng: _of_integers(rng, False),
    "quantized_linear_matrix_multiply": lambda rng: _of_integers(rng, True),
}


def random_chunks(rng: np.random.Generator, sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Chunks of random sizes along each dimension."""
    found = []
    for n in sizes:
        cuts = sorted({0, n, *(int(rng.integers(1, n)) for _ in range(int(rng.integers(4))) if n > 1)})
        found.append(tuple(b - a for a, b in pairwise(cuts)))
    return tuple(found)


def examples() -> list[tuple[str, Sequence[Any], Sequence[Any], Mapping[str, Any]]]:
    """The examples of every operator as arguments of `call`: its name, tensors and attributes, and what else it takes."""
    found = []
    for operator in operators.every():
        for example in operator.spec.examples:
            desc = operator(**example.fields)
            found.append(_as_call(desc, example.inputs))
    return found


def _as_call(desc: Desc, inputs: Mapping[str, Any]) -> tuple[str, Sequence[Any], Sequence[Any], Mapping[str, Any]]:
    spec = desc.spec
    tensors: list[Any] = []
    for f in spec.inputs:
        t, x = getattr(desc, f.name), inputs.get(f.name)
        if t is None or x is None:
            tensors.append(None)
        elif f.sized_by:
            tensors.append([np.broadcast_to(y, u.sizes).copy() for y, u in zip(x, t, strict=True)])
        else:
            tensors.append(np.broadcast_to(np.asarray(x).reshape(-1) if np.size(x) == 1 else x, t.sizes).copy())
    attributes = tuple(getattr(desc, f.name) for f in spec.attributes if f.name not in spec.counts)
    outputs = [getattr(desc, f.name) for f in spec.outputs]
    more = {"output_sizes": [t.sizes for t in outputs[0]] if spec.outputs[0].sized_by else outputs[0].sizes}
    return spec.name, tensors, attributes, more


__all__ = ["CASES", "Case", "call", "examples", "random_chunks"]
