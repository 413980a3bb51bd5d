"""16-bit elements as two planes of bytes, and norms of what is summed.

An element is 256 high + low - offset, with bytes that are unsigned in both planes; the offset of INT16 is 2^15. The norms of a
row, or of all windows of an image, bound, by the inequality of Cauchy and Schwarz, what the roundings of dequantised elements
change in sums of products.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import along, fold, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, part

PLANES = Signature("*x *high *low *norms rows terms zero scale")
IMAGES = Signature("*x *high *low *norms *squares *windows images channels pixels zero scale unit")
NORMS = 16  # bytes of the norms of a row or a place: float64
SPATIAL = 3
WINDOW = ("taps", "dilation", "stride", "start", "size", "places", "x")  # the words of a spatial dimension; x: bytes
MARGIN = 1 + 2.0**-20  # covers the roundings of the norms
SHORT_MARGIN = 1 + 2.0**-8  # the same of sums in float32 of up to 2^15 squares


def planes(target: Target, signed: bool) -> str:
    """The kernel that splits `rows` packed rows of `terms` elements. Arguments: PLANES.

    norms: for each row, upper bounds of the Euclidean norms of x = fl(scale * centred) and of the difference of x and
    scale * centred, whose bits are exact in float64. scale: the bits of a float32. signed: the elements are INT16.
    """
    body = Body(target)
    PLANES.load(body)
    scale = body.value(f"bitcast i32 {body.op('trunc i64 %scale to i32')} to float", Kind("float"))
    zero = body.value("trunc i64 %zero to i32", Kind("i32"))
    lanes, double = target.vector_bytes // 8, Kind("double")

    def some(at: str, first: str, lanes: int, sums: list[Value]) -> list[Value]:
        """Split some elements of a row, and add their squares to the sums."""
        x = split(body, body.op(f"add i64 {at}, {first}"), lanes, signed)
        exact, rounded = dequantised(body, x, signed, zero, scale)
        off = rounded - exact
        return [sums[0] + rounded * rounded, sums[1] + off * off]

    def row(r: str, _: list[Value]) -> list[Value]:
        at = body.op(f"mul i64 {r}, %terms")
        none = body.constant(Kind("double", lanes), 0.0)
        end, sums = body.loop("0", "%terms", lanes, [none, none], lambda i, sums: some(at, i, lanes, sums))
        sums = body.loop(end, "%terms", 1, [total(v) for v in sums], lambda i, sums: some(at, i, 0, sums))[1]
        into = along(body, "%norms", str(NORMS), r)
        for k, v in enumerate(sums):
            body.stored(v.root() * body.constant(double, MARGIN), into, 8 * k)
        return []

    body.loop("0", "%rows", 1, [], row)
    body.do("ret i64 0")
    return kernel(body, [*body.declared])


def planes_of_images(target: Target, signed: bool) -> str:
    """The kernel that splits `images` packed images of `channels` planes of `pixels`. Arguments: IMAGES.

    norms: for each place of each image, upper bounds of the norms of its window. squares: room for two float32 for each pixel
    and each place. windows: words of WINDOW. scale: the bits of a float32 from 1/2 to 1; with it times `unit`, the bits of a
    float64, elements are dequantised.
    """
    body = Body(target)
    IMAGES.load(body)
    single = Kind("float")
    scale = body.value(f"bitcast i32 {body.op('trunc i64 %scale to i32')} to float", single)
    unit = body.value("bitcast i64 %unit to double", Kind("double"))
    zero = body.value("trunc i64 %zero to i32", Kind("i32"))
    lanes = target.vector_bytes // 4
    windows = loaded_windows(body)
    places = "1"
    for window in windows:
        places = body.op(f"mul i64 {places}, {window['places']}")
    # the sums of squares of pixels, of each plane of them, and those of places
    pixels = [body.at("%squares", body.op(f"mul i64 %pixels, {4 * k}")) for k in range(2)]
    behind = body.at(pixels[1], body.op("mul i64 %pixels, 4"))
    of_places = [behind, along(body, behind, "4", places)]

    def each(start: str, end: str, some: Callable[[str, int], None]) -> None:
        """Call `some` for vectors, and then for single elements."""

        def at(i: str, lanes: int) -> list[Value]:
            some(i, lanes)
            return []

        rest, _ = body.loop(start, end, lanes, [], lambda i, _: at(i, lanes))
        body.loop(rest, end, 1, [], lambda i, _: at(i, 0))

    def image(i: str, _: list[Value]) -> list[Value]:
        def channel(c: str, _: list[Value]) -> list[Value]:
            number = body.op(f"add i64 {body.op(f'mul i64 {i}, %channels')}, {c}")
            at = body.op(f"mul i64 {number}, %pixels")
            begins = body.op(f"icmp eq i64 {c}, 0")

            def some(pixel: str, lanes: int) -> None:
                x = split(body, body.op(f"add i64 {at}, {pixel}"), lanes, signed)
                for squares, v in zip(pixels, rounded_and_off(body, x, signed, zero, scale), strict=True):
                    place = along(body, squares, "4", pixel)
                    before = body.loaded(single._replace(lanes=lanes), place)
                    kept = body.value(f"select i1 {begins}, {before.lift(0.0)!r}, {before!r}", before.kind)
                    body.stored(body.fused(v, v, kept), place)

            each("0", "%pixels", some)
            return []

        body.loop("0", "%channels", 1, [], channel)
        for squares, sums in zip(pixels, of_places, strict=True):
            _summed(body, windows, squares, sums, each)
        first = body.op(f"mul i64 {i}, {places}")

        def root(place: str, lanes: int) -> None:
            for k, sums in enumerate(of_places):
                v = body.loaded(single._replace(lanes=lanes), along(body, sums, "4", place)).converted(
                    "fpext", Kind("double", lanes)
                )
                factor = unit if not lanes else body.splat(unit, lanes)
                at = body.op(f"add i64 {place}, {body.op(f'mul i64 {first}, 2')}")
                at = body.op(f"add i64 {at}, {places}") if k else at
                body.stored((v * SHORT_MARGIN).root() * factor * MARGIN, along(body, "%norms", "8", at))

        each("0", places, root)
        return []

    body.loop("0", "%images", 1, [], image)
    body.do("ret i64 0")
    return kernel(body, [*body.declared])


def _summed(
    body: Body,
    windows: list[dict[str, str]],
    pixels: str,
    places: str,
    each: Callable[[str, str, Callable[[str, int], None]], None],
) -> None:
    """Sum the pixels of each window."""
    (z, y, x), single = windows, Kind("float")

    def beside(axis: dict[str, str], place: str, tap: str) -> str:
        """The pixel of a tap along an axis."""
        at = body.op(f"mul i64 {place}, {axis['stride']}")
        further = body.op(f"mul i64 {tap}, {axis['dilation']}")
        axis_start = axis["start"]
        return body.op(f"add i64 {body.op(f'sub i64 {at}, {axis_start}')}, {further}")

    def line(number: str, _: list[str]) -> list[str]:
        into = along(body, places, "4", body.op(f"mul i64 {number}, {x['places']}"))
        at_z, at_y = body.op(f"udiv i64 {number}, {y['places']}"), body.op(f"urem i64 {number}, {y['places']}")

        def begun(i: str, lanes: int) -> None:
            body.stored(body.constant(single._replace(lanes=lanes), 0.0), along(body, into, "4", i))

        each("0", x["places"], begun)

        def tap_z(kz: str, _: list[str]) -> list[str]:
            pz = beside(z, at_z, kz)

            def inside() -> None:
                fold(body, "0", y["taps"], 1, [], partial(tap_y, pz))

            when(body, body.op(f"icmp ult i64 {pz}, {z['size']}"), inside)
            return []

        def tap_y(pz: str, ky: str, _: list[str]) -> list[str]:
            py = beside(y, at_y, ky)

            def inside() -> None:
                row = body.op(f"mul i64 {pz}, {y['size']}")
                row = body.op(f"add i64 {row}, {py}")
                source = along(body, pixels, "4", body.op(f"mul i64 {row}, {x['size']}"))
                fold(body, "0", x["taps"], 1, [], partial(tap_x, source))

            when(body, body.op(f"icmp ult i64 {py}, {y['size']}"), inside)
            return []

        def tap_x(source: str, kx: str, _: list[str]) -> list[str]:
            further = body.op(f"mul i64 {kx}, {x['dilation']}")
            still = body.op(f"icmp eq i64 {x['stride']}, 1")
            # the places whose pixel is inside, where the stride is 1
            before, after = body.op(f"sub i64 {x['start']}, {further}"), body.op(f"add i64 {x['size']}, {x['start']}")
            after = body.op(f"sub i64 {after}, {further}")
            first, last = _larger(body, before, "0"), _smaller(body, after, x["places"])
            first = _smaller(body, first, last)

            def shifted(i: str, lanes: int) -> None:
                kind = single._replace(lanes=lanes)
                pixel = body.loaded(kind, along(body, source, "4", body.op(f"sub i64 {i}, {before}")))
                into_ = along(body, into, "4", i)
                body.stored(body.loaded(kind, into_) + pixel, into_)

            def apart(i: str, _: list[str]) -> list[str]:
                px = beside(x, i, kx)

                def add() -> None:
                    into_ = along(body, into, "4", i)
                    body.stored(body.loaded(single, into_) + body.loaded(single, along(body, source, "4", px)), into_)

                when(body, body.op(f"icmp ult i64 {px}, {x['size']}"), add)
                return []

            when(body, still, lambda: each(first, _larger(body, last, first), shifted))
            rest = body.op(f"select i1 {still}, i64 0, i64 {x['places']}")
            fold(body, "0", rest, 1, [], apart)
            return []

        fold(body, "0", z["taps"], 1, [], tap_z)
        return []

    fold(body, "0", body.op(f"mul i64 {z['places']}, {y['places']}"), 1, [], line)


def _larger(body: Body, a: str, b: str) -> str:
    return body.op(f"select i1 {body.op(f'icmp sgt i64 {a}, {b}')}, i64 {a}, i64 {b}")


def _smaller(body: Body, a: str, b: str) -> str:
    return body.op(f"select i1 {body.op(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")


def loaded_windows(body: Body) -> list[dict[str, str]]:
    """The words of all spatial dimensions, by name."""
    width = 8 * len(WINDOW)
    return [{name: body.load("i64", "%windows", width * d + 8 * k) for k, name in enumerate(WINDOW)} for d in range(SPATIAL)]


def split(body: Body, place: str, lanes: int, signed: bool) -> Value:
    """Some elements, whose bytes are stored in both planes."""
    x = body.loaded(Kind("i16", lanes), along(body, "%x", "2", place))
    high = x.shifted_right(8, signed=False).converted("trunc", Kind("i8", lanes))
    body.stored(high ^ -128 if signed else high, body.at("%high", place))
    body.stored(x.converted("trunc", Kind("i8", lanes)), body.at("%low", place))
    return x


def dequantised(body: Body, x: Value, signed: bool, zero: Value, scale: Value) -> tuple[Value, Value]:
    """The products of centred integers and a scale, exactly and rounded to float32, as float64."""
    centred, factor = _centred(body, x, signed, zero, scale)
    double = Kind("double", x.kind.lanes)
    exact = centred.converted("fpext", double) * factor.converted("fpext", double)
    return exact, (centred * factor).converted("fpext", double)


def rounded_and_off(body: Body, x: Value, signed: bool, zero: Value, scale: Value) -> tuple[Value, Value]:
    """The products rounded to float32, and their rounding errors, which have at most 17 bits."""
    centred, factor = _centred(body, x, signed, zero, scale)
    rounded = centred * factor
    if body.has_fma:
        return rounded, body.fused(centred, factor, -rounded)
    exact, wide = dequantised(body, x, signed, zero, scale)
    return rounded, (exact - wide).converted("fptrunc", factor.kind)


def _centred(body: Body, x: Value, signed: bool, zero: Value, scale: Value) -> tuple[Value, Value]:
    """Elements minus their zero point, as float32, and the scale for each."""
    lanes = x.kind.lanes
    wide = x.converted("sext" if signed else "zext", Kind("i32", lanes))
    factor = scale if not lanes else body.splat(scale, lanes)
    return (wide - (zero if not lanes else body.splat(zero, lanes))).converted("sitofp", factor.kind), factor


def total(v: Value) -> Value:
    """The sum of all lanes."""
    while v.kind.lanes > 1:
        half = v.kind.lanes // 2
        v = part(v, 0, half) + part(v, half, half)
    return v.lane(0)
