"""DML_OPERATOR_SLICE_GRAD: the gradient of a slice's input.

Source: ns-directml-dml_slice_grad_operator_desc.
"""

from __future__ import annotations

from functools import reduce

from anydml.operators.shared.vocabulary import *
from anydml.operators.slice import max_copied

BOTH = "InputGradientTensor OutputGradientTensor"
TWO, FOUR = TensorDesc(DataType.FLOAT32, (1, 1, 2, 2)), TensorDesc(DataType.FLOAT32, (1, 1, 4, 4))
GRADIENT = dict(input_gradient_tensor=np.array([[[[1, 2], [3, 4]]]], np.float32))


@operator("DML_OPERATOR_SLICE_GRAD", 135, since=FeatureLevel.FL_3_0)
class SliceGrad(Desc):
    """Copies the gradients of SLICE1's outputs to the elements that it read, and 0 to the others.

    OutputGradient[start + stride * c] = InputGradient[c], where start is the window's first element, or its last one if the
    stride is negative. Bits are copied unchanged.
    """

    input_gradient_tensor: TensorDesc = field.input("InputGradientTensor", "The gradient of the slice.")
    output_gradient_tensor: TensorDesc = field.output("OutputGradientTensor", "The gradient of what was sliced.")
    dimension_count: int | None = field.count("DimensionCount", "Entries of the three window arrays.", default=None)
    input_window_offsets: tuple[int, ...] = field.attribute(
        "InputWindowOffsets", field.UINT, "Where the window begins, in elements.", sized_by="DimensionCount"
    )
    input_window_sizes: tuple[int, ...] = field.attribute(
        "InputWindowSizes", field.UINT, "Extent of the window, in elements.", sized_by="DimensionCount"
    )
    input_window_strides: tuple[int, ...] = field.attribute(
        "InputWindowStrides", field.INT, "Elements to advance; negative: from the window's end backwards.",
        sized_by="DimensionCount",
    )  # fmt: skip

    eight_bit_floats = BOTH
    rows = (
        support("3_0", BOTH, (4, 5), EIGHT),
        support("3_1", BOTH, (1, 8), EIGHT),
        support("4_1", BOTH, (1, 8), ELEVEN),
    )
    same = same("DataType DimensionCount", BOTH)
    counted = count_is_dimension_count("InputGradientTensor")

    @constraint("`InputWindowSizes` must be at least 1: the window may not be empty.", each="InputWindowSizes")
    def window_not_empty(d, i: int) -> bool:
        return d.input_window_sizes[i] >= 1

    @constraint(
        "`InputWindowOffsets` and `InputWindowSizes` must add up to at most `OutputGradientTensor.Sizes`: the window lies "
        "inside the output.",
        each=DIMENSION,
        breaks=lambda d: {"input_window_offsets": (*d.input_window_offsets[:-1], 4)},
    )
    def window_inside_output(d, i: int) -> bool:
        if len(d.output_gradient_tensor.sizes) != len(d.input_window_offsets):
            raise ValueError("the rule about dimension counts is broken, so that sizes cannot be compared")
        return d.input_window_offsets[i] + d.input_window_sizes[i] <= d.output_gradient_tensor.sizes[i]

    @constraint(
        "`InputWindowStrides` must not be 0.",
        each="InputWindowStrides",
        breaks=lambda d: {"input_window_strides": (0, *d.input_window_strides[1:])},
    )
    def stride_not_zero(d, i: int) -> bool:
        return d.input_window_strides[i] != 0

    @constraint(
        "`InputGradientTensor.Sizes` must be at most 1 + (`InputWindowSizes` - 1) / |`InputWindowStrides`|, rounded down: the "
        "elements that the window has.",
        each=DIMENSION,
        breaks=lambda d: {"input_gradient_tensor": TensorDesc(DataType.FLOAT32, (1, 1, 2, 3))},
    )
    def input_within_window(d, i: int) -> bool:
        if d.input_window_sizes[i] < 1:
            raise ValueError("the window is empty")
        return d.input_gradient_tensor.sizes[i] <= max_copied(d.input_window_sizes[i], d.input_window_strides[i])

    def statement(d, gradient: Tensor) -> Nest:
        i = each(d.output_gradient_tensor.sizes)
        at, met = [], []
        window = zip(i, d.input_window_offsets, d.input_window_sizes, d.input_window_strides, strict=True)
        for p, offset, size, stride in window:
            steps = p - offset if stride > 0 else offset + size - 1 - p
            length = stride if stride > 0 else -stride
            at.append(steps // length)
            met.append(equal(steps % length, 0))
        return move(i, select(reduce(both, met), gradient.or_else(at, 0), 0))

    examples = (
        Example(
            "Page: every second element",
            dict(
                input_gradient_tensor=TWO, output_gradient_tensor=FOUR,
                input_window_offsets=(0, 0, 0, 0), input_window_sizes=(1, 1, 4, 3), input_window_strides=(1, 1, 2, 2),
            ),
            GRADIENT,
            np.array([[[[1, 0, 2, 0], [0, 0, 0, 0], [3, 0, 4, 0], [0, 0, 0, 0]]]], np.float32),
        ),
        Example(
            "From the window's end backwards",
            dict(
                input_gradient_tensor=TWO, output_gradient_tensor=FOUR,
                input_window_offsets=(0, 0, 0, 1), input_window_sizes=(1, 1, 4, 3), input_window_strides=(1, 1, -2, 2),
            ),
            GRADIENT,
            np.array([[[[0, 0, 0, 0], [0, 3, 0, 4], [0, 0, 0, 0], [0, 1, 0, 2]]]], np.float32),
        ),
    )  # fmt: skip
    rejecting = (rejects("window_not_empty", input_window_sizes=(0, 1, 4, 3)),)
    errata = (
        "The page has UINT for the strides; the header has INT.",
        "The page says that strides of 0 are forbidden other than in SLICE1, whose page forbids them, too.",
        "The page does not say how large InputGradient may be: as large as the window allows, or less (our decision).",
    )
