"""BFLOAT16 in each family of kernels, beside the oracle: at length, 10^5 outputs of every family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import hostile_data
import oracle
from agreement import SOAK, expected
from anydml import DataType, FeatureLevel, TensorDesc, operators
from anydml.kernels.code import targets
from anydml.schema.field import INPUT, OUTPUT
from anydml.schema.operator import Desc, example_desc
from every_kernel import Compared, run
from extended_types import with_type
from tensors import bound_as

BFLOAT16 = DataType.BFLOAT16
ISAS = [target.name for target in targets.targets()]
OUTPUTS = 20 if SOAK == 1 else 1700 * SOAK  # of a family: 102,000 for 60
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
# families whose operators' examples are too small, or too few, to compare many outputs: these have larger tensors
LARGE = ("attention", "contract", "contract.floats", "recurrence")
OTHERS = ("copy", "elementwise", "irregular", "nests", "order", "reduce", "scan", "windows")


def of_example(name: str, sizes: Mapping[str, tuple[int, ...]], **fields: Any) -> Desc:
    """The example of an operator with tensors of other sizes, of BFLOAT16 where it has floats; other optional ones are left
    out."""
    operator = operators.find(name)
    assert operator is not None
    example = example_desc(operator)
    floats = {t.name: t.desc.data_type.is_float for t in example.tensors()}
    takes = operator.spec.table[FeatureLevel.EXTENDED]
    changed: dict[str, Any] = {f.name: None for f in operator.spec.tensors if f.optional}
    for f in operator.spec.tensors:
        if f.name in sizes:
            kind = BFLOAT16 if floats.get(f.name, BFLOAT16 in takes[f.wire].data_types) else getattr(example, f.name).data_type
            changed[f.name] = TensorDesc(kind, sizes[f.name])
    return replace(example, **changed, **fields)


def recurrence(rng: np.random.Generator) -> Desc:
    name = str(rng.choice([*GATES]))
    steps, sequences, width, hidden = 3, 40, int(rng.integers(1, 6)), int(rng.integers(2, 7))
    gates = GATES[name] * hidden
    sizes = {
        "input_tensor": (1, steps, sequences, width),
        "weight_tensor": (1, 1, gates, width),
        "recurrence_tensor": (1, 1, gates, hidden),
        "bias_tensor": (1, 1, 1, 2 * gates),
        "hidden_init_tensor": (1, 1, sequences, hidden),
        "output_sequence_tensor": (steps, 1, sequences, hidden),
        "output_single_tensor": (1, 1, sequences, hidden),
    }
    tanh, sigmoid = (operators.find(f"ACTIVATION_{kind}") for kind in ("TANH", "SIGMOID"))
    assert tanh is not None
    assert sigmoid is not None
    functions = {"RNN": (tanh(),), "GRU": (sigmoid(), tanh()), "LSTM": (sigmoid(), tanh(), tanh())}[name]
    return of_example(name, sizes, activation_descs=functions)


def attention(rng: np.random.Generator) -> Desc:
    batch, queries, heads, size = 2, 16, 2, int(rng.integers(1, 12))
    keys = int(rng.integers(1, 20 if rng.random() < 0.1 else 5))  # the oracle takes a millisecond for each, and each output
    name = str(rng.choice(["MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1"]))
    tensors = {"query_tensor": queries, "key_tensor": keys, "value_tensor": keys, "output_tensor": queries}
    sizes: dict[str, tuple[int, ...]] = {field: (batch, n, heads * size) for field, n in tensors.items()}
    if name == "MULTIHEAD_ATTENTION":
        sizes = {field: (1, *s) for field, s in sizes.items()}
        return of_example(name, sizes, head_count=heads, scale=size**-0.5, mask_type="NONE")
    return of_example(name, sizes, query_head_count=heads, key_value_head_count=heads, scale=size**-0.5, mask_type="NONE")


def product(rng: np.random.Generator) -> Desc:
    if rng.integers(3):
        m, k, n = (int(rng.integers(1, most)) for most in (60, 40, 60))
        return of_example("GEMM", {"a_tensor": (1, 1, m, k), "b_tensor": (1, 1, k, n), "output_tensor": (1, 1, m, n)})
    c, f, y, x = (int(rng.integers(1, most)) for most in (6, 9, 12, 20))
    sizes = {"input_tensor": (1, c, y + 2, x + 2), "filter_tensor": (f, c, 3, 3), "output_tensor": (1, f, y, x)}
    plain: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "group_count": 1}
    around = {"start_padding": (0, 0), "end_padding": (0, 0), "output_padding": (0, 0)}
    return of_example("CONVOLUTION", sizes, **plain, **around, direction="FORWARD", mode="CROSS_CORRELATION")


def integers(rng: np.random.Generator) -> Desc:
    m, k, n = (int(rng.integers(1, most)) for most in (60, 40, 60))
    sizes = {
        "a_tensor": (1, 1, m, k), "a_scale_tensor": (1, 1, 1, 1), "a_zero_point_tensor": (1, 1, 1, 1),
        "b_tensor": (1, 1, k, n), "b_scale_tensor": (1, 1, 1, n), "b_zero_point_tensor": (1, 1, 1, n),
        "bias_tensor": (1, 1, m, n), "output_tensor": (1, 1, m, n),
    }  # fmt: skip
    return of_example("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", sizes)


MAKERS = {"attention": attention, "contract": integers, "contract.floats": product, "recurrence": recurrence}


@cache
def operators_by_family() -> dict[str, list[type[Desc]]]:
    """The operators of the other families, by the kernel of a small desc."""
    found: dict[str, list[type[Desc]]] = {}
    device = dml.Device(feature_level="EXTENDED")
    for operator in operators.every():
        desc = with_type(operator, BFLOAT16, "0") if _takes(operator) else None
        if desc is not None:
            found.setdefault(device.compile(desc).kernel_name.partition(":")[0], []).append(operator)
    return found


def _takes(operator: type[Desc]) -> bool:
    return any(BFLOAT16 in s.data_types for s in operator.spec.table[FeatureLevel.EXTENDED].values())


def descs(family: str) -> Iterator[tuple[Desc, np.random.Generator]]:
    """Descs of a family, without end, each with random numbers."""
    for turn in count():
        if family in MAKERS:
            rng = np.random.default_rng([turn, len(family)])
            yield MAKERS[family](rng), rng
            continue
        for number, operator in enumerate(operators_by_family()[family]):
            desc = with_type(operator, BFLOAT16, f"{operator.spec.name} {turn} at length")
            if desc is not None:
                yield desc, np.random.default_rng([turn, number, 1])


def values(desc: Desc, t: TensorDesc, wire: str, rng: np.random.Generator) -> NDArray[Any]:
    """The elements of an input as they are bound, of which none breaks a rule."""
    with np.errstate(all="ignore"):
        kind = rng.choice([*hostile_data.KINDS, "ordinary", "ordinary"])
        made = hostile_data.values(t.data_type.name, t.sizes, rng, str(kind))
        for rule in desc.spec.data_rules:
            for fit in (1, 0, 2) if wire in rule.tensors else ():
                made[rule.breaks(desc, made)] = fit
    return made.view(bound_as(t))


@pytest.mark.parametrize("family", ("recurrence",) if SOAK == 1 else (*LARGE, *OTHERS))
def test_every_family_is_exact(family: str, compared: Compared) -> None:
    outputs = unknown = 0
    for number, (desc, rng) in enumerate(descs(family)):
        tensors = {t.name: t for t in desc.tensors() if t.desc.data_type.element_bits >= 8}
        inputs = {n: values(desc, t.desc, t.field.wire, rng) for n, t in tensors.items() if t.field.role == INPUT}
        device = dml.Device(isa=ISAS[number % len(ISAS)], threads=1 + number % 2, feature_level="EXTENDED")
        compiled = device.compile(desc)
        if not compiled.kernel_name.startswith(f"{family}:"):
            continue  # sizes may give an operator another kernel
        try:
            wanted = expected(desc, inputs)
        except oracle.Undecided:  # a sum of powers beyond all numbers that the oracle cannot tell from zero
            unknown += 1
            continue
        made = {n: np.zeros(t.desc.sizes, bound_as(t.desc)) for n, t in tensors.items() if t.field.role == OUTPUT}
        run(compiled, inputs, made)
        for n, x in wanted.items():
            assert np.array_equal(x, made[n]), f"{desc.spec.name} {n}, {number}, {compiled.kernel_name} on {device}"
            outputs += x.size
        if outputs >= OUTPUTS:
            break
    assert unknown <= (number + 1) // 10
    compared(f"of {family} in BFLOAT16", outputs, OUTPUTS)


@pytest.mark.skipif(SOAK == 1, reason="it compiles a desc of every operator")
def test_all_families_are_named() -> None:
    assert operators_by_family().keys() == {*LARGE, *OTHERS}
