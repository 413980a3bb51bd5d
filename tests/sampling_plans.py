"""Plans for what reads images between their elements. Valid by construction, as those of `generators`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hypothesis import strategies as st

from anydml import FeatureLevel
from by_kinds import Plain, Plan, table_of
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
    """A tensor and another of any sizes, which are small where there are many dimensions."""
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


RESAMPLING = ("RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3", "RESAMPLE_GRAD", "RESAMPLE_GRAD1")

GENERATORS: Mapping[str, Callable[[st.DrawFn, FeatureLevel], Plan]] = {
    **{name: partial(resampling, name=name) for name in RESAMPLING},
}
