"""DML_OPERATOR_RESAMPLE3 and its older versions, RESAMPLE2, RESAMPLE1 and RESAMPLE: images read between their elements.

Sources: ns-directml-dml_resample3_operator_desc, ns-directml-dml_resample2_operator_desc,
ns-directml-dml_resample1_operator_desc, ns-directml-dml_resample_operator_desc.
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
    resampled,
    sampling_rules,
)
from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
INPUT, OUTPUT = (
    "The elements.",
    "The interpolated elements, of any sizes; beyond the input's edges, its edge elements are repeated.",
)
HALVES, MINUS_HALVES, NONE = (0.5, 0.5), (-0.5, -0.5), (0.0, 0.0)


def plane(height: int, width: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, (height, width))


def rows(since: str) -> tuple[Support, ...]:
    first = (support(since, BOTH, (4, 4), FLOATS),) if since < "5_1" else ()
    return (*first, support("5_1", BOTH, (1, 4), FLOATS), support("6_2", BOTH, (1, 4), (*FLOATS, *EIGHT_BIT)))


def example(title: str, data: Any, result: Any, **fields: Any) -> Example:
    """An example with a plane and the result of its resampling."""
    made: list[NDArray[Any]] = [np.array(x, np.float32) for x in (data, result)]
    lead = (1,) * (len(fields["scales"]) - 2)
    arrays = [x.reshape(lead + x.shape) for x in made]
    tensors = dict(zip(("input_tensor", "output_tensor"), map(TensorDesc.of, arrays), strict=True))
    return Example(title, {**tensors, **fields}, dict(input_tensor=arrays[0]), arrays[1])


SQUARE = [[1, 2], [3, 4]]
ENLARGED = [[1, 1.25, 1.75, 2], [1.5, 1.75, 2.25, 2.5], [2.5, 2.75, 3.25, 3.5], [3, 3.25, 3.75, 4]]
CENTRED: dict[str, Any] = dict(input_pixel_offsets=HALVES, output_pixel_offsets=MINUS_HALVES)
TWICE: dict[str, Any] = dict(interpolation_mode="LINEAR", scales=(2, 2), **CENTRED)
DOWN = dict(rounding_direction="DECREASING")
FOUR_TWICE: dict[str, Any] = dict(interpolation_mode="LINEAR", scales=(1, 1, 2, 2))
FOUR_CENTRED: dict[str, Any] = dict(input_pixel_offsets=HALVES * 2, output_pixel_offsets=MINUS_HALVES * 2)


@operator("DML_OPERATOR_RESAMPLE3", 175, since=FeatureLevel.FL_6_4)
class Resample3(Desc):
    """Resizes a tensor: output o is read at x = (o - OutputPixelOffset) / Scale - InputPixelOffset in each dimension.

    NEAREST_NEIGHBOR copies the element at x, rounded in the RoundingDirection. LINEAR interpolates in each dimension: the
    element at floor(x) has the weight 1 - (x - floor(x)), and the next one x - floor(x). Positions outside of the tensor have
    the element at the nearest edge. With Antialiased, in dimensions where 1 / Scale is above 2, LINEAR takes the mean of the
    elements from x - 1 / (2 * Scale) to before x + 1 / (2 * Scale) instead.

    For NEAREST_NEIGHBOR and these means, x is computed in float32 operations. Everything else is exact, and rounded once,
    integers half to even.
    """

    input_tensor: TensorDesc = field.input("InputTensor", INPUT)
    output_tensor: TensorDesc = field.output("OutputTensor", OUTPUT)
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
    antialiased: bool = field.attribute(
        "Antialiased", field.BOOL, "Whether LINEAR averages elements in dimensions that become smaller.", default=False
    )

    eager = centres()

    rows = (support("6_4", BOTH, (1, 4), (*FLOATS, *EIGHT_BIT)),)
    same = same("DataType DimensionCount", BOTH)
    counted = count_is_dimension_count()
    sampling = sampling_rules()

    def statement(d, x: Tensor) -> Nest:
        return resampled(d, x, in_direction(d), antialiased=d.antialiased)

    examples = (
        example("LINEAR, twice as large", SQUARE, ENLARGED, **TWICE, **DOWN),
        example(
            "NEAREST_NEIGHBOR, rounded up: the edge goes on", [[1, 2, 3], [4, 5, 6]], [[5], [5]], scales=(1, 0.5),
            interpolation_mode="NEAREST_NEIGHBOR", rounding_direction="INCREASING", input_pixel_offsets=NONE,
            output_pixel_offsets=MINUS_HALVES,
        ),
        example(
            "Antialiased, a third as wide", [[0, 1, 2, 3, 4, 5]], [[1, 4]], interpolation_mode="LINEAR", scales=(1, 1 / 3),
            antialiased=True, **CENTRED, **DOWN,
        ),
    )  # fmt: skip
    rejecting = ()
    errata = (
        *SAMPLING_ERRATA,
        "The page says that antialiasing takes more elements into account, and not how: their plain mean, since DirectML's "
        "result of a known test is that (our decision).",
    )


@operator("DML_OPERATOR_RESAMPLE2", 161, since=FeatureLevel.FL_5_1)
class Resample2(Desc):
    """Resizes a tensor: RESAMPLE3 without antialiasing."""

    input_tensor: TensorDesc = field.input("InputTensor", INPUT)
    output_tensor: TensorDesc = field.output("OutputTensor", OUTPUT)
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

    eager = centres()

    rows = rows("5_1")
    same = same("DataType DimensionCount", BOTH)
    counted = count_is_dimension_count()
    sampling = sampling_rules()

    def as_newest(d) -> Resample3:
        return Resample3(
            input_tensor=d.input_tensor, output_tensor=d.output_tensor, interpolation_mode=d.interpolation_mode,
            rounding_direction=d.rounding_direction, scales=d.scales, input_pixel_offsets=d.input_pixel_offsets,
            output_pixel_offsets=d.output_pixel_offsets,
        )  # fmt: skip

    examples = (
        example(
            "NEAREST_NEIGHBOR, wider and lower", SQUARE, [[1, 1, 2]], interpolation_mode="NEAREST_NEIGHBOR",
            scales=(0.5, 1.5), input_pixel_offsets=NONE, output_pixel_offsets=NONE, **DOWN,
        ),
        example("LINEAR, twice as large", SQUARE, ENLARGED, **TWICE, **DOWN),
    )  # fmt: skip
    rejecting = ()
    errata = SAMPLING_ERRATA


@operator("DML_OPERATOR_RESAMPLE1", 116, since=FeatureLevel.FL_2_1)
class Resample1(Desc):
    """Resizes a tensor: output o is read at x = (o - OutputPixelOffset) / Scale - InputPixelOffset in each dimension.

    NEAREST_NEIGHBOR copies the element at floor(x + 1/2). LINEAR interpolates in each dimension: the element at floor(x) has
    the weight 1 - (x - floor(x)), and the next one x - floor(x). Positions outside of the tensor have the element at the
    nearest edge. For NEAREST_NEIGHBOR, x is computed in float32 operations. Everything else is exact, and rounded once,
    integers half to even.
    """

    input_tensor: TensorDesc = field.input("InputTensor", INPUT)
    output_tensor: TensorDesc = field.output("OutputTensor", OUTPUT)
    interpolation_mode: InterpolationMode = field.attribute("InterpolationMode", field.INTERPOLATION_MODE, MODE)
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    scales: tuple[float, ...] = field.attribute("Scales", field.FLOAT, SCALES, sized_by="DimensionCount")
    input_pixel_offsets: tuple[float, ...] = field.attribute(
        "InputPixelOffsets", field.FLOAT, INPUT_OFFSETS, sized_by="DimensionCount"
    )
    output_pixel_offsets: tuple[float, ...] = field.attribute(
        "OutputPixelOffsets", field.FLOAT, OUTPUT_OFFSETS, sized_by="DimensionCount"
    )

    eager = centres()

    rows = rows("2_1")
    same = same("DataType DimensionCount", BOTH)
    counted = count_is_dimension_count()
    sampling = sampling_rules()

    def statement(d, x: Tensor) -> Nest:
        return resampled(d, x, halves_up)

    examples = (
        example("LINEAR, twice as large", SQUARE, ENLARGED, **FOUR_TWICE, **FOUR_CENTRED),
        example(
            "NEAREST_NEIGHBOR, wider and lower", SQUARE, [[1, 1, 2]], interpolation_mode="NEAREST_NEIGHBOR",
            scales=(1, 1, 0.5, 1.5), input_pixel_offsets=HALVES * 2, output_pixel_offsets=NONE * 2,
        ),
    )  # fmt: skip
    rejecting = (rejects("same_dimension_count", output_tensor=TensorDesc(DataType.FLOAT32, (1, 4, 4))),)
    errata = (
        *SAMPLING_ERRATA[:2],
        "The page does not say which of two elements is the nearest: the later one, floor(x + 1/2), as DirectML's developers "
        "say elsewhere.",
        "The page's example of NEAREST_NEIGHBOR does not print its offsets; those of the example here give its result, and "
        "those of centres do not.",
    )


@operator("DML_OPERATOR_RESAMPLE", 96, since=FeatureLevel.FL_2_0)
class Resample(Desc):
    """Resizes a tensor: RESAMPLE1 with the offsets of centres, 0.5 and -0.5."""

    input_tensor: TensorDesc = field.input("InputTensor", INPUT)
    output_tensor: TensorDesc = field.output("OutputTensor", OUTPUT)
    interpolation_mode: InterpolationMode = field.attribute("InterpolationMode", field.INTERPOLATION_MODE, MODE)
    scale_count: int | None = field.count("ScaleCount", "Entries of Scales.", default=None)
    scales: tuple[float, ...] = field.attribute("Scales", field.FLOAT, SCALES, sized_by="ScaleCount")

    rows = rows("2_0")
    same = same("DataType DimensionCount", BOTH)
    counted = count_is_dimension_count(count="ScaleCount")
    sampling = sampling_rules(offsets=False)

    def as_newest(d) -> Resample1:
        return Resample1(
            input_tensor=d.input_tensor, output_tensor=d.output_tensor, interpolation_mode=d.interpolation_mode,
            scales=d.scales, input_pixel_offsets=(0.5,) * len(d.scales), output_pixel_offsets=(-0.5,) * len(d.scales),
        )  # fmt: skip

    examples = (
        example("LINEAR, twice as large", SQUARE, ENLARGED, **FOUR_TWICE),
        example(
            "NEAREST_NEIGHBOR, wider and lower", SQUARE, [[3, 4, 4]], interpolation_mode="NEAREST_NEIGHBOR",
            scales=(1, 1, 0.5, 1.5),
        ),
    )  # fmt: skip
    rejecting = (
        rejects("same_dimension_count", output_tensor=TensorDesc(DataType.FLOAT32, (1, 4, 4))),
        rejects("scales_counted", scales=(1, 1, 2, 2, 1)),
    )
    errata = (
        SAMPLING_ERRATA[0],
        "The page says that the nearest to the centre of a pixel is taken, and not which of two: the later one (our decision).",
    )
