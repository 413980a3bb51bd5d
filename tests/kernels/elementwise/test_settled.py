"""Results that are known without being computed: for whole groups of special, tiny and large arguments, and of large
integers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_elementwise import COMPILED, ISAS, compiled_on, device

import anydml as dml
from agreement import SOAK, bits, expected
from anydml import DataType, TensorDesc
from anydml.kernels.elementwise import settled, undecided
from anydml.kernels.elementwise.combined import combined
from anydml.kernels.match.maps import maps
from anydml.kernels.match.normal_form import NormalForm
from anydml.schema.kinds import ScaleBias
from anydml.schema.operator import Desc
from anydml.schema.statement import stated

Floats = NDArray[np.float32]

pytestmark = pytest.mark.skipif(not ISAS, reason="no code is emitted for this processor")

OPERATORS: dict[str, type[Desc]] = {
    "exp": dml.ElementWiseExp,
    "log": dml.ElementWiseLog,
    "sigmoid": dml.ActivationSigmoid,
    "swish": dml.ActivationSwish,
    "gelu": dml.ActivationGelu,
    "tanh": dml.ActivationTanh,
    "erf": dml.ElementWiseErf,
}


def of(words: NDArray[np.uint32]) -> Floats:
    """The numbers with these bits, and their negatives."""
    return np.concatenate([words, words | np.uint32(1 << 31)]).astype(np.uint32).view(np.float32)


def arguments() -> Floats:
    """Groups of numbers that are all special, subnormal, tiny, close to ties, or around the arguments from which results are
    limits."""
    random = np.random.default_rng(7)
    near = np.arange(-32, 32)
    ends = [x for e in settled.ENDS.values() for x in (e.low, e.high) if np.isfinite(x)]
    ends += [settled.TINY, settled.NEAR, settled.QUADRATIC, settled.ERF_TINY, 2.0**-126, 2.0**-125]
    groups: list[NDArray[Any]] = [np.repeat(np.array([0, 0x7F800000, 0x7FC00000, 0x7F800001], np.uint32), 32)]
    groups += [np.float32(abs(end)).view(np.uint32) + near for end in ends]
    groups += [random.integers(1, 1 << 25, 256), random.integers(0, 1 << 31, 1024)]  # the smallest ones, and any
    few = random.integers(1, 64, 512) * 2.0 ** -random.integers(20, 30, 512).astype(float)
    groups.append(few.astype(np.float32).view(np.uint32))
    return of(np.concatenate([np.maximum(g, 1) if i else g for i, g in enumerate(groups)]).astype(np.uint32))


def run(isa: str, desc: Desc, x: Floats) -> Floats:
    compiled = device(isa).cached(compiled_on, desc)
    assert compiled.kernel_name == COMPILED
    made = np.empty_like(x)
    compiled.bind(input_tensor=x, output_tensor=made).execute()
    return made


def desc_of(operator: type[Desc], count: int, **attributes: object) -> Desc:
    t = TensorDesc(DataType.FLOAT32, (1, 1, 1, count))
    fields: dict[str, Any] = {"input_tensor": t, "output_tensor": t, **attributes}
    return operator(**fields)


def formula_of(desc: Desc) -> NormalForm:
    found = maps(stated(desc))
    assert not isinstance(found, str)
    return combined(found[0].formula)


def beside_others() -> Floats:
    """The same among ordinary numbers, of which the next level decides as many as pairs leave undecided."""
    random = np.random.default_rng(9)
    ordinary = random.standard_normal(3000).astype(np.float32) * 5
    return random.permutation(
        np.concatenate([arguments(), ordinary, -(2.0 ** -random.uniform(0, 20, 1500)).astype(np.float32)])
    )


@pytest.mark.parametrize("draw", [arguments, beside_others])
@pytest.mark.parametrize("name", OPERATORS)
def test_results_that_are_known(name: str, draw: Callable[[], Floats]) -> None:
    x = draw()[None, None, None]
    desc = desc_of(OPERATORS[name], x.size)
    assert settled.function(formula_of(desc)) == name
    (wanted,) = expected(desc, {"input_tensor": x}).values()
    assert x.size > 5000
    for isa in ISAS:
        found = run(isa, desc, x)
        different = np.flatnonzero(bits(found) != bits(wanted))
        assert not different.size, (isa, x.ravel()[different[:4]], found.ravel()[different[:4]], wanted.ravel()[different[:4]])


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_known_stays_where_its_group_is_computed_again(name: str) -> None:
    """Known results that the next level leaves undecided, among arguments of any magnitude that pairs leave undecided."""
    random = np.random.default_rng(9)
    known = random.permutation(arguments())[:2000]
    others = np.where(random.integers(0, 2, 4000), random.uniform(-20, 20, 4000), 10 ** random.uniform(-12, 2, 4000))
    x = random.permutation(np.concatenate([known, others.astype(np.float32)]))[None, None, None]
    desc = desc_of(OPERATORS[name], x.size)
    (wanted,) = expected(desc, {"input_tensor": x}).values()
    for isa in ISAS:
        found = run(isa, desc, x)
        different = np.flatnonzero(bits(found) != bits(wanted))
        assert not different.size, (isa, x.ravel()[different[:4]], found.ravel()[different[:4]], wanted.ravel()[different[:4]])


def test_powers_that_are_known() -> None:
    random = np.random.default_rng(8)
    ends = [0, 2.0**-149, 2.0**-126, 0.5, 1 - 2.0**-24, 1, 1 + 2.0**-23, 2, 3, 4, 129, 130, 150, 152, 2.0**24, 2.0**100, np.inf]
    one = np.array([*ends, np.nan, *(-np.array(ends))], np.float32)
    x, y = (v.ravel() for v in np.meshgrid(one, one))
    bases = random.integers(0, 1 << 32, 4000, dtype=np.uint32).view(np.float32)
    steep = bases[np.abs(bases) > 0]
    with np.errstate(all="ignore"):  # powers around 2^128 and 2^-150
        sizes = np.log2(np.abs(steep).astype(float))
        about = random.choice([127.9, 128, 128.1, 129.9, 130.1, -149.5, -150, -150.5, -152.1], steep.size) / sizes
    far = random.integers(0, 1 << 32, bases.size, dtype=np.uint32).view(np.float32)
    x, y = np.concatenate([x, bases, steep]), np.concatenate([y, far, about.astype(np.float32)])
    x, y = x[None, None, None], y[None, None, None].astype(np.float32)
    t = TensorDesc(DataType.FLOAT32, x.shape)
    desc = dml.ElementWisePow(input_tensor=t, exponent_tensor=t, output_tensor=t)
    assert settled.function(formula_of(desc)) == "pow"
    inputs = {"input_tensor": x, "exponent_tensor": y}
    (wanted,) = expected(desc, inputs).values()
    assert x.size > 9000
    for isa in ISAS:
        compiled = device(isa).cached(compiled_on, desc)
        assert compiled.kernel_name == COMPILED
        found = np.empty_like(x)
        compiled.bind(**inputs, output_tensor=found).execute()
        different = np.flatnonzero(bits(found) != bits(wanted))
        assert not different.size, (isa, [(v.ravel()[different[:4]]) for v in (x, y, found, wanted)])


@pytest.mark.parametrize("data_type", [DataType.FLOAT16, DataType.BFLOAT16], ids=str)
def test_logarithms_and_powers_of_16_bits(data_type: DataType) -> None:
    """Groups of which many results are NaN, and constant exponents, which may be integers, with negative bases."""
    words = np.arange(0, 1 << 16, 1 if SOAK > 1 else 16, dtype=np.uint16)  # among them 1, zeros and infinities
    x = np.concatenate([words, np.random.default_rng(3).permutation(words)]).view(data_type.dtype)[None, None, None]
    t = TensorDesc(data_type, x.shape)
    log = dml.ElementWiseLog(input_tensor=t, output_tensor=t)
    powers = [
        dml.ElementWiseConstantPow(input_tensor=t, output_tensor=t, exponent=exponent)
        for exponent in (1.5, -0.25, 2.5, 5.0, 1000.0, -1001.0, 0.015625)
    ]
    for desc, name in ((log, "log"), *((power, "pow") for power in powers)):
        assert settled.function(formula_of(desc)) == name
        (wanted,) = expected(desc, {"input_tensor": x}).values()
        for isa in ISAS:
            compiled = dml.Device(isa=isa, feature_level="EXTENDED").compile(desc)
            assert compiled.kernel_name == COMPILED
            found = np.empty_like(x)
            compiled.bind(input_tensor=x, output_tensor=found).execute()
            different = np.flatnonzero(bits(found) != bits(wanted))
            assert not different.size, (isa, desc, [v.ravel()[different[:4]] for v in (x, found, wanted)])


def test_constant_exponents_of_powers_that_are_known() -> None:
    x = np.concatenate([arguments(), beside_others()])[None, None, None]
    for exponent in (1.5, -0.75, 3.0, -130.5, float("inf")):
        desc = desc_of(dml.ElementWiseConstantPow, x.size, exponent=exponent)
        (wanted,) = expected(desc, {"input_tensor": x}).values()
        for isa in ISAS:
            found = run(isa, desc, x)
            different = np.flatnonzero(bits(found) != bits(wanted))
            assert not different.size, (isa, exponent, [v.ravel()[different[:4]] for v in (x, found, wanted)])


def test_formulas_that_are_something_else() -> None:
    scale = ScaleBias(2, 0)
    for desc in (
        desc_of(dml.ElementWiseExp, 8, scale_bias=scale),
        desc_of(dml.ElementWiseAbs, 8),
        desc_of(dml.ActivationSwish, 8, sigmoid_input_scale=2.0),
    ):
        assert settled.function(formula_of(desc)) is None


@pytest.mark.parametrize("operator", [dml.ElementWiseFloor, dml.ElementWiseCeil])
def test_integers_beside_what_is_half_between_two_floats(operator: type[Desc], monkeypatch: pytest.MonkeyPatch) -> None:
    """4097 * 5001 has 25 bits; the added numbers are below one."""

    def asked(*given: object) -> Floats:
        raise AssertionError(f"{given} is left to Python")

    monkeypatch.setattr(undecided, "exactly", asked)
    random = np.random.default_rng(3)
    factors = np.array([5001, 5000, 5003, 4099], np.float32)[:, None] * 2.0 ** np.arange(0, 100, dtype=np.float32)
    wide = random.integers(0, 0x7F800000, 2000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([factors.ravel(), -factors.ravel(), wide, -wide]).astype(np.float32)[None, None, None]
    for scale, bias in product((4097.0, 1.7), (0.3, -0.3, 0.0, 2.0**40, -(2.0**-140))):
        desc = desc_of(operator, x.size, scale_bias=ScaleBias(scale, bias))
        (wanted,) = expected(desc, {"input_tensor": x}).values()
        for isa in ISAS:
            found = run(isa, desc, x)
            different = np.flatnonzero(bits(found) != bits(wanted))
            assert not different.size, (isa, scale, bias, x.ravel()[different[:4]], found.ravel()[different[:4]])
