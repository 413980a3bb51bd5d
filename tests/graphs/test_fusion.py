"""Maps fused with the maps that they read have the bits of the operators one after another."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hostile_data
from anydml import DataType, TensorDesc, operators
from anydml.devices.link import link
from anydml.graphs.fusion import Producer, fused
from anydml.kernels.contract.floats import family as contractions
from anydml.kernels.elementwise import family as maps
from anydml.kernels.evaluate.evaluator import evaluators
from anydml.kernels.kernel import Lower, Lowered, Machine
from anydml.kernels.problem import Problem
from anydml.kernels.reduce import family as rows
from anydml.kernels.reference import evaluated
from anydml.schema.expression import Tensor
from anydml.schema.statement import Nest, stated
from every_kernel import without_dot_products

F32, F16 = DataType.FLOAT32, DataType.FLOAT16
I32, U8 = DataType.INT32, DataType.UINT8
COUNT = 300
CHAINS = 20

# operators of one and of two tensors of a type, with the attributes that they need
ONE: dict[str, dict[str, Any]] = {
    "ACTIVATION_SIGMOID": {},
    "ACTIVATION_RELU": {},
    "ACTIVATION_LINEAR": {"alpha": 1.25, "beta": -0.1},
    "ACTIVATION_HARD_SIGMOID": {"alpha": 0.2, "beta": 0.5},
    "ELEMENT_WISE_EXP": {},
    "ELEMENT_WISE_SQRT": {},
    "ELEMENT_WISE_ABS": {},
    "ELEMENT_WISE_CLIP": {"min": -3.0, "max": 4.5},
    "ELEMENT_WISE_TANH": {},
}
TWO = ("ADD", "SUBTRACT", "MULTIPLY", "DIVIDE", "MAX")
WHOLE_ONE: dict[str, dict[str, Any]] = {"ELEMENT_WISE_ABS": {}, "ELEMENT_WISE_CLIP": {"min": -30.0, "max": 77.0}}
WHOLE_TWO = ("ADD", "SUBTRACT", "MULTIPLY", "MAX")


def desc_of(name: str, t: TensorDesc, **fields: Any) -> Any:
    operator: Any = operators.find(name)
    return operator(output_tensor=t, **fields)


def nest_of(desc: Any, names: dict[str, str]) -> Nest:
    """The statement of a desc with one output that reads tensors of other names."""

    def named(field: str, t: Any) -> Tensor:
        return Tensor(names[field], t.sizes, t.data_type)

    (found,) = stated(desc.as_newest(), named).values()
    return found


def run(
    nest: Nest,
    tensors: dict[str, TensorDesc],
    arrays: dict[str, NDArray[Any]],
    output: TensorDesc,
    lower: Lower = maps.lower,
    isa: str | None = None,
) -> NDArray[Any]:
    """The elements of a statement, computed by machine code."""
    lowered = lower(Problem({"output": nest}, {**tensors, "output": output}), Machine(isa, 1))
    assert isinstance(lowered, Lowered), lowered
    made = np.empty(output.sizes, output.data_type.dtype)
    link(lowered).bind({**arrays, "output": made})()
    return made


@pytest.mark.parametrize("data_type", [F32, F16, I32, U8])
def test_chains_have_the_bits_of_their_operators(data_type: DataType) -> None:
    """Random chains of two to five maps on hostile data: CHAINS chains of COUNT elements."""
    rng = random.Random(data_type)
    data = np.random.default_rng(int(data_type))
    real = data_type in (F32, F16)
    t = TensorDesc(data_type, (COUNT,))
    tried = 0
    for chain in range(CHAINS):
        arrays = {name: hostile_data.values(data_type.name, COUNT, data, rng.choice(hostile_data.KINDS)) for name in "xyz"}
        value, nest = arrays["x"], None
        for _ in range(rng.randint(2, 5)):
            if rng.random() < 0.5:
                name, attributes = rng.choice([*(ONE if real else WHOLE_ONE).items()])
                desc = desc_of(name, t, input_tensor=t, **attributes)
                fields, names = {"input_tensor": value}, {"input_tensor": "made" if nest else "x"}
            else:
                name, other = f"ELEMENT_WISE_{rng.choice(TWO if real else WHOLE_TWO)}", rng.choice("yz")
                desc = desc_of(name, t, a_tensor=t, b_tensor=t)
                fields = {"a_tensor": value, "b_tensor": arrays[other]}
                names = {"a_tensor": "made" if nest else "x", "b_tensor": other}
            (value,) = evaluated(desc.as_newest(), fields).values()
            consumer = nest_of(desc, names)
            made = fused(consumer, {"made": Producer(nest, data_type)}) if nest else consumer
            assert isinstance(made, Nest), made
            nest = made
        assert nest is not None
        found = run(nest, dict.fromkeys("xyz", t), arrays, t)
        bits = f"u{value.itemsize}"
        assert np.array_equal(found.view(bits), value.view(bits)), chain
        tried += COUNT
    assert tried == COUNT * CHAINS


def _reducing(random: np.random.Generator) -> dict[str, tuple[Lower, Any, dict[str, NDArray[Any]]]]:
    """A family, a desc that reduces, and its inputs; some sums are close to a tie, or cancel."""
    operator: Any = operators.find("GEMM")

    def drawn(*sizes: int) -> NDArray[Any]:
        few = random.integers(-8, 9, sizes) * 2.0 ** random.integers(-12, 1, sizes)
        return np.where(random.random(sizes) < 0.5, few, random.standard_normal(sizes)).astype(np.float32)

    def of(x: NDArray[Any]) -> TensorDesc:
        return TensorDesc.of(x)

    a, b = drawn(13, 21), drawn(21, 35)
    gemm = operator(a_tensor=of(a), b_tensor=of(b), output_tensor=TensorDesc(F32, (13, 35)))
    x, f = drawn(1, 6, 15, 18), drawn(7, 6, 3, 3)
    once = dict(strides=(1, 1), dilations=(1, 1), output_padding=(0, 0))
    around = dict(start_padding=(1, 1), end_padding=(1, 1))
    operator = operators.find("CONVOLUTION")
    convolution = operator(
        input_tensor=of(x), filter_tensor=of(f), output_tensor=TensorDesc(F32, (1, 7, 15, 18)), **once, **around
    )
    m = drawn(9, 43) * 4
    operator = operators.find("ACTIVATION_SOFTMAX1")
    softmax = operator(input_tensor=of(m), output_tensor=of(m), axes=(1,))
    return {
        "a matrix product": (contractions.lower, gemm, {"a_tensor": a, "b_tensor": b}),
        "a convolution": (contractions.lower, convolution, {"input_tensor": x, "filter_tensor": f}),
        "a softmax": (rows.lower, softmax, {"input_tensor": m}),
    }


@pytest.mark.parametrize("isa", [row.name for row in without_dot_products()])
@pytest.mark.parametrize("winograd", [False, True])
def test_maps_go_on_with_what_is_reduced(isa: str, winograd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of one to three maps after a product, a convolution or a softmax have the bits of single operators."""
    monkeypatch.setattr(contractions, "pays", lambda *found: winograd)
    rng, data = random.Random(isa), np.random.default_rng(7)
    tried = 0
    for _ in range(2):
        for what, (lower, desc, inputs) in _reducing(data).items():
            (value,) = evaluated(desc.as_newest(), inputs).values()
            nest = nest_of(desc, {name: name for name in inputs})
            t, other = TensorDesc.of(value), data.standard_normal(value.shape).astype(np.float32)
            for _ in range(rng.randint(1, 3)):
                if rng.random() < 0.6:
                    name, attributes = rng.choice([*ONE.items()])
                    step = desc_of(name, t, input_tensor=t, **attributes)
                    fields, names = {"input_tensor": value}, {"input_tensor": "made"}
                else:
                    step = desc_of(f"ELEMENT_WISE_{rng.choice(TWO)}", t, a_tensor=t, b_tensor=t)
                    fields, names = {"a_tensor": value, "b_tensor": other}, {"a_tensor": "made", "b_tensor": "other"}
                (value,) = evaluated(step.as_newest(), fields).values()
                made = fused(nest_of(step, names), {"made": Producer(nest, F32)})
                assert isinstance(made, Nest), made
                nest = made
            arrays = {**inputs, "other": other}
            found = run(nest, {name: TensorDesc.of(x) for name, x in arrays.items()}, arrays, t, lower, isa)
            np.testing.assert_array_equal(found.view("u4"), value.view("u4"), err_msg=what)
            tried += value.size
    print(f"{tried} elements")
    assert tried == 2 * (13 * 35 + 7 * 15 * 18 + 9 * 43)


