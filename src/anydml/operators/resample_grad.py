"""DML_OPERATOR_RESAMPLE_GRAD1 and RESAMPLE_GRAD: the gradients of resampled images.

Sources: ns-directml-dml_resample_grad1_operator_desc, ns-directml-dml_resample_grad_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.resampling import (
    COUNT,
    DIRECTION,
    INPUT_OFFSETS,
    MODE,
    OUTPUT_OFFSETS,
    SAMPLING_ERRATA,
    SCALES,
    centres,
    halves_up,
    in_direction,
    sampling_rules,
    scattered,
)
from anydml.operators.shared.vocabulary import *

BOTH = "InputGradientTensor OutputGradientTensor"
INPUT, OUTPUT = "The gradient of the elements read.", "The gradient of the elements that were read from."
ZEROS, HALVES, MINUS_HALVES = (0.0,) * 4, (0.5,) * 4, (-0.5,) * 4


def example(title: str, incoming: Any, passed: Any, **fields: Any) -> Example:
    arrays = [np.array([[x]], np.float32) for x in (incoming, passed)]
    tensors = dict(zip(("input_gradient_tensor", "output_gradient_tensor"), map(TensorDesc.of, arrays), strict=True))
    return Example(title, {**tensors, **fields}, dict(input_gradient_tensor=arrays[0]), arrays[1])


def nearest(**fields: Any) -> Example:
    mode: dict[str, Any] = dict(interpolation_mode="NEAREST_NEIGHBOR", scales=(1, 1, 0.5, 1.5), **fields)
    return example("NEAREST_NEIGHBOR, wider and lower", [[4, 5, 6]], [[9, 6], [0, 0]], **mode)


def linear(**fields: Any) -> Example:
    centred: dict[str, Any] = dict(input_pixel_offsets=HALVES, output_pixel_offsets=MINUS_HALVES, **fields)
    return example(
        "LINEAR, twice as wide", [[1, 2, 3, 4]], [[3.25, 6.75]], interpolation_mode="LINEAR", scales=(1, 1, 1, 2), **centred
    )


@operator("DML_OPERATOR_RESAMPLE_GRAD1", 162, since=FeatureLevel.FL_5_1)
class ResampleGrad1(Desc):
    """Adds up, for every element that RESAMPLE2 reads, the gradients of the results times the element's weight in each.

    Elements that are not read get 0. Sums are exact, and rounded once.
    """

    input_gradient_tensor: TensorDesc = field.input("InputGradientTensor", INPUT)
    output_gradient_tensor: TensorDesc = field.output("OutputGradientTensor", OUTPUT)
    interpolation_mode: InterpolationMode = field.attribute("InterpolationMode", field.INTERPOLATION_MODE, MODE)
    rounding_direction: AxisDirection = field.attribute("RoundingDirection", field.AXIS_DIRECTION, DIRECTION)
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    scales: tuple[float, ...] = field.attribute("Scales", field.FLOAT, SCALES, sized_by="DimensionCount")
    input_pixel_offsets: tuple[float, ...] = field.attribute(
        "InputPixelOffsets", field.FLOAT, INPUT_OFFSETS, sized_by="DimensionCount"
    )
    output_pixel_offsets: tuple[float, ...] = field.attribute(
        "OutputPixelOffsets", field.FLOAT, OUTPUT_OFFSETS, sized_by="DimensionCount"
    )

    eager = centres("input_gradient_tensor")

    rows = (support("5_1", BOTH, (1, 4), FLOATS),)
    same = same("DataType DimensionCount", BOTH)
    counted = count_is_dimension_count("InputGradientTensor")
    sampling = sampling_rules()

    def statement(d, g: Tensor) -> Nest:
        return scattered(d, g, in_direction(d))

    examples = (
        nearest(rounding_direction="DECREASING", input_pixel_offsets=ZEROS, output_pixel_offsets=ZEROS),
        linear(rounding_direction="DECREASING"),
    )
    rejecting = (rejects("same_dimension_count", output_gradient_tensor=TensorDesc(DataType.FLOAT32, (1, 2, 2))),)
    errata = SAMPLING_ERRATA


@operator("DML_OPERATOR_RESAMPLE_GRAD", 134, since=FeatureLevel.FL_3_0)
class ResampleGrad(Desc):
    """Adds up, for every element that RESAMPLE1 reads, the gradients of the results times the element's weight in each.

    Elements that are not read get 0. Sums are exact, and rounded once.
    """

    input_gradient_tensor: TensorDesc = field.input("InputGradientTensor", INPUT)
    output_gradient_tensor: TensorDesc = field.output("OutputGradientTensor", OUTPUT)
    interpolation_mode: InterpolationMode = field.attribute("InterpolationMode", field.INTERPOLATION_MODE, MODE)
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    scales: tuple[float, ...] = field.attribute("Scales", field.FLOAT, SCALES, sized_by="DimensionCount")
    input_pixel_offsets: tuple[float, ...] = field.attribute(
        "InputPixelOffsets", field.FLOAT, INPUT_OFFSETS, sized_by="DimensionCount"
    )
    output_pixel_offsets: tuple[float, ...] = field.attribute(
        "OutputPixelOffsets", field.FLOAT, OUTPUT_OFFSETS, sized_by="DimensionCount"
    )

    eager = centres("input_gradient_tensor")

    rows = (support("3_0", BOTH, (4, 4), FLOATS), support("5_1", BOTH, (1, 4), FLOATS))
    same = same("DataType DimensionCount", BOTH)
    counted = count_is_dimension_count("InputGradientTensor")
    sampling = sampling_rules()

    def statement(d, g: Tensor) -> Nest:
        return scattered(d, g, halves_up)

    examples = (nearest(input_pixel_offsets=HALVES, output_pixel_offsets=ZEROS), linear())
    rejecting = (rejects("same_dimension_count", output_gradient_tensor=TensorDesc(DataType.FLOAT32, (1, 2, 2))),)
    errata = (
        *SAMPLING_ERRATA[:2],
        "The page does not say which of two elements is the nearest: the later one, as RESAMPLE1 has it (our decision).",
        "The page's example does not print its offsets; those of the example here give its result.",
    )
