"""DML_OPERATOR_UPSAMPLE_2D: images enlarged by whole factors.

Source: ns-directml-dml_upsample_2d_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TWO, FOUR = TensorDesc(DataType.FLOAT32, (1, 1, 2, 2)), TensorDesc(DataType.FLOAT32, (1, 1, 4, 4))
DATA = dict(input_tensor=np.array([[[[1, 2], [3, 4]]]], np.float32))


def upsampled(d: Any) -> tuple[int, ...]:
    *others, height, width = d.input_tensor.sizes
    if d.scale_size.height < 1 or d.scale_size.width < 1:
        raise ValueError("a factor is 0, so that no sizes follow")
    return (*others, height * d.scale_size.height, width * d.scale_size.width)


@operator("DML_OPERATOR_UPSAMPLE_2D", 66, since=FeatureLevel.FL_1_0)
class Upsample2d(Desc):
    """Enlarges images by integer factors, with the nearest element or by interpolation of the two nearest in both dimensions.

    Output o is read at x = (o + 1/2) / Scale - 1/2; positions outside of the image have the element at the nearest edge. With
    LINEAR, the element at floor(x) has the weight 1 - (x - floor(x)), and the next one x - floor(x); sums are exact, and
    rounded once. With NEAREST_NEIGHBOR, bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The images, {BatchCount, ChannelCount, [Depth,] Height, Width}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The enlarged images.")
    scale_size: Size2D = field.attribute("ScaleSize", field.SIZE_2D, "The factors of width and height.")
    interpolation_mode: InterpolationMode = field.attribute(
        "InterpolationMode",
        field.INTERPOLATION_MODE,
        "NEAREST_NEIGHBOR, or LINEAR.",
        default=InterpolationMode.NEAREST_NEIGHBOR,
    )

    rows = (support("1_0", BOTH, (4, 5), FLOATS),)
    same = same("DataType DimensionCount", BOTH)

    @constraint("`ScaleSize` must be at least 1 in width and height.", breaks=lambda d: {"scale_size": (0, 2)})
    def scale_not_zero(d) -> bool:
        return d.scale_size.width >= 1 and d.scale_size.height >= 1

    output_sizes = sizes_are(
        "OutputTensor", "`OutputTensor.Sizes` must be `InputTensor.Sizes`, the last two times `ScaleSize`.", upsampled
    )

    def outputs(d) -> Outputs:
        return {"output_tensor": (upsampled(d), d.input_tensor.data_type)}

    def statement(d, x: Tensor) -> Nest:
        *others, h, w = i = each(d.output_tensor.sizes)
        scales = d.scale_size.height, d.scale_size.width
        if d.interpolation_mode == InterpolationMode.NEAREST_NEIGHBOR:
            return move(i, x[[*others, h // scales[0], w // scales[1]]])
        k = each((2, 2), "uv")
        at, weights = zip(*(tap(*axis) for axis in zip((h, w), k, scales, x.sizes[-2:], strict=True)), strict=True)
        return nest(i, Sum(k, x[[*others, *at]] * weights[0] * weights[1], weights[0] * weights[1] > 0))

    examples = (
        Example(
            "LINEAR, twice as large",
            dict(input_tensor=TWO, output_tensor=FOUR, scale_size=(2, 2), interpolation_mode="LINEAR"),
            DATA,
            np.array([[[[1, 1.25, 1.75, 2], [1.5, 1.75, 2.25, 2.5], [2.5, 2.75, 3.25, 3.5], [3, 3.25, 3.75, 4]]]], np.float32),
        ),
        Example(
            "NEAREST_NEIGHBOR, twice as large",
            dict(input_tensor=TWO, output_tensor=FOUR, scale_size=(2, 2), interpolation_mode="NEAREST_NEIGHBOR"),
            DATA,
            np.array([[[[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]]], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The text about OutputTensor says that it holds input data.",
        "The page says that elements are centres of pixels, and leaves open which they are between: those of RESAMPLE1 with "
        "its usual offsets (our decision).",
    )


def tap(o: Expr, k: Expr, scale: Any, size: Any) -> tuple[Expr, Expr]:
    """Along a dimension: the index of one of the two nearest elements (k is 0 or 1), and its weight."""
    twice = o * 2 + 1 - scale  # x * 2 * scale
    rest = twice % (2 * scale)
    share = number(select(equal(k, 0), 2 * scale - rest, rest)) / (2 * scale)
    return clamp(twice // (2 * scale) + k, 0, size - 1), share
