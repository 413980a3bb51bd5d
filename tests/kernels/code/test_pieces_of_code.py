"""Loops, and the records of probes: the pieces of code that all kernels and their bounds' tests are made of."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest

from anydml.kernels.call.signature import Signature
from anydml.kernels.code import engine, probe
from anydml.kernels.code.emit import Text, fold, kernel
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.code.values import Body, Kind
from every_kernel import without_dot_products

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")
LOOP = Signature("end *output")
RECORD = Signature("*numbers *output")


def counting(target: Target, step: int) -> str:
    """Store the place at which a loop ends, and the number of times that it ran."""
    text = Text()
    LOOP.load(text)
    end, (count,) = fold(text, "0", "%end", step, [("i64", "0")], lambda i, old: [text.op(f"add i64 {old[0]}, 1")])
    text.store("i64", end, "%output")
    text.store("i64", count, "%output", 8)
    text.do("ret i64 0")
    return kernel(text)


def recorded(target: Target, bits: int) -> str:
    body = Body(target)
    RECORD.load(body)
    head, tail, bound = (body.loaded(Kind("double"), "%numbers", 8 * k) for k in range(probe.WORDS))
    body.stored(probe.record(head, tail, bound, bits), "%output")
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def called(code: engine.Code, *arguments: int) -> None:
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(np.array(arguments, np.int64).ctypes.data)


@pytest.mark.parametrize("step", [1, 3])
def test_loops_run_while_a_whole_step_is_left(step: int) -> None:
    target, output = wanted(None), np.zeros(2, np.int64)
    assert isinstance(target, Target)
    for end in range(8):
        called(engine.compiled(counting, target, step), end, output.ctypes.data)
        assert output.tolist() == [end // step * step, end // step]


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_records_have_all_bits_of_their_numbers(bits: int) -> None:
    target, numbers = wanted(None, probe.stage("first")), np.array([math.pi, -math.e, math.sqrt(2)])
    assert isinstance(target, Target)
    parts = np.zeros((probe.parts(bits), bits // 8), np.uint8)
    for k, part in enumerate(parts):
        probe.choose(k)
        called(engine.compiled(recorded, target, bits), numbers.ctypes.data, part.ctypes.data)
    *words, mark = parts
    assert np.concatenate(words).tobytes() == numbers.tobytes()
    assert int.from_bytes(mark.tobytes(), "little") == probe.MARK
