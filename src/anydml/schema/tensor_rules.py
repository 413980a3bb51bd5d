"""The rules that every tensor desc keeps, for any operator: from DML_BUFFER_TENSOR_DESC's page, and our decisions.

`t` is the tensor desc. A rule about an absent field is not judged. Each rule has an example that breaks only it.
"""

from __future__ import annotations

from collections.abc import Iterator

from anydml.schema.constraint import DIMENSION, Constraint, constraint, judge
from anydml.schema.field import INPUT, OUTPUT
from anydml.tensor import DataType, TensorDesc, TensorFlags, packed_strides

UINT_MAX, UINT64_MAX = 2**32 - 1, 2**64 - 1
UINT = range(2**32)


@constraint("`DataType` must not be UNKNOWN.")
def data_type_known(t: TensorDesc) -> bool:
    return t.data_type != DataType.UNKNOWN


@constraint("`DimensionCount` must be 1 to 8.", expected=lambda t: {"DimensionCount": range(1, 9)})
def dimension_count_in_range(t: TensorDesc) -> bool:
    return 1 <= t.dimension_count <= 8


@constraint(
    "`Sizes` must fit UINT, 0 to 4294967295.",
    each=DIMENSION,
    expected=lambda t, i: {f"Sizes[{i}]": range(1, 2**32)},
    carries=True,
)
def sizes_fit(t: TensorDesc, i: int) -> bool:
    return 0 <= t.sizes[i] <= UINT_MAX


@constraint(
    "`Sizes` must be at least 1: no dimension may be empty.",
    each=DIMENSION,
    expected=lambda t, i: {f"Sizes[{i}]": range(1, 2**32)},
)
def size_at_least_one(t: TensorDesc, i: int) -> bool:
    return t.sizes[i] >= 1


@constraint("`Strides` must have one entry for each of `Sizes`.")
def stride_for_each_size(t: TensorDesc) -> bool:
    return t.strides is None or len(t.strides) == len(t.sizes)


@constraint(
    "`Strides` must fit UINT, 0 to 4294967295.",
    each=DIMENSION,
    expected=lambda t, i: {f"Strides[{i}]": UINT},
    carries=True,
)
def strides_fit(t: TensorDesc, i: int) -> bool:
    return t.strides is None or 0 <= t.strides[i] <= UINT_MAX


@constraint(
    "The elements from the first to the last in memory, 1 + the sum of (`Sizes` - 1) * `Strides`, must be at most 4294967295; "
    "absent strides are packed ones."
)
def span_in_range(t: TensorDesc) -> bool:
    if t.strides is not None and len(t.strides) != len(t.sizes):
        raise ValueError("a span needs a stride for each size")
    return t.span <= UINT_MAX


@constraint(
    "`TotalTensorSizeInBytes` must fit UINT64, 0 to 18446744073709551615.",
    expected=lambda t: {"TotalTensorSizeInBytes": range(2**64)},
    carries=True,
)
def total_fits(t: TensorDesc) -> bool:
    return 0 <= t.total_tensor_size_in_bytes <= UINT64_MAX


@constraint(
    "`TotalTensorSizeInBytes` must hold the elements of `DataType` that `Sizes` and `Strides` span, rounded up to 4 bytes.",
    expected=lambda t: {"TotalTensorSizeInBytes": range(t.smallest_total, 2**64)},
)
def total_large_enough(t: TensorDesc) -> bool:
    total, sizes, strides, data_type = t.total_tensor_size_in_bytes, t.sizes, t.strides, t.data_type
    return total == 0 or total >= TensorDesc(data_type, sizes, strides=strides).smallest_total


@constraint(
    "`GuaranteedBaseOffsetAlignment` must fit UINT, 0 to 4294967295.",
    expected=lambda t: {"GuaranteedBaseOffsetAlignment": UINT},
    carries=True,
)
def alignment_fits(t: TensorDesc) -> bool:
    return 0 <= t.guaranteed_base_offset_alignment <= UINT_MAX