def test_a_rounding_is_kept_between_two_sums() -> None:
    """In FLOAT32, (1 + 2^-24) + 2^-24 is 1; without the rounding in between it would be 1 + 2^-23."""
    t = TensorDesc(F32, (1,))
    first = nest_of(desc_of("ELEMENT_WISE_ADD", t, a_tensor=t, b_tensor=t), {"a_tensor": "x", "b_tensor": "y"})
    second = nest_of(desc_of("ELEMENT_WISE_ADD", t, a_tensor=t, b_tensor=t), {"a_tensor": "made", "b_tensor": "y"})
    made = fused(second, {"made": Producer(first, F32)})
    assert isinstance(made, Nest)
    arrays = {"x": np.ones(1, np.float32), "y": np.full(1, 2.0**-24, np.float32)}
    assert run(made, dict.fromkeys("xy", t), arrays, t)[0] == 1


def test_broadcast_reads_are_fused_where_they_are_read() -> None:
    """The producer of a row that its consumer reads for each of its own rows."""
    row, matrix = TensorDesc(F32, (7,)), TensorDesc(F32, (5, 7))
    first = nest_of(desc_of("ELEMENT_WISE_EXP", row, input_tensor=row), {"input_tensor": "x"})
    broadcast = TensorDesc(F32, (5, 7), strides=(0, 1))
    wide = nest_of(desc_of("ELEMENT_WISE_EXP", matrix, input_tensor=broadcast), {"input_tensor": "x"})
    second = nest_of(
        desc_of("ELEMENT_WISE_ADD", matrix, a_tensor=matrix, b_tensor=matrix), {"a_tensor": "y", "b_tensor": "made"}
    )
    made = fused(second, {"made": Producer(wide, F32)})
    assert isinstance(made, Nest)
    x, y = np.linspace(-1, 1, 7, dtype=np.float32), np.ones((5, 7), np.float32)
    found = run(made, {"x": broadcast, "y": matrix}, {"x": np.broadcast_to(x, (5, 7)), "y": y}, matrix)
    alone = run(first, {"x": row}, {"x": x}, row)
    assert np.array_equal(found, alone + y)


