"""Plans for operators that move elements or search for them. All are valid by construction, like those of `generators`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from hypothesis import strategies as st

from anydml import DataType, FeatureLevel, operators
from drawn_descs import FLOATS, Plain, Plan, planned, scalars
from tensors import sizes_of


def by_kinds(draw: st.DrawFn, name: str, level: FeatureLevel) -> Plan:
    operator = operators.find(name)
    assert operator is not None
    return planned(draw, operator, level)


def tile(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "TILE", level)
    rank = len(plan["input_tensor"].sizes)
    repeated = {draw(st.integers(0, rank - 1)) for _ in range(2)}  # at most two, so that the output is small
    return plan | {"repeats": tuple(draw(st.integers(1, 3)) if a in repeated else 1 for a in range(rank))}


def blocks(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    plan = by_kinds(draw, name, level)
    block, n, c, h, w = (draw(st.integers(1, most)) for most in (3, 2, 3, 3, 3))
    deep = name.startswith("DEPTH")
    sizes = (n, c * block**2, h, w) if deep else (n, c, h * block, w * block)
    return plan | {"input_tensor": Plain(plan["input_tensor"].data_type, sizes), "block_size": block}


def places(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """ARGMAX or ARGMIN, with any type of the output that the level allows."""
    plan = by_kinds(draw, name, level)
    operator = operators.find(name)
    assert operator is not None
    data_type = draw(st.sampled_from(operator.spec.table[level]["OutputTensor"].data_types))
    sizes = tuple(1 if a in plan["axes"] else n for a, n in enumerate(plan["input_tensor"].sizes))
    return plan | {"output_tensor": Plain(data_type, sizes)}


def diagonals(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """Matrices with diagonals inside, outside, and at the limits of the offsets."""
    operator = operators.find(name)
    assert operator is not None
    row = operator.spec.table[level]["OutputTensor"]
    data_type = draw(st.sampled_from(row.data_types))
    rank = draw(st.integers(row.dimension_counts[0], row.dimension_counts[-1]))
    output = Plain(data_type, draw(sizes_of(rank)))
    if name == "DIAGONAL_MATRIX":
        return {"output_tensor": output, "offset": draw(st.integers(-4, 4)), "value": draw(FLOATS)}
    ends = st.one_of(st.integers(-4, 4), st.integers(-4, 4), st.sampled_from((-(2**31), 2**31 - 1)))
    return dict(
        input_tensor=draw(st.sampled_from((None, output))),
        output_tensor=output,
        value_data_type=data_type,
        value=draw(scalars(data_type)),
        diagonal_fill_begin=draw(ends),
        diagonal_fill_end=draw(ends),
    )


def one_in_place(t: Plain, axis: int, data_type: DataType) -> Plain:
    return Plain(data_type, (*t.sizes[:axis], 1, *t.sizes[axis + 1 :]))


def one_hot(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "ONE_HOT", level)
    values, axis = plan["values_tensor"], plan["axis"]
    place, count = draw(st.integers(0, len(values.sizes) - 1)), draw(st.integers(2, 3))
    sizes = tuple(count if a == place else n if a < place < 3 else 1 for a, n in enumerate(values.sizes))
    return plan | {
        "values_tensor": Plain(values.data_type, sizes),
        "output_tensor": Plain(values.data_type, plan["output_tensor"].sizes),
        "indices_tensor": one_in_place(plan["output_tensor"], axis, plan["indices_tensor"].data_type),
    }


def reverse_subsequences(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "REVERSE_SUBSEQUENCES", level)
    lengths = one_in_place(plan["input_tensor"], plan["axis"], plan["sequence_lengths_tensor"].data_type)
    return plan | {"sequence_lengths_tensor": lengths}


def gather_elements(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "GATHER_ELEMENTS", level)
    sizes, axis = plan["input_tensor"].sizes, plan["axis"]
    taken = (*sizes[:axis], draw(st.integers(1, 4)), *sizes[axis + 1 :])
    return plan | {"indices_tensor": Plain(plan["indices_tensor"].data_type, taken)}


def slice_grad(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "SLICE_GRAD", level)
    whole = plan["output_gradient_tensor"]
    offsets, windows, strides, sizes = [], [], [], []
    for size in whole.sizes:
        offset = draw(st.integers(0, size - 1))
        window = draw(st.integers(1, size - offset))
        stride = draw(st.one_of(st.integers(1, window + 1), st.sampled_from((2, 2**31 - 1, 2**31))))
        stride = -stride if stride == 2**31 or draw(st.booleans()) else stride
        offsets.append(offset)
        windows.append(window)
        strides.append(stride)
        sizes.append(draw(st.integers(1, 1 + (window - 1) // abs(stride))))
    return plan | dict(
        input_gradient_tensor=Plain(whole.data_type, tuple(sizes)),
        dimension_count=draw(st.sampled_from((None, len(sizes)))),
        input_window_offsets=tuple(offsets),
        input_window_sizes=tuple(windows),
        input_window_strides=tuple(strides),
    )


def tuples(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """GATHER_ND, GATHER_ND1 or SCATTER_ND: tuples of indices, and tensors that fit to them."""
    plan = by_kinds(draw, name, level)
    rank = len(plan["input_tensor"].sizes)
    small = st.integers(1, 3 if rank < 5 else 2)
    x = [draw(small) for _ in range(draw(st.integers(1, rank)))]
    most = min(len(x) - 1, 2) if name == "GATHER_ND1" else 0
    batches = draw(st.integers(0, min(most, rank - 1)))
    named = draw(st.integers(1, len(x) - batches))
    rest = x[batches + named :]
    between = draw(st.integers(0, min(2, rank - 1 - batches, rank - len(rest) - batches)))
    j = [*x[:batches], *(draw(small) for _ in range(between)), named]
    made = [*j[:-1], *rest]
    data_type = plan["input_tensor"].data_type

    def aligned(of: DataType, sizes: list[int]) -> Plain:
        return Plain(of, (*(1,) * (rank - len(sizes)), *sizes))

    plan |= dict(
        input_tensor=aligned(data_type, x),
        indices_tensor=aligned(plan["indices_tensor"].data_type, j),
        input_dimension_count=len(x),
        indices_dimension_count=len(j),
    )
    if name == "GATHER_ND1":
        plan["batch_dimension_count"] = batches
    return plan | ({"updates_tensor": aligned(data_type, made)} if name == "SCATTER_ND" else {})


def scatter_elements(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "SCATTER_ELEMENTS", level)
    data_type, sizes = plan["input_tensor"]
    taken = (*sizes[: plan["axis"]], draw(st.integers(1, 4)), *sizes[plan["axis"] + 1 :])
    indices = Plain(plan["indices_tensor"].data_type, taken)
    return plan | {"indices_tensor": indices, "updates_tensor": Plain(data_type, taken)}


def max_unpooling(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "MAX_UNPOOLING", level)
    indices = Plain(plan["indices_tensor"].data_type, plan["input_tensor"].sizes)
    return plan | {"indices_tensor": indices, "output_tensor": Plain(plan["input_tensor"].data_type, draw(sizes_of(4)))}


def nonzero(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "NONZERO_COORDINATES", level)
    sizes = plan["input_tensor"].sizes
    least, most = (4, 5) if level < FeatureLevel.FL_4_0 else (1, 8)
    effective = next((len(sizes) - a for a, n in enumerate(sizes) if n != 1), 0)
    coordinates = (math.prod(sizes), draw(st.integers(max(effective, 1), len(sizes))))
    ranks = draw(st.integers(least, most)), draw(st.integers(max(least, 2), most))
    return plan | {
        "output_count_tensor": Plain(DataType.UINT32, (1,) * ranks[0]),
        "output_coordinates_tensor": Plain(DataType.UINT32, (*(1,) * (ranks[1] - 2), *coordinates)),
    }


def folding(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """FOLD or UNFOLD: an image, and its columns."""
    plan = by_kinds(draw, name, level)
    spatial = draw(st.sampled_from((1, 2, 2, 3)))
    arrays: dict[str, list[int]] = {n: [] for n in ("window_sizes", "strides", "dilations", "start_padding", "end_padding")}
    sizes, places = [], 1
    for _ in range(spatial):
        window, stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
        start, end = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        least = max(1, 1 + (window - 1) * dilation - start - end)
        size = draw(st.integers(least, least + 2))
        sizes.append(size)
        places *= (size + start + end - dilation * (window - 1) - 1) // stride + 1
        for array, value in zip(arrays.values(), (window, stride, dilation, start, end), strict=True):
            array.append(value)
    batch, channels = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    data_type = plan["input_tensor"].data_type
    image = Plain(data_type, (batch, channels, *sizes))
    columns = Plain(data_type, (batch, channels * math.prod(arrays["window_sizes"]), places))
    tensors = (columns, image) if name == "FOLD" else (image, columns)
    filled = {n: tuple(array) for n, array in arrays.items()}
    return filled | {"input_tensor": tensors[0], "output_tensor": tensors[1]}


BLOCKS = ("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH", "SPACE_TO_DEPTH1")

GENERATORS: Mapping[str, Callable[[st.DrawFn, FeatureLevel], Plan]] = {
    **{name: partial(blocks, name=name) for name in BLOCKS},
    **{name: partial(places, name=name) for name in ("ARGMAX", "ARGMIN")},
    **{name: partial(diagonals, name=name) for name in ("DIAGONAL_MATRIX", "DIAGONAL_MATRIX1")},
    **{name: partial(folding, name=name) for name in ("FOLD", "UNFOLD")},
    **{name: partial(tuples, name=name) for name in ("GATHER_ND", "GATHER_ND1", "SCATTER_ND")},
    "GATHER_ELEMENTS": gather_elements,
    "MAX_UNPOOLING": max_unpooling,
    "NONZERO_COORDINATES": nonzero,
    "SCATTER_ELEMENTS": scatter_elements,
    "ONE_HOT": one_hot,
    "REVERSE_SUBSEQUENCES": reverse_subsequences,
    "SLICE_GRAD": slice_grad,
    "TILE": tile,
}