@constraint(
    "`GuaranteedBaseOffsetAlignment` must be 0 or a power of two not smaller than an element of `DataType`.",
    expected=lambda t: {"GuaranteedBaseOffsetAlignment": [0, max(1, t.data_type.element_bits // 8)]},
)
def alignment_valid(t: TensorDesc) -> bool:
    alignment = t.guaranteed_base_offset_alignment
    return alignment == 0 or (alignment & (alignment - 1) == 0 and alignment * 8 >= t.data_type.element_bits)


@constraint(
    "`Flags` must not have OWNED_BY_DML on an output: only inputs can be owned.",
    expected=lambda t: {"Flags": TensorFlags.NONE},
)
def output_not_owned(t: TensorDesc) -> bool:
    return t.flags != TensorFlags.OWNED_BY_DML  # the only flag there is


@constraint(
    "`Strides` must keep the elements of an output apart in memory: sorted, each exceeds the sum of (`Sizes` - 1) * `Strides` "
    "over the smaller ones."
)
def output_strides_nest(t: TensorDesc) -> bool:
    if t.strides is None:
        return True
    reach = 0
    for stride, size in sorted((s, n) for n, s in zip(t.sizes, t.strides, strict=True) if n > 1):
        if stride <= reach:
            return False
        reach += (size - 1) * stride
    return True


@constraint(
    "`Strides` must be those of a packed tensor of `Sizes` on an output of a 4-bit `DataType`: a byte has two elements.",
    expected=lambda t: {"Strides": packed_strides(t.sizes)},
)
def four_bit_output_packed(t: TensorDesc) -> bool:
    if t.strides is None or t.data_type.element_bits != 4:
        return True
    packed = zip(t.sizes, t.strides, packed_strides(t.sizes), strict=True)
    return all(stride == wanted for size, stride, wanted in packed if size > 1)


ALWAYS = (data_type_known, dimension_count_in_range, sizes_fit, size_at_least_one)
WITH_STRIDES = (stride_for_each_size, strides_fit)
WITH_TOTAL = (total_fits, total_large_enough)
WITH_ALIGNMENT = (alignment_fits, alignment_valid)
ON_OUTPUTS = (output_not_owned, output_strides_nest, four_bit_output_packed)
TENSOR_RULES = (*ALWAYS, *WITH_STRIDES, span_in_range, *WITH_TOTAL, *WITH_ALIGNMENT, *ON_OUTPUTS)

_FLOAT32, _OWNED = DataType.FLOAT32, TensorFlags.OWNED_BY_DML
BREAKS = {  # name of the rule: a tensor desc that breaks it and nothing else
    "data_type_known": TensorDesc(DataType.UNKNOWN, (1,)),
    "dimension_count_in_range": TensorDesc(_FLOAT32, (1,) * 9),
    "sizes_fit": TensorDesc(_FLOAT32, (2**32,)),
    "size_at_least_one": TensorDesc(_FLOAT32, (2, 0)),
    "stride_for_each_size": TensorDesc(_FLOAT32, (2, 2), strides=(1,)),
    "strides_fit": TensorDesc(_FLOAT32, (2, 2), strides=(2**32, 1)),
    "span_in_range": TensorDesc(_FLOAT32, (2**16, 2**16)),
    "total_fits": TensorDesc(_FLOAT32, (1,), total_tensor_size_in_bytes=2**64),
    "total_large_enough": TensorDesc(_FLOAT32, (4, 4), total_tensor_size_in_bytes=60),
    "alignment_fits": TensorDesc(_FLOAT32, (1,), guaranteed_base_offset_alignment=2**32),
    "alignment_valid": TensorDesc(_FLOAT32, (1,), guaranteed_base_offset_alignment=24),
    "output_not_owned": TensorDesc(_FLOAT32, (1,), flags=_OWNED),
    "output_strides_nest": TensorDesc(_FLOAT32, (2, 4), strides=(3, 1)),
    "four_bit_output_packed": TensorDesc(DataType.UINT4, (2, 4), strides=(5, 1)),
}


def broken(t: TensorDesc, role: str) -> Iterator[tuple[Constraint, int | None]]:
    """Every tensor rule that `t` breaks in this role, with the dimension for rules that are judged for each dimension."""
    rules = [*ALWAYS]
    if t.strides is not None:
        rules += WITH_STRIDES
    rules.append(span_in_range)
    if t.total_tensor_size_in_bytes:
        rules += WITH_TOTAL
    if t.guaranteed_base_offset_alignment:
        rules += WITH_ALIGNMENT
    if role == OUTPUT:
        rules += ON_OUTPUTS
    return judge(rules, t, len(t.sizes))


_VERDICTS = {INPUT: "_flawless_input", OUTPUT: "_flawless_output"}


def flawless(t: TensorDesc, role: str) -> bool:
    """Whether `t` keeps every tensor rule in this role. The verdict is stored with the desc, which is frozen."""
    verdict: bool | None = t.__dict__.get(_VERDICTS[role])
    if verdict is None:
        verdict = t.__dict__[_VERDICTS[role]] = next(broken(t, role), None) is None
    return verdict
