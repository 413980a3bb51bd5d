"""Outputs of joined rows: the rows of the past, behind them the new ones with their bias, then zeros."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.attention.function import Function
from anydml.kernels.attention.key import KeptKey
from anydml.kernels.code.emit import module
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.items import stored_item
from anydml.kernels.numbers.floats.numbers import Number, odd_of, once
from anydml.kernels.numbers.functions.pairs import two_sum


def emitted(target: Target, key: KeptKey) -> str:
    """The kernel; arguments: `KeptKey.signature`."""
    f = Function(target, key, "kernel")
    inner = f.argument("inner")

    def batch(number: str) -> None:
        rows(f, key, f.op(f"udiv i64 {number}, {inner}"), f.op(f"urem i64 {number}, {inner}"))

    f.each(f.argument("first"), f.argument("end"), batch)
    return module([*f.declared, f.entry()])


def rows(f: Function, key: KeptKey, o: str, p: str, alone: str | None = None) -> None:
    """The rows of a batch, or one of them alone."""
    keys, columns = f.argument("keys"), f.argument("columns")
    length = f.length(o, p)
    ends = ["0", length, f.least(f.plus(length, f.argument("later")), keys), keys]
    for name, first, end in zip(("before", "after", ""), ends, ends[1:], strict=False):
        if not name or key.has(name):
            _rows(f, key, name, o, p, (first, end, columns), alone)


def _rows(f: Function, key: KeptKey, name: str, o: str, p: str, ends: tuple[str, str, str], alone: str | None) -> None:
    """Rows from one of the tensors, or zeros."""
    first, end, columns = ends
    to_step = f.argument("target_c")
    side_by_side = f.op(f"icmp eq i64 {to_step}, {f.itemsize}")
    from_step, bias = "0", ""
    if name:
        from_step = f.argument(f"{name}_c")
        side_by_side = f.op(f"and i1 {side_by_side}, {f.op(f'icmp eq i64 {from_step}, {f.itemsize}')}")
    if name == "after" and key.has("bias"):
        bias, step = f.place("bias", o=o, p=p), f.argument("bias_c")
        side_by_side = f.op(f"and i1 {side_by_side}, {f.op(f'icmp eq i64 {step}, {f.itemsize}')}")
    read = _read(f, key, from_step, bias)

    def row(t: str) -> None:
        to = f.place("target", o=o, p=p, t=t)
        own = f.minus(t, first)
        source = f.place(name, o=o, p=p, t=own) if name else ""

        def element(i: str, lanes: int, _: list[Value]) -> list[Value]:
            bits = read(source, i, lanes) if name else f.constant(f.bits_kind(lanes), 0)
            f.stored(bits, f.at(to, f.times(i, to_step)))
            return []

        f.run(columns, side_by_side, [], element)

    if alone is None:
        f.each(first, f.most(first, end), row)
    else:
        low = f.most(first, alone)
        f.each(low, f.most(low, f.least(end, f.plus(alone, 1))), row)


def _read(f: Function, key: KeptKey, step: str, bias: str) -> Callable[[str, str, int], Value]:
    """The bits that an element is stored as."""
    bias_step = f.argument("bias_c") if bias else ""

    def read(source: str, i: str, lanes: int) -> Value:
        place = f.at(source, f.times(i, step))
        if key.moves:
            return f.loaded(f.bits_kind(lanes), place)
        x = f.element(place, lanes)
        number = Number(f, lambda: x, exact=True)
        if bias:
            y = f.element(f.at(bias, f.times(i, bias_step)), lanes)
            total, rest = two_sum(x, y)
            number = Number(f, lambda: total, rel=2.0**-53, odd=once(lambda: odd_of(total, rest)))
        return stored_item(f, number, key.data_type, lanes, integral=False)[0]

    return read
