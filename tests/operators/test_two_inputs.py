"""Element-wise arithmetic, comparisons, logic and bits: the reference compared with the oracle, and the oracle with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from flint import fmpq
from numpy.typing import NDArray

import anydml as dml
import hostile_data
import oracle
from agreement import SOAK, agree, bits
from anydml import DataType, Device, FeatureLevel, TensorDesc, operators
from anydml.exact import functions
from anydml.exact.formats import FLOAT64
from anydml.exact.reals import encoded, refined
from anydml.kernels.evaluate.evaluator import evaluators
from anydml.kernels.match.moves import moves
from anydml.schema.bits import bit_count, bit_not
from anydml.schema.expression import Tensor, each
from anydml.schema.operator import Desc, example_desc
from anydml.schema.statement import nest, stated
from oracle import bitwise, logical, two_inputs

Array = NDArray[Any]
NAMES = (*two_inputs.OPERATORS, *logical.OPERATORS, *bitwise.OPERATORS)
REFERENCE = Device("reference")
every_name = pytest.mark.parametrize("name", NAMES)


def named(name: str) -> Any:
    """The desc class of an operator."""
    found = operators.find(name)
    assert found is not None, f"there is no {name}"
    return found


def kinds(name: str) -> Iterator[tuple[DataType, DataType]]:
    """Every type of the operator's elements, with every type that its output may have for it."""
    op = named(name)
    row = op.spec.table[FeatureLevel.FL_6_4]
    out = row["OutputTensor"].data_types
    free = "OutputTensor.DataType" not in {path for rule in op.spec.constraints for path in rule.paths}
    for data_type in row[op.spec.inputs[-1].wire].data_types:
        yield from ((data_type, o) for o in (out if free else (data_type,)))


def call(name: str, output: DataType, *arrays: Array) -> tuple[Desc, dict[str, Array]]:
    """The desc of an operator for arrays of one length, and its inputs by name."""
    op = named(name)
    inputs = {f.name: x for f, x in zip(op.spec.inputs, arrays, strict=True)}
    return op(**{n: TensorDesc.of(x) for n, x in inputs.items()}, output_tensor=TensorDesc(output, arrays[0].shape)), inputs


# --- hostile inputs ---


def drawn(rng: np.random.Generator, data_type: DataType, count: int) -> Array:
    """Random elements of every kind of `hostile_data`, and more zeros."""
    columns = [hostile_data.values(data_type.name, count, rng, kind) for kind in hostile_data.KINDS]
    columns.append(np.zeros(count, data_type.dtype))
    return np.stack(columns)[rng.integers(0, len(columns), count), np.arange(count)]


def drawn_pair(rng: np.random.Generator, data_type: DataType, count: int) -> tuple[Array, Array]:
    """Two rows: unrelated elements, equal and opposite ones, multiples and their neighbours, and shift counts."""
    a, b = drawn(rng, data_type, count), drawn(rng, data_type, count)
    dtype, kind = data_type.dtype, rng.integers(0, 10, count)
    with np.errstate(all="ignore"):
        a = np.where(kind == 0, b, np.where(kind == 1, np.negative(b), a))
        multiples = (b * rng.integers(1, 10, count).astype(dtype)).astype(dtype)
        beside = (bits(multiples) + rng.integers(-1, 2, count).astype(f"u{dtype.itemsize}")).view(dtype)
        a = np.where(kind == 2, multiples, np.where(kind == 3, beside, a))
        places = rng.integers(0, data_type.element_bits + 2, count)
        b = np.where(kind == 4, places.astype(dtype), b)
    return a.astype(dtype), b.astype(dtype)


@every_name
def test_operators_give_the_oracles_bits(name: str) -> None:
    rng, compared = np.random.default_rng(31), 0
    of = named(name).spec.inputs
    while compared < 5_000 * SOAK:
        for data_type, output in kinds(name):
            arrays = [*drawn_pair(rng, data_type, 500)][-len(of) :]
            if len(of) > 2:
                arrays.insert(0, drawn(rng, DataType.UINT8, 500))
            compared += agree(*call(name, output, *arrays))
    print(f"{name}: {compared} outputs")


def extremes(data_type: DataType) -> Array:
    """Every special value of a type once, several NaNs, and integers close to zero."""
    rng = np.random.default_rng(32)
    drawn = np.concatenate([hostile_data.values(data_type.name, 1000, rng, kind) for kind in ("specials", "small")])
    return np.unique(bits(drawn)).view(data_type.dtype)


def grid(data_type: DataType) -> tuple[Array, Array]:
    """Every pair of special values."""
    found = extremes(data_type)
    a, b = np.meshgrid(np.arange(found.size), np.arange(found.size))
    return found[a.ravel()], found[b.ravel()]


