"""Matrix products: GEMM of floats, and Einsum, which is composed with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, expand, padded, part, reshape, transpose


def batched(a: Value, b: Value, product: Callable[[Value, Value], Value], least: int = 2) -> Value:
    """The product of the last two dimensions; the others are broadcast as in np.matmul.

    product: the product of two tensors with the same number of dimensions, from `least` to 4.
    """
    left, right = (reshape(a, (1, *a.shape)) if a.ndim == 1 else a), (reshape(b, (*b.shape, 1)) if b.ndim == 1 else b)
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-2]:
        raise Refused(f"matrices of sizes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied", INVALID)
    try:
        batch = np.broadcast_shapes(tuple(left.shape[:-2]), tuple(right.shape[:-2]))
    except ValueError:
        raise Refused(f"matrices of sizes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied", INVALID) from None
    m, n = left.shape[-2], right.shape[-1]
    sizes = (*batch, m, n)
    if len(batch) and math.prod(right.shape[:-2]) == 1 and m * math.prod(batch):  # all rows multiply one matrix
        rows = math.prod(batch) * m
        made = product(padded(reshape(expand(left, (*batch, *left.shape[-2:])), (rows, left.shape[-1])), least),
                       padded(reshape(right, right.shape[-2:]), least))  # fmt: skip
    else:
        if len(batch) > 2:
            both = [reshape(expand(x, (*batch, *x.shape[-2:])), (math.prod(batch), *x.shape[-2:])) for x in (left, right)]
        else:
            both = [expand(padded(x, len(sizes)), (*batch, *x.shape[-2:])) for x in (left, right)]
        made = product(*(padded(x, least) for x in both))
    ends = sizes[:-2] + (() if a.ndim == 1 else (m,)) + (() if b.ndim == 1 else (n,))
    return reshape(made, ends)


def matmul(n: Node, a: Value, b: Value) -> Value:
    if 0 in (a.shape[-1], *a.shape, *b.shape) and isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.matmul(a, b)  # sums of no products
    return batched(a, b, lambda x, y: dml.gemm(x, y))


def gemm(n: Node, a: Value, b: Value, c: Value = None, fused: Any = None) -> Value:
    trans_a, trans_b = ("TRANSPOSE" if n.get(name, 0) else "NONE" for name in ("transA", "transB"))
    rows, columns = a.shape[1 if n.get("transA", 0) else 0], b.shape[0 if n.get("transB", 0) else 1]
    term = None if c is None else expand(c, (rows, columns))
    return dml.gemm(a, b, term, trans_a, trans_b, n.get("alpha", 1.0), n.get("beta", 1.0), fused)


def einsum(n: Node, *values: Value) -> Value:
    """Einsum of one or two tensors: diagonals, sums over letters of one tensor only, then a batch of matrix products."""
    text = n.get("equation", "").replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(values) or len(values) > 2:
        raise Refused(f"it has {len(values)} tensors; one or two are supported", NOT_YET)
    ranks = [x.ndim - len(t.replace("...", "")) for t, x in zip(terms, values, strict=True)]
    dots = "".join(chr(0x2460 + i) for i in range(max((r for t, r in zip(terms, ranks, strict=True) if "..." in t), default=0)))
    letters = [t.replace("...", dots[len(dots) - r :] if "..." in t else "") for t, r in zip(terms, ranks, strict=True)]
    if any(len(t) != x.ndim for t, x in zip(letters, values, strict=True)):
        raise Refused(f"{text!r} does not fit the tensors' dimensions", INVALID)
    every = "".join(letters)
    result = (
        right.replace("...", dots)
        if arrow
        else dots + "".join(sorted(x for x in set(every) - set(dots) if every.count(x) == 1))
    )
    if len(set(result)) < len(result) or not set(result) <= set(every):
        raise Refused(f"the result of {text!r} has letters that are repeated, or that no input has", INVALID)
    diagonals = [_diagonal(x, t) for x, t in zip(values, letters, strict=True)]
    letters = [t for _, t in diagonals]
    reduced = [
        _summed(x, t, [c for c in t if c not in result and not any(c in other for j, other in enumerate(letters) if j != i)])
        for i, (x, t) in enumerate(diagonals)
    ]
    if len(reduced) == 1:
        (x, t), = reduced  # fmt: skip
        return transpose(x, [t.index(c) for c in result])
    return _product(*reduced[0], *reduced[1], result)


def _diagonal(x: Value, letters: str) -> tuple[Value, str]:
    """The elements with equal indices in dimensions of the same letter. Each pair of dimensions is merged, and a slice with a
    stride takes the diagonal."""
    while twice := next((c for c in letters if letters.count(c) > 1), None):
        first = letters.index(twice)
        second = letters.index(twice, first + 1)
        size = x.shape[first]
        if x.shape[second] != size:
            raise Refused(f"{twice!r} has sizes {size} and {x.shape[second]}", INVALID)
        rest = [i for i in range(x.ndim) if i not in (first, second)]
        sizes = [x.shape[i] for i in rest]
        flat = reshape(transpose(x, [*rest, first, second]), [*sizes, size * size])
        x = reshape(part(flat, [slice(None)] * len(rest) + [slice(0, None, size + 1)]), [*sizes, size])
        letters = "".join(letters[i] for i in rest) + twice
    return x, letters


def _summed(x: Value, letters: str, over: Sequence[str]) -> tuple[Value, str]:
    if not over:
        return x, letters
    rest = [i for i, c in enumerate(letters) if c not in over]
    total = dml.reduce(x, "SUM", [i for i, c in enumerate(letters) if c in over])
    return reshape(total, [x.shape[i] for i in rest]), "".join(letters[i] for i in rest)


def _product(a: Value, own: str, b: Value, other: str, result: str) -> Value:
    batch = [c for c in own if c in other and c in result]
    inner = [c for c in own if c in other and c not in result]
    rows, columns = [c for c in own if c not in other], [c for c in other if c not in own]
    sizes = {
        **dict(zip(own, a.shape, strict=True)),
        **{c: s for c, s in zip(other, b.shape, strict=True) if s != 1 or c not in own},
    }

    def matrix(x: Value, letters: str, first: list[str], last: list[str]) -> Value:
        ordered = transpose(x, [letters.index(c) for c in (*batch, *first, *last)])
        wide = expand(ordered, [sizes[c] for c in (*batch, *first, *last)])
        return reshape(wide, [math.prod(sizes[c] for c in some) for some in (batch, first, last)])

    made = batched(matrix(a, own, rows, inner), matrix(b, other, inner, columns), lambda x, y: dml.gemm(x, y))
    order = [*batch, *rows, *columns]
    return transpose(reshape(made, [sizes[c] for c in order]), [order.index(c) for c in result])


TABLE: dict[str, Callable[..., Any]] = {"Einsum": einsum, "Gemm": gemm, "MatMul": matmul}
