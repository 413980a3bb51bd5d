"""Plans for operators that read images between their elements. All are valid by construction, like those of `generators`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hypothesis import strategies as st

from anydml import DataType, FeatureLevel, TensorDesc
from drawn_descs import FLOATS, Plain, Plan, table_of
from tensors import sizes_of

SCALES = st.one_of(
    st.sampled_from((1.0, 1.0, 1.0, 2.0, 3.0, 0.5, 0.25, 1.5, 1 / 3, 2 / 3, 0.1)),
    st.sampled_from((2.0**-149, 3.4028234663852886e38, 1e-3, 0.49999997, 7 / 3)),
    st.floats(0.125, 8, width=32),
)
OFFSETS = st.sampled_from((0.0, 0.5, -0.5, -0.0, 1.0, -1.0, 0.25, 0.3, 2.5, -7.0, 1e30, -3.4028234663852886e38, 2.0**-149))
MODES = ("NEAREST_NEIGHBOR", "LINEAR")
DIRECTIONS = ("INCREASING", "DECREASING")


def resampling(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """Two tensors of any sizes, which are small if they have many dimensions."""
    names = ("input_gradient_tensor", "output_gradient_tensor") if "GRAD" in name else ("input_tensor", "output_tensor")
    row = table_of(name, level, "InputGradientTensor" if "GRAD" in name else "InputTensor")
    rank = draw(st.integers(row.dimension_counts[0], row.dimension_counts[-1]))
    data_type = draw(st.sampled_from(row.data_types))
    scales, tensors = [], [draw(sizes_of(rank)), draw(sizes_of(rank))]
    offsets: tuple[list[float], list[float]] = ([], [])
    for _ in range(rank):
        kind = draw(st.integers(0, 5))
        scales.append(1.0 if kind < 2 else draw(SCALES))
        pair = (0.5, -0.5) if kind < 4 else (draw(OFFSETS), draw(OFFSETS))
        for found, value in zip(offsets, pair, strict=True):
            found.append(value)
    plan: Plan = {n: Plain(data_type, sizes) for n, sizes in zip(names, tensors, strict=True)}
    plan |= {"interpolation_mode": draw(st.sampled_from(MODES)), "scales": tuple(scales)}
    if name != "RESAMPLE":
        plan |= {"input_pixel_offsets": tuple(offsets[0]), "output_pixel_offsets": tuple(offsets[1])}
    if name in ("RESAMPLE2", "RESAMPLE3", "RESAMPLE_GRAD1"):
        plan["rounding_direction"] = draw(st.sampled_from(DIRECTIONS))
    if name == "RESAMPLE3":
        plan["antialiased"] = draw(st.booleans())
    return plan


def regions(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """A few regions of small images, with few samples for each output."""
    data_type = draw(st.sampled_from(FLOAT_TYPES))
    batch, channels, count = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    image = Plain(data_type, (batch, channels, *(draw(st.integers(1, 4)) for _ in range(2))))
    outputs = Plain(data_type, (count, channels, *(draw(st.integers(1, 2)) for _ in range(2))))
    if name == "ROI_POOLING":
        scale, size = draw(SPATIAL), outputs.sizes[:1:-1]
        packed = TensorDesc(data_type, (1, 1, count, 5))  # packed, so that no batch index is also a coordinate
        return dict(input_tensor=image, roi_tensor=packed, output_tensor=outputs, spatial_scale=scale, pooled_size=size)
    most = draw(st.integers(1, 3))
    rois = Plain(data_type, (*(1,) * draw(st.integers(0, 2)), count, 4))
    types = table_of(name, level, "BatchIndicesTensor").data_types
    plan: Plan = dict(
        input_tensor=image,
        roi_tensor=rois,
        batch_indices_tensor=Plain(draw(st.sampled_from(types)), (*(1,) * draw(st.integers(0, 3)), count)),
        reduction_function=draw(st.sampled_from(("AVERAGE", "MAX"))),
        interpolation_mode=draw(st.sampled_from(MODES)),
        spatial_scale_x=draw(SPATIAL),
        spatial_scale_y=draw(SPATIAL),
        minimum_samples_per_output=draw(st.integers(1, most)),
        maximum_samples_per_output=most,
    )
    if name != "ROI_ALIGN":
        plan |= dict(
            input_pixel_offset=draw(st.one_of(st.sampled_from((0.5, 0.0)), OFFSETS)),
            output_pixel_offset=draw(st.one_of(st.sampled_from((-0.5, 0.0)), OFFSETS)),
            align_regions_to_corners=draw(st.booleans()),
        )
    if name != "ROI_ALIGN_GRAD":
        return plan | dict(output_tensor=outputs, out_of_bounds_input_value=draw(FLOATS))
    given = draw(st.sampled_from(((image, None), (None, rois), (image, rois))))
    needed = given[1] is not None or plan["reduction_function"] == "MAX"
    return plan | dict(
        input_tensor=image if needed or draw(st.booleans()) else None,
        input_gradient_tensor=outputs,
        output_gradient_tensor=given[0],
        output_roi_gradient_tensor=given[1],
    )


SPATIAL = st.one_of(st.just(1.0), st.sampled_from((0.5, 2.0, 0.0625, -1.0, 0.0, 3e38, 2.0**-149)))
FLOAT_TYPES = (DataType.FLOAT32, DataType.FLOAT16)
RESAMPLING = ("RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3", "RESAMPLE_GRAD", "RESAMPLE_GRAD1")

GENERATORS: Mapping[str, Callable[[st.DrawFn, FeatureLevel], Plan]] = {
    **{name: partial(resampling, name=name) for name in RESAMPLING},
    **{name: partial(regions, name=name) for name in ("ROI_ALIGN", "ROI_ALIGN1", "ROI_ALIGN_GRAD", "ROI_POOLING")},
}