@every_name
def test_every_special_value_against_every_other(name: str) -> None:
    compared = 0
    count = len(named(name).spec.inputs)
    for data_type, output in kinds(name):
        pair = grid(data_type)
        if count == 1:
            compared += agree(*call(name, output, extremes(data_type)))
        elif count == 2:
            compared += agree(*call(name, output, *pair))
        else:
            for condition in (0, 1, 255):
                compared += agree(*call(name, output, np.full(pair[0].shape, condition, np.uint8), *pair))
    print(f"{name}: {compared} outputs")


# --- the oracle compared with NumPy ---


def truncated_quotient(a: Array, b: Array) -> Any:
    return a / b if a.dtype.kind == "f" else (a - np.fmod(a, b)) // b


def ones(x: Array) -> Any:
    return np.unpackbits(np.ascontiguousarray(x)[:, None].view(np.uint8), axis=1).sum(axis=1)


def shifted(up: bool) -> Callable[[Array, Array], Any]:
    def shift(a: Array, b: Array) -> Any:
        width = 8 * a.itemsize
        places = np.minimum(b, a.dtype.type(width - 1))
        return np.where(b < width, np.left_shift(a, places) if up else np.right_shift(a, places), 0)

    return shift


IN_NUMPY: dict[str, Callable[..., Any]] = {
    "SUBTRACT": np.subtract,
    "MULTIPLY": np.multiply,
    "DIVIDE": truncated_quotient,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "MODULUS_TRUNCATE": np.fmod,
    "MODULUS_FLOOR": np.remainder,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
    "LOGICAL_XOR": np.logical_xor,
    "LOGICAL_NOT": np.logical_not,
    "LOGICAL_EQUALS": np.equal,
    "LOGICAL_GREATER_THAN": np.greater,
    "LOGICAL_LESS_THAN": np.less,
    "LOGICAL_GREATER_THAN_OR_EQUAL": np.greater_equal,
    "LOGICAL_LESS_THAN_OR_EQUAL": np.less_equal,
    "BIT_AND": lambda a, b: (bits(a) & bits(b)).view(a.dtype),
    "BIT_OR": lambda a, b: (bits(a) | bits(b)).view(a.dtype),
    "BIT_XOR": lambda a, b: (bits(a) ^ bits(b)).view(a.dtype),
    "BIT_NOT": lambda a: (~bits(a)).view(a.dtype),
    "BIT_COUNT": ones,
    "BIT_SHIFT_LEFT": shifted(up=True),
    "BIT_SHIFT_RIGHT": shifted(up=False),
}


@pytest.mark.parametrize("name", IN_NUMPY)
def test_the_oracle_says_what_numpy_says(name: str) -> None:
    """Except for the signs of equal zeros in MAX and MIN, and for NaNs, which NumPy takes from the inputs."""
    wire = f"ELEMENT_WISE_{name}"
    rng = np.random.default_rng(33)
    for data_type, output in kinds(wire):
        count = len(named(wire).spec.inputs)
        arrays = [np.concatenate(x) for x in zip(grid(data_type), drawn_pair(rng, data_type, 500), strict=True)][:count]
        desc, inputs = call(wire, output, *arrays)
        sizes = arrays[0].shape
        found = oracle.compute(wire, {}, inputs, {"output_tensor": (sizes, output.dtype)})["output_tensor"]
        with np.errstate(all="ignore"):
            wanted = np.asarray(IN_NUMPY[name](*arrays)).astype(output.dtype)
        same = bits(found) == bits(wanted)
        if output.dtype.kind == "f" and not name.startswith("BIT_"):
            same |= np.isnan(found) & np.isnan(wanted)
            if name in ("MAX", "MIN"):
                same |= (found == 0) & (wanted == 0)
        assert same.all(), f"{[x[~same][0] for x in arrays]}: {found[~same][0]!r} where NumPy has {wanted[~same][0]!r}: {desc}"


def test_the_zeros_of_max_and_min_are_in_order() -> None:
    for name, wanted in (("MAX", [0.0, 0.0, 0.0, -0.0]), ("MIN", [0.0, -0.0, -0.0, -0.0])):
        desc, inputs = call(
            f"ELEMENT_WISE_{name}", DataType.FLOAT32, *np.array([[0, 0, -0.0, -0.0], [0, -0.0, 0, -0.0]], np.float32)
        )
        found = oracle.compute(desc.spec.name, {}, inputs, {"output_tensor": ((4,), np.float32)})["output_tensor"]
        assert np.signbit(found).tolist() == np.signbit(wanted).tolist()


