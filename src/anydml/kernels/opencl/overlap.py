"""Memory of tensors that may overlap on a device."""

from anydml.kernels.kernel import DeviceMemory

Span = tuple[DeviceMemory, int]  # with the bytes that a tensor takes


def overlap(a: Span, b: Span) -> bool:
    """Whether two tensors have bytes in common."""
    (one, n), (two, m) = a, b
    return one.data is two.data and one.offset < two.offset + m and two.offset < one.offset + n
