"""The kernel of windows that are whole contiguous images: several images are reduced at once.

Each image has a vector of partial results; these vectors are then transposed, so that each lane belongs to one image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, left_by_first_stage
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.match.windows import MAX, MEAN, QUANTIZED
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.kernels.undecided.lists import UndecidedList, each_bit
from anydml.kernels.windows import results
from anydml.kernels.windows.key import DEQUANTIZED, WindowsKey, present
from anydml.kernels.windows.kinds import OfBytes, reduction
from anydml.tensor import DataType

WORD = Kind("i64")
SINGLE = Kind("double", 1)
Parts = list[Value]
Merge = Callable[[Parts, Parts], Parts]


def signature(key: WindowsKey) -> Signature:
    """The arguments of the kernel. px, py: bytes from one image of the input and of the output to the next."""
    more = [*(["*rule"] if key.between else []), *(f"*g{q}" for q in present(key))]
    return Signature(" ".join(["*state *list room first rows n terms *x *y px py", *more]))


def emitted(target: Target, key: WindowsKey, together: int) -> str:
    """The kernel; arguments: `signature`. It returns 1 where it stopped, or has something on its list.

    together: images that are reduced at once, a power of two, at most their number and the lanes of a vector.
    """
    return _WholeImagesKernel(target, key, together).text()


class _WholeImagesKernel:
    def __init__(self, target: Target, key: WindowsKey, together: int) -> None:
        self.body, self.key, self.together = Body(target), key, together
        self.list = UndecidedList(self.body)
        self.kind = reduction(self.body, key)
        self.kind.plain = True
        self.itemsize = key.types[0].dtype.itemsize
        self.image = self.body.constant(WORD, 0)
        self.sources: list[str] = []

    def _argument(self, name: str) -> Value:
        return Value(self.body, f"%{name}", WORD)

    def text(self) -> str:
        body, together = self.body, self.together
        signature(self.key).load(body)
        if isinstance(self.kind, OfBytes):
            self.kind.between.begin()
        groups = body.op(f"udiv i64 {(self._argument('rows') + (together - 1)).name}, {together}")
        last = self._argument("rows") - together

        def group(g: str, _: Parts) -> Parts:
            when(body, self.list.is_half_full(), lambda: self.list.stop(g))
            at = Value(body, g, WORD) * together
            at = body.chosen(at.compared("ult", last), at, last)  # the last group begins earlier if they don't end evenly
            self.image = self._argument("first") + at
            self._group()
            return []

        start = self.list.begun()
        body.loop(start, groups, 1, [], group)
        self.list.end(start)
        return kernel(body, list(body.declared))

    def _group(self) -> None:
        body, key, kind = self.body, self.key, self.kind
        self.sources = [body.at("%x", (self.image * self._argument("px")).name)]
        while len(self.sources) < self.together:
            self.sources.append(body.at(self.sources[-1], "%px"))
        neutral = body.constant(kind.raw[0], kind.neutral[0])
        known = kind.unknown(key.lanes)
        made, known = self._reduced([neutral], known, lambda a, x: kind.across(a, [x]), kind.across)
        usual = kind.usual(known)
        if key.kind == MEAN:
            assert usual is not None
            number = self._number("double")
            when(body, usual.name, lambda: self._store(results.mean(key, made[0], number, number, close=False)))
            when(body, (~usual).name, self._careful)
            return
        if key.between:
            self._between(made[0])
            return
        if key.kind == QUANTIZED:
            number = self._number("i32")
            found, undecided = results.quantized(key, made[0], number, number, self._parameters())
            self._store(found)
            assert undecided is not None
            self._note(left_by_first_stage(undecided))
            return
        self._store(made[0].bits() if made[0].kind.floating else made[0])
        if usual is not None:
            when(body, (~usual).name, self._in_order)

    def _between(self, total: Value) -> None:
        """Compute and store quantised means of a group's images."""
        body, kind = self.body, self.kind
        assert isinstance(kind, OfBytes)
        number = self._number("double")
        if self.key.kind == DEQUANTIZED:
            self._store(kind.between.exactly(total, number))
            return
        made, undecided = kind.between.estimated(total - kind.between.centre(self._number("i32")), kind.between.factors(number))
        self._store(made)

        def decide(lane: Value) -> None:
            image = self.image + lane
            source = body.at("%x", (image * self._argument("px")).name)

            def term(k: str, values: Parts) -> Parts:
                return [values[0] + kind.between.dequantised(body.loaded(Kind("i8", 1), body.at(source, k)))]

            _, (exact,) = body.loop("0", "%n", 1, [body.constant(SINGLE, 0.0)], term)
            one = self._argument("n").converted("sitofp", Kind("double"))
            body.stored(kind.between.exactly(exact, body.splat(one, 1)).lane(0), self._place(image))

        kind.between.decided(undecided, decide)

    def _parameters(self) -> list[Value | None]:
        """The scales and zero points, which all images share."""
        body, key = self.body, self.key
        found: list[Value | None] = [None] * len(key.parameters)
        for q in present(key):
            value = body.loaded(Kind("float" if q in (0, 2) else "i8"), f"%g{q}")
            if q not in (0, 2):
                value = value.converted("sext" if key.types[q // 2] == DataType.INT8 else "zext", Kind("i32"))
            found[q] = body.splat(value, self.together)
        return found

    def _number(self, element: str) -> Value:
        n = self._argument("n")
        made = n.converted("trunc", Kind("i32")) if element == "i32" else n.converted("sitofp", Kind(element))
        return self.body.splat(made, self.together)

    # --- all images of a group ---

    def _reduced(self, starts: Parts, known: Parts, step: Callable[[Parts, Value], Parts], merge: Merge) -> tuple[Parts, Parts]:
        """The images' results, one in each lane, and the facts about all elements, see `Reduction.noted`."""
        body, lanes, count = self.body, self.key.lanes, len(starts)
        n = self._argument("n")

        def several(i: Value, values: Parts, counted: Value | None) -> Parts:
            found: Parts = []
            known = values[count * self.together :]
            for r, source in enumerate(self.sources):
                bits = body.loaded(Kind(f"i{8 * self.itemsize}", lanes), body.at(source, (i * self.itemsize).name))
                x = self.kind.read(bits)[0]
                known = self.kind.noted(bits, [x], known)
                if counted is not None and self.key.kind != MAX:
                    x = body.chosen(counted, x, self.kind.neutral[0])
                found += step(values[count * r : count * (r + 1)], x)
            return found + known

        i, values = body.loop(
            "0", n.name, lanes, [*starts * self.together, *known], lambda i, v: several(Value(body, i, WORD), v, None)
        )
        # the last vector is read earlier, and its lanes that are counted already are masked
        left = n - Value(body, i, WORD)
        some = left.compared("ne", 0).converted("zext", WORD)
        places = body.constants("i64", range(lanes))
        counted = places.compared("uge", body.splat(lanes - left, lanes))
        _, values = body.loop("0", some.name, 1, values, lambda _, v: several(n - lanes, v, counted))
        images = [values[count * r : count * (r + 1)] for r in range(self.together)]
        return merged_lanes(body, images, merge), values[count * self.together :]

    def _careful(self) -> None:
        """Compute sums together with the rounding error of each addition."""
        body, key, kind = self.body, self.key, self.kind
        zero = body.constant(kind.raw[0], 0.0)
        starts = [body.constant(kind.raw[0], kind.neutral[0]), zero, zero]
        (total, left, lost), _ = self._reduced(starts, [], lambda a, x: _united(a, [x]), _united)
        made, undecided = results.careful(key, total, left, lost, self._number("i32"))
        self._store(made)
        assert undecided is not None
        self._note(undecided)

    def _note(self, undecided: Value) -> None:
        """List the undecided images."""
        body = self.body
        bits = lanes_as_bits(undecided)
        each_bit(body, bits, lambda lane: self.list.append((self.image + Value(body, lane, WORD)).name, "0"))

    def _in_order(self) -> None:
        """Compute maxima in order, which is needed if there may be NaN, or zeros of both signs."""
        body, kind = self.body, self.kind
        kind.plain = False
        for r, source in enumerate(self.sources):

            def one(i: str, values: Parts, source: str = source) -> Parts:
                at = body.at(source, body.op(f"mul i64 {i}, {self.itemsize}"))
                return kind.across(values, kind.read(body.loaded(Kind("i32"), at)))

            first = kind.read(body.loaded(Kind("i32"), source))
            (made,) = body.loop("1", "%n", 1, first, one)[1]
            body.stored(made, self._place(self.image + r))
        kind.plain = True

    def _place(self, image: Value) -> str:
        return self.body.at("%y", (image * self._argument("py")).name)

    def _store(self, made: Value) -> None:
        if self.key.contiguous[1]:
            self.body.stored(made, self._place(self.image))
            return
        for lane in range(self.together):
            self.body.stored(made.lane(lane), self._place(self.image + lane))


def _united(a: Parts, b: Sequence[Value]) -> Parts:
    """Unite two partial sums, or a sum and an element: [sum, sum of its rounding errors, magnitude of the errors of that]."""
    total, more = two_sum(a[0], b[0])
    left, lost = a[1], a[2]
    if len(b) > 1:
        left, rest = two_sum(left, b[1])
        lost = lost + b[2] + rest.magnitude()
    left, rest = two_sum(left, more)
    return [total, left, lost + rest.magnitude()]


def merged_lanes(body: Body, images: Sequence[Parts], merge: Merge) -> Parts:
    """Merge the lanes of each image's vector to one, for at most as many images as lanes; the result has one lane per image."""

    def picked(a: Value, b: Value, mask: Sequence[int]) -> Value:
        kind = Kind(a.kind.element, len(mask))
        text = ", ".join(f"i32 {k}" for k in mask)
        return body.value(f"shufflevector {a!r}, {b!r}, <{len(mask)} x i32> <{text}>", kind)

    def both(a: Parts, b: Parts, masks: tuple[Sequence[int], Sequence[int]]) -> Parts:
        return merge(*([picked(x, y, mask) for x, y in zip(a, b, strict=True)] for mask in masks))

    found = list(images)
    while (lanes := found[0][0].kind.lanes) > len(images):
        half = lanes // 2
        found = [both(a, a, (range(half), range(half, lanes))) for a in found]
    apart = 1
    while len(found) > 1:
        low = [k + (lanes - apart if k & apart else 0) for k in range(lanes)]
        high = [k + (lanes if k & apart else apart) for k in range(lanes)]
        found = [both(a, b, (low, high)) for a, b in zip(found[::2], found[1::2], strict=True)]
        apart *= 2
    return found[0]
