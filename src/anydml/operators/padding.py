"""DML_OPERATOR_PADDING1 and its older version DML_OPERATOR_PADDING: a tensor with more elements around it.

Sources: ns-directml-dml_padding1_operator_desc, ns-directml-dml_padding_operator_desc, ne-directml-dml_padding_mode.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
PAGE: dict[str, Any] = {
    "input_tensor": TensorDesc(DataType.FLOAT32, (1, 1, 4, 4)),
    "output_tensor": TensorDesc(DataType.FLOAT32, (1, 1, 8, 10)),
    "start_padding": (0, 0, 1, 2),
    "end_padding": (0, 0, 3, 4),
}
ROWS: dict[str, Any] = {"input_tensor": np.array([[[[1, 2, 3, 4], [5, 6, 7, 8]] * 2]], np.float32)}


def uint8(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.UINT8, sizes)


def digits(*lines: str) -> NDArray[np.float32]:
    """A tensor of one-digit numbers."""
    return np.array([[[[int(digit) for digit in line] for line in lines]]], np.float32)


def reflected(i: Expr, n: Any) -> Expr:
    """The index in 0 .. n - 1 after reflection at both ends, which are not repeated."""
    if n == 1:
        return lift(0)
    there = i % (2 * (n - 1))
    return minimum(there, 2 * (n - 1) - there)


def mirrored(i: Expr, n: Any) -> Expr:
    """The index in 0 .. n - 1 after reflection at both ends, which are repeated."""
    there = i % (2 * n)
    return minimum(there, 2 * n - 1 - there)


SOURCES: dict[PaddingMode, Callable[[Expr, Any], Expr]] = {  # where an element beyond the input is copied from
    PaddingMode.EDGE: lambda i, n: clamp(i, 0, n - 1),
    PaddingMode.REFLECTION: reflected,
    PaddingMode.SYMMETRIC: mirrored,
    PaddingMode.WRAP: lambda i, n: i % n,
}


def padded_sizes() -> Constraint:
    def size(d: Any, i: int) -> int:
        if len(d.input_tensor.sizes) != len(d.output_tensor.sizes):
            raise ValueError("the rule about dimension counts is broken, so that sizes cannot be compared")
        found: int = d.input_tensor.sizes[i] + d.start_padding[i] + d.end_padding[i]
        return found

    return Constraint(
        "padded_sizes_match",
        "`OutputTensor.Sizes` must equal `InputTensor.Sizes` + `StartPadding` + `EndPadding`.",
        lambda d, i: d.output_tensor.sizes[i] == size(d, i),
        each=DIMENSION,
        expected=lambda d, i: {f"OutputTensor.Sizes[{i}]": size(d, i)},
        breaks=lambda d: {"end_padding": (*d.end_padding[:-1], d.end_padding[-1] + 1)},
    )


def wrap_supported() -> Constraint:
    return Constraint(
        "wrap_supported",
        "`PaddingMode` must not be WRAP below feature level 6_4.",
        lambda d: d.padding_mode != PaddingMode.WRAP,
        before=FeatureLevel.FL_6_4,
        breaks=lambda d: {"padding_mode": PaddingMode.WRAP},
    )


def padded_output(d: Any) -> Outputs:
    sizes = zip(d.input_tensor.sizes, d.start_padding, d.end_padding, strict=True)
    return {"output_tensor": (tuple(map(sum, sizes)), d.input_tensor.data_type)}


@operator("DML_OPERATOR_PADDING1", 155, since=FeatureLevel.FL_5_0)
class Padding1(Desc):
    """Adds elements around a tensor: Output[c] = Input[c - StartPadding] inside the input, and by the mode outside.

    CONSTANT gives PaddingValue, and EDGE the nearest element. REFLECTION mirrors the input at its first and last elements,
    which are not repeated; SYMMETRIC repeats them. WRAP repeats the input from its beginning. Bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to pad.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The padded tensor.")
    padding_mode: PaddingMode = field.attribute(
        "PaddingMode", field.PADDING_MODE, "The elements outside of the input.", default=PaddingMode.CONSTANT
    )
    padding_value_data_type: DataType = field.attribute("PaddingValueDataType", field.DATA_TYPE, "The type of PaddingValue.")
    padding_value: float = field.scalar(
        "PaddingValue", "PaddingValueDataType", "What CONSTANT pads with; other modes ignore it.", default=0
    )
    dimension_count: int | None = field.count("DimensionCount", "Entries of the two arrays.", default=None)
    start_padding: tuple[int, ...] = field.attribute(
        "StartPadding", field.UINT, "Elements before the input, in each dimension.", sized_by="DimensionCount"
    )
    end_padding: tuple[int, ...] = field.attribute(
        "EndPadding", field.UINT, "Elements after the input, in each dimension.", sized_by="DimensionCount"
    )

    eager = defaults(padding_value_data_type=("the input's", lambda d: d.input_tensor.data_type))

    eight_bit_floats = BOTH
    rows = (support("5_0", BOTH, (1, 8), ELEVEN),)
    same = same("DataType DimensionCount", BOTH)
    counted = count_is_dimension_count()
    typed = scalar_type("PaddingValueDataType")
    padded = padded_sizes()
    wrap = wrap_supported()
    outputs = padded_output

    def statement(d, x: Tensor) -> Nest:
        c = each(d.output_tensor.sizes)
        at = [i - start for i, start in zip(c, d.start_padding, strict=True)]
        if d.padding_mode == PaddingMode.CONSTANT:
            return move(c, x.or_else(at, d.padding_value))
        return move(c, x[[SOURCES[d.padding_mode](i, n) for i, n in zip(at, x.sizes, strict=True)]])

    examples = (
        Example(
            "Page: CONSTANT 9",
            PAGE | dict(padding_value_data_type=DataType.FLOAT32, padding_value=9.0),
            ROWS,
            digits(*["9" * 10, *["9912349999", "9956789999"] * 2, *["9" * 10] * 3]),
        ),
        Example(
            "Page: EDGE",
            PAGE | dict(padding_mode=PaddingMode.EDGE, padding_value_data_type=DataType.FLOAT32),
            ROWS,
            digits("1112344444", *["1112344444", "5556788888"] * 2, *["5556788888"] * 3),
        ),
        Example(
            "Page: REFLECTION",
            PAGE | dict(padding_mode=PaddingMode.REFLECTION, padding_value_data_type=DataType.FLOAT32),
            ROWS,
            digits(*["7656787656", "3212343212"] * 4),
        ),
        Example(
            "Page: SYMMETRIC",
            PAGE | dict(padding_mode=PaddingMode.SYMMETRIC, padding_value_data_type=DataType.FLOAT32),
            ROWS,
            digits("2112344321", *["2112344321", "6556788765"] * 2, "6556788765", "2112344321", "6556788765"),
        ),
        Example(
            "WRAP",
            PAGE | dict(padding_mode=PaddingMode.WRAP, padding_value_data_type=DataType.FLOAT32),
            ROWS,
            digits(*["7856785678", "3412341234"] * 4),
        ),
    )
    rejecting = (
        rejects("same_data_type", output_tensor=uint8(1, 1, 8, 10), padding_value_data_type=DataType.UINT8),
        rejects("padding_value_fits", padding_value_data_type=DataType.UINT8, padding_value=256,
                input_tensor=uint8(1, 1, 4, 4), output_tensor=uint8(1, 1, 8, 10)),
    )  # fmt: skip
    errata = (
        "The page and that of the modes do not mention WRAP, which the header has; it is there from 6_4 on.",
        "The page does not say what REFLECTION does with an input of size 1: it repeats it (our decision).",
    )


