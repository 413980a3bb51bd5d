"""Loads of a vector of elements at computed addresses."""

from __future__ import annotations

from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value


def gathered(body: Body, element: Kind, base: str, offsets: Value) -> Value:
    """The elements at byte offsets from a base."""
    lanes = offsets.kind.lanes
    vector = Kind(element.element, lanes)
    if "avx512f" in body.target.features and element.bits in (32, 64):
        pointers = body.op(f"getelementptr i8, ptr {base}, {offsets.kind.text} {offsets.name}")
        name = f"llvm.masked.gather.v{lanes}{element.element}.v{lanes}p0"
        mask = ", ".join(["i1 true"] * lanes)
        kinds = f"<{lanes} x ptr>", "i32", f"<{lanes} x i1>", vector.text
        body.declared[f"declare {vector.text} @{name}({', '.join(kinds)})"] = None
        arguments = zip(kinds, (pointers, "1", f"<{mask}>", "poison"), strict=True)
        return body.value(f"call {vector.text} @{name}({', '.join(' '.join(a) for a in arguments)})", vector)
    found = body.undefined(vector)
    for i in range(lanes):
        found = found.replaced(i, body.loaded(element, base, offsets.lane(i).name))
    return found


def has_masks(target: Target, element: Kind) -> bool:
    """Whether some lanes of a vector can be loaded by one instruction."""
    return "avx512bw" in target.features or ("avx2" in target.features and element.bits in (32, 64))
