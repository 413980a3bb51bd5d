"""Plans of eager calls, from the kinds of their arguments alone. Calls, their descriptions and tracing use the same plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anydml.devices.binding import refused_dtype
from anydml.errors import BindingError
from anydml.feature_level import FeatureLevel
from anydml.functional import matrix_multiply, slice
from anydml.functional.inputs import BOOL, Several, fault
from anydml.functional.plan import Placed, Plan
from anydml.functional.request import Request
from anydml.functional.run import packed, unspellable_layout
from anydml.schema.check import check
from anydml.schema.operator import Desc
from anydml.tensor import four_bit

PLANS: Mapping[str, Callable[..., Plan]] = {  # of operators whose arguments are more than fields
    "SLICE": slice.plan_slice,
    "SLICE1": slice.plan_slice1,
    "MATRIX_MULTIPLY_INTEGER": matrix_multiply.plan_integer,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": matrix_multiply.plan_quantized,
}


def plan_call(
    cls: type[Desc], level: FeatureLevel, kinds: tuple[Any, ...], attributes: Any, out: Any, sizes: Any, data_type: Any
) -> Plan:
    """The plan of a call; BindingError or DescError if its arguments do not fit.

    kinds: of the tensors. out: the layouts of given outputs, or None.
    """
    each = [x for kind in kinds for x in (kind if isinstance(kind, Several) else (kind,))]
    special = PLANS.get(cls.spec.name)
    for kind in each:
        if isinstance(kind, tuple) and (reason := refused(kind[2]) if special is None else refused_dtype(kind[2])) is not None:
            raise fault("", reason)
    if special is not None:
        if any(isinstance(kind, Several) for kind in kinds):
            raise fault("", "takes an array, not a list")
        if out is not None and not (out and isinstance(out[-1], np.dtype)):
            raise fault("out", "takes an array")
        return special(cls, level, kinds, attributes, written_directly(out), sizes, data_type)
    copied = {place for place, kind in enumerate(each) if isinstance(kind, tuple) and unspellable_layout(kind)}
    request = Request(cls, level, described(kinds), attributes, sizes, data_type)
    request.infer()
    if request.faults:
        raise BindingError(request.faults)
    empty = request.empty()
    descs = request.output_descs(None if empty else written_directly(out))
    if request.faults:
        raise BindingError(request.faults)
    checked = check(request.desc(descs), level)
    if request.uninferred is not None:  # no rule is broken: a bug of the operator's file
        raise request.uninferred
    inputs = [
        Placed(
            i.name,
            i.place,
            None if i.sizes == i.shape and not i.number else i.sizes,
            i.number,
            i.shape if i.placed else None,
            copied=i.place in copied,
            packed=isinstance(i.kind, tuple) and four_bit(i.kind[2]) is not None,
            truth=isinstance(each[i.place], tuple) and each[i.place][2] == BOOL,
        )
        for i in request.inputs
    ]
    outputs: list[Any] = []
    for f in cls.spec.outputs:
        found = descs.get(f.name)
        if found is None:
            outputs.append(None)
        elif f.sized_by:
            outputs.append([(f"{f.name}[{i}]", t, request.shape(t.sizes)) for i, t in enumerate(found)])
        else:
            outputs.append((f.name, found, request.shape(request.true_sizes(f.name) if empty else found.sizes)))
    in_place = frozenset(i.name for i in request.inputs if i.field.wire in cls.spec.in_place)
    return Plan(checked, tuple(inputs), len(each), tuple(outputs), in_place, empty)


def refused(dtype: np.dtype[Any]) -> str | None:
    """The reason why no operator takes arrays of this dtype; None if there is none."""
    return None if dtype == BOOL or four_bit(dtype) is not None else refused_dtype(dtype)


def described(kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """The kinds with packed layouts instead of those that no desc can express, whose arrays are copied."""
    return tuple(map(_described, kinds))


def _described(kind: Any) -> Any:
    if isinstance(kind, Several):
        return Several(map(_described, kind))
    return packed(kind) if isinstance(kind, tuple) and unspellable_layout(kind) else kind


def written_directly(out: Any) -> Any:
    """The layouts of given outputs, without strides where results are copied to them afterwards."""
    if out is None:
        return None
    if not out or not isinstance(out[-1], np.dtype):
        return tuple(map(written_directly, out))
    return (out[0], None, out[2]) if four_bit(out[2]) is not None or unspellable_layout(out) else out