def test_what_is_not_fused_has_a_reason() -> None:
    t = TensorDesc(F32, (4,))
    softmax = nest_of(desc_of("ACTIVATION_SOFTMAX1", t, input_tensor=t, axes=(0,)), {"input_tensor": "x"})
    relu = nest_of(desc_of("ACTIVATION_RELU", t, input_tensor=t), {"input_tensor": "made"})
    wide = TensorDesc(F32, (3, 4))
    broadcast = TensorDesc(F32, (3, 4), strides=(0, 1))
    added = nest_of(desc_of("ELEMENT_WISE_ADD", wide, a_tensor=wide, b_tensor=broadcast), {"a_tensor": "x", "b_tensor": "made"})
    repeated = Nest(added.index, added.body.args[0] + Tensor("made", (4,), F32)[[added.index[1]]])
    assert fused(repeated, {"made": Producer(softmax, F32)}) == (
        "made is not a map, and some of its elements are read more than once, or not at all"
    )
    assert isinstance(fused(relu, {"made": Producer(softmax, F32)}), Nest)
    rows = nest_of(desc_of("ACTIVATION_SOFTMAX1", t, input_tensor=t, axes=(0,)), {"input_tensor": "made"})
    activated = nest_of(desc_of("ACTIVATION_RELU", t, input_tensor=t), {"input_tensor": "x"})
    assert fused(rows, {"made": Producer(activated, F32)}) == (
        "an element that is read more than once would be computed more than once"
    )
    chosen = nest_of(
        desc_of("ELEMENT_WISE_IF", t, condition_tensor=TensorDesc(U8, (4,)), a_tensor=t, b_tensor=t),
        {"condition_tensor": "c", "a_tensor": "made", "b_tensor": "y"},
    )
    assert fused(chosen, {"made": Producer(activated, F32)}) == "the bits of made are moved, and it is computed"


def test_the_reference_gives_the_same() -> None:
    """The exact evaluation of the fused statement, which is independent of kernels."""
    t = TensorDesc(I32, (6,))
    first = nest_of(desc_of("ELEMENT_WISE_ADD", t, a_tensor=t, b_tensor=t), {"a_tensor": "x", "b_tensor": "y"})
    second = nest_of(desc_of("ELEMENT_WISE_ABS", t, input_tensor=t), {"input_tensor": "made"})
    made = fused(second, {"made": Producer(first, I32)})
    assert isinstance(made, Nest)
    x = np.array([2**31 - 1, -(2**31), 5, -7, 0, 2**30], np.int32)
    y = np.array([1, -1, -9, 7, 0, 2**30], np.int32)
    exact = evaluators({"output": made}, {"output": I32}, {"x": x, "y": y})["output"].all((6,))
    with np.errstate(over="ignore"):
        assert np.array_equal(exact, np.abs(x + y))
    assert np.array_equal(run(made, dict.fromkeys("xy", t), {"x": x, "y": y}, t), exact)
