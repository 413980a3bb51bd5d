"""Sums and products of a row: what is said of their errors holds, and no bound or guard changes unseen.

Each lane is a row of four terms, of every size, and the number is any between those that the terms' own bounds allow.
`python tests/kernels/reduce/test_row_numbers.py` prints the table of records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray

from anydml.kernels.code import engine
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.numbers.floats.numbers import Number, U, of_single
from anydml.kernels.numbers.functions.approximate import at_least
from anydml.kernels.numbers.known import ANYTHING, Known
from anydml.kernels.reduce.accumulator import Accumulator
from anydml.kernels.reduce.ends import between
from anydml.kernels.reduce.refined import refined
from anydml.kernels.reduce.sums import CarefulProduct, Over, RowProduct, RowSum
from anydml.kernels.reduce.walk import RowWalk
from every_kernel import SOAK, Ran, without_dot_products
from number_kernels import called

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")

Array = NDArray[Any]
TERMS, COUNT, DEPTH = 4, 192 * SOAK, 3
REL = 2.0**-40  # of the terms that have a relative error
POSITIVE = Known(0.0)
SMALLEST = mpq(2) ** -390
DIGITS = gmpy2.context(precision=200, emax=1 << 30, emin=-(1 << 30))
LARGEST = mpq(np.finfo(np.float64).max)
Terms = list[Value]
Term = Callable[[Value, Value, Value], Number]


class Operation(NamedTuple):
    """made: the result of a row from the values, bounds and guards of its terms. exact: of exact terms.

    rel, err: whether terms have relative or absolute errors; positive: whether they are; of_float32: of float32 terms.
    """

    made: Callable[[Terms, Terms, Terms], Number]
    exact: Callable[[list[Any]], Any] = sum
    rel: bool = False
    err: bool = False
    positive: bool = False
    of_float32: bool = False


def accumulated(make: Callable[[Body, int, Number], Accumulator], term: Term) -> Callable[[Terms, Terms, Terms], Number]:
    """The result of an accumulator that takes two terms in one set, and two in another."""

    def made(x: Terms, err: Terms, guard: Terms) -> Number:
        body, lanes = x[0].body, x[0].kind.lanes
        terms = [term(*t) for t in zip(x, err, guard, strict=True)]
        rows = make(body, lanes, terms[0])
        sets = []
        for begin in (0, 2):
            values = rows.starts
            for k in (begin, begin + 1):
                values = rows.step(values, terms[k], None, body.constant(Kind("i64", lanes), k))
            sets.append(values)
        found = rows.result(rows.merged(*sets))
        assert isinstance(found, Number)
        return found

    return made


def summed(term: Term, *, careful: bool = False) -> Callable[[Terms, Terms, Terms], Number]:
    return accumulated(partial(RowSum, count=TERMS, depth=DEPTH, counted=False, careful=careful), term)


def multiplied(term: Term, kind: Any) -> Callable[[Terms, Terms, Terms], Number]:
    return accumulated(partial(kind, count=TERMS), term)


def exactly(known: Known) -> Term:
    return lambda x, err, guard: Number(x.body, lambda: x, known, exact=True, guard=guard)


def with_rel(known: Known, saturated: int = 0) -> Term:
    return lambda x, err, guard: Number(x.body, lambda: x, known, rel=REL, guard=guard, saturated=saturated)


def with_err(known: Known) -> Term:
    return lambda x, err, guard: Number(x.body, lambda: x, known, err=lambda: err, guard=guard)


def single(x: Value, err: Value, guard: Value) -> Number:
    return of_single(x.converted("fptrunc", x.kind.of("float")), guard=guard)


def ended(x: Terms, err: Terms, guard: Terms) -> Number:
    """A number between two ends, which may have different signs."""
    off = (err[2] + err[3]) * 2.0
    return between(x[2], x[3] - off, x[3] + off, guard[0], rel=REL)


def power(exact: bool) -> Callable[[Terms, Terms, Terms], Number]:
    """e^x of a number from -700 to 0 that is exact, or rounded once."""

    def made(x: Terms, err: Terms, guard: Terms) -> Number:
        walk: Any = SimpleNamespace(body=x[0].body)
        below = at_least(x[0].magnitude() * -1.0, -700.0)
        return RowWalk._small(walk, Number(x[0].body, lambda: below, exact=exact, rel=0.0 if exact else U))

    return made


def of_power(x: list[Any]) -> Any:
    with DIGITS:
        return mpq(gmpy2.exp(mpfr(max(-abs(x[0]), mpq(-700)))))


def root(x: Terms, err: Terms, guard: Terms) -> Number:
    """The root of a sum that lost some digits, of which nothing is known if the rest is 0."""
    found = refined("sqrt", Over(x[0].magnitude(), x[0].lift(0.0), err[1], guard[0]), [])
    assert found is not None
    return found


def of_root(x: list[Any]) -> Any:
    with DIGITS:
        return mpq(gmpy2.sqrt(mpfr(abs(x[0]))))


OPERATIONS: Mapping[str, Operation] = {
    "sum": Operation(summed(exactly(ANYTHING))),
    "sum of float32": Operation(summed(single), of_float32=True),
    "sum of positive terms": Operation(summed(with_rel(POSITIVE)), rel=True, positive=True),
    "sum of saturated terms": Operation(summed(with_rel(POSITIVE, 1000)), rel=True, positive=True),
    "sum of terms with errors": Operation(summed(with_err(ANYTHING)), err=True),
    "sum of positive terms with errors": Operation(summed(with_err(POSITIVE)), err=True, positive=True),
    "careful sum": Operation(summed(exactly(ANYTHING), careful=True)),
    "product": Operation(multiplied(with_rel(ANYTHING), RowProduct), math.prod, rel=True),
    "careful product": Operation(multiplied(single, CarefulProduct), math.prod, of_float32=True),
    "power": Operation(power(exact=True), of_power),
    "power of a rounded number": Operation(power(exact=False), of_power),
    "root": Operation(root, of_root),
    "ends": Operation(ended, lambda x: x[2] + x[3], err=True),
}


# --- terms ---

EXPONENTS = (-905, -895, -500, -149, -130, -60, -30, -1, 0, 0, 0, 1, 2, 30, 60, 120, 500, 700, 890, 1001)
SPECIAL = (0.0, 0.0, -0.0, math.inf, math.nan)


def terms(operation: Operation, rng: np.random.RandomState) -> tuple[Array, Array, Array]:
    """Values, bounds and guards of terms. In a half of the rows, all have one size, and some cancel."""
    size = 2.0 ** rng.choice(EXPONENTS, (TERMS, COUNT)).astype(np.float64)
    size[:, ::2] = size[:1, ::2]
    x = rng.uniform(1, 2, (TERMS, COUNT)) * size
    if operation.of_float32:
        with np.errstate(over="ignore"):
            x = x.astype(np.float32).astype(np.float64)
    if not operation.positive:
        x *= rng.choice((-1, 1), x.shape)
        x[3, ::5] = -x[2, ::5]
    few = rng.randint(0, 40, x.shape)
    x = np.where(few < len(SPECIAL), np.take(SPECIAL, few, mode="clip"), x)
    if operation.positive:
        x = abs(x)
    finite = np.isfinite(x)
    err = np.where(finite, abs(np.where(finite, x, 0.0)) * rng.choice((2.0**-52, 2.0**-30, 2.0**-10), x.shape), 0.0)
    return x, err, (rng.randint(0, 50, x.shape) == 0).astype(np.float64)


def emitted(target: Target, name: str) -> str:
    """The kernel (count, values, bounds, guards, lower and upper ends, bounds beside a tail, and each term's three numbers)."""
    body, lanes = Body(target), target.vector_bytes // 8
    n = body.load("i64", "%arguments")
    places = [body.load("ptr", "%arguments", 8 * k) for k in range(1, 7 + 3 * TERMS)]
    kind = Kind("double", lanes)

    def inside(i: str, carried: list[Value]) -> list[Value]:
        at = [body.at(p, body.op(f"shl i64 {i}, 3")) for p in places]
        x = [body.loaded(kind, p) for p in at[6:]]
        guards = [g.compared("one", 0.0) for g in x[2 * TERMS :]]
        made = OPERATIONS[name].made(x[:TERMS], x[TERMS : 2 * TERMS], guards)
        wide = made.wide()
        low, high = made.ends() if made.ends is not None else (wide, wide)
        guard = wide.lift(0.0) if made.guard is None else body.chosen(made.guard, wide.lift(1.0), 0.0)
        finer = made.finer()[2] if made.finer is not None else wide.lift(0.0)
        for value, p in zip((wide, made.error(), guard, low, high, finer), at[:6], strict=True):
            body.stored(value, p)
        return carried

    body.loop("0", n, lanes, [], inside)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


class Told(NamedTuple):
    """Claims of results: the mean binary logarithms of bounds and of finer ones; how many have a bound, none, guards."""

    mean: float
    finer: float
    bounded: int
    exact: int
    guarded: int


def compute(name: str, target: Target) -> tuple[tuple[Array, Array, Array], Array]:
    given = terms(OPERATIONS[name], np.random.RandomState(len(name)))
    made = np.zeros((6, COUNT + 8))
    called(engine.compiled(emitted, target, name), [row for x in given for row in x], [*made])
    return given, made[:, :COUNT]


def told(made: Array) -> Told:
    claimed = (made[2] == 0) & np.isfinite(made[0]) & np.isfinite(made[1])
    means = [float(np.log2(x[claimed & (x > 0)]).mean()) if (claimed & (x > 0)).any() else 0.0 for x in (made[1], made[5])]
    bounded = int((claimed & (made[1] > 0)).sum())
    return Told(round(means[0], 2), round(means[1], 2), bounded, int(claimed.sum()) - bounded, int(made[2].sum()))


def judge(name: str, given: tuple[Array, Array, Array], made: Array, lane: int) -> bool:
    """Whether a result was compared with the exact ones."""
    operation = OPERATIONS[name]
    wide, error, guard, low, high, _ = made[:, lane].tolist()
    if guard or not np.isfinite(given[0][:, lane]).all():
        return False
    for sign in (-1, 0, 1):  # every term is at an end of its bound
        x = [mpq(v) for v in given[0][:, lane].tolist()]
        if operation.rel:
            x = [v * (1 + sign * mpq(REL)) for v in x]
        elif operation.err:
            x = [v + sign * mpq(e) for v, e in zip(x, given[1][:, lane].tolist(), strict=True)]
        t = operation.exact(x)
        if operation.exact is math.prod and not SMALLEST <= abs(t) <= 1 / SMALLEST:  # is stored as 0 or infinity
            continue
        said = f"{name} of {given[0][:, lane].tolist()} is {wide!r} within {error!r}"
        if abs(t) > LARGEST:
            assert not math.isfinite(wide), said
            continue
        assert math.isfinite(wide), said
        if low == high == wide:
            assert abs(t - mpq(wide)) <= mpq(error), f"{said}, and not {float(t)!r}"
        else:
            below, above = (mpq(np.nextafter(v, to)) for v, to in ((low, -math.inf), (high, math.inf)))
            assert below <= t <= above, f"{name} of {given[0][:, lane].tolist()} is in {low, high}, and not {float(t)!r}"
    return True


RECORDS: dict[str, Told] = {
    "sum": Told(157.8, 0.0, 143, 0, 11),
    "sum of float32": Told(-41.32, 0.0, 81, 10, 12),
    "sum of positive terms": Told(171.57, 0.0, 143, 0, 12),
    "sum of saturated terms": Told(115.05, 0.0, 114, 0, 38),
    "sum of terms with errors": Told(192.68, 0.0, 144, 0, 16),
    "sum of positive terms with errors": Told(227.55, 0.0, 144, 0, 16),
    "careful sum": Told(199.15, 0.0, 146, 0, 11),
    "product": Told(-56.59, 0.0, 62, 28, 92),
    "careful product": Told(-107.51, -120.26, 40, 56, 17),
    "power": Told(-413.28, 0.0, 184, 0, 0),
    "power of a rounded number": Told(-365.14, 0.0, 189, 0, 0),
    "root": Told(74.94, 17.98, 137, 1, 43),
    "ends": Told(21.99, 93.35, 129, 22, 32),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_said_of_rows_holds(name: str, ran: Ran) -> None:
    for target in without_dot_products() if SOAK > 1 else targets()[:1]:
        given, made = compute(name, target)
        ran(sum(judge(name, given, made, lane) for lane in range(COUNT)), 5)
        if SOAK == 1 and target.architecture == "x86":
            assert told(made) == RECORDS[name], "a bound or a guard has changed"


if __name__ == "__main__":
    for operation_name in OPERATIONS:
        print(f'    "{operation_name}": Told{tuple(told(compute(operation_name, targets()[0])[1]))},')
