"""Contractions of floats and of integers, of many sizes and layouts, with ordinary and hostile data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml

Array = NDArray[Any]
Rng = np.random.Generator
FLOAT_KINDS = ("normal", "integers", "ties", "cancelling", "wide", "special")
INTEGER_KINDS = ("random", "small", "ends")


class Case(NamedTuple):
    """A call of an operator. title: the operator, its form and the kind of data."""

    title: str
    function: Callable[..., Any]
    arguments: dict[str, Any]


def floats(rng: Rng, kind: str, dtype: Any, *sizes: int) -> Array:
    """Floats: normally distributed, integers, numbers whose sums are ties, of few magnitudes that cancel, of any exponent, or
    with infinities, NaN, zeros of both signs and subnormal numbers.
    """
    x = rng.standard_normal(sizes)
    with np.errstate(over="ignore", under="ignore"):
        if kind == "integers":
            x = np.rint(x * 60)
        elif kind == "ties":
            x = np.ldexp(rng.integers(1, 8, sizes) * rng.choice([-1, 1], sizes), -rng.choice([0, 11, 12, 23, 24], sizes))
        elif kind == "cancelling":
            x = rng.choice(rng.standard_normal(3), sizes) * rng.choice([-1, 1], sizes)
        elif kind == "wide":
            most = 18 if dtype == np.float32 else 3
            x *= 10.0 ** rng.uniform(-most, most, sizes)
        elif kind == "special":
            some = rng.random(sizes) < 0.01
            x = np.where(some, rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, 3e38], sizes), x)
        return x.astype(dtype)


def integers(rng: Rng, kind: str, dtype: Any, *sizes: int) -> Array:
    """Integers of any bits, near 0, or at the ends of the type."""
    info = np.iinfo(dtype)
    if kind == "ends":
        return rng.choice(np.array([info.min, info.max], dtype), sizes)
    low, high = (max(info.min, -3), 4) if kind == "small" else (info.min, info.max + 1)
    return rng.integers(low, high, sizes).astype(dtype)


def scales(rng: Rng, *sizes: int) -> Array:
    """Scales that are powers of two, which makes ties, or any."""
    powers = np.ldexp(1.0, rng.integers(-9, -3, sizes))
    return (powers if rng.random() < 0.5 else rng.uniform(0.001, 0.05, sizes)).astype(np.float32)


def _gemm(rng: Rng, kind: str, dtype: Any, turned: tuple[bool, bool], *, more: bool) -> Case:
    m, k, n = (int(rng.integers(1, most)) for most in (520, 260, 520))
    a, b = floats(rng, kind, dtype, m, k), floats(rng, kind, dtype, k, n)
    if kind == "cancelling" and k > 1:  # all sums are 0, or nearly
        half = k // 2
        a, b = np.concatenate([a[:, :half]] * 2, 1), np.concatenate([b[:half], -b[:half]])
        if rng.random() < 0.5:
            b += (1e-6 * rng.standard_normal(b.shape)).astype(dtype)
    names = ["NONE", "TRANSPOSE"]
    keywords: dict[str, Any] = dict(trans_a=names[turned[0]], trans_b=names[turned[1]])
    given = [a.T.copy() if turned[0] else a, b.T.copy() if turned[1] else b]
    if more:
        given.append(floats(rng, kind, dtype, m, n))
        keywords |= dict(alpha=0.75, beta=-1.5)
    arguments = dict(zip("abc", (x[None, None] for x in given), strict=False))
    form = f"GEMM {np.dtype(dtype).name} {''.join('nt'[t] for t in turned)}{' with C' if more else ''}, {kind}"
    return Case(form, dml.gemm, keywords | arguments)


def _convolution(rng: Rng, kind: str, dtype: Any, form: str) -> Case:
    groups = 3 if form == "groups" else 1
    batch, channels, filters = int(rng.integers(1, 4)), groups * int(rng.integers(1, 12)), groups * int(rng.integers(1, 40))
    side, window = [int(n) for n in rng.integers(12, 60, 2)], [1, 1] if form == "1x1" else [3, 3]
    x = floats(rng, kind, dtype, batch, channels, *side)
    keywords: dict[str, Any] = {}
    if form == "transposed":
        f = floats(rng, kind, dtype, channels, filters, 3, 3)
        keywords = dict(direction="BACKWARD", strides=(2, 2), start_padding=(1, 1), end_padding=(1, 1), output_padding=(1, 1))
    else:
        f = floats(rng, kind, dtype, filters, channels // groups, *window)
    if form in ("padded", "groups"):
        keywords = dict(start_padding=(1, 2), end_padding=(2, 1), dilations=(1, 2), strides=(2, 1), group_count=groups)
    bias = floats(rng, kind, dtype, 1, filters, 1, 1) if form in ("padded", "1x1") else None
    title = f"CONVOLUTION {np.dtype(dtype).name} {form}, {kind}"
    return Case(title, dml.convolution, keywords | dict(input=x, filter=f, bias=bias))


def _integer_product(rng: Rng, kind: str, types: tuple[Any, Any], form: str) -> Case:
    m, k, n = (int(rng.integers(1, most)) for most in (520, 300, 520))
    a, b = integers(rng, kind, types[0], 1, 1, m, k), integers(rng, kind, types[1], 1, 1, k, n)
    rows, columns = ((1, 1, m, 1), (1, 1, 1, n)) if "by row" in form else ((1, 1, 1, 1), (1, 1, 1, 1))
    a_zero, b_zero = integers(rng, kind, types[0], *rows), integers(rng, kind, types[1], *columns)
    given = dict(a=a, b=b, a_zero_point=a_zero, b_zero_point=b_zero)
    title = f"{form} {np.dtype(types[0]).name} {np.dtype(types[1]).name}, {kind}"
    if form.startswith("MATRIX_MULTIPLY_INTEGER_TO_FLOAT"):
        bias = floats(rng, "normal", np.float32, 1, 1, m, n)
        more = dict(a_scale=scales(rng, *rows), b_scale=scales(rng, *columns), bias=bias)
        return Case(title, dml.matrix_multiply_integer_to_float, given | more)
    if form.startswith("MATRIX_MULTIPLY_INTEGER"):
        return Case(title, dml.matrix_multiply_integer, given)
    more = dict(a_scale=scales(rng, *rows), b_scale=scales(rng, *columns), output_scale=scales(rng, *rows) * np.float32(300))
    more["output_zero_point"] = integers(rng, kind, types[0], *rows)
    return Case(title, dml.quantized_linear_matrix_multiply, given | more)


def _integer_convolution(rng: Rng, kind: str, types: tuple[Any, Any], form: str) -> Case:
    groups = 3 if "groups" in form else 1
    batch, channels, filters = int(rng.integers(1, 4)), groups * int(rng.integers(1, 12)), groups * int(rng.integers(1, 40))
    x = integers(rng, kind, types[0], batch, channels, *(int(n) for n in rng.integers(12, 60, 2)))
    f = integers(rng, kind, types[1], filters, channels // groups, 3, 3)
    keywords: dict[str, Any] = dict(start_padding=(1, 2), end_padding=(2, 1), group_count=groups)
    if "groups" in form:
        keywords |= dict(strides=(2, 1), dilations=(1, 2))
    title = f"{form} {np.dtype(types[0]).name} {np.dtype(types[1]).name}, {kind}"
    zero, zeros = integers(rng, kind, types[0], 1, 1, 1, 1), integers(rng, kind, types[1], 1, filters, 1, 1)
    if form.startswith("CONVOLUTION_INTEGER"):
        return Case(
            title, dml.convolution_integer, keywords | dict(input=x, filter=f, input_zero_point=zero, filter_zero_point=zeros)
        )
    bias = integers(rng, "small", np.int32, 1, filters, 1, 1) * 100
    given = dict(
        input=x, input_scale=scales(rng, 1, 1, 1, 1), input_zero_point=zero, bias=bias,
        filter=f, filter_scale=scales(rng, 1, filters, 1, 1), filter_zero_point=zeros,
        output_scale=scales(rng, 1, 1, 1, 1) * np.float32(300),
        output_zero_point=integers(rng, kind, types[0], 1, 1, 1, 1),
    )  # fmt: skip
    return Case(title, dml.quantized_linear_convolution, keywords | given)


FORMS: list[Callable[[Rng, int], Case]] = [
    *(
        lambda rng, turn, dtype=dtype, turned=turned, more=more: _gemm(
            rng, FLOAT_KINDS[turn % len(FLOAT_KINDS)], dtype, turned, more=more
        )
        for dtype, turned, more in (
            (np.float32, (False, False), False),
            (np.float32, (False, True), True),
            (np.float16, (True, False), False),
        )
    ),
    *(
        lambda rng, turn, dtype=dtype, form=form: _convolution(rng, FLOAT_KINDS[turn % len(FLOAT_KINDS)], dtype, form)
        for dtype, form in (
            (np.float32, "padded"),
            (np.float32, "1x1"),
            (np.float16, "groups"),
            (np.float32, "transposed"),
        )
    ),
    *(
        lambda rng, turn, types=types, form=form: _integer_product(rng, INTEGER_KINDS[turn % len(INTEGER_KINDS)], types, form)
        for types, form in (
            ((np.uint8, np.int8), "MATRIX_MULTIPLY_INTEGER"),
            ((np.int8, np.uint8), "MATRIX_MULTIPLY_INTEGER by row"),
            ((np.int8, np.int8), "MATRIX_MULTIPLY_INTEGER_TO_FLOAT by row"),
            ((np.uint8, np.uint8), "QUANTIZED_LINEAR_MATRIX_MULTIPLY by row"),
        )
    ),
    *(
        lambda rng, turn, types=types, form=form: _integer_convolution(
            rng, INTEGER_KINDS[turn % len(INTEGER_KINDS)], types, form
        )
        for types, form in (
            ((np.uint8, np.int8), "CONVOLUTION_INTEGER"),
            ((np.int8, np.int8), "CONVOLUTION_INTEGER in groups"),
            ((np.uint8, np.int8), "QUANTIZED_LINEAR_CONVOLUTION"),
            ((np.int8, np.uint8), "QUANTIZED_LINEAR_CONVOLUTION in groups"),
        )
    ),
]


def cases(seed: int) -> Iterator[Case]:
    """Cases without end: each form with each kind of data in turn, of new sizes."""
    turn = 0
    while True:
        for at, form in enumerate(FORMS):
            yield form(np.random.default_rng([seed, turn, at]), turn + at)
        turn += 1
