"""Operators that sum, select and recur: the reference compared with the oracle, on hostile data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import hostile_data
from agreement import agree, agree_on, computed
from anydml import DataType, TensorDesc, operators
from anydml.errors import DataError
from anydml.exact import reals
from anydml.schema.enumerations import ReduceFunction
from anydml.schema.operator import Desc
from anydml.schema.types import ELEVEN, FLOATS, INDICES, TEN

Rng = np.random.Generator
Case = tuple[Desc, dict[str, Any]]
FLOAT32, FLOAT16 = FLOATS
TINY, HUGE = 2.0**-149, float(np.finfo(np.float32).max)
WORDS = (*FLOATS, DataType.INT32, DataType.UINT32, DataType.INT64, DataType.UINT64)
ARGUMENTS = (ReduceFunction.ARGMAX, ReduceFunction.ARGMIN)


def named(name: str) -> Any:
    """The desc class of an operator."""
    found = operators.find(name)
    assert found is not None, f"there is no {name}"
    return found


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(0, len(values)))]


def drawn(rng: Rng, data_type: DataType, sizes: tuple[int, ...], kind: str | None = None) -> NDArray[Any]:
    return hostile_data.values(data_type.name, sizes, rng, kind or pick(rng, hostile_data.KINDS))


def some_sizes(rng: Rng, most: int, count: int | None = None) -> tuple[int, ...]:
    """Sizes in one to four dimensions with at most this many elements."""
    sizes: list[int] = []
    for _ in range(count or int(rng.integers(1, 5))):
        size = int(rng.integers(1, min(most, 9) + 1))
        sizes.append(size)
        most //= size
    rng.shuffle(sizes)
    return tuple(sizes)


def some_axes(rng: Rng, count: int) -> tuple[int, ...]:
    return tuple(int(a) for a in rng.permutation(count)[: int(rng.integers(1, count + 1))])


# --- cases ---


def softmax(rng: Rng) -> Case:
    data_type = pick(rng, FLOATS)
    if rng.random() < 0.3:
        sizes = (*(1,) * int(rng.integers(0, 3)), *some_sizes(rng, 60, 2))
        t = TensorDesc(data_type, sizes)
        return named("ACTIVATION_SOFTMAX")(input_tensor=t, output_tensor=t), {"input_tensor": drawn(rng, data_type, sizes)}
    sizes = some_sizes(rng, 60)
    t = TensorDesc(data_type, sizes)
    x = drawn(rng, data_type, sizes)
    if rng.random() < 0.3:  # close to each other
        x = (pick(rng, [0.0, 1.0, 87.0, -1e4]) + x * pick(rng, [2.0**-10, 1.0])).astype(x.dtype)
    desc = named("ACTIVATION_SOFTMAX1")(input_tensor=t, output_tensor=t, axes=some_axes(rng, len(sizes)))
    return desc, {"input_tensor": x}


def reduction(function: ReduceFunction) -> Callable[[Rng], Case]:
    def case(rng: Rng) -> Case:
        floats = function.name in ("AVERAGE", "L2", "LOG_SUM", "LOG_SUM_EXP")
        data_type = pick(
            rng, FLOATS if floats or rng.random() < 0.6 else TEN if function.name.startswith(("ARG", "M")) else WORDS
        )
        if function == ReduceFunction.MULTIPLY and data_type not in WORDS:
            data_type = pick(rng, WORDS)
        sizes = some_sizes(rng, 250)
        axes = some_axes(rng, len(sizes))
        reduced = tuple(1 if a in axes else n for a, n in enumerate(sizes))
        to = pick(rng, INDICES) if function in ARGUMENTS else data_type
        x = drawn(rng, data_type, sizes)
        if function.name.startswith("LOG") and rng.random() < 0.6:
            x = abs(x)
        desc = named("REDUCE")(
            function=function, input_tensor=TensorDesc(data_type, sizes), output_tensor=TensorDesc(to, reduced), axes=axes
        )
        return desc, {"input_tensor": x}

    return case


def top_k(rng: Rng) -> Case:
    data_type = pick(rng, TEN)
    sizes = some_sizes(rng, 200)
    axis = int(rng.integers(0, len(sizes)))
    k = int(rng.integers(1, sizes[axis] + 1))
    selected = (*sizes[:axis], k, *sizes[axis + 1 :])
    fields: dict[str, Any] = dict(
        input_tensor=TensorDesc(data_type, sizes), output_value_tensor=TensorDesc(data_type, selected),
        output_index_tensor=TensorDesc(pick(rng, (DataType.UINT32, DataType.UINT64)), selected), axis=axis, k=k,
    )  # fmt: skip
    direction = pick(rng, (None, "INCREASING", "DECREASING"))
    desc = named("TOP_K")(**fields) if direction is None else named("TOP_K1")(**fields, axis_direction=direction)
    kind = pick(rng, ("small", "specials", "ties", "wide"))
    return desc, {"input_tensor": drawn(rng, data_type, sizes, kind)}


def gather(rng: Rng) -> Case:
    data_type, indexed = pick(rng, ELEVEN), pick(rng, INDICES)
    count = int(rng.integers(1, 5))
    index_dimensions = int(rng.integers(0, count + 1))
    # as many leading sizes of 1 as needed for an output with no more dimensions than the input
    leading = int(rng.integers(min(max(index_dimensions - 1, 0), count - 1), count)) if index_dimensions else 0
    if index_dimensions and leading < index_dimensions - 1:
        index_dimensions = leading + 1
    sizes = (*(1,) * leading, *some_sizes(rng, 40, count - leading))
    axis = int(rng.integers(leading, count))
    taken = some_sizes(rng, 12, index_dimensions) if index_dimensions else ()
    whole = (*sizes[:axis], *taken, *sizes[axis + 1 :])
    output = whole[len(whole) - count :] if len(whole) >= count else (1,) * (count - len(whole)) + whole
    size = sizes[axis]
    low = -size if indexed.name.startswith("INT") else 0
    indices = rng.integers(low, size, (*(1,) * (count - index_dimensions), *taken)).astype(indexed.dtype)
    desc = named("GATHER")(
        input_tensor=TensorDesc(data_type, sizes), indices_tensor=TensorDesc(indexed, indices.shape),
        output_tensor=TensorDesc(data_type, output), axis=axis, index_dimensions=index_dimensions,
    )  # fmt: skip
    return desc, {"input_tensor": drawn(rng, data_type, sizes, "specials"), "indices_tensor": indices}


def fused(rng: Rng) -> Desc:
    made: Desc = pick(rng, (
        named("ACTIVATION_RELU")(), named("ACTIVATION_LEAKY_RELU")(alpha=0.1), named("ACTIVATION_TANH")(),
        named("ACTIVATION_SIGMOID")(), named("ACTIVATION_HARD_SIGMOID")(alpha=0.2, beta=0.5), named("ACTIVATION_SOFTSIGN")(),
        named("ACTIVATION_ELU")(alpha=1.0), named("ACTIVATION_LINEAR")(alpha=2.0, beta=-1.0),
    ))  # fmt: skip
    return made


def convolution(rng: Rng) -> Case:
    data_type, count = pick(rng, FLOATS), int(rng.integers(1, 4))
    backward = bool(rng.random() < 0.5)
    groups, batches = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    read, written = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    inner = [int(rng.integers(1, 6 - count)) for _ in range(count)]
    taps = [int(rng.integers(1, 4)) for _ in range(count)]
    strides, dilations = ([int(rng.integers(1, 4)) for _ in range(count)] for _ in range(2))
    start, end, beyond = ([int(rng.integers(0, 3)) for _ in range(count)] for _ in range(3))
    outer = []
    for a in range(count):
        extent = 1 + (taps[a] - 1) * dilations[a]
        if backward:
            end[a] = min(end[a], max((inner[a] - 1) * strides[a] + extent - start[a] - 1, 0))
            size = (inner[a] - 1) * strides[a] + extent - start[a] - end[a] + int(rng.integers(0, strides[a]))
        else:
            end[a] += max(extent - inner[a] - start[a] - end[a], 0)
            size = 1 + (inner[a] + start[a] + end[a] - extent) // strides[a]
        outer.append(max(size, 1 - beyond[a]) + beyond[a])
        if backward and size + beyond[a] < 1:
            start[a], outer[a] = 0, outer[a] + start[a] + beyond[a] + size - (size + beyond[a])
            outer[a] = (inner[a] - 1) * strides[a] + extent - end[a] + beyond[a]
    channels, filters = (groups * read, written) if backward else (read, groups * written)
    outputs = groups * written
    x = (batches, groups * read, *inner)
    f = (channels, filters, *taps) if backward else (filters, channels, *taps)
    b = (1, outputs, *(1,) * count)
    biased, kind = bool(rng.random() < 0.5), pick(rng, hostile_data.KINDS)
    desc = named("CONVOLUTION")(
        input_tensor=TensorDesc(data_type, x), filter_tensor=TensorDesc(data_type, f),
        bias_tensor=TensorDesc(data_type, b) if biased else None,
        output_tensor=TensorDesc(data_type, (batches, outputs, *outer)),
        mode=pick(rng, ("CONVOLUTION", "CROSS_CORRELATION")), direction="BACKWARD" if backward else "FORWARD",
        strides=strides, dilations=dilations, start_padding=start, end_padding=end, output_padding=beyond, group_count=groups,
        fused_activation=fused(rng) if rng.random() < 0.3 else None,
    )  # fmt: skip
    inputs = {"input_tensor": drawn(rng, data_type, x, kind), "filter_tensor": drawn(rng, data_type, f, kind)}
    return desc, inputs | ({"bias_tensor": drawn(rng, data_type, b, kind)} if biased else {})


def lstm(rng: Rng) -> Case:
    data_type = pick(rng, FLOATS)
    direction = pick(rng, ("FORWARD", "BACKWARD", "BIDIRECTIONAL"))
    directions = 2 if direction == "BIDIRECTIONAL" else 1
    steps, batches, size, hidden = (int(rng.integers(1, most)) for most in (6, 3, 4, 4))
    float_sizes = dict(
        input_tensor=(1, steps, batches, size), weight_tensor=(1, directions, 4 * hidden, size),
        recurrence_tensor=(1, directions, 4 * hidden, hidden), bias_tensor=(1, 1, directions, 8 * hidden),
        hidden_init_tensor=(1, directions, batches, hidden), cell_mem_init_tensor=(1, directions, batches, hidden),
        peephole_tensor=(1, 1, directions, 3 * hidden),
    )  # fmt: skip
    kind = pick(rng, ("ordinary", "ordinary", "ordinary", *hostile_data.KINDS))
    inputs: dict[str, Any] = {
        name: drawn(rng, data_type, sizes, kind)
        for name, sizes in float_sizes.items()
        if rng.random() < 0.7 or name in ("input_tensor", "weight_tensor", "recurrence_tensor")
    }
    tensors = {name: TensorDesc.of(array) for name, array in inputs.items()}
    if rng.random() < 0.6:
        inputs["sequence_lengths_tensor"] = rng.integers(0, steps + 2, (1, 1, 1, batches)).astype(np.uint32)
        tensors["sequence_lengths_tensor"] = TensorDesc.of(inputs["sequence_lengths_tensor"])
    last = TensorDesc(data_type, (1, directions, batches, hidden))
    asked = rng.permutation(3)[: int(rng.integers(1, 4))]
    outputs = {
        "output_sequence_tensor": TensorDesc(data_type, (steps, directions, batches, hidden)),
        "output_single_tensor": last, "output_cell_single_tensor": last,
    }  # fmt: skip
    usual = (named("ACTIVATION_SIGMOID")(), named("ACTIVATION_TANH")(), named("ACTIVATION_TANH")()) * directions
    desc = named("LSTM")(
        **tensors, **{name: t for i, (name, t) in enumerate(outputs.items()) if i in asked},
        activation_descs=usual if rng.random() < 0.7 else [fused(rng) for _ in usual], direction=direction,
        clip_threshold=pick(rng, (0.0, 0.5, 1.0, 3e38)), use_clip_threshold=bool(rng.random() < 0.3),
        couple_input_forget=bool(rng.random() < 0.3),
    )  # fmt: skip
    return desc, inputs


CASES: dict[str, tuple[Callable[[Rng], Case], int]] = {
    "SOFTMAX": (softmax, 4_000),
    **{f"REDUCE {function}": (reduction(function), 1_000) for function in ReduceFunction},
    "TOP_K": (top_k, 4_000),
    "GATHER": (gather, 4_000),
    "CONVOLUTION": (convolution, 4_000),
    "LSTM": (lstm, 1_000),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_the_reference_gives_the_oracles_bits(name: str) -> None:
    print(f"{name}: {agree_on(*CASES[name], seed=22)} outputs")


# --- evaluations that must end, and others that must not begin ---

# rows of equal, nearly equal and extreme elements
HOSTILE: dict[str, list[float]] = {
    "all equal": [5] * 8,
    "all the largest": [HUGE] * 8,
    "all the lowest": [-HUGE] * 8,
    "one huge": [HUGE] + [0] * 7,
    "one low": [-HUGE] + [0] * 7,
    "the extremes": [HUGE, -HUGE] * 4,
    "subnormal": [TINY, 2 * TINY, 3 * TINY, 0, -0.0, -TINY, 5 * TINY, 7 * TINY],
    "subnormal differences": [0, TINY, 0, 0, 0, 0, 0, 0],
    "the next to one": [1, 1 + 2.0**-23, 1, 1, 1, 1, 1, 1],
    "sums next to one": [1 + 2.0**-23, -(2.0**-23), TINY, 0, 0, 0, 0, 0],
    "sums next to zero": [1, -1, TINY, 0, 0, 0, 0, 0],
    "huge and tiny": [TINY, HUGE, -HUGE, -TINY, 1, -1, 0, 0],
    "powers that underflow": [0, -87.4, -88, -103.97, -104, -103.972, -200, -1e4],
    "powers that vanish": [0, -1e30, -1e30, -1e31, -1e30, -HUGE, -1e35, -1e5],
    "powers at every precision": [0, -50, -100, -400, -800, -1e4, -1e30, -HUGE],
    "the logarithm of two": [-0.6931472, -0.6931472, -1e3, -1e4, -1e5, -HUGE, -HUGE, -HUGE],
    "an infinity": [-math.inf] * 7 + [3],
    "infinities": [-math.inf] * 8,
}


@pytest.mark.parametrize("row", HOSTILE)
@pytest.mark.filterwarnings("ignore:overflow")
def test_every_evaluation_ends(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reals, "LAST", reals.CUTOFF)  # the number of bits that decide everything
    for data_type in FLOATS:
        x = np.array(HOSTILE[row], data_type.dtype).reshape(1, 8)
        t, one = TensorDesc(data_type, (1, 8)), TensorDesc(data_type, (1, 1))
        agree(named("ACTIVATION_SOFTMAX1")(input_tensor=t, output_tensor=t, axes=(1,)), {"input_tensor": x})
        for function in set(ReduceFunction) - set(ARGUMENTS):
            desc = named("REDUCE")(function=function, input_tensor=t, output_tensor=one, axes=(1,))
            agree(desc, {"input_tensor": x})


def test_a_row_with_an_infinity_or_of_minus_infinities_alone_is_nan() -> None:
    inf = math.inf
    x = np.array([[inf, 0], [-inf, -inf], [inf, inf], [inf, -inf], [math.nan, 0], [-inf, 0]], np.float32)
    t = TensorDesc.of(x)
    found = computed(named("ACTIVATION_SOFTMAX1")(input_tensor=t, output_tensor=t, axes=(1,)), {"input_tensor": x})
    assert found["output_tensor"].view(np.uint32)[:5].tolist() == [[0x7FC00000] * 2] * 5
    assert found["output_tensor"][5].tolist() == [0, 1]


@pytest.mark.parametrize(("data_type", "bad"), [("INT64", -5), ("INT32", 4), ("UINT32", 4), ("UINT64", 2**64 - 1)])
def test_an_index_out_of_range_is_an_error_before_anything_is_written(data_type: str, bad: int) -> None:
    indices = np.array([0, bad, 3], data_type.lower())
    desc = named("GATHER")(
        input_tensor=TensorDesc(FLOAT32, (4,)), indices_tensor=TensorDesc.of(indices), output_tensor=TensorDesc(FLOAT32, (3,)),
        axis=0, index_dimensions=1,
    )  # fmt: skip
    output = np.full(3, 85, np.float32)
    bound = (
        dml.Device("reference")
        .compile(desc)
        .bind(input_tensor=np.zeros(4, np.float32), indices_tensor=indices, output_tensor=output)
    )
    with pytest.raises(DataError, match="size of the axis") as raised:
        bound.execute()
    assert (raised.value.tensor, raised.value.index, raised.value.value) == ("indices_tensor", (1,), bad)
    assert (output == 85).all()


def test_a_thousand_steps() -> None:
    rng = np.random.default_rng(3)
    sizes = dict(input_tensor=(1, 1000, 1, 1), weight_tensor=(1, 1, 4, 1), recurrence_tensor=(1, 1, 4, 1))
    inputs = {name: rng.standard_normal(n).astype(np.float32) for name, n in sizes.items()}
    one = TensorDesc(FLOAT32, (1, 1, 1, 1))
    usual = (named("ACTIVATION_SIGMOID")(), named("ACTIVATION_TANH")(), named("ACTIVATION_TANH")())
    desc = named("LSTM")(
        **{name: TensorDesc.of(array) for name, array in inputs.items()}, output_single_tensor=one,
        output_cell_single_tensor=one, activation_descs=usual, direction="BACKWARD",
    )  # fmt: skip
    assert agree(desc, inputs) == 2
