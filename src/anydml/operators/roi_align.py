"""DML_OPERATOR_ROI_ALIGN1 and its older version ROI_ALIGN: regions of images, sampled on a grid and reduced.

Sources: ns-directml-dml_roi_align1_operator_desc, ns-directml-dml_roi_align_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.region_rules import (
    ALIGNED,
    BATCHES,
    INPUT_OFFSET,
    MAXIMUM,
    MINIMUM,
    MODE,
    OUTPUT_OFFSET,
    REDUCTION,
    REGION_ERRATA,
    REGIONS,
    SCALE_X,
    SCALE_Y,
    region_data_rules,
    region_rules,
)
from anydml.operators.shared.regions import pooled_regions
from anydml.operators.shared.vocabulary import *

ALL = "InputTensor ROITensor OutputTensor"
IMAGES, OUTPUT = "The images, {BatchCount, ChannelCount, Height, Width}.", "The results, {R, ChannelCount, .., ..}."
OUTSIDE = "The value of samples that are out of bounds."
UINT32, UINT64 = DataType.UINT32, DataType.UINT64


def rows(since: str) -> tuple[Support, ...]:
    return (
        support(since, "InputTensor OutputTensor", (4, 4), FLOATS),
        support(since, "ROITensor", (2, 4), FLOATS),
        support(since, "BatchIndicesTensor", (1, 4), (UINT32,)),
        support("5_0", "BatchIndicesTensor", (1, 4), (UINT64, UINT32)),
    )


IMAGE = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
QUARTERS = np.array([[0, 0, 2, 2], [2, 0, 4, 2], [0, 2, 2, 4], [2, 2, 4, 4]], np.float32)
ONE: dict[str, Any] = dict(spatial_scale_x=1.0, spatial_scale_y=1.0)


def example(title: str, regions: Any, result: Any, **fields: Any) -> Example:
    """Regions of the image with the elements 1 to 16."""
    rois, made = np.array(regions, np.float32), np.array(result, np.float32)
    arrays = dict(input_tensor=IMAGE, roi_tensor=rois, batch_indices_tensor=np.zeros(len(rois), np.uint32))
    tensors = {name: TensorDesc.of(array) for name, array in arrays.items()}
    return Example(title, {**tensors, "output_tensor": TensorDesc.of(made), **fields}, arrays, made)


@operator("DML_OPERATOR_ROI_ALIGN1", 149, since=FeatureLevel.FL_4_0)
class RoiAlign1(Desc):
    """Reads samples of each region of an image, on a grid, and takes the mean or the largest of those of each output.

    In each dimension, the region goes from X1 = x1 * SpatialScale to X2 = x2 * SpatialScale. Its size, X2 - X1, may be
    negative, which mirrors the region. Each output has n samples: size / outputs, rounded up, and limited by the minimum and
    maximum. Sample s is at x = (s - OutputPixelOffset) * size / (outputs * n) + X1 - InputPixelOffset; with
    AlignRegionsToCorners the divisor is outputs * n - 1.

    LINEAR interpolates in both dimensions: the element at floor(x) has the weight 1 - (x - floor(x)), and the next one
    x - floor(x). NEAREST_NEIGHBOR takes the element at floor(x + 1/2). A sample with x below -1 or above the image's size has
    OutOfBoundsInputValue; other samples outside of the image are moved to its edge. Size and n are computed in float32
    operations; everything else is exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", IMAGES)
    roi_tensor: TensorDesc = field.input("ROITensor", REGIONS)
    batch_indices_tensor: TensorDesc = field.input("BatchIndicesTensor", BATCHES)
    output_tensor: TensorDesc = field.output("OutputTensor", OUTPUT)
    reduction_function: ReduceFunction = field.attribute("ReductionFunction", field.REDUCE_FUNCTION, REDUCTION)
    interpolation_mode: InterpolationMode = field.attribute("InterpolationMode", field.INTERPOLATION_MODE, MODE)
    spatial_scale_x: float = field.attribute("SpatialScaleX", field.FLOAT, SCALE_X, default=1.0)
    spatial_scale_y: float = field.attribute("SpatialScaleY", field.FLOAT, SCALE_Y, default=1.0)
    input_pixel_offset: float = field.attribute("InputPixelOffset", field.FLOAT, INPUT_OFFSET, default=0.5)
    output_pixel_offset: float = field.attribute("OutputPixelOffset", field.FLOAT, OUTPUT_OFFSET, default=-0.5)
    out_of_bounds_input_value: float = field.attribute("OutOfBoundsInputValue", field.FLOAT, OUTSIDE, default=0.0)
    minimum_samples_per_output: int = field.attribute("MinimumSamplesPerOutput", field.UINT, MINIMUM, default=1)
    maximum_samples_per_output: int = field.attribute("MaximumSamplesPerOutput", field.UINT, MAXIMUM, default=2**32 - 1)
    align_regions_to_corners: bool = field.attribute("AlignRegionsToCorners", field.BOOL, ALIGNED, default=False)

    rows = rows("4_0")
    same = same("DataType", ALL)
    regions = region_rules("InputTensor", "OutputTensor")
    batch_in_range, region_usable = region_data_rules("InputTensor", "OutputTensor")

    def statement(d, x: Tensor, roi: Tensor, batches: Tensor) -> Nest:
        return pooled_regions(d, x, roi, batches)

    examples = (
        example(
            "Page: NEAREST_NEIGHBOR, one sample for each output", QUARTERS,
            [[[[1, 1, 2]]], [[[3, 3, 4]]], [[[9, 9, 10]]], [[[11, 11, 12]]]], reduction_function="AVERAGE",
            interpolation_mode="NEAREST_NEIGHBOR", input_pixel_offset=0.5, output_pixel_offset=0.0,
            maximum_samples_per_output=1, **ONE,
        ),
        example(
            "Means of two by two samples", [[0.5, 0.5, 2.5, 2.5]], [[[[6, 7], [10, 11]]]], input_pixel_offset=0.0,
            reduction_function="AVERAGE", interpolation_mode="LINEAR", minimum_samples_per_output=2,
        ),
        example(
            "The largest of samples, some of which are out of bounds", [[-3, 0, 3, 2]], [[[[20, 5, 7]]]],
            reduction_function="MAX", interpolation_mode="LINEAR", out_of_bounds_input_value=20.0,
        ),
    )  # fmt: skip
    rejecting = (rejects("reduction_supported", reduction_function=ReduceFunction.SUM),)
    errata = (
        *REGION_ERRATA,
        "The page's example does not print its offsets; those of the example here give its result, those of centres do not.",
    )


