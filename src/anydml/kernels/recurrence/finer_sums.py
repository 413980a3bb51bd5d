"""Sums of a sequence with the rounding errors of their additions: a head, a tail, and the bound of their error."""

from __future__ import annotations

from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.second.compensated import plus
from anydml.kernels.contract.floats.second.compensated import wide as wide_of
from anydml.kernels.numbers.doubled.arithmetic import finite
from anydml.kernels.numbers.floats.numbers import SLACK
from anydml.kernels.numbers.functions.pairs import exact_product, lost_product, two_sum
from anydml.kernels.recurrence.key import INPUT, NUMBERS, RecurrenceKey, signature
from anydml.kernels.recurrence.rows import defined

PARTS = 3  # of a sum and of a number


def sums(target: Target, key: RecurrenceKey, n: int, name: str) -> tuple[str, list[str]]:
    """`void @{name}{n}(arguments, t, b, place)`: a vector of sums of a sequence, `place` bytes from the first, in three parts.

    Further parameters for weights that are not packed: `.., weights, unit, first`; `first` is the first unit.
    "fine": with a bound that is 0 if nothing was rounded; "quick": with a bound that is never 0.
    """
    body, source = Body(target), key.sources[n]
    count = target.vector_bytes // 8
    wide, single = Kind("double", count), Kind("float", count)
    signature(key).load(body)
    row = "%b"
    if source.kind == INPUT:
        step = body.op("urem i64 %t, %chunk")
        row = body.op(f"add i64 {body.op(f'mul i64 {step}, %sequences')}, %b")
    apart = 8 * source.rows
    tile = body.op(f"mul i64 {body.op(f'udiv i64 {row}, {source.rows}')}, {body.op(f'mul i64 %terms{n}, {apart}')}")
    from_ = body.at(body.at(f"%packed{n}", tile), body.op(f"mul i64 {body.op(f'urem i64 {row}, {source.rows}')}, 8"))
    panel_row = 4 * count * source.across
    part = f"%fine_part{n}"

    def number(k: str) -> tuple[Value, Value, Value]:
        """A term's factor in three parts."""
        at = [body.at(f"%pairs{n}", body.op(f"mul i64 %pairs_part{n}, {p}")) for p in range(PARTS)]
        offset = body.op(f"mul i64 {k}, 8")
        head, tail, lost = (body.splat(body.loaded(Kind("double"), p, offset), count) for p in at)
        return head, tail, lost

    def term(k: str, weight: Value, values: list[Value]) -> list[Value]:
        if source.kind != NUMBERS:
            x = body.splat(body.loaded(Kind("double"), from_, body.op(f"mul i64 {k}, {apart}")), count)
            if name == "fine":
                return plus(values, x * weight)
            total, rest = two_sum(values[0], x * weight)
            return [total, values[1] + rest, values[2] + rest.magnitude()]
        head, tail, lost = number(k)
        product, rest = exact_product(head, weight)
        more = tail * weight
        total = rest + more
        # the roundings of these two, with much slack, and the error of the number itself
        slack = (rest.magnitude() + more.magnitude()) * 2.0**-50 + lost_product(head, weight, product)
        slack = slack + lost * weight.magnitude()
        made = plus(values, product)
        return [made[0], *plus([made[1], made[2] + slack], total)]

    if source.blocks:
        last = body.op("sub i64 %units, 1")
        unit = [body.op(f"add i64 %first, {m}") for m in range(count)]
        unit = [body.call("llvm.umin.i64", Kind("i64"), f"i64 {x}", f"i64 {last}").name for x in unit]
        rows = [body.at("%weights", body.op(f"mul i64 {x}, %unit")) for x in unit]
    else:
        # sums take twice as many bytes as weights
        p, vector = body.op(f"udiv i64 %place, {2 * panel_row}"), body.op(f"urem i64 %place, {2 * panel_row}")
        at = body.at(f"%panels{n}", body.op(f"mul i64 {p}, %panel{n}"))
        at = body.at(at, body.op(f"lshr i64 {vector}, 1"))

    def one(k: str, values: list[Value]) -> list[Value]:
        if not source.blocks:
            weight = body.loaded(single, at, body.op(f"mul i64 {k}, {panel_row}"))
            return term(k, weight.converted("fpext", wide), values)
        size = key.data_type.dtype.itemsize
        offset, bits = body.op(f"mul i64 {k}, {size}"), body.undefined(Kind(f"i{8 * size}", count))
        for m, place in enumerate(rows):
            bits = bits.replaced(m, body.loaded(Kind(bits.kind.element), body.at(place, offset)))
        return term(k, wide_of(bits, key.data_type), values)

    zeros = [body.constant(wide, x) for x in (-0.0, 0.0, 0.0)]
    _, (head, left, lost) = body.loop("0", f"%terms{n}", 1, zeros, one)
    if name == "quick" and source.kind != NUMBERS:  # each addition of rounding errors has an error of u of their sum
        terms = Value(body, f"%terms{n}", Kind("i64")).converted("uitofp", Kind("double"))
        lost = lost * body.splat(terms * 2.0**-52, count)
    made, tail = two_sum(head, left)
    # the rounding error beside an infinity is NaN; added to the head, 0 would change a zero's sign
    made = body.chosen(left.compared("une", 0.0) & finite(head), made, head)
    tail, lost = (body.chosen(finite(head), part, 0.0) for part in (tail, lost * SLACK))
    for k, value in enumerate((made, tail, lost)):
        body.stored(value, body.at(f"%fine{n}", body.op(f"mul i64 {part}, {k}")), "%place")
    body.do("ret void")
    given = "ptr %arguments, i64 %t, i64 %b, i64 %place"
    if source.blocks:
        given += ", ptr %weights, i64 %unit, i64 %first"
    return defined(body, f"void @{name}{n}({given})"), [*body.declared]
