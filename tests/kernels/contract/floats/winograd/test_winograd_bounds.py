"""The bounds of Winograd's sums, and of sums that are computed again, compared with exact fractions before they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_winograd import ISAS, convolution, drawn

from anydml import Device
from anydml.kernels.call.address import address_of
from anydml.kernels.code import engine, probe
from anydml.kernels.code.emit import arguments, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats import epilogue, family, tuning
from anydml.kernels.contract.floats.epilogue import EpilogueKey
from anydml.kernels.contract.floats.stores import list_of
from anydml.kernels.contract.floats.winograd import plan, redo
from bound_probes import Records
from drawn_contractions import NAME
from tuned import tuned

# the largest ratios of an error to its bound: of sums, of those of blocks that are made again, and of single elements
RECORDS = {False: 0.023, True: 0.035}
SINGLE = 0.044
FILTERS, CHANNELS, HEIGHT, WIDTH = 8, 3, 10, 9
Array = NDArray[Any]


def noted(target: Target, shape: EpilogueKey, sums: int, errors: int) -> str:
    """Replaces `epilogue.block`: stores the sums and their bounds in arrays of rows and columns. Nothing is listed."""
    assert shape.mixed or shape.again == epilogue.ERRORS
    body = Body(target)
    arguments(body, epilogue.argument_names(shape), epilogue.POINTERS)
    wide = Kind("double")
    list_of(body).counted("0")

    def row(r: str, _: list[Value]) -> list[Value]:
        own = body.loaded(wide, "%a_norms", body.op(f"mul i64 {r}, 8"))
        own = own * Value(body, body.op("bitcast i64 %factor to double"), wide)
        from_, rests = (body.at(f"%{x}", body.op(f"mul i64 {r}, %sums_row")) for x in ("sums", "rests"))

        def column(c: str, _: list[Value]) -> list[Value]:
            offset = body.op(f"mul i64 {c}, 8")
            place = body.op(f"add i64 {body.op(f'mul i64 {r}, {HEIGHT * WIDTH}')}, {body.op(f'add i64 {c}, %first')}")
            error = body.loaded(wide, rests, offset) if shape.again else own * body.loaded(wide, "%b_norms", offset)
            for to, value in ((sums, body.loaded(wide, from_, offset)), (errors, error)):
                body.stored(value, body.op(f"inttoptr i64 {to} to ptr"), body.op(f"mul i64 {place}, 8"))
            return []

        body.loop("0", "%count", 1, [], column)
        return []

    body.loop("0", "%rows", 1, [], row)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def exact(x: Array, f: Array) -> list[Fraction]:
    """The sums of a convolution with a padding of 1."""
    padded = np.zeros((CHANNELS, HEIGHT + 2, WIDTH + 2), np.float32)
    padded[:, 1:-1, 1:-1] = x[0]
    windows, filters = (np.array([Fraction(float(e)) for e in a.ravel()], object).reshape(a.shape) for a in (padded, f))
    shifted = [windows[c, p : p + HEIGHT, q : q + WIDTH] for c in range(CHANNELS) for p in range(3) for q in range(3)]
    return [Fraction(e) for one in filters for e in sum(w * s for w, s in zip(one.ravel(), shifted, strict=True)).ravel()]


def cases() -> Iterator[tuple[str, Array, Array]]:
    """Inputs and filters of several kinds."""
    for n, kind in enumerate(("ordinary", "cancelling", "ties", "wide", "edges", "small")):
        rng = np.random.default_rng((17, n))
        x = drawn(rng, "float32", (1, CHANNELS, HEIGHT, WIDTH), kind)
        f = drawn(rng, "float32", (FILTERS, CHANNELS, 3, 3), "ordinary" if kind == "small" else kind)
        if kind == "ordinary":  # windows whose transforms are mostly 0
            x[...] = 1 + x * np.float32(2.0**-20)
        yield kind, x, f


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("isa", ISAS)
def test_sums_are_within_their_bounds(isa: str, again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """again: also for blocks in which all sums are listed, and so computed again."""
    sums, errors = (np.zeros(FILTERS * HEIGHT * WIDTH) for _ in range(2))
    real: Callable[..., Any] = engine.compiled

    def compiled(emit: Callable[..., str], target: Target, *key: Any) -> Any:
        if emit is epilogue.block and bool(key[0].again) == again:
            return real(noted, target, *key, address_of(sums), address_of(errors))
        return real(emit, target, *key)

    monkeypatch.setattr(engine, "compiled", compiled)
    monkeypatch.setattr(family, "pays", lambda found: True)
    if again:
        monkeypatch.setattr(plan, "SLACK", 2.0**60)
    closest = 0.0
    for kind, x, f in cases():
        compiled_ = Device(isa=isa, threads=1).compile(convolution(x, f, (1, 1, 1, 1)))
        assert compiled_.kernel_name == NAME
        output = np.empty((1, FILTERS, HEIGHT, WIDTH), np.float32)
        sums[:], errors[:] = np.nan, np.nan
        compiled_.bind(input_tensor=x, filter_tensor=f, output_tensor=output).execute()
        for found, error, wanted in zip(sums.tolist(), errors.tolist(), exact(x, f), strict=True):
            off = abs(Fraction(found) - wanted)
            assert off <= Fraction(error), (kind, found, error, float(off))
            if error:
                closest = max(closest, float(off / Fraction(error)))
    print(f"the largest error is {closest:.3f} of its bound")
    assert abs(closest / RECORDS[again] - 1) < 0.25, "a bound has changed"


@pytest.mark.parametrize("isa", ISAS)
def test_single_elements_are_within_their_bounds(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All sums are listed, and summed again one by one, by a kernel that stores records in their places."""
    real: Callable[..., Any] = engine.compiled

    def compiled(emit: Callable[..., str], target: Target, *key: Any) -> Any:
        return real(emit, replace(target, stage=probe.stage("first")) if emit is redo.summed else target, *key)

    monkeypatch.setattr(engine, "compiled", compiled)
    monkeypatch.setattr(family, "pays", lambda found: True)
    monkeypatch.setattr(plan, "SLACK", 2.0**60)
    tuned(monkeypatch, tuning, many_listed=1)
    closest, inexact = 0.0, 0
    for kind, x, f in cases():
        output = np.empty((1, FILTERS, HEIGHT, WIDTH), np.float32)
        call = Device(isa=isa, threads=1).compile(convolution(x, f, (1, 1, 1, 1)))
        bound_call = call.bind(input_tensor=x, filter_tensor=f, output_tensor=output)
        found = Records.of(bound_call.execute, output)
        assert found.stored.all()
        for head, tail, error, wanted in zip(*(a.tolist() for a in found[:3]), exact(x, f), strict=True):
            off = abs(Fraction(head) + Fraction(tail) - wanted)
            assert off <= Fraction(error), (kind, head, error, float(off))
            if error:
                closest, inexact = max(closest, float(off / Fraction(error))), inexact + 1
    print(f"the largest error is {closest:.3f} of its bound, of {inexact} sums that are inexact")
    assert inexact > 1000
    assert abs(closest / SINGLE - 1) < 0.25, "a bound has changed"