@operator("DML_OPERATOR_PADDING", 64, since=FeatureLevel.FL_1_0)
class Padding(Desc):
    """Adds elements around a tensor: Output[c] = Input[c - StartPadding] inside the input, and by the mode outside.

    CONSTANT gives PaddingValue, which is truncated toward zero and saturated in an integer tensor, and EDGE the nearest
    element. REFLECTION mirrors the input at its first and last elements, which are not repeated; SYMMETRIC repeats them. WRAP
    repeats the input from its beginning.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The tensor to pad.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The padded tensor.")
    padding_mode: PaddingMode = field.attribute(
        "PaddingMode", field.PADDING_MODE, "The elements outside of the input.", default=PaddingMode.CONSTANT
    )
    padding_value: float = field.attribute(
        "PaddingValue", field.FLOAT, "What CONSTANT pads with; other modes ignore it.", default=0.0
    )
    dimension_count: int | None = field.count("DimensionCount", "Entries of the two arrays.", default=None)
    start_padding: tuple[int, ...] = field.attribute(
        "StartPadding", field.UINT, "Elements before the input, in each dimension.", sized_by="DimensionCount"
    )
    end_padding: tuple[int, ...] = field.attribute(
        "EndPadding", field.UINT, "Elements after the input, in each dimension.", sized_by="DimensionCount"
    )

    eight_bit_floats = BOTH
    rows = (
        support("1_0", BOTH, (4, 5), FLOATS),
        support("2_1", BOTH, (4, 5), EIGHT),
        support("3_1", BOTH, (1, 8), EIGHT),
        support("5_0", BOTH, (1, 8), ELEVEN),
    )
    same = same("DataType DimensionCount", BOTH)
    counted = count_is_dimension_count()
    padded = padded_sizes()

    @constraint("`PaddingMode` must not be SYMMETRIC below feature level 3_0.", before=FeatureLevel.FL_3_0)
    def symmetric_supported(d) -> bool:
        return d.padding_mode != PaddingMode.SYMMETRIC

    wrap = wrap_supported()
    outputs = padded_output

    def as_newest(d) -> Padding1:
        return Padding1(
            input_tensor=d.input_tensor,
            output_tensor=d.output_tensor,
            padding_mode=d.padding_mode,
            padding_value_data_type=d.output_tensor.data_type,
            padding_value=stored_in(d.padding_value, d.output_tensor.data_type),
            dimension_count=d.dimension_count,
            start_padding=d.start_padding,
            end_padding=d.end_padding,
        )

    examples = (
        Example(
            "Page: CONSTANT 9",
            PAGE | dict(padding_value=9.0),
            ROWS,
            digits(*["9" * 10, *["9912349999", "9956789999"] * 2, *["9" * 10] * 3]),
        ),
        Example(
            "Page: in an integer tensor, 10.6 becomes 10",
            dict(
                input_tensor=TensorDesc(DataType.INT32, (2,)),
                output_tensor=TensorDesc(DataType.INT32, (4,)),
                padding_value=10.6,
                start_padding=(1,),
                end_padding=(1,),
            ),
            dict(input_tensor=np.array([1, 2], np.int32)),
            np.array([10, 1, 2, 10], np.int32),
        ),
    )
    rejecting = (rejects("symmetric_supported", at=FeatureLevel.FL_2_1, padding_mode=PaddingMode.SYMMETRIC),)
    errata = (
        "The page and that of the modes do not mention WRAP, which the header has; it is there from 6_4 on.",
        "The page does not say what REFLECTION does with an input of size 1: it repeats it (our decision).",
        "The page does not say what becomes of a PaddingValue that an integer tensor cannot hold: it saturates, and NaN "
        "is 0 (our decision).",
    )
