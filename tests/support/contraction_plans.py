"""Plans for sums of products: matmuls and convolutions. All are valid by construction, like those of `generators`.

The data types that a level allows for integer operators are written here by hand, from the documentation. If they were read
from the operator files, a type that is missing there would not be tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from anydml import DataType, FeatureLevel, operators
from anydml.schema.operator import Desc
from drawn_descs import FLOATS, Plain, Plan, activations, table_of
from hard_cases import parameter_sizes

EIGHT_BIT = (DataType.INT8, DataType.UINT8)
FLOAT_TYPES = (DataType.FLOAT32, DataType.FLOAT16)
SIGNED, UNSIGNED = ((DataType.INT8, DataType.INT16, DataType.INT32), (DataType.UINT8, DataType.UINT16, DataType.UINT32))


# --- matmuls ---


@dataclass(frozen=True)
class Product:
    """The sizes of a matrix product, and tensors for it."""

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
        """A scale or zero point: for the whole tensor, or by row, column or batch."""
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


def gemm(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    product = Product.drawn(draw, draw(st.integers(4 if level < FeatureLevel.FL_4_0 else 2, 4)))
    data_type = draw(st.sampled_from(FLOAT_TYPES))
    plan: Plan = dict(product.matrices(data_type, data_type, data_type))
    sizes = plan["output_tensor"].sizes
    for name in "ab":
        transposed = draw(st.booleans())
        plan[f"trans_{name}"] = "TRANSPOSE" if transposed else "NONE"
        if transposed:
            *batch, rows, columns = plan[f"{name}_tensor"].sizes
            plan[f"{name}_tensor"] = Plain(data_type, (*batch, columns, rows))
    kinds = ["none", "none", "any"] + ["clip"] * (level >= FeatureLevel.FL_6_0) + ["softmax"] * (level >= FeatureLevel.FL_6_1)
    kind = draw(st.sampled_from(kinds))
    if kind == "softmax" and all(n == 1 for n in sizes[:-2]) and draw(st.booleans()):
        fused: Desc | None = draw(activations(level, ("ACTIVATION_SOFTMAX",)))
    elif kind == "softmax":
        axes = draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, unique=True))
        softmax: Any = operators.find("ACTIVATION_SOFTMAX1")
        fused = softmax(axes=axes)
    else:
        fused = None if kind == "none" else draw(activations(level, ("ELEMENT_WISE_CLIP",) if kind == "clip" else ()))
    return plan | dict(
        c_tensor=Plain(data_type, sizes) if draw(st.booleans()) else None,
        alpha=draw(FLOATS),
        beta=draw(FLOATS),
        fused_activation=fused,
    )


def matrix_multiply_integer_to_float(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    product = Product.drawn(draw, draw(st.integers(2, 4)))
    width, real, rank = (
        draw(st.sampled_from((0, 0, 0, 0, 1, 1, 2))),
        draw(st.sampled_from(FLOAT_TYPES)),
        draw(st.integers(1, 4)),
    )
    a, b = (draw(st.sampled_from((SIGNED, UNSIGNED)))[width] for _ in range(2))
    rows, columns = {"rows": product.m}, {"columns": product.n}
    plan: Plan = dict(product.matrices(a, b, real))
    return plan | dict(
        a_scale_tensor=product.parameter(real, rank, **rows),
        a_zero_point_tensor=product.zero_point(a, rank, **rows),
        b_scale_tensor=product.parameter(real, rank, **columns),
        b_zero_point_tensor=product.zero_point(b, rank, **columns),
        bias_tensor=plan["output_tensor"] if draw(st.booleans()) else None,
    )


# --- convolutions ---


def convolution(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    row = table_of("CONVOLUTION", level, "InputTensor")
    data_type = draw(st.sampled_from(row.data_types))
    spatial = draw(st.integers(row.dimension_counts[0], row.dimension_counts[-1])) - 2
    backward, groups, batch = draw(st.booleans()), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    inputs, outputs = (groups * draw(st.integers(1, 2)) for _ in range(2))
    fields: dict[str, list[int]] = {name: [] for name in WINDOW}
    made = []
    for _ in range(spatial):
        size, width = draw(st.integers(1, 5 - spatial)), draw(st.integers(1, 4 - spatial))
        stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        start, end, beyond = draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(st.sampled_from((0, 0, 1)))
        extent = 1 + (width - 1) * dilation
        if backward:
            if (size - 1) * stride + extent - start - end < 1:
                start = end = 0
            output = (size - 1) * stride + extent - start - end + draw(st.integers(0, stride - 1))
        else:
            end = max(end, extent - size - start)
            output = 1 + (size + start + end - extent) // stride
        made.append((size, width, output + beyond))
        for name, value in zip(WINDOW, (stride, dilation, start, end, beyond), strict=True):
            fields[name].append(value)
    sizes, widths, output_sizes = zip(*made, strict=True)
    clips = level >= FeatureLevel.FL_6_0 and draw(st.booleans())
    fused = draw(activations(level, ("ELEMENT_WISE_CLIP",) if clips else ()))
    filters = (inputs, outputs // groups) if backward else (outputs, inputs // groups)
    return dict(
        input_tensor=Plain(data_type, (batch, inputs, *sizes)),
        filter_tensor=Plain(data_type, (*filters, *widths)),
        bias_tensor=Plain(data_type, (1, outputs, *(1,) * spatial)) if draw(st.booleans()) else None,
        output_tensor=Plain(data_type, (batch, outputs, *output_sizes)),
        mode=draw(st.sampled_from(("CONVOLUTION", "CROSS_CORRELATION"))),
        direction="BACKWARD" if backward else "FORWARD",
        **{name: tuple(values) for name, values in fields.items()},
        group_count=groups,
        fused_activation=fused if draw(st.booleans()) else None,
    )


WINDOW = ("strides", "dilations", "start_padding", "end_padding", "output_padding")


# --- convolutions of integers ---


@dataclass(frozen=True)
class Windows:
    """The sizes and attributes of a convolution of integers, and tensors for it."""

    draw: st.DrawFn
    fields: Plan
    channels: int
    output_sizes: tuple[int, ...]

    @classmethod
    def drawn(cls, draw: st.DrawFn, spatial: int) -> Windows:
        groups, batch = draw(st.integers(1, 2)), draw(st.integers(1, 2))
        read, written = draw(st.integers(1, 2)), draw(st.integers(1, 2))
        made = []
        for _ in range(spatial):
            size, width = draw(st.integers(1, 5 - spatial)), draw(st.integers(1, 4 - spatial))
            stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3))
            start, end = draw(st.integers(0, 2)), draw(st.integers(0, 2))
            extent = 1 + (width - 1) * dilation
            end = max(end, extent - size - start)
            made.append((stride, dilation, start, end, size, width, 1 + (size + start + end - extent) // stride))
        *attributes, sizes, widths, outputs = zip(*made, strict=True)
        fields: Plan = dict(zip(WINDOW, attributes, strict=False)) | {"group_count": groups}
        for name, tensor_sizes in (
            ("input_tensor", (batch, groups * read, *sizes)),
            ("filter_tensor", (groups * written, read, *widths)),
        ):
            fields[name] = Plain(draw(st.sampled_from(EIGHT_BIT)), tensor_sizes)
        return cls(draw, fields, groups * written, (batch, groups * written, *outputs))

    def single(self, data_type: DataType, rank: int) -> Plain:
        return Plain(data_type, (1,) * rank)

    def by_channel(self, data_type: DataType, rank: int) -> Plain:
        """A scale or zero point of the filter: one element, or one for each output channel."""
        count = self.draw(st.sampled_from((1, self.channels)))
        return Plain(data_type, tuple(count if a == min(1, rank - 1) else 1 for a in range(rank)))


def convolution_integer(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    old = level < FeatureLevel.FL_4_0
    made = Windows.drawn(draw, 2 if old else draw(st.integers(1, 2)))
    plan, rank = made.fields, 4 if old else draw(st.integers(1, 4))
    x, f = plan["input_tensor"].data_type, plan["filter_tensor"].data_type
    return plan | dict(
        input_zero_point_tensor=made.single(x, rank) if draw(st.booleans()) else None,
        filter_zero_point_tensor=made.by_channel(f, rank) if draw(st.booleans()) else None,
        output_tensor=Plain(DataType.INT32, made.output_sizes),
    )


def quantized_linear_convolution(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    old = level < FeatureLevel.FL_4_0
    made = Windows.drawn(draw, 2 if old else draw(st.integers(1, 2)))
    plan, y = made.fields, draw(st.sampled_from(EIGHT_BIT))
    x, f = plan["input_tensor"].data_type, plan["filter_tensor"].data_type
    least = 4 if old else 1
    ranks = st.integers(least, 4)
    bias = (1, made.channels, *(1,) * (len(made.output_sizes) - 2))
    return plan | dict(
        input_scale_tensor=made.single(DataType.FLOAT32, draw(ranks)),
        input_zero_point_tensor=made.single(x, draw(ranks)) if draw(st.booleans()) else None,
        filter_scale_tensor=made.by_channel(
            DataType.FLOAT32, draw(ranks if level >= FeatureLevel.FL_5_2 else st.integers(max(least, 3), 4))
        ),
        filter_zero_point_tensor=made.by_channel(f, draw(ranks)) if draw(st.booleans()) else None,
        bias_tensor=Plain(DataType.INT32, bias) if draw(st.booleans()) else None,
        output_scale_tensor=made.single(DataType.FLOAT32, draw(ranks)),
        output_zero_point_tensor=made.single(y, draw(ranks)) if draw(st.booleans()) else None,
        output_tensor=Plain(y, made.output_sizes),
    )


GENERATORS = {
    "CONVOLUTION": convolution,
    "CONVOLUTION_INTEGER": convolution_integer,
    "GEMM": gemm,
    "MATRIX_MULTIPLY_INTEGER": matrix_multiply_integer,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": matrix_multiply_integer_to_float,
    "QUANTIZED_LINEAR_CONVOLUTION": quantized_linear_convolution,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": quantized_linear_matrix_multiply,
}
