"""BFLOAT16, which DirectML lacks, in every operator that takes FLOAT16, on every instruction set, beside the oracle."""

from __future__ import annotations

from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import hostile_data
from agreement import SOAK, expected
from anydml import DataType, FeatureLevel, TensorDesc, operators
from anydml.kernels.code import targets
from anydml.schema.field import INPUT, OUTPUT
from anydml.schema.operator import Desc, example_desc
from every_kernel import Compared, Ran, run
from extended_types import with_type
from pages import examples_run
from tensors import bound_as, laid_over

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ISAS = [target.name for target in targets.targets()]
PARTS = 8
OPERATORS = [
    o for o in operators.every() if any(DataType.BFLOAT16 in s.data_types for s in o.spec.table[FeatureLevel.EXTENDED].values())
]


def values(desc: Desc, t: TensorDesc, wire: str, rng: np.random.Generator) -> NDArray[np.generic]:
    """The elements of an input as they are bound, of which none breaks a rule."""
    with np.errstate(all="ignore"):
        made = hostile_data.values(t.data_type.name, t.sizes, rng, hostile_data.KINDS[rng.integers(len(hostile_data.KINDS))])
        for rule in desc.spec.data_rules:
            for fit in (1, 0, 2) if wire in rule.tensors else ():
                made[rule.breaks(desc, made)] = fit
    return made.view(bound_as(t))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_operator_is_exact(part: int, ran: Ran, compared: Compared) -> None:
    """Elements that no instruction set may get wrong: ties, cancelling terms, subnormal and huge ones, NaN."""
    outputs: Counter[str] = Counter()
    reference = set()
    for number, operator in enumerate(OPERATORS[part::PARTS]):
        name = operator.spec.name
        for turn in range(number % 2, number % 2 + SOAK):
            desc = with_type(operator, DataType.BFLOAT16, f"{name} {turn}")
            if desc is None:
                continue
            rng = np.random.default_rng([number, turn])
            tensors = {t.name: t for t in desc.tensors() if t.desc.data_type.element_bits >= 8}
            inputs = {n: values(desc, t.desc, t.field.wire, rng) for n, t in tensors.items() if t.field.role == INPUT}
            device = dml.Device(isa=ISAS[(number + turn) % len(ISAS)], threads=1 + turn % 2, feature_level="EXTENDED")
            compiled = device.compile(desc)
            if compiled.kernel_name == "reference":
                reference.add(name)
            made = {n: np.zeros(t.desc.sizes, bound_as(t.desc)) for n, t in tensors.items() if t.field.role == OUTPUT}
            run(compiled, inputs, made)
            for n, x in expected(desc, inputs).items():
                assert np.array_equal(x, made[n]), f"{name} {n}, turn {turn}, {compiled.kernel_name} on {device}"
                outputs[compiled.kernel_name.partition(":")[0]] += x.size
    assert reference == set()
    for family, count in sorted(outputs.items()):
        compared(f"of {family}", count, 1)
    ran(outputs.total(), 500)


def test_levels_below_do_not_have_it() -> None:
    x = np.ones(3, BFLOAT16)
    with pytest.raises(dml.BindingError, match="feature level 6_4 takes float32 or float16 here, and EXTENDED takes bfloat16"):
        dml.element_wise_exp(x)
    desc = example_desc(operators.find("ELEMENT_WISE_EXP"))  # type: ignore[arg-type]
    made = type(desc)(**{t.name: TensorDesc(DataType.BFLOAT16, t.desc.sizes) for t in desc.tensors()})
    with pytest.raises(dml.DescError, match="would fit: feature level EXTENDED"):
        dml.check(made)
    assert dml.check(made, "EXTENDED").feature_level is FeatureLevel.EXTENDED


def test_calls_and_graphs_take_arrays_of_ml_dtypes() -> None:
    device = dml.Device(feature_level="EXTENDED")
    x = np.linspace(-3, 3, 12).astype(BFLOAT16).reshape(3, 4)
    squares = dml.gemm(x, x.T, device=device)
    assert squares.dtype == BFLOAT16
    assert np.array_equal(squares, (x.astype(np.float64) @ x.T.astype(np.float64)).astype(BFLOAT16))
    assert np.array_equal(dml.element_wise_add(x[::-1], 1.5, device=device), x[::-1] + BFLOAT16.type(1.5))
    out = np.empty_like(x)
    assert dml.activation_relu(x, out=out, device=device) is out
    assert np.array_equal(out, np.maximum(x, 0))
    wide = dml.cast(x, "float32", device=device)
    assert np.array_equal(wide, x.astype(np.float32))
    assert np.array_equal(dml.cast(wide, "bfloat16", device=device), x)
    graph = dml.graph(lambda a: dml.activation_relu(dml.gemm(a, np.ascontiguousarray(x.T))), a=TensorDesc("bfloat16", x.shape))
    assert np.array_equal(graph.run({"a": x}, device=device)["output"], np.maximum(squares, 0))
    with pytest.raises(dml.Error, match="feature level EXTENDED"):
        graph.run({"a": x})


def test_numbers_of_one_call_round_once() -> None:
    """Ties of BFLOAT16 that a rounding to float32 on the way would make: 1 + 2^-8 + 2^-40 is beyond one."""
    device = dml.Device(feature_level="EXTENDED")
    for isa in ISAS:
        device = dml.Device(feature_level="EXTENDED", isa=isa)
        ones = np.ones((3, 1), BFLOAT16)
        for terms, found in (([1, 2.0**-8, 2.0**-40], 1 + 2.0**-7), ([1, 2.0**-8, 0], 1), ([1, 2.0**-8, -(2.0**-40)], 1)):
            assert dml.gemm(np.array([terms], BFLOAT16), ones, device=device).item() == found
        smallest = np.full((1, 2), 2.0**-133, BFLOAT16)
        for factors, found in (([0.25, 0.25], 0), ([0.5, 2.0**-20], 2.0**-133), ([1, 0.5], 2.0**-132)):
            assert dml.gemm(smallest, np.array(factors, BFLOAT16).reshape(2, 1), device=device).item() == found


def test_elements_are_bound_as_their_bits_or_as_ml_dtypes_arrays() -> None:
    t = TensorDesc(DataType.BFLOAT16, (2, 3), strides=(4, 1))
    desc = dml.ActivationRelu(input_tensor=t, output_tensor=t)
    compiled = dml.Device(feature_level="EXTENDED").compile(desc)
    memory = np.arange(-4, 4).astype(BFLOAT16)
    for given in (memory, memory.view(np.uint16), memory.view(np.uint8)):
        out = np.zeros(8, BFLOAT16)
        compiled.bind(input_tensor=given, output_tensor=out).execute()
        assert laid_over(t, out.view(np.uint8)).view(BFLOAT16).tolist() == [[0, 0, 0], [0, 1, 2]]
    with pytest.raises(dml.BindingError, match="is float16"):
        compiled.bind(input_tensor=np.zeros(8, np.float16), output_tensor=memory)


def test_the_page_shows_what_its_code_prints() -> None:
    assert examples_run("bfloat16.md") == 2
