"""DML_OPERATOR_DYNAMIC_QUANTIZE_LINEAR: elements to 8-bit integers, with a scale and a zero point that follow from them.

Source: ns-directml-dml_dynamic_quantize_linear_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

FLOAT32, UINT8 = DataType.FLOAT32, DataType.UINT8
QUANTIZED = "OutputTensor OutputZeroPointTensor"
OF_SIX = np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32)


def case(data_type: DataType, count: int) -> dict[str, Any]:
    return dict(
        input_tensor=TensorDesc(FLOAT32, (count,)),
        output_tensor=TensorDesc(data_type, (count,)),
        output_scale_tensor=TensorDesc(FLOAT32, (1,)),
        output_zero_point_tensor=TensorDesc(data_type, (1,)),
    )


def made(data_type: DataType, quantized: list[int], scale: float, zero_point: int) -> dict[str, Any]:
    return dict(
        output_tensor=np.array(quantized, data_type.dtype),
        output_scale_tensor=np.array([scale], np.float32),
        output_zero_point_tensor=np.array([zero_point], data_type.dtype),
    )


@operator("DML_OPERATOR_DYNAMIC_QUANTIZE_LINEAR", 148, since=FeatureLevel.FL_4_0)
class DynamicQuantizeLinear(Desc):
    """Quantizes a tensor by the range of its elements, and gives the scale and the zero point that it used.

    OutputScale = (max - min) / (Max - Min), OutputZeroPoint = clamp(round(Min - min / OutputScale), Min, Max), and
    Output = clamp(round(Input / OutputScale) + OutputZeroPoint, Min, Max). Here min and max are the smallest and the largest
    number among the elements and 0, without NaN; Min and Max are the limits of the output's type. The three quotients are
    rounded to FLOAT32, as in ONNX, and round takes ties to even. If the scale were 0, it is 1, and the zero point 0. A
    quotient that is NaN gives Min.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements to quantize.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The quantized elements.")
    output_scale_tensor: TensorDesc = field.output("OutputScaleTensor", "The scale, one element.")
    output_zero_point_tensor: TensorDesc = field.output(
        "OutputZeroPointTensor", "The zero point, one element of the output's type."
    )

    rows = (
        support("4_0", "InputTensor", (1, 8), FLOATS),
        support("4_0", QUANTIZED, (1, 8), EIGHT_BIT),
        support("4_0", "OutputScaleTensor", (1, 8), (FLOAT32,)),
    )
    same_quantized = same("DataType", QUANTIZED, name="quantized")
    same = (
        *same("DimensionCount Sizes", "InputTensor OutputTensor"),
        *same("DimensionCount", "InputTensor OutputScaleTensor OutputZeroPointTensor", name="single"),
    )
    single = single_element("OutputScaleTensor OutputZeroPointTensor")

    def outputs(d) -> Outputs:
        sizes = d.input_tensor.sizes
        one = (1,) * len(sizes)
        return {
            "output_tensor": (sizes, None),
            "output_scale_tensor": (one, FLOAT32),
            "output_zero_point_tensor": (one, None),
        }

    def statement(d, x: Tensor) -> tuple[Nest, Nest, Nest]:
        i, k = each(x.sizes), each(x.sizes, "abcdefgh")
        low, high = limits(d.output_tensor.data_type)
        counted = select(is_nan(x[k]), 0, x[k])
        smallest, largest = minimum(0, Min(k, counted)), maximum(0, Max(k, counted))
        step = rounded((largest - smallest) / (high - low), FLOAT32)
        (scale,) = stored("Scale", (1,), FLOAT32, lambda i, t: [select(equal(step, 0), 1, step)])
        begin = rounded(smallest / scale[[0]], FLOAT32)
        nearest = select(is_nan(begin), low, clamp(half_to_even(low - begin), low, high))
        (zero_point,) = stored("ZeroPoint", (1,), d.output_tensor.data_type, lambda i, t: [select(equal(step, 0), 0, nearest)])
        quotient = rounded(x[i] / scale[[0]], FLOAT32)
        quantized = select(is_nan(quotient), low, clamp(half_to_even(quotient) + zero_point[[0]], low, high))
        one = (1,) * len(i)
        return nest(i, quantized), nest(each(one), scale[[0]]), nest(each(one), zero_point[[0]])

    examples = (
        Example(
            "ONNX's DynamicQuantizeLinear",
            case(UINT8, 6),
            dict(input_tensor=OF_SIX),
            made(UINT8, [153, 255, 0, 26, 221, 179], 0.019607844, 153),
        ),
        Example(
            "The same in INT8",
            case(DataType.INT8, 6),
            dict(input_tensor=OF_SIX),
            made(DataType.INT8, [25, 127, -128, -102, 93, 51], 0.019607844, 25),
        ),
        Example(
            "The range contains 0",
            case(UINT8, 12),
            dict(input_tensor=np.array([1, 2.1, 1.3, 2.5, 3.34, 4, 1.5, 2.6, 3.9, 4, 3, 2.345], np.float32)),
            made(UINT8, [64, 134, 83, 159, 213, 255, 96, 166, 249, 255, 191, 149], 0.015686275, 0),
        ),
        Example("Zeros alone", case(UINT8, 2), dict(input_tensor=np.zeros(2, np.float32)), made(UINT8, [0, 0], 1, 0)),
    )
    rejecting = ()
    errata = (
        "The page's range need not contain 0; ONNX's does, and onnxruntime's tests on DirectML expect it (our decision).",
        "The page neither rounds nor clamps the zero point, which is an integer; both are done (our decision).",
        "The page does not say that quotients are rounded; they are, to FLOAT32 (our decision).",
        "The page does not say what becomes of zeros alone: the scale is 1 and the zero point 0 (our decision).",
        "The page does not say what becomes of NaN: it does not count in the range, and becomes Min (our decision).",
        "The page does not say that the output has the input's sizes; it has (our decision).",
        "Parts of the page are copied from ELEMENT_WISE_QUANTIZED_LINEAR_ADD.",
    )
