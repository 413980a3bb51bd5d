"""Listed outputs, decided as stated: from dequantised elements, and their products and sums in float64.

A product of two float32 numbers is exact in float64, and a sum of K products has an error below 2^-53 K times the sum of
magnitudes. If this leaves an output undecided, it is summed again with the rounding error of each addition in a second sum; the
roundings of that are below 2^-53 K times the sum of the magnitudes of the errors, so that exact sums have no error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as count_from

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, extend, fold, kernel, real, splat, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body
from anydml.kernels.contract.epilogue.estimates import LEFT, LIST, ROOM, STATE
from anydml.kernels.undecided.lists import UndecidedList, mark

REFINE = Signature(
    "*state *states pieces first end *bits *geometry *elements *channels *rule *x *weights *output slack *other *added"
)
DIMENSIONS, SPATIAL = 6, 3  # the dimensions of an output, and those of them, the last ones, in which windows are cut off
DIMENSION = ("size", "x", "weights", "channel")  # the words of each dimension: its size, and strides
WINDOW = ("taps", "dilation", "stride", "start", "size", "x", "weights")  # the words of each of the last three
INNER = ("count", "x", "weights")
CHANNEL = 16  # bytes: scale, zero point, bias, and the bound of plain sums
SIDE = 4  # sums that are accumulated in parallel
LOW, HIGH, SCALE, ZERO, LEAST, MOST = range(6)  # words of the rule: float32, except for the zero point and the limits, int32
MAGIC = 1.5 * 2.0**23
NEAR = 2.0**-56  # if the bound is at most this times the sum, the sum is between two neighbours


def refine(target: Target, signed: bool, adds: bool, few: bool = False) -> str:
    """The kernel that decides listed outputs and marks those whose sums are not known well enough. Arguments: REFINE.

    state: of the list; states: of all pieces. If some list had too little room, all outputs from `first` to `end` are decided
    instead. bits: a bitmap of all outputs. geometry: the words of DIMENSION, WINDOW and INNER.
    elements: float64, of each byte of x. channels: records of CHANNEL. slack: the bits of a float64, the factor of the bound.
    signed: the weights are INT8. adds: an element of `other` is added to the rounded sum; `added` has its float32 value for
    each byte. few: sums are so short that a table of a channel's weights would take longer than they do.
    """
    text = Body(target)
    REFINE.load(text)
    slots = [text.op("alloca double, align 8") for _ in range(SIDE)]
    table, latest, differ = (text.op(f"alloca {kind}, align 8") for kind in ("[256 x double]", "i64", "i32"))
    text.do(f"store i64 -1, ptr {latest}, align 8")
    slack = text.op("bitcast i64 %slack to double")
    listed = UndecidedList(text, 1, first=text.load("ptr", "%state", LIST))

    def fuller(i: str, found: list[str]) -> list[str]:
        state = along(text, "%states", str(STATE), i)
        over = text.op(f"icmp ugt i64 {UndecidedList(text, 1, state).count()}, {text.load('i64', state, ROOM)}")
        return [text.op(f"or i1 {found[0]}, {over}")]

    _, (all_,) = fold(text, "0", "%pieces", 1, [("i1", "false")], fuller)
    count = text.op(f"select i1 {all_}, i64 {text.op('sub i64 %end, %first')}, i64 {listed.count()}")

    words = count_from(0)

    def named(names: tuple[str, ...]) -> dict[str, str]:
        """The next words, by name."""
        return {name: text.load("i64", "%geometry", 8 * next(words)) for name in names}

    dimensions = [named(DIMENSION) for _ in range(DIMENSIONS)]
    windows = [named(WINDOW) for _ in range(SPATIAL)]
    inner = named(INNER)
    steps = inner["x"], inner["weights"]
    apart = [tuple("0" if k == 0 else text.op(f"mul i64 {step}, {k}") for step in steps) for k in range(SIDE)]
    ends = [text.op(f"mul i64 {step}, {SIDE}") for step in steps]

    def output(i: str, _: list[str]) -> list[str]:
        place = text.op(f"select i1 {all_}, i64 0, i64 {i}")
        number = text.load("i64", listed.slot(place))
        number = text.op(f"select i1 {all_}, i64 {text.op(f'add i64 %first, {i}')}, i64 {number}")
        rest, x, w, channel = number, "%x", "%weights", "0"
        places: list[str] = []
        for dimension in dimensions[::-1]:
            place = text.op(f"urem i64 {rest}, {dimension['size']}")
            rest = text.op(f"udiv i64 {rest}, {dimension['size']}")
            x, w = (text.at(p, text.op(f"mul i64 {place}, {dimension[name]}")) for p, name in ((x, "x"), (w, "weights")))
            further = text.op(f"mul i64 {place}, {dimension['channel']}")
            channel = text.op(f"add i64 {channel}, {further}")
            places.insert(0, place)
        record = text.at("%channels", text.op(f"mul i64 {channel}, {CHANNEL}"))
        scale, zero, bias = text.load("float", record), text.load("i32", record, 4), text.load("float", record, 8)
        if not few:
            _channel(text, target, table, scale, zero, channel, latest, signed)
        wide = text.op(f"fpext float {bias} to double")
        firsts = []
        for place, window in zip(places[-SPATIAL:], windows, strict=True):
            middle = text.op(f"mul i64 {place}, {window['stride']}")
            firsts.append(text.op(f"sub i64 {middle}, {window['start']}"))

        def taps(d: int, x: str, w: str, line: Callable[[str, str], None]) -> None:
            window = windows[d]

            def tap(k: str, _: list[str]) -> list[str]:
                further = text.op(f"mul i64 {k}, {window['dilation']}")
                at = text.op(f"add i64 {firsts[d]}, {further}")

                def inside() -> None:
                    x_ = text.at(x, text.op(f"mul i64 {at}, {window['x']}"))
                    w_ = text.at(w, text.op(f"mul i64 {k}, {window['weights']}"))
                    taps(d + 1, x_, w_, line) if d + 1 < SPATIAL else line(x_, w_)

                when(text, text.op(f"icmp ult i64 {at}, {window['size']}"), inside)
                return []

            fold(text, "0", window["taps"], 1, [], tap)

        def product(x: str, w: str) -> str:
            a, byte = _element(text, "%elements", text.load("i8", x)), text.load("i8", w)
            b = _weight(text, byte, scale, zero, signed) if few else _element(text, table, byte)
            return text.op(f"fmul double {a}, {b}")

        def quick(x: str, w: str) -> None:
            """Plain sums, four in parallel."""

            def four(_: str, state: list[str]) -> list[str]:
                (x, w), found = state[:2], state[2:]
                places = [(text.at(x, far), text.at(w, further)) for far, further in apart]
                found = [text.op(f"fadd double {y}, {product(*at)}") for y, at in zip(found, places, strict=True)]
                return [text.at(x, ends[0]), text.at(w, ends[1]), *found]

            def one(_: str, state: list[str]) -> list[str]:
                x, w, found = state
                return [text.at(x, inner["x"]), text.at(w, inner["weights"]), text.op(f"fadd double {found}, {product(x, w)}")]

            sums = [("double", text.op(f"load double, ptr {slot}, align 8")) for slot in slots]
            end, (x, w, *found) = fold(text, "0", inner["count"], SIDE, [("ptr", x), ("ptr", w), *sums], four)
            _, (_, _, first) = fold(text, end, inner["count"], 1, [("ptr", x), ("ptr", w), ("double", found[0])], one)
            _set(text, slots, [first, *found[1:]])

        def careful(x: str, w: str) -> None:
            """A sum, the sum of the rounding errors of its additions, and the magnitudes of the rounding errors of that."""

            def term(_: str, state: list[str]) -> list[str]:
                x, w, *found = state
                total, lost = _two_sum(text, found[0], product(x, w))
                size = text.op(f"call double @llvm.fabs.f64(double {lost})")
                further = text.at(x, inner["x"]), text.at(w, inner["weights"])
                return [*further, total, text.op(f"fadd double {found[1]}, {lost}"), text.op(f"fadd double {found[2]}, {size}")]

            began = [("double", text.op(f"load double, ptr {slot}, align 8")) for slot in slots[:3]]
            _, (_, _, *ended) = fold(text, "0", inner["count"], 1, [("ptr", x), ("ptr", w), *began], term)
            _set(text, slots, ended)

        other = None
        if adds:
            byte = text.op(f"zext i8 {text.load('i8', '%other', number)} to i64")
            other = text.load("float", along(text, "%added", "4", byte))

        def stored(low: str, high: str) -> None:
            text.store("i8", text.op(f"trunc i32 {low} to i8"), "%output", number)
            text.do(f"store i32 {text.op(f'xor i32 {low}, {high}')}, ptr {differ}, align 4")

        def exactly() -> None:
            _set(text, slots, [wide, real(0.0), real(0.0)])
            taps(0, x, w, careful)
            total, lost, size = (text.op(f"load double, ptr {slot}, align 8") for slot in slots[:3])
            total, lost = _two_sum(text, total, lost)
            bound = text.op(f"fmul double {size}, {slack}")
            low = _stated(text, _odd(text, total, text.op(f"fsub double {lost}, {bound}")), other)
            high = _stated(text, _odd(text, total, text.op(f"fadd double {lost}, {bound}")), other)
            near = text.op(f"fmul double {text.op(f'call double @llvm.fabs.f64(double {total})')}, {real(NEAR)}")
            unknown, another = text.op(f"fcmp ogt double {bound}, {near}"), text.op(f"xor i32 {low}, 1")
            stored(low, text.op(f"select i1 {unknown}, i32 {another}, i32 {high}"))

        _set(text, slots, [wide, *[real(0.0)] * (SIDE - 1)])
        taps(0, x, w, quick)
        sums = [text.op(f"load double, ptr {slot}, align 8") for slot in slots]
        total = sums[0]
        for more in sums[1:]:
            total = text.op(f"fadd double {total}, {more}")
        known = text.load("float", record, 12)
        bound = text.op(f"fpext float {known} to double")
        stored(*(_stated(text, text.op(f"f{how} double {total}, {bound}"), other) for how in ("sub", "add")))
        when(text, text.op(f"icmp ne i32 {text.op(f'load i32, ptr {differ}, align 4')}, 0"), exactly)
        undecided = text.op(f"icmp ne i32 {text.op(f'load i32, ptr {differ}, align 4')}, 0")
        when(text, undecided, lambda: mark(text, "%bits", number, "%state", LEFT))
        return []

    fold(text, "0", count, 1, [], output)
    text.do("ret i64 0")
    return kernel(text, ["declare double @llvm.fabs.f64(double)"])


def _set(text: Text, slots: Sequence[str], values: Sequence[str]) -> None:
    for slot, value in zip(slots, values, strict=False):
        text.do(f"store double {value}, ptr {slot}, align 8")


def _element(text: Text, table: str, byte: str) -> str:
    return text.load("double", along(text, table, "8", text.op(f"zext i8 {byte} to i64")))


def _weight(text: Text, byte: str, scale: str, zero: str, signed: bool) -> str:
    """A dequantised byte, as float64."""
    centred = text.op(f"sitofp i32 {text.op(f'sub i32 {extend(text, byte, signed)}, {zero}')} to float")
    return text.op(f"fpext float {text.op(f'fmul float {centred}, {scale}')} to double")


def _channel(text: Text, target: Target, table: str, scale: str, zero: str, channel: str, latest: str, signed: bool) -> None:
    """Fill the table with the dequantised weights of all bytes in a channel, unless it has those of this channel."""

    lanes = target.vector_bytes // 4
    ints, floats, doubles = (f"<{lanes} x {kind}>" for kind in ("i32", "float", "double"))

    def fill() -> None:
        centre, factor = splat(text, zero, ints), splat(text, scale, floats)
        lane = f"<{', '.join(f'i32 {i}' for i in range(lanes))}>"

        def some(byte: str, _: list[str]) -> list[str]:
            element = text.op(f"add {ints} {splat(text, text.op(f'trunc i64 {byte} to i32'), ints)}, {lane}")
            if signed:  # bytes from 128 on are negative
                element = text.op(f"sub {ints} {text.op(f'xor {ints} {element}, splat (i32 128)')}, splat (i32 128)")
            centred = text.op(f"sitofp {ints} {text.op(f'sub {ints} {element}, {centre}')} to {floats}")
            weights = text.op(f"fpext {floats} {text.op(f'fmul {floats} {centred}, {factor}')} to {doubles}")
            text.store(doubles, weights, along(text, table, "8", byte))
            return []

        fold(text, "0", "256", lanes, [], some)
        text.do(f"store i64 {channel}, ptr {latest}, align 8")

    when(text, text.op(f"icmp ne i64 {text.op(f'load i64, ptr {latest}, align 8')}, {channel}"), fill)


def _two_sum(text: Text, a: str, b: str) -> tuple[str, str]:
    """A rounded sum, and its rounding error."""
    total = text.op(f"fadd double {a}, {b}")
    second = text.op(f"fsub double {total}, {a}")
    first = text.op(f"fsub double {total}, {second}")
    return total, text.op(f"fadd double {text.op(f'fsub double {a}, {first}')}, {text.op(f'fsub double {b}, {second}')}")


def _odd(text: Text, value: str, more: str) -> str:
    """A float64 that float32 rounds as it rounds value + more, where |more| is less than half the last digit of the value.

    All numbers between two neighbours round to the same, and so does that neighbour whose last digit is odd: it is no tie.
    """
    bits = text.op(f"bitcast double {value} to i64")
    up = text.op(f"fcmp ogt double {more}, 0.0")
    positive = text.op(f"fcmp ogt double {value}, 0.0")
    away = text.op(f"icmp eq i1 {up}, {positive}")
    moved = text.op(f"select i1 {away}, i64 {text.op(f'add i64 {bits}, 1')}, i64 {text.op(f'sub i64 {bits}, 1')}")
    odd = text.op(f"icmp ne i64 {text.op(f'and i64 {bits}, 1')}, 0")
    exact = text.op(f"fcmp oeq double {more}, 0.0")
    nothing = text.op(f"fcmp oeq double {value}, 0.0")
    kept = text.op(f"or i1 {text.op(f'or i1 {odd}, {exact}')}, {nothing}")
    return text.op(f"bitcast i64 {text.op(f'select i1 {kept}, i64 {bits}, i64 {moved}')} to double")


def _stated(text: Text, total: str, other: str | None) -> str:
    """The output of a sum and the number that is added to it, rounded step by step: an int32."""
    low, high, scale = (text.load("float", "%rule", 4 * n) for n in (LOW, HIGH, SCALE))
    zero, least, most = (text.load("i32", "%rule", 4 * n) for n in (ZERO, LEAST, MOST))
    x = text.op(f"fptrunc double {total} to float")
    if other is not None:
        x = text.op(f"fadd float {x}, {other}")

    def between(x: str, low: str, high: str) -> str:
        x = text.op(f"select i1 {text.op(f'fcmp olt float {x}, {low}')}, float {low}, float {x}")
        return text.op(f"select i1 {text.op(f'fcmp ogt float {x}, {high}')}, float {high}, float {x}")

    quotient = text.op(f"fdiv float {between(x, low, high)}, {scale}")
    quotient = between(quotient, real(-1024.0), real(1024.0))  # beyond, it saturates
    whole = text.op(f"fsub float {text.op(f'fadd float {quotient}, {real(MAGIC)}')}, {real(MAGIC)}")
    n = text.op(f"add i32 {text.op(f'fptosi float {whole} to i32')}, {zero}")
    n = text.op(f"select i1 {text.op(f'icmp slt i32 {n}, {least}')}, i32 {least}, i32 {n}")
    return text.op(f"select i1 {text.op(f'icmp sgt i32 {n}, {most}')}, i32 {most}, i32 {n}")
