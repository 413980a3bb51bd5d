"""Tapes for the interpreter: instructions on registers, with labels, and constants as numbers."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from anydml.kernels.third import balls
from anydml.kernels.third.balls import Precision
from anydml.kernels.third.interpreter import CODES, WORDS

SPECIAL = {"-0.0": balls.NEGATIVE_ZERO, "inf": balls.INFINITE, "-inf": balls.NEGATIVE_INFINITE, "nan": balls.NAN}


def record(
    midpoint: int = 0,
    radius: int = 0,
    exponent: int = 0,
    kind: int = balls.FINITE,
    height: int = balls.UNBOUNDED,
    precision: Precision = balls.FIRST,
) -> bytes:
    """A number in the format of the interpreter."""
    beside_zero = radius and abs(midpoint) == radius
    logarithms = (-math.inf, float(exponent + radius.bit_length() + 1)) if beside_zero else (0.0, 0.0)
    header = struct.pack("<qqqqdd", kind, exponent, radius, height, *logarithms)
    return header + midpoint.to_bytes(precision.stored // 8, "little", signed=True)


@lru_cache(maxsize=1024, typed=True)  # 0 and -0.0 are equal
def of_value(value: Fraction | float, precision: Precision) -> bytes:
    """A rational number, a negative zero, an infinity or NaN."""
    if isinstance(value, float):
        return record(kind=SPECIAL[repr(value)], precision=precision)
    if not value:
        return record(precision=precision)
    bits = abs(value.numerator).bit_length(), value.denominator.bit_length()
    places = precision.bits - 2 - (bits[0] - bits[1])
    scaled = value * Fraction(2) ** places
    midpoint = scaled.numerator // scaled.denominator
    return record(midpoint, int(scaled.denominator != 1), -places, height=max(bits), precision=precision)


@lru_cache(maxsize=16)
def of_constant(name: str, precision: Precision) -> bytes:
    """A mathematical constant: "log2", "inverse of log2", "half pi", "inverse of half pi", "pi", "erf"."""
    before, ctx.prec = ctx.prec, precision.bits + 150
    try:
        pi, log2 = arb.pi(), arb(2).log()
        made = {"log2": log2, "inverse of log2": 1 / log2, "half pi": pi / 2, "inverse of half pi": 2 / pi, "pi": pi,
                "erf": 2 / pi.sqrt()}[name]  # fmt: skip
        scaled = int(str((made * arb(2) ** (precision.bits - 4)).mid().floor().unique_fmpz()))
    finally:
        ctx.prec = before
    return record(scaled, 2, 4 - precision.bits, precision=precision)


class Label:
    """A position in a tape, which is known at the latest when the tape is finished."""

    place: int | None = None


class NumberRegister(int):
    """The index of a register that holds a number."""


class IntegerRegister(int):
    """The index of a register that holds an integer or a truth."""


class Tape:
    """Instructions in order. The first `dims` integer registers hold the element's indices; the caller sets the next ones."""

    def __init__(self, dims: int, precision: Precision = balls.FIRST) -> None:
        self.dims, self.precision, self.numbers, self.integers = dims, precision, 0, dims
        self._lines: list[tuple[str, int, int, int | Label]] = []
        self._constants: dict[bytes, int] = {}

    def number(self) -> NumberRegister:
        self.numbers += 1
        return NumberRegister(self.numbers - 1)

    def integer(self) -> IntegerRegister:
        self.integers += 1
        return IntegerRegister(self.integers - 1)

    def do(self, code: str, to: int = 0, a: int = 0, b: int | Label = 0) -> None:
        self._lines.append((code, to, a, b))

    def make(self, code: str, a: int, b: int = 0) -> NumberRegister:
        """A new number register, to which an instruction writes."""
        to = self.number()
        self.do(code, to, a, b)
        return to

    def count(self, code: str, a: int, b: int = 0) -> IntegerRegister:
        """A new integer register, to which an instruction writes."""
        to = self.integer()
        self.do(code, to, a, b)
        return to

    def place(self, label: Label) -> None:
        label.place = len(self._lines)

    def jump(self, label: Label) -> None:
        self.do("jump", 0, 0, label)

    def unless(self, truth: IntegerRegister, label: Label) -> None:
        """Jump to a label if a truth does not hold. If the truth is undecided, so is the element."""
        self.do("jump_unless", 0, truth, label)

    def fixed(self, n: int) -> IntegerRegister:
        return self.count("set", n)

    def constant(self, made: bytes) -> NumberRegister:
        return self.make("constant", self._constants.setdefault(made, len(self._constants)))

    def value(self, x: Fraction | float | int) -> NumberRegister:
        return self.constant(of_value(x if isinstance(x, float) else Fraction(x), self.precision))

    def named(self, name: str) -> NumberRegister:
        """A mathematical constant."""
        return self.constant(of_constant(name, self.precision))

    def beside_zero(self, exponent: int) -> NumberRegister:
        """A number between 0 and 2^exponent, and not 0."""
        return self.constant(record(1 << 59, 1 << 59, exponent - 60, precision=self.precision))

    def assign(self, to: NumberRegister, x: NumberRegister) -> None:
        self.do("copy", to, x)

    def scaled(self, x: NumberRegister, by: int | IntegerRegister) -> NumberRegister:
        """x 2^by; by: a register, or a Python integer."""
        return self.make("scale", x, by if isinstance(by, IntegerRegister) else self.fixed(by))

    def code(self) -> NDArray[np.int64]:
        words = [
            (CODES[code], to, a, b.place if isinstance(b, Label) and b.place is not None else b)
            for code, to, a, b in self._lines
        ]
        return np.array(words, np.int64).reshape(-1, WORDS)

    def constants(self) -> NDArray[np.uint8]:
        return np.frombuffer(b"".join(self._constants), np.uint8)
