"""Plans of SLICE1 and SLICE. An array with negative strides is not copied: the window of SLICE1 is reversed with it."""

from __future__ import annotations

from typing import Any

from anydml.feature_level import FeatureLevel
from anydml.fork_safety import guard
from anydml.functional.plan import Placed, Plan
from anydml.functional.run import Signature, fail, output_desc, packed, unspellable_layout
from anydml.schema.check import Checked, check
from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc, integers


def plan_slice1(
    cls: Any, level: FeatureLevel, kinds: tuple[Any, ...], attributes: Any, out: Any, sizes: Any, data_type: Any
) -> Plan:
    """The plan of SLICE1. sizes: those of the output; by default as large as the window allows."""
    layout = _layout(kinds[0])
    shape, strides, dtype = layout
    reversed_ = tuple(i for i, (n, s) in enumerate(zip(shape, strides, strict=True)) if n > 1 and s < 0)
    layout = shape, tuple(abs(s) if i in reversed_ else s for i, s in enumerate(strides)), dtype
    names = ("input_window_offsets", "input_window_sizes", "input_window_strides")
    offsets, window, steps = (
        None if x is None and "strides" in n else integers(x, n) for n, x in zip(names, attributes, strict=True)
    )
    asked = None if sizes is None else integers(sizes, "output_sizes")
    assert offsets is not None
    assert window is not None
    copied = unspellable_layout(layout)
    desc: Any = slice1_desc(TensorDesc.of_layout(*(packed(layout) if copied else layout)), offsets, window, steps, asked, out)
    checked = check(desc, level)
    if reversed_:
        along = [*zip(shape, offsets, window, strict=True)]
        checked = check(
            cls(
                input_tensor=desc.input_tensor,
                output_tensor=desc.output_tensor,
                input_window_offsets=tuple(n - o - w if i in reversed_ else o for i, (n, o, w) in enumerate(along)),
                input_window_sizes=window,
                input_window_strides=tuple(-s if i in reversed_ else s for i, s in enumerate(desc.input_window_strides)),
            ),
            level,
        )
    return _plan(checked, Placed("input_tensor", 0, copied=copied, reversed=reversed_))


def plan_slice(
    cls: type[Desc], level: FeatureLevel, kinds: tuple[Any, ...], attributes: Any, out: Any, sizes: Any, data_type: Any
) -> Plan:
    """The plan of SLICE."""
    layout = _layout(kinds[0])
    offsets, size = integers(attributes[0], "offsets"), integers(attributes[1], "sizes")
    strides = None if attributes[2] is None else integers(attributes[2], "strides")
    copied = unspellable_layout(layout)
    desc = slice_desc(TensorDesc.of_layout(*(packed(layout) if copied else layout)), offsets, size, strides, out)
    return _plan(check(desc, level), Placed("input_tensor", 0, copied=copied))


def _layout(kind: Any) -> Signature:
    if not isinstance(kind, tuple) or not kind[0] or 0 in kind[0]:
        raise fail("input", "takes an array of at least one element and one dimension")
    found: Signature = kind
    return found


def _plan(checked: Checked[Desc], placed: Placed) -> Plan:
    desc: Any = checked.desc
    return Plan(checked, (placed,), 1, (("output_tensor", desc.output_tensor, desc.output_tensor.sizes),))


def slice1_desc(
    input_tensor: TensorDesc,
    input_window_offsets: tuple[int, ...],
    input_window_sizes: tuple[int, ...],
    input_window_strides: tuple[int, ...] | None,
    output_sizes: tuple[int, ...] | None,
    out: Any = None,
) -> Desc:
    with guard:  # here and not above: the other functions do not need it
        from anydml.operators.slice import Slice1, max_copied
    strides = (1,) * len(input_window_sizes) if input_window_strides is None else input_window_strides
    if output_sizes is None:
        # if a window is invalid and has no largest output, 1 is used and the check reports the fault
        output_sizes = tuple(
            1 if size < 1 or stride == 0 else max_copied(size, stride)
            for size, stride in zip(input_window_sizes, strides, strict=False)
        )
    return Slice1(
        input_tensor=input_tensor,
        output_tensor=output_desc(TensorDesc(input_tensor.data_type, output_sizes), out),
        dimension_count=len(input_tensor.sizes),
        input_window_offsets=input_window_offsets,
        input_window_sizes=input_window_sizes,
        input_window_strides=strides,
    )


def slice_desc(
    input_tensor: TensorDesc,
    offsets: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...] | None,
    out: Any = None,
) -> Desc:
    with guard:
        from anydml.operators.slice import Slice
    return Slice(
        input_tensor=input_tensor,
        output_tensor=output_desc(TensorDesc(input_tensor.data_type, sizes), out),
        dimension_count=len(input_tensor.sizes),
        offsets=offsets,
        sizes=sizes,
        strides=(1,) * len(sizes) if strides is None else strides,
    )
