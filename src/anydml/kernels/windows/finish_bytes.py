"""The last part of the kernel for means of dequantised bytes that are quantised again: no result is left undecided."""

from __future__ import annotations

from anydml.kernels.code.values import Kind, Value
from anydml.kernels.windows import results
from anydml.kernels.windows.between import Between
from anydml.kernels.windows.finish import WORD, Finish, Met
from anydml.kernels.windows.key import DEQUANTIZED
from anydml.kernels.windows.kinds import OfBytes
from anydml.tensor import DataType

SINGLE = Kind("double", 1)


class FinishBytes(Finish):
    """The results of means between bytes: computed as stated, or by an estimate whose undecided elements are computed one by
    one."""

    def begin(self) -> None:
        self._between().begin()
        super().begin()

    def line_code(self, counted: Value, terms: Value) -> Value:
        return super().line_code(counted, terms) if self.key.kind == DEQUANTIZED else (counted << 32) | terms

    def noted(self, met: Met, i: Value, lanes: int) -> tuple[Value, Value]:
        """As for other means if elements are dequantised; for an estimate, the sums of zero points, and the factors."""
        if self.key.kind == DEQUANTIZED:
            return super().noted(met, i, lanes)
        number = results.number_of(self._count("divisors", met.counted, i, lanes))
        between = self._between()
        return between.centre(self._count("counts", met.terms, i, lanes)), between.factors(number)

    def finished(self, met: Met, parts: list[Value], i: Value, out: list[str], *, close: bool) -> None:
        key, between = self.key, self._between()
        total, *_ = parts
        if key.kind == DEQUANTIZED:
            floats = key._replace(types=(DataType.FLOAT32,) * 2)
            number, inverse = (self._noted(name, total.kind, i) for name in ("numbers", "inverses"))
            mean = results.mean(floats, total, number, inverse, close=True)  # 47 bits
            self._store(between.stated(mean.cast(total.kind.of("float"))), i, out[0], 1)
            return
        centre, factor = self._noted("numbers", total.kind, i), self._noted("inverses", total.kind.of("float"), i)
        made, undecided = between.estimated(total - centre, factor)
        self._store(made, i, out[0], 1)

        def decide(lane: Value) -> None:
            self._again(met, i + lane, out[0])

        between.decided(undecided, decide)

    def _again(self, met: Met, o: Value, out: str) -> None:
        """Compute one result from dequantised elements."""
        body, between = self.body, self._between()
        names = ("n", "stride", "dilation", "start", "xs")
        size, stride, dilation, start, xs = (Value(body, f"%{name}", WORD) for name in names)
        first = o * stride - start

        def line(t: str, values: list[Value]) -> list[Value]:
            row = met.row(Value(body, t, WORD))

            def term(k: str, values: list[Value]) -> list[Value]:
                p = first + Value(body, k, WORD) * dilation
                inside = p.compared("ult", size)
                bits = body.loaded(Kind("i8", 1), body.at(row, (body.chosen(inside, p, 0) * xs).name))
                return [values[0] + body.chosen(body.splat(inside, 1), between.dequantised(bits), 0.0)]

            return body.loop("0", "%window", 1, values, term)[1]

        (total,) = body.loop("0", met.terms.name, 1, [body.constant(SINGLE, 0.0)], line)[1]
        number = results.number_of(self._count("divisors", met.counted, o, 1))
        at = (o * Value(body, "%ys", WORD)).name
        body.stored(between.exactly(total, number).lane(0), body.at(out, at))

    def _noted(self, name: str, kind: Kind, i: Value) -> Value:
        return self.body.loaded(kind, self.body.at(f"%{name}", (i * (kind.bits // 8)).name))

    def _between(self) -> Between:
        assert isinstance(self.kind, OfBytes)
        return self.kind.between
