"""Listed outputs of two planes: each is decided by the bounds of its number before rounding, else summed again in float64.

What is stated never decreases with the number A that it begins with, so an output is known if it is the same for both ends of
the interval that contains A. Of sums of integers that no dequantised number has rounded, the interval is a point.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import along, fold, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.epilogue.estimates import LEFT, LIST, ROOM
from anydml.kernels.contract.quantised.finish import BIAS, ERRORS, FACTOR, ROUNDINGS, SCALE, SHIFT, WEIGHTS, ZERO
from anydml.kernels.contract.quantised.planes import NORMS, SPATIAL, WINDOW, dequantised, loaded_windows, total
from anydml.kernels.undecided.lists import UndecidedList, mark

CLOSELY = Signature(
    "*high *low *x *norms filters *weights terms *channels pitch count *output *rule *windows *bits *state first end columns"
    " zero scale slack more"
)
INNER = ("image", "count", "step")  # bytes of an image, the terms at one tap, and the bytes between them in x
LOW, HIGH, DIVISOR, ADDED, LEAST, MOST = range(6)  # words of the rule: float32, and three of int32
MAGIC = 1.5 * 2.0**23
SIDE = 2  # pairs of vectors that are summed side by side
BEYOND = 2.0**18  # quotients beyond this saturate


def closely(target: Target, output: str, x_signed: bool, weights_signed: bool, by_column: bool) -> str:
    """The kernel that decides listed outputs, and marks those that it cannot. Arguments: CLOSELY.

    state: of the list. If that had too little room, all outputs of the rows from `first` to `end` are decided instead. weights:
    bytes, `terms` for each channel, in the order of x at each tap. windows: words of WINDOW and INNER. slack: the bits of a
    float64 that is added to the first bound; `more`, to that of sums in float64, whose factor is in `rule`'s last word. What
    remains is as in `finish`.
    """
    body = Body(target)
    CLOSELY.load(body)
    lanes, size, double = target.vector_bytes // 4, 1 if output == "i8" else 2, Kind("double")
    scale = body.value(f"bitcast i32 {body.op('trunc i64 %scale to i32')} to float", Kind("float"))
    zero = body.value("trunc i64 %zero to i32", Kind("i32"))
    slack, more = (body.value(f"bitcast i64 %{name} to double", double) for name in ("slack", "more"))
    growth = body.loaded(double, "%rule", 24)
    slots = [body.op(f"alloca <{lanes} x double>, align 64") for _ in range(SIDE)]
    single = body.op("alloca double, align 8")
    known = [body.loaded(Kind(kind), "%rule", 4 * k) for k, kind in enumerate(["float"] * 3 + ["i32"] * 3)]
    listed = UndecidedList(body, 1, first=body.load("ptr", "%state", LIST))
    full = body.op(f"icmp ugt i64 {listed.count()}, {body.load('i64', '%state', ROOM)}")
    begin = body.op("mul i64 %first, %columns")
    outputs = body.op(f"sub i64 {body.op('mul i64 %end, %columns')}, {begin}")
    count = body.op(f"select i1 {full}, i64 {outputs}, i64 {listed.count()}")
    windows = loaded_windows(body)
    inner = {name: body.load("i64", "%windows", 8 * (SPATIAL * len(WINDOW) + k)) for k, name in enumerate(INNER)}
    dense = body.op(f"icmp eq i64 {inner['step']}, 2")

    def stated(a: Value) -> Value:
        """The output of a sum: int32."""
        low, high, divisor, added, least, most = known

        def between(v: Value, below: Value, above: Value, less: str) -> Value:
            v = body.chosen(v.compared(less, below), below, v)
            return body.chosen(above.compared(less, v), above, v)

        v = between(a.converted("fptrunc", Kind("float")), low, high, "olt") / divisor
        v = between(v, v.lift(-BEYOND), v.lift(BEYOND), "olt")
        whole = (v + MAGIC) - MAGIC
        return between(whole.converted("fptosi", Kind("i32")) + added, least, most, "slt")

    def entry(i: str, _: list[Value]) -> list[Value]:
        place = body.op(f"select i1 {full}, i64 0, i64 {i}")
        number = body.load("i64", listed.slot(place))
        number = body.op(f"select i1 {full}, i64 {body.op(f'add i64 {begin}, {i}')}, i64 {number}")
        row, column = body.op(f"udiv i64 {number}, %columns"), body.op(f"urem i64 {number}, %columns")
        channel = column if by_column else body.op(f"urem i64 {row}, %count")
        image = body.op(f"udiv i64 {row}, %filters")

        def of_channel(row: int) -> Value:
            return body.loaded(double, along(body, body.at("%channels", body.op(f"mul i64 %pitch, {row}")), "8", channel))

        def decided(a: Value, bound: Value) -> str:
            """Store an output; the result says whether it is another at the end of the interval."""
            least, most = stated(a - bound), stated(a + bound)
            body.stored(least.converted("trunc", Kind(output)), along(body, "%output", str(size), number))
            return least.compared("ne", most).name

        high, low = (
            body.loaded(Kind("i32"), along(body, name, "4", number)).converted("sitofp", double) for name in ("%high", "%low")
        )
        if by_column:
            norms, apart = along(body, "%norms", str(NORMS), row), "1"
        else:
            norms = along(body, "%norms", str(NORMS), body.op(f"mul i64 {image}, %columns"))
            norms, apart = along(body, norms, "8", column), "%columns"
        x, off = (body.loaded(double, along(body, norms, "8", k)) for k in ("0", apart))
        bias, of_weights = of_channel(BIAS), of_channel(WEIGHTS)
        product = (high * 256.0 + low - of_channel(SHIFT)) * of_channel(FACTOR)
        bound = (x + off) * of_channel(ERRORS) + off * of_weights
        bound += (product.magnitude() + bias.magnitude()) * of_channel(ROUNDINGS) + slack

        def again() -> None:
            """Sum the dequantised products in float64."""
            factor = of_channel(SCALE).converted("fptrunc", Kind("float"))
            centre = of_channel(ZERO).converted("fptosi", Kind("i32"))
            for slot in slots:
                body.do(f"store <{lanes} x double> zeroinitializer, ptr {slot}, align 64")
            body.do(f"store double 0.0, ptr {single}, align 8")

            def term(x: str, w: str, lanes: int, before: Value) -> Value:
                _, a = dequantised(body, body.loaded(Kind("i16", lanes), x), x_signed, zero, scale)
                _, b = dequantised(body, body.loaded(Kind("i8", lanes), w), weights_signed, centre, factor)
                return body.fused(a, b, before)

            def line(x: str, w: str, terms: str) -> None:
                """Terms at one tap, or at several that lie side by side."""

                def at(k: str, n: int = 0) -> tuple[str, str]:
                    further = body.op(f"add i64 {k}, {n * lanes}")
                    return along(body, x, "2", further), body.at(w, further)

                def several(k: str, sums: list[Value]) -> list[Value]:
                    return [term(*at(k, n), lanes, before) for n, before in enumerate(sums)]

                def one(k: str, sums: list[Value]) -> list[Value]:
                    return [term(*at(k), lanes, sums[0])]

                def rest(k: str, sums: list[Value]) -> list[Value]:
                    return [term(along(body, x, inner["step"], k), body.at(w, k), 0, sums[0])]

                many = body.op(f"select i1 {dense}, i64 {terms}, i64 0")
                sums = [body.loaded(Kind("double", lanes), slot) for slot in slots]
                end, sums = body.loop("0", many, SIDE * lanes, sums, several)
                end, sums[:1] = body.loop(end, many, lanes, sums[:1], one)
                for slot, v in zip(slots, sums, strict=True):
                    body.stored(v, slot)
                _, (found,) = body.loop(end, terms, 1, [body.loaded(double, single)], rest)
                body.stored(found, single)

            _taps(body, windows, column if not by_column else "0", inner, dense, image, channel, line)
            found = reduce(add, (body.loaded(Kind("double", lanes), slot) for slot in slots))
            a = total(found) + body.loaded(double, single) + bias
            magnitudes = x * of_weights + bias.magnitude()
            unknown = decided(a, magnitudes * growth + more)
            when(body, unknown, lambda: mark(body, "%bits", number, "%state", LEFT))

        when(body, decided(product + bias, bound), again)
        return []

    body.loop("0", count, 1, [], entry)
    body.do("ret i64 0")
    return kernel(body, [*body.declared])


def _taps(
    body: Body,
    windows: list[dict[str, str]],
    place: str,
    inner: dict[str, str],
    dense: str,
    image: str,
    channel: str,
    line: Callable[[str, str, str], None],
) -> None:
    """Call `line` in loops over the taps of a window that are inside, with their addresses in x and in the weights.

    The last dimension's taps are one line if they are side by side. line: has the number of terms, too.
    """
    firsts: list[str] = []
    for window in windows[::-1]:
        at = body.op(f"urem i64 {place}, {window['places']}")
        at = body.op(f"mul i64 {at}, {window['stride']}")
        firsts.insert(0, body.op(f"sub i64 {at}, {window['start']}"))
        place = body.op(f"udiv i64 {place}, {window['places']}")

    def taps(d: int, x: str, w: str) -> None:
        window = windows[d]
        rest = inner["count"]
        for further in windows[d + 1 :]:
            rest = body.op(f"mul i64 {rest}, {further['taps']}")

        def tap(k: str, _: list[str]) -> list[str]:
            further = body.op(f"mul i64 {k}, {window['dilation']}")
            at = body.op(f"add i64 {firsts[d]}, {further}")

            def inside() -> None:
                there = along(body, x, window["x"], at), along(body, w, rest, k)
                taps(d + 1, *there) if d + 1 < SPATIAL else line(*there, inner["count"])

            when(body, body.op(f"icmp ult i64 {at}, {window['size']}"), inside)
            return []

        count = window["taps"]
        if d + 1 == SPATIAL:
            last = body.op(f"add i64 {firsts[d]}, {body.op(f'sub i64 {count}, 1')}")
            both = (body.op(f"icmp ult i64 {place}, {window['size']}") for place in (firsts[d], last))
            near = body.op(f"and i1 {dense}, {body.op('icmp eq i64 ' + window['dilation'] + ', 1')}")
            side = reduce(lambda a, b: body.op(f"and i1 {a}, {b}"), both, near)
            all_ = body.op(f"mul i64 {count}, {inner['count']}")
            when(body, side, lambda: line(along(body, x, window["x"], firsts[d]), w, all_))
            count = body.op(f"select i1 {side}, i64 0, i64 {count}")
        fold(body, "0", count, 1, [], tap)

    taps(0, along(body, "%x", inner["image"], image), along(body, "%weights", "%terms", channel))