@operator("DML_OPERATOR_ROI_ALIGN", 139, since=FeatureLevel.FL_3_0)
class RoiAlign(Desc):
    """Reads samples of each region of an image: ROI_ALIGN1 with offsets of 0.5 and -0.5, and without AlignRegionsToCorners."""

    input_tensor: TensorDesc = field.input("InputTensor", IMAGES)
    roi_tensor: TensorDesc = field.input("ROITensor", REGIONS)
    batch_indices_tensor: TensorDesc = field.input("BatchIndicesTensor", BATCHES)
    output_tensor: TensorDesc = field.output("OutputTensor", OUTPUT)
    reduction_function: ReduceFunction = field.attribute("ReductionFunction", field.REDUCE_FUNCTION, REDUCTION)
    interpolation_mode: InterpolationMode = field.attribute("InterpolationMode", field.INTERPOLATION_MODE, MODE)
    spatial_scale_x: float = field.attribute("SpatialScaleX", field.FLOAT, SCALE_X, default=1.0)
    spatial_scale_y: float = field.attribute("SpatialScaleY", field.FLOAT, SCALE_Y, default=1.0)
    out_of_bounds_input_value: float = field.attribute("OutOfBoundsInputValue", field.FLOAT, OUTSIDE, default=0.0)
    minimum_samples_per_output: int = field.attribute("MinimumSamplesPerOutput", field.UINT, MINIMUM, default=1)
    maximum_samples_per_output: int = field.attribute("MaximumSamplesPerOutput", field.UINT, MAXIMUM, default=2**32 - 1)

    rows = rows("3_0")
    same = same("DataType", ALL)
    regions = region_rules("InputTensor", "OutputTensor", offsets=False)
    batch_in_range, region_usable = region_data_rules("InputTensor", "OutputTensor")

    def as_newest(d) -> RoiAlign1:
        names = {f.name for f in d.spec.fields}
        return RoiAlign1(
            **{name: getattr(d, name) for name in names}, input_pixel_offset=0.5, output_pixel_offset=-0.5,
            align_regions_to_corners=False,
        )  # fmt: skip

    examples = (
        example(
            "Means of two by two samples", [[1, 1, 3, 3]], [[[[6, 7], [10, 11]]]], reduction_function="AVERAGE",
            interpolation_mode="LINEAR", minimum_samples_per_output=2, maximum_samples_per_output=2, **ONE,
        ),
    )  # fmt: skip
    rejecting = ()
    errata = REGION_ERRATA
