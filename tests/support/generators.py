"""Plans for operators whose rules are not covered by kinds of fields and support rows.

All plans are valid by construction: none is thrown away. What a level allows for SLICE is written here by hand, from the
documentation. If it were read from the operator files, a type that is missing there would not be tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from hypothesis import strategies as st

import attention_plans
import contraction_plans
import moving_plans
import normalization_plans
import sampling_plans
from anydml import DataType, FeatureLevel, operators
from anydml.schema.enumerations import PaddingMode
from anydml.schema.operator import Desc
from drawn_descs import FLOATS, Plain, Plan, activations, planned, table_of
from tensors import sizes_of

SIX = (DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.INT16, DataType.UINT32, DataType.UINT16)
EIGHT = (*SIX, DataType.INT8, DataType.UINT8)
ELEVEN = (*EIGHT, DataType.FLOAT64, DataType.INT64, DataType.UINT64)
EIGHT_BIT = (DataType.INT8, DataType.UINT8)
FLOAT_TYPES = (DataType.FLOAT32, DataType.FLOAT16)
INDICES = (DataType.UINT32, DataType.INT32, DataType.UINT64, DataType.INT64)


Generator = Callable[[st.DrawFn, FeatureLevel], Plan]


def by_kinds(draw: st.DrawFn, name: str, level: FeatureLevel) -> Plan:
    """The plan of `planned`, which a generator then changes."""
    operator = operators.find(name)
    assert operator is not None
    return planned(draw, operator, level)


# --- slices ---


def slice_ranks(level: FeatureLevel) -> st.SearchStrategy[int]:
    return st.integers(4, 5) if level < FeatureLevel.FL_3_0 else st.integers(1, 8)


def slice1(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    data_type = draw(st.sampled_from(EIGHT if level < FeatureLevel.FL_4_1 else ELEVEN))
    sizes = draw(slice_ranks(level).flatmap(sizes_of))
    offsets, windows, strides, output_sizes = [], [], [], []
    for size in sizes:
        offset = draw(st.integers(0, size - 1))
        window = draw(st.integers(1, size - offset))
        stride = draw(st.one_of(st.integers(1, window + 1), st.sampled_from((1, 2**31 - 1, 2**31))))
        # an INT has one more negative number than positive ones
        stride = -stride if stride == 2**31 or draw(st.booleans()) else stride
        offsets.append(offset)
        windows.append(window)
        strides.append(stride)
        output_sizes.append(draw(st.integers(1, 1 + (window - 1) // abs(stride))))
    return dict(
        input_tensor=Plain(data_type, sizes),
        output_tensor=Plain(data_type, tuple(output_sizes)),
        dimension_count=draw(st.sampled_from((None, len(sizes)))),
        input_window_offsets=tuple(offsets),
        input_window_sizes=tuple(windows),
        input_window_strides=tuple(strides),
    )


def slice_(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    if level < FeatureLevel.FL_2_1:
        data_types: tuple[DataType, ...] = SIX
    else:
        data_types = EIGHT if level < FeatureLevel.FL_4_1 else ELEVEN
    data_type = draw(st.sampled_from(data_types))
    input_sizes = draw(slice_ranks(level).flatmap(sizes_of))
    offsets, sizes, strides = [], [], []
    for extent in input_sizes:
        offset = draw(st.integers(0, extent - 1))
        room = extent - 1 - offset
        size = draw(st.integers(1, room + 1))
        # a dimension with a single element may have any stride
        stride = draw(st.sampled_from((1, 2, 2**31, 2**32 - 1)) if size == 1 else st.integers(1, room // (size - 1)))
        offsets.append(offset)
        sizes.append(size)
        strides.append(stride)
    return dict(
        input_tensor=Plain(data_type, input_sizes),
        output_tensor=Plain(data_type, tuple(sizes)),
        dimension_count=draw(st.sampled_from((None, len(sizes)))),
        offsets=tuple(offsets),
        sizes=tuple(sizes),
        strides=tuple(strides),
    )


# --- element-wise operators ---


def softplus(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "ACTIVATION_SOFTPLUS", level)
    if level < FeatureLevel.FL_6_4 and not plan["steepness"] >= 1:
        plan["steepness"] = draw(st.sampled_from((1.0, 1.5, 20.0)))
    return plan


def quantize_linear(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "ELEMENT_WISE_QUANTIZE_LINEAR", level)
    data_type = plan["input_tensor"].data_type
    scale = DataType.FLOAT32 if data_type == DataType.INT32 else data_type
    return plan | {"scale_tensor": Plain(scale, plan["input_tensor"].sizes)}


def any_output_type(name: str) -> Generator:
    """A generator for an operator whose output may have several types, while `outputs` returns only one."""

    def plan(draw: st.DrawFn, level: FeatureLevel) -> Plan:
        made = by_kinds(draw, name, level)
        inputs = [t for t in made.values() if isinstance(t, Plain)]
        data_type = draw(st.sampled_from(table_of(name, level, "OutputTensor").data_types))
        return made | {"output_tensor": Plain(data_type, inputs[0].sizes)}

    return plan


def value_scale(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "VALUE_SCALE_2D", level)
    data_type, (batches, _, height, width) = plan["input_tensor"]
    channels = draw(st.sampled_from((1, 3)))
    plan["bias"] = tuple(draw(FLOATS) for _ in range(channels))
    return plan | {"input_tensor": Plain(data_type, (batches, channels, height, width))}


def identity(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "ELEMENT_WISE_IDENTITY", level)
    if draw(st.integers(0, 39)) != 17:  # nearly always without it, so that kernels of copies are tested
        plan["scale_bias"] = None
    return plan


def is_nan(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "ELEMENT_WISE_IS_NAN", level)
    truths = draw(st.sampled_from((DataType.UINT8, DataType.UINT32)))
    return plan | {"output_tensor": Plain(truths, plan["input_tensor"].sizes)}


def power(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "ELEMENT_WISE_POW", level)
    if level < FeatureLevel.FL_3_0:
        plan["exponent_tensor"] = plan["input_tensor"]
    return plan


def quantization(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """QUANTIZE or DEQUANTIZE: a tensor, and for each of its blocks a scale and perhaps a zero point."""
    real, quantized = draw(st.sampled_from(FLOAT_TYPES)), draw(st.sampled_from((*EIGHT_BIT, DataType.INT4, DataType.UINT4)))
    blocks = draw(st.integers(1, 8).flatmap(sizes_of))
    most = {1: 4, 2: 3, 3: 2}.get(len(blocks), 2 if math.prod(blocks) < 9 else 1)
    sizes = tuple(n * draw(st.integers(1, most)) for n in blocks)
    count = draw(st.sampled_from((1, 2)))
    types = (real, quantized) if name == "QUANTIZE" else (quantized, real)
    return dict(
        input_tensor=Plain(types[0], sizes),
        quantization_type=("SCALE", "SCALE_ZERO_POINT")[count - 1],
        quantization_tensor_count=count,
        quantization_tensors=(Plain(real, blocks), Plain(quantized, blocks))[:count],
        output_tensor=Plain(types[1], sizes),
    )


# --- moving ---


def parts_along(draw: st.DrawFn, name: str, level: FeatureLevel, wire: str) -> tuple[Plain, tuple[Plain, ...], int]:
    """A tensor, one to three parts that make it up along an axis, and the axis."""
    row = table_of(name, level, wire)
    data_type, rank = (
        draw(st.sampled_from(row.data_types)),
        draw(st.integers(row.dimension_counts[0], row.dimension_counts[-1])),
    )
    sizes, axis = draw(sizes_of(rank)), draw(st.integers(0, rank - 1))
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))

    def along(n: int) -> Plain:
        return Plain(data_type, (*sizes[:axis], n, *sizes[axis + 1 :]))

    return along(sum(lengths)), tuple(map(along, lengths)), axis


def join(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    whole, parts, axis = parts_along(draw, "JOIN", level, "OutputTensor")
    return dict(input_tensors=parts, output_tensor=whole, axis=axis)


def split(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    whole, parts, axis = parts_along(draw, "SPLIT", level, "InputTensor")
    return dict(input_tensor=whole, output_tensors=parts, axis=axis)


def padding(draw: st.DrawFn, level: FeatureLevel, name: str = "PADDING") -> Plan:
    plan = by_kinds(draw, name, level)
    rank = len(plan["input_tensor"].sizes)
    # at most two, so that the output is small
    padded = set(range(rank)) if rank < 4 else {draw(st.integers(0, rank - 1)) for _ in range(2)}
    for end in ("start_padding", "end_padding"):
        plan[end] = tuple(draw(st.sampled_from((0, 1, 2, 5))) if i in padded else 0 for i in range(rank))
    too_new = {PaddingMode.WRAP: level < FeatureLevel.FL_6_4, PaddingMode.SYMMETRIC: level < FeatureLevel.FL_3_0}
    if too_new.get(plan["padding_mode"]):
        plan["padding_mode"] = PaddingMode.EDGE
    return plan


def padding1(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    return padding(draw, level, "PADDING1")


def gather(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "GATHER", level)
    sizes, rank, axis = list(plan["input_tensor"].sizes), len(plan["input_tensor"].sizes), plan["axis"]
    count = draw(st.integers(0, rank))
    taken = [draw(st.integers(1, 3 if rank < 5 else 2)) for _ in range(count)]
    # other dimensions of 1: the output has as many dimensions as the input, and leading ones are left out
    for i in range(count - 1):
        if i < axis:
            sizes[i] = 1
        elif i < axis + count:
            taken[i - axis] = 1
    plan["input_tensor"] = Plain(plan["input_tensor"].data_type, tuple(sizes))
    plan["indices_tensor"] = Plain(plan["indices_tensor"].data_type, (*(1,) * (rank - count), *taken))
    return plan | {"index_dimensions": count}


# --- sorting and reducing ---


def top_k(draw: st.DrawFn, level: FeatureLevel, name: str = "TOP_K") -> Plan:
    plan = by_kinds(draw, name, level)
    return plan | {"k": draw(st.integers(1, plan["input_tensor"].sizes[plan["axis"]]))}


def top_k1(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    return top_k(draw, level, "TOP_K1")


def rows_of(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """The plan of an operator whose inputs have at most two dimensions above 1."""
    plan = by_kinds(draw, name, level)
    data_type, sizes = plan["input_tensor"]
    ones = len(sizes) - 2
    return plan | {"input_tensor": Plain(data_type, (*(1,) * ones, *draw(sizes_of(min(len(sizes), 2)))))}


WORDS = (*FLOAT_TYPES, DataType.INT32, DataType.UINT32)
LONG = (*WORDS, DataType.INT64, DataType.UINT64)


def reduce(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "REDUCE", level)
    function, new = plan["function"].name, level >= FeatureLevel.FL_5_0
    takes: dict[str, tuple[DataType, ...]] = dict.fromkeys(("AVERAGE", "L2", "LOG_SUM", "LOG_SUM_EXP"), FLOAT_TYPES)
    takes |= dict.fromkeys(("L1", "SUM_SQUARE"), LONG if new else FLOAT_TYPES)
    takes |= dict.fromkeys(("MULTIPLY", "SUM"), LONG if new else WORDS)
    takes |= dict.fromkeys(("MIN", "MAX"), ELEVEN if new else EIGHT)
    able = [t for t in table_of("REDUCE", level, "InputTensor").data_types if t in takes.get(function, ELEVEN)]
    if function not in ("ARGMAX", "ARGMIN"):
        able = [t for t in able if t in table_of("REDUCE", level, "OutputTensor").data_types]
    data_type, sizes = draw(st.sampled_from(able)), plan["input_tensor"].sizes
    plan["input_tensor"] = Plain(data_type, sizes)
    if function in ("ARGMAX", "ARGMIN"):
        data_type = draw(st.sampled_from(INDICES)) if level >= FeatureLevel.FL_3_0 else DataType.UINT32
    return plan | {"output_tensor": Plain(data_type, tuple(1 if a in plan["axes"] else n for a, n in enumerate(sizes)))}


# --- recurrences ---


def pooling(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """A pooling operator over a small tensor: padding may be wider than the window, and sizes may be rounded up."""
    row = table_of(name, level, "InputTensor")
    data_type = draw(st.sampled_from(row.data_types))
    spatial = draw(st.integers(row.dimension_counts[0], row.dimension_counts[-1])) - 2
    batch, channels = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    dilated = name in NEWEST_POOLING
    arrays: dict[str, list[int]] = {field: [] for field in POOLING}
    sizes, output_sizes = [], []
    for _ in range(spatial):
        size, width, stride = draw(st.integers(1, 9 - 2 * spatial)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
        start, end, dilation = draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(st.integers(1, 2)) if dilated else 1
        room = size + start + end - 1 - (width - 1) * dilation
        sizes.append(size)
        output_sizes.append(max(1 + draw(st.sampled_from((room // stride, -(-room // stride)))), 1))
        for field, value in zip(POOLING, (stride, width, start, end, dilation), strict=True):
            arrays[field].append(value)
    if not dilated:
        del arrays["dilations"]
    plan: Plan = {field: tuple(values) for field, values in arrays.items()}
    plan |= dict(
        input_tensor=Plain(data_type, (batch, channels, *sizes)),
        output_tensor=Plain(data_type, (batch, channels, *output_sizes)),
    )
    if name in ("MAX_POOLING1", "MAX_POOLING2"):
        able = table_of(name, level, "OutputIndicesTensor").data_types
        indices = Plain(draw(st.sampled_from(able)), plan["output_tensor"].sizes)
        plan["output_indices_tensor"] = draw(st.sampled_from((None, indices)))
    elif name.startswith("LP"):
        plan["p"] = draw(st.sampled_from((1, 2, 2, 3, 4, 7)))
    elif "AVERAGE" in name:
        plan["include_padding"] = draw(st.booleans())
    if name.startswith("QUANTIZED"):
        plan |= pooling_parameters(draw, plan["input_tensor"], channels)
        plan["output_tensor"] = Plain(plan.pop("type"), plan["output_tensor"].sizes)
    return plan


def pooling_gradient(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """The plan of the forward operator, with gradients."""
    forward = "AVERAGE_POOLING" if name.startswith("AVERAGE") else "MAX_POOLING2"
    plan = pooling(draw, level, forward)
    x, y = plan.pop("input_tensor"), plan.pop("output_tensor")
    plan.pop("output_indices_tensor", None)
    data_type = draw(st.sampled_from(FLOAT_TYPES))
    if level < FeatureLevel.FL_4_0 and name.startswith("MAX") and len(x.sizes) > 4:
        x, y = (Plain(data_type, (*t.sizes[:2], *t.sizes[3:])) for t in (x, y))
        plan |= {field: plan[field][1:] for field in POOLING}
    gradients = {"input_gradient_tensor": Plain(data_type, y.sizes), "output_gradient_tensor": Plain(data_type, x.sizes)}
    return plan | gradients | ({"input_tensor": Plain(data_type, x.sizes)} if name.startswith("MAX") else {})


def pooling_parameters(draw: st.DrawFn, x: Plain, channels: int) -> Plan:
    """Scales and zero points for the whole tensor or by channel, and the type of the output."""

    def parameter(data_type: DataType) -> Plain:
        rank = draw(st.integers(1, 5))
        finer = {3: (channels, 1, 1), 4: (1, channels, 1, 1)} | {len(x.sizes): (1, channels, *(1,) * (len(x.sizes) - 2))}
        return Plain(data_type, draw(st.sampled_from(((1,) * rank, finer.get(rank, (1,) * rank)))))

    output = draw(st.sampled_from(EIGHT_BIT))
    return dict(
        input_scale_tensor=parameter(DataType.FLOAT32),
        input_zero_point_tensor=draw(st.sampled_from((None, parameter(x.data_type)))),
        output_scale_tensor=parameter(DataType.FLOAT32),
        output_zero_point_tensor=draw(st.sampled_from((None, parameter(output)))),
        type=output,
    )


POOLING = ("strides", "window_size", "start_padding", "end_padding", "dilations")
NEWEST_POOLING = ("AVERAGE_POOLING1", "LP_POOLING1", "MAX_POOLING2", "QUANTIZED_LINEAR_AVERAGE_POOLING")
EVERY_POOLING = (*NEWEST_POOLING, "AVERAGE_POOLING", "LP_POOLING", "MAX_POOLING", "MAX_POOLING1")


def lstm(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    data_type = draw(st.sampled_from(FLOAT_TYPES))
    steps, batch, inputs, hidden = (draw(st.integers(1, 2)) for _ in range(4))
    direction = draw(st.sampled_from(("FORWARD", "BACKWARD", "BIDIRECTIONAL")))
    directions = 2 if direction == "BIDIRECTIONAL" else 1
    state = (1, directions, batch, hidden)
    optional = {
        "bias_tensor": Plain(data_type, (1, 1, directions, 8 * hidden)),
        "hidden_init_tensor": Plain(data_type, state),
        "cell_mem_init_tensor": Plain(data_type, state),
        "sequence_lengths_tensor": Plain(DataType.UINT32, (1, 1, 1, batch)),
        "peephole_tensor": Plain(data_type, (1, 1, directions, 3 * hidden)),
        "output_sequence_tensor": Plain(data_type, (steps, *state[1:])),
        "output_single_tensor": Plain(data_type, state),
        "output_cell_single_tensor": Plain(data_type, state),
    }
    there = {name for name in optional if draw(st.booleans())} | {draw(st.sampled_from(list(optional)[-3:]))}
    return {name: t if name in there else None for name, t in optional.items()} | dict(
        input_tensor=Plain(data_type, (1, steps, batch, inputs)),
        weight_tensor=Plain(data_type, (1, directions, 4 * hidden, inputs)),
        recurrence_tensor=Plain(data_type, (1, directions, 4 * hidden, hidden)),
        activation_descs=tuple(draw(activations(level)) for _ in range(3 * directions)),
        direction=direction,
        clip_threshold=draw(st.sampled_from((0.0, 0.5, 3.0, 1e30, float("inf")))),
        use_clip_threshold=draw(st.booleans()),
        couple_input_forget=draw(st.booleans()),
    )


def recurrent(draw: st.DrawFn, level: FeatureLevel, name: str, gates: int, functions: int) -> Plan:
    """RNN or GRU. gates: in the weights; functions: the number of activations of each direction."""
    data_type = draw(st.sampled_from(FLOAT_TYPES))
    steps, batch, inputs, hidden = (draw(st.integers(1, 2)) for _ in range(4))
    direction = draw(st.sampled_from(("FORWARD", "BACKWARD", "BIDIRECTIONAL")))
    directions = 2 if direction == "BIDIRECTIONAL" else 1
    state = (1, directions, batch, hidden)
    optional = {
        "bias_tensor": Plain(data_type, (1, 1, directions, 2 * gates * hidden)),
        "hidden_init_tensor": Plain(data_type, state),
        "sequence_lengths_tensor": Plain(DataType.UINT32, (1, 1, 1, batch)),
        "output_sequence_tensor": Plain(data_type, (steps, *state[1:])),
        "output_single_tensor": Plain(data_type, state),
    }
    there = {name for name in optional if draw(st.booleans())} | {draw(st.sampled_from(list(optional)[-2:]))}
    own = {"linear_before_reset": draw(st.booleans())} if name == "GRU" else {}
    return (
        {name: t if name in there else None for name, t in optional.items()}
        | own
        | dict(
            input_tensor=Plain(data_type, (1, steps, batch, inputs)),
            weight_tensor=Plain(data_type, (1, directions, gates * hidden, inputs)),
            recurrence_tensor=Plain(data_type, (1, directions, gates * hidden, hidden)),
            activation_descs=tuple(draw(activations(level)) for _ in range(functions * directions)),
            direction=direction,
        )
    )


def random_generator(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "RANDOM_GENERATOR", level)
    state = Plain(DataType.UINT32, (*(1,) * (len(plan["input_state_tensor"].sizes) - 1), 6))
    after = draw(st.sampled_from((None, state)))
    ranks = table_of("RANDOM_GENERATOR", level, "OutputTensor").dimension_counts
    output = Plain(DataType.UINT32, draw(st.integers(ranks[0], ranks[-1]).flatmap(sizes_of)))
    return plan | {"input_state_tensor": state, "output_tensor": output, "output_state_tensor": after}


SEVERAL_OUTPUT_TYPES = (
    *("BIT_COUNT", "LOGICAL_EQUALS", "LOGICAL_GREATER_THAN", "LOGICAL_GREATER_THAN_OR_EQUAL", "LOGICAL_LESS_THAN"),
    "LOGICAL_LESS_THAN_OR_EQUAL",
)
ROWS = ("ACTIVATION_HARDMAX", "ACTIVATION_LOG_SOFTMAX", "ACTIVATION_SOFTMAX")

GENERATORS: Mapping[str, Generator] = {
    **attention_plans.GENERATORS,
    **contraction_plans.GENERATORS,
    **moving_plans.GENERATORS,
    **normalization_plans.GENERATORS,
    **sampling_plans.GENERATORS,
    **{name: partial(rows_of, name=name) for name in ROWS},
    **{name: partial(pooling, name=name) for name in EVERY_POOLING},
    **{name: partial(pooling_gradient, name=name) for name in ("AVERAGE_POOLING_GRAD", "MAX_POOLING_GRAD")},
    "ACTIVATION_SOFTPLUS": softplus,
    "ELEMENT_WISE_IDENTITY": identity,
    "ELEMENT_WISE_IS_NAN": is_nan,
    "ELEMENT_WISE_POW": power,
    "ELEMENT_WISE_QUANTIZE_LINEAR": quantize_linear,
    "GATHER": gather,
    "JOIN": join,
    "GRU": partial(recurrent, name="GRU", gates=3, functions=2),
    "LSTM": lstm,
    "PADDING": padding,
    "PADDING1": padding1,
    "RANDOM_GENERATOR": random_generator,
    "RNN": partial(recurrent, name="RNN", gates=1, functions=1),
    "REDUCE": reduce,
    "SLICE": slice_,
    "SLICE1": slice1,
    "SPLIT": split,
    "TOP_K": top_k,
    "TOP_K1": top_k1,
    **{f"ELEMENT_WISE_{name}": any_output_type(f"ELEMENT_WISE_{name}") for name in SEVERAL_OUTPUT_TYPES},
    "VALUE_SCALE_2D": value_scale,
    **{name: partial(quantization, name=name) for name in ("DEQUANTIZE", "QUANTIZE")},
}


def plan_of(draw: st.DrawFn, operator: type[Desc], level: FeatureLevel) -> Plan:
    """A valid plan of an operator, by its own generator or by `planned`."""
    own = GENERATORS.get(operator.spec.name)
    return planned(draw, operator, level) if own is None else own(draw, level)
