"""DML_OPERATOR_ROI_POOLING: the largest elements of parts of regions of images.

Source: ns-directml-dml_roi_pooling_operator_desc.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from anydml.operators.shared.vocabulary import *

ALL = "InputTensor ROITensor OutputTensor"
SQUARE = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
TENTHS = (np.arange(108, dtype=np.float32) / np.float32(10)).reshape(1, 3, 6, 6)


def pooled(d: Any) -> tuple[int, ...]:
    if d.pooled_size.height < 1 or d.pooled_size.width < 1:
        raise ValueError("a size is 0, so that no sizes follow")
    return d.roi_tensor.sizes[2], d.input_tensor.sizes[1], d.pooled_size.height, d.pooled_size.width


def example(title: str, image: NDArray[Any], region: tuple[float, ...], result: Any) -> Example:
    rois, made = np.array([[[region]]], np.float32), np.array(result, np.float32)
    return Example(
        title,
        dict(
            input_tensor=TensorDesc.of(image), roi_tensor=TensorDesc.of(rois), output_tensor=TensorDesc.of(made),
            spatial_scale=1.0, pooled_size=made.shape[:1:-1],
        ),
        dict(input_tensor=image, roi_tensor=rois),
        made,
    )  # fmt: skip


@dataclass(frozen=True)
class Side:
    """A dimension of the regions. axis: its letter in formulas. first, last: columns of ROITensor. size: the images' size."""

    roi: Tensor
    axis: str
    first: int
    last: int
    scale: Any
    outputs: Any
    size: Any

    def corner(self, r: Expr, at: int) -> Expr:
        return index(half_away(self.roi[0, 0, r, at] * self.scale))

    def start(self, r: Expr) -> Expr:
        """The first element of a region."""
        return named(f"Start{self.axis}", "r", lambda r: self.corner(r, self.first), (r,))

    def extent(self, r: Expr) -> Expr:
        """The number of a region's elements."""
        return named(f"Extent{self.axis}", "r", lambda r: maximum(self.corner(r, self.last) - self.start(r) + 1, 1), (r,))

    def begin(self, r: Expr, o: Expr) -> Expr:
        """The first element of output o's part of a region."""

        def element(r: Expr, o: Expr) -> Expr:
            return clamp(o * self.extent(r) // self.outputs + self.start(r), 0, self.size)

        return named(f"Begin{self.axis}", "ro", element, (r, o))

    def end(self, r: Expr, o: Expr) -> Expr:
        """The element after the last one of output o's part of a region."""

        def element(r: Expr, o: Expr) -> Expr:
            return clamp(((o + 1) * self.extent(r) + self.outputs - 1) // self.outputs + self.start(r), 0, self.size)

        return named(f"End{self.axis}", "ro", element, (r, o))


@operator("DML_OPERATOR_ROI_POOLING", 59, since=FeatureLevel.FL_1_0)
class RoiPooling(Desc):
    """Selects the largest element of each part of each region of an image; the parts may overlap.

    A region's first and last elements are its corners times SpatialScale, rounded half away from 0. If it has L elements in a
    dimension and P parts, part o goes from element o * L / P, rounded down, to the one before (o + 1) * L / P, rounded up.
    Elements outside of the image are left out; a part without elements gives 0. The largest is the first NaN or, if there is
    none, the first of the largest numbers. Its bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The images, {BatchCount, ChannelCount, Height, Width}.")
    roi_tensor: TensorDesc = field.input("ROITensor", "The regions, rows of batch index, x1, y1, x2, y2, {1, 1, R, 5}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The largest elements, {R, ChannelCount, Height, Width}.")
    spatial_scale: float = field.attribute("SpatialScale", field.FLOAT, "The factor of the corners.", default=1.0)
    pooled_size: Size2D = field.attribute("PooledSize", field.SIZE_2D, "The parts of a region in width and height.")

    rows = (support("1_0", ALL, (4, 4), FLOATS),)
    same = same("DataType", ALL)
    roi_sizes = sizes_are(
        "ROITensor", "`ROITensor.Sizes` must be {1, 1, R, 5}, for R regions.", lambda d: (1, 1, d.roi_tensor.sizes[2], 5)
    )

    @constraint("`PooledSize` must be at least 1 in width and height.")
    def pooled_size_not_zero(d) -> bool:
        return d.pooled_size.width >= 1 and d.pooled_size.height >= 1

    output_sizes = sizes_are(
        "OutputTensor",
        "`OutputTensor.Sizes` must be {the third of `ROITensor.Sizes`, the second of `InputTensor.Sizes`, the height and the "
        "width of `PooledSize`}.",
        pooled,
    )

    @constraint("`SpatialScale` must be finite.", breaks=lambda d: {"spatial_scale": math.inf})
    def spatial_scale_finite(d) -> bool:
        return math.isfinite(d.spatial_scale)

    @data_rule("a batch index is an integer from 0 to below the first of `InputTensor.Sizes`.", "ROITensor")
    def batch_in_range(d: Any, regions: NDArray[Any]) -> NDArray[np.bool_]:
        bad = np.zeros(regions.shape, np.bool_)
        batches = regions[..., 0]
        with np.errstate(invalid="ignore"):  # of signalling NaN
            bad[..., 0] = ~((batches >= 0) & (batches < d.input_tensor.sizes[0]) & (np.floor(batches) == batches))
        return bad

    @data_rule("a region's coordinate is finite.", "ROITensor")
    def roi_finite(d: Any, regions: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(~np.isfinite(regions))

    def outputs(d) -> Outputs:
        return {"output_tensor": (pooled(d), d.input_tensor.data_type)}

    def statement(d, x: Tensor, roi: Tensor) -> Nest:
        r, c, oy, ox = i = each(d.output_tensor.sizes)
        batch = roi[0, 0, r, 0]
        height, width = x.sizes[2:]
        y = Side(roi, "Y", 2, 4, d.spatial_scale, d.pooled_size.height, height)
        x_side = Side(roi, "X", 1, 3, d.spatial_scale, d.pooled_size.width, width)
        (top, bottom), (left, right) = (y.begin(r, oy), y.end(r, oy)), (x_side.begin(r, ox), x_side.end(r, ox))
        p, q = k = each((height, width), "yx")
        image = index(batch)
        there = both(p < bottom - top, q < right - left)
        place = first_largest(k, x[image, c, top + p, left + q], where=there)
        row, column = unraveled(place, (height, width))
        return move(i, select(both(top < bottom, left < right), x[image, c, top + row, left + column], 0))

    examples = (
        example("Two by two parts", SQUARE, (0, 0, 0, 3, 3), [[[[6, 8], [14, 16]]]]),
        example("Parts that overlap", SQUARE, (0, 0, 0, 3, 3), [[[[6, 7, 8], [10, 11, 12], [14, 15, 16]]]]),
        example("Three channels", TENTHS, (0, 1, 1, 2, 3), [[[[2]], [[5.6]], [[9.2]]]]),
    )
    rejecting = (rejects("pooled_size_not_zero", pooled_size=(0, 2)),)
    errata = (
        "The page does not say how coordinates are rounded: halves away from 0 (our decision, as in onnxruntime).",
        "The page does not say what a part without elements gives: 0; nor a region whose last element comes before its first: "
        "it has one (our decisions, as in onnxruntime).",
        "The page does not say what a batch index that names no image gives, nor a coordinate that is not finite: errors.",
        "The page does not say what NaN does: the first one is the largest element, as in MAX_POOLING2 (our decision).",
        "PooledSize is Width, then Height; clients that pass height first are right for squares alone.",
    )
