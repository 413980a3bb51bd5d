"""Functions in pairs of float32: results are those of float64, and margins that are too small are found."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anydml import DataType, Device, TensorDesc, operators
from anydml.kernels.code import engine
from anydml.kernels.code.targets import X86, Target
from anydml.kernels.code.values import Body, Value
from anydml.kernels.elementwise import emit
from anydml.kernels.elementwise.key import MapKey, lanes_in_pairs
from anydml.kernels.elementwise.streams import CONTIGUOUS
from anydml.kernels.match.normal_form import Node, NormalForm
from anydml.kernels.numbers.functions import paired
from anydml.kernels.numbers.functions.pair_intervals import PairInterval
from anydml.kernels.reference import evaluated
from anydml.schema.node import Constant
from every_kernel import without_dot_products

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
import prove_pairs

SERVED = [t for t in without_dot_products() if paired.serves(Body(t))]
OPERATORS = {"exp": "ELEMENT_WISE_EXP", "sigmoid": "ACTIVATION_SIGMOID", "tanh": "ELEMENT_WISE_TANH", "log": "ELEMENT_WISE_LOG"}
OPERATORS |= {"erf": "ELEMENT_WISE_ERF", "gelu": "ACTIVATION_GELU", "sin": "ELEMENT_WISE_SIN", "cos": "ELEMENT_WISE_COS"}
every_function = pytest.mark.parametrize("name", paired.FUNCTIONS)
every_target = pytest.mark.parametrize("target", SERVED, ids=lambda t: t.name)


def arguments(seed: int) -> prove_pairs.Words:
    """The bits of all kinds of arguments: any, of magnitude one, close to multiples of log 2 / 64, and special ones."""
    random = np.random.default_rng(seed)
    n = 1 << 15
    near = random.integers(-4400, 4400, n) * (np.log(2) / 64) * (1 + random.integers(-4, 5, n) * 2.0**-24)
    edges = [77, 78, 87.3, 88.7, 103.9, 104, 126, 0, 1, np.inf, np.nan, 2**-149, 2**-126, 2**-60, 2**-9, 9.1, 20]
    edges += [2**-90, 3.9375, 5.625]  # limits of erf and GELU
    steps = np.concatenate([s * np.array(edges) * (1 + k * 2.0**-23) for k in range(-40, 41) for s in (1, -1)])
    values = [random.standard_normal(n) * s for s in (0.01, 1, 8)] + [near, 1 + near * 2.0**-10, steps]
    with np.errstate(all="ignore"):
        floats = np.concatenate(values).astype(np.float32)
    return np.concatenate([floats.view(np.uint32), random.integers(0, 1 << 32, n, dtype=np.uint32)])


def blocks(seed: int) -> list[prove_pairs.Words]:
    x = arguments(seed)
    return [x[i : i + prove_pairs.BLOCK] for i in range(0, len(x), prove_pairs.BLOCK)]


@every_target
@every_function
def test_pairs_decide_as_float64_does(name: str, target: Target) -> None:
    found = prove_pairs.proved(prove_pairs.formula(name), target, blocks(len(name)))
    assert found.tried > 150_000
    assert found.wrong == []
    assert prove_pairs.unbounded(name, target, (x[: x.size & -8] for x in blocks(len(name)))) == 0


@pytest.mark.usefixtures("own_code")
@every_target
@every_function
def test_a_pair_without_a_margin_is_found_out(name: str, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    function = paired.FUNCTIONS[name]

    def certain(x: Value) -> PairInterval:
        made = function(x)
        return made._replace(high=made.low, sums=None)

    monkeypatch.setitem(paired.FUNCTIONS, name, certain)
    assert prove_pairs.proved(prove_pairs.formula(name), target, blocks(1)).wrong


X = Node("stream", (), (0, DataType.FLOAT32))
TWO, ZERO = Node("constant", (), Constant(Fraction(-2), False)), Node("constant", (), Constant(Fraction(0), False))
COMPOSED = {
    "-exp(x)": (X, Node("exp", (0,), None), Node("neg", (1,), None)),
    "x tanh(x)": (X, Node("tanh", (0,), None), Node("mul", (0, 1), None)),
    "x sigmoid(x), -0 at -inf": (
        X,
        Node("sigmoid", (0,), None),
        Node("mul", (1, 0), None),
        Node("limits", (0, 2), (("low", "-0.0"),)),
    ),
    "x erf(x)": (X, Node("erf", (0,), None), Node("mul", (0, 1), None)),
    "-gelu(x), -0 at -inf": (
        X,
        Node("gelu", (0,), None),
        Node("neg", (1,), None),
        Node("limits", (0, 2), (("low", "-0.0"),)),
    ),
    "-2 (-tanh(x))": (X, Node("tanh", (0,), None), Node("neg", (1,), None), TWO, Node("mul", (2, 3), None)),
    "x log(x) if x > 0, else -exp(x)": (
        X,
        ZERO,
        Node("less", (1, 0), None),
        Node("log", (0,), None),
        Node("mul", (0, 3), None),
        Node("exp", (0,), None),
        Node("neg", (5,), None),
        Node("select", (2, 4, 6), None),
    ),
    "x if x > 0, else tanh(x)": (
        X,
        ZERO,
        Node("less", (1, 0), None),
        Node("tanh", (0,), None),
        Node("select", (2, 0, 3), None),
    ),
}


@every_target
@pytest.mark.parametrize("formula", COMPOSED.values(), ids=COMPOSED)
def test_what_is_made_of_pairs_is_decided_as_in_float64(formula: NormalForm, target: Target) -> None:
    random = np.random.default_rng(5)
    normal = (random.standard_normal(1 << 18) * 3).astype(np.float32).view(np.uint32)
    special = random.choice(arguments(2), 2000)
    found = prove_pairs.proved(formula, target, [np.concatenate([normal, special])])
    assert found.wrong == []
    paired_alone = prove_pairs.Compiled(target, formula, ("paired",))
    usual = normal[np.abs(normal.view(np.float32)) < 3]
    _, undecided = paired_alone(usual)
    assert undecided.size < usual.size / 50


@every_function
@pytest.mark.parametrize("n", [1, 7, 33, 5000])
def test_an_operator_in_pairs_gives_the_bits_of_the_reference(name: str, n: int) -> None:
    bits = arguments(n)
    x = np.random.default_rng(n).choice(bits, n).view(np.float32)
    if n == 5000:
        x[1000:2000] = -1000  # whole groups that pairs do not serve
    operator: Any = operators.find(OPERATORS[name])
    desc = operator(input_tensor=TensorDesc(DataType.FLOAT32, (n,)), output_tensor=TensorDesc(DataType.FLOAT32, (n,)))
    made = Device("cpu").compile(desc)
    assert made.kernel_name == "elementwise:compiled"
    tensors = [t.name for t in made.desc.tensors()]
    y = np.empty_like(x)
    made.bind(**{tensors[0]: x, tensors[-1]: y}).execute()
    wanted = evaluated(made.desc, {tensors[0]: x})[tensors[-1]]
    assert y.view(np.uint32).tolist() == wanted.view(np.uint32).tolist()


@every_function
def test_code_for_wide_vectors_calls_nothing_but_its_stages(name: str) -> None:
    """For every target of the table, also those that this machine does not have."""
    for target in X86[1:]:
        lanes = lanes_in_pairs(target)
        layouts = (CONTIGUOUS, CONTIGUOUS)
        key = MapKey(
            prove_pairs.formula(name), False, False, prove_pairs.TYPES, layouts, 0, lanes, False, ("paired", "wide"), True
        )
        text = engine.assembly(emit.emitted(target, key), target)
        assert name in paired.MIXED or text.count("vperm") >= 4
        assert "@PLT" not in text
