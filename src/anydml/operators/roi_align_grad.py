"""DML_OPERATOR_ROI_ALIGN_GRAD: the gradients of the images and the corners of sampled regions.

Source: ns-directml-dml_roi_align_grad_operator_desc.
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
from anydml.operators.shared.regions import image_gradient, region_gradient
from anydml.operators.shared.vocabulary import *

IMAGES = "InputTensor InputGradientTensor OutputGradientTensor"
REGION_TENSORS = "ROITensor OutputROIGradientTensor"
PASSED = [[3, 3, 9, 6], [0, 0, 0, 0], [15, 9, 21, 12], [0, 0, 0, 0]]
FIVE = TensorDesc(DataType.FLOAT32, (4, 5))
QUARTERS = np.array([[0, 0, 2, 2], [2, 0, 4, 2], [0, 2, 2, 4], [2, 2, 4, 4]], np.float32)
NEAREST: dict[str, Any] = dict(
    reduction_function="AVERAGE", interpolation_mode="NEAREST_NEIGHBOR", output_pixel_offset=0.0, maximum_samples_per_output=1
)
LINEAR: dict[str, Any] = dict(interpolation_mode="LINEAR", input_pixel_offset=0.0)


def example(title: str, incoming: Any, regions: Any, images: Any, corners: Any, **fields: Any) -> Example:
    """Regions of the image with the squares of 1 to 16, in four rows."""
    arrays: dict[str, NDArray[Any]] = dict(
        input_tensor=np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4) ** 2,
        input_gradient_tensor=np.array(incoming, np.float32),
        roi_tensor=np.array(regions, np.float32),
        batch_indices_tensor=np.zeros(len(regions), np.uint32),
    )
    outputs = dict(
        output_gradient_tensor=np.array([[images]], np.float32), output_roi_gradient_tensor=np.array(corners, np.float32)
    )
    return Example(title, {n: TensorDesc.of(a) for n, a in (arrays | outputs).items()} | fields, arrays, outputs)


@operator("DML_OPERATOR_ROI_ALIGN_GRAD", 150, since=FeatureLevel.FL_4_1)
class RoiAlignGrad(Desc):
    """Computes the gradients of the images and of the regions' corners from that of ROI_ALIGN1's output.

    OutputGradient is, for each element, the sum of the gradients of the outputs that read it, each times the element's weight.
    With AVERAGE, this is its weight in a sample, divided by the number of samples; with MAX, its weight in the first of the
    largest samples. Samples out of bounds are left out.

    OutputROIGradient is, for each corner x1, y1, x2, y2, the sum of the gradients, each times the derivative of a sample's
    position by the corner, where n is constant, and times the derivative of the image at that position. The latter is 0 with
    NEAREST_NEIGHBOR, and where a position was moved to the edge. Results are exact, and rounded once.
    """

    input_tensor: TensorDesc | None = field.input(
        "InputTensor", "The images, {BatchCount, ChannelCount, Height, Width}; absent where they are not needed.", default=None
    )
    input_gradient_tensor: TensorDesc = field.input("InputGradientTensor", "The incoming gradient, {R, ChannelCount, .., ..}.")
    roi_tensor: TensorDesc = field.input("ROITensor", REGIONS)
    batch_indices_tensor: TensorDesc = field.input("BatchIndicesTensor", BATCHES)
    output_gradient_tensor: TensorDesc | None = field.output(
        "OutputGradientTensor", "The gradient of the images, {BatchCount, ChannelCount, Height, Width}.", default=None
    )
    output_roi_gradient_tensor: TensorDesc | None = field.output(
        "OutputROIGradientTensor", "The gradient of the regions' corners.", default=None
    )
    reduction_function: ReduceFunction = field.attribute("ReductionFunction", field.REDUCE_FUNCTION, REDUCTION)
    interpolation_mode: InterpolationMode = field.attribute("InterpolationMode", field.INTERPOLATION_MODE, MODE)
    spatial_scale_x: float = field.attribute("SpatialScaleX", field.FLOAT, SCALE_X, default=1.0)
    spatial_scale_y: float = field.attribute("SpatialScaleY", field.FLOAT, SCALE_Y, default=1.0)
    input_pixel_offset: float = field.attribute("InputPixelOffset", field.FLOAT, INPUT_OFFSET, default=0.5)
    output_pixel_offset: float = field.attribute("OutputPixelOffset", field.FLOAT, OUTPUT_OFFSET, default=-0.5)
    minimum_samples_per_output: int = field.attribute("MinimumSamplesPerOutput", field.UINT, MINIMUM, default=1)
    maximum_samples_per_output: int = field.attribute("MaximumSamplesPerOutput", field.UINT, MAXIMUM, default=2**32 - 1)
    align_regions_to_corners: bool = field.attribute("AlignRegionsToCorners", field.BOOL, ALIGNED, default=False)

    rows = (
        support("4_1", IMAGES, (4, 4), FLOATS),
        support("4_1", REGION_TENSORS, (2, 4), FLOATS),
        support("4_1", "BatchIndicesTensor", (1, 4), (DataType.UINT32,)),
    )
    same = (
        *same("DataType", f"{IMAGES} {REGION_TENSORS}"),
        *same("Sizes", "InputTensor OutputGradientTensor"),
        *same("DimensionCount Sizes", REGION_TENSORS, name="corners"),
    )
    regions = region_rules("InputTensor OutputGradientTensor", "InputGradientTensor")

    @constraint(
        "One of `OutputGradientTensor` and `OutputROIGradientTensor` must be there.",
        breaks=lambda d: {"output_gradient_tensor": None, "output_roi_gradient_tensor": None},
    )
    def an_output_present(d) -> bool:
        return {d.output_gradient_tensor, d.output_roi_gradient_tensor} != {None}

    @constraint(
        "`InputTensor` must be there where `OutputROIGradientTensor` is, or `ReductionFunction` is MAX.",
        breaks=lambda d: {"input_tensor": None},
    )
    def input_needed(d) -> bool:
        needed = d.reduction_function == ReduceFunction.MAX, d.output_roi_gradient_tensor is not None
        return d.input_tensor is not None or not any(needed)

    batch_in_range, region_usable = region_data_rules("InputTensor OutputGradientTensor", "InputGradientTensor")

    def statement(d, x: Tensor | None, g: Tensor, roi: Tensor, batches: Tensor) -> tuple[Nest | None, Nest | None]:
        return (
            None if d.output_gradient_tensor is None else image_gradient(d, x, g, roi, batches),
            None if d.output_roi_gradient_tensor is None or x is None else region_gradient(d, x, g, roi, batches),
        )

    def outputs(d) -> Outputs:
        data_type = d.input_gradient_tensor.data_type
        corners = {} if d.input_tensor is None else {"output_roi_gradient_tensor": (d.roi_tensor.sizes, data_type)}
        return {"output_gradient_tensor": (None, data_type)} | corners

    examples = (
        example(
            "Page: NEAREST_NEIGHBOR, one sample for each output", np.arange(1, 13).reshape(4, 1, 1, 3), QUARTERS, PASSED,
            np.zeros((4, 4)), **NEAREST,
        ),
        example(
            "A mean of two by two samples", [[[[4]]]], [[0.5, 0.5, 2.5, 2.5]],
            [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]], [[35, 152, 37, 184]],
            reduction_function="AVERAGE", **LINEAR,
        ),
        example(
            "The largest of two by two samples", [[[[4]]]], [[0.5, 0.5, 2.5, 2.5]],
            [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 4, 0], [0, 0, 0, 0]], [[23, 104, 69, 312]],
            reduction_function="MAX", **LINEAR,
        ),
    )  # fmt: skip
    rejecting = (
        rejects("roi_sizes", roi_tensor=FIVE, output_roi_gradient_tensor=FIVE),
        rejects("same_dimension_count_corners", output_roi_gradient_tensor=TensorDesc(DataType.FLOAT32, (1, 4, 4))),
    )
    errata = (
        *REGION_ERRATA,
        "The page leaves SpatialScale and the number of samples out of the gradient of the corners; the derivative of "
        "ROI_ALIGN1 has them (our decision).",
        "The page does not say which of equally large samples has the gradient: the first one, of those in bounds; NaN counts "
        "as the largest (our decision).",
        "The page's example does not print its offsets; those of the example here give its result.",
    )
