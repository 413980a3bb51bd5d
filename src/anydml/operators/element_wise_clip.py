"""DML_OPERATOR_ELEMENT_WISE_CLIP1 and its older version DML_OPERATOR_ELEMENT_WISE_CLIP: elements within two bounds.

Sources: ns-directml-dml_element_wise_clip1_operator_desc, ns-directml-dml_element_wise_clip_operator_desc.
"""

from __future__ import annotations

import math

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FIVE = TensorDesc(DataType.FLOAT16, (5,))
NINE = TensorDesc(DataType.FLOAT32, (9,))
BYTES = TensorDesc(DataType.UINT8, (3,))
INTEGERS = TensorDesc(DataType.INT32, (4,))


def bounds(data_type: DataType) -> tuple[float, float]:
    """The bounds that change no element of a type."""
    return (-math.inf, math.inf) if data_type.is_float else limits(data_type)


@operator("DML_OPERATOR_ELEMENT_WISE_CLIP1", 153, since=FeatureLevel.FL_5_0, in_place=("InputTensor",))
class ElementWiseClip1(Desc):
    """Keeps every element within two bounds: Output = min(Max, max(Min, x)), which is Max where Min > Max.

    Where there is a ScaleBias, x * Scale + Bias takes the place of x; an integer is then truncated toward zero.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )
    min_max_data_type: DataType = field.attribute("MinMaxDataType", field.DATA_TYPE, "The type of Min and Max.")
    min: float = field.scalar("Min", "MinMaxDataType", "The lower bound.")
    max: float = field.scalar("Max", "MinMaxDataType", "The upper bound.")

    rows = (support("5_0", BOTH, (1, 8), TEN),)
    same = same("DataType DimensionCount Sizes", BOTH)
    typed = scalar_type("MinMaxDataType")

    eager = defaults(
        min_max_data_type=("the input's", lambda d: d.input_tensor.data_type),
        min=("no bound", lambda d: bounds(d.input_tensor.data_type)[0]),
        max=("no bound", lambda d: bounds(d.input_tensor.data_type)[1]),
    )

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: clamp(scaled(d, x), d.min, d.max))

    examples = (
        Example(
            "Between 2 and 4",
            dict(input_tensor=FIVE, output_tensor=FIVE, min_max_data_type=DataType.FLOAT16, min=2.0, max=4.0),
            dict(input_tensor=np.array([1, 2, 3, 4, 5], np.float16)),
            np.array([2, 2, 3, 4, 4], np.float16),
        ),
        Example(
            "Max wins where the bounds cross",
            dict(input_tensor=BYTES, output_tensor=BYTES, min_max_data_type=DataType.UINT8, min=200, max=100),
            dict(input_tensor=np.array([0, 150, 255], np.uint8)),
            np.array([100, 100, 100], np.uint8),
        ),
    )
    rejecting = (
        rejects("same_data_type", input_tensor=TensorDesc(DataType.FLOAT32, (5,))),
        rejects("min_fits", input_tensor=BYTES, output_tensor=BYTES, min_max_data_type=DataType.UINT8, min=-1, max=1),
        rejects("max_fits", input_tensor=BYTES, output_tensor=BYTES, min_max_data_type=DataType.UINT8, min=0, max=256),
    )
    errata = (
        "The page writes max(Min, min(x, Max)), which is Min where Min > Max; there the result is Max, as on the page of CLIP "
        "and in ONNX (our decision).",
        "The page does not say what becomes of NaN: as element or bound it gives NaN (our decision).",
        "The page does not say what a ScaleBias does to integers: the exact result is truncated toward zero (our decision).",
    )


@operator(
    "DML_OPERATOR_ELEMENT_WISE_CLIP",
    8,
    since=FeatureLevel.FL_1_0,
    in_place=("InputTensor",),
    fusable=True,
    fused_by={"CONVOLUTION": FeatureLevel.FL_6_0, "GEMM": FeatureLevel.FL_6_0},
)
class ElementWiseClip(Desc):
    """Keeps every element within two bounds: Output = min(Max, max(Min, x)), which is Max where Min > Max.

    Where there is a ScaleBias, x * Scale + Bias takes the place of x. In an integer tensor, the result is truncated toward
    zero and saturates. CONVOLUTION and GEMM take it as a fused activation from feature level 6_0 on.
    """

    input_tensor: TensorDesc | None = field.input("InputTensor", "The elements x.", default=None)
    output_tensor: TensorDesc | None = field.output("OutputTensor", "The results.", default=None)
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )
    min: float = field.attribute("Min", field.FLOAT, "The lower bound.")
    max: float = field.attribute("Max", field.FLOAT, "The upper bound.")

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_1", BOTH, (4, 4), EIGHT),
        support("3_0", BOTH, (1, 8), EIGHT),
        support("5_0", BOTH, (1, 8), TEN),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    eager = defaults(min=("no bound", lambda d: -math.inf), max=("no bound", lambda d: math.inf))

    outputs = like("input_tensor")

    statement = ElementWiseClip1.statement  # its formula is asked of a fused activation, which has no newest version

    def as_newest(d) -> ElementWiseClip1:
        # Rounding and truncation keep the order of numbers, so that bounds may be stored first. A NaN that no integer type
        # holds would make every element 0.
        assert d.input_tensor is not None
        assert d.output_tensor is not None
        data_type = d.output_tensor.data_type
        low, high = (stored_in(bound, data_type) for bound in (d.min, d.max))
        if not data_type.is_float and (d.min != d.min or d.max != d.max):
            low = high = 0
        return ElementWiseClip1(
            input_tensor=d.input_tensor,
            output_tensor=d.output_tensor,
            scale_bias=d.scale_bias,
            min_max_data_type=data_type,
            min=low,
            max=high,
        )

    examples = (
        Example(
            "DxDispatch's sample: between -2.5 and 2.5",
            dict(input_tensor=NINE, output_tensor=NINE, min=-2.5, max=2.5),
            dict(input_tensor=np.arange(-4, 5, dtype=np.float32)),
            np.array([-2.5, -2.5, -2, -1, 0, 1, 2, 2.5, 2.5], np.float32),
        ),
        Example(
            "Integers between -2.5 and 2.5",
            dict(input_tensor=INTEGERS, output_tensor=INTEGERS, min=-2.5, max=2.5),
            dict(input_tensor=np.array([-3, -1, 1, 3], np.int32)),
            np.array([-2, -1, 1, 2], np.int32),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say what becomes of NaN: as element or bound it gives NaN (our decision).",
        "The page does not say what a fraction as bound does to integers: the exact result is truncated toward zero and "
        "saturates, and NaN is 0 (our decision).",
    )