def test_means_are_exact_before_they_are_rounded() -> None:
    """The sum of the largest numbers does not overflow, and keeps bits that decide a tie; integers are truncated."""
    largest = np.finfo(np.float32).max
    for a, b, wanted in (
        (np.float32(largest), np.float32(largest), largest),
        (np.float32(2**-149), np.float32(2**-149), 2**-149),
        (np.float32(2**-149), np.float32(0), 0),
        (np.float32(3 * 2**-149), np.float32(0), 2**-148),
        (np.float32(1 + 2**-23), np.float32(1), 1),
        (np.int32(-(2**31)), np.int32(-(2**31)), -(2**31)),
        (np.int32(-3), np.int32(2), 0),
        (np.uint32(2**32 - 1), np.uint32(2**32 - 2), 2**32 - 2),
    ):
        assert dml.element_wise_mean(np.array([a]), np.array([b]), device=REFERENCE).tolist() == [wanted]


# --- in eager calls ---

TRUE, FALSE = np.array([True, False, True]), np.array([False, False, True])
LOGIC: dict[str, tuple[Callable[[], Any], list[int]]] = {
    "bool arrays": (lambda: dml.element_wise_logical_and(TRUE, FALSE, device=REFERENCE), [0, 0, 1]),
    "bool and uint8": (lambda: dml.element_wise_logical_or(TRUE, np.array([0, 7, 0], np.uint8), device=REFERENCE), [1, 1, 1]),
    "bool and a number": (lambda: dml.element_wise_logical_xor(TRUE, True, device=REFERENCE), [0, 1, 0]),
    "one bool array": (lambda: dml.element_wise_logical_not(TRUE, device=REFERENCE), [0, 1, 0]),
    "a comparison": (
        lambda: dml.element_wise_logical_less_than(np.arange(3.0, dtype=np.float32), 1, device=REFERENCE),
        [1, 0, 0],
    ),
}


@pytest.mark.parametrize("case", LOGIC)
def test_truth_values_are_bool_or_uint8_and_come_back_as_uint8(case: str) -> None:
    compute, wanted = LOGIC[case]
    found = compute()
    assert found.dtype == np.uint8
    assert found.tolist() == wanted
    assert found.view(np.bool_).tolist() == [bool(x) for x in wanted]


def test_a_condition_may_be_bool_and_is_broadcast() -> None:
    a = np.arange(6, dtype=np.float16).reshape(2, 3)
    assert dml.element_wise_if(TRUE, a, -1, device=REFERENCE).tolist() == [[0, -1, 2], [3, -1, 5]]
    assert dml.element_wise_if(True, a, a, device=REFERENCE).tolist() == a.tolist()


def test_bool_arrays_are_refused_where_nothing_is_true() -> None:
    """They are neither numbers nor zero points, even at a level at which these are UINT8; at level 1.0, truth values are
    UINT32."""
    x = np.ones(3, np.float32)
    with pytest.raises(dml.BindingError, match="a is bool; feature level 6_4 takes"):
        dml.element_wise_subtract(TRUE, FALSE, device=REFERENCE)
    with pytest.raises(dml.BindingError, match="zero_point is bool; feature level 2_0 takes uint8 here"):
        dml.element_wise_quantize_linear(x, x, TRUE, device=Device("reference", feature_level="2_0"))
    with pytest.raises(dml.BindingError, match="a is bool; feature level 1_0 takes uint32 here"):
        dml.element_wise_logical_and(TRUE, FALSE, device=Device("reference", feature_level="1_0"))


# --- expressions ---


@pytest.mark.parametrize("name", ["IF", *(n.removeprefix("ELEMENT_WISE_") for n in bitwise.OPERATORS)])
def test_what_depends_on_data_is_no_copy(name: str) -> None:
    assert isinstance(moves(stated(example_desc(named(f"ELEMENT_WISE_{name}")))), str)


def test_bits_are_of_elements_and_not_of_numbers() -> None:
    i, x = each((1,)), Tensor("x", (1,), DataType.INT8)
    with pytest.raises(TypeError, match="the bits of an element are counted"):
        bit_count(x[i] + 1)
    with pytest.raises(TypeError, match="bit_not is of elements whose bits are moved"):
        evaluators({"y": nest(i, bit_not(x[i]))}, {"y": DataType.INT8}, {"x": np.ones(1, np.int8)})


def test_remainders_of_irrational_numbers_are_refined_until_they_are_known() -> None:
    """The remainders of e^3 = 20.0855.. by 0.25 and by -0.25."""
    third = fmpq(3)
    for f, y, wanted in (
        (functions.fmod, fmpq(1, 4), 0.08553692318766774),
        (functions.floor_mod, fmpq(1, 4), 0.08553692318766774),
        (functions.fmod, fmpq(-1, 4), 0.08553692318766774),
        (functions.floor_mod, fmpq(-1, 4), -0.16446307681233226),
    ):
        found = refined(lambda f=f, y=y: encoded(f(functions.exp(third), y), FLOAT64))  # type: ignore[misc]
        assert np.array(found, np.uint64).view(np.float64) == pytest.approx(wanted, rel=1e-15)
