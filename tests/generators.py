"""Plans for operators whose rules ask for more than kinds and rows say. Valid by construction: nothing is thrown away.

What a level takes of SLICE and the integer matmuls is typed in here by hand, from the documentation, and not read from the
operator files: otherwise a row that is missing there would be missing here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from anydml import DataType, FeatureLevel, operators
from anydml.schema.operator import Desc
from by_kinds import Plain, Plan, planned
from hard_cases import parameter_sizes
from tensors import sizes_of

SIX = (DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.INT16, DataType.UINT32, DataType.UINT16)
EIGHT = (*SIX, DataType.INT8, DataType.UINT8)
ELEVEN = (*EIGHT, DataType.FLOAT64, DataType.INT64, DataType.UINT64)
EIGHT_BIT = (DataType.INT8, DataType.UINT8)


def by_kinds(draw: st.DrawFn, name: str, level: FeatureLevel) -> Plan:
    """The plan that kinds and rows give, for a generator to change."""
    operator = operators.find(name)
    assert operator is not None
    return planned(draw, operator, level)


def types_of(name: str, level: FeatureLevel, wire: str) -> tuple[DataType, ...]:
    operator = operators.find(name)
    assert operator is not None
    return operator.spec.table[level][wire].data_types


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
        # an INT has one number more below zero than above
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
        # the only element of its dimension may be followed by any stride
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


# --- integer matmuls ---


@dataclass(frozen=True)
class Product:
    """The sizes of a matrix product, and tensors that go with them."""

    draw: st.DrawFn
    batch: tuple[int, ...]
    m: int
    k: int
    n: int

    @classmethod
    def drawn(cls, draw: st.DrawFn, rank: int) -> Product:
        batch = draw(st.tuples(*[st.integers(1, 3)] * (rank - 2)))
        return cls(draw, batch, *draw(st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(1, 5))))

    def parameter(self, data_type: DataType, rank: int, **axis: int) -> Plain:
        """A scale or zero point: per tensor or finer, by batch or not."""
        per_batch = self.draw(st.sampled_from(((False, False), (False, True), (True, False), (True, True))))
        finer = axis if self.draw(st.booleans()) else {}
        sizes = parameter_sizes(rank, **finer, batch=self.batch, per_batch=per_batch)
        return Plain(data_type, sizes)

    def zero_point(self, data_type: DataType, rank: int, **axis: int) -> Plain | None:
        return self.parameter(data_type, rank, **axis) if self.draw(st.booleans()) else None

    def matrices(self, a: DataType, b: DataType, output: DataType) -> dict[str, Plain]:
        return {
            "a_tensor": Plain(a, (*self.batch, self.m, self.k)),
            "b_tensor": Plain(b, (*self.batch, self.k, self.n)),
            "output_tensor": Plain(output, (*self.batch, self.m, self.n)),
        }


def matrix_multiply_integer(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    smallest = 4 if level < FeatureLevel.FL_4_0 else 2
    product = Product.drawn(draw, draw(st.integers(smallest, 4)))
    a, b = draw(st.sampled_from(EIGHT_BIT)), draw(st.sampled_from(EIGHT_BIT))
    a_rank = draw(st.integers(4 if level < FeatureLevel.FL_4_0 else 1, 4))
    b_rank = draw(st.integers(smallest if level < FeatureLevel.FL_5_2 else 1, 4))
    return dict(
        a_zero_point_tensor=product.zero_point(a, a_rank, rows=product.m),
        b_zero_point_tensor=product.zero_point(b, b_rank, columns=product.n),
        **product.matrices(a, b, DataType.INT32),
    )


def quantized_linear_matrix_multiply(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    old = level < FeatureLevel.FL_4_0
    product = Product.drawn(draw, draw(st.integers(4 if old else 2, 4)))
    a, b, output = (draw(st.sampled_from(EIGHT_BIT)) for _ in range(3))
    rank = draw(st.integers(4 if old else 1, 4))
    rows, columns = {"rows": product.m}, {"columns": product.n}
    return dict(
        a_scale_tensor=product.parameter(DataType.FLOAT32, rank, **rows),
        a_zero_point_tensor=product.zero_point(a, rank, **rows),
        b_scale_tensor=product.parameter(DataType.FLOAT32, rank, **columns),
        b_zero_point_tensor=product.zero_point(b, rank, **columns),
        output_scale_tensor=product.parameter(DataType.FLOAT32, rank, **rows),
        output_zero_point_tensor=product.zero_point(output, rank, **rows),
        **product.matrices(a, b, output),
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


Generator = Callable[[st.DrawFn, FeatureLevel], Plan]
GENERATORS: Mapping[str, Generator] = {
    "ACTIVATION_SOFTPLUS": softplus,
    "ELEMENT_WISE_QUANTIZE_LINEAR": quantize_linear,
    "MATRIX_MULTIPLY_INTEGER": matrix_multiply_integer,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": quantized_linear_matrix_multiply,
    "SLICE": slice_,
    "SLICE1": slice1,
}


def plan_of(draw: st.DrawFn, operator: type[Desc], level: FeatureLevel) -> Plan:
    """A valid plan of an operator: its own generator's, or that of its kinds and rows."""
    own = GENERATORS.get(operator.spec.name)
    return planned(draw, operator, level) if own is None else own(draw, level)
