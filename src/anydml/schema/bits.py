"""Operations on the bits that encode elements."""

from __future__ import annotations

from collections.abc import Callable

from anydml.schema.node import Expr, make


def _bitwise(op: str, meaning: str) -> Callable[..., Expr]:
    def apply(*args: Expr) -> Expr:
        return make(op, args)

    apply.__name__, apply.__doc__ = op, f"{meaning} Operands are elements of one type; only in `move`."
    return apply


bit_and = _bitwise("bit_and", "The bits that are set in both operands.")
bit_or = _bitwise("bit_or", "The bits that are set in at least one operand.")
bit_xor = _bitwise("bit_xor", "The bits that are set in exactly one of two operands.")
bit_not = _bitwise("bit_not", "The bits that are not set in x.")
shift_left = _bitwise("shift_left", "The bits of an unsigned x moved up by y places: x * 2^y modulo 2^bits.")
shift_right = _bitwise("shift_right", "The bits of an unsigned x moved down by y places: x / 2^y rounded down.")


def bit_count(x: Expr) -> Expr:
    """The number of ones in the encoding of a tensor's element."""
    if x.op != "read" or x.data[1] == "otherwise":
        raise TypeError(f"the bits of an element are counted, not those of a number: {x!r}")
    return make("bit_count", (x,))
