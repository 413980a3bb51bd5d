"""Plans for operators that move elements or look for them. Valid by construction, as those of `generators`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hypothesis import strategies as st

from anydml import DataType, FeatureLevel, operators
from by_kinds import FLOATS, Plain, Plan, planned, scalars
from tensors import sizes_of


def by_kinds(draw: st.DrawFn, name: str, level: FeatureLevel) -> Plan:
    operator = operators.find(name)
    assert operator is not None
    return planned(draw, operator, level)


def tile(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "TILE", level)
    rank = len(plan["input_tensor"].sizes)
    repeated = {draw(st.integers(0, rank - 1)) for _ in range(2)}  # that it stays small
    return plan | {"repeats": tuple(draw(st.integers(1, 3)) if a in repeated else 1 for a in range(rank))}


def blocks(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    plan = by_kinds(draw, name, level)
    block, n, c, h, w = (draw(st.integers(1, most)) for most in (3, 2, 3, 3, 3))
    deep = name.startswith("DEPTH")
    sizes = (n, c * block**2, h, w) if deep else (n, c, h * block, w * block)
    return plan | {"input_tensor": Plain(plan["input_tensor"].data_type, sizes), "block_size": block}


def places(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """Of ARGMAX or ARGMIN: the output's type is any of indices."""
    plan = by_kinds(draw, name, level)
    operator = operators.find(name)
    assert operator is not None
    data_type = draw(st.sampled_from(operator.spec.table[level]["OutputTensor"].data_types))
    sizes = tuple(1 if a in plan["axes"] else n for a, n in enumerate(plan["input_tensor"].sizes))
    return plan | {"output_tensor": Plain(data_type, sizes)}


def diagonals(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """Matrices, and diagonals in them and around, and as far as there are."""
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


BLOCKS = ("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH", "SPACE_TO_DEPTH1")

GENERATORS: Mapping[str, Callable[[st.DrawFn, FeatureLevel], Plan]] = {
    **{name: partial(blocks, name=name) for name in BLOCKS},
    **{name: partial(places, name=name) for name in ("ARGMAX", "ARGMIN")},
    **{name: partial(diagonals, name=name) for name in ("DIAGONAL_MATRIX", "DIAGONAL_MATRIX1")},
    "GATHER_ELEMENTS": gather_elements,
    "ONE_HOT": one_hot,
    "REVERSE_SUBSEQUENCES": reverse_subsequences,
    "SLICE_GRAD": slice_grad,
    "TILE": tile,
}
