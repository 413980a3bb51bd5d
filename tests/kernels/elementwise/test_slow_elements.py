"""Subnormal elements, and others with which Intel's processors are slow: other code computes their groups, with equal
results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_elementwise import COMPILED, ISAS, compiled_on, device

import anydml as dml
from agreement import bits, expected
from anydml import DataType, TensorDesc
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise import emit, levels, settled
from anydml.kernels.elementwise.key import MapKey
from anydml.kernels.match.normal_form import NormalForm
from anydml.schema.operator import Desc
from every_kernel import without_dot_products

Floats = NDArray[np.float32]

pytestmark = pytest.mark.skipif(not ISAS, reason="no code is emitted for this processor")

COUNT = 2000
T = TensorDesc(DataType.FLOAT32, (1, COUNT))
BYTES = TensorDesc(DataType.INT8, (1, COUNT))
Y = np.random.default_rng(5).standard_normal((1, COUNT)).astype(np.float32)
SCALES: dict[str, NDArray[Any]] = {
    "scale_tensor": np.full((1, COUNT), 0.1, np.float32),
    "zero_point_tensor": np.zeros((1, COUNT), np.int8),
}
Case = tuple[Desc, str, dict[str, NDArray[Any]]]  # a desc, the name of its input with slow elements, and other inputs
OPERATIONS: dict[str, Case] = {
    "leaky relu": (dml.ActivationLeakyRelu(input_tensor=T, output_tensor=T, alpha=0.3), "input_tensor", {}),
    "recip": (dml.ElementWiseRecip(input_tensor=T, output_tensor=T), "input_tensor", {}),
    "sqrt": (dml.ElementWiseSqrt(input_tensor=T, output_tensor=T), "input_tensor", {}),
    "divide": (dml.ElementWiseDivide(a_tensor=T, b_tensor=T, output_tensor=T), "a_tensor", {"b_tensor": Y}),
    "divide by": (dml.ElementWiseDivide(a_tensor=T, b_tensor=T, output_tensor=T), "b_tensor", {"a_tensor": Y}),
    "multiply": (dml.ElementWiseMultiply(a_tensor=T, b_tensor=T, output_tensor=T), "a_tensor", {"b_tensor": Y}),
    "quantize": (
        dml.ElementWiseQuantizeLinear(input_tensor=T, scale_tensor=T, zero_point_tensor=BYTES, output_tensor=BYTES),
        "input_tensor",
        SCALES,
    ),
}
FUNCTIONS: dict[str, Desc] = {
    "exp": dml.ElementWiseExp(input_tensor=T, output_tensor=T),
    "sigmoid": dml.ActivationSigmoid(input_tensor=T, output_tensor=T),
    "swish": dml.ActivationSwish(input_tensor=T, output_tensor=T),
    "tanh": dml.ElementWiseTanh(input_tensor=T, output_tensor=T),
}
WIDE = [t.name for t in without_dot_products() if "avx2" in t.features]
on_wide_vectors = pytest.mark.skipif(not WIDE, reason="this processor has no AVX2")
SUBNORMAL = np.float32(1e-40)


def ordinary() -> Floats:
    return np.random.default_rng(6).uniform(1, 5, (1, COUNT)).astype(np.float32)


def output_of(desc: Desc) -> NDArray[Any]:
    made: NDArray[Any] = np.empty((1, COUNT), np.int8 if isinstance(desc, dml.ElementWiseQuantizeLinear) else np.float32)
    return made


def run(isa: str, desc: Desc, inputs: dict[str, NDArray[Any]]) -> NDArray[Any]:
    compiled = device(isa).cached(compiled_on, desc)
    assert compiled.kernel_name == COMPILED
    made = output_of(desc)
    compiled.bind(**inputs, output_tensor=made).execute()
    return made


def slow_data() -> list[Floats]:
    """Elements that are subnormal, or have subnormal results: all, some, few, and among zeros and infinities."""
    random = np.random.default_rng(3)
    tiny = (random.standard_normal((1, COUNT)) * 10.0 ** random.integers(-45, -18, (1, COUNT))).astype(np.float32)
    far = (random.standard_normal((1, COUNT)) * 10.0 ** random.integers(1, 39, (1, COUNT))).astype(np.float32)
    edges = [0, -0.0, np.inf, -np.inf, np.nan, 2.0**-149, -(2.0**-126), 2.0**-127, 3e38, 2.0**-60, 1]
    some = np.where(random.random((1, COUNT)) < 0.05, tiny, Y)
    few = np.where(random.random((1, COUNT)) < 0.005, tiny, Y)
    limits = np.where(random.random((1, COUNT)) < 0.7, random.choice(np.array(edges, np.float32), (1, COUNT)), tiny)
    return [tiny, some, few, limits, np.where(random.random((1, COUNT)) < 0.5, tiny, far)]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:divide by zero")
def test_results_are_rounded_once(name: str) -> None:
    desc, slow, others = OPERATIONS[name]
    for x in slow_data():
        inputs = {slow: x, **others}
        exact = expected(desc, inputs)["output_tensor"]
        for isa in ISAS:
            np.testing.assert_array_equal(bits(run(isa, desc, inputs)), bits(exact), err_msg=isa)


@on_wide_vectors
@pytest.mark.usefixtures("own_code")
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_on_slow_elements_are_those_of_float64(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits that are stored instead of a group in float64 show which groups these are."""

    def mark(target: Target, key: MapKey) -> tuple[str, list[str]]:
        key = key._replace(lanes=target.vector_bytes // 4)
        return levels._group_by_group("slowly", target, key, lambda _, made: (made.body.constant(made.kind, 77), None))

    monkeypatch.setattr(emit, "slowly", mark)
    desc, slow, others = OPERATIONS[name]
    for isa in WIDE:
        compiled = dml.Device(isa=isa, threads=1).compile(desc)

        def marked(x: Floats) -> NDArray[np.bool_]:
            made = output_of(desc)
            compiled.bind(**{slow: x, **others}, output_tensor=made).execute()  # noqa: B023
            found: NDArray[np.bool_] = (made.view(f"i{made.itemsize}") == 77)[0]
            return found

        x = ordinary()
        assert not marked(x).any()
        x[0, ::3] = 0
        assert not marked(x).any()  # zeros are ordinary
        assert marked(np.full_like(x, SUBNORMAL)).all()
        x[0, 0] = -SUBNORMAL
        group = int(marked(x).sum())
        assert marked(x)[:group].all()
        assert 16 <= group <= 64
        # after a group with slow elements, all of the next one is checked, and later only a few elements
        x[0, [group + 3, 3 * group + 3]] = SUBNORMAL
        assert marked(x)[: 2 * group].all()
        assert not marked(x)[2 * group :].any()


@on_wide_vectors
@pytest.mark.usefixtures("own_code")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_slow_elements_are_settled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For subnormal arguments, and those so large that a tail is subnormal, pairs of float32 decide nothing."""

    def mark(_: NormalForm, streams: list[Value]) -> tuple[Value, Value]:
        (x,) = streams
        return x.body.constant(x.kind, 77), x.compared("eq", x)

    monkeypatch.setattr(settled, "settled", mark)
    for isa in WIDE:
        compiled = dml.Device(isa=isa, threads=1).compile(FUNCTIONS[name])
        made = np.empty((1, COUNT), np.float32)
        slow = [np.full((1, COUNT), SUBNORMAL), np.full((1, COUNT), np.float32(1e-30))]
        if name != "tanh":
            slow.append(np.full((1, COUNT), np.float32(-75)))
        for x in slow:
            compiled.bind(input_tensor=x, output_tensor=made).execute()
            assert (made.view(np.int32) == 77).all(), (isa, x[0, 0])
        for x in (ordinary(), np.zeros((1, COUNT), np.float32)):
            compiled.bind(input_tensor=x, output_tensor=made).execute()
            assert not (made.view(np.int32) == 77).any() or name == "swish", isa
